//! The socket at which the flight recorder's samples are handed over, next to the status
//! socket.
//!
//! Members of a group may connect. Each chunk is sent from where the flight recorder keeps
//! it, which takes memory only if the recorder discards it meanwhile.

use std::io;
use std::iter;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam::channel::Sender;

use super::socket::{self, Access, Answer, Answers, Limits, Part, Service};
use crate::flight_recorder::{Chunk, Held, Hello, Message, Refusal, Request, wire};
use crate::host::Host;
use crate::housekeeping::Store;
use crate::sampling::Command;

/// How long the sampler thread may take.
const TIMEOUT: Duration = Duration::from_secs(2);

/// What the users of the socket may use.
const LIMITS: Limits = Limits {
    connections: 16,
    connections_each: 4,
    // While it is sent a capture may take as much memory as the flight recorder.
    transfers: 2,
    transfers_each: 1,
    // Each one ends a chunk of the flight recorder.
    requests: (4.0, 0.5),
    // 64 MB at once, then 32 MB a second.
    writes: (1_000.0, 500.0),
    request_time: Duration::from_secs(5),
    answer_time: Duration::from_secs(5),
    rate: 4e6,
};

/// The capture socket of an agent whose status socket is `status`.
pub(crate) fn socket(status: &Path) -> PathBuf {
    let name = status.file_name().unwrap_or_default().to_string_lossy();
    status.with_file_name(name.replace("status", "capture").replace("mmv-agent", "mmv-capture"))
}

/// Hands samples over at a socket to those with access, as long as the service is there.
///
/// # Errors
///
/// From the system.
pub(crate) fn serve(
    socket: &Path,
    access: Access,
    host: Host,
    store: Arc<Store>,
    sampler: Sender<Command>,
) -> io::Result<Service> {
    serve_within(LIMITS, socket, access, Captures { host, store, sampler })
}

fn serve_within(
    limits: Limits,
    socket: &Path,
    access: Access,
    captures: Captures,
) -> io::Result<Service> {
    Service::start(socket, access, "capture", limits, captures)
}

/// Makes the answers.
struct Captures {
    host: Host,
    store: Arc<Store>,
    sampler: Sender<Command>,
}

impl Answers for Captures {
    const LONGEST_REQUEST: usize = 200;

    fn prepare(&mut self, _: Instant) -> Result<(), Instant> {
        Ok(())
    }

    fn answer(&mut self, request: &[u8]) -> Option<Answer> {
        match self.held(request) {
            Ok(held) => {
                let size = held.chunks.iter().map(|chunk| chunk.bytes.len() as u64).sum();
                let hello = line(&Message::Hello(self.hello(&held)));
                let parts = iter::once(hello).chain(chunks(held.chunks));
                Some(Answer { size, parts: Box::new(parts.chain([line(&Message::End)])) })
            }
            Err(refusal) => {
                let parts = Box::new(iter::once(line(&Message::Refused(refusal))));
                Some(Answer { size: 0, parts })
            }
        }
    }

    fn refusal(&self) -> Vec<u8> {
        bytes(&Message::Refused(Refusal::Busy))
    }
}

impl Captures {
    /// The samples that are requested.
    fn held(&self, request: &[u8]) -> Result<Held, Refusal> {
        let Request { last } = serde_json::from_slice(request).map_err(|_| Refusal::Request)?;
        let last = last.map(Duration::try_from_secs_f64).transpose();
        let last = last.map_err(|_| Refusal::Request)?;
        let capture = |reply| Command::Capture(last, reply);
        let held = socket::ask(&self.sampler, capture, TIMEOUT);
        let held = held.ok_or(Refusal::Nothing)?.ok_or(Refusal::NotConfigured)?;
        if held.chunks.is_empty() { Err(Refusal::Nothing) } else { Ok(held) }
    }

    fn hello(&self, held: &Held) -> Hello {
        let server = self.store.server();
        Hello {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id().cast_signed(),
            host: self.host.name.clone(),
            timezone: self.host.timezone.clone(),
            zoneinfo: self.host.zoneinfo.clone(),
            server_pid: server.pid,
            server_seqnum: server.seqnum,
            since: wire::nanos(held.since),
        }
    }
}

/// The chunks: of each its line, after its shape if that is another one, and its bytes.
fn chunks(chunks: Vec<Arc<Chunk>>) -> impl Iterator<Item = Part> {
    let mut before: Option<Arc<Chunk>> = None;
    chunks.into_iter().flat_map(move |chunk| {
        let mut head = Vec::new();
        // A vector takes all that is written.
        let _ = wire::send_head(&chunk, before.as_deref(), &mut head);
        before = Some(Arc::clone(&chunk));
        [Arc::new(head) as Part, Arc::new(BytesOf(chunk))]
    })
}

/// The bytes of a chunk, without a copy.
struct BytesOf(Arc<Chunk>);

impl AsRef<[u8]> for BytesOf {
    fn as_ref(&self) -> &[u8] {
        &self.0.bytes
    }
}

fn line(message: &Message<'_>) -> Part {
    Arc::new(bytes(message))
}

fn bytes(message: &Message<'_>) -> Vec<u8> {
    let mut line = Vec::new();
    // A vector takes all that is written.
    let _ = wire::send(message, &mut line);
    line
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;
    use std::thread;

    use crossbeam::channel::{Receiver, unbounded};
    use pcp_types::Timestamp;

    use super::super::socket::small;
    use super::*;
    use crate::flight_recorder::Shape;

    /// A chunk that no socket accepts at once.
    fn large() -> Arc<Chunk> {
        Arc::new(Chunk {
            shape: Arc::new(Shape::of(Arc::default(), Vec::new())),
            there: Vec::new(),
            after_gap: false,
            first: Timestamp::EPOCH,
            last: Timestamp::EPOCH,
            samples: 0,
            bytes: vec![0; 4_000_000],
        })
    }

    /// Serves at a socket; returns the commands to the sampler.
    fn serve_in(dir: &Path, limits: Limits) -> (PathBuf, Service, Receiver<Command>) {
        let socket = socket(&dir.join("status.sock"));
        let (sampler, inbox) = unbounded();
        let captures =
            Captures { host: Host::here(), store: Arc::new(Store::in_memory()), sampler };
        let service = serve_within(limits, &socket, Access::Owner, captures).unwrap();
        (socket, service, inbox)
    }

    fn ask(socket: &Path) -> UnixStream {
        let mut stream = UnixStream::connect(socket).unwrap();
        stream.write_all(b"{\"last\":null}\n").unwrap();
        stream
    }

    fn answer(mut stream: UnixStream) -> Vec<u8> {
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        answer
    }

    /// Answers captures with a chunk until there are no more.
    fn give(inbox: Receiver<Command>, chunk: Arc<Chunk>) -> thread::JoinHandle<()> {
        thread::spawn(move || {
            for command in inbox {
                let Command::Capture(None, reply) = command else { panic!() };
                let chunks = vec![Arc::clone(&chunk)];
                reply.send(Some(Held { chunks, since: Timestamp::EPOCH })).unwrap();
            }
        })
    }

    #[test]
    fn the_socket_is_next_to_the_status_socket() {
        for (status, capture) in [
            ("/run/mmv-agent/status.sock", "/run/mmv-agent/capture.sock"),
            ("/a/mmv-agent/.mmv-agent.sock", "/a/mmv-agent/.mmv-capture.sock"),
        ] {
            assert_eq!(socket(Path::new(status)), Path::new(capture));
        }
    }

    #[test]
    fn a_client_that_does_not_read_delays_no_other_and_the_samples_are_freed() {
        let dir = tempfile::tempdir().unwrap();
        let (socket, service, inbox) = serve_in(dir.path(), small());
        let chunk = large();
        let sampler = give(inbox, Arc::clone(&chunk));
        let begun = Instant::now();
        let deaf = ask(&socket);
        let mut slow = ask(&socket);
        let whole = answer(ask(&socket));
        assert!(whole.ends_with(b"\"end\"\n") && whole.len() > chunk.bytes.len());
        assert!(begun.elapsed() < small().answer_time, "{:?}", begun.elapsed());
        let mut some = [0; 1000];
        assert!(slow.read(&mut some).unwrap() > 0);
        thread::sleep(small().answer_time * 2);
        for stream in [deaf, slow] {
            let cut = answer(stream);
            assert!(!cut.ends_with(b"\"end\"\n") && cut.len() < chunk.bytes.len());
        }
        drop(service);
        sampler.join().unwrap();
        assert_eq!(Arc::strong_count(&chunk), 1);
    }

    #[test]
    fn further_captures_wait_until_others_are_sent() {
        let dir = tempfile::tempdir().unwrap();
        let limits = Limits { transfers_each: 1, ..small() };
        let time = limits.answer_time;
        let (socket, _service, inbox) = serve_in(dir.path(), limits);
        let _sampler = give(inbox, large());
        let begun = Instant::now();
        let deaf = ask(&socket);
        let whole = answer(ask(&socket));
        assert!(whole.ends_with(b"\"end\"\n"));
        assert!(begun.elapsed() >= time, "{:?}", begun.elapsed());
        drop(deaf);
    }

    #[test]
    fn a_client_without_a_request_is_cut_off_and_delays_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let (socket, _service, inbox) = serve_in(dir.path(), small());
        let silent = UnixStream::connect(&socket).unwrap();
        let next = ask(&socket);
        let Ok(Command::Capture(None, reply)) = inbox.recv() else { panic!() };
        reply.send(None).unwrap();
        assert_eq!(answer(next), b"{\"refused\":\"not-configured\"}\n");
        let begun = Instant::now();
        assert_eq!(answer(silent), b"");
        assert!(begun.elapsed() < small().request_time * 10, "{:?}", begun.elapsed());
    }

    #[test]
    fn a_user_with_too_many_connections_is_refused_another() {
        let dir = tempfile::tempdir().unwrap();
        let (socket, _service, _inbox) = serve_in(dir.path(), small());
        let each = small().connections_each;
        let silent: Vec<_> = (0..each).map(|_| UnixStream::connect(&socket).unwrap()).collect();
        let refused = answer(UnixStream::connect(&socket).unwrap());
        assert_eq!(refused, b"{\"refused\":\"busy\"}\n");
        drop(silent);
    }

    #[test]
    fn what_is_no_request_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (socket, _service, _inbox) = serve_in(dir.path(), small());
        for request in [&[b'x'; 300], b"{\"last\":-1}\n".as_slice(), b"\n", b"\0\n"] {
            let mut stream = UnixStream::connect(&socket).unwrap();
            let _ = stream.write_all(request);
            let mut answer = [0; 22];
            stream.read_exact(&mut answer).unwrap();
            assert_eq!(&answer, b"{\"refused\":\"request\"}\n", "{request:?}");
        }
    }

    #[test]
    fn without_a_sampler_there_are_no_samples() {
        let dir = tempfile::tempdir().unwrap();
        let (socket, _service, inbox) = serve_in(dir.path(), small());
        drop(inbox);
        assert_eq!(answer(ask(&socket)), b"{\"refused\":\"nothing\"}\n");
    }
}

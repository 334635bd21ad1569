//! The socket at which the flight recorder's samples are handed over, next to the status
//! socket.
//!
//! Any process may connect, as any process may read the archives. Clients are served one
//! at a time and have ten seconds each. Meanwhile the chunks that they get stay in
//! memory, and no others.

use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam::channel::Sender;

use crate::flight_recorder::{Held, Hello, Message, Refusal, Request, wire};
use crate::host::Host;
use crate::housekeeping::Store;
use crate::sampling::Command;

/// How long one capture may take in total.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How much is written at once: the timeout applies to each 32 KiB or so.
const AT_ONCE: usize = 16 << 10;
/// The longest request.
const REQUEST: u64 = 200;

/// The capture socket of an agent whose status socket is `status`.
pub(crate) fn socket(status: &Path) -> PathBuf {
    let name = status.file_name().unwrap_or_default().to_string_lossy();
    status.with_file_name(name.replace("status", "capture").replace("mmv-agent", "mmv-capture"))
}

/// Hands samples over at a socket until the process ends.
///
/// # Errors
///
/// From the system.
pub(crate) fn serve(
    socket: &Path,
    host: Host,
    store: Arc<Store>,
    sampler: Sender<Command>,
) -> io::Result<()> {
    Server { host, store, sampler, timeout: TIMEOUT }.serve(socket)
}

/// What is needed to answer.
struct Server {
    host: Host,
    store: Arc<Store>,
    sampler: Sender<Command>,
    timeout: Duration,
}

impl Server {
    fn serve(self, socket: &Path) -> io::Result<()> {
        // A client that disconnects or is too slow gets no more.
        super::socket::serve(socket, "capture", move |stream| drop(self.serve_one(&stream)))
    }

    fn serve_one(&self, stream: &UnixStream) -> io::Result<()> {
        let stream = Timed { stream, until: Instant::now() + self.timeout };
        let mut line = String::new();
        let read = BufReader::new(stream.take(REQUEST)).read_line(&mut line);
        read?;
        let mut out = BufWriter::new(stream);
        match self.answer(&line) {
            Ok(held) => self.hand_over(&held, &mut out)?,
            Err(refusal) => wire::send(&Message::Refused(refusal), &mut out)?,
        }
        out.flush()
    }

    /// The samples that are requested.
    fn answer(&self, line: &str) -> Result<Held, Refusal> {
        let Request { last } = serde_json::from_str(line).map_err(|_| Refusal::Request)?;
        let last = last.map(Duration::try_from_secs_f64).transpose();
        let last = last.map_err(|_| Refusal::Request)?;
        let capture = |reply| Command::Capture(last, reply);
        let held = super::socket::ask(&self.sampler, capture, self.timeout);
        let held = held.ok_or(Refusal::Nothing)?.ok_or(Refusal::NotConfigured)?;
        if held.chunks.is_empty() { Err(Refusal::Nothing) } else { Ok(held) }
    }

    fn hand_over(&self, held: &Held, out: &mut impl Write) -> io::Result<()> {
        let server = self.store.server();
        let hello = Hello {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id().cast_signed(),
            host: self.host.name.clone(),
            timezone: self.host.timezone.clone(),
            zoneinfo: self.host.zoneinfo.clone(),
            server_pid: server.pid,
            server_seqnum: server.seqnum,
            since: wire::nanos(held.since),
        };
        wire::send(&Message::Hello(hello), out)?;
        let mut before = None;
        for chunk in &held.chunks {
            wire::send_chunk(chunk, before, out)?;
            before = Some(&**chunk);
        }
        wire::send(&Message::End, out)
    }
}

/// A stream that fails after a deadline.
#[derive(Clone, Copy)]
struct Timed<'s> {
    stream: &'s UnixStream,
    until: Instant,
}

impl Timed<'_> {
    /// The remaining time.
    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        let mut stream = self.stream;
        stream.read(bytes)
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        let mut stream = self.stream;
        stream.write(&bytes[..bytes.len().min(AT_ONCE)])
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use crossbeam::channel::{Receiver, unbounded};
    use pcp_types::Timestamp;

    use super::*;
    use crate::flight_recorder::{Chunk, Shape};

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
    fn serve_in(dir: &Path, timeout: Duration) -> (PathBuf, Receiver<Command>) {
        let socket = socket(&dir.join("status.sock"));
        let (commands, inbox) = unbounded();
        let store = Arc::new(Store::in_memory());
        let server = Server { host: Host::here(), store, sampler: commands, timeout };
        server.serve(&socket).unwrap();
        (socket, inbox)
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
    fn a_client_that_does_not_read_loses_its_turn_and_the_samples_are_freed() {
        let dir = tempfile::tempdir().unwrap();
        let timeout = Duration::from_millis(300);
        let (socket, inbox) = serve_in(dir.path(), timeout);
        let chunk = large();
        let held = Arc::clone(&chunk);
        let sampler = thread::spawn(move || {
            for _ in 0..3 {
                let Ok(Command::Capture(None, reply)) = inbox.recv() else { panic!() };
                let chunks = vec![Arc::clone(&held)];
                reply.send(Some(Held { chunks, since: Timestamp::EPOCH })).unwrap();
            }
        });
        let begun = Instant::now();
        let deaf = ask(&socket);
        let mut slow = ask(&socket);
        let patient = ask(&socket);
        let whole = answer(patient);
        assert!(whole.ends_with(b"\"end\"\n") && whole.len() > chunk.bytes.len());
        assert!(begun.elapsed() >= timeout * 2, "{:?}", begun.elapsed());
        assert!(begun.elapsed() < timeout * 10, "{:?}", begun.elapsed());
        let mut some = [0; 1000];
        assert!(slow.read(&mut some).unwrap() > 0);
        for stream in [deaf, slow] {
            let cut = answer(stream);
            assert!(!cut.ends_with(b"\"end\"\n") && cut.len() < chunk.bytes.len());
        }
        sampler.join().unwrap();
        assert_eq!(Arc::strong_count(&chunk), 1);
    }

    #[test]
    fn a_client_without_a_request_loses_its_turn() {
        let dir = tempfile::tempdir().unwrap();
        let (socket, inbox) = serve_in(dir.path(), Duration::from_millis(100));
        let silent = UnixStream::connect(&socket).unwrap();
        let next = ask(&socket);
        let Ok(Command::Capture(None, reply)) = inbox.recv() else { panic!() };
        reply.send(None).unwrap();
        assert_eq!(answer(next), b"{\"refused\":\"not-configured\"}\n");
        drop(silent);
    }

    #[test]
    fn without_a_sampler_there_are_no_samples() {
        let dir = tempfile::tempdir().unwrap();
        let (socket, inbox) = serve_in(dir.path(), Duration::from_millis(100));
        drop(inbox);
        assert_eq!(answer(ask(&socket)), b"{\"refused\":\"nothing\"}\n");
    }
}

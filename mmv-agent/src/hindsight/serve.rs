//! The socket at which samples are handed over, beside that of the status.
//!
//! Whoever may connect may have them: all of it is what anybody may read in the
//! archives. One at a time is served, who has ten seconds for all of it; the chunks
//! stay in memory meanwhile, and no more than those.

use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam::channel::{Sender, bounded};

use super::Held;
use super::wire::{self, Hello, Message, Refusal, Request};
use crate::host::Host;
use crate::signals::Event;
use crate::state::Store;
use crate::status::listen;

/// How long one capture may take altogether.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long to wait after a failure.
const PAUSE: Duration = Duration::from_millis(100);
/// How much is written at once: the system waits anew for each 32 KiB or so.
const AT_ONCE: usize = 16 << 10;
/// The longest request.
const REQUEST: u64 = 200;

/// The socket for captures of an agent that tells its status at `status`.
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
    events: Sender<Event>,
) -> io::Result<()> {
    let listener = listen(socket)?;
    let desk = Desk { host, store, events, patience: PATIENCE };
    thread::Builder::new().name("capture".into()).spawn(move || desk.serve_all(&listener))?;
    Ok(())
}

/// What is needed to answer.
struct Desk {
    host: Host,
    store: Arc<Store>,
    events: Sender<Event>,
    patience: Duration,
}

impl Desk {
    fn serve_all(&self, listener: &UnixListener) {
        for stream in listener.incoming() {
            match stream {
                // Whoever goes away, or is too slow, gets no more.
                Ok(stream) => drop(self.serve_one(&stream)),
                // Out of descriptors, perhaps; there may be some later.
                Err(_) => thread::sleep(PAUSE),
            }
        }
    }

    fn serve_one(&self, stream: &UnixStream) -> io::Result<()> {
        let stream = Timed { stream, until: Instant::now() + self.patience };
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

    /// What is wanted by a request.
    fn answer(&self, line: &str) -> Result<Held, Refusal> {
        let Request { last } = serde_json::from_str(line).map_err(|_| Refusal::Request)?;
        let last = last.map(Duration::try_from_secs_f64).transpose();
        let last = last.map_err(|_| Refusal::Request)?;
        let (reply, answer) = bounded(1);
        // An agent that ends has nothing any more.
        self.events.send(Event::Capture(last, reply)).map_err(|_| Refusal::Nothing)?;
        let held = answer.recv_timeout(self.patience).map_err(|_| Refusal::Nothing)?;
        let held = held.ok_or(Refusal::NotConfigured)?;
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

/// A stream that fails when its time has passed.
#[derive(Clone, Copy)]
struct Timed<'s> {
    stream: &'s UnixStream,
    until: Instant,
}

impl Timed<'_> {
    /// What is left of the time.
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
    use crossbeam::channel::{Receiver, unbounded};
    use pcp_types::Timestamp;

    use super::super::ring::Chunk;
    use super::super::shape::Shape;
    use super::*;

    /// A chunk that no socket takes at once.
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

    /// Serves at a socket; gives what the sampler is told.
    fn serve_in(dir: &Path, patience: Duration) -> (PathBuf, Receiver<Event>) {
        let socket = socket(&dir.join("status.sock"));
        let (events, inbox) = unbounded();
        let store = Arc::new(Store::in_memory());
        let desk = Desk { host: Host::here(), store, events, patience };
        let listener = listen(&socket).unwrap();
        thread::spawn(move || desk.serve_all(&listener));
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
    fn the_socket_lies_beside_that_of_the_status() {
        for (status, capture) in [
            ("/run/mmv-agent/status.sock", "/run/mmv-agent/capture.sock"),
            ("/a/mmv-agent/.mmv-agent.sock", "/a/mmv-agent/.mmv-capture.sock"),
        ] {
            assert_eq!(socket(Path::new(status)), Path::new(capture));
        }
    }

    #[test]
    fn one_who_does_not_read_loses_the_turn_and_the_samples_go() {
        let dir = tempfile::tempdir().unwrap();
        let patience = Duration::from_millis(300);
        let (socket, inbox) = serve_in(dir.path(), patience);
        let chunk = large();
        let held = Arc::clone(&chunk);
        let sampler = thread::spawn(move || {
            for _ in 0..3 {
                let Ok(Event::Capture(None, reply)) = inbox.recv() else { panic!() };
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
        assert!(begun.elapsed() >= patience * 2, "{:?}", begun.elapsed());
        assert!(begun.elapsed() < patience * 10, "{:?}", begun.elapsed());
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
    fn one_who_says_nothing_loses_the_turn() {
        let dir = tempfile::tempdir().unwrap();
        let (socket, inbox) = serve_in(dir.path(), Duration::from_millis(100));
        let silent = UnixStream::connect(&socket).unwrap();
        let next = ask(&socket);
        let Ok(Event::Capture(None, reply)) = inbox.recv() else { panic!() };
        reply.send(None).unwrap();
        assert_eq!(answer(next), b"{\"refused\":\"not-configured\"}\n");
        drop(silent);
    }

    #[test]
    fn a_sampler_that_has_ended_has_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let (socket, inbox) = serve_in(dir.path(), Duration::from_millis(100));
        drop(inbox);
        assert_eq!(answer(ask(&socket)), b"{\"refused\":\"nothing\"}\n");
    }
}

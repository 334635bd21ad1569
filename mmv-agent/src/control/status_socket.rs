//! The socket at which a running agent reports its status.
//!
//! A client gets one JSON object and the end of the stream. The sampler thread makes
//! the status on request only, and at most ten times a second.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam::channel::Sender;

use super::socket::{self, Access, Answer, Answers, Limits, Part, Service};
use crate::sampling::Command;
use crate::telemetry::Status;

/// How old an answer may be that is sent again.
const FRESH: Duration = Duration::from_millis(100);
/// An answer is sent again for this many times the time that it took to be made.
const REST: u32 = 20;
/// How long the sampler thread may take.
const TIMEOUT: Duration = Duration::from_secs(2);
/// How long to wait after an agent has refused to answer.
const PAUSE: Duration = Duration::from_millis(50);

/// What the users of the socket may use.
const LIMITS: Limits = Limits {
    connections: 32,
    connections_each: 8,
    transfers: 32,
    transfers_each: 8,
    requests: (40.0, 20.0),
    // 16 MB a second.
    writes: (1_000.0, 250.0),
    request_time: Duration::ZERO,
    answer_time: Duration::from_secs(4),
    rate: 4e6,
};

/// Reports the status at a socket as long as the service is there.
///
/// # Errors
///
/// From the system.
pub(crate) fn serve(socket: &Path, sampler: Sender<Command>) -> io::Result<Service> {
    serve_within(LIMITS, socket, sampler)
}

fn serve_within(limits: Limits, socket: &Path, sampler: Sender<Command>) -> io::Result<Service> {
    let reports = Reports { sampler, last: None };
    Service::start(socket, Access::Everyone, "status", limits, reports)
}

/// Makes the answers.
struct Reports {
    sampler: Sender<Command>,
    /// The last one, and until when it is sent.
    last: Option<(Instant, Arc<Vec<u8>>)>,
}

impl Answers for Reports {
    const LONGEST_REQUEST: usize = 0;

    fn prepare(&mut self, now: Instant) -> Result<(), Instant> {
        if self.last.as_ref().is_none_or(|(until, _)| *until <= now) {
            self.last = report(&self.sampler);
        }
        Ok(())
    }

    fn answer(&mut self, _: &[u8]) -> Option<Answer> {
        let (_, report) = self.last.as_ref()?;
        let part: Part = Arc::<Vec<u8>>::clone(report);
        Some(Answer { size: report.len() as u64, parts: Box::new([part].into_iter()) })
    }
}

/// The status in JSON, and until when it is sent.
fn report(sampler: &Sender<Command>) -> Option<(Instant, Arc<Vec<u8>>)> {
    let status = socket::ask(sampler, Command::Status, TIMEOUT)?;
    let begun = Instant::now();
    let mut bytes = serde_json::to_vec(&status).ok()?;
    bytes.push(b'\n');
    Some((Instant::now() + FRESH.max(begun.elapsed() * REST).min(TIMEOUT), Arc::new(bytes)))
}

/// Asks the agent at a socket for its status; again for a while if the agent has too many
/// connections of this user.
///
/// # Errors
///
/// From the system, if no agent answers; `InvalidData` for an unexpected answer.
pub(crate) fn ask(socket: &Path) -> io::Result<Status> {
    let begun = Instant::now();
    loop {
        match serde_json::from_slice(&ask_once(socket)?) {
            Err(error) if error.is_eof() && begun.elapsed() < TIMEOUT => thread::sleep(PAUSE),
            answer => {
                return answer.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error));
            }
        }
    }
}

fn ask_once(socket: &Path) -> io::Result<Vec<u8>> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(TIMEOUT * 3))?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use std::{fs, thread};

    use crossbeam::channel::unbounded;

    use super::*;

    #[test]
    fn many_clients_get_an_answer_and_the_sampler_few_requests() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("deeper").join("status.sock");
        let (commands, inbox) = unbounded();
        fs::create_dir(dir.path().join("deeper")).unwrap();
        fs::write(&socket, "stale").unwrap();
        let service = serve(&socket, commands).unwrap();
        let sampler = thread::spawn(move || {
            let mut asked = 0;
            while let Ok(Command::Status(reply)) = inbox.recv() {
                asked += 1;
                reply.send(Status { pid: asked, ..Status::default() }).unwrap();
            }
            asked
        });
        let begun = Instant::now();
        for _ in 0..50 {
            assert!(ask(&socket).unwrap().pid > 0);
        }
        let most = 2 + begun.elapsed().as_millis() / FRESH.as_millis();
        drop(service);
        assert!(!socket.exists());
        let asked = sampler.join().unwrap();
        assert!(u128::from(asked) <= most, "{asked} times");
    }

    /// Serves a status that no socket accepts at once.
    fn serve_large(socket: &Path, limits: Limits) -> Service {
        let (commands, inbox) = unbounded();
        thread::spawn(move || {
            for command in inbox {
                let Command::Status(reply) = command else { panic!() };
                let status = Status { version: "v".repeat(4_000_000), ..Status::default() };
                reply.send(status).unwrap();
            }
        });
        serve_within(limits, socket, commands).unwrap()
    }

    #[test]
    fn clients_that_do_not_read_a_large_status_delay_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("status.sock");
        let limits = Limits { answer_time: Duration::from_secs(60), ..socket::small() };
        let others = limits.connections_each - 1;
        let _service = serve_large(&socket, limits);
        let slow: Vec<_> = (0..others).map(|_| UnixStream::connect(&socket).unwrap()).collect();
        for _ in 0..3 {
            assert_eq!(ask(&socket).unwrap().version.len(), 4_000_000);
        }
        drop(slow);
    }

    #[test]
    fn a_client_that_reads_too_slowly_is_cut_off_and_another_one_has_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("status.sock");
        let limits = socket::small();
        let each = limits.connections_each;
        let _service = serve_large(&socket, limits);
        let slow: Vec<_> = (0..each).map(|_| UnixStream::connect(&socket).unwrap()).collect();
        // It is refused at first, and asks again.
        assert_eq!(ask(&socket).unwrap().version.len(), 4_000_000);
        for mut stream in slow {
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).unwrap();
            assert!(answer.len() < 4_000_000, "{}", answer.len());
        }
    }

    #[test]
    fn without_an_agent_there_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        assert!(ask(&dir.path().join("status.sock")).is_err());
    }
}

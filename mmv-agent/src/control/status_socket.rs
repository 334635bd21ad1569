//! The socket at which a running agent reports its status.
//!
//! A client gets one JSON object and the end of the stream. The sampler thread makes the status on
//! request only, and at most ten times a second. The part about files comes from the loader; while
//! that is busy with files of any user, the answer repeats the previous one.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam::channel::{Receiver, RecvTimeoutError, Sender, bounded};

use super::query_error::QueryError;
use super::socket::{Answer, ClientLimits, RateLimit, Service};
use crate::limits::Quota;
use crate::sampling::SamplerCommand;
use crate::telemetry::{FileReport, Status};
use crate::threads;

/// Time for which a status answer is reused. Computing it takes the sampler's time.
const REUSE_TIME: Duration = Duration::from_millis(100);
/// An answer that is expensive to compute is reused for this multiple of its processor time.
const REUSE_FACTOR: u32 = 20;
const SAMPLER_TIMEOUT: Duration = Duration::from_secs(2);
/// Time for the loader's reply if it has replied before.
const FILES_TIMEOUT: Duration = Duration::from_millis(500);
/// Time for which a client waits for data.
const READ_TIMEOUT: Duration = Duration::from_secs(6);
/// Pause of a client after an agent has refused to answer.
const REFUSED_PAUSE: Duration = Duration::from_millis(50);

const LIMITS: ClientLimits = ClientLimits {
    connections: Quota { each: 8, all: 32 },
    transfers: Quota { each: 8, all: 32 },
    requests: RateLimit { at_once: 40.0, per_second: 20.0 },
    // 16 MB a second.
    writes: RateLimit { at_once: 1_000.0, per_second: 250.0 },
    answer_time: Duration::from_secs(4),
    rate: 4e6,
};

/// Reports the status at a socket as long as the service exists.
///
/// # Errors
///
/// From the system.
pub(crate) fn serve(socket: &Path, sampler: Sender<SamplerCommand>) -> io::Result<Service> {
    serve_within(LIMITS, socket, sampler)
}

fn serve_within(
    limits: ClientLimits,
    socket: &Path,
    sampler: Sender<SamplerCommand>,
) -> io::Result<Service> {
    let mut reports = Reports { sampler, last: None, known: None, awaited: None };
    Service::start(socket, "status", limits, move || reports.answer())
}

struct Reports {
    sampler: Sender<SamplerCommand>,
    /// The last answer, if there was one, and the time until which it is sent.
    last: Option<(Instant, Option<Answer>)>,
    /// The loader's last reply, and the time of its request.
    known: Option<(Instant, FileReport)>,
    /// The channel for the loader's next reply, and the time of its request.
    awaited: Option<(Instant, Receiver<FileReport>)>,
}

impl Reports {
    fn answer(&mut self) -> Option<Answer> {
        if self.last.as_ref().is_none_or(|(until, _)| *until < Instant::now()) {
            self.last = Some(match self.report() {
                Some((until, report)) => (until, Some(report)),
                None => (Instant::now() + REUSE_TIME, None),
            });
        }
        self.last.as_ref()?.1.clone()
    }

    /// Returns the status as JSON, and the time until which it is sent.
    fn report(&mut self) -> Option<(Instant, Answer)> {
        // A reply that came too late for the previous request.
        self.take_files(Duration::ZERO);
        let mut files = None;
        if self.awaited.is_none() {
            let (reply, answer) = bounded(1);
            self.awaited = Some((Instant::now(), answer));
            files = Some(reply);
        }
        let (reply, status) = bounded(1);
        self.sampler.send(SamplerCommand::Status(reply, files)).ok()?;
        let mut status = status.recv_timeout(SAMPLER_TIMEOUT).ok()?;
        self.take_files(if self.known.is_some() { FILES_TIMEOUT } else { SAMPLER_TIMEOUT });
        if let Some((asked, files)) = &self.known {
            status.files_age = Some(asked.elapsed().as_secs_f64());
            status.sources.clone_from(&files.sources);
            status.owners.clone_from(&files.owners);
            status.largest_metrics.clone_from(&files.largest_metrics);
        }
        let worked_before = threads::processor_time();
        let mut bytes = serde_json::to_vec(&status).ok()?;
        bytes.push(b'\n');
        let worked = threads::processor_time().saturating_sub(worked_before);
        let reuse_time = REUSE_TIME.max(worked * REUSE_FACTOR).min(SAMPLER_TIMEOUT);
        Some((Instant::now() + reuse_time, Arc::new(bytes)))
    }

    /// Takes the loader's reply, if it comes within `wait`.
    fn take_files(&mut self, wait: Duration) {
        let Some((asked, answer)) = self.awaited.take() else { return };
        match answer.recv_timeout(wait) {
            Ok(files) => self.known = Some((asked, files)),
            Err(RecvTimeoutError::Timeout) => self.awaited = Some((asked, answer)),
            Err(RecvTimeoutError::Disconnected) => {}
        }
    }
}

/// Queries the status of the agent at a socket. Repeats this for a while if the agent has too many
/// connections of this user.
///
/// # Errors
///
/// Any [`QueryError`].
pub(crate) fn ask(socket: &Path) -> Result<Status, QueryError> {
    let begun = Instant::now();
    loop {
        let answer = ask_once(socket).map_err(|error| QueryError::new(error, READ_TIMEOUT))?;
        match serde_json::from_slice(&answer) {
            Err(error) if error.is_eof() && begun.elapsed() < SAMPLER_TIMEOUT => {
                thread::sleep(REFUSED_PAUSE);
            }
            Err(error) if error.is_eof() => return Err(QueryError::Closed),
            Err(error) => return Err(QueryError::Failed(error.into())),
            Ok(status) => return Ok(status),
        }
    }
}

fn ask_once(socket: &Path) -> io::Result<Vec<u8>> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(READ_TIMEOUT))?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::{fs, thread};

    use crossbeam::channel::unbounded;

    use super::super::socket::small;
    use super::*;
    use crate::telemetry::SourceStatus;

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
            while let Ok(SamplerCommand::Status(reply, _)) = inbox.recv() {
                asked += 1;
                reply.send(Status { pid: asked, ..Status::default() }).unwrap();
            }
            asked
        });
        let begun = Instant::now();
        for _ in 0..50 {
            assert!(ask(&socket).unwrap().pid > 0);
        }
        let most = 2 + begun.elapsed().as_millis() / REUSE_TIME.as_millis();
        drop(service);
        assert!(!socket.exists());
        let asked = sampler.join().unwrap();
        assert!(u128::from(asked) <= most, "{asked} times");
    }

    /// Serves a status that no socket accepts at once.
    fn serve_large(socket: &Path, limits: ClientLimits) -> Service {
        let (commands, inbox) = unbounded();
        thread::spawn(move || {
            for command in inbox {
                let SamplerCommand::Status(reply, _) = command else { panic!() };
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
        let limits = ClientLimits { answer_time: Duration::from_secs(60), ..small() };
        let others = limits.connections.each - 1;
        let _service = serve_large(&socket, limits);
        let slow: Vec<_> = (0..others).map(|_| UnixStream::connect(&socket).unwrap()).collect();
        for _ in 0..3 {
            assert_eq!(ask(&socket).unwrap().version.len(), 4_000_000);
        }
        drop(slow);
    }

    #[test]
    fn slow_client_is_cut_off_and_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("status.sock");
        let limits = small();
        let each = limits.connections.each;
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
    fn without_an_answer_the_error_says_whether_there_is_an_agent() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("status.sock");
        let text = |path: &Path| ask(path).unwrap_err().to_string();
        let nobody = text(&path);
        assert!(nobody.contains("no agent answers: No such file"), "{nobody}");
        let listener = UnixListener::bind(&path).unwrap();
        let closing = thread::spawn(move || {
            let until = Instant::now() + SAMPLER_TIMEOUT * 2;
            while Instant::now() < until {
                drop(listener.accept());
            }
        });
        let refused = text(&path);
        assert!(refused.contains("closed the connection"), "{refused}");
        assert!(!refused.contains("mmv-agent run"), "{refused}");
        drop(UnixStream::connect(&path).map(|_| thread::sleep(SAMPLER_TIMEOUT)));
        drop(UnixStream::connect(&path));
        closing.join().unwrap();
        let gone = text(&path);
        assert!(gone.contains("no agent answers: Connection refused"), "{gone}");
        let late = QueryError::new(io::ErrorKind::WouldBlock.into(), READ_TIMEOUT).to_string();
        assert_eq!(late, "there is an agent, but it did not answer within 6 seconds");
    }

    #[test]
    fn waiting_for_a_processor_does_not_prolong_reuse_of_an_answer() {
        let (commands, inbox) = unbounded();
        thread::spawn(move || {
            for command in inbox {
                let SamplerCommand::Status(reply, _) = command else { panic!() };
                let status = Status { version: "v".repeat(2_000_000), ..Status::default() };
                reply.send(status).unwrap();
            }
        });
        let mut reports = Reports { sampler: commands, last: None, known: None, awaited: None };
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..4 * thread::available_parallelism().unwrap().get() {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            let worked_before = threads::processor_time();
            let report = reports.report();
            let worked = threads::processor_time().saturating_sub(worked_before);
            is_over.store(true, Ordering::Relaxed);
            let (until, _) = report.unwrap();
            let reuse_time = until.saturating_duration_since(Instant::now());
            assert!(reuse_time <= REUSE_TIME.max(worked * REUSE_FACTOR), "{reuse_time:?}");
        });
    }

    #[test]
    fn a_busy_loader_delays_no_status_and_its_last_answer_is_used() {
        let files = |file: &str| {
            let source = SourceStatus { file: file.to_owned(), ..SourceStatus::default() };
            FileReport { sources: vec![source], ..FileReport::default() }
        };
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("status.sock");
        let (commands, inbox) = unbounded();
        let (loader, asked) = unbounded();
        thread::spawn(move || {
            for command in inbox {
                let SamplerCommand::Status(reply, files) = command else { panic!() };
                reply.send(Status { pid: 7, ..Status::default() }).unwrap();
                if let Some(files) = files {
                    loader.send(files).unwrap();
                }
            }
        });
        let _service = serve(&socket, commands).unwrap();
        let status = || {
            thread::sleep(REUSE_TIME);
            let status = ask(&socket).unwrap();
            assert_eq!(status.pid, 7);
            (status.sources.first().map(|source| source.file.clone()), status.files_age)
        };
        assert_eq!(status(), (None, None), "the loader has never answered");
        let first: Sender<FileReport> = asked.recv().unwrap();
        first.send(files("first")).unwrap();
        // The loader is asked again, and does not answer.
        let (file, age) = status();
        assert_eq!(file.as_deref(), Some("first"));
        assert!(age > Some(2.0), "{age:?}");
        assert_eq!(status().0.as_deref(), Some("first"));
        assert_eq!(asked.len(), 1, "no request is made while one waits");
        asked.recv().unwrap().send(files("second")).unwrap();
        assert_eq!(status().0.as_deref(), Some("second"));
    }
}

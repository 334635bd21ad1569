//! The socket at which a running agent reports its status.
//!
//! A client gets one JSON object and the end of the stream. The sampler thread makes
//! the status on request only, and at most ten times a second.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use crossbeam::channel::Sender;

use super::socket;
use crate::sampling::Command;
use crate::telemetry::Status;

/// How old an answer may be that is sent again.
const FRESH: Duration = Duration::from_millis(100);
/// How long the sampler thread and a client may take.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Reports the status at a socket until the process ends.
///
/// # Errors
///
/// From the system.
pub(crate) fn serve(socket: &Path, sampler: Sender<Command>) -> io::Result<()> {
    let mut last: Option<(Instant, Vec<u8>)> = None;
    socket::serve(socket, "status", move |mut stream| {
        if last.as_ref().is_none_or(|(made, _)| made.elapsed() >= FRESH) {
            last = report(&sampler).map(|report| (Instant::now(), report));
        }
        if let Some((_, report)) = &last {
            // A client that does not read delays the others no longer than this.
            let _ = stream.set_write_timeout(Some(TIMEOUT));
            let _ = stream.write_all(report);
        }
    })
}

fn report(sampler: &Sender<Command>) -> Option<Vec<u8>> {
    let status = socket::ask(sampler, Command::Status, TIMEOUT)?;
    let mut bytes = serde_json::to_vec(&status).ok()?;
    bytes.push(b'\n');
    Some(bytes)
}

/// Asks the agent at a socket for its status.
///
/// # Errors
///
/// From the system, if no agent answers; `InvalidData` for an unexpected answer.
pub(crate) fn ask(socket: &Path) -> io::Result<Status> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(TIMEOUT * 3))?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    serde_json::from_slice(&answer)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
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
        serve(&socket, commands).unwrap();
        let sampler = thread::spawn(move || {
            let mut asked = 0;
            while let Ok(Command::Status(reply)) = inbox.recv_timeout(Duration::from_secs(1)) {
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
        let asked = sampler.join().unwrap();
        assert!(u128::from(asked) <= most, "{asked} times");
    }

    #[test]
    fn without_an_agent_there_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        assert!(ask(&dir.path().join("status.sock")).is_err());
    }
}

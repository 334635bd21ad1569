//! What a running agent is doing, told at a unix socket.
//!
//! Whoever connects gets one JSON object and the end of the stream. The sampler
//! makes it when it is asked, so nobody pays for it otherwise, and at most ten
//! times a second, whoever asks.

mod forecast;
mod text;

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam::channel::{Sender, bounded};
use serde::{Deserialize, Serialize};

use crate::signals::Event;

pub use forecast::{Forecast, Kept};
pub use text::print;

/// How old an answer may be that is given again.
const FRESH: Duration = Duration::from_millis(100);
/// How long anybody waits for anybody.
const PATIENCE: Duration = Duration::from_secs(2);

/// What a running agent is doing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct Status {
    /// The agent's version.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// How long it has been running, in seconds.
    pub uptime: f64,
    /// The files that it knows, by name.
    pub sources: Vec<SourceStatus>,
    /// The groups of its configuration, and a last one for the rest.
    pub groups: Vec<GroupStatus>,
    /// Records handed to the writer since the start.
    pub records: u64,
    /// Values in them.
    pub values: u64,
    /// Records dropped because the queue was full.
    pub dropped: u64,
    /// Ticks passed over because an earlier one took too long.
    pub missed: u64,
    /// Ticks that began more than a tenth of the shortest interval late.
    pub late: u64,
    /// How long after their time ticks began.
    pub lateness: Lateness,
    /// Values logged in a second, over about the last minute.
    pub values_a_second: f64,
    /// Bytes written in a second, over about the last minute.
    pub bytes_a_second: f64,
    /// Bytes that wait for the disk.
    pub queued: u64,
    /// Bytes that may wait.
    pub queue_limit: u64,
    /// What the writer is doing.
    pub archive: ArchiveStatus,
    /// The archives that there are.
    pub kept: Kept,
    /// How long archives will be kept.
    pub forecast: Forecast,
    /// What is kept in memory, if anything is to be.
    pub hindsight: Option<HindsightStatus>,
    /// What failed last, though it may work again.
    pub last_error: Option<LastError>,
}

/// How late ticks were since the start, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Lateness {
    /// Half of them were no later than this.
    pub p50: f64,
    /// And of hundred 99.
    pub p99: f64,
    /// The latest.
    pub max: f64,
}

/// Something that failed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastError {
    /// What.
    pub what: String,
    /// When, in seconds since 1970.
    pub at: i64,
}

/// One file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct SourceStatus {
    /// Its name.
    pub file: String,
    /// `harvested`; `waiting`, with nothing wrong with it; or `quarantined`.
    pub state: String,
    /// For how long, and for that reason, in seconds.
    pub since: f64,
    /// Why it is not harvested now; `None`: it is.
    pub reason: Option<String>,
    /// How many values it has, present or not.
    pub values: usize,
}

/// One group.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct GroupStatus {
    /// Its name.
    pub name: String,
    /// Seconds from one sample to the next.
    pub interval: f64,
    /// Values of its last record.
    pub values: usize,
    /// What its records come to in a day, in bytes, before compression.
    pub bytes_a_day: u64,
}

/// Samples that are kept in memory.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct HindsightStatus {
    /// Seconds from one sample to the next.
    pub interval: f64,
    /// Values of a sample.
    pub values: usize,
    /// How many samples there are.
    pub samples: u64,
    /// Seconds from the first of them to the last.
    pub span: f64,
    /// Bytes of memory that they take, about.
    pub bytes: u64,
    /// Bytes that they may take.
    pub limit: u64,
    /// Ticks passed over because an earlier one took too long.
    pub missed: u64,
}

/// The writer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct ArchiveStatus {
    /// The archive that is being written.
    pub base: Option<String>,
    /// Its volume.
    pub volume: u32,
    /// Records written since the start.
    pub written: u64,
    /// Records that could not be written.
    pub lost: u64,
    /// Bytes written since the start, to all files.
    pub bytes: u64,
    /// Why writing fails at present.
    pub error: Option<String>,
}

/// Answers at a socket until the process ends.
///
/// # Errors
///
/// From the system.
pub(crate) fn serve(socket: &Path, events: Sender<Event>) -> io::Result<()> {
    let listener = listen(socket)?;
    thread::Builder::new().name("status".into()).spawn(move || answer_all(&listener, &events))?;
    Ok(())
}

/// A socket to which anybody may connect.
///
/// # Errors
///
/// From the system.
pub(crate) fn listen(socket: &Path) -> io::Result<UnixListener> {
    if let Some(folder) = socket.parent() {
        fs::create_dir_all(folder)?;
    }
    // The lock on the archives says that nobody else answers there.
    match fs::remove_file(socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(socket)?;
    fs::set_permissions(socket, fs::Permissions::from_mode(0o666))?;
    Ok(listener)
}

fn answer_all(listener: &UnixListener, events: &Sender<Event>) {
    let mut last: Option<(Instant, Vec<u8>)> = None;
    for stream in listener.incoming() {
        let Ok(mut stream) = stream else {
            // Out of descriptors, perhaps; there may be some later.
            thread::sleep(FRESH);
            continue;
        };
        let answer = match last.take().filter(|(made, _)| made.elapsed() < FRESH) {
            Some(answer) => answer,
            None => match ask_sampler(events) {
                Some(answer) => (Instant::now(), answer),
                None => continue,
            },
        };
        // Somebody who does not read does not keep the others waiting for long.
        let _ = stream.set_write_timeout(Some(PATIENCE));
        let _ = stream.write_all(&answer.1);
        last = Some(answer);
    }
}

fn ask_sampler(events: &Sender<Event>) -> Option<Vec<u8>> {
    let (reply, answer) = bounded(1);
    events.send(Event::Status(reply)).ok()?;
    let mut bytes = serde_json::to_vec(&answer.recv_timeout(PATIENCE).ok()?).ok()?;
    bytes.push(b'\n');
    Some(bytes)
}

/// Asks the agent at a socket.
///
/// # Errors
///
/// From the system, when there is no agent; `InvalidData` for another answer
/// than is expected.
pub fn ask(socket: &Path) -> io::Result<Status> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE * 3))?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    serde_json::from_slice(&answer)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests {
    use crossbeam::channel::unbounded;

    use super::*;

    #[test]
    fn many_who_ask_get_an_answer_and_the_sampler_is_asked_seldom() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("deeper").join("status.sock");
        let (events, inbox) = unbounded();
        fs::create_dir(dir.path().join("deeper")).unwrap();
        fs::write(&socket, "stale").unwrap();
        serve(&socket, events).unwrap();
        let sampler = thread::spawn(move || {
            let mut asked = 0;
            while let Ok(Event::Status(reply)) = inbox.recv_timeout(Duration::from_secs(1)) {
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
    fn where_no_agent_is_there_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        assert!(ask(&dir.path().join("status.sock")).is_err());
    }
}

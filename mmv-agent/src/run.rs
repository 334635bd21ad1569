//! The threads: sampler, writer and, for the command, signals.

use std::fs;
use std::io;
use std::path::Path;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use crossbeam::channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use mmv_writer::mapping::guard;
use nix::unistd::{AccessFlags, access};
use pcp_types::Timestamp;
use tracing::{info, warn};

use crate::archive_name::ArchiveNames;
use crate::config::{Invocation, Settings};
use crate::descriptors;
use crate::error::Error;
use crate::host::Host;
use crate::notify;
use crate::queue::{Inlet, queue};
use crate::sampler::{Sampler, SamplerReport};
use crate::schedule::Schedule;
use crate::signals::{self, Event};
use crate::sink::{Sink, SinkReport};

/// After how many missed ticks that is said again.
const LATE_TOLD: u64 = 60;

/// What a run has done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// What was sampled.
    pub sampler: SamplerReport,
    /// What was written.
    pub sink: SinkReport,
}

/// An agent that runs on threads of this process.
///
/// Dropped, it stops by itself, and nobody learns what it did.
#[derive(Debug)]
pub struct RunningAgent {
    events: Sender<Event>,
    sampler: JoinHandle<SamplerReport>,
    writer: JoinHandle<SinkReport>,
}

impl RunningAgent {
    /// Takes a last sample, writes it and the last index entry.
    ///
    /// # Errors
    ///
    /// [`Error::Thread`].
    pub fn stop(self) -> Result<Summary, Error> {
        // It may have come to its end already.
        let _ = self.events.send(Event::Stop);
        self.wait()
    }

    /// Waits until the agent has come to its end by itself.
    ///
    /// # Errors
    ///
    /// [`Error::Thread`].
    pub fn wait(self) -> Result<Summary, Error> {
        let sampler = self.sampler.join().map_err(|_| Error::Thread { thread: "sampler" });
        let sink = self.writer.join().map_err(|_| Error::Thread { thread: "writer" })?;
        Ok(Summary { sampler: sampler?, sink })
    }
}

/// Runs as a command does: ends orderly at TERM and INT, tells systemd.
///
/// # Errors
///
/// Any [`Error`].
pub fn run(invocation: &Invocation) -> Result<Summary, Error> {
    let settings = invocation.settings()?;
    descriptors::raise_limit();
    let (events, inbox) = unbounded();
    let setup = |what| move |source| Error::Setup { what, source };
    signals::listen(events.clone()).map_err(setup("signals"))?;
    let agent = start_with(&settings, events, inbox)?;
    notify::ready();
    let summary = agent.wait()?;
    info!(
        records = summary.sink.written,
        values = summary.sampler.values,
        dropped = summary.sampler.dropped,
        lost = summary.sink.lost,
        missed = summary.sampler.missed,
        "stopped"
    );
    Ok(summary)
}

/// Starts an agent on threads of this process. Signals are left alone, but for
/// SIGBUS, which the guard of the mappings needs.
///
/// # Errors
///
/// Any [`Error`].
pub fn start(settings: &Settings) -> Result<RunningAgent, Error> {
    let (events, inbox) = unbounded();
    start_with(settings, events, inbox)
}

fn start_with(
    settings: &Settings,
    events: Sender<Event>,
    inbox: Receiver<Event>,
) -> Result<RunningAgent, Error> {
    if settings.interval.is_zero() {
        return Err(Error::NoInterval);
    }
    let host = Host { labels: settings.labels.clone(), ..Host::here() };
    let names = ArchiveNames::new(settings.destination.clone(), &host.name);
    let folder = names.folder();
    prepare(&folder).map_err(|source| Error::ArchiveFolder { folder, source })?;
    let setup = |what| move |source| Error::Setup { what, source };
    guard::install().map_err(setup("the SIGBUS guard"))?;

    let (outlet, inlet) = queue(usize::try_from(settings.limits.queue_bytes).unwrap_or(usize::MAX));
    let sink = Sink::new(names, &host);
    let sampler = Sampler::new(settings.mmv_dir.clone(), host, outlet);
    let schedule = Schedule::new(settings.interval, settings.samples, settings.duration);
    let writer = thread::Builder::new()
        .name("writer".into())
        .spawn(move || write_all(sink, &inlet))
        .map_err(setup("the writer thread"))?;
    let sampler = thread::Builder::new()
        .name("sampler".into())
        .spawn(move || sample_all(sampler, schedule, &inbox))
        .map_err(setup("the sampler thread"))?;
    info!(directory = %settings.mmv_dir.display(), interval = ?settings.interval, "sampling");
    Ok(RunningAgent { events, sampler, writer })
}

/// Makes the folder for archives, so that a wrong one is told at once and not
/// when there is something to write.
fn prepare(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    access(folder, AccessFlags::W_OK | AccessFlags::X_OK).map_err(io::Error::from)
}

/// Ticks until it is told to stop or the schedule ends. The sleep between
/// ticks is the wait for an event, so a stop is immediate.
fn sample_all(
    mut sampler: Sampler,
    mut schedule: Schedule,
    inbox: &Receiver<Event>,
) -> SamplerReport {
    let start = Instant::now();
    loop {
        let stopped = match start.checked_add(schedule.due()) {
            Some(due) => inbox.recv_deadline(due) != Err(RecvTimeoutError::Timeout),
            // A tick beyond the end of time: only a stop can come before it.
            None => inbox.recv().map_or(true, |Event::Stop| true),
        };
        let now = start.elapsed();
        let stamp = Timestamp::now();
        if stopped {
            sampler.tick(now, stamp);
            return sampler.report();
        }
        let tick = schedule.tick(now, stamp);
        if tick.missed > 0 {
            let before = sampler.report().missed;
            sampler.note_missed(tick.missed);
            let total = before + tick.missed;
            if before == 0 || before / LATE_TOLD != total / LATE_TOLD {
                warn!(lateness = ?tick.lateness, missed = total, "ticks come too late");
            }
        }
        if tick.gap {
            sampler.note_gap();
        }
        if !sampler.tick(now, stamp) || tick.last {
            return sampler.report();
        }
    }
}

/// Writes what comes until nothing more can come.
fn write_all(mut sink: Sink, inlet: &Inlet) -> SinkReport {
    while let Some(sample) = inlet.next() {
        sink.write(&sample);
        inlet.done(sample);
    }
    sink.finish()
}

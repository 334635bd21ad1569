//! The threads: sampler, writer and, for the command, signals.

use std::fs;
use std::io;
use std::path::Path;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

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
use crate::queue::{Inlet, Job, Order, queue};
use crate::sampler::{Sampler, SamplerReport};
use crate::schedule::{Schedule, time_of_day};
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
    signals::listen(invocation.clone(), events.clone()).map_err(setup("signals"))?;
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

    let (outlet, inlet) = queue(queue_limit(settings));
    let sink = Sink::new(names, &host);
    let sampler = Sampler::new(settings.mmv_dir.clone(), host, settings.groups.clone(), outlet);
    info!(directory = %settings.mmv_dir.display(), interval = ?settings.interval, "sampling");
    for group in &settings.groups {
        let interval = group.interval.unwrap_or(settings.interval);
        info!(group = %group.name, ?interval, log = ?group.log, "sampling");
    }
    let settings = settings.clone();
    let writer = thread::Builder::new()
        .name("writer".into())
        .spawn(move || write_all(sink, &inlet))
        .map_err(setup("the writer thread"))?;
    let sampler = thread::Builder::new()
        .name("sampler".into())
        .spawn(move || Driver::new(sampler, settings).run(&inbox))
        .map_err(setup("the sampler thread"))?;
    Ok(RunningAgent { events, sampler, writer })
}

/// Makes the folder for archives, so that a wrong one is told at once and not
/// when there is something to write.
fn prepare(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    access(folder, AccessFlags::W_OK | AccessFlags::X_OK).map_err(io::Error::from)
}

/// The intervals of all groups, and of what no group has.
fn intervals(settings: &Settings) -> Vec<Duration> {
    let groups = settings.groups.iter().map(|group| group.interval.unwrap_or(settings.interval));
    groups.chain([settings.interval]).collect()
}

fn queue_limit(settings: &Settings) -> usize {
    usize::try_from(settings.limits.queue_bytes).unwrap_or(usize::MAX)
}

/// The sampler's thread: reads the clocks, waits, and does what it is told.
struct Driver {
    sampler: Sampler,
    schedule: Schedule,
    settings: Settings,
    start: Instant,
    /// How often systemd is told that all is well, and when next.
    watchdog: Option<(Duration, Duration)>,
    /// How many files systemd was told of.
    told: Option<usize>,
}

/// What ended a wait.
enum Woken {
    /// A tick is due.
    Tick,
    /// systemd waits for a sign.
    Watchdog,
    /// Something was told.
    Event(Event),
}

impl Driver {
    fn new(sampler: Sampler, settings: Settings) -> Self {
        let phase = time_of_day(Timestamp::now());
        let schedule =
            Schedule::new(&intervals(&settings), phase, settings.samples, settings.duration);
        let watchdog = notify::watchdog().map(|every| (every, Duration::ZERO));
        Self { sampler, schedule, settings, start: Instant::now(), watchdog, told: None }
    }

    /// Ticks until it is told to stop or the schedule ends. The sleep between
    /// ticks is the wait for an event, so a stop is immediate.
    fn run(mut self, inbox: &Receiver<Event>) -> SamplerReport {
        loop {
            let goes_on = match self.wait(inbox) {
                Woken::Tick => self.tick(),
                Woken::Watchdog => true,
                Woken::Event(event) => self.obey(event),
            };
            if !goes_on {
                return self.sampler.report();
            }
        }
    }

    fn wait(&mut self, inbox: &Receiver<Event>) -> Woken {
        let tick = self.schedule.due();
        let due = self.watchdog.map_or(tick, |(_, next)| tick.min(next));
        let woken = match self.start.checked_add(due) {
            Some(due) => inbox.recv_deadline(due),
            // A tick beyond the end of time: only an event can come before it.
            None => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        if let Some((every, next)) = &mut self.watchdog
            && self.start.elapsed() >= *next
        {
            notify::alive();
            *next = self.start.elapsed() + *every;
        }
        match woken {
            Ok(event) => Woken::Event(event),
            Err(RecvTimeoutError::Timeout) if self.start.elapsed() < tick => Woken::Watchdog,
            Err(RecvTimeoutError::Timeout) => Woken::Tick,
            // Nobody is left who could say so.
            Err(RecvTimeoutError::Disconnected) => Woken::Event(Event::Stop),
        }
    }

    fn tick(&mut self) -> bool {
        let (now, stamp) = (self.start.elapsed(), Timestamp::now());
        let tick = self.schedule.tick(now, stamp);
        if tick.missed > 0 {
            let before = self.sampler.report().missed;
            self.sampler.note_missed(tick.missed);
            let total = before + tick.missed;
            if before == 0 || before / LATE_TOLD != total / LATE_TOLD {
                warn!(lateness = ?tick.lateness, missed = total, "ticks come too late");
            }
        }
        if tick.gap {
            self.sampler.note_gap();
        }
        let goes_on = self.sampler.tick(now, stamp, Some(&tick.due)) && !tick.last;
        let files = self.sampler.files();
        if self.told != Some(files) {
            notify::status(&format!("harvesting {files} files"));
            self.told = Some(files);
        }
        goes_on
    }

    fn obey(&mut self, event: Event) -> bool {
        match event {
            Event::Stop => {
                self.sampler.tick(self.start.elapsed(), Timestamp::now(), None);
                return false;
            }
            Event::Change(settings) => self.change(*settings),
            Event::Sync => self.sampler.order(Order::Sync),
            Event::NewArchive => self.sampler.order(Order::NewArchive),
        }
        true
    }

    /// Takes other settings, but for what a running agent cannot change.
    fn change(&mut self, settings: Settings) {
        let now = &self.settings;
        let fixed = [
            ("mmv-dir", settings.mmv_dir != now.mmv_dir),
            ("archive-dir", settings.destination != now.destination),
        ];
        for (key, _) in fixed.iter().filter(|(_, differs)| *differs) {
            warn!(key, "has changed, and will at the next start");
        }
        if intervals(&settings) != intervals(now) {
            self.schedule.change(&intervals(&settings), self.start.elapsed());
        }
        self.sampler.change(settings.groups.clone(), settings.labels.clone());
        self.sampler.outlet().set_limit(queue_limit(&settings));
        self.sampler.order(Order::NewVolume);
        self.settings = settings;
        info!("the configuration was read again");
        notify::ready();
    }
}

/// Does what comes until nothing more can come.
fn write_all(mut sink: Sink, inlet: &Inlet) -> SinkReport {
    while let Some(job) = inlet.next() {
        match job {
            Job::Write(sample) => {
                sink.write(&sample);
                inlet.done(sample);
            }
            Job::Do(order) => sink.obey(&order),
        }
    }
    sink.finish()
}

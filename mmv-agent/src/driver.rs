//! The sampler's thread: reads the clocks, waits, and does what it is told.

use std::time::{Duration, Instant};

use crossbeam::channel::{Receiver, RecvTimeoutError};
use pcp_types::Timestamp;
use tracing::{info, warn};

use crate::config::{Destination, Retention, Settings};
use crate::keeper::{Note, Rules};
use crate::notify;
use crate::own;
use crate::pace::Pace;
use crate::queue::Order;
use crate::sampler::{Sampler, SamplerReport};
use crate::schedule::{Schedule, time_of_day};
use crate::signals::Event;
use crate::sink::Policy;
use crate::spread::{Spread, micros};
use crate::status::{Forecast, Lateness, Status};

/// After how many missed ticks that is said again.
const LATE_TOLD: u64 = 60;

/// A tick is late if it begins more than this part of the shortest interval after
/// its time.
const TOLERATED: u32 = 10;

/// The interval of a group, or of what no group has.
fn interval_of(settings: &Settings, group: usize) -> Duration {
    let own = settings.groups.get(group).and_then(|group| group.interval);
    own.unwrap_or(settings.interval)
}

/// The intervals of all groups, and of what no group has.
fn intervals(settings: &Settings) -> Vec<Duration> {
    (0..=settings.groups.len()).map(|group| interval_of(settings, group)).collect()
}

/// Ticks of an interval of its own: what it misses is no loss of the archive's, nor
/// the other way round.
fn hindsight_schedule(settings: &Settings, phase: Duration) -> Option<Schedule> {
    let interval = settings.hindsight.as_ref()?.interval;
    Some(Schedule::new(&[interval], phase, None, None))
}

/// How many bytes may wait for the writer.
pub(crate) fn queue_limit(settings: &Settings) -> usize {
    usize::try_from(settings.limits.queue_bytes).unwrap_or(usize::MAX)
}

/// The sampler's thread: reads the clocks, waits, and does what it is told.
#[derive(Debug)]
pub(crate) struct Driver {
    sampler: Sampler,
    schedule: Schedule,
    hindsight: Option<Schedule>,
    settings: Settings,
    start: Instant,
    /// How often systemd is told that all is well, and when next.
    watchdog: Option<(Duration, Duration)>,
    /// How many files systemd was told of.
    told: Option<usize>,
    lateness: Spread,
    /// What has been done in a second: values, and bytes.
    pace: Pace,
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

/// Both clocks, read as close together as others who want the processor let it
/// be done, and how far apart that is.
fn clocks() -> (Instant, Timestamp, Duration) {
    const NEAR: Duration = Duration::from_micros(50);
    let read = || {
        let before = Instant::now();
        (before, Timestamp::now(), before.elapsed())
    };
    let mut nearest = read();
    for _ in 0..4 {
        if nearest.2 < NEAR {
            break;
        }
        let again = read();
        if again.2 < nearest.2 {
            nearest = again;
        }
    }
    nearest
}

impl Driver {
    /// A driver that starts now.
    pub(crate) fn new(sampler: Sampler, settings: Settings) -> Self {
        let (start, stamp, _) = clocks();
        let phase = time_of_day(stamp);
        let schedule =
            Schedule::new(&intervals(&settings), phase, settings.samples, settings.duration);
        let hindsight = hindsight_schedule(&settings, phase);
        let watchdog = notify::watchdog().map(|every| (every, Duration::ZERO));
        let own = sampler.ledger().own();
        own.queue_limit.set(settings.limits.queue_bytes);
        let (lateness, pace) = (Spread::new(), Pace::new());
        Self { sampler, schedule, hindsight, settings, start, watchdog, told: None, lateness, pace }
    }

    /// Ticks until it is told to stop or the schedule ends. The sleep between
    /// ticks is the wait for an event, so a stop is immediate.
    pub(crate) fn run(mut self, inbox: &Receiver<Event>) -> SamplerReport {
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
        let tick = self.due();
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

    /// When the next tick is due, of groups or hindsight.
    fn due(&self) -> Duration {
        let groups = self.schedule.due();
        self.hindsight.as_ref().map_or(groups, |hindsight| groups.min(hindsight.due()))
    }

    fn tick(&mut self) -> bool {
        let (now, stamp, apart) = clocks();
        let now = now.duration_since(self.start);
        let hindsight = self.tick_hindsight(now, stamp, apart);
        if self.schedule.due() > now {
            return self.sampler.tick(now, stamp, Some(hindsight.as_slice()));
        }
        let mut tick = self.schedule.tick(now, stamp);
        self.schedule.follow(now, stamp, apart);
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
        if tick.last {
            self.sampler.note_end();
        }
        // The first tick is due when the agent starts.
        let lateness = self.told.map(|_| tick.lateness);
        tick.due.extend(hindsight);
        let goes_on = self.sampler.tick(now, stamp, Some(&tick.due)) && !tick.last;
        let Self { sampler, settings, .. } = self;
        sampler.foretell(|group| interval_of(settings, group));
        self.count(now, lateness);
        let files = self.sampler.files();
        if self.told != Some(files) {
            notify::status(&format!("harvesting {files} files"));
            self.told = Some(files);
        }
        goes_on
    }

    /// Counts a tick that began at `now` in the agent's own metrics.
    fn count(&mut self, now: Duration, lateness: Option<Duration>) {
        let ledger = self.sampler.ledger();
        let own = ledger.own();
        own.ticks.inc();
        own.duration.record(micros(self.start.elapsed().saturating_sub(now)));
        if let Some(lateness) = lateness {
            own.lateness.record(micros(lateness));
            self.lateness.note(lateness);
            if lateness > self.schedule.shortest() / TOLERATED {
                own.late.inc();
            }
        }
        self.pace.note(now, [self.sampler.report().values, ledger.bytes()]);
    }

    /// The number of hindsight, if its turn has come.
    fn tick_hindsight(
        &mut self,
        now: Duration,
        stamp: Timestamp,
        apart: Duration,
    ) -> Option<usize> {
        let schedule = self.hindsight.as_mut().filter(|schedule| schedule.due() <= now)?;
        let tick = schedule.tick(now, stamp);
        schedule.follow(now, stamp, apart);
        let hindsight = self.sampler.hindsight()?;
        hindsight.note_missed(tick.missed);
        if tick.gap {
            hindsight.note_gap();
        }
        Some(self.sampler.hindsight_number())
    }

    fn obey(&mut self, event: Event) -> bool {
        match event {
            Event::Stop => {
                self.sampler.note_end();
                self.sampler.tick(self.start.elapsed(), Timestamp::now(), None);
                return false;
            }
            Event::Change(settings) => self.change(*settings),
            Event::Sync => self.sampler.order(Order::Sync),
            Event::NewArchive => self.sampler.order(Order::NewArchive),
            Event::Status(reply) => {
                // Whoever asked may have lost patience.
                let _ = reply.try_send(self.status());
            }
            Event::Capture(time, reply) => {
                let now = Timestamp::now();
                let held = self.sampler.hindsight().map(|hindsight| hindsight.held(now, time));
                let _ = reply.try_send(held);
            }
        }
        true
    }

    fn status(&self) -> Status {
        let (intervals, now) = (intervals(&self.settings), self.start.elapsed());
        let ledger = self.sampler.ledger();
        let done = [self.sampler.report().values, ledger.bytes()];
        let [values_a_second, bytes_a_second] = self.pace.rates(now, done);
        let status = self.sampler.status(&intervals, now);
        let bytes_a_day = status.groups.iter().map(|group| group.bytes_a_day).sum();
        let seconds = |share| self.lateness.quantile(share).as_secs_f64();
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime: now.as_secs_f64(),
            late: ledger.own().late.value(),
            lateness: Lateness {
                p50: seconds(0.5),
                p99: seconds(0.99),
                max: self.lateness.most().as_secs_f64(),
            },
            values_a_second,
            bytes_a_second,
            queue_limit: self.settings.limits.queue_bytes,
            forecast: Forecast::new(bytes_a_day, &status.kept, &self.deleting()),
            ..status
        }
    }

    /// By which rules archives are deleted: none that the user has named.
    fn deleting(&self) -> Retention {
        match self.settings.destination {
            Destination::Folder(_) => self.settings.retention,
            Destination::Base(_) => Retention { age: None, size: None, free: None },
        }
    }

    /// Takes other settings, but for what a running agent cannot change.
    fn change(&mut self, mut settings: Settings) {
        let now = &self.settings;
        let fixed = [
            ("mmv-dir", settings.mmv_dir != now.mmv_dir),
            ("archive-dir", settings.destination != now.destination),
            ("state-dir", settings.state_dir != now.state_dir),
            ("own-metrics", settings.own_metrics != now.own_metrics),
            ("events", settings.events != now.events),
            ("archive-version", settings.archive_version != now.archive_version),
        ];
        for (key, _) in fixed.iter().filter(|(_, differs)| *differs) {
            warn!(key, "has changed, and takes effect at the next start");
        }
        if settings.own_metrics != now.own_metrics {
            // Their file stays as it is, and so does their group.
            if now.own_metrics {
                settings.groups.push(own::group(settings.interval));
            } else {
                settings.groups.pop();
            }
        }
        settings.own_metrics = now.own_metrics;
        settings.mmv_dir.clone_from(&now.mmv_dir);
        settings.destination.clone_from(&now.destination);
        settings.state_dir.clone_from(&now.state_dir);
        settings.archive_version = now.archive_version;
        settings.events = now.events;
        if intervals(&settings) != intervals(now) {
            self.schedule.change(&intervals(&settings), self.start.elapsed());
        }
        let interval = |settings: &Settings| settings.hindsight.as_ref().map(|own| own.interval);
        if interval(&settings) != interval(now) {
            self.hindsight = hindsight_schedule(&settings, self.schedule.phase());
        }
        self.sampler.change(&settings);
        self.sampler.outlet().set_limit(queue_limit(&settings));
        self.sampler.ledger().own().queue_limit.set(settings.limits.queue_bytes);
        self.sampler.order(Order::Change(Policy::of(&settings)));
        self.sampler.order(Order::NewVolume);
        self.sampler.tell(Note::Change(Rules::of(&settings)));
        self.settings = settings;
        info!("the configuration was read again");
        notify::ready();
    }
}

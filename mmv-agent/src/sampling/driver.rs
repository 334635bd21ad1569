//! The sampler thread: reads the clocks, waits, and runs ticks and commands.

use std::time::{Duration, Instant};

use crossbeam::channel::{Receiver, RecvTimeoutError, Sender};
use pcp_types::Timestamp;
use tracing::{info, warn};

use super::groups::DueGroups;
use super::schedule::{Schedule, Timer, shortest, time_of_day};
use super::{Sampler, SamplerReport};
use crate::config::{Destination, ReloadableSettings, Retention, Settings};
use crate::housekeeping::{HousekeepingRules, Task};
use crate::loading::last_values::LastValuesRequest;
use crate::loading::{LAST_WAIT, RequestNumber};
use crate::logging::{Order, Policy};
use crate::moment::Moment;
use crate::telemetry::{
    DurationQuantiles, FileReport, Forecast, Lateness, RateMeter, Status, micros, notify,
};

/// Number of missed ticks after which they are logged again.
const MISSED_LOG_INTERVAL: u64 = 60;

/// Divisor of the shortest interval that gives the lateness from which a tick counts as late.
const LATE_DIVISOR: u32 = 10;

/// Poll interval while the loader is applying settings, or finishes its work before the last tick.
const LOADER_POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Returns the limit on the bytes that wait for the writer.
pub(crate) fn queue_limit(settings: &ReloadableSettings) -> usize {
    usize::try_from(settings.limits.queue_bytes).unwrap_or(usize::MAX)
}

/// A request of another thread to the sampler thread.
#[derive(Debug)]
pub(crate) enum SamplerCommand {
    /// Take the last sample, with all that the loader knows by then, and end.
    Stop,
    /// Apply settings, and begin a new data volume.
    Change(Box<Settings>),
    /// Write all samples to disk.
    Sync,
    NewArchive,
    /// Sample the last values of files whose names other files have.
    ReadLastValues(LastValuesRequest),
    /// Send the status without files at once, and the status of files later if wanted.
    Status(Sender<Status>, Option<Sender<FileReport>>),
}

#[derive(Debug)]
pub(crate) struct Driver {
    sampler: Sampler,
    schedule: Schedule,
    /// Separate from `schedule`: what one of them misses is no loss for the other.
    flight_recorder: Option<(Schedule, Timer)>,
    settings: Settings,
    start: Instant,
    watchdog: Option<Watchdog>,
    stop: Option<Stop>,
    /// Number of files that systemd was informed of; `None` before the first tick.
    reported_files: Option<usize>,
    lateness: DurationQuantiles,
    /// Number of ticks that began late.
    late: u64,
    /// Values and bytes a second during the last minute.
    rate: RateMeter,
    /// Values and bytes a second during the last hour.
    hourly_rate: RateMeter,
}

/// Time after which a forecast is made from what was written. Before that the metadata of the first
/// records would be a large part of it.
const MIN_MEASURED: Duration = Duration::from_secs(600);

/// The interval at which systemd expects a sign of life, and the time of the next one.
#[derive(Debug)]
struct Watchdog {
    interval: Duration,
    next: Duration,
}

/// A stop that waits for the loader. Ticks go on until then.
#[derive(Debug)]
struct Stop {
    awaited: RequestNumber,
    timeout: Duration,
}

/// The reason why a wait has ended.
enum WakeReason {
    Tick,
    /// Systemd expects a sign of life, or the loader is awaited.
    Early,
    LastTick,
    Command(SamplerCommand),
}

/// Returns both clocks, read as close together as the scheduler allows, and the time between the
/// two readings.
fn clocks() -> (Instant, Timestamp, Duration) {
    const NEAR: Duration = Duration::from_micros(50);
    fn read() -> (Instant, Timestamp, Duration) {
        let before = Instant::now();
        (before, Timestamp::now(), before.elapsed())
    }
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

/// Returns the flight recorder's schedule, if it is configured.
fn flight_recorder_schedule(
    settings: &ReloadableSettings,
    phase: Duration,
) -> Option<(Schedule, Timer)> {
    let interval = settings.flight_recorder.as_ref()?.interval;
    Some((Schedule::new(phase, None, None), Timer::new(interval)))
}

impl Driver {
    /// Creates a driver that starts now, or once the existing files are loaded.
    pub(crate) fn new(mut sampler: Sampler, settings: Settings) -> Self {
        sampler.wait_for_first();
        let (start, timestamp, _) = clocks();
        sampler.start_clock(start);
        let phase = time_of_day(timestamp);
        let watchdog = notify::watchdog();
        sampler.shared().own().queue_limit.set(settings.reloadable.limits.queue_bytes);
        Self {
            sampler,
            schedule: Schedule::new(phase, settings.samples, settings.duration),
            flight_recorder: flight_recorder_schedule(&settings.reloadable, phase),
            settings,
            start,
            watchdog: watchdog.map(|interval| Watchdog { interval, next: Duration::ZERO }),
            stop: None,
            reported_files: None,
            lateness: DurationQuantiles::new(),
            late: 0,
            rate: RateMeter::new(Duration::from_secs(60)),
            hourly_rate: RateMeter::new(Duration::from_secs(3600)),
        }
    }

    /// Runs ticks until a command stops it or the schedule ends. It sleeps between ticks by
    /// waiting for a command, so a stop waits for the loader alone.
    pub(crate) fn run(mut self, inbox: &Receiver<SamplerCommand>) -> SamplerReport {
        loop {
            let goes_on = match self.wait(inbox) {
                WakeReason::Tick => self.tick(),
                WakeReason::Early => true,
                WakeReason::LastTick => {
                    self.take_last_tick();
                    false
                }
                WakeReason::Command(command) => self.obey(command),
            };
            if !goes_on {
                return self.sampler.delivery.report;
            }
        }
    }

    fn now(&self) -> Moment {
        Moment { monotonic: self.start.elapsed(), wall: Timestamp::now() }
    }

    fn wait(&mut self, inbox: &Receiver<SamplerCommand>) -> WakeReason {
        if self.sampler.awaits_settings() {
            self.sampler.take_settings(self.now());
        }
        if let Some(stop) = &self.stop
            && (self.sampler.is_answered(stop.awaited) || self.start.elapsed() >= stop.timeout)
        {
            return WakeReason::LastTick;
        }
        let tick = self.next_tick();
        let due = self.watchdog.as_ref().map_or(tick, |watchdog| tick.min(watchdog.next));
        let due = if self.sampler.awaits_settings() || self.stop.is_some() {
            due.min(self.start.elapsed() + LOADER_POLL_INTERVAL)
        } else {
            due
        };
        let woken = match self.start.checked_add(due) {
            Some(due) => inbox.recv_deadline(due),
            // The next tick is beyond the end of time.
            None => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        if let Some(Watchdog { interval, next }) = &mut self.watchdog
            && self.start.elapsed() >= *next
        {
            notify::alive();
            *next = self.start.elapsed() + *interval;
        }
        match woken {
            Ok(command) => WakeReason::Command(command),
            Err(RecvTimeoutError::Timeout) if self.start.elapsed() < tick => WakeReason::Early,
            Err(RecvTimeoutError::Timeout) => WakeReason::Tick,
            // No thread is left that could send a command.
            Err(RecvTimeoutError::Disconnected) => WakeReason::LastTick,
        }
    }

    /// Returns the time of the next tick of groups or of the flight recorder.
    fn next_tick(&self) -> Duration {
        let groups = self.schedule.next(self.sampler.groups.timers());
        let recorder = self.flight_recorder.as_ref();
        recorder.map_or(groups, |(schedule, timer)| groups.min(schedule.next([timer])))
    }

    fn tick(&mut self) -> bool {
        let (instant, wall, apart) = clocks();
        let now = Moment { monotonic: instant.duration_since(self.start), wall };
        let flight_recorder = self.tick_flight_recorder(now, apart);
        let groups = &mut self.sampler.groups;
        if self.schedule.next(groups.timers()) > now.monotonic {
            return self.sampler.tick(now, DueGroups { flight_recorder, ..DueGroups::default() });
        }
        let tick = self.schedule.tick(&mut groups.timers_mut(), now);
        self.schedule.follow(&mut groups.timers_mut(), now, apart);
        let due = DueGroups { groups: groups.due(), flight_recorder, last_values: None };
        if tick.missed > 0 {
            let before = self.sampler.delivery.report.missed;
            self.sampler.note_missed(tick.missed);
            let total = before + tick.missed;
            if before == 0 || before / MISSED_LOG_INTERVAL != total / MISSED_LOG_INTERVAL {
                warn!(lateness = ?tick.lateness, missed = total, "sampling is late");
            }
        }
        if tick.gap {
            self.sampler.note_gap();
        }
        if tick.last {
            self.sampler.note_end();
        }
        let goes_on = self.sampler.tick(now, due) && !tick.last;
        self.sampler.groups.log_estimates();
        // The first tick is due when the agent starts.
        let lateness = self.reported_files.map(|_| tick.lateness);
        self.count(now.monotonic, lateness);
        let files = self.sampler.files();
        if self.reported_files.replace(files) != Some(files) {
            notify::status(&format!("harvesting {files} files"));
        }
        goes_on
    }

    /// Counts a tick that began at `now` in the agent's own metrics.
    fn count(&mut self, now: Duration, lateness: Option<Duration>) {
        let shortest = shortest(self.sampler.groups.timers());
        let shared = self.sampler.shared();
        let own = shared.own();
        own.ticks.inc();
        own.duration.record(micros(self.start.elapsed().saturating_sub(now)));
        if let Some(lateness) = lateness {
            own.lateness.record(micros(lateness));
            self.lateness.record(lateness);
            if lateness > shortest / LATE_DIVISOR {
                own.late.inc();
                self.late += 1;
            }
        }
        let done = [self.sampler.delivery.report.values, shared.bytes()];
        self.rate.note(now, done);
        self.hourly_rate.note(now, done);
    }

    /// Returns true if the flight recorder is due.
    fn tick_flight_recorder(&mut self, now: Moment, apart: Duration) -> bool {
        let Some((schedule, timer)) = &mut self.flight_recorder else { return false };
        if schedule.next([&*timer]) > now.monotonic {
            return false;
        }
        let tick = schedule.tick(&mut [timer], now);
        schedule.follow(&mut [timer], now, apart);
        let Some(flight_recorder) = &mut self.sampler.flight_recorder else { return false };
        flight_recorder.note_missed(tick.missed);
        if tick.gap {
            flight_recorder.note_gap();
        }
        true
    }

    fn take_last_tick(&mut self) {
        self.sampler.note_end();
        let now = self.now();
        let everything = self.sampler.everything();
        self.sampler.tick(now, everything);
    }

    fn obey(&mut self, command: SamplerCommand) -> bool {
        match command {
            SamplerCommand::Stop => {
                if self.settings.reads_ended {
                    // The next plan may lack the files of processes that have ended.
                    self.sampler.catch_up(self.now());
                    self.take_last_tick();
                    return false;
                }
                let timeout = self.start.elapsed() + LAST_WAIT;
                let awaited = self.sampler.finish_loading();
                self.stop.get_or_insert(Stop { awaited, timeout });
            }
            SamplerCommand::Change(settings) => self.change(*settings),
            SamplerCommand::Sync => self.sampler.delivery.queue.order(Order::Sync),
            SamplerCommand::NewArchive => self.sampler.delivery.queue.order(Order::NewArchive),
            SamplerCommand::ReadLastValues(request) => {
                let now = self.now();
                return self.sampler.tick(now, DueGroups::of_last_values(request));
            }
            SamplerCommand::Status(reply, files) => {
                // The client may have stopped waiting.
                let _ = reply.try_send(self.status());
                if let Some(files) = files {
                    self.sampler.send_files(files);
                }
            }
        }
        true
    }

    fn status(&self) -> Status {
        let now = self.start.elapsed();
        let shared = self.sampler.shared();
        let done = [self.sampler.delivery.report.values, shared.bytes()];
        let [values_a_second, bytes_a_second] = self.rate.rates(now, done);
        let status = self.sampler.status();
        let measured_over = self.hourly_rate.span(now);
        let bytes_a_day = if measured_over < MIN_MEASURED {
            status.groups.iter().map(|group| group.bytes_a_day).sum()
        } else {
            let [_, bytes] = self.hourly_rate.rates(now, done);
            (bytes * 86_400.0) as u64
        };
        let measured_over = Some(measured_over).filter(|time| *time >= MIN_MEASURED);
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime: now.as_secs_f64(),
            late: self.late,
            lateness: Lateness {
                p50: self.lateness.quantile(0.5).as_secs_f64(),
                p99: self.lateness.quantile(0.99).as_secs_f64(),
                max: self.lateness.max().as_secs_f64(),
            },
            values_a_second,
            bytes_a_second,
            queue_limit: self.settings.reloadable.limits.queue_bytes,
            forecast: Forecast {
                measured_over: measured_over.map(|time| time.as_secs_f64()),
                ..Forecast::new(bytes_a_day, &status.kept, &self.deleting())
            },
            compression: status.kept.per_value(done[0], done[1]),
            ..status
        }
    }

    /// Returns the retention for the forecast. Archives named by the user are not deleted.
    fn deleting(&self) -> Retention {
        match self.settings.fixed.destination {
            Destination::Directory(_) => self.settings.reloadable.retention.clone(),
            Destination::Base(_) => Retention::NONE,
        }
    }

    /// Applies the reloadable part of settings.
    fn change(&mut self, settings: Settings) {
        let before = self.settings.reloadable.flight_recorder.clone();
        for key in self.settings.reload(settings) {
            warn!(key, "changed; takes effect at the next start");
        }
        self.settings.group_warnings().iter().for_each(|warning| warn!("{warning}"));
        let settings = &self.settings.reloadable;
        let interval = settings.flight_recorder.as_ref().map(|recorder| recorder.interval);
        if interval != before.as_ref().map(|recorder| recorder.interval) {
            let phase = self.schedule.since_midnight(Duration::ZERO);
            self.flight_recorder = flight_recorder_schedule(settings, phase);
        }
        let phase = self.schedule.since_midnight(Duration::ZERO);
        self.sampler.change(&self.settings, self.now(), phase);
        self.sampler.delivery.queue.set_limit(queue_limit(settings));
        self.sampler.shared().own().queue_limit.set(settings.limits.queue_bytes);
        self.sampler.delivery.queue.order(Order::Change(Policy::new(&self.settings)));
        self.sampler.delivery.queue.order(Order::NewVolume);
        self.sampler.assign(Task::Change(HousekeepingRules::new(settings)));
        info!("configuration reloaded");
        notify::ready();
    }
}

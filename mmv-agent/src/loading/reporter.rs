//! Reports what happens to files and to the agent, as rate-limited log lines and events.

use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::time::Duration;

use hashbrown::HashMap;
use pcp_types::{InDom, Timestamp};
use tracing::{info, warn};

use super::loaded_source::LoggedCounts;
use crate::discovery::{FileState, RemovalOutcome, RemovalRefusal};
use crate::limits::LogLimiter;
use crate::moment::Moment;
use crate::source::Fault;
use crate::telemetry::{EventKind, EventLog};

/// Number of a file's flaws that are logged one by one.
pub(crate) const FLAWS_LOGGED: usize = 5;

/// Minimum time between two log lines about the growth of one file: a program that meets one
/// instance after another would fill the log.
const GROWTH_LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Log lines and events of one thread.
#[derive(Debug)]
pub(crate) struct Reporter {
    limiter: LogLimiter,
    pub events: EventLog,
    /// Events of the agent to be reported at the next tick.
    pending: Vec<EventKind>,
    last_tick: Option<Timestamp>,
    now: Duration,
    /// Times of the log lines about growth during the last [`GROWTH_LOG_INTERVAL`].
    growth_logged: HashMap<OsString, Duration>,
}

impl Reporter {
    /// Creates the sampler's reporter, which reports the start of the agent at the first tick.
    pub(crate) fn new(log_events: bool) -> Self {
        let events = EventLog::new(log_events);
        Self {
            limiter: LogLimiter::new(),
            events,
            pending: vec![EventKind::Started],
            last_tick: None,
            now: Duration::ZERO,
            growth_logged: HashMap::new(),
        }
    }

    /// Creates a reporter of file events only.
    pub(crate) fn of_files(log_events: bool) -> Self {
        Self { pending: Vec::new(), ..Self::new(log_events) }
    }

    /// Returns true if another line about a file may be logged.
    pub(crate) fn may_log(&mut self, name: &OsStr) -> bool {
        self.limiter.may_log(self.events.owner(name))
    }

    /// Reports an event of the agent at the next tick.
    pub(crate) fn report_at_next_tick(&mut self, kind: EventKind) {
        self.pending.push(kind);
    }

    pub(crate) fn begin(&mut self, now: Moment) {
        self.now = now.monotonic;
        self.limiter.set_now(now.monotonic);
        self.events.begin(now.monotonic, now.wall);
        let last = self.last_tick.replace(now.wall);
        for kind in std::mem::take(&mut self.pending) {
            match kind {
                EventKind::Gap => self.events.note(kind, |event| event.since = last),
                _ => self.report(kind),
            }
        }
    }

    pub(crate) fn report(&mut self, kind: EventKind) {
        self.events.note(kind, |event| {
            event.pid = Some(std::process::id().cast_signed());
            event.reason = Some(concat!("mmv-agent ", env!("CARGO_PKG_VERSION")).into());
        });
    }

    /// Reports an entry of the directory that is not a regular file.
    pub(crate) fn not_a_file(&mut self, name: &OsStr, kind: &str) {
        if self.may_log(name) {
            warn!(file = %name.display(), reason = %kind, "not harvested");
        }
    }

    /// Reports that a file is harvested.
    pub(crate) fn harvested(&mut self, name: &OsStr, version: u32, logged: LoggedCounts) {
        if self.may_log(name) {
            let LoggedCounts { metrics, values } = logged;
            info!(file = %name.display(), version, metrics, values, "harvested");
        }
    }

    /// Reports that a file of a running process has taken the name of another running process's
    /// file.
    pub(crate) fn displaced(&mut self, name: &OsStr, running: i32, now: i32) {
        if self.may_log(name) {
            warn!(
                file = %name.display(),
                "process {now} has replaced the file of process {running}, which is running and \
                 is not harvested any more: give each its own name, or a file for each process"
            );
        }
    }

    /// Reports that a file has new metadata.
    pub(crate) fn grown(&mut self, name: &OsStr, logged: LoggedCounts) {
        if self.may_log_growth(name) {
            let LoggedCounts { metrics, values } = logged;
            info!(file = %name.display(), metrics, values, "its metadata changed");
        }
    }

    /// Returns true if a line about the growth of a file may be logged now.
    fn may_log_growth(&mut self, name: &OsStr) -> bool {
        let now = self.now;
        self.growth_logged.retain(|_, at| now < *at + GROWTH_LOG_INTERVAL);
        if self.growth_logged.contains_key(name) || !self.may_log(name) {
            return false;
        }
        self.growth_logged.insert(name.to_owned(), now);
        true
    }

    /// Reports that a file did not get the cluster that it asked for.
    pub(crate) fn moved(&mut self, name: &OsStr, cluster: u32, collision: &impl Display) {
        if self.may_log(name) {
            warn!(file = %name.display(), cluster, %collision, "moved to another cluster");
        }
    }

    /// Reports that a file cannot have an instance domain.
    pub(crate) fn foreign_indom(&mut self, name: &OsStr, indom: InDom, reason: &impl Display) {
        if self.may_log(name) {
            warn!(file = %name.display(), %indom, %reason, "an instance domain is left out");
        }
    }

    /// Reports that something of a file is left out; `foreign` if another user owns its name.
    pub(crate) fn left_out(&mut self, file: &str, reason: &impl Display, foreign: bool) {
        let name = OsStr::new(file);
        if foreign {
            self.events.left_out(name, reason);
        }
        if self.may_log(name) {
            warn!(%file, %reason, "left out");
        }
    }

    /// Reports that a user has exceeded the daily limit.
    pub(crate) fn over_daily_limit(&mut self, user: u32, bytes: u64) {
        let reason = format!(
            "user {user} has reached its daily limit with {bytes} bytes: its files are not logged \
             until midnight UTC"
        );
        warn!("{reason}");
        self.events.note(EventKind::LeftOut, |event| event.reason = Some(reason));
    }

    /// Reports that the system has descriptors and memory again.
    pub(crate) fn shortage_ended(&mut self, since: Timestamp, reason: String) {
        info!("descriptors and memory are available again");
        self.events.note(EventKind::Lost, |event| {
            event.since = Some(since);
            event.reason = Some(reason);
        });
    }

    /// Reports that a file is not harvested, for a reason that was not reported yet.
    pub(crate) fn rejected(
        &mut self,
        name: &OsStr,
        state: FileState,
        reason: &(impl Display + ToString),
    ) {
        self.events.refused(name, kind_of(state), reason);
        if self.may_log(name) {
            warn!(file = %name.display(), %reason, "not harvested");
        }
    }

    /// Reports that the newest metadata of a file is not harvested. The known values still are.
    pub(crate) fn not_loaded(&mut self, name: &OsStr, reason: &impl Display) {
        if self.may_log(name) {
            warn!(file = %name.display(), %reason, "new metrics and instances are not harvested");
        }
    }

    /// Reports that samples of a file are missing from `at` on.
    pub(crate) fn gap_began(&mut self, name: &OsStr, at: Timestamp, reason: &str) {
        self.events.gap_began(name, at, reason);
    }

    /// Reports that there are samples of a file again, from `at` on.
    pub(crate) fn gap_ended(
        &mut self,
        name: &OsStr,
        at: Timestamp,
        since: Option<Timestamp>,
        missing: u64,
    ) {
        self.events.gap_ended(name, at, since, missing);
        if self.may_log(name) {
            info!(file = %name.display(), missing, "sampled again");
        }
    }

    /// Reports that values of a file may not be used.
    pub(crate) fn faulty(&mut self, name: &OsStr, fault: Fault) {
        self.events.refused(name, EventKind::Quarantined, &fault);
        if self.may_log(name) {
            warn!(file = %name.display(), reason = %fault, "no longer harvested");
        }
    }

    pub(crate) fn closed(&mut self, name: &OsStr, reason: &impl Display) {
        if self.may_log(name) {
            info!(file = %name.display(), %reason, "no longer harvested");
        }
    }

    /// Reports that the file of an ended process was removed, or why not.
    pub(crate) fn removed(&mut self, RemovalOutcome { file: dead, result }: &RemovalOutcome) {
        let file = dead.name.display();
        let pid = dead.process.pid;
        if result.is_ok() {
            self.events.removed(&dead.name, pid);
        }
        if !self.may_log(&dead.name) {
            return;
        }
        match result {
            Ok(()) => info!(%file, pid, "removed: its process ended long ago"),
            Err(RemovalRefusal::Refused(error)) => {
                warn!(%file, pid, %error, "cannot remove the file of an ended process");
            }
            Err(reason) => info!(%file, pid, %reason, "not removed"),
        }
    }
}

/// Warns about entries of a file that are left out. Of the `unlisted` ones only the number is
/// known.
pub(crate) fn warn_left_out<F: Display>(
    name: &OsStr,
    flaws: impl ExactSizeIterator<Item = F>,
    unlisted: usize,
) {
    let more = flaws.len().saturating_sub(FLAWS_LOGGED) + unlisted;
    for flaw in flaws.take(FLAWS_LOGGED) {
        warn!(file = %name.display(), reason = %flaw, "an entry is left out");
    }
    if more > 0 {
        warn!(file = %name.display(), more, "more entries are left out");
    }
}

/// Returns the event for a change to this state.
const fn kind_of(state: FileState) -> EventKind {
    match state {
        FileState::Quarantined => EventKind::Quarantined,
        FileState::Waiting | FileState::Harvested => EventKind::Waiting,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_growing_file_has_one_line_a_minute() {
        let mut reporter = Reporter::of_files(false);
        let mut logged = Vec::new();
        for second in 0..180 {
            reporter.begin(Moment { monotonic: Duration::from_secs(second), ..Moment::START });
            if reporter.may_log_growth(OsStr::new("app")) {
                logged.push(second);
            }
        }
        assert_eq!(logged, [0, 60, 120]);
        assert!(reporter.may_log_growth(OsStr::new("other")));
    }
}

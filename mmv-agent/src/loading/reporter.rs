//! Reports what happens to files and to the agent: log lines, at a limited rate, and
//! events.

use std::ffi::OsStr;
use std::fmt::Display;

use pcp_types::{InDom, Timestamp};
use tracing::{info, warn};

use super::loaded_source::LoggedCounts;
use crate::discovery::{FileState, NotRemoved, RemovalOutcome};
use crate::limits::LogLimiter;
use crate::moment::Moment;
use crate::source::Fault;
use crate::telemetry::{EventKind, EventLog};

/// How many of a file's flaws are logged one by one.
pub(crate) const FLAWS_LOGGED: usize = 5;

/// Where the sampler thread reports to.
#[derive(Debug)]
pub(crate) struct Reporter {
    limiter: LogLimiter,
    /// The events.
    pub events: EventLog,
    /// Events of the agent that the next tick reports.
    pending: Vec<EventKind>,
    last_tick: Option<Timestamp>,
}

impl Reporter {
    /// A reporter whose first tick reports the start of the agent.
    pub(crate) fn new(log_events: bool) -> Self {
        let events = EventLog::new(log_events);
        Self {
            limiter: LogLimiter::new(),
            events,
            pending: vec![EventKind::Started],
            last_tick: None,
        }
    }

    /// A reporter of what happens to files only.
    pub(crate) fn of_files(log_events: bool) -> Self {
        Self { pending: Vec::new(), ..Self::new(log_events) }
    }

    /// Whether one more line about a file may be logged.
    pub(crate) fn may_log(&mut self, name: &OsStr) -> bool {
        self.limiter.may_log(self.events.owner(name))
    }

    /// Reports an event of the agent at the next tick.
    pub(crate) fn report_at_next_tick(&mut self, kind: EventKind) {
        self.pending.push(kind);
    }

    /// Begins a tick.
    pub(crate) fn begin(&mut self, now: Moment) {
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

    /// Reports an event of the agent as of now.
    pub(crate) fn report(&mut self, kind: EventKind) {
        self.events.note(kind, |event| {
            event.pid = Some(std::process::id().cast_signed());
            event.reason = Some(concat!("mmv-agent ", env!("CARGO_PKG_VERSION")).into());
        });
    }

    /// An entry of the directory is no regular file.
    pub(crate) fn not_a_file(&mut self, name: &OsStr, kind: &str) {
        if self.may_log(name) {
            warn!(file = %name.display(), reason = %kind, "not harvested");
        }
    }

    /// A file is harvested.
    pub(crate) fn harvested(&mut self, name: &OsStr, version: u32, logged: LoggedCounts) {
        if self.may_log(name) {
            let LoggedCounts { metrics, values } = logged;
            info!(file = %name.display(), version, metrics, values, "harvested");
        }
    }

    /// A file of a running process has taken the name of that of another one.
    pub(crate) fn displaced(&mut self, name: &OsStr, running: i32, now: i32) {
        if self.may_log(name) {
            warn!(
                file = %name.display(),
                "process {now} has replaced the file of process {running}, which is running and \
                 is not harvested any more: give each its own name, or a file for each process"
            );
        }
    }

    /// A file has new metadata.
    pub(crate) fn grown(&mut self, name: &OsStr, logged: LoggedCounts) {
        if self.may_log(name) {
            let LoggedCounts { metrics, values } = logged;
            info!(file = %name.display(), metrics, values, "its metadata changed");
        }
    }

    /// A file did not get the cluster that it asks for.
    pub(crate) fn moved(&mut self, name: &OsStr, cluster: u32, collision: &impl Display) {
        if self.may_log(name) {
            warn!(file = %name.display(), cluster, %collision, "moved to another cluster");
        }
    }

    /// A file cannot have an instance domain.
    pub(crate) fn foreign_indom(&mut self, name: &OsStr, indom: InDom, reason: &impl Display) {
        if self.may_log(name) {
            warn!(file = %name.display(), %indom, %reason, "an instance domain is left out");
        }
    }

    /// Something of a file is left out; `foreign` if another user has it.
    pub(crate) fn left_out(&mut self, file: &str, reason: &impl Display, foreign: bool) {
        let name = OsStr::new(file);
        if foreign {
            self.events.left_out(name, reason);
        }
        if self.may_log(name) {
            warn!(%file, %reason, "left out");
        }
    }

    /// A user has logged too much today.
    pub(crate) fn cut(&mut self, user: u32, bytes: u64) {
        let reason = format!(
            "files of user {user} have logged {bytes} bytes today, which is their limit: \
             nothing more is logged of them until midnight UTC"
        );
        warn!("{reason}");
        self.events.note(EventKind::LeftOut, |event| event.reason = Some(reason));
    }

    /// The system has descriptors and memory again.
    pub(crate) fn shortage_ended(&mut self, since: Timestamp, reason: String) {
        info!("descriptors and memory suffice again");
        self.events.note(EventKind::Lost, |event| {
            event.since = Some(since);
            event.reason = Some(reason);
        });
    }

    /// A file is not harvested, for a reason that was not reported yet.
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
            warn!(file = %name.display(), %reason, "what it has added is not harvested");
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

    /// What was read of a file may not be used.
    pub(crate) fn faulty(&mut self, name: &OsStr, fault: Fault) {
        self.events.refused(name, EventKind::Quarantined, &fault);
        if self.may_log(name) {
            warn!(file = %name.display(), reason = %fault, "no longer harvested");
        }
    }

    /// A file that was harvested is closed.
    pub(crate) fn closed(&mut self, name: &OsStr, reason: &impl Display) {
        if self.may_log(name) {
            info!(file = %name.display(), %reason, "no longer harvested");
        }
    }

    /// A file of a process that has ended was removed, or why not.
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
            Err(NotRemoved::Refused(error)) => warn!(%file, pid, %error, "cannot be removed"),
            Err(reason) => info!(%file, pid, %reason, "is not removed"),
        }
    }
}

/// Warns of entries of a file that are left out; of the `unlisted` ones only the number
/// is known.
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

/// The event of a file that gets into a state.
const fn kind_of(state: FileState) -> EventKind {
    match state {
        FileState::Quarantined => EventKind::Quarantined,
        FileState::Waiting | FileState::Harvested => EventKind::Waiting,
    }
}

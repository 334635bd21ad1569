//! A file under harvest as the sampler sees it: its source and the values of the last pass.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Allowance, Fault, FileGaps, Gap, GapCause, PassOptions, PassReport, Source, Values};
use crate::moment::Moment;

/// Time in which a file and each of its values are read if nothing disturbs it: ten times what is
/// usual after the file has grown, and more than a busy sibling of the processor makes of that.
const USUAL_FILE: Duration = Duration::from_micros(if cfg!(debug_assertions) { 100 } else { 5 });
const USUAL_VALUE: Duration = Duration::from_nanos(if cfg!(debug_assertions) { 2_000 } else { 50 });

/// Returns the time in which a file of this many values is read if nothing disturbs it.
pub(crate) const fn usual_time(values: usize) -> Duration {
    let values = if values > u32::MAX as usize { u32::MAX } else { values as u32 };
    USUAL_FILE.saturating_add(USUAL_VALUE.saturating_mul(values))
}

/// Number of a source while its metadata stays; never reused.
pub(crate) type Ticket = u64;

/// A finding of the sampler that the loader has to handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SourceFinding {
    /// The values may not be used any more.
    Fault(Fault),
    /// It has new metadata, or may have some that its process did not announce before its end. Its
    /// values of the old metadata are still read.
    Grown {
        /// Nothing more will be written to it. Its last values are read by the new metadata, or
        /// by the old one if the loader cannot read the new one.
        last: bool,
    },
    /// Its process has ended, and its last values were read.
    Ended,
    /// It has no name any more, and its last values were read.
    Unlinked,
}

impl SourceFinding {
    /// Returns true if the loader may have new metadata of the file soon.
    pub(crate) fn is_new_metadata(self) -> bool {
        match self {
            Self::Fault(fault) => fault.is_new_metadata(),
            Self::Grown { .. } => true,
            Self::Ended | Self::Unlinked => false,
        }
    }

    /// Returns true if the last values of the file were read.
    pub(crate) fn is_last(self) -> bool {
        matches!(self, Self::Ended | Self::Unlinked)
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PassResult {
    /// Records need another shape: other values are present, or strings have other lengths.
    pub(crate) reshaped: bool,
    pub(crate) finding: Option<SourceFinding>,
}

/// Limit on the first pass beyond its usual time, which the loader takes.
const MAX_FIRST_PASS: Duration = Duration::from_millis(20);

/// Shortest time between two queries of a file's size and links. A truncation that costs a value
/// is noticed in each pass.
const STAT_INTERVAL: Duration = Duration::from_millis(50);

/// A file under harvest, as the sampler sees it.
#[derive(Debug)]
pub(crate) struct ActiveSource {
    pub(crate) ticket: Ticket,
    source: Arc<Source>,
    values: Values,
    /// Last tick that wanted its values.
    wanted: Option<Duration>,
    /// Last tick that read its values.
    read: Option<Duration>,
    /// Last tick that queried its size and links.
    queried: Option<Duration>,
    /// The values of the last pass may be used.
    usable: bool,
    /// The last pass has read final values.
    last: bool,
    /// The finding since which it is not read, until the loader replaces or drops it.
    over: Option<SourceFinding>,
    /// The growth that the loader was informed of: whether it was the last one.
    reported_growth: Option<bool>,
    /// Its new metadata cannot be read, and it will have no other.
    settled: bool,
    gaps: Arc<FileGaps>,
}

impl ActiveSource {
    /// Creates a source, and reads its values once without using them: the page faults of a first
    /// pass, which may wait for the lock of the address space, are those of the calling thread and
    /// not of the sampler.
    pub(crate) fn new(ticket: Ticket, source: Arc<Source>, gaps: Arc<FileGaps>) -> Self {
        let mut values = Values::new(source.plan());
        let limit = usual_time(source.plan().len()) + MAX_FIRST_PASS;
        let options = PassOptions { micros: 0, stat: false, retry: false };
        // The sampler notices a fault as well.
        let _ = source.harvest(&mut values, options, &Allowance::until(Instant::now() + limit));
        Self {
            ticket,
            values,
            source,
            wanted: None,
            read: None,
            queried: None,
            usable: false,
            last: false,
            over: None,
            reported_growth: None,
            settled: false,
            gaps,
        }
    }

    /// Creates a source whose last values are read by the known metadata.
    pub(crate) fn settled(ticket: Ticket, source: Arc<Source>, gaps: Arc<FileGaps>) -> Self {
        Self { settled: true, ..Self::new(ticket, source, gaps) }
    }

    fn is_read(&self, now: Moment) -> bool {
        self.read == Some(now.monotonic)
    }

    /// Returns the counts of its missing samples.
    pub(crate) fn gaps(&self) -> &Arc<FileGaps> {
        &self.gaps
    }

    /// Returns the time that a pass takes if nothing disturbs it.
    pub(crate) fn usual_time(&self) -> Duration {
        usual_time(self.source.plan().len())
    }

    /// Returns true if values were read that cannot change any more.
    pub(crate) fn has_final_values(&self) -> bool {
        self.last && self.usable
    }

    /// Uses final values for another moment than the one at which they were read.
    pub(crate) fn keep_final_values(&mut self, now: Moment) {
        if self.has_final_values() {
            self.read = Some(now.monotonic);
        }
    }

    /// Rejects the values of the last pass, which took too long.
    pub(crate) fn discard(&mut self) {
        self.usable = false;
        self.read = None;
    }

    /// Returns true if its last values were read at this tick.
    pub(crate) fn is_last(&self, now: Moment) -> bool {
        self.last && self.usable && self.is_read(now)
    }

    /// Notes that this tick wants its values. Returns true if they have to be read.
    pub(crate) fn want(&mut self, now: Moment) -> bool {
        self.wanted = Some(now.monotonic);
        self.over.is_none() && !self.is_read(now)
    }

    /// Reads all values and checks what was read. There is no tick after one that `is_final`. If
    /// the allowance is exceeded, there are no values, and the file can be read again.
    pub(crate) fn harvest(
        &mut self,
        now: Moment,
        is_final: bool,
        allowance: &Allowance,
    ) -> PassResult {
        // A file whose generations change during each pass takes one pass for each tick.
        let retry = self.usable || self.read.is_none();
        self.read = Some(now.monotonic);
        // Before the pass: what is read after the end of the process is final.
        let ended = !self.source.is_fed();
        let stat =
            ended || self.queried.is_none_or(|queried| now.monotonic >= queried + STAT_INTERVAL);
        if stat {
            self.queried = Some(now.monotonic);
        }
        let micros = (now.wall.as_nanos() / 1000) as i64;
        let options = PassOptions { micros, stat, retry };
        let (reshaped, result) = self.source.harvest(&mut self.values, options, allowance);
        if allowance.was_exceeded() {
            self.discard();
            return PassResult { reshaped, finding: None };
        }
        self.usable = result.is_ok();
        let finding = match result {
            Ok(report) => self.take(report, ended, is_final),
            Err(fault) => self.fail(fault, ended),
        };
        PassResult { reshaped, finding }
    }

    /// Takes the result of a pass whose values may be used.
    fn take(&mut self, report: PassReport, ended: bool, is_final: bool) -> Option<SourceFinding> {
        self.last = ended || report.unlinked;
        let has_more = report.grown || ended && self.source.may_lack_metadata();
        if has_more && !self.settled {
            // Last values are logged once, by the successor, which has what was added.
            self.usable = !self.last || is_final;
            return self.report_growth(self.last);
        }
        if report.unlinked {
            self.over = Some(SourceFinding::Unlinked);
        } else if ended {
            self.over = Some(SourceFinding::Ended);
        }
        self.over
    }

    /// Takes the result of a pass whose values may not be used.
    fn fail(&mut self, fault: Fault, ended: bool) -> Option<SourceFinding> {
        self.last = ended;
        if self.source.grows() && fault.is_new_metadata() && !self.settled {
            return self.report_growth(ended);
        }
        self.over = Some(SourceFinding::Fault(fault));
        self.over
    }

    /// Returns a finding about a growth, unless the loader knows of it.
    fn report_growth(&mut self, last: bool) -> Option<SourceFinding> {
        if self.reported_growth.is_some_and(|was_last| was_last || !last) {
            return None;
        }
        self.reported_growth = Some(last);
        Some(SourceFinding::Grown { last })
    }

    /// Returns the values read at this tick; `None` if there was no pass, or if its values may not
    /// be used.
    pub(crate) fn values(&self, now: Moment) -> Option<&Values> {
        (self.usable && self.is_read(now)).then_some(&self.values)
    }

    /// Counts the sample of this tick if it was wanted and is missing. Returns the beginning or
    /// end of a spell of missing samples. With `is_slow`, reading it takes too long.
    pub(crate) fn count_gap(&self, now: Moment, is_slow: bool) -> Option<Gap> {
        if self.wanted != Some(now.monotonic) {
            return None;
        }
        if self.values(now).is_some() {
            return self.gaps.end(now.wall);
        }
        if self.last {
            return None;
        }
        // A file with another fault is closed, with an event of its own.
        let in_spell = self.over.is_none_or(SourceFinding::is_new_metadata);
        let was_stopped = !self.is_read(now) && self.over.is_none();
        let cause =
            if is_slow || was_stopped { GapCause::Slow } else { GapCause::ChangingMetadata };
        self.gaps.add(now.wall, in_spell.then_some(cause))
    }
}

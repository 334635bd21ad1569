//! The values of a host's archives in order, as they were logged.
//!
//! In: the [archives](Archives) of one host. Out: one [`Step`] for each record: the number that
//! each metric and instance had, and which series began and ended. Archives that grow and
//! archives that come later are followed. Memory is in proportion to the metadata and the
//! series of one archive.
//!
//! ```no_run
//! use mmv_export::tree;
//! use mmv_export::walk::{Start, Walk};
//!
//! # fn main() -> pcp_archive::Result<()> {
//! for host in tree::hosts(&["/var/log/mmv-agent".into()], None)? {
//!     let mut walk = Walk::new(host.archives, Start::First)?;
//!     while let Some(step) = walk.next()? {
//!         for observation in step.observations {
//!             let series = step.catalog.series(observation.series);
//!             println!("{} {:?} {:?}", step.timestamp, series, observation.value);
//!         }
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! | between two records | step |
//! |---|---|
//! | a mark | a step without observations, at which all series end |
//! | the end of an archive and the next one | such a step 1 ms after the last record; numbers of series become invalid |
//! | damage that was [skipped](Walk::recover) | such a step |
//!
//! When the archive that is read is replaced by its [reduced](pcp_archive::reduce) form, as the
//! agent does with old ones, the walk goes on there with the first record that is later.
//!
//! A walk that resumes from a [`Position`] reads the archive from its start to know the same series
//! as the walk that stored it: the steps before it are marked as [repeated](Step::is_repeated),
//! those after it are the same to the byte.

mod catalog;
mod newest;
mod number;
mod queue;
mod runs;
mod series;

use std::collections::VecDeque;
use std::fmt;
use std::path::{Path, PathBuf};

use pcp_archive::follow::Follower;
use pcp_archive::internal::{original_base, successor};
use pcp_archive::{Error, Result, Timestamp};

pub use catalog::Catalog;
pub(crate) use catalog::nanos;
pub use number::Number;
pub use series::{Series, SeriesId};

use crate::mapping::Family;
use crate::position::Position;
use crate::selection::MetricSelection;
use crate::tree::Archives;
use catalog::{Output, RecordContext};
use newest::{RecordPlace, newest_records};
use queue::Queue;
use runs::Runs;

/// Nanoseconds from the last record of an archive to the mark after it, as in PCP.
const MARK_AFTER: i64 = 1_000_000;

/// The beginning of a walk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// The first record of the first archive.
    First,
    /// The first record at a time or later.
    Time(Timestamp),
    /// The first record of the newest archive.
    NewestArchive,
    /// The newest values of each metric in the newest archive: existing records without any of them
    /// are skipped.
    NewestValues,
    /// The position of another walk.
    Position(Position),
}

/// The kind of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepKind {
    /// A record with values.
    Record,
    /// A mark: samples are missing.
    Mark,
    /// The end of an archive. After this step all numbers of series are invalid.
    EndOfArchive,
}

/// A record with its observations and changes of series.
#[derive(Debug)]
pub struct Step<'w> {
    /// Nanoseconds since 1970 UTC.
    pub timestamp: i64,
    /// Values, or a mark.
    pub kind: StepKind,
    /// Whether the record is before the position that the walk resumes from.
    pub is_repeated: bool,
    /// The position after the record.
    pub position: &'w Position,
    /// Series that ended and began, in their order, before the observations.
    pub changes: &'w [Change],
    /// The values that are numbers, in the order of the record.
    pub observations: &'w [Observation],
    /// The metrics and series at this time.
    pub catalog: &'w Catalog,
}

/// A value of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observation {
    /// The series.
    pub series: SeriesId,
    /// The value in the units of the archive.
    pub value: Number,
}

/// A series begins or ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The series has no value from a time on until it begins again.
    Ended {
        /// The series.
        series: SeriesId,
        /// Nanoseconds since 1970 UTC.
        at: i64,
    },
    /// The series has its first value, or its first one since it ended.
    Began {
        /// The series.
        series: SeriesId,
        /// The time at which its program began to count from 0, after the last value of the
        /// metric; nanoseconds since 1970 UTC.
        from_zero: Option<i64>,
    },
}

/// Counts of values that were left out of steps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeftOutCounts {
    /// Values that are strings.
    pub strings: u64,
    /// Values that are event arrays.
    pub events: u64,
    /// Values that are opaque bytes.
    pub opaque: u64,
    /// Values of metrics without a name or descriptor.
    pub unknown: u64,
    /// Values that cannot be read.
    pub damaged: u64,
}

/// Decides which values are read.
struct ValueSelector {
    selection: MetricSelection,
    families: Box<dyn Fn(&Family) -> bool + Send>,
}

/// Reads the archives of one host.
pub struct Walk {
    queue: Queue,
    follower: Option<Follower>,
    metadata_version: u64,
    catalog: Catalog,
    output: Output,
    wanted: ValueSelector,
    position: Position,
    /// The position to resume from; steps before it are repeated.
    resume: Option<Position>,
    /// Whether the archive of the position no longer exists.
    is_position_lost: bool,
    seek: Option<Timestamp>,
    /// Whether only the newest values of the first archive are wanted.
    wants_newest: bool,
    /// The records with the newest values, which are read first.
    chosen: VecDeque<RecordPlace>,
    runs: Runs,
    /// The next step, if it is a mark that is in no file.
    due: Option<StepKind>,
    /// The archive that cannot be opened.
    unreadable: Option<PathBuf>,
    records: u64,
    now: RecordState,
}

/// Properties of the step that was read last.
#[derive(Clone, Copy)]
struct RecordState {
    timestamp: i64,
    kind: StepKind,
    is_repeated: bool,
}

impl fmt::Debug for Walk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Walk").field("position", &self.position).finish_non_exhaustive()
    }
}

impl Walk {
    /// Creates a walk over the archives of a host.
    ///
    /// If the archive of a position was replaced by its reduced form, the walk begins with the first
    /// record of that which is later. If it is gone, it begins with the first archive that begins
    /// later ([`is_position_lost`](Self::is_position_lost)).
    ///
    /// # Errors
    ///
    /// Those of [`Archives::bases`].
    pub fn new(archives: Archives, start: Start) -> Result<Self> {
        let mut queue = Queue::new(archives);
        let wants_newest = start == Start::NewestValues;
        let mut resume = None;
        let mut is_position_lost = false;
        let mut seek = None;
        match start {
            Start::First => {}
            Start::Time(from) => {
                queue.skip_begun(from, true)?;
                seek = Some(from);
            }
            Start::NewestArchive | Start::NewestValues => queue.skip_begun(Timestamp::MAX, true)?,
            Start::Position(position) => {
                let original = original_base(Path::new(&position.archive));
                if queue.skip_to(|base| name_of(base) == position.archive)? {
                    resume = Some(position);
                } else if queue
                    .skip_to(|base| name_of(&original_base(base)) == name_of(&original))?
                {
                    seek = Some(just_after(position.time));
                } else {
                    is_position_lost = true;
                    queue.skip_begun(Timestamp::from_nanos(position.time.into()), false)?;
                }
            }
        }
        Ok(Self {
            queue,
            follower: None,
            metadata_version: 0,
            catalog: Catalog::default(),
            output: Output::default(),
            wanted: ValueSelector {
                selection: MetricSelection::default(),
                families: Box::new(|_| true),
            },
            position: Position { archive: String::new(), volume: 0, offset: 0, time: 0 },
            resume,
            is_position_lost,
            seek,
            wants_newest,
            chosen: VecDeque::new(),
            runs: Runs::default(),
            due: None,
            unreadable: None,
            records: 0,
            now: RecordState { timestamp: 0, kind: StepKind::Record, is_repeated: false },
        })
    }

    /// Limits the walk to the values of families for which a function returns true.
    #[must_use]
    pub fn only(mut self, wants: impl Fn(&Family) -> bool + Send + 'static) -> Self {
        self.wanted.families = Box::new(wants);
        self
    }

    /// Limits the walk to the metrics and instances of a selection.
    #[must_use]
    pub fn select(mut self, selection: &MetricSelection) -> Self {
        self.wanted.selection = selection.clone();
        self
    }

    /// Returns whether the archive of the position to resume from no longer exists, so that values
    /// may have been missed.
    pub const fn is_position_lost(&self) -> bool {
        self.is_position_lost
    }

    /// Releases memory that is only needed while records are read.
    pub fn rest(&mut self) {
        self.output.observations = Vec::new();
        self.output.changes = Vec::new();
        self.catalog.shrink_to_fit();
    }

    /// Returns counts of what was left out so far.
    pub const fn counts(&self) -> LeftOutCounts {
        self.output.counts
    }

    /// Reads the next step; `None` if there is none yet.
    ///
    /// # Errors
    ///
    /// Those of [`Follower::next`] and [`Follower::open`]. The same error is returned again until
    /// [`recover`](Self::recover) skips its cause.
    #[expect(clippy::should_implement_trait, reason = "the item borrows from the walk")]
    pub fn next(&mut self) -> Result<Option<Step<'_>>> {
        self.output.observations.clear();
        self.output.changes.clear();
        if let Some(kind) = self.due.take() {
            self.mark(kind);
            return Ok(Some(self.step()));
        }
        if !self.open()? {
            return Ok(None);
        }
        if self.read()? {
            return Ok(Some(self.step()));
        }
        // In this order: once a later archive exists, this one no longer grows.
        if self.queue.peek()?.is_none() {
            return Ok(None);
        }
        if !self.read()? {
            self.mark(StepKind::EndOfArchive);
        }
        Ok(Some(self.step()))
    }

    /// Skips the cause of an error of [`next`](Self::next): a damaged record with everything up to
    /// the next intact one, or an archive that cannot be read at all. Returns how many bytes of a
    /// volume were skipped; `None` if there is nothing to skip, since the archives cannot be listed
    /// at present.
    pub fn recover(&mut self) -> Option<u64> {
        self.queue.peek().ok()?;
        if self.unreadable.take().is_some() {
            return Some(0);
        }
        let skipped = self.follower.as_mut()?.skip_damage().unwrap_or_default();
        self.position.offset = self.position.offset.saturating_add(skipped);
        // Any other error is permanent, so the remainder of the archive cannot be read.
        self.due = Some(if skipped > 0 { StepKind::Mark } else { StepKind::EndOfArchive });
        Some(skipped)
    }

    /// Opens the next archive unless one is open, and returns false if there is none yet.
    fn open(&mut self) -> Result<bool> {
        if self.follower.is_some() {
            return Ok(true);
        }
        let base = match self.unreadable.take() {
            Some(base) => base,
            None => match self.queue.take()? {
                Some(base) => base,
                None => return Ok(false),
            },
        };
        match self.begin(&base) {
            Ok(()) => Ok(true),
            Err(error) => {
                self.unreadable = Some(base);
                Err(error)
            }
        }
    }

    fn begin(&mut self, base: &Path) -> Result<()> {
        let mut follower = Follower::open(base)?;
        if let Some(from) = self.seek {
            follower.seek(from)?;
        }
        self.seek = None;
        self.chosen.clear();
        if std::mem::take(&mut self.wants_newest) {
            // Damage is reported when the records are read.
            self.chosen = newest_records(&mut follower).unwrap_or_default();
        }
        let label = follower.label();
        self.catalog.begin(label.hostname.as_str(), follower.metadata(), &self.wanted);
        let time = nanos(label.start);
        self.position = Position { archive: name_of(base), volume: 0, offset: 0, time };
        self.metadata_version = 0;
        self.follower = Some(follower);
        Ok(())
    }

    /// Reads a record, and returns false if there is none yet. An archive that was replaced ends.
    fn read(&mut self) -> Result<bool> {
        match self.read_record() {
            Err(Error::Missing { .. } | Error::NotFound { .. }) if self.is_replaced()? => {
                if let Some(follower) = &self.follower {
                    self.queue.give_back(follower.base());
                }
                self.seek = Some(just_after(self.position.time));
                self.mark(StepKind::EndOfArchive);
                Ok(true)
            }
            read => read,
        }
    }

    /// Returns true if the reduced form of the archive that is read has taken its place.
    fn is_replaced(&self) -> Result<bool> {
        let Some(follower) = &self.follower else { return Ok(false) };
        Ok(successor(follower.base())?.is_some())
    }

    /// Reads a record, and returns false if there is none yet.
    fn read_record(&mut self) -> Result<bool> {
        let Some(follower) = &mut self.follower else { return Ok(false) };
        if let Some((volume, offset)) = self.chosen.pop_front() {
            follower.move_to(volume, offset)?;
        }
        let Some(next) = follower.next()? else { return Ok(false) };
        let record = next.record;
        let metadata = next.metadata;
        let version = next.metadata_version;
        if std::mem::replace(&mut self.metadata_version, version) != version {
            self.catalog.set_metadata(metadata, &self.wanted);
        }
        self.records += 1;
        let timestamp = record.timestamp();
        let nanos = nanos(timestamp);
        let at = RecordContext { metadata, timestamp, nanos, record: self.records };
        self.catalog.move_to(timestamp);
        self.runs.pass(&record, &mut self.catalog, &mut self.output);
        if record.is_mark() {
            self.catalog.end_all(nanos, &mut self.output);
        }
        for set in record.value_sets() {
            self.catalog.observe(&set, at, &mut self.output);
        }
        let kind = if record.is_mark() { StepKind::Mark } else { StepKind::Record };
        let volume = record.volume();
        let offset = record.offset();
        let is_repeated = self.resume.as_ref().is_some_and(|from| from.is_after(volume, offset));
        self.now = RecordState { timestamp: nanos, kind, is_repeated };
        self.position.volume = volume;
        self.position.offset = offset + record.size() as u64;
        self.position.time = nanos;
        Ok(true)
    }

    /// Makes a mark that is in no file the current step.
    fn mark(&mut self, kind: StepKind) {
        let timestamp = self.position.time.saturating_add(MARK_AFTER);
        self.catalog.move_to(Timestamp::from_nanos(timestamp.into()));
        self.catalog.end_all(timestamp, &mut self.output);
        if kind == StepKind::EndOfArchive {
            self.follower = None;
            self.position.volume = u32::MAX;
            self.position.offset = u64::MAX;
        }
        let Position { volume, offset, .. } = self.position;
        let is_repeated =
            self.resume.as_ref().is_some_and(|from| (volume, offset) <= (from.volume, from.offset));
        if kind == StepKind::EndOfArchive {
            self.resume = None;
        }
        self.now = RecordState { timestamp, kind, is_repeated };
    }

    fn step(&self) -> Step<'_> {
        Step {
            timestamp: self.now.timestamp,
            kind: self.now.kind,
            is_repeated: self.now.is_repeated,
            position: &self.position,
            changes: &self.output.changes,
            observations: &self.output.observations,
            catalog: &self.catalog,
        }
    }
}

/// Returns the time after one in nanoseconds since 1970 UTC.
fn just_after(nanos: i64) -> Timestamp {
    Timestamp::from_nanos(i128::from(nanos) + 1)
}

fn name_of(base: &Path) -> String {
    base.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests;

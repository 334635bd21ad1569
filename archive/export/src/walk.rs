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
//! | between two records | is |
//! |---|---|
//! | a mark | a step without observations, at which all series end |
//! | the end of an archive and the next one | the same, 1 ms after the last record; series and their numbers are void |
//! | damage that was [passed by](Walk::recover) | the same |
//!
//! A walk that goes on from a [`Position`] reads the archive from its start, and so knows the
//! same series as the one that stored it: the steps before it are marked as
//! [repeated](Step::is_repeated), those after it are the same to the byte.

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
use pcp_archive::{Result, Timestamp};

pub use catalog::Catalog;
pub use number::Number;
pub use series::{Series, SeriesId};

use crate::mapping::Family;
use crate::position::Position;
use crate::tree::Archives;
use catalog::{Output, RecordContext, nanos};
use newest::{RecordPlace, newest_records};
use queue::Queue;
use runs::Runs;

/// From the last record of an archive to the mark after it, as in PCP.
const MARK_AFTER: i64 = 1_000_000;

/// Where a walk begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// With the first record of the first archive.
    First,
    /// With the first record at a time or later.
    Time(Timestamp),
    /// With the first record of the newest archive.
    NewestArchive,
    /// With the newest values of each metric in the newest archive: records that there are at
    /// first and have none of them are passed by.
    NewestValues,
    /// Where another walk was.
    Position(Position),
}

/// What a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepKind {
    /// Values.
    Record,
    /// Samples are missing.
    Mark,
    /// An archive ends. After this step all numbers of series are void.
    EndOfArchive,
}

/// One record, and what it says.
#[derive(Debug)]
pub struct Step<'w> {
    /// Nanoseconds since 1970 UTC.
    pub timestamp: i64,
    /// Values, or a mark.
    pub kind: StepKind,
    /// The record is before the position that the walk goes on from.
    pub is_repeated: bool,
    /// The place after the record.
    pub position: &'w Position,
    /// Series that ended and began, in their order, before the observations.
    pub changes: &'w [Change],
    /// One for each value that is a number, in the order of the record.
    pub observations: &'w [Observation],
    /// What the numbers of series are.
    pub catalog: &'w Catalog,
}

/// A value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observation {
    /// The series.
    pub series: SeriesId,
    /// Its value, as it is in the archive.
    pub value: Number,
}

/// A series begins or ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It has no value from this time on, nanoseconds since 1970 UTC, until it begins again.
    Ended {
        /// The series.
        series: SeriesId,
        /// From when on.
        at: i64,
    },
    /// It has a value in this step, and had none since it ended, or never before.
    Began {
        /// The series.
        series: SeriesId,
        /// Its program began to count from 0 at this time, after the last value of
        /// the metric.
        from_zero: Option<i64>,
    },
}

/// Values that were left out of steps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Strings.
    pub strings: u64,
    /// Event arrays.
    pub events: u64,
    /// Opaque bytes.
    pub opaque: u64,
    /// Of metrics without a name or descriptor.
    pub unknown: u64,
    /// That cannot be read.
    pub damaged: u64,
}

type Wants = Box<dyn Fn(&Family) -> bool + Send>;

/// Reads the archives of one host.
pub struct Walk {
    queue: Queue,
    follower: Option<Follower>,
    metadata_version: u64,
    catalog: Catalog,
    output: Output,
    wants: Wants,
    position: Position,
    /// Records before it are repeated.
    resume: Option<Position>,
    /// The position's archive is gone.
    is_position_lost: bool,
    seek: Option<Timestamp>,
    /// The first archive is read for its newest values.
    wants_newest: bool,
    /// The records that are read before all that follow them.
    chosen: VecDeque<RecordPlace>,
    runs: Runs,
    /// A mark that is in no file comes next.
    due: Option<StepKind>,
    /// The archive that cannot be opened.
    unreadable: Option<PathBuf>,
    records: u64,
    now: RecordState,
}

/// What is known of the record that was read last.
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
    /// A walk over the archives of a host.
    ///
    /// If the archive of a position is gone, it begins with the first archive that begins
    /// later ([`is_position_lost`](Self::is_position_lost)).
    ///
    /// # Errors
    ///
    /// Those of [`Archives::bases`].
    pub fn new(archives: Archives, start: Start) -> Result<Self> {
        let mut queue = Queue::new(archives);
        let wants_newest = start == Start::NewestValues;
        let (mut resume, mut is_position_lost, mut seek) = (None, false, None);
        match start {
            Start::First => {}
            Start::Time(from) => {
                queue.skip_begun(from, true)?;
                seek = Some(from);
            }
            Start::NewestArchive | Start::NewestValues => queue.skip_begun(Timestamp::MAX, true)?,
            Start::Position(position) => {
                if queue.skip_to(|base| name_of(base) == position.archive)? {
                    resume = Some(position);
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
            wants: Box::new(|_| true),
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

    /// Leaves out the values of all families but those that are wanted.
    #[must_use]
    pub fn only(mut self, wants: impl Fn(&Family) -> bool + Send + 'static) -> Self {
        self.wants = Box::new(wants);
        self
    }

    /// Whether the archive of the position to go on from is gone: what was between is not
    /// seen.
    pub const fn is_position_lost(&self) -> bool {
        self.is_position_lost
    }

    /// Gives memory back that is only needed while records are read.
    pub fn rest(&mut self) {
        self.output.observations = Vec::new();
        self.output.changes = Vec::new();
        self.catalog.fit();
    }

    /// What was left out so far.
    pub const fn counts(&self) -> Counts {
        self.output.counts
    }

    /// The next record; `None` if it is not there yet, or never comes.
    ///
    /// # Errors
    ///
    /// Those of [`Follower::next`] and [`Follower::open`]. The same error comes again, unless
    /// [`recover`](Self::recover) moves on.
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
        // In this order: once a later archive exists, this one grows no more.
        if self.queue.peek()?.is_none() {
            return Ok(None);
        }
        if !self.read()? {
            self.mark(StepKind::EndOfArchive);
        }
        Ok(Some(self.step()))
    }

    /// Passes by what [`next`](Self::next) failed at: a damaged record with all that is up to
    /// the next whole one, or an archive that cannot be read at all. Returns how many bytes
    /// of a volume were passed by; `None` if there is nothing to pass by, since the archives
    /// cannot be listed: that may be better later.
    pub fn recover(&mut self) -> Option<u64> {
        self.queue.peek().ok()?;
        if self.unreadable.take().is_some() {
            return Some(0);
        }
        let skipped = self.follower.as_mut()?.skip_damage().unwrap_or_default();
        self.position.offset = self.position.offset.saturating_add(skipped);
        // What is not in this record does not go away: the rest of the archive is lost.
        self.due = Some(if skipped > 0 { StepKind::Mark } else { StepKind::EndOfArchive });
        Some(skipped)
    }

    /// Makes an archive the one that is read; false if there is none yet.
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
            // What is damaged is found, and reported, where all records are read.
            self.chosen = newest_records(&mut follower).unwrap_or_default();
        }
        let label = follower.label();
        self.catalog.begin(label.hostname.as_str(), follower.metadata(), &*self.wants);
        let time = nanos(label.start);
        self.position = Position { archive: name_of(base), volume: 0, offset: 0, time };
        self.metadata_version = 0;
        self.follower = Some(follower);
        Ok(())
    }

    /// Reads a record; false if it is not there yet.
    fn read(&mut self) -> Result<bool> {
        let Some(follower) = &mut self.follower else { return Ok(false) };
        if let Some((volume, offset)) = self.chosen.pop_front() {
            follower.move_to(volume, offset)?;
        }
        let Some(next) = follower.next()? else { return Ok(false) };
        let (record, metadata, version) = (next.record, next.metadata, next.metadata_version);
        if std::mem::replace(&mut self.metadata_version, version) != version {
            self.catalog.set_metadata(metadata, &*self.wants);
        }
        self.records += 1;
        let (timestamp, nanos) = (record.timestamp(), nanos(record.timestamp()));
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
        let (volume, offset) = (record.volume(), record.offset());
        let is_repeated = self.resume.as_ref().is_some_and(|from| from.is_after(volume, offset));
        self.now = RecordState { timestamp: nanos, kind, is_repeated };
        self.position.volume = volume;
        self.position.offset = offset + record.size() as u64;
        self.position.time = nanos;
        Ok(true)
    }

    /// A mark that is in no file.
    fn mark(&mut self, kind: StepKind) {
        let timestamp = self.position.time.saturating_add(MARK_AFTER);
        self.catalog.move_to(Timestamp::from_nanos(timestamp.into()));
        self.catalog.end_all(timestamp, &mut self.output);
        if kind == StepKind::EndOfArchive {
            self.follower = None;
            (self.position.volume, self.position.offset) = (u32::MAX, u64::MAX);
        }
        let Position { volume, offset, .. } = self.position;
        let reaches = |from: &Position| (volume, offset) <= (from.volume, from.offset);
        let is_repeated = self.resume.as_ref().is_some_and(reaches);
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

/// The name of an archive without its directory.
fn name_of(base: &Path) -> String {
    base.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests;

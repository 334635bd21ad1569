//! An archive with one value an interval: years of history in the space of weeks.
//!
//! In: a selection of a source, a window and a grid of times. Out: records and metadata for a
//! writer, in the order of time.
//!
//! What is written of an instance depends on what its metric means:
//!
//! | metric | of each interval | at the time |
//! |---|---|---|
//! | counter | the value there, by the rules of [`replay`](crate::replay) | end of the interval |
//! | instant number | the mean, each value weighted by the time since the one before, and its [extremes](crate::scan) | end of the interval |
//! | discrete; text; bytes | the last value | end of the interval |
//! | events | all | their own |
//!
//! # Why no count is lost
//!
//! A line is a part of a counter's values that continue each other: between two marks, two runs
//! of a program, two lives of an instance, and without a decrease. Its first and last values are
//! written with their own times. With those on the grid in between, each line grows by as much as
//! before, and so does a sum over lines:
//!
//! ```text
//! seconds    1    7    13   19   25   31   37   43   49   55   61
//! logged     5   17    29   41  |restart|   2    9   16   23   30
//! grid                20                   40             60
//! written    5         -    41             5.5 -> 6       29       and 2 at 31 s
//! ```
//!
//! At 20 s there is nothing, because 41 is the last value of its run. An interval without a value
//! is left out; where that would be two or more in a row, the values on either side are written
//! with their own times, so that a counter that is logged once an hour is as exact as before in a
//! grid of minutes.
//!
//! Readers say that a counter began at 0 by rows of the archive: those are kept as well
//! (`analysis::growth::walls`).
//!
//! # Cost
//!
//! One pass over the columns of the window, in the memory of a chunk and of what six intervals
//! become.

mod counter;
mod gauge;
mod grid;
mod held;
mod histogram_rows;
mod output;
mod pass;
#[cfg(feature = "compression")]
pub(crate) mod replace;
mod rows;

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::scan::{Selection, programs};
use crate::{ArchiveWriter, Pmid, Result, Timestamp};
use grid::IntervalGrid;
use pass::ReducePass;

use super::extract::mapping::Mapping;
use super::rewrite::Rules;

/// A request to reduce a selection of an archive to one value an interval.
#[derive(Debug)]
pub struct Reduce<'a> {
    selection: Selection<'a>,
    window: RangeInclusive<Timestamp>,
    grid: IntervalGrid,
}

/// Anomalies of the source, found while it was reduced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReducedSource {
    /// Records that were left out because they are earlier than one before them.
    pub backward_records: u64,
}

impl<'a> Reduce<'a> {
    /// Reduces all records of a selection to one value an interval, on the multiples of the
    /// interval since 1970 in UTC. An interval of 0 is one nanosecond.
    ///
    /// The minimum and maximum of an instantaneous number in each interval are metrics of their own,
    /// `reduced.minimum.NAME` and `reduced.maximum.NAME`; [`summary`](crate::summary) and
    /// [`envelope`](crate::envelope) join them to it again.
    ///
    /// If metrics of MMV files are selected, so are the events of mmv-agent, by which readers know
    /// when programs ran.
    pub fn new(mut selection: Selection<'a>, interval: Duration) -> Self {
        programs::select_events(&mut selection);
        let window = Timestamp::from_nanos(i128::MIN)..=Timestamp::MAX;
        let grid = IntervalGrid::new(Timestamp::EPOCH, interval);
        Self { selection, window, grid }
    }

    /// Reduces only records with times from the start to the end of the window, both included.
    #[must_use]
    pub fn window(mut self, window: RangeInclusive<Timestamp>) -> Self {
        self.window = window;
        self
    }

    /// Sets a time of the grid; the others are intervals before and after it.
    #[must_use]
    pub fn origin(mut self, origin: Timestamp) -> Self {
        self.grid = self.grid.with_origin(origin);
        self
    }

    /// Returns the metrics that are left out because no name of them fits into the 4095 bytes
    /// that PCP's readers have room for, and the length of the first name.
    ///
    /// # Errors
    ///
    /// None now.
    pub fn unnameable(&self) -> Result<Vec<(Pmid, usize)>> {
        Ok(Mapping::new(&self.selection, &Rules::default())?.into_unnameable())
    }

    /// Writes the reduced archive. Every few megabytes `watch` is called with the time of the last
    /// record read.
    ///
    /// Marks are kept, and between two archives of the source there is one, as readers of the
    /// source see it. The new archive starts when the old one did, or with its first record if the
    /// window begins later. If no record has a value of the selection nothing is written, which is
    /// no error here.
    ///
    /// # Errors
    ///
    /// Those of the [scan](crate::scan::Columns::next_chunk) and of the writer.
    pub fn write(
        &self,
        writer: &mut ArchiveWriter,
        mut watch: impl FnMut(Timestamp),
    ) -> Result<ReducedSource> {
        let reduced = self.write_while(writer, |at| {
            watch(at);
            true
        });
        Ok(reduced?.unwrap_or_default())
    }

    /// Writes the reduced archive as [`write`](Self::write), as long as `go_on` returns `true`.
    /// Returns `None` if it ended before.
    fn write_while(
        &self,
        writer: &mut ArchiveWriter,
        go_on: impl FnMut(Timestamp) -> bool,
    ) -> Result<Option<ReducedSource>> {
        ReducePass::new(&self.selection, self.grid, &self.window, writer)?.run(go_on)
    }
}

#[cfg(test)]
mod tests;

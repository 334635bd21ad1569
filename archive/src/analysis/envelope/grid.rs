//! A window of time, cut into columns of the same width.

use std::ops::{Range, RangeInclusive};

use crate::Timestamp;

/// A window of time in columns, numbered from 0. A column begins at its start and ends
/// before the start of the next one; the last one has the end of the window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grid {
    start: Timestamp,
    end: Timestamp,
    /// Nanoseconds; at least 1.
    span: i128,
    columns: u32,
}

/// A time by its distance from the start of a grid.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct GridMoment {
    /// Nanoseconds, negative before the window.
    pub(super) offset: i128,
    /// `None` outside of the window.
    pub(super) column: Option<u32>,
}

impl Grid {
    /// The most columns of a grid.
    pub const MAX_COLUMNS: u32 = 1 << 20;

    /// Divides the window into at least one and at most [`MAX_COLUMNS`](Self::MAX_COLUMNS)
    /// columns.
    pub fn new(window: RangeInclusive<Timestamp>, columns: u32) -> Self {
        let (start, end) = window.into_inner();
        let span = end.nanos_since(start).max(1);
        Self { start, end, span, columns: columns.clamp(1, Self::MAX_COLUMNS) }
    }

    /// Columns of `width` nanoseconds from a time in nanoseconds since 1970 on; the window
    /// ends a nanosecond before the column after the last one begins. `None` if a time does
    /// not exist, or for more columns than there may be.
    pub(super) fn aligned(first: i128, width: i128, columns: u32) -> Option<Self> {
        let span = width.checked_mul(i128::from(columns)).filter(|span| *span > 0)?;
        let last = first.checked_add(span - 1)?;
        let start = Timestamp::from_nanos(first);
        let end = Timestamp::from_nanos(last);
        let exists = start.as_nanos() == first && end.as_nanos() == last;
        let is_narrow = columns <= Self::MAX_COLUMNS;
        (exists && is_narrow).then_some(Self { start, end, span, columns })
    }

    /// Returns the grid of a range of columns; `None` if the range is empty or too large, or if columns
    /// are shorter than a nanosecond.
    ///
    /// ```
    /// use pcp_archive::Timestamp;
    /// use pcp_archive::envelope::Grid;
    ///
    /// let at = |second: i128| Timestamp::from_nanos(second * 1_000_000_000);
    /// let grid = Grid::new(at(0)..=at(60), 6);
    /// let part = grid.part(2..4).unwrap();
    /// assert_eq!(*part.window().start(), at(20));
    /// assert_eq!(part.column_of(at(30)), Some(1));
    /// assert_eq!(part.column_of(at(40)), None);
    /// ```
    pub fn part(&self, columns: Range<u32>) -> Option<Self> {
        if columns.is_empty() || columns.end > self.columns || self.width() == 0 {
            return None;
        }
        let count = columns.end - columns.start;
        let first = self.begin_of(columns.start);
        let start = Timestamp::from_nanos(self.start.as_nanos().saturating_add(first));
        if columns.end == self.columns {
            return Some(Self { start, end: self.end, span: self.span - first, columns: count });
        }
        let span = self.begin_of(columns.end) - first;
        let end = start.as_nanos().saturating_add(span - 1);
        Some(Self { start, end: Timestamp::from_nanos(end), span, columns: count })
    }

    /// Returns the first and the last time of the window.
    pub const fn window(&self) -> RangeInclusive<Timestamp> {
        self.start..=self.end
    }

    /// Returns the number of columns.
    pub const fn columns(&self) -> u32 {
        self.columns
    }

    /// Returns the column of a time; `None` outside of the window.
    pub fn column_of(&self, at: Timestamp) -> Option<u32> {
        self.moment(at).column
    }

    pub(super) fn moment(&self, at: Timestamp) -> GridMoment {
        let offset = at.nanos_since(self.start);
        let is_inside = (0..=self.span).contains(&offset) && at <= self.end;
        GridMoment { offset, column: is_inside.then(|| self.column_at(offset)) }
    }

    pub(super) fn time_of(&self, moment: GridMoment) -> Timestamp {
        Timestamp::from_nanos(self.start.as_nanos().saturating_add(moment.offset))
    }

    /// Returns whether a time is not after the window, whose end is part of its last column.
    pub(super) const fn has_until(&self, at: GridMoment) -> bool {
        at.offset <= self.span
    }

    fn column_at(&self, offset: i128) -> u32 {
        // Times have 64 bits of seconds, offsets 94 bits: the product fits.
        let column = quotient(offset.max(0) * i128::from(self.columns), self.span);
        u32::try_from(column).unwrap_or(u32::MAX).min(self.columns - 1)
    }

    /// Returns the nanoseconds of each column, where all have the same.
    pub(super) fn width(&self) -> i128 {
        self.span / i128::from(self.columns)
    }

    /// Returns an aligned grid with columns that are two of this one each, counted from 1970 on,
    /// and by how many columns of this one it begins earlier: 0 or 1.
    pub(super) fn coarser(&self) -> Option<(Self, u32)> {
        let first = self.start.as_nanos();
        let width = self.width();
        let ahead = u32::from(first.div_euclid(width).rem_euclid(2) == 1);
        let columns = (self.columns + ahead).div_ceil(2);
        let grid = Self::aligned(first - i128::from(ahead) * width, 2 * width, columns)?;
        Some((grid, ahead))
    }

    fn begin_of(&self, column: u32) -> i128 {
        let columns = i128::from(self.columns);
        quotient(i128::from(column) * self.span + columns - 1, columns)
    }

    /// Calls a function with each part of the time between two moments that is in the
    /// window: the columns, and the seconds in each of them. Columns in between are one part.
    #[inline]
    pub(super) fn parts(
        &self,
        from: GridMoment,
        to: GridMoment,
        mut part: impl FnMut(Range<u32>, f64),
    ) {
        if let (Some(first), Some(last)) = (from.column, to.column)
            && first == last
        {
            if to.offset > from.offset {
                part(first..first + 1, seconds(to.offset - from.offset));
            }
            return;
        }
        let begin = from.offset.max(0);
        let end = to.offset.min(self.span);
        if begin >= end {
            return;
        }
        let first = self.column_at(begin);
        let last = self.column_at(end - 1);
        let within = |column: u32| {
            let after =
                if column + 1 < self.columns { self.begin_of(column + 1) } else { self.span };
            seconds(after.min(end) - self.begin_of(column).max(begin))
        };
        part(first..first + 1, within(first));
        if last > first + 1 {
            let between = self.begin_of(last) - self.begin_of(first + 1);
            part(first + 1..last, seconds(between) / f64::from(last - first - 1));
        }
        if last > first {
            part(last..last + 1, within(last));
        }
    }
}

/// Returns the quotient of two numbers that are not negative, the second of them not 0.
#[inline]
fn quotient(dividend: i128, divisor: i128) -> i128 {
    // Nearly all fit: then it is one instruction, and otherwise a call.
    match (u64::try_from(dividend), u64::try_from(divisor)) {
        (Ok(dividend), Ok(divisor)) => i128::from(dividend / divisor),
        _ => dividend / divisor,
    }
}

#[inline]
pub(super) fn seconds(nanos: i128) -> f64 {
    // Nearly all fit, and their conversion is an instruction.
    i64::try_from(nanos).map_or(nanos as f64, |nanos| nanos as f64) / 1e9
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn time(nanos: i128) -> Timestamp {
        Timestamp::from_nanos(1_700_000_000_000_000_000 + nanos)
    }

    #[test]
    fn the_last_column_has_the_end_of_the_window() {
        let grid = Grid::new(time(0)..=time(1000), 10);
        let column = |nanos| grid.column_of(time(nanos));
        assert_eq!([column(-1), column(0), column(99)], [None, Some(0), Some(0)]);
        assert_eq!([column(100), column(1000), column(1001)], [Some(1), Some(9), None]);
    }

    #[test]
    fn a_window_of_one_moment_has_a_column() {
        let grid = Grid::new(time(5)..=time(5), 7);
        assert_eq!([grid.column_of(time(5)), grid.column_of(time(6))], [Some(0), None]);
    }

    #[test]
    fn the_longest_window_has_columns() {
        let first = Timestamp::from_nanos(i128::MIN);
        let grid = Grid::new(first..=Timestamp::MAX, Grid::MAX_COLUMNS);
        assert_eq!(grid.column_of(Timestamp::MAX), Some(Grid::MAX_COLUMNS - 1));
        assert_eq!(grid.column_of(first), Some(0));
    }

    proptest! {
        /// forall windows, intervals: the parts are in the columns of their times, follow
        /// each other, and are together as long as the interval within the window.
        #[test]
        fn the_parts_of_an_interval_are_the_whole(
            span in 0i128..200,
            columns in 1u32..30,
            from in -50i128..250,
            length in 0i128..300,
        ) {
            let grid = Grid::new(time(0)..=time(span), columns);
            let mut next = None;
            let mut nanos = 0.0;
            let mut failed = false;
            grid.parts(grid.moment(time(from)), grid.moment(time(from + length)), |range, each| {
                failed |= next.is_some_and(|next| next != range.start);
                next = Some(range.end);
                nanos += each * range.len() as f64 * 1e9;
            });
            prop_assert!(!failed);
            let inside = ((from + length).min(span.max(1)) - from.max(0)).max(0);
            prop_assert!((nanos - inside as f64).abs() < 1e-3, "{nanos} of {inside}");
        }
    }
}

//! The rows of a chunk that have a value in a column.

use std::ops::Range;

/// Rising places in [`Chunk::stamps`](super::Chunk::stamps).
///
/// Most columns have a value in every row: as long as the rows follow each
/// other, no list of them is kept.
#[derive(Debug, Clone, Default)]
pub struct Rows {
    first: u32,
    len: usize,
    /// All rows once two of them do not follow each other; empty before.
    list: Vec<u32>,
}

impl Rows {
    /// How many there are.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The row at a place, counted from 0.
    #[inline]
    pub fn get(&self, place: usize) -> Option<u32> {
        if place >= self.len {
            None
        } else if self.list.is_empty() {
            Some(self.first + place as u32)
        } else {
            self.list.get(place).copied()
        }
    }

    /// The last row.
    pub fn last(&self) -> Option<u32> {
        self.get(self.len.checked_sub(1)?)
    }

    /// The rows in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = u32> + DoubleEndedIterator {
        // No place is behind the last one.
        (0..self.len).map(|place| self.get(place).unwrap_or_default())
    }

    /// How many of the rows lie in front of `row`.
    ///
    /// Rows rise by one at least, so the first and the last of them leave few
    /// places to search: of 3, 4, 6 exactly one lies in front of 4, because
    /// 4 - 3 is one and so is what is left of three without 4 to 6.
    #[inline]
    pub fn count_before(&self, row: u32) -> usize {
        let Some(last) = self.last() else { return 0 };
        if row > last {
            return self.len;
        }
        let most = self.len.min(row.saturating_sub(self.first) as usize);
        let fewest = (self.len - 1).saturating_sub((last - row) as usize);
        let between = self.list.get(fewest..most).unwrap_or_default();
        fewest + between.partition_point(|&other| other < row)
    }

    /// The rows cut wherever two do not follow each other: the places of each
    /// stretch, and its first row.
    pub(crate) fn stretches(&self) -> impl Iterator<Item = (Range<usize>, u32)> {
        let mut start = 0;
        std::iter::from_fn(move || {
            let first = self.get(start)?;
            let len = if self.list.is_empty() {
                self.len
            } else {
                let rest = self.list.get(start..).unwrap_or_default().iter().zip(first..);
                rest.take_while(|(found, next)| *found == next).count()
            };
            let places = start..start + len;
            start = places.end;
            Some((places, first))
        })
    }

    /// Adds rows that follow each other, the first of them behind the last one
    /// here.
    #[inline]
    pub(super) fn extend(&mut self, rows: Range<u32>) {
        if rows.is_empty() {
            return;
        }
        if self.len == 0 {
            self.first = rows.start;
        }
        if self.list.is_empty() && rows.start as usize != self.first as usize + self.len {
            self.list.extend(self.first..self.first + self.len as u32);
        }
        self.len += rows.len();
        if !self.list.is_empty() {
            self.list.extend(rows);
        }
    }

    /// Takes the last row away.
    pub(super) fn pop(&mut self) {
        self.list.pop();
        self.len = self.len.saturating_sub(1);
    }

    /// Takes all rows away, and gives memory back as the columns do.
    pub(super) fn clear(&mut self) {
        super::column::clear(&mut self.list);
        self.len = 0;
    }
}

#[cfg(test)]
impl<const N: usize> From<[u32; N]> for Rows {
    fn from(list: [u32; N]) -> Self {
        let mut rows = Self::default();
        for row in list {
            rows.extend(row..row + 1);
        }
        rows
    }
}

impl PartialEq<[u32]> for Rows {
    fn eq(&self, other: &[u32]) -> bool {
        self.iter().eq(other.iter().copied())
    }
}

impl<const N: usize> PartialEq<[u32; N]> for Rows {
    fn eq(&self, other: &[u32; N]) -> bool {
        *self == other[..]
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::{btree_set, vec};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// forall rising rows: they are what was added, whether they follow each other or not.
        #[test]
        fn rows_are_what_was_added(steps in vec((1u32..3, 1u32..5), 0..20), dropped in 0usize..9) {
            let (mut rows, mut expected) = (Rows::default(), Vec::new());
            rows.extend(7..9);
            rows.clear();
            let mut next = 3;
            for (step, len) in steps {
                let first = next + step - 1;
                next = first + len;
                rows.extend(first..next);
                expected.extend(first..next);
            }
            for _ in 0..dropped {
                rows.pop();
                expected.pop();
            }
            prop_assert_eq!(rows.len(), expected.len());
            prop_assert_eq!(rows.last(), expected.last().copied());
            prop_assert_eq!(rows.get(expected.len()), None);
            let mut stretched = Vec::new();
            for (places, first) in rows.stretches() {
                prop_assert_eq!(places.start, stretched.len());
                prop_assert!(expected.get(places.end) != Some(&(first + places.len() as u32)));
                stretched.extend((first..).take(places.len()));
            }
            prop_assert_eq!(&stretched, &expected);
            prop_assert!(rows == expected[..]);
        }

        /// forall rising rows, row: count_before is the number of rows below.
        #[test]
        fn as_many_lie_in_front_as_are_below(
            list in btree_set(0u32..40, 0..40),
            row in 0u32..50,
        ) {
            let mut rows = Rows::default();
            for &row in &list {
                rows.extend(row..row + 1);
            }
            let below = list.iter().filter(|&&other| other < row).count();
            prop_assert_eq!(rows.count_before(row), below);
        }
    }
}

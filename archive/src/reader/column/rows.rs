//! The rows of a chunk with a value in a column.

use std::ops::Range;

/// Rising places in [`Chunk::timestamps`](crate::scan::Chunk::timestamps).
///
/// Most columns have a value in every row. So what is kept is where a stretch
/// of rows that follow each other begins: rows 3, 4, 5, 7, 8 are a stretch from
/// row 3 at place 0, and one from row 7 at place 3.
#[derive(Debug, Clone, Default)]
pub struct Rows {
    /// The start of the first stretch.
    first: u32,
    len: usize,
    /// The starts of the others.
    others: Vec<Start>,
}

#[derive(Debug, Clone, Copy)]
struct Start {
    row: u32,
    place: u32,
}

impl Rows {
    /// Returns the number of rows.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no rows.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the row at a place, counted from 0.
    #[inline]
    pub fn get(&self, place: usize) -> Option<u32> {
        if place >= self.len {
            return None;
        }
        // Every stretch has at least one row, so the stretches with a single
        // row bound the search.
        let alone = self.len - self.others.len();
        let fewest = (place + 1).saturating_sub(alone);
        let searched = self.others.get(fewest..place.min(self.others.len())).unwrap_or_default();
        let passed = fewest + searched.partition_point(|start| start.place as usize <= place);
        let Start { row, place: start } = self.start(passed);
        Some(row + (place as u32 - start))
    }

    /// Returns the start of a stretch, which exists.
    #[inline]
    fn start(&self, stretch: usize) -> Start {
        let other = stretch.checked_sub(1).and_then(|other| self.others.get(other)).copied();
        other.unwrap_or(Start { row: self.first, place: 0 })
    }

    /// Returns the last row.
    #[inline]
    pub fn last(&self) -> Option<u32> {
        let Start { row, place } = self.start(self.others.len());
        (self.len > 0).then(|| row + (self.len as u32 - 1 - place))
    }

    /// Returns the rows in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.stretches().flat_map(|(places, first)| (first..).take(places.len()))
    }

    /// Returns the number of rows before `row`: of 3, 4, 5, 7, 8 there are three before 7, and
    /// before 6.
    #[inline]
    pub fn count_before(&self, row: u32) -> usize {
        self.split(row).2
    }

    /// Returns the place of the last one before `row`, and the row.
    #[inline]
    pub(crate) fn last_before(&self, row: u32) -> Option<(usize, u32)> {
        let (_, Start { row: first, place }, count) = self.split(row);
        let last = count.checked_sub(1)?;
        Some((last, first + (last as u32 - place)))
    }

    /// Returns the place of the first one that is not before `row`, and the row.
    #[inline]
    pub(crate) fn first_from(&self, row: u32) -> Option<(usize, u32)> {
        let (begun, Start { row: first, place }, count) = self.split(row);
        let next = self.others.get(begun).filter(|next| next.place as usize == count);
        let found = next.map_or(first + (count as u32 - place), |next| next.row);
        (count < self.len).then_some((count, found))
    }

    /// Returns the number of stretches after the first that begin before `row`, the start of the
    /// last of them, and the number of rows before `row`.
    #[inline]
    fn split(&self, row: u32) -> (usize, Start, usize) {
        let begun = self.others.partition_point(|start| start.row < row);
        let start = self.start(begun);
        let end = self.others.get(begun).map_or(self.len, |next| next.place as usize);
        (begun, start, end.min(start.place as usize + row.saturating_sub(start.row) as usize))
    }

    /// Returns the places of each stretch, and its first row.
    pub(crate) fn stretches(&self) -> impl Iterator<Item = (Range<usize>, u32)> {
        let all = (0..=self.others.len()).filter(|_| self.len > 0);
        all.map(|stretch| {
            let Start { row, place } = self.start(stretch);
            let end = self.others.get(stretch).map_or(self.len, |next| next.place as usize);
            (place as usize..end, row)
        })
    }

    /// Adds rows that follow each other, the first of them after the last one
    /// here.
    #[inline]
    pub(crate) fn extend(&mut self, rows: Range<u32>) {
        if rows.is_empty() {
            return;
        }
        match self.last() {
            None => self.first = rows.start,
            Some(last) if last + 1 == rows.start => {}
            Some(_) => self.others.push(Start { row: rows.start, place: self.len as u32 }),
        }
        self.len += rows.len();
    }

    pub(crate) fn pop(&mut self) {
        self.len = self.len.saturating_sub(1);
        self.others.pop_if(|last| last.place as usize == self.len);
    }

    /// Creates an empty set with the capacity of this one.
    pub(crate) fn emptied(&self) -> Self {
        Self { others: Vec::with_capacity(self.others.capacity()), ..Self::default() }
    }

    /// Takes all rows away, and gives memory back as the columns do.
    pub(crate) fn clear(&mut self) {
        crate::reader::column::clear(&mut self.others);
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
            let mut rows = Rows::default();
            let mut expected = Vec::new();
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
            for (place, row) in expected.iter().enumerate() {
                prop_assert_eq!(rows.get(place), Some(*row));
            }
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
            let last = list.range(..row).next_back();
            prop_assert_eq!(rows.last_before(row), last.map(|&last| (below - 1, last)));
            let next = list.range(row..).next();
            prop_assert_eq!(rows.first_from(row), next.map(|&next| (below, next)));
        }
    }
}

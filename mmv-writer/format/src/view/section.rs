//! Private copies of the entries of all sections of one kind.
//!
//! Entries that are nothing but zeros are unused. They count for the positions of the
//! others, and take no memory where a whole block of the file is zeros.

use std::ops::Range;

use zerocopy::FromBytes;

use super::budget::Run;

/// The sections of one kind, in reverse order: PCP's reader takes the help of a domain from the
/// last one in the table of contents, and ours from the first one here.
#[derive(Debug, Default)]
pub(super) struct Section {
    size: usize,
    parts: Vec<SectionPart>,
}

/// One section: its location, and the copies of its entries.
#[derive(Debug)]
struct SectionPart {
    offset: u64,
    count: u64,
    /// Number of entries in the parts before this one.
    earlier_entries: u64,
    /// Number of copies in the parts before this one.
    earlier_copies: usize,
    /// Each run with the number of copies in this part before it.
    runs: Vec<(usize, Run)>,
    copies: usize,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct CopiedEntry<'a> {
    /// Number of the copy, across all parts.
    pub(super) number: usize,
    /// Index among all entries.
    pub(super) index: usize,
    pub(super) offset: u64,
    pub(super) bytes: &'a [u8],
}

pub(super) enum EntryLookup {
    /// The offset is not the start of an entry.
    Nothing,
    /// An entry of zeros, without a copy.
    Zeros,
    /// The copy with this number.
    Copy(usize),
}

impl Section {
    /// Inserts a section before the present ones.
    pub(super) fn put_first(&mut self, size: usize, offset: u64, count: u32, runs: Vec<Run>) {
        self.size = size;
        let mut copies = 0;
        let runs = runs.into_iter().map(|run| {
            let before = copies;
            copies += run.bytes.len() / size;
            (before, run)
        });
        let runs = runs.collect();
        let count = count.into();
        for part in &mut self.parts {
            part.earlier_entries += count;
            part.earlier_copies += copies;
        }
        let part =
            SectionPart { offset, count, earlier_entries: 0, earlier_copies: 0, runs, copies };
        self.parts.insert(0, part);
    }

    pub(super) fn copies(&self) -> usize {
        self.parts.iter().map(|part| part.copies).sum()
    }

    /// Returns the number of entries.
    pub(super) fn count(&self) -> u64 {
        self.parts.iter().map(|part| part.count).sum()
    }

    /// Returns the entries that are not all zeros.
    pub(super) fn entries<T: FromBytes>(&self) -> impl Iterator<Item = (CopiedEntry<'_>, T)> {
        self.copies_in(0..usize::MAX)
            .filter_map(|entry| Some((entry, T::read_from_bytes(entry.bytes).ok()?)))
    }

    /// Returns the copies with these numbers that are not all zeros.
    pub(super) fn copies_in(&self, range: Range<usize>) -> impl Iterator<Item = CopiedEntry<'_>> {
        let size = self.size;
        let parts = self.parts.iter().filter(move |part| {
            part.earlier_copies < range.end && part.earlier_copies + part.copies > range.start
        });
        parts
            .flat_map(move |part| {
                let first = range.start.saturating_sub(part.earlier_copies);
                let end = range.end.saturating_sub(part.earlier_copies).min(part.copies);
                let skipped = part.runs.partition_point(|(before, _)| *before <= first).max(1) - 1;
                let runs =
                    part.runs.iter().skip(skipped).take_while(move |(before, _)| *before < end);
                runs.flat_map(move |(before, run)| {
                    let from = first.saturating_sub(*before);
                    let chunks = run.bytes.chunks_exact(size).enumerate().skip(from);
                    let chunks = chunks.take(end.saturating_sub(before + from));
                    chunks.map(move |(at, bytes)| {
                        let index = run.first + at as u64;
                        CopiedEntry {
                            number: part.earlier_copies + before + at,
                            index: (part.earlier_entries + index) as usize,
                            offset: part.offset + index * size as u64,
                            bytes,
                        }
                    })
                })
            })
            .filter(|entry| entry.bytes.iter().any(|byte| *byte != 0))
    }

    /// Looks up an entry by its offset.
    pub(super) fn find(&self, offset: u64) -> EntryLookup {
        let Some((part, index)) = self.locate(offset) else { return EntryLookup::Nothing };
        let number = part.copies_before(index, self.size);
        if part.copies_before(index + 1, self.size) > number {
            EntryLookup::Copy(part.earlier_copies + number)
        } else {
            EntryLookup::Zeros
        }
    }

    /// Returns the numbers of the copies of `count` entries, the first of which starts at `offset`;
    /// `None` if they are not all in one section.
    pub(super) fn range_of(&self, offset: u64, count: u32) -> Option<Range<usize>> {
        let (part, first) = self.locate(offset)?;
        let end = first.checked_add(count.into()).filter(|end| *end <= part.count)?;
        let start = part.copies_before(first, self.size);
        let end = part.copies_before(end, self.size);
        Some(part.earlier_copies + start..part.earlier_copies + end)
    }

    /// Finds the section that an offset is in, and the index of the entry that starts there.
    fn locate(&self, offset: u64) -> Option<(&SectionPart, u64)> {
        let size = self.size as u64;
        let (part, distance) = self.parts.iter().find_map(|part| {
            let distance = offset.checked_sub(part.offset)?;
            (distance < part.count * size).then_some((part, distance))
        })?;
        distance.is_multiple_of(size).then(|| (part, distance / size))
    }

    /// Returns whether the `len` bytes at `offset` are all in one section.
    pub(super) fn holds(&self, offset: u64, len: u64) -> bool {
        self.part_with(offset, len).is_some()
    }

    fn part_with(&self, offset: u64, len: u64) -> Option<&SectionPart> {
        self.parts.iter().find(|part| {
            let end =
                offset.checked_sub(part.offset).and_then(|distance| distance.checked_add(len));
            end.is_some_and(|end| end <= part.count * self.size as u64)
        })
    }

    /// Copies the bytes at `offset` into `buffer`. Returns `false` if they are not all in one
    /// section.
    pub(super) fn read(&self, offset: u64, buffer: &mut [u8]) -> bool {
        let size = self.size as u64;
        let Some(part) = self.part_with(offset, buffer.len() as u64) else { return false };
        let start = offset - part.offset;
        buffer.fill(0);
        let first = part.runs.partition_point(|(_, run)| run.end(size) * size <= start);
        for (_, run) in part.runs.iter().skip(first) {
            let at = run.first * size;
            let skipped = start.saturating_sub(at) as usize;
            let gap = at.saturating_sub(start) as usize;
            let (Some(from), Some(to)) = (run.bytes.get(skipped..), buffer.get_mut(gap..)) else {
                break;
            };
            let len = from.len().min(to.len());
            if let (Some(from), Some(to)) = (from.get(..len), to.get_mut(..len)) {
                to.copy_from_slice(from);
            }
        }
        true
    }
}

impl SectionPart {
    fn copies_before(&self, index: u64, size: usize) -> usize {
        let next = self.runs.partition_point(|(_, run)| run.first < index);
        let Some((before, run)) = next.checked_sub(1).and_then(|last| self.runs.get(last)) else {
            return 0;
        };
        before + (index.min(run.end(size as u64)) - run.first) as usize
    }
}

impl Run {
    /// Returns the index after that of the last entry.
    fn end(&self, size: u64) -> u64 {
        self.first + self.bytes.len() as u64 / size
    }
}

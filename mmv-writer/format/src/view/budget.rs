//! Bounded reading: never reads or allocates more of a file than the caller allowed.

use std::collections::TryReserveError;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use nix::errno::Errno;
use nix::unistd::{Whence, lseek};

use super::{Limits, Refusal};

/// Number of bytes that are read at once.
const CHUNK: usize = 1 << 16;
/// Number of bytes that are dropped together if all are zero, else kept.
const BLOCK: usize = 1 << 12;
const ZEROS: [u8; BLOCK] = [0; BLOCK];
/// Size below which a section is read whole, without looking for holes, and memory is used
/// without a check that more is available.
const SMALL: u64 = 1 << 20;
/// Interval of memory use, in bytes, between checks that the next interval and as much again
/// are available.
const STEP: u64 = 16 << 20;

/// A source of a file's bytes.
pub trait Source {
    /// Fills `buffer` with the bytes at `offset`.
    ///
    /// # Errors
    ///
    /// The errors of the system; [`io::ErrorKind::UnexpectedEof`] if there are fewer bytes.
    fn fill(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;

    /// Returns the first part of `range` that is not in a hole of the file; `None` if all is. The
    /// default assumes no holes.
    ///
    /// # Errors
    ///
    /// The errors of the system.
    fn data(&self, range: Range<u64>) -> io::Result<Option<Range<u64>>> {
        Ok((!range.is_empty()).then_some(range))
    }
}

impl Source for File {
    fn fill(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.read_exact_at(buffer, offset)
    }

    /// Uses `SEEK_DATA` and `SEEK_HOLE` (`lseek(2)`), which change nothing but the position of the
    /// descriptor. File systems that do not support them are treated as having no holes.
    fn data(&self, range: Range<u64>) -> io::Result<Option<Range<u64>>> {
        if range.is_empty() {
            return Ok(None);
        }
        let seek = |from: u64, whence| {
            let from = i64::try_from(from).map_err(|_| Errno::EOVERFLOW)?;
            lseek(self, from, whence).map(i64::cast_unsigned)
        };
        let start = match seek(range.start, Whence::SeekData) {
            Ok(start) if start < range.end => start.max(range.start),
            Ok(_) | Err(Errno::ENXIO) => return Ok(None),
            Err(Errno::EINVAL | Errno::EOPNOTSUPP) => return Ok(Some(range)),
            Err(error) => return Err(error.into()),
        };
        // The file may become shorter meanwhile.
        let end = seek(start, Whence::SeekHole).unwrap_or(range.end);
        Ok(Some(start..end.clamp(start + 1, range.end)))
    }
}

impl Source for [u8] {
    fn fill(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let from = usize::try_from(offset).ok().and_then(|start| self.get(start..));
        let bytes = from.and_then(|rest| rest.get(..buffer.len()));
        buffer.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// The cost of reading a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// Bytes that were read.
    pub read: u64,
    /// Bytes of memory that were used, for copies and for what was parsed from them. Includes the
    /// memory that [`Contents`](super::Contents) keeps.
    pub memory: u64,
}

/// Consecutive entries, at least one byte of which is not zero.
#[derive(Debug)]
pub(super) struct Run {
    /// Index of the first entry.
    pub(super) first: u64,
    pub(super) bytes: Vec<u8>,
}

/// A source, its size, and the bytes that may still be taken from it.
pub(super) struct Budget<'a, S: Source + ?Sized> {
    source: &'a S,
    pub(super) file_len: u64,
    limit: u64,
    /// What a growing file has not announced is read as well.
    pub(super) writer_has_ended: bool,
    pub(super) cost: Cost,
    /// Memory use up to which it is known that memory is available. Small files are read without
    /// that check.
    assured: u64,
}

impl<'a, S: Source + ?Sized> Budget<'a, S> {
    pub(super) fn new(source: &'a S, file_len: u64, limits: Limits) -> Self {
        Self {
            source,
            file_len,
            limit: limits.bytes,
            writer_has_ended: limits.writer_has_ended,
            cost: Cost::default(),
            assured: SMALL,
        }
    }

    /// Returns whether `bytes` bytes at `offset` are inside the file.
    pub(super) fn holds(&self, offset: u64, bytes: u64) -> bool {
        offset.checked_add(bytes).is_some_and(|end| end <= self.file_len)
    }

    /// Charges `bytes` bytes of memory to the budget.
    pub(super) fn spend(&mut self, bytes: u64) -> Result<(), Refusal> {
        let needed = self.cost.memory.saturating_add(bytes);
        if needed > self.limit {
            return Err(Refusal::TooLarge { needed, limit: self.limit });
        }
        if needed > self.assured {
            // Where the address space is limited, small allocations that follow would
            // end the process if they failed.
            let ahead = STEP.max(bytes);
            reserve(&mut Vec::<u8>::new(), ahead.saturating_add(STEP))?;
            self.assured = self.cost.memory + ahead;
        }
        self.cost.memory = needed;
        Ok(())
    }

    pub(super) fn push<T>(&mut self, list: &mut Vec<T>, item: T) -> Result<(), Refusal> {
        self.spend(size_of::<T>() as u64)?;
        list.try_reserve(1).map_err(|error| no_memory(&error, size_of::<T>() as u64))?;
        list.push(item);
        Ok(())
    }

    /// Makes a list of `len` equal items, charged to the budget.
    pub(super) fn filled<T: Clone>(&mut self, item: T, len: usize) -> Result<Vec<T>, Refusal> {
        let bytes = (len as u64).saturating_mul(size_of::<T>() as u64);
        self.spend(bytes)?;
        let mut list = Vec::new();
        list.try_reserve_exact(len).map_err(|error| no_memory(&error, bytes))?;
        list.resize(len, item);
        Ok(list)
    }

    pub(super) fn fill(&mut self, buffer: &mut [u8], offset: u64) -> Result<(), Refusal> {
        let needed = self.cost.read.saturating_add(buffer.len() as u64);
        if needed > self.limit {
            return Err(Refusal::TooLarge { needed, limit: self.limit });
        }
        self.cost.read = needed;
        Ok(self.source.fill(buffer, offset)?)
    }

    /// Copies bytes that are inside the file, by [`Budget::holds`].
    pub(super) fn copy(&mut self, offset: u64, bytes: u64) -> Result<Vec<u8>, Refusal> {
        let len = usize::try_from(bytes)
            .map_err(|_| Refusal::TooLarge { needed: bytes, limit: self.limit })?;
        let mut buffer = self.filled(0, len)?;
        self.fill(&mut buffer, offset)?;
        Ok(buffer)
    }

    /// Copies entries of `size` bytes that are inside the file, without blocks that are all zeros:
    /// holes cost nothing.
    pub(super) fn copy_entries(
        &mut self,
        offset: u64,
        size: usize,
        count: u32,
    ) -> Result<Vec<Run>, Refusal> {
        let end = offset + u64::from(count) * size as u64;
        let mut chunk = self.filled(0, CHUNK.min((end - offset) as usize))?;
        let mut runs = Runs { offset, size: size as u64, list: Vec::new() };
        let mut at = offset;
        while at < end {
            let data =
                if end - offset <= SMALL { Some(at..end) } else { self.source.data(at..end)? };
            let Some(data) = data else { break };
            at = data.start;
            while at < data.end {
                // Up to a multiple, so that blocks are those of the file.
                let len = (CHUNK - (at % CHUNK as u64) as usize).min((data.end - at) as usize);
                let Some(buffer) = chunk.get_mut(..len) else { break };
                self.fill(buffer, at)?;
                for block in buffer.chunks(BLOCK) {
                    if ZEROS.get(..block.len()) != Some(block) {
                        runs.add(self, at, block)?;
                    }
                    at += block.len() as u64;
                }
            }
        }
        runs.finish(self, end)
    }
}

/// The runs of a section that is being read.
struct Runs {
    offset: u64,
    size: u64,
    list: Vec<Run>,
}

impl Runs {
    /// Adds the bytes at offset `at` of the file.
    fn add<S: Source + ?Sized>(
        &mut self,
        budget: &mut Budget<'_, S>,
        at: u64,
        block: &[u8],
    ) -> Result<(), Refusal> {
        let first = (at - self.offset) / self.size;
        let joins = self.list.last().is_some_and(|run| {
            let end = run.first * self.size + run.bytes.len() as u64;
            first <= end.div_ceil(self.size)
        });
        if !joins {
            self.pad(budget)?;
            budget.push(&mut self.list, Run { first, bytes: Vec::new() })?;
        }
        let offset = self.offset;
        let size = self.size;
        let Some(run) = self.list.last_mut() else { return Ok(()) };
        let start = (at - offset - run.first * size) as usize;
        lengthen(budget, &mut run.bytes, start)?;
        budget.spend(block.len() as u64)?;
        reserve(&mut run.bytes, block.len() as u64)?;
        run.bytes.extend_from_slice(block);
        Ok(())
    }

    /// Pads the last entry of the last run with zeros.
    fn pad<S: Source + ?Sized>(&mut self, budget: &mut Budget<'_, S>) -> Result<(), Refusal> {
        let size = self.size as usize;
        let Some(run) = self.list.last_mut() else { return Ok(()) };
        let len = run.bytes.len().next_multiple_of(size);
        lengthen(budget, &mut run.bytes, len)
    }

    fn finish<S: Source + ?Sized>(
        mut self,
        budget: &mut Budget<'_, S>,
        end: u64,
    ) -> Result<Vec<Run>, Refusal> {
        self.pad(budget)?;
        debug_assert!(self.list.last().is_none_or(|run| {
            self.offset + run.first * self.size + run.bytes.len() as u64 <= end
        }));
        Ok(self.list)
    }
}

/// Extends a copy with zeros, charged to the budget.
fn lengthen<S: Source + ?Sized>(
    budget: &mut Budget<'_, S>,
    bytes: &mut Vec<u8>,
    len: usize,
) -> Result<(), Refusal> {
    let more = len.saturating_sub(bytes.len()) as u64;
    budget.spend(more)?;
    reserve(bytes, more)?;
    bytes.resize(len.max(bytes.len()), 0);
    Ok(())
}

/// Reserves room for more bytes; fails if there is no memory.
fn reserve(bytes: &mut Vec<u8>, more: u64) -> Result<(), Refusal> {
    let len = usize::try_from(more).unwrap_or(usize::MAX);
    bytes.try_reserve(len).map_err(|error| no_memory(&error, more))
}

fn no_memory(_: &TryReserveError, needed: u64) -> Refusal {
    Refusal::NoMemory { needed }
}

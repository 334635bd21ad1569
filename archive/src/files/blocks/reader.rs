//! The bytes of a file of blocks.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::sync::Arc;

use super::buffer::Buffer;
use super::cache::CacheLookup;
use super::packed::{FileId, PackedFile};
use super::{BlockCache, BlockTable};
use crate::files::parallel;

/// Limit on the decompressed bytes that other threads prepare for one reader.
const MAX_AHEAD: u64 = 16 << 20;
/// Limit on a stretch that is decompressed to find out whether it is available; of a longer one
/// the table decides.
const TRIED: u64 = 64 << 20;
/// Blocks up to this size are small: several readers of one file decompress them side by
/// side within bounded memory.
const SMALL: u64 = 4 << 20;

/// Bytes before the last block that questions about the end of an archive often need too.
const BEFORE_END: u64 = 2 << 20;
/// Shorter blocks have nothing but a label.
const LITTLE: usize = 64 << 10;

#[derive(Debug)]
pub(crate) struct BlockFile {
    pub(super) packed: Arc<PackedFile>,
    pub(super) cache: Arc<BlockCache>,
    pub(super) current: Option<(usize, Arc<Buffer>)>,
    /// Blocks that cannot be decompressed, with the reason.
    damaged: BTreeMap<usize, (io::ErrorKind, String)>,
    /// The number of successive blocks that were each adjacent to the one before.
    in_row: usize,
    /// Set if the block after the last one that was sought has been asked for.
    goes_on: bool,
}

impl BlockFile {
    /// Returns a file with this table.
    ///
    /// # Errors
    ///
    /// The system's.
    pub(crate) fn new(file: File, table: BlockTable) -> io::Result<Self> {
        Self::with_cache(file, table, BlockCache::shared())
    }

    pub(super) fn with_cache(
        file: File,
        table: BlockTable,
        cache: Arc<BlockCache>,
    ) -> io::Result<Self> {
        let id = FileId::new(&file.metadata()?);
        let packed = Arc::new(PackedFile { file, id, table });
        let current = None;
        let damaged = BTreeMap::new();
        Ok(Self { packed, cache, current, damaged, in_row: 0, goes_on: true })
    }

    /// Keeps few blocks from now on.
    pub(crate) fn read_once(&mut self) {
        self.cache = Arc::new(BlockCache::of_few());
    }

    /// Returns whether several readers may work on the file side by side.
    pub(crate) fn has_small_blocks(&self) -> bool {
        self.packed.table.largest <= SMALL
    }

    /// Returns the number of decompressed bytes from `offset` on, at most `most`. Bytes after a
    /// damaged block do not count, unless `most` is very large: then the table decides.
    ///
    /// # Errors
    ///
    /// The system's; damage, if it leaves fewer than `least`.
    pub(crate) fn available(&mut self, offset: u64, least: u64, most: u64) -> io::Result<u64> {
        let listed = self.packed.table.len.saturating_sub(offset).min(most);
        if most > TRIED || listed == 0 {
            return Ok(listed);
        }
        for number in self.packed.table.find(offset)..self.packed.table.blocks.len() {
            let Some(block) = self.packed.table.blocks.get(number) else { break };
            let before = block.start.saturating_sub(offset);
            if before >= listed {
                break;
            }
            match self.load(number) {
                Ok(_) => {}
                Err(error) if error.raw_os_error().is_some() || before < least => {
                    return Err(error);
                }
                Err(_) => return Ok(before),
            }
        }
        Ok(listed)
    }

    /// Returns the end of the damage that `offset` is in; `None` if it is in none that was met.
    pub(crate) fn damaged_until(&self, offset: u64) -> Option<u64> {
        let table = &self.packed.table;
        let first = table.find(offset);
        let last = (first..table.blocks.len())
            .take_while(|number| self.damaged.contains_key(number))
            .last()?;
        table.blocks.get(last).map(super::CompressedBlock::end)
    }

    /// Fills `bytes` from `offset` on.
    ///
    /// # Errors
    ///
    /// The system's, damage, and the end of the file.
    pub(crate) fn read_at(&mut self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        let mut at = offset;
        let mut rest = bytes;
        let mut number = self.packed.table.find(offset);
        while !rest.is_empty() {
            let start = match self.packed.table.blocks.get(number) {
                Some(block) => block.start,
                None => return Err(io::ErrorKind::UnexpectedEof.into()),
            };
            let block = self.load(number)?;
            let have = block.get((at - start) as usize..).unwrap_or_default();
            let n = have.len().min(rest.len());
            let (now, later) = rest.split_at_mut(n);
            now.copy_from_slice(have.get(..n).unwrap_or_default());
            at += n as u64;
            rest = later;
            number += 1;
        }
        Ok(())
    }

    pub(super) fn load(&mut self, number: usize) -> io::Result<Arc<Buffer>> {
        let before = match &self.current {
            Some((current, block)) if *current == number => return Ok(Arc::clone(block)),
            current => current.as_ref().map(|(current, _)| *current),
        };
        if let Some((kind, text)) = self.damaged.get(&number) {
            return Err(io::Error::new(*kind, text.clone()));
        }
        let found = self.cache.find(self.packed.id, number);
        // Started before this one is decompressed, so that it is one of several.
        let is_beside = before.is_some_and(|before| before.abs_diff(number) == 1);
        self.in_row = if is_beside { self.in_row + 1 } else { 0 };
        match before {
            Some(before) if before + 1 == number => {
                self.goes_on = true;
                self.read_ahead(self.in_row, |k| number.checked_add(k));
            }
            // The first step back is often that from the end of the file to a sought record.
            Some(before) if before == number + 1 => {
                self.goes_on = true;
                self.read_ahead(self.in_row - 1, |k| number.checked_sub(k));
            }
            _ => self.read_beside(number),
        }
        let made = match found {
            CacheLookup::Held(held) => Ok(held),
            // If its thread has failed, once more.
            CacheLookup::Making(thread) => match thread.join() {
                Ok(made) => made,
                Err(_) => self.cache.decompress(&self.packed, number),
            },
            CacheLookup::Missing => self.cache.decompress(&self.packed, number),
        };
        match made {
            Ok(block) => {
                self.current = Some((number, Arc::clone(&block)));
                Ok(block)
            }
            Err(error) => {
                if error.raw_os_error().is_none() {
                    self.damaged.insert(number, (error.kind(), error.to_string()));
                }
                Err(error)
            }
        }
    }

    /// Reads what is next to a sought block ahead, if that was of use after the last seek: one
    /// block, or before the last one as many as a minute of values may have.
    fn read_beside(&mut self, number: usize) {
        // A read of the label predicts nothing.
        if self.packed.len(number) < LITTLE || !std::mem::take(&mut self.goes_on) {
            return;
        }
        if number + 1 == self.packed.table.blocks.len() {
            let small = (BEFORE_END / self.packed.table.largest.max(1)) as usize;
            self.read_ahead(small.max(1), |k| number.checked_sub(k));
        } else {
            self.read_ahead(1, |k| number.checked_add(k));
        }
    }

    /// Reads up to `most` blocks ahead: the one 1 away, 2 away and so on.
    fn read_ahead(&self, most: usize, next: impl Fn(usize) -> Option<usize>) {
        let idle = parallel::idle();
        let fit = (MAX_AHEAD / self.packed.table.largest.max(1)) as usize;
        let wanted = if parallel::threads() > 1 { idle.min(fit).min(most) } else { 0 };
        for number in (1..=wanted).filter_map(next) {
            if number < self.packed.table.blocks.len() && !self.damaged.contains_key(&number) {
                self.cache.read_ahead(&self.packed, number, idle);
            }
        }
    }
}

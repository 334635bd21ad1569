//! The bytes of a file of blocks.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use super::cache::FileId;
use super::{BlockCache, BlockTable};
use crate::parallel;

/// Decompressed bytes that other threads may have in the making for one reader.
const AHEAD: u64 = 16 << 20;
/// Stretches up to this length are known to be readable when they are said to be
/// available; of a longer one it is the table that says so.
const TRIED: u64 = 64 << 20;
/// Blocks up to this size are small: several readers of one file decompress them side by
/// side within bounded memory.
const SMALL: u64 = 4 << 20;

/// A block in the making.
type Decompression = JoinHandle<io::Result<Arc<Vec<u8>>>>;

/// The decompressed bytes of a file of blocks.
#[derive(Debug)]
pub(crate) struct BlockFile {
    pub(super) packed: Arc<Packed>,
    pub(super) cache: Arc<BlockCache>,
    pub(super) current: Option<(usize, Arc<Vec<u8>>)>,
    /// The blocks after the current one, in the making.
    pub(super) ahead: VecDeque<(usize, Decompression)>,
    /// Those that cannot be decompressed, and why not.
    damaged: BTreeMap<usize, (io::ErrorKind, String)>,
}

#[derive(Debug)]
pub(super) struct Packed {
    pub(super) file: File,
    pub(super) id: FileId,
    pub(super) table: BlockTable,
}

impl Packed {
    /// A block, in the memory of `bytes`.
    fn decompress(&self, number: usize, bytes: Vec<u8>) -> io::Result<Arc<Vec<u8>>> {
        let block = self.table.blocks.get(number).ok_or(io::ErrorKind::UnexpectedEof)?;
        block.decompress(&self.file, self.table.compression, bytes).map(Arc::new)
    }

    /// Room for a block.
    fn room(&self, number: usize) -> Vec<u8> {
        Vec::with_capacity(self.table.blocks.get(number).map_or(0, |block| block.len as usize))
    }
}

impl BlockFile {
    /// A file with this table.
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
        let id = FileId::of(&file.metadata()?);
        let packed = Arc::new(Packed { file, id, table });
        let (ahead, damaged) = (VecDeque::new(), BTreeMap::new());
        Ok(Self { packed, cache, current: None, ahead, damaged })
    }

    /// From now on the last two blocks are kept, and no others.
    pub(crate) fn read_once(&mut self) {
        self.cache = Arc::new(BlockCache::of_two());
    }

    /// Whether several readers may work on the file side by side.
    pub(crate) fn has_small_blocks(&self) -> bool {
        self.packed.table.largest <= SMALL
    }

    /// How many decompressed bytes there are from `offset` on, at most `most`. Bytes
    /// after a damaged block do not count, unless `most` is very large: then it is as
    /// the table says.
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

    /// Where the damage that `offset` is in ends; `None` if it is in none that was met.
    pub(crate) fn damaged_until(&self, offset: u64) -> Option<u64> {
        let table = &self.packed.table;
        let first = table.find(offset);
        let last = (first..table.blocks.len())
            .take_while(|number| self.damaged.contains_key(number))
            .last()?;
        table.blocks.get(last).map(super::Block::end)
    }

    /// Fills `bytes` from `offset` on.
    ///
    /// # Errors
    ///
    /// The system's, damage, and the end of the file.
    pub(crate) fn read_at(&mut self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        let (mut at, mut rest) = (offset, bytes);
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
            (at, rest, number) = (at + n as u64, later, number + 1);
        }
        Ok(())
    }

    /// A block, which is the current one afterwards.
    pub(super) fn load(&mut self, number: usize) -> io::Result<Arc<Vec<u8>>> {
        let before = match &self.current {
            Some((current, block)) if *current == number => return Ok(Arc::clone(block)),
            current => current.as_ref().map(|(current, _)| *current),
        };
        if let Some((kind, text)) = self.damaged.get(&number) {
            return Err(io::Error::new(*kind, text.clone()));
        }
        let held = self.cache.get(self.packed.id, number);
        let ahead = if held.is_none() { self.take_ahead(number) } else { None };
        // Started before this one is decompressed, so that it is one of several.
        match before {
            Some(before) if before + 1 == number => self.read_ahead(|k| number.checked_add(k)),
            Some(before) if before == number + 1 => self.read_ahead(|k| number.checked_sub(k)),
            _ => {}
        }
        let found = match (held, ahead) {
            (Some(held), _) => Ok(held),
            (None, Some(block)) => block,
            (None, None) => self.packed.decompress(number, self.packed.room(number)),
        };
        match found {
            Ok(block) => {
                self.cache.put(self.packed.id, number, &block);
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

    /// A block that was in the making; `None` also if its thread has failed.
    fn take_ahead(&mut self, number: usize) -> Option<io::Result<Arc<Vec<u8>>>> {
        let at = self.ahead.iter().position(|(ahead, _)| *ahead == number)?;
        let (_, thread) = self.ahead.remove(at)?;
        thread.join().ok()
    }

    /// Has the next blocks decompressed by other threads: that which is 1 away, 2 and so on.
    fn read_ahead(&mut self, next: impl Fn(usize) -> Option<usize>) {
        let threads = parallel::threads();
        let fit = (AHEAD / self.packed.table.largest.max(1)) as usize;
        let wanted = if threads > 1 { threads.min(fit) } else { 0 };
        let wanted: Vec<_> = (1..=wanted).filter_map(next).collect();
        self.ahead.retain(|(number, _)| wanted.contains(number));
        for number in wanted {
            let is_known = number >= self.packed.table.blocks.len()
                || self.ahead.iter().any(|(ahead, _)| *ahead == number)
                || self.damaged.contains_key(&number)
                || self.cache.has(self.packed.id, number);
            if is_known {
                continue;
            }
            let packed = Arc::clone(&self.packed);
            // Allocated here: memory of threads that have ended is used again only by others.
            let room = packed.room(number);
            let thread = thread::Builder::new().spawn(move || packed.decompress(number, room));
            // Without a thread it is decompressed when it is asked for.
            let Ok(thread) = thread else { return };
            self.ahead.push_back((number, thread));
        }
    }
}

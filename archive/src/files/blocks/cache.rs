//! Decompressed blocks that may be asked for again.

use std::collections::VecDeque;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The decompressed bytes that are held, for all files of the process: as many as the
/// largest block has.
const CAPACITY: usize = 24 << 20;
/// The most blocks: a search looks at all of them.
const MAX_ENTRIES: usize = 512;

/// A file that is never written again. One with the same name may be another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileId {
    device: u64,
    inode: u64,
    len: u64,
    changed: (i64, i64),
}

impl FileId {
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            len: metadata.len(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// The blocks that were read last, of all files. It is one for the process, and is
/// there as long as someone holds it.
#[derive(Debug)]
pub(crate) struct BlockCache {
    entries: Mutex<Entries>,
    /// How many blocks it holds.
    most: usize,
}

impl Default for BlockCache {
    fn default() -> Self {
        Self { entries: Mutex::default(), most: MAX_ENTRIES }
    }
}

#[derive(Debug, Default)]
struct Entries {
    /// The last read is the last.
    blocks: VecDeque<Entry>,
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    file: FileId,
    number: usize,
    block: Arc<Vec<u8>>,
}

impl BlockCache {
    /// The cache of this process.
    pub(crate) fn shared() -> Arc<Self> {
        static SHARED: Mutex<Weak<BlockCache>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let cache = Arc::default();
            *shared = Arc::downgrade(&cache);
            cache
        })
    }

    /// A cache for a file that is read once, in pieces that may begin in one block and end
    /// in the next.
    pub(super) fn of_two() -> Self {
        Self { entries: Mutex::default(), most: 2 }
    }

    /// A block, if it is held; it is then the last that goes.
    pub(super) fn get(&self, file: FileId, number: usize) -> Option<Arc<Vec<u8>>> {
        let mut entries = self.lock();
        let is_it = |entry: &Entry| entry.number == number && entry.file == file;
        let at = entries.blocks.iter().rposition(is_it)?;
        let entry = entries.blocks.remove(at)?;
        let block = Arc::clone(&entry.block);
        entries.blocks.push_back(entry);
        Some(block)
    }

    /// Whether a block is held.
    pub(super) fn has(&self, file: FileId, number: usize) -> bool {
        let entries = self.lock();
        entries.blocks.iter().any(|entry| entry.number == number && entry.file == file)
    }

    /// Holds a block, in the place of those that were not read for the longest time.
    pub(super) fn put(&self, file: FileId, number: usize, block: &Arc<Vec<u8>>) {
        let mut entries = self.lock();
        let Entries { blocks, bytes } = &mut *entries;
        blocks.retain(|entry| {
            let stays = entry.number != number || entry.file != file;
            *bytes -= if stays { 0 } else { entry.block.len() };
            stays
        });
        blocks.push_back(Entry { file, number, block: Arc::clone(block) });
        *bytes += block.len();
        while *bytes > CAPACITY || blocks.len() > self.most {
            let Some(oldest) = blocks.pop_front() else { return };
            *bytes -= oldest.block.len();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(inode: u64) -> FileId {
        FileId { device: 1, inode, len: 1, changed: (0, 0) }
    }

    /// How many blocks are held, and their bytes.
    fn held(cache: &BlockCache) -> (usize, usize) {
        let entries = cache.lock();
        (entries.blocks.len(), entries.bytes)
    }

    fn block(len: usize) -> Arc<Vec<u8>> {
        Arc::new(vec![0; len])
    }

    #[test]
    fn the_blocks_that_were_read_last_are_held() {
        let cache = BlockCache::default();
        for number in 0..4 {
            cache.put(id(1), number, &block(CAPACITY / 4));
        }
        assert!(cache.get(id(1), 0).is_some());
        assert!(cache.get(id(2), 0).is_none());
        cache.put(id(2), 0, &block(CAPACITY / 4));
        let found: Vec<_> = (0..4).map(|number| cache.has(id(1), number)).collect();
        assert_eq!(found, [true, false, true, true]);
        cache.put(id(2), 0, &block(1));
        assert_eq!(held(&cache), (4, 3 * (CAPACITY / 4) + 1));
        cache.put(id(3), 0, &block(CAPACITY + 1));
        assert_eq!(held(&cache), (0, 0));
    }

    #[test]
    fn small_blocks_are_held_by_number() {
        let cache = BlockCache::default();
        (0..2 * MAX_ENTRIES).for_each(|number| cache.put(id(1), number, &block(1)));
        assert_eq!(held(&cache), (MAX_ENTRIES, MAX_ENTRIES));
    }

    #[test]
    fn all_readers_of_a_process_have_one() {
        let held = BlockCache::shared();
        assert!(Arc::ptr_eq(&held, &BlockCache::shared()));
    }
}

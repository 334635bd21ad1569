//! Decompressed blocks that may be asked for again.

use std::collections::VecDeque;
use std::fs::Metadata;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};

use super::BlockDecoder;
use super::buffer::Buffer;
use super::packed::{FileId, PackedFile};
use crate::files::decompressed::DecompressedFile;

/// The decompressed bytes held for all files of the process; a single block may exceed it.
const CAPACITY: usize = 16 << 20;
/// The most blocks: a search looks at all of them.
const MAX_ENTRIES: usize = 512;
/// The blocks held of a file that is read once: two, and two read ahead.
const FEW: usize = 4;
/// Buffers of evicted blocks that are kept for reuse. The page faults of a new buffer cost a
/// quarter of a decompression.
const MAX_SPARES: usize = 2;

/// The most recently used blocks of all files, and those being read ahead. The process has
/// one, which lives as long as someone holds it.
#[derive(Debug)]
pub(crate) struct BlockCache {
    entries: Mutex<CacheEntries>,
    most: usize,
    /// The file without blocks that was opened last.
    stream: Mutex<Option<(FileId, SharedStream)>>,
}

/// A file that is decoded from its start, and the bytes of it that are in memory.
pub(crate) type SharedStream = Arc<Mutex<DecompressedFile>>;

impl Default for BlockCache {
    fn default() -> Self {
        Self { entries: Mutex::default(), most: MAX_ENTRIES, stream: Mutex::default() }
    }
}

#[derive(Debug, Default)]
struct CacheEntries {
    /// The most recently used one last.
    blocks: VecDeque<CacheEntry>,
    bytes: usize,
    /// Blocks that threads are decompressing ahead.
    making: Vec<BlockInProgress>,
    spares: Vec<Buffer>,
    decoders: Vec<BlockDecoder>,
}

impl CacheEntries {
    fn has(&self, key: BlockKey) -> bool {
        let is_held = self.blocks.iter().any(|entry| entry.key == key);
        is_held || self.making.iter().any(|making| making.key == key)
    }
}

#[derive(Debug)]
struct CacheEntry {
    key: BlockKey,
    block: Arc<Buffer>,
}

#[derive(Debug)]
struct BlockInProgress {
    key: BlockKey,
    thread: Decompression,
}

type BlockKey = (FileId, usize);

pub(super) type Decompression = JoinHandle<io::Result<Arc<Buffer>>>;

pub(super) enum CacheLookup {
    Held(Arc<Buffer>),
    /// A thread decompresses it, for which only the caller waits.
    Making(Decompression),
    Missing,
}

impl BlockCache {
    pub(crate) fn shared() -> Arc<Self> {
        static SHARED: Mutex<Weak<BlockCache>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let cache = Arc::default();
            *shared = Arc::downgrade(&cache);
            cache
        })
    }

    /// Returns a cache for a file that is read once, in pieces that may begin in one block and
    /// end in the next.
    pub(super) fn of_few() -> Self {
        Self { most: FEW, ..Self::default() }
    }

    /// Returns a reader of a file without blocks: the kept one if it reads this file and is not in
    /// use, otherwise a new one.
    pub(crate) fn stream(
        &self,
        metadata: &Metadata,
        new: impl FnOnce() -> DecompressedFile,
    ) -> SharedStream {
        let id = FileId::new(metadata);
        let mut last = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((last_id, stream)) = &*last
            && *last_id == id
            && Arc::strong_count(stream) == 1
            && !stream.is_poisoned()
        {
            return Arc::clone(stream);
        }
        let stream = Arc::new(Mutex::new(new()));
        *last = Some((id, Arc::clone(&stream)));
        stream
    }

    /// Looks a block up, and makes it the most recently used.
    pub(super) fn find(&self, file: FileId, number: usize) -> CacheLookup {
        let key = (file, number);
        let mut entries = self.lock();
        if let Some(at) = entries.blocks.iter().rposition(|entry| entry.key == key)
            && let Some(entry) = entries.blocks.remove(at)
        {
            let block = Arc::clone(&entry.block);
            entries.blocks.push_back(entry);
            return CacheLookup::Held(block);
        }
        match entries.making.iter().position(|making| making.key == key) {
            Some(at) => CacheLookup::Making(entries.making.swap_remove(at).thread),
            None => CacheLookup::Missing,
        }
    }

    #[cfg(test)]
    pub(super) fn has(&self, file: FileId, number: usize) -> bool {
        self.lock().has((file, number))
    }

    /// Holds a block, in the place of those that were not read for the longest time.
    pub(super) fn put(&self, file: FileId, number: usize, block: &Arc<Buffer>) {
        let key = (file, number);
        let mut entries = self.lock();
        let CacheEntries { blocks, bytes, spares, .. } = &mut *entries;
        blocks.retain(|entry| {
            *bytes -= if entry.key == key { entry.block.len() } else { 0 };
            entry.key != key
        });
        blocks.push_back(CacheEntry { key, block: Arc::clone(block) });
        *bytes += block.len();
        while *bytes > CAPACITY && blocks.len() > 1 || blocks.len() > self.most {
            let Some(oldest) = blocks.pop_front() else { return };
            *bytes -= oldest.block.len();
            if let Some(spare) = Arc::into_inner(oldest.block)
                && spares.len() < MAX_SPARES
            {
                spares.push(spare);
            }
        }
    }

    /// Starts a thread that decompresses a block, unless all readers together have `most` of
    /// them. If no thread can be started, the block is decompressed when it is read.
    pub(super) fn read_ahead(
        self: &Arc<Self>,
        packed: &Arc<PackedFile>,
        number: usize,
        most: usize,
    ) {
        let key = (packed.id, number);
        // Locked until the thread is listed: it removes itself from the list at its end.
        let mut entries = self.lock();
        if entries.has(key) || entries.making.len() >= most {
            return;
        }
        let cache = Arc::downgrade(self);
        let packed = Arc::clone(packed);
        let thread = thread::Builder::new().spawn(move || {
            let cache = cache.upgrade().ok_or(io::ErrorKind::Interrupted)?;
            let block = cache.decompress(&packed, number);
            cache.lock().making.retain(|making| making.key != key);
            block
        });
        if let Ok(thread) = thread {
            entries.making.push(BlockInProgress { key, thread });
        }
    }

    /// Decompresses a block and holds it.
    ///
    /// # Errors
    ///
    /// The system's, and damage.
    pub(super) fn decompress(&self, packed: &PackedFile, number: usize) -> io::Result<Arc<Buffer>> {
        let mut decoder = self.lock().decoders.pop().unwrap_or_default();
        let found = self
            .room(packed.len(number))
            .and_then(|room| packed.decompress(number, &mut decoder, room));
        if let Ok(block) = &found {
            self.put(packed.id, number, block);
        }
        let mut entries = self.lock();
        if entries.decoders.len() < MAX_SPARES {
            entries.decoders.push(decoder);
        }
        found
    }

    /// Waits until no thread decompresses ahead.
    #[cfg(test)]
    pub(super) fn settle(&self) {
        while !self.lock().making.is_empty() {
            thread::yield_now();
        }
    }

    /// Returns a buffer for a block of this many bytes, with arbitrary contents.
    fn room(&self, len: usize) -> io::Result<Buffer> {
        let spare = self.lock().spares.pop();
        spare.and_then(|spare| spare.reuse(len)).map_or_else(|| Buffer::new(len), Ok)
    }

    fn lock(&self) -> MutexGuard<'_, CacheEntries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(inode: u64) -> FileId {
        FileId { device: 1, inode, len: 1, changed: (0, 0) }
    }

    fn held(cache: &BlockCache) -> (usize, usize) {
        let entries = cache.lock();
        (entries.blocks.len(), entries.bytes)
    }

    fn get(cache: &BlockCache, file: FileId, number: usize) -> Option<Arc<Buffer>> {
        match cache.find(file, number) {
            CacheLookup::Held(block) => Some(block),
            _ => None,
        }
    }

    fn block(len: usize) -> Arc<Buffer> {
        Arc::new(Buffer::new(len).unwrap())
    }

    #[test]
    fn the_blocks_that_were_read_last_are_held() {
        let cache = BlockCache::default();
        for number in 0..4 {
            cache.put(id(1), number, &block(CAPACITY / 4));
        }
        assert!(get(&cache, id(1), 0).is_some());
        assert!(get(&cache, id(2), 0).is_none());
        cache.put(id(2), 0, &block(CAPACITY / 4));
        let found: Vec<_> = (0..4).map(|number| cache.has(id(1), number)).collect();
        assert_eq!(found, [true, false, true, true]);
        cache.put(id(2), 0, &block(1));
        assert_eq!(held(&cache), (4, 3 * (CAPACITY / 4) + 1));
        cache.put(id(3), 0, &block(CAPACITY + 1));
        assert_eq!(held(&cache), (1, CAPACITY + 1));
    }

    #[test]
    fn the_memory_of_blocks_that_went_is_used_again() {
        let cache = BlockCache::of_few();
        let first = block(1000);
        let place = first.as_ptr();
        cache.put(id(1), 0, &first);
        drop(first);
        (1..5).for_each(|number| cache.put(id(1), number, &block(1000)));
        let rooms = [(); 2].map(|()| cache.room(900).unwrap());
        assert_eq!(rooms.map(|room| room.as_ptr() == place), [true, false]);
        // One that is in use does not become another.
        let used = get(&cache, id(1), 4).unwrap();
        (5..10).for_each(|number| cache.put(id(1), number, &block(1000)));
        let rooms = [(); 4].map(|()| cache.room(1000).unwrap());
        assert!(rooms.iter().all(|room| room.as_ptr() != used.as_ptr()));
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

    #[test]
    fn reader_of_a_stream_that_nobody_uses_is_used_again() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let metadata = file.as_file().metadata().unwrap();
        let cache = BlockCache::default();
        let open = || {
            let new = || {
                let file = std::fs::File::open(file.path()).unwrap();
                DecompressedFile::new(file, 0, crate::Compression::Gzip, false)
            };
            cache.stream(&metadata, new)
        };
        let first = open();
        let second = open();
        assert!(!Arc::ptr_eq(&first, &second));
        let address = Arc::as_ptr(&second);
        drop(second);
        assert_eq!(Arc::as_ptr(&open()), address);
        assert_eq!(Arc::as_ptr(&open()), address);
    }
}

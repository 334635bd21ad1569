//! Shared memory: the only module of the workspace, with [`guard`], that has
//! unsafe code.
//!
//! The memory of a mapped MMV file belongs to several processes. No reference
//! to its bytes exists here, ever: every access is an atomic one of eight
//! bytes (or of one byte, at the ragged ends of a copy), through a pointer
//! that one of two private functions, `word_at` and `byte_at`, has checked
//! against the mapping's bounds and alignment. Metadata is not read through a
//! mapping at all but by `pread` into private memory (see [`crate::view`]).
//!
//! | type | who | what |
//! |---|---|---|
//! | [`ReadMapping`] | the harvester | a whole file, read-only, guarded against SIGBUS |
//! | [`CellPlan`] | the harvester | the offsets of a tick's values, checked once |
//! | [`Segment`] | the producer | a part of its file, writable; never moves |
//! | [`Cell`] | a metric handle | one value in a segment |
//! | [`Row`] | a histogram | values at equal distances in a segment |
//! | [`Lease`] | the producer | tells whether cells are still held |
//!
//! **How a file becomes valid.** The writer stores generation 1, then all
//! content, and generation 2 last with release order. A reader loads both,
//! takes the file only if they are equal and not 0, reads, and loads both again
//! after an acquire fence: equal pairs mean that nothing but values changed.
//!
//! **Orders.** Values are loaded and stored relaxed: each stands for itself.
//! On a read-only mapping only relaxed loads are guaranteed to work
//! (`std::sync::atomic`, "Atomic accesses to read-only memory"), so acquire
//! order comes from a fence.

#![expect(unsafe_code, reason = "memory shared with other processes; see the module doc")]

mod fork;
pub mod guard;

use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering, fence};

use memmap2::{Advice, MmapOptions, MmapRaw};
use nix::libc;

use crate::layout::Header;

/// Bytes of a cell and of the widest access.
const WORD: usize = size_of::<u64>();

/// The word at offset `at` of a memory of `len` bytes that starts at `base`;
/// `None` if it is not wholly inside or not aligned.
///
/// This is the bounds check that the SAFETY comments below cite. It does not
/// touch the memory. `base` is aligned to at least eight bytes (a page, or a
/// slice of words), so alignment of the offset is alignment of the address.
fn word_at(base: NonNull<u8>, len: usize, at: usize) -> Option<NonNull<AtomicU64>> {
    let inside = at.checked_add(WORD).is_some_and(|end| end <= len);
    if !inside || !at.is_multiple_of(WORD) {
        return None;
    }
    NonNull::new(base.as_ptr().wrapping_add(at).cast())
}

/// The byte at offset `at`, as [`word_at`].
fn byte_at(base: NonNull<u8>, len: usize, at: usize) -> Option<NonNull<AtomicU8>> {
    if at >= len {
        return None;
    }
    NonNull::new(base.as_ptr().wrapping_add(at).cast())
}

/// A whole MMV file, mapped for reading.
///
/// Registered with the SIGBUS guard for as long as it lives: when another
/// process truncates the file and the guard is [installed](guard::install),
/// reads give zeros from then on and [`ReadMapping::is_dead`] says so. Most
/// truncations raise no signal, however; only the file's size shows them, so a
/// reader compares that too before it believes what it read.
pub struct ReadMapping {
    base: NonNull<u8>,
    len: usize,
    // Before `map`, so that the range is forgotten before it is unmapped.
    registration: guard::Registration,
    _map: MmapRaw,
}

// SAFETY: `base` points into `_map`, which this value owns and which is
// readable from any thread; all access goes through relaxed atomic loads.
unsafe impl Send for ReadMapping {}
// SAFETY: as above; no method changes the memory or the fields.
unsafe impl Sync for ReadMapping {}

impl ReadMapping {
    /// Maps all of `file` as long as it is now.
    ///
    /// # Errors
    ///
    /// What fstat and mmap say; [`io::ErrorKind::InvalidData`] for a file
    /// shorter than a header; [`io::ErrorKind::OutOfMemory`] when
    /// [`guard::CAPACITY`] mappings exist.
    pub fn map(file: &File) -> io::Result<Self> {
        let len = usize::try_from(file.metadata()?.len())
            .map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        if len < Header::BYTES {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let map = MmapOptions::new().len(len).map_raw_read_only(file)?;
        let base = NonNull::new(map.as_ptr().cast_mut())
            .ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        let registration = guard::register(base.as_ptr() as usize, len)
            .ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        Ok(Self { base, len, registration, _map: map })
    }

    /// Bytes of the mapping: the file's size when it was mapped.
    #[expect(clippy::len_without_is_empty, reason = "never shorter than a header")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the guard had to replace the mapping with zeros: nothing read
    /// since the last time this said `false` may be used.
    pub fn is_dead(&self) -> bool {
        fence(Ordering::Acquire);
        self.registration.is_dead()
    }

    /// The word at offset `at`; `None` if it is not wholly inside or `at` is
    /// not divisible by eight.
    pub fn load_u64(&self, at: usize) -> Option<u64> {
        let word = word_at(self.base, self.len, at)?;
        // SAFETY: dereferencing needs an aligned pointer to initialised memory
        // that stays valid: `word_at` checked bounds and alignment against the
        // mapping, which `self` keeps; other writers are atomic or in other
        // processes. Relaxed loads of 8 bytes are allowed on read-only memory
        // (std::sync::atomic).
        let word = unsafe { word.as_ref() };
        Some(word.load(Ordering::Relaxed))
    }

    /// Both generations of the header, in the order 1, 2.
    ///
    /// Fenced on both sides: loads before this call are not delayed past it
    /// (the check after a harvest), loads after it not moved ahead of it (the
    /// check before).
    pub fn generations(&self) -> (u64, u64) {
        fence(Ordering::Acquire);
        let pair = (
            self.load_u64(Header::GENERATION1).unwrap_or(0),
            self.load_u64(Header::GENERATION2).unwrap_or(0),
        );
        fence(Ordering::Acquire);
        pair
    }

    /// Copies the bytes at offset `at` into `buffer`; `false`, with nothing
    /// copied, if they are not all inside.
    ///
    /// Aligned words are copied with one load each, so a word is never torn; the
    /// whole may be, when it is written at the same time.
    #[must_use]
    pub fn copy_out(&self, at: usize, buffer: &mut [u8]) -> bool {
        if at.checked_add(buffer.len()).is_none_or(|end| end > self.len) {
            return false;
        }
        let mut at = at;
        let head = at.next_multiple_of(WORD).saturating_sub(at).min(buffer.len());
        let (ragged, rest) = buffer.split_at_mut(head);
        self.copy_bytes(at, ragged);
        at += head;
        let mut words = rest.chunks_exact_mut(WORD);
        for chunk in &mut words {
            chunk.copy_from_slice(&self.load_u64(at).unwrap_or(0).to_ne_bytes());
            at += WORD;
        }
        self.copy_bytes(at, words.into_remainder());
        true
    }

    fn copy_bytes(&self, at: usize, buffer: &mut [u8]) {
        for (index, byte) in buffer.iter_mut().enumerate() {
            let Some(source) = byte_at(self.base, self.len, at + index) else { return };
            // SAFETY: as in `load_u64`, with `byte_at` as the check; a byte is
            // always aligned.
            let source = unsafe { source.as_ref() };
            *byte = source.load(Ordering::Relaxed);
        }
    }

    /// Loads every cell of `plan`, in its order, and hands each to `each` with
    /// its index. `false`, with nothing loaded, if the plan was made for a
    /// longer mapping.
    ///
    /// This is the harvest's inner loop: the plan's offsets were checked when it
    /// was made, so a tick compares lengths once and then only loads.
    #[must_use]
    pub fn load_each(&self, plan: &CellPlan, mut each: impl FnMut(usize, u64)) -> bool {
        if plan.bound > self.len {
            return false;
        }
        for (index, at) in plan.offsets.iter().enumerate() {
            let word = self.base.cast::<AtomicU64>().as_ptr().wrapping_byte_add(*at as usize);
            // SAFETY: `CellPlan::new` let in only offsets divisible by eight
            // whose words end at or before `bound`, and `bound` is at most the
            // mapping's length; the fields are private and never change. The
            // rest as in `load_u64`.
            let word = unsafe { &*word };
            each(index, word.load(Ordering::Relaxed));
        }
        true
    }

    /// [`ReadMapping::load_each`] into a slice; `false` also if `out` has not
    /// the plan's length.
    #[must_use]
    pub fn load_many(&self, plan: &CellPlan, out: &mut [u64]) -> bool {
        if out.len() != plan.len() {
            return false;
        }
        self.load_each(plan, |index, word| {
            if let Some(slot) = out.get_mut(index) {
                *slot = word;
            }
        })
    }
}

impl fmt::Debug for ReadMapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadMapping")
            .field("len", &self.len)
            .field("dead", &self.is_dead())
            .finish_non_exhaustive()
    }
}

/// The offsets of many cells, checked once for a mapping of a given length.
#[derive(Debug, Clone, Default)]
pub struct CellPlan {
    offsets: Box<[u32]>,
    bound: usize,
}

impl CellPlan {
    /// A plan for a mapping of at least `len` bytes, in the order given;
    /// `None` if an offset is not divisible by eight or its word not wholly
    /// inside, or lies beyond 4 GiB.
    pub fn new(offsets: impl IntoIterator<Item = u64>, len: usize) -> Option<Self> {
        let mut bound = 0;
        let mut checked = Vec::new();
        for offset in offsets {
            let at = u32::try_from(offset).ok()?;
            let end = (at as usize).checked_add(WORD)?;
            if !offset.is_multiple_of(WORD as u64) || end > len {
                return None;
            }
            bound = bound.max(end);
            checked.push(at);
        }
        Some(Self { offsets: checked.into(), bound })
    }

    /// How many cells.
    pub fn len(&self) -> usize {
        self.offsets.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }
}

/// A part of the producer's own file, mapped for writing, or private memory
/// that takes its place where there is no file.
///
/// A segment stays where it is until the last [`Cell`] in it is gone, so the
/// file may be withdrawn while handles live on. In a forked child it is a private
/// copy from the start.
pub struct Segment {
    base: NonNull<u8>,
    len: usize,
    backing: Backing,
}

#[expect(dead_code, reason = "owned for what its drop does: the memory ends with it")]
enum Backing {
    // In this order: the entry for forks goes, then the mapping, then the file.
    File(fork::Registration, MmapRaw, Arc<File>),
    Private(Box<[AtomicU64]>),
    Anonymous(MmapRaw),
}

// SAFETY: `base` points into the backing, which the segment owns and which any
// thread may use; all access is atomic.
unsafe impl Send for Segment {}
// SAFETY: as above; methods take `&self` and change the memory atomically only.
unsafe impl Sync for Segment {}

impl Segment {
    /// Maps `len` bytes of `file` from `offset` on for reading and writing.
    ///
    /// The file must be at least that long, and stay so: the caller owns it,
    /// allocates before it maps, and never shortens a mapped part.
    ///
    /// # Errors
    ///
    /// What mmap says; [`io::ErrorKind::InvalidInput`] for an offset that is not
    /// divisible by eight or a length of 0.
    pub fn map(file: &Arc<File>, offset: u64, len: usize) -> io::Result<Self> {
        if len == 0 || !offset.is_multiple_of(WORD as u64) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let map = MmapOptions::new().offset(offset).len(len).map_raw(file)?;
        let base = NonNull::new(map.as_mut_ptr())
            .ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        // The mapping starts at the page that the offset is in.
        let ahead = offset % page_size();
        let entry = fork::Entry {
            base: base.as_ptr() as usize - ahead as usize,
            len: len + ahead as usize,
            file: file.as_raw_fd(),
            offset: (offset - ahead).cast_signed(),
        };
        let backing = Backing::File(fork::register(entry), map, Arc::clone(file));
        Ok(Self { base, len, backing })
    }

    /// Private memory of `words` words, all zero.
    pub fn private(words: usize) -> Self {
        let mut memory: Box<[AtomicU64]> = (0..words).map(|_| AtomicU64::new(0)).collect();
        let base = NonNull::from(&mut *memory).cast();
        Self { base, len: words * WORD, backing: Backing::Private(memory) }
    }

    /// Private memory of `len` bytes, all zero, that takes room as it is used: for
    /// what is too large for [`Segment::private`].
    ///
    /// # Errors
    ///
    /// What mmap says.
    pub fn anonymous(len: usize) -> io::Result<Self> {
        let map = MmapRaw::from(MmapOptions::new().len(len).map_anon()?);
        let base = NonNull::new(map.as_mut_ptr())
            .ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        Ok(Self { base, len, backing: Backing::Anonymous(map) })
    }

    /// The cell at offset `at` of the segment; `None` if it is not wholly
    /// inside or `at` is not divisible by eight.
    pub fn cell(self: &Arc<Self>, at: usize) -> Option<Cell> {
        let word = word_at(self.base, self.len, at)?;
        let owner: Owner = Arc::clone(self) as Owner;
        Some(Cell { word, _owner: owner })
    }

    /// `len` words from offset `at` on, `stride` bytes from one to the next; `None`
    /// if there are none, they are not all inside or not aligned.
    pub fn row(self: &Arc<Self>, at: usize, stride: usize, len: usize) -> Option<Row> {
        let last = len.checked_sub(1)?;
        let end = last.checked_mul(stride)?.checked_add(at)?;
        if !stride.is_multiple_of(WORD) {
            return None;
        }
        let first = word_at(self.base, self.len, at)?;
        word_at(self.base, self.len, end)?;
        Some(Row { first, stride, last, _owner: Arc::clone(self) })
    }

    /// Stores a word in `order`; `false` if `at` names none.
    #[must_use]
    pub fn store_u64(&self, at: usize, value: u64, order: Ordering) -> bool {
        let Some(word) = word_at(self.base, self.len, at) else { return false };
        // SAFETY: `word_at` checked bounds and alignment against the backing,
        // which `self` keeps mapped writable; all other access is atomic.
        let word = unsafe { word.as_ref() };
        word.store(value, order);
        #[cfg(test)]
        trace::note(at, value, order);
        true
    }

    /// Stores whole words from `at` on, first to last, relaxed; `false`, with
    /// nothing stored, if they are not all inside.
    #[must_use]
    pub fn copy_in(&self, at: usize, words: impl ExactSizeIterator<Item = u64>) -> bool {
        let end = words.len().checked_mul(WORD).and_then(|bytes| at.checked_add(bytes));
        if end.is_none_or(|end| end > self.len) {
            return false;
        }
        let offsets = (at..).step_by(WORD);
        offsets.zip(words).all(|(at, word)| self.store_u64(at, word, Ordering::Relaxed))
    }

    /// Tells the system that what is mapped is written here and there, by this
    /// process first: reading the file ahead would only make pages of zeros.
    pub fn expect_no_reading(&self) {
        if let Backing::File(_, map, _) = &self.backing {
            // Without the advice it is only slower.
            let _ = map.advise(Advice::Random);
        }
    }
}

impl fmt::Debug for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Segment").field("len", &self.len).finish_non_exhaustive()
    }
}

/// Bytes of a page.
fn page_size() -> u64 {
    // SAFETY: sysconf has no requirements (POSIX).
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(size).unwrap_or(4096)
}

/// Has the functions called at each fork: before it, after it in the parent,
/// and after it in the child.
fn at_fork(prepare: extern "C" fn(), parent: extern "C" fn(), child: extern "C" fn()) {
    // SAFETY: pthread_atfork needs functions that stay valid; these are static.
    // They do not unwind: each only takes a lock, gives it back, or maps (POSIX).
    let result = unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
    // Without memory for three pointers nothing else works either.
    debug_assert_eq!(result, 0, "pthread_atfork");
}

/// In a forked child: puts a private copy of what the file has in the place of a
/// shared mapping of it.
fn make_private(entry: &fork::Entry) {
    let address = std::ptr::without_provenance_mut::<libc::c_void>(entry.base);
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_FIXED;
    // SAFETY: MAP_FIXED replaces what is mapped in the range, so the range must
    // be ours: it is that of a segment's mapping, whose entry is taken out of the
    // table before it is unmapped, and whose file is open as long. Nothing but
    // atomic accesses through pointers uses the memory, and they find the same
    // content and protection there (mmap(2)). Only this thread runs in the child.
    let mapped =
        unsafe { libc::mmap(address, entry.len, protection, flags, entry.file, entry.offset) };
    // It cannot be told to anyone here; the child then counts in the parent's file.
    debug_assert_ne!(mapped, libc::MAP_FAILED, "mmap");
}

/// A segment and the number of cells on it that were made through this lease:
/// how the producer knows that a place may be used for something else.
#[derive(Debug)]
pub struct Lease {
    segment: Arc<Segment>,
}

impl Lease {
    /// A lease that no cell holds yet.
    pub fn new(segment: &Arc<Segment>) -> Arc<Self> {
        Arc::new(Self { segment: Arc::clone(segment) })
    }

    /// As [`Segment::cell`]; the cell and its clones hold the lease.
    pub fn cell(self: &Arc<Self>, at: usize) -> Option<Cell> {
        let word = word_at(self.segment.base, self.segment.len, at)?;
        let owner: Owner = Arc::clone(self) as Owner;
        Some(Cell { word, _owner: owner })
    }

    /// Whether a cell holds the lease. `false` is final as long as the caller,
    /// who has the only other reference, makes no further cell.
    pub fn is_held(self: &Arc<Self>) -> bool {
        let held = Arc::strong_count(self) > 1;
        // What the last holder did comes before what the caller does next.
        fence(Ordering::Acquire);
        held
    }
}

/// What keeps a cell's memory: a segment, directly or through a lease.
type Owner = Arc<dyn std::any::Any + Send + Sync>;

/// One value's eight bytes in a segment: all that a metric handle holds.
///
/// Every method is one relaxed access and cannot fail.
#[derive(Clone)]
pub struct Cell {
    word: NonNull<AtomicU64>,
    _owner: Owner,
}

// SAFETY: a cell is a pointer into the segment that its owner keeps alive, and
// a segment may be used from any thread.
unsafe impl Send for Cell {}
// SAFETY: as above; all methods are atomic.
unsafe impl Sync for Cell {}

impl Cell {
    /// A cell in private memory: a handle on it counts, but nobody reads it.
    pub fn detached() -> Self {
        let segment = Segment::private(1);
        Self { word: segment.base.cast(), _owner: Arc::new(segment) }
    }

    #[inline]
    fn atomic(&self) -> Word<'_> {
        // SAFETY: `Segment::cell` and `Lease::cell` took the pointer from
        // `word_at`, or `detached` from the start of a one-word segment; all are
        // aligned and inside memory that the owner keeps as long as `self`.
        Word(unsafe { self.word.as_ref() })
    }

    /// The word now.
    #[inline]
    pub fn load(&self) -> u64 {
        self.atomic().load()
    }

    /// Replaces the word.
    #[inline]
    pub fn store(&self, value: u64) {
        self.atomic().store(value);
    }

    /// Adds, modulo 2^64; exact under any number of threads.
    #[inline]
    pub fn add(&self, delta: u64) {
        self.atomic().add(delta);
    }

    /// Replaces the word by a function of it; `change` runs again when another
    /// thread came between.
    #[inline]
    pub fn update(&self, change: impl FnMut(u64) -> u64) {
        self.atomic().update(change);
    }
}

/// Many values at equal distances in a segment: what [`Cell`] is, without a
/// pointer for each.
#[derive(Clone)]
pub struct Row {
    first: NonNull<AtomicU64>,
    /// Bytes from one word to the next.
    stride: usize,
    /// The position of the last word.
    last: usize,
    _owner: Arc<Segment>,
}

// SAFETY: a row is a pointer into the segment that it keeps alive, and a segment
// may be used from any thread.
unsafe impl Send for Row {}
// SAFETY: as above; all methods of its words are atomic.
unsafe impl Sync for Row {}

impl Row {
    /// A row of at least one word in private memory, all zero: nobody reads it.
    pub fn detached(len: usize) -> Self {
        let last = len.saturating_sub(1);
        let segment = Segment::private(last + 1);
        let (first, stride) = (segment.base.cast(), WORD);
        Self { first, stride, last, _owner: Arc::new(segment) }
    }

    /// How many words.
    #[expect(clippy::len_without_is_empty, reason = "never empty")]
    pub fn len(&self) -> usize {
        self.last + 1
    }

    /// A word by its position; the last one for all positions behind it.
    #[inline]
    pub fn get_or_last(&self, index: usize) -> Word<'_> {
        let offset = index.min(self.last) * self.stride;
        let word = self.first.as_ptr().wrapping_byte_add(offset);
        // SAFETY: `Segment::row` checked by `word_at` that the first and the last
        // word are aligned and inside the segment, and that the stride keeps
        // alignment; `detached` made a segment of so many words. So this is true of
        // all positions up to the last, and the row keeps the segment.
        Word(unsafe { &*word })
    }

    /// All words, in order.
    pub fn iter(&self) -> impl Iterator<Item = Word<'_>> {
        (0..=self.last).map(|index| self.get_or_last(index))
    }
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Row").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// Eight bytes of a segment. Every method is one relaxed access and cannot fail.
#[derive(Debug, Clone, Copy)]
pub struct Word<'a>(&'a AtomicU64);

impl Word<'_> {
    /// The word now.
    #[inline]
    pub fn load(self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Replaces the word.
    #[inline]
    pub fn store(self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Adds, modulo 2^64; exact under any number of threads.
    #[inline]
    pub fn add(self, delta: u64) {
        self.0.fetch_add(delta, Ordering::Relaxed);
    }

    /// Replaces the word if it is `from`.
    #[inline]
    pub fn replace(self, from: u64, to: u64) {
        // Where it is another word by now there is nothing to do.
        let _ = self.0.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Replaces the word by a function of it; `change` runs again when another
    /// thread came between.
    #[inline]
    pub fn update(self, mut change: impl FnMut(u64) -> u64) {
        let mut seen = self.load();
        while let Err(now) =
            self.0.compare_exchange_weak(seen, change(seen), Ordering::Relaxed, Ordering::Relaxed)
        {
            seen = now;
        }
    }
}

impl fmt::Debug for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cell").field("word", &self.load()).finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(crate) mod tests;
#[cfg(test)]
pub(crate) mod trace;

//! The producer's side of the shared memory: the only module of this crate with
//! unsafe code.
//!
//! The memory of a mapped MMV file belongs to several processes. No reference
//! to its bytes leaves this module: every access is an atomic one of eight
//! bytes, through a pointer that `word_at` has checked against the mapping's
//! bounds and alignment.
//!
//! | type | who | what |
//! |---|---|---|
//! | [`Segment`] | the producer | a part of its file, writable; never moves |
//! | [`Cell`] | a metric handle | one value in a segment |
//! | [`CellStrip`] | a histogram | values at equal distances in a segment |
//! | [`LineStrip`] | a striped counter | values a cache line apart |
//! | [`Lease`] | the producer | counts the cells that are still held |
//!
//! **One width.** The memory model does not describe accesses of several widths to one
//! address, and readers compare all eight bytes with "no value". So 32-bit integers and
//! floats are changed by compare-exchange: a wrap-around never reaches the upper half.
//!
//! **Orders.** Values are independent, so they are loaded and stored relaxed. The words
//! that publish metadata to readers are stored with release order.

#![expect(unsafe_code, reason = "memory shared with other processes; see the module doc")]

#[cfg_attr(not(target_os = "linux"), path = "mapping/elsewhere.rs")]
mod mapped;

pub(crate) use mapped::LockRegistration;
use mapped::MappedMemory;

use std::fmt;
use std::fs::File;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Size of a cell and of the widest access.
const WORD: usize = size_of::<u64>();

/// Bytes from one cell of a [`LineStrip`] to the next: a cache line.
pub(crate) const LINE: usize = 64;

/// Returns the word at offset `at` of a memory of `len` bytes that starts at `base`; `None` if it
/// is not wholly inside or not aligned.
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

/// A part of the producer's own file, mapped for writing, or private memory
/// that takes its place where there is no file.
///
/// A segment stays where it is until the last [`Cell`] in it is dropped, so the
/// file may be withdrawn while handles exist. In a forked child it is a private
/// copy from the start.
pub(crate) struct Segment {
    base: NonNull<u8>,
    len: usize,
    backing: Backing,
}

#[expect(dead_code, reason = "owned so that the memory is unmapped when it is dropped")]
enum Backing {
    Mapped(MappedMemory),
    Private(Box<[AtomicU64]>),
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
    /// The errors of mmap; [`io::ErrorKind::InvalidInput`] for an offset that is not
    /// divisible by eight or a length of 0.
    pub(crate) fn map(file: &Arc<File>, offset: u64, len: usize) -> io::Result<Self> {
        if len == 0 || !offset.is_multiple_of(WORD as u64) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let (base, mapped) = MappedMemory::file(file, offset, len)?;
        Ok(Self { base, len, backing: Backing::Mapped(mapped) })
    }

    /// Makes a segment of private memory of `words` words, all zero.
    pub(crate) fn private(words: usize) -> Self {
        let mut memory: Box<[AtomicU64]> = (0..words).map(|_| AtomicU64::new(0)).collect();
        let base = NonNull::from(&mut *memory).cast();
        Self { base, len: words * WORD, backing: Backing::Private(memory) }
    }

    /// Makes a segment of private memory of `len` bytes, all zero, that is allocated on use: for
    /// data too large for [`Segment::private`].
    ///
    /// # Errors
    ///
    /// The errors of mmap.
    pub(crate) fn anonymous(len: usize) -> io::Result<Self> {
        let (base, mapped) = MappedMemory::anonymous(len)?;
        Ok(Self { base, len, backing: Backing::Mapped(mapped) })
    }

    /// Returns the cell at offset `at` of the segment; `None` if it is not wholly inside or `at`
    /// is not divisible by eight.
    pub(crate) fn cell(self: &Arc<Self>, at: usize) -> Option<Cell> {
        let word = word_at(self.base, self.len, at)?;
        let owner: Owner = Arc::clone(self) as Owner;
        Some(Cell { word, _owner: owner })
    }

    /// Returns `len` words from offset `at` on, `stride` bytes from one to the next; `None` if
    /// there are none, or they are not all inside or not aligned.
    pub(crate) fn strip(
        self: &Arc<Self>,
        at: usize,
        stride: usize,
        len: usize,
    ) -> Option<CellStrip> {
        let last = len.checked_sub(1)?;
        let end = last.checked_mul(stride)?.checked_add(at)?;
        if !stride.is_multiple_of(WORD) {
            return None;
        }
        let first = word_at(self.base, self.len, at)?;
        word_at(self.base, self.len, end)?;
        Some(CellStrip { first, stride, last, _owner: Arc::clone(self) })
    }

    /// Stores a word in `order`. Returns `false` if there is none at `at`.
    #[must_use]
    pub(crate) fn store_u64(&self, at: usize, value: u64, order: Ordering) -> bool {
        let Some(word) = word_at(self.base, self.len, at) else { return false };
        // SAFETY: `word_at` checked bounds and alignment against the backing,
        // which `self` keeps mapped writable; all other access is atomic.
        let word = unsafe { word.as_ref() };
        word.store(value, order);
        #[cfg(test)]
        tests::trace::note(at, value, order);
        true
    }

    /// Stores whole words from `at` on, first to last, relaxed. Returns `false`, with nothing
    /// stored, if they are not all inside.
    #[must_use]
    pub(crate) fn copy_in(&self, at: usize, words: impl ExactSizeIterator<Item = u64>) -> bool {
        let end = words.len().checked_mul(WORD).and_then(|bytes| at.checked_add(bytes));
        if end.is_none_or(|end| end > self.len) {
            return false;
        }
        let offsets = (at..).step_by(WORD);
        offsets.zip(words).all(|(at, word)| self.store_u64(at, word, Ordering::Relaxed))
    }

    /// Advises the system not to read the file ahead, which would only allocate pages of zeros.
    pub(crate) fn expect_no_reading(&self) {
        if let Backing::Mapped(mapped) = &self.backing {
            mapped.expect_no_reading();
        }
    }
}

impl fmt::Debug for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Segment").field("len", &self.len).finish_non_exhaustive()
    }
}

/// A segment, with a count of the cells that were made through this lease: the producer reuses
/// a slot when no cell holds its lease.
#[derive(Debug)]
pub(crate) struct Lease {
    segment: Arc<Segment>,
}

impl Lease {
    /// Makes a lease that no cell holds yet.
    pub(crate) fn new(segment: &Arc<Segment>) -> Arc<Self> {
        Arc::new(Self { segment: Arc::clone(segment) })
    }

    /// Returns a cell as [`Segment::cell`] does; the cell and its clones hold the lease.
    pub(crate) fn cell(self: &Arc<Self>, at: usize) -> Option<Cell> {
        let word = word_at(self.segment.base, self.segment.len, at)?;
        let owner: Owner = Arc::clone(self) as Owner;
        Some(Cell { word, _owner: owner })
    }

    /// Returns whether a cell holds the lease. `false` is final as long as the caller, who has the
    /// only other reference, makes no more cells.
    pub(crate) fn is_held(self: &Arc<Self>) -> bool {
        let held = Arc::strong_count(self) > 1;
        // What the last holder did happens before what the caller does next.
        fence(Ordering::Acquire);
        held
    }
}

/// A reference that keeps a cell's memory mapped (the segment, directly or through a lease) and
/// perhaps the file published.
pub(crate) type Owner = Arc<dyn std::any::Any + Send + Sync>;

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
    /// Makes a cell in private memory, which no reader sees.
    pub(crate) fn private() -> Self {
        let segment = Segment::private(1);
        Self { word: segment.base.cast(), _owner: Arc::new(segment) }
    }

    /// Makes the cell and its clones keep `kept` alive besides their memory.
    pub(crate) fn keeping(self, kept: Owner) -> Self {
        let Self { word, _owner: owner } = self;
        Self { word, _owner: Arc::new((owner, kept)) }
    }

    #[inline]
    fn atomic(&self) -> Word<'_> {
        // SAFETY: `Segment::cell` and `Lease::cell` took the pointer from
        // `word_at`, or `private` from the start of a one-word segment; all are
        // aligned and inside memory that the owner keeps as long as `self`.
        Word(unsafe { self.word.as_ref() })
    }

    /// Returns the current word.
    #[inline]
    pub(crate) fn load(&self) -> u64 {
        self.atomic().load()
    }

    /// Replaces the current word.
    #[inline]
    pub(crate) fn store(&self, value: u64) {
        self.atomic().store(value);
    }

    /// Adds to the word, modulo 2^64; exact under any number of threads.
    #[inline]
    pub(crate) fn add(&self, delta: u64) {
        self.atomic().add(delta);
    }

    /// Replaces the word by a function of it; `change` runs again if another thread
    /// has changed the word meanwhile.
    #[inline]
    pub(crate) fn update(&self, change: impl FnMut(u64) -> u64) {
        self.atomic().update(change);
    }

    /// Replaces the word as [`Cell::update`] does, unless the function returns `None`.
    #[inline]
    pub(crate) fn update_while(&self, change: impl FnMut(u64) -> Option<u64>) {
        self.atomic().update_while(change);
    }
}

/// Many values at equal distances in a segment: like [`Cell`], without a pointer for
/// each.
#[derive(Clone)]
pub(crate) struct CellStrip {
    first: NonNull<AtomicU64>,
    /// Bytes from one word to the next.
    stride: usize,
    last: usize,
    _owner: Arc<Segment>,
}

// SAFETY: a strip is a pointer into the segment that it keeps alive, and a segment
// may be used from any thread.
unsafe impl Send for CellStrip {}
// SAFETY: as above; all methods of its words are atomic.
unsafe impl Sync for CellStrip {}

impl CellStrip {
    /// Makes a strip of at least one word in private memory, all zero.
    pub(crate) fn private(len: usize) -> Self {
        let last = len.saturating_sub(1);
        let segment = Segment::private(last + 1);
        Self { first: segment.base.cast(), stride: WORD, last, _owner: Arc::new(segment) }
    }

    /// Returns the number of words.
    pub(crate) fn len(&self) -> usize {
        self.last + 1
    }

    /// Returns a word by its index; the last one for all larger indexes.
    #[inline]
    pub(crate) fn get_or_last(&self, index: usize) -> Word<'_> {
        let offset = index.min(self.last) * self.stride;
        let word = self.first.as_ptr().wrapping_byte_add(offset);
        // SAFETY: `Segment::strip` checked by `word_at` that the first and the last
        // word are aligned and inside the segment, and that the stride keeps
        // alignment; `private` made a segment of this length. So this holds for
        // all positions up to the last, and the strip keeps the segment.
        Word(unsafe { &*word })
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Word<'_>> {
        (0..=self.last).map(|index| self.get_or_last(index))
    }
}

/// The first values of a [`CellStrip`] whose cells are a cache line apart. As the compiler knows the
/// distance, finding a cell takes a shift instead of a load and a multiplication.
#[derive(Clone)]
pub(crate) struct LineStrip {
    first: NonNull<AtomicU64>,
    len: usize,
    _owner: Arc<Segment>,
}

// SAFETY: as for `CellStrip`.
unsafe impl Send for LineStrip {}
// SAFETY: as for `CellStrip`.
unsafe impl Sync for LineStrip {}

impl LineStrip {
    /// Takes the first `len` values of a strip; `None` if it has fewer, or another distance.
    pub(crate) fn new(strip: CellStrip, len: usize) -> Option<Self> {
        if strip.stride != LINE || len > strip.len() {
            return None;
        }
        let CellStrip { first, _owner: owner, .. } = strip;
        Some(Self { first, len, _owner: owner })
    }

    /// Returns a word by its index.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<Word<'_>> {
        if index >= self.len {
            return None;
        }
        let word = self.first.as_ptr().wrapping_byte_add(index * LINE);
        // SAFETY: `new` has taken this from a strip with words at this distance and at
        // least `len` of them, for which `CellStrip::get_or_last` has the proof.
        Some(Word(unsafe { &*word }))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Word<'_>> {
        (0..self.len).filter_map(|index| self.get(index))
    }
}

impl fmt::Debug for LineStrip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LineStrip").field("len", &self.len).finish_non_exhaustive()
    }
}

impl fmt::Debug for CellStrip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CellStrip").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// Eight bytes of a segment. Every method is one relaxed access and cannot fail.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Word<'a>(&'a AtomicU64);

impl Word<'_> {
    #[inline]
    pub(crate) fn load(self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Replaces the current word.
    #[inline]
    pub(crate) fn store(self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Adds to the word, modulo 2^64; exact under any number of threads.
    #[inline]
    pub(crate) fn add(self, delta: u64) {
        self.0.fetch_add(delta, Ordering::Relaxed);
    }

    /// Replaces the word if it is `from`.
    #[inline]
    pub(crate) fn replace(self, from: u64, to: u64) {
        // If the word has changed, there is nothing to do.
        let _ = self.0.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Replaces the word by a function of it; `change` runs again if another thread
    /// has changed the word meanwhile.
    #[inline]
    pub(crate) fn update(self, mut change: impl FnMut(u64) -> u64) {
        let mut seen = self.load();
        while let Err(now) =
            self.0.compare_exchange_weak(seen, change(seen), Ordering::Relaxed, Ordering::Relaxed)
        {
            seen = now;
        }
    }

    /// Replaces the word as [`Word::update`] does, unless the function returns `None`.
    #[inline]
    pub(crate) fn update_while(self, change: impl FnMut(u64) -> Option<u64>) {
        // Without another word there is nothing to do.
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
    }
}

impl fmt::Debug for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cell").field("word", &self.load()).finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(crate) mod tests;

//! A file mapped for reading, and the guard that survives its truncation.
//!
//! The memory of a mapped MMV file belongs to several processes. No reference
//! to its bytes exists here: every access is a relaxed atomic load of eight
//! bytes (or of one byte, at the unaligned ends of a copy), through a pointer that
//! one of two private functions, `word_at` and `byte_at`, has checked against
//! the mapping's bounds and alignment. Metadata is not read through a mapping
//! but by `pread` into private memory (see [`crate::view`]).
//!
//! **How a file becomes valid.** The writer stores generation 1, then all
//! content, and generation 2 last with release order. A reader loads both,
//! takes the file only if they are equal and not 0, reads, and loads both again
//! after an acquire fence: equal pairs mean that nothing but values changed.
//!
//! **Orders.** Values are independent, so they are loaded relaxed. On a read-only
//! mapping only relaxed loads are guaranteed to work (`std::sync::atomic`,
//! "Atomic accesses to read-only memory"), so acquire order comes from a fence.

#![expect(unsafe_code, reason = "memory shared with other processes; see the module doc")]

pub mod guard;

use std::fmt;
use std::fs::File;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering, fence};

use memmap2::{MmapOptions, MmapRaw};

use crate::layout::Header;

/// Size of a cell and of the widest access.
const WORD: usize = size_of::<u64>();

/// Alignment of mappings in a file: the largest page of supported systems. The guard replaces
/// whole pages.
pub const PART_ALIGNMENT: u64 = 64 << 10;

/// Returns the word at offset `at` of a memory of `len` bytes that starts at `base`; `None` if it
/// is not completely inside or not aligned.
///
/// This is the bounds check that the SAFETY comments below cite. It does not
/// touch the memory. `base` is aligned to at least eight bytes (a page, or a
/// slice of words), so alignment of the offset is alignment of the address.
#[inline]
fn word_at(base: NonNull<u8>, len: usize, at: usize) -> Option<NonNull<AtomicU64>> {
    let inside = at.checked_add(WORD).is_some_and(|end| end <= len);
    if !inside || !at.is_multiple_of(WORD) {
        return None;
    }
    NonNull::new(base.as_ptr().wrapping_add(at).cast())
}

/// Returns the byte at offset `at`; see [`word_at`].
fn byte_at(base: NonNull<u8>, len: usize, at: usize) -> Option<NonNull<AtomicU8>> {
    if at >= len {
        return None;
    }
    NonNull::new(base.as_ptr().wrapping_add(at).cast())
}

/// An MMV file, or the first part of it, mapped for reading.
///
/// Registered with the SIGBUS guard for as long as it lives: when another
/// process truncates the file and the guard is [installed](guard::install),
/// reads give zeros from then on and [`ReadMapping::is_dead`] is true. Most
/// truncations raise no signal, however: the rest of a page reads as zeros. So a reader
/// also compares the file's size, or a word after those that it read, before it uses them.
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
    /// Maps `file` in its current length.
    ///
    /// # Errors
    ///
    /// The errors of fstat and mmap; [`io::ErrorKind::InvalidData`] for a file shorter
    /// than a header.
    pub fn map(file: &File) -> io::Result<Self> {
        Self::map_first(file, file.metadata()?.len())
    }

    /// Maps the first `len` bytes of `file`, as far as the header and the values. What
    /// follows takes no address space, whatever the size of the file.
    ///
    /// # Errors
    ///
    /// The errors of fstat and mmap; [`io::ErrorKind::InvalidData`] if that is less than a
    /// header; [`io::ErrorKind::UnexpectedEof`] if the file is shorter.
    pub fn map_first(file: &File, len: u64) -> io::Result<Self> {
        if len < Header::BYTES as u64 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Self::map_part(file, 0, len)
    }

    /// Maps `len` bytes of `file` from offset `from` on, a multiple of
    /// [`PART_ALIGNMENT`]. The offsets that the other functions take count from there, and
    /// the part has no [generations](Self::generations).
    ///
    /// # Errors
    ///
    /// The errors of fstat and mmap; [`io::ErrorKind::UnexpectedEof`] if the file is shorter;
    /// [`io::ErrorKind::InvalidInput`] for another `from`, or no bytes.
    pub fn map_part(file: &File, from: u64, len: u64) -> io::Result<Self> {
        let file_len = file.metadata()?.len();
        if from.checked_add(len).is_none_or(|end| end > file_len) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if len == 0 || !from.is_multiple_of(PART_ALIGNMENT) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let len = usize::try_from(len).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        let map = MmapOptions::new().offset(from).len(len).map_raw_read_only(file)?;
        let base = NonNull::new(map.as_ptr().cast_mut())
            .ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        let registration = guard::register(base.as_ptr() as usize, len);
        Ok(Self { base, len, registration, _map: map })
    }

    /// Returns the size of the mapping.
    #[expect(clippy::len_without_is_empty, reason = "never empty")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the guard replaced the mapping with zeros. If so, nothing that was read
    /// since the last call that returned false may be used.
    pub fn is_dead(&self) -> bool {
        fence(Ordering::Acquire);
        self.registration.is_dead()
    }

    /// Loads the word at offset `at`; `None` if it is not wholly inside or `at` is not divisible
    /// by eight.
    #[inline]
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

    /// Loads both generations of the header, in the order 1, 2.
    ///
    /// Fenced on both sides: loads before this call are not reordered after it
    /// (the check after a harvest), nor loads after it before it (the check before).
    pub fn generations(&self) -> (u64, u64) {
        fence(Ordering::Acquire);
        let pair = (
            self.load_u64(Header::GENERATION1).unwrap_or(0),
            self.load_u64(Header::GENERATION2).unwrap_or(0),
        );
        fence(Ordering::Acquire);
        pair
    }

    /// Copies the bytes at offset `at` into `buffer`. Returns `false`, with nothing copied, if
    /// they are not all inside.
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

    /// Loads the cell at an offset of a plan.
    ///
    /// # Safety
    ///
    /// `at` is an offset of a [`CellPlan`] whose bound is at most the mapping's length.
    #[inline]
    unsafe fn load_planned(&self, at: u32) -> u64 {
        let word = self.base.cast::<AtomicU64>().as_ptr().wrapping_byte_add(at as usize);
        // SAFETY: `CellPlan::new` let in only offsets divisible by eight
        // whose words end at or before `bound`, which is at most the mapping's
        // length by the contract of this function. The rest as in `load_u64`.
        let word = unsafe { &*word };
        word.load(Ordering::Relaxed)
    }

    /// Loads every cell of `plan` into a slice, in its order. Calls `goes_on` after each
    /// [`STRETCH_PAGES`] pages, and stops when it returns false.
    ///
    /// This is the harvest's inner loop: the plan's offsets were checked when it
    /// was made, so a tick compares lengths once and then only loads.
    ///
    /// Returns `false`, with nothing loaded, if the plan was made for a longer mapping or `out` does
    /// not have the plan's length; and if it was stopped: the cells of later stretches are then not
    /// loaded.
    #[must_use]
    pub fn load_while(
        &self,
        plan: &CellPlan,
        out: &mut [u64],
        mut goes_on: impl FnMut() -> bool,
    ) -> bool {
        if plan.bound > self.len || out.len() != plan.len() {
            return false;
        }
        let mut offsets = &*plan.offsets;
        let mut slots = out;
        for len in &plan.stretches {
            let (stretch, later_offsets) = offsets.split_at(*len as usize);
            let (loaded, later_slots) = slots.split_at_mut(*len as usize);
            for (slot, at) in loaded.iter_mut().zip(stretch) {
                // SAFETY: `at` is an offset of `plan`, whose bound was compared above.
                *slot = unsafe { self.load_planned(*at) };
            }
            offsets = later_offsets;
            slots = later_slots;
            if !goes_on() {
                return false;
            }
        }
        for (slot, at) in slots.iter_mut().zip(offsets) {
            // SAFETY: as in the loop above.
            *slot = unsafe { self.load_planned(*at) };
        }
        true
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

/// Number of pages after which a pass over a [`CellPlan`] can be stopped.
///
/// Loading the first cell of a page may wait: for a disk, or for another process that is
/// changing the file. The cells of this many dense pages take about a microsecond.
pub const STRETCH_PAGES: usize = 16;

/// Size of the smallest page of supported systems, as a power of two.
const PAGE_BITS: u32 = 12;

/// Offsets of many cells, checked once for a mapping of a given length.
#[derive(Debug, Clone, Default)]
pub struct CellPlan {
    offsets: Box<[u32]>,
    /// Number of cells in each stretch of [`STRETCH_PAGES`] pages, from the first cell on. The
    /// cells after the last complete stretch are not counted.
    stretches: Box<[u32]>,
    bound: usize,
}

impl CellPlan {
    /// Makes a plan for a mapping of at least `len` bytes, in the order given. Returns `None` if an
    /// offset is not divisible by eight or beyond 4 GiB, or its word not wholly inside.
    pub fn new(offsets: impl IntoIterator<Item = u64>, len: usize) -> Option<Self> {
        let mut bound = 0;
        let mut checked = Vec::new();
        let mut stretches = Vec::new();
        let mut cells = 0;
        let mut pages = 0;
        let mut page = None;
        for offset in offsets {
            let at = u32::try_from(offset).ok()?;
            let end = (at as usize).checked_add(WORD)?;
            if !offset.is_multiple_of(WORD as u64) || end > len {
                return None;
            }
            if page.replace(at >> PAGE_BITS) != Some(at >> PAGE_BITS) {
                if pages == STRETCH_PAGES {
                    stretches.push(cells);
                    cells = 0;
                    pages = 0;
                }
                pages += 1;
            }
            cells += 1;
            bound = bound.max(end);
            checked.push(at);
        }
        Some(Self { offsets: checked.into(), stretches: stretches.into(), bound })
    }

    /// Returns the number of cells.
    pub fn len(&self) -> usize {
        self.offsets.len()
    }

    /// Returns whether there are no cells.
    pub fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }
}

#[cfg(test)]
mod tests;

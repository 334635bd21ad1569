//! Counts what a thread allocates, and stops at a bound.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Memory that any input may take, for buffers of fixed sizes.
const BASE: isize = 4 << 20;
/// And so much for each byte of it. The worst is a name of one letter, of
/// which four bytes of file become two strings and a node of a tree.
const PER_BYTE: isize = 64;

struct Counting;

thread_local! {
    static NOW: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn grow(bytes: usize) {
    let now = NOW.get().wrapping_add_unsigned(bytes);
    NOW.set(now);
    PEAK.set(PEAK.get().max(now));
}

fn shrink(bytes: usize) {
    NOW.set(NOW.get().wrapping_sub_unsigned(bytes));
}

// SAFETY: every call goes to `System` with the arguments as they came, so its
// promises are kept; counting changes two cells that need no allocation and no
// destructor, and never unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: the caller keeps `alloc`'s contract, which is `System`'s.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        shrink(layout.size());
        // SAFETY: the pointer came from `System` with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: as in `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both are there while the bytes are copied.
        grow(size);
        // SAFETY: the pointer came from `System` with this layout, and the
        // caller answers for the size.
        let new = unsafe { System.realloc(pointer, layout, size) };
        shrink(layout.size());
        new
    }
}

/// Does something with an input of so many bytes, which must not take more
/// memory than such an input justifies.
pub fn within(len: usize, work: impl FnOnce()) {
    let before = NOW.get();
    PEAK.set(before);
    work();
    let peak = PEAK.get() - before;
    let bound = BASE + PER_BYTE * len.cast_signed();
    assert!(peak <= bound, "{peak} bytes allocated for {len} of input, bound {bound}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "bytes allocated for 100 of input")]
    fn a_length_that_is_believed_is_noticed() {
        within(100, || drop(std::hint::black_box(vec![0u8; 5 << 20])));
    }

    #[test]
    fn memory_that_was_given_back_does_not_count_twice() {
        within(100, || {
            for _ in 0..10 {
                drop(std::hint::black_box(vec![0u8; 2 << 20]));
            }
        });
    }
}

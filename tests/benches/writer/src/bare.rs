//! The bare instructions, on words of a shared mapping: nothing that counts in
//! such memory can be cheaper.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use memmap2::MmapMut;
use zerocopy::FromBytes;

/// Words of two cache lines: processors fetch the next one too.
const FAR: usize = 16;

pub(crate) struct Page(MmapMut);

impl Page {
    pub(crate) fn new() -> Result<Self, String> {
        MmapMut::map_anon(4096).map(Self).map_err(|error| error.to_string())
    }

    /// Returns words that do not share a cache line.
    pub(crate) fn words<const LINES: usize>(&mut self) -> [&AtomicU64; LINES] {
        let words = <[AtomicU64]>::mut_from_bytes(&mut self.0).expect("a page of words");
        std::array::from_fn(|line| &words[line * FAR])
    }
}

pub(crate) fn load_and_store(word: &AtomicU64) {
    word.store(word.load(Relaxed).wrapping_add(1), Relaxed);
}

pub(crate) fn atomic_add(word: &AtomicU64) {
    word.fetch_add(1, Relaxed);
}

/// Adds 1 to a floating-point number of many writers, as no processor can do that atomically.
pub(crate) fn compare_exchange(word: &AtomicU64) {
    let add = |bits| Some((f64::from_bits(bits) + 1.0).to_bits());
    let _ = word.fetch_update(Relaxed, Relaxed, add);
}

pub(crate) fn store(word: &AtomicU64, value: u64) {
    word.store(value, Relaxed);
}

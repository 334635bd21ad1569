//! Memory of one decompressed block.

use std::io;
use std::ops::{Deref, DerefMut};

use memmap2::MmapMut;

/// The bytes of a block, in pages of their own: the allocator would keep those of blocks that
/// are gone, in one place for each thread that decompressed any.
#[derive(Debug)]
pub(crate) struct Buffer {
    pages: MmapMut,
    len: usize,
}

impl Buffer {
    /// Zeros.
    ///
    /// # Errors
    ///
    /// The system's: no memory.
    pub(super) fn new(len: usize) -> io::Result<Self> {
        Ok(Self { pages: MmapMut::map_anon(len.max(1))?, len })
    }

    /// Reuses the memory for another block, with arbitrary contents; `None` if that needs more,
    /// or would waste more than half of it.
    pub(super) fn reuse(self, len: usize) -> Option<Self> {
        let fits = (len..=2 * len).contains(&self.pages.len());
        fits.then_some(Self { len, ..self })
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.pages.get(..self.len).unwrap_or_default()
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.pages.get_mut(..self.len).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_again_unless_half_of_it_would_be_wasted() {
        let first = Buffer::new(1000).unwrap();
        let at = first.as_ptr();
        let second = first.reuse(500).unwrap();
        assert_eq!((second.as_ptr(), second.len()), (at, 500));
        assert_eq!(second.reuse(1000).unwrap().len(), 1000);
        assert!(Buffer::new(1000).unwrap().reuse(499).is_none());
        assert!(Buffer::new(1000).unwrap().reuse(1001).is_none());
        assert!(Buffer::new(0).unwrap().is_empty());
    }
}

//! Reads pieces of a file, and never reads or allocates more than the caller
//! allowed.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::{Limits, Refusal};

/// Where bytes come from.
pub trait Source {
    /// Fills `buffer` with the bytes at `offset`.
    ///
    /// # Errors
    ///
    /// Those of the system; [`io::ErrorKind::UnexpectedEof`] if there are fewer bytes.
    fn fill(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
}

impl Source for File {
    fn fill(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.read_exact_at(buffer, offset)
    }
}

impl Source for [u8] {
    fn fill(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let from = usize::try_from(offset).ok().and_then(|start| self.get(start..));
        let bytes = from.and_then(|rest| rest.get(..buffer.len()));
        buffer.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// A source, its size, and how many bytes may still be taken from it.
pub(super) struct Budget<'a, S: Source + ?Sized> {
    source: &'a S,
    pub(super) file_len: u64,
    limit: u64,
    spent: u64,
}

impl<'a, S: Source + ?Sized> Budget<'a, S> {
    pub(super) fn new(source: &'a S, file_len: u64, limits: Limits) -> Self {
        Self { source, file_len, limit: limits.bytes, spent: 0 }
    }

    /// Whether `bytes` bytes at `offset` are inside the file.
    pub(super) fn holds(&self, offset: u64, bytes: u64) -> bool {
        offset.checked_add(bytes).is_some_and(|end| end <= self.file_len)
    }

    /// Takes `bytes` bytes of memory off the budget.
    pub(super) fn spend(&mut self, bytes: u64) -> Result<(), Refusal> {
        let needed = self.spent.saturating_add(bytes);
        if needed > self.limit {
            return Err(Refusal::TooLarge { needed, limit: self.limit });
        }
        self.spent = needed;
        Ok(())
    }

    /// A private copy of bytes that are inside, by [`Budget::holds`].
    pub(super) fn copy(&mut self, offset: u64, bytes: u64) -> Result<Vec<u8>, Refusal> {
        self.spend(bytes)?;
        let len = usize::try_from(bytes)
            .map_err(|_| Refusal::TooLarge { needed: bytes, limit: self.limit })?;
        let mut buffer = vec![0; len];
        self.source.fill(&mut buffer, offset)?;
        Ok(buffer)
    }
}

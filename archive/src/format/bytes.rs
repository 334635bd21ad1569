//! A cursor over a record's bytes that checks every length.
//!
//! Every count and length of a record is checked here against the bytes that
//! are there, before it is used.

use std::ffi::CStr;

use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::RecordError;

/// The bytes of a record that have not been read yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bytes<'a> {
    rest: &'a [u8],
}

impl<'a> Bytes<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    #[inline]
    pub(crate) fn take<T>(&mut self, field: &'static str) -> Result<&'a T, RecordError>
    where
        T: FromBytes + KnownLayout + Immutable + Unaligned,
    {
        let (value, rest) = T::ref_from_prefix(self.rest)
            .map_err(|_| self.truncated(field, size_of::<T>() as u64))?;
        self.rest = rest;
        Ok(value)
    }

    /// Takes the next `len` bytes.
    pub(crate) fn slice(&mut self, field: &'static str, len: u64) -> Result<&'a [u8], RecordError> {
        let cut = usize::try_from(len).ok().and_then(|len| self.rest.split_at_checked(len));
        let (slice, rest) = cut.ok_or_else(|| self.truncated(field, len))?;
        self.rest = rest;
        Ok(slice)
    }

    /// Takes a table of `count` entries, borrowed from the record.
    #[inline]
    pub(crate) fn table<T>(
        &mut self,
        field: &'static str,
        count: u32,
    ) -> Result<&'a [T], RecordError>
    where
        T: FromBytes + KnownLayout + Immutable + Unaligned,
    {
        let cut = <[T]>::ref_from_prefix_with_elems(self.rest, count as usize);
        let (table, rest) =
            cut.map_err(|_| self.truncated(field, u64::from(count) * size_of::<T>() as u64))?;
        self.rest = rest;
        Ok(table)
    }

    /// Takes all that is left.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    pub(crate) const fn len(&self) -> usize {
        self.rest.len()
    }

    /// Fails if bytes are left.
    pub(crate) fn end(self) -> Result<(), RecordError> {
        match self.rest.len() as u64 {
            0 => Ok(()),
            left => Err(RecordError::TrailingBytes { left }),
        }
    }

    #[cold]
    fn truncated(&self, field: &'static str, needed: u64) -> RecordError {
        RecordError::Truncated { field, needed, left: self.rest.len() as u64 }
    }
}

/// Takes a count or length word, which must not be negative.
pub(crate) fn count(field: &'static str, word: i32) -> Result<u32, RecordError> {
    u32::try_from(word).map_err(|_| RecordError::Negative { field, found: i64::from(word) })
}

/// Returns the bytes before the first NUL; `None` without one.
pub(crate) fn before_nul(bytes: &[u8]) -> Option<&[u8]> {
    CStr::from_bytes_until_nul(bytes).ok().map(CStr::to_bytes)
}

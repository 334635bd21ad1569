//! Memory elsewhere than on Linux, where no file is mapped: private memory of the process.

use std::fs::File;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use mmv_format::file::TemporaryFile;

use super::WORD;

/// Memory of the process, freed when this is dropped.
pub(super) struct MappedMemory {
    _memory: Box<[AtomicU64]>,
}

impl MappedMemory {
    pub(super) fn file(_: &Arc<File>, _: u64, _: usize) -> io::Result<(NonNull<u8>, Self)> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Allocates memory that is zero, and returns its address.
    pub(super) fn anonymous(len: usize) -> io::Result<(NonNull<u8>, Self)> {
        let words = len.div_ceil(WORD);
        let mut memory: Box<[AtomicU64]> = (0..words).map(|_| AtomicU64::new(0)).collect();
        let base = NonNull::from(&mut *memory).cast();
        Ok((base, Self { _memory: memory }))
    }

    pub(super) fn expect_no_reading(&self) {}
}

/// The lock of a file, of which there is none.
#[derive(Debug)]
pub(crate) struct LockRegistration;

impl LockRegistration {
    pub(crate) fn new(_: &TemporaryFile) -> Self {
        Self
    }
}

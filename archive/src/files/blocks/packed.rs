//! A file of blocks as it is on disk.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;

use super::buffer::Buffer;
use super::{BlockDecoder, BlockTable};

/// A file that is never written again. One with the same name may be another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileId {
    pub(super) device: u64,
    pub(super) inode: u64,
    pub(super) len: u64,
    pub(super) changed: (i64, i64),
}

impl FileId {
    pub(super) fn new(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            len: metadata.len(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

#[derive(Debug)]
pub(super) struct PackedFile {
    pub(super) file: File,
    pub(super) id: FileId,
    pub(super) table: BlockTable,
}

impl PackedFile {
    /// Decompresses a block, in the memory of `bytes`.
    pub(super) fn decompress(
        &self,
        number: usize,
        decoder: &mut BlockDecoder,
        bytes: Buffer,
    ) -> io::Result<Arc<Buffer>> {
        let block = self.table.blocks.get(number).ok_or(io::ErrorKind::UnexpectedEof)?;
        block.decompress(&self.file, self.table.compression, decoder, bytes).map(Arc::new)
    }

    /// Returns the decompressed bytes of a block.
    pub(super) fn len(&self, number: usize) -> usize {
        self.table.blocks.get(number).map_or(0, |block| block.len as usize)
    }
}

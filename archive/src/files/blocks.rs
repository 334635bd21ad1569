//! Random access to a compressed file that consists of blocks.
//!
//! xz calls them blocks and lists them in the index at the end of each stream; of zstd
//! they are frames, which the seek table of the zstd project's seekable format lists.
//! Each block is decompressed by itself, so that a reader needs those that it asks for
//! and no others.
//!
//! | access | cost |
//! |---|---|
//! | any byte | its block |
//! | forwards or backwards | one pass; the next blocks are decompressed by other threads meanwhile |
//! | a block that was read lately | nothing: [`BlockCache`] holds 16 MiB for the whole process |
//! | a damaged block | its own bytes, no others |
//!
//! A file without such a list, or with one that cannot be right, is decoded as a
//! stream (`decompressed.rs`). Of the one that was opened last, [`BlockCache`] also keeps the reader, so
//! that the next question about it decodes nothing again.

mod buffer;
mod cache;
mod frames;
mod packed;
mod reader;
mod xz;

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;

use liblzma::bufread::XzDecoder;
use liblzma::stream::{IGNORE_CHECK, Stream};

use super::decompressed::{MAX_XZ_MEMORY, most_decompressed};
use crate::Compression;

use buffer::Buffer;
pub(crate) use cache::{BlockCache, SharedStream};
pub(crate) use frames::seek_table;
pub(crate) use reader::BlockFile;
pub(crate) use xz::{CRC32, XzIndex, block_header};

/// The most decompressed bytes of a block: `xz -6` with several threads makes
/// blocks of this size. Files with larger ones are decoded as streams.
const MAX_BLOCK: u64 = 24 << 20;
/// The most blocks of a file: 256 GB in blocks of 1 MB.
const MAX_BLOCKS: usize = 1 << 18;

/// The position of a block in the compressed file, and the decompressed bytes that it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CompressedBlock {
    /// Offset in the compressed file.
    at: u64,
    /// Compressed bytes; of xz without padding.
    size: u32,
    /// Of xz the type of its check.
    check: u8,
    /// Decompressed bytes, at least one.
    len: u32,
    /// Offset of the first of them.
    start: u64,
}

/// The blocks of a file, in order and without gaps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BlockTable {
    compression: Compression,
    blocks: Vec<CompressedBlock>,
    /// Decompressed bytes of all.
    len: u64,
    /// Decompressed bytes of the largest block.
    largest: u64,
}

impl BlockTable {
    /// Returns the table of a file of `len` bytes; `None` if it has none, or none that can be
    /// right.
    ///
    /// # Errors
    ///
    /// The system's.
    pub(crate) fn read(
        file: &File,
        len: u64,
        compression: Compression,
    ) -> io::Result<Option<Self>> {
        let found = match compression {
            Compression::Xz => xz::read_blocks(file, len)?,
            Compression::Zstd => frames::read_blocks(file, len)?,
            Compression::Bzip2 | Compression::Gzip => None,
        };
        Ok(found.and_then(|found| Self::new(found, len, compression)))
    }

    /// Returns the table, or `None` if the sizes are impossible.
    fn new(found: Vec<ListedBlock>, file_len: u64, compression: Compression) -> Option<Self> {
        let mut blocks = Vec::with_capacity(found.len());
        let mut start = 0u64;
        let mut largest = 0;
        for ListedBlock { at, size, len, check } in found {
            // Incompressible bytes take a little more room than they have.
            if len > MAX_BLOCK || size > len + len / 2 + (64 << 10) {
                return None;
            }
            if len > 0 {
                blocks.push(CompressedBlock {
                    at,
                    size: size as u32,
                    check,
                    len: len as u32,
                    start,
                });
            }
            start = start.checked_add(len)?;
            largest = largest.max(len);
        }
        (start <= most_decompressed(file_len)).then_some(Self {
            compression,
            blocks,
            len: start,
            largest,
        })
    }

    /// Returns the place of the block with this byte; that after the last one if there is none.
    fn find(&self, offset: u64) -> usize {
        self.blocks.partition_point(|block| block.start + u64::from(block.len) <= offset)
    }
}

#[derive(Debug, Clone, Copy)]
struct ListedBlock {
    at: u64,
    size: u64,
    len: u64,
    check: u8,
}

impl CompressedBlock {
    const fn end(&self) -> u64 {
        self.start + self.len as u64
    }

    /// Decompresses the bytes of the block, in the memory of `bytes`.
    ///
    /// # Errors
    ///
    /// The system's, and damage.
    fn decompress(
        &self,
        file: &File,
        compression: Compression,
        decoder: &mut BlockDecoder,
        mut bytes: Buffer,
    ) -> io::Result<Buffer> {
        let BlockDecoder { packed, zstd } = decoder;
        let stored = match compression {
            Compression::Xz => xz::padded(u64::from(self.size)),
            _ => u64::from(self.size),
        };
        packed.resize(stored as usize, 0);
        file.read_exact_at(packed, self.at)?;
        let len = self.len as usize;
        if compression == Compression::Xz {
            // A stream of this block alone, so that every sum is compared.
            let header = xz::stream_header(self.check);
            let mut index = XzIndex::default();
            index.push(u64::from(self.size), u64::from(self.len));
            let tail = index.finish(self.check);
            let input = header.chain(&packed[..]).chain(&tail[..]);
            // crc32fast takes a tenth of the time of liblzma's.
            let own_sum = self.check == xz::CRC32;
            let flags = if own_sum { IGNORE_CHECK } else { 0 };
            let stream = Stream::new_stream_decoder(MAX_XZ_MEMORY, flags)?;
            let mut decoder = XzDecoder::new_stream(input, stream);
            decoder.read_exact(&mut bytes)?;
            if decoder.read(&mut [0])? != 0 {
                return Err(wrong_length(len));
            }
            if own_sum && !packed.ends_with(&xz::sum_of(&bytes)) {
                return Err(wrong_sum());
            }
            return Ok(bytes);
        }
        let zstd = match zstd {
            Some(zstd) => zstd,
            None => zstd.insert(zstd::bulk::Decompressor::new()?),
        };
        let found = zstd.decompress_to_buffer(packed, &mut bytes[..])?;
        if found == len { Ok(bytes) } else { Err(wrong_length(len)) }
    }
}

#[derive(Default)]
struct BlockDecoder {
    packed: Vec<u8>,
    zstd: Option<zstd::bulk::Decompressor<'static>>,
}

impl fmt::Debug for BlockDecoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockDecoder").field("packed", &self.packed.len()).finish_non_exhaustive()
    }
}

fn wrong_length(len: usize) -> io::Error {
    let text = format!("a block does not have the {len} bytes that its file lists");
    io::Error::new(io::ErrorKind::InvalidData, text)
}

fn wrong_sum() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a block does not have the CRC32 stored after it")
}

#[cfg(test)]
mod tests;

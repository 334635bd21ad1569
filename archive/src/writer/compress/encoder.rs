//! Blocks, and the lists of them that let a reader find each.

use std::io::{self, Write};

use liblzma::stream::{Action, Filters, LzmaOptions, MatchFinder, Status, Stream};
use zerocopy::little_endian::U32;
use zstd::bulk::Compressor;
use zstd::zstd_safe::CParameter;

use crate::files::{CRC32, XzIndex, block_header, seek_table};

/// Bytes back to which xz finds a match: a block.
const DICTIONARY: u32 = 1 << 20;

/// Compresses blocks, each for itself.
pub(super) enum BlockEncoder {
    Xz,
    Zstd(Compressor<'static>),
}

pub(super) struct EncodedBlock {
    packed: Vec<u8>,
    /// Bytes before compression.
    len: u64,
    /// Their CRC32, for xz.
    sum: u32,
}

impl BlockEncoder {
    /// Creates an encoder of zstd frames with content size and checksum.
    pub(super) fn zstd(level: i32) -> io::Result<Self> {
        let mut compressor = Compressor::new(level)?;
        compressor.set_parameter(CParameter::ChecksumFlag(true))?;
        Ok(Self::Zstd(compressor))
    }

    pub(super) fn encode(&mut self, bytes: &[u8]) -> io::Result<EncodedBlock> {
        let (packed, sum) = match self {
            Self::Xz => (lzma2(bytes)?, crc32fast::hash(bytes)),
            Self::Zstd(compressor) => (compressor.compress(bytes)?, 0),
        };
        Ok(EncodedBlock { packed, len: bytes.len() as u64, sum })
    }

    pub(super) fn container(&self) -> Container {
        match self {
            Self::Xz => Container::Xz(XzIndex::default()),
            Self::Zstd(_) => Container::Zstd(Vec::new()),
        }
    }
}

/// The parts of a file around its blocks, by which a reader can enter at any of them.
pub(super) enum Container {
    /// One stream of xz.
    Xz(XzIndex),
    /// Frames of zstd and a seek table.
    Zstd(Vec<(u32, u32)>),
}

impl Container {
    pub(super) fn begin(&self, out: &mut impl Write) -> io::Result<()> {
        match self {
            Self::Xz(_) => out.write_all(&XzIndex::header(CRC32)),
            Self::Zstd(_) => Ok(()),
        }
    }

    pub(super) fn push(&mut self, block: &EncodedBlock, out: &mut impl Write) -> io::Result<()> {
        let EncodedBlock { packed, len, sum } = block;
        match self {
            Self::Xz(index) => {
                let header = block_header(packed.len() as u64, *len, DICTIONARY);
                let sum = U32::new(*sum).to_bytes();
                out.write_all(&header)?;
                out.write_all(packed)?;
                out.write_all([0; 3].get(..packed.len().wrapping_neg() % 4).unwrap_or_default())?;
                out.write_all(&sum)?;
                index.push((header.len() + packed.len() + sum.len()) as u64, *len);
                Ok(())
            }
            Self::Zstd(frames) => {
                frames.push((packed.len() as u32, *len as u32));
                out.write_all(packed)
            }
        }
    }

    /// Writes the end of the file.
    pub(super) fn finish(&self, out: &mut impl Write) -> io::Result<()> {
        match self {
            Self::Xz(index) => out.write_all(&index.finish(CRC32)),
            Self::Zstd(frames) => out.write_all(&seek_table(frames)),
        }
    }
}

/// Compresses bytes without a container. The options are those of decision 011: values are at
/// offsets that are multiples of four bytes, and most matches are found at the last offset with the
/// same bytes, a record ago.
fn lzma2(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut options = LzmaOptions::new_preset(0)?;
    options.dict_size(DICTIONARY).match_finder(MatchFinder::HashChain4);
    options.nice_len(16).depth(1);
    options.literal_context_bits(0).literal_position_bits(3).position_bits(3);
    let mut filters = Filters::new();
    filters.lzma2(&options);
    let mut stream = Stream::new_raw_encoder(&filters)?;
    let mut out = Vec::with_capacity(bytes.len() / 2 + 4096);
    loop {
        let rest = bytes.get(stream.total_in() as usize..).unwrap_or_default();
        if stream.process_vec(rest, &mut out, Action::Finish)? == Status::StreamEnd {
            return Ok(out);
        }
        out.reserve(out.capacity());
    }
}

//! Blocks, and the lists of them that let a reader find each.

use std::io::{self, Write};

use liblzma::stream::{Action, Filters, LzmaOptions, MatchFinder, Status, Stream};
use zerocopy::little_endian::U32;
use zstd::zstd_safe::CParameter;

use crate::files::{XzIndex, block_header, seek_table};

/// Bytes back to which xz finds a match: a block.
const DICTIONARY: u32 = 1 << 20;
/// CRC32, of four bytes.
const CHECK: u8 = 1;

/// Writes a file as one that a reader can enter at any block.
pub(super) enum BlockWriter {
    Xz { filters: Filters, index: XzIndex },
    Zstd { encoder: zstd::bulk::Compressor<'static>, frames: Vec<(u32, u32)> },
}

impl BlockWriter {
    /// One stream of xz. The options are those of decision 025: values are at places that
    /// are multiples of four bytes, and most matches are found at the last place with
    /// the same bytes, a record ago.
    pub(super) fn xz() -> io::Result<Self> {
        let mut options = LzmaOptions::new_preset(0)?;
        options.dict_size(DICTIONARY).match_finder(MatchFinder::HashChain4);
        options.nice_len(16).depth(1);
        options.literal_context_bits(0).literal_position_bits(3).position_bits(3);
        let mut filters = Filters::new();
        filters.lzma2(&options);
        Ok(Self::Xz { filters, index: XzIndex::default() })
    }

    /// Frames of zstd with this level and a seek table.
    pub(super) fn zstd(level: i32) -> io::Result<Self> {
        let mut encoder = zstd::bulk::Compressor::new(level)?;
        encoder.set_parameter(CParameter::ChecksumFlag(true))?;
        Ok(Self::Zstd { encoder, frames: Vec::new() })
    }

    /// What the file begins with.
    pub(super) fn begin(&self, out: &mut impl Write) -> io::Result<()> {
        match self {
            Self::Xz { .. } => out.write_all(&XzIndex::header(CHECK)),
            Self::Zstd { .. } => Ok(()),
        }
    }

    /// Adds a block of these bytes.
    pub(super) fn write(&mut self, bytes: &[u8], out: &mut impl Write) -> io::Result<()> {
        match self {
            Self::Xz { filters, index } => {
                let packed = lzma2(filters, bytes)?;
                let header = block_header(packed.len() as u64, bytes.len() as u64, DICTIONARY);
                let sum = U32::new(crc32fast::hash(bytes)).to_bytes();
                out.write_all(&header)?;
                out.write_all(&packed)?;
                out.write_all([0; 3].get(..packed.len().wrapping_neg() % 4).unwrap_or_default())?;
                out.write_all(&sum)?;
                index.push((header.len() + packed.len() + sum.len()) as u64, bytes.len() as u64);
                Ok(())
            }
            Self::Zstd { encoder, frames } => {
                let frame = encoder.compress(bytes)?;
                frames.push((frame.len() as u32, bytes.len() as u32));
                out.write_all(&frame)
            }
        }
    }

    /// What the file ends with.
    pub(super) fn finish(&self, out: &mut impl Write) -> io::Result<()> {
        match self {
            Self::Xz { index, .. } => out.write_all(&index.finish(CHECK)),
            Self::Zstd { frames, .. } => out.write_all(&seek_table(frames)),
        }
    }
}

/// Bytes compressed without a container.
fn lzma2(filters: &Filters, bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = Stream::new_raw_encoder(filters)?;
    let mut out = Vec::with_capacity(bytes.len() / 2 + 4096);
    loop {
        let rest = bytes.get(stream.total_in() as usize..).unwrap_or_default();
        if stream.process_vec(rest, &mut out, Action::Finish)? == Status::StreamEnd {
            return Ok(out);
        }
        out.reserve(out.capacity());
    }
}

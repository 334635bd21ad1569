//! Frames of zstd, made for records (RFC 8878).
//!
//! In: whole records. Out: a frame that any decoder of zstd reads. Libzstd searches for what
//! is repeated; here it is known: a record is the last one with its length and layout, but for
//! the lowest bytes of each value. That takes less time, and finds the matches with the least
//! to describe: all have one distance.
//!
//! | | |
//! |---|---|
//! | `records` | splits bytes into records, and finds the previous one of the same length |
//! | `parse` | records as matches and literals |
//! | `places` | where else than in the previous record to look for matches |
//! | `sequences` | matches as codes and bits |
//! | `literals` | what is in no match, as codes of whole bits |
//! | `huffman`, `fse`, `bits` | codes of whole bits, of fractions of a bit, and how both are written |
//!
//! A frame is never believed: libzstd has to decompress it to the same bytes, or what libzstd
//! makes of them is used instead.

mod bits;
mod fse;
mod huffman;
mod literals;
mod parse;
mod places;
mod records;
mod sequences;

use std::io;

use twox_hash::XxHash64;
use zerocopy::little_endian::{U32, U64};
use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe::CParameter;

use bits::BitWriter;
use parse::{Parsed, Parser};
use sequences::{Codes, Repeated};

/// A frame begins with these.
const MAGIC: u32 = 0xfd2f_b528;
/// One segment, whose length is given in four bytes, and a checksum.
const DESCRIPTOR: u8 = 2 << 6 | 1 << 5 | 1 << 2;
/// The most bytes of a block.
const BLOCK: usize = 128 << 10;
/// Kinds of blocks.
const RAW: usize = 0;
const COMPRESSED: usize = 2;
/// libzstd is also tried on one of this number of frames, and on each that is smaller than a
/// block.
const TRIED: u32 = 16;

/// Makes frames.
pub(super) struct FrameEncoder {
    libzstd: Compressor<'static>,
    decoder: Decompressor<'static>,
    blocks: BlockEncoder,
    restored: Vec<u8>,
    /// Frames since libzstd was tried.
    since: u32,
    /// Whether it made less of the frame that was tried.
    prefers_libzstd: bool,
}

impl FrameEncoder {
    /// Frames that are about as small as this level of libzstd makes them, or smaller.
    pub(super) fn new(level: i32) -> io::Result<Self> {
        let mut libzstd = Compressor::new(level)?;
        libzstd.set_parameter(CParameter::ChecksumFlag(true))?;
        Ok(Self {
            libzstd,
            decoder: Decompressor::new()?,
            blocks: BlockEncoder::default(),
            restored: Vec::new(),
            since: 0,
            prefers_libzstd: false,
        })
    }

    /// A frame of these bytes.
    pub(super) fn encode(&mut self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        let is_small = bytes.len() < BLOCK;
        let is_trial = is_small || self.since == 0;
        if !is_small {
            self.since = (self.since + 1) % TRIED;
        }
        if self.prefers_libzstd && !is_trial {
            return self.libzstd.compress(bytes);
        }
        let own = self.blocks.frame(bytes).filter(|frame| self.is_frame_of(frame, bytes));
        match own {
            Some(own) if !is_trial => Ok(own),
            own => {
                let other = self.libzstd.compress(bytes)?;
                let own = own.filter(|own| own.len() <= other.len());
                if !is_small {
                    self.prefers_libzstd = own.is_none();
                }
                Ok(own.unwrap_or(other))
            }
        }
    }

    /// Whether libzstd makes these bytes of a frame.
    fn is_frame_of(&mut self, frame: &[u8], bytes: &[u8]) -> bool {
        self.restored.resize(bytes.len(), 0);
        let len = self.decoder.decompress_to_buffer(frame, &mut self.restored);
        len.is_ok_and(|len| self.restored.get(..len) == Some(bytes))
    }
}

/// Makes blocks.
#[derive(Debug, Default)]
struct BlockEncoder {
    parsed: Parsed,
    codes: Vec<Codes>,
    bits: BitWriter,
    block: Vec<u8>,
}

impl BlockEncoder {
    /// A frame; `None` of more bytes than one can have.
    fn frame(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        let len = u32::try_from(bytes.len()).ok()?;
        let mut out = Vec::with_capacity(bytes.len() / 8 + 64);
        out.extend(U32::new(MAGIC).to_bytes());
        out.push(DESCRIPTOR);
        out.extend(U32::new(len).to_bytes());
        let mut parser = Parser::new(bytes);
        let mut repeated = Repeated::default();
        let mut start = 0;
        loop {
            let end = (start + BLOCK).min(bytes.len());
            parser.parse(start..end, &mut self.parsed);
            let is_last = usize::from(end == bytes.len());
            let before = repeated;
            let own = self.block(&mut repeated);
            let (kind, block) = match bytes.get(start..end)? {
                plain if own.len() >= plain.len() => {
                    // A decoder learns no distance from it.
                    repeated = before;
                    (RAW, plain)
                }
                _ => (COMPRESSED, own),
            };
            push((is_last | kind << 1 | block.len() << 3) as u64, 3, &mut out);
            out.extend_from_slice(block);
            if is_last == 1 {
                break;
            }
            start = end;
        }
        // The lower half of the sum.
        let sum = XxHash64::oneshot(0, bytes) as u32;
        out.extend(U32::new(sum).to_bytes());
        Some(out)
    }

    /// What was parsed as a block.
    fn block(&mut self, repeated: &mut Repeated) -> &[u8] {
        self.block.clear();
        let Parsed { sequences, literals } = &self.parsed;
        literals::encode(literals, &mut self.bits, &mut self.block);
        sequences::encode(sequences, repeated, &mut self.codes, &mut self.bits, &mut self.block);
        &self.block
    }
}

/// Adds the lowest bytes of a number.
fn push(value: u64, bytes: usize, out: &mut Vec<u8>) {
    out.extend(U64::new(value).to_bytes().iter().take(bytes));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::frame;

    /// Frames that are always our own.
    fn own(bytes: &[u8]) -> Vec<u8> {
        let made = BlockEncoder::default().frame(bytes).unwrap();
        let restored = zstd::bulk::decompress(&made, bytes.len()).unwrap();
        assert!(restored == bytes, "{} bytes", bytes.len());
        made
    }

    struct Random(u32);

    impl Random {
        fn next(&mut self, below: u32) -> u32 {
            self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (self.0 >> 8) % below
        }
    }

    /// Records of some shapes, with values of which the lowest bytes change.
    fn records(random: &mut Random, count: u32, values: u32) -> Vec<u8> {
        let mut all = vec![vec![0_u64; values as usize]; 3];
        let mut out = Vec::new();
        for _ in 0..count {
            let shape = random.next(3) as usize;
            let values = &mut all[shape];
            values.truncate((values.len() / (shape + 1)).max(1));
            for (number, value) in values.iter_mut().enumerate() {
                *value += u64::from(random.next(1 << (number % 20)));
            }
            let body: Vec<u8> = values.iter().flat_map(|value| value.to_be_bytes()).collect();
            frame::encode(&mut out, |out| {
                out.extend(body);
                Ok(())
            })
            .unwrap();
        }
        out
    }

    #[test]
    fn libzstd_restores_anything() {
        let mut random = Random(1);
        for bytes in [&b""[..], b"a", b"aaaaaaaaaaaaaaaaaaaaaaaaa", &vec![7; 300_000]] {
            own(bytes);
        }
        for len in [10, 1_000, 131_072, 131_073, 400_000] {
            let noise: Vec<u8> = (0..len).map(|_| random.next(256) as u8).collect();
            assert!(own(&noise).len() <= noise.len() + 32);
            let letters: Vec<u8> = noise.iter().map(|byte| byte % 20).collect();
            assert!(len < 1_000 || own(&letters).len() < letters.len() * 3 / 4);
            own(&[&noise[..], &letters, &noise].concat());
        }
        let step = if std::env::var_os("MMV_LONG").is_some() { 1 } else { 4 };
        for case in (0..200).step_by(step) {
            let (count, values) = (1 + random.next(400), 1 + random.next(1 + case * 10));
            own(&records(&mut random, count, values));
        }
    }

    #[test]
    fn records_take_little_more_than_what_changes_in_them() {
        let mut random = Random(1);
        let mut values = vec![0_u64; 1000];
        let mut bytes = Vec::new();
        for _ in 0..64 {
            for value in &mut values {
                *value += u64::from(random.next(1 << 16));
            }
            let body: Vec<u8> = values.iter().flat_map(|value| value.to_be_bytes()).collect();
            frame::encode(&mut bytes, |out| {
                out.extend(body);
                Ok(())
            })
            .unwrap();
        }
        let level = 2;
        let made = FrameEncoder::new(level).unwrap().encode(&bytes).unwrap().len();
        let other = zstd::bulk::compress(&bytes, level).unwrap().len();
        assert!(made < 64 * 1000 * 27 / 10, "{made} bytes");
        assert!(made < other * 9 / 10, "{made} bytes, libzstd {other}");
    }

    #[test]
    fn what_libzstd_makes_smaller_is_left_to_it() {
        let mut random = Random(1);
        let words: Vec<Vec<u8>> = (0..3000)
            .map(|_| (0..4 + random.next(9)).map(|_| random.next(256) as u8).collect())
            .collect();
        let mut encoder = FrameEncoder::new(9).unwrap();
        for _ in 0..2 {
            let text: Vec<u8> =
                (0..40_000).flat_map(|_| words[random.next(3000) as usize].clone()).collect();
            let made = encoder.encode(&text).unwrap();
            assert!(encoder.is_frame_of(&made, &text));
            assert!(!encoder.is_frame_of(&made, &text[1..]));
            assert!(!encoder.is_frame_of(&made[..made.len() - 1], &text));
            assert!(encoder.prefers_libzstd);
            assert!(made.len() < BlockEncoder::default().frame(&text).unwrap().len());
        }
    }
}

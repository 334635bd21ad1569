//! The container of xz: streams of blocks, with an index at the end of each
//! (<https://tukaani.org/xz/xz-file-format.txt>, sections 2 to 4).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use zerocopy::IntoBytes as _;
use zerocopy::little_endian::U32;

use super::{ListedBlock, MAX_BLOCKS};

/// Stream header and stream footer have as many bytes.
const EDGE: usize = 12;
const MAGIC: [u8; 6] = [0xfd, b'7', b'z', b'X', b'Z', 0];
const FOOTER_MAGIC: [u8; 2] = *b"YZ";
/// The check of a stream in its flags; other bits are reserved.
const CHECKS: u8 = 0x0f;
/// The type of a check of four bytes.
pub(crate) const CRC32: u8 = 1;
/// The most bytes of a number.
const MAX_VLI: usize = 9;
/// The longest index that is read: each record has at least two bytes.
const MAX_INDEX: u64 = 8 * MAX_BLOCKS as u64;
/// The most streams of a file, and bytes of padding in all of it.
const MAX_STREAMS: usize = 4096;
const MAX_PADDING: u64 = 64 << 10;
/// LZMA2 in the list of filters, and how many bytes its properties have.
const LZMA2: [u8; 2] = [0x21, 1];
/// Both sizes are in the block header; one filter.
const BLOCK_FLAGS: u8 = 0xc0;

/// Returns the blocks that the indexes of a file list, in order; `None` if they contradict the
/// file.
pub(super) fn read_blocks(file: &File, len: u64) -> io::Result<Option<Vec<ListedBlock>>> {
    let mut streams = Vec::new();
    if len == 0 {
        return Ok(None);
    }
    let mut end = len;
    let mut padding = 0;
    let mut count = 0;
    while end > 0 {
        let Some(at) = end.checked_sub(EDGE as u64).filter(|_| end.is_multiple_of(4)) else {
            return Ok(None);
        };
        let mut footer = [0; EDGE];
        file.read_exact_at(&mut footer, at)?;
        if footer.ends_with(&[0; 4]) {
            end -= 4;
            padding += 4;
            if padding > MAX_PADDING {
                return Ok(None);
            }
            continue;
        }
        let Some(stream) = read_stream(file, &footer, at)? else { return Ok(None) };
        count += stream.blocks.len();
        end = stream.start;
        streams.push(stream.blocks);
        if count > MAX_BLOCKS || streams.len() > MAX_STREAMS {
            return Ok(None);
        }
    }
    Ok(Some(streams.into_iter().rev().flatten().collect()))
}

struct XzStream {
    start: u64,
    blocks: Vec<ListedBlock>,
}

/// Returns the stream whose footer is at `at`.
fn read_stream(file: &File, footer: &[u8; EDGE], at: u64) -> io::Result<Option<XzStream>> {
    let Some((index_size, check)) = parse_footer(footer) else { return Ok(None) };
    let index_at = at.checked_sub(index_size).filter(|_| index_size <= MAX_INDEX);
    let Some(index_at) = index_at else { return Ok(None) };
    let mut index = vec![0; index_size as usize];
    file.read_exact_at(&mut index, index_at)?;
    let Some(sizes) = parse_index(&index) else { return Ok(None) };
    let total = sizes.iter().try_fold(0u64, |total, (size, _)| total.checked_add(padded(*size)));
    let first = total.and_then(|total| index_at.checked_sub(total));
    let Some(start) = first.and_then(|first| first.checked_sub(EDGE as u64)) else {
        return Ok(None);
    };
    // The footer has all that the header has: one that is damaged does no harm.
    let mut next = start + EDGE as u64;
    let blocks = sizes.into_iter().map(|(size, len)| {
        let at = next;
        next += padded(size);
        ListedBlock { at, size, len, check }
    });
    let blocks = blocks.collect();
    Ok(Some(XzStream { start, blocks }))
}

/// Returns the size of the index and the type of the checks.
fn parse_footer(footer: &[u8; EDGE]) -> Option<(u64, u8)> {
    let (sum, rest) = footer.split_first_chunk::<4>()?;
    let (body, magic) = rest.split_at_checked(6)?;
    let ([0, check], size) = (body.last_chunk::<2>()?, body.first_chunk::<4>()?) else {
        return None;
    };
    let size = 4 * (u64::from(U32::from_bytes(*size)) + 1);
    let is_good = *sum == sum_of(body) && *magic == FOOTER_MAGIC && *check & !CHECKS == 0;
    is_good.then_some((size, *check))
}

/// Returns the unpadded size and the decompressed length of each block.
fn parse_index(index: &[u8]) -> Option<Vec<(u64, u64)>> {
    let (body, sum) = index.split_last_chunk::<4>()?;
    if *sum != sum_of(body) {
        return None;
    }
    let mut rest = body.strip_prefix(&[0])?;
    let count = take_number(&mut rest)?;
    // At least two bytes for each.
    if count > rest.len() as u64 / 2 || count > MAX_BLOCKS as u64 {
        return None;
    }
    let mut blocks = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let size = take_number(&mut rest)?;
        let len = take_number(&mut rest)?;
        // Larger ones are refused anyway; so no sum overflows.
        if size == 0 || size > u64::from(u32::MAX) {
            return None;
        }
        blocks.push((size, len));
    }
    (rest.len() < 4 && rest.iter().all(|byte| *byte == 0)).then_some(blocks)
}

fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for place in 0..MAX_VLI {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return (*byte != 0 || place == 0).then_some(number);
        }
    }
    None
}

fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

pub(super) const fn padded(size: u64) -> u64 {
    size.next_multiple_of(4)
}

pub(super) fn sum_of(bytes: &[u8]) -> [u8; 4] {
    U32::new(crc32fast::hash(bytes)).to_bytes()
}

pub(super) fn stream_header(check: u8) -> [u8; EDGE] {
    let mut header = [0; EDGE];
    let sum = sum_of(&[0, check]);
    for (to, from) in header.iter_mut().zip(MAGIC.iter().chain(&[0, check]).chain(&sum)) {
        *to = *from;
    }
    header
}

/// Returns the header of a block of these sizes, for LZMA2 with a dictionary of `dictionary`
/// bytes, a power of two from 4 KiB on.
pub(crate) fn block_header(compressed: u64, len: u64, dictionary: u32) -> Vec<u8> {
    let mut header = vec![0, BLOCK_FLAGS];
    put_number(&mut header, compressed);
    put_number(&mut header, len);
    header.extend(LZMA2);
    // 2^12 is 0, and each second step is a power of two.
    header.push(2 * (dictionary.max(1 << 12).ilog2() as u8 - 12));
    let size = padded(header.len() as u64) as usize;
    header.resize(size, 0);
    if let Some(first) = header.first_mut() {
        *first = (size / 4) as u8;
    }
    let sum = sum_of(&header);
    header.extend(sum);
    header
}

#[derive(Debug, Default)]
pub(crate) struct XzIndex {
    count: u64,
    records: Vec<u8>,
}

impl XzIndex {
    /// Returns the bytes that a stream with checks of this type begins with.
    pub(crate) fn header(check: u8) -> [u8; EDGE] {
        stream_header(check)
    }

    /// Adds a block: its size without padding, and its decompressed bytes.
    pub(crate) fn push(&mut self, size: u64, len: u64) {
        self.count += 1;
        put_number(&mut self.records, size);
        put_number(&mut self.records, len);
    }

    /// Encodes the index and the footer of the stream.
    pub(crate) fn finish(&self, check: u8) -> Vec<u8> {
        let mut out = vec![0];
        put_number(&mut out, self.count);
        out.extend(&self.records);
        out.resize(padded(out.len() as u64) as usize, 0);
        out.extend(sum_of(&out));
        // In units of four bytes, less one. A larger index than 16 GiB cannot be.
        let size = U32::new((out.len() / 4) as u32 - 1);
        let mut body = size.as_bytes().to_vec();
        body.extend([0, check]);
        out.extend(sum_of(&body));
        out.extend(body);
        out.extend(FOOTER_MAGIC);
        out
    }
}

//! Many frames of zstd with a seek table: the zstd project's seekable format
//! (`contrib/seekable_format/zstd_seekable_compression_format.md`). The table is in a
//! skippable frame, which other decoders pass by.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{ListedBlock, MAX_BLOCK, MAX_BLOCKS};

const SKIPPABLE_MAGIC: u32 = 0x184d_2a5e;
const SEEKABLE_MAGIC: u32 = 0x8f92_eab1;
const FRAME_MAGIC: u32 = 0xfd2f_b528;
/// Entries have a checksum of the decompressed bytes.
const HAS_CHECKSUMS: u8 = 0x80;
const RESERVED: u8 = 0x7c;
/// The most frames that do not start as the table says.
const MAX_DAMAGED: usize = 4;
const FRAME_HEADER: u64 = 18;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Head {
    magic: U32,
    /// Bytes of the frame after this.
    size: U32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct SeekTableEntry {
    compressed: U32,
    decompressed: U32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Footer {
    frames: U32,
    descriptor: u8,
    magic: U32,
}

/// Returns the frames that a file's seek table lists; `None` if there is no table, or if it
/// contradicts the file.
pub(super) fn read_blocks(file: &File, len: u64) -> io::Result<Option<Vec<ListedBlock>>> {
    let Some(table) = read_table(file, len)? else { return Ok(None) };
    let mut blocks = Vec::with_capacity(table.entries.len());
    let mut at = 0u64;
    for (size, len) in table.entries {
        blocks.push(ListedBlock { at, size, len, check: 0 });
        at += size;
    }
    if at != table.start {
        return Ok(None);
    }
    // Either the table is wrong or the frame is damaged.
    let mut contradictions = 0;
    for block in &blocks {
        if !is_listed_right(file, block)? {
            contradictions += 1;
            if contradictions > MAX_DAMAGED || is_whole(file, block)? {
                return Ok(None);
            }
        }
    }
    Ok(Some(blocks))
}

struct Table {
    /// Offset of its frame.
    start: u64,
    /// Compressed and decompressed bytes of each frame.
    entries: Vec<(u64, u64)>,
}

fn read_table(file: &File, len: u64) -> io::Result<Option<Table>> {
    let mut bytes = [0; size_of::<Footer>()];
    let Some(at) = len.checked_sub(bytes.len() as u64) else { return Ok(None) };
    file.read_exact_at(&mut bytes, at)?;
    let Ok(Footer { frames, descriptor, magic }) = Footer::read_from_bytes(&bytes) else {
        return Ok(None);
    };
    let frames = frames.get() as usize;
    if magic != SEEKABLE_MAGIC || descriptor & RESERVED != 0 || frames > MAX_BLOCKS {
        return Ok(None);
    }
    let sum = if descriptor & HAS_CHECKSUMS == 0 { 0 } else { size_of::<U32>() };
    let stride = size_of::<SeekTableEntry>() + sum;
    let body = frames * stride;
    let Some(start) = at.checked_sub((body + size_of::<Head>()) as u64) else { return Ok(None) };
    let mut bytes = vec![0; size_of::<Head>() + body];
    file.read_exact_at(&mut bytes, start)?;
    let Ok((head, entries)) = Head::read_from_prefix(&bytes) else { return Ok(None) };
    if head.magic != SKIPPABLE_MAGIC || head.size.get() as usize != body + size_of::<Footer>() {
        return Ok(None);
    }
    let entries = entries.chunks_exact(stride).filter_map(|entry| {
        let (SeekTableEntry { compressed, decompressed }, _) =
            SeekTableEntry::read_from_prefix(entry).ok()?;
        Some((u64::from(compressed.get()), u64::from(decompressed.get())))
    });
    Ok(Some(Table { start, entries: entries.collect() }))
}

/// Returns whether a block starts like a frame, of as many bytes as the table says if it has
/// their number.
fn is_listed_right(file: &File, block: &ListedBlock) -> io::Result<bool> {
    let mut bytes = [0; FRAME_HEADER as usize];
    let wanted = bytes.get_mut(..block.size.min(FRAME_HEADER) as usize).unwrap_or_default();
    file.read_exact_at(wanted, block.at)?;
    let Ok((magic, rest)) = U32::read_from_prefix(wanted) else { return Ok(false) };
    // A frame that is skipped has no bytes.
    let is_skipped = magic.get() & !0xf == SKIPPABLE_MAGIC & !0xf;
    Ok(match content_size(rest) {
        _ if magic != FRAME_MAGIC => is_skipped && block.len == 0,
        Some(size) => size == block.len,
        None => true,
    })
}

/// Returns whether a block is a frame that can be decompressed.
fn is_whole(file: &File, block: &ListedBlock) -> io::Result<bool> {
    if block.size > 2 * MAX_BLOCK {
        return Ok(false);
    }
    let mut packed = vec![0; block.size as usize];
    file.read_exact_at(&mut packed, block.at)?;
    let mut decoder = zstd::stream::read::Decoder::with_buffer(&packed[..])?;
    let most = &mut io::Read::take(&mut decoder, MAX_BLOCK);
    Ok(io::copy(most, &mut io::sink()).is_ok())
}

/// Returns the decompressed bytes that the header of a frame has after its magic number (RFC
/// 8878, 3.1.1.1); `None` if it does not have them.
fn content_size(header: &[u8]) -> Option<u64> {
    let (descriptor, rest) = header.split_first()?;
    let is_single = descriptor & 0x20 != 0;
    let dictionary = [0, 1, 2, 4].get(usize::from(descriptor & 3))?;
    let rest = rest.get(usize::from(!is_single) + dictionary..)?;
    let size = match descriptor >> 6 {
        0 => usize::from(is_single),
        1 => 2,
        2 => 4,
        _ => 8,
    };
    let bytes = rest.get(..size).filter(|bytes| !bytes.is_empty())?;
    let number = bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
    Some(if size == 2 { number + 256 } else { number })
}

pub(crate) fn seek_table(frames: &[(u32, u32)]) -> Vec<u8> {
    let count = frames.len() as u32;
    let body = frames.len() * size_of::<SeekTableEntry>() + size_of::<Footer>();
    let head = Head { magic: U32::new(SKIPPABLE_MAGIC), size: U32::new(body as u32) };
    let mut table = head.as_bytes().to_vec();
    for (compressed, decompressed) in frames {
        let compressed = U32::new(*compressed);
        let decompressed = U32::new(*decompressed);
        table.extend(SeekTableEntry { compressed, decompressed }.as_bytes());
    }
    let magic = U32::new(SEEKABLE_MAGIC);
    table.extend(Footer { frames: U32::new(count), descriptor: 0, magic }.as_bytes());
    table
}

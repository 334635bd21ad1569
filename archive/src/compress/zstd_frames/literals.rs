//! Bytes that are in no match (RFC 8878, section 3.1.1.3.1).

use zerocopy::little_endian::U16;

use super::bits::BitWriter;
use super::huffman::Codes;

/// Kinds of sections.
const RAW: u32 = 0;
const ONE_BYTE: u32 = 1;
const CODED: u32 = 2;
/// With fewer literals than this a code of their own is not worth its description.
const MIN_CODED: usize = 64;
/// From this many on there are four streams, which are decoded side by side.
const MIN_STREAMS: usize = 256;

/// Writes a section of literals.
pub(super) fn encode(literals: &[u8], bits: &mut BitWriter, out: &mut Vec<u8>) {
    if let [first, rest @ ..] = literals
        && rest.len() >= 4
        && rest.iter().all(|byte| byte == first)
    {
        header(ONE_BYTE, literals.len(), out);
        return out.push(*first);
    }
    let start = out.len();
    if literals.len() >= MIN_CODED && coded(literals, bits, out).is_some() {
        return;
    }
    out.truncate(start);
    header(RAW, literals.len(), out);
    out.extend_from_slice(literals);
}

/// The header of a section that is not coded.
fn header(kind: u32, len: usize, out: &mut Vec<u8>) {
    let len = len as u32;
    let (bits, bytes) = match len {
        0..0x20 => (kind | len << 3, 1),
        0x20..0x1000 => (kind | 1 << 2 | len << 4, 2),
        _ => (kind | 3 << 2 | len << 4, 3),
    };
    super::push(u64::from(bits), bytes, out);
}

/// A section with a code; `None` if that makes it no smaller.
fn coded(literals: &[u8], bits: &mut BitWriter, out: &mut Vec<u8>) -> Option<()> {
    let counts = count(literals);
    let codes = Codes::of(&counts)?;
    let estimate = codes.bits(&counts) / 8;
    // Half of a bit a byte is worth the time of decoding it.
    if estimate as usize + 32 > literals.len() - literals.len() / 32 {
        return None;
    }
    let mut section = Vec::with_capacity(estimate as usize + 256);
    codes.describe(&mut section)?;
    if literals.len() < MIN_STREAMS {
        codes.encode(literals, bits, &mut section);
    } else {
        let jumps = section.len();
        section.extend([0; 6]);
        let mut begin = section.len();
        for (number, part) in literals.chunks(literals.len().div_ceil(4)).enumerate() {
            codes.encode(part, bits, &mut section);
            if number < 3 {
                let len = u16::try_from(section.len() - begin).ok()?;
                let place = jumps + 2 * number;
                section.get_mut(place..place + 2)?.copy_from_slice(&U16::new(len).to_bytes());
            }
            begin = section.len();
        }
    }
    if section.len() >= literals.len() {
        return None;
    }
    let (format, width, bytes) = match literals.len() {
        0..MIN_STREAMS => (0, 10, 3),
        MIN_STREAMS..0x400 => (1, 10, 3),
        0x400..0x4000 => (2, 14, 4),
        _ => (3, 18, 5),
    };
    let sizes = literals.len() as u64 | (section.len() as u64) << width;
    super::push(u64::from(CODED) | format << 2 | sizes << 4, bytes, out);
    out.extend_from_slice(&section);
    Some(())
}

/// How often each byte occurs.
fn count(bytes: &[u8]) -> [u32; 256] {
    // Equal bytes in a row do not wait for each other.
    let mut counts = [[0_u32; 256]; 4];
    for four in bytes.chunks(4) {
        for (byte, counts) in four.iter().zip(&mut counts) {
            if let Some(count) = counts.get_mut(usize::from(*byte)) {
                *count += 1;
            }
        }
    }
    let [first, others @ ..] = counts;
    others.iter().fold(first, |mut sum, counts| {
        sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        sum
    })
}

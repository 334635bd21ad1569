//! Codes of whole bits for literals (RFC 8878, section 4.2).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::bits::BitWriter;
use super::fse::{Distribution, Table};

/// The longest code.
const MAX_BITS: u32 = 11;
/// The finest distribution of weights.
const WEIGHT_LOG: u32 = 6;
/// How many weights can be listed in four bits each.
const MAX_LISTED: usize = 128;

/// A code for bytes.
#[derive(Debug)]
pub(super) struct Codes {
    /// Of each byte, the length in bits and the bits.
    codes: [(u8, u16); 256],
    longest: u32,
}

impl Codes {
    /// The shortest codes for bytes that occur so often; `None` with fewer than two of them.
    pub(super) fn of(counts: &[u32; 256]) -> Option<Self> {
        let mut counts = *counts;
        let mut lengths = lengths(&counts)?;
        // Nearer counts have a flatter tree.
        while lengths.iter().any(|length| u32::from(*length) > MAX_BITS) {
            counts
                .iter_mut()
                .filter(|count| **count > 0)
                .for_each(|count| *count = (*count).div_ceil(2));
            lengths = self::lengths(&counts)?;
        }
        let longest = u32::from(*lengths.iter().max()?);
        let mut codes = [(0, 0); 256];
        // The longest codes come first; within a length the order is that of the bytes.
        let mut next = 0_u16;
        for length in (1..=longest as u8).rev() {
            for (code, _) in codes.iter_mut().zip(&lengths).filter(|(_, own)| **own == length) {
                *code = (length, next);
                next += 1;
            }
            next >>= 1;
        }
        Some(Self { codes, longest })
    }

    /// How many bits it takes to write bytes that occur so often.
    pub(super) fn bits(&self, counts: &[u32; 256]) -> u64 {
        let all = self.codes.iter().zip(counts);
        all.map(|((length, _), count)| u64::from(*length) * u64::from(*count)).sum()
    }

    /// Writes the code itself; `None` if it cannot be written.
    pub(super) fn describe(&self, out: &mut Vec<u8>) -> Option<()> {
        let weight = |(length, _): &(u8, u16)| match length {
            0 => 0,
            length => self.longest as u8 + 1 - length,
        };
        let last = self.codes.iter().rposition(|(length, _)| *length > 0)?;
        // That of the last byte follows from the others.
        let weights: Vec<u8> = self.codes.iter().take(last).map(weight).collect();
        let packed = compress(&weights).filter(|packed| packed.len() < MAX_LISTED);
        let listed = weights.len().div_ceil(2);
        match packed {
            Some(packed) if weights.len() > MAX_LISTED || packed.len() < listed => {
                out.push(packed.len() as u8);
                out.extend_from_slice(&packed);
            }
            _ if weights.len() > MAX_LISTED => return None,
            _ => {
                out.push(127 + weights.len() as u8);
                let pairs = weights.chunks(2);
                out.extend(pairs.map(|pair| {
                    pair.iter().fold(0, |byte, weight| byte << 4 | weight)
                        << if pair.len() == 1 { 4 } else { 0 }
                }));
            }
        }
        Some(())
    }

    /// Writes bytes that have codes as one stream.
    pub(super) fn encode(&self, bytes: &[u8], bits: &mut BitWriter, out: &mut Vec<u8>) {
        let code = |byte: &u8| self.codes.get(usize::from(*byte)).copied().unwrap_or_default();
        // The first byte is read first, and so written last.
        let mut groups = bytes.rchunks(4);
        for group in &mut groups {
            for byte in group.iter().rev() {
                let (length, value) = code(byte);
                bits.add(u64::from(value), u32::from(length));
            }
            bits.flush();
        }
        bits.finish(out);
    }
}

/// The lengths of the codes of a Huffman tree.
fn lengths(counts: &[u32; 256]) -> Option<[u8; 256]> {
    // Nodes: those of bytes, and of pairs of nodes above them.
    let mut parents = [0_u16; 512];
    let used = counts.iter().enumerate().filter(|(_, count)| **count > 0);
    let mut heap: BinaryHeap<_> =
        used.map(|(byte, count)| Reverse((u64::from(*count), byte as u16))).collect();
    if heap.len() < 2 {
        return None;
    }
    let mut node = 256_u16;
    while let Some(Reverse((least, one))) = heap.pop()
        && let Some(Reverse((next, other))) = heap.pop()
    {
        for child in [one, other] {
            *parents.get_mut(usize::from(child))? = node;
        }
        heap.push(Reverse((least + next, node)));
        node += 1;
    }
    let root = node - 1;
    let mut depths = [0_u8; 512];
    let mut lengths = [0_u8; 256];
    for node in (0..root).rev() {
        let parent = parents.get(usize::from(node)).copied().unwrap_or_default();
        // Of bytes that do not occur there is none.
        if parent > 0 {
            let depth = depths.get(usize::from(parent)).copied().unwrap_or_default() + 1;
            *depths.get_mut(usize::from(node))? = depth;
            if let Some(length) = lengths.get_mut(usize::from(node)) {
                *length = depth;
            }
        }
    }
    Some(lengths)
}

/// Weights as two interleaved streams of states.
fn compress(weights: &[u8]) -> Option<Vec<u8>> {
    let mut counts = [0_u32; MAX_BITS as usize + 1];
    for weight in weights {
        *counts.get_mut(usize::from(*weight))? += 1;
    }
    let distribution = Distribution::of(&counts, WEIGHT_LOG)?;
    let table = Table::new(&distribution);
    let mut out = Vec::new();
    distribution.describe(&mut out);
    let mut bits = BitWriter::default();
    let mut states = [None; 2];
    for (place, weight) in weights.iter().enumerate().rev() {
        let Some(state) = states.get_mut(place % 2) else { continue };
        match state {
            None => *state = Some(table.start(*weight)),
            Some(state) => table.encode(state, *weight, &mut bits),
        }
        bits.flush();
    }
    for state in states.into_iter().rev() {
        table.finish(state?, &mut bits);
    }
    bits.finish(&mut out);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_code_begins_another_and_all_are_used_up() {
        let mut fibonacci = [0; 256];
        let (mut one, mut other) = (1_u32, 1_u32);
        for count in fibonacci.iter_mut().take(40) {
            *count = one;
            (one, other) = (other, one + other);
        }
        let mut two = [0; 256];
        (two[7], two[200]) = (1, 1_000_000);
        for counts in [[1; 256], fibonacci, two] {
            let codes = Codes::of(&counts).unwrap();
            assert!(codes.longest <= MAX_BITS);
            let used = codes.codes.iter().zip(counts);
            assert!(used.clone().all(|((length, _), count)| (*length > 0) == (count > 0)));
            let all: Vec<_> =
                used.map(|(code, _)| *code).filter(|(length, _)| *length > 0).collect();
            let sum: u32 = all.iter().map(|(length, _)| 1 << (MAX_BITS - u32::from(*length))).sum();
            assert_eq!(sum, 1 << MAX_BITS);
            let mut begins: Vec<_> =
                all.iter().map(|(length, code)| code << (MAX_BITS - u32::from(*length))).collect();
            begins.sort_unstable();
            begins.dedup();
            assert_eq!(begins.len(), all.len());
        }
        assert!(Codes::of(&[0; 256]).is_none());
    }

    #[test]
    fn frequent_bytes_have_short_codes() {
        let mut counts = [0; 256];
        (counts[1], counts[2], counts[3]) = (100, 10, 10);
        let codes = Codes::of(&counts).unwrap();
        assert_eq!(codes.bits(&counts), 100 + 20 + 20);
    }
}

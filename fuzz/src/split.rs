//! The bytes of one input as the files of an archive.
//!
//! | + | bytes | |
//! |---|---|---|
//! | 0 | 1 | bit 0: version 2, bit 1: the files have labels of their own |
//! | 1 | 3 x 2 | lengths of `.meta`, `.0` and `.1`; all other bytes are `.index` |
//! | 7 | .. | the files in sequence |
//!
//! Unless they have their own, good labels are put in front: they are long, and
//! most mutations of one only make the archive unreadable.

use std::fs;
use std::path::Path;

use crate::OTHER;

const HEAD: usize = 7;
const LABELLED: u8 = 2;

const ROLES: [(&str, i32); 4] = [("meta", -1), ("0", 0), ("1", 1), ("index", -2)];

pub(crate) struct Files(pub(crate) [(&'static str, Vec<u8>); 4]);

impl Files {
    /// Cuts an input; `None` if it is too short.
    pub(crate) fn new(input: &[u8]) -> Option<Self> {
        let (head, mut rest) = input.split_at_checked(HEAD)?;
        let is_v2 = head[0] & OTHER != 0;
        let word = |at| usize::from(u16::from_be_bytes([head[at], head[at + 1]]));
        let lengths = [word(1), word(3), word(5), usize::MAX];
        let mut file = |at: usize| {
            let (bytes, others) = rest.split_at(lengths[at].min(rest.len()));
            rest = others;
            let (extension, volume) = ROLES[at];
            // Without bytes of its own there is no second volume.
            let is_bare = head[0] & LABELLED == 0 && !(volume == 1 && bytes.is_empty());
            let label = if is_bare { label(is_v2, volume) } else { Vec::new() };
            (extension, [&label, bytes].concat())
        };
        Some(Self([file(0), file(1), file(2), file(3)]))
    }

    /// Writes the files that have bytes.
    pub(crate) fn write(&self, base: &Path) {
        for (extension, bytes) in &self.0 {
            if !bytes.is_empty() {
                fs::write(base.with_extension(extension), bytes).expect("room for files");
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(|(_, bytes)| bytes.len()).sum()
    }
}

/// The input that stands for these files, which have labels of their own;
/// `None` if they are too long.
pub(crate) fn join(is_v2: bool, files: [&[u8]; 4]) -> Option<Vec<u8>> {
    let mut input = vec![LABELLED | if is_v2 { OTHER } else { 0 }];
    for file in &files[..3] {
        input.extend(u16::try_from(file.len()).ok()?.to_be_bytes());
    }
    input.extend(files.concat());
    Some(input)
}

pub(crate) const fn label_len(is_v2: bool) -> usize {
    if is_v2 { 132 } else { 808 }
}

fn label(is_v2: bool, volume: i32) -> Vec<u8> {
    let len = label_len(is_v2);
    let mut label = vec![0; len];
    let mut put = |at: usize, bytes: &[u8]| label[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &(len as u32).to_be_bytes());
    put(4, &(0x5005_2600 | if is_v2 { 2u32 } else { 3 }).to_be_bytes());
    put(8, &1u32.to_be_bytes());
    put(if is_v2 { 20 } else { 24 }, &volume.to_be_bytes());
    put(if is_v2 { 24 } else { 36 }, b"host");
    put(if is_v2 { 88 } else { 292 }, b"UTC");
    put(len - 4, &(len as u32).to_be_bytes());
    label
}

#[cfg(test)]
mod tests {
    use pcp_archive::{Archive, Error};

    use super::*;

    #[test]
    fn files_are_joined_and_cut_again() {
        let files: [&[u8]; 4] = [b"meta", b"zero", b"", b"index"];
        let Files(cut) = Files::new(&join(true, files).unwrap()).unwrap();
        assert_eq!(cut.each_ref().map(|(_, bytes)| bytes.as_slice()), files);
    }

    #[test]
    fn our_labels_are_good_ones() {
        for is_v2 in [false, true] {
            let directory = tempfile::tempdir().unwrap();
            let base = directory.path().join("a");
            Files::new(&[u8::from(is_v2), 0, 0, 0, 0, 0, 0]).unwrap().write(&base);
            let archive = Archive::open(&base);
            assert!(matches!(archive, Err(Error::NoData { .. })), "{archive:?}");
        }
    }
}

//! The bytes of the files in a directory.

use std::fs;
use std::path::Path;

pub(crate) fn directory_bytes(directory: &Path) -> u64 {
    let mut bytes = 0;
    for entry in fs::read_dir(directory).expect("a directory") {
        let entry = entry.expect("an entry");
        // An engine may have removed it meanwhile.
        let Ok(metadata) = entry.metadata() else { continue };
        bytes += if metadata.is_dir() { directory_bytes(&entry.path()) } else { metadata.len() };
    }
    bytes
}

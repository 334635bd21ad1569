//! The files of an archive: which there are, and the bytes of one.
//!
//! In: a name that a user gives. Out: [`MemberFiles`], the paths of an archive, and
//! [`RecordFile`], one of them, read record by record through a [`FileWindow`].
//! [`Scanner`] walks over damage in a file, and [`RawFile`] shows its bytes
//! whatever they mean. `visibility` has the steps by which an archive appears and
//! disappears. Compressed files are decompressed on the way, within bounded
//! memory. Nothing here interprets records.

#[cfg(feature = "compression")]
mod blocks;
#[cfg(feature = "compression")]
mod decompressed;
mod half_made;
mod held;
mod members;
pub mod parallel;
mod raw_file;
mod record_file;
mod reduced_names;
mod scanner;
pub mod staging;
mod visibility;

#[cfg(feature = "compression")]
pub(crate) use blocks::{BlockCache, CRC32, XzIndex, block_header, seek_table};
pub use half_made::{half_made, has_data, has_metadata};
pub(crate) use held::HeldFile;
pub(crate) use members::{AddExtension, MemberFiles, Members, archives, sync_directory};
pub use members::{Compression, directory_of, host_directories, member_files};
pub use raw_file::{RawFile, RawPiece};
pub(crate) use record_file::{
    FileWindow, LabelDifference, NextRecord, RecordFile, check_labels, label_difference,
};
pub use reduced_names::{original_base, reduced_base, reduced_interval, successor};
pub(crate) use scanner::{Damage, ScannedRecord, Scanner, next_intact};
pub(crate) use visibility::{create_new, move_archive, show, unfinished_metadata};
pub use visibility::{existing_file, remove_archive, unfinished_archives};

/// Bytes of a compressed file that may follow the last record without one of them being the start
/// of a record: more than a crash leaves as a hole in a volume.
const MAX_DAMAGE: u64 = 32 << 20;

/// Attempts to list files again that vanish while they are listed or opened: each time another
/// program has compressed, replaced or removed one.
pub(crate) const LISTINGS: usize = 5;

/// Counts the zeros that `bytes` begin with.
fn count_leading_zeros(bytes: &[u8]) -> usize {
    const ZEROS: [u8; 1024] = [0; 1024];
    let chunks = bytes.chunks_exact(ZEROS.len()).take_while(|chunk| **chunk == ZEROS).count();
    let whole = chunks * ZEROS.len();
    let rest = bytes.get(whole..).unwrap_or_default();
    whole + rest.iter().take_while(|byte| **byte == 0).count()
}

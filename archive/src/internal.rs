//! Items for the commands and the agent of this project: no promise of stability.
//!
//! `mmv-archive`, `mmv-export` and `mmv-agent` are packages of their own and share the work of
//! these functions with the library. They change without notice in every release.

use std::collections::BTreeMap;

use crate::{ArchiveWriter, InDom, Instance};

pub use crate::exit_status::ExitStatus;
pub use crate::files::{
    RawFile, RawPiece, directory_of, existing_file, half_made, has_data, has_metadata,
    host_directories, member_files, original_base, parallel, reduced_base, reduced_interval,
    remove_archive, staging, successor, unfinished_archives,
};
pub use crate::reader::{ArchiveOutline, OutlineEnd, longest_gap};
pub use crate::scan::programs;
#[cfg(feature = "compression")]
pub use crate::writer::reduce::replace::{ReplaceOutcome, replace_by_reduced};

/// Charges the metadata that is declared from now on to an account, a number that the caller
/// chooses; initially account 0.
pub fn charge_to(writer: &mut ArchiveWriter, account: u32) {
    writer.charge_to(account);
}

/// Returns the bytes of metadata that were written since the last call, by account, and those of
/// index entries that came with them; nothing that was declared again.
pub fn take_charges(writer: &mut ArchiveWriter) -> BTreeMap<u32, u64> {
    writer.take_charges()
}

/// Returns the instances of a domain as declared last, in order of their numbers.
pub fn declared_instances(writer: &ArchiveWriter, indom: InDom) -> &[Instance] {
    writer.declared_instances(indom)
}

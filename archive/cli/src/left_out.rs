//! Warnings about values that readers of the archives left out.

use pcp_archive::raw::TypeConflict;
use pcp_archive::{Archive, ArchiveSet};

use crate::Failure;
use crate::text::{shown_path, warn};

/// Warns of the metrics of which values were left out. Called when all else is printed.
///
/// # Errors
///
/// [`Failure::Lost`] if there are such metrics, or metadata was passed by.
pub(crate) fn check_whole(archives: &[Archive]) -> Result<(), Failure> {
    let mut is_whole = archives.iter().all(|archive| archive.bad_metadata().is_empty());
    for TypeConflict { file, offset, error } in archives.iter().flat_map(Archive::type_conflicts) {
        is_whole = false;
        let file = shown_path(&file);
        warn(&format_args!("{file}: offset {offset}: {error}; such values are left out"));
    }
    if is_whole { Ok(()) } else { Err(Failure::Lost) }
}

/// Checks the archives of a timeline as [`check_whole`].
///
/// # Errors
///
/// Those of [`check_whole`]; [`Failure::Lost`] if an archive of a directory was left out because
/// it is damaged.
pub(crate) fn check_whole_set(archives: &ArchiveSet) -> Result<(), Failure> {
    check_whole(archives.archives())?;
    if archives.unreadable().is_empty() { Ok(()) } else { Err(Failure::Lost) }
}

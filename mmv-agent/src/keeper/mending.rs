//! Archives that an agent which was killed has left open.
//!
//! What was written is whole but for the last record of each file, and the
//! index lacks its last entry. Archives that were closed are known by that entry
//! and not looked at further.

use std::path::Path;

use mmv_archive::check::{Finding, Severity, check};
use mmv_archive::repair::{reindex, repair_in_place};
use mmv_archive::{Archive, Error};

use super::folder::{Found, Kind, is_being_repaired};

/// What became of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mended {
    /// It was closed by those who wrote it.
    Closed,
    /// Its index was made anew.
    Reindexed,
    /// What was not whole is cut off.
    Repaired,
    /// It has no record at all.
    Empty,
}

/// Makes an archive whole if it is not.
///
/// # Errors
///
/// Those of [`repair_in_place`].
pub(super) fn mend(found: &Found) -> Result<Mended, Error> {
    let base = &found.base;
    if found.ends_compressed() {
        return Ok(Mended::Closed);
    }
    if !is_being_repaired(base)
        && let Ok(archive) = Archive::open(base)
        && archive.torn_tail().is_none()
        && archive.index().defect().is_none()
    {
        if is_closed(&archive, found) {
            return Ok(Mended::Closed);
        }
        let last = archive.index().entries().last();
        let complete = last.is_some_and(|entry| entry.stamp == archive.end());
        match trouble(base)? {
            Trouble::None if complete => return Ok(Mended::Closed),
            Trouble::None | Trouble::Index => return reindex(base).map(|_| Mended::Reindexed),
            Trouble::Records => {}
        }
    }
    match repair_in_place(base) {
        Ok(_) => Ok(Mended::Repaired),
        Err(Error::NoData { .. }) => Ok(Mended::Empty),
        Err(error) => Err(error),
    }
}

/// Whether the last index entry is one that is written at the end: of the last
/// record, and behind all metadata.
fn is_closed(archive: &Archive, found: &Found) -> bool {
    let metadata = found.members.iter().find(|member| member.kind == Kind::Metadata);
    let last = archive.index().entries().last();
    last.zip(metadata).is_some_and(|(entry, metadata)| {
        entry.stamp == archive.end() && entry.metadata_offset == metadata.bytes
    })
}

/// Where something is wrong.
enum Trouble {
    None,
    Index,
    Records,
}

fn trouble(base: &Path) -> Result<Trouble, Error> {
    let report = check(base)?;
    let mut trouble = Trouble::None;
    for Finding { defect, .. } in report.findings() {
        let rule = defect.rule();
        match defect.severity() {
            _ if rule.starts_with("index-") => trouble = Trouble::Index,
            Severity::Error => return Ok(Trouble::Records),
            // PCP's readers take these for part of what was logged.
            _ if ["torn-tail", "metadata-after-end"].contains(&rule) => {
                return Ok(Trouble::Records);
            }
            _ => {}
        }
    }
    Ok(trouble)
}

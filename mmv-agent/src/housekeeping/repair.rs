//! Repairs archives that a killed agent left open.
//!
//! At most the last record of each file is incomplete, and the index lacks its last entry. An
//! archive with that entry was closed and is not examined further. Of a compressed archive only
//! the index is examined, since retention relies on it.

use std::path::Path;

use pcp_archive::check::{Finding, Severity, check};
use pcp_archive::internal::has_data;
use pcp_archive::raw::TemporalIndex;
use pcp_archive::repair::{reindex, repair_in_place};
use pcp_archive::{Archive, Error};

use super::archive_directory::{ArchiveFileKind, ArchiveFiles};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Nothing to do: its writer closed it.
    WasClosed,
    /// Its index was rebuilt.
    Reindexed,
    /// It was closed; its damaged index was rebuilt.
    IndexReplaced,
    /// Incomplete records were cut off.
    Repaired,
    /// It has no records.
    Empty,
    /// It has records, and another program removed its metadata.
    Bare,
}

/// Repairs an archive if necessary.
///
/// # Errors
///
/// Those of [`repair_in_place`].
pub(super) fn repair(found: &ArchiveFiles) -> Result<Outcome, Error> {
    let base = &found.base;
    if !has_data(base)? {
        return Ok(Outcome::Empty);
    }
    if !found.has_metadata() {
        return Ok(Outcome::Bare);
    }
    if found.ends_compressed() {
        if has_sound_index(found) {
            return Ok(Outcome::WasClosed);
        }
        return reindex(base, &mut |_, _| {}).map(|_| Outcome::IndexReplaced);
    }
    if let Ok(archive) = Archive::open(base)
        && archive.torn_tail().is_none()
        && archive.index().defects().is_empty()
    {
        if is_closed(&archive, found) {
            return Ok(Outcome::WasClosed);
        }
        let last = archive.index().entries().last();
        let complete = last.is_some_and(|entry| entry.timestamp == archive.end());
        match damage(base)? {
            Damage::None if complete => return Ok(Outcome::WasClosed),
            Damage::None | Damage::Index => {
                return reindex(base, &mut |_, _| {}).map(|_| Outcome::Reindexed);
            }
            Damage::Records => {}
        }
    }
    match repair_in_place(base) {
        Ok(_) => Ok(Outcome::Repaired),
        Err(Error::NoData { .. }) => Ok(Outcome::Empty),
        Err(error) => Err(error),
    }
}

/// Returns true if all entries of the index can be used. A missing index is not a damaged one.
fn has_sound_index(found: &ArchiveFiles) -> bool {
    let index = found.members.iter().find(|member| member.kind == ArchiveFileKind::Index);
    index.is_none_or(|member| {
        TemporalIndex::open(&member.path)
            .is_ok_and(|(_, index)| index.defects().is_empty() && !index.entries().is_empty())
    })
}

/// Returns true if the last index entry is one that is written at the end: it refers to the last
/// record, and follows all metadata.
fn is_closed(archive: &Archive, found: &ArchiveFiles) -> bool {
    let metadata = found.members.iter().find(|member| member.kind == ArchiveFileKind::Metadata);
    let last = archive.index().entries().last();
    last.zip(metadata).is_some_and(|(entry, metadata)| {
        entry.timestamp == archive.end() && entry.metadata_offset == metadata.bytes
    })
}

enum Damage {
    None,
    Index,
    Records,
}

fn damage(base: &Path) -> Result<Damage, Error> {
    let report = check(base)?;
    let mut damage = Damage::None;
    for Finding { defect, .. } in report.findings() {
        let rule = defect.rule();
        match defect.severity() {
            _ if rule.starts_with("index-") => damage = Damage::Index,
            Severity::Error => return Ok(Damage::Records),
            // PCP's readers take these bytes for logged data.
            _ if ["torn-tail", "metadata-after-end"].contains(&rule) => {
                return Ok(Damage::Records);
            }
            _ => {}
        }
    }
    Ok(damage)
}

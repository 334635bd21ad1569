//! The time span of a closed archive.
//!
//! Input: the files of an archive. Output: its time span, for retention. Compressed volumes would
//! have to be expanded to find their ends, so the index is used. Invariant: a damaged index never
//! makes data look older than the last write to a volume.

use std::path::Path;
use std::time::SystemTime;

use pcp_archive::raw::TemporalIndex;
use pcp_types::{Timestamp, printable};

use super::archive_directory::{ArchiveFileKind, ArchiveFiles};

/// The time span of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    pub start: Timestamp,
    pub end: Timestamp,
    /// Reason why its index is not trusted.
    pub doubt: Option<String>,
}

/// Determines the time span of a closed archive from its index, or from the times of its files if
/// the index is missing or damaged.
pub(super) fn from_files(found: &ArchiveFiles) -> Span {
    let written = timestamp(found.modified());
    let Some(index) = found.members.iter().find(|member| member.kind == ArchiveFileKind::Index)
    else {
        return Span { start: written, end: written, doubt: None };
    };
    let (label, entries) = match TemporalIndex::open(&index.path) {
        Ok(known) => known,
        Err(error) => {
            return Span { start: written, end: written, doubt: Some(doubt(&index.path, error)) };
        }
    };
    let last = entries.entries().last().map(|entry| entry.timestamp);
    if let (Some(end), []) = (last, entries.defects()) {
        return Span { start: label.start, end, doubt: None };
    }
    let volumes =
        found.members.iter().filter(|member| matches!(member.kind, ArchiveFileKind::Volume(_)));
    let written = volumes.map(|member| timestamp(member.modified)).max().unwrap_or(written);
    let reason = entries.defects().first().map_or_else(
        || "it has no entries".to_owned(),
        |defect| format!("entry {}: {}", defect.number, defect.error),
    );
    let end = last.map_or(written, |last| last.max(written));
    Span { start: label.start.min(end), end, doubt: Some(doubt(&index.path, reason)) }
}

fn doubt(index: &Path, reason: impl std::fmt::Display) -> String {
    format!(
        "{}: the index is damaged, the archive's age counts from the last write to it: {reason}",
        printable::path(index)
    )
}

fn timestamp(time: SystemTime) -> Timestamp {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    Timestamp::EPOCH.saturating_add(since.unwrap_or_default())
}

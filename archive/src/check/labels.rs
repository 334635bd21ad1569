//! The labels of all files, and whether they belong together.

use std::path::Path;

use super::{Defect, Report};
use crate::files::{LabelDifference, MemberFiles, RecordFile, label_difference};
use crate::format::Role;
use crate::{ArchiveLabel, Error, RecordError, Result};

/// Checks all labels; returns the one that holds for the archive, the first
/// that can be read of metadata, volumes and index.
pub(super) fn check(files: &MemberFiles, report: &mut Report) -> Result<Option<ArchiveLabel>> {
    let mut first: Option<ArchiveLabel> = None;
    // A further volume whose label was never written to its end.
    let last = files.volumes.keys().next_back().filter(|_| files.volumes.len() > 1);
    let newest = last.map(|number| Role::Data(*number));
    for (path, role) in files.all() {
        let Some(label) = check_one(path, role, newest, report)? else { continue };
        match &first {
            None => first = Some(label),
            Some(first) => {
                if let Some(LabelDifference { field, .. }) = label_difference(&label, first) {
                    report.add(path, 0, Defect::LabelDiffers { field });
                }
            }
        }
    }
    Ok(first)
}

fn check_one(
    path: &Path,
    role: Role,
    newest: Option<Role>,
    report: &mut Report,
) -> Result<Option<ArchiveLabel>> {
    let (label, found) = match RecordFile::open(path)?.read_any_label() {
        Ok(read) => read,
        Err(error @ Error::Io { .. }) => return Err(error),
        Err(Error::Corrupt { source, .. }) => {
            let is_torn = matches!(source, RecordError::Truncated { .. }) && newest == Some(role);
            let defect =
                if is_torn { Defect::TornTail { source } } else { Defect::Label { source } };
            report.add(path, 0, defect);
            return Ok(None);
        }
        Err(error) => {
            report.add(path, 0, Defect::compression(&error));
            return Ok(None);
        }
    };
    let expected = role.volume();
    if found != expected {
        report.add(path, 0, Defect::LabelVolume { found, expected });
    }
    Ok(Some(label))
}

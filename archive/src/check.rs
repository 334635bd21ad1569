//! Checks an archive and reports every defect.
//!
//! In: the name of an archive, which need not open. Out: a [`Report`] of findings
//! with file, offset and rule. Only files that cannot be read are errors.
//!
//! One pass over each file, from front to back, in the order metadata, index,
//! data volumes. All rules of pmlogcheck 7.2.1 are applied, and those that it
//! lacks: whether index entries are true, instances are in their
//! domain, differences fit what they change, and labels are JSON. After a
//! damaged record the check continues with the next good one, so that one damaged
//! place does not hide the others.
//!
//! | pass | in |
//! |---|---|
//! | labels of all files | `labels` |
//! | metadata | `metadata`, `domains` |
//! | index, on its own | `index` |
//! | data, and index entries against it | `data` |
//!
//! A file that was written to the middle of its last record is not an error in the
//! last data volume: its writer died, or still writes.

mod data;
mod domains;
mod finding;
mod index;
mod labels;
mod metadata;
mod pattern;

use std::path::{Path, PathBuf};

use hashbrown::HashMap;

pub use finding::{Defect, Finding, Severity};
pub(crate) use metadata::label_defect;

use crate::files::{AddExtension as _, Damage, MemberFiles, RecordFile};
use crate::format::Role;
use crate::progress::Progress;
use crate::{ArchiveLabel, Error, RecordError, Result};

/// Limit on findings of a rule that are kept for each file; more are only counted.
const MAX_FINDINGS: u64 = 100;

/// The findings of a check.
#[derive(Debug, Default)]
pub struct Report {
    findings: Vec<Finding>,
    /// For each file and rule, the number of findings.
    counts: HashMap<(usize, &'static str), u64>,
    files: Vec<PathBuf>,
    suppressed: u64,
    /// Number of suppressed notes that are usual.
    suppressed_notes: u64,
    records: u64,
    marks: u64,
    values: u64,
}

impl Report {
    /// Returns the findings, by pass and then by place; of one rule in one file not more than
    /// 100.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Returns the number of findings beyond those.
    pub const fn suppressed(&self) -> u64 {
        self.suppressed
    }

    /// Returns the number of suppressed notes that sound archives often have
    /// ([`Defect::is_usual`]).
    pub const fn suppressed_notes(&self) -> u64 {
        self.suppressed_notes
    }

    /// Returns the worst severity; `None` without findings.
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.defect.severity()).max()
    }

    /// Returns the number of good data records, marks included.
    pub const fn records(&self) -> u64 {
        self.records
    }

    /// Returns the number of records that are marks.
    pub const fn marks(&self) -> u64 {
        self.marks
    }

    /// Returns the number of values in all records.
    pub const fn values(&self) -> u64 {
        self.values
    }

    fn total(&self) -> u64 {
        self.findings.len() as u64 + self.suppressed
    }

    fn add(&mut self, file: &Path, offset: u64, defect: Defect) {
        let at = self.files.iter().rposition(|known| known == file).unwrap_or_else(|| {
            self.files.push(file.to_owned());
            self.files.len() - 1
        });
        let count = self.counts.entry((at, defect.rule())).or_default();
        *count += 1;
        if *count > MAX_FINDINGS {
            self.suppressed += 1;
            self.suppressed_notes += u64::from(defect.is_usual());
        } else {
            self.findings.push(Finding { file: file.to_owned(), offset, defect });
        }
    }

    /// Adds bytes that are not a record. `torn` makes the defect if the file ends
    /// within its last record.
    fn add_damage(&mut self, file: &Path, damage: Damage, torn: impl Fn(RecordError) -> Defect) {
        let defect = match damage.error {
            Error::Corrupt { source: source @ RecordError::Truncated { .. }, .. }
                if damage.is_tail =>
            {
                torn(source)
            }
            Error::Corrupt { source, .. } => Defect::Frame { source, lost: damage.len },
            error => Defect::compression(&error),
        };
        self.add(file, damage.offset, defect);
    }
}

struct Checker {
    files: MemberFiles,
    /// The label that the others are compared with.
    label: ArchiveLabel,
    report: Report,
}

/// Checks an archive, named as for [`Archive::open`](crate::Archive::open),
/// whether or not it can be opened.
///
/// # Errors
///
/// [`Error::NotFound`] and [`Error::Ambiguous`] if the name does not mean one
/// archive, [`Error::Io`] if a file cannot be read. Everything else is a
/// finding.
pub fn check(path: impl AsRef<Path>) -> Result<Report> {
    check_watched(path, &mut |_, _| {})
}

/// Checks an archive with progress: `watch` is called about once a megabyte with bytes of the
/// data volumes done, and bytes in all.
///
/// # Errors
///
/// As [`check`].
pub fn check_watched(path: impl AsRef<Path>, watch: &mut dyn FnMut(u64, u64)) -> Result<Report> {
    let files = MemberFiles::find(path.as_ref())?;
    let mut report = Report::default();
    report_missing(&files, &mut report);
    let Some(label) = labels::check(&files, &mut report)? else { return Ok(report) };
    let mut checker = Checker { files, label, report };
    let metadata = checker.check_metadata()?;
    let index = checker.check_index()?;
    let progress = Progress::new(&checker.files, 1, watch);
    let end = checker.check_data(&metadata.metadata, &index, progress)?;
    checker.check_metadata_end(&metadata.timestamps, end);
    Ok(checker.report)
}

fn report_missing(files: &MemberFiles, report: &mut Report) {
    for (is_there, extension) in
        [(files.metadata.is_some(), "meta"), (!files.volumes.is_empty(), "0")]
    {
        if !is_there {
            report.add(&files.base.with_extension_added(extension), 0, Defect::MissingFile);
        }
    }
    if files.index.is_none() {
        report.add(&files.base.with_extension_added("index"), 0, Defect::MissingIndex);
    }
}

impl Checker {
    /// Opens a file for the passes after the labels; `None` if it is of another version, or ends
    /// within its label.
    fn open(&self, path: &Path, role: Role) -> Result<Option<RecordFile>> {
        let mut file = RecordFile::open(path)?;
        match file.read_label(role) {
            Err(error @ Error::Io { .. }) => Err(error),
            Ok(label) if label.version != self.label.version => Ok(None),
            _ => {
                let size = self.label.version.label_size();
                Ok((file.available(0, 0, size)? == size).then_some(file))
            }
        }
    }
}

#[cfg(test)]
mod tests;

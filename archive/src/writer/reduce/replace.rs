//! Replaces a closed archive by one value an interval of it.
//!
//! Readers find archives by their metadata, and one rename makes one file appear as another one
//! disappears. So both archives have the same metadata: that of the old one, followed by what only
//! the new one needs ([`visibility`](crate::files)). Records of metadata have times, of which the
//! reduced archive has the same ones, so nothing is kept that it would leave out.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Reduce;
use crate::compress::{Effort, compress_member};
use crate::files::staging::Staging;
use crate::files::{FileWindow, MemberFiles, NextRecord, RecordFile, reduced_base};
use crate::format::{MetadataRecord, Role, index, metadata_record};
use crate::scan::Selection;
use crate::writer::append_file::AppendFile;
use crate::writer::file_set;
use crate::{
    Archive, ArchiveWriter, Compression, Error, IndexEntry, Metadata, Result, TemporalIndex,
    WriterOptions, io_error,
};

/// Bytes that wait to be written together.
const BUFFER: usize = 256 << 10;

/// The outcome of replacing an archive by a reduced one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplaceOutcome {
    /// Readers find this archive in its place. The old one's files are still there, without
    /// metadata.
    Replaced(PathBuf),
    /// `go_on` returned `false` before that, and nothing has changed.
    Cancelled,
}

/// Replaces a closed archive by one value an interval of it, under the name of
/// [`reduced_base`]. Data volumes are compressed if that is wanted.
///
/// `go_on` is called every few megabytes; if it returns `false`, nothing changes.
///
/// # Errors
///
/// [`Error::Damaged`] for an archive whose last record is not complete; [`Error::NoData`] for one
/// without a value, of which nothing would be left; [`Error::Exists`] for a name that is taken; those of [`Archive::open`],
/// [`Reduce::write`] and [`compress_member`]. The old archive stays.
pub fn replace_by_reduced(
    base: &Path,
    interval: Duration,
    compression: Option<Compression>,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<ReplaceOutcome> {
    let old = Archive::open(base)?;
    check_whole(&old)?;
    let new_base = reduced_base(base, interval);
    let staging = Staging::new(&new_base)?;
    let hidden = staging.hidden();
    let options =
        WriterOptions { version: old.version(), buffer_bytes: BUFFER, ..WriterOptions::default() };
    let mut writer = ArchiveWriter::create_with(hidden, old.label().into(), options)?;
    let mut selection = Selection::new(&old);
    selection.select("");
    let reduced = Reduce::new(selection, interval).write_while(&mut writer, |_| go_on())?;
    writer.sync()?;
    let summary = writer.finish()?;
    if reduced.is_none() {
        return Ok(ReplaceOutcome::Cancelled);
    }
    if summary.records == 0 {
        return Err(Error::NoData { path: base.to_owned() });
    }
    let old_metadata = metadata_of(base)?;
    share_metadata(&old, &old_metadata, hidden)?;
    let mut members = Vec::new();
    if let Some(method) = compression {
        let volumes = MemberFiles::list(hidden)?.volumes.into_values();
        members.extend(volumes.map(|volume| (volume, method)));
    }
    // It takes the place of the old file, whose name says how it is compressed.
    if let Some(method) = Compression::from_path(&old_metadata) {
        members.push((metadata_of(hidden)?, method));
    }
    for (member, method) in members {
        if compress_member(member, method, Effort::Least, go_on)?.is_none() {
            return Ok(ReplaceOutcome::Cancelled);
        }
    }
    // The files belong together, and readers accept them.
    Archive::open(hidden)?;
    staging.succeed(base)?;
    Ok(ReplaceOutcome::Replaced(new_base))
}

/// Checks that the metadata of an archive can be continued.
fn check_whole(archive: &Archive) -> Result<()> {
    if let Some(tail) = archive.torn_tail() {
        let reason = "it ends within a record".to_owned();
        return Err(Error::Damaged { file: tail.file.clone(), offset: tail.offset, reason });
    }
    Ok(())
}

fn metadata_of(base: &Path) -> Result<PathBuf> {
    let metadata = MemberFiles::list(base)?.metadata;
    metadata.ok_or_else(|| Error::NotFound { path: base.to_owned() })
}

/// Replaces the metadata of the archive called `new` by that of the old archive, followed by what
/// the old one lacks, and its index by one that refers to it.
fn share_metadata(old: &Archive, old_metadata: &Path, new: &Path) -> Result<()> {
    let shared = new.with_file_name("shared");
    let label = old.label();
    let files = MemberFiles::list(new)?;
    let (Some(own_metadata), Some(own_index)) = (files.metadata, files.index) else {
        return Err(Error::NotFound { path: new.to_owned() });
    };

    let mut metadata = file_set::create(&shared, label, Role::Metadata)?.buffered(BUFFER);
    append_records(old_metadata, old, &mut metadata, |_| true)?;
    let known = old.metadata();
    append_records(&own_metadata, old, &mut metadata, |record| !is_known(record, known))?;
    metadata.sync()?;

    let mut index_file = file_set::create(&shared, label, Role::Index)?.buffered(BUFFER);
    let (_, entries) = TemporalIndex::open(&own_index)?;
    for entry in entries.entries() {
        // All metadata precedes the first record.
        let entry = IndexEntry { metadata_offset: metadata.len(), ..*entry };
        let mut bytes = Vec::new();
        index::encode(label.version, &entry, &mut bytes)?;
        index_file.append(&bytes)?;
    }
    index_file.sync()?;

    for (from, to) in [(metadata.path(), &own_metadata), (index_file.path(), &own_index)] {
        fs::rename(from, to).map_err(io_error("rename", from))?;
    }
    Ok(())
}

/// Appends the records of a metadata file that are wanted.
fn append_records(
    file: &Path,
    archive: &Archive,
    out: &mut AppendFile,
    is_wanted: impl Fn(&MetadataRecord<'_>) -> bool,
) -> Result<()> {
    let version = archive.version();
    let mut file = RecordFile::open(file)?;
    let mut window = FileWindow::default();
    let mut offset = version.label_size();
    while let NextRecord::Record(len) = window.forward(&mut file, offset)? {
        let bytes = window.get(offset, len).unwrap_or_default();
        let record = metadata_record::parse(version, bytes);
        let record = record.map_err(|source| file.corrupt(offset, source))?;
        if is_wanted(&record) {
            out.append(bytes)?;
        }
        offset += len as u64;
    }
    Ok(())
}

/// Returns true if the metadata has what a record describes, perhaps of another time.
fn is_known(record: &MetadataRecord<'_>, metadata: &Metadata) -> bool {
    match record {
        MetadataRecord::Desc(record) => metadata.metric(record.desc.pmid).is_some(),
        MetadataRecord::Indom(record) => metadata.indom_history(record.indom).is_some(),
        MetadataRecord::Label(record) => metadata.label_history(record.target).is_some(),
        MetadataRecord::Text(record) => metadata.text(record.target, record.kind).is_some(),
    }
}

#[cfg(test)]
mod tests;

//! Writing an archive.
//!
//! In: declared metadata, and records in the order of time. Out: the files of an
//! archive that is valid after every call.
//!
//! Metadata is declared whenever it becomes known, and goes to disk right
//! before the next record, with that record's time; what did not change is
//! not written again. Each record is one write call. If a write fails, the
//! files are cut back to the last whole record, and writing can be tried
//! again later: the metadata is still waiting.

mod append_file;
#[cfg(feature = "compression")]
pub mod compress;
mod copied_set;
mod copy;
mod declared;
pub mod extract;
mod file_set;
mod index_policy;
mod indom_change;
mod metric_key;
mod options;
pub mod prepared;
pub mod reduce;
pub mod repair;
pub mod rewrite;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use self::prepared::{RecordBuffer, SetShape};
use crate::files::existing_file;
use crate::format::{EventArray, ResultBuilder, Role, archive_label, encode_mark, timestamp};
use crate::{
    ArchiveLabel, ByteText, EncodeError, Error, FetchResult, InDom, Instance, LabelSet,
    LabelTarget, Metric, MetricDesc, Pmid, Result, TextKind, TextTarget, Timestamp, Value,
    ValueSet, Version, io_error,
};
pub(crate) use copied_set::CopiedSet;
use declared::DeclaredMetadata;
pub(crate) use declared::NameRules;
use file_set::{FileSet, NewRecord};
use index_policy::IndexPolicy;
use metric_key::KeyedMetrics;
pub use metric_key::{MetricBuilder, MetricKey, MetricValue, RecordValues};
pub use options::{WriterLabel, WriterOptions};

/// The size and the span of a finished archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The archive's base name.
    pub base: PathBuf,
    /// Records, marks included. Without any there are no files.
    pub records: u64,
    /// Time of the first and the last record.
    pub span: Option<(Timestamp, Timestamp)>,
    /// Number of data volumes.
    pub volumes: u32,
    /// Bytes of all files.
    pub bytes: u64,
}

/// Metadata that was given times of its own and waits for the next record.
#[derive(Debug, Default)]
struct DatedMetadata {
    /// Number of its bytes in the writer's metadata buffer.
    len: usize,
    /// It describes new metrics or instances.
    changed: bool,
    /// The first time that was given before any record: the archive's start.
    start: Option<Timestamp>,
    last: Option<Timestamp>,
}

/// Writes one archive.
///
/// Metrics are added by name, also between records, and a record has those that it
/// [sets](Self::record). Programs that copy archives, or choose the numbers of PCP themselves,
/// declare metadata and write [records](crate::raw) as they are in the files.
///
/// The files are created with the first record; the metadata, by which readers find an
/// archive, gets its name when the record is written. Without [`finish`](Self::finish) the
/// archive lacks its last index entry, and what is in a
/// [buffer](WriterOptions::buffer_bytes), and is otherwise whole.
#[derive(Debug)]
pub struct ArchiveWriter {
    base: PathBuf,
    label: WriterLabel,
    options: WriterOptions,
    declared: DeclaredMetadata,
    keyed: KeyedMetrics,
    /// None before the first record.
    files: Option<FileSet>,
    switch_due: bool,
    first: Option<Timestamp>,
    last: Option<Timestamp>,
    ends_in_mark: bool,
    records: u64,
    builder: ResultBuilder,
    /// Memory for the record and the metadata of one write.
    record: Vec<u8>,
    metadata: Vec<u8>,
    dated: DatedMetadata,
    /// The template whose metrics were last found declared.
    checked_template: Option<u64>,
    /// Bytes of metadata by account.
    charges: BTreeMap<u32, u64>,
}

impl ArchiveWriter {
    /// Creates an archive of this host in version 3, and the directory that it lies in.
    ///
    /// The base name is a path without any of the endings `.0`, `.meta`, `.index`.
    ///
    /// # Errors
    ///
    /// As [`create_with`](Self::create_with).
    pub fn create(base: impl AsRef<Path>) -> Result<Self> {
        let base = base.as_ref();
        if let Some(directory) = base.parent() {
            fs::create_dir_all(directory).map_err(io_error("create", directory))?;
        }
        let options = WriterOptions::default();
        let label = WriterLabel::local().fitted(options.version);
        Self::create_with(base, label, options)
    }

    /// Creates an archive of any host, with options.
    ///
    /// # Errors
    ///
    /// [`Error::Exists`] if any file of such an archive is there,
    /// [`Error::Encode`] if the label cannot be stored, [`Error::Io`].
    pub fn create_with(
        base: impl AsRef<Path>,
        label: WriterLabel,
        options: WriterOptions,
    ) -> Result<Self> {
        let base = base.as_ref();
        if let Some(file) = existing_file(base)? {
            return Err(Error::Exists { file });
        }
        let mut bytes = Vec::new();
        let version = options.version;
        archive_label::encode(
            &label.archive_label(version, Timestamp::EPOCH),
            Role::Metadata,
            &mut bytes,
        )?;
        Ok(Self {
            base: base.to_owned(),
            label,
            options,
            declared: DeclaredMetadata::new(version),
            keyed: KeyedMetrics::default(),
            files: None,
            switch_due: false,
            first: None,
            last: None,
            ends_in_mark: false,
            records: 0,
            builder: ResultBuilder::default(),
            record: Vec::new(),
            metadata: Vec::new(),
            dated: DatedMetadata::default(),
            checked_template: None,
            charges: BTreeMap::new(),
        })
    }

    /// Charges the metadata that is declared from now on to an account, a number that the
    /// caller chooses; initially account 0.
    pub(crate) fn charge_to(&mut self, account: u32) {
        self.declared.charge_to(account);
    }

    /// Returns the bytes of metadata that were written since the last call, by account, and those
    /// of index entries that came with them; nothing that was declared again.
    pub(crate) fn take_charges(&mut self) -> BTreeMap<u32, u64> {
        std::mem::take(&mut self.charges)
    }

    /// Returns the instances of a domain as declared last, in order of their numbers.
    pub(crate) fn declared_instances(&self, indom: InDom) -> &[Instance] {
        self.declared.instances(indom)
    }

    /// Makes a metric and its names known. Nothing happens if they are.
    ///
    /// # Errors
    ///
    /// [`Error::MetricChanged`] if the metric is known with another
    /// descriptor, which needs a new archive; [`Error::NameTaken`] and
    /// [`Error::LeafAndBranch`] for names that do not fit those of other
    /// metrics; [`Error::Encode`] for a metric that has no name, or one that
    /// no name space can have. Then none of the names is known.
    pub fn declare_metric(&mut self, desc: &MetricDesc, names: &[&str]) -> Result<()> {
        self.declared.declare_metric(desc, names)
    }

    /// Makes a metric of another archive known. Its names may be any bytes:
    /// what could be read can be copied.
    ///
    /// # Errors
    ///
    /// As [`declare_metric`](Self::declare_metric), but for the syntax of names.
    pub(crate) fn declare_copied(&mut self, metric: &Metric, rules: NameRules) -> Result<()> {
        self.declared.declare_copied(metric, rules)
    }

    /// Makes the instances of a domain known, all of them, in any order. What
    /// is written is the whole domain, the difference, or nothing, by PCP's
    /// rule (`pmaDeltaInDom`). Of several changes at one time the first is
    /// written; the last follows with the first record that is later.
    ///
    /// # Errors
    ///
    /// [`Error::Encode`] for a number that occurs twice and a name with a NUL.
    pub fn declare_indom(&mut self, indom: InDom, instances: &[Instance]) -> Result<()> {
        self.declared.declare_indom(indom, instances)
    }

    /// Makes the labels of a target known, replacing what it had. Of several
    /// changes at one time the first is written; the last follows with the
    /// first record that is later.
    ///
    /// # Errors
    ///
    /// [`Error::Encode`] for sets beyond the format's limits.
    pub fn declare_labels(&mut self, target: LabelTarget, sets: &[LabelSet]) -> Result<()> {
        self.declared.declare_labels(target, sets)
    }

    /// Makes a help text known. Readers use the last one of the archive.
    ///
    /// # Errors
    ///
    /// [`Error::Encode`] for a text with a NUL.
    pub fn declare_text(
        &mut self,
        target: TextTarget,
        kind: TextKind,
        text: impl Into<ByteText>,
    ) -> Result<()> {
        self.declared.declare_text(target, kind, text.into())
    }

    /// Gives what was declared since the last record the time `timestamp`, in
    /// place of that of the next record. Before the first record it becomes
    /// the start in the archive's label, too.
    ///
    /// # Errors
    ///
    /// [`Error::TimeBackwards`] for a time before that of the last record or
    /// the last call; [`Error::Encode`].
    pub fn date_metadata(&mut self, timestamp: Timestamp) -> Result<()> {
        let timestamp = self.stored(timestamp)?;
        self.check_time(timestamp, false)?;
        self.metadata.truncate(self.dated.len);
        let encoded = self.declared.encode(timestamp, &mut self.metadata)?;
        self.dated.changed |= encoded.changed;
        self.charge(encoded.charges);
        self.dated.len = self.metadata.len();
        self.declared.written(timestamp);
        self.dated.start.get_or_insert(timestamp);
        self.dated.last = Some(timestamp);
        Ok(())
    }

    /// Writes a record, after the metadata declared since the last one.
    ///
    /// # Errors
    ///
    /// [`Error::TimeBackwards`] for a time before that of the last record, or
    /// for the same time if that is a mark;
    /// [`Error::EmptyRecord`] without value sets;
    /// [`Error::Undeclared`] and [`Error::ValueMismatch`] for values that do
    /// not fit what was declared; [`Error::Encode`]; [`Error::Io`], after
    /// which the archive is as before the call.
    pub fn write_result(&mut self, result: &FetchResult) -> Result<()> {
        self.builder.clear();
        for set in &result.value_sets {
            let desc = self.declared.desc(set.pmid)?;
            check_set(desc, set)?;
            self.builder.put_set(set, desc.value_type)?;
        }
        self.write_built(result.timestamp)
    }

    /// Writes the record that the builder holds.
    fn write_built(&mut self, timestamp: Timestamp) -> Result<()> {
        if self.builder.is_empty() {
            return Err(Error::EmptyRecord { timestamp });
        }
        let timestamp = self.stored(timestamp)?;
        self.check_time(timestamp, self.ends_in_mark)?;
        let mut record = std::mem::take(&mut self.record);
        record.clear();
        let encoded = self.builder.encode(self.options.version, timestamp, &mut record);
        let written =
            encoded.map_err(Error::from).and_then(|()| self.write_record(timestamp, &record));
        self.record = record;
        written
    }

    /// Writes a prepared record, after the metadata declared since the last
    /// one.
    ///
    /// # Errors
    ///
    /// As [`write_result`](Self::write_result); [`Error::Encode`] for a record
    /// of another version.
    pub fn write_prepared(&mut self, buffer: &RecordBuffer) -> Result<()> {
        let found = buffer.version();
        let expected = self.options.version;
        if found != expected {
            let found = found.number();
            let expected = expected.number();
            return Err(EncodeError::Version { found, expected }.into());
        }
        if self.checked_template != Some(buffer.template_id()) {
            for shape in buffer.shapes() {
                check_shape(self.declared.desc(shape.pmid)?, shape)?;
            }
            self.checked_template = Some(buffer.template_id());
        }
        let timestamp = self.stored(buffer.timestamp())?;
        self.check_time(timestamp, self.ends_in_mark)?;
        self.write_record(timestamp, buffer.as_bytes())
    }

    /// Writes a mark: readers do not join values before and after it.
    ///
    /// # Errors
    ///
    /// [`Error::LeadingMark`] before the first record;
    /// [`Error::TimeBackwards`] unless the time is after that of the last
    /// record; [`Error::Io`] as for results.
    pub fn write_mark(&mut self, timestamp: Timestamp) -> Result<()> {
        if self.last.is_none() {
            return Err(Error::LeadingMark);
        }
        let timestamp = self.stored(timestamp)?;
        self.check_time(timestamp, true)?;
        let mut record = Vec::new();
        encode_mark(self.options.version, timestamp, &mut record)?;
        self.write_record(timestamp, &record)?;
        self.ends_in_mark = true;
        Ok(())
    }

    /// Begins a new data volume with the next record. Does nothing before the first record, or if
    /// the present volume has none.
    pub fn switch_volume(&mut self) {
        self.switch_due = self.files.is_some();
    }

    /// Compares the files that are open with what their names lead to, by device, inode and
    /// size, and the closed volumes with the names in the directory. An error of a write does
    /// not show that another program took a file away.
    ///
    /// # Errors
    ///
    /// [`Error::Disturbed`] with the first file that differs: metadata, the present volume,
    /// index, closed volumes; [`Error::Io`].
    pub fn check_files(&self) -> Result<()> {
        self.files.as_ref().map_or(Ok(()), FileSet::check)
    }

    /// Waits until everything that was written is on disk.
    ///
    /// # Errors
    ///
    /// [`Error::Io`].
    pub fn sync(&mut self) -> Result<()> {
        self.files.as_mut().map_or(Ok(()), FileSet::sync)
    }

    /// Returns the format's version.
    pub const fn version(&self) -> Version {
        self.options.version
    }

    /// Returns the archive's base name.
    pub fn base(&self) -> &Path {
        &self.base
    }

    /// Returns the time of the last record.
    pub const fn last_timestamp(&self) -> Option<Timestamp> {
        self.last
    }

    /// Returns the earliest time that the next record can have, a mark or values; `None` before
    /// the first.
    pub(crate) fn earliest_next(&self, is_mark: bool) -> Option<Timestamp> {
        let last = self.last?;
        if !is_mark && !self.ends_in_mark {
            return Some(last);
        }
        let resolution = match self.options.version {
            Version::V2 => Duration::from_micros(1),
            Version::V3 => Duration::from_nanos(1),
        };
        Some(last.saturating_add(resolution))
    }

    /// Returns the time at which a mark of this time can be written; `None` if it has no effect:
    /// before the first record, or no later than a mark at the end.
    pub(crate) fn time_of_mark(&self, timestamp: Timestamp) -> Option<Timestamp> {
        let earliest = self.earliest_next(true)?;
        let follows_mark = timestamp < earliest && self.ends_in_mark;
        (!follows_mark).then(|| timestamp.max(earliest))
    }

    /// Returns the number of records written, marks included.
    pub const fn records(&self) -> u64 {
        self.records
    }

    /// Returns the size of all files in bytes.
    pub fn bytes(&self) -> u64 {
        self.files.as_ref().map_or(0, FileSet::bytes)
    }

    /// Returns the size of the metadata in bytes.
    pub fn metadata_bytes(&self) -> u64 {
        self.files.as_ref().map_or(0, |files| files.metadata.len())
    }

    /// Returns the size of the present data volume in bytes.
    pub fn volume_bytes(&self) -> u64 {
        self.files.as_ref().map_or(0, |files| files.data.len())
    }

    /// Returns the number of the present data volume.
    pub fn volume(&self) -> u32 {
        self.files.as_ref().map_or(0, |files| files.volume)
    }

    /// Writes the last index entry. Metadata declared after the last record
    /// is dropped: nothing in an archive may be later than its last record.
    ///
    /// # Errors
    ///
    /// [`Error::Io`].
    pub fn finish(mut self) -> Result<Summary> {
        if let (Some(files), Some(last)) = (&mut self.files, self.last) {
            files.write_final_entry(last)?;
            files.flush()?;
        }
        Ok(Summary {
            bytes: self.bytes(),
            volumes: self.files.as_ref().map_or(0, |files| files.volume + 1),
            base: self.base,
            records: self.records,
            span: self.first.zip(self.last),
        })
    }

    /// Returns a time as the archive will have it: records that are too close for version 2 have
    /// one time there.
    fn stored(&self, time: Timestamp) -> Result<Timestamp> {
        Ok(timestamp::stored(self.options.version, time)?)
    }

    fn charge(&mut self, charges: BTreeMap<u32, u64>) {
        for (account, bytes) in charges {
            *self.charges.entry(account).or_default() += bytes;
        }
    }

    fn check_time(&self, timestamp: Timestamp, later: bool) -> Result<()> {
        match self.last {
            Some(last) if timestamp < last || (later && timestamp == last) => {
                return Err(Error::TimeBackwards { timestamp, last });
            }
            _ => {}
        }
        match self.dated.last {
            Some(last) if timestamp < last => Err(Error::TimeBackwards { timestamp, last }),
            _ => Ok(()),
        }
    }

    /// Writes metadata, record and index entry: all of them or nothing.
    fn write_record(&mut self, timestamp: Timestamp, record: &[u8]) -> Result<()> {
        self.metadata.truncate(self.dated.len);
        let encoded = self.declared.encode(timestamp, &mut self.metadata)?;
        let changed = encoded.changed || self.dated.changed;
        let new = NewRecord { timestamp, metadata: &self.metadata, changed, record };
        if let Some(files) = &mut self.files {
            let limit = self.options.volume_bytes.unwrap_or(u64::MAX);
            let switch = self.switch_due || files.would_exceed(limit, record.len());
            files.write(new, switch)?;
        } else {
            let start = self.dated.start.unwrap_or(timestamp);
            let label = self.label.archive_label(self.options.version, start);
            let WriterOptions { index_bytes, index_interval, buffer_bytes, .. } = self.options;
            let policy = IndexPolicy::new(index_bytes, index_interval);
            let mut files = FileSet::create(&self.base, label, policy, buffer_bytes)?;
            let written = files.write(new, false);
            written.and_then(|()| files.show()).inspect_err(|_| files.remove())?;
            self.files = Some(files);
        }
        self.declared.written(timestamp);
        self.charge(encoded.charges);
        self.dated.len = 0;
        self.dated.changed = false;
        self.switch_due = false;
        self.ends_in_mark = false;
        self.first.get_or_insert(timestamp);
        self.last = Some(timestamp);
        self.records += 1;
        Ok(())
    }
}

/// Conversions for a writer that goes on with its archive, or copies it.
impl WriterLabel {
    fn archive_label(&self, version: Version, start: Timestamp) -> ArchiveLabel {
        ArchiveLabel {
            version,
            pid: self.pid,
            start,
            hostname: self.hostname.clone(),
            timezone: self.timezone.clone(),
            zoneinfo: self.zoneinfo.clone(),
        }
    }
}

/// Checks that every value has the metric's type and an instance if, and only if, the metric has an
/// instance domain; then there may be many.
fn check_set(desc: &MetricDesc, set: &ValueSet) -> Result<()> {
    let Ok(values) = &set.values else { return Ok(()) };
    let fits = values.iter().all(|(instance, value)| {
        value.as_value().is_of(desc.value_type) && instance.is_some() == desc.indom.is_some()
    });
    if !fits || (desc.indom.is_none() && values.len() > 1) {
        return mismatch(desc);
    }
    values.iter().try_for_each(|(_, value)| check_events(desc, value.as_value()))
}

/// Checks event arrays: PCP refuses a whole record for one that makes no sense.
fn check_events(desc: &MetricDesc, value: Value<'_>) -> Result<()> {
    if desc.value_type.is_event() {
        EventArray::unpack(value)
            .map_err(|source| EncodeError::EventArray { pmid: desc.pmid, source })?;
    }
    Ok(())
}

/// Checks a set of a template, as [`check_values`] does.
fn check_shape(desc: &MetricDesc, shape: &SetShape) -> Result<()> {
    let Some(value_type) = shape.value_type else { return Ok(()) };
    let instances = shape.with_instance;
    let fits = match desc.indom {
        Some(_) => instances == shape.values,
        None => instances == 0 && shape.values <= 1,
    };
    if fits && value_type == desc.value_type { Ok(()) } else { mismatch(desc) }
}

fn mismatch(desc: &MetricDesc) -> Result<()> {
    let MetricDesc { pmid, value_type, indom, .. } = *desc;
    Err(Error::ValueMismatch { pmid, value_type, indom })
}

fn undeclared(pmid: Pmid) -> Error {
    Error::Undeclared { pmid }
}

#[cfg(test)]
mod tests;

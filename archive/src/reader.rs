//! Reading an archive: its label, metadata, index and records.
//!
//! In: the name of an archive. Out: an [`Archive`], its [`Metadata`] over time,
//! and [`Records`] in both directions from any time. An [`ArchiveSet`] is several
//! archives of one host, and a [`Source`] either. A record that is returned was
//! checked; after an error the position is unchanged.

mod archive_records;
pub(crate) mod column;
pub(crate) mod fast;
pub mod follow;
mod identities;
mod indom_cursor;
mod indom_history;
mod indom_records;
mod indom_step;
mod label_history;
mod merge;
mod metadata;
mod metadata_loader;
mod outline;
mod owned;
mod record_batch;
mod records;
pub mod salvage;
mod server_identity;
mod set;
mod source;
mod span_size;
mod temporal_index;
mod type_conflicts;

use std::io::ErrorKind;
use std::mem;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

pub use archive_records::TornTail;
pub(crate) use identities::Identities;
pub use indom_cursor::IndomCursor;
#[cfg(test)]
pub(crate) use indom_history::test_support as indom_test_support;
pub use indom_history::{IndomHistory, IndomState};
pub use indom_records::IndomRecord;
pub(crate) use indom_step::InstanceChange;
pub use label_history::{LabelHistory, LabelState};
pub use metadata::{LabelDefect, Metadata, Metric};
pub(crate) use metadata_loader::{MetadataLoader, load_whole as load_whole_metadata};
pub use outline::{ArchiveOutline, OutlineEnd};
pub use record_batch::RecordBatch;
pub use records::Records;
pub(crate) use server_identity::ServerIdentity;
pub use server_identity::longest_gap;
pub use set::ArchiveSet;
pub use source::Source;
pub use temporal_index::{IndexDefect, TemporalIndex};
pub use type_conflicts::TypeConflict;
use type_conflicts::TypeConflicts;

#[cfg(feature = "compression")]
use crate::files::BlockCache;
use crate::files::{
    AddExtension as _, HeldFile, LISTINGS, MemberFiles, Members, RecordFile, check_labels,
};
use crate::format::Role;
use crate::{
    ArchiveLabel, Compression, Error, Record, RecordError, Result, Timestamp, Version, io_error,
};
use archive_records::{ArchiveRecords, Position};

/// Number of intervals at the end of an archive that show how often values are logged, and of
/// records that are read to find them.
const LAST_INTERVALS: usize = 3;
const MAX_LAST_RECORDS: usize = 100;

/// An archive, open for reading.
///
/// Label, metadata and index are read when it is opened, records when they
/// are asked for. What a writer appends later is not seen: records end where
/// they did when the archive was opened.
#[derive(Debug)]
pub struct Archive {
    base: PathBuf,
    label: ArchiveLabel,
    /// By volume number; at least one.
    volumes: Vec<VolumeFile>,
    metadata: Metadata,
    index: TemporalIndex,
    end: Timestamp,
    has_records: bool,
    /// Records that cannot be read follow the last whole one.
    is_damaged: bool,
    end_position: Position,
    torn_tail: Option<TornTail>,
    conflicts: TypeConflicts,
    bad_metadata: Vec<Error>,
    /// From the first record, once it was asked for.
    server: OnceLock<Option<ServerIdentity>>,
    /// From the last records, once it was asked for.
    last_interval: OnceLock<Option<Duration>>,
    /// Is set once reading is to end.
    is_cancelled: Arc<AtomicBool>,
    /// Held so that blocks stay in memory from one question to the next.
    #[cfg(feature = "compression")]
    _blocks: Arc<BlockCache>,
}

/// A data volume that exists.
#[derive(Debug)]
pub(crate) struct VolumeFile {
    pub(crate) number: u32,
    pub(crate) path: PathBuf,
    held: Option<HeldFile>,
}

impl VolumeFile {
    /// Opens the file, or the one that has taken its place: a volume may have been compressed.
    fn open(&self, base: &Path) -> Result<RecordFile> {
        if let Some(file) = self.held.as_ref().and_then(|held| held.reopen().ok()) {
            return RecordFile::read(file, &self.path);
        }
        match RecordFile::open(&self.path) {
            Err(error) if error.is_missing_file() => match self.replacement(base)? {
                Some(path) => RecordFile::open(&path),
                None => Err(error),
            },
            opened => opened,
        }
    }

    fn hold(&mut self, base: &Path) -> Result<()> {
        self.held = match HeldFile::open(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.path = self.replacement(base)?.unwrap_or(mem::take(&mut self.path));
                HeldFile::open(&self.path)
            }
            held => held,
        }
        .map_err(io_error("open", &self.path))?;
        Ok(())
    }

    fn replacement(&self, base: &Path) -> Result<Option<PathBuf>> {
        Ok(MemberFiles::list(base)?.volumes.remove(&self.number))
    }
}

impl Archive {
    /// Opens an archive by its base name, the name of any of its files, or
    /// the name of a directory that holds no other archive.
    ///
    /// A missing index is tolerated, as are missing volumes between others,
    /// and a last record of data or metadata that was not written to its end
    /// ([`torn_tail`](Self::torn_tail)). Compressed members are decoded as they
    /// are read: those that list their blocks from any place on, others forwards in one
    /// pass and backwards in as many as their size has multiples of 8 MiB.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], [`Error::Ambiguous`], [`Error::Missing`] and
    /// [`Error::Compressed`] if the files are not there or not readable here;
    /// [`Error::Decompress`] if the compressed data is damaged;
    /// [`Error::LabelMismatch`] and [`Error::VolumeMismatch`] if they do not
    /// belong together; [`Error::Corrupt`] and [`Error::DescChanged`] for
    /// damaged labels or metadata; [`Error::NoData`] without a record.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::read_existing(path.as_ref(), |members| Self::read(members, false))?.with_records()
    }

    /// Opens an archive as [`open`](Self::open) or [`open_tolerant`](Self::open_tolerant), whose files
    /// were listed. They are listed again if one has vanished since then.
    pub(crate) fn open_listed(files: &MemberFiles, is_tolerant: bool) -> Result<Self> {
        let read = |members| Self::read(members, is_tolerant);
        let archive = match Members::from_files(files.clone()).and_then(read) {
            Err(error) if error.is_missing_file() => Self::read_existing(&files.base, read)?,
            opened => opened?,
        };
        if is_tolerant { Ok(archive) } else { archive.with_records() }
    }

    fn with_records(self) -> Result<Self> {
        if self.has_records { Ok(self) } else { Err(Error::NoData { path: self.base }) }
    }

    /// Opens an archive as [`open`](Self::open), but skips metadata records that cannot be used as
    /// long as their length words are good: [`bad_metadata`](Self::bad_metadata) has them. What
    /// they describe is missing: values of a metric without its descriptor have no type, instances
    /// no names. An index whose label cannot be used is a [defect](TemporalIndex::defects). A
    /// volume whose label cannot be used is damage that readers report, if another volume has
    /// records. An archive without a record is opened for its metadata
    /// ([`has_records`](Self::has_records)).
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn open_tolerant(path: impl AsRef<Path>) -> Result<Self> {
        Self::read_existing(path.as_ref(), |members| Self::read(members, true))
    }

    /// Lists the files of an archive and reads them; again if a file vanishes meanwhile.
    fn read_existing<T>(path: &Path, read: impl Fn(Members) -> Result<T>) -> Result<T> {
        for _ in 1..LISTINGS {
            match Members::find(path).and_then(&read) {
                Err(error) if error.is_missing_file() => {}
                read => return read,
            }
        }
        read(Members::find(path)?)
    }

    fn read(members: Members, is_tolerant: bool) -> Result<Self> {
        let mut archive = Self::read_without_end(members, is_tolerant)?;
        archive.find_end(is_tolerant)?;
        Ok(archive)
    }

    fn read_without_end(members: Members, is_tolerant: bool) -> Result<Self> {
        let mut bad_metadata = Vec::new();
        let bad = |error| match error {
            Error::Corrupt { .. } | Error::DescChanged { .. } if is_tolerant => {
                bad_metadata.push(error);
                Ok(())
            }
            other => Err(other),
        };
        let mut meta = RecordFile::open(&members.metadata)?;
        let label = meta.read_label(Role::Metadata)?;
        let index = match &members.index {
            Some(path) => temporal_index::load(path, &label, &meta.path, is_tolerant)?,
            None => TemporalIndex::default(),
        };
        let indexed = index.entries().iter().map(|entry| entry.metadata_offset).max().unwrap_or(0);
        let (metadata, torn_tail) = metadata_loader::load(&mut meta, label.version, indexed, bad)?;
        let volumes = members.volumes.into_iter();
        let label_start = label.start;
        let mut archive = Self {
            base: members.base,
            label,
            volumes: volumes
                .map(|(number, path)| VolumeFile { number, path, held: None })
                .collect(),
            metadata,
            index,
            end: label_start,
            has_records: false,
            is_damaged: false,
            end_position: Position::UNKNOWN_END,
            torn_tail,
            conflicts: TypeConflicts::default(),
            bad_metadata,
            server: OnceLock::new(),
            last_interval: OnceLock::new(),
            is_cancelled: Arc::default(),
            #[cfg(feature = "compression")]
            _blocks: BlockCache::shared(),
        };
        archive.drop_unlabelled_volume()?;
        Ok(archive)
    }

    /// Returns [`Error::LabelMismatch`] if the label of the metadata has another start time than
    /// those of the index and of the first volume, which agree.
    pub(crate) fn start_difference(&self) -> Result<Option<Error>> {
        let members = MemberFiles::list(&self.base)?;
        let (Some(metadata), Some(index), Some(volume)) =
            (members.metadata, members.index, members.volumes.get(&0))
        else {
            return Ok(None);
        };
        let labels = [
            RecordFile::open(&index).and_then(|mut file| file.read_label(Role::Index)),
            RecordFile::open(volume).and_then(|mut file| file.read_label(Role::Data(0))),
        ];
        let [Ok(of_index), Ok(of_volume)] = labels else { return Ok(None) };
        if of_index.start != of_volume.start || of_index.start == self.label.start {
            return Ok(None);
        }
        Ok(Some(Error::LabelMismatch {
            file: metadata,
            other: index,
            field: "start time",
            found: self.label.start.to_string(),
            expected: of_index.start.to_string(),
        }))
    }

    /// Returns the archive's name: the common part of its files' names.
    pub fn base(&self) -> &Path {
        &self.base
    }

    /// Returns whether all data volumes can be read from any place on, by several readers.
    pub(crate) fn is_seekable(&self) -> bool {
        self.volumes.iter().all(|volume| {
            Compression::from_path(&volume.path).is_none()
                || volume.open(&self.base).is_ok_and(|file| file.is_seekable())
        })
    }

    /// Keeps the files of data volumes open, so that they can be read when another program, such
    /// as one that deletes old archives, has removed them. As many as a quarter of the
    /// descriptors of this process are used.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if a file was removed already.
    pub fn hold_volumes(&mut self) -> Result<()> {
        for volume in &mut self.volumes {
            volume.hold(&self.base)?;
        }
        Ok(())
    }

    /// Stops reading once a flag is set: all readers of records then fail with [`Error::Io`] of the
    /// kind [`ErrorKind::Interrupted`].
    pub fn cancel_reading_by(&mut self, flag: &Arc<AtomicBool>) {
        self.is_cancelled = Arc::clone(flag);
    }

    fn check_not_cancelled(&self) -> Result<()> {
        if self.is_cancelled.load(Ordering::Relaxed) {
            let cancelled = std::io::Error::new(ErrorKind::Interrupted, "cancelled");
            return Err(io_error("read", &self.base)(cancelled));
        }
        Ok(())
    }

    /// Returns the label: who wrote the archive, where and when.
    pub const fn label(&self) -> &ArchiveLabel {
        &self.label
    }

    /// Returns the format's version.
    pub const fn version(&self) -> Version {
        self.label.version
    }

    /// Returns the start of the archive, from its label.
    pub const fn start(&self) -> Timestamp {
        self.label.start
    }

    /// Returns the time of the last record that is whole; without one that of the label.
    pub const fn end(&self) -> Timestamp {
        self.end
    }

    /// Returns whether a record is whole: always, unless the archive was opened
    /// [tolerantly](Self::open_tolerant).
    pub const fn has_records(&self) -> bool {
        self.has_records
    }

    /// Returns the numbers of the data volumes that exist, rising; there is at least one, but not
    /// necessarily number 0.
    pub fn volumes(&self) -> impl ExactSizeIterator<Item = u32> {
        self.volumes.iter().map(|volume| volume.number)
    }

    /// Returns the numbers of volumes that do not exist: before the last one that does, or before
    /// one that the temporal index refers to.
    pub fn missing_volumes(&self) -> Vec<RangeInclusive<u32>> {
        let indexed = self.index.entries().iter().map(|entry| entry.volume).max();
        let end = indexed.map_or(0, |volume| u64::from(volume) + 1);
        let mut missing = Vec::new();
        let mut next = 0u64;
        for volume in self.volumes().map(u64::from).chain([end]) {
            if next < volume {
                missing.push(next as u32..=(volume - 1) as u32);
            }
            next = next.max(volume + 1);
        }
        missing
    }

    /// Returns the file of a data volume.
    pub fn volume_path(&self, number: u32) -> Option<&Path> {
        let found = self.volumes.iter().find(|volume| volume.number == number);
        found.map(|volume| volume.path.as_path())
    }

    /// Metrics, instance domains, labels and help text.
    pub const fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Returns the temporal index; empty if there is none.
    pub const fn index(&self) -> &TemporalIndex {
        &self.index
    }

    /// Returns the last record, if it was not written to its end, or the zeros that the file ends
    /// with: reading ends before them.
    pub const fn torn_tail(&self) -> Option<&TornTail> {
        self.torn_tail.as_ref()
    }

    /// Returns the metadata records that were passed by, [`Error::Corrupt`] or
    /// [`Error::DescChanged`]; none unless the archive was opened
    /// [tolerantly](Self::open_tolerant).
    pub fn bad_metadata(&self) -> &[Error] {
        &self.bad_metadata
    }

    /// Returns all records, from the first.
    ///
    /// # Errors
    ///
    /// None now; volumes are opened when reading reaches them.
    pub fn records(&self) -> Result<Records<'_>> {
        Source::from(self).records()
    }

    /// Returns the records from the first one whose time is `from` or later. The index is used to
    /// find it.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] and [`Error::Io`] from the records on the way.
    pub fn records_from(&self, from: Timestamp) -> Result<Records<'_>> {
        Source::from(self).records_from(from)
    }

    /// Returns a position after all records whose timestamp is `from` or earlier:
    /// [`Records::previous`] returns the newest of them.
    ///
    /// # Errors
    ///
    /// As [`records_from`](Self::records_from).
    pub fn records_back_from(&self, from: Timestamp) -> Result<Records<'_>> {
        Source::from(self).records_back_from(from)
    }

    fn records_at_start(&self) -> ArchiveRecords<'_> {
        ArchiveRecords::new(self, Position::start(self.version()))
    }

    /// Returns what served the values, if the first record says so.
    fn server(&self) -> Option<ServerIdentity> {
        *self.server.get_or_init(|| {
            let mut records = self.records_at_start();
            let loaded = records.load_next().ok()??;
            ServerIdentity::of_record(&records.pass(loaded).ok()?)
        })
    }

    /// Returns whether the next archive begins before mmv-agent would write a [mark](longest_gap).
    /// Where the interval is not known, as in an archive of one time, the process that wrote both is
    /// decisive.
    fn is_soon_followed_by(&self, next: &Self) -> bool {
        let is_within = |interval| next.label.start <= self.end + longest_gap(interval);
        if is_within(Duration::ZERO) {
            return true;
        }
        let interval = if self.is_seekable() { self.last_interval() } else { None };
        interval.map_or(self.label.pid == next.label.pid, is_within)
    }

    /// Returns about the interval at which values were logged last: the longest time between the
    /// last records, since some are logged between others.
    fn last_interval(&self) -> Option<Duration> {
        *self.last_interval.get_or_init(|| {
            let mut records = self.records_at_end();
            let mut later = self.end;
            let mut intervals = Vec::new();
            for _ in 0..MAX_LAST_RECORDS {
                let Ok(Some(loaded)) = records.load_previous() else { break };
                let Ok(record) = records.pass_back(loaded) else { break };
                if record.is_mark() || intervals.len() == LAST_INTERVALS {
                    break;
                }
                let time = record.timestamp();
                let nanos = u64::try_from(later.nanos_since(time)).unwrap_or(u64::MAX);
                intervals.extend((time < later).then_some(Duration::from_nanos(nanos)));
                later = time;
            }
            intervals.into_iter().max()
        })
    }

    fn records_at_end(&self) -> ArchiveRecords<'_> {
        ArchiveRecords::new(self, self.end_position)
    }

    /// Returns the volume and offset of that position.
    fn end_place(&self) -> (u32, u64) {
        let volume = self.volumes.get(self.end_position.volume).or(self.volumes.last());
        (volume.map_or(0, |volume| volume.number), self.end_position.offset)
    }

    /// Returns the error for a value of a record that its metric's type cannot have, with the
    /// file and the offset of the record.
    pub fn damaged(&self, record: &Record<'_>, source: RecordError) -> Error {
        Error::Corrupt { file: self.file_of(record), offset: record.offset(), source }
    }

    pub(crate) fn file_of(&self, record: &Record<'_>) -> PathBuf {
        self.volume_path(record.volume()).unwrap_or(&self.base).to_owned()
    }

    pub(crate) fn open_volume(&self, at: usize) -> Result<Option<RecordFile>> {
        let Some(volume) = self.volumes.get(at) else { return Ok(None) };
        let mut file = volume.open(&self.base)?;
        let label = file.read_label(Role::Data(volume.number))?;
        check_labels(&label, &file.path, &self.label, &self.base.with_extension_added("meta"))?;
        Ok(Some(file))
    }

    /// Drops a last volume that ends within its label: it was being created when its writer died,
    /// and the volumes before it are whole.
    fn drop_unlabelled_volume(&mut self) -> Result<()> {
        let [_, .., last] = self.volumes.as_slice() else { return Ok(()) };
        let label = self.version().label_size();
        let bytes = last.open(&self.base)?.available(0, 0, label)?;
        if bytes >= label {
            return Ok(());
        }
        if let Some(last) = self.volumes.pop() {
            self.torn_tail = Some(TornTail { file: last.path, offset: 0, bytes });
        }
        Ok(())
    }

    /// Finds the last whole record, searched from the back of the last volume, and where reading
    /// ends: there, or at the end of the damage after it.
    fn find_end(&mut self, is_tolerant: bool) -> Result<()> {
        let mut damage = None;
        let mut bad_label = None;
        for at in (0..self.volumes.len()).rev() {
            let mut records = self.records_at_start();
            if let Err(error) = records.move_to_end_of(at) {
                if !is_tolerant || !error.is_damage() {
                    return Err(error);
                }
                bad_label = Some(error);
                damage.get_or_insert(Position { volume: at, ..Position::start(self.version()) });
                continue;
            }
            let end = records.find_end(at);
            self.torn_tail = end.torn.or(self.torn_tail.take());
            if end.damaged {
                self.is_damaged = true;
                damage.get_or_insert(end.position);
            }
            if let Some(timestamp) = end.timestamp {
                self.end = timestamp;
                self.has_records = true;
                self.end_position = damage.unwrap_or(end.position);
                return Ok(());
            }
        }
        if let Some(error) = bad_label {
            return Err(error);
        }
        self.end_position = damage.unwrap_or(Position::start(self.version()));
        Ok(())
    }
}

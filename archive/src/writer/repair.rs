//! Makes a valid archive of a damaged one.
//!
//! In: a damaged archive. Out: a new archive, and what it lacks in [`RepairReport`].
//! The old files are unchanged until the new ones are complete, and the new ones are hidden
//! until then (`files::staging`). In place, they replace the old ones one after the other
//! (`files::visibility`): a volume keeps its number, and needs no more metadata than before.
//!
//! The records that [`Salvage`] finds are copied byte for byte into new files
//! with new labels and a new index. Left out are
//!
//! | what | why |
//! |---|---|
//! | damaged records | |
//! | values of metrics whose descriptor is lost, or that do not fit it | no reader can decode them |
//! | event arrays that do not unpack | the same; PCP refuses the whole record for one |
//! | metadata that is later than the last data record | it describes nothing |
//!
//! Readers search by time. Where the time of data records steps back, as many records as
//! possible are kept in order; the others become further archives of the same run,
//! `BASE-2`, `BASE-3` and so on, each with all metadata up to its end. Records that eight
//! archives cannot hold in order are left out.
//!
//! Where data records are missing, a mark is put in: the values before and
//! after must not be joined. Where only some values of a record are left out
//! there is none, since it would hide all the others.
//!
//! Metadata is sorted by time, what readers ignore in it is left out, and metrics whose name
//! readers do not find get another: see `repair/metadata_filter.rs`. If something is earlier than
//! the start in the label, the start is moved. The version stays what it is.

mod decisions;
mod live_writer;
mod metadata_filter;
mod order;
mod output_files;
mod pending_mark;
mod value_filter;

use std::path::{Path, PathBuf};

use crate::files::RecordFile;
use crate::files::staging::Staging;
use crate::format::{Role, encode_mark};
use crate::progress::Progress;
use crate::reader::salvage::{Loss, Salvage, SalvageItem};
use crate::{ByteText, Error, Pmid, Record, Result, Timestamp, Version};
use decisions::{Decisions, KeptMetadata, RepairedPart};
use live_writer::check_unwritten;
use output_files::{DataFiles, IndexFile, VolumeNumbers};
use pending_mark::PendingMark;
use value_filter::{FilteredValues, ValueFilter};

/// The result of a repair: what it kept and what it left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepairReport {
    /// The new archive's base name.
    pub base: PathBuf,
    /// Data records that were kept, marks included.
    pub records: u64,
    /// Of these, records from which some values were left out.
    pub thinned: u64,
    /// Whole data records that are in none of the new archives, because none of their
    /// values can be read, or because their time steps back too often.
    pub dropped: u64,
    /// Marks that were put in where records are missing.
    pub marks: u64,
    /// Metadata records that were kept.
    pub metadata_records: u64,
    /// Metadata records that are in none of the new archives because of their time.
    pub dropped_metadata: u64,
    /// Index entries, all of them new.
    pub index_entries: u64,
    /// The time of the first and the last data record.
    pub span: (Timestamp, Timestamp),
    /// Stretches of the old files that are lost.
    pub lost: Vec<Loss>,
    /// Names of metrics that readers do not find, and those in their place.
    pub renamed: Vec<MetricRename>,
    /// The archives of the records whose time steps back, `BASE-2` and so on, as far as these
    /// names are free. Their
    /// `dropped`, `dropped_metadata`, `lost`, `renamed` and `further` are empty.
    pub further: Vec<RepairReport>,
}

/// A metric that has another name in the new archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricRename {
    /// The metric that was renamed.
    pub pmid: Pmid,
    /// Its name in the old archive.
    pub old: ByteText,
    /// The one in the new archive: what PCP's readers take of `old`, and the PMID, `a.b_70_1_2`.
    pub new: ByteText,
    /// The reason why readers do not find it by its old name.
    pub reason: String,
}

/// Makes a whole archive of a damaged one, under another name. The old files
/// stay as they are. Compressed members are expanded.
///
/// # Errors
///
/// Those of [`Salvage::open`]; [`Error::NoData`] if no data record but marks can be
/// kept; [`Error::Exists`] if there is an archive of the new name; [`Error::Io`]. After an error
/// there is no archive of the new name.
pub fn repair(path: impl AsRef<Path>, output: impl AsRef<Path>) -> Result<RepairReport> {
    repair_watched(path, output, &mut |_, _| {})
}

/// Repairs with progress: `watch` is called about once a megabyte with bytes of the data volumes
/// done, and bytes in all, each counted twice, since they are read twice.
///
/// # Errors
///
/// As [`repair`].
pub fn repair_watched(
    path: impl AsRef<Path>,
    output: impl AsRef<Path>,
    watch: &mut dyn FnMut(u64, u64),
) -> Result<RepairReport> {
    let staging = Staging::new(output.as_ref())?;
    repair_to(staging, VolumeNumbers::Consecutive, &Salvage::open(path)?, watch)
}

/// Repairs an archive in its place: complete new files are written beside the old ones and replace
/// them one after the other, [further](RepairReport::further) archives first. A new file has what can
/// be read of the old one, so readers find an archive at any time, also after a kill: the old one,
/// the new one, or some files of each, which another call repairs. Further archives that were
/// complete by then stay, and those of the other call take the next names.
///
/// # Errors
///
/// As [`repair`]; [`Error::Written`] while a process writes the archive.
pub fn repair_in_place(path: impl AsRef<Path>) -> Result<RepairReport> {
    repair_in_place_watched(path, &mut |_, _| {})
}

/// Repairs in place with progress, as [`repair_watched`].
///
/// # Errors
///
/// As [`repair_in_place`].
pub fn repair_in_place_watched(
    path: impl AsRef<Path>,
    watch: &mut dyn FnMut(u64, u64),
) -> Result<RepairReport> {
    let salvage = Salvage::open(path)?;
    check_unwritten(salvage.files())?;
    let staging = Staging::in_place(&salvage.files().base)?;
    repair_to(staging, VolumeNumbers::Old, &salvage, watch)
}

fn repair_to(
    staging: Staging,
    numbers: VolumeNumbers,
    salvage: &Salvage,
    watch: &mut dyn FnMut(u64, u64),
) -> Result<RepairReport> {
    let mut progress = Progress::new(salvage.files(), 2, watch);
    let decisions = Decisions::new(salvage, &mut progress)?;
    let further = further_stagings(staging.base(), decisions.parts.len().saturating_sub(1))?;
    let mut outputs = vec![staging.hidden()];
    outputs.extend(further.iter().map(Staging::hidden));
    let mut repaired = Copier::new(salvage, &decisions, &outputs, numbers)?.copy(&mut progress)?;
    staging.base().clone_into(&mut repaired.base);
    for (part, staging) in repaired.further.iter_mut().zip(further) {
        staging.base().clone_into(&mut part.base);
        staging.commit()?;
    }
    // Last, since this removes the records of the others from an archive that is repaired in place.
    staging.commit()?;
    Ok(repaired)
}

/// Begins archives of the first names that are free among `BASE-2`, `BASE-3` and so on.
fn further_stagings(base: &Path, count: usize) -> Result<Vec<Staging>> {
    let mut stagings = Vec::new();
    let mut number = 2;
    while stagings.len() < count {
        let mut name = base.as_os_str().to_owned();
        name.push(format!("-{number}"));
        match Staging::new(Path::new(&name)) {
            Err(Error::Exists { .. }) => {}
            staging => stagings.push(staging?),
        }
        number += 1;
    }
    Ok(stagings)
}

/// Replaces the index of an archive that is otherwise whole, or makes one.
/// Returns the number of its entries. `watch` is called as by [`repair_watched`].
///
/// # Errors
///
/// [`Error::Damaged`] and [`Error::TimeBackwards`] if something else is wrong,
/// which needs [`repair`]; those of [`Salvage::open`]; [`Error::NoData`];
/// [`Error::Written`] while a process writes the archive; [`Error::Io`]. After an error the
/// old index is still there.
pub fn reindex(path: impl AsRef<Path>, watch: &mut dyn FnMut(u64, u64)) -> Result<u64> {
    let salvage = Salvage::open(path)?;
    check_unwritten(salvage.files())?;
    let mut progress = Progress::new(salvage.files(), 2, watch);
    let decisions = Decisions::new(&salvage, &mut progress)?;
    // An index has nothing to do with volumes that do not exist.
    let mut lost = decisions.lost.iter();
    let lost = lost.find(|lost| salvage.files().all().any(|(file, _)| file == lost.file));
    if let Some(lost) = lost.or(salvage.lost_metadata().first()) {
        let file = lost.file.clone();
        let offset = lost.offset;
        let reason = lost.reason.clone();
        return Err(Error::Damaged { file, offset, reason });
    }
    let staging = Staging::in_place(&salvage.files().base)?;
    let index = IndexFile::create(staging.hidden(), salvage.label())?;
    let entries = fill_index(&salvage, &decisions, index, &mut progress)?;
    staging.commit()?;
    Ok(entries)
}

fn fill_index(
    salvage: &Salvage,
    decisions: &Decisions,
    mut index: IndexFile,
    progress: &mut Progress<'_>,
) -> Result<u64> {
    let mut records = salvage.records();
    let mut last = None;
    while let Some(salvaged) = records.next()? {
        let SalvageItem::Record(record) = salvaged else { continue };
        progress.advance_to(&record);
        let timestamp = record.timestamp();
        if let Some(last) = last.replace(timestamp).filter(|last| timestamp < *last) {
            return Err(Error::TimeBackwards { timestamp, last });
        }
        let metadata = decisions.old_metadata_offset(timestamp);
        index.note(timestamp, record.volume(), metadata, record.offset(), record.size())?;
    }
    progress.end_pass();
    index.finish(decisions.old_metadata_end())
}

/// Copies what the decisions keep.
struct Copier<'s> {
    salvage: &'s Salvage,
    decisions: &'s Decisions,
    filter: ValueFilter<'s>,
    /// The new archives, by the number of their part.
    outputs: Vec<RepairOutput<'s>>,
}

struct RepairOutput<'s> {
    part: &'s RepairedPart,
    data: DataFiles,
    mark: PendingMark,
    repaired: RepairReport,
}

impl<'s> Copier<'s> {
    fn new(
        salvage: &'s Salvage,
        decisions: &'s Decisions,
        bases: &[&Path],
        numbers: VolumeNumbers,
    ) -> Result<Self> {
        let filter = ValueFilter::new(salvage.metadata(), salvage.version());
        let mut outputs = Vec::new();
        for (part, base) in decisions.parts.iter().zip(bases) {
            outputs.push(RepairOutput::new(part, base, numbers)?);
        }
        if let Some(first) = outputs.first_mut() {
            let lost = salvage.lost_metadata().iter().chain(&decisions.lost);
            first.repaired.lost = lost.cloned().collect();
            first.repaired.renamed.clone_from(&decisions.renamed);
            first.repaired.dropped = decisions.dropped();
            first.repaired.dropped_metadata = decisions.dropped_metadata;
        }
        Ok(Self { salvage, decisions, filter, outputs })
    }

    fn copy(mut self, progress: &mut Progress<'_>) -> Result<RepairReport> {
        let metadata = self.salvage.files().metadata.as_deref();
        let ends = self.outputs.iter().map(|output| output.copy_metadata(metadata));
        let ends = ends.collect::<Result<Vec<_>>>()?;
        let mut records = self.salvage.records();
        let mut number = 0;
        while let Some(salvaged) = records.next()? {
            let own = match &salvaged {
                SalvageItem::Record(record) => {
                    progress.advance_to(record);
                    number += 1;
                    self.decisions.part_of(number - 1)
                }
                SalvageItem::Lost(_) => None,
            };
            for (part, output) in self.outputs.iter_mut().enumerate() {
                if own != Some(part) {
                    output.mark.records_missing();
                }
            }
            // The filter sees the same records as when it was decided what passes it.
            let SalvageItem::Record(record) = salvaged else { continue };
            let passed = self.filter.pass(&record)?;
            let output = own.and_then(|part| self.outputs.get_mut(part));
            if let Some((output, passed)) = output.zip(passed) {
                output.put(&record, &passed, self.salvage.version())?;
            }
        }
        progress.end_pass();
        let outputs = self.outputs.into_iter().zip(ends);
        let mut all =
            outputs.map(|(output, end)| output.finish(end)).collect::<Result<Vec<_>>>()?;
        let further = all.split_off(1.min(all.len()));
        let first = all.pop();
        let first =
            first.ok_or_else(|| Error::NoData { path: self.salvage.files().base.clone() })?;
        Ok(RepairReport { further, ..first })
    }
}

impl<'s> RepairOutput<'s> {
    fn new(part: &'s RepairedPart, base: &Path, numbers: VolumeNumbers) -> Result<Self> {
        let repaired = RepairReport {
            base: base.to_owned(),
            records: 0,
            thinned: 0,
            dropped: 0,
            marks: 0,
            metadata_records: part.metadata.len() as u64,
            dropped_metadata: 0,
            index_entries: 0,
            span: part.span,
            lost: Vec::new(),
            renamed: Vec::new(),
            further: Vec::new(),
        };
        let data = DataFiles::create(base, &part.label, numbers)?;
        Ok(Self { part, data, mark: PendingMark::default(), repaired })
    }

    /// Copies the metadata out of the old file; returns where the new one ends.
    fn copy_metadata(&self, old: Option<&Path>) -> Result<u64> {
        let mut out = output_files::create(&self.repaired.base, &self.part.label, Role::Metadata)?;
        let Some(old) = old else { return Ok(out.len()) };
        let mut file = RecordFile::open(old)?;
        let mut bytes = Vec::new();
        for KeptMetadata { place, changed } in &self.part.metadata {
            if let Some(changed) = changed {
                out.append(changed)?;
                continue;
            }
            bytes.resize(place.len, 0);
            file.read_at(&mut bytes, place.offset)?;
            out.append(&bytes)?;
        }
        out.sync()?;
        Ok(out.len())
    }

    fn put(
        &mut self,
        record: &Record<'_>,
        passed: &FilteredValues<'_>,
        version: Version,
    ) -> Result<()> {
        let volume = record.volume();
        let timestamp = record.timestamp();
        if let Some(at) = self.mark.due_before(timestamp, record.is_mark()) {
            let mut mark = Vec::new();
            encode_mark(version, at, &mut mark)?;
            self.data.append(volume, at, self.part.metadata_offset(at), &mark)?;
            self.repaired.marks += 1;
        }
        let metadata_offset = self.part.metadata_offset(timestamp);
        self.data.append(volume, timestamp, metadata_offset, passed.bytes)?;
        self.repaired.records += 1;
        self.repaired.thinned += u64::from(passed.is_thinned);
        Ok(())
    }

    fn finish(mut self, metadata_end: u64) -> Result<RepairReport> {
        self.repaired.index_entries = self.data.finish(metadata_end)?;
        Ok(self.repaired)
    }
}

#[cfg(test)]
mod tests;

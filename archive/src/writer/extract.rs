//! Part of an archive, or several archives as one, written as a new archive.
//!
//! In: a selection of a source, a window and new names. Out: records and metadata
//! for a writer, in the order of time.
//!
//! What is left is a window of time and a selection of metrics and instances.
//! Everything else goes: records without any of the metrics, descriptors,
//! domains, labels and help of other metrics, and what a domain was before the
//! window. Metrics can get other names and PMIDs on the way.
//!
//! ```text
//! window                         [---------------------]
//! domain of a   {1}      {1,2}           {2}                   {3}
//! records       a  b     a         b     a     mark  b   a     a  b
//!
//! of a alone                     {1,2}   {2}
//!                                        a     mark      a
//! ```
//!
//! With an event metric go the metrics that its events have as parameters,
//! though not their own values.
//!
//! It is one pass over the records of the window, in the memory of one record
//! and of the metadata. A record of version 3 that is wanted completely is
//! copied as bytes. Others are encoded again, which normalises in-place floats, the
//! third value format and text after a NUL.

mod label_inheritance;
pub(super) mod mapping;
mod needs_mark;
pub(super) mod parameters;
mod patches;
mod record_order;

use std::ops::RangeInclusive;

use super::CopiedSet;
use super::copy::Changes;
use crate::format::ShapeId;
use crate::scan::Selection;
use crate::writer::rewrite::Rules;
use crate::{
    ArchiveWriter, Error, InstanceId, OwnedValue, Pmid, Record, RecordError, Result, Source,
    Timestamp, ValueSet, ValueSetView, Version, WriterLabel,
};
use mapping::{CopiedMetric, Mapping};
use needs_mark::NeedsMark;
use patches::KnownPatches;
use record_order::RecordOrder;
pub use record_order::StepsBack;

/// Limit on known shapes of records, as in the reader.
const MAX_SHAPES: usize = 8;

/// The part of an archive to extract.
#[derive(Debug)]
pub struct Extract<'a> {
    selection: Selection<'a>,
    window: RangeInclusive<Timestamp>,
    rules: Rules,
    keeps_volumes: bool,
}

impl<'a> Extract<'a> {
    /// Extracts all records of a selection.
    pub fn new(selection: Selection<'a>) -> Self {
        let window = Timestamp::from_nanos(i128::MIN)..=Timestamp::MAX;
        Self { selection, window, rules: Rules::default(), keeps_volumes: false }
    }

    /// Copies only records with times from the start to the end of the window, both included.
    #[must_use]
    pub fn window(mut self, window: RangeInclusive<Timestamp>) -> Self {
        self.window = window;
        self
    }

    /// Changes metadata and values by rules, in place of those given before.
    #[must_use]
    pub fn rules(mut self, rules: Rules) -> Self {
        self.rules = rules;
        self
    }

    /// Renames the metric called `old` to `new`, and moves those below `old` below `new`. Of
    /// several renamings the first that fits a name counts.
    #[must_use]
    pub fn rename(mut self, old: &str, new: &str) -> Self {
        self.rules.rename(old, new);
        self
    }

    /// Gives the metric that was called `name` another PMID. The labels of its cluster and domain
    /// go with it, unless other metrics stay where it goes; they are also kept if any metric stays
    /// where it was.
    #[must_use]
    pub fn renumber(mut self, name: &str, pmid: Pmid) -> Self {
        self.rules.renumber(name, pmid);
        self
    }

    /// Begins a new data volume also where the source does.
    #[must_use]
    pub fn keep_volumes(mut self) -> Self {
        self.keeps_volumes = true;
        self
    }

    /// Returns the label of the new archive: that of the old one as the rules change it.
    ///
    /// # Errors
    ///
    /// [`Error::Rules`](crate::Error::Rules) for a label that the version cannot have.
    pub fn relabel(&self, label: WriterLabel, version: Version) -> Result<WriterLabel> {
        Ok(self.rules.relabel(label, version)?)
    }

    /// Returns the metrics that are left out because no name of them, new or old, fits into the
    /// 4095 bytes that PCP's readers have room for, and the length of the first name.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write), for new names and PMIDs.
    pub fn unnameable(&self) -> Result<Vec<(Pmid, usize)>> {
        Ok(Mapping::new(&self.selection, &self.rules)?.into_unnameable())
    }

    /// Writes it. `watch` is shown each record that is read. Returns what is known of records
    /// that are earlier than one before them: their values were taken after it, and get its time,
    /// so that the new archive is in the order of time.
    ///
    /// Marks are kept. Between two archives of the source there is a mark,
    /// unless the first and last records that pmlogger writes into an archive
    /// show that the metrics came from one pmcd that never stopped.
    ///
    /// The new archive starts when the old one did, or with its first record
    /// if the window begins later. If no record has a metric of the selection
    /// nothing is written, which is not an error here.
    ///
    /// # Errors
    ///
    /// [`Error::NoMetric`](crate::Error::NoMetric) and
    /// [`Error::PmidTaken`](crate::Error::PmidTaken) for new names and PMIDs
    /// that cannot be given, [`Error::EventParameters`](crate::Error::EventParameters)
    /// for new PMIDs where events name metrics by theirs;
    /// [`Error::Rules`](crate::Error::Rules) and
    /// [`Error::Unconvertible`](crate::Error::Unconvertible) for rules that contradict each other
    /// or the archive; those of the reader and of the writer.
    pub fn write(
        &self,
        writer: &mut ArchiveWriter,
        mut watch: impl FnMut(&Record<'_>),
    ) -> Result<Option<StepsBack>> {
        let source = self.selection.source();
        let mapping = Mapping::new(&self.selection, &self.rules)?;
        let start = *self.window.start();
        let end = *self.window.end();
        let changes = None;
        let needs_mark = NeedsMark::default();
        let has_events = mapping.has_events();
        let wanted = Vec::new();
        let patches = KnownPatches::default();
        let order = RecordOrder::default();
        let mut pass = ExtractPass {
            source,
            mapping,
            wanted,
            patches,
            has_events,
            start,
            changes,
            needs_mark,
            order,
            writer,
        };
        let mut volume = None;
        let mut records = source.records_from(start)?;
        while let Some(record) = records.next()?
            && record.timestamp() <= end
        {
            watch(&record);
            let place = (record.archive(), record.volume());
            if self.keeps_volumes && volume.replace(place).is_some_and(|last| last != place) {
                pass.writer.switch_volume();
            }
            if record.is_mark() { pass.mark(&record)? } else { pass.result(&record)? }
        }
        Ok(pass.order.into_steps_back())
    }
}

/// A pass over the records of a window, from the source to the writer.
struct ExtractPass<'p, 'a> {
    source: Source<'a>,
    mapping: Mapping,
    /// Numbers of wanted sets by shape of records; the newest shape in front.
    wanted: Vec<(ShapeId, usize)>,
    patches: KnownPatches,
    has_events: bool,
    start: Timestamp,
    /// Metadata that was not written yet; from the first record on.
    changes: Option<Changes<'a>>,
    needs_mark: NeedsMark,
    order: RecordOrder,
    writer: &'p mut ArchiveWriter,
}

impl ExtractPass<'_, '_> {
    fn mark(&mut self, record: &Record<'_>) -> Result<()> {
        if self.source.is_between(record) {
            self.needs_mark.gap(record.timestamp());
            return Ok(());
        }
        self.order.pass(record, self.source);
        self.write_mark(self.mapping.shifted(record.timestamp()))
    }

    /// Writes a mark of a time of the new archive, after the metadata up to its time: metadata has to be written before a later
    /// record to keep its time, and a mark is one.
    fn write_mark(&mut self, timestamp: Timestamp) -> Result<()> {
        let Some(timestamp) = self.writer.time_of_mark(timestamp) else { return Ok(()) };
        self.declare_until(timestamp)?;
        self.writer.write_mark(timestamp)
    }

    fn result(&mut self, record: &Record<'_>) -> Result<()> {
        self.needs_mark.pass(record);
        let count = self.count_wanted(record);
        if count == 0 {
            return Ok(());
        }
        if let Some(mark) = self.needs_mark.take().filter(|mark| *mark < record.timestamp()) {
            self.write_mark(self.mapping.shifted(mark))?;
        }
        self.order.pass(record, self.source);
        let own_time = self.mapping.shifted(record.timestamp());
        let timestamp = own_time.max(self.writer.earliest_next(false).unwrap_or(own_time));
        self.declare_until(timestamp)?;
        self.mapping.move_to(self.mapping.unshifted(timestamp));
        if self.has_events {
            parameters::declare(&mut self.mapping, record, self.source.metadata(), self.writer)?;
        }
        let is_of_version = self.source.version_of(record) == self.writer.version();
        if count == record.len() as usize && is_of_version && !record.is_adapted() {
            if self.mapping.keeps_sets() && timestamp == record.timestamp() {
                return self.writer.write_whole(record);
            }
            let patches = self.patches.find(record, self.writer.version(), &self.mapping);
            if let Some(patches) = patches.filter(|_| !self.has_events) {
                return self.writer.write_patched(timestamp, record, patches);
            }
        }
        let mut sets = Vec::with_capacity(count);
        for set in record.value_sets() {
            if let Some(copied) = self.mapping.copied(set.pmid()) {
                sets.push(copied_set(self.source, record, set, &copied)?);
            }
        }
        self.writer.write_copied(timestamp, sets.into_iter()).or_else(|error| {
            let sets = readable_sets(self.source, &self.mapping, record)?;
            match sets.len() {
                // If the record cannot be read, that is the error.
                len if len == count => match record.to_owned(self.source.metadata()) {
                    Err(source) => Err(self.source.damaged(record, source)),
                    Ok(_) => Err(error),
                },
                0 => Ok(()),
                _ => self.writer.write_copied(timestamp, sets.into_iter()),
            }
        })
    }

    /// Counts the wanted sets of a record. Records of one shape have the same metrics.
    fn count_wanted(&mut self, record: &Record<'_>) -> usize {
        let shape = record.shape();
        if let Some((_, count)) = self.wanted.iter().find(|(known, _)| shape == Some(*known)) {
            return *count;
        }
        let count = record.value_sets().filter(|set| self.mapping.has(set.pmid())).count();
        if let Some(shape) = shape {
            self.wanted.truncate(MAX_SHAPES - 1);
            self.wanted.insert(0, (shape, count));
        }
        count
    }

    /// Declares the metadata up to a time of the new archive.
    fn declare_until(&mut self, timestamp: Timestamp) -> Result<()> {
        let until = self.mapping.unshifted(timestamp);
        let changes = self.changes.get_or_insert_with(|| {
            let is_whole = self.start <= self.source.start();
            let start = if is_whole { self.source.start().min(until) } else { until };
            Changes::new(self.source.metadata(), start)
        });
        while let Some((from, change)) = changes.next_until(until) {
            self.mapping.move_to(from);
            if self.mapping.declare(change, self.writer)? {
                self.writer.date_metadata(self.mapping.shifted(from))?;
            }
        }
        self.mapping.declare_added_labels(self.writer)
    }
}

/// Returns a set as it becomes.
fn copied_set<'r, 'm>(
    source: Source<'_>,
    record: &Record<'r>,
    set: ValueSetView<'r>,
    copied: &CopiedMetric<'m>,
) -> Result<CopiedSet<'r, 'm>> {
    let CopiedMetric { pmid, instances, new_numbers, .. } = *copied;
    let Some(change) = copied.values else {
        return Ok(CopiedSet::Stored { pmid, set, instances, new_numbers });
    };
    let mut values: Vec<(Option<InstanceId>, OwnedValue)> = Vec::with_capacity(set.len());
    for value in set.values(change.old.value_type) {
        let (instance, value) = value.map_err(|error| source.damaged(record, error))?;
        let is_copied =
            instances.is_none_or(|some| instance.is_some_and(|instance| some.contains(&instance)));
        if is_copied {
            values.push((instance, value.to_owned()));
        }
    }
    if let Some(error) = set.error() {
        return Ok(CopiedSet::Changed(ValueSet { pmid, values: Err(error) }));
    }
    let values = change.apply(values, new_numbers).map_err(|found| Error::Unconvertible {
        file: source.file_of(record),
        offset: record.offset(),
        name: found.name,
        value: found.value,
        value_type: found.value_type,
        rule: found.rule,
    })?;
    Ok(CopiedSet::Changed(ValueSet { pmid, values: Ok(values) }))
}

/// Returns the wanted sets of a record without those that are not stored as their type is; the
/// source remembers those.
fn readable_sets<'r, 'm>(
    source: Source<'_>,
    mapping: &'m Mapping,
    record: &Record<'r>,
) -> Result<Vec<CopiedSet<'r, 'm>>> {
    let mut sets = Vec::new();
    for set in record.value_sets() {
        let Some(copied) = mapping.copied(set.pmid()) else { continue };
        let Some(metric) = source.metadata().metric(set.pmid()) else { continue };
        let mut errors = set.values(metric.desc.value_type).filter_map(Result::err);
        match errors.find(|error| matches!(error, RecordError::ValueEncoding { .. })) {
            Some(error) => source.leave_out(record, error)?,
            None => sets.push(copied_set(source, record, set, &copied)?),
        }
    }
    Ok(sets)
}

#[cfg(test)]
mod tests;

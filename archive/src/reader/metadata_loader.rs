//! Reads a `.meta` file once, from front to back.

use std::collections::BTreeMap;
use std::path::Path;

use hashbrown::hash_map::Entry;

use super::indom_history;
use crate::files::{Damage, FileWindow, NextRecord, RecordFile, ScannedRecord, Scanner};
use crate::format::indom::OwnedIndomRecord;
use crate::format::{DescRecord, LabelRecord, MetadataRecord, metadata_record};
use crate::{
    ByteText, DescDifference, Error, InDom, IndomHistory, LabelDefect, LabelHistory, Metadata,
    Metric, Pmid, RecordError, Result, TornTail, Version,
};

/// Loads all metadata of an archive. A last record that was not written to its
/// end is returned too: its writer died, or still writes, and no data needs it
/// yet. It is an error if more was there: records after it, or the `indexed`
/// bytes that index entries refer to. `bad` decides whether a record that cannot be
/// used, but is between good ones, is passed by.
pub(super) fn load(
    file: &mut RecordFile,
    version: Version,
    indexed: u64,
    bad: impl FnMut(Error) -> Result<()>,
) -> Result<(Metadata, Option<TornTail>)> {
    let (metadata, offset, end) = load_good(file, version, bad)?;
    let NextRecord::Torn { needed, left } = end else { return Ok((metadata, None)) };
    if indexed > offset || is_followed(&file.path, version, offset)? {
        let field = "record";
        return Err(file.corrupt(offset, RecordError::Truncated { field, needed, left }));
    }
    let bytes = file.available(offset, 0, u64::MAX)?;
    Ok((metadata, Some(TornTail { file: file.path.clone(), offset, bytes })))
}

/// Returns whether a good record follows the damage.
fn is_followed(path: &Path, version: Version, offset: u64) -> Result<bool> {
    let file = RecordFile::open(path)?;
    let damage = Scanner::of_metadata(file, version).starting_at(offset).next()?;
    Ok(!matches!(damage, Some(ScannedRecord::Damage(Damage { is_tail: true, .. }))))
}

/// Loads the metadata as far as its records are complete: where they end, and
/// what is there.
pub(crate) fn load_whole(
    file: &mut RecordFile,
    version: Version,
) -> Result<(Metadata, u64, NextRecord)> {
    load_good(file, version, Err)
}

fn load_good(
    file: &mut RecordFile,
    version: Version,
    mut bad: impl FnMut(Error) -> Result<()>,
) -> Result<(Metadata, u64, NextRecord)> {
    let mut loader = MetadataLoader::default();
    let path = file.path.clone();
    let (offset, end) = each_record(file, version, |offset, record| {
        let added = record.and_then(|record| {
            loader.add(offset, record).map_err(|(pmid, difference)| {
                let file = path.clone();
                let difference = Box::new(difference);
                Error::DescChanged { file, offset, pmid, difference }
            })
        });
        added.or_else(&mut bad)
    })?;
    Ok((loader.finish(), offset, end))
}

/// Shows every record of the metadata that has its length words, and where it starts,
/// in file order; returns where they end, and what is there.
pub(crate) fn each_record<E: From<Error>>(
    file: &mut RecordFile,
    version: Version,
    mut show: impl FnMut(u64, Result<MetadataRecord<'_>>) -> Result<(), E>,
) -> Result<(u64, NextRecord), E> {
    let mut window = FileWindow::default();
    let mut offset = version.label_size();
    loop {
        let len = match window.forward(file, offset)? {
            NextRecord::Record(len) => len,
            end => return Ok((offset, end)),
        };
        let record = metadata_record::parse(version, window.get(offset, len).unwrap_or_default());
        show(offset, record.map_err(|source| file.corrupt(offset, source)))?;
        offset += len as u64;
    }
}

/// Metadata under construction, record by record in file order.
#[derive(Debug, Default)]
pub(crate) struct MetadataLoader {
    metadata: Metadata,
    /// The records of instance domains in file order.
    domains: BTreeMap<InDom, Vec<OwnedIndomRecord>>,
}

impl MetadataLoader {
    /// Returns the metadata of the records so far; domains and labels only after
    /// [`finish`](Self::finish).
    pub(crate) const fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Adds the next record, which starts at `offset`. A descriptor that contradicts the metric's
    /// first one is refused with the metric and the difference.
    pub(crate) fn add(
        &mut self,
        offset: u64,
        record: MetadataRecord<'_>,
    ) -> Result<(), (Pmid, DescDifference)> {
        let metadata = &mut self.metadata;
        match record {
            MetadataRecord::Desc(record) => add_desc(metadata, record)?,
            MetadataRecord::Indom(record) => {
                if !indom_history::is_ignored(&record) {
                    self.domains.entry(record.indom).or_default().push(record.to_owned());
                }
            }
            MetadataRecord::Label(record) => {
                metadata.label_defects.extend(label_defects(offset, &record));
                metadata
                    .labels
                    .entry(record.target)
                    .or_default()
                    .push(record.timestamp, record.sets);
            }
            MetadataRecord::Text(record) => {
                metadata
                    .texts
                    .insert((record.target, record.kind), ByteText::from_bytes(record.text));
            }
        }
        Ok(())
    }

    /// Returns the metadata of all records, sorted by time.
    pub(crate) fn finish(mut self) -> Metadata {
        for (indom, records) in self.domains {
            self.metadata.indoms.insert(indom, IndomHistory::from_records(records));
        }
        self.metadata.labels.values_mut().for_each(LabelHistory::sort);
        self.metadata
    }
}

/// Returns the sets that are lost, and those that are not JSON.
fn label_defects(offset: u64, record: &LabelRecord) -> impl Iterator<Item = LabelDefect> {
    let target = record.target;
    let not_json = record.sets.iter().filter(|set| !set.is_object());
    let not_json = not_json.map(|set| (set.instance, RecordError::NotJson { field: "JSON" }));
    record.lost.iter().cloned().chain(not_json).map(move |(instance, source)| LabelDefect {
        offset,
        target,
        instance,
        source,
    })
}

/// Adds a descriptor. A repeated one may add names; it must not change the metric.
fn add_desc(metadata: &mut Metadata, record: DescRecord<'_>) -> Result<(), (Pmid, DescDifference)> {
    let pmid = record.desc.pmid;
    let at = match metadata.by_pmid.entry(pmid) {
        Entry::Occupied(known) => *known.get(),
        Entry::Vacant(new) => {
            metadata.metrics.push(Metric { desc: record.desc, names: Vec::new() });
            *new.insert(metadata.metrics.len() - 1)
        }
    };
    let Some(metric) = metadata.metrics.get_mut(at) else { return Ok(()) };
    if let Some(difference) = record.desc.difference(&metric.desc) {
        return Err((pmid, difference));
    }
    for name in record.names {
        let name = ByteText::from_bytes(name);
        // A name that another metric has is ignored, as PCP does.
        metadata.by_name.entry(name).or_insert_with_key(|name| {
            metric.names.push(name.clone());
            at
        });
    }
    Ok(())
}

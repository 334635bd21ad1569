//! The metrics that events have as parameters.
//!
//! An event names its parameters by PMID, so their descriptors and names are
//! needed even if they are not selected. Only the events show which metrics
//! they are: each is declared before the first record that has it.
//! (pmlogextract leaves them out.)

use hashbrown::HashSet;

use super::mapping::Mapping;
use crate::format::event::EventArray;
use crate::{
    ArchiveWriter, LabelTarget, Metadata, Pmid, Record, Result, TextKind, TextTarget, Timestamp,
    Value,
};

/// Declares the parameters of a record's events that are not known yet, with
/// their help and labels.
pub(super) fn declare(
    mapping: &mut Mapping,
    record: &Record<'_>,
    metadata: &Metadata,
    writer: &mut ArchiveWriter,
) -> Result<()> {
    let mut found = HashSet::new();
    for set in record.value_sets() {
        let Some((desc, instances)) = mapping.events(set.pmid()) else { continue };
        // Values that cannot be read are reported when the record is copied.
        for (instance, value) in set.values(desc.value_type).flatten() {
            let is_wanted = instances.zip(instance).is_none_or(|(all, id)| all.contains(&id));
            if is_wanted {
                collect(value, &mut found);
            }
        }
    }
    declare_all(found, record.timestamp(), mapping, metadata, writer)
}

pub(in crate::writer) fn declare_all(
    found: HashSet<Pmid>,
    timestamp: Timestamp,
    mapping: &mut Mapping,
    metadata: &Metadata,
    writer: &mut ArchiveWriter,
) -> Result<()> {
    let mut found: Vec<Pmid> = found.into_iter().collect();
    found.sort_unstable();
    for pmid in found {
        if mapping.add_parameter(pmid, metadata) {
            declare_one(mapping, pmid, timestamp, metadata, writer)?;
        }
    }
    Ok(())
}

/// Adds all parameters of an event array to `found`; none of one that does not unpack.
pub(in crate::writer) fn collect(value: Value<'_>, found: &mut HashSet<Pmid>) {
    if let Ok(array) = EventArray::unpack(value) {
        found.extend(array.records().flat_map(|record| record.parameters()).map(|(pmid, _)| pmid));
    }
}

fn declare_one(
    mapping: &Mapping,
    pmid: Pmid,
    timestamp: Timestamp,
    metadata: &Metadata,
    writer: &mut ArchiveWriter,
) -> Result<()> {
    let Some(metric) = mapping.parameter(pmid) else { return Ok(()) };
    writer.declare_copied(metric, mapping.name_rules())?;
    let target = TextTarget::Metric(pmid);
    for kind in [TextKind::OneLine, TextKind::Full] {
        if let Some(text) = metadata.text(target, kind) {
            writer.declare_text(target, kind, text)?;
        }
    }
    let target = LabelTarget::Item(pmid);
    if let Some(sets) = metadata.labels_at(target, timestamp) {
        writer.declare_labels(target, sets)?;
    }
    Ok(())
}

//! The metrics that events have as parameters.
//!
//! An event names its parameters by their PMIDs. Without descriptors and names
//! of them nobody knows afterwards what they are, even where none of them was
//! asked for. Which metrics they are only the events say: each is declared in
//! front of the first record that has it. (pmlogextract leaves them out.)

use hashbrown::HashSet;
use pcp_types::{Pmid, Timestamp};

use super::plan::Plan;
use crate::Record;
use crate::copy::Change;
use crate::error::Result;
use crate::event::EventArray;
use crate::format::labelset::LabelTarget;
use crate::format::text::{TextKind, TextTarget};
use crate::reader::Metadata;
use crate::value::Value;
use crate::writer::ArchiveWriter;

/// Declares the parameters of a record's events that are not known yet, with
/// their help and labels.
pub(super) fn declare(
    plan: &mut Plan,
    record: &Record<'_>,
    metadata: &Metadata,
    writer: &mut ArchiveWriter,
) -> Result<()> {
    let mut found = HashSet::new();
    for set in record.value_sets() {
        let Some((desc, instances)) = plan.events(set.pmid()) else { continue };
        // What cannot be read is the business of whoever copies the record.
        for (instance, value) in set.values(desc.value_type).flatten() {
            let is_wanted = instances.zip(instance).is_none_or(|(all, id)| all.contains(&id));
            if is_wanted {
                collect(value, &mut found);
            }
        }
    }
    let mut found: Vec<Pmid> = found.into_iter().collect();
    found.sort_unstable();
    for pmid in found {
        if plan.add_parameter(pmid, metadata) {
            declare_one(plan, pmid, record.timestamp(), metadata, writer)?;
        }
    }
    Ok(())
}

/// All parameters of an event array; none of one that does not unpack.
fn collect(value: Value<'_>, found: &mut HashSet<Pmid>) {
    if let Ok(array) = EventArray::unpack(value) {
        found.extend(array.records().flat_map(|record| record.parameters()).map(|(pmid, _)| pmid));
    }
}

fn declare_one(
    plan: &Plan,
    pmid: Pmid,
    stamp: Timestamp,
    metadata: &Metadata,
    writer: &mut ArchiveWriter,
) -> Result<()> {
    let Some(metric) = plan.parameter(pmid) else { return Ok(()) };
    Change::Metric(metric).declare(writer)?;
    let target = TextTarget::Metric(pmid);
    for kind in [TextKind::OneLine, TextKind::Full] {
        if let Some(text) = metadata.text(target, kind) {
            writer.declare_text(target, kind, text)?;
        }
    }
    let target = LabelTarget::Item(pmid);
    if let Some(sets) = metadata.labels_at(target, stamp) {
        writer.declare_labels(target, sets)?;
    }
    Ok(())
}

//! Filters what fits of metadata records.
//!
//! In: metadata records in the order of the new file. Out: the same records without
//! what readers ignore there anyway, because other records are lost or repeated: of
//! differences of instance domains the entries that change nothing, of instances that
//! are listed twice the second. Sets of labels whose table does not fit their JSON
//! are left out, since their text cannot be trusted; sets that are not UTF-8 are kept to the
//! byte. Names of metrics that readers do not find are replaced (`repair/name_filter.rs`).

use hashbrown::{HashMap, HashSet};

use super::Renamed;
use super::name_filter::NameFilter;
use crate::check::label_defect;
use crate::format::indom::IndomRecord;
use crate::format::labelset::RawSet;
use crate::format::{IndomRecordKind, MetadataRecord, desc, indom, labelset, metadata_record};
use crate::{EncodeError, InDom, InstanceId, LabelClass, Metadata, RecordError, Version};

/// The fate of a record.
#[derive(Debug)]
pub(super) enum FilteredRecord {
    Whole,
    /// These bytes take its place. With a reason if something is lost.
    Changed(Vec<u8>, Option<String>),
    /// Copied with other names.
    Renamed(Vec<u8>, Vec<Renamed>),
    /// Nothing of it is left. With a reason if something is lost.
    Nothing(Option<String>),
}

/// Decides about one record after the other.
pub(super) struct MetadataFilter<'m> {
    /// The instances of each domain after the records so far.
    domains: HashMap<InDom, HashSet<InstanceId>>,
    names: NameFilter<'m>,
}

impl<'m> MetadataFilter<'m> {
    /// For the records of an archive with this metadata.
    pub(super) fn new(metadata: &'m Metadata) -> Self {
        Self { domains: HashMap::new(), names: NameFilter::new(metadata) }
    }

    /// The next record of the new file, which is a good one.
    ///
    /// # Errors
    ///
    /// None that the limits of the format allow: what remains of a record is smaller.
    pub(super) fn pass(
        &mut self,
        version: Version,
        bytes: &[u8],
    ) -> Result<FilteredRecord, EncodeError> {
        match metadata_record::parse(version, bytes) {
            Ok(MetadataRecord::Indom(record)) => self.pass_indom(version, &record, bytes),
            Ok(MetadataRecord::Label(_)) => pass_labels(version, bytes),
            Ok(MetadataRecord::Desc(record)) => {
                let Some((names, renamed)) = self.names.pass(&record) else {
                    return Ok(FilteredRecord::Whole);
                };
                let mut changed = Vec::with_capacity(bytes.len());
                desc::encode(&record.desc, &names, &mut changed)?;
                Ok(FilteredRecord::Renamed(changed, renamed))
            }
            _ => Ok(FilteredRecord::Whole),
        }
    }

    fn pass_indom(
        &mut self,
        version: Version,
        record: &IndomRecord<'_>,
        bytes: &[u8],
    ) -> Result<FilteredRecord, EncodeError> {
        let mut seen = HashSet::new();
        let known = self.domains.get_mut(&record.indom);
        let kind = if known.is_some() { record.kind } else { IndomRecordKind::Full };
        let keep: Vec<bool> = match known {
            Some(known) if kind == IndomRecordKind::Delta => record
                .entries()
                .map(|(id, name)| {
                    let is_first = seen.insert(id);
                    is_first && if name.is_some() { known.insert(id) } else { known.remove(&id) }
                })
                .collect(),
            // A difference with nothing before it counts as the whole domain.
            _ => {
                let entries = record.entries();
                let keep = entries.map(|(id, name)| name.is_some() && seen.insert(id)).collect();
                // Readers ignore a whole domain without instances.
                if !seen.is_empty() {
                    self.domains.insert(record.indom, seen);
                }
                keep
            }
        };
        if kind == record.kind && keep.iter().all(|keep| *keep) {
            return Ok(FilteredRecord::Whole);
        }
        if !keep.contains(&true) {
            return Ok(FilteredRecord::Nothing(None));
        }
        let mut changed = Vec::with_capacity(bytes.len());
        indom::encode_part(version, kind, record, &keep, &mut changed)?;
        Ok(FilteredRecord::Changed(changed, None))
    }
}

fn pass_labels(version: Version, bytes: &[u8]) -> Result<FilteredRecord, EncodeError> {
    let Ok(mut labels) = labelset::raw(version, bytes) else { return Ok(FilteredRecord::Whole) };
    let has_instances = labels.target.class() == LabelClass::Instances;
    let misplaced = labels.sets.iter().any(|set| set.instance.is_some() && !has_instances);
    let reason = labels.sets.iter().find_map(defect);
    if reason.is_none() && !misplaced {
        return Ok(FilteredRecord::Whole);
    }
    let reason = reason.map(|what| format!("labels of {}: {what}", labels.target));
    labels.sets.retain(|set| defect(set).is_none());
    if labels.sets.is_empty() {
        return Ok(FilteredRecord::Nothing(reason));
    }
    let mut changed = Vec::with_capacity(bytes.len());
    // Readers ignore the number of an instance that is misplaced.
    labelset::encode_raw(version, &labels, misplaced, &mut changed)?;
    Ok(FilteredRecord::Changed(changed, reason))
}

/// Returns the reason why a set cannot be kept. Bytes that are not UTF-8 are not damage.
fn defect(set: &RawSet<'_>) -> Option<String> {
    match &set.set {
        Ok(set) => label_defect(set).map(str::to_owned),
        Err(RecordError::NotUtf8 { .. }) => None,
        Err(error) => Some(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ByteText, Timestamp};

    fn id(number: i32) -> InstanceId {
        InstanceId::new(number).unwrap()
    }

    /// A record of a domain with names for positive and without for negative numbers.
    fn record(kind: IndomRecordKind, numbers: &[i32]) -> Vec<u8> {
        let text = ByteText::from("name");
        let entries = numbers.iter().map(|n| (id(n.abs()), (*n > 0).then_some(&text)));
        let entries: Vec<_> = entries.collect();
        let domain = InDom::new(70, 1).unwrap();
        let mut out = Vec::new();
        indom::encode(Version::V3, kind, Timestamp::EPOCH, domain, &entries, &mut out).unwrap();
        out
    }

    /// Numbers as in [`record`] of what passes; `None` if nothing does.
    fn passed(
        filter: &mut MetadataFilter<'_>,
        bytes: &[u8],
    ) -> Option<(IndomRecordKind, Vec<i32>)> {
        let changed = match filter.pass(Version::V3, bytes).unwrap() {
            FilteredRecord::Whole => bytes.to_vec(),
            FilteredRecord::Changed(bytes, None) => bytes,
            FilteredRecord::Nothing(None) => return None,
            other => panic!("{other:?}"),
        };
        let Ok(MetadataRecord::Indom(record)) = metadata_record::parse(Version::V3, &changed)
        else {
            panic!("{changed:?}")
        };
        assert!(record.names().iter().all(|(_, name)| *name == b"name"));
        let numbers =
            record.entries().map(|(id, name)| if name.is_some() { id.get() } else { -id.get() });
        Some((record.kind, numbers.collect()))
    }

    #[test]
    fn only_entries_that_change_something_pass() {
        let metadata = Metadata::default();
        let mut filter = MetadataFilter::new(&metadata);
        let mut pass = |kind, numbers: &[i32]| passed(&mut filter, &record(kind, numbers));
        let full = IndomRecordKind::Full;
        let delta = IndomRecordKind::Delta;
        assert_eq!(pass(delta, &[-7, 1]), Some((full, vec![1])), "with nothing before it");
        assert_eq!(pass(full, &[1, 2, 2]), Some((full, vec![1, 2])));
        assert_eq!(pass(delta, &[-1, 3]), Some((delta, vec![-1, 3])));
        assert_eq!(pass(delta, &[-1, 3]), None, "applied twice");
        assert_eq!(pass(delta, &[-9, 2, 4, -3]), Some((delta, vec![4, -3])));
    }
}

//! Filters what fits of metadata records.
//!
//! In: metadata records in the order of the new file. Out: the same records without
//! what readers ignore there anyway, because other records are lost or repeated: of
//! differences of instance domains the entries that change nothing, of instances that
//! are listed twice the second. Sets of labels whose table does not fit their JSON
//! are left out, since their text cannot be trusted.

use hashbrown::{HashMap, HashSet};

use crate::check::label_defect;
use crate::format::indom::IndomRecord;
use crate::format::labelset::LabelRecord;
use crate::format::{Kind, MetadataRecord, indom, labelset, metadata_record};
use crate::{EncodeError, InDom, InstanceId, LabelClass, Version};

/// What becomes of a record.
#[derive(Debug)]
pub(super) enum Passed {
    /// It is copied.
    Whole,
    /// These bytes take its place. With a reason if something is lost.
    Changed(Vec<u8>, Option<&'static str>),
    /// Nothing of it is left. With a reason if something is lost.
    Nothing(Option<&'static str>),
}

/// Decides about one record after the other.
#[derive(Default)]
pub(super) struct MetadataFilter {
    /// The instances of each domain after the records so far.
    domains: HashMap<InDom, HashSet<InstanceId>>,
}

impl MetadataFilter {
    /// The next record of the new file, which is a good one.
    ///
    /// # Errors
    ///
    /// None that the limits of the format allow: what remains of a record is smaller.
    pub(super) fn pass(&mut self, version: Version, bytes: &[u8]) -> Result<Passed, EncodeError> {
        match metadata_record::parse(version, bytes) {
            Ok(MetadataRecord::Indom(record)) => self.pass_indom(version, &record, bytes),
            Ok(MetadataRecord::Label(record)) => pass_labels(version, record),
            _ => Ok(Passed::Whole),
        }
    }

    fn pass_indom(
        &mut self,
        version: Version,
        record: &IndomRecord<'_>,
        bytes: &[u8],
    ) -> Result<Passed, EncodeError> {
        let mut seen = HashSet::new();
        let known = self.domains.get_mut(&record.indom);
        let kind = if known.is_some() { record.kind } else { Kind::Full };
        let keep: Vec<bool> = match known {
            Some(known) if kind == Kind::Delta => {
                let fits = |(id, name): (InstanceId, Option<u32>)| {
                    let is_first = seen.insert(id);
                    is_first && if name.is_some() { known.insert(id) } else { known.remove(&id) }
                };
                record.entries().map(fits).collect()
            }
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
            return Ok(Passed::Whole);
        }
        if !keep.contains(&true) {
            return Ok(Passed::Nothing(None));
        }
        let mut changed = Vec::with_capacity(bytes.len());
        indom::encode_part(version, kind, record, &keep, &mut changed)?;
        Ok(Passed::Changed(changed, None))
    }
}

fn pass_labels(version: Version, record: LabelRecord) -> Result<Passed, EncodeError> {
    let LabelRecord { timestamp, target, mut sets, lost } = record;
    if !lost.is_empty() {
        // Sets that are not UTF-8 can only be kept as they are.
        return Ok(Passed::Whole);
    }
    let has_instances = target.class() == LabelClass::Instances;
    let misplaced = sets.iter().any(|set| set.instance.is_some() && !has_instances);
    let reason = sets.iter().find_map(label_defect);
    if reason.is_none() && !misplaced {
        return Ok(Passed::Whole);
    }
    sets.retain(|set| label_defect(set).is_none());
    if sets.is_empty() {
        return Ok(Passed::Nothing(reason));
    }
    if misplaced {
        // Readers ignore the number.
        for set in &mut sets {
            set.instance = None;
        }
    }
    let mut changed = Vec::new();
    labelset::encode(version, timestamp, target, &sets, &mut changed)?;
    Ok(Passed::Changed(changed, reason))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ByteText, Timestamp};

    fn id(number: i32) -> InstanceId {
        InstanceId::new(number).unwrap()
    }

    /// A record of a domain with names for positive and without for negative numbers.
    fn record(kind: Kind, numbers: &[i32]) -> Vec<u8> {
        let text = ByteText::from("name");
        let name = |number: i32| (number > 0).then_some(&text);
        let entries: Vec<_> = numbers.iter().map(|n| (id(n.abs()), name(*n))).collect();
        let (domain, mut out) = (InDom::new(70, 1).unwrap(), Vec::new());
        indom::encode(Version::V3, kind, Timestamp::EPOCH, domain, &entries, &mut out).unwrap();
        out
    }

    /// Numbers as in [`record`] of what passes; `None` if nothing does.
    fn passed(filter: &mut MetadataFilter, bytes: &[u8]) -> Option<(Kind, Vec<i32>)> {
        let changed = match filter.pass(Version::V3, bytes).unwrap() {
            Passed::Whole => bytes.to_vec(),
            Passed::Changed(bytes, None) => bytes,
            Passed::Nothing(None) => return None,
            other => panic!("{other:?}"),
        };
        let Ok(MetadataRecord::Indom(record)) = metadata_record::parse(Version::V3, &changed)
        else {
            panic!("{changed:?}")
        };
        assert!(record.names().iter().all(|(_, name)| *name == b"name"));
        let sign = |(id, name): (InstanceId, Option<u32>)| {
            if name.is_some() { id.get() } else { -id.get() }
        };
        Some((record.kind, record.entries().map(sign).collect()))
    }

    #[test]
    fn only_entries_that_change_something_pass() {
        let mut filter = MetadataFilter::default();
        let mut pass = |kind, numbers: &[i32]| passed(&mut filter, &record(kind, numbers));
        let (full, delta) = (Kind::Full, Kind::Delta);
        assert_eq!(pass(delta, &[-7, 1]), Some((full, vec![1])), "with nothing before it");
        assert_eq!(pass(full, &[1, 2, 2]), Some((full, vec![1, 2])));
        assert_eq!(pass(delta, &[-1, 3]), Some((delta, vec![-1, 3])));
        assert_eq!(pass(delta, &[-1, 3]), None, "applied twice");
        assert_eq!(pass(delta, &[-9, 2, 4, -3]), Some((delta, vec![4, -3])));
    }
}

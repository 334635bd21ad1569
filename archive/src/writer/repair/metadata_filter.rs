//! Filters what fits of metadata records.
//!
//! In: metadata records in the order of the new file. Out: the same records without
//! what readers ignore there anyway, because other records are lost or repeated: of
//! differences of instance domains the entries that change nothing, of instances that
//! are listed twice the second. Sets of labels whose table does not fit their JSON
//! are left out, since their text cannot be trusted; sets that are not UTF-8 are kept to the
//! byte. Names by which PCP's readers find no metric or another one are replaced: the new name is
//! the old one and the PMID, `a.b_70_1_2`.

use hashbrown::{HashMap, HashSet};

use super::MetricRename;
use crate::check::label_defect;
use crate::format::DescRecord;
use crate::format::indom::BorrowedIndomRecord;
use crate::format::labelset::RawSet;
use crate::format::{IndomRecordKind, MetadataRecord, desc, indom, labelset, metadata_record};
use crate::{
    ByteText, EncodeError, InDom, InstanceId, LabelClass, Metadata, Pmid, RecordError, Version,
};

#[derive(Debug)]
pub(super) enum FilteredRecord {
    Whole,
    /// These bytes take its place. With a reason if something is lost.
    Changed(Vec<u8>, Option<String>),
    /// Copied with other names.
    Renamed(Vec<u8>, Vec<MetricRename>),
    /// Nothing of it is left. With a reason if something is lost.
    Nothing(Option<String>),
}

/// Decides about one record after the other.
pub(super) struct MetadataFilter<'m> {
    /// The instances of each domain after the records so far.
    domains: HashMap<InDom, HashSet<InstanceId>>,
    old: &'m Metadata,
}

impl<'m> MetadataFilter<'m> {
    pub(super) fn new(metadata: &'m Metadata) -> Self {
        Self { domains: HashMap::new(), old: metadata }
    }

    /// Filters the next record of the new file, which is a good one.
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
            Ok(MetadataRecord::Label(_)) => filter_labels(version, bytes),
            Ok(MetadataRecord::Desc(record)) => self.pass_desc(&record),
            _ => Ok(FilteredRecord::Whole),
        }
    }

    fn pass_indom(
        &mut self,
        version: Version,
        record: &BorrowedIndomRecord<'_>,
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

    fn pass_desc(&self, record: &DescRecord<'_>) -> Result<FilteredRecord, EncodeError> {
        let pmid = record.desc.pmid;
        let mut names = Vec::with_capacity(record.names.len());
        let mut renamed = Vec::new();
        for name in &record.names {
            let old = ByteText::from_bytes(name);
            let Some(reason) = self.name_defect(name, &old, pmid) else {
                names.push(old);
                continue;
            };
            let new = self.free_name(name, pmid);
            names.push(new.clone());
            renamed.push(MetricRename { pmid, old, new, reason });
        }
        if renamed.is_empty() {
            return Ok(FilteredRecord::Whole);
        }
        let mut changed = Vec::new();
        desc::encode(&record.desc, &names, &mut changed)?;
        Ok(FilteredRecord::Renamed(changed, renamed))
    }

    /// Returns the reason why PCP's readers do not find a metric by its name.
    fn name_defect(&self, name: &[u8], text: &ByteText, pmid: Pmid) -> Option<String> {
        if name.contains(&0) {
            return Some("PCP's readers cut a name at a NUL".to_owned());
        }
        if let Err(error) = desc::check_len(name) {
            return Some(error.to_string());
        }
        let owner = self.old.metric_by_name(text)?.desc.pmid;
        (owner != pmid).then(|| format!("metric {owner} has this name"))
    }

    /// Returns a name that no metric has: as much of the old one as PCP's readers take, and the
    /// PMID. Names of two metrics differ in the PMID, and in the last part from all without one.
    fn free_name(&self, name: &[u8], pmid: Pmid) -> ByteText {
        let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
        let mut suffix = format!("_{}_{}_{}", pmid.domain(), pmid.cluster(), pmid.item());
        loop {
            let room = desc::MAX_NAME.saturating_sub(suffix.len()).min(end);
            let kept = name.get(..room).unwrap_or(name);
            let new = ByteText::from_bytes(&[kept, suffix.as_bytes()].concat());
            if self.old.metric_by_name(&new).is_none() {
                return new;
            }
            suffix.push('x');
        }
    }
}

fn filter_labels(version: Version, bytes: &[u8]) -> Result<FilteredRecord, EncodeError> {
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
    use crate::reader::MetadataLoader;
    use crate::{MetricDesc, Semantics, Timestamp, Units, ValueType};

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

    fn desc_record(item: u32, name: &[u8]) -> DescRecord<'_> {
        let desc = MetricDesc {
            pmid: Pmid::new(70, 1, item).unwrap(),
            value_type: ValueType::U32,
            indom: None,
            semantics: Semantics::Instant,
            units: Units::from_raw(0),
        };
        DescRecord { desc, names: vec![name] }
    }

    /// Returns the names of metrics 70.1.0, 70.1.1 and so on after the filter.
    fn passed_names(names: &[&[u8]]) -> Vec<Vec<u8>> {
        let records: Vec<_> =
            (0..).zip(names).map(|(item, name)| desc_record(item, name)).collect();
        let mut loader = MetadataLoader::default();
        for record in &records {
            loader.add(0, MetadataRecord::Desc(record.clone())).unwrap();
        }
        let metadata = loader.finish();
        let filter = MetadataFilter::new(&metadata);
        let mut names = Vec::new();
        for record in &records {
            match filter.pass_desc(record).unwrap() {
                FilteredRecord::Whole => names.push(record.names[0].to_vec()),
                FilteredRecord::Renamed(changed, renamed) => {
                    let changed = metadata_record::parse(Version::V3, &changed).unwrap();
                    let MetadataRecord::Desc(changed) = changed else { panic!("{changed:?}") };
                    assert_eq!(changed.desc, record.desc);
                    assert_eq!(*renamed[0].new.to_bytes(), *changed.names[0]);
                    names.push(changed.names[0].to_vec());
                }
                other => panic!("{other:?}"),
            }
        }
        names
    }

    #[test]
    fn names_that_readers_find_are_kept() {
        let names: [&[u8]; 5] = [b"a.b", b"a c", b"\xff", br"a\x00b", b"40.4"];
        assert_eq!(passed_names(&names), names);
    }

    #[test]
    fn names_by_which_readers_find_no_metric_get_the_pmid() {
        let names: [&[u8]; 5] = [b"a.b", b"a.b", b"a.b_70_1_1", b"a.b\0c", b"\0"];
        let expected: [&[u8]; 5] =
            [b"a.b", b"a.b_70_1_1x", b"a.b_70_1_1", b"a.b_70_1_3", b"_70_1_4"];
        assert_eq!(passed_names(&names), expected);
    }

    #[test]
    fn a_name_that_readers_cannot_hold_is_cut() {
        let fits = [b'x'; 4095];
        let longer = [b'x'; 4096];
        let other = [b'x'; 5000];
        let new = passed_names(&[&fits, &longer, &other]);
        assert_eq!(new[0], fits);
        for (name, mark) in new.iter().skip(1).zip(["xxx_70_1_1", "xxx_70_1_2"]) {
            assert_eq!(name.len(), 4095);
            assert!(name.ends_with(mark.as_bytes()), "{mark}");
        }
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

//! Metadata: descriptors, domains, labels, and the order of their times.

use std::path::PathBuf;

use pcp_types::json;
use pcp_types::names::check_metric_name;

use super::domains::Domains;
use super::{Checker, Defect, Report};
use crate::files::{ScannedRecord, Scanner};
use crate::format::{DescRecord, LabelRecord, MetadataRecord, Role, desc, metadata_record};
use crate::reader::MetadataLoader;
use crate::{
    ByteText, EncodeError, LabelClass, LabelSet, Metadata, MetricDesc, Pmid, Result, Timestamp,
    Units, Version,
};

/// Domain 511 holds the metrics that clients derive.
const DERIVED_DOMAIN: u32 = 511;
/// The largest scales that pmlogcheck knows, exbyte and hour.
const MAX_SCALES: [u32; 2] = [6, 5];
/// The largest power of a dimension in units that make sense.
const MAX_DIMENSION: i32 = 2;

/// The result of the pass over the metadata.
#[derive(Default)]
pub(super) struct CheckedMetadata {
    pub(super) metadata: Metadata,
    /// Offsets and times of the records that have a time.
    pub(super) timestamps: Vec<(u64, Timestamp)>,
}

impl Checker {
    pub(super) fn check_metadata(&mut self) -> Result<CheckedMetadata> {
        let Some(path) = self.files.metadata.clone() else { return Ok(CheckedMetadata::default()) };
        let Some(file) = self.open(&path, Role::Metadata)? else {
            return Ok(CheckedMetadata::default());
        };
        let version = self.label.version;
        let mut pass = MetadataPass {
            path,
            version,
            report: &mut self.report,
            loader: MetadataLoader::default(),
            domains: Domains::default(),
            timestamps: Vec::new(),
        };
        let mut scanner = Scanner::of_metadata(file, version);
        let mut is_empty = true;
        while let Some(piece) = scanner.next()? {
            is_empty = false;
            match piece {
                ScannedRecord::Record { offset, len } => {
                    pass.check(offset, scanner.bytes(offset, len));
                }
                ScannedRecord::Damage(damage) => {
                    pass.report
                        .add_damage(&pass.path, damage, |source| Defect::TornMetadata { source });
                }
            }
        }
        if is_empty {
            pass.report.add(&pass.path, version.label_size(), Defect::NoRecords);
        }
        let MetadataPass { loader, timestamps, .. } = pass;
        self.check_timestamps(&timestamps);
        Ok(CheckedMetadata { metadata: loader.finish(), timestamps })
    }

    fn check_timestamps(&mut self, timestamps: &[(u64, Timestamp)]) {
        let Some(path) = self.files.metadata.clone() else { return };
        let start = self.label.start;
        let mut last = None;
        for (offset, found) in timestamps.iter().copied() {
            if found < start {
                let defect = Defect::MetadataBeforeStart { found, start };
                self.report.add(&path, offset, defect);
            }
            if let Some(before) = last.replace(found).filter(|before| found < *before) {
                self.report.add(&path, offset, Defect::MetadataBackwards { found, before });
            }
        }
    }

    /// Reports metadata that is later than the last data record.
    pub(super) fn check_metadata_end(
        &mut self,
        timestamps: &[(u64, Timestamp)],
        end: Option<Timestamp>,
    ) {
        let (Some(path), Some(end)) = (self.files.metadata.clone(), end) else { return };
        for (offset, found) in timestamps.iter().copied().filter(|(_, timestamp)| *timestamp > end)
        {
            self.report.add(&path, offset, Defect::MetadataAfterEnd { found, end });
        }
    }
}

struct MetadataPass<'r> {
    path: PathBuf,
    version: Version,
    report: &'r mut Report,
    loader: MetadataLoader,
    domains: Domains,
    timestamps: Vec<(u64, Timestamp)>,
}

impl MetadataPass<'_> {
    fn check(&mut self, offset: u64, bytes: &[u8]) {
        let record = match metadata_record::parse(self.version, bytes) {
            Ok(record) => record,
            Err(source) => {
                self.report.add(&self.path, offset, Defect::Metadata { source });
                return;
            }
        };
        let report = &mut *self.report;
        let path = &self.path;
        let mut add = |defect| report.add(path, offset, defect);
        match &record {
            MetadataRecord::Desc(desc) => {
                check_desc(&desc.desc, &mut add);
                check_names(&self.loader, desc, &mut add);
            }
            MetadataRecord::Indom(indom) => {
                self.timestamps.push((offset, indom.timestamp));
                self.domains.check(indom, &mut add);
            }
            MetadataRecord::Label(labels) => {
                self.timestamps.push((offset, labels.timestamp));
                check_labels(labels, &mut add);
            }
            MetadataRecord::Text(_) => {}
        }
        if let Err((pmid, difference)) = self.loader.add(offset, record) {
            report.add(path, offset, Defect::DescChanged { pmid, difference });
        }
    }
}

fn check_desc(desc: &MetricDesc, add: &mut impl FnMut(Defect)) {
    let pmid = desc.pmid;
    if let Some(indom) = desc.indom
        && indom.domain() != pmid.domain()
        && pmid.domain() != DERIVED_DOMAIN
    {
        add(Defect::DescIndom { pmid, indom });
    }
    check_units(desc.units, |field, found| {
        add(Defect::DescUnits { pmid, units: desc.units, field, found });
    });
}

/// Checks units by pmlogcheck's rules, except that zetta- and yottabytes are legal.
fn check_units(units: Units, mut add: impl FnMut(&'static str, i64)) {
    let dimensions = [
        ("space dimension", units.space_dimension(), "space scale", i64::from(units.space_scale())),
        ("time dimension", units.time_dimension(), "time scale", i64::from(units.time_scale())),
        ("count dimension", units.count_dimension(), "count scale", units.count_scale().into()),
    ];
    for (name, dimension, scale_name, scale) in dimensions {
        if dimension.abs() > MAX_DIMENSION {
            add(name, dimension.into());
        }
        if dimension == 0 && scale != 0 {
            add(scale_name, scale);
        }
    }
    for ((_, dimension, name, scale), max) in dimensions.into_iter().zip(MAX_SCALES) {
        if dimension != 0 && scale > i64::from(max) {
            add(name, scale);
        }
    }
}

/// Returns the fault of a name that matters most: a NUL, at which PCP's readers cut the name;
/// what no program expects in one; what pmns(5) does not allow.
fn name_defect(name: &[u8], pmid: Pmid) -> Option<Defect> {
    let nul = name.iter().position(|byte| *byte == 0);
    let worst = nul.or_else(|| name.iter().position(|byte| !byte.is_ascii_graphic()));
    let at = worst.or_else(|| Some(check_metric_name(name).err()?.position()))?;
    let shown = ByteText::without_controls(&ByteText::escape(name)).into_owned();
    Some(match name.get(at) {
        Some(&byte) if byte != b'.' => Defect::MetricName { name: shown, pmid, at, byte },
        _ => Defect::MetricNamePart { name: shown, pmid, at },
    })
}

fn check_names(loader: &MetadataLoader, record: &DescRecord<'_>, add: &mut impl FnMut(Defect)) {
    let pmid = record.desc.pmid;
    for name in &record.names {
        name_defect(name, pmid).into_iter().for_each(&mut *add);
        if let Err(EncodeError::TooLarge { found, max, .. }) = desc::check_len(name) {
            add(Defect::MetricNameLength { pmid, found, max });
        }
        let name = ByteText::from_bytes(name);
        let owner = loader.metadata().metric_by_name(&name).map(|metric| metric.desc.pmid);
        if let Some(owner) = owner.filter(|owner| *owner != pmid) {
            add(Defect::NameTaken { name, pmid, owner });
        }
    }
}

fn check_labels(record: &LabelRecord, add: &mut impl FnMut(Defect)) {
    for (_, source) in &record.lost {
        let target = format!("{:?}", record.target);
        add(Defect::LabelSet { target, source: source.clone() });
    }
    if record.target.class() != LabelClass::Instances {
        for id in record.sets.iter().filter_map(|set| set.instance) {
            add(Defect::LabelInstance { target: format!("{:?}", record.target), id });
        }
    }
    for what in record.sets.iter().filter_map(label_defect) {
        add(Defect::LabelJson { target: format!("{:?}", record.target), what });
    }
}

pub(crate) fn label_defect(set: &LabelSet) -> Option<&'static str> {
    if set.json.is_empty() {
        return None;
    }
    if !set.is_object() {
        return Some("not one JSON object");
    }
    for (label, (_, value, _)) in set.labels.iter().zip(set.pairs()) {
        let before = label.name.start.checked_sub(1).and_then(|at| set.json.as_bytes().get(at));
        let after = set.json.as_bytes().get(label.name.end);
        if before != Some(&b'"') || after != Some(&b'"') {
            return Some("a name that is not between quotes");
        }
        if !json::is_value(value) {
            return Some("a value that is not JSON");
        }
    }
    let names = set.pairs().map(|(name, _, _)| name);
    (!names.is_sorted_by(|name, next| name < next)).then_some("names out of order")
}

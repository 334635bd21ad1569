//! A few archives with all that the format has, in place of the corpus.

use std::sync::OnceLock;

use pcp_archive::raw::event::{EventArrayBuilder, EventFlags};
use pcp_archive::raw::{
    FetchResult, LabelClass, LabelSet, LabelTarget, TextKind, TextTarget, ValueSet,
};
use pcp_archive::{
    ArchiveWriter, InDom, Instance, InstanceId, MetricDesc, OwnedValue, Pmid, Semantics, Timestamp,
    Units, Value, ValueType, Version, WriterLabel, WriterOptions,
};

use super::corpus::CorpusArchive;
use super::scratch::Scratch;

/// The value types of metrics, in the order of their items.
const TYPES: [ValueType; 8] = [
    ValueType::I32,
    ValueType::U32,
    ValueType::I64,
    ValueType::U64,
    ValueType::Float,
    ValueType::Double,
    ValueType::String,
    ValueType::Aggregate,
];
/// Records of an archive, of which the one in the middle is a mark.
const RECORDS: u64 = 60;
/// Time of the first record, in 2023. Records are about a second apart, not always exactly.
const START: i128 = 1_700_000_000_123_456_000;

/// Returns an archive in one volume, one in several, and one in version 2. They are written once.
pub(crate) fn all() -> Vec<CorpusArchive> {
    static ARCHIVES: OnceLock<(Scratch, Vec<CorpusArchive>)> = OnceLock::new();
    let (_, archives) = ARCHIVES.get_or_init(|| {
        let scratch = Scratch::new();
        let write = |name: &str, version, volumes| {
            let base = scratch.path().join(name);
            let label = WriterLabel {
                pid: 4711,
                hostname: "example".into(),
                timezone: "UTC".into(),
                zoneinfo: "".into(),
            };
            let options = WriterOptions { version, index_bytes: 2_000, ..Default::default() };
            let mut writer = ArchiveWriter::create_with(&base, label, options).unwrap();
            fill(&mut writer, volumes);
            writer.finish().unwrap();
            CorpusArchive { name: name.to_owned(), base }
        };
        let archives = vec![
            write("one-volume", Version::V3, 1),
            write("three-volumes", Version::V3, 3),
            write("version-2", Version::V2, 2),
        ];
        (scratch, archives)
    });
    archives.clone()
}

fn indom() -> InDom {
    InDom::new(70, 2049).unwrap()
}

/// Returns the PMID of the metric of a type: in cluster 1 it is singular, in cluster 2 it has
/// instances.
fn pmid(cluster: u32, at: usize) -> Pmid {
    Pmid::new(70, cluster, 1 + at as u32).unwrap()
}

fn events() -> Pmid {
    Pmid::new(70, 3, 1).unwrap()
}

/// Returns the instances at a step: one appears late, one disappears early.
fn instances(step: u64) -> Vec<Instance> {
    let all = [(2, "left", 0..RECORDS), (5, "mid dle", 20..RECORDS), (9, "right", 0..40)];
    let there = all.into_iter().filter(|(.., time)| time.contains(&step));
    there
        .map(|(id, name, _)| Instance { id: InstanceId::new(id).unwrap(), name: name.into() })
        .collect()
}

fn declare(writer: &mut ArchiveWriter) {
    let semantics = |value_type| match value_type {
        ValueType::U32 | ValueType::U64 => Semantics::Counter,
        ValueType::String | ValueType::Aggregate => Semantics::Discrete,
        _ => Semantics::Instant,
    };
    for (cluster, indom) in [(1, None), (2, Some(indom()))] {
        for (at, value_type) in TYPES.into_iter().enumerate() {
            let (pmid, semantics) = (pmid(cluster, at), semantics(value_type));
            let desc = MetricDesc { pmid, value_type, indom, semantics, units: Units::NONE };
            let name = format!("own.cluster{cluster}.item{}", at + 1);
            writer.declare_metric(&desc, &[&name]).unwrap();
            let text = format!("A value of type {value_type}.");
            writer.declare_text(TextTarget::Metric(pmid), TextKind::OneLine, text).unwrap();
        }
    }
    let desc = MetricDesc {
        pmid: events(),
        value_type: ValueType::Event,
        indom: None,
        semantics: Semantics::Instant,
        units: Units::NONE,
    };
    writer.declare_metric(&desc, &["own.events"]).unwrap();
    let text = "Two\nlines.";
    writer.declare_text(TextTarget::InDom(indom()), TextKind::Full, text).unwrap();
}

fn declare_labels(writer: &mut ArchiveWriter, step: u64) {
    let host = [("hostname", "\"example\"", false)];
    let host = LabelSet::from_pairs(LabelClass::Context, host).unwrap();
    writer.declare_labels(LabelTarget::Context, &[host]).unwrap();
    let set = |instance: Instance| {
        // Other labels each time: pmdumplog leaves out sets that repeat themselves.
        let weight = format!("{}{step}", instance.id);
        let pairs = [("side", "\"a\"", false), ("weight", weight.as_str(), true)];
        let set = LabelSet::from_pairs(LabelClass::Instances, pairs).unwrap();
        set.for_instance(instance.id)
    };
    let sets: Vec<_> = instances(step).into_iter().map(set).collect();
    writer.declare_labels(LabelTarget::Instances(indom()), &sets).unwrap();
}

fn fill(writer: &mut ArchiveWriter, volumes: u64) {
    declare(writer);
    let mut nanoseconds = START;
    for step in 0..RECORDS {
        let timestamp = Timestamp::from_nanos(nanoseconds);
        nanoseconds += 1_000_000_000 + i128::from(step * 7_919 % 13) * 31_415_000;
        if step > 0 && step % (RECORDS / volumes) == 0 {
            writer.switch_volume();
        }
        if step == RECORDS / 2 {
            writer.write_mark(timestamp).unwrap();
            continue;
        }
        if step == 0 || instances(step).len() != instances(step - 1).len() {
            writer.declare_indom(indom(), &instances(step)).unwrap();
            declare_labels(writer, step);
        }
        let value_sets = value_sets(step, timestamp);
        writer.write_result(&FetchResult { timestamp, value_sets }).unwrap();
    }
}

/// Returns values of all metrics; counters begin again after the mark.
fn value_sets(step: u64, timestamp: Timestamp) -> Vec<ValueSet> {
    let since = if step < RECORDS / 2 { step } else { step - RECORDS / 2 };
    let of = |at: usize, factor: u64| value(TYPES[at], since * since * factor + 1);
    let mut sets = Vec::new();
    for at in 0..TYPES.len() {
        sets.push(ValueSet { pmid: pmid(1, at), values: Ok(vec![(None, of(at, 3))]) });
        let values = instances(step).into_iter().enumerate();
        let values = values.map(|(place, found)| (Some(found.id), of(at, 5 + place as u64)));
        sets.push(ValueSet { pmid: pmid(2, at), values: Ok(values.collect()) });
    }
    if step.is_multiple_of(7) {
        let mut array = EventArrayBuilder::new();
        array.record(timestamp, EventFlags::POINT).unwrap();
        array.parameter(pmid(1, 1), Value::U32(step as u32)).unwrap();
        sets.push(ValueSet { pmid: events(), values: Ok(vec![(None, array.finish())]) });
    }
    sets
}

fn value(value_type: ValueType, number: u64) -> OwnedValue {
    match value_type {
        ValueType::I32 => OwnedValue::I32(-(number as i32)),
        ValueType::U32 => OwnedValue::U32(number as u32),
        ValueType::I64 => OwnedValue::I64(-(number as i64) << 32),
        ValueType::U64 => OwnedValue::U64(number << 40),
        ValueType::Float => OwnedValue::Float(number as f32 / 4.0),
        ValueType::Double => OwnedValue::Double(number as f64 / 3.0),
        ValueType::String => OwnedValue::String(format!("text {number}").into_bytes()),
        _ => OwnedValue::Aggregate(number.to_be_bytes().to_vec()),
    }
}

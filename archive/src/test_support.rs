//! Small archives and directories, and random metrics and results for the property tests.

pub(crate) mod fault;
pub(crate) mod logger;

use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use tempfile::TempDir;
use test_archives::Builder;

use crate::format::event::{EventArrayBuilder, EventFlags};
use crate::{
    Archive, ErrorCode, InDom, InstanceId, Metadata, MetricDesc, OwnedValue, Pmid, Semantics,
    Timestamp, Units, Value, ValueSet, ValueType, WriterLabel,
};

/// Returns a time after the start of all test archives.
pub(crate) fn at(millis: i64) -> Timestamp {
    Timestamp::from_nanos(1_700_000_000_000_000_000 + i128::from(millis) * 1_000_000)
}

/// Writes an archive whose records have one value of `t.counter`, `t.instant` and `t.discrete`, at
/// times in milliseconds; `None` is a mark.
pub(crate) fn archive_of(records: &[(i64, Option<u32>)], units: Units) -> (TempDir, Archive) {
    let mut builder = Builder::new()
        .metric("t.counter", &format!("u32 counter {units}"))
        .metric("t.instant", &format!("u32 instant {units}"))
        .metric("t.discrete", &format!("u32 discrete {units}"));
    for &(millis, value) in records {
        let values = ["t.counter", "t.instant", "t.discrete"].map(|name| (name, value));
        builder = match value {
            None => builder.mark_at(at(millis)),
            Some(_) => builder.row_at(at(millis), values),
        };
    }
    let (directory, base) = builder.finish().into_parts();
    let archive = Archive::open(&base).unwrap();
    (directory, archive)
}

/// Creates a directory with empty files.
pub(crate) fn directory_of(files: &[&str]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for file in files {
        std::fs::write(directory.path().join(file), "").unwrap();
    }
    directory
}

/// Returns the names of all files of a directory, sorted.
pub(crate) fn names_in(directory: &TempDir) -> Vec<String> {
    let entries = std::fs::read_dir(directory.path()).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

pub(crate) fn label() -> WriterLabel {
    WriterLabel { pid: 42, hostname: "host".into(), timezone: "UTC".into(), zoneinfo: "".into() }
}

pub(crate) fn indom() -> InDom {
    InDom::new(70, 1).unwrap()
}

/// Two metrics of each type that values can have: even items are singular, odd
/// ones have instances.
pub(crate) fn descs() -> Vec<MetricDesc> {
    let [_, types @ ..] = ValueType::ALL;
    let desc = |item: u32| MetricDesc {
        pmid: Pmid::new(70, 1, item).unwrap(),
        value_type: types[item as usize / 2],
        indom: (item % 2 == 1).then(indom),
        semantics: Semantics::Instant,
        units: Units::from_raw(0),
    };
    (0..2 * types.len() as u32).map(desc).collect()
}

/// Metadata of [`descs`] only.
pub(crate) fn metadata() -> Metadata {
    Metadata::of_metrics(&descs())
}

/// Value sets of some of [`descs`], at least one.
pub(crate) fn value_sets() -> impl Strategy<Value = Vec<ValueSet>> {
    vec(any::<prop::sample::Index>(), 1..6).prop_flat_map(|indexes| {
        let descs = descs();
        let sets: Vec<_> = indexes.iter().map(|index| value_set(*index.get(&descs))).collect();
        sets
    })
}

fn value_set(desc: MetricDesc) -> BoxedStrategy<ValueSet> {
    let pmid = desc.pmid;
    let one = value(desc.value_type);
    let values = if desc.indom.is_some() {
        let ids = btree_set(0..i32::MAX, 0..5);
        let instances = (ids, vec(one, 5)).prop_map(|(ids, values)| {
            let ids = ids.into_iter().map(|id| InstanceId::new(id).ok());
            ids.zip(values).collect::<Vec<_>>()
        });
        instances.boxed()
    } else {
        vec(one.prop_map(|value| (None, value)), 0..2).boxed()
    };
    prop_oneof![
        8 => values.prop_map(move |values| ValueSet { pmid, values: Ok(values) }),
        1 => (i32::MIN..0).prop_map(move |code| {
            ValueSet { pmid, values: Err(ErrorCode::new(code).unwrap()) }
        }),
    ]
    .boxed()
}

/// Event records, and between them some that were lost.
fn events(empty: EventArrayBuilder) -> impl Strategy<Value = OwnedValue> {
    vec((any::<u32>(), 0u32..32), 0..3).prop_map(move |records| {
        let mut builder = empty.clone();
        for (number, flags) in records {
            let timestamp = Timestamp::new(i64::from(number >> 1), 5000).unwrap();
            builder.record(timestamp, EventFlags::from_bits(flags)).unwrap();
            builder.parameter(Pmid::from_raw(number), Value::U32(number)).unwrap();
            builder.missed(timestamp, flags).unwrap();
        }
        builder.finish()
    })
}

fn value(value_type: ValueType) -> BoxedStrategy<OwnedValue> {
    match value_type {
        ValueType::I32 => any::<i32>().prop_map(OwnedValue::I32).boxed(),
        ValueType::U32 => any::<u32>().prop_map(OwnedValue::U32).boxed(),
        ValueType::I64 => any::<i64>().prop_map(OwnedValue::I64).boxed(),
        ValueType::U64 => any::<u64>().prop_map(OwnedValue::U64).boxed(),
        ValueType::Float => prop::num::f32::NORMAL.prop_map(OwnedValue::Float).boxed(),
        ValueType::Double => prop::num::f64::NORMAL.prop_map(OwnedValue::Double).boxed(),
        ValueType::String => vec(1u8.., 0..9).prop_map(OwnedValue::String).boxed(),
        ValueType::Event => events(EventArrayBuilder::new()).boxed(),
        ValueType::HighresEvent => events(EventArrayBuilder::highres()).boxed(),
        _ => vec(any::<u8>(), 0..9).prop_map(OwnedValue::Aggregate).boxed(),
    }
}

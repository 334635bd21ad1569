//! What comes along with an event metric.

use super::*;
use crate::Value;
use crate::format::event::{EventArrayBuilder, EventFlags};

fn desc(item: u32, value_type: ValueType) -> MetricDesc {
    let pmid = Pmid::new(70, 1, item).unwrap();
    let semantics = Semantics::Instant;
    MetricDesc { pmid, value_type, indom: None, semantics, units: Units::from_raw(0) }
}

fn one(pmid: Pmid, value: OwnedValue) -> ValueSet {
    ValueSet { pmid, values: Ok(vec![(None, value)]) }
}

/// Events at 0, 1 and 2 s, from 1 s on with a path and with something that has
/// no descriptor. The size is the parameter of none.
fn archive(directory: &TempDir) -> Archive {
    let base = directory.path().join("old");
    let mut writer = writer(&base);
    let path = desc(2, ValueType::String).pmid;
    for (item, value_type, name) in [
        (1, ValueType::Event, "acme.requests"),
        (2, ValueType::String, "acme.path"),
        (3, ValueType::U32, "acme.size"),
    ] {
        writer.declare_metric(&desc(item, value_type), &[name]).unwrap();
    }
    writer.declare_text(TextTarget::Metric(path), TextKind::OneLine, "what was asked").unwrap();
    for n in 0..3 {
        let labels = LabelSet::from_pairs(LabelClass::Item, [("n", &*n.to_string(), false)]);
        writer.declare_labels(LabelTarget::Item(path), &[labels.unwrap()]).unwrap();
        let mut events = EventArrayBuilder::new();
        let record = events.record(at(n * 1000), EventFlags::POINT).unwrap();
        if n > 0 {
            let record = record.parameter(path, Value::String(b"/")).unwrap();
            record.parameter(desc(9, ValueType::U32).pmid, Value::U32(1)).unwrap();
        }
        let size = one(desc(3, ValueType::U32).pmid, OwnedValue::U32(1));
        let path = one(path, OwnedValue::String(b"/own".to_vec()));
        let value_sets = vec![one(desc(1, ValueType::Event).pmid, events.finish()), path, size];
        writer.write_result(&FetchResult { timestamp: at(n * 1000), value_sets }).unwrap();
    }
    writer.finish().unwrap();
    Archive::open(&base).unwrap()
}

#[test]
fn event_parameters_are_described_without_values() {
    let directory = tempfile::tempdir().unwrap();
    let old = archive(&directory);
    let extract = Extract::new(selection(&old, &["acme.requests"]));
    let new = Archive::open(written(&directory, &extract)).unwrap();
    let metadata = new.metadata();
    let names: Vec<&str> = metadata.subtree("").map(|(name, _)| name).collect();
    assert_eq!(names, ["acme.path", "acme.requests"]);
    let path = metadata.metric_by_name("acme.path").unwrap().desc;
    assert_eq!(path, desc(2, ValueType::String));
    let target = TextTarget::Metric(path.pmid);
    assert_eq!(metadata.text(target, TextKind::OneLine).unwrap(), "what was asked");
    // Those that hold when the first event has it, and the change after.
    let labels = |n: i64| metadata.labels_at(LabelTarget::Item(path.pmid), at(n * 1000));
    let found = [0, 1, 2].map(|n| labels(n).map(|sets| sets[0].json.clone()));
    assert_eq!(found, [None, Some("{\"n\":1}".to_owned()), Some("{\"n\":2}".to_owned())]);
    let mut records = new.records().unwrap();
    while let Some(record) = records.next().unwrap() {
        assert_eq!(record.len(), 1, "the events alone");
    }
}

#[test]
fn parameters_have_their_new_names() {
    let directory = tempfile::tempdir().unwrap();
    let old = archive(&directory);
    let extract = Extract::new(selection(&old, &["acme.requests"])).rename("acme", "works");
    let new = Archive::open(written(&directory, &extract)).unwrap();
    let names: Vec<&str> = new.metadata().subtree("").map(|(name, _)| name).collect();
    assert_eq!(names, ["works.path", "works.requests"]);
}

#[test]
fn events_before_the_window_bring_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let old = archive(&directory);
    let extract = Extract::new(selection(&old, &["acme.requests"])).window(at(0)..=at(0));
    let new = Archive::open(written(&directory, &extract)).unwrap();
    assert_eq!(new.metadata().metrics().len(), 1);
}

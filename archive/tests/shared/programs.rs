//! An archive of a program that ends and starts again.
#![allow(dead_code, reason = "each test needs a part of this")]

use std::path::PathBuf;

use pcp_archive::event::{EventArrayBuilder, EventFlags};
use pcp_archive::{
    InDom, Instance, InstanceId, LabelClass, LabelSet, LabelTarget, MetricDesc, OwnedValue, Pmid,
    Semantics, Units, Value, ValueSet, ValueType, WriterOptions,
};
use tempfile::TempDir;

use super::archives;

/// The name of the program.
const SHOP: &str = "shop";

/// The name of a domain's instances, and their numbers.
const ORDERS: [(i32, &str); 2] = [(0, "a"), (1, "b")];
const BUCKETS: [(i32, &str); 3] = [(4, "4..5"), (5, "6..7"), (6, "8..11")];

fn id(number: i32) -> InstanceId {
    InstanceId::new(number).unwrap()
}

/// What the agent's events of a time have as parameters: their types, and a program.
fn events(second: i64, kinds: &[(&str, Option<u32>)]) -> Vec<ValueSet> {
    let mut array = EventArrayBuilder::new();
    let parameter = |item| Pmid::new(70, 0, item).unwrap();
    for (kind, pid) in kinds {
        array.record(archives::at(second), EventFlags::POINT).unwrap();
        array.parameter(parameter(1002), Value::String(kind.as_bytes())).unwrap();
        if let Some(pid) = pid {
            array.parameter(parameter(1003), Value::String(SHOP.as_bytes())).unwrap();
            array.parameter(parameter(1005), Value::U32(*pid)).unwrap();
        }
    }
    vec![ValueSet { pmid: parameter(1001), values: Ok(vec![(None, array.finish())]) }]
}

/// Two runs of a program, from 0 s to 30 s and from 60 s to 100 s, a record every ten
/// seconds; an agent with or without events. It notices the end at 40 s.
///
/// | second | 0 | 10 | 20 | 30 | 40 | 60 | 70 | 80 | 90 | 100 |
/// |---|---|---|---|---|---|---|---|---|---|---|
/// | `orders[a]` | 0 | 100 | 200 | 300 | | 20 | 40 | 60 | 80 | 100 |
/// | `orders[b]` | 0 | 1 | 2 | 3 | | 10 | 10 | 10 | 10 | 10 |
/// | `queue` | 5 | 5 | 6 | 6 | | 8 | 8 | 9 | 9 | 9 |
/// | `version` | 1 | | | | | 2 | | | | |
/// | `latency.bucket[4..5]` | 10 | 20 | 30 | 40 | | | | | | |
/// | `latency.bucket[6..7]` | | | | | | 1 | 2 | 3 | 4 | 5 |
/// | `latency.bucket[8..11]` | | | | | | | 1 | 1 | 1 | 1 |
pub(crate) fn shop(has_events: bool) -> (TempDir, PathBuf) {
    shop_that(4, "vanished", has_events)
}

/// The same; the agent notices the end with the last values.
pub(crate) fn shop_that_ends() -> (TempDir, PathBuf) {
    shop_that(3, "ended", true)
}

fn shop_that(end: u64, kind: &str, has_events: bool) -> (TempDir, PathBuf) {
    let (directory, base, mut writer) = archives::begin(SHOP, WriterOptions::default());
    let counter = |item, indom| MetricDesc {
        indom,
        semantics: Semantics::Counter,
        units: Units::count(),
        ..archives::desc(item, ValueType::U64)
    };
    let [by_order, by_bucket] = [1, 2].map(|serial| InDom::new(70, serial).unwrap());
    let orders = counter(1, Some(by_order));
    let queue = archives::desc(2, ValueType::U64);
    let version =
        MetricDesc { semantics: Semantics::Discrete, ..archives::desc(3, ValueType::U32) };
    let buckets = counter(4, Some(by_bucket));
    let sum = MetricDesc { units: Units::microseconds(), ..counter(5, None) };
    let names = ["orders", "queue", "version", "latency.bucket", "latency.sum"];
    for (desc, name) in [orders, queue, version, buckets, sum].iter().zip(names) {
        writer.declare_metric(desc, &[&format!("mmv.shop.{name}")]).unwrap();
    }
    if has_events {
        let pmid = Pmid::new(70, 0, 1001).unwrap();
        let desc = MetricDesc { pmid, ..archives::desc(1, ValueType::Event) };
        writer.declare_metric(&desc, &["mmv.agent.events"]).unwrap();
        for (item, name) in [(1002, "type"), (1003, "file"), (1005, "pid")] {
            let pmid = Pmid::new(70, 0, item).unwrap();
            let value_type = if item == 1005 { ValueType::U32 } else { ValueType::String };
            let semantics = Semantics::Discrete;
            let desc = MetricDesc { pmid, semantics, ..archives::desc(1, value_type) };
            writer.declare_metric(&desc, &[&format!("mmv.agent.event.{name}")]).unwrap();
        }
    }
    let instances_of = |all: &[(i32, &str)]| -> Vec<Instance> {
        all.iter()
            .map(|(number, name)| Instance { id: id(*number), name: (*name).into() })
            .collect()
    };
    writer.declare_indom(by_order, &instances_of(&ORDERS)).unwrap();
    writer.declare_indom(by_bucket, &instances_of(&BUCKETS)).unwrap();
    let label = |class, pairs: &[(&str, &str)]| {
        let pairs = pairs.iter().map(|(name, value)| (*name, *value, false));
        [LabelSet::from_pairs(class, pairs).unwrap()]
    };
    let units = label(LabelClass::Item, &[("histogram", "\"microsec\"")]);
    writer.declare_labels(LabelTarget::Item(buckets.pmid), &units).unwrap();
    let precision = [("bucket_max", "10"), ("bucket_precision", "1")];
    let precision = label(LabelClass::InDom, &precision);
    writer.declare_labels(LabelTarget::InDom(by_bucket), &precision).unwrap();
    let by_instance = |desc: &MetricDesc, values: &[(i32, u64)]| {
        let values = values.iter().filter(|(_, value)| *value > 0 || desc.pmid == orders.pmid);
        let values = values.map(|(number, value)| (Some(id(*number)), OwnedValue::U64(*value)));
        ValueSet { pmid: desc.pmid, values: Ok(values.collect()) }
    };
    for step in 0..=10u64 {
        let second = 10 * step as i64;
        let kinds: &[(&str, Option<u32>)] = match step {
            0 => &[("started", None), ("appeared", Some(7))],
            _ if step == end => &[(kind, Some(7))],
            6 => &[("appeared", Some(8))],
            _ => &[],
        };
        if has_events && !kinds.is_empty() {
            archives::write(&mut writer, archives::at(second), events(second, kinds));
        }
        let run = match step {
            0..=3 => step,
            6.. => step - 6,
            _ => continue,
        };
        let is_first = step < 6;
        let (a, b) = if is_first { (100 * run, run) } else { (20 * (run + 1), 10) };
        let by_value =
            if is_first { [10 * (run + 1), 0, 0] } else { [0, run + 1, u64::from(run >= 1)] };
        let total = 4 * by_value[0] + 6 * by_value[1] + 8 * by_value[2];
        let level = if is_first { 5 + run / 2 } else { 8 + run / 2 };
        let level = level.min(9);
        let mut sets = vec![
            by_instance(&orders, &[(0, a), (1, b)]),
            archives::single(&queue, OwnedValue::U64(level)),
            by_instance(&buckets, &[(4, by_value[0]), (5, by_value[1]), (6, by_value[2])]),
            archives::single(&sum, OwnedValue::U64(total)),
        ];
        if run == 0 {
            let number = if is_first { 1 } else { 2 };
            sets.push(archives::single(&version, OwnedValue::U32(number)));
        }
        archives::write(&mut writer, archives::at(second), sets);
    }
    writer.finish().unwrap();
    (directory, base)
}

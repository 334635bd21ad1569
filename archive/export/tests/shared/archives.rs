//! Archives to export: a shop that is restarted, with a mark, a histogram and instances.
#![allow(dead_code, reason = "each test needs a part of this")]

use std::path::Path;

use pcp_archive::event::{EventArrayBuilder, EventFlags};
use pcp_archive::programs::{DOMAIN, events_metric, items};
use pcp_archive::{
    ArchiveWriter, FetchResult, InDom, Instance, InstanceId, LabelClass, LabelSet, LabelTarget,
    MetricDesc, OwnedValue, Pmid, Semantics, TextKind, TextTarget, Timestamp, Units, Value,
    ValueSet, ValueType, WriterLabel, WriterOptions,
};

/// Begins an archive of a host.
pub(crate) fn begin(base: &Path, hostname: &str) -> ArchiveWriter {
    let label = WriterLabel {
        pid: 1,
        hostname: hostname.into(),
        timezone: "UTC".into(),
        zoneinfo: "".into(),
    };
    std::fs::create_dir_all(base.parent().expect("a directory")).expect("make it");
    ArchiveWriter::create(base, label, WriterOptions::default()).expect("begin an archive")
}

/// A counter of 64 bits.
pub(crate) fn counter(item: u32, indom: Option<InDom>) -> MetricDesc {
    MetricDesc {
        pmid: Pmid::new(70, 1, item).expect("a PMID"),
        value_type: ValueType::U64,
        indom,
        semantics: Semantics::Counter,
        units: Units::count(),
    }
}

/// Metrics of one program, `mmv.shop`.
pub(crate) struct Shop {
    orders: MetricDesc,
    queue: MetricDesc,
    bucket: MetricDesc,
    sum: MetricDesc,
    requests: MetricDesc,
    paths: usize,
}

/// Buckets of the latency: the greatest value of each in milliseconds.
pub(crate) const BOUNDS: [u64; 6] = [1, 3, 7, 15, 31, 63];

impl Shop {
    /// Declares them, with `paths` instances of the requests.
    pub(crate) fn declare(writer: &mut ArchiveWriter, paths: usize) -> Self {
        let indom = |serial| InDom::new(70, serial).expect("a domain");
        let orders = counter(1, None);
        let queue = MetricDesc {
            semantics: Semantics::Instant,
            units: Units::milliseconds(),
            ..counter(2, None)
        };
        let bucket = counter(3, Some(indom(1)));
        let sum = MetricDesc { units: Units::milliseconds(), ..counter(4, None) };
        let requests = counter(5, Some(indom(2)));
        for (desc, name) in [
            (orders, "mmv.shop.orders"),
            (queue, "mmv.shop.queue.age"),
            (bucket, "mmv.shop.latency.bucket"),
            (sum, "mmv.shop.latency.sum"),
            (requests, "mmv.shop.requests"),
        ] {
            writer.declare_metric(&desc, &[name]).expect("declare");
            let help = "Of a \"shop\" with \\ in it.";
            let target = TextTarget::Metric(desc.pmid);
            writer.declare_text(target, TextKind::OneLine, help).expect("declare");
        }
        let instance = |(id, name): (i32, String)| Instance {
            id: InstanceId::new(id).expect("an instance"),
            name: name.as_str().into(),
        };
        let mut first = 0;
        let mut buckets = Vec::new();
        for (id, last) in (0..).zip(BOUNDS) {
            buckets.push(instance((id, format!("bucket={first}..{last}"))));
            first = last + 1;
        }
        writer.declare_indom(indom(1), &buckets).expect("declare");
        let paths_named =
            (0..paths as i32).map(|id| instance((id, format!("/path/{id} \"q\" \\"))));
        writer.declare_indom(indom(2), &paths_named.collect::<Vec<_>>()).expect("declare");
        let label = [("histogram", "\"millisec\"", false)];
        let set = LabelSet::from_pairs(LabelClass::Item, label).expect("labels");
        writer.declare_labels(LabelTarget::Item(bucket.pmid), &[set]).expect("declare");
        let labels = [("region", "\"eu\"", false), ("job", "\"shop\"", false)];
        let set = LabelSet::from_pairs(LabelClass::Context, labels).expect("labels");
        writer.declare_labels(LabelTarget::Context, &[set]).expect("declare");
        Self { orders, queue, bucket, sum, requests, paths }
    }

    /// The values of a program that has run for a number of seconds: 3 orders and 2 latencies
    /// a second, which go round the buckets.
    pub(crate) fn values(&self, seconds: u64) -> Vec<ValueSet> {
        let hits =
            |bucket: usize| (0..2 * seconds).filter(|hit| *hit as usize % 6 == bucket).count();
        let buckets = (0..BOUNDS.len()).map(|bucket| (bucket as i32, hits(bucket) as u64));
        let sum = (0..2 * seconds).map(|hit| BOUNDS[hit as usize % 6]).sum();
        let hit: Vec<(i32, u64)> = buckets.filter(|(_, hits)| *hits > 0).collect();
        let requests: Vec<(i32, u64)> =
            (0..self.paths as i32).map(|path| (path, seconds * (path as u64 + 1))).collect();
        vec![
            single(&self.orders, 3 * seconds),
            single(&self.queue, 100 + seconds % 7 * 11),
            of_each(&self.bucket, &hit),
            single(&self.sum, sum),
            of_each(&self.requests, &requests),
        ]
    }
}

pub(crate) fn single(desc: &MetricDesc, value: u64) -> ValueSet {
    ValueSet { pmid: desc.pmid, values: Ok(vec![(None, OwnedValue::U64(value))]) }
}

pub(crate) fn of_each(desc: &MetricDesc, values: &[(i32, u64)]) -> ValueSet {
    let value = |(id, value): &(i32, u64)| {
        (Some(InstanceId::new(*id).expect("an instance")), OwnedValue::U64(*value))
    };
    ValueSet { pmid: desc.pmid, values: Ok(values.iter().map(value).collect()) }
}

pub(crate) fn write(writer: &mut ArchiveWriter, at: Timestamp, value_sets: Vec<ValueSet>) {
    writer.write_result(&FetchResult { timestamp: at, value_sets }).expect("write a record");
}

/// The agent's events.
pub(crate) fn declare_events(writer: &mut ArchiveWriter) {
    let string = MetricDesc {
        pmid: Pmid::new(DOMAIN, 0, items::KIND).expect("a PMID"),
        value_type: ValueType::String,
        indom: None,
        semantics: Semantics::Discrete,
        units: Units::NONE,
    };
    let file = Pmid::new(DOMAIN, 0, items::FILE).expect("a PMID");
    let array = MetricDesc { pmid: events_metric(), value_type: ValueType::Event, ..string };
    writer.declare_metric(&array, &["mmv.agent.events"]).expect("declare");
    writer.declare_metric(&string, &["mmv.agent.event.type"]).expect("declare");
    let file = MetricDesc { pmid: file, ..string };
    writer.declare_metric(&file, &["mmv.agent.event.file"]).expect("declare");
}

/// Something that happened to the shop.
pub(crate) fn event(kind: &str, at: Timestamp) -> ValueSet {
    let mut builder = EventArrayBuilder::new();
    builder.record(at, EventFlags::POINT).expect("an event");
    for (item, text) in [(items::KIND, kind), (items::FILE, "shop")] {
        let pmid = Pmid::new(DOMAIN, 0, item).expect("a PMID");
        builder.parameter(pmid, Value::String(text.as_bytes())).expect("a parameter");
    }
    ValueSet { pmid: events_metric(), values: Ok(vec![(None, builder.finish())]) }
}

/// The time of the first record of [`shop`], seconds since 1970.
pub(crate) const START: i64 = 1_700_000_000;

/// The time a number of seconds after the first record.
pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::new(START + seconds, 0).expect("a time")
}

/// An hour of a shop, a record every ten seconds. It is restarted at 1 000 s, and has counted
/// since 995 s; the agent says so. From 2 000 to 2 100 s samples are missing, with a mark.
pub(crate) fn shop(base: &Path, paths: usize) {
    let mut writer = begin(base, "web1.example.org");
    let shop = Shop::declare(&mut writer, paths);
    declare_events(&mut writer);
    for second in (0..=3_600).step_by(10) {
        match second {
            1_000 => write(&mut writer, at(1_000), vec![event("restarted", at(995))]),
            2_000 => writer.write_mark(at(2_000)).expect("a mark"),
            2_001..2_100 => continue,
            _ => {}
        }
        if second != 2_000 {
            let since = if second < 1_000 { -20 } else { 995 };
            write(&mut writer, at(second), shop.values((second - since) as u64));
        }
    }
    writer.finish().expect("finish the archive");
}

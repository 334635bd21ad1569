//! Writes a small archive: a counter of two instances and a text, one record
//! a second, with an instance that comes later and a mark.
//!
//! Usage: `write BASE`, then `mmv-archive dump BASE` or `pmdumplog BASE`.

use std::path::PathBuf;
use std::time::Duration;

use pcp_archive::raw::{
    FetchResult, LabelClass, LabelSet, LabelTarget, TextKind, TextTarget, ValueSet,
};
use pcp_archive::{
    ArchiveWriter, InDom, Instance, InstanceId, MetricDesc, OwnedValue, Pmid, Semantics, Timestamp,
    Units, ValueType, WriterLabel, WriterOptions,
};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let base = std::env::args_os().nth(1).map(PathBuf::from).ok_or("usage: write BASE")?;
    let label = WriterLabel {
        pid: std::process::id() as i32,
        hostname: "example".into(),
        timezone: "UTC".into(),
        zoneinfo: "".into(),
    };
    let mut writer = ArchiveWriter::create_with(&base, label, WriterOptions::default())?;
    let indom = InDom::new(70, 2051)?;
    let requests = MetricDesc {
        pmid: Pmid::new(70, 1, 1)?,
        value_type: ValueType::U64,
        indom: Some(indom),
        semantics: Semantics::Counter,
        units: Units::count(),
    };
    let state = MetricDesc {
        pmid: Pmid::new(70, 1, 2)?,
        value_type: ValueType::String,
        indom: None,
        semantics: Semantics::Discrete,
        units: Units::from_raw(0),
    };
    writer.declare_metric(&requests, &["acme.requests"])?;
    writer.declare_text(
        TextTarget::Metric(requests.pmid),
        TextKind::OneLine,
        "requests by product",
    )?;
    writer.declare_metric(&state, &["acme.state"])?;
    let labels = LabelSet::from_pairs(LabelClass::Cluster, [("team", "\"shop\"", false)])?;
    writer.declare_labels(LabelTarget::Cluster { domain: 70, cluster: 1 }, &[labels])?;

    let mut now = Timestamp::new(1_700_000_000, 123_456_789)?;
    for tick in 0..10 {
        // The third product comes after half of the time.
        let products = instances(if tick < 5 { 2 } else { 3 })?;
        writer.declare_indom(indom, &products)?;
        let counts = products.iter().map(|product| {
            let count = 10 * tick + u64::from(product.id.get().unsigned_abs());
            (Some(product.id), OwnedValue::U64(count))
        });
        writer.write_result(&FetchResult {
            timestamp: now,
            value_sets: vec![
                ValueSet { pmid: requests.pmid, values: Ok(counts.collect()) },
                ValueSet {
                    pmid: state.pmid,
                    values: Ok(vec![(None, OwnedValue::String(b"open".to_vec()))]),
                },
            ],
        })?;
        now = now.saturating_add(Duration::from_secs(1));
    }
    writer.write_mark(now)?;
    let summary = writer.finish()?;
    println!("{} records, {} bytes", summary.records, summary.bytes);
    Ok(())
}

fn instances(count: usize) -> Result<Vec<Instance>> {
    let names = ["anvils", "rockets", "magnets"];
    let instance =
        |(id, name): (i32, &str)| Ok(Instance { id: InstanceId::new(id)?, name: name.into() });
    (0..).zip(names).take(count).map(instance).collect()
}

//! Archives to export: a shop that is restarted, with a mark, a histogram and instances.
#![allow(dead_code, reason = "each test needs a part of this")]

use std::path::Path;

use pcp_archive::internal::programs::{DOMAIN, events_metric, items};
use pcp_archive::raw::event::{EventArrayBuilder, EventFlags};
use pcp_archive::{Pmid, Timestamp, Value};
use test_archives::{Builder, Cell, at};

/// Greatest value of each bucket of the latency, in milliseconds.
pub(crate) const BOUNDS: [u64; 6] = [1, 3, 7, 15, 31, 63];

/// Begins an archive of one program, `mmv.shop`, with `paths` instances of the requests.
pub(crate) fn begin_shop(base: &Path, hostname: &str, paths: usize) -> Builder {
    let paths: Vec<_> = (0..paths).map(|path| format!("/path/{path} \"q\" \\")).collect();
    let firsts = [0].into_iter().chain(BOUNDS.map(|last| last + 1));
    let buckets = firsts.zip(BOUNDS).map(|(first, last)| format!("bucket={first}..{last}"));
    let buckets: Vec<_> = buckets.collect();
    let help = "Of a \"shop\" with \\ in it.";
    Builder::of_host(hostname, base)
        .metric("mmv.shop.orders", "u64 counter count")
        .metric("mmv.shop.queue.age", "u64 instant millisec")
        .metric("mmv.shop.latency.bucket", "u64 counter count")
        .metric("mmv.shop.latency.sum", "u64 counter millisec")
        .metric("mmv.shop.requests", "u64 counter count")
        .help("mmv.shop.orders", help)
        .help("mmv.shop.queue.age", help)
        .help("mmv.shop.latency.bucket", help)
        .help("mmv.shop.latency.sum", help)
        .help("mmv.shop.requests", help)
        .instances("mmv.shop.latency.bucket", buckets.iter().map(String::as_str))
        .instances("mmv.shop.requests", paths.iter().map(String::as_str))
        .labels("mmv.shop.latency.bucket", &[("histogram", "millisec")])
        .context_labels(&[("region", "eu"), ("job", "shop")])
}

/// Returns the values of a program that has run for a number of seconds: 3 orders and 2 latencies
/// a second, which go round the buckets.
pub(crate) fn shop_values(seconds: u64, paths: usize) -> Vec<(String, Option<u64>)> {
    let hits = |bucket: usize| (0..2 * seconds).filter(|hit| *hit as usize % 6 == bucket).count();
    let mut values = vec![
        ("mmv.shop.orders".to_owned(), Some(3 * seconds)),
        ("mmv.shop.queue.age".to_owned(), Some(100 + seconds % 7 * 11)),
    ];
    for bucket in 0..BOUNDS.len() {
        let hits = Some(hits(bucket) as u64).filter(|hits| *hits > 0);
        values.push((format!("mmv.shop.latency.bucket[{bucket}]"), hits));
    }
    let sum = (0..2 * seconds).map(|hit| BOUNDS[hit as usize % 6]).sum();
    values.push(("mmv.shop.latency.sum".to_owned(), Some(sum)));
    for path in 0..paths {
        let requests = seconds * (path as u64 + 1);
        values.push((format!("mmv.shop.requests[{path}]"), Some(requests)));
    }
    values
}

pub(crate) fn with_events(builder: Builder) -> Builder {
    let parameter = |item| Pmid::new(DOMAIN, 0, item).expect("a PMID");
    builder
        .metric_with(events_metric(), "mmv.agent.events", "event discrete")
        .metric_with(parameter(items::KIND), "mmv.agent.event.type", "string discrete")
        .metric_with(parameter(items::FILE), "mmv.agent.event.file", "string discrete")
}

pub(crate) fn event(kind: &str, at: Timestamp) -> [(&'static str, Cell); 1] {
    let mut builder = EventArrayBuilder::new();
    builder.record(at, EventFlags::POINT).expect("an event");
    for (item, text) in [(items::KIND, kind), (items::FILE, "shop")] {
        let pmid = Pmid::new(DOMAIN, 0, item).expect("a PMID");
        builder.parameter(pmid, Value::String(text.as_bytes())).expect("a parameter");
    }
    [("mmv.agent.events", builder.finish().into())]
}

/// The time of the first record of [`shop`], seconds since 1970.
pub(crate) const START: i64 = 1_700_000_000;

/// Writes an hour of a shop, a record every ten seconds. It is restarted at 1 000 s, and has
/// counted since 995 s; the agent says so. From 2 000 to 2 100 s samples are missing, with a
/// mark.
pub(crate) fn shop(base: &Path, paths: usize) {
    let mut builder = with_events(begin_shop(base, "web1.example.org", paths));
    for second in (0..=3_600).step_by(10) {
        builder = match second {
            1_000 => builder.row(1_000, event("restarted", at(995))),
            2_000 => builder.mark(2_000),
            _ => builder,
        };
        if !(2_000..2_100).contains(&second) {
            let since = if second < 1_000 { -20 } else { 995 };
            builder = builder.row(second, shop_values((second - since) as u64, paths));
        }
    }
    builder.finish();
}

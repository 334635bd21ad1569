//! An archive of a program that ends and starts again.

use std::path::PathBuf;
use std::time::Duration;

use pcp_archive::raw::event::{EventArrayBuilder, EventFlags};
use pcp_archive::{OwnedValue, Pmid, Timestamp, Value};
use tempfile::TempDir;
use test_archives::{Builder, at};

/// A record: its second, `orders` of a and b, `queue`, `version`, and the counts of the buckets.
type Row = (i32, [u64; 2], u64, Option<u64>, [Option<u64>; 3]);

const ROWS: [Row; 9] = [
    (0, [0, 0], 5, Some(1), [Some(10), None, None]),
    (10, [100, 1], 5, None, [Some(20), None, None]),
    (20, [200, 2], 6, None, [Some(30), None, None]),
    (30, [300, 3], 6, None, [Some(40), None, None]),
    (60, [20, 10], 8, Some(2), [None, Some(1), None]),
    (70, [40, 10], 8, None, [None, Some(2), Some(1)]),
    (80, [60, 10], 9, None, [None, Some(3), Some(1)]),
    (90, [80, 10], 9, None, [None, Some(4), Some(1)]),
    (100, [100, 10], 9, None, [None, Some(5), Some(1)]),
];

/// The second of the first record of the second run.
const NEXT_RUN: i32 = 60;

/// Returns the time of a record, which is later than events: their times have microseconds.
fn recorded_at(second: i32) -> Timestamp {
    at(second).saturating_add(Duration::from_nanos(1))
}

fn agent(item: u32) -> Pmid {
    Pmid::new(70, 0, item).unwrap()
}

fn events(noticed: Timestamp, kinds: &[(&str, Option<u32>)]) -> OwnedValue {
    let mut array = EventArrayBuilder::new();
    for (kind, pid) in kinds {
        array.record(noticed, EventFlags::POINT).unwrap();
        array.parameter(agent(1002), Value::String(kind.as_bytes())).unwrap();
        if let Some(pid) = pid {
            array.parameter(agent(1003), Value::String(b"shop")).unwrap();
            array.parameter(agent(1005), Value::U32(*pid)).unwrap();
        }
    }
    array.finish()
}

/// Writes two runs of a program, from 0 s to 30 s and from 60 s to 100 s, a record every ten
/// seconds; an agent with or without events. It notices the end at 40 s and the second run
/// after 50 s, a millisecond later.
pub(crate) fn shop(has_events: bool) -> (TempDir, PathBuf) {
    shop_that(40, "vanished", has_events)
}

/// Writes the same runs; the agent notices the end with the last values.
pub(crate) fn shop_that_ends() -> (TempDir, PathBuf) {
    shop_that(30, "ended", true)
}

fn shop_that(end: i32, kind: &str, has_events: bool) -> (TempDir, PathBuf) {
    let mut builder = Builder::named("shop")
        .metric("mmv.shop.orders", "u64 counter count")
        .metric("mmv.shop.queue", "u64 instant")
        .metric("mmv.shop.version", "u32 discrete")
        .metric("mmv.shop.latency.bucket", "u64 counter count")
        .metric("mmv.shop.latency.sum", "u64 counter microsec")
        .instances("mmv.shop.orders", ["a", "b"])
        .numbered_instances("mmv.shop.latency.bucket", [(4, "4..5"), (5, "6..7"), (6, "8..11")])
        .labels("mmv.shop.latency.bucket", &[("histogram", "microsec")])
        .domain_labels("mmv.shop.latency.bucket", &[("bucket_max", 10), ("bucket_precision", 1)]);
    if has_events {
        builder = builder
            .metric_with(agent(1001), "mmv.agent.events", "event instant")
            .metric_with(agent(1002), "mmv.agent.event.type", "string discrete")
            .metric_with(agent(1003), "mmv.agent.event.file", "string discrete")
            .metric_with(agent(1005), "mmv.agent.event.pid", "u32 discrete");
    }
    for second in (0..=100).step_by(10) {
        let kinds: &[(&str, Option<u32>)] = match second {
            0 => &[("started", None), ("appeared", Some(7))],
            NEXT_RUN => &[("appeared", Some(8))],
            _ if second == end => &[(kind, Some(7))],
            _ => &[],
        };
        if has_events && !kinds.is_empty() {
            let noticed = if second == NEXT_RUN { at(50.001) } else { at(second) };
            let events = events(noticed, kinds);
            builder = builder.row_at(recorded_at(second), [("mmv.agent.events", events)]);
        }
        let Some(row) = ROWS.iter().find(|row| row.0 == second) else { continue };
        let (_, [a, b], queue, version, buckets) = *row;
        let [low, middle, high] = buckets.map(|count| count.unwrap_or(0));
        let version = version.map(|version| ("mmv.shop.version", Some(version)));
        let values = [
            ("mmv.shop.orders[a]", Some(a)),
            ("mmv.shop.orders[b]", Some(b)),
            ("mmv.shop.queue", Some(queue)),
            ("mmv.shop.latency.bucket[4..5]", buckets[0]),
            ("mmv.shop.latency.bucket[6..7]", buckets[1]),
            ("mmv.shop.latency.bucket[8..11]", buckets[2]),
            ("mmv.shop.latency.sum", Some(4 * low + 6 * middle + 8 * high)),
        ];
        builder = builder.row_at(recorded_at(second), values.into_iter().chain(version));
    }
    builder.finish().into_parts()
}

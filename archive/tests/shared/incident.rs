//! An archive of a job queue with an incident, for what pages show at first.

use std::path::PathBuf;

use pcp_archive::raw::event::{EventArrayBuilder, EventFlags};
use pcp_archive::{OwnedValue, Pmid, Value};
use tempfile::TempDir;
use test_archives::{Builder, Cell, at};

/// Seconds in which `/submit` is slow and fails.
const INCIDENT: std::ops::Range<u64> = 90..120;
/// The second at which the program is killed, and that at which it is there again.
const KILLED: u64 = 180;
const RESTARTED: u64 = 185;

const ROUTES: [&str; 3] =
    ["endpoint=/poll,code=200", "endpoint=/submit,code=200", "endpoint=/submit,code=503"];
/// Of about 5 ms and 82 ms.
const BUCKETS: [&str; 3] = [
    "endpoint=/poll,bucket=4096..6143",
    "endpoint=/submit,bucket=4096..6143",
    "endpoint=/submit,bucket=65536..98303",
];

fn agent(item: u32) -> Pmid {
    Pmid::new(70, 0, item).unwrap()
}

fn event(second: u64, kind: &str, pid: u32) -> OwnedValue {
    let mut array = EventArrayBuilder::new();
    array.record(at(second), EventFlags::POINT).unwrap();
    array.parameter(agent(1002), Value::String(kind.as_bytes())).unwrap();
    array.parameter(agent(1003), Value::String(b"jobs")).unwrap();
    array.parameter(agent(1005), Value::U32(pid)).unwrap();
    array.finish()
}

/// Writes four minutes with a record each second: from 90 s to 120 s `/submit` takes sixteen times
/// as long, and a third of its requests fail; at 180 s the program is killed, and begins again at
/// 185 s.
pub(crate) fn jobs() -> (TempDir, PathBuf) {
    let endpoints: &[(&str, &[(&str, &str)])] = &[
        ("endpoint=/poll", &[("endpoint", "/poll")]),
        ("endpoint=/submit", &[("endpoint", "/submit")]),
    ];
    let mut builder = Builder::named("jobs")
        .metric_with(agent(1001), "mmv.agent.events", "event instant")
        .metric_with(agent(1002), "mmv.agent.event.type", "string discrete")
        .metric_with(agent(1003), "mmv.agent.event.file", "string discrete")
        .metric_with(agent(1005), "mmv.agent.event.pid", "u32 discrete")
        .metric_with(agent(101), "mmv.agent.records.written", "u64 counter count")
        .metric("mmv.jobs.workers", "u32 instant")
        .metric("mmv.jobs.memory", "u64 instant byte")
        .metric("mmv.jobs.requests", "u64 counter count")
        .metric("mmv.jobs.failures", "u64 counter count")
        .metric("mmv.jobs.queue.depth", "u32 instant")
        .metric("mmv.jobs.latency.bucket", "u64 counter count")
        .metric("mmv.jobs.latency.sum", "u64 counter microsec")
        .help("mmv.jobs.latency.bucket", "Time from a request to its answer")
        .instances("mmv.jobs.requests", ROUTES)
        .instances("mmv.jobs.latency.bucket", BUCKETS)
        .instances("mmv.jobs.latency.sum", ["endpoint=/poll", "endpoint=/submit"])
        .labels("mmv.jobs.latency.bucket", &[("histogram", "microsec")])
        .instance_labels("mmv.jobs.latency.sum", endpoints);
    let mut routes = [0_u64; 3];
    let mut buckets = [0_u64; 3];
    for second in 0..240 {
        if (KILLED..RESTARTED).contains(&second) {
            continue;
        }
        if second == RESTARTED {
            routes = [0; 3];
            buckets = [0; 3];
        }
        let is_bad = INCIDENT.contains(&second);
        let counted = if is_bad { [400, 80, 40] } else { [400, 120, 0] };
        let took = if is_bad { [400, 0, 120] } else { [400, 120, 0] };
        for place in 0..3 {
            routes[place] += counted[place];
            buckets[place] += took[place];
        }
        let mut cells: Vec<(String, Cell)> = vec![
            ("mmv.agent.records.written".into(), second.into()),
            ("mmv.jobs.workers".into(), 8.into()),
            ("mmv.jobs.memory".into(), (200_000_000 + 1000 * second).into()),
            ("mmv.jobs.failures".into(), routes[2].into()),
            ("mmv.jobs.queue.depth".into(), if is_bad { 400 } else { second % 4 }.into()),
            ("mmv.jobs.latency.sum[endpoint=/poll]".into(), (5000 * buckets[0]).into()),
            (
                "mmv.jobs.latency.sum[endpoint=/submit]".into(),
                (5000 * buckets[1] + 82_000 * buckets[2]).into(),
            ),
        ];
        for (name, count) in ROUTES.iter().zip(routes) {
            cells.push((format!("mmv.jobs.requests[{name}]"), count.into()));
        }
        for (name, count) in BUCKETS.iter().zip(buckets) {
            cells.push((format!("mmv.jobs.latency.bucket[{name}]"), count.into()));
        }
        match second {
            0 => cells.push(("mmv.agent.events".into(), event(second, "appeared", 7).into())),
            179 => cells.push(("mmv.agent.events".into(), event(second, "ended", 7).into())),
            RESTARTED => {
                cells.push(("mmv.agent.events".into(), event(second, "restarted", 8).into()));
            }
            _ => {}
        }
        builder = builder.row(second, cells);
    }
    builder.finish().into_parts()
}

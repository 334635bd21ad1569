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

pub(crate) fn event(second: u64, kind: &str, pid: u32) -> OwnedValue {
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
    programs(&["jobs"])
}

/// Writes the same with two programs whose names come first: `api` goes on as usual, and `billing`
/// has twice as many requests for half a minute.
pub(crate) fn jobs_among_others() -> (TempDir, PathBuf) {
    programs(&["api", "billing", "jobs"])
}

/// Writes programs of which `jobs` has the incident.
fn programs(names: &[&str]) -> (TempDir, PathBuf) {
    let mut builder = with_event_metrics(Builder::named("jobs")).metric_with(
        agent(101),
        "mmv.agent.records.written",
        "u64 counter count",
    );
    for name in names {
        builder = with_metrics(builder, name);
    }
    let mut counts: Vec<Counts> = names.iter().map(|name| Counts::new(name)).collect();
    for second in 0..240 {
        let mut cells: Vec<(String, Cell)> =
            vec![("mmv.agent.records.written".into(), second.into())];
        for counts in &mut counts {
            counts.add(second, &mut cells);
        }
        if (KILLED..RESTARTED).contains(&second) && names.len() == 1 {
            continue;
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

pub(crate) fn with_event_metrics(builder: Builder) -> Builder {
    builder
        .metric_with(agent(1001), "mmv.agent.events", "event instant")
        .metric_with(agent(1002), "mmv.agent.event.type", "string discrete")
        .metric_with(agent(1003), "mmv.agent.event.file", "string discrete")
        .metric_with(agent(1005), "mmv.agent.event.pid", "u32 discrete")
}

fn with_metrics(builder: Builder, program: &str) -> Builder {
    let endpoints: &[(&str, &[(&str, &str)])] = &[
        ("endpoint=/poll", &[("endpoint", "/poll")]),
        ("endpoint=/submit", &[("endpoint", "/submit")]),
    ];
    let name = |metric: &str| format!("mmv.{program}.{metric}");
    let buckets = name("latency.bucket");
    let sum = name("latency.sum");
    builder
        .metric(&name("workers"), "u32 instant")
        .metric(&name("memory"), "u64 instant byte")
        .metric(&name("requests"), "u64 counter count")
        .metric(&name("failures"), "u64 counter count")
        .metric(&name("queue.depth"), "u32 instant")
        .metric(&buckets, "u64 counter count")
        .metric(&sum, "u64 counter microsec")
        .help(&buckets, "Time from a request to its answer")
        .instances(&name("requests"), ROUTES)
        .instances(&buckets, BUCKETS)
        .instances(&sum, ["endpoint=/poll", "endpoint=/submit"])
        .labels(&buckets, &[("histogram", "microsec")])
        .instance_labels(&sum, endpoints)
}

/// What a program has counted.
struct Counts<'p> {
    program: &'p str,
    routes: [u64; 3],
    buckets: [u64; 3],
}

impl<'p> Counts<'p> {
    fn new(program: &'p str) -> Self {
        Self { program, routes: [0; 3], buckets: [0; 3] }
    }

    /// Counts what happens in a second, and adds all values, unless the program is not there.
    fn add(&mut self, second: u64, cells: &mut Vec<(String, Cell)>) {
        let is_ill = self.program == "jobs";
        if is_ill && (KILLED..RESTARTED).contains(&second) {
            return;
        }
        if is_ill && second == RESTARTED {
            *self = Self::new(self.program);
        }
        let is_bad = is_ill && INCIDENT.contains(&second);
        let counted = if is_bad { [400, 80, 40] } else { [400, 120, 0] };
        let took = if is_bad { [400, 0, 120] } else { [400, 120, 0] };
        for place in 0..3 {
            self.routes[place] += counted[place];
            self.buckets[place] += took[place];
        }
        if !is_ill {
            let more =
                if self.program == "billing" && (30..60).contains(&second) { 400 } else { 0 };
            let noise = (second * 7919) % 41;
            self.routes[0] += more + noise;
            self.buckets[0] += more + noise;
        }
        let mut add = |metric: &str, value: u64| {
            cells.push((format!("mmv.{}.{metric}", self.program), value.into()));
        };
        add("workers", 8);
        add("memory", 200_000_000 + 1000 * second);
        add("failures", self.routes[2]);
        add("queue.depth", if is_bad { 400 } else { second % 4 });
        add("latency.sum[endpoint=/poll]", 5000 * self.buckets[0]);
        add("latency.sum[endpoint=/submit]", 5000 * self.buckets[1] + 82_000 * self.buckets[2]);
        for (name, count) in ROUTES.iter().zip(self.routes) {
            add(&format!("requests[{name}]"), count);
        }
        for (name, count) in BUCKETS.iter().zip(self.buckets) {
            add(&format!("latency.bucket[{name}]"), count);
        }
    }
}

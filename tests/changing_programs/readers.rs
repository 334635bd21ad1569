//! The readings of the archives by our programs: one function for each.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::log::Key;
use super::run::Record;
use crate::harness::binaries;

#[derive(Debug, Clone)]
pub(super) struct Reading {
    pub(super) reader: &'static str,
    pub(super) samples: BTreeMap<Key, Vec<(i64, f64)>>,
}

impl Reading {
    pub(super) fn new(reader: &'static str) -> Self {
        Self { reader, samples: BTreeMap::new() }
    }

    pub(super) fn add(&mut self, metric: &str, instance: &str, at: i64, value: f64) {
        let key = (metric.to_owned(), instance.to_owned());
        self.samples.entry(key).or_default().push((at, value));
    }
}

pub(super) const BRANCHES: [&str; 7] = [
    "mmv.steady",
    "mmv.live",
    "mmv.rebuilt",
    "mmv.facade",
    "mmv.workers",
    "mmv.numbered",
    "mmv.inplace",
];

fn path(path: &Path) -> &str {
    path.to_str().expect("a UTF-8 path")
}

/// Returns the output of a command, also if there are no data for the request.
#[track_caller]
pub(super) fn printed(program: &Path, arguments: &[&str]) -> String {
    const NO_DATA: i32 = 1;
    let output = Command::new(program).args(arguments).env("TZ", "UTC").output();
    let output = output.expect("start a reader");
    let complaints = String::from_utf8_lossy(&output.stderr);
    let program = program.display();
    let is_answer = output.status.success() || output.status.code() == Some(NO_DATA);
    assert!(is_answer, "{program} {arguments:?}: {}: {complaints}", output.status);
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[track_caller]
pub(super) fn lines(arguments: &[&str]) -> Vec<Value> {
    let text = printed(&binaries::mmv_archive(), &[arguments, &["--json"]].concat());
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

pub(super) fn time(value: &Value) -> i64 {
    let time: jiff::Timestamp = value.as_str().expect("a text").parse().expect("a time");
    i64::try_from(time.as_nanosecond()).expect("a time of this century")
}

/// Reads all values with `mmv-archive report --raw`.
pub(super) fn raw(record: &Record) -> Reading {
    let mut reading = Reading::new("report --raw");
    let archives = path(&record.archives);
    for line in lines(&[&["report", archives, "--raw"], &BRANCHES[..]].concat()) {
        // A mark has no metric.
        let Some(metric) = line["metric"].as_str() else { continue };
        let name = line["instance"].as_str().unwrap_or_default();
        reading.add(metric, name, time(&line["time"]), line["value"].as_f64().expect("a number"));
    }
    reading
}

/// Reads gauges with `mmv-archive report`, interpolated at times that are not those of samples.
pub(super) fn gauges(record: &Record) -> Reading {
    let mut reading = Reading::new("report");
    let interval = format!("{}ms", record.plan.interval.as_millis() * 13 / 10);
    let branches = &BRANCHES[1..];
    let arguments = [&["report", path(&record.archives), "-t", &interval], branches].concat();
    for line in lines(&arguments) {
        let metric = line["metric"].as_str().expect("a metric");
        let name = line["instance"].as_str().unwrap_or_default();
        let segments = record.log.series.get(&(metric.to_owned(), name.to_owned()));
        if segments.is_none_or(|segments| segments[0].is_counter) {
            continue;
        }
        if let Some(value) = line["value"].as_f64() {
            reading.add(metric, name, time(&line["time"]), value);
        }
    }
    reading
}

/// Reads the narrow tables of `mmv-export parquet`, as JSON Lines, without the rows of 0 that no
/// `raw` sample has: where counters begin to count.
pub(super) fn tables(record: &Record, raw: &Reading) -> Reading {
    let mut reading = Reading::new("parquet --narrow");
    let directory = record.scratch.path().join("tables");
    let arguments =
        ["parquet", path(&record.archives), "-o", path(&directory), "--narrow", "--jsonl"];
    printed(&binaries::directory().join("mmv-export"), &arguments);
    let mut files = Vec::new();
    find_files(&directory, &mut files);
    files.sort();
    for file in files {
        let text = std::fs::read_to_string(file).expect("a table");
        for line in text.lines() {
            let line: Value = serde_json::from_str(line).expect("JSON");
            let metric = line["name"].as_str().expect("a metric");
            let name = line["instname"].as_str().unwrap_or_default();
            let at = line["timestamp_ns"].as_i64().expect("a time");
            let value = line["value"].as_f64().expect("a number");
            let logged = raw.samples.get(&(metric.to_owned(), name.to_owned()));
            let is_logged = logged.is_some_and(|all| all.iter().any(|(time, _)| *time == at));
            if is_logged || line["begins"] != true || value != 0.0 {
                reading.add(metric, name, at, value);
            }
        }
    }
    reading
}

fn find_files(directory: &Path, files: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            find_files(&path, files);
        } else {
            files.push(path);
        }
    }
}

/// Time in which a file could not be sampled, by the events.
#[derive(Debug)]
pub(super) struct Spell {
    pub(super) file: String,
    pub(super) from: i64,
    pub(super) until: i64,
    /// Missing samples, if there was another sample after them.
    pub(super) missing: Option<u64>,
}

/// Reads spells with `mmv-archive events`, whose times have microseconds.
pub(super) fn spells(record: &Record) -> Vec<Spell> {
    let mut spells: Vec<Spell> = Vec::new();
    for event in lines(&["events", path(&record.archives)]) {
        let parameters = event["parameters"].as_array().cloned().unwrap_or_default();
        let parameter = |name: &str| {
            let metric = format!("mmv.agent.event.{name}");
            let found = parameters.iter().find(|one| one["metric"] == metric.as_str());
            found.map(|one| one["value"].clone()).unwrap_or_default()
        };
        let Some(file) = parameter("file").as_str().map(str::to_owned) else { continue };
        let seconds = event["seconds"].as_f64().expect("a time");
        let at = (seconds * 1e6).round() as i64 * 1000;
        // It is in a later record than the first missing sample.
        let since = parameter("since").as_str().map(|since| nanoseconds_of(since, at));
        let open = spells.iter_mut().rfind(|spell| spell.file == file && spell.until == i64::MAX);
        match (parameter("type").as_str(), open) {
            (Some("waiting"), None) => {
                let from = since.unwrap_or(at);
                spells.push(Spell { file, from, until: i64::MAX, missing: None });
            }
            (Some("appeared" | "recovered" | "ended" | "vanished" | "restarted"), Some(spell)) => {
                spell.until = at;
                spell.missing = parameter("records").as_u64();
            }
            _ => {}
        }
    }
    spells
}

/// Returns the nanoseconds since 1970 of `2026-11-26T16:24:46.800109834Z`, which is at most a day
/// before another time, whose nanoseconds are cut off.
fn nanoseconds_of(text: &str, before: i64) -> i64 {
    const DAY: i64 = 86_400_000_000_000;
    let (_, time) = text.trim_end_matches('Z').split_once('T').expect("a time");
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let mut seconds = 0;
    for part in time.split(':') {
        seconds = 60 * seconds + part.parse::<i64>().expect("a number");
    }
    let fraction: i64 = format!("{fraction:0<9}").parse().expect("a fraction");
    let time = before - before.rem_euclid(DAY) + 1_000_000_000 * seconds + fraction;
    if time > before + 1000 { time - DAY } else { time }
}

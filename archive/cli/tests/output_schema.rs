//! The fields of CSV and JSON are those that `docs/output-schema.md` lists.

use std::collections::BTreeSet;
use std::path::Path;

use test_archives::{Builder, TestArchive};

use crate::program::printed_of;

const DOCUMENT: &str = include_str!("../../../docs/output-schema.md");

/// Returns the fields in the tables of a section, without those that stand for others.
pub(crate) fn documented(section: &str) -> BTreeSet<String> {
    let heading = format!("## {section}\n");
    let (_, text) = DOCUMENT.split_once(&heading).expect("the section");
    let text = text.split("\n## ").next().unwrap_or_default();
    let cells = text.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    cells.map(str::to_owned).collect()
}

#[test]
fn every_line_of_json_has_the_version_of_the_schema() {
    let archive = archive();
    let base = archive.base();
    for (command, options) in [
        ("report", &["web"][..]),
        ("summary", &["web"]),
        ("follow", &["web", "-S", "0s", "-s", "2"]),
        ("metrics", &["web"]),
        ("dump", &["web"]),
        ("info", &[]),
        ("check", &[]),
    ] {
        let text = printed_of(base, &[&[command, "--json"], options].concat());
        assert!(!text.is_empty(), "{command}");
        for line in text.lines() {
            let object: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!(object["schema"], 1, "{command}: {line}");
            for (field, number) in [("time", "seconds"), ("start", "start_seconds")] {
                assert_eq!(object[field].is_string(), object[number].is_f64(), "{command}: {line}");
            }
        }
    }
}

/// Writes a counter and a gauge with instances, a histogram, and a mark.
fn archive() -> TestArchive {
    let row = |second: u64| {
        [
            ("web.requests", 7 * second),
            ("web.queue[a]", 4 + second % 3),
            ("web.latency.bucket[4..5]", 9 * second),
            ("web.latency.sum", 40 * second),
        ]
    };
    Builder::named("web")
        .metric("web.requests", "u64 counter count")
        .metric("web.queue", "u32 instant count")
        .metric("web.latency.bucket", "u64 counter count")
        .metric("web.latency.sum", "u64 counter microsec")
        .instances("web.queue", ["a"])
        .numbered_instances("web.latency.bucket", [(4, "4..5")])
        .labels("web.latency.bucket", &[("histogram", "microsec")])
        .domain_labels("web.latency.bucket", &[("bucket_max", 10), ("bucket_precision", 1)])
        .rows([0, 1, 2].map(|second| (second, row(second))))
        .mark(3)
        .rows([4, 5].map(|second| (second, row(second))))
        .finish()
}

fn printed(base: &Path, command: &str, options: &[&str]) -> String {
    printed_of(base, &[&[command, "web"], options].concat())
}

fn keys(lines: &str) -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    for line in lines.lines() {
        let object: serde_json::Value = serde_json::from_str(line).unwrap();
        keys.extend(object.as_object().unwrap().keys().cloned());
    }
    keys
}

#[test]
fn fields_of_json_are_the_documented_ones() {
    let archive = archive();
    let base = archive.base();
    let report = printed(base, "report", &["--json", "--rate"]);
    let raw = printed(base, "report", &["--json", "--raw"]);
    assert_eq!(keys(&(report + &raw)), documented("report --json, follow --json"));
    assert_eq!(keys(&printed(base, "summary", &["--json"])), documented("summary --json"));
}

#[test]
fn fields_of_csv_are_the_documented_ones() {
    let archive = archive();
    let base = archive.base();
    let header = |command: &str| {
        let text = printed(base, command, &["--format", "csv"]);
        let fields = text.lines().next().unwrap().split(',').map(str::to_owned);
        fields.collect::<BTreeSet<String>>()
    };
    assert_eq!(header("summary"), documented("summary --format csv"));
    let report = header("report");
    assert!(
        report.contains("web.queue[a] (count)") && report.contains("web.latency.p99 (microsec)"),
        "{report:?}"
    );
    let metrics = report.iter().filter(|field| !field.starts_with("web."));
    assert_eq!(metrics.cloned().collect::<BTreeSet<_>>(), documented("report --format csv"));
}

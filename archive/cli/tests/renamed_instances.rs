//! A series is a metric and the *name* of an instance, whatever its number is at the time.

use std::path::Path;

use test_archives::{Builder, TestArchive};

use crate::program::printed_of;

/// Requests a second by path, since the host began to count.
const RATES: [(&str, u64); 4] = [("/a", 10), ("/b", 20), ("/c", 30), ("/d", 40)];
/// The paths in the order of their numbers, before and after a restart 30 seconds after the start.
const BEFORE: [&str; 3] = ["/a", "/b", "/c"];
const AFTER: [&str; 3] = ["/d", "/c", "/b"];

/// Writes counters that go on over the restart: each name has one rate at all times, and a number
/// that is taken for a series has others around the restart.
fn archive() -> TestArchive {
    let labels = [("/a", "a"), ("/b", "b"), ("/c", "c"), ("/d", "d")];
    let labels = labels.map(|(name, path)| (name, [("path", path)]));
    let labels_of = |names: [&str; 3]| {
        let own = labels.iter().filter(|(name, _)| names.contains(name));
        own.map(|(name, labels)| (*name, labels.as_slice())).collect::<Vec<_>>()
    };
    let row = |names: [&str; 3], second: u64| {
        let value = |name: &str| RATES.iter().find(|(of, _)| *of == name).unwrap().1 * second;
        (second as i64, names.map(|name| (format!("requests[{name}]"), value(name))))
    };
    Builder::new()
        .metric("requests", "u64 counter count")
        .instances("requests", BEFORE)
        .instance_labels("requests", &labels_of(BEFORE))
        .rows([0, 10, 20].map(|second| row(BEFORE, second)))
        .instances("requests", AFTER)
        .instance_labels("requests", &labels_of(AFTER))
        .rows([30, 40, 50].map(|second| row(AFTER, second)))
        .finish()
}

fn printed(base: &Path, command: &str, options: &[&str]) -> String {
    printed_of(base, &[&[command], options].concat())
}

fn columns(csv: &str) -> Vec<(String, Vec<String>)> {
    let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    (2..rows[0].len())
        .map(|at| {
            let column: Vec<String> = rows.iter().map(|row| row[at].to_owned()).collect();
            let head = column[0].split(" (").next().unwrap_or_default();
            (head.to_owned(), column[1..].to_vec())
        })
        .collect()
}

#[track_caller]
fn assert_rates(csv: &str, expected: &[(&str, [&str; 6])]) {
    let expected: Vec<(String, Vec<String>)> = expected
        .iter()
        .map(|(name, values)| ((*name).to_owned(), values.map(str::to_owned).to_vec()))
        .collect();
    let mut found = columns(csv);
    found.sort();
    assert_eq!(found, expected, "{csv}");
}

const A: [&str; 6] = ["", "10", "10", "", "", ""];
const B: [&str; 6] = ["", "20", "20", "20", "20", "20"];
const C: [&str; 6] = ["", "30", "30", "30", "30", "30"];
const D: [&str; 6] = ["", "", "", "", "40", "40"];

#[test]
fn a_report_has_a_column_for_each_name() {
    let archive = archive();
    let options = ["requests", "--rate", "-t", "10s", "--format", "csv"];
    let all = [("requests[/a]", A), ("requests[/b]", B), ("requests[/c]", C), ("requests[/d]", D)];
    assert_rates(&printed(&archive, "report", &options), &all);
    let last = ["requests", "-t", "10s", "-S", "+35s", "--format", "csv"];
    let csv = printed(&archive, "report", &last);
    let heads: Vec<String> = columns(&csv).into_iter().map(|(head, _)| head).collect();
    assert_eq!(heads.len(), 3, "{csv}");
    assert!(!heads.contains(&"requests[/a]".to_owned()), "{csv}");
}

#[test]
fn selections_match_the_name_of_the_time() {
    let archive = archive();
    for options in
        [&["requests", "-i", "/b"][..], &["requests", "-i", "*b"], &[r#"requests{path="b"}"#]]
    {
        let options = [options, &["--rate", "-t", "10s", "--format", "csv"]].concat();
        let csv = printed(&archive, "report", &options);
        assert_rates(&csv, &[("requests[/b]", B)]);
    }
    for expression in [
        "sum(rate(requests[/b]))",
        "sum(rate(matchinst(/b/, requests)))",
        "sum(rate(requests{path=\"b\"}))",
    ] {
        let expression = format!("x = {expression}");
        let options = ["-e", &expression, "-t", "10s", "--format", "csv"];
        assert_rates(&printed(&archive, "report", &options), &[("x", B)]);
    }
    let by_number = printed(&archive, "report", &["requests", "-i", "0", "--format", "csv"]);
    let heads: Vec<String> = columns(&by_number).into_iter().map(|(head, _)| head).collect();
    assert_eq!(heads.len(), 2, "both names that 0 had: {by_number}");
}

#[test]
fn summaries_plots_and_logged_values_have_each_under_its_name() {
    let archive = archive();
    let csv = printed(&archive, "summary", &["requests", "--format", "csv"]);
    for (name, rate) in RATES {
        let line = csv.lines().find(|line| line.starts_with(&format!("requests,{name},"))).unwrap();
        let rates = line.split(',').filter(|cell| cell.parse() == Ok(rate as f32)).count();
        assert!(rates >= 4, "both averages, minimum and maximum: {line}");
    }
    assert_eq!(csv.lines().count(), 1 + RATES.len(), "{csv}");
    let raw = printed(&archive, "report", &["requests", "--raw", "--json"]);
    let follow = printed(&archive, "follow", &["requests", "--json", "-S", "0s", "-s", "6"]);
    for lines in [raw, follow] {
        let mut count = 0;
        for line in lines.lines() {
            let value: serde_json::Value = serde_json::from_str(line).unwrap();
            let second = value["seconds"].as_f64().unwrap() as u64 - 1_700_000_000;
            let rate = RATES.iter().find(|(name, _)| value["instance"] == *name).unwrap().1;
            assert_eq!(value["value"].as_u64(), Some(rate * second), "{line}");
            count += 1;
        }
        assert_eq!(count, 18, "{lines}");
    }
    let plot = printed(&archive, "plot", &["requests", "-i", "/a"]);
    assert!(plot.contains("/a") && !plot.contains("/b"), "{plot}");
}

#[test]
fn a_copy_of_a_name_has_its_values_alone() {
    let archive = archive();
    let copy = archive.directory().join("copy");
    printed(&archive, "extract", &["-i", "/b", "-o", copy.to_str().unwrap()]);
    let csv = printed(&copy, "report", &["requests", "--rate", "-t", "10s", "--format", "csv"]);
    assert_rates(&csv, &[("requests[/b]", B)]);
    printed(&copy, "check", &[]);
    let numbers = printed(&copy, "dump", &[]);
    let names = ["inst [1 or \"/b\"]", "inst [2 or \"/b\"]"];
    assert_eq!(names.map(|name| numbers.matches(name).count()), [3, 3], "as logged: {numbers}");
    assert!(!numbers.contains("/c") && !numbers.contains("/d"), "{numbers}");
}

#[test]
fn quantiles_are_of_the_histograms_of_a_name() {
    let names = |order: [&str; 2]| order.map(|path| format!("path={path}"));
    let buckets = |order: [&str; 2]| {
        let bucket = |path: &str, range: &str| format!("path={path},bucket={range}");
        order.map(|path| [bucket(path, "0..9"), bucket(path, "90..99")]).concat()
    };
    let mut builder = Builder::new()
        .metric("latency.bucket", "u64 counter count")
        .metric("latency.sum", "u64 counter millisec")
        .labels("latency.bucket", &[("histogram", "millisec")]);
    // Of /fast all is in the first bucket, of /slow in the second.
    for (from, order) in [(0, ["/fast", "/slow"]), (3, ["/slow", "/fast"])] {
        let (sums, buckets) = (names(order), buckets(order));
        builder = builder
            .instances("latency.sum", sums.iter().map(String::as_str))
            .instances("latency.bucket", buckets.iter().map(String::as_str));
        for second in from..from + 3 {
            let row: Vec<_> = buckets
                .iter()
                .map(|name| {
                    let is_own =
                        name == "path=/fast,bucket=0..9" || name == "path=/slow,bucket=90..99";
                    (format!("latency.bucket[{name}]"), if is_own { 100 * second } else { 0 })
                })
                .chain(sums.iter().map(|name| (format!("latency.sum[{name}]"), 1000 * second)))
                .collect();
            builder = builder.row(second, row);
        }
    }
    let archive = builder.finish();
    let options = ["latency", "--quantile", "0.5", "-t", "1s", "--format", "csv"];
    let mut found = columns(&printed(&archive, "report", &options));
    found.sort();
    assert_eq!(found.len(), 2, "{found:?}");
    for ((head, values), (path, middle)) in
        found.iter().zip([("/fast", 0.0..=9.0), ("/slow", 90.0..=99.0)])
    {
        assert!(head.contains(path), "{found:?}");
        let values: Vec<f64> = values.iter().filter_map(|value| value.parse().ok()).collect();
        assert_eq!(values.len(), 5, "{found:?}");
        assert!(values.iter().all(|value| middle.contains(value)), "{found:?}");
    }
}

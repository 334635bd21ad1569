//! `report --quantile` and `report --sum`.

use std::path::{Path, PathBuf};
use std::process::Output;

use pcp_archive::Pmid;
use tempfile::TempDir;
use test_archives::Builder;

use crate::program::{printed_of, run_on};
use crate::report_csv::cells;

/// A record: its second, the counts of the values 4..5, 6..7 and 8..11, and their sum; without
/// any a mark.
type Row = (i32, [Option<u64>; 3], Option<u64>);

/// Records of a program that restarted at 60 s, with a mark at 75 s.
const ROWS: [Row; 10] = [
    (0, [None, None, None], Some(0)),
    (10, [Some(100), Some(50), None], Some(700)),
    (20, [Some(130), Some(110), Some(10)], Some(1300)),
    (30, [Some(130), Some(110), Some(10)], Some(1300)),
    (40, [Some(131), Some(110), Some(10)], Some(1305)),
    (50, [Some(131), Some(119), Some(10)], Some(1368)),
    (60, [None, Some(7), None], Some(42)),
    (70, [None, Some(7), Some(1)], Some(51)),
    (75, [None, None, None], None),
    (80, [Some(1), Some(9), Some(1)], Some(69)),
];

fn archive() -> (TempDir, PathBuf) {
    archive_of(&ROWS)
}

fn archive_of(rows: &[Row]) -> (TempDir, PathBuf) {
    let mut builder = Builder::named("latency")
        .metric("web.latency.bucket", "u64 counter count")
        .metric("web.latency.sum", "u64 counter microsec")
        .numbered_instances("web.latency.bucket", [(4, "4..5"), (5, "6..7"), (6, "8..11")])
        .labels("web.latency.bucket", &[("histogram", "microsec")])
        .domain_labels("web.latency.bucket", &[("bucket_max", 10), ("bucket_precision", 1)]);
    for &(second, [first, middle, last], total) in rows {
        builder = match total {
            None => builder.mark(second),
            Some(_) => builder.row(
                second,
                [
                    ("web.latency.bucket[4..5]", first),
                    ("web.latency.bucket[6..7]", middle),
                    ("web.latency.bucket[8..11]", last),
                    ("web.latency.sum", total),
                ],
            ),
        };
    }
    builder.finish().into_parts()
}

fn report(base: &Path, arguments: &[&str]) -> Output {
    report_of(base, &[&["-t", "10s"], arguments].concat())
}

fn report_of(base: &Path, arguments: &[&str]) -> Output {
    run_on(base, &[&["report", "--format", "csv"], arguments].concat())
}

fn lines(base: &Path, arguments: &[&str]) -> Vec<String> {
    lines_every("10s", base, arguments)
}

fn lines_every(interval: &str, base: &Path, arguments: &[&str]) -> Vec<String> {
    let output = report_of(base, &[&["-t", interval], arguments].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(cells).collect()
}

#[test]
fn quantiles_are_of_what_was_counted_between_samples() {
    let (_directory, base) = archive();
    let expected = [
        "web.latency.p50,web.latency.p99",
        ",",       // 0 s: no moment before
        "4.5,6.5", // 10 s: all from 0, as the sum was there at 0 s
        "6.5,9.5", // 20 s: 30, 60, and 10 from 0
        ",",       // 30 s: nothing was counted
        "4.5,4.5", // 40 s: one value
        "6.5,6.5", // 50 s
        ",",       // 60 s: restarted
        "9.5,9.5", // 70 s: since the restart one value of 8..11
        ",",       // 80 s: a mark on the way
    ];
    let labelled = "web.latency{histogram='microsec'}";
    for name in ["web.latency", "web.latency.bucket", "web", labelled] {
        assert_eq!(lines(&base, &[name, "--quantile", "0.5,0.99"]), expected, "{name}");
    }
}

/// The values 8..11 are rare: they fall from 15 to 1 a minute after the restart at
/// 50 s, and none is counted until then.
#[test]
fn quantiles_before_and_after_a_restart_are_whole() {
    let row = |second, counted: [u64; 3]| {
        let sum = 4 * counted[0] + 6 * counted[1] + 8 * counted[2];
        (second, counted.map(|count| Some(count).filter(|count| *count > 0)), Some(sum))
    };
    let before = (0..5).map(|n| row(10 * n, [100 + 10 * n as u64, 50 + 10 * n as u64, 15]));
    let after = (0..10).map(|n| row(50 + 10 * n, [1 + 20 * n as u64, 4, u64::from(n >= 6)]));
    let (_directory, base) = archive_of(&before.chain(after).collect::<Vec<_>>());
    let quantiles = ["web", "--quantile", "0.5,0.99"];
    let mut expected = vec!["web.latency.p50,web.latency.p99", ","];
    expected.extend(["4.5,6.5"; 4]);
    // 50 s: over the restart; 110 s: 20 of 4..5 and the first of 8..11.
    expected.extend([","].into_iter().chain(["4.5,4.5"; 5]).chain(["4.5,9.5"]));
    expected.extend(["4.5,4.5"; 3]);
    assert_eq!(lines(&base, &quantiles), expected);
    let part = lines(&base, &[&quantiles[..], &["-S", "60s", "-T", "10s"]].concat());
    assert_eq!(part[1..], ["4.5,4.5", "4.5,4.5"]);
    let across = lines(&base, &[&quantiles[..], &["-S", "45s", "-T", "40s"]].concat());
    // At 45 s what was counted until 40 s, at 55 s what was counted since 50 s.
    assert_eq!(across[1..], ["4.5,6.5", "4.5,4.5", "4.5,4.5", "4.5,4.5", "4.5,4.5"]);
}

#[test]
fn quantiles_over_a_mark_or_a_restart_are_of_what_was_observed() {
    let (_directory, base) = archive();
    let at = |second: i64, options: &[&str]| {
        let at = format!("@{}.000000001", 1_700_000_000 + second);
        let selected = ["web", "--quantile", "0.5,0.99,1", "--at", &at];
        let output = report_of(&base, &[&selected, options].concat());
        let text = String::from_utf8(output.stdout).unwrap();
        let values = text.lines().nth(1).map(cells);
        values.filter(|values| values != ",,").unwrap_or_default()
    };
    let found = |second, span: &str| at(second, &["-t", span]);
    // From 50 s on: nothing until the restart at 60 s, one of 8..11 until the mark at 75 s.
    assert_eq!(found(80, "30s"), "9.5,9.5,9.5");
    // Nine of 6..7 from 40 s to 50 s as well; one of 4..5 from 30 s on.
    assert_eq!(found(80, "40s"), "6.5,9.5,9.5");
    assert_eq!(found(80, "50s"), "6.5,9.5,9.5");
    // 75 s to 80 s: one observation.
    assert_eq!(found(80, "4s"), "");
    assert_eq!(found(72, "8s"), "9.5,9.5,9.5", "64 s to 70 s, the last values before the mark");
    assert_eq!(found(72, "4s"), "", "most of the interval of its one value is before 68 s");
    assert_eq!(found(10, "60s"), "4.5,6.5,6.5");
    for span in ["30s", "40s", "50s"] {
        assert_eq!(at(80, &["-t", span, "--pcp"]), "", "{span}");
    }
    let quantile = ["-e", "p = quantile(0.99, web.latency)"];
    let minutes = lines_every("40s", &base, &quantile);
    assert_eq!(minutes, ["p", "", "9.5", "9.5"], "{quantile:?}");
    let text = printed_of(&base, &["summary", "web", "--quantile", "0.5", "--format", "csv"]);
    // 131 of 4..5, 119 of 6..7, 11 of 8..11.
    assert!(text.contains(",p50,") && text.contains(",261,,,,4.35,,,,,,,4.5,microsec"), "{text}");
}

/// A bucket that counts for the first time after a mark counts from 0, if any other bucket
/// is logged before; the sum may be logged at other times.
#[test]
fn a_bucket_that_appears_after_a_mark_was_empty() {
    let rows = [
        (0, [Some(10), None, None], Some(40)),
        (10, [Some(20), None, None], Some(80)),
        (15, [None; 3], None),
        (20, [None; 3], Some(120)),
        (30, [Some(40), None, None], Some(160)),
        (40, [Some(40), None, Some(3)], Some(184)),
    ];
    let (_directory, base) = archive_of(&rows);
    // 10 of 4..5 until 10 s, and 3 of 8..11 from 30 s on; those of the first record with
    // buckets, 40 of 4..5, may have been counted at any time.
    let found = lines_every("40s", &base, &["web", "--quantile", "0.75,0.77"]);
    assert_eq!(found, ["web.latency.p75,web.latency.p77", ",", "4.5,9.5"]);
}

/// The first slow second of a program: rows of a report begin between records.
#[test]
fn new_bucket_has_its_part_of_the_first_interval() {
    let rows = [
        (0, [Some(100), None, None], Some(400)),
        (10, [Some(200), None, None], Some(800)),
        (20, [Some(300), None, None], Some(1200)),
        (30, [Some(400), None, Some(80)], Some(2240)),
        (40, [Some(500), None, Some(160)], Some(3280)),
    ];
    let (_directory, base) = archive_of(&rows);
    // From 15 s to 25 s 50 of 4..5 before 20 s, and 50 after it with 40 of 8..11.
    let report =
        |arguments: &[&str]| lines(&base, &[arguments, &["-S", "15s", "-T", "20s"]].concat());
    assert_eq!(report(&["web", "--quantile", "0.71,0.72"])[2..], ["4.5,9.5", "9.5,9.5"]);
    let below = report(&["-e", "below(5, web.latency)", "--precision", "6"]);
    assert_eq!(below[2..], ["0.714286", "0.555556"]);
    let rates = report(&["web.latency"]);
    let rates: Vec<&str> = rates[2..].iter().map(|row| row.split(',').next().unwrap()).collect();
    assert_eq!(rates, ["14", "18"]);
}

#[test]
fn a_window_without_its_beginning_has_the_same_quantiles() {
    let (_directory, base) = archive();
    let late = lines(&base, &["web", "--quantile", "0.5,0.99", "-S", "20s", "-T", "30s"]);
    assert_eq!(late[1..], ["6.5,9.5", ",", "4.5,4.5", "6.5,6.5"]);
}

#[test]
fn the_last_minute_has_a_quantile_of_its_own() {
    let rows: Vec<Row> = (0..=12u64)
        .map(|n| {
            let (fast, slow) = (100 * n, if n > 6 { 10 * (n - 6) } else { 0 });
            (10 * n as i32, [Some(fast), None, Some(slow)], Some(4 * fast + 8 * slow))
        })
        .collect();
    let (_directory, base) = archive_of(&rows);
    let whole = |options: &[&str]| {
        let report = ["report", "web", "--quantile", "0.95", "--format", "csv"];
        let text = printed_of(&base, &[&report[..], options].concat());
        text.lines().skip(1).map(|line| line.rsplit(',').next().unwrap().to_owned()).collect()
    };
    let lines: Vec<String> = whole(&["--last", "1m", "-t", "1m"]);
    assert_eq!(lines, ["9.5"], "60 of the 660 values of the minute are of 8..11");
    let lines: Vec<String> = whole(&["--last", "2m", "-t", "2m"]);
    assert_eq!(lines, ["4.5"], "and of the 1260 of both minutes");
}

#[test]
fn other_metrics_and_invalid_quantiles_are_errors() {
    let (_directory, base) = archive();
    let output = report(&base, &["web.latency.sum", "--quantile", "0.5"]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr.contains("none of the metrics is a histogram"), "{stderr}");
    let output = report(&base, &["web", "--quantile", "0.5,1.5"]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr.contains("1.5") && stderr.contains("not a quantile such as"), "{stderr}");
}

#[test]
fn a_sum_is_of_values_or_of_rates() {
    let (_directory, base) = archive();
    let sums = lines(&base, &["web.latency.bucket", "--sum", "-S", "20s", "-T", "30s"]);
    assert_eq!(sums, ["web.latency.bucket", "250", "250", "251", "260"]);
    let rates = lines(&base, &["web.latency.bucket", "--sum", "--rate", "-S", "20s", "-T", "30s"]);
    assert_eq!(rates[1..], ["9", "0", "0.1", "0.9"], "an instance that appears has no rate");
}

#[test]
fn sums_of_many_metrics_have_distinct_pmids() {
    let mut builder = Builder::named("wide");
    for number in 0..1100 {
        let pmid = Pmid::new(70, 1 + number / 1000, number % 1000).unwrap();
        let name = format!("m.n{number}");
        builder = builder.metric_with(pmid, &name, "u32 instant").in_domain(&name, 1);
    }
    let values = (0..1100)
        .flat_map(|number| ["x", "y"].map(|instance| (format!("m.n{number}[{instance}]"), number)));
    let archive = builder.instances("m.n0", ["x", "y"]).row(0, values).finish();
    let lines = lines(&archive, &["m", "--sum", "-s", "1"]);
    let values: Vec<_> = lines[1].split(',').collect();
    assert_eq!(values.len(), 1100);
    let largest = values.iter().map(|value| value.parse::<u32>().unwrap()).max();
    assert_eq!(largest, Some(2 * 1099));
}

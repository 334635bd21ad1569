//! `pcp_archive::Archive::series` answers as `mmv-archive report` prints.

use std::path::Path;

use pcp_archive::{Archive, ArchiveSet, SeriesError, SeriesPoint};
use proptest::prelude::*;
use test_archives::{Builder, at, of_every_kind};

use crate::program::{run_on, text};
use crate::programs::{shop, shop_that_ends};

/// A value of a report or of a series, in a form that both have.
type Line = (i64, u32, Option<String>, f64);

/// Returns what `report` prints of a metric, in the order of time and instance names.
fn report(base: &Path, arguments: &[&str]) -> Vec<Line> {
    let output = run_on(base, &[&["report", "--format", "jsonl"], arguments].concat());
    let mut lines: Vec<Line> = Vec::new();
    for line in text(&output.stdout).lines() {
        // `serde_json` reads the last digit of a number inexactly.
        let value = line.split_once("\"value\":").unwrap().1.split([',', '}']).next().unwrap();
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let time: jiff::Timestamp = line["time"].as_str().unwrap().parse().unwrap();
        let seconds = time.as_second();
        let nanoseconds = time.subsec_nanosecond() as u32;
        let name = line["instance"].as_str().map(ToOwned::to_owned);
        lines.push((seconds, nanoseconds, name, value.parse().unwrap()));
    }
    lines.sort_by(|one, other| (one.0, one.1, &one.2).cmp(&(other.0, other.1, &other.2)));
    lines
}

fn lines(points: &[SeriesPoint]) -> Vec<Line> {
    points
        .iter()
        .map(|point| {
            let name = point.instance.as_deref().map(ToOwned::to_owned);
            (point.time.seconds(), point.time.nanoseconds(), name, point.value)
        })
        .collect()
}

fn compare_all(base: &Path, interval: &str) -> usize {
    let archive = Archive::open(base).unwrap();
    let mut compared = 0;
    for metric in archive.metadata().metrics() {
        let name = metric.display_name();
        let series = || archive.series(&*name).unwrap().every(interval);
        let rates = match series().rates().all() {
            Err(SeriesError::NotNumbers { .. }) => continue,
            rates => rates.unwrap(),
        };
        let arguments = ["--buckets", "-t", interval, &*name];
        assert_eq!(lines(&rates), report(base, &[&arguments[..], &["--rate"]].concat()), "{name}");
        let values = series().all().unwrap();
        assert_eq!(
            lines(&values),
            report(base, &[&arguments[..], &["--no-rate"]].concat()),
            "{name}"
        );
        let last = series().rates().last("25s").unwrap();
        let arguments = [&arguments[..], &["--rate", "--last", "25s"]].concat();
        assert_eq!(lines(&last), report(base, &arguments), "{name}");
        compared += rates.len() + values.len() + last.len();
    }
    compared
}

#[test]
fn series_are_those_of_report_in_programs_that_restart() {
    for (_directory, base) in [shop(true), shop(false), shop_that_ends()] {
        assert!(compare_all(&base, "10s") > 30);
        compare_all(&base, "7s");
    }
}

#[test]
fn series_are_those_of_report_for_values_of_every_kind() {
    compare_all(of_every_kind().base(), "10s");
}

#[test]
fn quantiles_of_a_series_are_those_of_report() {
    let builder = Builder::new()
        .metric("web.latency.bucket", "u64 counter count")
        .metric("web.latency.sum", "u64 counter microsec")
        .numbered_instances("web.latency.bucket", [(4, "4..5"), (5, "6..7")])
        .labels("web.latency.bucket", &[("histogram", "microsec")])
        .domain_labels("web.latency.bucket", &[("bucket_max", 10), ("bucket_precision", 1)]);
    let cells = |first: u64, second: u64| {
        [("web.latency.bucket[4..5]", first), ("web.latency.bucket[6..7]", second)]
    };
    let made = builder.row(0, cells(0, 0)).row(10, cells(100, 50)).row(20, cells(101, 110));
    let made = made.finish();
    let archive = Archive::open(made.base()).unwrap();
    for name in ["web.latency.bucket", "web.latency"] {
        let series = archive.series(name).unwrap().quantile(0.99).every("10s");
        let points = series.all().unwrap();
        assert_eq!(points.len(), 2);
        let arguments = [name, "--quantile", "0.99", "-t", "10s"];
        assert_eq!(lines(&points), report(made.base(), &arguments));
    }
}

#[test]
fn directory_of_archives_is_one_series() {
    let directory = tempfile::tempdir().unwrap();
    for (name, start, count) in [("a", 0, 0), ("b", 30, 500)] {
        Builder::in_directory(directory.path(), name)
            .metric("app.requests", "u64 counter count")
            .row(start, [("app.requests", count)])
            .row(start + 10, [("app.requests", count + 70)])
            .finish();
    }
    let archives = ArchiveSet::open([directory.path()]).unwrap();
    let series = archives.series("app.requests").unwrap().rates().every("10s");
    let points = series.last("1h").unwrap();
    assert_eq!(points.len(), 2, "{points:?}");
    let arguments = ["app.requests", "--rate", "-t", "10s", "--last", "1h"];
    assert_eq!(lines(&points), report(directory.path(), &arguments));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn series_are_those_of_report(
        rows in prop::collection::vec((1..20i64, 0..500i64, prop::option::of(0..500i64), 0..8u8), 2..12)
    ) {
        let mut builder = Builder::new()
            .metric("app.requests", "u64 counter count")
            .instances("app.requests", ["b", "a"]);
        let mut now = 0;
        for (distance, first, second, mark) in rows {
            builder = match second {
                Some(second) => {
                    builder.row(now, [("app.requests[a]", first), ("app.requests[b]", second)])
                }
                None => builder.row(now, [("app.requests[a]", first)]),
            };
            if mark == 0 {
                builder = builder.mark(now + 1);
            }
            now += distance + 1;
        }
        let made = builder.row(now, [("app.requests[b]", 1000)]).finish();
        compare_all(made.base(), "3s");
        let archive = Archive::open(made.base()).unwrap();
        let (start, end) = (at(now / 4), at(now));
        let points = archive.series("app.requests").unwrap().rates().between(start, end).unwrap();
        let span = [start, end].map(|time| format!("@{}", time.seconds()));
        let arguments = ["app.requests", "--rate", "-S", &*span[0], "-T", &*span[1]];
        if now - now / 4 >= 2 {
            prop_assert_eq!(lines(&points), report(made.base(), &arguments));
        }
    }
}

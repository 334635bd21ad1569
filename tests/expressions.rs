//! `report -e` against PCP's own derived metrics: the same archive, the same
//! expressions, the same numbers.
//!
//! Samples are taken at the times of the records, where the rule for what is no
//! counter is the same in PCP 6.0.3 as in later releases. What is not the same
//! has tests of its own, and is listed in the documentation of
//! `mmv_archive::replay::expression`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use mmv_archive::{
    ArchiveWriter, FetchResult, InDom, Instance, InstanceId, MetricDesc, OwnedValue, Pmid,
    Semantics, Timestamp, ValueSet, ValueType, WriterLabel, WriterOptions,
};

use crate::harness::binaries;
use crate::harness::oracle::Oracle;
use crate::harness::scratch::Scratch;

const START: i64 = 1_700_000_000;

/// Name, type, semantics, units, and whether there are instances.
const METRICS: [(&str, ValueType, Semantics, &str, bool); 9] = [
    ("t.bytes", ValueType::U64, Semantics::Counter, "Kbyte", false),
    ("t.more", ValueType::U64, Semantics::Counter, "Kbyte", false),
    ("t.ops", ValueType::U32, Semantics::Counter, "count", false),
    ("t.busy", ValueType::U64, Semantics::Counter, "millisec", false),
    ("t.free", ValueType::U32, Semantics::Instant, "Kbyte", false),
    ("t.total", ValueType::U64, Semantics::Instant, "Mbyte", false),
    ("t.level", ValueType::Double, Semantics::Instant, "", false),
    ("t.ncpu", ValueType::U32, Semantics::Discrete, "", false),
    ("t.by", ValueType::U64, Semantics::Counter, "count", true),
];

/// Expressions on which both agree.
const SAME: [&str; 38] = [
    "t.bytes + t.more",
    "rate(t.bytes)",
    "delta(t.bytes)",
    "delta(t.bytes) / delta(t.ops)",
    "rate(t.busy)",
    "100 * rate(t.busy) / t.ncpu",
    "t.free / 2",
    "t.free / t.total",
    "100 * (t.total - t.free) / t.total",
    "t.total - t.free",
    "t.free + t.total",
    "-t.level",
    "(t.level + 1.5) * 2",
    "2 * t.level - 3",
    "t.level * t.free",
    "t.bytes / 8",
    "t.bytes * t.ncpu",
    "1 + 2 * 3 - 4 / 8",
    "sum(t.by)",
    "avg(t.by)",
    "min(t.by)",
    "max(t.by)",
    "count(t.by)",
    "rate(t.by)",
    "delta(t.by)",
    "delta(t.free)",
    "delta(t.level)",
    "t.by + t.ops",
    "t.by / t.ncpu",
    "instant(t.bytes)",
    r#"rescale(t.free, "Mbyte")"#,
    r#"rescale(t.total, "Gbyte")"#,
    r#"rescale(rate(t.bytes), "byte / sec")"#,
    "delta(t.busy) / 1000",
    "rate(t.bytes) / rate(t.ops)",
    "avg(t.by) - min(t.by)",
    "t.more - t.bytes",
    "t.ncpu - 7",
];

fn domain() -> InDom {
    InDom::new(70, 1).unwrap()
}

fn desc(item: usize) -> MetricDesc {
    let (_, value_type, semantics, units, has_instances) = METRICS[item];
    MetricDesc {
        pmid: Pmid::new(70, 1, item as u32).unwrap(),
        value_type,
        indom: has_instances.then(domain),
        semantics,
        units: units.parse().unwrap(),
    }
}

/// A record a second, twelve of them; if wanted a mark behind that at 5 s, and at
/// 9 s counters that were set back.
fn archive(scratch: &Scratch, has_mark: bool) -> PathBuf {
    let base = scratch.path().join("derived");
    let label = WriterLabel {
        pid: 1,
        hostname: "host".into(),
        timezone: "UTC".into(),
        zoneinfo: String::new(),
    };
    let mut writer = ArchiveWriter::create(&base, label, WriterOptions::default()).unwrap();
    for (item, (name, ..)) in METRICS.into_iter().enumerate() {
        writer.declare_metric(&desc(item), &[name]).unwrap();
    }
    let id = |id| InstanceId::new(id).unwrap();
    let instances =
        [(2, "left"), (5, "right")].map(|(n, name)| Instance { id: id(n), name: name.into() });
    writer.declare_indom(domain(), &instances).unwrap();
    for second in 0..12_u64 {
        let value = |item: usize| match item {
            0 => OwnedValue::U64(1000 + 37 * second * second),
            1 => OwnedValue::U64(5_000_000_000 + 11 * second),
            2 if has_mark && second >= 9 => OwnedValue::U32(second as u32),
            2 => OwnedValue::U32(3 + 7 * second as u32),
            3 => OwnedValue::U64(350 * second + second * second),
            4 => OwnedValue::U32(700_000 - 1000 * (second as u32 % 5)),
            5 => OwnedValue::U64(2048),
            6 => OwnedValue::Double(second as f64 * 0.75 - 3.0),
            _ => OwnedValue::U32(4),
        };
        let set = |item: usize| {
            let values = match desc(item).indom {
                None => vec![(None, value(item))],
                Some(_) => [2, 5]
                    .map(|n| (Some(id(n)), OwnedValue::U64(second * second * n as u64)))
                    .to_vec(),
            };
            ValueSet { pmid: desc(item).pmid, values: Ok(values) }
        };
        let timestamp = Timestamp::new(START + second as i64, 0).unwrap();
        if has_mark && second == 6 {
            writer.write_mark(Timestamp::new(START + 5, 500_000_000).unwrap()).unwrap();
        }
        let value_sets = (0..METRICS.len()).map(set).collect();
        writer.write_result(&FetchResult { timestamp, value_sets }).unwrap();
    }
    writer.finish().unwrap();
    base
}

/// The numbers of the rows of a CSV table, by column.
fn numbers(table: &str) -> Vec<Vec<Option<f64>>> {
    let row = |row: &str| row.split(',').skip(1).map(|cell| cell.parse().ok()).collect();
    table.lines().skip(1).map(row).collect()
}

fn name(place: usize) -> String {
    format!("d.e{place}")
}

/// What pmrep prints of derived metrics, counters as they are.
fn theirs(oracle: &Oracle, scratch: &Scratch, base: &Path, expressions: &[&str]) -> Output {
    let definitions = scratch.path().join("definitions");
    let line = |(place, text): (usize, &&str)| format!("{} = {text}\n", name(place));
    let text: String = expressions.iter().enumerate().map(line).collect();
    std::fs::write(&definitions, text).unwrap();
    let mut command = oracle.command("pmrep");
    command.env("PCP_DERIVED_CONFIG", &definitions);
    command.args(["-r", "-o", "csv", "-P", "9", "-t", "1", "-Z", "UTC", "-a"]).arg(base);
    command.args((0..expressions.len()).map(name)).output().unwrap()
}

/// What our command prints of them.
fn ours(base: &Path, expressions: &[&str]) -> Vec<Vec<Option<f64>>> {
    let mut command = Command::new(binaries::mmv_archive());
    command.arg("report").arg(base).args(["-t", "1s", "--format", "csv", "-Z", "UTC"]);
    for (place, text) in expressions.iter().enumerate() {
        command.args(["-e", &format!("{} = {text}", name(place))]);
    }
    let output = command.output().unwrap();
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && complaints.is_empty(), "{complaints}");
    numbers(&String::from_utf8(output.stdout).unwrap())
}

/// Equal to all places that pmrep was asked for.
fn is_same(theirs: Option<f64>, ours: Option<f64>) -> bool {
    match (theirs, ours) {
        (Some(theirs), Some(ours)) => (theirs - ours).abs() <= 1e-9 * ours.abs().max(1.0),
        (theirs, ours) => theirs == ours,
    }
}

#[track_caller]
fn compare(oracle: &Oracle, scratch: &Scratch, base: &Path, expressions: &[&str]) {
    let theirs = theirs(oracle, scratch, base, expressions);
    let complaints = String::from_utf8_lossy(&theirs.stderr);
    assert!(theirs.status.success() && complaints.is_empty(), "{complaints}");
    let theirs = numbers(&String::from_utf8(theirs.stdout).unwrap());
    let ours = ours(base, expressions);
    assert_eq!(theirs.len(), ours.len(), "samples");
    for (second, (theirs, ours)) in theirs.iter().zip(&ours).enumerate() {
        assert_eq!(theirs.len(), ours.len(), "columns");
        for (column, (theirs, ours)) in theirs.iter().zip(ours).enumerate() {
            assert!(is_same(*theirs, *ours), "{second} s, column {column}: {theirs:?}, {ours:?}");
        }
    }
}

#[test]
fn expressions_have_the_numbers_of_derived_metrics() {
    let Some(oracle) = Oracle::find() else { return };
    let scratch = Scratch::new();
    let base = archive(&scratch, false);
    compare(&oracle, &scratch, &base, &SAME);
}

/// The growth since the moment before, of twelve seconds with a mark behind the
/// sixth record and a counter that is set back at the tenth. Behind a mark PCP
/// has no counter at all for one sample, and so no growth for two; a counter
/// that was set back has a rate of nearly 2^32 there, and here none.
#[test]
fn growth_is_that_of_derived_metrics_save_at_marks_and_resets() {
    const MARK: usize = 6;
    const RESET: usize = 9;
    let Some(oracle) = Oracle::find() else { return };
    let scratch = Scratch::new();
    let base = archive(&scratch, true);
    let expressions = ["rate(t.bytes)", "delta(t.bytes)", "delta(t.level)", "rate(t.ops)"];
    let output = theirs(&oracle, &scratch, &base, &expressions);
    let theirs = numbers(&String::from_utf8(output.stdout).unwrap());
    let ours = ours(&base, &expressions);
    let differing: Vec<_> = (0..12)
        .flat_map(|second| (0..expressions.len()).map(move |column| (second, column)))
        .filter(|&(second, column)| !is_same(theirs[second][column], ours[second][column]))
        .map(|(second, column)| (second, column, theirs[second][column], ours[second][column]))
        .collect();
    let expected = [
        (MARK + 1, 0, None, Some(481.0)),
        (MARK + 1, 1, None, Some(481.0)),
        (MARK + 1, 3, None, Some(7.0)),
        (RESET, 3, Some(2f64.powi(32) - 50.0), None),
    ];
    assert_eq!(differing, expected);
    assert_eq!(ours[MARK], [None, None, Some(0.75), None], "a level has no walls");
}

/// PCP takes the growth of an unsigned metric for unsigned.
#[test]
fn a_level_that_falls_has_a_negative_rate() {
    let Some(oracle) = Oracle::find() else { return };
    let scratch = Scratch::new();
    let base = archive(&scratch, false);
    let output = theirs(&oracle, &scratch, &base, &["rate(t.free)"]);
    let theirs = numbers(&String::from_utf8(output.stdout).unwrap());
    assert_eq!(theirs[1], [Some(2f64.powi(32) - 1000.0)]);
    assert_eq!(ours(&base, &["rate(t.free)"])[1], [Some(-1000.0)]);
}

/// PCP's functions take nothing but the name of a metric.
#[test]
fn functions_of_expressions_are_more_than_pcp_has() {
    let Some(oracle) = Oracle::find() else { return };
    let scratch = Scratch::new();
    let base = archive(&scratch, false);
    for (expression, second) in [
        ("sum(rate(t.by))", 7.0),
        ("rate(sum(t.by))", 7.0),
        ("max(delta(t.by)) - min(delta(t.by))", 3.0),
    ] {
        let theirs = theirs(&oracle, &scratch, &base, &[expression]);
        let complaint = String::from_utf8_lossy(&theirs.stderr);
        assert!(complaint.contains("Metric name expected to follow"), "{expression}: {complaint}");
        assert_eq!(ours(&base, &[expression])[1], [Some(second)], "{expression}");
    }
}

//! `report -e` against PCP's own derived metrics: the same archive, the same
//! expressions, the same numbers.
//!
//! Samples are taken at the times of the records, where the rule for levels is the
//! same in PCP 6.0.3 as in later releases. The differences have tests of their
//! own, and are listed in the documentation of `pcp_archive::replay::expression`.
//! PCP 7 has more kinds of expressions: these are compared where the oracle is of 7.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use pcp_archive::replay::Replay;
use pcp_archive::replay::expression::definitions;
use pcp_archive::{Archive, MetricDesc, Pmid};
use test_archives::{Builder, Cell};

use crate::harness::oracle::Oracle;
use crate::harness::scratch::Scratch;
use crate::harness::{binaries, corpus, skip};

/// Name, description for [`Builder::metric`], and whether there are instances.
const METRICS: [(&str, &str, bool); 12] = [
    ("t.bytes", "u64 counter Kbyte", false),
    ("t.more", "u64 counter Kbyte", false),
    ("t.ops", "u32 counter count", false),
    ("t.busy", "u64 counter millisec", false),
    ("t.free", "u32 instant Kbyte", false),
    ("t.total", "u64 instant Mbyte", false),
    ("t.level", "double instant none", false),
    ("t.ncpu", "u32 discrete none", false),
    ("t.by", "u64 counter count", true),
    ("t.gauge", "u32 instant none", true),
    ("t.signed", "i32 instant none", false),
    ("t.queue", "u64 instant count", true),
];

const SAME: [&str; 97] = [
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
    "t.free < 699000",
    "t.free <= 699000",
    "t.free == 699000",
    "t.free >= 699000",
    "t.free > 699000",
    "t.free != 699000",
    "t.gauge < 2",
    "t.gauge == t.queue",
    "t.queue > t.gauge",
    "t.level > t.gauge",
    "t.signed == t.level",
    "t.level > 0.25",
    "t.gauge > 1 && t.level < 0",
    "t.gauge > 1 || t.level < 0 && t.ncpu",
    "!t.gauge",
    "!t.gauge > 1",
    "!t.gauge > 1 || t.signed == 3",
    "!(t.free == 699000)",
    "t.gauge > 1 ? t.gauge : t.gauge * 2",
    "t.gauge ? t.queue : t.queue * 3",
    "t.level > 0 ? t.gauge : t.gauge + 1",
    "t.free > 699000 ? t.free : t.free * 2",
    "t.free == 699000 ? delta(t.free) : delta(t.free) * 2",
    "t.level > 0 ? sum(t.gauge) : t.gauge",
    r#"delta(t.free) == 0 ? mkconst(0, type=double, semantics=instant, units="Kbyte / count") : delta(t.bytes) / delta(t.ops)"#,
    "t.level > 0 ? mkconst(5, semantics=instant) : mkconst(6, semantics=instant)",
    "t.ncpu < 5 ? 7 : 0 ? 8 : 9",
    "t.ncpu > 5 ? t.free : (t.ncpu < 3 ? t.free * 3 : t.free * 5)",
    r#"mkconst(7, units="Kbyte", semantics=instant) + t.free"#,
    "mkconst(0.5, type=float) * t.level",
    "mkconst(4294967295, type=32) + t.signed",
    "mkconst(3, type=u64) * t.gauge",
    "mkconst(7, semantics=counter, units=count) + t.ops",
    "defined(t.free)",
    "defined(t.nobody)",
    "defined(t.free) + t.ncpu",
    "scalar(matchinst(/^l/, t.gauge))",
    "scalar(matchinst(!/^l/, t.gauge))",
    r"scalar(matchinst(/e\\w*t$/, t.gauge + 1))",
    "matchinst(/left|right/, t.by)",
    "scalar(t.gauge[right])",
    "scalar(t.gauge[left]) + scalar(t.gauge[right])",
    "scalar(matchinst(/^r/, t.queue)) * 2",
    "scalar(t.gauge)",
    "instant(t.by)",
    "-t.gauge",
    "-t.ncpu * 2 + 3",
    "t.level * -t.gauge + 1",
    "t.signed - 7",
    r#"rescale(t.busy, "sec")"#,
    r#"rescale(t.queue, "count x 10^1")"#,
    "t.queue + 1",
    "t.gauge + t.queue",
    "delta(t.gauge)",
    "delta(t.signed)",
    "rate(t.level)",
    "max(t.gauge) - min(t.queue)",
    "sum(t.gauge) > count(t.by)",
    "avg(t.gauge) == 1.5",
];

/// Expressions on which PCP 7.2.1 agrees as well.
const SAME_IN_7: [&str; 38] = [
    "delta(t.bytes + t.more)",
    "rate(t.bytes + t.more)",
    "rate(sum(t.by))",
    "delta(t.by / t.ncpu)",
    "delta(5 + t.ncpu)",
    "instant(t.bytes + t.more)",
    r#"rescale(delta(t.bytes), "byte")"#,
    "scalar(sum(t.by))",
    "scalar(t.gauge + 1)",
    "scalar((t.gauge + 1)[left])",
    "scalar(matchinst(/le[f]t/, t.by) / 2)",
    "scalar(matchinst(/le/, t.by) - matchinst(/ri/, t.by))",
    "t.ncpu == 4 ? novalue(type=u64) : t.level",
    "t.ncpu == 4 ? t.level : novalue(type=u64)",
    "t.ncpu == 4 ? novalue() : t.gauge",
    "t.level > 0.25 ? t.signed : novalue()",
    "defined(t.nobody) ? t.nobody : t.gauge",
    "defined(t.nobody) ? t.nobody : 7",
    "!defined(t.nobody) && defined(t.free) ? t.free : t.nobody",
    "0 || 1 ? t.signed : 7",
    "!0 ? t.signed : 7",
    "(defined(t.signed)) ? t.signed : t.nobody",
    "mkconst(1, type=double) ? t.signed : t.nobody",
    "mkconst(0, type=64) ? t.nobody : t.signed",
    "mkconst(3, meta=t.level)",
    "mkconst(3.75, meta=t.level)",
    "mkconst(3.75, meta=t.free)",
    "mkconst(4294967297.5, meta=t.signed)",
    "mkconst(5000000000.0, meta=t.ncpu)",
    "mkconst(3.5, meta=t.gauge)",
    "mkconst(3, indom=70.1) * t.gauge",
    "mkconst(3, meta=t.gauge, indom=NULL) * t.gauge",
    r#"mkconst(5, units="voltage (V)")"#,
    r#"mkconst(5, units="voltage (V)") / mkconst(2, units="voltage (V)")"#,
    r#"100 / mkconst(5, units="power (W)")"#,
    r#"mkconst(5, units="power (W)") + mkconst(7, units="power (W)")"#,
    r#"rescale(mkconst(5, units="voltage (V)"), "voltage (mV)")"#,
    r#"rate(mkconst(5, units="power (W) sec") * t.ncpu)"#,
];

/// Writes twelve records, one a second; with `has_mark` a mark after that at 5 s, and counters
/// that are reset at 9 s.
fn archive(scratch: &Scratch, has_mark: bool) -> PathBuf {
    let mut builder = Builder::in_directory(scratch.path(), "derived");
    for (item, (name, description, has_instances)) in (0..).zip(METRICS) {
        builder = builder.metric_with(Pmid::new(70, 1, item).unwrap(), name, description);
        if has_instances {
            let instances = [(2, "left"), (5, "right")];
            builder = builder.in_domain(name, 1).numbered_instances(name, instances);
        }
    }
    for second in 0..12_i64 {
        if has_mark && second == 6 {
            builder = builder.mark(5.5);
        }
        let is_reset = has_mark && second >= 9;
        let values = [
            ("t.bytes", Cell::from(1000 + 37 * second * second)),
            ("t.more", (5_000_000_000 + 11 * second).into()),
            ("t.ops", if is_reset { second } else { 3 + 7 * second }.into()),
            ("t.busy", (350 * second + second * second).into()),
            ("t.free", (700_000 - 1000 * (second % 5)).into()),
            ("t.total", 2048.into()),
            ("t.level", (second as f64 * 0.75 - 3.0).into()),
            ("t.ncpu", 4.into()),
            ("t.by[left]", (second * second * 2).into()),
            ("t.by[right]", (second * second * 5).into()),
            ("t.gauge[left]", (second % 2).into()),
            ("t.gauge[right]", (second % 5).into()),
            ("t.signed", (5 - second).into()),
            ("t.queue[left]", (second * 2 % 7).into()),
            ("t.queue[right]", (second * 5 % 7).into()),
        ];
        builder = builder.row(second, values);
    }
    builder.finish();
    scratch.path().join("derived")
}

fn numbers(table: &str) -> Vec<Vec<Option<f64>>> {
    let times = time_columns(table);
    let rows = table.lines().skip(1);
    rows.map(|row| row.split(',').skip(times).map(|cell| cell.parse().ok()).collect()).collect()
}

/// Returns the number of columns with the time: one of pmrep, two of ours.
fn time_columns(table: &str) -> usize {
    if table.starts_with("Time,Seconds,") { 2 } else { 1 }
}

fn name(place: usize) -> String {
    format!("d.e{place}")
}

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

/// Returns whether numbers are equal to the places that pmrep prints.
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

#[test]
fn expressions_of_pcp_7_have_its_numbers_and_metadata() {
    let Some(oracle) = oracle_of_7() else { return };
    let scratch = Scratch::new();
    let base = archive(&scratch, false);
    compare(&oracle, &scratch, &base, &SAME_IN_7);
    compare_metadata(&oracle, &scratch, &base, &SAME_IN_7);
}

/// Finds an oracle of PCP 7; `None`, with a message, where PCP is of an earlier version.
fn oracle_of_7() -> Option<Oracle> {
    let oracle = Oracle::find()?;
    if oracle.major() < 7 {
        skip::report("PCP is older than 7; PCP_ENV names another one");
        return None;
    }
    Some(oracle)
}

/// Evaluates with PCP 7.2.1 and ours, at 4 s, the differences that the documentation of
/// expressions lists and no other test covers.
#[test]
fn listed_differences_from_pcp_7_exist() {
    let Some(oracle) = oracle_of_7() else { return };
    let scratch = Scratch::new();
    let base = archive(&scratch, false);
    for (expression, theirs_at_4, ours_at_4) in [
        ("scalar(t.gauge[5])", None, Some(4.0)),
        ("delta(defined(t.free))", None, Some(0.0)),
        ("delta(instant(t.bytes))", None, Some(259.0)),
        ("defined(t.nobody) && t.nobody > 3 ? t.free : t.free", None, Some(696_000.0)),
    ] {
        let theirs = theirs(&oracle, &scratch, &base, &[expression]);
        let theirs = numbers(&String::from_utf8(theirs.stdout).unwrap());
        let theirs = theirs.get(4).and_then(|row| row.first().copied().flatten());
        assert_eq!(theirs, theirs_at_4, "{expression}");
        assert_eq!(ours(&base, &[expression])[4], [ours_at_4], "{expression}");
    }
    for expression in ["sum(matchinst(/t$/, t.queue / 2))", "0.5 ? t.signed : 7"] {
        let theirs = theirs(&oracle, &scratch, &base, &[expression]);
        assert!(!theirs.status.success() || !theirs.stderr.is_empty(), "{expression}");
        assert!(ours(&base, &[expression])[4][0].is_some(), "{expression}");
    }
}

/// The growth since the moment before, over twelve seconds with a mark after the
/// sixth record and a counter that is reset at the tenth. After a mark PCP has no
/// counter value for one sample, and so no growth for two; a counter that was
/// reset has a rate of nearly 2^32 in PCP 6.0.3, and none in 7.2.1 and here.
#[test]
fn growth_differs_from_derived_metrics_at_marks_and_resets_only() {
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
    let mut expected = vec![
        (MARK + 1, 0, None, Some(481.0)),
        (MARK + 1, 1, None, Some(481.0)),
        (MARK + 1, 3, None, Some(7.0)),
    ];
    if oracle.major() < 7 {
        expected.push((RESET, 3, Some(2f64.powi(32) - 50.0), None));
    }
    assert_eq!(differing, expected);
    assert_eq!(ours[MARK], [None, None, Some(0.75), None], "a mark does not hide a level");
}

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

/// PCP converts numbers as C does, compares different scales as they are, and calls
/// a comparison with a counter a counter, of which pmrep prints the rate.
#[test]
fn numbers_are_compared_by_value() {
    let Some(oracle) = Oracle::find() else { return };
    let scratch = Scratch::new();
    let base = archive(&scratch, false);
    let expressions = ["-t.signed > 3", "t.free > t.total", "t.ops >= 31"];
    let output = theirs(&oracle, &scratch, &base, &expressions);
    let theirs = numbers(&String::from_utf8(output.stdout).unwrap());
    let ours = ours(&base, &expressions);
    assert_eq!(theirs[1], [Some(1.0), Some(1.0), Some(0.0)]);
    assert_eq!(ours[1], [Some(0.0), Some(0.0), Some(0.0)]);
    assert_eq!((theirs[5][2], ours[5][2]), (Some(0.0), Some(1.0)));
    assert_eq!(ours[8][0], Some(0.0));
    assert_eq!(ours[9][0], Some(1.0), "-4 is 4 after the minus");
}

#[test]
fn functions_take_expressions() {
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
        let is_refused = complaint.contains("Metric name expected to follow");
        let is_allowed = expression.starts_with("rate") && oracle.major() >= 7;
        assert_eq!(is_refused, !is_allowed, "{expression}: {complaint}");
        assert_eq!(ours(&base, &[expression])[1], [Some(second)], "{expression}");
    }
}

/// Returns the metadata of an expression as `pminfo -d` prints them.
fn described(desc: &MetricDesc) -> String {
    let indom = desc.indom.map_or("PM_INDOM_NULL".to_owned(), |indom| indom.to_string());
    let units = desc.units.to_string();
    let units = if units.is_empty() { "none" } else { &units };
    format!("{}, {indom}, {}, {units}", desc.value_type, desc.semantics)
}

#[test]
fn expressions_have_the_metadata_of_derived_metrics() {
    let Some(oracle) = Oracle::find() else { return };
    let scratch = Scratch::new();
    let base = archive(&scratch, false);
    compare_metadata(&oracle, &scratch, &base, &SAME);
}

fn compare_metadata(oracle: &Oracle, scratch: &Scratch, base: &Path, expressions: &[&str]) {
    let archive = Archive::open(base).unwrap();
    let mut selection = Replay::open(&archive);
    for (place, text) in expressions.iter().enumerate() {
        selection.derive(&format!("{} = {text}", name(place)).parse().unwrap()).unwrap();
    }
    drop(theirs(oracle, scratch, base, expressions));
    let mut command = oracle.command("pminfo");
    command.env("PCP_DERIVED_CONFIG", scratch.path().join("definitions"));
    let names = (0..expressions.len()).map(name);
    let output = command.arg("-d").arg("-a").arg(base).args(names).output();
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    let field = |text: &str, label: &str| {
        let (_, value) = text.split_once(label).unwrap_or_else(|| panic!("{label} in {text}"));
        value.split("  ").next().unwrap().lines().next().unwrap().trim().to_owned()
    };
    let theirs = text.split("\n\n").map(|metric| {
        let indom = field(metric, "InDom: ");
        let indom = indom.split(' ').next().unwrap();
        let (value_type, semantics) = (field(metric, "Data Type: "), field(metric, "Semantics: "));
        format!("{value_type}, {indom}, {semantics}, {}", field(metric, "Units: "))
    });
    let ours = selection.derived().map(|metric| described(&metric.desc));
    let pairs: Vec<_> = theirs.zip(ours).zip(expressions).collect();
    assert_eq!(pairs.len(), expressions.len());
    for ((theirs, ours), text) in pairs {
        // PCP takes the units of the left operand, a plain number.
        let is_sum = ["t.gauge + t.queue", "max(t.gauge) - min(t.queue)"].contains(text);
        let theirs = if is_sum { theirs.replace("none", "count") } else { theirs };
        assert_eq!(ours, theirs, "{text}");
    }
}

fn stock(oracle: &Oracle) -> PathBuf {
    oracle.root().join("var/lib/pcp/config/derived")
}

#[test]
fn all_stock_definitions_can_be_parsed() {
    let Some(oracle) = Oracle::find() else { return };
    let mut count = 0;
    for entry in std::fs::read_dir(stock(&oracle)).unwrap() {
        let path = entry.unwrap().path();
        for (line, definition) in definitions(&std::fs::read_to_string(&path).unwrap()) {
            count += 1;
            assert!(definition.is_ok(), "{}:{line}: {definition:?}", path.display());
        }
    }
    assert!(count >= 60, "{count}");
}

/// Operators over disks and processors that archives of the corpus have.
const OPERATIONS: &str = r#"
op.greater = delta(disk.dev.read) > delta(disk.dev.write)
op.and = delta(disk.dev.read) == 0 && !(delta(disk.dev.write) == 0)
op.or = delta(disk.dev.read) >= 5 || delta(disk.dev.write) < 3
op.choice = delta(disk.dev.read) != 0 ? delta(disk.dev.read) : delta(disk.dev.write) * 2
op.choice(oneline) = reads, or twice the writes
op.match = matchinst(!/nothing/, disk.dev.read)
op.negative = -delta(disk.dev.write) <= 0
op.rescale = rescale(rate(disk.dev.read_bytes), "byte / min")
op.defined = defined(disk.dev.read) * count(disk.dev.read)
op.constant = count(disk.dev.read) + mkconst(3, semantics=instant, units=count)
op.busy = 100 * (rate(kernel.all.cpu.user) + rate(kernel.all.cpu.sys)) / hinv.ncpu > 5
"#;

/// Returns the columns of a CSV table by their titles, those of instances as pmrep writes them.
fn columns(table: &str) -> BTreeMap<String, Vec<Option<f64>>> {
    let title = |title: &str| {
        let name = title.trim_matches('"').split(" (").next().unwrap_or_default();
        name.replace('[', "-").replace(']', "")
    };
    let titles: Vec<String> =
        table.lines().next().unwrap().split(',').skip(time_columns(table)).map(title).collect();
    let rows = numbers(table);
    let column = |place: usize| rows.iter().map(|row| row[place]).collect();
    titles.into_iter().enumerate().map(|(place, title)| (title, column(place))).collect()
}

#[test]
fn stock_definitions_have_the_values_of_pcp_in_the_corpus() {
    let (Some(oracle), Some(_)) = (Oracle::find(), test_corpus::directory("archives")) else {
        return;
    };
    let scratch = Scratch::new();
    let own = scratch.path().join("operations.conf");
    std::fs::write(&own, OPERATIONS).unwrap();
    let stock = stock(&oracle);
    let mut compared = 0;
    for name in ["20130706-a", "20190628.06.31", "kenj-pc-1", "multi_v3-20150508.11.50", "small"] {
        let Some(archive) = corpus::archives().into_iter().find(|archive| archive.name == name)
        else {
            continue;
        };
        let steps = ["-t", "7s", "-s", "30", "-Z", "UTC"];
        let mut command = Command::new(binaries::mmv_archive());
        command.arg("report").arg(&archive.base).args(steps).args(["--format", "csv"]);
        let output = command.arg("-e").arg(&stock).arg("-e").arg(&own).output().unwrap();
        let complaints = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && complaints.is_empty(), "{name}: {complaints}");
        let ours = columns(&String::from_utf8(output.stdout).unwrap());
        let metrics: BTreeSet<&str> =
            ours.keys().map(|title| title.split('-').next().unwrap()).collect();

        let mut command = oracle.command("pmrep");
        command.env("PCP_DERIVED_CONFIG", format!("{}:{}", stock.display(), own.display()));
        command.args(["-r", "-o", "csv", "-P", "9"]).args(steps).arg("-a").arg(&archive.base);
        let output = command.args(metrics).output().unwrap();
        let theirs = columns(&String::from_utf8(output.stdout).unwrap());
        for (title, ours) in &ours {
            let theirs = theirs.get(title).unwrap_or_else(|| panic!("{name}: {title}"));
            assert_eq!(ours.len(), theirs.len(), "{name}: samples");
            for (sample, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
                assert!(is_same(*theirs, *ours), "{name}: {title} {sample}: {theirs:?}, {ours:?}");
                compared += usize::from(ours.is_some());
            }
        }
    }
    if compared > 0 {
        assert!(compared > 2000, "{compared}");
    }
    println!("{compared} values");
}

//! `mmv-archive reduce` and pmlogreduce on the corpus.

use std::path::Path;

use pcp_archive::replay::Replay;
use pcp_archive::{Archive, InstanceId, Semantics, Timestamp};
use test_archives::Builder;

use crate::harness::corpus;
use crate::harness::mmv_archive::printed_of;
use crate::harness::oracle::Oracle;
use crate::harness::scratch::Scratch;

#[track_caller]
fn reduce(archive: &Path, interval: &str, output: &Path) {
    let output = output.to_str().expect("UTF-8");
    printed_of(archive, &["reduce", "-t", interval, "-o", output]);
}

fn findings(oracle: &Oracle, archive: &Path) -> Vec<String> {
    let output = oracle.output("pmlogcheck", &["-w".as_ref(), archive.as_os_str()]);
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    let lines = text.lines().map(|line| line.split_once(": ").map_or(line, |(_, rest)| rest));
    lines.map(str::to_owned).collect()
}

#[test]
fn pmlogcheck_finds_nothing_new_in_reduced_archives() {
    let Some(oracle) = Oracle::find() else { return };
    let scratch = Scratch::new();
    for archive in corpus::archives() {
        let output = scratch.path().join(&archive.name);
        reduce(&archive.base, "2s", &output);
        let known = findings(&oracle, &archive.base);
        for finding in findings(&oracle, &output) {
            let metric = finding.replace("reduced.minimum.", "").replace("reduced.maximum.", "");
            let description = metric.split_once("]: ").map_or(&*metric, |(_, text)| text);
            let is_known = known.iter().any(|known| known.ends_with(description));
            assert!(is_known, "{}: {finding}\nknown: {known:#?}", archive.name);
        }
    }
}

/// Returns the counters in an archive: time, name, number of the instance, value.
fn counts(archive: &Archive) -> Vec<(Timestamp, String, Option<i32>, f64)> {
    let mut records = archive.records().unwrap();
    let mut all = Vec::new();
    while let Some(record) = records.next().unwrap() {
        for set in record.value_sets() {
            let Some(metric) = archive.metadata().metric(set.pmid()) else { continue };
            if metric.desc.semantics != Semantics::Counter {
                continue;
            }
            for (instance, value) in set.values(metric.desc.value_type).flatten() {
                let Some(value) = value.as_f64() else { continue };
                let instance = instance.map(InstanceId::get);
                all.push((record.timestamp(), metric.display_name(), instance, value));
            }
        }
    }
    all
}

/// Archives with counters in which PCP 6.0.3 interpolates beyond the range of their type, or between
/// values of the wrong type; not those of later releases.
const OVERFLOWING: [&str; 4] = ["babylon.pmview_v2", "kenj-pc-2", "kenj-pc-2-conv3", "reduce-1"];

fn value_at(replay: &Replay<'_>, at: Timestamp, name: &str, instance: Option<i32>) -> Option<f64> {
    let place = replay.metrics().position(|own| own.name == name)?;
    let sample = replay.sample_at(at)?;
    let mut values = sample.values.get(place)?.iter();
    values.find(|(id, _)| id.map(InstanceId::get) == instance)?.1.as_f64()
}

fn replayed(archive: &Archive) -> Replay<'_> {
    let mut selection = Replay::open(archive);
    selection.select("");
    selection.load().unwrap()
}

#[test]
fn counters_have_the_values_of_pmlogreduce_at_its_times() {
    let Some(oracle) = Oracle::find() else { return };
    let scratch = Scratch::new();
    let mut compared = 0;
    for archive in corpus::archives() {
        let original = Archive::open(&archive.base).unwrap();
        let is_long = original.end().seconds_since(original.label().start) > 36_000.0;
        let interval = if is_long { "10min" } else { "10s" };
        let theirs = scratch.path().join(format!("{}.theirs", archive.name));
        let mut program = oracle.command("pmlogreduce");
        program.args(["-A", interval, "-t", interval]).arg(&archive.base).arg(&theirs);
        assert!(program.output().unwrap().status.success(), "{}", archive.name);
        // An archive that is shorter than the interval has no record.
        let Ok(theirs) = Archive::open(&theirs) else { continue };
        let ours = scratch.path().join(&archive.name);
        reduce(&archive.base, interval, &ours);
        let ours = Archive::open(&ours).unwrap();
        let (replay, original) = (replayed(&ours), replayed(&original));
        for (at, name, instance, value) in counts(&theirs) {
            let own = value_at(&replay, at, &name, instance);
            let is_wrong = own != Some(value) && OVERFLOWING.contains(&&*archive.name);
            let expected =
                if is_wrong { value_at(&original, at, &name, instance) } else { Some(value) };
            assert_eq!(own, expected, "{}: {at} {name} {instance:?}", archive.name);
            compared += usize::from(!is_wrong);
        }
    }
    let least = if test_corpus::find("archives").is_some() { 10_000 } else { 1 };
    assert!(compared >= least, "{compared} values");
}

#[test]
fn pcp_reads_the_extremes_of_gauges() {
    let Some(oracle) = Oracle::find() else { return };
    let rows = (0..600).map(|second| {
        let queue = if second == 400 { 99 } else { 2 };
        (second, [("mmv.shop.queue", queue)])
    });
    let made = Builder::new()
        .metric("mmv.shop.queue", "u32 instant none")
        .help("mmv.shop.queue", "orders that wait")
        .rows(rows)
        .finish();
    let reduced = made.directory().join("reduced");
    reduce(made.base(), "1min", &reduced);
    assert_eq!(findings(&oracle, &reduced), Vec::<String>::new());
    let maximum = "reduced.maximum.mmv.shop.queue";
    let archive = reduced.to_str().expect("a UTF-8 path");
    let described = oracle.run("pminfo", &["-dt", "-a", archive, maximum]);
    assert!(described.contains("[orders that wait]"), "{described}");
    assert!(described.contains("Semantics: instant"), "{described}");
    let printed = oracle.run("pmval", &["-r", "-t", "1min", "-a", archive, maximum]);
    let highest = printed.lines().filter(|line| line.trim_end().ends_with(" 99")).count();
    assert_eq!(highest, 1, "the minute with the spike: {printed}");
}

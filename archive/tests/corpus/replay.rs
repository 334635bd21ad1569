//! Interpolated values against those of PCP 7.2.1 (`*.interp.jsonl`).
//!
//! The corpus holds what libpcp answered for thousands of moments in real
//! archives, each in a fresh context. A *cell* is one metric and instance at
//! one moment that either side has a value for, or a moment at which libpcp
//! reports the end of the archive. Lines that libpcp itself answers differently
//! in another order of questions ("unstable") are left out, and so are the
//! counters in [`LIBPCP_IS_WRONG`]. All other cells must be equal, doubles to
//! the last bit; of event arrays the number of records.

use std::collections::BTreeMap;
use std::time::Duration;

use mmv_archive::replay::interpolate::Decrease;
use mmv_archive::replay::{Replay, Sample, times};
use mmv_archive::{Pmid, Timestamp};
use serde_json::Value;

use crate::golden::{self, Case, cases};

/// Counters for which libpcp's own answer is wrong: archive, metric, reason.
const LIBPCP_IS_WRONG: &[(&str, &str, &str)] = &[
    ("babylon.pmview_v2", "disk.all.read", STALE_TYPE),
    ("babylon.pmview_v2", "disk.all.write", STALE_TYPE),
    ("kenj-pc-2", "sample.wrap.ulonglong", SIGNED),
    ("kenj-pc-2-conv3", "sample.wrap.ulonglong", SIGNED),
    ("kenj-pc-2", "sample.wrap.longlong", OVERFLOW),
    ("kenj-pc-2-conv3", "sample.wrap.longlong", OVERFLOW),
    ("kenj-pc-2", "sample.wrap.long", OVERFLOW),
    ("kenj-pc-2-conv3", "sample.wrap.long", OVERFLOW),
    ("reduce-1", "sample.wrap.longlong", OVERFLOW),
];

/// The value blocks of this old archive have 0 in place of their type, and
/// libpcp turns the bytes of a 64-bit value over only if the block says 64.
const STALE_TYPE: &str = "value blocks with a stale type are not byte-swapped";
/// Bounds on both sides of 2^63 are subtracted as signed numbers.
const SIGNED: &str = "unsigned 64-bit bounds are compared as signed";
/// The difference of the bounds does not fit the type it is computed in.
const OVERFLOW: &str = "the difference of the bounds overflows";

/// Whether the cells of a metric are left out, and why.
fn is_left_out(archive: &str, metric: &str) -> bool {
    LIBPCP_IS_WRONG.iter().any(|(a, m, _)| (*a, *m) == (archive, metric))
}

/// Values by metric and instance; -1 is the instance of a singular metric.
type Cells<'a> = BTreeMap<(Pmid, i64), &'a Value>;

fn expected_cells(line: &Value) -> Cells<'_> {
    let mut cells = Cells::new();
    for set in line["v"].as_array().unwrap() {
        let pmid: Pmid = set[0].as_str().unwrap().parse().unwrap();
        // An error in place of values is no value.
        for cell in set[1].as_array().map(Vec::as_slice).unwrap_or_default() {
            cells.insert((pmid, cell[0].as_i64().unwrap_or(-1)), &cell[1]);
        }
    }
    cells
}

/// One archive and the answers it is compared with.
struct Comparison<'a> {
    name: &'a str,
    replay: &'a Replay<'a>,
    cells: u64,
    differences: Vec<String>,
}

impl Comparison<'_> {
    fn line(&mut self, line: &Value) {
        let at = golden::stamp(&line["t"]);
        match (self.replay.at(at), line["err"].as_str()) {
            (Some(sample), None) => self.sample(&sample, line),
            (None, Some("PM_ERR_EOL")) => self.cells += 1,
            (sample, error) => {
                let inside = sample.is_some();
                self.differences.push(format!("{at}: in the archive {inside}, PCP {error:?}"));
            }
        }
    }

    fn sample(&mut self, sample: &Sample<'_>, line: &Value) {
        let mut expected = expected_cells(line);
        for (metric, values) in self.replay.metrics().zip(&sample.values) {
            if is_left_out(self.name, &metric.name) {
                expected.retain(|(pmid, _), _| *pmid != metric.desc.pmid);
                continue;
            }
            for (instance, value) in values {
                let id = instance.map_or(-1, |id| i64::from(id.get()));
                let wanted = expected.remove(&(metric.desc.pmid, id));
                self.cells += 1;
                if !wanted.is_some_and(|wanted| golden::same(wanted, &value.to_owned())) {
                    self.differences.push(format!(
                        "{} ({}) [{id}] at {}: {value:?}, PCP {wanted:?}",
                        metric.name, metric.desc.semantics, sample.timestamp
                    ));
                }
            }
        }
        for ((pmid, id), wanted) in expected {
            let at = sample.timestamp;
            self.differences.push(format!("{pmid} [{id}] at {at}: nothing, PCP {wanted}"));
        }
    }
}

/// Compares one archive; prints what differs and returns how many cells were
/// compared, and how many differ.
fn compare(case: &Case, file: &str, decrease: Decrease) -> (u64, usize) {
    let head = case.lines(file, "gen").remove(0);
    let mut selection = Replay::open(&case.archive).decrease(decrease);
    for metric in head["metrics"].as_array().unwrap() {
        selection.select(metric.as_str().unwrap());
    }
    let replay = selection.load().unwrap();
    let name = case.name.as_str();
    let mut comparison = Comparison { name, replay: &replay, cells: 0, differences: Vec::new() };
    for line in case.lines(file, "interp").iter().filter(|line| line["unstable"] != true) {
        comparison.line(line);
    }
    let differing = comparison.differences.len();
    comparison.differences.iter().take(5).for_each(|text| eprintln!("{name}: {text}"));
    (comparison.cells, differing)
}

/// Compares all archives that have a golden file of this kind; at least
/// `least` cells, so that a corpus without them does not pass for a success.
fn compare_all(file: &str, decrease: Decrease, least: u64) {
    let (mut archives, mut cells, mut differing) = (0, 0, 0);
    for case in cases().filter(|case| case.has(file)) {
        let (more, different) = compare(&case, file, decrease);
        archives += 1;
        cells += more;
        differing += different;
    }
    eprintln!("{file}: {cells} cells of {archives} archives compared, {differing} differ");
    assert_eq!(differing, 0);
    assert!(archives == 0 || cells >= least, "only {cells} cells");
}

#[test]
fn seeking_gives_the_answers_of_a_full_scan() {
    for case in cases() {
        let archive = &case.archive;
        let load = |moments: &[Timestamp]| {
            let mut selection = Replay::open(archive);
            selection.select("");
            let spans: Vec<_> = moments.iter().map(|&at| at..=at).collect();
            if moments.is_empty() { selection.load() } else { selection.load_spans(&spans) }
        };
        // What cannot be read whole has no answers to compare with.
        let Ok(full) = load(&[]) else { continue };
        if full.backward_records() > 0 {
            continue;
        }
        let start = archive.label().start;
        let step = Duration::from_nanos(archive.end().nanos_since(start) as u64 / 11);
        let moments: Vec<Timestamp> = times(start..=archive.end(), step).collect();
        let seeking = load(&moments).unwrap();
        for &at in &moments {
            let text = |replay: &Replay<'_>| format!("{:?}", replay.at(at));
            assert_eq!(text(&seeking), text(&full), "{} at {at}", case.name);
        }
    }
}

/// The `step` lines are those at which a client that steps through an archive
/// is answered otherwise than one that asks for a single time.
#[test]
fn steps_are_answered_as_pcp_answers_them() {
    let (mut steps, mut blank) = (0, 0);
    for case in cases().filter(|case| case.has("interp")) {
        let expected = case.lines("interp", "step");
        let interp = case.lines("interp", "interp");
        let unstable = |line: &Value| {
            interp.iter().any(|other| other["t"] == line["t"] && other["unstable"] == true)
        };
        if expected.is_empty() || expected.iter().any(unstable) {
            continue;
        }
        let head = case.lines("interp", "gen").remove(0);
        let mut selection = Replay::open(&case.archive);
        for metric in head["metrics"].as_array().unwrap() {
            selection.select(metric.as_str().unwrap());
        }
        let replay = selection.load().unwrap();
        let (start, delta) = (golden::stamp(&head["step"]["start"]), &head["step"]["delta"]);
        let step = Duration::new(delta[0].as_u64().unwrap(), delta[1].as_u64().unwrap() as u32);
        let count = head["step"]["count"].as_u64().unwrap() as usize;
        let name = case.name.as_str();
        let mut comparison = Comparison { name, replay: &replay, cells: 0, differences: vec![] };
        for sample in replay.steps(times(start..=replay.end(), step).take(count)) {
            let stamp = |line: &&Value| golden::stamp(&line["t"]) == sample.timestamp;
            match expected.iter().find(stamp) {
                Some(line) => {
                    comparison.sample(&sample, line);
                    blank += 1;
                }
                None => assert_eq!(Some(&sample), replay.at(sample.timestamp).as_ref(), "{name}"),
            }
            steps += 1;
        }
        assert_eq!(comparison.differences, [] as [String; 0], "{name}");
    }
    eprintln!("{steps} steps compared, {blank} of them behind a mark");
    assert!(steps == 0 || blank >= 4);
}

#[test]
fn interpolated_values_are_those_of_pcp() {
    compare_all("interp", Decrease::Reset, 80_000);
}

#[test]
fn wrapped_counters_are_those_of_pcp() {
    compare_all("interp-wrap", Decrease::Wrap, 4_000);
}

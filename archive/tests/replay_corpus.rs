//! Interpolated values against those of PCP 7.2.1 (`*.interp.jsonl`).
//!
//! The corpus holds what libpcp answered for thousands of moments in real
//! archives, each in a fresh context. `MMV_CORPUS` names its folder, else it is
//! looked for beside the repository; without it the test says so and passes.
//!
//! A *cell* is one metric and instance at one moment that either side has a
//! value for, or a moment at which libpcp reports the end of the archive.
//! Lines that libpcp itself answers differently in another order of questions
//! ("unstable") are left out, and so are the counters in [`LIBPCP_IS_WRONG`],
//! each with its reason. All other cells must be equal, doubles to the last bit.
//! (Compressed archives are not read and not compared.)

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use mmv_archive::replay::interpolate::Decrease;
use mmv_archive::replay::{Replay, Sample};
use mmv_archive::{Archive, Pmid, Timestamp, Value};
use serde_json::Value as Json;

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

fn corpus() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/corpus");
    let folder = std::env::var_os("MMV_CORPUS").map_or(beside, PathBuf::from);
    if folder.join("golden").is_dir() {
        return Some(folder);
    }
    eprintln!("skipped: no corpus at {} (MMV_CORPUS names another folder)", folder.display());
    None
}

fn stamp(json: &Json) -> Timestamp {
    let part = |place: usize| json[place].as_i64().unwrap();
    Timestamp::new(part(0), part(1) as u32).unwrap()
}

/// FNV-1a with 64 bits, by which the corpus abbreviates aggregates.
fn fnv(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

/// Whether a value is the one that the corpus has. Event arrays are compared
/// by the number of their records.
fn is_equal(value: Value<'_>, expected: &Json) -> bool {
    let number = || match expected.as_str() {
        Some("NaN") => Some(f64::NAN),
        Some("inf") => Some(f64::INFINITY),
        Some("-inf") => Some(f64::NEG_INFINITY),
        _ => expected.as_f64(),
    };
    match value {
        Value::I32(v) => expected.as_i64() == Some(i64::from(v)),
        Value::U32(v) => expected.as_u64() == Some(u64::from(v)),
        Value::I64(v) => expected.as_i64() == Some(v),
        Value::U64(v) => expected.as_u64() == Some(v),
        Value::Float(v) => number().is_some_and(|e| is_same(f64::from(e as f32), f64::from(v))),
        Value::Double(v) => number().is_some_and(|e| is_same(e, v)),
        Value::String(bytes) => {
            let text: String = bytes.iter().map(|byte| char::from(*byte)).collect();
            expected.as_str() == Some(&text)
        }
        Value::Aggregate(bytes) => {
            let hash = format!("{:016x}", fnv(bytes));
            expected["len"].as_u64() == Some(bytes.len() as u64)
                && (expected["fnv"].as_str() == Some(&hash)
                    || expected["fnv"].as_u64() == Some(fnv(bytes)))
        }
        Value::Event(_) => count(&expected["event"]) == value.event_count(),
        Value::HighresEvent(_) => count(&expected["hrevent"]) == value.event_count(),
    }
}

/// Equal to the last bit, or no numbers both.
fn is_same(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

fn count(array: &Json) -> Option<u32> {
    Some(array.as_array()?.len() as u32)
}

/// Values by metric and instance; -1 is the instance of a singular metric.
type Cells<'a> = BTreeMap<(Pmid, i64), &'a Json>;

fn expected_cells(line: &Json) -> Cells<'_> {
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
    fn line(&mut self, line: &Json) {
        let at = stamp(&line["t"]);
        match (self.replay.at(at), line["err"].as_str()) {
            (Some(sample), None) => self.sample(&sample, line),
            (None, Some("PM_ERR_EOL")) => self.cells += 1,
            (sample, error) => {
                let inside = sample.is_some();
                self.differences.push(format!("{at}: in the archive {inside}, PCP {error:?}"));
            }
        }
    }

    fn sample(&mut self, sample: &Sample<'_>, line: &Json) {
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
                if !wanted.is_some_and(|wanted| is_equal(*value, wanted)) {
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
fn compare(name: &str, archive: &Archive, golden: &str, decrease: Decrease) -> (u64, usize) {
    let mut lines = golden.lines().map(|line| serde_json::from_str::<Json>(line).unwrap());
    let head = lines.next().unwrap();
    let mut selection = Replay::open(archive).decrease(decrease);
    for metric in head["metrics"].as_array().unwrap() {
        selection.select(metric.as_str().unwrap());
    }
    let replay = selection.load().unwrap();
    let mut comparison = Comparison { name, replay: &replay, cells: 0, differences: Vec::new() };
    for line in lines.filter(|line| line["k"] == "interp" && line["unstable"] != true) {
        comparison.line(&line);
    }
    let differing = comparison.differences.len();
    comparison.differences.iter().take(5).for_each(|text| eprintln!("{name}: {text}"));
    (comparison.cells, differing)
}

/// Compares all archives whose golden file has this suffix.
fn compare_all(suffix: &str, decrease: Decrease) {
    let Some(corpus) = corpus() else { return };
    let (mut archives, mut cells, mut differing) = (0, 0, 0);
    for entry in fs::read_dir(corpus.join("golden")).unwrap() {
        let golden = entry.unwrap().path();
        let Some(name) = golden.file_name().unwrap().to_str().unwrap().strip_suffix(suffix) else {
            continue;
        };
        match Archive::open(corpus.join("archives").join(name)) {
            Err(error) => eprintln!("not compared: {error}"),
            Ok(archive) => {
                let text = fs::read_to_string(&golden).unwrap();
                let (more, different) = compare(name, &archive, &text, decrease);
                archives += 1;
                cells += more;
                differing += different;
            }
        }
    }
    eprintln!("{suffix}: {archives} archives, {cells} cells compared, {differing} differ");
    assert!(cells > 0, "nothing was compared");
    assert_eq!(differing, 0);
}

#[test]
fn interpolated_values_are_those_of_pcp() {
    compare_all(".interp.jsonl", Decrease::Reset);
}

#[test]
fn wrapped_counters_are_those_of_pcp() {
    compare_all(".interp-wrap.jsonl", Decrease::Wrap);
}

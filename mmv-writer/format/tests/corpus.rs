//! The view over MMV files that other producers wrote: libpcp_mmv from C, Perl
//! and Python, hornet, speed, Parfait; and over damaged ones.
//!
//! The corpus is not part of the repository; the tests are left out without it.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;

use mmv_format::view::{
    Contents, Indom, Label, LabelClass, Limits, Metric, MetricKind, Problem, Refusal,
};
use pcp_types::{Semantics, Units, ValueType};
use serde_json::Value as Json;

fn json(path: &Path) -> Json {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn read(path: &Path) -> Result<Contents, Refusal> {
    Contents::read(&File::open(path).unwrap(), &Limits::default())
}

/// The corpus maps bytes to U+0000..U+00FF one to one.
fn text(json: &Json) -> Option<String> {
    let bytes = json.as_str()?.chars().map(|byte| u8::try_from(u32::from(byte)).unwrap());
    Some(String::from_utf8_lossy(&bytes.collect::<Vec<_>>()).into_owned())
}

fn number(json: &Json) -> i64 {
    json.as_i64().unwrap()
}

#[test]
fn every_good_file_is_read_as_described() {
    let Some(directory) = test_corpus::directory("mmv") else { return };
    let mut files = 0;
    for entry in std::fs::read_dir(&directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "mmv") {
            let file = path.file_stem().unwrap().to_str().unwrap();
            let contents = read(&path).unwrap_or_else(|refusal| panic!("{file}: {refusal}"));
            let bytes = std::fs::read(&path).unwrap();
            assert_eq!(Contents::parse(&bytes).unwrap(), contents, "{file}");
            compare(file, &contents, &bytes, &json(&path.with_extension("json")));
            files += 1;
        }
    }
    assert!(files >= 20, "only {files} files");
}

fn compare(file: &str, contents: &Contents, bytes: &[u8], expected: &Json) {
    let header = &contents.header;
    assert_eq!(i64::from(header.version), number(&expected["version"]), "{file}");
    assert_eq!(i64::from(header.flags.raw()), number(&expected["flags"]), "{file}");
    assert_eq!(i64::from(header.pid), number(&expected["pid"]), "{file}");
    assert_eq!(i64::from(header.cluster), number(&expected["cluster"]), "{file}");
    assert_eq!(Some(header.generation), expected["generation"].as_u64(), "{file}");
    assert_eq!(header.file_len, bytes.len() as u64, "{file}");
    compare_indoms(file, contents, &expected["indoms"]);
    compare_metrics(file, contents, bytes, &expected["metrics"]);
    compare_labels(file, &contents.labels, &expected["labels"]);
    compare_skipped(file, contents, expected);
}

fn compare_indoms(file: &str, contents: &Contents, expected: &Json) {
    let expected = expected.as_array().unwrap();
    assert_eq!(contents.indoms.len(), expected.len(), "{file}");
    for (found, expected) in contents.indoms.iter().zip(expected) {
        let Indom { serial, short_help, long_help, instances } = found;
        assert_eq!(i64::from(*serial), number(&expected["serial"]), "{file}");
        assert_eq!(*short_help, text(&expected["short"]), "{file}: indom {serial}");
        assert_eq!(*long_help, text(&expected["help"]), "{file}: indom {serial}");
        let found: Vec<_> =
            instances.iter().map(|one| (i64::from(one.id.get()), one.name.clone())).collect();
        let all = expected["instances"].as_array().unwrap().iter();
        let all = all.map(|one| (number(&one[0]), text(&one[1]).unwrap()));
        // Archives cannot hold negative instances: left out, and listed.
        assert_eq!(found, all.filter(|(id, _)| *id >= 0).collect::<Vec<_>>(), "{file}");
    }
}

fn compare_metrics(file: &str, contents: &Contents, bytes: &[u8], expected: &Json) {
    let (mut items, mut index) = (BTreeSet::new(), 0);
    for expected in expected.as_array().unwrap() {
        if !items.insert(number(&expected["item"])) {
            continue;
        }
        let found = &contents.metrics[index];
        compare_descriptor(file, found, expected);
        compare_values(file, contents, index, bytes, &expected["values"]);
        index += 1;
    }
    assert_eq!(contents.metrics.len(), index, "{file}");
}

fn compare_descriptor(file: &str, found: &Metric, expected: &Json) {
    let name = &found.name;
    assert_eq!(Some(name.clone()), text(&expected["name"]), "{file}");
    assert_eq!(i64::from(found.item), number(&expected["item"]), "{file}: {name}");
    assert_eq!(found.kind, kind(expected["type"].as_str().unwrap()), "{file}: {name}");
    let semantics = match expected["sem"].as_str() {
        Some("counter") | None => Semantics::Counter,
        Some("instant") => Semantics::Instant,
        Some("discrete") => Semantics::Discrete,
        Some(other) => panic!("{file}: {other}"),
    };
    assert_eq!(found.semantics, semantics, "{file}: {name}");
    let raw = u32::try_from(number(&expected["units_raw"])).unwrap();
    let elapsed = found.kind == MetricKind::Elapsed;
    let units = if elapsed { Units::microseconds() } else { Units::from_raw(raw) };
    assert_eq!(found.units, units, "{file}: {name}");
    assert_eq!(found.indom.map(i64::from), expected["indom"].as_i64(), "{file}: {name}");
    assert_eq!(found.short_help, text(&expected["short"]), "{file}: {name}");
    assert_eq!(found.long_help, text(&expected["help"]), "{file}: {name}");
}

fn kind(name: &str) -> MetricKind {
    match name {
        "i32" => MetricKind::Numeric(ValueType::I32),
        "u32" => MetricKind::Numeric(ValueType::U32),
        "i64" => MetricKind::Numeric(ValueType::I64),
        "u64" => MetricKind::Numeric(ValueType::U64),
        "float" => MetricKind::Numeric(ValueType::Float),
        "double" => MetricKind::Numeric(ValueType::Double),
        "string" => MetricKind::String,
        "elapsed" => MetricKind::Elapsed,
        other => panic!("type {other}"),
    }
}

fn compare_values(file: &str, contents: &Contents, metric: usize, bytes: &[u8], expected: &Json) {
    let kept = |one: &&Json| one["inst"][0].as_i64().is_none_or(|id| id >= 0);
    let expected: Vec<_> = expected.as_array().unwrap().iter().filter(kept).collect();
    let found: Vec<_> = contents.values_of(metric).collect();
    let name = &contents.metrics[metric].name;
    assert_eq!(found.len(), expected.len(), "{file}: {name}");
    for (found, expected) in found.into_iter().zip(expected) {
        let instance = found.instance.map(|id| i64::from(id.get()));
        assert_eq!(instance, expected["inst"][0].as_i64(), "{file}: {name}");
        let word = |at: u64| {
            let at = usize::try_from(at).unwrap();
            <[u8; 8]>::try_from(&bytes[at..at + 8]).unwrap()
        };
        let kind = contents.metrics[metric].kind;
        let value = value_of(kind, word(found.cell), found.string, bytes);
        assert_eq!(value, expected_value(kind, expected), "{file}: {name}");
        if let Some(extra) = expected["extra"].as_i64() {
            assert_eq!(i64::from_ne_bytes(word(found.extra)), extra, "{file}: {name}");
        }
    }
}

/// A value as text: floats by their bit pattern.
fn value_of(kind: MetricKind, word: [u8; 8], string: Option<u64>, bytes: &[u8]) -> String {
    let [a, b, c, d, ..] = word;
    match kind {
        MetricKind::String => {
            let at = usize::try_from(string.unwrap()).unwrap();
            let entry = &bytes[at..at + 256];
            let end = entry.iter().position(|byte| *byte == 0).unwrap();
            String::from_utf8_lossy(&entry[..end]).into_owned()
        }
        MetricKind::Numeric(ValueType::I32) => i32::from_ne_bytes([a, b, c, d]).to_string(),
        MetricKind::Numeric(ValueType::U32) => u32::from_ne_bytes([a, b, c, d]).to_string(),
        MetricKind::Elapsed | MetricKind::Numeric(ValueType::I64) => {
            i64::from_ne_bytes(word).to_string()
        }
        MetricKind::Numeric(ValueType::U64) => u64::from_ne_bytes(word).to_string(),
        MetricKind::Numeric(ValueType::Float) => {
            format!("{:08x}", u32::from_ne_bytes([a, b, c, d]))
        }
        MetricKind::Numeric(_) => format!("{:016x}", u64::from_ne_bytes(word)),
    }
}

fn expected_value(kind: MetricKind, expected: &Json) -> String {
    match kind {
        MetricKind::String => text(&expected["value"]).unwrap(),
        MetricKind::Numeric(ValueType::Float | ValueType::Double) => {
            expected["bits"].as_str().unwrap().to_owned()
        }
        _ => expected["value"].to_string(),
    }
}

fn compare_labels(file: &str, found: &[Label], expected: &Json) {
    let expected = expected.as_array().unwrap();
    assert_eq!(found.len(), expected.len(), "{file}");
    for (found, expected) in found.iter().zip(expected) {
        let class = match found.class {
            LabelClass::Indom => 4,
            LabelClass::Cluster => 8,
            LabelClass::Item => 16,
            LabelClass::Instances => 32,
        };
        let flags = class | if found.optional { 128 } else { 0 };
        assert_eq!(flags, number(&expected["flags"]), "{file}");
        assert_eq!(i64::from(found.identity), number(&expected["identity"]), "{file}");
        let instance = found.instance.map_or(-1, |id| i64::from(id.get()));
        assert_eq!(instance, number(&expected["internal"]), "{file}");
        let payload = format!("{{\"{}\":{}}}", found.name, found.json_value);
        assert_eq!(Some(payload), text(&expected["payload"]), "{file}");
    }
}

/// Only what an archive cannot hold may be left out of a good file.
fn compare_skipped(file: &str, contents: &Contents, expected: &Json) {
    for defect in &contents.skipped {
        match &defect.problem {
            Problem::NegativeInstance { .. } => {}
            Problem::ItemTwice { found: 1 } if expected["file"] == "qa_v2_simple.mmv" => {}
            other => panic!("{file}: {other}"),
        }
    }
}

#[test]
fn every_damaged_file_gets_its_verdict() {
    let Some(directory) = test_corpus::directory("mmv") else { return };
    let directory = directory.join("bad");
    let list = json(&directory.join("EXPECTED.json"));
    let list = list.as_array().unwrap();
    for expected in list {
        let file = expected["file"].as_str().unwrap();
        let read = read(&directory.join(file));
        let verdict = expected["verdict"].as_str().unwrap();
        let holds = match (verdict, &read) {
            ("reject" | "skip-entry", Err(refusal)) => !refusal.is_not_ready(),
            ("not-ready", Err(refusal)) => refusal.is_not_ready(),
            ("skip-entry", Ok(contents)) => !contents.skipped.is_empty(),
            ("any", _) => true,
            _ => false,
        };
        let skipped = read.as_ref().map(|contents| &contents.skipped);
        assert!(holds, "{file} ({}): wanted {verdict}, got {skipped:?}", expected["what"]);
    }
    assert!(list.len() >= 70, "only {} files", list.len());
}

/// The message must name the damage that the description names.
#[test]
fn a_skipped_entry_is_the_damaged_one_and_the_others_are_there() {
    let Some(directory) = test_corpus::directory("mmv") else { return };
    for (file, metrics, complaint) in [
        ("name_nonul", 6, "no NUL in the 64 bytes of text"),
        ("name_digit", 6, "is not a metric name"),
        ("name_space", 6, "is not a metric name"),
        ("item_dup", 6, "is already taken"),
        ("item_1024", 6, "item 1024, expected at most 1023"),
        ("type_7", 6, "unknown type 7, expected"),
        ("type_neg", 6, "unknown type -1, expected"),
        ("sem_2", 6, "unknown semantics 2, expected"),
        ("v2name_huge", 4, "256 bytes of text at 18446744073709551615 are not within"),
        ("string_off_near", 7, "are not within the strings section"),
        ("value_metric_mid", 7, "861 is not a metric entry"),
        ("help_huge", 7, "help text: 256 bytes of text at 9223372036854775808"),
    ] {
        let contents = read(&directory.join("bad").join(file).with_extension("mmv")).unwrap();
        assert_eq!(contents.metrics.len(), metrics, "{file}");
        let complaints: Vec<_> = contents.skipped.iter().map(ToString::to_string).collect();
        assert!(complaints.iter().any(|one| one.contains(complaint)), "{file}: {complaints:?}");
    }
}

/// forall good files, forall bytes: a flip is survived, and no offset leaves the
/// file. One bit in each byte, a different one from byte to byte.
#[test]
fn a_flipped_bit_anywhere_in_a_real_file_is_survived() {
    let Some(directory) = test_corpus::directory("mmv") else { return };
    for file in ["c_indoms.mmv", "c_v3.mmv", "rs_v2.mmv", "py_a.mmv"] {
        let bytes = std::fs::read(directory.join(file)).unwrap();
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            let Ok(contents) = Contents::parse(&flipped) else { continue };
            for value in &contents.values {
                assert!(value.cell.is_multiple_of(8), "{file}: byte {at}");
                assert!(value.cell + 16 <= bytes.len() as u64, "{file}: byte {at}");
                let end = value.string.map(|string| string + 256);
                assert!(end.is_none_or(|end| end <= bytes.len() as u64), "{file}: byte {at}");
            }
        }
    }
}

/// forall good files, forall lengths in steps: a cut file is refused or read,
/// never past its end.
#[test]
fn a_cut_anywhere_in_a_real_file_is_survived() {
    let Some(directory) = test_corpus::directory("mmv") else { return };
    for file in ["c_indoms.mmv", "c_v3.mmv", "c_v2.mmv"] {
        let bytes = std::fs::read(directory.join(file)).unwrap();
        for len in (0..bytes.len()).step_by(7) {
            if let Ok(contents) = Contents::parse(&bytes[..len]) {
                assert!(contents.values.iter().all(|value| value.extra + 8 <= len as u64));
            }
        }
    }
}

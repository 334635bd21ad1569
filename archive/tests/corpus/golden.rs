//! The golden files: JSON lines written by programs linked with libpcp.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use pcp_archive::raw::event::EventArray;
use pcp_archive::raw::{ErrorCode, FetchResult};
use pcp_archive::{Archive, InDom, OwnedValue, Pmid, Timestamp};
use serde_json::{Value, json};

pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) archive: Archive,
    corpus: PathBuf,
}

pub(crate) fn corpus() -> Option<PathBuf> {
    test_corpus::directory("")
}

/// Returns all archives; without the decoders, those that are not compressed.
pub(crate) fn cases() -> impl Iterator<Item = Case> {
    let corpus = corpus();
    let names = corpus.as_ref().map(|corpus| golden_archives(corpus)).unwrap_or_default();
    names.into_iter().zip(corpus.into_iter().cycle()).map(|(name, corpus)| {
        let archive = Archive::open(corpus.join("archives").join(&name));
        let archive = archive.unwrap_or_else(|error| panic!("{name}: {error}"));
        Case { name, archive, corpus }
    })
}

fn golden_archives(corpus: &std::path::Path) -> Vec<String> {
    let manifest = fs::read_to_string(corpus.join("archives/MANIFEST.json")).unwrap();
    let manifest: Vec<Value> = serde_json::from_str(&manifest).unwrap();
    let names = manifest.iter().map(|entry| entry["name"].as_str().unwrap().to_owned());
    let names = names.filter(|name| cfg!(feature = "compression") || !is_compressed(corpus, name));
    let golden = names
        .into_iter()
        .filter(|name| corpus.join(format!("golden/{name}.records.jsonl")).exists());
    let golden: Vec<_> = golden.collect();
    assert!(golden.len() > 50, "only {} archives", golden.len());
    golden
}

fn is_compressed(corpus: &std::path::Path, name: &str) -> bool {
    let members = fs::read_dir(corpus.join("archives")).unwrap();
    let mut members = members.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    members.any(|file| {
        file.starts_with(&format!("{name}.")) && [".xz", ".bz2"].iter().any(|s| file.ends_with(s))
    })
}

impl Case {
    pub(crate) fn has(&self, file: &str) -> bool {
        self.corpus.join(format!("golden/{}.{file}.jsonl", self.name)).exists()
    }

    pub(crate) fn lines(&self, file: &str, kind: &str) -> Vec<Value> {
        let path = self.corpus.join(format!("golden/{}.{file}.jsonl", self.name));
        let text = fs::read_to_string(path).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|line| line["k"] == kind).collect()
    }
}

pub(crate) fn timestamp(value: &Value) -> Timestamp {
    Timestamp::new(value[0].as_i64().unwrap(), value[1].as_u64().unwrap() as u32).unwrap()
}

/// Decodes text of the golden files, which has a character for each byte.
pub(crate) fn text(bytes: &str) -> String {
    let bytes: Vec<u8> = bytes.chars().map(|byte| u8::try_from(byte).unwrap()).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

pub(crate) fn indom(value: &Value) -> InDom {
    value.as_str().unwrap().parse().unwrap()
}

pub(crate) fn compare(name: &str, result: &FetchResult, line: &Value) {
    let context = format!("{name} record {}", line["n"]);
    assert_eq!(timestamp(&line["t"]), result.timestamp, "{context}");
    if line["mark"] == true {
        assert_eq!(result.value_sets, [], "{context}");
        return;
    }
    let sets = line["v"].as_array().unwrap();
    assert_eq!(sets.len(), result.value_sets.len(), "{context}");
    for (expected, set) in sets.iter().zip(&result.value_sets) {
        assert_eq!(expected[0], set.pmid.to_string(), "{context}");
        match &set.values {
            Err(error) => assert_eq!(expected[1], json!({"err": code(*error)}), "{context}"),
            Ok(values) => {
                let pairs = expected[1].as_array().unwrap();
                assert_eq!(pairs.len(), values.len(), "{context} {}", set.pmid);
                for (pair, (instance, value)) in pairs.iter().zip(values) {
                    let instance = instance.map(|id| i64::from(id.get()));
                    assert_eq!(pair[0].as_i64(), instance, "{context} {}", set.pmid);
                    assert!(same(&pair[1], value), "{context} {}: {pair} {value:?}", set.pmid);
                }
            }
        }
    }
}

/// An archive whose value blocks have type 0, as very old ones may. libpcp
/// swaps bytes by that type and so returns 64-bit values unswapped; the
/// descriptor is right, and so are we.
const STALE_BLOCK_TYPES: &str = "babylon.pmview_v2";

fn unswapped(value: &OwnedValue) -> OwnedValue {
    match value {
        OwnedValue::U64(v) => OwnedValue::U64(v.swap_bytes()),
        OwnedValue::I64(v) => OwnedValue::I64(v.swap_bytes()),
        OwnedValue::Double(v) => OwnedValue::Double(f64::from_bits(v.to_bits().swap_bytes())),
        other => other.clone(),
    }
}

pub(crate) fn as_libpcp(name: &str, mut result: FetchResult) -> FetchResult {
    if name == STALE_BLOCK_TYPES {
        for values in result.value_sets.iter_mut().filter_map(|set| set.values.as_mut().ok()) {
            for (_, value) in values {
                *value = unswapped(value);
            }
        }
    }
    result
}

fn code(error: ErrorCode) -> String {
    error.to_string()
}

pub(crate) fn same(expected: &Value, value: &OwnedValue) -> bool {
    match value {
        OwnedValue::I32(v) => expected.as_i64() == Some(i64::from(*v)),
        OwnedValue::U32(v) => expected.as_u64() == Some(u64::from(*v)),
        OwnedValue::I64(v) => expected.as_i64() == Some(*v),
        OwnedValue::U64(v) => expected.as_u64() == Some(*v),
        OwnedValue::Float(v) => float(expected).is_some_and(|f| same_float(f as f32, *v)),
        OwnedValue::Double(v) => float(expected).is_some_and(|f| same_double(f, *v)),
        OwnedValue::String(bytes) => expected.as_str() == Some(&latin1(bytes)),
        OwnedValue::Aggregate(bytes) => {
            expected["len"] == bytes.len() && expected["fnv"] == format!("{:016x}", fnv(bytes))
        }
        OwnedValue::Event(_) => same_events(&expected["event"], value),
        OwnedValue::HighresEvent(_) => same_events(&expected["hrevent"], value),
    }
}

fn same_float(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
}

fn same_double(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
}

pub(crate) fn latin1(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| char::from(byte)).collect()
}

fn same_events(expected: &Value, value: &OwnedValue) -> bool {
    let (expected, array) = (expected.as_array().unwrap(), EventArray::unpack(value.as_value()));
    let records: Vec<_> = array.unwrap().records().collect();
    expected.len() == records.len()
        && expected.iter().zip(records).all(|(expected, record)| {
            let unpacked: Vec<_> = record.unpacked().collect();
            let parameters = expected["p"].as_array().unwrap();
            timestamp(&expected["t"]) == record.timestamp()
                && parameters.len() == unpacked.len()
                && parameters.iter().zip(unpacked).all(|(expected, (pmid, value))| {
                    expected[0] == pmid.to_string() && same_parameter(&expected[1], value)
                })
        })
}

/// Compares a parameter. libpcp unpacks a word without its type: of a metric that has no
/// descriptor the golden files have it without a sign.
fn same_parameter(expected: &Value, value: pcp_archive::Value<'_>) -> bool {
    let unsigned = match value {
        pcp_archive::Value::I32(word) => expected.as_u64() == Some(word.cast_unsigned().into()),
        _ => false,
    };
    unsigned || same(expected, &value.to_owned())
}

fn float(value: &Value) -> Option<f64> {
    match value.as_str() {
        Some(text) => text.parse().ok(),
        None => value.as_f64(),
    }
}

fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

#[derive(Default)]
pub(crate) struct Totals {
    metrics: BTreeMap<Pmid, Total>,
    records: u64,
    marks: u64,
}

#[derive(Default)]
struct Total {
    sets: u64,
    values: u64,
    errors: u64,
    empty: u64,
    sum: u64,
}

impl Totals {
    pub(crate) fn add(&mut self, result: &FetchResult) {
        self.records += 1;
        self.marks += u64::from(result.value_sets.is_empty());
        for set in &result.value_sets {
            let total = self.metrics.entry(set.pmid).or_default();
            total.sets += 1;
            match &set.values {
                Err(_) => total.errors += 1,
                Ok(values) => {
                    total.empty += u64::from(values.is_empty());
                    total.values += values.len() as u64;
                    let sums = values.iter().map(|(_, value)| checksum(value));
                    total.sum = sums.fold(total.sum, u64::wrapping_add);
                }
            }
        }
    }

    pub(crate) fn compare(&self, case: &Case) {
        let lines = case.lines("records", "metric_total");
        assert_eq!(lines.len(), self.metrics.len(), "{}", case.name);
        for line in lines {
            let pmid: Pmid = line["pmid"].as_str().unwrap().parse().unwrap();
            let total = &self.metrics[&pmid];
            for (field, found) in [
                ("sets", total.sets),
                ("values", total.values),
                ("errors", total.errors),
                ("empty", total.empty),
            ] {
                assert_eq!(line[field], found, "{} {pmid} {field}", case.name);
            }
            assert_eq!(line["sum"], format!("{:016x}", total.sum), "{} {pmid}", case.name);
        }
        for line in case.lines("records", "total") {
            assert_eq!(line["records"], self.records, "{}", case.name);
            assert_eq!(line["marks"], self.marks, "{}", case.name);
        }
    }
}

fn checksum(value: &OwnedValue) -> u64 {
    match value {
        OwnedValue::I32(v) => i64::from(*v).cast_unsigned(),
        OwnedValue::U32(v) => u64::from(*v),
        OwnedValue::I64(v) => v.cast_unsigned(),
        OwnedValue::U64(v) => *v,
        OwnedValue::Float(v) => u64::from(v.to_bits()),
        OwnedValue::Double(v) => v.to_bits(),
        OwnedValue::String(bytes) | OwnedValue::Aggregate(bytes) => fnv(bytes),
        OwnedValue::Event(bytes) | OwnedValue::HighresEvent(bytes) => bytes.len() as u64,
    }
}

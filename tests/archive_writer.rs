//! Archives written by the library, with all that can be in one, in any order:
//! pmlogcheck finds nothing in them, and pmdumplog reads back what was written.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use pcp_archive::raw::{
    ErrorCode, FetchResult, LabelClass, LabelSet, LabelTarget, TextKind, TextTarget, ValueSet,
};
use pcp_archive::{
    ArchiveWriter, InDom, Instance, InstanceId, MetricDesc, OwnedValue, Pmid, Semantics, Timestamp,
    Units, ValueType, WriterLabel, WriterOptions,
};
use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::compliance;
use crate::harness::archive_facts;
use crate::harness::binaries;
use crate::harness::facts::{Record, Values, number};
use crate::harness::oracle::Oracle;
use crate::harness::scratch::Scratch;

/// The types of the metrics: items 1 to 7 are singular, 8 to 14 have instances.
const TYPES: [ValueType; 7] = [
    ValueType::I32,
    ValueType::U32,
    ValueType::I64,
    ValueType::U64,
    ValueType::Float,
    ValueType::Double,
    ValueType::String,
];

#[derive(Debug, Clone)]
enum Step {
    /// A record, `wait` nanoseconds after the last.
    Sample { wait: u64, bits: u64, text: String, sets: Vec<Set> },
    /// The instances that the domain has from the next record on.
    Instances(Vec<i32>),
    /// Another label on everything, from the next record on.
    Label(u32),
    /// A mark, this many nanoseconds after the last record.
    Mark(u64),
    /// A new volume with the next record.
    Volume,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Set {
    Values,
    Nothing,
    Error,
    Absent,
}

#[test]
fn pmlogcheck_accepts_and_pmdumplog_reads_what_is_written() {
    let Some(oracle) = Oracle::find() else { return };
    let cases = if std::env::var_os("MMV_LONG").is_some() { 1000 } else { 24 };
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new(config);
    let sequences = (sample(), vec(step(), 1..40));
    let outcome = runner.run(&sequences, |(first, steps)| {
        let scratch = Scratch::new();
        let base = scratch.path().join("written");
        let written = write(&base, &first, &steps);
        compliance::check(&oracle, &base);
        let read = archive_facts::of_pmdumplog(&oracle, &base).records;
        for (read, written) in read.iter().zip(&written) {
            assert_eq!(read, written, "read left, written right");
        }
        assert_eq!(read.len(), written.len(), "number of records");
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

#[test]
fn pcp_reads_archives_of_the_short_writer() {
    let Some(oracle) = Oracle::find() else { return };
    let scratch = Scratch::new();
    let base = scratch.path().join("out/20261126");
    let mut writer = ArchiveWriter::create(&base).unwrap();
    let requests = writer.counter::<u64>("acme.requests").units(Units::count()).add().unwrap();
    let start = Timestamp::now();
    for second in 0..3 {
        let time = start.saturating_add(Duration::from_secs(second));
        writer.record(time, |r| r.set(requests, 42 + 10 * second)).unwrap();
    }
    writer.finish().unwrap();
    compliance::check(&oracle, &base);
    let archive = base.to_str().unwrap();
    let values = oracle.run("pmval", &["-r", "-t", "1", "-a", archive, "acme.requests"]);
    assert!(values.lines().any(|line| line.ends_with(" 62")), "pmval: {values}");
    let rows = oracle.run("pmrep", &["-t", "1", "-o", "csv", "-a", archive, "acme.requests"]);
    assert!(rows.lines().any(|line| line.ends_with(",10.000")), "pmrep: {rows}");

    let base = scratch.path().join("example");
    let written = Command::new(binaries::example("write")).arg(&base).status().unwrap();
    assert!(written.success(), "example write: {written}");
    compliance::check(&oracle, &base);
    let archive = base.to_str().unwrap();
    let values = oracle.run("pmdumplog", &[archive, "acme.requests"]);
    assert!(values.contains("inst [673433124 or \"magnets\"] value 92"), "pmdumplog: {values}");
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => sample(),
        2 => btree_set(0_i32..50, 1..12).prop_map(|ids| Step::Instances(ids.into_iter().collect())),
        1 => (0_u32..3).prop_map(Step::Label),
        1 => (1000_u64..5_000_000_000).prop_map(Step::Mark),
        1 => Just(Step::Volume),
    ]
}

fn sample() -> impl Strategy<Value = Step> {
    let set = prop_oneof![
        8 => Just(Set::Values),
        1 => Just(Set::Nothing),
        1 => Just(Set::Error),
        2 => Just(Set::Absent),
    ];
    // A microsecond or more: pmdumplog 6.0.3 shows of the labels that came within one
    // only the last.
    let wait = prop_oneof![1000_u64..9999, 1000_u64..3_000_000_000, Just(86_400_000_000_000)];
    (wait, any::<u64>(), "[ -~]{0,40}", vec(set, 2 * TYPES.len()))
        .prop_map(|(wait, bits, text, sets)| Step::Sample { wait, bits, text, sets })
}

struct Writing {
    writer: ArchiveWriter,
    now: Timestamp,
    instances: Vec<i32>,
    records: Vec<Record>,
}

fn write(base: &Path, first: &Step, steps: &[Step]) -> Vec<Record> {
    let label = WriterLabel {
        pid: 4711,
        hostname: "host.example".into(),
        timezone: "AEST-10".into(),
        zoneinfo: ":Australia/Melbourne".into(),
    };
    let options = WriterOptions { index_bytes: 2000, ..WriterOptions::default() };
    let mut writing = Writing {
        writer: ArchiveWriter::create_with(base, label, options).unwrap(),
        now: Timestamp::new(1_700_000_000, 999_999_999).unwrap(),
        instances: vec![0, 3],
        records: Vec::new(),
    };
    writing.declare();
    writing.take(first);
    for step in steps {
        writing.take(step);
    }
    writing.writer.finish().unwrap();
    writing.records
}

impl Writing {
    fn declare(&mut self) {
        for (index, value_type) in TYPES.iter().cycle().take(2 * TYPES.len()).enumerate() {
            let pmid = pmid(index);
            let desc = MetricDesc {
                pmid,
                value_type: *value_type,
                indom: (index >= TYPES.len()).then(indom),
                semantics: [Semantics::Counter, Semantics::Instant, Semantics::Discrete][index % 3],
                units: [Units::bytes().per_second(), Units::count(), Units::default()][index % 3],
            };
            let names = [format!("test.metric{index}"), format!("test.again.metric{index}")];
            let names: Vec<_> = names.iter().take(1 + index % 2).map(String::as_str).collect();
            self.writer.declare_metric(&desc, &names).unwrap();
            let target = TextTarget::Metric(pmid);
            self.writer.declare_text(target, TextKind::OneLine, "one line").unwrap();
            self.writer.declare_text(target, TextKind::Full, "several\nlines\n\nof help").unwrap();
        }
        self.writer.declare_text(TextTarget::InDom(indom()), TextKind::OneLine, "things").unwrap();
        self.declare_instances();
    }

    fn declare_instances(&mut self) {
        let instances: Vec<_> = self
            .instances
            .iter()
            .map(|id| Instance { id: instance_id(*id), name: format!("thing {id}").into() })
            .collect();
        self.writer.declare_indom(indom(), &instances).unwrap();
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Sample { wait, bits, text, sets } => self.sample(*wait, *bits, text, sets),
            Step::Instances(ids) => {
                self.instances.clone_from(ids);
                self.declare_instances();
            }
            Step::Label(number) => self.label(*number),
            Step::Mark(wait) => {
                self.advance(*wait);
                self.writer.write_mark(self.now).unwrap();
                self.record(true, Vec::new());
            }
            Step::Volume => self.writer.switch_volume(),
        }
    }

    fn label(&mut self, number: u32) {
        let value = number.to_string();
        let pairs = [("state", value.as_str(), true), ("zone", "\"a b\"", false)];
        let set = LabelSet::from_pairs(LabelClass::Domain, pairs).unwrap();
        self.writer.declare_labels(LabelTarget::Domain(70), &[set]).unwrap();
        let sets: Vec<_> = self
            .instances
            .iter()
            .map(|id| {
                let pairs = [("bin", value.as_str(), false)];
                let set = LabelSet::from_pairs(LabelClass::Instances, pairs).unwrap();
                set.for_instance(instance_id(*id))
            })
            .collect();
        self.writer.declare_labels(LabelTarget::Instances(indom()), &sets).unwrap();
    }

    fn sample(&mut self, wait: u64, bits: u64, text: &str, sets: &[Set]) {
        self.advance(wait);
        let mut value_sets = Vec::new();
        let mut expected = Vec::new();
        for (index, set) in sets.iter().enumerate() {
            // A record without any set would be a mark.
            let set = if index == 0 && *set == Set::Absent { Set::Values } else { *set };
            let values = match set {
                Set::Absent => continue,
                Set::Error => Err(ErrorCode::VALUE),
                Set::Nothing => Ok(Vec::new()),
                Set::Values => Ok(self.values(index, bits, text)),
            };
            expected.push((pmid(index).to_string(), expectation(values.as_deref().ok())));
            value_sets.push(ValueSet { pmid: pmid(index), values });
        }
        let result = FetchResult { timestamp: self.now, value_sets };
        self.writer.write_result(&result).unwrap();
        self.record(false, expected);
    }

    fn values(&self, index: usize, bits: u64, text: &str) -> Vec<(Option<InstanceId>, OwnedValue)> {
        let value = |turn: i32| {
            let bits = bits.rotate_left(turn.unsigned_abs());
            match TYPES[index % TYPES.len()] {
                ValueType::I32 => OwnedValue::I32(bits as i32),
                ValueType::U32 => OwnedValue::U32(bits as u32),
                ValueType::I64 => OwnedValue::I64(bits as i64),
                ValueType::U64 => OwnedValue::U64(bits),
                ValueType::Float => OwnedValue::Float(f32::from_bits(bits as u32)),
                ValueType::Double => OwnedValue::Double(f64::from_bits(bits)),
                _ => OwnedValue::String(format!("{text}{turn}").into_bytes()),
            }
        };
        if index < TYPES.len() {
            return vec![(None, value(0))];
        }
        self.instances.iter().map(|id| (Some(instance_id(*id)), value(*id))).collect()
    }

    fn advance(&mut self, nanoseconds: u64) {
        self.now = Timestamp::from_nanos(self.now.as_nanos() + i128::from(nanoseconds));
    }

    fn record(&mut self, mark: bool, sets: Vec<(String, Values)>) {
        let timestamp = (self.now.seconds(), self.now.nanoseconds());
        self.records.push(Record { timestamp, mark, sets });
    }
}

/// Returns the values that pmdumplog must print; `None` stands for an error.
fn expectation(values: Option<&[(Option<InstanceId>, OwnedValue)]>) -> Values {
    let Some(values) = values else { return Values::Error };
    let texts = values.iter().map(|(id, value)| (id.map(InstanceId::get), text_of(value)));
    Values::These(texts.collect())
}

/// Formats a value as PCP prints it, with 8 digits of a float and 16 of a double.
fn text_of(value: &OwnedValue) -> String {
    match value {
        OwnedValue::I32(v) => number(&v.to_string()),
        OwnedValue::U32(v) => number(&v.to_string()),
        OwnedValue::I64(v) => number(&v.to_string()),
        OwnedValue::U64(v) => number(&v.to_string()),
        OwnedValue::Float(v) => number(&format!("{v:.7e}")),
        OwnedValue::Double(v) => number(&format!("{v:.15e}")),
        OwnedValue::String(bytes) => format!("\"{}\"", String::from_utf8_lossy(bytes)),
        other => panic!("no metric of this test has {other:?}"),
    }
}

fn pmid(index: usize) -> Pmid {
    Pmid::new(70, 1, index as u32 + 1).unwrap()
}

fn indom() -> InDom {
    InDom::new(70, 2049).unwrap()
}

fn instance_id(id: i32) -> InstanceId {
    InstanceId::new(id).unwrap()
}

use crate::raw::LabelEntry;
use std::fs;

use tempfile::TempDir;
use test_archives::Builder;

use super::*;
use crate::format::{IndomRecordKind, ResultBuilder, desc, index, indom, labelset};
use crate::{
    ByteText, FetchResult, InDom, IndexEntry, InstanceId, LabelClass, LabelSet, LabelTarget,
    MetricDesc, OwnedValue, Pmid, Semantics, Timestamp, Units, ValueSet, ValueType, Version,
};

const LABEL: u64 = Version::V3.label_size();
const LAST: i64 = 3;

fn at(seconds: i64) -> Timestamp {
    Timestamp::new(1_700_000_000 + seconds, 0).unwrap()
}

fn id(number: i32) -> InstanceId {
    InstanceId::new(number).unwrap()
}

fn domain() -> InDom {
    InDom::new(70, 1).unwrap()
}

fn counter() -> MetricDesc {
    MetricDesc {
        pmid: Pmid::new(70, 1, 1).unwrap(),
        value_type: ValueType::U64,
        indom: Some(domain()),
        semantics: Semantics::Counter,
        units: Units::count(),
    }
}

fn result(seconds: i64, instance: i32, value: u64) -> FetchResult {
    let values = Ok(vec![(Some(id(instance)), OwnedValue::U64(value))]);
    FetchResult {
        timestamp: at(seconds),
        value_sets: vec![ValueSet { pmid: counter().pmid, values }],
    }
}

struct Example {
    _directory: TempDir,
    base: PathBuf,
}

impl Example {
    fn new() -> Self {
        let row = |second| (second, [("a.b[one]", 10 + second)]);
        let builder = Builder::indexed(1)
            .metric("a.b", "u64 counter count")
            .in_domain("a.b", 1)
            .numbered_instances("a.b", [(1, "one"), (2, "two")])
            .rows((0..2).map(row));
        let (directory, base) = builder.volume().rows((2..=LAST).map(row)).finish().into_parts();
        Self { _directory: directory, base }
    }

    fn path(&self, extension: &str) -> PathBuf {
        self.base.with_extension(extension)
    }

    fn change(&self, extension: &str, change: impl FnOnce(&mut Vec<u8>)) -> &Self {
        let mut bytes = fs::read(self.path(extension)).unwrap();
        change(&mut bytes);
        fs::write(self.path(extension), bytes).unwrap();
        self
    }

    /// Rule, file and offset of all findings but those of `but`.
    fn findings_but(&self, but: &[&str]) -> Vec<(&'static str, String, u64)> {
        let report = check(&self.base).unwrap();
        let findings = report.findings().iter().filter(|f| !but.contains(&f.defect.rule()));
        let extension = |path: &Path| path.extension().unwrap().to_str().unwrap().to_owned();
        findings.map(|f| (f.defect.rule(), extension(&f.file), f.offset)).collect()
    }

    #[track_caller]
    fn assert(&self, expected: &[(&'static str, &str, u64)]) {
        let expected: Vec<_> = expected.iter().map(|(r, f, o)| (*r, (*f).to_owned(), *o)).collect();
        assert_eq!(self.findings_but(&[]), expected);
    }

    /// The findings on appended metadata; the offset is where it starts.
    #[track_caller]
    fn assert_metadata(&self, rules: &[&'static str], append: impl FnOnce(&mut Vec<u8>)) {
        let mut start = 0;
        self.change("meta", |bytes| {
            start = bytes.len() as u64;
            append(bytes);
        });
        let expected: Vec<_> = rules.iter().map(|rule| (*rule, "meta", start)).collect();
        self.assert(&expected);
    }
}

fn put(bytes: &mut [u8], offset: usize, word: u32) {
    bytes[offset..offset + 4].copy_from_slice(&word.to_be_bytes());
}

const RECORD: usize = 4 + 12 + 4 + 12 + 8 + 12 + 4;

#[test]
fn our_own_archive_is_clean() {
    let example = Example::new();
    example.assert(&[]);
    let report = check(&example.base).unwrap();
    assert_eq!((report.records(), report.marks(), report.values()), (4, 0, 4));
    assert_eq!(report.worst(), None);
}

#[test]
fn missing_files_are_named_and_only_the_index_may_be() {
    let example = Example::new();
    fs::remove_file(example.path("index")).unwrap();
    example.assert(&[("index-missing", "index", 0)]);
    assert_eq!(check(&example.base).unwrap().worst(), Some(Severity::Warning));
    fs::remove_file(example.path("meta")).unwrap();
    assert_eq!(example.findings_but(&["data-metric"])[0].0, "file-missing");
}

#[test]
fn a_record_whose_lengths_differ_does_not_hide_the_next() {
    let example = Example::new();
    let first = LABEL as usize;
    example.change("0", |bytes| put(bytes, first + RECORD - 4, 77));
    example.assert(&[("record-frame", "0", LABEL)]);
    let report = check(&example.base).unwrap();
    assert_eq!(report.records(), 3);
    let Defect::Frame { lost, .. } = report.findings()[0].defect else { panic!() };
    assert_eq!(lost, RECORD as u64);
}

#[test]
fn torn_tail_is_worst_before_the_last_volume() {
    for (file, rule, severity) in [
        ("1", "torn-tail", Severity::Warning),
        ("0", "record-frame", Severity::Error),
        ("index", "torn-tail", Severity::Warning),
        ("meta", "torn-tail", Severity::Error),
    ] {
        let example = Example::new();
        example.change(file, |bytes| bytes.extend([0, 0]));
        let report = check(&example.base).unwrap();
        let [finding] = report.findings() else { panic!("{:?}", report.findings()) };
        assert_eq!((finding.defect.rule(), finding.defect.severity()), (rule, severity), "{file}");
    }
}

#[test]
fn a_new_volume_may_end_within_its_label_and_no_other_file() {
    let example = Example::new();
    fs::write(example.path("2"), [0; 3]).unwrap();
    example.assert(&[("torn-tail", "2", 0)]);
    example.change("1", |bytes| bytes.truncate(700));
    assert!(example.findings_but(&[]).contains(&("label", "1".to_owned(), 0)));
}

#[test]
fn labels_must_belong_together() {
    let example = Example::new();
    example.change("0", |bytes| bytes[11] ^= 1).change("index", |bytes| put(bytes, 24, 5));
    example.assert(&[("label-differs", "0", 0), ("label-volume", "index", 0)]);
}

#[test]
fn unknown_feature_bits_are_found() {
    let example = Example::new();
    example.change("0", |bytes| bytes[31] = 1);
    example.assert(&[("label", "0", 0)]);
}

#[test]
fn times_before_the_start_and_backwards_are_found() {
    let example = Example::new();
    // The seconds of the second record of the first volume.
    let offset = LABEL as usize + RECORD;
    example.change("0", |bytes| put(bytes, offset + 4, 1_600_000_000));
    let found = example.findings_but(&["data-instance"]);
    let rules: Vec<_> = found.iter().map(|(rule, ..)| *rule).collect();
    assert_eq!(rules, ["data-before-start", "data-backwards"]);
    assert!(found.iter().all(|(_, _, at)| *at == offset as u64));
}

#[test]
fn values_need_descriptor_type_and_instance() {
    let example = Example::new();
    let offset = LABEL as usize + RECORD;
    let set = offset + 20;
    example.change("0", |bytes| put(bytes, set, 0x1180_0402));
    example.assert(&[("data-metric", "0", offset as u64)]);
    example.change("0", |bytes| put(bytes, set, counter().pmid.raw()));
    example.change("0", |bytes| put(bytes, set + 8, 2));
    example.assert(&[("data-format", "0", offset as u64)]);
    example.change("0", |bytes| put(bytes, set + 8, 1));
    example.change("0", |bytes| put(bytes, set + 12, 99));
    example.assert(&[("data-instance", "0", offset as u64)]);
}

#[test]
fn a_value_that_is_too_short_for_its_type_is_found() {
    let example = Example::new();
    // A block of 11 bytes fills the same space.
    let offset = LABEL as usize;
    example.change("0", |bytes| bytes[offset + 43] = 11);
    example.assert(&[("data-value", "0", LABEL)]);
}

#[test]
fn labels_of_an_instance_need_a_class_that_has_instances() {
    let pairs = [("a", "1", false)];
    let set = LabelSet::from_pairs(LabelClass::Context, pairs).unwrap().for_instance(id(1));
    let targets =
        [(LabelTarget::Context, &["label-instance"][..]), (LabelTarget::Instances(domain()), &[])];
    for (target, rules) in targets {
        Example::new().assert_metadata(rules, |bytes| {
            labelset::encode(Version::V3, at(0), target, std::slice::from_ref(&set), bytes)
                .unwrap();
        });
    }
}

#[test]
fn a_value_whose_block_states_another_type_is_found() {
    let example = Example::new();
    let start = LABEL as usize;
    for (found, expected, is_fine) in [
        (ValueType::U64, ValueType::I64, false),
        (ValueType::U64, ValueType::Double, false),
        (ValueType::U64, ValueType::String, false),
        (ValueType::U64, ValueType::Aggregate, false),
        (ValueType::String, ValueType::Aggregate, false),
        (ValueType::Aggregate, ValueType::AggregateStatic, true),
        // Code 0 states no type.
        (ValueType::I32, ValueType::Double, true),
    ] {
        example.change("meta", |bytes| put(bytes, start + 12, expected.code() as u32));
        let places = ["0", "1"].map(|volume| [LABEL, LABEL + RECORD as u64].map(|at| (volume, at)));
        for (volume, at) in places.concat() {
            example.change(volume, |bytes| bytes[at as usize + 40] = found.code() as u8);
        }
        let bad = |(volume, at): (&'static str, u64)| ("data-type", volume, at);
        let all: Vec<_> = places.concat().into_iter().map(bad).collect();
        example.assert(if is_fine { &[] } else { &all });
    }
}

#[test]
fn an_event_array_must_not_lead_out_of_its_value() {
    let example = Example::new();
    let start = LABEL as usize;
    // As event arrays the numbers have no records: their first words are 0.
    example.change("meta", |bytes| put(bytes, start + 12, ValueType::Event.code() as u32));
    for (volume, second) in [("0", RECORD), ("1", RECORD)] {
        let block = start + 40;
        example.change(volume, |bytes| {
            (bytes[block], bytes[block + second]) = (9, 9);
        });
    }
    example.assert(&[]);
    example.change("0", |bytes| bytes[start + 47] = 1);
    example.assert(&[("data-events", "0", LABEL)]);
}

#[test]
fn a_counter_that_goes_down_is_noted_unless_a_mark_is_between() {
    let example = Example::new();
    let mut builder = ResultBuilder::default();
    let mut bytes = Vec::new();
    builder.put_result(&result(LAST, 1, 1), |_| ValueType::U64).unwrap();
    builder.encode(Version::V3, at(LAST), &mut bytes).unwrap();
    let end = fs::metadata(example.path("1")).unwrap().len();
    example.change("1", |volume| volume.extend(&bytes));
    example.assert(&[("counter-decrease", "1", end)]);
    assert_eq!(check(&example.base).unwrap().worst(), Some(Severity::Note));
    example.change("1", |volume| {
        volume.truncate(end as usize);
        crate::format::result_builder::encode_mark(Version::V3, at(LAST), volume).unwrap();
        volume.extend(&bytes);
    });
    example.assert(&[]);
}

#[test]
fn a_metric_without_instances_has_one_value() {
    let example = Example::new();
    // The domain in the descriptor, the first record.
    let start = LABEL as usize;
    example.change("meta", |bytes| put(bytes, start + 16, u32::MAX));
    let values = vec![(None, OwnedValue::U64(20)), (None, OwnedValue::U64(21))];
    let set = ValueSet { pmid: counter().pmid, values: Ok(values) };
    let result = FetchResult { timestamp: at(LAST), value_sets: vec![set] };
    let mut builder = ResultBuilder::default();
    builder.put_result(&result, |_| ValueType::U64).unwrap();
    let end = fs::metadata(example.path("1")).unwrap().len();
    example.change("1", |bytes| builder.encode(Version::V3, at(LAST), bytes).unwrap());
    example.assert(&[("data-singular", "1", end)]);
}

#[test]
fn index_entries_must_lead_into_the_files_and_rise() {
    let example = Example::new();
    let second = LABEL as usize + 32;
    let change = |offset: usize, word: u32| {
        example.change("index", |bytes| put(bytes, second + offset, word));
        example.findings_but(&[]).into_iter().map(|(rule, ..)| rule).collect::<Vec<_>>()
    };
    assert_eq!(change(12, 7), ["index-volume-missing", "index-volume-backwards"]);
    assert_eq!(change(12, u32::MAX), ["index-entry"]);
    assert_eq!(change(12, 0), [""; 0]);
    assert_eq!(change(20, 5), ["index-metadata-offset", "index-offset-backwards"]);
    assert_eq!(change(20, LABEL as u32), [""; 0]);
    assert_eq!(change(28, 1 << 20), ["index-data-offset"]);
    assert_eq!(change(28, LABEL as u32 + 3), ["index-boundary"]);
    assert_eq!(change(28, LABEL as u32 + RECORD as u32), [""; 0]);
    assert_eq!(change(0, 1), ["index-before-start", "index-time-backwards", "index-later-before"]);
}

#[test]
fn an_index_entry_after_a_later_record_breaks_its_promise() {
    let example = Example::new();
    let entry = IndexEntry {
        timestamp: at(0),
        volume: 0,
        metadata_offset: LABEL,
        data_offset: LABEL + 2 * RECORD as u64,
    };
    example.change("index", |bytes| {
        bytes.truncate(LABEL as usize);
        index::encode(Version::V3, &entry, bytes).unwrap();
    });
    // Nothing follows in that volume: the entry is not judged.
    example.assert(&[]);
    let entry = IndexEntry { data_offset: LABEL + RECORD as u64, timestamp: at(-1), ..entry };
    example.change("index", |bytes| {
        bytes.truncate(LABEL as usize);
        index::encode(Version::V3, &entry, bytes).unwrap();
    });
    assert!(example.findings_but(&[]).contains(&("index-later-before", "index".to_owned(), LABEL)));
}

#[test]
fn differences_must_fit_what_they_change() {
    type Case<'c> = (&'c [&'static str], &'c [(InstanceId, Option<&'c ByteText>)]);
    let (three, other) = ("three".into(), "other".into());
    let cases: &[Case<'_>] = &[
        (&[], &[(id(2), None), (id(3), Some(&three))]),
        (&["delta-unknown"], &[(id(3), None)]),
        (&["delta-known"], &[(id(2), Some(&other))]),
        (&["instance-repeated", "delta-unknown"], &[(id(2), None), (id(2), None)]),
    ];
    for (rules, entries) in cases {
        Example::new().assert_metadata(rules, |bytes| {
            indom::encode(Version::V3, IndomRecordKind::Delta, at(LAST), domain(), entries, bytes)
                .unwrap();
        });
    }
    let other = InDom::new(70, 2).unwrap();
    Example::new().assert_metadata(&["delta-first"], |bytes| {
        indom::encode(
            Version::V3,
            IndomRecordKind::Delta,
            at(LAST),
            other,
            &[(id(1), None)],
            bytes,
        )
        .unwrap();
    });
    Example::new().assert_metadata(&["indom-empty"], |bytes| {
        indom::encode(Version::V3, IndomRecordKind::Full, at(LAST), other, &[], bytes).unwrap();
    });
}

#[test]
fn metadata_outside_the_archive_and_backwards_is_found() {
    let (one, two) = ("one".into(), "two".into());
    let full = [(id(1), Some(&one)), (id(2), Some(&two))];
    Example::new().assert_metadata(&["metadata-after-end"], |bytes| {
        indom::encode(Version::V3, IndomRecordKind::Full, at(LAST + 1), domain(), &full, bytes)
            .unwrap();
    });
    Example::new().assert_metadata(&["metadata-before-start", "metadata-backwards"], |bytes| {
        indom::encode(Version::V3, IndomRecordKind::Full, at(-1), domain(), &full, bytes).unwrap();
    });
}

#[test]
fn descriptors_must_agree_and_make_sense() {
    let other = MetricDesc { pmid: Pmid::new(70, 1, 2).unwrap(), ..counter() };
    let cases: [(&[&'static str], MetricDesc, &str); 5] = [
        (&[], other, "a.c"),
        (&["desc-changed"], MetricDesc { value_type: ValueType::I64, ..counter() }, "a.c"),
        (&["name-taken"], other, "a.b"),
        (&["desc-indom"], MetricDesc { indom: InDom::from_raw(5), ..other }, "a.c"),
        // Dimension 3 in space; a scale of time without its dimension.
        (&["desc-units"; 2], MetricDesc { units: Units::from_raw(0x3000_1000), ..other }, "a.c"),
    ];
    for (rules, desc, name) in cases {
        Example::new().assert_metadata(rules, |bytes| {
            desc::encode(&desc, &[name.into()], bytes).unwrap();
        });
    }
}

#[test]
fn labels_must_be_json_that_their_table_fits() {
    let good = LabelSet::from_pairs(LabelClass::Context, [("a", "1", false)]).unwrap();
    let shifted = LabelEntry { name: 1..2, ..good.labels[0].clone() };
    let sets: [(&[&'static str], LabelSet); 3] = [
        (&[], good.clone()),
        (&["label-json"], LabelSet { json: "{\"a\":1".to_owned(), ..good.clone() }),
        (&["label-json"], LabelSet { labels: vec![shifted], ..good.clone() }),
    ];
    for (rules, set) in sets {
        Example::new().assert_metadata(rules, |bytes| {
            labelset::encode(Version::V3, at(LAST), LabelTarget::Context, &[set], bytes).unwrap();
        });
    }
}

#[test]
fn labels_that_readers_leave_out_are_a_warning() {
    let set = LabelSet::from_pairs(LabelClass::Context, [("a", "\"bcd\"", false)]).unwrap();
    let example = Example::new();
    example.change("meta", |bytes| {
        let mut record = Vec::new();
        labelset::encode(Version::V3, at(LAST), LabelTarget::Context, &[set], &mut record).unwrap();
        let text = record.windows(3).position(|part| part == b"bcd").unwrap();
        record[text] = 0xff;
        bytes.extend(record);
    });
    let report = check(&example.base).unwrap();
    let [finding] = report.findings() else { panic!("{:?}", report.findings()) };
    assert_eq!(
        (finding.defect.rule(), finding.defect.severity()),
        ("label-json", Severity::Warning)
    );
    assert!(finding.defect.is_foreign_text());
}

#[test]
fn of_one_rule_in_one_file_a_hundred_findings_are_kept() {
    let example = Example::new();
    example.change("index", |bytes| {
        let entry = IndexEntry {
            timestamp: at(LAST),
            volume: 9,
            metadata_offset: LABEL,
            data_offset: LABEL,
        };
        bytes.truncate(LABEL as usize);
        (0..150).for_each(|_| index::encode(Version::V3, &entry, bytes).unwrap());
    });
    let report = check(&example.base).unwrap();
    assert_eq!((report.findings().len(), report.suppressed()), (100, 50));
    assert_eq!(report.suppressed_notes(), 0, "none of them is usual");
}

#[test]
fn a_finding_in_compressed_data_names_the_file_once() {
    let error = crate::Error::Decompress {
        file: "a.0.xz".into(),
        source: std::io::Error::other("bad checksum"),
    };
    assert_eq!(Defect::compression(&error).to_string(), "cannot be decompressed: bad checksum");
}

#[test]
fn names_are_found_by_what_they_do_to_readers() {
    let other = MetricDesc { pmid: Pmid::new(70, 1, 2).unwrap(), ..counter() };
    let found = |name: &[u8]| {
        let example = Example::new();
        example.change("meta", |bytes| {
            desc::encode(&other, &[ByteText::from_bytes(name)], bytes).unwrap();
        });
        let report = check(&example.base).unwrap();
        let finding = report.findings().first()?;
        assert_eq!((finding.defect.rule(), report.findings().len()), ("metric-name", 1));
        Some((finding.defect.severity(), finding.defect.to_string()))
    };
    assert_eq!(found(b"a.c_2.0"), None);
    let name = |severity, text: &str| Some((severity, format!("metric 70.1.2: {text}")));
    let cases: [(&[u8], Severity, &str); 7] = [
        (b"a c\0", Severity::Error, r#"byte 3 of its name "a c\x00" is 0x00"#),
        (b"a.c d", Severity::Note, r#"byte 3 of its name "a.c d" is 0x20"#),
        (b"a.\x1b[2J", Severity::Note, r#"byte 2 of its name "a.\x1b[2J" is 0x1b"#),
        (b"1.\xff", Severity::Note, r#"byte 2 of its name "1.\xff" is 0xff"#),
        (b"40.4.6", Severity::Note, r#"byte 0 of its name "40.4.6" is 0x34"#),
        (b"a-c", Severity::Note, r#"byte 1 of its name "a-c" is 0x2d"#),
        (b"a..c", Severity::Note, r#"its name "a..c" has an empty part at byte 2"#),
    ];
    for (bytes, severity, text) in cases {
        assert_eq!(found(bytes), name(severity, text));
    }
}

#[test]
fn a_name_that_readers_have_no_room_for_is_found() {
    let other = MetricDesc { pmid: Pmid::new(70, 1, 2).unwrap(), ..counter() };
    Example::new().assert_metadata(&["metric-name"], |bytes| {
        let mut record = Vec::new();
        desc::encode(&other, &["n".repeat(4095).into()], &mut record).unwrap();
        // One byte more, also in the lengths of the name and of the record.
        let (len, end) = (record.len() as u32 + 1, record.len() - 4);
        record.splice(end.., [b'n']);
        record.extend(len.to_be_bytes());
        record[..4].copy_from_slice(&len.to_be_bytes());
        record[32..36].copy_from_slice(&4096u32.to_be_bytes());
        bytes.extend(record);
    });
}

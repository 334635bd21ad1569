mod disturbed;
mod faults;
mod model;
mod version_2;

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use tempfile::TempDir;

use super::prepared::TemplateBuilder;
use super::*;
use crate::test_support::{descs, indom};
use crate::{
    Archive, EncodeError, InstanceId, OwnedValue, Semantics, Units, Value, ValueType, test_support,
};

fn label() -> WriterLabel {
    WriterLabel { zoneinfo: ":Europe/Berlin".into(), ..test_support::label() }
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::new(1_700_000_000 + seconds, 123_456_789).unwrap()
}

fn writer(options: WriterOptions) -> (TempDir, PathBuf, ArchiveWriter) {
    let directory = tempfile::tempdir().unwrap();
    let base = directory.path().join("a.b");
    let mut writer = ArchiveWriter::create_with(&base, label(), options).unwrap();
    for desc in descs() {
        writer.declare_metric(&desc, &[&format!("test.m{}", desc.pmid.item())]).unwrap();
    }
    (directory, base, writer)
}

fn one_value(seconds: i64, value: u32) -> FetchResult {
    let values = Ok(vec![(None, OwnedValue::U32(value))]);
    FetchResult {
        timestamp: at(seconds),
        value_sets: vec![ValueSet { pmid: descs()[2].pmid, values }],
    }
}

fn instances(ids: &BTreeSet<i32>) -> Vec<Instance> {
    let instance = |id: &i32| Instance {
        id: InstanceId::new(*id).unwrap(),
        name: format!("instance {id}").into(),
    };
    ids.iter().map(instance).collect()
}

fn forward(archive: &Archive) -> Vec<FetchResult> {
    let mut records = archive.records().unwrap();
    let mut all = Vec::new();
    while let Some(record) = records.next().unwrap() {
        all.push(record.to_owned(archive.metadata()).unwrap());
    }
    all
}

#[test]
fn the_label_has_the_time_of_the_first_record() {
    let (_directory, base, mut writer) = writer(WriterOptions::default());
    writer.write_result(&one_value(5, 1)).unwrap();
    let summary = writer.finish().unwrap();
    assert_eq!((summary.records, summary.volumes), (1, 1));
    let archive = Archive::open(&base).unwrap();
    let expected = label().archive_label(Version::V3, at(5));
    assert_eq!(*archive.label(), expected);
    assert_eq!(archive.end(), at(5));
}

#[test]
fn without_a_record_there_are_no_files() {
    let (directory, _, writer) = writer(WriterOptions::default());
    assert_eq!(writer.finish().unwrap().span, None);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn a_buffered_archive_has_its_first_record_when_readers_find_it() {
    let options = WriterOptions { buffer_bytes: 1 << 20, ..WriterOptions::default() };
    let (_directory, base, mut writer) = writer(options);
    writer.write_result(&one_value(0, 1)).unwrap();
    writer.write_result(&one_value(1, 2)).unwrap();
    let archive = Archive::open(&base).unwrap();
    assert_eq!(forward(&archive), [one_value(0, 1)]);
    assert_eq!(archive.index().entries().len(), 1);
}

#[test]
fn an_archive_is_never_overwritten() {
    let (_directory, base, mut writer) = writer(WriterOptions::default());
    writer.write_result(&one_value(0, 1)).unwrap();
    let again = ArchiveWriter::create_with(&base, label(), WriterOptions::default());
    assert!(matches!(again, Err(Error::Exists { .. })));
}

#[test]
fn time_never_decreases_and_marks_are_later() {
    let (_directory, _, mut writer) = writer(WriterOptions::default());
    assert!(matches!(writer.write_mark(at(0)), Err(Error::LeadingMark)));
    writer.write_result(&one_value(10, 1)).unwrap();
    writer.write_result(&one_value(10, 2)).unwrap();
    assert!(matches!(writer.write_result(&one_value(9, 3)), Err(Error::TimeBackwards { .. })));
    assert!(matches!(writer.write_mark(at(10)), Err(Error::TimeBackwards { .. })));
    writer.write_mark(at(11)).unwrap();
    assert!(matches!(writer.write_result(&one_value(11, 3)), Err(Error::TimeBackwards { .. })));
    assert_eq!(writer.records(), 3);
    writer.write_result(&one_value(12, 4)).unwrap();
    writer.write_result(&one_value(12, 5)).unwrap();
}

#[test]
fn values_must_fit_what_was_declared() {
    let (_directory, _, mut writer) = writer(WriterOptions::default());
    let mut result = one_value(0, 1);
    result.value_sets[0].pmid = descs()[4].pmid;
    assert!(matches!(writer.write_result(&result), Err(Error::ValueMismatch { .. })));
    result.value_sets[0].pmid = descs()[3].pmid;
    let refused = writer.write_result(&result).unwrap_err();
    assert!(matches!(refused, Error::ValueMismatch { .. }));
    let expected = "with instances of domain 70.1";
    assert!(refused.to_string().ends_with(expected), "{refused}");
    result.value_sets[0].pmid = Pmid::new(1, 1, 1).unwrap();
    assert!(matches!(writer.write_result(&result), Err(Error::Undeclared { .. })));
}

#[test]
fn result_without_value_sets_is_an_error() {
    let (_directory, base, mut writer) = writer(WriterOptions::default());
    let empty = |seconds| FetchResult { timestamp: at(seconds), value_sets: Vec::new() };
    let text = |error: Error| error.to_string();
    let first = writer.write_result(&empty(5)).map_err(text);
    assert_eq!(first, Err("the record of 2023-11-14T22:13:25.123456789Z has no value sets; a mark is written by write_mark".to_owned()));
    writer.write_result(&one_value(10, 1)).unwrap();
    let second = writer.write_result(&empty(20));
    assert!(
        matches!(second, Err(Error::EmptyRecord { timestamp }) if timestamp == at(20)),
        "{second:?}"
    );
    let copied = writer.write_copied(at(30), std::iter::empty());
    assert!(
        matches!(copied, Err(Error::EmptyRecord { timestamp }) if timestamp == at(30)),
        "{copied:?}"
    );
    writer.finish().unwrap();
    assert_eq!(Archive::open(&base).unwrap().end(), at(10));
}

#[test]
fn a_metric_keeps_its_descriptor_and_its_name() {
    let (_directory, _, mut writer) = writer(WriterOptions::default());
    let mut desc = descs()[2];
    desc.semantics = Semantics::Counter;
    let changed = writer.declare_metric(&desc, &["test.m2"]);
    assert_eq!(
        changed.unwrap_err().to_string(),
        "metric 70.1.2 changes its semantics from instant to counter, which needs a new archive"
    );
    desc.pmid = Pmid::new(70, 2, 1).unwrap();
    let taken = writer.declare_metric(&desc, &["test.m2"]);
    assert!(matches!(taken, Err(Error::NameTaken { .. })));
    let nameless = writer.declare_metric(&desc, &[]);
    assert!(matches!(nameless, Err(Error::Encode { source: _ })));
}

#[test]
fn metadata_is_written_once_and_with_the_next_record() {
    let (_directory, base, mut writer) = writer(WriterOptions::default());
    let ids = BTreeSet::from([1, 2]);
    let set = LabelSet::from_pairs(crate::LabelClass::Context, [("a", "1", false)]).unwrap();
    let text = TextTarget::Metric(descs()[2].pmid);
    let size = || fs::metadata(base.with_extension("b.meta")).unwrap().len();
    let mut sizes = Vec::new();
    for seconds in 0..3 {
        writer.declare_metric(&descs()[2], &["test.m2"]).unwrap();
        writer.declare_indom(indom(), &instances(&ids)).unwrap();
        writer.declare_labels(LabelTarget::Context, std::slice::from_ref(&set)).unwrap();
        writer.declare_text(text, TextKind::OneLine, "help").unwrap();
        writer.write_result(&one_value(seconds, 1)).unwrap();
        sizes.push(size());
    }
    assert_eq!(sizes, [sizes[0]; 3]);
    writer.declare_text(text, TextKind::Full, "never written").unwrap();
    writer.finish().unwrap();
    let archive = Archive::open(&base).unwrap();
    let metadata = archive.metadata();
    assert_eq!(metadata.indom_at(indom(), at(0)), Some(instances(&ids).into()));
    assert_eq!(metadata.labels_at(LabelTarget::Context, at(0)), Some(&[set][..]));
    assert_eq!(metadata.text(text, TextKind::OneLine).unwrap(), "help");
    assert_eq!(metadata.text(text, TextKind::Full), None);
}

#[test]
fn a_domain_that_changes_twice_at_one_time_waits_for_the_next() {
    let (_directory, base, mut writer) = writer(WriterOptions::default());
    for (seconds, last) in [(0, 4), (1, 5), (1, 6), (2, 6)] {
        let ids = BTreeSet::from([1, 2, 3, last]);
        writer.declare_indom(indom(), &instances(&ids)).unwrap();
        writer.write_result(&one_value(seconds, 1)).unwrap();
    }
    let archive = Archive::open(&base).unwrap();
    for (seconds, last) in [(0, 4), (1, 5), (2, 6)] {
        let expected = instances(&BTreeSet::from([1, 2, 3, last]));
        assert_eq!(archive.metadata().indom_at(indom(), at(seconds)), Some(expected.into()));
    }
}

#[test]
fn labels_that_change_twice_at_one_time_wait_for_the_next() {
    let (_directory, base, mut writer) = writer(WriterOptions::default());
    let set = |value: &str| {
        vec![LabelSet::from_pairs(crate::LabelClass::Context, [("a", value, false)]).unwrap()]
    };
    for (seconds, value) in [(0, "1"), (1, "2"), (1, "3"), (2, "3")] {
        writer.declare_labels(LabelTarget::Context, &set(value)).unwrap();
        writer.write_result(&one_value(seconds, 1)).unwrap();
    }
    let archive = Archive::open(&base).unwrap();
    let (_, history) = archive.metadata().labels().next().unwrap();
    let states: Vec<_> = history.states().iter().map(|s| (s.timestamp, s.sets.clone())).collect();
    assert_eq!(states, [(at(0), set("1")), (at(1), set("2")), (at(2), set("3"))]);
}

#[test]
fn names_that_a_name_space_cannot_have_are_not_declared() {
    let (_directory, base, mut writer) = writer(WriterOptions::default());
    let desc = MetricDesc { pmid: Pmid::new(70, 2, 1).unwrap(), ..descs()[2] };
    let below = writer.declare_metric(&desc, &["good", "test.m2.failed"]);
    assert!(matches!(below, Err(Error::LeafAndBranch { .. })));
    for name in ["", "a..b", "no space", "1st"] {
        let refused = writer.declare_metric(&desc, &["good", name]);
        let Err(Error::Encode { source: EncodeError::MetricName { .. } }) = refused else {
            panic!("{name}")
        };
    }
    writer.declare_metric(&desc, &["a", "b", "a"]).unwrap();
    writer.write_result(&one_value(0, 1)).unwrap();
    let archive = Archive::open(&base).unwrap();
    assert_eq!(archive.metadata().metric(desc.pmid).unwrap().names, ["a", "b"]);
    assert!(archive.metadata().metric_by_name("good").is_none());
}

#[test]
fn names_of_another_archive_are_declared_as_they_are() {
    let (_directory, base, mut writer) = writer(WriterOptions::default());
    let names = ["40.4.6", "test.m2.failed", "a b", "nul\0", "..", ""];
    let desc = MetricDesc { pmid: Pmid::new(70, 2, 1).unwrap(), ..descs()[2] };
    let metric = Metric { desc, names: names.map(ByteText::from).to_vec() };
    writer.declare_copied(&metric, NameRules::OneOwner).unwrap();
    let other = Metric { desc: MetricDesc { pmid: descs()[2].pmid, ..desc }, ..metric.clone() };
    let taken = writer.declare_copied(&other, NameRules::OneOwner);
    assert!(matches!(taken, Err(Error::NameTaken { .. })));
    let long = Metric { names: vec!["x".repeat(4096).into()], ..metric.clone() };
    assert!(writer.declare_copied(&long, NameRules::OneOwner).is_err());
    writer.write_result(&one_value(0, 1)).unwrap();
    let archive = Archive::open(&base).unwrap();
    assert_eq!(archive.metadata().metric(desc.pmid), Some(&metric));
}

/// Declares metrics with help texts before the first record; returns the processor time of that.
fn time_to_declare(metrics: u32) -> Duration {
    let (_directory, base, mut writer) = writer(WriterOptions::default());
    let begin = thread_time();
    for n in 0..metrics {
        let pmid = Pmid::new(71, n / 1000, n % 1000).unwrap();
        let name = format!("many.m{n}");
        writer.declare_metric(&MetricDesc { pmid, ..descs()[2] }, &[&name]).unwrap();
        writer.declare_text(TextTarget::Metric(pmid), TextKind::OneLine, &name).unwrap();
    }
    writer.write_result(&one_value(0, 1)).unwrap();
    let time = thread_time().checked_sub(begin).unwrap();
    let archive = Archive::open(&base).unwrap();
    assert_eq!(archive.metadata().texts().count(), metrics as usize);
    time
}

/// Returns the processor time of this thread, which others on a busy machine do not add to.
fn thread_time() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

#[test]
fn what_is_declared_first_is_queued_in_linear_time() {
    let few = time_to_declare(10_000);
    let many = time_to_declare(80_000);
    // A search through the queue for each of them takes 64 times as long.
    assert!(many < few * 24, "{few:?}, {many:?}");
}

#[test]
fn a_volume_that_cannot_be_created_leaves_everything_as_it_was() {
    let (directory, base, mut writer) = writer(WriterOptions::default());
    writer.write_result(&one_value(0, 1)).unwrap();
    let before = (writer.bytes(), writer.volume());
    let in_the_way = directory.path().join("a.b.1");
    fs::write(&in_the_way, "").unwrap();
    writer.switch_volume();
    writer.declare_indom(indom(), &instances(&BTreeSet::from([1]))).unwrap();
    assert!(matches!(writer.write_result(&one_value(1, 2)), Err(Error::Exists { .. })));
    assert_eq!((writer.bytes(), writer.volume()), before);
    fs::remove_file(&in_the_way).unwrap();
    writer.write_result(&one_value(2, 3)).unwrap();
    writer.finish().unwrap();
    let archive = Archive::open(&base).unwrap();
    assert_eq!(archive.volumes().collect::<Vec<_>>(), [0, 1]);
    assert_eq!(forward(&archive), [one_value(0, 1), one_value(2, 3)]);
    let mut states = archive.metadata().indom_history(indom()).unwrap().states();
    assert_eq!(states.next().unwrap().timestamp, at(2));
}

#[test]
fn archive_cut_in_its_last_record_reads_up_to_there() {
    let (_directory, base, mut writer) = writer(WriterOptions::default());
    writer.write_result(&one_value(0, 1)).unwrap();
    let start = writer.volume_bytes();
    writer.write_result(&one_value(1, 2)).unwrap();
    let end = writer.volume_bytes();
    let volume = fs::OpenOptions::new().write(true).open(base.with_extension("b.0")).unwrap();
    for len in (start..end).rev() {
        volume.set_len(len).unwrap();
        let archive = Archive::open(&base).unwrap();
        assert_eq!(forward(&archive), [one_value(0, 1)]);
        assert_eq!(archive.end(), at(0));
        let torn = archive.torn_tail().map(|torn| (torn.offset, torn.bytes));
        assert_eq!(torn, (len > start).then_some((start, len - start)));
        let mut back = archive.records_back_from(at(9)).unwrap();
        assert_eq!(back.previous().unwrap().unwrap().timestamp(), at(0));
    }
}

#[test]
fn a_last_volume_that_is_only_begun_does_not_hide_the_others() {
    let (_directory, base, mut writer) = writer(WriterOptions::default());
    writer.write_result(&one_value(0, 1)).unwrap();
    writer.switch_volume();
    writer.write_result(&one_value(1, 2)).unwrap();
    let end = writer.volume_bytes();
    let volume = fs::OpenOptions::new().write(true).open(base.with_extension("b.1")).unwrap();
    for len in (0..end).rev() {
        volume.set_len(len).unwrap();
        let archive = Archive::open(&base).unwrap();
        assert_eq!(forward(&archive), [one_value(0, 1)], "{len}");
        assert_eq!(archive.end(), at(0));
        assert_eq!(archive.torn_tail().is_some(), len != 808, "{len}");
    }
}

#[test]
fn prepared_records_are_the_records_that_results_give() {
    let (_directory, base, mut writer) = writer(WriterOptions::default());
    let (descs, id) = (descs(), InstanceId::new(7).unwrap());
    let values = [
        (2, None, OwnedValue::U32(5)),
        (9, Some(id), OwnedValue::Float(2.5)),
        (6, None, OwnedValue::U64(u64::MAX)),
        (12, None, OwnedValue::String(b"text".to_vec())),
        (14, None, OwnedValue::Aggregate(b"12345".to_vec())),
    ];
    let mut builder = TemplateBuilder::new();
    let mut slots = Vec::new();
    for (item, instance, value) in &values {
        builder.begin_set(descs[*item].pmid, descs[*item].value_type);
        let payload = match value {
            OwnedValue::String(bytes) | OwnedValue::Aggregate(bytes) => bytes.len(),
            _ => 0,
        };
        slots.push(builder.value(*instance, payload).unwrap());
    }
    builder.empty_set(descs[0].pmid);
    let template = builder.finish().unwrap();
    let mut buffer = template.new_buffer();
    buffer.set_timestamp(at(0));
    for ((_, _, value), slot) in values.iter().zip(slots) {
        let slot = template.slot(slot);
        match value.as_value() {
            Value::U32(v) => buffer.put_u32(slot, v),
            Value::Float(v) => buffer.put_u32(slot, v.to_bits()),
            Value::U64(v) => buffer.put_u64(slot, v),
            Value::String(v) | Value::Aggregate(v) => assert!(buffer.put_bytes(slot, v)),
            other => panic!("{other:?}"),
        }
    }
    writer.write_prepared(&buffer).unwrap();
    let set = |(item, instance, value): (usize, _, _)| ValueSet {
        pmid: descs[item].pmid,
        values: Ok(vec![(instance, value)]),
    };
    let mut value_sets: Vec<_> = values.into_iter().map(set).collect();
    value_sets.push(ValueSet { pmid: descs[0].pmid, values: Ok(Vec::new()) });
    let archive = Archive::open(&base).unwrap();
    assert_eq!(forward(&archive), [FetchResult { timestamp: at(0), value_sets }]);
}

#[test]
fn prepared_records_must_fit_what_was_declared_too() {
    let (_directory, _, mut writer) = writer(WriterOptions::default());
    let mut shape = |item: usize, value_type, instance: Option<InstanceId>, values| {
        let mut builder = TemplateBuilder::new();
        builder.begin_set(descs()[item].pmid, value_type);
        for _ in 0..values {
            builder.value(instance, 0).unwrap();
        }
        let mut buffer = builder.finish().unwrap().new_buffer();
        buffer.set_timestamp(at(0));
        writer.write_prepared(&buffer).is_ok()
    };
    let id = InstanceId::new(1).ok();
    assert!(!shape(2, ValueType::I32, None, 1));
    assert!(!shape(2, ValueType::U32, None, 2));
    assert!(!shape(2, ValueType::U32, id, 1));
    assert!(!shape(3, ValueType::U32, None, 1));
    assert!(shape(2, ValueType::U32, None, 1));
    assert!(shape(3, ValueType::U32, id, 2));
    assert!(shape(3, ValueType::U32, id, 0));
}

fn stored(version: Version, time: Timestamp) -> Timestamp {
    timestamp::stored(version, time).unwrap()
}

#[test]
fn an_empty_domain_is_read_back_as_empty() {
    let (_directory, base, mut writer) = writer(WriterOptions::default());
    for (seconds, ids) in [(0, &[1, 2][..]), (1, &[]), (2, &[3])] {
        let ids = ids.iter().copied().collect();
        writer.declare_indom(indom(), &instances(&ids)).unwrap();
        writer.write_result(&one_value(seconds, 1)).unwrap();
    }
    let archive = Archive::open(&base).unwrap();
    let sizes = [0, 1, 2]
        .map(|seconds| archive.metadata().indom_at(indom(), at(seconds)).map(|all| all.len()));
    assert_eq!(sizes, [Some(2), Some(0), Some(1)]);
}

#[test]
fn units_and_the_other_fields_of_a_descriptor_read_back() {
    let (_directory, base, mut writer) = writer(WriterOptions::default());
    let desc = MetricDesc {
        pmid: Pmid::new(70, 3, 1).unwrap(),
        value_type: ValueType::Double,
        indom: Some(indom()),
        semantics: Semantics::Counter,
        units: Units::bytes().per_second(),
    };
    writer.declare_metric(&desc, &["a.b", "c"]).unwrap();
    writer.write_result(&one_value(0, 1)).unwrap();
    let archive = Archive::open(&base).unwrap();
    let metric = archive.metadata().metric_by_name("c").unwrap();
    assert_eq!((metric.desc, metric.names.as_slice()), (desc, &["a.b".into(), "c".into()][..]));
}

#[test]
fn metadata_is_charged_once_to_its_account() {
    let (_directory, base, mut writer) = writer(WriterOptions::default());
    let (first, second) = (indom(), InDom::new(70, 9).unwrap());
    writer.charge_to(7);
    writer.declare_indom(first, &instances(&(0..100).collect())).unwrap();
    writer.charge_to(8);
    writer.declare_indom(second, &instances(&BTreeSet::from([1]))).unwrap();
    assert!(writer.take_charges().is_empty(), "nothing is written yet");
    writer.write_result(&one_value(0, 1)).unwrap();
    let charges = writer.take_charges();
    let size = |suffix: &str| fs::metadata(format!("{}.{suffix}", base.display())).unwrap().len();
    let label = archive_label_bytes(&label());
    let entry = 32;
    let written = size("meta") - label + 3 * entry;
    assert_eq!(charges.values().sum::<u64>(), written, "{charges:?}");
    assert!(charges[&7] > 100 * 20 && charges[&8] < 150 && charges[&0] > entry, "{charges:?}");
    // Once more is free; another instance costs a difference.
    writer.declare_indom(second, &instances(&BTreeSet::from([1]))).unwrap();
    writer.write_result(&one_value(1, 1)).unwrap();
    assert!(writer.take_charges().is_empty());
    writer.declare_indom(first, &instances(&(0..101).collect())).unwrap();
    writer.write_result(&one_value(2, 1)).unwrap();
    let charges = writer.take_charges();
    assert!(charges[&8] < 150 && charges.len() == 1, "{charges:?}");
}

fn archive_label_bytes(label: &WriterLabel) -> u64 {
    let mut bytes = Vec::new();
    archive_label::encode(&label.archive_label(Version::V3, at(0)), Role::Metadata, &mut bytes)
        .unwrap();
    bytes.len() as u64
}

//! Small archives to do things to.

use std::path::PathBuf;
use std::time::Duration;

use mmv_archive::{
    ArchiveWriter, FetchResult, InDom, Instance, InstanceId, LabelClass, LabelSet, LabelTarget,
    MetricDesc, OwnedValue, Pmid, Semantics, TextKind, TextTarget, Timestamp, Units, ValueSet,
    ValueType, WriterLabel, WriterOptions,
};
use tempfile::TempDir;

/// The label of all of them.
pub(crate) fn label() -> WriterLabel {
    WriterLabel {
        pid: 1,
        hostname: "host".to_owned(),
        timezone: "UTC".to_owned(),
        zoneinfo: String::new(),
    }
}

/// The time of the n-th record.
pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::new(1_700_000_000 + second, 1).unwrap()
}

/// Two volumes with metadata of every kind, values in place and in blocks, a
/// mark, and an index entry for every record.
pub(crate) fn of_every_kind() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let base = directory.path().join("a");
    let options = WriterOptions { index_bytes: 1, ..WriterOptions::default() };
    let mut writer = ArchiveWriter::create(&base, label(), options).unwrap();
    let indom = InDom::new(70, 1).unwrap();
    let desc = |item, value_type, indom| MetricDesc {
        pmid: Pmid::new(70, 1, item).unwrap(),
        value_type,
        indom,
        semantics: Semantics::Instant,
        units: Units::from_raw(0),
    };
    let word = desc(1, ValueType::U32, None);
    let text = desc(2, ValueType::String, Some(indom));
    writer.declare_metric(&word, &["a.word"]).unwrap();
    writer.declare_metric(&text, &["a.text"]).unwrap();
    writer.declare_text(TextTarget::Metric(word.pmid), TextKind::OneLine, "help").unwrap();
    let set = LabelSet::from_pairs(LabelClass::Context, [("a", "1", false)]).unwrap();
    writer.declare_labels(LabelTarget::Context, &[set]).unwrap();
    for second in 0..4 {
        if second == 2 {
            writer.write_mark(at(1).saturating_add(Duration::from_millis(1))).unwrap();
            writer.switch_volume();
        }
        let ids = (0..=second as i32).map(|id| InstanceId::new(id).unwrap());
        let instances: Vec<_> = ids.map(|id| Instance { id, name: "x".into() }).collect();
        writer.declare_indom(indom, &instances).unwrap();
        let value = |one: &Instance| (Some(one.id), OwnedValue::String(b"text".to_vec()));
        let value_sets = vec![
            ValueSet { pmid: word.pmid, values: Ok(vec![(None, OwnedValue::U32(7))]) },
            ValueSet { pmid: text.pmid, values: Ok(instances.iter().map(value).collect()) },
        ];
        writer.write_result(&FetchResult { timestamp: at(second), value_sets }).unwrap();
    }
    writer.finish().unwrap();
    (directory, base)
}

//! Small archives to do things to, and what they are made of.
#![allow(dead_code, reason = "each test needs a part of this")]

use std::path::{Path, PathBuf};

use pcp_archive::{
    ArchiveWriter, FetchResult, InDom, Instance, InstanceId, MetricDesc, OwnedValue, Pmid,
    Semantics, Timestamp, Units, ValueSet, ValueType, WriterLabel, WriterOptions,
};
use tempfile::TempDir;

/// The label of all of them.
pub(crate) fn label() -> WriterLabel {
    WriterLabel { pid: 1, hostname: "host".into(), timezone: "UTC".into(), zoneinfo: "".into() }
}

/// The time of the n-th record.
pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::new(1_700_000_000 + second, 1).unwrap()
}

/// A directory in memory, where the system has one: syncing files there is free.
pub(crate) fn scratch() -> TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() };
    made.unwrap()
}

/// A writer of an archive in a directory of its own.
pub(crate) fn begin(name: &str, options: WriterOptions) -> (TempDir, PathBuf, ArchiveWriter) {
    let directory = tempfile::tempdir().unwrap();
    let base = directory.path().join(name);
    let writer = begin_in(directory.path(), name, options);
    (directory, base, writer)
}

/// A writer of an archive in a directory that is there.
pub(crate) fn begin_in(directory: &Path, name: &str, options: WriterOptions) -> ArchiveWriter {
    ArchiveWriter::create(&directory.join(name), label(), options).unwrap()
}

/// A metric without instances and without units, that has a value at an
/// instant.
pub(crate) fn desc(item: u32, value_type: ValueType) -> MetricDesc {
    MetricDesc {
        pmid: Pmid::new(70, 1, item).unwrap(),
        value_type,
        indom: None,
        semantics: Semantics::Instant,
        units: Units::from_raw(0),
    }
}

/// A domain for metrics with instances.
pub(crate) fn domain() -> InDom {
    InDom::new(70, 1).unwrap()
}

/// Instances with these numbers, all of one name.
pub(crate) fn instances(ids: impl IntoIterator<Item = i32>, name: &str) -> Vec<Instance> {
    let ids = ids.into_iter().map(|id| InstanceId::new(id).unwrap());
    ids.map(|id| Instance { id, name: name.into() }).collect()
}

/// The value of a metric without instances.
pub(crate) fn single(desc: &MetricDesc, value: OwnedValue) -> ValueSet {
    ValueSet { pmid: desc.pmid, values: Ok(vec![(None, value)]) }
}

/// The same value of every instance.
pub(crate) fn of_each(desc: &MetricDesc, instances: &[Instance], value: &OwnedValue) -> ValueSet {
    let values = instances.iter().map(|one| (Some(one.id), value.clone()));
    ValueSet { pmid: desc.pmid, values: Ok(values.collect()) }
}

/// Writes a record.
pub(crate) fn write(writer: &mut ArchiveWriter, timestamp: Timestamp, value_sets: Vec<ValueSet>) {
    writer.write_result(&FetchResult { timestamp, value_sets }).unwrap();
}

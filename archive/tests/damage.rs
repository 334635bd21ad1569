//! Damaged archives: every cut and every flipped byte of all three files ends
//! in an error or in records, never in a panic, and never in more than was
//! written.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use mmv_archive::{
    Archive, ArchiveWriter, Error, FetchResult, InDom, Instance, InstanceId, LabelClass, LabelSet,
    LabelTarget, MetricDesc, OwnedValue, Pmid, Semantics, TextKind, TextTarget, Timestamp, Units,
    ValueSet, ValueType, WriterLabel, WriterOptions,
};
use tempfile::TempDir;

const RECORDS: i64 = 4;

/// A small archive with a record of every kind.
fn archive() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let base = directory.path().join("a");
    let label = WriterLabel {
        pid: 1,
        hostname: "host".to_owned(),
        timezone: "UTC".to_owned(),
        zoneinfo: String::new(),
    };
    let options = WriterOptions { index_bytes: 1, ..WriterOptions::default() };
    let mut writer = ArchiveWriter::create(&base, label, options).unwrap();
    let indom = InDom::new(70, 1).unwrap();
    let desc = MetricDesc {
        pmid: Pmid::new(70, 1, 1).unwrap(),
        value_type: ValueType::String,
        indom: Some(indom),
        semantics: Semantics::Instant,
        units: Units::from_raw(0),
    };
    writer.declare_metric(&desc, &["a.b"]).unwrap();
    writer.declare_text(TextTarget::Metric(desc.pmid), TextKind::OneLine, "help").unwrap();
    let set = LabelSet::from_pairs(LabelClass::Context, [("a", "1", false)]).unwrap();
    writer.declare_labels(LabelTarget::Context, &[set]).unwrap();
    for second in 0..RECORDS - 1 {
        let ids = (0..=second as i32).map(|id| InstanceId::new(id).unwrap());
        let instances: Vec<_> = ids.map(|id| Instance { id, name: "x".into() }).collect();
        writer.declare_indom(indom, &instances).unwrap();
        let value = |one: &Instance| (Some(one.id), OwnedValue::String(b"text".to_vec()));
        let values = Ok(instances.iter().map(value).collect());
        let value_sets = vec![ValueSet { pmid: desc.pmid, values }];
        writer.write_result(&FetchResult { timestamp: at(second), value_sets }).unwrap();
    }
    writer.write_mark(at(RECORDS - 1)).unwrap();
    writer.finish().unwrap();
    (directory, base)
}

fn at(second: i64) -> Timestamp {
    Timestamp::new(1_700_000_000 + second, 1).unwrap()
}

/// Reads all there is, in both directions; the number of records forwards.
fn read(base: &Path) -> Result<i64, Error> {
    let archive = Archive::open(base)?;
    let mut n = 0;
    let mut records = archive.records()?;
    while let Some(record) = records.next()? {
        let _ = record.to_owned(archive.metadata());
        n += 1;
    }
    let mut back = archive.records_back_from(archive.end())?;
    while back.previous()?.is_some() {}
    archive.records_from(at(2))?.next()?;
    Ok(n)
}

#[test]
fn every_cut_of_a_file_is_an_error_or_gives_what_is_left() {
    for (file, fewer_are_fine) in [("0", true), ("meta", false), ("index", false)] {
        let (_directory, base) = archive();
        let path = base.with_extension(file);
        let whole = fs::metadata(&path).unwrap().len();
        let open = fs::OpenOptions::new().write(true).open(&path).unwrap();
        for len in (0..whole).rev() {
            open.set_len(len).unwrap();
            match read(&base) {
                Ok(n) => assert!(n == RECORDS || fewer_are_fine && n < RECORDS, "{file} {len}"),
                Err(error) => assert!(error.to_string().contains("/a"), "{error}"),
            }
        }
    }
}

#[test]
fn every_flipped_bit_of_a_file_is_an_error_or_gives_no_more_than_was_written() {
    for file in ["0", "meta", "index"] {
        let (_directory, base) = archive();
        let path = base.with_extension(file);
        let whole = fs::read(&path).unwrap();
        let open = fs::OpenOptions::new().write(true).open(&path).unwrap();
        for (at, byte) in whole.iter().enumerate() {
            // The long fields of the label all behave alike.
            if (60..800).contains(&at) && at % 16 != 0 {
                continue;
            }
            for bit in 0..8 {
                open.write_all_at(&[byte ^ 1 << bit], at as u64).unwrap();
                assert!(read(&base).unwrap_or(0) <= RECORDS, "{file} {at} {bit}");
            }
            open.write_all_at(&[*byte], at as u64).unwrap();
        }
    }
}

#[test]
fn a_missing_index_costs_nothing_but_time() {
    let (_directory, base) = archive();
    fs::remove_file(base.with_extension("index")).unwrap();
    assert_eq!(read(&base).unwrap(), RECORDS);
}

#[test]
fn a_damaged_index_is_not_used_and_says_why() {
    let (_directory, base) = archive();
    let path = base.with_extension("index");
    let mut bytes = fs::read(&path).unwrap();
    // The sign of the second entry's volume.
    bytes[808 + 32 + 12] = 0x80;
    fs::write(&path, bytes).unwrap();
    let archive = Archive::open(&base).unwrap();
    assert!(archive.index().entries().is_empty());
    assert_eq!(archive.index().defect().unwrap().0, 808 + 32);
    assert_eq!(read(&base).unwrap(), RECORDS);
}

#[test]
fn files_of_different_archives_do_not_open_together() {
    let (_directory, base) = archive();
    for (file, at, field) in [("0", 11, "pid"), ("index", 36, "host name")] {
        let path = base.with_extension(file);
        let whole = fs::read(&path).unwrap();
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        fs::write(&path, bytes).unwrap();
        let error = Archive::open(&base).unwrap_err();
        assert!(matches!(error, Error::LabelMismatch { field: found, .. } if found == field));
        fs::write(&path, whole).unwrap();
    }
}

#[test]
fn a_volume_under_another_number_is_refused() {
    let (_directory, base) = archive();
    fs::rename(base.with_extension("0"), base.with_extension("3")).unwrap();
    let error = Archive::open(&base).unwrap_err();
    assert!(matches!(error, Error::VolumeMismatch { found: 0, expected: 3, .. }));
}

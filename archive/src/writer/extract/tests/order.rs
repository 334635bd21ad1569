//! Records that are earlier than one before them, and times too close for version 2.

use super::*;

/// An archive with a value each second and a mark at 3.5 s, if `edit` changes nothing.
fn archive_with(directory: &TempDir, edit: impl Fn(usize) -> Option<i64>) -> Archive {
    let mut builder =
        Builder::in_directory(directory.path(), "old").metric("acme.made", "u64 counter count");
    for n in 0..6 {
        builder = builder.row_at(at(n * 1000), [("acme.made", n)]);
        if n == 3 {
            builder = builder.mark_at(at(3500));
        }
    }
    builder.finish();
    let base = directory.path().join("old");
    let archive = Archive::open(&base).unwrap();
    let mut bytes = std::fs::read(base.with_extension("0")).unwrap();
    let mut records = archive.records().unwrap();
    let mut number = 0;
    while let Some(record) = records.next().unwrap() {
        if let Some(millis) = edit(number) {
            let time = at(millis);
            let place = record.offset() as usize + 4;
            bytes[place..place + 4].copy_from_slice(&(time.seconds() as u32).to_be_bytes());
            bytes[place + 8..place + 12].copy_from_slice(&time.nanoseconds().to_be_bytes());
        }
        number += 1;
    }
    std::fs::write(base.with_extension("0"), bytes).unwrap();
    Archive::open(&base).unwrap()
}

fn copy(directory: &TempDir, archive: &Archive, version: Version) -> (Vec<i64>, Option<StepsBack>) {
    let base = directory.path().join(format!("new{}", version.number()));
    let label = archive.label().into();
    let options = WriterOptions { version, ..WriterOptions::default() };
    let mut writer = ArchiveWriter::create_with(&base, label, options).unwrap();
    let steps_back = Extract::new(selection(archive, &[""])).write(&mut writer, |_| {}).unwrap();
    writer.finish().unwrap();
    let report = check::check(&base).unwrap();
    assert!(report.worst() < Some(Severity::Warning), "{:?}", report.findings());
    let copy = Archive::open(&base).unwrap();
    let mut records = copy.records().unwrap();
    let mut times = Vec::new();
    while let Some(record) = records.next().unwrap() {
        times.push((record.timestamp().as_nanos() / 1000) as i64);
    }
    (times, steps_back)
}

#[test]
fn a_record_that_steps_back_is_copied_with_the_latest_time() {
    let directory = tempfile::tempdir().unwrap();
    let archive = archive_with(&directory, |number| (number == 2).then_some(940));
    for version in [Version::V2, Version::V3] {
        let (times, steps_back) = copy(&directory, &archive, version);
        let expected = [0, 1000, 1000, 3000, 3500, 4000, 5000].map(|millis| millis * 1000);
        assert_eq!(times, expected, "{version:?}");
        let steps_back = steps_back.unwrap();
        assert_eq!(steps_back.file, directory.path().join("old.0"));
        assert_eq!((steps_back.timestamp, steps_back.latest), (at(940), at(1000)));
        assert_eq!((steps_back.records, steps_back.longest.as_millis()), (1, 60));
    }
}

#[test]
fn values_and_marks_after_a_clock_was_set_back_are_all_copied() {
    let directory = tempfile::tempdir().unwrap();
    // The mark and what follows it are before the last value.
    let archive = archive_with(&directory, |number| (number > 3).then(|| number as i64 * 100));
    let (times, steps_back) = copy(&directory, &archive, Version::V2);
    let millis = [0, 1000, 2000, 3000].map(|millis| millis * 1000);
    assert_eq!(times, [&millis[..], &[3_000_001, 3_000_002, 3_000_002]].concat());
    assert_eq!(steps_back.unwrap().records, 3);
}

#[test]
fn mark_close_to_its_neighbours_is_copied_to_v2() {
    let directory = tempfile::tempdir().unwrap();
    Builder::in_directory(directory.path(), "old")
        .metric("acme.made", "u64 counter count")
        .row_at(Timestamp::from_nanos(1_000_000_000), [("acme.made", 1)])
        .mark_at(Timestamp::from_nanos(1_000_000_001))
        .row_at(Timestamp::from_nanos(1_000_000_002), [("acme.made", 2)])
        .finish();
    let archive = Archive::open(directory.path().join("old")).unwrap();
    let (times, steps_back) = copy(&directory, &archive, Version::V2);
    assert_eq!(times, [1_000_000, 1_000_001, 1_000_002]);
    assert_eq!(steps_back, None);
}

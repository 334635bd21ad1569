//! What is different in version 2: times, sizes, labels, instance domains.

use super::*;

fn version_2() -> WriterOptions {
    WriterOptions { version: Version::V2, ..WriterOptions::default() }
}

fn sample(timestamp: Timestamp, value: u32) -> FetchResult {
    FetchResult { timestamp, ..one_value(0, value) }
}

#[test]
fn times_are_cut_to_microseconds_before_they_are_compared() {
    let (_directory, base, mut writer) = writer(version_2());
    let time = |nanoseconds| Timestamp::new(1_700_000_000, nanoseconds).unwrap();
    writer.write_result(&sample(time(1_999), 1)).unwrap();
    // Earlier, but not by a microsecond.
    writer.write_result(&sample(time(1_001), 2)).unwrap();
    assert!(matches!(writer.write_mark(time(1_999)), Err(Error::TimeBackwards { .. })));
    writer.write_mark(time(2_001)).unwrap();
    let early = writer.write_result(&sample(time(1_999), 3));
    assert!(matches!(early, Err(Error::TimeBackwards { .. })));
    writer.finish().unwrap();
    let timestamps: Vec<_> = forward(&Archive::open(&base).unwrap());
    let timestamps: Vec<_> =
        timestamps.iter().map(|result| result.timestamp.nanoseconds()).collect();
    assert_eq!(timestamps, [1_000, 1_000, 2_000]);
}

#[test]
fn times_past_2038_are_refused_and_nothing_is_written() {
    let (directory, base, mut writer) = writer(version_2());
    let (last, late) = (i64::from(i32::MAX), i64::from(i32::MAX) + 1);
    let [last, late] = [last, late].map(|seconds| Timestamp::new(seconds, 0).unwrap());
    let refused = |result: Result<()>| {
        let Err(Error::Encode { source: EncodeError::TimeRange { timestamp } }) = result else {
            panic!("{result:?}");
        };
        assert_eq!(timestamp, late);
    };
    refused(writer.write_result(&sample(late, 1)));
    refused(writer.date_metadata(late));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    writer.write_result(&sample(last, 1)).unwrap();
    refused(writer.write_mark(late));
    let mut builder = TemplateBuilder::of_version(Version::V2);
    builder.empty_set(descs()[2].pmid);
    let mut buffer = builder.finish().unwrap().new_buffer();
    buffer.set_timestamp(late);
    refused(writer.write_prepared(&buffer));
    writer.finish().unwrap();
    assert_eq!(Archive::open(&base).unwrap().end(), last);
}

#[test]
fn labels_have_no_room_for_long_names_nor_for_the_zone() {
    let directory = tempfile::tempdir().unwrap();
    let base = directory.path().join("a.b");
    let long = WriterLabel { hostname: "h".repeat(64).into(), ..label() };
    let refused = ArchiveWriter::create_with(&base, long, version_2());
    let Err(Error::Encode { source }) = refused else { panic!("{refused:?}") };
    assert_eq!(source, EncodeError::TooLarge { field: "host name", found: 64, max: 63 });
    let (_directory, base, mut writer) = writer(version_2());
    writer.write_result(&one_value(0, 1)).unwrap();
    let archive = Archive::open(&base).unwrap();
    assert_eq!(archive.label().version, Version::V2);
    assert_eq!((archive.label().timezone.as_str(), archive.label().zoneinfo.as_str()), ("UTC", ""));
}

#[test]
fn changed_domains_are_written_whole_and_cannot_become_empty() {
    let (_directory, base, mut writer) = writer(version_2());
    let domains: [&[i32]; 5] = [&[1, 2, 3], &[1, 2, 3, 4], &[], &[], &[9]];
    let mut sizes = Vec::new();
    for (seconds, ids) in domains.iter().enumerate() {
        writer.declare_indom(indom(), &instances(&ids.iter().copied().collect())).unwrap();
        writer.write_result(&one_value(seconds as i64, 1)).unwrap();
        sizes.push(fs::metadata(base.with_extension("b.meta")).unwrap().len());
    }
    assert_eq!(sizes[1..4], [sizes[1]; 3]);
    let archive = Archive::open(&base).unwrap();
    let held = [0, 1, 2, 3, 4].map(|seconds| {
        let held = archive.metadata().indom_at(indom(), stored(Version::V2, at(seconds)));
        held.map_or(0, |held| held.len())
    });
    assert_eq!(held, [3, 4, 4, 4, 1]);
}

#[test]
fn no_file_grows_beyond_the_offsets_of_the_index() {
    let (_directory, _, mut writer) = writer(version_2());
    writer.write_result(&one_value(0, 1)).unwrap();
    let size = writer.volume_bytes() - Version::V2.label_size();
    let max = i32::MAX as u64;
    let files = writer.files.as_mut().unwrap();
    files.stretch("data", max - size);
    writer.write_result(&one_value(1, 2)).unwrap();
    assert_eq!((writer.volume(), writer.volume_bytes()), (0, max));
    writer.write_result(&one_value(2, 3)).unwrap();
    assert_eq!((writer.volume(), writer.volume_bytes()), (1, Version::V2.label_size() + size));
    // There is one metadata file only.
    writer.files.as_mut().unwrap().stretch("meta", max);
    writer.write_result(&one_value(3, 4)).unwrap();
    writer.declare_indom(indom(), &instances(&BTreeSet::from([1]))).unwrap();
    let full = writer.write_result(&one_value(4, 5));
    let Err(Error::Encode { source: EncodeError::TooLarge { field, max: limit, .. } }) = full
    else {
        panic!("{full:?}");
    };
    assert_eq!((field, limit), ("metadata file", max));
    assert_eq!(writer.records(), 4);
}

#[test]
fn prepared_records_have_the_version_of_their_archive() {
    for version in [Version::V2, Version::V3] {
        let mut builder = TemplateBuilder::of_version(version);
        builder.begin_set(descs()[6].pmid, ValueType::U64);
        let slot = builder.value(None, 0).unwrap();
        builder.begin_set(descs()[2].pmid, ValueType::U32);
        let word = builder.value(None, 0).unwrap();
        let template = builder.finish().unwrap();
        let mut buffer = template.new_buffer();
        buffer.set_timestamp(at(0));
        buffer.put_u64(template.slot(slot), 1 << 40);
        buffer.put_u32(template.slot(word), 7);
        for archive_version in [Version::V2, Version::V3] {
            let options = WriterOptions { version: archive_version, ..WriterOptions::default() };
            let (_directory, base, mut writer) = writer(options);
            let written = writer.write_prepared(&buffer);
            if version != archive_version {
                let source = EncodeError::Version {
                    found: version.number(),
                    expected: archive_version.number(),
                };
                assert!(matches!(written, Err(Error::Encode { source: found }) if found == source));
                continue;
            }
            written.unwrap();
            let [ref result] = forward(&Archive::open(&base).unwrap())[..] else { panic!() };
            assert_eq!(result.timestamp, stored(version, at(0)));
            let values: Vec<_> = result.value_sets.iter().map(|set| set.values.clone()).collect();
            let value = |value| Ok(vec![(None, value)]);
            assert_eq!(values, [value(OwnedValue::U64(1 << 40)), value(OwnedValue::U32(7))]);
        }
    }
}

#[test]
fn labels_and_domains_of_a_version_2_archive_pass_our_check() {
    let (_directory, base, mut writer) = writer(version_2());
    for seconds in 0..3 {
        let value = seconds.to_string();
        let set = LabelSet::from_pairs(crate::LabelClass::Context, [("a", &*value, false)]);
        writer.declare_labels(LabelTarget::Context, &[set.unwrap()]).unwrap();
        let ids = (0..=seconds as i32).collect();
        writer.declare_indom(indom(), &instances(&ids)).unwrap();
        writer.write_result(&one_value(seconds, 1)).unwrap();
    }
    writer.write_mark(at(9)).unwrap();
    writer.finish().unwrap();
    let report = crate::check::check(&base).unwrap();
    assert!(report.findings().is_empty(), "{:?}", report.findings());
    let archive = Archive::open(&base).unwrap();
    let labels = archive.metadata().labels_at(LabelTarget::Context, at(2)).unwrap();
    assert_eq!(labels[0].json, "{\"a\":2}");
}

//! Sound archives with something unusual: a clock that was set back, times after 2038, values that
//! are not numbers.

use std::fs;

use pcp_archive::{Archive, Timestamp, WriterLabel, WriterOptions};
use test_archives::{Builder, TestArchive};

use crate::program::{run, stdout, text};

/// Writes a record each second, the third of which is 60 ms earlier than the second. Returns also
/// its offset.
fn clock_set_back() -> (TestArchive, u64) {
    let mut builder = Builder::new()
        .metric("app.requests", "u64 counter count")
        .metric("app.queue", "u32 instant none");
    for second in 0..4 {
        builder = builder.row(second, [("app.requests", second * 10), ("app.queue", second)]);
    }
    let archive = builder.finish();
    let opened = Archive::open(archive.base()).unwrap();
    let mut records = opened.records().unwrap();
    let mut offset = 0;
    for _ in 0..3 {
        offset = records.next().unwrap().unwrap().offset();
    }
    let mut bytes = fs::read(archive.member("0")).unwrap();
    let time = offset as usize + 4;
    bytes[time + 3] -= 2;
    bytes[time + 8..time + 12].copy_from_slice(&940_000_000_u32.to_be_bytes());
    fs::write(archive.member("0"), bytes).unwrap();
    (archive, offset)
}

#[test]
fn copies_of_a_record_that_steps_back_are_whole_and_sound() {
    let (archive, offset) = clock_set_back();
    let commands: [(&[&str], usize); 6] = [
        (&["extract", "a", "-o", "copy"], 8),
        (&["extract", "a", "app.requests", "-o", "copy"], 4),
        (&["extract", "a", "--archive-version", "2", "-o", "copy"], 8),
        (&["convert", "a", "-o", "copy"], 8),
        (&["convert", "a", "--archive-version", "2", "-o", "copy"], 8),
        (&["convert", "a", "--compress", "zstd", "-o", "copy"], 8),
    ];
    for (arguments, values) in commands {
        let output = run(archive.directory(), arguments);
        stdout(&output, 0);
        let warning = format!(
            "mmv-archive: a.0: offset {offset}: record of 2023-11-14T22:13:20.94Z after one of \
             2023-11-14T22:13:21Z: copied with the later time; \"repair\" keeps the times, in \
             further archives\n"
        );
        assert_eq!(text(&output.stderr), warning, "{arguments:?}");
        stdout(&run(archive.directory(), &["check", "copy"]), 0);
        let dump = run(archive.directory(), &["dump", "copy"]);
        assert_eq!(stdout(&dump, 0).matches("): value ").count(), values, "{arguments:?}");
        assert_eq!(stdout(&dump, 0).matches("22:13:21.000000").count(), 2, "{arguments:?}");
        for file in fs::read_dir(archive.directory()).unwrap().map(|file| file.unwrap().path()) {
            if file.file_stem().is_some_and(|stem| stem.to_str().unwrap().starts_with("copy")) {
                fs::remove_file(file).unwrap();
            }
        }
    }
}

#[test]
fn times_after_2038_are_an_impossible_request_for_version_2() {
    let archive = Builder::new()
        .metric("app.requests", "u64 counter count")
        .row_at(Timestamp::new(2_147_483_640, 0).unwrap(), [("app.requests", 1)])
        .row_at(Timestamp::new(2_147_483_650, 0).unwrap(), [("app.requests", 2)])
        .finish();
    stdout(&run(archive.directory(), &["check", "a"]), 0);
    for command in ["extract", "convert"] {
        let arguments = [command, "a", "--archive-version", "2", "-o", "copy"];
        let output = run(archive.directory(), &arguments);
        stdout(&output, 2);
        let expected = "2038-01-19T03:14:10Z is outside the range of version 2 timestamps, 1901 to 2038: \
                        version 2 cannot hold this archive, version 3 can; leave out \
                        --archive-version 2";
        assert!(text(&output.stderr).contains(expected), "{}", text(&output.stderr));
    }
    let files = fs::read_dir(archive.directory()).unwrap().count();
    assert_eq!(files, 3, "no part of a copy remains");
}

#[test]
fn names_too_long_for_version_2_are_shortened_with_a_note() {
    let directory = test_archives::scratch();
    let host = format!("{}.example.com", "h".repeat(70));
    let zone = "CET-1CEST,M3.5.0/02:00:00,M10.5.0/03:00:00";
    let label = WriterLabel {
        pid: 1,
        hostname: host.as_str().into(),
        timezone: zone.into(),
        zoneinfo: "".into(),
    };
    let base = directory.path().join("a");
    let written = Builder::create(&base, label, WriterOptions::default())
        .metric("app.requests", "u64 counter count")
        .row(0, [("app.requests", 1)])
        .finish();
    let output = run(directory.path(), &["convert", "a", "--archive-version", "2", "-o", "copy"]);
    stdout(&output, 0);
    let short = "h".repeat(63);
    assert!(text(&output.stderr).contains(&format!("host name {host}: shortened to {short}\n")));
    assert!(text(&output.stderr).contains(&format!("time zone {zone}: replaced by UTC\n")));
    stdout(&run(directory.path(), &["check", "copy"]), 0);
    let copy = Archive::open(directory.path().join("copy")).unwrap();
    assert_eq!(copy.label().hostname.to_string(), short);
    drop(written);
}

#[test]
fn a_label_without_a_time_zone_is_read_as_utc_with_a_note() {
    let directory = test_archives::scratch();
    let label = |zoneinfo: &str| WriterLabel {
        pid: 1,
        hostname: "host".into(),
        timezone: "".into(),
        zoneinfo: zoneinfo.into(),
    };
    for (name, zoneinfo, time) in
        [("a", "", "22:13:20.000000000+00:00"), ("b", ":Asia/Tokyo", "07:13:20.000000000+09:00")]
    {
        let base = directory.path().join(name);
        let written = Builder::create(&base, label(zoneinfo), WriterOptions::default())
            .metric("app.queue", "u32 instant none")
            .row(0, [("app.queue", 1)])
            .finish();
        let arguments = ["report", name, "app.queue", "-z", "--raw", "--format", "csv"];
        let output = run(directory.path(), &arguments);
        assert!(stdout(&output, 0).contains(time), "{output:?}");
        let note = "mmv-archive: the label of the archive has no time zone: times are UTC\n";
        assert_eq!(text(&output.stderr), if zoneinfo.is_empty() { note } else { "" });
        drop(written);
    }
}

#[test]
fn averages_of_opposite_infinities_are_printed_as_no_numbers() {
    let values = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e308, -0.0];
    let archive = Builder::new()
        .metric("app.load", "double instant none")
        .rows(values.into_iter().enumerate().map(|(n, value)| (n as u32, [("app.load", value)])))
        .finish();
    let summary = run(archive.directory(), &["summary", "a"]);
    let line = stdout(&summary, 0).lines().last().unwrap();
    let fields: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(fields, ["load", "NaN", "-inf", "inf", "4"]);
}

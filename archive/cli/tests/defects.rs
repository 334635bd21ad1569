//! Defects that do not decide a record do not keep `dump` from printing it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use pcp_archive::Pmid;
use tempfile::TempDir;
use test_archives::{Builder, Cell};

use crate::program::{printed_of, run_on, text};

/// Writes three records of a metric in place and one in blocks; the first has a help text.
fn archive() -> (TempDir, PathBuf) {
    Builder::named("acme")
        .metric("acme.word", "u32 instant")
        .metric("acme.long", "u64 instant")
        .help("acme.word", "words")
        .rows((0..3).map(|n| (n, [("acme.word", 5), ("acme.long", 7)])))
        .finish()
        .into_parts()
}

/// Changes the bytes of the metadata after the first place where `before` is.
fn change(base: &Path, before: &[u8], change: impl FnOnce(&mut [u8])) -> usize {
    let meta = base.with_extension("meta");
    let mut bytes = fs::read(&meta).unwrap();
    let at = bytes.windows(before.len()).position(|found| found == before).unwrap();
    change(&mut bytes[at + before.len()..]);
    fs::write(&meta, bytes).unwrap();
    at
}

#[test]
fn a_help_text_without_its_nul_costs_the_text() {
    let (_directory, base) = archive();
    let whole = run_on(&base, &["dump"]);
    assert_eq!(whole.status.code(), Some(0));
    change(&base, b"words", |bytes| bytes[0] = b'!');
    let output = run_on(&base, &["dump"]);
    assert_eq!(text(&output.stdout), text(&whole.stdout));
    assert_eq!(output.status.code(), Some(65));
    let warnings = text(&output.stderr);
    assert!(warnings.contains("acme.meta: offset "), "{warnings}");
    assert!(warnings.contains("; skipped\n"), "{warnings}");
    assert_eq!(run_on(&base, &["metrics"]).status.code(), Some(65));
    assert_eq!(run_on(&base, &["check"]).status.code(), Some(1));
    for arguments in [
        &["report", "--format", "csv", "acme.word"][..],
        &["summary", "--format", "csv"],
        &["plot", "acme.word"],
        &["extract", "-o", "extracted", "acme.word"],
        &["convert", "-o", "converted"],
    ] {
        let output = run_on(&base, arguments);
        assert_eq!(output.status.code(), Some(65), "{arguments:?}: {output:?}");
        assert!(!output.stdout.is_empty(), "{arguments:?}");
        let warnings = text(&output.stderr);
        assert_eq!(warnings.matches("; skipped\n").count(), 1, "{arguments:?}: {warnings}");
        assert!(warnings.contains("acme.meta: offset "), "{arguments:?}: {warnings}");
    }
    for copy in ["extracted", "converted"] {
        assert_eq!(run_on(&base.with_file_name(copy), &["check"]).status.code(), Some(0), "{copy}");
    }
}

#[test]
fn a_bad_descriptor_costs_the_values_of_its_metric() {
    let (_directory, base) = archive();
    let pmid = Pmid::new(70, 1, 2).unwrap().raw().to_be_bytes();
    change(&base, &pmid, |bytes| bytes[3] = 99);
    let output = run_on(&base, &["dump"]);
    assert_eq!(output.status.code(), Some(65));
    let lines = "    70.1.1 (acme.word): value 5\n    70.1.2 (<nonames>): no descriptor\n";
    assert_eq!(text(&output.stdout).matches(lines).count(), 3);
    let report = run_on(&base, &["report", "--format", "csv", "--raw", "acme"]);
    assert_eq!(report.status.code(), Some(65));
    let rows: Vec<&str> = text(&report.stdout).lines().collect();
    assert_eq!(rows.len(), 4, "{rows:?}");
    assert!(rows[0].ends_with(",acme.word") && rows[1].ends_with(",5"), "{rows:?}");
    assert_eq!(run_on(&base, &["convert", "-o", "converted"]).status.code(), Some(65));
    let copy = run_on(&base.with_file_name("converted"), &["dump"]);
    assert_eq!(text(&copy.stdout).matches("(acme.word): value 5\n").count(), 3);
}

#[test]
fn a_value_that_its_type_cannot_have_costs_only_itself() {
    let (_directory, base) = archive();
    // Of type 3 in place.
    let pmid = Pmid::new(70, 1, 1).unwrap().raw().to_be_bytes();
    change(&base, &pmid, |bytes| bytes[3] = 3);
    let output = run_on(&base, &["dump"]);
    assert_eq!(output.status.code(), Some(65));
    let lines = "    70.1.1 (acme.word): value ?\n    70.1.2 (acme.long): value 7\n";
    assert_eq!(text(&output.stdout).matches(lines).count(), 3);
    assert_eq!(text(&output.stderr).matches("acme.0: offset 808: metric 70.1.1: ").count(), 1);
    for arguments in [&["report", "--raw"][..], &["report", "-t", "1s"], &["summary"]] {
        let output = run_on(&base, &[arguments, &["--format", "csv", "acme"]].concat());
        assert_eq!(output.status.code(), Some(65), "{arguments:?}");
        let rows = text(&output.stdout).lines().filter(|row| row.contains(",7")).count();
        assert_eq!(rows, if arguments[0] == "report" { 3 } else { 1 }, "{arguments:?}: {output:?}");
        assert_eq!(text(&output.stderr).matches("70.1.1").count(), 1, "{output:?}");
    }
    for (copy, version) in [("three", "3"), ("two", "2")] {
        let output = run_on(&base, &["convert", "-o", copy, "--archive-version", version]);
        assert!(matches!(output.status.code(), Some(0 | 65)), "{version}: {output:?}");
        let dump = run_on(&base.with_file_name(copy), &["dump"]);
        assert_eq!(text(&dump.stdout).matches("(acme.long): value 7\n").count(), 3, "{version}");
    }
}

#[test]
fn a_name_that_readers_have_no_room_for_costs_its_metric() {
    let (_directory, base) = archive();
    let meta = base.with_extension("meta");
    let mut bytes = fs::read(&meta).unwrap();
    // The record of `acme.long`, with its lengths.
    let name = bytes.windows(9).position(|found| found == b"acme.long").unwrap();
    let (start, longer) = (name - 36, 5000 - 9);
    for at in [start, name - 4, name + 9] {
        let word = bytes[at..at + 4].try_into().unwrap();
        let word = u32::from_be_bytes(word) + longer;
        bytes[at..at + 4].copy_from_slice(&word.to_be_bytes());
    }
    bytes.splice(name + 9..name + 9, vec![b'x'; longer as usize]);
    fs::write(&meta, bytes).unwrap();
    for index in fs::read_dir(base.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path()) {
        if index.extension().is_some_and(|extension| extension == "index") {
            fs::remove_file(index).unwrap();
        }
    }
    let output = run_on(&base, &["convert", "-o", "converted"]);
    assert_eq!(output.status.code(), Some(65), "{output:?}");
    let warning = "metric 70.1.2 is left out: its name has 5000 bytes";
    assert_eq!(text(&output.stderr).matches(warning).count(), 1, "{output:?}");
    let copy = base.with_file_name("converted");
    assert_eq!(run_on(&copy, &["check"]).status.code(), Some(0));
    assert_eq!(text(&run_on(&copy, &["dump"]).stdout).matches("(acme.word): value 5\n").count(), 3);
    let rename = format!("acme.long{}=acme.long", "x".repeat(longer as usize));
    let output = run_on(&base, &["convert", "-o", "renamed", "--rename", &rename]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let dump = run_on(&base.with_file_name("renamed"), &["dump"]);
    assert_eq!(text(&dump.stdout).matches("(acme.long): value 7\n").count(), 3);
}

#[test]
fn the_metadata_of_an_archive_without_a_whole_record_is_printed() {
    let (_directory, base) = archive();
    let whole = run_on(&base, &["dump"]);
    assert_eq!(whole.status.code(), Some(0));
    let options = ["-L", "-d", "-t", "-m"];
    let dump = |base: &Path| run_on(base, &[&["dump"], &options[..]].concat());
    let whole = text(&dump(&base).stdout).to_owned();
    // The first record is not complete.
    let data = fs::File::options().write(true).open(base.with_extension("0")).unwrap();
    let label = fs::read(base.with_extension("0")).unwrap();
    let label = u64::from(u32::from_be_bytes(label[..4].try_into().unwrap()));
    data.set_len(label + 7).unwrap();
    let output = dump(&base);
    let printed = text(&output.stdout);
    assert!(printed.contains("    ending     UNKNOWN\n"), "{printed}");
    let shared = |line: &&str| !line.starts_with("    ending") && !line.contains("past end");
    let printed: Vec<_> = printed.lines().filter(shared).collect();
    let expected: Vec<_> = whole.lines().filter(shared).take(printed.len()).collect();
    assert_eq!(printed, expected);
    assert!(printed.contains(&"Temporal Index"), "{printed:?}");
    let complaints = text(&output.stderr);
    assert!(complaints.ends_with("acme: no records\n"), "{complaints}");
    assert_eq!(output.status.code(), Some(1));
    for command in [&["info"][..], &["metrics"], &["report", "acme.word"], &["summary"]] {
        let output = run_on(&base, command);
        assert_eq!(output.status.code(), Some(1), "{command:?}");
        assert!(output.stdout.is_empty(), "{command:?}");
        assert!(text(&output.stderr).ends_with("acme: no records\n"), "{command:?}");
    }
}

#[test]
fn index_entries_beyond_files_and_volumes_are_marked() {
    let (_directory, base) = archive();
    let index = base.with_extension("index");
    let bytes = fs::read(&index).unwrap();
    // An entry has its time in 12 bytes, then the volume and two offsets.
    let entry = u32::from_be_bytes(bytes[..4].try_into().unwrap()) as usize;
    let size = |extension| fs::metadata(base.with_extension(extension)).unwrap().len();
    let changed = |place: usize, to: &[u8]| {
        let mut bytes = bytes.clone();
        bytes[entry + place..][..to.len()].copy_from_slice(to);
        fs::write(&index, bytes).unwrap();
        let output = run_on(&base, &["dump", "-t"]);
        text(&output.stdout).to_owned()
    };
    let expected = |line: String| format!("\n\t\t{line}\n");
    let error = |kind: &str, size| {
        expected(format!("Error: offset to {kind} file past end of file ({size})"))
    };
    for (place, to, line) in [
        (16, &99_999_999_u64.to_be_bytes()[..], error("meta", size("meta"))),
        (24, &99_999_999_u64.to_be_bytes(), error("log", size("0"))),
        (12, &7_u32.to_be_bytes(), expected("Warning: file missing for log volume 7".into())),
    ] {
        let printed = changed(place, to);
        assert!(printed.contains(&line), "{line:?} in {printed}");
    }
    let printed = changed(0, &[]);
    assert!(!printed.contains("Error") && !printed.contains("Warning"), "{printed}");
}

#[test]
fn a_damaged_record_costs_itself_alone() {
    let (_directory, base) = archive();
    let lines = |output: &Output| text(&output.stdout).lines().count();
    let whole = run_on(&base, &["dump"]);
    // The instance of a value of the second record becomes negative.
    let data = base.with_extension("0");
    let bytes = fs::read(&data).unwrap();
    let size = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let second = size(0) + size(size(0));
    let value = 7_u64.to_be_bytes();
    let none = bytes[second..].windows(4).position(|word| word == [0xff; 4]).unwrap();
    let mut changed = bytes.clone();
    changed[second + none + 3] = 0xfe;
    assert!(bytes.windows(8).any(|word| word == value), "the values are there");
    fs::write(&data, changed).unwrap();
    let output = run_on(&base, &["dump"]);
    assert_eq!(output.status.code(), Some(65));
    let complaints = text(&output.stderr);
    let expected = format!("acme.0: offset {second}: ");
    assert!(complaints.contains(&expected), "{expected} in {complaints}");
    assert!(complaints.contains(&format!("; {} bytes skipped\n", size(second))), "{complaints}");
    // Of three records of as many lines, the first and the last are printed.
    assert_eq!(lines(&output) * 3, lines(&whole) * 2);
    let json = run_on(&base, &["dump", "--json"]);
    assert_eq!((lines(&json), json.status.code()), (2, Some(65)));
}

#[test]
fn a_block_that_cannot_be_decompressed_costs_its_records_alone() {
    let text = "x".repeat(10_000);
    let (directory, base) =
        Builder::named("packed")
            .metric("packed.text", "string instant")
            .metric("packed.number", "u64 instant")
            .rows((0..400).map(|n| {
                (n, [("packed.text", Cell::from(&*text)), ("packed.number", Cell::from(5))])
            }))
            .finish()
            .into_parts();
    // Four blocks of a megabyte.
    let packed = directory.path().join("xz");
    printed_of(&base, &["convert", "--compress", "xz", "-o", "xz"]);
    let volume = directory.path().join("xz.0.xz");
    let mut bytes = fs::read(&volume).unwrap();
    let middle = bytes.len() / 3;
    bytes[middle..middle + 8].fill(0xff);
    fs::write(&volume, bytes).unwrap();
    let output = run_on(&packed, &["dump"]);
    assert_eq!(output.status.code(), Some(65));
    let said = self::text(&output.stderr);
    assert!(said.contains("cannot be decompressed") && said.contains(" bytes skipped\n"), "{said}");
    let printed = self::text(&output.stdout);
    let records = printed.lines().filter(|line| line.contains("2 metrics")).count();
    assert!((250..400).contains(&records), "{records}");
    // The same records are summarized, also in a window whose first one is lost.
    let summary = |arguments: &[&str]| {
        let arguments = [&["summary", "--format", "jsonl", "packed.number"], arguments].concat();
        let output = run_on(&packed, &arguments);
        assert_eq!(output.status.code(), Some(65), "{arguments:?}: {output:?}");
        assert!(!output.stderr.is_empty(), "{arguments:?}: it says so");
        let line: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        line["count"].as_u64().unwrap() as usize
    };
    assert_eq!(summary(&[]), records);
    let (first, last) = (summary(&["-T", "130s"]), summary(&["-S", "150s"]));
    assert!(first > 50 && last > 190 && first + last == records, "{first}, {last} of {records}");
}

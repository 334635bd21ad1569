//! `mmv-archive dump` with pmdumplog's options for other views than the records in
//! order.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use tempfile::TempDir;
use test_archives::Builder;

use crate::program::{printed_of, run_on, text};

/// Writes a metric of which more instances come and go, one record for each second.
fn archive(times: &[i32]) -> (TempDir, PathBuf) {
    let builder = Builder::named("acme").metric("acme.jobs", "u32 instant count");
    let mut builder = builder.in_domain("acme.jobs", 1);
    for &second in times {
        // Eight of nine stay from second to second: a difference is shorter.
        let names: Vec<_> = (second..second + 9).map(|n| (n, format!("job {n}"))).collect();
        let instances = names.iter().map(|(n, name)| (*n, name.as_str()));
        let value = (format!("acme.jobs[job {second}]"), 7);
        builder = builder.numbered_instances("acme.jobs", instances).row(second, [value]);
    }
    builder.finish().into_parts()
}

fn dump(path: &Path, options: &[&str]) -> Output {
    run_on(path, &[&["dump"], options].concat())
}

#[test]
fn the_records_of_domains_are_printed_as_on_disk() {
    let (_directory, base) = archive(&[0, 1]);
    let output = dump(&base, &["-I"]);
    let whole = (0..9).map(|n| format!("   {n} or \"job {n}\"\n")).collect::<Vec<_>>().concat();
    let expected = format!(
        "\nInstance Domains on-disk ...\n\
         22:13:20.000000000 InDom: 70.1 9 instances\n{whole}\
         22:13:21.000000000 InDom: 70.1 delta 2 instances\n   \
         del 0\n   add 9 or \"job 9\"\n"
    );
    assert_eq!(text(&output.stdout), expected);
}

#[test]
fn a_reversed_dump_has_the_same_records_in_reverse_order() {
    let (_directory, base) = archive(&[0, 1, 2, 3]);
    let times = |options: &[&str]| {
        let output = dump(&base, options);
        assert!(output.status.success(), "{output:?}");
        let text = text(&output.stdout).to_owned();
        let times = text.lines().filter_map(|line| line.strip_suffix(".000000000 1 metric"));
        times.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(times(&["-r"]), ["22:13:23", "22:13:22", "22:13:21", "22:13:20"]);
    let window = ["-S", "1s", "-T", "1s"];
    assert_eq!(times(&[&window[..], &["-r"]].concat()), ["22:13:22", "22:13:21"]);
    assert_eq!(times(&window), ["22:13:21", "22:13:22"]);
    let first = dump(&base, &["-r", "-T", "@22:13:22"]);
    let title = "\nLog finished at Tue Nov 14 22:13:22 2023 - dump in reverse order\n\n22:13:22";
    assert!(text(&first.stdout).starts_with(title), "{}", text(&first.stdout));
    let json = dump(&base, &["--json", "--reverse"]);
    let text = text(&json.stdout);
    let seconds = text.lines().map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        line["seconds"].as_f64().unwrap() - 1_700_000_000.0
    });
    assert_eq!(seconds.collect::<Vec<_>>(), [3.0, 2.0, 1.0, 0.0]);
}

#[test]
fn backward_records_are_printed_without_a_window() {
    let (directory, base) = archive(&[0, 1, 2]);
    // The time of the last record becomes one before all others.
    let volume = directory.path().join("acme.0");
    let mut bytes = fs::read(&volume).unwrap();
    let last = 1_700_000_002_u32.to_be_bytes();
    let at = bytes.windows(4).rposition(|word| word == last).unwrap();
    bytes[at..at + 4].copy_from_slice(&1_600_000_000_u32.to_be_bytes());
    fs::write(&volume, bytes).unwrap();
    for options in [&[][..], &["-r"]] {
        let output = dump(&base, options);
        assert_eq!(text(&output.stdout).matches(" 1 metric\n").count(), 3, "{options:?}");
    }
}

fn change_index(base: &Path, at: usize, new: &[u8]) {
    let index = base.with_extension("index");
    let mut bytes = fs::read(&index).unwrap();
    bytes[at..at + new.len()].copy_from_slice(new);
    fs::write(&index, &bytes).unwrap();
}

/// A nanosecond before the second entry of the index of the archives here.
const BEFORE_SECOND_ENTRY: [u8; 12] = [0x65, 0x53, 0xf1, 0, 0, 0, 0, 0, 0x3b, 0x9a, 0xc9, 0xff];

#[test]
fn index_entry_that_steps_back_is_printed_with_an_error() {
    let (_directory, base) = archive(&[0, 1, 2, 3]);
    let whole = dump(&base, &["-t"]);
    assert_eq!(whole.status.code(), Some(0));
    let lines: Vec<&str> = text(&whole.stdout).lines().collect();
    assert_eq!(lines.len(), 3 + 4, "{lines:?}");
    let at = 808 + 2 * 32;
    change_index(&base, at, &BEFORE_SECOND_ENTRY);
    let warning = format!(
        "{}.index: offset {at}: index entry 3: time 2023-11-14T22:13:20.999999999Z, \
         expected 2023-11-14T22:13:21Z or later; ignored\n",
        base.display()
    );
    for options in [&["-t"][..], &["-t", "-m"]] {
        let output = dump(&base, options);
        assert_eq!(output.status.code(), Some(0), "{options:?}");
        let found: Vec<&str> = text(&output.stdout).lines().take(8).collect();
        assert_eq!(found[..5], lines[..5], "{options:?}");
        let (time, offsets) = found[5].split_once('\t').unwrap();
        assert_eq!(time, "22:13:20.999999999");
        assert_eq!(Some(offsets), lines[5].split_once('\t').map(|(_, offsets)| offsets));
        let error = "\t\tError: timestamp went backwards in time \
                     22:13:21.000000000 -> 22:13:20.999999999";
        assert_eq!(found[6..], [error, lines[6]], "{options:?}");
        assert!(text(&output.stderr).contains(&warning), "{}", text(&output.stderr));
    }
}

#[test]
fn unreadable_index_entry_is_reported_beside_the_others() {
    let (_directory, base) = archive(&[0, 1, 2, 3]);
    let whole = dump(&base, &["-t"]);
    let lines: Vec<&str> = text(&whole.stdout).lines().collect();
    let at = 808 + 2 * 32;
    // The sign of the volume.
    change_index(&base, at + 12, &[0x80]);
    let output = dump(&base, &["-t"]);
    assert_eq!(output.status.code(), Some(65));
    let found: Vec<&str> = text(&output.stdout).lines().collect();
    assert_eq!(found, [&lines[..5], &lines[6..]].concat());
    assert_eq!(dump(&base, &["-m"]).status.code(), Some(0));
}

#[test]
fn an_index_entry_that_steps_back_in_time_changes_no_answer() {
    let (directory, base) = archive(&[0, 1, 2, 3, 4, 5]);
    let copy = directory.path().join("copy");
    let commands: [&[&str]; 8] = [
        &["info"],
        &["metrics"],
        &["report", "acme.jobs", "--raw", "-S", "3s"],
        &["report", "acme.jobs", "-t", "1s", "-S", "2s"],
        &["summary", "-S", "1s", "-T", "4s"],
        &["plot", "acme.jobs", "-S", "1s"],
        &["dump", "-m", "--reverse"],
        &["extract", "-o", copy.to_str().unwrap()],
    ];
    let run = || {
        commands.map(|arguments| {
            let printed = printed_of(&base, arguments);
            for suffix in ["0", "meta", "index"] {
                let _ = fs::remove_file(copy.with_extension(suffix));
            }
            printed.lines().filter(|line| !line.contains("index")).collect::<Vec<_>>().join("\n")
        })
    };
    let expected = run();
    change_index(&base, 808 + 2 * 32, &BEFORE_SECOND_ENTRY);
    assert_eq!(run(), expected);
}

#[test]
fn files_of_any_content_are_printed_in_hexadecimal() {
    let (directory, base) = archive(&[0, 1]);
    let index = directory.path().join("acme.index");
    let output = dump(&index, &["-v"]);
    let title = format!("Raw dump of physical archive file \"{}\" ...\n", index.display());
    assert!(text(&output.stdout).starts_with(&title));
    let entry = "Dump ... index entry @ offset: 808\n 6553f100 00000000 00000000 ";
    assert!(text(&output.stdout).contains(entry), "{}", text(&output.stdout));
    let all = dump(&base, &["-v"]);
    assert_eq!(text(&all.stdout).matches("Raw dump of ").count(), 3);
    let meta = directory.path().join("acme.meta");
    let mut bytes = fs::read(&meta).unwrap();
    bytes[4] ^= 0xff;
    bytes.extend([0, 0, 0, 99, 1, 2, 3]);
    fs::write(&meta, &bytes).unwrap();
    let output = dump(&meta, &["-v"]);
    assert_eq!(output.status.code(), Some(65), "the end is torn");
    let start = bytes.len() - 7;
    let damaged = format!("Dump ... damaged @ offset: {start}\n 00000063 010203\n");
    assert!(text(&output.stdout).ends_with(&damaged), "{}", text(&output.stdout));
    let warning = format!("acme.meta: offset {start}: record: expected 99 bytes, found 7; ");
    assert!(text(&output.stderr).contains(&warning), "{}", text(&output.stderr));
    assert_eq!(dump(&meta, &["-v", "-m"]).status.code(), Some(2));
}

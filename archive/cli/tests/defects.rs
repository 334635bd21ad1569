//! Defects that do not decide a record do not keep `dump` from printing it.

#[path = "../../tests/shared/archives.rs"]
mod archives;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use pcp_archive::{OwnedValue, TextKind, TextTarget, ValueSet, ValueType, WriterOptions};
use tempfile::TempDir;

/// Three records of a metric in place and one in blocks; the first has a help text.
fn archive() -> (TempDir, PathBuf) {
    let (directory, base, mut writer) = archives::begin("acme", WriterOptions::default());
    let (word, long) = (archives::desc(1, ValueType::U32), archives::desc(2, ValueType::U64));
    writer.declare_metric(&word, &["acme.word"]).unwrap();
    writer.declare_metric(&long, &["acme.long"]).unwrap();
    let target = TextTarget::Metric(word.pmid);
    writer.declare_text(target, TextKind::OneLine, "words").unwrap();
    for second in 0..3 {
        let set = |pmid, value| ValueSet { pmid, values: Ok(vec![(None, value)]) };
        let sets = vec![set(word.pmid, OwnedValue::U32(5)), set(long.pmid, OwnedValue::U64(7))];
        archives::write(&mut writer, archives::at(second), sets);
    }
    writer.finish().unwrap();
    (directory, base)
}

fn run(command: &str, base: &Path) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_mmv-archive"));
    program.arg(command).arg(base).env("TZ", "UTC").output().unwrap()
}

fn text(output: &[u8]) -> &str {
    std::str::from_utf8(output).unwrap()
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
    let whole = run("dump", &base);
    assert_eq!(whole.status.code(), Some(0));
    change(&base, b"words", |bytes| bytes[0] = b'!');
    let output = run("dump", &base);
    assert_eq!(text(&output.stdout), text(&whole.stdout));
    assert_eq!(output.status.code(), Some(65));
    let warnings = text(&output.stderr);
    assert!(warnings.contains("acme.meta: offset "), "{warnings}");
    assert!(warnings.contains("; passed by\n"), "{warnings}");
    assert_eq!(run("metrics", &base).status.code(), Some(65));
    // What is copied has to be whole.
    assert_eq!(run("check", &base).status.code(), Some(1));
}

#[test]
fn a_bad_descriptor_costs_the_values_of_its_metric() {
    let (_directory, base) = archive();
    let pmid = archives::desc(2, ValueType::U64).pmid.raw().to_be_bytes();
    change(&base, &pmid, |bytes| bytes[3] = 99);
    let output = run("dump", &base);
    assert_eq!(output.status.code(), Some(65));
    let lines = "    70.1.1 (acme.word): value 5\n    70.1.2 (<nonames>): no descriptor\n";
    assert_eq!(text(&output.stdout).matches(lines).count(), 3);
}

#[test]
fn a_value_that_its_type_cannot_have_costs_only_itself() {
    let (_directory, base) = archive();
    // Of type 3 in place.
    let pmid = archives::desc(1, ValueType::U32).pmid.raw().to_be_bytes();
    change(&base, &pmid, |bytes| bytes[3] = 3);
    let output = run("dump", &base);
    assert_eq!(output.status.code(), Some(65));
    let lines = "    70.1.1 (acme.word): value ?\n    70.1.2 (acme.long): value 7\n";
    assert_eq!(text(&output.stdout).matches(lines).count(), 3);
    assert_eq!(text(&output.stderr).matches("acme.0: offset 808: metric 70.1.1: ").count(), 1);
}

//! Metrics without a name of their own are skipped in new archives, with a
//! warning.

use std::fs;
use std::process::{Command, Output};

use pcp_archive::Archive;
use tempfile::TempDir;
use test_archives::Builder;

/// Writes a number of metrics, all but the first under the name of the first.
fn archive(metrics: u32) -> TempDir {
    let names: Vec<_> = (1..=metrics).map(|item| format!("acme.m{item:02}")).collect();
    let builder = Builder::named("old");
    let builder = names.iter().fold(builder, |builder, name| builder.metric(name, "u32 instant"));
    let (directory, _) = builder.row(0, names.iter().zip(1..=metrics)).finish().into_parts();
    let meta = directory.path().join("old.meta");
    let mut bytes = fs::read(&meta).unwrap();
    let names = bytes.windows(6).enumerate().filter(|(_, window)| *window == b"acme.m");
    for at in names.map(|(at, _)| at).collect::<Vec<_>>() {
        bytes[at + 6..at + 8].copy_from_slice(b"01");
    }
    fs::write(&meta, bytes).unwrap();
    directory
}

fn run(directory: &TempDir, command: &str, options: &[&str]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_mmv-archive"));
    let (old, new) = (directory.path().join("old"), directory.path().join("new"));
    let output = program.arg(command).arg(old).args(options).arg("-o").arg(&new).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(Archive::open(&new).unwrap().metadata().metrics().len(), 1);
    output
}

#[test]
fn skipped_metrics_are_a_warning() {
    let stderr = |metrics, command, options: &[&str]| {
        let output = run(&archive(metrics), command, options);
        String::from_utf8(output.stderr).unwrap()
    };
    let text = "mmv-archive: metrics without a name of their own are skipped: ";
    for command in ["convert", "extract"] {
        assert_eq!(stderr(1, command, &[]), "");
        assert_eq!(stderr(3, command, &[]), format!("{text}70.1.2, 70.1.3\n"));
        let many = stderr(14, command, &[]);
        assert!(many.ends_with(", 70.1.10, 70.1.11 and 3 more\n"), "{many}");
    }
    assert_eq!(stderr(3, "extract", &["acme.m01"]), "", "the others were not selected");
}

//! Archives in the current directory, named without a path.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use pcp_archive::{
    ArchiveWriter, FetchResult, MetricDesc, OwnedValue, Pmid, Semantics, Timestamp, Units,
    ValueSet, ValueType, WriterLabel, WriterOptions,
};
use tempfile::TempDir;

/// A directory with an archive `acme`.
fn archive() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let label = WriterLabel {
        pid: 1,
        hostname: "host".into(),
        timezone: "UTC".into(),
        zoneinfo: "".into(),
    };
    let base = directory.path().join("acme");
    let mut writer = ArchiveWriter::create(&base, label, WriterOptions::default()).unwrap();
    let desc = MetricDesc {
        pmid: Pmid::new(70, 1, 1).unwrap(),
        value_type: ValueType::U32,
        indom: None,
        semantics: Semantics::Instant,
        units: Units::count(),
    };
    writer.declare_metric(&desc, &["a.b"]).unwrap();
    let values = Ok(vec![(None, OwnedValue::U32(1))]);
    let value_sets = vec![ValueSet { pmid: desc.pmid, values }];
    let timestamp = Timestamp::new(1_700_000_000, 0).unwrap();
    writer.write_result(&FetchResult { timestamp, value_sets }).unwrap();
    writer.finish().unwrap();
    directory
}

fn run(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mmv-archive"));
    command.current_dir(directory).args(arguments).output().unwrap()
}

/// The files of a directory, sorted.
fn files(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort_unstable();
    names
}

#[test]
fn repair_and_reindex_in_the_current_directory_keep_their_files() {
    let whole = ["acme.0", "acme.index", "acme.meta"];
    for name in ["acme", "./acme", "acme.meta", ".", "acme.index"] {
        for command in [&["reindex"][..], &["repair", "--in-place"]] {
            let directory = archive();
            let arguments = [command, &[name]].concat();
            let output = run(directory.path(), &arguments);
            assert!(output.status.success(), "{arguments:?}: {output:?}");
            assert_eq!(files(directory.path()), whole, "{arguments:?}");
            let checked = run(directory.path(), &["check", "acme"]);
            assert!(checked.status.success(), "{arguments:?}: {checked:?}");
        }
    }
}

#[test]
fn an_extract_never_replaces_its_own_source() {
    let directory = archive();
    for (source, target) in [("acme", "acme"), ("./acme", "acme"), (".", "./acme")] {
        let output = run(directory.path(), &["extract", source, "-o", target, "--force"]);
        assert_eq!(output.status.code(), Some(74), "{source} {target}: {output:?}");
        assert!(run(directory.path(), &["check", "acme"]).status.success());
    }
}

#[test]
fn messages_have_the_paths_of_the_command_line() {
    let directory = archive();
    let output = run(directory.path(), &["extract", "acme", "-o", "acme"]);
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "mmv-archive: acme.meta: exists already, and is not overwritten\n"
    );
    let output = run(directory.path(), &["extract", "./acme", "-o", "./acme"]);
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "mmv-archive: ./acme.meta: exists already, and is not overwritten\n"
    );
}

//! Metrics all of whose names belong to others are left out of new archives,
//! and that is told.

#![cfg(feature = "cli")]

use std::fs;
use std::process::{Command, Output};

use mmv_archive::{
    Archive, ArchiveWriter, FetchResult, MetricDesc, OwnedValue, Pmid, Semantics, Timestamp, Units,
    ValueSet, ValueType, WriterLabel, WriterOptions,
};
use tempfile::TempDir;

/// So many metrics, all but the first of them under the first one's name.
fn archive(metrics: u32) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let base = directory.path().join("old");
    let label = WriterLabel {
        pid: 1,
        hostname: "host".to_owned(),
        timezone: "UTC".to_owned(),
        zoneinfo: String::new(),
    };
    let mut writer = ArchiveWriter::create(&base, label, WriterOptions::default()).unwrap();
    let mut value_sets = Vec::new();
    for item in 1..=metrics {
        let desc = MetricDesc {
            pmid: Pmid::new(70, 1, item).unwrap(),
            value_type: ValueType::U32,
            indom: None,
            semantics: Semantics::Instant,
            units: Units::count(),
        };
        writer.declare_metric(&desc, &[&format!("acme.m{item:02}")]).unwrap();
        let values = Ok(vec![(None, OwnedValue::U32(item))]);
        value_sets.push(ValueSet { pmid: desc.pmid, values });
    }
    let timestamp = Timestamp::new(1_700_000_000, 0).unwrap();
    writer.write_result(&FetchResult { timestamp, value_sets }).unwrap();
    writer.finish().unwrap();
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
fn metrics_that_go_missing_are_told() {
    let told = |metrics, command, options: &[&str]| {
        let output = run(&archive(metrics), command, options);
        String::from_utf8(output.stderr).unwrap()
    };
    let text = "mmv-archive: metrics without a name of their own are left out: ";
    for command in ["convert", "extract"] {
        assert_eq!(told(1, command, &[]), "");
        assert_eq!(told(3, command, &[]), format!("{text}70.1.2, 70.1.3\n"));
        let many = told(14, command, &[]);
        assert!(many.ends_with(", 70.1.10, 70.1.11 and 3 more\n"), "{many}");
    }
    assert_eq!(told(3, "extract", &["acme.m01"]), "", "nobody asked for the others");
}

//! Names that a name space of today could not have, in archives as old versions of PCP
//! and other programs wrote them: what can be read is copied, to the byte.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use pcp_archive::{
    ArchiveWriter, FetchResult, InDom, Instance, InstanceId, MetricDesc, OwnedValue, Pmid,
    Semantics, Timestamp, Units, ValueSet, ValueType, WriterLabel, WriterOptions,
};

use crate::harness::binaries;
use crate::harness::oracle::Oracle;
use crate::harness::scratch::Scratch;

/// The names that the writer is given; a test puts others of the same length in their
/// place.
const SINGLE: &str = "single";
const MANY: &str = "many.of.two";

/// An archive of a metric without instances and one of two instances, in whose metadata
/// some bytes are replaced by as many others.
fn archive(scratch: &Scratch, replaced: &[(&str, &[u8])]) -> PathBuf {
    let base = scratch.path().join("given");
    let label = WriterLabel {
        pid: 1,
        hostname: "host".into(),
        timezone: "UTC".into(),
        zoneinfo: String::new(),
    };
    let mut writer = ArchiveWriter::create(&base, label, WriterOptions::default()).unwrap();
    let indom = InDom::new(70, 1).unwrap();
    let id = |id| InstanceId::new(id).unwrap();
    let instances =
        [(2, "left"), (5, "right")].map(|(n, name)| Instance { id: id(n), name: name.into() });
    writer.declare_indom(indom, &instances).unwrap();
    let (single, many) = (Pmid::new(70, 1, 1).unwrap(), Pmid::new(70, 1, 2).unwrap());
    for (pmid, name, indom) in [(single, SINGLE, None), (many, MANY, Some(indom))] {
        let (value_type, semantics, units) = (ValueType::U32, Semantics::Instant, Units::count());
        let desc = MetricDesc { pmid, value_type, indom, semantics, units };
        writer.declare_metric(&desc, &[name]).unwrap();
    }
    for second in 0..4 {
        let value = |number: u32| OwnedValue::U32(number + second);
        let value_sets = vec![
            ValueSet { pmid: single, values: Ok(vec![(None, value(100))]) },
            ValueSet {
                pmid: many,
                values: Ok(vec![(Some(id(2)), value(200)), (Some(id(5)), value(300))]),
            },
        ];
        let timestamp = Timestamp::new(1_700_000_000 + i64::from(second), 0).unwrap();
        writer.write_result(&FetchResult { timestamp, value_sets }).unwrap();
    }
    writer.finish().unwrap();
    for (old, new) in replaced {
        replace(&base.with_extension("meta"), old.as_bytes(), new);
    }
    base
}

/// Replaces the only occurrence of some bytes.
fn replace(file: &Path, old: &[u8], new: &[u8]) {
    assert_eq!(old.len(), new.len());
    let mut bytes = fs::read(file).unwrap();
    let found: Vec<usize> = offsets(&bytes, old);
    let [at] = *found else { panic!("{} times {old:?}", found.len()) };
    bytes[at..at + new.len()].copy_from_slice(new);
    fs::write(file, bytes).unwrap();
}

fn offsets(bytes: &[u8], part: &[u8]) -> Vec<usize> {
    let windows = bytes.windows(part.len()).enumerate();
    windows.filter(|(_, window)| *window == part).map(|(at, _)| at).collect()
}

fn mmv_archive<S: AsRef<OsStr>>(arguments: &[S]) -> Output {
    Command::new(binaries::mmv_archive()).args(arguments).output().expect("start mmv-archive")
}

/// Runs `convert`, `extract` or `repair` of the archive into a new one.
#[track_caller]
fn copied(command: &str, base: &Path, options: &[&str]) -> PathBuf {
    let copy = base.with_file_name(command);
    let mut arguments = vec![OsStr::new(command), base.as_os_str()];
    arguments.extend([OsStr::new("--output"), copy.as_os_str()]);
    arguments.extend(options.iter().map(OsStr::new));
    let output = mmv_archive(&arguments);
    assert!(output.status.success(), "{command}: {output:?}");
    copy
}

/// What pminfo prints about all metrics, and pmdumplog about all records.
fn printed(oracle: &Oracle, base: &Path) -> [String; 2] {
    let info = oracle.run("pminfo", &[OsStr::new("-dmfT"), OsStr::new("-a"), base.as_os_str()]);
    [info, oracle.run("pmdumplog", &[OsStr::new("-dim"), base.as_os_str()])]
}

#[test]
fn names_that_begin_with_digits_are_copied_as_pmlogextract_copies_them() {
    let Some(oracle) = Oracle::find() else { return };
    let scratch = Scratch::new();
    let base = archive(&scratch, &[(SINGLE, b"40.4.6"), (MANY, b"7.8.9_1.abc")]);
    let theirs = scratch.path().join("theirs");
    oracle.run("pmlogextract", &[base.as_os_str(), theirs.as_os_str()]);
    let expected = printed(&oracle, &theirs);
    assert!(expected[0].contains("\n40.4.6 PMID: 70.1.1"), "{}", expected[0]);
    for command in ["convert", "extract", "repair"] {
        assert_eq!(printed(&oracle, &copied(command, &base, &[])), expected, "{command}");
    }
}

#[test]
fn a_name_that_is_a_leaf_and_a_branch_is_copied() {
    let Some(oracle) = Oracle::find() else { return };
    let scratch = Scratch::new();
    let base = archive(&scratch, &[(MANY, b"leaf.a.more"), (SINGLE, b"leaf.a")]);
    let theirs = scratch.path().join("theirs");
    oracle.run("pmlogextract", &[base.as_os_str(), theirs.as_os_str()]);
    assert_eq!(printed(&oracle, &copied("convert", &base, &[])), printed(&oracle, &theirs));
}

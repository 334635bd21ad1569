//! Several archives as one: `report` agrees with pmval, and `extract` with
//! pmlogextract.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use test_archives::Builder;

use crate::harness::archive_facts;
use crate::harness::binaries;
use crate::harness::corpus::Corpus;
use crate::harness::oracle::Oracle;
use crate::harness::scratch::Scratch;

/// Archives of one host that follow each other.
const FOUR: [&str; 4] = [
    "multi_v3-20150508.11.44",
    "multi_v3-20150508.11.46",
    "multi_v3-20150508.11.50",
    "multi_v3-20150508.11.57",
];

/// Two archives of version 2 of the same host, some members compressed.
const TWO: [&str; 2] = ["multi-xz-20150508.11.44", "multi-xz-20150508.11.50"];

/// Archives with marks, several volumes, errors, strings, compressed members. (Of
/// events pmlogextract does not keep the descriptors of the parameters.)
const ALONE: [&str; 10] = [
    "ok-mv-bar",
    "cputime",
    "gap",
    "markmerge",
    "mark-bug",
    "19970807.09.54",
    "20190628.06.31",
    "mmv-20250612",
    "kenj-pc-1",
    "late",
];

fn paths(corpus: &Corpus, names: &[&str]) -> Vec<PathBuf> {
    names.iter().map(|name| corpus.archive(name)).collect()
}

fn list(paths: &[PathBuf]) -> String {
    let names: Vec<_> = paths.iter().map(|path| path.to_str().expect("a UTF-8 path")).collect();
    names.join(",")
}

#[track_caller]
fn mmv_archive<S: AsRef<OsStr>>(arguments: &[S]) -> String {
    let output =
        Command::new(binaries::mmv_archive()).args(arguments).output().expect("start mmv-archive");
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaints}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Compares a counter every half minute over all archives: the times with a value, and the
/// values.
#[test]
fn a_counter_over_several_archives_matches_pmval() {
    let (Some(oracle), Some(corpus)) = (Oracle::find(), Corpus::find()) else { return };
    for names in [&FOUR[..], &TWO] {
        let archives = list(&paths(&corpus, names));
        let metric = "kernel.all.pswitch";
        let options = ["-r", "-f", "0", "-t", "30", "-Z", "UTC", "-a", &archives, metric];
        let theirs = pmval_values(&oracle, &options);
        let csv = mmv_archive(&[
            "report", &archives, metric, "-t", "30s", "--format", "csv", "-Z", "UTC",
        ]);
        let ours =
            csv.lines().skip(1).map(|line| line.splitn(3, ',').nth(2).expect("three columns"));
        let ours: Vec<Option<u64>> = ours.map(|value| value.parse().ok()).collect();
        assert!(theirs.iter().flatten().count() > 5 && theirs.contains(&None), "{theirs:?}");
        assert_eq!(ours, theirs, "{names:?}");
    }
}

fn pmval_values(oracle: &Oracle, arguments: &[&str]) -> Vec<Option<u64>> {
    let output = oracle.output("pmval", arguments);
    let text = String::from_utf8(output.stdout).expect("ASCII");
    let lines = text.lines().filter(|line| line.as_bytes().get(2) == Some(&b':'));
    lines.filter_map(|line| Some(line.split_once(' ')?.1.trim().parse().ok())).collect()
}

/// Extracts with our command into `out`. pmlogcheck finds nothing in it but the
/// descriptors that are wrong in the archives, too.
#[track_caller]
fn extracted(oracle: &Oracle, archives: &[PathBuf], out: &Path, options: &[&str]) {
    let archives = list(archives);
    let out_name = out.to_str().expect("a UTF-8 path");
    mmv_archive(&[&["extract", &archives, "-o", out_name], options].concat());
    let output = oracle.output("pmlogcheck", &["-w", out_name]);
    let found = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    let found: Vec<&str> = found.lines().filter(|line| !line.ends_with("in pmDesc")).collect();
    assert!(found.is_empty(), "pmlogcheck {archives}: {found:?}");
}

#[track_caller]
fn assert_same_records(oracle: &Oracle, ours: &Path, theirs: &Path, what: &str) {
    let (ours, theirs) = (records_of(oracle, ours), records_of(oracle, theirs));
    for (number, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
        assert_eq!(ours, theirs, "{what}: record {number}, ours left, pmlogextract's right");
    }
    assert_eq!(ours.len(), theirs.len(), "{what}: number of records");
}

/// Returns pmdumplog's account of each record; without the seconds since the archive's start,
/// which the two need not agree upon.
fn records_of(oracle: &Oracle, archive: &Path) -> Vec<String> {
    let options = ["-xxx", "-Z", "UTC", "-m", "-M", archive.to_str().expect("a UTF-8 path")];
    let printed = oracle.output("pmdumplog", &options).stdout;
    let printed = String::from_utf8_lossy(&printed).into_owned();
    let records = printed.split("\n\n").filter(|record| !record.trim().is_empty());
    records
        .map(|record| match (record.find(" ("), record.find(") ")) {
            (Some(from), Some(to)) if from < to => {
                format!("{}{}", &record[..from], &record[to + 1..])
            }
            _ => record.to_owned(),
        })
        .collect()
}

#[test]
fn extracts_have_the_records_that_pmlogextract_gives_them() {
    let (Some(oracle), Some(corpus)) = (Oracle::find(), Corpus::find()) else { return };
    let mut groups: Vec<Vec<PathBuf>> = ALONE.iter().map(|name| paths(&corpus, &[*name])).collect();
    groups.extend([paths(&corpus, &FOUR), paths(&corpus, &TWO)]);
    for archives in groups {
        let scratch = Scratch::new();
        let (ours, theirs) = (scratch.path().join("ours"), scratch.path().join("theirs"));
        extracted(&oracle, &archives, &ours, &[]);
        let mut arguments = vec![OsStr::new("-V"), OsStr::new("3")];
        arguments.extend(archives.iter().map(|path| path.as_os_str()));
        arguments.push(theirs.as_os_str());
        oracle.output("pmlogextract", &arguments);
        assert_same_records(&oracle, &ours, &theirs, &list(&archives));
    }
}

#[test]
fn window_of_some_metrics_is_that_of_pmlogextract() {
    let (Some(oracle), Some(corpus)) = (Oracle::find(), Corpus::find()) else { return };
    let scratch = Scratch::new();
    let (ours, theirs) = (scratch.path().join("ours"), scratch.path().join("theirs"));
    // One archive: of several, pmlogextract 6.0.3 leaves out all but the first.
    let archives = paths(&corpus, &FOUR[2..3]);
    let window = ["-S", "@2015-05-08 15:52:00", "-T", "@2015-05-08 15:56:00", "-Z", "UTC"];
    let metrics = ["kernel.all.load", "swap.free", "-i", "1 minute", "-i", "5 minute"];
    extracted(&oracle, &archives, &ours, &[&metrics[..], &window].concat());
    let config = scratch.path().join("config");
    std::fs::write(&config, "kernel.all.load [ \"1 minute\", \"5 minute\" ]\nswap.free\n").unwrap();
    let config = ["-V", "3", "-c", config.to_str().expect("a UTF-8 path")];
    let options = config.iter().chain(&window).map(OsStr::new);
    let names = archives.iter().chain([&theirs]).map(|path| path.as_os_str());
    oracle.run("pmlogextract", &options.chain(names).collect::<Vec<_>>());
    assert_same_records(&oracle, &ours, &theirs, "a window");
}

/// Volumes of many blocks are files of xz and zstd like any other: the programs of these
/// names and PCP's unpack them whole.
#[test]
fn compressed_volumes_are_read_by_other_programs() {
    let Some(oracle) = Oracle::find() else { return };
    let scratch = Scratch::new();
    let plain = scratch.path().join("plain");
    large_archive(&plain);
    let bytes = std::fs::read(plain.with_extension("0")).unwrap();
    assert!(bytes.len() > 4 << 20, "{} bytes", bytes.len());
    let before = archive_facts::of_pmdumplog(&oracle, &plain);
    for (compression, suffix) in [("xz", "xz"), ("zstd", "zst")] {
        let out = scratch.path().join(compression);
        mmv_archive(&[
            "convert",
            plain.to_str().unwrap(),
            "-o",
            out.to_str().unwrap(),
            "--compress",
            compression,
        ]);
        let volume = out.with_extension(format!("0.{suffix}"));
        for arguments in [["-t", "-q"], ["-d", "-c"]] {
            let mut program = Command::new(compression);
            let output = program.args(arguments).arg(&volume).output();
            let output = output.unwrap_or_else(|error| panic!("start {compression}: {error}"));
            assert!(output.status.success(), "{compression} {arguments:?}: {output:?}");
            assert!(arguments[0] == "-t" || output.stdout == bytes, "{compression}");
        }
        if compression == "xz" {
            // PCP 6.0.3 does not read zstd.
            let after = archive_facts::of_pmdumplog(&oracle, &out);
            assert_eq!(after.records, before.records);
            let list = Command::new("xz").args(["--list", "-vv"]).arg(&volume).output().unwrap();
            let list = String::from_utf8(list.stdout).unwrap();
            // The label, and blocks of up to 1 MB; all have both sizes in their headers.
            let with_sizes = list.lines().filter(|line| line.contains(" cu ")).count();
            assert!(with_sizes >= 6, "{list}");
        }
        let after = archive_facts::of_mmv_archive(&out);
        assert_eq!(after.records, before.records, "{compression}");
    }
}

fn large_archive(base: &Path) {
    let names: Vec<_> = (0..100).map(|n| format!("many.n{n}")).collect();
    let builder = names.iter().fold(Builder::of_host("host", base), |builder, name| {
        builder.metric(name, "u64 counter count")
    });
    builder
        .rows((0..1500).map(|second: u64| {
            let value = move |n: u64| n * 1000 + second * (n + 1) * 977;
            (second, names.iter().zip((0..).map(value)))
        }))
        .finish();
}

#[test]
fn converted_archives_match_in_every_compression() {
    let (Some(oracle), Some(corpus)) = (Oracle::find(), Corpus::find()) else { return };
    let scratch = Scratch::new();
    let archive = corpus.archive("ok-mv-bar");
    let before = archive_facts::of_pmdumplog(&oracle, &archive);
    for compression in ["none", "xz", "bzip2", "gzip", "zstd"] {
        let out = scratch.path().join(compression);
        let (archive, out_name) = (archive.to_str().unwrap(), out.to_str().unwrap());
        mmv_archive(&["convert", archive, "-o", out_name, "--compress", compression]);
        // PCP 6.0.3 does not read zstd.
        let after = match compression {
            "zstd" => archive_facts::of_mmv_archive(&out),
            _ => archive_facts::of_pmdumplog(&oracle, &out),
        };
        assert_eq!(after.label.version, 3);
        assert_eq!(after.metrics, before.metrics, "{compression}");
        assert_eq!(after.records, before.records, "{compression}");
    }
}

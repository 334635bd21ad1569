//! `mmv-archive info`, `metrics` and `report`, and `mmv-agent inspect`: their output
//! agrees with PCP's programs and with the corpus.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use pcp_archive::Timestamp;
use serde_json::Value;
use test_archives::Builder;

use crate::compliance;
use crate::harness::agent::Agent;
use crate::harness::archive_facts;
use crate::harness::binaries;
use crate::harness::corpus::Corpus;
use crate::harness::mmv_archive::printed_of;
use crate::harness::mmv_file::image;
use crate::harness::oracle::Oracle;
use crate::harness::scratch::Scratch;

#[test]
fn info_and_metrics_match_pmdumplog_in_json() {
    let Some(oracle) = Oracle::find() else { return };
    let scratch = Scratch::new();
    scratch.install_bytes(&image(9, 1, &[("requests", 42), ("errors", 1)]), "app");
    let archive = Agent::harvest(&scratch);
    let facts = archive_facts::of_pmdumplog(&oracle, &archive);
    let info: Value = serde_json::from_str(&printed_of(&archive, &["info", "--json"])).unwrap();
    let label = &facts.label;
    assert_eq!(info["host"], label.host);
    assert_eq!(info["version"], label.version);
    assert_eq!(info["pid"], label.pid);
    for (field, (seconds, nanos)) in [("start", label.start), ("end", label.end)] {
        let time: jiff::Timestamp = info[field].as_str().unwrap().parse().unwrap();
        let number = info[format!("{field}_seconds")].as_f64().unwrap();
        assert_eq!(time, jiff::Timestamp::new(seconds, nanos as i32).unwrap());
        assert!((number - seconds as f64 - f64::from(nanos) / 1e9).abs() < 1e-6, "{number}");
    }
    assert_eq!(info["records"], facts.records.len());
    assert_eq!(info["metrics"], facts.metrics.len());
    let printed = printed_of(&archive, &["metrics", "--json"]);
    for line in printed.lines() {
        let metric: Value = serde_json::from_str(line).unwrap();
        let known = &facts.metrics[metric["pmid"].as_str().unwrap()];
        assert!(known.names.contains(metric["metric"].as_str().unwrap()), "{line}");
        assert_eq!(metric["semantics"], known.semantics);
        assert_eq!(metric["units"], known.units);
    }
    assert_eq!(printed.lines().count(), facts.metrics.len());
}

#[test]
fn report_interpolates_counters_as_pmrep_does() {
    let Some(oracle) = Oracle::find() else { return };
    let scratch = Scratch::new();
    let archive = irregular_counters(&scratch);
    compliance::check(&oracle, &archive);
    let base = archive.to_str().unwrap();
    for metric in ["test.single", "test.many"] {
        let theirs = oracle
            .run("pmrep", &["-r", "-o", "csv", "-t", "0.35", "-Z", "UTC", "-a", base, metric]);
        let options = ["report", metric, "-t", "350ms", "--format", "csv"];
        let ours = printed_of(&archive, &options);
        assert_eq!(without_times(&ours), without_times(&theirs), "{metric}: ours left");
        assert!(theirs.lines().count() > 20, "{metric}: {theirs}");
    }
}

#[test]
fn inspect_accepts_the_good_files_of_the_corpus_alone() {
    let Some(corpus) = Corpus::find() else { return };
    let (sound, flawed, refused) = (0, 1, 65);
    for (path, what, verdict) in corpus.bad() {
        let allowed: &[i32] = match verdict.as_str() {
            "reject" | "not-ready" => &[refused],
            "skip-entry" => &[refused, flawed],
            _ => &[refused, flawed, sound],
        };
        let output = inspect(&path);
        let status = output.status.code().expect("not ended by a signal");
        assert!(allowed.contains(&status), "{} ({what}), {verdict}: {output:?}", path.display());
    }
    for (name, path, description) in corpus.good() {
        let output = inspect(&path);
        assert_ne!(output.status.code(), Some(refused), "{name}: {output:?}");
        let seen: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(seen["header"]["version"], description["version"], "{name}");
        assert_eq!(seen["header"]["flags"], description["flags"], "{name}");
        assert_eq!(seen["header"]["cluster"], description["cluster"], "{name}");
    }
}

fn inspect(file: &Path) -> Output {
    let mut command = Command::new(binaries::mmv_agent());
    command.args(["inspect", "--json"]).arg(file).output().expect("start mmv-agent")
}

/// Returns the rows of a CSV table without the header and the times, of which ours has two columns.
fn without_times(table: &str) -> Vec<&str> {
    let columns = if table.starts_with("Time,Seconds,") { 2 } else { 1 };
    let rows = table.lines().skip(1);
    rows.map(|row| row.splitn(columns + 1, ',').nth(columns).unwrap_or(row)).collect()
}

/// Writes an archive of a singular counter and one of two instances, logged at irregular times
/// over some ten seconds.
fn irregular_counters(scratch: &Scratch) -> PathBuf {
    let base = scratch.path().join("counters");
    let mut builder = Builder::of_host("host", &base)
        .metric("test.single", "u64 counter count")
        .metric("test.many", "u64 counter count")
        .in_domain("test.many", 2049)
        .numbered_instances("test.many", [(2, "left"), (5, "right")]);
    let mut nanoseconds = 1_700_000_000_123_456_789;
    for step in 0_u64..40 {
        let count = |factor: u64| factor * step * step + step;
        let values = [
            ("test.single", count(1000)),
            ("test.many[left]", count(7)),
            ("test.many[right]", count(123_456)),
        ];
        builder = builder.row_at(Timestamp::from_nanos(nanoseconds), values);
        nanoseconds += 50_000_000 + i128::from(step * 7_919 % 13) * 31_415_926;
    }
    builder.finish();
    base
}

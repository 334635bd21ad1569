//! A sender, with its archives.
#![allow(dead_code, reason = "each test needs a part of this")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use pcp_archive::Pmid;
use test_archives::Builder;

use super::receiver::{Receiver, Row};

/// Seconds since 1970 of the first record.
pub(crate) const START: i64 = 1_700_000_000;

pub(crate) struct Sent {
    pub(crate) place: tempfile::TempDir,
}

impl Sent {
    pub(crate) fn new(metrics: u32, records: i64) -> Self {
        Self::since(START, metrics, records)
    }

    pub(crate) fn since(start: i64, metrics: u32, records: i64) -> Self {
        let sent = Self { place: tempfile::tempdir().unwrap() };
        write_archive(&sent.archives().join("a"), metrics, start, records);
        sent
    }

    pub(crate) fn archives(&self) -> PathBuf {
        self.place.path().join("web1")
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.place.path().join("state")
    }

    fn command(&self, url: &str, options: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mmv-export"));
        command.args(["push", "--url", url, "--state"]).arg(self.state());
        command.arg(self.archives()).args(options).stdin(Stdio::null());
        command.env("PCP_TMP_DIR", self.place.path());
        command
    }

    pub(crate) fn push_to(&self, url: &str, options: &[&str]) -> Output {
        self.command(url, options).output().unwrap()
    }

    pub(crate) fn push(&self, receiver: &Receiver, options: &[&str]) -> Output {
        self.push_to(&receiver.url(), options)
    }

    pub(crate) fn start(&self, url: &str, options: &[&str]) -> Child {
        let mut command = self.command(url, options);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Returns the samples of a receiver that refuses nothing.
    pub(crate) fn expected(&self) -> Vec<Row> {
        let receiver = Receiver::start(|_, _| super::receiver::Reaction::Store);
        let state = self.place.path().join("other-state");
        let _ = std::fs::remove_dir_all(&state);
        let output = Command::new(env!("CARGO_BIN_EXE_mmv-export"))
            .args(["push", "--url", &receiver.url(), "--state"])
            .args([&state, &self.archives()])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", messages(&output));
        let mut rows = receiver.stored();
        rows.sort();
        rows
    }
}

/// Writes an archive: metric `n` of record `r` has the value `r * 1000 + n`.
pub(crate) fn write_archive(base: &Path, metrics: u32, start: i64, records: i64) {
    let names: Vec<_> = (0..metrics).map(|number| format!("mmv.shop.m{number}")).collect();
    let mut builder = Builder::of_host("web1.example.org", base);
    for (number, name) in (0..).zip(&names) {
        let pmid = Pmid::new(70, 1 + number / 1_000, number % 1_000).unwrap();
        builder = builder.metric_with(pmid, name, "u64 counter count");
    }
    for record in 0..records {
        let values = names.iter().zip(record * 1_000..);
        builder = builder.row(start - START + record * 10, values);
    }
    builder.finish();
}

pub(crate) fn messages(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub(crate) fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn set(mut rows: Vec<Row>) -> Vec<Row> {
    rows.sort();
    rows.dedup();
    rows
}

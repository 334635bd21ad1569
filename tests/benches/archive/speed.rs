//! `ci/bench archive`: the time of the commands and of the writer.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::Options;
use crate::contest::{Rival, head, hold, ratio, row};
use crate::made::Shape;
use crate::programs::Programs;

/// Limit on the ratio of times when the records are doubled.
const TWICE: f64 = 2.2;

struct Bench<'o> {
    options: &'o Options,
    programs: Programs,
    scratch: TempDir,
    base: PathBuf,
}

struct Work {
    title: &'static str,
    /// PCP's, with the arguments before the archive.
    peer: &'static [&'static str],
    ours: &'static [&'static str],
    after: &'static [&'static str],
    target: f64,
}

const DUMP: Work = Work {
    title: "dump -a to /dev/null",
    peer: &["pmdumplog", "-a"],
    ours: &["dump", "-a"],
    after: &[],
    target: 16.0,
};

const DUMP_TO_FILE: Work = Work { title: "dump -a to a file", target: 10.0, ..DUMP };

const CHECK: Work =
    Work { title: "check", peer: &["pmlogcheck"], ours: &["check"], after: &[], target: 16.0 };

/// PCP's program prints the time average alone.
const SUMMARY: Work =
    Work { title: "summary", peer: &["pmlogsummary"], ours: &["summary"], after: &[], target: 6.0 };

/// Both averages, minimum, maximum and count, which is what ours always prints.
const SUMMARY_ALL: Work =
    Work { title: "summary, all statistics", peer: &["pmlogsummary", "-a"], ..SUMMARY };

pub(crate) fn measure(options: &Options) -> Result<(), String> {
    let scratch = tempfile::tempdir().map_err(|error| error.to_string())?;
    let programs = Programs::find(scratch.path())?;
    let base = scratch.path().join("made");
    let bench = Bench { options, programs, scratch, base };
    let shape = &options.shape;
    shape.write(&bench.base).map_err(|error| error.to_string())?;
    println!(
        "{} metrics x {} records, {:.0} MB; medians of {} rounds; {} processors\n",
        shape.metrics,
        shape.records,
        size_of_archive(&bench.base) as f64 / 1e6,
        options.rounds,
        std::thread::available_parallelism().map_or(0, usize::from),
    );
    head();
    bench.work(&DUMP)?;
    bench.dump_to_file()?;
    bench.work(&CHECK)?;
    bench.work(&SUMMARY)?;
    bench.work(&SUMMARY_ALL)?;
    bench.extract()?;
    bench.reduce()?;
    bench.rewrite()?;
    bench.write()?;
    bench.twice()
}

impl Bench<'_> {
    fn wants(&self, title: &str) -> bool {
        title.contains(&self.options.only)
    }

    fn work(&self, work: &Work) -> Result<(), String> {
        if !self.wants(work.title) || !self.has(work.ours) {
            return Ok(());
        }
        let medians = hold(&self.rivals(work, &self.base), self.options.rounds)?;
        if let [peer, ours] = medians[..] {
            row(work.title, (work.peer[0], peer), ours, Some(work.target));
        }
        Ok(())
    }

    /// Returns whether our command exists; prints a row if it does not.
    fn has(&self, words: &[&str]) -> bool {
        let name = words.first().copied().unwrap_or_default();
        let there = self.programs.has(name);
        if !there {
            println!("| {name} | | | | | mmv-archive has no such command | |");
        }
        there
    }

    fn extract(&self) -> Result<(), String> {
        let title = "extract a third";
        if !self.wants(title) || !self.has(&["extract"]) {
            return Ok(());
        }
        let at = |name: &str| self.scratch.path().join(name);
        let (config, theirs, ours) = (at("config"), at("extracted"), at("extract"));
        fs::write(&config, "bench.a\n").map_err(|error| error.to_string())?;
        let peer = || {
            remove_archive(&theirs);
            Ok(self.programs.pcp("pmlogextract", &[Path::new("-c"), &config, &self.base, &theirs]))
        };
        let own = || {
            remove_archive(&ours);
            let mut command = self.programs.ours(&["extract"]);
            command.arg(&self.base).args(["bench.a", "-o"]).arg(&ours);
            Ok(command)
        };
        let rivals = [Rival::new("pmlogextract", peer), Rival::new("ours", own)];
        if let [peer, own] = hold(&rivals, self.options.rounds)?[..] {
            row(title, ("pmlogextract", peer), own, Some(2.0));
        }
        remove_archive(&theirs);
        remove_archive(&ours);
        Ok(())
    }

    fn reduce(&self) -> Result<(), String> {
        let title = "reduce to minutes";
        if !self.wants(title) || !self.has(&["reduce"]) {
            return Ok(());
        }
        let at = |name: &str| self.scratch.path().join(name);
        let (theirs, ours) = (at("theirs"), at("reduced"));
        let peer = || {
            remove_archive(&theirs);
            let interval = ["-A", "1min", "-t", "1min"].map(Path::new);
            let archives = [self.base.as_path(), theirs.as_path()];
            Ok(self.programs.pcp("pmlogreduce", &[&interval[..], &archives].concat()))
        };
        let own = || {
            remove_archive(&ours);
            let mut command = self.programs.ours(&["reduce", "-t", "1min"]);
            command.arg(&self.base).arg("-o").arg(&ours);
            Ok(command)
        };
        let rivals = [Rival::new("pmlogreduce", peer), Rival::new("ours", own)];
        if let [peer, own] = hold(&rivals, self.options.rounds)?[..] {
            row(title, ("pmlogreduce", peer), own, Some(30.0));
        }
        remove_archive(&theirs);
        remove_archive(&ours);
        Ok(())
    }

    fn rewrite(&self) -> Result<(), String> {
        let title = "convert --rules";
        if !self.wants(title) || !self.has(&["convert"]) {
            return Ok(());
        }
        let at = |name: &str| self.scratch.path().join(name);
        let (config, theirs, ours) = (at("rules"), at("theirs"), at("rewritten"));
        let rules = "metric 70.*.* { pmid -> 71.*.* }\nindom 70.* { indom -> 71.* }\n";
        fs::write(&config, rules).map_err(|error| error.to_string())?;
        let peer = || {
            remove_archive(&theirs);
            Ok(self.programs.pcp("pmlogrewrite", &[Path::new("-c"), &config, &self.base, &theirs]))
        };
        let own = || {
            remove_archive(&ours);
            let mut command = self.programs.ours(&["convert", "--rules"]);
            command.arg(&config).arg(&self.base).arg("-o").arg(&ours);
            Ok(command)
        };
        let rivals = [Rival::new("pmlogrewrite", peer), Rival::new("ours", own)];
        if let [peer, own] = hold(&rivals, self.options.rounds)?[..] {
            row(title, ("pmlogrewrite", peer), own, Some(20.0));
        }
        remove_archive(&theirs);
        remove_archive(&ours);
        Ok(())
    }

    fn rivals<'a>(&'a self, work: &'a Work, base: &'a Path) -> [Rival<'a>; 2] {
        let line = move |words: &[&str]| {
            let mut line: Vec<_> = words.iter().map(PathBuf::from).collect();
            line.push(base.to_owned());
            line.extend(work.after.iter().map(PathBuf::from));
            line
        };
        [
            Rival::new(work.peer[0], move || {
                Ok(self.programs.pcp(work.peer[0], &line(&work.peer[1..])))
            }),
            Rival::new("ours", move || Ok(self.programs.ours(&line(work.ours)))),
        ]
    }

    fn dump_to_file(&self) -> Result<(), String> {
        let work = &DUMP_TO_FILE;
        if !self.wants(work.title) {
            return Ok(());
        }
        let (theirs, ours) = (self.scratch.path().join("theirs"), self.scratch.path().join("ours"));
        let [peer, own] = self.rivals(work, &self.base);
        let medians = hold(&[peer.to(theirs.clone()), own.to(ours.clone())], self.options.rounds)?;
        if !is_same(&theirs, &ours)? {
            return Err("pmdumplog and dump print different text".to_owned());
        }
        for file in [theirs, ours] {
            // The remaining rows need the space.
            let _ = fs::remove_file(file);
        }
        if let [peer, ours] = medians[..] {
            row(work.title, (work.peer[0], peer), ours, Some(work.target));
        }
        Ok(())
    }

    fn write(&self) -> Result<(), String> {
        if !self.wants("write") {
            return Ok(());
        }
        let Shape { metrics, records, .. } = self.options.shape;
        let at = |name: &str| self.scratch.path().join(name);
        let exe = std::env::current_exe().map_err(|error| error.to_string())?;
        let line = |base: PathBuf, how: &str| {
            remove_archive(&base);
            [base, how.into(), metrics.to_string().into(), records.to_string().into()]
        };
        let import = |how| move || self.programs.c("write", &line(at("imported"), how));
        let own = |how| {
            let exe = &exe;
            move || {
                let mut command = std::process::Command::new(exe);
                command.arg("write").args(line(at("written"), how));
                Ok(command)
            }
        };
        let rivals = [
            Rival::new("text", import("text")),
            Rival::new("result", import("result")),
            Rival::new("values", own("result")),
            Rival::new("prepared", own("prepared")),
        ];
        let medians = hold(&rivals, self.options.rounds)?;
        if let [text, result, values, prepared] = medians[..] {
            let peers = [("libpcp_import, text", text), ("libpcp_import, pmResult", result)];
            for (peer, target) in peers.into_iter().zip([Some(30.0), None]) {
                row("write, any values", peer, values, None);
                row("write, prepared", peer, prepared, target);
            }
        }
        remove_archive(&at("imported"));
        remove_archive(&at("written"));
        Ok(())
    }

    fn twice(&self) -> Result<(), String> {
        let shape = self.options.shape;
        let double = self.scratch.path().join("double");
        let shape = Shape { records: shape.records * 2, ..shape };
        println!("\n| twice the records | once | twice | ratio | target |\n|---|---|---|---|---|");
        for work in [DUMP, CHECK, SUMMARY] {
            if !self.wants(work.title) || !self.has(work.ours) {
                continue;
            }
            if !double.with_extension("meta").exists() {
                shape.write(&double).map_err(|error| error.to_string())?;
            }
            let [_, once] = self.rivals(&work, &self.base);
            let [_, twice] = self.rivals(&work, &double);
            let medians = hold(&[once, twice], self.options.rounds)?;
            if let [once, twice] = medians[..] {
                let found = ratio(twice.wall, once.wall);
                println!(
                    "| {} | {:.1} ms | {:.1} ms | {found:.2} x | {TWICE} x {} |",
                    work.title,
                    once.wall.as_secs_f64() * 1e3,
                    twice.wall.as_secs_f64() * 1e3,
                    if found <= TWICE { "reached" } else { "MISSED" },
                );
            }
        }
        Ok(())
    }
}

fn files(base: &Path) -> [PathBuf; 3] {
    ["0", "meta", "index"].map(|extension| base.with_extension(extension))
}

fn size_of_archive(base: &Path) -> u64 {
    files(base).iter().map(|file| fs::metadata(file).map_or(0, |found| found.len())).sum()
}

pub(crate) fn remove_archive(base: &Path) {
    for file in files(base) {
        let _ = fs::remove_file(file);
    }
}

/// Compares two dumps from the index on. The descriptors in front of it come in the order of
/// PCP's hash table.
fn is_same(one: &Path, other: &Path) -> Result<bool, String> {
    let (mut one, mut other) = (Lines::from_index(one)?, Lines::from_index(other)?);
    loop {
        let (line, their_line) = (one.next()?, other.next()?);
        if line != their_line {
            return Ok(false);
        }
        if line.is_empty() {
            return Ok(true);
        }
    }
}

struct Lines {
    file: BufReader<File>,
    line: Vec<u8>,
}

impl Lines {
    fn from_index(path: &Path) -> Result<Self, String> {
        let file = File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let mut lines = Self { file: BufReader::with_capacity(1 << 20, file), line: Vec::new() };
        while !matches!(lines.next()?, [] | [b'T', b'e', b'm', b'p', ..]) {}
        Ok(lines)
    }

    /// Reads the next line; empty after the last.
    fn next(&mut self) -> Result<&[u8], String> {
        self.line.clear();
        self.file.read_until(b'\n', &mut self.line).map_err(|error| error.to_string())?;
        Ok(&self.line)
    }
}

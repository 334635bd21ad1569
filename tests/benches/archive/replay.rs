//! `ci/bench replay`: values between the records.

use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use crate::Options;
use crate::contest::{Medians, Rival, head, hold, ratio, row};
use crate::made::{self, Shape};
use crate::programs::Programs;

/// Limit on a ratio of times that should be one, on a busy machine.
const NOISE: f64 = 1.2;

struct Bench<'o> {
    options: &'o Options,
    programs: Programs,
    scratch: TempDir,
}

pub(crate) fn measure(options: &Options) -> Result<(), String> {
    let scratch = tempfile::tempdir().map_err(|error| error.to_string())?;
    let programs = Programs::find(scratch.path())?;
    let bench = Bench { options, programs, scratch };
    let made = bench.make("made", options.shape)?;
    println!(
        "{} metrics x {} records; medians of {} rounds; {} processors\n",
        options.shape.metrics,
        options.shape.records,
        options.rounds,
        std::thread::available_parallelism().map_or(0, usize::from),
    );
    head();
    bench.all_metrics(&made)?;
    bench.one_metric(&made)?;
    bench.sparse_samples()?;
    bench.opening()?;
    bench.compressed(&made)?;
    bench.fleeting()?;
    println!("\n| | one | other | ratio | target |\n|---|---|---|---|---|");
    bench.marks(&made)?;
    bench.growth(&made)
}

impl Bench<'_> {
    fn wants(&self, title: &str) -> bool {
        title.contains(&self.options.only)
    }

    fn make(&self, name: &str, shape: Shape) -> Result<PathBuf, String> {
        let base = self.scratch.path().join(name);
        shape.write_prepared(&base).map_err(|error| error.to_string())?;
        Ok(base)
    }

    /// Prepares `mmv-archive report` with raw values, in CSV, half a second off the records.
    fn report(&self, base: &PathBuf, metric: &str, step: &str, samples: u64) -> Command {
        let mut command = self.programs.ours(&["report"]);
        command.arg(base).args([metric, "-t", step, "-s", &samples.to_string()]);
        command.args(["-O", "500ms", "--no-rate", "--format", "csv"]);
        command
    }

    fn pmval(&self, base: &PathBuf, metric: &str, step: &str, samples: u64) -> Command {
        let mut command = self.programs.pcp("pmval", &["-r", "-O", "0.5", "-a"]);
        command.arg(base).args(["-t", step, "-s", &samples.to_string(), metric]);
        command
    }

    fn all_metrics(&self, base: &PathBuf) -> Result<(), String> {
        let title = "500 times, all metrics";
        if !self.wants(title) {
            return Ok(());
        }
        let (samples, step) = (500, self.options.shape.records / 500);
        let pmrep = || {
            let mut command = self.programs.pcp("pmrep", &["-r", "-o", "csv", "-O", "0.5", "-a"]);
            command.arg(base).args(["-t", &step.to_string(), "-s", &samples.to_string(), "bench"]);
            Ok(command)
        };
        let fetch = || {
            let mut command = self.programs.c("fetch", &[base])?;
            command.args(["bench", &(step * 1000).to_string(), &samples.to_string()]);
            Ok(command)
        };
        let ours = || Ok(self.report(base, "bench", &format!("{step}s"), samples));
        let rivals = [Rival::new("pmrep", pmrep), Rival::new("C", fetch), Rival::new("ours", ours)];
        if let [pmrep, fetch, ours] = hold(&rivals, self.options.rounds)?[..] {
            row(title, ("pmrep", pmrep), ours, Some(60.0));
            row(title, ("C, pmFetch", fetch), ours, None);
        }
        Ok(())
    }

    fn one_metric(&self, base: &PathBuf) -> Result<(), String> {
        let title = "13 500 times, one metric";
        if !self.wants(title) {
            return Ok(());
        }
        let samples = 13_500;
        let millis = self.options.shape.records * 1000 / samples;
        let pmval = || {
            let step = format!("{}", millis as f64 / 1e3);
            Ok(self.pmval(base, "bench.a.n0", &step, samples))
        };
        let ours = || Ok(self.report(base, "bench.a.n0", &format!("{millis}ms"), samples));
        let rivals = [Rival::new("pmval", pmval), Rival::new("ours", ours)];
        if let [pmval, ours] = hold(&rivals, self.options.rounds)?[..] {
            row(title, ("pmval", pmval), ours, Some(12.0));
        }
        Ok(())
    }

    fn sparse_samples(&self) -> Result<(), String> {
        let title = "20 samples 10 min apart, a day at 1 s";
        if !self.wants(title) {
            return Ok(());
        }
        // As large as the other archive.
        let day =
            self.make("day", Shape { metrics: 58, instances: 0, records: 86_400, marks: 0 })?;
        let rivals = [
            Rival::new("pmval", || Ok(self.pmval(&day, "bench.a.n0", "600", 20))),
            Rival::new("far apart", || Ok(self.report(&day, "bench.a.n0", "10min", 20))),
            Rival::new("close", || Ok(self.report(&day, "bench.a.n0", "1s", 20))),
        ];
        if let [pmval, far, close] = hold(&rivals, self.options.rounds)?[..] {
            row(title, ("pmval", pmval), far, Some(20.0));
            row(title, ("ours, 1 s apart", close), far, Some(1.0 / NOISE));
        }
        Ok(())
    }

    fn opening(&self) -> Result<(), String> {
        let title = "names of 20 000 metrics";
        if !self.wants(title) {
            return Ok(());
        }
        let wide =
            self.make("wide", Shape { metrics: 20_000, instances: 0, records: 2, marks: 0 })?;
        let pminfo = || {
            let mut command = self.programs.pcp("pminfo", &["-a"]);
            command.arg(&wide);
            Ok(command)
        };
        let ours = || {
            let mut command = self.programs.ours(&["metrics", "--names"]);
            command.arg(&wide);
            Ok(command)
        };
        let rivals = [Rival::new("pminfo", pminfo), Rival::new("ours", ours)];
        if let [pminfo, ours] = hold(&rivals, self.options.rounds)?[..] {
            row(title, ("pminfo", pminfo), ours, Some(5.0));
        }
        Ok(())
    }

    fn compressed(&self, base: &PathBuf) -> Result<(), String> {
        let title = "13 500 times, one metric, volumes in xz";
        if !self.wants(title) {
            return Ok(());
        }
        let small = self.scratch.path().join("xz");
        let mut convert = self.programs.ours(&["convert", "--no-progress", "--compress", "xz"]);
        convert.arg(base).args(["--volume-size", "16MB", "-o"]).arg(&small);
        let converted = convert.status().map_err(|error| error.to_string())?;
        if !converted.success() {
            return Err(format!("convert: {converted}"));
        }
        let millis = self.options.shape.records * 1000 / 13_500;
        let (step, seconds) = (format!("{millis}ms"), format!("{}", millis as f64 / 1e3));
        let files = (0..1000).map(|volume| self.scratch.path().join(format!("xz.{volume}.xz")));
        let files: Vec<PathBuf> = files.take_while(|file| file.is_file()).collect();
        let expand = || {
            let mut command = Command::new("xz");
            command.arg("-dc").args(&files);
            Ok(command)
        };
        let rivals = [
            Rival::new("pmval", || Ok(self.pmval(&small, "bench.a.n0", &seconds, 13_500))),
            Rival::new("xz", expand),
            Rival::new("ours", || Ok(self.report(&small, "bench.a.n0", &step, 13_500))),
        ];
        if let [pmval, expand, ours] = hold(&rivals, self.options.rounds)?[..] {
            row(title, ("pmval", pmval), ours, None);
            row(title, ("xz -dc alone", expand), ours, None);
        }
        Ok(())
    }

    fn fleeting(&self) -> Result<(), String> {
        let title = "500 times, 100 000 instances coming and going";
        if !self.wants(title) {
            return Ok(());
        }
        let base = self.scratch.path().join("fleeting");
        made::write_fleeting(&base, 1000, 100_000).map_err(|error| error.to_string())?;
        let fetch = || {
            let mut command = self.programs.c("fetch", &[&base])?;
            command.args(["bench", "390", "500"]);
            Ok(command)
        };
        let ours = || {
            let mut command = self.programs.ours(&["report"]);
            command.arg(&base).args(["bench", "-t", "390ms", "-s", "500", "-O", "500ms"]);
            command.args(["--no-rate", "--format", "jsonl"]);
            Ok(command)
        };
        let rivals = [Rival::new("C", fetch), Rival::new("ours", ours)];
        if let [fetch, ours] = hold(&rivals, self.options.rounds)?[..] {
            row(title, ("C, pmFetch", fetch), ours, None);
        }
        Ok(())
    }

    fn marks(&self, base: &PathBuf) -> Result<(), String> {
        if !self.wants("marks") {
            return Ok(());
        }
        let marked = self.make("marked", Shape { marks: 700, ..self.options.shape })?;
        let step = format!("{}s", self.options.shape.records / 500);
        let rivals = [
            Rival::new("plain", || Ok(self.report(base, "bench", &step, 500))),
            Rival::new("marked", || Ok(self.report(&marked, "bench", &step, 500))),
        ];
        self.compare("no marks, 700 marks", &rivals, NOISE)
    }

    fn growth(&self, base: &PathBuf) -> Result<(), String> {
        if !self.wants("samples x metrics") {
            return Ok(());
        }
        let step = format!("{}s", self.options.shape.records / 500);
        let report = |metric: &'static str, samples| {
            let step = &step;
            move || Ok(self.report(base, metric, step, samples))
        };
        let twice =
            [Rival::new("half", report("bench", 250)), Rival::new("all", report("bench", 500))];
        self.compare("samples x metrics: 250, 500 samples", &twice, 2.0 * NOISE)?;
        let thrice =
            [Rival::new("third", report("bench.a", 500)), Rival::new("all", report("bench", 500))];
        self.compare("samples x metrics: a third, all metrics", &thrice, 3.0 * NOISE)
    }

    /// Compares two commands of ours; the second may take at most `most` times the first.
    fn compare(&self, title: &str, rivals: &[Rival<'_>], most: f64) -> Result<(), String> {
        let millis = |medians: Medians| medians.wall.as_secs_f64() * 1e3;
        if let [one, other] = hold(rivals, self.options.rounds)?[..] {
            let found = ratio(other.wall, one.wall);
            let verdict = if found <= most { "reached" } else { "MISSED" };
            let (one, other) = (millis(one), millis(other));
            println!(
                "| {title} | {one:.1} ms | {other:.1} ms | {found:.2} x | {most:.1} x {verdict} |"
            );
        }
        Ok(())
    }
}

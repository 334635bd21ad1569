//! `ci/bench view`: the questions of a viewer about an archive of 1 GB, and a snapshot of it.
//!
//! Each question is a process of its own, which reports the processor time from the open
//! archive to the answer; the kernel reports its peak memory.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use pcp_archive::envelope::{Envelope, Envelopes, Grid, Options as Drawn};
use pcp_archive::scan::Selection;
use pcp_archive::{Archive, Source};

use crate::Options;
use crate::child::{self, Cost};
use crate::made::{Shape, VALUE};
use crate::packed::processor_time;
use crate::programs::Programs;

/// A question, its name in the table, and the goals: processor time and peak memory in MB.
const QUESTIONS: [(&str, &str, &str); 4] = [
    ("minutes", "10 metrics x 1000 columns, 10 minutes, from records", "4 ms"),
    ("whole", "10 metrics x 1000 columns, all, from records", "300 ms"),
    ("pyramid", "pyramid of all metrics, about 2048 columns", "1000 ms, 64 MB"),
    ("coarse", "10 metrics x 1000 columns, all, from the pyramid", "-"),
];

pub(crate) fn measure(options: &Options) -> Result<(), String> {
    let scratch = tempfile::tempdir().map_err(|error| error.to_string())?;
    let programs = Programs::find(scratch.path())?;
    let base = scratch.path().join("large");
    let metrics = options.shape.metrics;
    let records = 1_000_000_000 / (u64::from(metrics) * VALUE);
    let shape = Shape { records, ..options.shape };
    shape.write_prepared(&base).map_err(|error| error.to_string())?;
    println!("{metrics} metrics x {records} records, 1 GB; medians of {} rounds\n", options.rounds);
    println!("| work | CPU | peak memory | result | goal |\n|---|---|---|---|---|");
    for (question, title, goal) in QUESTIONS {
        if title.contains(&options.only) {
            ask(options.rounds, scratch.path(), &base, (question, title, goal))?;
        }
    }
    let title = "plot of one metric, all, as an image";
    if title.contains(&options.only) {
        let image = scratch.path().join("plot.svg");
        let words = ["plot".into(), base.clone(), "bench.a.n0".into(), "-o".into(), image.clone()];
        made(options.rounds, title, &image, "-", || programs.ours::<PathBuf>(&words))?;
    }
    let title = "snapshot of all metrics x 1000 columns";
    if title.contains(&options.only) {
        let page = scratch.path().join("page.html");
        let words = ["snapshot".into(), base.clone(), "-o".into(), page.clone()];
        made(options.rounds, title, &page, "5.2 MB", || programs.ours::<PathBuf>(&words))?;
    }
    Ok(())
}

fn ask(
    rounds: usize,
    scratch: &Path,
    base: &Path,
    (question, title, goal): (&str, &str, &str),
) -> Result<(), String> {
    let exe = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = scratch.join("answer");
    let (mut times, mut peaks, mut results) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds.max(1) {
        let mut command = Command::new(&exe);
        command.arg("draw").arg(base).arg(question);
        peaks.push(child::run(command, Some(&output))?.peak);
        let text = std::fs::read_to_string(&output).map_err(|error| error.to_string())?;
        let (micros, result) = text.split_once(' ').ok_or("the question has no answer")?;
        times.push(micros.parse::<u64>().map_err(|error| error.to_string())?);
        results.push(result.trim().to_owned());
    }
    times.sort_unstable();
    peaks.sort_unstable();
    println!(
        "| {title} | {:.1} ms | {:.1} MB | {} | {goal} |",
        times[times.len() / 2] as f64 / 1e3,
        peaks[peaks.len() / 2] as f64 / 1e6,
        results[0],
    );
    Ok(())
}

fn made(
    rounds: usize,
    title: &str,
    file: &Path,
    goal: &str,
    command: impl Fn() -> Command,
) -> Result<(), String> {
    let costs: Vec<Cost> =
        (0..rounds.max(1)).map(|_| child::run(command(), None)).collect::<Result<_, _>>()?;
    let mut times: Vec<Duration> = costs.iter().map(|cost| cost.cpu).collect();
    let mut peaks: Vec<u64> = costs.iter().map(|cost| cost.peak).collect();
    times.sort_unstable();
    peaks.sort_unstable();
    let bytes = std::fs::metadata(file).map_err(|error| error.to_string())?.len();
    println!(
        "| {title} | {:.0} ms | {:.1} MB | {:.2} MB | {goal} |",
        times[times.len() / 2].as_secs_f64() * 1e3,
        peaks[peaks.len() / 2] as f64 / 1e6,
        bytes as f64 / 1e6,
    );
    Ok(())
}

/// Runs this program as the viewer under measurement: `draw BASE QUESTION`. Prints microseconds
/// of processor time and the result.
pub(crate) fn draw(args: &[String]) -> Result<(), String> {
    let [base, question] = args else { return Err("draw BASE QUESTION".to_owned()) };
    let archive = Archive::open(base).map_err(|error| error.to_string())?;
    let (micros, result) = answer(&archive, question).map_err(|error| error.to_string())?;
    println!("{micros} {result}");
    Ok(())
}

fn answer(archive: &Archive, question: &str) -> Result<(u128, String), Box<dyn std::error::Error>> {
    let source = Source::from(archive);
    let mut ten = Selection::new(source);
    for metric in 0..10 {
        ten.select(&Shape::name(100 * metric));
    }
    let mut all = Selection::new(source);
    all.select("");
    let (start, end) = (source.start(), source.end());
    let minutes = Duration::from_secs(600);
    let middle = start.saturating_add(Duration::from_secs_f64(end.seconds_since(start) / 2.0));
    let whole = Grid::new(start..=end, 1000);
    let envelopes = Envelopes::new(Drawn::default());
    let build = || envelopes.extend(&all, &|| true);
    if question == "coarse" {
        build()?;
    }
    let begun = processor_time()?;
    let cells = |envelope: &Envelope| {
        let cells: usize = envelope.series.iter().map(|series| series.cells().count()).sum();
        format!("{cells} cells")
    };
    let result = match question {
        "minutes" => {
            let grid = Grid::new(middle..=middle.saturating_add(minutes), 1000);
            cells(&Envelope::read(&ten, grid, Drawn::default())?)
        }
        "whole" => cells(&Envelope::read(&ten, whole, Drawn::default())?),
        "pyramid" => {
            build()?;
            let finest = Grid::new(start..=end, Grid::MAX_COLUMNS);
            let answer = envelopes.coarse(&ten, &finest).ok_or("the pyramid is too large")?;
            let columns = answer.envelope.grid.columns();
            format!("{columns} columns, {:.1} MB", envelopes.bytes() as f64 / 1e6)
        }
        "coarse" => {
            let answer = envelopes.envelope(&ten, &whole, &|| true)?;
            cells(&answer.ok_or("nothing ended it")?.envelope)
        }
        other => return Err(format!("no such question: {other}").into()),
    };
    Ok((processor_time()?.saturating_sub(begun).as_micros(), result))
}

//! `ci/bench archive` and `ci/bench replay`: the commands of mmv-archive and
//! Performance Co-Pilot's programs on the same archives in one run. `ci/bench packed`: the
//! commands on plain archives and on compressed ones. `ci/bench view`: pictures of 1 GB.
//! `ci/bench why`: `explain` and `compare` on a day.
//!
//! The archives are made on the spot. Each program is a child process, and
//! rivals take turns, so that other load on the machine affects all alike; the
//! tables show medians of wall-clock time and where the output goes. Rivals with
//! the same output format must print the same bytes.
//!
//! Options: `--records N` (5000), `--metrics N` (1000), `--rounds N` (5),
//! `--only WORD` (rows whose name has it), `--large` (peak memory on 1 GB), `--archive BASE`
//! (for `packed`, any number of archives whose compression is measured).

mod child;
mod contest;
mod made;
mod memory;
mod packed;
mod programs;
mod random;
mod replay;
mod sampled;
mod speed;
mod view;
mod why;
mod workload;

use std::path::PathBuf;

use made::Shape;

#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) shape: Shape,
    pub(crate) rounds: usize,
    /// Part of the names of the rows wanted.
    pub(crate) only: String,
    large: bool,
    /// Further archives whose volume is compressed.
    pub(crate) archives: Vec<PathBuf>,
}

impl Options {
    fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            shape: Shape::default(),
            rounds: 5,
            only: String::new(),
            large: false,
            archives: Vec::new(),
        };
        while let Some(arg) = args.next() {
            if arg == "--large" {
                options.large = true;
                continue;
            }
            let value = args.next().ok_or_else(|| format!("{arg} needs a value"))?;
            let number = || value.parse().map_err(|error| format!("{arg}: {error}"));
            match arg.as_str() {
                "--records" => options.shape.records = number()?,
                "--metrics" => options.shape.metrics = number()? as u32,
                "--rounds" => options.rounds = number()? as usize,
                "--only" => options.only = value,
                "--archive" => options.archives.push(value.into()),
                _ => return Err(format!("unknown option {arg}")),
            }
        }
        Ok(options)
    }
}

fn run() -> Result<(), String> {
    // cargo passes `--bench` to every benchmark.
    let mut args = std::env::args().skip(1).filter(|arg| arg != "--bench");
    let what = args.next().unwrap_or_default();
    if what == "write" {
        return write(&args.collect::<Vec<_>>());
    }
    if what == "draw" {
        return view::draw(&args.collect::<Vec<_>>());
    }
    let options = Options::parse(args)?;
    match what.as_str() {
        "archive" if options.large => memory::measure(&options),
        "archive" => speed::measure(&options),
        "replay" => replay::measure(&options),
        "packed" => packed::measure(&options),
        "view" => view::measure(&options),
        "why" => why::measure(&options),
        _ => Err(format!("`{what}` is none of archive, replay, packed, view and why")),
    }
}

/// Runs this program as the writer under measurement: `write BASE HOW METRICS RECORDS`.
fn write(args: &[String]) -> Result<(), String> {
    let [base, how, metrics, records] = args else {
        return Err("write BASE result|prepared METRICS RECORDS".to_owned());
    };
    let shape = Shape {
        metrics: metrics.parse().map_err(|error| format!("{metrics}: {error}"))?,
        records: records.parse().map_err(|error| format!("{records}: {error}"))?,
        ..Shape::default()
    };
    let base = PathBuf::from(base);
    let written = if how == "prepared" { shape.write_prepared(&base) } else { shape.write(&base) };
    written.map_err(|error| error.to_string())
}

fn main() {
    if let Err(message) = run() {
        eprintln!("bench: {message}");
        std::process::exit(1);
    }
}

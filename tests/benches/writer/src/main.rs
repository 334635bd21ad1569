//! `ci/bench writer`: what counting costs, next to what others take for the same,
//! in one run.
//!
//! Rivals take turns, so that other load on the machine affects all alike; the
//! table shows medians. C code runs in a new process each time.
//!
//! Options: `--rounds N` (51), `--count N` operations of a run (100 000: about a
//! millisecond, so that most runs are over before another process gets the
//! processor), `--only WORD` (rows whose name has it).

mod bare;
mod c;
mod clock;
mod contest;
mod instances;
mod start;
mod together;
mod updates;

use c::Programs;
use contest::Options;

fn parse(mut args: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options { rounds: 51, count: 100_000, only: String::new() };
    while let Some(arg) = args.next() {
        let value = args.next().ok_or_else(|| format!("{arg} needs a value"))?;
        let number = || value.parse().map_err(|error| format!("{arg}: {error}"));
        match arg.as_str() {
            "--rounds" => options.rounds = number()? as usize,
            "--count" => options.count = number()?,
            "--only" => options.only = value,
            _ => return Err(format!("unknown option {arg}")),
        }
    }
    Ok(options)
}

fn run() -> Result<(), String> {
    let options = parse(std::env::args().skip(1))?;
    let programs = Programs::find()?;
    contest::head();
    updates::measure(&options, &programs)?;
    together::measure(&options)?;
    instances::measure(&options)?;
    start::measure(&options, &programs)
}

fn main() {
    if let Err(message) = run() {
        eprintln!("bench: {message}");
        std::process::exit(1);
    }
}

//! The length of what the usual commands print of an incident, without options beside the archive.
//!
//! `ci/bench length [PROGRAM]` prints the table, with what another `mmv-archive` prints beside it.

use std::env;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use crate::incident;

const WIDTH: usize = 80;

/// A command, and the most lines that it may print.
type Limit = (&'static [&'static str], usize);

/// The archive has 240 s of a program with two endpoints, five metrics and a histogram, and one
/// metric of the agent.
const COMMANDS: [Limit; 12] = [
    (&["info"], 30),
    (&["metrics"], 30),
    (&["events"], 10),
    (&["summary"], 30),
    (&["summary", "mmv.jobs.latency"], 10),
    (&["report"], 50),
    (&["report", "mmv.jobs"], 100),
    (&["report", "mmv.jobs.latency"], 50),
    (&["report", "mmv.jobs.requests"], 30),
    (&["plot"], 50),
    (&["plot", "mmv.jobs.latency"], 50),
    (&["plot", "mmv.jobs"], 100),
];

/// Returns the lines and the characters that a command of a program prints, and those of the longest
/// line.
fn measure(program: &Path, base: &Path, words: &[&str]) -> [usize; 3] {
    let mut command = Command::new(program);
    let (name, others) = words.split_first().unwrap();
    command.arg(name).arg(base).args(others);
    let width = WIDTH.to_string();
    let output = command.env("TZ", "UTC").env("COLUMNS", width).output().unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let widest = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    [text.lines().count(), text.chars().count(), widest]
}

#[test]
fn usual_commands_print_few_lines_that_fit_a_terminal() {
    let (_directory, base) = incident::jobs();
    let own = Path::new(env!("CARGO_BIN_EXE_mmv-archive"));
    let other = env::var_os("MMV_BEFORE");
    let mut table = format!("{:<28}{:>6}{:>12}{:>8}", "command", "lines", "characters", "widest");
    if other.is_some() {
        write!(table, "{:>20}{:>12}{:>8}", "lines of the other", "characters", "widest").unwrap();
    }
    table.push('\n');
    let mut too_long = Vec::new();
    for (words, most) in COMMANDS {
        let [lines, characters, widest] = measure(own, &base, words);
        let name = words.join(" ");
        write!(table, "{name:<28}{lines:>6}{characters:>12}{widest:>8}").unwrap();
        if let Some(other) = &other {
            let [lines, characters, widest] = measure(Path::new(other), &base, words);
            write!(table, "{lines:>20}{characters:>12}{widest:>8}").unwrap();
        }
        table.push('\n');
        // A line of `info` is the path of the archive.
        let is_wide = words[0] != "info" && widest > WIDTH;
        if lines > most || is_wide {
            too_long.push(name);
        }
    }
    println!("{table}");
    assert!(too_long.is_empty(), "{too_long:?} are too long:\n{table}");
}

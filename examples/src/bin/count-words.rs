//! A command-line tool: counts the words of files, and what it skipped, by reason.
//!
//! Usage: `count-words FILE...`; `mmv-agent record --interval 10ms -- count-words FILE...` keeps
//! its numbers, if it runs for longer than that.

use std::fs;
use std::io::ErrorKind;

use mmv_writer::{Counter, Family, Histogram, Labels, Registry, Units};

static FILES: Counter = Counter::new("files").units(Units::count());
static BYTES: Counter = Counter::new("bytes").units(Units::bytes());
static READING: Histogram = Histogram::new("reading").units(Units::microseconds());

#[derive(Labels, Clone, PartialEq, Eq, Hash)]
struct Reason {
    reason: &'static str,
}

fn count(path: &str, skipped: &Family<Reason>) -> usize {
    let text = match READING.time(|| fs::read_to_string(path)) {
        Ok(text) => text,
        Err(error) => {
            let reason = match error.kind() {
                ErrorKind::NotFound => "missing",
                ErrorKind::InvalidData => "binary",
                _ => "unreadable",
            };
            skipped.get(&Reason { reason }).inc();
            eprintln!("{path}: {error}");
            return 0;
        }
    };
    FILES.inc();
    BYTES.add(text.len() as u64);
    text.split_whitespace().count()
}

fn main() -> Result<(), mmv_writer::Error> {
    // A tool works without its numbers, too.
    let registry = Registry::builder("words").lenient().build()?;
    let skipped = registry.counter("skipped").units(Units::count()).build_family()?;
    for path in std::env::args().skip(1) {
        println!("{} {path}", count(&path, &skipped));
    }
    Ok(())
}

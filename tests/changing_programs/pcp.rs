//! Readings of the archives by PCP's programs.
//!
//! They show a number under its newest name, so they are asked only for programs whose numbers
//! follow from names. pmrep converts counters without a unit to rates, whatever its options, so
//! those of the programs have one.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::plan::{Kind, PROGRAMS};
use super::readers::Reading;
use super::run::Record;
use crate::harness::agent::find_bases;
use crate::harness::oracle::Oracle;

fn keeps_numbers(kind: Kind) -> bool {
    !matches!(kind, Kind::Numbered | Kind::InPlace)
}

/// Returns metrics that have the same numbers for names at all times: of each program the first
/// one with instances and all without, as each instance is a column.
fn metrics(raw: &Reading) -> BTreeSet<String> {
    let mut metrics = BTreeSet::new();
    for (name, _) in PROGRAMS.iter().filter(|(_, kind)| keeps_numbers(*kind)) {
        let prefix = format!("mmv.{name}.");
        let own = raw.samples.keys().filter(|(metric, _)| metric.starts_with(&prefix));
        metrics.extend(own.clone().next().map(|(metric, _)| metric.clone()));
        let singular = own.filter(|(_, instance)| instance.is_empty());
        metrics.extend(singular.map(|(metric, _)| metric.clone()));
    }
    metrics
}

/// Reads each record with `pmrep`; `None` where there is no PCP.
pub(super) fn pmrep(record: &Record, raw: &Reading) -> Option<Reading> {
    let oracle = Oracle::find()?;
    let mut reading = Reading::new("pmrep");
    for base in bases(record) {
        let archive = base.to_str().expect("UTF-8");
        for metric in metrics(raw) {
            let options = ["-u", "-r", "-o", "csv", "-f", "%s.%f", "-l", "\t", "-a", archive];
            let output = oracle.output("pmrep", &[&options[..], &[&metric]].concat());
            let text = String::from_utf8(output.stdout).expect("UTF-8");
            let mut lines = text.lines();
            let Some(head) = lines.next() else { continue };
            let names: Vec<&str> = head.split('\t').map(|name| name.trim_matches('"')).collect();
            for line in lines {
                let cells: Vec<&str> = line.split('\t').collect();
                let at = nanoseconds(cells[0]);
                for (name, cell) in names.iter().zip(&cells).skip(1) {
                    let Ok(value) = cell.parse() else { continue };
                    let (metric, instance) = name.split_once('-').unwrap_or((name, ""));
                    reading.add(metric, instance, at, value);
                }
            }
        }
    }
    Some(reading)
}

/// Reads each metric without instances, of each record, with `pmval`.
pub(super) fn pmval(record: &Record, raw: &Reading) -> Option<Reading> {
    const DAY: i64 = 86_400_000_000_000;
    let oracle = Oracle::find()?;
    let mut reading = Reading::new("pmval");
    for base in bases(record) {
        let archive = base.to_str().expect("UTF-8");
        let has_no_instances =
            |metric: &String| raw.samples.contains_key(&(metric.clone(), String::new()));
        for metric in metrics(raw).into_iter().filter(has_no_instances) {
            let output = oracle.output("pmval", &["-r", "-Z", "UTC", "-U", archive, &metric]);
            let text = String::from_utf8(output.stdout).expect("UTF-8");
            // After a head of lines that begin with a word.
            for line in text.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit())) {
                let mut words = line.split_whitespace();
                let time = words.next().expect("a time");
                let Some(value) = words.next().and_then(|word| word.parse().ok()) else { continue };
                let today = record.ended - record.ended % DAY + time_of_day(time);
                let at = if today > record.ended { today - DAY } else { today };
                reading.add(&metric, "", at, value);
            }
        }
    }
    Some(reading)
}

fn time_of_day(text: &str) -> i64 {
    let (time, millis) = text.split_once('.').expect("milliseconds");
    let mut seconds = 0;
    for part in time.split(':') {
        seconds = 60 * seconds + part.parse::<i64>().expect("a number");
    }
    1_000_000_000 * seconds + 1_000_000 * millis.parse::<i64>().expect("a number")
}

fn bases(record: &Record) -> Vec<PathBuf> {
    let mut bases = Vec::new();
    find_bases(&record.archives, &mut bases);
    bases.sort();
    bases
}

fn nanoseconds(text: &str) -> i64 {
    let (seconds, micros) = text.trim_matches('"').split_once('.').expect("a time");
    let seconds: i64 = seconds.parse().expect("seconds");
    1_000_000_000 * seconds + 1_000 * micros.parse::<i64>().expect("microseconds")
}

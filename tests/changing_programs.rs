//! Programs that change while they are sampled: whatever they counted is what every reader
//! says, at every time, under the right name.
//!
//! A seed makes the programs: threads, labelled families that grow by 1 to 1000 instances a
//! second, removed and re-created instances, the facade for `metrics`, several processes of one
//! application, versions with other metrics, restarts with another order of instances, SIGKILL,
//! and producers that number instances by their order, one of which rewrites its file in place.
//! In half of the runs the agent ends in the middle, and starts again.
//! Each writes down each change. Afterwards the archives are read through every reader, and
//! compared with what the programs wrote down: no value may be false, none may have another's
//! name, and each sample that is missing must be counted and shown.
//!
//! | | |
//! |---|---|
//! | `plan` | what happens in a run, by its seed |
//! | `program` | a program: what its threads do |
//! | `target`, `registries`, `foreign` | how it publishes metrics |
//! | `journal`, `log` | what a program wrote down; what follows from it |
//! | `run` | starts and ends the agent and the programs |
//! | `readers`, `servers`, `pcp` | what each reader says |
//! | `compare`, `server_checks`, `totals` | whether that is true |
//!
//! `MMV_SEED` repeats a run, as far as timing permits.

mod compare;
mod foreign;
mod journal;
mod log;
mod pcp;
mod plan;
mod program;
mod readers;
mod registries;
mod run;
mod server_checks;
mod servers;
mod target;
mod totals;

use std::panic::catch_unwind;
use std::thread;
use std::time::{Duration, Instant};

use compare::Complaints;
use plan::Plan;
use run::Record;

/// Runs of the short form, at the same time: they wait most of it.
const RUNS: u64 = 2;

fn seed_of_environment() -> Option<u64> {
    std::env::var("MMV_SEED").ok().map(|seed| seed.parse().expect("MMV_SEED is a number"))
}

#[test]
fn every_reader_says_what_changing_programs_counted() {
    if let Some(seed) = seed_of_environment() {
        judge(&run::run(Plan::short(seed), "short"));
        return;
    }
    let seed = journal::now().cast_unsigned() % 1_000_000;
    thread::scope(|scope| {
        for seed in seed..seed + RUNS {
            scope.spawn(move || judge(&run::run(Plan::short(seed), "short")));
        }
    });
}

fn judge(record: &Record) {
    let mut complaints = Complaints::default();
    let spells = readers::spells(record);
    let raw = readers::raw(record);
    let ticks = compare::Ticks::new(record, &raw);
    let mut scraped = servers::scraped(record);
    ticks.restore_times(&mut scraped);
    compare::check_values(record, &ticks, &scraped, &mut complaints);
    server_checks::check_histograms(&raw, &scraped, &mut complaints);
    server_checks::check_view(record, &servers::view(record), &raw, &mut complaints);
    totals::check_summary(record, &ticks, &raw, &mut complaints);
    totals::check_deltas(record, &ticks, &raw, &mut complaints);
    totals::check_gauges(record, &ticks, &raw, &readers::gauges(record), &mut complaints);
    totals::check_quantiles(record, &ticks, &raw, &mut complaints);
    for reading in [pcp::pmrep(record, &raw), pcp::pmval(record, &raw)] {
        let Some(mut reading) = reading else { continue };
        ticks.restore_times(&mut reading);
        compare::check_values(record, &ticks, &reading, &mut complaints);
        compare::check_metrics(&reading, &mut complaints);
    }
    let mut remote_read = servers::remote_read(record);
    ticks.restore_times(&mut remote_read);
    server_checks::remove_zeros(record, &raw, &mut remote_read, &mut complaints);
    server_checks::check_histograms(&raw, &remote_read, &mut complaints);
    for reading in [&raw, &readers::tables(record, &raw), &remote_read] {
        compare::check_values(record, &ticks, reading, &mut complaints);
        let figures = compare::check_presence(record, &ticks, reading, &spells, &mut complaints);
        compare::check_last_values(record, &ticks, reading, &mut complaints);
        compare::check_ticks(record, &ticks, reading, &mut complaints);
        println!(
            "MMV_SEED={}: {:?}: {}: {} values, {} missing samples of files, first samples after \
             {} ms at most",
            record.plan.seed,
            record.plan,
            reading.reader,
            reading.samples.values().map(Vec::len).sum::<usize>(),
            figures.missing,
            figures.latest / 1_000_000
        );
    }
    complaints.assert_none(record);
    compare::assert_finds_faults(record, &ticks, &raw);
}

#[test]
#[ignore = "takes an hour (MMV_CHANGING_MINUTES); ci/long runs it"]
fn every_reader_says_what_changing_programs_counted_for_an_hour() {
    if let Some(seed) = seed_of_environment() {
        judge(&run::run(Plan::long(seed), "long"));
        return;
    }
    let minutes = std::env::var("MMV_CHANGING_MINUTES").ok().and_then(|text| text.parse().ok());
    let end = Instant::now() + Duration::from_secs(60 * minutes.unwrap_or(60));
    let mut seed = journal::now().cast_unsigned() % 1_000_000;
    let mut failed = Vec::new();
    while Instant::now() < end {
        // Those that follow are of interest as well.
        if catch_unwind(|| judge(&run::run(Plan::long(seed), "long"))).is_err() {
            failed.push(seed);
        }
        seed += 1;
    }
    assert!(failed.is_empty(), "complaints, see above, of MMV_SEED={failed:?}");
}

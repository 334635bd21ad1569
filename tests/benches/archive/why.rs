//! `ci/bench why`: the cost of `explain` and `compare` on 5 million values and on a day of 1000
//! series, plain and compressed. PCP has no part in it.

use std::path::{Path, PathBuf};

use crate::Options;
use crate::child;
use crate::contest::{Rival, hold};
use crate::made::{Result, Shape};
use crate::programs::Programs;
use crate::random::Random;

const SERIES: u32 = 1_000;
/// Records of the archives, one a second: 5 million values, and a day.
const RECORDS: [u64; 2] = [5_000, DAY];
const DAY: u64 = 86_400;
/// Limits for `explain` on a day: seconds of wall-clock time, and bytes of peak memory.
const MAX_SECONDS: f64 = 2.0;
const MAX_MEMORY: u64 = 64 << 20;
/// Series whose load doubles in the incident, which lasts a hundredth of the archive.
const CONCERNED: u32 = 5;

/// Counters and gauges of a program.
struct Load {
    random: Random,
    /// The average of each series.
    levels: Vec<f64>,
    counts: Vec<u64>,
}

impl Load {
    fn new() -> Self {
        let mut random = Random::new(1);
        let mut levels = Vec::new();
        for _ in 0..SERIES {
            levels.push(10_f64.powf(4.0 * random.unit()));
        }
        Self { random, levels, counts: vec![0; SERIES as usize] }
    }

    /// Returns the value of a series in the next record, as the bits of its type: with a daily
    /// cycle, noise and an incident after 3/4 of the records.
    fn value(&mut self, series: u32, record: u64, records: u64) -> u64 {
        let place = series as usize;
        let time = record as f64 / DAY as f64;
        let phase = f64::from(series) / f64::from(SERIES);
        let mut level =
            self.levels[place] * (1.0 + 0.3 * (std::f64::consts::TAU * (time + phase)).sin());
        let incident = records / 4 * 3..records / 4 * 3 + records / 100;
        if series < CONCERNED && incident.contains(&record) {
            level *= 2.0;
        }
        if Shape::is_counter(series) {
            // The number of events in a second is about normal, with the rate as its variance.
            let events = level + level.sqrt() * self.random.normal();
            self.counts[place] += events.round().max(0.0) as u64;
            self.counts[place]
        } else {
            let value = level * (1.0 + 0.1 * self.random.normal());
            (value.round() as i64).cast_unsigned()
        }
    }
}

/// Writes an archive of programs.
fn write(base: &Path, records: u64) -> Result<()> {
    let shape = Shape { metrics: SERIES, instances: 0, records, marks: 0 };
    let mut load = Load::new();
    shape.write_prepared_values(base, |series, record| load.value(series, record, records))
}

/// Measures and prints everything that was asked for.
pub(crate) fn measure(options: &Options) -> std::result::Result<(), String> {
    let scratch = tempfile::tempdir().map_err(|error| error.to_string())?;
    let programs = Programs::find(scratch.path())?;
    println!(
        "{SERIES} series, one record a second; medians of {} rounds; {} processors\n",
        options.rounds,
        std::thread::available_parallelism().map_or(0, usize::from),
    );
    println!("| command | values | archive | wall | processor | values/s | peak memory | limits |");
    println!("|---|---|---|---|---|---|---|---|");
    for records in RECORDS {
        let plain = scratch.path().join(format!("plain{records}"));
        let packed = scratch.path().join(format!("zstd{records}"));
        write(&plain, records).map_err(|error| error.to_string())?;
        let convert: [&Path; 6] = [
            "convert".as_ref(),
            &plain,
            "--compress".as_ref(),
            "zstd".as_ref(),
            "--output".as_ref(),
            &packed,
        ];
        child::run(programs.ours(&convert), None)?;
        for (kind, base) in [("plain", &plain), ("zstd", &packed)] {
            measure_archive(options, &programs, base, (kind, records))?;
        }
    }
    Ok(())
}

/// Prints a row for each command: the second half of an archive against the first.
fn measure_archive(
    options: &Options,
    programs: &Programs,
    base: &Path,
    (kind, records): (&str, u64),
) -> std::result::Result<(), String> {
    let half = records / 2;
    let start = format!("{half}s");
    let parts = [format!("0s..{half}s"), format!("{half}s..{records}s")];
    let commands = [
        ("explain", vec!["-S", &start]),
        ("compare", vec!["--before", &parts[0], "--after", &parts[1]]),
    ];
    for (command, arguments) in commands {
        if !command.contains(&options.only) {
            continue;
        }
        let mut words: Vec<PathBuf> = vec![command.into(), base.to_owned()];
        words.extend(arguments.into_iter().map(PathBuf::from));
        let rival = Rival::new(command, || Ok(programs.ours(&words)));
        let medians = hold(&[rival], options.rounds)?;
        let Some(cost) = medians.first() else { continue };
        let seconds = cost.wall.as_secs_f64();
        let values = u64::from(SERIES) * records;
        let has_limits = command == "explain" && records == DAY;
        let limits = match has_limits {
            true if seconds < MAX_SECONDS && cost.peak < MAX_MEMORY => "kept",
            true => "EXCEEDED",
            false => "-",
        };
        println!(
            "| {command} | {:.1} M | {kind} | {seconds:.2} s | {:.2} s | {:.0} M | {:.1} MB | {limits} |",
            values as f64 / 1e6,
            cost.cpu.as_secs_f64(),
            values as f64 / seconds / 1e6,
            cost.peak as f64 / 1e6,
        );
    }
    Ok(())
}

//! `ci/bench archive --large`: the peak memory of each command on 1 GB.

use std::path::PathBuf;

use crate::Options;
use crate::child;
use crate::made::{Shape, VALUE};
use crate::programs::Programs;
use crate::speed::remove_archive;

/// Peak resident memory that a command may use, the page cache apart.
const LIMIT: u64 = 64 << 20;

pub(crate) fn measure(options: &Options) -> Result<(), String> {
    let scratch = tempfile::tempdir().map_err(|error| error.to_string())?;
    let programs = Programs::find(scratch.path())?;
    let (base, new) = (scratch.path().join("large"), scratch.path().join("new"));
    let metrics = options.shape.metrics;
    let records = 1_000_000_000 / (u64::from(metrics) * VALUE);
    let shape = Shape { records, ..options.shape };
    shape.write_prepared(&base).map_err(|error| error.to_string())?;
    println!("{metrics} metrics x {records} records, 1 GB\n");
    println!("| command | peak memory | limit | time |\n|---|---|---|---|");
    let half = records / 2;
    let compare = format!("compare ARCHIVE --before 0s..{half}s --after {half}s..{records}s");
    for line in [
        compare.as_str(),
        "explain ARCHIVE --last 4h",
        "info ARCHIVE",
        "metrics ARCHIVE",
        "dump -a ARCHIVE",
        "dump --json ARCHIVE",
        "check ARCHIVE",
        "repair ARCHIVE --index",
        "repair ARCHIVE --output NEW",
        "summary ARCHIVE",
        "extract ARCHIVE bench.a --output NEW",
        "convert ARCHIVE --output NEW",
        "report ARCHIVE bench.a.n0 --raw --format csv",
        "report ARCHIVE bench.a -t 60s --format csv",
    ] {
        let command = line.split(' ').next().unwrap_or_default();
        if !line.contains(&options.only) || !programs.has(command) {
            continue;
        }
        remove_archive(&new);
        let words = line.split(' ').map(|word| match word {
            "ARCHIVE" => base.clone(),
            "NEW" => new.clone(),
            word => PathBuf::from(word),
        });
        let cost = child::run(programs.ours(&words.collect::<Vec<_>>()), None)?;
        println!(
            "| {line} | {:.1} MB | {} MB {} | {:.2} s |",
            cost.peak as f64 / 1e6,
            LIMIT >> 20,
            if cost.peak < LIMIT { "kept" } else { "EXCEEDED" },
            cost.wall.as_secs_f64(),
        );
    }
    Ok(())
}

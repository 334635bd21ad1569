//! The worked examples of "Explaining Value Interpolation with PCP Archives"
//! (K. J. `McDonell`, 2024): archives written by the library, replayed by the
//! library and by PCP's own pmrep.
//!
//! Observations every 10 s from 10 s to 90 s; the archive goes on to 99 s with
//! another metric. PCP 6.0.3 follows an older rule for what is not a counter: the
//! earlier observation, not the nearer one. Where the two rules differ its
//! answer is not asked for.

use std::path::{Path, PathBuf};
use std::time::Duration;

use pcp_archive::Archive;
use pcp_archive::replay::Replay;
use test_archives::Builder;

use crate::harness::mmv_archive;
use crate::harness::oracle::Oracle;
use crate::harness::scratch::Scratch;

const COUNTER: [u32; 9] = [610, 720, 1020, 1020, 1020, 1050, 1100, 1200, 1210];
const LEVEL: [u32; 9] = [400, 880, 650, 1120, 1120, 940, 580, 1200, 850];

/// Writes the metrics of the paper, and the one that makes the archive longer.
fn archive(scratch: &Scratch) -> PathBuf {
    let rows = (1..).zip(COUNTER.into_iter().zip(LEVEL)).map(|(step, (count, level))| {
        let values = [
            ("paper.counter", count),
            ("paper.instant", level),
            ("paper.discrete", level),
            ("paper.clock", 0),
        ];
        (10 * step, values)
    });
    Builder::in_directory(scratch.path(), "paper")
        .metric("paper.counter", "u32 counter count")
        .metric("paper.instant", "u32 instant count")
        .metric("paper.discrete", "u32 discrete count")
        .metric("paper.clock", "u32 instant count")
        .row(0, [("paper.clock", 0)])
        .rows(rows)
        .row(99, [("paper.clock", 0)])
        .finish();
    scratch.path().join("paper")
}

/// Returns the library's answers every `step` seconds from the start.
fn ours(base: &Path, metric: &str, step: u64) -> Vec<Option<u32>> {
    let archive = Archive::open(base).unwrap();
    let mut selection = Replay::open(&archive);
    assert_eq!(selection.select(metric), 1);
    let replay = selection.load().unwrap();
    let window = replay.window(archive.label().start, archive.end(), Duration::from_secs(step));
    window
        .map(|sample| sample.values[0].first().map(|(_, value)| value.as_f64().unwrap() as u32))
        .collect()
}

fn theirs(oracle: &Oracle, base: &Path, metric: &str, step: u64) -> Vec<Option<u32>> {
    let (base, step) = (base.to_str().unwrap(), step.to_string());
    let arguments = ["-r", "-o", "csv", "-t", &step, "-Z", "UTC", "-a", base, metric];
    let table = oracle.run("pmrep", &arguments);
    let cells = table.lines().skip(1).map(|row| row.split_once(',').unwrap().1);
    cells.map(|cell| cell.parse().ok()).collect()
}

/// Returns `None` at each of `steps`, except for these values.
fn with(steps: usize, values: impl IntoIterator<Item = (usize, u32)>) -> Vec<Option<u32>> {
    let mut all = vec![None; steps];
    for (step, value) in values {
        all[step] = Some(value);
    }
    all
}

/// The rows of a window of two instants: a counter has one rate, from the first to the second;
/// another metric has its values at both.
#[test]
fn two_instants_mean_what_they_mean_for_pmval() {
    let scratch = Scratch::new();
    let base = archive(&scratch);
    let base = base.to_str().unwrap();
    // Times of day, all of which begin so, and values; the heads have no numbers at the end.
    let rows = |text: &str| -> Vec<(String, f64)> {
        text.lines()
            .filter_map(|line| {
                let (_, value) = line.trim().rsplit_once([' ', ','])?;
                let time = line.get(line.find("22:1")?..)?.get(..8)?;
                Some((time.to_owned(), value.parse().ok()?))
            })
            .collect()
    };
    let oracle = Oracle::find();
    for (window, metric, expected) in [
        (["10s", "10s", "10s"], "paper.counter", &[("22:13:40", 11.0)][..]),
        (["20s", "15s", "10s"], "paper.counter", &[("22:13:50", 30.0)]),
        (["20s", "40s", "40s"], "paper.counter", &[("22:14:20", 8.25)]),
        (["10s", "10s", "10s"], "paper.instant", &[("22:13:30", 400.0), ("22:13:40", 880.0)]),
        (["20s", "15s", "10s"], "paper.discrete", &[("22:13:40", 880.0), ("22:13:50", 650.0)]),
    ] {
        let expected: Vec<_> =
            expected.iter().map(|(at, value)| ((*at).to_owned(), *value)).collect();
        let [start, finish, step] = window;
        let options = ["-S", start, "-T", finish, "-t", step, "--rate", "--format", "csv"];
        let output = mmv_archive::run(&[&["report", base, metric], &options[..]].concat());
        let text = String::from_utf8(output.stdout).expect("text");
        assert_eq!(rows(&text), expected, "{window:?} {metric}: {text}");
        let Some(oracle) = &oracle else { continue };
        // The finish is relative to the start.
        let of_pcp = window.map(|length| length.replace('s', "sec"));
        let [start, finish, step] = of_pcp.each_ref().map(String::as_str);
        let options =
            ["-f", "3", "-Z", "UTC", "-S", start, "-T", finish, "-t", step, "-a", base, metric];
        let text = oracle.run("pmval", &options);
        let table: Vec<&str> = text.lines().filter(|line| line.starts_with("22:1")).collect();
        assert_eq!(rows(&table.join("\n")), expected, "{window:?} {metric}: {text}");
    }
}

/// At 25 s lies the middle of 720 at 20 s and 1020 at 30 s: 870. At 50 s an
/// observation. At 75 s the middle of 1100 and 1200: 1150.
#[test]
fn a_counter_replayed_every_25_seconds() {
    let scratch = Scratch::new();
    let base = archive(&scratch);
    let expected = with(4, [(1, 870), (2, 1020), (3, 1150)]);
    assert_eq!(ours(&base, "paper.counter", 25), expected);
    let Some(oracle) = Oracle::find() else { return };
    assert_eq!(theirs(&oracle, &base, "paper.counter", 25), expected);
}

/// From 610 to 720 a counter grows by 11 a second: 632 at 12 s, 665 at 15 s, 698
/// at 18 s. Before 10 s and after 90 s it has no value.
#[test]
fn a_counter_replayed_every_3_seconds() {
    let scratch = Scratch::new();
    let base = archive(&scratch);
    let found = ours(&base, "paper.counter", 3);
    assert_eq!(found.len(), 34);
    assert_eq!(found[3..9], [None, Some(632), Some(665), Some(698), Some(750), Some(840)]);
    assert_eq!(found[10..=14], [Some(1020); 5], "from 30 s to 42 s nothing is counted");
    assert_eq!(found[29..], [Some(1207), Some(1210), None, None, None]);
    let Some(oracle) = Oracle::find() else { return };
    assert_eq!(theirs(&oracle, &base, "paper.counter", 3), found);
}

#[test]
fn an_instantaneous_metric_replayed_every_15_seconds() {
    let scratch = Scratch::new();
    let base = archive(&scratch);
    let expected = with(7, [(1, 400), (2, 650), (3, 1120), (4, 940), (5, 580), (6, 850)]);
    assert_eq!(ours(&base, "paper.instant", 15), expected);
    let Some(oracle) = Oracle::find() else { return };
    assert_eq!(theirs(&oracle, &base, "paper.instant", 15), expected);
}

/// The nearer observation, and after 90 s the last one for ever: 850 at 92 s and
/// 96 s.
#[test]
fn a_discrete_metric_replayed_every_4_seconds() {
    let scratch = Scratch::new();
    let base = archive(&scratch);
    let found = ours(&base, "paper.discrete", 4);
    let nearest = |seconds: usize| LEVEL[((seconds + 4) / 10).clamp(1, 9) - 1];
    let expected: Vec<_> = (0..25).map(|step| (step >= 3).then(|| nearest(4 * step))).collect();
    assert_eq!(found, expected);
    assert_eq!(found[3..8].iter().flatten().collect::<Vec<_>>(), [&400, &880, &880, &880, &650]);
    assert_eq!(found[22..], [Some(850); 3], "88 s, and beyond the last observation");
    let Some(oracle) = Oracle::find() else { return };
    let older = theirs(&oracle, &base, "paper.discrete", 4);
    assert_eq!(older.len(), found.len());
    let mut agreed = 0;
    for (step, older) in older.into_iter().enumerate() {
        let earlier = (4 * step / 10).clamp(1, 9);
        if LEVEL[earlier - 1] == nearest(4 * step) {
            assert_eq!(older, found[step], "{} s", 4 * step);
            agreed += 1;
        }
    }
    assert!(agreed > 10, "only {agreed}");
}

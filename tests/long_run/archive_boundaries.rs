//! Checks of the boundaries between archives: where samples are missing, and what pmlogextract
//! makes of them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::agent_runs::Run;
use super::archives::{self, Entry, Volume};
use crate::harness::oracle::Oracle;

/// Returns the longest time between two records of a run without a mark between them, as the
/// agent has it; both in nanoseconds.
fn allowed(interval: u64) -> u64 {
    3 * interval + 1_000_000_000
}

/// Counts the samples that are surely missing between two that follow each other. They are due at
/// multiples of the interval. A sample may be late by almost an interval, and early by an eighth
/// of one, for a clock that drifts.
fn skipped(last: u64, next: u64, interval: u64) -> u64 {
    (next / interval).saturating_sub((last + interval / 8) / interval).saturating_sub(1)
}

/// Returns whether two samples belong to ticks of which one is late by more than an interval, as
/// after passes that were repeated: the tick before seemed to be missing.
fn is_late_tick(last: u64, next: u64, interval: u64) -> bool {
    (next + interval / 8) / interval == (last + interval / 8) / interval
}

#[test]
fn ticks_that_are_late_are_not_missing() {
    let ms = 1_000_000;
    let missing = |times: &[u64]| {
        let pairs = times.windows(2).map(|pair| (pair[0] * ms, pair[1] * ms));
        pairs
            .map(|(last, next)| {
                skipped(last, next, 50 * ms) as i64 - i64::from(is_late_tick(last, next, 50 * ms))
            })
            .sum::<i64>()
    };
    assert_eq!(missing(&[250, 386, 412, 414, 450]), 0);
    assert_eq!(missing(&[250, 386, 412, 450]), 1);
    assert_eq!(missing(&[250, 299, 350, 398, 449]), 0, "early");
}

#[derive(Debug)]
pub(super) struct Gaps<'r> {
    runs: &'r [Run],
    interval: u64,
    last: Option<(u64, usize, usize)>,
    marked: bool,
    /// The wide ones between an archive of a run and the next.
    between: Vec<(usize, String)>,
    /// Missing samples without a mark: run, the archive that begins there (0: none does), and
    /// their number. They are ticks that came too late, and no others, unless that archive has
    /// another prologue than the one before: then they are samples that could not be written
    /// there.
    unmarked: Vec<(usize, usize, i64)>,
    complaints: Vec<String>,
}

impl<'r> Gaps<'r> {
    /// Creates an empty list; `interval` in nanoseconds.
    pub(super) fn new(runs: &'r [Run], interval: u64) -> Self {
        let (unmarked, complaints) = (Vec::new(), Vec::new());
        Self { runs, interval, last: None, marked: false, between: vec![], unmarked, complaints }
    }

    pub(super) fn take(&mut self, entry: &Entry, archive: usize) {
        let Entry::Sample { timestamp, .. } = entry else {
            self.marked = true;
            return;
        };
        let run = self.runs.iter().position(|run| timestamp / 1000 <= run.ended).expect("a run");
        let is_marked = std::mem::take(&mut self.marked);
        let now = (*timestamp, run, archive);
        let Some((last, last_run, last_archive)) = self.last.replace(now) else { return };
        let what = format!("{timestamp} follows {last}");
        if *timestamp <= last {
            self.complaints.push(what);
        } else if run == last_run && !is_marked {
            let missing = skipped(last, *timestamp, self.interval) as i64
                - i64::from(is_late_tick(last, *timestamp, self.interval));
            let begins = archive != last_archive;
            self.unmarked.push((run, if begins { archive } else { 0 }, missing));
            if timestamp - last > allowed(self.interval) {
                if archive == last_archive {
                    self.complaints.push(format!("{what} without a mark"));
                } else {
                    self.between.push((archive, what));
                }
            }
        }
    }

    pub(super) fn finish(mut self, volumes: &[Volume]) -> Vec<String> {
        // Archives with different prologues are joined with a mark.
        let is_marked =
            |archive: usize| archive > 0 && volumes[archive - 1].server != volumes[archive].server;
        let mut missing_of: HashMap<usize, i64> = HashMap::new();
        for (run, _, missing) in self.unmarked.into_iter().filter(|(_, at, _)| !is_marked(*at)) {
            *missing_of.entry(run).or_default() += missing;
        }
        for (run, missing) in missing_of {
            let known = self.runs[run].missed().unwrap_or(u64::MAX);
            if u64::try_from(missing).is_ok_and(|missing| missing > known) {
                let what = format!("run {run} lacks {missing} samples, and knows of {known}");
                self.complaints.push(what);
            }
        }
        for (archive, what) in self.between {
            if volumes[archive - 1].server == volumes[archive].server {
                self.complaints.push(format!("{what}, in the next archive, with its prologue"));
            }
        }
        self.complaints
    }
}

pub(super) fn groups(volumes: &[Volume]) -> Vec<&[Volume]> {
    let mut groups = Vec::new();
    let mut start = 0;
    let mut known: HashMap<&str, &(pcp_archive::Pmid, String)> = HashMap::new();
    for (number, volume) in volumes.iter().enumerate() {
        if volume
            .metrics
            .iter()
            .any(|(name, metric)| known.get(name.as_str()).is_some_and(|k| *k != metric))
        {
            groups.push(&volumes[start..number]);
            start = number;
            known.clear();
        }
        known.extend(volume.metrics.iter().map(|(name, metric)| (name.as_str(), metric)));
    }
    groups.push(&volumes[start..]);
    groups
}

/// Has pmlogextract join archives: all records are in the result, and no mark but
/// theirs and those between archives with different prologues.
#[track_caller]
pub(super) fn join(
    oracle: &Oracle,
    directory: &Path,
    number: usize,
    volumes: &[Volume],
) -> PathBuf {
    let merged = directory.join(format!("merged{number}"));
    let paths = volumes.iter().map(|volume| &volume.base).chain([&merged]);
    oracle.run("pmlogextract", &paths.collect::<Vec<_>>());
    let result = archives::read(&merged, |_| ());
    let samples: usize = volumes.iter().map(|volume| volume.samples).sum();
    assert_eq!(result.samples, samples, "samples of {}", merged.display());
    let within: usize = volumes.iter().map(|volume| volume.marks).sum();
    let between = volumes.windows(2).filter(|pair| pair[0].server != pair[1].server).count();
    assert_eq!(result.marks, within + between, "marks of {}", merged.display());
    merged
}

/// Checks that each name has one PMID in all archives, and each PMID one name.
pub(super) fn agree(volumes: &[Volume]) -> Vec<String> {
    let (mut pmids, mut names) = (HashMap::new(), HashMap::new());
    let mut complaints = Vec::new();
    for (name, (pmid, _)) in volumes.iter().flat_map(|volume| &volume.metrics) {
        let other = *pmids.entry(name).or_insert(pmid);
        if other != pmid {
            complaints.push(format!("{name} is {other} and {pmid}"));
        }
        let other = *names.entry(pmid).or_insert(name);
        if other != name {
            complaints.push(format!("{pmid} is {other} and {name}"));
        }
    }
    complaints
}

#[test]
fn a_late_sample_is_not_a_missing_one() {
    for (last, next, missing) in
        [(10_001, 11_001, 0), (10_001, 11_999, 0), (11_999, 12_001, 0), (9_990, 11_001, 0)]
    {
        assert_eq!(skipped(last, next, 1_000), missing, "{last} {next}");
    }
    assert_eq!(skipped(10_001, 12_001, 1_000), 1);
    assert_eq!(skipped(10_001, 14_900, 1_000), 3);
}

//! What changed in a window of time, when, and what moved together.
//!
//! Input: the metrics of an archive in a window and a period before it. Output: [`ChangePoint`]s,
//! the largest and most certain first. They are not called causes.
//!
//! 1. The metrics are read once into 480 columns: the rates of counters, the means of gauges, and of
//!    a histogram its rate and the shares of values above five of its usual quantiles, or above the
//!    middle between those and much greater ones ([`tracks`]).
//! 2. The most significant [contrast](contrast) of each series is a change if it is significant. The
//!    false discovery rate over all series is controlled: at most five of a hundred quiet windows
//!    may have a change. A pattern that recurs is no change, but a [recurrence](Recurrence). In a series that changed, what is left without the change is searched again.
//! 3. The series that changed are read again around the beginning and the end of the change, with one
//!    column or more for each sample. An [onset](onset) is fitted, and the samples before and after it
//!    must differ in [distribution](distribution), which a few rare events do not; too few samples for
//!    that must be further from those before than these are from each other.
//! 4. Changes that begin together and whose columns are [correlated](correlation) form a group.

mod contrast;
mod correlation;
mod distribution;
mod grouping;
mod onset;
mod programs;
#[cfg(test)]
mod tests;
mod tracks;

use std::collections::BTreeSet;
use std::fmt;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;
use std::time::Duration;

use pcp_archive::salvage::Loss;
use pcp_archive::{Timestamp, Units};

use crate::Failure;
use crate::comparison::{ObservedRun, SeriesName, Statistic, count_discoveries};
use contrast::Contrast;
use distribution::{distance_significance, distribution_distance};
use grouping::order_by_group;
use onset::{Onset, fit_onset, fit_step};
use programs::unmeasured;
pub(crate) use programs::{
    RecordedEvent, UnmeasuredPeriod, read_events, read_resets, restart_loops,
};
pub(crate) use tracks::fill_before_appearance;
use tracks::{Subject, Track};

/// The columns of the window and of the time before it.
pub(crate) const COLUMNS: u32 = 480;
/// Least number of columns with a value; series with fewer are skipped.
pub(crate) const MIN_VALUES: usize = 16;
/// False discovery rate over all series of a window.
const MAX_FALSE: f64 = 0.02;
/// Limit on the series whose changes are refined.
const MAX_CANDIDATES: usize = 96;
/// Limit on the changes of a series.
const MAX_CHANGES_OF_SERIES: usize = 3;
/// Least number of samples that are read around the beginning of a change.
const MIN_SAMPLES: u32 = 512;
/// Limit on the samples that are read around the beginning of a change.
const MAX_SAMPLES: u32 = 4096;
/// Values by which two beginnings or ends in a series differ at least.
const MIN_APART: usize = 2;
/// Columns on each side of a beginning that are searched for its sample.
const SEARCHED_COLUMNS: f64 = 3.0;
/// Least number of samples on each side of a beginning that are searched.
const SEARCHED_SAMPLES: usize = 32;
/// Relative size below which a change is dropped.
const SAME: f64 = 0.05;
/// Limit on the probability that the samples before and after a change have one distribution.
const MAX_ALIKE: f64 = 1e-3;
/// Least part of an interval for a change to begin or end in it.
const MIN_PART: f64 = 0.2;
/// Least number of values in a change, and of those before it from which they may differ by their
/// distance alone.
pub(crate) const MIN_CHANGE: usize = 3;
const MIN_APART_BEFORE: usize = 3;
/// Least difference of the square roots of the events in such values and those expected.
const MIN_EVENTS_ROOT: f64 = 2.5;
/// Least number of columns from which the level before a change is computed.
const MIN_BEFORE: usize = 16;
/// Values near the level before, in excess of those near the level of a change, that end it.
const MIN_RETURNED: usize = 4;
/// Such values at the end of a series that end a change, too.
const MIN_RETURNED_AT_END: f64 = 2.0;
/// Number of events in a value below which values of 0 are frequent.
const MAX_SPARSE: f64 = 6.0;
/// Limit on the ratio of the levels of few events.
const MAX_SPARSE_RATIO: f64 = 20.0;
/// Limit on the evidence of a value of few events.
const MAX_SPARSE_EVIDENCE: f64 = 4.0;
/// Ramps of fewer columns are treated as steps.
const MIN_RAMP: f64 = 6.0;
/// Limit on the columns on each side of a change to which its shape is fitted.
const MAX_FITTED: usize = 128;

/// The number that changed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum ChangeKind {
    Statistic(Statistic),
    /// The starts of a program per second.
    Restarts,
}

impl fmt::Display for ChangeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Statistic(statistic) => statistic.fmt(f),
            Self::Restarts => f.write_str("restarts"),
        }
    }
}

/// A number whose level changed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ChangePoint {
    pub(crate) metric: String,
    pub(crate) instance: Option<Arc<str>>,
    pub(crate) kind: ChangeKind,
    pub(crate) units: Units,
    pub(crate) begin: Timestamp,
    /// The return to the level before; `None` if it goes on.
    pub(crate) end: Option<Timestamp>,
    /// The change is a ramp, not a step.
    pub(crate) is_gradual: bool,
    pub(crate) before: f64,
    pub(crate) during: f64,
    /// Contrast relative to the usual contrast of the series, times the relative size of the change.
    pub(crate) score: f64,
    /// Changes with the same number move together.
    pub(crate) group: usize,
    /// Seconds after the first change of the group.
    pub(crate) lag: f64,
}

impl ChangePoint {
    /// Returns the ratio of the number during the change to that before; `None` if that was 0.
    pub(crate) fn ratio(&self) -> Option<f64> {
        (self.before != 0.0).then(|| self.during / self.before)
    }

    fn size(&self) -> f64 {
        (self.during - self.before).abs()
    }

    /// Returns whether a change is one of the same number.
    pub(crate) fn is_of_series(&self, other: &Self) -> bool {
        (&self.metric, &self.instance, self.kind) == (&other.metric, &other.instance, other.kind)
    }

    /// Returns whether this is a change of a quantile below the median.
    fn is_below_median(&self) -> bool {
        matches!(self.kind, ChangeKind::Statistic(Statistic::Quantile(rank)) if rank < 0.5)
    }

    /// Returns whether a change is of the same series and time.
    fn overlaps(&self, other: &Self) -> bool {
        (&self.metric, &self.instance) == (&other.metric, &other.instance)
            && self.end.is_none_or(|end| other.begin < end)
            && other.end.is_none_or(|end| self.begin < end)
    }
}

/// Metrics whose values can be read at any resolution.
pub(crate) trait History {
    /// Reads the metrics of these names, or all, into columns.
    fn read(
        &self,
        range: RangeInclusive<Timestamp>,
        columns: u32,
        metrics: Option<&BTreeSet<String>>,
    ) -> Result<ObservedRun, Failure>;

    /// Returns whether anything was recorded after one time and before another.
    fn has_records(&self, after: Timestamp, before: Timestamp) -> Result<bool, Failure>;
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NewSeries {
    pub(crate) metric: String,
    pub(crate) instance: Arc<str>,
    pub(crate) time: Timestamp,
}

/// A number whose level changes again and again.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Recurrence {
    pub(crate) metric: String,
    pub(crate) instance: Option<Arc<str>>,
    pub(crate) kind: ChangeKind,
    /// The last change of level.
    pub(crate) last: Timestamp,
}

/// The changes in a window, and what could not be compared.
#[derive(Debug, Default)]
pub(crate) struct Explanation {
    /// In the order of groups, the largest change first; in each group likewise.
    pub(crate) changes: Vec<ChangePoint>,
    /// The clearest first, one of a metric and instance; none of a series with a change.
    pub(crate) recurring: Vec<Recurrence>,
    /// In the order of time.
    pub(crate) appeared: Vec<NewSeries>,
    /// In the order of time.
    pub(crate) unmeasured: Vec<UnmeasuredPeriod>,
    /// The places in the selection of counters that may have fallen.
    pub(crate) interrupted: BTreeSet<usize>,
    /// The damaged parts of the archives, which were read past.
    pub(crate) lost: Vec<Loss>,
    /// The number of series that were examined.
    pub(crate) series: usize,
    /// The number of values of the series with the most.
    pub(crate) samples: usize,
}

/// The columns of a range of time.
#[derive(Debug, Clone)]
struct TimeColumns {
    range: RangeInclusive<Timestamp>,
    columns: u32,
}

impl TimeColumns {
    fn nanos(&self) -> i128 {
        self.range.end().nanos_since(*self.range.start()).max(1)
    }

    fn width(&self) -> f64 {
        self.nanos() as f64 / f64::from(self.columns)
    }

    /// Returns the time at which a column begins, also of a part of one.
    fn time(&self, column: f64) -> Timestamp {
        let nanos = (column * self.width()) as i128;
        Timestamp::from_nanos(self.range.start().as_nanos().saturating_add(nanos))
    }

    /// Returns the column of a time, which may be before or after all.
    fn column(&self, time: Timestamp) -> f64 {
        time.nanos_since(*self.range.start()) as f64 / self.width()
    }
}

#[derive(Debug, Clone)]
struct Candidate {
    subject: Subject,
    track: Track,
    contrast: Contrast,
    /// Columns; the end is the number of columns if the change goes on.
    begin: f64,
    end: usize,
    /// The column up to which the level is that of this change: its end, or the beginning of the
    /// next change of the series if that is earlier.
    level_end: usize,
    /// The column in which the next change of the series begins after its end.
    next_begin: usize,
    /// The column in which the level before the change began, by another change of the series.
    level_before: usize,
    is_gradual: bool,
}

/// A change whose beginning is known in samples.
#[derive(Debug)]
struct BegunChange {
    candidate: Candidate,
    begin: Timestamp,
    /// The end of the first sample that is certainly in it.
    level_begin: Timestamp,
    /// The end of the last sample that is certainly before it.
    before_end: Timestamp,
}

/// The end of a change in samples.
#[derive(Debug, Clone, Copy)]
struct SampledEnd {
    end: Timestamp,
    /// The end of the last sample that is certainly in it.
    level_end: Timestamp,
}

impl Candidate {
    /// Returns the ranges of values before and during a gradual change.
    fn compared_values(&self) -> Option<(Range<usize>, Range<usize>)> {
        let columns = &self.track.columns;
        let begin = columns.partition_point(|column| f64::from(*column) < self.begin);
        let end = columns.partition_point(|column| (*column as usize) < self.level_end);
        let length = (2 * self.contrast.width).max(MIN_BEFORE);
        let middle = begin + end.checked_sub(begin)?.min(length) / 2;
        Some((begin.saturating_sub(length)..begin, middle..end))
    }

    /// Returns the columns of the level before the change, which ends at a column.
    fn columns_before(&self, end: usize) -> Range<usize> {
        let values = (2 * self.contrast.width).max(MIN_BEFORE);
        let place = self.track.place(end).saturating_sub(values);
        let first = self.track.columns.get(place).map_or(0, |column| *column as usize);
        first.max(self.level_before).min(end.saturating_sub(1))..end
    }
}

/// Separates the changes of a series: the level of each ends where the next one begins, and the
/// level before it begins with the change before.
fn separate(changes: &mut [Candidate], track: &Track) {
    let places = |change: &Candidate| (track.place(change.begin as usize), track.place(change.end));
    let all: Vec<(usize, usize)> = changes.iter().map(places).collect();
    let column_of = |place: usize| track.columns.get(place).map_or(0, |column| *column as usize);
    for (own, change) in changes.iter_mut().enumerate() {
        let Some((begin, end)) = all.get(own).copied() else { continue };
        for (other, (other_begin, other_end)) in all.iter().copied().enumerate() {
            if other == own {
                continue;
            }
            for boundary in [other_begin, other_end] {
                if boundary + MIN_APART <= begin {
                    change.level_before = change.level_before.max(column_of(boundary));
                }
            }
            if end + MIN_APART <= other_begin {
                change.next_begin = change.next_begin.min(column_of(other_begin));
            }
            if begin + MIN_APART <= other_begin && other_begin < end {
                change.level_end = change.level_end.min(column_of(other_begin));
                if end < other_end + MIN_APART {
                    change.end = change.end.min(column_of(other_begin));
                }
            }
        }
    }
}

/// Finds what changed in a window. `range` is the window with the time before it, `loops` are
/// changes that are known from events.
pub(crate) fn explain(
    history: &impl History,
    range: RangeInclusive<Timestamp>,
    window_start: Timestamp,
    loops: Vec<ChangePoint>,
) -> Result<Explanation, Failure> {
    let mut run = history.read(range.clone(), COLUMNS, None)?;
    let grid = TimeColumns { range, columns: COLUMNS };
    let first = grid.column(window_start).ceil().max(0.0) as usize;
    let mut appeared = Vec::new();
    for appearance in fill_before_appearance(&mut run) {
        if appearance.column >= first.max(1)
            && let (metric, Some(instance)) = appearance.name
        {
            let time = grid.time(appearance.column as f64);
            appeared.push(NewSeries { metric, instance, time });
        }
    }
    appeared.sort_by_key(|appeared| appeared.time);
    let unmeasured = unmeasured(history, &run, &grid, window_start)?;
    let CandidateSearch { candidates, recurring, series, samples } = find_candidates(&run, first);
    let lost = std::mem::take(&mut run.lost);
    let interrupted = std::mem::take(&mut run.interrupted);
    let mut changes: Vec<(ChangePoint, Track)> = Vec::new();
    changes.extend(loops.into_iter().map(|change| (change, Track::default())));
    changes.extend(refine(history, &run, &grid, candidates)?);
    let changes = order_by_group(changes, &grid);
    let recurring = distinct_recurrences(recurring, &changes, &grid);
    Ok(Explanation { changes, recurring, appeared, unmeasured, interrupted, lost, series, samples })
}

/// The significant changes of all series.
struct CandidateSearch {
    candidates: Vec<Candidate>,
    /// Series with a pattern that recurs, by significance.
    recurring: Vec<RecurringSeries>,
    /// The number of series, and of the values of the one with the most.
    series: usize,
    samples: usize,
}

struct RecurringSeries {
    subject: Subject,
    contrast: Contrast,
    /// The column of the contrast.
    column: u32,
}

/// Returns the significant changes.
fn find_candidates(run: &ObservedRun, first: usize) -> CandidateSearch {
    let mut found = Vec::new();
    let mut recurring = Vec::new();
    let mut series = 0;
    let mut samples = 0;
    for subject in Subject::all(run, first) {
        let track = subject.track(run);
        if track.values.len() < MIN_VALUES {
            continue;
        }
        series += 1;
        samples = samples.max(track.values.len());
        let strongest = track.strongest_contrasts(first);
        if let Some(contrast) = strongest.recurrence
            && let Some(column) = track.columns.get(contrast.place).copied()
        {
            recurring.push(RecurringSeries { subject: subject.clone(), contrast, column });
        }
        found.extend(strongest.change.map(|contrast| (subject, contrast)));
    }
    found.sort_by(|(_, one), (_, other)| one.significance.total_cmp(&other.significance));
    let significances: Vec<f64> = found.iter().map(|(_, contrast)| contrast.significance).collect();
    let discoveries = count_discoveries(&significances, series, MAX_FALSE);
    let limit = MAX_FALSE * discoveries as f64 / series.max(1) as f64;
    found.truncate(discoveries.min(MAX_CANDIDATES));
    let mut candidates = Vec::new();
    for (subject, contrast) in found {
        let track = subject.track(run);
        candidates.extend(changes_of_series(&subject, track, contrast, first, limit));
    }
    candidates.retain(|candidate| candidate.begin >= first.saturating_sub(2) as f64);
    recurring
        .sort_by(|one, other| one.contrast.significance.total_cmp(&other.contrast.significance));
    let significances: Vec<f64> = recurring.iter().map(|own| own.contrast.significance).collect();
    recurring.truncate(count_discoveries(&significances, series, MAX_FALSE));
    CandidateSearch { candidates, recurring, series, samples }
}

/// Returns the recurrences of series without a change, the clearest of each metric and instance.
fn distinct_recurrences(
    mut recurring: Vec<RecurringSeries>,
    changes: &[ChangePoint],
    grid: &TimeColumns,
) -> Vec<Recurrence> {
    let mut seen: BTreeSet<SeriesName> = BTreeSet::new();
    seen.extend(changes.iter().map(|change| (change.metric.clone(), change.instance.clone())));
    recurring.sort_by(|one, other| other.contrast.score.total_cmp(&one.contrast.score));
    let mut all = Vec::new();
    for RecurringSeries { subject, column, .. } in recurring {
        if !seen.insert(subject.name.clone()) {
            continue;
        }
        let (metric, instance) = subject.name;
        let last = grid.time(f64::from(column));
        let kind = ChangeKind::Statistic(subject.statistic);
        all.push(Recurrence { metric, instance, kind, last });
    }
    all
}

/// Returns a change of a series, and further ones in what is left without it, with a significance up
/// to `limit`.
fn changes_of_series(
    subject: &Subject,
    mut track: Track,
    mut contrast: Contrast,
    first: usize,
    limit: f64,
) -> Vec<Candidate> {
    let whole = track.clone();
    let mut all = Vec::new();
    loop {
        let candidate = shape(subject.clone(), track.clone(), contrast);
        // The column before may be one in which it began.
        let begin = track.place((candidate.begin as usize).saturating_sub(1));
        let end = track.place(candidate.end);
        let within = change_within(&candidate, limit);
        all.push(candidate);
        if all.len() < MAX_CHANGES_OF_SERIES {
            all.extend(within);
        }
        if all.len() == MAX_CHANGES_OF_SERIES || end <= begin {
            break;
        }
        track.remove(begin..end);
        if track.values.len() < MIN_VALUES {
            break;
        }
        match track.strongest_contrasts(first).change {
            // At the place of the former change it is what that has left.
            Some(next)
                if next.significance <= limit && next.place.abs_diff(begin) > next.width / 2 =>
            {
                contrast = next;
            }
            _ => break,
        }
    }
    separate(&mut all, &whole);
    all
}

/// Returns a further step of a series while it is changed, with a significance up to `limit`.
fn change_within(candidate: &Candidate, limit: f64) -> Option<Candidate> {
    let Candidate { subject, track, begin, end, is_gradual, .. } = candidate;
    if *is_gradual {
        return None;
    }
    let mut since = track.clone();
    let begin = since.place(*begin as usize);
    since.remove(0..begin);
    let mut changed = since.clone();
    changed.remove(since.place(*end)..since.values.len());
    if changed.values.len() < MIN_VALUES {
        return None;
    }
    let contrast =
        changed.strongest_contrasts(0).change.filter(|found| found.significance <= limit)?;
    Some(shape(subject.clone(), since, contrast))
}

/// Finds beginning and end of a change in columns.
fn shape(subject: Subject, track: Track, contrast: Contrast) -> Candidate {
    let values = &track.values;
    let Contrast { place, width, .. } = contrast;
    let end = return_to_before(&track, place, width);
    let fitted_first = contrast.first.saturating_sub((2 * width).clamp(MIN_BEFORE, MAX_FITTED));
    let fitted_after = (place + (2 * width).clamp(MIN_BEFORE, MAX_FITTED)).min(end);
    let fitted = values.get(fitted_first..fitted_after).unwrap_or_default();
    let step = Onset { begin: (place - fitted_first) as f64, full: (place - fitted_first) as f64 };
    let onset = fit_onset(fitted).unwrap_or(step);
    let is_gradual = onset.full - onset.begin >= MIN_RAMP;
    let begin = if is_gradual {
        onset.begin + fitted_first as f64
    } else {
        let first = place.saturating_sub(width);
        let around = values.get(first..(place + width).min(end)).unwrap_or_default();
        fit_step(around).map_or(place, |step| first + step) as f64
    };
    let last = track.columns.last().map_or(0, |column| *column as usize + 1);
    let column_of = |place: usize| track.columns.get(place).map_or(last, |column| *column as usize);
    // Columns without a value are not counted as places.
    let begin = column_of(begin as usize) as f64 + begin.fract();
    let end = match end.checked_sub(1) {
        Some(last) if subject.is_interval() => column_of(last) + 1,
        _ => column_of(end),
    };
    Candidate {
        subject,
        track,
        contrast,
        begin,
        end,
        level_end: end,
        next_begin: usize::MAX,
        level_before: 0,
        is_gradual,
    }
}

/// Returns the place at which a change ends, or the number of values. Until then the values are
/// nearer to those of the change than to those before it, by the largest cumulative sum; the sum
/// has to fall far enough (E. S. Page, "Continuous inspection schemes", Biometrika 41 (1954)).
fn return_to_before(track: &Track, place: usize, width: usize) -> usize {
    let values = &track.values;
    let before = mean(values.get(place - width..place).unwrap_or_default());
    let during = mean(values.get(place..place + width).unwrap_or_default());
    let quantum = mean(track.quanta.get(place - width..place + width).unwrap_or_default());
    let evidence = Evidence::new(before, during, quantum);
    let returned = width.max(MIN_RETURNED) as f64;
    let mut sum = 0.0;
    let mut largest = 0.0;
    let mut end = place;
    for (place, value) in values.iter().enumerate().skip(place) {
        sum += evidence.weight(*value);
        if sum >= largest {
            largest = sum;
            end = place + 1;
        } else if largest - sum >= returned {
            return end;
        }
    }
    let has_returned = largest - sum >= MIN_RETURNED_AT_END;
    if has_returned { end } else { values.len() }
}

/// The evidence of a value for one of two levels: -1 at the level before a change, positive nearer to
/// that of the change.
struct Evidence {
    /// The value without evidence for either level.
    middle: f64,
    /// Evidence per distance from the middle.
    slope: f64,
    /// Limit on the evidence of a value.
    max: f64,
}

impl Evidence {
    /// At a low rate of events a value of 0 is common and says little. The evidence is therefore the
    /// ratio of the probabilities of the observed number of events at the two levels.
    fn new(before: f64, during: f64, quantum: f64) -> Self {
        let larger = before.max(during);
        if larger >= MAX_SPARSE * quantum {
            let middle = f64::midpoint(before, during);
            return Self { middle, slope: 1.0 / (during - middle), max: 1.0 };
        }
        let least = larger / MAX_SPARSE_RATIO;
        let before = before.max(least);
        let logarithm = (during.max(least) / before).ln();
        let middle = (during.max(least) - before) / logarithm;
        Self { middle, slope: 1.0 / (middle - before), max: MAX_SPARSE_EVIDENCE }
    }

    fn weight(&self, value: f64) -> f64 {
        ((value - self.middle) * self.slope).clamp(-self.max, self.max)
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Groups changes whose `column` is nearly the same.
fn clusters<T>(mut changes: Vec<T>, column: fn(&T) -> f64) -> Vec<Vec<T>> {
    changes.sort_by(|one, other| column(one).total_cmp(&column(other)));
    let mut clusters: Vec<Vec<T>> = Vec::new();
    for change in changes {
        match clusters.last_mut() {
            Some(cluster)
                if cluster.first().is_some_and(|first| column(&change) <= column(first) + 2.0) =>
            {
                cluster.push(change);
            }
            _ => clusters.push(vec![change]),
        }
    }
    clusters
}

/// The columns of a few series, and one column for each sample around a time.
struct SampledRun<'a> {
    run: &'a ObservedRun,
    grid: &'a TimeColumns,
    fine_run: ObservedRun,
    fine: TimeColumns,
}

impl<'a> SampledRun<'a> {
    /// Reads the series of changes around a column.
    fn read(
        history: &impl History,
        run: &'a ObservedRun,
        grid: &'a TimeColumns,
        cluster: &[&Candidate],
        column: f64,
    ) -> Result<Self, Failure> {
        let interval = sample_interval(run, grid, cluster);
        let samples = (8.0 * grid.width() / interval)
            .ceil()
            .clamp(f64::from(MIN_SAMPLES), f64::from(MAX_SAMPLES));
        let half = Duration::from_nanos((samples * interval / 2.0) as u64);
        let middle = grid.time(column);
        let begin = middle.saturating_sub(half).max(*grid.range.start());
        let end = middle.saturating_add(half).min(*grid.range.end());
        let columns = ((end.nanos_since(begin) as f64 / interval).round() as u32).max(1);
        // Few samples have several columns each, so that their times are known.
        let columns = columns * (MIN_SAMPLES / columns).max(1);
        let fine = TimeColumns { range: begin..=end, columns };
        let metrics = cluster.iter().map(|candidate| candidate.subject.name.0.clone()).collect();
        let mut fine_run = history.read(fine.range.clone(), fine.columns, Some(&metrics))?;
        fill_before_appearance(&mut fine_run);
        Ok(Self { run, grid, fine_run, fine })
    }

    /// Returns the places of a track that are searched around a column of the grid.
    fn searched(&self, track: &Track, column: f64) -> Range<usize> {
        let middle = self.fine.column(self.grid.time(column));
        let place = track.columns.partition_point(|column| f64::from(*column) < middle);
        let searched = (SEARCHED_COLUMNS * self.grid.width() / self.fine.width()) as usize;
        let searched = searched.max(SEARCHED_SAMPLES);
        place.saturating_sub(searched)..(place + searched).min(track.columns.len())
    }

    /// Returns the place of the first value of a track at a column of the grid or after it.
    fn place(&self, subject: &Subject, track: &Track, column: usize) -> usize {
        let column = self.fine.column(self.grid.time(column as f64));
        // An interval ends in its column; a sample is somewhere in it.
        let within = if subject.is_interval() { 0.0 } else { 0.5 };
        track.columns.partition_point(|own| f64::from(*own) + within < column)
    }

    /// Finds the beginning of a change; `None` if the samples do not show it.
    fn begin(&self, candidate: Candidate) -> Option<BegunChange> {
        let Self { grid, fine_run, fine, .. } = self;
        if candidate.is_gradual {
            let values = &candidate.track.values;
            let (before, during) = candidate.compared_values()?;
            if are_alike(values.get(before)?, values.get(during)?) {
                return None;
            }
            // The mean of a column is that of its middle.
            let begin = grid.time(candidate.begin + 0.5 - 0.5 * fine.width() / grid.width());
            return Some(BegunChange { candidate, begin, level_begin: begin, before_end: begin });
        }
        let subject = &candidate.subject;
        let track = subject.track(fine_run);
        let level_end = self.place(subject, &track, candidate.level_end);
        let searched = self.searched(&track, candidate.begin);
        let first = searched.start.max(self.place(subject, &track, candidate.level_before));
        let mut searched = track.values.get(first..searched.end.min(level_end))?.to_vec();
        if subject.statistic == Statistic::Rate {
            // Counts vary by the square root of their mean.
            for value in &mut searched {
                *value = value.abs().sqrt();
            }
        }
        let onset = fit_onset(&searched)?;
        let place = first + onset.first_changed();
        let level_before = self.place(subject, &track, candidate.level_before);
        let before = track.values.get(level_before..place)?;
        let during = track.values.get(place..level_end)?;
        if are_alike(before, during)
            && !self.are_apart(subject, &track, level_before..place, level_end)
        {
            return None;
        }
        if !subject.is_interval() {
            let begin = fine.time(f64::from(*track.columns.get(place)?) + 0.5);
            return Some(BegunChange { candidate, begin, level_begin: begin, before_end: begin });
        }
        let level_begin = self.interval_end(&track, place)?;
        let last = place.saturating_sub(1);
        let before_end = self.interval_end(&track, last.saturating_sub(1))?;
        // The interval before may be partly in the change. It is followed by others after a gap.
        let last_end = self.interval_end(&track, last)?;
        let length = last_end.nanos_since(before_end).min(level_begin.nanos_since(last_end));
        let (last_before, earlier) = before.split_last()?;
        let (first_during, later) = during.split_first()?;
        let part = 1.0 + part_between(*last_before, earlier, mean(during))
            - part_between(*first_during, later, mean(before));
        let begin = level_begin.saturating_sub(duration(part * length as f64));
        Some(BegunChange { candidate, begin, level_begin, before_end })
    }

    /// Returns the time at which the interval of a place of a track ends.
    fn interval_end(&self, track: &Track, place: usize) -> Option<Timestamp> {
        Some(self.fine.time(f64::from(*track.columns.get(place)?) + 1.0))
    }

    /// Returns whether the values of a few places up to `end` are all beyond those before them,
    /// further than those are from each other, and count enough events to tell.
    fn are_apart(
        &self,
        subject: &Subject,
        track: &Track,
        mut before: Range<usize>,
        mut end: usize,
    ) -> bool {
        let begin = before.end;
        if subject.is_interval() {
            // Only parts of the first and the last interval may be in the change.
            before.end -= 1;
            if end - begin > MIN_CHANGE {
                end -= 1;
            }
        }
        let during = begin..end;
        if before.len() < MIN_APART_BEFORE || during.len() < MIN_CHANGE {
            return false;
        }
        let Some((least_before, most_before)) = extremes(track, before.clone()) else {
            return false;
        };
        let Some((least, most)) = extremes(track, during.clone()) else { return false };
        let gap = (least - most_before).max(least_before - most);
        if gap <= most_before - least_before {
            return false;
        }
        let lengths = during.len() as f64 / before.len() as f64;
        let Some(events) = self.events(subject, track, during) else { return true };
        let Some(events_before) = self.events(subject, track, before) else { return true };
        // Numbers of events vary by the square root of their mean.
        (events.sqrt() - (events_before * lengths).sqrt()).abs() >= MIN_EVENTS_ROOT
    }

    /// Returns the number of events that a statistic counts in places of a track; `None` if it does
    /// not count.
    fn events(&self, subject: &Subject, track: &Track, places: Range<usize>) -> Option<f64> {
        let first = *track.columns.get(places.start)? as usize;
        let last = *track.columns.get(places.end.checked_sub(1)?)? as usize;
        subject.events(&self.fine_run, first..last + 1)
    }

    /// Returns the end of a change: the time of the first sample that is as before it, of intervals
    /// that of the last one in it.
    fn end(&self, begun: &BegunChange) -> Option<SampledEnd> {
        let fine = &self.fine;
        let subject = &begun.candidate.subject;
        let track = subject.track(&self.fine_run);
        let column = fine.column(begun.level_begin);
        let place = track.columns.partition_point(|own| f64::from(*own) + 0.5 < column);
        let first_changed = if subject.is_interval() { place.saturating_sub(1) } else { place };
        let mut searched = self.searched(&track, begun.candidate.end as f64);
        searched.start = searched.start.max(first_changed);
        if begun.candidate.next_begin < self.grid.columns as usize {
            let next = self.place(subject, &track, begun.candidate.next_begin);
            searched.end = searched.end.min(next).max(searched.start);
        }
        let first = searched.start;
        let last = searched.end;
        let place = first + fit_step(track.values.get(searched)?)?;
        if !subject.is_interval() {
            let end = fine.time(f64::from(*track.columns.get(place)?) + 0.5);
            return Some(SampledEnd { end, level_end: end });
        }
        let level_end = self.interval_end(&track, place.checked_sub(1)?)?;
        let length = self.interval_end(&track, place)?.nanos_since(level_end);
        let during = track.values.get(first..place)?;
        let after = track.values.get(place..last)?;
        let (last_during, earlier) = during.split_last()?;
        let (first_after, later) = after.split_first()?;
        let part_after = part_between(*first_after, later, mean(during));
        let part_missing = part_between(*last_during, earlier, mean(after));
        let end = level_end
            .saturating_add(duration(part_after * length as f64))
            .saturating_sub(duration(part_missing * length as f64));
        Some(SampledEnd { end, level_end })
    }

    /// Finds the end of a change and the levels before and during it; `None` if they differ little.
    fn change(&self, begun: &BegunChange) -> Option<ChangePoint> {
        let Self { run, grid, fine_run, fine } = self;
        let BegunChange { candidate, begin, level_begin, before_end } = begun;
        let Candidate { subject, track, contrast, .. } = candidate;
        let goes_on = candidate.end >= track.columns.last().map_or(0, |last| *last as usize + 1);
        let coarse_end = grid.time(candidate.end as f64);
        let mut sampled_end = SampledEnd { end: coarse_end, level_end: coarse_end };
        if !goes_on && let Some(found) = self.end(begun).filter(|found| found.end > *begin) {
            sampled_end = found;
        }
        let SampledEnd { end, level_end } = sampled_end;
        let before_end = grid.column(*before_end).floor().max(0.0) as usize;
        let before = subject.number(run, candidate.columns_before(before_end))?;
        // Columns only partly within the change are left out, unless there are no others.
        let is_whole = candidate.level_end == candidate.end;
        let level_end = if is_whole { level_end } else { grid.time(candidate.level_end as f64) };
        let during = if *level_begin >= *fine.range.start() && level_end < *fine.range.end() {
            let first = fine.column(*level_begin).ceil() as usize;
            let level_end = fine.column(level_end) as usize;
            subject.number(fine_run, first..level_end.max(first + 1))?
        } else {
            let first = grid.column(*level_begin).ceil() as usize;
            subject.number(run, first..candidate.level_end.max(first + 1))?
        };
        let size = (during - before).abs();
        if size <= SAME * before.abs() || size <= SAME * during.abs() {
            return None;
        }
        let (metric, instance) = subject.name.clone();
        Some(ChangePoint {
            metric,
            instance,
            kind: ChangeKind::Statistic(subject.statistic),
            units: subject.units(run),
            begin: *begin,
            end: (!goes_on).then_some(end),
            is_gradual: candidate.is_gradual,
            before,
            during,
            score: contrast.score * size / (before.abs() + during.abs()),
            group: 0,
            lag: 0.0,
        })
    }
}

/// Finds the beginning and end of changes in samples, and drops those that samples do not show.
fn refine(
    history: &impl History,
    run: &ObservedRun,
    grid: &TimeColumns,
    candidates: Vec<Candidate>,
) -> Result<Vec<(ChangePoint, Track)>, Failure> {
    let mut begun = Vec::new();
    for cluster in clusters(candidates, |candidate| candidate.begin) {
        let Some(column) = cluster.first().map(|first| first.begin) else { continue };
        let read: Vec<&Candidate> = cluster.iter().collect();
        let sampled = SampledRun::read(history, run, grid, &read, column)?;
        begun.extend(cluster.into_iter().filter_map(|candidate| sampled.begin(candidate)));
    }
    let mut all = Vec::new();
    for cluster in clusters(begun, |begun: &BegunChange| begun.candidate.end as f64) {
        let Some(column) = cluster.first().map(|first| first.candidate.end as f64) else {
            continue;
        };
        let read: Vec<&Candidate> = cluster.iter().map(|begun| &begun.candidate).collect();
        let sampled = SampledRun::read(history, run, grid, &read, column)?;
        for begun in cluster {
            let change = sampled.change(&begun);
            all.extend(change.map(|change| (change, begun.candidate.track)));
        }
    }
    Ok(all)
}

/// Returns the shortest usual interval between samples, in nanoseconds.
fn sample_interval(run: &ObservedRun, grid: &TimeColumns, cluster: &[&Candidate]) -> f64 {
    let mut shortest = f64::INFINITY;
    for candidate in cluster {
        let observations = candidate.subject.observations(run);
        shortest = shortest.min(usual_interval(&observations) * grid.width());
    }
    shortest.max(1.0)
}

/// Returns the mean interval between observations in columns, without long intervals.
fn usual_interval(observations: &[u32]) -> f64 {
    let mut last = None;
    let mut distances = Vec::new();
    for (column, count) in observations.iter().enumerate() {
        if *count > 0 {
            distances.extend(last.map(|last| (column - last, *count)));
            last = Some(column);
        }
    }
    let mut sorted: Vec<usize> = distances.iter().map(|(distance, _)| *distance).collect();
    sorted.sort_unstable();
    let median = sorted.get(sorted.len() / 2).copied().unwrap_or(1);
    let mut columns = 0;
    let mut intervals = 0;
    for (distance, count) in distances {
        if distance <= median + median.div_ceil(2) {
            columns += distance;
            intervals += u64::from(count);
        }
    }
    columns as f64 / intervals.max(1) as f64
}

/// Returns whether two samples may be of one distribution.
fn are_alike(one: &[f64], other: &[f64]) -> bool {
    if one.is_empty() || other.is_empty() {
        return true;
    }
    let distance = distribution_distance(one, other);
    distance_significance(distance, one.len(), other.len()) > MAX_ALIKE
}

/// Returns the least and the greatest value of some places.
fn extremes(track: &Track, places: Range<usize>) -> Option<(f64, f64)> {
    let values = track.values.get(places)?;
    let least = values.iter().copied().min_by(f64::total_cmp)?;
    let most = values.iter().copied().max_by(f64::total_cmp)?;
    Some((least, most))
}

/// Returns the part of an interval in which the level is that of its other side: 0 unless its value
/// is beyond all `others` on its own side.
fn part_between(value: f64, others: &[f64], other_side: f64) -> f64 {
    if others.len() < MIN_APART_BEFORE {
        return 0.0;
    }
    let usual = mean(others);
    let distance = (value - usual).abs();
    let part = (value - usual) / (other_side - usual);
    let is_beyond = others.iter().all(|other| (other - usual).abs() < distance);
    if is_beyond && part >= MIN_PART { part.min(1.0) } else { 0.0 }
}

/// Returns a length of time of nanoseconds.
fn duration(nanos: f64) -> Duration {
    Duration::from_nanos(nanos as u64)
}

//! The order of changes, and the groups of those that move together.
//!
//! Input: changes, each with the values that show it. Output: the changes by group, the largest
//! first; of a histogram only the quantile that changed most.

use super::correlation::strongest_correlation;
use super::tracks::Track;
use super::{ChangeKind, ChangePoint, TimeColumns};
use crate::comparison::Statistic;

/// Columns by which the beginnings of one group may differ.
const GROUPED_COLUMNS: i128 = 4;
/// Least correlation within a group.
const MIN_CORRELATION: f64 = 0.7;
/// Columns before and after a change that are correlated with those of another.
const CORRELATED_COLUMNS: usize = 48;

/// Returns the changes in the order of their groups, and in each by score.
pub(super) fn order_by_group(
    mut changes: Vec<(ChangePoint, Track)>,
    grid: &TimeColumns,
) -> Vec<ChangePoint> {
    put_largest_of_series_first(&mut changes);
    keep_one_of_histograms(&mut changes, grid);
    group(changes, grid)
}

/// Of the quantiles of a histogram that changed at the same time, keeps the one that changed most,
/// one below the median only if no other changed. It began when the first of them did, and has the
/// best score. Afterwards the changes are in the order of their scores.
fn keep_one_of_histograms(changes: &mut Vec<(ChangePoint, Track)>, grid: &TimeColumns) {
    changes.sort_by(|(one, _), (other, _)| {
        one.is_below_median().cmp(&other.is_below_median()).then_with(|| by_score(one, other))
    });
    let tolerance = (grid.width() as i128) * GROUPED_COLUMNS;
    let mut kept: Vec<(ChangePoint, Track)> = Vec::new();
    for (change, track) in changes.drain(..) {
        let is_quantile = |change: &ChangePoint| {
            matches!(change.kind, ChangeKind::Statistic(Statistic::Quantile(_)))
        };
        let same = kept
            .iter_mut()
            .map(|(kept, _)| kept)
            .find(|kept| is_quantile(kept) && is_quantile(&change) && change.overlaps(kept));
        match same {
            Some(same) => {
                same.score = same.score.max(change.score);
                if same.begin.nanos_since(change.begin) <= tolerance {
                    same.begin = same.begin.min(change.begin);
                }
            }
            None => kept.push((change, track)),
        }
    }
    kept.sort_by(|(one, _), (other, _)| by_score(one, other));
    *changes = kept;
}

/// Gives the largest change of a series the best score of all in the series, and the others as much
/// of it as they have of its size.
fn put_largest_of_series_first(changes: &mut [(ChangePoint, Track)]) {
    let mut scores = Vec::with_capacity(changes.len());
    for (change, _) in &*changes {
        let mut best = change.score;
        let mut largest = change.size();
        for (other, _) in &*changes {
            if other.is_of_series(change) {
                best = best.max(other.score);
                largest = largest.max(other.size());
            }
        }
        let is_largest = change.size() >= largest;
        scores.push(if is_largest { best } else { best * change.size() / largest });
    }
    for ((change, _), score) in changes.iter_mut().zip(scores) {
        change.score = score;
    }
}

fn by_score(one: &ChangePoint, other: &ChangePoint) -> std::cmp::Ordering {
    let by_name = || (&one.metric, &one.instance).cmp(&(&other.metric, &other.instance));
    let by_time = || one.begin.cmp(&other.begin);
    other.score.total_cmp(&one.score).then_with(by_name).then_with(by_time)
}

/// Returns whether a change is one of the program that restarts.
fn is_of_program(change: &ChangePoint, restarts: &ChangePoint) -> bool {
    let rest = change.metric.strip_prefix(&restarts.metric);
    rest.is_some_and(|rest| rest.starts_with('.'))
}

/// Numbers the groups, and orders changes by them. Changes are in the order of their score.
fn group(changes: Vec<(ChangePoint, Track)>, grid: &TimeColumns) -> Vec<ChangePoint> {
    let tolerance = (grid.width() as i128) * GROUPED_COLUMNS;
    let mut groups: Vec<Vec<(ChangePoint, Vec<f64>)>> = Vec::new();
    for (change, track) in changes {
        let values = track.by_column(grid.columns as usize);
        let change = &change;
        let place = groups.iter().position(|group| {
            let Some((leader, leading)) = group.first() else { return false };
            let distance = change.begin.nanos_since(leader.begin).abs();
            if leader.kind == ChangeKind::Restarts && is_of_program(change, leader) {
                return leader.end.is_none_or(|end| change.begin <= end)
                    && change.begin.nanos_since(leader.begin) >= -tolerance;
            }
            if distance > tolerance {
                return false;
            }
            let begin = grid.column(leader.begin) as usize;
            let around = begin.saturating_sub(CORRELATED_COLUMNS)
                ..(begin + CORRELATED_COLUMNS).min(leading.len());
            let one = leading.get(around.clone()).unwrap_or_default();
            let other = values.get(around).unwrap_or_default();
            strongest_correlation(one, other, GROUPED_COLUMNS as usize).abs() >= MIN_CORRELATION
        });
        match place.and_then(|place| groups.get_mut(place)) {
            Some(group) => group.push((change.clone(), values)),
            None => groups.push(vec![(change.clone(), values)]),
        }
    }
    let mut all = Vec::new();
    for (number, group) in (1..).zip(groups) {
        let Some(first) = group.iter().map(|(change, _)| change.begin).min() else { continue };
        for (mut change, _) in group {
            change.group = number;
            change.lag = change.begin.nanos_since(first) as f64 / 1e9;
            all.push(change);
        }
    }
    all
}

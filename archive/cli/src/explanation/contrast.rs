//! The strongest change of level in a series.
//!
//! At each place the means of the values after and before it are compared, for several widths. The
//! contrast counts only as far as both halves on one side exceed both halves on the other, so a
//! single outlier has none. It is divided by the usual contrast of that width in the same series:
//! the lower quartile, which neither a change nor a ramp over half of the series moves much. A daily
//! cycle or slow drift makes all contrasts large, and is therefore not a change.
//!
//! In a series of rare events that quartile may be 0. What counts events has at least a part of the
//! contrast of independent ones, so wide contrasts, which have more events, are not less significant
//! than narrow ones. A few integers have at least that of a step by 1.
//!
//! The probability of a score by chance is bounded by Student's distribution with n/3 + 4 degrees
//! of freedom, at most 12, for n independent contrasts. In simulations of white noise,
//! autoregressive noise and random walks of 480 values the bound is too large by a factor of 2 or
//! more at each width; it is about right for values whose tails are as heavy as those of Student's
//! distribution of 3 degrees (decision 020 has the figures).
//!
//! **Sources**: B. Eichinger and C. Kirch, "A MOSUM procedure for the estimation of multiple random
//! change points", Bernoulli 24 (2018), for contrasts of neighbouring windows; X. Shao and X. Zhang,
//! "Testing for change points in time series", J. Am. Stat. Assoc. 105 (2010), for statistics that
//! are divided by their own variation.

use crate::comparison::student_tail;

/// Numbers of values on each side.
const WIDTHS: [usize; 6] = [2, 4, 8, 16, 32, 64];
/// The lower quartile of the absolute value of a standard normal variable.
const NORMAL_QUARTILE: f64 = 0.318_64;
/// The upper decile of the absolute value of a standard normal variable.
const NORMAL_DECILE: f64 = 1.644_85;
/// Significance beyond which widths are compared by score instead of significance.
const CERTAIN: f64 = 1e-6;
/// Limit on the score, which a step between constants has.
const MAX_SCORE: f64 = 100.0;
/// Least scale relative to the variation of independent events. That is known, not estimated: a
/// contrast of this many times the scale is about as rare as one of a normal variable is relative to
/// the variation.
const MIN_COUNTING: f64 = 0.25;
/// Number of values that are enough to see how often a series of integers steps by 1, and the least
/// scale with fewer.
const ENOUGH_STEPS: usize = 128;
const MIN_STEP_SCALE: f64 = 0.25;
/// Limit on the degrees of freedom, for values with heavy tails.
const MAX_FREEDOM: f64 = 12.0;
/// Least number of contrasts before a change to compare it with.
const MIN_BEFORE: usize = 32;
/// Limit on the places with at least half of the strongest contrast: two begin and end a change,
/// two more may be another one; a pattern that recurs has more.
const MAX_PEAKS: usize = 4;

/// A change of level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Contrast {
    /// Approximate place of the first value after the change.
    pub(super) place: usize,
    pub(super) first: usize,
    /// Number of values on each side.
    pub(super) width: usize,
    /// The contrast, divided by the usual one.
    pub(super) score: f64,
    /// The probability of such a contrast by chance anywhere in the series.
    pub(super) significance: f64,
}

/// The most significant contrasts of a series.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct StrongestContrasts {
    /// Of a level that changes once or twice.
    pub(super) change: Option<Contrast>,
    /// Of a pattern that recurs, at its last change of level.
    pub(super) recurrence: Option<Contrast>,
}

/// Returns the most significant contrasts at `first` or later. `quanta` are what one event adds to
/// each value, 0 for what is not counted.
pub(super) fn strongest_contrasts(
    values: &[f64],
    quanta: &[f64],
    first: usize,
) -> StrongestContrasts {
    let sums = RunningSums::new(values);
    let quantum_sums = RunningSums::new(quanta);
    let magnitude = values.iter().fold(0.0_f64, |most, value| most.max(value.abs()));
    let rounding = magnitude * values.len() as f64 * f64::EPSILON;
    let is_whole = values.iter().all(|value| value.fract() == 0.0);
    let mut strongest = StrongestContrasts::default();
    let mut least_scale = rounding;
    for width in WIDTHS {
        if 4 * width > values.len() {
            break;
        }
        let half = width / 2;
        let mut plain = Vec::with_capacity(values.len());
        let mut clear = Vec::with_capacity(values.len());
        let mut counting = Vec::with_capacity(values.len());
        for place in width..=values.len() - width {
            let before = [sums.mean(place - width, place - half), sums.mean(place - half, place)];
            let after = [sums.mean(place, place + half), sums.mean(place + half, place + width)];
            plain.push(
                (f64::midpoint(after[0], after[1]) - f64::midpoint(before[0], before[1])).abs(),
            );
            let rise = after[0].min(after[1]) - before[0].max(before[1]);
            let fall = before[0].min(before[1]) - after[0].max(after[1]);
            clear.push(rise.max(fall).max(0.0));
            // The variance of a number of independent events is its mean.
            let level = sums.mean(place - width, place + width).abs();
            let quantum = quantum_sums.mean(place - width, place + width);
            counting.push((2.0 * level * quantum / width as f64).sqrt());
        }
        // Means of more values vary less, but not less than those of independent ones.
        let mut scale = (quantile(&plain, 0.25) / NORMAL_QUARTILE).max(least_scale);
        least_scale = scale / std::f64::consts::SQRT_2;
        let first = first.saturating_sub(width);
        if let Some((begin, _)) = peak(&clear, first) {
            // Most contrasts are 0 in a series of integers that rarely changes.
            let before = plain.get(..begin.saturating_sub(width)).unwrap_or_default();
            if before.len() >= MIN_BEFORE {
                scale = scale.max(quantile(before, 0.9) / NORMAL_DECILE);
            }
        }
        if values.len() < ENOUGH_STEPS && is_whole {
            scale = scale.max(MIN_STEP_SCALE);
        }
        if clear.iter().all(|contrast| *contrast <= 2.0 * rounding) {
            continue;
        }
        for (contrast, counting) in clear.iter_mut().zip(&counting) {
            *contrast /= scale.max(MIN_COUNTING * counting);
        }
        let Some((begin, score)) = peak(&clear, first) else { continue };
        let peaks = Peaks::find(&clear, score / 2.0, half);
        let independent = values.len() as f64 / width as f64;
        let mut freedom = (independent / 3.0 + 4.0).min(MAX_FREEDOM);
        if counting.get(begin).is_some_and(|counting| MIN_COUNTING * counting > scale) {
            // A variation that is known has no fewer degrees of freedom in a short series.
            freedom = MAX_FREEDOM;
        }
        let tests = 2.0 * independent * WIDTHS.len() as f64;
        let significance = (student_tail(score, freedom) * tests).min(1.0);
        let (best, begin) = if peaks.count > MAX_PEAKS {
            (&mut strongest.recurrence, peaks.last)
        } else {
            (&mut strongest.change, begin)
        };
        let found = Contrast {
            place: sharpest(&plain, &clear, begin, half, score) + width,
            first: begin + width,
            width,
            score: score.min(MAX_SCORE),
            significance,
        };
        if best.is_none_or(|best| found.exceeds(&best)) {
            *best = Some(found);
        }
    }
    strongest
}

/// Sums of the first values.
struct RunningSums(Vec<f64>);

impl RunningSums {
    fn new(values: &[f64]) -> Self {
        let mut sums = Vec::with_capacity(values.len() + 1);
        let mut sum = 0.0;
        sums.push(sum);
        for value in values {
            sum += value;
            sums.push(sum);
        }
        Self(sums)
    }

    fn mean(&self, begin: usize, end: usize) -> f64 {
        let begin_sum = self.0.get(begin).copied().unwrap_or_default();
        let end_sum = self.0.get(end).copied().unwrap_or_default();
        (end_sum - begin_sum) / (end - begin) as f64
    }
}

impl Contrast {
    fn exceeds(&self, other: &Self) -> bool {
        if self.significance <= CERTAIN && other.significance <= CERTAIN {
            return self.score > other.score;
        }
        self.significance < other.significance
    }
}

/// Returns a quantile of at least one value.
fn quantile(values: &[f64], rank: f64) -> f64 {
    let mut values = values.to_vec();
    let place = (values.len() as f64 * rank) as usize;
    let (_, quantile, _) = values.select_nth_unstable_by(place, f64::total_cmp);
    *quantile
}

/// Returns the first place, from `first` on, of a contrast that is at least half of the largest
/// there, and the largest.
fn peak(contrasts: &[f64], first: usize) -> Option<(usize, f64)> {
    let rest = contrasts.get(first..)?;
    let largest = rest.iter().copied().fold(0.0, f64::max);
    let place = rest.iter().position(|contrast| *contrast >= largest / 2.0)?;
    Some((first + place, largest))
}

/// Groups of large contrasts.
struct Peaks {
    count: usize,
    /// The first place of the last group.
    last: usize,
}

impl Peaks {
    /// Finds the groups of contrasts of at least `limit` that are more than `gap` places apart.
    fn find(contrasts: &[f64], limit: f64, gap: usize) -> Self {
        let mut peaks = Self { count: 0, last: 0 };
        let mut end = 0;
        for (place, contrast) in contrasts.iter().enumerate() {
            if *contrast < limit {
                continue;
            }
            if peaks.count == 0 || place > end + gap {
                peaks.count += 1;
                peaks.last = place;
            }
            end = place;
        }
        peaks
    }
}

/// Returns the place of the largest plain contrast in the group of clear ones that begins at a
/// place.
fn sharpest(plain: &[f64], clear: &[f64], begin: usize, gap: usize, largest: f64) -> usize {
    let mut best = begin;
    let mut last = begin;
    for place in begin..clear.len() {
        if place > last + gap {
            break;
        }
        let (Some(own), Some(best_so_far)) = (plain.get(place), plain.get(best)) else { break };
        if clear.get(place).is_some_and(|clear| *clear >= largest / 2.0) {
            last = place;
        }
        if own > best_so_far {
            best = place;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a level with a little of a fixed pattern.
    fn level(level: f64, count: usize) -> Vec<f64> {
        (0..count).map(|place| level + ((place * 7919) % 13) as f64 / 13.0).collect()
    }

    fn strongest(values: &[f64], first: usize) -> Option<Contrast> {
        strongest_contrasts(values, &vec![0.0; values.len()], first).change
    }

    fn recurring(values: &[f64], first: usize) -> Option<Contrast> {
        strongest_contrasts(values, &vec![0.0; values.len()], first).recurrence
    }

    #[test]
    fn a_step_is_found_at_its_place() {
        let values = [level(5.0, 200), level(50.0, 200)].concat();
        let found = strongest(&values, 100).unwrap();
        assert_eq!(found.place, 200);
        assert!(found.significance < 1e-9, "{found:?}");
    }

    #[test]
    fn a_single_outlier_is_no_change() {
        let mut values = level(5.0, 400);
        values[250] = 1e6;
        let found = strongest(&values, 0);
        assert!(found.is_none_or(|found| found.significance > 1e-3), "{found:?}");
    }

    #[test]
    fn a_pattern_that_recurs_is_no_change() {
        let values: Vec<f64> =
            (0..400).map(|place| if place % 50 < 5 { 9.0 } else { 1.0 }).collect();
        let found = strongest(&values, 200);
        assert!(found.is_none_or(|found| found.significance > 1e-3), "{found:?}");
    }

    #[test]
    fn an_incident_that_recurs_is_found_at_its_last_change() {
        let incidents = [60..80, 160..180, 260..280, 350..370];
        let is_incident = |place: usize| incidents.iter().any(|range| range.contains(&place));
        let values: Vec<f64> =
            (0..400).map(|place| if is_incident(place) { 9.0 } else { 1.0 }).collect();
        let found = recurring(&values, 0).unwrap();
        assert!(found.significance < 1e-3, "{found:?}");
        assert_eq!(found.place, 370);
        let found = strongest(&values, 0);
        assert!(found.is_none_or(|found| found.significance > 1e-3), "{found:?}");
    }

    #[test]
    fn a_daily_rhythm_is_no_change() {
        let wave = |place: usize| 100.0 + 50.0 * (place as f64 / 76.0).sin();
        let values: Vec<f64> =
            level(0.0, 480).iter().enumerate().map(|(place, noise)| wave(place) + noise).collect();
        for found in [strongest(&values, 0), recurring(&values, 0)] {
            assert!(found.is_none_or(|found| found.significance > 1e-3), "{found:?}");
        }
    }

    #[test]
    fn what_changed_before_the_window_is_not_found_in_it() {
        let values = [level(5.0, 100), level(50.0, 300)].concat();
        let found = strongest(&values, 200);
        assert!(found.is_none_or(|found| found.significance > 1e-3), "{found:?}");
        assert_eq!(strongest(&[1.0; 300], 0), None);
    }
}

//! Finds where the distributions of two runs differ most: values can move between buckets without
//! changing any quantile that is compared.
//!
//! Up to 20 limits divide the values of both runs into equal shares. At each limit the shares of values
//! at or above it are compared. Such a share is a ratio of two sums over columns, like all other numbers
//! ([`Estimate`]), so the correlation of consecutive seconds is accounted for. Values that differ by at
//! most 5 % are treated as the same: as in the Lévy metric, only the part of a difference counts that a
//! shift by 5 % does not explain. The smallest p-value is taken, corrected for the number of limits and
//! directions.
//!
//! **Sources**: R. J. Simes, "An improved Bonferroni procedure for multiple tests of significance",
//! Biometrika 73 (1986); for distances with a tolerance of values P. J. Huber, "Robust Statistics"
//! (1981), section 2.3.

use super::SAME;
use super::estimate::{Estimate, difference_freedom, student_quantile, student_tail};
use super::histogram::{HistogramColumns, first_at_rank, mixed_buckets};

const LIMITS: usize = 20;
/// Joint confidence level of all differences.
const LEVEL: f64 = 0.95;

/// The limit at which the shares of values above it differ most.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct LargestDifference {
    pub(super) limit: f64,
    /// Shares of the values at or above the limit.
    pub(super) base: Estimate,
    pub(super) new: Estimate,
    /// The p-value of the difference at any limit.
    pub(super) significance: f64,
    /// Confidence level for one limit at which the joint level holds.
    pub(super) level: f64,
    /// At most 5 % of the values are greater or less by more than 5 %.
    pub(super) is_same: bool,
}

/// Returns the largest difference of the shares of values from a limit on; `None` if too few columns
/// have values.
pub(super) fn largest_difference(
    bases: &[HistogramColumns],
    new: &HistogramColumns,
) -> Option<LargestDifference> {
    let buckets = mixed_buckets(bases, new);
    let mut limits: Vec<f64> = Vec::new();
    for place in 0..LIMITS {
        let rank = (place as f64 + 0.5) / LIMITS as f64;
        let limit = first_at_rank(&buckets, rank)?;
        if limits.last().is_none_or(|last| *last < limit) {
            limits.push(limit);
        }
    }
    let raised: Vec<f64> = limits.iter().map(|limit| limit + SAME * limit.abs()).collect();
    let all = [limits.as_slice(), &raised].concat();
    let mut of_bases = Vec::new();
    for base in bases {
        of_bases.extend(base.shares_from(&all));
    }
    let new = new.shares_from(&all)?;
    let mut base = Vec::new();
    for place in 0..all.len() {
        let runs: Vec<Estimate> =
            of_bases.iter().filter_map(|run| run.get(place).copied()).collect();
        base.push(Estimate::from_runs(&runs)?);
    }
    let tests = 2 * limits.len();
    let level = 1.0 - 2.0 * (1.0 - LEVEL) / tests as f64;
    let mut significances = Vec::with_capacity(tests);
    let mut largest: Option<(f64, LargestDifference)> = None;
    let mut is_same = true;
    for (place, limit) in limits.iter().enumerate() {
        let place_raised = place + limits.len();
        let base_at = *base.get(place)?;
        let new_at = *new.get(place)?;
        // Values of the new run are greater, or those of the base.
        for (less, greater) in
            [(base_at, *new.get(place_raised)?), (new_at, *base.get(place_raised)?)]
        {
            let difference = greater.value - less.value;
            let deviation = (less.variance + greater.variance).sqrt();
            let freedom = difference_freedom(less, greater);
            significances.push(if difference <= 0.0 {
                1.0
            } else if deviation == 0.0 {
                0.0
            } else {
                student_tail(difference / deviation, freedom) / 2.0
            });
            is_same &= difference + student_quantile(level, freedom) * deviation <= SAME;
            if largest.is_none_or(|(most, _)| difference > most) {
                let found = LargestDifference {
                    limit: *limit,
                    base: base_at,
                    new: new_at,
                    significance: 1.0,
                    level,
                    is_same: true,
                };
                largest = Some((difference, found));
            }
        }
    }
    let (_, largest) = largest?;
    Some(LargestDifference { significance: least_of(significances), is_same, ..largest })
}

/// Returns the p-value of the smallest of several p-values of dependent tests (Simes).
fn least_of(mut significances: Vec<f64>) -> f64 {
    significances.sort_by(f64::total_cmp);
    let tests = significances.len() as f64;
    let ranked = (1..).zip(significances);
    ranked.map(|(rank, significance)| tests * significance / f64::from(rank)).fold(1.0, f64::min)
}

#[cfg(test)]
mod tests {
    use super::super::estimate::tests::Noise;
    use super::super::histogram::BucketColumns;
    use super::*;

    /// Returns 128 columns of a histogram with buckets 6 % wide from 1 000 on, and about these counts
    /// in each column.
    fn histogram(counts: &[f64], seed: u64) -> HistogramColumns {
        let mut noise = Noise(seed);
        let mut buckets = Vec::new();
        let mut first = 1000.0;
        for count in counts {
            let last = first * 1.06 - 1.0;
            let counts = (0..128).map(|_| (count * (1.0 + 0.2 * noise.next())).round()).collect();
            buckets.push(BucketColumns { first, last: Some(last), counts });
            first = last + 1.0;
        }
        HistogramColumns {
            buckets,
            sums: vec![1.0; 128],
            seconds: vec![1.0; 128],
            observations: vec![1; 128],
        }
    }

    /// A tenth of the values in each of ten buckets.
    const EVEN: [f64; 10] = [100.0; 10];

    #[test]
    fn values_that_move_into_a_second_mode_are_found() {
        let base = histogram(&EVEN, 1);
        let moved = [100.0, 50.0, 50.0, 50.0, 50.0, 100.0, 100.0, 300.0, 100.0, 100.0];
        let found = largest_difference(&[base], &histogram(&moved, 2)).unwrap();
        assert!(found.significance < 1e-9 && !found.is_same, "{found:?}");
        // Two in ten are above the buckets in which they were, in the eighth one.
        let [least, most] = [4, 7].map(|bucket| 1000.0 * 1.06_f64.powi(bucket));
        assert!((least..=most).contains(&found.limit), "{found:?}");
        assert!((found.new.value - found.base.value - 0.2).abs() < 0.01, "{found:?}");
    }

    #[test]
    fn equal_distributions_and_small_shifts_are_the_same() {
        let base = histogram(&EVEN, 1);
        let equal = largest_difference(std::slice::from_ref(&base), &histogram(&EVEN, 2)).unwrap();
        assert!(equal.significance > 0.05 && equal.is_same, "{equal:?}");
        // Two thirds of the values of each bucket are in the next one: 4 % more.
        let mut shifted = [100.0; 11];
        shifted[0] = 100.0 / 3.0;
        shifted[10] = 200.0 / 3.0;
        let shifted = largest_difference(&[base], &histogram(&shifted, 3)).unwrap();
        assert!(shifted.is_same, "{shifted:?}");
    }

    #[test]
    fn least_of_several_is_corrected_for_their_number() {
        assert!((least_of(vec![0.5, 0.01, 1.0, 1.0]) - 0.04).abs() < 1e-12);
        assert!((least_of(vec![0.02, 0.02, 0.03, 0.03]) - 0.03).abs() < 1e-12);
        assert!((least_of(vec![1.0, 1.0]) - 1.0).abs() < 1e-12);
    }
}

//! Estimates of a number over a run, with their uncertainty.
//!
//! Consecutive seconds are correlated, so they are not independent observations. The variance of a
//! mean is estimated on several scales, from 128 groups of consecutive observations down to 8, and
//! the largest estimate is used:
//!
//! * with 16 or more groups, corrected for the correlation of neighbours (autoregressive process);
//! * with 8 groups, uncorrected (batch means).
//!
//! In simulations of stationary processes with correlation times of 0 to 50 s in runs of 900 s, 0.1
//! to 2 % of the pairs differ at a significance of 5 %; with a correlation time of 20 s in runs of
//! 64 s it is 9 %. The test `stationary_processes_do_not_differ` repeats some of them. Runs of fewer
//! than 15 correlation times do not tell their variance.
//!
//! **Sources**: M. G. Kendall, "Note on bias in the estimation of autocorrelation", Biometrika 41
//! (1954); B. W. Schmeiser, "Batch size effects in the analysis of simulation output", Operations
//! Research 30 (1982).

use statrs::distribution::{ContinuousCDF as _, StudentsT};

pub(super) const MIN_GROUPS: usize = 8;
pub(super) const MAX_GROUPS: usize = 128;
const MIN_CORRELATED: usize = 16;
/// Limit on the estimated correlation, which the correction for bias could raise above 1.
const MAX_CORRELATION: f64 = 0.99;

/// The two sums of a ratio in one column.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct ColumnSums {
    pub(crate) numerator: f64,
    pub(crate) denominator: f64,
    /// Number of values in the column, or of rates whose interval ends in it.
    pub(crate) observations: u32,
}

impl ColumnSums {
    pub(crate) fn add(&mut self, other: Self) {
        self.numerator += other.numerator;
        self.denominator += other.denominator;
        self.observations = self.observations.saturating_add(other.observations);
    }
}

/// A ratio of two sums over a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Estimate {
    pub(super) value: f64,
    /// The square of the standard error.
    pub(super) variance: f64,
    /// Degrees of freedom of the variance.
    pub(super) freedom: f64,
}

impl Estimate {
    /// Estimates the ratio of the sums; `None` with fewer than 8 groups of observations, or if the
    /// denominators sum to 0.
    pub(super) fn new(parts: &[ColumnSums]) -> Option<Self> {
        let mut groups = grouped(parts, MAX_GROUPS);
        let mut whole = ColumnSums::default();
        for group in &groups {
            whole.add(*group);
        }
        if groups.len() < MIN_GROUPS || whole.denominator <= 0.0 {
            return None;
        }
        let value = whole.numerator / whole.denominator;
        let mut variance = 0.0_f64;
        let mut freedom = (MIN_GROUPS - 1) as f64;
        while groups.len() >= MIN_CORRELATED {
            let count = groups.len() as f64;
            let residuals = residuals(&groups, value);
            let squares: f64 = residuals.iter().map(|residual| residual * residual).sum();
            if squares > 0.0 {
                let correlation = correlation(&residuals, squares);
                let inflation = (1.0 + correlation) / (1.0 - correlation);
                variance = variance.max(count * squares / (count - 1.0) * inflation);
                freedom = freedom.min(count / inflation - 1.0);
            }
            groups = grouped(&groups, groups.len() / 2);
        }
        let groups = grouped(&groups, MIN_GROUPS);
        let count = groups.len() as f64;
        let squares: f64 =
            residuals(&groups, value).iter().map(|residual| residual * residual).sum();
        variance = variance.max(count * squares / (count - 1.0));
        variance /= whole.denominator * whole.denominator;
        Some(Self { value, variance, freedom: freedom.max(1.0) })
    }

    /// Returns the estimate for a number that was always 0.
    pub(super) const fn zero() -> Self {
        Self { value: 0.0, variance: 0.0, freedom: (MIN_GROUPS - 1) as f64 }
    }

    /// Predicts the value of another run from several: their mean, with the variance between the
    /// runs where it exceeds that within them.
    pub(super) fn from_runs(runs: &[Self]) -> Option<Self> {
        let count = runs.len() as f64;
        let value = runs.iter().map(|run| run.value).sum::<f64>() / count;
        let within = Self {
            value,
            variance: runs.iter().map(|run| run.variance).sum::<f64>() / (count * count),
            freedom: runs.iter().map(|run| run.freedom).reduce(f64::min)?,
        };
        if runs.len() < 2 {
            return Some(within);
        }
        let squares: f64 = runs.iter().map(|run| (run.value - value).powi(2)).sum();
        // A new run deviates from the true mean, and so does the mean of the runs.
        let between = squares / (count - 1.0) * (1.0 + 1.0 / count);
        let freedom = count - 1.0;
        Some(if between > within.variance {
            Self { value, variance: between, freedom }
        } else {
            within
        })
    }

    /// Returns the half-width of the confidence interval.
    pub(super) fn margin(&self, level: f64) -> f64 {
        student_quantile(level, self.freedom) * self.variance.sqrt()
    }
}

/// Returns the two-sided quantile of Student's distribution.
pub(super) fn student_quantile(level: f64, freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom)
        .map_or(f64::INFINITY, |student| student.inverse_cdf(f64::midpoint(1.0, level)))
}

/// Returns the two-sided p-value of Student's distribution.
pub(crate) fn student_tail(value: f64, freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom).map_or(1.0, |student| 2.0 * student.sf(value.abs()))
}

/// Returns the degrees of freedom of a difference (Welch).
pub(super) fn difference_freedom(one: Estimate, other: Estimate) -> f64 {
    let variance = one.variance + other.variance;
    if variance == 0.0 {
        return one.freedom.min(other.freedom);
    }
    variance.powi(2) / (one.variance.powi(2) / one.freedom + other.variance.powi(2) / other.freedom)
}

/// Merges neighbouring parts into at most `most` groups with about as many observations each.
fn grouped(parts: &[ColumnSums], most: usize) -> Vec<ColumnSums> {
    let all: u64 = parts.iter().map(|part| u64::from(part.observations)).sum();
    let mut groups = Vec::with_capacity(most);
    let mut group = ColumnSums::default();
    let mut before = 0;
    for part in parts {
        group.add(*part);
        before += u64::from(part.observations);
        let full = (groups.len() as u64 + 1) * all;
        if group.observations > 0 && before * most as u64 >= full {
            groups.push(std::mem::take(&mut group));
        }
    }
    groups
}

fn residuals(groups: &[ColumnSums], value: f64) -> Vec<f64> {
    groups.iter().map(|group| group.numerator - value * group.denominator).collect()
}

/// Returns the lag-1 correlation, corrected for bias and at least 0.
fn correlation(residuals: &[f64], squares: f64) -> f64 {
    let products: f64 = residuals.iter().zip(residuals.iter().skip(1)).map(|(a, b)| a * b).sum();
    let found = products / squares;
    (found + (1.0 + 3.0 * found) / residuals.len() as f64).clamp(0.0, MAX_CORRELATION)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn values(values: impl IntoIterator<Item = f64>) -> Vec<ColumnSums> {
        let part = |numerator| ColumnSums { numerator, denominator: 1.0, observations: 1 };
        values.into_iter().map(part).collect()
    }

    /// `SplitMix64`: numbers from -0.5 to 0.5.
    pub(in super::super) struct Noise(pub(in super::super) u64);

    impl Noise {
        pub(in super::super) fn next(&mut self) -> f64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = self.0;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64 - 0.5
        }

        /// An autoregressive process with this correlation of neighbours.
        fn process(&mut self, correlation: f64, count: usize) -> Vec<ColumnSums> {
            values(self.numbers(correlation, count))
        }

        pub(in super::super) fn numbers(&mut self, correlation: f64, count: usize) -> Vec<f64> {
            let mut value = 0.0;
            let mut all = Vec::new();
            for step in 0..count + 300 {
                value = correlation * value + self.next();
                if step >= 300 {
                    all.push(value);
                }
            }
            all
        }
    }

    fn significance(one: &[ColumnSums], other: &[ColumnSums]) -> f64 {
        let one = Estimate::new(one).unwrap();
        let other = Estimate::new(other).unwrap();
        let variance = one.variance + other.variance;
        let freedom = variance.powi(2)
            / (one.variance.powi(2) / one.freedom + other.variance.powi(2) / other.freedom);
        student_tail((one.value - other.value) / variance.sqrt(), freedom)
    }

    #[test]
    fn students_distribution_is_that_of_tables() {
        // Two-sided 95 % of 7 and of 120 degrees of freedom.
        assert!((student_quantile(0.95, 7.0) - 2.3646).abs() < 1e-4);
        assert!((student_quantile(0.95, 120.0) - 1.9799).abs() < 1e-4);
        assert!((student_tail(2.3646, 7.0) - 0.05).abs() < 1e-5);
    }

    #[test]
    fn an_estimate_needs_eight_groups() {
        assert_eq!(Estimate::new(&values([1.0; 7])), None);
        let constant = Estimate::new(&values([3.0; 8])).unwrap();
        assert_eq!((constant.value, constant.variance), (3.0, 0.0));
        assert_eq!(Estimate::new(&[ColumnSums::default(); 20]), None);
    }

    #[test]
    fn columns_without_an_observation_belong_to_the_next_one() {
        // A rate that is known for two columns ends in the second one.
        let part = |observations| ColumnSums { numerator: 2.0, denominator: 1.0, observations };
        let parts: Vec<ColumnSums> = (0..40).map(|column| part(column % 2)).collect();
        let groups = grouped(&parts, 128);
        assert_eq!(groups.len(), 20);
        assert!(groups.iter().all(|group| (group.numerator, group.denominator) == (4.0, 2.0)));
    }

    #[test]
    fn stationary_processes_do_not_differ() {
        let mut noise = Noise(42);
        for (correlation, count, most) in [
            (0.0, 900, 25),
            (0.5, 900, 25),
            (0.9, 900, 25),
            (0.98, 900, 25),
            (0.5, 64, 30),
            (0.9, 64, 30),
        ] {
            let alarms = (0..500).filter(|_| {
                let one = noise.process(correlation, count);
                let other = noise.process(correlation, count);
                significance(&one, &other) < 0.05
            });
            let alarms = alarms.count();
            assert!(alarms <= most, "{alarms} of 500 with {correlation}, {count}");
        }
    }

    #[test]
    fn a_difference_is_seen() {
        let mut noise = Noise(7);
        let one = noise.process(0.5, 900);
        let mut other = noise.process(0.5, 900);
        for part in &mut other {
            part.numerator += 0.3;
        }
        assert!(significance(&one, &other) < 1e-3);
    }

    #[test]
    fn the_variance_between_runs_counts() {
        let run = |value| Estimate { value, variance: 0.01, freedom: 7.0 };
        let alone = Estimate::from_runs(&[run(5.0)]).unwrap();
        assert_eq!(alone, run(5.0));
        let alike = Estimate::from_runs(&[run(5.0), run(5.0)]).unwrap();
        assert_eq!((alike.value, alike.variance, alike.freedom), (5.0, 0.005, 7.0));
        // 4, 5, 6: a variance of 1, and a third of it for the mean.
        let apart = Estimate::from_runs(&[run(4.0), run(5.0), run(6.0)]).unwrap();
        assert!((apart.variance - 4.0 / 3.0).abs() < 1e-12);
        assert_eq!((apart.value, apart.freedom), (5.0, 2.0));
    }
}

//! Compares runs of programs: which metrics differ, by how much, and how certain that is.
//!
//! Input: the metrics of two or more runs, each an archive or a part of one. Output: a [`Change`]
//! with a [`Verdict`] for each number that all runs have.
//!
//! | metric | numbers |
//! |---|---|
//! | counter | its rate; of one with several instances also the share of each in all |
//! | instant or discrete value | its mean |
//! | histogram | values per second, their mean, their quantiles 0.5, 0.9 and 0.99, and those asked for; if none of these differs, the share of values above the [limit](distribution) where it differs most |
//!
//! Each run is read into 128 [columns](pcp_archive::envelope), so a restart, mark or gap only costs
//! the time in which nothing is known. Every number is the ratio of two sums over the columns
//! ([`Estimate`]): growth to seconds, the sum of values to their count, the growth of an instance
//! to that of all instances, values above a limit to all values. The bounds of a quantile are
//! bounds of buckets: its rank is moved down and up by the uncertainty of the share of values above
//! it. This makes no assumption about the distribution.
//!
//! Verdicts account for the number of comparisons: of the numbers reported as different, at most 5
//! % are expected to be false. **Sources**: Y. Benjamini and Y. Hochberg, "Controlling the false
//! discovery rate", J. R. Statist. Soc. B 57 (1995); B. L. Welch, "The generalization of Student's
//! problem", Biometrika 34 (1947), for the difference of two means; E. C. Fieller, "Some problems
//! in interval estimation", J. R. Statist. Soc. B 16 (1954), for the bounds of their ratio.

mod change;
mod distribution;
mod estimate;
mod falls;
mod histogram;
mod run;

pub(crate) use change::{Change, Comparison, RunSide, Verdict, compare, count_discoveries};
pub(crate) use estimate::{ColumnSums, student_tail};
pub(crate) use falls::read_falls;
pub(crate) use run::{
    ExcludedPeriod, ObservedRun, RunHistogram, RunOptions, SeriesName, series_names,
};

#[cfg(test)]
pub(crate) use {
    histogram::{BucketColumns, HistogramColumns},
    run::SeriesColumns,
};

use std::fmt;

use pcp_archive::Units;
use pcp_types::scaled::scaled;

/// Numbers are the same if they differ by less than this part.
const SAME: f64 = 0.05;

/// Returns the program of a metric as events name it, `shop` of `mmv.shop.orders`; `None` of other
/// metrics.
pub(crate) fn program_of(metric: &str) -> Option<&str> {
    metric.strip_prefix("mmv.")?.split('.').next()
}

/// Formats a number of a series: `p99 mmv.shop.latency[/cart]`.
pub(crate) fn series_title(
    statistic: impl fmt::Display,
    metric: &str,
    instance: Option<&str>,
) -> String {
    match instance {
        Some(instance) => format!("{statistic} {metric}[{instance}]"),
        None => format!("{statistic} {metric}"),
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Statistic {
    /// The growth of a counter, or the values a histogram counted, per second.
    Rate,
    /// The mean of an instant or discrete metric.
    Value,
    /// The fraction that one instance contributes to the growth of all.
    Share,
    /// The mean of the values a histogram counted.
    Mean,
    /// A quantile of the values a histogram counted.
    Quantile(f64),
    /// Fraction of the values of a histogram that are at or above a limit.
    ShareAbove { limit: f64, units: Units },
}

impl fmt::Display for Statistic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rate => f.write_str("rate"),
            Self::Value => f.write_str("value"),
            Self::Share => f.write_str("share"),
            Self::Mean => f.write_str("mean"),
            Self::Quantile(rank) => write!(f, "p{}", (rank * 1e6).round() / 1e4),
            Self::ShareAbove { limit, units } => {
                write!(f, "share above {}", scaled(*limit, *units))
            }
        }
    }
}

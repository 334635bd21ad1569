//! What differs between runs of programs, by how much, and how certain that is.
//!
//! In: the metrics of two or more runs, each an archive or a part of one. Out: for each number that
//! all of them have a [`Change`], with a [`Verdict`].
//!
//! | metric | numbers |
//! |---|---|
//! | counter | its rate; of one with several instances also the share of each in all |
//! | instant or discrete value | its mean |
//! | histogram | values per second, their mean, and their quantiles 0.5, 0.9 and 0.99 |
//!
//! A run is read as 128 [columns](pcp_archive::envelope), so restarts, marks and gaps cost the time in
//! which nothing is known and nothing else. Every number is the quotient of two sums over the columns
//! ([`Estimate`]): growth by seconds, values by their count, growth of an instance by that of all,
//! values above a limit by all values. The bounds of a quantile are those of buckets: the quantile
//! whose rank is too low and the one whose rank is too high by the uncertainty of the share of values
//! that lie above it. They assume nothing about the distribution.
//!
//! A verdict is of all numbers together: of those that are called different at most 5 % are so by
//! chance. **Sources**: Y. Benjamini and Y. Hochberg, "Controlling the false discovery rate", J. R.
//! Statist. Soc. B 57 (1995); B. L. Welch, "The generalization of Student's problem", Biometrika 34
//! (1947), for the difference of two means; E. C. Fieller, "Some problems in interval estimation",
//! J. R. Statist. Soc. B 16 (1954), for the bounds of their ratio.

mod change;
mod estimate;
mod histogram;
mod run;

pub(crate) use change::{Change, Comparison, Side, Verdict, compare};
pub(crate) use run::{Excluded, ObservedRun, RunOptions};

use std::fmt;

/// The number of a metric that is compared.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub(crate) enum Statistic {
    /// Of a counter or a histogram, per second.
    Rate,
    /// The mean of an instant or discrete value.
    Value,
    /// The part of one instance in the rate of all.
    Share,
    /// The mean of what a histogram counted.
    Mean,
    /// A quantile of what a histogram counted.
    Quantile(f64),
}

impl fmt::Display for Statistic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rate => f.write_str("rate"),
            Self::Value => f.write_str("value"),
            Self::Share => f.write_str("share"),
            Self::Mean => f.write_str("mean"),
            Self::Quantile(rank) => write!(f, "p{}", (rank * 1e6).round() / 1e4),
        }
    }
}

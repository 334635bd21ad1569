//! Options about histograms, and about programs that come and go.

use clap::Args;
use pcp_archive::replay::{Gaps, ReplaySelection};

use crate::Failure;

/// Options for quantiles of histograms.
#[derive(Debug, Args)]
pub(crate) struct QuantileOptions {
    /// Show these quantiles of each histogram instead of its buckets, for the values counted
    /// since the previous sample: 0.5,0.99,1
    #[arg(long, value_name = "QUANTILE", value_delimiter = ',', value_parser = quantile)]
    pub(crate) quantile: Vec<f64>,
}

impl QuantileOptions {
    /// Replaces the histograms of a selection by their quantiles, if there are any options.
    ///
    /// # Errors
    ///
    /// [`Failure::NoData`] if none of the metrics is a histogram.
    pub(crate) fn apply(&self, selection: &mut ReplaySelection<'_>) -> Result<(), Failure> {
        if !self.quantile.is_empty() && selection.quantiles(&self.quantile) == 0 {
            return Err(Failure::NoData("none of the metrics is a histogram".to_owned()));
        }
        Ok(())
    }
}

/// Parses a quantile on the command line.
pub(crate) fn quantile(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (0.0..=1.0).contains(number));
    number.ok_or_else(|| "not a number from 0 to 1".to_owned())
}

/// Options for time without values.
#[derive(Debug, Args)]
pub(crate) struct GapOptions {
    /// Follow PCP's rules for gaps: continue values over the time in which a program was not
    /// running, and show no rates or quantiles for an interval with a gap in logging; by default
    /// these are computed from the logged part of the interval
    #[arg(long)]
    pcp: bool,
}

impl GapOptions {
    pub(crate) const fn gaps(&self) -> Gaps {
        if self.pcp { Gaps::Join } else { Gaps::Keep }
    }
}

//! Options about histograms, and about programs that come and go.

use clap::Args;
use pcp_archive::Metadata;
use pcp_archive::replay::{Gaps, HistogramValue, ReplaySelection, SelectedMetric};
use pcp_archive::scan::histogram::HistogramLayout;
use pcp_archive::scan::{Selector, select_instances};
use pcp_types::names;

use crate::Failure;

/// The end of the name of a counter of buckets.
const BUCKETS: &str = ".bucket";
/// The numbers that stand for a histogram where no quantiles are asked for.
pub(crate) const DEFAULT_VALUES: [HistogramValue; 4] = [
    HistogramValue::Rate,
    HistogramValue::Quantile(0.5),
    HistogramValue::Quantile(0.99),
    HistogramValue::Maximum,
];

/// Options for quantiles of histograms.
#[derive(Debug, Args)]
pub(crate) struct QuantileOptions {
    /// Show these quantiles of each histogram: p50,p99,1; p99, 99 and 0.99 are the same. They are of
    /// the values counted since the previous sample
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

pub(crate) const DEFAULT_QUANTILES: [f64; 3] = [0.5, 0.99, 1.0];

/// Returns whether any of the names is that of a counter of buckets.
pub(crate) fn names_any_bucket_counter(names: &[String]) -> bool {
    bucket_selectors(names).next().is_some()
}

/// Returns whether any of the names, in full or as a pattern, is that of this counter of buckets.
pub(crate) fn names_bucket_counter(names: &[String], counter: &SelectedMetric) -> bool {
    bucket_selectors(names).any(|selector| names::selects(selector.name(), &counter.name))
}

fn bucket_selectors(names: &[String]) -> impl Iterator<Item = Selector> {
    let selectors = names.iter().filter_map(|name| name.parse::<Selector>().ok());
    selectors.filter(|selector| selector.name().ends_with(BUCKETS))
}

/// The metrics and instances that the command line names.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NamedSeries<'o> {
    pub(crate) metrics: &'o [String],
    pub(crate) instances: &'o [String],
}

impl NamedSeries<'_> {
    /// Returns whether a counter of buckets is shown as the histogram that it belongs to, not as
    /// buckets: unless the counter itself is named, or instances that are buckets of it.
    pub(crate) fn selects_histogram(self, metadata: &Metadata, counter: &SelectedMetric) -> bool {
        if names_bucket_counter(self.metrics, counter) {
            return false;
        }
        self.instances.is_empty() || has_histograms(metadata, counter, self.instances)
    }
}

/// Returns whether the texts select any of the histograms that a metric counts by bucket.
fn has_histograms(metadata: &Metadata, buckets: &SelectedMetric, texts: &[String]) -> bool {
    let layout = HistogramLayout::find(metadata, &buckets.name, &buckets.desc);
    let Some(domain) = layout.and_then(|layout| layout.indom()) else { return false };
    !select_instances(texts, metadata.indom_history(domain)).is_empty()
}

/// Replaces the counters of buckets in a selection by [`DEFAULT_VALUES`] of their histograms, except
/// those that are named.
pub(crate) fn replace_bucket_counters(selection: &mut ReplaySelection<'_>, named: NamedSeries<'_>) {
    let metadata = selection.metadata();
    selection.histograms(&DEFAULT_VALUES, |counter| named.selects_histogram(metadata, counter));
}

/// Parses a quantile on the command line: `0.99`, `p99`, `99` and `99%` are the same. 1 is the maximum, not
/// a percentage, and what is slightly above it likely a mistake.
pub(crate) fn quantile(text: &str) -> Result<f64, String> {
    let plain = text.strip_prefix('p').or_else(|| text.strip_suffix('%'));
    let number: Option<f64> = plain.unwrap_or(text).parse().ok();
    let is_percent = plain.is_some() || number.is_some_and(|number| number >= 2.0);
    let fraction = if is_percent { number.map(|number| number / 100.0) } else { number };
    fraction
        .filter(|fraction| (0.0..=1.0).contains(fraction))
        .ok_or_else(|| "not a quantile such as 0.99, p99 or 99".to_owned())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_a_fraction_or_a_percentage() {
        for (text, expected) in [
            ("0.99", 0.99),
            ("p99", 0.99),
            ("99", 0.99),
            ("99%", 0.99),
            ("1%", 0.01),
            ("p99.9", 0.999),
            ("1", 1.0),
            ("p100", 1.0),
            ("100", 1.0),
            ("p1", 0.01),
            ("0", 0.0),
        ] {
            let found = quantile(text).unwrap();
            assert!((found - expected).abs() < 1e-12, "{text}: {found}");
        }
        for text in ["", "p", "-1", "1.5", "101", "p101", "NaN", "q99"] {
            assert!(quantile(text).is_err(), "{text}");
        }
    }
}

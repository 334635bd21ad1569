//! Conditions of `--fail-if`: `p99(mmv.shop.latency) > +5%`.

use std::collections::BTreeSet;
use std::str::FromStr;

use pcp_archive::Source;
use pcp_archive::scan::{Selection, Selector};
use pcp_types::names::selects;

use crate::comparison::{Change, SeriesName, Statistic, Verdict, series_names};
use crate::options::histograms;

/// A change that makes the command fail.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Condition {
    text: String,
    statistic: Statistic,
    /// A name, branch or pattern, also with labels.
    metric: String,
    has_labels: bool,
    instance: Option<String>,
    /// True for `>`, false for `<`.
    is_above: bool,
    /// Ratio of the new to the base value beyond which the condition holds.
    limit: f64,
}

/// The result of a condition for a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Holds,
    DoesNotHold,
    /// The change is unclear, and its ratio may be beyond the limit.
    Undecided,
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse(text).ok_or_else(|| {
            "expected STATISTIC(METRIC) > +PERCENT% or < -PERCENT%, with rate, value, share, mean \
             or a quantile such as p99: p99(mmv.shop.latency) > +5%, and METRIC as above, also with \
             labels"
                .to_owned()
        })
    }
}

fn parse(text: &str) -> Option<Condition> {
    let (statistic, rest) = text.trim().split_once('(')?;
    let (metric, comparison) = rest.rsplit_once(')')?;
    let statistic = match statistic.trim() {
        "rate" => Statistic::Rate,
        "value" => Statistic::Value,
        "share" => Statistic::Share,
        "mean" => Statistic::Mean,
        quantile => Statistic::Quantile(histograms::quantile(quantile).ok()?),
    };
    let metric = metric.trim();
    let (metric, instance) = match metric.strip_suffix(']').and_then(|rest| rest.split_once('[')) {
        Some((metric, instance)) => (metric, Some(instance.to_owned())),
        None => (metric, None),
    };
    let has_labels = metric.parse::<Selector>().ok()?.has_matchers();
    let comparison = comparison.trim();
    let is_above = comparison.starts_with('>');
    let percent = comparison.strip_prefix(['>', '<'])?.trim().strip_suffix('%')?;
    let percent: f64 = percent.parse().ok().filter(|percent: &f64| percent.is_finite())?;
    if metric.is_empty() || (percent < 0.0) == is_above && percent != 0.0 {
        return None;
    }
    let limit = 1.0 + percent / 100.0;
    let text = text.trim().to_owned();
    let metric = metric.to_owned();
    Some(Condition { text, statistic, metric, has_labels, instance, is_above, limit })
}

impl Condition {
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the rank of the quantile that it is about.
    pub(super) fn rank(&self) -> Option<f64> {
        match self.statistic {
            Statistic::Quantile(rank) => Some(rank),
            _ => None,
        }
    }

    /// Returns the series of a source that its labels select; none without labels.
    pub(super) fn labelled_series(&self, source: Source<'_>) -> BTreeSet<SeriesName> {
        let mut selection = Selection::new(source);
        if self.has_labels {
            selection.select(&self.metric);
        }
        series_names(&selection)
    }

    /// Returns whether it is about a change. `labelled` are the series that its labels select in
    /// any run.
    pub(super) fn is_about(&self, change: &Change, labelled: &BTreeSet<&SeriesName>) -> bool {
        let is_instance =
            self.instance.as_deref().is_none_or(|name| change.instance.as_deref() == Some(name));
        let is_metric = if self.has_labels {
            labelled.contains(&(change.metric.clone(), change.instance.clone()))
        } else {
            selects(&self.metric, &change.metric)
        };
        change.is_of(self.statistic) && is_instance && is_metric
    }

    /// Returns whether a change is significant and exceeds the limit. Any increase from 0 exceeds
    /// it.
    pub(super) fn outcome(&self, change: &Change) -> Outcome {
        let ratio = change.ratio();
        let is_beyond = match (change.verdict, self.is_above) {
            (Verdict::Higher, true) => ratio.is_none_or(|ratio| ratio > self.limit),
            (Verdict::Lower, false) => ratio.is_none_or(|ratio| ratio < self.limit),
            (Verdict::Unclear, true) if change.high.is_none_or(|high| high > self.limit) => {
                return Outcome::Undecided;
            }
            (Verdict::Unclear, false) if change.low.is_none_or(|low| low < self.limit) => {
                return Outcome::Undecided;
            }
            _ => false,
        };
        if is_beyond { Outcome::Holds } else { Outcome::DoesNotHold }
    }
}

#[cfg(test)]
mod tests {
    use pcp_archive::Units;

    use super::*;

    fn change(base: f64, new: f64, verdict: Verdict) -> Change {
        Change {
            metric: "mmv.shop.orders".to_owned(),
            instance: None,
            statistic: Statistic::Rate,
            units: Units::count(),
            base,
            new,
            low: None,
            high: None,
            base_may_be_zero: true,
            verdict,
            significance: 0.0,
        }
    }

    #[test]
    fn conditions_are_read() {
        let condition: Condition =
            " p99( mmv.shop.latency[endpoint=search] ) > +5%".parse().unwrap();
        assert_eq!(condition.statistic, Statistic::Quantile(0.99));
        assert_eq!(condition.metric, "mmv.shop.latency");
        assert_eq!(condition.instance.as_deref(), Some("endpoint=search"));
        assert!(condition.is_above && (condition.limit - 1.05).abs() < 1e-12);
        let fewer: Condition = "rate(mmv.shop)<-10%".parse().unwrap();
        assert!(!fewer.is_above && (fewer.limit - 0.9).abs() < 1e-12);
        let labelled: Condition = "share(a{path=~\"/(a|b)[1]\"}) > 0%".parse().unwrap();
        assert!(labelled.has_labels && labelled.instance.is_none());
        for text in [
            "",
            "p99",
            "p99()>5%",
            "p99(a)>5",
            "p99(a)=5%",
            "p99(a)<5%",
            "top(a)>1%",
            "p99(a)>x%",
            "p99(a{b)>1%",
        ] {
            assert!(text.parse::<Condition>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_condition_holds_for_certain_changes_alone() {
        let condition: Condition = "rate(mmv.shop) > +5%".parse().unwrap();
        assert!(condition.is_about(&change(1.0, 2.0, Verdict::Higher), &BTreeSet::new()));
        let outcome = |base, new, verdict| condition.outcome(&change(base, new, verdict));
        assert_eq!(outcome(1.0, 1.06, Verdict::Higher), Outcome::Holds);
        assert_eq!(outcome(0.0, 1.0, Verdict::Higher), Outcome::Holds);
        assert_eq!(outcome(1.0, 1.04, Verdict::Higher), Outcome::DoesNotHold);
        assert_eq!(outcome(2.0, 1.0, Verdict::Lower), Outcome::DoesNotHold);
        assert_eq!(outcome(1.0, 1.0, Verdict::Same), Outcome::DoesNotHold);
    }

    #[test]
    fn a_condition_is_undecided_while_bounds_allow_it() {
        let unclear = |low, high| Change { low, high, ..change(1.0, 1.01, Verdict::Unclear) };
        let above: Condition = "rate(mmv.shop) > +5%".parse().unwrap();
        assert_eq!(above.outcome(&unclear(Some(0.98), Some(1.04))), Outcome::DoesNotHold);
        assert_eq!(above.outcome(&unclear(Some(0.98), Some(1.06))), Outcome::Undecided);
        assert_eq!(above.outcome(&unclear(Some(0.98), None)), Outcome::Undecided);
        let below: Condition = "rate(mmv.shop) < -5%".parse().unwrap();
        assert_eq!(below.outcome(&unclear(Some(0.96), None)), Outcome::DoesNotHold);
        assert_eq!(below.outcome(&unclear(Some(0.94), Some(1.04))), Outcome::Undecided);
    }
}

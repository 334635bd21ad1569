//! Conditions of `--fail-if`: `p99(mmv.shop.latency) > +5%`.

use std::str::FromStr;

use pcp_types::names::selects;

use crate::comparison::{Change, Statistic, Verdict};
use crate::options::histograms;

/// A change that makes the command fail.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Condition {
    text: String,
    statistic: Statistic,
    metric: String,
    instance: Option<String>,
    /// True for `>`, false for `<`.
    is_above: bool,
    /// Ratio of the new to the base value beyond which the condition holds.
    limit: f64,
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse(text).ok_or_else(|| {
            "expected STATISTIC(METRIC) > +PERCENT% or < -PERCENT%, with rate, value, share, mean \
             or a quantile such as p99: p99(mmv.shop.latency) > +5%"
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
    let comparison = comparison.trim();
    let is_above = comparison.starts_with('>');
    let percent = comparison.strip_prefix(['>', '<'])?.trim().strip_suffix('%')?;
    let percent: f64 = percent.parse().ok().filter(|percent: &f64| percent.is_finite())?;
    if metric.is_empty() || (percent < 0.0) == is_above && percent != 0.0 {
        return None;
    }
    let limit = 1.0 + percent / 100.0;
    let text = text.trim().to_owned();
    Some(Condition { text, statistic, metric: metric.to_owned(), instance, is_above, limit })
}

impl Condition {
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn is_about(&self, change: &Change) -> bool {
        let is_instance =
            self.instance.as_deref().is_none_or(|name| change.instance.as_deref() == Some(name));
        let is_statistic = match (self.statistic, change.statistic) {
            (Statistic::Quantile(one), Statistic::Quantile(other)) => (one - other).abs() < 1e-9,
            (one, other) => one == other,
        };
        is_statistic && is_instance && selects(&self.metric, &change.metric)
    }

    /// Returns whether a change is significant and exceeds the limit. Any increase from 0 exceeds
    /// it.
    pub(super) fn holds(&self, change: &Change) -> bool {
        let ratio = change.ratio();
        match change.verdict {
            Verdict::Higher if self.is_above => ratio.is_none_or(|ratio| ratio > self.limit),
            Verdict::Lower if !self.is_above => ratio.is_none_or(|ratio| ratio < self.limit),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use pcp_archive::Units;

    use super::*;

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
        for text in
            ["", "p99", "p99()>5%", "p99(a)>5", "p99(a)=5%", "p99(a)<5%", "top(a)>1%", "p99(a)>x%"]
        {
            assert!(text.parse::<Condition>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_condition_holds_for_certain_changes_alone() {
        let condition: Condition = "rate(mmv.shop) > +5%".parse().unwrap();
        let change = |base, new, verdict| Change {
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
        };
        assert!(condition.is_about(&change(1.0, 2.0, Verdict::Higher)));
        assert!(condition.holds(&change(1.0, 1.06, Verdict::Higher)));
        assert!(condition.holds(&change(0.0, 1.0, Verdict::Higher)));
        assert!(!condition.holds(&change(1.0, 1.04, Verdict::Higher)));
        assert!(!condition.holds(&change(1.0, 2.0, Verdict::Unclear)));
        assert!(!condition.holds(&change(2.0, 1.0, Verdict::Lower)));
    }
}

//! Derived metrics of a selection, and their values beside those of its
//! metrics.

use std::collections::BTreeSet;

use pcp_types::{InDom, InstanceId, Pmid, Timestamp};

use super::expression::{Before, Bound, Expression, ExpressionError, Moments, Values};
use super::expression::{Operand, Scope};
use super::histogram::Quantile;
use super::rate::{rate_between, value_of};
use super::{Replay, Sample, SelectedMetric, Selection};
use crate::scan::instances;
use crate::{MetricDesc, Source, Value};

/// The domain of the numbers that PCP gives to derived metrics
/// (`DYNAMIC_PMID`).
const DOMAIN: u32 = 511;
/// How many bits of a PMID are the item.
const ITEM_BITS: u32 = 10;

/// A derived metric of a selection.
#[derive(Debug, Clone)]
pub(super) struct Derived {
    pub(super) metric: SelectedMetric,
    rule: Rule,
}

/// How the values of a derived metric come about.
#[derive(Debug, Clone)]
pub(super) enum Rule {
    Expression(Bound),
    Quantile(Quantile),
}

/// What was derived so far, and the metrics that it takes.
#[derive(Debug, Clone, Default)]
pub(super) struct Derivations {
    pub(super) all: Vec<Derived>,
    /// The names of the operands, in the order of their places.
    pub(super) operands: Vec<String>,
}

impl Selection<'_> {
    /// Adds a metric that is worked out of others: see
    /// [`expression`](super::expression). Derived metrics come behind all
    /// that are selected, and have numbers of domain 511 as in PCP.
    ///
    /// # Errors
    ///
    /// For a metric that the archive does not have, for operands that do not
    /// go together, and for a name that a metric has already.
    pub fn derive(&mut self, expression: &Expression) -> Result<(), ExpressionError> {
        let source = self.chosen.source();
        let is_taken = |name: &str| source.metadata().metric_by_name(name).is_some();
        if expression.is_named() && is_taken(expression.name()) {
            return Err(expression.taken());
        }
        self.derive_of(expression)
    }

    /// Replaces each selected metric that has instances by what their values add
    /// up to, or with `rates` the rates of counters. Metrics whose values are no
    /// numbers stay as they are.
    ///
    /// # Errors
    ///
    /// As [`derive`](Self::derive).
    pub fn sum_instances(&mut self, rates: bool) -> Result<(), ExpressionError> {
        let is_summed =
            |metric: &SelectedMetric| metric.desc.indom.is_some() && metric.has_numbers();
        let metrics = self.metrics().iter().filter(|metric| is_summed(metric)).cloned();
        let metrics: Vec<SelectedMetric> = metrics.collect();
        self.chosen.retain(|metric| !is_summed(metric));
        for metric in metrics {
            self.derive_of(&Expression::sum_of(&metric.name, rates && metric.has_rates()))?;
        }
        Ok(())
    }

    fn derive_of(&mut self, expression: &Expression) -> Result<(), ExpressionError> {
        let source = self.chosen.source();
        let mut names = Names { source, derivations: &mut self.derivations };
        let bound = Bound::new(expression, &mut names)?;
        let desc = |pmid| bound.desc(pmid);
        let is_added =
            self.add(expression.name().to_owned(), desc, Rule::Expression(bound.clone()));
        is_added.then_some(()).ok_or_else(|| expression.too_many())
    }

    /// Adds a derived metric; whether there was a number for it.
    pub(super) fn add(
        &mut self,
        name: String,
        desc: impl Fn(Pmid) -> MetricDesc,
        rule: Rule,
    ) -> bool {
        let number = self.derivations.all.len() as u32 + 1;
        let Ok(pmid) = Pmid::new(DOMAIN, number >> ITEM_BITS, number & ((1 << ITEM_BITS) - 1))
        else {
            return false;
        };
        self.derivations
            .all
            .push(Derived { metric: SelectedMetric { name, desc: desc(pmid) }, rule });
        true
    }

    /// The place of a metric among the operands.
    pub(super) fn operand(&mut self, name: &str) -> usize {
        self.derivations.operand(name)
    }

    /// The derived metrics so far.
    pub fn derived(&self) -> impl ExactSizeIterator<Item = &SelectedMetric> {
        self.derivations.all.iter().map(|derived| &derived.metric)
    }

    /// Whether a derived metric compares two moments: with
    /// [`Replay::at_since`] it has values, with [`Replay::at`] none.
    pub fn needs_moment_before(&self) -> bool {
        self.derivations.all.iter().any(|derived| match &derived.rule {
            Rule::Expression(bound) => bound.needs_moment_before,
            Rule::Quantile(_) => true,
        })
    }
}

impl Derivations {
    fn operand(&mut self, name: &str) -> usize {
        let known = self.operands.iter().position(|operand| operand == name);
        known.unwrap_or_else(|| {
            self.operands.push(name.to_owned());
            self.operands.len() - 1
        })
    }
}

/// What names mean in an archive.
struct Names<'n, 'a> {
    source: Source<'a>,
    derivations: &'n mut Derivations,
}

impl Scope for Names<'_, '_> {
    fn metric(&mut self, name: &str) -> Option<Operand> {
        let desc = self.source.metadata().metric_by_name(name)?.desc;
        Some(Operand { place: self.derivations.operand(name), desc })
    }

    fn instances(&self, indom: InDom, name: &str) -> Vec<InstanceId> {
        let history = self.source.metadata().indom_history(indom);
        let mut meant: Vec<_> = instances::meant(&[name], history).into_iter().collect();
        meant.sort_unstable();
        meant
    }
}

/// All tracks of a replay at a moment, and at one before it.
pub(super) struct Pair<'r> {
    pub(super) since: Timestamp,
    pub(super) at: Timestamp,
    pub(super) now: Vec<Values<'r>>,
    /// Without the counters where a mark lies in between; `None` if the other
    /// moment is not before, or outside.
    pub(super) before: Option<Vec<Values<'r>>>,
    /// `now`, but counters as their rates.
    pub(super) rates: Vec<Values<'r>>,
}

impl Replay<'_> {
    /// As [`at`](Self::at), and `rate` and `delta` of derived metrics reach
    /// back to `since`. Without it they have no values.
    pub fn at_since(&self, at: Timestamp, since: Timestamp) -> Option<Sample<'_>> {
        if self.derived.is_empty() {
            return self.at(at);
        }
        let mut pair = self.pair(at, since)?;
        let derived = self.derived.iter().map(|derived| self.derived_of(derived, &pair)).collect();
        Some(self.sample(at, std::mem::take(&mut pair.now), derived))
    }

    /// Whether a metric, given by its place in [`metrics`](Self::metrics), is
    /// derived.
    pub fn is_derived(&self, metric: usize) -> bool {
        (self.shown()..self.metrics.len()).contains(&metric)
    }

    /// What is shown of all tracks, and the derived metrics.
    pub(super) fn sample<'r>(
        &self,
        timestamp: Timestamp,
        mut values: Vec<Values<'r>>,
        derived: Vec<Values<'r>>,
    ) -> Sample<'r> {
        values.truncate(self.shown());
        values.extend(derived);
        Sample { timestamp, is_mark: false, values }
    }

    /// The derived metrics at one moment.
    pub(super) fn derived_at<'r>(&self, now: &[Values<'r>]) -> Vec<Values<'r>> {
        let moments = Moments { places: &self.operands, now, before: None };
        let values = |derived: &Derived| match &derived.rule {
            Rule::Expression(bound) => bound.values(&moments),
            Rule::Quantile(_) => Values::new(),
        };
        self.derived.iter().map(values).collect()
    }

    /// A derived metric at the later of two moments.
    pub(super) fn derived_of<'r>(&self, derived: &Derived, pair: &Pair<'r>) -> Values<'r> {
        let bound = match &derived.rule {
            Rule::Expression(bound) => bound,
            Rule::Quantile(quantile) => return quantile.values(&self.operands, pair),
        };
        let before = pair.before.as_deref().map(|values| Before {
            values,
            rates: &pair.rates,
            seconds: pair.at.seconds_since(pair.since),
        });
        bound.values(&Moments { places: &self.operands, now: &pair.now, before })
    }

    /// A derived counter as its rate: from its values at the two moments, none
    /// where it went down.
    pub(super) fn derived_rate<'r>(&self, derived: &Derived, pair: &Pair<'r>) -> Values<'r> {
        let now = self.derived_of(derived, pair);
        let bound = match &derived.rule {
            Rule::Expression(bound) if derived.metric.has_rates() => bound,
            _ => return now,
        };
        let Some(values) = pair.before.as_deref() else { return Values::new() };
        let moments = Moments { places: &self.operands, now: values, before: None };
        let befores = bound.values(&moments);
        let rate = |(instance, after): (Option<InstanceId>, Value<'r>)| {
            let first = (pair.since, value_of(&befores, instance)?);
            let rate = rate_between(&derived.metric, first, (pair.at, after))?;
            Some((instance, Value::Double(rate)))
        };
        now.into_iter().filter_map(rate).collect()
    }

    /// The instances of a derived metric that can have values.
    pub(super) fn derived_instances(&self, metric: usize) -> BTreeSet<Option<InstanceId>> {
        let derived = metric.checked_sub(self.shown()).and_then(|place| self.derived.get(place));
        let of = |operand: usize| {
            let track = self.operands.get(operand).and_then(|&place| self.tracks.get(place));
            track.into_iter().flat_map(super::Track::instances).collect()
        };
        match derived.map(|derived| &derived.rule) {
            Some(Rule::Expression(bound)) => bound.instances(&of),
            Some(Rule::Quantile(quantile)) => quantile.instances(),
            None => BTreeSet::new(),
        }
    }
}

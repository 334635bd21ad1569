//! Derived metrics of a selection, and their values next to those of its
//! metrics.

use std::collections::BTreeSet;
use std::sync::Arc;

use hashbrown::HashSet;
use pcp_types::names::selects;

use super::expression::{
    Before, Bound, Expression, ExpressionError, ExpressionValues, Filter, HistogramPart,
    InstanceGroups, Limit, LimitedOperand, NameResolver, Operand, OperandValues, OverFunction,
    Problem, QuantileOf,
};
use super::histogram::{Histogram, HistogramCounts, HistogramValue, Quantile};
use super::over::ValuesOver;
use super::two_moments::{TwoMoments, value_of};
use super::{Decrease, MetricTrack, Replay, ReplaySelection, Sample, rate_between};
use crate::analysis::growth::lifetime;
use crate::scan::{MetricLabels, SelectedMetric, Selector, select_instances};
use crate::{InDom, IndomHistory, InstanceId, MetricDesc, Pmid, Source, Timestamp, Value};

/// The domain of the PMIDs that PCP gives to derived metrics
/// (`DYNAMIC_PMID`).
const DOMAIN: u32 = 511;
const ITEM_BITS: u32 = 10;

/// A derived metric of a selection.
#[derive(Debug, Clone)]
pub(super) struct DerivedMetric {
    pub(super) metric: SelectedMetric,
    rule: Rule,
}

/// The computation of a derived metric's values.
#[derive(Debug, Clone)]
enum Rule {
    Expression(Bound),
    Quantile(Quantile),
}

/// The groups of instances with the same values of some labels: a domain of expressions.
#[derive(Debug, Clone)]
pub(super) struct LabelGroups {
    labels: Vec<String>,
    /// Names of the groups, which have their places as numbers.
    names: Vec<Arc<str>>,
}

impl LabelGroups {
    fn named(&self) -> impl Iterator<Item = (InstanceId, &Arc<str>)> {
        let numbered = (0..).zip(&self.names);
        numbered.filter_map(|(number, name)| Some((InstanceId::new(number).ok()?, name)))
    }

    /// Returns the group of a name, which is added if necessary.
    fn group(&mut self, name: String) -> Option<InstanceId> {
        let known = self.names.iter().position(|known| **known == *name);
        let place = known.unwrap_or_else(|| {
            self.names.push(name.into());
            self.names.len() - 1
        });
        InstanceId::new(i32::try_from(place).ok()?).ok()
    }
}

fn groups_of(all: &[LabelGroups], indom: InDom) -> Option<&LabelGroups> {
    if indom.domain() != DOMAIN {
        return None;
    }
    all.get((indom.serial() as usize).checked_sub(1)?)
}

/// A part of an expression that compares two moments itself.
#[derive(Debug, Clone)]
pub(super) enum IntervalValue {
    Histogram(Quantile),
    Over(ValuesOver),
}

impl IntervalValue {
    fn values<'r>(
        &self,
        replay: &Replay<'_>,
        since: Timestamp,
        at: Timestamp,
    ) -> ExpressionValues<'r> {
        match self {
            Self::Histogram(quantile) => quantile.values(replay, since, at),
            Self::Over(over) => over.values(replay, since, at),
        }
    }
}

/// The derived metrics so far, and their operands.
#[derive(Debug, Clone, Default)]
pub(super) struct Derivations {
    pub(super) all: Vec<DerivedMetric>,
    /// The operands, in the order of their places.
    pub(super) operands: Vec<NeededMetric>,
    /// The values over intervals in expressions, in the order of their places.
    pub(super) of_interval: Vec<IntervalValue>,
    /// The domains of groups of instances by labels, in the order of their numbers.
    pub(super) groups: Vec<LabelGroups>,
    /// The definitions that names may select, with their metadata.
    defined: Vec<(Expression, MetricDesc)>,
}

/// A metric that derived ones need.
#[derive(Debug, Clone)]
pub(super) struct NeededMetric {
    pub(super) name: String,
    /// Instances that are needed; `None` for all.
    pub(super) instances: Option<HashSet<InstanceId>>,
}

impl ReplaySelection<'_> {
    /// Adds a metric that is computed from others: see
    /// [`expression`](super::expression). Derived metrics follow all selected ones, and
    /// have PMIDs of domain 511 as in PCP.
    ///
    /// # Errors
    ///
    /// For a metric that the archive does not have, for operands that cannot be
    /// combined, for a name that a metric of the archive has, and for more than 4 194 303
    /// derived metrics.
    pub fn derive(&mut self, expression: &Expression) -> Result<(), ExpressionError> {
        let source = self.chosen.source();
        if expression.is_named() && source.metadata().metric_by_name(expression.name()).is_some() {
            return Err(expression.taken());
        }
        self.derive_of(expression)
    }

    /// Adds a definition that [`select_defined`](Self::select_defined) selects and
    /// whose metadata `meta=` may refer to. As in PCP, the first definition of a name
    /// counts, and a metric of the archive hides all definitions of its name.
    ///
    /// # Errors
    ///
    /// As [`derive`](Self::derive).
    pub fn define(&mut self, expression: &Expression) -> Result<(), ExpressionError> {
        let source = self.chosen.source();
        let mut operands = Vec::new();
        let mut of_interval = Vec::new();
        let mut groups = Vec::new();
        let Derivations { all, defined, .. } = &self.derivations;
        let operands = &mut operands;
        let of_interval = &mut of_interval;
        let groups = &mut groups;
        let mut names = Names { source, all, defined, operands, of_interval, groups };
        if names.desc(expression.name()).is_none() {
            let desc = Bound::new(expression, &mut names)?.desc(Pmid::from_raw(0));
            self.derivations.defined.push((expression.clone(), desc));
        }
        Ok(())
    }

    /// Derives the defined metrics that a name, a branch or a pattern
    /// [selects], and returns how many there are.
    pub fn select_defined(&mut self, name: &str) -> usize {
        let defined = self.derivations.defined.iter();
        let selected = defined.filter(|(definition, _)| selects(name, definition.name()));
        let selected: Vec<_> = selected.map(|(definition, _)| definition.clone()).collect();
        let mut count = 0;
        for expression in &selected {
            let is_known = self.derived().any(|metric| metric.name == expression.name());
            count += usize::from(is_known || self.derive_of(expression).is_ok());
        }
        count
    }

    /// Replaces each selected metric that has instances by the sum of their values, or
    /// with `rates` by the sum of the rates of a counter. Metrics whose values are not
    /// numbers are not replaced.
    ///
    /// # Errors
    ///
    /// As [`derive`](Self::derive).
    pub fn sum_instances(&mut self, rates: bool) -> Result<(), ExpressionError> {
        let is_summed =
            |metric: &SelectedMetric| metric.desc.indom.is_some() && metric.has_numbers();
        let summed = self.metrics().iter().filter(|metric| is_summed(metric));
        let sums = summed.map(|metric| {
            let chosen = self.chosen.labelled_instances(metric.desc.pmid).map(sorted);
            Expression::sum_of(&metric.name, chosen, rates && metric.has_rates())
        });
        let sums: Vec<Expression> = sums.collect();
        self.chosen.retain(|metric| !is_summed(metric));
        for sum in &sums {
            self.derive_of(sum)?;
        }
        Ok(())
    }

    /// Replaces each selected histogram, its buckets and its sum, by quantiles
    /// of the values that it counted since the moment before, from 0 for the
    /// least value to 1 for the largest. They are metrics called `NAME.p50`,
    /// `NAME.p99.9`, with an instance for each where one metric has the buckets of
    /// several. Returns the number of metrics of buckets.
    ///
    /// The width of the buckets limits the accuracy: 6.3 % for a precision of 3.
    pub fn quantiles(&mut self, quantiles: &[f64]) -> usize {
        let values: Vec<HistogramValue> =
            quantiles.iter().map(|rank| HistogramValue::Quantile(*rank)).collect();
        self.histograms(&values, |_| true)
    }

    /// Replaces each selected histogram, its buckets and its sum, by numbers of what it counted
    /// since the moment before, as [`quantiles`](Self::quantiles) does; the rate is a metric with
    /// the name of the histogram. Only those whose counter of buckets `is_replaced`. Returns
    /// how many there were.
    pub fn histograms(
        &mut self,
        values: &[HistogramValue],
        is_replaced: impl Fn(&SelectedMetric) -> bool,
    ) -> usize {
        let source = self.chosen.source();
        let all = self.chosen.metrics().iter().filter(|metric| is_replaced(metric));
        let histograms = all.filter_map(|one| {
            let mut histogram = Histogram::find(source.metadata(), one)?;
            let buckets = self.chosen.labelled_instances(one.desc.pmid);
            if let Some(buckets) = buckets {
                histogram.limit_to(buckets);
            }
            Some((histogram, buckets.cloned()))
        });
        let histograms: Vec<_> = histograms.collect();
        for (histogram, buckets) in &histograms {
            let parts = [Some(histogram.counts.desc.pmid), histogram.sum()];
            self.chosen.retain(|metric| !parts.contains(&Some(metric.desc.pmid)));
            let operands = &mut self.derivations.operands;
            let (counts, sum) = operands_of(histogram, buckets.as_ref(), operands);
            for &value in values {
                let name = histogram.value_name(value);
                let rule = Rule::Quantile(histogram.quantile(value, counts, sum));
                self.add(name, |pmid| histogram.desc(pmid, value), rule);
            }
        }
        histograms.len()
    }

    fn derive_of(&mut self, expression: &Expression) -> Result<(), ExpressionError> {
        let source = self.chosen.source();
        let Derivations { all, defined, operands, of_interval, groups } = &mut self.derivations;
        let mut names = Names { source, all, defined, operands, of_interval, groups };
        let bound = Bound::new(expression, &mut names)?;
        let rule = Rule::Expression(bound.clone());
        let is_added = self.add(expression.name().to_owned(), |pmid| bound.desc(pmid), rule);
        is_added.then_some(()).ok_or_else(|| expression.too_many())
    }

    /// Adds a derived metric; whether there was a number for it.
    fn add(&mut self, name: String, desc: impl Fn(Pmid) -> MetricDesc, rule: Rule) -> bool {
        let number = self.derivations.all.len() as u32 + 1;
        let Ok(pmid) = Pmid::new(DOMAIN, number >> ITEM_BITS, number & ((1 << ITEM_BITS) - 1))
        else {
            return false;
        };
        self.derivations
            .all
            .push(DerivedMetric { metric: SelectedMetric { name, desc: desc(pmid) }, rule });
        true
    }

    /// Returns the metrics of the archive whose values are used: those that are selected, and the
    /// operands of derived ones.
    pub fn used_metrics(&self) -> Vec<SelectedMetric> {
        let metadata = self.chosen.source().metadata();
        let mut used = self.metrics().to_vec();
        for NeededMetric { name, .. } in &self.derivations.operands {
            let is_new = used.iter().all(|metric| metric.name != *name);
            if let Some(metric) = metadata.metric_by_name(name).filter(|_| is_new) {
                used.push(SelectedMetric { name: name.clone(), desc: metric.desc });
            }
        }
        used
    }

    /// Returns the derived metrics so far.
    pub fn derived(&self) -> impl ExactSizeIterator<Item = &SelectedMetric> {
        self.derivations.all.iter().map(|derived| &derived.metric)
    }

    /// Returns whether a derived metric compares two moments: with [`Replay::at_since`] it has
    /// values, with [`Replay::sample_at`] none.
    pub fn needs_moment_before(&self) -> bool {
        self.derivations.all.iter().any(|derived| match &derived.rule {
            Rule::Expression(bound) => bound.needs_moment_before,
            Rule::Quantile(_) => true,
        })
    }
}

/// Returns the index of a metric among the operands, to which it and the instances that are
/// needed, or all, are added if necessary.
fn place_of(
    operands: &mut Vec<NeededMetric>,
    name: &str,
    instances: Option<&HashSet<InstanceId>>,
) -> usize {
    let Some(place) = operands.iter().position(|operand| operand.name == name) else {
        operands.push(NeededMetric { name: name.to_owned(), instances: instances.cloned() });
        return operands.len() - 1;
    };
    if let Some(known) = operands.get_mut(place) {
        match (&mut known.instances, instances) {
            (Some(known), Some(more)) => known.extend(more),
            (known, _) => *known = None,
        }
    }
    place
}

/// Returns the indexes of the metrics of a histogram among the operands: of these buckets, or of
/// all, and of the sum.
fn operands_of(
    histogram: &Histogram,
    buckets: Option<&HashSet<InstanceId>>,
    operands: &mut Vec<NeededMetric>,
) -> (usize, Option<usize>) {
    let counts = place_of(operands, &histogram.counts.name, buckets);
    let sum = histogram.sum();
    (counts, sum.map(|_| place_of(operands, &histogram.sum_name(), histogram.chosen())))
}

fn sorted(instances: &HashSet<InstanceId>) -> Vec<InstanceId> {
    let mut sorted: Vec<InstanceId> = instances.iter().copied().collect();
    sorted.sort_unstable();
    sorted
}

/// The metrics of an archive and those derived from them.
struct Names<'n, 'a> {
    source: Source<'a>,
    all: &'n [DerivedMetric],
    defined: &'n [(Expression, MetricDesc)],
    operands: &'n mut Vec<NeededMetric>,
    of_interval: &'n mut Vec<IntervalValue>,
    groups: &'n mut Vec<LabelGroups>,
}

impl NameResolver for Names<'_, '_> {
    fn metric(&mut self, name: &str) -> Option<Operand> {
        let desc = self.source.metadata().metric_by_name(name)?.desc;
        Some(Operand { place: place_of(self.operands, name, None), desc })
    }

    fn limited(&mut self, name: &str, limit: &Limit) -> Result<Option<LimitedOperand>, Problem> {
        let Some(metric) = self.source.metadata().metric_by_name(name) else { return Ok(None) };
        let desc = metric.desc;
        let instances = match limit {
            Limit::Ids(ids) => Some(ids.iter().copied().collect()),
            Limit::Labels(selector) => self.with_labels(selector, &desc)?,
        };
        let needed = instances.as_ref().zip(desc.indom).map(|(instances, indom)| {
            // Where none of the instances exists, others show that the metric is logged.
            let history = self.source.metadata().identities(indom);
            let others = history.map(lifetime::witnesses).unwrap_or_default();
            instances.iter().copied().chain(others).collect()
        });
        let place = place_of(self.operands, name, needed.as_ref().or(instances.as_ref()));
        Ok(Some((Operand { place, desc }, instances.as_ref().map(sorted))))
    }

    fn nearest(&self, name: &str) -> Option<String> {
        self.source.metadata().nearest_name(name)
    }

    fn desc(&self, name: &str) -> Option<MetricDesc> {
        let logged = self.source.metadata().metric_by_name(name).map(|metric| metric.desc);
        let all =
            self.all.iter().map(|derived| (derived.metric.name.as_str(), derived.metric.desc));
        let defined = self.defined.iter().map(|(definition, desc)| (definition.name(), *desc));
        let derived = all.chain(defined).find(|(known, _)| *known == name);
        logged.or_else(|| derived.map(|(_, desc)| desc))
    }

    fn histogram(
        &mut self,
        part: HistogramPart,
        of: &Selector,
    ) -> Result<Option<QuantileOf>, Problem> {
        let metadata = self.source.metadata();
        let names = [of.name().to_owned(), format!("{}.bucket", of.name())];
        let histogram = names.into_iter().find_map(|name| {
            let desc = metadata.metric_by_name(&name)?.desc;
            Histogram::find(metadata, &SelectedMetric { name, desc })
        });
        let Some(mut histogram) = histogram else { return Ok(None) };
        let mut buckets = None;
        if of.has_matchers() {
            buckets = self.with_labels(of, &histogram.counts.desc)?;
        }
        if let Some(buckets) = &buckets {
            histogram.limit_to(buckets);
        }
        let (counts, sum) = operands_of(&histogram, buckets.as_ref(), self.operands);
        let value = match part {
            HistogramPart::Rate => HistogramValue::Rate,
            HistogramPart::Quantile(rank) => HistogramValue::Quantile(rank),
            HistogramPart::Below(limit, units) => {
                HistogramValue::Below(histogram.in_own_units(limit, units)?)
            }
        };
        let quantile = histogram.quantile(value, counts, sum);
        let instances = quantile.instances().into_iter().collect();
        self.of_interval.push(IntervalValue::Histogram(quantile));
        let place = self.of_interval.len() - 1;
        Ok(Some((Operand { place, desc: histogram.desc(Pmid::from_raw(0), value) }, instances)))
    }

    fn over(&mut self, function: OverFunction, of: Bound) -> usize {
        let (mut operands, histograms) = of.operands();
        for histogram in histograms {
            let Some(IntervalValue::Histogram(quantile)) = self.of_interval.get(histogram) else {
                continue;
            };
            operands.push(quantile.counts());
        }
        self.of_interval.push(IntervalValue::Over(ValuesOver { function, of, operands }));
        self.of_interval.len() - 1
    }

    fn groups(&mut self, indom: InDom, labels: &[String]) -> Result<InstanceGroups, Problem> {
        let metadata = self.source.metadata();
        let known = MetricLabels::of_domain(metadata, indom);
        for label in labels {
            if known.values(label).is_empty() {
                let metric = format!("domain {indom}");
                let label = label.clone();
                let known = known.names().join(", ");
                return Err(Problem::UnknownLabel { metric, label, known });
            }
        }
        let place = self.groups.iter().position(|groups| groups.labels == labels);
        let place = place.unwrap_or_else(|| {
            self.groups.push(LabelGroups { labels: labels.to_vec(), names: Vec::new() });
            self.groups.len() - 1
        });
        let members = self.instances(indom, None);
        let problem = || Problem::NoInstances("by".to_owned());
        let groups = self.groups.get_mut(place).ok_or_else(problem)?;
        let mut of_members = Vec::new();
        for member in members {
            let mut pairs = Vec::new();
            for label in labels {
                pairs.push(format!("{label}={}", known.value(member, label)));
            }
            of_members.push((member, groups.group(pairs.join(",")).ok_or_else(problem)?));
        }
        let indom = InDom::new(DOMAIN, place as u32 + 1).map_err(|_| problem())?;
        Ok((indom, of_members))
    }

    fn instances(&self, indom: InDom, filter: Option<&Filter>) -> Vec<InstanceId> {
        if let Some(groups) = groups_of(self.groups, indom) {
            let named = groups.named();
            let chosen =
                named.filter(|(_, name)| filter.is_none_or(|filter| filter.is_match(name)));
            return chosen.map(|(group, _)| group).collect();
        }
        let history = self.source.metadata().indom_history(indom);
        let named = history.map(IndomHistory::by_identity).into_iter();
        let named = named.flat_map(IndomHistory::ever_named);
        let mut ids: Vec<InstanceId> = match filter {
            None => named.map(|instance| instance.id).collect(),
            Some(Filter::Name(name)) => select_instances(&[name], history).into_iter().collect(),
            Some(Filter::Pattern { regex, is_negated }) => named
                .filter(|instance| {
                    let first_word = instance.name.split(' ').next().unwrap_or_default();
                    (regex.is_match(first_word) || regex.is_match(&instance.name)) != *is_negated
                })
                .map(|instance| instance.id)
                .collect(),
        };
        ids.sort_unstable();
        ids.dedup();
        ids
    }
}

impl Names<'_, '_> {
    /// Returns the instances of a metric that labels select; `None` for all of one without
    /// instances that they select.
    fn with_labels(
        &self,
        selector: &Selector,
        desc: &MetricDesc,
    ) -> Result<Option<HashSet<InstanceId>>, Problem> {
        let labels = MetricLabels::new(self.source.metadata(), desc);
        if let Some(label) = selector.unknown_label(&labels) {
            let known = match labels.names().as_slice() {
                [] => "none".to_owned(),
                names => names.join(", "),
            };
            let metric = selector.name().to_owned();
            let label = label.to_owned();
            return Err(Problem::UnknownLabel { metric, label, known });
        }
        Ok(selector.instances(&labels, desc.indom))
    }
}

/// Finds the lines of the histograms of quantiles, once for all quantiles of the same
/// histograms.
pub(super) fn find_histograms(
    all: &mut [DerivedMetric],
    in_expressions: &mut [IntervalValue],
    tracks: &[MetricTrack],
    operands: &[usize],
    decrease: Decrease,
) {
    let mut known: Vec<Quantile> = Vec::new();
    let all = all.iter_mut().filter_map(|derived| match &mut derived.rule {
        Rule::Quantile(quantile) => Some(quantile),
        Rule::Expression(_) => None,
    });
    let in_expressions = in_expressions.iter_mut().filter_map(|value| match value {
        IntervalValue::Histogram(quantile) => Some(quantile),
        IntervalValue::Over(_) => None,
    });
    for quantile in all.chain(in_expressions) {
        if let Some(same) = known.iter().find(|one| one.has_same_histograms(quantile)) {
            quantile.share_lines(same);
            continue;
        }
        quantile.find_lines(tracks, operands, decrease);
        known.push(quantile.clone());
    }
}

impl Replay<'_> {
    /// Returns a sample as [`sample_at`](Self::sample_at), with `rate` and `delta` of derived
    /// metrics reaching back to `since`; without `since` they have no values.
    pub fn at_since(&self, at: Timestamp, since: Timestamp) -> Option<Sample<'_>> {
        if self.derived.is_empty() {
            return self.sample_at(at);
        }
        let mut pair = self.pair(at, since)?;
        let derived =
            self.derived.iter().map(|derived| self.derived_values(derived, &pair)).collect();
        Some(self.sample(at, std::mem::take(&mut pair.now), derived))
    }

    /// Returns whether a metric, given by its index in [`metrics`](Self::metrics), is derived.
    pub fn is_derived(&self, metric: usize) -> bool {
        (self.shown()..self.metrics.len()).contains(&metric)
    }

    /// Returns the instances of a domain of an expression such as `sum by (path) (x)`, and their
    /// names; none of a domain of the archive.
    pub fn groups(&self, indom: InDom) -> impl Iterator<Item = (InstanceId, &Arc<str>)> {
        groups_of(&self.groups, indom).into_iter().flat_map(LabelGroups::named)
    }

    /// Returns the name of the histogram of which a metric, given by its place in
    /// [`metrics`](Self::metrics), is a quantile.
    pub fn histogram_of(&self, metric: usize) -> Option<&str> {
        let derived = self.derived.get(metric.checked_sub(self.shown())?)?;
        match &derived.rule {
            Rule::Quantile(quantile) if quantile.is_quantile() => Some(quantile.histogram_name()),
            _ => None,
        }
    }

    /// Counts the values in the buckets of the histograms between `since` and `at`, of which a
    /// metric is a quantile: by instance, in the order of the buckets. Empty where it has no
    /// quantile.
    pub fn bucket_counts(
        &self,
        metric: usize,
        since: Timestamp,
        at: Timestamp,
    ) -> Vec<HistogramCounts> {
        let derived = metric.checked_sub(self.shown()).and_then(|place| self.derived.get(place));
        match derived.map(|derived| &derived.rule) {
            Some(Rule::Quantile(quantile)) if self.is_covered(since) && self.is_covered(at) => {
                quantile.bucket_counts(self, since, at)
            }
            _ => Vec::new(),
        }
    }

    pub(super) fn sample<'r>(
        &self,
        timestamp: Timestamp,
        mut values: Vec<ExpressionValues<'r>>,
        derived: Vec<ExpressionValues<'r>>,
    ) -> Sample<'r> {
        values.truncate(self.shown());
        for (track, values) in self.tracks.iter().zip(&mut values) {
            if track.shown.is_some() {
                values.retain(|(instance, _)| track.shows(*instance));
            }
        }
        values.extend(derived);
        Sample { timestamp, is_mark: false, values }
    }

    pub(super) fn derived_at<'r>(&self, now: &[ExpressionValues<'r>]) -> Vec<ExpressionValues<'r>> {
        let places = &self.operands;
        let gaps = self.gaps;
        let of_interval = &|_| ExpressionValues::new();
        let moments = OperandValues { places, now, before: None, of_interval, gaps };
        self.derived
            .iter()
            .map(|derived| match &derived.rule {
                Rule::Expression(bound) => bound.values(&moments),
                Rule::Quantile(_) => ExpressionValues::new(),
            })
            .collect()
    }

    /// Returns the values of a derived metric at the later of two moments.
    pub(super) fn derived_values<'r>(
        &self,
        derived: &DerivedMetric,
        pair: &TwoMoments<'r>,
    ) -> ExpressionValues<'r> {
        match &derived.rule {
            Rule::Expression(bound) => self.with_moments(pair, |moments| bound.values(moments)),
            Rule::Quantile(quantile) => quantile.values(self, pair.since, pair.at),
        }
    }

    pub(super) fn with_moments<'r, T>(
        &self,
        pair: &TwoMoments<'r>,
        evaluate: impl FnOnce(&OperandValues<'_, 'r>) -> T,
    ) -> T {
        let before = pair.before.as_deref().map(|values| Before {
            values,
            rates: &pair.rates,
            grown: &pair.grown,
            seconds: pair.at.seconds_since(pair.since),
        });
        let of_interval = &|place: usize| {
            let value = self.of_interval.get(place);
            value.map(|value| value.values(self, pair.since, pair.at)).unwrap_or_default()
        };
        let places = &self.operands;
        let now = &pair.now;
        evaluate(&OperandValues { places, now, before, of_interval, gaps: self.gaps })
    }

    /// Returns the rate of a derived counter, from its values at the two moments, or from the
    /// growth of its operands if a run of one ended or began in between; none if it decreased.
    pub(super) fn derived_rate<'r>(
        &self,
        derived: &DerivedMetric,
        pair: &TwoMoments<'r>,
    ) -> ExpressionValues<'r> {
        let bound = match &derived.rule {
            Rule::Expression(bound) if derived.metric.has_rates() => bound,
            _ => return self.derived_values(derived, pair),
        };
        let Some(values) = pair.before.as_deref() else { return ExpressionValues::new() };
        let (now, by_run) =
            self.with_moments(pair, |moments| (bound.values(moments), bound.rates_by_run(moments)));
        if let Some(rates) = by_run {
            return rates;
        }
        let places = &self.operands;
        let of_interval = &|_| ExpressionValues::new();
        let gaps = self.gaps;
        let moments = OperandValues { places, now: values, before: None, of_interval, gaps };
        let befores = bound.values(&moments);
        let rates = now.into_iter().filter_map(|(instance, after)| {
            let before = value_of(&befores, instance)?;
            let rate = rate_between(&derived.metric, [pair.since, pair.at], before, after)?;
            Some((instance, Value::Double(rate)))
        });
        rates.collect()
    }

    pub(super) fn derived_instances(&self, metric: usize) -> BTreeSet<Option<InstanceId>> {
        let derived = metric.checked_sub(self.shown()).and_then(|place| self.derived.get(place));
        match derived.map(|derived| &derived.rule) {
            Some(Rule::Expression(bound)) => bound.instances(&|operand: usize| {
                let track = self.operands.get(operand).and_then(|&place| self.tracks.get(place));
                track.into_iter().flat_map(MetricTrack::instances).collect()
            }),
            Some(Rule::Quantile(quantile)) => quantile.instances(),
            None => BTreeSet::new(),
        }
    }
}

//! Evaluates an expression at a moment.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use smallvec::SmallVec;

use super::Bound;
use super::arithmetic::{binary, compare, constant, growth, is_true, negative, rescaled};
use super::check::{Action, ConvertedOperand, Term};
use super::parse::{Function, Operator};
use crate::analysis::replay::Gaps;
use crate::{InDom, InstanceId, Semantics, Value, ValueType};

/// The values of one metric by instance, ascending; `None` without instances.
pub type ExpressionValues<'v> = SmallVec<[(Option<InstanceId>, Value<'v>); 1]>;

pub(crate) struct OperandValues<'m, 'v> {
    /// For each operand the index of its values in the lists below.
    pub(crate) places: &'m [usize],
    pub(crate) now: &'m [ExpressionValues<'v>],
    /// `None` if there is no moment before, or it is not before.
    pub(crate) before: Option<Before<'m, 'v>>,
    /// Computes a number of a histogram, or a function of the values since then, by its index.
    pub(crate) of_interval: &'m dyn Fn(usize) -> ExpressionValues<'v>,
    /// Decides the sum of instances that do not exist.
    pub(crate) gaps: Gaps,
}

#[derive(Debug)]
pub(crate) struct Before<'m, 'v> {
    pub(crate) values: &'m [ExpressionValues<'v>],
    /// The rates since then of the operands that are counters.
    pub(crate) rates: &'m [ExpressionValues<'v>],
    /// For each operand of which a run ended or began since then, what it counted; it has no
    /// value at the moment before.
    pub(crate) grown: &'m [Option<ExpressionValues<'v>>],
    /// The time since then; more than 0.
    pub(crate) seconds: f64,
}

impl<'v> OperandValues<'_, 'v> {
    pub(super) fn values(
        &self,
        operand: usize,
        list: &[ExpressionValues<'v>],
    ) -> ExpressionValues<'v> {
        let place = self.places.get(operand);
        place.and_then(|&place| list.get(place)).cloned().unwrap_or_default()
    }

    /// Returns what an operand counted, if one of its runs ended or began.
    pub(super) fn grown<'b>(
        &self,
        operand: usize,
        before: &Before<'b, 'v>,
    ) -> Option<&'b ExpressionValues<'v>> {
        before.grown.get(*self.places.get(operand)?)?.as_ref()
    }
}

impl Bound {
    pub(crate) fn values<'v>(&self, moments: &OperandValues<'_, 'v>) -> ExpressionValues<'v> {
        self.root.values(moments, moments.now)
    }

    /// Returns the instances that can have values, given those of the operands.
    pub(crate) fn instances(
        &self,
        of: &dyn Fn(usize) -> BTreeSet<Option<InstanceId>>,
    ) -> BTreeSet<Option<InstanceId>> {
        self.root.instances(&|place, _| of(place))
    }
}

impl Term {
    pub(super) fn values<'v>(
        &self,
        moments: &OperandValues<'_, 'v>,
        at: &[ExpressionValues<'v>],
    ) -> ExpressionValues<'v> {
        match &self.action {
            Action::Constant(value, ids) => ids.iter().map(|id| (*id, *value)).collect(),
            Action::NoValue => ExpressionValues::new(),
            Action::Metric(operand) => moments.values(*operand, at),
            Action::OfInterval(place, _) | Action::Over(place, _) => (moments.of_interval)(*place),
            Action::By(function, inner, groups) => {
                let mut by_group: BTreeMap<InstanceId, ExpressionValues<'v>> = BTreeMap::new();
                for (instance, value) in inner.values(moments, at) {
                    let Some(instance) = instance else { continue };
                    let place = groups.binary_search_by_key(&instance, |(member, _)| *member);
                    if let Some((_, group)) = place.ok().and_then(|place| groups.get(place)) {
                        by_group.entry(*group).or_default().push((Some(instance), value));
                    }
                }
                let values = by_group.into_iter().filter_map(|(group, values)| {
                    let value = self.over_all(*function, values).into_iter().next();
                    value.map(|(_, value)| (Some(group), value))
                });
                values.collect()
            }
            Action::Top(count, inner) => top(inner.values(moments, at), *count),
            Action::Or(parts, ids) => {
                let [left, right] = parts.each_ref().map(|operand| {
                    let values = operand.term.values(moments, at);
                    each(values, |value| constant(operand.in_scale(value)?, self.value_type))
                });
                let [_, second] = parts.as_ref();
                let single = right.first().filter(|_| second.term.indom.is_none());
                match single {
                    Some((_, value)) => {
                        let all = ids.iter().map(|id| (*id, *value)).collect();
                        either(left, &all)
                    }
                    None => either(left, &right),
                }
            }
            Action::Not(inner) => {
                each(inner.values(moments, at), |value| Some(Value::U32((!is_true(value)?).into())))
            }
            Action::Choice(parts) => self.choice(parts, moments, at),
            Action::Negative(inner) => {
                each(inner.values(moments, at), |value| negative(value, self.value_type))
            }
            Action::Binary { operator, left, right } => {
                let singular = [left, right].map(|operand| operand.term.indom.is_none());
                let [left, right] = [left, right].map(|operand| {
                    let values = operand.term.values(moments, at);
                    each(values, |value| operand.in_scale(value))
                });
                apply_operator(*operator, self.value_type, &left, &right, singular)
            }
            Action::Instances(inner, ids) => of_instances(inner.values(moments, at), ids),
            Action::Rescale(inner, conversion) => each(inner.values(moments, at), |value| {
                Some(rescaled(value, conversion.apply(value.as_f64()?)))
            }),
            Action::Call(Function::Rate, inner) => inner.rates(moments),
            Action::Call(Function::Delta, inner) => self.delta(inner, moments),
            Action::Call(function, inner) => {
                let values = inner.values(moments, at);
                let is_sum = *function == Function::Sum && moments.gaps == Gaps::Keep;
                if is_sum && values.is_empty() && inner.is_logged(moments, at) {
                    return self.nothing();
                }
                self.over_all(*function, values)
            }
        }
    }

    /// Returns whether instances of a metric other than the selected ones have values, as when
    /// the selected ones do not exist yet, or no longer.
    fn is_logged<'v>(&self, moments: &OperandValues<'_, 'v>, at: &[ExpressionValues<'v>]) -> bool {
        let has_values = |inner: &Self, list| {
            inner
                .selected_operand()
                .is_some_and(|operand| !moments.values(operand, list).is_empty())
        };
        match &self.action {
            Action::Call(Function::Rate, inner) => {
                moments.before.as_ref().is_some_and(|before| has_values(inner, before.rates))
            }
            Action::Call(Function::Delta, inner) => {
                let before = moments.before.as_ref();
                has_values(inner, at) && before.is_some_and(|it| has_values(inner, it.values))
            }
            _ => has_values(self, at),
        }
    }

    /// Returns the metric of which a term is the values of some instances.
    pub(super) fn selected_operand(&self) -> Option<usize> {
        match &self.action {
            Action::Metric(operand) => Some(*operand),
            Action::Instances(inner, _)
            | Action::Negative(inner)
            | Action::Rescale(inner, _)
            | Action::Call(Function::Instant, inner) => inner.selected_operand(),
            _ => None,
        }
    }

    pub(super) fn nothing<'v>(&self) -> ExpressionValues<'v> {
        let zero = constant(Value::U32(0), self.value_type);
        zero.map(|zero| (None, zero)).into_iter().collect()
    }

    /// Returns the values of the alternative that the condition selects, by instance. As in PCP
    /// there are none unless both alternatives have one, except for `novalue()`. A single value
    /// stands for each instance of the other alternative.
    fn choice<'v>(
        &self,
        parts: &[Self; 3],
        moments: &OperandValues<'_, 'v>,
        at: &[ExpressionValues<'v>],
    ) -> ExpressionValues<'v> {
        let [condition, yes, no] = parts.each_ref().map(|term| (term, term.values(moments, at)));
        let lacks_values = |(term, values): &(&Self, ExpressionValues<'v>)| {
            values.is_empty() && !matches!(term.action, Action::NoValue)
        };
        if lacks_values(&yes) || lacks_values(&no) {
            return ExpressionValues::new();
        }
        let value_of = |(term, values): &(&Self, ExpressionValues<'v>), id| {
            let id = term.indom.and(id);
            let place = values.binary_search_by_key(&id, |(id, _)| *id).ok()?;
            values.get(place).map(|(_, value)| *value)
        };
        let mut ids: Vec<_> = [&yes, &no]
            .into_iter()
            .filter(|(term, _)| term.indom == self.indom)
            .flat_map(|(_, values)| values.iter().map(|(id, _)| *id))
            .collect();
        ids.sort_unstable();
        ids.dedup();
        let chosen = ids.into_iter().filter_map(|id| {
            let holds = is_true(value_of(&condition, id)?)?;
            Some((id, value_of(if holds { &yes } else { &no }, id)?))
        });
        chosen.collect()
    }

    fn delta<'v>(&self, inner: &Self, moments: &OperandValues<'_, 'v>) -> ExpressionValues<'v> {
        if let Some(grown) = inner.growth_by_run(moments, self.value_type) {
            return grown;
        }
        let Some(before) = &moments.before else { return ExpressionValues::new() };
        let befores = inner.values(moments, before.values);
        let now = inner.values(moments, moments.now);
        pairs(&befores, &now)
            .filter_map(|(id, before, now)| Some((id, growth(before, now, self.value_type)?)))
            .collect()
    }

    fn rates<'v>(&self, moments: &OperandValues<'_, 'v>) -> ExpressionValues<'v> {
        let Some(before) = &moments.before else { return ExpressionValues::new() };
        let is_counter = self.semantics == Semantics::Counter;
        match &self.action {
            Action::Metric(operand) if is_counter => return moments.values(*operand, before.rates),
            Action::Instances(inner, ids) => return of_instances(inner.rates(moments), ids),
            _ => {}
        }
        if let Some(rates) = self.rates_by_run(moments) {
            return rates;
        }
        let befores = self.values(moments, before.values);
        let now = self.values(moments, moments.now);
        let scale = self.seconds_of_unit();
        let rates = pairs(&befores, &now).filter_map(|(id, first, last)| {
            if is_counter && compare(last, first) == Some(Ordering::Less) {
                return None;
            }
            let growth = growth(first, last, ValueType::Double)?.as_f64()?;
            Some((id, Value::Double(growth * scale / before.seconds)))
        });
        rates.collect()
    }

    fn over_all<'v>(
        &self,
        function: Function,
        values: ExpressionValues<'v>,
    ) -> ExpressionValues<'v> {
        let mut all = values.iter().map(|(_, value)| *value);
        let value = match function {
            // The others were handled where two moments are known.
            Function::Instant | Function::Rate | Function::Delta => return values,
            Function::Count => u32::try_from(values.len()).ok().map(Value::U32),
            Function::Scalar => all.next(),
            Function::Sum => all.next().and_then(|first| {
                all.try_fold(first, |sum, value| {
                    binary(Operator::Plus, sum, value, self.value_type)
                })
            }),
            Function::Avg => mean(&values).map(|mean| Value::Float(mean as f32)),
            Function::Min => extreme(all, Ordering::Less),
            Function::Max => extreme(all, Ordering::Greater),
        };
        value.map(|value| (None, value)).into_iter().collect()
    }

    /// Returns the instances that the term can have; `of` returns those of an operand by its place
    /// and domain.
    pub(super) fn instances(
        &self,
        of: &dyn Fn(usize, Option<InDom>) -> BTreeSet<Option<InstanceId>>,
    ) -> BTreeSet<Option<InstanceId>> {
        match &self.action {
            Action::Metric(place) => of(*place, self.indom),
            Action::Negative(inner)
            | Action::Not(inner)
            | Action::Top(_, inner)
            | Action::Rescale(inner, _)
            | Action::Over(_, inner)
            | Action::Call(Function::Rate | Function::Delta | Function::Instant, inner) => {
                inner.instances(of)
            }
            Action::Binary { left, right, .. } => {
                let left = &left.term;
                let right = &right.term;
                match (left.indom, right.indom) {
                    (Some(_), Some(_)) => &left.instances(of) & &right.instances(of),
                    (None, Some(_)) => right.instances(of),
                    _ => left.instances(of),
                }
            }
            Action::By(_, inner, groups) => {
                let members = inner.instances(of);
                let of_members =
                    groups.iter().filter(|(member, _)| members.contains(&Some(*member)));
                of_members.map(|(_, group)| Some(*group)).collect()
            }
            Action::Instances(inner, ids) => {
                let mut instances = inner.instances(of);
                instances.retain(|id| id.is_some_and(|id| ids.binary_search(&id).is_ok()));
                instances
            }
            Action::Choice(parts) => {
                let [_, yes, no] = parts.as_ref();
                let alternatives = [yes, no].into_iter().filter(|term| term.indom == self.indom);
                alternatives.flat_map(|term| term.instances(of)).collect()
            }
            Action::Constant(_, ids) | Action::OfInterval(_, ids) | Action::Or(_, ids) => {
                ids.iter().copied().collect()
            }
            Action::NoValue => BTreeSet::new(),
            Action::Call(..) => BTreeSet::from([None]),
        }
    }
}

impl ConvertedOperand {
    pub(super) fn in_scale<'v>(&self, value: Value<'v>) -> Option<Value<'v>> {
        match self.conversion {
            None => Some(value),
            Some(conversion) => Some(Value::Double(conversion.apply(value.as_f64()?))),
        }
    }
}

/// Returns the results of an operator, in a type, for the instances that both operands have.
/// `singular` is whether each operand has no instances.
pub(super) fn apply_operator<'v>(
    operator: Operator,
    value_type: ValueType,
    left: &ExpressionValues<'_>,
    right: &ExpressionValues<'_>,
    singular: [bool; 2],
) -> ExpressionValues<'v> {
    let value = |left, right| binary(operator, left, right, value_type);
    match (singular, left.as_slice(), right.as_slice()) {
        ([true, _], [(_, left)], right) => {
            right.iter().filter_map(|(id, right)| Some((*id, value(*left, *right)?))).collect()
        }
        ([_, true], left, [(_, right)]) => {
            left.iter().filter_map(|(id, left)| Some((*id, value(*left, *right)?))).collect()
        }
        ([false, false], left, right) => {
            pairs(left, right).filter_map(|(id, l, r)| Some((id, value(l, r)?))).collect()
        }
        _ => ExpressionValues::new(),
    }
}

/// Returns the values of these instances, which ascend.
pub(super) fn of_instances<'v>(
    mut values: ExpressionValues<'v>,
    ids: &[InstanceId],
) -> ExpressionValues<'v> {
    values.retain(|(id, _)| id.is_some_and(|id| ids.binary_search(&id).is_ok()));
    values
}

/// Returns the instances with the largest values, in the order of instances; NaN is the least.
fn top(mut values: ExpressionValues<'_>, count: usize) -> ExpressionValues<'_> {
    values.sort_by(|(_, one), (_, other)| rank_of(*other).total_cmp(&rank_of(*one)));
    values.truncate(count);
    values.sort_by_key(|(id, _)| *id);
    values
}

fn rank_of(value: Value<'_>) -> f64 {
    match value.as_f64() {
        Some(number) if !number.is_nan() => number,
        _ => f64::NEG_INFINITY,
    }
}

/// Returns the values of the first, and of the second for the instances that the first lacks. Both
/// ascend.
fn either<'v>(
    mut first: ExpressionValues<'v>,
    second: &ExpressionValues<'v>,
) -> ExpressionValues<'v> {
    let has = first.len();
    for (id, value) in second {
        let known = first.get(..has).unwrap_or_default();
        if known.binary_search_by_key(id, |(known, _)| *known).is_err() {
            first.push((*id, *value));
        }
    }
    first.sort_by_key(|(id, _)| *id);
    first
}

pub(super) fn each<'v>(
    values: ExpressionValues<'v>,
    result: impl Fn(Value<'v>) -> Option<Value<'v>>,
) -> ExpressionValues<'v> {
    values.into_iter().filter_map(|(id, value)| Some((id, result(value)?))).collect()
}

/// Returns the instances that both have, with the value in each. Both ascend.
pub(super) fn pairs<'l, 'r>(
    left: &[(Option<InstanceId>, Value<'l>)],
    right: &[(Option<InstanceId>, Value<'r>)],
) -> impl Iterator<Item = (Option<InstanceId>, Value<'l>, Value<'r>)> {
    let mut right = right.iter().peekable();
    left.iter().filter_map(move |(id, left)| {
        while right.next_if(|(other, _)| other < id).is_some() {}
        let (_, right) = right.next_if(|(other, _)| other == id)?;
        Some((*id, *left, *right))
    })
}

/// Returns the mean of numbers; `None` without any.
fn mean(values: &ExpressionValues<'_>) -> Option<f64> {
    let sum: Option<f64> = values.iter().map(|(_, value)| value.as_f64()).sum();
    Some(sum? / values.len() as f64).filter(|_| !values.is_empty())
}

/// Returns the least or largest value, without those that are NaN.
fn extreme<'v>(values: impl Iterator<Item = Value<'v>>, wanted: Ordering) -> Option<Value<'v>> {
    let comparable = values.filter(|value| compare(*value, *value).is_some());
    comparable.reduce(|best, value| if compare(value, best) == Some(wanted) { value } else { best })
}

//! The growth of an expression of which an operand was cut between the two moments: a run
//! of its program ended or began.
//!
//! The values at the two moments then say nothing: 100 requests, a restart, and 20 requests
//! are no growth of -80. But each operand has a growth of its own, run by run, and
//! sums, differences and multiples of counters grow as their operands do:
//!
//! | | grows by |
//! |---|---|
//! | `a + b`, `a - b` | the growth of a plus or minus that of b, where both have one |
//! | `-a`, `rescale(a, "...")` | the same of the growth of a |
//! | `a * n`, `a / n` | the growth of a times or over n at the later moment |
//! | `a[name]`, `matchinst(...)`, `scalar(a)` | that of the instances |
//! | `sum(a)` | the sum of the growth of the instances |
//!
//! Others, as `min(a)`, have none.

use pcp_types::Conversion;

use super::arithmetic::{constant, growth};
use super::check::{Action, ConvertedOperand, Term};
use super::evaluate::{Before, apply_operator, each, of_instances, pairs};
use super::parse::{Function, Operator};
use super::{Bound, ExpressionValues, OperandValues};
use crate::{Semantics, Value, ValueType};

#[derive(Debug, Clone, Copy, PartialEq)]
enum GrowthForm {
    /// Per second of the time in which the operand was observed.
    PerSecond,
    Total,
}

impl Bound {
    /// Returns the rate of the expression if an operand was cut, else `None`.
    pub(crate) fn rates_by_run<'v>(
        &self,
        moments: &OperandValues<'_, 'v>,
    ) -> Option<ExpressionValues<'v>> {
        self.root.rates_by_run(moments)
    }
}

impl Term {
    /// Returns the rates if an operand was cut, else `None`.
    pub(super) fn rates_by_run<'v>(
        &self,
        moments: &OperandValues<'_, 'v>,
    ) -> Option<ExpressionValues<'v>> {
        let before = moments.before.as_ref().filter(|before| self.is_cut(moments, before))?;
        let scale = self.seconds_of_unit();
        let growth = self.growth(moments, before, GrowthForm::PerSecond).unwrap_or_default();
        Some(each(growth, |value| Some(Value::Double(value.as_f64()? * scale))))
    }

    /// Returns the growth of the values in a type if an operand was cut, else `None`.
    pub(super) fn growth_by_run<'v>(
        &self,
        moments: &OperandValues<'_, 'v>,
        value_type: ValueType,
    ) -> Option<ExpressionValues<'v>> {
        let before = moments.before.as_ref().filter(|before| self.is_cut(moments, before))?;
        let grown = self.growth(moments, before, GrowthForm::Total).unwrap_or_default();
        Some(each(grown, |value| constant(value, value_type)))
    }

    /// Returns the seconds in the unit of a time; 1 for other units.
    pub(super) fn seconds_of_unit(&self) -> f64 {
        let is_time = self.units.time_dimension() == 1;
        self.units.time_scale_in_seconds().filter(|_| is_time).unwrap_or(1.0)
    }

    fn is_cut<'v>(&self, moments: &OperandValues<'_, 'v>, before: &Before<'_, 'v>) -> bool {
        let any = |terms: &[&Self]| terms.iter().any(|term| term.is_cut(moments, before));
        match &self.action {
            // What has no counter as an operand was not cut.
            Action::Constant(..)
            | Action::NoValue
            | Action::OfInterval(..)
            | Action::Over(..)
            | Action::By(..)
            | Action::Top(..)
            | Action::Or(..) => false,
            Action::Metric(operand) => moments.grown(*operand, before).is_some(),
            Action::Negative(inner)
            | Action::Not(inner)
            | Action::Instances(inner, _)
            | Action::Call(_, inner)
            | Action::Rescale(inner, _) => any(&[inner]),
            Action::Binary { left, right, .. } => any(&[&left.term, &right.term]),
            Action::Choice(parts) => any(&parts.each_ref()),
        }
    }

    /// Returns the growth of the values as doubles; `None` if it does not follow from the growth
    /// of the operands.
    fn growth<'v>(
        &self,
        moments: &OperandValues<'_, 'v>,
        before: &Before<'_, 'v>,
        form: GrowthForm,
    ) -> Option<ExpressionValues<'v>> {
        let of = |term: &Self| term.growth(moments, before, form);
        Some(match &self.action {
            Action::Metric(operand) if self.semantics == Semantics::Counter => match form {
                GrowthForm::PerSecond => {
                    let scale = self.seconds_of_unit();
                    each(moments.values(*operand, before.rates), |rate| {
                        Some(Value::Double(rate.as_f64()? / scale))
                    })
                }
                GrowthForm::Total => {
                    if let Some(grown) = moments.grown(*operand, before) {
                        return Some(grown.clone());
                    }
                    let values = [before.values, moments.now];
                    let [first, last] = values.map(|values| moments.values(*operand, values));
                    let grown = pairs(&first, &last).filter_map(|(id, first, last)| {
                        Some((id, growth(first, last, ValueType::Double)?))
                    });
                    grown.collect()
                }
            },
            Action::Negative(inner) => {
                each(of(inner)?, |value| Some(Value::Double(-value.as_f64()?)))
            }
            Action::Rescale(inner, conversion) => {
                each(of(inner)?, |value| difference(*conversion, value))
            }
            Action::Instances(inner, ids) => of_instances(of(inner)?, ids),
            Action::Call(Function::Sum, inner) => {
                let values = of(inner)?;
                let operand = inner.selected_operand();
                let grown = operand.and_then(|operand| moments.grown(operand, before));
                if values.is_empty() && grown.is_some_and(|grown| !grown.is_empty()) {
                    return Some(self.nothing());
                }
                let sum: Option<f64> = values.iter().map(|(_, value)| value.as_f64()).sum();
                let sum = sum.filter(|_| !values.is_empty());
                sum.map(|sum| (None, Value::Double(sum))).into_iter().collect()
            }
            Action::Call(Function::Scalar, inner) => {
                of(inner)?.first().map(|(_, value)| (None, *value)).into_iter().collect()
            }
            Action::Binary { operator, left, right } => {
                self.growth_of_both(*operator, [left, right], moments, before, form)?
            }
            _ => return None,
        })
    }

    /// Returns the growth of a sum, a difference or a multiple.
    fn growth_of_both<'v>(
        &self,
        operator: Operator,
        operands: [&ConvertedOperand; 2],
        moments: &OperandValues<'_, 'v>,
        before: &Before<'_, 'v>,
        form: GrowthForm,
    ) -> Option<ExpressionValues<'v>> {
        let is_sum = matches!(operator, Operator::Plus | Operator::Minus);
        let values = |operand: &ConvertedOperand| {
            let term = &operand.term;
            if !is_sum && term.semantics != Semantics::Counter {
                let values = term.values(moments, moments.now);
                return Some(each(values, |value| operand.in_scale(value)));
            }
            let grown = term.growth(moments, before, form)?;
            let Some(conversion) = operand.conversion else { return Some(grown) };
            Some(each(grown, |value| difference(conversion, value)))
        };
        let is_multiple = matches!(operator, Operator::Times | Operator::Over);
        let is_linear = is_sum || (is_multiple && self.semantics == Semantics::Counter);
        if !is_linear {
            return None;
        }
        let [left, right] = operands;
        let singular = operands.map(|operand| operand.term.indom.is_none());
        Some(apply_operator(operator, ValueType::Double, &values(left)?, &values(right)?, singular))
    }
}

fn difference(conversion: Conversion, value: Value<'_>) -> Option<Value<'_>> {
    Some(Value::Double(conversion.apply(value.as_f64()?) - conversion.apply(0.0)))
}

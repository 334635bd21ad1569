//! Type, semantics, units and instance domain of each part of an expression.
//!
//! The rules are PCP's (`check_expr` and `map_desc` in
//! `src/libpcp/src/derive_parser.y.in`):
//!
//! | | type | semantics | units |
//! |---|---|---|---|
//! | constant | 32 bits unsigned, or double | discrete | none |
//! | `a + b`, `a - b` | the wider one | counter if both are; one alone is an error | the same dimensions |
//! | `a * b` | the wider one | counter if one is; both are an error | powers added |
//! | `a / b` | double | counter if a is; b must not be one, unless both are: then the ratio of their growth, instant | powers subtracted |
//! | `a < b`, ... | 32 bits unsigned | never counter | none; the same dimensions, or a constant without units |
//! | `a && b`, `a \|\| b` | 32 bits unsigned | never counter | none; of operands as well |
//! | `!a` | 32 bits unsigned | never counter | none |
//! | `-a` | signed | instant | of a |
//! | `a ? b : c` | of b and c | of b and c | of b and c, which must agree in all three |
//! | `rate(a)` | double | instant | one power of time less |
//! | `delta(a)` | signed and wider | instant | of a |
//! | `avg(a)` | float | instant | of a |
//! | `count(a)` | 32 bits unsigned | instant | count |
//! | `sum(a)` | of a | of a | of a |
//! | `min(a)`, `max(a)` | of a | instant | of a |
//! | `instant(a)` | of a | instant if a is a counter | of a |
//! | `min_over(a)`, `max_over(a)`, `avg_over(a)` | double | instant; a must not be a counter | of a |
//! | `defined(m)` | 32 bits unsigned | discrete | none |
//! | `novalue()` | 32 bits signed | discrete | none |
//!
//! Where no operand is a counter, the result is discrete if all are, else
//! instant. Where scales differ, the result of arithmetic is a double. Types from
//! narrow to wide: 32 bits, the same unsigned, 64 bits, the same unsigned, float,
//! double.

use std::collections::BTreeSet;

use pcp_types::{CombinedUnits, Conversion};

use super::arithmetic::{constant, is_true};
use super::parse::{ConstantMetadata, Function, Node, NodeKind, Operator, OverFunction, is_range};
use super::{Expression, ExpressionError, Filter, Flaw, Limit, Problem};
use crate::scan::Selector;
use crate::{InDom, InstanceId, MetricDesc, Pmid, Semantics, Units, Value, ValueType};

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Operand {
    /// The index of its values.
    pub(crate) place: usize,
    pub(crate) desc: MetricDesc,
}

/// A metric as an operand, and the instances that are wanted, ascending; `None` for all.
pub(crate) type LimitedOperand = (Operand, Option<Vec<InstanceId>>);

/// A statistic of the values a histogram counted.
#[derive(Debug, Clone, Copy)]
pub(crate) enum HistogramPart {
    /// The number of values per second.
    Rate,
    Quantile(f64),
    /// The fraction of the values that are at most this, in these units.
    Below(f64, Units),
}

/// A number of a histogram as an operand, and the instances that it can have.
pub(crate) type QuantileOf = (Operand, Vec<Option<InstanceId>>);

/// The domain of groups, and each instance with its group.
pub(crate) type InstanceGroups = (InDom, Vec<(InstanceId, InstanceId)>);

/// The archive that gives names their meaning.
pub(crate) trait NameResolver {
    fn metric(&mut self, name: &str) -> Option<Operand>;
    /// Returns a metric of a name, and its instances within a limit.
    ///
    /// # Errors
    ///
    /// For a label that no instance has.
    fn limited(&mut self, name: &str, limit: &Limit) -> Result<Option<LimitedOperand>, Problem>;
    /// Returns the metadata of a metric, which may be a derived one.
    fn desc(&self, name: &str) -> Option<MetricDesc>;
    /// Returns the name of a metric that is most like another.
    fn nearest(&self, _name: &str) -> Option<String> {
        None
    }
    /// Returns a number of histograms, with the index of its values; `None` if the name is that of
    /// no histogram.
    ///
    /// # Errors
    ///
    /// For a label that no histogram has, and a limit in other units.
    fn histogram(
        &mut self,
        _value: HistogramPart,
        _of: &Selector,
    ) -> Result<Option<QuantileOf>, Problem> {
        Ok(None)
    }
    /// Returns the index of the values of a function of an expression in the interval.
    fn over(&mut self, _function: OverFunction, _of: Bound) -> usize {
        0
    }
    /// Returns the domain of the groups of a domain's instances by labels, and the group of each
    /// instance, ascending.
    ///
    /// # Errors
    ///
    /// For a label that no instance has.
    fn groups(&mut self, _indom: InDom, _labels: &[String]) -> Result<InstanceGroups, Problem> {
        Err(Problem::NoInstances("by".to_owned()))
    }
    /// Returns the instances that a domain ever had, ascending; without a filter all.
    fn instances(&self, indom: InDom, filter: Option<&Filter>) -> Vec<InstanceId>;
}

/// An expression over the metrics of an archive.
#[derive(Debug, Clone)]
pub(crate) struct Bound {
    pub(super) root: Term,
    /// It compares two moments.
    pub(crate) needs_moment_before: bool,
}

/// A part of it.
#[derive(Debug, Clone)]
pub(super) struct Term {
    pub(super) action: Action,
    pub(super) value_type: ValueType,
    pub(super) semantics: Semantics,
    pub(super) units: Units,
    pub(super) indom: Option<InDom>,
}

#[derive(Debug, Clone)]
pub(super) enum Action {
    /// The value of each of these instances.
    Constant(Value<'static>, Vec<Option<InstanceId>>),
    NoValue,
    Metric(usize),
    Negative(Box<Term>),
    Not(Box<Term>),
    Binary {
        operator: Operator,
        left: ConvertedOperand,
        right: ConvertedOperand,
    },
    Choice(Box<[Term; 3]>),
    Instances(Box<Term>, Vec<InstanceId>),
    Call(Function, Box<Term>),
    Rescale(Box<Term>, Conversion),
    /// The index of a number of a histogram in the interval, and the instances that it can have.
    OfInterval(usize, Vec<Option<InstanceId>>),
    /// The index of a function of the values of a term in the interval.
    Over(usize, Box<Term>),
    /// A function over the instances of each group: each instance and its group, ascending.
    By(Function, Box<Term>, Vec<(InstanceId, InstanceId)>),
    /// The instances with the largest values.
    Top(usize, Box<Term>),
    /// The values of the first term, and of the second for those of these instances that it lacks.
    Or(Box<[ConvertedOperand; 2]>, Vec<Option<InstanceId>>),
}

/// An operand and its conversion to the scales of the result.
#[derive(Debug, Clone)]
pub(super) struct ConvertedOperand {
    pub(super) term: Box<Term>,
    pub(super) conversion: Option<Conversion>,
}

impl Bound {
    /// # Errors
    ///
    /// For a metric that `scope` does not know, and for operands that cannot be
    /// combined.
    pub(crate) fn new(
        expression: &Expression,
        scope: &mut dyn NameResolver,
    ) -> Result<Self, ExpressionError> {
        let mut checker =
            TypeChecker { scope, within: None, is_over: false, needs_moment_before: false };
        let root =
            checker.term(&expression.root).map_err(|flaw| flaw.into_error(expression.text()))?;
        Ok(Self { root, needs_moment_before: checker.needs_moment_before })
    }

    /// Returns the metric and the instances, `None` for all, of an expression that is no more than
    /// those.
    pub(crate) fn selected_metric(&self) -> Option<(usize, Option<&[InstanceId]>)> {
        match &self.root.action {
            Action::Metric(operand) => Some((*operand, None)),
            Action::Instances(inner, ids) => match &inner.action {
                Action::Metric(operand) => Some((*operand, Some(ids))),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns the operands of an expression, and the indexes of the numbers of histograms in it.
    pub(crate) fn operands(&self) -> (Vec<usize>, Vec<usize>) {
        let mut operands = Vec::new();
        let mut histograms = Vec::new();
        self.root.collect_operands(&mut operands, &mut histograms);
        (operands, histograms)
    }

    pub(crate) fn desc(&self, pmid: Pmid) -> MetricDesc {
        let Term { value_type, semantics, units, indom, .. } = self.root;
        MetricDesc { pmid, value_type, indom, semantics, units }
    }
}

struct TypeChecker<'s> {
    scope: &'s mut dyn NameResolver,
    /// The `rate` or `delta` around the current part.
    within: Option<Function>,
    /// A `max_over` and the like is around the current part.
    is_over: bool,
    needs_moment_before: bool,
}

impl TypeChecker<'_> {
    fn term(&mut self, node: &Node) -> Result<Term, Flaw> {
        match &node.kind {
            NodeKind::Constant(value, metadata) => self.constant(node.at, Some(*value), metadata),
            NodeKind::NoValue(metadata) => self.constant(node.at, None, metadata),
            NodeKind::Metric(name) => self.metric(node.at, name),
            NodeKind::Limited(name, limit) => self.limited(node.at, name, limit),
            NodeKind::Defined(name) => {
                let value = Value::U32(self.scope.desc(name).is_some().into());
                self.constant(node.at, Some(value), &ConstantMetadata::default())
            }
            NodeKind::Negative(inner) => self.negative(inner),
            NodeKind::Not(inner) => self.not(inner),
            NodeKind::Binary(operator, left, right) => self.binary(node.at, *operator, left, right),
            NodeKind::Choice(parts) => self.choice(node.at, parts),
            NodeKind::Instances(inner, filter) => self.instances(node.at, inner, filter),
            NodeKind::Call(function, inner) => match self.histogram_in(inner) {
                Some(of) if *function == Function::Rate => {
                    self.histogram(node.at, HistogramPart::Rate, &of)
                }
                _ => self.call(node.at, *function, inner),
            },
            NodeKind::Rescale(inner, units) => self.rescale(node.at, inner, *units),
            NodeKind::Quantile(rank, of) => {
                self.histogram(node.at, HistogramPart::Quantile(*rank), of)
            }
            NodeKind::Below(limit, of) => {
                let found = self.term(limit)?;
                let value = match &found.action {
                    Action::Constant(value, _) => value.as_f64(),
                    _ => None,
                };
                let value = value.ok_or_else(|| Flaw::new(limit.at, Problem::NoLimit))?;
                self.histogram(node.at, HistogramPart::Below(value, found.units), of)
            }
            NodeKind::Over(function, inner) => self.over(node.at, *function, inner),
            NodeKind::By(function, labels, inner) => {
                self.by_labels(node.at, *function, labels, inner)
            }
            NodeKind::Top(count, inner) => self.top(node.at, *count, inner),
            NodeKind::Or(parts) => self.or(node.at, parts),
        }
    }

    fn constant(
        &self,
        at: usize,
        value: Option<Value<'static>>,
        metadata: &ConstantMetadata,
    ) -> Result<Term, Flaw> {
        let base = match &metadata.metric {
            None => None,
            Some(name) => {
                let desc = self.scope.desc(name);
                Some(desc.ok_or_else(|| Flaw::new(at, self.unknown_metric(name)))?)
            }
        };
        let value_type = match value {
            None => ValueType::I32,
            Some(Value::Double(_)) => ValueType::Double,
            Some(_) => ValueType::U32,
        };
        let value_type = base.map_or(value_type, |desc| desc.value_type);
        let value_type = metadata.value_type.unwrap_or(value_type);
        let semantics = base.map_or(Semantics::Discrete, |desc| desc.semantics);
        let units = base.map_or(Units::NONE, |desc| desc.units);
        let indom =
            metadata.indom.map_or_else(|| base.and_then(|desc| desc.indom), InDom::from_raw);
        let action = match value {
            None => Action::NoValue,
            Some(value) => {
                // As in PCP, a type that is stated must hold the fraction, that of a
                // metric need not.
                let is_stated = metadata.value_type.is_some();
                let is_integer = value_type.is_numeric() && value_type < ValueType::Float;
                let loses = matches!(value, Value::Double(_)) && is_stated && is_integer;
                let value = constant(value, value_type).filter(|_| !loses);
                let value = value.ok_or_else(|| Flaw::new(at, Problem::Constant(value_type)))?;
                let instances = match indom {
                    None => vec![None],
                    Some(indom) => {
                        self.scope.instances(indom, None).into_iter().map(Some).collect()
                    }
                };
                Action::Constant(value, instances)
            }
        };
        let semantics = metadata.semantics.unwrap_or(semantics);
        Ok(Term { action, value_type, semantics, units: metadata.units.unwrap_or(units), indom })
    }

    fn metric(&mut self, at: usize, name: &str) -> Result<Term, Flaw> {
        let operand = self.scope.metric(name);
        let operand = operand.ok_or_else(|| Flaw::new(at, self.unknown_metric(name)))?;
        Ok(Term::from_operand(operand))
    }

    /// Returns the error of a name that is not that of a metric, but may be that of a histogram.
    fn unknown_metric(&self, name: &str) -> Problem {
        if self.scope.desc(&format!("{name}.bucket")).is_some() {
            return Problem::Histogram(name.to_owned());
        }
        Problem::UnknownMetric { name: name.to_owned(), nearest: self.scope.nearest(name) }
    }

    /// Returns the error of a name that is not that of a histogram.
    fn no_histogram(&self, name: &str) -> Problem {
        let name = name.to_owned();
        if self.scope.desc(&name).is_some() {
            return Problem::NotHistogram(name);
        }
        let nearest = self.scope.nearest(&name);
        Problem::NoHistogram { name, nearest }
    }

    fn limited(&mut self, at: usize, name: &str, limit: &Limit) -> Result<Term, Flaw> {
        let flaw = |problem| Flaw::new(at, problem);
        let found = self.scope.limited(name, limit).map_err(flaw)?;
        let (operand, ids) = found.ok_or_else(|| flaw(self.unknown_metric(name)))?;
        let metric = Term::from_operand(operand);
        let Some(ids) = ids else { return Ok(metric) };
        let Term { value_type, semantics, units, indom, .. } = metric;
        let action = Action::Instances(Box::new(metric), ids);
        Ok(Term { action, value_type, semantics, units, indom })
    }

    /// Returns the selector of a part that is a histogram, with labels or without, and no metric.
    fn histogram_in(&self, node: &Node) -> Option<Selector> {
        let selector = match &node.kind {
            NodeKind::Metric(name) => Selector::of_name(name),
            NodeKind::Limited(_, Limit::Labels(selector)) => selector.clone(),
            _ => return None,
        };
        let name = selector.name();
        let is_histogram =
            self.scope.desc(name).is_none() && self.scope.desc(&format!("{name}.bucket")).is_some();
        is_histogram.then_some(selector)
    }

    /// Checks a statistic of a histogram, which compares two moments itself.
    fn histogram(&mut self, at: usize, part: HistogramPart, of: &Selector) -> Result<Term, Flaw> {
        let flaw = |problem| Flaw::new(at, problem);
        if self.within.is_some() {
            return Err(flaw(Problem::Nested(match part {
                HistogramPart::Rate => "rate",
                HistogramPart::Quantile(_) => "quantile",
                HistogramPart::Below(..) => "below",
            })));
        }
        self.needs_moment_before = true;
        let found = self.scope.histogram(part, of).map_err(flaw)?;
        let (operand, instances) =
            found.ok_or_else(|| Flaw::new(at, self.no_histogram(of.name())))?;
        let MetricDesc { value_type, semantics, units, indom, .. } = operand.desc;
        let action = Action::OfInterval(operand.place, instances);
        Ok(Term { action, value_type, semantics, units, indom })
    }

    /// Checks a function over groups of instances.
    fn by_labels(
        &mut self,
        at: usize,
        function: Function,
        labels: &[String],
        inner: &Node,
    ) -> Result<Term, Flaw> {
        let flaw = |problem| Flaw::new(at, problem);
        let inner = self.number(inner)?;
        let Some(indom) = inner.indom else {
            return Err(flaw(Problem::NoInstances("by".to_owned())));
        };
        if inner.semantics == Semantics::Counter {
            return Err(flaw(Problem::CounterIn("by")));
        }
        let (indom, groups) = self.scope.groups(indom, labels).map_err(flaw)?;
        let over_all = called(function, inner).map_err(flaw)?;
        let Term { action: Action::Call(function, inner), value_type, semantics, units, .. } =
            over_all
        else {
            return Err(flaw(Problem::NoInstances("by".to_owned())));
        };
        let action = Action::By(function, inner, groups);
        Ok(Term { action, value_type, semantics, units, indom: Some(indom) })
    }

    fn over(&mut self, at: usize, function: OverFunction, inner: &Node) -> Result<Term, Flaw> {
        let flaw = |problem| Flaw::new(at, problem);
        if self.within.is_some() {
            return Err(flaw(Problem::Nested(function.name())));
        }
        if self.is_over {
            return Err(flaw(Problem::NestedOver(function.name())));
        }
        self.is_over = true;
        let inner = self.number(inner);
        self.is_over = false;
        self.needs_moment_before = true;
        let inner = inner?;
        if inner.semantics == Semantics::Counter {
            return Err(flaw(Problem::CounterOver(function.name())));
        }
        let Term { units, indom, .. } = inner;
        let of = Bound { root: inner.clone(), needs_moment_before: true };
        let place = self.scope.over(function, of);
        let action = Action::Over(place, Box::new(inner));
        let value_type = ValueType::Double;
        Ok(Term { action, value_type, semantics: Semantics::Instant, units, indom })
    }

    fn top(&mut self, at: usize, count: usize, inner: &Node) -> Result<Term, Flaw> {
        let inner = self.number(inner)?;
        if inner.indom.is_none() {
            return Err(Flaw::new(at, Problem::NoInstances("topk".to_owned())));
        }
        if inner.semantics == Semantics::Counter {
            return Err(Flaw::new(at, Problem::CounterIn("topk")));
        }
        let Term { value_type, semantics, units, indom, .. } = inner;
        let action = Action::Top(count, Box::new(inner));
        Ok(Term { action, value_type, semantics, units, indom })
    }

    fn or(&mut self, at: usize, parts: &[Node; 2]) -> Result<Term, Flaw> {
        let flaw = |problem| Flaw::new(at, problem);
        let [left, right] = parts;
        let left = self.number(left)?;
        let right = self.number(right)?;
        if [&left, &right].iter().any(|term| term.semantics == Semantics::Counter) {
            return Err(flaw(Problem::CounterIn("or")));
        }
        if left.indom.is_none() && right.indom.is_some() {
            return Err(flaw(Problem::NoInstances("the left side of or".to_owned())));
        }
        // A constant without units has those of the other side.
        let combined = if right.is_constant() && right.units.is_plain_number() {
            CombinedUnits { units: left.units, left: None, right: None }
        } else {
            units(Operator::Plus, &left, &right).map_err(flaw)?
        };
        let indom = indom("or", left.indom, right.indom).map_err(flaw)?;
        let is_converted = combined.left.is_some() || combined.right.is_some();
        let holding_both = type_of_either(left.value_type, right.value_type);
        let value_type = if is_converted { ValueType::Double } else { holding_both };
        let semantics = level_semantics(&left, &right);
        let all = |_, indom: Option<InDom>| match indom {
            None => BTreeSet::from([None]),
            Some(indom) => self.scope.instances(indom, None).into_iter().map(Some).collect(),
        };
        let mut instances = left.instances(&all);
        if right.indom.is_some() {
            instances.extend(right.instances(&all));
        }
        let instances = instances.into_iter().collect();
        let left = ConvertedOperand { term: Box::new(left), conversion: combined.left };
        let right = ConvertedOperand { term: Box::new(right), conversion: combined.right };
        let action = Action::Or(Box::new([left, right]), instances);
        Ok(Term { action, value_type, semantics, units: combined.units, indom })
    }

    /// Checks a part whose values must be numbers.
    fn number(&mut self, node: &Node) -> Result<Term, Flaw> {
        let term = self.term(node)?;
        if term.value_type.is_numeric() {
            return Ok(term);
        }
        Err(Flaw::new(node.at, Problem::NotNumeric(term.value_type)))
    }

    fn negative(&mut self, inner: &Node) -> Result<Term, Flaw> {
        let inner = self.number(inner)?;
        let value_type = match inner.value_type {
            ValueType::U32 => ValueType::I32,
            ValueType::U64 => ValueType::I64,
            other => other,
        };
        let units = inner.units;
        let indom = inner.indom;
        let action = Action::Negative(Box::new(inner));
        Ok(Term { action, value_type, semantics: Semantics::Instant, units, indom })
    }

    fn not(&mut self, inner: &Node) -> Result<Term, Flaw> {
        let inner = self.number(inner)?;
        let semantics = level_semantics(&inner, &inner);
        let indom = inner.indom;
        let action = Action::Not(Box::new(inner));
        Ok(Term { action, value_type: ValueType::U32, semantics, units: Units::NONE, indom })
    }

    fn binary(
        &mut self,
        at: usize,
        operator: Operator,
        left: &Node,
        right: &Node,
    ) -> Result<Term, Flaw> {
        let mut left = self.number(left)?;
        let mut right = self.number(right)?;
        let flaw = |problem| Flaw::new(at, problem);
        let is_counter = |term: &Term| term.semantics == Semantics::Counter;
        // The ratio of two counters is that of their growth.
        if operator == Operator::Over
            && self.within.is_none()
            && is_counter(&left)
            && is_counter(&right)
        {
            self.needs_moment_before = true;
            left = called(Function::Delta, left).map_err(flaw)?;
            right = called(Function::Delta, right).map_err(flaw)?;
        }
        let semantics = semantics(operator, &left, &right).map_err(flaw)?;
        let CombinedUnits { units, left: convert_left, right: convert_right } =
            units(operator, &left, &right).map_err(flaw)?;
        let indom = indom(operator.sign(), left.indom, right.indom).map_err(flaw)?;
        let is_double =
            operator == Operator::Over || convert_left.is_some() || convert_right.is_some();
        let value_type = match operator {
            Operator::Plus | Operator::Minus | Operator::Times | Operator::Over if is_double => {
                ValueType::Double
            }
            // Types are ordered from the narrowest to the widest.
            Operator::Plus | Operator::Minus | Operator::Times => {
                left.value_type.max(right.value_type)
            }
            _ => ValueType::U32,
        };
        let left = ConvertedOperand { term: Box::new(left), conversion: convert_left };
        let right = ConvertedOperand { term: Box::new(right), conversion: convert_right };
        let action = Action::Binary { operator, left, right };
        Ok(Term { action, value_type, semantics, units, indom })
    }

    /// Returns the value of a condition that does not depend on any metric's values.
    fn decided(&self, node: &Node) -> Option<bool> {
        match &node.kind {
            NodeKind::Constant(value, _) => is_true(*value),
            NodeKind::Defined(name) => Some(self.scope.desc(name).is_some()),
            NodeKind::Not(inner) => self.decided(inner).map(|holds| !holds),
            NodeKind::Binary(Operator::And, left, right) => {
                if self.decided(left)? {
                    self.decided(right)
                } else {
                    Some(false)
                }
            }
            NodeKind::Binary(Operator::Or, left, right) => {
                if self.decided(left)? {
                    Some(true)
                } else {
                    self.decided(right)
                }
            }
            _ => None,
        }
    }

    /// Checks a conditional. If the condition does not depend on values, only the chosen
    /// alternative is checked: the other may name metrics that the archive lacks.
    fn choice(&mut self, at: usize, parts: &[Node; 3]) -> Result<Term, Flaw> {
        let [condition, yes, no] = parts;
        if let Some(holds) = self.decided(condition) {
            return self.term(if holds { yes } else { no });
        }
        let condition = self.number(condition)?;
        let yes = self.term(yes)?;
        let no = self.term(no)?;
        let flaw = |problem| Flaw::new(at, problem);
        let has_value = |term: &Term| !matches!(term.action, Action::NoValue);
        let like = if has_value(&yes) { &yes } else { &no };
        let mut indoms = like.indom;
        if has_value(&yes) && has_value(&no) {
            let described = |term: &Term| {
                let Term { value_type, semantics, units, .. } = term;
                [value_type.to_string(), semantics.to_string(), units.to_string()]
            };
            let pairs = described(&yes).into_iter().zip(described(&no));
            for (what, (left, right)) in ["types", "semantics", "units"].into_iter().zip(pairs) {
                if left != right {
                    return Err(flaw(Problem::Alternatives { what, left, right }));
                }
            }
            indoms = indom("?:", yes.indom, no.indom).map_err(flaw)?;
        }
        if condition.indom.is_some() && indoms.is_none() {
            return Err(flaw(Problem::ConditionInstances));
        }
        let indom = indom("?:", indoms, condition.indom).map_err(flaw)?;
        let Term { value_type, semantics, units, .. } = *like;
        let action = Action::Choice(Box::new([condition, yes, no]));
        Ok(Term { action, value_type, semantics, units, indom })
    }

    fn instances(&mut self, at: usize, inner: &Node, filter: &Filter) -> Result<Term, Flaw> {
        let inner = self.term(inner)?;
        let Some(indom) = inner.indom else {
            let name = match filter {
                Filter::Name(name) => format!("[{name}]"),
                Filter::Pattern { regex, .. } => format!("/{regex}/"),
            };
            return Err(Flaw::new(at, Problem::NoInstances(name)));
        };
        let ids = self.scope.instances(indom, Some(filter));
        if let Filter::Name(name) = filter
            && ids.is_empty()
            && is_range(name)
        {
            return Err(Flaw::new(at, Problem::Range(name.clone())));
        }
        let Term { value_type, semantics, units, indom, .. } = inner;
        let action = Action::Instances(Box::new(inner), ids);
        Ok(Term { action, value_type, semantics, units, indom })
    }

    fn call(&mut self, at: usize, function: Function, inner: &Node) -> Result<Term, Flaw> {
        let compares = match function {
            Function::Rate => Some("rate"),
            Function::Delta => Some("delta"),
            _ => None,
        };
        if let (Some(name), Some(_)) = (compares, self.within) {
            return Err(Flaw::new(at, Problem::Nested(name)));
        }
        let around = self.within;
        if compares.is_some() {
            self.needs_moment_before = true;
            self.within = Some(function);
        }
        let takes_all = matches!(function, Function::Count | Function::Scalar | Function::Instant);
        let term = if takes_all { self.term(inner) } else { self.number(inner) };
        self.within = around;
        called(function, term?).map_err(|problem| Flaw::new(at, problem))
    }

    fn rescale(&mut self, at: usize, inner: &Node, units: Units) -> Result<Term, Flaw> {
        let inner = self.number(inner)?;
        let Some(conversion) = inner.units.conversion_to(units) else {
            let from = inner.units.to_string();
            let to = units.to_string();
            return Err(Flaw::new(at, Problem::Rescale { from, to }));
        };
        let Term { value_type, semantics, indom, .. } = inner;
        let action = Action::Rescale(Box::new(inner), conversion);
        Ok(Term { action, value_type, semantics, units, indom })
    }
}

fn called(function: Function, inner: Term) -> Result<Term, Problem> {
    let Term { mut value_type, mut semantics, mut units, mut indom, .. } = inner;
    let was = semantics;
    if !matches!(function, Function::Scalar | Function::Sum | Function::Instant) {
        semantics = Semantics::Instant;
    }
    if !matches!(function, Function::Rate | Function::Delta | Function::Instant) {
        indom = None;
    }
    match function {
        Function::Rate => {
            let is_time = units.time_dimension() == 1 && units.time_scale_in_seconds().is_some();
            if !is_time && units.time_dimension() != 0 {
                return Err(Problem::RateUnits(units.to_string()));
            }
            value_type = ValueType::Double;
            units = units.per_second();
        }
        Function::Delta if value_type == ValueType::U32 => value_type = ValueType::I64,
        Function::Delta if value_type == ValueType::U64 => value_type = ValueType::Double,
        Function::Instant if was == Semantics::Counter => semantics = Semantics::Instant,
        Function::Avg => value_type = ValueType::Float,
        Function::Count => (value_type, units) = (ValueType::U32, Units::count()),
        _ => {}
    }
    let action = Action::Call(function, Box::new(inner));
    Ok(Term { action, value_type, semantics, units, indom })
}

impl Term {
    fn from_operand(operand: Operand) -> Self {
        let MetricDesc { value_type, semantics, units, indom, .. } = operand.desc;
        Self { action: Action::Metric(operand.place), value_type, semantics, units, indom }
    }

    fn collect_operands(&self, operands: &mut Vec<usize>, histograms: &mut Vec<usize>) {
        match &self.action {
            Action::Metric(operand) => operands.push(*operand),
            Action::OfInterval(place, _) => histograms.push(*place),
            Action::Constant(..) | Action::NoValue => {}
            Action::Negative(inner)
            | Action::Not(inner)
            | Action::Top(_, inner)
            | Action::Rescale(inner, _)
            | Action::Over(_, inner)
            | Action::Instances(inner, _)
            | Action::By(_, inner, _)
            | Action::Call(_, inner) => inner.collect_operands(operands, histograms),
            Action::Binary { left, right, .. } => {
                left.term.collect_operands(operands, histograms);
                right.term.collect_operands(operands, histograms);
            }
            Action::Choice(parts) => {
                for part in parts.as_ref() {
                    part.collect_operands(operands, histograms);
                }
            }
            Action::Or(parts, _) => {
                for part in parts.as_ref() {
                    part.term.collect_operands(operands, histograms);
                }
            }
        }
    }

    fn is_constant(&self) -> bool {
        match &self.action {
            Action::Constant(..) => true,
            Action::Negative(inner) => inner.is_constant(),
            _ => false,
        }
    }
}

/// Returns a type that has the values of both.
fn type_of_either(one: ValueType, other: ValueType) -> ValueType {
    match (one.min(other), one.max(other)) {
        (ValueType::I32, ValueType::U32) => ValueType::I64,
        (ValueType::I32 | ValueType::I64, ValueType::U64) => ValueType::Double,
        (_, wider) => wider,
    }
}

/// Returns the semantics of a result that is not a counter.
fn level_semantics(left: &Term, right: &Term) -> Semantics {
    match (left.semantics, right.semantics) {
        (Semantics::Discrete, Semantics::Discrete) => Semantics::Discrete,
        _ => Semantics::Instant,
    }
}

fn semantics(operator: Operator, left: &Term, right: &Term) -> Result<Semantics, Problem> {
    let is_left = left.semantics == Semantics::Counter;
    let is_right = right.semantics == Semantics::Counter;
    let is_allowed = match operator {
        Operator::Plus | Operator::Minus => is_left == is_right,
        Operator::Times => !(is_left && is_right),
        Operator::Over => !is_right,
        _ => return Ok(level_semantics(left, right)),
    };
    if !is_allowed {
        let [left, right] = [is_left, is_right]
            .map(|is_counter| if is_counter { "a counter" } else { "a plain value" });
        return Err(Problem::Semantics { operator: operator.sign(), left, right });
    }
    let is_counter = is_left || is_right;
    Ok(if is_counter { Semantics::Counter } else { level_semantics(left, right) })
}

fn units(operator: Operator, left: &Term, right: &Term) -> Result<CombinedUnits, Problem> {
    if matches!(operator, Operator::Times | Operator::Over) {
        let factor = match (left.semantics, right.semantics) {
            (Semantics::Counter, _) => Some(right.units),
            (_, Semantics::Counter) => Some(left.units),
            _ => None,
        };
        if let Some(units) = factor.filter(|units| !units.is_plain_number()) {
            let verb = if operator == Operator::Times { "multiply" } else { "divide" };
            return Err(Problem::CounterFactor(verb, units.to_string()));
        }
    }
    let truth = CombinedUnits { units: Units::NONE, left: None, right: None };
    let is_plain = |term: &Term| term.units.is_plain_number();
    let is_constant = |term: &Term| term.is_constant() && is_plain(term);
    let combined = match operator {
        Operator::Plus | Operator::Minus => left.units.plus(right.units),
        Operator::Times => left.units.times(right.units),
        Operator::Over => left.units.over(right.units),
        Operator::And | Operator::Or => (is_plain(left) && is_plain(right)).then_some(truth),
        _ if is_constant(left) || is_constant(right) => Some(truth),
        _ => left.units.plus(right.units).map(|both| CombinedUnits { units: Units::NONE, ..both }),
    };
    let left = left.units.to_string();
    let right = right.units.to_string();
    combined.ok_or(Problem::Dimensions { operator: operator.sign(), left, right })
}

fn indom(
    operator: &'static str,
    left: Option<InDom>,
    right: Option<InDom>,
) -> Result<Option<InDom>, Problem> {
    match (left, right) {
        (Some(left), Some(right)) if left != right => {
            Err(Problem::Domains { operator, left, right })
        }
        (left, right) => Ok(left.or(right)),
    }
}

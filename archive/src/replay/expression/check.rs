//! What the values of an expression are: type, semantics, units, domain.
//!
//! The rules are PCP's (`check_expr` and `map_desc` in
//! `src/libpcp/src/derive_parser.y.in`):
//!
//! | | type | semantics | units |
//! |---|---|---|---|
//! | constant | 32 bits unsigned, or double | discrete | none |
//! | `a + b`, `a - b` | the wider one | counter if both are, neither may be alone | of both |
//! | `a * b` | the wider one | counter if one is, both may not | powers added |
//! | `a / b` | double | counter if a is, b may not | powers subtracted |
//! | `-a` | signed | instant | of a |
//! | `rate(a)` | double | instant | one power of time less |
//! | `delta(a)` | signed and wider | instant | of a |
//! | `avg(a)` | float | instant | of a |
//! | `count(a)` | 32 bits unsigned | instant | count |
//! | `sum(a)` | of a | of a | of a |
//! | `min(a)`, `max(a)` | of a | instant | of a |
//! | `instant(a)` | of a | instant if a is a counter | of a |
//!
//! Where no operand is a counter, the result is discrete if all are, else
//! instant. Where scales differ it is a double. Types from narrow to wide: 32
//! bits, the same unsigned, 64 bits, the same unsigned, float, double.

use pcp_types::{Combined, Conversion, InDom, InstanceId, Pmid, Semantics, Units, ValueType};

use super::parse::{Function, Kind, Node, Operator};
use super::{Expression, ExpressionError, Flaw, Problem};
use crate::{MetricDesc, Value};

/// A metric that an expression mentions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Operand {
    /// Where its values will be.
    pub(crate) place: usize,
    pub(crate) desc: MetricDesc,
}

/// What names mean.
pub(crate) trait Scope {
    /// The metric of a name.
    fn metric(&mut self, name: &str) -> Option<Operand>;
    /// The instances of a name, of which a domain may have had several.
    fn instances(&self, indom: InDom, name: &str) -> Vec<InstanceId>;
}

/// An expression that makes sense for the metrics of an archive.
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

/// How the values of a part come about.
#[derive(Debug, Clone)]
pub(super) enum Action {
    Constant(Value<'static>),
    Metric(usize),
    Negative(Box<Term>),
    Binary { operator: Operator, left: Converted, right: Converted },
    Instance(Box<Term>, Vec<InstanceId>),
    Call(Function, Box<Term>),
    Rescale(Box<Term>, Conversion),
}

/// An operand, and how it gets into the scales of the result.
#[derive(Debug, Clone)]
pub(super) struct Converted {
    pub(super) term: Box<Term>,
    pub(super) conversion: Option<Conversion>,
}

impl Bound {
    /// # Errors
    ///
    /// For a metric that `scope` does not know, and for operands that do not
    /// go together.
    pub(crate) fn new(
        expression: &Expression,
        scope: &mut dyn Scope,
    ) -> Result<Self, ExpressionError> {
        let mut checker = Checker { scope, within: None, needs_moment_before: false };
        let root = checker.term(&expression.root).map_err(|flaw| flaw.of(expression.text()))?;
        Ok(Self { root, needs_moment_before: checker.needs_moment_before })
    }

    /// The descriptor of the values, as that of a metric with this number.
    pub(crate) fn desc(&self, pmid: Pmid) -> MetricDesc {
        let Term { value_type, semantics, units, indom, .. } = self.root;
        MetricDesc { pmid, value_type, indom, semantics, units }
    }
}

struct Checker<'s> {
    scope: &'s mut dyn Scope,
    /// The `rate` or `delta` around the part at hand.
    within: Option<Function>,
    needs_moment_before: bool,
}

impl Checker<'_> {
    fn term(&mut self, node: &Node) -> Result<Term, Flaw> {
        match &node.kind {
            Kind::Integer(number) => Ok(constant(Value::U32(*number), ValueType::U32)),
            Kind::Double(number) => Ok(constant(Value::Double(*number), ValueType::Double)),
            Kind::Metric(name) => self.metric(node.at, name),
            Kind::Negative(inner) => self.negative(inner),
            Kind::Binary(operator, left, right) => self.binary(node.at, *operator, left, right),
            Kind::Instance(inner, name) => self.instance(node.at, inner, name),
            Kind::Call(function, inner) => self.call(node.at, *function, inner),
            Kind::Rescale(inner, units) => self.rescale(node.at, inner, *units),
        }
    }

    fn metric(&mut self, at: usize, name: &str) -> Result<Term, Flaw> {
        let Some(operand) = self.scope.metric(name) else {
            return Err(Flaw::new(at, Problem::UnknownMetric(name.to_owned())));
        };
        let MetricDesc { value_type, semantics, units, indom, .. } = operand.desc;
        Ok(Term { action: Action::Metric(operand.place), value_type, semantics, units, indom })
    }

    /// A part that has to be of numbers.
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
        let (units, indom) = (inner.units, inner.indom);
        let action = Action::Negative(Box::new(inner));
        Ok(Term { action, value_type, semantics: Semantics::Instant, units, indom })
    }

    fn binary(
        &mut self,
        at: usize,
        operator: Operator,
        left: &Node,
        right: &Node,
    ) -> Result<Term, Flaw> {
        let (left, right) = (self.number(left)?, self.number(right)?);
        let flaw = |problem| Flaw::new(at, problem);
        let semantics = semantics(operator, &left, &right).map_err(flaw)?;
        let Combined { units, left: convert_left, right: convert_right } =
            units(operator, &left, &right).map_err(flaw)?;
        let indom = indom(operator, &left, &right).map_err(flaw)?;
        let is_double =
            operator == Operator::Over || convert_left.is_some() || convert_right.is_some();
        // Types are ordered from the narrowest to the widest.
        let wider = left.value_type.max(right.value_type);
        let value_type = if is_double { ValueType::Double } else { wider };
        let left = Converted { term: Box::new(left), conversion: convert_left };
        let right = Converted { term: Box::new(right), conversion: convert_right };
        let action = Action::Binary { operator, left, right };
        Ok(Term { action, value_type, semantics, units, indom })
    }

    fn instance(&mut self, at: usize, inner: &Node, name: &str) -> Result<Term, Flaw> {
        let inner = self.term(inner)?;
        let Some(indom) = inner.indom else {
            return Err(Flaw::new(at, Problem::NoInstances(name.to_owned())));
        };
        let ids = self.scope.instances(indom, name);
        let Term { value_type, semantics, units, indom, .. } = inner;
        let action = Action::Instance(Box::new(inner), ids);
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
            let (from, to) = (inner.units.to_string(), units.to_string());
            return Err(Flaw::new(at, Problem::Rescale { from, to }));
        };
        let Term { value_type, semantics, indom, .. } = inner;
        let action = Action::Rescale(Box::new(inner), conversion);
        Ok(Term { action, value_type, semantics, units, indom })
    }
}

fn constant(value: Value<'static>, value_type: ValueType) -> Term {
    let (action, semantics) = (Action::Constant(value), Semantics::Discrete);
    Term { action, value_type, semantics, units: Units::NONE, indom: None }
}

/// The values of a function.
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
            (value_type, units) = (ValueType::Double, units.per_second());
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

fn semantics(operator: Operator, left: &Term, right: &Term) -> Result<Semantics, Problem> {
    let (is_left, is_right) =
        (left.semantics == Semantics::Counter, right.semantics == Semantics::Counter);
    let is_allowed = match operator {
        Operator::Plus | Operator::Minus => is_left == is_right,
        Operator::Times => !(is_left && is_right),
        Operator::Over => !is_right,
    };
    if !is_allowed {
        let said = |is_counter| if is_counter { "a counter" } else { "no counter" };
        let (left, right) = (said(is_left), said(is_right));
        return Err(Problem::Semantics { operator: operator.sign(), left, right });
    }
    Ok(match (left.semantics, right.semantics) {
        (Semantics::Counter, _) | (_, Semantics::Counter) => Semantics::Counter,
        (Semantics::Discrete, Semantics::Discrete) => Semantics::Discrete,
        _ => Semantics::Instant,
    })
}

fn units(operator: Operator, left: &Term, right: &Term) -> Result<Combined, Problem> {
    if matches!(operator, Operator::Times | Operator::Over) {
        let factor = match (left.semantics, right.semantics) {
            (Semantics::Counter, _) => Some(right.units),
            (_, Semantics::Counter) => Some(left.units),
            _ => None,
        };
        if let Some(units) = factor.filter(|units| !units.is_plain_number()) {
            let verb = if operator == Operator::Times { "times" } else { "over" };
            return Err(Problem::CounterFactor(verb, units.to_string()));
        }
    }
    let combined = match operator {
        Operator::Plus | Operator::Minus => left.units.plus(right.units),
        Operator::Times => left.units.times(right.units),
        Operator::Over => left.units.over(right.units),
    };
    let (left, right) = (left.units.to_string(), right.units.to_string());
    combined.ok_or(Problem::Dimensions { operator: operator.sign(), left, right })
}

fn indom(operator: Operator, left: &Term, right: &Term) -> Result<Option<InDom>, Problem> {
    match (left.indom, right.indom) {
        (Some(left), Some(right)) if left != right => {
            let (left, right) = (left.to_string(), right.to_string());
            Err(Problem::Domains { operator: operator.sign(), left, right })
        }
        (left, right) => Ok(left.or(right)),
    }
}

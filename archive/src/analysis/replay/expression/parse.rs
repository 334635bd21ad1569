//! The parser: tokens to a tree.
//!
//! Operators by precedence, the loosest first; those of one level group from the
//! left:
//!
//! | level | operators |
//! |---|---|
//! | 0 | `? :`, `or` |
//! | 1 | `&&`, `\|\|` |
//! | 2 | `!` |
//! | 3 | `<`, `<=`, `==`, `>=`, `>`, `!=` |
//! | 4 | `+`, `-` |
//! | 5 | `*`, `/`, negation |

use regex_lite::Regex;

use super::token::{Token, tokens};
use super::{Flaw, Problem};
use crate::scan::Selector;
use crate::{InDom, InstanceId, Semantics, Units, Value, ValueType};

/// Limit on the depth of the tree. The code that walks it is recursive, and has to fit into the 2
/// MB of a thread's stack also where it is not optimized.
const MAX_DEPTH: usize = 100;

/// The start of an operand, for error messages.
const OPERAND: &str = "a metric, a number, a function or \"(\"";

#[derive(Debug, Clone)]
pub(crate) struct Node {
    /// The byte that errors about it point at.
    pub(super) at: usize,
    pub(super) kind: NodeKind,
    /// The number of nested nodes, this one included.
    depth: usize,
}

#[derive(Debug, Clone)]
pub(super) enum NodeKind {
    Constant(Value<'static>, ConstantMetadata),
    NoValue(ConstantMetadata),
    Metric(String),
    Limited(String, Limit),
    Defined(String),
    Negative(Box<Node>),
    Not(Box<Node>),
    Binary(Operator, Box<Node>, Box<Node>),
    /// Condition, value if it is true, value if it is false.
    Choice(Box<[Node; 3]>),
    Instances(Box<Node>, Filter),
    Call(Function, Box<Node>),
    Rescale(Box<Node>, Units),
    /// A quantile, from 0 to 1, of the histogram of a name, or of those with these labels.
    Quantile(f64, Selector),
    /// The fraction of the values of such a histogram that are at most a constant.
    Below(Box<Node>, Selector),
    /// A function of the values that an expression has within the interval.
    Over(OverFunction, Box<Node>),
    /// A function over the instances with the same values of some labels.
    By(Function, Vec<String>, Box<Node>),
    /// The instances with the largest values, and how many.
    Top(usize, Box<Node>),
    /// The values of the first, and where it has none those of the second.
    Or(Box<[Node; 2]>),
}

/// A restriction of the instances of a metric.
#[derive(Debug, Clone)]
pub(crate) enum Limit {
    Labels(Selector),
    /// Ascending.
    Ids(Vec<InstanceId>),
}

/// The parameters of `mkconst` and `novalue`.
#[derive(Debug, Clone, Default)]
pub(super) struct ConstantMetadata {
    pub(super) value_type: Option<ValueType>,
    pub(super) semantics: Option<Semantics>,
    pub(super) units: Option<Units>,
    /// The word of the domain, [`InDom::NULL_RAW`] for none.
    pub(super) indom: Option<u32>,
    /// The metric whose metadata are the defaults.
    pub(super) metric: Option<String>,
}

/// A condition on the name or number of instances.
#[derive(Debug, Clone)]
pub(crate) enum Filter {
    Name(String),
    /// Matched against the name up to its first blank.
    Pattern {
        regex: Regex,
        is_negated: bool,
    },
}

impl Filter {
    /// Returns whether an instance that has this name, and no number, is selected.
    pub(crate) fn is_match(&self, name: &str) -> bool {
        match self {
            Self::Name(wanted) => wanted == name,
            Self::Pattern { regex, is_negated } => regex.is_match(name) != *is_negated,
        }
    }
}

/// An operator between two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Or,
    And,
    Less,
    AtMost,
    Equal,
    AtLeast,
    Greater,
    NotEqual,
    Plus,
    Minus,
    Times,
    Over,
}

/// Units of a number, as in `50ms`.
const TIMES: [(&str, &str); 6] = [
    ("ns", "nanosec"),
    ("us", "microsec"),
    ("ms", "millisec"),
    ("s", "sec"),
    ("min", "min"),
    ("h", "hour"),
];

const BOOLEAN: u8 = 1;
const RELATION: u8 = 3;
const SUM: u8 = 4;
const PRODUCT: u8 = 5;

const OPERATORS: [(Operator, &str, u8); 12] = [
    (Operator::Or, "||", BOOLEAN),
    (Operator::And, "&&", BOOLEAN),
    (Operator::Less, "<", RELATION),
    (Operator::AtMost, "<=", RELATION),
    (Operator::Equal, "==", RELATION),
    (Operator::AtLeast, ">=", RELATION),
    (Operator::Greater, ">", RELATION),
    (Operator::NotEqual, "!=", RELATION),
    (Operator::Plus, "+", SUM),
    (Operator::Minus, "-", SUM),
    (Operator::Times, "*", PRODUCT),
    (Operator::Over, "/", PRODUCT),
];

impl Operator {
    pub(super) fn sign(self) -> &'static str {
        OPERATORS.iter().find(|(known, ..)| *known == self).map_or("", |(_, sign, _)| sign)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    Rate,
    Delta,
    Instant,
    Sum,
    Avg,
    Min,
    Max,
    Count,
    Scalar,
}

const FUNCTIONS: [(&str, Function); 9] = [
    ("rate", Function::Rate),
    ("delta", Function::Delta),
    ("instant", Function::Instant),
    ("sum", Function::Sum),
    ("avg", Function::Avg),
    ("min", Function::Min),
    ("max", Function::Max),
    ("count", Function::Count),
    ("scalar", Function::Scalar),
];

/// The functions that may have `by`.
const AGGREGATES: [(&str, Function); 5] = [
    ("sum", Function::Sum),
    ("avg", Function::Avg),
    ("min", Function::Min),
    ("max", Function::Max),
    ("count", Function::Count),
];

/// Functions of PromQL and their equivalents here.
const OF_PROMQL: [(&str, &str); 9] = [
    ("histogram_quantile", "p99(NAME)"),
    ("increase", "delta(NAME)"),
    ("irate", "rate(NAME)"),
    ("avg_over_time", "avg_over(NAME)"),
    ("min_over_time", "min_over(NAME)"),
    ("max_over_time", "max_over(NAME)"),
    ("quantile_over_time", "quantile(0.9, NAME)"),
    ("bottomk", "topk(3, -NAME)"),
    ("mean", "avg(NAME)"),
];

/// A function of the values that were logged in an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OverFunction {
    Min,
    Max,
    Avg,
}

const OVER_FUNCTIONS: [(&str, OverFunction); 3] = [
    ("min_over", OverFunction::Min),
    ("max_over", OverFunction::Max),
    ("avg_over", OverFunction::Avg),
];

fn over_function(name: &str) -> Option<OverFunction> {
    let found = OVER_FUNCTIONS.iter().find(|(known, _)| *known == name);
    found.map(|(_, function)| *function)
}

impl OverFunction {
    pub(super) fn name(self) -> &'static str {
        OVER_FUNCTIONS.iter().find(|(_, known)| *known == self).map_or("", |(name, _)| name)
    }
}

fn unknown_function(at: usize, name: &str) -> Flaw {
    let nearest = OF_PROMQL.iter().find(|(known, _)| *known == name).map(|(_, form)| *form);
    Flaw::new(at, Problem::UnknownFunction { name: name.to_owned(), nearest })
}

/// Returns whether a text in brackets is a length of time, such as `5m`.
pub(super) fn is_range(text: &str) -> bool {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    unit.len() < text.len() && ["ms", "s", "m", "h", "d", "w", "y"].contains(&unit)
}

/// Parses `expression` or `name = expression`.
pub(super) fn definition(text: &str) -> Result<(Option<&str>, Node), Flaw> {
    let tokens = tokens(text)?;
    let (name, begin) = match tokens.as_slice() {
        [(_, Token::Name(name)), (_, Token::Sign("=")), ..] => (Some(*name), 2),
        _ => (None, 0),
    };
    let mut parser = Parser { text, tokens: &tokens, next: begin, open: 0 };
    let root = parser.expression(0)?;
    parser.expect(&Token::End, "an operator or the end")?;
    Ok((name, root))
}

/// Returns the tree of `sum(metric)`, or of `sum(rate(metric))`, over all instances or these,
/// which ascend.
pub(super) fn sum_of(metric: &str, ids: Option<Vec<InstanceId>>, rates: bool) -> Node {
    let call = |function, inner: Node| {
        let depth = inner.depth + 1;
        Node { at: 0, kind: NodeKind::Call(function, Box::new(inner)), depth }
    };
    let name = metric.to_owned();
    let kind = match ids {
        None => NodeKind::Metric(name),
        Some(ids) => NodeKind::Limited(name, Limit::Ids(ids)),
    };
    let metric = Node { at: 0, kind, depth: 1 };
    call(Function::Sum, if rates { call(Function::Rate, metric) } else { metric })
}

/// A recursive descent over the tokens.
struct Parser<'p, 't> {
    text: &'t str,
    tokens: &'p [(usize, Token<'t>)],
    next: usize,
    /// Expressions that have begun and not ended.
    open: usize,
}

impl<'p, 't> Parser<'p, 't> {
    fn peek(&self) -> &'p Token<'t> {
        self.tokens.get(self.next).map_or(&Token::End, |(_, token)| token)
    }

    fn offset(&self) -> usize {
        self.tokens.get(self.next).map_or(self.text.len(), |(at, _)| *at)
    }

    fn takes(&mut self, sign: &'static str) -> bool {
        let is_next = *self.peek() == Token::Sign(sign);
        self.next += usize::from(is_next);
        is_next
    }

    fn unexpected<T>(&self, expected: &'static str) -> Result<T, Flaw> {
        let found = self.peek().quoted();
        Err(Flaw::new(self.offset(), Problem::Unexpected { found, expected }))
    }

    fn expect(&mut self, token: &Token<'_>, expected: &'static str) -> Result<(), Flaw> {
        if self.peek() != token {
            return self.unexpected(expected);
        }
        self.next += 1;
        Ok(())
    }

    fn close(&mut self) -> Result<(), Flaw> {
        self.expect(&Token::Sign(")"), "an operator or \")\"")
    }

    /// Operands with operators of this level and tighter ones between them.
    fn expression(&mut self, level: u8) -> Result<Node, Flaw> {
        self.open += 1;
        if self.open > MAX_DEPTH {
            return Err(Flaw::new(self.offset(), Problem::Depth(MAX_DEPTH)));
        }
        let mut left = self.operand()?;
        loop {
            let at = self.offset();
            if level == 0 && self.takes("?") {
                let yes = self.expression(0)?;
                self.expect(&Token::Sign(":"), "an operator or \":\"")?;
                let no = self.expression(BOOLEAN)?;
                let depth = left.depth.max(yes.depth).max(no.depth);
                left = node(at, NodeKind::Choice(Box::new([left, yes, no])), depth)?;
                continue;
            }
            if level == 0 && *self.peek() == Token::Name("or") {
                self.next += 1;
                let right = self.expression(BOOLEAN)?;
                let depth = left.depth.max(right.depth);
                left = node(at, NodeKind::Or(Box::new([left, right])), depth)?;
                continue;
            }
            let found = OPERATORS.iter().find(|(_, sign, own_level)| {
                *own_level >= level && *self.peek() == Token::Sign(sign)
            });
            let Some(&(operator, _, level)) = found else { break };
            self.next += 1;
            let right = self.expression(level + 1)?;
            let depth = left.depth.max(right.depth);
            left = node(at, NodeKind::Binary(operator, Box::new(left), Box::new(right)), depth)?;
        }
        self.open -= 1;
        Ok(left)
    }

    fn operand(&mut self) -> Result<Node, Flaw> {
        let at = self.offset();
        match self.peek() {
            Token::Integer(_) | Token::Double(_) => self.constant(at),
            Token::Name(name) => {
                self.next += 1;
                if self.takes("(") {
                    return self.call(at, name);
                }
                if *self.peek() == Token::Name("by")
                    && let Some((_, function)) = AGGREGATES.iter().find(|(known, _)| known == name)
                {
                    return self.by_labels(at, *function);
                }
                let kind = match self.labels(name)? {
                    None => NodeKind::Metric((*name).to_owned()),
                    Some(selector) => {
                        NodeKind::Limited((*name).to_owned(), Limit::Labels(selector))
                    }
                };
                let metric = node(at, kind, 0)?;
                self.instance(metric)
            }
            Token::Sign("(") => {
                self.next += 1;
                let inner = self.expression(0)?;
                self.close()?;
                self.instance(inner)
            }
            // As in PCP the minus applies to products: -a * b is -(a * b).
            Token::Sign("-") => self.prefixed(NodeKind::Negative, PRODUCT),
            Token::Sign("!") => self.prefixed(NodeKind::Not, RELATION),
            _ => self.unexpected(OPERAND),
        }
    }

    /// Parses the operand of a prefix operator, which reaches over the operators of this level
    /// and tighter ones.
    fn prefixed(&mut self, kind: fn(Box<Node>) -> NodeKind, level: u8) -> Result<Node, Flaw> {
        let at = self.offset();
        self.next += 1;
        let inner = self.expression(level)?;
        let depth = inner.depth;
        node(at, kind(Box::new(inner)), depth)
    }

    fn number(&mut self) -> Result<Value<'static>, Flaw> {
        let number = match self.peek() {
            Token::Integer(number) => Value::U32(*number),
            Token::Double(number) => Value::Double(*number),
            _ => return self.unexpected("a number"),
        };
        self.next += 1;
        Ok(number)
    }

    fn time_unit(&mut self) -> Result<Option<Units>, Flaw> {
        let at = self.offset();
        let Token::Name(name) = self.peek() else { return Ok(None) };
        let Some((_, unit)) = TIMES.iter().find(|(short, _)| short == name) else {
            return Ok(None);
        };
        self.next += 1;
        units(at, unit).map(Some)
    }

    fn rank(&mut self) -> Result<f64, Flaw> {
        let at = self.offset();
        let found = self.peek().quoted();
        let rank = self.number()?.as_f64().filter(|rank| (0.0..=1.0).contains(rank));
        let expected = "a number from 0 to 1";
        rank.ok_or_else(|| Flaw::new(at, Problem::Unexpected { found, expected }))
    }

    fn name(&mut self) -> Result<&'t str, Flaw> {
        let Token::Name(name) = self.peek() else { return self.unexpected("a metric") };
        self.next += 1;
        Ok(name)
    }

    /// Parses the `{label="value"}` that may follow the name of a metric.
    fn labels(&mut self, metric: &str) -> Result<Option<Selector>, Flaw> {
        let at = self.offset();
        let Token::Labels(labels) = self.peek() else { return Ok(None) };
        self.next += 1;
        let selector = format!("{metric}{labels}").parse::<Selector>();
        selector.map(Some).map_err(|error| {
            Flaw::new(at, Problem::Labels((*labels).to_owned(), error.reason().to_owned()))
        })
    }

    /// Parses the `[name]` that may follow an operand.
    fn instance(&mut self, operand: Node) -> Result<Node, Flaw> {
        let at = self.offset();
        let Token::Instance(name) = self.peek() else { return Ok(operand) };
        self.next += 1;
        let depth = operand.depth;
        node(at, NodeKind::Instances(Box::new(operand), Filter::Name(name.clone())), depth)
    }

    /// Parses the arguments after `name(`.
    fn call(&mut self, at: usize, name: &str) -> Result<Node, Flaw> {
        let (kind, depth) = match name {
            "mkconst" => {
                let number = self.number()?;
                self.expect(&Token::Sign(","), "\",\" and a parameter")?;
                (NodeKind::Constant(number, self.metadata()?), 0)
            }
            "novalue" if *self.peek() == Token::Sign(")") => {
                (NodeKind::NoValue(ConstantMetadata::default()), 0)
            }
            "novalue" => (NodeKind::NoValue(self.metadata()?), 0),
            "defined" => (NodeKind::Defined(self.name()?.to_owned()), 0),
            "matchinst" => {
                let filter = self.pattern()?;
                self.expect(&Token::Sign(","), "\",\" and an expression")?;
                let inner = self.expression(0)?;
                let depth = inner.depth;
                (NodeKind::Instances(Box::new(inner), filter), depth)
            }
            "quantile" => {
                let rank = self.rank()?;
                self.expect(&Token::Sign(","), "\",\" and a histogram")?;
                (NodeKind::Quantile(rank, self.selector()?), 0)
            }
            "below" => self.below()?,
            "topk" => self.topk()?,
            "rescale" => {
                let inner = self.expression(0)?;
                let depth = inner.depth;
                self.expect(&Token::Sign(","), "\",\" and units in quotes")?;
                let Token::Text(text) = self.peek() else {
                    return self.unexpected("units in quotes");
                };
                let units = units(self.offset(), text)?;
                self.next += 1;
                (NodeKind::Rescale(Box::new(inner), units), depth)
            }
            _ if percentile(name).is_some() => {
                let rank = percentile(name).unwrap_or_default();
                (NodeKind::Quantile(rank, self.selector()?), 0)
            }
            _ if over_function(name).is_some() => {
                let function = over_function(name).unwrap_or(OverFunction::Avg);
                let inner = self.expression(0)?;
                let depth = inner.depth;
                (NodeKind::Over(function, Box::new(inner)), depth)
            }
            _ => {
                let function = FUNCTIONS.iter().find(|(known, _)| *known == name);
                let (_, function) = function.ok_or_else(|| unknown_function(at, name))?;
                let inner = self.expression(0)?;
                let depth = inner.depth;
                (NodeKind::Call(*function, Box::new(inner)), depth)
            }
        };
        self.close()?;
        // The labels may also come last: sum(...) by (label).
        if let NodeKind::Call(function, inner) = &kind
            && AGGREGATES.iter().any(|(known, _)| *known == name)
            && *self.peek() == Token::Name("by")
        {
            let kind = NodeKind::By(*function, self.label_list()?, inner.clone());
            return node(at, kind, depth);
        }
        node(at, kind, depth)
    }

    fn constant(&mut self, at: usize) -> Result<Node, Flaw> {
        let number = self.number()?;
        let metadata = ConstantMetadata { units: self.time_unit()?, ..ConstantMetadata::default() };
        node(at, NodeKind::Constant(number, metadata), 0)
    }

    fn below(&mut self) -> Result<(NodeKind, usize), Flaw> {
        let limit = self.expression(0)?;
        self.expect(&Token::Sign(","), "\",\" and a histogram")?;
        let depth = limit.depth;
        Ok((NodeKind::Below(Box::new(limit), self.selector()?), depth))
    }

    fn by_labels(&mut self, at: usize, function: Function) -> Result<Node, Flaw> {
        let labels = self.label_list()?;
        self.expect(&Token::Sign("("), "\"(\" and an expression")?;
        let inner = self.expression(0)?;
        self.close()?;
        let depth = inner.depth;
        node(at, NodeKind::By(function, labels, Box::new(inner)), depth)
    }

    /// Parses `by (label, ...)`.
    fn label_list(&mut self) -> Result<Vec<String>, Flaw> {
        self.next += 1;
        self.expect(&Token::Sign("("), "\"(\" and labels")?;
        let mut labels = Vec::new();
        loop {
            let Token::Name(label) = self.peek() else { return self.unexpected("a label") };
            self.next += 1;
            labels.push((*label).to_owned());
            if !self.takes(",") {
                break;
            }
        }
        self.expect(&Token::Sign(")"), "\",\" or \")\"")?;
        Ok(labels)
    }

    fn topk(&mut self) -> Result<(NodeKind, usize), Flaw> {
        let at = self.offset();
        let found = self.peek().quoted();
        let expected = "a number of instances such as 3";
        let Value::U32(count @ 1..) = self.number()? else {
            return Err(Flaw::new(at, Problem::Unexpected { found, expected }));
        };
        self.expect(&Token::Sign(","), "\",\" and an expression")?;
        let inner = self.expression(0)?;
        let depth = inner.depth;
        Ok((NodeKind::Top(count as usize, Box::new(inner)), depth))
    }

    /// Parses the name of a metric or of a histogram, and labels if there are any.
    fn selector(&mut self) -> Result<Selector, Flaw> {
        let name = self.name()?;
        Ok(self.labels(name)?.unwrap_or_else(|| Selector::of_name(name)))
    }

    fn pattern(&mut self) -> Result<Filter, Flaw> {
        let is_negated = self.takes("!");
        let Token::Pattern(pattern) = self.peek() else {
            return self.unexpected("a regular expression between slashes");
        };
        let regex = Regex::new(pattern).map_err(|error| {
            Flaw::new(self.offset(), Problem::Pattern(pattern.clone(), error.to_string()))
        })?;
        self.next += 1;
        Ok(Filter::Pattern { regex, is_negated })
    }

    /// Parses `tag=value, ...`.
    fn metadata(&mut self) -> Result<ConstantMetadata, Flaw> {
        const TAG: &str = "type=, semantics=, units=, indom= or meta=";
        let mut metadata = ConstantMetadata::default();
        loop {
            let Token::Name(tag) = self.peek() else { return self.unexpected(TAG) };
            let tag_at = self.offset();
            self.next += 1;
            self.expect(&Token::Sign("="), "\"=\" and a value")?;
            if *tag == "meta" {
                metadata.metric = Some(self.name()?.to_owned());
            } else {
                let at = self.offset();
                let value = self.parameter()?;
                let lower = value.to_lowercase();
                let unexpected = |at, found: &str, expected| {
                    let found = format!("\"{found}\"");
                    Flaw::new(at, Problem::Unexpected { found, expected })
                };
                match *tag {
                    "type" => {
                        let expected = "32, U32, 64, U64, FLOAT or DOUBLE";
                        let value_type = value_type(&lower);
                        let value_type = value_type.ok_or_else(|| unexpected(at, value, expected));
                        metadata.value_type = Some(value_type?);
                    }
                    "semantics" => {
                        let all = [Semantics::Counter, Semantics::Instant, Semantics::Discrete];
                        let semantics = all.into_iter().find(|each| each.to_string() == lower);
                        let expected = "COUNTER, INSTANT or DISCRETE";
                        let semantics = semantics.ok_or_else(|| unexpected(at, value, expected));
                        metadata.semantics = Some(semantics?);
                    }
                    "units" => metadata.units = Some(units(at, value)?),
                    "indom" if lower == "null" => metadata.indom = Some(InDom::NULL_RAW),
                    "indom" => {
                        let indom = value.parse::<InDom>();
                        let expected = "NULL or a domain such as 60.1";
                        let indom = indom.map_err(|_| unexpected(at, value, expected));
                        metadata.indom = Some(indom?.raw());
                    }
                    other => return Err(unexpected(tag_at, other, TAG)),
                }
            }
            if !self.takes(",") {
                return Ok(metadata);
            }
        }
    }

    fn parameter(&mut self) -> Result<&'t str, Flaw> {
        let at = self.offset();
        let token = self.peek();
        if !matches!(token, Token::Text(_) | Token::Name(_) | Token::Integer(_) | Token::Double(_))
        {
            return self.unexpected("a value");
        }
        self.next += 1;
        let written = self.text.get(at..self.offset()).unwrap_or_default().trim_end();
        Ok(if let Token::Text(text) = token { text } else { written })
    }
}

/// Returns the quantile that a function's name such as `p99` or `p99.9` stands for.
fn percentile(name: &str) -> Option<f64> {
    let percent =
        name.strip_prefix('p').filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let percent: f64 = percent?.parse().ok()?;
    Some(percent / 100.0).filter(|rank| *rank <= 1.0)
}

fn value_type(lower: &str) -> Option<ValueType> {
    Some(match lower {
        "32" => ValueType::I32,
        "u32" => ValueType::U32,
        "64" => ValueType::I64,
        "u64" => ValueType::U64,
        "float" => ValueType::Float,
        "double" => ValueType::Double,
        _ => return None,
    })
}

fn units(at: usize, text: &str) -> Result<Units, Flaw> {
    text.parse().map_err(|error: pcp_types::Error| Flaw::new(at, Problem::Units(error.to_string())))
}

/// Creates a node above children of this depth, unless the expression becomes too deep.
fn node(at: usize, kind: NodeKind, depth_below: usize) -> Result<Node, Flaw> {
    let depth = depth_below + 1;
    if depth > MAX_DEPTH {
        return Err(Flaw::new(at, Problem::Depth(MAX_DEPTH)));
    }
    Ok(Node { at, kind, depth })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the tree with all its parentheses.
    fn tree(node: &Node) -> String {
        match &node.kind {
            NodeKind::Constant(Value::U32(number), ConstantMetadata { units: Some(units), .. }) => {
                format!("{number}<{units}>")
            }
            NodeKind::Constant(Value::U32(number), _) => number.to_string(),
            NodeKind::Constant(number, _) => format!("{:?}", number.as_f64().unwrap()),
            NodeKind::NoValue(_) => "none".to_owned(),
            NodeKind::Metric(name) => name.clone(),
            NodeKind::Defined(name) => format!("{name}?"),
            NodeKind::Negative(inner) => format!("(-{})", tree(inner)),
            NodeKind::Not(inner) => format!("(!{})", tree(inner)),
            NodeKind::Binary(operator, left, right) => {
                format!("({}{}{})", tree(left), operator.sign(), tree(right))
            }
            NodeKind::Choice(parts) => {
                let [condition, yes, no] = parts.each_ref().map(tree);
                format!("({condition}?{yes}:{no})")
            }
            NodeKind::Instances(inner, Filter::Name(name)) => format!("{}[{name}]", tree(inner)),
            NodeKind::Instances(inner, Filter::Pattern { regex, is_negated }) => {
                format!("{}[{}/{regex}/]", tree(inner), if *is_negated { "!" } else { "" })
            }
            NodeKind::Call(function, inner) => format!("{function:?}({})", tree(inner)),
            NodeKind::Rescale(inner, units) => format!("{}as<{units}>", tree(inner)),
            NodeKind::Quantile(rank, of) => format!("quantile({rank} {})", limited(of)),
            NodeKind::Below(limit, of) => format!("below({} {})", tree(limit), limited(of)),
            NodeKind::Over(function, inner) => format!("{}({})", function.name(), tree(inner)),
            NodeKind::By(function, labels, inner) => {
                format!("{function:?}<{}>({})", labels.join(","), tree(inner))
            }
            NodeKind::Top(count, inner) => format!("top({count} {})", tree(inner)),
            NodeKind::Or(parts) => {
                let [left, right] = parts.each_ref().map(tree);
                format!("({left} or {right})")
            }
            NodeKind::Limited(_, Limit::Labels(selector)) => limited(selector),
            NodeKind::Limited(name, Limit::Ids(ids)) => format!("{name}{ids:?}"),
        }
    }

    /// `name{label}`, with the names of the labels.
    fn limited(selector: &Selector) -> String {
        let labels: Vec<&str> = selector.labels().collect();
        let labels = Some(labels.join(",")).filter(|labels| !labels.is_empty());
        format!("{}{}", selector.name(), labels.map(|all| format!("{{{all}}}")).unwrap_or_default())
    }

    fn parsed(text: &str) -> Result<String, String> {
        definition(text)
            .map(|(_, root)| tree(&root))
            .map_err(|flaw| flaw.into_error(text).to_string())
    }

    #[test]
    fn operators_group_by_precedence_and_from_the_left() {
        for (text, expected) in [
            ("a", "a"),
            ("a{b='c', d=~\"e\"}/a[x]", "(a{b,d}/a[x])"),
            (
                "quantile(0.5, a.b{c='}'}) > quantile(1, a.b)",
                "(quantile(0.5 a.b{c})>quantile(1 a.b))",
            ),
            ("a+b*c", "(a+(b*c))"),
            ("a*b+c", "((a*b)+c)"),
            ("a-b-c", "((a-b)-c)"),
            ("a/b/c", "((a/b)/c)"),
            ("(a+b)*c", "((a+b)*c)"),
            ("-a*b+c", "((-(a*b))+c)"),
            ("a*-b*c", "(a*(-(b*c)))"),
            ("a*-b+c", "((a*(-b))+c)"),
            ("--1", "(-(-1))"),
            ("a - -1.5", "(a-(-1.5))"),
            ("a-b>c+d", "((a-b)>(c+d))"),
            ("a>b!=c", "((a>b)!=c)"),
            ("a<=b==c>=d", "(((a<=b)==c)>=d)"),
            ("-a<b", "((-a)<b)"),
            ("a>b*c&&d<=e+f", "((a>(b*c))&&(d<=(e+f)))"),
            ("a>=b||b>c&&d!=e||f>g", "((((a>=b)||(b>c))&&(d!=e))||(f>g))"),
            ("!a<b+c", "(!(a<(b+c)))"),
            ("!a>b||c<d", "((!(a>b))||(c<d))"),
            ("!!a", "(!(!a))"),
            ("a*!b+c", "(a*(!(b+c)))"),
            ("!a?b:c", "((!a)?b:c)"),
            ("a?b:c", "(a?b:c)"),
            ("a||b?c+1:d*2", "((a||b)?(c+1):(d*2))"),
            ("a?b:c?d:e", "((a?b:c)?d:e)"),
            ("a?b?c:d:e", "(a?(b?c:d):e)"),
            ("a?b:(c?d:e)", "(a?b:(c?d:e))"),
            ("a ? novalue() : b", "(a?none:b)"),
            ("rate(a)/delta(b)", "(Rate(a)/Delta(b))"),
            ("(a+b)[x y]", "(a+b)[x y]"),
            ("a[x]+a[y]", "(a[x]+a[y])"),
            ("matchinst(/^s.a/, a/b)", "(a/b)[/^s.a/]"),
            ("matchinst(!/x/, a)", "a[!/x/]"),
            ("rescale(a, \"Mbyte\")", "aas<Mbyte>"),
            ("defined(a.b) && c", "(a.b?&&c)"),
            ("mkconst(7, type=u64) + mkconst(0.5, units=\"byte\")", "(7+0.5)"),
            ("p99(a) > 50ms", "(quantile(0.99 a)>50<millisec>)"),
            ("p99.9(a{b='c'})", "quantile(0.9990000000000001 a{b})"),
            ("below(2 s, a) * 100", "(below(2<sec> a)*100)"),
            ("topk(3, rate(a)) + 1", "(top(3 Rate(a))+1)"),
            ("a + b or 0", "((a+b) or 0)"),
            ("sum by (b) (rate(a)) / sum(rate(a))", "(Sum<b>(Rate(a))/Sum(Rate(a)))"),
            ("1 + sum(rate(a)) by (b, c)", "(1+Sum<b,c>(Rate(a)))"),
            ("count by (b, c)(a) + by", "(Count<b,c>(a)+by)"),
            ("max_over(a{b='c'}) - min_over(a)", "(max_over(a{b})-min_over(a))"),
            ("a or b || c or d", "((a or (b||c)) or d)"),
            // A function's name without a parenthesis is a metric.
            ("rate + sum.x + p99 + ms", "(((rate+sum.x)+p99)+ms)"),
            ("type + meta", "(type+meta)"),
        ] {
            assert_eq!(parsed(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn parameters_are_read_in_any_case_with_or_without_quotes() {
        let metadata = |text: &str| match definition(text).unwrap().1.kind {
            NodeKind::Constant(_, metadata) | NodeKind::NoValue(metadata) => metadata,
            other => panic!("{other:?}"),
        };
        let all =
            "mkconst(1, type=\"Double\", semantics=COUNTER, units = \"byte / sec\", indom=60.10)";
        let found = metadata(all);
        assert_eq!(found.value_type, Some(ValueType::Double));
        assert_eq!(found.semantics, Some(Semantics::Counter));
        assert_eq!(found.units, Some(Units::bytes().per_second()));
        assert_eq!(found.indom, Some(InDom::new(60, 10).unwrap().raw()));
        let found = metadata("novalue(meta=disk.dev.read, indom=\"Null\", type=32)");
        assert_eq!(found.metric.as_deref(), Some("disk.dev.read"));
        assert_eq!((found.indom, found.value_type), (Some(InDom::NULL_RAW), Some(ValueType::I32)));
        for (text, expected) in [
            ("u32", ValueType::U32),
            ("64", ValueType::I64),
            ("U64", ValueType::U64),
            ("float", ValueType::Float),
        ] {
            let found = metadata(&format!("mkconst(1, type={text})"));
            assert_eq!(found.value_type, Some(expected));
        }
    }

    #[test]
    fn a_definition_has_a_name() {
        assert_eq!(definition("x.y = a").unwrap().0, Some("x.y"));
        assert_eq!(definition("a").unwrap().0, None);
        assert_eq!(definition("a == b").unwrap().0, None);
        assert!(definition("x = y = a").is_err());
        assert!(definition("x =").is_err());
    }

    #[test]
    fn errors_name_the_token_and_its_column() {
        for (text, expected) in [
            ("", "column 1: found the end, expected a metric, a number, a function or \"(\""),
            ("a b", "column 3: found \"b\", expected an operator or the end"),
            ("(a", "column 3: found the end, expected an operator or \")\""),
            ("a + )", "column 5: found \")\", expected a metric, a number, a function or \"(\""),
            ("sum(a+1)[x]", "column 9: found [x], expected an operator or the end"),
            ("mean(a)", "column 1: there is no function mean; write avg(NAME)"),
            ("increase(a)", "column 1: there is no function increase; write delta(NAME)"),
            ("p101(a)", "column 1: there is no function p101"),
            ("sum by a", "column 8: found \"a\", expected \"(\" and labels"),
            ("sum by (a)", "column 11: found the end, expected \"(\" and an expression"),
            ("rate by (a) (b)", "column 6: found \"by\", expected an operator or the end"),
            ("topk(0, a)", "column 6: found 0, expected a number of instances such as 3"),
            ("below(5)", "column 8: found \")\", expected \",\" and a histogram"),
            ("5 km", "column 3: found \"km\", expected an operator or the end"),
            ("rescale(a)", "column 10: found \")\", expected \",\" and units in quotes"),
            ("rescale(a, \"furlong\")", "column 12: "),
            ("a > > 0", "column 5: found \">\", expected a metric"),
            ("a ? b", "column 6: found the end, expected an operator or \":\""),
            ("a ? : b", "column 5: found \":\", expected a metric"),
            ("defined(1)", "column 9: found 1, expected a metric"),
            ("matchinst(a, b)", "column 11: found \"a\", expected a regular expression"),
            ("matchinst(/(/, b)", "column 11: regular expression /(/: "),
            ("matchinst(/a/)", "column 14: found \")\", expected \",\" and an expression"),
            ("mkconst(1)", "column 10: found \")\", expected \",\" and a parameter"),
            ("mkconst(a, type=32)", "column 9: found \"a\", expected a number"),
            ("mkconst(1, 2)", "column 12: found 2, expected type=, semantics=, units=,"),
            ("mkconst(1, kind=32)", "column 12: found \"kind\", expected type=, semantics=,"),
            ("mkconst(1, type=16)", "column 17: found \"16\", expected 32, U32, 64, U64, FLOAT or"),
            ("novalue(semantics=x)", "column 19: found \"x\", expected COUNTER, INSTANT or"),
            ("novalue(indom=1)", "column 15: found \"1\", expected NULL or a domain such as"),
            ("novalue(units=x)", "column 15: "),
            ("novalue(type=)", "column 14: found \")\", expected a value"),
            ("novalue(type 32)", "column 14: found 32, expected \"=\" and a value"),
            ("\u{e4} + 1", "column 1: "),
            ("a + \u{e4}", "column 5: "),
        ] {
            let error = parsed(text).unwrap_err();
            let expected = format!("expression \"{text}\", {expected}");
            assert!(error.starts_with(&expected), "{error}");
        }
    }

    #[test]
    fn depth_is_limited_in_every_direction() {
        let deep = 100_000;
        for text in [
            "(".repeat(deep),
            "-".repeat(deep) + "1",
            "!".repeat(deep) + "1",
            "sum(".repeat(deep),
            "matchinst(/x/,".repeat(deep),
            "1?".repeat(deep),
            "1".to_owned() + &"+1".repeat(deep),
            "1".to_owned() + &"*1".repeat(deep),
            "1".to_owned() + &"?1:1".repeat(deep),
            "1*(".repeat(deep),
            "1||!".repeat(deep),
        ] {
            let flaw = definition(&text).unwrap_err();
            assert_eq!(flaw.problem, Problem::Depth(MAX_DEPTH));
        }
        assert!(definition(&("1".to_owned() + &"+1".repeat(MAX_DEPTH - 1))).is_ok());
        assert!(definition(&("(".repeat(80) + "1" + &")".repeat(80))).is_ok());
    }

    proptest::proptest! {
        /// forall texts of the language's characters: a tree or an error
        #[test]
        fn every_text_is_a_tree_or_an_error(text in "[a-c0-9.+*/()\\[\\]\", =<>!&|?:-]{0,60}") {
            let _ = definition(&text);
        }
    }
}

//! Derived metrics: values computed from those of other metrics.
//!
//! An expression has the syntax of PCP's own derived metrics
//! (pmRegisterDerived(3)), and its result has the type, semantics and units
//! that PCP gives it:
//!
//! ```text
//! disk.await = delta(disk.dev.total_rawactive) / delta(disk.dev.total)
//! cpu.busy   = 100 * (rate(kernel.all.cpu.user) + rate(kernel.all.cpu.sys)) / hinv.ncpu
//! eth0.bytes = network.interface.in.bytes[eth0] + network.interface.out.bytes[eth0]
//! swap.used  = defined(swap.length) ? swap.length - swap.free : novalue()
//! ```
//!
//! [`definitions`] reads a configuration file of such definitions.
//!
//! | | |
//! |---|---|
//! | `a.b.c`, `7`, `0.5` | a metric, an integer of 32 bits without sign, a double |
//! | `50ms`, `0.5 s` | a time, in ns, us, ms, s, min or h |
//! | `mkconst(7, type=U64, semantics=counter, units="byte / sec", indom=60.1, meta=m)` | a constant with metadata, at least one of these; `meta`: the others are those of metric m, in whose type a fraction is cut off. With instances it has a value for each that the domain ever had |
//! | `-x` | negation |
//! | `x * y` `x / y` | a quotient is a double, 0 / 0 is 0; that of two counters is that of what they grew by since the moment before |
//! | `x + y` `x - y` | |
//! | `x < y` `<=` `==` `>=` `>` `!=` | 1 where it holds, else 0 |
//! | `!x` | 1 where x is 0, else 0; `!x < y` is `!(x < y)` |
//! | `x && y` `x \|\| y` | 1 or 0; both of one precedence |
//! | `x ? y : z` | y where x is not 0, else z |
//! | `( )` | |
//! | `x[name]` | one instance of a metric or of an expression in parentheses; a number selects by instance number if no instance has that name |
//! | `m{code="500"}` | the instances of metric m with these labels, as a [`Selector`] selects them |
//! | `matchinst(/re/, x)` `matchinst(!/re/, x)` | the instances whose name, up to the first blank, matches, or those whose name does not. A backslash before a character is dropped: `\/` is a slash, `\\.` a dot |
//! | `rate(x)`, `delta(x)` | the growth of x since the moment before, per second or in total; over a restart of a program that of its runs |
//! | `sum(x)` `avg(x)` `min(x)` `max(x)` `count(x)` | over all instances |
//! | `sum by (a, b) (x)`, `avg by` ... | the same over the instances with the same labels a and b; the instances of the result are called `a=1,b=2`; x is not a counter |
//! | `scalar(x)` | the first instance, without its name |
//! | `instant(x)` | a counter itself, never its rate |
//! | `rescale(x, "Mbyte")` | in other units of the same dimension |
//! | `quantile(0.99, h)` | the quantile, from 0 to 1, of what histogram h counted since the moment before; h as `mmv.shop.latency` or with `.bucket`, and with labels if it has some |
//! | `p99(h)`, `p99.9(h)` | the same as `quantile(0.99, h)` |
//! | `rate(h)` | the values per second that histogram h counted. A bucket is logged from its first value on, which the rates of h.bucket lack and this has |
//! | `below(100ms, h)` | the part, from 0 to 1, of what histogram h counted since the moment before that is at most 100 ms; within the bucket of the limit in proportion |
//! | `max_over(x)` `min_over(x)` `avg_over(x)` | the greatest, least and mean, of each instance, of the values that a metric was logged with since the moment before; of an expression its values at each time at which a metric in it was logged, where `rate` and `p99` compare with the time before that; x is not a counter |
//! | `topk(3, x)` | of the instances of x those with the 3 largest values |
//! | `x or y` | x, and y where x has no value: for the instances that x lacks, or if y is a single value all that x selects, without a selection all that its domain ever had; the loosest operator, with `? :` |
//! | `defined(m)` | 1 if the archive has metric m, else 0 |
//! | `novalue(type=U64, ...)` | no value; the parameters of `mkconst`, if any |
//!
//! The operators are listed from the tightest to the loosest; those of one row,
//! and the comparisons, group from the left. So does `? :`, unlike in C:
//! `a ? b : c ? d : e` is `(a ? b : c) ? d : e`. A prefix operator applies to all
//! tighter operators after it: `-a * b` is `-(a * b)`. Expressions nest up to 250
//! levels.
//!
//! The condition of `? :` is evaluated before all else if it consists of `defined`,
//! constants, `!`, `&&` and `||`: only the selected alternative is then checked,
//! and it may be the only one whose metrics the archive has.
//!
//! # Instances
//!
//! Operands of one domain are combined instance by instance; an instance without a
//! value in one of them has no result. A single value is combined with every
//! instance. With x 4 and 6 and y 1 and 2 of the instances `a` and `b`, and n 2:
//!
//! | | a | b | |
//! |---|---|---|---|
//! | `x + y` | 5 | 8 | |
//! | `x / n` | 2 | 3 | |
//! | `x > 5 ? y : x` | 4 | 2 | |
//! | `sum(x) - n` | | | 8 |
//! | `avg(y)` | | | 1.5 |
//!
//! # The moment before
//!
//! `rate` and `delta` compare two moments, which [`Replay::at_since`] takes; the
//! result depends on these two alone. A counter does not reach over a mark, and
//! the rate of a counter is that of [`Replay::rates_at`]: none where the counter
//! was reset.
//!
//! `quantile`, `below` and `max_over` compare the same two moments themselves, so they cannot be
//! within `rate` or `delta`, nor one `max_over` within another.
//!
//! PCP's grammar has no histograms, labels, times, `by`, `max_over`, `topk` and `or`, and refuses
//! the quotient of two counters. In it a name before a parenthesis is always a function, there are
//! no braces, and no name follows a number or an operand: no expression that PCP accepts has
//! another meaning here.
//!
//! # Differences from PCP
//!
//! | | PCP 7.2.1 | here | reason |
//! |---|---|---|---|
//! | `sum`, `avg`, `min`, `max` of no values | 0, the previous result, or any number | no value | no instance was measured |
//! | scales of `byte` and `Kbyte` in `x < y` | not converted | converted | 1 Kbyte is more than 2 byte |
//! | numbers of different types in `x < y` | converted as in C: `-1 < 0` is false, 0 being unsigned | compared by value | |
//! | units in `x < y` | any, if one side is of type U32; dimensions also differ between a counter and a level | the same dimension, or one side is a constant without units | pmRegisterDerived(3) |
//! | semantics of `counter < y`, `counter && y`, `!counter` | counter | instant | pmRegisterDerived(3): the result is not a counter |
//! | type, units and value of `!x` | type and units of x, of which 32 bits are set | 32 bits unsigned, no units | as documented |
//! | instances of `x ? y : z` | paired by their order; `novalue()` may displace or crash | paired by identity | |
//! | metadata of `x ? novalue() : novalue()` | 32 bits unsigned, discrete | those of the second | no value either way |
//! | units of the sum of a plain number and a count | those of the left one, or of that which is not a constant | count | |
//! | scale of a constant with units in sums, products and quotients | may be lost: 100 hours times 2 seconds are 0.06 `sec^2` | kept: 0.06 `hour^2` | |
//! | a product with a counter | a counter if the left operand is one | a counter | |
//! | `byte^2` to `Kbyte^2` in sums | divided by 1024 | by 1024^2 | |
//! | `rate` of an unsigned level that falls by 1000 a second | 4294966296 | -1000 | |
//! | `rate` and `delta` of a counter after a mark | none for two samples | none for one | |
//! | `rate` of a counter that was reset, of type I32 | negative | none | as for the other types |
//! | `rate` and `delta` of `defined(m)` | no value | 0 | as of other constants |
//! | `delta(instant(x))`, `rate(instant(x))` | 0 for an instance of any number | the growth of x | |
//! | `delta(rate(x))` and the like | computed from three moments | an error | a result depends on two moments |
//! | `avg` | summed in single precision | in double precision | |
//! | `sum(rate(x))` | an error: only names in aggregates | the sum of the rates | |
//! | `novalue()` | only next to the `:` | anywhere | |
//! | `x[5]` | the instance with the name 5 | also the one with the number 5 | |
//! | instances of `x[name]`, `matchinst` of what has none | no value | an error | |
//! | `matchinst(/re/, x / y)` | an error: the pattern extends to the last slash | the instances of the quotient | |
//! | `0.5 ? y : z`, `0 && m ? y : z` | the condition is not evaluated in advance, and a part that the archive lacks is an error or has no value | evaluated in advance | it does not depend on values |
//! | `mkconst(1, meta=m)`, m a string | whatever is in memory | an error | |
//! | `type`, `units` ... as metrics | reserved | metrics | |
//! | regular expressions | POSIX extended | those of `regex_lite`, which differ in `\` within brackets | |
//! | `anon(x)`, `#control`, equivalent instance domains | for PCP's own use, or by its configuration | not supported | |
//!
//! PCP 7.2.1 is commit 918d12b68b (`git describe`: 7.2.0-63), of which libpcp evaluated
//! random expressions beside this module.
//!
//! PCP 6.0.3 also lacks `novalue`, `meta`, `indom`, expressions within `delta`, `rate`
//! and `instant`, and conditions that are evaluated in advance; and it has a rate of
//! nearly 2^32 or 2^64 where an unsigned counter was reset.
//!
//! [`Replay::at_since`]: crate::replay::Replay::at_since
//! [`Replay::rates_at`]: crate::replay::Replay::rates_at
//! [`Selector`]: crate::scan::Selector

mod arithmetic;
mod by_run;
mod check;
mod definitions;
mod evaluate;
mod parse;
mod token;

use crate::error::series::suggestion;
use crate::{InDom, InstanceId, ValueType};

pub(crate) use check::{
    Bound, HistogramPart, InstanceGroups, LimitedOperand, NameResolver, Operand, QuantileOf,
};
pub use definitions::definitions;
pub use evaluate::ExpressionValues;
pub(crate) use evaluate::{Before, OperandValues};
pub(crate) use parse::OverFunction;
pub(crate) use parse::{Filter, Limit};

/// A parsed expression and its name.
///
/// ```
/// use pcp_archive::replay::Expression;
///
/// let busy: Expression = "busy = 100 * rate(kernel.all.cpu.user)".parse()?;
/// assert_eq!(busy.name(), "busy");
/// let error = "100 * * rate(x)".parse::<Expression>().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "expression \"100 * * rate(x)\", column 7: found \"*\", expected a metric, a number, \
///      a function or \"(\"",
/// );
/// # Ok::<(), pcp_archive::replay::ExpressionError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Expression {
    text: String,
    name: String,
    root: parse::Node,
}

impl Expression {
    /// Returns the name in `name = ...`; without one the text itself.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the sum of the values of a metric's instances, all or these, which ascend, or of
    /// their rates, with the name of the metric itself.
    pub(crate) fn sum_of(metric: &str, ids: Option<Vec<InstanceId>>, rates: bool) -> Self {
        let text = if rates { format!("sum(rate({metric}))") } else { format!("sum({metric})") };
        Self { text, name: metric.to_owned(), root: parse::sum_of(metric, ids, rates) }
    }

    pub(crate) fn is_named(&self) -> bool {
        self.name != self.text
    }

    pub(crate) fn taken(&self) -> ExpressionError {
        Flaw::new(0, Problem::NameTaken(self.name.clone())).into_error(&self.text)
    }

    /// Returns the error for more derived metrics than PMIDs.
    pub(crate) fn too_many(&self) -> ExpressionError {
        Flaw::new(0, Problem::TooMany).into_error(&self.text)
    }

    /// Returns the text that was parsed.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl std::str::FromStr for Expression {
    type Err = ExpressionError;

    /// Parses `expression` or `name = expression`.
    ///
    /// # Errors
    ///
    /// For text that is not an expression, with the column. Metrics are not looked
    /// up.
    fn from_str(text: &str) -> Result<Self, ExpressionError> {
        let text = text.trim();
        let (name, root) = parse::definition(text).map_err(|flaw| flaw.into_error(text))?;
        let name = name.unwrap_or(text).to_owned();
        Ok(Self { text: text.to_owned(), name, root })
    }
}

/// An error in an expression and its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[error("expression \"{expression}\", column {column}: {problem}")]
pub struct ExpressionError {
    /// The text that cannot be used.
    pub expression: String,
    /// The character, counted from 1.
    pub column: usize,
    /// The error at that place.
    pub problem: Problem,
}

/// Returns the end of a message about a function that has another name here.
fn instead(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |form| format!("; write {form}"))
}

/// The error at a place in an expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the fields are those of the message above each variant")]
pub enum Problem {
    #[error("found {found}, expected {expected}")]
    Unexpected { found: String, expected: &'static str },
    /// A quoted text, a pattern or the name of an instance without an end.
    #[error("the closing {0} is missing")]
    Unclosed(char),
    /// An integer that does not fit 32 bits.
    #[error("{0} exceeds 4294967295; write larger numbers with a decimal point")]
    LargeInteger(String),
    /// More nested parts than are allowed.
    #[error("more than {0} nested parts")]
    Depth(usize),
    /// A name before a parenthesis that is not a function. `nearest` is a form with the meaning of
    /// that function in another language.
    #[error("there is no function {name}{}", instead(*nearest))]
    UnknownFunction { name: String, nearest: Option<&'static str> },
    /// The range of a vector, as in PromQL, where an instance is expected.
    #[error(
        "{0} is not an instance; a rate covers the interval between samples: write rate(NAME), \
         and take a sample every {0}"
    )]
    Range(String),
    /// A limit of `below` that is not a number.
    #[error("the first argument of below() must be a number such as 100ms or 0.5")]
    NoLimit,
    /// A counter where only its rate says something.
    #[error("{0} cannot be used with a counter; write rate(NAME)")]
    CounterIn(&'static str),
    /// A counter where only the values of an interval have a meaning.
    #[error("{0} cannot be used with a counter; write {0}(rate(NAME))")]
    CounterOver(&'static str),
    /// A metric that the archive does not have. `nearest` is the name most like it.
    #[error("no metric {name} in the archive{}", suggestion(nearest.as_deref()))]
    UnknownMetric { name: String, nearest: Option<String> },
    /// A histogram where a number is needed.
    #[error(
        "{0} is a histogram; write p99({0}) for a quantile, below(100ms, {0}) for the part of its \
         values up to a limit, or rate({0}) for their number per second"
    )]
    Histogram(String),
    /// A metric that is not a histogram.
    #[error("{0} is not a histogram, which a quantile or below() needs")]
    NotHistogram(String),
    /// A name that is neither that of a histogram nor of a metric.
    #[error(
        "no histogram {name} in the archive{}; it is a counter {name}.bucket with a label \
         \"histogram\"",
        suggestion(nearest.as_deref())
    )]
    NoHistogram { name: String, nearest: Option<String> },
    /// The archive has a metric of the expression's name.
    #[error("the archive already has a metric {0}")]
    NameTaken(String),
    /// All PMIDs of derived metrics are in use.
    #[error("there are no PMIDs for more than 4194303 derived metrics")]
    TooMany,
    /// Units that cannot be parsed.
    #[error("{0}")]
    Units(String),
    /// Labels that cannot be parsed.
    #[error("labels {0}: {1}")]
    Labels(String, String),
    /// A label that no instance of a metric has.
    #[error("no instance of {metric} has a label {label}; the labels are: {known}")]
    UnknownLabel { metric: String, label: String, known: String },
    /// A regular expression that cannot be compiled.
    #[error("regular expression /{0}/: {1}")]
    Pattern(String, String),
    /// Values that are not numbers.
    #[error("{0} is not a number")]
    NotNumeric(ValueType),
    /// A constant in a type that cannot hold it.
    #[error("a constant with this value cannot have type {0}")]
    Constant(ValueType),
    /// Only one operand is a counter, or both are, and the operator does not allow it.
    #[error("cannot use {operator} between {left} and {right}; use rate(NAME) of a counter")]
    Semantics { operator: &'static str, left: &'static str, right: &'static str },
    /// A counter multiplied or divided by something that has units.
    #[error("cannot {0} a counter by something in {1}; use a plain number, or rate(NAME)")]
    CounterFactor(&'static str, String),
    /// Units that the operator cannot combine.
    #[error("cannot use {operator} between units \"{left}\" and \"{right}\"")]
    Dimensions { operator: &'static str, left: String, right: String },
    /// Alternatives of `?:` that differ in their types, semantics or units.
    #[error("different {what} on the two sides of \":\": \"{left}\" and \"{right}\"")]
    Alternatives { what: &'static str, left: String, right: String },
    /// A condition with instances between alternatives without.
    #[error("the condition has instances, but its alternatives have none")]
    ConditionInstances,
    /// Units of another dimension than the expression's.
    #[error("\"{from}\" cannot be converted to \"{to}\"")]
    Rescale { from: String, to: String },
    /// A rate needs a dimension of time of 0 or 1.
    #[error("rate() cannot be used with units \"{0}\"")]
    RateUnits(String),
    /// `rate`, `delta` or `quantile` within another: there is only one moment before.
    #[error("{0}() cannot be used within rate() or delta()")]
    Nested(&'static str),
    /// `max_over`, `min_over` or `avg_over` within another.
    #[error("{0}() cannot be used within max_over(), min_over() or avg_over()")]
    NestedOver(&'static str),
    /// Operands of different instance domains.
    #[error("different instance domains on the two sides of {operator}: {left} and {right}")]
    Domains { operator: &'static str, left: InDom, right: InDom },
    /// Selected instances of values that have none.
    #[error("{0}: these values have no instances")]
    NoInstances(String),
}

impl ExpressionError {
    /// Returns whether the archive merely lacks a metric of the expression.
    pub fn is_unknown_metric(&self) -> bool {
        matches!(self.problem, Problem::UnknownMetric { .. })
    }
}

/// A problem and its byte in a text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Flaw {
    at: usize,
    problem: Problem,
}

impl Flaw {
    fn new(at: usize, problem: Problem) -> Self {
        Self { at, problem }
    }

    fn into_error(self, text: &str) -> ExpressionError {
        let before = text.char_indices().take_while(|(at, _)| *at < self.at);
        let column = before.count() + 1;
        ExpressionError { expression: text.to_owned(), column, problem: self.problem }
    }
}

#[cfg(test)]
mod tests;

//! Derived metrics: values worked out of those of other metrics.
//!
//! An expression is written as for PCP's own derived metrics
//! (pmRegisterDerived(3)), and its result has the type, semantics and units
//! that PCP gives it:
//!
//! ```text
//! disk.await = delta(disk.dev.total_rawactive) / delta(disk.dev.total)
//! cpu.busy   = 100 * (rate(kernel.all.cpu.user) + rate(kernel.all.cpu.sys)) / hinv.ncpu
//! eth0.bytes = network.interface.in.bytes[eth0] + network.interface.out.bytes[eth0]
//! ```
//!
//! | | |
//! |---|---|
//! | `a.b.c`, `7`, `0.5` | a metric, an integer of 32 bits without sign, a double |
//! | `+ - * /`, `-x`, `( )` | as usual, products before sums; a quotient is a double, 0 / 0 is 0 |
//! | `x[name]` | one instance of a metric or of an expression in parentheses; a number does where it is nobody's name |
//! | `rate(x)`, `delta(x)` | how much x grew since the moment before, by the seconds in between or as it is |
//! | `sum(x)` `avg(x)` `min(x)` `max(x)` `count(x)` | over all instances |
//! | `scalar(x)` | the only instance, without its name |
//! | `instant(x)` | a counter as it is, never as a rate |
//! | `rescale(x, "Mbyte")` | in other units of the same dimension |
//!
//! # How instances meet
//!
//! Two metrics of one domain meet instance by instance; an instance that one of
//! them lacks has no value. A single value meets every instance. With x 4 and 6
//! and y 1 and 2 of the instances `a` and `b`, and n 2:
//!
//! | | a | b | |
//! |---|---|---|---|
//! | `x + y` | 5 | 8 | |
//! | `x / n` | 2 | 3 | |
//! | `sum(x) - n` | | | 8 |
//! | `avg(y)` | | | 1.5 |
//!
//! # The moment before
//!
//! `rate` and `delta` compare two moments, which [`Replay::at_since`] takes; the
//! answer depends on these two alone. A counter does not reach over a mark, and
//! the rate of a counter is that of [`Replay::rates_at`]: none where the counter
//! was set back.
//!
//! # Where PCP differs
//!
//! The sum, mean, least and largest of no values at all have no value here; PCP
//! says 0, or what they were before. Scales of units are converted by their
//! power on each side, and a product with a counter is a counter on whichever
//! side that stands.
//!
//! What grows from one moment to the next (PCP 6.0.3, the numbers of a test):
//!
//! | | PCP | here |
//! |---|---|---|
//! | `rate` of an unsigned level that fell by 1000 in a second | 4294966296 | -1000 |
//! | `rate` of an unsigned counter that was set back by 50 | 4294967246 | none |
//! | `rate` and `delta` of a counter behind a mark | none for two samples | none for one |
//! | `sum(rate(x))`, `rate(sum(x))` | refused: only a name may stand in a function | as they say |
//!
//! [`Replay::at_since`]: super::Replay::at_since
//! [`Replay::rates_at`]: super::Replay::rates_at

mod arithmetic;
mod check;
mod evaluate;
mod parse;
mod token;

use pcp_types::ValueType;

pub(crate) use check::{Bound, Operand, Scope};
pub use evaluate::Values;
pub(crate) use evaluate::{Before, Moments};

/// An expression that was read, and the name of its value.
///
/// ```
/// use mmv_archive::replay::Expression;
///
/// let busy: Expression = "busy = 100 * rate(kernel.all.cpu.user)".parse()?;
/// assert_eq!(busy.name(), "busy");
/// let error = "100 * * rate(x)".parse::<Expression>().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "expression \"100 * * rate(x)\", column 7: found \"*\", expected a metric, a number, \
///      a function or \"(\"",
/// );
/// # Ok::<(), mmv_archive::replay::ExpressionError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Expression {
    text: String,
    name: String,
    root: parse::Node,
}

impl Expression {
    /// The name that was given, `name = ...`; without one the text itself.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the values of a metric's instances add up to, or their rates, by the
    /// name of the metric itself.
    pub(crate) fn sum_of(metric: &str, rates: bool) -> Self {
        let text = if rates { format!("sum(rate({metric}))") } else { format!("sum({metric})") };
        Self { text, name: metric.to_owned(), root: parse::sum_of(metric, rates) }
    }

    pub(crate) fn is_named(&self) -> bool {
        self.name != self.text
    }

    /// The error if a metric of the archive has its name.
    pub(crate) fn taken(&self) -> ExpressionError {
        Flaw::new(0, Problem::Taken(self.name.clone())).of(&self.text)
    }

    /// The error if there are more expressions than numbers for them.
    pub(crate) fn too_many(&self) -> ExpressionError {
        Flaw::new(0, Problem::TooMany).of(&self.text)
    }

    /// The text it was read from.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl std::str::FromStr for Expression {
    type Err = ExpressionError;

    /// Reads `expression` or `name = expression`.
    ///
    /// # Errors
    ///
    /// With the column where the text stops to make sense. What the metrics
    /// are is not looked at.
    fn from_str(text: &str) -> Result<Self, ExpressionError> {
        let text = text.trim();
        let (name, root) = parse::definition(text).map_err(|flaw| flaw.of(text))?;
        let name = name.unwrap_or(text).to_owned();
        Ok(Self { text: text.to_owned(), name, root })
    }
}

/// An expression that makes no sense, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expression \"{expression}\", column {column}: {problem}")]
pub struct ExpressionError {
    /// The expression.
    pub expression: String,
    /// The character, counted from 1.
    pub column: usize,
    /// What is wrong there.
    pub problem: Problem,
}

/// What is wrong with an expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// Something else should stand here.
    #[error("found {found}, expected {expected}")]
    Unexpected {
        /// What stands here.
        found: String,
        /// What may stand here.
        expected: &'static str,
    },
    /// A quoted text or the name of an instance has no end.
    #[error("no {0} behind this one")]
    Unclosed(char),
    /// An integer that 32 bits do not hold.
    #[error("{0} is more than 4294967295; a number with a point may be larger")]
    LargeInteger(String),
    /// More parts within each other than any sensible expression has.
    #[error("more than {0} parts within each other")]
    Depth(usize),
    /// A name before a parenthesis that is no function.
    #[error("there is no function {0}")]
    UnknownFunction(String),
    /// A metric that the archive does not have.
    #[error("no metric {0} in the archive")]
    UnknownMetric(String),
    /// The archive has a metric of the name that the expression is given.
    #[error("the archive has a metric {0} of its own")]
    Taken(String),
    /// There are no numbers left for derived metrics.
    #[error("one derived metric too many")]
    TooMany,
    /// Units that cannot be read.
    #[error("{0}")]
    Units(String),
    /// Values that are no numbers.
    #[error("{0} is no number that can be reckoned with")]
    NotNumeric(ValueType),
    /// Counters can be added, subtracted, and multiplied or divided by what is
    /// none.
    #[error("no {operator} between {left} and {right}")]
    Semantics {
        /// The operator.
        operator: char,
        /// What stands left of it: "a counter", "no counter".
        left: &'static str,
        /// What stands right of it.
        right: &'static str,
    },
    /// What a counter is multiplied or divided by must be a plain number.
    #[error("a counter {0} something in {1}, not a plain number")]
    CounterFactor(&'static str, String),
    /// Units that the operator cannot combine.
    #[error("no {operator} between units \"{left}\" and \"{right}\"")]
    Dimensions {
        /// The operator.
        operator: char,
        /// The units left of it.
        left: String,
        /// The units right of it.
        right: String,
    },
    /// Units that do not measure what the expression does.
    #[error("\"{from}\" cannot be converted to \"{to}\"")]
    Rescale {
        /// The units of the expression.
        from: String,
        /// The units asked for.
        to: String,
    },
    /// A rate needs a dimension of time of 0 or 1.
    #[error("no rate of units \"{0}\"")]
    RateUnits(String),
    /// `rate` or `delta` within another: there is only one moment before.
    #[error("{0}() within rate() or delta()")]
    Nested(&'static str),
    /// Instances of different domains do not meet.
    #[error("instance domains {left} and {right} on the two sides of {operator}")]
    Domains {
        /// The operator.
        operator: char,
        /// The domain left of it.
        left: String,
        /// The domain right of it.
        right: String,
    },
    /// An instance of something that has none.
    #[error("[{0}]: these values have no instances")]
    NoInstances(String),
}

impl ExpressionError {
    /// The expression is fine, but the archive lacks a metric of it.
    pub fn is_unknown_metric(&self) -> bool {
        matches!(self.problem, Problem::UnknownMetric(_))
    }
}

/// A problem and the byte at which it is, before it is known of which text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Flaw {
    at: usize,
    problem: Problem,
}

impl Flaw {
    fn new(at: usize, problem: Problem) -> Self {
        Self { at, problem }
    }

    fn of(self, text: &str) -> ExpressionError {
        let before = text.char_indices().take_while(|(at, _)| *at < self.at);
        let column = before.count() + 1;
        ExpressionError { expression: text.to_owned(), column, problem: self.problem }
    }
}

#[cfg(test)]
mod tests;

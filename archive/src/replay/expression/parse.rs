//! From words to a tree: products before sums, each from left to right.

use pcp_types::Units;

use super::token::{Token, tokens};
use super::{Flaw, Problem};

/// So deep may a tree be: everything that walks one calls itself.
const MAX_DEPTH: usize = 250;

/// What begins an operand.
const OPERAND: &str = "a metric, a number, a function or \"(\"";

/// A part of an expression.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    /// The byte that errors about it point at.
    pub(super) at: usize,
    pub(super) kind: Kind,
    /// How many parts lie within each other, this one included.
    depth: usize,
}

/// What a part is.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    Integer(u32),
    Double(f64),
    Metric(String),
    Negative(Box<Node>),
    Binary(Operator, Box<Node>, Box<Node>),
    Instance(Box<Node>, String),
    Call(Function, Box<Node>),
    Rescale(Box<Node>, Units),
}

/// An operator between two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Plus,
    Minus,
    Times,
    Over,
}

impl Operator {
    pub(super) const fn sign(self) -> char {
        match self {
            Self::Plus => '+',
            Self::Minus => '-',
            Self::Times => '*',
            Self::Over => '/',
        }
    }
}

/// A function of one expression.
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

/// The functions by their names.
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

/// Reads `expression` or `name = expression`.
pub(super) fn definition(text: &str) -> Result<(Option<&str>, Node), Flaw> {
    let tokens = tokens(text)?;
    let (name, begin) = match tokens.as_slice() {
        [(_, Token::Name(name)), (_, Token::Sign('=')), ..] => (Some(*name), 2),
        _ => (None, 0),
    };
    let mut parser = Parser { tokens: &tokens, next: begin, open: 0 };
    let root = parser.sum()?;
    parser.expect(&Token::End, "an operator or the end")?;
    Ok((name, root))
}

/// The tree of `sum(metric)`, or of `sum(rate(metric))`.
pub(super) fn sum_of(metric: &str, rates: bool) -> Node {
    let call = |function, inner: Node| {
        let depth = inner.depth + 1;
        Node { at: 0, kind: Kind::Call(function, Box::new(inner)), depth }
    };
    let metric = Node { at: 0, kind: Kind::Metric(metric.to_owned()), depth: 1 };
    call(Function::Sum, if rates { call(Function::Rate, metric) } else { metric })
}

/// Reads words from the first to the last.
struct Parser<'p, 't> {
    tokens: &'p [(usize, Token<'t>)],
    next: usize,
    /// Parentheses, functions and signs that are begun and not ended.
    open: usize,
}

impl<'p, 't> Parser<'p, 't> {
    fn peek(&self) -> &'p Token<'t> {
        self.tokens.get(self.next).map_or(&Token::End, |(_, token)| token)
    }

    /// The byte of the next word.
    fn at(&self) -> usize {
        self.tokens.get(self.next).map_or(0, |(at, _)| *at)
    }

    fn take(&mut self) -> (usize, &'p Token<'t>) {
        let taken = (self.at(), self.peek());
        self.next += 1;
        taken
    }

    fn unexpected<T>(&self, expected: &'static str) -> Result<T, Flaw> {
        let found = self.peek().said();
        Err(Flaw::new(self.at(), Problem::Unexpected { found, expected }))
    }

    fn expect(&mut self, token: &Token<'_>, expected: &'static str) -> Result<(), Flaw> {
        if self.peek() != token {
            return self.unexpected(expected);
        }
        self.next += 1;
        Ok(())
    }

    fn sum(&mut self) -> Result<Node, Flaw> {
        let operator = |token: &Token<'_>| match token {
            Token::Sign('+') => Some(Operator::Plus),
            Token::Sign('-') => Some(Operator::Minus),
            _ => None,
        };
        self.chain(operator, Self::product)
    }

    fn product(&mut self) -> Result<Node, Flaw> {
        let operator = |token: &Token<'_>| match token {
            Token::Sign('*') => Some(Operator::Times),
            Token::Sign('/') => Some(Operator::Over),
            _ => None,
        };
        self.chain(operator, Self::operand)
    }

    /// Operands with such operators between them, from left to right.
    fn chain(
        &mut self,
        operator: fn(&Token<'_>) -> Option<Operator>,
        operand: fn(&mut Self) -> Result<Node, Flaw>,
    ) -> Result<Node, Flaw> {
        let mut left = operand(self)?;
        while let Some(operator) = operator(self.peek()) {
            let (at, _) = self.take();
            let right = operand(self)?;
            let depth = left.depth.max(right.depth);
            let kind = Kind::Binary(operator, Box::new(left), Box::new(right));
            left = node(at, kind, depth)?;
        }
        Ok(left)
    }

    /// An operand, which may take operands in turn.
    fn operand(&mut self) -> Result<Node, Flaw> {
        self.open += 1;
        if self.open > MAX_DEPTH {
            return Err(Flaw::new(self.at(), Problem::Depth(MAX_DEPTH)));
        }
        let operand = self.open_operand()?;
        self.open -= 1;
        Ok(operand)
    }

    fn open_operand(&mut self) -> Result<Node, Flaw> {
        let at = self.at();
        match self.peek() {
            Token::Integer(number) => {
                self.next += 1;
                node(at, Kind::Integer(*number), 0)
            }
            Token::Double(number) => {
                self.next += 1;
                node(at, Kind::Double(*number), 0)
            }
            Token::Name(name) => {
                self.next += 1;
                if *self.peek() == Token::Sign('(') {
                    return self.call(at, name);
                }
                let metric = node(at, Kind::Metric((*name).to_owned()), 0)?;
                self.instance(metric)
            }
            Token::Sign('(') => {
                self.next += 1;
                let inner = self.sum()?;
                self.expect(&Token::Sign(')'), "an operator or \")\"")?;
                self.instance(inner)
            }
            // As in PCP the minus reaches over products: -a * b is -(a * b).
            Token::Sign('-') => {
                self.next += 1;
                let inner = self.product()?;
                let depth = inner.depth;
                node(at, Kind::Negative(Box::new(inner)), depth)
            }
            _ => self.unexpected(OPERAND),
        }
    }

    /// The instance that may be chosen behind an operand.
    fn instance(&mut self, operand: Node) -> Result<Node, Flaw> {
        let at = self.at();
        let Token::Instance(name) = self.peek() else { return Ok(operand) };
        self.next += 1;
        let depth = operand.depth;
        node(at, Kind::Instance(Box::new(operand), name.clone()), depth)
    }

    /// `(x)` behind the name of a function, or `(x, "units")`.
    fn call(&mut self, at: usize, name: &str) -> Result<Node, Flaw> {
        let function = FUNCTIONS.iter().find(|(known, _)| *known == name);
        if function.is_none() && name != "rescale" {
            return Err(Flaw::new(at, Problem::UnknownFunction(name.to_owned())));
        }
        self.next += 1;
        let inner = self.sum()?;
        let depth = inner.depth;
        let kind = match function {
            Some((_, function)) => Kind::Call(*function, Box::new(inner)),
            None => Kind::Rescale(Box::new(inner), self.units()?),
        };
        self.expect(&Token::Sign(')'), "an operator or \")\"")?;
        node(at, kind, depth)
    }

    /// `, "units"`.
    fn units(&mut self) -> Result<Units, Flaw> {
        self.expect(&Token::Sign(','), "\",\" and units in quotes")?;
        let Token::Text(text) = self.peek() else {
            return self.unexpected("units in quotes");
        };
        let (at, _) = self.take();
        text.parse()
            .map_err(|error: pcp_types::Error| Flaw::new(at, Problem::Units(error.to_string())))
    }
}

/// A part above others, unless they are too deep.
fn node(at: usize, kind: Kind, depth_below: usize) -> Result<Node, Flaw> {
    let depth = depth_below + 1;
    if depth > MAX_DEPTH {
        return Err(Flaw::new(at, Problem::Depth(MAX_DEPTH)));
    }
    Ok(Node { at, kind, depth })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tree with all its parentheses.
    fn tree(node: &Node) -> String {
        match &node.kind {
            Kind::Integer(number) => number.to_string(),
            Kind::Double(number) => format!("{number:?}"),
            Kind::Metric(name) => name.clone(),
            Kind::Negative(inner) => format!("(-{})", tree(inner)),
            Kind::Binary(operator, left, right) => {
                format!("({}{}{})", tree(left), operator.sign(), tree(right))
            }
            Kind::Instance(inner, name) => format!("{}[{name}]", tree(inner)),
            Kind::Call(function, inner) => format!("{function:?}({})", tree(inner)),
            Kind::Rescale(inner, units) => format!("{}as<{units}>", tree(inner)),
        }
    }

    fn parsed(text: &str) -> Result<String, String> {
        definition(text).map(|(_, root)| tree(&root)).map_err(|flaw| flaw.of(text).to_string())
    }

    #[test]
    fn products_come_before_sums_and_the_left_before_the_right() {
        for (text, expected) in [
            ("a", "a"),
            ("a+b*c", "(a+(b*c))"),
            ("a*b+c", "((a*b)+c)"),
            ("a-b-c", "((a-b)-c)"),
            ("a/b/c", "((a/b)/c)"),
            ("(a+b)*c", "((a+b)*c)"),
            ("-a*b+c", "((-(a*b))+c)"),
            ("a*-b*c", "(a*(-(b*c)))"),
            ("--1", "(-(-1))"),
            ("a - -1.5", "(a-(-1.5))"),
            ("rate(a)/delta(b)", "(Rate(a)/Delta(b))"),
            ("sum(a+1)[x]", "no"),
            ("(a+b)[x y]", "(a+b)[x y]"),
            ("a[x]+a[y]", "(a[x]+a[y])"),
            ("rescale(a, \"Mbyte\")", "aas<Mbyte>"),
            // Without its parenthesis the name of a function is a metric's.
            ("rate + sum.x", "(rate+sum.x)"),
        ] {
            match parsed(text) {
                Ok(found) => assert_eq!(found, expected, "{text}"),
                Err(_) => assert_eq!(expected, "no", "{text}"),
            }
        }
    }

    #[test]
    fn a_definition_has_a_name() {
        assert_eq!(definition("x.y = a").unwrap().0, Some("x.y"));
        assert_eq!(definition("a").unwrap().0, None);
        assert!(definition("x = y = a").is_err());
        assert!(definition("x =").is_err());
    }

    #[test]
    fn errors_say_what_was_found_where() {
        for (text, expected) in [
            ("", "column 1: found the end, expected a metric, a number, a function or \"(\""),
            ("a b", "column 3: found \"b\", expected an operator or the end"),
            ("(a", "column 3: found the end, expected an operator or \")\""),
            ("a + )", "column 5: found \")\", expected a metric, a number, a function or \"(\""),
            ("mean(a)", "column 1: there is no function mean"),
            ("rescale(a)", "column 10: found \")\", expected \",\" and units in quotes"),
            ("rescale(a, \"furlong\")", "column 12: "),
            ("a > 0", "column 3: found \">\", expected "),
            ("\u{e4} + 1", "column 1: "),
            ("a + \u{e4}", "column 5: "),
        ] {
            let error = parsed(text).unwrap_err();
            let expected = format!("expression \"{text}\", {expected}");
            assert!(error.starts_with(&expected), "{error}");
        }
    }

    #[test]
    fn depth_is_bounded_in_every_direction() {
        let deep = 100_000;
        for text in [
            "(".repeat(deep),
            "-".repeat(deep) + "1",
            "sum(".repeat(deep),
            "1".to_owned() + &"+1".repeat(deep),
            "1".to_owned() + &"*1".repeat(deep),
        ] {
            let flaw = definition(&text).unwrap_err();
            assert_eq!(flaw.problem, Problem::Depth(MAX_DEPTH));
        }
        assert!(definition(&("1".to_owned() + &"+1".repeat(MAX_DEPTH - 1))).is_ok());
        assert!(definition(&("(".repeat(200) + "1" + &")".repeat(200))).is_ok());
    }

    proptest::proptest! {
        /// forall texts of the language's characters: a tree or an error
        #[test]
        fn every_text_is_a_tree_or_an_error(text in "[a-c0-9.+*/()\\[\\]\", =-]{0,60}") {
            let _ = definition(&text);
        }
    }
}

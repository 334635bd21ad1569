//! The matchers of a query.

use regex_lite::{Regex, RegexBuilder};

use super::messages::LabelMatcher;
use crate::mapping::{Family, Kind, Label};

/// The label with the name of a metric.
const NAME: &str = "__name__";
const MAX_EXPRESSION: usize = 1 << 20;

/// Conditions for labels. A label that a series does not have is the empty string.
#[derive(Debug)]
pub(super) struct Matchers(Vec<Matcher>);

#[derive(Debug)]
struct Matcher {
    label: String,
    test: Test,
    /// Whether the value must fail the test.
    is_not: bool,
}

#[derive(Debug)]
enum Test {
    Equal(String),
    Expression(Regex),
}

impl Matchers {
    /// Compiles the matchers of a query.
    ///
    /// # Errors
    ///
    /// A message about an unknown kind of matcher or an expression that cannot be compiled.
    pub(super) fn new(matchers: &[LabelMatcher]) -> Result<Self, String> {
        let mut all = Vec::new();
        for LabelMatcher { r#type, name, value } in matchers {
            let test = match r#type {
                0 | 1 => Test::Equal(value.clone()),
                2 | 3 => Test::Expression(expression(value)?),
                other => {
                    return Err(format!("{name}: unknown matcher type {other}, expected 0 to 3"));
                }
            };
            all.push(Matcher { label: name.clone(), test, is_not: matches!(r#type, 1 | 3) });
        }
        Ok(Self(all))
    }

    /// Returns whether any sample of a family has a name that matches.
    pub(super) fn may_match(&self, family: &Family) -> bool {
        let names: Vec<String> = match family.kind {
            Kind::Counter | Kind::Gauge => vec![family.sample_name()],
            Kind::Histogram => ["_bucket", "_sum", "_count"]
                .iter()
                .map(|suffix| format!("{}{suffix}", family.name))
                .collect(),
        };
        names.iter().any(|name| self.matches_label(NAME, name))
    }

    pub(super) fn matches(&self, name: &str, labels: &[Label]) -> bool {
        self.0.iter().all(|matcher| {
            let value = if matcher.label == NAME {
                name
            } else {
                let found = labels.iter().find(|label| *label.name == *matcher.label);
                found.map_or("", |label| &label.value)
            };
            matcher.passes(value)
        })
    }

    fn matches_label(&self, label: &str, value: &str) -> bool {
        self.0.iter().filter(|matcher| matcher.label == label).all(|matcher| matcher.passes(value))
    }
}

impl Matcher {
    fn passes(&self, value: &str) -> bool {
        let passes = match &self.test {
            Test::Equal(expected) => value == expected,
            Test::Expression(expression) => expression.is_match(value),
        };
        passes != self.is_not
    }
}

/// Compiles an expression that matches a whole value, in which a dot is any character.
fn expression(text: &str) -> Result<Regex, String> {
    // Alone first, so that parentheses that only pair with the added ones are an error.
    compile(text)
        .and_then(|_| compile(&format!("^(?s:{text})$")))
        .map_err(|error| format!("{text:?}: {error}"))
}

fn compile(text: &str) -> Result<Regex, regex_lite::Error> {
    RegexBuilder::new(text).size_limit(MAX_EXPRESSION).build()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matchers(all: &[(i32, &str, &str)]) -> Result<Matchers, String> {
        let matchers = all.iter().map(|&(r#type, name, value)| LabelMatcher {
            r#type,
            name: name.to_owned(),
            value: value.to_owned(),
        });
        Matchers::new(&matchers.collect::<Vec<_>>())
    }

    #[test]
    fn series_match_as_in_prometheus() {
        let labels = [("code", "200"), ("path", "/a\nb")];
        let labels = labels.map(|(name, value)| Label { name: name.into(), value: value.into() });
        for (matcher, expected) in [
            ((0, "__name__", "up"), true),
            ((0, "__name__", "down"), false),
            ((0, "code", "200"), true),
            ((0, "code", "20"), false),
            ((1, "code", "200"), false),
            ((1, "code", "20"), true),
            ((2, "code", "2.."), true),
            ((2, "code", "2"), false),
            ((2, "code", "1|2.0"), true),
            ((3, "code", "2.."), false),
            ((3, "code", "5.."), true),
            ((2, "path", "/.*b"), true),
            ((0, "none", ""), true),
            ((2, "none", ".*"), true),
            ((2, "none", ".+"), false),
            ((1, "none", ""), false),
        ] {
            let found = matchers(&[matcher]).unwrap().matches("up", &labels);
            assert_eq!(found, expected, "{matcher:?}");
        }
        assert!(matchers(&[]).unwrap().matches("up", &labels));
        let both = [(0, "code", "200"), (0, "path", "x")];
        assert!(!matchers(&both).unwrap().matches("up", &labels));
    }

    #[test]
    fn what_cannot_be_compiled_is_an_error() {
        for matcher in [(2, "a", "("), (3, "a", "a)(b"), (2, "a", "(a{1000}){1000}"), (4, "a", "")]
        {
            assert!(matchers(&[matcher]).is_err(), "{matcher:?}");
        }
    }
}

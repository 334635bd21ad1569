//! Replacement of the first match of a regular expression, by the rules of sed(1).

use regex_lite::{Captures, Regex, RegexBuilder};

/// Limit on the memory of a compiled pattern.
const MAX_PATTERN_BYTES: usize = 1 << 20;

/// A part of the text that takes the place of a match.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    /// The match, or the text of one of its groups.
    Group(usize),
}

/// A regular expression, and what its first match in a text becomes.
#[derive(Debug, Clone)]
pub(super) struct Replacement {
    pattern: Regex,
    parts: Vec<Part>,
}

impl Replacement {
    /// Parses a pattern, and a replacement in which `&` is the match, `\1` to `\9` are its groups
    /// and a backslash before any other character stands for that character.
    pub(super) fn parse(pattern: &str, replacement: &str) -> Result<Self, String> {
        let mut builder = RegexBuilder::new(pattern);
        let pattern = builder.size_limit(MAX_PATTERN_BYTES).build();
        let pattern = pattern.map_err(|error| error.to_string())?;
        let groups = pattern.captures_len();
        let mut parts = Vec::new();
        let mut text = String::new();
        let mut characters = replacement.chars();
        while let Some(character) = characters.next() {
            let group = match character {
                '&' => Some(0),
                '\\' => match characters.next() {
                    Some(digit @ '1'..='9') => digit.to_digit(10).map(|digit| digit as usize),
                    Some(escaped) => {
                        text.push(escaped);
                        continue;
                    }
                    None => None,
                },
                other => {
                    text.push(other);
                    continue;
                }
            };
            let Some(group) = group else { break };
            if group >= groups {
                return Err(format!("the pattern has {} groups, none is \\{group}", groups - 1));
            }
            parts.push(Part::Text(std::mem::take(&mut text)));
            parts.push(Part::Group(group));
        }
        parts.push(Part::Text(text));
        Ok(Self { pattern, parts })
    }

    /// Returns the text with its first match replaced; `None` without a match.
    pub(super) fn apply(&self, text: &str) -> Option<String> {
        let found = self.pattern.captures(text)?;
        let whole = found.get(0)?;
        let mut changed = String::with_capacity(text.len());
        changed.push_str(text.get(..whole.start())?);
        self.expand(&found, &mut changed);
        changed.push_str(text.get(whole.end()..)?);
        Some(changed)
    }

    fn expand(&self, found: &Captures<'_>, out: &mut String) {
        for part in &self.parts {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Group(group) => out.push_str(found.get(*group).map_or("", |m| m.as_str())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_match_is_replaced_as_by_sed() {
        for (pattern, replacement, text, expected) in [
            ("[a-z]*foo[a-z]*", "FOO", "a barfoos foo", Some("a FOO foo")),
            ("([0-9]+) /.*/(.*)", r"\1 \2", "29 /home/me/bin/x", Some("29 x")),
            ("b+", "[&]", "abbbc", Some("a[bbb]c")),
            ("b", r"\&\\", "abc", Some(r"a&\c")),
            (".*", "", "anything", Some("")),
            ("x|(y)", r"<\1>", "axb", Some("a<>b")),
            ("[[:digit:]]+$", "#", "port 80", Some("port #")),
            ("z", "y", "abc", None),
        ] {
            let found = Replacement::parse(pattern, replacement).unwrap().apply(text);
            assert_eq!(found.as_deref(), expected, "{pattern}");
        }
    }

    #[test]
    fn a_group_that_the_pattern_does_not_have_is_refused() {
        let error = Replacement::parse("a(b)", r"\2").unwrap_err();
        assert_eq!(error, r"the pattern has 1 groups, none is \2");
        assert!(Replacement::parse("a(b", "").is_err());
        assert!(Replacement::parse("((a{99}){99}){99}", "").is_err());
    }
}

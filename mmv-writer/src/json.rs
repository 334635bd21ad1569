//! As much JSON (RFC 8259) as labels need: is a text a value, and what are the
//! name and value of `{"name":value}`.
//!
//! Values are kept as text, so nothing is lost by passing through a number.

use crate::names::is_label_name;

/// How deep arrays and objects may nest: as deep as archives take them. 244
/// bytes could nest 120 deep.
const MAX_DEPTH: u32 = 32;

/// Splits `{"name":value}`; `None` if the text is anything else, or the name
/// not a label's name.
pub(crate) fn single_pair(text: &str) -> Option<(&str, &str)> {
    let rest = text.trim_matches(is_space).strip_prefix('{')?.strip_suffix('}')?;
    let rest = rest.trim_start_matches(is_space).strip_prefix('"')?;
    let (name, rest) = rest.split_once('"')?;
    let value = rest.trim_start_matches(is_space).strip_prefix(':')?.trim_matches(is_space);
    (is_label_name(name) && is_value(value)).then_some((name, value))
}

/// Whether `text` is exactly one JSON value.
pub(crate) fn is_value(text: &str) -> bool {
    Scanner(text.as_bytes()).value(0).is_some_and(|rest| rest.space().0.is_empty())
}

/// `text` as a JSON string with its quotes.
pub(crate) fn quoted(text: &str) -> String {
    let mut json = String::with_capacity(text.len() + 2);
    json.push('"');
    for character in text.chars() {
        match character {
            '"' => json.push_str("\\\""),
            '\\' => json.push_str("\\\\"),
            control if (control as u32) < 0x20 => {
                let code = control as u32;
                json.extend(["\\u00", if code < 16 { "0" } else { "1" }]);
                json.extend(char::from_digit(code % 16, 16));
            }
            other => json.push(other),
        }
    }
    json.push('"');
    json
}

fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | '\r')
}

/// What is left of a text. Every step returns the rest behind what it took, or
/// `None` where the text is not JSON.
#[derive(Clone, Copy)]
struct Scanner<'a>(&'a [u8]);

impl Scanner<'_> {
    fn take(self, byte: u8) -> Option<Self> {
        self.0.split_first().filter(|(first, _)| **first == byte).map(|(_, rest)| Self(rest))
    }

    fn space(self) -> Self {
        let spaces = self.0.iter().take_while(|byte| is_space(char::from(**byte))).count();
        Self(self.0.get(spaces..).unwrap_or_default())
    }

    fn value(self, depth: u32) -> Option<Self> {
        if depth > MAX_DEPTH {
            return None;
        }
        let start = self.space();
        match start.0.first()? {
            b'{' => start.list(b'{', b'}', |item| {
                item.space().string()?.space().take(b':')?.value(depth + 1)
            }),
            b'[' => start.list(b'[', b']', |item| item.value(depth + 1)),
            b'"' => start.string(),
            b't' => start.word("true"),
            b'f' => start.word("false"),
            b'n' => start.word("null"),
            _ => start.number(),
        }
    }

    fn word(self, word: &str) -> Option<Self> {
        self.0.strip_prefix(word.as_bytes()).map(Self)
    }

    fn list(self, open: u8, close: u8, item: impl Fn(Self) -> Option<Self>) -> Option<Self> {
        let mut rest = self.take(open)?.space();
        if let Some(end) = rest.take(close) {
            return Some(end);
        }
        loop {
            rest = item(rest)?.space();
            if let Some(end) = rest.take(close) {
                return Some(end);
            }
            rest = rest.take(b',')?;
        }
    }

    fn string(self) -> Option<Self> {
        let mut rest = self.take(b'"')?;
        loop {
            let (first, behind) = rest.0.split_first()?;
            rest = match first {
                b'"' => return Some(Self(behind)),
                b'\\' => Self(behind).escape()?,
                0..=0x1f => return None,
                _ => Self(behind),
            };
        }
    }

    fn escape(self) -> Option<Self> {
        let (kind, behind) = self.0.split_first()?;
        match kind {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(Self(behind)),
            b'u' => {
                let (digits, rest) = behind.split_at_checked(4)?;
                digits.iter().all(u8::is_ascii_hexdigit).then_some(Self(rest))
            }
            _ => None,
        }
    }

    fn digits(self) -> Option<Self> {
        let count = self.0.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if count == 0 { None } else { self.0.get(count..).map(Self) }
    }

    fn number(self) -> Option<Self> {
        let start = self.take(b'-').unwrap_or(self);
        let mut rest = match start.take(b'0') {
            Some(rest) => rest,
            None => start.digits()?,
        };
        if let Some(fraction) = rest.take(b'.') {
            rest = fraction.digits()?;
        }
        if let Some(exponent) = rest.take(b'e').or_else(|| rest.take(b'E')) {
            let sign = exponent.take(b'-').or_else(|| exponent.take(b'+'));
            rest = sign.unwrap_or(exponent).digits()?;
        }
        Some(rest)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_kind_of_value_is_one_and_near_misses_are_none() {
        for good in [
            "null",
            "true",
            "false",
            "0",
            "-1.5e3",
            "1E+2",
            "\"\"",
            "\"\\u00e9\\n\"",
            "[]",
            "{}",
            "[1,2,\"three\"]",
            "{\"a\":{\"b\":1}}",
            " [ 1 , { \"a\" : null } ] ",
        ] {
            assert!(is_value(good), "{good}");
        }
        for bad in [
            "",
            "nul",
            "01",
            "1.",
            ".5",
            "-",
            "1e",
            "+1",
            "\"",
            "\"\\x\"",
            "\"\\u12\"",
            "[1,]",
            "{\"a\"}",
            "{a:1}",
            "[1}",
            "1 2",
            "\"\n\"",
            "truetrue",
        ] {
            assert!(!is_value(bad), "{bad}");
        }
        assert!(!is_value(&"[".repeat(100_000)));
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(is_value(&nested(33)));
        assert!(!is_value(&nested(34)), "deeper than archives take it");
    }

    #[test]
    fn a_single_pair_splits_into_name_and_value() {
        assert_eq!(single_pair("{\"zone\":\"b\"}"), Some(("zone", "\"b\"")));
        assert_eq!(single_pair(" { \"a\" : [1] } "), Some(("a", "[1]")));
        for bad in ["", "{}", "{\"a\":1,\"b\":2}", "{\"1\":2}", "{\"a\":}", "[1]", "{\"a\":1"] {
            assert_eq!(single_pair(bad), None, "{bad}");
        }
    }

    proptest! {
        /// forall text: its quoted form is a value, and serde reads the text back.
        #[test]
        fn quoting_keeps_the_text(text in any::<String>()) {
            let json = quoted(&text);
            prop_assert!(is_value(&json));
            prop_assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
        }

        /// forall text near JSON: accepted exactly when serde accepts it.
        #[test]
        fn the_verdict_is_that_of_a_full_parser(text in "[\\[\\]{}\",:\\\\ a01.eE+-]{0,12}") {
            let full = serde_json::from_str::<serde_json::Value>(&text);
            // A number too large for serde's types is still JSON.
            prop_assume!(!full.as_ref().is_err_and(|error| error.to_string().contains("range")));
            prop_assert_eq!(is_value(&text), full.is_ok());
        }
    }
}

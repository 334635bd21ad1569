//! JSON as far as labels need it (RFC 8259).
//!
//! Comes in: text from programs and archives, not trusted. Goes out: whether it
//! is one JSON value, and text as a JSON string. Values stay text, so that no
//! digit of a number is lost; nothing is allocated for a check.

use crate::names::is_label_name;

/// Deeper nesting is rejected, so that the check needs little stack.
const MAX_DEPTH: u32 = 32;

/// Returns whether `text` is one JSON value, with or without white space around it.
///
/// Arrays and objects nest at most 33 deep. Strings of bytes need not be UTF-8.
///
/// ```
/// use pcp_types::json::is_value;
///
/// assert!(is_value(r#"{"rack": [1, 2]}"#));
/// assert!(!is_value("rack 1"));
/// ```
#[must_use]
pub fn is_value(text: impl AsRef<[u8]>) -> bool {
    value(blanks(text.as_ref()), 0).is_some_and(|after| blanks(after).is_empty())
}

/// Returns whether no object in `json`, which is a JSON value, has a key twice.
///
/// ```
/// use pcp_types::json::has_unique_keys;
///
/// assert!(has_unique_keys(br#"{"a": {"a": 1}}"#));
/// assert!(!has_unique_keys(br#"[{"a": 1, "a": 2}]"#));
/// ```
#[must_use]
pub fn has_unique_keys(json: &[u8]) -> bool {
    let (mut rest, mut objects): (_, Vec<Vec<&[u8]>>) = (json, Vec::new());
    while let Some((first, mut after)) = rest.split_first() {
        match first {
            b'{' => objects.push(Vec::new()),
            b'}' => drop(objects.pop()),
            b'"' => {
                after = string(rest).unwrap_or_default();
                let key = rest.get(..rest.len() - after.len()).unwrap_or_default();
                if let (true, Some(keys)) = (blanks(after).starts_with(b":"), objects.last_mut()) {
                    if keys.contains(&key) {
                        return false;
                    }
                    keys.push(key);
                }
            }
            _ => {}
        }
        rest = after;
    }
    true
}

/// Decodes a JSON string, given what is between its quotes. Escapes that JSON does not have stay as
/// they are.
///
/// ```
/// assert_eq!(pcp_types::json::unescape(r#"a\"b\u00e9\n"#), "a\"b\u{e9}\n");
/// ```
#[must_use]
pub fn unescape(inner: &str) -> String {
    let mut text = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        text.push_str(before);
        let (character, len) = escaped(escape).unwrap_or(('\\', 1));
        text.push(character);
        rest = escape.get(len..).unwrap_or_default();
    }
    text.push_str(rest);
    text
}

/// Returns the character of the escape that a text begins with, and its length.
fn escaped(text: &str) -> Option<(char, usize)> {
    let unit = |at: usize| {
        let digits = text.get(at..)?.strip_prefix("\\u")?.get(..4)?;
        u16::from_str_radix(digits, 16).ok()
    };
    Some(match text.as_bytes().get(1)? {
        b'n' => ('\n', 2),
        b't' => ('\t', 2),
        b'r' => ('\r', 2),
        b'b' => ('\u{8}', 2),
        b'f' => ('\u{c}', 2),
        quoted @ (b'"' | b'\\' | b'/') => (char::from(*quoted), 2),
        b'u' => {
            let first = unit(0)?;
            match char::from_u32(u32::from(first)) {
                Some(character) => (character, 6),
                None => (char::decode_utf16([first, unit(6)?]).next()?.ok()?, 12),
            }
        }
        _ => return None,
    })
}

/// Encodes `text` as a JSON string, with its quotes.
///
/// ```
/// assert_eq!(pcp_types::json::quoted("a \"b\"\n"), r#""a \"b\"\u000a""#);
/// ```
#[must_use]
pub fn quoted(text: &str) -> String {
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

/// Splits `{"name":value}`, the text of one label; `None` if the text is anything
/// else or the name is not a label's name.
///
/// ```
/// let pair = pcp_types::json::single_pair(r#"{"rack": [1, 2]}"#);
/// assert_eq!(pair, Some(("rack", "[1, 2]")));
/// ```
#[must_use]
pub fn single_pair(text: &str) -> Option<(&str, &str)> {
    let is_blank = |c| matches!(c, ' ' | '\t' | '\n' | '\r');
    let inner = text.trim_matches(is_blank).strip_prefix('{')?.strip_suffix('}')?;
    let (name, after) = inner.trim_start_matches(is_blank).strip_prefix('"')?.split_once('"')?;
    let value = after.trim_start_matches(is_blank).strip_prefix(':')?.trim_matches(is_blank);
    (is_label_name(name) && is_value(value)).then_some((name, value))
}

/// Returns what follows the value at the start of `text`; `None` if there is none.
fn value(text: &[u8], depth: u32) -> Option<&[u8]> {
    if depth > MAX_DEPTH {
        return None;
    }
    match text.first()? {
        b'"' => string(text),
        b'{' => list(text, b'}', depth, |text, depth| {
            let text = blanks(string(text)?).strip_prefix(b":")?;
            value(blanks(text), depth)
        }),
        b'[' => list(text, b']', depth, value),
        b't' => text.strip_prefix(b"true"),
        b'f' => text.strip_prefix(b"false"),
        b'n' => text.strip_prefix(b"null"),
        _ => number(text),
    }
}

fn list(
    text: &[u8],
    close: u8,
    depth: u32,
    item: impl Fn(&[u8], u32) -> Option<&[u8]>,
) -> Option<&[u8]> {
    let mut rest = blanks(text.get(1..)?);
    if *rest.first()? == close {
        return rest.get(1..);
    }
    loop {
        rest = blanks(item(rest, depth + 1)?);
        match rest.split_first()? {
            (b',', more) => rest = blanks(more),
            (byte, more) if *byte == close => return Some(more),
            _ => return None,
        }
    }
}

fn string(text: &[u8]) -> Option<&[u8]> {
    let mut rest = text.strip_prefix(b"\"")?;
    loop {
        match rest.split_first()? {
            (b'"', more) => return Some(more),
            (b'\\', more) => rest = escape(more)?,
            (0..0x20, _) => return None,
            (_, more) => rest = more,
        }
    }
}

fn escape(text: &[u8]) -> Option<&[u8]> {
    match text.split_first()? {
        (b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', more) => Some(more),
        (b'u', more) => {
            let (digits, more) = more.split_at_checked(4)?;
            digits.iter().all(u8::is_ascii_hexdigit).then_some(more)
        }
        _ => None,
    }
}

fn number(text: &[u8]) -> Option<&[u8]> {
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let mut rest = match text.strip_prefix(b"0") {
        Some(rest) => rest,
        None => digits(text)?,
    };
    if let Some(fraction) = rest.strip_prefix(b".") {
        rest = digits(fraction)?;
    }
    if let Some(exponent) = rest.strip_prefix(b"e").or_else(|| rest.strip_prefix(b"E")) {
        let unsigned = exponent.strip_prefix(b"-").or_else(|| exponent.strip_prefix(b"+"));
        rest = digits(unsigned.unwrap_or(exponent))?;
    }
    Some(rest)
}

fn digits(text: &[u8]) -> Option<&[u8]> {
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    if end == 0 { None } else { text.get(end..) }
}

fn blanks(text: &[u8]) -> &[u8] {
    let end = text.iter().position(|byte| !matches!(byte, b' ' | b'\t' | b'\n' | b'\r'));
    text.get(end.unwrap_or(text.len())..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_kind_of_value_is_accepted() {
        for text in [
            "null",
            "true",
            "false",
            "0",
            "-1",
            "12.50",
            "-1.5e3",
            "1E+2",
            "-0.1E-07",
            r#""""#,
            r#""a b""#,
            r#""\" \\ \u00e4 \n""#,
            "[]",
            "{}",
            r#"[1, "x" ,null]"#,
            r#"{"a":{"b":[1]}}"#,
            " [ 1 , { \"a\" : null } ]\n",
        ] {
            assert!(is_value(text), "{text}");
        }
    }

    #[test]
    fn other_text_is_rejected() {
        for text in [
            "",
            " ",
            "nul",
            "truex",
            "01",
            "1.",
            ".5",
            "-",
            "1e",
            "+1",
            "abc",
            "\"",
            "\"a",
            "\"\u{1}\"",
            r#""\x""#,
            r#""\u12g4""#,
            "[1,]",
            "[1}",
            "[",
            r#"{"a"}"#,
            "{a:1}",
            "1 2",
            r#"1,"b":2"#,
        ] {
            assert!(!is_value(text), "{text}");
        }
    }

    #[test]
    fn a_key_twice_in_one_object_is_found() {
        for (json, unique) in [
            (r#"{"a":1,"b":{"a":2},"c":[{"a":3},{"a":4}]}"#, true),
            (r#"["a","a",":",{"a":"a"}]"#, true),
            (r#"{"a":"\\\":","b":"a\\"}"#, true),
            (r#"{"a":1,"b":2,"a":3}"#, false),
            (r#"{"b":{"a" : 1,"a" : 2}}"#, false),
            (r#"{"a":{"b":1},"a":{"c":2}}"#, false),
        ] {
            assert!(is_value(json) && has_unique_keys(json.as_bytes()) == unique, "{json}");
        }
        // What is no JSON ends, too.
        assert!(has_unique_keys(b"}\"a"));
    }

    #[test]
    fn strings_of_bytes_need_not_be_text() {
        assert!(is_value(b"{\"\xff\": \"\xc3(\"}"));
        assert!(!is_value(b"\xff"));
    }

    #[test]
    fn deep_nesting_is_rejected() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(is_value(nested(33)));
        assert!(!is_value(nested(34)));
        assert!(!is_value("[".repeat(1_000_000)));
    }

    #[test]
    fn a_single_pair_splits_into_name_and_value() {
        assert_eq!(single_pair(r#"{"zone":"b"}"#), Some(("zone", r#""b""#)));
        assert_eq!(single_pair(r#" { "a" : [1] } "#), Some(("a", "[1]")));
        for text in ["", "{}", r#"{"a":1,"b":2}"#, r#"{"1":2}"#, r#"{"a":}"#, "[1]", r#"{"a":1"#] {
            assert_eq!(single_pair(text), None, "{text}");
        }
    }

    proptest! {
        /// forall text: its quoted form is a value, and a parser reads the text back
        #[test]
        fn quoting_keeps_the_text(text in any::<String>()) {
            let json = quoted(&text);
            prop_assert!(is_value(&json));
            prop_assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
        }

        /// forall text near JSON: accepted if and only if a full parser accepts it
        #[test]
        fn the_check_agrees_with_a_parser(
            text in r#"[\[\]{}",:\\ 0-9.eE+\-a-c\ntrufals]{0,12}"#,
        ) {
            let parsed = serde_json::from_str::<serde_json::Value>(&text);
            // A number too large for a double is JSON, but not for the parser.
            prop_assume!(!parsed.as_ref().is_err_and(|error| error.to_string().contains("range")));
            prop_assert_eq!(is_value(&text), parsed.is_ok(), "{}", text);
        }
    }
}

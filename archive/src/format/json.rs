//! Whether a text is one JSON value (RFC 8259).
//!
//! Label values come from programs; a set with a value that is not JSON
//! cannot be read by anyone. Only the grammar is checked here, nothing is
//! built.

/// Deeper nesting is refused, so that the check needs little stack.
const MAX_DEPTH: u32 = 32;

/// Whether `text` is one JSON value without blanks around it.
pub(crate) fn is_value(text: &str) -> bool {
    let bytes = text.as_bytes();
    value(bytes, 0).is_some_and(<[u8]>::is_empty)
}

/// What follows the value at the start of `text`; `None` if there is none.
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
    use super::is_value;

    #[test]
    fn values_are_accepted() {
        for text in [
            "true",
            "false",
            "null",
            "0",
            "-1",
            "12.50",
            "1e9",
            "-0.1E-07",
            r#""""#,
            r#""a b""#,
            r#""\" \\ \u00e4 \n""#,
            "[]",
            "[1, \"x\" ,null]",
            "{}",
            r#"{"a":{"b":[1]}}"#,
        ] {
            assert!(is_value(text), "{text}");
            assert!(serde_json::from_str::<serde_json::Value>(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn other_text_is_refused() {
        for text in [
            "",
            " 1",
            "1 ",
            "01",
            "1.",
            ".5",
            "+1",
            "1e",
            "nul",
            "truex",
            "abc",
            "\"",
            "\"a",
            "\"\u{1}\"",
            r#""\x""#,
            r#""\u12g4""#,
            "[1,]",
            "[",
            "{\"a\"}",
            "{a:1}",
            "1,\"b\":2",
        ] {
            assert!(!is_value(text), "{text}");
        }
    }

    #[test]
    fn endless_nesting_is_refused() {
        assert!(is_value(&("[".repeat(30) + &"]".repeat(30))));
        assert!(!is_value(&"[".repeat(1_000_000)));
    }

    proptest::proptest! {
        /// forall text: is_value(text) implies that a JSON parser takes it
        #[test]
        fn what_is_accepted_is_json(text in r#"[\[\]{}",:0-9.eE+\-a-c\\ntrufals ]{0,12}"#) {
            // Numbers too large for a double are JSON, but not for the parser.
            let parsed = serde_json::from_str::<serde_json::Value>(&text);
            if is_value(&text) && !text.contains(['e', 'E']) {
                proptest::prop_assert!(parsed.is_ok(), "{text}");
            }
        }
    }
}

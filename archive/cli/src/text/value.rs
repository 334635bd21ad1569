//! Values as text and as JSON.

#![allow(clippy::big_endian_bytes, reason = "the bytes of a value are those of the archive")]

mod json;

pub(crate) use json::{EpochSeconds, EventJson, Json, Rfc3339};

use pcp_archive::Value;

use crate::text::{number, shown_bytes};

/// Appends a value as pmdumplog prints it (`pmPrintValue(3)`): integers in
/// decimal, floats with 8 and doubles with 16 significant digits, strings in
/// quotes. Unlike in pmdumplog, a string is in one line and printable.
pub(crate) fn push(out: &mut Vec<u8>, value: Value<'_>) {
    match value {
        Value::I32(v) => number::integer(out, v),
        Value::U32(v) => number::integer(out, v),
        Value::I64(v) => number::integer(out, v),
        Value::U64(v) => number::integer(out, v),
        Value::Float(v) => number::float(out, v),
        Value::Double(v) => number::double(out, v),
        Value::String(bytes) => {
            out.push(b'"');
            out.extend_from_slice(shown_bytes(bytes).as_bytes());
            out.push(b'"');
        }
        Value::Aggregate(bytes) => push_aggregate(out, bytes),
        Value::Event(_) | Value::HighresEvent(_) => push_event_count(out, value),
    }
}

/// Appends a value as [`push`], with the bytes of strings as they are.
pub(crate) fn push_raw(out: &mut Vec<u8>, value: Value<'_>) {
    let Value::String(bytes) = value else { return push(out, value) };
    out.push(b'"');
    out.extend_from_slice(bytes);
    out.push(b'"');
}

/// Appends a value without quotes around strings, which are in one line and printable;
/// floating-point numbers have `places` decimal places if that is given, and those of 32 bits
/// otherwise as many digits as tell them from others.
pub(crate) fn push_plain(out: &mut Vec<u8>, value: Value<'_>, places: Option<usize>) {
    let float = match value {
        Value::Float(float) => Some(f64::from(float)),
        Value::Double(double) => Some(double),
        _ => None,
    };
    match (value, float, places) {
        (Value::String(bytes), ..) => out.extend_from_slice(shown_bytes(bytes).as_bytes()),
        (_, Some(float), Some(places)) => {
            out.extend_from_slice(format!("{float:.places$}").as_bytes());
        }
        (Value::Float(float), ..) if float.is_finite() => {
            let text = format!("{float:?}");
            out.extend_from_slice(text.strip_suffix(".0").unwrap_or(&text).as_bytes());
        }
        (other, ..) => push(out, other),
    }
}

/// Appends the bytes in all forms that they can have: 8 bytes as an integer and a
/// double, 4 as a float, printable ones as characters, and in hexadecimal. The
/// byte order is that of this machine, since aggregates are not converted.
fn push_aggregate(out: &mut Vec<u8>, bytes: &[u8]) {
    if let Ok(word) = <[u8; 8]>::try_from(bytes) {
        let word = u64::from_be_bytes(word).to_be();
        number::integer(out, word);
        out.push(b' ');
        let double = f64::from_bits(word);
        if !double.is_nan() {
            number::double(out, double);
            out.push(b' ');
        }
    }
    if let Ok(word) = <[u8; 4]>::try_from(bytes) {
        let float = f32::from_bits(u32::from_be_bytes(word).to_be());
        if !float.is_nan() {
            number::float(out, float);
            out.push(b' ');
        }
    }
    if bytes.iter().all(|byte| (b' '..=b'~').contains(byte)) {
        out.push(b'"');
        out.extend_from_slice(bytes);
        out.extend_from_slice(b"\" ");
    }
    out.push(b'[');
    for byte in bytes {
        push_hex(out, *byte);
    }
    out.push(b']');
}

/// Appends a byte as two digits.
pub(crate) fn push_hex(out: &mut Vec<u8>, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.push(DIGITS[usize::from(byte >> 4)]);
    out.push(DIGITS[usize::from(byte & 15)]);
}

/// Appends the number of records in an event array.
fn push_event_count(out: &mut Vec<u8>, value: Value<'_>) {
    let count = value.event_count().unwrap_or(0);
    out.push(b'[');
    number::integer(out, count);
    out.extend_from_slice(if count == 1 { b" event record]" } else { b" event records]" });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: Value<'_>) -> String {
        let mut out = Vec::new();
        push(&mut out, value);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn values_print_as_pmdumplog_prints_them() {
        assert_eq!(text(Value::I32(-1)), "-1");
        assert_eq!(text(Value::U64(u64::MAX)), "18446744073709551615");
        assert_eq!(text(Value::Float(1.5)), "1.5");
        assert_eq!(text(Value::Double(1.1 + 2.2)), "3.3");
        assert_eq!(text(Value::String(b"a \"b\"")), "\"a \"b\"\"");
        assert_eq!(text(Value::String(b"\x1b[2J\n\xff")), r#""\x1b[2J\x0a\xff""#);
        let mut raw = Vec::new();
        push_raw(&mut raw, Value::String(b"\x1b[2J\n\xff"));
        assert_eq!(raw, b"\"\x1b[2J\n\xff\"");
        assert_eq!(text(Value::Event(&[0, 0, 0, 2])), "[2 event records]");
    }

    #[test]
    fn numbers_of_32_bits_have_no_more_digits_than_they_need() {
        let plain = |value, places| {
            let mut out = Vec::new();
            push_plain(&mut out, Value::Float(value), places);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(
            [0.29, 3.0, -0.04, 1e30].map(|value| plain(value, None)),
            ["0.29", "3", "-0.04", "1e30"]
        );
        assert_eq!(plain(f32::NAN, None), text(Value::Float(f32::NAN)));
        assert_eq!(plain(0.29, Some(3)), "0.290");
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn an_aggregate_prints_in_all_its_forms() {
        let bytes = [0x01, 0x03, 0x07, 0x0f, 0x1f, 0x3f, 0x7f, 0xff];
        let expected = "18410503204342530817 -1.371380375612005e+306 [0103070f1f3f7fff]";
        assert_eq!(text(Value::Aggregate(&bytes)), expected);
        assert_eq!(text(Value::Aggregate(b"abc")), "\"abc\" [616263]");
    }

    #[test]
    fn only_floating_point_numbers_have_decimal_places() {
        let text = |value, places| {
            let mut out = Vec::new();
            push_plain(&mut out, value, places);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(text(Value::Double(2.0 / 3.0), Some(3)), "0.667");
        assert_eq!(text(Value::Double(0.5), None), "0.5");
        assert_eq!(text(Value::U64(7), Some(3)), "7");
        assert_eq!(text(Value::String(b"a b"), Some(3)), "a b");
    }
}

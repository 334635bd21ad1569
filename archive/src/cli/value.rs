//! Values as text and as JSON.

mod json;

pub(crate) use json::Json;

use super::number;
use crate::Value;

/// Appends a value as pmdumplog prints it (`pmPrintValue(3)`): integers in
/// decimal, floats with 8 and doubles with 16 significant digits, strings in
/// quotes and without escapes.
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
            out.extend_from_slice(bytes);
            out.push(b'"');
        }
        Value::Aggregate(bytes) => push_aggregate(out, bytes),
        Value::Event(_) | Value::HighresEvent(_) => push_event_count(out, value),
    }
}

/// All that the bytes could mean: of 8 bytes the integer and the double, of 4
/// the float, the characters if all are printable, and in hexadecimal. The
/// numbers are in the byte order of this machine, since no one converts an
/// aggregate.
fn push_aggregate(out: &mut Vec<u8>, bytes: &[u8]) {
    if let Ok(word) = <[u8; 8]>::try_from(bytes) {
        let word = native_u64(word);
        number::integer(out, word);
        out.push(b' ');
        let double = f64::from_bits(word);
        if !double.is_nan() {
            number::double(out, double);
            out.push(b' ');
        }
    }
    if let Ok(word) = <[u8; 4]>::try_from(bytes) {
        let float = f32::from_bits(native_u32(word));
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

fn native_u64(bytes: [u8; 8]) -> u64 {
    if cfg!(target_endian = "big") {
        u64::from_be_bytes(bytes)
    } else {
        u64::from_be_bytes(bytes).swap_bytes()
    }
}

fn native_u32(bytes: [u8; 4]) -> u32 {
    if cfg!(target_endian = "big") {
        u32::from_be_bytes(bytes)
    } else {
        u32::from_be_bytes(bytes).swap_bytes()
    }
}

/// Appends a byte as two digits.
pub(crate) fn push_hex(out: &mut Vec<u8>, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.push(DIGITS[usize::from(byte >> 4)]);
    out.push(DIGITS[usize::from(byte & 15)]);
}

/// How many records an event array holds.
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
        assert_eq!(text(Value::Event(&[0, 0, 0, 2])), "[2 event records]");
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn an_aggregate_prints_as_all_it_could_mean() {
        let bytes = [0x01, 0x03, 0x07, 0x0f, 0x1f, 0x3f, 0x7f, 0xff];
        let expected = "18410503204342530817 -1.371380375612005e+306 [0103070f1f3f7fff]";
        assert_eq!(text(Value::Aggregate(&bytes)), expected);
        assert_eq!(text(Value::Aggregate(b"abc")), "\"abc\" [616263]");
    }
}

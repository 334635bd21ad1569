//! Reads single values with `pread`.

#![allow(clippy::host_endian_bytes, reason = "MMV values have the byte order of their host")]

use std::fs::File;
use std::os::unix::fs::FileExt;

use mmv_format::view::{MetricKind, ValueLocation};
use pcp_types::{Timestamp, ValueType};
use serde_json::Value;

use crate::source::{TEXT_BYTES, low_half};

/// Returns the value of an entry as JSON: null for "no value" and for a value that cannot be read,
/// a string for a number that JSON cannot represent.
pub(super) fn value_of(
    file: &File,
    kind: MetricKind,
    entry: &ValueLocation,
    sentinel: bool,
) -> Value {
    let value = match kind {
        MetricKind::String => entry.string.and_then(|at| text(file, at, sentinel)),
        MetricKind::Elapsed => word(file, entry.cell)
            .filter(|word| !(sentinel && *word == u64::MAX))
            .zip(word(file, entry.extra))
            .map(|(value, open)| elapsed(value.cast_signed(), open.cast_signed()).into()),
        MetricKind::Numeric(value_type) => {
            word(file, entry.cell).and_then(|word| number(value_type, word, sentinel))
        }
    };
    value.unwrap_or(Value::Null)
}

fn word(file: &File, at: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, at).ok()?;
    Some(u64::from_ne_bytes(bytes))
}

fn text(file: &File, at: u64, sentinel: bool) -> Option<Value> {
    let mut bytes = [0; TEXT_BYTES];
    file.read_exact_at(&mut bytes, at).ok()?;
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(TEXT_BYTES - 1);
    let text = bytes.get(..end).filter(|text| !(sentinel && text.is_empty()))?;
    Some(String::from_utf8_lossy(text).into_owned().into())
}

/// Returns microseconds, including those of a running interval.
fn elapsed(value: i64, open: i64) -> i64 {
    let now = (Timestamp::now().as_nanos() / 1000) as i64;
    if open < 0 { value.wrapping_add(now).wrapping_add(open) } else { value }
}

fn number(value_type: ValueType, word: u64, sentinel: bool) -> Option<Value> {
    let absent = match value_type {
        ValueType::Float => f32::from_bits(low_half(word)).is_nan(),
        ValueType::Double => f64::from_bits(word).is_nan(),
        _ => word == u64::MAX,
    };
    if sentinel && absent {
        return None;
    }
    Some(match value_type {
        ValueType::I32 => low_half(word).cast_signed().into(),
        ValueType::U32 => low_half(word).into(),
        ValueType::I64 => word.cast_signed().into(),
        ValueType::U64 => word.into(),
        // From its shortest text: converted to a double, 0.1 would get more digits.
        ValueType::Float => float(f32::from_bits(low_half(word)).to_string()),
        ValueType::Double => float(f64::from_bits(word).to_string()),
        _ => return None,
    })
}

fn float(text: String) -> Value {
    let number = text.parse::<f64>().ok().and_then(serde_json::Number::from_f64);
    number.map_or_else(|| Value::from(text), Value::Number)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_read_by_their_type() {
        let word = u64::from_ne_bytes([0xfe, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
        assert_eq!(number(ValueType::I32, word, false), Some(json!(-2)));
        assert_eq!(number(ValueType::U32, word, false), Some(json!(u32::MAX - 1)));
        assert_eq!(number(ValueType::U64, u64::MAX, false), Some(json!(u64::MAX)));
        assert_eq!(number(ValueType::I64, u64::MAX, false), Some(json!(-1)));
        assert_eq!(number(ValueType::Double, 0.1f64.to_bits(), false), Some(json!(0.1)));
        let word = u64::from(0.1f32.to_bits());
        assert_eq!(number(ValueType::Float, word, false), Some(json!(0.1)));
    }

    #[test]
    fn numbers_that_json_does_not_have_are_strings() {
        let nan = number(ValueType::Double, f64::NAN.to_bits(), false);
        assert_eq!(nan, Some(json!("NaN")));
        let infinite = number(ValueType::Double, f64::NEG_INFINITY.to_bits(), false);
        assert_eq!(infinite, Some(json!("-inf")));
    }

    #[test]
    fn with_the_sentinel_flag_some_cells_mean_no_value() {
        for (value_type, word, absent) in [
            (ValueType::U64, u64::MAX, true),
            (ValueType::U32, u64::MAX, true),
            (ValueType::U32, u64::from(u32::MAX), false),
            (ValueType::Double, f64::NAN.to_bits(), true),
            (ValueType::Float, u64::from(f32::NAN.to_bits()), true),
            (ValueType::Float, 0, false),
        ] {
            assert_eq!(
                number(value_type, word, true).is_none(),
                absent,
                "{value_type:?} {word:#x}"
            );
        }
    }

    #[test]
    fn a_running_interval_counts_up_to_now() {
        assert_eq!(elapsed(100, 0), 100);
        let start = (Timestamp::now().as_nanos() / 1000) as i64;
        let value = elapsed(100, -start);
        assert!((100..60_000_000).contains(&value), "{value}");
    }
}

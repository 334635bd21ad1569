//! Numbers as text, the way pmdumplog and pmval print them: C's `%.16g` for
//! doubles, `%.8g` for floats.

use std::io::Write as _;

/// Significant digits of a double (`%.16g`).
const DOUBLE_DIGITS: usize = 16;
/// Significant digits of a float (`%.8g`).
const FLOAT_DIGITS: usize = 8;

/// Appends an integer in decimal.
pub(crate) fn integer(out: &mut Vec<u8>, value: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Appends `%.16g` of a double: 0.1 as `0.1`, 1e16 as `1e+16`.
pub(crate) fn double(out: &mut Vec<u8>, value: f64) {
    general(out, value, DOUBLE_DIGITS);
}

/// Appends `%.8g` of a float: 1.5 as `1.5`, 16777216 as `16777216`.
pub(crate) fn float(out: &mut Vec<u8>, value: f32) {
    general(out, f64::from(value), FLOAT_DIGITS);
}

/// Appends an unsigned integer with zeros on its left up to `width` digits.
pub(crate) fn padded(out: &mut Vec<u8>, value: u32, width: usize) {
    let mut digits = itoa::Buffer::new();
    let digits = digits.format(value).as_bytes();
    out.resize(out.len() + width.saturating_sub(digits.len()), b'0');
    out.extend_from_slice(digits);
}

/// Appends `%.{digits}g`: correctly rounded, without trailing zeros, with an
/// exponent where the number is below 1e-4 or has more whole digits than asked.
pub(crate) fn general(out: &mut Vec<u8>, value: f64, digits: usize) {
    if whole(out, value, digits) {
        return;
    }
    if !value.is_finite() {
        out.extend_from_slice(match (value.is_nan(), value.is_sign_negative()) {
            (true, false) => b"nan",
            (true, true) => b"-nan",
            (false, false) => b"inf",
            (false, true) => b"-inf",
        });
        return;
    }
    let mut scratch = Scratch::default();
    // Rust's exponent form is exact and rounds half to even, as C's does.
    let written = write!(scratch, "{value:.*e}", digits - 1);
    debug_assert!(written.is_ok(), "a double never needs more than 32 bytes");
    let text = scratch.text();
    let Some(e) = text.iter().position(|&byte| byte == b'e') else { return };
    let (mantissa, exponent) = text.split_at(e);
    let exponent = parse_exponent(exponent.get(1..).unwrap_or_default());
    let mantissa = match mantissa.strip_prefix(b"-") {
        Some(positive) => {
            out.push(b'-');
            positive
        }
        None => mantissa,
    };
    let significant = mantissa.iter().rposition(|&b| b != b'0' && b != b'.').map_or(1, |i| i + 1);
    let mantissa = mantissa.get(..significant).unwrap_or(mantissa);
    if exponent < -4 || exponent >= digits as i32 {
        with_exponent(out, mantissa, exponent);
    } else {
        without_exponent(out, mantissa, exponent);
    }
}

/// Most logged doubles are whole numbers: those that have few enough digits
/// are printed as integers. False if this is none.
fn whole(out: &mut Vec<u8>, value: f64, digits: usize) -> bool {
    let limit = if digits >= DOUBLE_DIGITS { 1e15 } else { 1e7 };
    let cut = value as i64;
    // The bits, since -0 is no integer.
    if value.abs() >= limit || (cut as f64).to_bits() != value.to_bits() {
        return false;
    }
    integer(out, cut);
    true
}

fn with_exponent(out: &mut Vec<u8>, mantissa: &[u8], exponent: i32) {
    out.extend_from_slice(mantissa);
    out.push(b'e');
    out.push(if exponent < 0 { b'-' } else { b'+' });
    padded(out, exponent.unsigned_abs(), 2);
}

/// Moves the point of `d.ddd` by `exponent` places.
fn without_exponent(out: &mut Vec<u8>, mantissa: &[u8], exponent: i32) {
    let digits = mantissa.iter().copied().filter(|&byte| byte != b'.');
    if exponent < 0 {
        out.extend_from_slice(b"0.");
        out.resize(out.len() + (exponent.unsigned_abs() as usize - 1), b'0');
        out.extend(digits);
        return;
    }
    let whole_digits = exponent as usize + 1;
    let count = digits.clone().count();
    for (i, digit) in digits.enumerate() {
        if i == whole_digits {
            out.push(b'.');
        }
        out.push(digit);
    }
    out.resize(out.len() + whole_digits.saturating_sub(count), b'0');
}

fn parse_exponent(text: &[u8]) -> i32 {
    let (negative, digits) = match text.strip_prefix(b"-") {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let size = digits.iter().fold(0, |sum, digit| sum * 10 + i32::from(digit.wrapping_sub(b'0')));
    if negative { -size } else { size }
}

/// A place on the stack for one formatted double.
#[derive(Default)]
struct Scratch {
    bytes: [u8; 32],
    used: usize,
}

impl Scratch {
    fn text(&self) -> &[u8] {
        self.bytes.get(..self.used).unwrap_or_default()
    }
}

impl std::io::Write for Scratch {
    fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
        let end = self.used + text.len();
        let place = self.bytes.get_mut(self.used..end).ok_or(std::io::ErrorKind::WriteZero)?;
        place.copy_from_slice(text);
        self.used = end;
        Ok(text.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn double_text(value: f64) -> String {
        let mut out = Vec::new();
        double(&mut out, value);
        String::from_utf8(out).unwrap()
    }

    fn float_text(value: f32) -> String {
        let mut out = Vec::new();
        float(&mut out, value);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn doubles_print_as_c_prints_them_with_16_digits() {
        let expected = [
            (0.0, "0"),
            (-0.0, "-0"),
            (0.1, "0.1"),
            (1.1 + 2.2, "3.3"),
            (1.0 / 3.0, "0.3333333333333333"),
            (-17.25, "-17.25"),
            (1e15, "1000000000000000"),
            (1e16, "1e+16"),
            (123_456_789_012_345_680.0, "1.234567890123457e+17"),
            (0.0001, "0.0001"),
            (0.000_01, "1e-05"),
            (0.000_123_4, "0.0001234"),
            (-1.371_380_375_612_005e306, "-1.371380375612005e+306"),
            (5e-324, "4.940656458412465e-324"),
            (f64::MAX, "1.797693134862316e+308"),
            (9.999_999_999_999_999_9, "10"),
            (67_594_982.189, "67594982.189"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
        ];
        for (value, text) in expected {
            assert_eq!(double_text(value), text);
        }
    }

    #[test]
    fn a_tie_at_the_last_digit_goes_to_the_even_one() {
        assert_eq!(double_text(4_503_599_627_370_496.5), "4503599627370496");
        assert_eq!(double_text(4_503_599_627_370_497.5), "4503599627370498");
    }

    #[test]
    fn floats_print_as_c_prints_them_with_8_digits() {
        let expected = [
            (0.1, "0.1"),
            (1e6, "1000000"),
            (16_777_216.0, "16777216"),
            (123_456_789.0, "1.2345679e+08"),
            (-1.5e-10, "-1.5e-10"),
            (f32::MAX, "3.4028235e+38"),
            (99_999_992.0, "99999992"),
        ];
        for (value, text) in expected {
            assert_eq!(float_text(value), text);
        }
    }

    proptest::proptest! {
        /// forall x: 17 digits read back as x
        #[test]
        fn seventeen_digits_read_back(bits: u64) {
            let value = f64::from_bits(bits);
            proptest::prop_assume!(value.is_finite());
            let mut out = Vec::new();
            general(&mut out, value, 17);
            let back: f64 = String::from_utf8(out).unwrap().parse().unwrap();
            proptest::prop_assert_eq!(back.to_bits(), value.to_bits());
        }
    }
}

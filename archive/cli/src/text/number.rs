//! Numbers as text, as pmdumplog and pmval print them: C's `%.16g` for doubles,
//! `%.8g` for floats.

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

/// Appends an unsigned integer, padded with zeros to `width` digits.
pub(crate) fn padded(out: &mut Vec<u8>, value: u32, width: usize) {
    let mut digits = itoa::Buffer::new();
    let digits = digits.format(value).as_bytes();
    out.resize(out.len() + width.saturating_sub(digits.len()), b'0');
    out.extend_from_slice(digits);
}

/// Appends `%.{places}g`: correctly rounded, without trailing zeros, with an
/// exponent if the number is below 1e-4 or has more than `places` whole digits.
pub(crate) fn general(out: &mut Vec<u8>, value: f64, places: usize) {
    if whole(out, value, places) {
        return;
    }
    if value.is_sign_negative() {
        out.push(b'-');
    }
    let size = value.abs();
    if size.is_nan() {
        out.extend_from_slice(b"nan");
    } else if size.is_infinite() {
        out.extend_from_slice(b"inf");
    } else {
        let decimal =
            Decimal::scaled(size, places).unwrap_or_else(|| Decimal::formatted(size, places));
        decimal.push(out, places);
    }
}

/// Appends a whole number with few enough digits as an integer, since most logged
/// doubles are such; else returns false.
fn whole(out: &mut Vec<u8>, value: f64, places: usize) -> bool {
    let limit = if places >= DOUBLE_DIGITS { 1e15 } else { 1e7 };
    let cut = value as i64;
    // The bits, since -0 is not an integer.
    if value.abs() >= limit || (cut as f64).to_bits() != value.to_bits() {
        return false;
    }
    integer(out, cut);
    true
}

/// A number `d.ddd * 10^exponent`, rounded to some significant digits.
#[derive(Debug, PartialEq)]
struct Decimal {
    digits: [u8; 20],
    len: usize,
    exponent: i32,
}

/// The powers of ten that fit a 64-bit integer.
const POWERS: [u64; 20] = {
    let mut powers = [1; 20];
    let mut i = 1;
    while i < 20 {
        powers[i] = powers[i - 1] * 10;
        i += 1;
    }
    powers
};

impl Decimal {
    /// Converts numbers that need no exponent, fast; `None` for others.
    ///
    /// The number is a 53-bit integer times a power of two. Multiplied by the power
    /// of ten that yields an integer of the wanted length, it fits 117 bits: the
    /// product is exact, and only the shift rounds, ties to even.
    fn scaled(size: f64, places: usize) -> Option<Self> {
        if !(1e-4..1e15).contains(&size) || places > DOUBLE_DIGITS {
            return None;
        }
        let bits = size.to_bits();
        let mantissa = bits & ((1 << 52) - 1) | 1 << 52;
        let shift = 1075 - (bits >> 52) as i32;
        // log10(2) is nearly 1233 / 4096; the estimate is too small by at most one.
        let mut exponent = ((52 - shift) * 1233) >> 12;
        loop {
            let power = usize::try_from(places as i32 - 1 - exponent).ok()?;
            let product = u128::from(mantissa) * u128::from(*POWERS.get(power)?);
            let number = rounded_shift(product, shift)?;
            if number < *POWERS.get(places)? {
                return Some(Self::new(number, exponent));
            }
            exponent += 1;
        }
    }

    fn new(number: u64, exponent: i32) -> Self {
        let mut digits = [0; 20];
        let mut text = itoa::Buffer::new();
        let text = text.format(number).as_bytes();
        for (digit, byte) in digits.iter_mut().zip(text) {
            *digit = *byte;
        }
        Self { digits, len: text.len(), exponent }
    }

    /// Converts any number by Rust's exponent form, which is exact and rounds ties to even, as C
    /// does.
    fn formatted(size: f64, places: usize) -> Self {
        let mut digits = [0; 20];
        let text = format!("{size:.*e}", places.clamp(1, digits.len()) - 1);
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let found = mantissa.bytes().filter(u8::is_ascii_digit);
        for (digit, byte) in digits.iter_mut().zip(found) {
            *digit = byte;
        }
        let len = places.clamp(1, digits.len());
        Self { digits, len, exponent: exponent.parse().unwrap_or(0) }
    }

    /// Appends the digits, without trailing zeros, with the point in its place
    /// or an exponent.
    fn push(&self, out: &mut Vec<u8>, places: usize) {
        let digits = self.digits.get(..self.len).unwrap_or_default();
        let significant = digits.iter().rposition(|&digit| digit != b'0').map_or(1, |i| i + 1);
        let digits = digits.get(..significant).unwrap_or_default();
        if self.exponent < -4 || self.exponent >= places as i32 {
            push_split(out, digits, 1);
            out.extend_from_slice(if self.exponent < 0 { b"e-" } else { b"e+" });
            padded(out, self.exponent.unsigned_abs(), 2);
        } else if self.exponent < 0 {
            out.extend_from_slice(b"0.");
            out.resize(out.len() + (self.exponent.unsigned_abs() as usize - 1), b'0');
            out.extend_from_slice(digits);
        } else {
            push_split(out, digits, self.exponent as usize + 1);
        }
    }
}

/// Appends digits with a point after the first `whole`, padded with zeros if there
/// are fewer.
fn push_split(out: &mut Vec<u8>, digits: &[u8], whole: usize) {
    match digits.split_at_checked(whole) {
        Some((whole, [])) => out.extend_from_slice(whole),
        Some((whole, part)) => {
            out.extend_from_slice(whole);
            out.push(b'.');
            out.extend_from_slice(part);
        }
        None => {
            out.extend_from_slice(digits);
            out.resize(out.len() + whole - digits.len(), b'0');
        }
    }
}

/// Returns `product / 2^shift`, rounded to the nearest integer, ties to even.
fn rounded_shift(product: u128, shift: i32) -> Option<u64> {
    if shift <= 0 {
        return u64::try_from(product.checked_shl(shift.unsigned_abs())?).ok();
    }
    let whole = product.checked_shr(shift.unsigned_abs())?;
    let remainder = product - (whole << shift);
    let half = 1u128 << (shift - 1);
    let up = remainder > half || (remainder == half && whole & 1 == 1);
    u64::try_from(whole + u128::from(up)).ok()
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
        /// forall x without an exponent: both conversions give the same digits
        #[test]
        fn the_fast_conversion_is_exact(mantissa: u64, exponent in -14i32..50, places in 8usize..17) {
            let part = (mantissa >> 12) as f64 / (1u64 << 52) as f64;
            let size = (1.0 + part) * f64::from(exponent).exp2();
            if let Some(fast) = Decimal::scaled(size, places) {
                let text = |decimal: Decimal| {
                    let mut out = Vec::new();
                    decimal.push(&mut out, places);
                    out
                };
                proptest::prop_assert_eq!(text(fast), text(Decimal::formatted(size, places)));
            } else {
                proptest::prop_assert!(!(2e-4..1e7).contains(&size), "{} has no fast conversion", size);
            }
        }

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

//! Decimal numbers times whole units, without rounding errors.

/// Returns a decimal number such as `7`, `1.5` or `.5` times `unit`, cut to a whole number; `None`
/// for other text.
pub(crate) fn times(number: &str, unit: u64) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if number == "." || number.is_empty() || fraction.contains('.') {
        return None;
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    // Eighteen digits resolve a nanosecond of a day, and a byte of a terabyte.
    let digits = fraction.get(..18).unwrap_or(fraction);
    let part: u128 = if digits.is_empty() { 0 } else { digits.parse().ok()? };
    let part = part * u128::from(unit) / 10_u128.pow(digits.len() as u32);
    Some(u128::from(whole) * u128::from(unit) + part)
}

/// Splits off the number that a text begins with: digits and points.
pub(crate) fn split(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    text.split_at(end)
}

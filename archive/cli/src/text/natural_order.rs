//! The order in which people expect names: numbers in them by their value.

use std::cmp::Ordering;

/// Compares names byte by byte, but digits as numbers: `cpu2` comes before `cpu10`.
pub(crate) fn natural_order(one: &str, other: &str) -> Ordering {
    let mut left = one.as_bytes();
    let mut right = other.as_bytes();
    while let (Some(a), Some(b)) = (left.first(), right.first()) {
        if a.is_ascii_digit() && b.is_ascii_digit() {
            let (a, after_a) = leading_number(left);
            let (b, after_b) = leading_number(right);
            let order = a.len().cmp(&b.len()).then_with(|| a.cmp(b));
            if order.is_ne() {
                return order;
            }
            left = after_a;
            right = after_b;
        } else if a == b {
            left = left.get(1..).unwrap_or_default();
            right = right.get(1..).unwrap_or_default();
        } else {
            return a.cmp(b);
        }
    }
    // Names that differ in leading zeros only are not equal.
    left.len().cmp(&right.len()).then_with(|| one.cmp(other))
}

/// Splits a text after the digits that it begins with, and drops their leading zeros.
fn leading_number(text: &[u8]) -> (&[u8], &[u8]) {
    let len = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = text.split_at(len);
    let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
    (digits.get(zeros..).unwrap_or_default(), rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_are_compared_by_value() {
        let sorted = [
            "",
            "/a",
            "/b",
            "/b/2",
            "/b/10",
            "cpu0",
            "cpu00",
            "cpu2",
            "cpu10",
            "cpu10a",
            "cpu:1",
            "path=/,bucket=8..15",
            "path=/,bucket=96..103",
        ];
        for (at, one) in sorted.iter().enumerate() {
            for (other_at, other) in sorted.iter().enumerate() {
                assert_eq!(natural_order(one, other), at.cmp(&other_at), "{one:?} {other:?}");
            }
        }
    }
}

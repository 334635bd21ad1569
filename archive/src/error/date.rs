//! Times in messages.

use std::fmt;

use crate::Timestamp;

/// A time as RFC 3339 in UTC, with as many decimals as it has; in seconds since 1970 outside the
/// years that RFC 3339 has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Date(pub(crate) Timestamp);

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_nanosecond(self.0.as_nanos()) {
            Ok(time) => time.fmt(f),
            Err(_) => self.0.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_decimals_that_they_need() {
        let text = |seconds, nanos| Date(Timestamp::new(seconds, nanos).unwrap()).to_string();
        assert_eq!(text(1_700_000_000, 0), "2023-11-14T22:13:20Z");
        assert_eq!(text(1_700_000_000, 120_000_000), "2023-11-14T22:13:20.12Z");
        assert_eq!(text(-1, 999_999_999), "1969-12-31T23:59:59.999999999Z");
        assert_eq!(text(1 << 40, 5), "1099511627776.000000005");
    }
}

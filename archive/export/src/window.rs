//! The window of time of a command that exports archives of several hosts.
//!
//! | text | meaning |
//! |---|---|
//! | `2024-05-01T10:00:00Z` | a date; without an offset, in the zone of this machine |
//! | `@1714557600.5` | seconds since 1970 UTC |
//! | `now`, `2 hours ago` | now, and before now |
//!
//! These are the forms of `mmv-archive` that do not depend on where an archive begins or ends: the
//! window is the same for all hosts.

use clap::Args;
use jiff::civil;
use jiff::tz::TimeZone;
use pcp_archive::Timestamp;
use pcp_types::parse_interval;

/// Options for the first and last time.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct WindowOptions {
    /// First time: a date (2024-05-01T18:05:00Z), seconds since 1970 UTC (@1714557600.5), or a
    /// time before now ("2 hours ago")
    #[arg(short = 'S', long = "start", value_name = "TIME", value_parser = parse_time)]
    pub(crate) start: Option<Timestamp>,

    /// Last time, in the same forms
    #[arg(short = 'T', long = "finish", value_name = "TIME", value_parser = parse_time)]
    pub(crate) finish: Option<Timestamp>,
}

fn parse_time(text: &str) -> Result<Timestamp, String> {
    parse_any_time(text).ok_or_else(|| {
        format!(
            "\"{text}\" is not a time such as 2024-05-01T18:05:00Z, \"2 hours ago\" or @1714557600.5"
        )
    })
}

fn parse_any_time(text: &str) -> Option<Timestamp> {
    let trimmed = text.trim();
    if trimmed.eq_ignore_ascii_case("now") {
        return Some(Timestamp::now());
    }
    if let Some(before) = trimmed.strip_suffix(" ago") {
        let before = parse_interval(before.trim()).ok()?;
        return Some(Timestamp::now().saturating_sub(before));
    }
    let instant = match trimmed.strip_prefix('@') {
        Some(seconds) => return epoch(seconds),
        None => trimmed.parse::<jiff::Timestamp>().or_else(|_| {
            let local: civil::DateTime = trimmed.parse()?;
            Ok::<_, jiff::Error>(local.to_zoned(TimeZone::system())?.timestamp())
        }),
    };
    Some(Timestamp::from_nanos(instant.ok()?.as_nanosecond()))
}

/// Parses `SECONDS` or `SECONDS.FRACTION`.
fn epoch(text: &str) -> Option<Timestamp> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.len() > 9 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Timestamp::new(whole.parse().ok()?, format!("{fraction:0<9}").parse().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_dates_seconds_or_before_now() {
        for (text, nanos) in [
            ("2023-11-14T22:13:20Z", 1_700_000_000_000_000_000),
            ("2023-11-14T23:13:20.5+01:00", 1_700_000_000_500_000_000),
            ("@1700000000", 1_700_000_000_000_000_000),
            ("@1700000000.25", 1_700_000_000_250_000_000),
        ] {
            assert_eq!(parse_time(text).unwrap().as_nanos(), nanos, "{text}");
        }
        let hour = parse_time("now").unwrap().as_nanos() - parse_time("1h ago").unwrap().as_nanos();
        assert!((3_500_000_000_000..=3_600_000_000_000).contains(&hour), "{hour}");
        assert!(parse_time("2023-11-14T22:13:20").is_ok());
    }

    #[test]
    fn other_text_is_an_error_that_names_it() {
        for text in ["", "yesterday or so", "@", "@1.1234567890", "2023-13-01T00:00:00Z", "x ago"] {
            assert!(parse_time(text).unwrap_err().starts_with(&format!("\"{text}\"")), "{text}");
        }
    }
}

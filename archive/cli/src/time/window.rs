//! The window of samples of a command.
//!
//! The options apply in this order, as in PCP (`src/libpcp/src/rtime.c`): start and
//! end of the archive, then `-S`, `-A`, `-T`, `-O`.

use std::time::Duration;

use clap::Args;
use jiff::tz::TimeZone;
use pcp_archive::Timestamp;
use pcp_types::parse_interval;

use crate::Failure;
use crate::text::warn;
use crate::time::{Frame, SpanOptions, Window, parse_time};

/// Options of a window of samples.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct WindowOptions {
    #[command(flatten)]
    pub(crate) span: SpanOptions,

    /// Round the start up to a multiple of this interval since 1970 UTC
    #[arg(short = 'A', long = "align", value_name = "INTERVAL")]
    pub(crate) align: Option<String>,

    /// Time of the first sample [default: the start of the window]
    #[arg(short = 'O', long = "origin", value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) origin: Option<String>,
}

impl WindowOptions {
    /// Returns the window in an archive from `first` to `last`.
    ///
    /// # Errors
    ///
    /// [`Failure::Usage`] for an invalid time, and an end before the start;
    /// [`Failure::NoData`] for a window outside the archive.
    pub(crate) fn window(
        &self,
        first: Timestamp,
        last: Timestamp,
        zone: &TimeZone,
    ) -> Result<Window, Failure> {
        let frame = Frame { start: first, end: last, now: Timestamp::now(), zone: zone.clone() };
        let given = self.span.start(&frame)?;
        let start = given.max(first);
        let step = self.align.as_deref().map(parse_interval).transpose()?;
        let aligned = step.map_or(start, |step| round_up(start, step));
        // An alignment beyond the end of the archive is ignored.
        let step = step.filter(|_| aligned <= last);
        if aligned > last {
            warn(&"--align is ignored: the aligned start is after the end of the archive");
        }
        let start = step.map_or(start, |_| aligned);
        let end = self.span.end(given, start, &frame)?;
        let origin = match &self.origin {
            Some(text) => parse_time(text, &Frame { start, ..frame })?,
            None => start,
        };
        let origin = origin.clamp(start, end);
        let origin = step.map_or(origin, |step| {
            let up = round_up(origin, step);
            if up > end { round_down(origin, step).max(start) } else { up }
        });
        Ok(Window { start, end, origin })
    }
}

/// Returns the first multiple of `step` since 1970 that is not before `at`.
fn round_up(timestamp: Timestamp, step: Duration) -> Timestamp {
    let down = round_down(timestamp, step);
    if down < timestamp { down.saturating_add(step) } else { down }
}

/// Returns the last multiple of `step` since 1970 that is not after `at`.
fn round_down(timestamp: Timestamp, step: Duration) -> Timestamp {
    let step = step.as_nanos().max(1) as i128;
    Timestamp::from_nanos(timestamp.as_nanos().div_euclid(step) * step)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timestamp(seconds: i64) -> Timestamp {
        Timestamp::new(1_700_000_000 + seconds, 0).unwrap()
    }

    fn options(start: &str, finish: &str, align: &str, origin: &str) -> WindowOptions {
        let given = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        WindowOptions {
            span: SpanOptions { start: given(start), finish: given(finish), last: None },
            align: given(align),
            origin: given(origin),
        }
    }

    /// In an archive of 100 s that starts 20 s after a full minute.
    fn window(options: &WindowOptions) -> Window {
        options.window(timestamp(0), timestamp(100), &TimeZone::UTC).unwrap()
    }

    #[test]
    fn without_options_it_is_the_whole_archive() {
        let whole = Window { start: timestamp(0), end: timestamp(100), origin: timestamp(0) };
        assert_eq!(window(&options("", "", "", "")), whole);
    }

    #[test]
    fn the_end_counts_from_the_start_of_the_window() {
        let window = window(&options("10", "20", "", "5"));
        assert_eq!(
            (window.start, window.end, window.origin),
            (timestamp(10), timestamp(30), timestamp(15))
        );
    }

    #[test]
    fn the_last_part_ends_with_the_archive() {
        let last = |interval: &str| {
            let mut options = options("", "", "", "");
            options.span.last = Some(interval.to_owned());
            window(&options)
        };
        assert_eq!((last("1m").start, last("1m").end), (timestamp(40), timestamp(100)));
        assert_eq!(last("1w").start, timestamp(0));
    }

    #[test]
    fn times_outside_the_archive_are_clamped() {
        let window = window(&options("@1600000000", "2h", "", "-3h"));
        assert_eq!(
            (window.start, window.end, window.origin),
            (timestamp(0), timestamp(100), timestamp(0))
        );
    }

    #[test]
    fn alignment_moves_the_start_up_to_a_round_time() {
        assert_eq!(window(&options("", "", "1min", "")).start, timestamp(40));
        assert_eq!(window(&options("", "", "", "7")).origin, timestamp(7));
        assert_eq!(window(&options("", "", "10s", "7")).origin, timestamp(10));
        assert_eq!(
            window(&options("", "", "1h", "")).start,
            timestamp(0),
            "1h leads out of the archive"
        );
    }

    /// The failure of a window, in a zone an hour ahead of UTC.
    fn failure(start: &str, finish: &str) -> Failure {
        let zone = TimeZone::posix("CET-1").unwrap();
        options(start, finish, "", "").window(timestamp(0), timestamp(100), &zone).unwrap_err()
    }

    #[test]
    fn an_end_before_the_start_is_an_error() {
        let backwards = failure("50", "@1700000010");
        assert!(matches!(backwards, Failure::Usage(_)));
        let expected = "the window ends at 2023-11-14 23:13:30.000000000 CET, \
                        before its start at 2023-11-14 23:14:10.000000000 CET";
        assert_eq!(backwards.to_string(), expected);
        assert!(matches!(failure("50", "@1600000000"), Failure::Usage(_)));
    }

    #[test]
    fn a_window_outside_the_archive_has_no_data() {
        let after = failure("101", "");
        assert!(matches!(after, Failure::NoData(_)));
        let expected = "the archive ends at 2023-11-14 23:15:00.000000000 CET, \
                        before the window begins at 2023-11-14 23:15:01.000000000 CET";
        assert_eq!(after.to_string(), expected);
        assert!(matches!(failure("@1800000000", "@1800000100"), Failure::NoData(_)));
        assert!(matches!(failure("", "@1600000000"), Failure::NoData(_)));
        assert!(matches!(failure("@1500000000", "@1600000000"), Failure::NoData(_)));
    }
}

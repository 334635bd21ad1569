//! The window of time that a command looks at, and the samples in it.
//!
//! Order of work, as in PCP (`src/libpcp/src/rtime.c`): the archive's own
//! start and end; then `-S`, `-A`, `-T`, `-O`.

use std::time::Duration;

use clap::Args;
use jiff::tz::TimeZone;
use pcp_types::Timestamp;

use super::failure::Failure;
use super::time::{self, Frame};
use super::zone::Zone;

/// The options of a span of time.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct SpanOptions {
    /// Begin at this time: a date (2024-05-01T10:00:00Z, @10:30, @1714557600.5),
    /// or so long after the archive's start (30s, 1h30m), before its end (-5min), or before now
    /// ("2 hours ago").
    #[arg(short = 'S', long = "start", value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) start: Option<String>,

    /// End at this time: a date, or so long after the start of the window, or
    /// before the archive's end.
    #[arg(short = 'T', long = "finish", value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) finish: Option<String>,
}

/// The options of a window of samples.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct WindowOptions {
    #[command(flatten)]
    pub(crate) span: SpanOptions,

    /// Move the start up to a multiple of this interval since 1970 UTC.
    #[arg(short = 'A', long = "align", value_name = "INTERVAL")]
    pub(crate) align: Option<String>,

    /// Take the first sample at this time instead of the start of the window.
    #[arg(short = 'O', long = "origin", value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) origin: Option<String>,
}

/// A window of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    /// The first moment.
    pub(crate) start: Timestamp,
    /// The last moment.
    pub(crate) end: Timestamp,
    /// The moment of the first sample.
    pub(crate) origin: Timestamp,
    /// The alignment was asked for, but leads out of the archive.
    pub(crate) unaligned: bool,
}

impl SpanOptions {
    /// Whether there is any.
    pub(crate) const fn is_given(&self) -> bool {
        self.start.is_some() || self.finish.is_some()
    }

    /// The window without alignment and origin.
    ///
    /// # Errors
    ///
    /// As [`WindowOptions::window`].
    pub(crate) fn window(
        &self,
        first: Timestamp,
        last: Timestamp,
        zone: &TimeZone,
    ) -> Result<Window, Failure> {
        let options = WindowOptions { span: self.clone(), align: None, origin: None };
        options.window(first, last, zone)
    }
}

impl WindowOptions {
    /// The window that the options mean in an archive from `first` to `last`.
    ///
    /// # Errors
    ///
    /// [`Failure::Usage`] for a time that is none, and an end before the start;
    /// [`Failure::NoData`] for a window outside the archive.
    pub(crate) fn window(
        &self,
        first: Timestamp,
        last: Timestamp,
        zone: &TimeZone,
    ) -> Result<Window, Failure> {
        let now = Timestamp::now();
        let frame = |start| Frame { start, end: last, now, zone: zone.clone() };
        let read = |text: &Option<String>, start, default| match text {
            Some(text) => time::moment(text, &frame(start)).map_err(Failure::from),
            None => Ok(default),
        };
        let said = |at| Zone::new(zone.clone()).long(at);
        let asked = read(&self.span.start, first, first)?;
        if asked > last {
            let (asked, last) = (said(asked), said(last));
            let reason = format!("the archive ends at {last}, before the window begins at {asked}");
            return Err(Failure::NoData(reason));
        }
        let start = asked.max(first);
        let step = self.align.as_deref().map(time::interval).transpose()?;
        let aligned = step.map_or(start, |step| round_up(start, step));
        let unaligned = aligned > last;
        let start = if unaligned { start } else { aligned };
        let finish = read(&self.span.finish, start, last)?;
        // The start that was not asked for is no reason to call it backwards.
        if finish < first && (self.span.start.is_none() || asked <= finish) {
            let (finish, first) = (said(finish), said(first));
            let reason =
                format!("the archive begins at {first}, after the window ends at {finish}");
            return Err(Failure::NoData(reason));
        }
        let end = finish.min(last);
        if end < start {
            let (end, start) = (said(end), said(start));
            let reason = format!("the window ends at {end}, before its start at {start}");
            return Err(Failure::Usage(reason));
        }
        let origin = read(&self.origin, start, start)?.clamp(start, end);
        let origin = step.filter(|_| !unaligned).map_or(origin, |step| {
            let up = round_up(origin, step);
            if up > end { round_down(origin, step).max(start) } else { up }
        });
        Ok(Window { start, end, origin, unaligned })
    }
}

/// The first multiple of `step` since 1970 that is not before `at`.
fn round_up(at: Timestamp, step: Duration) -> Timestamp {
    let down = round_down(at, step);
    if down < at { down.saturating_add(step) } else { down }
}

/// The last multiple of `step` since 1970 that is not after `at`.
fn round_down(at: Timestamp, step: Duration) -> Timestamp {
    let step = step.as_nanos().max(1) as i128;
    Timestamp::from_nanos(at.as_nanos().div_euclid(step) * step)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::new(1_700_000_000 + seconds, 0).unwrap()
    }

    fn options(start: &str, finish: &str, align: &str, origin: &str) -> WindowOptions {
        let given = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        WindowOptions {
            span: SpanOptions { start: given(start), finish: given(finish) },
            align: given(align),
            origin: given(origin),
        }
    }

    /// In an archive of 100 s that starts 20 s after a full minute.
    fn window(options: &WindowOptions) -> Window {
        options.window(at(0), at(100), &TimeZone::UTC).unwrap()
    }

    #[test]
    fn without_options_it_is_the_whole_archive() {
        let whole = Window { start: at(0), end: at(100), origin: at(0), unaligned: false };
        assert_eq!(window(&options("", "", "", "")), whole);
    }

    #[test]
    fn the_end_counts_from_the_start_of_the_window() {
        let window = window(&options("10", "20", "", "5"));
        assert_eq!((window.start, window.end, window.origin), (at(10), at(30), at(15)));
    }

    #[test]
    fn times_outside_the_archive_are_pulled_in() {
        let window = window(&options("@1600000000", "2h", "", "-3h"));
        assert_eq!((window.start, window.end, window.origin), (at(0), at(100), at(0)));
    }

    #[test]
    fn alignment_moves_the_start_up_to_a_round_time() {
        assert_eq!(window(&options("", "", "1min", "")).start, at(40));
        assert_eq!(window(&options("", "", "", "7")).origin, at(7));
        assert_eq!(window(&options("", "", "10s", "7")).origin, at(10));
        let too_far = window(&options("", "", "1h", ""));
        assert_eq!((too_far.start, too_far.unaligned), (at(0), true));
    }

    /// What is wrong with a window, in a zone an hour ahead of UTC.
    fn failure(start: &str, finish: &str) -> Failure {
        let zone = TimeZone::posix("CET-1").unwrap();
        options(start, finish, "", "").window(at(0), at(100), &zone).unwrap_err()
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
    fn a_window_outside_the_archive_holds_nothing() {
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

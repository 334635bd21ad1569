//! The window of time that `-S`, `-T` and `--last` mean.

use clap::Args;
use jiff::tz::TimeZone;
use pcp_archive::Timestamp;
use pcp_types::parse_interval;

use crate::ArgumentError;
use crate::time::{Frame, long, parse_time};

/// Start and end of a window.
#[derive(Debug, Clone, Default, Args)]
pub struct SpanOptions {
    /// Start of the window: a time of day (18:05) or date (2024-05-01T18:05:00Z, "yesterday
    /// 18:05", "last monday", @1714557600.5), or a time after the start of the archive (30s,
    /// 1h30m), before its end (-5min), or before now ("2 hours ago")
    #[arg(short = 'S', long = "start", value_name = "TIME", allow_hyphen_values = true)]
    #[arg(visible_aliases = ["since", "from"])]
    pub start: Option<String>,

    /// End of the window: a date, or a time after the start of the window or before the end of
    /// the archive
    #[arg(short = 'T', long = "finish", value_name = "TIME", allow_hyphen_values = true)]
    #[arg(visible_aliases = ["until", "to"])]
    pub finish: Option<String>,

    /// The last part of the archive, of this length: 1m, 2h, 1w
    #[arg(long, value_name = "INTERVAL", conflicts_with_all = ["start", "finish"])]
    pub last: Option<String>,
}

/// A window of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The first time.
    pub start: Timestamp,
    /// The last time.
    pub end: Timestamp,
    /// The time of the first sample.
    pub origin: Timestamp,
}

impl SpanOptions {
    /// Returns whether any option is given.
    pub const fn is_given(&self) -> bool {
        self.start.is_some() || self.finish.is_some() || self.last.is_some()
    }

    /// Returns the window in archives that begin and end with the frame.
    ///
    /// # Errors
    ///
    /// Those of [`start`](Self::start) and [`end`](Self::end).
    pub fn window(
        &self,
        first: Timestamp,
        last: Timestamp,
        zone: &TimeZone,
    ) -> Result<Window, ArgumentError> {
        let now = Timestamp::now();
        let frame = Frame { start: first, end: last, now, zone: zone.clone() };
        let given = self.start(&frame)?;
        let start = given.max(first);
        let end = self.end(given, start, &frame)?;
        Ok(Window { start, end, origin: start })
    }

    /// Returns the start that is asked for, which may be before that of the frame.
    ///
    /// # Errors
    ///
    /// [`ArgumentError::Usage`] for an invalid time; [`ArgumentError::NoData`] for one after the end
    /// of the frame.
    pub fn start(&self, frame: &Frame) -> Result<Timestamp, ArgumentError> {
        let last = frame.end;
        let given = match (&self.last, &self.start) {
            (Some(interval), _) => {
                let interval = parse_interval(interval);
                let interval = interval.map_err(|error| ArgumentError::Usage(error.to_string()))?;
                last.saturating_sub(interval)
            }
            (None, Some(text)) => parse_time(text, frame)?,
            (None, None) => frame.start,
        };
        if given > last {
            let given = long(given, &frame.zone);
            let last = long(last, &frame.zone);
            let reason = format!("the archive ends at {last}, before the window begins at {given}");
            return Err(ArgumentError::NoData(reason));
        }
        Ok(given)
    }

    /// Returns the end of a window from `start`, which was asked for as `given`: at most that of the
    /// frame.
    ///
    /// # Errors
    ///
    /// [`ArgumentError::Usage`] for an invalid time, and for one before the start;
    /// [`ArgumentError::NoData`] for one before the frame.
    pub fn end(
        &self,
        given: Timestamp,
        start: Timestamp,
        frame: &Frame,
    ) -> Result<Timestamp, ArgumentError> {
        let first = frame.start;
        let last = frame.end;
        let finish = match &self.finish {
            Some(text) => parse_time(text, &Frame { start, ..frame.clone() })?,
            None => last,
        };
        // Without a given start, an end before the archive is not an invalid window.
        if finish < first && (self.start.is_none() || given <= finish) {
            let finish = long(finish, &frame.zone);
            let first = long(first, &frame.zone);
            let reason =
                format!("the archive begins at {first}, after the window ends at {finish}");
            return Err(ArgumentError::NoData(reason));
        }
        let end = finish.min(last);
        if end < start {
            let end = long(end, &frame.zone);
            let start = long(start, &frame.zone);
            let reason = format!("the window ends at {end}, before its start at {start}");
            return Err(ArgumentError::Usage(reason));
        }
        Ok(end)
    }
}

//! PCP's date format, which can have missing parts:
//! `[Wday] [Mon] [D] HH:MM[:SS.frac] [am|pm] [YYYY]`.
//!
//! Parts larger than the largest given one are those of the start of the window.
//! If the largest given part is smaller than that of the start, the next larger
//! part is incremented: with a start of Tuesday 22:13, `21:50` is on Wednesday,
//! but `22:00` is on Tuesday (the hour is not smaller), before the start.

use jiff::Span;
use jiff::civil::{Date, DateTime, Time, Weekday};
use pcp_archive::Timestamp;

use super::{Frame, TimeError, time_in_zone, to_jiff};

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [(&str, Weekday); 7] = [
    ("sun", Weekday::Sunday),
    ("mon", Weekday::Monday),
    ("tue", Weekday::Tuesday),
    ("wed", Weekday::Wednesday),
    ("thu", Weekday::Thursday),
    ("fri", Weekday::Friday),
    ("sat", Weekday::Saturday),
];

#[derive(Debug, Default)]
struct Parts {
    weekday: Option<Weekday>,
    month: Option<i8>,
    day: Option<i8>,
    time: Option<Time>,
    pm: Option<bool>,
    year: Option<i16>,
}

/// Reads a date; `None` for text of another form.
pub(super) fn parse(text: &str, frame: &Frame) -> Option<Result<Timestamp, TimeError>> {
    let mut parts = Parts::default();
    for word in text.split_ascii_whitespace() {
        parts.add(word)?;
    }
    let time = to_24_hours(parts.time?, parts.pm)?;
    let start = to_jiff(frame.start)?.to_zoned(frame.zone.clone()).datetime();
    let date = parts.resolve(start, time).ok_or_else(|| TimeError::NoSuchDate(text.to_owned()));
    Some(date.and_then(|date| time_in_zone(date, &frame.zone, text)))
}

/// Reads a time of day, `8:05` or `18:05:30.25`.
pub(super) fn clock(text: &str) -> Option<Time> {
    let padded = if text.find(':')? == 1 { &format!("0{text}") } else { text };
    padded.parse().ok()
}

/// Returns a time of day in 24 hours: 12 am is midnight.
pub(super) fn to_24_hours(time: Time, pm: Option<bool>) -> Option<Time> {
    match pm {
        None => Some(time),
        Some(pm) if (1..=12).contains(&time.hour()) => {
            time.with().hour(time.hour() % 12 + if pm { 12 } else { 0 }).build().ok()
        }
        Some(_) => None,
    }
}

impl Parts {
    /// Adds a word; `None` if it is not a part, or one that is given already.
    fn add(&mut self, word: &str) -> Option<()> {
        let lower = word.to_ascii_lowercase();
        let prefix = lower.get(..3).unwrap_or(&lower);
        let letters = lower.bytes().all(|b| b.is_ascii_alphabetic());
        if let Some((_, weekday)) = WEEKDAYS.iter().find(|(name, _)| letters && *name == prefix) {
            return fill(&mut self.weekday, *weekday);
        }
        if let Some(month) = MONTHS.iter().position(|name| letters && *name == prefix) {
            return fill(&mut self.month, month as i8 + 1);
        }
        if lower == "am" || lower == "pm" {
            return fill(&mut self.pm, lower == "pm");
        }
        if lower.contains(':') {
            return fill(&mut self.time, clock(&lower)?);
        }
        let number: i16 = lower.parse().ok()?;
        match number {
            1..=31 => fill(&mut self.day, number as i8),
            1900..=9999 => fill(&mut self.year, number),
            _ => None,
        }
    }

    /// Returns the date, with missing parts from `start`.
    fn resolve(&self, start: DateTime, time: Time) -> Option<DateTime> {
        let date = start.date();
        if let Some(year) = self.year {
            let month = self.month.unwrap_or(date.month());
            return Some(
                Date::new(year, month, self.day.unwrap_or(date.day())).ok()?.to_datetime(time),
            );
        }
        if let Some(month) = self.month {
            let day = self.day.unwrap_or(1);
            let year = date.year() + i16::from(month < date.month());
            return Some(Date::new(year, month, day).ok()?.to_datetime(time));
        }
        if let Some(day) = self.day {
            // As in mktime(3), a day after the end of the month is in the next one:
            // after 31 January, `30` is 1 or 2 March.
            let months = Span::new().months(i32::from(day < date.day()));
            let days = Span::new().days(i32::from(day) - 1);
            let first = date.first_of_month().checked_add(months).ok()?;
            return Some(first.checked_add(days).ok()?.to_datetime(time));
        }
        let days = match self.weekday {
            Some(weekday) => i64::from(date.weekday().until(weekday)),
            None => i64::from(time.hour() < start.hour()),
        };
        date.to_datetime(time).checked_add(Span::new().days(days)).ok()
    }
}

fn fill<T>(place: &mut Option<T>, value: T) -> Option<()> {
    if place.is_some() {
        return None;
    }
    *place = Some(value);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::TimeZone;

    /// With a start of Tuesday 2023-11-14 22:13:20.
    fn date(text: &str) -> String {
        date_after(1_700_000_000, text)
    }

    fn date_after(start: i64, text: &str) -> String {
        let start = Timestamp::new(start, 0).unwrap();
        let frame = Frame { start, end: start, now: start, zone: TimeZone::UTC };
        let timestamp = parse(text, &frame).unwrap().unwrap();
        to_jiff(timestamp).unwrap().to_string()
    }

    #[test]
    fn the_missing_day_is_the_starts_or_the_next() {
        assert_eq!(date("21:50"), "2023-11-15T21:50:00Z");
        assert_eq!(date("22:00"), "2023-11-14T22:00:00Z");
        assert_eq!(date("22:14:05.25"), "2023-11-14T22:14:05.25Z");
        assert_eq!(date("9:50 pm"), "2023-11-15T21:50:00Z");
        assert_eq!(date("12:00 am"), "2023-11-15T00:00:00Z");
    }

    #[test]
    fn weekdays_days_and_months_look_forward_too() {
        assert_eq!(date("Tue 10:00"), "2023-11-14T10:00:00Z");
        assert_eq!(date("Monday 10:00"), "2023-11-20T10:00:00Z");
        assert_eq!(date("13 10:00"), "2023-12-13T10:00:00Z");
        assert_eq!(date("Nov 13 10:00"), "2023-11-13T10:00:00Z");
        assert_eq!(date("Mar 1 10:00"), "2024-03-01T10:00:00Z");
        assert_eq!(date("Tue Nov 14 10:00:00 2023"), "2023-11-14T10:00:00Z");
    }

    #[test]
    fn a_day_that_the_month_lacks_is_one_of_the_next_month() {
        let last_of_january = 1_706_659_200; // 2024-01-31, of a leap year
        assert_eq!(date_after(last_of_january, "30 10:00"), "2024-03-01T10:00:00Z");
        let last_of_january = 1_675_123_200; // 2023-01-31
        assert_eq!(date_after(last_of_january, "30 10:00"), "2023-03-02T10:00:00Z");
        let february = 1_676_419_200; // 2023-02-15
        assert_eq!(date_after(february, "30 10:00"), "2023-03-02T10:00:00Z");
    }

    #[test]
    fn other_words_are_another_form() {
        let start = Timestamp::new(1_700_000_000, 0).unwrap();
        let frame = Frame { start, end: start, now: start, zone: TimeZone::UTC };
        for text in ["", "9", "noon", "10:00 10:01", "13:00 pm", "10:00 0", "yesterday"] {
            assert!(parse(text, &frame).is_none(), "{text}");
        }
        assert!(parse("Feb 30 10:00", &frame).unwrap().is_err());
    }
}

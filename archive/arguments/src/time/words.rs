//! Times as people say them: `18:05`, `yesterday 18:05`, `last monday`, `Nov 22`.
//!
//! A time of day is the last one within the frame: of an archive that ends on Friday at 17:00,
//! `18:05` is on Thursday and `16:30` on Friday. If the frame has none, it is the nearest one: the
//! last before its start or the first after its end. Dates are those of GNU date, counted from now;
//! a day of a month, without a year, is not in the future.

use jiff::civil::{self, Time};
use jiff::{Span, Zoned};
use parse_datetime::parse_datetime_at_date;
use pcp_archive::Timestamp;

use super::ctime::{clock, to_24_hours};
use super::{Frame, TimeError, from_jiff, time_in_zone, to_jiff};

/// Reads a time; `None` for text of another form.
pub(super) fn parse(text: &str, frame: &Frame) -> Option<Result<Timestamp, TimeError>> {
    if let Some(time) = time_of_day(text) {
        return day_within(frame, time, text);
    }
    // Anything else without letters is a number or a date of another form.
    if !text.bytes().any(|byte| byte.is_ascii_alphabetic()) {
        return None;
    }
    let now = to_jiff(frame.now)?.to_zoned(frame.zone.clone());
    let found = parse_datetime_at_date(now.clone(), text).ok()?.into_zoned()?;
    Some(Ok(from_jiff(not_in_future(found, &now, text)?.timestamp())))
}

/// Parses `18:05`, `8:05:30`, `18:05:30.25` or `6:05pm`.
fn time_of_day(text: &str) -> Option<Time> {
    let lower = text.to_ascii_lowercase();
    let half = ["am", "pm"].into_iter().find_map(|half| Some((lower.strip_suffix(half)?, half)));
    let (digits, half) = half.map_or((&*lower, None), |(digits, half)| (digits.trim(), Some(half)));
    if !digits.bytes().all(|byte| byte.is_ascii_digit() || b":.".contains(&byte)) {
        return None;
    }
    to_24_hours(clock(digits)?, half.map(|half| half == "pm"))
}

/// Returns the last such time of a day within the frame, or else the nearest one.
fn day_within(frame: &Frame, time: Time, text: &str) -> Option<Result<Timestamp, TimeError>> {
    let last: civil::Date = to_jiff(frame.end)?.to_zoned(frame.zone.clone()).date();
    let on_day = |days: i64| {
        let date = last.checked_add(Span::new().days(days)).ok()?;
        Some(time_in_zone(date.to_datetime(time), &frame.zone, text))
    };
    for days in [0, -1] {
        match on_day(days)? {
            Ok(found) if frame.start <= found && found <= frame.end => return Some(Ok(found)),
            _ => {}
        }
    }
    let (before, after) = match on_day(0)? {
        Ok(found) if found < frame.start => (Ok(found), on_day(1)?),
        found => (on_day(-1)?, found),
    };
    let is_before = before.as_ref().is_ok_and(|before| {
        let distance = frame.start.nanos_since(*before);
        after.as_ref().map_or(true, |after| distance < after.nanos_since(frame.end))
    });
    Some(if is_before { before } else { after })
}

/// Moves a day of a month in the future to the year before, unless the text names a year.
fn not_in_future(found: Zoned, now: &Zoned, text: &str) -> Option<Zoned> {
    let month = found.strftime("%b").to_string();
    let names_month = text
        .split(|c: char| !c.is_ascii_alphabetic())
        .any(|word| word.get(..3).is_some_and(|word| word.eq_ignore_ascii_case(&month)));
    let has_year = text.split(|c: char| !c.is_ascii_digit()).any(|digits| digits.len() == 4);
    if names_month && !has_year && found > *now {
        return found.checked_sub(Span::new().years(1)).ok();
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::tz::TimeZone;
    use proptest::prelude::*;

    use super::*;

    /// An archive from Tuesday 2023-11-14 22:13:20 to Friday 2023-11-17 17:00, on the
    /// Saturday after it at 09:00.
    fn frame() -> Frame {
        let at = |seconds| Timestamp::new(seconds, 0).unwrap();
        let start = at(1_700_000_000);
        let end = at(1_700_240_400);
        let now = at(1_700_298_000);
        Frame { start, end, now, zone: TimeZone::UTC }
    }

    fn date(text: &str) -> String {
        let found = parse(text, &frame()).unwrap_or_else(|| panic!("{text}")).unwrap();
        to_jiff(found).unwrap().to_zoned(TimeZone::UTC).strftime("%a %F %T").to_string()
    }

    #[test]
    fn a_time_of_day_is_the_last_one_in_the_archive() {
        assert_eq!(date("16:30"), "Fri 2023-11-17 16:30:00");
        assert_eq!(date("18:05"), "Thu 2023-11-16 18:05:00");
        assert_eq!(date("6:05pm"), "Thu 2023-11-16 18:05:00");
        assert_eq!(date("18:05:23"), "Thu 2023-11-16 18:05:23");
        let start = parse("18:00", &frame()).unwrap().unwrap();
        let late = Frame { start, ..frame() };
        let found = parse("17:30", &late).unwrap().unwrap();
        assert_eq!(found.seconds() - late.end.seconds(), 1800, "the next one after the end");
    }

    #[test]
    fn a_time_of_day_outside_of_a_short_archive_is_the_nearest_one() {
        let start = frame().end;
        let end = frame().end.saturating_add(Duration::from_secs(60));
        let short = Frame { start, end, ..frame() };
        let date = |text| {
            let found = to_jiff(parse(text, &short).unwrap().unwrap()).unwrap();
            found.to_zoned(TimeZone::UTC).strftime("%a %T").to_string()
        };
        assert_eq!(date("16:55"), "Fri 16:55:00");
        assert_eq!(date("17:05"), "Fri 17:05:00");
        assert_eq!(date("17:00:30"), "Fri 17:00:30");
        assert_eq!(date("23:00"), "Fri 23:00:00");
        assert_eq!(date("09:00"), "Fri 09:00:00");
    }

    #[test]
    fn days_are_counted_from_now() {
        assert_eq!(date("today"), "Sat 2023-11-18 09:00:00");
        assert_eq!(date("yesterday 18:05"), "Fri 2023-11-17 18:05:00");
        assert_eq!(date("last monday"), "Mon 2023-11-13 00:00:00");
        assert_eq!(date("Nov 15"), "Wed 2023-11-15 00:00:00");
        assert_eq!(date("Dec 24 20:00"), "Sat 2022-12-24 20:00:00");
    }

    #[test]
    fn other_text_is_no_time() {
        for text in ["", "soon", "10", "2023", "99:00", "10:61", "13:00pm", "1:2:3:4", "--"] {
            assert!(!matches!(parse(text, &frame()), Some(Ok(_))), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[a-z0-9:+@. -]{0,24}", other in ".{0,12}") {
            let _ = parse(&text, &frame());
            let _ = parse(&other, &frame());
        }
    }
}

//! Prints the status as text.

use std::io::{self, Write};
use std::time::Duration;

use pcp_types::format_interval;
use pcp_types::printable::{self, line};

use crate::config::LogMode;
use crate::moment::utc_text;

use super::{
    FlightRecorderStatus, GroupStatus, MetricUsage, PerValue, RetainedTier, SourceStatus, Status,
};

/// Age of the status of files, in seconds, from which it is printed.
const FILES_OLD: f64 = 2.0;

/// Prints a status: one JSON object, or some lines of text.
///
/// # Errors
///
/// From `out`.
pub(crate) fn print(status: &Status, json: bool, out: &mut impl Write) -> io::Result<()> {
    if json {
        return writeln!(out, "{}", printable::json(&serde_json::to_string(status)?));
    }
    let Status { version, pid, uptime, .. } = status;
    let version = line(version);
    writeln!(out, "mmv-agent {version}, process {pid}, up {uptime:.0} s")?;
    let archive = &status.archive;
    match &archive.base {
        Some(base) => writeln!(out, "writing {}, volume {}", line(base), archive.volume)?,
        None => writeln!(out, "writing nothing")?,
    }
    if let Some(error) = &archive.error {
        writeln!(out, "cannot write: {}", line(error))?;
    }
    if let Some(error) = &status.state_error {
        writeln!(out, "error: {}", line(error))?;
    }
    writeln!(
        out,
        "records: {} written, {} lost, {} dropped; ticks missed: {}; waiting: {} of {} bytes",
        archive.written,
        archive.lost,
        status.dropped,
        status.missed,
        status.queued,
        status.queue_limit
    )?;
    if let Some(error) = &status.last_error {
        writeln!(out, "last error, at {}: {}", utc_text(error.at, 0), line(&error.what))?;
    }
    for warning in &status.warnings {
        writeln!(out, "warning: {}", line(warning))?;
    }
    let lateness = &status.lateness;
    let [half, most, max] = [lateness.p50, lateness.p99, lateness.max].map(|time| time * 1e3);
    writeln!(
        out,
        "late: {} ticks; half within {half:.1} ms, 99 % within {most:.1} ms, all within {max:.1} ms",
        status.late
    )?;
    let values = status.values_a_second;
    let bytes = status.bytes_a_second;
    writeln!(out, "rate: {values:.0} values and {bytes:.0} bytes a second")?;
    print_forecast(status, out)?;
    for GroupStatus { name, interval, values, known, bytes_a_day, log } in &status.groups {
        let name = line(name);
        let megabytes = *bytes_a_day as f64 / 1e6;
        if *log == LogMode::Never {
            writeln!(out, "group {name}: never logged")?;
            continue;
        }
        let of_known = if known > values { format!(" of {known}") } else { String::new() };
        writeln!(
            out,
            "group {name}: {values}{of_known} values each {interval} s, {megabytes:.1} MB a day"
        )?;
    }
    for MetricUsage { metric, values, bytes_a_day } in &status.largest_metrics {
        let metric = line(metric);
        let megabytes = *bytes_a_day as f64 / 1e6;
        writeln!(out, "large: {metric}, {values} values, up to {megabytes:.1} MB a day")?;
    }
    if let Some(flight_recorder) = &status.flight_recorder {
        print_flight_recorder(flight_recorder, out)?;
    }
    match status.files_age {
        Some(age) if age > FILES_OLD => {
            writeln!(out, "files: as of {age:.0} s ago, the agent is busy loading files")?;
        }
        None if status.pid > 0 && status.sources.is_empty() => {
            writeln!(out, "files: not known yet")?;
        }
        _ => {}
    }
    super::owners::print(&status.owners, out)?;
    for source in &status.sources {
        let SourceStatus { file, state, since, reason, values, missing, left_out, .. } = source;
        // Names and reasons come from files that any user may create.
        let file = line(file);
        let state = line(state);
        match reason {
            None => writeln!(out, "file {file}: {values} values")?,
            Some(reason) => {
                let reason = line(reason);
                writeln!(out, "file {file}: {state} for {since:.0} s: {reason}")?;
            }
        }
        if *missing > 0 {
            writeln!(out, "file {file}: {missing} samples missing")?;
        }
        for reason in left_out {
            writeln!(out, "file {file}: left out: {}", line(reason))?;
        }
    }
    out.flush()
}

fn print_flight_recorder(status: &FlightRecorderStatus, out: &mut impl Write) -> io::Result<()> {
    let FlightRecorderStatus { directory, interval, values, span, bytes, dropped, lost, .. } =
        status;
    let megabytes = *bytes as f64 / 1e6;
    writeln!(
        out,
        "flight recorder: {values} values each {interval} s, the last {span:.0} s with \
         {megabytes:.1} MB in {}; {lost} lost, {dropped} dropped",
        line(directory)
    )
}

fn print_forecast(status: &Status, out: &mut impl Write) -> io::Result<()> {
    let kept = &status.kept;
    let forecast = &status.forecast;
    if kept.archives > 0 {
        let megabytes = kept.bytes as f64 / 1e6;
        write!(out, "kept: {} archives of {megabytes:.1} MB", kept.archives)?;
        match kept.oldest {
            Some(oldest) => writeln!(out, ", the oldest from {}", utc_text(oldest, 0))?,
            None => writeln!(out)?,
        }
    }
    for tier in kept.tiers.iter().filter(|tier| tier.interval > 0.0) {
        let RetainedTier { interval, archives, bytes, oldest } = tier;
        let interval = Duration::try_from_secs_f64(*interval).unwrap_or_default();
        let interval = format_interval(interval);
        let megabytes = *bytes as f64 / 1e6;
        write!(out, "of them {archives} with a value each {interval}, {megabytes:.1} MB")?;
        match oldest {
            Some(oldest) => writeln!(out, ", the oldest from {}", utc_text(*oldest, 0))?,
            None => writeln!(out)?,
        }
    }
    if let Some(PerValue { bytes, nanoseconds }) = status.compression {
        let [from, to] = [kept.compressed_from, kept.compressed_to].map(|bytes| bytes as f64 / 1e6);
        writeln!(
            out,
            "compressed: {from:.1} MB to {to:.1} MB; a value to {bytes:.1} bytes in {nanoseconds:.0} ns"
        )?;
    }
    let megabytes = forecast.bytes_a_day as f64 / 1e6;
    write!(out, "forecast: {megabytes:.1} MB a day before compression")?;
    if let Some(seconds) = forecast.measured_over {
        write!(out, ", as in the last {:.0} min", seconds / 60.0)?;
    }
    if let Some(share) = forecast.compressed_to {
        write!(out, ", {:.1} MB after it", megabytes * share)?;
    }
    match (forecast.days, &forecast.limit) {
        (Some(days), Some(limit)) => {
            // The effect of compression is not known yet.
            let lower = forecast.compressed_to.is_none() && limit != "age";
            let at_least = if lower { "at least " } else { "" };
            writeln!(out, "; {at_least}{days:.1} days are kept, by retention.{limit}")
        }
        _ => writeln!(out, "; nothing is deleted"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Forecast, LastError, Lateness, PerValue, RetainedArchives};
    use super::*;

    #[test]
    fn each_part_of_the_status_has_a_line() {
        let status = Status {
            files_age: Some(7.1),
            late: 3,
            lateness: Lateness { p50: 0.0001, p99: 0.002, max: 0.03 },
            values_a_second: 1234.4,
            bytes_a_second: 99.6,
            kept: RetainedArchives {
                archives: 2,
                bytes: 5_000_000,
                oldest: Some(0),
                compressed_from: 4_000_000,
                compressed_to: 500_000,
                tiers: vec![RetainedTier {
                    interval: 3600.0,
                    archives: 1,
                    bytes: 250_000,
                    oldest: Some(1),
                }],
                ..RetainedArchives::default()
            },
            compression: Some(PerValue { bytes: 3.94, nanoseconds: 35.4 }),
            forecast: Forecast {
                bytes_a_day: 8_000_000,
                measured_over: Some(3600.0),
                compressed_to: Some(0.25),
                days: Some(14.0),
                limit: Some("age".into()),
            },
            last_error: Some(LastError { what: "no\nroom".into(), at: 1_700_000_000 }),
            state_error: Some("state\n.json: no room".into()),
            largest_metrics: vec![MetricUsage {
                metric: "mmv.shop.latency.bucket".into(),
                values: 120,
                bytes_a_day: 6_000_000,
            }],
            ..Status::default()
        };
        let mut out = Vec::new();
        print(&status, false, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        for expected in [
            "files: as of 7 s ago, the agent is busy loading files",
            "error: state\\x0a.json: no room",
            "last error, at 2023-11-14T22:13:20Z: no\\x0aroom",
            "late: 3 ticks; half within 0.1 ms, 99 % within 2.0 ms, all within 30.0 ms",
            "rate: 1234 values and 100 bytes a second",
            "large: mmv.shop.latency.bucket, 120 values, up to 6.0 MB a day",
            "kept: 2 archives of 5.0 MB, the oldest from 1970-01-01T00:00:00Z",
            "of them 1 with a value each 1h, 0.2 MB, the oldest from 1970-01-01T00:00:01Z",
            "compressed: 4.0 MB to 0.5 MB; a value to 3.9 bytes in 35 ns",
            "forecast: 8.0 MB a day before compression, as in the last 60 min, 2.0 MB after it; 14.0 days are kept, by retention.age",
        ] {
            assert!(text.lines().any(|found| found == expected), "{expected}\n{text}");
        }
    }

    #[test]
    fn a_forecast_without_a_ratio_of_compression_is_a_lower_limit() {
        for (compressed_to, limit, expected) in [
            (None, "size", "; at least 3.6 days are kept, by retention.size"),
            (None, "age", "; 3.6 days are kept, by retention.age"),
            (Some(0.5), "size", "; 3.6 days are kept, by retention.size"),
        ] {
            let limit = Some(limit.to_owned());
            let forecast =
                Forecast { compressed_to, days: Some(3.6), limit, ..Forecast::default() };
            let mut out = Vec::new();
            print(&Status { forecast, ..Status::default() }, false, &mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            assert!(text.lines().any(|line| line.ends_with(expected)), "{expected}\n{text}");
        }
    }

    #[test]
    fn a_group_that_is_never_logged_has_no_numbers() {
        let group = |name: &str, log| GroupStatus {
            name: name.to_owned(),
            interval: 1.0,
            log,
            ..GroupStatus::default()
        };
        let groups = vec![group("quiet", LogMode::Never), group("default", LogMode::Every)];
        let mut out = Vec::new();
        print(&Status { groups, ..Status::default() }, false, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let expected = "group quiet: never logged\n\
                        group default: 0 values each 1 s, 0.0 MB a day\n";
        assert!(text.ends_with(expected), "{text}");
    }

    #[test]
    fn missing_samples_of_a_file_have_a_line() {
        let file = |name: &str, missing| SourceStatus {
            file: name.to_owned(),
            values: 7,
            missing,
            ..SourceStatus::default()
        };
        let sources = vec![file("steady", 0), file("growing", 3)];
        let mut out = Vec::new();
        print(&Status { sources, ..Status::default() }, false, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let expected =
            "file steady: 7 values\nfile growing: 7 values\nfile growing: 3 samples missing\n";
        assert!(text.ends_with(expected), "{text}");
    }

    #[test]
    fn a_name_of_a_file_cannot_begin_a_line() {
        let source = SourceStatus {
            file: "a\nfile b".to_owned(),
            state: "quarantined".to_owned(),
            since: 3.4,
            reason: Some("it is\x1b[2J".to_owned()),
            left_out: vec!["a\rname".to_owned()],
            ..SourceStatus::default()
        };
        let status = Status { sources: vec![source], ..Status::default() };
        let mut out = Vec::new();
        print(&status, false, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(
            text.ends_with(
                "file a\\x0afile b: quarantined for 3 s: it is\\x1b[2J\n\
                 file a\\x0afile b: left out: a\\x0dname\n"
            ),
            "{text}"
        );
    }
}

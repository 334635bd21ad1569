//! `explain`: what changed in archives with an incident that is known.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Output;

use pcp_archive::raw::event::{EventArrayBuilder, EventFlags};
use pcp_archive::{OwnedValue, Pmid, Value as ArchiveValue};
use serde_json::Value;
use test_archives::{Builder, Cell, TestArchive, at};

use crate::incident;
use crate::output_schema::documented;
use crate::program::{printed_of, run_on, stdout};

fn explain(base: &Path, arguments: &[&str]) -> Output {
    run_on(base, &[&["explain"], arguments].concat())
}

fn text(base: &Path, arguments: &[&str]) -> String {
    stdout(&explain(base, arguments), 0).to_owned()
}

fn json(base: &Path, arguments: &[&str]) -> Value {
    serde_json::from_str(&text(base, &[arguments, &["--json"]].concat())).unwrap()
}

fn second(time: &Value) -> f64 {
    let time: jiff::Timestamp = time.as_str().unwrap().parse().unwrap();
    (time.as_millisecond() - 1_700_000_000_000) as f64 / 1000.0
}

/// Half of the series are steady, half vary by a hash of the second.
fn archive(
    seconds: u64,
    mut row: impl FnMut(u64) -> Vec<(String, Cell)>,
    builder: Builder,
) -> TestArchive {
    let builder = builder
        .metric("mmv.other.workers", "u32 instant count")
        .metric("mmv.other.requests", "u64 counter count");
    let mut requests = 0;
    builder
        .rows((0..seconds).map(|second| {
            requests += 50 + noise(second, 20);
            let mut cells = row(second);
            cells.push(("mmv.other.workers".to_owned(), 8.into()));
            cells.push(("mmv.other.requests".to_owned(), requests.into()));
            (second, cells)
        }))
        .finish()
}

fn noise(second: u64, limit: u64) -> u64 {
    let mixed = (second + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) % limit
}

#[test]
fn the_incident_of_a_job_queue_is_found_with_its_times() {
    let (_directory, base) = incident::jobs();
    let json = json(&base, &["-S", "60s"]);
    let changes = json["changes"].as_array().unwrap();
    for (metric, instance) in [
        ("mmv.jobs.latency", Value::from("endpoint=/submit")),
        ("mmv.jobs.failures", Value::Null),
        ("mmv.jobs.queue.depth", Value::Null),
        ("mmv.jobs.requests", Value::from("endpoint=/submit,code=503")),
    ] {
        let is_it = |change: &&Value| change["metric"] == metric && change["instance"] == instance;
        let change = changes.iter().find(is_it).unwrap_or_else(|| panic!("{metric}: {json}"));
        assert!((88.0..=92.0).contains(&second(&change["begin"])), "{change}");
        assert!((118.0..=122.0).contains(&second(&change["end"])), "{change}");
        assert_eq!(change["group"], 1, "{change}");
    }
    assert!(changes.iter().all(|change| change["metric"] != "mmv.jobs.workers"), "{json}");
    let latency = changes.iter().find(|change| change["metric"] == "mmv.jobs.latency").unwrap();
    assert_eq!((&latency["kind"], &latency["units"]), (&"quantile".into(), &"microsec".into()));
    assert_eq!(latency["labels"]["endpoint"], "/submit", "{latency}");
    assert!(changes.iter().all(|change| change["program"] == "jobs"), "{json}");
    let kinds =
        json["events"].as_array().unwrap().iter().map(|event| event["type"].as_str().unwrap());
    assert_eq!(kinds.collect::<Vec<_>>(), ["ended", "restarted"]);
    let absence = &json["unmeasured"][0];
    assert_eq!(absence["program"], "jobs", "{json}");
    assert_eq!((second(&absence["begin"]), second(&absence["end"])), (179.0, 185.0), "{absence}");
}

#[test]
fn fields_of_json_are_the_documented_ones() {
    let (_directory, base) = incident::jobs();
    let json = json(&base, &["-S", "60s"]);
    let mut fields: BTreeSet<String> = json.as_object().unwrap().keys().cloned().collect();
    fields.extend(json["changes"][0].as_object().unwrap().keys().cloned());
    assert_eq!(fields, documented("explain --json"));
    let window: Vec<&String> = json["window"].as_object().unwrap().keys().collect();
    assert_eq!(window, ["begin", "compared_since", "end", "series"]);
}

#[test]
fn one_screen_of_text_begins_with_what_changed_most() {
    let (_directory, base) = incident::jobs();
    let text = text(&base, &["-S", "60s"]);
    let (first, _) = text.split_once("\n\n").unwrap();
    let first = first.replace('\n', " ");
    assert!(first.starts_with("22:14:49") || first.starts_with("22:14:50"), "{text}");
    assert!(first.contains("mmv.jobs.") && first.contains("moved with it"), "{text}");
    for expected in ["restarted jobs, pid 8", "Not measured", "jobs: not running", "compared with"]
    {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert!(text.lines().count() <= 45, "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

/// An archive of 42 s with a record each second `phase` after the whole second. For 8 s from 20.3 s
/// on requests fail, which they did not before.
fn short_incident(phase: f64) -> TestArchive {
    const INCIDENT: std::ops::Range<f64> = 20.3..28.3;
    let mut builder = Builder::new()
        .metric("mmv.jobs.requests", "u64 counter count")
        .instances("mmv.jobs.requests", ["code=200"])
        .metric("mmv.jobs.depth", "u32 instant count");
    let mut has_failed = false;
    for second in 0..43_u32 {
        let time = f64::from(second) + phase;
        let failed = 170.0 * (time.clamp(INCIDENT.start, INCIDENT.end) - INCIDENT.start);
        let answered = 200.0 * time - failed;
        let is_bad = INCIDENT.contains(&time);
        let depth = if is_bad { 400 } else { 2 + noise(second.into(), 3) };
        let mut cells = vec![
            ("mmv.jobs.requests[code=200]".to_owned(), Cell::from(answered as u64)),
            ("mmv.jobs.depth".to_owned(), depth.into()),
        ];
        if failed > 0.0 {
            if !has_failed {
                builder = builder.instances("mmv.jobs.requests", ["code=200", "code=500"]);
                has_failed = true;
            }
            cells.push(("mmv.jobs.requests[code=500]".to_owned(), (failed as u64).into()));
        }
        builder = builder.row_at(at(time), cells);
    }
    builder.finish()
}

#[test]
fn incident_of_eight_seconds_has_its_length_in_a_window_of_42() {
    for phase in [0.0, 0.2, 0.4, 0.7] {
        let archive = short_incident(phase);
        let json = json(archive.base(), &["-S", "0s"]);
        let changes = json["changes"].as_array().unwrap();
        assert!(changes.len() >= 3, "{json}");
        for change in changes {
            let begin = second(&change["begin"]);
            let end = second(&change["end"]);
            assert!((20.2..21.5).contains(&begin), "{phase}: {change}");
            assert!((27.2..29.4).contains(&end), "{phase}: {change}");
            assert!((6.9..8.5).contains(&(end - begin)), "{phase}: {change}");
            if change["instance"] == "code=500" {
                assert_eq!(change["before"], 0.0, "{phase}: {change}");
                assert!((change["during"].as_f64().unwrap() - 170.0).abs() < 10.0, "{change}");
            }
        }
    }
}

#[test]
fn at_is_a_quarter_of_an_hour_on_both_sides() {
    let row = |second: u64| vec![("mmv.shop.depth".to_owned(), (second % 5).into())];
    let archive = archive(4000, row, Builder::new().metric("mmv.shop.depth", "u32 instant count"));
    let json = json(archive.base(), &["--at", "2000s"]);
    let window = &json["window"];
    assert_eq!((second(&window["begin"]), second(&window["end"])), (1100.0, 2900.0));
    assert_eq!(window["compared_since"], "2023-11-14T22:13:20.000000000Z", "{window}");
    assert_eq!(json["changes"].as_array().unwrap().len(), 0, "{json}");
    let outside = explain(archive.base(), &["--at", "2h"]);
    assert_eq!(outside.status.code(), Some(1));
    let message = String::from_utf8(outside.stderr).unwrap();
    assert!(message.contains("is not in the archive, which is from"), "{message}");
    let text = text(archive.base(), &[]);
    assert!(text.starts_with("No series changed more than it usually does.\n"), "{text}");
}

#[test]
fn a_leak_begins_where_it_began_and_goes_on() {
    let row = |second: u64| {
        let leaked = second.saturating_sub(1500) * 40;
        vec![("mmv.shop.memory".to_owned(), Cell::from(200_000 + leaked + noise(second, 1000)))]
    };
    let archive = archive(2400, row, Builder::new().metric("mmv.shop.memory", "u64 instant Kbyte"));
    let json = json(archive.base(), &["--last", "20m"]);
    let change = &json["changes"][0];
    assert_eq!(json["changes"].as_array().unwrap().len(), 1, "{json}");
    assert!((1490.0..=1510.0).contains(&second(&change["begin"])), "{change}");
    assert_eq!((&change["gradual"], &change["end"]), (&true.into(), &Value::Null));
    let text = text(archive.base(), &["--last", "20m"]);
    assert!(text.lines().next().unwrap().contains("mmv.shop.memory rose slowly"), "{text}");
}

#[test]
fn values_of_labels_that_appear_are_named_with_their_growth() {
    let mut failed = 0;
    let row = |second: u64| {
        let mut cells = vec![("mmv.shop.requests[code=200]".to_owned(), Cell::from(40 * second))];
        if second >= 900 {
            failed += 3 + noise(second, 3);
            cells.push(("mmv.shop.requests[code=503]".to_owned(), failed.into()));
        }
        cells
    };
    let builder = Builder::new()
        .metric("mmv.shop.requests", "u64 counter count")
        .instances("mmv.shop.requests", ["code=200", "code=503"]);
    let archive = archive(1200, row, builder);
    let json = json(archive.base(), &["--last", "10m"]);
    let appeared = &json["appeared"][0];
    assert_eq!(
        (&appeared["metric"], &appeared["instance"]),
        (&"mmv.shop.requests".into(), &"code=503".into())
    );
    assert!((897.0..=903.0).contains(&second(&appeared["time"])), "{json}");
    let change = &json["changes"][0];
    assert_eq!(change["instance"], "code=503", "{json}");
    assert_eq!((&change["before"], &change["ratio"]), (&0.0.into(), &Value::Null));
    assert!(text(archive.base(), &["--last", "10m"]).contains("New instances\n"));
}

fn event(second: u64, kind: &str) -> OwnedValue {
    let parameter = |item| Pmid::new(70, 0, item).unwrap();
    let mut array = EventArrayBuilder::new();
    array.record(at(second), EventFlags::POINT).unwrap();
    array.parameter(parameter(1002), ArchiveValue::String(kind.as_bytes())).unwrap();
    array.parameter(parameter(1003), ArchiveValue::String(b"web")).unwrap();
    array.finish()
}

#[test]
fn restarts_again_and_again_are_a_change_and_one_line_of_events() {
    let row = |second: u64| {
        let mut cells = vec![("mmv.web.threads".to_owned(), Cell::from(4))];
        if second >= 700 && second.is_multiple_of(20) && second < 1000 {
            cells.push(("mmv.agent.events".to_owned(), event(second, "restarted").into()));
        }
        cells
    };
    let builder = Builder::new()
        .metric_with(Pmid::new(70, 0, 1001).unwrap(), "mmv.agent.events", "event instant")
        .metric_with(Pmid::new(70, 0, 1002).unwrap(), "mmv.agent.event.type", "string discrete")
        .metric_with(Pmid::new(70, 0, 1003).unwrap(), "mmv.agent.event.file", "string discrete")
        .metric("mmv.web.threads", "u32 instant count");
    let archive = archive(1200, row, builder);
    let json = json(archive.base(), &["--last", "10m"]);
    let change = &json["changes"][0];
    assert_eq!((&change["kind"], &change["metric"]), (&"restarts".into(), &"mmv.web".into()));
    assert_eq!((second(&change["begin"]), second(&change["end"])), (700.0, 980.0));
    assert_eq!(json["events"].as_array().unwrap().len(), 15);
    let text = text(archive.base(), &["--last", "10m"]);
    assert!(text.contains("restarted web, 15 times until 22:29:40"), "{text}");
    assert!(
        text.starts_with("22:25:00  web restarted 3.0/min, before 0.0/min, for 5 min."),
        "{text}"
    );
}

#[test]
fn falls_of_counters_in_the_window_are_events_where_no_agent_logged_any() {
    let row = |second: u64| {
        let begin = [0, 100, 250].into_iter().rfind(|begin| *begin <= second).unwrap();
        let orders = ("mmv.shop.orders".to_owned(), Cell::from(30 * (second - begin)));
        let sent = ("net.sent".to_owned(), Cell::from(70 * second));
        vec![orders, sent]
    };
    let builder = || {
        Builder::new()
            .metric_with(Pmid::new(70, 5, 1).unwrap(), "mmv.shop.orders", "u64 counter count")
            .metric_with(Pmid::new(60, 5, 1).unwrap(), "net.sent", "u64 counter byte")
    };
    let fallen = archive(400, row, builder());
    let found = json(fallen.base(), &["-S", "200s"]);
    let events = found["events"].as_array().unwrap();
    assert_eq!(events.len(), 1, "{found}");
    assert!((second(&events[0]["time"]) - 250.0).abs() < 1e-6, "{found}");
    let named = [&events[0]["type"], &events[0]["program"], &events[0]["reason"]];
    assert_eq!(named, [&Value::from("reset"), &"shop".into(), &"counters fell".into()]);
    let text = text(fallen.base(), &["-S", "200s"]);
    assert!(text.contains("  reset shop: counters fell\n"), "{text}");
    // An agent says when programs restarted.
    let with_events = |second: u64| {
        let mut cells = row(second);
        if second == 250 {
            cells.push(("mmv.agent.events".to_owned(), event(second, "restarted").into()));
        }
        cells
    };
    let builder = builder()
        .metric_with(Pmid::new(70, 0, 1001).unwrap(), "mmv.agent.events", "event instant")
        .metric_with(Pmid::new(70, 0, 1002).unwrap(), "mmv.agent.event.type", "string discrete")
        .metric_with(Pmid::new(70, 0, 1003).unwrap(), "mmv.agent.event.file", "string discrete");
    let restarted = archive(400, with_events, builder);
    let found = json(restarted.base(), &["-S", "200s"]);
    let events = found["events"].as_array().unwrap();
    assert_eq!((events.len(), &events[0]["type"]), (1, &"restarted".into()), "{found}");
}

#[test]
fn a_program_that_falls_silent_is_not_taken_for_calm() {
    let row = |second: u64| {
        let mut cells = Vec::new();
        if second < 800 {
            cells.push(("mmv.quiet.threads".to_owned(), Cell::from(4)));
        }
        cells
    };
    let archive =
        archive(1200, row, Builder::new().metric("mmv.quiet.threads", "u32 instant count"));
    let json = json(archive.base(), &["--last", "10m"]);
    let absence = &json["unmeasured"][0];
    assert_eq!((&absence["program"], &absence["reason"]), (&"quiet".into(), &"no values".into()));
    assert!((798.0..=804.0).contains(&second(&absence["begin"])), "{absence}");
    assert_eq!(json["unmeasured"].as_array().unwrap().len(), 1, "{json}");
}

/// An archive of counters alone, with a record each `interval` seconds but in the `hole`.
fn counters(interval: u64, hole: std::ops::Range<u64>) -> TestArchive {
    let seconds = (0..7200).step_by(interval as usize).filter(|second| !hole.contains(second));
    let rows = seconds.map(|second| {
        let cells =
            [("mmv.shop.requests", Cell::from(40 * second)), ("mmv.web.hits", second.into())];
        (second, cells)
    });
    Builder::new()
        .metric("mmv.shop.requests", "u64 counter count")
        .metric("mmv.web.hits", "u64 counter count")
        .rows(rows)
        .finish()
}

#[test]
fn a_hole_in_the_records_of_counters_is_not_taken_for_calm() {
    for (interval, hole) in [(1, 6000..6120), (60, 6000..6600)] {
        let archive = counters(interval, hole.clone());
        let json = json(archive.base(), &["--last", "30m"]);
        let unmeasured = json["unmeasured"].as_array().unwrap();
        assert_eq!(unmeasured.len(), 1, "{interval}: {json}");
        let absence = &unmeasured[0];
        assert_eq!((&absence["program"], &absence["reason"]), (&Value::Null, &"no records".into()));
        let tolerance = 8.0 + interval as f64;
        let begin = second(&absence["begin"]) - hole.start as f64;
        let end = second(&absence["end"]) - hole.end as f64;
        assert!(begin.abs() <= tolerance && end.abs() <= tolerance, "{interval}: {absence}");
        let text = text(archive.base(), &["--last", "30m"]);
        assert!(text.contains("  all: no records\n"), "{text}");
    }
}

#[test]
fn a_hole_in_the_values_of_a_counter_is_one_of_its_program() {
    let row = |second: u64| {
        let is_silent = (800..900).contains(&second);
        (!is_silent)
            .then(|| ("mmv.shop.orders".to_owned(), (40 * second).into()))
            .into_iter()
            .collect()
    };
    let archive = archive(1200, row, Builder::new().metric("mmv.shop.orders", "u64 counter count"));
    let json = json(archive.base(), &["--last", "10m"]);
    let absence = &json["unmeasured"][0];
    assert_eq!((&absence["program"], &absence["reason"]), (&"shop".into(), &"no values".into()));
    assert!((798.0..=804.0).contains(&second(&absence["begin"])), "{absence}");
    assert!((896.0..=904.0).contains(&second(&absence["end"])), "{absence}");
    assert_eq!(json["unmeasured"].as_array().unwrap().len(), 1, "{json}");
}

#[test]
fn intervals_longer_than_a_column_are_no_holes() {
    for interval in [1, 7, 8, 11, 15, 16, 60, 100] {
        let archive = counters(interval, 0..0);
        let json = json(archive.base(), &["--last", "1h"]);
        assert_eq!(json["unmeasured"].as_array().unwrap().len(), 0, "{interval}: {json}");
    }
}

#[test]
fn damaged_record_is_named_and_passed_by() {
    let row = |second: u64| {
        let depth = if second < 900 { 3 } else { 90 };
        vec![("mmv.shop.depth".to_owned(), Cell::from(depth + noise(second, 3)))]
    };
    let archive = archive(1200, row, Builder::new().metric("mmv.shop.depth", "u32 instant count"));
    let volume = archive.member("0");
    let mut bytes = std::fs::read(&volume).unwrap();
    // Records of 1 000 s on, with all their lengths.
    let begin = bytes.len() * 5 / 6;
    let length = bytes.len() / 100;
    bytes[begin..begin + length].fill(0xff);
    std::fs::write(&volume, &bytes).unwrap();
    for metrics in [&[][..], &["mmv.shop.depth"]] {
        let options = [&["--last", "10m", "--json"], metrics].concat();
        let output = explain(archive.base(), &options);
        let message = String::from_utf8(output.stderr.clone()).unwrap();
        assert!(message.contains("bytes are lost"), "{message}");
        let json: Value = serde_json::from_str(stdout(&output, 65)).unwrap();
        let change = &json["changes"][0];
        assert_eq!(change["metric"], "mmv.shop.depth", "{json}");
        assert!((898.0..=902.0).contains(&second(&change["begin"])), "{change}");
        let unmeasured = json["unmeasured"].as_array().unwrap();
        assert_eq!(unmeasured.len(), 1, "{json}");
        let absence = &unmeasured[0];
        assert_eq!((&absence["program"], &absence["reason"]), (&Value::Null, &"damaged".into()));
        assert!((994.0..=1002.0).contains(&second(&absence["begin"])), "{absence}");
        assert!((1006.0..=1016.0).contains(&second(&absence["end"])), "{absence}");
    }
}

#[test]
fn plain_and_compressed_archives_give_the_same_bytes() {
    let (directory, base) = incident::jobs();
    let packed = directory.path().join("packed");
    printed_of(&base, &["convert", "--compress", "zstd", "--output", "packed"]);
    for arguments in [&["-S", "60s", "--json"][..], &["-S", "60s"]] {
        let expected = text(&base, arguments);
        assert_eq!(text(&base, arguments), expected);
        assert_eq!(text(&packed, arguments), expected);
    }
}

#[test]
fn hostile_names_break_no_line() {
    let row = |second: u64| {
        let depth = if second < 900 { 3 } else { 90 };
        vec![(
            "mmv.shop.depth[red\u{1b}[31m\n\u{202e}x]".to_owned(),
            Cell::from(depth + noise(second, 3)),
        )]
    };
    let builder = Builder::new()
        .metric("mmv.shop.depth", "u32 instant count")
        .instances("mmv.shop.depth", ["red\u{1b}[31m\n\u{202e}x"]);
    let archive = archive(1200, row, builder);
    let text = text(archive.base(), &["--last", "10m"]);
    assert!(text.contains(r"red\x1b[31m\x0a"), "{text}");
    assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text}");
    let json = json(archive.base(), &["--last", "10m"]);
    assert_eq!(json["changes"][0]["instance"], "red\u{1b}[31m\n\u{202e}x");
}

#[test]
fn change_of_eight_samples_after_eight_is_found() {
    let row = |second: u64| {
        let is_incident = (8..16).contains(&second);
        vec![(
            "mmv.shop.depth".to_owned(),
            (if is_incident { 500 } else { 10 + second % 3 }).into(),
        )]
    };
    let archive = archive(40, row, Builder::new().metric("mmv.shop.depth", "u32 instant count"));
    let text = text(archive.base(), &[]);
    assert!(text.contains("value mmv.shop.depth rose from 10.9 to 500 (46x), for 8 s."), "{text}");
}

#[test]
fn more_series_than_fit_into_memory_are_refused() {
    let names: Vec<String> = (0..100_001).map(|number| format!("user{number}")).collect();
    let archive = Builder::new()
        .metric("mmv.shop.depth", "u32 instant count")
        .metric("mmv.shop.users", "u32 instant count")
        .instances("mmv.shop.users", names.iter().map(String::as_str))
        .rows((0..40).map(|second| (second, [("mmv.shop.depth", second)])))
        .finish();
    let output = explain(archive.base(), &[]);
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("100002 series, more than the limit of 100000"), "{message}");
    text(archive.base(), &["mmv.shop.depth"]);
}

#[test]
fn too_few_samples_are_no_answer() {
    let row = |second: u64| vec![("mmv.shop.depth".to_owned(), second.into())];
    let archive = archive(14, row, Builder::new().metric("mmv.shop.depth", "u32 instant count"));
    let output = explain(archive.base(), &[]);
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("at least 16 samples"), "{message}");
}

const BUCKET_COUNTER: &str = "mmv.shop.latency.bucket";

/// Creates an archive of a histogram with these buckets. `counts` returns how many values each has
/// counted by a second.
fn latency_archive<const N: usize>(
    seconds: u64,
    buckets: [&str; N],
    units: &str,
    mut counts: impl FnMut(u64) -> [u64; N],
) -> TestArchive {
    let instances = buckets.map(|bucket| format!("bucket={bucket}"));
    let builder = Builder::new()
        .metric(BUCKET_COUNTER, "u64 counter count")
        .instances(BUCKET_COUNTER, instances.iter().map(String::as_str))
        .labels(BUCKET_COUNTER, &[("histogram", units)]);
    let row = |second: u64| {
        let mut cells = Vec::with_capacity(N);
        for (instance, count) in instances.iter().zip(counts(second)) {
            cells.push((format!("{BUCKET_COUNTER}[{instance}]"), Cell::from(count)));
        }
        cells
    };
    archive(seconds, row, builder)
}

/// An archive of a program that restarts after 17 s. Half of the searches take 40 times as long in
/// `slow` seconds.
fn slow_searches(seconds: u64, slow: &[std::ops::Range<u64>]) -> TestArchive {
    let buckets = ["256..383", "384..511", "16384..24575"];
    let mut counts = [0; 3];
    latency_archive(seconds, buckets, "microsec", |second| {
        if second == 17 {
            counts = [0; 3];
        }
        let is_slow = slow.iter().any(|slow| slow.contains(&second));
        let slow = if is_slow { 40 + noise(second, 9) } else { 0 };
        counts[0] += 80 + noise(second, 7) - slow;
        counts[1] += 5 + noise(second, 5);
        counts[2] += slow;
        counts
    })
}

#[test]
fn two_slow_spells_in_half_a_minute_are_named() {
    let two = [8..13, 25..30];
    for slow in [&two[..], &two[..1], &two[1..]] {
        let archive = slow_searches(34, slow);
        let json = json(archive.base(), &[]);
        let changes = json["changes"].as_array().unwrap();
        let mut found = Vec::new();
        for change in changes.iter().filter(|change| change["kind"] == "quantile") {
            assert!(change["ratio"].as_f64().unwrap() > 30.0, "{change}");
            found.push(second(&change["begin"]));
        }
        found.sort_by(f64::total_cmp);
        assert_eq!(found.len(), slow.len(), "{slow:?}: {json}");
        let text = text(archive.base(), &[]).replace('\n', " ");
        assert!(text.contains("from 320 us to 20.5 ms (64x), for 5 s"), "{text}");
        assert_eq!(text.contains(", again at 22:13:44."), slow.len() == 2, "{text}");
        for (begin, slow) in found.iter().zip(slow) {
            assert!((begin - slow.start as f64).abs() <= 1.0, "{slow:?}: {json}");
        }
    }
}

#[test]
fn an_incident_that_recurs_is_not_said_to_be_calm() {
    let archive = slow_searches(110, &[15..20, 40..45, 65..70, 90..95]);
    let json = json(archive.base(), &[]);
    let recurring = &json["recurring"][0];
    assert_eq!(json["changes"].as_array().unwrap().len(), 0, "{json}");
    assert_eq!(recurring["metric"], "mmv.shop.latency", "{json}");
    assert!((second(&recurring["last"]) - 93.0).abs() <= 3.0, "{json}");
    let text = text(archive.base(), &[]).replace('\n', " ");
    assert!(text.starts_with("No series changed only once or twice. More often: "), "{text}");
    assert!(text.contains("Changed more than twice until 22:14:"), "{text}");
}

#[test]
fn few_samples_are_not_said_to_be_calm() {
    let archive = slow_searches(34, &[]);
    let text = text(archive.base(), &[]);
    assert!(text.starts_with("No series changed by much. With 34 samples"), "{text}");
}

#[test]
fn values_that_move_below_the_median_are_a_change() {
    let buckets = ["96..111", "192..223", "960..1023"];
    let mut counts = [0; 3];
    let archive = latency_archive(1200, buckets, "microsec", |second| {
        let fast = if second < 900 { 5 } else { 30 };
        counts[0] += fast + noise(second, 3);
        counts[1] += 45 - fast + noise(second + 7, 4);
        counts[2] += 65 + noise(second + 13, 9);
        counts
    });
    let json = json(archive.base(), &["--last", "10m"]);
    assert_eq!(json["changes"].as_array().unwrap().len(), 1, "{json}");
    let change = &json["changes"][0];
    assert_eq!(
        (&change["kind"], &change["metric"]),
        (&"quantile".into(), &"mmv.shop.latency".into())
    );
    assert!(change["quantile"].as_f64().unwrap() < 0.5, "{change}");
    assert!((898.0..=902.0).contains(&second(&change["begin"])), "{change}");
    assert!(change["ratio"].as_f64().unwrap() < 0.6, "{change}");
}

#[test]
fn where_all_values_change_a_usual_quantile_is_named() {
    let buckets = ["4..4", "5..5", "6..6", "20..21", "40..41", "52..55"];
    let mut counts = [0; 6];
    let archive = latency_archive(60, buckets, "millisec", |second| {
        // Some values are always slow, so the largest ones change least.
        let slowest = if second.is_multiple_of(7) { 5 } else { 3 + (second % 2) as usize };
        let now = if (20..40).contains(&second) { [0, 0, 0, 0, 4, 0] } else { [3, 3, 2, 0, 0, 0] };
        for (count, more) in counts.iter_mut().zip(now) {
            *count += more;
        }
        counts[slowest] += 1;
        counts
    });
    let json = json(archive.base(), &["--last", "60s"]);
    let changes = json["changes"].as_array().unwrap();
    let quantiles: Vec<f64> = changes.iter().filter_map(|one| one["quantile"].as_f64()).collect();
    assert!(matches!(quantiles[..], [rank] if rank >= 0.5), "{json}");
}

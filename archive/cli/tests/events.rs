//! Event metrics in `dump`, `report` and `events`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use pcp_archive::internal::programs::{events_metric, items};
use pcp_archive::raw::event::{EventArrayBuilder, EventFlags};
use pcp_archive::{Pmid, Timestamp, Value};
use serde_json::{Value as Json, json};
use tempfile::TempDir;
use test_archives::{Builder, Cell};

use crate::output_schema::documented;
use crate::program::{printed_of, run_on, text};
use crate::terminal_width::on_terminal;

fn at(seconds: i64, nanos: u32) -> Timestamp {
    Timestamp::new(1_700_000_000 + seconds, nanos).unwrap()
}

/// Requests as events with a path and a size; and the size of what else there
/// is. Nothing describes the third parameter.
fn archive() -> (TempDir, PathBuf) {
    let pmid = |item| Pmid::new(70, 1, item).unwrap();
    let mut events = EventArrayBuilder::highres();
    let record = events.record(at(0, 5), EventFlags::POINT).unwrap();
    let record = record.parameter(pmid(2), Value::String(b"/")).unwrap();
    let record = record.parameter(pmid(3), Value::U64(u64::MAX)).unwrap();
    record.parameter(pmid(9), Value::I32(-1)).unwrap();
    events.missed(at(0, 7), 3).unwrap();
    Builder::named("acme")
        .metric("acme.requests", "highres-event instant")
        .metric("acme.path", "string instant")
        .metric("acme.size", "u64 instant")
        .row(1, [("acme.requests", events.finish().into()), ("acme.size", Cell::from(1))])
        .finish()
        .into_parts()
}

fn printed(command: &str, base: &Path, arguments: &[&str]) -> String {
    printed_of(base, &[&[command], arguments].concat())
}

fn line(printed: &str) -> Json {
    serde_json::from_str(printed).unwrap()
}

#[test]
fn events_are_records_with_their_parameters_in_json() {
    let (_directory, base) = archive();
    let parameter = |item: u32, metric, value_type: &str, value| {
        let pmid = format!("70.1.{item}");
        json!({ "pmid": pmid, "metric": metric, "type": value_type, "value": value })
    };
    let parameters = [
        parameter(2, json!("acme.path"), "string", json!("/")),
        parameter(3, json!("acme.size"), "u64", json!(u64::MAX)),
        parameter(9, Json::Null, "32", json!(-1)),
    ];
    let expected = json!({ "highres_event": [
        {
            "time": "2023-11-14T22:13:20.000000005Z",
            "seconds": 1_700_000_000.0,
            "flags": 1,
            "parameters": parameters,
        },
        {
            "time": "2023-11-14T22:13:20.000000007Z",
            "seconds": 1_700_000_000.0,
            "flags": 1_u32 << 31,
            "missed": 3,
            "parameters": [],
        },
    ] });
    let dumped = line(&printed("dump", &base, &["--json", "acme.requests"]));
    assert_eq!(dumped["sets"][0]["values"], json!([[null, expected]]));
    let reported = line(&printed("report", &base, &["acme.requests", "--raw", "--json"]));
    assert_eq!(reported["value"], expected);
    let options = ["acme.requests", "--json", "-S", "0s", "-s", "1"];
    assert_eq!(line(&printed("follow", &base, &options))["value"], expected);
}

#[test]
fn events_are_lines_with_their_times_and_parameters() {
    let (_directory, base) = archive();
    let lines = "2023-11-14 22:13:20.000  path=/  size=18446744073709551615  70.1.9=-1\n\
                 2023-11-14 22:13:20.000  3 events were missed\n";
    assert_eq!(printed("events", &base, &[]), lines);
    assert_eq!(printed("events", &base, &["acme", "--last", "1h"]), lines);
    let objects = printed("events", &base, &["--json"]);
    let objects: Vec<Json> = objects.lines().map(line).collect();
    assert_eq!(objects.len(), 2);
    assert_eq!(objects[0]["metric"], json!("acme.requests"));
    assert_eq!(objects[0]["parameters"][1]["value"], json!(u64::MAX));
    assert_eq!(objects[1]["missed"], json!(3));
}

#[test]
fn an_archive_without_events_has_none_to_print() {
    let (_directory, base) = archive();
    let failure = |arguments: &[&str]| {
        let output = run_on(&base, &[&["events"], arguments].concat());
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        text(&output.stderr).to_owned()
    };
    assert!(failure(&["acme.size"]).contains("none of the metrics has events"));
}

fn programs() -> (TempDir, PathBuf) {
    programs_with(&[
        (1, "appeared", "shop", 11, None),
        (1, "appeared", "cart", 12, None),
        (5, "restarted", "shop", 13, None),
    ])
}

type ProgramEvent = (i64, &'static str, &'static str, u32, Option<u64>);

fn programs_with(all: &[ProgramEvent]) -> (TempDir, PathBuf) {
    let cells: [(&str, Cell); 3] = [
        ("mmv.agent.events", event_array(all)),
        ("mmv.shop.orders", Cell::from(7)),
        ("mmv.cart.items", Cell::from(7)),
    ];
    with_event_metrics(Builder::named("programs"))
        .metric("mmv.shop.orders", "u64 counter count")
        .metric("mmv.cart.items", "u64 counter count")
        .row(6, cells)
        .finish()
        .into_parts()
}

fn parameter(item: u32) -> Pmid {
    Pmid::new(70, 0, item).unwrap()
}

fn event_array(all: &[ProgramEvent]) -> Cell {
    let mut events = EventArrayBuilder::highres();
    for (second, kind, file, pid, values) in all {
        let record = events.record(at(*second, 0), EventFlags::POINT).unwrap();
        let kind = Value::String(kind.as_bytes());
        record.parameter(parameter(items::KIND), kind).unwrap();
        record.parameter(parameter(items::FILE), Value::String(file.as_bytes())).unwrap();
        record.parameter(parameter(items::PID), Value::U32(*pid)).unwrap();
        if let Some(values) = values {
            record.parameter(parameter(items::VALUES), Value::U64(*values)).unwrap();
        }
    }
    events.finish().into()
}

fn with_event_metrics(builder: Builder) -> Builder {
    builder
        .metric_with(events_metric(), "mmv.agent.events", "highres-event instant")
        .metric_with(parameter(items::KIND), "mmv.agent.event.type", "string instant")
        .metric_with(parameter(items::FILE), "mmv.agent.event.file", "string instant")
        .metric_with(parameter(items::PID), "mmv.agent.event.pid", "u32 instant")
        .metric_with(parameter(items::VALUES), "mmv.agent.event.values", "u64 instant")
}

#[test]
fn picture_of_a_histogram_has_restarts_of_its_program_alone() {
    let restarted = |file| (4, "restarted", file, 13, None);
    let mut builder = with_event_metrics(Builder::named("two"));
    for program in ["shop", "cart"] {
        let [buckets, sum] = ["bucket", "sum"].map(|part| format!("mmv.{program}.latency.{part}"));
        builder = builder
            .metric(&buckets, "u64 counter count")
            .metric(&sum, "u64 counter microsec")
            .numbered_instances(&buckets, [(4, "4..5")])
            .labels(&buckets, &[("histogram", "microsec")])
            .domain_labels(&buckets, &[("bucket_max", 10), ("bucket_precision", 1)]);
    }
    for second in 0..9_u64 {
        let values = ["shop", "cart"].map(|program| {
            [
                (format!("mmv.{program}.latency.bucket[4..5]"), 9 * second),
                (format!("mmv.{program}.latency.sum"), 40 * second),
            ]
        });
        builder = builder.row(second, values.concat());
    }
    let events = event_array(&[restarted("shop"), restarted("cart")]);
    let (directory, base) = builder.row(9, [("mmv.agent.events", events)]).finish().into_parts();
    for options in [&[][..], &["--heatmap"]] {
        let picture = directory.path().join("picture.svg");
        let output = ["mmv.shop.latency", "-o", picture.to_str().unwrap()];
        printed("plot", &base, &[options, &output].concat());
        let svg = std::fs::read_to_string(picture).unwrap();
        assert!(svg.contains("shop restarted") && !svg.contains("cart"), "{options:?}: {svg}");
    }
}

#[test]
fn events_of_a_program_are_those_of_its_file() {
    let (_directory, base) = programs();
    let expected = "2023-11-14 22:13:21.000  appeared     file=shop  pid=11\n\
                    2023-11-14 22:13:25.000  restarted    file=shop  pid=13\n";
    assert_eq!(printed("events", &base, &["mmv.shop"]), expected);
    assert_eq!(printed("events", &base, &["mmv.shop.orders"]), expected);
    assert_eq!(printed("events", &base, &[]).lines().count(), 3);
    assert_eq!(printed("events", &base, &["mmv"]).lines().count(), 3);
}

#[test]
fn successive_growth_of_a_program_is_one_line() {
    let grew = |second, file, values| (second, "grew", file, 11, Some(values));
    let (_directory, base) = programs_with(&[
        (1, "appeared", "shop", 11, Some(100)),
        grew(10, "shop", 110),
        grew(11, "cart", 7),
        (12, "ended", "cart", 11, None),
        grew(20, "shop", 125),
        grew(79, "shop", 130),
        grew(140, "shop", 131),
        (141, "restarted", "shop", 13, Some(90)),
        grew(142, "shop", 95),
    ]);
    let objects = printed("events", &base, &["mmv", "--json"]);
    let objects: Vec<Json> = objects.lines().map(line).collect();
    let printed = printed("events", &base, &["mmv"]);
    let lines: Vec<&str> = printed.lines().map(|line| &line[11..]).collect();
    let expected = [
        "22:13:21.000  appeared     file=shop  pid=11  values=100",
        "22:13:30.000  grew         file=shop  pid=11  values=130  added=30  times=3  until=22:14:39.000",
        "22:13:31.000  grew         file=cart  pid=11  values=7",
        "22:13:32.000  ended        file=cart  pid=11",
        "22:15:40.000  grew         file=shop  pid=11  values=131  added=1",
        "22:15:41.000  restarted    file=shop  pid=13  values=90",
        "22:15:42.000  grew         file=shop  pid=11  values=95  added=5",
    ];
    assert_eq!(lines, expected);
    let times: Vec<&Json> = objects.iter().map(|object| &object["time"]).collect();
    assert_eq!(times.len(), expected.len(), "the same lines in JSON");
    for (time, line) in times.iter().zip(expected) {
        assert!(time.as_str().unwrap().contains(&line[..12]), "{time} {line}");
    }
    let grown = &objects[1];
    assert_eq!((&grown["added"], &grown["times"]), (&json!(30), &json!(3)));
    assert_eq!(grown["until"], json!("2023-11-14T22:14:39.000000000Z"));
    assert_eq!(objects[2]["added"], Json::Null);
}

#[test]
fn lines_of_events_fit_a_terminal() {
    let grew = |second, values| (second, "grew", "a_program_with_a_long_name", 11, Some(values));
    let (_directory, base) = programs_with(&[grew(10, 110), grew(11, 120), grew(12, 130)]);
    let text = on_terminal(&base, &["events", "-Z", "UTC"], 80, None);
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{text}");
    assert!(lines.len() == 2 && lines[1].starts_with(&" ".repeat(25)), "{text}");
    let words: Vec<&str> = text.split_whitespace().collect();
    let printed = printed("events", &base, &[]);
    assert_eq!(words, printed.split_whitespace().collect::<Vec<_>>());
}

#[test]
fn an_escaped_byte_of_a_reason_is_escaped_once() {
    let mut events = EventArrayBuilder::highres();
    let record = events.record(at(1, 0), EventFlags::POINT).unwrap();
    record.parameter(parameter(items::KIND), Value::String(b"quarantined")).unwrap();
    record.parameter(parameter(items::FILE), Value::String(b"shop")).unwrap();
    let reason = b"name \\x00 is not valid";
    record.parameter(parameter(items::REASON), Value::String(reason)).unwrap();
    let (_directory, base) = with_event_metrics(Builder::named("escaped"))
        .metric_with(parameter(items::REASON), "mmv.agent.event.reason", "string instant")
        .row(2, [("mmv.agent.events", Cell::from(events.finish()))])
        .finish()
        .into_parts();
    let table = printed("events", &base, &[]);
    assert!(table.contains(r#"reason="name \x00 is not valid""#), "{table}");
}

#[test]
fn json_of_an_event_names_type_program_and_process() {
    let (_directory, base) = programs();
    let objects = printed("events", &base, &["mmv.shop", "--json"]);
    let objects: Vec<Json> = objects.lines().map(line).collect();
    assert_eq!(objects[1]["type"], json!("restarted"));
    assert_eq!(objects[1]["program"], json!("shop"));
    assert_eq!(objects[1]["pid"], json!(13));
    assert_eq!(objects[1]["time"], json!("2023-11-14T22:13:25.000000000Z"));
    assert_eq!(objects[1]["seconds"], json!(1_700_000_005.0));
    let fields: BTreeSet<&str> =
        objects[1].as_object().unwrap().keys().map(String::as_str).collect();
    let documented = documented("events --json");
    // Of records that stand for lost ones, and of growth.
    let others = ["missed", "added", "times", "until", "until_seconds"];
    let documented = documented.iter().map(String::as_str).filter(|field| !others.contains(field));
    assert_eq!(fields, documented.collect());
}

#[test]
fn a_window_is_given_by_its_usual_names() {
    let (_directory, base) = archive();
    let window = |start, end| {
        let times = [start, "2023-11-14 22:13:21", end, "2023-11-14 22:13:22", "-Z", "UTC"];
        printed("report", &base, &[&["acme.size", "--format", "csv"], &times[..]].concat())
    };
    let expected = window("--start", "--finish");
    assert_eq!(window("--since", "--until"), expected);
    assert_eq!(window("--from", "--to"), expected);
}

fn before_and_after_2038() -> TempDir {
    const START: i64 = 2_145_916_800;
    let directory = tempfile::tempdir().unwrap();
    let parameter = |item| Pmid::new(70, 0, item).unwrap();
    for (name, event_type, start, kinds) in [
        ("20371231.23.00", "event instant", START - 100, ["appeared", "vanished"]),
        ("20380101.00.00", "highres-event instant", START, ["appeared", "recovered"]),
    ] {
        let mut builder = Builder::in_directory(directory.path(), name)
            .metric_with(events_metric(), "mmv.agent.events", event_type)
            .metric_with(parameter(items::KIND), "mmv.agent.event.type", "string instant")
            .metric_with(parameter(items::FILE), "mmv.agent.event.file", "string instant")
            .metric("mmv.app.count", "u64 counter count");
        for (second, kind_of) in (0..).zip(kinds) {
            let time = Timestamp::new(start + second, 5_000).unwrap();
            let is_late = event_type.starts_with("highres");
            let mut events =
                if is_late { EventArrayBuilder::highres() } else { EventArrayBuilder::new() };
            let record = events.record(time, EventFlags::POINT).unwrap();
            let kind = Value::String(kind_of.as_bytes());
            record.parameter(parameter(items::KIND), kind).unwrap();
            record.parameter(parameter(items::FILE), Value::String(b"app")).unwrap();
            let cells: [(&str, Cell); 2] =
                [("mmv.agent.events", events.finish().into()), ("mmv.app.count", Cell::from(7))];
            builder = builder.row_at(time, cells);
        }
        let _finished = builder.finish();
    }
    directory
}

#[test]
fn events_of_both_types_are_one_timeline() {
    let directory = before_and_after_2038();
    let expected = "2037-12-31 23:58:20.000  appeared     file=app\n\
                    2037-12-31 23:58:21.000  vanished     file=app\n\
                    2038-01-01 00:00:00.000  appeared     file=app\n\
                    2038-01-01 00:00:01.000  recovered    file=app\n";
    assert_eq!(printed("events", directory.path(), &[]), expected);
    let events_of = |path: &Path| {
        let report = printed("report", path, &["mmv.app", "--events", "-S", "0s"]);
        let lines = report.lines().filter(|line| line.contains("  app "));
        lines.map(ToOwned::to_owned).collect::<Vec<_>>()
    };
    let reported = events_of(directory.path());
    let found: Vec<&str> = reported.iter().filter_map(|line| line.split("  app ").nth(1)).collect();
    assert_eq!(found, ["appeared", "vanished", "appeared", "recovered"]);
    printed("check", directory.path(), &[]);
    let out = directory.path().join("merged");
    let mut program = Command::new(env!("CARGO_BIN_EXE_mmv-archive"));
    let output = program.arg("extract").arg(directory.path()).arg("-o").arg(&out).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(printed("events", &out, &[]), expected);
    assert_eq!(events_of(&out), reported);
    printed("check", &out, &[]);
}

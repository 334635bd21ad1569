//! Event metrics in `dump`, `report` and `events`.

use std::path::{Path, PathBuf};
use std::process::Command;

use pcp_archive::event::{EventArrayBuilder, EventFlags};
use pcp_archive::{Pmid, Timestamp, Value};
use serde_json::{Value as Json, json};
use tempfile::TempDir;
use test_archives::{Builder, Cell};

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

/// What a run that must succeed prints.
fn printed(command: &str, base: &Path, arguments: &[&str]) -> String {
    let mut program = Command::new(env!("CARGO_BIN_EXE_mmv-archive"));
    let output = program.arg(command).arg(base).args(arguments).env("TZ", "UTC").output().unwrap();
    assert!(output.status.success(), "{command} {arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The only line, as JSON.
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
        { "time": [1_700_000_000, 5], "flags": 1, "parameters": parameters },
        { "time": [1_700_000_000, 7], "flags": 1_u32 << 31, "missed": 3, "parameters": [] },
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
        let mut program = Command::new(env!("CARGO_BIN_EXE_mmv-archive"));
        let output = program.arg("events").arg(&base).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(failure(&["acme.size"]).contains("none has events"));
}

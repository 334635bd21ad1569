//! Reports on files of mmv-writer, and on damaged files of the corpus.

use std::fs;

use mmv_format::layout::Header;
use mmv_writer::pcp::{IndomMetricExt as _, RegistryBuilderExt as _, RegistryExt as _};
use mmv_writer::{Counter, Label, Registry, Text, Units};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;

fn sample() -> (TempDir, Registry) {
    let dir = tempfile::tempdir().unwrap();
    let registry =
        Registry::builder("shop").sealed().directory(dir.path()).cluster(9).build().unwrap();
    registry.label(Label::new("team", "blue")).unwrap();
    let tills = registry.indom("tills").names(["left", "right"]).build().unwrap();
    let count: Counter<u64> =
        registry.counter("count").units(Units::count()).help("Things").build().unwrap();
    let open = registry.metric::<Counter<u32>>("open").build_instances(&tills).unwrap();
    let mood: Text = registry.text("mood").build().unwrap();
    count.add(5);
    open.by_name("right").unwrap().add(2);
    mood.set("\"fine\"");
    registry.publish().unwrap();
    (dir, registry)
}

fn text_of(report: &MmvReport) -> String {
    let mut out = Vec::new();
    print(report, false, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn json_of(report: &MmvReport) -> Value {
    let mut out = Vec::new();
    print(report, true, &mut out).unwrap();
    serde_json::from_slice(&out).unwrap()
}

#[test]
fn everything_in_a_sound_file_is_shown() {
    let (_dir, published) = sample();
    let report = inspect(published.path()).unwrap();
    assert_eq!(exit_code(&report), 0);
    let json = json_of(&report);
    assert_eq!(json["header"]["version"], 3);
    assert_eq!(json["header"]["flag_names"], json!(["PROCESS"]));
    assert_eq!(json["header"]["cluster"], 9);
    assert_eq!(json["metrics"][0]["complete_name"], "mmv.shop.count");
    assert_eq!(json["metrics"][0]["values"][0]["value"], 5);
    assert_eq!(json["metrics"][1]["values"][1]["value"], 2);
    assert_eq!(json["metrics"][2]["values"][0]["value"], "\"fine\"");
    assert_eq!(json["indoms"][0]["instances"][1]["name"], "right");
    assert_eq!(json["labels"][0]["name"], "team");
    let text = text_of(&report);
    for part in [
        "metric 1 mmv.shop.count: ",
        "  | Things\n",
        "\"right\"] 2\n",
        " \"\\\"fine\\\"\"\n",
        "cluster 9 team: \"blue\"",
        "\nsound\n",
    ] {
        assert!(text.contains(part), "{part:?} in {text}");
    }
}

#[test]
fn a_file_that_is_not_ready_is_refused_with_its_numbers() {
    let (dir, published) = sample();
    let mut bytes = fs::read(published.path()).unwrap();
    bytes[Header::GENERATION2..Header::GENERATION2 + 8].fill(0);
    let path = dir.path().join("unready");
    fs::write(&path, bytes).unwrap();
    let report = inspect(&path).unwrap();
    assert_eq!(exit_code(&report), 65);
    let refusal =
        format!("not ready: generation 1 is {}, generation 2 is 0", published.generation());
    assert!(text_of(&report).contains(&refusal));
    assert_eq!(json_of(&report)["header"]["generations"][1], 0);
}

#[test]
fn name_invalid_with_file_name_is_a_finding() {
    let (dir, published) = sample();
    let path = dir.path().join("my-shop");
    fs::copy(published.path(), &path).unwrap();
    let report = inspect(&path).unwrap();
    assert_eq!(exit_code(&report), 1);
    assert_eq!(report.misnamed.len(), 3);
    assert!(text_of(&report).contains("usable, 3 entries left out"));
}

#[test]
fn what_is_no_regular_file_is_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert_eq!(exit_code(&inspect(&fifo).unwrap()), 65);
    assert_eq!(exit_code(&inspect(dir.path()).unwrap()), 65);
    assert!(inspect(&dir.path().join("none")).is_err());
}

#[test]
fn the_damaged_files_of_the_corpus_get_their_verdicts() {
    let Some(bad) = test_corpus::directory("mmv/bad") else { return };
    let expected = fs::read_to_string(bad.join("EXPECTED.json")).unwrap();
    let expected: Vec<Value> = serde_json::from_str(&expected).unwrap();
    for case in &expected {
        let file = case["file"].as_str().unwrap();
        let report = inspect(&bad.join(file)).unwrap();
        let code = exit_code(&report);
        match case["verdict"].as_str().unwrap() {
            "reject" | "not-ready" => assert_eq!(code, 65, "{file}"),
            "skip-entry" => assert_ne!(code, 0, "{file}"),
            _ => {}
        }
        assert!(!text_of(&report).is_empty());
        assert_eq!(json_of(&report)["file"], bad.join(file).display().to_string());
    }
}

#[test]
fn a_file_that_is_no_mmv_file_has_no_header() {
    let report = inspect("/etc/passwd".as_ref()).unwrap();
    let text = text_of(&report);
    assert!(report.header.is_none() && report.toc.is_empty(), "{text}");
    assert!(text.contains("refused: not an MMV file: it begins with \"root\", expected"), "{text}");
    assert_eq!(exit_code(&report), 65);
    assert_eq!(text.lines().filter(|line| !line.is_empty()).count(), 2, "{text}");
}

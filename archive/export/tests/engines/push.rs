//! The samples that engines have after `mmv-export push`, read back one by one.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use super::engine::{Engine, encoded, program, suites};
use super::rotel::{self, Rotel};
use crate::archives::{START, shop};
use crate::push::receiver::Row;
use crate::push::sender::{Sent, messages, printed, set};
use crate::server::get;

/// Lets samples in that are older than others.
pub(super) const WINDOW: &str = "storage:\n  tsdb:\n    out_of_order_time_window: 24h\n";
pub(super) const RECEIVER: &[&str] = &["--web.enable-remote-write-receiver"];

/// Returns a time ago, in whole ten seconds since 1970.
pub(super) fn ago(seconds: i64) -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
    (now - seconds) / 10 * 10
}

fn is_long() -> bool {
    std::env::var_os("MMV_LONG").is_some()
}

/// Returns the newest version, and all in the long form.
fn versions(package: &str) -> Vec<String> {
    suites(package).into_iter().take(if is_long() { 9 } else { 1 }).collect()
}

fn labels(metric: &Value) -> Vec<(String, String)> {
    let pairs = metric.as_object().unwrap().iter();
    let mut labels: Vec<(String, String)> =
        pairs.map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned())).collect();
    labels.sort();
    labels
}

fn in_victoria_metrics(address: SocketAddr) -> Vec<Row> {
    assert_eq!(get(address, "/internal/force_flush", &[]).status, 200);
    let query = encoded("{__name__=~\".*shop.*\"}");
    let answer = get(address, &format!("/api/v1/export?match[]={query}"), &[]);
    let mut rows = Vec::new();
    for line in answer.text().lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let labels = labels(&line["metric"]);
        let times = line["timestamps"].as_array().unwrap().iter();
        for (time, value) in times.zip(line["values"].as_array().unwrap()) {
            if let Some(value) = value.as_f64() {
                rows.push((labels.clone(), time.as_i64().unwrap(), value.to_bits()));
            }
        }
    }
    rows.sort();
    rows
}

fn in_prometheus(address: SocketAddr, hours: u32) -> Vec<Row> {
    let query = encoded(&format!("{{__name__=~\".*shop.*\"}}[{hours}h]"));
    let answer = get(address, &format!("/api/v1/query?query={query}&time={}", ago(-10)), &[]);
    let value: Value = serde_json::from_str(answer.text()).unwrap();
    assert_eq!(value["status"], "success", "{value}");
    let mut rows = Vec::new();
    for series in value["data"]["result"].as_array().unwrap() {
        let labels = labels(&series["metric"]);
        for pair in series["values"].as_array().unwrap() {
            let time = (pair[0].as_f64().unwrap() * 1_000.0).round() as i64;
            let value: f64 = pair[1].as_str().unwrap().parse().unwrap();
            rows.push((labels.clone(), time, value.to_bits()));
        }
    }
    rows.sort();
    rows
}

#[track_caller]
fn assert_equal(found: &[Row], expected: &[Row]) {
    let differ = found.iter().zip(expected).find(|(found, expected)| found != expected);
    assert!(differ.is_none(), "{differ:?}");
    assert_eq!(found.len(), expected.len());
}

/// Runs senders that are killed, and one that is not. Returns how many were killed.
fn push_with_kills(sent: &Sent, url: &str, kills: u64) -> usize {
    let mut killed = 0;
    for kill in 0..kills {
        let mut child = sent.start(url, &[]);
        std::thread::sleep(Duration::from_millis(100 + kill * 137 % 500));
        killed += usize::from(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let output = sent.push_to(url, &[]);
    assert!(output.status.success(), "{}", messages(&output));
    killed
}

const fn series() -> u32 {
    1_000
}

fn kills() -> u64 {
    if is_long() { 100 } else { 20 }
}

#[test]
#[ignore = "needs the engines that ci/engines fetches"]
fn victoria_metrics_has_every_sample_of_killed_senders() {
    for engine in versions("victoria-metrics") {
        let Some(program) = program(&engine, "victoria-metrics") else { return };
        let place = tempfile::tempdir().unwrap();
        let victoria = Engine::victoria_metrics(&program, &place.path().join("victoria"));
        let url = format!("http://{}/api/v1/write", victoria.address);
        let sent = Sent::since(ago(3_600), series(), 360);
        let output = sent.push_to(&url, &[]);
        assert!(output.status.success(), "{}", messages(&output));
        assert!(printed(&output).starts_with("sent 360000 samples"), "{}", printed(&output));
        let expected = sent.expected();
        assert_equal(&in_victoria_metrics(victoria.address), &expected);
        drop(victoria);
        let victoria = Engine::victoria_metrics(&program, &place.path().join("killed"));
        std::fs::remove_dir_all(sent.state()).unwrap();
        let url = format!("http://{}/api/v1/write", victoria.address);
        let killed = push_with_kills(&sent, &url, kills());
        let mut found = in_victoria_metrics(victoria.address);
        // What was sent last is found a moment later on a busy machine.
        let until = Instant::now() + Duration::from_secs(10);
        while found.len() < expected.len() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(100));
            found = in_victoria_metrics(victoria.address);
        }
        assert!(found.len() >= expected.len(), "{} of {}", found.len(), expected.len());
        assert!(found.len() <= expected.len() + killed * 10_000, "{} {killed}", found.len());
        eprintln!("{killed} killed, {} doubles", found.len() - expected.len());
        assert_equal(&set(found), &expected);
    }
}

#[test]
#[ignore = "needs the engines that ci/engines fetches"]
fn prometheus_has_every_sample_also_of_senders_that_were_killed() {
    for engine in versions("prometheus") {
        let Some(program) = program(&engine, "prometheus") else { return };
        // Without a window a request that was stored is refused the second time.
        for configuration in [WINDOW, ""] {
            let place = tempfile::tempdir().unwrap();
            let prometheus =
                Engine::prometheus_with(&program, place.path(), configuration, RECEIVER);
            let url = format!("http://{}/api/v1/write", prometheus.address);
            let sent = Sent::since(ago(3_600), series(), 360);
            let killed = push_with_kills(&sent, &url, kills());
            eprintln!("{killed} killed");
            assert_equal(&in_prometheus(prometheus.address, 2), &sent.expected());
        }
    }
}

/// Kills a receiver with each of some pauses while a sender sends to it, and starts it again at
/// the same address. Returns it, and how often it was killed.
fn kill_receiver(
    sent: &Sent,
    mut receiver: Engine,
    path: &str,
    kill: impl Fn(Engine),
    start: impl Fn(SocketAddr) -> Engine,
) -> (Engine, u32) {
    let address = receiver.address;
    let mut child = sent.start(&format!("http://{address}{path}"), &[]);
    let mut kills = 0;
    // A batch takes some milliseconds: the kills are at any point of one.
    for pause in [50, 83, 67, 91, 113].map(Duration::from_millis) {
        std::thread::sleep(pause);
        if child.try_wait().unwrap().is_some() {
            break;
        }
        kill(receiver);
        receiver = start(address);
        kills += 1;
    }
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", messages(&output));
    (receiver, kills)
}

#[test]
#[ignore = "needs the engines that ci/engines fetches"]
fn prometheus_has_every_sample_also_if_it_was_killed() {
    for engine in versions("prometheus") {
        let Some(program) = program(&engine, "prometheus") else { return };
        for configuration in [WINDOW, ""] {
            let place = tempfile::tempdir().unwrap();
            let prometheus =
                Engine::prometheus_with(&program, place.path(), configuration, RECEIVER);
            let sent = Sent::since(ago(3_600), series(), 360);
            let (prometheus, kills) =
                kill_receiver(&sent, prometheus, "/api/v1/write", drop, |address| {
                    Engine::prometheus_at(&program, place.path(), configuration, RECEIVER, address)
                });
            eprintln!("{kills} killed");
            assert!(kills > 1, "{kills}");
            assert_equal(&in_prometheus(prometheus.address, 2), &sent.expected());
        }
    }
}

/// It answers before samples are in a file, so one that is killed loses what it answered in the
/// last seconds.
#[test]
#[ignore = "needs the engines that ci/engines fetches"]
fn victoria_metrics_has_every_sample_also_if_it_was_restarted() {
    for engine in versions("victoria-metrics") {
        let Some(program) = program(&engine, "victoria-metrics") else { return };
        let place = tempfile::tempdir().unwrap();
        let start = |address| Engine::victoria_metrics_at(&program, place.path(), address);
        let victoria = Engine::victoria_metrics(&program, place.path());
        let sent = Sent::since(ago(3_600), series(), 360);
        let (victoria, restarts) =
            kill_receiver(&sent, victoria, "/api/v1/write", Engine::stop, start);
        eprintln!("{restarts} restarts");
        assert!(restarts > 1, "{restarts}");
        let expected = sent.expected();
        assert_equal(&set(in_victoria_metrics(victoria.address)), &expected);
        let address = victoria.address;
        victoria.stop();
        let victoria = start(address);
        // What a killed one has lost goes again with a new state.
        let more = Sent::since(ago(7_200), series(), 60);
        let url = format!("http://{address}/api/v1/write");
        assert!(more.push_to(&url, &[]).status.success());
        drop(victoria);
        let victoria = start(address);
        let both = set([expected, more.expected()].concat());
        eprintln!("{} lost", both.len() - set(in_victoria_metrics(address)).len());
        std::fs::remove_dir_all(more.state()).unwrap();
        assert!(more.push_to(&url, &[]).status.success());
        assert_equal(&set(in_victoria_metrics(victoria.address)), &both);
    }
}

#[test]
#[ignore = "needs the engines that ci/engines fetches"]
fn samples_of_an_outage_are_held_until_the_window_lets_them_in() {
    for engine in versions("prometheus") {
        let Some(program) = program(&engine, "prometheus") else { return };
        let place = tempfile::tempdir().unwrap();
        // Another sender went on.
        let other = Sent::since(ago(60), 10, 6);
        let outage = Sent::since(ago(3 * 3_600), 10, 360);
        let prometheus = Engine::prometheus_with(&program, place.path(), "", RECEIVER);
        let url = format!("http://{}/api/v1/write", prometheus.address);
        assert!(other.push_to(&url, &[]).status.success());
        let output = outage.push_to(&url, &[]);
        assert_eq!(output.status.code(), Some(75), "{}", messages(&output));
        assert!(messages(&output).contains("out_of_order_time_window"), "{}", messages(&output));
        let address = prometheus.address;
        assert_eq!(in_prometheus(address, 4).len(), 60);
        drop(prometheus);
        let prometheus = Engine::prometheus_at(&program, place.path(), WINDOW, RECEIVER, address);
        let output = outage.push_to(&url, &[]);
        assert!(output.status.success(), "{}", messages(&output));
        let expected = set([outage.expected(), other.expected()].concat());
        assert_equal(&in_prometheus(prometheus.address, 4), &expected);
    }
}

#[test]
#[ignore = "needs the engines that ci/engines fetches"]
fn remote_write_2_0_reaches_prometheus_and_stops_at_others() {
    let Some(prometheus) = program("prometheus@sid", "prometheus") else { return };
    let Some(victoria) = program("victoria-metrics@sid", "victoria-metrics") else { return };
    let place = tempfile::tempdir().unwrap();
    let sent = Sent::since(ago(3_600), 10, 360);
    let version_2 = "--web.remote-write-receiver.accepted-protobuf-messages=\
                     io.prometheus.write.v2.Request";
    let options = [RECEIVER, &[version_2]].concat();
    let engine = Engine::prometheus_with(&prometheus, place.path(), WINDOW, &options);
    let url = format!("http://{}/api/v1/write", engine.address);
    let output = sent.push_to(&url, &["--protocol", "2.0"]);
    assert!(output.status.success(), "{}", messages(&output));
    assert_equal(&in_prometheus(engine.address, 2), &sent.expected());
    let engine = Engine::victoria_metrics(&victoria, &place.path().join("victoria"));
    let url = format!("http://{}/api/v1/write", engine.address);
    std::fs::remove_dir_all(sent.state()).unwrap();
    let output = sent.push_to(&url, &["--protocol", "2.0"]);
    assert_eq!(output.status.code(), Some(76), "{}", messages(&output));
}

/// Samples by name, labels with `le` as a number, and time.
type ByPlace = BTreeMap<(Vec<(String, String)>, i64), u64>;

fn by_place(rows: Vec<Row>) -> ByPlace {
    rows.into_iter()
        .map(|(mut labels, time, value)| {
            for (name, value) in &mut labels {
                if name == "le" && value != "+Inf" {
                    *value = value.parse::<f64>().unwrap().to_string();
                }
            }
            ((labels, time), value)
        })
        .collect()
}

/// Sends the tree beside a place, in which the state is.
fn push(url: &str, protocol: &str, place: &Path) {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_mmv-export"))
        .args(["push", "--url", url, "--protocol", protocol, "--state"])
        .args([place.join("state"), place.join("../tree")])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", messages(&output));
}

fn shop_by(program: &Path, place: &Path, path: &str, protocol: &str) -> ByPlace {
    let victoria = Engine::victoria_metrics(program, place);
    push(&format!("http://{}{path}", victoria.address), protocol, place);
    by_place(in_victoria_metrics(victoria.address))
}

#[test]
#[ignore = "needs the engines that ci/engines fetches"]
fn otlp_gives_victoria_metrics_the_samples_of_remote_write() {
    let engines: Vec<String> =
        versions("victoria-metrics").into_iter().filter(|one| !one.ends_with("bookworm")).collect();
    for engine in engines {
        let Some(program) = program(&engine, "victoria-metrics") else { return };
        let place = tempfile::tempdir().unwrap();
        shop(&place.path().join("tree/web1/a"), 3);
        let written = shop_by(&program, &place.path().join("one"), "/api/v1/write", "1.0");
        let otlp =
            shop_by(&program, &place.path().join("two"), "/opentelemetry/v1/metrics", "otlp");
        for (place, value) in &otlp {
            assert_eq!(written.get(place), Some(value), "{place:?}");
        }
        // Zeros at a restart are start times, and buckets have no value before they are hit.
        let missing: Vec<_> =
            written.iter().filter(|(place, _)| !otlp.contains_key(*place)).collect();
        assert!(otlp.len() > 3_000, "{}", otlp.len());
        for ((labels, time), value) in missing {
            let is_bucket = labels.iter().any(|(name, _)| name == "le");
            assert!(is_bucket || f64::from_bits(*value) == 0.0, "{labels:?} {time}");
        }
    }
}

#[test]
#[ignore = "needs the engines that ci/engines fetches"]
fn rotel_receives_the_points_that_victoria_metrics_has() {
    let Some(victoria) = program("victoria-metrics@sid", "victoria-metrics") else { return };
    let Some(program) = rotel::program() else { return };
    let place = tempfile::tempdir().unwrap();
    shop(&place.path().join("tree/web1/a"), 3);
    let stored = shop_by(&victoria, &place.path().join("one"), "/opentelemetry/v1/metrics", "otlp");
    let rotel = Rotel::start(&program, &place.path().join("two"));
    push(&format!("http://{}/v1/metrics", rotel.address), "otlp", &place.path().join("two"));
    let mut points = rotel.points(stored.len());
    let lost: Vec<_> = stored.keys().filter(|place| !points.values.contains_key(*place)).collect();
    assert!(lost.is_empty(), "{lost:?}");
    // It does not show that a point has no recorded value, as at the mark.
    let mark = (START + 2_000) * 1_000;
    points.values.retain(|(_, time), value| *time != mark || *value != 0.0);
    let more: Vec<_> = points.values.keys().filter(|place| !stored.contains_key(*place)).collect();
    assert!(more.is_empty(), "{more:?}");
    for (place, value) in &points.values {
        // VictoriaMetrics keeps decimal digits.
        let other = f64::from_bits(stored[place]);
        assert!((value - other).abs() <= 1e-12 * other.abs(), "{place:?}: {value}, not {other}");
    }
    // The shop is restarted 995 s after its first record.
    let restart = (START + 995) * 1_000_000_000;
    assert!(points.starts.contains(&restart), "{:?}", points.starts);
}

fn commands(page: &str) -> Vec<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/engines").join(page);
    let text = std::fs::read_to_string(file).unwrap();
    let blocks = text.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let lines: Vec<String> = blocks
        .flat_map(|block| block.replace("\\\n", " ").lines().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    assert!(lines.iter().all(|line| line.starts_with("mmv-export push ")), "{lines:?}");
    lines
}

#[test]
#[ignore = "needs the engines that ci/engines fetches"]
fn the_commands_of_the_pages_do_what_the_pages_say() {
    let Some(prometheus) = program("prometheus@sid", "prometheus") else { return };
    let Some(victoria) = program("victoria-metrics@sid", "victoria-metrics") else { return };
    let place = tempfile::tempdir().unwrap();
    let sent = Sent::since(ago(600), 10, 60);
    let prometheus =
        Engine::prometheus_with(&prometheus, &place.path().join("one"), WINDOW, RECEIVER);
    let victoria = Engine::victoria_metrics(&victoria, &place.path().join("two"));
    let mut run = 0;
    for command in ["remote-write.md", "otlp.md"].into_iter().flat_map(commands) {
        let command = command
            .replace("127.0.0.1:9090", &prometheus.address.to_string())
            .replace("127.0.0.1:8428", &victoria.address.to_string())
            .replace("/var/lib", place.path().to_str().unwrap())
            .replace("/var/log/mmv-agent", sent.archives().to_str().unwrap());
        let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_mmv-export"))
            .args(command.split_whitespace().skip(1))
            .spawn()
            .unwrap();
        if command.contains("--follow") {
            std::thread::sleep(Duration::from_millis(500));
            let id = child.id().to_string();
            assert!(std::process::Command::new("kill").arg(id).status().unwrap().success());
        }
        assert!(child.wait().unwrap().success(), "{command}");
        run += 1;
    }
    assert_eq!(run, 4);
    assert_equal(&in_prometheus(prometheus.address, 1), &sent.expected());
    assert_equal(&set(in_victoria_metrics(victoria.address)), &sent.expected());
}

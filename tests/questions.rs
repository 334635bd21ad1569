//! The questions of the README, each a command, on a program that is killed and started
//! again: the answers are computed once more from the program's own log.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

use crate::harness::agent::Agent;
use crate::harness::binaries;
use crate::harness::scratch::Scratch;
use crate::harness::wait;

const RUN: Duration = Duration::from_secs(4);
const AWAY: Duration = Duration::from_secs(2);
/// Seconds that the last sample of a killed program can lack: requests of one interval of the
/// agent, and the delays of a busy machine.
const LATE: f64 = 0.25;
/// Limit on the relative error: half a bucket at a precision of 4.
const HALF_BUCKET: f64 = 1.0 / 32.0;

#[derive(Debug, Clone)]
struct Request {
    time: f64,
    endpoint: String,
    nanoseconds: u64,
}

struct Story {
    scratch: Scratch,
    archive: PathBuf,
    before: Vec<Request>,
    after: Vec<Request>,
}

impl Story {
    fn record() -> Self {
        let scratch = Scratch::new();
        let mut agent = Agent::start_with(&scratch, &["--interval", "50ms", "--events", "true"]);
        let [first, second] = ["before", "after"].map(|name| scratch.path().join(name));
        let mut program = start(&scratch, &first);
        sleep(RUN);
        program.kill().expect("kill the program");
        program.wait().expect("the end of the program");
        sleep(AWAY);
        let mut program = start(&scratch, &second);
        sleep(RUN);
        program.kill().expect("kill the program");
        program.wait().expect("the end of the program");
        // The agent logs the last values of a program that ended.
        agent.wait_for("the end of the program", |base| ended(base) == 2);
        assert!(agent.terminate().success());
        let archive = agent.archive();
        Self { before: requests(&first), after: requests(&second), archive, scratch }
    }
}

fn start(scratch: &Scratch, log: &Path) -> Child {
    let example = binaries::example("endpoints");
    let mut command = Command::new(example);
    command.arg(log).arg("600").env("PCP_TMP_DIR", scratch.tmp_dir());
    let program = command.spawn().expect("start the program");
    wait::until_true("requests", || fs::metadata(log).is_ok_and(|log| log.len() > 0));
    program
}

fn ended(base: &Path) -> usize {
    // There is no archive yet, or no event in it.
    let text = String::from_utf8(answer(&["events", path(base), "--json"]).stdout);
    let events = text.expect("UTF-8");
    let events = events.lines().map(|line| serde_json::from_str(line).expect("JSON"));
    events.filter(|event| is_event(event, "ended")).count()
}

fn is_event(event: &Value, kind: &str) -> bool {
    let parameters = event["parameters"].as_array().expect("parameters");
    let has = |value: &str| parameters.iter().any(|parameter| parameter["value"] == value);
    has("endpoints") && has(kind)
}

fn requests(log: &Path) -> Vec<Request> {
    let text = fs::read_to_string(log).expect("the log");
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole
        .lines()
        .map(|line| {
            let mut words = line.split(' ');
            let mut next = || words.next().expect("three words");
            let time = next().parse::<u64>().expect("a time") as f64 / 1e9;
            let endpoint = next().to_owned();
            Request { time, endpoint, nanoseconds: next().parse().expect("a duration") }
        })
        .collect()
}

fn path(path: &Path) -> &str {
    path.to_str().expect("a UTF-8 path")
}

fn run(arguments: &[&str]) -> String {
    let output = answer(arguments);
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {}: {complaints}", output.status);
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn answer(arguments: &[&str]) -> Output {
    let mut command = Command::new(binaries::mmv_archive());
    command.args(arguments).env("TZ", "UTC").output().expect("start mmv-archive")
}

fn json(arguments: &[&str]) -> Vec<Value> {
    let text = run(&[arguments, &["--json"]].concat());
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// Returns the seconds since 1970 of `[seconds, nanoseconds]`.
fn quantile(requests: &[Request], quantile: f64) -> f64 {
    let mut all: Vec<_> = requests.iter().map(|request| request.nanoseconds).collect();
    all.sort_unstable();
    let rank = (quantile * all.len() as f64).ceil() as usize;
    all[rank.max(1) - 1] as f64
}

/// Fails unless `found` lies between the values of two quantiles, half a bucket wider.
fn assert_quantile(what: &str, found: f64, requests: &[Request], [low, high]: [f64; 2]) {
    let low = quantile(requests, low) * (1.0 - HALF_BUCKET);
    let high = quantile(requests, high) * (1.0 + HALF_BUCKET);
    assert!((low..=high).contains(&found), "{what}: {found} ns, not {low} to {high}");
}

#[test]
fn the_questions_of_the_readme_have_right_answers() {
    let story = Story::record();
    p99_of_the_last_minute(&story);
    rate_before_and_after_the_restart(&story);
    busiest_endpoint(&story);
    when_did_it_restart(&story);
    plot_it(&story);
}

fn p99_of_the_last_minute(story: &Story) {
    let archive = path(&story.archive);
    let metric = "mmv.endpoints.latency";
    let all = [story.before.clone(), story.after.clone()].concat();
    let lines =
        json(&["report", archive, "--last", "1m", "-t", "1m", metric, "--quantile", "0.99"]);
    let values: Vec<_> = lines.iter().filter_map(|line| line["value"].as_f64()).collect();
    assert_eq!(values.len(), 1, "{lines:?}");
    // Requests of the interval in which the program was killed are in no sample.
    assert_quantile("both runs", values[0], &all, [0.988, 0.992]);
}

fn rate_before_and_after_the_restart(story: &Story) {
    let arguments = ["report", path(&story.archive), "-t", "1s", "mmv.endpoints.requests"];
    let rates = json(&[&arguments[..], &["--rate"]].concat());
    let mut compared = [0, 0];
    for line in rates.iter().filter(|line| line["instance"] == "search") {
        let Some(rate) = line["value"].as_f64() else { continue };
        let end = line["seconds"].as_f64().expect("a time");
        for (run, compared) in [&story.before, &story.after].into_iter().zip(&mut compared) {
            let (first, last) = (run[0].time, run[run.len() - 1].time);
            // Seconds that lie within a run.
            if end - 1.0 < first + LATE || end > last - LATE {
                continue;
            }
            let expected = run
                .iter()
                .filter(|request| {
                    request.endpoint == "search" && (end - 1.0..end).contains(&request.time)
                })
                .count() as f64;
            assert!((rate - expected).abs() <= 2.0 + expected / 20.0, "{rate} not {expected}");
            *compared += 1;
        }
    }
    assert!(compared.iter().all(|count| *count >= 2), "{compared:?}: {rates:?}");
    let table = run(&[&arguments[..], &["--events"]].concat());
    let restarts = table.lines().filter(|line| line.contains("restarted"));
    assert_eq!(restarts.count(), 1, "{table}");
}

fn busiest_endpoint(story: &Story) {
    let mut counts = BTreeMap::new();
    for request in story.before.iter().chain(&story.after) {
        *counts.entry(&*request.endpoint).or_insert(0_u32) += 1;
    }
    let busiest = counts.iter().max_by_key(|(_, count)| **count).expect("an endpoint").0;
    let top = ["--sort", "rate", "--top", "1", "mmv.endpoints.requests"];
    let lines = json(&[&["summary", path(&story.archive)][..], &top].concat());
    let names: Vec<_> = lines.iter().filter_map(|line| line["instance"].as_str()).collect();
    assert_eq!(names, [*busiest]);
}

fn when_did_it_restart(story: &Story) {
    let events = json(&["events", path(&story.archive)]);
    let at = |kind: &str| {
        let events = events.iter().filter(|event| is_event(event, kind));
        events.map(|event| event["seconds"].as_f64().expect("a time")).collect::<Vec<_>>()
    };
    let [restarted] = at("restarted")[..] else { panic!("{events:?}") };
    let begin = story.after[0].time;
    assert!((restarted - begin).abs() < 1.0, "{restarted}, started at {begin}");
    let ended = at("ended")[0];
    let end = story.before[story.before.len() - 1].time;
    assert!((ended - end).abs() < 1.0, "{ended}, ended at {end}");
}

fn plot_it(story: &Story) {
    let file = story.scratch.path().join("latency.svg");
    run(&["plot", path(&story.archive), "mmv.endpoints.latency", "-o", path(&file)]);
    let svg = fs::read_to_string(&file).expect("a plot");
    assert!(svg.contains("p99") && svg.contains("<polyline"), "{svg}");
}

//! An incident in a program that the commands know nothing of: three commands, without options but
//! a time, say which endpoint it was, when it began and ended, and how slow it was. The truth is
//! the program's own log.

use std::fs;
use std::ops::Range;
use std::path::Path;
use std::process::Command;

use crate::harness::agent::Agent;
use crate::harness::binaries;
use crate::harness::scratch::Scratch;

const SPANS: [&str; 3] = ["5", "4", "4"];
/// Limit on the error of a time: the rows of the report are a second or two apart.
const MAX_LATE: f64 = 2.5;
/// Limit on the relative error of a quantile: a bucket at a precision of 3.
const BUCKET: f64 = 1.0 / 8.0;

struct Job {
    /// Seconds of the day in UTC.
    time: f64,
    endpoint: String,
    code: u16,
    milliseconds: f64,
}

fn jobs(log: &Path) -> Vec<Job> {
    let text = fs::read_to_string(log).expect("the log");
    let job = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let [time, endpoint, code, duration] = words[..] else { panic!("four words: {line}") };
        let nanos = |text: &str| text.parse::<u64>().expect("a number") as f64;
        Job {
            time: nanos(time) / 1e9 % 86_400.0,
            endpoint: endpoint.to_owned(),
            code: code.parse().expect("a code"),
            milliseconds: nanos(duration) / 1e6,
        }
    };
    text.lines().map(job).collect()
}

fn printed(arguments: &[&str]) -> String {
    let mut command = Command::new(binaries::mmv_archive());
    command.args(arguments).env("TZ", "UTC").env("COLUMNS", "80");
    let output = command.output().expect("start mmv-archive");
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let widest = text.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(80), "{text}");
    text
}

/// Returns the lines of a summary for the endpoints of a metric, by words.
fn endpoints<'t>(summary: &'t str, metric: &str) -> Vec<Vec<&'t str>> {
    let below = summary.lines().skip_while(|line| !line.starts_with(metric)).skip(1);
    let below = below.take_while(|line| line.starts_with(' '));
    below.map(|line| line.split_whitespace().collect()).collect()
}

fn column(summary: &str, head: &str) -> usize {
    let heads = summary.lines().nth(1).expect("heads");
    // The name has no head.
    1 + heads.split_whitespace().position(|one| one == head).expect("the head")
}

fn number(text: &str) -> f64 {
    text.parse().expect("a number")
}

/// Returns the second of the day and the value of each row of a report that has one, of a metric's
/// instance.
fn series(report: &str, metric: &str, instance: &str) -> Vec<(f64, f64)> {
    let panels = report.split("\n\n");
    let found = panels.filter_map(|panel| {
        let lines: Vec<Vec<&str>> =
            panel.lines().map(|line| line.split_whitespace().collect()).collect();
        let instances = lines.iter().position(|words| words.contains(&instance))?;
        let mut columns = lines[instances - 1].iter().zip(&lines[instances]);
        let place = columns.position(|(name, one)| *name == metric && *one == instance)?;
        Some((lines, place))
    });
    let mut found: Vec<_> = found.collect();
    assert_eq!(found.len(), 1, "{report}");
    let (lines, place) = found.remove(0);
    let rows = lines.into_iter().filter(|words| words.first().is_some_and(|one| one.contains(':')));
    let value = |words: Vec<&str>| {
        let clock: Vec<f64> = words[0].split(':').map(number).collect();
        let value = words[place + 1].parse().ok()?;
        Some((clock[0] * 3600.0 + clock[1] * 60.0 + clock[2], value))
    };
    rows.filter_map(value).collect()
}

fn clock(seconds: f64) -> String {
    let seconds = seconds as u64;
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// Returns the milliseconds of the slow endpoint's jobs in a time.
fn durations(jobs: &[Job], time: Range<f64>) -> Vec<f64> {
    let within = jobs.iter().filter(|job| job.endpoint == "/render" && time.contains(&job.time));
    within.map(|job| job.milliseconds).collect()
}

fn quantile(durations: &mut [f64], rank: f64) -> f64 {
    durations.sort_by(f64::total_cmp);
    durations[((rank * durations.len() as f64).ceil() as usize).clamp(1, durations.len()) - 1]
}

#[test]
fn three_commands_find_endpoint_times_and_factor_of_an_incident() {
    let scratch = Scratch::new();
    // Built before the agent begins, so that the archive has the program alone.
    let jobs_program = binaries::example("jobs");
    let mut agent = Agent::start_with(&scratch, &["--interval", "100ms", "--events", "true"]);
    let log = scratch.path().join("jobs.log");
    let mut program = Command::new(jobs_program);
    program.arg(&log).args(SPANS).env("PCP_TMP_DIR", scratch.tmp_dir());
    assert!(program.status().expect("run the program").success());
    assert!(agent.terminate().success());
    let archive = agent.archive();
    let archive = archive.to_str().expect("a UTF-8 path");
    let jobs = jobs(&log);
    let failed = |job: &&Job| job.code == 503;
    let begin = jobs.iter().find(failed).expect("a failure").time;
    let end = jobs.iter().rfind(failed).expect("a failure").time;

    // Which endpoint? The failures are the first line of a metric, and the slowest is seen.
    let summary = printed(&["summary", archive]);
    let first = &endpoints(&summary, "jobs")[0];
    assert_eq!(first[0], "/render,503", "{summary}");
    let p99 = column(&summary, "p99");
    let latencies = endpoints(&summary, "latency");
    let slowest = latencies.iter().max_by(|a, b| number(a[p99]).total_cmp(&number(b[p99])));
    assert_eq!(slowest.expect("an endpoint")[0], "/render", "{summary}");

    // When, and how much slower? The median tells the times of all jobs from those of some.
    let report = printed(&["report", archive, "mmv.jobs.latency"]);
    let medians = series(&report, "latency.p50", "[/render]");
    let all = medians.iter().map(|(_, value)| *value);
    let limit = 3.0 * quantile(&mut all.collect::<Vec<f64>>(), 0.5);
    let is_slow = |(_, value): &(f64, f64)| *value > limit;
    let (slow, calm): (Vec<_>, Vec<_>) = medians.into_iter().partition(is_slow);
    let slow: Vec<f64> = slow.into_iter().map(|(at, _)| at).collect();
    let mut calm: Vec<f64> = calm.into_iter().map(|(_, value)| value).collect();
    let usual = quantile(&mut calm, 0.5);
    let found = (slow[0], *slow.last().expect("slow seconds"));
    assert!((found.0 - begin).abs() < MAX_LATE, "{found:?} of {begin}..{end}: {report}");
    assert!((found.1 - end).abs() < MAX_LATE, "{found:?} of {begin}..{end}: {report}");

    // The incident as a whole, by its times.
    let window = [clock(begin.ceil()), clock(end)];
    let summary =
        printed(&["summary", archive, "mmv.jobs", "--since", &window[0], "--until", &window[1]]);
    let latencies = endpoints(&summary, "latency");
    let found = latencies.iter().find(|words| words[0] == "/render").expect("the endpoint");
    let mut slow = durations(&jobs, begin.ceil()..end.floor());
    let mut calm = durations(&jobs, 0.0..begin.floor());
    // Of the jobs at both ends of the window it is unknown on which side the sample had them.
    let mut around = durations(&jobs, begin.ceil() - 1.0..end.floor() + 1.0);
    let least = quantile(&mut slow, 0.95) * (1.0 - BUCKET);
    let most = quantile(&mut around, 1.0) * (1.0 + BUCKET);
    let p99 = number(found[column(&summary, "p99")]);
    assert!((least..=most).contains(&p99), "{p99} of {least}..{most}: {summary}");
    let factor = number(found[column(&summary, "p50")]) / usual;
    let truth = quantile(&mut slow, 0.5) / quantile(&mut calm, 0.5);
    assert!((factor / truth - 1.0).abs() < 2.0 * BUCKET, "{factor} of {truth}: {summary}");
}

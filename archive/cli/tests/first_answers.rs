//! What commands answer without options: what a person would look at first, on one screen.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;
use test_archives::{Builder, Cell};

use crate::incident;

/// Runs a command on a terminal of 24 lines and 80 columns; returns its output and what it says.
fn on_terminal(arguments: &[&str], base: &Path) -> (String, String) {
    let mut program = Command::new(env!("CARGO_BIN_EXE_mmv-archive"));
    let (command, arguments) = arguments.split_first().unwrap();
    program.arg(command).arg(base).args(arguments).env("TZ", "UTC");
    let output = program.env("LINES", "24").env("COLUMNS", "80").output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr))
}

/// A program with three endpoints and more metrics than a screen has room for.
fn web() -> (TempDir, PathBuf) {
    let endpoints = ["/cart", "/pay", "/search"];
    let sums = endpoints.map(|endpoint| format!("endpoint={endpoint}"));
    let buckets = endpoints.map(|endpoint| format!("endpoint={endpoint},bucket=4096..6143"));
    let mut builder = Builder::named("web")
        .metric("mmv.web.latency.bucket", "u64 counter count")
        .metric("mmv.web.latency.sum", "u64 counter microsec")
        .metric("mmv.web.requests", "u64 counter count")
        .metric("mmv.web.memory", "u64 instant byte")
        .metric("mmv.web.queue", "u32 instant")
        .instances("mmv.web.latency.bucket", buckets.iter().map(String::as_str))
        .instances("mmv.web.latency.sum", sums.iter().map(String::as_str))
        .labels("mmv.web.latency.bucket", &[("histogram", "microsec")]);
    for second in 0..600_u64 {
        let mut cells = vec![
            ("mmv.web.requests".to_owned(), 30 * second),
            ("mmv.web.memory".to_owned(), 1_000_000 + second),
            ("mmv.web.queue".to_owned(), second % 5),
        ];
        for (bucket, sum) in buckets.iter().zip(&sums) {
            cells.push((format!("mmv.web.latency.bucket[{bucket}]"), 10 * second));
            cells.push((format!("mmv.web.latency.sum[{sum}]"), 50_000 * second));
        }
        builder = builder.row(second, cells);
    }
    builder.finish().into_parts()
}

#[test]
fn the_first_panel_of_a_program_has_rate_and_p99_of_each_endpoint() {
    let (_directory, base) = web();
    let (table, note) = on_terminal(&["report", "mmv.web"], &base);
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines.len() <= 22, "{table}");
    let words: Vec<&str> = lines[1].split_whitespace().collect();
    assert_eq!(words[..3], ["latency"; 3], "{table}");
    assert_eq!(words[3..], ["latency.p99"; 3], "{table}");
    assert!(!table.contains("\n\n"), "one panel: {table}");
    assert!(note.contains("no room for mmv.web.requests, "), "{note}");
    assert!(note.contains("more of mmv.web.latency"), "{note}");
    assert!(note.contains("name them to see them"), "{note}");
    let (named, note) = on_terminal(&["report", "mmv.web.latency"], &base);
    assert!(named.contains("[/search]") && named.contains("p50"), "{named}");
    assert!(!note.contains("no room"), "{note}");
}

#[test]
fn a_report_without_a_name_has_the_programs_on_one_screen() {
    let (_directory, base) = incident::jobs_among_others();
    let (table, note) = on_terminal(&["report"], &base);
    assert!(table.lines().count() <= 22, "{table}");
    // `api` is the first name, and has no incident.
    let place = |program: &str| table.find(program).unwrap_or_else(|| panic!("{program}: {table}"));
    assert!(place("jobs.latency") < place("billing.latency"), "{table}");
    assert!(!table.contains("api.latency"), "{table}");
    assert!(table.contains(".p99") && !table.contains("agent"), "{table}");
    assert!(note.contains("no room for"), "{note}");
    // Where lines are not a terminal's, all programs have room.
    let mut program = Command::new(env!("CARGO_BIN_EXE_mmv-archive"));
    program.arg("report").arg(&base).env("COLUMNS", "80").env_remove("LINES");
    let output = program.output().unwrap();
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.contains("api.latency") && table.lines().count() <= 50, "{table}");
}

#[test]
fn a_plot_without_a_name_begins_with_the_program_that_changed() {
    let (_directory, base) = incident::jobs_among_others();
    let (text, note) = on_terminal(&["plot"], &base);
    assert!(text.starts_with("mmv.jobs, mmv.billing\n"), "{text}{note}");
    let charts = text.lines().filter(|line| line.starts_with("mmv.")).skip(1);
    let charts: Vec<&str> = charts.collect();
    assert!(charts[0].starts_with("mmv.jobs.latency [endpoint=/submit]"), "{text}");
    assert!(text.contains("no room for mmv.api."), "{text}");
}

#[test]
fn a_window_without_values_has_a_message_and_no_rows() {
    let (_directory, base) = incident::jobs_among_others();
    let gone = ["report", "mmv.jobs.requests", "-S", "22:16:21", "-T", "22:16:23"];
    let (table, note) = on_terminal(&gone, &base);
    assert_eq!(table, "", "{note}");
    let expected = "the metrics have no values at these times, the last value before was at \
                    2023-11-14 22:16:19 UTC; the archive is from 2023-11-14 22:13:20 to 22:17:19 UTC";
    assert!(note.contains(expected), "{note}");
}

#[test]
fn columns_of_a_summary_have_one_meaning_each() {
    let (_directory, base) = web();
    let (table, _) = on_terminal(&["summary", "mmv.web"], &base);
    let cells = |begin: &str| -> Vec<&str> {
        let line = table.lines().find(|line| line.trim_start().starts_with(begin));
        line.unwrap_or_default().split_whitespace().collect()
    };
    let head = ["Rate", "Mean", "Min", "p50", "p99", "Max", "Count", "Unit"];
    assert_eq!(cells("Rate"), head, "{table}");
    assert_eq!(cells("/pay")[..3], ["/pay", "10", "-"], "a rate and no mean: {table}");
    assert_eq!(cells("/pay")[7..], ["5990"], "values that were counted: {table}");
    assert_eq!(cells("queue")[1..3], ["-", "2.00"], "a mean and no rate: {table}");
    assert_eq!(cells("queue")[7..], ["-"], "its samples are not counts: {table}");
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    let (table, _) = on_terminal(&["summary", "mmv.web.queue"], &base);
    assert!(table.contains("Samples") && table.contains("  600\n"), "{table}");
}

#[test]
fn exact_quantiles_of_a_summary_are_in_the_units_of_the_histogram() {
    let (_directory, base) = web();
    let (table, _) = on_terminal(&["summary", "mmv.web.latency", "--exact"], &base);
    let line = table.lines().find(|line| line.contains("/pay")).unwrap();
    assert!(line.contains("  5119.500  5119.500"), "{table}");
    assert!(line.ends_with("count / sec, microsec"), "{table}");
    let heads: Vec<&str> = table.lines().next().unwrap_or_default().split_whitespace().collect();
    let of_histograms = ["Metric", "Time", "average", "Count", "p50", "p99", "Max", "Units"];
    assert_eq!(heads, of_histograms, "{table}");
    let (table, _) = on_terminal(&["summary", "mmv.web", "--exact"], &base);
    let cells = |name: &str| -> Vec<&str> {
        let line = table.lines().find(|line| line.contains(name)).unwrap_or_default();
        line.split_whitespace().collect()
    };
    let heads = cells("Samples");
    let count = heads.iter().position(|head| *head == "Count").unwrap() - 1;
    assert_eq!(cells("/pay")[count - 1..=count], ["-", "5990"], "{table}");
    assert_eq!(cells("queue")[count - 1..=count], ["600", "-"], "{table}");
    let (table, _) = on_terminal(&["summary", "mmv.web.latency", "--total"], &base);
    assert!(!table.contains("Total") && table.contains("Count"), "{table}");
}

#[test]
fn a_histogram_comes_before_the_metrics_that_it_consists_of() {
    let (_directory, base) = web();
    let (text, _) = on_terminal(&["metrics", "mmv.web.latency"], &base);
    assert!(
        text.starts_with("mmv.web.latency  histogram\n    Units: microsec  Buckets: 3"),
        "{text}"
    );
    assert!(text.contains("\"endpoint=/pay\"") && !text.contains("latency.sum"), "{text}");
    let (text, _) = on_terminal(&["metrics", "mmv.web.latency", "--buckets"], &base);
    let place = |name: &str| text.find(name).unwrap_or_else(|| panic!("{name}: {text}"));
    let parts =
        ["mmv.web.latency  histogram", "mmv.web.latency.bucket  PMID", "mmv.web.latency.sum  PMID"];
    assert!(parts.map(place).is_sorted(), "{text}");
    let (sum, _) = on_terminal(&["metrics", "mmv.web.latency.sum"], &base);
    assert!(sum.starts_with("mmv.web.latency.sum  PMID"), "{sum}");
    let (json, _) = on_terminal(&["metrics", "mmv.web.latency", "--json"], &base);
    let lines = json.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let lines: Vec<serde_json::Value> = lines.collect();
    let names: Vec<&str> = lines.iter().map(|line| line["metric"].as_str().unwrap()).collect();
    assert_eq!(names, ["mmv.web.latency", "mmv.web.latency.bucket", "mmv.web.latency.sum"]);
    assert_eq!((&lines[0]["type"], lines[0]["pmid"].is_null()), (&"histogram".into(), true));
    assert_eq!(lines[0]["instances"].as_array().unwrap().len(), 3);
}

#[test]
fn follow_says_that_a_program_ended_and_waits() {
    let directory = test_archives::scratch();
    let events = |second, kind| incident::event(second, kind, 7);
    let _finished = incident::with_event_metrics(Builder::in_directory(directory.path(), "ended"))
        .metric("mmv.jobs.done", "u64 counter count")
        .row(
            0,
            [("mmv.agent.events", events(0, "appeared").into()), ("mmv.jobs.done", Cell::from(1))],
        )
        .row(5, [("mmv.agent.events", events(5, "ended").into()), ("mmv.jobs.done", Cell::from(2))])
        .finish();
    let mut follow = Command::new(env!("CARGO_BIN_EXE_mmv-archive"))
        .arg("follow")
        .arg(directory.path().join("ended"))
        .args(["mmv.jobs", "-Z", "UTC"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    BufReader::new(follow.stderr.take().unwrap()).read_line(&mut said).unwrap();
    let is_waiting = follow.try_wait().unwrap().is_none();
    follow.kill().unwrap();
    follow.wait().unwrap();
    assert!(is_waiting, "{said}");
    let expected = "jobs ended at 2023-11-14 22:13:25 UTC; waiting until it starts again";
    assert!(said.contains(expected), "{said}");
}

#[test]
fn follow_says_once_that_a_program_ends_and_starts_again() {
    let directory = test_archives::scratch();
    let mut builder = incident::with_event_metrics(Builder::in_directory(directory.path(), "runs"))
        .metric("mmv.jobs.done", "u64 counter count")
        .metric("mmv.other.done", "u64 counter count");
    for second in 0..12_u64 {
        let kind = match second {
            0 => Some("appeared"),
            // The agent notes both that the process has ended and that its file has gone.
            5 => Some("ended"),
            6 => Some("removed"),
            8 => Some("restarted"),
            10 => Some("grew"),
            _ => None,
        };
        let mut cells = vec![("mmv.other.done", Cell::from(second))];
        if !(6..8).contains(&second) {
            cells.push(("mmv.jobs.done", second.into()));
        }
        if let Some(kind) = kind {
            cells.push(("mmv.agent.events", incident::event(second, kind, 7).into()));
        }
        builder = builder.row(second, cells);
    }
    let _finished = builder.finish();
    let said = |metric: &str, start: &str, count: &str| {
        let arguments = ["follow", metric, "-S", start, "-s", count, "-Z", "UTC"];
        let (_, note) = on_terminal(&arguments, &directory.path().join("runs"));
        note
    };
    let end = "mmv-archive: jobs ended at 2023-11-14 22:13:25 UTC; waiting until it starts again\n";
    let start = "mmv-archive: jobs started again at 2023-11-14 22:13:28 UTC (pid 7)\n";
    assert_eq!(said("mmv.jobs", "0s", "10"), format!("{end}{start}"));
    assert_eq!(said("mmv.jobs", "7s", "3"), format!("{end}{start}"));
    assert_eq!(said("mmv.jobs", "9s", "2"), "");
    assert_eq!(said("mmv.other", "0s", "12"), "");
}

#[test]
fn follow_of_a_branch_has_a_row_for_each_record() {
    let (_directory, base) = web();
    let (table, note) = on_terminal(&["follow", "mmv.web", "-S", "0s", "-s", "6"], &base);
    let rows: Vec<&str> = table.lines().filter(|line| line.contains(".000")).collect();
    assert_eq!(rows.len(), 5, "without the first, which has no rates: {table}");
    let heads: Vec<&str> = table.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(heads[..3], ["latency"; 3], "{table}");
    assert!(table.lines().count() <= 10 && !table.contains("\n\n"), "{table}");
    assert!(!table.contains("instant") && !table.contains("average"), "{table}");
    assert_eq!(note.matches("no room for mmv.web.requests, ").count(), 1, "{note}");
    let (named, note) = on_terminal(&["follow", "mmv.web.queue", "-S", "0s", "-s", "6"], &base);
    assert_eq!(named.matches(".000").count(), 6, "{named}");
    assert_eq!(note, "");
}

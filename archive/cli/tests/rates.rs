//! `report --rate` at resets, marks and absences of a counter.

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use test_archives::Builder;

use crate::program::{printed_of, run, run_on, text};
use crate::report_csv::cells;

/// A record: its second, and the counts of the instances `steady` and `transient`; without any a
/// mark.
type Row = (i32, Option<u32>, Option<u32>);

/// Between 40 and 50 s the first is set back, so that nothing of it shows at
/// the tens of seconds; from 10 to 40 s the second is gone; a mark at 65 s.
const ROWS: [Row; 12] = [
    (0, Some(0), Some(0)),
    (10, Some(100), Some(50)),
    (20, Some(200), None),
    (30, Some(300), None),
    (40, Some(400), Some(200)),
    (45, Some(5), Some(225)),
    (50, Some(405), Some(250)),
    (60, Some(505), Some(300)),
    (65, None, None),
    (70, Some(605), None),
    (80, Some(705), Some(10)),
    (90, Some(805), Some(60)),
];

fn archive() -> (TempDir, PathBuf) {
    archive_of("a.count")
}

fn archive_of(name: &str) -> (TempDir, PathBuf) {
    let mut builder = Builder::named("rates")
        .metric(name, "u32 counter count")
        .numbered_instances(name, [(1, "steady"), (2, "transient")]);
    let [steady, transient] = ["steady", "transient"].map(|instance| format!("{name}[{instance}]"));
    for (second, one, other) in ROWS {
        let second = f64::from(second) + 1e-9;
        builder = match one {
            None => builder.mark(second),
            Some(_) => builder.row(second, [(&steady, one), (&transient, other)]),
        };
    }
    builder.finish().into_parts()
}

fn report(base: &Path, arguments: &[&str]) -> Vec<String> {
    let options = ["report", "a", "-t", "10s", "--format", "csv"];
    let text = printed_of(base, &[&options[..], arguments].concat());
    text.lines().skip(1).map(cells).collect()
}

#[test]
fn rates_stop_at_resets_and_marks_and_span_absences() {
    let (_directory, base) = archive();
    let expected = [
        ",",    // 0 s: no moment before
        "10,5", // 10 s
        "10,5", // 20 s: gone, on the line from 50 at 10 s to 200 at 40 s
        "10,5", // 30 s
        "10,5", // 40 s: back
        ",5",   // 50 s: 405 is more than 400, but it was set back on the way
        "10,5", // 60 s
        ",",    // 70 s: a mark on the way
        "10,",  // 80 s: the second was not there at 70 s, nor is there a line
        "10,5", // 90 s
    ];
    assert_eq!(report(&base, &["--rate"]), expected);
}

#[test]
fn a_wrapping_counter_has_a_rate_when_it_decreases() {
    let (_directory, base) = archive();
    let rates = report(&base, &["--rate", "--counter-wrap"]);
    assert_eq!(rates[5], "429496730.1,5");
    assert_eq!(rates[7], ",", "over a mark nothing is counted");
}

#[test]
fn two_instants_have_one_interval_between_them_as_in_pmval() {
    let (_directory, base) = archive();
    let between = |from: &str, to: &str| report(&base, &["--rate", "-S", from, "-T", to]);
    // From 0 s to 10 s, and not what was before the start.
    assert_eq!(between("@1700000000.000000001", "@1700000010.000000001"), ["10,5"]);
    assert_eq!(between("10s", "10s"), ["10,5"], "the end counts from the start");
    assert_eq!(between("40s", "15s"), [",5"], "the reset is between them");
    assert_eq!(between("0s", "20s").len(), 3);
    // Values that are not rates are those of both instants.
    assert_eq!(report(&base, &["-S", "0s", "-T", "10s"]), ["0,0", "100,50"]);
}

/// Writes an archive of a counter that is at its own age in seconds, whose last record is some
/// seconds old.
fn recent(age: i64) -> (TempDir, PathBuf, i64) {
    let end = pcp_archive::Timestamp::now().seconds() - age;
    let mut builder = Builder::named("recent")
        .metric("a.fast", "u32 counter count")
        .metric("a.slow", "u32 counter count");
    for second in 0..=90 {
        let slow = (second % 40 == 0).then_some(("a.slow", second));
        let at = pcp_archive::Timestamp::new(end - 90 + i64::from(second), 0).unwrap();
        builder = builder.row_at(at, [("a.fast", second * second)].into_iter().chain(slow));
    }
    let (directory, base) = builder.finish().into_parts();
    (directory, base, end)
}

fn printed(base: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = run_on(base, &[&["report", "--json"], arguments].concat());
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn now_is_the_newest_value_of_an_archive_that_is_being_written() {
    let (_directory, base, end) = recent(3);
    let (_, fast, _) = printed(&base, &["a.fast", "--at", "now"]);
    assert!(fast.contains("8100") && fast.contains(&end.to_string()), "{fast}");
    let (_, slow, _) = printed(&base, &["a.slow", "--at", "now"]);
    assert!(slow.contains(":80") && slow.contains(&(end - 10).to_string()), "{slow}");
    let (_directory, base, end) = recent(1000);
    let (status, printed, error) = printed(&base, &["a.fast", "--at", "now"]);
    assert_eq!((status, printed.as_str()), (Some(1), ""), "{error}");
    let time = |second| jiff::Timestamp::from_second(second).unwrap().strftime("%Y-%m-%d %H:%M:%S");
    let last = format!("the last value before was at {}", time(end));
    assert!(error.contains(&last), "{error}");
}

#[test]
fn some_time_ago_begins_the_first_interval() {
    let (_directory, base, end) = recent(2);
    let (_, rate, error) =
        printed(&base, &["a.fast", "-S", "1 minute ago", "-t", "1min", "--rate"]);
    let line: serde_json::Value = serde_json::from_str(rate.trim()).expect(&error);
    // Of the last 60 s: 2 s of what the archive should have is not written yet.
    assert_eq!(line["seconds"].as_f64().map(|at| at as i64), Some(end), "{rate}");
    assert_eq!(line["value"], f64::from(90 * 90 - 30 * 30) / 60.0, "{rate}");
}

#[test]
fn rate_over_a_mark_is_of_the_observed_time() {
    let rates = |name: &str, second: i64, options: &[&str]| -> String {
        let (_directory, base) = archive_of(name);
        let at = format!("@{}.000000001", 1_700_000_000 + second);
        let report = ["report", name, "--rate", "--format", "csv", "--at", &at];
        let output = run_on(&base, &[&report[..], options].concat());
        let values = text(&output.stdout).lines().nth(1).map(cells);
        values.filter(|values| values != ",").unwrap_or_default()
    };
    let mmv = |second, span| rates("mmv.a.count", second, &["-t", span]);
    assert_eq!(mmv(63, "8s"), "10,5", "55 s to 60 s, the last values before the mark");
    assert_eq!(mmv(70, "10s"), "", "one observation on each side");
    assert_eq!(mmv(80, "20s"), "10,", "70 s to 80 s");
    assert_eq!(mmv(90, "30s"), "10,5", "70 s to 90 s, and 80 s to 90 s");
    assert_eq!(mmv(90, "24s"), "10,5", "from 66 s on, when the agent was away");
    assert_eq!(mmv(85, "30s"), "10,5", "55 s to 60 s as well");
    assert_eq!(mmv(69, "2s"), "", "nothing was observed");
    for name in ["mmv.a.count", "a.count"] {
        assert_eq!(rates(name, 90, &["-t", "30s", "--pcp"]), "", "{name}");
    }
    assert_eq!(rates("a.count", 90, &["-t", "30s"]), "10,5", "of other producers too");
}

#[test]
fn a_rate_over_two_archives_is_of_the_times_that_they_have() {
    let directory = test_archives::scratch();
    for (name, seconds) in [("day1", 0..60), ("day2", 120..180)] {
        Builder::in_directory(directory.path(), name)
            .metric("app.requests", "u64 counter count")
            .rows(seconds.map(|second: u64| (second, [("app.requests", 10 * second)])))
            .finish();
    }
    let rate = |options: &[&str]| -> String {
        let report = ["report", ".", "app.requests", "--rate", "-t", "170s"];
        let at = ["--at", "@1700000179", "--format", "csv"];
        let output = run(directory.path(), &[&report[..], &at, options].concat());
        text(&output.stdout).lines().nth(1).map(cells).unwrap_or_default()
    };
    assert_eq!(rate(&[]), "10");
    assert_eq!(rate(&["--pcp"]), "");
}

fn requests() -> Builder {
    let mut builder = Builder::new().metric("mmv.shop.requests", "u64 counter count");
    let labels: [(&str, &[(&str, &str)]); 2] =
        [("200", &[("code", "200")]), ("500", &[("code", "500")])];
    builder = builder
        .instances("mmv.shop.requests", ["200"])
        .instance_labels("mmv.shop.requests", &labels[..1]);
    for second in 0..3 {
        builder = builder.row(second, [("mmv.shop.requests[200]", 100 * second)]);
    }
    builder = builder
        .numbered_instances("mmv.shop.requests", [(0, "200"), (9, "500")])
        .instance_labels("mmv.shop.requests", &labels);
    for second in 3..6 {
        let errors = if second == 3 { 2 } else { 2 + 5 * (second - 3) };
        let row = [("mmv.shop.requests[200]", 100 * second), ("mmv.shop.requests[500]", errors)];
        builder = builder.row(second, row);
    }
    builder
}

#[test]
fn instance_that_a_program_creates_counts_from_zero() {
    let archive = requests().finish();
    let run = |arguments: &[&str]| {
        let options = ["report", "-t", "1s", "--format", "csv"];
        let text = printed_of(&archive, &[&options[..], arguments].concat());
        let found = text.lines().skip(1).map(cells);
        found.collect::<Vec<String>>()
    };
    let errors = run(&["mmv.shop.requests", "-i", "500", "--rate"]);
    assert_eq!(errors, ["", "", "", "2", "5", "5"]);
    let errors = r#"mmv.shop.requests{code="500"}"#;
    for (function, values) in
        [("rate", ["", "0", "0", "2", "5", "5"]), ("delta", ["", "0", "0", "2", "5", "5"])]
    {
        let sum = format!("x = sum({function}({errors}))");
        assert_eq!(run(&["-e", &sum]), values, "{sum}");
        for window in [["-S", "+2s"], ["-S", "+4s"]] {
            let arguments = ["-e", sum.as_str(), window[0], window[1]];
            let from = window[1][1..2].parse::<usize>().unwrap();
            assert_eq!(run(&arguments), values[from..], "{sum} from {from}");
        }
    }
    assert_eq!(run(&["-e", &format!("x = sum({errors})")]), ["0", "0", "0", "2", "7", "12"]);
    let ratio = format!("x = sum(rate({errors})) / sum(rate(mmv.shop.requests))");
    let ratios: Vec<f64> =
        run(&["-e", &ratio]).iter().filter_map(|cell| cell.parse().ok()).collect();
    assert_eq!(ratios.len(), 5);
    for (found, expected) in ratios.iter().zip([0.0, 0.0, 2.0 / 102.0, 5.0 / 105.0, 5.0 / 105.0]) {
        assert!((found - expected).abs() < 1e-6, "{ratios:?}");
    }
    // PCP has no value where an operand has none.
    let pcp = run(&["--pcp", "-e", &format!("x = sum({errors})")]);
    assert_eq!(pcp[3..], ["2", "7", "12"]);
    assert!(pcp[..3].iter().all(|cell| cell != "0"), "{pcp:?}");
}

#[test]
fn instance_selected_by_label_counts_from_0_as_by_name() {
    let archive = requests().finish();
    for window in [&["-S", "+0s"][..], &["-S", "+2s"], &["-S", "+3s"]] {
        let rates = |metric: &[&str]| {
            let options = ["report", "-t", "1s", "--format", "csv", "--rate"];
            let text = printed_of(&archive, &[&options[..], metric, window].concat());
            text.lines().skip(1).map(cells).collect::<Vec<String>>()
        };
        let by_label = rates(&[r#"mmv.shop.requests{code="500"}"#]);
        assert_eq!(by_label, rates(&["mmv.shop.requests", "-i", "500"]), "{window:?}");
        assert_eq!(by_label[by_label.len() - 3..], ["2", "5", "5"], "{window:?}");
    }
}

#[test]
fn selected_instance_is_summarized_as_among_all() {
    let archive = requests().finish();
    let summary = |metric: &[&str]| {
        let text = printed_of(&archive, &[&["summary", "--exact", "--total"], metric].concat());
        let lines = text.lines().filter(|line| line.contains("requests["));
        let cells = lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
        cells.map(|line| line.trim_start_matches('*').to_owned()).collect::<Vec<String>>()
    };
    let all = summary(&["mmv.shop.requests"]);
    let errors: Vec<_> = all.into_iter().filter(|line| line.contains("[500]")).collect();
    assert_eq!(errors.len(), 1);
    assert_eq!(summary(&[r#"mmv.shop.requests{code="500"}"#]), errors);
    assert_eq!(summary(&["mmv.shop.requests", "-i", "500"]), errors);
}

#[test]
fn heads_say_which_values_are_averages_and_which_of_one_instant() {
    let archive = Builder::new()
        .metric("app.requests", "u64 counter count")
        .metric("app.queue", "u64 instant none")
        .metric("app.version", "u32 discrete none")
        .row(0, [("app.requests", 0), ("app.queue", 0), ("app.version", 3)])
        .row(5, [("app.requests", 10), ("app.queue", 68), ("app.version", 3)])
        .row(10, [("app.requests", 20), ("app.queue", 0), ("app.version", 3)])
        .finish();
    let head = |arguments: &[&str]| {
        let text = printed_of(&archive, &[&["report", "-t", "10s", "--exact"], arguments].concat());
        let head = text.lines().take_while(|line| !line.starts_with('-'));
        head.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
    };
    let both = ["app.requests", "count / sec app.queue app.version", "average instant"];
    assert_eq!(head(&["app"]), both);
    // Nothing is to be told apart.
    assert_eq!(head(&["app.queue", "app.version"]), ["app.queue app.version"]);
    assert_eq!(head(&["app.requests"]), ["app.requests", "count / sec"]);
    assert!(!head(&["app", "--no-rate"]).concat().contains("instant"));
    let derived = ["app.requests", "-e", "busy = rate(app.requests) / 10"];
    assert_eq!(head(&derived)[..1], ["app.requests busy"]);
    assert!(!head(&derived).concat().contains("average"));
}

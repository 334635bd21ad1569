//! Plots of an archive with many instances, several units and a gap. The images
//! stay in the target directory for inspection.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use pcp_archive::Pmid;
use pcp_archive::raw::event::EventArrayBuilder;
use tempfile::TempDir;
use test_archives::{Builder, Cell, at, scratch};

use crate::incident;
use crate::program::{self, run_on};
use crate::programs;

const INSTANCES: usize = 50;

/// Writes half an hour, a record every 5 s, and a stop of the logger from minute 12 to minute 16.
fn archive() -> (TempDir, PathBuf) {
    let directory = scratch();
    let base = directory.path().join("shop");
    let names: Vec<_> =
        (0..INSTANCES).map(|n| format!("worker-{n:02} on node-{}.example.com", n % 7)).collect();
    let mut builder = Builder::of_host("shop.example.com", &base)
        .metric("shop.worker.requests", "u64 counter count")
        .metric("shop.busy", "u64 counter millisec")
        .metric("shop.memory", "u64 instant Kbyte")
        .instances("shop.worker.requests", names.iter().map(String::as_str));
    let series = names.iter().map(|name| format!("shop.worker.requests[{name}]"));
    let series: Vec<_> =
        series.chain(["shop.busy", "shop.memory"].map(ToOwned::to_owned)).collect();
    let mut totals = vec![0.0; INSTANCES];
    for step in 0..360 {
        let minutes = f64::from(step) / 12.0;
        for (n, total) in totals.iter_mut().enumerate() {
            let speed = 400.0 / (n as f64 + 1.0);
            *total += 5.0 * speed * (1.2 + (minutes / 3.0 + n as f64).sin());
        }
        if step == 144 {
            builder = builder.mark(step * 5);
        }
        if (144..192).contains(&step) {
            continue;
        }
        let busy = 5000.0 * f64::from(step) * 0.6 + 9000.0 * (minutes / 2.0).sin();
        let memory = 4e6 + 1.5e6 * (minutes / 5.0).cos();
        let values = totals.iter().copied().chain([busy, memory]);
        builder = builder.row(step * 5, series.iter().zip(values.map(|value| value as u64)));
    }
    builder.finish();
    (directory, base)
}

fn plot(base: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mmv-archive"))
        .arg("plot")
        .arg(base)
        .args(arguments)
        .args(["-Z", "UTC"])
        .env_remove("COLUMNS")
        .output()
        .unwrap()
}

fn image(base: &Path, name: &str, arguments: &[&str]) -> Vec<u8> {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let output = plot(base, &[arguments, &["-o", path.to_str().unwrap()]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::read(path).unwrap()
}

#[test]
fn many_instances_are_plotted_as_the_largest_and_a_sum() {
    let (_directory, base) = archive();
    let svg = image(&base, "many.svg", &["shop.worker.requests"]);
    let svg = String::from_utf8(svg).unwrap();
    for text in ["/s", "38 others, summed", "worker-00 on node-0", "22:20", "22:40"] {
        assert!(svg.contains(text), "{text}");
    }
    assert!(!svg.contains("worker-20"));
    let (before, _) = svg.split_once("worker-00 on node-0").unwrap();
    let (_, color) = before.rsplit_once("stroke=\"").unwrap();
    let color = color.split('"').next().unwrap();
    assert_eq!(svg.matches(&format!("stroke=\"{color}\"")).count(), 3, "{color}");
    let all = image(&base, "all.svg", &["shop.worker.requests", "--top", "100"]);
    assert!(!String::from_utf8(all).unwrap().contains("summed"));
}

#[test]
fn ticks_closer_than_a_minute_have_labels_with_seconds() {
    let (_directory, base) = archive();
    for (name, size, tick) in
        [("ticks.svg", "1200x675", "22:16"), ("wide-ticks.svg", "3000x675", "22:16:15")]
    {
        let span = ["-S", "1min", "-T", "6min", "--size", size];
        let svg = image(&base, name, &[&["shop.memory"], &span[..]].concat());
        let svg = String::from_utf8(svg).unwrap();
        let times: Vec<&str> = svg
            .lines()
            .filter(|line| line.len() >= 5 && line.bytes().all(|c| c.is_ascii_digit() || c == b':'))
            .collect();
        let mut distinct = times.clone();
        distinct.dedup();
        assert!(times.len() > 4 && times.contains(&tick), "{times:?}");
        assert_eq!(times, distinct);
    }
}

#[test]
fn each_unit_has_a_panel_and_times_are_utilisations() {
    let (_directory, base) = archive();
    let units = ["--units", "Mbyte"];
    let svg = image(&base, "units.svg", &[&["shop"], &units[..]].concat());
    let svg = String::from_utf8(svg).unwrap();
    for text in ["shop.busy: utilisation", "shop.memory: Mbyte", "/s", "45 others, summed"] {
        assert!(svg.contains(text), "{text}");
    }
    let png = image(&base, "units.png", &[&["shop"], &units[..]].concat());
    assert!(png.starts_with(b"\x89PNG"));
}

#[test]
fn without_a_file_the_plot_is_drawn_in_the_terminal() {
    let (_directory, base) = archive();
    let output = plot(&base, &["shop.memory", "--width", "60"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("shop.memory"));
    let span = "shop.example.com, 2023-11-14 22:13:20 to 22:43:15 UTC";
    assert_eq!(lines.next(), Some(span));
    assert!(text.contains("memory: GB\n"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
}

#[test]
fn a_branch_has_as_many_charts_as_fit() {
    let (_directory, base) = programs::shop(true);
    let plot = |lines: &str, arguments: &[&str]| {
        let mut program = Command::new(env!("CARGO_BIN_EXE_mmv-archive"));
        program.arg("plot").arg(&base).args(arguments).args(["-Z", "UTC", "--width", "90"]);
        let output = program.env("LINES", lines).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let short = plot("24", &["mmv.shop"]);
    assert!(short.lines().count() <= 24, "{short}");
    let charts: Vec<&str> = short.lines().filter(|line| line.starts_with("mmv.shop.")).collect();
    assert!(charts[0].starts_with("mmv.shop.latency: us"), "{short}");
    assert!(charts.len() == 2 && charts[1] == "mmv.shop.orders [a]: /s", "{short}");
    let others = "no room for mmv.shop.queue, mmv.shop.version, 1 more of mmv.shop.orders: name";
    assert!(short.contains(others), "{short}");
    let named = plot("24", &["mmv.shop.queue", "mmv.shop.orders", "mmv.shop.latency"]);
    assert!(!named.contains("no room"), "{named}");
}

#[test]
fn without_a_metric_each_program_has_charts_on_one_screen() {
    let (_directory, base) = incident::jobs_among_others();
    let mut program = Command::new(env!("CARGO_BIN_EXE_mmv-archive"));
    program.arg("plot").arg(&base).args(["--width", "80", "-Z", "UTC"]).env_remove("LINES");
    let output = program.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("mmv.jobs, mmv.billing, mmv.api"), "{text}");
    assert!(lines.len() <= 50, "{text}");
    for chart in ["mmv.api.requests", "mmv.billing.requests", "mmv.jobs.latency"] {
        assert!(lines.iter().any(|line| line.starts_with(chart)), "{chart}: {text}");
    }
    assert!(text.contains("no room for"), "{text}");
    assert!(!text.contains("mmv.agent"), "{text}");
}

#[test]
fn what_cannot_be_plotted_is_an_error() {
    let (_directory, base) = archive();
    let status = |arguments: &[&str]| plot(&base, arguments).status.code();
    assert_eq!(status(&["no.such.metric"]), Some(1));
    assert_eq!(status(&["shop.memory", "-o", "x.gif"]), Some(2));
    assert_eq!(status(&["shop.memory", "-o", "x.svg", "--size", "5x5"]), Some(2));
    assert_eq!(status(&["shop.memory", "--size", "large"]), Some(2));
    assert_eq!(status(&["shop.memory", "--units", "bananas"]), Some(2));
    assert_eq!(status(&["shop.memory", "-o", "/nonexistent/x.svg"]), Some(74));
}

/// Writes a day at 1 s of a counter that stands still and a gauge, but for one second each.
fn spikes() -> (TempDir, PathBuf) {
    Builder::named("day")
        .metric("shop.errors", "u64 counter count")
        .metric("shop.queue", "u64 instant")
        .rows((0..86_400).map(|second| {
            let errors = if second < 50_021 { 7 } else { 7 + 7_000 };
            let queue = if second == 30_013 { 9_000 } else { 3 };
            (second, [("shop.errors", errors), ("shop.queue", queue)])
        }))
        .finish()
        .into_parts()
}

#[test]
fn a_spike_of_one_second_is_seen_in_a_day() {
    let (_directory, base) = spikes();
    // Its column reaches the last line of the chart below its title.
    for (metric, peak) in [("shop.errors", "7000 ┤"), ("shop.queue", "8k ┤")] {
        let text = plot(&base, &[metric, "--width", "80"]);
        assert!(text.status.success(), "{}", String::from_utf8_lossy(&text.stderr));
        let text = String::from_utf8(text.stdout).unwrap();
        let line = text.lines().find(|line| line.trim_start().starts_with(peak));
        let dots = line.unwrap_or_else(|| panic!("{text}")).trim_start().trim_start_matches(peak);
        assert_eq!(dots.trim().chars().count(), 1, "{text}");
    }
    let image = Path::new(env!("CARGO_TARGET_TMPDIR")).join("spike.svg");
    let done = plot(&base, &["shop.queue", "-o", image.to_str().unwrap()]);
    assert!(done.status.success());
    let image = std::fs::read_to_string(&image).unwrap();
    assert!(image.contains("<polygon") && image.contains("\n8000\n"), "a band up to the peak");
    // Where the interval is given, values are those of report at these times.
    let text = plot(&base, &["shop.queue", "-t", "10min", "--width", "80"]);
    assert!(!String::from_utf8(text.stdout).unwrap().contains('k'));
}

#[test]
fn damage_in_a_long_window_is_passed_by_and_reported() {
    let (_directory, base) = spikes();
    let volume = base.with_extension("0");
    let mut bytes = std::fs::read(&volume).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 500].fill(0xff);
    std::fs::write(&volume, bytes).unwrap();
    let done = plot(&base, &["shop.queue", "--width", "80"]);
    let errors = String::from_utf8(done.stderr).unwrap();
    assert!(errors.contains("bytes are lost"), "{errors}");
    let text = String::from_utf8(done.stdout).unwrap();
    assert!(text.contains("21:00"), "the rest of the day is drawn: {text}");
}

fn drawn_columns(text: &str, title: &str) -> usize {
    let (_, chart) = text.split_once(&format!("\n{title}")).unwrap();
    let lines = chart.lines().skip(1).take_while(|line| !line.contains('└'));
    let is_dot = |letter: char| ('\u{2801}'..='\u{28ff}').contains(&letter);
    let columns = lines.flat_map(|line| line.chars().enumerate().filter(|(_, c)| is_dot(*c)));
    columns.map(|(column, _)| column).collect::<std::collections::BTreeSet<_>>().len()
}

#[test]
fn the_line_of_a_slow_metric_is_whole_beside_a_fast_one() {
    let row = |second| {
        let slow = (second % 1200 == 0).then_some(("shop.memory", 1000 + second / 100));
        (second, [("shop.queue", second % 7)].into_iter().chain(slow))
    };
    let archive = Builder::named("day")
        .metric("shop.queue", "u64 instant")
        .metric("shop.memory", "u64 instant Kbyte")
        .rows((0..60_000).map(row))
        .mark(60_000)
        .rows((70_800..86_400).map(row))
        .finish();
    let done = plot(&archive, &["shop", "--width", "100"]);
    let text = String::from_utf8(done.stdout).unwrap();
    let [fast, slow] = ["shop.queue", "shop.memory"].map(|title| drawn_columns(&text, title));
    // Of 97 columns an eighth is the gap.
    assert!((80..90).contains(&fast), "{fast}: {text}");
    assert!((80..90).contains(&slow), "{slow}: {text}");
}

#[test]
fn many_events_do_not_shorten_the_time_between_samples() {
    let archive = Builder::named("busy")
        .metric_with(Pmid::new(70, 0, 1001).unwrap(), "mmv.agent.events", "event instant")
        .metric("mmv.worker.jobs", "u64 counter")
        .rows((0..300).map(|tenth: u32| {
            let events = ("mmv.agent.events", Cell::from(EventArrayBuilder::new().finish()));
            let jobs = tenth.is_multiple_of(10).then(|| ("mmv.worker.jobs", (tenth / 10).into()));
            (f64::from(tenth) / 10.0, [events].into_iter().chain(jobs))
        }))
        .finish();
    let done = plot(&archive, &["mmv.worker.jobs", "--width", "80"]);
    let text = String::from_utf8(done.stdout).unwrap();
    assert!(text.contains("1.") && !text.contains("10"), "{text}");
}

#[test]
fn events_on_both_sides_of_damage_are_shown() {
    let (_directory, base) = programs::shop(true);
    let archive = pcp_archive::Archive::open(&base).unwrap();
    let mut records = archive.records().unwrap();
    while let Some(record) = records.next().unwrap() {
        if record.timestamp() < at(20) {
            continue;
        }
        let volume = base.with_extension("0");
        let mut bytes = std::fs::read(&volume).unwrap();
        let at = record.offset() as usize;
        bytes[at..at + 30].fill(0xff);
        std::fs::write(&volume, bytes).unwrap();
        break;
    }
    let text = String::from_utf8(plot(&base, &["mmv.shop.queue"]).stdout).unwrap();
    assert!(text.contains("\u{25b2} 22:14:10 shop appeared\n"), "{text}");
    let run = |command: &str, arguments: &[&str]| {
        let output = run_on(&base, &[&[command], arguments].concat());
        assert!(program::text(&output.stderr).contains("bytes"), "{command}");
        program::text(&output.stdout).to_owned()
    };
    let table = run("report", &["mmv.shop.queue", "--events", "-t", "10s"]);
    assert_eq!(table.matches("shop appeared").count(), 2, "{table}");
    let events = run("events", &[]);
    assert_eq!(events.matches("appeared").count(), 2, "{events}");
}

fn archive_of_many(instances: usize) -> (TempDir, PathBuf) {
    let directory = scratch();
    let base = directory.path().join("many");
    let names: Vec<_> = (0..instances).map(|n| format!("worker-{n:05}")).collect();
    let mut builder = Builder::in_directory(directory.path(), "many")
        .metric("many.level", "u64 instant none")
        .instances("many.level", names.iter().map(String::as_str));
    let series: Vec<_> = names.iter().map(|name| format!("many.level[{name}]")).collect();
    for second in 0..4 {
        let values = (0..instances).map(|n| (n as u64 + 1) * 10 + second);
        builder = builder.row(second as i64, series.iter().zip(values));
    }
    builder.finish();
    (directory, base)
}

#[test]
fn largest_lines_and_the_sum_of_the_others_are_drawn() {
    let text = |instances: usize, interval: &str| {
        let (_directory, base) = archive_of_many(instances);
        let output = plot(&base, &["many.level", "--top", "2", "-t", interval]);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    for (instances, interval) in [(2_000, "1s"), (2_000, "2ms")] {
        let text = text(instances, interval);
        for label in ["worker-01999", "worker-01998", "1998 others, summed"] {
            assert!(text.contains(label), "{interval}: no {label} in\n{text}");
        }
        // 10 + 20 + .. + 19 980
        assert!(text.contains("20M"), "{text}");
    }
}

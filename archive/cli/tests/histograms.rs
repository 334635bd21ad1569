//! Quantiles and heat maps of a histogram in `plot`, `summary` and expressions, against
//! numbers computed from what the program counted.

use std::path::Path;
use std::process::Output;

use test_archives::Builder;

use crate::program::{printed_of, run_on};
use crate::programs::shop;
use crate::report_csv::cells;

fn run(command: &str, base: &Path, arguments: &[&str]) -> Output {
    run_on(base, &[&[command], arguments].concat())
}

fn text(command: &str, base: &Path, arguments: &[&str]) -> String {
    printed_of(base, &[&[command], arguments].concat())
}

#[test]
fn expressions_have_quantiles() {
    let (_directory, base) = shop(true);
    let column = |arguments: &[&str]| -> Vec<String> {
        let all = [&["--format", "csv", "-t", "10s"], arguments].concat();
        let text = text("report", &base, &all);
        text.lines().skip(1).map(cells).collect()
    };
    let plain = column(&["mmv.shop.latency", "--quantile", "0.99"]);
    assert!(plain.contains(&"9.5".to_owned()) && plain.contains(&"4.5".to_owned()), "{plain:?}");
    assert_eq!(column(&["-e", "p99 = quantile(0.99, mmv.shop.latency)"]), plain);
    assert_eq!(column(&["-e", "quantile(0.99, mmv.shop.latency.bucket)"]), plain);
    let both = "spread = quantile(1, mmv.shop.latency) - quantile(0, mmv.shop.latency)";
    let spread = column(&["-e", both]);
    // From 60 s to 70 s one of 6..7 and one of 8..11 were counted.
    assert_eq!(spread[7], "3");
    assert_eq!(spread.iter().filter(|value| *value == "0").count(), 7);
    for (expression, message) in [
        ("quantile(1.5, mmv.shop.latency)", "column 10: found 1.5, expected a number from 0 to 1"),
        ("quantile(0.5, mmv.shop.orders)", "mmv.shop.orders is not a histogram"),
        ("quantile(0.5)", "expected \",\" and a histogram"),
        (
            "rate(quantile(0.5, mmv.shop.latency))",
            "quantile() cannot be used within rate() or delta()",
        ),
    ] {
        let output = run("report", &base, &["-e", expression]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && stderr.contains(message), "{expression}: {stderr}");
    }
}

#[test]
fn a_histogram_is_reported_as_itself() {
    let (_directory, base) = shop(true);
    let csv = |arguments: &[&str]| -> (String, String) {
        let all = [&["--format", "csv", "-t", "10s"], arguments].concat();
        let text = text("report", &base, &all);
        let head = cells(text.lines().next().unwrap());
        (head, cells(text.lines().nth(8).unwrap()))
    };
    let name = "mmv.shop.latency";
    let head = format!("{name},{name}.p50,{name}.p99,{name}.max");
    // From 60 s to 70 s one of 6..7 and one of 8..11.
    assert_eq!(csv(&[name]), (head, "0.2,6.5,9.5,9.5".to_owned()));
    let (buckets, _) = csv(&[name, "--buckets"]);
    assert!(buckets.contains("mmv.shop.latency.bucket["), "{buckets}");
    let bucket = "mmv.shop.latency.bucket";
    let (named, _) = csv(&[bucket]);
    assert!(named.contains("mmv.shop.latency.bucket[") && !named.contains("p99"), "{named}");
    let (raw, _) = csv(&[name, "--pcp"]);
    assert!(raw.contains("mmv.shop.latency.bucket["), "{raw}");
    let table = text("report", &base, &[name, "-t", "10s"]);
    assert!(table.contains("count/s") && !table.contains("bucket"), "{table}");
}

#[test]
fn metadata_of_a_histogram_has_no_line_for_each_bucket() {
    let (_directory, base) = shop(true);
    let print = |arguments: &[&str]| printed_of(&base, &[&["metrics"], arguments].concat());
    let short = print(&["mmv.shop.latency"]);
    assert!(short.starts_with("mmv.shop.latency  histogram"), "{short}");
    assert!(short.contains("Buckets: 3 (--buckets lists them)\n"), "{short}");
    assert!(!short.contains("inst ["), "{short}");
    for arguments in [&["mmv.shop.latency", "--buckets"][..], &["mmv.shop.latency.bucket"]] {
        let whole = print(arguments);
        assert!(whole.contains("mmv.shop.latency.bucket  PMID"), "{whole}");
        assert!(whole.contains("inst ["), "{whole}");
    }
}

#[test]
fn follow_prints_a_histogram_as_itself() {
    let (_directory, base) = shop(true);
    let head = |arguments: &[&str]| {
        let all = [&["mmv.shop.latency", "-S", "0s", "-s", "2"], arguments].concat();
        text("follow", &base, &all)
    };
    let itself = head(&[]);
    let heads: Vec<Vec<&str>> =
        itself.lines().map(|line| line.split_whitespace().collect()).collect();
    let names = ["latency", "latency.p50", "latency.p99", "latency.max"];
    assert!(heads.contains(&names.to_vec()), "{itself}");
    assert!(heads.contains(&vec!["count/s", "us", "us", "us"]), "{itself}");
    assert!(!itself.contains("bucket"), "{itself}");
    assert!(head(&["--buckets"]).contains("bucket"));
    assert!(head(&["--json"]).contains("mmv.shop.latency.bucket"));
}

#[test]
fn a_summary_is_sorted_by_a_quantile() {
    let (_directory, base) = shop(true);
    let first = |sort: &str| {
        let text = text("summary", &base, &["mmv.shop", "--sort", sort, "--format", "csv"]);
        text.lines().nth(1).unwrap().split(',').next().unwrap().to_owned()
    };
    assert_eq!(first("p99"), "mmv.shop.latency");
    assert_eq!(first("0.5"), "mmv.shop.latency");
    let other = text("summary", &base, &["mmv.shop", "--sort", "p90", "--format", "csv"]);
    let head = other.lines().next().unwrap();
    assert!(head.contains("p50,p90,p99"), "the quantile of the order is a column: {head}");
    let output = run("summary", &base, &["mmv.shop", "--sort", "colour"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_summary_has_the_quantiles_of_the_window() {
    let (_directory, base) = shop(true);
    let quantile = |arguments: &[&str]| -> Vec<String> {
        let all = [&["mmv.shop", "--quantile", "0.5,0.9", "--format", "csv"], arguments].concat();
        let text = text("summary", &base, &all);
        let lines = text.lines().filter(|line| line.starts_with("mmv.shop.latency"));
        lines.map(ToOwned::to_owned).collect()
    };
    // 30 of 4..5 after the first record, then 5 of 6..7 and one of 8..11, in 30 s and 49.999 s.
    let line = "mmv.shop.latency,,count / sec,36,,,,0.4500056250646882,,,,,,,4.5,6.5,microsec";
    assert_eq!(quantile(&[]), [line]);
    let late = quantile(&["-S", "70s"]);
    assert!(late[0].ends_with(",6.5,6.5,microsec"), "{late:?}");
    let table = text("summary", &base, &["mmv.shop.latency", "--quantile", "p90"]);
    let line = table.lines().find(|line| line.starts_with("latency ")).unwrap();
    assert!(table.contains("p90") && line.ends_with("  6.50     36  /s, us"), "{table}");
    assert!(table.starts_with("mmv.shop, 2023-11-14 22:13:"), "{table}");
    assert!(!table.contains("bucket") && !table.contains("latency.sum"), "{table}");
    let json = text("summary", &base, &["mmv.shop.latency", "--quantile", "90", "--json"]);
    let quantiles = r#""quantiles":{"p90":6.5},"quantile_units":"microsec""#;
    assert!(json.contains(quantiles), "{json}");
    let units = ["mmv.shop.latency", "--quantile", "90", "--units", "millisec"];
    let exact = ["--format", "csv", "--precision", "4"];
    let csv = text("summary", &base, &[&units[..], &exact].concat());
    assert!(csv.ends_with(",0.0065,millisec\r\n"), "{csv}");
    let table = text("summary", &base, &units);
    let line = table.lines().find(|line| line.starts_with("latency ")).unwrap();
    assert!(line.ends_with("  0.007     36  /s, millisec"), "{table}");
    let rate = ["mmv.shop.latency", "--units", "count / min", "--format", "csv"];
    let csv = text("summary", &base, &rate);
    assert!(csv.contains(",count / min,36,") && csv.contains(",27.0003"), "{csv}");
    let output = run("summary", &base, &["mmv.shop.latency", "--units", "byte"]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("--units \"byte\" fits no metric and is ignored"), "{stderr}");
    let output = run("summary", &base, &["mmv.shop.queue", "--quantile", "0.9"]);
    assert_eq!(output.status.code(), Some(1));
}

/// The window is read in parts of an hour. In the second one nothing was counted, and half of it was
/// not observed.
#[test]
fn a_rate_of_a_histogram_is_of_the_time_that_was_observed() {
    let values = |count: u64| {
        [("mmv.shop.latency.bucket[4..5]", count), ("mmv.shop.latency.sum", 4 * count)]
    };
    let mut builder = Builder::new()
        .metric("mmv.shop.latency.bucket", "u64 counter count")
        .metric("mmv.shop.latency.sum", "u64 counter microsec")
        .labels("mmv.shop.latency.bucket", &[("histogram", "microsec")])
        .numbered_instances("mmv.shop.latency.bucket", [(4, "4..5")])
        .domain_labels("mmv.shop.latency.bucket", &[("bucket_precision", 1), ("bucket_max", 1000)]);
    for minute in 0..=180 {
        builder = match minute {
            61 => builder.mark(minute * 60),
            62..=90 => builder,
            _ => builder.row(minute * 60, values(10 * (minute as u64).min(60))),
        };
    }
    let archive = builder.finish();
    let csv = text("summary", &archive, &["mmv.shop.latency", "--format", "csv"]);
    let line = csv.lines().find(|line| line.starts_with("mmv.shop.latency,")).unwrap();
    let rate: f64 = line.split(',').nth(7).unwrap().parse().unwrap();
    assert!((rate - 600.0 / f64::from(149 * 60)).abs() < 1e-6, "{csv}");
}

#[test]
fn a_heat_map_shows_what_each_bucket_counted() {
    let (_directory, base) = shop(true);
    let map = |options: &[&str]| {
        let all =
            [&["--heatmap", "mmv.shop.latency", "-t", "10s", "--width", "80"], options].concat();
        text("plot", &base, &all)
    };
    let plot = map(&[]);
    // 30 of 4..5 before the end, 5 of 6..7 and one of 8..11 after the next start.
    assert!(plot.contains("mmv.shop.latency: 36 values"), "{plot}");
    assert!(!plot.contains('\u{1b}'), "no colors where there is no terminal");
    let rows: Vec<&str> = plot.lines().skip(4).take(15).collect();
    // Ten in an interval are the most; of one the root is a third of that.
    let count = |rows: &[&str], shade: char| {
        rows.iter().map(|row| row.matches(shade).count()).sum::<usize>()
    };
    let (top, bottom) = rows.split_at(9);
    assert!(count(bottom, '@') > 0 && count(top, '@') == 0, "{plot}");
    assert!(count(top, '-') > 0, "{plot}");
    let wide = |rows: &[&str]| rows.iter().map(|row| row.chars().count()).max().unwrap();
    assert!(wide(&rows) <= 80);
    // What was counted first is on the left, in the lowest rows.
    let lowest = rows.last().unwrap().trim_end();
    assert!(lowest.chars().count() < 40 && lowest.ends_with('@'), "{plot}");
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("heat.png");
    assert_eq!(map(&["-o", path.to_str().unwrap()]), "");
    assert!(std::fs::read(path).unwrap().starts_with(b"\x89PNG"));
    let output = run("plot", &base, &["mmv.shop.queue", "--heatmap"]);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_histogram_is_plotted_as_its_quantiles_in_one_panel() {
    let (_directory, base) = shop(true);
    let plot = text("plot", &base, &["mmv.shop.latency", "--width", "80"]);
    let title = "mmv.shop.latency: us; from above p99, p90, p50";
    assert_eq!(plot.matches(title).count(), 1, "{plot}");
    assert!(plot.lines().all(|line| line.chars().count() <= 80), "{plot}");
    assert!(plot.contains("\u{25b2} 22:14:10 shop appeared\n"), "{plot}");
    assert!(!plot.contains("4..5"), "{plot}");
    let chosen = text("plot", &base, &["mmv.shop.latency", "--quantile", "0.5,0.999"]);
    assert!(chosen.contains("from above p99.9, p50"), "{chosen}");
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("histogram.svg");
    let arguments = ["mmv.shop.latency.bucket", "-o", path.to_str().unwrap()];
    assert_eq!(text("plot", &base, &arguments), "");
    let svg = std::fs::read_to_string(path).unwrap();
    for text in ["p99", "p90", "p50", "mmv.shop.latency: us", "shop appeared", "stroke=\"#B0413E\""]
    {
        assert!(svg.contains(text), "{text}");
    }
}

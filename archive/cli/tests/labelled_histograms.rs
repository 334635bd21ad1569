//! Histograms that are selected by labels: those of their sums are those of their buckets.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Output;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use tempfile::TempDir;
use test_archives::Builder;

use crate::program::{printed_of, run_on};
use crate::report_csv::cells;

const BUCKETS: [(&str, u64); 4] = [
    ("path=/a,bucket=4..5", 9),
    ("path=/a,bucket=8..11", 1),
    ("path=/b,bucket=6..7", 2),
    ("path=/b,bucket=12..", 8),
];

/// Writes five records, a second apart, of `web.latency`, by path.
fn archive() -> (TempDir, PathBuf) {
    let paths: &[(&str, &[(&str, &str)])] =
        &[("path=/a", &[("path", "/a")]), ("path=/b", &[("path", "/b")])];
    Builder::named("web")
        .metric("web.latency.bucket", "u64 counter count")
        .metric("web.latency.sum", "u64 counter microsec")
        .instances("web.latency.bucket", BUCKETS.map(|(name, _)| name))
        .instances("web.latency.sum", ["path=/a", "path=/b"])
        .labels("web.latency.bucket", &[("histogram", "microsec")])
        .instance_labels("web.latency.sum", paths)
        .rows((0..5).map(|second: u64| {
            let counts = BUCKETS.map(|(name, rate)| (format!("web.latency.bucket[{name}]"), rate));
            let sums = [("/a", 50), ("/b", 110)]
                .map(|(path, rate)| (format!("web.latency.sum[path={path}]"), rate));
            let counted = counts.into_iter().chain(sums);
            (second, counted.map(move |(name, rate)| (name, second * rate)))
        }))
        .finish()
        .into_parts()
}

fn growing() -> (TempDir, PathBuf) {
    let row = |second: u64| {
        let slow = second.saturating_sub(20);
        [
            ("mmv.web.latency.bucket[path=/a,bucket=4..5]", 10 * second),
            ("mmv.web.latency.bucket[path=/a,bucket=8..11]", 8 * slow),
            ("mmv.web.latency.bucket[path=/b,bucket=6..7]", 4 * slow),
            ("mmv.web.latency.sum[path=/a]", 40 * second + 64 * slow),
            ("mmv.web.latency.sum[path=/b]", 24 * slow),
        ]
        .into_iter()
        .filter(|(_, count)| *count > 0)
    };
    let buckets = BUCKETS.map(|(name, _)| name);
    Builder::named("growing")
        .metric("mmv.web.latency.bucket", "u64 counter count")
        .metric("mmv.web.latency.sum", "u64 counter microsec")
        .labels("mmv.web.latency.bucket", &[("histogram", "microsec")])
        .instances("mmv.web.latency.bucket", [buckets[0]])
        .instances("mmv.web.latency.sum", ["path=/a"])
        .rows([10, 20].map(|second| (second, row(second))))
        .instances("mmv.web.latency.bucket", [buckets[0], buckets[1], buckets[2]])
        .instances("mmv.web.latency.sum", ["path=/a", "path=/b"])
        .rows([30, 40, 50].map(|second| (second, row(second))))
        .finish()
        .into_parts()
}

fn report(base: &Path, arguments: &[&str]) -> Output {
    run_on(base, &[&["report", "--format", "csv"], arguments].concat())
}

#[track_caller]
fn ends(base: &Path, arguments: &[&str]) -> [String; 2] {
    let output = report(base, arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    [text.lines().next(), text.lines().last()].map(|line| cells(line.unwrap()))
}

#[test]
fn quantiles_are_those_of_the_histograms_with_the_labels() {
    let (_directory, base) = archive();
    let quantiles = |selector| ends(&base, &[selector, "--quantile", "0.5,0.99"]);
    let both = "web.latency.p50[path=/a],web.latency.p50[path=/b],\
                web.latency.p99[path=/a],web.latency.p99[path=/b]";
    assert_eq!(quantiles("web.latency"), [both, "4.5,12,9.5,12"]);
    let of = |path| format!("web.latency.p50[path={path}],web.latency.p99[path={path}]");
    for selector in
        [r#"web.latency{path="/a"}"#, r#"web.latency.bucket{path!="/b"}"#, r#"web{path=~"/[ax]"}"#]
    {
        assert_eq!(quantiles(selector), [of("/a"), "4.5,9.5".to_owned()], "{selector}");
    }
    assert_eq!(quantiles(r#"web.latency{path="/b"}"#), [of("/b"), "12,12".to_owned()]);
}

#[test]
fn an_instance_of_a_histogram_selects_its_buckets_by_their_name() {
    let (_directory, base) = archive();
    let heads =
        "\"web.latency.bucket[path=/a,bucket=4..5]\",\"web.latency.bucket[path=/a,bucket=8..11]\"";
    for arguments in
        [&["web.latency.bucket", "-i", "/a"][..], &["web.latency.bucket", "-i", "path=/a"]]
    {
        let output = report(&base, arguments);
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{arguments:?}");
        assert_eq!(ends(&base, arguments)[0], heads);
    }
    let both = ends(&base, &["web.latency", "--buckets", "-i", "/a"]);
    assert_eq!(both[0], format!("{heads},web.latency.sum[path=/a]"));
    let summary = run_on(&base, &["summary", "web.latency.bucket", "-i", "/a"]);
    assert_eq!(String::from_utf8_lossy(&summary.stderr), "");
    let summary = String::from_utf8(summary.stdout).unwrap();
    assert!(summary.contains("/a,8..11") && !summary.contains("/b"), "{summary}");
    let followed = ["follow", "web.latency.bucket", "-i", "/a", "-S", "0s", "-s", "2", "--json"];
    let followed = printed_of(&base, &followed);
    assert_eq!(followed.matches("path=/a,bucket=").count(), 4, "{followed}");
    assert!(!followed.contains("/b"), "{followed}");
    let unknown = report(&base, &["web.latency.bucket", "-i", "/c"]);
    let expected = "mmv-archive: /c: no instance of this name in the archive\n";
    assert!(String::from_utf8_lossy(&unknown.stderr).starts_with(expected), "{unknown:?}");
}

#[test]
fn new_buckets_count_from_the_record_before() {
    let (_directory, base) = growing();
    let rows = |arguments: &[&str]| {
        let all = [&["-t", "10s", "-S", "5s", "-T", "20s"], arguments].concat();
        let output = report(&base, &all);
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        let rows = text.lines().skip(2).map(cells);
        rows.collect::<Vec<_>>()
    };
    // From 15 s to 25 s, 5 s to 15 s after the first record, /a: 100 of 4..5 and 40 of 8..11, /b:
    // 20 of 6..7; then twice as many of the new.
    assert_eq!(
        rows(&["mmv.web", "--quantile", "0.71,0.72"]),
        ["4.5,6.5,9.5,6.5", "9.5,6.5,9.5,6.5"]
    );
    let rates = rows(&["mmv.web.latency"]);
    assert!(rates[0].starts_with("14,2,") && rates[1].starts_with("18,4,"), "{rates:?}");
    let window = ["mmv.web.latency", "-S", "5s", "-T", "10s"];
    let heats = heat_maps(&base, &window);
    let counted = heats.iter().map(|heat| {
        let cells = heat["cells"].as_array().unwrap().iter();
        cells.map(|cell| cell[2].as_f64().unwrap()).sum::<f64>()
    });
    assert_eq!(counted.collect::<Vec<_>>(), [140.0, 20.0]);
    let printed = |command: &str, options: &[&str]| {
        printed_of(&base, &[&[command], &window[..], options].concat())
    };
    let map = printed("plot", &["--heatmap", "-t", "10s"]);
    assert!(map.contains("140 values") && map.contains("20 values"), "{map}");
    let summary = printed("summary", &["--quantile", "0.72", "--format", "csv"]);
    assert!(summary.contains(",140,") && summary.contains(",9.5,microsec"), "{summary}");
}

#[test]
fn expressions_have_quantiles_and_the_part_below_a_limit() {
    let (_directory, base) = archive();
    for (expression, expected) in [
        ("p50(web.latency)", "4.5,12"),
        ("below(7us, web.latency)", "0.9,0.2"),
        ("rate(web.latency)", "10,10"),
        ("sum by (path) (rate(web.latency))", "10,10"),
        (r#"rate(web.latency{path="/b"})"#, "10"),
        (r#"100 * below(0.007ms, web.latency{path="/b"})"#, "20"),
        ("web.latency.sum / sum(web.latency.sum)", "0.3125,0.6875"),
        ("p99(web.latency) > 10us", "0,1"),
    ] {
        assert_eq!(ends(&base, &["-e", expression])[1], expected, "{expression}");
    }
}

#[test]
fn expressions_are_columns_in_the_order_in_which_they_are_given() {
    let (_directory, base) = archive();
    let expressions = ["-e", "slow = p99(web.latency)", "-e", "fast = p50(web.latency)"];
    for format in ["csv", "table"] {
        let report = ["report", "--format", format];
        let text = printed_of(&base, &[&report[..], &expressions].concat());
        let place = |name: &str| text.find(name).unwrap_or_else(|| panic!("{name}: {text}"));
        assert!(place("slow") < place("fast"), "{text}");
    }
}

/// Of /a the p99 is 9.5 microseconds in each second but the first, of /b 12.
#[test]
fn condition_that_holds_in_a_row_is_status_1_after_the_report() {
    let (_directory, base) = archive();
    let run = |condition: &str| {
        let output = report(&base, &["web.latency", "-t", "1s", "--fail-if", condition]);
        let stderr = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap().lines().count(), stderr)
    };
    assert_eq!(run("p99(web.latency) > 12us"), (Some(0), 6, String::new()));
    let (code, lines, text) = run("p99(web.latency) > 0.01 ms");
    assert_eq!((code, lines), (Some(1), 6), "{text}");
    let expected = "mmv-archive: p99(web.latency) > 0.01 ms: holds at 2023-11-14 22:13:21.000000000 UTC \
                    of path=/b, the first of 4 rows\n";
    assert_eq!(text, expected);
    let (code, _, text) = run("sum(rate(web.latency.sum)) > 0.000159");
    assert!(code == Some(1) && text.contains("holds at 2023-11-14 22:13:21"), "{text}");
    assert_eq!(run("sum(rate(web.latency.sum)) > 0.000161").0, Some(0));
    let (code, _, text) = run("p99(web.latncy) > 1us");
    assert!(code == Some(2) && text.contains("web.latncy"), "{text}");
    let (code, _, text) = run("p99(web.latency) >");
    assert!(code == Some(2) && text.contains("column 19"), "{text}");
    let (code, _, text) = run("novalue() > 1");
    assert!(code == Some(1) && text.contains("no value at these times"), "{text}");
    let output = report(&base, &["web.latency", "--raw", "--fail-if", "1"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn top_histograms_are_those_with_the_largest_quantiles() {
    let (directory, base) = archive();
    for command in ["report", "summary"] {
        let text = printed_of(&base, &[command, "web.latency", "--top", "1", "--json"]);
        let shown = [text.contains("path=/b"), text.contains("path=/a")];
        assert_eq!(shown, [true, false], "{command}: {text}");
    }
    let picture = directory.path().join("top.svg");
    printed_of(&base, &["plot", "web.latency", "--top", "1", "-o", "top.svg"]);
    let svg = std::fs::read_to_string(picture).unwrap();
    assert!(svg.contains("path=/b") && !svg.contains("path=/a"), "{svg}");
}

#[test]
fn buckets_have_the_labels_of_their_histogram() {
    let (_directory, base) = archive();
    let [names, values] = ends(&base, &[r#"web.latency{path="/b"}"#]);
    let expected = "web.latency[path=/b],web.latency.p50[path=/b],web.latency.p99[path=/b],\
                    web.latency.max[path=/b]";
    assert_eq!((names.as_str(), values.as_str()), (expected, "10,12,12,12"));
    let [names, values] = ends(&base, &[r#"web.latency{path="/b"}"#, "--buckets"]);
    let expected = "\"web.latency.bucket[path=/b,bucket=6..7]\",\
                    \"web.latency.bucket[path=/b,bucket=12..]\",web.latency.sum[path=/b]";
    assert_eq!((names.as_str(), values.as_str()), (expected, "8,32,440"));
}

#[test]
fn expressions_have_quantiles_of_histograms_with_labels() {
    let (_directory, base) = archive();
    let value = |arguments: &[&str]| ends(&base, arguments)[1].clone();
    let of_a = r#"quantile(0.99, web.latency{path="/a"})"#;
    assert_eq!(value(&["-e", of_a]), "9.5");
    let ratio = format!(r#"max({of_a}) / max(quantile(0.5, web.latency{{path="/b"}}))"#);
    assert_eq!(value(&["-e", &ratio, "--precision", "3"]), "0.792");
    let all = ["-e", "quantile(0.5, web.latency)", "-e", of_a];
    assert_eq!(value(&all), "4.5,12,9.5");
    let shown = [r#"web.latency{path="/b"}"#, "--quantile", "0.5", "-e", of_a];
    assert_eq!(value(&shown), "9.5,12");
    let counts = [r#"web.latency.bucket{path="/b"}"#, "-e", "quantile(0.5, web.latency)"];
    assert_eq!(value(&counts), "8,32,4.5,12");
    let output = report(&base, &["-e", "quantile(0.5, web.latency{code='/a'})"]);
    let text = String::from_utf8(output.stderr).unwrap();
    let reason = "no instance of web.latency has a label code; the labels are: histogram, path\n";
    assert!(output.status.code() == Some(2) && text.ends_with(reason), "{text}");
}

#[test]
fn instance_of_a_histogram_is_extracted_with_its_buckets() {
    let (directory, base) = archive();
    let of_a = printed_of(&base, &["summary", "web.latency", "-i", "/a"]);
    assert!(of_a.contains("p99"), "{of_a}");
    for (number, instance) in ["/a", "path=/a"].iter().enumerate() {
        let part = directory.path().join(format!("part{number}"));
        let to = part.to_str().unwrap();
        printed_of(&base, &["extract", "web.latency", "-i", instance, "-o", to]);
        assert_eq!(printed_of(&part, &["summary", "web.latency"]), of_a);
    }
}

#[test]
fn instance_of_a_histogram_selects_it_in_every_command() {
    let (_directory, base) = archive();
    let [names, values] = ends(&base, &["web.latency", "-i", "/b"]);
    let labelled = ends(&base, &[r#"web.latency{path="/b"}"#]);
    assert_eq!([names.as_str(), values.as_str()], labelled);
    assert!(names.contains("web.latency.p99[path=/b]") && !names.contains("/a"), "{names}");
    for quantile in [&[][..], &["--quantile", "p99"]] {
        let arguments = [&["summary", "web.latency", "-i", "/b"], quantile].concat();
        let summary = printed_of(&base, &arguments);
        assert!(summary.contains("p99") && summary.contains("/b"), "{summary}");
        assert!(!summary.contains("/a") && !summary.contains("sum"), "{summary}");
    }
    let plot = printed_of(&base, &["plot", "web.latency", "-i", "/b"]);
    assert!(plot.contains("p99") && !plot.contains("/a"), "{plot}");
    // Buckets are shown where one of them is named.
    let [names, _] = ends(&base, &["web.latency", "-i", "path=/b,bucket=6..7"]);
    assert_eq!(names, "\"web.latency.bucket[path=/b,bucket=6..7]\"");
}

fn heat_maps(base: &Path, arguments: &[&str]) -> Vec<serde_json::Value> {
    printed_of(base, &[&["snapshot", "-o", "page.html"], arguments].concat());
    let html = std::fs::read_to_string(base.with_file_name("page.html")).unwrap();
    let (_, after) = html.split_once("id=\"data\">").unwrap();
    let packed = BASE64_STANDARD.decode(after.split_once('<').unwrap().0).unwrap();
    let mut data = Vec::new();
    flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut data).unwrap();
    let length = u32::from_le_bytes(data[8..12].try_into().unwrap()) as usize;
    let header: serde_json::Value = serde_json::from_slice(&data[12..12 + length]).unwrap();
    header["heats"].as_array().unwrap().clone()
}

#[test]
fn a_page_has_the_histograms_with_the_labels() {
    let (_directory, base) = archive();
    let instances = |selector: &str| {
        let heats = heat_maps(&base, &[selector]);
        heats.iter().map(|heat| heat["instance"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(instances("web.latency"), ["path=/a", "path=/b"]);
    assert_eq!(instances(r#"web.latency{path="/b"}"#), ["path=/b"]);
}

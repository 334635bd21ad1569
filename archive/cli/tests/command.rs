//! Output and exit status of `mmv-archive`.
//!
//! The expected output of `dump` is that of pmdumplog 6.0.3, except for the order
//! of the descriptors, which there is that of a hash table, and the note about the
//! time zone.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use pcp_archive::{Pmid, WriterLabel, WriterOptions};
use tempfile::TempDir;
use test_archives::{Builder, Cell, at, scratch};

use crate::report_csv::cells;

/// Writes a counter by product and a level, in two records, a mark, and a record.
fn archive() -> (TempDir, PathBuf) {
    let label = WriterLabel {
        pid: 4711,
        hostname: "host.example.com".into(),
        timezone: "AEST-10".into(),
        zoneinfo: ":Australia/Brisbane".into(),
    };
    let at = |second| at(second).saturating_add(Duration::from_nanos(123_456_789));
    let row = |count: i32, level: f64| {
        [
            ("mmv.acme.products.count[Anvils]", count.into()),
            ("mmv.acme.products.count[Rockets]", (count + 1).into()),
            ("mmv.acme.level", Cell::from(level)),
        ]
    };
    let directory = scratch();
    let base = directory.path().join("acme");
    Builder::create(&base, label, WriterOptions::default())
        .metric("mmv.acme.products.count", "u64 counter count")
        .metric("mmv.acme.level", "double instant")
        .help("mmv.acme.products.count", "products made")
        .in_domain("mmv.acme.products.count", 2051)
        .instances("mmv.acme.products.count", ["Anvils", "Rockets"])
        .row_at(at(0), row(10, 0.5))
        .row_at(at(10), row(30, 1.0 / 3.0))
        .mark_at(at(11))
        .row_at(at(20), row(40, 7.0))
        .finish();
    (directory, base)
}

fn run(base: &Path, command: &str, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mmv-archive"))
        .arg(command)
        .arg(base)
        .args(arguments)
        .env("TZ", "UTC")
        .env_remove("COLUMNS")
        .output()
        .unwrap()
}

#[test]
fn a_window_without_values_says_when_the_last_one_was() {
    let archive = Builder::named("late")
        .metric("acme.old", "u32 instant")
        .metric("acme.new", "u32 instant")
        .row(0, [("acme.old", 1)])
        .row(10, [("acme.old", 2)])
        .rows([20, 30, 40, 50].map(|second| (second, [("acme.new", 1)])))
        .finish();
    let output = run(&archive, "report", &["acme.old", "-S", "40s", "-T", "45s"]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    let expected = "no values at these times, the last value before was at ";
    assert!(errors.contains(expected) && errors.contains("22:13:30"), "{errors}");
}

fn printed(base: &Path, command: &str, arguments: &[&str]) -> String {
    let output = run(base, command, arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command} {arguments:?}: {errors}");
    assert_eq!(errors, "", "{command} {arguments:?}");
    String::from_utf8(output.stdout).unwrap()
}

const DUMP: &str = "
22:13:20.123456789 2 metrics
    70.1.1 (mmv.acme.products.count):
        inst [0 or \"Anvils\"] value 10
        inst [1 or \"Rockets\"] value 11
    70.1.2 (mmv.acme.level): value 0.5

22:13:30.123456789 2 metrics
    70.1.1 (mmv.acme.products.count):
        inst [0 or \"Anvils\"] value 30
        inst [1 or \"Rockets\"] value 31
    70.1.2 (mmv.acme.level): value 0.3333333333333333

22:13:31.123456789  <mark>

22:13:40.123456789 2 metrics
    70.1.1 (mmv.acme.products.count):
        inst [0 or \"Anvils\"] value 40
        inst [1 or \"Rockets\"] value 41
    70.1.2 (mmv.acme.level): value 7
";

#[test]
fn dump_prints_what_pmdumplog_prints() {
    let (_directory, base) = archive();
    assert_eq!(printed(&base, "dump", &[]), DUMP);
    let label = "\
Log Label (Log Format Version 3)
Performance metrics from host host.example.com
    commencing Wed Nov 15 08:13:20.123456789 2023
    ending     Wed Nov 15 08:13:40.123456789 2023
Archive timezone: AEST-10
Archive zoneinfo: :Australia/Brisbane
PID for pmlogger: 4711
";
    assert_eq!(printed(&base, "dump", &["-L", "-z"]), label);
    let descriptors = "
Descriptions for Metrics in the Log ...
PMID: 70.1.1 (mmv.acme.products.count)
    Data Type: 64-bit unsigned int  InDom: 70.2051 0x11800803
    Semantics: counter  Units: count
PMID: 70.1.2 (mmv.acme.level)
    Data Type: double  InDom: PM_INDOM_NULL 0xffffffff
    Semantics: instant  Units: none
";
    assert_eq!(printed(&base, "dump", &["-d"]), descriptors);
    let domains = "
Instance Domains in the Log ...
InDom: 70.2051
22:13:20.123456789 2 instances
   0 or \"Anvils\"
   1 or \"Rockets\"
";
    assert_eq!(printed(&base, "dump", &["-i"]), domains);
}

#[test]
fn dump_of_one_metric_omits_the_others_and_the_marks() {
    let (_directory, base) = archive();
    let level = printed(&base, "dump", &["mmv.acme.level", "-S", "10s"]);
    let expected = "
22:13:30.123456789 1 metric
    70.1.2 (mmv.acme.level): value 0.3333333333333333

22:13:40.123456789 1 metric
    70.1.2 (mmv.acme.level): value 7
";
    assert_eq!(level, expected);
    assert!(printed(&base, "dump", &["-M", "mmv.acme.level"]).contains("<mark>"));
    let json = |arguments: &[&str]| printed(&base, "dump", arguments).matches("\"mark\"").count();
    assert_eq!(json(&["--json", "mmv.acme.level"]), 0);
    assert_eq!(json(&["--json", "-M", "mmv.acme.level"]), 1);
    assert_eq!(json(&["--json"]), 1);
}

#[test]
fn report_prints_a_table_with_interpolated_values() {
    let (_directory, base) = archive();
    let table = printed(&base, "report", &["mmv", "-t", "5s", "--no-rate"]);
    let expected = "
mmv.acme, 2023-11-14
          products.count  products.count
                [Anvils]       [Rockets]  level
                   count           count
--------  --------------  --------------  -----
22:13:20              10              11  0.500
22:13:25              20              21  0.500
22:13:30              30              31  0.333
22:13:35               -               -      -
22:13:40              40              41   7.00
";
    assert_eq!(format!("\n{table}"), expected);
    let table = printed(&base, "report", &["mmv", "-t", "5s", "--no-rate", "--exact"]);
    let expected = "
                              mmv.acme.       mmv.acme.
                         products.count  products.count
                               [Anvils]       [Rockets]
                                  count           count      mmv.acme.level
-----------------------  --------------  --------------  ------------------
2023-11-14 22:13:20.123              10              11                 0.5
2023-11-14 22:13:25.123              20              21                 0.5
2023-11-14 22:13:30.123              30              31  0.3333333333333333
2023-11-14 22:13:35.123               -               -                   -
2023-11-14 22:13:40.123              40              41                   7
";
    assert_eq!(format!("\n{table}"), expected);
}

#[test]
fn number_of_rows_chooses_a_round_interval_from_a_second() {
    let (_directory, base) = archive();
    for (window, rows, interval) in [
        (["-S", "0s"], "2", "30s"),
        (["-S", "0s"], "5", "5s"),
        (["-S", "0s"], "6", "5s"),
        (["-S", "0s"], "20", "2s"),
        (["-S", "0s"], "999", "1s"),
        (["--last", "10s"], "3", "5s"),
    ] {
        let report = |option: &str, value: &str| {
            printed(&base, "report", &["mmv", window[0], window[1], option, value])
        };
        assert_eq!(report("--rows", rows), report("-t", interval), "{window:?} {rows}");
    }
}

#[test]
fn a_long_table_is_printed_in_blocks() {
    let (_directory, base) = archive();
    let table =
        printed(&base, "report", &["mmv", "-t", "1ms", "--width", "45", "-S", "0s", "--exact"]);
    let second_panel = table.find("[Anvils]").unwrap();
    let last_line = table.find("22:13:40.123").unwrap();
    assert!(second_panel < last_line);
    assert_eq!(table.matches("22:13:30.123").count(), 3, "a line a panel");
}

/// Writes an archive with one metric `a.x` and instances 3, 7 and 8, of which the domain names
/// none but 3, so.
fn archive_with_instance(name: &str) -> (TempDir, PathBuf) {
    let values = [(format!("a.x[{name}]"), 30), ("a.x[7]".into(), 70), ("a.x[8]".into(), 80)];
    Builder::named("few")
        .metric("a.x", "u32 instant")
        .numbered_instances("a.x", [(3, name)])
        .rows((0..3).map(|second| (second, values.clone())))
        .finish()
        .into_parts()
}

#[test]
fn instances_without_a_name_are_reported_by_number_and_only_raw() {
    let (_directory, base) = archive_with_instance("three");
    let heading = |options: &[&str]| {
        let csv = printed(&base, "report", &[&["a.x", "--format", "csv"], options].concat());
        csv.lines().next().unwrap().to_owned()
    };
    assert_eq!(heading(&["--raw"]), "Time,Seconds,a.x[three],a.x[7],a.x[8]");
    assert_eq!(heading(&["--raw", "-i", "8"]), "Time,Seconds,a.x[8]");
    assert_eq!(heading(&[]), "Time,Seconds,a.x[three]");
    let json = printed(&base, "report", &["a.x", "--raw", "--json"]);
    assert!(json.contains("\"instance\":\"7\",\"labels\":{},\"units\":\"\",\"pmid\":\"70.1.1\",\"instance_id\":7,\"value\":70"), "{json}");
}

#[test]
fn names_with_control_characters_break_no_lines() {
    let (_directory, base) = archive_with_instance("red\u{1b}[31m\nthree");
    for (command, options) in [("report", &["a.x"][..]), ("metrics", &["--all"]), ("dump", &[])] {
        let text = printed(&base, command, options);
        assert!(text.contains(r"red\x1b[31m\x0athree"), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
    }
    // Byte for byte as pmdumplog, where no terminal reads it.
    let raw = printed(&base, "dump", &["--raw-text"]);
    assert!(raw.contains("3 or \"red\u{1b}[31m\nthree\""));
}

#[test]
fn values_without_a_descriptor_are_reported_in_text_and_in_json() {
    let (directory, base) = archive();
    let meta = directory.path().join("acme.meta");
    let mut bytes = fs::read(&meta).unwrap();
    let pmid = Pmid::new(70, 1, 2).unwrap().raw().to_be_bytes();
    let place = bytes.windows(4).position(|word| word == pmid).unwrap();
    bytes[place + 3] = 9;
    fs::write(&meta, &bytes).unwrap();
    let text = printed(&base, "dump", &[]);
    assert!(text.contains("70.1.2 (<nonames>): no descriptor\n"), "{text}");
    let json = printed(&base, "dump", &["--json"]);
    let expected = r#"{"pmid":"70.1.2","metric":null,"error":"no descriptor","values":[]}"#;
    assert_eq!(json.matches(expected).count(), 3, "{json}");
}

#[test]
fn a_damaged_index_is_reported() {
    let (directory, base) = archive();
    let index = directory.path().join("acme.index");
    let mut bytes = fs::read(&index).unwrap();
    bytes.push(0);
    fs::write(&index, &bytes).unwrap();
    let output = run(&base, "dump", &[]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), DUMP);
    let offset = bytes.len() - 1;
    let warning = String::from_utf8(output.stderr).unwrap();
    assert!(warning.contains(&format!("acme.index: offset {offset}: ")), "{warning}");
    let info = String::from_utf8(run(&base, "info", &[]).stdout).unwrap();
    assert!(info.contains(&format!("(damaged at offset {offset}: ")), "{info}");
    let json = run(&base, "info", &["--json"]).stdout;
    let info: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert!(info["index_defect"].as_str().is_some_and(|defect| defect.starts_with("offset ")));
}

#[test]
fn counters_in_tables_are_rates_in_the_given_units() {
    let (_directory, base) = archive();
    let options = ["mmv.acme.products", "-i", "Anvils", "-t", "5s"];
    let expected = "
mmv.acme.products.count, 2023-11-14
          [Anvils]
           count/s
--------  --------
22:13:20         -
22:13:25         2
22:13:30         2
22:13:35         -
22:13:40         -
";
    assert_eq!(format!("\n{}", printed(&base, "report", &options)), expected);
    let converted = ["--units", "count / min", "--precision", "1"];
    let table = printed(&base, "report", &[&options[..], &converted].concat());
    assert!(table.contains("count / min"), "{table}");
    assert!(table.contains("22:13:25.123           120.0"), "{table}");
    let json = printed(&base, "report", &[&options[..], &["--json", "--rate"]].concat());
    let line: serde_json::Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
    assert_eq!((&line["instance"], &line["value"]), (&"Anvils".into(), &2.0.into()), "{json}");
    assert_eq!(line["units"], "count / sec");
}

#[test]
fn derived_metrics_are_reported_in_their_own_units() {
    let (_directory, base) = archive();
    let half = "half = rate(mmv.acme.products.count) / 2";
    let sum = "sum(mmv.acme.products.count)";
    let arguments = ["-e", half, "-e", sum, "-t", "10s", "-s", "2", "--exact"];
    let table = printed(&base, "report", &arguments);
    for text in ["half", "[Anvils]", "[Rockets]", "count / sec"] {
        assert!(table.contains(text), "{text}: {table}");
    }
    // 10 and 11 were 30 and 31 ten seconds later.
    let cells: Vec<&str> = table.lines().last().unwrap().split_whitespace().skip(2).collect();
    assert_eq!(cells, ["1.000", "1.000", "4.000"], "{table}");
    let json = printed(&base, "report", &["-e", sum, "--at", "@1700000010.123456789", "--json"]);
    let line: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&line["metric"], &line["value"]), (&sum.into(), &61.into()));
    assert_eq!((&line["pmid"], &line["units"]), (&"511.0.1".into(), &"count".into()));
}

#[test]
fn derived_metrics_are_defined_in_files() {
    let (directory, base) = archive();
    let definitions = directory.path().join("derived");
    fs::create_dir(&definitions).unwrap();
    let file = definitions.join("a.conf");
    let text = "my.half = mmv.acme.level /\\\n 2\nmy.half(oneline) = half\nno.metric = nobody + 1\n\
                my.one = mkconst(1, meta=my.half)\nmmv.acme.level = 1\n";
    fs::write(&file, text).unwrap();
    fs::write(definitions.join("b.conf"), "your.twice = mmv.acme.level * 2\n").unwrap();
    let file = file.to_str().unwrap();
    let header = |arguments: &[&str]| {
        let csv = ["-s", "2", "-t", "10s", "--format", "csv"];
        let output = run(&base, "report", &[arguments, &csv].concat());
        let titles = String::from_utf8(output.stdout).unwrap();
        let complaints = String::from_utf8(output.stderr).unwrap();
        (titles.lines().next().unwrap_or_default().to_owned(), complaints)
    };
    let silent = |titles: &str| (titles.to_owned(), String::new());
    assert_eq!(header(&["-e", file]), silent("Time,Seconds,my.half,my.one"));
    let directory = definitions.to_str().unwrap();
    assert_eq!(header(&["-e", directory]), silent("Time,Seconds,my.half,my.one,your.twice"));
    assert_eq!(header(&["-e", directory, "your"]), silent("Time,Seconds,your.twice"));
    assert_eq!(header(&["-e", file, "*.half", "-e", "x = 2"]), silent("Time,Seconds,x,my.half"));
    assert_eq!(header(&["-e", file, "mmv.acme.level"]), silent("Time,Seconds,mmv.acme.level"));

    let (_, complaints) = header(&["-e", file, "no.metric", "my"]);
    let place =
        format!("mmv-archive: {file}:4: expression \"no.metric = nobody + 1\", column 13: ");
    assert!(complaints.starts_with(&place), "{complaints}");
    fs::write(file, "my.half = mmv.acme.level / 2\nmy.bad = (\n").unwrap();
    let (titles, complaints) = header(&["-e", file]);
    assert_eq!(titles, "Time,Seconds,my.half");
    assert!(complaints.contains(":2: expression \"my.bad = (\", column 11: "), "{complaints}");
    let output = run(&base, "report", &["-e", "./no/such.conf"]);
    assert_eq!(output.status.code(), Some(74), "no such file");
}

#[test]
fn a_report_continues_after_damage_and_reports_what_is_lost() {
    let (_directory, base) = archive();
    let volume = base.with_extension("0");
    let mut bytes = fs::read(&volume).unwrap();
    let first = u32::from_be_bytes(*bytes[808..].first_chunk().unwrap()) as usize;
    let second = 808 + first;
    bytes[second..second + 4].fill(0xff);
    fs::write(&volume, bytes).unwrap();
    let options = ["mmv.acme.level", "-t", "10s", "--format", "csv", "-Z", "UTC"];
    let output = run(&base, "report", &options);
    assert_eq!(output.status.code(), Some(65));
    let table = String::from_utf8(output.stdout).unwrap();
    let cells: Vec<String> = table.lines().skip(1).map(cells).collect();
    assert_eq!(cells, ["0.5", "", "7"], "{table}");
    let warning = String::from_utf8(output.stderr).unwrap();
    let place = format!("acme.0: offset {second}: ");
    assert!(
        warning.contains(&place) && warning.contains(" bytes are lost between 2023-11-14 22:13:"),
        "{warning}"
    );
}

#[test]
fn an_invalid_expression_is_a_usage_error() {
    let (_directory, base) = archive();
    let output = run(&base, "report", &["-e", "x = mmv.acme.level * * 2"]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("column 22: found \"*\", expected a metric"), "{error}");
    let output = run(&base, "report", &["-e", "mmv.acme.level + no.such.metric"]);
    assert_eq!(output.status.code(), Some(1), "the archive has nothing of this");
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("column 18: no metric no.such.metric in the archive"), "{error}");
}

#[test]
fn report_prints_csv_and_json_lines() {
    let (_directory, base) = archive();
    let at = "@2023-11-14T22:13:22.623456789Z";
    let csv = printed(&base, "report", &["mmv", "--at", at, "--format", "csv"]);
    let expected = "Time,Seconds,mmv.acme.level,mmv.acme.products.count[Anvils] (count),\
                    mmv.acme.products.count[Rockets] (count)\r\n\
                    2023-11-14T22:13:22.623456789+00:00,1700000002.623456789,0.5,15,16\r\n";
    assert_eq!(csv, expected);
    let options = ["mmv.acme.products", "-i", "Rockets", "--at", at, "--json"];
    let json = printed(&base, "report", &options);
    let expected = "{\"schema\":1,\"time\":\"2023-11-14T22:13:22.623456789Z\",\
                    \"seconds\":1700000002.6234567,\"metric\":\"mmv.acme.products.count\",\
                    \"instance\":\"Rockets\",\"labels\":{},\"units\":\"count\",\
                    \"pmid\":\"70.1.1\",\"instance_id\":1,\"value\":16}\n";
    assert_eq!(json, expected);
}

#[test]
fn summary_prints_averages_as_a_table_csv_and_json_lines() {
    let (_directory, base) = archive();
    let table = printed(&base, "summary", &["--total"]);
    let expected = "
mmv.acme, 2023-11-14 22:13:20 to 22:13:40
                Rate   Mean    Min   Max  Total  Samples  Unit
products.count                                            count/s
  Anvils           2      -      2     2     20        1
  Rockets          2      -      2     2     20        1
level              -  0.500  0.333  7.00   7.83        3
";
    assert_eq!(table, &expected[1..]);
    let table = printed(&base, "summary", &["--total", "--exact"]);
    let expected = "
Metric                            Time average  Stochastic  Minimum  Maximum   Total  Samples  Units
mmv.acme.products.count[Anvils]          2.000       2.000    2.000    2.000  20.000        1  count / sec
mmv.acme.products.count[Rockets]         2.000       2.000    2.000    2.000  20.000        1  count / sec
mmv.acme.level                           0.500       2.611    0.333    7.000   7.833        3
";
    assert_eq!(table, &expected[1..]);
    let options = ["mmv.acme.products", "-i", "1", "-T", "10s", "--format", "csv"];
    let csv = printed(&base, "summary", &options);
    let expected = "Metric,Instance,Units,Count,Observed seconds,Sum,Stochastic average,\
                    Time average,Minimum,Minimum at,Minimum seconds,\
                    Maximum,Maximum at,Maximum seconds\r\n\
                    mmv.acme.products.count,Rockets,count / sec,1,10,20,2,2,\
                    2,2023-11-14T22:13:30.123456789+00:00,1700000010.123456789,\
                    2,2023-11-14T22:13:30.123456789+00:00,1700000010.123456789\r\n";
    assert_eq!(csv, expected);
    // A single value of a counter has no rate.
    let options = ["mmv.acme.products", "-i", "Anvils", "-S", "20s", "--json"];
    let json = printed(&base, "summary", &options);
    let expected = "{\"schema\":1,\"metric\":\"mmv.acme.products.count\",\
                    \"instance\":\"Anvils\",\"labels\":{},\"units\":\"count / sec\",\
                    \"pmid\":\"70.1.1\",\"instance_id\":0,\"count\":0}\n";
    assert_eq!(json, expected);
}

#[test]
fn raw_reports_have_the_logged_times_and_the_marks() {
    let (_directory, base) = archive();
    let raw = printed(&base, "report", &["mmv.acme.level", "--raw"]);
    let expected = "
                             mmv.acme.level
-----------------------  ------------------
2023-11-14 22:13:20.123                 0.5
2023-11-14 22:13:30.123  0.3333333333333333
2023-11-14 22:13:31.123  <mark>
2023-11-14 22:13:40.123                   7
";
    assert_eq!(format!("\n{raw}"), expected);
}

#[test]
fn info_and_metrics_print_label_counts_and_metadata() {
    let (_directory, base) = archive();
    let info: serde_json::Value =
        serde_json::from_str(&printed(&base, "info", &["--json"])).unwrap();
    assert_eq!(info["host"], "host.example.com");
    assert_eq!(info["start"], "2023-11-14T22:13:20.123456789Z");
    assert_eq!(
        (&info["records"], &info["marks"], &info["values"]),
        (&4.into(), &1.into(), &9.into())
    );
    assert!(printed(&base, "info", &[]).contains("span              20.000s\n"));
    let names = printed(&base, "metrics", &["--names"]);
    assert_eq!(names, "mmv.acme.level\nmmv.acme.products.count\n");
    let json = printed(&base, "metrics", &["--json", "mmv.acme.products"]);
    let metric: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(metric["oneline"], "products made");
    assert_eq!(metric["instances"][1], serde_json::json!({"id": 1, "name": "Rockets"}));
}

#[test]
fn the_exit_status_depends_on_the_failure() {
    let (directory, base) = archive();
    let status = |command: &str, arguments: &[&str]| run(&base, command, arguments).status.code();
    assert_eq!(status("dump", &[]), Some(0));
    assert_eq!(status("report", &["no.such.metric"]), Some(1));
    assert_eq!(status("report", &["mmv", "--at", "1"]), Some(1), "no value at that time");
    assert_eq!(status("report", &["mmv", "-t", "often"]), Some(2));
    assert_eq!(status("report", &["mmv", "-Z", "Mars/Olympus"]), Some(2));
    assert_eq!(status("report", &["mmv", "-Z", "PST"]), Some(2), "no offset");
    assert_eq!(status("report", &["mmv", "-S", "1h"]), Some(1), "after the end");
    for even in [["-S", "1s"], ["-T", "1s"], ["-A", "1s"], ["-O", "1s"]] {
        assert_eq!(status("report", &["mmv", "--at", "1", even[0], even[1]]), Some(2), "{even:?}");
        let times = ["mmv", "--times", "/dev/null", even[0], even[1]];
        assert_eq!(status("report", &times), Some(2), "{even:?}");
    }
    assert_eq!(status("report", &["mmv", "--at", "1", "--raw"]), Some(2));
    assert_eq!(status("dump", &["--no-such-option"]), Some(2));
    let elsewhere = directory.path().join("other");
    assert_eq!(run(&elsewhere, "info", &[]).status.code(), Some(74));
    let meta = directory.path().join("acme.meta");
    let mut bytes = fs::read(&meta).unwrap();
    bytes[4] ^= 0xff;
    fs::write(&meta, bytes).unwrap();
    let damaged = run(&base, "info", &[]);
    assert_eq!(damaged.status.code(), Some(65));
    let message = String::from_utf8(damaged.stderr).unwrap();
    assert!(message.contains("acme.meta: offset 0: magic number"), "{message}");
}

#[test]
fn a_reader_that_closes_the_output_is_no_error() {
    let (_directory, base) = archive();
    let mut child = Command::new(env!("CARGO_BIN_EXE_mmv-archive"))
        .arg("dump")
        .arg(&base)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Closed before anything is written: the command only writes at its end.
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}

#[test]
fn a_long_dump_has_all_whole_records_in_order() {
    const RECORDS: u64 = 20_000;
    const FIRST: u64 = 1 << 40;
    let (_directory, base) = Builder::named("long")
        .metric("a.b", "u64 instant")
        .rows((0..RECORDS).map(|n| (n, [("a.b", FIRST + n)])))
        .finish()
        .into_parts();
    let values = |text: &str| -> Vec<u64> {
        let values = text.lines().filter_map(|line| line.split_once(" value "));
        values.map(|(_, value)| value.parse::<u64>().unwrap() - FIRST).collect()
    };
    let all: Vec<_> = (0..RECORDS).collect();
    assert_eq!(values(&printed(&base, "dump", &[])), all);
    let backwards: Vec<_> = all.iter().copied().rev().collect();
    assert_eq!(values(&printed(&base, "dump", &["-r"])), backwards);

    // The trailer of one of them.
    let (volume, damaged) = (base.with_extension("0"), RECORDS * 3 / 4);
    let mut bytes = fs::read(&volume).unwrap();
    let value = (FIRST + damaged).to_be_bytes();
    let at = bytes.windows(8).position(|window| window == value).unwrap();
    bytes[at + 8] ^= 1;
    fs::write(&volume, bytes).unwrap();
    let output = run(&base, "dump", &[]);
    assert_eq!(output.status.code(), Some(65));
    let text = String::from_utf8(output.stdout).unwrap();
    let whole: Vec<_> = all.into_iter().filter(|n| *n != damaged).collect();
    assert_eq!(values(&text), whole);
}

#[test]
fn instances_that_do_not_exist_select_nothing() {
    let (directory, base) = archive_with_instance("sda");
    let copy = directory.path().join("copy");
    let output = run(&base, "extract", &["-i", "sdz", "-o", copy.to_str().unwrap()]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("sdz: no instance of this name in the archive\n"), "{stderr}");
    assert!(stderr.contains("none of the metrics has these instances"), "{stderr}");
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(!copy.with_extension("meta").exists());
}

#[test]
fn a_directory_is_not_the_name_of_an_archive() {
    let (directory, base) = archive();
    let copy = format!("{}/", directory.path().display());
    for (command, options) in [("extract", &["-o", &*copy][..]), ("repair", &["-o", &copy])] {
        let output = run(&base, command, options);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains("add the name of the new archive"), "{command}: {stderr}");
        assert_eq!(output.status.code(), Some(2), "{command}");
    }
    assert!(!directory.path().join(".meta").exists());
}

#[test]
fn a_limit_on_the_size_of_files_is_an_error_with_a_message() {
    let (directory, base) = archive();
    let program = env!("CARGO_BIN_EXE_mmv-archive");
    let script = format!("ulimit -f 1; {program} snapshot {} -o page.html", base.display());
    let mut shell = Command::new("sh");
    let output = shell.args(["-c", &script]).current_dir(directory.path()).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("page.html: File too large"), "{:?}: {stderr}", output.status);
    let left = std::fs::read_dir(directory.path()).unwrap().flatten();
    let left: Vec<_> =
        left.filter(|entry| entry.file_name().to_string_lossy().contains("html")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn instance_in_brackets_is_explained() {
    let (_directory, base) = archive_with_instance("sda");
    let output = run(&base, "report", &["a.x[sda]"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("a.x[sda]: -i selects instances: a.x -i 'sda'\n"), "{stderr}");
    let output = run(&base, "report", &["a.x", "--sum", "--quantile", "0.5"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

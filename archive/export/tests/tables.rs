//! Tables of `mmv-export parquet`, read by the engines of `ci/columns`.
//!
//! The programs of `docs/engines/parquet.md` run as they are there; what they print is what
//! [`summarize`] says of the same archives.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use pcp_archive::replay::Decrease;
use pcp_archive::scan::Selection;
use pcp_archive::summary::{MetricSummary, summarize};
use pcp_archive::{Archive, Semantics, Timestamp};
use serde_json::Value;
use test_archives::{Builder, Cell};

/// Records of each host: an odd number, so that the median is one of the values.
const RECORDS: i64 = 301;
/// 50 minutes before midnight, UTC.
const START: i64 = 1_700_003_400;

/// Skips what this machine cannot run; fails if `PCP=require` forbids that.
fn skip(reason: &str) {
    let required = std::env::var("PCP").is_ok_and(|value| value == "require");
    assert!(!required, "{reason} (PCP=require forbids to skip this)");
    report(&format!("skipped: {reason}"));
}

/// Prints also in tests that pass: the test runner swallows what `eprintln!` has.
fn report(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

fn workspace() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Returns the Python of `ci/columns`, with this package.
fn python(package: &str) -> Option<PathBuf> {
    let columns = workspace().join("target/columns");
    let is_there = columns.join(format!("{package}.complete")).exists();
    if !is_there {
        skip(&format!("no {package}: ci/columns {package} fetches it"));
    }
    is_there.then(|| columns.join("bin/python"))
}

fn run(python: &Path, program: &str, directory: &Path) -> String {
    let file = directory.join("program.py");
    fs::write(&file, program).unwrap();
    let output = Command::new(python).arg(&file).current_dir(directory).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}\n{error}");
    String::from_utf8(output.stdout).unwrap()
}

/// Writes the archive of a host: a counter above 2^53 that restarts after a mark, a gauge, an
/// integer with a sign, and a metric that only one host has.
fn write_host(directory: &Path, host: &str, factor: i64) -> PathBuf {
    let base = directory.join(host).join("20231114");
    let own = format!("mmv.shop.only.{host}");
    let mut builder = Builder::of_host(host, &base)
        .metric("mmv.shop.orders", "u64 counter")
        .metric("mmv.shop.load", "double instant")
        .metric("mmv.shop.balance", "i32 instant")
        .metric(&own, "u32 instant");
    for record in 0..RECORDS {
        let half = RECORDS / 2;
        if record == half {
            builder = builder.mark_at(Timestamp::new(START + record * 20 - 10, 0).unwrap());
        }
        let first: i64 = if record < half { 1 << 60 } else { 0 };
        let values = [
            ("mmv.shop.orders", Cell::from(first + record * factor)),
            ("mmv.shop.load", ((record * 7 % 101 * factor) as f64 / 4.0).into()),
            ("mmv.shop.balance", (record - half).into()),
            (&own, u32::MAX.into()),
        ];
        let timestamp = Timestamp::new(START + record * 20, 123_456_789).unwrap();
        builder = builder.row_at(timestamp, values);
    }
    builder.finish();
    base
}

fn summaries(base: &Path) -> Vec<MetricSummary> {
    let archive = Archive::open(base).unwrap();
    let mut selection = Selection::new(&archive);
    selection.select("");
    let span = archive.label().start..=archive.end();
    summarize(&selection, span, Decrease::Reset).unwrap()
}

/// Writes two hosts' archives and their tables in `lake`; returns what engines must say of each.
fn lake(scratch: &tempfile::TempDir) -> Vec<(&'static str, [f64; 4])> {
    let mut expected = Vec::new();
    for (host, factor) in [("web1", 3), ("web2", 5)] {
        let base = write_host(&scratch.path().join("hosts"), host, factor);
        let summaries = summaries(&base);
        let statistics = |name: &str| {
            let found = summaries.iter().find(|summary| summary.metric.name == name).unwrap();
            found.instances[0].statistics.clone().unwrap()
        };
        let (load, orders) = (statistics("mmv.shop.load"), statistics("mmv.shop.orders"));
        let mut loads: Vec<i64> = (0..RECORDS).map(|record| record * 7 % 101 * factor).collect();
        loads.sort_unstable();
        let median = loads[loads.len() / 2] as f64 / 4.0;
        expected.push((host, [load.count as f64, load.sum, median, orders.sum]));
    }
    export(&["hosts", "-o", "lake"], scratch.path());
    expected
}

fn export(arguments: &[&str], directory: &Path) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mmv-export"));
    let output = command.arg("parquet").args(arguments).current_dir(directory).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn page() -> String {
    fs::read_to_string(workspace().join("docs/engines/parquet.md")).unwrap()
}

fn program(section: &str) -> String {
    let page = page();
    let (_, section) = page.split_once(&format!("\n## {section}\n")).expect("a section");
    let (_, block) = section.split_once("```python\n").expect("a program");
    block.split_once("```").expect("its end").0.to_owned()
}

/// Returns the types of the page's table in the column of an engine, by example: a column of the
/// tables above and its type.
fn types(engine: &str) -> Vec<(&'static str, String)> {
    const EXAMPLES: [(&str, &str); 6] = [
        ("`timestamp`", "timestamp"),
        ("`timestamp_ns`", "timestamp_ns"),
        ("`begins`", "begins"),
        ("metrics of i32, i64", "balance"),
        ("metrics of u32, u64", "orders"),
        ("metrics of float, double", "load"),
    ];
    let page = page();
    let (_, table) = page.split_once("\n## Types\n\n").expect("the table of types");
    let cells = |line: &str| -> Vec<String> {
        line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect()
    };
    let mut lines = table.lines();
    let header = cells(lines.next().unwrap());
    let column = header.iter().position(|name| name == engine).expect("the engine's column");
    let rows: Vec<Vec<String>> =
        lines.take_while(|line| line.starts_with('|')).map(cells).collect();
    EXAMPLES
        .into_iter()
        .map(|(row, example)| {
            let row = rows.iter().find(|cells| cells[0] == row).expect("a row of the table");
            (example, row[column].clone())
        })
        .collect()
}

/// Runs the page's program for an engine, and one that prints a JSON object of types.
fn check(engine: &str, package: &str, types_program: &str) {
    let Some(python) = python(package) else { return };
    let scratch = tempfile::tempdir().unwrap();
    let expected = lake(&scratch);
    let versions = "from importlib.metadata import version\nprint(version";
    let version = run(&python, &format!("{versions}('{package}'))\n"), scratch.path());
    report(&format!("{engine}: version {}", version.trim()));
    let printed = run(&python, &program(engine), scratch.path());
    let lines: Vec<&str> = printed.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(lines.len(), expected.len(), "{printed}");
    for (line, (host, figures)) in lines.iter().zip(expected) {
        let mut words = line.split_whitespace();
        assert_eq!(words.next(), Some(host), "{printed}");
        let found: Vec<f64> = words.map(|word| word.parse().unwrap()).collect();
        assert_eq!(found, figures, "count, sum, median and growth of {host}: {printed}");
    }
    let printed = run(&python, types_program, scratch.path());
    let found: Value = serde_json::from_str(printed.trim()).unwrap();
    for (column, expected) in types(engine) {
        assert_eq!(found[column].as_str(), Some(expected.as_str()), "{engine}: {column}");
    }
}

#[test]
#[ignore = "needs the engines that ci/columns fetches"]
fn duckdb_reads_tables_as_the_page_says() {
    check(
        "DuckDB",
        "duckdb",
        "import duckdb, json\n\
         shop = duckdb.sql(\"SELECT * FROM 'lake/shop/**/*.parquet'\")\n\
         print(json.dumps(dict(zip(shop.columns, map(str, shop.types)))))\n",
    );
}

#[test]
#[ignore = "needs the engines that ci/columns fetches"]
fn datafusion_reads_tables_as_the_page_says() {
    check(
        "DataFusion",
        "datafusion",
        "import datafusion, json\n\
         shop = datafusion.SessionContext().read_parquet('lake/shop/')\n\
         print(json.dumps({field.name: str(field.type) for field in shop.schema()}))\n",
    );
}

/// Writes a histogram by endpoint, a record every ten seconds for three minutes: `/pay` is
/// slow in the second minute, when its program creates the buckets for that, and is restarted in the
/// third one.
fn write_histogram(base: &Path) {
    const BUCKETS: [&str; 3] =
        ["endpoint=/cart,bucket=4..5", "endpoint=/pay,bucket=4..5", "endpoint=/pay,bucket=96..103"];
    let endpoints: &[(&str, &[(&str, &str)])] =
        &[("endpoint=/cart", &[("endpoint", "/cart")]), ("endpoint=/pay", &[("endpoint", "/pay")])];
    let row = |record: i64| {
        let run = if record < 15 { record } else { record - 15 };
        let slow = if record < 15 { (record - 6).clamp(0, 6) } else { 0 };
        let cells = [
            (format!("mmv.shop.latency.bucket[{}]", BUCKETS[0]), 7 * run),
            (format!("mmv.shop.latency.bucket[{}]", BUCKETS[1]), 100 * run),
            (format!("mmv.shop.latency.bucket[{}]", BUCKETS[2]), 3 * slow),
            ("mmv.shop.latency.sum[endpoint=/cart]".to_owned(), 30 * run),
            ("mmv.shop.latency.sum[endpoint=/pay]".to_owned(), 450 * run + 300 * slow),
        ];
        let time = Timestamp::new(START + record * 10, 0).unwrap();
        (time, cells.into_iter().filter(move |(name, count)| *count > 0 || !name.contains("96")))
    };
    let rows = |builder: Builder, records: std::ops::Range<i64>| {
        records.map(row).fold(builder, |builder, (time, cells)| builder.row_at(time, cells))
    };
    let builder = Builder::of_host("web1", base)
        .metric("mmv.shop.latency.bucket", "u64 counter count")
        .metric("mmv.shop.latency.sum", "u64 counter microsec")
        .instances("mmv.shop.latency.bucket", [BUCKETS[0], BUCKETS[1]])
        .instances("mmv.shop.latency.sum", ["endpoint=/cart", "endpoint=/pay"])
        .labels("mmv.shop.latency.bucket", &[("histogram", "microsec")])
        .instance_labels("mmv.shop.latency.sum", endpoints);
    let builder = rows(builder, 0..7).instances("mmv.shop.latency.bucket", BUCKETS);
    let builder = rows(builder, 7..15).mark_at(Timestamp::new(START + 145, 0).unwrap());
    rows(builder, 15..19).finish();
}

/// The quantiles of the page's recipe are those of a report.
#[test]
#[ignore = "needs the engines that ci/columns fetches"]
fn quantiles_in_duckdb_are_those_of_a_report() {
    let Some(python) = python("duckdb") else { return };
    let scratch = tempfile::tempdir().unwrap();
    let base = scratch.path().join("hosts/web1/a");
    write_histogram(&base);
    export(&["hosts", "-o", "lake"], scratch.path());
    let printed = run(&python, &program("Quantiles in DuckDB"), scratch.path());
    let found: Vec<String> = printed.lines().map(str::to_owned).collect();
    let archive = Archive::open(&base).unwrap();
    let series = archive.series("mmv.shop.latency").unwrap().quantile(0.99).every("1m");
    let points = series.between(archive.label().start, archive.end()).unwrap();
    let mut expected = Vec::new();
    for point in points {
        let minute = point.time.seconds() - 60;
        let endpoint = point.instance.unwrap();
        let endpoint = endpoint.strip_prefix("endpoint=").unwrap();
        expected.push(format!("{minute}.0 {endpoint} {:?}", point.value));
    }
    expected.sort();
    assert_eq!(found, expected);
    assert!(expected.iter().any(|row| row.ends_with(" /pay 99.5")), "{expected:?}");
}

fn is_long() -> bool {
    let is_long = std::env::var("MMV_LONG").is_ok();
    if !is_long {
        report("skipped: this engine is in ci/long");
    }
    is_long
}

#[test]
#[ignore = "needs the engines that ci/columns fetches"]
fn clickhouse_reads_tables_as_the_page_says() {
    if is_long() {
        check(
            "ClickHouse",
            "chdb",
            "import chdb, json\n\
             text = str(chdb.query(\"DESCRIBE file('lake/shop/**/*.parquet', Parquet)\", 'TSV'))\n\
             rows = [line.replace(chr(92), '').split(chr(9)) for line in text.splitlines()]\n\
             print(json.dumps({row[0]: row[1] for row in rows}))\n",
        );
    }
}

#[test]
#[ignore = "needs the engines that ci/columns fetches"]
fn polars_reads_tables_as_the_page_says() {
    if is_long() {
        check(
            "Polars",
            "polars",
            "import polars, json\n\
             shop = polars.scan_parquet('lake/shop/host=web1/**/*.parquet')\n\
             types = shop.collect_schema().items()\n\
             print(json.dumps({name: str(type) for name, type in types}))\n",
        );
    }
}

#[test]
#[ignore = "needs the engines that ci/columns fetches"]
fn spark_reads_tables_as_the_page_says() {
    if Command::new("java").arg("-version").output().is_err() {
        report("skipped: Spark needs Java");
    } else if is_long() {
        check(
            "Spark",
            "pyspark",
            "from pyspark.sql import SparkSession\n\
             import json\n\
             spark = SparkSession.builder.master('local[1]').getOrCreate()\n\
             print(json.dumps(dict(spark.read.parquet('lake/shop').dtypes)))\n",
        );
    }
}

fn parquet(arguments: &[&str], directory: &Path) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mmv-export"));
    let output = command.arg("parquet").args(arguments).current_dir(directory).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn damage_costs_only_itself() {
    let scratch = tempfile::tempdir().unwrap();
    let hosts = scratch.path().join("hosts");
    for host in ["web1", "web2", "web3"] {
        write_host(&hosts, host, 1);
    }
    let volume = hosts.join("web1/20231114.0");
    let mut bytes = fs::read(&volume).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 40].fill(0xff);
    fs::write(&volume, bytes).unwrap();
    fs::write(hosts.join("web2/20231114.meta"), [0xff; 2_000]).unwrap();
    let (status, printed, error) = parquet(&["hosts", "-o", "lake"], scratch.path());
    assert_eq!(status, Some(65), "{error}");
    assert!(
        error.contains("mmv-export: web1: ") && error.contains("mmv-export: web2: "),
        "{error}"
    );
    assert!(error.contains("the archives of 2 of 3 hosts could not be read completely"), "{error}");
    let rows = printed.split(' ').nth(3).unwrap().parse::<i64>().unwrap();
    // One of the records is damaged, those after it are found again.
    assert!((2 * RECORDS - 5..2 * RECORDS).contains(&rows), "{printed}");
    assert!(scratch.path().join("lake/shop/host=web3").is_dir());
    assert!(!scratch.path().join("lake/shop/host=web2").exists());
}

#[test]
fn archives_named_without_a_directory_keep_their_hosts_apart() {
    let scratch = tempfile::tempdir().unwrap();
    for host in ["web1", "web2"] {
        write_host(scratch.path(), host, 1);
        let (status, _, error) =
            parquet(&["20231114", "-o", "../lake"], &scratch.path().join(host));
        assert_eq!(status, Some(0), "{error}");
    }
    let table = fs::read_dir(scratch.path().join("lake/shop")).unwrap();
    let mut hosts: Vec<_> = table.map(|entry| entry.unwrap().file_name()).collect();
    hosts.sort();
    assert_eq!(hosts, ["host=web1", "host=web2"]);
}

#[test]
fn exit_statuses_are_those_of_the_help() {
    let scratch = tempfile::tempdir().unwrap();
    write_host(&scratch.path().join("hosts"), "web1", 1);
    write_host(&scratch.path().join("others"), "web1", 1);
    fs::write(scratch.path().join("file"), b"").unwrap();
    for (arguments, status) in [
        (&["-o", "lake", "hosts"][..], 0),
        (&["-o", "lake", "hosts", "-S", "2030-01-01T00:00:00Z"], 1),
        (&["-o", "lake", "hosts", "mmv.nothing"], 1),
        (&["-o", "lake", "hosts,others"], 2),
        (&["-o", "lake", "hosts", "-S", "never"], 2),
        (&["-o", "lake", "hosts", "--csv", "--jsonl"], 2),
        (&["-o", "file", "hosts"], 74),
        (&["-o", "lake", "none"], 74),
    ] {
        let (found, _, error) = parquet(arguments, scratch.path());
        assert_eq!(found, Some(status), "{arguments:?}: {error}");
    }
}

#[test]
fn a_killed_run_leaves_no_part_of_a_file() {
    let scratch = tempfile::tempdir().unwrap();
    write_host(&scratch.path().join("hosts"), "web1", 1);
    let whole = parquet(&["hosts", "-o", "lake"], scratch.path());
    assert_eq!(whole.0, Some(0));
    let part = "shop/host=web1/date=2023-11-14/part-20231114-0.parquet";
    let expected = fs::read(scratch.path().join("lake").join(part)).unwrap();
    for micros in (0..20_000).step_by(500) {
        let lake = format!("lake-{micros}");
        let mut command = Command::new(env!("CARGO_BIN_EXE_mmv-export"));
        let mut child = command
            .args(["parquet", "hosts", "-o", &lake])
            .current_dir(scratch.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_micros(micros));
        child.kill().unwrap();
        child.wait().unwrap();
        if let Ok(found) = fs::read(scratch.path().join(&lake).join(part)) {
            assert!(found == expected, "killed after {micros} us");
        }
        assert_eq!(parquet(&["hosts", "-o", &lake], scratch.path()).0, Some(0));
        assert!(fs::read(scratch.path().join(&lake).join(part)).unwrap() == expected);
    }
}

/// Returns the rows of `mmv-export parquet --narrow` as lines `TIME NAME INSTANCE VALUE`.
fn narrow_rows(arguments: &[&str], directory: &Path) -> Vec<String> {
    let lake = tempfile::tempdir().unwrap();
    let output = ["-o", lake.path().to_str().unwrap(), "--narrow", "--jsonl"];
    let (status, _, error) = parquet(&[arguments, &output].concat(), directory);
    assert_eq!(status, Some(0), "{arguments:?}: {error}");
    let mut rows = Vec::new();
    for host in fs::read_dir(lake.path().join("metrics")).unwrap() {
        for date in fs::read_dir(host.unwrap().path()).unwrap() {
            for file in fs::read_dir(date.unwrap().path()).unwrap() {
                let text = fs::read_to_string(file.unwrap().path()).unwrap();
                rows.extend(text.lines().map(|line| {
                    let row: Value = serde_json::from_str(line).unwrap();
                    let instance = row["instname"].as_str().unwrap_or("-");
                    let time = row["timestamp"].as_str().unwrap();
                    let name = row["name"].as_str().unwrap();
                    format!("{time} {name} {instance} {}", row["value"])
                }));
            }
        }
    }
    rows.sort();
    rows
}

#[test]
fn metrics_and_instances_are_selected_as_in_reports() {
    let scratch = tempfile::tempdir().unwrap();
    let labels: &[(&str, &[(&str, &str)])] =
        &[("a", &[("path", "/cart")]), ("b", &[("path", "/pay")])];
    Builder::of_host("web1", &scratch.path().join("hosts/web1/a"))
        .metric("mmv.shop.orders", "u64 counter count")
        .metric("mmv.shop.requests", "u64 counter count")
        .metric("mmv.db.reads", "u64 counter count")
        .instances("mmv.shop.requests", ["a", "b"])
        .instance_labels("mmv.shop.requests", labels)
        .row(
            0,
            [
                ("mmv.shop.orders", Cell::from(1)),
                ("mmv.shop.requests[a]", 2.into()),
                ("mmv.shop.requests[b]", 3.into()),
                ("mmv.db.reads", 4.into()),
            ],
        )
        .finish();
    let values = |arguments: &[&str]| -> Vec<String> {
        let rows = narrow_rows(&[&["hosts"], arguments].concat(), scratch.path());
        rows.iter().map(|row| row.split_once(' ').unwrap().1.to_owned()).collect()
    };
    let [db, orders, a, b] = [
        "mmv.db.reads - 4.0",
        "mmv.shop.orders - 1.0",
        "mmv.shop.requests a 2.0",
        "mmv.shop.requests b 3.0",
    ];
    assert_eq!(values(&[]), [db, orders, a, b]);
    assert_eq!(values(&["mmv.shop"]), [orders, a, b]);
    assert_eq!(values(&["mmv.*.reads", "mmv.shop.orders"]), [db, orders]);
    assert_eq!(values(&["mmv.shop.requests{path=\"/pay\"}"]), [b]);
    assert_eq!(values(&["-i", "a"]), [db, orders, a]);
}

#[test]
fn window_is_that_of_reports_and_ends_with_the_newest_record() {
    let scratch = tempfile::tempdir().unwrap();
    for (host, seconds) in [("web1", [0, 60, 120]), ("web2", [0, 60, 180])] {
        Builder::of_host(host, &scratch.path().join("hosts").join(host).join("a"))
            .metric("m", "u64 instant")
            .rows(seconds.map(|second| (second, [("m", second)])))
            .finish();
    }
    let times = |arguments: &[&str]| -> Vec<String> {
        let rows = narrow_rows(&[&["hosts"], arguments].concat(), scratch.path());
        rows.iter().map(|row| row.rsplit_once(' ').unwrap().1.to_owned()).collect()
    };
    assert_eq!(times(&["--last", "2m"]), ["60.0", "60.0", "120.0", "180.0"]);
    assert_eq!(times(&["--since", "22:15", "-Z", "UTC"]), ["120.0", "180.0"]);
    assert_eq!(times(&["-S", "30s", "-T", "1m"]), ["60.0", "60.0"]);
    assert_eq!(times(&["--from", "22:14", "--until", "22:14:30", "-Z", "UTC"]), ["60.0", "60.0"]);
    assert_eq!(times(&["-Z", "CET-1", "--since", "23:16"]), ["180.0"]);
}

fn corpus() -> Option<Vec<(String, PathBuf)>> {
    let archives = test_corpus::directory("archives")?;
    let manifest = fs::read(archives.join("MANIFEST.json")).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    let names = manifest.as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap());
    Some(names.map(|name| (name.to_owned(), archives.join(name))).collect())
}

/// Prints for each column of metrics and each instance: PMID, instance, count, sum, minimum,
/// maximum.
const FIGURES: &str = r#"
import duckdb, json, os
for table in sorted(os.listdir("lake")):
    files = f"'lake/{table}/**/*.parquet'"
    about = duckdb.sql(f"SELECT DISTINCT decode(key), decode(value) FROM parquet_kv_metadata({files})")
    about = {key[11:]: json.loads(value) for key, value in about.fetchall()
             if key.startswith("pcp.column.")}
    rows = f"read_parquet({files}, union_by_name = true)"
    has_instances = "instid" in duckdb.sql(f"SELECT * FROM {rows}").columns
    instance = "instid" if has_instances else "NULL::INTEGER"
    for column, metric in about.items():
        c = f'"{column}"'
        figures = duckdb.sql(f"""
            SELECT {instance} AS i, count({c}), fsum({c}::DOUBLE), min({c})::DOUBLE,
                   max({c})::DOUBLE
            FROM {rows} WHERE {c} IS NOT NULL AND NOT isnan({c}::DOUBLE) GROUP BY i""")
        for figure in figures.fetchall():
            print(json.dumps([metric["pmid"], *figure]))
"#;

#[test]
#[ignore = "needs the engines that ci/columns fetches"]
fn figures_of_the_corpus_in_duckdb_are_those_of_summaries() {
    let (Some(python), Some(archives)) = (python("duckdb"), corpus()) else { return };
    let (mut compared, mut differences) = (0, Vec::new());
    // All of them take a minute.
    let every = if std::env::var("MMV_LONG").is_ok() { 1 } else { 16 };
    for (name, base) in archives.iter().step_by(every) {
        let scratch = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_mmv-export"));
        let output =
            command.args(["parquet", "-o", "lake"]).arg(base).current_dir(scratch.path()).output();
        let output = output.unwrap();
        if output.status.code() == Some(1) {
            continue;
        }
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        let printed = run(&python, FIGURES, scratch.path());
        let rows: Vec<Value> =
            printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        for summary in summaries(base) {
            if summary.metric.desc.semantics == Semantics::Counter {
                continue;
            }
            for instance in &summary.instances {
                let Some(expected) = &instance.statistics else { continue };
                let id = instance.instance.map(pcp_archive::InstanceId::get);
                let found = rows.iter().find(|row| {
                    row[0] == summary.metric.desc.pmid.to_string()
                        && row[1].as_i64() == id.map(i64::from)
                });
                compared += 1;
                let is_equal = found.is_some_and(|row| {
                    let near = |at: usize, value: f64| {
                        row[at].as_f64().is_some_and(|found| {
                            (found - value).abs() <= 1e-9 * value.abs().max(1e-9)
                        })
                    };
                    row[2].as_u64() == Some(expected.count)
                        && near(3, expected.sum)
                        && near(4, expected.minimum.value)
                        && near(5, expected.maximum.value)
                });
                if !is_equal {
                    let metric = &summary.metric.name;
                    differences.push(format!("{name} {metric} {id:?}: {found:?} {expected:?}"));
                }
            }
        }
    }
    assert!(compared > 200, "only {compared} figures compared");
    let shown = differences.iter().take(10).map(String::as_str).collect::<Vec<_>>().join("\n");
    assert!(differences.is_empty(), "{} of {compared} differ, such as\n{shown}", differences.len());
}

use std::fs;
use std::path::{Path, PathBuf};

use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::{Field, Row};
use pcp_archive::raw::{LabelClass, LabelSet, LabelTarget};
use pcp_archive::{ArchiveWriter, Pmid};
use test_archives::{Builder, Cell, at};

use super::*;
use crate::test_support::begin;
use crate::tree::Archives;

struct FileTarget {
    directory: tempfile::TempDir,
}

impl FileTarget {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    fn base(&self, name: &str) -> PathBuf {
        let archives = self.directory.path().join("web1");
        fs::create_dir_all(&archives).unwrap();
        archives.join(name)
    }

    fn lake(&self) -> PathBuf {
        self.directory.path().join("lake")
    }

    fn options(&self) -> Options {
        Options {
            directory: self.lake(),
            format: Format::Parquet,
            is_narrow: false,
            selection: MetricSelection::default(),
            start: None,
            finish: None,
        }
    }

    fn export(&self, options: Options) -> Exporter {
        let archives = Archives::Directory(self.directory.path().join("web1"));
        let host = Host { name: "web1".into(), archives };
        let mut exporter = Exporter::new(options);
        assert!(exporter.write_host(&host, &mut |error| panic!("{error}")).unwrap());
        exporter
    }

    fn files(&self) -> Vec<String> {
        fn add(directory: &Path, below: &Path, files: &mut Vec<String>) {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    add(&path, below, files);
                } else {
                    files.push(path.strip_prefix(below).unwrap().display().to_string());
                }
            }
        }
        let mut files = Vec::new();
        add(&self.lake(), &self.lake(), &mut files);
        files.sort();
        files
    }

    fn rows(&self, file: &str) -> Vec<Row> {
        let file = fs::File::open(self.lake().join(file)).unwrap();
        let reader = SerializedFileReader::new(file).unwrap();
        reader.get_row_iter(None).unwrap().map(Result::unwrap).collect()
    }
}

fn fields(row: &Row, columns: &[&str]) -> Vec<Field> {
    let field = |name: &&str| {
        let found = row.get_column_iter().find(|(column, _)| column == name);
        found.unwrap_or_else(|| panic!("no column {name} in {row}")).1.clone()
    };
    columns.iter().map(field).collect()
}

/// Returns what the metadata of a file says of a column.
fn about(place: &FileTarget, file: &str, column: &str) -> serde_json::Value {
    let file = fs::File::open(place.lake().join(file)).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    let metadata = reader.metadata().file_metadata().key_value_metadata().unwrap().clone();
    let key = format!("pcp.column.{column}");
    let about = metadata.iter().find(|pair| pair.key == key).unwrap();
    serde_json::from_str(about.value.as_ref().unwrap()).unwrap()
}

/// Returns rows as text: numbers and text as they are, null as `-`.
fn shown(rows: &[Row], columns: &[&str]) -> Vec<String> {
    let shown = |field: Field| match field {
        Field::Null => "-".to_owned(),
        Field::Str(text) => text,
        other => other.to_string(),
    };
    rows.iter()
        .map(|row| fields(row, columns).into_iter().map(shown).collect::<Vec<_>>().join(" "))
        .collect()
}

fn text(text: &str) -> Field {
    Field::Str(text.into())
}

const DATE: &str = "host=web1/date=2023-11-14";

#[test]
fn a_row_has_the_values_of_a_record_as_they_are() {
    let place = FileTarget::new();
    let values: [(&str, Cell, Field); 6] = [
        ("i32", (-1).into(), Field::Long(-1)),
        ("u32", u32::MAX.into(), Field::ULong(u32::MAX.into())),
        ("i64", i64::MIN.into(), Field::Long(i64::MIN)),
        ("u64", u64::MAX.into(), Field::ULong(u64::MAX)),
        ("float", 1.5.into(), Field::Double(1.5)),
        ("double", (-0.1).into(), Field::Double(-0.1)),
    ];
    let mut builder = begin(&place.base("a"));
    let (mut cells, mut columns, mut expected) = (Vec::new(), Vec::new(), Vec::new());
    for (item, (value_type, value, field)) in (1..).zip(values) {
        let name = format!("mmv.shop.m{item}");
        builder = builder.metric(&name, &format!("{value_type} instant"));
        cells.push((name, value));
        columns.push(format!("m{item}"));
        expected.push(field);
    }
    builder.row(0, cells).finish();
    let exporter = place.export(place.options());
    let file = format!("shop/{DATE}/part-a-0.parquet");
    let rows = place.rows(&file);
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    assert_eq!(fields(&rows[0], &columns), expected);
    let times = fields(&rows[0], &["timestamp", "timestamp_ns", "hostname"]);
    let micros = at(0).as_nanos() as i64 / 1_000;
    let time = Field::TimestampMicros(micros);
    assert_eq!(times, [time, Field::Long(micros * 1_000), text("web1")]);
    let bytes = fs::metadata(place.lake().join(file)).unwrap().len();
    let totals = Totals { files: 1, rows: 1, values: 6, bytes };
    assert_eq!(exporter.totals()["shop"], totals);
}

fn with_instances(base: &Path) -> Builder {
    begin(base)
        .metric("mmv.shop.http.requests", "u64 counter count")
        .metric("mmv.shop.http.errors", "u64 counter count")
        .in_domain("mmv.shop.http.requests", 2049)
        .in_domain("mmv.shop.http.errors", 2049)
        .numbered_instances("mmv.shop.http.requests", [(1, "/cart"), (2, "/pay")])
}

#[test]
fn instances_are_rows_and_what_a_record_lacks_is_null() {
    let place = FileTarget::new();
    let requests = |path| format!("mmv.shop.http.requests[{path}]");
    let errors = |path| format!("mmv.shop.http.errors[{path}]");
    with_instances(&place.base("a"))
        .row(0, [(requests("/cart"), 10), (requests("/pay"), 20), (errors("/pay"), 1)])
        .row(1, [(errors("/pay"), 2), (errors("/cart"), 5), (requests("/cart"), 11)])
        .finish();
    place.export(place.options());
    let rows = place.rows(&format!("shop_http/{DATE}/part-a-0.parquet"));
    let columns = ["instid", "instname", "http_requests", "http_errors"];
    let found: Vec<Vec<Field>> = rows.iter().map(|row| fields(row, &columns)).collect();
    let row = |id, name, requests: Option<u64>, errors: Option<u64>| {
        let value = |value: Option<u64>| value.map_or(Field::Null, Field::ULong);
        vec![Field::Int(id), text(name), value(requests), value(errors)]
    };
    let expected = [
        row(1, "/cart", Some(10), None),
        row(2, "/pay", Some(20), Some(1)),
        row(2, "/pay", None, Some(2)),
        row(1, "/cart", Some(11), Some(5)),
    ];
    assert_eq!(found, expected);
}

#[test]
fn rows_after_a_mark_begin() {
    let place = FileTarget::new();
    let row = |second| (second, [("mmv.shop.orders", 7)]);
    let builder = begin(&place.base("a")).metric("mmv.shop.orders", "u64 counter count");
    builder.rows([0, 1].map(row)).mark(2).rows([3, 4].map(row)).finish();
    place.export(place.options());
    let rows = place.rows(&format!("shop/{DATE}/part-a-0.parquet"));
    let begins: Vec<Field> = rows.iter().flat_map(|row| fields(row, &["begins"])).collect();
    assert_eq!(begins, [true, false, true, false].map(Field::Bool));
}

#[test]
fn rows_have_the_labels_that_all_their_metrics_have() {
    let place = FileTarget::new();
    let labels = |writer: &mut ArchiveWriter| {
        for item in ["1", "2"] {
            let pairs = [("item", item, false), ("zone", "\"b\"", false)];
            let set = LabelSet::from_pairs(LabelClass::Item, pairs).unwrap();
            let pmid = Pmid::new(70, 1, item.parse().unwrap()).unwrap();
            writer.declare_labels(LabelTarget::Item(pmid), &[set]).unwrap();
        }
    };
    begin(&place.base("a"))
        .metric("mmv.shop.orders", "u64 counter count")
        .metric("mmv.shop.errors", "u64 counter count")
        .with_writer(labels)
        .row(0, [("mmv.shop.orders", 1), ("mmv.shop.errors", 2)])
        .finish();
    place.export(place.options());
    let rows = place.rows(&format!("shop/{DATE}/part-a-0.parquet"));
    assert_eq!(shown(&rows, &["zone", "orders", "errors"]), ["b 1 2"]);
    assert!(rows[0].get_column_iter().all(|(name, _)| name != "item"), "{}", rows[0]);
    let labels = |column: &str| {
        about(&place, &format!("shop/{DATE}/part-a-0.parquet"), column)["labels"].clone()
    };
    assert_eq!(labels("orders"), serde_json::json!({"item": "1", "zone": "b"}));
    assert_eq!(labels("errors"), serde_json::json!({"item": "2", "zone": "b"}));
    place.export(Options { is_narrow: true, ..place.options() });
    let rows = place.rows(&format!("metrics/{DATE}/part-a-0.parquet"));
    let found = shown(&rows, &["name", "item", "zone", "value"]);
    let expected = ["mmv.shop.orders 1 b 1.0", "mmv.shop.errors 2 b 2.0"];
    assert_eq!(found, expected);
}

#[test]
fn files_are_of_a_day_and_archive_and_the_same_each_run() {
    let place = FileTarget::new();
    for (name, from) in [("a", 6_000), ("b", 7_000)] {
        // 6 400 s after the start of the tests is midnight.
        begin(&place.base(name))
            .metric("mmv.shop.orders", "u64 counter count")
            .rows((0..900).map(|second| (from + second, [("mmv.shop.orders", second)])))
            .finish();
    }
    place.export(place.options());
    let files = place.files();
    let expected = [
        format!("shop/{DATE}/part-a-0.parquet"),
        "shop/host=web1/date=2023-11-15/part-a-0.parquet".into(),
        "shop/host=web1/date=2023-11-15/part-b-0.parquet".into(),
    ];
    assert_eq!(files, expected);
    let contents = || files.iter().map(|file| fs::read(place.lake().join(file)).unwrap());
    let first: Vec<_> = contents().collect();
    assert_eq!(place.rows(&files[0]).len(), 400);
    // Of a run that made more of the archive, and of another archive.
    let stale = place.lake().join("shop").join(DATE).join("part-a-1.parquet");
    let other = stale.with_file_name("part-c-1.parquet");
    fs::write(&stale, b"").unwrap();
    fs::write(&other, b"").unwrap();
    place.export(place.options());
    assert!(contents().eq(first));
    assert!(!stale.exists() && other.exists());
}

#[test]
fn a_window_has_its_first_and_last_time() {
    let place = FileTarget::new();
    begin(&place.base("a"))
        .metric("mmv.shop.orders", "u64 counter count")
        .rows((0..10).map(|second| (second, [("mmv.shop.orders", second)])))
        .finish();
    place.export(Options { start: Some(at(3)), finish: Some(at(5)), ..place.options() });
    let rows = place.rows(&format!("shop/{DATE}/part-a-0.parquet"));
    let values: Vec<Field> = rows.iter().flat_map(|row| fields(row, &["orders"])).collect();
    assert_eq!(values, [3, 4, 5].map(Field::ULong));
}

#[test]
fn a_metric_of_another_type_gets_a_column_of_its_own() {
    let place = FileTarget::new();
    let builder = begin(&place.base("a")).metric("mmv.shop.load", "u32 instant");
    builder.row(0, [("mmv.shop.load", 1)]).finish();
    let builder = begin(&place.base("b")).metric("mmv.shop.load", "double instant");
    builder.row(10, [("mmv.shop.load", 0.5)]).finish();
    place.export(place.options());
    let row = |archive| place.rows(&format!("shop/{DATE}/part-{archive}-0.parquet")).remove(0);
    assert_eq!(fields(&row("a"), &["load"]), [Field::ULong(1)]);
    assert_eq!(fields(&row("b"), &["load_f64"]), [Field::Double(0.5)]);
}

#[test]
fn text_has_the_same_rows() {
    let place = FileTarget::new();
    let requests =
        [("mmv.shop.http.requests[/cart]", u64::MAX), ("mmv.shop.http.requests[/pay]", 20)];
    with_instances(&place.base("a")).row(0, requests).finish();
    place.export(Options { format: Format::Csv, ..place.options() });
    place.export(Options { format: Format::JsonLines, ..place.options() });
    let part = |ending| {
        let file = format!("shop_http/{DATE}/part-a-0.{ending}");
        fs::read_to_string(place.lake().join(file)).unwrap()
    };
    let expected = "timestamp,timestamp_ns,begins,hostname,instid,instname,\
                    http_requests\n\
                    2023-11-14T22:13:20.000000Z,1700000000000000000,true,web1,1,/cart,\
                    18446744073709551615\n\
                    2023-11-14T22:13:20.000000Z,1700000000000000000,true,web1,2,/pay,20\n";
    assert_eq!(part("csv"), expected);
    let expected = "{\"timestamp\":\"2023-11-14T22:13:20.000000Z\",\
                    \"timestamp_ns\":1700000000000000000,\"begins\":true,\"hostname\":\"web1\",\
                    \"instid\":1,\"instname\":\"/cart\",\
                    \"http_requests\":18446744073709551615}";
    assert_eq!(part("jsonl").lines().next(), Some(expected));
}

#[test]
fn columns_say_what_they_are() {
    let place = FileTarget::new();
    crate::test_support::small(&place.base("a"), 0);
    place.export(place.options());
    let about = about(&place, &format!("shop/{DATE}/part-a-0.parquet"), "orders");
    let expected = serde_json::json!({
        "metric": "mmv.shop.orders",
        "pmid": "70.1.1",
        "type": "64-bit unsigned int",
        "semantics": "counter",
        "units": "count",
        "indom": null,
        "labels": {},
        "help": "The metric mmv.shop.orders of Performance Co-Pilot.",
    });
    assert_eq!(about, expected);
}

#[test]
fn rows_beyond_the_budget_begin_a_row_group() {
    let place = FileTarget::new();
    let names: Vec<String> = (1..=1_001).map(|item| format!("mmv.shop.m{item}")).collect();
    let declare = |builder: Builder, name: &String| builder.metric(name, "u64 counter count");
    // A cell without a value takes as much of the budget.
    let row = |second: i32| {
        let columns = match second {
            0 => 0..1_000,
            1..2_560 => 0..10,
            _ => 991..1_001,
        };
        (second, names[columns].iter().map(move |name| (name, second)))
    };
    let builder = names.iter().fold(begin(&place.base("a")), declare);
    builder.rows((0..2_600).map(row)).finish();
    let exporter = place.export(place.options());
    let totals = exporter.totals()["shop"];
    assert_eq!((totals.rows, totals.values), (2_600, 1_000 + 2_599 * 10));
    assert_eq!(totals.files, 2);
    let rows = |part| {
        let path = place.lake().join(format!("shop/{DATE}/part-a-{part}.parquet"));
        let reader = SerializedFileReader::new(fs::File::open(path).unwrap()).unwrap();
        let groups = reader.metadata().row_groups();
        let bytes = groups.iter().map(|group| group.num_rows() as usize * 1_000 * 10).max();
        assert!(bytes.unwrap() <= super::host::MAX_BUFFERED + 20_000, "{bytes:?}");
        groups.iter().map(RowGroupMetaData::num_rows).sum::<i64>()
    };
    assert_eq!(rows(0) + rows(1), 2_600);
}

#[test]
fn buckets_are_rows_with_bounds_and_labels_of_their_histogram() {
    let place = FileTarget::new();
    let paths: &[(&str, &[(&str, &str)])] =
        &[("path=/a", &[("path", "/a"), ("upper", "x")]), ("path=/b", &[("path", "/b")])];
    let buckets = ["path=/a,bucket=4..5", "path=/b,bucket=12.."];
    begin(&place.base("a"))
        .metric("mmv.web.latency.bucket", "u64 counter count")
        .metric("mmv.web.latency.sum", "u64 counter microsec")
        .instances("mmv.web.latency.bucket", buckets)
        .instances("mmv.web.latency.sum", ["path=/a", "path=/b"])
        .labels("mmv.web.latency.bucket", &[("histogram", "microsec"), ("team", "checkout")])
        .instance_labels("mmv.web.latency.sum", paths)
        .row(
            0,
            [
                ("mmv.web.latency.bucket[path=/a,bucket=4..5]", 9),
                ("mmv.web.latency.bucket[path=/b,bucket=12..]", 8),
                ("mmv.web.latency.sum[path=/a]", 40),
                ("mmv.web.latency.sum[path=/b]", 100),
            ],
        )
        .finish();
    place.export(place.options());
    let rows = place.rows(&format!("web_latency/{DATE}/part-a-0.parquet"));
    let columns = ["instname", "path", "team", "label_upper", "lower", "upper", "count"];
    let expected = ["path=/a /a checkout x 4.0 5.0 9", "path=/b /b checkout - 12.0 - 8"];
    assert_eq!(shown(&rows, &columns), expected);
    let rows = place.rows(&format!("web_latency_sum/{DATE}/part-a-0.parquet"));
    assert_eq!(shown(&rows, &["path", "latency_sum"]), ["/a 40", "/b 100"]);
}

#[test]
fn counter_that_appears_in_a_running_program_has_zeros() {
    let place = FileTarget::new();
    let requests = |path| format!("mmv.shop.http.requests[{path}]");
    let row = |second, cells: &[(String, i64)]| (second, cells.to_vec());
    begin(&place.base("a"))
        .metric("mmv.shop.http.requests", "u64 counter count")
        .metric("mmv.shop.http.open", "u64 instant count")
        .in_domain("mmv.shop.http.requests", 2049)
        .in_domain("mmv.shop.http.open", 2049)
        .numbered_instances("mmv.shop.http.requests", [(1, "/cart")])
        .rows([0, 10].map(|second| row(second, &[(requests("/cart"), second)])))
        .numbered_instances("mmv.shop.http.requests", [(1, "/cart"), (2, "/pay")])
        .rows([row(
            20,
            &[
                (requests("/cart"), 20),
                (requests("/pay"), 5),
                ("mmv.shop.http.open[/pay]".to_owned(), 1),
            ],
        )])
        .finish();
    place.export(place.options());
    let columns = ["instname", "begins", "http_requests", "http_open"];
    let rows = place.rows(&format!("shop_http/{DATE}/part-a-0.parquet"));
    let expected = [
        "/cart true 0 -",
        "/cart false 10 -",
        "/pay true 0 -",
        "/cart false 20 -",
        "/pay false 5 1",
    ];
    assert_eq!(shown(&rows, &columns), expected);
    let times = shown(&rows, &["timestamp_ns"]);
    assert_eq!(times[2], at(10).as_nanos().to_string(), "the last values of the metric before");
    // Growth before the window is not in it.
    place.export(Options { start: Some(at(15)), ..place.options() });
    let rows = place.rows(&format!("shop_http/{DATE}/part-a-0.parquet"));
    assert_eq!(
        shown(&rows, &["instname", "begins", "http_requests"]),
        ["/cart true 20", "/pay true 5"]
    );
}

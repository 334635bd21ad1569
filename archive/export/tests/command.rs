//! The command, run as a user runs it.

use std::path::Path;
use std::process::{Command, Output};

use pcp_archive::{
    ArchiveWriter, FetchResult, MetricDesc, OwnedValue, Pmid, Semantics, Timestamp, Units,
    ValueSet, ValueType, WriterLabel, WriterOptions,
};

fn mmv_export(arguments: &[&str], directory: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mmv-export"))
        .args(arguments)
        .current_dir(directory)
        .output()
        .unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// An archive with a counter of this name, of a host with this name.
fn archive(base: &Path, hostname: &str, metric: &str) {
    std::fs::create_dir_all(base.parent().unwrap()).unwrap();
    let label = WriterLabel {
        pid: 1,
        hostname: hostname.into(),
        timezone: "UTC".into(),
        zoneinfo: "".into(),
    };
    let mut writer = ArchiveWriter::create(base, label, WriterOptions::default()).unwrap();
    let desc = MetricDesc {
        pmid: Pmid::new(70, 1, 1).unwrap(),
        value_type: ValueType::U64,
        indom: None,
        semantics: Semantics::Counter,
        units: Units::count(),
    };
    writer.declare_metric(&desc, &[metric]).unwrap();
    let values = Ok(vec![(None, OwnedValue::U64(1))]);
    let value_sets = vec![ValueSet { pmid: desc.pmid, values }];
    let timestamp = Timestamp::new(1_700_000_000, 0).unwrap();
    writer.write_result(&FetchResult { timestamp, value_sets }).unwrap();
    writer.finish().unwrap();
}

#[test]
fn mapping_prints_what_metrics_are_called() {
    let tree = tempfile::tempdir().unwrap();
    archive(&tree.path().join("web1/a"), "web1.example.org", "mmv.shop.orders");
    archive(&tree.path().join("db1/a"), "db1.example.org", "mmv.db.reads");
    let output = mmv_export(&["mapping", "."], tree.path());
    assert!(output.status.success(), "{}", stderr(&output));
    let expected = "db1 mmv.db.reads -> mmv_db_reads_total (counter)\n\
                    web1 mmv.shop.orders -> mmv_shop_orders_total (counter)\n";
    assert_eq!(stdout(&output), expected);
    let output = mmv_export(&["mapping", "--json", "--host", "web*", "."], tree.path());
    let expected = "{\"host\":\"web1\",\"metric\":\"mmv.shop.orders\",\"type\":\"counter\",\
                    \"is_exported\":true,\"family\":\"mmv_shop_orders\",\
                    \"sample\":\"mmv_shop_orders_total\",\"unit\":null,\
                    \"column\":\"mmv_shop_orders\",\
                    \"labels\":[[\"hostname\",\"web1.example.org\"]]}\n";
    assert_eq!(stdout(&output), expected);
}

#[test]
fn an_archive_in_the_working_directory_has_its_host_by_any_name() {
    let tree = tempfile::tempdir().unwrap();
    let web1 = tree.path().join("web1");
    archive(&web1.join("a"), "web1.example.org", "mmv.shop.orders");
    let expected = "web1 mmv.shop.orders -> mmv_shop_orders_total (counter)\n";
    for names in [&["a"][..], &["a.meta"], &["./a"], &["."], &["a", "./a.0"]] {
        let output = mmv_export(&[&["mapping"], names].concat(), &web1);
        assert_eq!(stdout(&output), expected, "{names:?}: {}", stderr(&output));
    }
}

#[test]
fn a_damaged_host_costs_only_itself() {
    let tree = tempfile::tempdir().unwrap();
    archive(&tree.path().join("web1/a"), "web1", "mmv.shop.orders");
    archive(&tree.path().join("db1/a"), "db1", "mmv.db.reads");
    std::fs::write(tree.path().join("db1/a.meta"), [0xff; 2_000]).unwrap();
    let output = mmv_export(&["mapping", "."], tree.path());
    assert_eq!(output.status.code(), Some(65));
    assert_eq!(stdout(&output), "web1 mmv.shop.orders -> mmv_shop_orders_total (counter)\n");
    let message = stderr(&output);
    assert!(message.starts_with("mmv-export: db1: "), "{message}");
    assert!(message.contains("archives of 1 of 2 hosts were not read"), "{message}");
}

#[test]
fn exit_statuses_are_those_of_the_help() {
    let tree = tempfile::tempdir().unwrap();
    archive(&tree.path().join("web1/a"), "web1", "mmv.shop.orders");
    for (arguments, status) in [
        (&["mapping"][..], 2),
        (&["mapping", "none"], 74),
        (&["mapping", "--host", "x*", "."], 1),
        (&["mapping", "web1"], 0),
        (&["--help"], 0),
        (&["nothing"], 2),
    ] {
        let output = mmv_export(arguments, tree.path());
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {}", stderr(&output));
    }
}

#[test]
fn names_of_archives_do_nothing_to_a_terminal() {
    let tree = tempfile::tempdir().unwrap();
    archive(&tree.path().join("web\u{1b}[31m/a"), "web1", "mmv.shop.orders");
    let output = mmv_export(&["mapping", "."], tree.path());
    assert!(!output.stdout.contains(&0x1b), "{}", stdout(&output));
    assert!(stdout(&output).starts_with(r"web\x1b[31m mmv.shop.orders"), "{}", stdout(&output));
}

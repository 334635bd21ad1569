//! The command, run as a user runs it.

use std::path::Path;
use std::process::{Command, Output};

use test_archives::Builder;

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

fn archive(base: &Path, hostname: &str, metric: &str) {
    let builder = Builder::of_host(hostname, base).metric(metric, "u64 counter count");
    builder.row(0, [(metric, 1)]).finish();
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
                    \"column\":\"orders\",\
                    \"labels\":[[\"hostname\",\"web1.example.org\"]]}\n";
    assert_eq!(stdout(&output), expected);
}

#[test]
fn an_archive_in_the_working_directory_has_its_host_by_any_name() {
    let tree = tempfile::tempdir().unwrap();
    let web1 = tree.path().join("web1");
    archive(&web1.join("a"), "web1.example.org", "mmv.shop.orders");
    let expected = "web1 mmv.shop.orders -> mmv_shop_orders_total (counter)\n";
    for names in [&["a"][..], &["a.meta"], &["./a"], &["."], &["a,./a.0"]] {
        let output = mmv_export(&[&["mapping"], names].concat(), &web1);
        assert_eq!(stdout(&output), expected, "{names:?}: {}", stderr(&output));
    }
}

#[test]
fn agent_archives_are_named_by_an_at_sign() {
    let state = tempfile::tempdir().unwrap();
    archive(&state.path().join("mmv-agent/archives/web1/a"), "web1", "mmv.shop.orders");
    let mut command = Command::new(env!("CARGO_BIN_EXE_mmv-export"));
    let output = command.env("XDG_STATE_HOME", state.path()).args(["mapping", "@"]).output();
    let output = output.unwrap();
    let expected = "web1 mmv.shop.orders -> mmv_shop_orders_total (counter)\n";
    assert_eq!(stdout(&output), expected, "{}", stderr(&output));
}

#[test]
fn mapping_is_of_selected_metrics() {
    let tree = tempfile::tempdir().unwrap();
    archive(&tree.path().join("web1/a"), "web1", "mmv.shop.orders");
    archive(&tree.path().join("db1/a"), "db1", "mmv.db.reads");
    let output = mmv_export(&["mapping", ".", "mmv.shop", "mmv.nothing"], tree.path());
    assert_eq!(stdout(&output), "web1 mmv.shop.orders -> mmv_shop_orders_total (counter)\n");
    let expected = "mmv-export: mmv.nothing: no metric of this name in the archives\n";
    assert_eq!(stderr(&output), expected);
    let output = mmv_export(&["mapping", ".", "mmv.shop{code"], tree.path());
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
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
    assert!(
        message.contains("the archives of 1 of 2 hosts could not be read completely"),
        "{message}"
    );
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

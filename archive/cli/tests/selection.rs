//! Every command selects the same metrics and instances by name.

use std::path::{Path, PathBuf};

use pcp_archive::Pmid;
use tempfile::TempDir;
use test_archives::Builder;

use crate::program::{printed_of, run_on, text};

fn archive() -> (TempDir, PathBuf) {
    let values = [("disk.io[sda disk]", 100), ("disk.io[sdb disk]", 107), ("disk.io[0007]", 108)];
    Builder::named("disks")
        .metric_with(Pmid::new(60, 0, 1).unwrap(), "disk.io", "u32 instant")
        .numbered_instances("disk.io", [(0, "sda disk"), (7, "sdb disk"), (8, "0007")])
        .rows((0..3).map(|second| (second, values)))
        .finish()
        .into_parts()
}

fn printed(base: &Path, command: &str, options: &[&str]) -> String {
    printed_of(base, &[&[command], options].concat())
}

#[test]
fn an_instance_is_selected_by_number_name_or_first_word() {
    let (directory, base) = archive();
    let meant = [("7", "sdb disk"), ("sda", "sda disk"), ("0007", "0007"), ("8", "0007")];
    for (text, name) in meant {
        let title = format!("disk.io[{name}]");
        let csv = printed(&base, "report", &["disk.io", "-i", text, "--format", "csv"]);
        assert_eq!(csv.lines().next(), Some(&*format!("Time,Seconds,{title}")), "{text}");
        let csv = printed(&base, "summary", &["disk.io", "-i", text, "--format", "csv"]);
        let line = format!("disk.io,{name},");
        assert!(csv.lines().count() == 2 && csv.contains(&line), "{text}: {csv}");
        let options = ["disk.io", "-i", text, "--json", "-s", "1"];
        let json: serde_json::Value =
            serde_json::from_str(&printed(&base, "follow", &options)).unwrap();
        assert_eq!(json["instance"], name, "{text}");
        let plot = printed(&base, "plot", &["disk.io", "-i", text]);
        for (_, other) in meant {
            assert_eq!(plot.contains(other), other == name, "{text}: {plot}");
        }
        let expression = format!("disk.io[{text}] + 0");
        let csv = printed(&base, "report", &["-e", &expression, "--format", "csv"]);
        assert!(csv.lines().next().unwrap().ends_with(&format!("[{name}]")), "{csv}");
        let new = directory.path().join(format!("new.{text}.x"));
        printed(&base, "extract", &["-i", text, "-o", new.to_str().unwrap()]);
        let csv = printed(&new, "report", &["disk.io", "--format", "csv"]);
        assert_eq!(csv.lines().next(), Some(&*format!("Time,Seconds,{title}")), "{text}");
    }
}

#[test]
fn an_unknown_instance_is_a_warning() {
    let (directory, base) = archive();
    let new = directory.path().join("new");
    let new = new.to_str().unwrap();
    for (command, options) in [
        ("report", &["disk.io"][..]),
        ("summary", &["disk.io"]),
        ("plot", &["disk.io"]),
        ("extract", &["-o", new]),
    ] {
        let instances = ["-i", "sdb", "-i", "sdx"];
        let output = run_on(&base, &[&[command], options, &instances].concat());
        assert!(output.status.success(), "{command}: {output:?}");
        let errors = text(&output.stderr);
        let expected = "mmv-archive: sdx: no instance of this name in the archive\n";
        assert_eq!(errors, expected, "{command}");
    }
}

#[test]
fn an_expression_in_place_of_a_name_is_told_its_option() {
    let (_directory, base) = archive();
    for command in ["report", "plot", "summary", "metrics", "follow", "events", "explain"] {
        for expression in ["rate(disk.io)", "disk.io / 2", "sum(disk.io{host=\"a\"})"] {
            let output = run_on(&base, &[command, expression]);
            assert_eq!(output.status.code(), Some(2), "{command}: {output:?}");
            let expected = format!(
                "mmv-archive: {expression} is an expression, not the name of a metric; report and plot \
                 take it as -e '{expression}'\n"
            );
            assert_eq!(text(&output.stderr), expected, "{command}");
        }
    }
}

#[test]
fn every_command_selects_metrics_by_pattern() {
    let (_directory, base) = archive();
    for pattern in ["disk.io", "disk", "*.io", "di?k.*"] {
        assert!(printed(&base, "dump", &[pattern]).contains("(disk.io)"), "{pattern}");
        assert_eq!(printed(&base, "metrics", &["--names", pattern]), "disk.io\n", "{pattern}");
        assert!(printed(&base, "report", &[pattern]).contains("disk.io"), "{pattern}");
    }
}

#[test]
fn the_agents_own_metrics_are_shown_if_they_are_named() {
    let values = [
        ("mmv.agent.records", 1),
        ("mmv.shop.failures", 2),
        ("mmv.shop.queue", 3),
        ("pmcd.pid", 4),
    ];
    let (_directory, base) = Builder::new()
        .metric("mmv.agent.records", "u32 instant none")
        .metric("mmv.shop.queue", "u32 instant none")
        .metric("mmv.shop.failures", "u32 instant none")
        .metric("pmcd.pid", "u32 discrete none")
        .rows((0..3).map(|second| (second, values)))
        .finish()
        .into_parts();
    let commands: [(&str, &[&str]); 4] =
        [("report", &[]), ("summary", &[]), ("follow", &["-s", "1"]), ("plot", &[])];
    for (command, options) in commands {
        let shown = |metrics: &[&str]| {
            let text = printed(&base, command, &[metrics, options].concat());
            ["failures", "queue", "records", "pid"].map(|name| text.contains(name))
        };
        assert_eq!(shown(&["mmv"]), [true, true, false, false], "{command}");
        assert_eq!(shown(&["mmv", "mmv.agent"]), [true, true, true, false], "{command}");
        assert_eq!(shown(&["pmcd"]), [false, false, false, true], "{command}");
        assert_eq!(shown(&["mmv", "pmcd.*", "--all"]), [true; 4], "{command}");
    }
    let options = ["mmv", "pmcd", "--format", "csv"];
    assert!(printed(&base, "report", &options).contains("mmv.agent.records"), "data is whole");
    let table = printed(&base, "summary", &[]);
    assert!(table.find("failures") < table.find("queue"), "errors come first: {table}");
}

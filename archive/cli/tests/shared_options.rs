//! Options that several commands have mean the same in each.

use std::collections::BTreeSet;

use serde_json::Value;
use test_archives::{Builder, TestArchive};

use crate::program::printed_of;

/// The options, and the commands that have them. A command that gets one of these options is added
/// here. `report` and `follow` print times in their order, so they have no `--sort`; sums over
/// instances need values at the same times, which `summary` does not have; what happened to programs
/// is drawn by `plot` without an option.
const OPTIONS: [(&str, &[&str]); 7] = [
    ("units", &["follow", "plot", "report", "summary"]),
    ("quantile", &["follow", "plot", "report", "summary"]),
    ("buckets", &["follow", "metrics", "report", "summary"]),
    ("top", &["plot", "report", "summary"]),
    ("sort", &["summary"]),
    ("sum", &["report"]),
    ("events", &["report"]),
];

fn first_sentence(option: &clap::Arg) -> String {
    let help = option.get_long_help().or(option.get_help()).expect("a help").to_string();
    let end = help.find([';', '.']).unwrap_or(help.len());
    help[..end].to_owned()
}

#[test]
fn options_of_one_name_have_one_meaning() {
    let all = mmv_archive::command();
    for (name, expected) in OPTIONS {
        let mut commands = BTreeSet::new();
        let mut meanings = BTreeSet::new();
        for command in all.get_subcommands() {
            let option = command.get_arguments().find(|option| option.get_long() == Some(name));
            // The buckets of `metrics` are described, not counted.
            if let Some(option) = option {
                commands.insert(command.get_name());
                if command.get_name() != "metrics" {
                    meanings.insert(first_sentence(option));
                }
            }
        }
        assert_eq!(commands, expected.iter().copied().collect(), "--{name}");
        assert_eq!(meanings.len(), 1, "--{name}: {meanings:#?}");
    }
}

fn archive() -> TestArchive {
    let row = |second: u64| {
        [
            ("shop.requests[a]", second),
            ("shop.requests[b]", 9 * second),
            ("shop.requests[c]", 4 * second),
            ("shop.bytes[x]", 7000 * second),
            ("shop.bytes[y]", 8000 * second),
        ]
    };
    Builder::named("shop")
        .metric("shop.requests", "u64 counter count")
        .metric("shop.bytes", "u64 counter byte")
        .instances("shop.requests", ["a", "b", "c"])
        .instances("shop.bytes", ["x", "y"])
        .rows((0..=10).map(|second| (second, row(second))))
        .finish()
}

/// Returns the metrics and instances that a command prints as JSON, each once and in order.
fn shown(archive: &TestArchive, arguments: &[&str]) -> Vec<String> {
    let options = ["shop.requests", "shop.bytes", "--json"];
    let printed = printed_of(archive, &[arguments, &options].concat());
    let mut shown = Vec::new();
    for line in printed.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let [metric, instance] = ["metric", "instance"].map(|field| line[field].as_str().unwrap());
        let name = format!("{metric}[{instance}]");
        if !shown.contains(&name) {
            shown.push(name);
        }
    }
    shown
}

#[test]
fn top_is_the_largest_instances_of_each_metric() {
    let archive = archive();
    let expected: BTreeSet<String> =
        ["shop.requests[b]", "shop.requests[c]", "shop.bytes[x]", "shop.bytes[y]"]
            .map(str::to_owned)
            .into();
    for command in [&["report", "--rate", "--top", "2"][..], &["summary", "--top", "2"]] {
        let found = shown(&archive, command);
        assert_eq!(found.iter().cloned().collect::<BTreeSet<_>>(), expected, "{command:?}");
    }
    let one = shown(&archive, &["report", "--rate", "--top", "1"]);
    assert_eq!(one, ["shop.requests[b]", "shop.bytes[y]"]);
    let sorted = shown(&archive, &["summary", "--sort", "name", "--top", "1"]);
    assert_eq!(sorted, ["shop.bytes[x]", "shop.requests[a]"]);
    let picture = archive.base().with_extension("svg");
    let name = picture.to_str().unwrap();
    printed_of(&archive, &["plot", "shop.requests", "--top", "1", "-o", name]);
    let svg = std::fs::read_to_string(picture).unwrap();
    for (name, is_shown) in [("\nb\n", true), ("2 others, summed", true), ("\nc\n", false)] {
        assert_eq!(svg.contains(name), is_shown, "{name}: {svg}");
    }
}

//! The manual pages in `docs/man` match the help of the commands, and an installation
//! is complete.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process;

use clap::Command;

use crate::harness::binaries;
use crate::harness::scratch::Scratch;
use crate::harness::skip::skip;

/// All pages by their file names.
fn pages() -> BTreeMap<String, String> {
    let mut pages = BTreeMap::new();
    for command in [mmv_agent::cli::command(), mmv_archive::command(), mmv_export::command()] {
        let mut command = command.disable_help_subcommand(true);
        command.build();
        for command in command.get_subcommands().cloned().chain([command.clone()]) {
            let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
            let mut page = Vec::new();
            clap_mangen::Man::new(command.clone()).render(&mut page).expect("render a page");
            let page = String::from_utf8(page).expect("a page is text");
            pages.insert(format!("{name}.1"), with_synopsis(&page, command));
        }
    }
    pages
}

/// The page with the values of options in its synopsis, and with arguments that one of
/// several usages requires shown as required.
fn with_synopsis(page: &str, mut command: Command) -> String {
    let (before, rest) = page.split_once(".SH SYNOPSIS\n").expect("a synopsis");
    let (_, after) = rest.split_once("\n.SH ").expect("a section after the synopsis");
    let usage = command.render_usage().to_string();
    let bold = |text: &str| format!("\\fB{}\\fR", text.replace('-', "\\-"));
    let mut words = vec![bold(command.get_bin_name().unwrap_or(command.get_name()))];
    let mut arguments: Vec<_> = command.get_arguments().collect();
    arguments.retain(|argument| !argument.is_hide_set());
    arguments.sort_by_key(|argument| argument.is_positional());
    for argument in arguments {
        let takes_value = argument.get_action().takes_values();
        let id = argument.get_id().as_str().to_uppercase();
        let names = argument.get_value_names().map(|names| names.iter().map(ToString::to_string));
        let value = names.map_or(id, |names| names.collect::<Vec<_>>().join(" "));
        let value = format!("\\fI{}\\fR", value.replace('-', "\\-"));
        let many = argument.get_num_args().is_some_and(|range| range.max_values() > 1);
        let more = if many { "..." } else { "" };
        if argument.is_positional() {
            let name = argument.get_value_names().and_then(|names| names.first());
            let is_required = argument.is_required_set()
                || name.is_some_and(|name| usage.contains(&format!("<{name}>")));
            words.push(if is_required {
                format!("{value}{more}")
            } else {
                format!("[{value}{more}]")
            });
            continue;
        }
        let short = argument.get_short().map(|short| bold(&format!("-{short}")));
        let long = argument.get_long().map(|long| bold(&format!("--{long}")));
        let mut option = short.into_iter().chain(long).collect::<Vec<_>>().join("|");
        if takes_value {
            option = format!("{option} {value}");
        }
        words.push(if argument.is_required_set() { option } else { format!("[{option}]") });
    }
    if command.has_subcommands() {
        words.push("\\fICOMMAND\\fR".to_owned());
    }
    format!("{before}.SH SYNOPSIS\n{}\n.SH {after}", words.join(" "))
}

fn directory() -> PathBuf {
    binaries::workspace().join("docs/man")
}

/// `MMV_UPDATE=1` rewrites them.
#[test]
fn the_manual_pages_are_those_of_the_commands() {
    let (directory, pages) = (directory(), pages());
    if std::env::var_os("MMV_UPDATE").is_some() {
        fs::create_dir_all(&directory).expect("make docs/man");
        for (name, page) in &pages {
            fs::write(directory.join(name), page).expect("write a page");
        }
    }
    for (name, page) in &pages {
        let written = fs::read_to_string(directory.join(name)).unwrap_or_default();
        assert!(written == *page, "docs/man/{name} is out of date; run this with MMV_UPDATE=1");
    }
    let listed = fs::read_dir(&directory).expect("list docs/man");
    let mut listed: Vec<String> =
        listed.map(|entry| entry.expect("an entry").file_name().into_string().unwrap()).collect();
    listed.sort();
    assert_eq!(listed, pages.into_keys().collect::<Vec<_>>(), "pages of commands that are gone");
}

#[test]
fn a_synopsis_has_the_values_of_options_and_what_is_required() {
    let pages = pages();
    let report = &pages["mmv-archive-report.1"];
    assert!(report.contains("[\\fB\\-t\\fR|\\fB\\-\\-interval\\fR \\fIINTERVAL\\fR]"), "{report}");
    assert!(report.contains(" \\fIARCHIVE\\fR \\fIMETRIC\\fR...\n"), "{report}");
    assert!(pages["mmv-archive-summary.1"].contains(" \\fIARCHIVE\\fR [\\fIMETRIC\\fR...]\n"));
    assert!(pages["mmv-archive-repair.1"].contains("[\\fB\\-\\-json\\fR]"));
}

#[test]
fn an_installation_has_everything_in_its_place() {
    let scratch = Scratch::new();
    let root = scratch.path().join("image");
    let programs = binaries::mmv_agent();
    let output = process::Command::new(binaries::workspace().join("ci/install"))
        .arg(&root)
        .env("MMV_PROGRAMS_IN", programs.parent().expect("a directory"))
        .output()
        .expect("start ci/install");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for file in [
        "usr/bin/mmv-agent",
        "usr/bin/mmv-archive",
        "usr/bin/mmv-export",
        "usr/lib/systemd/system/mmv-agent.service",
        "usr/lib/systemd/system/mmv-export-push.service",
        "usr/lib/systemd/system/mmv-export-serve.service",
        "usr/share/doc/mmv-export/push.conf",
        "usr/lib/sysusers.d/mmv-agent.conf",
        "usr/lib/tmpfiles.d/mmv-agent.conf",
        "etc/mmv-agent/agent.toml",
        "usr/share/man/man1/mmv-agent-run.1",
        "usr/share/man/man1/mmv-archive-report.1",
        "usr/share/man/man1/mmv-export-mapping.1",
        "usr/share/bash-completion/completions/mmv-archive",
        "usr/share/bash-completion/completions/mmv-export",
        "usr/share/zsh/site-functions/_mmv-agent",
        "usr/share/fish/vendor_completions.d/mmv-agent.fish",
    ] {
        let found = fs::metadata(root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(found.len() > 0, "{file} is empty");
    }
    // One that an administrator has changed stays.
    let config = root.join("etc/mmv-agent/agent.toml");
    fs::write(&config, "interval = \"5s\"\n").expect("change the configuration");
    let again = process::Command::new(binaries::workspace().join("ci/install"))
        .arg(&root)
        .env("MMV_PROGRAMS_IN", programs.parent().expect("a directory"))
        .status()
        .expect("start ci/install");
    assert!(again.success());
    assert_eq!(fs::read_to_string(&config).expect("read it"), "interval = \"5s\"\n");
}

#[test]
fn each_line_of_the_threat_model_has_tests_that_exist() {
    assert_tested("docs/threat-model.md", "| attack");
}

#[test]
fn each_line_of_what_is_lost_when_has_tests_that_exist() {
    assert_tested("docs/operators.md", "| event");
}

/// Each row of the tables in a chapter that begin with `head` names tests, and each
/// of them exists.
#[track_caller]
fn assert_tested(chapter: &str, head: &str) {
    let root = binaries::workspace();
    let text = fs::read_to_string(root.join(chapter)).expect("the chapter");
    let mut sources = String::new();
    let mut directories = ["mmv-writer", "mmv-agent", "archive", "pcp-types", "tests"]
        .map(|directory| root.join(directory))
        .to_vec();
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).expect("list sources") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                sources.push_str(&fs::read_to_string(&path).expect("a source"));
            }
        }
    }
    let tables = text.split("\n\n").filter(|paragraph| paragraph.trim().starts_with(head));
    let rows: Vec<&str> = tables.flat_map(|table| table.trim().lines().skip(2)).collect();
    assert!(rows.len() > 10, "{chapter}: {} rows", rows.len());
    for row in rows {
        let tests = row.trim_end_matches([' ', '|']).rsplit('|').next().unwrap_or_default();
        let mut names = tests.split('`').skip(1).step_by(2).peekable();
        assert!(names.peek().is_some(), "no test: {row}");
        for name in names {
            let is_fuzzed = root.join(format!("fuzz/fuzz_targets/{name}.rs")).is_file();
            assert!(is_fuzzed || sources.contains(&format!("fn {name}(")), "{name} is not there");
        }
    }
}

/// How exposed systemd finds the unit, from 0.0 to 10.0; most services have 9.6.
const EXPOSURE: f64 = 2.0;

#[test]
fn systemd_understands_the_units_and_finds_them_safe() {
    if !exists("systemd-analyze") {
        return skip("systemd-analyze is not here");
    }
    let programs = binaries::mmv_agent();
    for (name, program) in [
        ("mmv-agent.service", "mmv-agent"),
        ("mmv-export-push.service", "mmv-export"),
        ("mmv-export-serve.service", "mmv-export"),
    ] {
        assert_safe(name, &format!("/usr/bin/{program}"), &programs.with_file_name(program));
    }
}

/// systemd has nothing to say against a unit, whose program is elsewhere.
#[track_caller]
fn assert_safe(name: &str, installed: &str, program: &Path) {
    let scratch = Scratch::new();
    let unit = scratch.path().join(name);
    let text = fs::read_to_string(binaries::workspace().join("systemd").join(name));
    let text = text.expect("the unit").replace(installed, &program.display().to_string());
    fs::write(&unit, text).expect("write the unit");
    let analyze = |arguments: &[&str]| {
        let output = process::Command::new("systemd-analyze").args(arguments).arg(&unit).output();
        let output = output.expect("start systemd-analyze");
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).into_owned())
    };
    let (is_fine, text) = analyze(&["verify", "--man=no"]);
    assert!(is_fine && !text.contains(&format!("{name}:")), "{text}");
    let (_, text) = analyze(&["security", "--offline=yes", "--no-pager"]);
    let score = text.lines().find_map(|line| {
        let (_, rest) = line.split_once("exposure level for")?;
        rest.split_whitespace().find_map(|word| word.parse::<f64>().ok())
    });
    let score = score.unwrap_or_else(|| panic!("no score in\n{text}"));
    assert!(score <= EXPOSURE, "{name}: {score}\n{text}");
}

fn exists(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| Path::new(&directory).join(program).is_file())
}

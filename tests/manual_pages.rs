//! The manual pages in `docs/man` match the help of the commands, and an installation
//! is complete.

mod ending;
mod examples;
mod page;
mod sections;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process;

use clap::Command;

use crate::harness::binaries;
use crate::harness::scratch::Scratch;
use crate::harness::skip::skip;
use page::{name, page};

fn programs() -> [Command; 3] {
    [mmv_agent::cli::command(), mmv_archive::command(), mmv_export::command()].map(|program| {
        let mut program = program.disable_help_subcommand(true);
        program.build();
        program
    })
}

fn pages() -> BTreeMap<String, String> {
    let programs = programs();
    let all = programs.iter().flat_map(|program| {
        let commands = program.get_subcommands().chain([program]);
        commands.map(move |command| (format!("{}.1", name(command)), page(program, command)))
    });
    all.collect()
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
fn every_command_and_option_is_explained() {
    for program in programs() {
        for command in program.get_subcommands() {
            let name = name(command);
            assert!(command.get_about().is_some(), "{name}");
            for argument in command.get_arguments() {
                assert!(argument.get_help().is_some(), "{name} {}", argument.get_id());
            }
        }
    }
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
fn a_page_has_the_sections_that_readers_look_for() {
    for (name, page) in pages() {
        let sections: Vec<&str> =
            page.lines().filter_map(|line| line.strip_prefix(".SH ")).collect();
        let place = |wanted: &str| {
            let found = sections.iter().position(|section| section.trim_matches('"') == wanted);
            found.unwrap_or_else(|| panic!("{name}: no {wanted} in {sections:?}"))
        };
        let wanted = ["NAME", "SYNOPSIS", "DESCRIPTION", "EXIT STATUS", "EXAMPLES", "SEE ALSO"];
        assert!(wanted.map(place).is_sorted(), "{name}: {sections:?}");
        assert!(!sections.contains(&"EXTRA"), "{name}: {sections:?}");
    }
    let pages = pages();
    let report = &pages["mmv-archive-report.1"];
    assert!(report.contains(".TH \"MMV\\-ARCHIVE\\-REPORT\" 1 \"\" \"mmv\\-archive "), "{report}");
    assert!(report.contains("\n.EX\nmmv\\-archive report @ \\-\\-last 1m "), "{report}");
    let run = &pages["mmv-agent-run.1"];
    assert!(run.contains(".TP\n\\fB78\\fR\nthe configuration is invalid\n"), "{run}");
}

#[test]
fn what_pages_refer_to_exists() {
    let pages = pages();
    for page in sections::pages() {
        assert!(pages.contains_key(&format!("{page}.1")), "{page}");
    }
    for program in programs() {
        for document in sections::documents(program.get_name()) {
            assert!(binaries::workspace().join(document).exists(), "{document}");
        }
    }
}

#[test]
fn pages_name_the_variables_that_programs_read() {
    let crates = [
        "mmv-agent",
        "archive",
        "archive/arguments",
        "archive/cli",
        "archive/export",
        "mmv-writer/format",
    ];
    let sources = product_sources(&crates.map(|name| format!("{name}/src")));
    let named: Vec<&str> = sections::variables().collect();
    for name in &named {
        let is_read = sources.contains(&format!("\"{name}\""));
        let is_temporary = *name == "TMPDIR" && sources.contains("env::temp_dir()");
        assert!(is_read || is_temporary, "{name} is not read");
    }
    for function in ["env::var(\"", "env::var_os(\"", "from_systemd(\"", "absolute(\""] {
        for read in sources.split(function).skip(1) {
            let name = read.split('"').next().unwrap_or_default();
            assert!(name == "HOME" || named.contains(&name), "{name} is on no page");
        }
    }
}

fn product_sources(directories: &[String]) -> String {
    let mut sources = String::new();
    let mut directories: Vec<_> =
        directories.iter().map(|directory| binaries::workspace().join(directory)).collect();
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).expect("list sources") {
            let path = entry.expect("an entry").path();
            if path.is_dir() && !path.ends_with("tests") {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs")
                && !path.ends_with("tests.rs")
            {
                let text = fs::read_to_string(&path).expect("a source");
                sources.push_str(text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(""));
            }
        }
    }
    sources
}

#[test]
fn pages_have_nothing_that_groff_warns_of() {
    if !exists("groff") {
        return skip("groff is not here");
    }
    for name in pages().keys() {
        let output = process::Command::new("groff")
            .args(["-man", "-Tutf8", "-ww", "-z"])
            .arg(directory().join(name))
            .output()
            .expect("start groff");
        assert!(output.status.success() && output.stderr.is_empty(), "{name}: {output:?}");
    }
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
fn each_line_of_what_this_is_good_for_has_tests_that_exist() {
    assert_tested("docs/why.md", "| what you get");
}

#[test]
fn each_line_of_what_is_lost_when_has_tests_that_exist() {
    assert_tested("docs/operators.md", "| event");
}

/// Checks that each row of the tables in a chapter that begin with `head` names tests, and that
/// each of them exists.
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

/// Limit on the exposure that systemd finds in the unit, from 0.0 to 10.0; most services have
/// 9.6.
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

//! The completion scripts complete subcommands, options, files and names of metrics.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use test_archives::Builder;

use crate::program::printed;

/// Writes an archive `web` of `web.errors` and `web.requests`.
fn archive() -> (TempDir, PathBuf) {
    Builder::named("web")
        .metric("web.errors", "u32 instant")
        .metric("web.requests", "u32 instant")
        .row(0, [("web.errors", 1), ("web.requests", 1)])
        .finish()
        .into_parts()
}

fn script(shell: &str) -> String {
    printed(Path::new("."), &["completions", shell])
}

/// Returns bash's proposals for the last of some words, in the directory of the archive; `FILES`
/// stands for its completion of files.
fn proposed(directory: &Path, words: &[&str]) -> Vec<String> {
    fs::write(directory.join("script"), script("bash")).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_mmv-archive"));
    let text = r#"
        source ./script
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
        _mmv_archive "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]:-FILES}"
        complete -p mmv-archive >&2
    "#;
    let mut bash = Command::new("bash");
    bash.current_dir(directory).args(["--norc", "-c", text, "bash"]).arg(program).args(words);
    let output = bash.output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{words:?}: {errors}");
    let registered = "complete -o bashdefault -o default -F _mmv_archive mmv-archive\n";
    assert_eq!(errors, registered, "{words:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_subcommands_options_files_and_metrics() {
    let (directory, _base) = archive();
    let proposed = |words: &[&str]| proposed(directory.path(), words);
    assert_eq!(proposed(&["re"]), ["repair", "reduce", "report"]);
    assert_eq!(proposed(&["report", "--int"]), ["--interval"]);
    assert_eq!(proposed(&["check", "--no"]), ["--notes", "--no-progress"]);
    assert_eq!(proposed(&["report", "we"]), ["FILES"]);
    assert_eq!(proposed(&["report", ""]), ["FILES"]);
    assert_eq!(proposed(&["report", "web", ""]), ["web.errors", "web.requests"]);
    assert_eq!(proposed(&["report", "web", "web.r"]), ["web.requests"]);
    assert_eq!(proposed(&["summary", "web.meta", "web.errors", "web.r"]), ["web.requests"]);
    // Values of options are not archives, and no metrics.
    assert_eq!(proposed(&["report", "-t", "1s", "web", "web.e"]), ["web.errors"]);
    assert_eq!(proposed(&["report", "--interval=1s", "web", "web.e"]), ["web.errors"]);
    assert_eq!(proposed(&["report", "--json", "web", "web.e"]), ["web.errors"]);
    let files = proposed(&["report", "web", "web.errors", "--times", "web."]);
    assert!(files.contains(&"web.meta".to_owned()), "{files:?}");
    assert_eq!(proposed(&["report", "web", "--js"]), ["--json"]);
    assert_eq!(proposed(&["report", "--format", "cs"]), ["csv"]);
    assert_eq!(proposed(&["report", "none", "web"]), ["FILES"]);
    assert_eq!(proposed(&["convert", "web", "web"]), ["FILES"], "it has no metrics");
    assert_eq!(proposed(&["completions", "z"]), ["zsh"]);
}

/// Returns whether a shell accepts the syntax of its script; `None` without the shell.
fn syntax(shell: &str) -> Option<bool> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("script");
    fs::write(&path, script(shell)).unwrap();
    let Ok(status) = Command::new(shell).arg("-n").arg(&path).status() else {
        eprintln!("skipped: no {shell}");
        return None;
    };
    Some(status.success())
}

#[test]
fn zsh_and_fish_ask_for_the_names_of_metrics() {
    let zsh = script("zsh");
    assert_eq!(zsh.matches(":_mmv-archive_metric_names' \\").count(), 13, "one for each command");
    assert!(!zsh.contains("metrics -- Metrics to report:_default"));
    assert_eq!(zsh.matches("\n_mmv-archive_metric_names() {").count(), 1);
    let fish = script("fish");
    assert_eq!(fish.matches("--complete-metrics").count(), 13);
    for shell in ["zsh", "fish"] {
        assert_ne!(syntax(shell), Some(false), "{shell}");
    }
}

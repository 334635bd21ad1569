//! `mmv-agent demo`: the main job in one command.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::compliance;
use crate::harness::archive_facts;
use crate::harness::binaries;
use crate::harness::oracle::Oracle;
use crate::harness::scratch::Scratch;

#[test]
fn the_demo_logs_a_program_reports_it_and_suggests_further_commands() {
    let scratch = Scratch::new();
    let output = Command::new(binaries::mmv_agent())
        .arg("demo")
        .env("TMPDIR", scratch.path())
        .env_remove("PCP_TMP_DIR")
        .output()
        .expect("start mmv-agent");
    let stdout = String::from_utf8_lossy(&output.stdout);
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{stdout}\n{complaints}", output.status);
    let archive =
        archive_named(&stdout).unwrap_or_else(|| panic!("no archive is named in\n{stdout}"));
    let commands: Vec<_> = stdout.lines().filter(|line| line.contains("/mmv-archive ")).collect();
    assert_eq!(commands.len(), 2, "commands to look further in\n{stdout}");
    for command in commands {
        let shell = Command::new("sh").args(["-c", command]).output().expect("start a shell");
        assert!(shell.status.success() && !shell.stdout.is_empty(), "{command}: {shell:?}");
    }
    let facts = archive_facts::of_mmv_archive(&archive);
    let samples = facts.records.iter().filter(|record| record.has_samples()).count();
    assert!(samples >= 10, "{samples} samples in about five seconds");
    if let Some(oracle) = Oracle::find() {
        compliance::check(&oracle, &archive);
    }
}

/// The first word of a text that is the base of an archive.
fn archive_named(text: &str) -> Option<PathBuf> {
    let words = text.split_whitespace().map(|word| word.trim_matches(['\'', '"', '`', ',']));
    let mut bases = words.map(|word| PathBuf::from(word.trim_end_matches(".meta")));
    bases.find(|base| base.is_absolute() && meta(base).is_file())
}

fn meta(base: &Path) -> PathBuf {
    let mut name = base.as_os_str().to_owned();
    name.push(".meta");
    name.into()
}

//! Commands and configurations in the documentation are valid.
//!
//! Rust code in the READMEs of the crates is compiled with the examples in their
//! documentation.

use std::fs;
use std::path::PathBuf;

use crate::harness::binaries;
use crate::harness::scratch::Scratch;
use crate::harness::shell;

const PAGES: [&str; 15] = [
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "archive/README.md",
    "archive/cli/README.md",
    "archive/export/README.md",
    "docs/design.md",
    "docs/engines/prometheus.md",
    "docs/engines/victoriametrics.md",
    "docs/export-mapping.md",
    "docs/operators.md",
    "docs/performance.md",
    "docs/releasing.md",
    "docs/tutorial.md",
    "mmv-writer/README.md",
];

struct Block {
    place: String,
    language: String,
    lines: Vec<String>,
}

fn blocks() -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for page in PAGES {
        let path = binaries::workspace().join(page);
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{page}: {error}"));
        let mut inside = false;
        for (number, line) in (1..).zip(text.lines()) {
            match line.strip_prefix("```") {
                Some(_) if inside => inside = false,
                Some(info) => {
                    inside = true;
                    let language = info.split([' ', ',']).next().unwrap_or("").to_owned();
                    let place = format!("{page}:{number}");
                    blocks.push(Block { place, language, lines: Vec::new() });
                }
                None if inside => {
                    blocks.last_mut().expect("a block").lines.push(line.to_owned());
                }
                None => {}
            }
        }
    }
    blocks
}

#[test]
fn the_commands_in_the_documentation_have_valid_arguments() {
    let mut commands = 0;
    for block in blocks() {
        for line in block.lines.join("\n").replace("\\\n", "").lines() {
            let line = line.strip_prefix("$ ").unwrap_or(line);
            for words in shell::commands(line) {
                let command = match words[0].as_str() {
                    "mmv-agent" => mmv_agent::cli::command(),
                    "mmv-archive" => mmv_archive::command(),
                    "mmv-export" => mmv_export::command(),
                    _ => continue,
                };
                let parsed = command.try_get_matches_from(words);
                parsed.unwrap_or_else(|error| panic!("{}: {line}\n{error}", block.place));
                commands += 1;
            }
        }
    }
    assert!(commands >= 5, "{commands} commands");
}

#[test]
fn the_configurations_in_the_documentation_are_valid() {
    let scratch = Scratch::new();
    let mut configurations = 0;
    for block in blocks().iter().filter(|block| block.language == "toml") {
        let file: PathBuf = scratch.path().join("agent.toml");
        fs::write(&file, block.lines.join("\n")).expect("write a configuration");
        let output = std::process::Command::new(binaries::mmv_agent())
            .arg("check-config")
            .arg(&file)
            .output()
            .expect("start mmv-agent");
        assert!(output.status.success(), "{}: {output:?}", block.place);
        configurations += 1;
    }
    assert!(configurations > 0);
}

//! The end of a help text, by its parts.
//!
//! In: the text after the options of `--help`. Out: notes, exit statuses and examples. Parts are
//! separated by an empty line; two of them have a heading:
//!
//! ```text
//! Exit status:
//!    0  success
//!
//! Examples:
//!   Purpose:
//!     command
//! ```

use clap::Command;

#[derive(Debug, Default)]
pub(super) struct Ending {
    pub(super) notes: Vec<String>,
    pub(super) statuses: Vec<(String, String)>,
    pub(super) examples: Vec<Example>,
    pub(super) after: Vec<String>,
}

/// A purpose, and the lines of the command for it.
#[derive(Debug)]
pub(super) struct Example {
    pub(super) purpose: String,
    pub(super) command: Vec<String>,
}

impl Ending {
    pub(super) fn of(command: &Command) -> Self {
        let text = command.get_after_long_help().or(command.get_after_help());
        let text = text.map(ToString::to_string).unwrap_or_default();
        let mut ending = Self::default();
        for part in text.trim_end().split("\n\n").filter(|part| !part.is_empty()) {
            match part.split_once('\n') {
                Some(("Exit status:", lines)) => {
                    ending.statuses = lines.lines().map(status).collect();
                }
                Some(("Examples:", lines)) => ending.examples = examples(lines),
                _ if ending.examples.is_empty() => ending.notes.push(part.to_owned()),
                _ => ending.after.push(part.to_owned()),
            }
        }
        ending
    }
}

fn status(line: &str) -> (String, String) {
    let parts = line.trim().split_once("  ");
    let (status, meaning) = parts.unwrap_or_else(|| panic!("no exit status: {line:?}"));
    (status.to_owned(), meaning.to_owned())
}

fn examples(lines: &str) -> Vec<Example> {
    let mut examples: Vec<Example> = Vec::new();
    for line in lines.lines() {
        let indent = line.len() - line.trim_start().len();
        match (indent, examples.last_mut()) {
            (2, _) => {
                let purpose = line.trim().to_owned();
                examples.push(Example { purpose, command: Vec::new() });
            }
            (4.., Some(example)) => example.command.push(line[4..].to_owned()),
            _ => panic!("neither a purpose nor a command: {line:?}"),
        }
    }
    examples
}

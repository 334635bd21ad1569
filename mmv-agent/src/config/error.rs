//! What is wrong with a configuration, and where.

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ConfigError {
    /// The file cannot be read.
    #[error("{}: {source}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Something in it is wrong.
    #[error("{}:{line}: {}{message}", file.display(), Named(key))]
    Wrong {
        /// The file.
        file: PathBuf,
        /// The line, from 1 on.
        line: usize,
        /// The key with the table that it is in (`group.interval`); empty where
        /// the text is not as far as having keys.
        key: String,
        /// What is wrong.
        message: String,
    },
}

/// A key in front of a message.
struct Named<'a>(&'a str);

impl fmt::Display for Named<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(out, "{}: ", self.0) }
    }
}

impl ConfigError {
    /// Something is wrong at `span` of `text`, which is TOML.
    pub(super) fn at(file: &Path, text: &str, span: Option<Range<usize>>, message: &str) -> Self {
        let start = span.map_or(0, |span| span.start.min(text.len()));
        let before = text.get(..start).unwrap_or_default();
        Self::Wrong {
            file: file.to_owned(),
            line: before.matches('\n').count() + 1,
            key: key_at(text, start),
            // A message of several lines would be several lines of a log.
            message: message.replace('\n', " "),
        }
    }
}

/// The key that byte `at` of a TOML text belongs to, as users write it: the
/// nearest key at or above, prefixed by the nearest table above it.
fn key_at(text: &str, at: usize) -> String {
    let end = text.get(at..).and_then(|rest| rest.find('\n')).map_or(text.len(), |len| at + len);
    let lines = text.get(..end).unwrap_or_default().lines().rev().map(str::trim_start);
    let mut key = None;
    for line in lines {
        if let Some(table) = line.strip_prefix('[').filter(|_| is_table(line)) {
            let table = table.trim_start_matches('[').split(']').next().unwrap_or_default().trim();
            return key.map_or_else(|| table.to_owned(), |key| format!("{table}.{key}"));
        }
        if let (None, Some((name, _))) = (key, line.split_once('=')) {
            key = Some(name.trim_end());
        }
    }
    key.unwrap_or_default().to_owned()
}

/// Whether a line that begins with a bracket is a table's header and no element
/// of a list.
fn is_table(line: &str) -> bool {
    let name = line.trim_start_matches('[');
    name.starts_with(|first: char| first.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_reported_with_its_table() {
        let text = "a = 1\n[limits]\nqueue = 3\n\n[[group]]\nmetrics = [\n  \"x\",\n  7,\n]\n";
        for (what, key) in [
            ("a =", "a"),
            ("1\n", "a"),
            ("[limits]", "limits"),
            ("3", "limits.queue"),
            ("[[group]]", "group"),
            ("metrics", "group.metrics"),
            ("7", "group.metrics"),
        ] {
            assert_eq!(key_at(text, text.find(what).unwrap()), key, "{what}");
        }
        assert_eq!(key_at("", 0), "");
    }

    #[test]
    fn lines_are_counted_from_one_and_messages_stay_on_theirs() {
        let text = "a = 1\nb = 2\n";
        let error = ConfigError::at(Path::new("f.toml"), text, Some(6..7), "no\nb");
        assert_eq!(error.to_string(), "f.toml:2: b: no b");
        let error = ConfigError::at(Path::new("f.toml"), "x", Some(90..91), "cut off");
        assert_eq!(error.to_string(), "f.toml:1: cut off");
    }
}

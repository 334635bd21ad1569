//! Errors in a configuration, and their location.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use pcp_types::printable;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The reason why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ConfigError {
    #[error("{}: {source}", printable::path(file))]
    Read { file: PathBuf, source: io::Error },
    /// Something in it is wrong.
    #[error("{}:{place}: {message}", printable::path(file))]
    Wrong {
        file: PathBuf,
        /// The line, and in TOML the character in the line, both from 1 on: `3:14`.
        place: String,
        /// The error. In TOML the key precedes it, as [`key_path`] writes it, except outside of
        /// keys and tables.
        message: String,
    },
}

impl ConfigError {
    /// Locates an error at `span` of `text`, which is TOML.
    pub(super) fn in_toml(
        file: &Path,
        text: &str,
        span: Option<Range<usize>>,
        message: &str,
    ) -> Self {
        let span = span.unwrap_or_default();
        let before = text.get(..span.start).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let in_line = before.rsplit('\n').next();
        let column = in_line.map_or(0, |text| text.chars().count()) + 1;
        // A log line must not contain line breaks.
        let mut message = message.replace('\n', " ");
        let key = key_path(text, &span);
        if !key.is_empty() {
            message = format!("{key}: {message}");
        }
        Self::Wrong { file: file.to_owned(), place: format!("{line}:{column}"), message }
    }
}

/// Returns the key at `span` of a TOML text with all tables around it: `limits.queue`, or
/// `group[1].metrics[0]` for the first element of a list in the second `[[group]]`. For a syntax
/// error between keys it is the table above; empty if there is none.
fn key_path(text: &str, span: &Range<usize>) -> String {
    let all = nodes(text);
    if let Some(node) = all.iter().rfind(|node| node.key == *span || node.value == *span) {
        return node.path.clone();
    }
    // The parser leaves out a duplicate key; under another name it has a place.
    if let (Some(before), Some(key), Some(after)) =
        (text.get(..span.start), text.get(span.clone()), text.get(span.end..))
        && let renamed = nodes(&format!("{before}{UNUSED}{after}"))
        && let Some(node) = renamed.iter().find(|node| node.key.start == span.start)
        && let Some(parent) = node.path.strip_suffix(UNUSED)
    {
        return format!("{parent}{key}");
    }
    let smallest_around = all
        .iter()
        .rev()
        .filter(|node| node.value.start <= span.start && span.end <= node.value.end)
        .min_by_key(|node| node.value.len());
    let node = smallest_around.or_else(|| {
        all.iter()
            .filter(|node| node.is_header && node.value.end <= span.start)
            .max_by_key(|node| node.value.end)
    });
    node.map(|node| node.path.clone()).unwrap_or_default()
}

/// A key that no file has.
const UNUSED: &str = r#""\u0000""#;

/// A key with its value, or an element of a list, which has one place for both.
struct Node {
    path: String,
    key: Range<usize>,
    value: Range<usize>,
    /// True if its value is a table with a header, which is then the place of the value.
    is_header: bool,
}

/// Returns all nodes of a TOML text as far as it can be parsed; elements follow their lists.
fn nodes(text: &str) -> Vec<Node> {
    let mut nodes = Vec::new();
    let (table, _) = DeTable::parse_recoverable(text);
    add_nodes(text, "", &DeValue::Table(table.into_inner()), &mut nodes);
    nodes
}

fn add_nodes(text: &str, path: &str, value: &DeValue<'_>, nodes: &mut Vec<Node>) {
    let mut add = |path: String, key: Range<usize>, value: &Spanned<DeValue<'_>>| {
        let place = value.span();
        let value = value.get_ref();
        let is_header =
            value.is_table() && text.get(place.clone()).is_some_and(|text| text.starts_with('['));
        nodes.push(Node { path: path.clone(), key, value: place, is_header });
        add_nodes(text, &path, value, nodes);
    };
    match value {
        DeValue::Table(table) => table.iter().for_each(|(key, value)| {
            let name = text.get(key.span()).unwrap_or_default();
            let path = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
            add(path, key.span(), value);
        }),
        DeValue::Array(array) => array.iter().enumerate().for_each(|(number, value)| {
            add(format!("{path}[{number}]"), value.span(), value);
        }),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The path at the last `what` of a text.
    fn path(text: &str, what: &str) -> String {
        let start = text.rfind(what).unwrap();
        key_path(text, &(start..start + what.len()))
    }

    #[test]
    fn a_key_is_reported_with_its_table() {
        let text = "a = 1\n[limits]\nqueue = 3\n\n[labels] # b = 2\n\"x y\" = 8\n";
        for (what, key) in [
            ("a", "labels"),
            ("1", "a"),
            ("[limits]", "limits"),
            ("limits", "limits"),
            ("queue", "limits.queue"),
            ("3", "limits.queue"),
            ("\"x y\"", "labels.\"x y\""),
            ("8", "labels.\"x y\""),
        ] {
            assert_eq!(path(text, what), key, "{what}");
        }
        assert_eq!(key_path("", &(0..0)), "");
        assert_eq!(key_path("a = 1", &(90..91)), "");
    }

    #[test]
    fn dotted_keys_are_reported_in_full() {
        let text = "[top]\nlimits.queue = 3\nlimits . files = 4\n[a.b]\nc.d = 5\n";
        for (what, key) in [
            ("limits", "top.limits"),
            ("3", "top.limits.queue"),
            ("4", "top.limits.files"),
            ("[a.b]", "a.b"),
            ("5", "a.b.c.d"),
        ] {
            assert_eq!(path(text, what), key, "{what}");
        }
    }

    #[test]
    fn keys_of_inline_tables_are_reported_in_full() {
        let text = "limits = { queue = 3, deep = { x.y = 4 } }\nlist = [{ a = 5 }, { a = 6 }]\n";
        for (what, key) in [
            ("{ queue = 3, deep = { x.y = 4 } }", "limits"),
            ("queue", "limits.queue"),
            ("4", "limits.deep.x.y"),
            ("{ a = 5 }", "list[0]"),
            ("6", "list[1].a"),
        ] {
            assert_eq!(path(text, what), key, "{what}");
        }
    }

    #[test]
    fn arrays_of_tables_are_numbered() {
        let text = "[[group]]\nmetrics = [\n  \"x\",\n  7,\n]\n[[ group ]]\nname = 8\n\
                    [group.sub]\nq = 9\n[[group.more]]\nr = 10\n";
        for (what, key) in [
            ("[[group]]", "group[0]"),
            ("\"x\"", "group[0].metrics[0]"),
            ("7", "group[0].metrics[1]"),
            ("[[ group ]]", "group[1]"),
            ("8", "group[1].name"),
            ("9", "group[1].sub.q"),
            ("10", "group[1].more[0].r"),
        ] {
            assert_eq!(path(text, what), key, "{what}");
        }
    }

    #[test]
    fn a_key_that_exists_already_is_reported_with_its_table() {
        for (text, what, key) in [
            ("a = 1\na = 2", "a", "a"),
            ("[t]\nb = 1\nb = 2\n[u]\nc = 1", "b", "t.b"),
            ("[t]\na.b = 1\na.b = 2", "b", "t.a.b"),
            ("t = { b = 1, b = 2 }", "b", "t.b"),
            ("[[t]]\n[[t]]\nb = 1\n\"b\" = 2", "\"b\"", "t[1].\"b\""),
            ("[a.b]\nc = 1\nc = 2\n[a]\nd = 1", "c", "a.b.c"),
            ("a = 1\na.b = 2", "a", "a"),
            ("[a]\nb = 1\n[a]", "a", "a"),
        ] {
            assert_eq!(path(text, what), key, "{text}");
        }
    }

    #[test]
    fn every_syntax_error_has_a_place() {
        for (text, expected) in [
            ("a = ", "f.toml:1:5: a: "),
            ("[t]\nx = [1, zz]", "f.toml:2:9: t.x[1]: "),
            ("[t]\nx y = 2", "f.toml:2:3: t: "),
            ("[t\na = 1", "f.toml:1:3: "),
            ("\u{e9} = 1", "f.toml:1:1: "),
        ] {
            let error = DeTable::parse(text).unwrap_err();
            let error =
                ConfigError::in_toml(Path::new("f.toml"), text, error.span(), error.message());
            assert!(error.to_string().starts_with(expected), "{text}: {error}");
        }
    }

    #[test]
    fn lines_and_columns_count_from_one() {
        let text = "a = 1\nb = \"\u{e9}\" 2\n";
        let error = ConfigError::in_toml(Path::new("f.toml"), text, Some(10..14), "no\nb");
        assert_eq!(error.to_string(), "f.toml:2:5: b: no b");
        let error = ConfigError::in_toml(Path::new("f.toml"), text, Some(15..16), "no");
        assert_eq!(error.to_string(), "f.toml:2:9: no");
        let error = ConfigError::in_toml(Path::new("f.toml"), "x", Some(90..91), "cut off");
        assert_eq!(error.to_string(), "f.toml:1:2: cut off");
    }
}

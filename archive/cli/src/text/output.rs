//! Standard output through one large buffer.

use mmv_chart::Grid;
use std::borrow::Cow;
use std::io::{IsTerminal as _, Write as _};
use std::path::Path;

use pcp_types::printable;
use rustix::termios::tcgetwinsize;
use serde::Serialize;

use crate::Failure;

/// Bytes of a full buffer.
const CHUNK: usize = 1 << 20;

/// The version of the fields of JSON and CSV, which `docs/output-schema.md` lists.
const SCHEMA_VERSION: u32 = 1;

#[derive(Serialize)]
struct VersionedLine<'a, T> {
    schema: u32,
    #[serde(flatten)]
    object: &'a T,
}

/// A buffer in front of standard output.
///
/// Commands append to [`text`](Self::text) and call [`spill`](Self::spill)
/// after each record or line, which writes about once a megabyte. Drop writes
/// nothing: [`finish`](Self::finish) writes and reports errors.
///
/// Names and strings in an archive can have any content. What is in one line is made
/// printable where it is appended ([`shown`], [`shown_bytes`]), so that columns are aligned;
/// whatever is not is made so here ([`printable::lines`]), on a terminal as in a pipe. Only
/// a [raw](Self::write_raw) buffer writes every byte.
#[derive(Debug)]
pub(crate) struct Output {
    /// Text that is not written yet.
    pub(crate) text: Vec<u8>,
    is_raw: bool,
    /// The text is passed to another buffer and never written from this one.
    is_detached: bool,
}

impl Output {
    pub(crate) fn new() -> Self {
        Self { text: Vec::with_capacity(CHUNK + CHUNK / 4), is_raw: false, is_detached: false }
    }

    /// Creates a buffer whose text is passed to another one.
    pub(crate) const fn detached() -> Self {
        Self { text: Vec::new(), is_raw: false, is_detached: true }
    }

    /// Writes every later byte as it is. For bytes that are asked for, and text whose parts are
    /// printable already and which has colors.
    pub(crate) const fn write_raw(&mut self) {
        self.is_raw = true;
    }

    /// Writes the buffer, and then a large text that is not copied.
    ///
    /// # Errors
    ///
    /// As [`spill`](Self::spill).
    pub(crate) fn write_after(&mut self, text: &mut Vec<u8>) -> Result<(), Failure> {
        self.flush()?;
        std::mem::swap(&mut self.text, text);
        let written = self.flush();
        std::mem::swap(&mut self.text, text);
        written
    }

    /// Writes the buffer if it is full.
    ///
    /// # Errors
    ///
    /// [`Failure::Closed`] if the reader has closed the output, [`Failure::Output`].
    pub(crate) fn spill(&mut self) -> Result<(), Failure> {
        if self.is_detached || self.text.len() < CHUNK { Ok(()) } else { self.write() }
    }

    /// Adds a table that fits the terminal.
    ///
    /// # Errors
    ///
    /// As [`spill`](Self::spill).
    pub(crate) fn rows(&mut self, grid: &Grid) -> Result<(), Failure> {
        for row in grid.rows(terminal_width()) {
            self.text.extend_from_slice(row.as_bytes());
            self.spill()?;
        }
        Ok(())
    }

    /// Adds a table that fits the terminal, or 80 columns where there is none.
    ///
    /// # Errors
    ///
    /// As [`spill`](Self::spill).
    pub(crate) fn narrow_rows(&mut self, grid: &Grid) -> Result<(), Failure> {
        for row in grid.rows(Some(terminal_width().unwrap_or(80))) {
            self.text.extend_from_slice(row.as_bytes());
            self.spill()?;
        }
        Ok(())
    }

    /// Writes the buffer if there is anything in it.
    ///
    /// # Errors
    ///
    /// As [`spill`](Self::spill).
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        if self.text.is_empty() { Ok(()) } else { self.write() }
    }

    /// Writes the buffer at the end of the output.
    ///
    /// # Errors
    ///
    /// As [`spill`](Self::spill).
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        self.write()
    }

    /// Appends an object as one line of JSON, in which what is not printable is `\uHHHH`. Each line
    /// has the version of the schema, since lines are read, filtered and merged one by one.
    pub(crate) fn json_line(&mut self, object: &impl Serialize) -> Result<(), Failure> {
        let start = self.text.len();
        let line = VersionedLine { schema: SCHEMA_VERSION, object };
        serde_json::to_writer(&mut self.text, &line).map_err(std::io::Error::from)?;
        let line = std::str::from_utf8(self.text.get(start..).unwrap_or_default());
        if let Cow::Owned(shown) = printable::json(line.unwrap_or_default()) {
            self.text.truncate(start);
            self.text.extend_from_slice(shown.as_bytes());
        }
        self.text.push(b'\n');
        self.spill()
    }

    fn write(&mut self) -> Result<(), Failure> {
        let mut stdout = std::io::stdout().lock();
        let text =
            if self.is_raw { Cow::Borrowed(&*self.text) } else { printable::lines(&self.text) };
        stdout.write_all(&text)?;
        stdout.flush()?;
        self.text.clear();
        Ok(())
    }
}

/// Prints a line on standard error. An error of that is ignored.
pub(crate) fn warn(message: &dyn std::fmt::Display) {
    let message = message.to_string();
    let _ = writeln!(std::io::stderr(), "mmv-archive: {}", printable::line(&message));
}

/// The width of the output, where nothing has one.
const WIDTH: usize = 100;
/// The height of the output, where nothing has one.
const HEIGHT: usize = 50;
/// No table fits into less.
const MIN_WIDTH: usize = 20;

/// Returns the width of the output in columns: what COLUMNS has, else that of the terminal that
/// standard output is, or standard error (so that a pager gets the width of its terminal), else
/// 100.
pub(crate) fn output_width() -> usize {
    let columns = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let terminal = tcgetwinsize(std::io::stdout()).or_else(|_| tcgetwinsize(std::io::stderr()));
    let terminal = terminal.ok().map(|size| usize::from(size.ws_col));
    let mut widths = [columns, terminal].into_iter().flatten();
    widths.find(|width| *width >= MIN_WIDTH).unwrap_or(WIDTH)
}

/// Returns the height of the output in lines: what LINES has, else that of the terminal that
/// standard output is; `None` if it is a file or a pipe.
pub(crate) fn terminal_height() -> Option<usize> {
    let lines = std::env::var("LINES").ok().and_then(|text| text.parse().ok());
    let terminal = || tcgetwinsize(std::io::stdout()).ok().map(|size| usize::from(size.ws_row));
    let is_usable = |height: &usize| *height > 0;
    lines.filter(is_usable).or_else(|| terminal().filter(is_usable))
}

/// Returns [`terminal_height`], else 50.
pub(crate) fn output_height() -> usize {
    terminal_height().unwrap_or(HEIGHT)
}

/// Returns the width of the terminal that standard output is, in columns; `None` if it is a file or
/// a pipe, whose lines another program reads.
pub(crate) fn terminal_width() -> Option<usize> {
    std::io::stdout().is_terminal().then(output_width)
}

/// Formats a name in one line. It may have bytes as `\xHH` already, as names of an archive have.
pub(crate) fn shown(name: &str) -> Cow<'_, str> {
    printable::line(name)
}

/// Formats a string of an archive in one line.
pub(crate) fn shown_bytes(bytes: &[u8]) -> Cow<'_, str> {
    printable::bytes(bytes)
}

/// Formats the name of a file in one line.
pub(crate) fn shown_path(path: &Path) -> Cow<'_, str> {
    printable::path(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_its_strings_without_what_is_not_printable() {
        let mut out = Output::new();
        let name = "a\u{1b}\u{9b}0m\u{202e}\u{fc}";
        out.json_line(&serde_json::json!({ "name": name })).unwrap();
        let line = String::from_utf8(out.text).unwrap();
        assert_eq!(line, "{\"schema\":1,\"name\":\"a\\u001b\\u009b0m\\u202e\u{fc}\"}\n");
        let read: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(read["name"], name);
    }
}

//! Standard output through one large buffer, and messages on standard error.
//!
//! A server runs commands whose output is an answer: [`capture`] takes what a thread prints.

use mmv_chart::Grid;
use std::borrow::Cow;
use std::cell::RefCell;
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

/// Limit on the messages that are kept of a captured command.
const MAX_MESSAGES: usize = 20;

thread_local! {
    /// The output of this thread, while it is captured.
    static CAPTURED: RefCell<Option<CapturedOutput>> = const { RefCell::new(None) };
}

/// The output of a command that is returned instead of written.
#[derive(Debug, Default)]
pub(crate) struct CapturedOutput {
    /// Lines of printable characters, of which the last may not be whole if they are cut.
    pub(crate) text: Vec<u8>,
    /// Printable messages, each a line; the first of very many.
    pub(crate) messages: Vec<String>,
    /// The output was longer than the limit.
    pub(crate) is_cut: bool,
    limit: usize,
}

impl CapturedOutput {
    fn write(&mut self, text: &[u8]) -> Result<(), Failure> {
        let room = self.limit.saturating_sub(self.text.len());
        self.text.extend_from_slice(text.get(..room).unwrap_or(text));
        self.is_cut |= text.len() > room;
        if self.is_cut { Err(Failure::Closed) } else { Ok(()) }
    }
}

/// Runs a command and takes what this thread prints meanwhile. After `limit` bytes the output is
/// closed, which ends a command early as the end of a pipe does.
pub(crate) fn capture<T>(limit: usize, command: impl FnOnce() -> T) -> (T, CapturedOutput) {
    CAPTURED.set(Some(CapturedOutput { limit, ..CapturedOutput::default() }));
    let result = command();
    (result, CAPTURED.take().unwrap_or_default())
}

fn is_captured() -> bool {
    CAPTURED.with_borrow(Option::is_some)
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

    /// Adds a table that fits the terminal, or 80 columns where there is none. Captured, each row
    /// is a line.
    ///
    /// # Errors
    ///
    /// As [`spill`](Self::spill).
    pub(crate) fn narrow_rows(&mut self, grid: &Grid) -> Result<(), Failure> {
        let width = if is_captured() { None } else { Some(terminal_width().unwrap_or(80)) };
        for row in grid.rows(width) {
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
        let text =
            if self.is_raw { Cow::Borrowed(&*self.text) } else { printable::lines(&self.text) };
        let captured = CAPTURED
            .with_borrow_mut(|captured| captured.as_mut().map(|captured| captured.write(&text)));
        if let Some(written) = captured {
            self.text.clear();
            return written;
        }
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(&text)?;
        stdout.flush()?;
        self.text.clear();
        Ok(())
    }
}

/// Prints a line on standard error. An error of that is ignored.
pub(crate) fn warn(message: &dyn std::fmt::Display) {
    let message = message.to_string();
    let message = printable::line(&message);
    let is_captured = CAPTURED.with_borrow_mut(|captured| {
        let Some(printed) = captured else { return false };
        if printed.messages.len() < MAX_MESSAGES {
            printed.messages.push(message.to_string());
        }
        true
    });
    if !is_captured {
        let _ = writeln!(std::io::stderr(), "mmv-archive: {message}");
    }
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
/// standard output is; `None` if it is a file or a pipe, or captured.
pub(crate) fn terminal_height() -> Option<usize> {
    if is_captured() {
        return None;
    }
    if let Ok(lines) = std::env::var("LINES")
        && let Ok(height @ 1..) = lines.parse()
    {
        return Some(height);
    }
    let size = tcgetwinsize(std::io::stdout()).ok()?;
    Some(usize::from(size.ws_row)).filter(|height| *height > 0)
}

/// Returns [`terminal_height`], else 50.
pub(crate) fn output_height() -> usize {
    terminal_height().unwrap_or(HEIGHT)
}

/// Returns the width of the terminal that standard output is, in columns; `None` if it is a file or
/// a pipe, whose lines another program reads, or captured.
pub(crate) fn terminal_width() -> Option<usize> {
    let has_terminal = !is_captured() && std::io::stdout().is_terminal();
    has_terminal.then(output_width)
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
    fn captured_output_has_a_limit_and_nothing_unprintable() {
        let print = || {
            let mut out = Output::new();
            for _ in 0..3 {
                out.text.extend_from_slice(b"line \x1b[2J\n");
                out.flush()?;
            }
            warn(&"two\nlines");
            out.finish()
        };
        let (result, printed) = capture(1000, print);
        assert!(result.is_ok() && !printed.is_cut);
        assert_eq!(printed.text, b"line \\x1b[2J\n".repeat(3));
        assert_eq!(printed.messages, ["two\\x0alines"]);
        let (result, printed) = capture(20, print);
        assert!(matches!(result, Err(Failure::Closed)) && printed.is_cut);
        assert_eq!(printed.text, b"line \\x1b[2J\nline \\x");
        let ((), printed) = capture(0, || (0..1000).for_each(|number| warn(&number)));
        assert_eq!(printed.messages.len(), MAX_MESSAGES);
        assert!(!is_captured());
    }

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

//! Standard output through one large buffer.

use std::borrow::Cow;
use std::io::{IsTerminal as _, Write as _};

use pcp_archive::ByteText;
use rustix::termios::tcgetwinsize;

use crate::Failure;

/// Bytes of a full buffer.
const CHUNK: usize = 1 << 20;

/// A buffer in front of standard output.
///
/// Commands append to [`text`](Self::text) and call [`spill`](Self::spill)
/// after each record or line, which writes about once a megabyte. Drop writes
/// nothing: [`finish`](Self::finish) writes and reports errors.
///
/// Names and strings in an archive can have any content. On a terminal their
/// control characters are replaced by blanks; a file or a pipe gets every byte.
#[derive(Debug)]
pub(crate) struct Output {
    /// Text that is not written yet.
    pub(crate) text: Vec<u8>,
    is_terminal: bool,
    /// The text is passed to another buffer and never written from this one.
    is_detached: bool,
}

impl Output {
    pub(crate) fn new() -> Self {
        let is_terminal = std::io::stdout().is_terminal();
        Self { text: Vec::with_capacity(CHUNK + CHUNK / 4), is_terminal, is_detached: false }
    }

    /// A buffer whose text is passed to another one.
    pub(crate) const fn detached() -> Self {
        Self { text: Vec::new(), is_terminal: false, is_detached: true }
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

    /// Appends a value as one line of JSON.
    pub(crate) fn json_line(&mut self, value: &impl serde::Serialize) -> Result<(), Failure> {
        serde_json::to_writer(&mut self.text, value).map_err(std::io::Error::from)?;
        self.text.push(b'\n');
        self.spill()
    }

    fn write(&mut self) -> Result<(), Failure> {
        let mut stdout = std::io::stdout().lock();
        let text = if self.is_terminal {
            without_controls(&self.text)
        } else {
            Cow::Borrowed(&*self.text)
        };
        stdout.write_all(&text)?;
        stdout.flush()?;
        self.text.clear();
        Ok(())
    }
}

/// Prints a line on standard error. An error of that is ignored.
pub(crate) fn warn(message: &dyn std::fmt::Display) {
    let _ = writeln!(std::io::stderr(), "mmv-archive: {message}");
}

/// The width of the output, where nothing has one.
const WIDTH: usize = 100;
/// No table fits into less.
const LEAST_WIDTH: usize = 20;

/// The width of the output in columns: what COLUMNS has, else that of the terminal that
/// standard output is, or standard error (so that a pager gets the width of its
/// terminal), else 100.
pub(crate) fn output_width() -> usize {
    let columns = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let terminal = || {
        let size = tcgetwinsize(std::io::stdout()).or_else(|_| tcgetwinsize(std::io::stderr()));
        size.ok().map(|size| usize::from(size.ws_col))
    };
    let is_usable = |width: &usize| *width >= LEAST_WIDTH;
    columns.filter(is_usable).or_else(|| terminal().filter(is_usable)).unwrap_or(WIDTH)
}

/// A text with blanks instead of control characters.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// A name with control characters as their bytes, `\x0a`: names that differ look
/// different.
pub(crate) fn shown(name: &str) -> Cow<'_, str> {
    ByteText::without_controls(name)
}

/// Lines with blanks instead of control characters other than line ends and tabs.
fn without_controls(text: &[u8]) -> Cow<'_, [u8]> {
    let blank = |c: char| if c.is_control() && !"\n\t".contains(c) { ' ' } else { c };
    let lines: String = String::from_utf8_lossy(text).chars().map(blank).collect();
    Cow::Owned(lines.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printable_text_has_no_control_characters() {
        assert_eq!(printable("a\nb\t\u{1b}[2Jc\u{9b}0m"), "a b  [2Jc 0m");
        assert_eq!(printable("Gr\u{fc}n"), "Gr\u{fc}n");
    }

    #[test]
    fn a_terminal_gets_lines_and_tabs_but_no_escapes() {
        assert_eq!(&*without_controls(b"a\tb\x1b[2J\r\n"), b"a\tb [2J \n");
        assert_eq!(&*without_controls(b"\xc2\x9b0m"), b" 0m");
        assert_eq!(&*without_controls(b"\x9b0m"), "\u{fffd}0m".as_bytes());
    }
}

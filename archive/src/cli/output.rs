//! Standard output through one large buffer.

use std::borrow::Cow;
use std::io::{IsTerminal as _, Write as _};

use super::failure::Failure;

/// Written to standard output when so many bytes have been gathered.
const CHUNK: usize = 1 << 20;

/// A buffer in front of standard output.
///
/// Commands append to [`text`](Self::text) and call [`spill`](Self::spill)
/// once a record or a line; a write happens once a megabyte. Nothing is
/// written when it is dropped: [`finish`](Self::finish) reports errors.
///
/// Names and strings are whatever the writer of the archive put there. A
/// terminal is shielded from the control characters among them; a file or a
/// pipe gets every byte.
#[derive(Debug)]
pub(crate) struct Output {
    /// What is gathered and not yet written.
    pub(crate) text: Vec<u8>,
    is_terminal: bool,
    /// The text is for another buffer, and never written from here.
    is_apart: bool,
}

impl Output {
    pub(crate) fn new() -> Self {
        let is_terminal = std::io::stdout().is_terminal();
        Self { text: Vec::with_capacity(CHUNK + CHUNK / 4), is_terminal, is_apart: false }
    }

    /// A buffer whose text goes through another one.
    pub(crate) const fn unwritten() -> Self {
        Self { text: Vec::new(), is_terminal: false, is_apart: true }
    }

    /// Writes the buffer out, and then the text of another, which is large.
    ///
    /// # Errors
    ///
    /// As [`spill`](Self::spill).
    pub(crate) fn write_behind(&mut self, text: &mut Vec<u8>) -> Result<(), Failure> {
        self.flush()?;
        std::mem::swap(&mut self.text, text);
        let written = self.flush();
        std::mem::swap(&mut self.text, text);
        written
    }

    /// Writes the buffer out if it is full.
    ///
    /// # Errors
    ///
    /// [`Failure::Closed`] if nobody reads any more, [`Failure::Output`].
    pub(crate) fn spill(&mut self) -> Result<(), Failure> {
        if self.is_apart || self.text.len() < CHUNK { Ok(()) } else { self.write() }
    }

    /// Writes out what there is, for someone who waits for it.
    ///
    /// # Errors
    ///
    /// As [`spill`](Self::spill).
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        if self.text.is_empty() { Ok(()) } else { self.write() }
    }

    /// Writes the rest out.
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
        let text = if self.is_terminal { shielded(&self.text) } else { Cow::Borrowed(&*self.text) };
        stdout.write_all(&text)?;
        stdout.flush()?;
        self.text.clear();
        Ok(())
    }
}

/// A text that stays on its line and moves no cursor: control characters are
/// blanks.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Lines for a terminal: no control characters but line ends and tabs.
fn shielded(text: &[u8]) -> Cow<'_, [u8]> {
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
        assert_eq!(&*shielded(b"a\tb\x1b[2J\r\n"), b"a\tb [2J \n");
        assert_eq!(&*shielded(b"\xc2\x9b0m"), b" 0m");
        assert_eq!(&*shielded(b"\x9b0m"), "\u{fffd}0m".as_bytes());
    }
}

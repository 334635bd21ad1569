//! Lines of limited length.

use std::io::{self, BufRead, Read as _};

/// Limit on the bytes of a message; requests have some hundred.
pub(super) const MAX_LINE: usize = 256 << 10;

/// A line without its end.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'l> {
    Text(&'l [u8]),
    /// Longer than the limit; it was skipped.
    TooLong,
}

/// Reads lines that are not empty, in the memory of one.
pub(super) struct Lines<R> {
    input: R,
    line: Vec<u8>,
}

impl<R: BufRead> Lines<R> {
    pub(super) const fn new(input: R) -> Self {
        Self { input, line: Vec::new() }
    }

    /// Returns the next line; `None` at the end of the input.
    ///
    /// # Errors
    ///
    /// Those of the input.
    pub(super) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        loop {
            self.line.clear();
            let limit = MAX_LINE as u64 + 1;
            let read = self.input.by_ref().take(limit).read_until(b'\n', &mut self.line)?;
            if read == 0 {
                return Ok(None);
            }
            let has_end = self.line.ends_with(b"\n");
            if !has_end && read > MAX_LINE {
                self.input.skip_until(b'\n')?;
                return Ok(Some(Line::TooLong));
            }
            if !self.line.trim_ascii().is_empty() {
                return Ok(Some(Line::Text(self.line.trim_ascii())));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_at_newlines_and_the_end_of_the_input() {
        let mut lines = Lines::new(&b"one\n\r\n \ntwo\r\nthree"[..]);
        for expected in ["one", "two", "three"] {
            assert_eq!(lines.next().unwrap(), Some(Line::Text(expected.as_bytes())));
        }
        assert_eq!(lines.next().unwrap(), None);
    }

    #[test]
    fn a_line_beyond_the_limit_is_skipped_without_keeping_it() {
        let longest = "x".repeat(MAX_LINE);
        let long = "y".repeat(100 * MAX_LINE);
        let input = format!("{longest}\n{long}\nz\n{long}");
        let mut lines = Lines::new(input.as_bytes());
        assert_eq!(lines.next().unwrap(), Some(Line::Text(longest.as_bytes())));
        assert_eq!(lines.next().unwrap(), Some(Line::TooLong));
        assert_eq!(lines.next().unwrap(), Some(Line::Text(b"z")));
        assert_eq!(lines.next().unwrap(), Some(Line::TooLong));
        assert_eq!(lines.next().unwrap(), None);
        assert!(lines.line.capacity() <= 2 * (MAX_LINE + 1));
    }
}

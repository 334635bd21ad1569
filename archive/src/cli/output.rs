//! Standard output through one large buffer.

use std::io::Write as _;

use super::failure::Failure;

/// Written to standard output when so many bytes have been gathered.
const CHUNK: usize = 1 << 20;

/// A buffer in front of standard output.
///
/// Commands append to [`text`](Self::text) and call [`spill`](Self::spill)
/// once a record or a line; a write happens once a megabyte. Nothing is
/// written when it is dropped: [`finish`](Self::finish) reports errors.
#[derive(Debug)]
pub(crate) struct Output {
    /// What is gathered and not yet written.
    pub(crate) text: Vec<u8>,
}

impl Output {
    pub(crate) fn new() -> Self {
        Self { text: Vec::with_capacity(CHUNK + CHUNK / 4) }
    }

    /// Writes the buffer out if it is full.
    ///
    /// # Errors
    ///
    /// [`Failure::Closed`] if nobody reads any more, [`Failure::Output`].
    pub(crate) fn spill(&mut self) -> Result<(), Failure> {
        if self.text.len() < CHUNK { Ok(()) } else { self.write() }
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
        stdout.write_all(&self.text)?;
        stdout.flush()?;
        self.text.clear();
        Ok(())
    }
}

//! Random access to a compressed file, within bounded memory.
//!
//! Files that list their blocks are read block by block (`blocks.rs`). Others can only
//! be decoded from the start of a stream. Such a file is therefore decoded forwards as
//! far as needed, and the last [`KEPT`] bytes stay in memory. Bytes before them are
//! decoded again, from the nearest start of a stream. Hence
//!
//! | access | cost |
//! |---|---|
//! | forwards | one pass |
//! | a step back within [`KEPT`] bytes | nothing |
//! | backwards through all `n` bytes | about `n / KEPT` passes of `n / 2` on average |
//!
//! Files of several streams (`pixz`, `cat a.gz b.gz`) are entered at the
//! nearest stream and need less. Nothing is ever written to disk.
//!
//! A file of some kilobytes can decompress to gigabytes. What a reader decodes is bounded
//! by the size of the file, and ends early where the bytes are not records ([`Frames`]).

mod decoder;
mod frames;

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::sync::Arc;

use super::{MAX_DAMAGE, count_leading_zeros};
use crate::Compression;
use decoder::{Decoder, Input};
use frames::Frames;

pub(super) use decoder::MAX_XZ_MEMORY;

/// Decompressed bytes that stay in memory; at most twice as many do.
pub(crate) const KEPT: usize = 8 << 20;
/// Bytes that are decompressed at once.
const STEP: usize = 256 << 10;
/// Records differ in their timestamps at least, so no real archive is
/// compressed further than this. It bounds what a crafted file can make a
/// reader decode.
const MAX_RATIO: u64 = 1024;
/// As [`MAX_RATIO`], for an index, whose entries are not framed records.
const MAX_INDEX_RATIO: u64 = 64;
/// An index that decompresses to more than that.
const TOO_LARGE: io::ErrorKind = io::ErrorKind::FileTooLarge;
/// A file may decompress to this however small it is.
const MIN_LIMIT: u64 = 16 << 20;
const INPUT_BUFFER: usize = 64 << 10;

/// Returns the most bytes that a file of this length may decompress to.
pub(super) fn most_decompressed(len: u64) -> u64 {
    len.saturating_mul(MAX_RATIO).max(MIN_LIMIT)
}

fn most_of_index(len: u64) -> u64 {
    len.saturating_mul(MAX_INDEX_RATIO).max(MIN_LIMIT)
}

pub(crate) struct DecompressedFile {
    file: Arc<File>,
    compression: Compression,
    limit: u64,
    /// The stream that is being decoded; none between two of them.
    decoder: Option<Decoder>,
    /// Offset of the next stream in the file.
    next: u64,
    /// The starts of all streams that were found, rising.
    streams: Vec<StreamStart>,
    /// Decompressed bytes from `kept_start` on.
    kept: Vec<u8>,
    kept_start: u64,
    /// Up to here the file was decoded at least once.
    known: u64,
    /// Checks whether what is decoded for the first time is records; none for an index.
    frames: Option<Frames>,
    end: StreamEnd,
}

#[derive(Clone, Copy)]
struct StreamStart {
    compressed: u64,
    decompressed: u64,
}

/// The end of the stream, once it is known.
enum StreamEnd {
    NotReached,
    Reached,
    /// The compressed data is damaged there.
    Damaged(io::ErrorKind, String),
}

impl std::fmt::Debug for DecompressedFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DecompressedFile")
            .field("compression", &self.compression)
            .field("known", &self.known)
            .finish_non_exhaustive()
    }
}

impl DecompressedFile {
    /// Creates the reader of a compressed file of `len` bytes, which holds records unless it is an
    /// index.
    pub(crate) fn new(file: File, len: u64, compression: Compression, is_index: bool) -> Self {
        Self {
            file: Arc::new(file),
            compression,
            limit: if is_index { most_of_index(len) } else { most_decompressed(len) },
            frames: (!is_index).then(Frames::default),
            decoder: None,
            next: 0,
            streams: Vec::new(),
            kept: Vec::new(),
            kept_start: 0,
            known: 0,
            end: StreamEnd::NotReached,
        }
    }

    /// Returns the number of decompressed bytes from `offset` on, at most `most`.
    ///
    /// # Errors
    ///
    /// The system's; damage, if it leaves fewer than `least`; a compression
    /// that is not supported.
    pub(crate) fn available(&mut self, offset: u64, least: u64, most: u64) -> io::Result<u64> {
        let end = offset.saturating_add(most);
        while self.known < end && matches!(self.end, StreamEnd::NotReached) {
            self.seek(self.known)?;
            self.decompress()?;
        }
        let found = self.known.saturating_sub(offset).min(most);
        match &self.end {
            // What is not supported is not damaged, so it is never skipped.
            StreamEnd::Damaged(kind @ (io::ErrorKind::Unsupported | TOO_LARGE), text) => {
                Err(io::Error::new(*kind, text.clone()))
            }
            StreamEnd::Damaged(kind, text) if found < least => {
                Err(io::Error::new(*kind, text.clone()))
            }
            _ => Ok(found),
        }
    }

    /// Fills `bytes` from `offset` on.
    ///
    /// # Errors
    ///
    /// The system's, damage, and the end of the file.
    pub(crate) fn read_at(&mut self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        let mut at = offset;
        let mut rest = bytes;
        while !rest.is_empty() {
            self.seek(at)?;
            let have = self.kept.get((at - self.kept_start) as usize..).unwrap_or_default();
            let n = have.len().min(rest.len());
            let (now, later) = rest.split_at_mut(n);
            now.copy_from_slice(have.get(..n).unwrap_or_default());
            at += n as u64;
            rest = later;
            if !rest.is_empty() && !self.decompress()? {
                self.available(at, rest.len() as u64, rest.len() as u64)?;
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(())
    }

    /// Makes the byte at `offset`, or the one before it, the last one kept or
    /// an earlier one.
    fn seek(&mut self, offset: u64) -> io::Result<()> {
        if offset < self.kept_start {
            let after = self.streams.partition_point(|stream| stream.decompressed <= offset);
            let start = after.checked_sub(1).and_then(|at| self.streams.get(at));
            let start = start.copied().unwrap_or(StreamStart { compressed: 0, decompressed: 0 });
            self.decoder = None;
            self.next = start.compressed;
            self.kept.clear();
            self.kept_start = start.decompressed;
        }
        while self.kept_end() < offset && self.decompress()? {}
        Ok(())
    }

    fn kept_end(&self) -> u64 {
        self.kept_start + self.kept.len() as u64
    }

    /// Decodes a little more; false at the end.
    fn decompress(&mut self) -> io::Result<bool> {
        let ended = !matches!(self.end, StreamEnd::NotReached);
        if ended && self.kept_end() >= self.known {
            return Ok(false);
        }
        self.trim();
        let before = self.kept_end();
        match self.step() {
            Ok(true) if self.kept_end() <= self.limit => {}
            Ok(true) => {
                let text = format!("decompresses to more than {} bytes", self.limit);
                // Records before that count; an index with that many entries is not used.
                let is_index = self.frames.is_none();
                let kind = if is_index { TOO_LARGE } else { io::ErrorKind::InvalidData };
                self.end = StreamEnd::Damaged(kind, text);
            }
            Ok(false) => self.end = StreamEnd::Reached,
            Err(error) if error.raw_os_error().is_some() => {
                // Decoders do not continue after an error: start again.
                self.decoder = None;
                self.next = 0;
                self.kept_start = 0;
                self.kept.clear();
                return Err(error);
            }
            Err(error) => self.end = StreamEnd::Damaged(error.kind(), error.to_string()),
        }
        if self.kept_end() > self.known {
            self.known = self.kept_end();
            self.check_records();
        }
        let is_over = !matches!(self.end, StreamEnd::NotReached) && self.kept_end() >= self.known;
        Ok(!is_over || self.kept_end() > before)
    }

    /// Ends the file where it is no records for too long.
    fn check_records(&mut self) {
        let Some(frames) = &mut self.frames else { return };
        let Some(damage) = frames.walk(&self.kept, self.kept_start) else { return };
        if self.known - damage > MAX_DAMAGE && matches!(self.end, StreamEnd::NotReached) {
            let text = format!("no record in the {MAX_DAMAGE} bytes from offset {damage} on");
            self.end = StreamEnd::Damaged(io::ErrorKind::InvalidData, text);
        }
    }

    fn step(&mut self) -> io::Result<bool> {
        let Some(decoder) = &mut self.decoder else { return self.open_stream() };
        let before = self.kept.len();
        self.kept.resize(before + STEP, 0);
        let read = decoder.read(self.kept.get_mut(before..).unwrap_or_default());
        self.kept.truncate(before + *read.as_ref().unwrap_or(&0));
        if read? == 0
            && let Some(decoder) = self.decoder.take()
        {
            self.next = decoder.finish()?;
        }
        Ok(true)
    }

    /// Starts to decode the next stream; false if there is none.
    fn open_stream(&mut self) -> io::Result<bool> {
        let mut file = &*self.file;
        file.seek(SeekFrom::Start(self.next))?;
        let mut input = Input::with_capacity(INPUT_BUFFER, Arc::clone(&self.file));
        if !skip_padding(&mut input)? {
            return Ok(false);
        }
        let start =
            StreamStart { compressed: input.stream_position()?, decompressed: self.kept_end() };
        if self.streams.last().is_none_or(|last| last.compressed < start.compressed) {
            self.streams.push(start);
        }
        self.decoder = Some(Decoder::new(self.compression, input)?);
        Ok(true)
    }

    fn trim(&mut self) {
        if self.kept.len() >= 2 * KEPT {
            let surplus = self.kept.len() - KEPT;
            self.kept.drain(..surplus);
            self.kept_start += surplus as u64;
        }
    }
}

/// Skips zeros, which no stream starts with; false if nothing follows.
fn skip_padding(input: &mut Input) -> io::Result<bool> {
    use std::io::BufRead as _;
    loop {
        let bytes = input.fill_buf()?;
        if bytes.is_empty() {
            return Ok(false);
        }
        let zeros = count_leading_zeros(bytes);
        let found = zeros < bytes.len();
        input.consume(zeros);
        if found {
            return Ok(true);
        }
    }
}

#[cfg(test)]
mod tests;

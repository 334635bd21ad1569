//! All records of one file, with the damage between them.

use super::{FileWindow, NextRecord, RecordFile, count_leading_zeros};
use crate::format::{frame, metadata_record};
use crate::{Error, Record, RecordError, Result, Timestamp, Version};

/// The longest record that is searched for after damage in a compressed file:
/// no more of it stays in memory.
const MAX_EXPANDED_RECORD: u64 = 8 << 20;
/// Bytes that may be parsed for each byte that is skipped. Damaged bytes can claim any length at
/// any place; this bounds the time that a search takes.
const MAX_PARSED_PER_SKIPPED: u64 = 64;
/// Bytes of the file that are searched at once.
const BLOCK: usize = 256 << 10;

/// A record or damage, as a scan finds them in order.
#[derive(Debug)]
pub(crate) enum ScannedRecord {
    /// A record whose length words agree. Its bytes are there until the next
    /// call.
    Record { offset: u64, len: usize },
    /// Bytes that belong to no record.
    Damage(Damage),
}

/// A range of a file that belongs to no record.
#[derive(Debug)]
pub(crate) struct Damage {
    pub(crate) offset: u64,
    /// Bytes up to the next record, or to the end of the file.
    pub(crate) len: u64,
    pub(crate) error: Error,
    /// No record follows.
    pub(crate) is_tail: bool,
}

/// Reads the records of a file, and skips other bytes.
///
/// After a record with bad length words every byte is tried as the start of the next
/// one, until a record is found whose fields are also good.
#[derive(Debug)]
pub(crate) struct Scanner {
    file: RecordFile,
    window: FileWindow,
    version: Version,
    is_good: fn(Version, &[u8]) -> bool,
    offset: u64,
    is_over: bool,
}

impl Scanner {
    /// Returns the records after the label of a data volume.
    pub(crate) fn of_data(file: RecordFile, version: Version) -> Self {
        Self::new(file, version, |version, bytes| Record::parse(version, bytes, 0, 0).is_ok())
    }

    /// Returns the records after the label of a `.meta` file.
    pub(crate) fn of_metadata(file: RecordFile, version: Version) -> Self {
        Self::new(file, version, |version, bytes| metadata_record::parse(version, bytes).is_ok())
    }

    pub(crate) const fn starting_at(mut self, offset: u64) -> Self {
        self.offset = offset;
        self
    }

    fn new(file: RecordFile, version: Version, is_good: fn(Version, &[u8]) -> bool) -> Self {
        let window = FileWindow::default();
        let offset = version.label_size();
        Self { file, window, version, is_good, offset, is_over: false }
    }

    /// Returns the bytes of the record just found.
    pub(crate) fn bytes(&self, offset: u64, len: usize) -> &[u8] {
        self.window.get(offset, len).unwrap_or_default()
    }

    /// Returns the next record or stretch of damage; `None` at the end.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] only.
    pub(crate) fn next(&mut self) -> Result<Option<ScannedRecord>> {
        if self.is_over {
            return Ok(None);
        }
        let offset = self.offset;
        let error = match self.window.forward(&mut self.file, offset) {
            Ok(NextRecord::End) => return Ok(None),
            Ok(NextRecord::Record(len)) => match frame::parse(self.bytes(offset, len)) {
                Ok(_) => {
                    self.offset += len as u64;
                    return Ok(Some(ScannedRecord::Record { offset, len }));
                }
                Err(source) => self.file.corrupt(offset, source),
            },
            Ok(NextRecord::Torn { needed, left }) => {
                let field = "record";
                self.file.corrupt(offset, RecordError::Truncated { field, needed, left })
            }
            Err(error @ Error::Io { .. }) => return Err(error),
            Err(error) => error,
        };
        self.skip(offset, error).map(|damage| Some(ScannedRecord::Damage(damage)))
    }

    fn skip(&mut self, offset: u64, error: Error) -> Result<Damage> {
        let next = self.search(offset + 1)?;
        let end = match next {
            Some(next) => next,
            None => offset + self.file.available(offset, 0, u64::MAX)?,
        };
        self.offset = end;
        self.is_over = next.is_none();
        Ok(Damage { offset, len: end - offset, error, is_tail: next.is_none() })
    }

    /// Returns the first good record that starts at `from` or later.
    fn search(&mut self, from: u64) -> Result<Option<u64>> {
        // Enough for one record that is as long as the file.
        let mut patience = if self.file.is_compressed() {
            MAX_EXPANDED_RECORD
        } else {
            self.file.available(from, 0, u64::MAX)?
        };
        let mut block = Vec::new();
        let mut start = from;
        loop {
            // The length before a record may begin with zeros.
            let data = self.file.skip_hole(start);
            start = start.max(data.saturating_sub(frame::LENGTH_WORD as u64));
            let len = self.file.available(start, 0, BLOCK as u64)? as usize;
            if len < frame::OVERHEAD {
                match self.file.damaged_until(start + len as u64) {
                    Some(end) if end > start => start = end,
                    _ => return Ok(None),
                }
                continue;
            }
            block.resize(len, 0);
            self.file.read_at(&mut block, start)?;
            // The last bytes of the block are the first of the next.
            let starts = len - frame::OVERHEAD + 1;
            let mut at = 0;
            while at < starts {
                // Of zeros the last three can begin a length word.
                let zeros = count_leading_zeros(block.get(at..).unwrap_or_default());
                let passed_over = zeros.saturating_sub(frame::LENGTH_WORD - 1);
                if passed_over > 0 {
                    patience = patience.saturating_add(MAX_PARSED_PER_SKIPPED * passed_over as u64);
                    at += passed_over;
                    continue;
                }
                patience = patience.saturating_add(MAX_PARSED_PER_SKIPPED);
                if self.is_record(start, &block, at, &mut patience)? {
                    return Ok(Some(start + at as u64));
                }
                at += 1;
            }
            start += starts as u64;
            if start > self.file.most_damage(from) {
                return Ok(None);
            }
        }
    }

    fn is_record(
        &mut self,
        start: u64,
        block: &[u8],
        at: usize,
        patience: &mut u64,
    ) -> Result<bool> {
        let head = block.get(at..).unwrap_or_default();
        let Ok(len) = frame::parse_length(head) else { return Ok(false) };
        let len = len as usize;
        if let Some(record) = head.get(..len) {
            return Ok(frame::parse(record).is_ok()
                && spend(patience, len)
                && self.is_good_record(record));
        }
        if self.file.is_compressed() && len as u64 > MAX_EXPANDED_RECORD {
            return Ok(false);
        }
        let offset = start + at as u64;
        if self.file.available(offset, 0, len as u64)? < len as u64 {
            return Ok(false);
        }
        let mut trailer = [0; frame::LENGTH_WORD];
        self.file.read_at(&mut trailer, offset + (len - frame::LENGTH_WORD) as u64)?;
        if frame::parse_trailer(&trailer) != Ok(len as u32) || !spend(patience, len) {
            return Ok(false);
        }
        let mut record = vec![0; len];
        self.file.read_at(&mut record, offset)?;
        Ok(self.is_good_record(&record))
    }

    fn is_good_record(&self, record: &[u8]) -> bool {
        (self.is_good)(self.version, record)
    }
}

/// Takes the length of a record from the budget of the search; false if it is not enough.
const fn spend(patience: &mut u64, len: usize) -> bool {
    match patience.checked_sub(len as u64) {
        Some(left) => {
            *patience = left;
            true
        }
        None => false,
    }
}

/// Looks in a data volume for the first record from `offset` on that can be read. Returns its place
/// and its time, or the end of the damage if there is none.
pub(crate) fn next_intact(
    file: RecordFile,
    version: Version,
    offset: u64,
) -> Result<(u64, Option<Timestamp>)> {
    let mut scanner = Scanner::of_data(file, version).starting_at(offset);
    let mut after = offset;
    while let Some(piece) = scanner.next()? {
        match piece {
            ScannedRecord::Damage(damage) => after = damage.offset + damage.len,
            ScannedRecord::Record { offset: at, len } => {
                if let Ok(record) = Record::parse(version, scanner.bytes(at, len), 0, at) {
                    return Ok((at, Some(record.timestamp())));
                }
                after = at + len as u64;
            }
        }
    }
    Ok((after, None))
}

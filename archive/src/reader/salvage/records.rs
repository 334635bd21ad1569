//! The good data records of a damaged archive.

use super::{Loss, Salvage, belongs};
use crate::files::{AddExtension as _, RecordFile, ScannedRecord, Scanner};
use crate::format::Role;
use crate::{Record, Result, Timestamp};

/// A good record or what is lost in its place.
#[derive(Debug)]
pub enum SalvageItem<'r> {
    /// A record; it lives until the next call.
    Record(Record<'r>),
    /// Bytes that are not a record.
    Lost(Loss),
}

/// The data records of a [`Salvage`], forwards.
#[derive(Debug)]
pub struct SalvagedRecords<'s> {
    salvage: &'s Salvage,
    /// The volume being read, or the next one.
    volume: u32,
    scanner: Option<Scanner>,
    last: Option<Timestamp>,
}

/// As [`SalvageItem`], but not yet parsed.
enum NextPiece {
    Record { offset: u64, len: usize },
    Lost(Loss),
}

impl<'s> SalvagedRecords<'s> {
    pub(super) const fn new(salvage: &'s Salvage) -> Self {
        Self { salvage, volume: 0, scanner: None, last: None }
    }

    /// Returns the next good record or lost stretch; `None` at the end.
    ///
    /// # Errors
    ///
    /// [`Error::Io`](crate::Error::Io) only.
    #[expect(clippy::should_implement_trait, reason = "the item borrows from the reader")]
    pub fn next(&mut self) -> Result<Option<SalvageItem<'_>>> {
        let version = self.salvage.version();
        let (offset, len) = match self.locate()? {
            None => return Ok(None),
            Some(NextPiece::Lost(lost)) => return Ok(Some(SalvageItem::Lost(lost))),
            Some(NextPiece::Record { offset, len }) => (offset, len),
        };
        let bytes = self.scanner.as_ref().map(|scanner| scanner.bytes(offset, len));
        match Record::parse(version, bytes.unwrap_or_default(), self.volume, offset) {
            Ok(record) => {
                self.last = Some(record.timestamp());
                Ok(Some(SalvageItem::Record(record)))
            }
            Err(error) => {
                Ok(Some(SalvageItem::Lost(self.lost(offset, len as u64, error.to_string()))))
            }
        }
    }

    fn locate(&mut self) -> Result<Option<NextPiece>> {
        loop {
            let Some(scanner) = &mut self.scanner else {
                if let Some(lost) = self.missing() {
                    return Ok(Some(NextPiece::Lost(lost)));
                }
                if self.open_next()? {
                    continue;
                }
                return Ok(None);
            };
            match scanner.next()? {
                Some(ScannedRecord::Record { offset, len }) => {
                    return Ok(Some(NextPiece::Record { offset, len }));
                }
                Some(ScannedRecord::Damage(damage)) => {
                    let reason = damage.error.to_string();
                    return Ok(Some(NextPiece::Lost(self.lost(damage.offset, damage.len, reason))));
                }
                None => {
                    self.scanner = None;
                    self.volume += 1;
                }
            }
        }
    }

    /// Returns the volumes that do not exist before the next one that does, which is the next to
    /// be opened.
    fn missing(&mut self) -> Option<Loss> {
        let (next, _) = self.salvage.files().volumes.range(self.volume..).next()?;
        let first = std::mem::replace(&mut self.volume, *next);
        let last = next.checked_sub(1).filter(|last| first <= *last)?;
        let file = self.salvage.files().base.with_extension_added(&Role::Data(first).extension());
        let reason = if first == last {
            "the volume does not exist".to_owned()
        } else {
            format!("volumes {first} to {last} do not exist")
        };
        Some(Loss { file, offset: 0, bytes: 0, reason, after: self.last, before: None })
    }

    /// Opens the volume with this number or the next one; false if there is
    /// none.
    fn open_next(&mut self) -> Result<bool> {
        let version = self.salvage.version();
        let volumes = self.salvage.files().volumes.range(self.volume..);
        for (number, path) in volumes {
            let mut file = RecordFile::open(path)?;
            if belongs(&mut file, Role::Data(*number), version)? {
                self.volume = *number;
                self.scanner = Some(Scanner::of_data(file, version));
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn lost(&self, offset: u64, bytes: u64, reason: String) -> Loss {
        let file = self.salvage.files().volumes.get(&self.volume).cloned().unwrap_or_default();
        Loss { file, offset, bytes, reason, after: self.last, before: None }
    }
}

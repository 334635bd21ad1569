//! Metrics whose values contradict their descriptors.
//!
//! In: values that readers could not read because their blocks state another type than the
//! descriptor, or because a value of its type is not stored so. Out: the first of each metric in
//! the archive's files. The values are left out; which of the two types is right is not known.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use crate::{Archive, Pmid, Record, RecordError, Result};

/// A metric of whose values some were left out, because they are not of the type of its
/// descriptor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeConflict {
    /// The file of the first such value that was met.
    pub file: PathBuf,
    /// Start of the record of that value, in bytes from the start of the file.
    pub offset: u64,
    /// [`RecordError::ValueType`] or [`RecordError::ValueEncoding`].
    pub error: RecordError,
}

/// By metric: the volume and the offset of the first record, and the error.
#[derive(Debug, Default)]
pub(super) struct TypeConflicts(Mutex<BTreeMap<Pmid, (u32, u64, RecordError)>>);

impl Archive {
    /// Decides whether reading goes on after a bad value: it does after
    /// [`RecordError::ValueType`] and [`RecordError::ValueEncoding`], and the archive
    /// [remembers](Self::type_conflicts) the metric.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`](crate::Error::Corrupt) for any other error.
    pub fn leave_out(&self, record: &Record<'_>, error: RecordError) -> Result<()> {
        let (RecordError::ValueType { pmid, .. } | RecordError::ValueEncoding { pmid, .. }) = error
        else {
            return Err(self.damaged(record, error));
        };
        let place = (record.volume(), record.offset());
        let mut known = self.conflicts.0.lock().unwrap_or_else(PoisonError::into_inner);
        let first = known.entry(pmid).or_insert_with(|| (place.0, place.1, error.clone()));
        if place < (first.0, first.1) {
            *first = (place.0, place.1, error);
        }
        Ok(())
    }

    /// Returns the metrics of which readers of this archive have left out values until now, in
    /// the order of their PMIDs.
    pub fn type_conflicts(&self) -> Vec<TypeConflict> {
        let known = self.conflicts.0.lock().unwrap_or_else(PoisonError::into_inner);
        known
            .values()
            .map(|(volume, offset, error)| {
                let file = self.volume_path(*volume).unwrap_or(&self.base).to_owned();
                TypeConflict { file, offset: *offset, error: error.clone() }
            })
            .collect()
    }
}

//! The records of instance domains as the file has them: in its order,
//! differences as differences.

use super::metadata_loader::each_record;
use crate::files::{Members, RecordFile};
use crate::format::{IndomRecordKind, MetadataRecord, indom};
use crate::{Archive, ByteText, Error, InDom, InstanceId, Timestamp};

/// One record of an instance domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndomRecord {
    /// The domain of the instances.
    pub indom: InDom,
    /// The time from which the record applies.
    pub timestamp: Timestamp,
    /// Set if the record lists what changed since the one before; else it lists all instances.
    pub is_difference: bool,
    /// In file order; without a name those that are gone.
    pub instances: Vec<(InstanceId, Option<ByteText>)>,
}

impl From<&indom::BorrowedIndomRecord<'_>> for IndomRecord {
    fn from(record: &indom::BorrowedIndomRecord<'_>) -> Self {
        let names = record.names();
        let instances = record.entries().map(|(id, start)| {
            let name = start.and_then(|start| {
                let at = names.binary_search_by_key(&start, |(start, _)| *start).ok()?;
                names.get(at).map(|(_, name)| ByteText::from_bytes(name))
            });
            (id, name)
        });
        Self {
            indom: record.indom,
            timestamp: record.timestamp,
            is_difference: record.kind == IndomRecordKind::Delta,
            instances: instances.collect(),
        }
    }
}

impl Archive {
    /// Calls a function with each record of an instance domain, in file order.
    ///
    /// The file is read again: an open archive keeps only what it takes to
    /// rebuild the states of a domain.
    ///
    /// # Errors
    ///
    /// Those of reading, and of the function.
    pub fn each_indom_record<E: From<Error>>(
        &self,
        mut show: impl FnMut(IndomRecord) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut file = RecordFile::open(&Members::find(self.base())?.metadata)?;
        each_record(&mut file, self.version(), |_, record| match record {
            Ok(MetadataRecord::Indom(record)) => show((&record).into()),
            // It was passed by when the archive was opened.
            Err(_) if !self.bad_metadata.is_empty() => Ok(()),
            Err(error) => Err(error.into()),
            Ok(_) => Ok(()),
        })?;
        Ok(())
    }
}

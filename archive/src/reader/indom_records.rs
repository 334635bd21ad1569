//! The records of instance domains as the file has them: in its order,
//! differences as differences.

use pcp_types::{InDom, InstanceId, Timestamp};

use super::metadata_loader::each_record;
use super::record_file::RecordFile;
use super::{Archive, Members};
use crate::error::Error;
use crate::format::bytes::lossy;
use crate::format::indom::{self, Kind};
use crate::format::metadata_record::MetadataRecord;

/// One record of an instance domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IndomRecord {
    pub(crate) indom: InDom,
    pub(crate) stamp: Timestamp,
    /// What changed since the record before; else all instances.
    pub(crate) is_difference: bool,
    /// In file order; without a name those that are gone.
    pub(crate) instances: Vec<(InstanceId, Option<String>)>,
}

impl From<&indom::IndomRecord<'_>> for IndomRecord {
    fn from(record: &indom::IndomRecord<'_>) -> Self {
        let names = record.names();
        let name = |start| {
            let at = names.binary_search_by_key(&start, |(start, _)| *start).ok()?;
            names.get(at).map(|(_, name)| lossy(name))
        };
        Self {
            indom: record.indom,
            stamp: record.stamp,
            is_difference: record.kind == Kind::Delta,
            instances: record.entries().map(|(id, start)| (id, start.and_then(name))).collect(),
        }
    }
}

/// Shows the records of an archive's domains in file order. The file is read
/// once more: opening kept of them only what it took to put states together.
///
/// # Errors
///
/// Those of reading, and of `show`.
pub(crate) fn each_indom_record<E: From<Error>>(
    archive: &Archive,
    mut show: impl FnMut(IndomRecord) -> Result<(), E>,
) -> Result<(), E> {
    let mut file = RecordFile::open(&Members::find(archive.base())?.metadata)?;
    each_record(&mut file, archive.version(), |_, record| match record {
        MetadataRecord::Indom(record) => show((&record).into()),
        _ => Ok(()),
    })?;
    Ok(())
}

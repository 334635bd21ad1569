//! Histories from records made on the spot.

use super::*;
use crate::format::indom;
use crate::format::metadata_record::test_support::body;
use crate::{InDom, Version};

/// Time, kind and entries of a record; those without a name are gone.
pub(crate) type DomainRecord<'a> = (i64, IndomRecordKind, Vec<(i32, Option<&'a str>)>);

pub(crate) fn history(records: &[DomainRecord<'_>]) -> IndomHistory {
    let mut owned = Vec::new();
    for (seconds, kind, entries) in records {
        let named = |(id, name): &(i32, Option<&str>)| {
            (InstanceId::new(*id).unwrap(), name.map(ByteText::from))
        };
        let entries: Vec<_> = entries.iter().map(named).collect();
        let entries: Vec<_> = entries.iter().map(|(id, name)| (*id, name.as_ref())).collect();
        let (indom, mut bytes) = (InDom::new(1, 1).unwrap(), Vec::new());
        let timestamp = Timestamp::new(*seconds, 0).unwrap();
        indom::encode(Version::V3, *kind, timestamp, indom, &entries, &mut bytes).unwrap();
        let record = indom::parse(Version::V3, *kind, &mut body(&bytes)).unwrap();
        if !is_ignored(&record) {
            owned.push(record.to_owned());
        }
    }
    IndomHistory::from_records(owned)
}

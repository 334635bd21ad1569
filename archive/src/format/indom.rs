//! The instances of a domain from one time on: metadata records of type 2
//! (version 2), 5 (version 3, whole) and 6 (version 3, difference).
//!
//! | v2 + | v3 + | bytes | field | ours |
//! |---|---|---|---|---|
//! | 0 | 0 | 4 | length | |
//! | 4 | 4 | 4 | 2, 5 or 6 | `kind` |
//! | 8 | 8 | 8 / 12 | start of validity | `timestamp` |
//! | 16 | 20 | 4 | instance domain | `indom` |
//! | 20 | 24 | 4 | N | |
//! | 24 | 28 | 4 N | instance numbers | |
//! | 24 + 4N | 28 + 4N | 4 N | where the names start, bytes into the table | |
//! | 24 + 8N | 28 + 8N | .. | table of names, each with its NUL | |
//! | .. | .. | 4 | length | |
//!
//! A difference is against the record of the domain that precedes in time. In
//! it the index -1 means that an instance is removed; others are new, and
//! instances that are not named stay.
//!
//! **Source**: LOGARCHIVE(5), "pmInDom"; `src/libpcp_archive/src/indom.c`.

use zerocopy::big_endian::{I32, U32};

use super::bytes::{before_nul, count};
use super::{Bytes, RecordType, frame, timestamp};
use crate::{ByteText, EncodeError, InDom, InstanceId, RecordError, Timestamp, Version};

/// In place of a name's position: the instance is gone.
const DELETED: i32 = -1;

/// One instance of a domain. Ordered by number.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instance {
    /// The number (internal instance identifier).
    pub id: InstanceId,
    /// The name (external instance identifier).
    pub name: ByteText,
}

/// Tells records that list all instances from those that list what changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IndomRecordKind {
    Full,
    Delta,
}

/// An instance-domain record; ids and names are borrowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BorrowedIndomRecord<'a> {
    pub(crate) kind: IndomRecordKind,
    pub(crate) timestamp: Timestamp,
    pub(crate) indom: InDom,
    ids: &'a [I32],
    indexes: &'a [I32],
    table: &'a [u8],
}

/// An instance-domain record that was checked, with its own copy of ids and names.
#[derive(Debug)]
pub(crate) struct OwnedIndomRecord {
    kind: IndomRecordKind,
    timestamp: Timestamp,
    indom: InDom,
    ids: Box<[I32]>,
    indexes: Box<[I32]>,
    table: Box<[u8]>,
}

impl OwnedIndomRecord {
    pub(crate) fn borrow(&self) -> BorrowedIndomRecord<'_> {
        BorrowedIndomRecord {
            kind: self.kind,
            timestamp: self.timestamp,
            indom: self.indom,
            ids: &self.ids,
            indexes: &self.indexes,
            table: &self.table,
        }
    }
}

impl<'a> BorrowedIndomRecord<'a> {
    pub(crate) fn to_owned(self) -> OwnedIndomRecord {
        OwnedIndomRecord {
            kind: self.kind,
            timestamp: self.timestamp,
            indom: self.indom,
            ids: self.ids.into(),
            indexes: self.indexes.into(),
            table: self.table.into(),
        }
    }

    /// Returns whether the record names no instance.
    pub(crate) const fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Returns the instances in file order, and where in the table their names start; nowhere for
    /// those that are gone.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (InstanceId, Option<u32>)> + use<'a> {
        self.ids.iter().zip(self.indexes).filter_map(move |(id, index)| {
            Some((InstanceId::new(id.get()).ok()?, u32::try_from(index.get()).ok()))
        })
    }

    /// Returns the names that the entries refer to, each once, by where they start.
    pub(crate) fn names(&self) -> Vec<(u32, &'a [u8])> {
        let mut names = Vec::new();
        // Cannot fail: the record was checked when it was parsed.
        let _checked = self.each_name(|at, name| names.push((at, name)));
        names
    }

    /// Calls `found` with every name once, in ascending order; the search for each NUL continues
    /// where the one before ended, so the table is searched once.
    fn each_name(&self, mut found: impl FnMut(u32, &'a [u8])) -> Result<(), RecordError> {
        let starts = self.indexes.iter().filter_map(|index| u32::try_from(index.get()).ok());
        let mut starts: Vec<u32> = starts.collect();
        // Writers append one name after the other.
        if !starts.is_sorted_by(|a, b| a < b) {
            starts.sort_unstable();
            starts.dedup();
        }
        let mut nul = None;
        for start in starts {
            let at = start as usize;
            let rest = self.table.get(at..).unwrap_or_default();
            let end = nul.filter(|end| *end >= at).or_else(|| Some(at + before_nul(rest)?.len()));
            let name = end.and_then(|end| self.table.get(at..end)).ok_or_else(|| {
                let len = rest.len() as u64;
                RecordError::Unterminated { field: "instance name", len }
            })?;
            nul = end;
            found(start, name);
        }
        Ok(())
    }

    fn check(&self) -> Result<(), RecordError> {
        for (id, index) in self.ids.iter().zip(self.indexes) {
            count("instance number", id.get())?;
            let index = index.get();
            if index == DELETED && self.kind == IndomRecordKind::Delta {
                continue;
            }
            let at = count("name index", index)?;
            if at as usize >= self.table.len() {
                let end = self.table.len() as u64;
                return Err(RecordError::Offset { field: "name index", found: at.into(), end });
            }
        }
        let mut found = 0;
        let room = self.table.len() as u64;
        self.each_name(|_, name| found += name.len() as u64 + 1)?;
        // Names that begin within others could be far longer in memory.
        if found > room {
            return Err(RecordError::Overlap { field: "instance names", found, room });
        }
        Ok(())
    }
}

/// Parses what follows the type word.
///
/// # Errors
///
/// [`RecordError::Negative`] for numbers and indexes below 0 (but -1 in a
/// difference), [`RecordError::Offset`] for a name outside the table,
/// [`RecordError::Overlap`] for names within names, [`RecordError::Field`] for
/// the null domain, and what lengths can be wrong with. After success
/// [`BorrowedIndomRecord::entries`] gives every entry.
pub(crate) fn parse<'a>(
    version: Version,
    kind: IndomRecordKind,
    body: &mut Bytes<'a>,
) -> Result<BorrowedIndomRecord<'a>, RecordError> {
    let timestamp = timestamp::parse(version, body)?;
    let indom = parse_id(body.take::<U32>("instance domain")?.get())?;
    let n = count("number of instances", body.take::<I32>("number of instances")?.get())?;
    let ids = body.table("instance numbers", n)?;
    let indexes = body.table("name indexes", n)?;
    let record = BorrowedIndomRecord { kind, timestamp, indom, ids, indexes, table: body.rest() };
    record.check()?;
    Ok(record)
}

/// Returns a domain's word that must not be null.
pub(crate) fn parse_id(raw: u32) -> Result<InDom, RecordError> {
    InDom::from_raw(raw)
        .ok_or(RecordError::Field { field: "instance domain", found: i64::from(raw) })
}

/// Appends a record of version 3 with `entries` in the order given, `None`
/// for a deletion.
///
/// # Errors
///
/// [`EncodeError::Nul`] for a name with a NUL, [`EncodeError::TooLarge`] if
/// the record is; in version 2 [`EncodeError::DeltaInV2`] and
/// [`EncodeError::TimeRange`].
pub(crate) fn encode(
    version: Version,
    kind: IndomRecordKind,
    timestamp: Timestamp,
    indom: InDom,
    entries: &[(InstanceId, Option<&ByteText>)],
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    frame::encode(out, |out| {
        record_type(version, kind, indom)?.encode(out);
        timestamp::encode(version, timestamp, out)?;
        out.extend(indom.raw().to_be_bytes());
        out.extend((entries.len() as u32).to_be_bytes());
        for (id, _) in entries {
            out.extend(id.get().to_be_bytes());
        }
        let names = || entries.iter().map(|(_, name)| name.map(ByteText::to_bytes));
        let mut at = 0;
        for name in names() {
            let index = name.as_ref().map_or(DELETED, |_| at);
            out.extend(index.to_be_bytes());
            at = at.saturating_add(name.map_or(0, |name| name.len() as i32 + 1));
        }
        names().flatten().try_for_each(|name| put_name(out, &name))?;
        Ok(())
    })
}

/// Appends a record of `kind` with the time, domain and names of another one, and
/// those of its entries that `keep` has.
///
/// # Errors
///
/// As [`encode`].
pub(crate) fn encode_part(
    version: Version,
    kind: IndomRecordKind,
    record: &BorrowedIndomRecord<'_>,
    keep: &[bool],
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let mut ids = Vec::new();
    let mut indexes = Vec::new();
    for ((id, index), keep) in record.ids.iter().zip(record.indexes).zip(keep) {
        if *keep {
            ids.push(*id);
            indexes.push(*index);
        }
    }
    frame::encode(out, |out| {
        record_type(version, kind, record.indom)?.encode(out);
        timestamp::encode(version, record.timestamp, out)?;
        out.extend(record.indom.raw().to_be_bytes());
        out.extend((ids.len() as u32).to_be_bytes());
        for word in ids.iter().chain(&indexes) {
            out.extend(word.get().to_be_bytes());
        }
        out.extend(record.table);
        Ok(())
    })
}

fn record_type(
    version: Version,
    kind: IndomRecordKind,
    indom: InDom,
) -> Result<RecordType, EncodeError> {
    match (version, kind) {
        (Version::V3, IndomRecordKind::Full) => Ok(RecordType::Indom),
        (Version::V3, IndomRecordKind::Delta) => Ok(RecordType::IndomDelta),
        (Version::V2, IndomRecordKind::Full) => Ok(RecordType::IndomV2),
        (Version::V2, IndomRecordKind::Delta) => Err(EncodeError::DeltaInV2 { indom }),
    }
}

fn put_name(out: &mut Vec<u8>, name: &[u8]) -> Result<(), EncodeError> {
    EncodeError::check_nul("instance name", name)?;
    out.extend(name);
    out.push(0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::metadata_record::test_support::{body, every_bit_flipped, hex};

    const FULL: &str = "0000005c 00000005 6553f100 00000000 075bcd15 64000007 00000005 \
        00000001 00000002 00000003 00000004 00000005 \
        00000000 00000002 00000005 00000009 0000000e \
        6100 626200 63636300 6464646400 656565656500 0000005c";
    const DELTA: &str = "00000060 00000006 624943d2 00000000 38bd65bf 0740000c 00000003 \
        00000007 0000000b 0000000c ffffffff 00000000 00000013 \
        30303131202f7573722f62696e2f6c616c6100 \
        30303132202f7573722f62696e2f6c616c61207800 00000060";

    fn id(number: i32) -> InstanceId {
        InstanceId::new(number).unwrap()
    }

    fn encoded(
        kind: IndomRecordKind,
        timestamp: (i64, u32),
        indom: u32,
        names: &[(i32, Option<&str>)],
    ) -> Vec<u8> {
        let names: Vec<_> =
            names.iter().map(|(number, name)| (id(*number), name.map(ByteText::from))).collect();
        let entries: Vec<_> = names.iter().map(|(id, name)| (*id, name.as_ref())).collect();
        let timestamp = Timestamp::new(timestamp.0, timestamp.1).unwrap();
        let mut out = Vec::new();
        encode(Version::V3, kind, timestamp, InDom::from_raw(indom).unwrap(), &entries, &mut out)
            .unwrap();
        out
    }

    fn entries(kind: IndomRecordKind, bytes: &[u8]) -> Vec<(i32, Option<String>)> {
        let record = parse(Version::V3, kind, &mut body(bytes)).unwrap();
        let names = record.names();
        let entries = record.entries().map(|(id, start)| {
            let name = start.map(|start| {
                let (_, name) = names.iter().find(|(at, _)| *at == start).unwrap();
                String::from_utf8(name.to_vec()).unwrap()
            });
            (id.get(), name)
        });
        entries.collect()
    }

    #[test]
    fn a_whole_domain_both_ways() {
        let names = [
            (1, Some("a")),
            (2, Some("bb")),
            (3, Some("ccc")),
            (4, Some("dddd")),
            (5, Some("eeeee")),
        ];
        let bytes = encoded(IndomRecordKind::Full, (0x6553_f100, 0x075b_cd15), 0x6400_0007, &names);
        assert_eq!(bytes, hex(FULL));
        assert_eq!(
            entries(IndomRecordKind::Full, &bytes),
            names.map(|(id, name)| (id, name.map(str::to_owned)))
        );
    }

    #[test]
    fn a_difference_with_a_deletion_both_ways() {
        let names =
            [(7, None), (11, Some("0011 /usr/bin/lala")), (12, Some("0012 /usr/bin/lala x"))];
        let bytes =
            encoded(IndomRecordKind::Delta, (0x6249_43d2, 0x38bd_65bf), 0x0740_000c, &names);
        assert_eq!(bytes, hex(DELTA));
        assert_eq!(
            entries(IndomRecordKind::Delta, &bytes),
            names.map(|(id, name)| (id, name.map(str::to_owned)))
        );
    }

    #[test]
    fn version_2_has_a_shorter_time() {
        let bytes = hex("0000002a 00000002 6553f100 0001e240 64000007 00000001 00000009 \
                         00000000 7a7a7a7a7a00 0000002a");
        let record = parse(Version::V2, IndomRecordKind::Full, &mut body(&bytes)).unwrap();
        assert_eq!(record.timestamp, Timestamp::new(0x6553_f100, 123_456_000).unwrap());
        assert_eq!(record.entries().next(), Some((id(9), Some(0))));
        assert_eq!(record.names(), [(0, b"zzzzz".as_slice())]);
        let name = "zzzzz".into();
        let mut out = Vec::new();
        let entries = [(id(9), Some(&name))];
        encode(
            Version::V2,
            IndomRecordKind::Full,
            record.timestamp,
            record.indom,
            &entries,
            &mut out,
        )
        .unwrap();
        assert_eq!(out, bytes);
    }

    #[test]
    fn version_2_has_no_differences() {
        let indom = InDom::from_raw(0x6400_0007).unwrap();
        let encoded = encode(
            Version::V2,
            IndomRecordKind::Delta,
            Timestamp::EPOCH,
            indom,
            &[],
            &mut Vec::new(),
        );
        assert_eq!(encoded, Err(EncodeError::DeltaInV2 { indom }));
    }

    #[test]
    fn every_truncation_is_refused() {
        for (kind, text) in [(IndomRecordKind::Full, FULL), (IndomRecordKind::Delta, DELTA)] {
            let bytes = hex(text);
            let whole = body(&bytes).rest();
            for len in 0..whole.len() {
                assert!(parse(Version::V3, kind, &mut Bytes::new(&whole[..len])).is_err());
            }
        }
    }

    #[test]
    fn flipped_bits_never_panic_nor_pass_unseen() {
        for (kind, text) in [(IndomRecordKind::Full, FULL), (IndomRecordKind::Delta, DELTA)] {
            let good = hex(text);
            let expected = parse(Version::V3, kind, &mut body(&good)).unwrap();
            for bytes in every_bit_flipped(&good, 8..good.len() - 4) {
                assert!(parse(Version::V3, kind, &mut body(&bytes)) != Ok(expected));
            }
        }
    }

    fn damaged(at: usize, word: u32) -> Result<usize, RecordError> {
        let mut bytes = hex(FULL);
        bytes[at..at + 4].copy_from_slice(&word.to_be_bytes());
        parse(Version::V3, IndomRecordKind::Full, &mut body(&bytes))
            .map(|record| record.entries().count())
    }

    #[test]
    fn absurd_instance_count_is_refused_before_allocation() {
        assert_eq!(
            damaged(24, i32::MAX as u32),
            Err(RecordError::Truncated {
                field: "instance numbers",
                needed: 4 * i32::MAX as u64,
                left: 60
            })
        );
        assert!(matches!(damaged(24, u32::MAX), Err(RecordError::Negative { .. })));
    }

    #[test]
    fn numbers_and_indexes_out_of_range_are_refused() {
        let negative = |field| Err(RecordError::Negative { field, found: -1 });
        assert_eq!(damaged(28, u32::MAX), negative("instance number"));
        assert_eq!(damaged(48, u32::MAX), negative("name index"));
        assert_eq!(
            damaged(64, 20),
            Err(RecordError::Offset { field: "name index", found: 20, end: 20 })
        );
        assert_eq!(
            damaged(20, u32::MAX),
            Err(RecordError::Field { field: "instance domain", found: i64::from(u32::MAX) })
        );
    }

    #[test]
    fn a_name_without_nul_is_refused() {
        let mut bytes = hex(FULL);
        let last = bytes.len() - 5;
        bytes[last] = b'x';
        assert_eq!(
            parse(Version::V3, IndomRecordKind::Full, &mut body(&bytes)),
            Err(RecordError::Unterminated { field: "instance name", len: 6 })
        );
    }

    #[test]
    fn two_instances_may_share_a_name() {
        assert_eq!(damaged(52, 0), Ok(5));
    }

    #[test]
    fn names_that_overlap_are_refused() {
        // The last one is the end of the one before.
        assert_eq!(damaged(64, 10), Ok(5), "while they take no more than the table has");
        assert_eq!(
            damaged(48, 15),
            Err(RecordError::Overlap { field: "instance names", found: 23, room: 20 })
        );
    }
}

//! The bytes of an archive, one kind of record a file.
//!
//! In: the bytes of one record, from any file. Out: its fields, or a
//! [`RecordError`](crate::RecordError) with the numbers that are wrong; and the
//! reverse. Nothing here opens a file or knows another record.
//!
//! | file | record | in |
//! |---|---|---|
//! | [`frame`] | length words around every record | all files |
//! | [`timestamp`] | times | nearly all records |
//! | [`archive_label`] | who, where, when | start of every file |
//! | [`adaptation`] | values of one archive as those of a timeline of several | |
//! | [`result`] | values of many metrics at one time; marks | data volumes |
//! | [`value_block`] | values that do not fit a word | data volumes |
//! | [`event_array`] | event records packed into one value | value blocks |
//! | [`desc`] | a metric's type, semantics, units, names | `.meta` |
//! | [`indom`] | the instances of a domain, whole or as difference | `.meta` |
//! | [`labelset`] | name/value labels as JSON | `.meta` |
//! | [`text`] | help text | `.meta` |
//! | [`index`] | where in the files a time is | `.index` |
//!
//! Parsers take bytes and return values that borrow from them; they check
//! every length before they use it and cannot panic. All integers are
//! big-endian. Version 2 and 3 differ in their times (8 and 12 bytes), their
//! labels and in the type numbers of two metadata records.
//!
//! **Source**: LOGARCHIVE(5); `src/libpcp/src/{e_*,logmeta,p_result}.c`.

#![allow(clippy::big_endian_bytes, reason = "archives are big-endian")]

pub(crate) mod adaptation;
pub(crate) mod archive_label;
pub(crate) mod byte_text;
pub(crate) mod bytes;
pub(crate) mod desc;
pub mod event;
pub(crate) mod event_array;
pub(crate) mod event_builder;
pub(crate) mod frame;
pub(crate) mod index;
pub(crate) mod indom;
pub(crate) mod labelset;
pub(crate) mod metadata_record;
pub(crate) mod number;
mod record_type;
pub(crate) mod result;
pub(crate) mod result_builder;
pub(crate) mod text;
pub(crate) mod timestamp;
pub(crate) mod value;
pub(crate) mod value_block;
pub(crate) mod version;

pub(crate) use adaptation::{Adaptation, Adaptations, adaptation, common_desc};
pub use archive_label::ArchiveLabel;
pub(crate) use archive_label::Role;
pub(crate) use bytes::Bytes;
pub(crate) use desc::DescRecord;
pub(crate) use event_array::{EventArray, EventFlags};
pub(crate) use indom::IndomRecordKind;
pub(crate) use labelset::LabelRecord;
pub(crate) use metadata_record::MetadataRecord;
pub(crate) use record_type::RecordType;
pub(crate) use result::{RecordPlace, ShapeId, UntypedValue};
pub(crate) use result_builder::{ResultBuilder, encode_mark};
pub(crate) use text::TextRecord;
pub use version::Version;

/// The null word of PMIDs, instance domains and instances in files.
pub(crate) const NULL: u32 = u32::MAX;

/// The word size: data records and value blocks are padded to it.
pub(crate) const WORD: usize = 4;

/// Rounds `len` up to whole words: the padding rule of value blocks and event parameters.
pub(crate) const fn padded(len: usize) -> usize {
    len.next_multiple_of(WORD)
}

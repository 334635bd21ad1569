//! Records as they are in the files, for programs that check or rewrite archives.
//!
//! What a record has: a [`Record`] with its [value sets](ValueSetView) and, of event metrics,
//! [arrays of event records](event); the states of instance domains ([`IndomHistory`]) and labels
//! ([`LabelHistory`]) over time; help texts; the entries of a [`TemporalIndex`]. [`Records`] walks
//! over an archive in both directions, [`RecordBatch`] keeps what it read.
//!
//! For writing: a [`FetchResult`] is a record by value, and [`prepared`] has records of a fixed
//! shape into which only values are written.
//!
//! The errors of bytes are [`RecordError`] and [`EncodeError`]; [`Error`](crate::Error) adds the
//! file and the offset.

pub use crate::error::{EncodeError, RecordError};
pub use crate::format::event;
pub use crate::format::index::IndexEntry;
pub use crate::format::labelset::{LabelClass, LabelEntry, LabelSet, LabelTarget};
pub use crate::format::result::{Record, ValueSetView, ValueSets, Values};
pub use crate::format::text::{TextKind, TextTarget};
pub use crate::format::value::{AnyValue, FetchResult, ValueSet};
pub use crate::reader::{
    IndexDefect, IndomCursor, IndomHistory, IndomRecord, IndomState, LabelDefect, LabelHistory,
    LabelState, RecordBatch, Records, TemporalIndex, TornTail, TypeConflict,
};
pub use crate::writer::prepared;
pub use pcp_types::ErrorCode;

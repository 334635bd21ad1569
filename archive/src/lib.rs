//! Archives of Performance Co-Pilot: write, read and replay them.
#![forbid(unsafe_code)]

mod error;
mod format;
pub mod prepared;
mod reader;
mod value;
mod writer;

pub use pcp_types::*;

pub use error::{EncodeError, Error, RecordError, Result};
pub use format::desc::MetricDesc;
pub use format::index::IndexEntry;
pub use format::indom::Instance;
pub use format::labelset::{LabelClass, LabelEntry, LabelSet, LabelTarget};
pub use format::result::{Record, ValueSetView, ValueSets, Values};
pub use format::text::{TextKind, TextTarget};
pub use format::{ArchiveLabel, Version};
pub use reader::{
    Archive, IndomHistory, IndomState, LabelHistory, LabelState, Metadata, Metric, Records,
    TemporalIndex, TornTail,
};
pub use value::{FetchResult, OwnedValue, Value, ValueSet};
pub use writer::{ArchiveWriter, Summary, WriterLabel, WriterOptions};

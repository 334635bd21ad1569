//! Archives of Performance Co-Pilot: write, read and replay them.
//!
//! An archive is what many metrics of one host were over some time, in files
//! that every PCP tool reads. This crate reads and writes versions 2 and 3 of the
//! format. Compressed files are read as they are, if the feature
//! `compression` is on. It is not a PMAPI client: it speaks with no daemon.
//!
//! ```text
//! base.meta    label | desc  indom  labels  text ...     what there is to know
//! base.0       label | result  result  mark  result ...  what was measured
//! base.1       label | result ...                        further volumes
//! base.index   label | (time, volume, offsets) ...       where a time is
//! ```
//!
//! ```
//! use mmv_archive::{
//!     Archive, ArchiveWriter, FetchResult, MetricDesc, OwnedValue, Pmid, Semantics, Timestamp,
//!     Units, ValueSet, ValueType, WriterLabel, WriterOptions,
//! };
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! let base = directory.path().join("20261120.12.00");
//! let label = WriterLabel {
//!     pid: 1,
//!     hostname: "host".to_owned(),
//!     timezone: "UTC".to_owned(),
//!     zoneinfo: String::new(),
//! };
//! let desc = MetricDesc {
//!     pmid: Pmid::new(70, 1, 1)?,
//!     value_type: ValueType::U64,
//!     indom: None,
//!     semantics: Semantics::Counter,
//!     units: Units::count(),
//! };
//! let mut writer = ArchiveWriter::create(&base, label, WriterOptions::default())?;
//! writer.declare_metric(&desc, &["acme.requests"])?;
//! writer.write_result(&FetchResult {
//!     timestamp: Timestamp::new(1_700_000_000, 0)?,
//!     value_sets: vec![ValueSet {
//!         pmid: desc.pmid,
//!         values: Ok(vec![(None, OwnedValue::U64(42))]),
//!     }],
//! })?;
//! writer.finish()?;
//!
//! let archive = Archive::open(&base)?;
//! let mut records = archive.records()?;
//! while let Some(record) = records.next()? {
//!     for set in record.value_sets() {
//!         println!("{} {}: {} values", record.timestamp(), set.pmid(), set.len());
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Read the modules in the order of the data: `format` (one record a file),
//! `writer` and [`prepared`] (records whose shape stays the same), `reader`
//! ([`Archive`], [`ArchiveSet`], and [`Source`], which is either of the two),
//! [`event`] (values that are several events), [`follow`] (an archive that
//! grows), [`scan`] (values as columns), [`summary`] (in a few numbers),
//! [`replay`] (values at any time), [`check`] (what is wrong), [`salvage`] and
//! [`repair`] (what can be saved), [`extract`] with [`staging`] (parts of
//! archives as new ones). The bytes are described in `docs/archive-format.md`.
//!
//! What always holds:
//!
//! | | |
//! |---|---|
//! | parsing | never panics; allocates nothing that the record at hand does not justify |
//! | opening | takes memory in proportion to the metadata: of a domain the changes are kept, not the states |
//! | a record that was parsed | is whole: lengths, blocks and instances were checked once |
//! | a failed write | leaves the files as they were, and can be tried again |
//! | metadata of ours | lies before the first data that needs it, has its time, is written once |
//! | times of ours | never decrease; nothing is later than the last record |

#![forbid(unsafe_code)]

pub mod chart;
pub mod check;
#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "compression")]
pub mod compress;
pub mod copy;
mod error;
pub mod event;
pub mod extract;
pub mod follow;
mod format;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(feature = "picture")]
pub mod picture;
pub mod prepared;
mod progress;
mod reader;
mod recurrent;
pub mod repair;
pub mod replay;
pub mod salvage;
pub mod scan;
pub mod staging;
pub mod summary;
#[cfg(test)]
mod test_support;
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
    Archive, ArchiveSet, Compression, IndomHistory, IndomState, LabelHistory, LabelState, Metadata,
    Metric, Records, Source, TemporalIndex, TornTail,
};
pub use value::{FetchResult, OwnedValue, Value, ValueSet};
pub use writer::{ArchiveWriter, Summary, WriterLabel, WriterOptions};

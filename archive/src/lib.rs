//! Read, write and replay archives of Performance Co-Pilot.
//!
//! An archive holds the values of metrics of one host over time, in files that
//! every PCP tool reads. This crate reads and writes versions 2 and 3 of the
//! format, and reads compressed files with the feature `compression`. It is not a
//! PMAPI client: it connects to no daemon.
//!
//! ```text
//! base.meta    label | desc  indom  labels  text ...     metadata
//! base.0       label | result  result  mark  result ...  values
//! base.1       label | result ...                        the next volume
//! base.index   label | (time, volume, offsets) ...       offsets by time
//! ```
//!
//! The rates of a counter in the last five minutes, in a directory of archives as one timeline:
//!
//! ```no_run
//! use pcp_archive::ArchiveSet;
//!
//! # fn main() -> pcp_archive::Result<()> {
//! for point in ArchiveSet::open(["archives/web1"])?.series("mmv.shop.orders")?.rates().last("5min")? {
//!     let instance = point.instance.as_deref().unwrap_or_default();
//!     println!("{} {instance} {}", point.time, point.value);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! They are the numbers that `mmv-archive report` prints. Without `rates()` they are values;
//! [`MetricSeries`] also has quantiles of histograms, and other windows; [`replay`] several metrics
//! at once, derived ones, texts and exact integers.
//!
//! A single archive is opened by its base name or by one of its files:
//!
//! ```no_run
//! use pcp_archive::Archive;
//!
//! # fn main() -> pcp_archive::Result<()> {
//! let archive = Archive::open("archives/web1/20261126.18.00")?;
//! println!("{}: {} to {}", archive.label().hostname, archive.start(), archive.end());
//! for metric in archive.metadata().metrics() {
//!     println!("{} in {}", metric.display_name(), metric.desc.units);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! An archive that is written, with host and time zone of this machine:
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use pcp_archive::{ArchiveWriter, Timestamp, Units};
//!
//! # fn main() -> pcp_archive::Result<()> {
//! let mut writer = ArchiveWriter::create("out/20261126")?;
//! let requests = writer.counter::<u64>("acme.requests").units(Units::count()).add()?;
//! let disks = writer.instances(["sda", "sdb"])?;
//! let reads = writer.counter::<u64>("acme.reads").instances(disks).add()?;
//! let time = Timestamp::now();
//! for (second, count) in (0..).zip([42, 47, 51]) {
//!     writer.record(time + Duration::from_secs(second), |r| {
//!         r.set(requests, count);
//!         r.set_instance(reads, "sda", 7 * count);
//!     })?;
//! }
//! writer.finish()?;
//! # Ok(())
//! # }
//! ```
//!
//! [`ArchiveWriter::record`] shows texts and instances that come and go. Records as they are in the
//! files are read by [`Archive::records`] and written by [`ArchiveWriter::write_result`]; their
//! parts are in [`raw`].
//!
//! The rooms of the source, in the order of the data, and the public modules in them:
//!
//! | room | contents |
//! |---|---|
//! | `format` | the bytes of each record (`docs/archive-format.md`); [`raw`]: records as they are in the files |
//! | `files` | files of an archive, also compressed ones; archives that appear in one step; jobs on several threads |
//! | `reader` | [`Archive`], [`ArchiveSet`], and [`Source`], which is either; [`follow`]: an archive that grows; [`salvage`]: what can be read of a damaged one; `fast` only makes reading faster |
//! | `writer` | [`ArchiveWriter`]; [`raw::prepared`]: records with a fixed shape; [`extract`]: parts of archives as new ones, which [`rewrite`] changes by rules; [`reduce`]: one value an interval; [`repair`]; `compress`: closed volumes |
//! | [`scan`] | values as columns, selected by names and labels; [`scan::histogram`]: which buckets instances are; `programs`: when programs ran, by the agent's events |
//! | `analysis` | [`MetricSeries`]: numbers of one metric; [`replay`]: values and rates at any time, derived metrics, quantiles; [`summary`]; [`envelope`]: a summary of each column of a picture |
//! | [`check`] | errors and warnings about an archive |
//!
//! What always holds:
//!
//! | | |
//! |---|---|
//! | parsing | never panics; allocates no more than the record at hand justifies |
//! | opening | takes memory in proportion to the metadata: the changes of a domain are kept, not its states |
//! | a parsed record | is complete: lengths, blocks and instances are checked once |
//! | a failed write | leaves the files unchanged and can be retried |
//! | written metadata | precedes the first data that needs it, has its timestamp, is written once |
//! | written timestamps | never decrease; none is after the last record |

#![forbid(unsafe_code)]
// Archives are hostile input: what comes from one is looked up, never indexed.
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]
// Files are big-endian, and only `format` turns bytes into numbers.
#![cfg_attr(
    not(test),
    deny(clippy::big_endian_bytes, clippy::little_endian_bytes, clippy::host_endian_bytes)
)]

mod analysis;
pub mod check;
mod error;
mod exit_status;
mod files;
mod format;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
#[doc(hidden)]
pub mod internal;
mod longest_rise;
mod progress;
pub mod raw;
mod reader;
pub mod scan;
#[cfg(test)]
mod test_support;
mod writer;

pub use analysis::{MetricSeries, SeriesError, SeriesPoint};
pub use analysis::{envelope, replay, summary};
pub use reader::{follow, salvage};
#[cfg(feature = "compression")]
pub use writer::compress;
pub use writer::{extract, reduce, repair, rewrite};

pub use pcp_types::{
    InDom, InstanceId, Pmid, Semantics, SpaceScale, TimeScale, Timestamp, Units, ValueType,
};

pub use error::{DescDifference, Error, Result};
pub use files::Compression;
pub use format::byte_text::ByteText;
pub use format::desc::MetricDesc;
pub use format::indom::Instance;
pub use format::value::{OwnedValue, Value};
pub use format::{ArchiveLabel, Version};
pub use reader::{Archive, ArchiveSet, Metadata, Metric, Source};
pub use writer::{
    ArchiveWriter, MetricBuilder, MetricKey, MetricValue, RecordValues, Summary, WriterLabel,
    WriterOptions,
};

pub(crate) use error::{EncodeError, RecordError, io_error};
pub(crate) use format::event;
pub(crate) use format::index::IndexEntry;
pub(crate) use format::labelset::{LabelClass, LabelSet, LabelTarget};
pub(crate) use format::result::{Record, ValueSetView};
pub(crate) use format::text::{TextKind, TextTarget};
pub(crate) use format::value::{FetchResult, ValueSet};
pub(crate) use pcp_types::ErrorCode;
pub(crate) use reader::{
    IndomCursor, IndomHistory, LabelDefect, LabelHistory, Records, TemporalIndex, TornTail,
};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

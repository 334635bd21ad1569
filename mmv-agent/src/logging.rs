//! Writes harvested values into archives.
//!
//! Input: the values of a tick with their catalog. Output: records, which wait in a queue that is
//! bounded by bytes until the writer thread appends them to the archive after the metadata that
//! they need.
//!
//! Invariants: the sampler never waits for the disk; the descriptors of a record's metrics are
//! written before the record.

mod archive_names;
pub(crate) mod archive_writer;
pub(crate) mod prologue;
mod queue;
mod record;
mod sample;

pub(crate) use archive_names::ArchiveNames;
pub(crate) use archive_writer::{Archiver, ArchiverReport, Order, Policy};
pub(crate) use queue::{Offer, QueueReceiver, QueueSender, WriterMessage, queue};
pub(crate) use record::{Recorder, RecorderBuilder};
pub(crate) use sample::{ChangedValues, LastKnownValues, Sample};

//! From harvested values to archives.
//!
//! In come the values of a tick, with their catalog; out go records, which wait in a
//! queue that is bounded by bytes until the writer thread appends them to the archive,
//! after the metadata that they need.
//!
//! Invariants: the sampler never waits for the disk; no record is written before the
//! descriptors of all of its metrics.

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
pub(crate) use sample::{ChangedValues, LastKnown, Sample};

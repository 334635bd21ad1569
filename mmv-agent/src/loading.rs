//! The loader: finds, opens and describes files.
//!
//! Input: listings of the MMV directory, settings, and findings of the sampler about its sources.
//! Output: updates for the sampler: mappings, value plans, the catalog, and the metrics of each
//! group. The loader runs on a thread of its own.
//!
//! Invariants: the sampler never waits for the loader, except briefly after a file has grown. An
//! unusable file affects no other file.

mod admission;
mod catalog_builder;
mod continuity;
mod disk_shares;
pub(crate) mod last_values;
mod loaded_source;
pub(crate) mod loader;
pub(crate) mod partition;
pub(crate) mod recorder_plan;
mod reporter;
mod shortage;
mod sources;
pub(crate) mod thread;
pub(crate) mod update;

pub(crate) use loader::Loader;
pub(crate) use reporter::Reporter;
pub(crate) use thread::{LAST_WAIT, LoaderHandle, RequestNumber};

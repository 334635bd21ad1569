//! What there is to sample: the loader, which finds, opens and describes files.
//!
//! In come listings of the MMV directory, settings, and what the sampler finds out about its
//! sources; out go updates for the sampler: mappings, value plans, the catalog, and which
//! group logs what. All of it runs on a thread of its own.
//!
//! Invariants: the sampler never waits for the loader, except for a short time after a file
//! has grown. A file that cannot be used costs no other file anything.

mod admission;
mod catalog_builder;
mod continuity;
mod disk_shares;
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
pub(crate) use thread::Loading;

//! When to sample what: the sampler thread, and the loader that finds what there is.
//!
//! In come the clock, commands (signals, status, capture) and the values of all
//! sources; out go the records of the groups that are due, and samples for the
//! flight recorder.
//!
//! Invariants: ticks do not drift and never come in bursts; a mark is written only
//! where samples of all sources are missing, or where it is configured.

mod active_source;
mod admission;
mod catalog_builder;
mod continuity;
mod delivery;
mod disk_shares;
pub(crate) mod driver;
mod file_gaps;
mod group_state;
pub(crate) mod groups;
mod harvest;
mod loaded_source;
pub(crate) mod loader;
pub(crate) mod loading;
mod on_change;
mod owner_pace;
pub(crate) mod partition;
mod pass_clock;
mod rate_meter;
mod reporter;
pub(crate) mod sampler;
mod schedule;
mod shares;
mod shortage;
mod slow_lane;
mod sources;
mod update;

pub(crate) use delivery::SamplerReport;
pub(crate) use driver::{Command, Driver};
pub(crate) use loader::Loader;
#[cfg(test)]
pub(crate) use loading::Loading;
pub(crate) use sampler::Sampler;

//! The sampler thread.
//!
//! Input: the clock, commands (signals, status), the loader's updates and the values of all
//! sources. Output: the records of the groups that are due, and samples for the flight recorder.
//!
//! Invariants: ticks do not drift and never come in bursts; a mark is written only where samples
//! of all sources are missing, or where it is configured.

mod delivery;
pub(crate) mod driver;
mod flight_recorder;
mod group_state;
pub(crate) mod groups;
mod harvest;
mod on_change;
mod owner_pace;
mod pass_clock;
pub(crate) mod sampler;
mod schedule;
mod slow_lane;
mod thread_usage;

pub(crate) use delivery::SamplerReport;
pub(crate) use driver::{Driver, SamplerCommand};
pub(crate) use sampler::Sampler;

//! Harvests MMV files and logs them into archives of Performance Co-Pilot.
//!
//! Programs publish their metrics in memory-mapped files (crate `mmv-writer`,
//! or any other producer of the format); the agent maps each of them, copies
//! all values at every tick, and appends them to an archive (crate
//! `mmv-archive`). It writes into no MMV file, serves no network, and needs no
//! daemon of PCP.
//!
//! ```text
//! sampler thread                                               | writer thread
//!                                                              |
//! directory > roster > source +> plan > harvest ------+        |
//!                             |                       +> record > queue > sink > archive
//!                             +> translate > catalog -+        |
//!                                    ^                         |
//!                                identity                      |
//! ```
//!
//! The thread "signals" and the schedule in `driver` tell the sampler when; the
//! thread "keeper" does what may take long.
//!
//! Read the modules in the order of the data: [`config`]; `directory`,
//! `roster` and `restarts` (which files there are), `source` (one file), `plan` and `harvest`
//! (its values), `names`, `identity`, `numbering` and `translate` (its metadata in PCP's
//! terms), `catalog` and `labels` (all files together), `groups`, `lane` and `seldom`
//! (which group logs what, and when), `record` (a group's record), `sampler` (a
//! tick), `queue`, `sink` and `prologue` (archives), `events` and `journal` (what
//! happened), `hindsight` and [`capture`] (the last minutes), `state` (what is remembered),
//! `keeper` (what may take long) and `removal` (files of the dead), [`status`], `driver` and [`run`] (the threads).
//!
//! | invariant | kept by |
//! |---|---|
//! | nothing read from a mapping is used as offset, count or length | `plan` |
//! | no value is recorded that was not checked after the pass | `source`, `sources` |
//! | one file's trouble never touches another's values | `sources` |
//! | sampling never waits for the disk | `queue` |
//! | a PMID means one thing within an archive | `identity`, `sink` |
//! | a mark is written only where samples of all sources are missing, or where it was asked for | `schedule`, `sampler`, `sink` |

#![forbid(unsafe_code)]

mod allowance;
mod archive_name;
pub mod capture;
mod catalog;
pub mod cli;
pub mod config;
mod declared;
pub mod demo;
mod descriptors;
mod directory;
mod driver;
pub mod error;
mod events;
mod groups;
mod harvest;
mod hindsight;
mod host;
mod identity;
pub mod inspect;
mod journal;
mod keeper;
mod labels;
mod lane;
mod ledger;
#[cfg(test)]
mod lifecycle;
mod liveness;
mod lock;
mod logging;
mod meanings;
mod names;
mod notify;
mod numbering;
mod own;
mod pace;
mod plan;
mod prologue;
mod queue;
mod record;
pub mod recording;
mod removal;
mod restarts;
mod review;
mod roster;
pub mod run;
mod sampler;
mod schedule;
mod seldom;
mod signals;
mod sink;
mod source;
mod sources;
mod spread;
mod state;
pub mod status;
mod translate;
mod voice;

pub use config::{
    Destination, Group, HindsightSettings, InstancePattern, Invocation, LogMode, Settings,
};
pub use error::Error;
pub use run::{RunningAgent, Summary, start};
pub use sampler::SamplerReport;
pub use sink::SinkReport;

//! Harvests MMV files and logs them into archives of Performance Co-Pilot.
//!
//! Programs publish their metrics in memory-mapped files (crate `mmv-writer`,
//! or any other producer of the format); the agent maps each of them, copies
//! all values at every tick, and appends them to an archive (crate
//! `pcp-archive`). It writes into no MMV file, serves no network, and needs no
//! daemon of PCP.
//!
//! # Map
//!
//! In the order of the data:
//!
//! | module | what it is about |
//! |---|---|
//! | `config` | options and configuration files |
//! | `discovery` | which files there are: directory, file table, processes, restarts, removal |
//! | `source` | one file: its mapping, the value plan, the harvest pass |
//! | `metadata` | names, clusters, items, translation to PCP, labels, the catalog of all files |
//! | `loading` | the loader: opens and describes files, and hands the sampler what to read |
//! | `telemetry` | what the agent reports about itself: events, own metrics, status |
//! | `logging` | records, the queue to the writer thread, the archive writer |
//! | `housekeeping` | state file, repair, compression, retention, removal |
//! | `flight_recorder` | archives of the last minutes in memory, in greater detail |
//! | `sampling` | schedule, groups, a tick; the sampler thread |
//! | `limits` | what users share: amounts, rates, log lines |
//! | `control` | signals, the status socket, log lines |
//! | `commands` | the command line |
//!
//! `run` starts the threads and connects them:
//!
//! ```text
//!               +------------------ loader ------------------+
//!               | discovery > source > metadata > catalog    |
//!               +--------------------------------------------+
//!                  | updates                        ^ findings
//!                  v                                |
//!  signals ----+   +----------------- sampler ------------------+
//!  status -----+-->| source: values > record of each group      |
//!                  +--------------------------------------------+
//!                       | tasks                    | queue
//!                       v                          v
//!                  housekeeping <------------ archive writer
//! ```
//!
//! # Invariants
//!
//! | invariant | kept by |
//! |---|---|
//! | nothing read from a mapping is used as offset, count or length | `source::value_plan` |
//! | no value is recorded that was not checked after the pass | `source`, `sampling::harvest` |
//! | one file's trouble never touches another's values | `loading::sources`, `sampling::harvest` |
//! | sampling never waits for the disk | `logging::queue` |
//! | a PMID stands for one metric within an archive | `metadata::clusters`, `logging::archive_writer` |
//! | a mark is written only where samples of all sources are missing, or where it is configured | `sampling`, `logging::archive_writer` |

#![forbid(unsafe_code)]
#![warn(clippy::unwrap_used)]
// Byte orders are the business of the format crates.
#![cfg_attr(
    not(test),
    warn(clippy::big_endian_bytes, clippy::little_endian_bytes, clippy::host_endian_bytes)
)]

mod commands;
mod config;
mod control;
mod discovery;
mod error;
mod flight_recorder;
mod host;
mod housekeeping;
#[cfg(test)]
mod lifecycle;
mod limits;
mod loading;
mod lock;
mod logging;
mod metadata;
mod moment;
mod run;
mod sampling;
mod source;
mod telemetry;
mod threads;

pub use commands::cli;

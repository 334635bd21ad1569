//! Metrics that every program has: of its process and of tokio's runtime.
//!
//! | feature | type | metrics |
//! |---|---|---|
//! | `process` | `ProcessMetrics` | processor time, memory, threads, file descriptors, page faults, context switches |
//! | `tokio` | `TokioMetrics` | workers, tasks, their queue, busy time, parks |
//!
//! Both features are off by default. Nothing is updated by itself: a program calls
//! `update` where it has a loop of its own, or has a thread call it with [`every`]. The
//! values of a file are as old as the last update, so an interval like that of the reader,
//! a second for `mmv-agent`, is right.

#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing, clippy::unwrap_used)]

#[cfg(feature = "process")]
mod process;
#[cfg(feature = "tokio")]
mod tokio_runtime;
mod updates;

#[cfg(feature = "process")]
pub use process::ProcessMetrics;
#[cfg(feature = "tokio")]
pub use tokio_runtime::TokioMetrics;
pub use updates::{Updates, every};

/// The examples of the README.
#[cfg(all(doctest, feature = "process"))]
#[doc = include_str!("../README.md")]
struct Readme;

//! Arguments that commands reading archives share: which archives, and which window of time.
//!
//! | module | contents |
//! |---|---|
//! | [`archives`] | the paths that a text on the command line stands for: lists, patterns, `@` |
//! | [`time`] | times as people write them |
//! | [`zone`] | time zones by name |
//! | [`span`] | the options `-S`, `-T` and `--last` |
//! | [`program`] | errors of a command line, and completion scripts |
//!
//! Nothing here reads a record.

#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod agent_archives;
pub mod archives;
pub mod program;
pub mod span;
pub mod time;
pub mod zone;

/// An argument that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentError {
    /// It is invalid.
    #[error("{0}")]
    Usage(String),
    /// It is valid, and the archives have no data for it.
    #[error("{0}")]
    NoData(String),
}

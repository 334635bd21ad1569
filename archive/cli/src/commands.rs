//! A module for each subcommand: its options, and what it prints.

pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod convert;
pub(crate) mod dump;
pub(crate) mod events;
pub(crate) mod explain;
pub(crate) mod extract;
pub(crate) mod follow;
pub(crate) mod info;
pub(crate) mod mcp;
pub(crate) mod metrics;
pub(crate) mod plot;
pub(crate) mod reduce;
pub(crate) mod repair;
pub(crate) mod report;
pub(crate) mod snapshot;
pub(crate) mod summary;
#[cfg(feature = "view")]
pub(crate) mod view;

//! The subcommands.

pub(crate) mod mapping;
#[cfg(feature = "parquet")]
pub(crate) mod parquet;
#[cfg(feature = "push")]
pub(crate) mod push;

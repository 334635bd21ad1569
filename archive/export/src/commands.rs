//! The subcommands.

pub(crate) mod mapping;

//! Control and queries of a running agent.
//!
//! Input: signals and connections to the status socket. Output: commands to the sampler thread,
//! its replies, and log lines on stderr.
//!
//! Invariant: a client that is slow or absent never delays a tick.

mod query_error;
pub(crate) mod signals;
mod socket;
pub(crate) mod status_socket;
pub(crate) mod stderr_log;

pub(crate) use query_error::QueryError;
pub(crate) use socket::{Service, reserve_descriptors};

//! Limits on what one user may have, so that no user takes it all.
//!
//! [`Quota`] limits levels such as numbers of files, [`FairRate`] limits rates such as log lines a
//! second. Root and the agent have a reserve.

mod fair_rate;
mod log_limiter;
mod quota;
mod resources;
mod token_bucket;

pub(crate) use fair_rate::FairRate;
pub(crate) use log_limiter::LogLimiter;
pub(crate) use quota::{Headroom, Quota};
pub(crate) use resources::{Amounts, Resource, ResourceQuotas, Usage};
pub(crate) use token_bucket::TokenBucket;

/// The administrator. The agent's own file, and files of the user who runs the agent, are charged
/// to root.
pub(crate) const ROOT: u32 = 0;

/// Stands for an unknown user; no user has this number.
pub(crate) const NOBODY: u32 = u32::MAX;

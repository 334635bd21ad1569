//! Limits that users share.
//!
//! In comes what the files or the connections of a user have used; out goes how much more
//! that user may use. Root and the agent have a part of their own.

mod fair_rate;
mod log_limiter;
mod quota;
mod shares;
mod token_bucket;

pub(crate) use fair_rate::FairRate;
pub(crate) use log_limiter::LogLimiter;
pub(crate) use quota::{Headroom, Quota};
pub(crate) use shares::{Amounts, Resource, ResourceQuotas, Usage};
pub(crate) use token_bucket::TokenBucket;

/// The administrator. The agent's own file and files of the user who runs it count as root's.
pub(crate) const ROOT: u32 = 0;

/// The user of what no file of a known user caused: no user has this number.
pub(crate) const NOBODY: u32 = u32::MAX;

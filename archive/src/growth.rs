//! What a counter grew from one of its values to the next.
//!
//! Reports, summaries and pictures share these rules: the difference of two values, where values
//! do not continue, and when an instance exists.

pub(crate) mod lifetime;
pub(crate) mod number;
pub(crate) mod walls;

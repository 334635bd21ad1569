//! The analysis of records: growth of counters, values and rates at any time, summaries,
//! pictures.
//!
//! In come columns of values and what is known of the programs that logged them; out go
//! numbers. Invariant: all of it reads the same intervals and walls of [`growth`], so that two
//! answers to one question agree.

pub mod envelope;
pub(crate) mod growth;
pub mod replay;
mod series;
pub mod summary;

pub use series::{MetricSeries, SeriesError, SeriesPoint};

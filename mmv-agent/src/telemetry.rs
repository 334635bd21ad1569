//! Reports about the agent itself.
//!
//! Input: events, counts and durations from all threads. Output: the event metric of the archives,
//! the agent's own MMV file, the status, and messages to the service manager. The socket of the
//! status is in `control`.
//!
//! Invariant: reporting blocks a thread only while a few words are locked.

mod event_log;
pub(crate) mod events;
pub(crate) mod notify;
mod own_metrics;
mod quantiles;
mod rate_meter;
mod shared_status;
pub(crate) mod status;

pub(crate) use event_log::EventLog;
pub(crate) use events::{Event, EventKind, Events};
pub(crate) use own_metrics::OwnMetrics;
pub(crate) use quantiles::{DurationQuantiles, micros};
pub(crate) use rate_meter::RateMeter;
pub(crate) use shared_status::{CompressedVolume, SharedStatus};
pub(crate) use status::{
    FileReport, FlightRecorderStatus, Forecast, GroupStatus, Lateness, MetricUsage, OwnerStatus,
    OwnerUsage, RetainedTier, SourceStatus, Status,
};

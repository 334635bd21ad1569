//! What the agent reports about itself.
//!
//! In come events, counts and durations from all threads; out go the event metric of
//! the archives, the agent's own MMV file, the status, and the messages to the
//! service manager. The sockets that hand out the status are in `control`.
//!
//! Invariant: reporting never blocks a thread for longer than it takes to lock a few
//! words.

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
    FileReport, FlightRecorderStatus, Forecast, GroupStatus, Lateness, OwnerStatus, OwnerUsage,
    SourceStatus, Status,
};

//! The status of a running agent: one JSON object.

mod forecast;
mod owners;
mod text;

use serde::{Deserialize, Serialize};

use crate::config::LogMode;

pub(crate) use forecast::{Forecast, PerValue, RetainedArchives, RetainedTier};
pub(crate) use owners::{OwnerStatus, OwnerUsage};
pub(crate) use text::print;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct Status {
    /// Version of the agent.
    pub version: String,
    pub pid: u32,
    /// Seconds since the start.
    pub uptime: f64,
    /// Age of `sources` and `owners` in seconds; `None` if they are not known yet.
    pub files_age: Option<f64>,
    /// Known files by name.
    pub sources: Vec<SourceStatus>,
    /// Usage of each user, by number.
    pub owners: Vec<OwnerStatus>,
    /// The metrics with the most bytes, the largest first.
    pub largest_metrics: Vec<MetricUsage>,
    /// Groups of the configuration, and the default group.
    pub groups: Vec<GroupStatus>,
    /// Records handed to the writer since the start.
    pub records: u64,
    /// Values in these records.
    pub values: u64,
    /// Records dropped because the queue was full.
    pub dropped: u64,
    /// Ticks skipped because an earlier one took too long.
    pub missed: u64,
    /// Ticks that began more than a tenth of the shortest interval late.
    pub late: u64,
    pub lateness: Lateness,
    /// Values logged a second, over about the last minute.
    pub values_a_second: f64,
    /// Bytes written a second, over about the last minute.
    pub bytes_a_second: f64,
    /// Bytes that wait for the disk.
    pub queued: u64,
    /// Limit on `queued`.
    pub queue_limit: u64,
    pub archive: ArchiveStatus,
    /// All archives.
    pub kept: RetainedArchives,
    /// Effect of compression on a value; `None` if this run has compressed no volume.
    pub compression: Option<PerValue>,
    pub forecast: Forecast,
    /// `None` if it is not configured.
    #[serde(rename = "hindsight")]
    pub flight_recorder: Option<FlightRecorderStatus>,
    /// Reason why the state file cannot be written now.
    pub state_error: Option<String>,
    /// The last error, even if it is over.
    pub last_error: Option<LastError>,
    /// Effects of users on each other that the agent cannot prevent.
    pub warnings: Vec<String>,
}

impl Status {
    /// Returns true if archives or the state cannot be written now.
    pub(crate) fn has_error(&self) -> bool {
        self.archive.error.is_some() || self.state_error.is_some()
    }
}

/// The loader's part of the status.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct FileReport {
    pub sources: Vec<SourceStatus>,
    pub owners: Vec<OwnerStatus>,
    pub largest_metrics: Vec<MetricUsage>,
}

/// The part of a metric in the archives.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct MetricUsage {
    pub metric: String,
    /// Number of its values in each record, present or not.
    pub values: usize,
    /// Approximate bytes of them in a day, before compression, if all are present.
    pub bytes_a_day: u64,
}

/// Lateness of ticks since the start, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Lateness {
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    pub max: f64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LastError {
    pub what: String,
    /// Time in seconds since 1970.
    pub at: i64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct SourceStatus {
    pub file: String,
    /// `harvested`; `waiting`, with nothing wrong with it; or `quarantined`.
    pub state: String,
    /// Seconds for which it has had this state for this reason.
    pub since: f64,
    /// Reason why it is not harvested; `None` if it is.
    pub reason: Option<String>,
    /// Number of its values, present or not.
    pub values: usize,
    /// Uid of its owner.
    pub user: u32,
    /// Number of samples that could not be taken while it was harvested.
    pub missing: u64,
    /// The first few reasons for leaving parts of it out, since another file or user has them.
    pub left_out: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct GroupStatus {
    pub name: String,
    /// Seconds from one sample to the next.
    pub interval: f64,
    /// Number of values of its last record.
    pub values: usize,
    /// Number of values of its metrics, present or not.
    #[serde(default)]
    pub known: usize,
    /// Bytes of its records in a day, before compression.
    pub bytes_a_day: u64,
    /// The values that it logs.
    #[serde(default)]
    pub log: LogMode,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct FlightRecorderStatus {
    /// Directory of its archives.
    pub directory: String,
    /// Seconds from one sample to the next.
    pub interval: f64,
    /// Number of values of a sample.
    pub values: usize,
    /// Samples written since the start.
    pub samples: u64,
    /// Seconds from the first retained sample to the last.
    pub span: f64,
    /// Bytes of the files.
    pub bytes: u64,
    /// Limit on their bytes and those that wait to be written.
    pub limit: u64,
    /// Ticks skipped because an earlier one took too long.
    pub missed: u64,
    /// Samples dropped because too many waited to be written.
    pub dropped: u64,
    /// Samples that could not be written.
    pub lost: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct ArchiveStatus {
    /// Base name of the archive that is being written.
    pub base: Option<String>,
    pub volume: u32,
    /// Records written since the start.
    pub written: u64,
    /// Records that could not be written.
    pub lost: u64,
    /// Bytes written to all files since the start.
    pub bytes: u64,
    /// Reason why writing fails now.
    pub error: Option<String>,
}

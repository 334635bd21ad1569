//! The status of a running agent: one JSON object.

mod forecast;
mod owners;
mod text;

use serde::{Deserialize, Serialize};

use crate::config::LogMode;

pub(crate) use forecast::{Forecast, PerValue, RetainedSpan};
pub(crate) use owners::{OwnerStatus, OwnerUsage};
pub(crate) use text::print;

/// The status of a running agent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct Status {
    /// The agent's version.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// How long it has been running, in seconds.
    pub uptime: f64,
    /// How long ago it was known what `sources` and `owners` have, in seconds; `None`: it is
    /// not known yet.
    pub files_age: Option<f64>,
    /// The files that it knows, by name.
    pub sources: Vec<SourceStatus>,
    /// What the files of each user use, by number.
    pub owners: Vec<OwnerStatus>,
    /// The groups of its configuration, and the default group.
    pub groups: Vec<GroupStatus>,
    /// Records handed to the writer since the start.
    pub records: u64,
    /// Values in them.
    pub values: u64,
    /// Records dropped because the queue was full.
    pub dropped: u64,
    /// Ticks skipped because an earlier one took too long.
    pub missed: u64,
    /// Ticks that began more than a tenth of the shortest interval late.
    pub late: u64,
    /// How long after their time ticks began.
    pub lateness: Lateness,
    /// Values logged in a second, over about the last minute.
    pub values_a_second: f64,
    /// Bytes written in a second, over about the last minute.
    pub bytes_a_second: f64,
    /// Bytes that wait for the disk.
    pub queued: u64,
    /// Bytes that may wait.
    pub queue_limit: u64,
    /// The archive writer.
    pub archive: ArchiveStatus,
    /// All archives.
    pub kept: RetainedSpan,
    /// What compression does to a value; `None`: this run has compressed no volume.
    pub compression: Option<PerValue>,
    /// How long archives will be kept.
    pub forecast: Forecast,
    /// The flight recorder, if it is configured.
    #[serde(rename = "hindsight")]
    pub flight_recorder: Option<FlightRecorderStatus>,
    /// Why the state file cannot be written now.
    pub state_error: Option<String>,
    /// The last error, even if it is over.
    pub last_error: Option<LastError>,
    /// What users can do to each other and the agent cannot prevent.
    pub warnings: Vec<String>,
}

impl Status {
    /// Whether archives or the state cannot be written now.
    pub(crate) fn has_error(&self) -> bool {
        self.archive.error.is_some() || self.state_error.is_some()
    }
}

/// The part of the status that the loader has.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct FileReport {
    /// The files.
    pub sources: Vec<SourceStatus>,
    /// Their users.
    pub owners: Vec<OwnerStatus>,
}

/// How late ticks were since the start, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Lateness {
    /// Half of them were no later than this.
    pub p50: f64,
    /// 99 of 100 were no later than this.
    pub p99: f64,
    /// The latest.
    pub max: f64,
}

/// An error.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LastError {
    /// What.
    pub what: String,
    /// When, in seconds since 1970.
    pub at: i64,
}

/// One file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct SourceStatus {
    /// Its name.
    pub file: String,
    /// `harvested`; `waiting`, with nothing wrong with it; or `quarantined`.
    pub state: String,
    /// For how long it has had this state for this reason, in seconds.
    pub since: f64,
    /// Why it is not harvested; `None`: it is harvested.
    pub reason: Option<String>,
    /// Its values, present or not.
    pub values: usize,
    /// The number of the user who owns it.
    pub user: u32,
    /// Number of samples that could not be taken while it was harvested.
    pub missing: u64,
    /// What of it is left out because another file or user has it: the first few reasons.
    pub left_out: Vec<String>,
}

/// One group.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct GroupStatus {
    /// Its name.
    pub name: String,
    /// Seconds from one sample to the next.
    pub interval: f64,
    /// Values of its last record.
    pub values: usize,
    /// Bytes of its records in a day, before compression.
    pub bytes_a_day: u64,
    /// Which values it logs.
    #[serde(default)]
    pub log: LogMode,
}

/// The flight recorder.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct FlightRecorderStatus {
    /// The directory of its archives.
    pub directory: String,
    /// Seconds from one sample to the next.
    pub interval: f64,
    /// Values of a sample.
    pub values: usize,
    /// Samples written since the start.
    pub samples: u64,
    /// Seconds from the first one that is kept to the last.
    pub span: f64,
    /// Bytes of the files.
    pub bytes: u64,
    /// Bytes that they may have, with what waits to be written.
    pub limit: u64,
    /// Ticks skipped because an earlier one took too long.
    pub missed: u64,
    /// Samples dropped because too many waited to be written.
    pub dropped: u64,
    /// Samples that could not be written.
    pub lost: u64,
}

/// The archive writer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct ArchiveStatus {
    /// The archive that is being written.
    pub base: Option<String>,
    /// Its volume.
    pub volume: u32,
    /// Records written since the start.
    pub written: u64,
    /// Records that could not be written.
    pub lost: u64,
    /// Bytes written since the start, to all files.
    pub bytes: u64,
    /// Why writing fails now.
    pub error: Option<String>,
}

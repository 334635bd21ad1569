//! All keys of the configuration with their defaults.
//!
//! The file is deserialized into these structs, so a field is a key (in kebab case, unless it is
//! renamed), and `Default` applies where the file lacks the key.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use pcp_archive::{Compression, Version};
use pcp_types::{InstanceId, names};
use serde::{Deserialize, Serialize};

use super::directories;
use super::owners::OwnersLimits;
use super::pins::Pins;
use super::retention::Retention;
use super::values::{self, SyncPolicy};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Settings that hold until the agent ends.
    pub fixed: FixedSettings,
    /// Settings that SIGHUP can change.
    pub reloadable: ReloadableSettings,
    /// Stop after this many samples. A tick without anything to log counts.
    pub samples: Option<u64>,
    /// Stop this long after the start.
    pub duration: Option<Duration>,
    /// Log also the last values of processes that ended before their files were opened. For a
    /// directory of its own, where no file is older than the agent.
    pub reads_ended: bool,
}

/// Stands for a group: any user may capture.
pub(crate) const ANY_USER: &str = "*";

/// Keys that take effect at the next start.
///
/// Serialized only to [compare](Self::changed_keys) two of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct FixedSettings {
    /// Directory whose MMV files are harvested. It need not exist yet.
    #[serde(serialize_with = "values::debug")]
    pub mmv_dir: PathBuf,
    /// Directory or base name of archives.
    #[serde(rename = "archive-dir", serialize_with = "values::debug")]
    pub destination: Destination,
    /// Directory of the state file; `None` for systemd's `$STATE_DIRECTORY`, else `.state` in the
    /// archive directory.
    #[serde(serialize_with = "values::debug")]
    pub state_dir: Option<PathBuf>,
    /// Version of archives.
    #[serde(deserialize_with = "values::archive_version", serialize_with = "values::debug")]
    pub archive_version: Version,
    /// Publish the agent's own metrics, `mmv.agent.*`, in an MMV file.
    pub own_metrics: bool,
    /// Log events about files and samples as the event metric `mmv.agent.events`.
    pub events: bool,
    /// Sample with real-time scheduling, where the system permits it.
    pub realtime: bool,
    /// Group, by name or number, whose members may capture, or [`ANY_USER`]; `None` for the
    /// agent's own group.
    pub capture_group: Option<String>,
}

/// Keys that a running agent can change.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct ReloadableSettings {
    /// Time between two samples of the default group; not zero.
    #[serde(deserialize_with = "values::interval")]
    pub interval: Duration,
    pub sync: SyncPolicy,
    /// The first group that has a metric, or an instance of it, logs it. The default group logs
    /// the remaining metrics.
    #[serde(rename = "group")]
    pub groups: Vec<Group>,
    pub rotation: Rotation,
    pub retention: Retention,
    pub compression: CompressionPolicy,
    /// Limits on the resources of the agent.
    pub limits: Limits,
    /// Limits of single users.
    #[serde(rename = "owner")]
    pub owners: OwnersLimits,
    /// `None` if the flight recorder is off.
    #[serde(rename = "hindsight")]
    pub flight_recorder: Option<FlightRecorderSettings>,
    /// Labels of the host for every archive: name and JSON value.
    #[serde(deserialize_with = "values::labels")]
    pub labels: BTreeMap<String, String>,
    /// Write a mark where a program restarted, so that no reader computes the rate of a counter
    /// across it.
    pub mark_on_restart: bool,
    /// Remove a file with the PROCESS flag this long after the end of its process; `None` for
    /// never.
    #[serde(deserialize_with = "values::interval_or_none")]
    pub remove_dead_after: Option<Duration>,
    #[serde(rename = "names")]
    pub pins: Pins,
    /// Release names, clusters and instance domains after this long without a file of their user
    /// that has them; `None` for never.
    #[serde(deserialize_with = "values::interval_or_none")]
    pub release_names_after: Option<Duration>,
}

/// Metrics that are logged together.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Group {
    /// Name in messages.
    #[serde(default)]
    pub name: String,
    /// Complete names of metrics (`mmv.shop.orders`) and subtrees (`mmv.shop`), and patterns of
    /// names with `*` and `?`.
    #[serde(deserialize_with = "values::some_patterns")]
    pub metrics: Vec<String>,
    /// Instances of the group. If empty, it has all instances and metrics without instances;
    /// otherwise it has no metrics without instances.
    #[serde(default)]
    pub instances: Vec<InstancePattern>,
    /// Time between two samples; `None` for [`ReloadableSettings::interval`].
    #[serde(default, deserialize_with = "values::some_interval")]
    pub interval: Option<Duration>,
    /// The samples that are logged.
    #[serde(default)]
    pub log: LogMode,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub(crate) enum InstancePattern {
    /// Instances whose names match, with `*` and `?`.
    Matching(String),
    /// The instance of this name, or whose name continues after it with a space: PCP accepts the
    /// part before the first space as a name as well.
    Name(String),
    /// The instance with this number.
    Number(InstanceId),
}

impl From<String> for InstancePattern {
    fn from(pattern: String) -> Self {
        Self::Matching(pattern)
    }
}

impl InstancePattern {
    pub(crate) fn matches(&self, id: InstanceId, name: &str) -> bool {
        match self {
            Self::Matching(pattern) => names::matches_pattern(pattern, name),
            Self::Name(wanted) => {
                let suffix = name.strip_prefix(wanted.as_str());
                suffix.is_some_and(|suffix| suffix.is_empty() || suffix.starts_with(' '))
            }
            Self::Number(wanted) => *wanted == id,
        }
    }
}

/// The samples of a group that are logged.
///
/// Readers use the value of a discrete metric that is nearest in time, so one that does not change
/// need not be repeated. Values of counters and instants are interpolated, so only
/// [`Never`](Self::Never) leaves one out. Metrics that are logged once or on change are logged
/// again in each new archive and after each mark.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LogMode {
    #[default]
    Every,
    /// Values of a discrete metric that differ from the previous one, which is logged again a
    /// nanosecond earlier.
    OnChange,
    /// The first value of a discrete metric, and values with other instances.
    Once,
    Never,
}

/// Rules for the end of archives and their data volumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Rotation {
    /// Limit on the bytes of a data volume.
    #[serde(deserialize_with = "values::size")]
    pub volume_size: u64,
    /// Limit on the time span of a data volume.
    #[serde(deserialize_with = "values::interval_or_none")]
    pub volume_time: Option<Duration>,
    /// Begin a new archive at midnight UTC.
    pub daily: bool,
}

/// Rules for compressing data volumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct CompressionPolicy {
    /// The method; `None` for no compression.
    #[serde(deserialize_with = "values::compression")]
    pub method: Option<Compression>,
    /// Time from the end of a data volume to its compression.
    #[serde(deserialize_with = "values::interval")]
    pub after: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Limits {
    /// Limit on bytes of records that wait for the disk. Two records may wait whatever their size.
    #[serde(rename = "queue", deserialize_with = "values::size")]
    pub queue_bytes: u64,
    /// Limit on harvested files.
    pub files: usize,
    /// Limit on the values of all files.
    pub values: usize,
    /// Limit on the bytes of metadata of one file.
    #[serde(rename = "metadata", deserialize_with = "values::size")]
    pub metadata_bytes: u64,
    /// Limit on the bytes of metadata of all files.
    #[serde(deserialize_with = "values::size")]
    pub metadata_total: u64,
    /// Limit on mapped bytes, from the start of each file to its last value.
    #[serde(deserialize_with = "values::size")]
    pub mapped: u64,
    /// Part of each of these limits that the files of one user may use, in percent.
    #[serde(deserialize_with = "values::percent")]
    pub share: u8,
    /// Limit on the bytes on disk of records that are logged in a day for the files of one user;
    /// `None` for that share of [`Retention::size`].
    #[serde(deserialize_with = "values::size_or_none")]
    pub disk_a_day: Option<u64>,
}

/// The flight recorder: archives in memory, of samples that are taken more often.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct FlightRecorderSettings {
    /// Time between two samples; not zero.
    #[serde(deserialize_with = "values::interval")]
    pub interval: Duration,
    /// Age at which archives are deleted.
    #[serde(deserialize_with = "values::interval")]
    pub span: Duration,
    /// Limit on the bytes of the archives and of what waits to be written to them.
    #[serde(deserialize_with = "values::size")]
    pub memory: usize,
    /// Complete names of metrics, of subtrees, and patterns; none: all metrics.
    #[serde(deserialize_with = "values::patterns")]
    pub metrics: Vec<String>,
}

/// The location of archives.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "PathBuf")]
pub(crate) enum Destination {
    /// `<directory>/<host>/YYYYMMDD.HH.MM`, the start of the archive in UTC.
    Directory(PathBuf),
    /// Exactly this base name.
    Base(PathBuf),
}

impl From<PathBuf> for Destination {
    fn from(directory: PathBuf) -> Self {
        Self::Directory(directory)
    }
}

impl Default for FixedSettings {
    fn default() -> Self {
        Self {
            mmv_dir: directories::mmv_dir(),
            destination: Destination::Directory(directories::archive_dir()),
            state_dir: None,
            archive_version: Version::V3,
            own_metrics: true,
            events: true,
            realtime: true,
            capture_group: None,
        }
    }
}

impl Default for ReloadableSettings {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(1),
            sync: SyncPolicy::Every(Duration::from_secs(10)),
            groups: Vec::new(),
            rotation: Rotation::default(),
            retention: Retention::default(),
            compression: CompressionPolicy::default(),
            limits: Limits::default(),
            owners: OwnersLimits::default(),
            flight_recorder: None,
            labels: BTreeMap::new(),
            mark_on_restart: false,
            remove_dead_after: None,
            pins: Pins::default(),
            release_names_after: Some(Duration::from_secs(14 * 86_400)),
        }
    }
}

impl Default for Rotation {
    fn default() -> Self {
        Self { volume_size: 100_000_000, volume_time: None, daily: true }
    }
}

impl Default for CompressionPolicy {
    fn default() -> Self {
        Self { method: Some(Compression::Zstd), after: Duration::from_secs(600) }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            queue_bytes: 64_000_000,
            files: 10_000,
            values: 5_000_000,
            metadata_bytes: 256_000_000,
            metadata_total: 256_000_000,
            mapped: 8_000_000_000,
            share: 50,
            disk_a_day: Some(5_000_000_000),
        }
    }
}

impl Default for FlightRecorderSettings {
    fn default() -> Self {
        Self {
            interval: Duration::from_millis(100),
            span: Duration::from_secs(600),
            memory: 64_000_000,
            metrics: Vec::new(),
        }
    }
}

impl FixedSettings {
    fn keys(&self) -> serde_json::Map<String, serde_json::Value> {
        match serde_json::to_value(self) {
            Ok(serde_json::Value::Object(keys)) => keys,
            _ => serde_json::Map::new(),
        }
    }

    pub(super) fn names() -> Vec<String> {
        Self::default().keys().into_iter().map(|(name, _)| name).collect()
    }

    /// Returns the names of the keys that differ in `other`.
    fn changed_keys(&self, other: &Self) -> Vec<String> {
        let other = other.keys();
        let changed =
            self.keys().into_iter().filter(|(name, value)| other.get(name) != Some(value));
        changed.map(|(name, _)| name).collect()
    }
}

impl Settings {
    /// Creates settings of an agent that runs inside a command and publishes nothing itself.
    pub(crate) fn new(mmv_dir: PathBuf, destination: Destination, interval: Duration) -> Self {
        let fixed = FixedSettings {
            mmv_dir,
            destination,
            own_metrics: false,
            events: false,
            ..FixedSettings::default()
        };
        let reloadable = ReloadableSettings { interval, ..ReloadableSettings::default() };
        Self { fixed, reloadable, ..Self::default() }
    }

    /// Applies the reloadable settings. Returns the keys that differ and take effect at the next
    /// start.
    pub(crate) fn reload(&mut self, new: Self) -> Vec<String> {
        self.reloadable = new.reloadable;
        self.fixed.changed_keys(&new.fixed)
    }
}

impl ReloadableSettings {
    pub(crate) fn interval_of(&self, group: &Group) -> Duration {
        group.interval.unwrap_or(self.interval)
    }

    pub(crate) fn shortest_interval(&self) -> Duration {
        let of_groups = self.groups.iter().filter_map(|group| group.interval);
        of_groups.fold(self.interval, Duration::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn reload_reports_keys_that_need_a_restart() {
        let mut settings = Settings::new("/m".into(), Destination::Directory("/a".into()), SECOND);
        let before = settings.clone();
        assert_eq!(settings.reload(before.clone()), [""; 0]);
        let mut new = Settings::new("/n".into(), Destination::Directory("/b".into()), 7 * SECOND);
        new.fixed.own_metrics = true;
        assert_eq!(settings.reload(new.clone()), ["archive-dir", "mmv-dir", "own-metrics"]);
        let reloadable = ReloadableSettings { interval: 7 * SECOND, ..before.reloadable };
        assert_eq!(settings, Settings { reloadable, ..before });
        assert_eq!(settings.own_groups(), []);
        settings.fixed.own_metrics = true;
        settings.reload(new.clone());
        assert_eq!(settings.own_groups(), new.own_groups());
    }

    #[test]
    fn an_instance_matches_by_pattern_name_or_number() {
        let id = InstanceId::new(3).unwrap();
        for (pattern, expected) in [
            (InstancePattern::Matching("sd?".into()), true),
            (InstancePattern::Matching("sd".into()), false),
            (InstancePattern::Name("sda".into()), true),
            (InstancePattern::Name("sd".into()), false),
            (InstancePattern::Number(id), true),
            (InstancePattern::Number(InstanceId::new(4).unwrap()), false),
        ] {
            assert_eq!(pattern.matches(id, "sda"), expected, "{pattern:?}");
        }
        assert!(InstancePattern::Name("17".into()).matches(id, "17 nginx"));
    }
}

//! What one run of the agent is told to do.
//!
//! Three layers, the later ones win: what is built in ([`Settings::new`]), a
//! file ([`file`]), the command line ([`Invocation`]). A daemon reads both of
//! the latter again on SIGHUP, by the same code as `check-config`.

pub mod error;
mod file;
mod invocation;
mod pmlogger;
mod quantity;

use std::env;
use std::path::PathBuf;
use std::time::Duration;

use mmv_archive::scan::glob;
use mmv_archive::{Compression, Version};
use pcp_types::InstanceId;

pub use error::ConfigError;
pub use invocation::Invocation;
pub use quantity::{QuantityError, archive_version, parse_duration, parse_size};

/// The socket of an agent that systemd runs, in its runtime directory.
const SOCKET: &str = "status.sock";
/// Where that is by our unit.
pub const UNIT_SOCKET: &str = "/run/mmv-agent/status.sock";

/// The folder of archives where neither an option nor systemd names one.
pub const DEFAULT_ARCHIVE_DIR: &str = "/var/log/mmv-agent";

/// Everything the agent needs to know before it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The directory whose MMV files are harvested. It need not exist yet.
    pub mmv_dir: PathBuf,
    /// Where archives are put and how they are called.
    pub destination: Destination,
    /// Where the agent keeps what it has to know at the next start; `None`:
    /// systemd's `$STATE_DIRECTORY`, else `.state` in the folder for archives.
    pub state_dir: Option<PathBuf>,
    /// Time from one sample to the next of what no group has; not zero.
    pub interval: Duration,
    /// Metrics that are logged in a way of their own. The first group that has
    /// a metric, or an instance of it, logs it.
    pub groups: Vec<Group>,
    /// Stop after so many samples; `None`: go on until told to stop. A tick
    /// at which there was nothing to log counts.
    pub samples: Option<u64>,
    /// Stop when so much time has passed since the start.
    pub duration: Option<Duration>,
    /// When archives and their data volumes end.
    pub rotation: Rotation,
    /// What is deleted.
    pub retention: Retention,
    /// What is compressed.
    pub compression: CompressionPolicy,
    /// When records are brought to disk.
    pub sync: SyncPolicy,
    /// The version of archives: 3, or 2 for readers before PCP 6, with times cut to
    /// microseconds.
    pub archive_version: Version,
    /// What the agent may use up.
    pub limits: Limits,
    /// What is kept in memory beside the archives; `None`: nothing.
    pub hindsight: Option<HindsightSettings>,
    /// Labels of the host, beside those that every archive has: name and JSON
    /// value.
    pub labels: Vec<(String, String)>,
    /// A program that restarts is marked in the archive, as samples are that are
    /// missing: no reader takes the rate of a counter over it.
    pub mark_on_restart: bool,
    /// A file with the PROCESS flag is removed when its process has been gone for so
    /// long; `None`: never.
    pub remove_dead_after: Option<Duration>,
    /// The agent publishes metrics of its own, `mmv.agent.*`, in a file beside the
    /// others.
    pub own_metrics: bool,
    /// What happens to files and samples goes into the archive, as the event metric
    /// `mmv.agent.events`.
    pub events: bool,
}

/// Metrics that are logged in a way of their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// How it is called, in messages.
    pub name: String,
    /// Complete names of metrics (`mmv.shop.orders`), of subtrees (`mmv.shop`),
    /// and patterns of names with `*` and `?`.
    pub metrics: Vec<String>,
    /// Which instances. Without any, all of them, and metrics without
    /// instances; else metrics without instances are not of the group.
    pub instances: Vec<InstancePattern>,
    /// Time from one sample to the next; `None`: [`Settings::interval`].
    pub interval: Option<Duration>,
    /// Which samples are logged.
    pub log: LogMode,
}

/// Which instances are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InstancePattern {
    /// Those whose names match, with `*` and `?`.
    Matching(String),
    /// That of a name, or of a name that goes on behind it after a space: PCP
    /// takes the part in front of the first one for a name as well.
    Name(String),
    /// That of a number.
    Number(InstanceId),
}

impl InstancePattern {
    /// Whether an instance is meant.
    pub fn means(&self, id: InstanceId, name: &str) -> bool {
        match self {
            Self::Matching(pattern) => glob::matches(pattern, name),
            Self::Name(wanted) => {
                let rest = name.strip_prefix(wanted.as_str());
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
            }
            Self::Number(wanted) => *wanted == id,
        }
    }
}

/// Which samples of a group are logged.
///
/// Readers take the value of a discrete metric that is nearest in time, so one
/// that does not change need not be said again. Values of counters and instants
/// are interpolated: none of these is ever left out but by
/// [`Never`](Self::Never). What is logged once or on change is logged again in
/// each new archive and after each mark.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogMode {
    /// All of them.
    #[default]
    Every,
    /// Of a discrete metric those that differ from the one before, which is
    /// logged again a nanosecond earlier.
    OnChange,
    /// Of a discrete metric the first, and those with other instances.
    Once,
    /// None.
    Never,
}

/// When archives and their data volumes end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rotation {
    /// How large a data volume may become.
    pub volume_size: u64,
    /// How much time a data volume may span.
    pub volume_time: Option<Duration>,
    /// A new archive begins at midnight UTC.
    pub daily: bool,
}

impl Default for Rotation {
    /// Volumes of 100 MB, an archive a day.
    fn default() -> Self {
        Self { volume_size: 100_000_000, volume_time: None, daily: true }
    }
}

/// What is deleted: whole archives that are closed, the oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Archives whose newest data is older than this.
    pub age: Option<Duration>,
    /// As long as all of them together are larger than this.
    pub size: Option<u64>,
    /// As long as the file system has less room than this.
    pub free: Option<u64>,
}

impl Default for Retention {
    /// 14 days, 10 GB, 256 MB.
    fn default() -> Self {
        let age = Some(Duration::from_secs(14 * 86_400));
        Self { age, size: Some(10_000_000_000), free: Some(256_000_000) }
    }
}

/// What is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompressionPolicy {
    /// How; `None`: not at all.
    pub method: Option<Compression>,
    /// How long a data volume lies closed before.
    pub after: Duration,
}

impl Default for CompressionPolicy {
    /// By xz, after ten minutes.
    fn default() -> Self {
        Self { method: Some(Compression::Xz), after: Duration::from_secs(600) }
    }
}

/// When records are brought to disk, so that they outlast a power failure. (They
/// outlast the agent's end in any case.)
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncPolicy {
    /// When the system does.
    Never,
    /// After so much time.
    Every(Duration),
    /// With each of them.
    Always,
}

impl Default for SyncPolicy {
    /// Ten seconds.
    fn default() -> Self {
        Self::Every(Duration::from_secs(10))
    }
}

/// What the agent may use up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How many bytes of records may wait for the disk. Two records may wait
    /// whatever their size.
    pub queue_bytes: u64,
    /// How many files may be harvested.
    pub files: usize,
    /// How many values they may have together.
    pub values: usize,
    /// How many bytes of metadata one of them may have.
    pub metadata_bytes: u64,
}

impl Default for Limits {
    /// 64 MB, 10 000 files, 5 million values, 256 MB.
    fn default() -> Self {
        Self {
            queue_bytes: 64_000_000,
            files: 10_000,
            values: 5_000_000,
            metadata_bytes: 256_000_000,
        }
    }
}

/// Samples that are kept in memory, taken more often than those of archives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HindsightSettings {
    /// Time from one sample to the next; not zero.
    pub interval: Duration,
    /// How much time they span at most.
    pub span: Duration,
    /// How many bytes of memory they take at most.
    pub memory: usize,
    /// Complete names of metrics, of subtrees, and patterns; none: all metrics.
    pub metrics: Vec<String>,
}

impl Default for HindsightSettings {
    /// All metrics, ten times a second for ten minutes, in 64 MB.
    fn default() -> Self {
        Self {
            interval: Duration::from_millis(100),
            span: Duration::from_secs(600),
            memory: 64_000_000,
            metrics: Vec::new(),
        }
    }
}

/// Where archives go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// `<folder>/<host>/YYYYMMDD.HH.MM`, the start of the archive in UTC.
    Folder(PathBuf),
    /// Exactly this base name.
    Base(PathBuf),
}

impl Settings {
    /// What is built in: a second's interval and no end, nothing of the agent
    /// itself.
    pub fn new(mmv_dir: PathBuf, destination: Destination) -> Self {
        Self {
            mmv_dir,
            destination,
            state_dir: None,
            interval: Duration::from_secs(1),
            groups: Vec::new(),
            samples: None,
            duration: None,
            rotation: Rotation::default(),
            retention: Retention::default(),
            compression: CompressionPolicy::default(),
            sync: SyncPolicy::default(),
            archive_version: Version::V3,
            limits: Limits::default(),
            hindsight: None,
            labels: Vec::new(),
            mark_on_restart: false,
            remove_dead_after: None,
            own_metrics: false,
            events: false,
        }
    }
}

impl Settings {
    /// What they come to, in a line.
    pub fn summary(&self) -> String {
        let archives = match &self.destination {
            Destination::Folder(folder) => format!("archives in {}", folder.display()),
            Destination::Base(base) => format!("the archive {}", base.display()),
        };
        let groups = self.groups.iter().map(|group| match group.log {
            LogMode::Never => format!("{} never", group.name),
            _ => format!("{} each {:?}", group.name, group.interval.unwrap_or(self.interval)),
        });
        let rest = format!("the rest each {:?}", self.interval);
        let groups: Vec<String> = groups.chain([rest]).collect();
        let groups = groups.join(", ");
        format!("MMV files in {}, {archives}; groups: {groups}", self.mmv_dir.display())
    }

    /// The socket where a running agent says what it is doing: in systemd's
    /// `$RUNTIME_DIRECTORY`, else beside the archives; `None` if the user has
    /// named the archive.
    pub fn socket(&self, host: &str) -> Option<PathBuf> {
        let beside_archives = || match &self.destination {
            Destination::Folder(folder) => {
                Some(folder.join(host.replace('/', "_")).join(".mmv-agent.sock"))
            }
            Destination::Base(_) => None,
        };
        let runtime = from_systemd("RUNTIME_DIRECTORY").map(|folder| folder.join(SOCKET));
        runtime.or_else(beside_archives)
    }

    /// The file with what the agent has to know at the next start. `None` if
    /// the user has named the archive and no place for this: nothing follows
    /// upon such a run.
    pub(crate) fn state_file(&self, host: &str) -> Option<PathBuf> {
        let beside_archives = || match &self.destination {
            Destination::Folder(folder) => Some(folder.join(".state")),
            Destination::Base(_) => None,
        };
        let named = self.state_dir.clone().or_else(|| from_systemd("STATE_DIRECTORY"));
        // A host name with a slash would lead elsewhere.
        let file = format!("{}.json", host.replace('/', "_"));
        named.or_else(beside_archives).map(|folder| folder.join(file))
    }
}

/// The folder for archives when no option names one: systemd's
/// `$LOGS_DIRECTORY`, else [`DEFAULT_ARCHIVE_DIR`].
pub fn default_archive_dir() -> PathBuf {
    from_systemd("LOGS_DIRECTORY").unwrap_or_else(|| PathBuf::from(DEFAULT_ARCHIVE_DIR))
}

fn from_systemd(variable: &str) -> Option<PathBuf> {
    let list = env::var(variable).ok()?;
    // With several directories in the unit this is a list; ours is first.
    list.split(':').next().filter(|first| !first.is_empty()).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_has_directories_and_groups() {
        let group = |name: &str, interval, log| Group {
            name: name.into(),
            metrics: Vec::new(),
            instances: Vec::new(),
            interval,
            log,
        };
        let mut settings = Settings::new("/m".into(), Destination::Folder("/a".into()));
        let expected = "MMV files in /m, archives in /a; groups: the rest each 1s";
        assert_eq!(settings.summary(), expected);
        settings.destination = Destination::Base("/b".into());
        settings.groups = vec![
            group("slow", Some(Duration::from_secs(60)), LogMode::OnChange),
            group("group 2", None, LogMode::Every),
            group("secret", None, LogMode::Never),
        ];
        let expected = "MMV files in /m, the archive /b; \
                        groups: slow each 60s, group 2 each 1s, secret never, the rest each 1s";
        assert_eq!(settings.summary(), expected);
    }

    #[test]
    fn an_instance_is_meant_by_pattern_name_or_number() {
        let id = InstanceId::new(3).unwrap();
        for (pattern, meant) in [
            (InstancePattern::Matching("sd?".into()), true),
            (InstancePattern::Matching("sd".into()), false),
            (InstancePattern::Name("sda".into()), true),
            (InstancePattern::Name("sd".into()), false),
            (InstancePattern::Number(id), true),
            (InstancePattern::Number(InstanceId::new(4).unwrap()), false),
        ] {
            assert_eq!(pattern.means(id, "sda"), meant, "{pattern:?}");
        }
        assert!(InstancePattern::Name("17".into()).means(id, "17 nginx"));
    }
}

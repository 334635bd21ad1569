//! The agent's own metrics, in an MMV file like that of any other program.
//!
//! The file is called `agent`, so the metrics are `mmv.agent.*`. While another living agent has a
//! file of that name, it is `agent_2`, and so on; if other users have all of them, the name has
//! the pid and the time. It has the PROCESS flag: the file of a killed agent counts as ended, and
//! the next agent replaces it.
//!
//! The file asks for cluster 2047, `agent_2` for 2046 and so on, so that pmdammv, if it reads the
//! same directory, assigns the same clusters to other files as without an agent. In the agent's
//! own archive the metrics are in [`OWN_CLUSTER`], which no file can have.
//!
//! [`OWN_CLUSTER`]: crate::metadata::OWN_CLUSTER

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use mmv_format::view::{self, Contents};
use mmv_writer::pcp::{IndomMetricExt as _, RegistryBuilderExt as _, RegistryExt as _};
use mmv_writer::{Buckets, Counter, Error, Gauge, Histogram, Registry, Units};
use tracing::warn;

use super::EventKind;
use crate::discovery::{FileState, Process, directory};
use crate::metadata::MAX_AUTOMATIC;

const NAME: &str = "agent";
/// Limit on agents with files in one directory.
const MAX_AGENTS: u32 = 9;
/// Buckets for times up to a minute, in microseconds, with an error of 12.5 %.
const TIMES: Buckets = Buckets::new(2, 60_000_000);

/// The handles. Without a file they count nowhere.
#[derive(Debug, Default)]
pub(crate) struct OwnMetrics {
    /// Name of the file, if there is one.
    pub file: Option<OsString>,
    /// The file is removed when this and all handles are gone.
    published: Option<Registry>,
    pub ticks: Counter<u64>,
    pub late: Counter<u64>,
    pub missed: Counter<u64>,
    /// Durations of ticks in microseconds.
    pub duration: Histogram,
    /// Lateness of ticks in microseconds.
    pub lateness: Histogram,
    pub values: Counter<u64>,
    /// Records handed to the writer.
    pub sampled: Counter<u64>,
    /// Records dropped since the queue was full.
    pub dropped: Counter<u64>,
    pub written: Counter<u64>,
    /// Records that could not be written.
    pub lost: Counter<u64>,
    pub bytes: Counter<u64>,
    /// Bytes that wait for the writer.
    pub queued: Gauge<u64>,
    pub queue_limit: Gauge<u64>,
    /// Durations of syncs in microseconds.
    pub sync: Histogram,
    /// Files by state, in the order of [`FileState::ALL`]; empty without a file.
    pub files: Vec<Gauge<u64>>,
    /// Events by kind, in the order of [`EventKind`]; empty without a file.
    pub events: Vec<Counter<u64>>,
    pub compression: CompressionCounters,
    pub deleted: Counter<u64>,
    pub reduced: Counter<u64>,
    pub archives: Gauge<u64>,
    pub archive_bytes: Gauge<u64>,
}

#[derive(Debug, Default)]
pub(crate) struct CompressionCounters {
    /// Compressed data volumes.
    pub volumes: Counter<u64>,
    /// Bytes before compression.
    pub before: Counter<u64>,
    /// Bytes after compression.
    pub after: Counter<u64>,
    /// Processor time in microseconds.
    pub time: Counter<u64>,
}

impl OwnMetrics {
    /// Publishes the file in a directory. If that fails, logs a warning and returns handles that
    /// count nowhere.
    pub(crate) fn publish(directory: &Path) -> Self {
        match try_publish(directory) {
            Ok(own) => own,
            Err(error) => {
                warn!(directory = %directory.display(), %error, "cannot publish the agent's own metrics");
                Self::default()
            }
        }
    }

    /// Publishes the file again if it is gone, as after the directory was removed and created
    /// again. Counters begin at 0, as in a program that starts; gauges that are rarely set keep
    /// their values.
    pub(crate) fn publish_again(&self, directory: &Path) -> Option<Self> {
        let has_file =
            self.file.as_ref().is_some_and(|name| directory.join(name).symlink_metadata().is_ok());
        let is_published = self.published.is_some() && has_file;
        if is_published || !directory.is_dir() {
            return None;
        }
        // The next attempt may succeed.
        let own = try_publish(directory).ok()?;
        own.queue_limit.set(self.queue_limit.value());
        own.archives.set(self.archives.value());
        own.archive_bytes.set(self.archive_bytes.value());
        Some(own)
    }

    fn register(registry: &Registry) -> Result<Self, Error> {
        let times = TIMES;
        let states = registry
            .indom("states")
            .names(FileState::ALL.map(FileState::name))
            .help("states of MMV files");
        let kinds = registry.indom("kinds").names(EventKind::NAMES);
        let states = states.build()?;
        let kinds = kinds.help("kinds of events").build()?;
        let count = |name: &str, help: &str| {
            registry.counter(name).units(Units::count()).help(help).build()
        };
        let bytes = |name: &str, help: &str| {
            registry.counter(name).units(Units::bytes()).help(help).build()
        };
        let size = |name: &str, help: &str| {
            registry.metric::<Gauge<u64>>(name).units(Units::bytes()).help(help).build()
        };
        let time = |name: &str, help: &str| {
            registry.histogram(name).units(Units::microseconds()).help(help)
        };
        let files = registry.metric("files").units(Units::count()).help("MMV files by state");
        let events = registry.counter("happened").units(Units::count());
        let events = events.help("what happened, as in mmv.agent.events");
        let archives = registry.metric("archives.kept").units(Units::count());
        Ok(Self {
            file: None,
            published: None,
            ticks: count("ticks.taken", "ticks at which one or more groups were sampled")?,
            late: count(
                "ticks.late",
                "ticks that began late by more than a tenth of the shortest interval",
            )?,
            missed: count("ticks.missed", "ticks skipped because an earlier one took too long")?,
            duration: time(
                "ticks.duration",
                "from the start of a tick until its records are queued",
            )
            .buckets(times)
            .build()?,
            lateness: time("ticks.lateness", "from when a tick was due until it began")
                .buckets(times)
                .build()?,
            values: count("values.sampled", "values in records handed to the archive writer")?,
            sampled: count("records.sampled", "records handed to the archive writer")?,
            dropped: count("records.dropped", "records dropped because the queue was full")?,
            written: count("records.written", "records written to archives")?,
            lost: count("records.lost", "records that could not be written")?,
            bytes: bytes("bytes.written", "bytes written to all files of archives")?,
            queued: size("queue.bytes", "bytes of records that wait for the disk")?,
            queue_limit: size("queue.limit", "bytes of records that may wait")?,
            sync: time("sync.duration", "time to sync records to disk").buckets(times).build()?,
            files: files.build_instances(&states)?.iter().cloned().collect(),
            events: events.build_instances(&kinds)?.iter().cloned().collect(),
            compression: CompressionCounters {
                volumes: count("compression.volumes", "data volumes compressed")?,
                before: bytes("compression.before", "bytes of volumes before compression")?,
                after: bytes("compression.after", "bytes of the same volumes after compression")?,
                time: registry
                    .counter("compression.time")
                    .units(Units::microseconds())
                    .help("processor time of compression")
                    .build()?,
            },
            deleted: count("archives.deleted", "archives deleted by the rules of retention")?,
            reduced: count("archives.reduced", "archives reduced to one value an interval")?,
            archives: archives.help("archives in the directory").build()?,
            archive_bytes: size("archives.bytes", "bytes of all files of archives")?,
        })
    }
}

/// Publishes under the first free name.
fn try_publish(directory: &Path) -> Result<OwnMetrics, Error> {
    let mut published = publish_as(directory, NAME, MAX_AUTOMATIC);
    for number in 2..=MAX_AGENTS {
        if published.is_ok() {
            return published;
        }
        let name = format!("{NAME}_{number}");
        published = publish_as(directory, &name, MAX_AUTOMATIC + 1 - number);
    }
    if published.is_ok() {
        return published;
    }
    // No user can have taken all names of this form.
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let name = format!("{NAME}_{}_{}", std::process::id(), since_epoch.as_nanos());
    publish_as(directory, &name, MAX_AUTOMATIC - MAX_AGENTS)
}

fn publish_as(directory: &Path, name: &str, cluster: u32) -> Result<OwnMetrics, Error> {
    let path = directory.join(name);
    if belongs_to_another(&path) {
        let source = io::ErrorKind::AlreadyExists.into();
        return Err(Error::Io { path, action: "replace", source });
    }
    let registry = Registry::builder(name).directory(directory).cluster(cluster);
    let registry = registry.sealed().build()?;
    let own = OwnMetrics::register(&registry)?;
    registry.publish()?;
    let file = registry.path().file_name().map(OsStr::to_owned);
    Ok(OwnMetrics { file, published: Some(registry), ..own })
}

/// Returns true if another living process has the file. A file with this process's pid is from an
/// earlier process.
fn belongs_to_another(path: &Path) -> bool {
    let Ok(file) = directory::open_file(path) else { return false };
    let Ok(contents) = Contents::read(&file, &view::Limits::default()) else { return false };
    let pid = contents.header.pid;
    pid.cast_unsigned() != std::process::id() && Process::find(pid).is_some()
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::os::unix::fs::FileExt as _;
    use std::process::Command;

    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(directory).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Makes a file one of another process.
    fn give_away(path: &Path, pid: u32) {
        let file = OpenOptions::new().write(true).open(path).unwrap();
        // The process number in the header, mmv(5).
        file.write_all_at(&pid.to_ne_bytes(), 32).unwrap();
    }

    #[test]
    fn the_file_has_all_metrics_and_is_removed_with_the_agent() {
        let dir = tempfile::tempdir().unwrap();
        let own = OwnMetrics::publish(dir.path());
        assert_eq!(own.file.as_deref(), Some("agent".as_ref()));
        own.ticks.inc();
        own.duration.record(100);
        let file = directory::open_file(&dir.path().join("agent")).unwrap();
        let contents = Contents::read(&file, &view::Limits::default()).unwrap();
        assert_eq!(contents.header.cluster, 2047);
        assert_eq!(contents.header.pid.cast_unsigned(), std::process::id());
        assert!(contents.header.flags.contains(view::Flags::PROCESS));
        for metric in &contents.metrics {
            assert!(metric.short_help.is_some(), "{} needs help", metric.name);
        }
        drop(own);
        assert_eq!(names(dir.path()), [""; 0]);
    }

    #[test]
    fn the_file_is_published_again_if_its_directory_was_made_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mmv");
        let before_the_directory = OwnMetrics::publish(&path);
        assert!(before_the_directory.publish_again(&path).is_none());
        std::fs::create_dir(&path).unwrap();
        let own = before_the_directory.publish_again(&path).unwrap();
        assert!(own.publish_again(&path).is_none(), "it is there");
        own.ticks.inc();
        own.queue_limit.set(7);
        std::fs::remove_dir_all(&path).unwrap();
        assert!(own.publish_again(&path).is_none());
        std::fs::create_dir(&path).unwrap();
        let again = own.publish_again(&path).unwrap();
        assert_eq!((again.ticks.value(), again.queue_limit.value()), (0, 7));
        // The former file does not take the new one along.
        drop(own);
        assert_eq!(names(&path), ["agent"]);
    }

    #[test]
    fn only_the_file_of_a_dead_agent_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let _first = OwnMetrics::publish(dir.path());
        let mut other = Command::new("sleep").arg("60").spawn().unwrap();
        give_away(&dir.path().join("agent"), other.id());
        let second = OwnMetrics::publish(dir.path());
        assert_eq!(second.file.as_deref(), Some("agent_2".as_ref()));
        assert_eq!(names(dir.path()), ["agent", "agent_2"]);
        other.kill().unwrap();
        other.wait().unwrap();
        let third = OwnMetrics::publish(dir.path());
        assert_eq!(third.file.as_deref(), Some("agent".as_ref()));
    }

    #[test]
    fn nobody_can_have_all_names_of_the_agents_file() {
        let dir = tempfile::tempdir().unwrap();
        let first = OwnMetrics::publish(dir.path());
        let mut other = Command::new("sleep").arg("60").spawn().unwrap();
        give_away(&dir.path().join("agent"), other.id());
        for number in 2..=MAX_AGENTS {
            let name = format!("agent_{number}");
            std::fs::copy(dir.path().join("agent"), dir.path().join(name)).unwrap();
        }
        let own = OwnMetrics::publish(dir.path());
        let name = own.file.as_deref().unwrap().to_str().unwrap();
        assert!(name.starts_with(&format!("agent_{}_", std::process::id())), "{name}");
        other.kill().unwrap();
        other.wait().unwrap();
        drop(first);
    }

    #[test]
    fn without_a_writable_directory_the_agent_runs_without_the_file() {
        let own = OwnMetrics::publish(Path::new("/nowhere/at/all"));
        own.ticks.inc();
        assert!(own.file.is_none() && own.published.is_none());
        assert!(own.files.is_empty() && own.events.is_empty());
    }
}

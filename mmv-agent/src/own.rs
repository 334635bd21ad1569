//! The agent's own metrics: an MMV file as that of any other program.
//!
//! The file is called `agent`, so the metrics are `mmv.agent.*`. If another agent
//! that is alive has a file of that name there, it is `agent_2`, and so on. It has
//! the PROCESS flag: that of an agent which was killed ends, and the next one
//! takes its place.
//!
//! The file asks for no cluster. Its domains could not have [`OWN_CLUSTER`], which
//! is too large for the number of a domain, and pmdammv, if it reads the same
//! directory, gives clusters by the same names.
//!
//! [`OWN_CLUSTER`]: crate::identity::OWN_CLUSTER

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::time::Duration;

use mmv_writer::view::{self, Contents};
use mmv_writer::{Buckets, Counter, Error, Gauge, Histogram, Published, Registry, Units};
use tracing::warn;

use crate::config::{Group, LogMode};
use crate::directory;
use crate::events::Kind;
use crate::liveness::Process;

/// What the file is called.
const NAME: &str = "agent";
/// How many agents may have files in one directory.
const MOST: u32 = 9;
/// Times up to a minute, in microseconds, to 12.5 %.
const TIMES: Buckets = Buckets::new(2, 60_000_000);
/// How often the metrics are logged at most.
const INTERVAL: Duration = Duration::from_secs(10);

/// In which states files are.
pub(crate) const STATES: [&str; 3] = ["harvested", "waiting", "quarantined"];

/// The handles. Without a file they count where nobody reads.
#[derive(Debug)]
pub(crate) struct Own {
    /// The file's name, if there is a file.
    pub file: Option<OsString>,
    /// Ticks.
    pub ticks: Counter<u64>,
    /// Those that began late.
    pub late: Counter<u64>,
    /// Those that were passed over.
    pub missed: Counter<u64>,
    /// How long they took, in microseconds.
    pub duration: Histogram,
    /// How long after their time they began, in microseconds.
    pub lateness: Histogram,
    /// Values harvested.
    pub values: Counter<u64>,
    /// Records handed to the writer.
    pub sampled: Counter<u64>,
    /// Records dropped since the queue was full.
    pub dropped: Counter<u64>,
    /// Records written.
    pub written: Counter<u64>,
    /// Records that could not be written.
    pub lost: Counter<u64>,
    /// Bytes written.
    pub bytes: Counter<u64>,
    /// Bytes that wait for the writer.
    pub queued: Gauge<u64>,
    /// How many may.
    pub queue_limit: Gauge<u64>,
    /// How long it took to bring records to disk, in microseconds.
    pub sync: Histogram,
    /// Files by state, in the order of [`STATES`].
    pub files: Vec<Gauge<u64>>,
    /// Events by kind, in the order of [`Kind::ALL`].
    pub events: Vec<Counter<u64>>,
    /// Volumes compressed, bytes before and after, and processor time in
    /// microseconds.
    pub compression: Compressed,
    /// Archives deleted.
    pub deleted: Counter<u64>,
    /// Archives there are.
    pub archives: Gauge<u64>,
    /// Bytes they have.
    pub archive_bytes: Gauge<u64>,
}

/// What was compressed.
#[derive(Debug)]
pub(crate) struct Compressed {
    /// Data volumes.
    pub volumes: Counter<u64>,
    /// Their bytes before.
    pub before: Counter<u64>,
    /// And after.
    pub after: Counter<u64>,
    /// Processor time, in microseconds.
    pub time: Counter<u64>,
}

impl Own {
    /// Metrics that nobody reads.
    pub(crate) fn unseen() -> Self {
        let noop = Counter::noop;
        Self {
            file: None,
            ticks: noop(),
            late: noop(),
            missed: noop(),
            duration: Histogram::noop(),
            lateness: Histogram::noop(),
            values: noop(),
            sampled: noop(),
            dropped: noop(),
            written: noop(),
            lost: noop(),
            bytes: noop(),
            queued: Gauge::noop(),
            queue_limit: Gauge::noop(),
            sync: Histogram::noop(),
            files: STATES.map(|_| Gauge::noop()).into(),
            events: Kind::ALL.map(|_| noop()).into(),
            compression: Compressed {
                volumes: noop(),
                before: noop(),
                after: noop(),
                time: noop(),
            },
            deleted: noop(),
            archives: Gauge::noop(),
            archive_bytes: Gauge::noop(),
        }
    }

    /// Publishes the file in a directory. If that cannot be it is said, and the
    /// metrics are such that nobody reads.
    pub(crate) fn publish(directory: &Path) -> (Self, Option<Published>) {
        match try_publish(directory) {
            Ok((own, published)) => (own, Some(published)),
            Err(error) => {
                warn!(directory = %directory.display(), %error, "no metrics of the agent itself");
                (Self::unseen(), None)
            }
        }
    }

    fn register(registry: &Registry) -> Result<Self, Error> {
        let times = registry.buckets(TIMES)?;
        let states = registry.indom("states").names(STATES).help("states of MMV files");
        let kinds = registry.indom("kinds").names(Kind::ALL.map(Kind::name));
        let (states, kinds) = (states.build()?, kinds.help("kinds of events").build()?);
        let count = |name: &str, help: &str| {
            registry.counter::<u64>(name).units(Units::count()).help(help).build()
        };
        let bytes = |name: &str, help: &str| {
            registry.counter::<u64>(name).units(Units::bytes()).help(help).build()
        };
        let size = |name: &str, help: &str| {
            registry.gauge::<u64>(name).units(Units::bytes()).help(help).build()
        };
        let time = |name: &str, help: &str| {
            registry.counter::<u64>(name).units(Units::microseconds()).help(help)
        };
        let files = registry.gauge("files").units(Units::count()).help("MMV files by state");
        let events = registry.counter("happened").units(Units::count());
        let events = events.help("what happened, as in mmv.agent.events");
        let archives = registry.gauge("archives.kept").units(Units::count());
        Ok(Self {
            file: None,
            ticks: count("ticks.taken", "moments at which a group or several were sampled")?,
            late: count(
                "ticks.late",
                "those that began more than a tenth of the shortest interval late",
            )?,
            missed: count("ticks.missed", "passed over, as an earlier one took too long")?,
            duration: time("ticks.duration", "from its beginning to its records being queued")
                .build_histogram(&times)?,
            lateness: time("ticks.lateness", "from when it was due to when it began")
                .build_histogram(&times)?,
            values: count("values.sampled", "in records handed to the writer")?,
            sampled: count("records.sampled", "handed to the writer")?,
            dropped: count("records.dropped", "since the queue was full")?,
            written: count("records.written", "to archives")?,
            lost: count("records.lost", "that could not be written")?,
            bytes: bytes("bytes.written", "to all files of archives")?,
            queued: size("queue.bytes", "of records that wait for the disk")?,
            queue_limit: size("queue.limit", "how many may wait")?,
            sync: time("sync.duration", "to bring records to disk").build_histogram(&times)?,
            files: files.build_instances(&states)?.iter().cloned().collect(),
            events: events.build_instances(&kinds)?.iter().cloned().collect(),
            compression: Compressed {
                volumes: count("compression.volumes", "data volumes compressed")?,
                before: bytes("compression.before", "of volumes before they were compressed")?,
                after: bytes("compression.after", "of the same volumes afterwards")?,
                time: time("compression.time", "processor time of compressing").build()?,
            },
            deleted: count("archives.deleted", "as there was too much")?,
            archives: archives.help("archives in the folder").build()?,
            archive_bytes: size("archives.bytes", "of all their files")?,
        })
    }
}

/// The first name that no other agent has and that the system lets us have.
fn try_publish(directory: &Path) -> Result<(Own, Published), Error> {
    let mut published = publish_as(directory, NAME);
    for number in 2..=MOST {
        if published.is_ok() {
            break;
        }
        published = publish_as(directory, &format!("{NAME}_{number}"));
    }
    published
}

fn publish_as(directory: &Path, name: &str) -> Result<(Own, Published), Error> {
    let path = directory.join(name);
    if is_fed_by_another(&path) {
        let source = io::ErrorKind::AlreadyExists.into();
        return Err(Error::Io { path, action: "replace", source });
    }
    let registry = Registry::builder(name).directory(directory).sentinel().build()?;
    let own = Own::register(&registry)?;
    Ok((Own { file: Some(name.into()), ..own }, registry.publish()?))
}

/// Whether a file is that of another process which is alive. One with this
/// process's number is of a process that had it before.
fn is_fed_by_another(path: &Path) -> bool {
    let Ok(file) = directory::open(path) else { return false };
    let Ok(contents) = Contents::read(&file, &view::Limits::default()) else { return false };
    let pid = contents.header.pid;
    pid.cast_unsigned() != std::process::id() && Process::find(pid).is_some()
}

/// The group that logs the metrics if no other one does: each tenth second, or
/// with each sample if these are rarer, so that a host with few metrics has no
/// archive full of ours.
pub(crate) fn group(interval: Duration) -> Group {
    let every = INTERVAL.as_nanos().div_ceil(interval.as_nanos().max(1)).max(1);
    let every = u32::try_from(every).unwrap_or(u32::MAX);
    Group {
        name: "mmv-agent".to_owned(),
        metrics: vec![format!("mmv.{NAME}"), format!("mmv.{NAME}_?.*")],
        instances: Vec::new(),
        interval: Some(interval.saturating_mul(every)),
        log: LogMode::Every,
    }
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
    fn the_file_has_all_metrics_and_goes_with_the_agent() {
        let dir = tempfile::tempdir().unwrap();
        let (own, published) = Own::publish(dir.path());
        assert_eq!(own.file.as_deref(), Some("agent".as_ref()));
        own.ticks.inc();
        own.duration.record(100);
        let file = directory::open(&dir.path().join("agent")).unwrap();
        let contents = Contents::read(&file, &view::Limits::default()).unwrap();
        assert_eq!(contents.header.cluster, 0);
        assert_eq!(contents.header.pid.cast_unsigned(), std::process::id());
        assert!(contents.header.flags.contains(view::Flags::PROCESS));
        for metric in &contents.metrics {
            assert!(metric.short_help.is_some(), "{} needs help", metric.name);
        }
        drop(published);
        assert_eq!(names(dir.path()), [""; 0]);
    }

    #[test]
    fn the_file_of_an_agent_that_lives_stays_and_that_of_a_dead_one_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let (_first, _published) = Own::publish(dir.path());
        let mut other = Command::new("sleep").arg("60").spawn().unwrap();
        give_away(&dir.path().join("agent"), other.id());
        let (second, _published) = Own::publish(dir.path());
        assert_eq!(second.file.as_deref(), Some("agent_2".as_ref()));
        assert_eq!(names(dir.path()), ["agent", "agent_2"]);
        other.kill().unwrap();
        other.wait().unwrap();
        let (third, _published) = Own::publish(dir.path());
        assert_eq!(third.file.as_deref(), Some("agent".as_ref()));
    }

    #[test]
    fn where_no_file_can_be_the_agent_goes_on_without() {
        let (own, published) = Own::publish(Path::new("/nowhere/at/all"));
        own.ticks.inc();
        assert!(own.file.is_none() && published.is_none());
        assert_eq!((own.files.len(), own.events.len()), (STATES.len(), Kind::ALL.len()));
    }

    #[test]
    fn ours_are_logged_with_samples_that_are_taken_anyway() {
        for (millis, expected) in
            [(100, 10_000), (1_000, 10_000), (3_000, 12_000), (60_000, 60_000)]
        {
            let group = group(Duration::from_millis(millis));
            assert_eq!(group.interval, Some(Duration::from_millis(expected)));
        }
    }
}

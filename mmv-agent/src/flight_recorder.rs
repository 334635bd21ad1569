//! The flight recorder: archives of the last minutes in the runtime directory, which is in memory.
//!
//! Input: samples at its own interval from its own [queue](crate::logging). Output: ordinary
//! archives, written and kept by the same code as all others. They outlive the agent, and commands
//! read them where they are. One thread writes, compresses and deletes in turn. While it cannot
//! keep up, its queue drops samples; the archives of the groups do not depend on it.
//!
//! Invariant: the files never have more bytes than configured, even while a volume is compressed.

mod access;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam::channel::{Receiver, Sender, unbounded};
use pcp_archive::{Compression, Version};
use tracing::{info, warn};

pub(crate) use access::Access;

use crate::config::{
    CompressionPolicy, Destination, FlightRecorderSettings, Retention, Rotation, SyncPolicy,
};
use crate::error::Error;
use crate::host::Host;
use crate::housekeeping::{Housekeeper, HousekeepingRules, PrologueIds, Store, Task};
use crate::lock::Lock;
use crate::logging::{
    ArchiveNames, Archiver, Order, Policy, QueueReceiver, QueueSender, Sample, WriterMessage,
    archive_writer, queue,
};
use crate::telemetry::SharedStatus;

/// Divisor of the time and the bytes that gives the limit on one archive: only whole archives are
/// deleted.
const ARCHIVES: u32 = 8;
/// Divisor of the bytes that gives the limit on a data volume.
const VOLUMES: u64 = 32;
/// Divisor of the bytes that gives the limit on the queue.
const QUEUED: usize = 16;

/// Pause between attempts to free space after a failed write; each of them logs two lines.
const RETRY: Duration = Duration::from_secs(5);

/// The sampler's end of the flight recorder.
#[derive(Debug)]
pub(crate) struct RecorderLink {
    pub queue: QueueSender,
    pub settings: Sender<FlightRecorderSettings>,
    /// Status of the writer.
    pub shared: Arc<SharedStatus>,
    /// Directory of the archives.
    pub directory: PathBuf,
}

impl RecorderLink {
    pub(crate) fn change(&mut self, settings: FlightRecorderSettings) {
        self.queue.set_limit(settings.memory / QUEUED);
        // Sending fails only while the agent stops.
        let _ = self.settings.send(settings);
    }
}

/// Common properties of all archives of a flight recorder.
#[derive(Debug)]
pub(crate) struct RecorderPlace {
    pub directory: PathBuf,
    /// Users who may read the directory.
    pub access: Access,
    pub host: Host,
    /// Identity of the agent's archives, so that a reader joins them without a mark.
    pub server: PrologueIds,
    /// Version of archives.
    pub version: Version,
}

/// The flight recorder's thread. It creates no directory before the first sample.
#[derive(Debug)]
pub(crate) struct RecorderWriter {
    place: RecorderPlace,
    jobs: QueueReceiver,
    settings: Receiver<FlightRecorderSettings>,
    limits: RecorderLimits,
    shared: Arc<SharedStatus>,
    archives: Option<Archives>,
    /// Reason why samples are left out now.
    refused: Option<String>,
    /// Time of the last attempt to free space after a failed write.
    retried: Option<Instant>,
}

#[derive(Debug)]
struct Archives {
    archiver: Archiver,
    housekeeper: Housekeeper,
    tasks: Receiver<Task>,
    /// Bytes written that are counted as kept.
    counted: u64,
    /// Id of the last catalog.
    catalog_id: u64,
    /// Approximate bytes of its metadata.
    catalog_bytes: u64,
}

#[derive(Debug, Clone, Copy)]
struct RecorderLimits {
    bytes: u64,
    /// Bytes of a data volume.
    volume: u64,
    span: Duration,
}

impl From<&FlightRecorderSettings> for RecorderLimits {
    fn from(settings: &FlightRecorderSettings) -> Self {
        let bytes = (settings.memory - settings.memory / QUEUED) as u64;
        Self { bytes, volume: bytes / VOLUMES, span: settings.span }
    }
}

impl RecorderLimits {
    fn policy(self, version: Version) -> Policy {
        Policy {
            rotation: Rotation { volume_size: self.volume, volume_time: None, daily: false },
            archive_size: None,
            archive_time: Some(self.span / ARCHIVES),
            // Nothing in memory survives a power failure.
            sync: SyncPolicy::Never,
            // What an earlier flight recorder left is never joined.
            longest_gap: Duration::ZERO,
            version,
            log_events: false,
            log_archives: false,
        }
    }

    /// Returns the bytes for a sample of `needed` bytes and for the copy of the volume that it may
    /// complete, while that is compressed.
    fn room(self, needed: u64) -> u64 {
        needed.saturating_add(self.volume.max(needed))
    }

    /// Returns rules that leave space for samples of `needed` bytes until two volumes are full. If
    /// the file system is smaller than the limit on bytes, the oldest archives are deleted as
    /// well.
    fn rules(self, needed: u64) -> HousekeepingRules {
        let size = self.bytes.saturating_sub(self.room(needed) + 2 * self.volume);
        HousekeepingRules {
            retention: Retention {
                age: Some(self.span),
                size: Some(size),
                free: Some(2 * self.volume),
                tiers: Vec::new(),
            },
            compression: CompressionPolicy {
                method: Some(Compression::Zstd),
                after: Duration::ZERO,
            },
            is_short_lived: true,
        }
    }
}

/// Creates a flight recorder that is off until it gets settings.
pub(crate) fn flight_recorder(place: RecorderPlace) -> (RecorderLink, RecorderWriter) {
    let defaults = FlightRecorderSettings::default();
    let (sender, jobs) = queue(defaults.memory / QUEUED);
    let (settings, inbox) = unbounded();
    let shared = Arc::<SharedStatus>::default();
    let link = RecorderLink {
        queue: sender,
        settings,
        shared: Arc::clone(&shared),
        directory: place.directory.clone(),
    };
    let limits = RecorderLimits::from(&defaults);
    let writer = RecorderWriter {
        place,
        jobs,
        settings: inbox,
        limits,
        shared,
        archives: None,
        refused: None,
        retried: None,
    };
    (link, writer)
}

impl RecorderWriter {
    /// Runs until the sampler has ended.
    pub(crate) fn run(mut self) {
        while let Some(job) = self.jobs.next() {
            if let Some(settings) = self.settings.try_iter().last() {
                self.limits = RecorderLimits::from(&settings);
                if let Some(archives) = &mut self.archives {
                    let policy = self.limits.policy(self.place.version);
                    archives.archiver.obey(&Order::Change(policy));
                    archives.archiver.obey(&Order::NewArchive);
                }
            }
            match job {
                WriterMessage::Write(mut sample) => {
                    sample.mark |= self.refused.is_some();
                    self.write(&sample);
                    self.jobs.done(sample);
                }
                WriterMessage::Do(order) => {
                    if let Some(archives) = &mut self.archives {
                        archives.archiver.obey(&order);
                    }
                }
            }
        }
        if let Some(archives) = self.archives {
            archives.archiver.finish();
        }
    }

    /// Writes a sample, or leaves it out if there is no space.
    fn write(&mut self, sample: &Sample) {
        if self.archives.is_none() {
            match self.open() {
                Ok(archives) => self.archives = Some(archives),
                Err(error) => return self.refuse(error.to_string()),
            }
        }
        let Some(archives) = &mut self.archives else { return };
        let limits = self.limits;
        let needed = archives.needed(sample);
        if !Archives::has_room(needed, limits, &self.shared) {
            archives.archiver.obey(&Order::NewArchive);
            archives.keep_house(limits, needed, &self.shared);
            if !Archives::has_room(needed, limits, &self.shared) {
                let bytes = limits.bytes;
                return self.refuse(format!(
                    "a sample of {needed} bytes exceeds the limit of {bytes} (hindsight.memory)"
                ));
            }
        }
        if self.refused.take().is_some() {
            info!("the flight recorder has resumed");
        }
        archives.archiver.write(sample);
        archives.count(&self.shared);
        let is_failing = self.shared.archive_status().error.is_some();
        let is_retry = is_failing && self.retried.is_none_or(|last| last.elapsed() >= RETRY);
        if is_retry {
            self.retried = Some(Instant::now());
            archives.archiver.obey(&Order::NewArchive);
        }
        if is_retry || archives.take_tasks() {
            archives.keep_house(limits, needed, &self.shared);
        }
    }

    /// Leaves out a sample, and logs the reason once.
    fn refuse(&mut self, why: String) {
        if self.refused.as_ref() != Some(&why) {
            warn!(error = why, "the flight recorder has stopped");
            self.shared.note_error(why.clone());
            self.refused = Some(why);
        }
    }

    /// Creates the directory, and takes over what an earlier run has left there.
    fn open(&self) -> Result<Archives, Error> {
        let place = &self.place;
        let names =
            ArchiveNames::new(Destination::Directory(place.directory.clone()), &place.host.name);
        let directory = names.directory();
        let prepared = fs::create_dir_all(&directory);
        let permitted = prepared.and_then(|()| place.access.apply(&place.directory));
        permitted.map_err(|source| Error::ArchiveDirectory {
            directory: place.directory.clone(),
            source,
        })?;
        let lock = Some(Arc::new(Lock::take(&directory)?));
        let store = Arc::new(Store::with_prologue_ids(place.server));
        let (tasks, inbox) = unbounded();
        let (removals, _) = unbounded();
        let mut housekeeper = Housekeeper::new(
            Arc::clone(&store),
            Arc::clone(&self.shared),
            removals,
            Some(directory),
            self.limits.rules(0),
        )
        .with_lock(lock.clone());
        let left = housekeeper.leftovers();
        housekeeper.clean_up(&left);
        let names = names.after_found(left.bases());
        let links = archive_writer::ArchiverLinks {
            store,
            shared: Arc::clone(&self.shared),
            housekeeper: tasks,
            lock,
        };
        let policy = self.limits.policy(place.version);
        let archiver = Archiver::new(names, &place.host, policy, links);
        let mut opened = Archives {
            archiver,
            housekeeper,
            tasks: inbox,
            counted: 0,
            catalog_id: 0,
            catalog_bytes: 0,
        };
        opened.keep_house(self.limits, 0, &self.shared);
        Ok(opened)
    }
}

impl Archives {
    /// Returns an upper bound of the bytes of a sample, which may begin an archive.
    fn needed(&mut self, sample: &Sample) -> u64 {
        let catalog = &sample.catalog;
        if self.catalog_id != catalog.id {
            self.catalog_id = catalog.id;
            self.catalog_bytes = catalog.size();
        }
        self.catalog_bytes + sample.size() as u64
    }

    /// Returns true if a sample fits, with a copy of the volume that it may complete.
    fn has_room(needed: u64, limits: RecorderLimits, shared: &SharedStatus) -> bool {
        shared.kept().bytes + limits.room(needed) <= limits.bytes
    }

    /// Counts written bytes as kept.
    fn count(&mut self, shared: &SharedStatus) {
        let kept = shared.kept();
        let written = shared.bytes();
        shared.set_kept_bytes(kept.bytes + written.saturating_sub(self.counted));
        self.counted = written;
    }

    /// Returns true if a volume was closed since the last call.
    fn take_tasks(&mut self) -> bool {
        let mut is_closed = false;
        for task in self.tasks.try_iter() {
            is_closed |= matches!(task, Task::Closed);
            self.housekeeper.perform(task);
        }
        is_closed
    }

    /// Compresses closed volumes, deletes archives, and ends the present archive if it has reached
    /// its limit.
    fn keep_house(&mut self, limits: RecorderLimits, needed: u64, shared: &SharedStatus) {
        self.housekeeper.perform(Task::Change(limits.rules(needed)));
        let current = self.housekeeper.work(&self.tasks);
        // No user is charged for them.
        drop((shared.take_compressed(), shared.take_charges()));
        self.counted = shared.bytes();
        if current >= limits.bytes / u64::from(ARCHIVES) {
            self.archiver.obey(&Order::NewArchive);
        }
    }
}

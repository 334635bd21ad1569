//! The archive writer thread: from samples to archives.
//!
//! In come samples and [`Order`]s from the [queue](super::queue); out go archives, and
//! the word to the housekeeping thread when a volume is closed.
//!
//! Invariant: no error of the disk ends the agent. An archive that cannot be
//! written to keeps its complete records; later samples are lost and counted, and a mark
//! and an event record that before the first record that is written again. Events
//! wait until they can be written.

mod open_archive;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam::channel::Sender;
use pcp_archive::{ArchiveWriter, Error, Version, WriterLabel, WriterOptions};
use pcp_types::Timestamp;
use tracing::{debug, error, info};

use super::{ArchiveNames, Sample, prologue};
use crate::config::{Destination, Rotation, Settings, SyncPolicy};
use crate::error::Error as LockError;
use crate::host::Host;
use crate::housekeeping::{Store, Task};
use crate::lock::Lock;
use crate::metadata::needs_new_archive;
use crate::telemetry::{Event, EventKind, Events, SharedStatus, micros};
use open_archive::OpenArchive;

/// An archive is at most the retained bytes divided by this: only whole
/// archives can be deleted.
const ARCHIVES_RETAINED: u64 = 4;

/// But at least this large, however little is retained: each archive has its own
/// metadata.
const LEAST_ARCHIVE: u64 = 8192;

/// How often the files of the archive are compared with what their names lead to.
const WATCH: Duration = Duration::from_secs(5);

/// Why an archive ends if a PMID is about to stand for another metric.
const OTHER_MEANING: &str = "a metric changed its meaning";

/// An order to the writer, carried out after all samples before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Order {
    /// Sync records to disk.
    Sync,
    /// Begin a new data volume.
    NewVolume,
    /// Begin a new archive.
    NewArchive,
    /// Follow another policy.
    Change(Policy),
}

/// When archives and volumes end, and when records are synced to disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Policy {
    /// When data volumes end, and whether archives do at midnight.
    pub rotation: Rotation,
    /// Bytes after which an archive ends.
    pub archive_size: Option<u64>,
    /// Time after which an archive ends.
    pub archive_time: Option<Duration>,
    /// When records are synced to disk.
    pub sync: SyncPolicy,
    /// The version of new archives.
    pub version: Version,
    /// Whether lost records are reported as an event.
    pub log_events: bool,
    /// Whether it is logged, not only for debugging, that archives begin and end.
    pub log_archives: bool,
}

impl Policy {
    /// The policy of some settings. An archive that the user has named has no
    /// successor because of its size or the day.
    pub(crate) fn of(settings: &Settings) -> Self {
        let Settings { fixed, reloadable, .. } = settings;
        let retained = reloadable.retention.size;
        let mut policy = Self {
            rotation: reloadable.rotation,
            archive_size: retained.map(|size| (size / ARCHIVES_RETAINED).max(LEAST_ARCHIVE)),
            archive_time: None,
            sync: reloadable.sync,
            version: fixed.archive_version,
            log_events: fixed.events,
            log_archives: true,
        };
        if let Destination::Base(_) = fixed.destination {
            policy.rotation.daily = false;
            policy.archive_size = None;
        }
        policy
    }
}

/// What the writer shares with other threads.
#[derive(Debug)]
pub(crate) struct ArchiverLinks {
    /// The server of prologues.
    pub store: Arc<Store>,
    /// What it reports.
    pub shared: Arc<SharedStatus>,
    /// Where closed volumes are announced.
    pub housekeeper: Sender<Task>,
    /// The lock of the host's directory; `None` if the user has named the archive.
    pub lock: Option<Arc<Lock>>,
}

/// What a run has written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ArchiverReport {
    /// Records written.
    pub written: u64,
    /// Records that could not be written.
    pub lost: u64,
    /// Why the last of them was lost.
    pub error: Option<String>,
    /// How often records were synced to disk, without the ends of archives.
    pub synced: u64,
    /// The base names of the archives, in order.
    pub archives: Vec<PathBuf>,
}

/// Records that are being lost.
#[derive(Debug)]
struct Loss {
    records: u64,
    reason: String,
    /// Those that no event has reported yet: since when, and how many.
    unreported: Option<(Timestamp, u64)>,
}

impl Loss {
    fn new(reason: String) -> Self {
        Self { records: 0, reason, unreported: None }
    }

    fn add(&mut self, since: Timestamp, records: u64) {
        self.records += records;
        self.unreported.get_or_insert((since, 0)).1 += records;
    }
}

/// The archives of one run.
#[derive(Debug)]
pub(crate) struct Archiver {
    names: ArchiveNames,
    label: WriterLabel,
    policy: Policy,
    links: ArchiverLinks,
    current: Option<OpenArchive>,
    /// How often the directory was locked again.
    lock_generation: u64,
    /// The directory may have archives that this run has not written.
    is_new_directory: bool,
    mark_due: bool,
    /// A file was replaced while no agent ran, and no prologue shows that yet.
    unobserved: bool,
    /// Records lost since writing began to fail.
    failing: Option<Loss>,
    /// Events that are not written yet.
    events: Events,
    report: ArchiverReport,
}

impl Archiver {
    /// Archives named by `names`, labelled with this process and `host`.
    pub(crate) fn new(
        names: ArchiveNames,
        host: &Host,
        policy: Policy,
        links: ArchiverLinks,
    ) -> Self {
        let names = names.after(links.store.newest_archive().as_deref());
        let label = WriterLabel {
            pid: std::process::id().cast_signed(),
            hostname: host.name.as_str().into(),
            timezone: host.timezone.as_str().into(),
            zoneinfo: host.zoneinfo.as_str().into(),
        };
        Self {
            names,
            label,
            policy,
            links,
            current: None,
            lock_generation: 0,
            is_new_directory: true,
            mark_due: false,
            unobserved: false,
            failing: None,
            events: Events::default(),
            report: ArchiverReport::default(),
        }
    }

    /// Writes a sample, or counts it as lost.
    pub(crate) fn write(&mut self, sample: &Sample) {
        self.watch(sample.timestamp, WATCH);
        self.mark_due |= sample.mark;
        self.unobserved |= sample.unobserved;
        self.events.add(&sample.events);
        let records = sample.records.len() as u64;
        let shared = Arc::clone(&self.links.shared);
        let mut failure = None;
        let written = match self.confirm_directory(sample.timestamp) {
            Ok(()) => self.try_write(sample).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        self.charge();
        match written {
            Ok(()) => {
                self.count_written(sample.timestamp, records);
                self.charge_changes(sample);
                self.sync_if_due(sample.timestamp);
                if let Some(loss) = self.failing.take() {
                    info!(lost = loss.records, "writing again");
                }
                self.report.written += records;
                shared.own().written.add(records);
            }
            Err(reason) => {
                if self.failing.is_none() {
                    error!(error = reason, "cannot write; sampling continues");
                    shared.note_error(reason.clone());
                }
                failure = Some(reason.clone());
                self.report.error = Some(reason.clone());
                let loss = self.failing.get_or_insert_with(|| Loss::new(reason));
                loss.add(sample.timestamp, records);
                self.mark_due = true;
                self.report.lost += records;
                shared.own().lost.add(records);
            }
        }
        shared.set_written(self.report.written, self.report.lost, failure.as_deref());
    }

    /// Carries out an order.
    pub(crate) fn obey(&mut self, order: &Order) {
        match order {
            Order::Sync => self.sync(),
            Order::NewVolume => {
                if let Some(current) = &mut self.current {
                    current.writer.switch_volume();
                }
            }
            // A writer keeps the size of volumes that it was created with.
            Order::Change(policy) => self.policy = *policy,
            Order::NewArchive => self.close("on request"),
        }
    }

    /// Completes the last archive.
    pub(crate) fn finish(mut self) -> ArchiverReport {
        self.close_archive();
        self.links.shared.end();
        self.report
    }

    /// What was written so far.
    #[cfg(test)]
    pub(crate) fn report(&self) -> &ArchiverReport {
        &self.report
    }

    fn sync(&mut self) {
        let Some(current) = &mut self.current else { return };
        let archive = current.base.display();
        let begun = Instant::now();
        let synced = current.writer.sync();
        self.links.shared.own().sync.record(micros(begun.elapsed()));
        match &synced {
            Ok(()) if current.sync_failed => info!(%archive, "synced to disk again"),
            Err(error) if !current.sync_failed => {
                error!(%archive, %error, "cannot be synced to disk");
                self.links.shared.note_error(error.to_string());
            }
            _ => {}
        }
        current.sync_failed = synced.is_err();
        self.report.synced += 1;
    }

    fn sync_if_due(&mut self, now: Timestamp) {
        let Some(current) = &mut self.current else { return };
        let due = match self.policy.sync {
            SyncPolicy::Never => false,
            SyncPolicy::Always => true,
            SyncPolicy::Every(interval) => now >= current.synced.saturating_add(interval),
        };
        if due {
            current.synced = now;
            self.sync();
        }
    }

    /// Ends the archive, or its volume, if the policy requires it.
    fn rotate(&mut self, now: Timestamp) {
        let Some(current) = &mut self.current else { return };
        let day = |time: Timestamp| time.seconds().div_euclid(86_400);
        let bytes = current.writer.bytes();
        if self.policy.rotation.daily && day(now) != day(current.start) {
            self.close("a new day");
        } else if self.policy.archive_size.is_some_and(|size| bytes >= size) {
            self.close("it has a quarter of the retained size");
        } else if let Some(time) = self.policy.archive_time
            && now >= current.start.saturating_add(time)
        {
            self.close("it spans enough time");
        } else if current.writer.metadata_bytes() > current.metadata_limit() {
            self.close("it has much more metadata than at first");
        } else if let Some(time) = self.policy.rotation.volume_time
            && now >= current.volume_start.saturating_add(time)
        {
            current.writer.switch_volume();
            current.volume_start = now;
        }
    }

    /// Reports how much was written, and a volume that was closed.
    fn count_written(&mut self, now: Timestamp, records: u64) {
        let Some(current) = &mut self.current else { return };
        current.count(now, records);
        let bytes = current.writer.bytes();
        self.links.shared.add_bytes(bytes.saturating_sub(current.counted_bytes));
        current.counted_bytes = bytes;
        let volume = current.writer.volume();
        if volume != current.volume {
            current.volume = volume;
            current.volume_start = now;
            self.links.shared.set_writing(Some((current.base.clone(), volume)));
            let _ = self.links.housekeeper.send(Task::Closed);
        }
    }

    /// Reports for which users metadata was written.
    fn charge(&mut self) {
        if let Some(current) = &mut self.current {
            self.links.shared.add_charges(current.writer.take_charges());
        }
    }

    /// Charges users for values that were written because they had changed. The sampler charges
    /// for those of every tick.
    fn charge_changes(&self, sample: &Sample) {
        let Sample { changes, catalog, .. } = sample;
        if changes.after.is_empty() {
            return;
        }
        self.links.shared.add_charges(changes.bytes(&catalog.payers));
    }

    /// Ends an archive of which another program has changed a file, if that was last looked
    /// for `pause` ago, and counts the records that are lost with the file.
    fn watch(&mut self, now: Timestamp, pause: Duration) {
        let Some(current) = self.current.as_mut().filter(|one| one.checked.elapsed() >= pause)
        else {
            return;
        };
        current.checked = Instant::now();
        let Err(error) = current.writer.check_files() else { return };
        let Error::Disturbed { file, .. } = &error else {
            // It may be over at the next look.
            return self.links.shared.note_error(error.to_string());
        };
        let (records, since) = current.lost_with(file);
        let base = current.base.clone();
        let reason = error.to_string();
        if records > 0 {
            self.report.error = Some(reason.clone());
        }
        error!(archive = %base.display(), lost = records, %error, "a new archive begins");
        self.links.shared.note_error(reason.clone());
        self.report.lost += records;
        self.links.shared.own().lost.add(records);
        if records > 0 {
            self.mark_due = true;
            let loss = self.failing.get_or_insert_with(|| Loss::new(reason));
            loss.add(since.unwrap_or(now), records);
        }
        // Not completed: an index entry may lead beyond what is left of the files.
        self.current = None;
        self.links.shared.set_writing(None);
        let _ = self.links.housekeeper.send(Task::Repair(base));
    }

    /// Makes sure that no other agent has the directory of archives, which may have been renamed
    /// or replaced since the last sample. The archive that is being written is elsewhere then.
    fn confirm_directory(&mut self, now: Timestamp) -> Result<(), LockError> {
        let Some(lock) = &self.links.lock else { return Ok(()) };
        let confirmed = lock.confirm();
        if confirmed.as_ref().is_ok_and(|generation| *generation == self.lock_generation) {
            return Ok(());
        }
        self.watch(now, Duration::ZERO);
        self.lock_generation = confirmed?;
        self.is_new_directory = true;
        Ok(())
    }

    fn try_write(&mut self, sample: &Sample) -> Result<(), Error> {
        let last = self.current.as_ref().and_then(|current| current.writer.last_timestamp());
        if last.is_some_and(|last| sample.timestamp < last) {
            self.close("the clock was set back");
            self.names.step();
        }
        self.rotate(sample.timestamp);
        if let Some(current) = &self.current {
            if current.declared.renames(&sample.catalog) {
                self.close(OTHER_MEANING);
            } else if current.declared.relabels(&sample.catalog) {
                self.close("the labels of the host changed");
            }
        }
        match self.append(sample) {
            Err(error) if needs_new_archive(&error) => {
                self.close(OTHER_MEANING);
                self.append(sample)
            }
            Err(Error::Disturbed { .. }) => {
                self.watch(sample.timestamp, Duration::ZERO);
                self.append(sample)
            }
            // The volume did not help: the limit is on the metadata or the index.
            Err(Error::Io { source, .. })
                if source.kind() == io::ErrorKind::FileTooLarge && self.has_records() =>
            {
                self.close("a file has the largest size that the system allows");
                self.append(sample)
            }
            result => result,
        }
    }

    fn has_records(&self) -> bool {
        self.current.as_ref().is_some_and(|current| current.writer.last_timestamp().is_some())
    }

    fn append(&mut self, sample: &Sample) -> Result<(), Error> {
        if self.current.is_none() {
            self.current = Some(self.create(sample.timestamp)?);
        }
        self.begin(sample)?;
        let Some(current) = &mut self.current else { return Ok(()) };
        if self.mark_due {
            current.write_mark(sample.timestamp)?;
        }
        self.mark_due = false;
        let mut events = self.events.clone();
        let loss = self.failing.as_ref().filter(|_| self.policy.log_events);
        if let Some((loss, (since, records))) = loss.and_then(|loss| Some((loss, loss.unreported?)))
        {
            events.push(Event {
                records: Some(records),
                since: Some(since),
                reason: Some(loss.reason.clone()),
                ..Event::new(EventKind::Lost, sample.timestamp)
            });
        }
        let mut reported = false;
        let written = current.write_sample(sample, &events, &mut reported);
        // Events may fit where the values after them do not: they are not written again,
        // unless their volume is another program's now.
        if reported && !matches!(written, Err(Error::Disturbed { .. })) {
            self.events = Events::default();
            if let Some(loss) = &mut self.failing {
                loss.unreported = None;
            }
        }
        written
    }

    /// Writes the prologue of an archive without records, after all metadata: pmproxy
    /// learns none later than the first record. Within an archive a mark separates what is
    /// before a loss from what is after it; between archives another sequence number does.
    fn begin(&mut self, sample: &Sample) -> Result<(), Error> {
        let Some(current) = &mut self.current else { return Ok(()) };
        if current.writer.last_timestamp().is_some() {
            return Ok(());
        }
        current.declared.declare(&sample.catalog, &mut current.writer)?;
        let lost = self.mark_due && !self.report.archives.is_empty();
        if lost || self.unobserved {
            self.links.store.count_loss();
            self.mark_due = false;
            self.unobserved = false;
        }
        let server = self.links.store.server();
        prologue::write(&mut current.writer, &current.base, &self.label, server, sample.timestamp)?;
        let archive = current.base.display();
        if self.policy.log_archives {
            info!(%archive, "writing");
        } else {
            debug!(%archive, "writing");
        }
        self.names.note(&current.base);
        self.links.store.name_archive(self.names.newest());
        self.report.archives.push(current.base.clone());
        self.is_new_directory = false;
        Ok(())
    }

    /// A new archive. Archives of one directory must not overlap: if the newest
    /// one there ends after `start`, the clock was set back while no agent ran.
    fn create(&mut self, start: Timestamp) -> Result<OpenArchive, Error> {
        let overlaps = self.is_new_directory && self.names.newest_end() > Some(start);
        if overlaps || self.names.is_before_newest(start) {
            info!("the newest archive ends in the future: a new directory begins");
            self.names.step();
        }
        let base = self.names.next(start).map_err(|source| Error::Io {
            file: self.names.directory(),
            operation: "create",
            source,
        })?;
        let volume_bytes = Some(self.policy.rotation.volume_size);
        let version = self.policy.version;
        let options = WriterOptions { volume_bytes, version, ..WriterOptions::default() };
        let writer = ArchiveWriter::create(&base, self.label.clone(), options)?;
        self.links.shared.set_writing(Some((base.clone(), 0)));
        Ok(OpenArchive::new(base, writer, start))
    }

    /// Ends the archive, if there is one, and logs why.
    fn close(&mut self, reason: &str) {
        if let Some(current) = self.current.as_ref().filter(|_| self.has_records()) {
            let archive = current.base.display();
            if self.policy.log_archives {
                info!(%archive, reason, "closed");
            } else {
                debug!(%archive, reason, "closed");
            }
        }
        self.close_archive();
    }

    fn close_archive(&mut self) {
        self.charge();
        let has_records = self.has_records();
        let Some(mut current) = self.current.take() else { return };
        // Without a record there are no files.
        if has_records {
            let completed = current.writer.sync().and_then(|()| current.writer.finish());
            if let Err(error) = completed.and_then(|_| sync_index(&current.base)) {
                error!(archive = %current.base.display(), %error, "cannot be completed");
                self.links.shared.note_error(error.to_string());
            }
        }
        self.links.shared.set_writing(None);
        let _ = self.links.housekeeper.send(Task::Closed);
    }
}

/// Brings the last entry of an index to disk: after a power failure there may be zeros in
/// its place. Of the other files nothing was written after their sync.
fn sync_index(base: &Path) -> Result<(), Error> {
    let mut name = base.as_os_str().to_owned();
    name.push(".index");
    let file = PathBuf::from(name);
    let synced = File::open(&file).and_then(|index| index.sync_all());
    synced.map_err(|source| Error::Io { file, operation: "sync", source })
}

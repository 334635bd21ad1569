//! The archive writer thread.
//!
//! Input: samples and [`Order`]s from the [queue](super::queue). Output: archives, and notices to
//! the housekeeping thread when a volume is closed.
//!
//! Invariant: no disk error ends the agent. An archive that cannot be written keeps its complete
//! records; later samples are lost and counted, and a mark and an event precede the first record
//! that is written again. Events wait until they can be written.

mod open_archive;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam::channel::Sender;
use pcp_archive::internal::{longest_gap, take_charges};
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

/// Divisor of the retained bytes that gives the limit on an archive, since only whole archives can
/// be deleted.
const ARCHIVES_RETAINED: u64 = 4;

/// Minimum for that limit, since each archive has its own metadata.
const MIN_ARCHIVE: u64 = 8192;

/// Interval at which the files of the archive are compared with what their names refer to.
const FILE_CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Reason for ending an archive when a PMID is about to stand for another metric.
const OTHER_MEANING: &str = "a metric changed its meaning";

/// An order to the writer, carried out after all samples before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Order {
    Sync,
    NewVolume,
    NewArchive,
    Change(Policy),
}

/// Rules for the end of archives and volumes, and for syncs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Policy {
    /// End of data volumes, and end of archives at midnight.
    pub rotation: Rotation,
    /// Bytes after which an archive ends.
    pub archive_size: Option<u64>,
    /// Time after which an archive ends.
    pub archive_time: Option<Duration>,
    pub sync: SyncPolicy,
    /// Longest time between two records of one archive, and of two archives that are joined.
    pub longest_gap: Duration,
    /// Version of new archives.
    pub version: Version,
    /// True if lost records are reported as an event.
    pub log_events: bool,
    /// True if begin and end of archives are logged at level info rather than debug.
    pub log_archives: bool,
}

impl Policy {
    /// Returns the policy of some settings. An archive named by the user is not ended for its size
    /// or the day.
    pub(crate) fn new(settings: &Settings) -> Self {
        let Settings { fixed, reloadable, .. } = settings;
        let retained = reloadable.retention.size;
        let mut policy = Self {
            rotation: reloadable.rotation,
            archive_size: retained.map(|size| (size / ARCHIVES_RETAINED).max(MIN_ARCHIVE)),
            archive_time: None,
            sync: reloadable.sync,
            longest_gap: longest_gap(reloadable.shortest_interval()),
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

/// State and channels shared with other threads.
#[derive(Debug)]
pub(crate) struct ArchiverLinks {
    /// State with the identity for prologues.
    pub store: Arc<Store>,
    pub shared: Arc<SharedStatus>,
    /// Gets a notice of each closed volume.
    pub housekeeper: Sender<Task>,
    /// Lock of the host's directory; `None` if the user has named the archive.
    pub lock: Option<Arc<Lock>>,
}

/// Totals of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ArchiverReport {
    /// Number of records written.
    pub written: u64,
    /// Number of records that could not be written.
    pub lost: u64,
    /// Error of the last loss.
    pub error: Option<String>,
    /// Number of syncs, not counting those at the end of archives.
    pub synced: u64,
    /// Base names of the archives, in order.
    pub archives: Vec<PathBuf>,
}

/// A period in which records are lost.
#[derive(Debug)]
struct Loss {
    records: u64,
    reason: String,
    /// Beginning and number of losses that no event has reported yet.
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

#[derive(Debug)]
pub(crate) struct Archiver {
    names: ArchiveNames,
    label: WriterLabel,
    policy: Policy,
    links: ArchiverLinks,
    current: Option<OpenArchive>,
    /// Number of times that the directory was locked again.
    lock_generation: u64,
    /// Set if the directory may have archives that this run has not written.
    is_new_directory: bool,
    mark_due: bool,
    /// The end of the newest archive of an earlier agent, until the first record of this one.
    earlier_end: Option<Timestamp>,
    /// Set if a file was replaced while no agent ran, or an instance as an archive ended, and no
    /// prologue shows that yet.
    unobserved: bool,
    /// Records lost since writing began to fail.
    failing: Option<Loss>,
    /// Events that are not written yet.
    events: Events,
    report: ArchiverReport,
}

impl Archiver {
    /// Creates the writer of archives named by `names` and labelled with this process, its time
    /// zone and `host`.
    pub(crate) fn new(
        names: ArchiveNames,
        host: &Host,
        policy: Policy,
        links: ArchiverLinks,
    ) -> Self {
        let names = names.after(links.store.newest_archive().as_deref());
        let label = WriterLabel { hostname: host.name.as_str().into(), ..WriterLabel::local() };
        Self {
            names,
            label,
            policy,
            links,
            current: None,
            lock_generation: 0,
            is_new_directory: true,
            mark_due: false,
            earlier_end: None,
            unobserved: false,
            failing: None,
            events: Events::default(),
            report: ArchiverReport::default(),
        }
    }

    /// Writes a sample, or counts it as lost.
    pub(crate) fn write(&mut self, sample: &Sample) {
        self.watch(sample.timestamp, FILE_CHECK_INTERVAL);
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
                    info!(lost = loss.records, "writing the archive again");
                }
                self.report.written += records;
                shared.own().written.add(records);
            }
            Err(reason) => {
                if self.failing.is_none() {
                    error!(error = reason, "cannot write the archive; sampling continues");
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

    pub(crate) fn obey(&mut self, order: &Order) {
        match order {
            Order::Sync => self.sync(),
            Order::NewVolume => {
                if let Some(current) = &mut self.current {
                    current.writer.switch_volume();
                }
            }
            // The present archive keeps the volume size that it was created with.
            Order::Change(policy) => self.policy = *policy,
            Order::NewArchive => self.close("on request"),
        }
    }

    pub(crate) fn finish(mut self) -> ArchiverReport {
        self.close_archive();
        self.links.shared.end();
        self.report
    }

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

    /// Ends the archive or its volume if the policy requires it.
    fn rotate(&mut self, now: Timestamp) {
        let Some(current) = &mut self.current else { return };
        let today = now.seconds().div_euclid(86_400);
        let is_new_day = today != current.start.seconds().div_euclid(86_400);
        let bytes = current.writer.bytes();
        if self.policy.rotation.daily && is_new_day {
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

    /// Reports the bytes written, and a closed volume.
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

    /// Reports the users for whom metadata was written.
    fn charge(&mut self) {
        if let Some(current) = &mut self.current {
            self.links.shared.add_charges(take_charges(&mut current.writer));
        }
    }

    /// Charges users for values that were written because they had changed. The sampler charges
    /// for the values of every tick.
    fn charge_changes(&self, sample: &Sample) {
        let Sample { changes, catalog, .. } = sample;
        if changes.after.is_empty() {
            return;
        }
        self.links.shared.add_charges(changes.bytes(&catalog.payers));
    }

    /// Ends the archive if another program has changed one of its files, and counts the records
    /// that are lost with the file. Does nothing if the files were checked less than `pause` ago.
    fn watch(&mut self, now: Timestamp, pause: Duration) {
        let Some(current) = self.current.as_mut().filter(|one| one.checked.elapsed() >= pause)
        else {
            return;
        };
        current.checked = Instant::now();
        let Err(error) = current.writer.check_files() else { return };
        let Error::Disturbed { file, .. } = &error else {
            // The error may be gone at the next check.
            return self.links.shared.note_error(error.to_string());
        };
        let (records, since) = current.lost_with(file);
        let base = current.base.clone();
        let reason = error.to_string();
        if records > 0 {
            self.report.error = Some(reason.clone());
        }
        error!(
            archive = %base.display(), lost = records, %error,
            "another program changed the archive; logging continues in a new one"
        );
        self.links.shared.note_error(reason.clone());
        self.report.lost += records;
        self.links.shared.own().lost.add(records);
        if records > 0 {
            self.mark_due = true;
            let loss = self.failing.get_or_insert_with(|| Loss::new(reason));
            loss.add(since.unwrap_or(now), records);
        }
        // Not completed, since an index entry may refer to bytes that are gone.
        self.current = None;
        self.links.shared.set_writing(None);
        let _ = self.links.housekeeper.send(Task::Repair(base));
    }

    /// Makes sure that no other agent has the archive directory, which may have been renamed or
    /// replaced since the last sample. The present archive is elsewhere then.
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
        let current = self.current.as_ref();
        let is_replaced = current.is_some_and(|current| current.is_replaced_in_part(sample));
        self.rotate(sample.timestamp);
        if let Some(current) = &self.current {
            if current.declared.renames(&sample.catalog) {
                self.close(OTHER_MEANING);
            } else if current.declared.relabels(&sample.catalog) {
                self.close("the labels of the host changed");
            }
        }
        self.unobserved |= is_replaced && self.current.is_none();
        match self.append(sample) {
            Err(error) if needs_new_archive(&error) => {
                self.close(OTHER_MEANING);
                self.unobserved |= is_replaced;
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
        // The events may be written although the values after them were not. They are not written
        // again, unless another program has their volume now.
        if reported && !matches!(written, Err(Error::Disturbed { .. })) {
            self.events = Events::default();
            if let Some(loss) = &mut self.failing {
                loss.unreported = None;
            }
        }
        written
    }

    /// Writes the prologue of an archive without records, after all metadata: pmproxy reads none
    /// later than the first record. Within an archive a mark separates what precedes a loss from
    /// what follows it; between archives another sequence number does, also after a time without an
    /// agent, and where an instance was created again: an archive cannot declare a removal after its
    /// last record.
    fn begin(&mut self, sample: &Sample) -> Result<(), Error> {
        let Some(current) = &mut self.current else { return Ok(()) };
        if current.writer.last_timestamp().is_some() {
            return Ok(());
        }
        current.declared.declare(&sample.catalog, &mut current.writer)?;
        let lost = self.mark_due && !self.report.archives.is_empty();
        let longest_gap = self.policy.longest_gap;
        let was_away = self
            .earlier_end
            .take()
            .is_some_and(|end| sample.timestamp > end.saturating_add(longest_gap));
        if lost || was_away || self.unobserved {
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

    /// Creates an archive. Archives of one directory must not overlap: if the newest one ends
    /// after `start`, the clock was set back while no agent ran.
    fn create(&mut self, start: Timestamp) -> Result<OpenArchive, Error> {
        if self.is_new_directory {
            self.earlier_end = self.names.newest_end();
        }
        let overlaps = self.earlier_end > Some(start);
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
        let writer = ArchiveWriter::create_with(&base, self.label.clone(), options)?;
        self.links.shared.set_writing(Some((base.clone(), 0)));
        Ok(OpenArchive::new(base, writer, start))
    }

    /// Ends the archive, if there is one, and logs the reason.
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
                let archive = current.base.display();
                error!(%archive, %error, "cannot complete the archive; the next start repairs it");
                self.links.shared.note_error(error.to_string());
            }
        }
        self.links.shared.set_writing(None);
        let _ = self.links.housekeeper.send(Task::Closed);
    }
}

/// Syncs the last entry of an index, in whose place there could be zeros after a power failure.
/// Nothing was written to the other files after their sync.
fn sync_index(base: &Path) -> Result<(), Error> {
    let mut name = base.as_os_str().to_owned();
    name.push(".index");
    let file = PathBuf::from(name);
    let synced = File::open(&file).and_then(|index| index.sync_all());
    synced.map_err(|source| Error::Io { file, operation: "sync", source })
}

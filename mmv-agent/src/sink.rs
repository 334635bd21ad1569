//! From samples to archives: the writer thread's work.
//!
//! Nothing that the disk does ends the agent. An archive that cannot be
//! written to keeps its whole records; what comes meanwhile is lost and
//! counted, and a mark and an event say so before the first record that is
//! written again. Events that could not be written wait for that.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use crossbeam::channel::Sender;
use mmv_archive::{
    ArchiveWriter, Error, FetchResult, ValueSet, Version, WriterLabel, WriterOptions,
};
use pcp_types::Timestamp;
use tracing::{error, info, warn};

use crate::archive_name::ArchiveNames;
use crate::config::{Destination, Rotation, Settings, SyncPolicy};
use crate::declared::{Declared, is_other_meaning};
use crate::events::{Events, Happening, Kind};
use crate::host::Host;
use crate::keeper::Note;
use crate::ledger::Ledger;
use crate::prologue;
use crate::queue::{Order, Sample};
use crate::spread::micros;
use crate::state::Store;

/// An archive is at most the retained bytes divided by this: only whole
/// archives can be deleted.
const ARCHIVES_RETAINED: u64 = 4;

/// And at least this, however little is retained: each archive has its own
/// metadata.
const LEAST_ARCHIVE: u64 = 8192;

/// When archives and volumes end, and when records are brought to disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Policy {
    rotation: Rotation,
    archive_size: Option<u64>,
    sync: SyncPolicy,
    version: Version,
    /// What happened is logged.
    events: bool,
}

impl Policy {
    /// That of some settings. An archive that the user has named is not
    /// followed by others because of its size or the day.
    pub(crate) fn of(settings: &Settings) -> Self {
        let mut policy = Self {
            rotation: settings.rotation,
            archive_size: settings
                .retention
                .size
                .map(|size| (size / ARCHIVES_RETAINED).max(LEAST_ARCHIVE)),
            sync: settings.sync,
            version: settings.archive_version,
            events: settings.events,
        };
        if let Destination::Base(_) = settings.destination {
            policy.rotation.daily = false;
            policy.archive_size = None;
        }
        policy
    }
}

/// Whom the sink tells what.
#[derive(Debug)]
pub(crate) struct Links {
    /// Where prologues come from.
    pub store: Arc<Store>,
    /// Where it says what it writes.
    pub ledger: Arc<Ledger>,
    /// Who looks after what is closed.
    pub keeper: Sender<Note>,
}

/// How long after the last record a mark is stamped, by PCP's custom.
const MARK_AFTER_NANOS: i128 = 1_000_000;

/// What became of the samples.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SinkReport {
    /// Records written.
    pub written: u64,
    /// Records that could not be written.
    pub lost: u64,
    /// How often records were brought to disk, but for the ends of archives.
    pub synced: u64,
    /// The base names of the archives, in order.
    pub archives: Vec<PathBuf>,
}

#[derive(Debug)]
struct Current {
    base: PathBuf,
    writer: ArchiveWriter,
    start: Timestamp,
    volume: u32,
    volume_start: Timestamp,
    /// When records were last brought to disk.
    synced: Timestamp,
    /// Bringing records to disk has failed, and that was said.
    unsynced: bool,
    /// What it was told of metrics.
    declared: Declared,
    /// Whether the last thing written is a mark: one gap has one mark, however
    /// often writing failed in it.
    ends_in_mark: bool,
    /// Whether all that is logged seldom has been written since the start, or
    /// since the last mark.
    stands: bool,
    /// How many events the last array of them has.
    told: usize,
    /// Bytes that were counted as written.
    bytes: u64,
}

impl Current {
    /// Writes values as a record of their own, if there are any.
    fn write(&mut self, timestamp: Timestamp, value_sets: &[ValueSet]) -> Result<(), Error> {
        if value_sets.is_empty() {
            return Ok(());
        }
        let value_sets = value_sets.to_vec();
        self.writer.write_result(&FetchResult { timestamp, value_sets })?;
        self.ends_in_mark = false;
        Ok(())
    }

    /// Writes what values were just before `stamp`, by the least time that the
    /// archive can tell apart, unless a record has that time already. Nothing new is declared for it, so that a reader is
    /// told of changes when they happened.
    fn write_before(&mut self, stamp: Timestamp, value_sets: &[ValueSet]) -> Result<(), Error> {
        let least = match self.writer.version() {
            Version::V2 => 1_000,
            Version::V3 => 1,
        };
        let before = Timestamp::from_nanos(stamp.as_nanos() - least);
        let known = value_sets.iter().all(|set| self.declared.knows(set.pmid));
        if known && self.writer.last_stamp() < Some(before) {
            self.write(before, value_sets)?;
        }
        Ok(())
    }

    /// Writes what happened; with the first sample after that an array without
    /// events, so that no reader takes them for later ones.
    fn write_events(&mut self, stamp: Timestamp, events: &Events) -> Result<(), Error> {
        if events.is_empty() && self.told == 0 {
            return Ok(());
        }
        match events.value_sets(stamp) {
            Ok(sets) => self.write(stamp, &sets)?,
            Err(error) => warn!(%error, "what happened cannot be logged"),
        }
        self.told = events.told.len() + usize::from(events.missed > 0);
        Ok(())
    }
}

/// Records that are being lost.
#[derive(Debug)]
struct Loss {
    since: Timestamp,
    records: u64,
    reason: String,
}

/// The archives of one run.
#[derive(Debug)]
pub(crate) struct Sink {
    names: ArchiveNames,
    label: WriterLabel,
    policy: Policy,
    links: Links,
    current: Option<Current>,
    mark_due: bool,
    /// A file was replaced while no agent ran, which prologues do not tell yet.
    unobserved: bool,
    /// Records lost since writing began to fail.
    failing: Option<Loss>,
    /// What happened and is not written yet.
    events: Events,
    report: SinkReport,
}

impl Sink {
    /// Archives named by `names`, labelled with this process and `host`.
    pub(crate) fn new(names: ArchiveNames, host: &Host, policy: Policy, links: Links) -> Self {
        let label = WriterLabel {
            pid: std::process::id().cast_signed(),
            hostname: host.name.clone(),
            timezone: host.timezone.clone(),
            zoneinfo: host.zoneinfo.clone(),
        };
        Self {
            names,
            label,
            policy,
            links,
            current: None,
            mark_due: false,
            unobserved: false,
            failing: None,
            events: Events::default(),
            report: SinkReport::default(),
        }
    }

    /// Writes a sample, or counts it as lost.
    pub(crate) fn write(&mut self, sample: &Sample) {
        self.mark_due |= sample.mark;
        self.unobserved |= sample.unobserved;
        self.events.add(&sample.events);
        let records = sample.records.len() as u64;
        let ledger = Arc::clone(&self.links.ledger);
        let mut failure = None;
        match self.try_write(sample) {
            Ok(()) => {
                self.note_volume(sample.stamp);
                self.sync_if_due(sample.stamp);
                if let Some(loss) = self.failing.take() {
                    info!(lost = loss.records, "writing again");
                }
                self.report.written += records;
                ledger.own().written.add(records);
            }
            Err(error) => {
                let reason = error.to_string();
                if self.failing.is_none() {
                    error!(%error, "cannot write; sampling goes on");
                    ledger.note_error(reason.clone());
                }
                failure = Some(reason.clone());
                let new = || Loss { since: sample.stamp, records: 0, reason };
                self.failing.get_or_insert_with(new).records += records;
                self.mark_due = true;
                self.report.lost += records;
                ledger.own().lost.add(records);
            }
        }
        let SinkReport { written, lost, .. } = self.report;
        self.links.ledger.set_written(written, lost, failure.as_deref());
    }

    /// Does something else than writing.
    pub(crate) fn obey(&mut self, order: &Order) {
        match order {
            Order::Sync => self.sync(),
            Order::NewVolume => {
                if let Some(current) = &mut self.current {
                    current.writer.switch_volume();
                }
            }
            Order::Change(policy) => {
                // A writer keeps the size of volumes that it was given.
                self.policy = *policy;
            }
            Order::NewArchive => {
                if self.current.is_some() {
                    info!("told so: a new archive begins");
                }
                self.close();
            }
        }
    }

    fn sync(&mut self) {
        let Some(current) = &mut self.current else { return };
        let archive = current.base.display();
        let begun = Instant::now();
        let synced = current.writer.sync();
        self.links.ledger.own().sync.record(micros(begun.elapsed()));
        match &synced {
            Ok(()) if current.unsynced => info!(%archive, "is on disk again"),
            Err(error) if !current.unsynced => {
                error!(%archive, %error, "cannot be synced");
                self.links.ledger.note_error(error.to_string());
            }
            _ => {}
        }
        current.unsynced = synced.is_err();
        self.report.synced += 1;
    }

    /// Brings records to disk when the policy says so.
    fn sync_if_due(&mut self, stamp: Timestamp) {
        let Some(current) = &mut self.current else { return };
        let due = match self.policy.sync {
            SyncPolicy::Never => false,
            SyncPolicy::Always => true,
            SyncPolicy::Every(time) => stamp >= current.synced.saturating_add(time),
        };
        if due {
            current.synced = stamp;
            self.sync();
        }
    }

    /// Ends the archive, or its volume, if it is time.
    fn rotate(&mut self, stamp: Timestamp) {
        let Some(current) = &mut self.current else { return };
        let day = |stamp: Timestamp| stamp.seconds().div_euclid(86_400);
        let bytes = current.writer.bytes();
        if self.policy.rotation.daily && day(stamp) != day(current.start) {
            info!("a new day: a new archive begins");
            self.close();
        } else if self.policy.archive_size.is_some_and(|size| bytes >= size) {
            info!(bytes, "a quarter of what is retained: a new archive begins");
            self.close();
        } else if let Some(time) = self.policy.rotation.volume_time
            && stamp >= current.volume_start.saturating_add(time)
        {
            current.writer.switch_volume();
            current.volume_start = stamp;
        }
    }

    /// Says what is being written.
    fn note_volume(&mut self, stamp: Timestamp) {
        let Some(current) = &mut self.current else { return };
        let bytes = current.writer.bytes();
        self.links.ledger.add_bytes(bytes.saturating_sub(current.bytes));
        current.bytes = bytes;
        let volume = current.writer.volume();
        if volume != current.volume {
            (current.volume, current.volume_start) = (volume, stamp);
            self.links.ledger.set_writing(Some((current.base.clone(), volume)));
            let _ = self.links.keeper.send(Note::Closed);
        }
    }

    /// What has been done so far.
    #[cfg(test)]
    pub(crate) fn report(&self) -> &SinkReport {
        &self.report
    }

    /// Writes the last index entry. All is on its way to the disk afterwards.
    pub(crate) fn finish(mut self) -> SinkReport {
        self.close();
        self.links.ledger.end();
        self.report
    }

    fn try_write(&mut self, sample: &Sample) -> Result<(), Error> {
        let last = self.current.as_ref().and_then(|current| current.writer.last_stamp());
        if last.is_some_and(|last| sample.stamp < last) {
            info!("the clock was set back: a new archive begins");
            self.close();
            self.names.step();
        }
        self.rotate(sample.stamp);
        let renames = |current: &Current| current.declared.renames(&sample.catalog);
        if self.current.as_ref().is_some_and(renames) {
            self.close_for_change();
        }
        let relabels = |current: &Current| current.declared.relabels(&sample.catalog);
        if self.current.as_ref().is_some_and(relabels) {
            info!("the labels of the host changed: a new archive begins");
            self.close();
        }
        match self.try_append(sample) {
            Err(error) if is_other_meaning(&error) => {
                self.close_for_change();
                self.try_append(sample)
            }
            result => result,
        }
    }

    fn try_append(&mut self, sample: &Sample) -> Result<(), Error> {
        let current = match self.current.take() {
            Some(current) => current,
            None => self.create(sample.stamp)?,
        };
        let current = self.current.insert(current);
        if current.writer.last_stamp().is_none() {
            self.begin(sample)?;
        }
        let Some(current) = &mut self.current else { return Ok(()) };
        let last = current.writer.last_stamp();
        if let (true, false, Some(last)) = (self.mark_due, current.ends_in_mark, last)
            && let Some(stamp) = mark_stamp(last, sample.stamp)
        {
            current.writer.write_mark(stamp)?;
            current.ends_in_mark = true;
            current.stands = false;
        }
        self.mark_due = false;
        if current.stands {
            current.write_before(sample.stamp, &sample.changes.before)?;
        }
        current.declared.declare(&sample.catalog, &mut current.writer)?;
        let mut events = self.events.clone();
        if let Some(loss) = self.failing.as_ref().filter(|_| self.policy.events) {
            events.push(Happening {
                records: Some(loss.records),
                since: Some(loss.since),
                reason: Some(loss.reason.clone()),
                ..Happening::new(Kind::Lost, sample.stamp)
            });
        }
        current.write_events(sample.stamp, &events)?;
        self.events = Events::default();
        let seldom = if current.stands { &sample.changes.after } else { &*sample.standing };
        current.write(sample.stamp, seldom)?;
        current.stands = true;
        for record in &sample.records {
            current.writer.write_prepared(record)?;
            current.ends_in_mark = false;
        }
        Ok(())
    }

    /// Writes the prologue, and all metadata before it: a reader that finds a
    /// record in a new archive knows what pmproxy will not learn later. A mark
    /// separates what is before it from what is after in one archive; what was lost
    /// since the archive before shows by another sequence number.
    fn begin(&mut self, sample: &Sample) -> Result<(), Error> {
        let Some(current) = &mut self.current else { return Ok(()) };
        current.declared.declare(&sample.catalog, &mut current.writer)?;
        let lost = self.mark_due && !self.report.archives.is_empty();
        if lost || self.unobserved {
            self.links.store.count_loss();
            (self.mark_due, self.unobserved) = (false, false);
        }
        let server = self.links.store.server();
        prologue::write(&mut current.writer, &current.base, &self.label, server, sample.stamp)?;
        info!(archive = %current.base.display(), "writing");
        self.report.archives.push(current.base.clone());
        Ok(())
    }

    /// A new archive. Archives of one folder must not overlap: if the newest
    /// one there ends after `start`, the clock was set back while no agent ran.
    fn create(&mut self, start: Timestamp) -> Result<Current, Error> {
        if self.report.archives.is_empty() && self.names.newest_end() > Some(start) {
            info!("the newest archive ends in the future: a new folder begins");
            self.names.step();
        }
        let base = self.names.next(start).map_err(|source| Error::Io {
            file: self.names.folder(),
            operation: "create",
            source,
        })?;
        let volume_bytes = Some(self.policy.rotation.volume_size);
        let version = self.policy.version;
        let options = WriterOptions { volume_bytes, version, ..WriterOptions::default() };
        let writer = ArchiveWriter::create(&base, self.label.clone(), options)?;
        self.links.ledger.set_writing(Some((base.clone(), 0)));
        Ok(Current {
            base,
            writer,
            start,
            volume: 0,
            volume_start: start,
            synced: start,
            unsynced: false,
            declared: Declared::default(),
            ends_in_mark: false,
            stands: false,
            told: 0,
            bytes: 0,
        })
    }

    /// A PMID means one thing within an archive.
    fn close_for_change(&mut self) {
        info!("a metric changed its meaning: a new archive begins");
        self.close();
    }

    fn close(&mut self) {
        let Some(mut current) = self.current.take() else { return };
        let base = current.base;
        if let Err(error) = current.writer.sync().and_then(|()| current.writer.finish()) {
            error!(archive = %base.display(), %error, "the archive's end cannot be written");
            self.links.ledger.note_error(error.to_string());
        }
        self.links.ledger.set_writing(None);
        let _ = self.links.keeper.send(Note::Closed);
    }
}

/// A millisecond after the last record, or half-way to the next one if that
/// is sooner; `None` if there is no moment between the two.
pub(crate) fn mark_stamp(last: Timestamp, next: Timestamp) -> Option<Timestamp> {
    let between = next.nanos_since(last);
    let after = MARK_AFTER_NANOS.min(between / 2);
    (after > 0).then(|| Timestamp::from_nanos(last.as_nanos() + after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_lies_between_the_records_that_it_keeps_apart() {
        let at = |nanos: i128| Timestamp::from_nanos(1_700_000_000_000_000_000 + nanos);
        assert_eq!(mark_stamp(at(0), at(1_000_000_000)), Some(at(1_000_000)));
        assert_eq!(mark_stamp(at(0), at(1_000)), Some(at(500)));
        assert_eq!(mark_stamp(at(0), at(1)), None);
    }
}

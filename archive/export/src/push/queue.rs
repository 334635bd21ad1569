//! The batches of one host.
//!
//! In: the archives of a host and its [cursor](super::state). Out: one batch after the other, each
//! of whole records and without records of the future. A batch stays until it is
//! [done](HostQueue::done); its end is stored in the file before any of it is sent.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pcp_archive::internal::original_base;

use super::batch::Batch;
use super::series::{Point, SeriesTable};
use super::state::{Cursor, StateDirectory, StateError, StateFile};
use super::{DeliveryCounts, Protocol};
use crate::position::Position;
use crate::samples::{HistogramForm, Sample, SampleSeriesId, Samples};
use crate::selection::MetricSelection;
use crate::text::warn;
use crate::tree::{Archives, Host};
use crate::walk::{Start, Step, StepKind, Walk};

/// Nanoseconds by which a record may be later than the clock of this host. Prometheus refuses
/// samples that are older than the newest one, so a record of tomorrow would block all others.
pub(super) const MAX_FUTURE: i64 = 300_000_000_000;
/// Nanoseconds between two archives of a host above which there is a gap.
const MAX_TIME_BETWEEN_ARCHIVES: i64 = 60_000_000_000;
/// Interval at which archives are listed, to notice when retention deletes them.
const LIST_INTERVAL: Duration = Duration::from_secs(30);
/// Time for which a cursor may be newer than its file while nothing is sent.
const WRITE_INTERVAL: Duration = Duration::from_secs(10);
/// Errors in a row that cannot be skipped before the queue waits.
const MAX_ERRORS: u32 = 3;

/// The result of filling a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FillResult {
    /// A batch, and perhaps more after it.
    Batch,
    /// There is nothing to send yet.
    Nothing,
    /// The next record is later than the clock; its time in nanoseconds since 1970 UTC.
    Future(i64),
}

/// A record that was read and is not in the batch yet.
#[derive(Debug)]
struct WaitingRecord {
    points: Vec<Point>,
    position: Position,
    timestamp: i64,
    ends_archive: bool,
}

/// Buffers for the samples of a step.
#[derive(Debug, Default)]
struct ConversionBuffers {
    began: Vec<SampleSeriesId>,
    samples: Vec<Sample>,
    points: Vec<Point>,
}

/// The samples of a host that are to be sent.
#[derive(Debug)]
pub(crate) struct HostQueue {
    pub(crate) name: String,
    archives: Archives,
    walk: Walk,
    samples: Samples,
    pub(super) table: SeriesTable,
    protocol: Protocol,
    pub(super) batch: Batch,
    /// Samples at the start of the batch that were delivered.
    pub(super) delivered: usize,
    /// Whether some of the batch may be stored already, since an earlier process began to send it.
    pub(super) is_repeated: bool,
    waiting: Option<WaitingRecord>,
    file: StateFile,
    cursor: Cursor,
    /// The time of the last write of the file.
    written: Option<Instant>,
    is_ahead_of_file: bool,
    scratch: ConversionBuffers,
    /// The time since which records are missing, to be reported with the next record.
    gap_from: Option<i64>,
    seen: SeenArchives,
    last_error: String,
    reported_future: bool,
}

/// Archives that were read or listed.
#[derive(Debug, Default)]
struct SeenArchives {
    /// The base names of archives that were read, before they were reduced.
    read: BTreeSet<String>,
    /// The base names of the last listing, in order, likewise.
    listed: Vec<String>,
    at: Option<Instant>,
}

impl HostQueue {
    /// Resumes from the cursor of the host, with the values of a selection.
    pub(crate) fn open(
        host: &Host,
        selection: &MetricSelection,
        state: &StateDirectory,
        url: &str,
        protocol: Protocol,
        histograms: HistogramForm,
    ) -> Result<Self, OpenError> {
        let file = state.file(&host.name, url);
        let cursor = file.read()?;
        let start = cursor.sent.clone().map_or(Start::First, Start::Position);
        let walk = Walk::new(host.archives.clone(), start)?.select(selection);
        let mut queue = Self {
            name: host.name.clone(),
            archives: host.archives.clone(),
            samples: Samples::new().with_histograms(histograms),
            table: SeriesTable::new(protocol),
            protocol,
            batch: Batch::default(),
            delivered: 0,
            is_repeated: false,
            waiting: None,
            file,
            cursor,
            written: None,
            is_ahead_of_file: false,
            scratch: ConversionBuffers::default(),
            gap_from: None,
            seen: SeenArchives::default(),
            last_error: String::new(),
            reported_future: false,
            walk,
        };
        if queue.walk.is_position_lost() {
            queue.gap_from = queue.cursor.sent.as_ref().map(|position| position.time);
            queue.cursor.sending = None;
        }
        queue.list_archives();
        Ok(queue)
    }

    /// Returns the counts since the first run.
    pub(crate) const fn counts(&self) -> &DeliveryCounts {
        &self.cursor.counts
    }

    pub(super) const fn counts_mut(&mut self) -> &mut DeliveryCounts {
        &mut self.cursor.counts
    }

    /// Returns the time of the last record that was sent, in nanoseconds since 1970 UTC.
    pub(crate) fn sent_until(&self) -> Option<i64> {
        self.cursor.sent.as_ref().map(|position| position.time)
    }

    /// Reads records until the batch has `limit` samples, or up to the end of the batch that an
    /// earlier process began to send, and stores the end of the batch.
    pub(crate) fn fill(&mut self, limit: usize) -> Result<FillResult, StateError> {
        if self.batch.end.is_some() {
            return Ok(FillResult::Batch);
        }
        if self.seen.at.is_none_or(|at| at.elapsed() > LIST_INTERVAL) {
            self.list_archives();
        }
        let sending = self.cursor.sending.take();
        let mut future = None;
        let mut errors = 0;
        loop {
            if let Some(timestamp) = self.add_waiting() {
                future = Some(timestamp);
                break;
            }
            let is_full = sending.is_none() && self.batch.points.len() >= limit;
            if is_full || self.is_complete(sending.as_ref()) {
                break;
            }
            match self.read() {
                Ok(true) => errors = 0,
                Ok(false) => break,
                Err(error) => {
                    self.report(&error);
                    errors = if self.walk.recover().is_some() { 0 } else { errors + 1 };
                    if errors > MAX_ERRORS {
                        break;
                    }
                }
            }
        }
        if self.batch.end.is_none() {
            self.cursor.sending = sending;
            self.write_if_due()?;
            self.rest();
            return Ok(future.map_or(FillResult::Nothing, FillResult::Future));
        }
        self.is_repeated = sending.is_some();
        self.batch.order(self.protocol, &self.table);
        if !self.batch.points.is_empty() {
            self.cursor.sending.clone_from(&self.batch.end);
            self.write()?;
        }
        Ok(FillResult::Batch)
    }

    /// Removes the batch, whose samples the receiver has stored or which were counted as dropped.
    pub(crate) fn done(&mut self) {
        self.cursor.sent = self.batch.end.take();
        self.cursor.sending = None;
        self.is_ahead_of_file = true;
        self.delivered = 0;
        self.is_repeated = false;
        if self.batch.ends_archive {
            self.table.end_archive();
        }
        self.batch.clear();
        if self.waiting.is_none() {
            self.table.forget();
        }
    }

    /// Releases memory that is not needed until there are new records, since a process may follow
    /// many hosts.
    fn rest(&mut self) {
        self.walk.rest();
        self.samples.rest();
        self.table.shrink_to_fit();
        self.batch = Batch::default();
        self.scratch = ConversionBuffers::default();
    }

    /// Writes the cursor if its file is older.
    pub(crate) fn close(&mut self) -> Result<(), StateError> {
        if self.is_ahead_of_file { self.write() } else { Ok(()) }
    }

    /// Writes the cursor with the counts of a batch that is not done.
    pub(crate) fn write(&mut self) -> Result<(), StateError> {
        self.file.write(&self.cursor)?;
        self.is_ahead_of_file = false;
        self.written = Some(Instant::now());
        Ok(())
    }

    fn write_if_due(&mut self) -> Result<(), StateError> {
        let is_due = self.written.is_none_or(|at| at.elapsed() > WRITE_INTERVAL);
        if is_due && self.is_ahead_of_file { self.write() } else { Ok(()) }
    }

    /// Returns whether the batch is complete: it has the end of an archive, or reaches the end that
    /// an earlier process stored.
    fn is_complete(&self, sending: Option<&Position>) -> bool {
        let (Some(end), Some(sending)) = (&self.batch.end, sending) else {
            return self.batch.ends_archive;
        };
        let is_before = end.archive == sending.archive && sending.is_after(end.volume, end.offset);
        self.batch.ends_archive || !is_before
    }

    /// Adds the record that was read to the batch. Returns its time if it is in the future and has
    /// to wait.
    fn add_waiting(&mut self) -> Option<i64> {
        let waiting = self.waiting.take()?;
        if waiting.timestamp > now().saturating_add(MAX_FUTURE) {
            let timestamp = waiting.timestamp;
            self.waiting = Some(waiting);
            if !std::mem::replace(&mut self.reported_future, true) {
                let time = shown(timestamp);
                warn(&format_args!(
                    "{}: a record of {time} is later than this host's clock; it and all later \
                     records wait until then",
                    self.name
                ));
            }
            return Some(timestamp);
        }
        self.reported_future = false;
        self.batch.add(&waiting.points, &waiting.position);
        self.batch.ends_archive = waiting.ends_archive;
        self.scratch.points = waiting.points;
        None
    }

    /// Reads the next record that was not sent, and returns false if there is none yet.
    fn read(&mut self) -> pcp_archive::Result<bool> {
        loop {
            let Some(step) = self.walk.next()? else { return Ok(false) };
            let mut scratch = std::mem::take(&mut self.scratch);
            convert(&step, &mut self.samples, &mut self.table, &mut scratch);
            let position = step.position.clone();
            let timestamp = step.timestamp;
            let ends_archive = step.kind == StepKind::EndOfArchive;
            let is_repeated = step.is_repeated;
            self.note_archive(&position.archive, timestamp, is_repeated);
            let points = std::mem::take(&mut scratch.points);
            self.scratch = scratch;
            if is_repeated {
                self.scratch.points = points;
                if ends_archive {
                    self.table.end_archive();
                }
                self.table.forget();
                continue;
            }
            self.waiting = Some(WaitingRecord { points, position, timestamp, ends_archive });
            return Ok(true);
        }
    }

    fn report(&mut self, error: &pcp_archive::Error) {
        let text = error.to_string();
        if text != self.last_error {
            warn(&format_args!("{}: {text}", self.name));
            self.cursor.counts.damaged += 1;
            self.last_error = text;
        }
    }

    fn list_archives(&mut self) {
        // The walk reports errors.
        if let Ok(bases) = self.archives.bases() {
            let originals = bases.iter().map(|base| original_base(base));
            let names = originals.filter_map(|base| base.file_name()?.to_str().map(str::to_owned));
            self.seen.listed = names.collect();
        }
        self.seen.at = Some(Instant::now());
    }

    /// Detects listed archives that the walk did not read because retention deleted them.
    fn note_archive(&mut self, archive: &str, timestamp: i64, is_repeated: bool) {
        let archive = original_base(Path::new(archive));
        let archive = archive.to_str().unwrap_or_default();
        if !self.seen.read.contains(archive) {
            let seen = &self.seen;
            let mut before = seen.listed.iter().take_while(|name| *name != archive);
            let has_unread = before.any(|name| !seen.read.contains(name));
            let is_listed = seen.listed.iter().any(|name| name == archive);
            if !seen.read.is_empty() && is_listed && has_unread {
                self.gap_from = self.gap_from.or_else(|| self.sent_until());
            }
            self.seen.read.insert(archive.to_owned());
        }
        let Some(from) = self.gap_from.take_if(|_| !is_repeated) else { return };
        let had_ended = self.cursor.sent.as_ref().is_some_and(|sent| sent.offset == u64::MAX);
        if had_ended && timestamp.saturating_sub(from) < MAX_TIME_BETWEEN_ARCHIVES {
            return;
        }
        self.cursor.counts.lost_gaps += 1;
        warn(&format_args!(
            "{}: archives from {} to {} were deleted before they were sent",
            self.name,
            shown(from),
            shown(timestamp)
        ));
    }
}

fn convert(
    step: &Step<'_>,
    samples: &mut Samples,
    table: &mut SeriesTable,
    scratch: &mut ConversionBuffers,
) {
    let converted = samples.convert(step);
    scratch.began.clear();
    scratch.began.extend_from_slice(converted.began);
    scratch.samples.clear();
    scratch.samples.extend_from_slice(converted.samples);
    scratch.points.clear();
    let ConversionBuffers { began, samples: list, points } = scratch;
    table.take(began, list, samples, step.catalog, points);
}

/// Returns the current time in nanoseconds since 1970 UTC.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// Formats a time in nanoseconds since 1970 UTC.
pub(crate) fn shown(nanos: i64) -> String {
    jiff::Timestamp::from_nanosecond(nanos.into())
        .map_or_else(|_| format!("{nanos} ns"), |time| time.to_string())
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    /// The cursor cannot be read.
    #[error(transparent)]
    State(#[from] StateError),
    /// The archives cannot be listed.
    #[error(transparent)]
    Archive(#[from] pcp_archive::Error),
}

//! The part of the status that the archive writer and the housekeeping thread set.
//!
//! The sampler thread reads it. Each lock is held only while a few words are copied.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pcp_types::Timestamp;

use super::OwnMetrics;
use super::status::{ArchiveStatus, LastError, RetainedArchives, RetainedTier};
use crate::threads::lock;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CompressedVolume {
    /// The plain file, which is gone.
    pub file: PathBuf,
    pub before: u64,
    pub after: u64,
}

/// State shared by the archive writer, the housekeeping thread and the sampler.
#[derive(Debug, Default)]
pub(crate) struct SharedStatus {
    writing: Mutex<Option<(PathBuf, u32)>>,
    written: Mutex<(u64, u64, Option<String>)>,
    bytes: AtomicU64,
    /// Bytes of metadata and of changed values by user since the last charge.
    charges: Mutex<BTreeMap<u32, u64>>,
    /// Volumes compressed since the last call of [`Self::take_compressed`].
    compressed: Mutex<Vec<CompressedVolume>>,
    kept: Mutex<RetainedArchives>,
    last_error: Mutex<Option<LastError>>,
    state_error: Mutex<Option<String>>,
    warnings: Mutex<Vec<String>>,
    own: Mutex<Arc<OwnMetrics>>,
    ended: AtomicBool,
    oldest: Mutex<Option<i64>>,
}

impl SharedStatus {
    pub(crate) fn own(&self) -> Arc<OwnMetrics> {
        Arc::clone(&lock(&self.own))
    }

    /// Sets the agent's own metrics, at the start and when their file is gone.
    pub(crate) fn set_own(&self, own: OwnMetrics) {
        *lock(&self.own) = Arc::new(own);
    }

    /// Sets the archive that is about to be written, and its volume. Must be called before its
    /// files exist.
    pub(crate) fn set_writing(&self, archive: Option<(PathBuf, u32)>) {
        *lock(&self.writing) = archive;
    }

    /// Returns the archive that is being written, and its volume.
    pub(crate) fn writing(&self) -> Option<(PathBuf, u32)> {
        lock(&self.writing).clone()
    }

    /// Sets the records written and lost so far, and the reason why writing fails.
    pub(crate) fn set_written(&self, written: u64, lost: u64, error: Option<&str>) {
        let mut known = lock(&self.written);
        known.0 = written;
        known.1 = lost;
        if known.2.as_deref() != error {
            known.2 = error.map(str::to_owned);
        }
    }

    /// Counts bytes that were written.
    pub(crate) fn add_bytes(&self, bytes: u64) {
        self.own().bytes.add(bytes);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts bytes of metadata and of changed values that were written for files of users.
    pub(crate) fn add_charges(&self, bytes: BTreeMap<u32, u64>) {
        if bytes.is_empty() {
            return;
        }
        let mut charges = lock(&self.charges);
        for (user, bytes) in bytes {
            *charges.entry(user).or_default() += bytes;
        }
    }

    /// Returns the bytes counted since the last call.
    pub(crate) fn take_charges(&self) -> BTreeMap<u32, u64> {
        std::mem::take(&mut *lock(&self.charges))
    }

    /// Returns the bytes written so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Sets number and size of the archives of each interval, and the free bytes of the file system.
    pub(crate) fn set_kept(&self, tiers: Vec<RetainedTier>, free: Option<u64>) {
        let archives = tiers.iter().map(|tier| tier.archives).sum();
        let bytes = tiers.iter().map(|tier| tier.bytes).sum();
        let own = self.own();
        own.archives.set(archives);
        own.archive_bytes.set(bytes);
        let mut kept = lock(&self.kept);
        kept.archives = archives;
        kept.bytes = bytes;
        kept.tiers = tiers;
        kept.free = free;
    }

    /// Sets the size of all archives.
    pub(crate) fn set_kept_bytes(&self, bytes: u64) {
        self.own().archive_bytes.set(bytes);
        lock(&self.kept).bytes = bytes;
    }

    pub(crate) fn add_compressed(&self, volume: CompressedVolume, time: Duration) {
        let own = self.own();
        let CompressedVolume { before, after, .. } = volume;
        lock(&self.compressed).push(volume);
        own.compression.volumes.inc();
        own.compression.before.add(before);
        own.compression.after.add(after);
        let mut kept = lock(&self.kept);
        kept.compressed_from += before;
        kept.compressed_to += after;
        kept.compression_time += time.as_nanos() as u64;
    }

    /// Returns the volumes counted since the last call.
    pub(crate) fn take_compressed(&self) -> Vec<CompressedVolume> {
        std::mem::take(&mut *lock(&self.compressed))
    }

    pub(crate) fn kept(&self) -> RetainedArchives {
        RetainedArchives { oldest: *lock(&self.oldest), ..lock(&self.kept).clone() }
    }

    pub(crate) fn note_error(&self, what: String) {
        let at = Timestamp::now().seconds();
        *lock(&self.last_error) = Some(LastError { what, at });
    }

    pub(crate) fn last_error(&self) -> Option<LastError> {
        lock(&self.last_error).clone()
    }

    /// Sets the reason why the state file cannot be written; `None` once it was written.
    pub(crate) fn set_state_error(&self, error: Option<String>) {
        *lock(&self.state_error) = error;
    }

    /// Returns the reason why the state file cannot be written.
    pub(crate) fn state_error(&self) -> Option<String> {
        lock(&self.state_error).clone()
    }

    pub(crate) fn set_warnings(&self, warnings: Vec<String>) {
        *lock(&self.warnings) = warnings;
    }

    pub(crate) fn warnings(&self) -> Vec<String> {
        lock(&self.warnings).clone()
    }

    pub(crate) fn archive_status(&self) -> ArchiveStatus {
        let (base, volume) = self.writing().unzip();
        let base = base.map(|base| base.display().to_string());
        let (written, lost, error) = lock(&self.written).clone();
        let bytes = self.bytes();
        ArchiveStatus { base, volume: volume.unwrap_or(0), written, lost, bytes, error }
    }

    /// Notes that the archive writer has ended.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Sets the start of the oldest archive, in seconds since 1970.
    pub(crate) fn set_oldest(&self, start: i64) {
        *lock(&self.oldest) = Some(start);
    }

    /// Returns the start of the oldest archive; `i64::MIN` while it is unknown.
    pub(crate) fn oldest(&self) -> i64 {
        lock(&self.oldest).unwrap_or(i64::MIN)
    }
}

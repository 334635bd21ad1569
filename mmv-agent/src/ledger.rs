//! What the threads know of each other's archives.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pcp_types::Timestamp;

use crate::own::Own;
use crate::removal::{Dead, Stays};
use crate::state::Memory;
use crate::status::{ArchiveStatus, Kept, LastError};

/// Shared by the writer, the keeper and the sampler.
#[derive(Debug)]
pub(crate) struct Ledger {
    writing: Mutex<Option<(PathBuf, u32)>>,
    memory: Mutex<Option<Memory>>,
    dead: Mutex<Vec<Dead>>,
    removed: Mutex<Vec<(Dead, Option<Stays>)>>,
    written: Mutex<(u64, u64, Option<String>)>,
    bytes: AtomicU64,
    kept: Mutex<Kept>,
    last_error: Mutex<Option<LastError>>,
    own: Own,
    ended: AtomicBool,
    oldest: AtomicI64,
}

impl Ledger {
    /// Nothing is being written.
    pub(crate) fn new(own: Own) -> Self {
        Self {
            writing: Mutex::new(None),
            memory: Mutex::new(None),
            dead: Mutex::default(),
            removed: Mutex::default(),
            written: Mutex::new((0, 0, None)),
            bytes: AtomicU64::new(0),
            kept: Mutex::new(Kept::default()),
            last_error: Mutex::new(None),
            own,
            ended: AtomicBool::new(false),
            oldest: AtomicI64::new(i64::MIN),
        }
    }

    /// The archive that is being written, and its volume. To be said before
    /// the files are there.
    pub(crate) fn set_writing(&self, archive: Option<(PathBuf, u32)>) {
        *lock(&self.writing) = archive;
    }

    /// The archive that is being written, and its volume.
    pub(crate) fn writing(&self) -> Option<(PathBuf, u32)> {
        lock(&self.writing).clone()
    }

    /// The sampler has this to remember, in place of what nobody has taken
    /// yet; true if that was nothing.
    pub(crate) fn put_memory(&self, memory: Memory) -> bool {
        lock(&self.memory).replace(memory).is_none()
    }

    /// What the sampler has to remember since this was last asked.
    pub(crate) fn take_memory(&self) -> Option<Memory> {
        lock(&self.memory).take()
    }

    /// These files are to be removed.
    pub(crate) fn put_dead(&self, dead: Vec<Dead>) {
        lock(&self.dead).extend(dead);
    }

    /// The files that are to be removed.
    pub(crate) fn take_dead(&self) -> Vec<Dead> {
        std::mem::take(&mut lock(&self.dead))
    }

    /// A file was removed, or stays.
    pub(crate) fn put_removed(&self, dead: Dead, stays: Option<Stays>) {
        lock(&self.removed).push((dead, stays));
    }

    /// What became of files since this was last asked.
    pub(crate) fn take_removed(&self) -> Vec<(Dead, Option<Stays>)> {
        std::mem::take(&mut lock(&self.removed))
    }

    /// So many records were written and lost so far, and why writing fails.
    pub(crate) fn set_written(&self, written: u64, lost: u64, error: Option<&str>) {
        let mut known = lock(&self.written);
        (known.0, known.1) = (written, lost);
        if known.2.as_deref() != error {
            known.2 = error.map(str::to_owned);
        }
    }

    /// The agent's own metrics.
    pub(crate) fn own(&self) -> &Own {
        &self.own
    }

    /// So many bytes more were written.
    pub(crate) fn add_bytes(&self, bytes: u64) {
        self.own.bytes.add(bytes);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// How many bytes were written so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The archives that there are.
    pub(crate) fn set_kept(&self, archives: u64, bytes: u64, free: u64) {
        self.own.archives.set(archives);
        self.own.archive_bytes.set(bytes);
        let mut kept = lock(&self.kept);
        (kept.archives, kept.bytes, kept.free) = (archives, bytes, free);
    }

    /// A volume of so many bytes has so many now that it is compressed.
    pub(crate) fn add_compressed(&self, before: u64, after: u64) {
        self.own.compression.volumes.inc();
        self.own.compression.before.add(before);
        self.own.compression.after.add(after);
        let mut kept = lock(&self.kept);
        kept.compressed_from += before;
        kept.compressed_to += after;
    }

    /// What is kept.
    pub(crate) fn kept(&self) -> Kept {
        let oldest = self.oldest();
        Kept { oldest: (oldest > i64::MIN).then_some(oldest), ..lock(&self.kept).clone() }
    }

    /// Something failed.
    pub(crate) fn note_error(&self, what: String) {
        let at = Timestamp::now().seconds();
        *lock(&self.last_error) = Some(LastError { what, at });
    }

    /// What failed last.
    pub(crate) fn last_error(&self) -> Option<LastError> {
        lock(&self.last_error).clone()
    }

    /// What the writer is doing.
    pub(crate) fn archive_status(&self) -> ArchiveStatus {
        let (base, volume) = self.writing().unzip();
        let base = base.map(|base| base.display().to_string());
        let (written, lost, error) = lock(&self.written).clone();
        let bytes = self.bytes();
        ArchiveStatus { base, volume: volume.unwrap_or(0), written, lost, bytes, error }
    }

    /// Nothing will be written any more.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// Whether nothing will be written any more.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// When the oldest archive starts that is kept, in seconds since 1970.
    pub(crate) fn set_oldest(&self, start: i64) {
        self.oldest.store(start, Ordering::Release);
    }

    /// When the oldest archive starts that is kept; as long as that is not
    /// known, the beginning of time.
    pub(crate) fn oldest(&self) -> i64 {
        self.oldest.load(Ordering::Acquire)
    }
}

/// Whoever panicked with one of these has left it whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

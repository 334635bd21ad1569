//! Files that grow: metrics and instances can be added and removed as long as the
//! program runs.
//!
//! A growing file is published empty. Every registration appends to it; nothing in
//! it ever moves, so handles stay valid and no increment is lost. Changes are
//! announced to readers at most once in 100 ms, so a new metric may be invisible for
//! that long; what it counts meanwhile is not lost.
//!
//! A file has room for 1023 metrics, 255 labels, 2047 domains and, by default,
//! 65 536 instances, 262 144 values and 65 536 texts. Registrations that do not fit
//! begin an overflow file, under the same metric names; instances and labels that a
//! metric gets later stay in its file, and are rejected when that is full. An instance
//! takes 312 bytes and 32 for each value, 256 more if that is a text. A file without
//! metrics takes 4 KiB.
//!
//! No file exceeds the limit on file sizes that the process has when it is created
//! (`RLIMIT_FSIZE`, `ulimit -f`): with less room there are more overflow files. A limit
//! below 80 KiB is an error, or a registry without a file if it is lenient. No limit ends
//! the program with SIGXFSZ.
//!
//! `docs/decisions/001-growing-files.md` describes how readers are kept from seeing half of
//! a change, and how the file becomes longer; `002-lookup.md` how handles are found by name.

mod file;
mod handles;
mod instances;
mod quarantine;
mod sections;
mod state;
mod store;

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use mmv_format::layout::Version;

use crate::Error;
use crate::identity::FileIdentity;
use crate::options::RegistryBuilder;
use crate::overflow::Clusters;
pub(crate) use handles::{HandleIndex, RemoveHandle};
use sections::Sections;
pub(crate) use state::{DynamicId, FamilyId, ReleasedHandles, State};

/// The growing files of one registry.
#[derive(Debug)]
pub(crate) struct GrowingFiles {
    state: RwLock<State>,
    announce_interval: Duration,
}

impl GrowingFiles {
    pub(crate) fn new(
        options: &RegistryBuilder,
        identity: FileIdentity,
        clusters: Clusters,
    ) -> Result<Self, Error> {
        if let Some(pinned) = options.pinned.filter(|pinned| *pinned != Version::V3) {
            return Err(Error::Version {
                what: "growing file",
                name: options.name.clone(),
                needed: Version::V3,
                pinned,
            });
        }
        let sections = Sections::new(&options.name, options.capacity)?;
        let state = State::new(identity, clusters, sections, options.lenient)?;
        Ok(Self { state: RwLock::new(state), announce_interval: options.announce_interval })
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and announces that to readers if it succeeds.
    pub(crate) fn change<T>(
        self: &Arc<Self>,
        change: impl FnOnce(&mut State) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut state = self.write();
        let changed = change(&mut state);
        // A change may have begun an overflow file, which must not stay either.
        state.withdraw_late_files();
        let changed = changed?;
        self.announce(&mut state);
        Ok(changed)
    }

    /// Withdraws all files: from now on no reader sees what is counted.
    pub(crate) fn withdraw(&self) {
        self.write().withdraw();
    }

    /// Announces a change to readers: now, or from a thread once the interval is over.
    pub(crate) fn announce(self: &Arc<Self>, state: &mut State) {
        if state.pending {
            return;
        }
        let wait = self.announce_interval.saturating_sub(state.announced.elapsed());
        let wait = wait.max(state.ready_in());
        // Elsewhere than on Linux there are no readers, and not always threads.
        if wait.is_zero() || cfg!(not(target_os = "linux")) {
            state.announce();
            return;
        }
        let growing = Arc::downgrade(self);
        let thread = std::thread::Builder::new().name("mmv-announce".to_owned()).spawn(move || {
            std::thread::sleep(wait);
            if let Some(growing) = growing.upgrade() {
                growing.announce_now();
            }
        });
        state.pending = thread.is_ok();
        if thread.is_err() {
            // Without a thread, announce too often rather than never.
            std::thread::sleep(state.ready_in());
            state.announce();
        }
    }

    /// Announces all changes to readers, after waiting until that is allowed.
    pub(crate) fn announce_now(&self) {
        loop {
            let mut state = self.write();
            let wait = state.ready_in();
            if wait.is_zero() {
                return state.announce();
            }
            drop(state);
            std::thread::sleep(wait);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;

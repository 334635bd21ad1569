//! The handles of a family, ready by the names of their instances.
//!
//! Many threads look up, few add: so the lock has a part for each of some threads,
//! each on a cache line of its own. Looking up takes one part, adding and removing
//! take them all. Names of up to 23 bytes stand in the table itself.

use std::fmt;
use std::sync::PoisonError;

use crossbeam_utils::sync::{ShardedLock, ShardedLockReadGuard, ShardedLockWriteGuard};
use hashbrown::HashMap;
use smol_str::SmolStr;

/// Handles by the names of their instances.
pub(super) struct Index<H> {
    handles: ShardedLock<HashMap<SmolStr, H>>,
}

/// An index, whatever its handles are.
pub(super) trait Forget: fmt::Debug + Send + Sync {
    /// Drops the handle of an instance, once nobody has it on loan.
    fn forget(&self, name: &str);
}

impl<H> Index<H> {
    pub(super) fn new() -> Self {
        Self { handles: ShardedLock::new(HashMap::new()) }
    }

    /// The handles, which nobody changes meanwhile.
    pub(super) fn read(&self) -> ShardedLockReadGuard<'_, HashMap<SmolStr, H>> {
        self.handles.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the handle of an instance.
    pub(super) fn add(&self, name: &str, handle: H) {
        self.write().insert(name.into(), handle);
    }

    fn write(&self) -> ShardedLockWriteGuard<'_, HashMap<SmolStr, H>> {
        self.handles.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<H: Send + Sync> Forget for Index<H> {
    fn forget(&self, name: &str) {
        self.write().remove(name);
    }
}

// Not the handles: there may be many, and they do not say much.
impl<H> fmt::Debug for Index<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index").finish_non_exhaustive()
    }
}

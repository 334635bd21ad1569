//! The handles of a family by the names of their instances.
//!
//! Lookups are frequent, additions rare: the lock has several shards, each on a cache
//! line of its own. A lookup takes the shard of its thread; adding and removing take
//! all shards. Names of up to 23 bytes are in the table itself.

use std::fmt;
use std::sync::PoisonError;

use crossbeam_utils::sync::{ShardedLock, ShardedLockReadGuard, ShardedLockWriteGuard};
use hashbrown::HashMap;
use smol_str::SmolStr;

/// Handles by the names of their instances.
pub(super) struct HandleIndex<H> {
    handles: ShardedLock<HashMap<SmolStr, H>>,
}

/// A table of handles of any type.
pub(super) trait RemoveHandle: fmt::Debug + Send + Sync {
    /// Drops the handle of an instance; waits for closures that borrow it.
    fn remove(&self, name: &str);
}

impl<H> HandleIndex<H> {
    pub(super) fn new() -> Self {
        Self { handles: ShardedLock::new(HashMap::new()) }
    }

    /// The handles, locked against changes.
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

impl<H: Send + Sync> RemoveHandle for HandleIndex<H> {
    fn remove(&self, name: &str) {
        self.write().remove(name);
    }
}

// Without the handles: there may be many.
impl<H> fmt::Debug for HandleIndex<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandleIndex").finish_non_exhaustive()
    }
}

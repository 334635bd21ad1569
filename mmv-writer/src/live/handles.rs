//! The handles of a family by the names of their instances.
//!
//! Lookups are frequent, additions rare: the lock has several shards, each on a cache
//! line of its own. A lookup takes the shard of its thread; adding and removing take
//! all shards. Names of up to 23 bytes are in the table itself.

use std::any::Any;
use std::fmt;
use std::sync::PoisonError;

use crossbeam_utils::sync::{ShardedLock, ShardedLockReadGuard, ShardedLockWriteGuard};
use hashbrown::HashMap;
use smol_str::SmolStr;

/// Handles by the names of their instances.
pub(crate) struct HandleIndex<H> {
    handles: ShardedLock<HashMap<SmolStr, H>>,
}

/// A table of handles of any type.
pub(crate) trait RemoveHandle: fmt::Debug + Send + Sync {
    /// Removes the handle of an instance; waits for closures that borrow it.
    fn remove(&self, name: &str) -> Option<Box<dyn Any + Send>>;
}

impl<H> HandleIndex<H> {
    pub(crate) fn new() -> Self {
        Self { handles: ShardedLock::new(HashMap::new()) }
    }

    /// Locks the handles against changes.
    pub(crate) fn read(&self) -> ShardedLockReadGuard<'_, HashMap<SmolStr, H>> {
        self.handles.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, name: &str, handle: H) {
        self.write().insert(name.into(), handle);
    }

    fn write(&self) -> ShardedLockWriteGuard<'_, HashMap<SmolStr, H>> {
        self.handles.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<H: Send + Sync + 'static> RemoveHandle for HandleIndex<H> {
    fn remove(&self, name: &str) -> Option<Box<dyn Any + Send>> {
        let handle = self.write().remove(name)?;
        Some(Box::new(handle))
    }
}

// Without the handles: there may be many.
impl<H> fmt::Debug for HandleIndex<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandleIndex").finish_non_exhaustive()
    }
}

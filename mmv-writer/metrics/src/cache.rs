//! Handles by their keys. The facade's macros look their handle up each time they
//! run, so this look-up is the cost of counting through them.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{PoisonError, RwLock};

use metrics::Key;

/// Number of locks. Threads that look for different keys mostly take different ones.
const SHARDS: usize = 16;

/// Handles by their keys.
#[derive(Debug)]
pub(crate) struct Cache<H> {
    shards: [RwLock<Shard<H>>; SHARDS],
}

type Shard<H> = HashMap<Key, H, BuildHasherDefault<KeyHasher>>;

impl<H> Default for Cache<H> {
    fn default() -> Self {
        Self { shards: std::array::from_fn(|_| RwLock::default()) }
    }
}

impl<H> Cache<H> {
    /// Returns what `read` makes of the handle of a key, if it is cached.
    pub(crate) fn get<R>(&self, key: &Key, read: impl FnOnce(&H) -> R) -> Option<R> {
        let shard = self.shard(key)?.read().unwrap_or_else(PoisonError::into_inner);
        shard.get(key).map(read)
    }

    /// Adds the handle of a key.
    pub(crate) fn insert(&self, key: &Key, handle: H) {
        if let Some(shard) = self.shard(key) {
            let mut shard = shard.write().unwrap_or_else(PoisonError::into_inner);
            shard.insert(key.to_retained(), handle);
        }
    }

    /// Drops the handles for which `keep` returns false.
    pub(crate) fn retain(&self, mut keep: impl FnMut(&H) -> bool) {
        for shard in &self.shards {
            let mut shard = shard.write().unwrap_or_else(PoisonError::into_inner);
            shard.retain(|_, handle| keep(handle));
        }
    }

    /// Returns the shard of a key, by bits of the hash that the map in it uses least.
    fn shard(&self, key: &Key) -> Option<&RwLock<Shard<H>>> {
        self.shards.get((key.get_hash() >> 40) as usize % SHARDS)
    }
}

/// A hasher that returns the hash that a key already has.
#[derive(Debug, Default)]
pub(crate) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        // Not used by keys.
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

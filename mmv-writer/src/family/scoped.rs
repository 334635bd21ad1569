//! Handles that remove their series.

use std::fmt;
use std::ops::Deref;
use std::sync::PoisonError;

use super::{Family, Labels, SeriesHandle};

/// A handle that removes its series when it is dropped, or when the last one with the same
/// labels is; see [`Family::scoped`].
#[must_use = "the series is removed when this is dropped"]
pub struct ScopedHandle<L: Labels, H: SeriesHandle = crate::Counter> {
    family: Family<L, H>,
    labels: L,
    handle: H,
}

impl<L: Labels, H: SeriesHandle> ScopedHandle<L, H> {
    pub(super) fn new(family: Family<L, H>, labels: L) -> Self {
        let mut scopes = family.series.scopes.lock().unwrap_or_else(PoisonError::into_inner);
        *scopes.entry(labels.clone()).or_insert(0) += 1;
        // Under the lock: another one that is dropped now must not remove the series.
        let handle = family.get(&labels);
        drop(scopes);
        Self { family, labels, handle }
    }
}

impl<L: Labels, H: SeriesHandle> Deref for ScopedHandle<L, H> {
    type Target = H;

    fn deref(&self) -> &H {
        &self.handle
    }
}

impl<L: Labels, H: SeriesHandle> Drop for ScopedHandle<L, H> {
    fn drop(&mut self) {
        let series = &self.family.series;
        let mut scopes = series.scopes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = scopes.get_mut(&self.labels) {
            *count -= 1;
            if *count == 0 {
                scopes.remove(&self.labels);
                series.remove(&self.labels);
            }
        }
    }
}

impl<L: Labels, H: SeriesHandle> fmt::Debug for ScopedHandle<L, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopedHandle").field("family", &self.family).finish_non_exhaustive()
    }
}

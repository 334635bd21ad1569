//! The three kinds of handles: how one is made, and how its instance is removed.

use std::fmt;

use metrics::Key;

use crate::handles::{Counting, Gauging, Recording};
use crate::state::{SeriesHandle, State, Unpublished};

/// A kind of handle that a key can have.
pub(crate) trait Measure: fmt::Debug + Send + Sync + Sized + 'static {
    /// Makes the handle of a key, with its metric or instance.
    fn make(state: &mut State, key: &Key) -> Result<SeriesHandle<Self>, Unpublished>;

    /// Removes the instance of a key.
    fn remove(&self, state: &State, key: &Key, instance: &str);
}

impl Measure for Counting {
    fn make(state: &mut State, key: &Key) -> Result<SeriesHandle<Self>, Unpublished> {
        Ok(state.counter(key)?.map(Self::new))
    }

    fn remove(&self, state: &State, key: &Key, instance: &str) {
        state.remove_counter(key, instance);
    }
}

impl Measure for Gauging {
    fn make(state: &mut State, key: &Key) -> Result<SeriesHandle<Self>, Unpublished> {
        Ok(state.gauge(key)?.map(Self))
    }

    fn remove(&self, state: &State, key: &Key, instance: &str) {
        state.remove_gauge(key, instance);
    }
}

impl Measure for Recording {
    fn make(state: &mut State, key: &Key) -> Result<SeriesHandle<Self>, Unpublished> {
        state.histogram(key)
    }

    fn remove(&self, state: &State, key: &Key, instance: &str) {
        self.remove_buckets();
        state.remove_sum(key, instance);
    }
}

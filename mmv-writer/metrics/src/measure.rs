//! The three kinds of handles: how one is made, and what it has besides its instance.

use std::fmt;
use std::sync::Arc;

use metrics::Key;

use crate::handles::{Counting, Gauging, Recording};
use crate::state::{SeriesHandle, State, Unpublished};

/// A kind of handle that a key can have.
pub(crate) trait Measure: fmt::Debug + Send + Sync + Sized + 'static {
    /// The handle of the facade.
    type Facade: fmt::Debug + Clone + From<Arc<Self>>;

    /// Makes the handle of a key, with its metric or instance.
    fn make(state: &mut State, key: &Key) -> Result<SeriesHandle<Self>, Unpublished>;

    /// Removes what there is besides the instance.
    fn remove_parts(&self) {}
}

impl Measure for Counting {
    type Facade = metrics::Counter;

    fn make(state: &mut State, key: &Key) -> Result<SeriesHandle<Self>, Unpublished> {
        Ok(state.counter(key)?.map(Self::new))
    }
}

impl Measure for Gauging {
    type Facade = metrics::Gauge;

    fn make(state: &mut State, key: &Key) -> Result<SeriesHandle<Self>, Unpublished> {
        Ok(state.gauge(key)?.map(Self))
    }
}

impl Measure for Recording {
    type Facade = metrics::Histogram;

    fn make(state: &mut State, key: &Key) -> Result<SeriesHandle<Self>, Unpublished> {
        state.histogram(key)
    }

    fn remove_parts(&self) {
        self.remove_buckets();
    }
}

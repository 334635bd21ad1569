//! Options for a recorder.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mmv_writer::{Buckets, Registry};

use crate::cache::Cache;
use crate::state::State;
use crate::{Recorder, SharedState, idle};

/// Options for a recorder; see [`Recorder::builder`].
///
/// ```
/// use std::time::Duration;
///
/// use mmv_metrics::Recorder;
/// use mmv_writer::Registry;
///
/// # fn main() -> Result<(), mmv_writer::Error> {
/// # let directory = tempfile::tempdir().unwrap();
/// # let registry = Registry::builder("shop").directory(directory.path()).build()?;
/// let recorder = Recorder::builder(&registry)
///     .max_series(500)
///     .idle_timeout(Duration::from_secs(600))
///     .build();
/// metrics::with_local_recorder(&recorder, || {
///     metrics::counter!("requests", "tenant" => "acme").increment(1);
/// });
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "a recorder is made by build()"]
pub struct RecorderBuilder {
    registry: Registry,
    buckets: Option<Buckets>,
    max_series: Option<usize>,
    idle_timeout: Option<Duration>,
}

impl RecorderBuilder {
    pub(crate) fn new(registry: Registry) -> Self {
        Self { registry, buckets: None, max_series: None, idle_timeout: None }
    }

    /// Sets the buckets of all histograms, in the units that the crate's documentation
    /// states; by default [`Buckets::for_units`].
    pub fn buckets(mut self, buckets: Buckets) -> Self {
        self.buckets = Some(buckets);
        self
    }

    /// Sets the limit on the sets of labels of each metric; by default 10 000, of a histogram
    /// 1000. Others are counted in its instance `overflow`: see
    /// [cardinality](mmv_writer::Family#cardinality).
    pub fn max_series(mut self, most: usize) -> Self {
        self.max_series = Some(most);
        self
    }

    /// Removes the instances of labels without an update for this long; by default
    /// they stay. They are removed at most 5 seconds later, or a quarter of the time if
    /// that is less. Metrics without labels stay.
    ///
    /// A series that is used again begins from 0, as after a restart of the program, also
    /// through a handle that the program kept. No update is lost, but those between the last
    /// reading and the removal are seen by no reader if the time is shorter than the
    /// interval of readings.
    ///
    /// An update then takes a lock that the threads of this series share, and a thread
    /// looks for idle series. A child of fork has no such thread.
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = Some(timeout);
        self
    }

    /// Makes the recorder, and starts its thread if there is an idle timeout.
    #[must_use]
    pub fn build(self) -> Recorder {
        let Self { registry, buckets, max_series, idle_timeout } = self;
        let shared = Arc::new(SharedState {
            state: Mutex::new(State::new(registry, buckets, max_series)),
            idle_timeout,
            counters: Cache::default(),
            gauges: Cache::default(),
            histograms: Cache::default(),
        });
        if let Some(timeout) = idle_timeout {
            idle::start(&shared, timeout);
        }
        Recorder { shared }
    }
}

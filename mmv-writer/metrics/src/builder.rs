//! Options for a recorder.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mmv_writer::{Buckets, Registry};

use crate::cache::Cache;
use crate::state::State;
use crate::{Recorder, Shared, idle};

/// Default buckets of histograms: off by at most 6.3 %, up to the largest number.
const BUCKETS: Buckets = Buckets::new(3, u64::MAX);

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
///     .max_series(10_000)
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
    buckets: Buckets,
    max_series: u32,
    idle_timeout: Option<Duration>,
}

impl RecorderBuilder {
    pub(crate) fn new(registry: Registry) -> Self {
        let max_series = registry.instance_limit();
        Self { registry, buckets: BUCKETS, max_series, idle_timeout: None }
    }

    /// Sets the buckets of all histograms, in the units that the crate's documentation
    /// states.
    pub fn buckets(mut self, buckets: Buckets) -> Self {
        self.buckets = buckets;
        self
    }

    /// Sets the limit on instances of all metrics together, the buckets of histograms included;
    /// by default the limit of the file. The crate's documentation states where others are
    /// counted.
    pub fn max_series(mut self, most: u32) -> Self {
        self.max_series = most;
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
        let shared = Arc::new(Shared {
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

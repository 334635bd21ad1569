//! A recorder for the [`metrics`] facade: it writes what a program and its
//! libraries count with `counter!`, `gauge!` and `histogram!` to a file of
//! Performance Co-Pilot's MMV format, which `mmv-agent` and PCP's own programs
//! read.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # /*
//! let registry = mmv_writer::Registry::new("shop")?;
//! # */
//! # let registry = mmv_writer::Registry::builder("shop").directory(directory.path()).build()?;
//! mmv_metrics::Recorder::new(&registry).install()?;
//!
//! metrics::counter!("requests", "path" => "/", "code" => "200").increment(1);
//! metrics::gauge!("queue.length").set(3.0);
//! # Ok(())
//! # }
//! ```
//!
//! # Names and types in the file
//!
//! | the facade's | in the file |
//! |---|---|
//! | `counter!("a.b")` | the counter `mmv.shop.a.b`, unsigned 64 bits |
//! | `gauge!("a.b")` | the gauge `mmv.shop.a.b`, double |
//! | `histogram!("a.b")` | the counters `a.b.bucket`, with an instance a bucket, and `a.b.sum` |
//! | a name with labels | another metric, `mmv.shop.a.b_by`, whether or not there is one without labels: as `disk.all` and `disk.dev` of PCP, one has the total and one its parts |
//! | labels | a series of that metric, which is a [`Family`](mmv_writer::Family): an instance named `code=200,path=/`, sorted by key |
//! | each label | also a label of that instance, of counters, gauges and sums, while there is room (255 in a file); of labels whose names become one by `_` in place of what is not legal, the first |
//! | labels of a histogram | `a.b_by.bucket` and `a.b_by.sum`, with the labels before the bucket: `path=/,bucket=96..103` |
//! | a unit, if [described](metrics::describe_counter) before the first use | the metric's units |
//! | a description | its help text, up to 255 bytes |
//!
//! | if | then |
//! |---|---|
//! | a name has other characters than letters, digits, `_` and `.`, or an empty part | they become `_x`, their bytes in hexadecimal, and `_`: `a b` is `a_x20_b`, `a-b` is `a_x2d_b`, `a::b` is `a_x3a3a_b`, `2xx` is `x32_xx`. What looks like this in a name is escaped itself, and so is `_by` at its end: no two names become one. The long help text has the name |
//! | a name is the start of another's, as `http` of `http.requests` | PCP cannot have both. The second one is escaped without dots, `http_x2e_requests` or `http_x2e_`, and one line on standard error names both |
//! | a name takes more than 200 bytes | it is cut, with a checksum at its end |
//! | a name is used for two kinds of metric, or there is no room left | no reader sees the second one, and one line on standard error names both, or gives the reason |
//!
//! So a name does not depend on which use came first, with the one exception above.
//!
//! **Histograms** are sorted by [`Buckets`](mmv_writer::Buckets) of whole numbers. Values described as
//! times are kept in nanoseconds, as sizes in bytes, as counts in ones, all others in millionths
//! (`count x 10^-6`). A bucket is named by its first and last value, and registered when it is
//! first hit, in room that the file keeps for it. Negative values count as 0, NaN does not count.
//! `mmv-archive report --quantile 0.5,0.99` has the quantiles of each set of labels, for any window
//! of an archive.
//!
//! **Limits** are those of the [`Registry`] and, for the sets of labels of a metric, of a family
//! or [`RecorderBuilder::max_series`]. Sets of labels without a place are counted in the
//! metric's instance `overflow`, with the label `{"overflow":true}`, for which the file keeps room:
//! the sum for counters, the last value set and what is added and subtracted for gauges, a histogram
//! for histograms. One line on standard error says so. To find it takes a lock.
//!
//! **Idle series** stay as long as the program, unless
//! [`RecorderBuilder::idle_timeout`] sets a time.
//!
//! # What it costs
//!
//! A handle that is kept, as in `let requests = counter!("requests");`, adds by one
//! indirect call and one atomic instruction. A macro that is run each time looks
//! its key up first, under a lock that threads share. `ci/bench writer` measures both.
//!
//! # It never fails the application
//!
//! What cannot be registered counts without readers, and one line on standard error gives the
//! reason. Where no file can be made, a [lenient](mmv_writer::RegistryBuilder::lenient)
//! registry goes on without one.

#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing, clippy::unwrap_used)]

mod builder;
mod cache;
mod idle;
mod labels;
mod measure;
mod names;
mod state;
mod units;

use std::fmt::{self, Display};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use metrics::{Key, KeyName, Metadata, SetRecorderError, SharedString, Unit};
use mmv_writer::Registry;

pub use builder::RecorderBuilder;
use cache::Cache;
use idle::TrackedHandle;
use measure::{FacadeCounter, FacadeGauge, FacadeHistogram, Measure};
use state::State;

/// Limit on the lines that are printed: if one metric does not fit, others do not either.
const WARNINGS: usize = 10;

/// A recorder that counts in a registry. Clones are the same recorder.
#[derive(Clone)]
pub struct Recorder {
    shared: Arc<SharedState>,
}

#[derive(Debug)]
struct SharedState {
    state: Mutex<State>,
    /// Time without updates after which a series is removed.
    idle_timeout: Option<Duration>,
    counters: Cache<CachedHandle<FacadeCounter>>,
    gauges: Cache<CachedHandle<FacadeGauge>>,
    histograms: Cache<CachedHandle<FacadeHistogram>>,
}

/// A handle for the facade.
#[derive(Debug)]
struct CachedHandle<M: Measure> {
    facade: M::Facade,
    /// The series, if it may be removed.
    tracked: Option<Arc<TrackedHandle<M>>>,
}

impl Recorder {
    /// Makes a recorder that counts in the program's registry, beside its other metrics. It
    /// keeps the file as any handle does.
    #[must_use]
    pub fn new(registry: &Registry) -> Self {
        Self::builder(registry).build()
    }

    /// Returns options for a recorder.
    pub fn builder(registry: &Registry) -> RecorderBuilder {
        RecorderBuilder::new(registry.clone())
    }

    /// Installs the recorder for the whole program. It is never dropped: where the file is to be
    /// removed at the end of `main`, call [`Registry::withdraw`].
    ///
    /// # Errors
    ///
    /// Fails if a recorder is installed already.
    pub fn install(self) -> Result<(), SetRecorderError<Self>> {
        metrics::set_global_recorder(self)
    }
}

impl SharedState {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the handle of a key, from the cache or new; `None` if it cannot be made.
    fn handle<M: Measure>(
        self: &Arc<Self>,
        cache: &Cache<CachedHandle<M>>,
        key: &Key,
    ) -> Option<M::Facade>
    where
        M::Facade: From<Arc<TrackedHandle<M>>>,
    {
        let known = cache.get(key, CachedHandle::facade);
        if known.is_some() {
            return known;
        }
        let mut state = self.state();
        // Another thread may have come first.
        let known = cache.get(key, CachedHandle::facade);
        if known.is_some() {
            return known;
        }
        let given = state.series::<M>(key).inspect_err(warning).ok()?;
        if given.is_overflow {
            // Not kept: there may be any number of such keys.
            return Some(Arc::new(given.handle).into());
        }
        let (facade, tracked) = if self.idle_timeout.is_some() && given.remove.is_some() {
            let tracked = Arc::new(TrackedHandle::new(Arc::downgrade(self), key, given));
            (M::Facade::from(Arc::clone(&tracked)), Some(tracked))
        } else {
            (Arc::new(given.handle).into(), None)
        };
        cache.insert(key, CachedHandle { facade: facade.clone(), tracked });
        Some(facade)
    }

    /// Removes series without updates.
    fn expire(&self, idle: Duration) {
        // No series is made meanwhile.
        let _state = self.state();
        self.counters.retain(|cached| cached.is_kept(idle));
        self.gauges.retain(|cached| cached.is_kept(idle));
        self.histograms.retain(|cached| cached.is_kept(idle));
    }
}

impl<M: Measure> CachedHandle<M> {
    fn facade(&self) -> M::Facade {
        self.facade.clone()
    }

    /// Removes the series if it had no update for this long. Returns whether the handle is kept:
    /// always if the program has it, too, so that a series has only one.
    fn is_kept(&self, idle: Duration) -> bool {
        let Some(tracked) = &self.tracked else { return true };
        // This one and the facade's refer to it.
        !tracked.expire(idle) || Arc::strong_count(tracked) > 2
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").finish_non_exhaustive()
    }
}

impl metrics::Recorder for Recorder {
    fn describe_counter(&self, key: KeyName, unit: Option<Unit>, text: SharedString) {
        self.shared.state().describe(key.as_str(), unit, &text);
    }

    fn describe_gauge(&self, key: KeyName, unit: Option<Unit>, text: SharedString) {
        self.shared.state().describe(key.as_str(), unit, &text);
    }

    fn describe_histogram(&self, key: KeyName, unit: Option<Unit>, text: SharedString) {
        self.shared.state().describe(key.as_str(), unit, &text);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> metrics::Counter {
        let handle = self.shared.handle(&self.shared.counters, key);
        handle.unwrap_or_else(metrics::Counter::noop)
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> metrics::Gauge {
        let handle = self.shared.handle(&self.shared.gauges, key);
        handle.unwrap_or_else(metrics::Gauge::noop)
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> metrics::Histogram {
        let handle = self.shared.handle(&self.shared.histograms, key);
        handle.unwrap_or_else(metrics::Histogram::noop)
    }
}

/// Prints a line about a metric that is not published as the program may expect. A closed
/// standard error is no reason to fail.
fn warning(text: &impl Display) {
    static WRITTEN: AtomicUsize = AtomicUsize::new(0);
    if WRITTEN.fetch_add(1, Ordering::Relaxed) < WARNINGS {
        mmv_writer::warn(&format!("metrics: {text}\n"));
    }
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

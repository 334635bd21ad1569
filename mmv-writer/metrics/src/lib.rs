//! A recorder for the [`metrics`] facade: it writes what a program and its
//! libraries count with `counter!`, `gauge!` and `histogram!` to a file of
//! Performance Co-Pilot's MMV format, which `mmv-agent` and PCP's own programs
//! read.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let shop = mmv_writer::Registry::builder("shop").directory(directory.path());
//! // Or `Recorder::new("shop")?`, for this machine's MMV directory.
//! let _published = mmv_metrics::Recorder::on(shop.live())?.install()?;
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
//! | labels | an instance of that metric, on a domain of its own, named `code=200,path=/`: sorted by key, with a backslash before `,`, `=` and `\` in a label |
//! | each label | also a label of that instance, of counters, gauges and sums, while there is room (255 in a file); `_` takes the place of what is not legal in its name |
//! | labels of a histogram | `a.b_by.bucket` and `a.b_by.sum`, with the labels before the bucket: `path=/,bucket=96..103` |
//! | a unit, if [described](metrics::describe_counter) before the first use | the metric's units |
//! | a description | its help text, up to 255 bytes |
//!
//! | if | then |
//! |---|---|
//! | a name has other characters than letters, digits, `_` and `.`, or an empty part | they become `_x`, their bytes in hexadecimal, and `_`: `a b` is `a_x20_b`, `a-b` is `a_x2d_b`, `a::b` is `a_x3a3a_b`, `2xx` is `x32_xx`. What looks like this in a name is escaped itself, and so is `_by` at its end: no two names become one. The long help text has the name |
//! | a name is the start of another's, as `http` of `http.requests` | PCP cannot have both. The second one is escaped without dots, `http_x2e_requests` or `http_x2e_`, and one line on standard error names both |
//! | a name takes more than 200 bytes | it is cut, with a checksum at its end |
//! | the labels take more than 200 bytes | the name of the instance is cut, with a checksum at its end |
//! | a name is used for two kinds of metric, or there is no room left | no reader sees the second one, and one line on standard error names both, or gives the reason |
//!
//! So a name does not depend on which use came first, with the one exception above.
//!
//! **Histograms** are sorted by [`Buckets`] of whole numbers. Values described as
//! times are kept in nanoseconds, as sizes in bytes, as counts in ones, all others
//! in millionths (`count x 10^-6`). A bucket is named by its first and last
//! value, and made when it is first hit. Negative values count as 0, NaN does not
//! count. `mmv-archive report --quantile 0.5,0.99` has the quantiles of each set of
//! labels, for any window of an archive.
//!
//! **Limits** are those of a [`LiveRegistry`](mmv_writer::LiveRegistry), unless the
//! builder given to [`Recorder::on`] sets others. Of its 65 536 instances each metric
//! with labels keeps one. Where there is no room for more, or more than
//! [`RecorderBuilder::max_series`] sets, the metric's instance `overflow`, with the
//! label `{"overflow":true}`, counts all sets of labels without a place: the sum for
//! counters, the last value set and what is added and subtracted for gauges. For the
//! buckets of a histogram it is `overflow,bucket=0..`. No labels have these names. One
//! line on standard error says so. To count there takes a lock.
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
//! Where no file can be made, handles count without a file, and one line on standard
//! error gives the reason. Only a wrong file name and a second recorder are errors.

#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing, clippy::unwrap_used)]

mod builder;
mod cache;
mod handles;
mod idle;
mod measure;
mod names;
mod series;
mod state;
mod units;

use std::fmt::{self, Display};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use metrics::{Key, KeyName, Metadata, SetRecorderError, SharedString, Unit};
use mmv_writer::{Buckets, Error, LiveBuilder, Registry};

pub use builder::RecorderBuilder;
use cache::Cache;
use handles::{Counting, Gauging, Recording};
use idle::Tracked;
use measure::Measure;
use state::State;

/// The most lines that are written: where one metric does not fit, others do not.
const WARNINGS: usize = 10;

/// A recorder that writes to one file. Clones are the same recorder.
#[derive(Clone)]
pub struct Recorder {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// After this time without updates a series is removed.
    idle_timeout: Option<Duration>,
    counters: Cache<Slot<Counting>>,
    gauges: Cache<Slot<Gauging>>,
    histograms: Cache<Slot<Recording>>,
}

/// A handle as the facade gets it.
#[derive(Debug)]
enum Slot<M> {
    Plain(Arc<M>),
    Tracked(Arc<Tracked<M>>),
}

impl<M> Clone for Slot<M> {
    fn clone(&self) -> Self {
        match self {
            Self::Plain(handle) => Self::Plain(Arc::clone(handle)),
            Self::Tracked(handle) => Self::Tracked(Arc::clone(handle)),
        }
    }
}

/// An installed recorder's file. Dropping it withdraws the file; no reader sees what
/// the program counts after that.
#[must_use = "dropping this withdraws the file"]
#[derive(Debug)]
pub struct Installed {
    recorder: Recorder,
}

impl Recorder {
    /// A recorder for the file `name` in this machine's MMV directory. Continues
    /// without a file if the system refuses one, or if another running process has it.
    ///
    /// # Errors
    ///
    /// [`Error::FileName`] or [`Error::Length`] for the name.
    pub fn new(name: impl Into<String>) -> Result<Self, Error> {
        Self::on(Registry::builder(name).lenient().live())
    }

    /// A recorder for a file with options of the program's.
    ///
    /// # Errors
    ///
    /// As [`LiveBuilder::build`].
    pub fn on(file: LiveBuilder) -> Result<Self, Error> {
        Self::builder(file).build()
    }

    /// As [`on`](Self::on), with other buckets for histograms, in the units that the crate's
    /// documentation states.
    ///
    /// # Errors
    ///
    /// As [`LiveBuilder::build`].
    pub fn with_buckets(file: LiveBuilder, buckets: Buckets) -> Result<Self, Error> {
        Self::builder(file).buckets(buckets).build()
    }

    /// Options for a recorder.
    pub fn builder(file: LiveBuilder) -> RecorderBuilder {
        RecorderBuilder::new(file)
    }

    /// Makes it the recorder of the whole program.
    ///
    /// # Errors
    ///
    /// There is one already.
    pub fn install(self) -> Result<Installed, SetRecorderError<Self>> {
        metrics::set_global_recorder(self.clone())?;
        Ok(Installed { recorder: self })
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The handle of a key, from the cache or new; `None` if there can be none.
    fn handle<M: Measure>(self: &Arc<Self>, cache: &Cache<Slot<M>>, key: &Key) -> Option<Slot<M>> {
        if let Some(handle) = cache.get(key) {
            return Some(handle);
        }
        let mut state = self.state();
        // Another thread may have come first.
        if let Some(handle) = cache.get(key) {
            return Some(handle);
        }
        let given = M::make(&mut state, key)?.inspect_err(warning).ok()?;
        if given.is_overflow {
            // Not kept: there may be any number of such keys.
            return Some(Slot::Plain(Arc::new(given.handle)));
        }
        let slot = if self.idle_timeout.is_some() && given.instance.is_some() {
            Slot::Tracked(Arc::new(Tracked::new(Arc::downgrade(self), key, given)))
        } else {
            Slot::Plain(Arc::new(given.handle))
        };
        cache.insert(key, slot.clone());
        Some(slot)
    }

    /// Removes series without updates; `false` when the file is withdrawn.
    fn expire(&self, idle: Duration) -> bool {
        let state = self.state();
        if state.registry.is_none() {
            return false;
        }
        self.counters.retain(|slot| slot.is_kept(&state, idle));
        self.gauges.retain(|slot| slot.is_kept(&state, idle));
        self.histograms.retain(|slot| slot.is_kept(&state, idle));
        true
    }
}

impl<M: Measure> Slot<M> {
    /// Removes the series if it had no update for this long. Whether the handle is kept:
    /// always where the program has it, too, so that a series has only one.
    fn is_kept(&self, state: &State, idle: Duration) -> bool {
        match self {
            Self::Plain(_) => true,
            Self::Tracked(handle) => !handle.expire(state, idle) || Arc::strong_count(handle) > 1,
        }
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        let registry = self.recorder.shared.state().registry.take();
        drop(registry);
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
        match self.shared.handle(&self.shared.counters, key) {
            Some(Slot::Plain(handle)) => metrics::Counter::from_arc(handle),
            Some(Slot::Tracked(handle)) => metrics::Counter::from_arc(handle),
            None => metrics::Counter::noop(),
        }
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> metrics::Gauge {
        match self.shared.handle(&self.shared.gauges, key) {
            Some(Slot::Plain(handle)) => metrics::Gauge::from_arc(handle),
            Some(Slot::Tracked(handle)) => metrics::Gauge::from_arc(handle),
            None => metrics::Gauge::noop(),
        }
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> metrics::Histogram {
        match self.shared.handle(&self.shared.histograms, key) {
            Some(Slot::Plain(handle)) => metrics::Histogram::from_arc(handle),
            Some(Slot::Tracked(handle)) => metrics::Histogram::from_arc(handle),
            None => metrics::Histogram::noop(),
        }
    }
}

/// Prints what is not published as the program may expect it; a closed standard error
/// is no reason to fail.
fn warning(text: &impl Display) {
    static WRITTEN: AtomicUsize = AtomicUsize::new(0);
    if WRITTEN.fetch_add(1, Ordering::Relaxed) < WARNINGS {
        mmv_writer::warn(&format!("metrics: {text}\n"));
    }
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

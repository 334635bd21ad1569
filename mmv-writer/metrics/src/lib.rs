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
//! | labels | an instance of the metric, on a domain of this metric's own, named `code=200,path=/`: sorted by key, with a backslash before `,`, `=` and `\` in a label |
//! | each label | also a label of that instance, of counters and gauges, while there is room (255 in a file) |
//! | labels of a histogram | the same, followed by the bucket: `path=/,bucket=96..103` |
//! | a unit, if [described](metrics::describe_counter) before the first use | the metric's units |
//! | a description | its help text, up to 255 bytes |
//!
//! | if | then |
//! |---|---|
//! | a name has other characters than letters, digits, `_` and `.` | each becomes `_`; `m_` comes before a name that does not start with a letter |
//! | a name is used with labels and without them | the second one has `_labelled` or `_plain` appended |
//! | a name is the start of another's, as `http` of `http.requests` | the second one has `_` for its dots |
//! | the labels take more than 200 bytes | the name of the instance is cut, with a checksum at its end |
//! | two names become one, a name is used for two kinds of metric, or there is no room left | no reader sees it, and one line on standard error gives the reason |
//!
//! **Histograms** are sorted by [`Buckets`] of whole numbers. Values described as
//! times are kept in nanoseconds, as sizes in bytes, as counts in ones, all others
//! in millionths (`count x 10^-6`). A bucket is named by its first and last
//! value, and made when it is first hit. Negative values count as 0, NaN does not
//! count. `mmv-archive report --quantile 0.5,0.99` has the quantiles of each set of
//! labels, for any window of an archive.
//!
//! **Limits** are those of a [`LiveRegistry`](mmv_writer::LiveRegistry), 65 536
//! instances for example, unless the builder given to [`Recorder::on`] sets
//! others. An instance stays as long as the program.
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

mod cache;
mod handles;
mod names;
mod state;
mod units;

use std::fmt;
use std::io::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use metrics::{Key, KeyName, Metadata, SetRecorderError, SharedString, Unit};
use mmv_writer::{Buckets, Error, LiveBuilder, Registry};

use cache::Cache;
use handles::{Counting, Gauging};
use state::State;

/// How histograms are sorted: off by at most 6.3 %, up to the largest number.
const BUCKETS: Buckets = Buckets::new(3, u64::MAX);

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
    counters: Cache<Arc<Counting>>,
    gauges: Cache<Arc<Gauging>>,
    histograms: Cache<Arc<handles::Recording>>,
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
    /// without a file if the system refuses one.
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
        Self::with_buckets(file, BUCKETS)
    }

    /// The same with other buckets for histograms, in the units that the crate's
    /// documentation states.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn with_buckets(file: LiveBuilder, buckets: Buckets) -> Result<Self, Error> {
        let state = Mutex::new(State::new(file.build()?, buckets));
        let (counters, gauges) = (Cache::default(), Cache::default());
        let histograms = Cache::default();
        Ok(Self { shared: Arc::new(Shared { state, counters, gauges, histograms }) })
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

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The handle of a key, from the cache or new; `None` if there can be none.
    fn handle<H>(
        &self,
        cache: &Cache<Arc<H>>,
        key: &Key,
        make: impl FnOnce(&mut State) -> Option<Result<H, Error>>,
    ) -> Option<Arc<H>> {
        if let Some(handle) = cache.get(key) {
            return Some(handle);
        }
        let mut state = self.state();
        // Another thread may have come first.
        if let Some(handle) = cache.get(key) {
            return Some(handle);
        }
        let handle = make(&mut state)?.inspect_err(warning).ok()?;
        let handle = Arc::new(handle);
        cache.insert(key, Arc::clone(&handle));
        Some(handle)
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        let registry = self.recorder.state().registry.take();
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
        self.state().describe(key.as_str(), unit, &text);
    }

    fn describe_gauge(&self, key: KeyName, unit: Option<Unit>, text: SharedString) {
        self.state().describe(key.as_str(), unit, &text);
    }

    fn describe_histogram(&self, key: KeyName, unit: Option<Unit>, text: SharedString) {
        self.state().describe(key.as_str(), unit, &text);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> metrics::Counter {
        let make = |state: &mut State| Some(state.counter(key)?.map(Counting::new));
        let handle = self.handle(&self.shared.counters, key, make);
        handle.map_or_else(metrics::Counter::noop, metrics::Counter::from_arc)
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> metrics::Gauge {
        let make = |state: &mut State| Some(state.gauge(key)?.map(Gauging));
        let handle = self.handle(&self.shared.gauges, key, make);
        handle.map_or_else(metrics::Gauge::noop, metrics::Gauge::from_arc)
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> metrics::Histogram {
        let handle = self.handle(&self.shared.histograms, key, |state| state.histogram(key));
        handle.map_or_else(metrics::Histogram::noop, metrics::Histogram::from_arc)
    }
}

/// Prints why a metric is not published; a closed standard error is no reason to fail.
fn warning(error: &Error) {
    static WRITTEN: AtomicUsize = AtomicUsize::new(0);
    if WRITTEN.fetch_add(1, Ordering::Relaxed) < WARNINGS {
        let _ = writeln!(std::io::stderr(), "metric not published: {error}");
    }
}

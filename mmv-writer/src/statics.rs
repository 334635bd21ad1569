//! Metrics in statics, which need no handle that is passed around.
//!
//! A static counts in a private handle, under a lock, until it is registered; then what
//! it has counted is added to the registered handle, which replaces the private one for
//! good. The lock decides for each update whether it comes before that or after it, so
//! none is lost. Afterwards an update is that of the handle, after one load that finds it
//! there.
//!
//! Statics are not collected by the linker or before `main` (as by `linkme` or
//! `inventory`): unused metrics of all linked libraries would fill the file.

mod guards;
mod program;

use std::fmt;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use pcp_types::Units;

use crate::derived::Description;
use crate::metric::{Buckets, Counter, Gauge, Histogram, Number, Timer};
use crate::published::warn;
use crate::{Error, Registry};
use guards::Timed;
pub use guards::{StaticGaugeGuard, StaticTiming};
use program::{Late, first_use};

/// Limit of the format on names and help texts, in bytes.
const MAX_TEXT: usize = 255;

/// A metric in a `static`, used from anywhere.
///
/// ```
/// use mmv_writer::{Counter, Gauge, Histogram, Registry, Static, Units};
///
/// static REQUESTS: Static<Counter> =
///     Static::counter("requests").units(Units::count()).help("requests answered");
/// static LATENCY: Static<Histogram> = Static::histogram("latency").units(Units::microseconds());
///
/// fn answer() {
///     let _timing = LATENCY.start();
///     REQUESTS.inc();
/// }
///
/// # fn main() -> Result<(), mmv_writer::Error> {
/// # let directory = tempfile::tempdir().unwrap();
/// answer(); // is counted, too
/// # /*
/// let registry = Registry::new("shop")?;
/// # */
/// # let registry = Registry::builder("shop").directory(directory.path()).build()?;
/// answer();
/// assert_eq!((REQUESTS.value(), LATENCY.count()), (2, 2));
/// # Ok(())
/// # }
/// ```
///
/// # Registration
///
/// No code runs before `main`. A static is registered
///
/// * in the first registry that the program makes: when that is made if the static was used
///   before, else at its first use. A static that is never used is not there, so libraries
///   can have as many as they like. When that registry is withdrawn, the next one that is
///   made takes those that are not registered yet;
/// * or by [`Static::register`], in any registry: for metrics that are to be 0 before their
///   first use, for those that have to be registered, and for sealed registries, which take
///   no others.
///
/// It stays in its first registry, and does not keep its file: that is withdrawn with the
/// registry and the other handles. If it cannot be registered at its first use, one line
/// on standard error gives the reason, and it counts without readers.
///
/// # What is counted before
///
/// Nothing is lost: counters, timers and histograms add what they have counted to the
/// registered metric, a gauge has its last value there. Such an update takes a lock.
///
/// # Cost
///
/// After registration an update is that of the handle after a load, a test and a branch:
/// on x86-64 [`Counter::add`] is two instructions through a handle, five through a static.
///
/// # Names
///
/// A name or a help text that is not legal is a compile error:
///
/// ```compile_fail
/// use mmv_writer::{Counter, Gauge, Static};
///
/// static REQUESTS: Static<Counter> = Static::counter("requests per second");
/// ```
///
/// After a fork, statics of the child count for the child alone, as other handles.
pub struct Static<H: 'static> {
    published: OnceLock<H>,
    before: Mutex<Before<H>>,
    about: About,
}

/// The state of a static before it is registered.
struct Before<H> {
    /// The private handle, made at the first use.
    handle: Option<H>,
    /// True if the program's registry, if there is one, knows the static.
    is_known: bool,
}

/// Name and description of a static.
#[derive(Debug, Clone, Copy)]
pub struct About {
    name: &'static str,
    help: Option<&'static str>,
    units: Option<Units>,
    buckets: Option<Buckets>,
}

impl About {
    fn description(&self) -> Description<'static> {
        Description {
            prefix: "",
            name: self.name,
            help: self.help,
            long_help: None,
            units: self.units,
            semantics: None,
            buckets: self.buckets,
            max_series: None,
            item: None,
            isolated: false,
            labels: Vec::new(),
        }
    }

    fn buckets(&self) -> Buckets {
        self.buckets.unwrap_or(Buckets::for_units(self.units.unwrap_or(Units::NONE)))
    }
}

/// Handles that a static can have. Implemented here only.
pub trait InStatic: sealed::InStatic + Send + Sync {}

mod sealed {
    use super::About;
    use crate::derived::Field;

    /// Operations of a static on its handle.
    pub trait InStatic: Field {
        /// Makes a handle that no reader sees.
        fn private(about: &About) -> Self;

        /// Adds what a private handle has counted to this new handle.
        fn take_over(&self, from: &Self);
    }
}

impl<T: Number> InStatic for Counter<T> {}
impl<T: Number> InStatic for Gauge<T> {}
impl InStatic for Timer {}
impl InStatic for Histogram {}

impl<T: Number> sealed::InStatic for Counter<T> {
    fn private(_: &About) -> Self {
        Self::noop()
    }

    fn take_over(&self, from: &Self) {
        self.add(from.value());
    }
}

impl<T: Number> sealed::InStatic for Gauge<T> {
    fn private(_: &About) -> Self {
        Self::noop()
    }

    fn take_over(&self, from: &Self) {
        self.set(from.value());
    }
}

impl sealed::InStatic for Timer {
    fn private(_: &About) -> Self {
        Self::noop()
    }

    fn take_over(&self, from: &Self) {
        self.add(from.value());
    }
}

impl sealed::InStatic for Histogram {
    fn private(about: &About) -> Self {
        Self::private(about.buckets(), about.units.unwrap_or(Units::NONE))
    }

    fn take_over(&self, from: &Self) {
        self.add_all(from);
    }
}

/// Checks a name when it is compiled: as `pcp_types::names::is_metric_name`.
const fn checked_name(name: &'static str) -> &'static str {
    let bytes = name.as_bytes();
    assert!(!bytes.is_empty() && bytes.len() <= MAX_TEXT, "a metric name has 1 to 255 bytes");
    assert!(bytes[0].is_ascii_alphabetic(), "a metric name begins with a letter");
    let mut at = 0;
    while at < bytes.len() {
        let (byte, is_last) = (bytes[at], at + 1 == bytes.len());
        if byte == b'.' {
            assert!(
                !is_last && bytes[at + 1] != b'.',
                "a metric name has single dots inside of it"
            );
        } else {
            let is_legal = byte.is_ascii_alphanumeric() || byte == b'_';
            assert!(is_legal, "a metric name has letters, digits, `_` and dots");
        }
        at += 1;
    }
    name
}

impl<H: 'static> Static<H> {
    const fn new(name: &'static str) -> Self {
        let about = About { name: checked_name(name), help: None, units: None, buckets: None };
        let before = Mutex::new(Before { handle: None, is_known: false });
        Self { published: OnceLock::new(), before, about }
    }

    /// Sets the one-line help text, at most 255 bytes.
    ///
    /// # Panics
    ///
    /// For a longer one: in a `static` that is a compile error.
    #[must_use]
    pub const fn help(mut self, text: &'static str) -> Self {
        assert!(text.len() <= MAX_TEXT, "a help text has at most 255 bytes");
        self.about.help = Some(text);
        self
    }

    /// Returns the metric's name, without that of its file.
    pub const fn name(&self) -> &'static str {
        self.about.name
    }
}

impl<H: InStatic> Static<H> {
    /// Registers the metric with what it has counted; does nothing if it is registered.
    ///
    /// # Errors
    ///
    /// The errors of [`MetricBuilder::build`](crate::MetricBuilder::build). The metric then
    /// counts on without readers.
    pub fn register(&'static self, registry: &Registry) -> Result<(), Error> {
        let mut before = self.before();
        if self.published.get().is_none() {
            // A static is never dropped, and must not keep the file.
            let handle = H::register(&registry.downgrade(), self.about.description())?;
            if let Some(private) = &before.handle {
                handle.take_over(private);
            }
            before.is_known = true;
            // Under the lock, so nobody was faster.
            let _ = self.published.set(handle);
        }
        Ok(())
    }

    fn before(&self) -> MutexGuard<'_, Before<H>> {
        self.before.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `work` with the handle.
    #[inline]
    fn with<R>(&'static self, work: impl FnOnce(&H) -> R) -> R {
        match self.published.get() {
            Some(handle) => work(handle),
            None => self.with_late(work),
        }
    }

    /// Calls `work` with the private handle, or with the registered one if there is one by now: the
    /// first use may register the static.
    #[cold]
    #[inline(never)]
    fn with_late<R>(&'static self, work: impl FnOnce(&H) -> R) -> R {
        let is_first = !std::mem::replace(&mut self.before().is_known, true);
        if is_first {
            first_use(self);
        }
        let mut before = self.before();
        match self.published.get() {
            Some(handle) => {
                drop(before);
                work(handle)
            }
            None => work(before.handle.get_or_insert_with(|| H::private(&self.about))),
        }
    }
}

impl<H: InStatic> Late for Static<H> {
    fn register_late(&'static self, registry: &Registry) {
        if let Err(error) = self.register(registry) {
            warn(&format!("static metric {}: {error}\n", self.about.name));
        }
    }
}

impl<H: fmt::Debug> fmt::Debug for Static<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Static");
        debug.field("name", &self.about.name).field("published", &self.published.get());
        debug.finish_non_exhaustive()
    }
}

impl<T: Number> Static<Counter<T>> {
    /// Makes a counter. The name is of letters, digits, `_` and single dots, starts with a letter
    /// and has at most 255 bytes.
    pub const fn counter(name: &'static str) -> Self {
        Self::new(name)
    }

    /// Sets the units; without this, a plain number.
    #[must_use]
    pub const fn units(mut self, units: Units) -> Self {
        self.about.units = Some(units);
        self
    }

    /// Adds a number as [`Counter::add`] does.
    #[inline]
    pub fn add(&'static self, delta: T) {
        self.with(|counter| counter.add(delta));
    }

    /// Adds one as [`Counter::inc`] does.
    #[inline]
    pub fn inc(&'static self) {
        self.with(Counter::inc);
    }

    /// Returns the current count.
    pub fn value(&'static self) -> T {
        self.with(Counter::value)
    }
}

impl<T: Number> Static<Gauge<T>> {
    /// Makes a gauge. The name is as for [`Static::counter`].
    pub const fn gauge(name: &'static str) -> Self {
        Self::new(name)
    }

    /// Sets the units; without this, a plain number.
    #[must_use]
    pub const fn units(mut self, units: Units) -> Self {
        self.about.units = Some(units);
        self
    }

    /// Replaces the value as [`Gauge::set`] does.
    #[inline]
    pub fn set(&'static self, value: T) {
        self.with(|gauge| gauge.set(value));
    }

    /// Adds to the value as [`Gauge::add`] does.
    #[inline]
    pub fn add(&'static self, delta: T) {
        self.with(|gauge| gauge.add(delta));
    }

    /// Subtracts from the value as [`Gauge::sub`] does.
    #[inline]
    pub fn sub(&'static self, delta: T) {
        self.with(|gauge| gauge.sub(delta));
    }

    /// Raises the value as [`Gauge::set_max`] does.
    #[inline]
    pub fn set_max(&'static self, value: T) {
        self.with(|gauge| gauge.set_max(value));
    }

    /// Adds one, and subtracts it when the guard is dropped: for what is in progress.
    #[must_use = "one is subtracted when this is dropped"]
    pub fn guard(&'static self) -> StaticGaugeGuard<T> {
        StaticGaugeGuard::new(self)
    }

    /// Returns the current value.
    pub fn value(&'static self) -> T {
        self.with(Gauge::value)
    }
}

impl Static<Timer> {
    /// Makes a timer: the total time of activities. The name is as for [`Static::counter`].
    pub const fn timer(name: &'static str) -> Self {
        Self::new(name)
    }

    /// Adds a time as [`Timer::add`] does.
    #[inline]
    pub fn add(&'static self, time: Duration) {
        self.with(|timer| timer.add(time));
    }

    /// Starts an activity, which ends when the guard is dropped.
    #[must_use = "the time is taken when this is dropped"]
    pub fn start(&'static self) -> StaticTiming {
        StaticTiming::new(Timed::Timer(self))
    }

    /// Runs `work` as an activity.
    pub fn time<R>(&'static self, work: impl FnOnce() -> R) -> R {
        let _timing = self.start();
        work()
    }

    /// Returns the time of all activities that have ended.
    pub fn value(&'static self) -> Duration {
        self.with(Timer::value)
    }
}

impl Static<Histogram> {
    /// Makes a histogram. The name is as for [`Static::counter`].
    pub const fn histogram(name: &'static str) -> Self {
        Self::new(name)
    }

    /// Sets the units of the values; without this, a plain number.
    #[must_use]
    pub const fn units(mut self, units: Units) -> Self {
        self.about.units = Some(units);
        self
    }

    /// Sets the buckets; without this, [`Buckets::for_units`].
    #[must_use]
    pub const fn buckets(mut self, buckets: Buckets) -> Self {
        self.about.buckets = Some(buckets);
        self
    }

    /// Counts a value as [`Histogram::record`] does.
    #[inline]
    pub fn record(&'static self, value: u64) {
        self.with(|histogram| histogram.record(value));
    }

    /// Counts a time as [`Histogram::record_duration`] does.
    #[inline]
    pub fn record_duration(&'static self, time: Duration) {
        self.with(|histogram| histogram.record_duration(time));
    }

    /// Starts to measure a time, which is recorded when the guard is dropped.
    #[must_use = "the time is recorded when this is dropped"]
    pub fn start(&'static self) -> StaticTiming {
        StaticTiming::new(Timed::Histogram(self))
    }

    /// Records the time that `work` takes, also if it panics.
    pub fn time<R>(&'static self, work: impl FnOnce() -> R) -> R {
        let _timing = self.start();
        work()
    }

    /// Returns the number of recorded values: the sum of the buckets.
    pub fn count(&'static self) -> u64 {
        self.with(Histogram::count)
    }

    /// Returns the sum of all values, modulo 2^64.
    pub fn sum(&'static self) -> u64 {
        self.with(Histogram::sum)
    }
}

#[cfg(test)]
mod tests;

//! Metrics with a series for each set of labels.

mod histogram;
mod kind;
mod name;
mod named;
mod scoped;

use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossbeam_utils::sync::{ShardedLock, ShardedLockReadGuard, ShardedLockWriteGuard};
use hashbrown::HashMap;

use crate::builder::MetricBuilder;
use crate::live::ReleasedHandles;
use crate::mapping::Owner;
use crate::metric::{Handle, ValueSlot};
use crate::registration::MetricSpec;
use crate::{Error, Label, Registry};
pub use kind::SeriesHandle;
use kind::{Creation, OverflowSeries, SeriesMetric};
use name::{InstanceName, legal_label_name};
pub use named::NamedFamily;
pub use scoped::ScopedHandle;

/// Default limit on the series of a family. It leaves room for other metrics if a program labels
/// by something unbounded, such as the addresses of clients.
const DEFAULT_MAX_SERIES: usize = 10_000;

/// As [`DEFAULT_MAX_SERIES`] for histograms, of which each has an instance for each bucket in use.
const DEFAULT_MAX_HISTOGRAMS: usize = 1_000;

/// A set of labels with values, for which a [`Family`] has a series.
///
/// `#[derive(Labels)]` implements it for a struct with named fields. Each field is a label; its
/// value is what the field prints, so that any [`Display`](fmt::Display) will do: texts,
/// numbers, enums of the program.
///
/// ```
/// use mmv_writer::Labels;
///
/// #[derive(Labels, Clone, PartialEq, Eq, Hash)]
/// struct Route {
///     endpoint: &'static str,
///     code: u16,
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a set of labels",
    note = "add `#[derive(mmv_writer::Labels, Clone, PartialEq, Eq, Hash)]` to it"
)]
pub trait Labels: Clone + Eq + Hash + Send + Sync + 'static {
    /// Calls `visit` with the name and the value of each label, of which there is at least one.
    /// A label's name has letters, digits and `_`: the label attached to the instance has `_` in
    /// place of other characters.
    fn visit<'l>(&'l self, visit: &mut dyn FnMut(&'l str, &dyn fmt::Display));
}

/// A metric with a series for each set of labels, each made when it is first used. Clones are
/// the same metric.
///
/// ```
/// use mmv_writer::{Family, Gauge, Labels, Registry};
///
/// #[derive(Labels, Clone, PartialEq, Eq, Hash)]
/// struct Route {
///     endpoint: &'static str,
///     code: u16,
/// }
///
/// # fn main() -> Result<(), mmv_writer::Error> {
/// # let directory = tempfile::tempdir().unwrap();
/// # let registry = Registry::builder("shop").directory(directory.path()).build()?;
/// let requests: Family<Route> = registry.counter("requests").build_family()?;
/// requests.get(&Route { endpoint: "/cart", code: 200 }).inc();
/// # Ok(())
/// # }
/// ```
///
/// In the file a series is an instance named `endpoint=/cart,code=200`, with a backslash before
/// `,`, `=` and `\` in a value and `\0` for a NUL, so that no two sets of labels have the same
/// name. A name of more than 255 bytes is cut, with a checksum at its end. The labels are also
/// attached to the instance, as long as the file has room: it takes 255 labels of all instances
/// together. A family of [histograms](crate::HistogramBuilder::build_family) has such an instance
/// for the sum of each series, and more for its buckets.
///
/// # Cardinality
///
/// Each set of labels that was ever used is a series, which takes memory here and in each
/// reader. So labels are for what has few values (an endpoint, a status), not for what has
/// any number (a user, a path with an identifier in it).
///
/// A family has at most 10 000 series, one of histograms 1000, or as many as
/// [`MetricBuilder::max_series`] says, and never more than the file has room for. What is used
/// beyond that is counted in one more series, the instance `overflow`, for which the file keeps
/// room from the registration of the family on: [`get`](Self::get) gives its handle and never
/// fails. [`overflowed`](Self::overflowed) is the number of these calls.
///
/// Series go with [`remove`](Self::remove) and [`retain`](Self::retain), or when the handle
/// that [`scoped`](Self::scoped) gives is dropped. A series that is used again begins from 0,
/// as after a restart of the program; handles from before count without readers.
#[must_use]
pub struct Family<L, H: SeriesHandle = crate::Counter> {
    series: Arc<Series<L, H>>,
}

/// The state that clones of a family share.
///
/// A closure of [`Family::with`] holds `handles` for reading and, when it records in a
/// histogram, waits for the state of the files. So no thread that has that state waits for
/// `handles`. Threads that create or remove series are kept apart by `changing`.
struct Series<L, H: SeriesHandle> {
    metric: Arc<H::Metric>,
    limit: usize,
    /// Look-ups are frequent, additions rare: the lock has several shards, each on a cache line
    /// of its own. A look-up takes the shard of its thread.
    handles: ShardedLock<HashMap<L, H>>,
    changing: Mutex<()>,
    overflow: Arc<OverflowSeries<H>>,
    /// Number of scoped handles by their labels.
    scopes: Mutex<HashMap<L, usize>>,
}

/// A reference that keeps the file of a family and of its handles published.
#[derive(Clone)]
struct FileKeeper(Option<Owner>);

impl FileKeeper {
    fn new(registry: &Registry) -> Self {
        Self(registry.keeper())
    }

    /// Makes the handle on a value keep the file published.
    fn keeping(&self, slot: ValueSlot) -> ValueSlot {
        match &self.0 {
            Some(keeper) => slot.keeping(Arc::clone(keeper)),
            None => slot,
        }
    }
}

impl<L: Labels, H: SeriesHandle> Family<L, H> {
    /// Makes the family of a registered metric.
    fn new(metric: H::Metric, limit: usize) -> Self {
        Self {
            series: Arc::new(Series {
                metric: Arc::new(metric),
                limit,
                handles: ShardedLock::new(HashMap::new()),
                changing: Mutex::new(()),
                overflow: OverflowSeries::new(),
                scopes: Mutex::default(),
            }),
        }
    }

    /// Returns the handle of a set of labels. Keep it where you can; [`with`](Self::with) is
    /// cheaper where you cannot.
    #[doc(alias = "get_or_create")]
    #[doc(alias = "with_label_values")]
    pub fn get(&self, labels: &L) -> H {
        self.with(labels, H::clone)
    }

    /// Calls `borrow` with the handle of a set of labels: the cheapest way to count by labels.
    ///
    /// While `borrow` runs, no other thread can add a series to this metric or remove one;
    /// `borrow` itself must not change the registry, which would deadlock; a histogram's new
    /// bucket is not such a change.
    #[inline]
    pub fn with<R>(&self, labels: &L, borrow: impl FnOnce(&H) -> R) -> R {
        if let Some(handle) = self.series.read().get(labels) {
            return borrow(handle);
        }
        borrow(&self.series.create(labels))
    }

    /// Returns the handle of a set of labels if there is a series.
    pub fn get_existing(&self, labels: &L) -> Option<H> {
        self.series.read().get(labels).cloned()
    }

    /// Returns a handle that removes its series when it is dropped: for what ends, as a
    /// connection does. While there are several for the same labels, the last one does.
    pub fn scoped(&self, labels: &L) -> ScopedHandle<L, H> {
        ScopedHandle::new(self.clone(), labels.clone())
    }

    /// Removes a series; returns whether it existed.
    pub fn remove(&self, labels: &L) -> bool {
        self.series.remove(labels)
    }

    /// Removes the series for which `keep` returns false.
    pub fn retain(&self, mut keep: impl FnMut(&L, &H) -> bool) {
        let mut removed = Vec::new();
        for (labels, handle) in self.series.read().iter() {
            if !keep(labels, handle) {
                removed.push(labels.clone());
            }
        }
        for labels in &removed {
            self.series.remove(labels);
        }
    }

    /// Returns the number of series, without the one named `overflow`.
    pub fn len(&self) -> usize {
        self.series.read().len()
    }

    /// Returns true if there are no series.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of uses of labels that have no series because of the limit.
    pub fn overflowed(&self) -> u64 {
        self.series.overflow.uses()
    }
}

impl<L: Labels, H: SeriesHandle> Series<L, H> {
    fn read(&self) -> ShardedLockReadGuard<'_, HashMap<L, H>> {
        self.handles.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> ShardedLockWriteGuard<'_, HashMap<L, H>> {
        self.handles.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn changing(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates a series, unless another thread has created it.
    #[cold]
    fn create(&self, labels: &L) -> H {
        let changing = self.changing();
        if let Some(handle) = self.read().get(labels) {
            return handle.clone();
        }
        if self.read().len() < self.limit
            && let Some(handle) = self.create_within_limit(labels)
        {
            self.write().insert(labels.clone(), handle.clone());
            return handle;
        }
        drop(changing);
        self.overflow.handle(&self.metric)
    }

    fn create_within_limit(&self, labels: &L) -> Option<H> {
        let pairs = pairs(labels);
        let name = InstanceName::new(&pairs, H::MAX_NAME);
        let SeriesMetric { files, id, .. } = H::series(&self.metric);
        let mut state = files.write();
        let mut creation =
            Creation { state: &mut state, name: name.as_str(), released: ReleasedHandles::new() };
        let handle = H::create(&self.metric, Some(&self.overflow), &mut creation).ok()?;
        for (label, value) in pairs {
            let label = Label::new(legal_label_name(label), value);
            // One that does not fit: the name has it.
            let _ = state.label_instance(id.indom, name.as_str(), label);
        }
        files.announce(&mut state);
        Some(handle)
    }

    fn remove(&self, labels: &L) -> bool {
        let changing = self.changing();
        let removed = self.write().remove(labels);
        let Some(handle) = removed else { return false };
        let SeriesMetric { files, id, .. } = H::series(&self.metric);
        let mut state = files.write();
        let name = InstanceName::new(&pairs(labels), H::MAX_NAME);
        let mut creation =
            Creation { state: &mut state, name: name.as_str(), released: ReleasedHandles::new() };
        handle.remove_parts(&self.metric, &mut creation);
        let parts = creation.released;
        let (was_there, released) = state.remove(id.indom, name.as_str());
        files.announce(&mut state);
        drop(state);
        drop(changing);
        // Only now: the last handle of a registry locks the state.
        drop((handle, parts, released));
        was_there
    }
}

/// Returns the names and values of a set of labels.
fn pairs<L: Labels>(labels: &L) -> Vec<(&str, String)> {
    let mut pairs = Vec::new();
    labels.visit(&mut |name, value| pairs.push((name, value.to_string())));
    pairs
}

impl<L, H: SeriesHandle> Clone for Family<L, H> {
    fn clone(&self) -> Self {
        Self { series: Arc::clone(&self.series) }
    }
}

impl<L, H: SeriesHandle> fmt::Debug for Family<L, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let metric = H::series(&self.series.metric);
        let state = metric.files.read();
        let name = state.family_name(metric.id);
        f.debug_struct("Family").field("name", &name).finish_non_exhaustive()
    }
}

impl<H: Handle + Clone> MetricBuilder<'_, H> {
    /// Sets the limit on the series of a family; 10 000 by default. Others are counted in its
    /// series `overflow`: see [cardinality](Family#cardinality).
    pub fn max_series(mut self, most: usize) -> Self {
        self.max_series = Some(most);
        self
    }

    /// Registers the metric with a series for each set of labels that is used.
    ///
    /// ```
    /// # use mmv_writer::{Family, Gauge, Labels, Registry};
    /// # #[derive(Labels, Clone, PartialEq, Eq, Hash)]
    /// # struct Queue { name: String }
    /// # fn main() -> Result<(), mmv_writer::Error> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let registry = Registry::builder("shop").directory(directory.path()).build()?;
    /// let depth: Family<Queue, Gauge> = registry.gauge("depth").max_series(50).build_family()?;
    /// depth.get(&Queue { name: "mail".to_owned() }).set(3.0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`MetricBuilder::build`], and [`Error::FixedInstances`] in a sealed registry.
    pub fn build_family<L: Labels>(self) -> Result<Family<L, H>, Error> {
        let metric = register_series(self.registry, self.spec, 1)?;
        Ok(Family::new(metric, self.max_series.unwrap_or(DEFAULT_MAX_SERIES)))
    }
}

/// Registers a metric on a domain of its own. Its file keeps room for `promised` instances, those of
/// the series that the others overflow into.
fn register_series(
    registry: &Registry,
    spec: MetricSpec,
    promised: usize,
) -> Result<SeriesMetric, Error> {
    let Some(files) = registry.growing() else {
        return Err(Error::FixedInstances { indom: spec.name.clone(), name: spec.name });
    };
    let id = files.change(|state| state.add_series(spec, promised))?;
    Ok(SeriesMetric { kept: FileKeeper::new(registry), files: Arc::clone(files), id })
}

#[cfg(test)]
mod tests;

//! The handles that a family can have: those on one value, and histograms.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::FileKeeper;
use super::name::MAX;
use crate::live::{FamilyId, GrowingFiles, ReleasedHandles, State};
use crate::metric::{Handle, ValueSlot};
use crate::published::warn;
use crate::{Error, Label};

/// Name of the instance that counts for labels without a series. No set of labels has this name.
const OVERFLOW: &str = "overflow";

/// A handle that a series of a [`Family`](crate::Family) can have: a counter, a gauge, a text, a
/// histogram. Implemented here only.
pub trait SeriesHandle: sealed::SeriesHandle {}

impl<H: Handle + Clone> SeriesHandle for H {}

pub(super) mod sealed {
    use std::sync::Arc;

    use super::{Creation, MAX, OverflowSeries, SeriesMetric};
    use crate::Error;

    pub trait SeriesHandle: Clone + Send + Sync + 'static {
        /// The state of the metric that its series share.
        #[doc(hidden)]
        type Metric: Send + Sync;

        /// Limit on the bytes of the name of a series.
        #[doc(hidden)]
        const MAX_NAME: usize = MAX;

        /// Makes a handle that no reader sees.
        #[doc(hidden)]
        fn private() -> Self;

        /// Returns the metric whose instances are the series.
        #[doc(hidden)]
        fn series(metric: &Self::Metric) -> &SeriesMetric;

        /// Creates a series. `overflow` is `None` for the one that the others overflow into.
        #[doc(hidden)]
        fn create(
            metric: &Arc<Self::Metric>,
            overflow: Option<&Arc<OverflowSeries<Self>>>,
            creation: &mut Creation<'_>,
        ) -> Result<Self, Error>;

        /// Removes what the series has beside its instance in [`series`](Self::series).
        #[doc(hidden)]
        fn remove_parts(&self, metric: &Self::Metric, creation: &mut Creation<'_>);
    }
}

/// A metric in the files of its registry, with an instance for each series.
#[expect(missing_debug_implementations, reason = "only a sealed trait names it")]
pub struct SeriesMetric {
    pub(super) kept: FileKeeper,
    pub(super) files: Arc<GrowingFiles>,
    pub(super) id: FamilyId,
}

/// The locked state of the files, to create or remove the series of this name.
#[expect(missing_debug_implementations, reason = "only a sealed trait names it")]
pub struct Creation<'s> {
    pub(super) state: &'s mut State,
    pub(super) name: &'s str,
    pub(super) released: ReleasedHandles,
}

/// The series that counts for labels without one.
#[expect(missing_debug_implementations, reason = "only a sealed trait names it")]
pub struct OverflowSeries<H> {
    handle: OnceLock<H>,
    uses: AtomicU64,
}

impl<H: sealed::SeriesHandle> OverflowSeries<H> {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { handle: OnceLock::new(), uses: AtomicU64::new(0) })
    }

    /// Returns the handle for one use.
    pub(super) fn handle(&self, metric: &Arc<H::Metric>) -> H {
        self.uses.fetch_add(1, Ordering::Relaxed);
        if let Some(handle) = self.handle.get() {
            return handle.clone();
        }
        let SeriesMetric { files, id, .. } = H::series(metric);
        let mut state = files.write();
        if let Some(handle) = self.handle.get() {
            return handle.clone();
        }
        let mut creation =
            Creation { state: &mut state, name: OVERFLOW, released: ReleasedHandles::new() };
        let handle = match H::create(metric, None, &mut creation) {
            Ok(handle) => {
                let label = Label::new(OVERFLOW, true);
                let _ = state.label_instance(id.indom, OVERFLOW, label);
                files.announce(&mut state);
                handle
            }
            Err(error) => {
                let name = state.family_name(*id);
                warn(&format!("metric {name}: what has no series is not counted: {error}\n"));
                H::private()
            }
        };
        let _ = self.handle.set(handle.clone());
        handle
    }

    pub(super) fn uses(&self) -> u64 {
        self.uses.load(Ordering::Relaxed)
    }
}

impl<H: Handle + Clone> sealed::SeriesHandle for H {
    type Metric = SeriesMetric;

    fn private() -> Self {
        H::from_slot(ValueSlot::private())
    }

    fn series(metric: &SeriesMetric) -> &SeriesMetric {
        metric
    }

    fn create(
        metric: &Arc<SeriesMetric>,
        overflow: Option<&Arc<OverflowSeries<Self>>>,
        creation: &mut Creation<'_>,
    ) -> Result<Self, Error> {
        let Creation { state, name, .. } = creation;
        let slot = match overflow {
            Some(_) => state.create_value(metric.id, name)?,
            None => state.create_promised_value(metric.id, name)?,
        };
        Ok(H::from_slot(metric.kept.keeping(slot)))
    }

    fn remove_parts(&self, _: &SeriesMetric, _: &mut Creation<'_>) {}
}

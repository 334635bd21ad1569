//! Metric handles, with which a program counts.
//!
//! A handle is a pointer to eight bytes of the mapping. Its methods are relaxed
//! atomic accesses that cannot fail, take no lock (except for [`Text`]), make no
//! system call and allocate nothing. A [`ValueSlot`] is what a registry hands to
//! a handle when the metric is registered.

mod buckets;
mod counter;
mod discrete;
mod elapsed;
mod gauge;
pub(crate) mod histogram;
mod instances;
mod members;
mod number;
mod optional;
mod shared_cell;
pub(crate) mod static_metric;
mod striped;
mod text;
mod timer;
mod timing;

use std::sync::Arc;

use mmv_format::layout::{EXTRA_OFFSET, NO_VALUE};

use crate::mapping::{Cell, Owner};
pub use buckets::Buckets;
pub use counter::{Counter, OwnedCounter};
pub use discrete::Discrete;
pub use elapsed::{Elapsed, Interval};
pub use gauge::{Gauge, GaugeGuard, OwnedGauge};
pub use histogram::{Histogram, OwnedHistogram};
pub use instances::Instances;
pub(crate) use members::Members;
pub use number::Number;
pub use optional::Optional;
use shared_cell::SharedCell;
pub(crate) use striped::Stripes;
pub(crate) use text::SharedText;
pub use text::Text;
pub use timer::Timer;
pub use timing::Timing;

/// A handle that a registry can give out. Implemented here only.
pub trait Handle: sealed::Handle + Send + Sync + 'static {}

/// A handle on a number whose units the program chooses. Implemented here only.
pub trait Measured: Handle {}

impl<T: Number> Measured for Counter<T> {}
impl<T: Number> Measured for OwnedCounter<T> {}
impl<T: Number> Measured for Gauge<T> {}
impl<T: Number> Measured for OwnedGauge<T> {}
impl<T: Number> Measured for Discrete<T> {}
impl<H: Measured> Measured for Optional<H> {}

/// A registered value, for the handle on it.
#[derive(Debug)]
pub struct ValueSlot {
    pub(crate) cell: Cell,
    /// The value entry's second word: elapsed time has its running interval there.
    pub(crate) extra: Cell,
    pub(crate) text: Option<Arc<SharedText>>,
}

impl ValueSlot {
    /// Makes a slot; `cell` returns the cell at an offset in the value entry.
    pub(crate) fn new(text: Option<Arc<SharedText>>, cell: impl Fn(u64) -> Option<Cell>) -> Self {
        // The registry reserved the entry, so both are there.
        let cell = |field| {
            let found = cell(field);
            debug_assert!(found.is_some(), "a value outside of its file");
            found.unwrap_or_else(Cell::private)
        };
        Self { cell: cell(0), extra: cell(EXTRA_OFFSET), text }
    }

    /// Makes a slot in private memory, which no reader sees.
    pub(crate) fn private() -> Self {
        Self { cell: Cell::private(), extra: Cell::private(), text: None }
    }

    /// Makes the handle on the value keep `kept` alive.
    pub(crate) fn keeping(mut self, kept: Owner) -> Self {
        self.cell = self.cell.keeping(kept);
        self
    }

    /// Stores the initial value: 0, or none if it is optional.
    pub(crate) fn reset(&self, optional: bool) {
        self.cell.store(if optional { NO_VALUE } else { 0 });
    }
}

pub(crate) mod sealed {
    use pcp_types::{Semantics, Units};

    use super::ValueSlot;

    /// The properties of a handle that the registry depends on.
    pub trait Handle: Sized {
        const TYPE_CODE: i32;
        const SEMANTICS: Semantics;
        /// The units, unless the program chooses others.
        const UNITS: Units = Units::NONE;
        /// True if the program may choose the units.
        const IS_MEASURED: bool = true;
        /// True if the value may be absent, as it is at first.
        const OPTIONAL: bool = false;

        fn from_slot(slot: ValueSlot) -> Self;
    }
}

//! Metric handles: what a program counts with.
//!
//! | handle | semantics | methods | threads |
//! |---|---|---|---|
//! | [`Counter`] | counter | `add`, `inc`, `value` | shared: `Clone`, `&self` |
//! | [`OwnedCounter`] | counter | the same | one writer: `&mut self` |
//! | [`Gauge`] | instant | `set`, `add`, `sub`, `value` | shared |
//! | [`OwnedGauge`] | instant | the same | one writer |
//! | [`Discrete`] | discrete | `set`, `value` | shared |
//! | [`Text`] | discrete | `set` | shared |
//! | [`Optional`] of the last three | theirs | `set`, `clear`, `value` | shared |
//! | [`Timer`] | counter | `start`, `time`, `add` | shared |
//! | [`Elapsed`] | counter | `start`, `begin`, `end` | one writer |
//! | [`Striped`] | counter | `claim`, then `add`, `inc` | a stripe each |
//! | [`Histogram`] | counter | `record`, `count`, `sum` | shared |
//! | [`OwnedHistogram`] | counter | the same | one writer |
//!
//! A handle is a pointer to eight bytes of the mapping. Its methods are relaxed
//! atomic accesses that cannot fail, take no lock (but for [`Text`]), make no
//! system call and allocate nothing:
//!
//! | operation | instructions |
//! |---|---|
//! | `set`, `value` | one store, one load |
//! | `add` on a shared handle, 64-bit integers | one atomic add |
//! | `add` on a shared handle, other types | a compare-exchange loop |
//! | `add` on an owned handle or a claimed stripe | load, add, store |
//!
//! Handles stay valid when the file is withdrawn: they then count in memory that
//! nobody reads. Every handle has a `noop()` form that does so from the start,
//! so a library never asks whether it is instrumented.

mod buckets;
mod counter;
mod discrete;
mod elapsed;
mod gauge;
pub(crate) mod histogram;
mod instances;
mod number;
mod optional;
mod striped;
mod text;
mod timer;

pub use buckets::Buckets;
pub use counter::{Counter, OwnedCounter};
pub use discrete::Discrete;
pub use elapsed::{Elapsed, Interval};
pub use gauge::{Gauge, OwnedGauge};
pub use histogram::{Histogram, OwnedHistogram};
pub use instances::Instances;
pub use number::Number;
pub use optional::Optional;
pub use striped::{Stripe, Striped};
pub use text::Text;
pub(crate) use text::TextSlot;
pub use timer::{Timer, Timing};

/// A handle that a registry can give out. Implemented here only.
pub trait Handle: sealed::Handle + Send + Sync + 'static {}

/// A handle on a number whose units the program states. Implemented here only.
pub trait Measured: Handle {}

impl<T: Number> Measured for Counter<T> {}
impl<T: Number> Measured for OwnedCounter<T> {}
impl<T: Number> Measured for Gauge<T> {}
impl<T: Number> Measured for OwnedGauge<T> {}
impl<T: Number> Measured for Discrete<T> {}
impl<H: Measured> Measured for Optional<H> {}

pub(crate) mod sealed {
    use std::sync::Arc;

    use pcp_types::{Semantics, Units};

    use super::TextSlot;
    use crate::mapping::Cell;

    /// What a registered value offers to the handle on it.
    #[derive(Debug)]
    pub struct Seat {
        pub(crate) cell: Cell,
        /// The value entry's second word: elapsed time has its running interval there.
        pub(crate) extra: Cell,
        /// The text of a string value.
        pub(crate) text: Option<Arc<TextSlot>>,
    }

    /// What the registry must know of a handle.
    pub trait Handle: Sized {
        /// The metric's type code.
        const TYPE_CODE: i32;
        /// The metric's semantics.
        const SEMANTICS: Semantics;
        /// The units, unless the program states others.
        const UNITS: Units = Units::NONE;
        /// Whether the value may be absent, and is at first.
        const OPTIONAL: bool = false;

        /// The handle on a value.
        fn on(seat: Seat) -> Self;
    }
}

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
//! | `add` on an owned handle | load, add, store |
//!
//! Handles stay valid when the file is withdrawn: they then count in memory that
//! nobody reads. Every handle has a `noop()` form that does so from the start,
//! so a library never asks whether it is instrumented.

mod counter;
mod discrete;
mod gauge;
mod instances;
mod number;
mod text;

pub use counter::{Counter, OwnedCounter};
pub use discrete::Discrete;
pub use gauge::{Gauge, OwnedGauge};
pub use instances::Instances;
pub use number::Number;
pub use text::Text;
pub(crate) use text::TextSlot;

/// A handle that a registry can give out. Implemented here only.
pub trait Handle: sealed::Handle {}

pub(crate) mod sealed {
    use std::sync::Arc;

    use pcp_types::Semantics;

    use super::TextSlot;
    use crate::mapping::Cell;

    /// What a registered value offers to the handle on it.
    #[derive(Debug)]
    pub struct Seat {
        pub(crate) cell: Cell,
        /// The text of a string value.
        pub(crate) text: Option<Arc<TextSlot>>,
    }

    /// What the registry must know of a handle.
    pub trait Handle: Sized {
        /// The metric's type code.
        const TYPE_CODE: i32;
        /// The metric's semantics.
        const SEMANTICS: Semantics;

        /// The handle on a value.
        fn on(seat: Seat) -> Self;
    }
}

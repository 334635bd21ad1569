//! Values that may be absent.

use super::{Discrete, Gauge, Handle, Number, Text, ValueSlot, sealed};
use crate::mapping::Cell;
use mmv_format::layout::NO_VALUE;
use pcp_types::{Semantics, Units};

/// A gauge, discrete value or text that may be absent, and is absent at first:
/// readers then log no value.
///
/// The format marks absence by certain values, which therefore read as absent: an
/// integer with all 64 bits set, NaN, the empty text.
#[derive(Debug, Clone)]
#[must_use]
pub struct Optional<H> {
    handle: H,
    cell: Cell,
}

impl<T: Number> Optional<Gauge<T>> {
    /// Makes a gauge that no reader sees.
    pub fn noop() -> Self {
        Self::noop_on(Gauge::from_slot)
    }

    /// Replaces the current value.
    #[inline]
    pub fn set(&self, value: T) {
        self.handle.set(value);
    }

    /// Makes the value absent.
    #[inline]
    pub fn clear(&self) {
        self.cell.store(NO_VALUE);
    }

    /// Returns the current value; `None` if it is absent.
    #[inline]
    pub fn value(&self) -> Option<T> {
        present(&self.cell)
    }
}

impl<T: Number> Optional<Discrete<T>> {
    /// Makes a value that no reader sees.
    pub fn noop() -> Self {
        Self::noop_on(Discrete::from_slot)
    }

    /// Replaces the current value.
    #[inline]
    pub fn set(&self, value: T) {
        self.handle.set(value);
    }

    /// Makes the value absent.
    #[inline]
    pub fn clear(&self) {
        self.cell.store(NO_VALUE);
    }

    /// Returns the current value; `None` if it is absent.
    #[inline]
    pub fn value(&self) -> Option<T> {
        present(&self.cell)
    }
}

impl Optional<Text> {
    /// Makes a text that no reader sees.
    pub fn noop() -> Self {
        Self::noop_on(Text::from_slot)
    }

    /// Replaces the text as [`Text::set`] does.
    pub fn set(&self, text: &str) {
        self.handle.set(text);
    }

    /// Makes the text absent.
    pub fn clear(&self) {
        self.handle.set("");
    }
}

impl<H> Optional<H> {
    fn noop_on(on: impl FnOnce(ValueSlot) -> H) -> Self {
        let cell = Cell::private();
        cell.store(NO_VALUE);
        let slot = ValueSlot { cell: cell.clone(), extra: Cell::private(), text: None };
        Self { handle: on(slot), cell }
    }
}

fn present<T: Number>(cell: &Cell) -> Option<T> {
    let word = cell.load();
    (word != NO_VALUE).then(|| T::from_cell(word))
}

impl<H: Handle> Handle for Optional<H> {}

impl<H: Handle> sealed::Handle for Optional<H> {
    const TYPE_CODE: i32 = H::TYPE_CODE;
    const SEMANTICS: Semantics = H::SEMANTICS;
    const UNITS: Units = H::UNITS;
    const IS_MEASURED: bool = H::IS_MEASURED;
    const OPTIONAL: bool = true;

    fn from_slot(slot: ValueSlot) -> Self {
        let cell = slot.cell.clone();
        Self { handle: H::from_slot(slot), cell }
    }
}

use sealed::Handle as _;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_comes_and_goes() {
        let depth = Optional::<Gauge<i32>>::noop();
        assert_eq!(depth.value(), None);
        depth.set(-1);
        assert_eq!(depth.value(), Some(-1), "all ones in 32 bits are a number");
        depth.clear();
        assert_eq!(depth.value(), None);
        let limit = Optional::<Discrete<f64>>::noop();
        limit.set(0.0);
        assert_eq!(limit.value(), Some(0.0));
    }
}

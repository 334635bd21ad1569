//! Values that go up and down.

use std::marker::PhantomData;

use pcp_types::Semantics;

use super::{Handle, Number, ValueSlot, sealed};
use crate::mapping::Cell;

/// A value that goes up and down, shared between threads: a queue's length, a
/// temperature.
#[derive(Debug)]
#[must_use]
pub struct Gauge<T> {
    cell: Cell,
    number: PhantomData<T>,
}

impl<T: Number> Gauge<T> {
    /// A gauge that no reader sees.
    pub fn noop() -> Self {
        Self { cell: Cell::private(), number: PhantomData }
    }

    /// Replaces the value.
    #[inline]
    pub fn set(&self, value: T) {
        self.cell.store(value.to_cell());
    }

    /// Adds to the value; integers wrap around.
    #[inline]
    pub fn add(&self, delta: T) {
        T::add_to(&self.cell, delta);
    }

    /// Subtracts from the value; integers wrap around.
    #[inline]
    pub fn sub(&self, delta: T) {
        T::add_to(&self.cell, T::from_cell(0).minus(delta));
    }

    /// The current value.
    #[inline]
    pub fn value(&self) -> T {
        T::from_cell(self.cell.load())
    }
}

impl<T: Number> Default for Gauge<T> {
    /// A gauge that no reader sees.
    fn default() -> Self {
        Self::noop()
    }
}

impl<T> Clone for Gauge<T> {
    fn clone(&self) -> Self {
        Self { cell: self.cell.clone(), number: PhantomData }
    }
}

/// A value that goes up and down, with one writer.
#[derive(Debug)]
#[must_use]
pub struct OwnedGauge<T> {
    cell: Cell,
    number: PhantomData<T>,
}

impl<T: Number> OwnedGauge<T> {
    /// A gauge that no reader sees.
    pub fn noop() -> Self {
        Self { cell: Cell::private(), number: PhantomData }
    }

    /// Replaces the value.
    #[inline]
    pub fn set(&mut self, value: T) {
        self.cell.store(value.to_cell());
    }

    /// Adds to the value; integers wrap around.
    #[inline]
    pub fn add(&mut self, delta: T) {
        self.set(self.value().plus(delta));
    }

    /// Subtracts from the value; integers wrap around.
    #[inline]
    pub fn sub(&mut self, delta: T) {
        self.set(self.value().minus(delta));
    }

    /// The current value.
    #[inline]
    pub fn value(&self) -> T {
        T::from_cell(self.cell.load())
    }
}

impl<T: Number> Handle for Gauge<T> {}
impl<T: Number> Handle for OwnedGauge<T> {}

impl<T: Number> sealed::Handle for Gauge<T> {
    const TYPE_CODE: i32 = T::VALUE_TYPE.code();
    const SEMANTICS: Semantics = Semantics::Instant;

    fn on(slot: ValueSlot) -> Self {
        Self { cell: slot.cell, number: PhantomData }
    }
}

impl<T: Number> sealed::Handle for OwnedGauge<T> {
    const TYPE_CODE: i32 = T::VALUE_TYPE.code();
    const SEMANTICS: Semantics = Semantics::Instant;

    fn on(slot: ValueSlot) -> Self {
        Self { cell: slot.cell, number: PhantomData }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gauge_goes_up_and_down_in_every_type() {
        let length = Gauge::<u32>::noop();
        length.set(3);
        length.add(4);
        length.sub(5);
        assert_eq!(length.value(), 2);
        let mut level = OwnedGauge::<f64>::noop();
        level.set(1.5);
        level.add(1.0);
        level.sub(0.25);
        assert!((level.value() - 2.25).abs() < f64::EPSILON);
    }
}

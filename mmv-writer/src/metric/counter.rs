//! Counts that only grow.

use std::marker::PhantomData;
use std::sync::Arc;

use pcp_types::Semantics;

use super::{Handle, Number, Stripes, ValueSlot, sealed};
use crate::mapping::Cell;

/// A count that only grows, shared between threads.
///
/// Integers wrap around at the end of their type, as PCP's counters may. Under
/// any number of threads no increment is lost. Where many threads count all the time,
/// [`MetricBuilder::build_striped`](crate::MetricBuilder::build_striped) makes one that each
/// adds to in a place of its own.
#[derive(Debug)]
#[must_use]
pub struct Counter<T = u64> {
    cells: CounterCells,
    number: PhantomData<T>,
}

#[derive(Debug, Clone)]
enum CounterCells {
    Single(Cell),
    Striped(Arc<Stripes>),
}

impl<T: Number> Counter<T> {
    /// Makes a counter that no reader sees.
    pub fn noop() -> Self {
        Self { cells: CounterCells::Single(Cell::private()), number: PhantomData }
    }

    pub(crate) fn striped(stripes: Arc<Stripes>) -> Self {
        Self { cells: CounterCells::Striped(stripes), number: PhantomData }
    }

    /// Adds `delta`, which should not be negative: readers take a decrease for a restart.
    #[inline]
    pub fn add(&self, delta: T) {
        match &self.cells {
            CounterCells::Single(cell) => T::add_to(cell, delta),
            CounterCells::Striped(stripes) => stripes.add(delta),
        }
    }

    /// Adds one to the count.
    #[inline]
    pub fn inc(&self) {
        self.add(T::ONE);
    }

    /// Returns the current count.
    #[inline]
    pub fn value(&self) -> T {
        match &self.cells {
            CounterCells::Single(cell) => T::from_cell(cell.load()),
            CounterCells::Striped(stripes) => stripes.value(),
        }
    }
}

impl<T: Number> Default for Counter<T> {
    /// Makes a counter that no reader sees.
    fn default() -> Self {
        Self::noop()
    }
}

impl<T> Clone for Counter<T> {
    fn clone(&self) -> Self {
        Self { cells: self.cells.clone(), number: PhantomData }
    }
}

/// A count that only grows, with one writer: a plain load, add and store, many
/// times cheaper than an atomic add.
///
/// The cell was registered as owned, so no shared handle on it exists.
#[derive(Debug)]
#[must_use]
pub struct OwnedCounter<T = u64> {
    cell: Cell,
    number: PhantomData<T>,
}

impl<T: Number> OwnedCounter<T> {
    /// Makes a counter that no reader sees.
    pub fn noop() -> Self {
        Self { cell: Cell::private(), number: PhantomData }
    }

    /// Adds `delta`, which should not be negative: readers take a decrease for a restart.
    #[inline]
    pub fn add(&mut self, delta: T) {
        self.cell.store(self.value().plus(delta).to_cell());
    }

    /// Adds one to the count.
    #[inline]
    pub fn inc(&mut self) {
        self.add(T::ONE);
    }

    /// Returns the current count.
    #[inline]
    pub fn value(&self) -> T {
        T::from_cell(self.cell.load())
    }
}

impl<T: Number> Handle for Counter<T> {}
impl<T: Number> Handle for OwnedCounter<T> {}

impl<T: Number> sealed::Handle for Counter<T> {
    const TYPE_CODE: i32 = T::VALUE_TYPE.code();
    const SEMANTICS: Semantics = Semantics::Counter;

    fn from_slot(slot: ValueSlot) -> Self {
        Self { cells: CounterCells::Single(slot.cell), number: PhantomData }
    }
}

impl<T: Number> sealed::Handle for OwnedCounter<T> {
    const TYPE_CODE: i32 = T::VALUE_TYPE.code();
    const SEMANTICS: Semantics = Semantics::Counter;

    fn from_slot(slot: ValueSlot) -> Self {
        Self { cell: slot.cell, number: PhantomData }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_increment_of_two_threads_is_lost_whatever_the_type() {
        fn hammer<T: Number + Send + Sync + 'static>() -> T {
            let counter = Counter::<T>::noop();
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    let counter = counter.clone();
                    scope.spawn(move || (0..100_000).for_each(|_| counter.inc()));
                }
            });
            counter.value()
        }
        assert_eq!(hammer::<u64>(), 200_000);
        assert_eq!(hammer::<i32>(), 200_000);
        assert!((hammer::<f64>() - 200_000.0).abs() < f64::EPSILON);
    }

    #[test]
    fn an_owned_counter_counts() {
        let mut counter = OwnedCounter::<u32>::noop();
        counter.add(41);
        counter.inc();
        assert_eq!(counter.value(), 42);
    }
}

//! Counts that only grow.

use std::marker::PhantomData;

use pcp_types::{Semantics, Units};

use super::{Handle, Number, SharedCell, Stripes, ValueSlot, sealed};
use crate::mapping::Cell;

/// A count that only grows, shared between threads.
///
/// Integers wrap around at the end of their type, as PCP's counters may. Under
/// any number of threads no increment is lost. Where many threads count all the time,
/// [`MetricBuilder::build_striped`](crate::MetricBuilder::build_striped) makes one that each
/// adds to in a place of its own.
#[derive(Debug)]
#[must_use]
pub struct Counter<T: Number = u64> {
    cells: CounterCells<T>,
}

#[derive(Debug)]
enum CounterCells<T: Number> {
    Single(SharedCell<Counter<T>>),
    Striped(Stripes),
}

impl<T: Number> Counter<T> {
    /// Makes a counter for a `static`, which counts from its first use and is registered in the
    /// [program's registry](crate#statics). The name is of letters, digits, `_` and single dots,
    /// starts with a letter and has at most 255 bytes: any other one in a `static` is a compile
    /// error.
    ///
    /// ```
    /// use mmv_writer::{Counter, Units};
    ///
    /// static REQUESTS: Counter =
    ///     Counter::new("requests").units(Units::count()).help("requests answered");
    ///
    /// REQUESTS.inc();
    /// assert_eq!(REQUESTS.value(), 1);
    /// ```
    ///
    /// ```compile_fail
    /// use mmv_writer::Counter;
    ///
    /// static REQUESTS: Counter = Counter::new("requests per second");
    /// ```
    pub const fn new(name: &'static str) -> Self {
        Self { cells: CounterCells::Single(SharedCell::named(name)) }
    }

    /// Sets the units of a counter in a static; without this, a plain number. Those of a
    /// registered one stay.
    pub const fn units(mut self, units: Units) -> Self {
        if let CounterCells::Single(cell) = &mut self.cells {
            cell.set_units(units);
        }
        self
    }

    /// Sets the help text of a counter in a static, at most 255 bytes. That of a registered one
    /// stays.
    pub const fn help(mut self, text: &'static str) -> Self {
        if let CounterCells::Single(cell) = &mut self.cells {
            cell.set_help(text);
        }
        self
    }

    /// Makes a counter that no reader sees.
    pub fn noop() -> Self {
        Self { cells: CounterCells::Single(SharedCell::private()) }
    }

    pub(crate) fn striped(stripes: Stripes) -> Self {
        Self { cells: CounterCells::Striped(stripes) }
    }

    /// Returns the cell, unless the counter is striped.
    pub(crate) fn shared_cell(&self) -> Option<&SharedCell<Self>> {
        match &self.cells {
            CounterCells::Single(cell) => Some(cell),
            CounterCells::Striped(_) => None,
        }
    }

    /// Adds `delta`, which should not be negative: readers take a decrease for a restart.
    #[inline]
    pub fn add(&self, delta: T) {
        match &self.cells {
            CounterCells::Single(cell) => cell.with(move |cell| T::add_to(cell, delta)),
            CounterCells::Striped(stripes) => stripes.add(delta),
        }
    }

    /// Adds one to the count.
    #[inline]
    pub fn inc(&self) {
        self.add(T::ONE);
    }

    /// Returns the current count.
    #[doc(alias = "get")]
    #[inline]
    pub fn value(&self) -> T {
        match &self.cells {
            CounterCells::Single(cell) => T::from_cell(cell.with(Cell::load)),
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

impl<T: Number> Clone for Counter<T> {
    fn clone(&self) -> Self {
        let cells = match &self.cells {
            CounterCells::Single(cell) => CounterCells::Single(cell.clone()),
            CounterCells::Striped(stripes) => CounterCells::Striped(stripes.clone()),
        };
        Self { cells }
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
        Self { cells: CounterCells::Single(SharedCell::Registered(slot.cell)) }
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

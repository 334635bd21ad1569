//! Values that go up and down.

use std::marker::PhantomData;

use pcp_types::{Semantics, Units};

use super::{Handle, Number, SharedCell, ValueSlot, sealed};
use crate::mapping::Cell;

/// A value that goes up and down, shared between threads: a queue's length, a
/// temperature.
///
/// In a file with the [sentinel flag](crate::pcp::RegistryBuilderExt::sentinel), as those with
/// histograms have it, -1 of an `i64`, the largest `u64` and NaN are read as "no value".
/// Take another type for a quantity that can be -1 there: `i32` or `f64`.
#[derive(Debug)]
#[must_use]
pub struct Gauge<T: Number = f64> {
    cell: SharedCell<Self>,
}

impl<T: Number> Gauge<T> {
    /// Makes a gauge for a `static`; see [`Counter::new`](crate::Counter::new).
    ///
    /// ```
    /// use mmv_writer::Gauge;
    ///
    /// static QUEUE: Gauge<u32> = Gauge::new("queue.length").help("orders that wait");
    ///
    /// QUEUE.add(3);
    /// assert_eq!(QUEUE.value(), 3);
    /// ```
    pub const fn new(name: &'static str) -> Self {
        Self { cell: SharedCell::named(name) }
    }

    /// Sets the units of a gauge in a static; without this, a plain number. Those of a registered
    /// one stay.
    pub const fn units(mut self, units: Units) -> Self {
        self.cell.set_units(units);
        self
    }

    /// Sets the help text of a gauge in a static, at most 255 bytes. That of a registered one
    /// stays.
    pub const fn help(mut self, text: &'static str) -> Self {
        self.cell.set_help(text);
        self
    }

    /// Makes a gauge that no reader sees.
    pub fn noop() -> Self {
        Self { cell: SharedCell::private() }
    }

    pub(crate) fn shared_cell(&self) -> &SharedCell<Self> {
        &self.cell
    }

    /// Replaces the current value.
    #[inline]
    pub fn set(&self, value: T) {
        self.cell.with(move |cell| cell.store(value.to_cell()));
    }

    /// Adds to the value; integers wrap around.
    #[inline]
    pub fn add(&self, delta: T) {
        self.cell.with(move |cell| T::add_to(cell, delta));
    }

    /// Subtracts from the value; integers wrap around.
    #[inline]
    pub fn sub(&self, delta: T) {
        self.add(T::from_cell(0).minus(delta));
    }

    /// Adds one. Where one is subtracted again, [`guard`](Self::guard) cannot be forgotten.
    #[inline]
    pub fn inc(&self) {
        self.add(T::ONE);
    }

    /// Subtracts one.
    #[inline]
    pub fn dec(&self) {
        self.sub(T::ONE);
    }

    /// Replaces the value if `value` is larger: the maximum of what all threads have
    /// set, and of the 0 at the start. NaN changes nothing.
    ///
    /// ```
    /// use mmv_writer::Gauge;
    ///
    /// let longest_queue = Gauge::<u64>::noop();
    /// longest_queue.set_max(7);
    /// longest_queue.set_max(3);
    /// assert_eq!(longest_queue.value(), 7);
    /// ```
    #[inline]
    pub fn set_max(&self, value: T) {
        let larger = |word| (value > T::from_cell(word)).then_some(value.to_cell());
        self.cell.with(move |cell| cell.update_while(larger));
    }

    /// Adds one, and subtracts it when the guard is dropped: for what is in progress.
    /// The guard has a handle of its own, so that it can move to another thread.
    ///
    /// ```
    /// use mmv_writer::Gauge;
    ///
    /// let in_flight = Gauge::<u64>::noop();
    /// {
    ///     let _request = in_flight.guard();
    ///     assert_eq!(in_flight.value(), 1);
    /// }
    /// assert_eq!(in_flight.value(), 0);
    /// ```
    #[must_use = "one is subtracted when this is dropped"]
    pub fn guard(&self) -> GaugeGuard<T> {
        self.add(T::ONE);
        GaugeGuard { gauge: self.clone() }
    }

    /// Returns the current value.
    #[doc(alias = "get")]
    #[inline]
    pub fn value(&self) -> T {
        T::from_cell(self.cell.with(Cell::load))
    }
}

/// A unit of work in progress, subtracted from the gauge on drop; see [`Gauge::guard`].
#[derive(Debug)]
pub struct GaugeGuard<T: Number = f64> {
    gauge: Gauge<T>,
}

impl<T: Number> Drop for GaugeGuard<T> {
    fn drop(&mut self) {
        self.gauge.sub(T::ONE);
    }
}

impl<T: Number> Default for Gauge<T> {
    /// Makes a gauge that no reader sees.
    fn default() -> Self {
        Self::noop()
    }
}

impl<T: Number> Clone for Gauge<T> {
    fn clone(&self) -> Self {
        Self { cell: self.cell.clone() }
    }
}

/// A value that goes up and down, with one writer.
#[derive(Debug)]
#[must_use]
pub struct OwnedGauge<T = f64> {
    cell: Cell,
    number: PhantomData<T>,
}

impl<T: Number> OwnedGauge<T> {
    /// Makes a gauge that no reader sees.
    pub fn noop() -> Self {
        Self { cell: Cell::private(), number: PhantomData }
    }

    /// Replaces the current value.
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

    /// Adds one.
    #[inline]
    pub fn inc(&mut self) {
        self.add(T::ONE);
    }

    /// Subtracts one.
    #[inline]
    pub fn dec(&mut self) {
        self.sub(T::ONE);
    }

    /// Replaces the value if `value` is larger.
    #[inline]
    pub fn set_max(&mut self, value: T) {
        if value > self.value() {
            self.set(value);
        }
    }

    /// Returns the current value.
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

    fn from_slot(slot: ValueSlot) -> Self {
        Self { cell: SharedCell::Registered(slot.cell) }
    }
}

impl<T: Number> sealed::Handle for OwnedGauge<T> {
    const TYPE_CODE: i32 = T::VALUE_TYPE.code();
    const SEMANTICS: Semantics = Semantics::Instant;

    fn from_slot(slot: ValueSlot) -> Self {
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

    #[test]
    fn a_maximum_is_that_of_all_threads() {
        fn maximum<T: Number>(number: impl Fn(u32) -> T + Sync) -> T {
            let gauge = Gauge::<T>::noop();
            std::thread::scope(|scope| {
                for thread in 0..4 {
                    let gauge = &gauge;
                    let number = &number;
                    // Each rises in steps that the others overtake.
                    let mine =
                        move || (0..50_000).for_each(|n| gauge.set_max(number(4 * n + thread)));
                    scope.spawn(mine);
                }
            });
            gauge.value()
        }
        assert_eq!(maximum(u64::from), 199_999);
        assert_eq!(maximum(u32::cast_signed), 199_999);
        assert!((maximum(|n| f64::from(n) / 2.0) - 99_999.5).abs() < f64::EPSILON);
    }

    #[test]
    fn one_is_added_and_subtracted_by_any_handle() {
        let depth = Gauge::<u32>::noop();
        depth.inc();
        depth.inc();
        depth.dec();
        assert_eq!(depth.value(), 1);
        let mut depth = OwnedGauge::<f64>::noop();
        depth.dec();
        assert_eq!(depth.value().to_bits(), (-1.0_f64).to_bits());
        depth.inc();
        assert_eq!(depth.value().to_bits(), 0.0_f64.to_bits());
    }

    #[test]
    fn a_smaller_value_or_none_changes_no_maximum() {
        let gauge = Gauge::<i64>::noop();
        gauge.set_max(-5);
        assert_eq!(gauge.value(), 0);
        gauge.set(-7);
        gauge.set_max(-5);
        assert_eq!(gauge.value(), -5);
        let mut level = OwnedGauge::<f32>::noop();
        level.set_max(2.0);
        level.set_max(f32::NAN);
        level.set_max(1.0);
        assert!((level.value() - 2.0).abs() < f32::EPSILON);
        let level = Gauge::<f64>::noop();
        level.set_max(f64::NAN);
        assert!(level.value().abs() < f64::EPSILON);
    }

    #[test]
    fn guards_of_many_threads_leave_nothing_in_flight() {
        let in_flight = Gauge::<u32>::noop();
        let kept = in_flight.guard();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..20_000).for_each(|_| drop(in_flight.guard())));
            }
        });
        assert_eq!(in_flight.value(), 1);
        std::thread::spawn(move || drop(kept)).join().unwrap();
        assert_eq!(in_flight.value(), 0);
    }
}

//! Time that many activities take.

use std::time::Duration;

use pcp_types::{Semantics, Units, ValueType};

use super::timing::AddDuration;
use super::{Handle, SharedCell, Timing, ValueSlot, sealed};
use crate::mapping::Cell;

/// The time that activities have taken together, shared between threads: a
/// counter of nanoseconds, to which each activity is added when it ends.
///
/// Any number of activities may run at once. Readers do not see running ones. Where the
/// distribution matters, take a [`Histogram`](crate::Histogram), which has the sum, too.
///
/// ```
/// use mmv_writer::Timer;
///
/// let writing = Timer::noop();
/// {
///     let _timing = writing.start();
///     // the work; it is added at the end of the block
/// }
/// let sum = writing.time(|| 1 + 1);
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct Timer {
    cell: SharedCell<Self>,
}

impl Timer {
    /// Makes a timer for a `static`; see [`Counter::new`](crate::Counter::new).
    pub const fn new(name: &'static str) -> Self {
        Self { cell: SharedCell::named(name) }
    }

    /// Sets the help text of a timer in a static, at most 255 bytes. That of a registered one
    /// stays.
    pub const fn help(mut self, text: &'static str) -> Self {
        self.cell.set_help(text);
        self
    }

    /// Makes a timer that no reader sees.
    pub fn noop() -> Self {
        Self { cell: SharedCell::private() }
    }

    pub(crate) fn shared_cell(&self) -> &SharedCell<Self> {
        &self.cell
    }

    /// Starts an activity, which ends when the guard is dropped.
    #[must_use = "the time is taken when this is dropped"]
    pub fn start(&self) -> Timing<'_> {
        Timing::new(self)
    }

    /// Runs `work` as an activity.
    pub fn time<R>(&self, work: impl FnOnce() -> R) -> R {
        let _timing = self.start();
        work()
    }

    /// Adds an activity that was measured elsewhere.
    #[inline]
    pub fn add(&self, time: Duration) {
        self.cell.with(move |cell| cell.add(time.as_nanos() as u64));
    }

    /// Returns the time of all activities that have ended.
    pub fn value(&self) -> Duration {
        Duration::from_nanos(self.cell.with(Cell::load))
    }
}

impl AddDuration for Timer {
    fn add_duration(&self, time: Duration) {
        self.add(time);
    }
}

impl Handle for Timer {}

impl sealed::Handle for Timer {
    const TYPE_CODE: i32 = ValueType::U64.code();
    const SEMANTICS: Semantics = Semantics::Counter;
    const IS_MEASURED: bool = false;
    const UNITS: Units = Units::nanoseconds();

    fn from_slot(slot: ValueSlot) -> Self {
        Self { cell: SharedCell::Registered(slot.cell) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn activities_that_run_at_once_are_all_added() {
        let timer = Timer::noop();
        let pause = Duration::from_millis(5);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| timer.time(|| std::thread::sleep(pause)));
            }
        });
        assert!(timer.value() >= 3 * pause);
    }

    #[test]
    fn a_discarded_activity_is_not_added() {
        let timer = Timer::noop();
        timer.start().discard();
        assert_eq!(timer.value(), Duration::ZERO);
        timer.add(Duration::from_nanos(7));
        assert_eq!(timer.value(), Duration::from_nanos(7));
    }
}

//! Time that many activities take.

use std::time::Duration;

use pcp_types::{Semantics, Units, ValueType};

use super::timing::AddDuration;
use super::{Handle, Timing, ValueSlot, sealed};
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
    cell: Cell,
}

impl Timer {
    /// Makes a timer that no reader sees.
    pub fn noop() -> Self {
        Self { cell: Cell::private() }
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
        self.cell.add(time.as_nanos() as u64);
    }

    /// Returns the time of all activities that have ended.
    pub fn value(&self) -> Duration {
        Duration::from_nanos(self.cell.load())
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
        Self { cell: slot.cell }
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

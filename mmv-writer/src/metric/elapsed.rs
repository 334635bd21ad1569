//! Time that passes in one activity.

use std::time::Duration;

use pcp_types::{Semantics, Units};

use super::{Handle, ValueSlot, sealed};
use crate::mapping::Cell;
use crate::system::{Instant, wall_time};
use mmv_format::layout::TYPE_ELAPSED;

/// The time that one activity has taken, running intervals included: readers
/// see it grow while an interval is open. Exported as a counter of
/// microseconds.
///
/// This is PCP's `MMV_TYPE_ELAPSED`. It has one writer and one interval at a time; programs
/// mostly want a [`Timer`](super::Timer). What is added at the end is measured by the
/// monotonic clock. A running interval is represented by its start on the wall clock,
/// as the format requires, so setting the clock shows until the interval ends.
///
/// Ending an interval takes two stores. A reader that reads between them, within
/// about a nanosecond, misses the interval once.
#[derive(Debug)]
#[must_use]
pub struct Elapsed {
    closed: Cell,
    /// Minus the start of the running interval, in microseconds since 1970.
    running: Cell,
    since: Option<Instant>,
}

impl Elapsed {
    /// Makes an elapsed time that no reader sees.
    pub fn noop() -> Self {
        Self { closed: Cell::private(), running: Cell::private(), since: None }
    }

    /// Opens an interval, which ends when the guard is dropped.
    #[must_use = "the interval ends when this is dropped"]
    pub fn start(&mut self) -> Interval<'_> {
        self.begin();
        Interval { elapsed: self }
    }

    /// Opens an interval, after ending one that is open. It stays open when the handle
    /// is dropped.
    pub fn begin(&mut self) {
        self.end();
        self.since = Some(Instant::now());
        self.running.store((microseconds(wall_time()) as i64).wrapping_neg() as u64);
    }

    /// Ends the interval that is open, if there is one.
    pub fn end(&mut self) {
        let Some(since) = self.since.take() else { return };
        let total = self.closed.load().wrapping_add(microseconds(since.elapsed()));
        self.running.store(0);
        self.closed.store(total);
    }

    /// Returns the time of all intervals, the running one included.
    pub fn value(&self) -> Duration {
        let running = self.since.map_or(Duration::ZERO, |since| since.elapsed());
        Duration::from_micros(self.closed.load()) + running
    }
}

fn microseconds(time: Duration) -> u64 {
    time.as_micros() as u64
}

/// An open interval of an [`Elapsed`]; ends when dropped.
#[derive(Debug)]
pub struct Interval<'e> {
    elapsed: &'e mut Elapsed,
}

impl Drop for Interval<'_> {
    fn drop(&mut self) {
        self.elapsed.end();
    }
}

impl Handle for Elapsed {}

impl sealed::Handle for Elapsed {
    const TYPE_CODE: i32 = TYPE_ELAPSED;
    const SEMANTICS: Semantics = Semantics::Counter;
    const IS_MEASURED: bool = false;
    const UNITS: Units = Units::microseconds();

    fn from_slot(slot: ValueSlot) -> Self {
        Self { closed: slot.cell, running: slot.extra, since: None }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::*;

    #[test]
    fn running_interval_shows_its_start_and_closed_its_length() {
        let mut busy = Elapsed::noop();
        let before = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        busy.begin();
        let start = (busy.running.load() as i64).wrapping_neg();
        assert!(start >= before.as_micros() as i64);
        assert_eq!(busy.closed.load(), 0);
        std::thread::sleep(Duration::from_millis(2));
        assert!(busy.value() >= Duration::from_millis(2));
        busy.end();
        assert_eq!(busy.running.load(), 0);
        assert!((2_000..60_000_000).contains(&busy.closed.load()));
    }

    #[test]
    fn the_guard_ends_its_interval_also_when_the_work_panics() {
        let mut busy = Elapsed::noop();
        let work = std::panic::AssertUnwindSafe(|| {
            let _interval = busy.start();
            std::thread::sleep(Duration::from_millis(1));
            panic!("the work fails");
        });
        assert!(std::panic::catch_unwind(work).is_err());
        assert_eq!(busy.running.load(), 0);
        assert!(busy.closed.load() >= 1_000);
    }

    #[test]
    fn an_interval_opened_twice_counts_once() {
        let mut busy = Elapsed::noop();
        busy.begin();
        busy.begin();
        busy.end();
        let closed = busy.closed.load();
        busy.end();
        assert_eq!(busy.closed.load(), closed);
    }
}

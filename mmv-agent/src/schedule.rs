//! When to sample: ticks without drift and without bursts.
//!
//! No clock is read here. The n-th tick is due n intervals after the start,
//! however late the ones before it were. Ticks that were missed altogether are
//! counted and passed over.

use std::time::Duration;

use pcp_types::Timestamp;

/// What a tick is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tick {
    /// How long after its due time the tick runs.
    pub lateness: Duration,
    /// How many ticks were passed over before this one.
    pub missed: u64,
    /// Whether nothing was sampled for so long that nobody may look across
    /// the gap: the machine was suspended, the process stopped, or the clock
    /// set forward.
    pub gap: bool,
    /// Whether it is the last one.
    pub last: bool,
}

/// The ticks of one run.
#[derive(Debug)]
pub(crate) struct Schedule {
    interval: Duration,
    samples: Option<u64>,
    end: Option<Duration>,
    next: u64,
    taken: u64,
    last_stamp: Option<Timestamp>,
}

impl Schedule {
    /// Ticks every `interval` from the start on, the first one at once, at
    /// most `samples` of them and none later than `end` after the start.
    pub(crate) fn new(interval: Duration, samples: Option<u64>, end: Option<Duration>) -> Self {
        Self { interval, samples, end, next: 0, taken: 0, last_stamp: None }
    }

    /// When the next tick is due, counted from the start.
    pub(crate) fn due(&self) -> Duration {
        self.at(self.next)
    }

    /// A tick runs now: `now` since the start by a clock that is never set,
    /// `stamp` by the one that people read.
    pub(crate) fn tick(&mut self, now: Duration, stamp: Timestamp) -> Tick {
        let lateness = now.saturating_sub(self.due());
        let missed = (lateness.as_nanos() / self.interval.as_nanos().max(1)) as u64;
        self.next = self.next.saturating_add(1 + missed);
        self.taken += 1;
        let gap = self.last_stamp.is_some_and(|last| self.is_gap(last, stamp));
        self.last_stamp = Some(stamp);
        let enough = self.samples.is_some_and(|samples| self.taken >= samples);
        let past_end = self.end.is_some_and(|end| self.due() > end);
        Tick { lateness, missed, gap, last: enough || past_end }
    }

    fn at(&self, tick: u64) -> Duration {
        let nanos = self.interval.as_nanos().saturating_mul(u128::from(tick));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Three intervals and a second: one late tick on a busy machine does not
    /// cost every application two samples (a mark hides what is around it).
    fn is_gap(&self, last: Timestamp, stamp: Timestamp) -> bool {
        let allowed = self.interval.saturating_mul(3).saturating_add(Duration::from_secs(1));
        stamp > last.saturating_add(allowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn wall(now: Duration) -> Timestamp {
        Timestamp::new(1_700_000_000, 0).unwrap().saturating_add(now)
    }

    fn run(schedule: &mut Schedule, millis: u64) -> Tick {
        let now = Duration::from_millis(millis);
        schedule.tick(now, wall(now))
    }

    #[test]
    fn late_ticks_do_not_shift_those_after_them() {
        let mut schedule = Schedule::new(SECOND, None, None);
        for n in 0..5u64 {
            assert_eq!(schedule.due(), SECOND * n as u32);
            let tick = run(&mut schedule, n * 1000 + 900);
            assert_eq!(tick.lateness, Duration::from_millis(900));
            assert_eq!((tick.missed, tick.gap), (0, false));
        }
    }

    #[test]
    fn missed_ticks_are_counted_and_never_made_up_for() {
        let mut schedule = Schedule::new(SECOND, None, None);
        run(&mut schedule, 0);
        assert_eq!(run(&mut schedule, 3500).missed, 2);
        assert_eq!(schedule.due(), 4 * SECOND);
    }

    #[test]
    fn a_suspended_machine_is_a_gap_though_the_monotonic_clock_stood_still() {
        let mut schedule = Schedule::new(SECOND, None, None);
        run(&mut schedule, 0);
        let tick = schedule.tick(SECOND, wall(3600 * SECOND));
        assert!(tick.gap);
        assert_eq!(tick.missed, 0);
        assert!(!schedule.tick(2 * SECOND, wall(3601 * SECOND)).gap);
    }

    #[test]
    fn up_to_three_intervals_and_a_second_are_no_gap() {
        let mut schedule = Schedule::new(SECOND, None, None);
        run(&mut schedule, 0);
        assert!(!run(&mut schedule, 4000).gap);
        assert!(run(&mut schedule, 8001).gap);
    }

    #[test]
    fn a_clock_that_steps_back_is_no_gap() {
        let mut schedule = Schedule::new(SECOND, None, None);
        schedule.tick(Duration::ZERO, wall(3600 * SECOND));
        assert!(!schedule.tick(SECOND, wall(Duration::ZERO)).gap);
    }

    #[test]
    fn the_last_tick_is_said_by_number_or_by_time() {
        let mut by_number = Schedule::new(SECOND, Some(3), None);
        assert_eq!([0, 1, 2].map(|n| run(&mut by_number, n * 1000).last), [false, false, true]);
        let mut by_time = Schedule::new(SECOND, None, Some(2 * SECOND));
        assert_eq!([0, 1, 2].map(|n| run(&mut by_time, n * 1000).last), [false, false, true]);
    }
}

//! Schedules ticks without drift and without bursts.
//!
//! Input: the moments of ticks. Output: the timers that are due, and their lateness. No clock is
//! read here. Each timer is due at the multiples of its interval, counted from midnight UTC of the
//! day of the start, however late earlier ticks were; so groups meet at common multiples, and
//! hosts sample at the same moments. All timers are due at the start. Missed ticks are counted and
//! skipped. After the clock was set, or the machine was suspended, ticks return to the multiples
//! after one tick.

use std::time::Duration;

use pcp_archive::internal::longest_gap;
use pcp_types::Timestamp;

use crate::moment::Moment;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tick {
    /// Time from its due time to its start.
    pub lateness: Duration,
    /// Number of ticks of all timers that were skipped before this one.
    pub missed: u64,
    /// True if no tick ran for so long that readers must not interpolate: the machine was
    /// suspended, the process stopped, or the clock set forward.
    pub gap: bool,
    pub last: bool,
}

/// Change of the difference of the two clocks from which the wall clock counts as set, and maximum
/// time between two readings that are compared.
const MIN_CLOCK_STEP: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(crate) struct Timer {
    interval: Duration,
    /// Number of the next tick: that many intervals after midnight.
    next: u64,
    /// True if the last tick was one of this timer.
    due: bool,
}

impl Timer {
    /// Creates a timer that is due at the first tick.
    pub(crate) fn new(interval: Duration) -> Self {
        Self { interval, next: 0, due: false }
    }

    /// Creates a timer that is due at the next multiple of its interval.
    pub(crate) fn starting(interval: Duration, since_midnight: Duration) -> Self {
        let next = ticks_until(since_midnight, interval) + 1;
        Self { interval, next, due: false }
    }

    pub(crate) fn interval(&self) -> Duration {
        self.interval
    }

    /// Returns true if the last tick was one of this timer.
    pub(crate) fn is_due(&self) -> bool {
        self.due
    }

    /// Returns the time of the next tick, counted from midnight.
    fn next(&self) -> Duration {
        let nanos = self.interval.as_nanos().saturating_mul(u128::from(self.next));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// The ticks of one run.
#[derive(Debug)]
pub(crate) struct Schedule {
    /// Time from midnight to the start.
    phase: Duration,
    samples: Option<u64>,
    end: Option<Duration>,
    ticks: u64,
    last: Option<Timestamp>,
}

/// Returns the time since midnight UTC.
pub(crate) fn time_of_day(timestamp: Timestamp) -> Duration {
    const DAY: i128 = 86_400_000_000_000;
    Duration::from_nanos(timestamp.as_nanos().rem_euclid(DAY) as u64)
}

impl Schedule {
    /// Creates a schedule that starts `phase` after midnight and has at most `samples` ticks, none
    /// of them later than `end` after the start.
    pub(crate) fn new(phase: Duration, samples: Option<u64>, end: Option<Duration>) -> Self {
        Self { phase, samples, end, ticks: 0, last: None }
    }

    /// Returns the time since the midnight before the start.
    pub(crate) fn since_midnight(&self, now: Duration) -> Duration {
        now.saturating_add(self.phase)
    }

    /// Returns the time of the next tick, counted from the start.
    pub(crate) fn next<'t>(&self, timers: impl IntoIterator<Item = &'t Timer>) -> Duration {
        if self.ticks == 0 {
            return Duration::ZERO;
        }
        let next = timers.into_iter().map(|timer| timer.next().saturating_sub(self.phase));
        next.min().unwrap_or(Duration::MAX)
    }

    /// Runs a tick, and marks the timers that [are due](Timer::is_due).
    pub(crate) fn tick(&mut self, timers: &mut [&mut Timer], now: Moment) -> Tick {
        let first = self.ticks == 0;
        let lateness = now.monotonic.saturating_sub(self.next(timers.iter().map(|timer| &**timer)));
        let elapsed = self.since_midnight(now.monotonic);
        let mut missed = 0;
        for timer in &mut *timers {
            let reached = ticks_until(elapsed, timer.interval);
            timer.due = first || reached >= timer.next;
            if timer.due {
                missed += if first { 0 } else { reached - timer.next };
                timer.next = reached.saturating_add(1);
            }
        }
        self.ticks += 1;
        let timers = || timers.iter().map(|timer| &**timer);
        let longest_gap = longest_gap(shortest(timers()));
        let last = self.last.replace(now.wall);
        let gap = last.is_some_and(|last| now.wall > last.saturating_add(longest_gap));
        let enough = self.samples.is_some_and(|samples| self.ticks >= samples);
        let past_end = self.end.is_some_and(|end| self.next(timers()) > end);
        Tick { lateness, missed, gap, last: enough || past_end }
    }

    /// Follows the wall clock if it was set since the last tick; the clocks were read `apart` from
    /// each other.
    pub(crate) fn follow(&mut self, timers: &mut [&mut Timer], now: Moment, apart: Duration) {
        const DAY: Duration = Duration::from_secs(86_400);
        let actual = time_of_day(now.wall).as_nanos();
        let expected = self.since_midnight(now.monotonic).as_nanos() % DAY.as_nanos();
        let step = actual.abs_diff(expected);
        let step = step.min(DAY.as_nanos() - step);
        if apart > MIN_CLOCK_STEP || step < MIN_CLOCK_STEP.as_nanos() {
            return;
        }
        let days = now.monotonic.as_nanos() / DAY.as_nanos() + 1;
        let midnight = DAY.saturating_mul(days as u32);
        self.phase = time_of_day(now.wall).saturating_add(midnight).saturating_sub(now.monotonic);
        for timer in timers {
            timer.next = ticks_until(self.since_midnight(now.monotonic), timer.interval) + 1;
        }
    }
}

pub(crate) fn shortest<'t>(timers: impl IntoIterator<Item = &'t Timer>) -> Duration {
    timers.into_iter().map(Timer::interval).min().unwrap_or_default()
}

/// Returns the number of whole intervals in a time.
fn ticks_until(time: Duration, interval: Duration) -> u64 {
    (time.as_nanos() / interval.as_nanos().max(1)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A schedule with its timers.
    struct Run {
        schedule: Schedule,
        timers: Vec<Timer>,
    }

    impl Run {
        fn new(intervals: &[Duration], phase: Duration) -> Self {
            let timers = intervals.iter().map(|&interval| Timer::new(interval)).collect();
            Self { schedule: Schedule::new(phase, None, None), timers }
        }

        fn next(&self) -> Duration {
            self.schedule.next(&self.timers)
        }

        fn tick(&mut self, monotonic: Duration, wall: Timestamp) -> Tick {
            let timers = &mut self.timers.iter_mut().collect::<Vec<_>>();
            self.schedule.tick(timers, Moment { monotonic, wall })
        }

        fn follow(&mut self, monotonic: Duration, wall: Timestamp, apart: Duration) {
            let timers = &mut self.timers.iter_mut().collect::<Vec<_>>();
            self.schedule.follow(timers, Moment { monotonic, wall }, apart);
        }

        /// The timers that the last tick was one of.
        fn due(&self) -> Vec<usize> {
            (0..self.timers.len()).filter(|&number| self.timers[number].is_due()).collect()
        }
    }

    /// One group, sampled each second, from midnight on.
    fn alone(samples: Option<u64>, end: Option<Duration>) -> Run {
        let schedule = Schedule::new(Duration::ZERO, samples, end);
        Run { schedule, ..Run::new(&[SECOND], Duration::ZERO) }
    }

    /// The time of day is that of the other clock, on some day.
    fn wall(now: Duration) -> Timestamp {
        Timestamp::new(86_400 * 19_000, 0).unwrap().saturating_add(now)
    }

    fn run(schedule: &mut Run, millis: u64) -> Tick {
        let now = Duration::from_millis(millis);
        schedule.tick(now, wall(now))
    }

    #[test]
    fn late_ticks_do_not_shift_those_after_them() {
        let mut schedule = alone(None, None);
        for n in 0..5u64 {
            assert_eq!(schedule.next(), SECOND * n as u32);
            let tick = run(&mut schedule, n * 1000 + 900);
            assert_eq!(tick.lateness, Duration::from_millis(900));
            assert_eq!((tick.missed, tick.gap), (0, false));
        }
    }

    #[test]
    fn missed_ticks_are_counted_and_never_made_up_for() {
        let mut schedule = alone(None, None);
        run(&mut schedule, 0);
        assert_eq!(run(&mut schedule, 3500).missed, 2);
        assert_eq!(schedule.next(), 4 * SECOND);
    }

    #[test]
    fn suspended_machine_is_a_gap() {
        let mut schedule = alone(None, None);
        run(&mut schedule, 0);
        let tick = schedule.tick(SECOND, wall(3600 * SECOND));
        assert!(tick.gap);
        assert_eq!(tick.missed, 0);
        assert!(!schedule.tick(2 * SECOND, wall(3601 * SECOND)).gap);
    }

    #[test]
    fn up_to_three_intervals_and_a_second_are_no_gap() {
        let mut schedule = alone(None, None);
        run(&mut schedule, 0);
        assert!(!run(&mut schedule, 4000).gap);
        assert!(run(&mut schedule, 8001).gap);
    }

    #[test]
    fn a_clock_that_steps_back_is_no_gap() {
        let mut schedule = alone(None, None);
        schedule.tick(Duration::ZERO, wall(3600 * SECOND));
        assert!(!schedule.tick(SECOND, wall(Duration::ZERO)).gap);
    }

    #[test]
    fn the_last_tick_is_by_number_or_by_time() {
        let mut by_number = alone(Some(3), None);
        assert_eq!([0, 1, 2].map(|n| run(&mut by_number, n * 1000).last), [false, false, true]);
        let mut by_time = alone(None, Some(2 * SECOND));
        assert_eq!([0, 1, 2].map(|n| run(&mut by_time, n * 1000).last), [false, false, true]);
    }

    #[test]
    fn groups_have_ticks_of_their_own_and_meet_at_common_multiples() {
        let millis = Duration::from_millis;
        let intervals = [millis(200), millis(500), SECOND];
        // 300 ms past a second.
        let mut schedule = Run::new(&intervals, millis(300));
        let mut ticks = Vec::new();
        while schedule.next() <= SECOND {
            let due = schedule.next();
            schedule.tick(due, wall(due + millis(300)));
            ticks.push((due.as_millis(), schedule.due()));
        }
        let expected: [(u128, &[usize]); 6] = [
            (0, &[0, 1, 2]),
            (100, &[0]),
            (200, &[1]),
            (300, &[0]),
            (500, &[0]),
            (700, &[0, 1, 2]),
        ];
        let expected = expected.map(|(millis, due)| (millis, due.to_vec()));
        assert_eq!(ticks[..6], expected);
        assert_eq!(ticks[6], (900, vec![0]));
    }

    #[test]
    fn each_groups_missed_ticks_are_counted() {
        let mut schedule = Run::new(&[SECOND, 5 * SECOND], Duration::ZERO);
        run(&mut schedule, 0);
        let tick = run(&mut schedule, 11_000);
        assert_eq!((schedule.due(), tick.missed), (vec![0, 1], 10 + 1));
        assert_eq!(schedule.next(), 12 * SECOND);
    }

    #[test]
    fn other_groups_begin_at_their_next_multiples() {
        let mut schedule = alone(None, None);
        run(&mut schedule, 0);
        let since_midnight = schedule.schedule.since_midnight(Duration::from_millis(4_500));
        schedule.timers =
            [10, 4].map(|interval| Timer::starting(SECOND * interval, since_midnight)).into();
        assert_eq!(schedule.next(), 8 * SECOND);
        run(&mut schedule, 8_000);
        assert_eq!(schedule.due(), [1]);
        assert_eq!(schedule.next(), 10 * SECOND);
    }

    #[test]
    fn when_the_clock_is_set_ticks_are_at_its_multiples_again() {
        let millis = Duration::from_millis;
        for step in [300, 86_399_300, 4 * 3_600_000 + 300] {
            let set = |now: Duration| wall(now + millis(step));
            let mut schedule = Run::new(&[SECOND, 5 * SECOND], Duration::ZERO);
            run(&mut schedule, 0);
            let tick = schedule.tick(SECOND, set(SECOND));
            schedule.follow(SECOND, set(SECOND), Duration::ZERO);
            assert_eq!((schedule.due(), tick.missed), (vec![0], 0));
            assert_eq!(schedule.next(), millis(1_700));
            let tick = schedule.tick(millis(1_700), set(millis(1_700)));
            assert_eq!((schedule.due()[0], tick.missed), (0, 0));
            assert_eq!(schedule.next(), millis(2_700));
        }
    }

    #[test]
    fn clocks_that_are_read_one_after_the_other_are_no_step() {
        let mut schedule = alone(None, None);
        for n in 0..5u64 {
            let now = SECOND * n as u32;
            schedule.tick(now, wall(now));
            schedule.follow(now, wall(now + Duration::from_micros(900 * (n % 2))), Duration::ZERO);
            assert_eq!(schedule.next(), now + SECOND);
            let late = Duration::from_millis(30);
            schedule.follow(now, wall(now + late), late);
            assert_eq!(schedule.next(), now + SECOND);
        }
    }

    #[test]
    fn the_day_begins_at_midnight_utc() {
        let timestamp = Timestamp::new(86_400 * 19_000 + 3_601, 5).unwrap();
        assert_eq!(time_of_day(timestamp), Duration::new(3_601, 5));
        assert_eq!(time_of_day(Timestamp::new(-1, 0).unwrap()), Duration::from_secs(86_399));
    }
}

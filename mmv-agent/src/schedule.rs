//! When to sample: ticks without drift and without bursts.
//!
//! No clock is read here. Each group has ticks at the multiples of its interval,
//! counted from midnight UTC of the day of the start, however late the ones
//! before were; so groups meet at common multiples, and hosts sample at the same
//! moments. The first tick is at the start, for all groups. Ticks that were missed
//! altogether are counted and passed over. When the clock is set, or the machine
//! was suspended, the ticks after the next one are at the multiples again.

use std::time::Duration;

use pcp_types::Timestamp;

/// What a tick is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tick {
    /// The groups whose turn it is, by number.
    pub due: Vec<usize>,
    /// How long after its due time the tick runs.
    pub lateness: Duration,
    /// How many ticks were passed over before this one, of all groups.
    pub missed: u64,
    /// Whether nothing was sampled for so long that nobody may look across
    /// the gap: the machine was suspended, the process stopped, or the clock
    /// set forward.
    pub gap: bool,
    /// Whether it is the last one.
    pub last: bool,
}

/// By how much the two clocks may differ from what they differed by before; and
/// how far apart they may have been read to say so.
const STEP: Duration = Duration::from_millis(1);

/// When one group is sampled.
#[derive(Debug)]
struct Beat {
    interval: Duration,
    /// The number of the next tick: so many intervals after midnight.
    next: u64,
}

/// The ticks of one run.
#[derive(Debug)]
pub(crate) struct Schedule {
    beats: Vec<Beat>,
    /// From midnight to the start.
    phase: Duration,
    samples: Option<u64>,
    end: Option<Duration>,
    taken: u64,
    last_stamp: Option<Timestamp>,
}

/// What remains of a day that began at midnight UTC.
pub(crate) fn time_of_day(stamp: Timestamp) -> Duration {
    const DAY: i128 = 86_400_000_000_000;
    Duration::from_nanos(stamp.as_nanos().rem_euclid(DAY) as u64)
}

impl Schedule {
    /// Ticks for groups with these intervals, from `phase` after midnight on;
    /// at most `samples` of them and none later than `end` after the start.
    pub(crate) fn new(
        intervals: &[Duration],
        phase: Duration,
        samples: Option<u64>,
        end: Option<Duration>,
    ) -> Self {
        let beats = intervals.iter().map(|&interval| Beat { interval, next: 0 }).collect();
        Self { beats, phase, samples, end, taken: 0, last_stamp: None }
    }

    /// Other groups from `now` on, counted from the start; their first ticks
    /// are at the next multiples of their intervals.
    pub(crate) fn change(&mut self, intervals: &[Duration], now: Duration) {
        let at = now.saturating_add(self.phase);
        let beat = |&interval| Beat { interval, next: ticks_until(at, interval) + 1 };
        self.beats = intervals.iter().map(beat).collect();
    }

    /// From midnight to the start.
    pub(crate) fn phase(&self) -> Duration {
        self.phase
    }

    /// When the next tick is due, counted from the start.
    pub(crate) fn due(&self) -> Duration {
        if self.taken == 0 {
            return Duration::ZERO;
        }
        self.beats.iter().map(|beat| self.at(beat)).min().unwrap_or(Duration::MAX)
    }

    /// A tick runs now: `now` since the start by a clock that is never set,
    /// `stamp` by the one that people read.
    pub(crate) fn tick(&mut self, now: Duration, stamp: Timestamp) -> Tick {
        let first = self.taken == 0;
        let lateness = now.saturating_sub(self.due());
        let elapsed = now.saturating_add(self.phase);
        let (mut due, mut missed) = (Vec::new(), 0);
        for (number, beat) in self.beats.iter_mut().enumerate() {
            let reached = ticks_until(elapsed, beat.interval);
            if first || reached >= beat.next {
                due.push(number);
                missed += if first { 0 } else { reached - beat.next };
                beat.next = reached.saturating_add(1);
            }
        }
        self.taken += 1;
        let gap = self.last_stamp.is_some_and(|last| self.is_gap(last, stamp));
        self.last_stamp = Some(stamp);
        let enough = self.samples.is_some_and(|samples| self.taken >= samples);
        let past_end = self.end.is_some_and(|end| self.due() > end);
        Tick { due, lateness, missed, gap, last: enough || past_end }
    }

    /// Ticks by the clock that people read, if that was set since it was last
    /// asked. To be asked after a tick, with clocks that were read `apart`: what
    /// comes between them is no step.
    pub(crate) fn follow(&mut self, now: Duration, stamp: Timestamp, apart: Duration) {
        const DAY: Duration = Duration::from_secs(86_400);
        let is = time_of_day(stamp).as_nanos();
        let was = now.saturating_add(self.phase).as_nanos() % DAY.as_nanos();
        let step = is.abs_diff(was);
        let step = step.min(DAY.as_nanos() - step);
        if apart > STEP || step < STEP.as_nanos() {
            return;
        }
        let days = now.as_nanos() / DAY.as_nanos() + 1;
        let midnight = DAY.saturating_mul(days as u32);
        self.phase = time_of_day(stamp).saturating_add(midnight).saturating_sub(now);
        for beat in &mut self.beats {
            beat.next = ticks_until(now.saturating_add(self.phase), beat.interval) + 1;
        }
    }

    /// The shortest interval of all groups.
    pub(crate) fn shortest(&self) -> Duration {
        self.beats.iter().map(|beat| beat.interval).min().unwrap_or_default()
    }

    fn at(&self, beat: &Beat) -> Duration {
        let nanos = beat.interval.as_nanos().saturating_mul(u128::from(beat.next));
        let since_midnight = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        since_midnight.saturating_sub(self.phase)
    }

    /// Three intervals and a second: one late tick on a busy machine does not
    /// cost every application two samples (a mark hides what is around it).
    fn is_gap(&self, last: Timestamp, stamp: Timestamp) -> bool {
        let allowed = self.shortest().saturating_mul(3).saturating_add(Duration::from_secs(1));
        stamp > last.saturating_add(allowed)
    }
}

/// How many whole intervals there are in a time.
fn ticks_until(time: Duration, interval: Duration) -> u64 {
    (time.as_nanos() / interval.as_nanos().max(1)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// One group, sampled each second, from midnight on.
    fn alone(samples: Option<u64>, end: Option<Duration>) -> Schedule {
        Schedule::new(&[SECOND], Duration::ZERO, samples, end)
    }

    /// The time of day is that of the other clock, on some day.
    fn wall(now: Duration) -> Timestamp {
        Timestamp::new(86_400 * 19_000, 0).unwrap().saturating_add(now)
    }

    fn run(schedule: &mut Schedule, millis: u64) -> Tick {
        let now = Duration::from_millis(millis);
        schedule.tick(now, wall(now))
    }

    #[test]
    fn late_ticks_do_not_shift_those_after_them() {
        let mut schedule = alone(None, None);
        for n in 0..5u64 {
            assert_eq!(schedule.due(), SECOND * n as u32);
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
        assert_eq!(schedule.due(), 4 * SECOND);
    }

    #[test]
    fn a_suspended_machine_is_a_gap_though_the_monotonic_clock_stood_still() {
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
    fn the_last_tick_is_said_by_number_or_by_time() {
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
        let mut schedule = Schedule::new(&intervals, millis(300), None, None);
        let mut ticks = Vec::new();
        while schedule.due() <= SECOND {
            let due = schedule.due();
            let stamp = wall(due + millis(300));
            ticks.push((due.as_millis(), schedule.tick(due, stamp).due));
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
        let mut schedule = Schedule::new(&[SECOND, 5 * SECOND], Duration::ZERO, None, None);
        run(&mut schedule, 0);
        let tick = run(&mut schedule, 11_000);
        assert_eq!((tick.due, tick.missed), (vec![0, 1], 10 + 1));
        assert_eq!(schedule.due(), 12 * SECOND);
    }

    #[test]
    fn other_groups_begin_at_their_next_multiples() {
        let mut schedule = alone(None, None);
        run(&mut schedule, 0);
        schedule.change(&[10 * SECOND, 4 * SECOND], Duration::from_millis(4_500));
        assert_eq!(schedule.due(), 8 * SECOND);
        assert_eq!(run(&mut schedule, 8_000).due, [1]);
        assert_eq!(schedule.due(), 10 * SECOND);
    }

    #[test]
    fn when_the_clock_is_set_ticks_are_at_its_multiples_again() {
        let millis = Duration::from_millis;
        for step in [300, 86_399_300, 4 * 3_600_000 + 300] {
            let stamp = |now: Duration| wall(now + millis(step));
            let mut schedule = Schedule::new(&[SECOND, 5 * SECOND], Duration::ZERO, None, None);
            run(&mut schedule, 0);
            let tick = schedule.tick(SECOND, stamp(SECOND));
            schedule.follow(SECOND, stamp(SECOND), Duration::ZERO);
            assert_eq!((tick.due, tick.missed), (vec![0], 0));
            assert_eq!(schedule.due(), millis(1_700));
            let tick = schedule.tick(millis(1_700), stamp(millis(1_700)));
            assert_eq!((tick.due[0], tick.missed), (0, 0));
            assert_eq!(schedule.due(), millis(2_700));
        }
    }

    #[test]
    fn clocks_that_are_read_one_after_the_other_are_no_step() {
        let mut schedule = alone(None, None);
        for n in 0..5u64 {
            let now = SECOND * n as u32;
            schedule.tick(now, wall(now));
            schedule.follow(now, wall(now + Duration::from_micros(900 * (n % 2))), Duration::ZERO);
            assert_eq!(schedule.due(), now + SECOND);
            let late = Duration::from_millis(30);
            schedule.follow(now, wall(now + late), late);
            assert_eq!(schedule.due(), now + SECOND);
        }
    }

    #[test]
    fn the_day_begins_at_midnight_utc() {
        let stamp = Timestamp::new(86_400 * 19_000 + 3_601, 5).unwrap();
        assert_eq!(time_of_day(stamp), Duration::new(3_601, 5));
        assert_eq!(time_of_day(Timestamp::new(-1, 0).unwrap()), Duration::from_secs(86_399));
    }
}

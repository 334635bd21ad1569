//! The clock for the age of archives.
//!
//! It follows the wall clock, but a jump forward deletes nothing at once: it takes effect only
//! after the agent has run for the age of retention. Until then old archives are deleted as if the
//! clock had not jumped. A jump is a difference between the wall clock and the monotonic clock, or
//! between the end of one run and the start of the next; for a run that left no state its newest
//! data is used. A change of up to a tenth of the age is not a jump, so that nights and restarts do
//! not count. When the clock is set back, jumps are undone, the latest first.
//!
//! Counting only the time for which the agent runs would keep years on a machine that runs an hour
//! a day, and not every host has NTP to confirm a jump.

use std::time::Duration;

use pcp_types::Timestamp;
use serde::{Deserialize, Serialize};

use crate::moment::Moment;

/// Divisor of the age that gives the largest change that is not a jump.
const JUMP_DIVISOR: u32 = 10;
/// Limit on remembered jumps; further ones are merged.
const MAX_JUMPS: usize = 32;

/// The clock in the state file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ClockState {
    /// Wall clock in seconds since 1970.
    pub seen: i64,
    /// Jumps: their length, and the running time until they take effect, in seconds.
    pub jumps: Vec<(u64, u64)>,
}

/// A jump forward that has not taken effect yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Jump {
    by: Duration,
    left: Duration,
}

#[derive(Debug, Default)]
pub(super) struct RetentionClock {
    last: Option<Moment>,
    jumps: Vec<Jump>,
}

impl RetentionClock {
    /// Continues the clock of an earlier run.
    pub(super) fn resume(state: &ClockState) -> Self {
        let seconds = Duration::from_secs;
        let jumps = state.jumps.iter().take(MAX_JUMPS);
        Self {
            last: Timestamp::new(state.seen, 0).ok().map(Self::seen),
            jumps: jumps
                .map(|(by, left)| Jump { by: seconds(*by), left: seconds(*left) })
                .collect(),
        }
    }

    pub(super) fn state(&self) -> ClockState {
        let seen = self.last.map_or(0, |last| last.wall.seconds());
        let jumps = self.jumps.iter().map(|jump| (jump.by.as_secs(), jump.left.as_secs()));
        ClockState { seen, jumps: jumps.collect() }
    }

    /// Returns the moment of a wall clock reading before this run.
    const fn seen(wall: Timestamp) -> Moment {
        Moment { monotonic: Duration::ZERO, wall }
    }

    /// Returns the time by which archives older than `age` are deleted. `newest` is the end of the
    /// newest data, for the first call without a state.
    pub(super) fn now(
        &mut self,
        at: Moment,
        age: Duration,
        newest: Option<Timestamp>,
    ) -> Timestamp {
        let newest = newest.filter(|newest| *newest < at.wall).map(Self::seen);
        if let Some(last) = self.last.or(newest) {
            let ran = at.monotonic.saturating_sub(last.monotonic);
            for jump in &mut self.jumps {
                jump.left = jump.left.min(age).saturating_sub(ran);
            }
            self.jumps.retain(|jump| !jump.left.is_zero());
            let expected = last.wall.saturating_add(ran);
            if at.wall < expected {
                self.take_back(duration_between(at.wall, expected));
            } else {
                let by = duration_between(expected, at.wall);
                if by > age / JUMP_DIVISOR {
                    self.add(Jump { by, left: age });
                }
            }
        }
        self.last = Some(at);
        self.jumps.iter().fold(at.wall, |now, jump| now.saturating_sub(jump.by))
    }

    /// Returns the running time until the next jump takes effect.
    pub(super) fn next_effect(&self) -> Option<Duration> {
        self.jumps.iter().map(|jump| jump.left).min()
    }

    fn add(&mut self, jump: Jump) {
        let is_full = self.jumps.len() >= MAX_JUMPS;
        match self.jumps.last_mut().filter(|_| is_full) {
            Some(last) => *last = Jump { by: last.by.saturating_add(jump.by), ..jump },
            None => self.jumps.push(jump),
        }
    }

    /// Undoes jumps, the latest first, since the clock was set back.
    fn take_back(&mut self, mut by: Duration) {
        while let Some(last) = self.jumps.last_mut() {
            if last.by > by {
                last.by -= by;
                return;
            }
            by -= last.by;
            self.jumps.pop();
        }
    }
}

fn duration_between(from: Timestamp, to: Timestamp) -> Duration {
    u64::try_from(to.nanos_since(from)).map_or(Duration::MAX, Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);
    const DAY: Duration = Duration::from_secs(86_400);
    const AGE: Duration = Duration::from_secs(14 * 86_400);

    fn moment(ran: Duration, ahead: Duration) -> Moment {
        let start = Timestamp::new(1_700_000_000, 0).unwrap();
        Moment { monotonic: ran, wall: start.saturating_add(ran).saturating_add(ahead) }
    }

    #[test]
    fn a_jump_counts_after_the_agent_has_run_for_the_age() {
        let mut clock = RetentionClock::default();
        let years = DAY * 365 * 11;
        assert_eq!(
            clock.now(moment(HOUR, Duration::ZERO), AGE, None),
            moment(HOUR, Duration::ZERO).wall
        );
        for ran in [2 * HOUR, DAY, AGE] {
            let expected = moment(ran, Duration::ZERO).wall;
            assert_eq!(clock.now(moment(ran, years), AGE, None), expected, "{ran:?}");
        }
        let late = moment(AGE + 3 * HOUR, years);
        assert_eq!(clock.now(late, AGE, None), late.wall);
    }

    #[test]
    fn a_jump_is_remembered_over_a_restart_and_undone_by_the_clock() {
        let mut clock = RetentionClock::default();
        clock.now(moment(HOUR, Duration::ZERO), AGE, None);
        clock.now(moment(2 * HOUR, 30 * DAY), AGE, None);
        let state: ClockState =
            serde_json::from_str(&serde_json::to_string(&clock.state()).unwrap()).unwrap();
        let mut next = RetentionClock::resume(&state);
        // A run later the monotonic clock begins again.
        let now = Moment { monotonic: HOUR, ..moment(4 * HOUR, 30 * DAY) };
        assert_eq!(next.now(now, AGE, None), moment(4 * HOUR, Duration::ZERO).wall);
        let back = Moment { monotonic: 2 * HOUR, ..moment(5 * HOUR, Duration::ZERO) };
        assert_eq!(next.now(back, AGE, None), back.wall);
    }

    #[test]
    fn newest_data_reveals_a_jump_without_a_state() {
        let newest = moment(Duration::ZERO, Duration::ZERO).wall;
        let start = |ahead| {
            let at = Moment { monotonic: Duration::ZERO, ..moment(Duration::ZERO, ahead) };
            (RetentionClock::default().now(at, AGE, Some(newest)), at.wall)
        };
        assert_eq!(start(60 * DAY).0, newest);
        let (now, wall) = start(DAY);
        assert_eq!(now, wall);
    }
}

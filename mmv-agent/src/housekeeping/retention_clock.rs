//! The time by which the age of archives counts.
//!
//! It is that of the wall clock, but a jump forward deletes nothing at once: it counts only
//! after the agent has run for the age of retention. Until then old archives are deleted as
//! if the clock had not jumped. What jumps is the wall clock compared with the monotonic
//! one, and from the end of one run to the start of the next, where the newest data stands
//! for a run that left no state. Up to a tenth of the age is no jump, so that nights and
//! restarts do not count. A clock that is set back undoes jumps, the latest first.
//!
//! Counting only the time that the agent runs would keep years on a machine that runs an
//! hour a day, and not every host has NTP to confirm a jump.

use std::time::Duration;

use pcp_types::Timestamp;
use serde::{Deserialize, Serialize};

use crate::moment::Moment;

/// Part of the age up to which a change is no jump.
const PART: u32 = 10;
/// Limit on remembered jumps; further ones are merged.
const JUMPS: usize = 32;

/// The clock in the state file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ClockState {
    /// The wall clock, in seconds since 1970.
    pub seen: i64,
    /// Jumps: by how many seconds, and for how many seconds of running it does not count.
    pub jumps: Vec<(u64, u64)>,
}

/// A jump forward that does not count yet.
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
    /// The clock of an earlier run.
    pub(super) fn resume(state: &ClockState) -> Self {
        let seconds = Duration::from_secs;
        let jumps = state.jumps.iter().take(JUMPS);
        Self {
            last: Timestamp::new(state.seen, 0).ok().map(Self::seen),
            jumps: jumps
                .map(|(by, left)| Jump { by: seconds(*by), left: seconds(*left) })
                .collect(),
        }
    }

    /// Returns the state for the next run.
    pub(super) fn state(&self) -> ClockState {
        let jump = |jump: &Jump| (jump.by.as_secs(), jump.left.as_secs());
        let seen = self.last.map_or(0, |last| last.wall.seconds());
        ClockState { seen, jumps: self.jumps.iter().map(jump).collect() }
    }

    /// A wall clock before this run.
    const fn seen(wall: Timestamp) -> Moment {
        Moment { monotonic: Duration::ZERO, wall }
    }

    /// The time by which archives are deleted that are older than `age`. `newest` is the end
    /// of the newest data, for a first call without a state.
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
            let between = |from: Timestamp, to: Timestamp| {
                u64::try_from(to.nanos_since(from)).map_or(Duration::MAX, Duration::from_nanos)
            };
            if at.wall < expected {
                self.take_back(between(at.wall, expected));
            } else if between(expected, at.wall) > age / PART {
                self.add(Jump { by: between(expected, at.wall), left: age });
            }
        }
        self.last = Some(at);
        self.jumps.iter().fold(at.wall, |now, jump| now.saturating_sub(jump.by))
    }

    fn add(&mut self, jump: Jump) {
        let is_full = self.jumps.len() >= JUMPS;
        match self.jumps.last_mut().filter(|_| is_full) {
            Some(last) => *last = Jump { by: last.by.saturating_add(jump.by), ..jump },
            None => self.jumps.push(jump),
        }
    }

    /// The clock was set back: the latest jumps first are undone.
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

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);
    const DAY: Duration = Duration::from_secs(86_400);
    const AGE: Duration = Duration::from_secs(14 * 86_400);

    fn at(ran: Duration, ahead: Duration) -> Moment {
        let start = Timestamp::new(1_700_000_000, 0).unwrap();
        Moment { monotonic: ran, wall: start.saturating_add(ran).saturating_add(ahead) }
    }

    #[test]
    fn a_jump_counts_after_the_agent_has_run_for_the_age() {
        let mut clock = RetentionClock::default();
        let years = DAY * 365 * 11;
        assert_eq!(clock.now(at(HOUR, Duration::ZERO), AGE, None), at(HOUR, Duration::ZERO).wall);
        for ran in [2 * HOUR, DAY, AGE] {
            let expected = at(ran, Duration::ZERO).wall;
            assert_eq!(clock.now(at(ran, years), AGE, None), expected, "{ran:?}");
        }
        let late = at(AGE + 3 * HOUR, years);
        assert_eq!(clock.now(late, AGE, None), late.wall);
    }

    #[test]
    fn a_jump_is_remembered_over_a_restart_and_undone_by_the_clock() {
        let mut clock = RetentionClock::default();
        clock.now(at(HOUR, Duration::ZERO), AGE, None);
        clock.now(at(2 * HOUR, 30 * DAY), AGE, None);
        let state: ClockState =
            serde_json::from_str(&serde_json::to_string(&clock.state()).unwrap()).unwrap();
        let mut next = RetentionClock::resume(&state);
        // A run later the monotonic clock begins again.
        let now = Moment { monotonic: HOUR, ..at(4 * HOUR, 30 * DAY) };
        assert_eq!(next.now(now, AGE, None), at(4 * HOUR, Duration::ZERO).wall);
        let back = Moment { monotonic: 2 * HOUR, ..at(5 * HOUR, Duration::ZERO) };
        assert_eq!(next.now(back, AGE, None), back.wall);
    }

    #[test]
    fn without_a_state_the_newest_data_shows_a_jump_and_a_short_pause_is_none() {
        let newest = at(Duration::ZERO, Duration::ZERO).wall;
        let start = |ahead| {
            let at = Moment { monotonic: Duration::ZERO, ..at(Duration::ZERO, ahead) };
            (RetentionClock::default().now(at, AGE, Some(newest)), at.wall)
        };
        assert_eq!(start(60 * DAY).0, newest);
        let (now, wall) = start(DAY);
        assert_eq!(now, wall);
    }
}

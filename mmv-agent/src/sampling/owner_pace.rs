//! The time that the files of one user take at a tick.
//!
//! Input: durations of passes over files. Output: whether the user's files are read on the
//! sampler thread or in a slow lane.
//!
//! Reading a page that is in memory takes nanoseconds. It takes long if the page has to be read
//! from a disk or cleared, or while the author of the file changes its extents.

use std::time::Duration;

use super::slow_lane::JobOutcome;

/// Time that the files of a user spend in the slow lane at first. It is doubled each time that
/// they come back within [`SLOW_MEMORY`].
const FIRST_SPELL: Duration = Duration::from_secs(10);

/// Longest time in the slow lane.
const LONGEST_SPELL: Duration = Duration::from_secs(3600);

/// Time after which files in the fast lane count as never having been slow.
const SLOW_MEMORY: Duration = Duration::from_secs(3600);

/// First pause of the slow lane after a pass that took too long. It is doubled after each further
/// one.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// Longest pause of the slow lane.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Number of passes that the files of a user disturb before they are read in the slow lane, each at
/// most [`STRIKE_MEMORY`] after the one before. A single pass may also have waited for the loader,
/// which changes the mappings of the process and was preempted meanwhile.
const MAX_STRIKES: u32 = 3;
const STRIKE_MEMORY: Duration = Duration::from_secs(1);

/// Part of the bound of a record that the files of one user may take, besides what they take
/// undisturbed.
const PART_OF_BOUND: u32 = 4;

/// The pace of the files of one user.
#[derive(Debug)]
pub(super) struct OwnerPace {
    pub(super) owner: u32,
    /// Time that the files took at this tick.
    spent: Duration,
    /// Time that the files take if nothing disturbs the pass.
    usual: Duration,
    slow: Option<SlowSpell>,
    /// Successive passes that the files disturbed, and the time of the last one.
    strikes: u32,
    last_strike: Duration,
    /// The length of the last spell, and its end.
    before: Option<(Duration, Duration)>,
}

/// A stay in the slow lane.
#[derive(Debug)]
struct SlowSpell {
    length: Duration,
    until: Duration,
    /// Earliest time of the next pass.
    resumes: Duration,
    pause: Duration,
    /// The last pass was in time.
    is_punctual: bool,
}

impl OwnerPace {
    pub(super) fn new(owner: u32) -> Self {
        Self {
            owner,
            spent: Duration::ZERO,
            usual: Duration::ZERO,
            slow: None,
            strikes: 0,
            last_strike: Duration::ZERO,
            before: None,
        }
    }

    /// Begins a pass over all files.
    pub(super) fn begin(&mut self) {
        self.spent = Duration::ZERO;
        self.usual = Duration::ZERO;
    }

    /// Returns the time that a pass over the next file may take, given the bound of a record.
    pub(super) fn allow(&mut self, usual: Duration, bound: Duration) -> Duration {
        self.usual += usual;
        (bound / PART_OF_BOUND + self.usual).saturating_sub(self.spent)
    }

    /// Counts a pass. Returns true if the files have taken too long at this tick.
    pub(super) fn spend(&mut self, time: Duration, bound: Duration) -> bool {
        self.spent += time;
        self.spent > bound / PART_OF_BOUND + self.usual
    }

    /// Returns the time that the files took at this tick beyond the usual.
    pub(super) fn excess(&self) -> Duration {
        self.spent.saturating_sub(self.usual)
    }

    /// Returns true if the files are read in the slow lane.
    pub(super) fn is_slow(&self) -> bool {
        self.slow.is_some()
    }

    /// Returns true if the slow lane reads the files at this tick.
    pub(super) fn is_read_at(&self, now: Duration) -> bool {
        self.slow.as_ref().is_some_and(|slow| now >= slow.resumes)
    }

    /// Returns true if the sampler may wait for the slow lane.
    pub(super) fn is_punctual(&self) -> bool {
        self.slow.as_ref().is_some_and(|slow| slow.is_punctual)
    }

    /// Returns true if the files disturbed a pass a short time ago.
    pub(super) fn is_suspect(&self, now: Duration) -> bool {
        self.strikes > 0 && now <= self.last_strike + STRIKE_MEMORY
    }

    /// Counts a pass that the files disturbed. Returns true if it was one too many.
    pub(super) fn strike(&mut self, now: Duration) -> bool {
        if !self.is_suspect(now) {
            self.strikes = 0;
        }
        self.strikes += 1;
        self.last_strike = now;
        self.strikes >= MAX_STRIKES
    }

    /// Begins a stay in the slow lane.
    pub(super) fn slow_down(&mut self, now: Duration) {
        let length = match self.before {
            Some((length, end)) if now < end + SLOW_MEMORY => (length * 2).min(LONGEST_SPELL),
            _ => FIRST_SPELL,
        };
        self.slow = Some(SlowSpell {
            length,
            until: now + length,
            resumes: now,
            pause: FIRST_PAUSE,
            is_punctual: true,
        });
    }

    /// Counts a pass of the slow lane over all files. If the files took too long, the stay begins
    /// anew.
    pub(super) fn note_slow_pass(&mut self, outcome: JobOutcome, now: Duration) {
        let Some(slow) = &mut self.slow else { return };
        match outcome {
            JobOutcome::InTime => {
                slow.is_punctual = true;
                slow.pause = FIRST_PAUSE;
            }
            JobOutcome::Preempted => {}
            JobOutcome::TooLong => {
                slow.is_punctual = false;
                slow.until = now + slow.length;
                slow.resumes = now + slow.pause;
                slow.pause = (slow.pause * 2).min(LONGEST_PAUSE);
            }
        }
    }

    /// Ends a stay in the slow lane that has lasted long enough. Returns true if it has ended.
    pub(super) fn recover(&mut self, now: Duration) -> bool {
        let over = self.slow.take_if(|slow| now >= slow.until);
        if let Some(slow) = &over {
            self.before = Some((slow.length, now));
        }
        over.is_some()
    }

    /// Returns true if nothing needs to be remembered of a user without files.
    pub(super) fn is_forgotten(&self, now: Duration) -> bool {
        self.slow.as_ref().is_none_or(|slow| now >= slow.until)
            && self.before.is_none_or(|(_, end)| now >= end + SLOW_MEMORY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const BOUND: Duration = Duration::from_millis(40);

    #[test]
    fn files_of_a_user_share_a_part_of_the_bound() {
        let mut pace = OwnerPace::new(1);
        pace.begin();
        assert_eq!(pace.allow(MS, BOUND), 11 * MS);
        assert!(!pace.spend(8 * MS, BOUND));
        assert_eq!(pace.allow(MS, BOUND), 4 * MS);
        assert!(pace.spend(5 * MS, BOUND));
        pace.begin();
        assert_eq!(pace.allow(MS, BOUND), 11 * MS);
    }

    #[test]
    fn only_passes_that_follow_each_other_count_against_a_user() {
        let mut pace = OwnerPace::new(1);
        let at = |ms| Duration::from_secs(100) + ms * MS;
        assert!(!pace.strike(at(0)) && !pace.strike(at(900)));
        assert!(!pace.strike(at(2_000)) && !pace.strike(at(2_000)) && pace.strike(at(2_500)));
    }

    #[test]
    fn late_passes_of_a_busy_machine_do_not_extend_a_stay() {
        let mut pace = OwnerPace::new(1);
        pace.slow_down(Duration::ZERO);
        pace.note_slow_pass(JobOutcome::Preempted, 5_000 * MS);
        assert!(pace.is_punctual() && pace.is_read_at(5_000 * MS));
        assert!(pace.recover(FIRST_SPELL));
    }

    #[test]
    fn stays_in_the_slow_lane_double_and_late_passes_extend() {
        let mut pace = OwnerPace::new(1);
        let mut now = Duration::ZERO;
        let mut stays = Vec::new();
        for _ in 0..3 {
            pace.slow_down(now);
            assert!(pace.is_slow() && pace.is_punctual() && pace.is_read_at(now));
            now += Duration::from_secs(5);
            pace.note_slow_pass(JobOutcome::TooLong, now);
            assert!(!pace.is_punctual() && !pace.is_read_at(now));
            assert!(pace.is_read_at(now + FIRST_PAUSE));
            let since = now;
            while !pace.recover(now) {
                pace.note_slow_pass(JobOutcome::InTime, now);
                now += Duration::from_secs(1);
            }
            stays.push(now.saturating_sub(since).as_secs());
        }
        assert_eq!(stays, [10, 20, 40]);
        assert!(!pace.is_forgotten(now) && pace.is_forgotten(now + SLOW_MEMORY));
    }
}

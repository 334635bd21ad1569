//! So many lines about files, and no more.
//!
//! Whoever may make files could have the agent write lines about them as fast as
//! it ticks.

use std::time::Duration;

use tracing::warn;

use crate::allowance::Allowance;

/// How many lines in a row.
const IN_A_ROW: f64 = 200.0;
/// And how many in a second later on.
const PER_SECOND: f64 = 1.0;

/// Who says something about files.
#[derive(Debug)]
pub(crate) struct Voice {
    allowance: Allowance,
    now: Duration,
    unsaid: u64,
}

impl Voice {
    /// One that has said nothing yet.
    pub(crate) fn new() -> Self {
        Self { allowance: Allowance::new(IN_A_ROW, PER_SECOND), now: Duration::ZERO, unsaid: 0 }
    }

    /// It is so late, counted from the start.
    pub(crate) fn set_now(&mut self, now: Duration) {
        self.now = now;
    }

    /// Whether a line may be written; one that may not is counted.
    pub(crate) fn may_speak(&mut self) -> bool {
        if !self.allowance.spend(1.0, self.now) {
            if self.unsaid == 0 {
                warn!("so many lines about files: most are left out from here on");
            }
            self.unsaid += 1;
            return false;
        }
        if self.unsaid > 0 {
            warn!(lines = self.unsaid, "left out about files");
            self.unsaid = 0;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_lines_in_a_row_are_few_in_the_long_run() {
        let mut voice = Voice::new();
        let said = (0..1_000).filter(|_| voice.may_speak()).count();
        assert_eq!(said, 200);
        let mut later = 0;
        for second in 1..=10 {
            voice.set_now(Duration::from_secs(second));
            later += (0..100).filter(|_| voice.may_speak()).count();
        }
        assert_eq!(later, 10);
    }
}

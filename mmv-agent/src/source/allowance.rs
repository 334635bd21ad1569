//! Time limit for a pass over one file.

use std::cell::Cell;
use std::time::Instant;

/// The time at which a pass is stopped.
///
/// The first load from a page may block on a disk, or while the file's author changes the file. A
/// pass is therefore stopped between pages when its time is over.
#[derive(Debug, Default)]
pub(crate) struct Allowance {
    /// `None` for a pass without limit.
    until: Option<Instant>,
    exceeded: Cell<bool>,
}

impl Allowance {
    pub(crate) fn until(until: Instant) -> Self {
        Self { until: Some(until), exceeded: Cell::new(false) }
    }

    /// Creates an allowance without limit.
    pub(crate) fn unlimited() -> Self {
        Self::default()
    }

    /// Reads the clock, and returns true if the pass may go on.
    pub(crate) fn is_left(&self) -> bool {
        if self.until.is_some_and(|until| Instant::now() >= until) {
            self.exceeded.set(true);
        }
        !self.was_exceeded()
    }

    /// Returns true if the time was exceeded: the values of the pass may not be used.
    pub(crate) fn was_exceeded(&self) -> bool {
        self.exceeded.get()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn time_that_is_over_stays_over() {
        let over = Allowance::until(Instant::now());
        assert!(!over.is_left() && over.was_exceeded());
        let left = Allowance::until(Instant::now() + Duration::from_secs(3600));
        assert!(left.is_left() && !left.was_exceeded());
        assert!(Allowance::unlimited().is_left());
    }
}

//! The events of a run, derived from its seed. Both the test and its programs compute them.

use std::time::Duration;

use crate::harness::dice::Dice;

/// Way in which a program publishes its metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A live registry with labelled families.
    Live,
    /// A live registry whose metrics differ from life to life, as those of versions do.
    Rebuilt,
    /// The recorder for the `metrics` facade.
    Facade,
    /// Sealed files of several processes of one application.
    PerProcess,
    /// A sealed file that numbers its instances by their order, another one in each life.
    Numbered,
    /// A file of version 1 that is rewritten in place with another order of instances.
    InPlace,
}

/// The programs of each run. Two processes share the application of `PerProcess`.
pub(super) const PROGRAMS: [(&str, Kind); 7] = [
    ("live", Kind::Live),
    ("rebuilt", Kind::Rebuilt),
    ("facade", Kind::Facade),
    ("workers", Kind::PerProcess),
    ("workers", Kind::PerProcess),
    ("numbered", Kind::Numbered),
    ("inplace", Kind::InPlace),
];

#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) interval: Duration,
    pub(super) length: Duration,
    pub(super) growth: u64,
    /// The agent ends in the middle, and starts again.
    pub(super) restarts_agent: bool,
}

/// A process from its start to its end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Life {
    pub(super) length: Duration,
    /// Ends by SIGKILL, not by itself.
    pub(super) is_killed: bool,
    pub(super) pause: Duration,
    pub(super) threads: u64,
    /// Instances are created from the last name to the first.
    pub(super) is_reversed: bool,
}

/// Metrics of all programs that have a value for each instance, about.
const METRICS: u64 = 15;

const MIN_LENGTH: Duration = Duration::from_millis(2500);

impl Plan {
    /// Plans a run of a few seconds, which is read in as many.
    pub(super) fn short(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let interval = [10, 20, 50, 100, 250][dice.below(5) as usize];
        let growth = [1, 10, 100, 300][dice.below(4) as usize];
        let length = Duration::from_millis((200 * interval).clamp(2500, 4000));
        let interval = Duration::from_millis(interval);
        let restarts_agent = dice.one_in(2);
        Self { seed, interval, length, growth, restarts_agent }.with_at_most(20_000)
    }

    /// Plans a run with all intervals and rates.
    pub(super) fn long(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let interval = [10, 20, 50, 100, 200, 500, 1000][dice.below(7) as usize];
        let growth = [1, 3, 10, 30, 100, 300, 1000][dice.below(7) as usize];
        let interval = Duration::from_millis(interval);
        let length = Duration::from_secs(5 + dice.below(15)).max(interval * 10);
        let restarts_agent = dice.one_in(2);
        Self { seed, interval, length, growth, restarts_agent }.with_at_most(400_000)
    }

    /// Shortens a run of fast growth, and then lowers its growth, until it logs about this many
    /// values at most.
    fn with_at_most(mut self, values: u64) -> Self {
        while self.values() > values && self.length > MIN_LENGTH {
            self.length = self.length.mul_f64(0.8);
        }
        while self.values() > values && self.growth > 1 {
            self.growth -= self.growth.div_ceil(8);
        }
        self
    }

    fn values(&self) -> u64 {
        let ticks = (self.length.as_millis() / self.interval.as_millis()) as u64;
        METRICS * ticks * self.instances() / 2
    }

    pub(super) fn instances(&self) -> u64 {
        PERMANENT + self.growth * self.length.as_millis() as u64 / 1000
    }

    pub(super) fn life(&self, program: usize, life: u64) -> Life {
        let mut dice = self.dice(program, life);
        let length = self.length.as_millis() as u64;
        let pause = if dice.one_in(3) { 0 } else { dice.below(length / 6) };
        Life {
            length: Duration::from_millis(length / 4 + dice.below(length / 2)),
            is_killed: dice.one_in(2),
            pause: Duration::from_millis(pause),
            threads: 1 + dice.below(3),
            is_reversed: life % 2 == 1,
        }
    }

    pub(super) fn dice(&self, program: usize, life: u64) -> Dice {
        Dice::new(self.seed.wrapping_mul(1009).wrapping_add(program as u64 * 101 + life))
    }
}

/// Instances that are never removed; all threads count in them.
pub(super) const PERMANENT: u64 = 5;

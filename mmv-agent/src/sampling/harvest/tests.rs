//! Tests of slow lanes by the clock.

use std::path::Path;
use std::thread;
use std::time::Instant;

use super::*;
use crate::source::tests::{active, counters_file};

/// Sampling interval, so long that a thread gets a processor of a busy machine in the part of it that
/// a tick waits for slow lanes.
const INTERVAL: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(10);

/// A harvest with a file of each user, whose number is its ticket.
struct Rig {
    harvest: Harvest,
    clock: PassClock,
    /// Simulated time that a pass spends on the first file.
    pause: Duration,
}

impl Rig {
    /// Creates a harvest of files with these numbers of counters, of users 1, 2 and so on.
    fn new(directory: &Path, counters: &[usize]) -> Self {
        let users = (1..).zip(counters);
        let files = users.map(|(user, count)| planned(directory, user, *count)).collect();
        let clock = PassClock::since(Instant::now());
        let mut rig = Self { harvest: Harvest::default(), clock, pause: Duration::ZERO };
        rig.replace(files);
        rig
    }

    fn replace(&mut self, sources: Vec<PlannedSource>) {
        let now = self.now();
        self.harvest.replace(sources, now, &mut RetiredObjects::default());
    }

    fn now(&self) -> Moment {
        self.clock.moment().expect("a clock that runs")
    }

    /// Reads all files. Returns whether there are values of each.
    fn tick(&mut self) -> Vec<bool> {
        let clock = self.clock;
        let time = PassTime { clock, interval: INTERVAL, is_final: false, may_repeat: false };
        let now = self.now();
        let pause = self.pause;
        self.harvest.read(now, time, |number| {
            if number == 1 {
                thread::sleep(pause);
            }
            true
        });
        self.harvest.values(now).iter().map(Option::is_some).collect()
    }

    /// Returns whether a condition comes true after one of many ticks.
    fn ticks_until(&mut self, mut condition: impl FnMut(&mut Self, Vec<bool>) -> bool) -> bool {
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(30) {
            let has_values = self.tick();
            if condition(self, has_values) {
                return true;
            }
            thread::sleep(PAUSE);
        }
        false
    }
}

fn planned(directory: &Path, user: u32, counters: usize) -> PlannedSource {
    let ticket = u64::from(user);
    let path = counters_file(directory, &format!("f{user}"), counters);
    PlannedSource { ticket, owner: user, new: Some(active(&path, ticket)) }
}

#[test]
fn slow_lane_has_time_after_a_long_pass_over_other_files() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut rig = Rig::new(dir.path(), &[30_000, 3]);
    rig.pause = LONGEST_BOUND + usual_time(30_000) / 4;
    // A machine without a free processor may disturb some ticks.
    assert!(rig.ticks_until(|rig, has_values| {
        let now = rig.now().monotonic;
        let pace = &mut rig.harvest.owners[1];
        let was_slow = pace.is_slow();
        pace.slow_down(now);
        was_slow && has_values == [true, true]
    }));
}

#[test]
fn lanes_of_users_without_files_end() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut rig = Rig::new(dir.path(), &[3; 8]);
    for pace in &mut rig.harvest.owners {
        pace.slow_down(Duration::ZERO);
    }
    assert!(rig.ticks_until(|rig, _| !rig.harvest.lanes.is_free(9)), "each user has a lane");
    let mut reshaped = Vec::new();
    assert!(rig.ticks_until(|rig, _| {
        let now = rig.now();
        thread::sleep(PAUSE);
        rig.harvest.take_reports(now, &mut reshaped);
        (1..=8).all(|user| !rig.harvest.lanes.is_busy(user))
    }));
    let later = Moment { monotonic: Duration::from_secs(60), ..rig.now() };
    rig.harvest.replace(Vec::new(), later, &mut RetiredObjects::default());
    assert!(rig.harvest.lanes.is_free(9));
}

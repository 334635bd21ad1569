//! The honest programs: one counts all the time, the other is killed and started again.
//! Values are the time at which they were set, in microseconds.

use std::fs::{self, File, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mmv_writer::pcp::{
    IndomMetricExt as _, MetricBuilderExt as _, RegistryBuilderExt as _, RegistryExt as _,
};
use mmv_writer::{Counter, Gauge, Registry};

use super::users::{HONEST, Process, become_user};
use crate::harness::dice::Dice;
use crate::harness::scratch::Scratch;
use crate::harness::wait;

pub(super) const STEADY: &str = "honest";
pub(super) const RETURNING: &str = "returning";
/// The instances of `by`, and the value of `constant`.
pub(super) const INSTANCES: [&str; 3] = ["red", "green", "blue"];
pub(super) const CONSTANT: u64 = 4711;
pub(super) const CLUSTERS: [(&str, u32); 2] = [(STEADY, 77), (RETURNING, 78)];

const PERIOD: Duration = Duration::from_millis(1);
/// Start of a line of the journal with the time at which the program that returns had published,
/// or had tried to.
const STARTED: &str = "started ";
/// Longest time that a value lasts without a line in the journal, in microseconds.
pub(super) const STANDS: u64 = 20_000;

const DIRECTORY: &str = "MMV_STORM_DIRECTORY";
const JOURNAL: &str = "MMV_STORM_JOURNAL";
const NAME: &str = "MMV_STORM_NAME";

/// Returns the time in microseconds since 1970.
pub(super) fn micros() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970");
    now.as_micros() as u64
}

#[test]
#[ignore = "a program of the storm, and no test"]
fn count() {
    become_user();
    let variable = |name| std::env::var(name).unwrap_or_else(|_| panic!("no {name}"));
    let (name, directory) = (variable(NAME), variable(DIRECTORY));
    let mut journal = File::options().append(true).open(variable(JOURNAL)).unwrap();
    let cluster = CLUSTERS.iter().find(|(other, _)| *other == name).unwrap().1;
    let registry = Registry::builder(&name).directory(directory).cluster(cluster).lenient();
    let registry = registry.sealed().build().unwrap();
    let now = registry.counter("now").item(1).build().unwrap();
    let domain = registry.indom("by").names(INSTANCES).build().unwrap();
    let by = registry.counter("by").item(2).build_instances(&domain).unwrap();
    let constant = registry.metric::<Gauge<u64>>("constant").item(3).build().unwrap();
    constant.set(CONSTANT);
    let set = |counter: &Counter<u64>, value: u64| {
        counter.add(value.wrapping_sub(counter.value()));
    };
    let mut last = micros();
    set(&now, last);
    by.iter().for_each(|counter| set(counter, last));
    registry.publish().unwrap();
    if name == RETURNING {
        journal.write_all(format!("{STARTED}{}\n", micros()).as_bytes()).unwrap();
    }
    loop {
        sleep(PERIOD);
        let value = micros();
        set(&now, value);
        by.iter().for_each(|counter| set(counter, value));
        let until = micros();
        if until - last > STANDS {
            journal.write_all(format!("{last} {until}\n").as_bytes()).unwrap();
        }
        last = value;
    }
}

/// Start and end of one life of the program that returns, in microseconds since 1970.
pub(super) type Life = (u64, u64);

/// Knowledge of the honest programs that the judge needs.
#[derive(Debug)]
pub(super) struct Lives {
    pub(super) steady: Life,
    pub(super) returning: Vec<Life>,
    /// Time when the other one had a registry, in each life that lasted until then.
    pub(super) started: Vec<u64>,
    /// Values of the steady one that lasted longer than [`STANDS`], and until when.
    pub(super) late: Vec<(u64, u64)>,
}

/// Time for which the program that returns runs and is away: the shortest time and a random
/// addition, in microseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rhythm {
    pub(super) life: (u64, u64),
    pub(super) absence: (u64, u64),
}

#[derive(Debug)]
pub(super) struct Honest {
    directory: PathBuf,
    journal: PathBuf,
    begun: u64,
    steady: Process,
    returning: Option<(Process, u64)>,
    lives: Vec<Life>,
    /// Time when the other program is killed or started next.
    due: u64,
    rhythm: Rhythm,
    dice: Dice,
}

impl Honest {
    pub(super) fn start(scratch: &Scratch, seed: u64, rhythm: Rhythm) -> Self {
        let (directory, journal) = (scratch.mmv_dir(), scratch.path().join("journal"));
        fs::write(&journal, "").expect("a journal");
        fs::set_permissions(&journal, Permissions::from_mode(0o666)).expect("set a mode");
        let begun = micros();
        let steady = program(&directory, &journal, STEADY);
        let published = directory.join(STEADY);
        wait::until_true("the honest program", || published.exists());
        let mut honest = Self {
            directory,
            journal,
            begun,
            steady,
            returning: None,
            lives: Vec::new(),
            due: 0,
            rhythm,
            dice: Dice::new(seed),
        };
        // Names belong to the user who had them first.
        honest.look();
        let published = honest.directory.join(RETURNING);
        wait::until_true("the program that returns", || published.exists());
        honest
    }

    /// Kills or starts the program that returns, when that is due.
    pub(super) fn look(&mut self) {
        self.steady.assert_alive();
        if micros() < self.due {
            return;
        }
        let (shortest, more) = if let Some((mut process, born)) = self.returning.take() {
            process.end();
            self.lives.push((born, micros()));
            // As a program leaves the directory that ends by itself, each second time.
            if self.lives.len() % 2 == 1 {
                let _ = fs::remove_file(self.directory.join(RETURNING));
            }
            self.rhythm.absence
        } else {
            let born = micros();
            self.returning = Some((program(&self.directory, &self.journal, RETURNING), born));
            self.rhythm.life
        };
        self.due = micros() + shortest + self.dice.below(more);
    }

    /// Lets the program that returns end at the next look, if it runs.
    pub(super) fn hurry(&mut self) {
        if self.returning.is_some() {
            self.due = 0;
        }
    }

    /// Returns whether the program that returns was killed before, and has run for a time since
    /// it published.
    pub(super) fn has_returned_for(&self, time: Duration) -> bool {
        let Some((_, born)) = &self.returning else { return false };
        let started = self.started().last().copied();
        let since = started.filter(|started| started >= born).map(|at| micros().saturating_sub(at));
        !self.lives.is_empty() && since.is_some_and(|since| Duration::from_micros(since) > time)
    }

    fn started(&self) -> Vec<u64> {
        let text = fs::read_to_string(&self.journal).expect("the journal");
        let times = text.lines().filter_map(|line| line.strip_prefix(STARTED)?.parse().ok());
        times.collect()
    }

    pub(super) fn end(mut self) -> Lives {
        if let Some((mut process, born)) = self.returning.take() {
            process.end();
            self.lives.push((born, micros()));
        }
        self.steady.end();
        let text = fs::read_to_string(&self.journal).expect("the journal");
        let late = text
            .lines()
            .filter_map(|line| {
                let (value, until) = line.split_once(' ')?;
                Some((value.parse().ok()?, until.parse().ok()?))
            })
            .collect();
        let started = self.started();
        Lives { steady: (self.begun, micros()), returning: self.lives, started, late }
    }
}

fn program(directory: &Path, journal: &Path, name: &str) -> Process {
    let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let (directory, journal) = (text(directory), text(journal));
    let variables = [(DIRECTORY, &*directory), (JOURNAL, &*journal), (NAME, name)];
    Process::start("storm::honest::count", HONEST, -10, &variables)
}

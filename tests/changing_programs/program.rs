//! A program: threads that count, grow and remove, and write each change down.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;

use super::foreign::InPlace;
use super::journal::{Journal, What};
use super::plan::{Kind, Life, PERMANENT, PROGRAMS, Plan};
use super::registries::{Facade, Live, Sealed};
use super::target::Target;
use crate::harness::dice::Dice;

pub(super) const DIRECTORY: &str = "MMV_CHANGING_DIRECTORY";
pub(super) const JOURNALS: &str = "MMV_CHANGING_JOURNALS";
/// The number of the program and that of its life.
pub(super) const LIFE: &str = "MMV_CHANGING_LIFE";
/// `short` or `long`, and the seed.
pub(super) const PLAN: &str = "MMV_CHANGING_PLAN";

/// A program that is to be killed ends by itself after this time, if its test has failed.
const MAX_LENGTH: Duration = Duration::from_secs(120);

#[test]
#[ignore = "a program of the tests of changing programs, and no test"]
fn run() {
    let variable = |name| std::env::var(name).unwrap_or_else(|_| panic!("no {name}"));
    set_pdeathsig(Signal::SIGKILL).expect("end with the test");
    let plan = variable(PLAN);
    let (form, seed) = plan.split_once(' ').expect("two words");
    let seed = seed.parse().expect("a seed");
    let plan = if form == "long" { Plan::long(seed) } else { Plan::short(seed) };
    let numbers = variable(LIFE);
    let (program, life) = numbers.split_once(' ').expect("two numbers");
    let (program, life) = (program.parse().unwrap(), life.parse().unwrap());
    let directory = PathBuf::from(variable(DIRECTORY));
    let process = Process { plan, program, life, journals: variable(JOURNALS).into() };
    process.run(&directory);
}

struct Process {
    plan: Plan,
    program: usize,
    life: u64,
    journals: PathBuf,
}

impl Process {
    fn run(&self, directory: &Path) {
        let (name, kind) = PROGRAMS[self.program];
        let mut dice = self.plan.dice(self.program, self.life);
        let mut main = self.journal("main");
        match kind {
            Kind::Live => self.work(Live::new(directory, name, &mut main), &mut main),
            Kind::Rebuilt => {
                let program = Live::rebuilt(directory, name, &mut dice, &mut main);
                self.work(program, &mut main);
            }
            Kind::Facade => self.work(Facade::new(directory, name, &mut main), &mut main),
            Kind::PerProcess => {
                self.work(Sealed::per_process(directory, name, &mut main), &mut main);
            }
            Kind::Numbered => {
                let program = Sealed::numbered(directory, name, &mut dice, &mut main);
                self.work(program, &mut main);
            }
            Kind::InPlace => {
                let program = InPlace::new(directory, name, &mut dice, &mut main);
                self.work(program, &mut main);
            }
        }
        main.done();
    }

    fn journal(&self, thread: &str) -> Journal {
        let name = format!("{}.{}.{thread}", self.program, self.life);
        Journal::create(&self.journals.join(name))
    }

    /// Runs the threads until the end of the life, and says so in the journal.
    fn work<T: Target>(&self, target: T, main: &mut Journal) {
        main.done();
        let life = self.plan.life(self.program, self.life);
        let length = if life.is_killed { MAX_LENGTH } else { life.length };
        let end = Instant::now() + length;
        let names = self.plan.instances();
        thread::scope(|scope| {
            for number in 0..life.threads {
                let journal = self.journal(&number.to_string());
                let dice = self.plan.dice(self.program, self.life + 1000 * (number + 1));
                let growth = if number == 0 && target.grows() { self.plan.growth } else { 0 };
                let (target, life) = (&target, &life);
                scope.spawn(move || {
                    Worker { target, life, journal, dice, number, names, growth }.run(end);
                });
            }
        });
        main.note(What::End, "-", "-", 0);
        drop(target);
    }
}

struct Worker<'t, T> {
    target: &'t T,
    life: &'t Life,
    journal: Journal,
    dice: Dice,
    number: u64,
    /// Number of names that exist, and of new ones a second.
    names: u64,
    growth: u64,
}

impl<T: Target> Worker<'_, T> {
    fn run(mut self, end: Instant) {
        let start = Instant::now();
        let mut created = 0;
        // Instances beyond the permanent ones, which this thread alone uses.
        let mut own: Vec<u64> = Vec::new();
        let mut removed: Vec<u64> = Vec::new();
        while Instant::now() < end {
            let due = (start.elapsed().as_secs_f64() * self.growth as f64) as u64;
            while created < due && created < self.names - PERMANENT {
                let step = if self.life.is_reversed {
                    self.names - 1 - created
                } else {
                    PERMANENT + created
                };
                created += 1;
                own.push(step);
                self.count(step);
            }
            let instance = match own.len() as u64 {
                0 => self.dice.below(PERMANENT),
                _ if self.dice.one_in(2) => self.dice.below(PERMANENT),
                many => own[self.dice.below(many) as usize],
            };
            self.count(instance);
            self.set(if instance < PERMANENT { self.number } else { instance });
            self.record();
            if self.target.removes() && self.dice.one_in(20) && !own.is_empty() {
                let gone = own.swap_remove(self.dice.below(own.len() as u64) as usize);
                self.remove(gone);
                removed.push(gone);
            }
            if self.dice.one_in(20)
                && let Some(again) = removed.pop()
            {
                own.push(again);
                self.count(again);
            }
            if self.number == 0 && self.dice.one_in(40) {
                self.target.reorder(&mut self.dice);
            }
            self.journal.done();
            thread::sleep(Duration::from_micros(500 + self.dice.below(10_000)));
        }
    }

    fn count(&mut self, instance: u64) {
        let metrics = self.target.metrics();
        let name = self.target.name(instance);
        for (number, counter) in metrics.counters.iter().enumerate() {
            let delta = 1 + self.dice.below(100);
            self.journal.note(What::Add, counter, &name, delta);
            self.target.add(number, instance, delta);
        }
        if let Some(total) = &metrics.total {
            self.journal.note(What::Add, total, "", 1);
            self.target.add_total(1);
        }
    }

    fn set(&mut self, instance: u64) {
        let metrics = self.target.metrics();
        let name = self.target.name(instance);
        for (number, gauge) in metrics.gauges.iter().enumerate() {
            // A value identifies its instance.
            let value = 1000 * instance + self.dice.below(1000);
            self.journal.note(What::Set, gauge, &name, value);
            self.target.set(number, instance, value);
        }
    }

    fn record(&mut self) {
        let Some(histogram) = &self.target.metrics().histogram else { return };
        let instance = self.dice.below(PERMANENT);
        let value = (10 << (3 * instance)) + self.dice.below(5 << (3 * instance));
        let name = self.target.histogram_name(instance);
        self.journal.note(What::Record, histogram, &name, value);
        self.target.record(instance, value);
    }

    fn remove(&mut self, instance: u64) {
        let metrics = self.target.metrics();
        let name = self.target.name(instance);
        // Removed from all metrics at once, some time between the first line and the last.
        for metric in metrics.counters.iter().chain(&metrics.gauges) {
            self.journal.note(What::Remove, metric, &name, 0);
        }
        self.target.remove(instance);
    }
}

//! One of the programs: sets all its values to the time, again and again, and writes down each
//! delay.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mmv_writer::pcp::{
    Indom, IndomMetricExt as _, MetricBuilderExt as _, NamedFamily, RegistryBuilderExt as _,
    RegistryExt as _,
};
use mmv_writer::{Counter, Gauge, Registry};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use pcp_archive::ValueType;

use super::shape::Shape;

/// The environment variables that control a program.
pub(super) const DIRECTORY: &str = "MMV_LONG_RUN_DIRECTORY";
pub(super) const JOURNAL: &str = "MMV_LONG_RUN_JOURNAL";
pub(super) const LIFE: &str = "MMV_LONG_RUN_LIFE";

/// Time between two updates, in microseconds.
const PERIOD: u64 = 20_000;
/// Longest time that a value lasts without a line in the journal.
pub(super) const STANDS: u64 = 2 * PERIOD;
/// Limit on updates, so that no program outlives a run, even a failed one.
const MOST_UPDATES: u64 = 12 * 3600 * 1_000_000 / PERIOD;
/// Number of updates after which a file that grows gets another instance.
const GROWTH: u64 = 25;
/// And how many it has at most.
const MOST_INSTANCES: usize = 6;

/// Returns the time in microseconds since 1970.
pub(super) fn micros() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970");
    now.as_micros() as u64
}

#[test]
#[ignore = "a program of the long run, and no test"]
fn produce() {
    let variable = |name| std::env::var(name).unwrap_or_else(|_| panic!("no {name}"));
    set_pdeathsig(Signal::SIGKILL).expect("end with the test");
    let life = variable(LIFE);
    let numbers: Vec<u64> = life.split(' ').map(|number| number.parse().unwrap()).collect();
    let shape = Shape::of(numbers[0], numbers[1], numbers[2]);
    let journal = File::options().append(true).create(true).open(variable(JOURNAL)).unwrap();
    let mut program = Program { journal, set: Vec::new(), last: 0 };
    let directory = PathBuf::from(variable(DIRECTORY));
    if shape.grows { program.live(&shape, &directory) } else { program.sealed(&shape, &directory) }
}

struct Program {
    journal: File,
    /// Setters of all values.
    set: Vec<Box<dyn Fn(u64)>>,
    last: u64,
}

impl Program {
    fn sealed(&mut self, shape: &Shape, directory: &Path) {
        let registry = Registry::builder(&shape.file).directory(directory).cluster(shape.cluster);
        let registry = registry.sealed().build().unwrap();
        self.singular(&registry, shape);
        let domain = registry.indom("by").names(shape.by.iter().map(String::as_str));
        let domain = domain.build().unwrap();
        let by = registry.counter("by").item(10).build_instances(&domain).unwrap();
        self.set.push(Box::new(move |value| by.iter().for_each(|counter| set(counter, value))));
        self.update();
        registry.publish().unwrap();
        for _ in 0..shape.updates.unwrap_or(MOST_UPDATES) {
            sleep(Duration::from_micros(PERIOD));
            self.update();
        }
    }

    /// Publishes a file that gets new instances and loses old ones.
    fn live(&mut self, shape: &Shape, directory: &Path) {
        let registry = Registry::builder(&shape.file).directory(directory).cluster(shape.cluster);
        let registry = registry.build().unwrap();
        self.note(&format!("new now {}", micros()));
        for number in &shape.more {
            self.note(&format!("new more{number} {}", micros()));
        }
        self.singular(&registry, shape);
        self.update();
        self.note(&format!("set now {}", micros()));
        for number in &shape.more {
            self.note(&format!("set more{number} {}", micros()));
        }
        let domain = registry.indom("grown").build().unwrap();
        let family = registry.counter("grown").item(11).build_named(&domain).unwrap();
        let mut growth = Growth { registry, domain, family, instances: VecDeque::new(), born: 0 };
        for update in 0..shape.updates.unwrap_or(MOST_UPDATES) {
            if update % GROWTH == 0 {
                self.grow(&mut growth);
            }
            sleep(Duration::from_micros(PERIOD));
            self.update_with(growth.instances.iter().map(|(_, counter)| counter));
        }
    }

    fn singular(&mut self, registry: &Registry, shape: &Shape) {
        match shape.now {
            ValueType::I64 => {
                let now = signed(registry, "now", 1);
                self.set.push(Box::new(move |value| now.set(value as i64)));
            }
            ValueType::Double => {
                let now = double(registry, "now", 1);
                self.set.push(Box::new(move |value| now.set(value as f64)));
            }
            _ => {
                self.set.push(setter(counted(registry, "now", 1)));
            }
        }
        for number in &shape.more {
            self.set.push(setter(counted(registry, &format!("more{number}"), 1 + number)));
        }
    }

    fn grow(&mut self, growth: &mut Growth) {
        if growth.instances.len() == MOST_INSTANCES
            && let Some((name, _)) = growth.instances.pop_front()
        {
            assert!(growth.domain.remove(&name));
            growth.registry.announce();
            self.note(&format!("gone grown[{name}] {} {}", self.last, micros()));
        }
        let name = format!("g{}_{}", std::process::id(), growth.born);
        growth.born += 1;
        self.note(&format!("new grown[{name}] {}", micros()));
        let counter = growth.family.get_or_create(&name).unwrap();
        // Some are seen as 0, and some with their first value only.
        if growth.born.is_multiple_of(2) {
            growth.registry.announce();
        }
        growth.instances.push_back((name.clone(), counter));
        self.update_with(growth.instances.iter().map(|(_, counter)| counter));
        growth.registry.announce();
        self.note(&format!("set grown[{name}] {}", micros()));
    }

    fn update(&mut self) {
        self.update_with([].into_iter());
    }

    fn update_with<'c>(&mut self, instances: impl Iterator<Item = &'c Counter<u64>>) {
        let value = micros();
        self.set.iter().for_each(|set| set(value));
        instances.for_each(|counter| set(counter, value));
        let until = micros();
        if self.last > 0 && until - self.last > STANDS {
            self.note(&format!("late {} {until}", self.last));
        }
        self.last = value;
    }

    /// Writes a line to the journal in one piece, since a program may be killed anywhere.
    fn note(&mut self, what: &str) {
        let mut line = String::new();
        writeln!(line, "{what}").expect("a string");
        self.journal.write_all(line.as_bytes()).expect("write the journal");
    }
}

fn counted(registry: &Registry, name: &str, item: u32) -> Counter {
    registry.counter(name).item(item).build().unwrap()
}

fn signed(registry: &Registry, name: &str, item: u32) -> Gauge<i64> {
    registry.metric(name).item(item).build().unwrap()
}

fn double(registry: &Registry, name: &str, item: u32) -> Gauge {
    registry.gauge(name).item(item).build().unwrap()
}

struct Growth {
    registry: Registry,
    domain: Indom,
    family: NamedFamily<Counter<u64>>,
    instances: VecDeque<(String, Counter<u64>)>,
    born: u64,
}

fn set(counter: &Counter<u64>, value: u64) {
    counter.add(value.wrapping_sub(counter.value()));
}

fn setter(counter: Counter<u64>) -> Box<dyn Fn(u64)> {
    Box::new(move |value| set(&counter, value))
}

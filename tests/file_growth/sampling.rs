//! A program that adds instances all the time is sampled at each tick, and its last values
//! are logged when it ends.
//!
//! The program keeps a journal of its counts. A file that never changes is logged beside it:
//! each record with a value of that file is a tick of the agent, so on a busy machine there
//! are fewer ticks, and no missing samples.
//!
//! Prints figures. `MMV_LONG` in the environment asks for all rates and intervals.

use std::collections::HashMap;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mmv_writer::pcp::{IndomMetricExt as _, NamedFamily, RegistryExt as _};
use mmv_writer::{Counter, Registry};
use pcp_archive::raw::Record;
use pcp_archive::{Archive, InstanceId, Pmid, Timestamp, Value, ValueType};

use super::steady;
use crate::harness::agent::Agent;
use crate::harness::scratch::Scratch;
use crate::harness::wait;

/// The counter of instance n starts at n times this, so that a value identifies its instance.
const STEP: u64 = 1_000_000;

/// Limit on ticks from the start of a program until its first sample. The program announces its
/// metrics 100 ms after its file, and the thread of the agent that finds them has to wait for a
/// processor, unlike the one that samples.
const TICKS_UNTIL_FIRST: u64 = 5;

#[derive(Debug, Clone, Copy)]
struct Load {
    rate: u64,
    interval: Duration,
    seconds: u64,
}

struct Program {
    registry: Registry,
    total: Counter<u64>,
    count: NamedFamily<Counter<u64>>,
    handles: Vec<Counter<u64>>,
    /// Times and values of `total`, after each change.
    journal: Vec<(Timestamp, u64)>,
}

fn now() -> Timestamp {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970");
    Timestamp::from_nanos(now.as_nanos().cast_signed())
}

impl Program {
    fn start(directory: &Path) -> Self {
        let registry = Registry::builder("growing").directory(directory);
        let registry = registry.build().unwrap();
        let total = registry.counter("total").build().unwrap();
        let things = registry.indom("things").build().unwrap();
        let count = registry.counter("count").build_named(&things).unwrap();
        Self { registry, total, count, handles: Vec::new(), journal: vec![(now(), 0)] }
    }

    /// Adds instances at an even rate, and counts about once in a millisecond.
    fn run(&mut self, load: Load) {
        let start = Instant::now();
        let end = Duration::from_secs(load.seconds);
        while start.elapsed() < end {
            let due = (start.elapsed().as_secs_f64() * load.rate as f64) as u64;
            while (self.handles.len() as u64) < due {
                let number = self.handles.len() as u64;
                let handle = self.count.get_or_create(&format!("i{number}")).unwrap();
                handle.add(number * STEP);
                self.handles.push(handle);
            }
            if let Some(number) = self.total.value().checked_rem(self.handles.len() as u64) {
                self.handles[number as usize].inc();
            }
            self.total.inc();
            self.journal.push((now(), self.total.value()));
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn end(self) -> (Vec<(Timestamp, u64)>, HashMap<String, u64>) {
        let last = self.handles.iter().enumerate();
        let last = last.map(|(number, handle)| (format!("i{number}"), handle.value())).collect();
        drop(self.registry);
        (self.journal, last)
    }
}

/// Findings in the archive, up to the end of the program.
#[derive(Debug, Default)]
struct Samples {
    /// Ticks from the start of the program until its first sample.
    before: u64,
    ticks: u64,
    /// Ticks with values of the program.
    taken: u64,
    longest_gap: Duration,
    last_total: u64,
    /// Last values of instances, also after the end.
    last: HashMap<String, u64>,
    /// Values that are wrong, and instances that come and go.
    wrong: Vec<String>,
}

impl Samples {
    fn read(base: &Path, journal: &[(Timestamp, u64)]) -> Self {
        let archive = Archive::open(base).unwrap();
        let metadata = archive.metadata();
        let pmid = |name| metadata.metric_by_name(name).expect("the metric").desc.pmid;
        let steady = pmid("mmv.other.steady");
        let total = pmid("mmv.growing.total");
        let count = pmid("mmv.growing.count");
        let instances = metadata.indoms().flat_map(|(_, history)| history.union());
        let names: HashMap<InstanceId, String> =
            instances.map(|instance| (instance.id, instance.name.to_string())).collect();
        let start = journal[0].0;
        let end = journal[journal.len() - 1].0;
        let mut found = Self::default();
        let mut last_sample = None;
        let mut records = archive.records().unwrap();
        while let Some(record) = records.next().unwrap() {
            let at = record.timestamp();
            if at < start || values(&record, steady).is_empty() {
                continue;
            }
            let sample = values(&record, total).first().map(|(_, value)| *value);
            if at <= end {
                let is_before = last_sample.is_none() && sample.is_none();
                *(if is_before { &mut found.before } else { &mut found.ticks }) += 1;
            }
            let Some(sample) = sample else { continue };
            if at <= end {
                found.taken += 1;
                let gap = last_sample.map_or(0, |last: Timestamp| at.nanos_since(last));
                let gap = Duration::from_nanos(u64::try_from(gap).unwrap());
                found.longest_gap = found.longest_gap.max(gap);
            }
            last_sample = Some(at);
            let counted = journal.partition_point(|(time, _)| *time < at);
            let counted = counted.checked_sub(1).map_or(0, |before| journal[before].1);
            if sample < counted.max(found.last_total) {
                found.wrong.push(format!("total {sample} at {at}, {counted} were counted"));
            }
            found.last_total = sample;
            found.take_instances(at, values(&record, count), &names);
        }
        found
    }

    fn take_instances(
        &mut self,
        at: Timestamp,
        values: Vec<(Option<InstanceId>, u64)>,
        names: &HashMap<InstanceId, String>,
    ) {
        let before = std::mem::take(&mut self.last);
        for (id, value) in values {
            let name = &names[&id.expect("an instance")];
            let number: u64 = name[1..].parse().unwrap();
            if value != 0 && value / STEP != number {
                self.wrong.push(format!("{name} at {at}: {value}"));
            }
            self.last.insert(name.clone(), value);
        }
        for (name, value) in before {
            if self.last.get(&name).is_none_or(|now| *now < value) {
                self.wrong
                    .push(format!("{name} at {at}: {:?} after {value}", self.last.get(&name)));
            }
        }
    }
}

fn values(record: &Record<'_>, pmid: Pmid) -> Vec<(Option<InstanceId>, u64)> {
    let set = record.value_sets().find(|set| set.pmid() == pmid);
    let values = set.into_iter().flat_map(|set| set.values(ValueType::U64));
    let number = |value| match value {
        Value::U64(number) => number,
        other => panic!("{other:?}"),
    };
    values.map(|value| value.map(|(id, value)| (id, number(value))).unwrap()).collect()
}

fn check(load: Load) {
    let scratch = Scratch::new();
    let _other = steady(&scratch, "other", 9);
    let interval = format!("{}ms", load.interval.as_millis());
    let mut agent = Agent::start_with(&scratch, &["--interval", &interval]);
    wait::until_true("first records", || agent.data_bytes() > 500);
    let mut program = Program::start(&scratch.mmv_dir());
    program.run(load);
    let (journal, last) = program.end();
    wait::until_true("the end to be noticed", || {
        agent.log().contains("no longer harvested file=growing")
    });
    assert!(agent.terminate().success(), "{}", agent.log());
    let found = Samples::read(&agent.archive(), &journal);
    let missing = last.iter().filter(|(name, value)| found.last.get(*name) != Some(value));
    let missing = missing.count();
    println!(
        "{} instances a second at {interval}: {} samples in {} ticks after {} without, longest \
         gap {:.2} s, {missing} of {} last values missing",
        load.rate,
        found.taken,
        found.ticks,
        found.before,
        found.longest_gap.as_secs_f64(),
        last.len()
    );
    assert!(found.wrong.is_empty(), "{:#?}", &found.wrong[..found.wrong.len().min(10)]);
    assert_eq!(found.taken, found.ticks, "{}", agent.log());
    assert!(found.taken > 0);
    assert_eq!(found.last_total, journal[journal.len() - 1].1);
    assert_eq!(missing, 0);
    if load.interval >= Duration::from_millis(100) {
        assert!(found.before <= TICKS_UNTIL_FIRST, "{}", found.before);
    }
}

#[test]
fn program_that_always_adds_instances_is_sampled_each_tick() {
    let is_long = std::env::var_os("MMV_LONG").is_some();
    let rates = if is_long { &[1, 10, 500, 1000][..] } else { &[500] };
    let intervals = if is_long { &[1000, 100, 10][..] } else { &[100, 10] };
    for interval in intervals {
        for rate in rates {
            let interval = Duration::from_millis(*interval);
            let seconds = if !is_long {
                2
            } else if interval.as_secs() > 0 {
                20
            } else {
                6
            };
            check(Load { rate: *rate, interval, seconds });
        }
    }
}

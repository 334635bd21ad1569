//! A file of ours that grows, read at full speed while it does: by PCP's reader,
//! through pmcd, and by our agent.

mod sampling;

use std::collections::{BTreeSet, HashMap};
use std::process::Stdio;
use std::time::Duration;

use mmv_writer::pcp::{IndomMetricExt as _, NamedFamily, RegistryExt as _};
use mmv_writer::{Counter, Registry};

use crate::compliance;
use crate::harness::agent::Agent;
use crate::harness::archive_facts;
use crate::harness::binaries::workspace;
use crate::harness::capi::compile;
use crate::harness::facts::{Facts, number};
use crate::harness::oracle::Oracle;
use crate::harness::pmcd::Pmcd;
use crate::harness::scratch::Scratch;
use crate::harness::wait;
use crate::status_command::status_json;

const INSTANCES: u64 = 10_000;

fn steady(scratch: &Scratch, name: &str, value: u64) -> Registry {
    let registry = Registry::builder(name).sealed().directory(scratch.mmv_dir()).build().unwrap();
    registry.counter("steady").build().unwrap().add(value);
    registry.publish().unwrap()
}

/// A file that grows between two others, in the order of names and in that of time.
struct Files {
    growing: Registry,
    count: NamedFamily<Counter<u64>>,
    _others: [Registry; 2],
}

impl Files {
    fn new(scratch: &Scratch) -> Self {
        let before = steady(scratch, "before", 8);
        let growing = Registry::builder("growing").directory(scratch.mmv_dir());
        let growing = growing.build().unwrap();
        let things = growing.indom("things").build().unwrap();
        let count = growing.counter("count").build_named(&things).unwrap();
        growing.announce();
        let others = [before, steady(scratch, "other", 9)];
        Self { growing, count, _others: others }
    }

    /// Adds all instances: `i0`, whose value becomes 1000, `i1` and so on.
    fn grow(&self) {
        for index in 0..INSTANCES {
            self.count.get_or_create(&format!("i{index}")).unwrap().add(1000 + index);
            if index % 100 == 0 {
                std::thread::sleep(Duration::from_millis(30));
            }
        }
        self.growing.announce();
    }
}

#[test]
fn pmdammv_serves_growing_files_correctly() {
    let Some(oracle) = Oracle::find() else { return };
    let source = workspace().join("tests/file_growth/watch.c");
    let program = compile(oracle.command("gcc"), &source, &["-lpcp"]);
    let scratch = Scratch::new();
    let files = Files::new(&scratch);
    let pmcd = Pmcd::start(&oracle, &scratch);
    let mut watch = oracle.command(program);
    watch.arg(pmcd.host()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut watch = watch.spawn().expect("start the client");
    files.grow();
    drop(watch.stdin.take());
    let output = watch.wait_with_output().expect("the client");
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaints}");
    let stdout = String::from_utf8(output.stdout).expect("text");
    let numbers: Vec<u64> = stdout.split_whitespace().map(|word| word.parse().unwrap()).collect();
    assert!(numbers.len() == 2 && numbers[0] > 20, "{stdout}");
    assert_eq!(numbers[1], INSTANCES, "instances at the end");
}

#[test]
#[ignore = "takes half a minute: ci/slow runs it"]
fn agent_logs_growing_files_correctly() {
    let scratch = Scratch::new();
    let files = Files::new(&scratch);
    let mut agent = Agent::start(&scratch);
    wait::until_true("first records", || agent.data_bytes() > 1000);
    files.grow();
    wait::until_true("the last instance", || {
        let status = status_json(&scratch).unwrap_or_default();
        let mut sources = status["sources"].as_array().into_iter().flatten();
        sources.any(|one| one["file"] == "growing" && one["values"] == INSTANCES)
    });
    // Instance and value have more than 16 bytes in a record.
    let bytes = agent.data_bytes() + 4 * 16 * INSTANCES;
    wait::until_true("records of all instances", || agent.data_bytes() > bytes);
    let status = agent.terminate();
    assert!(status.success(), "{status}\n{}", agent.log());
    if let Some(oracle) = Oracle::find() {
        compliance::check(&oracle, &agent.archive());
    }
    let facts = archive_facts::of_mmv_archive(&agent.archive());

    let count = only_pmid(&facts, "mmv.growing.count");
    for (name, value) in [("mmv.before.steady", "8"), ("mmv.other.steady", "9")] {
        let pmid = only_pmid(&facts, name);
        for record in facts.records.iter().filter(|record| record.has_samples()) {
            assert_eq!(record.value(pmid, None), Some(number(value).as_str()), "{name}");
        }
    }
    let indom = facts.metrics[count].indom.as_ref().expect("a domain");
    let mut indexes = HashMap::new();
    for (_, instances) in &facts.indoms[indom] {
        for (id, name) in instances {
            let index: i64 = name.strip_prefix('i').expect("a name").parse().expect("its index");
            assert_eq!(*indexes.entry(*id).or_insert(index), index, "a number has one name");
        }
    }
    assert_eq!(indexes.len(), INSTANCES as usize);
    let mut sizes = BTreeSet::new();
    for record in &facts.records {
        for (id, value) in record.values(count) {
            let counted = 1000 + indexes[&id.expect("an instance")];
            assert!(value == "0" || value == number(&counted.to_string()), "{id:?}: {value}");
        }
        sizes.insert(record.values(count).count());
    }
    assert_eq!(sizes.last(), Some(&(INSTANCES as usize)));
    assert!(sizes.len() > 5, "seen while it grew: {sizes:?}");
    let last = facts.records.last().expect("records");
    assert!(last.values(count).all(|(_, value)| value != "0"), "all have counted in the end");
    assert!(!facts.records.iter().any(|record| record.mark), "a mark");
}

/// Returns the PMID of a metric; an archive would have a second one had it moved.
#[track_caller]
fn only_pmid<'f>(facts: &'f Facts, name: &str) -> &'f str {
    let mut named = facts.metrics.iter().filter(|(_, metric)| metric.names.contains(name));
    let (pmid, _) = named.next().expect("the metric");
    assert!(named.next().is_none(), "{name} has two PMIDs");
    pmid
}

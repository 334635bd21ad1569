//! The numbers of instances in archives: a name keeps its number over restarts of its
//! program and in all files, so PCP's programs join what belongs together.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::Duration;

use metrics::{counter, gauge, with_local_recorder};
use mmv_metrics::Recorder;
use mmv_writer::pcp::{
    IndomMetricExt as _, NamedFamily, RegistryBuilderExt as _, RegistryExt as _,
};
use mmv_writer::{Gauge, Registry, RegistryBuilder};

use crate::compliance;
use crate::harness::agent::Agent;
use crate::harness::archive_facts;
use crate::harness::facts::{Facts, number};
use crate::harness::oracle::Oracle;
use crate::harness::scratch::Scratch;

const INSTANCES: u32 = 200;

/// Builds a file that readers see when all of it is there: which instances a sample has does not
/// depend on its moment.
fn live(scratch: &Scratch, name: &str) -> RegistryBuilder {
    let builder = Registry::builder(name).directory(scratch.mmv_dir());
    builder.announce_interval(Duration::from_secs(3600))
}

/// Runs a program whose gauge is `base` and the index of each instance, in the order in which it
/// uses them.
fn run(scratch: &Scratch, base: u32, indexes: impl Iterator<Item = u32>) -> Registry {
    let registry = live(scratch, "app").build().expect("a registry");
    let pages = registry.indom("pages").build().expect("a domain");
    let level: NamedFamily<Gauge<u32>> =
        registry.metric("level").build_named(&pages).expect("a family");
    for index in indexes {
        let page = level.get_or_create(&format!("page{index}")).expect("an instance");
        page.set(base + index);
    }
    registry.announce();
    registry
}

/// Waits for some records that have a value of a metric which is no smaller than `least`.
#[track_caller]
fn wait_for_values(agent: &Agent, metric: &str, least: u32) {
    let is_reached =
        |value: &str| value.parse::<f64>().is_ok_and(|value| value >= f64::from(least));
    agent.wait_for(metric, |base| {
        let facts = archive_facts::so_far(base);
        facts.is_some_and(|facts| {
            let Some(pmid) = pmid_of(&facts, metric) else { return false };
            let records = facts.records.iter();
            records.filter(|record| record.values(pmid).any(|(_, text)| is_reached(text))).count()
                >= 4
        })
    });
}

fn pmid_of<'f>(facts: &'f Facts, name: &str) -> Option<&'f str> {
    let mut metrics = facts.metrics.iter();
    metrics.find(|(_, metric)| metric.names.contains(name)).map(|(pmid, _)| pmid.as_str())
}

/// Returns all values that each instance of a metric ever has, by the only name of its number.
#[track_caller]
fn values_by_name(facts: &Facts, metric: &str) -> BTreeMap<String, BTreeSet<String>> {
    let pmid = pmid_of(facts, metric).expect("the metric");
    let indom = facts.metrics[pmid].indom.as_ref().expect("a domain");
    let [(_, instances)] = &facts.indoms[indom][..] else {
        panic!("{metric}: {} records of its domain", facts.indoms[indom].len());
    };
    let mut values: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for record in &facts.records {
        for (id, value) in record.values(pmid) {
            let name = &instances[&id.expect("an instance")];
            values.entry(name.clone()).or_default().insert(value.to_owned());
        }
    }
    values
}

fn numbers(of: impl IntoIterator<Item = u32>) -> BTreeSet<String> {
    of.into_iter().map(|value| number(&value.to_string())).collect()
}

fn metadata_bytes(base: &Path) -> u64 {
    fs::metadata(format!("{}.meta", base.display())).expect("the metadata").len()
}

#[test]
fn restarts_keep_the_numbers_of_instances() {
    let scratch = Scratch::new();
    let mut agent = Agent::start(&scratch);
    let first = run(&scratch, 0, 0..INSTANCES);
    wait_for_values(&agent, "mmv.app.level", 0);
    let before = metadata_bytes(&agent.archive());
    drop(first);
    let second = run(&scratch, 1000, (0..INSTANCES).rev());
    wait_for_values(&agent, "mmv.app.level", 1000);
    assert!(agent.terminate().success(), "{}", agent.log());
    drop(second);
    let archive = agent.archive();
    let added = metadata_bytes(&archive) - before;
    println!("{INSTANCES} instances: the restart added {added} bytes of metadata");
    assert_eq!(added, 0);
    let facts = archive_facts::of_mmv_archive(&archive);
    let values = values_by_name(&facts, "mmv.app.level");
    assert_eq!(values.len(), INSTANCES as usize);
    for index in 0..INSTANCES {
        assert_eq!(values[&format!("page{index}")], numbers([index, 1000 + index]));
    }
    let Some(oracle) = Oracle::find() else { return };
    compliance::check(&oracle, &archive);
    let archive = archive.to_str().expect("UTF-8");
    for index in [0, 1, INSTANCES - 1] {
        let instance = format!("page{index}");
        let both = BTreeSet::from([index.to_string(), (1000 + index).to_string()]);
        let arguments = ["-r", "-t", "0.01", "-a", archive, "-i", &instance, "mmv.app.level"];
        let printed = oracle.run("pmval", &arguments);
        // After a head of lines that begin with a word, and a column with the instance's name.
        let rows = printed.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit()));
        let cells = rows.filter_map(|row| row.split_whitespace().nth(1));
        let numbers: BTreeSet<String> =
            cells.filter(|cell| cell.parse::<u32>().is_ok()).map(str::to_owned).collect();
        assert_eq!(numbers, both, "pmval, {instance}: {printed}");
        let options = ["-r", "-o", "csv", "-t", "0.01", "-a", archive, "-i", &instance];
        let printed = oracle.run("pmrep", &[&options[..], &["mmv.app.level"]].concat());
        let cells = printed.lines().skip(1).filter_map(|line| line.split_once(','));
        let cells: BTreeSet<String> =
            cells.map(|(_, cell)| cell.to_owned()).filter(|cell| !cell.is_empty()).collect();
        assert_eq!(cells, both, "pmrep, {instance}: {printed}");
    }
}

/// Runs a program that counts through the facade, with its metrics and their labels in this
/// order.
fn facade(scratch: &Scratch, base: u32, forwards: bool) -> Recorder {
    // Announced when all are there.
    let file = live(scratch, "app").announce_interval(Duration::from_millis(800));
    let recorder = Recorder::new(&file.build().expect("a registry"));
    with_local_recorder(&recorder, || {
        let mut tenants = [("ann", 1), ("bob", 2), ("eve", 3)];
        if !forwards {
            tenants.reverse();
        }
        let count = |tenant: &'static str, index: u32| {
            counter!("requests", "tenant" => tenant).increment((base + index).into());
        };
        let set = |tenant: &'static str, index: u32| {
            gauge!("sessions", "tenant" => tenant).set(base + 10 * index);
        };
        for (tenant, index) in tenants {
            if forwards {
                count(tenant, index);
                set(tenant, index);
            } else {
                set(tenant, index);
                count(tenant, index);
            }
        }
    });
    recorder
}

#[test]
fn facade_numbers_do_not_depend_on_the_order() {
    let scratch = Scratch::new();
    let mut agent = Agent::start(&scratch);
    let first = facade(&scratch, 0, true);
    wait_for_values(&agent, "mmv.app.requests_by", 0);
    drop(first);
    let second = facade(&scratch, 1000, false);
    wait_for_values(&agent, "mmv.app.requests_by", 1000);
    assert!(agent.terminate().success(), "{}", agent.log());
    drop(second);
    // The same descriptors: there is one archive.
    let facts = archive_facts::of_mmv_archive(&agent.archive());
    for (metric, step) in [("mmv.app.requests_by", 1), ("mmv.app.sessions_by", 10)] {
        let values = values_by_name(&facts, metric);
        assert_eq!(values.len(), 3, "{metric}");
        for (name, index) in [("ann", 1), ("bob", 2), ("eve", 3)] {
            let expected = numbers([index * step, 1000 + index * step]);
            assert_eq!(values[&format!("tenant={name}")], expected, "{metric}");
        }
    }
}

#[test]
fn files_of_one_application_agree_on_the_numbers_of_names() {
    let scratch = Scratch::new();
    let process = |number: u32, names: &[&str]| {
        let builder = Registry::builder(format!("app.{number}")).directory(scratch.mmv_dir());
        let registry = builder.no_prefix().cluster(7).build().expect("a registry");
        let tenants = registry.indom("tenants").build().expect("a domain");
        let sessions: NamedFamily<Gauge<u32>> =
            registry.metric("app.sessions").build_named(&tenants).expect("a family");
        for name in names {
            sessions.get_or_create(name).expect("an instance").set(number);
        }
        registry.announce();
        registry
    };
    let _files = [process(1, &["ann", "bob"]), process(2, &["bob", "eve", "ann", "zoe"])];
    let mut agent = Agent::start_for(&scratch, 4);
    agent.ended();
    assert!(!agent.log().contains("in an earlier file"), "{}", agent.log());
    let facts = archive_facts::of_mmv_archive(&agent.archive());
    let values = values_by_name(&facts, "mmv.app.sessions");
    // The first file wins what both have.
    let expected = [("ann", 1), ("bob", 1), ("eve", 2), ("zoe", 2)];
    let expected = expected.map(|(name, file)| (name.to_owned(), numbers([file])));
    assert_eq!(values, BTreeMap::from(expected));
}

/// Runs a program that states the numbers of its instances, as other producers do.
fn numbered(scratch: &Scratch, base: u32, instances: [(i32, &str); 2]) -> Registry {
    let registry = Registry::builder("other").directory(scratch.mmv_dir());
    let registry = registry.sealed().build().expect("a registry");
    let pages = registry.indom("pages");
    let pages = instances.iter().fold(pages, |pages, (id, name)| pages.instance(*id, *name));
    let pages = pages.build().expect("a domain");
    let level = registry.metric::<Gauge<u32>>("level").build_instances(&pages).expect("a metric");
    for (_, name) in instances {
        level.by_name(name).expect("an instance").set(base + u32::from(name == "b"));
    }
    registry.publish().expect("a file")
}

#[test]
fn number_given_to_another_name_is_logged_with_its_time() {
    let scratch = Scratch::new();
    let mut agent = Agent::start(&scratch);
    let first = numbered(&scratch, 10, [(0, "a"), (1, "b")]);
    wait_for_values(&agent, "mmv.other.level", 0);
    drop(first);
    let second = numbered(&scratch, 20, [(0, "b"), (1, "a")]);
    wait_for_values(&agent, "mmv.other.level", 20);
    assert!(agent.terminate().success(), "{}", agent.log());
    drop(second);
    let archive = agent.archive();
    let facts = archive_facts::of_mmv_archive(&archive);
    let pmid = pmid_of(&facts, "mmv.other.level").expect("the metric");
    let indom = facts.metrics[pmid].indom.as_ref().expect("a domain");
    let [(_, before), (changed, after)] = &facts.indoms[indom][..] else {
        panic!("{:?}", facts.indoms[indom]);
    };
    let instances = |names: [&str; 2]| BTreeMap::from([(0, names[0].into()), (1, names[1].into())]);
    assert_eq!((before, after), (&instances(["a", "b"]), &instances(["b", "a"])));
    // By the names that were valid at the time.
    let mut values: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for record in &facts.records {
        let names = if record.timestamp < *changed { before } else { after };
        for (id, value) in record.values(pmid) {
            values.entry(&names[&id.expect("an instance")]).or_default().insert(value);
        }
    }
    for (name, expected) in [("a", [10, 20]), ("b", [11, 21])] {
        let found: BTreeSet<String> = values[name].iter().map(|value| (*value).into()).collect();
        assert_eq!(found, numbers(expected), "{name}");
    }
    if let Some(oracle) = Oracle::find() {
        compliance::check(&oracle, &archive);
        assert_eq!(archive_facts::of_pmdumplog(&oracle, &archive).indoms, facts.indoms);
    }
}

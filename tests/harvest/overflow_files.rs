//! Registries of more than one file: readers find each metric under its name,
//! whichever file it is in.

use mmv_writer::pcp::{
    IndomMetricExt as _, NamedFamily, RegistryBuilderExt as _, RegistryExt as _,
};
use mmv_writer::{Buckets, Counter, Label, Registry, Units};

use super::{assert_same, logged};
use crate::compliance;
use crate::harness::agent::Agent;
use crate::harness::oracle::Oracle;
use crate::harness::pmcd::Pmcd;
use crate::harness::pminfo;
use crate::harness::scratch::Scratch;
use crate::harness::wait;

#[test]
fn sealed_registry_of_three_files_is_logged_under_its_names() {
    let Some(oracle) = Oracle::find() else { return };
    let scratch = Scratch::new();
    let registry = Registry::builder("app").directory(scratch.mmv_dir()).cluster(7);
    let registry = registry.sealed().build().unwrap();
    let disks = registry.indom("disks").names(["sda", "sdb"]).label(Label::new("kind", "ssd"));
    let disks = disks.help("the disks").build().unwrap();
    for index in 0..2100u64 {
        let counter = registry.counter(format!("m{index}")).units(Units::count());
        if index % 1000 == 0 {
            let counter = counter.help("on disks").label(Label::new("number", index));
            counter.build_instances(&disks).unwrap().by_name("sdb").unwrap().add(index);
        } else {
            counter.build().unwrap().add(index);
        }
    }
    registry.publish().unwrap();
    assert_eq!(registry.overflow().len(), 2);
    let pmcd = Pmcd::start(&oracle, &scratch);
    let served = pminfo::ask(&oracle, ["-h", &pmcd.host()]);
    assert_eq!(served.len(), 2100);
    for index in 0..2100 {
        let metric = &served[&format!("mmv.app.m{index}")];
        if index % 1000 == 0 {
            assert!(values_of(metric).contains(&format!("sdb: {index}")));
            assert_eq!(
                (&metric.labels["kind"], &metric.labels["number"]),
                (&"ssd".into(), &index.into())
            );
        } else {
            assert_eq!(metric.values[""], index.to_string());
        }
    }
    let archive = Agent::harvest(&scratch);
    let mut found = logged(&oracle, &archive);
    found.retain(|name, _| !name.starts_with("mmv.agent."));
    assert_same("overflow files", &found, &served);
    compliance::check(&oracle, &archive);
    registry.withdraw();
    wait::until_true("pmdammv to notice the end", || {
        pminfo::ask(&oracle, ["-h", &pmcd.host()]).is_empty()
    });
}

/// Returns the values of a metric after the names of their instances, sorted.
fn values_of(metric: &pminfo::Metric) -> Vec<String> {
    let name = |instance: &str| instance.split('"').nth(1).map(str::to_owned);
    let values = metric.values.iter();
    let values = values
        .map(|(instance, value)| format!("{}: {value}", name(instance).expect("an instance")));
    let mut values: Vec<String> = values.collect();
    values.sort();
    values
}

fn register(registry: &Registry, from: u64, to: u64) {
    for index in from..to {
        let counter: Counter<u64> = registry.counter(format!("m{index}")).build().unwrap();
        counter.add(index);
    }
}

#[test]
fn live_registry_uses_an_overflow_file_while_read() {
    let Some(oracle) = Oracle::find() else { return };
    let scratch = Scratch::new();
    let other =
        Registry::builder("zoo").sealed().directory(scratch.mmv_dir()).cluster(3).build().unwrap();
    other.counter("lions").build().unwrap().add(2);
    other.publish().unwrap();
    let registry = Registry::builder("app").directory(scratch.mmv_dir()).cluster(7);
    let registry = registry.build().unwrap();
    let users = registry.indom("users").build().unwrap();
    let seen: NamedFamily<Counter<u64>> = registry.counter("seen").build_named(&users).unwrap();
    for name in ["ann", "bob", "cid"] {
        seen.with(name, Counter::inc).unwrap();
    }
    users.label("bob", Label::new("plan", "gold")).unwrap();
    register(&registry, 0, 500);
    registry.announce();
    let mut agent = Agent::start_with(&scratch, &["--interval", "50ms"]);
    let pmcd = Pmcd::start(&oracle, &scratch);
    let ask = || pminfo::ask(&oracle, ["-h", &pmcd.host()]);
    let before = ask();
    assert_eq!(before.len(), 502);

    register(&registry, 500, 1100);
    let late: NamedFamily<Counter<u64>> = registry.counter("late").build_named(&users).unwrap();
    late.with("cid", |late| late.add(5)).unwrap();
    late.with("dan", |late| late.add(6)).unwrap();
    late.with("bob", |late| late.add(7)).unwrap();
    assert!(users.remove("ann"));
    let buckets = Buckets::new(1, 100);
    let size = registry.histogram("size").buckets(buckets).build().unwrap();
    size.record(9);
    registry.announce();
    assert_eq!(registry.overflow(), [scratch.mmv_dir().join("app.2")]);
    let after = ask();
    assert_eq!(after.len(), 1 + 1 + 1100 + 1 + 2);
    for (name, metric) in &before {
        let now = &after[name];
        assert_eq!(now.pmid, metric.pmid, "{name}");
        if name != "mmv.app.seen" {
            assert_eq!(now, metric);
        }
    }
    assert_eq!(values_of(&after["mmv.app.seen"]), ["bob: 1", "cid: 1"]);
    assert_eq!(values_of(&after["mmv.app.late"]), ["bob: 7", "cid: 5", "dan: 6"]);
    assert_eq!(values_of(&after["mmv.app.size.bucket"]), ["8..11: 1"]);
    for name in ["mmv.app.seen", "mmv.app.late"] {
        for (instance, labels) in &after[name].instance_labels {
            let plan = labels.get("plan").and_then(|plan| plan.as_str());
            assert_eq!(plan, instance.ends_with("\"bob\"").then_some("gold"), "{name} {instance}");
        }
    }
    for index in 0..1100 {
        assert_eq!(after[&format!("mmv.app.m{index}")].values[""], index.to_string());
    }
    wait::until_true("the agent to log the overflow file", || {
        logged(&oracle, &agent.archive()).contains_key("mmv.app.size.sum")
    });
    assert!(agent.terminate().success());
    let mut found = logged(&oracle, &agent.archive());
    found.retain(|name, _| !name.starts_with("mmv.agent."));
    assert_eq!(found.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
    for (name, metric) in &before {
        assert_eq!(found[name].pmid, metric.pmid, "{name}");
    }
    compliance::check(&oracle, &agent.archive());
}

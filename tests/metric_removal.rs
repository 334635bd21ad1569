//! A live file from which metrics are removed while PCP's reader and our agent use it.

use std::time::Duration;

use mmv_writer::pcp::{
    IndomMetricExt as _, NamedFamily, RegistryBuilderExt as _, RegistryExt as _,
};
use mmv_writer::{Counter, Label, Registry};

use crate::harness::agent::Agent;
use crate::harness::archive_facts;
use crate::harness::facts::number;
use crate::harness::oracle::Oracle;
use crate::harness::pmcd::Pmcd;
use crate::harness::pminfo;
use crate::harness::scratch::Scratch;
use crate::harness::wait;

struct Metrics {
    registry: Registry,
    stays: Counter<u64>,
    plain: Counter<u64>,
    calls: NamedFamily<Counter<u64>>,
}

impl Metrics {
    fn new(scratch: &Scratch) -> Self {
        let registry = Registry::builder("app").directory(scratch.mmv_dir()).cluster(7);
        let registry = registry.announce_interval(Duration::ZERO).build().unwrap();
        let plugins = registry.indom("plugins").build().unwrap();
        let label = Label::new("kind", "plugin");
        let plain = registry.counter("plain").label(label.clone()).build().unwrap();
        let calls = registry.counter("calls").label(label).build_named(&plugins).unwrap();
        let stays = registry.counter("stays").build().unwrap();
        calls.with("a", Counter::inc).unwrap();
        stays.add(8);
        plain.add(9);
        Self { registry, stays, plain, calls }
    }

    fn remove(&self) {
        assert!(self.registry.remove("plain") && self.registry.remove("calls"));
        self.plain.add(100);
        self.calls.with("a", Counter::inc).unwrap();
        self.calls.with("b", Counter::inc).unwrap();
        self.stays.add(100);
    }
}

#[test]
fn pmdammv_serves_what_is_left_when_metrics_are_removed() {
    let Some(oracle) = Oracle::find() else { return };
    let scratch = Scratch::new();
    let metrics = Metrics::new(&scratch);
    let pmcd = Pmcd::start(&oracle, &scratch);
    let served = || pminfo::ask(&oracle, ["-h", &pmcd.host()]);
    assert_eq!(
        served().into_keys().collect::<Vec<_>>(),
        ["mmv.app.calls", "mmv.app.plain", "mmv.app.stays"]
    );
    metrics.remove();
    let left = served();
    assert_eq!(left.keys().collect::<Vec<_>>(), ["mmv.app.stays"]);
    assert_eq!(
        (&*left["mmv.app.stays"].values[""], &*left["mmv.app.stays"].pmid),
        ("108", "70.7.3")
    );
    let again = metrics.registry.counter("plain").build().unwrap();
    again.add(1);
    let both = served();
    assert_eq!((&*both["mmv.app.plain"].values[""], &*both["mmv.app.plain"].pmid), ("1", "70.7.4"));
}

#[test]
fn the_agent_logs_what_is_left_when_metrics_are_removed() {
    let scratch = Scratch::new();
    let metrics = Metrics::new(&scratch);
    let mut agent = Agent::start(&scratch);
    wait::until_true("first records", || agent.data_bytes() > 1000);
    metrics.remove();
    let bytes = agent.data_bytes();
    wait::until_true("more records", || agent.data_bytes() > bytes + 300);
    assert!(agent.terminate().success(), "{}", agent.log());
    let facts = archive_facts::of_mmv_archive(&agent.archive());
    let pmid = |name: &str| {
        let mut named = facts.metrics.iter().filter(|(_, metric)| metric.names.contains(name));
        named.next().expect("the metric").0
    };
    let (stays, plain, calls) =
        (pmid("mmv.app.stays"), pmid("mmv.app.plain"), pmid("mmv.app.calls"));
    let samples: Vec<_> = facts.records.iter().filter(|record| record.has_samples()).collect();
    let of = |pmid| samples.iter().filter(|record| record.values(pmid).next().is_some()).count();
    assert_eq!(of(stays), samples.len());
    assert!((1..samples.len()).contains(&of(plain)) && of(plain) == of(calls));
    assert!(
        samples
            .iter()
            .all(|record| record.value(plain, None).is_none_or(|value| value == number("9")))
    );
    let last = samples.last().expect("records");
    assert_eq!((last.value(stays, None), last.values(plain).count()), (Some(&*number("108")), 0));
    assert!(!agent.log().contains("skipped"), "{}", agent.log());
}

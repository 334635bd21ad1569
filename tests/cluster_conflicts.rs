//! Two files that ask for the same cluster and item.

use std::collections::BTreeMap;
use std::os::unix::fs::chown;

use mmv_writer::pcp::{
    IndomMetricExt as _, MetricBuilderExt as _, RegistryBuilderExt as _, RegistryExt as _,
};
use mmv_writer::{Counter, Gauge, Registry};

use crate::compliance;
use crate::harness::agent::Agent;
use crate::harness::oracle::Oracle;
use crate::harness::pmcd::Pmcd;
use crate::harness::pminfo;
use crate::harness::scratch::Scratch;
use crate::harness::skip;

/// A file's declaration of item 1 of cluster 321.
struct Case {
    file: &'static str,
    /// The metric's name is preceded by the file's.
    prefix: bool,
    metric: &'static str,
    /// Counter of 64 bits; else a level.
    counter: bool,
    /// Numbers and names; none for a singular metric.
    instances: &'static [(i32, &'static str)],
    value: u64,
}

impl Case {
    const fn new(file: &'static str, metric: &'static str, value: u64) -> Self {
        Self { file, prefix: false, metric, counter: true, instances: &[], value }
    }

    fn publish(&self, scratch: &Scratch) -> Registry {
        let registry = Registry::builder(self.file).directory(scratch.mmv_dir()).cluster(321);
        let registry = if self.prefix { registry } else { registry.no_prefix() };
        let registry = registry.sealed().build().expect("a registry");
        if self.instances.is_empty() {
            if self.counter {
                let count = registry.counter(self.metric).item(1).build();
                let count: Counter<u64> = count.expect("a counter");
                count.add(self.value);
            } else {
                let level = registry.gauge(self.metric).item(1).build();
                let level: Gauge<f64> = level.expect("a level");
                level.set(self.value as f64);
            }
        } else {
            let indom = registry.indom("processes").serial(1);
            let indom =
                self.instances.iter().fold(indom, |all, (id, name)| all.instance(*id, *name));
            let indom = indom.build().expect("a domain");
            let counts = registry.counter(self.metric).item(1).build_instances(&indom);
            counts.expect("counters").iter().for_each(|count| count.add(self.value));
        }
        registry.publish().expect("a file")
    }
}

/// PMID and values by name, as pmcd serves them and as the agent logs them.
type Metrics = BTreeMap<String, (String, BTreeMap<String, String>)>;

fn metrics_of(oracle: &Oracle, source: [&str; 2]) -> Metrics {
    let metrics = pminfo::ask(oracle, source).into_iter();
    metrics.map(|(name, metric)| (name, (metric.pmid, metric.values))).collect()
}

fn both(oracle: &Oracle, scratch: &Scratch) -> (Metrics, Metrics) {
    let pmcd = Pmcd::start(oracle, scratch);
    let served = metrics_of(oracle, ["-h", &pmcd.host()]);
    let base = Agent::harvest(scratch);
    compliance::check(oracle, &base);
    (served, metrics_of(oracle, ["-a", base.to_str().expect("UTF-8")]))
}

fn singular(metrics: &[(&str, &str, &str)]) -> Metrics {
    let by_name = metrics.iter().map(|(name, pmid, value)| {
        let values = BTreeMap::from([(String::new(), (*value).to_owned())]);
        ((*name).to_owned(), ((*pmid).to_owned(), values))
    });
    by_name.collect()
}

fn instances(values: &[(&str, &str)]) -> Metrics {
    let values = values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Metrics::from([("mmv.x".to_owned(), ("70.321.1".to_owned(), values.collect()))])
}

#[test]
fn files_that_agree_share_a_cluster_as_with_pmdammv() {
    let Some(oracle) = Oracle::find() else { return };
    let first = &[(1, "one"), (3, "both")];
    let second = &[(2, "two"), (3, "both")];
    let other = &[(1, "another"), (2, "two")];
    let of = |file, value, instances| Case { instances, ..Case::new(file, "x", value) };
    let one_and_two = [("1 or \"one\"", "1"), ("2 or \"two\"", "2"), ("3 or \"both\"", "1")];
    for (cases, expected) in [
        // The first file has what only one can have.
        ([Case::new("a", "x", 1), Case::new("b", "x", 2)], singular(&[("mmv.x", "70.321.1", "1")])),
        ([of("a", 1, first), of("b", 2, second)], instances(&one_and_two)),
        // The instance that is called otherwise is left out.
        ([of("a", 1, first), of("b", 2, other)], instances(&one_and_two)),
    ] {
        let scratch = Scratch::new();
        let _files = cases.each_ref().map(|case| case.publish(&scratch));
        let (served, logged) = both(&oracle, &scratch);
        assert_eq!(served, expected);
        assert_eq!(logged, expected);
    }
}

#[test]
fn agent_logs_right_values_where_pmdammv_does_not() {
    let Some(oracle) = Oracle::find() else { return };
    let prefixed = |file, value| Case { prefix: true, ..Case::new(file, "x", value) };
    let level = |metric| Case { counter: false, ..Case::new("b", metric, 2) };
    for (what, cases, wrong, right) in [
        (
            "another name",
            [Case::new("a", "x", 1), Case::new("b", "y", 2)],
            vec![("mmv.x", "70.321.1", "1"), ("mmv.y", "70.321.1", "1")],
            vec![("mmv.x", "70.321.1", "1"), ("mmv.y", "70.1.1", "2")],
        ),
        (
            "another prefix",
            [prefixed("a", 1), prefixed("b", 2)],
            vec![("mmv.a.x", "70.321.1", "1"), ("mmv.b.x", "70.321.1", "1")],
            vec![("mmv.a.x", "70.321.1", "1"), ("mmv.b.x", "70.1.1", "2")],
        ),
        (
            // The bytes of one are taken for the other.
            "another name and type",
            [Case::new("a", "x", 1), level("y")],
            vec![
                ("mmv.x", "70.321.1", "4.940656458412465e-324"),
                ("mmv.y", "70.321.1", "4.940656458412465e-324"),
            ],
            vec![("mmv.x", "70.321.1", "1"), ("mmv.y", "70.1.1", "2")],
        ),
        (
            // The name is the first file's, and no other file can have it.
            "another type",
            [Case::new("a", "x", 1), level("x")],
            vec![("mmv.x", "70.321.1", "1")],
            vec![("mmv.x", "70.321.1", "1")],
        ),
    ] {
        let scratch = Scratch::new();
        let _files = cases.each_ref().map(|case| case.publish(&scratch));
        let (served, logged) = both(&oracle, &scratch);
        assert_eq!(served, singular(&wrong), "{what}: pmdammv");
        assert_eq!(logged, singular(&right), "{what}");
    }
}

#[test]
fn another_users_file_does_not_join_a_cluster() {
    let Some(oracle) = Oracle::find() else { return };
    let scratch = Scratch::new();
    let of = |file, instances, value| Case { instances, ..Case::new(file, "x", value) };
    let _first = of("a", &[(1, "one")], 1).publish(&scratch);
    let _second = of("b", &[(2, "two")], 2).publish(&scratch);
    if let Err(error) = chown(scratch.mmv_dir().join("b"), Some(1001), None) {
        return skip::report(&format!("a file cannot be given away: {error}"));
    }
    let (served, logged) = both(&oracle, &scratch);
    assert_eq!(served, instances(&[("1 or \"one\"", "1"), ("2 or \"two\"", "2")]), "pmdammv");
    assert_eq!(logged, instances(&[("1 or \"one\"", "1")]), "no user can publish for another");
}

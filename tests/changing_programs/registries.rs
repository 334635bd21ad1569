//! Programs that use `mmv-writer` and the recorder for `metrics`.

use std::path::Path;

use metrics::{Unit, counter, describe_counter, describe_histogram, gauge, histogram};
use mmv_metrics::Recorder;
use mmv_writer::pcp::{
    IndomMetricExt as _, Instances, MetricBuilderExt as _, RegistryBuilderExt as _,
    RegistryExt as _,
};
use mmv_writer::{Buckets, Counter, Family, Gauge, Histogram, Labels, Registry, Units};

use super::journal::Journal;
use super::plan::PERMANENT;
use super::target::{Metrics, Target};
use crate::harness::dice::Dice;

/// Labels of an instance. One value is another's first word, which selections may mix up.
#[derive(Labels, Clone, PartialEq, Eq, Hash)]
struct Thing {
    kind: &'static str,
    n: u64,
}

fn labels(instance: u64) -> Thing {
    let kind = ["eth0", "eth0 vlan", "disk"][(instance % 3) as usize];
    Thing { kind, n: instance }
}

fn labelled_name(instance: u64) -> String {
    let Thing { kind, n } = labels(instance);
    format!("kind={kind},n={n}")
}

/// Brings a list into any order.
pub(super) fn shuffle<T>(list: &mut [T], dice: &mut Dice) {
    for last in (1..list.len()).rev() {
        list.swap(last, dice.below(last as u64 + 1) as usize);
    }
}

pub(super) struct Live {
    metrics: Metrics,
    counters: Vec<Family<Thing>>,
    gauges: Vec<Family<Thing, Gauge<u64>>>,
    total: Counter<u64>,
    latency: Histogram,
    registry: Registry,
}

impl Live {
    pub(super) fn new(directory: &Path, name: &str, journal: &mut Journal) -> Self {
        let counters = ["hits0", "hits1"].map(str::to_owned);
        Self::with(directory, name, &counters, &["level".to_owned()], journal)
    }

    pub(super) fn rebuilt(
        directory: &Path,
        name: &str,
        dice: &mut Dice,
        journal: &mut Journal,
    ) -> Self {
        let mut some = |base: &str| {
            let all = (0..5).map(|number| format!("{base}{number}"));
            let mut names: Vec<String> = all.filter(|_| !dice.one_in(3)).collect();
            shuffle(&mut names, dice);
            names
        };
        let (counters, gauges) = (some("count"), some("level"));
        Self::with(directory, name, &counters, &gauges, journal)
    }

    fn with(
        directory: &Path,
        name: &str,
        counters: &[String],
        gauges: &[String],
        journal: &mut Journal,
    ) -> Self {
        let full = |names: &[String]| names.iter().map(|one| format!("mmv.{name}.{one}")).collect();
        let metrics = Metrics {
            counters: full(counters),
            gauges: full(gauges),
            total: Some(format!("mmv.{name}.total")),
            histogram: Some(format!("mmv.{name}.latency")),
        };
        journal.note_zero(&format!("mmv.{name}.total"), "");
        journal.note_zero(&format!("mmv.{name}.latency.sum"), "");
        let registry = Registry::builder(name).directory(directory).build().unwrap();
        let counter = |name: &String| {
            let counter = registry.counter(name).units(Units::count());
            counter.build_family().unwrap()
        };
        let counters = counters.iter().map(counter).collect();
        let gauges =
            gauges.iter().map(|name| registry.metric(name).build_family().unwrap()).collect();
        let total = registry.counter("total").units(Units::count()).build().unwrap();
        let buckets = Buckets::new(3, 10_000_000);
        let latency = registry.histogram("latency").units(Units::count());
        let latency = latency.buckets(buckets).build().unwrap();
        Self { metrics, counters, gauges, total, latency, registry }
    }
}

impl Target for Live {
    fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    fn name(&self, instance: u64) -> String {
        labelled_name(instance)
    }

    fn add(&self, counter: usize, instance: u64, delta: u64) {
        self.counters[counter].with(&labels(instance), |counter| counter.add(delta));
    }

    fn set(&self, gauge: usize, instance: u64, value: u64) {
        self.gauges[gauge].with(&labels(instance), |gauge| gauge.set(value));
    }

    fn add_total(&self, delta: u64) {
        self.total.add(delta);
    }

    fn record(&self, _: u64, value: u64) {
        self.latency.record(value);
    }

    fn remove(&self, instance: u64) {
        let labels = labels(instance);
        for counter in &self.counters {
            counter.remove(&labels);
        }
        for gauge in &self.gauges {
            gauge.remove(&labels);
        }
        self.registry.announce();
    }

    fn removes(&self) -> bool {
        true
    }

    fn grows(&self) -> bool {
        true
    }
}

pub(super) struct Facade {
    metrics: Metrics,
    registry: Registry,
}

impl Facade {
    pub(super) fn new(directory: &Path, name: &str, journal: &mut Journal) -> Self {
        let metrics = Metrics {
            counters: vec![format!("mmv.{name}.hits_by")],
            gauges: vec![format!("mmv.{name}.level_by")],
            total: Some(format!("mmv.{name}.total")),
            histogram: Some(format!("mmv.{name}.latency_by")),
        };
        journal.note_zero(&format!("mmv.{name}.total"), "");
        let registry = Registry::builder(name).directory(directory).build().unwrap();
        Recorder::new(&registry).install().unwrap();
        describe_counter!("hits", Unit::Count, "counts of instances");
        describe_counter!("total", Unit::Count, "all counts");
        describe_histogram!("latency", Unit::Count, "values");
        Self { metrics, registry }
    }
}

impl Drop for Facade {
    /// Withdraws the file: the recorder of the whole program is never dropped.
    fn drop(&mut self) {
        self.registry.withdraw();
    }
}

impl Target for Facade {
    fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    fn name(&self, instance: u64) -> String {
        labelled_name(instance)
    }

    fn histogram_name(&self, instance: u64) -> String {
        format!("n={instance}")
    }

    fn add(&self, _: usize, instance: u64, delta: u64) {
        let Thing { kind, n } = labels(instance);
        counter!("hits", "n" => n.to_string(), "kind" => kind).increment(delta);
    }

    fn set(&self, _: usize, instance: u64, value: u64) {
        let Thing { kind, n } = labels(instance);
        gauge!("level", "kind" => kind, "n" => n.to_string()).set(value as f64);
    }

    fn add_total(&self, delta: u64) {
        counter!("total").increment(delta);
    }

    fn record(&self, instance: u64, value: u64) {
        histogram!("latency", "n" => instance.to_string()).record(value as f64);
    }

    fn grows(&self) -> bool {
        true
    }
}

/// A sealed file: one of several processes of an application, or one that states the numbers
/// of its instances.
pub(super) struct Sealed {
    metrics: Metrics,
    counts: Instances<Counter<u64>>,
    levels: Option<Instances<Gauge<u64>>>,
    names: Vec<String>,
    _registry: Registry,
}

/// The cluster of the application of several processes.
const CLUSTER: u32 = 77;

impl Sealed {
    pub(super) fn per_process(directory: &Path, name: &str, journal: &mut Journal) -> Self {
        let process = std::process::id().to_string();
        let metric = format!("{name}.done");
        let metrics = Metrics { counters: vec![format!("mmv.{metric}")], ..Metrics::default() };
        journal.note_zero(&metrics.counters[0], &process);
        let builder = Registry::builder(name).directory(directory).cluster(CLUSTER).per_process();
        let registry = builder.sealed().build().unwrap();
        let processes = registry.process().unwrap();
        let done = registry.counter(&metric).units(Units::count()).item(1);
        let counts = done.build_instances(&processes).unwrap();
        registry.publish().unwrap();
        Self { metrics, counts, levels: None, names: vec![process], _registry: registry }
    }

    /// Numbers its instances from 0, in any order.
    pub(super) fn numbered(
        directory: &Path,
        name: &str,
        dice: &mut Dice,
        journal: &mut Journal,
    ) -> Self {
        let metrics = Metrics {
            counters: vec![format!("mmv.{name}.count")],
            gauges: vec![format!("mmv.{name}.level")],
            ..Metrics::default()
        };
        let names: Vec<String> = (0..PERMANENT).map(labelled_name).collect();
        for name in &names {
            journal.note_zero(&metrics.counters[0], name);
            journal.note_zero_gauge(&metrics.gauges[0], name);
        }
        let registry = Registry::builder(name).sealed().directory(directory).build().unwrap();
        let mut order = names.clone();
        shuffle(&mut order, dice);
        let mut indom = registry.indom("things");
        for (number, name) in order.iter().enumerate() {
            indom = indom.instance(number as i32, name);
        }
        let indom = indom.build().unwrap();
        let counts = registry.counter("count").build_instances(&indom).unwrap();
        let levels = registry.metric("level").build_instances(&indom).unwrap();
        registry.publish().unwrap();
        Self { metrics, counts, levels: Some(levels), names, _registry: registry }
    }
}

impl Target for Sealed {
    fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    fn name(&self, instance: u64) -> String {
        self.names[instance as usize % self.names.len()].clone()
    }

    fn add(&self, _: usize, instance: u64, delta: u64) {
        self.counts.by_name(&self.name(instance)).expect("an instance").add(delta);
    }

    fn set(&self, _: usize, instance: u64, value: u64) {
        let levels = self.levels.as_ref().expect("gauges");
        levels.by_name(&self.name(instance)).expect("an instance").set(value);
    }
}

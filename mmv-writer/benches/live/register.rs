//! Registering many metrics or instances, and starting with few.

use std::time::Instant;

use mmv_writer::pcp::{IndomMetricExt as _, NamedFamily, RegistryExt as _};
use mmv_writer::{Counter, Registry, RegistryBuilder, Units};

const ROUNDS: usize = 11;

pub(crate) fn report() {
    println!("{:60} {:>9} {:>9}  target", "registration: ms", "median", "best");
    // Names are made before: a program has them as text.
    let names: Vec<String> =
        (0..40_000).map(|index| format!("group{}.metric{index}", index / 100)).collect();
    let few = names.get(..100).unwrap_or_default();
    super::row("40 000 metrics, published", timed(|builder| sealed(builder, &names)), "80");
    super::row("40 000 metrics, live", timed(|builder| live(builder, &names)), "80");
    super::row("100 metrics, published", timed(|builder| sealed(builder, few)), "0.3");
    super::row("100 metrics, live", timed(|builder| live(builder, few)), "0.3");
    let some = names.get(..10_000).unwrap_or_default();
    super::row("10 000 instances, published", timed(|builder| fixed(builder, some)), "");
    super::row("10 000 instances, live", timed(|builder| growing(builder, some)), "");
}

/// A metric with these instances, all known before it is published.
fn fixed(builder: RegistryBuilder, names: &[String]) -> Registry {
    let registry = builder.sealed().build().expect("a registry");
    let domain = registry.indom("things").names(names.iter().map(String::as_str)).build();
    let domain = domain.expect("a domain");
    drop(registry.counter("count").build_instances(&domain).expect("a metric"));
    registry.publish().expect("a file")
}

/// A metric whose instances are created one by one.
fn growing(builder: RegistryBuilder, names: &[String]) -> Registry {
    let registry = builder.build().expect("a registry");
    let domain = registry.indom("things").build().expect("a domain");
    let count: NamedFamily<Counter<u64>> =
        registry.counter("count").build_named(&domain).expect("a metric");
    for name in names {
        count.with(name, Counter::inc).expect("an instance");
    }
    registry
}

/// Milliseconds; that the handles and the files go is not part of it.
fn timed<T>(mut start: impl FnMut(RegistryBuilder) -> T) -> (f64, f64) {
    super::rounds(ROUNDS, || {
        let directory = tempfile::tempdir().expect("a directory");
        let builder = Registry::builder("bench").directory(directory.path());
        let start_time = Instant::now();
        let started = start(builder);
        let took = start_time.elapsed().as_secs_f64() * 1000.0;
        drop(started);
        took
    })
}

fn sealed(builder: RegistryBuilder, names: &[String]) -> (Vec<Counter<u64>>, Registry) {
    let registry = builder.sealed().build().expect("a registry");
    let counter = |name: &String| {
        let counter = registry.counter(name.as_str()).units(Units::count());
        counter.help("how often it happened").build().expect("a metric")
    };
    let counters = names.iter().map(counter).collect();
    (counters, registry.publish().expect("files"))
}

fn live(builder: RegistryBuilder, names: &[String]) -> (Vec<Counter<u64>>, Registry) {
    let registry = builder.build().expect("a registry");
    let counter = |name: &String| {
        let counter = registry.counter(name.as_str()).units(Units::count());
        counter.help("how often it happened").build().expect("a metric")
    };
    let counters = names.iter().map(counter).collect();
    registry.announce();
    (counters, registry)
}

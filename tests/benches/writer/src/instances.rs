//! Handles of instances by name, for programs that do not keep the handles.

use metrics::Recorder as _;
use metrics_exporter_prometheus::PrometheusBuilder;
use mmv_writer::pcp::{IndomMetricExt as _, NamedFamily, RegistryExt as _};
use mmv_writer::{Counter, Registry};
use prometheus_client::metrics as prometheus;

use crate::clock::{each, each_of_two};
use crate::contest::{Options, Rival, hold};
use crate::updates::{METADATA, text_of};

const INSTANCES: usize = 10_000;

pub(crate) fn measure(options: &Options) -> Result<(), String> {
    // Each of them many times, so that they are in the caches if there is room.
    let n = options.count * 4;
    let options = &Options { rounds: options.rounds.div_ceil(3), ..options.clone() };
    let registry = Registry::builder("instances").build().map_err(text_of)?;
    let indom = registry.indom("things").build().map_err(text_of)?;
    let ours: NamedFamily<Counter<u64>> =
        registry.counter("count").build_named(&indom).map_err(text_of)?;
    let theirs = prometheus::family::Family::<String, prometheus::counter::Counter>::default();
    let recorder = PrometheusBuilder::new().build_recorder();

    // In no order, as names come from outside.
    let mut names: Vec<String> = (0..INSTANCES).map(|index| format!("thing {index}")).collect();
    fastrand::Rng::with_seed(7).shuffle(&mut names);
    let key = |name: &String| {
        metrics::Key::from_parts("count", vec![metrics::Label::new("name", name.clone())])
    };
    let keys: Vec<metrics::Key> = names.iter().map(key).collect();
    for name in &names {
        ours.get_or_create(name).map_err(text_of)?.inc();
    }
    let get = |turn: u64| {
        let added = ours.with(&names[turn as usize % INSTANCES], Counter::inc);
        debug_assert!(added.is_ok(), "an instance that is there");
    };
    let get_theirs = |turn: u64| {
        theirs.get_or_create(&names[turn as usize % INSTANCES]).inc();
    };
    let get_facade = |turn: u64| {
        recorder.register_counter(&keys[turn as usize % INSTANCES], &METADATA).increment(1);
    };

    let our_registry = Registry::builder("instances_of_the_facade").lenient();
    let our_registry = our_registry.build().map_err(text_of)?;
    let our_recorder = mmv_metrics::Recorder::new(&our_registry);
    let get_our_facade = |turn: u64| {
        our_recorder.register_counter(&keys[turn as usize % INSTANCES], &METADATA).increment(1);
    };

    hold(
        options,
        "look up 1 in 10 000 by name, and add",
        Some(40.0),
        vec![
            Rival::new("ours", || each(n, get)),
            Rival::new("prometheus-client", || each(n, get_theirs)),
            Rival::new("metrics + prometheus", || each(n, get_facade)),
            Rival::new("metrics + ours", || each(n, get_our_facade)),
        ],
    )?;
    hold(
        options,
        "the same by 2 threads",
        Some(60.0),
        vec![
            Rival::new("ours", || each_of_two(n, [get; 2])),
            Rival::new("prometheus-client", || each_of_two(n, [get_theirs; 2])),
            Rival::new("metrics + prometheus", || each_of_two(n, [get_facade; 2])),
            Rival::new("metrics + ours", || each_of_two(n, [get_our_facade; 2])),
        ],
    )
}

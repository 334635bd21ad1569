//! The time from nothing to a published file. hornet is not among the rivals: the type of the
//! list that it takes is private, so the list cannot be made in a loop.

use mmv_writer::Registry;
use prometheus_client::metrics::counter::Counter as PrometheusCounter;
use prometheus_client::registry::Registry as PrometheusRegistry;

use crate::c::Programs;
use crate::clock::once;
use crate::contest::{Options, Rival, hold};
use crate::updates::text_of;

fn publish(name: &str, metrics: usize) -> Result<Registry, mmv_writer::Error> {
    let registry = Registry::builder(name).sealed().build()?;
    for metric in 0..metrics {
        let _counter = registry.counter(format!("metric{metric}")).build()?;
    }
    registry.publish()
}

fn register(metrics: usize) -> PrometheusRegistry {
    let mut registry = PrometheusRegistry::default();
    for metric in 0..metrics {
        let counter = PrometheusCounter::<u64>::default();
        registry.register(format!("metric{metric}"), "", counter);
    }
    registry
}

pub(crate) fn measure(options: &Options, programs: &Programs) -> Result<(), String> {
    let many = 40_000;
    // A run that fails does not get here twice.
    drop(publish("start", 100).map_err(text_of)?);
    hold(
        options,
        "start with 100 metrics",
        Some(0.3e6),
        vec![
            Rival::new("ours", || once(|| publish("start", 100))),
            Rival::fallible("libpcp_mmv", || programs.on_pcp("start", 100)),
            Rival::new("prometheus-client", || once(|| register(100))),
        ],
    )?;
    // Each of these takes as long as a thousand of the others.
    let options = &Options { rounds: options.rounds.div_ceil(10), ..options.clone() };
    hold(
        options,
        "register 40 000 metrics, 1023 a file",
        Some(80e6),
        vec![
            Rival::new("ours", || once(|| publish("many", many))),
            Rival::fallible("libpcp_mmv", || programs.on_pcp("many", many as u64)),
            Rival::new("prometheus-client", || once(|| register(many))),
        ],
    )
}

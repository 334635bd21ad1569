//! Metrics of the sender itself, in an MMV file.
//!
//! In: the [counts](DeliveryCounts) of each host, repeatedly. Out: metrics with an instance for each host,
//! which `mmv-agent` logs like all others. They start at 0 with the process, unlike the counts,
//! which start at the first run.

use mmv_writer::pcp::{IndomMetricExt as _, NamedFamily, RegistryExt as _};
use mmv_writer::{Counter, Error, Gauge, Registry, Units};

use super::DeliveryCounts;

/// The name, the help text and the value of a counter.
type OwnMetric = (&'static str, &'static str, fn(&DeliveryCounts) -> u64);

const COUNTERS: [OwnMetric; 7] = [
    ("sent", "samples that the receiver stored", |counts| counts.sent),
    ("requests", "requests that the receiver stored", |counts| counts.requests),
    ("repeated", "samples that the receiver had already", |counts| counts.repeated),
    ("refused", "samples that the receiver refused", |counts| counts.refused),
    ("too_old", "samples dropped because they were too old", |counts| counts.too_old),
    ("lost_gaps", "gaps of archives deleted before they were sent", |counts| counts.lost_gaps),
    ("damaged", "records and archives that could not be read", |counts| counts.damaged),
];

/// The state of a host that its metrics show.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HostState {
    /// The counts since the start of this process.
    pub(crate) counts: DeliveryCounts,
    /// The time of the last record that was sent, nanoseconds since 1970 UTC; `None` before the
    /// first one.
    pub(crate) sent_until: Option<i64>,
    /// Whether the receiver refuses its samples as too old.
    pub(crate) is_held: bool,
}

#[derive(Debug)]
pub(crate) struct OwnMetrics {
    /// In the order of [`COUNTERS`].
    counters: Vec<NamedFamily<Counter<u64>>>,
    sent_until: NamedFamily<Gauge<f64>>,
    held: NamedFamily<Gauge<u32>>,
    // The file is removed when this and the families are dropped.
    _registry: Registry,
}

impl OwnMetrics {
    /// Publishes the file `name`, whose metrics are `mmv.NAME.*`. If the file cannot be created, the
    /// reason is printed and the metrics count nowhere; samples are sent nevertheless.
    ///
    /// # Errors
    ///
    /// If the name is not a valid file name, or is used by another running process.
    pub(crate) fn publish(name: &str) -> Result<Self, Error> {
        let registry = Registry::builder(name).lenient().build()?;
        let hosts = registry.indom("hosts").help("hosts whose archives are sent").build()?;
        let mut counters = Vec::new();
        for (name, help, _) in COUNTERS {
            let counter = registry.counter(name).units(Units::count()).help(help);
            counters.push(counter.build_named(&hosts)?);
        }
        // A time and not a lag, which would be wrong while a waiting request delays updates.
        let sent_until = registry.gauge("sent_until").units(Units::seconds());
        let sent_until = sent_until.help("time of the last sent record, seconds since 1970 UTC");
        let sent_until = sent_until.build_named(&hosts)?;
        let held = registry.metric("held").help("1 while the receiver takes no samples this old");
        let held = held.build_named(&hosts)?;
        Ok(Self { counters, sent_until, held, _registry: registry })
    }

    /// Sets the metrics of a host.
    ///
    /// # Errors
    ///
    /// If the name of the host is not a valid instance name, or there are too many hosts.
    pub(crate) fn show(&self, host: &str, state: &HostState) -> Result<(), Error> {
        for (family, (.., count)) in self.counters.iter().zip(&COUNTERS) {
            let count = count(&state.counts);
            family.with(host, |counter| counter.add(count.saturating_sub(counter.value())))?;
        }
        self.held.with(host, |held| held.set(state.is_held.into()))?;
        if let Some(time) = state.sent_until {
            self.sent_until.with(host, |until| until.set(time as f64 / 1e9))?;
        }
        Ok(())
    }
}

//! What a sender counts about itself, in an MMV file like that of any other program.
//!
//! In: the [counts](Counts) of each host, time and again. Out: metrics with an instance for
//! each host, which `mmv-agent` logs like all others. They start at 0 with the process, unlike
//! the counts, which are since the first run.

use mmv_writer::{Counter, Error, Family, Gauge, LiveRegistry, Registry, Units};

use super::Counts;

/// Name and help of a counter, and the count that it shows.
type OwnMetric = (&'static str, &'static str, fn(&Counts) -> u64);

const COUNTERS: [OwnMetric; 7] = [
    ("sent", "samples that the receiver stored", |counts| counts.sent),
    ("requests", "requests that the receiver stored", |counts| counts.requests),
    ("repeated", "samples that the receiver had already", |counts| counts.repeated),
    ("refused", "samples that the receiver refused", |counts| counts.refused),
    ("too_old", "samples dropped because they were too old", |counts| counts.too_old),
    ("lost_gaps", "gaps of archives deleted before they were sent", |counts| counts.lost_gaps),
    ("damaged", "records and archives that could not be read", |counts| counts.damaged),
];

/// What is known of a host.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HostState {
    /// Since the start of this process.
    pub(crate) counts: Counts,
    /// The time of the last record that was sent, nanoseconds since 1970 UTC; `None` before the
    /// first one.
    pub(crate) sent_until: Option<i64>,
    /// The receiver takes none of its samples now.
    pub(crate) is_held: bool,
}

/// The metrics.
#[derive(Debug)]
pub(crate) struct OwnMetrics {
    /// In the order of [`COUNTERS`].
    counters: Vec<Family<Counter<u64>>>,
    sent_until: Family<Gauge<f64>>,
    held: Family<Gauge<u32>>,
    // Withdraws the file at its end.
    _registry: LiveRegistry,
}

impl OwnMetrics {
    /// Publishes the file `name`, whose metrics are `mmv.NAME.*`. Where there can be no file the
    /// reason is printed, and they count nowhere: samples are sent all the same.
    ///
    /// # Errors
    ///
    /// A name that no file can have, or that another running process has.
    pub(crate) fn publish(name: &str) -> Result<Self, Error> {
        let registry = Registry::builder(name).lenient().live().build()?;
        let hosts = registry.indom("hosts").help("hosts whose archives are sent").build()?;
        let counter = |(name, help, _): &OwnMetric| {
            let counter = registry.counter(*name).units(Units::count()).help(*help);
            counter.build_family(&hosts)
        };
        let counters = COUNTERS.iter().map(counter).collect::<Result<_, _>>()?;
        // A time, not a lag: it is right also while nothing updates it, since a request waits.
        let sent_until = registry.gauge("sent_until").units(Units::seconds());
        let sent_until = sent_until.help("time of the last sent record, seconds since 1970 UTC");
        let sent_until = sent_until.build_family(&hosts)?;
        let held = registry.gauge("held").help("1 while the receiver takes no samples this old");
        let held = held.build_family(&hosts)?;
        Ok(Self { counters, sent_until, held, _registry: registry })
    }

    /// Shows the state of a host.
    ///
    /// # Errors
    ///
    /// A name that no instance can have; too many hosts.
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

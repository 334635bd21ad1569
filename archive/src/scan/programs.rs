//! Identifiers of mmv-agent's own metrics, and its events about the programs whose metrics it
//! logs.
//!
//! In: a value of `mmv.agent.events`, an event array. Out: one [`ProgramEvent`] for each
//! thing that happened, and the [`Boundary`] that it is in the values of a program: no
//! value from before it continues after it.
//!
//! | event | boundary |
//! |---|---|
//! | `started` | the agent begins, whose own counters begin at 0 |
//! | `appeared` | a run begins, from 0; none with `started`, since the program ran already |
//! | `restarted` | a run begins, from 0 |
//! | `recovered` | the values of a run are logged again |
//! | `ended` | a run ends, after the values that were logged with the event |
//! | `vanished`, `removed`, `quarantined`, `waiting` | values are no longer logged |
//!
//! Programs that ran before the agent started are in its first records; a mark before those
//! separates them from values of earlier agents, unless nothing was lost in between.
//!
//! A program is known by the name of its file: `mmv.FILE.` begins the names of its
//! metrics. Names of metrics of files with the NOPREFIX flag do not have it: events about
//! such a file have the cluster of its metrics, unless another file has metrics in it.

use std::ops::RangeInclusive;
use std::time::Duration;

use hashbrown::HashMap;

use self::items::{CLUSTER, FILE, KIND, PID, REASON, VALUES};
use super::{Column, Columns, SelectedMetric, Selection};
use crate::format::event::{EventArray, EventRecord};
use crate::{InDom, Pmid, Result, Source, Timestamp, Value};

/// The domain of metrics of MMV files.
pub const DOMAIN: u32 = 70;
/// The cluster of the agent's own metrics.
const OWN_CLUSTER: u32 = 0;
/// The file of those.
const OWN_FILE: &str = "agent";

/// The label of a cluster with the number of the user whose files have its metrics; those of root
/// and of the agent's user have none. It is for the agent, and no part of the identity of a series.
pub const OWNER_LABEL: &str = "mmv_owner";

/// The items of `mmv.agent.events` and of its parameters, in the agent's own cluster.
pub mod items {
    /// `mmv.agent.events`, an event array.
    pub const EVENTS: u32 = 1001;
    /// `mmv.agent.event.type`, a string: what happened.
    pub const KIND: u32 = 1002;
    /// `mmv.agent.event.file`, a string: the MMV file that it happened to.
    pub const FILE: u32 = 1003;
    /// `mmv.agent.event.reason`, a string: why.
    pub const REASON: u32 = 1004;
    /// `mmv.agent.event.pid`, a `u32`: the process of the file, or the agent.
    pub const PID: u32 = 1005;
    /// `mmv.agent.event.values`, a `u64`: how many values the file has.
    pub const VALUES: u32 = 1006;
    /// `mmv.agent.event.records`, a `u64`: how many records are missing.
    pub const RECORDS: u32 = 1007;
    /// `mmv.agent.event.since`, a string: the time from which they are missing, in UTC.
    pub const SINCE: u32 = 1008;
    /// `mmv.agent.event.cluster`, a `u32`: the cluster that only metrics of the file have,
    /// whose names do not begin with the file's.
    pub const CLUSTER: u32 = 1009;
}

/// Returns the PMID of the agent's event metric.
pub fn events_metric() -> Pmid {
    Pmid::from_raw(DOMAIN << 22 | OWN_CLUSTER << 10 | items::EVENTS)
}

/// Returns the item of a metric of the agent's own cluster.
fn item(pmid: Pmid) -> Option<u32> {
    (pmid.domain() == DOMAIN && pmid.cluster() == OWN_CLUSTER).then(|| pmid.item())
}

const RESOLUTION: Duration = Duration::from_micros(1);

/// One event of `mmv.agent.events`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgramEvent<'a> {
    /// The time, cut to microseconds.
    pub at: Timestamp,
    /// The kind of event: `appeared`, `restarted`, `ended` and so on.
    pub kind: &'a str,
    /// The name of the file to which it happened; `None` for events of the agent.
    pub file: Option<&'a str>,
    /// The cluster of the file's metrics, if their names do not begin with its name.
    pub cluster: Option<u32>,
    /// The process of the file, or the agent.
    pub pid: Option<u32>,
    /// The reason that the agent gives.
    pub reason: Option<&'a str>,
    /// The number of values in the file.
    pub values: Option<u64>,
    /// The agent started at the same time.
    is_at_start: bool,
}

/// The time at which values of a program do not continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Boundary {
    /// The values from here on are after it.
    pub at: Timestamp,
    /// A run begins here, whose counters began at 0.
    pub from_zero: bool,
}

impl<'a> ProgramEvent<'a> {
    /// Returns the events in a value of [`events_metric`]; none in a value that is damaged or no
    /// event array.
    pub fn all(value: Value<'a>) -> Vec<Self> {
        let Ok(array) = EventArray::unpack(value) else { return Vec::new() };
        let mut all = Vec::new();
        let mut is_at_start = false;
        for record in array.records() {
            let Some(event) = Self::from_record(record) else { continue };
            is_at_start |= event.kind == "started";
            all.push(Self { is_at_start, ..event });
        }
        all
    }

    #[cfg(test)]
    pub(crate) const fn of_file(kind: &'a str, file: &'a str, at: Timestamp) -> Self {
        let file = Some(file);
        Self {
            at,
            kind,
            file,
            cluster: None,
            pid: None,
            reason: None,
            values: None,
            is_at_start: false,
        }
    }

    /// Returns the event of one record of [`events_metric`]; `None` of a record without a kind, as
    /// those of other event metrics are.
    pub fn from_record(record: EventRecord<'a>) -> Option<Self> {
        let mut event = Self {
            at: record.timestamp(),
            kind: "",
            file: None,
            cluster: None,
            pid: None,
            reason: None,
            values: None,
            is_at_start: false,
        };
        for (pmid, value) in record.parameters() {
            let text = match value {
                Value::String(bytes) => std::str::from_utf8(bytes).ok(),
                _ => None,
            };
            match (item(pmid), value) {
                (Some(KIND), _) => event.kind = text.unwrap_or_default(),
                (Some(FILE), _) => event.file = text,
                (Some(REASON), _) => event.reason = text,
                (Some(PID), Value::U32(pid)) => event.pid = Some(pid),
                (Some(VALUES), Value::U64(values)) => event.values = Some(values),
                (Some(CLUSTER), Value::U32(cluster)) => event.cluster = Some(cluster),
                _ => {}
            }
        }
        (!event.kind.is_empty()).then_some(event)
    }

    /// Returns whether a metric is one of the file's, by its name and PMID.
    pub fn is_of(&self, metric: &str, pmid: Pmid) -> bool {
        let Some(name) = metric.strip_prefix("mmv.") else { return false };
        if let Some(cluster) = self.cluster {
            return pmid.domain() == DOMAIN && pmid.cluster() == cluster;
        }
        let rest = self.program().and_then(|file| name.strip_prefix(file));
        rest.is_some_and(|rest| rest.starts_with('.'))
    }

    /// Returns the file of the metrics that the event is about.
    fn program(&self) -> Option<&'a str> {
        self.file.or((self.kind == "started").then_some(OWN_FILE))
    }

    /// Returns whether something happened to a program that has values of a metric. That is more
    /// than [`is_of`](Self::is_of): processes that share their metrics have each a file
    /// `NAME.PID`, whose end is not a boundary for the others' values.
    pub fn concerns(&self, metric: &str, pmid: Pmid) -> bool {
        if self.is_of(metric, pmid) {
            return true;
        }
        let name = metric.strip_prefix("mmv.").unwrap_or_default();
        let rest = self.shared_name().and_then(|shared| name.strip_prefix(shared));
        rest.is_some_and(|rest| rest.starts_with('.'))
    }

    /// Returns the name of the files of processes that share their metrics, without the process.
    fn shared_name(&self) -> Option<&'a str> {
        let (name, number) = self.file?.rsplit_once('.')?;
        (self.pid.is_some() && number.parse().ok() == self.pid).then_some(name)
    }

    /// Returns the boundary in the values of the file's metrics, if it is one.
    pub fn boundary(&self) -> Option<Boundary> {
        self.program()?;
        let (at, from_zero) = match self.kind {
            "appeared" if self.is_at_start => return None,
            "started" | "appeared" | "restarted" => (self.at, true),
            "recovered" | "vanished" | "removed" | "quarantined" | "waiting" => (self.at, false),
            "ended" => (self.at.saturating_add(RESOLUTION), false),
            _ => return None,
        };
        Some(Boundary { at, from_zero })
    }
}

impl ProgramEvent<'_> {
    /// Returns whether a program is logged again, or at last, that may have counted before.
    pub(crate) fn resumes(&self) -> bool {
        self.kind == "recovered" || self.kind == "appeared" && self.is_at_start
    }
}

/// Returns whether the instances of a domain are those of an MMV file, which a program creates.
pub(crate) fn is_created_by_program(indom: InDom) -> bool {
    indom.domain() == DOMAIN
}

/// Returns whether a metric is one of an MMV file.
pub(crate) fn has_program(metric: &SelectedMetric) -> bool {
    metric.desc.pmid.domain() == DOMAIN && metric.name.starts_with("mmv.")
}

/// Values for programs, found by a metric of the program.
#[derive(Debug)]
pub(crate) struct ByProgram<T> {
    /// By the names of files.
    files: HashMap<String, Vec<T>>,
    /// By clusters, of files whose names are not part of those of their metrics.
    clusters: HashMap<u32, Vec<T>>,
}

impl<T> Default for ByProgram<T> {
    fn default() -> Self {
        Self { files: HashMap::new(), clusters: HashMap::new() }
    }
}

impl<T: Copy> ByProgram<T> {
    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty() && self.clusters.is_empty()
    }

    /// Adds something about the program of an event; nothing if it is one of the agent.
    pub(crate) fn add(&mut self, event: &ProgramEvent<'_>, item: T) {
        let list = match (event.cluster, event.program()) {
            (Some(cluster), _) => self.clusters.entry(cluster).or_default(),
            (None, Some(file)) => self.files.entry_ref(file).or_default(),
            (None, None) => return,
        };
        list.push(item);
    }

    /// Adds something about a process that shares its metrics with others; nothing if the event
    /// is not about such a one.
    pub(crate) fn add_process(&mut self, event: &ProgramEvent<'_>, item: T) {
        if let Some(name) = event.shared_name() {
            self.files.entry_ref(name).or_default().push(item);
        }
    }

    /// Returns the values for the program of a metric, as [`ProgramEvent::is_of`].
    pub(crate) fn values_of_metric<'s>(
        &'s self,
        metric: &'s str,
        pmid: Pmid,
    ) -> impl Iterator<Item = T> + 's {
        let name = metric.strip_prefix("mmv.").filter(|_| pmid.domain() == DOMAIN);
        let cluster = name.and_then(|_| self.clusters.get(&pmid.cluster()));
        let name = name.filter(|_| !self.files.is_empty()).unwrap_or_default();
        let files = name.match_indices('.').filter_map(|(dot, _)| name.get(..dot));
        let by_file = files.filter_map(|file| self.files.get(file));
        cluster.into_iter().chain(by_file).flatten().copied()
    }
}

/// Returns the name of the agent's event metric in an archive that has it.
pub fn events_name(source: Source<'_>) -> Option<String> {
    let metric = source.metadata().metric(events_metric())?;
    let is_array = metric.desc.value_type.is_event();
    metric.names.first().filter(|_| is_array).map(ToString::to_string)
}

/// Adds the agent's events to a selection that has metrics of MMV files.
pub(crate) fn select_events(selection: &mut Selection<'_>) {
    let mut metrics = selection.metrics().iter();
    if metrics.any(|metric| metric.desc.pmid.domain() == DOMAIN)
        && let Some(events) = events_name(selection.source())
    {
        selection.select(&events);
    }
}

/// Calls a function with each event of the records in a span, in their order; there are none
/// in an archive without [`events_metric`]. Damage is skipped: it is reported where the values
/// beside the events are read.
///
/// # Errors
///
/// [`crate::Error::Io`], and others than damage from the [scan](Columns::next_chunk).
pub fn for_each_event(
    source: Source<'_>,
    span: RangeInclusive<Timestamp>,
    mut take: impl FnMut(&ProgramEvent<'_>),
) -> Result<()> {
    let Some(name) = events_name(source) else { return Ok(()) };
    let mut selection = Selection::new(source);
    selection.select(&name);
    let mut columns = Columns::open_past_damage(&selection, &span)?;
    while let Some(chunk) = columns.next_chunk()? {
        for (_, value) in chunk.columns(0).iter().flat_map(Column::iter) {
            ProgramEvent::all(value).iter().for_each(&mut take);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::event::EventArrayBuilder;
    use crate::format::event::EventFlags;

    fn time(micros: i64) -> Timestamp {
        Timestamp::from_nanos(1_700_000_000_000_000_000 + i128::from(micros) * 1_000)
    }

    fn parameter(item: u32) -> Pmid {
        Pmid::new(DOMAIN, OWN_CLUSTER, item).unwrap()
    }

    #[test]
    fn events_are_boundaries_of_the_metrics_of_their_file() {
        let mut builder = EventArrayBuilder::new();
        let events = [
            ("appeared", "shop", Some((0, true))),
            ("started", "", Some((0, true))),
            ("appeared", "shop", None),
            ("grew", "shop", None),
            ("restarted", "shop", Some((0, true))),
            ("recovered", "shop", Some((0, false))),
            ("ended", "shop", Some((1, false))),
            ("vanished", "shop", Some((0, false))),
        ];
        for (kind, file, _) in events {
            builder.record(time(5), EventFlags::POINT).unwrap();
            builder.parameter(parameter(KIND), Value::String(kind.as_bytes())).unwrap();
            if !file.is_empty() {
                builder.parameter(parameter(FILE), Value::String(file.as_bytes())).unwrap();
                builder.parameter(parameter(PID), Value::U32(7)).unwrap();
            }
        }
        builder.missed(time(6), 3).unwrap();
        let value = builder.finish();
        let found = ProgramEvent::all(value.as_value());
        assert_eq!(found.len(), events.len());
        for (found, (kind, file, boundary)) in found.iter().zip(events) {
            assert_eq!((found.kind, found.file.unwrap_or_default()), (kind, file));
            assert_eq!(found.pid, (!file.is_empty()).then_some(7));
            let boundary =
                boundary.map(|(later, from_zero)| Boundary { at: time(5 + later), from_zero });
            assert_eq!(found.boundary(), boundary, "{kind}");
            let resumes = match kind {
                "appeared" => boundary.is_none(),
                kind => kind == "recovered",
            };
            assert_eq!(found.resumes(), resumes, "{kind}");
        }
        let pmid = Pmid::new(DOMAIN, 3, 1).unwrap();
        let is_of = |metric| found.first().unwrap().is_of(metric, pmid);
        assert!(is_of("mmv.shop.orders") && !is_of("mmv.shop2.orders") && !is_of("mmv.shop"));
        assert!(!found.get(1).unwrap().is_of("mmv..orders", pmid));
    }

    #[test]
    fn an_event_with_a_cluster_is_about_the_metrics_in_it() {
        let mut builder = EventArrayBuilder::new();
        builder.record(time(5), EventFlags::POINT).unwrap();
        builder.parameter(parameter(KIND), Value::String(b"ended")).unwrap();
        builder.parameter(parameter(FILE), Value::String(b"shop")).unwrap();
        builder.parameter(parameter(CLUSTER), Value::U32(3)).unwrap();
        let value = builder.finish();
        let events = ProgramEvent::all(value.as_value());
        let event = events.first().unwrap();
        let mut known = ByProgram::default();
        known.add(event, 'e');
        let found = |domain, cluster, metric| {
            let pmid = Pmid::new(domain, cluster, 1).unwrap();
            let is_of = event.is_of(metric, pmid);
            assert_eq!(
                known.values_of_metric(metric, pmid).collect::<Vec<_>>(),
                ['e'][..usize::from(is_of)]
            );
            is_of
        };
        assert!(found(DOMAIN, 3, "mmv.orders") && found(DOMAIN, 3, "mmv.store.orders"));
        assert!(!found(DOMAIN, 4, "mmv.orders") && !found(DOMAIN, 4, "mmv.shop.orders"));
        assert!(!found(60, 3, "mmv.orders") && !found(DOMAIN, 3, "renamed.orders"));
    }

    #[test]
    fn an_event_of_one_of_several_processes_concerns_their_metrics() {
        let event = |file, pid| ProgramEvent {
            at: time(5),
            kind: "ended",
            file: Some(file),
            cluster: None,
            pid,
            reason: None,
            values: None,
            is_at_start: false,
        };
        let pmid = Pmid::new(DOMAIN, 3, 1).unwrap();
        let own = event("worker.12", Some(12));
        assert!(own.concerns("mmv.worker.jobs", pmid) && !own.is_of("mmv.worker.jobs", pmid));
        assert!(own.concerns("mmv.worker.12.jobs", pmid) && !own.concerns("mmv.work.jobs", pmid));
        for other in [event("worker.12", Some(13)), event("worker.12", None), event("worker", None)]
        {
            assert_eq!(other.concerns("mmv.worker.jobs", pmid), other.file == Some("worker"));
        }
    }

    #[test]
    fn other_values_have_no_events() {
        assert_eq!(ProgramEvent::all(Value::U32(1)), []);
        assert_eq!(ProgramEvent::all(Value::Event(&[0, 0, 0, 9])), []);
    }
}

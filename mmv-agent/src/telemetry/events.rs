//! The event metric of an archive: what happened to files and samples.
//!
//! A reader of an archive sees a curve stop; `mmv.agent.events` states why. It has an array of
//! events for each tick with any, and an empty one with the next sample, since readers take the
//! last value for the current one.
//!
//! No MMV file can have these PMIDs, 70.0.1000 and above ([`OWN_CLUSTER`]), nor these names. The
//! parameters have values only within events, and descriptors so that readers can show them. Each
//! record of events has an empty value set for each of them, since pmlogextract keeps only
//! descriptors of metrics in records.

use pcp_archive::internal::programs::items::{
    CLUSTER, EVENTS, FILE, KIND, PID, REASON, RECORDS, SINCE, VALUES,
};
use pcp_archive::raw::event::{EventArrayBuilder, EventFlags};
use pcp_archive::raw::{EncodeError, TextKind, TextTarget, ValueSet};
use pcp_archive::{MetricDesc, Value};
use pcp_types::printable::is_printable;
use pcp_types::{Pmid, Semantics, Timestamp, Units, ValueType};

use crate::metadata::{Catalog, DOMAIN, OWN_CLUSTER};
use crate::moment::utc_text;

/// Time from which events are an array with 64-bit times: 2038-01-01 in UTC. 32-bit times end on
/// 19 January; a metric has one type in an archive, and an archive may last for days.
const LONG_TIMES: i64 = 2_145_916_800;

/// Limit on the text of a parameter, in bytes; it may come from a file.
const TEXT: usize = 255;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventKind {
    /// A file is harvested for the first time.
    Appeared,
    /// Another file has taken the name of a known one: its application was restarted.
    Restarted,
    /// A file has new metadata: metrics or instances have come or gone.
    Grew,
    /// The process that feeds a file has ended; its last values were logged.
    Ended,
    /// A file is gone.
    Vanished,
    /// A file is not harvested because something is wrong with it.
    Quarantined,
    /// A file is not harvested for now, and nothing is wrong with it.
    Waiting,
    /// A file is harvested again.
    Recovered,
    /// Samples were dropped because the queue was full.
    Dropped,
    /// Records could not be written.
    Lost,
    /// Nothing was sampled for a while: the machine or the agent was suspended, or the clock was
    /// set forward.
    Gap,
    Started,
    Stopped,
    /// A file whose process had ended was removed by the agent.
    Removed,
    /// Something of a file is left out, since another user has it.
    LeftOut,
}

impl EventKind {
    /// Names in archives, in the order of the kinds.
    pub(crate) const NAMES: [&str; 15] = [
        "appeared",
        "restarted",
        "grew",
        "ended",
        "vanished",
        "quarantined",
        "waiting",
        "recovered",
        "dropped",
        "lost",
        "gap",
        "started",
        "stopped",
        "removed",
        "left-out",
    ];

    pub(crate) const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    /// Tick that noticed it.
    pub timestamp: Timestamp,
    pub kind: EventKind,
    pub file: Option<String>,
    pub reason: Option<String>,
    /// Producer of the file, or the agent itself.
    pub pid: Option<i32>,
    /// Number of values in the file.
    pub values: Option<u64>,
    /// Number of missing records.
    pub records: Option<u64>,
    /// First moment of which something is missing.
    pub since: Option<Timestamp>,
    /// Cluster of the file's metrics, if readers cannot find them by the file's name.
    pub cluster: Option<u32>,
}

impl Event {
    pub(crate) const fn new(kind: EventKind, timestamp: Timestamp) -> Self {
        let file = None;
        let reason = None;
        let pid = None;
        let values = None;
        let records = None;
        let since = None;
        let cluster = None;
        Self { timestamp, kind, file, reason, pid, values, records, since, cluster }
    }
}

/// Events on their way to the archive.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Events {
    pub list: Vec<Event>,
    /// Number of further events.
    pub missed: u32,
}

impl Events {
    /// Limit on waiting events, for instance while the disk is full; further ones are counted.
    pub(crate) const MAX_WAITING: usize = 4_000;

    /// Returns true if there are no events, not even missed ones.
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty() && self.missed == 0
    }

    /// Adds an event, or counts it.
    pub(crate) fn push(&mut self, event: Event) {
        if self.list.len() < Self::MAX_WAITING {
            self.list.push(event);
        } else {
            self.missed = self.missed.saturating_add(1);
        }
    }

    pub(crate) fn add(&mut self, others: &Self) {
        others.list.iter().for_each(|event| self.push(event.clone()));
        self.missed = self.missed.saturating_add(others.missed);
    }

    /// Returns the value sets of a record: the value of `mmv.agent.events`, of the type that is
    /// declared in `catalog`, and empty sets of the parameters if there are events.
    ///
    /// # Errors
    ///
    /// [`EncodeError::TimeRange`] for a time that the type cannot hold.
    pub(crate) fn value_sets(
        &self,
        timestamp: Timestamp,
        catalog: &Catalog,
    ) -> Result<Vec<ValueSet>, EncodeError> {
        let declared = catalog.metrics.iter().rfind(|(desc, _)| desc.pmid == pmid(EVENTS));
        let mut array = match declared {
            Some((MetricDesc { value_type: ValueType::HighresEvent, .. }, _)) => {
                EventArrayBuilder::highres()
            }
            _ => EventArrayBuilder::new(),
        };
        for event in &self.list {
            array.record(event.timestamp, EventFlags::POINT)?;
            put(&mut array, event)?;
        }
        if self.missed > 0 {
            array.missed(timestamp, self.missed.min(i32::MAX.cast_unsigned()))?;
        }
        let events = ValueSet { pmid: pmid(EVENTS), values: Ok(vec![(None, array.finish())]) };
        let mut sets = vec![events];
        if !self.list.is_empty() {
            for item in KIND..=CLUSTER {
                sets.push(ValueSet { pmid: pmid(item), values: Ok(Vec::new()) });
            }
        }
        Ok(sets)
    }
}

fn put(array: &mut EventArrayBuilder, event: &Event) -> Result<(), EncodeError> {
    let Event { timestamp: _, kind, file, reason, pid, values, records, since, cluster } = event;
    array.parameter(pmid(KIND), Value::String(kind.name().as_bytes()))?;
    for (item, text) in [(FILE, file), (REASON, reason)] {
        if let Some(text) = text {
            array.parameter(pmid(item), Value::String(printable(text).as_bytes()))?;
        }
    }
    for (item, number) in [(PID, pid.map(i32::cast_unsigned)), (CLUSTER, *cluster)] {
        if let Some(number) = number {
            array.parameter(pmid(item), Value::U32(number))?;
        }
    }
    for (item, number) in [(VALUES, values), (RECORDS, records)] {
        if let Some(number) = number {
            array.parameter(pmid(item), Value::U64(*number))?;
        }
    }
    if let Some(since) = since {
        array.parameter(
            pmid(SINCE),
            Value::String(utc_text(since.seconds(), since.nanoseconds()).as_bytes()),
        )?;
    }
    Ok(())
}

/// Returns a text that is safe on a terminal and no longer than [`TEXT`] bytes.
fn printable(text: &str) -> String {
    let mut out = String::new();
    for char in text.chars().map(|char| if is_printable(char) { char } else { '?' }) {
        if out.len() + char.len_utf8() > TEXT {
            break;
        }
        out.push(char);
    }
    out
}

/// Item, name, type and help of each metric.
const METRICS: [(u32, &str, ValueType, &str); 9] = [
    (EVENTS, "mmv.agent.events", ValueType::Event, "what happened to MMV files and samples"),
    (KIND, "mmv.agent.event.type", ValueType::String, "what happened"),
    (FILE, "mmv.agent.event.file", ValueType::String, "the MMV file that it happened to"),
    (REASON, "mmv.agent.event.reason", ValueType::String, "why it happened"),
    (PID, "mmv.agent.event.pid", ValueType::U32, "the process that feeds the file, or the agent"),
    (VALUES, "mmv.agent.event.values", ValueType::U64, "how many values the file has"),
    (RECORDS, "mmv.agent.event.records", ValueType::U64, "how many records are missing"),
    (SINCE, "mmv.agent.event.since", ValueType::String, "since when they are missing, in UTC"),
    (
        CLUSTER,
        "mmv.agent.event.cluster",
        ValueType::U32,
        "the cluster of the file's metrics, if their names do not begin with its name",
    ),
];

/// Returns the names that no metric of a file may have.
pub(crate) fn names() -> impl Iterator<Item = (&'static str, Pmid)> {
    METRICS.iter().map(|(item, name, ..)| (*name, pmid(*item)))
}

/// Returns true if events of this time need 64-bit times.
pub(crate) fn have_long_times(at: Timestamp) -> bool {
    at.seconds() >= LONG_TIMES
}

/// Adds the metrics to a catalog, after those of files.
pub(crate) fn declare(catalog: &mut Catalog, have_long_times: bool) {
    for (item, name, value_type, help) in METRICS {
        let value_type = match value_type {
            ValueType::Event if have_long_times => ValueType::HighresEvent,
            value_type => value_type,
        };
        let pmid = pmid(item);
        // As for PCP's own event metrics.
        let semantics = if item == EVENTS { Semantics::Instant } else { Semantics::Discrete };
        let desc = MetricDesc { pmid, value_type, indom: None, semantics, units: Units::NONE };
        catalog.metrics.push((desc, name.into()));
        catalog.texts.push((TextTarget::Metric(pmid), TextKind::OneLine, help.to_owned()));
    }
}

const fn pmid(item: u32) -> Pmid {
    Pmid::from_raw(DOMAIN << 22 | OWN_CLUSTER << 10 | item)
}

#[cfg(test)]
mod tests {
    use pcp_archive::raw::event::EventArray;

    use super::*;

    fn timestamp() -> Timestamp {
        Timestamp::new(1_700_000_000, 500_000_000).unwrap()
    }

    /// The parameters of each record of a value, as text.
    fn parameters(events: &Events) -> Vec<Vec<(u32, String)>> {
        let mut catalog = Catalog::default();
        declare(&mut catalog, false);
        let sets = events.value_sets(timestamp(), &catalog).unwrap();
        assert_eq!(sets.len(), METRICS.len(), "pmlogextract needs to see all of them");
        let values = sets[0].values.clone().unwrap();
        let array = EventArray::unpack(values[0].1.as_value()).unwrap();
        let mut records = Vec::new();
        for record in array.records() {
            if let Some(missed) = record.missed() {
                records.push(vec![(0, missed.to_string())]);
                continue;
            }
            let parameters = record.parameters().map(|(pmid, value)| {
                let text = match value {
                    Value::String(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
                    Value::U32(number) => number.to_string(),
                    Value::U64(number) => number.to_string(),
                    other => panic!("{other:?}"),
                };
                (pmid.item(), text)
            });
            records.push(parameters.collect());
        }
        records
    }

    #[test]
    fn an_event_has_only_its_known_parameters() {
        let mut events = Events::default();
        events.push(Event {
            file: Some("app".into()),
            reason: Some("it is bad".into()),
            pid: Some(7),
            values: Some(8),
            records: Some(9),
            since: Some(timestamp()),
            ..Event::new(EventKind::Quarantined, timestamp())
        });
        events.push(Event::new(EventKind::Stopped, timestamp()));
        events.missed = 3;
        let whole = ["quarantined", "app", "it is bad", "7", "8", "9", "2023-11-14T22:13:20.5Z"];
        let whole = (KIND..).zip(whole).map(|(item, text)| (item, text.to_owned())).collect();
        let expected = [whole, vec![(KIND, "stopped".to_owned())], vec![(0, "3".to_owned())]];
        assert_eq!(parameters(&events), expected);
    }

    #[test]
    fn from_2038_on_events_have_times_of_64_bits() {
        let late = Timestamp::new(2_147_483_648, 5).unwrap();
        assert!(have_long_times(late) && !have_long_times(timestamp()));
        let mut events = Events::default();
        events.push(Event::new(EventKind::Stopped, late));
        events.missed = 2;
        let value = |is_long: bool| {
            let mut catalog = Catalog::default();
            declare(&mut catalog, is_long);
            events.value_sets(late, &catalog).map(|sets| sets[0].values.clone().unwrap())
        };
        assert!(matches!(value(false), Err(EncodeError::TimeRange { .. })));
        let value = value(true).unwrap();
        let array = EventArray::unpack(value[0].1.as_value()).unwrap();
        let found: Vec<_> =
            array.records().map(|record| (record.timestamp(), record.missed())).collect();
        assert!(array.is_highres());
        assert_eq!(found, [(late, None), (late, Some(2))]);
    }

    #[test]
    fn texts_from_files_are_cut_and_free_of_control_characters() {
        assert_eq!(printable("a\nb\x1b[2J\u{202e}"), "a?b?[2J?");
        let long = printable(&"\u{20ac}".repeat(100));
        assert_eq!(long.len(), 255);
    }

    #[test]
    fn more_than_can_wait_are_counted() {
        let mut events = Events::default();
        (0..Events::MAX_WAITING + 5)
            .for_each(|_| events.push(Event::new(EventKind::Grew, timestamp())));
        let mut more = Events { missed: 2, ..Events::default() };
        more.push(Event::new(EventKind::Grew, timestamp()));
        events.add(&more);
        assert_eq!((events.list.len(), events.missed), (Events::MAX_WAITING, 8));
    }

    #[test]
    fn pmids_are_of_the_cluster_that_no_file_can_have() {
        assert_eq!(pmid(EVENTS), Pmid::new(70, 0, 1001).unwrap());
    }

    #[test]
    fn names_are_in_the_order_of_the_kinds() {
        let kinds = [
            (EventKind::Appeared, "appeared"),
            (EventKind::Restarted, "restarted"),
            (EventKind::Grew, "grew"),
            (EventKind::Ended, "ended"),
            (EventKind::Vanished, "vanished"),
            (EventKind::Quarantined, "quarantined"),
            (EventKind::Waiting, "waiting"),
            (EventKind::Recovered, "recovered"),
            (EventKind::Dropped, "dropped"),
            (EventKind::Lost, "lost"),
            (EventKind::Gap, "gap"),
            (EventKind::Started, "started"),
            (EventKind::Stopped, "stopped"),
            (EventKind::Removed, "removed"),
            (EventKind::LeftOut, "left-out"),
        ];
        assert_eq!(kinds.len(), EventKind::NAMES.len());
        for (kind, name) in kinds {
            assert_eq!(kind.name(), name);
        }
    }
}

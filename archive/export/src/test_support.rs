//! Small archives to export.

use std::path::Path;

use pcp_archive::event::{EventArrayBuilder, EventFlags};
use pcp_archive::programs::{DOMAIN, events_metric, items};
use pcp_archive::{
    ArchiveWriter, FetchResult, InstanceId, MetricDesc, OwnedValue, Pmid, Semantics, Timestamp,
    Units, Value, ValueSet, ValueType, WriterLabel, WriterOptions,
};

/// The time of a second of the tests.
pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::new(1_700_000_000 + second, 0).unwrap()
}

/// A counter without instances.
pub(crate) fn counter(item: u32) -> MetricDesc {
    MetricDesc {
        pmid: Pmid::new(70, 1, item).unwrap(),
        value_type: ValueType::U64,
        indom: None,
        semantics: Semantics::Counter,
        units: Units::count(),
    }
}

pub(crate) fn begin(base: &Path) -> ArchiveWriter {
    let label = WriterLabel {
        pid: 1,
        hostname: "web1".into(),
        timezone: "UTC".into(),
        zoneinfo: "".into(),
    };
    ArchiveWriter::create(base, label, WriterOptions::default()).unwrap()
}

/// The value of a metric without instances.
pub(crate) fn single(desc: &MetricDesc, value: u64) -> ValueSet {
    ValueSet { pmid: desc.pmid, values: Ok(vec![(None, OwnedValue::U64(value))]) }
}

/// The values of instances.
pub(crate) fn of_each(desc: &MetricDesc, values: &[(i32, u64)]) -> ValueSet {
    let value =
        |(id, value): &(i32, u64)| (Some(InstanceId::new(*id).unwrap()), OwnedValue::U64(*value));
    ValueSet { pmid: desc.pmid, values: Ok(values.iter().map(value).collect()) }
}

pub(crate) fn write(writer: &mut ArchiveWriter, second: i64, value_sets: Vec<ValueSet>) {
    writer.write_result(&FetchResult { timestamp: at(second), value_sets }).unwrap();
}

/// An archive of one record.
pub(crate) fn small(base: &Path, second: i64) {
    let mut writer = begin(base);
    writer.declare_metric(&counter(1), &["mmv.shop.orders"]).unwrap();
    write(&mut writer, second, vec![single(&counter(1), 1)]);
    writer.finish().unwrap();
}

/// The agent's events.
pub(crate) struct Events;

impl Events {
    pub(crate) fn declare(writer: &mut ArchiveWriter) -> Self {
        let parameter = |item| Pmid::new(DOMAIN, 0, item).unwrap();
        let string = MetricDesc {
            pmid: parameter(items::KIND),
            value_type: ValueType::String,
            indom: None,
            semantics: Semantics::Discrete,
            units: Units::NONE,
        };
        let (pmid, value_type) = (events_metric(), ValueType::Event);
        let array = MetricDesc { pmid, value_type, ..string };
        let file = MetricDesc { pmid: parameter(items::FILE), ..string };
        writer.declare_metric(&array, &["mmv.agent.events"]).unwrap();
        writer.declare_metric(&string, &["mmv.agent.event.type"]).unwrap();
        writer.declare_metric(&file, &["mmv.agent.event.file"]).unwrap();
        Self
    }

    /// Something that happened to a file, `micros` after the start of the tests.
    #[expect(clippy::unused_self, reason = "there are none without their metrics")]
    pub(crate) fn value(&self, kind: &str, file: &str, micros: i64) -> ValueSet {
        let mut builder = EventArrayBuilder::new();
        let timestamp = Timestamp::from_nanos(at(0).as_nanos() + i128::from(micros) * 1_000);
        builder.record(timestamp, EventFlags::POINT).unwrap();
        for (item, text) in [(items::KIND, kind), (items::FILE, file)] {
            let pmid = Pmid::new(DOMAIN, 0, item).unwrap();
            builder.parameter(pmid, Value::String(text.as_bytes())).unwrap();
        }
        ValueSet { pmid: events_metric(), values: Ok(vec![(None, builder.finish())]) }
    }
}

//! Small archives to export.

use std::path::Path;

use pcp_archive::internal::programs::{DOMAIN, events_metric, items};
use pcp_archive::raw::event::{EventArrayBuilder, EventFlags};
use pcp_archive::{Pmid, Timestamp, Value};
use test_archives::{Builder, Cell, at};

pub(crate) fn begin(base: &Path) -> Builder {
    Builder::of_host("web1", base)
}

pub(crate) fn small(base: &Path, second: i32) {
    let builder = begin(base).metric("mmv.shop.orders", "u64 counter count");
    builder.row(second, [("mmv.shop.orders", 1)]).finish();
}

pub(crate) fn with_events(builder: Builder) -> Builder {
    let parameter = |item| Pmid::new(DOMAIN, 0, item).unwrap();
    builder
        .metric_with(events_metric(), "mmv.agent.events", "event discrete")
        .metric_with(parameter(items::KIND), "mmv.agent.event.type", "string discrete")
        .metric_with(parameter(items::FILE), "mmv.agent.event.file", "string discrete")
}

pub(crate) fn event(kind: &str, micros: i64) -> [(&'static str, Cell); 1] {
    let mut builder = EventArrayBuilder::new();
    let timestamp = Timestamp::from_nanos(at(0).as_nanos() + i128::from(micros) * 1_000);
    builder.record(timestamp, EventFlags::POINT).unwrap();
    for (item, text) in [(items::KIND, kind), (items::FILE, "shop")] {
        let pmid = Pmid::new(DOMAIN, 0, item).unwrap();
        builder.parameter(pmid, Value::String(text.as_bytes())).unwrap();
    }
    [("mmv.agent.events", builder.finish().into())]
}

//! The header of a page: archives, metrics and events, without values.

use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use pcp_archive::envelope::GoOn;
use pcp_archive::internal::programs::{ProgramEvent, events_name};
use pcp_archive::raw::{TextKind, TextTarget};
use pcp_archive::scan::{Column, Columns, SelectedMetric, Selection};
use pcp_archive::{Error, InDom, InstanceId, Metadata, Pmid, Timestamp};
use serde::Serialize;

use super::sides::{Side, Sides};
use crate::columns;
use crate::order::SeriesOrder;
use crate::time::{Window, Zone, to_jiff};

/// Limit on the events that are drawn for each side.
const MAX_EVENTS: usize = 10_000;
/// Limit on the changes of the zone's offset that the page knows.
const MAX_CHANGES: usize = 200;

/// The header of a page: everything except for values.
#[derive(Debug, Serialize)]
pub(crate) struct Header {
    pub(crate) sides: Vec<SideHeader>,
    /// Seconds since 1970, as all times.
    pub(crate) start: f64,
    pub(crate) end: f64,
    /// From each time on, the offset of the clock and its name.
    pub(crate) zone: Vec<(f64, i64, String)>,
    /// The metrics of all sides. Metrics of several sides with the same name and units are one.
    pub(crate) metrics: Vec<Metric>,
}

/// An archive, or a timeline of several.
#[derive(Debug, Serialize)]
pub(crate) struct SideHeader {
    name: String,
    host: String,
    /// The seconds from its own times to those of the page.
    shift: f64,
}

/// A metric, in all sides that have it.
#[derive(Debug, Serialize)]
pub(crate) struct Metric {
    pub(crate) name: String,
    help: String,
    units: String,
    rate_units: Option<String>,
    semantics: String,
    /// For each side its PMID there.
    of: Vec<Option<u32>>,
}

#[derive(Debug, Serialize)]
pub(crate) struct PageEvent {
    side: usize,
    time: f64,
    kind: String,
    file: Option<String>,
    cluster: Option<u32>,
    pid: Option<u32>,
    reason: Option<String>,
}

impl Header {
    /// Creates the header of the selected metrics in a window.
    pub(crate) fn new(
        sides: &Sides,
        selections: &[Selection<'_>],
        window: Window,
        zone: &Zone,
    ) -> Self {
        let headers = sides.iter().map(|side| SideHeader {
            name: side.name.clone(),
            host: side.source().label().hostname.to_string(),
            shift: side.shift() as f64 / 1e9,
        });
        Self {
            sides: headers.collect(),
            start: seconds(window.start),
            end: seconds(window.end),
            zone: changes(zone, window),
            metrics: metrics(selections),
        }
    }
}

/// Returns the metrics of all sides, in the order in which a page shows them.
fn metrics(selections: &[Selection<'_>]) -> Vec<Metric> {
    let mut all: Vec<Metric> = Vec::new();
    let mut ranks = Vec::new();
    let mut known = HashMap::new();
    for (side, selection) in selections.iter().enumerate() {
        let mut order = SeriesOrder::new(selection.source().metadata());
        for metric in selection.metrics() {
            let new = described(selection, metric, selections.len());
            // What differs in its units or meaning is another metric.
            let key = (
                new.name.clone(),
                new.units.clone(),
                new.rate_units.clone(),
                new.semantics.clone(),
            );
            let place = *known.entry(key).or_insert(all.len());
            if place == all.len() {
                ranks.push(order.key(metric, None, false));
                all.push(new);
            }
            if let Some(of) = all.get_mut(place).and_then(|one| one.of.get_mut(side)) {
                *of = Some(metric.desc.pmid.raw());
            }
        }
    }
    let mut ranked: Vec<_> = ranks.into_iter().zip(all).collect();
    ranked.sort_by(|(one, _), (other, _)| one.cmp(other));
    ranked.into_iter().map(|(_, metric)| metric).collect()
}

fn described(selection: &Selection<'_>, metric: &SelectedMetric, sides: usize) -> Metric {
    Metric {
        name: metric.name.clone(),
        help: help_text(selection.source().metadata(), metric.desc.pmid),
        units: columns::units(metric, false),
        rate_units: metric.has_rates().then(|| columns::units(metric, true)),
        semantics: metric.desc.semantics.to_string(),
        of: vec![None; sides],
    }
}

/// Returns the help text of a metric, the long one if it has both.
pub(super) fn help_text(metadata: &Metadata, pmid: Pmid) -> String {
    let target = TextTarget::Metric(pmid);
    let text = |kind| metadata.text(target, kind).map(ToString::to_string);
    text(TextKind::Full).or_else(|| text(TextKind::OneLine)).unwrap_or_default()
}

/// The names of instances, looked up once for each domain.
#[derive(Debug, Default)]
pub(crate) struct Names {
    by_indom: HashMap<InDom, HashMap<InstanceId, Arc<str>>>,
}

impl Names {
    /// Returns the name of an instance of a metric of one source.
    pub(crate) fn instance_name(
        &mut self,
        selection: &Selection<'_>,
        metric: &SelectedMetric,
        instance: Option<InstanceId>,
    ) -> Option<Arc<str>> {
        let (indom, instance) = metric.desc.indom.zip(instance)?;
        let metadata = selection.source().metadata();
        let names =
            self.by_indom.entry(indom).or_insert_with(|| columns::instance_names(metadata, indom));
        names.get(&instance).cloned()
    }
}

/// Returns the events of a side in a window of the page; `None` if `go_on` ended it.
///
/// # Errors
///
/// Those of the scan.
pub(crate) fn events(
    place: usize,
    side: &Side,
    window: Window,
    go_on: GoOn<'_>,
) -> Result<Option<Vec<PageEvent>>, Error> {
    let own = side.own_window(window);
    // Times of events are cut to microseconds: those of the first record are before it.
    let own = own.start.saturating_sub(Duration::from_micros(1))..=own.end;
    let mut found = Vec::new();
    let Some(name) = events_name(side.source()) else { return Ok(Some(found)) };
    let mut selection = Selection::new(side.source());
    selection.select(&name);
    let mut columns = Columns::open(&selection, own.clone())?;
    while let Some(chunk) = columns.next_chunk()? {
        if !go_on() {
            return Ok(None);
        }
        for (_, value) in chunk.columns(0).iter().flat_map(Column::iter) {
            let events = ProgramEvent::all(value);
            let events = events.iter().filter(|event| own.contains(&event.at));
            found.extend(events.take(MAX_EVENTS - found.len()).map(|event| PageEvent {
                side: place,
                time: seconds(side.on_page(event.at)),
                kind: event.kind.to_owned(),
                file: event.file.map(ToOwned::to_owned),
                cluster: event.cluster,
                pid: event.pid,
                reason: event.reason.map(ToOwned::to_owned),
            }));
        }
    }
    Ok(Some(found))
}

/// Returns the offset of the clock in seconds and its name: from each time on.
fn changes(zone: &Zone, window: Window) -> Vec<(f64, i64, String)> {
    let at = |time| (seconds(time), zone.offset(time), zone.strftime(time, "%Z"));
    let mut all = vec![at(window.start)];
    if let Some(start) = to_jiff(window.start) {
        let later = zone.time_zone().following(start).take(MAX_CHANGES);
        let later = later.filter_map(|change| {
            let nanos = change.timestamp().as_nanosecond();
            Some(Timestamp::from_nanos(nanos)).filter(|time| *time <= window.end)
        });
        all.extend(later.map(at));
    }
    all
}

/// Seconds since 1970, to the microsecond.
pub(crate) fn seconds(timestamp: Timestamp) -> f64 {
    timestamp.as_nanos() as f64 / 1e9
}

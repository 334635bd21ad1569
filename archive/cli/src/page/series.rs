//! Series of an envelope as a page knows them.

use std::sync::Arc;

use pcp_archive::InstanceId;
use pcp_archive::envelope::{Cell, Envelope, Series};
use pcp_archive::scan::Selection;
use serde::Serialize;

use super::header::{Names, seconds};
use super::sides::Side;

/// The identity of a series, and its columns from the first with a value to the last.
#[derive(Debug, Serialize)]
pub(crate) struct SeriesHeader {
    side: usize,
    pmid: u32,
    instance: Option<Arc<str>>,
    rate: bool,
    /// The first column, and how many.
    pub(crate) first: u32,
    pub(crate) count: u32,
}

/// The PMIDs and names of instances of an envelope's metrics, by their indexes in its selection.
#[derive(Debug)]
pub(crate) struct EnvelopeNames {
    side: usize,
    /// The nanoseconds from the side's times to those of the page.
    shift: i128,
    pmids: Vec<u32>,
    /// The names of the instances of the series, in their order.
    names: Vec<(usize, Option<InstanceId>, Option<Arc<str>>)>,
}

impl EnvelopeNames {
    /// Looks up the metrics of a selection, and the instances that the envelope has of them.
    pub(crate) fn new(
        place: usize,
        side: &Side,
        selection: &Selection<'_>,
        envelope: &Envelope,
    ) -> Self {
        let metrics = selection.metrics();
        let mut names = Names::default();
        let names = envelope.series.iter().map(|series| {
            let metric = metrics.get(series.metric);
            let name =
                metric.and_then(|metric| names.instance_name(selection, metric, series.instance));
            (series.metric, series.instance, name)
        });
        let names = names.collect();
        let pmids = metrics.iter().map(|metric| metric.desc.pmid.raw()).collect();
        Self { side: place, shift: side.shift(), pmids, names }
    }

    /// Returns the header of a series; `None` for one without a value.
    pub(crate) fn place(&self, series: &Series) -> Option<SeriesHeader> {
        let first = series.runs.first()?.columns.start;
        let count = series.runs.last()?.columns.end - first;
        let key = (series.metric, series.instance);
        let known = self.names.binary_search_by_key(&key, |(metric, id, _)| (*metric, *id)).ok()?;
        let (_, _, instance) = self.names.get(known)?;
        Some(SeriesHeader {
            side: self.side,
            pmid: *self.pmids.get(series.metric)?,
            instance: instance.clone(),
            rate: series.is_rate,
            first,
            count,
        })
    }

    /// Returns the side and the time of each mark.
    pub(crate) fn marks(&self, envelope: &Envelope) -> impl Iterator<Item = (usize, f64)> {
        let side = self.side;
        let shift = self.shift;
        envelope.marks.iter().map(move |mark| (side, seconds(*mark) + shift as f64 / 1e9))
    }
}

const HAS_VALUES: u8 = 1;
const IS_JOINED: u8 = 2;
const IS_OBSERVED: u8 = 4;

pub(crate) fn flags(cell: Option<&Cell>) -> u8 {
    let Some(cell) = cell else { return 0 };
    let is_observed = if cell.count > 0 { IS_OBSERVED } else { 0 };
    let is_joined = if cell.joined { IS_JOINED } else { 0 };
    HAS_VALUES | is_joined | is_observed
}

/// Returns whether a cell is on an axis: infinity is on none.
pub(crate) fn is_drawn(cell: &Cell) -> bool {
    cell.minimum.is_finite() && cell.maximum.is_finite()
}

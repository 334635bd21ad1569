//! Heat maps of the counts of histograms.

use std::collections::BTreeMap;
use std::time::Duration;

use hashbrown::HashSet;
use pcp_archive::envelope::GoOn;
use pcp_archive::replay::{
    Gaps, HistogramCounts, HistogramValue, Replay, SuccessiveHistogram, times,
};
use pcp_archive::scan::Selection;
use pcp_archive::{Error, InstanceId, Pmid, Timestamp};
use serde::Serialize;

use super::header::{help_text, seconds};
use super::sides::Side;
use crate::columns;
use crate::time::Window;

const MAX_COLUMNS: u128 = 256;
/// Minimum number of intervals between observations in a part of the window that is read to find
/// their length.
const ENOUGH: u32 = 4;
const MAX_MAPS: usize = 200;

/// A histogram over time.
#[derive(Debug, Serialize)]
pub(crate) struct Heat {
    pub(crate) side: usize,
    pub(crate) name: String,
    pub(crate) instance: Option<String>,
    pub(crate) units: String,
    help: String,
    /// The time at which the first column begins.
    start: f64,
    /// The seconds of a column.
    step: f64,
    /// The bounds of each bucket, ascending.
    buckets: Vec<[f64; 2]>,
    /// Column, bucket, how many values.
    cells: Vec<(usize, usize, f64)>,
}

#[derive(Debug, Clone)]
pub(crate) struct Histogram {
    /// The name of the metric that counts values by bucket.
    counts: String,
    /// The PMID by which a page requests it.
    pub(crate) pmid: Pmid,
    pub(crate) name: String,
    pub(crate) units: String,
    pub(crate) help: String,
    /// The buckets that labels select; `None` for all.
    buckets: Option<HashSet<InstanceId>>,
    /// `None` alone for one without instances.
    pub(crate) instances: Vec<Option<InstanceId>>,
}

/// Takes the metrics of histograms out of a selection.
///
/// # Errors
///
/// Those of [`Replay::open`] for a selection of nothing.
pub(crate) fn take_histograms(selection: &mut Selection<'_>) -> Result<Vec<Histogram>, Error> {
    let source = selection.source();
    let mut found = Vec::new();
    let mut parts = HashSet::new();
    for metric in selection.metrics() {
        let median = [HistogramValue::Quantile(0.5)];
        let Some(histogram) = SuccessiveHistogram::new(source.metadata(), metric, &median) else {
            continue;
        };
        let Some(quantile) = histogram.metrics().next() else { continue };
        parts.extend(histogram.parts());
        let mut replay = Replay::open(source);
        let buckets = selection.labelled_instances(metric.desc.pmid);
        replay.select_limited(&metric.name, buckets);
        replay.quantiles(&[0.5]);
        let replay = replay.load_spans(&[])?;
        let name = quantile.name.rsplit_once(".p").map_or(&*quantile.name, |(name, _)| name);
        found.push(Histogram {
            counts: metric.name.clone(),
            pmid: metric.desc.pmid,
            name: name.to_owned(),
            units: quantile.desc.units.to_string(),
            help: help_text(source.metadata(), metric.desc.pmid),
            buckets: buckets.cloned(),
            instances: replay.instances(0).collect(),
        });
    }
    selection.retain(|metric| !parts.contains(&metric.desc.pmid));
    Ok(found)
}

#[derive(Clone, Copy)]
pub(crate) struct Reading<'r> {
    pub(crate) gaps: Gaps,
    /// Number of parts in which the window is read: more parts need less memory.
    pub(crate) parts: u32,
    /// Asked before each part.
    pub(crate) go_on: GoOn<'r>,
}

/// Returns a map for each instance that counted anything in a window of the page; `None` if `go_on`
/// ended it.
///
/// # Errors
///
/// Those of the reader.
pub(crate) fn maps(
    place: usize,
    side: &Side,
    histograms: &[Histogram],
    window: Window,
    reading: Reading<'_>,
) -> Result<Option<Vec<Heat>>, Error> {
    let own = side.own_window(window);
    let load = |from: Timestamp, to: Timestamp| {
        if !(reading.go_on)() {
            return Ok(None);
        }
        let mut selection = Replay::open(side.source()).gaps(reading.gaps).read_on();
        for histogram in histograms {
            selection.select_limited(&histogram.counts, histogram.buckets.as_ref());
        }
        selection.quantiles(&[0.5]);
        selection.load_spans(&[from..=to]).map(Some)
    };
    let end = own.end.min(side.source().end());
    if end <= own.start {
        return Ok(Some(Vec::new()));
    }
    let span = end.nanos_since(own.start).unsigned_abs();
    let least = duration(span.div_ceil(MAX_COLUMNS));
    let part = duration(span / u128::from(reading.parts.max(1))).max(Duration::from_nanos(1));
    // A part in which a program was not there has few observations, or those around it.
    let mut whole = None;
    let mut logged = None;
    for from in times(own.start..=end, part).take(reading.parts.max(1) as usize) {
        let Some(read) = load(from, from.saturating_add(part).min(end))? else { return Ok(None) };
        logged = [logged, read.typical_interval()].into_iter().flatten().min();
        whole = Some(read).filter(|_| reading.parts <= 1);
        if logged.is_some_and(|logged| logged.saturating_mul(ENOUGH) <= part) {
            break;
        }
    }
    let step = logged.map_or(least, |logged| logged.max(least)).min(duration(span));
    // The last one may be shorter.
    let starts: Vec<Timestamp> = times(own.start..=end, step).filter(|at| *at < end).collect();
    let columns: Vec<Column> =
        starts.iter().map(|at| (*at, at.saturating_add(step).min(end))).collect();
    let in_part = columns.len().div_ceil(reading.parts.max(1) as usize).max(1);
    let mut counted = InstanceCells::default();
    for (number, columns) in columns.chunks(in_part).enumerate() {
        let [Some((from, _)), Some((_, to))] = [columns.first(), columns.last()] else { continue };
        if let Some(whole) = &whole {
            counted.add(whole, columns, 0);
        } else {
            let Some(part) = load(*from, *to)? else { return Ok(None) };
            counted.add(&part, columns, number * in_part);
        }
    }
    Ok(Some(counted.maps(place, side, histograms, window.start, step)))
}

/// The beginning and the end of a column.
type Column = (Timestamp, Timestamp);

/// A count of a bucket: the column, the bounds of the bucket, and the count.
type Cell = (usize, [f64; 2], f64);

/// Counts of buckets, by histogram and instance.
#[derive(Default)]
struct InstanceCells {
    cells: BTreeMap<(usize, Option<InstanceId>), Vec<Cell>>,
}

impl InstanceCells {
    fn add(&mut self, replay: &Replay<'_>, columns: &[Column], first: usize) {
        let histograms = (0..replay.metrics().len()).filter(|n| replay.histogram_of(*n).is_some());
        for (number, place) in histograms.enumerate() {
            for (column, (since, at)) in columns.iter().enumerate() {
                let counts = replay.bucket_counts(place, *since, *at);
                for HistogramCounts { instance, buckets, .. } in counts {
                    let cells = self.cells.entry((number, instance)).or_default();
                    cells.extend(buckets.into_iter().map(|bucket| {
                        (first + column, [bucket.first, bucket.last + 1.0], bucket.count)
                    }));
                }
            }
        }
    }

    fn maps(
        self,
        place: usize,
        side: &Side,
        histograms: &[Histogram],
        start: Timestamp,
        step: Duration,
    ) -> Vec<Heat> {
        let mut maps = Vec::new();
        for ((number, instance), cells) in self.cells.into_iter().take(MAX_MAPS) {
            let Some(histogram) = histograms.get(number) else { continue };
            let mut buckets: Vec<[f64; 2]> = cells.iter().map(|(_, bucket, _)| *bucket).collect();
            buckets.sort_by(|one, other| one[0].total_cmp(&other[0]));
            buckets.dedup();
            let cells = cells.iter().map(|(column, bucket, count)| {
                let place = buckets.partition_point(|one| one[0] < bucket[0]);
                (*column, place, *count)
            });
            let cells: Vec<_> = cells.collect();
            maps.push(Heat {
                side: place,
                name: histogram.name.clone(),
                instance: histogram.instance_name(side, instance),
                units: histogram.units.clone(),
                help: histogram.help.clone(),
                start: seconds(start),
                step: step.as_secs_f64(),
                cells,
                buckets,
            });
        }
        maps.retain(|map| !map.cells.is_empty());
        maps
    }
}

impl Histogram {
    /// Returns the name of one of its instances.
    pub(crate) fn instance_name(
        &self,
        side: &Side,
        instance: Option<InstanceId>,
    ) -> Option<String> {
        let metadata = side.source().metadata();
        let sum = metadata.metric_by_name(&format!("{}.sum", self.name))?;
        let names = columns::instance_names(metadata, sum.desc.indom?);
        names.get(&instance?).map(ToString::to_string)
    }
}

fn duration(nanos: u128) -> Duration {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

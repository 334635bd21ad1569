//! The histograms of a summary: what each counted in the window as a whole.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use pcp_archive::replay::{self, BucketCount, Gaps, HistogramCounts, HistogramValue, Replay};
use pcp_archive::scan::Selection;
use pcp_archive::scan::histogram::HistogramLayout;
use pcp_archive::summary::MetricSummary;
use pcp_archive::{InstanceId, Metadata, Timestamp, Units};

use super::Line;
use crate::columns::{WantedUnits, conversion_to};
use crate::options::histograms::NamedSeries;
use crate::{Failure, columns};

/// The longest part of a window whose counts are read at once, which bounds the memory.
const MAX_PART: Duration = Duration::from_secs(3600);

#[derive(Default)]
pub(super) struct Histograms {
    histograms: Vec<Histogram>,
}

/// One histogram, or those of a metric with labels.
struct Histogram {
    /// The rate, under the name of the histogram.
    rate: MetricSummary,
    units: Units,
    instances: BTreeMap<Option<InstanceId>, InstanceBuckets>,
}

#[derive(Default)]
struct InstanceBuckets {
    /// By the bits of the least value of each bucket, whose order is that of the values, which are
    /// not negative.
    buckets: BTreeMap<u64, BucketCount>,
    /// The time in which it was observed.
    seconds: f64,
}

/// The numbers of a histogram in a line of the summary.
pub(super) struct CountedValues {
    pub(super) count: f64,
    /// Values per second.
    pub(super) rate: f64,
    /// One for each quantile; `None` if nothing was counted.
    pub(super) quantiles: Vec<Option<f64>>,
    /// The units of the quantiles as they were logged.
    pub(super) units: Units,
    /// The units of `--units` that the quantiles are in.
    pub(super) converted_to: Option<String>,
}

impl CountedValues {
    pub(super) fn convert(&mut self, wanted: &[WantedUnits]) {
        let Some((conversion, text)) = conversion_to(self.units, wanted) else { return };
        for quantile in self.quantiles.iter_mut().flatten() {
            *quantile = conversion.apply(*quantile);
        }
        self.converted_to = Some(text.to_owned());
    }

    pub(super) fn units_text(&self) -> String {
        self.converted_to.clone().unwrap_or_else(|| self.units.to_string())
    }
}

impl Histograms {
    /// Reads what the histograms in a selection counted in a span, and removes the metrics that they
    /// consist of from the selection. Unless `is_forced`, counters of buckets that are named stay.
    pub(super) fn take(
        selection: &mut Selection<'_>,
        named: NamedSeries<'_>,
        is_forced: bool,
        gaps: Gaps,
        span: &RangeInclusive<Timestamp>,
    ) -> Result<Self, Failure> {
        let metadata = selection.source().metadata();
        let mut replay = Replay::open(selection.source()).gaps(gaps).read_on();
        let mut parts = Vec::new();
        for metric in selection.metrics() {
            let is_chosen = is_forced || named.selects_histogram(metadata, metric);
            let layout = HistogramLayout::find(metadata, &metric.name, &metric.desc);
            if let Some(layout) = layout.filter(|_| is_chosen) {
                let pmid = metric.desc.pmid;
                replay.select_limited(&metric.name, selection.instances(metric).as_deref());
                parts.push(pmid);
                parts.extend(layout.sum());
            }
        }
        if parts.is_empty() {
            return Ok(Self::default());
        }
        selection.retain(|metric| !parts.contains(&metric.desc.pmid));
        // A quantile has the counts of buckets.
        replay.histograms(&[HistogramValue::Rate, HistogramValue::Maximum], |_| true);
        Self::read(replay, span)
    }

    /// Reads the counts of a span, part by part.
    fn read(
        selection: replay::ReplaySelection<'_>,
        span: &RangeInclusive<Timestamp>,
    ) -> Result<Self, Failure> {
        let metrics: Vec<_> = selection.derived().cloned().collect();
        let mut histograms = Vec::new();
        for pair in metrics.chunks(2) {
            let [rate, quantile] = pair else { continue };
            let metric = rate.clone();
            let units = metric.desc.units;
            let rate = MetricSummary { metric, units, instances: Vec::new() };
            let units = quantile.desc.units;
            histograms.push(Histogram { rate, units, instances: BTreeMap::new() });
        }
        let nanos = span.end().nanos_since(*span.start()).max(1).unsigned_abs();
        let parts = nanos.div_ceil(MAX_PART.as_nanos());
        let part = Duration::from_nanos(u64::try_from(nanos / parts).unwrap_or(u64::MAX));
        let others = u64::try_from((parts - 1) * part.as_nanos()).unwrap_or(u64::MAX);
        let first = span.end().saturating_sub(Duration::from_nanos(others));
        let mut window = selection.window(first..=*span.end(), part, part)?;
        window.for_each(
            |replay, span| {
                let times = replay::times(span, part);
                Ok::<_, Failure>(times.map(|at| counts(replay, at, part)).collect::<Vec<_>>())
            },
            |parts| {
                for part in parts {
                    for (histogram, counts) in histograms.iter_mut().zip(part) {
                        histogram.add(counts);
                    }
                }
                Ok(())
            },
        )?;
        Ok(Self { histograms })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.histograms.is_empty()
    }

    pub(super) fn lines(&self, metadata: &Metadata, ranks: &[f64]) -> Vec<Line<'_>> {
        let mut lines = Vec::new();
        for histogram in &self.histograms {
            let metric = &histogram.rate;
            let indom = metric.metric.desc.indom;
            let names = indom.map(|indom| columns::instance_names(metadata, indom));
            for (instance, counted) in &histogram.instances {
                lines.push(Line {
                    metric,
                    instance: *instance,
                    number: columns::number_in_records(metadata, indom, *instance),
                    name: names
                        .as_ref()
                        .zip(*instance)
                        .and_then(|(names, id)| names.get(&id).cloned()),
                    statistics: None,
                    histogram: Some(counted.values(ranks, histogram.units)),
                    converted_to: None,
                });
            }
        }
        lines
    }
}

/// Returns what each histogram counted in the part before a moment.
fn counts(replay: &Replay<'_>, at: Timestamp, part: Duration) -> Vec<Vec<HistogramCounts>> {
    let since = at.saturating_sub(part);
    // A histogram has two metrics, of which the second is a quantile.
    let quantiles = (1..replay.metrics().len()).step_by(2);
    quantiles.map(|place| replay.bucket_counts(place, since, at)).collect()
}

impl Histogram {
    fn add(&mut self, counts: Vec<HistogramCounts>) {
        for part in counts {
            if part.seconds <= 0.0 {
                continue;
            }
            let counted = self.instances.entry(part.instance).or_default();
            counted.seconds += part.seconds;
            for bucket in part.buckets {
                let known = counted.buckets.entry(bucket.first.to_bits());
                known.and_modify(|known| known.count += bucket.count).or_insert(bucket);
            }
        }
    }
}

impl InstanceBuckets {
    fn values(&self, ranks: &[f64], units: Units) -> CountedValues {
        let buckets: Vec<BucketCount> = self.buckets.values().copied().collect();
        let count: f64 = buckets.iter().map(|bucket| bucket.count).sum();
        let rate = if self.seconds > 0.0 { count / self.seconds } else { 0.0 };
        let quantiles = ranks.iter().map(|rank| BucketCount::quantile(&buckets, *rank)).collect();
        CountedValues { count, rate, quantiles, units, converted_to: None }
    }
}

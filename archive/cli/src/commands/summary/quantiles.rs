//! The quantiles of a window in a summary.

use std::ops::RangeInclusive;

use pcp_archive::replay::Replay;
use pcp_archive::summary::MetricSummary;
use pcp_archive::{InstanceId, Metadata, Timestamp};

use super::Line;
use crate::columns;

/// The quantiles of all histograms.
#[derive(Default)]
pub(super) struct Quantiles {
    metrics: Vec<(MetricSummary, Values)>,
}

/// The quantile of each instance.
type Values = Vec<(Option<InstanceId>, f64)>;

impl Quantiles {
    /// Returns the quantiles of what was counted in a span.
    pub(super) fn new(replay: &Replay<'_>, span: &RangeInclusive<Timestamp>) -> Self {
        let sample = replay.at_since(*span.end(), *span.start());
        let quantiles = replay.metrics().enumerate().filter_map(|(place, metric)| {
            replay.histogram_of(place)?;
            let values = sample.as_ref().and_then(|sample| sample.values.get(place));
            let numbers = values.into_iter().flatten();
            let numbers =
                numbers.filter_map(|(instance, value)| Some((*instance, value.as_f64()?)));
            let units = metric.desc.units;
            let summary = MetricSummary { metric: metric.clone(), units, instances: Vec::new() };
            Some((summary, numbers.collect()))
        });
        Self { metrics: quantiles.collect() }
    }

    /// Adds a line for each.
    pub(super) fn add_to<'s>(&'s self, metadata: &Metadata, lines: &mut Vec<Line<'s>>) {
        for (metric, values) in &self.metrics {
            let indom = metric.metric.desc.indom;
            let names = indom.map(|indom| columns::instance_names(metadata, indom));
            lines.extend(values.iter().map(|(instance, value)| Line {
                metric,
                instance: *instance,
                number: columns::number_in_records(metadata, indom, *instance),
                name: names.as_ref().zip(*instance).and_then(|(names, id)| names.get(&id).cloned()),
                statistics: None,
                quantile: Some(*value),
            }));
        }
    }
}

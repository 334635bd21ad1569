//! Quantiles of the histograms in an archive, over all of its time.

use pcp_archive::replay::{Replay, Sample};
use pcp_archive::{Archive, Timestamp, Value};
use pcp_types::printable;

use super::{instance_name, number};

/// A table of quantiles.
pub(super) struct QuantileTable {
    /// Common part of the metric names of each histogram.
    names: Vec<String>,
    /// The head, and a line for each histogram.
    lines: Vec<[String; 5]>,
}

impl QuantileTable {
    /// Computes the quantiles of the histograms below `prefix`, from their first value to their
    /// last one; `replay` and `samples` have the logged values. Histograms that counted nothing in
    /// that time have no quantiles and are left out.
    pub(super) fn new(
        archive: &Archive,
        prefix: &str,
        replay: &Replay<'_>,
        samples: &[Sample<'_>],
    ) -> pcp_archive::Result<Self> {
        let head = ["histogram", "instance", "p50", "p99", "unit"].map(str::to_owned);
        let mut table = Self { names: Vec::new(), lines: vec![head] };
        let mut selection = Replay::open(archive);
        selection.select(prefix);
        if selection.quantiles(&[0.5, 0.99]) == 0 {
            return Ok(table);
        }
        let histograms = selection.load()?;
        for (place, metric) in histograms.metrics().enumerate() {
            let Some(name) = metric.name.strip_suffix(".p50") else { continue };
            let wanted = format!("{name}.p99");
            let high = histograms.metrics().position(|metric| metric.name == wanted);
            let found =
                span(name, replay, samples).and_then(|(since, at)| histograms.rates_at(at, since));
            let Some((high, found)) = high.zip(found) else { continue };
            let values = |place: usize| found.values.get(place).into_iter().flatten();
            let shown = |value: &Value<'_>| value.as_f64().map_or_else(String::new, number);
            // Both have the same instances.
            for ((instance, median), (_, high)) in values(place).zip(values(high)) {
                let instance = instance_name(archive, metric.desc.indom, *instance);
                let units = metric.desc.units.to_string();
                table.lines.push([
                    printable::line(name).into_owned(),
                    instance,
                    shown(median),
                    shown(high),
                    units,
                ]);
                table.names.push(name.to_owned());
            }
        }
        Ok(table)
    }

    /// Returns true if a metric is a part of a histogram in the table.
    pub(super) fn replace(&self, metric: &str) -> bool {
        self.names.iter().any(|name| is_part(metric, name))
    }

    /// Returns the lines with their head, if there is any.
    pub(super) fn lines(&self) -> Option<&[[String; 5]]> {
        (!self.names.is_empty()).then_some(&self.lines)
    }
}

/// Returns true if a metric has the buckets or the sum of a histogram.
fn is_part(metric: &str, histogram: &str) -> bool {
    metric.strip_prefix(histogram).is_some_and(|part| matches!(part, "" | ".bucket" | ".sum"))
}

/// Returns the times of the first and the last values of a histogram.
fn span(
    histogram: &str,
    replay: &Replay<'_>,
    samples: &[Sample<'_>],
) -> Option<(Timestamp, Timestamp)> {
    let parts = replay.metrics().enumerate().filter(|(_, metric)| is_part(&metric.name, histogram));
    let parts: Vec<usize> = parts.map(|(place, _)| place).collect();
    let mut times = samples
        .iter()
        .filter(|sample| {
            let mut values = parts.iter().filter_map(|&place| sample.values.get(place));
            values.any(|values| !values.is_empty())
        })
        .map(|sample| sample.timestamp);
    let first = times.next()?;
    Some((first, times.next_back()?))
}

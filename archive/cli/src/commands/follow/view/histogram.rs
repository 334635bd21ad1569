//! The columns of a histogram's quantiles.

use pcp_archive::replay::{SuccessiveQuantiles, SuccessiveRates};
use pcp_archive::{Metadata, Pmid, Value};

use super::{Cell, Choice, Live, ShownMetric};
use crate::columns::Scale;

/// A histogram of which quantiles are shown.
pub(super) struct Histogram {
    pub(super) quantiles: SuccessiveQuantiles,
    /// The quantiles as metrics, in their order.
    shown: Vec<ShownMetric>,
}

impl Histogram {
    /// Returns the histogram that a metric is a part of, if its counter of buckets is selected.
    pub(super) fn with_part(choice: &Choice<'_>, pmid: Pmid, metadata: &Metadata) -> Option<Self> {
        let names = metadata.metric(pmid)?.names.iter();
        let counts = names.flat_map(|name| match name.strip_suffix(".sum") {
            Some(name) => vec![format!("{name}.bucket"), name.to_owned()],
            None => vec![name.to_string()],
        });
        let mut histograms = counts.filter_map(|name| {
            let counts = metadata.metric_by_name(&name)?.desc.pmid;
            let metric = choice.shown(counts, metadata)?.metric;
            let quantiles = SuccessiveQuantiles::new(metadata, &metric, choice.quantiles)?;
            let shown = quantiles.metrics().map(|metric| {
                let mut scale = Scale::new(metric, false, &choice.units);
                if choice.scaled {
                    scale = scale.scaled(metric);
                }
                scale.is_computed = true;
                ShownMetric::new(metric.clone(), scale)
            });
            Some(Self { shown: shown.collect(), quantiles })
        });
        histograms.find(|histogram| histogram.quantiles.parts().any(|part| part == pmid))
    }

    /// Ends what the histogram counted, where a mark or an event says so.
    pub(super) fn interrupt(&mut self, rates: &SuccessiveRates) {
        let interruption =
            self.quantiles.metrics().next().and_then(|metric| rates.interruption(metric));
        if let Some(from_zero) = interruption {
            self.quantiles.interrupt(from_zero);
        }
    }

    /// Returns the quantiles of the record; adds columns of new instances.
    pub(super) fn cells(
        &mut self,
        choice: &Choice<'_>,
        metadata: &Metadata,
        columns: &mut Vec<Live>,
    ) -> Vec<Cell> {
        self.quantiles.update(metadata);
        let mut cells = Vec::new();
        for (shown, values) in self.shown.iter_mut().zip(self.quantiles.end_record()) {
            for (instance, value) in values {
                let Some(place) = shown.column_index(instance, choice, metadata, columns) else {
                    continue;
                };
                let value = value.map(|value| shown.scale.apply(Value::Double(value)).to_owned());
                cells.push((place, value));
            }
        }
        cells
    }
}

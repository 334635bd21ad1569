//! The columns of a histogram.

use pcp_archive::replay::{SuccessiveHistogram, SuccessiveRates};
use pcp_archive::{Metadata, Pmid, Timestamp, Value};

use super::{Cell, Choice, Live, ShownMetric};
use crate::columns::Scale;

/// A histogram that is shown as itself.
pub(super) struct Histogram {
    pub(super) numbers: SuccessiveHistogram,
    /// The numbers as metrics, in their order.
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
            let numbers = SuccessiveHistogram::new(metadata, &metric, &choice.histogram_values)?;
            let shown = numbers.metrics().map(|metric| {
                let mut scale = Scale::new(metric, false, &choice.units);
                if choice.scaled {
                    scale = scale.scaled(metric);
                }
                scale.is_computed = true;
                scale.time = None;
                ShownMetric::new(metric.clone(), scale)
            });
            Some(Self { shown: shown.collect(), numbers })
        });
        histograms.find(|histogram| histogram.numbers.parts().any(|part| part == pmid))
    }

    /// Ends what the histogram counted, where a mark or an event says so.
    pub(super) fn interrupt(&mut self, rates: &SuccessiveRates) {
        let interruption =
            self.numbers.metrics().next().and_then(|metric| rates.interruption(metric));
        if let Some(from_zero) = interruption {
            self.numbers.interrupt(from_zero);
        }
    }

    /// Returns the numbers of the record of a time; adds columns of new instances.
    pub(super) fn cells(
        &mut self,
        at: Timestamp,
        choice: &Choice<'_>,
        metadata: &Metadata,
        columns: &mut Vec<Live>,
    ) -> Vec<Cell> {
        self.numbers.update(metadata);
        let mut cells = Vec::new();
        for (shown, values) in self.shown.iter_mut().zip(self.numbers.end_record(at)) {
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

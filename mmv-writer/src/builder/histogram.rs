//! Histograms: metrics on a domain of buckets.

use pcp_types::Units;

use super::MetricBuilder;
use crate::metric::histogram::Cells;
use crate::metric::static_metric::RegisteredHistogram;
use crate::metric::{Buckets, Counter, Histogram, OwnedHistogram};
use crate::registration::{IndomSpec, MetricSpec, SerialChoice, serial_of};
use crate::registry::Indom;
use crate::{Error, Label, Registry};

/// Returns the domain of these buckets that histograms share. The first one registers it, with the
/// labels that describe the buckets.
fn bucket_indom(registry: &Registry, buckets: Buckets) -> Result<Indom, Error> {
    let mut known = registry.shared_indoms().buckets();
    if let Some((_, indom)) = known.iter().find(|(others, _)| *others == buckets) {
        return Ok(indom.clone());
    }
    let mut spec = IndomSpec::new("buckets".to_owned());
    // Buckets have the numbers of their positions, so other buckets are another domain.
    let precision = buckets.precision();
    let max = buckets.max();
    spec.serial = SerialChoice::From(serial_of(&format!("buckets {precision} {max}")));
    spec.help.short = Some("ranges of values, first..last".to_owned());
    spec.add_numbered((0..buckets.count()).filter_map(|index| buckets.name(index)));
    // Two labels, as PCP takes an object apart and loses its name.
    spec.labels =
        vec![Label::new("bucket_precision", u64::from(precision)), Label::new("bucket_max", max)];
    let indom = registry.add_indom(spec)?;
    known.push((buckets, indom.clone()));
    Ok(indom)
}

/// The two metrics that a histogram is registered as.
pub(crate) struct HistogramSpecs {
    /// `NAME.bucket`, the number of values in each bucket.
    pub(crate) counts: MetricSpec,
    /// `NAME.sum`, the sum of the values, in their units.
    pub(crate) sum: MetricSpec,
}

impl HistogramSpecs {
    pub(crate) fn new(spec: MetricSpec) -> Self {
        let mut sum = spec.clone();
        sum.name = format!("{}.sum", spec.name);
        sum.item = None;
        sum.labels = Vec::new();
        let mut counts = spec;
        counts.name = format!("{}.bucket", counts.name);
        counts.labels.push(Label::new("histogram", counts.units.to_string()));
        counts.units = Units::count();
        Self { counts, sum }
    }
}

/// A histogram to be registered; see [`Registry::histogram`].
#[derive(Debug)]
#[must_use = "a histogram is registered by build()"]
pub struct HistogramBuilder<'r> {
    pub(crate) metric: MetricBuilder<'r, Counter>,
    buckets: Option<Buckets>,
}

impl<'r> HistogramBuilder<'r> {
    pub(crate) fn new(metric: MetricBuilder<'r, Counter>) -> Self {
        Self { metric, buckets: None }
    }

    /// Sets the units of the values; without this, a plain number.
    pub fn units(mut self, units: Units) -> Self {
        self.metric = self.metric.units(units);
        self
    }

    /// Sets the one-line help text, at most 255 bytes.
    pub fn help(mut self, text: impl Into<String>) -> Self {
        self.metric = self.metric.help(text);
        self
    }

    /// Sets the long help text, at most 255 bytes.
    pub fn long_help(mut self, text: impl Into<String>) -> Self {
        self.metric = self.metric.long_help(text);
        self
    }

    /// Attaches a label to the metric that counts values by bucket.
    pub fn label(mut self, label: Label) -> Self {
        self.metric = self.metric.label(label);
        self
    }

    /// Gives each bucket a cache line of its own, as [`MetricBuilder::isolated`].
    pub fn isolated(mut self) -> Self {
        self.metric = self.metric.isolated();
        self
    }

    /// Sets the buckets; without this, [`Buckets::for_units`].
    pub fn buckets(mut self, buckets: Buckets) -> Self {
        self.buckets = Some(buckets);
        self
    }

    /// Registers the histogram: the metric `NAME.bucket`, which counts values by bucket and has
    /// a label `histogram` with their units, and the metric `NAME.sum`. Histograms with the
    /// same buckets share their names in the file: 312 bytes for the first histogram's, then 32 for
    /// each bucket. The file gets the
    /// [sentinel flag](crate::pcp::RegistryBuilderExt::sentinel), as a bucket that was never hit has
    /// no value.
    ///
    /// # Errors
    ///
    /// The errors of [`MetricBuilder::build`].
    pub fn build(self) -> Result<Histogram, Error> {
        Ok(Histogram::from_cells(self.cells()?))
    }

    /// Registers a histogram with a single writer, for which recording is much cheaper.
    ///
    /// # Errors
    ///
    /// The errors of [`build`](Self::build).
    pub fn build_owned(self) -> Result<OwnedHistogram, Error> {
        Ok(OwnedHistogram::new(self.cells()?))
    }

    pub(crate) fn into_parts(self) -> (MetricBuilder<'r, Counter>, Buckets) {
        let buckets = self.buckets.unwrap_or(Buckets::for_units(self.metric.spec.units));
        (self.metric, buckets)
    }

    fn cells(self) -> Result<Cells, Error> {
        let units = self.metric.spec.units;
        let RegisteredHistogram { buckets, counts, sum } = self.register()?;
        Ok(Cells::new(buckets, counts, sum, units))
    }

    pub(crate) fn register(self) -> Result<RegisteredHistogram, Error> {
        let MetricBuilder { registry, spec, .. } = self.metric;
        let buckets = self.buckets.unwrap_or(Buckets::for_units(spec.units));
        let indom = bucket_indom(registry, buckets)?;
        let HistogramSpecs { mut counts, sum } = HistogramSpecs::new(spec);
        counts.optional = true;
        let (counts, sum) = registry.add_histogram(counts, sum, &indom)?;
        Ok(RegisteredHistogram { buckets, counts, sum: sum.cell })
    }
}

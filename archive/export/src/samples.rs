//! Samples of Prometheus: doubles in base units, with times in milliseconds.
//!
//! In: the [steps](Step) of a [walk](crate::walk). Out: [samples](Sample) in the order of the
//! archive, with rising times for each series. `docs/export-mapping.md` has the rules:
//!
//! | in the archive | sample |
//! |---|---|
//! | a value | a value, divided into base units |
//! | the end of a series, a mark | a [stale marker](stale_value) |
//! | an event of the agent: the program started | 0 at that time for counters and histograms |
//! | an instance that a running program creates | 0 at the time of the values before it |
//! | an instance with another number | the same series |
//! | buckets and their sum | cumulative buckets, sum and count; or a [native histogram](HistogramForm) |
//! | two records in one millisecond | the second one a millisecond later |
//!
//! A walk that resumes replays earlier steps to rebuild its state. The caller converts them too and
//! discards their output; what follows is identical to an uninterrupted run.

mod buckets;
mod histogram;
mod table;

use std::sync::Arc;

use hashbrown::HashMap;
use pcp_archive::{InstanceId, Semantics};

pub use buckets::{BucketBounds, BucketCounts};
#[cfg(any(feature = "push", feature = "serve"))]
pub(crate) use table::all_labels;
pub use table::{FamilyPart, SampleSeries, SampleSeriesId};

use crate::mapping::{FamilyId, Kind, Label, Role, Scale};
use crate::shared_values::{SharedValues, fit, put};
use crate::walk::{Catalog, Change, Number, SeriesId, Step, StepKind};
use histogram::Histogram;
use table::Table;

/// The form in which histograms are exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum HistogramForm {
    /// A series for each bucket, with cumulative counts
    #[default]
    Classic,
    /// One native histogram with the buckets of the archive; by remote write 2.0
    Custom,
    /// One native histogram with exponential buckets
    Exponential,
}

/// A value of a series at a time.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// The series.
    pub series: SampleSeriesId,
    /// Milliseconds since 1970 UTC.
    pub milliseconds: i64,
    /// The value, in base units; of a native histogram the sum of its values, NaN if it is not
    /// known.
    pub value: f64,
    /// The origin of the sample.
    pub kind: SampleKind,
    /// The place of the counts of a native histogram among those of the step.
    buckets: Option<u32>,
}

/// The origin of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SampleKind {
    /// A value of the archive.
    Value,
    /// The 0 of a counter whose program started, according to the agent's events, or created its
    /// instance.
    Zero,
    /// A stale marker: the series ends.
    Stale,
}

/// The samples of a step.
#[derive(Debug, Clone, Copy)]
pub struct ConvertedStep<'s> {
    /// New series, including those that reuse the number of another one.
    pub began: &'s [SampleSeriesId],
    /// The samples in order, with rising times for each series.
    pub samples: &'s [Sample],
    table: &'s Table,
}

impl<'s> ConvertedStep<'s> {
    /// Returns a series, as [`Samples::series`].
    pub fn series(&self, id: SampleSeriesId) -> Option<&'s SampleSeries> {
        self.table.get(id)
    }
}

/// Returns the value of a stale marker, a NaN with the bits that Prometheus defines.
pub const fn stale_value() -> f64 {
    f64::from_bits(0x7ff0_0000_0000_0002)
}

/// The destination of the values of a series of the archive.
#[derive(Debug, Clone, Copy)]
enum Target {
    Single {
        series: SampleSeriesId,
        scale: Scale,
        is_counter: bool,
    },
    Bucket {
        histogram: usize,
        bound: Option<f64>,
    },
    Sum {
        histogram: usize,
        scale: Scale,
    },
    /// A bucket whose bounds are not known.
    Nothing,
}

/// The name and labels by which receivers identify a series.
type SampleIdentity = (Arc<str>, Arc<[Label]>);

/// A series of the archive that ended in the current step.
#[derive(Debug)]
struct EndedSeries {
    id: SeriesId,
    target: Target,
    /// Milliseconds since 1970 UTC.
    at: i64,
}

/// Converts the steps of one walk.
#[derive(Debug, Default)]
pub struct Samples {
    table: Table,
    /// Targets by the numbers of the walk's series, with the generation of the series.
    targets: Vec<Option<(u64, Target)>>,
    histograms: Vec<Histogram>,
    by_instance: HashMap<(FamilyId, Option<InstanceId>), usize>,
    /// Series that ended in this step.
    ended: Vec<EndedSeries>,
    /// Places in `ended` by name and labels, built by the first look-up.
    ended_places: Option<HashMap<SampleIdentity, usize>>,
    /// Whether an archive ended with the last step.
    is_over: bool,
    names: SharedValues<str>,
    form: HistogramForm,
}

impl Samples {
    /// Creates a converter for all steps of a walk.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the form of histograms, which is classic otherwise. It must precede all steps.
    #[must_use]
    pub const fn with_histograms(mut self, form: HistogramForm) -> Self {
        self.form = form;
        self
    }

    /// Returns the counts of a native histogram that is a sample of the last step; `None` of a
    /// stale marker and of other samples.
    pub fn bucket_counts(&self, sample: &Sample) -> Option<&Arc<BucketCounts>> {
        self.table.buckets.get(sample.buckets? as usize)
    }

    /// Returns a series that was in [`ConvertedStep::began`], until the step after the end of its
    /// archive.
    pub fn series(&self, id: SampleSeriesId) -> Option<&SampleSeries> {
        self.table.get(id)
    }

    /// Releases memory that is only needed while steps are converted.
    pub fn rest(&mut self) {
        self.table.rest();
        fit(&mut self.targets);
        self.ended = Vec::new();
    }

    /// Converts a step to samples.
    pub fn convert(&mut self, step: &Step<'_>) -> ConvertedStep<'_> {
        let milliseconds = step.timestamp.div_euclid(1_000_000);
        self.begin(milliseconds);
        // Sums first: histograms take their labels.
        for is_sum in [true, false] {
            for change in step.changes {
                match *change {
                    Change::Began { series, from_zero } => {
                        if is_sum == is_of_sum(series, step.catalog) {
                            self.begin_series(series, from_zero, milliseconds, step.catalog);
                        }
                    }
                    Change::Ended { series, at } if is_sum => {
                        self.end_series(series, at.div_euclid(1_000_000));
                    }
                    Change::Ended { .. } => {}
                }
            }
        }
        for observation in step.observations {
            self.observe(observation.series, observation.value, milliseconds);
        }
        for histogram in self.histograms.iter_mut().filter(|one| one.is_touched) {
            histogram.send(milliseconds, &mut self.table);
        }
        for EndedSeries { target, at, .. } in self.ended.drain(..) {
            match target {
                Target::Single { series, .. } => self.table.stale(series, at),
                Target::Bucket { histogram, .. } | Target::Sum { histogram, .. } => {
                    if let Some(one) =
                        self.histograms.get_mut(histogram).filter(|one| one.live == 0)
                    {
                        one.end(at, &mut self.table);
                    }
                }
                Target::Nothing => {}
            }
        }
        self.ended_places = None;
        self.is_over = step.kind == StepKind::EndOfArchive;
        let table = &self.table;
        ConvertedStep { began: &table.began, samples: &table.samples, table }
    }

    fn begin(&mut self, milliseconds: i64) {
        self.table.begin(milliseconds);
        if std::mem::take(&mut self.is_over) {
            self.table.clear();
            self.targets.clear();
            self.histograms.clear();
            self.by_instance.clear();
        }
    }

    fn begin_series(
        &mut self,
        id: SeriesId,
        from_zero: Option<i64>,
        milliseconds: i64,
        catalog: &Catalog,
    ) {
        let Some(series) = catalog.series(id) else { return };
        let target = match self.targets.get(id.index()).and_then(Option::as_ref) {
            Some((generation, target)) if *generation == series.generation => *target,
            earlier => {
                if let Some((_, Target::Single { series, .. })) = earlier {
                    let series = *series;
                    // The series that had this number has ended.
                    self.table.stale(series, milliseconds);
                    self.table.remove(series);
                }
                let target = self.target(series, catalog);
                put(&mut self.targets, id.index(), Some((series.generation, target)));
                target
            }
        };
        match target {
            Target::Single { series: sent, is_counter, .. } => {
                self.table.set_start(sent, series.start);
                if let Some(began) = from_zero.filter(|_| is_counter) {
                    self.table.zero(sent, began.div_euclid(1_000_000), milliseconds);
                }
            }
            Target::Bucket { histogram, .. } | Target::Sum { histogram, .. } => {
                if let Some(one) = self.histograms.get_mut(histogram) {
                    // A histogram that counts already has new buckets from time to time.
                    if one.live == 0 || one.is_new {
                        one.is_new = true;
                        one.from_zero = one.from_zero.or(from_zero);
                    }
                    one.live += 1;
                    one.start = series.start;
                }
            }
            Target::Nothing => {}
        }
    }

    fn end_series(&mut self, id: SeriesId, at: i64) {
        let Some((_, target)) = self.targets.get(id.index()).and_then(Option::as_ref) else {
            return;
        };
        let target = *target;
        if let Target::Bucket { histogram, .. } | Target::Sum { histogram, .. } = target
            && let Some(one) = self.histograms.get_mut(histogram)
        {
            one.live = one.live.saturating_sub(1);
            if let Target::Bucket { bound, .. } = target {
                one.empty_bucket(bound);
            }
        }
        self.ended.push(EndedSeries { id, target, at });
    }

    fn observe(&mut self, id: SeriesId, number: Number, milliseconds: i64) {
        let Some((_, target)) = self.targets.get(id.index()).and_then(Option::as_ref) else {
            return;
        };
        let value = number.as_f64();
        match *target {
            Target::Single { series, scale, .. } => {
                self.table.value(series, milliseconds, scale.apply(value));
            }
            Target::Bucket { histogram, bound } => {
                if let Some(histogram) = self.histograms.get_mut(histogram) {
                    histogram.set_bucket(bound, value, &mut self.table);
                }
            }
            Target::Sum { histogram, scale } => {
                if let Some(histogram) = self.histograms.get_mut(histogram) {
                    histogram.set_sum(scale.apply(value), &mut self.table);
                }
            }
            Target::Nothing => {}
        }
    }

    /// Returns the destination of the values of a series, creating it.
    fn target(&mut self, series: &crate::walk::Series, catalog: &Catalog) -> Target {
        let mapping = catalog.mapping();
        let (Role::Family(id) | Role::Buckets(id) | Role::Sum(id)) = series.role else {
            return Target::Nothing;
        };
        let Some(family) = mapping.family(id) else { return Target::Nothing };
        match series.role {
            Role::Buckets(_) => {
                let layout = mapping.layout(id);
                let bucket = layout.zip(series.identity).and_then(|(layout, id)| layout.bucket(id));
                let Some(bucket) = bucket else { return Target::Nothing };
                let histogram = self
                    .histogram(id, family, bucket.histogram, || without_instance(&series.labels));
                if let Some(histogram) = self.histograms.get_mut(histogram) {
                    histogram.add_bucket(&bucket, family);
                }
                Target::Bucket {
                    histogram,
                    bound: bucket.last.map(|last| family.scale.apply(last)),
                }
            }
            Role::Sum(_) => {
                let histogram =
                    self.histogram(id, family, series.identity, || Arc::clone(&series.labels));
                Target::Sum { histogram, scale: family.scale }
            }
            _ => {
                let is_counter = family.kind == Kind::Counter;
                let desc = catalog.metric(series.pmid).map(|(_, desc)| desc);
                let new = SampleSeries {
                    name: self.names.share(family.sample_name().into()),
                    labels: Arc::clone(&series.labels),
                    family: id,
                    part: FamilyPart::Value,
                    is_discrete: desc.is_some_and(|desc| desc.semantics == Semantics::Discrete),
                    start: series.start,
                };
                let series = self.take_ended(&new).unwrap_or_else(|| self.table.add(new));
                Target::Single { series, scale: family.scale, is_counter }
            }
        }
    }

    /// Takes over the samples of a series that has ended in this step and had the same name and
    /// labels: the number of its instance has changed, which receivers do not see.
    fn take_ended(&mut self, new: &SampleSeries) -> Option<SampleSeriesId> {
        if self.ended.is_empty() {
            return None;
        }
        let places = self.ended_places.get_or_insert_with(|| {
            let mut places = HashMap::new();
            for (place, ended) in self.ended.iter().enumerate() {
                if let Target::Single { series, .. } = ended.target
                    && let Some(known) = self.table.get(series)
                {
                    places.insert((Arc::clone(&known.name), Arc::clone(&known.labels)), place);
                }
            }
            places
        });
        let place = places.remove(&(Arc::clone(&new.name), Arc::clone(&new.labels)))?;
        let ended = self.ended.get_mut(place)?;
        if let Some(target) = self.targets.get_mut(ended.id.index()) {
            *target = None;
        }
        match std::mem::replace(&mut ended.target, Target::Nothing) {
            Target::Single { series, .. } => Some(series),
            _ => None,
        }
    }

    fn histogram(
        &mut self,
        id: FamilyId,
        family: &crate::mapping::Family,
        instance: Option<InstanceId>,
        labels: impl FnOnce() -> Arc<[Label]>,
    ) -> usize {
        let form = self.form;
        let table = &mut self.table;
        let histograms = &mut self.histograms;
        *self.by_instance.entry((id, instance)).or_insert_with(|| {
            histograms.push(Histogram::new(form, id, family, labels(), table));
            histograms.len() - 1
        })
    }
}

fn is_of_sum(id: SeriesId, catalog: &Catalog) -> bool {
    catalog.series(id).is_some_and(|series| matches!(series.role, Role::Sum(_)))
}

/// Returns the labels of the histogram that a bucket with these labels belongs to.
fn without_instance(labels: &[Label]) -> Arc<[Label]> {
    let mut all = labels.to_vec();
    all.retain(|label| !matches!(&*label.name, "instname" | "instid"));
    all.into()
}

/// Adds a label, keeping labels sorted by name.
fn named(labels: &[Label], name: &str, value: &str) -> Arc<[Label]> {
    let mut all = labels.to_vec();
    let at = all.partition_point(|label| &*label.name < name);
    all.insert(at, Label { name: name.into(), value: value.into() });
    all.into()
}

/// Formats a bound in the canonical form of `OpenMetrics`: always with a point or an exponent, so
/// that equal bounds have equal text.
fn bound_text(bound: f64) -> String {
    let text = float_text(bound);
    if bound.is_finite() && !text.contains(['.', 'e']) { format!("{text}.0") } else { text }
}

/// Formats a double in the shortest form that parses to the same number, with an exponent if that
/// is below -4 or above 20, as Go does.
pub fn float_text(value: f64) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "+Inf".to_owned() } else { "-Inf".to_owned() };
    }
    if value.is_nan() {
        return "NaN".to_owned();
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if value == 0.0 || (-4..21).contains(&exponent) {
        return value.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests;

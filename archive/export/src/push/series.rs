//! The series of samples that wait to be sent.
//!
//! A [`SampleSeriesId`] may be reused for another series while samples of the earlier one still
//! wait; numbers of this table are not reused until [`forget`](SeriesTable::forget).

use std::sync::Arc;

#[cfg(feature = "otlp")]
use hashbrown::HashMap;
use slab::Slab;

use super::Protocol;
use super::labels;
use crate::mapping::Kind;
#[cfg(feature = "otlp")]
use crate::mapping::Label;
use crate::samples::{
    BucketCounts, FamilyPart, Sample, SampleKind, SampleSeries, SampleSeriesId, Samples, all_labels,
};
use crate::shared_values::{SharedValues, fit, put};
use crate::walk::Catalog;

/// A sample that waits to be sent.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Point {
    pub(super) series: u32,
    /// The time since 1970 UTC.
    pub(super) milliseconds: i64,
    /// The value; of a native histogram the sum of its values.
    pub(super) value: f64,
    /// The time at which the program began to count, in milliseconds since 1970 UTC; 0 if it is
    /// unknown or not sent.
    pub(super) start: i64,
    /// The counts of a native histogram.
    pub(super) buckets: Option<Arc<BucketCounts>>,
}

/// A series with the form that it has in requests.
#[derive(Debug, Clone)]
pub(super) struct Series {
    pub(super) of: SampleSeries,
    /// Counter, gauge or histogram.
    pub(super) kind: Kind,
    /// The name of its family, without the suffixes of samples.
    #[cfg(feature = "otlp")]
    pub(super) family: Arc<str>,
    /// The base unit, or empty.
    pub(super) unit: Arc<str>,
    /// The labels, encoded for a request of remote write 1.0.
    pub(super) encoded: Box<[u8]>,
    /// A number that the parts of one histogram share; unique for other series.
    #[cfg(feature = "otlp")]
    pub(super) group: u32,
}

impl Series {
    /// Returns whether its samples are native histograms.
    pub(super) const fn is_native(&self) -> bool {
        matches!(self.of.part, FamilyPart::CustomBuckets | FamilyPart::ExponentialBuckets)
    }

    /// Returns all labels, including that of the metric's name, sorted by name.
    pub(super) fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        all_labels(&self.of.name, &self.of.labels)
    }
}

impl std::fmt::Display for Series {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{{", self.of.name)?;
        for (place, label) in self.of.labels.iter().enumerate() {
            let comma = if place > 0 { "," } else { "" };
            write!(f, "{comma}{}={:?}", label.name, label.value)?;
        }
        write!(f, "}}")
    }
}

#[derive(Debug)]
pub(super) struct SeriesTable {
    protocol: Protocol,
    all: Slab<Series>,
    /// Numbers of series by the numbers of [`Samples`].
    current: Vec<Option<u32>>,
    /// Series that were replaced by others, of which samples may wait.
    replaced: Vec<u32>,
    /// The names of families and units.
    names: SharedValues<str>,
    /// The first series of each histogram, by family and labels.
    #[cfg(feature = "otlp")]
    histograms: HashMap<(Arc<str>, Vec<Label>), u32>,
}

impl SeriesTable {
    pub(super) fn new(protocol: Protocol) -> Self {
        Self {
            protocol,
            all: Slab::new(),
            current: Vec::new(),
            replaced: Vec::new(),
            names: SharedValues::default(),
            #[cfg(feature = "otlp")]
            histograms: HashMap::new(),
        }
    }

    pub(super) fn get(&self, number: u32) -> Option<&Series> {
        self.all.get(number as usize)
    }

    /// Returns a limit above all numbers of series.
    pub(super) fn limit(&self) -> usize {
        self.all.iter().next_back().map_or(0, |(last, _)| last + 1)
    }

    /// Adds the samples of a step to those that wait.
    pub(super) fn take(
        &mut self,
        began: &[SampleSeriesId],
        list: &[Sample],
        samples: &Samples,
        catalog: &Catalog,
        points: &mut Vec<Point>,
    ) {
        // A number can end one series and begin another in one step.
        for sample in list.iter().filter(|sample| sample.kind == SampleKind::Stale) {
            if began.contains(&sample.series) {
                self.push(sample, samples, points);
            }
        }
        for id in began {
            self.begin(*id, samples, catalog);
        }
        let replaces_zeros = self.protocol.replaces_zeros();
        for sample in list {
            let is_taken = sample.kind == SampleKind::Stale && began.contains(&sample.series);
            if is_taken || (replaces_zeros && sample.kind == SampleKind::Zero) {
                continue;
            }
            if replaces_zeros {
                self.follow_start(sample.series, samples, catalog);
            }
            self.push(sample, samples, points);
        }
    }

    /// Returns the start time of a sample of remote write 2.0 in milliseconds; 0 where it has none.
    fn start(&self, sample: &Sample, samples: &Samples) -> i64 {
        if self.protocol != Protocol::RemoteWrite2 || sample.kind != SampleKind::Value {
            return 0;
        }
        let known = self.current.get(sample.series.index()).copied().flatten();
        let kind = known.and_then(|number| self.get(number)).map(|series| series.kind);
        if kind == Some(Kind::Gauge) {
            return 0;
        }
        let start = samples.series(sample.series).and_then(|series| series.start);
        let milliseconds = start.map_or(0, |start| start.div_euclid(1_000_000));
        // Receivers refuse a start that is not before the sample.
        if milliseconds < sample.milliseconds { milliseconds } else { 0 }
    }

    fn push(&self, sample: &Sample, samples: &Samples, points: &mut Vec<Point>) {
        if let Some(Some(series)) = self.current.get(sample.series.index()) {
            points.push(Point {
                series: *series,
                milliseconds: sample.milliseconds,
                value: sample.value,
                start: self.start(sample, samples),
                buckets: samples.bucket_counts(sample).cloned(),
            });
        }
    }

    /// Replaces a series whose start has changed since its program restarted.
    fn follow_start(&mut self, id: SampleSeriesId, samples: &Samples, catalog: &Catalog) {
        let known = self.current.get(id.index()).copied().flatten().and_then(|one| self.get(one));
        let now = samples.series(id);
        if let (Some(known), Some(now)) = (known, now)
            && known.of.start != now.start
        {
            self.begin(id, samples, catalog);
        }
    }

    fn begin(&mut self, id: SampleSeriesId, samples: &Samples, catalog: &Catalog) {
        let Some(series) = samples.series(id) else { return };
        let Some(family) = catalog.mapping().family(series.family) else { return };
        // More than 2^32 do not fit into memory.
        let number = u32::try_from(self.all.vacant_key()).unwrap_or(u32::MAX);
        let mut made = Series {
            of: series.clone(),
            kind: family.kind,
            #[cfg(feature = "otlp")]
            family: self.names.share(family.name.as_str().into()),
            unit: self.names.share(family.unit.as_str().into()),
            encoded: Box::default(),
            #[cfg(feature = "otlp")]
            group: number,
        };
        match self.protocol {
            Protocol::RemoteWrite1 => made.encoded = labels::encoded(made.labels()),
            Protocol::RemoteWrite2 => {}
            #[cfg(feature = "otlp")]
            Protocol::Otlp => made.group = self.group(&made, number),
        }
        self.all.insert(made);
        self.replaced.extend(put(&mut self.current, id.index(), Some(number)));
    }

    #[cfg(feature = "otlp")]
    fn group(&mut self, series: &Series, number: u32) -> u32 {
        match series.of.part {
            FamilyPart::Bucket(_) | FamilyPart::Sum | FamilyPart::Count => {}
            FamilyPart::Value | FamilyPart::CustomBuckets | FamilyPart::ExponentialBuckets => {
                return number;
            }
        }
        let mut labels = series.of.labels.to_vec();
        labels.retain(|label| &*label.name != "le");
        *self.histograms.entry((Arc::clone(&series.family), labels)).or_insert(number)
    }

    /// Frees the numbers of replaced series. No samples may wait.
    pub(super) fn forget(&mut self) {
        for number in self.replaced.drain(..) {
            self.all.try_remove(number as usize);
        }
    }

    /// Releases spare memory.
    pub(super) fn shrink_to_fit(&mut self) {
        self.all.shrink_to_fit();
        fit(&mut self.current);
    }

    /// Ends all series at the end of an archive, where the numbers of [`Samples`] become invalid.
    pub(super) fn end_archive(&mut self) {
        self.replaced.extend(self.current.drain(..).flatten());
        #[cfg(feature = "otlp")]
        self.histograms.clear();
    }
}

//! Reads the samples of a query from the archives.

use std::cmp;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hashbrown::HashMap;
use pcp_archive::Timestamp;

use super::matcher::Matchers;
use crate::mapping::Label;
use crate::samples::{SampleSeries, SampleSeriesId, Samples, all_labels};
use crate::selection::MetricSelection;
use crate::shared_values::put;
use crate::text::warn;
use crate::tree::Host;
use crate::walk::{Start, Walk};

/// A series with its samples in a span of time.
#[derive(Debug)]
pub(super) struct SelectedSeries {
    pub(super) name: Arc<str>,
    /// The labels without the name, sorted by name.
    pub(super) labels: Arc<[Label]>,
    /// Times in milliseconds, which rise, and values.
    pub(super) samples: Vec<(i64, f64)>,
}

impl SelectedSeries {
    /// Compares series in the order in which Prometheus merges them: by all labels, one after the
    /// other.
    fn order(&self, other: &Self) -> cmp::Ordering {
        self.all_labels().cmp(other.all_labels())
    }

    /// Returns all labels with the name, sorted by name.
    pub(super) fn all_labels(&self) -> impl Iterator<Item = (&str, &str)> {
        all_labels(&self.name, &self.labels)
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum SelectError {
    /// It has more samples than are permitted.
    TooMany,
    /// The client has disconnected.
    Over,
}

/// A span of time, both ends included, in milliseconds since 1970 UTC.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) start: i64,
    pub(super) end: i64,
}

/// Reads the matching series of all hosts, in the order in which Prometheus merges them. Damaged
/// archives are reported on standard error; everything else is returned.
///
/// # Errors
///
/// [`SelectError::TooMany`] if there are more than `most` samples, [`SelectError::Over`] soon
/// after `is_over` is set.
pub(super) fn select(
    hosts: &[Host],
    selection: &MetricSelection,
    matchers: &Arc<Matchers>,
    span: Span,
    most: usize,
    is_over: &AtomicBool,
) -> Result<Vec<SelectedSeries>, SelectError> {
    let mut reading = SeriesReading {
        selection,
        matchers,
        span,
        most,
        is_over,
        all: Vec::new(),
        places: HashMap::new(),
        samples: 0,
    };
    for host in hosts {
        reading.read(host)?;
    }
    let mut all = reading.all;
    all.retain(|series| !series.samples.is_empty());
    for series in &mut all {
        // Directories with archives of the same host may overlap: the first one counts.
        if !series.samples.is_sorted_by_key(|(at, _)| *at) {
            series.samples.sort_by_key(|(at, _)| *at);
        }
        series.samples.dedup_by_key(|(at, _)| *at);
    }
    all.sort_by(SelectedSeries::order);
    Ok(all)
}

/// The series that were read so far.
struct SeriesReading<'q> {
    selection: &'q MetricSelection,
    matchers: &'q Arc<Matchers>,
    span: Span,
    most: usize,
    is_over: &'q AtomicBool,
    all: Vec<SelectedSeries>,
    places: HashMap<(Arc<str>, Arc<[Label]>), usize>,
    samples: usize,
}

impl SeriesReading<'_> {
    fn read(&mut self, host: &Host) -> Result<(), SelectError> {
        let nanos = i128::from(self.span.start) * 1_000_000;
        let start = Start::Time(Timestamp::from_nanos(nanos));
        let matchers = Arc::clone(self.matchers);
        let mut walk = match Walk::new(host.archives.clone(), start) {
            Ok(walk) => walk.only(move |family| matchers.may_match(family)).select(self.selection),
            Err(error) => {
                warn(&format_args!("{}: {error}", host.name));
                return Ok(());
            }
        };
        let mut samples = Samples::new();
        // The index in `all` by the number of the series; `None` if the series does not match.
        let mut places: Vec<Option<usize>> = Vec::new();
        loop {
            if self.is_over.load(Ordering::Relaxed) {
                return Err(SelectError::Over);
            }
            match walk.next() {
                Ok(None) => return Ok(()),
                Ok(Some(step)) => {
                    // A sample may be up to a millisecond after its record.
                    if step.timestamp.div_euclid(1_000_000) > self.span.end {
                        return Ok(());
                    }
                    let converted = samples.convert(&step);
                    for id in converted.began {
                        if let Some(series) = converted.series(*id) {
                            self.place(*id, series, &mut places);
                        }
                    }
                    for sample in converted.samples {
                        let place = places.get(sample.series.index()).copied().flatten();
                        let at = sample.milliseconds;
                        if let Some(series) = place.and_then(|place| self.all.get_mut(place))
                            && (self.span.start..=self.span.end).contains(&at)
                        {
                            series.samples.push((at, sample.value));
                            self.samples += 1;
                        }
                    }
                    if self.samples > self.most {
                        return Err(SelectError::TooMany);
                    }
                }
                Err(error) => {
                    warn(&format_args!("{}: {error}", host.name));
                    if walk.recover().is_none() {
                        return Ok(());
                    }
                }
            }
        }
    }

    fn place(
        &mut self,
        id: SampleSeriesId,
        series: &SampleSeries,
        places: &mut Vec<Option<usize>>,
    ) {
        let all = &mut self.all;
        let place = self.matchers.matches(&series.name, &series.labels).then(|| {
            let name = Arc::clone(&series.name);
            let labels = Arc::clone(&series.labels);
            let key = (Arc::clone(&name), Arc::clone(&labels));
            *self.places.entry(key).or_insert_with(|| {
                all.push(SelectedSeries { name, labels, samples: Vec::new() });
                all.len() - 1
            })
        });
        put(places, id.index(), place);
    }
}

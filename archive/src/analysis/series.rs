//! Values, rates or quantiles of one metric: the short form of [`replay`](super::replay).
//!
//! In comes a name and a window; out go points with time, instance and number. They are computed by
//! replay, so that they are those that `mmv-archive report` prints: an instance has the name that
//! was valid at its time, nothing continues over a mark or the end of a program's run, and where
//! nothing is known there is no point.

use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use pcp_types::parse_interval;

use super::replay::{Replay, ReplaySelection, Sample, times};
pub use crate::error::series::SeriesError;
use crate::{Archive, ArchiveSet, IndomHistory, InstanceId, Source, Timestamp};

/// Time between two points unless another is asked for, as in `mmv-archive report`.
const DEFAULT_INTERVAL: &str = "1s";

/// A question for a metric of an archive: which of its numbers, and how often.
///
/// Made by [`Archive::series`] and [`ArchiveSet::series`]; answered by [`last`](Self::last),
/// [`between`](Self::between) and [`all`](Self::all).
#[derive(Debug, Clone)]
#[must_use = "a question does nothing until a window is asked for"]
pub struct MetricSeries<'a> {
    source: Source<'a>,
    name: String,
    interval: String,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Values,
    Rates,
    Quantile(f64),
}

/// A number of one instance of a metric at a time.
#[derive(Debug, Clone, PartialEq)]
pub struct SeriesPoint {
    /// The end of the interval of a rate or quantile, or the time of the value.
    pub time: Timestamp,
    /// The name of the instance; `None` for a metric without instances.
    pub instance: Option<Arc<str>>,
    /// In [the units of the metric](crate::MetricDesc::units), a rate in these per second; a rate
    /// of a counter of time is a plain number, the utilisation.
    pub value: f64,
}

impl Archive {
    /// Begins a question for a metric by its name, which may have labels: `requests{code="500"}`.
    ///
    /// # Errors
    ///
    /// [`SeriesError::UnknownMetric`].
    pub fn series(&self, name: impl Into<String>) -> Result<MetricSeries<'_>, SeriesError> {
        MetricSeries::new(Source::from(self), name.into())
    }
}

impl ArchiveSet {
    /// Begins a question for a metric over all archives as one timeline; see
    /// [`Archive::series`].
    ///
    /// # Errors
    ///
    /// As [`Archive::series`].
    pub fn series(&self, name: impl Into<String>) -> Result<MetricSeries<'_>, SeriesError> {
        MetricSeries::new(Source::from(self), name.into())
    }
}

impl<'a> MetricSeries<'a> {
    fn new(source: Source<'a>, name: String) -> Result<Self, SeriesError> {
        // A histogram is a branch of several metrics.
        if name.is_empty() || Replay::open(source).select(&name) == 0 {
            let nearest = source.metadata().nearest_name(&name);
            return Err(SeriesError::UnknownMetric { name, nearest });
        }
        Ok(Self { source, name, interval: DEFAULT_INTERVAL.to_owned(), kind: Kind::Values })
    }

    /// Asks for rates of a counter, each over the interval before its time. Metrics that are no
    /// counters have their values.
    pub fn rates(mut self) -> Self {
        self.kind = Kind::Rates;
        self
    }

    /// Asks for a quantile of what a histogram counted in the interval before each time, from 0
    /// for the least value to 1 for the largest.
    pub fn quantile(mut self, quantile: f64) -> Self {
        self.kind = Kind::Quantile(quantile);
        self
    }

    /// Sets the time between two points, such as "1min"; "1s" by default.
    pub fn every(mut self, interval: impl Into<String>) -> Self {
        self.interval = interval.into();
        self
    }

    /// Returns the points of the last part of the archive, such as "5min", in the order of time and
    /// instance names. The first one is an interval after the start of that part. For a length that
    /// is a [`Duration`], ask [`between`](Self::between) `archive.end() - length` and
    /// `archive.end()`.
    ///
    /// # Errors
    ///
    /// [`SeriesError`].
    pub fn last(self, length: &str) -> Result<Vec<SeriesPoint>, SeriesError> {
        let end = self.source.end();
        let start = end.saturating_sub(positive_interval(length)?).max(self.source.start());
        let first = start.saturating_add(positive_interval(&self.interval)?).min(end);
        self.points(first, end)
    }

    /// Returns the points from `start` to `end`, both inclusive, as far as they are within the
    /// archive. Rates at `start` are those of the interval before it.
    ///
    /// # Errors
    ///
    /// As [`last`](Self::last).
    pub fn between(
        self,
        start: Timestamp,
        end: Timestamp,
    ) -> Result<Vec<SeriesPoint>, SeriesError> {
        let first = start.max(self.source.start());
        let last = end.min(self.source.end());
        self.points(first, last)
    }

    /// Returns the points from the start of the archive to its end.
    ///
    /// # Errors
    ///
    /// As [`last`](Self::last).
    pub fn all(self) -> Result<Vec<SeriesPoint>, SeriesError> {
        self.between(Timestamp::MIN, Timestamp::MAX)
    }

    fn selection(&self) -> Result<ReplaySelection<'a>, SeriesError> {
        let mut selection = Replay::open(self.source);
        selection.select(&self.name);
        if let Kind::Quantile(quantile) = self.kind
            && selection.quantiles(&[quantile]) == 0
        {
            return Err(SeriesError::NotHistogram { name: self.name.clone() });
        }
        Ok(selection)
    }

    /// Reads the window in batches, as a report does.
    fn points(self, first: Timestamp, last: Timestamp) -> Result<Vec<SeriesPoint>, SeriesError> {
        let step = positive_interval(&self.interval)?;
        let back = if self.kind == Kind::Values { Duration::ZERO } else { step };
        let mut window = self.selection()?.window(first..=last, step, back)?;
        let metrics: Vec<_> = window.replay().metrics().cloned().collect();
        let [metric] = metrics.as_slice() else {
            return Err(SeriesError::SeveralMetrics { name: self.name, count: metrics.len() });
        };
        if !metric.has_numbers() {
            return Err(SeriesError::NotNumbers { name: self.name });
        }
        let names = metric.desc.indom.map(|indom| {
            let history = self.source.metadata().identities(indom);
            let instances = history.map(IndomHistory::union).unwrap_or_default();
            instances.into_iter().map(|instance| (instance.id, instance.name.into())).collect()
        });
        let names: HashMap<InstanceId, Arc<str>> = names.unwrap_or_default();
        let mut points = Vec::new();
        while let Some(batch) = window.next_batch()? {
            for at in times(batch, step) {
                if let Some(sample) = self.sample(window.replay(), at, step) {
                    add_points(&sample, &names, &mut points);
                }
            }
        }
        Ok(points)
    }

    fn sample<'r>(
        &self,
        replay: &'r Replay<'_>,
        at: Timestamp,
        step: Duration,
    ) -> Option<Sample<'r>> {
        let since = at.saturating_sub(step);
        match self.kind {
            Kind::Rates => replay.rates_at(at, since),
            Kind::Values | Kind::Quantile(_) => replay.at_since(at, since),
        }
    }
}

/// Adds the values of a sample of one metric, by the names of the instances. An instance that no
/// record names is left out.
fn add_points(
    sample: &Sample<'_>,
    names: &HashMap<InstanceId, Arc<str>>,
    points: &mut Vec<SeriesPoint>,
) {
    let begin = points.len();
    for (instance, value) in sample.values.iter().flatten() {
        let name = instance.and_then(|instance| names.get(&instance)).cloned();
        if instance.is_some() && name.is_none() {
            continue;
        }
        let Some(value) = value.as_f64() else { continue };
        points.push(SeriesPoint { time: sample.timestamp, instance: name, value });
    }
    if let Some(added) = points.get_mut(begin..) {
        added.sort_by(|one, other| one.instance.cmp(&other.instance));
    }
}

fn positive_interval(text: &str) -> Result<Duration, SeriesError> {
    match parse_interval(text) {
        Ok(interval) if !interval.is_zero() => Ok(interval),
        _ => Err(SeriesError::Interval { text: text.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use test_archives::{Builder, TestArchive, at};

    use super::*;
    use crate::Error;

    fn shop() -> TestArchive {
        Builder::new()
            .metric("shop.orders", "u64 counter count")
            .metric("shop.queue", "u32 instant none")
            .instances("shop.orders", ["cart", "home"])
            .row(0, [("shop.orders[home]", 100), ("shop.orders[cart]", 0)])
            .row(10, [("shop.orders[home]", 200), ("shop.orders[cart]", 50), ("shop.queue", 7)])
            .mark(15)
            .row(20, [("shop.orders[home]", 300), ("shop.orders[cart]", 60)])
            .row(30, [("shop.orders[home]", 330), ("shop.orders[cart]", 70)])
            .finish()
    }

    fn texts(points: &[SeriesPoint]) -> Vec<String> {
        let texts = points.iter().map(|point| {
            let seconds = point.time.seconds_since(at(0));
            format!("{seconds} {} {}", point.instance.as_deref().unwrap_or("-"), point.value)
        });
        texts.collect()
    }

    #[test]
    fn rates_have_time_and_instance_name_and_do_not_bridge_marks() {
        let made = shop();
        let archive = Archive::open(made.base()).unwrap();
        let series = || archive.series("shop.orders").unwrap().rates().every("10s");
        let all = series().all().unwrap();
        assert_eq!(texts(&all), ["10 cart 5", "10 home 10", "30 cart 1", "30 home 3"]);
        assert_eq!(texts(&series().last("10s").unwrap()), ["30 cart 1", "30 home 3"]);
        let part = series().between(at(10), at(20)).unwrap();
        assert_eq!(texts(&part), ["10 cart 5", "10 home 10"]);
        let longer = series().last("1week").unwrap();
        assert_eq!(longer, all);
    }

    #[test]
    fn values_are_those_of_replay() {
        let made = shop();
        let set = ArchiveSet::open([made.base()]).unwrap();
        let queue = set.series("shop.queue").unwrap().between(at(10), at(12)).unwrap();
        assert_eq!(texts(&queue), ["10 - 7"]);
    }

    #[test]
    fn errors_of_questions_are_errors_of_the_crate() {
        let made = shop();
        let archive = Archive::open(made.base()).unwrap();
        let rates = |name: &str| -> crate::Result<Vec<SeriesPoint>> {
            Ok(archive.series(name)?.rates().last("10s")?)
        };
        assert!(rates("shop.orders").is_ok());
        let error = rates("shop.order").unwrap_err();
        assert!(matches!(error, Error::Series(_)));
        let text = "no metric shop.order; the nearest name is shop.orders";
        assert_eq!(error.to_string(), text);
        // As `main` prints it.
        assert_eq!(format!("{error:?}"), text);
        let no_data = Error::NoData { path: made.base().to_owned() };
        let error = Error::from(SeriesError::Archive(no_data));
        assert!(matches!(error, Error::NoData { .. }));
    }

    #[test]
    fn questions_without_an_answer_say_why() {
        let made = shop();
        let archive = Archive::open(made.base()).unwrap();
        let error = archive.series("shop.order").unwrap_err().to_string();
        assert_eq!(error, "no metric shop.order; the nearest name is shop.orders");
        assert!(archive.series("").is_err());
        let error = archive.series("shop").unwrap().all().unwrap_err().to_string();
        assert_eq!(error, "shop stands for 2 metrics; name one of them");
        let queue = || archive.series("shop.queue").unwrap();
        let error = queue().quantile(0.5).all().unwrap_err();
        assert!(matches!(error, SeriesError::NotHistogram { .. }));
        for interval in ["0", "soon"] {
            assert!(matches!(queue().last(interval), Err(SeriesError::Interval { .. })));
            let error = queue().every(interval).all().unwrap_err();
            assert!(matches!(error, SeriesError::Interval { .. }));
        }
    }
}

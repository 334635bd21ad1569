//! The metrics that were registered, and the registration of the next one.

use std::collections::HashMap;
use std::sync::Arc;

use metrics::{Key, SharedString, Unit};
use mmv_writer::handle::Measured;
use mmv_writer::pcp::{Indom, IndomMetricExt as _, RegistryExt as _};
use mmv_writer::{Buckets, Counter, Error, Gauge, Label, MetricBuilder, Registry, Units};

use crate::handles::Recording;
use crate::series::{InstanceQuota, Series, SeriesPlace};
use crate::{names, units, warning};

/// The state that the recorder's lock protects.
#[derive(Debug)]
pub(crate) struct State {
    registry: Registry,
    buckets: Buckets,
    room: Arc<InstanceQuota>,
    descriptions: HashMap<String, Description>,
    counters: HashMap<String, Metric<Counter<u64>>>,
    gauges: HashMap<String, Metric<Gauge<f64>>>,
    /// Histograms by their names in the file, other metrics by their names in the facade.
    histograms: HashMap<String, Metric<Counter<u64>>>,
    sums: HashMap<String, Metric<Counter<u64>>>,
    /// Names in the file, with the metrics of the facade that have them.
    taken: HashMap<String, String>,
}

#[derive(Debug, Default)]
struct Description {
    unit: Option<Unit>,
    text: String,
}

/// A name of the facade, which is two metrics: with labels and without.
#[derive(Debug)]
struct Metric<H> {
    plain: Option<H>,
    labelled: Option<Series<H>>,
}

impl<H> Default for Metric<H> {
    fn default() -> Self {
        Self { plain: None, labelled: None }
    }
}

/// A handle, and how its instance is removed.
pub(crate) struct SeriesHandle<H> {
    pub(crate) handle: H,
    /// Removes the instance, if the handle has one of its own.
    pub(crate) remove: Option<RemoveInstance>,
    pub(crate) is_overflow: bool,
}

type RemoveInstance = Box<dyn FnOnce() + Send + Sync>;

impl<H> SeriesHandle<H> {
    fn new(place: SeriesPlace<H>, remove: Option<RemoveInstance>) -> Self {
        match place {
            SeriesPlace::Own(handle) => Self { handle, remove, is_overflow: false },
            SeriesPlace::Overflow(handle) => Self { handle, remove: None, is_overflow: true },
        }
    }

    pub(crate) fn map<T>(self, change: impl FnOnce(H) -> T) -> SeriesHandle<T> {
        let Self { handle, remove, is_overflow } = self;
        SeriesHandle { handle: change(handle), remove, is_overflow }
    }
}

/// The reason why there is no handle, as a line to print.
pub(crate) type Unpublished = String;

/// The parameters for registering a kind of metric.
struct Kind<'a, H> {
    registry: &'a Registry,
    make: fn(&'a Registry, String) -> MetricBuilder<'a, H>,
    room: &'a Arc<InstanceQuota>,
    taken: &'a mut HashMap<String, String>,
    /// Name of the kind in the facade.
    what: &'static str,
    /// Suffix of the metric's name.
    suffix: &'static str,
    /// Name of the instance for labels without a place.
    overflow: &'static str,
    units: Units,
    /// Units of the values, for the counter of a histogram's buckets.
    histogram: Option<Units>,
    help: &'a str,
}

impl State {
    pub(crate) fn new(registry: Registry, buckets: Buckets, max_series: u32) -> Self {
        Self {
            registry,
            buckets,
            room: Arc::new(InstanceQuota::new(max_series)),
            descriptions: HashMap::new(),
            counters: HashMap::new(),
            gauges: HashMap::new(),
            histograms: HashMap::new(),
            sums: HashMap::new(),
            taken: HashMap::new(),
        }
    }

    /// Keeps the description of a metric until it is registered.
    pub(crate) fn describe(&mut self, name: &str, unit: Option<Unit>, text: &SharedString) {
        let description = Description { unit, text: names::help(text) };
        self.descriptions.insert(name.to_owned(), description);
    }

    /// Returns the counter of a key.
    pub(crate) fn counter(&mut self, key: &Key) -> Result<SeriesHandle<Counter<u64>>, Unpublished> {
        let (unit, help) = self.described(key);
        let mut kind = Kind {
            registry: &self.registry,
            make: Registry::counter,
            room: &self.room,
            taken: &mut self.taken,
            what: "counter",
            suffix: "",
            overflow: names::OVERFLOW,
            units: unit.map_or(Units::count(), |unit| units::from_facade(Some(unit))),
            histogram: None,
            help: &help,
        };
        kind.handle(&mut self.counters, key)
    }

    /// Returns the gauge of a key.
    pub(crate) fn gauge(&mut self, key: &Key) -> Result<SeriesHandle<Gauge<f64>>, Unpublished> {
        let (unit, help) = self.described(key);
        let mut kind = Kind {
            registry: &self.registry,
            make: Registry::gauge,
            room: &self.room,
            taken: &mut self.taken,
            what: "gauge",
            suffix: "",
            overflow: names::OVERFLOW,
            units: units::from_facade(unit),
            histogram: None,
            help: &help,
        };
        kind.handle(&mut self.gauges, key)
    }

    /// Returns the histogram of a key.
    pub(crate) fn histogram(&mut self, key: &Key) -> Result<SeriesHandle<Recording>, Unpublished> {
        let (unit, help) = self.described(key);
        let (units, factor) = units::of_histogram(unit);
        let mut kind = Kind {
            registry: &self.registry,
            make: Registry::counter,
            room: &self.room,
            taken: &mut self.taken,
            what: "histogram",
            suffix: ".bucket",
            // As a bucket's name, for those that read quantiles.
            overflow: "overflow,bucket=0..",
            units: Units::count(),
            histogram: Some(units),
            help: &help,
        };
        let has_labels = key.labels().len() > 0;
        let metric = self.histograms.entry(names::metric(key.name(), has_labels)).or_default();
        kind.series(metric, key, has_labels).and_then(|buckets| {
            kind.suffix = ".sum";
            kind.overflow = names::OVERFLOW;
            kind.units = units;
            kind.histogram = None;
            let sum = kind.handle(&mut self.sums, key)?;
            let overflow = if sum.is_overflow { Some(buckets.overflow()) } else { None };
            let overflow = overflow.transpose().map_err(|error| error.to_string())?;
            let labels = names::instance(key);
            Ok(sum.map(|sum| Recording::new(self.buckets, factor, buckets, labels, sum, overflow)))
        })
    }

    fn described(&self, key: &Key) -> (Option<Unit>, String) {
        let description = self.descriptions.get(key.name());
        description.map_or_else(Default::default, |known| (known.unit, known.text.clone()))
    }
}

impl<'a, H: Measured + Clone> Kind<'a, H> {
    /// Returns the handle of a key.
    fn handle(
        &mut self,
        metrics: &mut HashMap<String, Metric<H>>,
        key: &Key,
    ) -> Result<SeriesHandle<H>, Unpublished> {
        let metric = metrics.entry(key.name().to_owned()).or_default();
        if let Some(instance) = names::instance(key) {
            let series = self.series(metric, key, true)?;
            let place = series.get_or_create(&instance);
            let place = place.map_err(|error| self.message(key, &error))?;
            if let SeriesPlace::Own(_) = place {
                for (name, label) in names::labels(key).into_iter().zip(key.labels()) {
                    series.label(&instance, Label::new(name, label.value()));
                }
            }
            let remove = Box::new(move || series.remove(&instance));
            return Ok(SeriesHandle::new(place, Some(remove)));
        }
        let handle = match &metric.plain {
            Some(handle) => handle.clone(),
            None => metric.plain.insert(self.register(key, false, MetricBuilder::build)?).clone(),
        };
        Ok(SeriesHandle::new(SeriesPlace::Own(handle), None))
    }

    /// Returns the metric of a key's name with instances, on a domain of its own.
    fn series(
        &mut self,
        metric: &mut Metric<H>,
        key: &Key,
        has_labels: bool,
    ) -> Result<Series<H>, Unpublished> {
        if let Some(series) = &metric.labelled {
            return Ok(series.clone());
        }
        let metric_name = names::metric(key.name(), has_labels) + self.suffix;
        // Metrics are registered in the order of their first use.
        let indom = self.registry.indom(key.name()).serial_from(&metric_name);
        let indom: Indom = indom.build().map_err(|error| error.to_string())?;
        let family = self.register(key, has_labels, |builder| builder.build_named(&indom))?;
        let name = format!("{} \"{}\"", self.what, key.name());
        let series = Series::new((family, indom), self.room, &name, self.overflow);
        Ok(metric.labelled.insert(series).clone())
    }

    /// Registers a metric. If its name is the start of another's, as `http` is of `http.requests`,
    /// or the other way around, its dots are escaped.
    fn register<B>(
        &mut self,
        key: &Key,
        has_labels: bool,
        build: impl Fn(MetricBuilder<'a, H>) -> Result<B, Error>,
    ) -> Result<B, Unpublished> {
        let registered = |name: &str| {
            let builder = (self.make)(self.registry, name.to_owned()).units(self.units);
            let builder = if self.help.is_empty() { builder } else { builder.help(self.help) };
            let builder = if name.starts_with(key.name()) {
                builder
            } else {
                builder.long_help(names::help(key.name()))
            };
            build(match self.histogram {
                Some(units) => builder.label(Label::new("histogram", units.to_string())),
                None => builder,
            })
        };
        let mut name = names::metric(key.name(), has_labels) + self.suffix;
        let mut result = registered(&name);
        if let Err(error @ Error::LeafAndBranch { .. }) = result {
            name = names::flat(key.name(), has_labels) + self.suffix;
            result = registered(&name);
            if result.is_ok() {
                let what = self.what;
                let key = key.name();
                warning(&format_args!("{what} \"{key}\" is published as {name}: {error}"));
            }
        }
        match result {
            Ok(metric) => {
                let holder = format!("{} \"{}\"", self.what, key.name());
                self.taken.insert(name, holder);
                Ok(metric)
            }
            Err(error @ Error::NameTaken { .. }) => {
                let message = self.message(key, &error);
                let holder = self.taken.get(&name).map_or("another metric", String::as_str);
                Err(format!("{message} by {holder}"))
            }
            Err(error) => Err(self.message(key, &error)),
        }
    }

    fn message(&self, key: &Key, error: &Error) -> Unpublished {
        format!("{} \"{}\" is not published: {error}", self.what, key.name())
    }
}

#[cfg(test)]
mod tests {
    use mmv_writer::Registry;

    use super::*;

    #[test]
    fn a_name_of_two_kinds_is_refused_with_both() {
        let directory = tempfile::tempdir().unwrap();
        let registry = Registry::builder("app").directory(directory.path());
        let mut state = State::new(registry.build().unwrap(), Buckets::new(1, 1), 10);
        let key = Key::from_static_name("a-b");
        state.counter(&key).unwrap();
        assert_eq!(
            state.gauge(&key).err().unwrap(),
            "gauge \"a-b\" is not published: metric name \"a_x2d_b\" is already taken by \
             counter \"a-b\""
        );
    }
}

//! The metrics that were registered, and how the next one is.

use std::collections::HashMap;

use metrics::{Key, SharedString, Unit};
use mmv_writer::Measured;
use mmv_writer::{
    Buckets, Counter, Error, Family, Gauge, Label, LiveIndom, LiveRegistry, MetricBuilder, Units,
};

use crate::handles::Recording;
use crate::{names, units};

/// What the recorder's lock protects.
#[derive(Debug)]
pub(crate) struct State {
    /// `None`: withdrawn.
    pub(crate) registry: Option<LiveRegistry>,
    buckets: Buckets,
    descriptions: HashMap<String, Description>,
    counters: HashMap<String, Metric<Counter<u64>>>,
    gauges: HashMap<String, Metric<Gauge<f64>>>,
    histograms: HashMap<String, Metric<Counter<u64>>>,
    sums: HashMap<String, Metric<Counter<u64>>>,
}

#[derive(Debug, Default)]
struct Description {
    unit: Option<Unit>,
    text: String,
}

/// A name of the facade. With labels and without them it is two metrics.
#[derive(Debug)]
struct Metric<H> {
    plain: Option<H>,
    labelled: Option<(Family<H>, LiveIndom)>,
}

impl<H> Default for Metric<H> {
    fn default() -> Self {
        Self { plain: None, labelled: None }
    }
}

/// How a kind of metrics is registered.
struct Kind<'a, H> {
    registry: &'a LiveRegistry,
    make: fn(&'a LiveRegistry, String) -> MetricBuilder<'a, H, LiveRegistry>,
    /// What is appended to the name.
    suffix: &'static str,
    units: Units,
    /// The units of the values, of the counter of a histogram's buckets.
    histogram: Option<Units>,
    help: &'a str,
}

impl State {
    pub(crate) fn new(registry: LiveRegistry, buckets: Buckets) -> Self {
        Self {
            registry: Some(registry),
            buckets,
            descriptions: HashMap::new(),
            counters: HashMap::new(),
            gauges: HashMap::new(),
            histograms: HashMap::new(),
            sums: HashMap::new(),
        }
    }

    /// Keeps the description of a metric until it is registered.
    pub(crate) fn describe(&mut self, name: &str, unit: Option<Unit>, text: &SharedString) {
        let description = Description { unit, text: names::help(text) };
        self.descriptions.insert(name.to_owned(), description);
    }

    /// The counter of a key; `None` when the file is withdrawn.
    pub(crate) fn counter(&mut self, key: &Key) -> Option<Result<Counter<u64>, Error>> {
        let (unit, help) = self.described(key);
        let units = unit.map_or(Units::count(), |unit| units::of(Some(unit)));
        let registry = self.registry.as_ref()?;
        let make = LiveRegistry::counter;
        let kind = Kind { registry, make, suffix: "", units, histogram: None, help: &help };
        Some(kind.handle(&mut self.counters, key))
    }

    /// The gauge of a key.
    pub(crate) fn gauge(&mut self, key: &Key) -> Option<Result<Gauge<f64>, Error>> {
        let (unit, help) = self.described(key);
        let (registry, units) = (self.registry.as_ref()?, units::of(unit));
        let make = LiveRegistry::gauge;
        let kind = Kind { registry, make, suffix: "", units, histogram: None, help: &help };
        Some(kind.handle(&mut self.gauges, key))
    }

    /// The histogram of a key.
    pub(crate) fn histogram(&mut self, key: &Key) -> Option<Result<Recording, Error>> {
        let (unit, help) = self.described(key);
        let registry = self.registry.as_ref()?;
        let (units, factor) = units::of_histogram(unit);
        let make = LiveRegistry::counter;
        let sum = Kind { registry, make, suffix: ".sum", units, histogram: None, help: &help };
        let buckets =
            Kind { suffix: ".bucket", units: Units::count(), histogram: Some(units), ..sum };
        let metric = self.histograms.entry(key.name().to_owned()).or_default();
        Some(buckets.family(metric, key).and_then(|(family, _)| {
            let sum = sum.handle(&mut self.sums, key)?;
            Ok(Recording::new(self.buckets, factor, family, names::instance(key), sum))
        }))
    }

    fn described(&self, key: &Key) -> (Option<Unit>, String) {
        let description = self.descriptions.get(key.name());
        description.map_or_else(Default::default, |known| (known.unit, known.text.clone()))
    }
}

impl<'a, H: Measured + Clone> Kind<'a, H> {
    /// The handle of a key.
    fn handle(&self, metrics: &mut HashMap<String, Metric<H>>, key: &Key) -> Result<H, Error> {
        let metric = metrics.entry(key.name().to_owned()).or_default();
        if let Some(instance) = names::instance(key) {
            let (family, indom) = self.family(metric, key)?;
            let handle = family.get_or_create(&instance)?;
            for label in key.labels() {
                // There may be no room for more; the instance's name has all of them.
                let _ =
                    indom.label(&instance, Label::new(names::label(label.key()), label.value()));
            }
            return Ok(handle);
        }
        if let Some(handle) = &metric.plain {
            return Ok(handle.clone());
        }
        let other = if metric.labelled.is_some() { "_plain" } else { "" };
        let handle = self.register(key, other, MetricBuilder::build)?;
        metric.plain = Some(handle.clone());
        Ok(handle)
    }

    /// The metric of a key's name with instances, on a domain of its own.
    fn family(&self, metric: &mut Metric<H>, key: &Key) -> Result<(Family<H>, LiveIndom), Error> {
        if let Some(labelled) = &metric.labelled {
            return Ok(labelled.clone());
        }
        let other = if metric.plain.is_some() { "_labelled" } else { "" };
        let indom: LiveIndom = self.registry.indom(key.name()).build()?;
        let family = self.register(key, other, |builder| builder.build_family(&indom))?;
        metric.labelled = Some((family.clone(), indom.clone()));
        Ok((family, indom))
    }

    /// Registers a metric. One whose name is a part of another's, as `http` is of
    /// `http.requests`, or the other way around, has no dots in it.
    fn register<B>(
        &self,
        key: &Key,
        other: &str,
        build: impl Fn(MetricBuilder<'a, H, LiveRegistry>) -> Result<B, Error>,
    ) -> Result<B, Error> {
        let name = names::metric(key.name()) + other + self.suffix;
        let flat = name.replace('.', "_");
        let registered = |name| {
            let builder = (self.make)(self.registry, name).units(self.units);
            let builder = if self.help.is_empty() { builder } else { builder.help(self.help) };
            build(match self.histogram {
                Some(units) => builder.label(Label::new("histogram", units.to_string())),
                None => builder,
            })
        };
        match registered(name) {
            Err(Error::LeafAndBranch { .. }) => registered(flat),
            result => result,
        }
    }
}

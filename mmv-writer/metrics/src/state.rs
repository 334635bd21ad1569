//! The metrics that were registered, and the registration of the next one.

use std::collections::HashMap;

use metrics::{Key, SharedString, Unit};
use mmv_writer::{Buckets, Error, Registry};

use crate::labels::KeyLabels;
use crate::measure::{Measure, MetricSpec, Metrics};
use crate::{names, warning};

/// The state that the recorder's lock protects.
#[derive(Debug)]
pub(crate) struct State {
    metrics: Metrics,
    registration: Registration,
}

/// The registry and the options with which metrics are registered.
#[derive(Debug)]
struct Registration {
    registry: Registry,
    buckets: Option<Buckets>,
    max_series: Option<usize>,
    descriptions: HashMap<String, Description>,
    /// Names in the file, with the metrics of the facade that have them.
    taken: HashMap<String, String>,
}

#[derive(Debug, Default)]
struct Description {
    unit: Option<Unit>,
    text: String,
}

/// A handle, and how its series is removed.
pub(crate) struct Series<M> {
    pub(crate) handle: M,
    /// Removes the series, if the handle has one of its own.
    pub(crate) remove: Option<RemoveSeries>,
    pub(crate) is_overflow: bool,
}

type RemoveSeries = Box<dyn FnOnce() + Send + Sync>;

/// The reason why there is no handle, as a line to print.
pub(crate) type NoHandle = String;

impl State {
    pub(crate) fn new(
        registry: Registry,
        buckets: Option<Buckets>,
        max_series: Option<usize>,
    ) -> Self {
        let descriptions = HashMap::new();
        let taken = HashMap::new();
        let registration = Registration { registry, buckets, max_series, descriptions, taken };
        Self { metrics: Metrics::default(), registration }
    }

    /// Keeps the description of a metric until it is registered.
    pub(crate) fn describe(&mut self, name: &str, unit: Option<Unit>, text: &SharedString) {
        let description = Description { unit, text: names::help(text) };
        self.registration.descriptions.insert(name.to_owned(), description);
    }

    /// Returns the series of a key. Its metric is registered if this is its first key with labels
    /// or without.
    pub(crate) fn series<M: Measure>(&mut self, key: &Key) -> Result<Series<M>, NoHandle> {
        let Self { metrics, registration } = self;
        let unit = registration.unit(key);
        let metric = M::metrics_by_name(metrics).entry(key.name().to_owned()).or_default();
        let Some(labels) = KeyLabels::new(key) else {
            let handle = match &metric.plain {
                Some(handle) => handle,
                None => metric.plain.insert(registration.add::<M, _>(key, false, M::register)?),
            };
            let handle = M::new(handle.clone(), unit);
            return Ok(Series { handle, remove: None, is_overflow: false });
        };
        let family = match &metric.labelled {
            Some(family) => family,
            None => {
                metric.labelled.insert(registration.add::<M, _>(key, true, M::register_family)?)
            }
        };
        let handle = M::new(family.get(&labels), unit);
        if family.get_existing(&labels).is_some() {
            let family = family.clone();
            let remove: RemoveSeries = Box::new(move || {
                family.remove(&labels);
            });
            return Ok(Series { handle, remove: Some(remove), is_overflow: false });
        }
        if family.overflowed() == 1 {
            warning(&format_args!(
                "{} \"{}\": no room for more than {} series; its instance \"overflow\" counts all \
                 others",
                M::KIND,
                key.name(),
                family.len()
            ));
        }
        Ok(Series { handle, remove: None, is_overflow: true })
    }
}

impl Registration {
    /// Returns the unit that a metric was described with.
    fn unit(&self, key: &Key) -> Option<Unit> {
        self.descriptions.get(key.name())?.unit
    }

    /// Registers a metric. If its name is the start of another's, as `http` is of `http.requests`,
    /// or the other way around, its dots are escaped.
    fn add<M: Measure, R>(
        &mut self,
        key: &Key,
        has_labels: bool,
        register: fn(&Registry, &MetricSpec<'_>) -> Result<R, Error>,
    ) -> Result<R, NoHandle> {
        let holder = format!("{} \"{}\"", M::KIND, key.name());
        let help = self.descriptions.get(key.name()).map_or("", |known| &known.text);
        let mut metric = MetricSpec {
            name: names::metric(key.name(), has_labels),
            unit: self.unit(key),
            help,
            long_help: None,
            buckets: self.buckets,
            max_series: self.max_series,
        };
        if !metric.name.starts_with(key.name()) {
            metric.long_help = Some(names::help(key.name()));
        }
        let mut registered = register(&self.registry, &metric);
        if let Err(error @ Error::LeafAndBranch { .. }) = registered {
            metric.name = names::flat(key.name(), has_labels);
            metric.long_help = Some(names::help(key.name()));
            registered = register(&self.registry, &metric);
            if registered.is_ok() {
                warning(&format_args!("{holder} is published as {}: {error}", metric.name));
            }
        }
        match registered {
            Ok(registered) => {
                for ending in M::ENDINGS {
                    self.taken.insert(format!("{}{ending}", metric.name), holder.clone());
                }
                Ok(registered)
            }
            Err(Error::NameTaken { what, name }) => {
                let other = self.taken.get(&name).map_or("another metric", String::as_str);
                let error = Error::NameTaken { what, name };
                Err(format!("{holder} is not published: {error} by {other}"))
            }
            Err(error) => Err(format!("{holder} is not published: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use mmv_writer::Registry;

    use super::*;
    use crate::measure::{FacadeCounter, FacadeGauge, FacadeHistogram};

    #[test]
    fn a_name_of_two_kinds_is_refused_with_both() {
        let directory = tempfile::tempdir().unwrap();
        let registry = Registry::builder("app").directory(directory.path());
        let mut state = State::new(registry.build().unwrap(), None, None);
        let key = Key::from_static_name("a-b");
        state.series::<FacadeCounter>(&key).unwrap();
        assert_eq!(
            state.series::<FacadeGauge>(&key).err().unwrap(),
            "gauge \"a-b\" is not published: metric name \"a_x2d_b\" is already taken by \
             counter \"a-b\""
        );
        state.series::<FacadeHistogram>(&Key::from_static_name("size")).unwrap();
        assert_eq!(
            state.series::<FacadeGauge>(&Key::from_static_name("size.sum")).err().unwrap(),
            "gauge \"size.sum\" is not published: metric name \"size.sum\" is already taken by \
             histogram \"size\""
        );
    }
}

//! A metric as the program declared it, in the file of each process.

use std::fmt;
use std::sync::Arc;

use mmv_writer::handle::SeriesHandle;
use mmv_writer::{Counter, Error, Family, Gauge, Histogram, Labels, Registry, warn};

use crate::files::{Files, Register};
use crate::generation::PerProcess;
use crate::unit::Unit;

/// Label of the process, where each has a file.
pub(crate) const PROCESS: &str = "process";

/// Name, help text, unit and labels of a metric.
pub(crate) struct Declaration {
    pub(crate) name: String,
    pub(crate) help: String,
    pub(crate) unit: Unit,
    pub(crate) labels: Vec<String>,
}

/// A kind of metric, by its handle. The default is one that no reader sees.
pub(crate) trait Kind: SeriesHandle + Default {
    /// Registers a metric with one value, or with a series for each set of labels.
    fn register(
        registry: &Registry,
        declaration: &Declaration,
        is_family: bool,
    ) -> Result<Registered<Self>, Error>;
}

/// Names and values of labels, of which there is a series.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Series(Vec<(String, String)>);

impl Labels for Series {
    fn visit<'l>(&'l self, visit: &mut dyn FnMut(&'l str, &dyn fmt::Display)) {
        for (name, value) in &self.0 {
            visit(name, value);
        }
    }
}

/// A metric in the files of a registry.
pub(crate) struct Metric<H: Kind> {
    pub(crate) files: Arc<Files>,
    pub(crate) declaration: Declaration,
    registered: PerProcess<Registered<H>>,
}

/// A metric in the file of one process.
pub(crate) enum Registered<H: Kind> {
    Single(H),
    Family(Family<Series, H>),
    /// There is no room for it.
    Private(H),
}

impl<H: Kind> Metric<H> {
    /// Registers a metric.
    ///
    /// # Errors
    ///
    /// A mistake in the declaration. If the system or the file has no room, the metric counts without
    /// readers, and a line on standard error says so.
    pub(crate) fn declare(
        files: &Arc<Files>,
        declaration: Declaration,
    ) -> Result<Arc<Self>, Error> {
        let registered = Registered::new(files, files.registry(), &declaration)?;
        let metric = Self { files: Arc::clone(files), declaration, registered: PerProcess::new() };
        metric.registered.get_or_init(|_| registered);
        let metric = Arc::new(metric);
        files.add(Arc::clone(&metric) as Arc<dyn Register>);
        Ok(metric)
    }

    fn registered(&self) -> &Registered<H> {
        // First, as that registers all metrics in a new file.
        let registry = self.files.registry();
        self.register_in(registry)
    }

    fn register_in(&self, registry: &Registry) -> &Registered<H> {
        self.registered.get_or_init(|_| {
            Registered::new(&self.files, registry, &self.declaration).unwrap_or_else(|error| {
                not_published(&self.declaration.name, &error);
                Registered::Private(H::default())
            })
        })
    }

    /// Returns the handle on the series of these values of labels in the file of this process.
    pub(crate) fn handle(&self, values: &[String]) -> H {
        match self.registered() {
            Registered::Single(handle) | Registered::Private(handle) => handle.clone(),
            Registered::Family(family) => family.get(&self.series(values)),
        }
    }

    /// Returns whether these values of labels have a series of their own.
    pub(crate) fn has_series(&self, values: &[String]) -> bool {
        match self.registered() {
            Registered::Single(_) | Registered::Private(_) => true,
            Registered::Family(family) => family.get_existing(&self.series(values)).is_some(),
        }
    }

    /// Removes the series of these values of labels.
    pub(crate) fn remove(&self, values: &[String]) {
        if let Registered::Family(family) = self.registered() {
            family.remove(&self.series(values));
        }
    }

    fn series(&self, values: &[String]) -> Series {
        let mut pairs = Vec::new();
        if self.files.is_per_process() {
            pairs.push((PROCESS.to_owned(), std::process::id().to_string()));
        }
        for (name, value) in self.declaration.labels.iter().zip(values) {
            pairs.push((name.clone(), value.clone()));
        }
        Series(pairs)
    }
}

impl<H: Kind> Register for Metric<H> {
    fn register(&self, registry: &Registry) {
        if let Registered::Family(family) = self.register_in(registry)
            && self.declaration.labels.is_empty()
        {
            // Counted from 0, from now on.
            family.get(&self.series(&[]));
        }
    }
}

impl<H: Kind> Registered<H> {
    fn new(files: &Files, registry: &Registry, declaration: &Declaration) -> Result<Self, Error> {
        let is_family = files.is_per_process() || !declaration.labels.is_empty();
        match H::register(registry, declaration, is_family) {
            Err(error @ (Error::Io { .. } | Error::Full { .. })) => {
                not_published(&declaration.name, &error);
                Ok(Self::Private(H::default()))
            }
            registered => registered,
        }
    }
}

fn not_published(name: &str, error: &Error) {
    warn(&format!("metric {name} is not published: {error}\n"));
}

impl Kind for Counter {
    fn register(
        registry: &Registry,
        declaration: &Declaration,
        is_family: bool,
    ) -> Result<Registered<Self>, Error> {
        let Declaration { name, help, unit, .. } = declaration;
        let builder = registry.counter(name).help(help).units(unit.units());
        if is_family {
            builder.build_family().map(Registered::Family)
        } else {
            builder.build().map(Registered::Single)
        }
    }
}

impl Kind for Gauge {
    fn register(
        registry: &Registry,
        declaration: &Declaration,
        is_family: bool,
    ) -> Result<Registered<Self>, Error> {
        let Declaration { name, help, unit, .. } = declaration;
        let builder = registry.gauge(name).help(help).units(unit.units());
        if is_family {
            builder.build_family().map(Registered::Family)
        } else {
            builder.build().map(Registered::Single)
        }
    }
}

impl Kind for Histogram {
    fn register(
        registry: &Registry,
        declaration: &Declaration,
        is_family: bool,
    ) -> Result<Registered<Self>, Error> {
        let Declaration { name, help, unit, .. } = declaration;
        let builder = registry.histogram(name).help(help).units(unit.units());
        if is_family {
            builder.build_family().map(Registered::Family)
        } else {
            builder.build_sparse().map(Registered::Single)
        }
    }
}

//! Registration of statics, and of the registry that takes them: `metric::static_metric` says
//! how they count.

use std::sync::Weak;

use pcp_types::Units;

use crate::builder::{HistogramBuilder, MetricBuilder};
use crate::mapping::Cell;
use crate::metric::static_metric::{
    RegisteredHistogram, StaticDescription, StaticKind, StaticRegistry, WeakRegistry, adopt_statics,
};
use crate::metric::{Buckets, Counter, Gauge, Histogram, Number, Timer};
use crate::options::RegistryBuilder;
use crate::registration::{Help, MetricSpec};
use crate::registry::Inner;
use crate::{Error, Registry};

/// Handles that a static can have. Implemented here only.
pub trait InStatic: sealed::InStatic {}

mod sealed {
    use crate::{Error, Registry};

    pub trait InStatic {
        /// Registers the metric of a static; does nothing if it is registered.
        #[doc(hidden)]
        fn register_in(&self, registry: &Registry) -> Result<(), Error>;
    }
}

impl<T: Number> InStatic for Counter<T> {}
impl<T: Number> InStatic for Gauge<T> {}
impl InStatic for Timer {}
impl InStatic for Histogram {}

impl<T: Number> sealed::InStatic for Counter<T> {
    fn register_in(&self, registry: &Registry) -> Result<(), Error> {
        self.shared_cell().map_or(Ok(()), |cell| cell.register(registry))
    }
}

impl<T: Number> sealed::InStatic for Gauge<T> {
    fn register_in(&self, registry: &Registry) -> Result<(), Error> {
        self.shared_cell().register(registry)
    }
}

impl sealed::InStatic for Timer {
    fn register_in(&self, registry: &Registry) -> Result<(), Error> {
        self.shared_cell().register(registry)
    }
}

impl sealed::InStatic for Histogram {
    fn register_in(&self, registry: &Registry) -> Result<(), Error> {
        self.static_metric().map_or(Ok(()), |metric| metric.register(registry))
    }
}

/// A static is never dropped, and must not keep the file.
impl StaticRegistry for Registry {
    fn add_value(&self, description: &StaticDescription, kind: StaticKind) -> Result<Cell, Error> {
        let spec = MetricSpec {
            name: description.name.to_owned(),
            type_code: kind.type_code,
            semantics: kind.semantics,
            item: None,
            units: description.units.unwrap_or(kind.units),
            help: Help { short: description.help.map(str::to_owned), long: None },
            labels: Vec::new(),
            optional: false,
            isolated: false,
        };
        Ok(self.downgrade().add_singular(spec)?.cell)
    }

    fn add_histogram(
        &self,
        description: &StaticDescription,
        buckets: Buckets,
    ) -> Result<RegisteredHistogram, Error> {
        let registry = self.downgrade();
        let mut metric = MetricBuilder::new(&registry, description.name.to_owned());
        metric.spec.units = description.units.unwrap_or(Units::NONE);
        metric.spec.help.short = description.help.map(str::to_owned);
        HistogramBuilder::new(metric).buckets(buckets).register()
    }
}

impl WeakRegistry for Weak<Inner> {
    fn upgrade(&self) -> Option<Box<dyn StaticRegistry>> {
        Some(Box::new(Registry::from_weak(self)?))
    }
}

impl Registry {
    /// Makes a registry with the file `name` in this machine's MMV directory, with default
    /// options. The first one takes the program's [statics](crate#statics).
    ///
    /// # Errors
    ///
    /// The errors of [`RegistryBuilder::build`].
    pub fn new(name: impl Into<String>) -> Result<Self, Error> {
        Self::builder(name).build()
    }

    /// Registers a counter, gauge, timer or histogram in a `static`, with what it has counted; does
    /// nothing if it is registered. For metrics that are to be 0 before their first use, for those
    /// that have to be registered, and for sealed registries, which take no others.
    ///
    /// ```
    /// use mmv_writer::{Counter, Registry};
    ///
    /// static FAILURES: Counter = Counter::new("failures");
    ///
    /// # fn main() -> Result<(), mmv_writer::Error> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let registry = Registry::builder("shop").directory(directory.path()).build()?;
    /// registry.register_static(&FAILURES)?; // readers see a 0
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`MetricBuilder::build`](crate::MetricBuilder::build). The metric then
    /// counts on without readers.
    pub fn register_static(&self, metric: &impl InStatic) -> Result<(), Error> {
        metric.register_in(self)
    }
}

impl RegistryBuilder {
    /// Creates the file and publishes it, replacing one of this process, or of one that has
    /// ended. A [sealed](Self::sealed) one is published later.
    ///
    /// # Errors
    ///
    /// [`Error::Running`], [`Error::FileName`], [`Error::Length`], [`Error::OutOfRange`] for the
    /// cluster, or for more room than readers can use, [`Error::Version`] if a version other
    /// than 3 is pinned for a file that grows, and [`Error::Io`].
    pub fn build(self) -> Result<Registry, Error> {
        let takes_statics = !self.sealed;
        let registry = Registry::create(self)?;
        // Unit tests run side by side in one process: each would take the statics of others.
        if takes_statics && !cfg!(test) {
            adopt_statics(&registry, Box::new(registry.weak()));
        }
        Ok(registry)
    }
}

#[cfg(test)]
mod tests;

//! Metrics and domains to be registered, in a sealed registry or a live one.

mod histogram;

use std::marker::PhantomData;

use pcp_types::Units;

use crate::metric::{
    Counter, Discrete, Gauge, Handle, Measured, Number, Optional, OwnedCounter, OwnedGauge,
    Striped, Text,
};
use crate::registration::{Help, IndomSpec, MetricSpec, SerialChoice, serial_of};
use crate::{Error, Label};
pub use histogram::BucketIndom;
pub(crate) use histogram::{SharedBuckets, add_buckets};

/// Takes metrics: a [`Registry`](crate::Registry) or a
/// [`LiveRegistry`](crate::LiveRegistry). Implemented here only.
pub trait Registrar: sealed::Registrar {}

pub(crate) mod sealed {
    use super::histogram::SharedBuckets;
    use crate::Error;
    use crate::mapping::CellStrip;
    use crate::metric::ValueSlot;
    use crate::registration::{IndomSpec, MetricSpec};

    /// How metrics are registered, apart from those whose instances have a handle
    /// each.
    pub trait Registrar {
        /// A domain with fixed instances.
        type Indom: Clone;

        /// Registers a domain.
        fn add_indom(&self, spec: IndomSpec) -> Result<Self::Indom, Error>;

        /// Registers a metric with one value.
        fn add_singular(&self, spec: MetricSpec) -> Result<ValueSlot, Error>;

        /// Registers a metric with a value for each instance.
        fn add_fixed(&self, spec: MetricSpec, on: &Self::Indom) -> Result<Vec<ValueSlot>, Error>;

        /// The domains of buckets that histograms share.
        fn shared_buckets(&self) -> &SharedBuckets<Self::Indom>;

        /// Registers the counts of a histogram's buckets, and the sum of its values:
        /// both or none.
        fn add_histogram(
            &self,
            counts: MetricSpec,
            sum: MetricSpec,
            on: &Self::Indom,
        ) -> Result<(CellStrip, ValueSlot), Error>;
    }
}

/// Registers a domain of stripes, the shared one last.
pub(crate) fn add_stripes<R: Registrar>(registry: &R, count: usize) -> Result<R::Indom, Error> {
    let mut spec = IndomSpec::new("stripes".to_owned());
    spec.help.short = Some("threads that count, each for itself".to_owned());
    spec.add_numbered((0..count).map(|index| index.to_string()));
    spec.add_names(["shared"]);
    registry.add_indom(spec)
}

/// An instance domain to be registered; see [`Registry::indom`](crate::Registry::indom)
/// and [`LiveRegistry::indom`](crate::LiveRegistry::indom).
#[derive(Debug)]
#[must_use = "a domain is registered by build()"]
pub struct IndomBuilder<'r, R> {
    pub(crate) registry: &'r R,
    pub(crate) spec: IndomSpec,
}

impl<'r, R> IndomBuilder<'r, R> {
    pub(crate) fn new(registry: &'r R, name: String) -> Self {
        Self { registry, spec: IndomSpec::new(name) }
    }

    /// Sets the domain's number, 1..=2047; by default the lowest that is free.
    pub fn serial(mut self, serial: u32) -> Self {
        self.spec.serial = SerialChoice::Stated(serial);
        self
    }

    /// Derives the domain's number from a text, such as the name of its only metric: the
    /// same in every run, in whatever order domains are registered. If another domain has it,
    /// this one gets the next that is free.
    ///
    /// For domains that are registered when they are first used. The number of a domain is
    /// part of the identity of the metrics on it.
    pub fn serial_from(mut self, text: &str) -> Self {
        self.spec.serial = SerialChoice::From(serial_of(text));
        self
    }

    /// Sets the one-line help text, at most 255 bytes.
    pub fn help(mut self, text: impl Into<String>) -> Self {
        self.spec.help.short = Some(text.into());
        self
    }

    /// Sets the long help text, at most 255 bytes.
    pub fn long_help(mut self, text: impl Into<String>) -> Self {
        self.spec.help.long = Some(text.into());
        self
    }

    /// Attaches a label to the domain.
    pub fn label(mut self, label: Label) -> Self {
        self.spec.labels.push(label);
        self
    }
}

/// Gives a registrar a method for each kind of metric.
macro_rules! metric_kinds {
    ($registrar:ty) => {
        impl $registrar {
            /// A count that only grows. The name is of letters, digits, `_` and
            /// single dots, starts with a letter and has at most 255 bytes.
            pub fn counter<T: Number>(
                &self,
                name: impl Into<String>,
            ) -> MetricBuilder<'_, Counter<T>, Self> {
                MetricBuilder::new(self, name.into())
            }

            /// A value that goes up and down. The name as for `counter`.
            pub fn gauge<T: Number>(
                &self,
                name: impl Into<String>,
            ) -> MetricBuilder<'_, Gauge<T>, Self> {
                MetricBuilder::new(self, name.into())
            }

            /// A number that holds until it is changed. The name as for
            /// `counter`.
            pub fn discrete<T: Number>(
                &self,
                name: impl Into<String>,
            ) -> MetricBuilder<'_, Discrete<T>, Self> {
                MetricBuilder::new(self, name.into())
            }

            /// A text. The name as for `counter`.
            pub fn text(&self, name: impl Into<String>) -> MetricBuilder<'_, Text, Self> {
                MetricBuilder::new(self, name.into())
            }

            /// The time that one activity takes, seen while it runs. The name as
            /// for `counter`.
            pub fn elapsed(&self, name: impl Into<String>) -> MetricBuilder<'_, Elapsed, Self> {
                MetricBuilder::new(self, name.into())
            }

            /// The time that many activities take, each added when it ends. The
            /// name as for `counter`.
            pub fn timer(&self, name: impl Into<String>) -> MetricBuilder<'_, Timer, Self> {
                MetricBuilder::new(self, name.into())
            }
        }
    };
}

pub(crate) use metric_kinds;

/// A metric to be registered; see [`Registry::counter`](crate::Registry::counter).
#[derive(Debug)]
#[must_use = "a metric is registered by a method that starts with build"]
pub struct MetricBuilder<'r, H, R> {
    pub(crate) registry: &'r R,
    pub(crate) spec: MetricSpec,
    handle: PhantomData<H>,
}

impl<'r, H: Handle, R: Registrar> MetricBuilder<'r, H, R> {
    pub(crate) fn new(registry: &'r R, name: String) -> Self {
        let spec = MetricSpec {
            name,
            type_code: H::TYPE_CODE,
            semantics: H::SEMANTICS,
            item: None,
            units: H::UNITS,
            help: Help::default(),
            labels: Vec::new(),
            optional: H::OPTIONAL,
            isolated: false,
        };
        Self { registry, spec, handle: PhantomData }
    }

    /// Sets the one-line help text, at most 255 bytes.
    pub fn help(mut self, text: impl Into<String>) -> Self {
        self.spec.help.short = Some(text.into());
        self
    }

    /// Sets the long help text, at most 255 bytes.
    pub fn long_help(mut self, text: impl Into<String>) -> Self {
        self.spec.help.long = Some(text.into());
        self
    }

    /// Sets the item number, 0..=1023; without this, the lowest from 1 on that
    /// is free, and 0 when all of those are taken.
    pub fn item(mut self, item: u32) -> Self {
        self.spec.item = Some(item);
        self
    }

    /// Attaches a label to the metric.
    pub fn label(mut self, label: Label) -> Self {
        self.spec.labels.push(label);
        self
    }

    /// Gives each value a cache line of its own, so that threads on neighbouring
    /// values do not slow each other down. Costs 32 to 64 bytes a value.
    pub fn isolated(mut self) -> Self {
        self.spec.isolated = true;
        self
    }

    /// Registers the metric as a singular one: one value, one handle.
    ///
    /// # Errors
    ///
    /// [`Error::MetricName`], [`Error::LeafAndBranch`], [`Error::NameTaken`],
    /// [`Error::NumberTaken`], [`Error::OutOfRange`], [`Error::Length`],
    /// [`Error::Nul`], [`Error::Full`], [`Error::Version`], what is wrong with a
    /// label, [`Error::NeedsSentinel`] for an optional value where that is ruled out,
    /// [`Error::Forked`] in a forked child whose parent made the live registry, and
    /// [`Error::Io`] when the disk is full.
    pub fn build(self) -> Result<H, Error> {
        let slot = self.registry.add_singular(self.spec)?;
        Ok(H::on(slot))
    }

    fn with_handle<Other: Handle>(self) -> MetricBuilder<'r, Other, R> {
        let mut spec = self.spec;
        spec.optional = Other::OPTIONAL;
        MetricBuilder { registry: self.registry, spec, handle: PhantomData }
    }
}

impl<H: Measured, R: Registrar> MetricBuilder<'_, H, R> {
    /// Sets the units; without this, a plain number.
    pub fn units(mut self, units: Units) -> Self {
        self.spec.units = units;
        self
    }
}

impl<'r, T: Number, R: Registrar> MetricBuilder<'r, Counter<T>, R> {
    /// Gives the counter a single writer, for which adding is much cheaper.
    pub fn owned(self) -> MetricBuilder<'r, OwnedCounter<T>, R> {
        self.with_handle()
    }
}

impl<T: Number, R: Registrar> MetricBuilder<'_, Counter<T>, R> {
    /// Registers the metric on a domain made by
    /// [`Registry::stripes`](crate::Registry::stripes) or
    /// [`LiveRegistry::stripes`](crate::LiveRegistry::stripes), for threads to claim an
    /// instance each.
    ///
    /// # Errors
    ///
    /// As [`MetricBuilder::build`], [`Error::OtherRegistry`], and
    /// [`Error::NoStripes`] if the domain is empty.
    pub fn build_striped(self, stripes: &R::Indom) -> Result<Striped<T>, Error> {
        let no_stripes = Error::NoStripes { name: self.spec.name.clone() };
        let registry = self.registry;
        let slots = registry.add_fixed(self.isolated().spec, stripes)?;
        let mut cells: Vec<_> = slots.into_iter().map(|slot| slot.cell).collect();
        let shared = cells.pop().ok_or(no_stripes)?;
        Ok(Striped::new(cells, shared))
    }
}

impl<'r, T: Number, R: Registrar> MetricBuilder<'r, Gauge<T>, R> {
    /// Gives the gauge a single writer, for which adding is much cheaper.
    pub fn owned(self) -> MetricBuilder<'r, OwnedGauge<T>, R> {
        self.with_handle()
    }

    /// Allows the gauge to have no value, which is its initial state. The file gets the
    /// [sentinel flag](crate::RegistryBuilder::sentinel).
    pub fn optional(self) -> MetricBuilder<'r, Optional<Gauge<T>>, R> {
        self.with_handle()
    }
}

impl<'r, T: Number, R: Registrar> MetricBuilder<'r, Discrete<T>, R> {
    /// Allows the metric to have no value, which is its initial state. The file gets the
    /// [sentinel flag](crate::RegistryBuilder::sentinel).
    pub fn optional(self) -> MetricBuilder<'r, Optional<Discrete<T>>, R> {
        self.with_handle()
    }
}

impl<'r, R: Registrar> MetricBuilder<'r, Text, R> {
    /// Allows the text to be absent, which is its initial state. The file gets the
    /// [sentinel flag](crate::RegistryBuilder::sentinel).
    pub fn optional(self) -> MetricBuilder<'r, Optional<Text>, R> {
        self.with_handle()
    }
}

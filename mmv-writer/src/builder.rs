//! Metrics and domains to be registered.

mod histogram;

use std::marker::PhantomData;

use pcp_types::Units;

use crate::mapping::LineStrip;
use crate::metric::{
    Counter, Discrete, Gauge, Handle, Measured, Number, Optional, OwnedCounter, OwnedGauge,
    Stripes, Text, Timer, sealed,
};
use crate::registration::{Help, IndomSpec, MetricSpec, SerialChoice, serial_of};
use crate::registry::Indom;
use crate::{Error, Label, Registry};
pub use histogram::HistogramBuilder;
pub(crate) use histogram::HistogramSpecs;

/// An instance domain to be registered; see [`indom`](crate::pcp::RegistryExt::indom).
#[derive(Debug)]
#[must_use = "a domain is registered by build()"]
pub struct IndomBuilder<'r> {
    registry: &'r Registry,
    spec: IndomSpec,
}

impl<'r> IndomBuilder<'r> {
    pub(crate) fn new(registry: &'r Registry, name: String) -> Self {
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

    /// Adds a fixed instance with a number of its own: 0 or more, and a name of 1..=255 bytes,
    /// each unique in the domain. Archives and PCP's programs tell instances apart by their
    /// numbers: give a name the same number in every run.
    pub fn instance(mut self, id: i32, name: impl Into<String>) -> Self {
        self.spec.instances.push((Some(id), name.into()));
        self
    }

    /// Adds fixed instances whose numbers follow from their names: a name has the same number
    /// in every run, whatever other names there are.
    pub fn names<N: AsRef<str>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.spec.add_names(names);
        self
    }

    /// Attaches a label to the fixed instance with this name.
    pub fn instance_label(mut self, name: impl Into<String>, label: Label) -> Self {
        self.spec.instance_labels.push((name.into(), label));
        self
    }

    /// Registers the domain. Without fixed instances they come and go; in a sealed registry
    /// the domain is then empty.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`], [`Error::NumberTaken`], [`Error::NameTaken`],
    /// [`Error::Length`], [`Error::Nul`], [`Error::Full`],
    /// [`Error::IndomInHighCluster`], [`Error::Version`], what is wrong with
    /// a label, [`Error::Sealed`], [`Error::Forked`] in a forked child whose parent made the
    /// registry, and [`Error::Io`] when the disk is full.
    pub fn build(self) -> Result<Indom, Error> {
        self.registry.add_indom(self.spec)
    }
}

impl Registry {
    /// Begins a counter, a count of unsigned 64 bits that only grows; [`metric`](Self::metric) has
    /// other types. The name is of letters, digits, `_` and single dots, starts with a letter
    /// and has at most 255 bytes.
    pub fn counter(&self, name: impl Into<String>) -> MetricBuilder<'_, Counter> {
        self.metric(name)
    }

    /// Begins a gauge, an `f64` that goes up and down; [`metric`](Self::metric) has other types.
    /// The name is as for [`counter`](Self::counter).
    pub fn gauge(&self, name: impl Into<String>) -> MetricBuilder<'_, Gauge> {
        self.metric(name)
    }

    /// Begins a histogram, a distribution of values. The name is as for [`counter`](Self::counter).
    ///
    /// ```
    /// use mmv_writer::{Counter, Gauge, Registry, Units};
    ///
    /// # fn main() -> Result<(), mmv_writer::Error> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let registry = Registry::builder("web").directory(directory.path()).build()?;
    /// let latency = registry.histogram("latency").units(Units::microseconds()).build()?;
    /// latency.record(1_234);
    /// # Ok(())
    /// # }
    /// ```
    pub fn histogram(&self, name: impl Into<String>) -> HistogramBuilder<'_> {
        HistogramBuilder::new(MetricBuilder::new(self, name.into()))
    }

    /// Begins a metric of any kind and type: `registry.metric::<Gauge<i32>>("depth")`. The name
    /// is as for [`counter`](Self::counter).
    pub fn metric<H: Handle>(&self, name: impl Into<String>) -> MetricBuilder<'_, H> {
        MetricBuilder::new(self, name.into())
    }

    /// Begins a number that holds until it is changed. The name is as for
    /// [`counter`](Self::counter).
    pub fn discrete<T: Number>(&self, name: impl Into<String>) -> MetricBuilder<'_, Discrete<T>> {
        self.metric(name)
    }

    /// Begins a metric whose value is a text. The name is as for [`counter`](Self::counter).
    pub fn text(&self, name: impl Into<String>) -> MetricBuilder<'_, Text> {
        self.metric(name)
    }

    /// Begins the time that many activities take, each added when it ends. The name is as for
    /// [`counter`](Self::counter).
    pub fn timer(&self, name: impl Into<String>) -> MetricBuilder<'_, Timer> {
        self.metric(name)
    }

    /// Returns the domain of striped counters with this many stripes; the first one registers it.
    fn stripes(&self, count: usize) -> Result<Indom, Error> {
        let mut known = self.shared_indoms().stripes();
        // One more is `shared`.
        if let Some(indom) = known.iter().find(|indom| indom.instances().len() == count + 1) {
            return Ok(indom.clone());
        }
        let mut spec = IndomSpec::new("stripes".to_owned());
        spec.serial = SerialChoice::From(serial_of(&format!("stripes {count}")));
        spec.help.short = Some("threads that count, each for itself".to_owned());
        spec.add_numbered((0..count).map(|index| index.to_string()));
        spec.add_names(["shared"]);
        let indom = self.add_indom(spec)?;
        known.push(indom.clone());
        Ok(indom)
    }
}

/// A metric to be registered; see [`Registry::counter`](crate::Registry::counter).
#[derive(Debug)]
#[must_use = "a metric is registered by a method that starts with build"]
pub struct MetricBuilder<'r, H> {
    pub(crate) registry: &'r Registry,
    pub(crate) spec: MetricSpec,
    pub(crate) max_series: Option<usize>,
    handle: PhantomData<H>,
}

impl<'r, H: Handle> MetricBuilder<'r, H> {
    pub(crate) fn new(registry: &'r Registry, name: String) -> Self {
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
        Self { registry, spec, max_series: None, handle: PhantomData }
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
    /// [`Error::Sealed`], [`Error::Forked`] in a forked child whose parent made the registry, and
    /// [`Error::Io`] when the disk is full.
    pub fn build(self) -> Result<H, Error> {
        let slot = self.registry.add_singular(self.spec)?;
        Ok(H::from_slot(slot))
    }

    fn with_handle<Other: Handle>(self) -> MetricBuilder<'r, Other> {
        let mut spec = self.spec;
        spec.optional = Other::OPTIONAL;
        let Self { registry, max_series, .. } = self;
        MetricBuilder { registry, spec, max_series, handle: PhantomData }
    }
}

impl<H: Measured> MetricBuilder<'_, H> {
    /// Sets the units; without this, a plain number.
    pub fn units(mut self, units: Units) -> Self {
        self.spec.units = units;
        self
    }
}

impl<'r, T: Number> MetricBuilder<'r, Counter<T>> {
    /// Gives the counter a single writer, for which adding is much cheaper.
    pub fn owned(self) -> MetricBuilder<'r, OwnedCounter<T>> {
        self.with_handle()
    }
}

impl<T: Number> MetricBuilder<'_, Counter<T>> {
    /// Registers the counter with a value for each of this many threads, which add to it without
    /// disturbing each other, at the price of a load and a store: for what all threads count
    /// all the time. Further threads share one more value. Values are instances of the metric,
    /// `0`, `1` and so on and `shared`, that readers add up; each takes a cache line.
    ///
    /// A thread has the same place in all striped counters of the program, from its first
    /// addition to one of them until a moment after it ends: where threads come and go, ask for some
    /// more than run at once. There are at most 64 such places.
    ///
    /// # Errors
    ///
    /// The errors of [`MetricBuilder::build`].
    pub fn build_striped(self, threads: usize) -> Result<Counter<T>, Error> {
        let registry = self.registry;
        let indom = registry.stripes(threads)?;
        let (strip, mut slots) = registry.add_strip(self.isolated().spec, &indom)?;
        // The values are isolated, and one more than the threads.
        let own = LineStrip::new(strip, threads);
        debug_assert!(own.is_some(), "stripes that share a cache line");
        match (own, slots.pop()) {
            (Some(own), Some(shared)) => Ok(Counter::striped(Stripes::new(own, shared.cell))),
            (None, Some(shared)) => Ok(sealed::Handle::from_slot(shared)),
            (_, None) => Ok(Counter::noop()),
        }
    }
}

impl<'r, T: Number> MetricBuilder<'r, Gauge<T>> {
    /// Gives the gauge a single writer, for which adding is much cheaper.
    pub fn owned(self) -> MetricBuilder<'r, OwnedGauge<T>> {
        self.with_handle()
    }

    /// Allows the gauge to have no value, which is its initial state. The file gets the
    /// [sentinel flag](crate::pcp::RegistryBuilderExt::sentinel).
    pub fn optional(self) -> MetricBuilder<'r, Optional<Gauge<T>>> {
        self.with_handle()
    }
}

impl<'r, T: Number> MetricBuilder<'r, Discrete<T>> {
    /// Allows the metric to have no value, which is its initial state. The file gets the
    /// [sentinel flag](crate::pcp::RegistryBuilderExt::sentinel).
    pub fn optional(self) -> MetricBuilder<'r, Optional<Discrete<T>>> {
        self.with_handle()
    }
}

impl<'r> MetricBuilder<'r, Text> {
    /// Allows the text to be absent, which is its initial state. The file gets the
    /// [sentinel flag](crate::pcp::RegistryBuilderExt::sentinel).
    pub fn optional(self) -> MetricBuilder<'r, Optional<Text>> {
        self.with_handle()
    }
}

//! Metrics being registered.

use std::marker::PhantomData;

use pcp_types::{Semantics, Units};

use super::Registry;
use super::indom::Indom;
use super::model::Help;
use crate::metric::{
    Counter, Discrete, Gauge, Handle, Instances, Measured, Number, Optional, OwnedCounter,
    OwnedGauge, Striped, Text, sealed,
};
use crate::{Error, Label};

/// What a program says about a metric, whatever its handle.
#[derive(Debug)]
pub(super) struct MetricSpec {
    pub(super) name: String,
    pub(super) type_code: i32,
    pub(super) semantics: Semantics,
    pub(super) item: Option<u32>,
    pub(super) units: Units,
    pub(super) help: Help,
    pub(super) labels: Vec<Label>,
    /// Whether a value may be absent, and is at first.
    pub(super) optional: bool,
    /// Whether each value has a cache line of its own.
    pub(super) isolated: bool,
}

/// A metric being described; see [`Registry::counter`] and its like.
#[derive(Debug)]
#[must_use = "a metric is registered by build() or build_instances()"]
pub struct MetricBuilder<'r, H> {
    registry: &'r Registry,
    spec: MetricSpec,
    handle: PhantomData<H>,
}

impl<'r, H: Handle> MetricBuilder<'r, H> {
    pub(super) fn new(registry: &'r Registry, name: String) -> Self {
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
    /// label, [`Error::NeedsSentinel`] for an optional value, and [`Error::Io`]
    /// when the disk is full.
    pub fn build(self) -> Result<H, Error> {
        let seat = self.registry.state().add_singular(self.spec)?;
        Ok(<H as sealed::Handle>::on(seat))
    }

    /// Registers the metric on a domain: a value and a handle for each instance.
    ///
    /// # Errors
    ///
    /// As [`MetricBuilder::build`], and [`Error::OtherRegistry`].
    pub fn build_instances(self, indom: &Indom) -> Result<Instances<H>, Error> {
        let members = indom.members.clone();
        let seats = self.registry.state().add_instances(self.spec, indom)?;
        let handles = seats.into_iter().map(<H as sealed::Handle>::on).collect();
        Ok(Instances::new(members, handles))
    }

    fn with_handle<Other: Handle>(self) -> MetricBuilder<'r, Other> {
        let mut spec = self.spec;
        spec.optional = Other::OPTIONAL;
        MetricBuilder { registry: self.registry, spec, handle: PhantomData }
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

    /// Registers the metric on a domain made by [`Registry::stripes`], for
    /// threads to claim an instance each.
    ///
    /// # Errors
    ///
    /// As [`MetricBuilder::build_instances`], and [`Error::NoStripes`] if the
    /// domain is empty.
    pub fn build_striped(self, stripes: &Indom) -> Result<Striped<T>, Error> {
        let no_stripes = Error::NoStripes { name: self.spec.name.clone() };
        if stripes.members.list().is_empty() {
            return Err(no_stripes);
        }
        let seats = self.registry.state().add_instances(self.isolated().spec, stripes)?;
        let mut cells: Vec<_> = seats.into_iter().map(|seat| seat.cell).collect();
        let shared = cells.pop().ok_or(no_stripes)?;
        Ok(Striped::new(cells, shared))
    }
}

impl<'r, T: Number> MetricBuilder<'r, Gauge<T>> {
    /// Gives the gauge a single writer, for which adding is much cheaper.
    pub fn owned(self) -> MetricBuilder<'r, OwnedGauge<T>> {
        self.with_handle()
    }

    /// Lets the gauge be without a value, as it is at first. The file needs
    /// [`RegistryBuilder::sentinel`](super::RegistryBuilder::sentinel).
    pub fn optional(self) -> MetricBuilder<'r, Optional<Gauge<T>>> {
        self.with_handle()
    }
}

impl<'r, T: Number> MetricBuilder<'r, Discrete<T>> {
    /// Lets the metric be without a value, as it is at first. The file needs
    /// [`RegistryBuilder::sentinel`](super::RegistryBuilder::sentinel).
    pub fn optional(self) -> MetricBuilder<'r, Optional<Discrete<T>>> {
        self.with_handle()
    }
}

impl<'r> MetricBuilder<'r, Text> {
    /// Lets the text be absent, as it is at first. The file needs
    /// [`RegistryBuilder::sentinel`](super::RegistryBuilder::sentinel).
    pub fn optional(self) -> MetricBuilder<'r, Optional<Text>> {
        self.with_handle()
    }
}

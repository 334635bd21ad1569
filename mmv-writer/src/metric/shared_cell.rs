//! The cell of a handle that threads share.

use std::marker::PhantomData;

use pcp_types::Units;

use super::sealed;
use super::static_metric::{
    StaticDescription, StaticKind, StaticMetric, StaticPlace, StaticRegistry, checked_help,
};
use crate::Error;
use crate::mapping::Cell;

/// A registered cell, or that of a static, for a handle of the kind `H`.
#[derive(Debug)]
pub(crate) enum SharedCell<H: sealed::Handle + 'static> {
    Registered(Cell),
    Static(StaticMetric<StaticCell<H>>),
}

impl<H: sealed::Handle> SharedCell<H> {
    pub(super) fn private() -> Self {
        Self::Registered(Cell::private())
    }

    pub(super) const fn named(name: &'static str) -> Self {
        Self::Static(StaticMetric::new(name, ()))
    }

    /// Calls `work` with the cell.
    #[inline]
    pub(super) fn with<R>(&self, work: impl FnOnce(&Cell) -> R) -> R {
        match self {
            Self::Registered(cell) => work(cell),
            Self::Static(metric) => metric.with(move |place| work(&place.cell)),
        }
    }

    /// Sets the units of a static; has no effect on a registered metric.
    pub(super) const fn set_units(&mut self, units: Units) {
        if let Self::Static(metric) = self {
            metric.description.units = Some(units);
        }
    }

    /// Sets the help text of a static; has no effect on a registered metric.
    pub(super) const fn set_help(&mut self, text: &'static str) {
        if let Self::Static(metric) = self {
            metric.description.help = Some(checked_help(text));
        }
    }

    /// Registers a static; does nothing if it is registered.
    pub(crate) fn register(&self, registry: &dyn StaticRegistry) -> Result<(), Error> {
        match self {
            Self::Registered(_) => Ok(()),
            Self::Static(metric) => metric.register(registry),
        }
    }
}

impl<H: sealed::Handle> Clone for SharedCell<H> {
    fn clone(&self) -> Self {
        match self {
            Self::Registered(cell) => Self::Registered(cell.clone()),
            Self::Static(metric) => Self::Static(metric.clone()),
        }
    }
}

/// The cell of a static handle of the kind `H`.
pub(crate) struct StaticCell<H> {
    cell: Cell,
    kind: PhantomData<fn() -> H>,
}

impl<H: sealed::Handle + 'static> StaticPlace for StaticCell<H> {
    type Options = ();

    fn private(_: &StaticDescription, (): ()) -> Self {
        Self { cell: Cell::private(), kind: PhantomData }
    }

    fn register(
        registry: &dyn StaticRegistry,
        description: &StaticDescription,
        (): (),
    ) -> Result<Self, Error> {
        let kind = StaticKind { type_code: H::TYPE_CODE, semantics: H::SEMANTICS, units: H::UNITS };
        Ok(Self { cell: registry.add_value(description, kind)?, kind: PhantomData })
    }

    fn take_over(&self, private: &Self) {
        // Nobody else has the registered cell yet.
        self.cell.store(private.cell.load());
    }
}

//! Numbers that hold until they are changed.

use std::marker::PhantomData;

use pcp_types::Semantics;

use super::{Handle, Number, ValueSlot, sealed};
use crate::mapping::Cell;

/// A number that holds until it is changed, shared between threads: a limit, a
/// configuration's revision.
#[derive(Debug)]
#[must_use]
pub struct Discrete<T> {
    cell: Cell,
    number: PhantomData<T>,
}

impl<T: Number> Discrete<T> {
    /// Makes a value that no reader sees.
    pub fn noop() -> Self {
        Self { cell: Cell::private(), number: PhantomData }
    }

    /// Replaces the current value.
    #[inline]
    pub fn set(&self, value: T) {
        self.cell.store(value.to_cell());
    }

    /// Returns the current value.
    #[inline]
    pub fn value(&self) -> T {
        T::from_cell(self.cell.load())
    }
}

impl<T> Clone for Discrete<T> {
    fn clone(&self) -> Self {
        Self { cell: self.cell.clone(), number: PhantomData }
    }
}

impl<T: Number> Handle for Discrete<T> {}

impl<T: Number> sealed::Handle for Discrete<T> {
    const TYPE_CODE: i32 = T::VALUE_TYPE.code();
    const SEMANTICS: Semantics = Semantics::Discrete;

    fn from_slot(slot: ValueSlot) -> Self {
        Self { cell: slot.cell, number: PhantomData }
    }
}

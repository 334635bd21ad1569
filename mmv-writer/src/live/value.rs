//! A live metric and its values.

use std::sync::Arc;

use pcp_types::ValueType;
use zerocopy::IntoBytes;

use super::file::LiveFile;
use super::index::Forget;
use crate::layout::{EXTRA_OFFSET, METRIC_OFFSET, NO_VALUE, SectionKind, ValueEntry};
use crate::mapping::{Cell, Lease};
use crate::metric::TextSlot;
use crate::metric::sealed::Seat;
use crate::plan::VALUE_BYTES;

/// A metric and its values.
#[derive(Debug)]
pub(super) struct Metric {
    pub(super) name: String,
    /// The index of its file.
    pub(super) part: usize,
    /// Where it is there.
    pub(super) at: u64,
    pub(super) is_text: bool,
    pub(super) optional: bool,
    pub(super) isolated: bool,
    pub(super) domain: Option<usize>,
    /// By index of the domain's slot; a singular metric has one.
    pub(super) values: Vec<Option<Value>>,
    /// The handles that its family keeps ready.
    pub(super) index: Option<Arc<dyn Forget>>,
}

/// A value entry, for good this metric's and its slot's.
#[derive(Debug)]
pub(super) struct Value {
    pub(super) at: u64,
    text: Option<Arc<TextSlot>>,
}

impl Metric {
    /// Shows a value to readers, in the entry that the slot has or a new one.
    pub(super) fn link(
        &mut self,
        file: &mut LiveFile,
        slot: usize,
        instance_at: u64,
        lease: &Arc<Lease>,
    ) -> Option<Seat> {
        if self.values.len() <= slot {
            self.values.resize_with(slot + 1, || None);
        }
        let place = self.values.get_mut(slot)?;
        let value = match place {
            Some(value) => value,
            None => place.insert(append(file, self.isolated, self.is_text, instance_at)),
        };
        if let Some(text) = &value.text {
            text.set("");
        } else {
            file.store(value.at + EXTRA_OFFSET, 0);
        }
        file.store(value.at, if self.optional { NO_VALUE } else { 0 });
        file.store(value.at + METRIC_OFFSET, self.at);
        Some(value.seat(lease))
    }

    /// Where the first of its values is, and how many bytes it is to the next: those
    /// of stated instances are appended at once.
    pub(super) fn row(&self) -> Option<(u64, u64)> {
        let step = if self.isolated { 2 } else { 1 };
        Some((self.values.first()?.as_ref()?.at, step * VALUE_BYTES))
    }
}

impl Value {
    fn seat(&self, lease: &Arc<Lease>) -> Seat {
        let cell = |at: u64| lease.cell(at as usize).unwrap_or_else(Cell::detached);
        let text = self.text.clone();
        Seat { cell: cell(self.at), extra: cell(self.at + EXTRA_OFFSET), text }
    }
}

impl Seat {
    /// A place that nobody reads, where none could be found.
    pub(super) fn unseen() -> Self {
        Self { cell: Cell::detached(), extra: Cell::detached(), text: None }
    }
}

/// A new value entry, not linked to its metric yet.
fn append(file: &mut LiveFile, isolated: bool, is_text: bool, instance: u64) -> Value {
    // The section starts at a cache line, which holds two entries.
    if isolated && !file.used(SectionKind::Values).is_multiple_of(2) {
        file.take(SectionKind::Values);
    }
    let at = file.take(SectionKind::Values);
    if isolated {
        file.take(SectionKind::Values);
    }
    let mut entry = ValueEntry { cell: 0, extra: 0, metric: 0, instance };
    let mut text = None;
    if is_text {
        let string = file.take_string("");
        entry.extra = string.cast_signed();
        let slot = TextSlot::default();
        let settled = slot.settle(file.segment(), string as usize);
        debug_assert!(settled, "a text at {string}");
        text = Some(Arc::new(slot));
    }
    file.write(at, entry.as_bytes());
    Value { at, text }
}

/// Whether values of a type are texts.
pub(super) fn is_text(type_code: i32) -> bool {
    type_code == ValueType::String.code()
}

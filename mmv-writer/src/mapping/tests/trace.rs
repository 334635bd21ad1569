//! The stores of a writer to its segments, in order, for tests that show them to a reader one
//! by one.

use std::cell::RefCell;
use std::sync::atomic::Ordering;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Store {
    /// Offset in the segment.
    pub(crate) at: usize,
    pub(crate) word: u64,
    /// Memory order, for the model in `live/tests/growth.rs`.
    #[cfg_attr(not(mmv_loom), expect(dead_code, reason = "for weak memory only"))]
    pub(crate) order: Ordering,
}

thread_local! {
    static STORES: RefCell<Option<Vec<Store>>> = const { RefCell::new(None) };
}

pub(crate) fn stores_of(work: impl FnOnce()) -> Vec<Store> {
    STORES.set(Some(Vec::new()));
    work();
    STORES.take().unwrap_or_default()
}

pub(crate) fn note(at: usize, word: u64, order: Ordering) {
    STORES.with_borrow_mut(|stores| {
        if let Some(stores) = stores {
            stores.push(Store { at, word, order });
        }
    });
}

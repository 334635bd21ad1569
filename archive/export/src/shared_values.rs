//! Interning of values that many series share.

use std::hash::Hash;
use std::sync::Arc;

use hashbrown::HashSet;

/// Number of values below which unused ones are not removed, since there is little to gain.
const MIN_CLEANED: usize = 1_000;

#[derive(Debug)]
pub(crate) struct SharedValues<T: ?Sized + Eq + Hash> {
    values: HashSet<Arc<T>>,
    /// The number of values at which unused ones are removed.
    limit: usize,
}

impl<T: ?Sized + Eq + Hash> Default for SharedValues<T> {
    fn default() -> Self {
        Self { values: HashSet::new(), limit: MIN_CLEANED }
    }
}

impl<T: ?Sized + Eq + Hash> SharedValues<T> {
    /// Returns the known value that is equal to this one, or adds it.
    pub(crate) fn share(&mut self, value: Arc<T>) -> Arc<T> {
        if let Some(known) = self.values.get(&value) {
            return Arc::clone(known);
        }
        if self.values.len() >= self.limit {
            self.values.retain(|value| Arc::strong_count(value) > 1);
            self.limit = MIN_CLEANED.max(2 * self.values.len());
        }
        self.values.insert(Arc::clone(&value));
        value
    }
}

/// Releases spare memory of a table, whose capacity doubles when it grows.
pub(crate) fn fit<T>(table: &mut Vec<T>) {
    if table.capacity() > MIN_CLEANED && table.capacity() > table.len() + table.len() / 8 {
        table.shrink_to_fit();
    }
}

/// Sets an entry of a table, which grows as needed, and returns the earlier one.
pub(crate) fn put<T>(table: &mut Vec<Option<T>>, at: usize, value: Option<T>) -> Option<T> {
    if table.len() <= at {
        table.resize_with(at + 1, || None);
    }
    table.get_mut(at).and_then(|entry| std::mem::replace(entry, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_one_in_memory_and_unused_ones_are_dropped() {
        let mut values = SharedValues::<str>::default();
        let first = values.share("a".into());
        assert!(Arc::ptr_eq(&first, &values.share("a".into())));
        let number = |number: usize| number.to_string().into();
        (0..10 * MIN_CLEANED).for_each(|one| drop(values.share(number(one))));
        assert!(values.values.len() <= MIN_CLEANED, "{}", values.values.len());
        assert!(Arc::ptr_eq(&first, &values.share("a".into())));
        let used: Vec<_> = (0..10 * MIN_CLEANED).map(|one| values.share(number(one))).collect();
        assert!(Arc::ptr_eq(&used[7], &values.share(number(7))));
    }

    #[test]
    fn tables_are_made_to_fit() {
        let mut table: Vec<u8> = Vec::with_capacity(10 * MIN_CLEANED);
        table.extend([1; 3 * MIN_CLEANED]);
        fit(&mut table);
        assert!((3 * MIN_CLEANED..4 * MIN_CLEANED).contains(&table.capacity()));
        assert_eq!(table.len(), 3 * MIN_CLEANED);
    }
}

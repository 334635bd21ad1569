//! Values that many series have in common, each once in memory.

use std::hash::Hash;
use std::sync::Arc;

use hashbrown::HashSet;

/// Below this number of values no look for unused ones is worth it.
const FEW: usize = 1_000;

/// Values by content.
#[derive(Debug)]
pub(crate) struct SharedValues<T: ?Sized + Eq + Hash> {
    values: HashSet<Arc<T>>,
    /// How many there may be before unused ones are dropped.
    limit: usize,
}

impl<T: ?Sized + Eq + Hash> Default for SharedValues<T> {
    fn default() -> Self {
        Self { values: HashSet::new(), limit: FEW }
    }
}

impl<T: ?Sized + Eq + Hash> SharedValues<T> {
    /// The value that is equal to this one, which is kept if there is none.
    pub(crate) fn share(&mut self, value: Arc<T>) -> Arc<T> {
        if let Some(known) = self.values.get(&value) {
            return Arc::clone(known);
        }
        if self.values.len() >= self.limit {
            self.values.retain(|value| Arc::strong_count(value) > 1);
            self.limit = FEW.max(2 * self.values.len());
        }
        self.values.insert(Arc::clone(&value));
        value
    }
}

/// Gives memory back that a table does not need: growth doubles it.
pub(crate) fn fit<T>(table: &mut Vec<T>) {
    if table.capacity() > FEW && table.capacity() > table.len() + table.len() / 8 {
        table.shrink_to_fit();
    }
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
        (0..10 * FEW).for_each(|one| drop(values.share(number(one))));
        assert!(values.values.len() <= FEW, "{}", values.values.len());
        assert!(Arc::ptr_eq(&first, &values.share("a".into())));
        let used: Vec<_> = (0..10 * FEW).map(|one| values.share(number(one))).collect();
        assert!(Arc::ptr_eq(&used[7], &values.share(number(7))));
    }

    #[test]
    fn tables_are_made_to_fit() {
        let mut table: Vec<u8> = Vec::with_capacity(10 * FEW);
        table.extend([1; 3 * FEW]);
        fit(&mut table);
        assert!((3 * FEW..4 * FEW).contains(&table.capacity()));
        assert_eq!(table.len(), 3 * FEW);
    }
}

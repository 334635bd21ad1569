//! A map for keys that come in the same order again and again.
//!
//! The records of an archive list much the same metrics one after the other,
//! and each metric much the same instances. So the next key is expected after
//! the last one, and hashed only if it is not there:
//!
//! | key | a | b | c | a | b | d | a |
//! |---|---|---|---|---|---|---|---|
//! | found | new | new | new | after c | after a | new | after d |

use std::hash::Hash;

use hashbrown::HashMap;

#[derive(Debug)]
pub(crate) struct SequenceMap<K, V> {
    /// In the order in which the keys first came.
    entries: Vec<(K, V)>,
    places: HashMap<K, usize>,
    /// Likely index of the next key.
    next: usize,
}

impl<K, V> Default for SequenceMap<K, V> {
    fn default() -> Self {
        Self { entries: Vec::new(), places: HashMap::new(), next: 0 }
    }
}

impl<K: Copy + Eq + Hash, V> SequenceMap<K, V> {
    /// Returns the value of a key, made if there is none yet. Never `None`.
    #[inline]
    pub(crate) fn get_or_insert_with(
        &mut self,
        key: K,
        make: impl FnOnce() -> V,
    ) -> Option<&mut V> {
        let place = match self.entries.get(self.next) {
            Some((found, _)) if *found == key => self.next,
            _ => self.find(key, make),
        };
        // The first key is likely to follow the last.
        self.next = if place + 1 < self.entries.len() { place + 1 } else { 0 };
        self.entries.get_mut(place).map(|(_, value)| value)
    }

    fn find(&mut self, key: K, make: impl FnOnce() -> V) -> usize {
        *self.places.entry(key).or_insert_with(|| {
            self.entries.push((key, make()));
            self.entries.len() - 1
        })
    }

    /// Returns all values, in the order in which their keys first came.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.entries.iter_mut().map(|(_, value)| value)
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.places.clear();
        self.next = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// forall sequences of keys: counts as a plain map does
        #[test]
        fn it_counts_as_a_plain_map_does(
            keys in prop::collection::vec((0u32..6, prop::bool::weighted(0.05)), 0..60),
        ) {
            let mut map = SequenceMap::default();
            let mut plain = HashMap::new();
            for (key, cleared) in keys {
                if cleared {
                    map.clear();
                    plain.clear();
                }
                let count: &mut u32 = map.get_or_insert_with(key, || 10 * key).unwrap();
                *count += 1;
                let expected = plain.entry(key).or_insert(10 * key);
                *expected += 1;
                prop_assert_eq!(*count, *expected);
            }
            prop_assert_eq!(map.values_mut().count(), plain.len());
        }
    }
}

//! Whose labels a cluster or a domain gets whose metrics have new PMIDs.
//!
//! What a label says of a cluster it says of the metrics in it, so it goes
//! where they go. But a cluster that metrics come to has its own labels, if any
//! of its metrics stay:
//!
//! | metrics of | go to | labels of |
//! |---|---|---|
//! | 1 | 2, all of them | 2 are those of 1 |
//! | 1 | 2, some of them | 1 and 2 are those of 1 |
//! | 1 | 2, where others stay | 2 are those of 2 |
//! | 1 and 3 | 2 | 2 are those of 1, the lowest |

use std::collections::BTreeMap;
use std::hash::Hash;

use hashbrown::HashMap;

/// By the old one all new ones that have its labels, rising.
#[derive(Debug)]
pub(super) struct Heirs<T> {
    heirs: HashMap<T, Vec<T>>,
}

impl<T> Default for Heirs<T> {
    fn default() -> Self {
        Self { heirs: HashMap::new() }
    }
}

impl<T: Copy + Ord + Hash> Heirs<T> {
    /// The new ones that have the labels of an old one.
    pub(super) fn of(&self, old: T) -> &[T] {
        self.heirs.get(&old).map(Vec::as_slice).unwrap_or_default()
    }
}

/// From where each metric was and where it is now.
impl<T: Copy + Ord + Hash> FromIterator<(T, T)> for Heirs<T> {
    fn from_iter<I: IntoIterator<Item = (T, T)>>(moves: I) -> Self {
        let mut origins: BTreeMap<T, T> = BTreeMap::new();
        for (old, new) in moves {
            let origin = origins.entry(new).or_insert(old);
            if *origin != new && (old == new || old < *origin) {
                *origin = old;
            }
        }
        let mut heirs: HashMap<T, Vec<T>> = HashMap::new();
        for (new, old) in origins {
            heirs.entry(old).or_default().push(new);
        }
        Self { heirs }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The new ones with the labels of 1, of 2 and of 3.
    fn heirs(moves: &[(u32, u32)]) -> [Vec<u32>; 3] {
        let heirs: Heirs<u32> = moves.iter().copied().collect();
        let same: Heirs<u32> = moves.iter().rev().copied().collect();
        [1, 2, 3].map(|old| {
            assert_eq!(heirs.of(old), same.of(old), "the order of metrics says nothing");
            heirs.of(old).to_vec()
        })
    }

    #[test]
    fn labels_go_where_the_metrics_go_unless_there_are_others() {
        assert_eq!(heirs(&[(1, 1), (2, 2)]), [vec![1], vec![2], vec![]]);
        assert_eq!(heirs(&[(1, 2), (1, 2)]), [vec![2], vec![], vec![]]);
        assert_eq!(heirs(&[(1, 2), (1, 1)]), [vec![1, 2], vec![], vec![]]);
        assert_eq!(heirs(&[(1, 2), (2, 2)]), [vec![], vec![2], vec![]]);
        assert_eq!(heirs(&[(3, 2), (1, 2)]), [vec![2], vec![], vec![]]);
        assert_eq!(heirs(&[(1, 2), (2, 1)]), [vec![2], vec![1], vec![]]);
    }
}

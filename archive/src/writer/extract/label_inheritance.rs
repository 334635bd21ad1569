//! Label inheritance: which labels a cluster or a domain gets when metrics get
//! new PMIDs.
//!
//! The labels of a cluster describe its metrics, so they go where these go. But
//! a cluster that metrics are moved to keeps its own labels if any of its
//! metrics stay:
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

/// The new owners of the labels of each old one, in ascending order.
#[derive(Debug)]
pub(super) struct LabelInheritance<T> {
    inherited: HashMap<T, Vec<T>>,
}

impl<T> Default for LabelInheritance<T> {
    fn default() -> Self {
        Self { inherited: HashMap::new() }
    }
}

impl<T: Copy + Ord + Hash> LabelInheritance<T> {
    /// Returns the clusters or domains that get the labels of an old one.
    pub(super) fn heirs(&self, old: T) -> &[T] {
        self.inherited.get(&old).map(Vec::as_slice).unwrap_or_default()
    }
}

/// From where each metric was and where it is now.
impl<T: Copy + Ord + Hash> FromIterator<(T, T)> for LabelInheritance<T> {
    fn from_iter<I: IntoIterator<Item = (T, T)>>(moves: I) -> Self {
        let mut origins: BTreeMap<T, T> = BTreeMap::new();
        for (old, new) in moves {
            let origin = origins.entry(new).or_insert(old);
            if *origin != new && (old == new || old < *origin) {
                *origin = old;
            }
        }
        let mut inherited: HashMap<T, Vec<T>> = HashMap::new();
        for (new, old) in origins {
            inherited.entry(old).or_default().push(new);
        }
        Self { inherited }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the new ones with the labels of 1, of 2 and of 3.
    fn inherited(moves: &[(u32, u32)]) -> [Vec<u32>; 3] {
        let inherited: LabelInheritance<u32> = moves.iter().copied().collect();
        let same: LabelInheritance<u32> = moves.iter().rev().copied().collect();
        [1, 2, 3].map(|old| {
            assert_eq!(inherited.heirs(old), same.heirs(old), "the order of metrics has no effect");
            inherited.heirs(old).to_vec()
        })
    }

    #[test]
    fn labels_go_where_the_metrics_go_unless_there_are_others() {
        assert_eq!(inherited(&[(1, 1), (2, 2)]), [vec![1], vec![2], vec![]]);
        assert_eq!(inherited(&[(1, 2), (1, 2)]), [vec![2], vec![], vec![]]);
        assert_eq!(inherited(&[(1, 2), (1, 1)]), [vec![1, 2], vec![], vec![]]);
        assert_eq!(inherited(&[(1, 2), (2, 2)]), [vec![], vec![2], vec![]]);
        assert_eq!(inherited(&[(3, 2), (1, 2)]), [vec![2], vec![], vec![]]);
        assert_eq!(inherited(&[(1, 2), (2, 1)]), [vec![2], vec![1], vec![]]);
    }
}

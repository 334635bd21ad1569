//! Selects values so that they never decrease.

/// Returns a longest selection of `values` that never decreases: for each, whether it is in. Of
/// records in order of time, one with a wild time costs only itself, wherever it is.
pub(crate) fn longest_rise<T: Ord>(values: &[T]) -> Vec<bool> {
    // For each length the selection with the least end: the place of that end. And for each value
    // the place of the one before it.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(values.len());
    for (at, own) in values.iter().enumerate() {
        let len = ends.partition_point(|end| values.get(*end).is_some_and(|end| end <= own));
        before.push(len.checked_sub(1).and_then(|shorter| ends.get(shorter).copied()));
        match ends.get_mut(len) {
            Some(end) => *end = at,
            None => ends.push(at),
        }
    }
    let mut keep = vec![false; values.len()];
    let mut next = ends.last().copied();
    while let Some(at) = next {
        if let Some(keep) = keep.get_mut(at) {
            *keep = true;
        }
        next = before.get(at).copied().flatten();
    }
    keep
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn kept(seconds: &[i64]) -> Vec<i64> {
        let keep = longest_rise(seconds);
        seconds.iter().zip(keep).filter(|(_, keep)| *keep).map(|(s, _)| *s).collect()
    }

    #[test]
    fn a_wild_time_costs_only_itself() {
        assert_eq!(kept(&[1, 2, 3]), [1, 2, 3]);
        assert_eq!(kept(&[1, 99, 2, 3]), [1, 2, 3]);
        assert_eq!(kept(&[5, 1, 6, 7]).len(), 3);
        assert_eq!(kept(&[5, 6, 7, 1]), [5, 6, 7]);
        assert_eq!(kept(&[]), [0; 0]);
    }

    #[test]
    fn equal_times_are_all_kept() {
        assert_eq!(kept(&[1, 1, 1]), [1, 1, 1]);
    }

    proptest! {
        /// forall s: the selection rises, and is as long as the longest that
        /// trying all pairs finds.
        #[test]
        fn the_selection_is_a_longest_one(seconds in prop::collection::vec(0i64..20, 0..40)) {
            let kept = kept(&seconds);
            prop_assert!(kept.is_sorted());
            let mut longest = vec![1usize; seconds.len()];
            for at in 0..seconds.len() {
                for earlier in 0..at {
                    if seconds[earlier] <= seconds[at] {
                        longest[at] = longest[at].max(longest[earlier] + 1);
                    }
                }
            }
            prop_assert_eq!(kept.len(), longest.into_iter().max().unwrap_or(0));
        }
    }
}

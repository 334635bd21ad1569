//! Selects records so that time never goes back.

use crate::Timestamp;

/// Returns a longest selection of `timestamps` that never decreases: for each, whether it is in.
/// One record with a wild time costs only itself, wherever it is.
pub(super) fn longest_rise(timestamps: &[Timestamp]) -> Vec<bool> {
    // For each length the selection with the earliest end: the place of that
    // end. And for each timestamp the place of the one before it.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(timestamps.len());
    let timestamp = |at: usize| timestamps.get(at).copied().unwrap_or(Timestamp::MAX);
    for (at, own) in timestamps.iter().enumerate() {
        let len = ends.partition_point(|end| timestamp(*end) <= *own);
        before.push(len.checked_sub(1).and_then(|shorter| ends.get(shorter).copied()));
        match ends.get_mut(len) {
            Some(end) => *end = at,
            None => ends.push(at),
        }
    }
    let mut keep = vec![false; timestamps.len()];
    let mut next = ends.last().copied();
    while let Some(at) = next {
        if let Some(keep) = keep.get_mut(at) {
            *keep = true;
        }
        next = before.get(at).copied().flatten();
    }
    keep
}

/// Divides `timestamps` among parts in which time never goes back: the first is the
/// [longest](longest_rise), the next the longest of what is left, up to `most` parts. For
/// each the number of its part, if there is one.
pub(super) fn parts(timestamps: &[Timestamp], most: usize) -> Vec<Option<usize>> {
    let mut part_of = vec![None; timestamps.len()];
    for part in 0..most {
        let left = part_of.iter().zip(timestamps).filter(|(part, _)| part.is_none());
        let times: Vec<Timestamp> = left.map(|(_, timestamp)| *timestamp).collect();
        if times.is_empty() {
            break;
        }
        let left = part_of.iter_mut().filter(|part| part.is_none());
        for (own, keep) in left.zip(longest_rise(&times)) {
            if keep {
                *own = Some(part);
            }
        }
    }
    part_of
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn kept(seconds: &[i64]) -> Vec<i64> {
        let timestamps: Vec<_> = seconds.iter().map(|s| Timestamp::new(*s, 0).unwrap()).collect();
        let keep = longest_rise(&timestamps);
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
    fn each_part_rises_and_together_they_are_everything() {
        let timestamps = [10, 11, 12, 3, 4, 13, 1].map(|s| Timestamp::new(s, 0).unwrap());
        let first = Some(0);
        let second = Some(1);
        let third = Some(2);
        let all = [first, first, first, second, second, first, third];
        assert_eq!(parts(&timestamps, 9), all);
        assert_eq!(parts(&timestamps, 2), [&all[..6], &[None]].concat());
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

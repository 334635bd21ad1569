//! Selects records so that time never goes back.

use crate::Timestamp;
use crate::longest_rise::longest_rise;

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
}

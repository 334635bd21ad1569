//! The buckets of histograms: the bounds of each, and to which histogram it belongs.

use hashbrown::HashMap;

use crate::{Instance, InstanceId};

/// A higher precision than any writer has.
const MAX_PRECISION: u32 = 32;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Bucket {
    /// The index of its histogram among those of the metric.
    pub(crate) histogram: usize,
    /// The least value in it.
    pub(crate) first: f64,
    /// The greatest value in it; `None` of the last bucket, which has no upper bound.
    pub(crate) last: Option<f64>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Buckets {
    /// Of one histogram, their instances' numbers.
    Numbered(NumberedBuckets),
    /// Of any number of histograms, their instances' names.
    Named(HashMap<InstanceId, Bucket>),
}

impl Buckets {
    /// Returns the buckets of one histogram, by their numbers; `None` for a precision that no
    /// writer uses.
    pub(crate) fn numbered(precision: u32, max: u64) -> Option<Self> {
        NumberedBuckets::new(precision, max).map(Self::Numbered)
    }

    /// Returns the buckets in the names of these instances: `96..103` after `bucket=` and the
    /// labels of the histogram, whose place `place` gives.
    pub(super) fn named(instances: &[Instance], place: impl Fn(&str) -> Option<usize>) -> Self {
        let buckets = instances.iter().filter_map(|instance| {
            let (labels, first, last) = parts(&instance.name)?;
            Some((instance.id, Bucket { histogram: place(labels)?, first, last }))
        });
        Self::Named(buckets.collect())
    }

    /// Returns the buckets of one histogram, whose instances' names are their bounds: `96..103`.
    pub(super) fn ranges(instances: &[Instance]) -> Self {
        let buckets = instances.iter().filter_map(|instance| {
            let (first, last) = bounds(&instance.name)?;
            Some((instance.id, Bucket { histogram: 0, first, last }))
        });
        Self::Named(buckets.collect())
    }

    pub(super) fn get(&self, id: InstanceId) -> Option<Bucket> {
        match self {
            Self::Numbered(numbered) => numbered.bucket(id.get()),
            Self::Named(named) => named.get(&id).copied(),
        }
    }
}

/// Returns the labels in a bucket's name, and its bounds: `path=/,bucket=96..103`, and
/// `bucket=120..` for the last one of a histogram without labels.
fn parts(name: &str) -> Option<(&str, f64, Option<f64>)> {
    let (labels, range) = name.rsplit_once("bucket=")?;
    let labels = if labels.is_empty() { labels } else { labels.strip_suffix(',')? };
    let (first, last) = bounds(range)?;
    Some((labels, first, last))
}

/// Returns the least and the greatest value of a bucket that is called `96..103`, or `120..` if
/// it is the last one.
fn bounds(range: &str) -> Option<(f64, Option<f64>)> {
    let (first, last) = range.split_once("..")?;
    let first: u64 = first.parse().ok()?;
    let last: Option<u64> = if last.is_empty() { None } else { Some(last.parse().ok()?) };
    Some((first as f64, last.map(|last| last as f64)))
}

/// Buckets given by the formula in `docs/mmv-format.md`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct NumberedBuckets {
    precision: u32,
    /// The bucket of all values that are higher than the domain's largest.
    last: u64,
}

impl NumberedBuckets {
    /// Returns the numbering, or `None` for a precision that no writer uses.
    pub(super) fn new(precision: u32, max: u64) -> Option<Self> {
        if precision > MAX_PRECISION {
            return None;
        }
        let of_max = match max.checked_ilog2().and_then(|log| log.checked_sub(precision)) {
            Some(shift) => (u64::from(shift) << precision) + (max >> shift),
            None => max,
        };
        Some(Self { precision, last: of_max + 1 })
    }

    fn bucket(self, number: i32) -> Option<Bucket> {
        let number = u64::try_from(number).ok().filter(|number| *number <= self.last)?;
        let first = self.start(number)?;
        if number == self.last {
            return Some(Bucket { histogram: 0, first, last: None });
        }
        let last = (self.start(number + 1)? - 1.0).max(first);
        Some(Bucket { histogram: 0, first, last: Some(last) })
    }

    /// Returns the lowest value of a bucket; `None` for numbers that none has.
    fn start(self, bucket: u64) -> Option<f64> {
        let each = 1u64 << self.precision;
        if bucket < each {
            return Some(bucket as f64);
        }
        let shift = bucket / each - 1;
        // Up to 2^64, where the one after the last bucket begins.
        let shift = i32::try_from(shift).ok().filter(|shift| *shift <= 64)?;
        Some((each + bucket % each) as f64 * 2f64.powi(shift))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_begin_where_the_formula_says() {
        // The names that the writer gives to the buckets of precision 1 up to 10:
        // 0..0 1..1 2..2 3..3 4..5 6..7 8..11 12..
        let buckets = NumberedBuckets::new(1, 10).unwrap();
        let starts: Vec<_> = (0..8).map(|bucket| buckets.start(bucket).unwrap()).collect();
        assert_eq!(starts, [0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0]);
        let lasts: Vec<_> = (0..8).map(|bucket| buckets.bucket(bucket).unwrap().last).collect();
        assert_eq!(lasts[..7], [0.0, 1.0, 2.0, 3.0, 5.0, 7.0, 11.0].map(Some));
        assert_eq!(lasts[7], None, "the last bucket has no upper bound");
        assert_eq!([8, -1].map(|bucket| buckets.bucket(bucket)), [None, None]);
    }

    #[test]
    fn the_largest_numbers_have_buckets_too() {
        for precision in [0, 1, 8, 32] {
            let buckets = NumberedBuckets::new(precision, u64::MAX).unwrap();
            let highest = i32::try_from(buckets.last - 1);
            if let Ok(highest) = highest {
                let Bucket { first, last, .. } = buckets.bucket(highest).unwrap();
                let middle = f64::midpoint(first, last.unwrap());
                assert!(middle > 2f64.powi(63) && middle < 2f64.powi(64), "{precision}: {middle}");
            }
        }
        assert_eq!(NumberedBuckets::new(33, 0), None);
        assert_eq!(NumberedBuckets::new(0, u64::MAX).unwrap().start(u64::MAX), None);
    }

    #[test]
    fn a_name_has_labels_and_both_bounds() {
        for (name, found) in [
            ("bucket=96..103", Some(("", 96.0, Some(103.0)))),
            ("bucket=120..", Some(("", 120.0, None))),
            ("path=/,bucket=0..0", Some(("path=/", 0.0, Some(0.0)))),
            ("bucket=7,bucket=1..2", Some(("bucket=7", 1.0, Some(2.0)))),
            ("path=/bucket=1..2", None),
            ("96..103", None),
            ("bucket=", None),
            ("bucket=1..x", None),
            ("bucket=-1..2", None),
        ] {
            assert_eq!(parts(name), found, "{name}");
        }
    }
}

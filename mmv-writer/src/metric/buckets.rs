//! The buckets of a histogram.

use pcp_types::Units;

/// The division of values into buckets: each power of two is split into `2^precision` buckets of
/// the same width, and small values have a bucket each.
///
/// A bucket is wider than its lowest value by a factor of at most `2^-precision`,
/// so a quantile read from a bucket's middle is off by at most half of that:
///
/// | precision | error | buckets for 1 ns to 100 s | to 2^64 |
/// |---|---|---|---|
/// | 0 | 50 % | 39 | 65 |
/// | 2 | 12.5 % | 143 | 252 |
/// | 3 | 6.3 % | 277 | 496 |
/// | 4 | 3.1 % | 537 | 976 |
/// | 5 | 1.6 % | 1040 | 1920 |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Buckets {
    precision: u32,
    /// `2^precision`, the number of buckets that a power of two is split into.
    split: u64,
    max: u64,
}

impl Buckets {
    /// Limit on the precision: more buckets would exceed the limits of readers.
    pub const MAX_PRECISION: u32 = 8;

    /// Makes buckets for the values from 0 to `max`. Higher ones are all counted in one more
    /// bucket. A precision above [`Buckets::MAX_PRECISION`] is reduced to it.
    pub const fn new(precision: u32, max: u64) -> Self {
        let precision =
            if precision > Self::MAX_PRECISION { Self::MAX_PRECISION } else { precision };
        Self { precision, split: 1 << precision, max }
    }

    /// Makes buckets for values in these units, of precision 3: times up to an hour, all other
    /// values up to 2^64.
    pub fn for_units(units: Units) -> Self {
        const HOUR: f64 = 3600.0;
        let is_time = (units.space_dimension(), units.time_dimension(), units.count_dimension());
        match (is_time, units.time_scale_in_seconds()) {
            ((0, 1, 0), Some(seconds)) => Self::new(3, (HOUR / seconds).max(1.0) as u64),
            _ => Self::new(3, u64::MAX),
        }
    }

    /// Returns the precision, at most [`Buckets::MAX_PRECISION`].
    pub const fn precision(self) -> u32 {
        self.precision
    }

    /// Returns the highest value that does not share its bucket with all higher ones.
    pub const fn max(self) -> u64 {
        self.max
    }

    /// Returns the number of buckets, including that of the highest values.
    pub const fn count(self) -> usize {
        let last = self.position(self.max);
        if self.start(last + 1).is_none() { last + 1 } else { last + 2 }
    }

    /// Returns the index of the bucket of a value.
    #[inline]
    pub const fn index(self, value: u64) -> usize {
        let position = self.position(value);
        let last = self.position(self.max);
        if position > last { last + 1 } else { position }
    }

    /// Returns the index of the bucket of a value, as if there were no highest one.
    ///
    /// This is the hot path of recording, hence without branches: small values, which
    /// have a bucket each, are computed as the next power of two.
    #[inline]
    pub(crate) const fn position(self, value: u64) -> usize {
        // Setting the lowest bit tells the compiler that the value is not 0.
        let shift = (value | self.split | 1).ilog2() - self.precision;
        // The leading bit of `value >> shift` counts as one more power of two.
        (shift as u64 * self.split + (value >> shift)) as usize
    }

    /// Returns the first and the last value of a bucket; `None` if there is no such bucket.
    pub fn bounds(self, index: usize) -> Option<(u64, u64)> {
        if index >= self.count() {
            return None;
        }
        let next = if index + 1 == self.count() { None } else { self.start(index + 1) };
        Some((self.start(index)?, next.map_or(u64::MAX, |next| next - 1)))
    }

    /// Returns the bucket's name: the bounds with `..` between them, or the first and `..` for the
    /// bucket of the highest values.
    pub(crate) fn name(self, index: usize) -> Option<String> {
        let (first, last) = self.bounds(index)?;
        Some(if last == u64::MAX { format!("{first}..") } else { format!("{first}..{last}") })
    }

    /// Returns the first value of a bucket, as if there were no highest one; `None` beyond 2^64.
    const fn start(self, position: usize) -> Option<u64> {
        let position = position as u64;
        if position < 1 << self.precision {
            return Some(position);
        }
        let shift = (position >> self.precision) - 1;
        if shift >= 64 - self.precision as u64 {
            return None;
        }
        Some((position - (shift << self.precision)) << shift)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_in_the_bucket_whose_bounds_hold_it() {
        for precision in 0..=Buckets::MAX_PRECISION {
            for max in [0, 1, 7, 8, 1000, 1 << 40, u64::MAX] {
                let buckets = Buckets::new(precision, max);
                let near = (0..64).flat_map(|bit| [0, 1, 2, 3].map(|add| (1u64 << bit) - 1 + add));
                for value in near.chain(0..2000).chain([max, max - max.min(1), u64::MAX]) {
                    let index = buckets.index(value);
                    let (first, last) = buckets.bounds(index).unwrap();
                    assert!((first..=last).contains(&value), "{value} in {first}..{last}");
                }
            }
        }
    }

    #[test]
    fn the_buckets_follow_each_other_from_0_to_the_end() {
        for precision in 0..=Buckets::MAX_PRECISION {
            for max in [0, 5, 1_000_000, u64::MAX - 1, u64::MAX] {
                let buckets = Buckets::new(precision, max);
                let mut next = Some(0);
                for index in 0..buckets.count() {
                    let (first, last) = buckets.bounds(index).unwrap();
                    assert_eq!(Some(first), next, "precision {precision}, max {max}");
                    next = last.checked_add(1);
                }
                assert_eq!(next, None);
                assert_eq!(buckets.bounds(buckets.count()), None);
            }
        }
    }

    #[test]
    fn a_bucket_is_as_narrow_as_promised() {
        for precision in 0..=Buckets::MAX_PRECISION {
            let buckets = Buckets::new(precision, u64::MAX);
            for index in 1..buckets.count() {
                let (first, last) = buckets.bounds(index).unwrap();
                assert!(last - first <= first >> precision, "{first}..{last}");
            }
        }
    }

    #[test]
    fn the_numbers_of_the_table_are_right() {
        let rows = [(0, 39, 65), (2, 143, 252), (3, 277, 496), (4, 537, 976), (5, 1040, 1920)];
        for (precision, seconds, all) in rows {
            assert_eq!(Buckets::new(precision, 100_000_000_000).count(), seconds);
            assert_eq!(Buckets::new(precision, u64::MAX).count(), all);
        }
    }

    #[test]
    fn times_have_buckets_up_to_an_hour_in_their_units() {
        let most = |units| Buckets::for_units(units).max();
        assert_eq!(most(Units::nanoseconds()), 3_600_000_000_000);
        assert_eq!(most(Units::microseconds()), 3_600_000_000);
        assert_eq!(most(Units::seconds()), 3600);
        let day = Units::new([0, 1, 0], [0, 5, 0]).unwrap();
        assert_eq!(most(day), 1);
        for units in [Units::bytes(), Units::NONE, Units::seconds().per_second()] {
            assert_eq!(most(units), u64::MAX, "{units}");
        }
    }

    #[test]
    fn a_name_has_the_bounds() {
        let buckets = Buckets::new(1, 10);
        let names: Vec<_> =
            (0..buckets.count()).map(|index| buckets.name(index).unwrap()).collect();
        assert_eq!(names, ["0..0", "1..1", "2..2", "3..3", "4..5", "6..7", "8..11", "12.."]);
    }
}

//! Numbers without a pattern, which are the same in every run.

/// Mixes all bits of a number (the output function of `SplitMix64`, Steele, Lea and Flood, "Fast
/// splittable pseudorandom number generators", 2014). `peers/write.c` has the same in C.
///
/// A multiplication alone would do no such thing: its results for 0, 1, 2, ... have four different
/// first differences, and any columnar codec sees them.
pub(crate) fn mix(mut bits: u64) -> u64 {
    bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(mix(seed))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(1);
        mix(self.0)
    }

    /// Returns a number from 0 to `limit`, exclusive.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }

    /// Returns a number from 0 to `limit`, exclusive, where small numbers are more likely.
    pub(crate) fn skewed(&mut self, limit: u64) -> u64 {
        let limit = 1 + self.below(limit);
        self.below(limit)
    }

    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a number of the standard normal distribution (Box and Muller).
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }
}

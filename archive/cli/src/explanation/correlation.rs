//! Cross-correlation of two series over lags.
//!
//! **Source**: G. E. P. Box, G. M. Jenkins, "Time Series Analysis" (1970), chapter 11.

const MIN_COMMON: usize = 8;

/// Returns the correlation of greatest magnitude between a series and another one that is up to
/// `most` places earlier or later. NaN is a missing value.
pub(super) fn strongest_correlation(one: &[f64], other: &[f64], most: usize) -> f64 {
    let mut strongest = 0.0_f64;
    for lag in 0..=most {
        let later = correlation(one, other.get(lag..).unwrap_or_default());
        let earlier = correlation(one.get(lag..).unwrap_or_default(), other);
        for found in [later, earlier].into_iter().flatten() {
            if found.abs() > strongest.abs() {
                strongest = found;
            }
        }
    }
    strongest
}

/// Returns Pearson's correlation of two series that begin together.
fn correlation(one: &[f64], other: &[f64]) -> Option<f64> {
    let pairs = one.iter().zip(other).filter(|(one, other)| one.is_finite() && other.is_finite());
    let mut count = 0_usize;
    let mut sums = (0.0, 0.0);
    for (one, other) in pairs.clone() {
        count += 1;
        sums.0 += one;
        sums.1 += other;
    }
    if count < MIN_COMMON {
        return None;
    }
    let means = (sums.0 / count as f64, sums.1 / count as f64);
    let mut squares = (0.0, 0.0);
    let mut products = 0.0;
    for (one, other) in pairs {
        let distances = (one - means.0, other - means.1);
        squares.0 += distances.0 * distances.0;
        squares.1 += distances.1 * distances.1;
        products += distances.0 * distances.1;
    }
    let deviation = (squares.0 * squares.1).sqrt();
    (deviation > 0.0).then(|| products / deviation)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By numpy 2.3: `corrcoef(one, other)[0, 1]`.
    #[test]
    fn a_correlation_is_that_of_numpy() {
        let one = [1.0, 4.0, 2.0, 8.0, 5.0, 7.0, 1.0, 4.0, 2.0, 8.0];
        let other = [2.0, 7.0, 1.0, 8.0, 2.0, 8.0, 1.0, 8.0, 2.0, 8.0];
        let found = strongest_correlation(&one, &other, 0);
        assert!((found - 0.805_556_465_519_33).abs() < 1e-12, "{found}");
    }

    #[test]
    fn a_series_that_follows_another_is_correlated_at_a_lag() {
        let wave = |place: i32| f64::from(place * place * 7919 % 31);
        let one: Vec<f64> = (0..40).map(wave).collect();
        let later: Vec<f64> = (0..40).map(|place| -wave(place - 3)).collect();
        assert!(strongest_correlation(&one, &later, 0).abs() < 0.5);
        assert!(strongest_correlation(&one, &later, 3) < -0.999);
        assert!(strongest_correlation(&later, &one, 3) < -0.999);
        let few = [f64::NAN; 40];
        assert!(strongest_correlation(&one, &few, 3).abs() < f64::MIN_POSITIVE);
    }
}

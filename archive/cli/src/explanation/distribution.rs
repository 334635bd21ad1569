//! The Kolmogorov-Smirnov test: whether two samples have the same distribution.
//!
//! **Source**: W. H. Press and others, "Numerical Recipes", 3rd edition (2007), section 14.3.3, for
//! the approximation of the probability (M. A. Stephens, J. R. Statist. Soc. B 32 (1970)).

/// Returns the largest distance between the distribution functions of two samples.
pub(super) fn distribution_distance(one: &[f64], other: &[f64]) -> f64 {
    let mut one = one.to_vec();
    let mut other = other.to_vec();
    one.sort_unstable_by(f64::total_cmp);
    other.sort_unstable_by(f64::total_cmp);
    let mut distance = 0.0_f64;
    for value in one.iter().chain(&other) {
        let below = one.partition_point(|own| own <= value) as f64 / one.len() as f64;
        let other_below = other.partition_point(|own| own <= value) as f64 / other.len() as f64;
        distance = distance.max((below - other_below).abs());
    }
    distance
}

/// Returns the probability of at least this distance between samples of one distribution.
pub(super) fn distance_significance(distance: f64, one: usize, other: usize) -> f64 {
    let effective = one as f64 * other as f64 / (one + other) as f64;
    let root = effective.sqrt();
    let scaled = (root + 0.12 + 0.11 / root) * distance;
    if scaled < 0.3 {
        return 1.0;
    }
    let mut sum = 0.0;
    let mut sign = 1.0;
    for term in 1..=100 {
        let exponent = -2.0 * f64::from(term * term) * scaled * scaled;
        sum += sign * exponent.exp();
        sign = -sign;
    }
    (2.0 * sum).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By scipy 1.16: `ks_2samp(one, other).statistic`, and `kstwobign.sf` of 0.5, 1.0, 1.36 and
    /// 2.0.
    #[test]
    fn distances_and_probabilities_are_those_of_scipy() {
        let one = [1.2, 3.4, 2.2, 5.1, 4.4, 0.3, 2.9, 3.8];
        let other = [4.1, 6.2, 5.5, 7.3, 3.9, 6.6];
        assert!((distribution_distance(&one, &other) - 0.75).abs() < 1e-12);
        assert!(distribution_distance(&one, &one).abs() < 1e-12);
        // The correction for the number of values vanishes as it grows.
        let many = 200_000_000;
        for (scaled, expected) in
            [(0.5, 0.963_945_2), (1.0, 0.269_999_7), (1.36, 0.049_485_88), (2.0, 6.709_252_6e-4)]
        {
            let found = distance_significance(scaled / 1e4, many, many);
            assert!((found / expected - 1.0).abs() < 1e-3, "{scaled}: {found}");
        }
        assert!(distance_significance(0.0, 10, 10) >= 1.0);
    }

    #[test]
    fn a_few_events_of_a_rare_kind_are_alike() {
        let before = vec![0.0; 300];
        let mut during = vec![0.0; 100];
        during[3] = 1.0;
        during[70] = 1.0;
        let distance = distribution_distance(&before, &during);
        assert!(distance_significance(distance, 300, 100) > 0.9);
        let during = vec![1.0; 10];
        let distance = distribution_distance(&before, &during);
        assert!(distance_significance(distance, 300, 10) < 1e-6);
    }
}

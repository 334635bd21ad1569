//! Buckets by their numbers, and quantiles of counts.

use super::*;

#[test]
fn buckets_begin_where_the_formula_says() {
    // The names that the writer gives to the buckets of precision 1 up to 10:
    // 0..0 1..1 2..2 3..3 4..5 6..7 8..11 12..
    let buckets = Buckets::new(1, 10).unwrap();
    let starts: Vec<_> = (0..8).map(|bucket| buckets.start(bucket).unwrap()).collect();
    assert_eq!(starts, [0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0]);
    let middles: Vec<_> = (0..9).map(|bucket| buckets.middle(bucket)).collect();
    let known = [0.0, 1.0, 2.0, 3.0, 4.5, 6.5, 9.5, 12.0].map(Some);
    assert_eq!((&middles[..8], middles[8]), (&known[..], None));
    assert_eq!(buckets.middle(-1), None);
}

#[test]
fn the_largest_numbers_have_buckets_too() {
    for precision in [0, 1, 8, 32] {
        let buckets = Buckets::new(precision, u64::MAX).unwrap();
        let highest = i32::try_from(buckets.last - 1);
        if let Ok(highest) = highest {
            let middle = buckets.middle(highest).unwrap();
            assert!(middle > 2f64.powi(63) && middle < 2f64.powi(64), "{precision}: {middle}");
        }
    }
    assert_eq!(Buckets::new(33, 0), None);
    assert_eq!(Buckets::new(0, u64::MAX).unwrap().start(u64::MAX), None);
}

#[test]
fn a_quantile_is_the_middle_of_the_bucket_that_reaches_it() {
    let buckets = Buckets::new(1, 1000).unwrap();
    let grown = [(4, 30.0), (5, 60.0), (6, 10.0), (7, 0.0)];
    for (quantile, value) in
        [(0.0, 4.5), (0.3, 4.5), (0.31, 6.5), (0.5, 6.5), (0.9, 6.5), (0.99, 9.5), (1.0, 9.5)]
    {
        assert_eq!(buckets.quantile(&grown, quantile), Some(value), "{quantile}");
    }
    assert_eq!(buckets.quantile(&[(4, 0.0)], 0.5), None, "nothing was counted");
    assert_eq!(buckets.quantile(&[], 0.5), None);
}

#[test]
fn a_name_has_the_quantile_in_percent() {
    let names = [0.5, 0.99, 0.999, 0.9999, 1.0, 0.0].map(|one| percent(one).to_string());
    assert_eq!(names, ["50", "99", "99.9", "99.99", "100", "0"]);
}

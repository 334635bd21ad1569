use std::sync::Arc;

use proptest::collection::btree_map;
use proptest::prelude::*;

use super::*;
use crate::samples::{BucketBounds, stale_value};

/// Returns a sample of buckets of whole numbers: the first and last value of each, and its count.
fn point(buckets: &[(u64, Option<u64>, u64)], is_reset: bool) -> Point {
    let bounds: Vec<BucketBounds> = buckets
        .iter()
        .map(|&(first, last, _)| BucketBounds {
            lower: first.checked_sub(1).map(|lower| lower as f64),
            middle: last.map_or(first as f64, |last| f64::midpoint(first as f64, last as f64)),
            upper: last.map(|last| last as f64),
        })
        .collect();
    let counts = buckets.iter().map(|bucket| bucket.2).collect();
    let counts = BucketCounts { bounds: bounds.into(), counts, is_reset };
    let buckets = Some(Arc::new(counts));
    Point { series: 0, milliseconds: 5, value: 1.5, start: 3, buckets }
}

/// Returns the counts of buckets by number, as a receiver reads them.
fn decoded(histogram: &Histogram) -> BTreeMap<i32, u64> {
    let mut counts = BTreeMap::new();
    let mut deltas = histogram.deltas.iter();
    let mut number = 0;
    let mut count = 0;
    for span in &histogram.spans {
        number += span.offset;
        for _ in 0..span.length {
            count += deltas.next().expect("a delta for each bucket of a span");
            counts.insert(number, u64::try_from(count).expect("a count"));
            number += 1;
        }
    }
    assert_eq!(deltas.next(), None);
    counts
}

#[test]
fn a_custom_histogram_has_the_bytes_of_its_definition() {
    let point = point(&[(1, Some(1), 4), (2, Some(2), 3), (8, Some(9), 7), (12, None, 1)], true);
    let histogram = Histogram::new(&point, FamilyPart::CustomBuckets);
    // The bounds 0, 1, 2, 7, 9, 11.
    let bounds = [0.0, 1.0, 2.0, 7.0, 9.0, 11.0];
    let mut expected = vec![0x08, 15];
    expected.push(0x19);
    expected.extend(1.5_f64.to_le_bytes());
    // The schema -53 and the count of zeros.
    expected.extend([0x20, 105, 0x30, 0]);
    // Spans at 1 of 2, at 4 of 1, at 6 of 1; offsets count from the end of the one before.
    expected.extend([0x5a, 4, 0x08, 2, 0x10, 2]);
    expected.extend([0x5a, 4, 0x08, 2, 0x10, 1]);
    expected.extend([0x5a, 4, 0x08, 2, 0x10, 1]);
    // +4 -1 +4 -6.
    expected.extend([0x62, 4, 8, 1, 8, 11]);
    expected.extend([0x70, 1, 0x78, 5]);
    expected.extend([0x82, 0x01, 48]);
    expected.extend(bounds.iter().flat_map(|bound: &f64| bound.to_le_bytes()));
    expected.extend([0x88, 0x01, 3]);
    assert_eq!(histogram.encode_to_vec(), expected);
}

#[test]
fn a_stale_marker_is_a_sum_without_buckets() {
    for (part, schema) in [
        (FamilyPart::CustomBuckets, CUSTOM_SCHEMA),
        (FamilyPart::ExponentialBuckets, EXPONENTIAL_SCHEMA),
    ] {
        let marker =
            Point { series: 0, milliseconds: 5, value: stale_value(), start: 0, buckets: None };
        let histogram = Histogram::new(&marker, part);
        assert_eq!(histogram.sum.to_bits(), 0x7ff0_0000_0000_0002);
        assert_eq!((histogram.schema, histogram.count), (schema, Some(0)));
        assert_eq!(histogram.spans, []);
    }
}

#[test]
fn the_exponential_bucket_of_a_value_contains_it() {
    let per_power = f64::from(1 << EXPONENTIAL_SCHEMA);
    for value in [1e-9, 0.25, 0.3, 1.0, 1.5, 2.0, 1000.0, 1e300, f64::MIN_POSITIVE] {
        let number = f64::from(number(value));
        assert!(value <= (number / per_power).exp2() * (1.0 + 1e-13), "{value}");
        assert!(value > ((number - 1.0) / per_power).exp2() * (1.0 - 1e-13), "{value}");
    }
    // Powers of two end a bucket.
    assert_eq!([0.25, 0.5, 1.0, 2.0].map(number), [-512, -256, 0, 256]);
}

/// Returns the buckets of precision 3 with these numbers, and their counts.
fn buckets(counts: &BTreeMap<u64, u64>) -> Vec<(u64, Option<u64>, u64)> {
    let start = |number: u64| match number / 8 {
        0 => number,
        power => (8 + number % 8) << (power - 1),
    };
    let bucket = |(&number, &count)| (start(number), Some(start(number + 1) - 1), count);
    counts.iter().map(bucket).collect()
}

proptest! {
    #[test]
    fn receivers_read_the_counts_of_the_archive(
        counts in btree_map(0_u64..400, 0_u64..1 << 40, 0..40),
    ) {
        let buckets = buckets(&counts);
        let point = point(&buckets, false);
        let all: u64 = counts.values().sum();

        let custom = Histogram::new(&point, FamilyPart::CustomBuckets);
        prop_assert_eq!(custom.count, Some(all));
        prop_assert!(custom.custom_values.is_sorted_by(|one, other| one < other));
        let mut found = Vec::new();
        for (number, count) in decoded(&custom) {
            let upper = custom.custom_values[number as usize];
            let below = (number as usize).checked_sub(1).map(|below| custom.custom_values[below]);
            let first = below.map_or(0, |below| below as u64 + 1);
            found.push((first, Some(upper as u64), count));
        }
        let hit = buckets.iter().filter(|bucket| bucket.2 > 0);
        // Above 2^53 doubles are not whole numbers.
        let expected: Vec<_> = hit.copied().collect();
        for (found, expected) in found.iter().zip(&expected) {
            prop_assert_eq!(found.2, expected.2);
            if expected.1 < Some(1 << 53) {
                prop_assert_eq!(found, expected);
            }
        }
        prop_assert_eq!(found.len(), expected.len());

        let exponential = Histogram::new(&point, FamilyPart::ExponentialBuckets);
        prop_assert_eq!(exponential.count, Some(all));
        let found = decoded(&exponential);
        let zeros = exponential.zero_count.unwrap();
        prop_assert_eq!(zeros, counts.get(&0).copied().unwrap_or(0));
        prop_assert_eq!(zeros + found.values().sum::<u64>(), all);
        // Each bucket has one of its own, in the same order.
        let own: Vec<u64> = expected.iter().filter(|bucket| bucket.0 > 0).map(|one| one.2).collect();
        prop_assert_eq!(found.values().copied().collect::<Vec<_>>(), own);
    }

    #[test]
    #[cfg(feature = "otlp")]
    fn dense_buckets_have_the_counts_of_sparse_ones(
        counts in btree_map(0_u64..400, 1_u64..1 << 40, 0..40),
        limit in 1_usize..300,
    ) {
        let point = point(&buckets(&counts), false);
        let sparse = Exponential::new(point.buckets.as_ref().unwrap());
        let dense = sparse.dense(limit);
        prop_assert!(dense.counts.len() <= limit);
        prop_assert!(dense.scale <= EXPONENTIAL_SCHEMA);
        let per_power = f64::from(dense.scale).exp2();
        let mut expected = dense.counts.clone();
        expected.fill(0);
        for bounds in point.buckets.as_ref().unwrap().occupied().filter(|one| one.0.middle > 0.0) {
            let number = (bounds.0.middle.log2() * per_power).ceil() as i32 - 1;
            expected[usize::try_from(number - dense.offset).unwrap()] += bounds.1;
        }
        prop_assert_eq!(&dense.counts, &expected);
        if dense.scale < EXPONENTIAL_SCHEMA {
            let numbers: Vec<i32> = sparse.buckets.keys().map(|number| number - 1).collect();
            let finer = EXPONENTIAL_SCHEMA - dense.scale - 1;
            let length = (numbers[numbers.len() - 1] >> finer) - (numbers[0] >> finer) + 1;
            prop_assert!(usize::try_from(length).unwrap() > limit, "a finer scale has room");
        }
    }
}

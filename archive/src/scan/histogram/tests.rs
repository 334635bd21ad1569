//! The layout of histograms with labels.

use test_archives::Builder;

use super::*;
use crate::Archive;

#[test]
fn a_layout_has_the_bounds_of_the_buckets_of_each_histogram() {
    let (_directory, base) = Builder::new()
        .metric("shop.latency.bucket", "u64 counter count")
        .metric("shop.latency.sum", "u64 counter microsec")
        .numbered_instances(
            "shop.latency.bucket",
            [(1, "path=/,bucket=4..5"), (2, "path=/,bucket=6..")],
        )
        .numbered_instances("shop.latency.sum", [(7, "path=/")])
        .labels("shop.latency.bucket", &[(UNITS, "microsec")])
        .row(0, [("shop.latency.bucket[1]", 1)])
        .finish()
        .into_parts();
    let archive = Archive::open(&base).unwrap();
    let id = |id| InstanceId::new(id).unwrap();
    let pmid = Pmid::new(70, 1, 2).unwrap();
    let desc = |name| archive.metadata().metric_by_name(name).unwrap().desc;
    let [bucket, sum] = ["shop.latency.bucket", "shop.latency.sum"].map(desc);
    let layout = HistogramLayout::find(archive.metadata(), "shop.latency.bucket", &bucket).unwrap();
    assert_eq!((layout.name(), layout.sum()), ("shop.latency", Some(pmid)));
    assert_eq!(layout.units(), Units::microseconds());
    let histogram = Some(id(7));
    let of =
        |number| layout.bucket(id(number)).map(|found| (found.histogram, found.first, found.last));
    assert_eq!(of(1), Some((histogram, 4.0, Some(5.0))));
    assert_eq!(of(2), Some((histogram, 6.0, None)));
    assert_eq!(of(3), None);
    assert!(HistogramLayout::find(archive.metadata(), "shop.latency.sum", &sum).is_none());
}

#[test]
fn numbers_that_become_other_buckets_keep_their_bounds() {
    let (_directory, base) = Builder::new()
        .metric("size.bucket", "u64 counter count")
        .labels("size.bucket", &[(UNITS, "byte")])
        .numbered_instances("size.bucket", [(0, "0..0"), (1, "1..1"), (2, "2..")])
        .domain_labels("size.bucket", &[(PRECISION, 1), (MAX, 1)])
        .row(0, [("size.bucket[0..0]", 1)])
        .numbered_instances("size.bucket", [(0, "0..0"), (1, "1..2"), (2, "3..")])
        .row(1, [("size.bucket[0..0]", 1)])
        .finish()
        .into_parts();
    let archive = Archive::open(&base).unwrap();
    let desc = archive.metadata().metric_by_name("size.bucket").unwrap().desc;
    let layout = HistogramLayout::find(archive.metadata(), "size.bucket", &desc).unwrap();
    let instances = archive.metadata().identities(desc.indom.unwrap()).unwrap().union();
    let mut found: Vec<_> = instances
        .iter()
        .map(|one| (one.name.to_string(), layout.bucket(one.id).map(|b| (b.first, b.last))))
        .collect();
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    let expected = [
        ("0..0", (0.0, Some(0.0))),
        ("1..1", (1.0, Some(1.0))),
        ("1..2", (1.0, Some(2.0))),
        ("2..", (2.0, None)),
        ("3..", (3.0, None)),
    ];
    assert_eq!(found, expected.map(|(name, bounds)| (name.to_owned(), Some(bounds))));
}

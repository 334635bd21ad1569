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
    let layout = HistogramLayout::of(archive.metadata(), "shop.latency.bucket", &bucket).unwrap();
    assert_eq!((layout.name(), layout.sum()), ("shop.latency", Some(pmid)));
    assert_eq!(layout.units(), Units::microseconds());
    let histogram = Some(id(7));
    let of =
        |number| layout.bucket(id(number)).map(|found| (found.histogram, found.first, found.last));
    assert_eq!(of(1), Some((histogram, 4.0, Some(5.0))));
    assert_eq!(of(2), Some((histogram, 6.0, None)));
    assert_eq!(of(3), None);
    assert!(HistogramLayout::of(archive.metadata(), "shop.latency.sum", &sum).is_none());
}

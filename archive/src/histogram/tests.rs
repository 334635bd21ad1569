//! The layout of histograms with labels.

use super::*;
use crate::{
    Archive, ArchiveWriter, FetchResult, LabelClass, LabelSet, OwnedValue, ValueSet, ValueType,
    WriterOptions, test_support,
};

#[test]
fn a_layout_has_the_bounds_of_the_buckets_of_each_histogram() {
    let directory = tempfile::tempdir().unwrap();
    let base = directory.path().join("a");
    let id = |id| InstanceId::new(id).unwrap();
    let mut writer =
        ArchiveWriter::create(&base, test_support::label(), WriterOptions::default()).unwrap();
    let (buckets, paths) = (InDom::new(70, 1).unwrap(), InDom::new(70, 2).unwrap());
    let (semantics, value_type) = (Semantics::Counter, ValueType::U64);
    let bucket = MetricDesc {
        pmid: Pmid::new(70, 1, 1).unwrap(),
        value_type,
        indom: Some(buckets),
        semantics,
        units: Units::count(),
    };
    let pmid = Pmid::new(70, 1, 2).unwrap();
    let sum = MetricDesc { pmid, indom: Some(paths), units: Units::microseconds(), ..bucket };
    writer.declare_metric(&bucket, &["shop.latency.bucket"]).unwrap();
    writer.declare_metric(&sum, &["shop.latency.sum"]).unwrap();
    let named = |all: &[(i32, &str)]| -> Vec<Instance> {
        all.iter()
            .map(|(number, name)| Instance { id: id(*number), name: (*name).into() })
            .collect()
    };
    writer
        .declare_indom(buckets, &named(&[(1, "path=/,bucket=4..5"), (2, "path=/,bucket=6..")]))
        .unwrap();
    writer.declare_indom(paths, &named(&[(7, "path=/")])).unwrap();
    let units = LabelSet::from_pairs(LabelClass::Item, [(UNITS, "\"microsec\"", false)]).unwrap();
    writer.declare_labels(LabelTarget::Item(bucket.pmid), &[units]).unwrap();
    let timestamp = Timestamp::new(1_700_000_000, 0).unwrap();
    let values = Ok(vec![(Some(id(1)), OwnedValue::U64(1))]);
    let value_sets = vec![ValueSet { pmid: bucket.pmid, values }];
    writer.write_result(&FetchResult { timestamp, value_sets }).unwrap();
    writer.finish().unwrap();

    let archive = Archive::open(&base).unwrap();
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

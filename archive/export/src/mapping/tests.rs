use pcp_archive::{InstanceId, Units};
use test_archives::{Builder, Cell};

use super::*;

fn desc(item: u32, semantics: Semantics, units: &str) -> MetricDesc {
    MetricDesc {
        pmid: Pmid::new(70, 1, item).unwrap(),
        value_type: ValueType::U64,
        indom: None,
        semantics,
        units: units.parse().unwrap(),
    }
}

fn mapping(archives: &[&[(&str, MetricDesc)]]) -> Mapping {
    let mut mapping = Mapping::new();
    for metrics in archives {
        let archive = archive(metrics, |builder| builder);
        mapping.set_metadata(archive.metadata());
    }
    mapping
}

fn archive(
    metrics: &[(&str, MetricDesc)],
    more: impl FnOnce(Builder) -> Builder,
) -> pcp_archive::Archive {
    let declare =
        |builder: Builder, (name, desc): &(&str, MetricDesc)| builder.described(name, *desc);
    let builder = more(metrics.iter().fold(Builder::new(), declare));
    let archive = builder.row(0, [(metrics[0].0, Cell::Absent)]).finish();
    pcp_archive::Archive::open(&archive).unwrap()
}

#[test]
fn a_metric_has_the_name_type_and_unit_of_the_table() {
    use Semantics::{Counter, Discrete, Instant};
    for (metric, semantics, units, column, sample, unit, kind) in [
        (
            "mmv.shop.orders",
            Counter,
            "count",
            "mmv_shop_orders",
            "mmv_shop_orders_total",
            "",
            Kind::Counter,
        ),
        (
            "mmv.shop.orders_total",
            Counter,
            "count",
            "mmv_shop_orders",
            "mmv_shop_orders_total",
            "",
            Kind::Counter,
        ),
        (
            "mmv.shop.busy",
            Counter,
            "microsec",
            "mmv_shop_busy",
            "mmv_shop_busy_seconds_total",
            "seconds",
            Kind::Counter,
        ),
        (
            "mmv.shop.age",
            Instant,
            "millisec",
            "mmv_shop_age",
            "mmv_shop_age_seconds",
            "seconds",
            Kind::Gauge,
        ),
        (
            "mmv.shop.age_seconds",
            Instant,
            "sec",
            "mmv_shop_age_seconds",
            "mmv_shop_age_seconds",
            "seconds",
            Kind::Gauge,
        ),
        ("mem.free", Discrete, "Kbyte", "mem_free", "mem_free_bytes", "bytes", Kind::Gauge),
        (
            "net.rate",
            Instant,
            "byte / sec",
            "net_rate",
            "net_rate_bytes_per_second",
            "bytes_per_second",
            Kind::Gauge,
        ),
    ] {
        let mapping = mapping(&[&[(metric, desc(1, semantics, units))]]);
        let [family] = mapping.families() else { panic!("{:?}", mapping.families()) };
        let found = (family.base.as_str(), family.sample_name(), family.unit.as_str(), family.kind);
        assert_eq!(found, (column, sample.to_owned(), unit, kind), "{metric}");
        assert_eq!(mapping.role(Pmid::new(70, 1, 1).unwrap()), Role::Family(0));
    }
}

#[test]
fn names_that_become_one_differ_by_a_suffix_in_any_order() {
    let gauge = |item| desc(item, Semantics::Instant, "");
    let (dots, line) = (("a.b.c", gauge(1)), ("a.b_c", gauge(2)));
    let other = format!("a_b_c{}", name::suffix("a.b_c"));
    for metrics in [[dots, line], [line, dots]] {
        let mapping = mapping(&[&metrics]);
        let of = |pmid| match mapping.role(pmid) {
            Role::Family(id) => mapping.family(id).unwrap().name.clone(),
            role => panic!("{role:?}"),
        };
        assert_eq!((of(dots.1.pmid), of(line.1.pmid)), ("a_b_c".to_owned(), other.clone()));
    }
}

#[test]
fn a_family_keeps_its_name_when_others_come() {
    let gauge = |item| desc(item, Semantics::Instant, "");
    let mapping = mapping(&[&[("a.b_c", gauge(2))], &[("a.b.c", gauge(1)), ("a.b_c", gauge(9))]]);
    let names: Vec<&str> = mapping.families().iter().map(|family| family.name.as_str()).collect();
    assert_eq!(names, ["a_b_c", &*format!("a_b_c{}", name::suffix("a.b.c"))]);
    assert_eq!(mapping.role(Pmid::new(70, 1, 9).unwrap()), Role::Family(0));
}

#[test]
fn no_sample_has_the_name_of_another_familys() {
    let counter = desc(1, Semantics::Counter, "count");
    let gauge = desc(2, Semantics::Instant, "");
    let mapping = mapping(&[&[("a.x", counter), ("a.x_total", gauge)]]);
    let names: Vec<String> = mapping.families().iter().map(Family::sample_name).collect();
    let other = format!("a_x_total{}", name::suffix("a.x_total"));
    assert_eq!(names, ["a_x_total".to_owned(), other]);
}

#[test]
fn what_is_no_number_is_left_out() {
    for (value_type, reason) in [
        (ValueType::String, LeftOut::Strings),
        (ValueType::Event, LeftOut::Events),
        (ValueType::HighresEvent, LeftOut::Events),
        (ValueType::Aggregate, LeftOut::Opaque),
    ] {
        let desc = MetricDesc { value_type, ..desc(1, Semantics::Instant, "") };
        let mapping = mapping(&[&[("a.b", desc)]]);
        assert_eq!(mapping.role(desc.pmid), Role::LeftOut(reason));
        assert!(mapping.families().is_empty());
    }
}

#[test]
fn the_metrics_of_a_histogram_are_one_family() {
    let bucket = desc(1, Semantics::Counter, "count");
    let sum = desc(2, Semantics::Counter, "microsec");
    let metrics = [("mmv.shop.latency.bucket", bucket), ("mmv.shop.latency.sum", sum)];
    let archive = archive(&metrics, |builder| {
        builder
            .instances("mmv.shop.latency.bucket", ["bucket=0..0", "bucket=1..7", "bucket=8.."])
            .labels("mmv.shop.latency.bucket", &[(HISTOGRAM_LABEL, "microsec")])
    });
    let mut mapping = Mapping::new();
    mapping.set_metadata(archive.metadata());
    let [family] = mapping.families() else { panic!("{:?}", mapping.families()) };
    assert_eq!((family.name.as_str(), family.kind), ("mmv_shop_latency_seconds", Kind::Histogram));
    assert_eq!(family.base, "mmv_shop_latency");
    assert_eq!(mapping.role(bucket.pmid), Role::Buckets(0));
    assert_eq!(mapping.role(sum.pmid), Role::Sum(0));
    let layout = mapping.layout(0).unwrap();
    assert_eq!(layout.units(), Units::microseconds());
    let bucket = layout.bucket(InstanceId::new(1).unwrap()).unwrap();
    assert_eq!((bucket.first, bucket.last), (1.0, Some(7.0)));
}

#[test]
fn the_label_with_the_owner_of_a_cluster_is_not_exported() {
    let builder = Builder::new().metric("m", "u32 instant none");
    let builder = builder.labels("m", &[("mmv_owner", "1000"), ("site", "north")]);
    let archive = builder.row(0, [("m", 1)]).finish();
    let archive = pcp_archive::Archive::open(&archive).unwrap();
    let desc = archive.metadata().metric_by_name("m").unwrap().desc;
    let labels = MetricLabels::new(archive.metadata(), &desc, None, "box", archive.end());
    let names: Vec<_> =
        labels.of_instance(None).iter().map(|label| label.name.to_string()).collect();
    assert_eq!(names, ["hostname", "site"]);
}

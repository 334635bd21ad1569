//! Structs of metrics that register themselves.

use mmv_format::layout::Flags;
use mmv_format::view::{Contents, Limits};
use mmv_writer::pcp::Semantics;
use mmv_writer::{
    Buckets, Counter, Error, Gauge, Histogram, Metrics, OwnedHistogram, Registry, Text, Timer,
    Units,
};
use tempfile::TempDir;

#[derive(Metrics)]
struct Shop {
    /// Orders taken
    /// since the start.
    ///
    /// Whatever became of them.
    #[metric(units = Units::count(), item = 77, label(owner = "sales", level = 3))]
    orders: Counter<u64>,
    #[metric(units = Units::microseconds(), help = "from order to answer")]
    latency: Histogram,
    store: Store,
    #[metric(flatten)]
    process: Process,
    #[metric(skip)]
    unused: Option<String>,
}

#[derive(Metrics)]
struct Store {
    #[metric(name = "queue.length", semantics = discrete, isolated)]
    queue: Gauge<u32>,
    #[metric(units = Units::microseconds())]
    packing: OwnedHistogram,
    #[metric(buckets = Buckets::new(0, 3))]
    parcels: Histogram,
}

#[derive(Metrics)]
struct Process {
    busy: Timer,
    r#type: Text,
}

fn directory() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn contents(registry: &Registry) -> Contents {
    let file = std::fs::File::open(registry.path()).unwrap();
    let contents = Contents::read(&file, &Limits::default()).unwrap();
    assert_eq!(contents.skipped, []);
    contents
}

fn open(registry: &Registry) -> Shop {
    let mut shop = Shop::register(registry).unwrap();
    shop.orders.add(5);
    shop.latency.record(1_000);
    shop.store.queue.set(3);
    shop.store.packing.record(1);
    shop.store.parcels.record(2);
    shop.process.busy.time(|| shop.process.r#type.set("small"));
    assert_eq!(shop.unused, None);
    shop
}

#[track_caller]
fn check(contents: &Contents) {
    let names: Vec<_> = contents.metrics.iter().map(|metric| metric.name.as_str()).collect();
    let expected = [
        "orders",
        "latency.bucket",
        "latency.sum",
        "store.queue.length",
        "store.packing.bucket",
        "store.packing.sum",
        "store.parcels.bucket",
        "store.parcels.sum",
        "busy",
        "type",
    ];
    assert_eq!(names, expected);
    let orders = &contents.metrics[0];
    assert_eq!(orders.short_help.as_deref(), Some("Orders taken since the start."));
    let long = "Orders taken\nsince the start.\n\nWhatever became of them.";
    assert_eq!(orders.long_help.as_deref(), Some(long));
    assert_eq!((orders.item, orders.units), (77, Units::count()));
    let labels = contents.labels.iter().map(|label| (label.name.as_str(), &*label.json_value));
    let labels: Vec<_> = labels.collect();
    assert!(labels.contains(&("owner", "\"sales\"")) && labels.contains(&("level", "3")));
    let sum = &contents.metrics[2];
    assert_eq!(
        (sum.short_help.as_deref(), sum.units),
        (Some("from order to answer"), Units::microseconds())
    );
    assert_eq!(contents.metrics[3].semantics, Semantics::Discrete);
    assert_eq!(contents.metrics[8].units, Units::nanoseconds());
    // Two histograms share their buckets.
    assert_eq!(contents.metrics[1].indom, contents.metrics[4].indom);
    assert_ne!(contents.metrics[1].indom, contents.metrics[6].indom);
    let buckets = Buckets::for_units(Units::microseconds());
    assert_eq!(contents.values_of(4).count(), buckets.count());
    assert!(contents.header.flags.contains(Flags::SENTINEL));
}

#[test]
fn derived_struct_is_registered_in_a_sealed_registry() {
    let directory = directory();
    let builder = Registry::builder("app").directory(directory.path());
    let registry = builder.sealed().build().unwrap();
    let _shop = open(&registry);
    registry.publish().unwrap();
    check(&contents(&registry));
}

#[test]
fn a_struct_is_registered_in_a_live_registry_as_in_a_sealed_one() {
    let directory = directory();
    let builder = Registry::builder("app").directory(directory.path());
    let registry = builder.build().unwrap();
    let _shop = open(&registry);
    registry.announce();
    check(&contents(&registry));
}

#[test]
fn a_struct_under_a_prefix_can_be_registered_several_times() {
    let directory = directory();
    let builder = Registry::builder("app").directory(directory.path());
    let registry = builder.sealed().build().unwrap();
    let _first = Process::register_under(&registry, "worker.a").unwrap();
    let _second = Process::register_under(&registry, "worker.b").unwrap();
    let again = Process::register_under(&registry, "worker.a").map(drop);
    let Err(Error::NameTaken { name, .. }) = again else { panic!("{again:?}") };
    assert_eq!(name, "worker.a.busy");
    registry.publish().unwrap();
    let contents = contents(&registry);
    let names: Vec<_> = contents.metrics.iter().map(|metric| metric.name.as_str()).collect();
    assert_eq!(names, ["worker.a.busy", "worker.a.type", "worker.b.busy", "worker.b.type"]);
}

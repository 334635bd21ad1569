//! What a program with many threads does, as a reader of the file finds it.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::Duration;

use mmv_format::view::{Contents, ValueEntry};
use mmv_tracing::MetricsLayer;
use mmv_writer::Registry;
use tempfile::TempDir;
use tracing::{Level, info_span};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Layer, SubscriberExt};

fn registry() -> (TempDir, Registry) {
    let directory = tempfile::tempdir().unwrap();
    let registry = Registry::builder("app").directory(directory.path());
    (directory, registry.build().unwrap())
}

/// The file's metrics with the sum of their values, and events by their instance.
fn found(path: &Path) -> BTreeMap<String, u64> {
    let bytes = std::fs::read(path).unwrap();
    let contents = Contents::parse(&bytes).unwrap();
    assert_eq!(contents.skipped, []);
    let name = |value: &ValueEntry| {
        let metric = &contents.metrics[value.metric].name;
        let indom = contents.metrics[value.metric].indom.and_then(|serial| contents.indom(serial));
        let instances = indom.into_iter().flat_map(|indom| &indom.instances);
        let mut instances = instances.filter(|instance| Some(instance.id) == value.instance);
        let instance = instances.next().map(|instance| instance.name.as_str());
        match instance.filter(|_| metric == "events") {
            Some(instance) => format!("{metric} {instance}"),
            None => metric.clone(),
        }
    };
    let mut sums = BTreeMap::new();
    for value in &contents.values {
        let at = value.cell as usize;
        let cell = u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
        // Buckets that were never hit have no value.
        *sums.entry(name(value)).or_default() += if cell == u64::MAX { 0 } else { cell };
    }
    sums
}

#[test]
fn spans_and_events_of_many_threads_are_counted_by_name_level_and_target() {
    let (_directory, registry) = registry();
    let layer = MetricsLayer::new(&registry).unwrap();
    let dispatch = tracing::Dispatch::new(
        tracing_subscriber::registry().with(layer.with_filter(LevelFilter::INFO)),
    );
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                tracing::dispatcher::with_default(&dispatch, || {
                    for _ in 0..500 {
                        let order = info_span!("order").entered();
                        tracing::info!(target: "shop", "taken");
                        // One that ends in another span's time, and one of the same name.
                        info_span!("read file").in_scope(|| tracing::warn!(target: "shop", "slow"));
                        let again = info_span!("order");
                        tracing::debug!(target: "shop", "not enabled");
                        drop(order);
                        drop(again);
                    }
                });
            });
        }
    });
    registry.announce();
    let found = found(registry.path());
    assert_eq!(found["events level=INFO,target=shop"], 2000);
    assert_eq!(found["events level=WARN,target=shop"], 2000);
    assert_eq!(found.keys().filter(|name| name.starts_with("events")).count(), 2);
    assert_eq!(found["span.order.bucket"], 4000);
    assert_eq!(found["span.read_file.bucket"], 2000);
    assert!(found["span.order.sum"] > found["span.read_file.sum"]);
    assert_eq!(found.len(), 6);
}

#[test]
fn a_span_takes_from_its_creation_to_its_end_in_any_thread() {
    let (_directory, registry) = registry();
    let layer = MetricsLayer::new(&registry).unwrap();
    let dispatch = tracing::Dispatch::new(tracing_subscriber::registry().with(layer));
    tracing::dispatcher::with_default(&dispatch, || {
        let span = info_span!("order");
        let moved = span.clone();
        let last = thread::spawn(move || {
            thread::sleep(Duration::from_millis(10));
            drop(moved);
        });
        span.in_scope(|| ());
        drop(span);
        last.join().unwrap();
    });
    registry.announce();
    let found = found(registry.path());
    assert_eq!(found["span.order.bucket"], 1);
    assert!((10_000_000..60_000_000_000).contains(&found["span.order.sum"]), "{found:?}");
}

#[test]
fn what_exceeds_the_limits_is_counted_together() {
    let (_directory, registry) = registry();
    let layer = MetricsLayer::builder(&registry).max_spans(2).max_events(1).build().unwrap();
    let subscriber = tracing_subscriber::registry().with(layer);
    tracing::subscriber::with_default(subscriber, || {
        for _ in 0..3 {
            drop(info_span!("a"));
            drop(info_span!("b"));
            drop(info_span!("c"));
            drop(info_span!("d"));
            tracing::info!(target: "one", "a");
            tracing::info!(target: "two", "b");
            tracing::info!(target: "three", "c");
            tracing::event!(target: "two", Level::ERROR, "d");
        }
    });
    registry.announce();
    let found = found(registry.path());
    let counts: Vec<_> = found.iter().filter(|(name, _)| !name.contains(".sum")).collect();
    let expected = [
        ("events level=ERROR,target=*", 3),
        ("events level=INFO,target=*", 6),
        ("events level=INFO,target=one", 3),
        ("span.a.bucket", 3),
        ("span.b.bucket", 3),
        ("span_overflow.bucket", 6),
    ];
    let counts: Vec<_> = counts.iter().map(|(name, count)| (name.as_str(), **count)).collect();
    assert_eq!(counts, expected);
}

#[test]
fn a_layer_goes_on_when_its_registry_is_withdrawn() {
    let (_directory, registry) = registry();
    let path = registry.path().to_owned();
    let layer = MetricsLayer::new(&registry).unwrap();
    assert!(MetricsLayer::new(&registry).is_err(), "events is there already");
    let subscriber = tracing_subscriber::registry().with(layer);
    tracing::subscriber::with_default(subscriber, || {
        drop(info_span!("before"));
        drop(registry.clone());
        assert!(path.exists());
        registry.withdraw();
        assert!(!path.exists());
        drop(info_span!("before"));
        drop(info_span!("after"));
        tracing::info!("after");
    });
}

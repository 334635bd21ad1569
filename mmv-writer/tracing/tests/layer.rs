//! What a program with many threads does, as a reader of the file finds it.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::Duration;

use mmv_format::view::{Contents, ValueLocation};
use mmv_tracing::MetricsLayer;
use mmv_writer::Registry;
use tempfile::TempDir;
use tracing::{field, info_span};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Layer, SubscriberExt};

fn registry() -> (TempDir, Registry) {
    let directory = tempfile::tempdir().unwrap();
    let registry = Registry::builder("app").directory(directory.path());
    (directory, registry.build().unwrap())
}

/// The sums of the values of each metric; of those by labels, of each set of labels.
fn found(path: &Path) -> BTreeMap<String, u64> {
    let bytes = std::fs::read(path).unwrap();
    let contents = Contents::parse(&bytes).unwrap();
    assert_eq!(contents.skipped, []);
    let name = |value: &ValueLocation| {
        let metric = &contents.metrics[value.metric].name;
        let indom = contents.metrics[value.metric].indom.and_then(|serial| contents.indom(serial));
        let instances = indom.into_iter().flat_map(|indom| &indom.instances);
        let mut instances = instances.filter(|instance| Some(instance.id) == value.instance);
        let instance = instances.next().map(|instance| instance.name.as_str());
        let labels = instance.filter(|instance| instance.contains('='));
        match labels.map(|labels| labels.split(",bucket=").next().unwrap_or(labels)) {
            Some(labels) => format!("{metric} {labels}"),
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
fn spans_and_events_of_many_threads_are_counted() {
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
    assert_eq!(found["events level=info"], 2000);
    assert_eq!(found["events level=warn"], 2000);
    for level in ["error", "debug", "trace"] {
        assert_eq!(found[&format!("events level={level}")], 0);
    }
    assert_eq!(found["span.order.bucket"], 4000);
    assert_eq!(found["span.read_file.bucket"], 2000);
    assert!(found["span.order.sum"] > found["span.read_file.sum"]);
    assert_eq!(found.len(), 9);
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
    let layer = MetricsLayer::builder(&registry).max_spans(2).build().unwrap();
    let subscriber = tracing_subscriber::registry().with(layer);
    tracing::subscriber::with_default(subscriber, || {
        for _ in 0..3 {
            drop(info_span!("a"));
            drop(info_span!("b"));
            drop(info_span!("c"));
            drop(info_span!("d"));
        }
    });
    registry.announce();
    let found = found(registry.path());
    let counts: Vec<_> = found.iter().filter(|(name, _)| name.contains(".bucket")).collect();
    let expected = [("span.a.bucket", 3), ("span.b.bucket", 3), ("span_overflow.bucket", 6)];
    let counts: Vec<_> = counts.iter().map(|(name, count)| (name.as_str(), **count)).collect();
    assert_eq!(counts, expected);
}

#[test]
fn chosen_fields_of_spans_are_labels() {
    let (_directory, registry) = registry();
    let layer = MetricsLayer::builder(&registry).fields(["endpoint", "http.code"]);
    let dispatch =
        tracing::Dispatch::new(tracing_subscriber::registry().with(layer.build().unwrap()));
    let answer = |endpoint: &str, code: u16| {
        let code_later = field::Empty;
        let span = info_span!("request", user = 7, http.code = code_later, endpoint);
        let _entered = span.enter();
        span.record("http.code", code);
        drop(info_span!("query", table = "orders"));
    };
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                tracing::dispatcher::with_default(&dispatch, || {
                    for _ in 0..100 {
                        answer("/cart", 200);
                        answer("/cart", 500);
                        answer("/", 200);
                        drop(info_span!("item", endpoint = ?Some(1)));
                    }
                });
            });
        }
    });
    tracing::dispatcher::with_default(&dispatch, || {
        // As their first span has labels, or none.
        drop(info_span!("item"));
        drop(info_span!("query", endpoint = "/"));
    });
    registry.announce();
    let found = found(registry.path());
    let counts: Vec<_> = found.iter().filter(|(name, _)| name.contains(".bucket")).collect();
    let counts: Vec<_> = counts.iter().map(|(name, count)| (name.as_str(), **count)).collect();
    let expected = [
        ("span.item.bucket endpoint=,http.code=", 1),
        ("span.item.bucket endpoint=Some(1)", 400),
        ("span.query.bucket", 1201),
        ("span.request.bucket endpoint=/,http.code=200", 400),
        ("span.request.bucket endpoint=/cart,http.code=200", 400),
        ("span.request.bucket endpoint=/cart,http.code=500", 400),
    ];
    assert_eq!(counts, expected);
    let bytes = std::fs::read(registry.path()).unwrap();
    let labels = Contents::parse(&bytes).unwrap().labels;
    assert!(labels.iter().any(|label| label.name == "http_code" && label.json_value == "\"500\""));
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

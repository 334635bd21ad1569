//! One thread that counts, sets and records.

use std::hint::black_box;

use hornet::client::Client;
use hornet::client::metric as hornet_metric;
use metrics::Recorder as _;
use metrics_exporter_prometheus::PrometheusBuilder;
use mmv_metrics::Recorder;
use mmv_writer::{Buckets, Counter, Registry, Units};
use prometheus_client::metrics as prometheus;

use crate::bare::{self, Page};
use crate::c::Programs;
use crate::clock::each;
use crate::contest::{Options, Rival, hold};

pub(crate) const METADATA: metrics::Metadata<'static> =
    metrics::Metadata::new("bench", metrics::Level::INFO, None);

/// Returns nanoseconds between 1 us and some milliseconds, as latencies are: each power of two is
/// as likely as the next.
fn latencies() -> [u64; 512] {
    let mut random = fastrand::Rng::with_seed(7);
    std::array::from_fn(|_| (1024 << random.u32(0..13)) + random.u64(0..1024))
}

pub(crate) fn measure(options: &Options, programs: &Programs) -> Result<(), String> {
    counters(options, programs)?;
    gauges(options, programs)?;
    histograms(options)
}

fn counters(options: &Options, programs: &Programs) -> Result<(), String> {
    let n = options.count;
    let registry = Registry::builder("counters").sealed().build().map_err(text_of)?;
    let mut owned = registry.counter("owned").owned().build().map_err(text_of)?;
    let shared = registry.counter("shared").build().map_err(text_of)?;
    let striped = registry.counter("striped").build_striped(4).map_err(text_of)?;
    let float = registry.metric::<Counter<f64>>("float").build().map_err(text_of)?;
    let _published = registry.publish().map_err(text_of)?;

    let mut page = Page::new()?;
    let [plain, atomic, compared] = page.words();
    let mut theirs = hornet_metric::Counter::new("counter", 0, "", "")?;
    let client = Client::new("hornet_counters").map_err(text_of)?;
    client.export(&mut [&mut theirs]).map_err(text_of)?;
    let family = prometheus::counter::Counter::<u64>::default();
    let float_of_theirs = prometheus::counter::Counter::<f64>::default();
    let recorder = PrometheusBuilder::new().build_recorder();
    let facade = recorder.register_counter(&metrics::Key::from_name("count"), &METADATA);
    let our_registry = Registry::builder("counters_of_the_facade").lenient();
    let our_registry = our_registry.build().map_err(text_of)?;
    let our_recorder = Recorder::new(&our_registry);
    let our_facade = our_recorder.register_counter(&metrics::Key::from_name("count"), &METADATA);

    hold(
        options,
        "add to an owned counter",
        None,
        vec![
            Rival::new("ours", || each(n, |_| owned.inc())),
            Rival::new("load and store", || each(n, |_| bare::load_and_store(plain))).at_most(1.5),
            Rival::fallible("libpcp_mmv", || programs.on_pcp("inc", n)),
            Rival::new("hornet", || {
                each(n, |_| {
                    let _ = theirs.up();
                })
            }),
        ],
    )?;
    hold(
        options,
        "add to a striped counter",
        None,
        vec![
            Rival::new("ours", || each(n, |_| striped.inc())),
            Rival::new("load and store", || each(n, |_| bare::load_and_store(plain))),
        ],
    )?;
    hold(
        options,
        "add to a shared counter",
        None,
        vec![
            Rival::new("ours", || each(n, |_| shared.inc())),
            Rival::new("atomic add", || each(n, |_| bare::atomic_add(atomic))).at_most(1.1),
            Rival::new("prometheus-client", || {
                each(n, |_| {
                    family.inc();
                })
            }),
            Rival::new("metrics + prometheus", || each(n, |_| facade.increment(1))),
            Rival::new("metrics + ours", || each(n, |_| our_facade.increment(1))),
        ],
    )?;
    hold(
        options,
        "add to a shared f64 counter",
        None,
        vec![
            Rival::new("ours", || each(n, |_| float.inc())),
            Rival::new("compare-exchange loop", || each(n, |_| bare::compare_exchange(compared))),
            Rival::new("prometheus-client", || {
                each(n, |_| {
                    float_of_theirs.inc();
                })
            }),
        ],
    )?;
    hold(
        options,
        "mmv_inc of our C interface",
        None,
        vec![
            Rival::fallible("ours", || programs.on_ours("inc", n)),
            Rival::fallible("atomic add", || programs.on_ours("atomic", n)).at_most(1.5),
            Rival::fallible("libpcp_mmv", || programs.on_pcp("inc", n)),
        ],
    )
}

fn gauges(options: &Options, programs: &Programs) -> Result<(), String> {
    let n = options.count;
    let registry = Registry::builder("gauges").sealed().build().map_err(text_of)?;
    let ours = registry.gauge("gauge").build().map_err(text_of)?;
    let _published = registry.publish().map_err(text_of)?;
    let mut page = Page::new()?;
    let [word] = page.words();
    let mut theirs = hornet_metric::Gauge::new("gauge", 0.0, "", "")?;
    let client = Client::new("hornet_gauges").map_err(text_of)?;
    client.export(&mut [&mut theirs]).map_err(text_of)?;
    let gauge = prometheus::gauge::Gauge::<f64, std::sync::atomic::AtomicU64>::default();
    let recorder = PrometheusBuilder::new().build_recorder();
    let facade = recorder.register_gauge(&metrics::Key::from_name("gauge"), &METADATA);
    let our_registry = Registry::builder("gauges_of_the_facade").lenient();
    let our_registry = our_registry.build().map_err(text_of)?;
    let our_recorder = Recorder::new(&our_registry);
    let our_facade = our_recorder.register_gauge(&metrics::Key::from_name("gauge"), &METADATA);
    hold(
        options,
        "set a gauge",
        None,
        vec![
            Rival::new("ours", || each(n, |turn| ours.set(number(turn)))),
            Rival::new("store", || each(n, |turn| bare::store(word, number(turn).to_bits())))
                .at_most(1.2),
            Rival::fallible("libpcp_mmv", || programs.on_pcp("set", n)),
            Rival::new("hornet", || {
                each(n, |turn| {
                    let _ = theirs.set(number(turn));
                })
            }),
            Rival::new("prometheus-client", || {
                each(n, |turn| {
                    gauge.set(number(turn));
                })
            }),
            Rival::new("metrics + prometheus", || each(n, |turn| facade.set(number(turn)))),
            Rival::new("metrics + ours", || each(n, |turn| our_facade.set(number(turn)))),
        ],
    )
}

fn histograms(options: &Options) -> Result<(), String> {
    let n = options.count;
    let registry = Registry::builder("histograms").sealed().build().map_err(text_of)?;
    let buckets = Buckets::new(3, 100_000_000_000);
    let shared = registry.histogram("shared").units(Units::nanoseconds());
    let shared = shared.buckets(buckets).build().map_err(text_of)?;
    let owned = registry.histogram("owned").units(Units::nanoseconds());
    let mut owned = owned.buckets(buckets).build_owned().map_err(text_of)?;
    let counter = registry.counter("counter").build().map_err(text_of)?;
    let _published = registry.publish().map_err(text_of)?;

    let mut theirs = hornet_metric::Histogram::new(
        "histogram",
        1,
        100_000_000_000,
        1,
        hornet_metric::Unit::new(),
        "",
        "",
    )
    .map_err(|_| "hornet's histogram")?;
    let client = Client::new("hornet_histograms").map_err(text_of)?;
    client.export(&mut [&mut theirs]).map_err(text_of)?;
    let bounds = prometheus::histogram::exponential_buckets(1024.0, 2.0, 20);
    let histogram = prometheus::histogram::Histogram::new(bounds);
    let recorder = PrometheusBuilder::new().build_recorder();
    let latency = metrics::Key::from_name("latency");
    let facade = recorder.register_histogram(&latency, &METADATA);
    let our_registry = Registry::builder("histograms_of_the_facade").lenient();
    let our_registry = our_registry.build().map_err(text_of)?;
    let our_recorder = Recorder::new(&our_registry);
    let text = metrics::SharedString::const_str("");
    our_recorder.describe_histogram("latency".into(), Some(metrics::Unit::Nanoseconds), text);
    let our_facade = our_recorder.register_histogram(&latency, &METADATA);
    let values = latencies();
    let value = |turn: u64| values[turn as usize % values.len()];
    hold(
        options,
        "record into a shared histogram",
        None,
        vec![
            Rival::new("ours", || each(n, |turn| shared.record(value(turn)))),
            Rival::new("our shared counter", || each(n, |turn| counter.add(value(turn))))
                .at_most(2.2),
            Rival::new("prometheus-client", || {
                each(n, |turn| histogram.observe(number(value(turn))))
            }),
            Rival::new("metrics + prometheus", || {
                let time = each(n, |turn| facade.record(number(value(turn))));
                recorder.handle().run_upkeep(); // Or it keeps all values.
                time
            }),
            Rival::new("metrics + ours", || each(n, |turn| our_facade.record(number(value(turn))))),
        ],
    )?;
    hold(
        options,
        "record into an owned histogram",
        Some(2.0),
        vec![
            Rival::new("ours", || each(n, |turn| owned.record(value(turn)))),
            Rival::new("hornet", || {
                each(n / 1000, |turn| {
                    let _ = theirs.record(value(turn));
                })
            }),
        ],
    )
}

/// Returns a number that the compiler does not know.
#[expect(clippy::cast_precision_loss, reason = "any number will do")]
fn number(turn: u64) -> f64 {
    black_box(turn as f64)
}

pub(crate) fn text_of(error: impl std::fmt::Display) -> String {
    error.to_string()
}

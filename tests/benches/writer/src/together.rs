//! Two threads that count at once.

use metrics::Recorder as _;
use metrics_exporter_prometheus::PrometheusBuilder;
use mmv_writer::Registry;
use mmv_writer::pcp::{IndomMetricExt as _, RegistryExt as _};
use prometheus_client::metrics as prometheus;

use crate::bare::{self, Page};
use crate::clock::each_of_two;
use crate::contest::{Options, Rival, hold};
use crate::updates::{METADATA, text_of};

pub(crate) fn measure(options: &Options) -> Result<(), String> {
    // Long enough for the two to run at once for most of the time.
    let n = options.count * 20;
    let options = &Options { rounds: options.rounds.div_ceil(3), ..options.clone() };
    let registry = Registry::builder("together").sealed().build().map_err(text_of)?;
    let shared = registry.counter("shared").build().map_err(text_of)?;
    let spread = registry.counter("spread").build_striped(4).map_err(text_of)?;
    let isolated = || registry.counter("isolated");
    let pair = registry.indom("pair").names(["left", "right"]).build().map_err(text_of)?;
    let pair = isolated().isolated().build_instances(&pair).map_err(text_of)?;
    let [Some(left), Some(right)] = [0, 1].map(|index| pair.get(index)) else {
        return Err("the pair".to_owned());
    };
    let _published = registry.publish().map_err(text_of)?;

    let mut page = Page::new()?;
    let [one, near, far] = page.words();
    let theirs = prometheus::counter::Counter::<u64>::default();
    let recorder = PrometheusBuilder::new().build_recorder();
    let facade = recorder.register_counter(&metrics::Key::from_name("count"), &METADATA);
    let ours = || each_of_two(n, [(); 2].map(|()| |_| shared.inc()));

    hold(
        options,
        "2 threads on one counter",
        None,
        vec![
            Rival::new("ours", ours),
            Rival::new("atomic add", || {
                each_of_two(n, [(); 2].map(|()| |_| bare::atomic_add(one)))
            }),
            Rival::new("prometheus-client", || {
                let work = |_| {
                    theirs.inc();
                };
                each_of_two(n, [work; 2])
            })
            .at_most(1.1),
            Rival::new("metrics + prometheus", || {
                each_of_two(n, [(); 2].map(|()| |_| facade.increment(1)))
            }),
        ],
    )?;
    hold(
        options,
        "2 threads on a striped counter",
        None,
        vec![
            Rival::new("ours", || each_of_two(n, [(); 2].map(|()| |_| spread.inc()))),
            Rival::new("our shared counter", ours).at_least(10.0),
        ],
    )?;
    hold(
        options,
        "2 threads on isolated neighbors",
        None,
        vec![
            Rival::new("ours", || each_of_two(n, [left, right].map(|own| move |_| own.inc()))),
            Rival::new("atomic adds far apart", || {
                each_of_two(n, [near, far].map(|word| move |_| bare::atomic_add(word)))
            })
            .at_most(1.2),
        ],
    )
}

//! What the layer costs: spans and events with it, next to a subscriber without layers.
//!
//! `cargo run --release -p mmv-tracing --example cost`

use std::thread;
use std::time::Instant;

use mmv_tracing::MetricsLayer;
use mmv_writer::Registry;
use tracing::Dispatch;
use tracing_subscriber::layer::SubscriberExt;

const EACH: u32 = 300_000;

/// Nanoseconds of one call of `work`, in each of several threads.
fn cost(dispatch: &Dispatch, threads: usize, work: fn()) -> f64 {
    let run = || {
        tracing::dispatcher::with_default(dispatch, || {
            work();
            let since = Instant::now();
            (0..EACH).for_each(|_| work());
            since.elapsed().as_nanos() as f64 / f64::from(EACH)
        })
    };
    thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        all.into_iter().map(|one| one.join().unwrap_or(f64::NAN)).fold(0.0, f64::max)
    })
}

fn main() -> Result<(), mmv_writer::Error> {
    let directory = std::env::temp_dir();
    let name = format!("cost_{}", std::process::id());
    let registry = Registry::builder(name).directory(directory).build()?;
    let without = Dispatch::new(tracing_subscriber::registry());
    let layer = MetricsLayer::builder(&registry).fields(["endpoint"]).build()?;
    let with = Dispatch::new(tracing_subscriber::registry().with(layer));
    let span: fn() = || drop(tracing::info_span!("span"));
    let labelled: fn() = || drop(tracing::info_span!("labelled", endpoint = "/cart"));
    let event: fn() = || tracing::info!("event");
    println!("nanoseconds            without    with");
    for threads in [1, 2] {
        for (what, work) in [("span", span), ("labelled", labelled), ("event", event)] {
            let (without, with) = (cost(&without, threads, work), cost(&with, threads, work));
            println!("{what:8} of {threads} threads {without:7.0} {with:7.0}");
        }
    }
    Ok(())
}

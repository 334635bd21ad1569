//! A histogram from a program to a quantile: writer, agent, archive, replay.

use mmv_archive::Archive;
use mmv_archive::replay::{Replay, Sample};
use mmv_writer::{Buckets, Registry, Units};

use crate::harness::agent::Agent;
use crate::harness::scratch::Scratch;

/// The quantiles that are compared, by the names that they get.
const QUANTILES: [(f64, &str); 5] =
    [(0.0, "p0"), (0.5, "p50"), (0.9, "p90"), (0.999, "p99.9"), (1.0, "p100")];
/// With a precision of 3 half a bucket is at most this part of a value.
const ERROR: f64 = 1.0 / 16.0;

/// Microseconds from 1 to some seconds, most of them small.
fn latency(number: u64) -> u64 {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    1 + (mixed >> 40) % (10 << (number % 20))
}

#[test]
fn quantiles_of_a_harvested_histogram_are_those_of_the_values_recorded() {
    let scratch = Scratch::new();
    let registry = Registry::builder("web").directory(scratch.mmv_dir()).sentinel();
    let registry = registry.build().unwrap();
    let buckets = registry.buckets(Buckets::new(3, 60_000_000)).unwrap();
    let counter = registry.counter::<u64>("latency").units(Units::microseconds());
    let histogram = counter.build_histogram(&buckets).unwrap();
    let served = registry.counter::<u64>("served").units(Units::count());
    let stripes = registry.indom("stripes").names(["0", "1", "2", "3"]).build().unwrap();
    let served = served.build_striped(&stripes).unwrap();
    let _published = registry.publish().unwrap();

    let mut agent = Agent::start(&scratch);
    let reached = |sum: u64| {
        agent.wait_for("the sum", |base| {
            let newest = Archive::open(base)
                .ok()
                .and_then(|archive| answers(&archive, |replay| replay.at(replay.end())));
            newest.is_some_and(|values| values.first() == Some(&(sum as f64)))
        });
    };
    reached(0);
    let mut values: Vec<u64> = (0..5_000).map(latency).collect();
    for value in &values {
        histogram.record(*value);
        served.claim().inc();
    }
    reached(values.iter().sum());
    assert!(agent.terminate().success());
    values.sort_unstable();

    let archive = Archive::open(agent.archive()).unwrap();
    let found = answers(&archive, |replay| {
        let first = replay.observations().find(|sample| !sample.is_mark)?.timestamp;
        replay.at_since(replay.end(), first)
    });
    let found = found.expect("two moments of the archive");
    for (place, (quantile, name)) in QUANTILES.into_iter().enumerate() {
        let rank = ((quantile * values.len() as f64).ceil() as usize).max(1);
        let expected = values[rank - 1] as f64;
        let found = found[1 + place];
        let error = (found - expected).abs() / expected;
        assert!(error <= ERROR, "{name}: {found} instead of {expected}");
    }
    assert_eq!(found.last(), Some(&5_000.0), "the stripes add up");
}

/// The sum of the histogram, its quantiles, and the sum over all stripes.
fn answers<'a>(
    archive: &'a Archive,
    ask: impl for<'r> Fn(&'r Replay<'a>) -> Option<Sample<'r>>,
) -> Option<Vec<f64>> {
    let mut selection = Replay::open(archive);
    selection.select("mmv.web.latency.bucket");
    let quantiles = QUANTILES.map(|(quantile, _)| quantile);
    // An archive begins with a prologue, when there is no histogram yet.
    if selection.quantiles(&quantiles) != 1 {
        return None;
    }
    selection.select("mmv.web.served");
    selection.sum_instances(false).unwrap();
    selection.select("mmv.web.latency.sum");
    let replay = selection.load().ok()?;
    let sample = ask(&replay)?;
    let numbers = sample.values.iter().map(|values| values.first().and_then(|(_, v)| v.as_f64()));
    Some(numbers.map(|number| number.unwrap_or(f64::NAN)).collect())
}

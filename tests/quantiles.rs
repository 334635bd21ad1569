//! A histogram from a program to a quantile: writer, agent, archive, replay.

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use metrics::{Unit, counter, describe_histogram, histogram, with_local_recorder};
use mmv_writer::pcp::RegistryBuilderExt as _;
use mmv_writer::{Buckets, Family, Histogram, Labels, Metrics, Registry, Units};
use pcp_archive::internal::programs::for_each_event;
use pcp_archive::raw::IndomHistory;
use pcp_archive::replay::{Replay, Sample};
use pcp_archive::{Archive, Source};

use crate::harness::agent::Agent;
use crate::harness::mmv_archive::printed_of;
use crate::harness::scratch::Scratch;

/// The quantiles that are compared, by the names that they get.
const QUANTILES: [(f64, &str); 5] =
    [(0.0, "p0"), (0.5, "p50"), (0.9, "p90"), (0.999, "p99.9"), (1.0, "p100")];
/// Limit on the relative error: half a bucket at a precision of 3.
const ERROR: f64 = 1.0 / 16.0;

/// Returns microseconds from 1 to some seconds, most of them small.
fn latency(number: u64) -> u64 {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    1 + (mixed >> 40) % (10 << (number % 20))
}

#[test]
fn quantiles_of_a_harvested_histogram_are_the_recorded_ones() {
    let scratch = Scratch::new();
    let registry = Registry::builder("web").directory(scratch.mmv_dir());
    let registry = registry.sealed().build().unwrap();
    let buckets = Buckets::new(3, 60_000_000);
    let counter = registry.histogram("latency").units(Units::microseconds());
    let histogram = counter.buckets(buckets).build().unwrap();
    let served = registry.counter("served").units(Units::count());
    let served = served.build_striped(4).unwrap();
    registry.publish().unwrap();

    let mut agent = Agent::start(&scratch);
    let reached = |sum: u64| {
        agent.wait_for("the sum", |base| {
            let newest = Archive::open(base)
                .ok()
                .and_then(|archive| answers(&archive, |replay| replay.sample_at(replay.end())));
            newest.is_some_and(|values| values.first() == Some(&(sum as f64)))
        });
    };
    reached(0);
    let mut values: Vec<u64> = (0..5_000).map(latency).collect();
    for value in &values {
        histogram.record(*value);
        served.inc();
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

/// By the agent's events: when a run ended, and that the next counted from 0.
#[test]
fn quantiles_over_a_restart_are_of_the_values_of_both_runs() {
    let scratch = Scratch::new();
    let options = ["--interval", "50ms", "--events", "true"];
    let mut agent = Agent::start_with(&scratch, &options);
    agent.wait_for("an archive", |base| Archive::open(base).is_ok());
    let ends = |base: &Path| {
        let mut count = 0;
        let archive = Archive::open(base).ok();
        let source = archive.as_ref().map(Source::from);
        let span = |source: &Source<'_>| source.start()..=source.end();
        let read = source.map(|source| {
            for_each_event(source, span(&source), |event| {
                count += usize::from(event.file == Some("web") && event.kind == "vanished");
            })
        });
        read.map_or(0, |read| read.map_or(0, |()| count))
    };
    let run = |number: usize, values: Range<u64>| {
        let registry = Registry::builder("web").directory(scratch.mmv_dir()).sentinel();
        let registry = registry.sealed().build().unwrap();
        let buckets = Buckets::new(3, 60_000_000);
        let counter = registry.histogram("latency").units(Units::microseconds());
        let histogram = counter.buckets(buckets).build().unwrap();
        registry.publish().unwrap();
        values.clone().for_each(|number| histogram.record(latency(number)));
        let sum = values.map(latency).sum::<u64>() as f64;
        agent.wait_for("the sum", |base| newest(base, "latency.sum") == Some(sum));
        registry.withdraw();
        agent.wait_for("the end", |base| ends(base) == number);
    };
    run(1, 0..3_000);
    run(2, 3_000..5_000);
    assert!(agent.terminate().success());

    let archive = Archive::open(agent.archive()).unwrap();
    let mut selection = Replay::open(&archive);
    selection.select("mmv.web.latency");
    assert_eq!(selection.quantiles(&[0.5, 0.9, 1.0]), 1);
    let replay = selection.load().unwrap();
    let sample = replay.at_since(replay.end(), archive.label().start).unwrap();
    let mut values: Vec<u64> = (0..5_000).map(latency).collect();
    values.sort_unstable();
    for (found, rank) in sample.values.iter().zip([2_500, 4_500, 5_000]) {
        let found = found.first().and_then(|(_, value)| value.as_f64()).expect("a quantile");
        let expected = values[rank - 1] as f64;
        assert!((found - expected).abs() / expected <= ERROR, "{found} instead of {expected}");
    }
}

/// Each set of labels has a histogram of its own; what another path takes, and what
/// the process did without a path, are not in it.
#[test]
fn quantiles_of_facade_histograms_are_by_label_set() {
    let scratch = Scratch::new();
    let file =
        Registry::builder("web").directory(scratch.mmv_dir()).announce_interval(Duration::ZERO);
    let recorder = mmv_metrics::Recorder::new(&file.build().unwrap());
    let record = |number: u64| {
        histogram!("latency", "path" => "/").record(latency(number) as f64);
        histogram!("latency", "path" => "/slow", "code" => "500").record(3e6);
        histogram!("size").record(0.25 * number as f64);
    };
    let mut agent = with_local_recorder(&recorder, || {
        describe_histogram!("latency", Unit::Microseconds, "how long requests take");
        record(0);
        let agent = Agent::start(&scratch);
        agent.wait_for("the first values", |base| newest(base, "size.sum") == Some(0.0));
        (1..=1_000).for_each(record);
        agent
    });
    let sum = (1..=1_000).sum::<u64>() as f64 * 250_000.0;
    // Buckets that are new may be announced later than values that change.
    let (each, both) = (Some(1_001.0), Some(2_002.0));
    agent.wait_for("the last values", |base| {
        newest(base, "size.sum") == Some(sum)
            && newest(base, "size.bucket") == each
            && newest(base, "latency_by.bucket") == both
    });
    assert!(agent.terminate().success());
    let mut values: Vec<u64> = (1..=1_000).map(latency).collect();
    values.sort_unstable();

    let archive = Archive::open(agent.archive()).unwrap();
    let mut selection = Replay::open(&archive);
    selection.select("mmv.web");
    assert_eq!(selection.quantiles(&[0.5, 0.99]), 2);
    selection.select("mmv.web.size.sum");
    let replay = selection.load().unwrap();
    let first = replay.observations().find(|sample| !sample.is_mark).unwrap().timestamp;
    let sample = replay.at_since(replay.end(), first).unwrap();
    let mut found = Vec::new();
    for (metric, values) in replay.metrics().zip(&sample.values).skip(1) {
        let indom = metric.desc.indom.and_then(|indom| archive.metadata().indom_history(indom));
        let names = indom.map(IndomHistory::union).unwrap_or_default();
        for (instance, value) in values {
            let name = names.iter().find(|one| Some(one.id) == *instance);
            let name = name.map_or("", |one| &one.name).to_owned();
            let units = metric.desc.units.to_string();
            found.push((metric.name.clone(), name, units, value.as_f64().unwrap()));
        }
    }
    found.sort_by(|one, other| one.partial_cmp(other).unwrap());
    let expected = [
        ("mmv.web.latency_by.p50", "code=500,path=/slow", "nanosec", 3e9),
        ("mmv.web.latency_by.p50", "path=/", "nanosec", values[499] as f64 * 1e3),
        ("mmv.web.latency_by.p99", "code=500,path=/slow", "nanosec", 3e9),
        ("mmv.web.latency_by.p99", "path=/", "nanosec", values[989] as f64 * 1e3),
        ("mmv.web.size.p50", "", "count x 10^-6", 125e6),
        ("mmv.web.size.p99", "", "count x 10^-6", 247.5e6),
    ];
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (found, (metric, instance, units, value)) in found.iter().zip(expected) {
        let error = (found.3 - value).abs() / value;
        let names = (found.0.as_str(), found.1.as_str(), found.2.as_str());
        assert_eq!(names, (metric, instance, units));
        assert!(error <= ERROR, "{found:?} instead of {value}");
    }
}

#[derive(Labels, Clone, PartialEq, Eq, Hash)]
struct Endpoint {
    endpoint: &'static str,
}

#[derive(Metrics)]
struct Web {
    /// Time to answer.
    #[metric(unit = "us")]
    latency: Family<Endpoint, Histogram>,
}

/// The program's log of each endpoint has the quantiles that `report` shows for its label.
#[test]
fn quantiles_by_label_of_a_family_are_those_of_the_programs_log() {
    let scratch = Scratch::new();
    let file =
        Registry::builder("web").directory(scratch.mmv_dir()).announce_interval(Duration::ZERO);
    let registry = file.build().unwrap();
    let web = Web::register(&registry).unwrap();
    let mut logs = [("/cart", Vec::new()), ("/search", Vec::new()), ("/a,b=c", Vec::new())];
    for (endpoint, _) in &logs {
        web.latency.get(&Endpoint { endpoint }).record(0);
    }
    let mut agent = Agent::start(&scratch);
    agent.wait_for("the first values", |base| newest(base, "latency.bucket") == Some(3.0));
    for number in 0..3_000 {
        let index = number as usize % logs.len();
        let (endpoint, log) = &mut logs[index];
        let value = latency(number) * (1 + index as u64);
        web.latency.get(&Endpoint { endpoint }).record(value);
        log.push(value);
    }
    let sum: u64 = logs.iter().flat_map(|(_, log)| log).sum();
    agent.wait_for("the values", |base| {
        newest(base, "latency.sum") == Some(sum as f64)
            && newest(base, "latency.bucket") == Some(3_003.0)
    });
    assert!(agent.terminate().success());
    for (endpoint, log) in &mut logs {
        log.sort_unstable();
        let selector = format!("mmv.web.latency{{endpoint=\"{endpoint}\"}}");
        let options = ["--quantile", "0.5,0.99", "--last", "1min", "-t", "1min", "--format", "csv"];
        let text = printed_of(&agent.archive(), &[&["report", &selector], &options[..]].concat());
        let row = text.lines().last().unwrap_or_default();
        let found: Vec<f64> = row.split(',').skip(2).map(|value| value.parse().unwrap()).collect();
        assert_eq!(found.len(), 2, "{text}");
        for (found, rank) in found.into_iter().zip([log.len() / 2, log.len() * 99 / 100]) {
            let expected = log[rank - 1] as f64;
            assert!(
                (found - expected).abs() / expected <= ERROR,
                "{endpoint}: {found}, {expected}"
            );
        }
    }
}

fn newest(base: &Path, metric: &str) -> Option<f64> {
    let archive = Archive::open(base).ok()?;
    let mut selection = Replay::open(&archive);
    selection.select(&format!("mmv.web.{metric}"));
    let replay = selection.load().ok()?;
    let sample = replay.sample_at(replay.end())?;
    let values = sample.values.first().filter(|values| !values.is_empty())?;
    values.iter().map(|(_, value)| value.as_f64()).sum()
}

/// Returns the sum of the histogram, its quantiles, and the sum over all stripes.
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

/// The labels of the facade are labels of the instances, which selectors in braces select.
#[test]
fn instances_of_the_facade_are_selected_by_labels() {
    let scratch = Scratch::new();
    let file =
        Registry::builder("web").directory(scratch.mmv_dir()).announce_interval(Duration::ZERO);
    let recorder = mmv_metrics::Recorder::new(&file.build().unwrap());
    let mut agent = with_local_recorder(&recorder, || {
        for (path, code, count) in [("/", "200", 7), ("/", "500", 2), ("/cart", "503", 3)] {
            counter!("requests", "path" => path, "code" => code).increment(count);
        }
        let agent = Agent::start(&scratch);
        agent.wait_for("the counts", |base| newest(base, "requests_by") == Some(12.0));
        agent
    });
    assert!(agent.terminate().success());
    let last = |selector: &str| -> Vec<String> {
        let options = ["report", selector, "--raw", "--format", "csv"];
        let text = printed_of(&agent.archive(), &options);
        let row = text.lines().last().unwrap_or_default();
        row.split(',').skip(2).map(str::to_owned).collect()
    };
    assert_eq!(last("mmv.web.requests_by{code=\"500\"}"), ["2"]);
    assert_eq!(last("mmv.web.requests_by{code=~\"5..\"}"), ["2", "3"]);
    assert_eq!(last("mmv.web.requests_by{path=\"/\",code!=\"500\"}"), ["7"]);
    assert_eq!(last("mmv.web.requests_by"), ["7", "2", "3"]);
}

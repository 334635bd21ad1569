//! Reports, summaries and envelopes give the same answer to the same question, that of a model.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use test_archives::Builder;
use test_archives::changing::{self, BYTES, Change, Model, ORDERS};

use super::*;
use crate::Archive;
use crate::analysis::replay::{Decrease, Expression, Replay};
use crate::analysis::summary::summarize;

type Found = BTreeMap<(String, String), f64>;

fn key(archive: &Archive, metric: &SelectedMetric, id: Option<InstanceId>) -> (String, String) {
    let identities = metric.desc.indom.and_then(|indom| archive.metadata().identities(indom));
    let name = identities.zip(id).and_then(|(all, id)| all.name_at(id, Timestamp::MAX));
    (metric.name.clone(), name.unwrap_or_default().to_owned())
}

fn summarized(
    archive: &Archive,
    selection: &Selection<'_>,
    span: RangeInclusive<Timestamp>,
) -> [Found; 2] {
    let mut found = [Found::new(), Found::new()];
    for summary in summarize(selection, span, Decrease::Reset).unwrap() {
        for instance in &summary.instances {
            let Some(statistics) = &instance.statistics else { continue };
            let key = key(archive, &summary.metric, instance.instance);
            found[0].insert(key.clone(), statistics.sum);
            found[1].insert(key, statistics.time_average);
        }
    }
    found
}

fn enveloped(archive: &Archive, envelope: &Envelope, names: [&str; 2]) -> [Found; 2] {
    let mut found = [Found::new(), Found::new()];
    for series in &envelope.series {
        let metric = archive.metadata().metric_by_name(names[series.metric]).unwrap();
        let metric = SelectedMetric { name: names[series.metric].to_owned(), desc: metric.desc };
        let key = key(archive, &metric, series.instance);
        let cells = || series.cells().map(|(_, cell)| cell);
        let growth: f64 = cells().map(|cell| cell.sum).sum();
        let seconds: f64 = cells().map(|cell| cell.weight).sum();
        found[0].insert(key.clone(), growth);
        found[1].insert(key, growth / seconds);
    }
    found
}

fn reported(archive: &Archive, span: &RangeInclusive<Timestamp>, back: Duration) -> [Found; 2] {
    let mut found = [Found::new(), Found::new()];
    for name in [ORDERS, BYTES] {
        let mut selection = Replay::open(archive);
        selection.derive(&format!("d = delta({name})").parse::<Expression>().unwrap()).unwrap();
        let mut rates = Replay::open(archive);
        rates.select(name);
        let (deltas, rates) = (selection.load().unwrap(), rates.load().unwrap());
        let desc = archive.metadata().metric_by_name(name).unwrap().desc;
        let metric = SelectedMetric { name: name.to_owned(), desc };
        let mut since = *span.start();
        while since < *span.end() {
            let until = since.saturating_add(back).min(*span.end());
            let sample = deltas.at_since(until, since);
            for (instance, value) in sample.iter().flat_map(|sample| &sample.values[0]) {
                let key = key(archive, &metric, *instance);
                *found[0].entry(key).or_default() += value.as_f64().unwrap();
            }
            since = until;
        }
        let sample = rates.rates_at(*span.end(), *span.start());
        for (instance, value) in sample.iter().flat_map(|sample| &sample.values[0]) {
            found[1].insert(key(archive, &metric, *instance), value.as_f64().unwrap());
        }
    }
    found
}

proptest! {
    /// forall archives of a program that changes and spans of it: each engine finds the growth that
    /// is known, and those that find a mean rate over whole lines find the same. In a span that
    /// begins between records, also in the first stretch of a run or instance, report and plot find
    /// the same growth. An instance that is selected alone has what it has among all.
    #[test]
    fn all_engines_find_the_same_growth_and_mean_rates(
        changes in vec((0..Change::KINDS).prop_map(Change::numbered), 1..24),
        first in prop_oneof![Just(0i64), 0i64..12],
        length in prop_oneof![Just(99i64), 1i64..24],
        between in 1i64..1000,
        columns in 1u32..9,
        // Segments are cut at the times of the index.
        index_bytes in prop::sample::select(vec![1u64, 100_000]),
    ) {
        let (builder, model) = changing::write(Builder::indexed(index_bytes), &changes);
        let made = builder.finish();
        let second = model.last;
        let archive = Archive::open(&made).unwrap();
        let first = first.min(second - 1);
        let seconds = first..=(first + length).min(second);
        let span = at(1000 * seconds.start())..=at(1000 * seconds.end());
        let mut selection = Selection::new(&archive);
        selection.select(ORDERS);
        selection.select(BYTES);
        let grid = Grid::new(span.clone(), columns);
        let envelope = Envelope::read(&selection, grid.clone(), Options::default()).unwrap();
        let envelopes = Envelopes::new(Options::default()).max_direct_bytes(0);
        prop_assert!(envelopes.extend(&selection, &|| true).unwrap());
        let coarse = envelopes.envelope(&selection, &grid, &|| true).unwrap().unwrap().envelope;
        // The columns of a pyramid may be wider.
        let is_whole = seconds == (0..=second);
        let all = [
            ("summary", summarized(&archive, &selection, span.clone())),
            ("plot", enveloped(&archive, &envelope, [ORDERS, BYTES])),
            ("view", enveloped(&archive, &coarse, [ORDERS, BYTES])),
            ("report", reported(&archive, &span, Duration::from_secs(1))),
            ("report between records", reported(&archive, &span, Duration::from_millis(400))),
            ("report at once", reported(&archive, &span, Duration::from_secs((seconds.end() - seconds.start()).cast_unsigned()))),
        ];
        for (_, name) in Model::keys().filter(|(metric, _)| *metric == ORDERS) {
            let mut alone = Selection::new(&archive);
            alone.select(ORDERS);
            alone.select_instance(name);
            let envelopes = Envelopes::new(Options::default()).max_direct_bytes(0);
            prop_assert!(envelopes.extend(&alone, &|| true).unwrap());
            let coarse = envelopes.envelope(&alone, &grid, &|| true).unwrap().unwrap().envelope;
            let envelope = Envelope::read(&alone, grid.clone(), Options::default()).unwrap();
            let of_one = [
                summarized(&archive, &alone, span.clone()),
                enveloped(&archive, &envelope, [ORDERS, BYTES]),
                enveloped(&archive, &coarse, [ORDERS, BYTES]),
            ];
            for ((engine, among_all), of_one) in all.iter().zip(of_one) {
                for (mut among_all, of_one) in among_all.iter().cloned().zip(of_one) {
                    among_all.retain(|(metric, instance), _| metric == ORDERS && instance == name);
                    prop_assert_eq!(among_all, of_one, "{}: {} alone", engine, name);
                }
            }
        }
        let late = at(1000 * seconds.start() + between)..=*span.end();
        let grid = Grid::new(late.clone(), columns);
        let envelope = Envelope::read(&selection, grid, Options::default()).unwrap();
        let [plotted, _] = enveloped(&archive, &envelope, [ORDERS, BYTES]);
        let [reported, _] = reported(&archive, &late, Duration::from_secs(99));
        for key in Model::keys().filter(|(metric, _)| *metric == ORDERS) {
            let text = (key.0.to_owned(), key.1.to_owned());
            let [plotted, reported] =
                [&plotted, &reported].map(|found| found.get(&text).copied().unwrap_or(0.0));
            prop_assert!((plotted - reported).abs() < 0.6, "{key:?}: {plotted}, {reported}");
        }
        for key in Model::keys() {
            let text = (key.0.to_owned(), key.1.to_owned());
            let growth = model.growth(key, &seconds);
            for (engine, [grown, rates]) in &all {
                // `delta` subtracts as in PCP.
                let is_reset = key.0 == BYTES && !model.is_line(key, &seconds);
                let is_other = *engine == "view" && !is_whole
                    || engine.starts_with("report") && is_reset;
                if is_other {
                    continue;
                }
                let found = grown.get(&text).copied();
                // Between records `delta` has integers within a run, and fractions at its ends.
                let is_between = *engine == "report between records";
                let error = if is_between { 0.5 + changes.len() as f64 } else { 1e-6 };
                let is_near = (found.unwrap_or(0.0) - growth.unwrap_or(0.0)).abs() < error;
                prop_assert!(is_near, "{engine}: {key:?} grew {found:?}, not {growth:?}");
                if model.is_line(key, &seconds) {
                    let rate = growth.unwrap() / (seconds.end() - seconds.start()) as f64;
                    let found = rates.get(&text).copied().unwrap_or(f64::NAN);
                    prop_assert!((found - rate).abs() < 1e-6, "{engine}: {key:?}: {found}, not {rate}");
                }
            }
        }
    }
}

//! Reports, summaries and envelopes give the same answer to the same question, that of a model.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use test_archives::Builder;

use super::*;
use crate::event::{EventArrayBuilder, EventFlags};
use crate::programs::items;
use crate::replay::{Decrease, Expression, Replay};
use crate::summary::summarize;
use crate::{Archive, Value, programs};

/// What happens between two records, which are a second apart.
#[derive(Debug, Clone, Copy)]
enum Change {
    /// Nothing but counting.
    Nothing,
    /// The program ends, and another run begins from 0 before the next record.
    Restart,
    /// The program has no values in the next record, and other values than 0 after it.
    Pause,
    /// The agent is away.
    Mark,
    /// An instance is created, or removed.
    Toggle(usize),
    /// The instances get other numbers.
    Renumber,
    /// A counter that is of no program falls.
    Reset,
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        6 => Just(Change::Nothing),
        2 => Just(Change::Restart),
        1 => Just(Change::Pause),
        1 => Just(Change::Mark),
        5 => (1..NAMES.len()).prop_map(Change::Toggle),
        1 => Just(Change::Renumber),
        1 => Just(Change::Reset),
    ]
}

const ORDERS: &str = "mmv.shop.orders";
const BYTES: &str = "net.bytes";
/// The first one is always there.
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// A metric and an instance of it.
type Key = (&'static str, &'static str);

/// What is true of an archive.
#[derive(Debug, Default)]
struct Model {
    /// What each counter is known to have grown up to the record of a second.
    grown: BTreeMap<Key, BTreeMap<i64, f64>>,
    /// The seconds of records over which each counter has a line.
    lines: BTreeMap<Key, Vec<i64>>,
    seconds: Vec<i64>,
}

impl Model {
    /// What a counter grew from after one second to another; `None` if it had no growth.
    fn growth(&self, key: Key, seconds: &RangeInclusive<i64>) -> Option<f64> {
        let grown = self.grown.get(&key)?.range(seconds.start() + 1..=*seconds.end());
        grown.map(|(_, grown)| *grown).reduce(|sum, grown| sum + grown)
    }

    /// Whether a counter has a line over some time.
    fn is_line(&self, key: Key, seconds: &RangeInclusive<i64>) -> bool {
        let lines = self.lines.get(&key).map(Vec::as_slice).unwrap_or_default();
        (seconds.start() + 1..=*seconds.end()).all(|second| lines.contains(&second))
    }
}

/// Writes an archive of a program whose counter has instances, and of another counter.
struct Making {
    builder: Builder,
    model: Model,
    second: i64,
    number: u64,
    /// The instances, with the values of those that have had one in this run.
    values: BTreeMap<&'static str, Option<u64>>,
    turn: usize,
    /// The counter began from 0 in this run.
    from_zero: bool,
    /// There was a record in this run.
    has_values: bool,
    bytes: Option<u64>,
}

impl Making {
    fn new(index_bytes: u64) -> Self {
        let builder = Builder::indexed(index_bytes)
            .metric_with(programs::events_metric(), "mmv.agent.events", "event instant")
            .metric(ORDERS, "u64 counter count")
            .metric_with(Pmid::new(60, 1, 1).unwrap(), BYTES, "u32 counter byte");
        let values = BTreeMap::from([("a", None), ("b", None)]);
        let (model, second, number, turn) = (Model::default(), 0, 0, 0);
        let (from_zero, has_values, bytes) = (false, false, None);
        let made =
            Self { builder, model, second, number, values, turn, from_zero, has_values, bytes };
        made.declared().recorded(&[])
    }

    /// Declares the instances that there are, with numbers by their order and the turn.
    fn declared(mut self) -> Self {
        let number = |name| {
            let place = NAMES.iter().position(|one| *one == name).unwrap();
            ((place + self.turn) % NAMES.len()) as i32
        };
        let instances = self.values.keys().map(|name| (number(*name), *name));
        let instances: Vec<(i32, &str)> = instances.collect();
        self.builder = self.builder.numbered_instances(ORDERS, instances);
        self
    }

    /// Adds a record with events, before it, and the values of the metrics.
    fn recorded(mut self, kinds: &[&str]) -> Self {
        let (second, at) = (self.second, at(1000 * self.second));
        if !kinds.is_empty() {
            let mut array = EventArrayBuilder::new();
            let parameter = |item| Pmid::new(70, 0, item).unwrap();
            for kind in kinds {
                array.record(at, EventFlags::POINT).unwrap();
                array.parameter(parameter(items::KIND), Value::String(kind.as_bytes())).unwrap();
                array.parameter(parameter(items::FILE), Value::String(b"shop")).unwrap();
            }
            let OwnedValue::Event(events) = array.finish() else { panic!("an event array") };
            self.builder = self.builder.row_at(at, [("mmv.agent.events", events)]);
        }
        let mut row = vec![];
        let is_away = kinds == ["vanished"];
        for (name, value) in &mut self.values {
            if is_away {
                break;
            }
            self.number = (self.number * 7 + 5) % 101;
            let grown = self.number;
            let known = value.is_some() || self.from_zero || self.has_values;
            let next = match *value {
                Some(value) => value + grown,
                // What it had counted is not known: the run has gone on.
                None if !self.from_zero && !self.has_values => 1000 + grown,
                None => grown,
            };
            if known {
                let key = (ORDERS, *name);
                self.model.grown.entry(key).or_default().insert(second, grown as f64);
                if value.is_some() {
                    self.model.lines.entry(key).or_default().push(second);
                }
            }
            *value = Some(next);
            row.push((format!("{ORDERS}[{name}]"), next));
        }
        self.has_values |= !row.is_empty();
        let bytes = self.bytes.map_or(7, |bytes| bytes + 3);
        if self.bytes.is_some() {
            let key = (BYTES, "");
            self.model.grown.entry(key).or_default().insert(second, 3.0);
            self.model.lines.entry(key).or_default().push(second);
        }
        self.bytes = Some(bytes);
        row.push((BYTES.to_owned(), bytes));
        self.builder = self.builder.row_at(at, row);
        self.model.seconds.push(second);
        self
    }

    fn part(&mut self, from_zero: bool) {
        self.values.values_mut().for_each(|value| *value = None);
        (self.from_zero, self.has_values) = (from_zero, false);
    }

    fn step(mut self, change: Change) -> Self {
        self.second += 1;
        match change {
            Change::Nothing => self.recorded(&[]),
            Change::Restart => {
                self.part(true);
                self.recorded(&["restarted"])
            }
            Change::Pause => {
                self.part(false);
                let mut away = self.recorded(&["vanished"]);
                away.second += 1;
                away.recorded(&["recovered"])
            }
            Change::Mark => {
                self.part(false);
                self.bytes = None;
                self.builder = self.builder.mark_at(at(1000 * self.second - 500));
                self.recorded(&[])
            }
            Change::Toggle(place) => {
                let name = NAMES[place];
                if self.values.remove(name).is_none() {
                    self.values.insert(name, None);
                }
                self.declared().recorded(&[])
            }
            Change::Renumber => {
                self.turn += 1;
                self.declared().recorded(&[])
            }
            Change::Reset => {
                self.bytes = None;
                self.recorded(&[])
            }
        }
    }
}

/// What an engine says of each counter.
type Found = BTreeMap<(String, String), f64>;

fn key(archive: &Archive, metric: &SelectedMetric, id: Option<InstanceId>) -> (String, String) {
    let identities = metric.desc.indom.and_then(|indom| archive.metadata().identities(indom));
    let name = identities.zip(id).and_then(|(all, id)| all.name_at(id, Timestamp::MAX));
    (metric.name.clone(), name.unwrap_or_default().to_owned())
}

/// Growth and mean rate by summary.
fn summarized(archive: &Archive, span: RangeInclusive<Timestamp>) -> [Found; 2] {
    let mut selection = Selection::new(archive);
    selection.select(ORDERS);
    selection.select(BYTES);
    let mut found = [Found::new(), Found::new()];
    for summary in summarize(&selection, span, Decrease::Reset).unwrap() {
        for instance in &summary.instances {
            let Some(statistics) = &instance.statistics else { continue };
            let key = key(archive, &summary.metric, instance.instance);
            found[0].insert(key.clone(), statistics.sum);
            found[1].insert(key, statistics.time_average);
        }
    }
    found
}

/// The same by an envelope.
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

/// The same by report.
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
            let until = since.saturating_add(back);
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
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// forall archives of a program that changes and spans of it: each engine finds the growth that
    /// is known, and those that find a mean rate over whole lines find the same.
    #[test]
    fn all_engines_find_the_same_growth_and_mean_rates(
        changes in vec(change(), 1..24),
        first in prop_oneof![Just(0i64), 0i64..12],
        length in prop_oneof![Just(99i64), 1i64..24],
        columns in 1u32..9,
        // Segments are cut at the times of the index.
        index_bytes in prop::sample::select(vec![1u64, 100_000]),
    ) {
        let made = changes.into_iter().fold(Making::new(index_bytes), Making::step);
        let Making { builder, model, second, .. } = made;
        let made = builder.finish();
        let archive = Archive::open(&made).unwrap();
        let first = first.min(second - 1);
        let seconds = first..=(first + length).min(second);
        let span = at(1000 * seconds.start())..=at(1000 * seconds.end());
        let mut selection = Selection::new(&archive);
        selection.select(ORDERS);
        selection.select(BYTES);
        let grid = Grid::new(span.clone(), columns);
        let envelope = Envelope::read(&selection, grid.clone(), Options::default()).unwrap();
        let envelopes = Envelopes::new(Options::default()).small(0);
        prop_assert!(envelopes.extend(&selection, &|| true).unwrap());
        let coarse = envelopes.envelope(&selection, &grid, &|| true).unwrap().unwrap().envelope;
        // The columns of a pyramid may be wider.
        let is_whole = seconds == (0..=second);
        let all = [
            ("summary", summarized(&archive, span.clone())),
            ("plot", enveloped(&archive, &envelope, [ORDERS, BYTES])),
            ("view", enveloped(&archive, &coarse, [ORDERS, BYTES])),
            ("report", reported(&archive, &span, Duration::from_secs(1))),
            ("report at once", reported(&archive, &span, Duration::from_secs((seconds.end() - seconds.start()).cast_unsigned()))),
        ];
        let keys = NAMES.map(|name| (ORDERS, name)).into_iter().chain([(BYTES, "")]);
        for key in keys {
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
                let is_near = (found.unwrap_or(0.0) - growth.unwrap_or(0.0)).abs() < 1e-6;
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

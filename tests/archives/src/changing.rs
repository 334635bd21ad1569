//! Archives of a program that changes, and the growth that must be found in them.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use pcp_archive::internal::programs::{events_metric, items};
use pcp_archive::raw::event::{EventArrayBuilder, EventFlags};
use pcp_archive::{OwnedValue, Pmid, Value};

use crate::{Builder, at};

/// A counter of a program, with instances.
pub const ORDERS: &str = "mmv.shop.orders";
/// A counter of another producer, without instances.
pub const BYTES: &str = "net.bytes";
/// The instances that [`ORDERS`] may have. The first one is always there.
pub const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// An event between two records, which are a second apart.
#[derive(Debug, Clone, Copy)]
pub enum Change {
    /// Counters only count.
    Nothing,
    /// The program ends, and another run begins from 0 before the next record.
    Restart,
    /// The program has no values in the next record, and other values than 0 after it.
    Pause,
    /// The agent is away.
    Mark,
    /// An instance is created, or removed, by its place in [`NAMES`].
    Toggle(usize),
    /// The instances get other numbers.
    Renumber,
    /// A counter that is of no program falls.
    Reset,
}

impl Change {
    /// Exclusive limit of the numbers that [`numbered`](Self::numbered) takes.
    pub const KINDS: usize = 17;

    /// Returns the change with a number below [`KINDS`](Self::KINDS). Those that say most have
    /// several.
    #[must_use]
    pub const fn numbered(number: usize) -> Self {
        match number {
            0..6 => Self::Nothing,
            6 | 7 => Self::Restart,
            8 => Self::Pause,
            9 => Self::Mark,
            10 => Self::Renumber,
            11 => Self::Reset,
            _ => Self::Toggle(1 + number % (NAMES.len() - 1)),
        }
    }
}

/// A metric and an instance of it.
pub type Key = (&'static str, &'static str);

/// The growth of every counter, as an archive must report it.
#[derive(Debug, Default)]
pub struct Model {
    /// Known growth of each counter up to the record of a second.
    grown: BTreeMap<Key, BTreeMap<i64, f64>>,
    /// The seconds of records over which each counter has a line.
    lines: BTreeMap<Key, Vec<i64>>,
    /// The second of the last record.
    pub last: i64,
}

impl Model {
    /// Returns the keys of all counters.
    pub fn keys() -> impl Iterator<Item = Key> {
        NAMES.map(|name| (ORDERS, name)).into_iter().chain([(BYTES, "")])
    }

    /// Returns the growth of a counter after the first of some seconds up to the last; `None` if
    /// it had no growth.
    #[must_use]
    pub fn growth(&self, key: Key, seconds: &RangeInclusive<i64>) -> Option<f64> {
        let grown = self.grown.get(&key)?.range(seconds.start() + 1..=*seconds.end());
        grown.map(|(_, grown)| *grown).reduce(|sum, grown| sum + grown)
    }

    /// Returns whether a counter has a line over some time.
    #[must_use]
    pub fn is_line(&self, key: Key, seconds: &RangeInclusive<i64>) -> bool {
        let lines = self.lines.get(&key).map(Vec::as_slice).unwrap_or_default();
        (seconds.start() + 1..=*seconds.end()).all(|second| lines.contains(&second))
    }
}

/// Writes the records of a program that changes into an archive without metrics, the first one at
/// second 0.
#[must_use]
pub fn write(builder: Builder, changes: &[Change]) -> (Builder, Model) {
    let made = changes.iter().fold(Making::new(builder), |made, change| made.step(*change));
    (made.builder, made.model)
}

/// An archive of a program whose counter has instances, and of another counter.
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
    fn new(builder: Builder) -> Self {
        let builder = builder
            .metric_with(events_metric(), "mmv.agent.events", "event instant")
            .metric(ORDERS, "u64 counter count")
            .metric_with(Pmid::new(60, 1, 1).expect("a PMID"), BYTES, "u32 counter byte");
        let made = Self {
            builder,
            model: Model::default(),
            second: 0,
            number: 0,
            values: BTreeMap::from([("a", None), ("b", None)]),
            turn: 0,
            from_zero: false,
            has_values: false,
            bytes: None,
        };
        made.declared().recorded(&[])
    }

    /// Declares the instances that there are, with numbers by their order and the turn.
    fn declared(mut self) -> Self {
        let names = NAMES.iter().enumerate().filter(|(_, name)| self.values.contains_key(*name));
        let instances: Vec<(i32, &str)> = names
            .map(|(place, name)| (((place + self.turn) % NAMES.len()) as i32, *name))
            .collect();
        self.builder = self.builder.numbered_instances(ORDERS, instances);
        self
    }

    /// Adds a record with events, before it, and the values of the metrics.
    fn recorded(mut self, kinds: &[&str]) -> Self {
        let second = self.second;
        let at = at(second);
        if !kinds.is_empty() {
            let mut array = EventArrayBuilder::new();
            let parameter = |item| Pmid::new(70, 0, item).expect("a PMID");
            // The agent dates a new run by when it noticed it, which may be in the tick itself.
            let is_noticed = kinds == ["restarted"] && second % 2 == 0;
            let noticed = if is_noticed { Duration::from_millis(600) } else { Duration::ZERO };
            for kind in kinds {
                array.record(at.saturating_sub(noticed), EventFlags::POINT).expect("an event");
                for (item, text) in [(items::KIND, *kind), (items::FILE, "shop")] {
                    let value = Value::String(text.as_bytes());
                    array.parameter(parameter(item), value).expect("a parameter");
                }
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
        self.model.last = second;
        self
    }

    fn part(&mut self, from_zero: bool) {
        self.values.values_mut().for_each(|value| *value = None);
        self.from_zero = from_zero;
        self.has_values = false;
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
                self.builder = self.builder.mark(self.second as f64 - 0.5);
                self.recorded(&[])
            }
            Change::Toggle(place) => {
                let name = NAMES[place];
                if self.values.remove(name).is_none() {
                    self.values.insert(name, None);
                }
                let mut declared = self.declared();
                // The agent may learn of an instance between two records.
                if declared.second % 2 == 1 {
                    let learned = at(declared.second).saturating_sub(Duration::from_millis(300));
                    declared.builder = declared.builder.with_writer(|writer| {
                        writer.date_metadata(learned).expect("date metadata");
                    });
                }
                declared.recorded(&[])
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

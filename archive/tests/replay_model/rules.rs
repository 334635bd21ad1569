//! The values that replay must give for an archive.

use std::collections::HashMap;

use pcp_archive::replay::Decrease;
use pcp_archive::{OwnedValue, Semantics, Timestamp, Value, ValueType};

use super::random::{INSTANCES, METRICS};

pub(crate) type Key = (usize, Option<i32>);

/// Record or mark that was written.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) at: Timestamp,
    /// `None` for a mark.
    pub(crate) values: Option<HashMap<Key, OwnedValue>>,
}

#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) rows: Vec<Row>,
    /// The states of each domain: the time from which each holds, and its instances as bits.
    pub(crate) states: [Vec<(Timestamp, u32)>; 2],
    pub(crate) decrease: Decrease,
}

pub(crate) type Values = Vec<(Option<i32>, Expected)>;

#[derive(Debug, Clone)]
pub(crate) enum Expected {
    Exactly(OwnedValue),
    /// An integer of a type with this many values, to within some slack where a
    /// double does not hold it.
    Integer {
        value: i128,
        modulus: i128,
        slack: i128,
    },
    Real {
        value: f64,
        slack: f64,
    },
}

impl Expected {
    pub(crate) fn is(&self, found: Value<'_>) -> bool {
        match self {
            Self::Exactly(value) => found.to_owned() == *value,
            Self::Integer { value, modulus, slack } => {
                let distance = (integer(found) - value).rem_euclid(*modulus);
                distance.min(modulus - distance) <= *slack
            }
            Self::Real { value, slack } => {
                found.as_f64().is_some_and(|found| (found - value).abs() <= *slack)
            }
        }
    }
}

fn integer(value: Value<'_>) -> i128 {
    match value {
        Value::I32(v) => v.into(),
        Value::U32(v) => v.into(),
        Value::I64(v) => v.into(),
        Value::U64(v) => v.into(),
        _ => panic!("{value:?} is no integer"),
    }
}

impl Model {
    /// Ends an archive. The time between two archives is unknown: as if there were a mark, in
    /// front of the later one.
    pub(crate) fn end_archive(&mut self, next: Timestamp) {
        if let Some(last) = self.rows.last().map(|row| row.at) {
            let mark = Timestamp::from_nanos(last.as_nanos() + 1_000_000);
            self.rows.push(Row { at: mark.min(next), values: None });
        }
    }

    pub(crate) fn timestamps(&self) -> impl Iterator<Item = Timestamp> {
        self.rows.iter().map(|row| row.at)
    }

    /// Returns the values of all metrics by instance; `None` outside the archive.
    pub(crate) fn at(&self, at: Timestamp) -> Option<Vec<Values>> {
        let (first, last) = (self.rows.first()?, self.rows.last()?);
        if at < first.at || at > last.at {
            return None;
        }
        let values = |metric: usize| {
            let instances: Vec<Option<i32>> = match METRICS[metric].2 {
                None => vec![None],
                Some(place) => (0..INSTANCES[place]).map(Some).collect(),
            };
            let value = |instance| Some((instance, self.value((metric, instance), at)?));
            instances.into_iter().filter_map(value).collect()
        };
        Some((0..METRICS.len()).map(values).collect())
    }

    /// Returns every value that must come back at the time of its record: the last one of this
    /// time, unless a mark of this time follows it.
    pub(crate) fn stored(&self) -> Vec<(Timestamp, usize, Option<i32>, OwnedValue)> {
        let mut stored = Vec::new();
        for (number, row) in self.rows.iter().enumerate() {
            let later: Vec<&Row> =
                self.rows[number + 1..].iter().take_while(|later| later.at == row.at).collect();
            for (key, value) in row.values.iter().flatten() {
                let is_hidden = |later: &&&Row| {
                    later.values.as_ref().is_none_or(|values| values.contains_key(key))
                };
                let is_replayed =
                    METRICS[key.0].0 != Semantics::Counter || METRICS[key.0].1 != ValueType::String;
                if is_replayed
                    && self.is_alive(*key, row.at)
                    && !later.iter().any(|l| is_hidden(&l))
                {
                    stored.push((row.at, key.0, key.1, value.clone()));
                }
            }
        }
        stored
    }

    /// Returns whether an instance has values: if some state names it; if the domain ever had 16,
    /// from the first state that does to the first after the last.
    fn is_alive(&self, (metric, instance): Key, at: Timestamp) -> bool {
        let (Some(place), Some(instance)) = (METRICS[metric].2, instance) else { return true };
        let states = &self.states[place];
        let has = |&(_, set): &(Timestamp, u32)| set >> instance & 1 == 1;
        let Some(first) = states.iter().position(has) else { return false };
        if states.iter().all(|(_, set)| set.count_ones() < 16) {
            return true;
        }
        let last = states.iter().rposition(has).unwrap();
        at >= states[first].0 && states.get(last + 1).is_none_or(|(death, _)| at <= *death)
    }

    fn value(&self, key: Key, at: Timestamp) -> Option<Expected> {
        if !self.is_alive(key, at) {
            return None;
        }
        // The records since the last mark that is not later, up to the next one.
        let not_after = self.rows.partition_point(|row| row.at <= at);
        let is_mark = |row: &Row| row.values.is_none();
        let from = self.rows[..not_after].iter().rposition(is_mark).map_or(0, |mark| mark + 1);
        let until = self.rows[not_after..].iter().position(is_mark);
        let until = until.map_or(self.rows.len(), |mark| not_after + mark);
        let observed = |row: &Row| Some((row.at, row.values.as_ref()?.get(&key)?.clone()));
        let seen: Vec<_> = self.rows[from..until].iter().filter_map(observed).collect();
        let prior = seen.iter().rev().find(|(time, _)| *time <= at)?.clone();
        let next = seen.iter().find(|(time, _)| *time >= at).cloned();
        let (semantics, value_type, _) = METRICS[key.0];
        if semantics == Semantics::Counter && value_type == ValueType::String {
            return None;
        }
        match (semantics, next) {
            (Semantics::Discrete, None) => Some(Expected::Exactly(prior.1)),
            (_, None) => None,
            (_, Some(_)) if prior.0 == at => Some(Expected::Exactly(prior.1)),
            (Semantics::Counter, Some(next)) => Some(self.line(&prior, &next, at)),
            (_, Some(next)) => {
                let is_nearer = next.0.nanos_since(at) < at.nanos_since(prior.0);
                let is_number = value_type != ValueType::String;
                Some(Expected::Exactly(if is_nearer && is_number { next.1 } else { prior.1 }))
            }
        }
    }

    fn line(
        &self,
        (from, prior): &(Timestamp, OwnedValue),
        (to, next): &(Timestamp, OwnedValue),
        at: Timestamp,
    ) -> Expected {
        let (elapsed, whole) = (at.nanos_since(*from), to.nanos_since(*from));
        let (prior, next) = (prior.as_value(), next.as_value());
        let slack = match prior {
            Value::Float(_) => Some(1e-3),
            Value::Double(_) => Some(1e-9),
            _ => None,
        };
        if let Some(slack) = slack {
            let (prior, next) = (prior.as_f64().unwrap(), next.as_f64().unwrap());
            let value = prior + (next - prior) * (elapsed as f64 / whole as f64);
            return Expected::Real { value, slack };
        }
        let modulus = match prior {
            Value::I32(_) | Value::U32(_) => 1 << 32,
            _ => 1 << 64,
        };
        let (prior, mut rise) = (integer(prior), integer(next) - integer(prior));
        if rise < 0 && self.decrease == Decrease::Wrap {
            rise += modulus;
            let value = prior + (whole + 2 * elapsed * rise) / (2 * whole);
            return Expected::Integer { value, modulus, slack: (prior.abs() + rise) >> 50 };
        }
        let value = (whole + 2 * whole * prior + 2 * elapsed * rise) / (2 * whole);
        Expected::Integer { value, modulus, slack: 0 }
    }
}

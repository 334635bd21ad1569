//! Records that repeat the one before except for their timestamp and values.
//!
//! A logger writes the same metrics again and again. Of a record of the same
//! [shape](crate::reader::fast::record_shape) as the one before everything is known that
//! was found out about that one, as long as the domains have not changed. What
//! is left to look at is the values of counters. Records with event arrays
//! repeat nothing: these are looked at each.

use crate::format::{ShapeId, number};
use crate::{IndomHistory, Metadata, Record, Semantics, ValueType, Version};

/// A record in which nothing was found, and what is compared with it.
#[derive(Default)]
pub(super) struct Pattern<'m> {
    /// `None` without a pattern.
    shape: Option<ShapeId>,
    last: Vec<u8>,
    /// `last` was compared only here.
    is_ahead: bool,
    counters: Vec<Counter>,
    /// Instance domains of the pattern, and how many states each had until
    /// then.
    domains: Vec<(&'m IndomHistory, usize)>,
    values: u64,
}

/// A counter: where its value is, and what it is.
#[derive(Clone, Copy)]
struct Counter {
    at: usize,
    value_type: ValueType,
}

impl<'m> Pattern<'m> {
    /// Returns whether the record is like the last one, and none of its counters goes down. If so
    /// it becomes the last one.
    pub(super) fn is_repeated_by(&mut self, record: &Record<'_>) -> bool {
        let bytes = record.bytes();
        let last = self.last.as_slice();
        let is_same = self.shape.is_some()
            && self.shape == record.shape()
            && self
                .domains
                .iter()
                .all(|(domain, states)| domain.states_until(record.timestamp()) == *states)
            && !self.counters.iter().any(|counter| counter.goes_down(last, bytes));
        if is_same {
            self.last.copy_from_slice(bytes);
            self.is_ahead = true;
        }
        is_same
    }

    pub(super) const fn values(&self) -> u64 {
        self.values
    }

    /// Returns the last record, if it was taken for a repetition: its counters are to be
    /// remembered before another record is judged.
    pub(super) fn take_ahead(&mut self, version: Version) -> Option<Record<'_>> {
        let is_ahead = std::mem::take(&mut self.is_ahead);
        is_ahead.then(|| Record::parse(version, &self.last, 0, 0).ok()).flatten()
    }

    pub(super) fn learn(&mut self, record: &Record<'_>, metadata: &'m Metadata) {
        self.forget();
        if record.shape().is_none() {
            return;
        }
        self.values = 0;
        for set in record.value_sets() {
            let Some(metric) = metadata.metric(set.pmid()) else { return };
            let desc = &metric.desc;
            if desc.value_type.is_event() {
                return;
            }
            self.values += set.len() as u64;
            if desc.semantics == Semantics::Counter {
                let value_type = desc.value_type;
                self.counters
                    .extend(set.payloads().map(|(_, at)| Counter { at: at.start, value_type }));
            }
            let domain = desc.indom.and_then(|indom| metadata.indom_history(indom));
            if let Some(domain) = domain
                && self.domains.iter().all(|(known, _)| !std::ptr::eq(*known, domain))
            {
                self.domains.push((domain, domain.states_until(record.timestamp())));
            }
        }
        self.shape = record.shape();
        self.last.extend_from_slice(record.bytes());
    }

    /// Drops the pattern: no record repeats it until the next [`learn`](Self::learn).
    pub(super) fn forget(&mut self) {
        self.shape = None;
        self.last.clear();
        self.is_ahead = false;
        self.counters.clear();
        self.domains.clear();
    }
}

impl Counter {
    /// Returns whether a counter goes down. The comparison is exact, where the full check compares
    /// doubles, so it never misses what that finds. For a type that no counter has the answer is
    /// true.
    fn goes_down(self, before: &[u8], now: &[u8]) -> bool {
        let of = match self.value_type {
            ValueType::U64 | ValueType::I64 | ValueType::Double => number::long,
            _ => number::word,
        };
        let number = |record: &[u8]| of(record.get(self.at..)?);
        let (Some(before), Some(now)) = (number(before), number(now)) else {
            return true;
        };
        match self.value_type {
            ValueType::U32 | ValueType::U64 => now < before,
            ValueType::I32 => (now as i32) < before as i32,
            ValueType::I64 => now.cast_signed() < before.cast_signed(),
            ValueType::Float => f32::from_bits(now as u32) < f32::from_bits(before as u32),
            ValueType::Double => f64::from_bits(now) < f64::from_bits(before),
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pcp_types::{Pmid, Timestamp, Units};
    use proptest::prelude::*;

    use crate::check::{Defect, check};
    use crate::{
        ArchiveWriter, FetchResult, MetricDesc, OwnedValue, Semantics, ValueSet, ValueType,
        WriterLabel, WriterOptions,
    };

    const TYPES: [ValueType; 5] =
        [ValueType::U64, ValueType::I64, ValueType::Double, ValueType::Float, ValueType::U32];

    fn desc(item: usize) -> MetricDesc {
        MetricDesc {
            pmid: Pmid::new(70, 1, item as u32).unwrap(),
            value_type: TYPES[item],
            indom: None,
            semantics: Semantics::Counter,
            units: Units::count(),
        }
    }

    fn value(item: usize, number: u8) -> OwnedValue {
        match TYPES[item] {
            ValueType::U64 => OwnedValue::U64(number.into()),
            ValueType::I64 => OwnedValue::I64(i64::from(number) - 2),
            ValueType::Double => OwnedValue::Double(f64::from(number) - 2.0),
            ValueType::Float => OwnedValue::Float(f32::from(number)),
            _ => OwnedValue::U32(number.into()),
        }
    }

    /// A number for some of the metrics, mostly the first three, which can
    /// repeat; a mark if it is for none.
    fn record() -> impl Strategy<Value = [Option<u8>; TYPES.len()]> {
        let chosen = prop_oneof![12 => Just(0b111), 2 => 1u8..32, 1 => Just(0)];
        (chosen, prop::array::uniform5(0u8..6)).prop_map(|(chosen, numbers)| {
            std::array::from_fn(|item| (chosen >> item & 1 == 1).then(|| numbers[item]))
        })
    }

    proptest! {
        /// forall records and marks: each decrease is found, no other, and all
        /// is counted
        #[test]
        fn no_decrease_hides_in_a_repetition(records in prop::collection::vec(record(), 1..50)) {
            let directory = tempfile::tempdir().unwrap();
            let base = directory.path().join("a");
            let label = WriterLabel {
                pid: 1,
                hostname: "host".into(),
                timezone: "UTC".into(),
                zoneinfo: "".into(),
            };
            let mut writer =
                ArchiveWriter::create_with(&base, label, WriterOptions::default()).unwrap();
            for item in 0..TYPES.len() {
                writer.declare_metric(&desc(item), &[&format!("a.n{item}")]).unwrap();
            }
            let mut last = [None; TYPES.len()];
            let mut decreases = 0;
            let mut values = 0;
            let mut timestamp = Timestamp::new(1_700_000_000, 0).unwrap();
            for record in &records {
                let sets: Vec<_> = (0..TYPES.len())
                    .filter_map(|item| {
                        let values = Ok(vec![(None, value(item, record[item]?))]);
                        Some(ValueSet { pmid: desc(item).pmid, values })
                    })
                    .collect();
                if sets.is_empty() {
                    if writer.records() > 0 {
                        writer.write_mark(timestamp).unwrap();
                    }
                    last = [None; TYPES.len()];
                } else {
                    values += sets.len() as u64;
                    writer.write_result(&FetchResult { timestamp, value_sets: sets }).unwrap();
                }
                for (last, now) in last.iter_mut().zip(record) {
                    decreases += usize::from(now.is_some() && *now < *last);
                    *last = now.or(*last);
                }
                timestamp = timestamp.saturating_add(Duration::from_secs(1));
            }
            prop_assume!(writer.records() > 0);
            let count = writer.records();
            writer.finish().unwrap();
            let report = check(&base).unwrap();
            let is_decrease =
                |defect: &Defect| matches!(defect, Defect::CounterDecrease { .. });
            let found = report.findings().iter().filter(|f| is_decrease(&f.defect)).count();
            prop_assert_eq!(found.min(100), decreases.min(100));
            prop_assert_eq!(report.findings().len(), found);
            prop_assert_eq!((report.records(), report.values()), (count, values));
        }
    }
}

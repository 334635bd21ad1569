//! Discrete metrics that are logged once or on change.
//!
//! Input: the values of a tick. Output: those that changed. Readers use the observation nearest in
//! time, so a value that is logged only when it changes would seem to hold from halfway back to
//! the previous observation. Therefore the previous value is logged again a nanosecond earlier.
//!
//! The archive writer begins archives and writes marks, and then logs all last-known values. So
//! each sample carries them, shared as long as none of them changes.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use pcp_archive::OwnedValue;
use pcp_archive::raw::ValueSet;
use pcp_types::{Pmid, ValueType};

use crate::logging::ChangedValues;
use crate::metadata::{RecordShape, ValueSetShape};
use crate::source::{Values, low_half};

/// The metrics of one group.
#[derive(Debug, Default)]
pub(crate) struct OnChange {
    shape: RecordShape,
    /// If set, later changes of values are not logged.
    once: bool,
    last_known: BTreeMap<Pmid, ValueSet>,
}

impl OnChange {
    /// Applies another shape, and keeps the last-known values of unchanged metrics. Returns true
    /// if one is dropped.
    pub(crate) fn set_shape(&mut self, shape: RecordShape, once: bool) -> bool {
        let before = self.last_known.len();
        let stays: HashSet<_> = shape.iter().map(|set| identity(&set)).collect();
        for set in self.shape.iter().filter(|set| !stays.contains(&identity(set))) {
            self.last_known.remove(&set.pmid);
        }
        self.shape = shape;
        self.once = once;
        self.last_known.len() != before
    }

    /// Adds the sources with values of the same metrics.
    pub(super) fn add_joined(&self, sources: &mut BTreeSet<usize>) {
        self.shape.add_joined(sources);
    }

    /// Compares the values of `sources`, and adds to `changes` what has to be logged. Without a
    /// source, its metrics are gone, unless only some sources were read (`is_partial`). Returns true
    /// if any last-known value differs.
    pub(crate) fn observe(
        &mut self,
        sources: &[Option<&Values>],
        is_partial: bool,
        changes: &mut ChangedValues,
    ) -> bool {
        let mut different = false;
        for set in self.shape.iter() {
            let Some(now) = values_of_metric(&set, sources) else {
                different |= !is_partial && self.last_known.remove(&set.pmid).is_some();
                continue;
            };
            let Some(known) = self.last_known.get_mut(&set.pmid) else {
                changes.after.push(now.clone());
                self.last_known.insert(set.pmid, now);
                different = true;
                continue;
            };
            if same_values(known, &now) {
                continue;
            }
            different = true;
            let before = std::mem::replace(known, now.clone());
            if !self.once {
                changes.before.push(before);
                changes.after.push(now);
            } else if !same_instances(&before, &now) {
                changes.after.push(now);
            }
        }
        different
    }

    pub(crate) fn last_known(&self) -> impl Iterator<Item = &ValueSet> {
        self.last_known.values()
    }
}

/// Returns the properties that must not change while a last-known value is kept.
fn identity(set: &ValueSetShape<'_>) -> (Pmid, ValueType, Option<bool>) {
    let is_singular = set.places.first().map(|place| place.instance.is_none());
    (set.pmid, set.value_type, is_singular)
}

/// Returns the values of a metric; `None` if none of its sources is present.
fn values_of_metric(set: &ValueSetShape<'_>, sources: &[Option<&Values>]) -> Option<ValueSet> {
    let source = |number: usize| sources.get(number).copied().flatten();
    if !set.owners.iter().any(|owner| source(*owner).is_some()) {
        return None;
    }
    let mut found = Vec::new();
    for place in set.places {
        if let Some(values) = source(place.source)
            && values.is_present(place.value)
        {
            found.push((place.instance, value(values, place.value, set.value_type)));
        }
    }
    Some(ValueSet { pmid: set.pmid, values: Ok(found) })
}

fn value(values: &Values, index: usize, value_type: ValueType) -> OwnedValue {
    let word = values.words().get(index).copied().unwrap_or(0);
    match value_type {
        ValueType::I32 => OwnedValue::I32(low_half(word).cast_signed()),
        ValueType::U32 => OwnedValue::U32(low_half(word)),
        ValueType::I64 => OwnedValue::I64(word.cast_signed()),
        ValueType::Float => OwnedValue::Float(f32::from_bits(low_half(word))),
        ValueType::Double => OwnedValue::Double(f64::from_bits(word)),
        ValueType::String => OwnedValue::String(values.text(index).to_vec()),
        // A value plan has no other type.
        _ => OwnedValue::U64(word),
    }
}

/// Compares like `==`, except that a NaN equals itself.
fn same_values(one: &ValueSet, other: &ValueSet) -> bool {
    same_instances(one, other) && value_bits(one).eq(value_bits(other))
}

/// Returns values by which a NaN is equal to itself.
fn value_bits(set: &ValueSet) -> impl Iterator<Item = OwnedValue> {
    set.values.iter().flatten().map(|(_, value)| match value {
        OwnedValue::Float(value) => OwnedValue::U32(value.to_bits()),
        OwnedValue::Double(value) => OwnedValue::U64(value.to_bits()),
        value => value.clone(),
    })
}

fn same_instances(one: &ValueSet, other: &ValueSet) -> bool {
    let one = one.values.iter().flatten().map(|(id, _)| id);
    one.eq(other.values.iter().flatten().map(|(id, _)| id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logging::ChangedValues;
    use crate::metadata::ValueLocation;

    fn pmid() -> Pmid {
        Pmid::new(70, 1, 1).unwrap()
    }

    fn on_change(once: bool) -> OnChange {
        let place = ValueLocation { instance: None, source: 0, value: 0 };
        let value_type = ValueType::I32;
        let set = ValueSetShape { pmid: pmid(), value_type, owners: &[0], places: &[place] };
        let mut on_change = OnChange::default();
        on_change.set_shape([set].into_iter().collect(), once);
        on_change
    }

    fn sets(values: &[i32]) -> Vec<ValueSet> {
        let sets = values.iter().map(|value| ValueSet {
            pmid: pmid(),
            values: Ok(vec![(None, OwnedValue::I32(*value))]),
        });
        sets.collect()
    }

    /// What is logged at each of these values in turn: before and after.
    fn logged(
        on_change: &mut OnChange,
        values: &[Option<i32>],
    ) -> Vec<(Vec<ValueSet>, Vec<ValueSet>)> {
        let changes = values.iter().map(|value| {
            let values = value
                .map(|value| Values::of_words(&[u64::from(value.cast_unsigned()) | 0xdead << 32]));
            let mut changes = ChangedValues::default();
            on_change.observe(&[values.as_ref()], false, &mut changes);
            (changes.before, changes.after)
        });
        changes.collect()
    }

    #[test]
    fn a_changed_value_is_logged_with_the_one_before() {
        let found = logged(&mut on_change(false), &[Some(5), Some(5), Some(-1), Some(-1)]);
        let nothing = (sets(&[]), sets(&[]));
        let expected =
            [(sets(&[]), sets(&[5])), nothing.clone(), (sets(&[5]), sets(&[-1])), nothing];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_nan_that_stays_is_no_change() {
        let set = |value| ValueSet { pmid: pmid(), values: Ok(vec![(None, value)]) };
        let nan = || set(OwnedValue::Double(f64::NAN));
        assert!(same_values(&nan(), &nan()));
        assert!(!same_values(&nan(), &set(OwnedValue::Double(0.0))));
        assert!(!same_values(&set(OwnedValue::U32(0)), &set(OwnedValue::U32(1))));
    }

    #[test]
    fn what_is_logged_once_keeps_its_last_known_value() {
        let mut on_change = on_change(true);
        let found = logged(&mut on_change, &[Some(5), Some(6)]);
        assert_eq!(found, [(sets(&[]), sets(&[5])), (sets(&[]), sets(&[]))]);
        assert_eq!(on_change.last_known().cloned().collect::<Vec<_>>(), sets(&[6]));
    }

    #[test]
    fn values_of_another_type_are_dropped() {
        let mut on_change = on_change(false);
        logged(&mut on_change, &[Some(5)]);
        let shape = on_change.shape.clone();
        assert!(!on_change.set_shape(shape.clone(), false), "nothing differs");
        assert_eq!(on_change.last_known().count(), 1);
        let doubles =
            shape.iter().map(|set| ValueSetShape { value_type: ValueType::Double, ..set });
        assert!(on_change.set_shape(doubles.collect(), false));
        assert_eq!(on_change.last_known().count(), 0);
    }

    #[test]
    fn a_metric_that_returns_is_logged_again() {
        let mut on_change = on_change(true);
        let found = logged(&mut on_change, &[Some(5), None, Some(5)]);
        assert_eq!(found[2], (sets(&[]), sets(&[5])));
        let mut changes = ChangedValues::default();
        assert!(on_change.observe(&[None], false, &mut changes));
        assert_eq!(on_change.last_known().count(), 0);
    }
}

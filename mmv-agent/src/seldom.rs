//! Discrete metrics that are logged once or on change.
//!
//! Readers take the observation that is nearest in time. So a value that is
//! first logged when it has changed would seem to hold from halfway back to the
//! last observation on; therefore the value before is logged again a nanosecond
//! earlier.
//!
//! The sink begins archives and writes marks, and logs all of these values then;
//! so each sample has them with it, shared as long as none of them changes.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use mmv_archive::{OwnedValue, ValueSet};
use pcp_types::{InstanceId, Pmid, ValueType};

use crate::harvest::Values;
use crate::plan::low_half;
use crate::record::{Layout, ValueSetLayout};

/// All that is logged seldom, as it is now.
pub(crate) type Standing = Arc<Vec<ValueSet>>;

/// What has to be logged of it with this tick.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Changes {
    /// Values as they were until now.
    pub before: Vec<ValueSet>,
    /// Values as they are.
    pub after: Vec<ValueSet>,
}

/// The metrics of one group.
#[derive(Debug, Default)]
pub(crate) struct Seldom {
    layout: Layout,
    /// Later changes of values are not logged.
    once: bool,
    known: BTreeMap<Pmid, ValueSet>,
}

impl Seldom {
    /// Other metrics, or other places of their values, from now on. What is
    /// known of those that stay as they are is kept; true if something is not.
    pub(crate) fn lay_out(&mut self, layout: Layout, once: bool) -> bool {
        let before = self.known.len();
        let kind = |set: &ValueSetLayout| {
            let singular = set.places.first().map(|place| place.instance.is_none());
            (set.pmid, set.value_type, singular)
        };
        let stays: HashSet<_> = layout.iter().map(kind).collect();
        for set in self.layout.iter().filter(|set| !stays.contains(&kind(set))) {
            self.known.remove(&set.pmid);
        }
        (self.layout, self.once) = (layout, once);
        self.known.len() != before
    }

    /// Looks at the values of `sources`, and adds to `changes` what is to be
    /// logged; true if anything at all is different from the last look.
    pub(crate) fn look(&mut self, sources: &[Option<&Values>], changes: &mut Changes) -> bool {
        let mut different = false;
        for set in &self.layout {
            let Some(now) = observe(set, sources) else {
                different |= self.known.remove(&set.pmid).is_some();
                continue;
            };
            let Some(known) = self.known.get_mut(&set.pmid) else {
                changes.after.push(now.clone());
                self.known.insert(set.pmid, now);
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

    /// All values, as they were at the last look.
    pub(crate) fn standing(&self) -> impl Iterator<Item = &ValueSet> {
        self.known.values()
    }
}

/// The values of a metric; `None` if none of its sources is there.
fn observe(set: &ValueSetLayout, sources: &[Option<&Values>]) -> Option<ValueSet> {
    let of = |source: usize| sources.get(source).copied().flatten();
    set.owners.iter().find_map(|owner| of(*owner))?;
    let values = set.places.iter().filter_map(|place| {
        let values = of(place.source).filter(|values| values.is_present(place.value))?;
        Some((place.instance, value(values, place.value, set.value_type)))
    });
    Some(ValueSet { pmid: set.pmid, values: Ok(values.collect()) })
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
        // There is no other type in a plan.
        _ => OwnedValue::U64(word),
    }
}

/// As `==`, but that a NaN is what it was.
fn same_values(one: &ValueSet, other: &ValueSet) -> bool {
    let bits = |value: &OwnedValue| match value {
        OwnedValue::Float(value) => OwnedValue::U32(value.to_bits()),
        OwnedValue::Double(value) => OwnedValue::U64(value.to_bits()),
        value => value.clone(),
    };
    same_instances(one, other)
        && one.values.iter().flatten().map(|(_, value)| bits(value)).eq(other
            .values
            .iter()
            .flatten()
            .map(|(_, value)| bits(value)))
}

fn same_instances(one: &ValueSet, other: &ValueSet) -> bool {
    let ids = |set: &ValueSet| -> Vec<Option<InstanceId>> {
        set.values.iter().flatten().map(|(id, _)| *id).collect()
    };
    ids(one) == ids(other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Place;

    fn pmid() -> Pmid {
        Pmid::new(70, 1, 1).unwrap()
    }

    fn seldom(once: bool) -> Seldom {
        let place = Place { instance: None, source: 0, value: 0 };
        let value_type = ValueType::I32;
        let set = ValueSetLayout { pmid: pmid(), value_type, owners: vec![0], places: vec![place] };
        let mut seldom = Seldom::default();
        seldom.lay_out(vec![set], once);
        seldom
    }

    fn sets(values: &[i32]) -> Vec<ValueSet> {
        let set = |value: &i32| ValueSet {
            pmid: pmid(),
            values: Ok(vec![(None, OwnedValue::I32(*value))]),
        };
        values.iter().map(set).collect()
    }

    /// What is logged at each of these values in turn: before and after.
    fn logged(seldom: &mut Seldom, values: &[Option<i32>]) -> Vec<(Vec<ValueSet>, Vec<ValueSet>)> {
        let look = |value: &Option<i32>| {
            let values = value
                .map(|value| Values::of_words(&[u64::from(value.cast_unsigned()) | 0xdead << 32]));
            let mut changes = Changes::default();
            seldom.look(&[values.as_ref()], &mut changes);
            (changes.before, changes.after)
        };
        values.iter().map(look).collect()
    }

    #[test]
    fn a_changed_value_is_logged_with_the_one_before() {
        let found = logged(&mut seldom(false), &[Some(5), Some(5), Some(-1), Some(-1)]);
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
    fn what_is_logged_once_is_logged_once_and_stands_as_it_is() {
        let mut seldom = seldom(true);
        let found = logged(&mut seldom, &[Some(5), Some(6)]);
        assert_eq!(found, [(sets(&[]), sets(&[5])), (sets(&[]), sets(&[]))]);
        assert_eq!(seldom.standing().cloned().collect::<Vec<_>>(), sets(&[6]));
    }

    #[test]
    fn values_of_another_type_do_not_stand() {
        let mut seldom = seldom(false);
        logged(&mut seldom, &[Some(5)]);
        let layout = seldom.layout.clone();
        assert!(!seldom.lay_out(layout.clone(), false), "nothing is different");
        assert_eq!(seldom.standing().count(), 1);
        let double = ValueSetLayout { value_type: ValueType::Double, ..layout[0].clone() };
        assert!(seldom.lay_out(vec![double], false));
        assert_eq!(seldom.standing().count(), 0);
    }

    #[test]
    fn a_metric_that_was_gone_is_logged_when_it_comes_again() {
        let mut seldom = seldom(true);
        let found = logged(&mut seldom, &[Some(5), None, Some(5)]);
        assert_eq!(found[2], (sets(&[]), sets(&[5])));
        let mut changes = Changes::default();
        assert!(seldom.look(&[None], &mut changes));
        assert_eq!(seldom.standing().count(), 0);
    }
}

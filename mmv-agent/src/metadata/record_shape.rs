//! The source of each value in a record.
//!
//! Records, values logged on change and the samples of the flight recorder are made from such a
//! shape. It changes when the sources or their metadata do; the sampler then walks all of it
//! within a tick, so it lies in three blocks of memory instead of two for each metric.

use std::collections::BTreeSet;

use pcp_types::{InstanceId, Pmid, ValueType};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ValueSetShape<'s> {
    pub pmid: Pmid,
    /// Type of the values.
    pub value_type: ValueType,
    /// Sources that have the metric, with or without values.
    pub owners: &'s [usize],
    /// Values of the metric: source by source, in the order of the cells; each instance once.
    pub places: &'s [ValueLocation],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ValueLocation {
    /// `None` for a singular metric.
    pub instance: Option<InstanceId>,
    /// Index of the source.
    pub source: usize,
    /// Index of the value in the source's plan.
    pub value: usize,
}

/// All value sets of a record, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RecordShape {
    sets: Vec<ShapeSet>,
    owners: Vec<usize>,
    places: Vec<ValueLocation>,
}

/// A value set; its owners and places end where those of the next one begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ShapeSet {
    pmid: Pmid,
    value_type: ValueType,
    owners_end: usize,
    places_end: usize,
}

impl RecordShape {
    pub(crate) fn push(&mut self, set: ValueSetShape<'_>) {
        let ValueSetShape { pmid, value_type, owners, places } = set;
        self.owners.extend_from_slice(owners);
        self.places.extend_from_slice(places);
        let owners_end = self.owners.len();
        let places_end = self.places.len();
        self.sets.push(ShapeSet { pmid, value_type, owners_end, places_end });
    }

    /// Removes value sets that do not satisfy `stays`.
    pub(crate) fn retain(&mut self, stays: impl Fn(&ValueSetShape<'_>) -> bool) {
        if !self.iter().all(|set| stays(&set)) {
            *self = self.iter().filter(stays).collect();
        }
    }

    /// Returns the number of value sets.
    pub(crate) fn len(&self) -> usize {
        self.sets.len()
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    pub(crate) fn values(&self) -> usize {
        self.places.len()
    }

    /// Returns the sources of all value sets, most of them more than once.
    pub(crate) fn owners(&self) -> &[usize] {
        &self.owners
    }

    /// Adds the sources with values of the same metrics as those in `sources`.
    pub(crate) fn add_joined(&self, sources: &mut BTreeSet<usize>) {
        for set in self.iter().filter(|set| set.owners.len() > 1) {
            if set.owners.iter().any(|owner| sources.contains(owner)) {
                sources.extend(set.owners);
            }
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = ValueSetShape<'_>> {
        let mut owners = 0;
        let mut places = 0;
        self.sets.iter().map(move |&ShapeSet { pmid, value_type, owners_end, places_end }| {
            let owners = std::mem::replace(&mut owners, owners_end)..owners_end;
            let places = std::mem::replace(&mut places, places_end)..places_end;
            ValueSetShape {
                pmid,
                value_type,
                owners: self.owners.get(owners).unwrap_or_default(),
                places: self.places.get(places).unwrap_or_default(),
            }
        })
    }
}

impl<'s> FromIterator<ValueSetShape<'s>> for RecordShape {
    fn from_iter<I: IntoIterator<Item = ValueSetShape<'s>>>(sets: I) -> Self {
        let mut shape = Self::default();
        sets.into_iter().for_each(|set| shape.push(set));
        shape
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_sets_are_returned_as_added_except_removed() {
        let pmid = |item| Pmid::new(70, 1, item).unwrap();
        let place = |source, value| ValueLocation { instance: None, source, value };
        let value_type = ValueType::U64;
        let sets = [
            ValueSetShape { pmid: pmid(1), value_type, owners: &[0, 2], places: &[place(2, 1)] },
            ValueSetShape { pmid: pmid(2), value_type, owners: &[1], places: &[] },
            ValueSetShape {
                pmid: pmid(3),
                value_type,
                owners: &[2],
                places: &[place(2, 0), place(2, 2)],
            },
        ];
        let mut shape: RecordShape = sets.into_iter().collect();
        assert!(shape.iter().eq(sets));
        assert_eq!((shape.len(), shape.values(), shape.owners()), (3, 3, &[0, 2, 1, 2][..]));
        shape.retain(|set| set.pmid != pmid(1));
        assert!(shape.iter().eq(sets[1..].iter().copied()));
        assert_eq!((shape.values(), shape.owners()), (2, &[1, 2][..]));
        shape.retain(|_| false);
        assert!(shape.is_empty() && shape == RecordShape::default());
    }
}

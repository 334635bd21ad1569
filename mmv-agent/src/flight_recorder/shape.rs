//! What the values of samples are: their metrics, instances and sources.
//!
//! Kept once for all samples that share it, and only with what cannot be derived: the
//! indexes of a source's values follow from the order of the sets.

use std::collections::BTreeMap;
use std::sync::Arc;

use pcp_archive::{Instance, LabelSet};
use pcp_types::{InDom, InstanceId, Pmid, ValueType};
use serde::{Deserialize, Serialize};

use super::delta::{Cell, Gather};
use crate::metadata::{Catalog, Place, RecordShape, ValueSetShape};
use crate::source::Values;

/// The word for a value without an instance.
const NO_INSTANCE: i32 = -1;

/// The values of one metric.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Set {
    /// The metric.
    pub pmid: u32,
    /// The sources that have it, by their numbers in the shape.
    pub owners: Vec<u32>,
    /// The instance of each value; -1 for none.
    pub instances: Vec<i32>,
    /// The source of each value; empty: all are of the only owner.
    pub sources: Vec<u32>,
}

/// What the values of samples are.
#[derive(Debug)]
pub(crate) struct Shape {
    /// What is to be known of the metrics; of others as well.
    pub catalog: Arc<Catalog>,
    /// The metrics, in the order of records.
    pub sets: Vec<Set>,
    /// About how many bytes it takes.
    pub size: usize,
}

impl Shape {
    /// The shape of the values of `layout`, and where they come from.
    pub(crate) fn new(layout: &RecordShape, catalog: Arc<Catalog>) -> (Self, Vec<Gather>) {
        let mut gathers = BTreeMap::new();
        for set in layout.iter() {
            for &source in set.owners {
                let new = || Gather { source, ..Gather::default() };
                gathers.entry(source).or_insert_with(new);
            }
            for place in set.places {
                let Some(gather) = gathers.get_mut(&place.source) else { continue };
                let index = place.value as u32;
                match set.value_type.fixed_size() {
                    Some(size) => gather.cells.push(Cell { index, narrow: size == 4 }),
                    None => gather.texts.push(index),
                }
            }
        }
        let numbers: BTreeMap<usize, u32> = gathers.keys().copied().zip(0..).collect();
        let number = |source: usize| numbers.get(&source).copied().unwrap_or(u32::MAX);
        let set = |set: ValueSetShape<'_>| {
            let instance = |place: &Place| place.instance.map_or(NO_INSTANCE, InstanceId::get);
            let alone = set.owners.len() == 1;
            let sources = set.places.iter().filter(|_| !alone);
            Set {
                pmid: set.pmid.raw(),
                owners: set.owners.iter().map(|owner| number(*owner)).collect(),
                instances: set.places.iter().map(instance).collect(),
                sources: sources.map(|place| number(place.source)).collect(),
            }
        };
        let sets = layout.iter().map(set).collect();
        (Self::of(catalog, sets), gathers.into_values().collect())
    }

    /// A shape of these sets.
    pub(crate) fn of(catalog: Arc<Catalog>, sets: Vec<Set>) -> Self {
        let of_set =
            |set: &Set| vector(&set.owners) + vector(&set.instances) + vector(&set.sources);
        let of_sets = vector(&sets) + sets.iter().map(of_set).sum::<usize>();
        let size = of_sets + size_of_catalog(&catalog);
        Self { catalog, sets, size }
    }

    /// Whether everything is the same.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let (one, two) = (&*self.catalog, &*other.catalog);
        let same = one.metrics == two.metrics
            && one.indoms == two.indoms
            && one.labels == two.labels
            && one.texts == two.texts;
        self.sets == other.sets && (one.id == two.id || same)
    }

    /// The layout of records, and for each source as many values as it has. `None`
    /// if the sets make no sense: this may come from elsewhere.
    pub(crate) fn unfold(&self) -> Option<(RecordShape, Vec<Values>)> {
        let mut sources: BTreeMap<u32, (usize, usize)> = BTreeMap::new();
        let mut sets = Vec::with_capacity(self.sets.len());
        for set in &self.sets {
            let pmid = Pmid::from_raw(set.pmid);
            let value_type = self.value_type(pmid)?;
            for owner in &set.owners {
                sources.entry(*owner).or_default();
            }
            let mut places = Vec::with_capacity(set.instances.len());
            for (number, &instance) in set.instances.iter().enumerate() {
                let source = match &set.sources[..] {
                    [] => set.owners.first()?,
                    sources => sources.get(number)?,
                };
                let (words, texts) = sources.get_mut(source)?;
                let count = if value_type.fixed_size().is_some() { words } else { texts };
                let instance = match instance {
                    NO_INSTANCE => None,
                    id => Some(InstanceId::new(id).ok()?),
                };
                places.push(Place { instance, source: *source as usize, value: *count });
                *count += 1;
            }
            let owners: Vec<_> = set.owners.iter().map(|owner| *owner as usize).collect();
            sets.push((pmid, value_type, owners, places));
        }
        // Sources are numbered through, so that there are no more than are named.
        if !sources.keys().copied().eq(0..sources.len() as u32) {
            return None;
        }
        // A source's strings follow all of its numbers.
        let mut layout = RecordShape::default();
        for (pmid, value_type, owners, mut places) in sets {
            if value_type.fixed_size().is_none() {
                for place in &mut places {
                    place.value += sources.get(&(place.source as u32))?.0;
                }
            }
            let (owners, places) = (&*owners, &*places);
            layout.push(ValueSetShape { pmid, value_type, owners, places });
        }
        let values = sources.into_values().map(|(words, texts)| Values::blank(words, texts));
        Some((layout, values.collect()))
    }

    fn value_type(&self, pmid: Pmid) -> Option<ValueType> {
        let metrics = &self.catalog.metrics;
        let at = metrics.binary_search_by_key(&pmid, |(desc, _)| desc.pmid).ok()?;
        metrics.get(at).map(|(desc, _)| desc.value_type)
    }

    /// Whether the metric has values.
    pub(crate) fn has(&self, pmid: Pmid) -> bool {
        self.sets.binary_search_by_key(&pmid, |set| Pmid::from_raw(set.pmid)).is_ok()
    }

    /// Whether a metric that has values is of the instance domain.
    pub(crate) fn has_instances_of(&self, indom: InDom) -> bool {
        let metrics = &self.catalog.metrics;
        metrics.iter().any(|(desc, _)| desc.indom == Some(indom) && self.has(desc.pmid))
    }
}

/// Bytes that the allocator takes for a block: eight of its own, in steps of sixteen.
fn block(bytes: usize) -> usize {
    if bytes == 0 { 0 } else { (bytes + 8).next_multiple_of(16).max(32) }
}

/// Bytes of a vector, with those that it has reserved, without what its items own.
fn vector<T>(items: &Vec<T>) -> usize {
    block(items.capacity() * size_of::<T>())
}

/// Bytes that a catalog takes. A vector from which most was removed takes what it has
/// reserved, so that is what counts.
fn size_of_catalog(catalog: &Catalog) -> usize {
    /// The two counts in front of shared bytes.
    const COUNTS: usize = 2 * size_of::<usize>();
    let Catalog { id: _, metrics, indoms, labels, texts, payers } = catalog;
    let vectors = vector(metrics) + vector(indoms) + vector(labels) + vector(texts);
    let names = metrics.iter().map(|(_, name)| block(COUNTS + name.len()));
    let of_indom = |instances: &Vec<Instance>| {
        let names = instances.iter().map(|instance| block(instance.name.len()));
        vector(instances) + names.sum::<usize>()
    };
    let of_target = |sets: &Vec<LabelSet>| {
        let of_set = |set: &LabelSet| block(set.json.capacity()) + vector(&set.labels);
        vector(sets) + sets.iter().map(of_set).sum::<usize>()
    };
    vectors
        + payers.tables().into_iter().map(block).sum::<usize>()
        + names.sum::<usize>()
        + indoms.iter().map(|(_, instances)| of_indom(instances)).sum::<usize>()
        + labels.iter().map(|(_, sets)| of_target(sets)).sum::<usize>()
        + texts.iter().map(|(.., text)| block(text.capacity())).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use pcp_archive::MetricDesc;
    use pcp_types::{Semantics, Units};

    use super::*;

    /// Metrics 1 (numbers of instances of two sources), 2 (a string of the second
    /// source) and 3 (a narrow number of it), whose values are numbered otherwise
    /// there.
    fn layout() -> (RecordShape, Arc<Catalog>) {
        let id = |id| Some(InstanceId::new(id).unwrap());
        let place = |instance, source, value| Place { instance, source, value };
        let sets = [
            (1, ValueType::U64, vec![4, 7], vec![place(id(0), 4, 3), place(id(5), 7, 2)]),
            (2, ValueType::String, vec![7], vec![place(None, 7, 9)]),
            (3, ValueType::U32, vec![7], vec![place(None, 7, 0)]),
        ];
        let (mut layout, mut catalog) = (RecordShape::default(), Catalog::default());
        for (item, value_type, owners, places) in sets {
            let pmid = Pmid::new(70, 1, item).unwrap();
            let indom = (item == 1).then(|| InDom::new(70, 1).unwrap());
            let (semantics, units) = (Semantics::Instant, Units::NONE);
            let desc = MetricDesc { pmid, value_type, indom, semantics, units };
            catalog.metrics.push((desc, format!("mmv.m{item}").into()));
            let (owners, places) = (&*owners, &*places);
            layout.push(ValueSetShape { pmid, value_type, owners, places });
        }
        (layout, Arc::new(catalog))
    }

    #[test]
    fn sources_and_values_are_numbered_through() {
        let (layout, catalog) = layout();
        let (shape, gathers) = Shape::new(&layout, catalog);
        let wide = |index| Cell { index, narrow: false };
        let narrow = Cell { index: 0, narrow: true };
        let first = Gather { source: 4, cells: vec![wide(3)], texts: vec![] };
        let second = Gather { source: 7, cells: vec![wide(2), narrow], texts: vec![9] };
        assert_eq!(gathers, [first, second]);
        let (unfolded, values) = shape.unfold().unwrap();
        let places: Vec<_> = unfolded.iter().flat_map(|set| set.places).collect();
        let numbers: Vec<_> = places.iter().map(|place| (place.source, place.value)).collect();
        assert_eq!(numbers, [(0, 0), (1, 0), (1, 2), (1, 1)]);
        let instances: Vec<_> = places.iter().map(|place| place.instance).collect();
        let expected: Vec<_> =
            layout.iter().flat_map(|set| set.places).map(|place| place.instance).collect();
        assert_eq!(instances, expected);
        assert_eq!(unfolded.iter().next().unwrap().owners, [0, 1]);
        let sizes: Vec<_> = values.iter().map(|values| (values.len(), values.texts())).collect();
        assert_eq!(sizes, [(1, 0), (3, 1)]);
    }

    #[test]
    fn sets_that_make_no_sense_are_refused() {
        let (layout, catalog) = layout();
        let (shape, _) = Shape::new(&layout, Arc::clone(&catalog));
        let broken: [fn(&mut Set); 6] = [
            |set| set.pmid += 100,
            |set| set.owners.clear(),
            |set| set.owners[1] = 4_000_000_000,
            |set| set.sources.truncate(1),
            |set| set.sources[1] = 9,
            |set| set.instances[0] = -2,
        ];
        for (number, spoil) in broken.into_iter().enumerate() {
            let mut sets = shape.sets.clone();
            spoil(&mut sets[0]);
            assert!(Shape::of(Arc::clone(&catalog), sets).unfold().is_none(), "{number}");
        }
    }

    #[test]
    fn a_catalog_is_no_larger_than_what_is_left_of_it() {
        let (_, catalog) = layout();
        let (desc, name) = &catalog.metrics[0];
        let many = |count: u32| {
            let metric = |item| {
                let pmid = Pmid::new(70, 1, item).unwrap();
                (MetricDesc { pmid, ..*desc }, Arc::clone(name))
            };
            Catalog { metrics: (1..=count).map(metric).collect(), ..Catalog::default() }
        };
        let mut left = many(1000);
        assert!(size_of_catalog(&left) > 1000 * size_of_val(&catalog.metrics[0]));
        left.retain(|pmid| pmid.item() <= 2);
        assert_eq!(size_of_catalog(&left), size_of_catalog(&many(2)));

        // What is reserved counts as well.
        let mut reserved = many(2);
        reserved.metrics.reserve(998);
        assert!(size_of_catalog(&reserved) > size_of_catalog(&left));
    }

    #[test]
    fn only_what_is_all_the_same_is_alike() {
        let (layout, catalog) = layout();
        let shape = |layout: &RecordShape| Shape::new(layout, Arc::clone(&catalog)).0;
        assert!(shape(&layout).is_like(&shape(&layout)));
        let before = shape(&layout);
        let mut sets: Vec<_> = layout.iter().collect();
        let mut places = sets[0].places.to_vec();
        places[1].instance = Some(InstanceId::new(6).unwrap());
        sets[0].places = &places;
        let layout = sets.into_iter().collect();
        assert!(!before.is_like(&shape(&layout)));
    }
}

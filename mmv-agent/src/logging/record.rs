//! The record of a tick: a prepared template into which values are patched.
//!
//! A [`RecordShape`] maps each value of each source to its place; it changes when the sources do.
//! A [`RecorderBuilder`] makes a [`Recorder`] from it for the values that are present and the
//! present lengths of strings. From then on value sets, instances and block headers are constant
//! bytes, and a tick writes the timestamp and the values.
//!
//! A recorder is built within a tick, and again whenever a source comes, goes or is being written.
//! Allocating fresh memory would take longer than the work, so the builder reuses its own.

use pcp_archive::Version;
use pcp_archive::raw::EncodeError;
use pcp_archive::raw::prepared::{PendingSlot, RecordBuffer, Template, TemplateBuilder, ValueSlot};
use pcp_types::{Timestamp, ValueType};

use crate::metadata::{RecordShape, ValueLocation, ValueSetShape};
use crate::source::{Values, low_half};

/// Number of values up to which a builder keeps its memory, which is some hundred bytes for each.
const MAX_KEPT_VALUES: usize = 1 << 15;

#[derive(Debug, Default)]
struct SourceSlots {
    narrow: Vec<(u32, ValueSlot)>,
    wide: Vec<(u32, ValueSlot)>,
    texts: Vec<(u32, ValueSlot)>,
}

/// A template, and the slot of each present value in it.
#[derive(Debug)]
pub(crate) struct Recorder {
    template: Template,
    sources: Vec<SourceSlots>,
    included: Vec<bool>,
    values: usize,
}

#[derive(Debug)]
pub(crate) struct RecorderBuilder {
    version: Version,
    template: TemplateBuilder,
    planned: Vec<PlannedSlot>,
}

/// A value, its type, and its slot.
type PlannedSlot = (ValueLocation, ValueType, PendingSlot);

impl RecorderBuilder {
    pub(crate) fn new(version: Version) -> Self {
        Self { version, template: TemplateBuilder::of_version(version), planned: Vec::new() }
    }

    /// Builds a recorder for the values that are present. `sources[n]` has the values of source
    /// `n`; `None` leaves it out. A metric whose sources are present without a value gets an empty
    /// set. Returns `None` if there is no metric to record.
    ///
    /// # Errors
    ///
    /// [`EncodeError`] if the record would be too large.
    pub(crate) fn build(
        &mut self,
        shape: &RecordShape,
        sources: &[Option<&Values>],
    ) -> Result<Option<Recorder>, EncodeError> {
        let recorder = self.lay_out(shape, sources);
        self.template.clear();
        self.planned.clear();
        if shape.values().max(shape.len()) > MAX_KEPT_VALUES {
            *self = Self::new(self.version);
        }
        recorder
    }

    fn lay_out(
        &mut self,
        shape: &RecordShape,
        sources: &[Option<&Values>],
    ) -> Result<Option<Recorder>, EncodeError> {
        let mut sets = shape
            .iter()
            .filter(|set| {
                set.owners.iter().any(|owner| values_of_source(sources, *owner).is_some())
            })
            .peekable();
        if sets.peek().is_none() {
            return Ok(None);
        }
        sets.try_for_each(|set| self.add(set, sources))?;
        let template = self.template.finish()?;
        let mut slots: Vec<SourceSlots> = sources.iter().map(|_| SourceSlots::default()).collect();
        for &(place, value_type, pending) in &self.planned {
            let Some(source) = slots.get_mut(place.source) else { continue };
            let entry = (place.value as u32, template.slot(pending));
            match value_type.fixed_size() {
                Some(4) => source.narrow.push(entry),
                Some(_) => source.wide.push(entry),
                None => source.texts.push(entry),
            }
        }
        let included = sources.iter().map(Option::is_some).collect();
        Ok(Some(Recorder { template, sources: slots, included, values: self.planned.len() }))
    }

    fn add(
        &mut self,
        set: ValueSetShape<'_>,
        sources: &[Option<&Values>],
    ) -> Result<(), EncodeError> {
        let Self { template, planned, .. } = self;
        let before = planned.len();
        for place in set.places {
            let values = values_of_source(sources, place.source)
                .filter(|values| values.is_present(place.value));
            let Some(values) = values else { continue };
            if planned.len() == before {
                template.begin_set(set.pmid, set.value_type);
            }
            let slot = template.value(place.instance, values.text(place.value).len())?;
            planned.push((*place, set.value_type, slot));
        }
        if planned.len() == before {
            template.empty_set(set.pmid);
        }
        Ok(())
    }
}

impl Recorder {
    pub(crate) fn values(&self) -> usize {
        self.values
    }

    pub(crate) fn bytes(&self) -> usize {
        self.template.size()
    }

    /// Returns true if it was built for the same present sources, among those that `matter`.
    pub(crate) fn is_for(
        &self,
        sources: &[Option<&Values>],
        matter: impl Fn(usize) -> bool,
    ) -> bool {
        let mut pairs = self.included.iter().zip(sources).enumerate();
        self.included.len() == sources.len()
            && pairs.all(|(number, (was, is))| *was == is.is_some() || !matter(number))
    }

    /// Returns the number of the template, which identifies spent buffers.
    pub(crate) fn template_id(&self) -> u64 {
        self.template.id()
    }

    pub(crate) fn new_buffer(&self) -> RecordBuffer {
        self.template.new_buffer()
    }

    /// Writes the timestamp and all values into `buffer`, which belongs to this template, from the
    /// sources that it was [built for](Self::is_for). Returns false if a string no longer has the
    /// same padded length.
    pub(crate) fn record(
        &self,
        timestamp: Timestamp,
        sources: &[Option<&Values>],
        buffer: &mut RecordBuffer,
    ) -> bool {
        buffer.set_timestamp(timestamp);
        let mut fits = true;
        for (slots, values) in self.sources.iter().zip(sources) {
            let Some(values) = values else { continue };
            let words = values.words();
            for &(index, slot) in &slots.narrow {
                buffer.put_u32(slot, words.get(index as usize).map_or(0, |word| low_half(*word)));
            }
            for &(index, slot) in &slots.wide {
                buffer.put_u64(slot, words.get(index as usize).copied().unwrap_or(0));
            }
            for &(index, slot) in &slots.texts {
                fits &= buffer.put_bytes(slot, values.text(index as usize));
            }
        }
        fits
    }
}

/// Returns the values of a source that is present.
fn values_of_source<'v>(sources: &[Option<&'v Values>], source: usize) -> Option<&'v Values> {
    sources.get(source).copied().flatten()
}

#[cfg(test)]
mod tests {
    use pcp_types::{InstanceId, Pmid};

    use super::*;

    fn pmid(item: u32) -> Pmid {
        Pmid::new(70, 1, item).unwrap()
    }

    /// Two metrics: 1 has an instance of each of two sources, 2 is of the
    /// second source alone.
    fn record_shape() -> RecordShape {
        let place = |id, source, value| ValueLocation {
            instance: Some(InstanceId::new(id).unwrap()),
            source,
            value,
        };
        let sets = [
            ValueSetShape {
                pmid: pmid(1),
                value_type: ValueType::U32,
                owners: &[0, 1],
                places: &[place(0, 0, 0), place(1, 1, 0)],
            },
            ValueSetShape {
                pmid: pmid(2),
                value_type: ValueType::Double,
                owners: &[1],
                places: &[place(0, 1, 1)],
            },
        ];
        sets.into_iter().collect()
    }

    fn values(words: &[u64]) -> Values {
        Values::of_words(words)
    }

    fn build(
        shape: &RecordShape,
        sources: &[Option<&Values>],
    ) -> Result<Option<Recorder>, EncodeError> {
        RecorderBuilder::new(Version::V3).build(shape, sources)
    }

    /// Bytes of a record with this many sets, in-place values and blocks of 8.
    fn size(sets: usize, values: usize, blocks: usize) -> usize {
        24 + 12 * sets + 8 * values + 12 * blocks
    }

    #[test]
    fn a_record_has_the_values_of_all_sources_that_are_there() {
        let first = values(&[7]);
        let second = values(&[8, 0]);
        let all = [Some(&first), Some(&second)];
        let recorder = build(&record_shape(), &all).unwrap().unwrap();
        assert_eq!(recorder.values(), 3);
        assert_eq!(recorder.new_buffer().as_bytes().len(), size(2, 3, 1));

        let some = [Some(&first), None];
        assert!(recorder.is_for(&all, |_| true) && !recorder.is_for(&some, |_| true));
        assert!(recorder.is_for(&some, |source| source == 0));
        let recorder = build(&record_shape(), &some).unwrap().unwrap();
        assert_eq!(recorder.values(), 1);
        assert_eq!(recorder.new_buffer().as_bytes().len(), size(1, 1, 0));
    }

    #[test]
    fn values_are_big_endian_after_their_instances() {
        let first = values(&[0x0102_0304]);
        let recorder = build(&record_shape(), &[Some(&first), None]).unwrap().unwrap();
        let mut buffer = recorder.new_buffer();
        let timestamp = Timestamp::new(1_700_000_000, 5).unwrap();
        assert!(recorder.record(timestamp, &[Some(&first), None], &mut buffer));
        assert_eq!(buffer.timestamp(), timestamp);
        let expected = [0x0102_0304u32.to_be_bytes(), (size(1, 1, 0) as u32).to_be_bytes()];
        assert!(buffer.as_bytes().ends_with(&expected.concat()));
    }

    #[test]
    fn a_metric_without_values_has_a_set_without_values() {
        let first = values(&[7]);
        let shape = record_shape();
        let sets = shape.iter().map(|set| ValueSetShape { owners: &[1, 0], ..set });
        let recorder = build(&sets.collect(), &[Some(&first), None]).unwrap().unwrap();
        assert_eq!(recorder.values(), 1);
        assert_eq!(recorder.new_buffer().as_bytes().len(), size(1, 1, 0) + 8);
    }

    #[test]
    fn without_a_source_there_is_no_recorder() {
        assert!(build(&record_shape(), &[None, None]).unwrap().is_none());
        assert!(build(&RecordShape::default(), &[]).unwrap().is_none());
    }

    #[test]
    fn builder_keeps_only_memory_between_recorders() {
        let first = values(&[7]);
        let second = values(&[8, 9]);
        let all = [Some(&first), Some(&second)];
        let record = |recorder: &Recorder, sources: &[Option<&Values>]| {
            let mut buffer = recorder.new_buffer();
            assert!(recorder.record(Timestamp::EPOCH, sources, &mut buffer));
            buffer.as_bytes().to_vec()
        };
        let mut builder = RecorderBuilder::new(Version::V3);
        for sources in [all, [Some(&first), None], [None, None], [None, Some(&second)], all] {
            let found = builder.build(&record_shape(), &sources).unwrap();
            let found = found.map(|recorder| record(&recorder, &sources));
            let fresh = build(&record_shape(), &sources).unwrap();
            assert_eq!(found, fresh.map(|recorder| record(&recorder, &sources)));
        }
    }

    #[test]
    fn a_builder_gives_back_the_memory_of_a_large_record() {
        let value_type = ValueType::U64;
        let places: Vec<_> = (0..=MAX_KEPT_VALUES)
            .map(|value| ValueLocation {
                instance: Some(InstanceId::new(value as i32).unwrap()),
                source: 0,
                value,
            })
            .collect();
        let many = values(&vec![0; places.len()]);
        let mut builder = RecorderBuilder::new(Version::V3);
        for (places, kept) in [(&places[1..], true), (&places[..], false)] {
            let set = ValueSetShape { pmid: pmid(1), value_type, owners: &[0], places };
            let shape = [set].into_iter().collect();
            let recorder = builder.build(&shape, &[Some(&many)]).unwrap().unwrap();
            assert_eq!(recorder.values(), places.len());
            assert_eq!(builder.planned.capacity() > 0, kept);
        }
    }
}

//! The record of a tick: a prepared template into which values are patched.
//!
//! A [`RecordShape`] maps each value of each source to its place; it changes when
//! the sources do. A [`Recorder`] is made from it for the values that are
//! present and the lengths that strings have; value sets, instances and block
//! headers are constant bytes from then on, and a tick writes the timestamp and
//! the values.

use pcp_archive::prepared::{PendingSlot, RecordBuffer, Slot, Template, TemplateBuilder};
use pcp_archive::{EncodeError, Version};
use pcp_types::{Timestamp, ValueType};

use crate::metadata::{Place, RecordShape, ValueSetShape};
use crate::source::{Values, low_half};

#[derive(Debug, Default)]
struct SourceSlots {
    narrow: Vec<(u32, Slot)>,
    wide: Vec<(u32, Slot)>,
    texts: Vec<(u32, Slot)>,
}

/// A template and where each present value goes in it.
#[derive(Debug)]
pub(crate) struct Recorder {
    template: Template,
    sources: Vec<SourceSlots>,
    included: Vec<bool>,
    values: usize,
}

impl Recorder {
    /// A recorder for what is present now, for archives of a version. `sources[n]` are the values of
    /// source `n`, or `None` to leave it out. A metric whose sources are there
    /// but have no value now gets a set without values. `None` if there is no
    /// metric to record.
    ///
    /// # Errors
    ///
    /// [`EncodeError`] when the record would be larger than one can be.
    pub(crate) fn new(
        record_shape: &RecordShape,
        sources: &[Option<&Values>],
        version: Version,
    ) -> Result<Option<Self>, EncodeError> {
        let there =
            |set: &&ValueSetShape| set.owners.iter().any(|owner| of(sources, *owner).is_some());
        let mut builder = TemplateBuilder::of_version(version);
        let mut pending = Vec::new();
        let mut sets = 0;
        for set in record_shape.iter().filter(there) {
            sets += 1;
            lay_out(set, sources, &mut builder, &mut pending)?;
        }
        if sets == 0 {
            return Ok(None);
        }
        let template = builder.finish()?;
        let values = pending.len();
        let mut slots: Vec<SourceSlots> = sources.iter().map(|_| SourceSlots::default()).collect();
        for (place, value_type, pending) in pending {
            let Some(source) = slots.get_mut(place.source) else { continue };
            let entry = (place.value as u32, template.slot(pending));
            match value_type.fixed_size() {
                Some(4) => source.narrow.push(entry),
                Some(_) => source.wide.push(entry),
                None => source.texts.push(entry),
            }
        }
        let included = sources.iter().map(Option::is_some).collect();
        Ok(Some(Self { template, sources: slots, included, values }))
    }

    /// How many values a record has.
    pub(crate) fn values(&self) -> usize {
        self.values
    }

    /// How many bytes a record has.
    pub(crate) fn bytes(&self) -> usize {
        self.template.size()
    }

    /// Whether it was made for the same sources being there, of those that
    /// `matter`.
    pub(crate) fn is_for(
        &self,
        sources: &[Option<&Values>],
        matter: impl Fn(usize) -> bool,
    ) -> bool {
        let mut pairs = self.included.iter().zip(sources).enumerate();
        self.included.len() == sources.len()
            && pairs.all(|(number, (was, is))| *was == is.is_some() || !matter(number))
    }

    /// The number of the template, by which spent buffers are known.
    pub(crate) fn template_id(&self) -> u64 {
        self.template.id()
    }

    /// A buffer to record into.
    pub(crate) fn new_buffer(&self) -> RecordBuffer {
        self.template.new_buffer()
    }

    /// Writes the timestamp and all values into `buffer`, which is one of this
    /// template, from the sources that it was [made for](Self::is_for). `false`
    /// if a string no longer has the padded length that it had then.
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

/// A value's place, its type, and where it will be in the record.
type Laid = (Place, ValueType, PendingSlot);

/// Adds the set of one metric with the values that are present.
fn lay_out(
    set: &ValueSetShape,
    sources: &[Option<&Values>],
    builder: &mut TemplateBuilder,
    laid: &mut Vec<Laid>,
) -> Result<(), EncodeError> {
    let before = laid.len();
    for place in &set.places {
        let values = of(sources, place.source).filter(|values| values.is_present(place.value));
        let Some(values) = values else { continue };
        if laid.len() == before {
            builder.begin_set(set.pmid, set.value_type);
        }
        let slot = builder.value(place.instance, values.text(place.value).len())?;
        laid.push((*place, set.value_type, slot));
    }
    if laid.len() == before {
        builder.empty_set(set.pmid);
    }
    Ok(())
}

/// The values of a source that is there.
fn of<'v>(sources: &[Option<&'v Values>], source: usize) -> Option<&'v Values> {
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
        let place = |id, source, value| Place {
            instance: Some(InstanceId::new(id).unwrap()),
            source,
            value,
        };
        vec![
            ValueSetShape {
                pmid: pmid(1),
                value_type: ValueType::U32,
                owners: vec![0, 1],
                places: vec![place(0, 0, 0), place(1, 1, 0)],
            },
            ValueSetShape {
                pmid: pmid(2),
                value_type: ValueType::Double,
                owners: vec![1],
                places: vec![place(0, 1, 1)],
            },
        ]
    }

    fn values(words: &[u64]) -> Values {
        Values::of_words(words)
    }

    /// Bytes of a record with this many sets, in-place values and blocks of 8.
    fn size(sets: usize, values: usize, blocks: usize) -> usize {
        24 + 12 * sets + 8 * values + 12 * blocks
    }

    #[test]
    fn a_record_has_the_values_of_all_sources_that_are_there() {
        let (first, second) = (values(&[7]), values(&[8, 0]));
        let all = [Some(&first), Some(&second)];
        let recorder = Recorder::new(&record_shape(), &all, Version::V3).unwrap().unwrap();
        assert_eq!(recorder.values(), 3);
        assert_eq!(recorder.new_buffer().as_bytes().len(), size(2, 3, 1));

        let some = [Some(&first), None];
        let every = |_| true;
        assert!(recorder.is_for(&all, every) && !recorder.is_for(&some, every));
        assert!(recorder.is_for(&some, |source| source == 0));
        let recorder = Recorder::new(&record_shape(), &some, Version::V3).unwrap().unwrap();
        assert_eq!(recorder.values(), 1);
        assert_eq!(recorder.new_buffer().as_bytes().len(), size(1, 1, 0));
    }

    #[test]
    fn values_are_big_endian_after_their_instances() {
        let first = values(&[0x0102_0304]);
        let recorder =
            Recorder::new(&record_shape(), &[Some(&first), None], Version::V3).unwrap().unwrap();
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
        let mut record_shape = record_shape();
        record_shape[1].owners.push(0);
        let recorder =
            Recorder::new(&record_shape, &[Some(&first), None], Version::V3).unwrap().unwrap();
        assert_eq!(recorder.values(), 1);
        assert_eq!(recorder.new_buffer().as_bytes().len(), size(1, 1, 0) + 8);
    }

    #[test]
    fn without_a_source_there_is_no_recorder() {
        assert!(Recorder::new(&record_shape(), &[None, None], Version::V3).unwrap().is_none());
        assert!(Recorder::new(&RecordShape::new(), &[], Version::V3).unwrap().is_none());
    }
}

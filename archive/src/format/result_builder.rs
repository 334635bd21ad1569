//! Puts a data record together: value sets, then their blocks.
//!
//! Both halves grow side by side; the words that refer to blocks are biased
//! by the size of the first half when it is known. One builder serves many
//! records and keeps its memory.

use super::result::{IN_BLOCKS, IN_PLACE, UntypedValue, head_size};
use super::{WORD, frame, padded, timestamp, value_block};
use crate::{
    EncodeError, ErrorCode, InstanceId, Pmid, Timestamp, Value, ValueSet, ValueSetView, ValueType,
    Version,
};

/// Returns the format word for values of a type, the same in all records of a metric.
pub(crate) const fn format_of(value_type: ValueType) -> u32 {
    match value_type {
        ValueType::I32 | ValueType::U32 => IN_PLACE,
        _ => IN_BLOCKS,
    }
}

/// A data record under construction.
#[derive(Debug, Default)]
pub(crate) struct ResultBuilder {
    sets: Vec<u8>,
    blocks: Vec<u8>,
    /// Offsets in `sets` of the words that refer to blocks, biased later.
    references: Vec<usize>,
    count: u32,
    open: Option<OpenSet>,
}

/// The value set that values are added to.
#[derive(Debug)]
struct OpenSet {
    /// Offset of the count word.
    count_at: usize,
    values: u32,
    /// Written after the count, before the first value.
    format: u32,
}

/// The location of a value in a record that is being built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueLocation {
    /// Bytes from the start of the value sets.
    Sets(usize),
    /// Bytes from the start of the blocks, to the block's payload.
    Blocks(usize),
}

impl ResultBuilder {
    /// Removes the content, and keeps the memory for the next record.
    pub(crate) fn clear(&mut self) {
        self.sets.clear();
        self.blocks.clear();
        self.references.clear();
        self.count = 0;
        self.open = None;
    }

    /// Returns whether there is no set yet.
    pub(crate) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Starts the set of a metric; without a value it is an empty one.
    pub(crate) fn begin_set(&mut self, pmid: Pmid, value_type: ValueType) {
        self.put_head(pmid, 0);
        let count_at = self.sets.len() - WORD;
        let format = format_of(value_type);
        self.open = Some(OpenSet { count_at, values: 0, format });
    }

    /// Adds a metric without values, or with the reason why.
    pub(crate) fn put_empty_set(&mut self, pmid: Pmid, error: Option<ErrorCode>) {
        self.put_head(pmid, error.map_or(0, ErrorCode::get));
        self.open = None;
    }

    fn put_head(&mut self, pmid: Pmid, count: i32) {
        self.sets.extend_from_slice(&pmid.raw().to_be_bytes());
        self.sets.extend_from_slice(&count.to_be_bytes());
        self.count += 1;
    }

    /// Adds the next value of the open set, in place.
    #[inline]
    pub(crate) fn put_word(&mut self, instance: Option<InstanceId>, word: u32) -> ValueLocation {
        self.put_instance(instance);
        self.sets.extend_from_slice(&word.to_be_bytes());
        ValueLocation::Sets(self.sets.len() - WORD)
    }

    #[inline]
    pub(crate) fn put_block(
        &mut self,
        instance: Option<InstanceId>,
        value_type: ValueType,
        payload: &[u8],
        more: &[u8],
    ) -> Result<ValueLocation, EncodeError> {
        let start = self.blocks.len();
        value_block::encode(value_type, payload, more, &mut self.blocks)?;
        let place = self.put_word(instance, start as u32);
        if let ValueLocation::Sets(reference) = place {
            self.references.push(reference);
        }
        Ok(ValueLocation::Blocks(start + value_block::HEADER))
    }

    /// Adds a set of another record, as stored there.
    pub(crate) fn put_view(&mut self, set: &ValueSetView<'_>) {
        let Some(format) = set.format() else {
            self.put_empty_set(set.pmid(), set.error());
            return;
        };
        self.put_head(set.pmid(), 0);
        self.open = Some(OpenSet { count_at: self.sets.len() - WORD, values: 0, format });
        for (instance, stored) in set.stored() {
            let block = match stored {
                UntypedValue::Word(word) => {
                    self.put_word(instance, word);
                    continue;
                }
                UntypedValue::Block(block) => block,
            };
            self.put_stored(instance, block);
        }
    }

    /// Adds the next value of the open set, in a block of another record. The set must have no value
    /// in place.
    pub(crate) fn put_stored(&mut self, instance: Option<InstanceId>, block: &[u8]) {
        if let Some(open) = &mut self.open {
            open.format = IN_BLOCKS;
        }
        let start = self.blocks.len();
        self.blocks.extend(block);
        self.blocks.resize(start + padded(block.len()), value_block::PADDING);
        if let ValueLocation::Sets(reference) = self.put_word(instance, start as u32) {
            self.references.push(reference);
        }
    }

    fn put_instance(&mut self, instance: Option<InstanceId>) {
        if let Some(OpenSet { count_at, values, format }) = &mut self.open {
            if *values == 0 {
                self.sets.extend_from_slice(&format.to_be_bytes());
            }
            *values += 1;
            if let Some(word) = self.sets.get_mut(*count_at..*count_at + WORD) {
                word.copy_from_slice(&values.to_be_bytes());
            }
        }
        self.sets.extend_from_slice(&InstanceId::option_raw(instance).to_be_bytes());
    }

    /// Adds the next value of the open set, stored as its type demands.
    pub(crate) fn put_value(
        &mut self,
        instance: Option<InstanceId>,
        value_type: ValueType,
        value: Value<'_>,
    ) -> Result<ValueLocation, EncodeError> {
        match value {
            Value::I32(v) => Ok(self.put_word(instance, v.cast_unsigned())),
            Value::U32(v) => Ok(self.put_word(instance, v)),
            Value::I64(v) => self.put_block(instance, value_type, &v.to_be_bytes(), &[]),
            Value::U64(v) => self.put_block(instance, value_type, &v.to_be_bytes(), &[]),
            Value::Float(v) => self.put_block(instance, value_type, &v.to_be_bytes(), &[]),
            Value::Double(v) => self.put_block(instance, value_type, &v.to_be_bytes(), &[]),
            Value::String(bytes) => self.put_block(instance, value_type, bytes, &[0]),
            Value::Aggregate(bytes) | Value::Event(bytes) | Value::HighresEvent(bytes) => {
                self.put_block(instance, value_type, bytes, &[])
            }
        }
    }

    pub(crate) fn put_set(
        &mut self,
        set: &ValueSet,
        value_type: ValueType,
    ) -> Result<(), EncodeError> {
        let values = match &set.values {
            Ok(values) if !values.is_empty() => values,
            Ok(_) => {
                self.put_empty_set(set.pmid, None);
                return Ok(());
            }
            Err(error) => {
                self.put_empty_set(set.pmid, Some(*error));
                return Ok(());
            }
        };
        self.begin_set(set.pmid, value_type);
        for (instance, value) in values {
            self.put_value(*instance, value_type, value.as_value())?;
        }
        Ok(())
    }

    /// Appends all sets of a result; `type_of` gives each metric's type.
    #[cfg(test)]
    pub(crate) fn put_result(
        &mut self,
        result: &crate::format::value::FetchResult,
        type_of: impl Fn(Pmid) -> ValueType,
    ) -> Result<(), EncodeError> {
        result.value_sets.iter().try_for_each(|set| self.put_set(set, type_of(set.pmid)))
    }

    /// Returns the length of the finished record in bytes, framing included.
    pub(crate) fn len(&self, version: Version) -> usize {
        head_size(version) + self.sets.len() + self.blocks.len() + WORD
    }

    /// Returns the offset of a location in the finished record.
    pub(crate) fn offset(&self, version: Version, place: ValueLocation) -> usize {
        match place {
            ValueLocation::Sets(at) => head_size(version) + at,
            ValueLocation::Blocks(at) => head_size(version) + self.sets.len() + at,
        }
    }

    /// Appends the record to `out`; without sets it is a mark.
    pub(crate) fn encode(
        &mut self,
        version: Version,
        timestamp: Timestamp,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        let blocks = head_size(version) + self.sets.len();
        for reference in self.references.drain(..) {
            if let Some(word) =
                self.sets.get_mut(reference..).and_then(<[u8]>::first_chunk_mut::<WORD>)
            {
                let start = blocks + u32::from_be_bytes(*word) as usize;
                *word = value_block::index_of(start).to_be_bytes();
            }
        }
        frame::encode(out, |out| {
            timestamp::encode(version, timestamp, out)?;
            out.extend(self.count.to_be_bytes());
            out.extend(&self.sets);
            out.extend(&self.blocks);
            Ok(())
        })
    }
}

pub(crate) fn encode_mark(
    version: Version,
    timestamp: Timestamp,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    ResultBuilder::default().encode(version, timestamp, out)
}

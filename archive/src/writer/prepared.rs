//! Prepared records: a record whose shape stays the same from one sample to
//! the next is laid out once, and then only its time and values are patched.
//!
//! ```
//! use pcp_archive::raw::prepared::TemplateBuilder;
//! use pcp_archive::{Pmid, Timestamp, ValueType};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut builder = TemplateBuilder::new();
//! builder.begin_set(Pmid::new(70, 1, 1)?, ValueType::U64);
//! let pending = builder.value(None, 0)?;
//! let template = builder.finish()?;
//! let slot = template.slot(pending);
//!
//! let mut buffer = template.new_buffer();
//! buffer.set_timestamp(Timestamp::new(1_700_000_000, 0)?);
//! buffer.put_u64(slot, 42);
//! assert_eq!(buffer.as_bytes().len(), 24 + 12 + 8 + 12);
//! # Ok(())
//! # }
//! ```

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use zerocopy::big_endian::{U32, U64};
use zerocopy::{Immutable, IntoBytes};

use crate::format::frame::LENGTH_WORD;
use crate::format::result::head_size;
use crate::format::result_builder::{ValueLocation, format_of};
use crate::format::timestamp::{TimestampV2, TimestampV3};
use crate::format::value_block::HEADER;
use crate::format::{EventArray, ResultBuilder, WORD, padded, value_block};
use crate::{EncodeError, InstanceId, Pmid, Timestamp, Value, ValueType, Version};

/// The initial bytes of most values.
const ZEROS: [u8; 256] = [0; 256];

/// Numbers templates, so that a buffer names the one it belongs to.
static NEXT_ID: AtomicU64 = AtomicU64::new(0);

/// The values of one metric in a template: the writer compares them with what was declared, once
/// for each template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SetShape {
    pub(crate) pmid: Pmid,
    /// The type of the values; `None` for a set without values.
    pub(crate) value_type: Option<ValueType>,
    pub(crate) values: u32,
    pub(crate) with_instance: u32,
}

/// Lays a record out, set by set and value by value.
#[derive(Debug, Default)]
pub struct TemplateBuilder {
    version: Version,
    record: ResultBuilder,
    shapes: Vec<SetShape>,
}

/// The future location of a value; [`Template::slot`] makes it final.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PendingSlot(ValueLocation);

/// The location of a value in all records of a template: bytes from the record's start. Good for
/// buffers of the template that gave it, and for no other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValueSlot(u32);

impl TemplateBuilder {
    /// Returns an empty layout of version 3.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns an empty layout of a version: that of the archive to be written.
    pub fn of_version(version: Version) -> Self {
        Self { version, ..Self::default() }
    }

    /// Forgets what was laid out, as after an error.
    pub fn clear(&mut self) {
        self.record.clear();
        self.shapes.clear();
    }

    /// Starts the values of a metric; the calls of [`value`](Self::value)
    /// that follow belong to it. Without any it is an empty set.
    pub fn begin_set(&mut self, pmid: Pmid, value_type: ValueType) {
        self.record.begin_set(pmid, value_type);
        let value_type = Some(value_type);
        self.shapes.push(SetShape { pmid, value_type, values: 0, with_instance: 0 });
    }

    /// Adds a value, 0 until it is put. `payload` is the length in bytes of a
    /// string (without NUL) or aggregate, and means nothing for numbers.
    ///
    /// # Errors
    ///
    /// [`EncodeError::TooLarge`] for a payload of 16 MiB;
    /// [`EncodeError::NoSet`] without a set to add to.
    pub fn value(
        &mut self,
        instance: Option<InstanceId>,
        payload: usize,
    ) -> Result<PendingSlot, EncodeError> {
        let Some(shape) = self.shapes.last_mut() else { return Err(EncodeError::NoSet) };
        let Some(value_type) = shape.value_type else { return Err(EncodeError::NoSet) };
        shape.values += 1;
        shape.with_instance += u32::from(instance.is_some());
        if format_of(value_type) == 0 {
            return Ok(PendingSlot(self.record.put_word(instance, 0)));
        }
        // A payload beyond the limit is not worth allocating to be refused.
        value_block::header(value_type, payload)?;
        let len = value_type.fixed_size().unwrap_or(payload).max(least_size(value_type));
        let nul: &[u8] = if value_type == ValueType::String { &[0] } else { &[] };
        let zeros = match ZEROS.get(..len) {
            Some(zeros) => Cow::Borrowed(zeros),
            None => Cow::Owned(vec![0; len]),
        };
        self.record.put_block(instance, value_type, &zeros, nul).map(PendingSlot)
    }

    /// Adds a metric that just has no values now.
    pub fn empty_set(&mut self, pmid: Pmid) {
        self.record.put_empty_set(pmid, None);
        self.shapes.push(SetShape { pmid, value_type: None, values: 0, with_instance: 0 });
    }

    /// Returns the finished layout, and clears the builder, which keeps its memory for the next
    /// one.
    ///
    /// # Errors
    ///
    /// [`EncodeError::TooLarge`] for a record of 2 GiB,
    /// [`EncodeError::NoSet`] for one without sets, which would be a mark.
    pub fn finish(&mut self) -> Result<Template, EncodeError> {
        let layout = self.lay_out();
        self.clear();
        layout.map(|layout| Template(Arc::new(layout)))
    }

    fn lay_out(&mut self) -> Result<TemplateLayout, EncodeError> {
        if self.shapes.is_empty() {
            return Err(EncodeError::NoSet);
        }
        let version = self.version;
        let shapes = self.shapes.clone();
        let mut bytes = Vec::with_capacity(self.record.len(version));
        self.record.encode(version, Timestamp::EPOCH, &mut bytes)?;
        let blocks = self.record.offset(version, ValueLocation::Blocks(0));
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        Ok(TemplateLayout { id, version, blocks, bytes, shapes })
    }
}

#[derive(Debug)]
struct TemplateLayout {
    id: u64,
    version: Version,
    blocks: usize,
    bytes: Vec<u8>,
    shapes: Vec<SetShape>,
}

/// A record's layout; cheap to clone.
#[derive(Debug, Clone)]
pub struct Template(Arc<TemplateLayout>);

impl Template {
    /// Returns a number that no other template of this process has.
    pub fn id(&self) -> u64 {
        self.0.id
    }

    /// Returns the length of each record in bytes.
    pub fn size(&self) -> usize {
        self.0.bytes.len()
    }

    /// Returns the final place of a value of this template.
    pub fn slot(&self, pending: PendingSlot) -> ValueSlot {
        // No overflow: a record is shorter than 2 GiB.
        ValueSlot(match pending.0 {
            ValueLocation::Sets(at) => head_size(self.0.version) + at,
            ValueLocation::Blocks(at) => self.0.blocks + at,
        } as u32)
    }

    /// Returns a record of this layout, all values 0 and all strings empty bytes.
    pub fn new_buffer(&self) -> RecordBuffer {
        let layout = Arc::clone(&self.0);
        let bytes = self.0.bytes.clone();
        RecordBuffer { layout, timestamp: Timestamp::EPOCH, bytes }
    }
}

/// One record of a template, ready to be patched and written.
///
/// Putting a value is a bounds check and a byte-swapped store. A slot of
/// another template is the caller's mistake: debug builds panic if it lies
/// outside the record, release builds store nothing.
#[derive(Debug, Clone)]
pub struct RecordBuffer {
    layout: Arc<TemplateLayout>,
    timestamp: Timestamp,
    bytes: Vec<u8>,
}

impl RecordBuffer {
    /// Sets the record's time. The writer checks whether version 2 can hold it.
    pub fn set_timestamp(&mut self, timestamp: Timestamp) {
        self.timestamp = timestamp;
        match self.layout.version {
            Version::V3 => self.store(LENGTH_WORD, &TimestampV3::new(timestamp)),
            Version::V2 => {
                if let Ok(stored) = TimestampV2::new(timestamp) {
                    self.store(LENGTH_WORD, &stored);
                }
            }
        }
    }

    /// Stores a [`ValueType::I32`], [`ValueType::U32`] or the bits of a
    /// [`ValueType::Float`].
    #[inline]
    pub fn put_u32(&mut self, slot: ValueSlot, value: u32) {
        self.store(slot.0 as usize, &U32::new(value));
    }

    /// Stores a [`ValueType::I64`], [`ValueType::U64`] or the bits of a
    /// [`ValueType::Double`].
    #[inline]
    pub fn put_u64(&mut self, slot: ValueSlot, value: u64) {
        self.store(slot.0 as usize, &U64::new(value));
    }

    /// Stores a string (without NUL), an aggregate or an event array; false, and
    /// nothing is stored, if it needs another number of words than the template
    /// has for it, or is not an event array.
    pub fn put_bytes(&mut self, slot: ValueSlot, value: &[u8]) -> bool {
        let at = slot.0 as usize;
        let start = at.checked_sub(HEADER);
        let Some(block) = start.and_then(|start| self.bytes.get_mut(start..)) else { return false };
        let Some((code, len)) = value_block::parse_header(block) else { return false };
        let value_type = ValueType::from_code(code).unwrap_or(ValueType::Aggregate);
        let Some(block) = block.get_mut(..padded(len)) else { return false };
        can_store(value_type, value) && value_block::replace(block, code, value)
    }

    /// Returns the record, framing included.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the number of the record's template.
    pub fn template_id(&self) -> u64 {
        self.layout.id
    }

    /// Returns the time of the record.
    pub const fn timestamp(&self) -> Timestamp {
        self.timestamp
    }

    /// Returns the version of the archives that the record fits.
    pub fn version(&self) -> Version {
        self.layout.version
    }

    pub(crate) fn shapes(&self) -> &[SetShape] {
        &self.layout.shapes
    }

    #[inline]
    fn store(&mut self, at: usize, value: &(impl IntoBytes + Immutable)) {
        let stored =
            self.bytes.get_mut(at..).is_some_and(|tail| value.write_to_prefix(tail).is_ok());
        debug_assert!(stored, "offset {at} lies outside the record");
    }
}

/// Returns the least payload of a type: an event array has at least a count.
fn least_size(value_type: ValueType) -> usize {
    if value_type.is_event() { WORD } else { 0 }
}

/// Returns whether bytes can be a value of a type that is stored as bytes.
fn can_store(value_type: ValueType, bytes: &[u8]) -> bool {
    let array = match value_type {
        ValueType::Event => Value::Event(bytes),
        ValueType::HighresEvent => Value::HighresEvent(bytes),
        _ => return true,
    };
    EventArray::unpack(array).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::result::Record;

    const PMID: Pmid = Pmid::from_raw(0x1180_0401);

    fn template(value_type: ValueType, payload: usize) -> (Template, ValueSlot) {
        let mut builder = TemplateBuilder::new();
        builder.begin_set(PMID, value_type);
        let pending = builder.value(None, payload).unwrap();
        let template = builder.finish().unwrap();
        let slot = template.slot(pending);
        (template, slot)
    }

    fn value(buffer: &RecordBuffer, value_type: ValueType) -> Value<'_> {
        let record = Record::parse(Version::V3, buffer.as_bytes(), 0, 0).unwrap();
        let set = record.value_sets().next().unwrap();
        set.values(value_type).next().unwrap().unwrap().1
    }

    #[test]
    fn a_string_may_change_its_length_within_its_words() {
        let (template, slot) = template(ValueType::String, 4);
        let mut buffer = template.new_buffer();
        for (text, fits) in [("abcd", true), ("abcdefg", true), ("abc", false), ("abcdefgh", false)]
        {
            assert_eq!(buffer.put_bytes(slot, text.as_bytes()), fits, "{text}");
            if fits {
                assert_eq!(value(&buffer, ValueType::String), Value::String(text.as_bytes()));
            }
        }
        assert_eq!(value(&buffer, ValueType::String), Value::String(b"abcdefg"));
    }

    #[test]
    fn an_event_array_starts_empty_and_must_make_sense() {
        let (template, slot) = template(ValueType::Event, 4);
        let mut buffer = template.new_buffer();
        let empty = [0; 4];
        assert_eq!(value(&buffer, ValueType::Event), Value::Event(&empty));
        assert!(!buffer.put_bytes(slot, &[0, 0, 0, 1]));
        assert!(buffer.put_bytes(slot, &empty));
    }

    #[test]
    fn a_buffer_starts_with_zeros_and_belongs_to_its_template() {
        let (one, slot) = template(ValueType::Double, 0);
        let mut buffer = one.new_buffer();
        assert_eq!(value(&buffer, ValueType::Double), Value::Double(0.0));
        buffer.put_u64(slot, 1.5f64.to_bits());
        assert_eq!(value(&buffer, ValueType::Double), Value::Double(1.5));
        assert_eq!(value(&one.new_buffer(), ValueType::Double), Value::Double(0.0));
        assert_eq!(buffer.template_id(), one.id());
        assert_ne!(template(ValueType::Double, 0).0.id(), one.id());
    }

    #[test]
    fn the_time_that_was_set_is_the_records() {
        let (template, _) = template(ValueType::U32, 0);
        let mut buffer = template.new_buffer();
        let timestamp = Timestamp::new(0x1_6553_f100, 999_999_999).unwrap();
        buffer.set_timestamp(timestamp);
        assert_eq!(buffer.timestamp(), timestamp);
        let record = Record::parse(Version::V3, buffer.as_bytes(), 0, 0).unwrap();
        assert_eq!(record.timestamp(), timestamp);
    }

    #[test]
    fn values_need_a_set_and_records_need_one_too() {
        assert_eq!(TemplateBuilder::new().value(None, 0), Err(EncodeError::NoSet));
        assert!(matches!(TemplateBuilder::new().finish(), Err(EncodeError::NoSet)));
        let mut builder = TemplateBuilder::new();
        builder.empty_set(PMID);
        assert_eq!(builder.value(None, 0), Err(EncodeError::NoSet));
        assert_eq!(builder.finish().unwrap().size(), 24 + 8);
    }

    #[test]
    fn a_set_that_gets_no_value_is_an_empty_one() {
        for value_type in [ValueType::U32, ValueType::U64] {
            let mut begun = TemplateBuilder::new();
            let mut empty = TemplateBuilder::new();
            begun.begin_set(PMID, value_type);
            empty.empty_set(PMID);
            for builder in [&mut begun, &mut empty] {
                builder.begin_set(PMID, ValueType::U32);
                builder.value(None, 0).unwrap();
            }
            let buffer = begun.finish().unwrap().new_buffer();
            let record = Record::parse(Version::V3, buffer.as_bytes(), 0, 0).unwrap();
            let counts: Vec<_> = record.value_sets().map(|set| set.len()).collect();
            assert_eq!(counts, [0, 1]);
            assert_eq!(buffer.as_bytes(), empty.finish().unwrap().new_buffer().as_bytes());
        }
    }

    #[test]
    fn a_payload_beyond_the_limit_is_refused_before_it_is_allocated() {
        let mut builder = TemplateBuilder::new();
        builder.begin_set(PMID, ValueType::Aggregate);
        assert!(matches!(builder.value(None, usize::MAX), Err(EncodeError::TooLarge { .. })));
    }
}

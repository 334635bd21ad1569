//! A data record: the values of many metrics at one time, or a mark.
//!
//! | v2 + | v3 + | bytes | field |
//! |---|---|---|---|
//! | 0 | 0 | 4 | N, length of the record: a multiple of 4 |
//! | 4 | 4 | 8 / 12 | time |
//! | 12 | 16 | 4 | M, number of value sets; 0 in a mark |
//! | 16 | 20 | .. | M value sets |
//! | .. | .. | .. | all value blocks ([`value_block`]) |
//! | N - 4 | N - 4 | 4 | N |
//!
//! A value set:
//!
//! | + | bytes | field |
//! |---|---|---|
//! | 0 | 4 | PMID |
//! | 4 | 4 | n, number of values; negative: an error code |
//! | 8 | 4 | format: 0 in place, 1 or 2 in blocks. Only if n > 0 |
//! | 12 | 8 n | instance (0xffffffff if singular), then the value or its block's index |
//!
//! The blocks fill the space between the last value set and the trailer
//! without gap or overlap, in any order.
//!
//! [`Record::parse`] checks all of this once; its views then read the bytes in
//! place and can fail only because of a type.
//!
//! **Source**: LOGARCHIVE(5), "pmResult" and "pmValueSet" (which has a format
//! word always, wrongly); `src/libpcp/src/p_result.c`.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use zerocopy::big_endian::{I32, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::adaptation::{Adaptation, Adaptations, NumberConversion};
use super::bytes::count;
use super::value_block::ValueBlock;
use super::{Bytes, NULL, WORD, frame, timestamp, value_block};
use crate::{ErrorCode, InstanceId, Pmid, RecordError, Timestamp, Value, ValueType, Version};

/// Format word: values are in the pairs.
pub(crate) const IN_PLACE: u32 = 0;
/// Format word: values are in blocks.
pub(crate) const IN_BLOCKS: u32 = 1;
/// As 1; what event arrays and some agents produce.
const IN_STATIC_BLOCKS: u32 = 2;

/// The first two words of a value set.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct SetHead {
    pmid: U32,
    count: I32,
}

/// An instance and its value, or the index of its value's block.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Pair {
    instance: U32,
    word: U32,
}

const _: () = assert!(size_of::<SetHead>() == 8 && size_of::<Pair>() == 8);

/// Returns the length of a mark in bytes: framing, time and a count of 0.
pub(crate) const fn mark_size(version: Version) -> usize {
    frame::OVERHEAD + timestamp::size(version) + WORD
}

/// Returns the number of bytes before the first value set.
pub(crate) const fn head_size(version: Version) -> usize {
    mark_size(version) - frame::LENGTH_WORD
}

/// Returns the offset in a record of the number of value sets.
pub(crate) const fn count_offset(version: Version) -> usize {
    head_size(version) - WORD
}

/// Names a shape. No other has the same number as long as the program runs,
/// whichever reader learnt it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ShapeId(u64);

impl ShapeId {
    pub(crate) fn next() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(LAST.fetch_add(1, Ordering::Relaxed))
    }
}

/// One record of a data volume, borrowed from the reader's buffer.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    bytes: &'a [u8],
    sets: Bytes<'a>,
    timestamp: Timestamp,
    count: u32,
    shape: Option<ShapeId>,
    archive: u32,
    volume: u32,
    offset: u64,
    /// The changes that make the values those of the timeline that the record is read for.
    adaptations: Option<&'a Adaptations>,
}

/// The data that is needed to parse the bytes of a record again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordPlace {
    version: Version,
    shape: Option<ShapeId>,
    archive: u32,
    volume: u32,
    offset: u64,
    size: usize,
}

impl RecordPlace {
    /// Returns the length of the record in bytes, framing included.
    pub(crate) const fn size(&self) -> usize {
        self.size
    }
}

impl<'a> Record<'a> {
    /// Parses a whole record, framing included, that starts at `offset` of `volume`.
    pub(crate) fn parse(
        version: Version,
        bytes: &'a [u8],
        volume: u32,
        offset: u64,
    ) -> Result<Self, RecordError> {
        let record = Self::parse_head(version, bytes, volume, offset)?;
        record.check()?;
        Ok(record)
    }

    /// Parses a record whose value sets were not checked. Without a [`check`](Self::check) its
    /// value sets may end early.
    pub(crate) fn parse_head(
        version: Version,
        bytes: &'a [u8],
        volume: u32,
        offset: u64,
    ) -> Result<Self, RecordError> {
        let mut body = Bytes::new(frame::parse(bytes)?);
        let timestamp = timestamp::parse(version, &mut body)?;
        let count = count("number of value sets", body.take::<I32>("number of value sets")?.get())?;
        if count == 0 && bytes.len() != mark_size(version) {
            return Err(RecordError::Length {
                record: "mark",
                found: bytes.len() as u64,
                expected: mark_size(version) as u64,
            });
        }
        Ok(Self {
            bytes,
            sets: body,
            timestamp,
            count,
            shape: None,
            archive: 0,
            volume,
            offset,
            adaptations: None,
        })
    }

    /// Returns the time of a record without a look at its values.
    pub(crate) fn parse_timestamp(
        version: Version,
        bytes: &[u8],
    ) -> Result<Timestamp, RecordError> {
        timestamp::parse(version, &mut Bytes::new(frame::parse(bytes)?))
    }

    /// Returns the time at which the values were fetched.
    pub const fn timestamp(&self) -> Timestamp {
        self.timestamp
    }

    /// Returns whether this is a mark: time was lost, and values before and after must not be
    /// joined. A mark has no value sets.
    pub const fn is_mark(&self) -> bool {
        self.count == 0
    }

    /// Sets the archive of a set that the record is of.
    pub(crate) const fn with_archive(self, archive: u32) -> Self {
        Self { archive, ..self }
    }

    /// Sets the changes that make its values those of a timeline.
    pub(crate) fn adapted(self, adaptations: &'a Adaptations) -> Self {
        Self { adaptations: Some(adaptations).filter(|all| !all.is_empty()), ..self }
    }

    /// Returns whether values can be others than those in the bytes.
    pub(crate) const fn is_adapted(&self) -> bool {
        self.adaptations.is_some()
    }

    pub(crate) const fn with_shape(self, shape: Option<ShapeId>) -> Self {
        Self { shape, ..self }
    }

    /// Returns what the record has in common with others; `None` if that is not known.
    pub(crate) const fn shape(&self) -> Option<ShapeId> {
        self.shape
    }

    /// Returns the archive of a set that the record is in, counted from 0.
    pub const fn archive(&self) -> u32 {
        self.archive
    }

    /// Returns the data volume that the record is in.
    pub const fn volume(&self) -> u32 {
        self.volume
    }

    /// Returns the start of the record in its volume, in bytes from the start of the file.
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    pub(crate) const fn end_offset(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }

    /// Returns the length of the record in bytes, framing included.
    pub const fn size(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    pub(crate) fn version(&self) -> Version {
        let head = self.bytes.len() - frame::LENGTH_WORD - self.sets.len();
        if head == head_size(Version::V2) { Version::V2 } else { Version::V3 }
    }

    /// Returns what a copy of the bytes needs to be this record again.
    pub(crate) fn place(&self) -> RecordPlace {
        let Self { shape, archive, volume, offset, .. } = *self;
        let version = self.version();
        RecordPlace { version, shape, archive, volume, offset, size: self.bytes.len() }
    }

    /// Returns the record at a place, from a copy of its bytes. It was checked there.
    pub(crate) fn from_place(place: &RecordPlace, bytes: &'a [u8]) -> Option<Self> {
        let &RecordPlace { version, shape, archive, volume, offset, .. } = place;
        let record = Self::parse_head(version, bytes, volume, offset).ok()?;
        Some(Self { shape, archive, ..record })
    }

    /// Returns the number of value sets.
    pub const fn len(&self) -> u32 {
        self.count
    }

    /// Does the same as [`is_mark`](Self::is_mark).
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the value sets in file order, one for each metric.
    pub const fn value_sets(&self) -> ValueSets<'a> {
        ValueSets {
            record: self.bytes,
            rest: self.sets,
            left: self.count,
            adaptations: self.adaptations,
        }
    }

    /// Checks that all value sets are inside, and that the blocks fill the remaining space exactly.
    pub(crate) fn check(&self) -> Result<(), RecordError> {
        let mut sets = self.sets;
        let mut run = BlockRun::EMPTY;
        for _ in 0..self.count {
            let set = ValueSetView::parse(self.bytes, &mut sets)?;
            set.check(|block| run.add(block))?;
        }
        let end = self.bytes.len() - frame::LENGTH_WORD;
        let start = end - sets.len();
        if run.broken { self.check_unordered(start, end) } else { run.finish(start, end) }
    }

    /// Checks blocks in another order than the values that refer to them; PCP reads such records
    /// and never writes them.
    fn check_unordered(&self, start: usize, end: usize) -> Result<(), RecordError> {
        let mut blocks = Vec::new();
        for set in self.value_sets() {
            set.check(|block| blocks.push(block))?;
        }
        blocks.sort_unstable_by_key(|block| block.start);
        let mut expected = start;
        for block in blocks {
            if block.start != expected {
                return Err(block_order(block.start, expected));
            }
            expected = block.padded_end();
        }
        if expected == end { Ok(()) } else { Err(block_order(end, expected)) }
    }
}

/// Blocks that follow each other in the order of the values.
struct BlockRun {
    first: Option<usize>,
    /// Expected offset of the next block.
    next: usize,
    broken: bool,
}

impl BlockRun {
    /// No block, and none that could be the next one.
    const EMPTY: Self = Self { first: None, next: usize::MAX, broken: false };

    #[inline]
    fn add(&mut self, block: ValueBlock) {
        if block.start != self.next {
            self.jump(block.start);
        }
        self.next = block.padded_end();
    }

    /// Adds a block that does not follow the one before it. Only the first may start anywhere.
    fn jump(&mut self, start: usize) {
        self.broken |= self.first.is_some();
        self.first.get_or_insert(start);
    }

    fn finish(&self, start: usize, end: usize) -> Result<(), RecordError> {
        let first = self.first.unwrap_or(start);
        if first != start {
            return Err(block_order(first, start));
        }
        let next = if self.first.is_some() { self.next } else { start };
        if next == end { Ok(()) } else { Err(block_order(end, next)) }
    }
}

fn block_order(found: usize, expected: usize) -> RecordError {
    RecordError::BlockOrder { found: found as u64, expected: expected as u64 }
}

/// The value sets of a record.
#[derive(Debug, Clone)]
pub struct ValueSets<'a> {
    record: &'a [u8],
    rest: Bytes<'a>,
    left: u32,
    adaptations: Option<&'a Adaptations>,
}

impl<'a> ValueSets<'a> {
    #[cold]
    fn next_adapted(&mut self, adaptations: &'a Adaptations) -> Option<ValueSetView<'a>> {
        loop {
            self.left = self.left.checked_sub(1)?;
            let set = ValueSetView::parse(self.record, &mut self.rest).ok()?;
            match adaptations.get(&set.pmid) {
                None => return Some(set),
                Some(Adaptation::Converted(conversion)) => {
                    return Some(ValueSetView { conversion: Some(conversion), ..set });
                }
                Some(Adaptation::LeftOut) => {}
            }
        }
    }
}

impl<'a> Iterator for ValueSets<'a> {
    type Item = ValueSetView<'a>;

    #[inline]
    fn next(&mut self) -> Option<ValueSetView<'a>> {
        if let Some(adaptations) = self.adaptations {
            return self.next_adapted(adaptations);
        }
        self.left = self.left.checked_sub(1)?;
        // Cannot fail: the record was checked when it was parsed.
        ValueSetView::parse(self.record, &mut self.rest).ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let least = if self.adaptations.is_some() { 0 } else { self.left as usize };
        (least, Some(self.left as usize))
    }
}

/// The values of one metric in a record.
#[derive(Debug, Clone, Copy)]
pub struct ValueSetView<'a> {
    record: &'a [u8],
    pmid: Pmid,
    error: Option<ErrorCode>,
    format: u32,
    pairs: &'a [Pair],
    /// Offset of `pairs` in the record.
    pairs_at: usize,
    conversion: Option<&'a NumberConversion>,
}

impl<'a> ValueSetView<'a> {
    #[inline]
    fn parse(record: &'a [u8], bytes: &mut Bytes<'a>) -> Result<Self, RecordError> {
        let head: &SetHead = bytes.take("value set")?;
        let pmid = Pmid::from_raw(head.pmid.get());
        let count = head.count.get();
        let error = ErrorCode::new(count);
        let format = 0;
        let pairs = &[][..];
        let pairs_at = 0;
        let conversion = None;
        let mut set = Self { record, pmid, error, format, pairs, pairs_at, conversion };
        if count > 0 {
            set.format = bytes.take::<U32>("value format")?.get();
            set.pairs_at = record.len() - frame::LENGTH_WORD - bytes.len();
            set.pairs = bytes.table("values", count.cast_unsigned())?;
        }
        Ok(set)
    }

    /// Checks every instance and every block; `found` gets the blocks.
    #[inline]
    fn check(&self, mut found: impl FnMut(ValueBlock)) -> Result<(), RecordError> {
        if self.format > IN_STATIC_BLOCKS {
            let found = i64::from(self.format);
            return Err(RecordError::Field { field: "value format", found });
        }
        for pair in self.pairs {
            let instance = pair.instance.get();
            if instance > i32::MAX as u32 && instance != NULL {
                let found = i64::from(instance.cast_signed());
                return Err(RecordError::Negative { field: "instance", found });
            }
            if self.format != IN_PLACE {
                found(value_block::locate(self.record, pair.word.get())?);
            }
        }
        Ok(())
    }

    /// Returns the metric of the values.
    pub const fn pmid(&self) -> Pmid {
        self.pmid
    }

    /// Returns the reason why there are no values; `None` if there are, or if there just were
    /// none.
    pub const fn error(&self) -> Option<ErrorCode> {
        self.error
    }

    /// Returns the number of values; 0 with an error.
    pub const fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Returns whether there are no values.
    pub const fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Returns the storage format of the values: 0 in place, 1 or 2 in blocks; `None` without
    /// values.
    pub fn format(&self) -> Option<u32> {
        (!self.pairs.is_empty()).then_some(self.format)
    }

    /// Returns the instances in file order; `None` is that of a metric without.
    pub fn instances(&self) -> impl ExactSizeIterator<Item = Option<InstanceId>> + use<'a> {
        self.pairs.iter().map(|pair| InstanceId::new(pair.instance.get().cast_signed()).ok())
    }

    pub(crate) const fn is_in_place(&self) -> bool {
        self.format == IN_PLACE
    }

    /// Returns the range of the record that the set takes, without blocks; `None` without values.
    pub(crate) fn range(&self) -> Option<Range<usize>> {
        let start = self.pairs_at.checked_sub(size_of::<SetHead>() + WORD)?;
        Some(start..self.pairs_at + size_of_val(self.pairs))
    }

    /// Returns the range of the record that each value takes, without header and padding, in file
    /// order.
    pub(crate) fn payloads(&self) -> impl Iterator<Item = (Option<InstanceId>, Range<usize>)> {
        let Self { record, format, pairs_at, pairs, .. } = *self;
        self.instances().zip(pairs).enumerate().map(move |(place, (instance, pair))| {
            let payload = match value_block::locate(record, pair.word.get()) {
                Ok(block) if format != IN_PLACE => block.start + value_block::HEADER..block.end(),
                _ => {
                    let word = pairs_at + place * size_of::<Pair>() + WORD;
                    word..word + WORD
                }
            };
            (instance, payload)
        })
    }

    /// Returns the values as they are stored, in file order.
    pub(crate) fn stored(&self) -> impl Iterator<Item = (Option<InstanceId>, UntypedValue<'a>)> {
        let record = self.record;
        let format = self.format;
        self.instances().zip(self.pairs).map(move |(instance, pair)| {
            let word = pair.word.get();
            let stored = if format == IN_PLACE {
                UntypedValue::Word(word)
            } else {
                UntypedValue::Block(value_block::whole(record, word))
            };
            (instance, stored)
        })
    }

    /// Returns the values in file order. `value_type` is the type in the metric's descriptor: the
    /// record itself does not have it.
    ///
    /// An item is [`RecordError::ValueType`] if the block of a value states another
    /// type, [`RecordError::ValueEncoding`] if a value of this type cannot be stored
    /// as this one is.
    pub fn values(&self, value_type: ValueType) -> Values<'a> {
        let conversion = self.conversion.filter(|conversion| conversion.target == value_type);
        Values {
            record: self.record,
            pairs: self.pairs.iter(),
            pmid: self.pmid,
            format: self.format,
            value_type: conversion.map_or(value_type, |conversion| conversion.own),
            conversion,
        }
    }
}

/// A value as stored, before its type is known.
#[derive(Debug, Clone, Copy)]
pub(crate) enum UntypedValue<'a> {
    Word(u32),
    /// A block with its header, without padding.
    Block(&'a [u8]),
}

/// The values of a value set.
#[derive(Debug, Clone)]
pub struct Values<'a> {
    record: &'a [u8],
    pairs: std::slice::Iter<'a, Pair>,
    pmid: Pmid,
    format: u32,
    value_type: ValueType,
    conversion: Option<&'a NumberConversion>,
}

impl<'a> Values<'a> {
    #[inline]
    fn decode(&self, word: U32) -> Result<Value<'a>, RecordError> {
        let word = word.get();
        let (value, len) = if self.format == IN_PLACE {
            (value_of_word(self.value_type, word), WORD)
        } else {
            let block = value_block::whole(self.record, word);
            if let Some(found) = value_block::contradiction(self.value_type, block) {
                return Err(self.contradicted(found));
            }
            let payload = block.get(value_block::HEADER..).unwrap_or_default();
            let fits =
                value_block::fixed_len(self.value_type).is_none_or(|len| len == payload.len());
            let value = fits.then(|| value_block::decode(self.value_type, payload)).flatten();
            (value, payload.len())
        };
        let value = match self.conversion {
            None => value,
            Some(conversion) => value.and_then(|value| conversion.apply(value)),
        };
        value.ok_or_else(|| self.mismatch(len))
    }

    #[cold]
    fn contradicted(&self, found: i32) -> RecordError {
        RecordError::ValueType { pmid: self.pmid, found, expected: self.value_type }
    }

    #[cold]
    fn mismatch(&self, len: usize) -> RecordError {
        let Self { pmid, format, value_type, .. } = *self;
        RecordError::ValueEncoding { pmid, format, len: len as u64, value_type }
    }
}

impl<'a> Iterator for Values<'a> {
    type Item = Result<(Option<InstanceId>, Value<'a>), RecordError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let pair = self.pairs.next()?;
        let instance = InstanceId::new(pair.instance.get().cast_signed()).ok();
        Some(self.decode(pair.word).map(|value| (instance, value)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.pairs.size_hint()
    }
}

/// Returns a word as a value. Very old archives have floats in place.
fn value_of_word(value_type: ValueType, word: u32) -> Option<Value<'static>> {
    match value_type {
        ValueType::I32 => Some(Value::I32(word.cast_signed())),
        ValueType::U32 => Some(Value::U32(word)),
        ValueType::Float => Some(Value::Float(f32::from_bits(word))),
        _ => None,
    }
}

#[cfg(test)]
mod tests;

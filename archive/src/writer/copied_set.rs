//! Writes records of another archive.

use hashbrown::HashSet;
use zerocopy::IntoBytes;
use zerocopy::big_endian::U32;

use super::rewrite::{NewNumbers, renumbered};
use super::{check_events, check_set, mismatch};
use crate::event;
use crate::format::result::IN_PLACE;
use crate::format::result_builder::format_of;
use crate::format::{ResultBuilder, UntypedValue, WORD, timestamp};
use crate::{
    ArchiveWriter, InstanceId, MetricDesc, OwnedValue, Pmid, Record, RecordError, Result,
    Timestamp, ValueSet, ValueSetView, ValueType,
};

/// A value set of another archive as it becomes.
#[derive(Debug, Clone)]
pub(crate) enum CopiedSet<'r, 'i> {
    /// Values as they are stored.
    Stored {
        /// The metric that it becomes one of.
        pmid: Pmid,
        set: ValueSetView<'r>,
        /// The instances that are copied; `None`: all.
        instances: Option<&'i HashSet<InstanceId>>,
        /// The numbers that change.
        new_numbers: Option<&'i NewNumbers>,
    },
    /// Other values.
    Changed(ValueSet),
}

impl ArchiveWriter {
    /// Writes a record of value sets that another archive has, after the
    /// metadata declared since the last one. Instances stay as they are, even those that a metric
    /// should not have. A set without copied instances stays, without values.
    pub(crate) fn write_copied<'r, 'i>(
        &mut self,
        timestamp: Timestamp,
        sets: impl Iterator<Item = CopiedSet<'r, 'i>>,
    ) -> Result<()> {
        self.builder.clear();
        for copied in sets {
            match copied {
                CopiedSet::Stored { pmid, set, instances, new_numbers } => {
                    let desc = self.declared.desc(pmid)?;
                    put_set(&mut self.builder, desc, &set, instances, new_numbers)?;
                }
                CopiedSet::Changed(set) => {
                    let desc = self.declared.desc(set.pmid)?;
                    check_set(desc, &set)?;
                    self.builder.put_set(&set, desc.value_type)?;
                }
            }
        }
        self.write_built(timestamp)
    }

    /// Writes a record of another archive of this version unchanged. Its
    /// metrics must have been declared as there.
    pub(crate) fn write_whole(&mut self, record: &Record<'_>) -> Result<()> {
        self.check_time(record.timestamp(), self.ends_in_mark)?;
        self.write_record(record.timestamp(), record.bytes())
    }

    /// Writes a record of another archive of this version with another time and other words at
    /// some places.
    pub(crate) fn write_patched(
        &mut self,
        timestamp: Timestamp,
        record: &Record<'_>,
        patches: &[(u32, u32)],
    ) -> Result<()> {
        let timestamp = self.stored(timestamp)?;
        self.check_time(timestamp, self.ends_in_mark)?;
        let mut bytes = std::mem::take(&mut self.record);
        bytes.clear();
        bytes.extend_from_slice(record.bytes());
        for (at, word) in patches {
            put_word(&mut bytes, *at as usize, *word);
        }
        let keeps_time = timestamp == record.timestamp();
        let replaced = if keeps_time {
            Ok(())
        } else {
            timestamp::replace(self.options.version, timestamp, &mut bytes)
        };
        let written =
            replaced.map_err(Into::into).and_then(|()| self.write_record(timestamp, &bytes));
        self.record = bytes;
        written
    }
}

fn put_word(bytes: &mut [u8], at: usize, word: u32) {
    if let Some(place) = bytes.get_mut(at..at + WORD) {
        place.copy_from_slice(U32::new(word).as_bytes());
    }
}

fn put_set(
    builder: &mut ResultBuilder,
    desc: &MetricDesc,
    set: &ValueSetView<'_>,
    instances: Option<&HashSet<InstanceId>>,
    new_numbers: Option<&NewNumbers>,
) -> Result<()> {
    let pmid = desc.pmid;
    let value_type = desc.value_type;
    if set.is_empty() {
        builder.put_empty_set(pmid, set.error());
        return Ok(());
    }
    if desc.indom.is_none() && set.len() > 1 {
        return mismatch(desc);
    }
    let stays_in_blocks = stays_in_blocks(set, value_type);
    builder.begin_set(pmid, value_type);
    for ((instance, stored), value) in set.stored().zip(set.values(value_type)) {
        let is_copied =
            instances.is_none_or(|some| instance.is_some_and(|instance| some.contains(&instance)));
        if !is_copied {
            continue;
        }
        let Ok(instance) = renumbered(instance, new_numbers) else { continue };
        match (value, stored) {
            (Ok(_), UntypedValue::Block(block)) if stays_in_blocks => {
                builder.put_stored(instance, block);
            }
            (Ok((_, value)), _) => {
                check_events(desc, value)?;
                let widened = event::widened(value, value_type);
                let value = widened.as_ref().map_or(value, OwnedValue::as_value);
                builder.put_value(instance, value_type, value)?;
            }
            // Readers of the copy leave it out as well, and say so.
            (Err(RecordError::ValueType { .. }), UntypedValue::Block(block)) => {
                builder.put_stored(instance, block);
            }
            _ => return mismatch(desc),
        }
    }
    Ok(())
}

/// Returns whether a set of a type that is stored in place has a value in a block of another type:
/// it is copied in its block, and a set has one format.
fn stays_in_blocks(set: &ValueSetView<'_>, value_type: ValueType) -> bool {
    let is_in_blocks = matches!(set.stored().next(), Some((_, UntypedValue::Block(_))));
    format_of(value_type) == IN_PLACE
        && is_in_blocks
        && set.values(value_type).any(|value| matches!(value, Err(RecordError::ValueType { .. })))
}

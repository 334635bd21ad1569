//! Writes records of another archive.

use hashbrown::HashSet;

use super::{check_events, mismatch};
use crate::event;
use crate::format::{ResultBuilder, Stored};
use crate::{
    ArchiveWriter, InstanceId, MetricDesc, OwnedValue, Pmid, Record, RecordError, Result,
    Timestamp, ValueSetView,
};

/// A value set of another archive, and the part of it that is copied.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CopiedSet<'r, 'i> {
    /// The metric that it becomes one of.
    pub(crate) pmid: Pmid,
    pub(crate) set: ValueSetView<'r>,
    /// The instances that are copied; `None`: all.
    pub(crate) instances: Option<&'i HashSet<InstanceId>>,
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
            put_set(&mut self.builder, self.declared.desc(copied.pmid)?, &copied)?;
        }
        self.write_built(timestamp)
    }

    /// Writes a record of another archive of this version unchanged. Its
    /// metrics must have been declared as there.
    pub(crate) fn write_whole(&mut self, record: &Record<'_>) -> Result<()> {
        self.check_time(record.timestamp(), self.ends_in_mark)?;
        self.write_record(record.timestamp(), record.bytes())
    }
}

fn put_set(
    builder: &mut ResultBuilder,
    desc: &MetricDesc,
    CopiedSet { set, instances, .. }: &CopiedSet<'_, '_>,
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
    builder.begin_set(pmid, value_type);
    for ((instance, stored), value) in set.stored().zip(set.values(value_type)) {
        let is_copied =
            instances.is_none_or(|some| instance.is_some_and(|instance| some.contains(&instance)));
        if !is_copied {
            continue;
        }
        match (value, stored) {
            (Ok((_, value)), _) => {
                check_events(desc, value)?;
                let widened = event::widened(value, value_type);
                let value = widened.as_ref().map_or(value, OwnedValue::as_value);
                builder.put_value(instance, value_type, value)?;
            }
            // Readers of the copy leave it out as well, and say so.
            (Err(RecordError::ValueType { .. }), Stored::Block(block)) => {
                builder.put_stored(instance, block);
            }
            _ => return mismatch(desc),
        }
    }
    Ok(())
}

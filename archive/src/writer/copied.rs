//! Records of another archive.

use hashbrown::HashSet;
use pcp_types::{InstanceId, Pmid, Timestamp};

use super::{ArchiveWriter, check_events, mismatch};
use crate::error::{Error, Result};
use crate::format::desc::MetricDesc;
use crate::format::result::{Record, ValueSetView};
use crate::format::result_builder::ResultBuilder;

/// A value set of another archive, and what of it goes over.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Copied<'r, 'i> {
    /// The metric that it becomes one of.
    pub(crate) pmid: Pmid,
    pub(crate) set: ValueSetView<'r>,
    /// The instances that are copied; `None`: all.
    pub(crate) instances: Option<&'i HashSet<InstanceId>>,
}

impl ArchiveWriter {
    /// Writes a record of value sets that another archive has, after the
    /// metadata declared since the last one. Each goes under the metric that
    /// stands in front of it, whose type decides how its values are stored.
    /// Instances stay as they are, even those that a metric should not have.
    ///
    /// # Errors
    ///
    /// As [`write_result`](Self::write_result).
    pub fn write_sets<'r>(
        &mut self,
        stamp: Timestamp,
        sets: impl IntoIterator<Item = (Pmid, ValueSetView<'r>)>,
    ) -> Result<()> {
        let all = |(pmid, set)| Copied { pmid, set, instances: None };
        self.write_copied(stamp, sets.into_iter().map(all))
    }

    /// As [`write_sets`](Self::write_sets). A set of which no instance is
    /// copied stays, without values.
    pub(crate) fn write_copied<'r, 'i>(
        &mut self,
        stamp: Timestamp,
        sets: impl Iterator<Item = Copied<'r, 'i>>,
    ) -> Result<()> {
        let stamp = self.stored(stamp)?;
        self.check_time(stamp, self.ends_in_mark)?;
        self.builder.clear();
        for copied in sets {
            put_set(&mut self.builder, self.catalog.desc(copied.pmid)?, &copied)?;
        }
        if self.builder.is_empty() {
            return Err(Error::EmptyStart);
        }
        let mut record = std::mem::take(&mut self.record);
        record.clear();
        let encoded = self.builder.encode(self.options.version, stamp, &mut record);
        let written = encoded.map_err(Error::from).and_then(|()| self.write_record(stamp, &record));
        self.record = record;
        written
    }

    /// Writes a record of another archive of this version as it is. Its
    /// metrics must have been declared as they are there.
    pub(crate) fn write_whole(&mut self, record: &Record<'_>) -> Result<()> {
        self.check_time(record.timestamp(), self.ends_in_mark)?;
        self.write_record(record.timestamp(), record.bytes())
    }
}

fn put_set(
    builder: &mut ResultBuilder,
    desc: &MetricDesc,
    Copied { set, instances, .. }: &Copied<'_, '_>,
) -> Result<()> {
    let is_copied = |instance: Option<InstanceId>| {
        instances.is_none_or(|some| instance.is_some_and(|instance| some.contains(&instance)))
    };
    let (pmid, value_type) = (desc.pmid, desc.value_type);
    if set.is_empty() {
        builder.put_empty_set(pmid, set.error());
        return Ok(());
    }
    if desc.indom.is_none() && set.len() > 1 {
        return mismatch(desc);
    }
    builder.begin_set(pmid, value_type);
    for value in set.values(value_type) {
        let Ok((instance, value)) = value else { return mismatch(desc) };
        if is_copied(instance) {
            check_events(desc, value)?;
            builder.put_value(instance, value_type, value)?;
        }
    }
    Ok(())
}

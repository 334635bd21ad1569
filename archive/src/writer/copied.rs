//! Records of another archive.

use pcp_types::{Pmid, Timestamp};

use super::{ArchiveWriter, mismatch};
use crate::error::{Error, Result};
use crate::format::archive_label::Version;
use crate::format::desc::MetricDesc;
use crate::format::result::ValueSetView;
use crate::format::result_builder::ResultBuilder;

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
        self.check_time(stamp, self.ends_in_mark)?;
        self.builder.clear();
        for (pmid, set) in sets {
            put_set(&mut self.builder, self.catalog.desc(pmid)?, &set)?;
        }
        if self.builder.is_empty() {
            return Err(Error::EmptyStart);
        }
        let mut record = std::mem::take(&mut self.record);
        record.clear();
        let encoded = self.builder.encode(Version::V3, stamp, &mut record).map_err(Error::from);
        let written = encoded.and_then(|()| self.write_record(stamp, &record));
        self.record = record;
        written
    }
}

fn put_set(builder: &mut ResultBuilder, desc: &MetricDesc, set: &ValueSetView<'_>) -> Result<()> {
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
        builder.put_value(instance, value_type, value)?;
    }
    Ok(())
}

//! Filters the readable values of a record.

use hashbrown::HashMap;

use crate::format::{EventArray, ResultBuilder};
use crate::{Metadata, Pmid, Record, Result, Value, ValueSetView, Version};

/// Lets the readable value sets of records through.
pub(super) struct ValueFilter<'m> {
    metadata: &'m Metadata,
    version: Version,
    /// The value format of each metric, which must not change.
    formats: HashMap<Pmid, u32>,
    builder: ResultBuilder,
    record: Vec<u8>,
}

/// A record that passed.
pub(super) struct FilteredValues<'b> {
    pub(super) bytes: &'b [u8],
    pub(super) is_thinned: bool,
}

impl<'m> ValueFilter<'m> {
    pub(super) fn new(metadata: &'m Metadata, version: Version) -> Self {
        let formats = HashMap::new();
        let builder = ResultBuilder::default();
        let record = Vec::new();
        Self { metadata, version, formats, builder, record }
    }

    /// Returns the bytes of a record without what cannot be read; `None` if nothing is left.
    pub(super) fn pass<'b>(
        &'b mut self,
        record: &Record<'b>,
    ) -> Result<Option<FilteredValues<'b>>> {
        let good: Vec<bool> = record.value_sets().map(|set| self.is_good(&set)).collect();
        if good.iter().all(|good| *good) {
            return Ok(Some(FilteredValues { bytes: record.bytes(), is_thinned: false }));
        }
        if !good.contains(&true) {
            return Ok(None);
        }
        self.builder.clear();
        for (set, _) in record.value_sets().zip(good).filter(|(_, good)| *good) {
            self.builder.put_view(&set);
        }
        self.record.clear();
        self.builder.encode(self.version, record.timestamp(), &mut self.record)?;
        Ok(Some(FilteredValues { bytes: &self.record, is_thinned: true }))
    }

    fn is_good(&mut self, set: &ValueSetView<'_>) -> bool {
        let Some(metric) = self.metadata.metric(set.pmid()) else { return false };
        let desc = &metric.desc;
        let Some(format) = set.format() else { return true };
        let mut values = set.values(desc.value_type);
        *self.formats.entry(set.pmid()).or_insert(format) == format
            && (desc.indom.is_some() || set.len() == 1)
            && values.all(|value| value.is_ok_and(|(_, value)| is_whole(value)))
    }
}

/// Returns whether the records of an event array can be read.
fn is_whole(value: Value<'_>) -> bool {
    let is_array = matches!(value, Value::Event(_) | Value::HighresEvent(_));
    !is_array || EventArray::unpack(value).is_ok()
}

//! Records as values that own their bytes: the types of its values are in the
//! metadata of the archive, not in the record.

use crate::{FetchResult, Metadata, Record, RecordError, Value, ValueSet, ValueSetView, event};

impl Record<'_> {
    /// Returns a copy with all values, typed by the archive's descriptors.
    ///
    /// # Errors
    ///
    /// [`RecordError::UnknownMetric`] for a metric with values but without a
    /// descriptor, [`RecordError::ValueEncoding`] for a value that its
    /// metric's type cannot have.
    pub fn to_owned(&self, metadata: &Metadata) -> Result<FetchResult, RecordError> {
        let owned = self.value_sets().map(|set| own_set(set, metadata));
        Ok(FetchResult {
            timestamp: self.timestamp(),
            value_sets: owned.collect::<Result<_, _>>()?,
        })
    }
}

fn own_set(set: ValueSetView<'_>, metadata: &Metadata) -> Result<ValueSet, RecordError> {
    let pmid = set.pmid();
    if let Some(error) = set.error() {
        return Ok(ValueSet { pmid, values: Err(error) });
    }
    if set.is_empty() {
        return Ok(ValueSet { pmid, values: Ok(Vec::new()) });
    }
    let metric = metadata.metric(pmid).ok_or(RecordError::UnknownMetric { pmid })?;
    let value_type = metric.desc.value_type;
    let own =
        |value: Value<'_>| event::widened(value, value_type).unwrap_or_else(|| value.to_owned());
    let values = set.values(value_type);
    let owned = values.map(|value| value.map(|(id, value)| (id, own(value))));
    Ok(ValueSet { pmid, values: Ok(owned.collect::<Result<_, _>>()?) })
}

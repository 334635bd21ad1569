//! Reads a `.meta` file once, from front to back.

use hashbrown::hash_map::Entry;
use pcp_types::Pmid;

use super::metadata::{Metadata, Metric};
use super::record_file::{Next, RecordFile, Window};
use crate::error::{Error, RecordError, Result};
use crate::format::archive_label::Version;
use crate::format::bytes::lossy;
use crate::format::desc::DescRecord;
use crate::format::metadata_record::{self, MetadataRecord};

/// Loads all metadata of an archive.
pub(super) fn load(file: &mut RecordFile, version: Version) -> Result<Metadata> {
    let mut metadata = Metadata::default();
    let mut window = Window::default();
    let mut offset = version.label_size();
    loop {
        let len = match window.forward(file, offset)? {
            Next::End => break,
            Next::Record(len) => len,
            Next::Torn { needed, left } => {
                let field = "record";
                return Err(file.corrupt(offset, RecordError::Truncated { field, needed, left }));
            }
        };
        let record = metadata_record::parse(version, window.get(offset, len).unwrap_or_default());
        match record.map_err(|source| file.corrupt(offset, source))? {
            MetadataRecord::Desc(record) => {
                add_desc(&mut metadata, record).map_err(|(pmid, field)| Error::DescChanged {
                    file: file.path.clone(),
                    offset,
                    pmid,
                    field,
                })?;
            }
            MetadataRecord::Indom(record) => {
                metadata.indoms.entry(record.indom).or_default().push(&record);
            }
            MetadataRecord::Label(record) => {
                metadata.labels.entry(record.target).or_default().push(record.stamp, record.sets);
            }
            MetadataRecord::Text(record) => {
                metadata.texts.insert((record.target, record.kind), lossy(record.text));
            }
        }
        offset += len as u64;
    }
    metadata.indoms.values_mut().for_each(super::IndomHistory::resolve);
    metadata.indoms.retain(|_, history| !history.states().is_empty());
    metadata.labels.values_mut().for_each(super::LabelHistory::sort);
    Ok(metadata)
}

/// A repeated descriptor may add names; it must not change the metric.
fn add_desc(metadata: &mut Metadata, record: DescRecord<'_>) -> Result<(), (Pmid, &'static str)> {
    let pmid = record.desc.pmid;
    let at = match metadata.by_pmid.entry(pmid) {
        Entry::Occupied(known) => *known.get(),
        Entry::Vacant(new) => {
            metadata.metrics.push(Metric { desc: record.desc, names: Vec::new() });
            *new.insert(metadata.metrics.len() - 1)
        }
    };
    let Some(metric) = metadata.metrics.get_mut(at) else { return Ok(()) };
    if let Some(field) = metric.desc.difference(&record.desc) {
        return Err((pmid, field));
    }
    for name in record.names {
        let name = lossy(name);
        // A name that another metric has is ignored, as PCP does.
        metadata.by_name.entry(name).or_insert_with_key(|name| {
            metric.names.push(name.clone());
            at
        });
    }
    Ok(())
}

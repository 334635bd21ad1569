//! The index on its own: every entry, and the order of the entries.

use std::path::Path;

use hashbrown::HashMap;

use super::{Checker, Defect};
use crate::files::RecordFile;
use crate::format::{Bytes, Role, index};
use crate::{IndexEntry, RecordError, Result};

pub(super) struct LocatedEntry {
    pub(super) offset: u64,
    pub(super) entry: IndexEntry,
}

struct Sizes {
    metadata: Option<u64>,
    volumes: HashMap<u32, u64>,
}

impl Checker {
    pub(super) fn check_index(&mut self) -> Result<Vec<LocatedEntry>> {
        let Some(path) = self.files.index.clone() else { return Ok(Vec::new()) };
        let Some(mut file) = self.open(&path, Role::Index)? else { return Ok(Vec::new()) };
        let sizes = self.sizes()?;
        let version = self.label.version;
        let (bytes, has_more) = file.read_index(version)?;
        let mut rest = Bytes::new(&bytes);
        let mut entries: Vec<LocatedEntry> = Vec::new();
        let mut offset = version.label_size();
        while rest.len() >= index::size(version) {
            let Ok(cut) = rest.slice("index entry", index::size(version) as u64) else { break };
            match index::parse(version, &mut Bytes::new(cut)) {
                Ok(entry) => {
                    let before = entries.last().map(|before| &before.entry);
                    self.check_entry(&path, offset, &entry, before, &sizes);
                    entries.push(LocatedEntry { offset, entry });
                }
                Err(source) => self.report.add(&path, offset, Defect::IndexEntry { source }),
            }
            offset += index::size(version) as u64;
        }
        let left = rest.len() as u64;
        if left > 0 {
            let field = "index entry";
            let needed = index::size(version) as u64;
            let source = RecordError::Truncated { field, needed, left };
            self.report.add(&path, offset, Defect::TornTail { source });
        } else if has_more {
            let source = RecordError::TooMany { field: "index entries", most: index::MAX_ENTRIES };
            self.report.add(&path, offset, Defect::IndexEntry { source });
        } else if bytes.is_empty() {
            self.report.add(&path, offset, Defect::NoRecords);
        }
        Ok(entries)
    }

    fn sizes(&self) -> Result<Sizes> {
        let size = |path: &Path| RecordFile::open(path)?.available(0, 0, u64::MAX);
        let metadata = self.files.metadata.as_deref().map(size).transpose()?;
        let volumes = self.files.volumes.iter();
        let volumes = volumes.map(|(number, path)| Ok((*number, size(path)?)));
        Ok(Sizes { metadata, volumes: volumes.collect::<Result<_>>()? })
    }

    fn check_entry(
        &mut self,
        path: &Path,
        offset: u64,
        entry: &IndexEntry,
        before: Option<&IndexEntry>,
        sizes: &Sizes,
    ) {
        let least = self.label.version.label_size();
        let IndexEntry { timestamp, volume, metadata_offset, data_offset } = *entry;
        let mut add = |defect| self.report.add(path, offset, defect);
        if let Some(end) = sizes.metadata
            && !(least..=end).contains(&metadata_offset)
        {
            add(Defect::IndexMetadataOffset { found: metadata_offset, least, end });
        }
        match sizes.volumes.get(&volume) {
            None => add(Defect::IndexVolumeMissing { volume }),
            Some(&end) if !(least..=end).contains(&data_offset) => {
                add(Defect::IndexDataOffset { found: data_offset, volume, least, end });
            }
            Some(_) => {}
        }
        if timestamp < self.label.start {
            add(Defect::IndexBeforeStart { found: timestamp, start: self.label.start });
        }
        let Some(before) = before else { return };
        if timestamp < before.timestamp {
            add(Defect::IndexTimeBackwards { found: timestamp, before: before.timestamp });
        }
        if volume < before.volume {
            add(Defect::IndexVolumeBackwards { found: volume, before: before.volume });
        }
        if volume != before.volume {
            return;
        }
        for (field, found, before) in [
            ("metadata", metadata_offset, before.metadata_offset),
            ("data", data_offset, before.data_offset),
        ] {
            if found < before {
                add(Defect::IndexOffsetBackwards { field, found, before });
            }
        }
    }
}

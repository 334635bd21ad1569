//! Decides which records of a damaged archive are kept, and in which order.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::MetricRename;
use super::metadata_filter::{FilteredRecord, MetadataFilter};
use super::order::parts;
use super::value_filter::ValueFilter;
use crate::files::RecordFile;
use crate::progress::Progress;
use crate::reader::salvage::{Loss, MetadataPlace, Salvage, SalvageItem};
use crate::{ArchiveLabel, ByteText, Error, Metadata, Pmid, Result, Timestamp, Version};

const MAX_PARTS: usize = 8;

/// Made by one pass over the data; the copying is the second.
pub(super) struct Decisions {
    /// The new archives: the one with the most records first.
    pub(super) parts: Vec<RepairedPart>,
    /// Metadata records that are in none of them.
    pub(super) dropped_metadata: u64,
    /// Stretches that are lost of the data, and of the metadata that is kept.
    pub(super) lost: Vec<Loss>,
    /// The names that are replaced.
    pub(super) renamed: Vec<MetricRename>,
    /// For each good data record the number of its part, if it is kept.
    part_of: Vec<Option<usize>>,
    /// The old metadata, to find places by time.
    old: Places,
}

/// A new archive.
pub(super) struct RepairedPart {
    pub(super) label: ArchiveLabel,
    /// Ordered by time.
    pub(super) metadata: Vec<KeptMetadata>,
    /// First and last data record.
    pub(super) span: (Timestamp, Timestamp),
    new: Places,
}

/// A metadata record of a new archive.
pub(super) struct KeptMetadata {
    /// Its place in the old metadata.
    pub(super) place: MetadataPlace,
    /// The bytes that take its place.
    pub(super) changed: Option<Vec<u8>>,
}

impl Decisions {
    pub(super) fn new(salvage: &Salvage, progress: &mut Progress<'_>) -> Result<Self> {
        let Survey { readable, timestamps, marks, mut lost } = Survey::new(salvage, progress)?;
        let mut of_readable = parts(&timestamps, MAX_PARTS);
        let spans = spans(&timestamps, &marks, &mut of_readable);
        // Marks alone say nothing.
        if !marks.contains(&false) {
            return Err(Error::NoData { path: salvage.files().base.clone() });
        }
        let mut of_readable = of_readable.into_iter();
        let part_of = readable
            .into_iter()
            .map(|readable| if readable { of_readable.next().flatten() } else { None });
        let part_of = part_of.collect();
        let places = salvage.metadata_places();
        let last = spans.iter().map(|span| span.1).max();
        let dropped_metadata = places.iter().filter(|place| place.timestamp > last).count() as u64;
        let mut metadata = OldMetadata::open(salvage)?;
        let parts = spans.into_iter().map(|span| RepairedPart::new(salvage, &mut metadata, span));
        let parts = parts.collect::<Result<_>>()?;
        lost.extend(metadata.lost);
        let renamed = metadata.renamed.into_values().collect();
        let old = Places::new(places, salvage.version().label_size());
        Ok(Self { parts, dropped_metadata, lost, renamed, part_of, old })
    }

    /// Returns the part that the good record with this number is in, if it is kept.
    pub(super) fn part_of(&self, number: usize) -> Option<usize> {
        self.part_of.get(number).copied().flatten()
    }

    pub(super) fn dropped(&self) -> u64 {
        self.part_of.iter().filter(|part| part.is_none()).count() as u64
    }

    /// Returns the offset in the old metadata at which that of a time starts.
    pub(super) fn old_metadata_offset(&self, timestamp: Timestamp) -> u64 {
        self.old.offset(timestamp)
    }

    pub(super) const fn old_metadata_end(&self) -> u64 {
        self.old.end
    }
}

/// Returns the first and last record of each part. A part that has nothing but marks is dropped,
/// and parts after the first do not begin with a mark.
fn spans(
    timestamps: &[Timestamp],
    marks: &[bool],
    part_of: &mut [Option<usize>],
) -> Vec<(Timestamp, Timestamp)> {
    let with_values = part_of.iter().zip(marks).filter(|(_, is_mark)| !**is_mark);
    let with_values: BTreeSet<usize> = with_values.filter_map(|(part, _)| *part).collect();
    let mut spans: Vec<Option<(Timestamp, Timestamp)>> = Vec::new();
    for ((part, timestamp), is_mark) in part_of.iter_mut().zip(timestamps).zip(marks) {
        let Some(number) = *part else { continue };
        if spans.len() <= number {
            spans.resize(number + 1, None);
        }
        match spans.get_mut(number) {
            Some(Some(span)) => span.1 = *timestamp,
            Some(None) if !with_values.contains(&number) => *part = None,
            Some(None) if number > 0 && *is_mark => *part = None,
            Some(span) => *span = Some((*timestamp, *timestamp)),
            None => {}
        }
    }
    // Numbers of the parts that are left.
    let mut left = 0;
    let numbers: Vec<usize> = spans
        .iter()
        .map(|span| {
            left += usize::from(span.is_some());
            left.saturating_sub(1)
        })
        .collect();
    for part in part_of.iter_mut().flatten() {
        *part = numbers.get(*part).copied().unwrap_or_default();
    }
    spans.into_iter().flatten().collect()
}

impl RepairedPart {
    fn new(
        salvage: &Salvage,
        old: &mut OldMetadata<'_>,
        span: (Timestamp, Timestamp),
    ) -> Result<Self> {
        let places = salvage.metadata_places();
        let useful = places.iter().filter(|place| place.timestamp <= Some(span.1)).copied();
        let metadata = old.filter(sorted_by_time(useful.collect()))?;
        let earliest = metadata.iter().filter_map(|kept| kept.place.timestamp).min();
        let start = earliest.map_or(span.0, |earliest| earliest.min(span.0));
        let label = salvage.label();
        let label = ArchiveLabel { start: label.start.min(start), ..label.clone() };
        let first = label.version.label_size();
        let mut offset = first;
        let moved = metadata.iter().map(|kept| {
            let len = kept.changed.as_ref().map_or(kept.place.len, Vec::len);
            let place = MetadataPlace { offset, len, ..kept.place };
            offset += len as u64;
            place
        });
        let new = Places::new(&moved.collect::<Vec<_>>(), first);
        Ok(Self { label, metadata, span, new })
    }

    /// Returns the offset in the new metadata at which that of a time starts.
    pub(super) fn metadata_offset(&self, timestamp: Timestamp) -> u64 {
        self.new.offset(timestamp)
    }
}

/// The old metadata, and what a filter finds to be bad in it.
struct OldMetadata<'s> {
    version: Version,
    metadata: &'s Metadata,
    file: Option<(&'s Path, RecordFile)>,
    /// In the order of the file, each once.
    lost: Vec<Loss>,
    /// By metric and old name.
    renamed: BTreeMap<(Pmid, ByteText), MetricRename>,
}

impl<'s> OldMetadata<'s> {
    fn open(salvage: &'s Salvage) -> Result<Self> {
        let path = salvage.files().metadata.as_deref();
        let file = match path {
            Some(path) => Some((path, RecordFile::open(path)?)),
            None => None,
        };
        let version = salvage.version();
        let metadata = salvage.metadata();
        Ok(Self { version, metadata, file, lost: Vec::new(), renamed: BTreeMap::new() })
    }

    fn filter(&mut self, places: Vec<MetadataPlace>) -> Result<Vec<KeptMetadata>> {
        let Some((path, file)) = &mut self.file else { return Ok(Vec::new()) };
        let mut filter = MetadataFilter::new(self.metadata);
        let mut kept = Vec::with_capacity(places.len());
        let mut bytes = Vec::new();
        for place in places {
            bytes.resize(place.len, 0);
            file.read_at(&mut bytes, place.offset)?;
            let (changed, reason) = match filter.pass(self.version, &bytes)? {
                FilteredRecord::Whole => (Some(None), None),
                FilteredRecord::Changed(changed, reason) => (Some(Some(changed)), reason),
                FilteredRecord::Renamed(changed, renamed) => {
                    for renamed in renamed {
                        self.renamed.insert((renamed.pmid, renamed.old.clone()), renamed);
                    }
                    (Some(Some(changed)), None)
                }
                FilteredRecord::Nothing(reason) => (None, reason),
            };
            kept.extend(changed.map(|changed| KeptMetadata { place, changed }));
            if let Some(reason) = reason
                && self.lost.iter().all(|lost| lost.offset != place.offset)
            {
                let file = path.to_owned();
                let offset = place.offset;
                let bytes = place.len as u64;
                self.lost.push(Loss { file, offset, bytes, reason, after: None, before: None });
            }
        }
        Ok(kept)
    }
}

/// The result of a pass over the data.
#[derive(Default)]
struct Survey {
    /// For each good record, whether any of its values can be read.
    readable: Vec<bool>,
    /// The times of those.
    timestamps: Vec<Timestamp>,
    /// For each of those whether it is a mark.
    marks: Vec<bool>,
    lost: Vec<Loss>,
}

impl Survey {
    fn new(salvage: &Salvage, progress: &mut Progress<'_>) -> Result<Self> {
        let mut survey = Self::default();
        let mut filter = ValueFilter::new(salvage.metadata(), salvage.version());
        // The first lost stretch that no good record follows yet.
        let mut open = 0;
        let mut records = salvage.records();
        while let Some(salvaged) = records.next()? {
            let record = match salvaged {
                SalvageItem::Record(record) => record,
                SalvageItem::Lost(lost) => {
                    survey.lost.push(lost);
                    continue;
                }
            };
            progress.advance_to(&record);
            let timestamp = record.timestamp();
            for lost in survey.lost.iter_mut().skip(open) {
                lost.before = Some(timestamp);
            }
            open = survey.lost.len();
            let is_mark = record.is_mark();
            let is_readable = filter.pass(&record)?.is_some();
            survey.readable.push(is_readable);
            if is_readable {
                survey.timestamps.push(timestamp);
                survey.marks.push(is_mark);
            }
        }
        progress.end_pass();
        Ok(survey)
    }
}

/// Sorts by time. Records without a time stay before the one that followed
/// them.
fn sorted_by_time(mut places: Vec<MetadataPlace>) -> Vec<MetadataPlace> {
    let keys = keys(&places);
    let mut order: Vec<_> = places.drain(..).zip(keys).collect();
    order.sort_by_key(|(_, key)| *key);
    order.into_iter().map(|(place, _)| place).collect()
}

/// Returns for each record its own time, or that of the next record that has one.
fn keys(places: &[MetadataPlace]) -> Vec<Timestamp> {
    let mut next = Timestamp::MAX;
    let mut keys: Vec<_> = places
        .iter()
        .rev()
        .map(|place| {
            next = place.timestamp.unwrap_or(next);
            next
        })
        .collect();
    keys.reverse();
    keys
}

/// Offsets in a file by the time of the metadata.
struct Places {
    /// Time and offset, both rising: from the offset on is everything of this
    /// time and later.
    starts: Vec<(Timestamp, u64)>,
    end: u64,
}

impl Places {
    fn new(places: &[MetadataPlace], first: u64) -> Self {
        let end = places.iter().map(|place| place.offset + place.len as u64).max();
        let mut starts: Vec<(Timestamp, u64)> = Vec::with_capacity(places.len());
        let mut latest = None;
        for (place, key) in places.iter().zip(keys(places)) {
            // Of files that go back in time only what is later counts.
            if latest < Some(key) {
                latest = Some(key);
                starts.push((key, place.offset));
            }
        }
        Self { starts, end: end.unwrap_or(first) }
    }

    fn offset(&self, timestamp: Timestamp) -> u64 {
        let at = self.starts.partition_point(|(key, _)| *key < timestamp);
        self.starts.get(at).map_or(self.end, |(_, offset)| *offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_marks_alone_is_none() {
        let times: Vec<Timestamp> =
            [10, 11, 1, 2, 3].map(|second| Timestamp::new(second, 0).unwrap()).to_vec();
        let marks = [true, true, true, false, true];
        let mut part_of = [Some(0), Some(0), Some(1), Some(1), Some(1)];
        assert_eq!(spans(&times, &marks, &mut part_of), [(times[3], times[4])]);
        assert_eq!(part_of, [None, None, None, Some(0), Some(0)]);
        // The first part may begin with a mark.
        let mut part_of = [Some(0), Some(0), None, Some(0), Some(0)];
        assert_eq!(spans(&times, &marks, &mut part_of), [(times[0], times[4])]);
        assert_eq!(part_of, [Some(0), Some(0), None, Some(0), Some(0)]);
    }
}

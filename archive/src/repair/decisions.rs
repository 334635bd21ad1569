//! Decides which records of a damaged archive are kept, and in which order.

use super::order::longest_rise;
use super::value_filter::ValueFilter;
use crate::progress::Progress;
use crate::salvage::{Lost, MetadataPlace, Salvage, Salvaged};
use crate::{ArchiveLabel, Error, Result, Timestamp};

/// Made by one pass over the data; the copying is the second.
pub(super) struct Decisions {
    /// The new label.
    pub(super) label: ArchiveLabel,
    /// Metadata to keep, by time.
    pub(super) metadata: Vec<MetadataPlace>,
    pub(super) dropped_metadata: u64,
    /// What is lost of the data.
    pub(super) lost: Vec<Lost>,
    /// First and last data record that is kept.
    pub(super) span: (Timestamp, Timestamp),
    /// For each good data record, whether it is kept.
    keep: Vec<bool>,
    /// The old metadata, to find places by time.
    old: Places,
    new: Places,
}

impl Decisions {
    pub(super) fn of(salvage: &Salvage, progress: &mut Progress<'_>) -> Result<Self> {
        let Survey { readable, timestamps, lost } = Survey::of(salvage, progress)?;
        let mut rise = longest_rise(&timestamps).into_iter();
        let mut kept =
            timestamps.iter().zip(rise.clone()).filter(|(_, keep)| *keep).map(|(s, _)| *s);
        let span = kept.clone().next().zip(kept.next_back());
        let keep = readable.into_iter().map(|readable| readable && rise.next() == Some(true));
        let keep = keep.collect();
        let span = span.ok_or_else(|| Error::NoData { path: salvage.files().base.clone() })?;
        let places = salvage.metadata_places();
        let useful = places.iter().filter(|place| place.timestamp <= Some(span.1)).copied();
        let metadata = by_time(useful.collect());
        let earliest = metadata.iter().filter_map(|place| place.timestamp).min();
        let start = earliest.map_or(span.0, |earliest| earliest.min(span.0));
        let label = salvage.label();
        let label = ArchiveLabel { start: label.start.min(start), ..label.clone() };
        let first = label.version.label_size();
        let mut offset = first;
        let moved = metadata.iter().map(|place| {
            let place = MetadataPlace { offset, ..*place };
            offset += place.len as u64;
            place
        });
        let new = Places::of(&moved.collect::<Vec<_>>(), first);
        Ok(Self {
            label,
            dropped_metadata: (places.len() - metadata.len()) as u64,
            metadata,
            lost,
            span,
            keep,
            old: Places::of(places, first),
            new,
        })
    }

    /// Whether the good record with this number is kept.
    pub(super) fn keeps(&self, number: usize) -> bool {
        self.keep.get(number).copied().unwrap_or(false)
    }

    pub(super) fn dropped(&self) -> u64 {
        self.keep.iter().filter(|keep| !**keep).count() as u64
    }

    /// Where in the old metadata that of a time starts.
    pub(super) fn old_metadata_offset(&self, timestamp: Timestamp) -> u64 {
        self.old.offset(timestamp)
    }

    pub(super) const fn old_metadata_end(&self) -> u64 {
        self.old.end
    }

    /// Where in the new metadata that of a time starts.
    pub(super) fn new_metadata_offset(&self, timestamp: Timestamp) -> u64 {
        self.new.offset(timestamp)
    }
}

/// What a pass over the data finds.
#[derive(Default)]
struct Survey {
    /// For each good record, whether any of its values can be read.
    readable: Vec<bool>,
    /// The times of those.
    timestamps: Vec<Timestamp>,
    lost: Vec<Lost>,
}

impl Survey {
    fn of(salvage: &Salvage, progress: &mut Progress<'_>) -> Result<Self> {
        let mut survey = Self::default();
        let mut filter = ValueFilter::new(salvage.metadata(), salvage.version());
        // The first lost stretch that no good record follows yet.
        let mut open = 0;
        let mut records = salvage.records();
        while let Some(salvaged) = records.next()? {
            let record = match salvaged {
                Salvaged::Record(record) => record,
                Salvaged::Lost(lost) => {
                    survey.lost.push(lost);
                    continue;
                }
            };
            progress.at(&record);
            let timestamp = record.timestamp();
            for lost in survey.lost.iter_mut().skip(open) {
                lost.before = Some(timestamp);
            }
            open = survey.lost.len();
            let is_readable = filter.pass(&record)?.is_some();
            survey.readable.push(is_readable);
            if is_readable {
                survey.timestamps.push(timestamp);
            }
        }
        progress.end_pass();
        Ok(survey)
    }
}

/// Sorts by time. Records without a time stay before the one that followed
/// them.
fn by_time(mut places: Vec<MetadataPlace>) -> Vec<MetadataPlace> {
    let keys = keys(&places);
    let mut order: Vec<_> = places.drain(..).zip(keys).collect();
    order.sort_by_key(|(_, key)| *key);
    order.into_iter().map(|(place, _)| place).collect()
}

/// For each record its own time, or that of the next record that has one.
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

/// Where in the file the metadata of a time is.
struct Places {
    /// Time and offset, both rising: from the offset on is everything of this
    /// time and later.
    starts: Vec<(Timestamp, u64)>,
    end: u64,
}

impl Places {
    fn of(places: &[MetadataPlace], first: u64) -> Self {
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

//! Estimates the bytes of a span of time, by the temporal index.

use std::fs;
use std::ops::RangeInclusive;

use super::VolumeFile;
use crate::{Archive, IndexEntry, Source, Timestamp};

impl Source<'_> {
    /// Estimates how many bytes the records of a span have when they are not compressed: from the
    /// newest index entry before it to the oldest one after it. Where the index has no entries,
    /// whole volumes count.
    pub fn bytes_of(self, span: &RangeInclusive<Timestamp>) -> u64 {
        self.archives()
            .iter()
            .filter(|archive| {
                archive.label().start <= *span.end() && archive.end() >= *span.start()
            })
            .map(|archive| archive.bytes_of(span))
            .sum()
    }
}

impl Archive {
    fn bytes_of(&self, span: &RangeInclusive<Timestamp>) -> u64 {
        let entries = self.index().entries();
        let place = |entry: &IndexEntry| (entry.volume, entry.data_offset);
        let before = entries.partition_point(|entry| entry.timestamp < *span.start());
        let after = entries.partition_point(|entry| entry.timestamp <= *span.end());
        let from = before.checked_sub(1).and_then(|before| entries.get(before)).map(place);
        let from = from.unwrap_or_default();
        let to = entries.get(after).map_or(self.end_place(), place);
        let read = self.volumes.iter().filter(|volume| (from.0..=to.0).contains(&volume.number));
        read.map(|volume| {
            let begin = if volume.number == from.0 { from.1 } else { 0 };
            let end = if volume.number == to.0 { to.1 } else { self.volume_len(volume) };
            end.saturating_sub(begin)
        })
        .fold(0, u64::saturating_add)
    }

    /// Returns the length of a volume as far as the index and the file system know it.
    fn volume_len(&self, volume: &VolumeFile) -> u64 {
        let own = self.index().entries().iter().filter(|entry| entry.volume == volume.number);
        let indexed = own.map(|entry| entry.data_offset).max().unwrap_or(0);
        let on_disk = fs::metadata(&volume.path).map_or(0, |file| file.len());
        indexed.max(on_disk)
    }
}

#[cfg(test)]
mod tests {
    use crate::test_support::label;
    use crate::{
        ArchiveSet, ArchiveWriter, FetchResult, MetricDesc, OwnedValue, Pmid, Semantics, Source,
        Timestamp, Units, ValueSet, ValueType, WriterOptions,
    };

    fn time(second: i64) -> Timestamp {
        Timestamp::new(1_700_000_000 + second, 0).unwrap()
    }

    /// Two archives of 100 records of 1100 bytes, in volumes of 40 kB.
    #[test]
    fn a_span_has_the_bytes_of_its_records() {
        let directory = tempfile::tempdir().unwrap();
        let desc = MetricDesc {
            pmid: Pmid::new(70, 1, 1).unwrap(),
            value_type: ValueType::String,
            indom: None,
            semantics: Semantics::Discrete,
            units: Units::NONE,
        };
        for archive in 0..2 {
            let base = directory.path().join(format!("a{archive}"));
            let options = WriterOptions {
                index_bytes: 1,
                volume_bytes: Some(40_000),
                ..WriterOptions::default()
            };
            let mut writer = ArchiveWriter::create_with(&base, label(), options).unwrap();
            writer.declare_metric(&desc, &["acme.text"]).unwrap();
            for second in 0..100 {
                let values = Ok(vec![(None, OwnedValue::String(vec![b'x'; 1000]))]);
                let value_sets = vec![ValueSet { pmid: desc.pmid, values }];
                let timestamp = time(1000 * archive + second);
                writer.write_result(&FetchResult { timestamp, value_sets }).unwrap();
            }
            writer.finish().unwrap();
        }
        let archives = ArchiveSet::open([directory.path()]).unwrap();
        let bytes = |from, to| Source::from(&archives).bytes_of(&(time(from)..=time(to)));
        let whole = bytes(0, 1099);
        assert!((200_000..240_000).contains(&whole), "{whole}");
        assert_eq!(bytes(-50, 5000), whole);
        let half = bytes(1000, 1099);
        assert!((2 * half).abs_diff(whole) < 2000, "{half}");
        let tenth = bytes(35, 44);
        assert!((10_000..14_000).contains(&tenth), "over the end of a volume: {tenth}");
        assert_eq!([bytes(-50, -1), bytes(500, 600), bytes(2000, 3000)], [0; 3]);
        let index = directory.path().join("a1.index");
        std::fs::remove_file(index).unwrap();
        let archives = ArchiveSet::open([directory.path()]).unwrap();
        let unindexed = Source::from(&archives).bytes_of(&(time(1035)..=time(1044)));
        assert!(unindexed > 100_000, "{unindexed}");
    }
}

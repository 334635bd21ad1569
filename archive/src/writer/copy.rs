//! Copies the metadata of an archive: gives it in the order of time.
//!
//! An archive stores metadata and records in separate files; a writer needs
//! both in the order of time:
//!
//! ```text
//! .meta     desc  text   indom 10:00        indom 10:07      labels 10:07
//! .0                           10:00  10:05             10:10
//! written   desc  text   indom 10:00  10:05 indom 10:07 labels 10:07  10:10
//! ```

use std::borrow::Cow;
use std::iter::Peekable;
use std::vec;

use hashbrown::HashMap;

use crate::{
    ByteText, InDom, IndomCursor, Instance, LabelSet, LabelTarget, Metadata, Metric, TextKind,
    TextTarget, Timestamp,
};

/// A piece of metadata that is valid from some time on.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Change<'m> {
    /// There is this metric.
    Metric(&'m Metric),
    /// A metric or instance domain has this help text.
    Text(TextTarget, TextKind, &'m ByteText),
    /// An instance domain has these instances.
    Indom(InDom, Cow<'m, [Instance]>),
    /// A target has these labels.
    Labels(LabelTarget, &'m [LabelSet]),
}

/// All metadata of an archive, in the order of time.
///
/// Metrics and help texts, which have no time, come first, with that of the
/// start. So do the domains and labels that held then: what they were before
/// is left out, and their time becomes the start's. Of several states that a
/// domain or target has at one time there is only the one that holds.
#[derive(Debug)]
pub(crate) struct Changes<'m> {
    rest: Peekable<vec::IntoIter<(Timestamp, Item<'m>)>>,
    /// The domains as they are after the changes so far.
    cursors: HashMap<InDom, IndomCursor<'m>>,
}

/// A change, or a domain after a number of its steps: its instances are built
/// when it is returned.
#[derive(Debug)]
enum Item<'m> {
    Ready(Change<'m>),
    Domain(InDom, usize),
}

impl<'m> Changes<'m> {
    /// Returns the changes from `start` on.
    pub(crate) fn new(metadata: &'m Metadata, start: Timestamp) -> Self {
        let mut all = Vec::new();
        let mut cursors = HashMap::new();
        let metrics = metadata.metrics().iter().map(Change::Metric);
        let texts = metadata.texts().map(|(target, kind, text)| Change::Text(target, kind, text));
        all.extend(metrics.chain(texts).map(|change| (start, Item::Ready(change))));
        let first_dated = all.len();
        for (indom, history) in metadata.indoms() {
            cursors.insert(indom, history.cursor());
            let same =
                history.steps().chunk_by(|a, b| a.timestamp.max(start) == b.timestamp.max(start));
            let mut count = 0;
            // Of two with one time the later in the file holds.
            all.extend(same.filter_map(|steps| {
                count += steps.len();
                Some((steps.last()?.timestamp.max(start), Item::Domain(indom, count)))
            }));
        }
        for (target, history) in metadata.labels() {
            let same =
                history.states().chunk_by(|a, b| a.timestamp.max(start) == b.timestamp.max(start));
            // Here it is the earlier one.
            let held = same.filter_map(|states| {
                let timestamp = states.last()?.timestamp;
                states.iter().find(|state| state.timestamp == timestamp)
            });
            all.extend(held.map(|state| {
                (state.timestamp.max(start), Item::Ready(Change::Labels(target, &state.sets)))
            }));
        }
        if let Some(dated) = all.get_mut(first_dated..) {
            dated.sort_by_key(|(timestamp, _)| *timestamp);
        }
        Self { rest: all.into_iter().peekable(), cursors }
    }

    /// Returns the next change, if its time is `timestamp` or earlier; and its time.
    pub(crate) fn next_until(&mut self, timestamp: Timestamp) -> Option<(Timestamp, Change<'m>)> {
        let (from, item) = self.rest.next_if(|(from, _)| *from <= timestamp)?;
        let change = match item {
            Item::Ready(change) => change,
            Item::Domain(indom, count) => {
                let cursor = self.cursors.get_mut(&indom)?;
                cursor.apply(count);
                Change::Indom(indom, cursor.instances())
            }
        };
        Some((from, change))
    }
}

#[cfg(test)]
mod tests {
    use pcp_types::InstanceId;

    use super::*;
    use crate::error::Error;
    use crate::format::value::FetchResult;
    use crate::format::value::OwnedValue;
    use crate::format::value::ValueSet;
    use crate::test_support::{descs, indom, label};
    use crate::writer::WriterOptions;
    use crate::{Archive, ArchiveWriter};

    fn time(seconds: i64) -> Timestamp {
        Timestamp::new(1_700_000_000 + seconds, 5).unwrap()
    }

    fn instances(ids: &[i32]) -> Vec<Instance> {
        let instances = ids.iter().map(|id| Instance {
            id: InstanceId::new(*id).unwrap(),
            name: format!("instance {id}").into(),
        });
        instances.collect()
    }

    fn sample(writer: &mut ArchiveWriter, seconds: i64) {
        let values = Ok(vec![(None, OwnedValue::U32(1))]);
        let value_sets = vec![ValueSet { pmid: descs()[2].pmid, values }];
        writer.write_result(&FetchResult { timestamp: time(seconds), value_sets }).unwrap();
    }

    /// Records at 5, 6 and 9 seconds; the domain changes at 1, 2, 7 and 8.
    fn archive(directory: &tempfile::TempDir) -> Archive {
        let base = directory.path().join("a");
        let mut writer =
            ArchiveWriter::create_with(&base, label(), WriterOptions::default()).unwrap();
        writer.declare_metric(&descs()[2], &["test.two"]).unwrap();
        let change = |writer: &mut ArchiveWriter, seconds: i64| {
            writer.declare_indom(indom(), &instances(&[1, seconds as i32 + 1])).unwrap();
            writer.date_metadata(time(seconds)).unwrap();
        };
        change(&mut writer, 1);
        change(&mut writer, 2);
        sample(&mut writer, 5);
        sample(&mut writer, 6);
        change(&mut writer, 7);
        change(&mut writer, 8);
        let early = writer.date_metadata(time(7));
        assert!(matches!(early, Err(Error::TimeBackwards { .. })));
        sample(&mut writer, 9);
        change(&mut writer, 10);
        writer.finish().unwrap();
        Archive::open(&base).unwrap()
    }

    fn changes(metadata: &Metadata, start: Timestamp) -> Vec<(Timestamp, Vec<Instance>)> {
        let mut changes = Changes::new(metadata, start);
        let mut found = Vec::new();
        while let Some((from, change)) = changes.next_until(Timestamp::MAX) {
            if let Change::Indom(_, instances) = change {
                found.push((from, instances.to_vec()));
            }
        }
        found
    }

    #[test]
    fn dated_metadata_has_its_own_time_and_begins_the_archive() {
        let directory = tempfile::tempdir().unwrap();
        let archive = archive(&directory);
        assert_eq!(archive.label().start, time(1));
        let expected = [1, 2, 7, 8].map(|s| (time(s), instances(&[1, s as i32 + 1])));
        assert_eq!(changes(archive.metadata(), time(0)), expected);
        assert!(crate::check::check(archive.base()).unwrap().findings().is_empty());
    }

    #[test]
    fn metadata_at_the_start_is_dated_then() {
        let directory = tempfile::tempdir().unwrap();
        let archive = archive(&directory);
        let expected = [(6, 2), (7, 7), (8, 8)].map(|(s, n)| (time(s), instances(&[1, n + 1])));
        assert_eq!(changes(archive.metadata(), time(6)), expected);
    }

    #[test]
    fn a_change_is_due_at_its_time_and_not_before() {
        let directory = tempfile::tempdir().unwrap();
        let archive = archive(&directory);
        let mut changes = Changes::new(archive.metadata(), time(1));
        let mut due = |seconds| std::iter::from_fn(|| changes.next_until(time(seconds))).count();
        assert_eq!([due(0), due(1), due(5), due(7), due(100)], [0, 2, 1, 1, 1]);
    }
}

//! Random lives of archives: what was acknowledged is read back.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::check::Severity;
use crate::reader::follow::Follower;
use crate::test_support::fault::{self, Fault};
use crate::test_support::logger::{LoggedContents, Logger, Step, step};

#[derive(Debug, Clone)]
enum Event {
    Step(Step),
    /// A write fails, and with it the record that it belongs to.
    Fault(Fault),
    /// Somebody who follows the archive looks what is new.
    Look,
}

fn event() -> impl Strategy<Value = Event> {
    let fault = (0usize..6, 0usize..200, any::<bool>());
    let fault = fault.prop_map(|(after, bytes, is_lasting)| Fault { after, bytes, is_lasting });
    prop_oneof![
        12 => step().prop_map(Event::Step),
        1 => fault.prop_map(Event::Fault),
        1 => Just(Event::Look),
    ]
}

#[derive(Default)]
struct Reader {
    follower: Option<Follower>,
    found: Vec<FetchResult>,
}

impl Reader {
    fn look(&mut self, base: &Path) {
        let follower = self.follower.get_or_insert_with(|| Follower::open(base).unwrap());
        while let Some(followed) = follower.next().unwrap() {
            self.found.push(followed.record.to_owned(followed.metadata).unwrap());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// forall histories, with writes that fail: exactly what was acknowledged is
    /// read, forwards, backwards, from every time and while it is written;
    /// domains and labels are as they were at every record
    #[test]
    fn an_archive_gives_back_what_was_written(
        events in vec(event(), 1..40),
        version in prop_oneof![Just(Version::V3), Just(Version::V2)],
        index_bytes in 0u64..2000,
        index_interval in prop::option::of((0u64..9).prop_map(Duration::from_secs)),
        volume_bytes in prop::option::of(900u64..3000),
        buffer_bytes in prop_oneof![2 => Just(0), 1 => 1usize..3000],
    ) {
        fault::heal();
        let options = WriterOptions { version, index_bytes, index_interval, volume_bytes, buffer_bytes };
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().join("a");
        let mut logger = Logger::new(&base, at(0), options);
        let mut reader = Reader::default();
        // What could not be cut back is there until the next record.
        let mut is_ragged = false;
        for event in &events {
            match event {
                Event::Step(step) => {
                    let records = logger.logged.records.len();
                    match logger.take(step) {
                        Ok(()) => is_ragged &= logger.logged.records.len() == records,
                        Err(Error::Io { .. }) => is_ragged = true,
                        Err(error) => panic!("{error}"),
                    }
                    fault::revive();
                }
                Event::Fault(fault) => fault::plan(*fault),
                // What is in a buffer is not to be seen yet.
                Event::Look
                    if is_ragged || buffer_bytes > 0 || logger.logged.records.is_empty() => {}
                Event::Look => {
                    reader.look(&base);
                    prop_assert_eq!(&reader.found, &logger.logged.records);
                }
            }
        }
        fault::heal();
        let Logger { writer, logged, .. } = logger;
        let summary = writer.finish().unwrap();
        prop_assert_eq!(summary.records, logged.records.len() as u64);
        if logged.records.is_empty() {
            prop_assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
            return Ok(());
        }
        let archive = Archive::open(&base).unwrap();
        prop_assert_eq!(archive.version(), version);
        prop_assert_eq!(&forward(&archive), &logged.records);
        prop_assert!(archive.torn_tail().is_none());
        reader.look(&base);
        prop_assert_eq!(&reader.found, &logged.records);
        let report = crate::check::check(&base).unwrap();
        let worst = report.worst();
        prop_assert!(worst < Some(Severity::Warning), "{:?}", report.findings());
        check_index(&archive);
        check_backward(&archive, &logged);
        check_seek(&archive, &logged);
        check_metadata(&archive, &logged);
    }
}

fn check_index(archive: &Archive) {
    let entries = archive.index().entries();
    for (entry, next) in entries.iter().zip(entries.iter().skip(1)) {
        assert!(entry.timestamp < next.timestamp);
    }
    let mut records = archive.records().unwrap();
    let mut starts = Vec::new();
    while let Some(record) = records.next().unwrap() {
        starts.push((record.volume(), record.offset(), record.timestamp()));
    }
    for entry in entries {
        let start = (entry.volume, entry.data_offset, entry.timestamp);
        assert!(starts.contains(&start), "{entry:?}");
    }
    let first = entries.first().unwrap();
    let label = archive.version().label_size();
    assert_eq!((first.metadata_offset, first.data_offset), (label, label));
    assert_eq!(entries.last().unwrap().timestamp, archive.end());
}

fn check_backward(archive: &Archive, logged: &LoggedContents) {
    let mut back = archive.records_back_from(archive.end()).unwrap();
    for expected in logged.records.iter().rev() {
        let record = back.previous().unwrap().unwrap();
        assert_eq!(record.to_owned(archive.metadata()).unwrap(), *expected);
    }
    assert!(back.previous().unwrap().is_none());
    // And forwards again from there.
    let first = back.next().unwrap().unwrap();
    assert_eq!(first.timestamp(), logged.records[0].timestamp);
}

/// From every time of a record, and from right after it.
fn check_seek(archive: &Archive, logged: &LoggedContents) {
    let after = |time: Timestamp| Timestamp::from_nanos(time.as_nanos() + 1);
    let times = logged.records.iter().map(|record| record.timestamp);
    for from in times.flat_map(|time| [time, after(time)]).chain([Timestamp::EPOCH]) {
        let expected = logged.records.iter().find(|record| record.timestamp >= from);
        let mut records = archive.records_from(from).unwrap();
        let found = records.next().unwrap();
        let found = found.map(|record| record.to_owned(archive.metadata()).unwrap());
        assert_eq!(found.as_ref(), expected);
    }
}

fn check_metadata(archive: &Archive, logged: &LoggedContents) {
    let metadata = archive.metadata();
    for (n, record) in logged.records.iter().enumerate() {
        let timestamp = record.timestamp;
        // Metadata that came between two records of one time counts for both.
        if logged.records.get(n + 1).is_some_and(|next| next.timestamp == timestamp) {
            continue;
        }
        assert_eq!(metadata.indom_at(indom(), timestamp).as_deref(), logged.domains[n].as_deref());
        let labels = metadata.labels_at(LabelTarget::Context, timestamp);
        assert_eq!(labels, logged.labels[n].as_deref());
    }
}

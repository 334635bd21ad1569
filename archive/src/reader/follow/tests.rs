use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;

use tempfile::TempDir;
use test_archives::Builder;

use super::*;
use crate::test_support::indom;

/// An archive that gets another instance with every record.
struct Growing {
    directory: TempDir,
    /// Always `Some` between calls.
    builder: Option<Builder>,
    second: i32,
}

impl Growing {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let builder = Builder::in_directory(directory.path(), "a")
            .metric("a.b", "u64 counter count")
            .in_domain("a.b", 1);
        Self { directory, builder: Some(builder), second: 0 }
    }

    fn base(&self) -> PathBuf {
        self.directory.path().join("a")
    }

    fn write(&mut self) {
        let second = self.second;
        let names: Vec<_> = (0..=second).map(|id| format!("i{id}")).collect();
        let values = names.iter().map(|name| (format!("a.b[{name}]"), 1));
        self.grow(|builder| {
            builder.instances("a.b", names.iter().map(String::as_str)).row(second, values)
        });
        self.second += 1;
    }

    fn grow(&mut self, grow: impl FnOnce(Builder) -> Builder) {
        self.builder = self.builder.take().map(grow);
    }

    fn append(&self, extension: &str, bytes: &[u8]) {
        let file = OpenOptions::new().append(true).open(self.base().with_extension(extension));
        file.unwrap().write_all(bytes).unwrap();
    }

    fn len(&self, extension: &str) -> u64 {
        fs::metadata(self.base().with_extension(extension)).unwrap().len()
    }

    fn cut(&self, extension: &str, len: u64) {
        let file = OpenOptions::new().write(true).open(self.base().with_extension(extension));
        file.unwrap().set_len(len).unwrap();
    }

    /// The end of a file, taken off: what a writer has not written yet.
    fn hold_back(&self, extension: &str, from: u64) -> Vec<u8> {
        let bytes = fs::read(self.base().with_extension(extension)).unwrap();
        self.cut(extension, from);
        bytes[from as usize..].to_vec()
    }
}

/// The seconds of all records that are there, each with the instances that are
/// known when it comes.
fn come(follower: &mut Follower) -> Vec<(i64, usize)> {
    let mut come = Vec::new();
    while let Some(FollowedRecord { record, metadata, .. }) = follower.next().unwrap() {
        let known = metadata.indom_at(indom(), record.timestamp()).unwrap().len();
        come.push((record.timestamp().seconds() - 1_700_000_000, known));
    }
    come
}

#[test]
fn records_volumes_and_metadata_are_seen_as_they_come() {
    let mut growing = Growing::new();
    growing.write();
    let mut follower = Follower::open(growing.base()).unwrap();
    assert_eq!(come(&mut follower), [(0, 1)]);
    assert_eq!(come(&mut follower), []);
    growing.write();
    growing.write();
    assert_eq!(come(&mut follower), [(1, 2), (2, 3)]);
    growing.grow(Builder::volume);
    growing.write();
    growing.grow(Builder::volume);
    growing.write();
    assert_eq!(come(&mut follower), [(3, 4), (4, 5)]);
    assert_eq!(come(&mut follower), []);
}

#[test]
fn a_record_comes_when_its_last_byte_does() {
    let mut growing = Growing::new();
    growing.write();
    let mut follower = Follower::open(growing.base()).unwrap();
    assert_eq!(come(&mut follower).len(), 1);
    let start = growing.len("0");
    growing.write();
    for byte in growing.hold_back("0", start) {
        assert_eq!(come(&mut follower), []);
        growing.append("0", &[byte]);
    }
    assert_eq!(come(&mut follower), [(1, 2)]);
}

#[test]
fn zeros_are_a_record_that_is_not_there_yet() {
    let mut growing = Growing::new();
    growing.write();
    let mut follower = Follower::open(growing.base()).unwrap();
    assert_eq!(come(&mut follower).len(), 1);
    let start = growing.len("0");
    growing.append("0", &[0; 100]);
    assert_eq!(come(&mut follower), []);
    growing.cut("0", start);
    growing.write();
    assert_eq!(come(&mut follower), [(1, 2)]);
}

#[test]
fn a_beginning_that_is_taken_back_leaves_nothing() {
    let mut growing = Growing::new();
    growing.write();
    let mut follower = Follower::open(growing.base()).unwrap();
    assert_eq!(come(&mut follower).len(), 1);
    let (data, metadata) = (growing.len("0"), growing.len("meta"));
    growing.append("0", &[0, 0, 1, 0, 9]);
    growing.append("meta", &[0, 0, 1, 0]);
    assert_eq!(come(&mut follower), []);
    growing.cut("0", data);
    growing.cut("meta", metadata);
    growing.write();
    assert_eq!(come(&mut follower), [(1, 2)]);
}

#[test]
fn replacement_of_a_withdrawn_record_is_read() {
    let mut growing = Growing::new();
    growing.write();
    let mut follower = Follower::open(growing.base()).unwrap();
    let start = growing.len("0");
    growing.write();
    assert_eq!(come(&mut follower).len(), 2);
    let second = growing.hold_back("0", start);
    assert_eq!(come(&mut follower), []);
    growing.append("0", &second);
    assert_eq!(come(&mut follower), [(1, 2)]);
}

#[test]
fn a_volume_left_with_half_a_record_is_damage() {
    let mut growing = Growing::new();
    growing.write();
    growing.append("0", &[0, 0, 1, 0, 9]);
    let mut follower = Follower::open(growing.base()).unwrap();
    assert_eq!(come(&mut follower).len(), 1);
    File::create(growing.base().with_extension("1")).unwrap();
    for _ in 0..2 {
        let error = follower.next().unwrap_err();
        let Error::Corrupt { source: RecordError::Truncated { needed, left, .. }, .. } = error
        else {
            panic!("{error}")
        };
        assert_eq!((needed, left), (256, 5));
    }
}

#[test]
fn a_volume_without_its_label_is_not_there_yet() {
    let mut growing = Growing::new();
    growing.write();
    let mut follower = Follower::open(growing.base()).unwrap();
    assert_eq!(come(&mut follower).len(), 1);
    growing.grow(Builder::volume);
    growing.write();
    let label = growing.hold_back("1", 3);
    assert_eq!(come(&mut follower), []);
    growing.append("1", &label);
    assert_eq!(come(&mut follower), [(1, 2)]);
}

#[test]
fn following_begins_where_requested() {
    let mut growing = Growing::new();
    (0..3).for_each(|_| growing.write());
    growing.grow(Builder::volume);
    (0..3).for_each(|_| growing.write());
    let from = |seconds: i64| {
        let mut follower = Follower::open(growing.base()).unwrap();
        follower.seek(Timestamp::new(1_700_000_000 + seconds, 0).unwrap()).unwrap();
        come(&mut follower).into_iter().map(|(second, _)| second).collect::<Vec<_>>()
    };
    assert_eq!(from(-5), [0, 1, 2, 3, 4, 5]);
    assert_eq!(from(2), [2, 3, 4, 5]);
    assert_eq!(from(4), [4, 5]);
    assert!(from(6).is_empty());
}

#[test]
fn what_follows_the_last_record_comes_after_a_seek_to_the_end() {
    let mut growing = Growing::new();
    growing.write();
    let mut follower = Follower::open(growing.base()).unwrap();
    follower.seek(Timestamp::MAX).unwrap();
    assert_eq!(come(&mut follower), []);
    growing.write();
    assert_eq!(come(&mut follower), [(1, 2)]);
}

#[test]
fn damage_is_passed_by_up_to_the_next_whole_record() {
    let mut growing = Growing::new();
    growing.write();
    let start = growing.len("0");
    growing.write();
    let end = growing.len("0");
    growing.write();
    let mut bytes = fs::read(growing.base().with_extension("0")).unwrap();
    bytes[start as usize..][..8].fill(0xff);
    fs::write(growing.base().with_extension("0"), &bytes).unwrap();
    let mut follower = Follower::open(growing.base()).unwrap();
    assert!(follower.next().unwrap().is_some());
    assert!(matches!(follower.next(), Err(Error::Corrupt { .. })));
    assert_eq!(follower.skip_damage().unwrap(), end - start);
    assert_eq!(come(&mut follower), [(2, 3)]);
    growing.write();
    assert_eq!(come(&mut follower), [(3, 4)]);
}

#[test]
fn the_version_of_the_metadata_changes_with_the_metadata() {
    let mut growing = Growing::new();
    growing.write();
    let mut follower = Follower::open(growing.base()).unwrap();
    let mut version = || follower.next().unwrap().unwrap().metadata_version;
    let first = version();
    growing.write();
    let second = version();
    growing.grow(|builder| builder.mark(5));
    assert_ne!(first, second);
    assert_eq!(version(), second);
}

//! Writes that fail, each in turn: nothing has happened, and once the disk
//! works again the archive becomes what it would have been.

use std::collections::BTreeMap;

use super::*;
use crate::test_support::fault::{self, Fault};
use crate::test_support::logger::{Logger, Step};

type Files = BTreeMap<String, Vec<u8>>;

fn files(directory: &TempDir) -> Files {
    let entries = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap());
    let file = |entry: fs::DirEntry| {
        (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())
    };
    entries.map(file).collect()
}

/// Values, domains, labels, a mark and three volumes; records with and without
/// metadata, and with and without an index entry.
fn life() -> Vec<Step> {
    let ids = |ids: &[i32]| Step::Instances(ids.iter().copied().collect());
    let result =
        |value| Step::Result { after: 1_000_000_000, sets: one_value(0, value).value_sets };
    vec![
        ids(&[1, 2, 3]),
        Step::Label(1),
        result(1),
        result(2),
        ids(&[1, 2, 3, 4]),
        result(3),
        Step::Switch,
        Step::Label(2),
        result(4),
        Step::Mark { after: 1000 },
        Step::Switch,
        result(5),
        result(6),
    ]
}

fn live(version: Version, fault: Option<Fault>) -> (TempDir, Logger) {
    let directory = tempfile::tempdir().unwrap();
    let options = WriterOptions { version, ..WriterOptions::default() };
    let mut logger = Logger::new(&directory.path().join("a"), at(0), options);
    fault::heal();
    if let Some(fault) = fault {
        fault::plan(fault);
    }
    for step in life() {
        let before = (logger.writer.bytes(), logger.writer.volume(), files(&directory));
        let Err(error) = logger.take(&step) else { continue };
        let what = format!("{version:?} {fault:?} {step:?}");
        assert!(matches!(error, Error::Io { .. }), "{what}: {error}");
        assert_eq!((logger.writer.bytes(), logger.writer.volume()), (before.0, before.1), "{what}");
        if !fault.unwrap().is_lasting {
            assert_eq!(files(&directory), before.2, "{what}");
        }
        fault::revive();
        logger.take(&step).unwrap();
    }
    (directory, logger)
}

#[test]
fn record_is_written_between_metadata_and_index_entry() {
    let (_directory, logger) = live(Version::V3, None);
    logger.writer.finish().unwrap();
    let names = fault::heal();
    let names = names.iter().map(|path| path.extension().unwrap().to_str().unwrap());
    let expected = [
        // The labels, and the first record.
        &["unfinished", "index", "0", "unfinished", "0", "index"][..],
        &["0"],
        &["meta", "0", "index"],
        // The label of a volume, and its first record.
        &["1", "meta", "1", "index"],
        &["1"],
        &["2", "2", "index"],
        &["2"],
        &["index"],
    ];
    assert_eq!(names.collect::<Vec<_>>(), expected.concat());
}

#[test]
fn whichever_write_fails_the_archive_becomes_the_same() {
    for version in [Version::V3, Version::V2] {
        let (directory, logger) = live(version, None);
        logger.writer.finish().unwrap();
        let whole = files(&directory);
        let writes = fault::heal().len();
        assert_eq!(writes, 20);
        for after in 0..writes - 1 {
            for bytes in [0, 1, 20, usize::MAX] {
                for is_lasting in [false, true] {
                    let fault = Fault { after, bytes, is_lasting };
                    let (directory, logger) = live(version, Some(fault));
                    logger.writer.finish().unwrap();
                    assert!(files(&directory) == whole, "{version:?} {fault:?}");
                }
            }
        }
    }
}

#[test]
fn without_its_last_index_entry_an_archive_is_still_whole() {
    for bytes in [0, 1, 31] {
        let (directory, logger) = live(Version::V3, None);
        let before = files(&directory);
        fault::plan(Fault { after: 0, bytes, is_lasting: false });
        assert!(matches!(logger.writer.finish(), Err(Error::Io { .. })));
        fault::heal();
        assert_eq!(files(&directory), before);
        let report = crate::check::check(directory.path().join("a")).unwrap();
        assert!(report.findings().is_empty(), "{:?}", report.findings());
    }
}

#[test]
fn failed_truncation_is_retried_before_the_next_write() {
    let result = |second| Step::Result { after: second, sets: one_value(0, 1).value_sets };
    for finish in [true, false] {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().join("a");
        let mut logger = Logger::new(&base, at(0), WriterOptions::default());
        fault::heal();
        logger.take(&result(0)).unwrap();
        logger.take(&Step::Instances([1].into())).unwrap();
        // Metadata and record are there, but the index entry is not.
        fault::plan(Fault { after: 2, bytes: 5, is_lasting: true });
        assert!(logger.take(&result(1)).is_err());
        fault::heal();
        if !finish {
            logger.take(&Step::Switch).unwrap();
            logger.take(&result(2)).unwrap();
        }
        logger.writer.finish().unwrap();
        let archive = Archive::open(&base).unwrap();
        assert_eq!(forward(&archive), logger.logged.records);
        let report = crate::check::check(&base).unwrap();
        assert!(report.findings().is_empty(), "{:?}", report.findings());
    }
}

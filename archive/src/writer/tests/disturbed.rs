//! Files of an archive that another program changes while it is written.

use super::*;
use crate::test_support::logger::{Logger, Step};

fn result(second: u64) -> Step {
    Step::Result { after: second * 1_000_000_000, sets: one_value(0, 1).value_sets }
}

#[test]
fn each_file_that_is_removed_replaced_or_truncated_is_noticed() {
    for (suffix, change) in ["meta", "index", "0", "1"]
        .into_iter()
        .flat_map(|suffix| ["removed", "replaced", "truncated"].map(|change| (suffix, change)))
    {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().join("a");
        let mut logger = Logger::new(&base, at(0), WriterOptions::default());
        logger.writer.check_files().unwrap();
        for step in [result(0), Step::Switch, result(1)] {
            logger.take(&step).unwrap();
        }
        logger.writer.check_files().unwrap();
        let path = directory.path().join(format!("a.{suffix}"));
        let bytes = fs::read(&path).unwrap();
        match change {
            "removed" => fs::remove_file(&path).unwrap(),
            "truncated" => fs::write(&path, &bytes[..bytes.len() - 1]).unwrap(),
            _ => {
                fs::remove_file(&path).unwrap();
                // The number of the removed file is not free as long as that is open.
                fs::write(&path, &bytes).unwrap();
            }
        }
        match logger.writer.check_files() {
            Err(Error::Disturbed { file, change: found }) => {
                assert_eq!((file, found), (path, change));
            }
            // Of a closed volume the name is enough, as it may be compressed.
            found => assert!(suffix == "0" && change != "removed", "{suffix} {change}: {found:?}"),
        }
    }
}

#[test]
fn a_compressed_volume_is_not_missed_and_a_removed_directory_is() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("host");
    fs::create_dir(&directory).unwrap();
    let base = directory.join("a");
    let mut logger = Logger::new(&base, at(0), WriterOptions::default());
    for step in [result(0), Step::Switch, result(1)] {
        logger.take(&step).unwrap();
    }
    fs::rename(directory.join("a.0"), directory.join("a.0.xz")).unwrap();
    logger.writer.check_files().unwrap();
    fs::remove_dir_all(&directory).unwrap();
    let found = logger.writer.check_files();
    assert!(matches!(found, Err(Error::Disturbed { change: "removed", .. })), "{found:?}");
}

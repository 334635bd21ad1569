//! Every archive of the corpus, with its volumes compressed by us: it stays the same.

use std::fs;
use std::path::{Path, PathBuf};

use pcp_archive::compress::{Effort, compress_volumes, recompress};
use pcp_archive::internal::member_files;
use pcp_archive::raw::{FetchResult, Record, RecordError};
use pcp_archive::{Archive, Compression, Timestamp};

use super::golden::{self, Case, cases};

#[test]
fn archives_with_packed_volumes_are_the_originals() {
    let (mut cases_seen, mut packed) = (0, 0);
    for case in cases() {
        cases_seen += 1;
        let plain = contents(&case.archive);
        for compression in [Compression::Xz, Compression::Zstd] {
            let directory = tempfile::tempdir().unwrap();
            let base = copy_files(&case, directory.path());
            let before = member_files(&base).unwrap();
            compress_volumes(&base, compression).unwrap();
            packed += usize::from(member_files(&base).unwrap() != before);
            assert_same(&case.name, &Archive::open(&base).unwrap(), &plain);
        }
    }
    // A few of them are compressed already.
    assert!(packed >= cases_seen, "{packed} of {cases_seen}");
}

#[test]
fn archives_in_other_compressions_are_the_originals() {
    if golden::corpus().is_none() {
        return;
    }
    let mut copied = 0;
    for case in cases() {
        let directory = tempfile::tempdir().unwrap();
        let bases = ["packed", "plain"].map(|name| directory.path().join(name));
        let zstd = Some(Compression::Zstd);
        let packed = recompress(&case.archive, &bases[0], zstd, Effort::Usual, &mut |_| {});
        // Some are damaged, or have no index.
        if packed.unwrap().is_none() {
            continue;
        }
        let packed = Archive::open_tolerant(&bases[0]).unwrap();
        let expected = contents(&case.archive);
        assert_same(&case.name, &packed, &expected);
        let plain = recompress(&packed, &bases[1], None, Effort::Usual, &mut |_| {}).unwrap();
        assert_same(&case.name, &Archive::open_tolerant(&bases[1]).unwrap(), &expected);
        let count = expected.forwards.0.len();
        assert_eq!(plain.unwrap().records, count as u64, "{}", case.name);
        copied += 1;
    }
    assert!(copied > 10, "{copied}");
}

fn copy_files(case: &Case, directory: &Path) -> PathBuf {
    let from = case.archive.base();
    for file in member_files(from).unwrap() {
        fs::copy(&file, directory.join(file.file_name().unwrap())).unwrap();
    }
    directory.join(from.file_name().unwrap())
}

struct Contents {
    end: Timestamp,
    /// The offset and length of the torn tail.
    torn: Option<(u64, u64)>,
    forwards: Found,
    backwards: Found,
    from_middle: Option<Found>,
}

fn contents(archive: &Archive) -> Contents {
    let found = forwards(archive, None);
    let middle = found.0.get(found.0.len() / 2).map(|(timestamp, ..)| *timestamp);
    Contents {
        end: archive.end(),
        torn: archive.torn_tail().map(|tail| (tail.offset, tail.bytes)),
        backwards: backwards(archive),
        from_middle: middle.map(|middle| forwards(archive, Some(middle))),
        forwards: found,
    }
}

fn assert_same(name: &str, packed: &Archive, plain: &Contents) {
    let packed = contents(packed);
    assert_eq!(packed.end, plain.end, "{name}");
    assert_eq!(packed.torn, plain.torn, "{name}");
    assert!(packed.forwards == plain.forwards, "{name}");
    assert!(packed.backwards == plain.backwards, "{name}, backwards");
    assert!(packed.from_middle == plain.from_middle, "{name}, from the middle");
}

type Found = (Vec<Shown>, Option<String>);
/// The time of a record, its volume and offset, and its values.
type Shown = (Timestamp, u32, u64, Result<FetchResult, RecordError>);

fn shown(archive: &Archive, record: &Record<'_>) -> Shown {
    let values = record.to_owned(archive.metadata());
    (record.timestamp(), record.volume(), record.offset(), values)
}

fn forwards(archive: &Archive, from: Option<Timestamp>) -> Found {
    let mut found = Vec::new();
    let records = match from {
        Some(from) => archive.records_from(from),
        None => archive.records(),
    };
    let mut records = records.unwrap();
    loop {
        match records.next() {
            Ok(Some(record)) => found.push(shown(archive, &record)),
            Ok(None) => return (found, None),
            Err(error) => return (found, Some(kind(&error))),
        }
    }
}

fn backwards(archive: &Archive) -> Found {
    let mut found = Vec::new();
    let mut records = archive.records_back_from(archive.end()).unwrap();
    loop {
        match records.previous() {
            Ok(Some(record)) => found.push(shown(archive, &record)),
            Ok(None) => return (found, None),
            Err(error) => return (found, Some(kind(&error))),
        }
    }
}

fn kind(error: &pcp_archive::Error) -> String {
    match error {
        pcp_archive::Error::Corrupt { offset, source, .. } => format!("{offset}: {source}"),
        other => other.to_string(),
    }
}

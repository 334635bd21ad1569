//! An archive whose files are compressed is the same archive.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use pcp_archive::{Archive, Error, Timestamp};
use tempfile::TempDir;
use test_archives::{Builder, at};

const RECORDS: i64 = 300;

/// Writes three volumes of 100 records.
fn archive() -> (TempDir, PathBuf) {
    let row = |n| (n, [("a.b", n * n)]);
    let builder = Builder::indexed(500).metric("a.b", "i64 instant").rows((0..100).map(row));
    let builder = builder.volume().rows((100..200).map(row));
    builder.volume().rows((200..RECORDS).map(row)).finish().into_parts()
}

fn compress(bytes: &[u8], suffix: &str) -> Vec<u8> {
    let mut out = Vec::new();
    match suffix {
        "xz" => {
            let mut encoder = liblzma::write::XzEncoder::new(&mut out, 6);
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap();
        }
        "bz2" => {
            let level = bzip2::Compression::default();
            let mut encoder = bzip2::write::BzEncoder::new(&mut out, level);
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap();
        }
        "gz" => {
            let level = flate2::Compression::default();
            let mut encoder = flate2::write::GzEncoder::new(&mut out, level);
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap();
        }
        _ => {
            out = zstd::stream::encode_all(bytes, 1).unwrap();
        }
    }
    out
}

fn compress_member(base: &Path, member: &str, suffix: &str) -> PathBuf {
    let plain = base.with_extension(member);
    let compressed = base.with_extension(format!("{member}.{suffix}"));
    fs::write(&compressed, compress(&fs::read(&plain).unwrap(), suffix)).unwrap();
    fs::remove_file(plain).unwrap();
    compressed
}

fn read(archive: &Archive) -> Result<[Vec<Timestamp>; 3], Error> {
    let mut all = [vec![], vec![], vec![]];
    let mut records = archive.records()?;
    while let Some(record) = records.next()? {
        all[0].push(record.timestamp());
    }
    let mut records = archive.records_back_from(archive.end())?;
    while let Some(record) = records.previous()? {
        all[1].push(record.timestamp());
    }
    let mut records = archive.records_from(at(RECORDS / 2))?;
    while let Some(record) = records.next()? {
        all[2].push(record.timestamp());
    }
    Ok(all)
}

#[test]
fn compressed_files_are_read_in_all_directions() {
    for suffix in ["xz", "bz2", "gz", "zst"] {
        let (_directory, base) = archive();
        let plain = read(&Archive::open(&base).unwrap()).unwrap();
        assert_eq!(plain.each_ref().map(Vec::len), [300, 300, 150]);
        for member in ["0", "1", "2", "meta", "index"] {
            compress_member(&base, member, suffix);
            let archive = Archive::open(&base).unwrap();
            assert_eq!(read(&archive).unwrap(), plain, "{member}.{suffix}");
            assert_eq!(archive.end(), at(RECORDS - 1));
            assert!(archive.index().defects().is_empty() && !archive.index().entries().is_empty());
        }
    }
}

#[test]
fn damaged_compressed_volume_gives_its_whole_records() {
    for suffix in ["xz", "bz2", "gz", "zst"] {
        let (_directory, base) = archive();
        let file = compress_member(&base, "1", suffix);
        let bytes = fs::read(&file).unwrap();
        fs::write(&file, &bytes[..bytes.len() - 1]).unwrap();
        let archive = Archive::open(&base).unwrap();
        let mut records = archive.records().unwrap();
        let mut n = 0;
        let error = loop {
            match records.next() {
                Ok(Some(_)) => n += 1,
                Ok(None) => panic!("{suffix}: no error"),
                Err(error) => break error,
            }
        };
        assert!((100..=200).contains(&n), "{suffix} {n}");
        assert!(
            matches!(&error, Error::Decompress { file: found, .. } if *found == file),
            "{error}"
        );
    }
}

#[test]
fn compressed_metadata_that_is_damaged_is_an_error() {
    let (_directory, base) = archive();
    let file = compress_member(&base, "meta", "gz");
    let mut bytes = fs::read(&file).unwrap();
    let last = bytes.len() - 5;
    bytes[last] ^= 1;
    fs::write(&file, bytes).unwrap();
    assert!(matches!(Archive::open(&base), Err(Error::Decompress { .. })));
}

/// Limit on the memory that a small file can make a reader keep at once: less than it expands to.
const MOST_MEMORY: u64 = 160 << 20;

/// Appends zeros to a member: 800 MiB of them in a file that could expand to that much.
fn make_bomb(base: &Path, member: &str) -> PathBuf {
    let file = compress_member(base, member, "xz");
    let mut bytes = fs::read(&file).unwrap();
    let part = compress(&vec![0; 8 << 20], "xz");
    for _ in 0..100 {
        bytes.extend(&part);
        // Between streams, zeros mean nothing.
        bytes.resize(bytes.len() + (8 << 10), 0);
    }
    fs::write(&file, bytes).unwrap();
    file
}

#[test]
fn a_member_that_expands_to_zeros_ends_at_them() {
    for member in ["0", "2", "meta"] {
        let (_directory, base) = archive();
        let file = make_bomb(&base, member);
        let counted = allocation_counter::measure(|| {
            let opened = Archive::open(&base);
            let error = match opened.and_then(|archive| read(&archive)) {
                Err(error) => error.to_string(),
                Ok(_) => panic!("{member}: no error"),
            };
            let expected = [
                "record length 0 is not between 8 and 2147483647",
                "no record in the 33554432 bytes",
            ];
            let is_expected = expected.iter().any(|expected| error.contains(expected));
            assert!(is_expected, "{error}");
            assert!(error.contains(file.to_str().unwrap()), "{error}");
        });
        assert!(counted.bytes_max < MOST_MEMORY, "{member}: {}", counted.bytes_max);
    }
}

#[test]
fn of_an_index_that_expands_to_zeros_the_first_entries_are_read() {
    let (_directory, base) = archive();
    make_bomb(&base, "index");
    let counted = allocation_counter::measure(|| {
        let archive = Archive::open(&base).unwrap();
        assert!(!archive.index().entries().is_empty());
        let last = archive.index().defects().last().unwrap();
        assert!(last.error.to_string().starts_with("more than 262144 index entries"), "{last:?}");
        assert_eq!(read(&archive).unwrap().map(|all| all.len()), [300, 300, 150]);
    });
    assert!(counted.bytes_max < MOST_MEMORY, "{}", counted.bytes_max);
}

#[test]
fn zeros_after_the_records_are_not_expanded() {
    let (directory, base) = archive();
    make_bomb(&base, "2");
    let report = pcp_archive::check::check(&base).unwrap();
    assert_eq!(report.records(), 300);
    assert!(report.worst() == Some(pcp_archive::check::Severity::Error));
    let repaired = pcp_archive::repair::repair(&base, directory.path().join("new")).unwrap();
    assert_eq!(repaired.records, 300);
    let lost: u64 = repaired.lost.iter().map(|lost| lost.bytes).sum();
    assert!((1..34 << 20).contains(&lost), "{:?}", repaired.lost);
}

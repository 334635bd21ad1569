//! Damaged archives, one kind of damage after the other. (`hostile.rs` cuts
//! and flips everywhere.)

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use pcp_archive::raw::RecordError;
use pcp_archive::{Archive, Error};
use tempfile::TempDir;
use test_archives::{Builder, at};

const RECORDS: i64 = 4;

fn archive() -> (TempDir, PathBuf) {
    let mut builder = Builder::indexed(1).metric("a.b", "string instant");
    for second in 0..RECORDS - 1 {
        let names = &["x", "y", "z"][..=second as usize];
        let texts = names.iter().map(|name| (format!("a.b[{name}]"), "text"));
        builder = builder.instances("a.b", names.iter().copied()).row(second, texts);
    }
    builder.mark(RECORDS - 1).finish().into_parts()
}

fn offsets(base: &Path) -> Vec<usize> {
    let volume = fs::read(base.with_extension("0")).unwrap();
    let mut offsets = vec![808];
    while let Some(word) = volume[offsets[offsets.len() - 1]..].first_chunk() {
        offsets.push(offsets[offsets.len() - 1] + u32::from_be_bytes(*word) as usize);
    }
    assert_eq!(offsets.len() as i64, RECORDS + 1);
    offsets
}

/// Reads all there is, in both directions; the number of records forwards,
/// and whether a torn tail is reported.
fn read(base: &Path) -> Result<(i64, bool), Error> {
    let archive = Archive::open(base)?;
    let mut n = 0;
    let mut records = archive.records()?;
    while let Some(record) = records.next()? {
        let _ = record.to_owned(archive.metadata());
        n += 1;
    }
    let mut back = archive.records_back_from(archive.end())?;
    while back.previous()?.is_some() {}
    archive.records_from(at(2))?.next()?;
    Ok((n, archive.torn_tail().is_some()))
}

#[test]
fn long_claim_before_other_records_is_no_torn_tail() {
    let (_directory, base) = archive();
    let start = offsets(&base)[2];
    let volume = fs::OpenOptions::new().write(true).open(base.with_extension("0")).unwrap();
    volume.write_all_at(&[0x7f], start as u64).unwrap();
    let archive = Archive::open(&base).unwrap();
    assert_eq!((archive.end(), archive.torn_tail()), (at(RECORDS - 1), None));
    let mut records = archive.records().unwrap();
    for second in 0..2 {
        assert_eq!(records.next().unwrap().unwrap().timestamp(), at(second));
    }
    let Err(Error::Corrupt { offset, source, .. }) = records.next() else { panic!() };
    assert_eq!(offset, start as u64);
    assert!(matches!(source, RecordError::Truncated { .. }));
}

#[test]
fn a_last_record_that_is_damaged_is_an_error_after_all_others() {
    let (_directory, base) = archive();
    let (start, end) = (offsets(&base)[3], offsets(&base)[4]);
    let volume = fs::OpenOptions::new().write(true).open(base.with_extension("0")).unwrap();
    volume.write_all_at(&[1], end as u64 - 1).unwrap();
    let archive = Archive::open(&base).unwrap();
    assert_eq!(archive.end(), at(RECORDS - 2));
    let mut records = archive.records().unwrap();
    for second in 0..RECORDS - 1 {
        assert_eq!(records.next().unwrap().unwrap().timestamp(), at(second));
    }
    let error = records.next().unwrap_err();
    assert!(matches!(error, Error::Corrupt { offset, .. } if offset == start as u64));
}

/// Numbers of instances and values can look like the lengths around a record.
#[test]
fn half_a_record_that_ends_as_a_whole_one_would_is_a_torn_tail() {
    let (_directory, base) = archive();
    let end = offsets(&base)[RECORDS as usize];
    let path = base.with_extension("0");
    let mut bytes = fs::read(&path).unwrap();
    // 64 bytes of a record of 100. The last 32 of them begin and end with 32,
    // and there is a time where one would be, but no value sets.
    let words = [100, 1, 1, 1, 1, 1, 1, 1, 32, 1, 1, 1, 1, 1, 1, 32_u32];
    bytes.extend(words.into_iter().flat_map(u32::to_be_bytes));
    fs::write(&path, bytes).unwrap();
    let archive = Archive::open(&base).unwrap();
    let torn = archive.torn_tail().map(|torn| (torn.offset, torn.bytes));
    assert_eq!((archive.end(), torn), (at(RECORDS - 1), Some((end as u64, 64))));
    assert_eq!(read(&base).unwrap(), (RECORDS, true));
}

fn last_metadata(base: &Path) -> (usize, usize) {
    let bytes = fs::read(base.with_extension("meta")).unwrap();
    let (mut before, mut last) = (0, 808);
    loop {
        let len = u32::from_be_bytes(*bytes[last..].first_chunk().unwrap()) as usize;
        if last + len == bytes.len() {
            return (before, last);
        }
        (before, last) = (last, last + len);
    }
}

#[test]
fn unreferenced_half_metadata_record_is_a_torn_tail() {
    let (_directory, base) = archive();
    let path = base.with_extension("meta");
    let whole = fs::read(&path).unwrap();
    let (before, last) = last_metadata(&base);
    let refused_at = |expected: usize| {
        let Err(Error::Corrupt { offset, source, .. }) = Archive::open(&base) else { panic!() };
        assert!(matches!(source, RecordError::Truncated { .. }));
        assert_eq!(offset, expected as u64);
    };
    fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    // The last index entry knows how long the file was.
    refused_at(last);
    fs::remove_file(base.with_extension("index")).unwrap();
    let archive = Archive::open(&base).unwrap();
    let torn = archive.torn_tail().map(|torn| (torn.file.clone(), torn.offset, torn.bytes));
    assert_eq!(torn, Some((path.clone(), last as u64, (whole.len() - 1 - last) as u64)));
    assert_eq!(archive.end(), at(RECORDS - 1));
    // A record that claims more than there is, and one after it.
    let mut bytes = whole;
    bytes[before] = 0x7f;
    fs::write(&path, bytes).unwrap();
    refused_at(before);
}

#[test]
fn zeros_after_the_last_record_are_a_torn_tail() {
    for zeros in [1, 3, 4, 4096, 300_000] {
        let (_directory, base) = archive();
        let end = *offsets(&base).last().unwrap() as u64;
        let volume = fs::OpenOptions::new().write(true).open(base.with_extension("0")).unwrap();
        volume.set_len(end + zeros).unwrap();
        assert_eq!(read(&base).unwrap(), (RECORDS, true));
        let archive = Archive::open(&base).unwrap();
        let torn = archive.torn_tail().unwrap();
        assert_eq!((torn.offset, torn.bytes), (end, zeros));
        volume.write_all_at(&[1], end + zeros - 1).unwrap();
        assert_eq!(read(&base).is_err(), zeros >= 4, "a tail that is not all zeros is damage");
    }
}

#[test]
fn records_that_are_appended_later_are_not_seen() {
    let (_directory, base) = archive();
    let path = base.with_extension("0");
    let whole = fs::read(&path).unwrap();
    let starts = offsets(&base);
    for cut in [0, 5] {
        fs::write(&path, &whole[..starts[2] + cut]).unwrap();
        let archive = Archive::open(&base).unwrap();
        fs::write(&path, &whole).unwrap();
        let mut records = archive.records().unwrap();
        let mut n = 0;
        while records.next().unwrap().is_some() {
            n += 1;
        }
        assert_eq!((n, archive.end()), (2, at(1)));
    }
}

#[test]
fn a_missing_index_costs_nothing_but_time() {
    let (_directory, base) = archive();
    fs::remove_file(base.with_extension("index")).unwrap();
    assert_eq!(read(&base).unwrap(), (RECORDS, false));
}

#[test]
fn a_damaged_index_entry_is_not_used_and_the_reason_is_reported() {
    let (_directory, base) = archive();
    let path = base.with_extension("index");
    let mut bytes = fs::read(&path).unwrap();
    // The sign of the second entry's volume.
    bytes[808 + 32 + 12] = 0x80;
    let whole = Archive::open(&base).unwrap().index().entries().to_vec();
    fs::write(&path, bytes).unwrap();
    let archive = Archive::open(&base).unwrap();
    let [defect] = archive.index().defects() else { panic!("{:?}", archive.index()) };
    assert_eq!((defect.offset, defect.number), (808 + 32, 2));
    assert_eq!(archive.index().entries(), [&whole[..1], &whole[2..]].concat());
    assert_eq!(read(&base).unwrap(), (RECORDS, false));
}

#[test]
fn files_of_different_archives_do_not_open_together() {
    let (_directory, base) = archive();
    for (file, at, field) in [("0", 11, "pid"), ("index", 36, "host name")] {
        let path = base.with_extension(file);
        let whole = fs::read(&path).unwrap();
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        fs::write(&path, bytes).unwrap();
        let error = Archive::open(&base).unwrap_err();
        assert!(matches!(error, Error::LabelMismatch { field: found, .. } if found == field));
        fs::write(&path, whole).unwrap();
    }
}

#[test]
fn a_volume_under_another_number_is_refused() {
    let (_directory, base) = archive();
    fs::rename(base.with_extension("0"), base.with_extension("3")).unwrap();
    let error = Archive::open(&base).unwrap_err();
    assert!(matches!(error, Error::VolumeMismatch { found: 0, expected: 3, .. }));
}

/// Runs `work` and fails if it takes ten seconds: opening a FIFO could wait forever.
fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(work()));
    result.recv_timeout(std::time::Duration::from_secs(10)).expect("an answer within ten seconds")
}

#[test]
fn a_member_that_is_not_a_regular_file_is_refused_at_once() {
    for suffix in ["meta", "0", "index"] {
        let (_directory, base) = archive();
        let member = base.with_extension(suffix);
        fs::remove_file(&member).unwrap();
        nix::unistd::mkfifo(&member, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let is_refused = |error: Option<Error>| match error {
            Some(Error::NotRegular { file }) => file == member,
            // An archive can be read without its index.
            other => other.is_none() && suffix == "index",
        };
        let place = base.clone();
        assert!(is_refused(in_time(move || read(&place).err())), "{suffix}: read");
        let place = base.clone();
        let checked = in_time(move || {
            pcp_archive::check::check(&place).map(|report| report.findings().len())
        });
        assert!(!matches!(checked, Ok(0)), "{suffix}: check: {checked:?}");
        let place = base.clone();
        in_time(move || pcp_archive::salvage::Salvage::open(&place).map(|_| ()).ok());
    }
}

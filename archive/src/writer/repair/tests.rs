use std::fs;

use tempfile::TempDir;
use test_archives::{Builder, Cell};

use super::*;
use crate::check::{Defect, Severity};
use crate::format::event::{EventArrayBuilder, EventFlags};
use crate::{
    Archive, InDom, InstanceId, MetricDesc, OwnedValue, Pmid, Semantics, Units, Value, ValueSet,
    ValueType, check,
};

const LABEL: usize = 808;
/// The first records, all alike: a set in place and one with a block.
const RECORD: usize = 20 + 20 + 20 + 12 + 4;
const RECORDS: i64 = 10;

fn at(seconds: i64) -> Timestamp {
    Timestamp::new(1_700_000_000 + seconds, 0).unwrap()
}

fn descs() -> [MetricDesc; 2] {
    let desc = |item, value_type, indom| MetricDesc {
        pmid: Pmid::new(70, 1, item).unwrap(),
        value_type,
        indom,
        semantics: Semantics::Instant,
        units: Units::from_raw(0),
    };
    [desc(1, ValueType::U32, None), desc(2, ValueType::I64, Some(InDom::new(70, 1).unwrap()))]
}

/// Begins an archive of two metrics.
fn builder() -> Builder {
    Builder::indexed(200)
        .metric("a.word", "u32 instant")
        .metric("a.long", "i64 instant")
        .in_domain("a.long", 1)
}

pub(super) fn archive() -> (TempDir, PathBuf) {
    let mut builder = builder();
    for n in 0..RECORDS {
        if n == 5 {
            builder = builder.volume();
        }
        let name = if n < 3 { "early" } else { "late" };
        builder = builder
            .numbered_instances("a.long", [(1, name)])
            .row(n, [("a.word", n), ("a.long[1]", n)]);
    }
    builder.finish().into_parts()
}

fn change(base: &Path, extension: &str, change: impl FnOnce(&mut Vec<u8>)) {
    let path = base.with_extension(extension);
    let mut bytes = fs::read(&path).unwrap();
    change(&mut bytes);
    fs::write(&path, bytes).unwrap();
}

/// Repairs into another archive, which must be clean; the values of the first
/// metric in it.
#[track_caller]
fn repaired(base: &Path) -> (RepairReport, Vec<u32>) {
    let output = base.with_file_name("b");
    let repaired = repair(base, &output).unwrap();
    (repaired, words(&output))
}

#[track_caller]
pub(super) fn words(base: &Path) -> Vec<u32> {
    let report = check::check(base).unwrap();
    // A repair keeps labels that PCP's readers use.
    let mut defects = report.findings().iter().map(|finding| &finding.defect);
    let is_fine = |defect: &Defect| defect.severity() == Severity::Note || defect.is_foreign_text();
    assert!(defects.all(is_fine), "{:?}", report.findings());
    let archive = Archive::open(base).unwrap();
    let mut records = archive.records().unwrap();
    let mut words = Vec::new();
    while let Some(record) = records.next().unwrap() {
        for set in record.value_sets().filter(|set| set.pmid() == descs()[0].pmid) {
            for value in set.values(ValueType::U32) {
                let (_, Value::U32(word)) = value.unwrap() else { panic!() };
                words.push(word);
            }
        }
    }
    words
}

#[test]
fn of_a_whole_archive_everything_is_kept() {
    let (_directory, base) = archive();
    let (repaired, words) = repaired(&base);
    assert_eq!(words, (0..10).collect::<Vec<_>>());
    assert_eq!((repaired.records, repaired.dropped, repaired.thinned), (10, 0, 0));
    assert_eq!((repaired.metadata_records, repaired.dropped_metadata), (4, 0));
    assert_eq!(repaired.span, (at(0), at(9)));
    assert_eq!(repaired.lost, []);
    for extension in ["0", "1", "meta"] {
        let bytes = |base: &Path| fs::read(base.with_extension(extension)).unwrap();
        assert!(bytes(&base) == bytes(&base.with_file_name("b")), "{extension}");
    }
}

#[test]
fn damaged_record_costs_only_itself() {
    let (_directory, base) = archive();
    let second = LABEL + RECORD;
    change(&base, "0", |bytes| bytes[second + 3] ^= 4);
    let (repaired, words) = repaired(&base);
    assert_eq!(words, [0, 2, 3, 4, 5, 6, 7, 8, 9]);
    let [lost] = repaired.lost.as_slice() else { panic!("{:?}", repaired.lost) };
    assert_eq!((lost.offset, lost.bytes), (second as u64, RECORD as u64));
    assert_eq!((lost.after, lost.before), (Some(at(0)), Some(at(2))));
}

fn marks(base: &Path) -> Vec<Timestamp> {
    let archive = Archive::open(base).unwrap();
    let mut records = archive.records().unwrap();
    let mut marks = Vec::new();
    while let Some(record) = records.next().unwrap() {
        marks.extend(record.is_mark().then(|| record.timestamp()));
    }
    marks
}

#[test]
fn values_are_not_joined_over_records_that_are_lost() {
    let (_directory, base) = archive();
    // One that is damaged, one of a wild time, and one at a volume's start.
    change(&base, "0", |bytes| bytes[LABEL + RECORD + 3] ^= 4);
    change(&base, "0", |bytes| bytes[LABEL + 3 * RECORD + 4] = 0x7f);
    change(&base, "1", |bytes| bytes[LABEL + 3] ^= 4);
    let (repaired, words) = repaired(&base);
    assert_eq!(words, [0, 2, 4, 6, 7, 8, 9]);
    assert_eq!((repaired.records, repaired.marks), (7, 3));
    let after = [0, 2, 4].map(|n| at(n).saturating_add(std::time::Duration::from_millis(1)));
    assert_eq!(marks(&base.with_file_name("b")), after);
}

#[test]
fn a_torn_tail_leaves_no_mark() {
    let (_directory, base) = archive();
    change(&base, "1", |bytes| bytes.truncate(bytes.len() - 1));
    let (repaired, words) = repaired(&base);
    assert_eq!((words.len(), repaired.marks), (9, 0));
}

#[test]
fn bytes_that_were_never_written_are_skipped() {
    let (_directory, base) = archive();
    change(&base, "0", |bytes| drop(bytes.splice(LABEL + 3..LABEL + RECORD + 9, [])));
    assert_eq!(repaired(&base).1, [2, 3, 4, 5, 6, 7, 8, 9]);
}

#[test]
fn values_without_a_descriptor_are_left_out() {
    let (_directory, base) = archive();
    // The type of the first metric.
    change(&base, "meta", |bytes| bytes[LABEL + 15] = 99);
    let (repaired, words) = repaired(&base);
    assert_eq!(words, [0; 0]);
    assert_eq!((repaired.records, repaired.thinned), (10, 10));
    assert_eq!(repaired.lost.len(), 1);
    let archive = Archive::open(base.with_file_name("b")).unwrap();
    let mut records = archive.records_from(at(7)).unwrap();
    let seven = records.next().unwrap().unwrap().to_owned(archive.metadata()).unwrap();
    let values = vec![(InstanceId::new(1).ok(), OwnedValue::I64(7))];
    assert_eq!(seven.value_sets, [ValueSet { pmid: descs()[1].pmid, values: Ok(values) }]);
}

#[test]
fn event_arrays_that_cannot_be_read_are_left_out() {
    let row = |second| {
        let mut array = EventArrayBuilder::highres();
        array.record(at(second), EventFlags::POINT).unwrap();
        let OwnedValue::HighresEvent(bytes) = array.finish() else { panic!() };
        (second, [("a.word", Cell::from(second)), ("a.events", bytes.into())])
    };
    let (_directory, base) = builder()
        .metric("a.events", "highres-event instant")
        .rows((0..2).map(row))
        .finish()
        .into_parts();
    // Last are the nanoseconds of the event, its flags, its count, and the
    // record's length.
    change(&base, "0", |bytes| {
        let nanoseconds = bytes.len() - 4 - 4 - 4 - 8;
        bytes[nanoseconds] = 0x7f;
    });
    let (repaired, words) = repaired(&base);
    assert_eq!(words, [0, 1]);
    assert_eq!((repaired.records, repaired.thinned), (2, 1));
}

#[test]
fn a_record_of_a_wild_time_gets_an_archive_of_its_own() {
    let (_directory, base) = archive();
    change(&base, "0", |bytes| bytes[LABEL + 2 * RECORD + 4] = 0x7f);
    let (repaired, found) = repaired(&base);
    assert_eq!(found, [0, 1, 3, 4, 5, 6, 7, 8, 9]);
    assert_eq!((repaired.dropped, repaired.further.len()), (0, 1));
    assert_eq!(words(&base.with_file_name("b-2")), [2]);
}

/// Moves the times of the second volume's records back by a number of seconds.
fn step_back(base: &Path, by: i64) {
    change(base, "1", |bytes| {
        for record in 0..5 {
            let place = LABEL + record * RECORD + 4;
            let seconds = (at(5 + record as i64).seconds() - by) as u32;
            bytes[place..place + 4].copy_from_slice(&seconds.to_be_bytes());
        }
    });
}

#[test]
fn records_before_a_clock_step_get_a_second_archive() {
    for in_place in [false, true] {
        let (directory, base) = archive();
        step_back(&base, 1000);
        let output = base.with_file_name("b");
        let (repaired, first) = if in_place {
            (repair_in_place(&base).unwrap(), base.clone())
        } else {
            (repair(&base, &output).unwrap(), output)
        };
        assert_eq!((repaired.records, repaired.dropped, repaired.marks), (5, 0, 0));
        let [further] = repaired.further.as_slice() else { panic!("{repaired:?}") };
        assert_eq!((further.records, further.dropped), (5, 0));
        let second = PathBuf::from(format!("{}-2", first.display()));
        assert_eq!((&repaired.base, &further.base), (&first, &second));
        // Both are clean, and together have everything.
        let mut all = words(&first);
        all.extend(words(&second));
        all.sort_unstable();
        assert_eq!(all, (0..10).collect::<Vec<_>>());
        // An archive with one volume has three files.
        let old = if in_place { 0 } else { 4 };
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), old + 3 + 3);
    }
}

#[test]
fn a_further_archive_overwrites_none() {
    let (directory, base) = archive();
    step_back(&base, 1000);
    let taken = base.with_file_name("a-2.meta");
    fs::write(&taken, "taken").unwrap();
    let repaired = repair_in_place(&base).unwrap();
    assert_eq!(repaired.further[0].base, base.with_file_name("a-3"));
    assert_eq!((words(&base).len(), words(&repaired.further[0].base).len()), (5, 5));
    assert_eq!(fs::read(&taken).unwrap(), b"taken");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 3 + 1 + 3);
}

/// The names of an archive's files, by the order in which a repair in place replaces them.
#[derive(Clone, Copy)]
enum Change {
    Remove(&'static str),
    Replace(&'static str),
}

const CHANGES: [Change; 5] = [
    Change::Remove("a.index"),
    Change::Replace("a.meta"),
    Change::Replace("a.0"),
    Change::Replace("a.1"),
    Change::Replace("a.index"),
];

#[test]
fn a_repair_in_place_that_is_killed_anywhere_leaves_an_archive() {
    for changes in 0..=CHANGES.len() {
        let (directory, base) = archive();
        change(&base, "0", |bytes| bytes[LABEL + RECORD + 3] ^= 4);
        change(&base, "1", |bytes| bytes.truncate(bytes.len() - 1));
        let new = tempfile::tempdir().unwrap();
        repair(&base, new.path().join("a")).unwrap();
        for change in &CHANGES[..changes] {
            match change {
                Change::Remove(name) => fs::remove_file(directory.path().join(name)).unwrap(),
                Change::Replace(name) => {
                    fs::copy(new.path().join(name), directory.path().join(name)).unwrap();
                }
            }
        }
        let archive = Archive::open_tolerant(&base).unwrap();
        let descs = archive.metadata().metrics().iter().map(|metric| metric.desc.pmid);
        assert_eq!(descs.collect::<Vec<_>>(), self::descs().map(|desc| desc.pmid), "{changes}");
        let repaired = repair_in_place(&base).unwrap();
        assert_eq!(repaired.further, [], "{changes}");
        assert_eq!(words(&base), [0, 2, 3, 4, 5, 6, 7, 8], "{changes}");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 4, "{changes}");
    }
}

#[test]
fn interrupted_replacement_loses_no_backward_record() {
    let (_directory, base) = archive();
    step_back(&base, 1000);
    let volumes = ["0", "1"].map(|volume| fs::read(base.with_extension(volume)).unwrap());
    let further = repair_in_place(&base).unwrap().further;
    // As before the old volume that has no successor was removed.
    for (volume, bytes) in ["0", "1"].into_iter().zip(volumes) {
        fs::write(base.with_extension(volume), bytes).unwrap();
    }
    fs::remove_file(base.with_extension("index")).unwrap();
    let again = repair_in_place(&base).unwrap();
    assert_eq!((words(&base).len(), words(&further[0].base).len()), (5, 5));
    assert_eq!(again.further[0].base, base.with_file_name("a-3"));
    assert_eq!(words(&again.further[0].base), words(&further[0].base));
}

#[test]
fn volumes_keep_their_numbers() {
    let (_directory, base) = archive();
    for (old, new) in [("1", "7"), ("0", "3")] {
        fs::rename(base.with_extension(old), base.with_extension(new)).unwrap();
        change(&base, new, |bytes| bytes[27] = new.parse().unwrap());
    }
    assert_eq!(repair_in_place(&base).unwrap().records, 10);
    assert!(base.with_extension("3").exists() && base.with_extension("7").exists());
    assert_eq!(words(&base).len(), 10);
}

fn differences() -> (TempDir, PathBuf) {
    let mut builder = builder().context_labels(&[("a", "b")]);
    for n in 0..RECORDS as i32 {
        let names: Vec<_> = (n..n + 9).map(|number| (number, format!("i {number}"))).collect();
        let instances = names.iter().map(|(number, name)| (*number, name.as_str()));
        let values = [("a.word".to_owned(), n), (format!("a.long[{n}]"), n)];
        builder = builder.numbered_instances("a.long", instances).row(n, values);
    }
    builder.finish().into_parts()
}

fn metadata_records(base: &Path, code: u32) -> Vec<(usize, usize)> {
    let bytes = fs::read(base.with_extension("meta")).unwrap();
    let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    let (mut at, mut found) = (LABEL, Vec::new());
    while at < bytes.len() {
        let len = word(at) as usize;
        found.extend((word(at + 4) == code).then_some((at, len)));
        at += len;
    }
    found
}

#[test]
fn a_difference_applied_twice_is_kept_once() {
    let (_directory, base) = differences();
    let (at, len) = metadata_records(&base, 6)[3];
    change(&base, "meta", |bytes| {
        let again = bytes[at..at + len].to_vec();
        bytes.splice(at..at, again);
    });
    assert!(check::check(&base).unwrap().worst() >= Some(Severity::Warning));
    let (repaired, words) = repaired(&base);
    assert_eq!((words.len(), repaired.lost.len()), (10, 0));
    assert_eq!(repaired.metadata_records, 3 + 10);
}

#[test]
fn after_a_domain_with_a_wrong_count_the_differences_fit_again() {
    let (_directory, base) = differences();
    for (code, place) in [(5, 0), (6, 4)] {
        let (at, _) = metadata_records(&base, code)[place];
        change(&base, "meta", |bytes| bytes[at + 24] = 0x01);
        assert_eq!(repaired(&base).1.len(), 10);
        for file in ["0", "meta", "index"] {
            fs::remove_file(base.with_file_name("b").with_extension(file)).unwrap();
        }
    }
}

#[test]
fn labels_with_a_wrong_offset_are_left_out_and_reported() {
    let (_directory, base) = differences();
    let (at, len) = metadata_records(&base, 7)[0];
    // The offset of the name in its text.
    change(&base, "meta", |bytes| bytes[at + len - 4 - 8 + 1] += 1);
    assert!(check::check(&base).unwrap().worst() >= Some(Severity::Warning));
    let (repaired, words) = repaired(&base);
    assert_eq!(words.len(), 10);
    let [lost] = repaired.lost.as_slice() else { panic!("{:?}", repaired.lost) };
    assert_eq!((lost.offset, lost.bytes), (at as u64, len as u64));
    assert_eq!(repaired.metadata_records, 2 + 10);
}

#[test]
fn bad_label_set_costs_no_other_set() {
    let (_directory, base) = builder()
        .numbered_instances("a.long", [(1, "i 1"), (2, "i 2"), (3, "i 3"), (4, "i 4")])
        .instance_labels(
            "a.long",
            &[
                ("i 1", &[("label", "1")]),
                ("i 2", &[("label", "2")]),
                ("i 3", &[("label", "3")]),
                ("i 4", &[("label", "4")]),
            ],
        )
        .row(0, [("a.word", 7)])
        .finish()
        .into_parts();
    let (at, len) = metadata_records(&base, 7)[0];
    let one = (len - 32 - 4) / 4;
    let set = |number: usize| at + 32 + (number - 1) * one;
    change(&base, "meta", |bytes| {
        // A byte that is not UTF-8; a name's place beyond the text; a comma for a brace.
        bytes[set(1) + 8 + 3] = 0xff;
        bytes[set(2) + one - 8] = 0x7f;
        bytes[set(3) + 8] = b',';
    });
    let old = fs::read(base.with_extension("meta")).unwrap();
    let (repaired, words) = repaired(&base);
    assert_eq!(words, [7]);
    let [lost] = repaired.lost.as_slice() else { panic!("{:?}", repaired.lost) };
    assert!(lost.reason.starts_with("labels of instances of 70.1: "), "{}", lost.reason);
    let new = fs::read(base.with_file_name("b").with_extension("meta")).unwrap();
    let (at, _) = metadata_records(&base.with_file_name("b"), 7)[0];
    assert_eq!(new[at + 31], 2);
    assert_eq!(new[at + 32..at + 32 + one], old[set(1)..set(1) + one]);
    assert_eq!(new[at + 32 + one..at + 32 + 2 * one], old[set(4)..set(4) + one]);
}

#[test]
fn metrics_get_names_that_readers_find() {
    let (_directory, base) = archive();
    let (at, _) = metadata_records(&base, 1)[1];
    let name = at + 36;
    for (bytes, new) in [(b"a.word", "a.word_70_1_2"), (b"a.lo\0g", "a.lo_70_1_2")] {
        change(&base, "meta", |old| old[name..name + 6].copy_from_slice(bytes));
        assert!(check::check(&base).unwrap().worst() >= Some(Severity::Warning));
        let (repaired, words) = repaired(&base);
        assert_eq!((words.len(), repaired.lost.len()), (10, 0));
        let [renamed] = repaired.renamed.as_slice() else { panic!("{:?}", repaired.renamed) };
        assert_eq!(*renamed.old.to_bytes(), *bytes);
        let archive = Archive::open(base.with_file_name("b")).unwrap();
        let metric = archive.metadata().metric(descs()[1].pmid).unwrap();
        assert_eq!(metric.names, std::slice::from_ref(&renamed.new));
        assert_eq!(*renamed.new.to_bytes(), *new.as_bytes());
        for file in ["0", "1", "meta", "index"] {
            fs::remove_file(base.with_file_name("b").with_extension(file)).unwrap();
        }
    }
}

#[test]
fn metadata_of_data_that_is_gone_is_left_out() {
    let (_directory, base) = archive();
    fs::remove_file(base.with_extension("1")).unwrap();
    change(&base, "0", |bytes| bytes.truncate(LABEL + 2 * RECORD));
    let (repaired, words) = repaired(&base);
    assert_eq!(words, [0, 1]);
    assert_eq!((repaired.metadata_records, repaired.dropped_metadata), (3, 1));
}

#[test]
fn one_good_label_is_enough() {
    let (_directory, base) = archive();
    for file in ["meta", "0", "1"] {
        change(&base, file, |bytes| bytes[4] = 0);
    }
    assert_eq!(repaired(&base).1.len(), 10);
    change(&base, "index", |bytes| bytes[4] = 0);
    assert!(matches!(repair(&base, base.with_file_name("c")), Err(Error::Corrupt { .. })));
}

/// Its two archives too, of records whose time steps back.
#[test]
fn nothing_has_the_new_name_before_it_is_complete() {
    let (directory, base) = archive();
    step_back(&base, 100);
    let seen = || {
        let entries = fs::read_dir(directory.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| !name.starts_with("a.")).collect();
        names.sort();
        names
    };
    let mut during = Vec::new();
    let output = directory.path().join("new");
    let repaired = repair_watched(&base, &output, &mut |_, _| during.push(seen())).unwrap();
    let is_hidden = |names: &Vec<String>| names.iter().all(|name| name.starts_with(".new"));
    assert!(during.iter().all(is_hidden) && during.iter().any(|names| !names.is_empty()));
    let expected = ["new-2.0", "new-2.index", "new-2.meta", "new.0", "new.index", "new.meta"];
    assert_eq!(seen(), expected);
    let bases = [&repaired.base, &repaired.further[0].base];
    assert_eq!(bases, [&output, &directory.path().join("new-2")]);
}

#[test]
fn what_cannot_be_repaired_leaves_no_files() {
    let (directory, base) = archive();
    fs::remove_file(base.with_extension("meta")).unwrap();
    let output = base.with_file_name("b");
    assert!(matches!(repair(&base, &output), Err(Error::NoData { .. })));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 3);
}

#[test]
fn an_archive_is_never_overwritten_but_in_its_place() {
    let (directory, base) = archive();
    assert!(matches!(repair(&base, &base), Err(Error::Exists { .. })));
    change(&base, "1", |bytes| bytes.truncate(bytes.len() - 1));
    let repaired = repair_in_place(&base).unwrap();
    assert_eq!((repaired.base.as_path(), repaired.records), (base.as_path(), 9));
    assert_eq!(words(&base).len(), 9);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 4);
}

#[cfg(feature = "compression")]
#[test]
fn compressed_members_are_repaired_too() {
    use std::io::Write as _;
    let (_directory, base) = archive();
    let bytes = fs::read(base.with_extension("1")).unwrap();
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&bytes).unwrap();
    let compressed = encoder.finish().unwrap();
    fs::write(base.with_extension("1.gz"), &compressed[..compressed.len() - 9]).unwrap();
    fs::remove_file(base.with_extension("1")).unwrap();
    let repaired = repair_in_place(&base).unwrap();
    assert!(repaired.lost[0].reason.contains("cannot be decompressed"), "{:?}", repaired.lost);
    assert!(words(&base).len() >= 5);
    assert!(!base.with_extension("1.gz").exists());
}

#[test]
fn a_new_index_leads_to_every_record() {
    let (_directory, base) = archive();
    fs::remove_file(base.with_extension("index")).unwrap();
    let entries = reindex(&base, &mut |_, _| {}).unwrap();
    assert!(entries >= 4, "{entries}");
    assert_eq!(words(&base).len(), 10);
    let archive = Archive::open(&base).unwrap();
    for n in 0..RECORDS {
        let mut records = archive.records_from(at(n)).unwrap();
        assert_eq!(records.next().unwrap().unwrap().timestamp(), at(n));
    }
}

#[test]
fn what_needs_more_than_an_index_is_refused_and_left_alone() {
    let (directory, base) = archive();
    let index = fs::read(base.with_extension("index")).unwrap();
    change(&base, "1", |bytes| bytes.truncate(bytes.len() - 1));
    assert!(matches!(reindex(&base, &mut |_, _| {}), Err(Error::Damaged { .. })));
    let (other, base) = archive();
    change(&base, "0", |bytes| bytes[LABEL + 2 * RECORD + 4] = 0x7f);
    assert!(matches!(reindex(&base, &mut |_, _| {}), Err(Error::TimeBackwards { .. })));
    assert!(fs::read(base.with_extension("index")).unwrap() == index);
    for directory in [directory, other] {
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 4);
    }
}

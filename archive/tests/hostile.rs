//! Small archives, cut at every byte and with every bit flipped, through all
//! that reads archives: what is answered is true, up to the record or field
//! that was damaged, or else there is an error; and no length that a file only
//! claims is believed, which would take memory.
//!
//! A version 3 archive is written here; those of version 2 are PCP's own. Of
//! them every eleventh bit is flipped, and with `MMV_LONG` every one.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pcp_archive::check::{Defect, Severity, check};
use pcp_archive::extract::Extract;
use pcp_archive::raw::{FetchResult, Record};
use pcp_archive::reduce::Reduce;
use pcp_archive::repair::repair;
use pcp_archive::rewrite::Rules;
use pcp_archive::salvage::{Salvage, SalvageItem};
use pcp_archive::scan::Selection;
use pcp_archive::{Archive, ArchiveWriter, Error, WriterOptions};
use tempfile::TempDir;

/// Memory for buffers of fixed sizes: of no file more than a few are held.
const BUFFERS: u64 = 1 << 20;
/// Memory for each byte of an archive's files. The worst is a name of one
/// letter, of which four bytes become two strings and a node of a tree.
const PER_BYTE: u64 = 64;

struct Specimen {
    name: String,
    files: Vec<(String, Vec<u8>)>,
    records: Vec<FetchResult>,
    ends: Vec<Vec<u64>>,
    label: usize,
    stride: usize,
}

impl Specimen {
    fn of(name: &str, base: &Path, stride: usize) -> Self {
        let archive = Archive::open(base).unwrap();
        let extensions = archive.volumes().map(|number| number.to_string());
        let extensions: Vec<_> =
            ["meta", "index"].map(str::to_owned).into_iter().chain(extensions).collect();
        let mut ends = vec![Vec::new(); archive.volumes().len()];
        let mut records = archive.records().unwrap();
        while let Some(record) = records.next().unwrap() {
            let volume = archive.volumes().position(|number| number == record.volume()).unwrap();
            ends[volume].push(record.offset() + record.size() as u64);
        }
        let files: Vec<_> = extensions
            .into_iter()
            .map(|extension| {
                let file = format!("{}.{extension}", base.display());
                (extension, fs::read(file).unwrap())
            })
            .collect();
        let label = u32::from_be_bytes(*files[0].1.first_chunk().unwrap()) as usize;
        let (records, None) = read_all(&archive) else { panic!("{name} is whole") };
        Self { name: name.to_owned(), files, records, ends, label, stride }
    }

    fn with(&self, file: usize, change: impl FnOnce(&mut Vec<u8>)) -> (TempDir, PathBuf) {
        let directory = test_archives::scratch();
        let base = directory.path().join("a");
        for (extension, bytes) in &self.files {
            fs::write(base.with_extension(extension), bytes).unwrap();
        }
        let (extension, mut bytes) = self.files[file].clone();
        change(&mut bytes);
        fs::write(base.with_extension(extension), bytes).unwrap();
        (directory, base)
    }

    fn is_data(&self, file: usize) -> bool {
        self.files[file].0.parse::<u32>().is_ok()
    }
}

fn specimens() -> Vec<Specimen> {
    let written = test_archives::of_every_kind();
    let mut all = vec![Specimen::of("written", &written, 1)];
    if let Some(corpus) = std::env::var_os("MMV_CORPUS") {
        let archives = Path::new(&corpus).join("archives");
        let stride = if std::env::var_os("MMV_LONG").is_some() { 1 } else { 11 };
        all.extend(
            ["ok-mv-bar", "ok-interp"].map(|name| Specimen::of(name, &archives.join(name), stride)),
        );
    }
    all
}

fn read_all(archive: &Archive) -> (Vec<FetchResult>, Option<Error>) {
    let mut found = Vec::new();
    let mut records = archive.records().unwrap();
    loop {
        match records.next() {
            Ok(None) => return (found, None),
            Err(error) => return (found, Some(error)),
            Ok(Some(record)) => match owned(&record, archive) {
                Ok(record) => found.push(record),
                Err(error) => return (found, Some(error)),
            },
        }
    }
}

fn owned(record: &Record<'_>, archive: &Archive) -> Result<FetchResult, Error> {
    record.to_owned(archive.metadata()).map_err(|source| Error::Corrupt {
        file: PathBuf::new(),
        offset: record.offset(),
        source,
    })
}

fn salvaged(base: &Path) -> Option<usize> {
    let salvage = Salvage::open(base).ok()?;
    let mut records = salvage.records();
    let mut n = 0;
    while let Some(next) = records.next().unwrap() {
        n += usize::from(matches!(next, SalvageItem::Record(_)));
    }
    Some(n)
}

#[track_caller]
fn assert_repairable(base: &Path, what: &str) -> Option<Vec<FetchResult>> {
    let output = base.with_file_name("b");
    repair(base, &output).ok()?;
    let report = check(&output).unwrap();
    // A repair keeps labels that PCP's readers use.
    for defect in report.findings().iter().map(|finding| &finding.defect) {
        let is_fine = defect.severity() == Severity::Note || defect.is_foreign_text();
        assert!(is_fine, "{what}: {:?}", report.findings());
    }
    let (records, error) = read_all(&Archive::open(&output).unwrap());
    assert!(error.is_none(), "{what}: {error:?}");
    Some(records)
}

/// Rules for all that the written archive has, and for much of what others have.
const RULES: &str = "\
global { hostname -> a.b tz -> \"UTC\" time -> -1:02:03.5 }
metric 70.*.* { pmid -> 71.*.* type if U32 -> 64 sem -> discrete }
metric a.word { name -> b.word units -> 0,0,0,0,0,0 rescale }
metric a.text { value /t(e)x/ -> \"\\1&\" }
indom 70.* { indom -> 71.* inst 0 -> 9 inst 1 -> delete iname \"x2\" -> \"y y\" }
text metric 70.*.* * { text -> \"a\" }
label context { new \"b\" null label -> \"c\" }
label item 70.*.* { value -> 1 }
label instances 70.* { value -> 2.5 new \"d\" \"e\" }
";

/// Reduces an archive and changes it by rules, if it can be read.
#[track_caller]
fn assert_changeable(base: &Path, what: &str) {
    let Ok(archive) = Archive::open(base) else { return };
    assert_sound_copy(&archive, "reduced", what, |selection, writer| {
        Reduce::new(selection, Duration::from_secs(2)).write(writer, |_| {}).map(drop)
    });
    let mut rules = Rules::default();
    rules.parse("rules", RULES).unwrap();
    assert_sound_copy(&archive, "changed", what, |selection, writer| {
        Extract::new(selection).rules(rules).write(writer, |_| {}).map(drop)
    });
}

/// Writes a copy of an archive, unless that is an error: it has no errors but those that are copied.
#[track_caller]
fn assert_sound_copy(
    archive: &Archive,
    name: &str,
    what: &str,
    write: impl FnOnce(Selection<'_>, &mut ArchiveWriter) -> Result<(), Error>,
) {
    let base = archive.base().with_file_name(name);
    let options = WriterOptions { version: archive.version(), ..WriterOptions::default() };
    // A damaged label may be one that cannot be written.
    let Ok(mut writer) = ArchiveWriter::create_with(&base, archive.label().into(), options) else {
        return;
    };
    let mut selection = Selection::new(archive);
    selection.select("");
    if write(selection, &mut writer).is_err() {
        return;
    }
    let Ok(summary) = writer.finish() else { return };
    if summary.records > 0 {
        let broken = broken_rules(&base);
        let known = broken_rules(archive.base());
        assert!(broken.is_subset(&known), "{what}: {name} breaks {broken:?}, it {known:?}");
    }
}

/// Returns the rules of which `check` finds errors.
fn broken_rules(base: &Path) -> BTreeSet<&'static str> {
    let report = check(base).unwrap();
    let defects = report.findings().iter().map(|finding| &finding.defect);
    let errors = defects.filter(|defect| defect.severity() == Severity::Error);
    errors.map(Defect::rule).collect()
}

/// Reads an archive, or what became of it, which must not take more memory
/// than its size justifies.
#[track_caller]
fn within(specimen: &Specimen, what: &str, work: impl FnOnce()) {
    let bytes: usize = specimen.files.iter().map(|(_, bytes)| bytes.len()).sum();
    let bound = BUFFERS + PER_BYTE * bytes as u64;
    let taken = allocation_counter::measure(work).bytes_max;
    assert!(taken <= bound, "{what}: {taken} bytes of memory for {bytes}, bound {bound}");
}

#[test]
fn every_cut_gives_the_records_before_it_or_an_error() {
    for specimen in specimens() {
        for file in 0..specimen.files.len() {
            for len in 0..specimen.files[file].1.len() {
                let what = format!("{}.{} cut at {len}", specimen.name, specimen.files[file].0);
                let (_directory, base) = specimen.with(file, |bytes| bytes.truncate(len));
                within(&specimen, &what, || assert_cut(&specimen, file, len, &base, &what));
            }
        }
    }
}

fn assert_cut(specimen: &Specimen, file: usize, len: usize, base: &Path, what: &str) {
    let report = check(base).unwrap();
    if let Ok(archive) = Archive::open(base) {
        let (records, error) = read_all(&archive);
        // Of a volume that is not the last one, the next one follows.
        let is_inner = specimen.is_data(file) && file + 1 < specimen.files.len();
        let prefix = records.iter().zip(&specimen.records).take_while(|(a, b)| a == b).count();
        assert!(prefix == records.len() || is_inner, "{what}: another record {prefix}");
        let at_end = |ends: &Vec<u64>| ends.contains(&(len as u64));
        let is_clean = error.is_none() && archive.torn_tail().is_none();
        if is_clean && records.len() < specimen.records.len() {
            let at_end = len <= specimen.label || specimen.ends.iter().any(at_end);
            assert!(at_end, "{what}: {} records, and no word", records.len());
        }
        assert!(salvaged(base).unwrap() >= records.len(), "{what}");
    } else {
        assert!(!report.findings().is_empty(), "{what}: nothing is found");
    }
    // Syncing is slow: not for every byte.
    if len.is_multiple_of(13)
        && let Some(repaired) = assert_repairable(base, what)
    {
        assert!(repaired.len() <= specimen.records.len() + 1, "{what}");
    }
    if len.is_multiple_of(13) {
        assert_changeable(base, what);
    }
}

#[test]
fn flipped_bit_changes_no_more_than_its_field() {
    for specimen in specimens() {
        for file in 0..specimen.files.len() {
            for at in 0..specimen.files[file].1.len() {
                // The long fields of labels all behave alike.
                if (60..specimen.label - 4).contains(&at) && at % 16 != 0 {
                    continue;
                }
                for bit in (0..8).filter(|bit| (at * 8 + bit) % specimen.stride == 0) {
                    let (name, extension) = (&specimen.name, &specimen.files[file].0);
                    let what = format!("{name}.{extension} bit {bit} of {at}");
                    let (_directory, base) = specimen.with(file, |bytes| bytes[at] ^= 1 << bit);
                    within(&specimen, &what, || {
                        assert_flipped(&specimen, file, &base, &what);
                        if (at * 8 + bit) % 29 == 0 {
                            assert_repairable(&base, &what);
                            assert_changeable(&base, &what);
                        }
                    });
                }
            }
        }
    }
}

fn assert_flipped(specimen: &Specimen, file: usize, base: &Path, what: &str) {
    let report = check(base).unwrap();
    let Ok(archive) = Archive::open(base) else {
        assert!(!report.findings().is_empty(), "{what}: does not open, and nothing is found");
        return;
    };
    let (records, error) = read_all(&archive);
    let is_whole = error.is_none() && archive.torn_tail().is_none();
    assert!(records.len() <= specimen.records.len(), "{what}");
    assert!(!is_whole || records.len() == specimen.records.len(), "{what}: lost without a word");
    let pairs = || records.iter().zip(&specimen.records);
    let differing = pairs().filter(|(found, expected)| found != expected).count();
    if specimen.is_data(file) {
        assert!(differing <= 1, "{what}: {differing} records differ");
        for (found, expected) in pairs() {
            assert!(differences(found, expected) <= 1, "{what}: {found:?} for {expected:?}");
        }
    } else if &specimen.files[file].0 == "index" {
        assert_eq!(differing, 0, "{what}");
        assert_times(specimen, &archive, what);
    } else {
        // Another type or domain changes how one metric reads, everywhere.
        for (found, expected) in pairs() {
            assert!(differences(found, expected) <= 1, "{what}: {found:?} for {expected:?}");
        }
    }
    if is_whole {
        assert_eq!(salvaged(base), Some(records.len()), "{what}");
    }
}

fn differences(found: &FetchResult, expected: &FetchResult) -> usize {
    let sets = found.value_sets.iter().zip(&expected.value_sets).filter(|(a, b)| a != b).count();
    let more = found.value_sets.len().abs_diff(expected.value_sets.len());
    usize::from(found.timestamp != expected.timestamp) + sets + more
}

fn assert_times(specimen: &Specimen, archive: &Archive, what: &str) {
    for from in specimen.records.iter().map(|record| record.timestamp) {
        let mut records = archive.records_from(from).unwrap();
        let found = records.next().unwrap().map(|record| owned(&record, archive).unwrap());
        let expected = specimen.records.iter().find(|record| record.timestamp >= from);
        assert_eq!(found.as_ref(), expected, "{what}: from {from}");
        let mut records = archive.records_back_from(from).unwrap();
        let found = records.previous().unwrap().map(|record| owned(&record, archive).unwrap());
        let expected = specimen.records.iter().rfind(|record| record.timestamp <= from);
        assert_eq!(found.as_ref(), expected, "{what}: back from {from}");
    }
}

//! An archive of several files, reduced to one value an interval and changed by rules.
//!
//! What is written is an archive with every record that was counted, and without errors but those
//! that are copied: names and texts that the source has.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use pcp_archive::check::{self, Defect, Severity};
use pcp_archive::extract::Extract;
use pcp_archive::reduce::Reduce;
use pcp_archive::rewrite::Rules;
use pcp_archive::scan::Selection;
use pcp_archive::{Archive, ArchiveWriter, Result, WriterOptions};

use crate::allocator;
use crate::split::Files;

/// Intervals shorter and longer than the time between two records of a seed.
const INTERVALS: [Duration; 2] = [Duration::from_millis(300), Duration::from_secs(2)];

/// Rules for all that the archives of the seeds have, and for much that mutations make of it.
const RULES: &str = "\
global { hostname -> a.b tz -> \"UTC\" time -> -1:02:03.5 }
metric 70.*.* { pmid -> 71.*.* type if U32 -> 64 type if FLOAT -> DOUBLE sem -> discrete }
metric a.word { name -> b.word units -> 0,0,0,0,0,0 rescale }
metric a.text { value /t(e)x/ -> \"\\1&\" }
indom 70.* { indom -> 71.* inst 0 -> 9 inst 1 -> delete iname \"x2\" -> \"y y\" }
text metric 70.*.* * { text -> \"a\" }
text indom 70.* * { delete }
label context { new \"b\" null label -> \"c\" }
label domain 70 { domain -> 71 }
label cluster 70.* { cluster -> 71.* }
label item 70.*.* { value -> 1 }
label indom 70.* { delete }
label instances 70.* { value -> 2.5 new \"d\" \"e\" }
";

/// Reduces the archive that the bytes stand for (`split.rs`), and changes it by rules.
pub fn reduce(bytes: &[u8]) {
    let Some(files) = Files::new(bytes) else { return };
    let directory = test_archives::scratch();
    let base = directory.path().join("a");
    files.write(&base);
    let Ok(archive) = Archive::open(&base) else { return };
    let len = files.len();
    for (number, interval) in INTERVALS.into_iter().enumerate() {
        let output = directory.path().join(format!("reduced{number}"));
        allocator::within(len, || {
            written(&archive, &output, |selection, writer| {
                Reduce::new(selection, interval).write(writer, |_| {}).map(drop)
            });
        });
    }
    let mut rules = Rules::default();
    rules.parse("rules", RULES).expect("rules");
    let output = directory.path().join("changed");
    allocator::within(len, || {
        written(&archive, &output, |selection, writer| {
            Extract::new(selection).rules(rules).write(writer, |_| {}).map(drop)
        });
    });
}

/// Writes a new archive from all metrics of another one, and checks it unless that is an error.
fn written(
    archive: &Archive,
    output: &Path,
    write: impl FnOnce(Selection<'_>, &mut ArchiveWriter) -> Result<()>,
) {
    let options = WriterOptions { version: archive.version(), ..WriterOptions::default() };
    let Ok(mut writer) = ArchiveWriter::create_with(output, archive.label().into(), options) else {
        return;
    };
    let mut selection = Selection::new(archive);
    selection.select("");
    if write(selection, &mut writer).is_err() {
        return;
    }
    let Ok(summary) = writer.finish() else { return };
    if summary.records == 0 {
        return;
    }
    let copied = broken_rules(archive.base());
    let broken = broken_rules(output);
    assert!(broken.is_subset(&copied), "breaks {broken:?}, the source {copied:?}");
    let archive = Archive::open(output).expect("an archive without errors opens");
    let mut records = archive.records().expect("records");
    let mut count = 0;
    while records.next().expect("a whole record").is_some() {
        count += 1;
    }
    assert_eq!(count, summary.records);
}

/// Returns the rules of which `check` finds errors.
fn broken_rules(base: &Path) -> BTreeSet<&'static str> {
    let report = check::check(base).expect("an archive");
    let defects = report.findings().iter().map(|finding| &finding.defect);
    let errors = defects.filter(|defect| defect.severity() == Severity::Error);
    errors.map(Defect::rule).collect()
}

//! `mmv-archive dump` prints of every archive of the corpus, or of those in its place, what
//! pmdumplog prints.
//!
//! Only these differences remain:
//!
//! | where | pmdumplog 6.0.3 | ours | why |
//! |---|---|---|---|
//! | order of metrics, domains, names | of its hash tables | sorted, as in the file | [`dump_text`] |
//! | an error code of PCP in place of values | PCP's sentence | the code's name | a text of our own |
//! | a parameter of an event whose metric has no descriptor | an error | the value | the array states the type |
//! | `extra`: units beyond space, time and count | none | the unit | newer than 6.0.3 |
//! | `babylon.pmview_v2`: 64-bit values | bytes swapped | the value | blocks with a stale type |
//! | an index in hexadecimal (`-v`) | its label, then one line of garbage | its entries | they are not framed records |
//! | a compressed file in hexadecimal | of what is compressed, as if it were records | of what it expands to | so it can be read |
//! | labels of instances (`-e`), in four archives | sets that repeat others left out | all sets of a record | ours is what the file has |

use std::path::Path;

use test_archives::{Builder, Cell};

use crate::harness::corpus::{self, CorpusArchive};
use crate::harness::dump_text;
use crate::harness::mmv_archive::{self, run_on};
use crate::harness::oracle::Oracle;
use crate::harness::scratch::Scratch;

const REPEATED_LABELS: [&str; 4] = ["sample-proc_v2", "sample-proc_v3", "amdgpu-0", "x3-multivol"];

#[test]
fn dump_prints_all_parts_as_pmdumplog() {
    assert_same(&["-a"], &["-a"], |_| true);
}

#[test]
fn dump_prints_dates_and_seconds_as_pmdumplog() {
    assert_same(&["-xxx", "-t", "-i", "-L"], &["-xxx", "-t", "-i", "-L"], |_| true);
}

#[test]
fn dump_prints_labels_and_help_as_pmdumplog() {
    assert_same(&["-e"], &["-e"], |name| !REPEATED_LABELS.contains(&name));
    assert_same(&["-h"], &["-H"], |_| true);
}

#[test]
fn dump_prints_domains_and_backward_records_as_pmdumplog() {
    assert_same(&["-I"], &["-I"], |_| true);
    assert_same(&["-xxx", "-r"], &["-xxx", "--reverse"], |_| true);
}

#[test]
fn dump_prints_what_pmdumplog_does_of_damaged_archives() {
    let Some(oracle) = Oracle::find() else { return };
    let Some(bad) = test_corpus::directory("badarchives") else { return };
    let mut files = std::fs::read_dir(bad).unwrap();
    let mut records = 0;
    while let Some(file) = files.next().transpose().unwrap() {
        let path = file.path();
        // Unknown features are refused on purpose.
        if path.extension().is_none_or(|e| e != "meta") || path.ends_with("v3-feature-bit.meta") {
            continue;
        }
        let base = path.with_extension("");
        let count = |stdout: &[u8]| {
            let text = String::from_utf8_lossy(stdout).into_owned();
            text.lines()
                .filter(|line| line.starts_with(|c: char| c.is_ascii_digit()))
                .filter(|line| line.ends_with(" metrics") || line.ends_with(" metric"))
                .count()
        };
        let expected = count(&oracle.output("pmdumplog", &[base.to_str().unwrap()]).stdout);
        let ours = run_on(&base, &["dump"]);
        let found = count(&ours.stdout);
        assert!(found >= expected, "{}: {found} of {expected}", base.display());
        records += expected;
    }
    assert!(records > 500, "{records}");
}

#[test]
fn dump_prints_files_in_hexadecimal_as_pmdumplog() {
    let Some(oracle) = Oracle::find() else { return };
    let mut compared = 0;
    for archive in corpus::archives() {
        for extension in ["meta", "0"] {
            let base = archive.base.to_str().unwrap();
            let file = format!("{base}.{extension}");
            if !Path::new(&file).exists() {
                continue;
            }
            let expected = oracle.run("pmdumplog", &["-v", &file]);
            let output = mmv_archive::run(&["dump", "-v", &file]);
            assert!(output.status.success(), "{file}: {output:?}");
            assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{file}");
            compared += 1;
        }
    }
    assert!(compared > 0, "every archive has metadata");
}

fn assert_same(theirs: &[&str], ours: &[&str], is_meant: impl Fn(&str) -> bool) {
    let Some(oracle) = Oracle::find() else { return };
    let archives = corpus::archives();
    for archive in archives.iter().filter(|archive| is_meant(&archive.name)) {
        let base = archive.base.to_str().unwrap();
        let expected = oracle.run("pmdumplog", &[theirs, &[base]].concat());
        let output = run_on(&archive.base, &[&["dump", "--raw-text"], ours].concat());
        assert!(output.status.success(), "{}: {output:?}", archive.name);
        let expected = dump_text::lines(expected.as_bytes());
        let found = dump_text::lines(&output.stdout);
        for (number, (expected, found)) in expected.iter().zip(&found).enumerate() {
            assert!(
                expected == found || is_known(archive, expected, found),
                "{} {ours:?}, line {number}:\npmdumplog:   {expected}\nmmv-archive: {found}",
                archive.name
            );
        }
        assert_eq!(found.len(), expected.len(), "{} {ours:?}: lines", archive.name);
    }
}

/// Returns whether two different lines differ for one of the reasons above.
fn is_known(archive: &CorpusArchive, theirs: &str, ours: &str) -> bool {
    let same_until = |at_theirs: &str, at_ours: &str| {
        let (theirs, ours) = (theirs.split_once(at_theirs), ours.split_once(at_ours));
        theirs.zip(ours).is_some_and(|((theirs, _), (ours, _))| theirs == ours)
    };
    same_until("): ", "): PM_ERR_") && !theirs.contains("): value ")
        || same_until(": pmLookupDesc: ", ": value ")
        || archive.name == "extra" && same_until("  Units: none", "  Units: ")
        || archive.name == "babylon.pmview_v2" && same_until(" value ", " value ")
}

#[test]
fn system_errors_in_place_of_values_have_the_texts_of_pmdumplog() {
    let Some(oracle) = Oracle::find() else { return };
    let scratch = Scratch::new();
    let codes = [-1, -2, -11, -13, -95, -110, -111];
    let names: Vec<_> = (1..=codes.len()).map(|item| format!("failing.m{item}")).collect();
    let builder = Builder::in_directory(scratch.path(), "errors");
    let builder =
        names.iter().fold(builder, |builder, name| builder.metric(name, "u32 instant count"));
    let base = builder.row(0, names.iter().zip(codes.map(Cell::Error))).finish();
    let expected = oracle.run("pmdumplog", &["-m", base.base().to_str().unwrap()]);
    let output = run_on(&base, &["dump", "-m"]);
    let failures = |text: &str| {
        text.lines().filter(|line| line.contains("(failing.m")).map(str::to_owned).collect()
    };
    let found: Vec<String> = failures(&String::from_utf8(output.stdout).unwrap());
    let expected: Vec<String> = failures(&expected);
    assert_eq!(found, expected);
    assert_eq!(found.len(), codes.len());
}

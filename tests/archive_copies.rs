//! Every archive of the corpus, copied by our writer in both versions: pmlogcheck
//! finds nothing in the copy that it does not find in the original, and pmdumplog
//! prints the same records.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;

use pcp_archive::extract::Extract;
use pcp_archive::scan::Selection;
use pcp_archive::{Archive, ArchiveWriter, Version, WriterOptions};

use crate::harness::corpus::{self, CorpusArchive};
use crate::harness::dump_text;
use crate::harness::oracle::Oracle;
use crate::harness::scratch::Scratch;

/// Archive whose value blocks have stale types, unlike a copy's: pmdumplog prints the copy's
/// 64-bit values rightly, and the original's with their bytes swapped.
const STALE_BLOCK_TYPES: &str = "babylon.pmview_v2";

#[test]
fn pmlogcheck_finds_nothing_new_in_copies_of_either_version() {
    let Some(oracle) = Oracle::find() else { return };
    for archive in corpus::archives() {
        let known = findings(&oracle, &archive.base);
        for version in [Version::V3, Version::V2] {
            let scratch = Scratch::new();
            let base = copied(&archive, &scratch, version);
            let found = findings(&oracle, &base);
            let new: Vec<_> = found.difference(&known).collect();
            assert!(new.is_empty(), "{} as {version:?}: {new:?}", archive.name);
        }
    }
}

#[test]
fn pmdumplog_prints_the_same_records_of_copies() {
    let Some(oracle) = Oracle::find() else { return };
    for archive in corpus::archives() {
        if archive.name == STALE_BLOCK_TYPES {
            continue;
        }
        let scratch = Scratch::new();
        let version = Archive::open(&archive.base).unwrap().version();
        let base = copied(&archive, &scratch, version);
        let printed = |base: &Path| {
            let printed = oracle.run("pmdumplog", &[OsStr::new("-m"), base.as_os_str()]);
            dump_text::lines(printed.as_bytes())
        };
        let (original, copy) = (printed(&archive.base), printed(&base));
        for (number, (original, copy)) in original.iter().zip(&copy).enumerate() {
            assert_eq!(copy, original, "{} line {number}", archive.name);
        }
        assert_eq!(copy.len(), original.len(), "{}", archive.name);
    }
}

fn copied(archive: &CorpusArchive, scratch: &Scratch, version: Version) -> std::path::PathBuf {
    let base = scratch.path().join("copy");
    let original = Archive::open(&archive.base).unwrap();
    let options = WriterOptions { version, ..WriterOptions::default() };
    let mut writer = ArchiveWriter::create_with(&base, original.label().into(), options).unwrap();
    let mut everything = Selection::new(&original);
    everything.select("");
    let extract = Extract::new(everything).keep_volumes();
    extract.write(&mut writer, |_| {}).unwrap_or_else(|error| panic!("{}: {error}", archive.name));
    writer.finish().unwrap();
    base
}

fn findings(oracle: &Oracle, base: &Path) -> BTreeSet<String> {
    let output = oracle.output("pmlogcheck", &[OsStr::new("-w"), base.as_os_str()]);
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    assert!(output.status.success(), "pmlogcheck {}: {text}", base.display());
    text.lines()
        .map(|line| {
            let (file, finding) = line.split_once(": ").unwrap_or(("", line));
            let kind = file.rsplit_once('.').map_or("", |(_, extension)| extension);
            format!("{kind}: {finding}")
        })
        .collect()
}

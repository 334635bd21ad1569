//! Malformed MMV files, through the real agent: each is treated by its verdict,
//! with a message that names the file and the numbers, and the good file next
//! to them is harvested all the time.

use std::path::Path;
use std::time::Instant;

use crate::compliance;
use crate::harness::agent::Agent;
use crate::harness::archive_facts;
use crate::harness::corpus::Corpus;
use crate::harness::facts::Facts;
use crate::harness::mmv_file::{image, patched};
use crate::harness::oracle::Oracle;
use crate::harness::scratch::Scratch;
use crate::harness::wait;

/// The good file among the bad ones, and its first metric.
const GOOD: &str = "a_good_file";
const GOOD_METRIC: &str = "mmv.a_good_file.requests";

#[derive(Debug, Clone, Copy, PartialEq)]
enum Verdict {
    /// Refused, with a message.
    Reject,
    /// Nothing exported yet; looked at again later.
    NotReady,
    /// Refused, or one entry skipped; with a message in either case.
    SkipEntry,
    /// Whatever does no harm.
    Any,
}

#[test]
fn bad_files_of_the_corpus_harm_no_other() {
    let Some(corpus) = Corpus::find() else { return };
    let files = corpus.bad().into_iter().map(|(path, what, verdict)| {
        let bytes = std::fs::read(&path).expect("read a bad file");
        let name = path.file_stem().expect("a name").to_str().expect("ASCII").to_owned();
        let verdict = match verdict.as_str() {
            "reject" => Verdict::Reject,
            "not-ready" => Verdict::NotReady,
            "skip-entry" => Verdict::SkipEntry,
            "any" => Verdict::Any,
            other => panic!("verdict {other:?} of {name}"),
        };
        (name, bytes, what, verdict)
    });
    judge(&files.collect::<Vec<_>>());
}

#[test]
fn files_broken_in_one_place_get_a_verdict_and_harm_no_other() {
    let good = image(0, 7, &[("first", 1), ("second", 2)]);
    let at = |offset: usize, bytes: &[u8]| patched(&good, offset, bytes);
    let files = [
        ("no_bytes", Vec::new(), Verdict::Reject),
        ("header_cut", good[..39].to_vec(), Verdict::Reject),
        ("toc_cut", good[..60].to_vec(), Verdict::Reject),
        ("values_cut", good[..good.len() - 8 * 32 + 33].to_vec(), Verdict::Reject),
        ("other_magic", at(0, b"MMX"), Verdict::Reject),
        ("other_version", at(4, &4_u32.to_ne_bytes()), Verdict::Reject),
        ("other_byte_order", at(4, &1_u32.swap_bytes().to_ne_bytes()), Verdict::Reject),
        ("no_generation", at(8, &[0; 16]), Verdict::NotReady),
        ("being_written", at(16, &[0; 8]), Verdict::NotReady),
        ("toc_of_two_billion", at(24, &i32::MAX.to_ne_bytes()), Verdict::Reject),
        ("metrics_minus_one", at(44, &(-1_i32).to_ne_bytes()), Verdict::Reject),
        ("metrics_at_the_end_of_memory", at(48, &u64::MAX.to_ne_bytes()), Verdict::Reject),
        ("item_1024", at(72 + 64, &1024_u32.to_ne_bytes()), Verdict::SkipEntry),
        ("type_of_event", at(72 + 68, &8_u32.to_ne_bytes()), Verdict::SkipEntry),
        ("name_of_a_digit", at(72, b"1"), Verdict::SkipEntry),
        ("same_item_twice", at(72 + 104 + 64, &1_u32.to_ne_bytes()), Verdict::SkipEntry),
        ("value_of_nothing", at(72 + 8 * 104 + 16, &3_u64.to_ne_bytes()), Verdict::Any),
    ];
    let named = files
        .map(|(name, bytes, verdict)| (name.to_owned(), bytes, name.replace('_', " "), verdict));
    judge(&named);
}

#[test]
fn entries_that_are_no_ordinary_files_are_harmless() {
    let scratch = Scratch::new();
    scratch.install_bytes(&image(0, 7, &[("requests", 5)]), GOOD);
    let directory = scratch.mmv_dir();
    std::fs::create_dir(directory.join("directory")).expect("a directory");
    nix::unistd::mkfifo(&directory.join("fifo"), nix::sys::stat::Mode::S_IRWXU).expect("a FIFO");
    std::os::unix::fs::symlink("nowhere", directory.join("link")).expect("a link");
    let sparse = scratch.install_bytes(&image(0, 7, &[("hidden", 5)]), "sparse");
    let file = std::fs::OpenOptions::new().write(true).open(sparse).expect("open it");
    // Some file systems cannot hold such a file; then the others must do.
    let _ = file.set_len(1 << 40);
    let facts = harvested(&scratch);
    assert_good_file_in_all_records(&facts);
}

fn judge(files: &[(String, Vec<u8>, String, Verdict)]) {
    let scratch = Scratch::new();
    scratch.install_bytes(&image(2000, 7, &[("requests", 5)]), GOOD);
    for (name, bytes, ..) in files {
        scratch.install_bytes(bytes, name);
    }
    let mut agent = Agent::start(&scratch);
    // What may only be unfinished is complained about when it lasts.
    let silent = |log: &str| {
        let must_speak = files.iter().filter(|file| file.3 != Verdict::Any);
        let silent = must_speak.filter(|file| !log.lines().any(|line| explains(line, &file.0)));
        silent.map(|file| format!("{} ({}): no message", file.0, file.2)).collect::<Vec<_>>()
    };
    let deadline = Instant::now() + wait::PATIENCE;
    wait::until_true("messages", || silent(&agent.log()).is_empty() || Instant::now() > deadline);
    let status = agent.terminate();
    let log = agent.log();
    assert!(status.success() && !log.contains("panicked"), "{status}\n{log}");
    let archive = agent.archive();
    let facts = archive_facts::of_mmv_archive(&archive);
    assert_good_file_in_all_records(&facts);
    let mut wrong = silent(&log);
    wrong.extend(files.iter().filter_map(|file| exported_against_verdict(file, &facts)));
    assert!(wrong.is_empty(), "{}\n\nthe agent's log:\n{log}", wrong.join("\n"));
    if let Some(oracle) = Oracle::find() {
        compliance::check(&oracle, &archive);
    }
}

/// Returns what is logged of a file that was to be refused or waited for.
fn exported_against_verdict(
    (name, _, what, verdict): &(String, Vec<u8>, String, Verdict),
    facts: &Facts,
) -> Option<String> {
    let prefix = format!("mmv.{name}.");
    let names = facts.metrics.values().flat_map(|metric| &metric.names);
    let exported: Vec<_> = names.filter(|name| name.starts_with(&prefix)).collect();
    let forbidden = matches!(verdict, Verdict::Reject | Verdict::NotReady);
    (forbidden && !exported.is_empty())
        .then(|| format!("{name} ({what}), verdict {verdict:?}: logged are {exported:?}"))
}

/// Returns whether a line names the file as a word, and after it a number or a wrong name.
fn explains(line: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let mut places = line.match_indices(name).filter(|(at, _)| {
        !line[..*at].ends_with(is_part) && !line[at + name.len()..].starts_with(is_part)
    });
    let Some((at, _)) = places.next() else { return false };
    let what = &line[at + name.len()..];
    // A section that is not there has no number.
    what.contains(|c: char| c.is_ascii_digit()) || what.contains("no section ")
}

fn harvested(scratch: &Scratch) -> Facts {
    let archive = Agent::harvest(scratch);
    if let Some(oracle) = Oracle::find() {
        compliance::check(&oracle, Path::new(&archive));
    }
    archive_facts::of_mmv_archive(&archive)
}

#[track_caller]
fn assert_good_file_in_all_records(facts: &Facts) {
    let named = facts.metrics.iter().find(|(_, metric)| metric.names.contains(GOOD_METRIC));
    let (pmid, _) = named.expect("the good file's metric is logged");
    let samples = facts.records.iter().filter(|record| record.has_samples());
    let values: Vec<_> = samples.map(|record| record.value(pmid, None)).collect();
    assert!(values.len() >= 4, "four samples were asked for: {values:?}");
    assert!(values.iter().all(|value| *value == Some("0.5e1")), "in every sample: {values:?}");
}

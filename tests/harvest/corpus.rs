//! The corpus: files by C, Perl, Python, Rust and Go producers, each with what
//! pmdammv of 7.2.1 made of it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{assert_same, logged};
use crate::compliance;
use crate::harness::agent::Agent;
use crate::harness::corpus::Corpus;
use crate::harness::mmv_file::patched;
use crate::harness::oracle::Oracle;
use crate::harness::pminfo::{self, Metric};
use crate::harness::scratch::Scratch;

/// Offset of the process in the header of an MMV file.
const PID: usize = 32;

#[test]
fn every_good_file_of_the_corpus_is_logged_as_pmdammv_serves_it() {
    let (Some(corpus), Some(oracle)) = (Corpus::find(), Oracle::find()) else { return };
    for (name, path, description) in corpus.good() {
        let expected = served(&description);
        let scratch = Scratch::new();
        if expected.is_empty() {
            // If another process has its number by now, the file would be valid.
            let free_pid = i32::MAX.to_ne_bytes();
            let bytes = std::fs::read(&path).expect("read it");
            scratch.install_bytes(&patched(&bytes, PID, &free_pid), &name);
            assert_refused(&scratch, &name);
            continue;
        }
        scratch.install(&path, &name);
        let archive = Agent::harvest(&scratch);
        let mut found = logged(&oracle, &archive);
        found.retain(|name, _| !name.starts_with("mmv.agent."));
        let (found, expected) = without_the_clock(&description, found, expected);
        assert_same(&name, &found, &expected);
        compliance::check(&oracle, &archive);
    }
}

#[test]
fn good_files_of_the_corpus_are_logged_together() {
    let (Some(corpus), Some(oracle)) = (Corpus::find(), Oracle::find()) else { return };
    let scratch = Scratch::new();
    let mut expected = BTreeSet::new();
    for (name, path, description) in corpus.good() {
        scratch.install(&path, &name);
        expected.extend(served(&description).into_keys());
    }
    let archive = Agent::harvest(&scratch);
    compliance::check(&oracle, &archive);
    let found: BTreeSet<_> = logged(&oracle, &archive).into_keys().collect();
    let missing: Vec<_> = expected.difference(&found).collect();
    assert!(missing.is_empty(), "not logged: {missing:?}");
}

/// Checks that a file is not logged that pmdammv does not serve, since its process is gone.
#[track_caller]
fn assert_refused(scratch: &Scratch, name: &str) {
    let mut agent = Agent::start_for(scratch, 4);
    agent.ended();
    assert!(agent.archives().is_empty(), "{name} is logged:\n{}", agent.log());
    assert!(agent.log().contains("process"), "{name}: no reason in\n{}", agent.log());
}

/// Returns the metrics that pmdammv served for a file, by its description.
fn served(description: &Value) -> BTreeMap<String, Metric> {
    let blocks = description["harvester"]["7.2.1"].as_array().expect("a list of blocks");
    let printed: Vec<_> = blocks.iter().map(|block| block.as_str().expect("a block")).collect();
    let mut served = pminfo::parse(&from_latin_1(&printed.join("\n\n")));
    // pmdammv serves instances of negative numbers, which no archive can hold.
    for metric in served.values_mut() {
        metric.values.retain(|instance, _| !instance.starts_with('-'));
        metric.instance_labels.retain(|instance, _| !instance.starts_with('-'));
    }
    served
}

/// Decodes the corpus's text, which keeps bytes as Latin-1, to UTF-8.
fn from_latin_1(text: &str) -> String {
    let bytes = text.chars().map(|c| u8::try_from(u32::from(c)).expect("a byte")).collect();
    String::from_utf8(bytes).expect("UTF-8")
}

/// Takes out the values that depend on the time of asking: elapsed times of a
/// section that is still running.
fn without_the_clock(
    description: &Value,
    mut found: BTreeMap<String, Metric>,
    mut expected: BTreeMap<String, Metric>,
) -> (BTreeMap<String, Metric>, BTreeMap<String, Metric>) {
    for metric in description["metrics"].as_array().expect("a list of metrics") {
        let running = metric["values"].as_array().into_iter().flatten().any(|value| {
            value["extra"].as_i64().is_some_and(|extra| extra < 0) && metric["type"] == "elapsed"
        });
        if running {
            let suffix = format!(".{}", metric["name"].as_str().expect("a name"));
            for side in [&mut found, &mut expected] {
                let metrics = side.iter_mut().filter(|(name, _)| name.ends_with(&suffix));
                metrics.for_each(|(_, metric)| metric.values.clear());
            }
        }
    }
    (found, expected)
}

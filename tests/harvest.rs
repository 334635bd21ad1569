//! MMV files of other producers, logged by our agent: PCP's `pminfo` must print
//! the same for the archive as for pmdammv serving the same file.

mod committed_files;
mod corpus;
mod overflow_files;
mod running_programs;

use std::collections::BTreeMap;
use std::path::Path;

use crate::harness::archive_facts;
use crate::harness::oracle::Oracle;
use crate::harness::pminfo::{self, Metric};

/// Labels that our agent adds, depending on where these tests run; pmdammv has none of them.
const LABELS_OF_CONTROL_GROUPS: [&str; 3] = ["unit", "container", "pod"];

/// Returns the output of pminfo about the metrics in an archive.
///
/// The pminfo of 6.0.3 shows labels of clusters for pmcd, but not for an archive,
/// not even one of pmlogger: those come from pmdumplog.
#[track_caller]
fn logged(oracle: &Oracle, archive: &Path) -> BTreeMap<String, Metric> {
    let mut metrics = pminfo::ask(oracle, ["-a", archive.to_str().expect("a UTF-8 path")]);
    let facts = archive_facts::of_pmdumplog(oracle, archive);
    for (_, owner, json) in &facts.labels {
        let Some(cluster) = owner.strip_prefix("Cluster ") else { continue };
        let cluster = format!("{cluster}.");
        for metric in metrics.values_mut().filter(|metric| metric.pmid.starts_with(&cluster)) {
            for labels in metric.instance_labels.values_mut().chain([&mut metric.labels]) {
                for (name, value) in pminfo::labels(json) {
                    if !LABELS_OF_CONTROL_GROUPS.contains(&name.as_str()) {
                        labels.entry(name).or_insert(value);
                    }
                }
            }
        }
    }
    metrics
}

/// Compares name by name, so that a failure names the metric.
#[track_caller]
fn assert_same(what: &str, ours: &BTreeMap<String, Metric>, theirs: &BTreeMap<String, Metric>) {
    for (name, metric) in theirs {
        let found = ours.get(name).unwrap_or_else(|| panic!("{what}: {name} is not logged"));
        assert_eq!(found, metric, "{what}: {name}: ours left, pmdammv's right");
    }
    let extra: Vec<_> = ours.keys().filter(|name| !theirs.contains_key(*name)).collect();
    assert!(extra.is_empty(), "{what}: logged, but not served by pmdammv: {extra:?}");
}

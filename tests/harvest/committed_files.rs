//! The committed files: no program of PCP is needed, since what pmdammv made of
//! each is committed with it. See `data/README.md`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::harness::agent::Agent;
use crate::harness::archive_facts;
use crate::harness::facts::{Facts, number};
use crate::harness::pminfo::{self, Metric};
use crate::harness::scratch::Scratch;

#[test]
fn the_committed_files_are_logged_as_pmdammv_served_them() {
    let scratch = Scratch::new();
    let mut served = BTreeMap::new();
    for name in ["c_v1", "c_v2", "c_v3", "paint", "house"] {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/mmv").join(name);
        scratch.install(&file.with_extension("mmv"), name);
        let printed = fs::read_to_string(file.with_extension("pminfo")).expect("its description");
        served.extend(pminfo::parse(&printed));
    }
    assert_eq!(served.len(), 38, "metrics that pmdammv served");
    let facts = archive_facts::of_mmv_archive(&Agent::harvest(&scratch));
    for (name, metric) in served {
        assert_eq!(logged(&facts, &name), comparable(metric), "{name}: ours left");
    }
}

/// Returns the logged description and values of a metric, in pminfo's terms; without its labels,
/// which only pminfo merges.
#[track_caller]
fn logged(facts: &Facts, name: &str) -> Metric {
    let named = facts.metrics.iter().find(|(_, metric)| metric.names.contains(name));
    let (pmid, metric) = named.unwrap_or_else(|| panic!("{name} is not logged"));
    let text = |one_line: bool| {
        let owner = format!("PMID: {pmid}");
        let mut texts = facts.texts.iter();
        texts.find(|text| text.0 == owner && text.1 == one_line).map(|text| text.2.clone())
    };
    let instances = metric.indom.as_ref().map(|indom| &facts.indoms[indom].last().expect("one").1);
    let label = |id: Option<i32>| match (id, instances) {
        (Some(id), Some(instances)) => format!("{id} or \"{}\"", instances[&id]),
        _ => String::new(),
    };
    let last = facts.records.iter().rfind(|record| record.has_samples()).expect("a sample");
    Metric {
        pmid: pmid.clone(),
        data_type: metric.data_type.clone(),
        indom: metric.indom.clone(),
        semantics: metric.semantics.clone(),
        units: metric.units.clone(),
        one_line: text(true),
        // PCP takes the one line where the full text is missing or empty.
        help: text(false).filter(|text| !text.is_empty()).or_else(|| text(true)),
        values: last.values(pmid).map(|(id, value)| (label(id), value.to_owned())).collect(),
        ..Metric::default()
    }
}

fn comparable(mut metric: Metric) -> Metric {
    metric.labels.clear();
    metric.instance_labels.clear();
    if metric.data_type != "string" {
        metric.values.values_mut().for_each(|value| *value = number(value));
    }
    metric
}

//! Real archives against what PCP's own library reads from them.
//!
//! The corpus is not part of this repository; the tests are left out without it. Its
//! README describes the golden files.

mod check;
mod copied;
mod envelope;
mod golden;
#[cfg(feature = "compression")]
mod packed;
mod replay;

use golden::{Case, cases};
use pcp_archive::raw::{LabelSet, LabelTarget, TextKind, TextTarget};
use pcp_archive::{Archive, ByteText, InDom, Pmid, Timestamp, Version};
use serde_json::{Map, Value, json};

#[test]
fn labels_of_the_archives_are_those_that_pcp_reads() {
    for case in cases() {
        let (archive, label) = (&case.archive, case.archive.label());
        for line in case.lines("meta", "label") {
            let version = if label.version == Version::V2 { 2 } else { 3 };
            assert_eq!(line["version"], version, "{}", case.name);
            assert_eq!(line["pid"], label.pid, "{}", case.name);
            assert_eq!(line["host"], label.hostname.as_str(), "{}", case.name);
            assert_eq!(line["tz"], label.timezone.as_str(), "{}", case.name);
            assert_eq!(line["zoneinfo"].as_str().unwrap_or(""), label.zoneinfo, "{}", case.name);
            assert_eq!(golden::timestamp(&line["start"]), label.start, "{}", case.name);
            assert_eq!(golden::timestamp(&line["end"]), archive.end(), "{}", case.name);
        }
    }
}

#[test]
fn metrics_have_the_names_and_descriptors_that_pcp_reads() {
    for case in cases() {
        let metadata = case.archive.metadata();
        let mut names = 0;
        for line in case.lines("meta", "metric") {
            let name = line["name"].as_str().unwrap();
            let metric = metadata.metric_by_name(name);
            let desc = metric.unwrap_or_else(|| panic!("{}: no {name}", case.name)).desc;
            assert_eq!(line["pmid"], desc.pmid.to_string(), "{} {name}", case.name);
            assert_eq!(line["type_num"], desc.value_type.code(), "{} {name}", case.name);
            let indom = desc.indom.map_or(Value::Null, |indom| json!(indom.to_string()));
            assert_eq!(line["indom"], indom, "{} {name}", case.name);
            if line["sem_num"] != 0 {
                assert_eq!(line["sem_num"], desc.semantics.code(), "{} {name}", case.name);
            }
            assert_eq!(line["units"], desc.units.to_string(), "{} {name}", case.name);
            names += 1;
        }
        assert_eq!(metadata.subtree("").count(), names, "{}", case.name);
    }
}

#[test]
fn instance_domains_over_time_are_those_that_pcp_reads() {
    for case in cases() {
        let metadata = case.archive.metadata();
        let list = |instances: &[pcp_archive::Instance]| {
            instances
                .iter()
                .map(|one| json!([one.id.get(), golden::latin1(one.name.as_bytes())]))
                .collect::<Value>()
        };
        for line in case.lines("meta", "indom_all") {
            let found = metadata.indom_history(golden::indom(&line["indom"]));
            let found = found.map(|history| list(&history.union()));
            let expected = line.get("insts").cloned();
            assert_eq!(found, expected, "{} {line}", case.name);
        }
        for line in case.lines("meta", "indom_at") {
            let indom = golden::indom(&line["indom"]);
            let found = metadata.indom_at(indom, golden::timestamp(&line["t"]));
            let found = found.map(|found| list(&found));
            assert_eq!(found.as_ref(), line.get("insts"), "{} {line}", case.name);
        }
    }
}

#[test]
fn labels_over_time_are_those_that_pcp_reads() {
    for case in cases() {
        for line in case.lines("meta", "labels") {
            let sets =
                case.archive.metadata().labels_at(target(&line), golden::timestamp(&line["t"]));
            let instance = line["inst"].as_i64();
            let set = sets
                .unwrap_or_default()
                .iter()
                .find(|set| set.instance.map(|id| i64::from(id.get())) == instance);
            if set.is_none() && line["level"] == "context" {
                // libpcp makes this one up from the archive's label.
                let expected = json!({"hostname": case.archive.label().hostname.as_str()});
                assert_eq!(line["labels"], expected, "{} {line}", case.name);
                continue;
            }
            let (labels, flags) = set.map(pairs).unwrap_or_default();
            assert_eq!(line["labels"], labels, "{} {line}", case.name);
            assert_eq!(line["flags"], flags, "{} {line}", case.name);
        }
    }
}

fn pairs(set: &LabelSet) -> (Value, Value) {
    let (mut labels, mut flags) = (Map::new(), Map::new());
    for (name, value, flag) in set.pairs() {
        labels.insert(name.to_owned(), serde_json::from_str(value).unwrap());
        flags.insert(name.to_owned(), json!(flag));
    }
    (labels.into(), flags.into())
}

fn target(line: &Value) -> LabelTarget {
    let id = line["id"].as_str().unwrap();
    match line["level"].as_str().unwrap() {
        "context" => LabelTarget::Context,
        "domain" => LabelTarget::Domain(id.parse().unwrap()),
        "indom" => LabelTarget::InDom(id.parse().unwrap()),
        "cluster" => {
            let (domain, cluster) = id.split_once('.').unwrap();
            let (domain, cluster) = (domain.parse().unwrap(), cluster.parse().unwrap());
            LabelTarget::Cluster { domain, cluster }
        }
        "item" => LabelTarget::Item(id.parse().unwrap()),
        "instances" => LabelTarget::Instances(id.parse().unwrap()),
        level => panic!("{level}"),
    }
}

#[test]
fn help_texts_are_those_that_pcp_reads() {
    for case in cases() {
        for line in case.lines("meta", "text") {
            let target = match line.get("pmid") {
                Some(pmid) => TextTarget::Metric(pmid.as_str().unwrap().parse::<Pmid>().unwrap()),
                None => {
                    TextTarget::InDom(line["indom"].as_str().unwrap().parse::<InDom>().unwrap())
                }
            };
            if matches!(target, TextTarget::Metric(pmid) if pmid.domain() == 511) {
                continue;
            }
            for (kind, other, field) in [
                (TextKind::OneLine, TextKind::Full, "oneline"),
                (TextKind::Full, TextKind::OneLine, "help"),
            ] {
                let metadata = case.archive.metadata();
                // libpcp answers with the other text where one is missing.
                let own = metadata.text(target, kind).filter(|text| !text.is_empty());
                let text = own.or(metadata.text(target, other));
                let expected = line[field].as_str().map(golden::text);
                assert_eq!(
                    expected.as_deref(),
                    text.map(ByteText::as_str),
                    "{} {target:?} {kind:?}",
                    case.name
                );
            }
        }
    }
}

#[test]
fn records_are_those_that_pcp_reads() {
    for case in cases() {
        let mut golden = case.lines("records", "rec").into_iter().peekable();
        let mut totals = golden::Totals::default();
        let mut records = case.archive.records().unwrap();
        let mut n = 0;
        while let Some(record) = records.next().unwrap() {
            let result = record
                .to_owned(case.archive.metadata())
                .unwrap_or_else(|error| panic!("{} record {n}: {error}", case.name));
            let result = golden::as_libpcp(&case.name, result);
            assert_eq!(record.is_mark(), result.value_sets.is_empty());
            totals.add(&result);
            if let Some(line) = golden.next_if(|line| line["n"] == n) {
                golden::compare(&case.name, &result, &line);
            }
            n += 1;
        }
        assert!(golden.next().is_none(), "{}", case.name);
        totals.compare(&case);
    }
}

#[test]
fn records_read_backwards_are_those_that_pcp_reads_backwards() {
    for case in cases() {
        let mut records = case.archive.records_back_from(Timestamp::MAX).unwrap();
        for line in case.lines("records", "back") {
            let record = records.previous().unwrap().unwrap();
            assert_eq!(golden::timestamp(&line["t"]), record.timestamp(), "{}", case.name);
            assert_eq!(line["numpmid"].as_u64().unwrap_or(0), u64::from(record.len()));
        }
    }
}

#[test]
fn index_finds_the_same_records_as_a_full_read() {
    let samples = if std::env::var_os("MMV_LONG").is_some() { 40 } else { 10 };
    for case in cases() {
        let timestamps = all_timestamps(&case);
        let step = (timestamps.len() / samples).max(1);
        for target in timestamps.iter().step_by(step) {
            for nanos in [-1, 0, 1] {
                let target = Timestamp::from_nanos(target.as_nanos() + nanos);
                let first = timestamps.iter().position(|timestamp| *timestamp >= target);
                let mut records = case.archive.records_from(target).unwrap();
                let found = records.next().unwrap().map(|record| record.timestamp());
                assert_eq!(found, first.map(|at| timestamps[at]), "{} {target}", case.name);
                let last = timestamps.iter().rposition(|timestamp| *timestamp <= target);
                let mut records = case.archive.records_back_from(target).unwrap();
                let found = records.previous().unwrap().map(|record| record.timestamp());
                assert_eq!(found, last.map(|at| timestamps[at]), "{} {target}", case.name);
            }
        }
    }
}

fn all_timestamps(case: &Case) -> Vec<Timestamp> {
    let mut records = case.archive.records().unwrap();
    let mut timestamps = Vec::new();
    while let Some(record) = records.next().unwrap() {
        timestamps.push(record.timestamp());
    }
    timestamps
}

/// Reads a damaged archive as far as possible: returns the number of its records, and whether
/// their end is reported as an error or a torn tail. `None` if it does not open.
fn read_damaged(path: &std::path::Path) -> Option<(u64, bool)> {
    let archive = Archive::open(path).ok()?;
    let mut n = 0;
    let mut records = archive.records().unwrap();
    let failed = loop {
        match records.next() {
            Ok(Some(record)) => drop(record.to_owned(archive.metadata())),
            Ok(None) => break false,
            Err(_) => break true,
        }
        n += 1;
    };
    let mut records = archive.records_back_from(archive.end()).unwrap();
    while let Ok(Some(_)) = records.previous() {}
    Some((n, failed || archive.torn_tail().is_some()))
}

/// Where PCP reports damage, so do we; where it reads to the end, we read as
/// many records at least, or refuse the archive.
#[test]
fn damaged_archives_are_read_as_far_as_pcp_reads_them() {
    let Some(corpus) = golden::corpus() else { return };
    let directory = corpus.join("badarchives");
    let expected = std::fs::read_to_string(directory.join("EXPECTED.json")).unwrap();
    let expected: Vec<Value> = serde_json::from_str(&expected).unwrap();
    let mut opened = 0;
    for case in &expected {
        let name = case["name"].as_str().unwrap();
        let tools = case["tools"].as_object().unwrap();
        let records = tools.values().next_back().unwrap()["records"].as_u64();
        let verdict = case["verdict"].as_str().unwrap();
        let found = read_damaged(&directory.join(name));
        opened += u32::from(found.is_some());
        let fits = match (verdict, found) {
            (_, None) => true,
            ("rejected at open", Some(_)) => false,
            ("opens; error while reading records", Some((n, reported))) => {
                reported && Some(n) == records
            }
            // libpcp stops at a time that goes back, we do not.
            (_, Some((n, reported))) => !reported && Some(n) >= records,
        };
        assert!(fits, "{name}: {verdict}, {records:?} records; found {found:?}");
    }
    assert!(opened > 20);
}

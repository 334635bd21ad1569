//! Rules of each kind through both programs: labels, texts, rescaled units, deleted and renamed
//! instances. Where the two differ by intention, the case has what only one of them writes.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use pcp_archive::raw::{LabelClass, LabelSet, LabelTarget, TextKind, TextTarget};
use pcp_archive::{Archive, InDom, Pmid, Timestamp, Version};
use test_archives::{Builder, Cell, TestArchive};

use super::convert;
use crate::harness::oracle::Oracle;
use crate::harness::scratch::Scratch;

/// Writes an archive with texts and labels of every kind, and three records.
fn shop() -> TestArchive {
    let mut builder = Builder::new()
        .metric("shop.level", "i32 instant Kbyte")
        .metric("shop.sold", "u64 counter millisec")
        .metric("shop.load", "double instant millisec")
        .metric("shop.state", "string discrete none")
        .in_domain("shop.sold", 1)
        .help("shop.level", "how full")
        .help("shop.sold", "products")
        .context_labels(&[("team", "red"), ("site", "north")])
        .labels("shop.sold", &[("kind", "count"), ("unit", "box")])
        .numbered_instances("shop.sold", [(0, "anvils"), (1, "rockets"), (2, "magnets big")])
        .instance_labels("shop.sold", &[("anvils", &[("w", "5")]), ("rockets", &[("w", "9")])])
        .domain_labels("shop.sold", &[("shelf", 3)])
        .with_writer(|writer| {
            let sold = TextTarget::Metric(Pmid::new(70, 1, 2).unwrap());
            writer.declare_text(sold, TextKind::Full, "products that were sold").unwrap();
            let indom = TextTarget::InDom(InDom::new(70, 1).unwrap());
            writer.declare_text(indom, TextKind::OneLine, "a product").unwrap();
            let set = |class| LabelSet::from_pairs(class, [("dept", "\"toys\"", false)]).unwrap();
            let domain = LabelTarget::Domain(70);
            writer.declare_labels(domain, &[set(LabelClass::Domain)]).unwrap();
            let cluster = LabelTarget::Cluster { domain: 70, cluster: 1 };
            writer.declare_labels(cluster, &[set(LabelClass::Cluster)]).unwrap();
        });
    for second in 0..3_i32 {
        let sold = ["anvils", "rockets", "magnets big"];
        let sold = sold.map(|name| (format!("shop.sold[{name}]"), Cell::from(1500_u64)));
        let others = [
            ("shop.level".to_owned(), Cell::from(second)),
            ("shop.load".to_owned(), Cell::from(0.25)),
            ("shop.state".to_owned(), Cell::from("at /home/me/shop now")),
        ];
        builder = builder.row(second, sold.into_iter().chain(others));
    }
    builder.finish()
}

/// Something that an archive has, with its time if it is a value or an instance.
type Fact = (Option<Timestamp>, String);

/// Returns the host and zone of an archive, its metrics, texts, labels, instances and values.
fn facts(oracle: &Oracle, base: &Path) -> BTreeSet<Fact> {
    let mut facts = label_facts(oracle, base);
    let archive = Archive::open(base).unwrap();
    let label = archive.label();
    facts.insert((None, format!("{} {} {}", label.hostname, label.timezone, label.zoneinfo)));
    let metadata = archive.metadata();
    for metric in metadata.metrics() {
        facts.insert((None, format!("metric {} {:?}", metric.names[0], metric.desc)));
    }
    for (target, kind, text) in metadata.texts() {
        let target = match target {
            TextTarget::Metric(pmid) => format!("metric {pmid}"),
            TextTarget::InDom(indom) => format!("domain {indom}"),
        };
        facts.insert((None, format!("{kind:?} text of {target}: {text}")));
    }
    let mut records = archive.records().unwrap();
    while let Some(record) = records.next().unwrap() {
        let time = Some(record.timestamp());
        for (indom, _) in metadata.indoms() {
            for one in metadata.indom_at(indom, record.timestamp()).unwrap().iter() {
                facts.insert((time, format!("domain {indom}: {} {}", one.id, one.name)));
            }
        }
        for set in record.value_sets() {
            let desc = metadata.metric(set.pmid()).unwrap().desc;
            for value in set.values(desc.value_type) {
                let (instance, value) = value.unwrap();
                let instance = instance.map_or(String::new(), |id| format!("[{id}]"));
                facts.insert((time, format!("{}{instance} = {:?}", desc.pmid, value.to_owned())));
            }
        }
    }
    facts
}

/// Returns the labels that pmdumplog prints: all records. Of a set in which one label changes
/// pmlogrewrite makes several records with one time, of which readers use one.
fn label_facts(oracle: &Oracle, base: &Path) -> BTreeSet<Fact> {
    let mut facts = BTreeSet::new();
    let printed = oracle.run("pmdumplog", &["-e".as_ref(), base.as_os_str()]);
    for line in printed.lines() {
        let Some((target, rest)) = line.trim().split_once(" labels (") else { continue };
        let Some((_, json)) = rest.split_once("): ") else { continue };
        let labels: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(json).unwrap_or_else(|error| panic!("{line}: {error}"));
        for (name, value) in labels {
            facts.insert((None, format!("{target}: {name}={value}")));
        }
    }
    facts
}

/// Returns what only pmlogrewrite writes of an archive, after `-`, and what only convert writes,
/// after `+`; once for all times.
fn differences(oracle: &Oracle, archive: &Path, rules: &str) -> Vec<String> {
    let scratch = Scratch::new();
    let file = scratch.path().join("rules");
    fs::write(&file, rules).unwrap();
    let theirs = scratch.path().join("theirs");
    let arguments = ["-c".as_ref(), file.as_os_str(), archive.as_os_str(), theirs.as_os_str()];
    let output = oracle.output("pmlogrewrite", &arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{rules}: {errors}");
    let ours = scratch.path().join("ours");
    let output = convert(archive, &[&file], &ours, Version::V3);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{rules}: {errors}");
    let theirs = facts(oracle, &theirs);
    let ours = facts(oracle, &ours);
    let mut differences = BTreeSet::new();
    for (_, fact) in theirs.difference(&ours) {
        differences.insert(format!("- {fact}"));
    }
    for (_, fact) in ours.difference(&theirs) {
        differences.insert(format!("+ {fact}"));
    }
    differences.into_iter().collect()
}

/// Rules of which both programs make the same archive.
const AGREED: [&str; 51] = [
    "label context \"team\" { value -> \"blue\" }",
    "label context \"team\" { label -> \"crew\" }",
    "label context \"site\" { delete }",
    "label context { delete }",
    "label context { new \"rack\" \"12\" }",
    "label domain 70 { new \"rack\" \"12\" }",
    "label domain 70 \"dept\" { value -> \"games\" }",
    "label domain 70 { domain -> 71 }",
    "label cluster 70.1 \"dept\" { delete }",
    "label cluster 70.* { cluster -> 71.* }",
    "label cluster 70.1 { new \"rack\" \"12\" }",
    "label item shop.sold \"kind\" { value -> \"sum\" }",
    "label item 70.1.* \"kind\" \"count\" { value -> \"sum\" }",
    "label item 70.1.* \"kind\" \"other\" { value -> \"sum\" }",
    "label item 70.1.* \"unit\" { delete }",
    "label item 70.1.2 { item -> 70.1.1 }",
    "label item shop.sold { new \"rack\" \"12\" }",
    "label indom 70.1 \"shelf\" { label -> \"row\" }",
    "label indom 70.1 { delete }",
    "label indom 70.1 { new \"rack\" \"12\" }",
    "label instances 70.1 \"anvils\" \"w\" { value -> \"6\" }",
    "label instances 70.1 1 \"w\" { delete }",
    "label instances 70.1 1 \"w\" { instance -> 2 }",
    "label instances 70.1 * { new \"rack\" \"12\" }",
    "label instances 70.1 * \"w\" \"5\" { delete }",
    "label instances 70.1 { label -> \"weight\" }",
    "indom 70.1 { indom -> 71.1 }
     label instances 70.1 { instances -> 71.1 } label indom 70.1 { indom -> 71.1 }",
    "text metric shop.level { text -> \"the level\" }",
    "text metric shop.level { delete }",
    "text metric 70.1.* * { delete }",
    "text metric 70.1.2 help { text -> \"all\" }",
    "text metric 70.1.2 help \"products that were sold\" { delete }",
    "text metric 70.1.2 help \"nothing\" { delete }",
    "text metric shop.sold * { metric -> 70.1.3 }",
    "text indom 70.1 { text -> \"thing\" }",
    "text indom 70.* * { delete }",
    "indom 70.1 { indom -> 71.1 } text indom 70.1 { indom -> 71.1 }",
    "metric shop.level { units -> 1,0,0,BYTE,0,0 rescale type -> U64 }",
    "metric shop.level { units -> 1,0,0,MBYTE,0,0 rescale }",
    "metric shop.level { units -> 1,0,0,MBYTE,0,0 rescale type -> DOUBLE }",
    "metric shop.level { units -> 1,0,0,MBYTE,0,0 }",
    "metric shop.sold { units -> 0,1,0,0,SEC,0 rescale }",
    "metric shop.sold { units -> 0,1,0,0,USEC,0 rescale type -> DOUBLE }",
    "metric shop.load { units -> 0,1,0,0,HOUR,0 rescale }",
    "metric shop.load { units -> 1,0,0,BYTE,0,0 rescale }",
    "metric shop.level { indom -> 70.1 output inst 2 }",
    "indom 70.1 { iname \"magnets\" -> delete }",
    "indom 70.1 { inst 2 -> 7 iname \"magnets\" -> \"M 2\" }",
    "indom 70.1 { iname \"anvils\" -> \"hammers\" iname \"rockets\" -> \"fireworks\" }",
    "indom 70.1 { iname \"anvils\" -> \"rockets\" iname \"rockets\" -> \"anvils\" }",
    "global { hostname -> b.example time -> -1:00:00.25 tz -> \"EST5\" zoneinfo -> \":UTC\" }",
];

/// Rules of which the programs make different archives, and the differences.
const DIFFERENT: [(&str, &[&str]); 8] = [
    // The new label is that of one instance.
    (
        "label instances 70.1 \"rockets\" { new \"rack\" \"12\" }",
        &["- InDom 70.1[0]: rack=\"12\"", "- InDom 70.1[2]: rack=\"12\""],
    ),
    // Texts and labels end with their metric, instance or domain.
    ("metric shop.level { delete }", &["- OneLine text of metric 70.1.1: how full"]),
    ("indom 70.1 { inst 1 -> delete }", &["- InDom 70.1[1]: w=\"9\""]),
    (
        "metric shop.sold { indom -> null output sum }",
        &[
            "- InDom 70.1: shelf=3",
            "- InDom 70.1[0]: w=\"5\"",
            "- InDom 70.1[1]: w=\"9\"",
            "- OneLine text of domain 70.1: a product",
        ],
    ),
    // Labels of instances follow their numbers.
    ("indom 70.1 { inst 1 -> 7 }", &["+ InDom 70.1[7]: w=\"9\"", "- InDom 70.1[1]: w=\"9\""]),
    // Both rules see the numbers of the archive. pmlogrewrite leaves the names where they were, and
    // writes the values of both instances as those of one.
    (
        "indom 70.1 { inst 0 -> 1 inst 1 -> 0 }",
        &[
            "+ 70.1.2[1] = U64(1500)",
            "+ InDom 70.1[0]: w=\"9\"",
            "+ InDom 70.1[1]: w=\"5\"",
            "+ domain 70.1: 0 rockets",
            "+ domain 70.1: 1 anvils",
            "- InDom 70.1[0]: w=\"5\"",
            "- InDom 70.1[1]: w=\"9\"",
            "- domain 70.1: 0 anvils",
            "- domain 70.1: 1 rockets",
        ],
    ),
    // Labels of clusters and domains follow their metrics.
    ("metric shop.level { pmid -> 70.2.1 }", &["+ Cluster 70.2: dept=\"toys\""]),
    (
        "metric 70.1.* { pmid -> 71.2.* } indom 70.* { indom -> 71.* }",
        &["+ Cluster 71.2: dept=\"toys\"", "- Cluster 70.1: dept=\"toys\""],
    ),
];

#[test]
fn rules_of_each_kind_do_what_pmlogrewrite_does() {
    let Some(oracle) = Oracle::find() else { return };
    let shop = shop();
    for rules in AGREED {
        assert_eq!(differences(&oracle, &shop, rules), [""; 0], "{rules}");
    }
    for (rules, expected) in DIFFERENT {
        assert_eq!(differences(&oracle, &shop, rules), expected, "{rules}");
    }
}

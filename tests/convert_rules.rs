//! `mmv-archive convert --rules` and pmlogrewrite, with the same rules on the corpus.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use pcp_archive::{Archive, InstanceId, OwnedValue, Pmid, Timestamp, ValueType, Version};
use test_archives::Builder;

mod kinds;

use crate::harness::binaries::mmv_archive;
use crate::harness::corpus;
use crate::harness::oracle::Oracle;
use crate::harness::scratch::Scratch;

fn convert(archive: &Path, rules: &[&Path], output: &Path, version: Version) -> Output {
    let mut program = Command::new(mmv_archive());
    program.arg("convert").arg(archive).arg("-o").arg(output);
    program.args(["--archive-version", &version.number().to_string()]);
    for file in rules {
        program.arg("--rules").arg(file);
    }
    program.output().expect("run it")
}

/// Returns rules that change identifiers, types, times and instances of an archive: whatever both
/// programs do in the same way.
fn rules_for(archive: &Archive) -> String {
    let metadata = archive.metadata();
    let mut rules = "global { hostname -> other.example time -> +1:00:30.25 }\n".to_owned();
    let has_events = metadata.metrics().iter().any(|metric| metric.desc.value_type.is_event());
    let mut domains: BTreeMap<u32, usize> = BTreeMap::new();
    for metric in metadata.metrics() {
        *domains.entry(metric.desc.pmid.domain()).or_default() += 1;
    }
    let most = domains.iter().max_by_key(|(_, count)| **count).map(|(domain, _)| *domain);
    if let Some(domain) = most.filter(|_| !has_events && !domains.contains_key(&123)) {
        writeln!(
            rules,
            "metric {domain}.*.* {{ pmid -> 123.*.* type if 32 -> 64 type if U32 -> U64 \
             type if FLOAT -> DOUBLE }}"
        )
        .unwrap();
    }
    let constant = metadata.indoms().filter(|(_, history)| history.has_constant_numbers());
    for (indom, history) in constant.take(3) {
        let instances = history.union();
        let mut firsts = BTreeSet::new();
        let is_plain = instances.iter().all(|one| {
            let first = one.name.split(' ').next().unwrap_or_default().to_owned();
            !one.name.contains(['"', '\\']) && !first.is_empty() && firsts.insert(first)
        });
        let [first, rest @ ..] = instances.as_slice() else { continue };
        if !is_plain {
            continue;
        }
        write!(rules, "indom {indom} {{ iname \"{}\" -> \"renamed one\"", first.name).unwrap();
        if let Some(second) = rest.first() {
            write!(rules, " inst {} -> 2000000000", second.id).unwrap();
        }
        if let Some(third) = rest.get(1) {
            write!(rules, " iname \"{}\" -> delete", third.name).unwrap();
        }
        writeln!(rules, " indom -> {}.{} }}", indom.domain(), indom.serial() + 3000).unwrap();
    }
    rules
}

/// A value by its metric and instance.
type RecordValues = BTreeMap<(Pmid, Option<i32>), OwnedValue>;

/// Returns the records of an archive, with the values of metrics whose types are known.
fn records(archive: &Archive, types: &BTreeMap<Pmid, ValueType>) -> Vec<(Timestamp, RecordValues)> {
    let mut all = Vec::new();
    let mut records = archive.records().unwrap();
    while let Some(record) = records.next().unwrap() {
        let mut values = RecordValues::new();
        for set in record.value_sets() {
            let Some(value_type) = types.get(&set.pmid()) else { continue };
            for (instance, value) in set.values(*value_type).flatten() {
                values.insert((set.pmid(), instance.map(InstanceId::get)), value.to_owned());
            }
        }
        all.push((record.timestamp(), values));
    }
    all
}

/// Archives in which pmlogrewrite reads values that are stored as another type than that of their
/// metric, and writes the bytes as numbers of the new one.
const MISREAD: [&str; 1] = ["babylon.pmview_v2"];

/// pmlogrewrite loses metadata that is not used by the record that follows it; all that it keeps
/// is the same.
#[test]
fn archives_are_rewritten_as_pmlogrewrite_does() {
    let Some(oracle) = Oracle::find() else { return };
    let scratch = Scratch::new();
    let mut compared = 0;
    for entry in corpus::archives() {
        let old = Archive::open(&entry.base).unwrap();
        let rules = scratch.path().join(format!("{}.conf", entry.name));
        fs::write(&rules, rules_for(&old)).unwrap();
        let theirs = scratch.path().join(format!("{}-theirs", entry.name));
        let arguments =
            ["-c".as_ref(), rules.as_os_str(), entry.base.as_os_str(), theirs.as_os_str()];
        let output = oracle.output("pmlogrewrite", &arguments);
        if !output.status.success() || MISREAD.contains(&&*entry.name) {
            continue;
        }
        let ours = scratch.path().join(format!("{}-ours", entry.name));
        let result = convert(&entry.base, &[&rules], &ours, old.version());
        let errors = String::from_utf8_lossy(&result.stderr).into_owned();
        assert!(result.status.success(), "{}: {errors}", entry.name);
        compare(&entry.name, &Archive::open(&theirs).unwrap(), &Archive::open(&ours).unwrap());
        compared += 1;
    }
    assert!(compared > 0, "pmlogrewrite rewrites no archive of the corpus");
}

fn compare(name: &str, theirs: &Archive, ours: &Archive) {
    assert_eq!(theirs.label().hostname, ours.label().hostname, "{name}");
    for metric in theirs.metadata().metrics() {
        let own = ours.metadata().metric(metric.desc.pmid);
        assert_eq!(own.map(|own| own.desc), Some(metric.desc), "{name}");
        let mut names = [own.map(|own| own.names.clone()), Some(metric.names.clone())];
        for names in names.iter_mut().flatten() {
            names.sort();
        }
        assert_eq!(names[0], names[1], "{name}");
    }
    for (indom, history) in theirs.metadata().indoms() {
        let own = ours.metadata().indom_history(indom).expect("the domain");
        // Of several states at one time convert writes the one that holds. PCP 6.0.3 writes
        // differences, which version 3 has, as whole domains with their old time.
        let has_differences = ours.version() == Version::V3 && own.states().len() > 1;
        if own.states().len() == history.states().len() && !has_differences {
            assert!(own.states().eq(history.states()), "{name}: domain {indom}");
        }
    }
    let metrics = ours.metadata().metrics().iter();
    let types = metrics.map(|metric| (metric.desc.pmid, metric.desc.value_type)).collect();
    let ours = records(ours, &types);
    let theirs = records(theirs, &types);
    assert_eq!(ours.len(), theirs.len(), "{name}");
    for (own, their) in ours.iter().zip(&theirs) {
        assert!(own == their, "{name}: {own:#?}\n{their:#?}");
    }
}

#[test]
fn pmlogcheck_and_check_accept_rewritten_archives() {
    let Some(oracle) = Oracle::find() else { return };
    let scratch = Scratch::new();
    let base = scratch.path().join("old");
    Builder::in_directory(scratch.path(), "old")
        .metric("shop.level", "u32 instant Kbyte")
        .metric("shop.sold", "u64 counter count")
        .instances("shop.sold", ["anvils", "rockets"])
        .help("shop.sold", "products")
        .context_labels(&[("team", "red")])
        .row(0, [("shop.level", 1), ("shop.sold[anvils]", 2), ("shop.sold[rockets]", 3)])
        .row(1, [("shop.level", 1), ("shop.sold[anvils]", 3), ("shop.sold[rockets]", 4)])
        .finish();
    let directory = scratch.path().join("rules.d");
    fs::create_dir(&directory).unwrap();
    let first = "metric shop.* { delete }";
    fs::write(directory.join(".hidden"), first).unwrap();
    fs::write(directory.join("10"), "metric 70.1.* { pmid -> 71.2.* }").unwrap();
    fs::write(directory.join("20"), "indom 70.* { indom -> 71.* inst 0 -> 5 }").unwrap();
    let labels = scratch.path().join("labels");
    fs::write(&labels, "label context \"team\" { value -> \"blue\" }").unwrap();
    let new = scratch.path().join("new");
    let result = convert(&base, &[&directory, &labels], &new, Version::V3);
    assert!(result.status.success(), "{}", String::from_utf8_lossy(&result.stderr));
    assert_eq!(oracle.run("pmlogcheck", &["-w".as_ref(), new.as_os_str()]), "");
    let labels =
        oracle.run("pminfo", &["-a".as_ref(), new.as_os_str(), "-f".as_ref(), "-l".as_ref()]);
    assert!(labels.contains("team=blue") || labels.contains("\"team\":\"blue\""), "{labels}");
    assert!(labels.contains("[5 or \"anvils\"] value 2"), "{labels}");
}

#[test]
fn errors_of_rules_name_file_line_and_column() {
    let scratch = Scratch::new();
    let archive = Builder::new().metric("a.b", "u32 instant none").row(0, [("a.b", 1)]).finish();
    let rules = scratch.path().join("rules");
    let new = scratch.path().join("new");
    fs::write(&rules, "metric a.b {\n  type -> U16\n}\n").unwrap();
    let result = convert(archive.base(), &[&rules], &new, Version::V3);
    assert_eq!(result.status.code(), Some(2));
    let errors = String::from_utf8_lossy(&result.stderr);
    let expected = "rules:2:11: found \"U16\", expected one of the types 32, U32, 64";
    assert!(errors.contains(expected), "{errors}");
    fs::write(&rules, b"metric a.\xff {}").unwrap();
    let result = convert(archive.base(), &[&rules], &new, Version::V3);
    let errors = String::from_utf8_lossy(&result.stderr);
    assert!(errors.contains("rules: byte 9 is not valid UTF-8"), "{errors}");
}

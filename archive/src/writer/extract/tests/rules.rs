use std::collections::BTreeMap;

use test_archives::{Cell, TestArchive};

use super::*;

/// An archive with numbers, texts and instances, at 0, 1 and 2 seconds, and a mark at 1.5 s. From
/// 2 s on number 1 of the domain is another instance.
fn shop() -> TestArchive {
    let builder = Builder::new()
        .metric("shop.level", "i32 instant Kbyte")
        .metric("shop.sold", "u64 counter millisec")
        .metric("shop.state", "string discrete none")
        .metric("shop.load", "double instant none")
        .in_domain("shop.sold", 1)
        .help("shop.sold", "products")
        .help("shop.level", "how full")
        .context_labels(&[("team", "red"), ("site", "north")])
        .labels("shop.sold", &[("kind", "count")]);
    let row = |n: i64, names: [&str; 3]| {
        let sold = names.map(|name| (format!("shop.sold[{name}]"), Cell::from(1000 * n as u64)));
        let others = [
            ("shop.level".to_owned(), Cell::from(-1 - n as i32)),
            ("shop.state".to_owned(), Cell::from("at /home/me/shop now")),
            ("shop.load".to_owned(), Cell::from(0.25)),
        ];
        others.into_iter().chain(sold).collect::<Vec<_>>()
    };
    let first = [(0, "anvils"), (1, "rockets"), (2, "magnets big")];
    let later = [(0, "anvils"), (1, "ropes"), (2, "magnets big")];
    let names = |all: [(i32, &'static str); 3]| all.map(|(_, name)| name);
    builder
        .numbered_instances("shop.sold", first)
        .instance_labels("shop.sold", &[("anvils", &[("w", "5")]), ("rockets", &[("w", "9")])])
        .row(0, row(1, names(first)))
        .row(1, row(2, names(first)))
        .mark(1.5)
        .numbered_instances("shop.sold", later)
        .row(2, row(3, names(later)))
        .finish()
}

fn rewritten(directory: &TempDir, rules: &str) -> Result<Archive> {
    let shop = shop();
    let old = Archive::open(shop.base()).unwrap();
    let mut parsed = Rules::default();
    parsed.parse("rules", rules)?;
    let extract = Extract::new(selection(&old, &[""])).rules(parsed);
    let base = directory.path().join("new");
    let mut writer = writer(&base);
    extract.write(&mut writer, |_| {})?;
    writer.finish().unwrap();
    let report = check::check(&base).unwrap();
    assert!(report.worst() < Some(Severity::Warning), "{:?}", report.findings());
    Archive::open(base)
}

/// The values of a metric by seconds and instance.
fn values(archive: &Archive, name: &str) -> BTreeMap<(i64, Option<i32>), OwnedValue> {
    let desc = archive.metadata().metric_by_name(name).unwrap().desc;
    let mut all = BTreeMap::new();
    let mut records = archive.records().unwrap();
    let start = test_archives::at(0).seconds();
    while let Some(record) = records.next().unwrap() {
        for set in record.value_sets().filter(|set| set.pmid() == desc.pmid) {
            for value in set.values(desc.value_type) {
                let (instance, value) = value.unwrap();
                let seconds = record.timestamp().seconds() - start;
                all.insert((seconds, instance.map(InstanceId::get)), value.to_owned());
            }
        }
    }
    all
}

#[track_caller]
fn refused(rules: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    rewritten(&directory, rules).unwrap_err().to_string()
}

#[test]
fn rules_change_names_types_units_and_texts_of_metrics() {
    let directory = tempfile::tempdir().unwrap();
    let new = rewritten(
        &directory,
        "metric shop.level { name -> store.fill units -> 1,0,0,BYTE,0,0 rescale type -> 64 \
                             sem -> discrete pmid -> 71.*.* }\n\
         metric 70.1.3 { value \"/home/[^/]*/(.*)\" -> \"\\1\" }\n\
         metric shop.sold { units -> 0,1,0,0,SEC,0 rescale type -> STRING }\n\
         metric shop.load { delete }\n\
         text metric shop.sold { text -> \"all products\" }",
    )
    .unwrap();
    let metadata = new.metadata();
    let level = metadata.metric_by_name("store.fill").unwrap().desc;
    assert_eq!(level.pmid.to_string(), "71.1.1");
    assert_eq!((level.value_type, level.semantics), (ValueType::I64, Semantics::Discrete));
    assert_eq!(level.units, Units::bytes());
    assert_eq!(values(&new, "store.fill")[&(1, None)], OwnedValue::I64(-3072));
    let text = OwnedValue::String(b"at shop now".to_vec());
    assert_eq!(values(&new, "shop.state")[&(2, None)], text);
    assert_eq!(values(&new, "shop.sold")[&(1, Some(2))], OwnedValue::String(b"2".to_vec()));
    assert!(metadata.metric_by_name("shop.load").is_none());
    let help = |pmid| metadata.text(TextTarget::Metric(pmid), TextKind::OneLine).unwrap();
    assert_eq!(help(level.pmid), "how full");
    let sold = metadata.metric_by_name("shop.sold").unwrap().desc.pmid;
    assert_eq!(help(sold), "all products");
}

#[test]
fn instances_change_while_they_have_the_name_of_the_rule() {
    let directory = tempfile::tempdir().unwrap();
    let new = rewritten(
        &directory,
        "indom 70.1 { inst 0 -> 7 iname \"rockets\" -> delete iname \"magnets\" -> \"M 2\" \
                      indom -> 71.5 }",
    )
    .unwrap();
    let sold = new.metadata().metric_by_name("shop.sold").unwrap().desc;
    let moved = InDom::new(71, 5).unwrap();
    assert_eq!(sold.indom, Some(moved));
    let at = |seconds: i64| {
        let instances = new.metadata().indom_at(moved, test_archives::at(seconds)).unwrap();
        instances.iter().map(|one| (one.id.get(), one.name.to_string())).collect::<Vec<_>>()
    };
    let name = |id: i32, name: &str| (id, name.to_owned());
    assert_eq!(at(1), [name(2, "M 2"), name(7, "anvils")]);
    assert_eq!(at(2), [name(1, "ropes"), name(2, "M 2"), name(7, "anvils")]);
    let keys: Vec<_> = values(&new, "shop.sold").into_keys().collect();
    let instances = |seconds: i64, ids: &[i32]| -> Vec<(i64, Option<i32>)> {
        ids.iter().map(|id| (seconds, Some(*id))).collect()
    };
    let expected = [instances(0, &[2, 7]), instances(1, &[2, 7]), instances(2, &[1, 2, 7])];
    assert_eq!(keys, expected.concat());
    let labels = new.metadata().labels_at(LabelTarget::Instances(moved), test_archives::at(1));
    let labels: Vec<_> = labels.unwrap().iter().map(|set| set.instance.unwrap().get()).collect();
    assert_eq!(labels, [7]);
}

#[test]
fn a_duplicated_domain_also_stays_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let rules = "indom 70.1 { indom -> duplicate 71.* iname redact }";
    let new = rewritten(&directory, rules).unwrap();
    let names = |domain| {
        let indom = InDom::new(domain, 1).unwrap();
        let all = new.metadata().indom_at(indom, test_archives::at(0)).unwrap();
        all.iter().map(|one| one.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(70), ["anvils", "rockets", "magnets big"]);
    assert_eq!(names(71), ["0 [redacted]", "1 [redacted]", "2 [redacted]"]);
}

#[test]
fn one_value_of_all_instances_stays() {
    let pick = |output: &str| {
        let directory = tempfile::tempdir().unwrap();
        let rules = format!("metric shop.sold {{ indom -> null {output} }}");
        let new = rewritten(&directory, &rules).unwrap();
        values(&new, "shop.sold").get(&(2, None)).cloned()
    };
    assert_eq!(pick(""), Some(OwnedValue::U64(3000)));
    assert_eq!(pick("output sum"), Some(OwnedValue::U64(9000)));
    assert_eq!(pick("output avg"), Some(OwnedValue::U64(3000)));
    assert_eq!(pick("output max"), Some(OwnedValue::U64(3000)));
    assert_eq!(pick("output iname \"magnets\""), Some(OwnedValue::U64(3000)));
    assert_eq!(pick("output inst 9"), None);
    let directory = tempfile::tempdir().unwrap();
    let rules = "metric shop.load { indom -> 70.1 output inst 2 }";
    let new = rewritten(&directory, rules).unwrap();
    assert_eq!(values(&new, "shop.load")[&(0, Some(2))], OwnedValue::Double(0.25));
}

#[test]
fn a_time_is_added_to_records_marks_and_metadata() {
    let directory = tempfile::tempdir().unwrap();
    let new = rewritten(&directory, "global { time -> -0.5 }").unwrap();
    assert_eq!(new.label().start, test_archives::at(-0.5));
    let mut times = Vec::new();
    let mut records = new.records().unwrap();
    while let Some(record) = records.next().unwrap() {
        times.push((record.timestamp(), record.is_mark()));
    }
    let at = test_archives::at;
    let expected = [(-0.5, false), (0.5, false), (1.0, true), (1.5, false)];
    assert_eq!(times, expected.map(|(seconds, is_mark)| (at(seconds), is_mark)));
    let history = new.metadata().indom_history(indom()).unwrap();
    let states: Vec<_> = history.states().map(|state| state.timestamp).collect();
    assert_eq!(states, [at(-0.5), at(1.5)]);
}

#[test]
fn labels_are_changed_moved_deleted_and_added() {
    let directory = tempfile::tempdir().unwrap();
    let new = rewritten(
        &directory,
        "label context \"team\" { value -> \"blue\" label -> \"crew\" }\n\
         label context \"site\" \"\\\"south\\\"\" { delete }\n\
         label context { new \"rack\" 12 }\n\
         label item shop.sold { item -> 70.1.1 }\n\
         label instances 70.1 \"anvils\" { delete }\n\
         label instances 70.1 1 \"w\" { instance -> 2 }\n\
         label cluster 70.* { new \"team\" \"shop\" }",
    )
    .unwrap();
    let json = |target| {
        let sets = new.metadata().labels_at(target, test_archives::at(2))?;
        Some(sets.iter().map(|set| (set.instance, set.json.clone())).collect::<Vec<_>>())
    };
    let one = |json: &str| Some(vec![(None, json.to_owned())]);
    let context = one(r#"{"crew":"blue","rack":12,"site":"north"}"#);
    assert_eq!(json(LabelTarget::Context), context);
    let item = |item| LabelTarget::Item(Pmid::new(70, 1, item).unwrap());
    assert_eq!(json(item(1)), one(r#"{"kind":"count"}"#));
    assert_eq!(json(item(2)), None);
    let instances = json(LabelTarget::Instances(indom())).unwrap();
    assert_eq!(instances, [(Some(id(2)), r#"{"w":"9"}"#.to_owned())]);
    let cluster = LabelTarget::Cluster { domain: 70, cluster: 1 };
    assert_eq!(json(cluster), one(r#"{"team":"shop"}"#));
}

/// What contradicts another rule or the archive, and the error.
#[test]
fn contradictions_are_errors_that_name_both_sides() {
    for (rules, expected) in [
        (
            "metric shop.level { pmid -> 70.1.2 }",
            "metric shop.level cannot get PMID 70.1.2, which metric shop.sold has",
        ),
        (
            "metric shop.level { sem -> counter }\nmetric 70.1.1 { sem -> discrete }",
            "rules:2:17: semantics of shop.level: rules:1:21 changes this already: remove one of \
             the two clauses",
        ),
        (
            "metric shop.level { sem -> counter delete }",
            "rules:1:36: metric shop.level: rules:1:21 changes this already: remove one of the \
             two clauses",
        ),
        (
            "metric shop.level { name -> shop.sold }",
            "rules:1:21: metric shop.level: metric 70.1.2 is called shop.sold: choose another \
             name, or add dupok if that metric gets another",
        ),
        (
            "metric shop.state { type -> U64 }",
            "rules:1:21: metric shop.state: its type string is not numeric and cannot become \
             64-bit unsigned int",
        ),
        (
            "metric shop.level { value /a/ -> \"b\" }",
            "rules:1:21: metric shop.level: values of type 32-bit int are not text",
        ),
        (
            "metric shop.level { indom -> 70.9 }",
            "rules:1:21: metric shop.level: the new archive has no instance domain 70.9: make one \
             by a rule such as \"indom 70.1 { indom -> duplicate 70.9 }\"",
        ),
        (
            "indom 70.1 { indom -> 71.1 }\nmetric shop.sold { indom -> 72.1 }",
            "rules:2:20: metric shop.sold: its instance domain becomes 72.1, but rules:1:14 makes \
             it 71.1: remove one of the two clauses",
        ),
        (
            "indom 70.1 { inst 0 -> 1 }",
            "rules:1:14: the instances 0 \"anvils\" and 1 \"rockets\" of domain 70.1 both get the \
             number 1: choose another for one of them",
        ),
        (
            "indom 70.1 { iname \"anvils\" -> \"magnets small\" }",
            "rules:1:14: the instances 0 \"anvils\" and 2 \"magnets big\" of domain 70.1 both get \
             the name \"magnets\": choose another for one of them",
        ),
        (
            "text metric shop.level { metric -> 70.1.2 }",
            "rules:1:26: the help texts of metric 70.1.1 and metric 70.1.2 both become that of \
             metric 70.1.2: delete one of them",
        ),
        (
            "label instances 70.1 { instances -> 70.9 }",
            "rules:1:24: the new archive has no instance domain 70.9 that labels could belong \
             to: move that of the labels by an indom rule",
        ),
    ] {
        assert_eq!(refused(rules), expected, "{rules}");
    }
}

#[test]
fn a_value_that_does_not_fit_is_an_error_with_its_place() {
    let found = refused("metric shop.level { type -> U32 }");
    let (place, problem) = found.split_once(": metric").unwrap();
    assert!(place.contains(".0: offset "), "{place}");
    let expected = " shop.level: -2 does not fit type 32-bit unsigned int: choose another type or unit \
         (rules:1:21)";
    assert_eq!(problem, expected);
}

#[test]
fn two_metrics_exchange_their_names_and_numbers() {
    let directory = tempfile::tempdir().unwrap();
    let new = rewritten(
        &directory,
        "metric shop.level { name -> shop.load dupok pmid -> 70.1.4 }\n\
         metric shop.load { name -> shop.level dupok pmid -> 70.1.1 }",
    )
    .unwrap();
    assert_eq!(values(&new, "shop.load")[&(0, None)], OwnedValue::I32(-2));
    assert_eq!(values(&new, "shop.level")[&(0, None)], OwnedValue::Double(0.25));
}

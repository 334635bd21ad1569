//! Metrics and instances selected by labels, in all commands.

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use test_archives::Builder;

use crate::program::{printed_of, run_on};
use crate::report_csv::cells;

/// The instances of `shop.requests`: name, path, code, and counts per second.
const SERIES: [(&str, &str, &str, u32); 4] = [
    ("a 200", "/a", "200", 5),
    ("a 500", "/a", "500", 1),
    ("b 200", "/b", "200", 7),
    ("b 503", "/b", "503", 2),
];

/// Writes eleven records, a second apart, of `shop.requests` with instances and `shop.queue`
/// without, whose item has the label `unit`.
fn archive() -> (TempDir, PathBuf) {
    let labels = SERIES.map(|(name, path, code, _)| (name, [("path", path), ("code", code)]));
    let labels = labels.each_ref().map(|(name, labels)| (*name, &labels[..]));
    Builder::named("shop")
        .metric("shop.requests", "u32 counter count")
        .metric("shop.queue", "u32 instant")
        .instances("shop.requests", SERIES.map(|(name, ..)| name))
        .instance_labels("shop.requests", &labels)
        .context_labels(&[("site", "berlin")])
        .labels("shop.queue", &[("unit", "orders")])
        .rows((0..=10).map(|second: u32| {
            let counts =
                SERIES.map(|(name, .., rate)| (format!("shop.requests[{name}]"), rate * second));
            (second, counts.into_iter().chain([("shop.queue".to_owned(), 40 + second)]))
        }))
        .finish()
        .into_parts()
}

#[track_caller]
fn columns(base: &Path, selectors: &[&str]) -> Vec<String> {
    let csv = printed_of(base, &[&["report", "--format", "csv"], selectors].concat());
    cells(csv.lines().next().unwrap()).split(',').map(str::to_owned).collect()
}

/// `/`: 7 of 200 and 1 of 503 in a second, `/cart`: 3 of 200.
#[test]
fn sums_by_a_label_have_an_instance_for_each_of_its_values() {
    let instances = [("path=/,code=200", 7), ("path=/cart,code=200", 3), ("path=/,code=503", 1)];
    let labels: [(&str, &[(&str, &str)]); 3] = [
        (instances[0].0, &[("path", "/"), ("code", "200")]),
        (instances[1].0, &[("path", "/cart"), ("code", "200")]),
        (instances[2].0, &[("path", "/"), ("code", "503")]),
    ];
    let archive = Builder::new()
        .metric("web.requests", "u64 counter count")
        .metric("web.failures", "u64 counter count")
        .instances("web.requests", instances.map(|(name, _)| name))
        .instance_labels("web.requests", &labels)
        .instances("web.failures", ["path=/cart", "path=/"])
        .instance_labels(
            "web.failures",
            &[("path=/cart", &[("path", "/cart")]), ("path=/", &[("path", "/")])],
        )
        .rows((0..3).map(|second: u64| {
            let counts = instances.map(|(name, rate)| (format!("web.requests[{name}]"), rate));
            let failures = [("/", 2), ("/cart", 6)]
                .map(|(path, rate)| (format!("web.failures[path={path}]"), rate));
            let all = counts.into_iter().chain(failures);
            (second, all.map(move |(name, rate)| (name, second * rate)))
        }))
        .finish();
    let report = |arguments: &[&str]| {
        run_on(&archive, &[&["report", "--format", "csv"], arguments].concat())
    };
    for (expression, names, values) in [
        ("sum by (path) (rate(web.requests))", "x[path=/],x[path=/cart]", "8,3"),
        ("avg by (path) (rate(web.requests))", "x[path=/],x[path=/cart]", "4,3"),
        ("max by (code) (rate(web.requests))", "x[code=200],x[code=503]", "7,1"),
        ("count by (path) (rate(web.requests))", "x[path=/],x[path=/cart]", "2,1"),
        (
            "sum by (code, path) (rate(web.requests))",
            "\"x[code=200,path=/]\",\"x[code=200,path=/cart]\",\"x[code=503,path=/]\"",
            "7,3,1",
        ),
        // Groups of two domains meet by their names.
        (
            "sum by (path)(rate(web.failures)) / sum by (path)(rate(web.requests))",
            "x[path=/],x[path=/cart]",
            "0.25,2",
        ),
        ("(sum by (path) (rate(web.requests)))[path=/cart]", "x[path=/cart]", "3"),
        ("topk(1, sum by (path) (rate(web.requests)))", "x[path=/],x[path=/cart]", "8,"),
    ] {
        let output = report(&["-e", &format!("x = {expression}")]);
        let text = String::from_utf8(output.stdout).unwrap();
        let line = |place: usize| cells(text.lines().nth(place).unwrap());
        assert_eq!((&*line(0), &*line(3)), (names, values), "{expression}: {text}");
    }
    for (expression, expected) in [
        ("sum by (path) (web.requests)", "by cannot be used with a counter; write rate(NAME)"),
        ("sum by (colour) (rate(web.requests))", "has a label colour; the labels are: code, path"),
        ("sum by (path) (1)", "these values have no instances"),
    ] {
        let output = report(&["-e", expression]);
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && text.contains(expected), "{text}");
    }
    let limit = ["-e", "rate(web.failures)", "--fail-if", "sum by (path)(rate(web.requests)) > 7"];
    let output = report(&limit);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && text.contains(" of path=/, the first"), "{text}");
}

#[test]
fn a_report_has_the_instances_with_the_labels() {
    let (_directory, base) = archive();
    let a = |name: &str| format!("shop.requests[{name}]");
    for (selector, names) in [
        (r#"shop.requests{code="200"}"#, &["a 200", "b 200"][..]),
        (r#"shop.requests{code!="200"}"#, &["a 500", "b 503"]),
        (r#"shop.requests{code=~"5..",path="/b"}"#, &["b 503"]),
        (r#"shop.requests{code!~"5.*"}"#, &["a 200", "b 200"]),
        (r#"shop.requests{site="berlin",path='/a'}"#, &["a 200", "a 500"]),
        (r#"shop{path="/b"}"#, &["b 200", "b 503"]),
        (r#"shop.*{path="/b"}"#, &["b 200", "b 503"]),
    ] {
        let expected: Vec<_> = names.iter().map(|name| a(name)).collect();
        assert_eq!(columns(&base, &[selector]), expected, "{selector}");
    }
    assert_eq!(columns(&base, &[r#"{unit="orders"}"#]), ["shop.queue"]);
    let both = [r#"shop.requests{code="500"}"#, r#"shop.requests{code="503"}"#, "shop.queue"];
    assert_eq!(columns(&base, &both), [&a("a 500"), &a("b 503"), "shop.queue"]);
    assert_eq!(columns(&base, &[r#"shop.requests{code="500"}"#, "shop.requests"]).len(), 4);
    assert_eq!(columns(&base, &["shop.requests", "-i", "b*"]), [a("b 200"), a("b 503")]);
    let narrowed = [r#"shop.requests{code="200"}"#, "-i", "b*"];
    assert_eq!(columns(&base, &narrowed), [a("b 200")]);
}

#[test]
fn sums_and_values_are_those_of_the_selected_instances() {
    let (_directory, base) = archive();
    let last = |arguments: &[&str]| {
        let csv = printed_of(&base, &[&["report", "--format", "csv"], arguments].concat());
        cells(csv.lines().last().unwrap())
    };
    assert_eq!(last(&["shop.requests", "--sum", "--rate"]), "15");
    assert_eq!(last(&[r#"shop.requests{code=~"5.."}"#, "--sum", "--rate"]), "3");
    assert_eq!(last(&[r#"shop.requests{code="503"}"#, "--raw"]), "20");
    assert_eq!(last(&[r#"shop.requests{code="503"}"#, "--at", "5s"]), "10");
}

#[test]
fn expressions_select_by_labels() {
    let (_directory, base) = archive();
    let last = |arguments: &[&str]| {
        let csv = printed_of(&base, &[&["report", "--format", "csv"], arguments].concat());
        cells(csv.lines().last().unwrap())
    };
    for (expression, value) in [
        (r#"sum(rate(shop.requests{code=~"5.."})) / sum(rate(shop.requests))"#, "0.2"),
        ("sum(shop.requests{path='/b'})", "90"),
        ("delta(shop.requests{code='500',path='/a'})", "1"),
        ("shop.requests{path='/a'}[a 200]", "50"),
        ("sum(matchinst(/b/, shop.requests{code='200'}))", "70"),
        ("shop.queue{unit='orders'}", "50"),
        ("count(shop.requests{site='berlin'})", "4"),
        ("count(shop.requests{none=''})", "4"),
        ("count(shop.requests{code='404'})", "0"),
        ("count(shop.queue{unit='x'})", "0"),
    ] {
        assert_eq!(last(&["-e", expression]), value, "{expression}");
    }
    let output = run_on(&base, &["report", "-e", "sum(shop.requests{cod='200'})"]);
    let text = String::from_utf8(output.stderr).unwrap();
    let reason = "column 5: no instance of shop.requests has a label cod; \
                  the labels are: code, path, site\n";
    assert!(output.status.code() == Some(2) && text.ends_with(reason), "{text}");
    let output = run_on(&base, &["report", "-e", "sum(shop.requests{code=200})"]);
    let text = String::from_utf8(output.stderr).unwrap();
    let reason = "column 18: labels {code=200}: the value of code is not between quotes\n";
    assert!(output.status.code() == Some(2) && text.ends_with(reason), "{text}");
}

#[test]
fn expression_has_instances_its_metric_is_not_shown_of() {
    let (_directory, base) = archive();
    let selector = r#"shop.requests{code="503"}"#;
    let csv = |arguments: &[&str]| {
        let csv = printed_of(&base, &[&["report", "--format", "csv"], arguments].concat());
        let lines = [csv.lines().next(), csv.lines().last()];
        lines.map(|line| cells(line.unwrap()))
    };
    let all = "all = sum(rate(shop.requests))";
    let expected = ["shop.requests[b 503],all", "2,15"];
    assert_eq!(csv(&[selector, "-e", all, "--rate"]), expected);
    let some = r#"some = sum(rate(shop.requests{path="/a"}))"#;
    assert_eq!(csv(&[selector, "-e", some, "--rate"]), ["shop.requests[b 503],some", "2,6"]);
    let sums = [selector, "--sum", "-e", all, "--rate"];
    assert_eq!(csv(&sums), ["all,shop.requests", "15,2"]);
    let plot = printed_of(&base, &["plot", selector, "-e", all]);
    assert!(plot.contains("503") && !plot.contains("b 200"), "{plot}");
}

#[test]
fn all_commands_select_by_labels() {
    let (directory, base) = archive();
    let selector = r#"shop.requests{path="/b"}"#;
    let summary = printed_of(&base, &["summary", "--format", "csv", selector]);
    assert!(summary.lines().count() == 3 && !summary.contains("a 200"), "{summary}");
    let metrics = printed_of(&base, &["metrics", selector]);
    assert!(metrics.contains("b 503") && !metrics.contains("a 500"), "{metrics}");
    let dump = printed_of(&base, &["dump", selector]);
    assert!(dump.contains("\"b 503\"") && !dump.contains("\"a 500\""), "{dump}");
    let dump = printed_of(&base, &["dump", "--json", selector]);
    assert!(dump.contains("[3,20]") && !dump.contains("[1,10]"), "{dump}");
    let follow = printed_of(&base, &["follow", "--json", "-s", "1", selector]);
    assert!(follow.contains("b 503") && !follow.contains("a 500"), "{follow}");
    let plot = printed_of(&base, &["plot", selector]);
    assert!(plot.contains("503") && !plot.contains("500"), "{plot}");
    printed_of(&base, &["extract", "-o", "part", selector]);
    let part = printed_of(&directory.path().join("part"), &["report", "--format", "csv", "shop"]);
    let head = "Time,Seconds,shop.requests[b 200] (count),shop.requests[b 503] (count)";
    assert_eq!(part.lines().next().unwrap(), head);
    let check = run_on(&directory.path().join("part"), &["check"]);
    assert_eq!(check.status.code(), Some(0), "{check:?}");
}

#[test]
fn lines_of_json_have_the_labels_of_their_instance() {
    let (_directory, base) = archive();
    for options in [
        &["report", "shop.requests", "--raw"][..],
        &["follow", "shop.requests", "-S", "0s", "-s", "1"],
        &["summary", "shop.requests"],
    ] {
        let text = printed_of(&base, &[options, &["--json"]].concat());
        let lines =
            text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let mut found = lines.filter(|line| line["instance"] == "b 503");
        let labels = found.next().expect("the instance")["labels"].clone();
        assert_eq!(labels, serde_json::json!({"code": "503", "path": "/b"}), "{options:?}");
    }
}

#[test]
fn what_selects_nothing_is_explained() {
    let (_directory, base) = archive();
    let error = |selector: &str| {
        let output = run_on(&base, &["report", selector]);
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (status, text) = error(r#"shop.requests{code="404"}"#);
    assert_eq!(status, Some(1));
    assert!(text.contains("no instance has these labels; code is 200, 500, 503\n"), "{text}");
    let (_, text) = error(r#"shop.requests{cod="200"}"#);
    assert!(text.contains("there is no label cod, but code, path, site\n"), "{text}");
    let (status, text) = error("shop.requests{code=200}");
    assert_eq!(status, Some(2));
    assert!(text.contains("the value of code is not between quotes"), "{text}");
}

#[test]
fn a_summary_is_sorted_by_a_column_and_cut() {
    let (_directory, base) = archive();
    let names = |options: &[&str]| {
        let csv = printed_of(&base, &[&["summary", "--format", "csv"], options].concat());
        csv.lines()
            .skip(1)
            .map(|line| line.split(',').nth(1).unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&["shop.requests"]), ["a 200", "a 500", "b 200", "b 503"]);
    let sorted = ["b 200", "a 200", "b 503", "a 500"];
    assert_eq!(names(&["shop.requests", "--sort", "rate"]), sorted);
    assert_eq!(names(&["shop", "--sort", "rate"])[..4], sorted, "the queue is larger");
    assert_eq!(names(&["shop.requests", "--sort", "sum", "--top", "2"]), sorted[..2]);
    assert_eq!(names(&["shop.requests", "--top", "3"]), sorted[..3]);
    assert_eq!(names(&["shop", "--sort", "name", "--top", "1"]), ["", "a 200"], "of each metric");
    assert_eq!(names(&["shop", "--sort", "maximum"])[0], "", "of 50");
}

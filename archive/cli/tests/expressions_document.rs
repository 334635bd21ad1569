//! The expressions in the table of `docs/expressions.md`, and the errors of those that it excludes.

use std::process::Output;

use test_archives::{Builder, TestArchive};

use crate::program::run_on;

const DOCUMENT: &str = include_str!("../../../docs/expressions.md");

fn archive() -> TestArchive {
    let requests = [("/a 200", "/a", "200"), ("/a 503", "/a", "503"), ("/b 200", "/b", "200")];
    let labels = requests.map(|(name, path, code)| (name, [("endpoint", path), ("code", code)]));
    let labels = labels.each_ref().map(|(name, labels)| (*name, &labels[..]));
    let row = |second: u64| {
        [
            ("mmv.shop.failed", 2 * second),
            ("mmv.shop.orders", 20 * second),
            ("mmv.shop.requests[/a 200]", 5 * second),
            ("mmv.shop.requests[/a 503]", second),
            ("mmv.shop.requests[/b 200]", 7 * second),
            ("mmv.shop.queue[one]", 3 + second % 4),
            ("mmv.shop.latency.bucket[4..5]", 9 * second),
            ("mmv.shop.latency.sum", 40 * second),
        ]
    };
    Builder::named("shop")
        .metric("mmv.shop.failed", "u64 counter count")
        .metric("mmv.shop.orders", "u64 counter count")
        .metric("mmv.shop.requests", "u64 counter count")
        .metric("mmv.shop.queue", "u32 instant")
        .metric("mmv.shop.latency.bucket", "u64 counter count")
        .metric("mmv.shop.latency.sum", "u64 counter microsec")
        .instances("mmv.shop.requests", requests.map(|(name, ..)| name))
        .instance_labels("mmv.shop.requests", &labels)
        .instances("mmv.shop.queue", ["one"])
        .numbered_instances("mmv.shop.latency.bucket", [(4, "4..5")])
        .labels("mmv.shop.latency.bucket", &[("histogram", "microsec")])
        .domain_labels("mmv.shop.latency.bucket", &[("bucket_max", 10), ("bucket_precision", 1)])
        .rows((0..=8).map(|second| (second, row(second))))
        .finish()
}

fn report(archive: &TestArchive, expression: &str) -> Output {
    let expression = format!("x = {expression}");
    run_on(archive, &["report", "-t", "4s", "--json", "-e", &expression])
}

#[test]
fn every_expression_of_the_table_has_values() {
    let archive = archive();
    let cells = DOCUMENT.lines().filter_map(|line| line.strip_prefix("| `")?.split("` |").next());
    let expressions: Vec<&str> = cells.collect();
    assert_eq!(expressions.len(), 10);
    for expression in expressions {
        let output = report(&archive, expression);
        assert!(output.status.success(), "{expression}: {output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        let last: serde_json::Value =
            serde_json::from_str(text.lines().last().expect(expression)).unwrap();
        assert!(last["value"].is_number(), "{expression}: {text}");
    }
}

#[test]
fn an_error_names_the_nearest_form() {
    let archive = archive();
    let forms = "mmv.shop.latency is a histogram; write p99(mmv.shop.latency) for a quantile, \
                 below(100ms, mmv.shop.latency) for the part of its values up to a limit, or \
                 rate(mmv.shop.latency) for their number per second";
    for (expression, expected) in [
        ("delta(mmv.shop.latency)", forms),
        ("mmv.shop.latency * 2", forms),
        ("max_over(mmv.shop.latency)", forms),
        ("max_over(mmv.shop.orders)", "cannot be used with a counter; write max_over(rate(NAME))"),
        ("rate(max_over(mmv.shop.queue))", "max_over() cannot be used within rate() or delta()"),
        ("p99(mmv.shop.orders)", "mmv.shop.orders is not a histogram"),
        ("p99(mmv.shop.latncy)", "no histogram mmv.shop.latncy in the archive; the nearest"),
        ("increase(mmv.shop.orders)", "write delta(NAME)"),
    ] {
        let output = report(&archive, expression);
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && text.contains(expected), "{expression}: {text}");
    }
}

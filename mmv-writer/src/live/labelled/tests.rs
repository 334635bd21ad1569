use std::time::Duration;

use super::*;
use crate::live::tests::{builder, contents_of, directory, values_of};
use crate::{Counter, Gauge};

#[test]
fn sets_of_values_are_instances_with_labels_for_all_metrics_of_the_domain() {
    let directory = directory();
    let registry = builder(&directory).announce_interval(Duration::ZERO).build().unwrap();
    let path = registry.published().path().to_owned();
    let requests = registry.indom("requests").build_labelled(["method", "code"]).unwrap();
    let count = registry.counter::<u64>("count").build_labelled(&requests).unwrap();
    let level = registry.gauge::<u64>("level").build_labelled(&requests).unwrap();
    count.with(["GET", "200"], Counter::inc).unwrap();
    count.with(["GET".to_owned(), 200.to_string()], Counter::inc).unwrap();
    count.get_or_create(["PUT", "2,0=0"]).unwrap().add(5);
    level.with(["GET", "200"], |gauge| gauge.set(7)).unwrap();
    assert!(level.get(["PUT", "2,0=0"]).is_none());
    let value = |metric: &str, name: &str, value| (metric.to_owned(), Some(name.to_owned()), value);
    assert_eq!(
        values_of(&path),
        [
            value("count", "method=GET,code=200", 2),
            value("count", r"method=PUT,code=2\,0\=0", 5),
            value("level", "method=GET,code=200", 7),
        ]
    );
    let labels = |path| {
        let contents = contents_of(path);
        let labels = contents.labels.iter().map(|label| {
            let instances = &contents.indom(1).unwrap().instances;
            let its = instances.iter().find(|one| Some(one.id) == label.instance).unwrap();
            format!("{}: {}={}", its.name, label.name, label.json_value)
        });
        labels.collect::<Vec<_>>()
    };
    let expected = [
        "method=GET,code=200: method=\"GET\"",
        "method=GET,code=200: code=\"200\"",
        r#"method=PUT,code=2\,0\=0: method="PUT""#,
        r#"method=PUT,code=2\,0\=0: code="2,0=0""#,
    ];
    assert_eq!(labels(&path), expected);
    assert!(requests.remove(["GET", "200"]));
    assert!(!requests.remove(["GET", "200"]));
    assert_eq!(requests.indom().len(), 1);
    assert_eq!(values_of(&path).len(), 1);
    assert_eq!(labels(&path).len(), 2);
    count.with(["GET", "200"], |counter| assert_eq!(counter.value(), 0)).unwrap();
}

#[test]
fn without_room_for_labels_an_instance_has_its_name() {
    let directory = directory();
    let registry = builder(&directory).announce_interval(Duration::ZERO).build().unwrap();
    let things = registry.indom("things").build_labelled(["thing"]).unwrap();
    let count = registry.counter::<u64>("count").build_labelled(&things).unwrap();
    for index in 0..300 {
        count.with([index.to_string()], Counter::inc).unwrap();
    }
    count.with(["x".repeat(1000)], Counter::inc).unwrap();
    // The file became longer, and readers are given time to see that.
    std::thread::sleep(Duration::from_millis(150));
    registry.announce();
    let contents = contents_of(registry.published().path());
    assert_eq!((contents.labels.len(), contents.values.len()), (255, 301));
}

#[test]
fn labels_that_are_none_or_twice_are_rejected() {
    let directory = directory();
    let registry = builder(&directory).build().unwrap();
    let error = registry.indom("a").build_labelled(["a b"]).unwrap_err();
    assert!(matches!(error, Error::LabelName { .. }), "{error}");
    let error = registry.indom("a").build_labelled(["a", "b", "a"]).unwrap_err();
    assert!(matches!(error, Error::NameTaken { what: "label", .. }), "{error}");
}

#[test]
fn threads_that_ask_for_the_same_sets_count_in_one_instance_of_each() {
    let directory = directory();
    let registry = builder(&directory).build().unwrap();
    let requests = registry.indom("requests").build_labelled(["method", "code"]).unwrap();
    let count = registry.counter::<u64>("count").build_labelled(&requests).unwrap();
    let in_flight = registry.gauge::<u64>("in_flight").build_labelled(&requests).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for index in 0..10_000 {
                    let values = ["GET", ["200", "404", "500"][index % 3]];
                    let _guard = in_flight.with(values, Gauge::guard).unwrap();
                    count.with(values, Counter::inc).unwrap();
                }
            });
        }
    });
    let sum = ["200", "404", "500"].map(|code| count.get(["GET", code]).unwrap().value());
    assert_eq!(sum, [4 * 3334, 4 * 3333, 4 * 3333]);
    assert_eq!(in_flight.get(["GET", "404"]).unwrap().value(), 0);
}

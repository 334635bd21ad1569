use std::fs::File;
use std::time::Duration;

use pcp_types::{InstanceId, Semantics, Units, ValueType};
use tempfile::TempDir;

use super::*;
use crate::metric::Number;
use crate::pcp::{
    IndomMetricExt as _, MetricBuilderExt as _, RegistryBuilderExt as _, RegistryExt as _,
};
use crate::test_support::{self, directory};
use crate::{Buckets, Counter, Gauge, Text};
use mmv_format::layout::{Flags, Header, Version};
use mmv_format::view::{Contents, LabelClass, Limits, MetricKind};

fn registry(directory: &TempDir) -> Registry {
    Registry::builder("app").sealed().directory(directory.path()).cluster(321).build().unwrap()
}

/// Publishes and reads the file as another program would; nothing may be skipped.
fn contents(registry: &Registry) -> Contents {
    registry.publish().unwrap();
    test_support::contents_of(registry.path())
}

fn read(registry: &Registry) -> Contents {
    Contents::read(&File::open(registry.path()).unwrap(), &Limits::default()).unwrap()
}

fn cell(registry: &Registry, index: usize) -> u64 {
    word(registry, read(registry).values[index].cell)
}

fn word(registry: &Registry, at: u64) -> u64 {
    test_support::word(&File::open(registry.path()).unwrap(), at)
}

fn text(registry: &Registry, index: usize) -> Vec<u8> {
    let bytes = std::fs::read(registry.path()).unwrap();
    let at = read(registry).values[index].string.unwrap() as usize;
    mmv_format::layout::until_nul(&bytes[at..at + 256]).unwrap().to_vec()
}

fn id(number: i32) -> InstanceId {
    InstanceId::new(number).unwrap()
}

#[test]
fn a_stranger_reads_what_was_registered() {
    let directory = directory();
    let registry = registry(&directory);
    let disks = registry.indom("disks").instance(3, "sda").instance(7, "sdb").help("the disks");
    let disks = disks.label(Label::new("kind", "ssd")).build().unwrap();
    let reads = registry.counter("disk.reads").units(Units::count()).help("reads");
    let reads = reads.long_help("reads since boot").label(Label::new("tier", 2).optional());
    let _reads = reads.build_instances(&disks).unwrap();
    let _level = registry.metric::<Gauge<f32>>("level").item(99).build().unwrap();
    registry.label(Label::json("limits", "[1,2]")).unwrap();

    let contents = contents(&registry);

    assert_eq!(contents.header.version, 3);
    assert_eq!(contents.header.cluster, 321);
    assert_eq!(contents.header.flags, Flags::PROCESS);
    assert_eq!(contents.header.pid, std::process::id().cast_signed());
    let indom = &contents.indoms[0];
    assert_eq!((indom.serial, indom.short_help.as_deref()), (1, Some("the disks")));
    let names: Vec<_> = indom.instances.iter().map(|one| (one.id, one.name.as_str())).collect();
    assert_eq!(names, [(id(3), "sda"), (id(7), "sdb")]);
    let metric = &contents.metrics[0];
    assert_eq!((metric.name.as_str(), metric.item, metric.indom), ("disk.reads", 1, Some(1)));
    assert_eq!(metric.kind, MetricKind::Numeric(ValueType::U64));
    assert_eq!((metric.semantics, metric.units), (Semantics::Counter, Units::count()));
    assert_eq!(metric.short_help.as_deref(), Some("reads"));
    assert_eq!(metric.long_help.as_deref(), Some("reads since boot"));
    let metric = &contents.metrics[1];
    assert_eq!((metric.name.as_str(), metric.item, metric.indom), ("level", 99, None));
    assert_eq!(metric.kind, MetricKind::Numeric(ValueType::Float));
    assert_eq!((metric.semantics, metric.short_help.as_ref()), (Semantics::Instant, None));
    let values: Vec<_> = contents.values.iter().map(|one| (one.metric, one.instance)).collect();
    assert_eq!(values, [(0, Some(id(3))), (0, Some(id(7))), (1, None)]);
    let labels: Vec<_> = contents
        .labels
        .iter()
        .map(|one| (one.class, one.identity, one.optional, one.name.as_str(), &*one.json_value))
        .collect();
    assert_eq!(
        labels,
        [
            (LabelClass::Indom, 1, false, "kind", "\"ssd\""),
            (LabelClass::Item, 1, true, "tier", "2"),
            (LabelClass::Cluster, 321, false, "limits", "[1,2]"),
        ]
    );
}

#[test]
fn a_value_counts_before_and_after_publication_in_the_same_cell() {
    let directory = directory();
    let registry = registry(&directory);
    let total = registry.counter("total").build().unwrap();
    let mut own = registry.metric::<Counter<i32>>("own").owned().build().unwrap();
    let mode = registry.text("mode").build().unwrap();
    total.add(40);
    own.add(-1);
    mode.set("early");
    registry.publish().unwrap();
    assert_eq!((cell(&registry, 0), cell(&registry, 1)), (40, (-1i32).to_cell()));
    assert_eq!(text(&registry, 2), b"early");
    total.clone().add(2);
    own.inc();
    mode.set("later");
    assert_eq!((cell(&registry, 0), cell(&registry, 1)), (42, 0));
    assert_eq!(text(&registry, 2), b"later");
    registry.withdraw();
    total.inc();
    assert_eq!(total.value(), 43);
}

#[test]
fn handles_of_instances_are_found_by_position_name_and_number() {
    let directory = directory();
    let registry = registry(&directory);
    let cpus = registry.indom("cpus").names(["cpu0", "cpu1"].iter()).build().unwrap();
    let busy = registry.counter("busy").build_instances(&cpus).unwrap();
    busy.get(0).unwrap().add(1);
    busy.by_name("cpu1").unwrap().add(2);
    busy.by_id(cpus.instances()[1].0).unwrap().add(3);
    assert_eq!(busy.iter().map(Counter::value).collect::<Vec<_>>(), [1, 5]);
    assert!(busy.get(2).is_none() && busy.by_name("cpu2").is_none());
    assert_eq!(contents(&registry).values.len(), 2);
}

#[test]
fn values_beyond_the_first_chunk_are_where_the_file_says() {
    let directory = directory();
    let registry = registry(&directory);
    let many = registry.indom("many").names((0..5000).map(|n| format!("i{n}"))).build().unwrap();
    let counts = registry.counter("n").build_instances(&many).unwrap();
    let texts = registry.text("t").build_instances(&many).unwrap();
    for (index, count) in counts.iter().enumerate() {
        count.add(index as u64);
    }
    texts.get(4999).unwrap().set("last");
    registry.publish().unwrap();
    let bytes = std::fs::read(registry.path()).unwrap();
    let contents = read(&registry);
    assert_eq!(contents.skipped, []);
    assert_eq!(contents.values.len(), 10_000);
    for (index, value) in contents.values.iter().take(5000).enumerate() {
        let at = value.cell as usize;
        assert_eq!(bytes[at..at + 8], (index as u64).to_ne_bytes());
    }
    assert_eq!(text(&registry, 9999), b"last");
}

#[test]
fn the_version_is_the_lowest_that_can_hold_it_all() {
    let version = |register: &dyn Fn(&Registry)| {
        let directory = directory();
        let registry = registry(&directory);
        register(&registry);
        contents(&registry).header.version
    };
    let name = |len: usize| "n".repeat(len);
    assert_eq!(version(&|_| {}), 1);
    assert_eq!(version(&|r| drop(r.counter(name(63)).build().unwrap())), 1);
    assert_eq!(version(&|r| drop(r.counter(name(64)).build().unwrap())), 2);
    assert_eq!(version(&|r| drop(r.counter(name(255)).build().unwrap())), 2);
    assert_eq!(version(&|r| drop(r.indom("i").instance(0, name(63)).build().unwrap())), 1);
    assert_eq!(version(&|r| drop(r.indom("i").instance(0, name(64)).build().unwrap())), 2);
    assert_eq!(version(&|r| r.label(Label::new("a", 1)).unwrap()), 3);
}

#[test]
fn a_pinned_version_is_kept_and_refuses_what_it_cannot_hold() {
    let directory = directory();
    let pinned = |version| {
        let builder = Registry::builder("app").sealed().directory(directory.path()).cluster(1);
        builder.version(version).build().unwrap()
    };
    for version in [Version::V1, Version::V2, Version::V3] {
        let registry = pinned(version);
        let ok = registry.indom("i").names(["a"]).build().unwrap();
        let _counter = registry.counter("c").build_instances(&ok).unwrap();
        let contents = contents(&registry);
        assert_eq!(contents.header.version, version.code().cast_unsigned());
        assert_eq!(contents.indoms[0].instances[0].name, "a");
    }
    let error = pinned(Version::V1).counter("n".repeat(64)).build().unwrap_err();
    assert!(matches!(error, Error::Version { needed: Version::V2, .. }), "{error}");
    let error = pinned(Version::V1).indom("i").names(["n".repeat(64)]).build().unwrap_err();
    assert!(matches!(error, Error::Version { needed: Version::V2, .. }), "{error}");
    let error = pinned(Version::V2).label(Label::new("a", 1)).unwrap_err();
    assert!(matches!(error, Error::Version { needed: Version::V3, .. }), "{error}");
}

#[test]
fn the_flags_are_those_asked_for() {
    let directory = directory();
    let builder = Registry::builder("any name-1").sealed().directory(directory.path());
    let registry = builder.no_prefix().sentinel().process(false).build().unwrap();
    let flags = contents(&registry).header.flags;
    assert_eq!(flags, Flags::NO_PREFIX.with(Flags::SENTINEL));
}

/// Returns the message of a registration that must fail; it must name the offender.
fn refused<T>(result: Result<T, Error>, offender: &str) -> Error {
    let error = result.err().unwrap();
    assert!(error.to_string().contains(offender), "{error}");
    error
}

#[test]
fn a_registry_is_printed_in_a_line() {
    let directory = directory();
    let registry = registry(&directory);
    let printed = format!("{registry:?}");
    let path = directory.path().join("app");
    assert_eq!(printed, format!("Registry {{ path: {path:?}, .. }}"));
}

#[test]
fn names_that_readers_refuse_are_refused() {
    let directory = directory();
    let registry = registry(&directory);
    for name in ["1st", "a b", "a-b", "a..b", "a.", "_a"] {
        let error = refused(registry.counter(name).build(), name);
        assert!(matches!(error, Error::MetricName { .. }));
    }
    for name in [String::new(), "n".repeat(256)] {
        let error = refused(registry.counter(name.clone()).build(), &name);
        assert!(matches!(error, Error::Length { .. }));
    }
    for name in [".hidden", "my-app", "a/b", "a..b"] {
        let error =
            refused(Registry::builder(name).sealed().directory(directory.path()).build(), name);
        assert!(matches!(error, Error::FileName { .. }));
    }
    let slash = Registry::builder("a/b").sealed().directory(directory.path()).no_prefix();
    assert!(matches!(slash.build(), Err(Error::FileName { .. })));
}

#[test]
fn a_name_is_registered_once_and_is_a_leaf_or_a_branch() {
    let directory = directory();
    let registry = registry(&directory);
    let _first = registry.counter("req.count").build().unwrap();
    let error = refused(registry.gauge("req.count").build(), "req.count");
    assert!(matches!(error, Error::NameTaken { .. }));
    let error = refused(registry.gauge("req").build(), "req.count");
    assert!(matches!(error, Error::LeafAndBranch { .. }));
    let error = refused(registry.gauge("req.count.max").build(), "req.count.max");
    assert!(matches!(error, Error::LeafAndBranch { .. }));
    let _fine = registry.gauge("req_count").build().unwrap();
}

#[test]
fn items_are_given_out_in_order_around_the_explicit_ones() {
    let directory = directory();
    let registry = registry(&directory);
    let _a = registry.counter("a").item(2).build().unwrap();
    let _b = registry.counter("b").build().unwrap();
    let _c = registry.counter("c").build().unwrap();
    let error = refused(registry.counter("d").item(2).build(), "item 2");
    assert!(matches!(error, Error::NumberTaken { .. }));
    let error = refused(registry.counter("d").item(1024).build(), "1024");
    assert!(matches!(error, Error::OutOfRange { .. }));
    let items: Vec<_> = contents(&registry).metrics.iter().map(|metric| metric.item).collect();
    assert_eq!(items, [2, 1, 3]);
}

#[test]
fn a_file_takes_1023_metrics_and_255_labels() {
    let directory = directory();
    // Which has no overflow files.
    let builder = Registry::builder("app").sealed().directory(directory.path()).cluster(321);
    let registry = builder.per_process().build().unwrap();
    for index in 0..1023 {
        let _counter = registry.counter(format!("m{index}")).build().unwrap();
    }
    let error = refused(registry.counter("last").build(), "last");
    assert!(matches!(error, Error::Full { max: 1023, .. }));
    for index in 0..255 {
        registry.label(Label::new(format!("l{index}"), index)).unwrap();
    }
    let error = refused(registry.label(Label::new("last", 1)), "last");
    assert!(matches!(error, Error::Full { max: 255, .. }));
    let contents = contents(&registry);
    assert_eq!((contents.metrics.len(), contents.labels.len()), (1023, 255));
}

#[test]
fn serials_and_clusters_stay_within_what_pcp_can_number() {
    let directory = directory();
    let registry = registry(&directory);
    let _second = registry.indom("b").serial(2).build().unwrap();
    assert_eq!(registry.indom("a").build().unwrap().serial(), 1);
    assert_eq!(registry.indom("c").build().unwrap().serial(), 3);
    let error = refused(registry.indom("d").serial(2).build(), "serial 2");
    assert!(matches!(error, Error::NumberTaken { .. }));
    for serial in [0, 2048] {
        let error = refused(registry.indom("d").serial(serial).build(), "of d");
        assert!(matches!(error, Error::OutOfRange { .. }));
    }
    let builder = || Registry::builder("high").sealed().directory(directory.path());
    assert!(matches!(builder().cluster(4096).build(), Err(Error::OutOfRange { .. })));
    let high = builder().cluster(2048).build().unwrap();
    let error = refused(high.indom("d").build(), "2048");
    assert!(matches!(error, Error::IndomInHighCluster { .. }));
    let _singular = high.counter("c").build().unwrap();
}

#[test]
fn instances_have_a_number_and_a_name_of_their_own() {
    let directory = directory();
    let registry = registry(&directory);
    let indom = || registry.indom("disks").instance(1, "sda");
    let error = refused(indom().instance(1, "sdb").build(), "sdb");
    assert!(matches!(error, Error::NumberTaken { .. }));
    let error = refused(indom().instance(2, "sda").build(), "sda");
    assert!(matches!(error, Error::NameTaken { .. }));
    let error = refused(indom().instance(-1, "sdb").build(), "disks");
    assert!(matches!(error, Error::OutOfRange { found: -1, .. }));
    for name in [String::new(), "n".repeat(256)] {
        let error = refused(indom().instance(2, name).build(), "disks");
        assert!(matches!(error, Error::Length { .. }));
    }
    let error = refused(indom().instance(2, "a\0b").build(), "disks");
    assert!(matches!(error, Error::Nul { .. }));
    assert_eq!(contents(&registry).indoms, [], "a refused domain leaves no trace");
}

#[test]
fn help_has_at_most_255_bytes_and_no_nul() {
    let directory = directory();
    let registry = registry(&directory);
    let error = refused(registry.counter("a").help("x".repeat(256)).build(), "256");
    assert!(matches!(error, Error::Length { .. }));
    let error = refused(registry.indom("i").long_help("a\0b").build(), "long help of i");
    assert!(matches!(error, Error::Nul { .. }));
    let _counter = registry.counter("a").help("x".repeat(255)).build().unwrap();
    assert_eq!(contents(&registry).metrics[0].short_help, Some("x".repeat(255)));
}

#[test]
fn labels_are_checked_like_everything_else() {
    let directory = directory();
    let registry = registry(&directory);
    for name in ["", "1", "a.b", "a-b"] {
        assert!(matches!(registry.label(Label::new(name, 1)), Err(Error::LabelName { .. })));
    }
    let error = refused(registry.label(Label::json("a", "{x}")), "{x}");
    assert!(matches!(error, Error::LabelValue { .. }));
    let longest = "x".repeat(243 - "{\"a\":\"\"}".len());
    let error = refused(registry.label(Label::new("a", format!("{longest}x"))), "label of \"a\"");
    assert!(matches!(error, Error::Length { found: 244, max: 243, .. }));
    registry.label(Label::new("a", longest)).unwrap();
    let error = refused(registry.label(Label::new("a", 1)), "\"a\"");
    assert!(matches!(error, Error::NameTaken { .. }));
    let indom =
        registry.indom("disks").instance(1, "sda").instance_label("sdb", Label::new("a", 1));
    let error = refused(indom.build(), "disks has no instance sdb");
    assert!(matches!(error, Error::NoInstance { .. }));
    let automatic = Registry::builder("auto").sealed().directory(directory.path()).build().unwrap();
    let error = refused(automatic.label(Label::new("a", 1)), "label a");
    assert!(matches!(error, Error::LabelNeedsCluster { .. }));
}

#[test]
fn a_label_on_an_instance_arrives_at_that_instance() {
    let directory = directory();
    let registry = registry(&directory);
    let indom = registry.indom("disks").instance(1, "sda").instance(5, "sdb");
    let _indom = indom.instance_label("sdb", Label::new("zone", "b")).build().unwrap();
    let contents = contents(&registry);
    let label = &contents.labels[0];
    assert_eq!((label.class, label.identity), (LabelClass::Instances, 1));
    assert_eq!(label.instance, Some(id(5)));
}

#[test]
fn a_domain_of_another_registry_is_refused() {
    let directory = directory();
    let (one, other) = (registry(&directory), registry(&directory));
    let indom = one.indom("disks").names(["sda"]).build().unwrap();
    let error = refused(other.counter("a").build_instances(&indom), "disks");
    assert!(matches!(error, Error::OtherRegistry { .. }));
}

#[test]
fn no_increment_is_lost_while_the_file_is_published() {
    const EACH: u64 = 1_000_000;
    let directory = directory();
    let registry = registry(&directory);
    let total = registry.counter("total").build().unwrap();
    let writers: Vec<_> = (0..2)
        .map(|_| {
            let total = total.clone();
            std::thread::spawn(move || (0..EACH).for_each(|_| total.inc()))
        })
        .collect();
    registry.publish().unwrap();
    for writer in writers {
        writer.join().unwrap();
    }
    assert_eq!(cell(&registry, 0), 2 * EACH);
}

#[test]
fn registries_and_handles_go_to_other_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Registry>();
    shared::<Registry>();
    shared::<Counter<f32>>();
    shared::<Text>();
    shared::<crate::pcp::Instances<Gauge<i64>>>();
}

#[test]
fn elapsed_time_and_timers_are_counters_in_their_units() {
    let directory = directory();
    let registry = registry(&directory);
    let mut busy = registry.metric::<crate::pcp::Elapsed>("busy").build().unwrap();
    let requests = registry.timer("request.time").build().unwrap();
    busy.begin();
    requests.add(Duration::from_nanos(1500));
    registry.publish().unwrap();
    let contents = read(&registry);
    assert_eq!(contents.skipped, []);
    assert_eq!(contents.metrics[0].kind, MetricKind::Elapsed);
    assert_eq!(contents.metrics[1].units, Units::nanoseconds());
    assert_eq!(contents.metrics[1].semantics, Semantics::Counter);
    assert!(word(&registry, contents.values[0].extra).cast_signed() < 0, "runs across publication");
    busy.end();
    assert_eq!(word(&registry, contents.values[0].extra), 0);
    assert_eq!(Duration::from_micros(cell(&registry, 0)), busy.value());
    assert_eq!(cell(&registry, 1), 1500);
}

#[test]
fn an_optional_value_is_absent_at_first() {
    let directory = directory();
    let registry = registry(&directory);
    let depth =
        registry.metric::<Gauge<i32>>("depth").units(Units::count()).optional().build().unwrap();
    let ratio = registry.discrete::<f32>("ratio").optional().build().unwrap();
    let mode = registry.text("mode").optional().build().unwrap();
    registry.publish().unwrap();
    assert!(read(&registry).header.flags.contains(Flags::SENTINEL));
    let cells = || [cell(&registry, 0), cell(&registry, 1)];
    assert_eq!(cells(), [u64::MAX; 2]);
    assert_eq!(text(&registry, 2), b"");
    depth.set(-1);
    ratio.set(0.5);
    mode.set("fast");
    assert_eq!(cells(), [(-1i32).to_cell(), 0.5f32.to_cell()]);
    assert_eq!(text(&registry, 2), b"fast");
    depth.clear();
    ratio.clear();
    mode.clear();
    assert_eq!(cells(), [u64::MAX; 2]);
    assert!(f32::from_cell(cells()[1]).is_nan(), "also for a reader of the first half");
    assert_eq!(text(&registry, 2), b"");
}

#[test]
fn a_file_has_the_sentinel_flag_if_it_needs_or_wants_it() {
    let directory = directory();
    let builder = || Registry::builder("app").sealed().directory(directory.path());
    let has_flag = |registry: Registry| {
        let _total = registry.counter("total").build().unwrap();
        contents(&registry).header.flags.contains(Flags::SENTINEL)
    };
    assert!(!has_flag(builder().build().unwrap()));
    assert!(has_flag(builder().sentinel().build().unwrap()));
    let with_histogram = builder().build().unwrap();
    let buckets = Buckets::new(0, 3);
    let _latency = with_histogram.histogram("latency").buckets(buckets).build().unwrap();
    assert!(has_flag(with_histogram));
    let without = builder().no_sentinel().build().unwrap();
    let error = refused(without.metric::<Gauge<i32>>("depth").optional().build(), "depth");
    assert!(matches!(error, Error::NeedsSentinel { .. }));
    let buckets = Buckets::new(0, 3);
    let latency = without.histogram("latency").buckets(buckets).build();
    let error = refused(latency, "latency.bucket");
    assert!(matches!(error, Error::NeedsSentinel { .. }));
    assert!(!has_flag(without));
}

#[test]
fn an_overflow_file_has_the_sentinel_flag_if_it_needs_it() {
    let directory = directory();
    let registry = registry(&directory);
    for index in 0..1023 {
        let _counter = registry.counter(format!("m{index}")).build().unwrap();
    }
    let _depth = registry.metric::<Gauge<i64>>("depth").optional().build().unwrap();
    registry.publish().unwrap();
    assert!(!read(&registry).header.flags.contains(Flags::SENTINEL));
    let overflow = File::open(&registry.overflow()[0]).unwrap();
    let overflow = Contents::read(&overflow, &Limits::default()).unwrap();
    assert!(overflow.header.flags.contains(Flags::SENTINEL));
}

#[test]
fn an_isolated_value_shares_its_cache_line_with_no_other() {
    let directory = directory();
    let registry = registry(&directory);
    let disks = registry.indom("disks").names(["a", "b", "c"]).build().unwrap();
    let _one = registry.counter("one").build().unwrap();
    let _alone = registry.counter("alone").isolated().build_instances(&disks).unwrap();
    let _two = registry.counter("two").build_instances(&disks).unwrap();
    let _last = registry.gauge("last").isolated().build().unwrap();
    let contents = contents(&registry);
    let lines = |metric| contents.values_of(metric).map(|value| value.cell / 64);
    assert_eq!(contents.values.len(), 8);
    let all: Vec<_> = (0..4).flat_map(lines).collect();
    for line in lines(1).chain(lines(3)) {
        assert_eq!(all.iter().filter(|other| **other == line).count(), 1);
    }
}

#[test]
fn a_striped_counter_is_a_metric_whose_instances_add_up() {
    let directory = directory();
    let registry = registry(&directory);
    let hits = registry.counter("hits").units(Units::count()).build_striped(2).unwrap();
    let bytes = registry.counter("bytes").build_striped(2).unwrap();
    let one = registry.counter("one").build_striped(0).unwrap();
    registry.publish().unwrap();
    let barrier = std::sync::Barrier::new(4);
    std::thread::scope(|scope| {
        for amount in [1, 20, 300, 4000] {
            let (hits, bytes, barrier) = (&hits, &bytes, &barrier);
            scope.spawn(move || {
                hits.add(amount);
                bytes.inc();
                barrier.wait();
            });
        }
    });
    one.add(5);
    let contents = read(&registry);
    assert_eq!(contents.skipped, []);
    let names: Vec<_> = contents.indoms[0].instances.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["0", "1", "shared"]);
    assert_eq!(contents.indoms.len(), 2, "counters with as many stripes share a domain");
    let cells = |metric| contents.values_of(metric).map(|value| word(&registry, value.cell));
    assert_eq!((cells(0).sum::<u64>(), hits.value()), (4321, 4321));
    assert_eq!((cells(1).sum::<u64>(), bytes.value()), (4, 4));
    assert_eq!(cells(2).collect::<Vec<_>>(), [5]);
}

#[test]
fn stripes_of_many_chunks_count_in_cells_readers_see() {
    let directory = directory();
    let with_file = registry(&directory);
    let missing = directory.path().join("missing");
    let without = Registry::builder("app").sealed().directory(missing).lenient().build().unwrap();
    for registry in [with_file, without] {
        let counters = (0..40).map(|n| registry.counter(format!("n{n}")).build_striped(64));
        let counters: Vec<Counter> = counters.map(Result::unwrap).collect();
        registry.publish().unwrap();
        for (counter, number) in counters.iter().zip(1..) {
            counter.add(number);
        }
        let values: Vec<_> = counters.iter().map(Counter::value).collect();
        assert_eq!(values, (1..=40).collect::<Vec<_>>());
        if registry.is_published() {
            let contents = read(&registry);
            for (metric, value) in values.into_iter().enumerate() {
                let cells = contents.values_of(metric).map(|value| word(&registry, value.cell));
                assert_eq!(cells.sum::<u64>(), value, "{metric}");
            }
        }
    }
}

#[test]
fn histogram_shows_only_buckets_that_were_hit() {
    let directory = directory();
    let registry = registry(&directory);
    let buckets = Buckets::new(1, 10);
    let latency = registry.histogram("latency").units(Units::nanoseconds());
    let latency = latency.help("of requests").buckets(buckets).build().unwrap();
    let mut size = registry.histogram("size").buckets(buckets).build_owned().unwrap();
    registry.publish().unwrap();
    for value in [4, 5, 5, 100] {
        latency.record(value);
    }
    size.record(1);
    let contents = read(&registry);
    assert_eq!(contents.skipped, []);
    let names: Vec<_> = contents.metrics.iter().map(|metric| metric.name.as_str()).collect();
    assert_eq!(names, ["latency.bucket", "latency.sum", "size.bucket", "size.sum"]);
    let units: Vec<_> = contents.metrics.iter().map(|metric| metric.units).take(2).collect();
    assert_eq!(units, [Units::count(), Units::nanoseconds()]);
    let none = u64::MAX;
    let cells = |metric| {
        let values = contents.values_of(metric).map(|value| word(&registry, value.cell));
        values.collect::<Vec<_>>()
    };
    assert_eq!(cells(0), [none, none, none, none, 3, none, none, 1]);
    assert_eq!(cells(1), [114]);
    assert_eq!(cells(2), [none, 1, none, none, none, none, none, none]);
    assert_eq!(contents.indoms[0].instances[4].name, "4..5");
    let labels: Vec<_> =
        contents.labels.iter().map(|label| (label.name.as_str(), &*label.json_value)).collect();
    assert_eq!(
        labels[..3],
        [("bucket_precision", "1"), ("bucket_max", "10"), ("histogram", "\"nanosec\"")]
    );
    assert_eq!((latency.count(), latency.sum(), size.count()), (4, 114, 1));
}

#[test]
fn a_histogram_is_registered_completely_or_not_at_all() {
    let directory = directory();
    let builder = Registry::builder("app").sealed().directory(directory.path()).cluster(321);
    let registry = builder.per_process().build().unwrap();
    let buckets = Buckets::new(0, 3);
    let histogram = |name: &str| registry.histogram(name).buckets(buckets).build();
    let _sum = registry.gauge("taken.sum").build().unwrap();
    let error = refused(histogram("taken"), "taken.sum");
    assert!(matches!(error, Error::NameTaken { .. }));
    for index in 1..1022 {
        let _counter = registry.counter(format!("m{index}")).build().unwrap();
    }
    let error = refused(histogram("full"), "full.sum");
    assert!(matches!(error, Error::Full { max: 1023, .. }));
    assert_eq!(contents(&registry).metrics.len(), 1022);
}

#[test]
fn histogram_of_many_chunks_counts_in_cells_readers_see() {
    let directory = directory();
    for isolated in [false, true] {
        let registry = registry(&directory);
        let buckets = Buckets::new(8, u64::MAX);
        let latency = registry.histogram("latency");
        let latency = if isolated { latency.isolated() } else { latency };
        let latency = latency.buckets(buckets).build().unwrap();
        latency.record(0);
        registry.publish().unwrap();
        let last = buckets.count() - 1;
        let first_of = |bucket| buckets.bounds(bucket).unwrap().0;
        for bucket in 0..=last {
            (0..=bucket % 3).for_each(|_| latency.record(first_of(bucket)));
        }
        let contents = read(&registry);
        let bytes = std::fs::read(registry.path()).unwrap();
        for (bucket, value) in contents.values_of(0).enumerate() {
            let at = value.cell as usize;
            let count = u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
            assert_eq!(count, 1 + bucket as u64 % 3 + u64::from(bucket == 0), "{bucket}");
        }
        assert_eq!(contents.values_of(0).count(), last + 1);
    }
}

#[test]
fn a_histogram_without_a_file_counts_as_well() {
    let directory = directory();
    let missing = directory.path().join("missing");
    let registry = Registry::builder("app").sealed().directory(missing).lenient();
    let registry = registry.build().unwrap();
    let buckets = Buckets::new(8, u64::MAX);
    let mut latency = registry.histogram("latency").buckets(buckets).build_owned().unwrap();
    for value in [0, 1 << 40, u64::MAX] {
        latency.record(value);
    }
    assert_eq!((latency.count(), latency.sum()), (3, (1 << 40) - 1));
}

#[test]
fn a_name_is_a_leaf_or_a_branch() {
    let directory = directory();
    let registry = registry(&directory);
    let count = |name: &str| registry.counter(name).build().map(drop);
    for name in ["disk.read.count", "disk.read.bytes", "net"] {
        count(name).unwrap();
    }
    for (rejected, leaf, longer) in [
        ("disk", "disk", "disk.read.count"),
        ("disk.read", "disk.read", "disk.read.count"),
        ("disk.read.count.max", "disk.read.count", "disk.read.count.max"),
        ("net.in.bytes", "net", "net.in.bytes"),
    ] {
        let Err(Error::LeafAndBranch { leaf: found_leaf, longer: found_longer }) = count(rejected)
        else {
            panic!("{rejected}");
        };
        assert_eq!((found_leaf.as_str(), found_longer.as_str()), (leaf, longer));
    }
    for free in ["dis", "disk.readers", "nets", "disk.write"] {
        count(free).unwrap();
    }
}

/// The file has metrics of every kind. Its generations and its process differ in each run.
#[test]
#[cfg(target_endian = "little")]
fn a_sealed_file_has_the_bytes_that_it_always_had() {
    let directory = directory();
    let registry = registry(&directory);
    let disks = registry.indom("disks").instance(3, "sda").instance(7, "sdb").help("the disks");
    let disks = disks.label(Label::new("kind", "ssd")).build().unwrap();
    let reads = registry.counter("reads").units(Units::count()).help("reads of disks");
    let reads = reads.build_instances(&disks).unwrap();
    let depth: Gauge<i32> = registry.metric("depth").isolated().item(7).build().unwrap();
    let limit = registry.discrete::<f64>("limit").optional().build().unwrap();
    let mode = registry.text("mode").long_help("even or odd").build().unwrap();
    let work = registry.timer("work").build().unwrap();
    let hits = registry.counter("hits").build_striped(2).unwrap();
    let latency = registry.histogram("latency").units(Units::microseconds());
    let latency = latency.buckets(Buckets::new(0, 7)).build().unwrap();
    registry.label(Label::new("env", "test")).unwrap();
    registry.publish().unwrap();
    reads.iter().for_each(|disk| disk.add(2));
    depth.set(-3);
    limit.set(0.5);
    mode.set("even");
    work.add(Duration::from_micros(9));
    hits.inc();
    for value in [0, 3, 100] {
        latency.record(value);
    }

    let mut bytes = std::fs::read(registry.path()).unwrap();
    bytes[Header::GENERATION1..Header::GENERATION1 + 8].fill(0);
    bytes[Header::GENERATION2..Header::GENERATION2 + 8].fill(0);
    bytes[32..36].fill(0);
    let sum = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    assert_eq!((bytes.len(), sum), (8976, 0xeeb2_c980_b5ad_c933));
}

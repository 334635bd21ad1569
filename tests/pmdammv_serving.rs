//! MMV files of our writer, served by pmcd with pmdammv: `pminfo` shows what was
//! registered.

use std::time::Duration;

use mmv_format::layout::Version;
use mmv_runtime::ProcessMetrics;
use mmv_writer::pcp::{
    IndomMetricExt as _, MetricBuilderExt as _, NamedFamily, RegistryBuilderExt as _,
    RegistryExt as _,
};
use mmv_writer::{Buckets, Counter, Gauge, Label, Registry, Text, Timer, Units};

use crate::harness::oracle::Oracle;
use crate::harness::pmcd::Pmcd;
use crate::harness::pminfo;
use crate::harness::scratch::Scratch;
use crate::harness::wait;

const LONG_NAME: &str = "a.name.that.is.longer.than.the.63.characters.which.version.1.holds";

/// Expected output of pminfo for [`publish`]'s file; labels as version 3 has them.
const REGISTERED: &str = r#"
mmv.ours.requests.count PMID: 70.77.1 [requests]
    Data Type: 64-bit unsigned int  InDom: PM_INDOM_NULL 0xffffffff
    Semantics: counter  Units: count
    labels {"agent":"mmv","application":"ours","release":3,"owner":null}
Help:
Requests answered since the start.
Of both kinds.
    value 12345678901234

mmv.ours.temperature PMID: 70.77.2 [only one line]
    Data Type: 32-bit int  InDom: PM_INDOM_NULL 0xffffffff
    Semantics: instant  Units: none
    labels {"agent":"mmv","application":"ours","release":3}
Help:
only one line
    value -40

mmv.ours.sessions PMID: 70.77.3 One-line Help: Error: none
    Data Type: 32-bit unsigned int  InDom: PM_INDOM_NULL 0xffffffff
    Semantics: instant  Units: count x 10^3
    labels {"agent":"mmv","application":"ours","release":3}
Full Help: Error: none
    value 4000000000

mmv.ours.balance PMID: 70.77.4 [balance]
    Data Type: 64-bit int  InDom: PM_INDOM_NULL 0xffffffff
    Semantics: instant  Units: Kbyte
    labels {"agent":"mmv","application":"ours","release":3}
Help:
balance
    value -9223372036854775807

mmv.ours.rate PMID: 70.77.5 [rate]
    Data Type: float  InDom: PM_INDOM_NULL 0xffffffff
    Semantics: instant  Units: Mbyte / sec
    labels {"agent":"mmv","application":"ours","release":3}
Help:
rate
    value 0.1

mmv.ours.latency PMID: 70.77.6 [latency]
    Data Type: double  InDom: 70.157703 0x11826807
    Semantics: instant  Units: millisec
    labels {"agent":"mmv","application":"ours","release":3,"rotating":false}
Help:
latency
    inst [0 or "sda"] value 0.3333333333333333
    inst [4 or "sdb 1"] value 1e+300
    inst [0 or "sda"] labels {"agent":"mmv","application":"ours","release":3,"rotating":false,"bay":1}
    inst [4 or "sdb 1"] labels {"agent":"mmv","application":"ours","release":3,"rotating":false}

mmv.ours.state PMID: 70.77.7 [state]
    Data Type: string  InDom: PM_INDOM_NULL 0xffffffff
    Semantics: discrete  Units: none
    labels {"agent":"mmv","application":"ours","release":3}
Help:
state
    value "up and running"

mmv.ours.opened PMID: 70.77.1023 [highest item]
    Data Type: 32-bit unsigned int  InDom: 70.157703 0x11826807
    Semantics: discrete  Units: sec
    labels {"agent":"mmv","application":"ours","release":3,"rotating":false}
Help:
highest item
    inst [0 or "sda"] value 7
    inst [4 or "sdb 1"] value 0
    inst [0 or "sda"] labels {"agent":"mmv","application":"ours","release":3,"rotating":false,"bay":1}
    inst [4 or "sdb 1"] labels {"agent":"mmv","application":"ours","release":3,"rotating":false}
"#;

/// Publishes files whose instances lack values of some families, and with values that are NaN;
/// returns pmdammv's complaints. PCP 7 warns at each fetch; 6 logs the same, as [`Pmcd`] asks for
/// it.
fn complaints_about_gaps(oracle: &Oracle, by_default: bool) -> Vec<String> {
    let scratch = Scratch::new();
    let builder = Registry::builder("gaps").directory(scratch.mmv_dir());
    let builder = if by_default { builder } else { builder.no_sentinel() };
    let registry = builder.build().unwrap();
    let users = registry.indom("users").build().unwrap();
    let seen: NamedFamily<Counter<u64>> = registry.counter("seen").build_named(&users).unwrap();
    let level: NamedFamily<Gauge<f64>> = registry.gauge("level").build_named(&users).unwrap();
    let share: NamedFamily<Gauge<f32>> = registry.metric("share").build_named(&users).unwrap();
    let mood: NamedFamily<Text> = registry.text("mood").build_named(&users).unwrap();
    let busy: NamedFamily<Timer> = registry.timer("busy").build_named(&users).unwrap();
    seen.with("ann", Counter::inc).unwrap();
    level.with("bob", |level| level.set(f64::NAN)).unwrap();
    share.with("eve", |share| share.set(f32::NAN)).unwrap();
    mood.with("ann", |mood| mood.set("fine")).unwrap();
    busy.with("bob", |busy| busy.add(std::time::Duration::from_secs(1))).unwrap();
    for index in 0..100 {
        seen.with(&format!("u{index}"), Counter::inc).unwrap();
    }
    registry.gauge("ratio").build().unwrap().set(f64::NAN);
    if by_default {
        let buckets = Buckets::new(3, 1_000);
        registry.histogram("took").buckets(buckets).build().unwrap().record(7);
    }
    registry.announce();
    let pmcd = Pmcd::start(oracle, &scratch);
    let served = pminfo::ask(oracle, ["-h", &pmcd.host()]);
    assert_eq!(served["mmv.gaps.seen"].values.len(), 101);
    assert_eq!(served["mmv.gaps.mood"].values.len(), 1);
    assert_eq!(served["mmv.gaps.busy"].values.len(), 1);
    if by_default {
        assert_eq!(served["mmv.gaps.took.bucket"].values.len(), 1);
    }
    complaints(&scratch)
}

fn complaints(scratch: &Scratch) -> Vec<String> {
    let log = Pmcd::log(scratch);
    log.lines().filter(|line| line.contains("etch callback")).map(str::to_owned).collect()
}

#[test]
fn facade_recorder_leaves_no_gap_for_pmdammv() {
    let Some(oracle) = Oracle::find() else { return };
    let scratch = Scratch::new();
    let file = Registry::builder("facade").directory(scratch.mmv_dir());
    let registry = file.announce_interval(Duration::ZERO).build().unwrap();
    let recorder = mmv_metrics::Recorder::new(&registry);
    metrics::with_local_recorder(&recorder, || {
        for index in 0..10 {
            let user = format!("u{index}");
            metrics::counter!("requests", "user" => user.clone()).increment(1);
            metrics::gauge!("level", "user" => user.clone(), "half" => "left").set(f64::NAN);
            metrics::histogram!("took", "user" => user).record(f64::from(index));
        }
    });
    let pmcd = Pmcd::start(&oracle, &scratch);
    let served = pminfo::ask(&oracle, ["-h", &pmcd.host()]);
    assert_eq!(served["mmv.facade.requests_by"].values.len(), 10);
    assert_eq!(served["mmv.facade.took_by.bucket"].values.len(), 10);
    assert_eq!(complaints(&scratch), [""; 0]);
}

#[test]
fn absent_values_make_pmdammv_complain_only_on_request() {
    let Some(oracle) = Oracle::find() else { return };
    let complaints = complaints_about_gaps(&oracle, false);
    assert!(complaints.len() > 300, "they are found: {complaints:?}");
    assert_eq!(complaints_about_gaps(&oracle, true), [""; 0]);
}

#[test]
fn metrics_of_the_process_are_counters_and_sizes_for_pmdammv() {
    let Some(oracle) = Oracle::find() else { return };
    let scratch = Scratch::new();
    let registry = Registry::builder("own").sealed().directory(scratch.mmv_dir()).build().unwrap();
    let process = ProcessMetrics::new(&registry).unwrap();
    registry.publish().unwrap();
    process.update().unwrap();
    let pmcd = Pmcd::start(&oracle, &scratch);
    let served = pminfo::ask(&oracle, ["-h", &pmcd.host()]);
    assert_eq!(served.len(), 10);
    let value = |name: &str| served[name].values[""].parse::<u64>().unwrap();
    for (name, semantics, units) in [
        ("mmv.own.process.cpu.user", "counter", "microsec"),
        ("mmv.own.process.memory.resident", "instant", "Kbyte"),
        ("mmv.own.process.threads", "instant", "count"),
        ("mmv.own.process.page_faults.minor", "counter", "count"),
    ] {
        let metric = &served[name];
        assert_eq!((metric.semantics.as_str(), metric.units.as_str()), (semantics, units));
        // Of processor time there may be none yet, by the kernel's ticks.
        assert!(value(name) > 0 || name.ends_with("user"), "{name}");
    }
}

#[test]
fn a_file_of_version_1_is_served_as_registered() {
    served_as_registered(Version::V1);
}

#[test]
fn a_file_of_version_2_is_served_as_registered() {
    served_as_registered(Version::V2);
}

#[test]
fn a_file_of_version_3_is_served_with_its_labels_as_registered() {
    served_as_registered(Version::V3);
}

#[track_caller]
fn served_as_registered(version: Version) {
    let Some(oracle) = Oracle::find() else { return };
    let scratch = Scratch::new();
    let _published = publish(&scratch, version);
    let pmcd = Pmcd::start(&oracle, &scratch);
    let mut served = pminfo::ask(&oracle, ["-h", &pmcd.host()]);
    if version == Version::V2 {
        let long = served.remove(&format!("mmv.ours.{LONG_NAME}")).expect("the long name");
        assert_eq!(long.values[""], "18446744073709551615");
    }
    let mut registered = pminfo::parse(REGISTERED);
    if version != Version::V3 {
        for metric in registered.values_mut() {
            metric.labels.retain(|name, _| name == "agent");
            let instances = metric.instance_labels.values_mut();
            instances.for_each(|labels| labels.retain(|name, _| name == "agent"));
        }
    }
    for (name, metric) in &registered {
        assert_eq!(served.get(name), Some(metric), "{name}: served left, registered right");
    }
    assert_eq!(served.len(), registered.len(), "only these are served");
}

/// Publishes a file with every type, units and semantics, one indom, and for version 3 labels.
fn publish(scratch: &Scratch, version: Version) -> Registry {
    let builder = Registry::builder("ours").directory(scratch.mmv_dir()).cluster(77);
    let registry = builder.process(false).version(version).sealed().build().unwrap();
    let labels = version == Version::V3;
    if labels {
        registry.label(Label::new("application", "ours")).unwrap();
        registry.label(Label::new("release", 3).optional()).unwrap();
    }
    let mut disks = registry.indom("disks").serial(7).instance(0, "sda").instance(4, "sdb 1");
    let mut requests = registry.counter("requests.count").units(Units::count());
    if labels {
        disks =
            disks.label(Label::new("rotating", false)).instance_label("sda", Label::new("bay", 1));
        requests = requests.label(Label::json("owner", "null"));
    }
    let disks = disks.build().unwrap();
    let help = "Requests answered since the start.\nOf both kinds.";
    requests.help("requests").long_help(help).build().unwrap().add(12_345_678_901_234);
    let temperature = registry.metric::<Gauge<i32>>("temperature").help("only one line");
    temperature.build().unwrap().set(-40);
    let thousands = Units::new([0, 0, 1], [0, 0, 3]).unwrap();
    registry.metric::<Gauge<u32>>("sessions").units(thousands).build().unwrap().set(4_000_000_000);
    let balance =
        registry.metric::<Gauge<i64>>("balance").units(Units::kilobytes()).help("balance");
    balance.build().unwrap().set(i64::MIN + 1);
    let rate =
        registry.metric::<Gauge<f32>>("rate").units(Units::megabytes().per_second()).help("rate");
    rate.build().unwrap().set(0.1);
    let latency = registry.gauge("latency").units(Units::milliseconds()).help("latency");
    let latency = latency.build_instances(&disks).unwrap();
    latency.by_name("sda").unwrap().set(1.0 / 3.0);
    latency.get(1).unwrap().set(1e300);
    registry.text("state").help("state").build().unwrap().set("up and running");
    let opened = registry.discrete::<u32>("opened").units(Units::seconds()).item(1023);
    let opened = opened.help("highest item").build_instances(&disks).unwrap();
    opened.by_name("sda").unwrap().set(7);
    if version == Version::V2 {
        registry.discrete::<u64>(LONG_NAME).build().unwrap().set(u64::MAX);
    }
    registry.publish().unwrap()
}

#[test]
fn pmdammv_sees_updates_and_the_end_of_a_published_file() {
    let Some(oracle) = Oracle::find() else { return };
    let scratch = Scratch::new();
    let builder = Registry::builder("ours").directory(scratch.mmv_dir()).no_prefix();
    let registry = builder.sealed().build().unwrap();
    let total: Counter<u64> = registry.counter("total").units(Units::count()).build().unwrap();
    registry.publish().unwrap();
    let pmcd = Pmcd::start(&oracle, &scratch);
    let served = || pminfo::ask(&oracle, ["-h", &pmcd.host()]);
    total.add(5);
    assert_eq!(served()["mmv.total"].values[""], "5");
    total.inc();
    assert_eq!(served()["mmv.total"].values[""], "6");
    registry.withdraw();
    wait::until_true("pmdammv to see the end", || served().is_empty());
    total.inc();
}

//! pmproxy finds what the agent logs, as `docs/operators.md` describes for Grafana.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::symlink;
use std::path::Path;

use mmv_writer::pcp::{
    IndomMetricExt as _, MetricBuilderExt as _, NamedFamily, RegistryBuilderExt as _,
    RegistryExt as _,
};
use mmv_writer::{Counter, Gauge, Label, Registry, Units};
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::harness::agent::Agent;
use crate::harness::oracle::Oracle;
use crate::harness::pmcd::Pmcd;
use crate::harness::pmlogger::Pmlogger;
use crate::harness::pmproxy::Pmproxy;
use crate::harness::scratch::Scratch;
use crate::harness::wait;

struct Shop {
    orders: Counter<u64>,
    sales: NamedFamily<Counter<u64>>,
    registry: Registry,
}

impl Shop {
    fn open(scratch: &Scratch) -> Self {
        let registry = Registry::builder("shop").directory(scratch.mmv_dir()).cluster(77);
        let registry = registry.build().unwrap();
        registry.label(Label::new("owner", "Wile E. Coyote")).unwrap();
        let orders = registry.counter("orders").item(1).units(Units::count()).build().unwrap();
        let products = registry.indom("products").serial(1);
        let products = products.label(Label::new("kind", "goods")).build().unwrap();
        let sales = registry.counter("sales").item(2).build_named(&products).unwrap();
        let shop = Self { orders, sales, registry };
        shop.sell("anvils", 7);
        shop.sell("rockets", 8);
        shop
    }

    fn sell(&self, product: &str, count: u64) {
        self.sales.with(product, |sales| sales.add(count)).unwrap();
        self.registry.announce();
    }
}

/// Waits until pmproxy knows a metric; returns its only series.
#[track_caller]
fn series(proxy: &Pmproxy<'_>, metric: &str) -> String {
    let known = wait::until(&format!("pmproxy to know {metric}"), || {
        let known = all_series(proxy, metric);
        (!known.is_empty()).then_some(known)
    });
    assert_eq!(known.len(), 1, "{metric}: {known:?}");
    known.into_iter().next().expect("one")
}

fn all_series(proxy: &Pmproxy<'_>, metric: &str) -> BTreeSet<String> {
    let known = proxy.ask("query", "expr", metric);
    known.as_array().expect("series").iter().map(text).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}")).to_owned()
}

/// Returns the instances that a metric ever had: number and name, by the series of each.
fn instances(proxy: &Pmproxy<'_>, series: &str) -> BTreeMap<String, (i64, String)> {
    let known = proxy.ask("instances", "series", series);
    let known = known.as_array().expect("instances").iter();
    known
        .map(|one| {
            let number = one["id"].as_i64().expect("a number");
            (text(&one["instance"]), (number, text(&one["name"])))
        })
        .collect()
}

/// Waits until the newest value of a metric, or of one of its instances, is this one.
#[track_caller]
fn wait_for_value(proxy: &Pmproxy<'_>, metric: &str, instance: Option<&str>, value: u64) {
    let series = series(proxy, metric);
    let value = value.to_string();
    wait::until_true(&format!("{metric} {instance:?} to become {value}"), || {
        let names = instances(proxy, &series);
        let last = proxy.ask("query", "expr", &format!("{metric}[samples:1]"));
        last.as_array().expect("values").iter().any(|found| {
            let of = found["instance"].as_str();
            let name = of.and_then(|of| names.get(of)).map(|(_, name)| name.as_str());
            name == instance && found["value"] == *value
        })
    });
}

#[test]
fn pmproxy_follows_an_archive_while_it_is_written() {
    let Some(oracle) = Oracle::find() else { return };
    let scratch = Scratch::new();
    // As the operators' chapter describes: a link in PCP's directory.
    let pcp_archives = scratch.path().join("log/pmlogger");
    std::fs::create_dir(&pcp_archives).expect("a directory");
    symlink(scratch.archives(), pcp_archives.join("mmv-agent")).expect("a link");
    let Some(mut proxy) = Pmproxy::start(&oracle, &scratch, &pcp_archives) else { return };
    let shop = Shop::open(&scratch);
    shop.orders.add(3);
    let options = ["--interval", "500ms", "--own-metrics", "true", "--events", "true"];
    let agent = Agent::start_with(&scratch, &options);

    // Found, with all that is known of it.
    wait_for_value(&proxy, "mmv.shop.orders", None, 3);
    wait_for_value(&proxy, "mmv.shop.sales", Some("anvils"), 7);
    wait_for_value(&proxy, "mmv.shop.sales", Some("rockets"), 8);
    assert_described(&proxy);
    let directory = agent.archive().parent().expect("a directory").to_owned();
    assert!(directory.join(".mmv-agent.pid").exists(), "the lock is there all the time");

    // What comes later arrives: values, an instance, a metric.
    shop.orders.add(1);
    shop.sell("anvils", 1);
    wait_for_value(&proxy, "mmv.shop.orders", None, 4);
    wait_for_value(&proxy, "mmv.shop.sales", Some("anvils"), 8);
    shop.sell("springs", 9);
    let staff: Gauge<u32> = shop.registry.metric("staff").item(3).build().unwrap();
    staff.set(12);
    shop.registry.announce();
    wait_for_value(&proxy, "mmv.shop.sales", Some("springs"), 9);
    wait_for_value(&proxy, "mmv.shop.staff", None, 12);
    let sales = series(&proxy, "mmv.shop.sales");
    let known = instances(&proxy, &sales);
    let names: Vec<_> = known.values().map(|(_, name)| name.as_str()).collect();
    assert_eq!(BTreeSet::from_iter(&names), BTreeSet::from([&"anvils", &"rockets", &"springs"]));
    assert_eq!(names.len(), 3, "{known:?}");

    // Another archive, another volume, another pmproxy: the same series go on.
    agent.signal(Signal::SIGUSR2);
    wait::until_true("another archive", || agent.archives().len() == 2);
    shop.orders.add(1);
    shop.sell("rockets", 1);
    wait_for_value(&proxy, "mmv.shop.orders", None, 5);
    wait_for_value(&proxy, "mmv.shop.sales", Some("rockets"), 9);
    agent.signal(Signal::SIGHUP);
    let volume = format!("{}.1", agent.archives()[1].display());
    wait::until_true("another volume", || Path::new(&volume).exists());
    shop.orders.add(1);
    wait_for_value(&proxy, "mmv.shop.orders", None, 6);
    proxy.restart();
    shop.orders.add(1);
    shop.sell("springs", 1);
    wait_for_value(&proxy, "mmv.shop.orders", None, 7);
    wait_for_value(&proxy, "mmv.shop.sales", Some("springs"), 10);
    assert_eq!(instances(&proxy, &sales), known);

    assert!(all_series(&proxy, "mmv.agent.event*").is_empty(), "as configured");
    assert_one_with_pmlogger(&oracle, &scratch, &proxy, &pcp_archives);
}

#[track_caller]
fn assert_described(proxy: &Pmproxy<'_>) {
    let orders = series(proxy, "mmv.shop.orders");
    let described = |series: &str, key: &str| text(&proxy.ask("descs", "series", series)[0][key]);
    let keys = ["pmid", "indom", "semantics", "type", "units"];
    let found = keys.map(|key| described(&orders, key));
    assert_eq!(found, ["70.77.1", "none", "counter", "u64", "count"]);
    let sales = series(proxy, "mmv.shop.sales");
    let found = keys.map(|key| described(&sales, key));
    assert_eq!(found, ["70.77.2", "70.157697", "counter", "u64", "none"]);
    let labels = &proxy.ask("labels", "series", &orders)[0]["labels"];
    let names: Vec<_> = labels.as_object().expect("labels").keys().collect();
    assert_eq!(names, ["agent", "domainname", "hostname", "machineid", "owner"]);
    assert_eq!((&labels["agent"], &labels["owner"]), (&"mmv".into(), &"Wile E. Coyote".into()));
    // A query by labels, as a dashboard has it for a choice of hosts.
    let host = text(&labels["hostname"]);
    let chosen = format!("mmv.shop.*{{hostname==\"{host}\"}}");
    assert_eq!(all_series(proxy, &chosen), BTreeSet::from([orders.clone(), sales.clone()]));
    let of_program = "mmv.shop.*{owner==\"Wile E. Coyote\"}";
    assert_eq!(all_series(proxy, of_program), BTreeSet::from([orders]), "not with instances");
    let of_domain = "mmv.shop.*{kind==\"goods\"}";
    assert_eq!(all_series(proxy, of_domain), BTreeSet::from([sales]));
}

/// Checks that pmlogger's archive of the same program has the same series in it, those of
/// instances as well: their identity is made of names, units and all labels.
#[track_caller]
fn assert_one_with_pmlogger(
    oracle: &Oracle,
    scratch: &Scratch,
    proxy: &Pmproxy<'_>,
    pcp_archives: &Path,
) {
    let metrics = ["mmv.shop.orders", "mmv.shop.sales", "mmv.shop.staff"];
    let of_ours = metrics.map(|metric| series(proxy, metric));
    let instances_of_ours = instances(proxy, &of_ours[1]);
    let pmcd = Pmcd::start(oracle, scratch);
    let directory = pcp_archives.join("pmlogger");
    std::fs::create_dir(&directory).expect("a directory");
    let _logger = Pmlogger::start(oracle, scratch, &pmcd, &directory.join("archive"), None);
    // Only pmcd has this metric.
    series(proxy, "mmv.control.files");
    assert_eq!(metrics.map(|metric| series(proxy, metric)), of_ours);
    assert_eq!(instances(proxy, &of_ours[1]), instances_of_ours);
}

/// pmproxy takes what it reads before the labels of the host for another host's,
/// and instances before the other labels for other instances.
#[test]
fn archive_begins_with_host_labels_and_metadata() {
    let scratch = Scratch::new();
    let _shop = Shop::open(&scratch);
    let records = metadata_records(&Agent::harvest(&scratch));
    assert_eq!(records[0], Metadata::Label(CONTEXT), "{records:?}");
    let of_pmcd =
        |record: &Metadata| matches!(record, Metadata::Desc(PMCD) | Metadata::InDom(PMCD));
    let labels = |record: &Metadata| matches!(record, Metadata::Label(_));
    let instances = |record: &Metadata| *record == Metadata::InDom(MMV);
    let last_label = records.iter().rposition(labels).expect("labels");
    let first_instances = records.iter().position(instances).expect("instances");
    assert!(last_label < first_instances, "{records:?}");
    // The metadata of the first record, which pmlogger's prologue is, ends it.
    let first_of_pmcd = records.iter().position(|record| *record == Metadata::InDom(PMCD));
    let after = &records[first_of_pmcd.expect("a prologue")..];
    assert!(after.len() == 6 && after.iter().all(of_pmcd), "{records:?}");
}

/// Type of labels of a host, in an archive.
const CONTEXT: u32 = 1;
/// Domains of metrics: pmcd's, and that of MMV files.
const PMCD: u32 = 2;
const MMV: u32 = 70;

/// A record of metadata: a descriptor and instances with their domain of metrics, labels with the
/// type of their owner.
#[derive(Debug, PartialEq, Eq)]
enum Metadata {
    Desc(u32),
    InDom(u32),
    Label(u32),
    Text,
}

fn metadata_records(base: &Path) -> Vec<Metadata> {
    let bytes = std::fs::read(format!("{}.meta", base.display())).expect("the metadata");
    let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let mut records = Vec::new();
    let mut at = word(0) as usize;
    while at < bytes.len() {
        // After length and kind; instances and labels have a time of 12 bytes first.
        let body = at + 8;
        records.push(match word(at + 4) {
            1 => Metadata::Desc(word(body) >> 22),
            4 => Metadata::Text,
            5 | 6 => Metadata::InDom(word(body + 12) >> 22),
            7 => Metadata::Label(word(body + 12)),
            kind => panic!("a record of kind {kind} at {at}"),
        });
        at += word(at) as usize;
    }
    records
}

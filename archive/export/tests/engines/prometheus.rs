//! Prometheus evaluates PromQL over archives that it never imported.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use pcp_archive::Timestamp;
use test_archives::{Builder, at};

use super::engine::{Engine, block, program, suites};
use crate::archives::{START, begin_shop, event, shop, shop_values, with_events};
use crate::server::Server;

/// Returns the lines of the page for a configuration, with the address of a server.
fn configuration(server: &Server) -> String {
    block("prometheus.md", "yaml", 0).replace("127.0.0.1:9465", &server.address.to_string())
}

#[test]
#[ignore = "needs the engines that ci/engines fetches"]
fn promql_over_an_archive_has_the_values_of_the_archive() {
    for engine in suites("prometheus") {
        let Some(program) = program(&engine, "prometheus") else { return };
        let place = tempfile::tempdir().unwrap();
        shop(&place.path().join("tree/web1/a"), 3);
        let server = Server::start(&place.path().join("tree"), &[]);
        let prometheus =
            Engine::prometheus(&program, &place.path().join("prometheus"), &configuration(&server));
        let found = prometheus.query("mmv_shop_orders_total", START + 500);
        let [(labels, value)] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!(
            (labels["hostname"].as_str(), labels["exported_job"].as_str(), *value),
            (Some("web1.example.org"), Some("shop"), 3.0 * 520.0)
        );
        for (query, at, expected) in [
            ("mmv_shop_queue_age_seconds", 70, 0.1 + 0.011 * f64::from((70 + 20) % 7)),
            ("count(mmv_shop_requests_total)", 500, 3.0),
            ("mmv_shop_requests_total{instname=~\"/path/2.*\"}", 500, 3.0 * 520.0),
            // All records, and the 0 at which the second run began.
            ("count_over_time(mmv_shop_orders_total[2h])", 3_600, 361.0 - 10.0 + 1.0),
            ("rate(mmv_shop_orders_total[5m])", 900, 3.0),
        ] {
            let value = prometheus.value(query, START + at);
            assert!((value - expected).abs() < 1e-9, "{query}: {value}, not {expected}");
        }
        drop(prometheus);
    }
}

#[test]
#[ignore = "needs the engines that ci/engines fetches"]
fn promtool_accepts_both_formats_of_scrapes() {
    let Some(promtool) = program("promtool@sid", "promtool") else { return };
    let place = tempfile::tempdir().unwrap();
    shop(&place.path().join("tree/web1/a"), 3);
    let server = Server::start(&place.path().join("tree"), &[]);
    let text = server.metrics("");
    assert_eq!(text.status, 200, "{}", text.text());
    let file = place.path().join("text");
    std::fs::write(&file, &text.body).unwrap();
    let output = Command::new(&promtool)
        .args(["check", "metrics"])
        .stdin(std::fs::File::open(&file).unwrap())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{said}\n{}", text.text());
    let open_metrics = server.metrics("application/openmetrics-text");
    assert!(
        open_metrics.header.contains("application/openmetrics-text"),
        "{}",
        open_metrics.header
    );
    let file = place.path().join("open_metrics");
    std::fs::write(&file, &open_metrics.body).unwrap();
    let output = Command::new(&promtool)
        .args(["tsdb", "create-blocks-from", "openmetrics"])
        .arg(&file)
        .arg(place.path().join("blocks"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{said}\n{}", open_metrics.text());
}

/// Returns the number that `mmv-archive report` prints for one metric over one interval: a rate,
/// or the quantile of a histogram.
fn report(base: &Path, span: (i64, i64), metric: &str, options: &[&str]) -> f64 {
    let program = Path::new(env!("CARGO_BIN_EXE_mmv-export")).with_file_name("mmv-archive");
    let (from, length) = (format!("{}s", span.0), format!("{}s", span.1 - span.0));
    let output = Command::new(program)
        .args(["report", "--format", "csv", "-S", &from, "-T", &length, "-t", &length, "--rate"])
        .args(options)
        .args([base.as_os_str(), metric.as_ref()])
        .output()
        .expect("start mmv-archive, which `cargo build -p mmv-archive` builds");
    let text = String::from_utf8(output.stdout).unwrap();
    let last = text.lines().last().and_then(|line| line.split(',').next_back());
    last.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{text}"))
}

#[track_caller]
fn assert_near(found: f64, expected: f64, error: f64) {
    assert!((found - expected).abs() <= error, "{found}, not {expected} +- {error}");
}

/// The differences are those that `docs/engines/prometheus.md` explains.
#[test]
#[ignore = "needs the engines that ci/engines fetches"]
fn rates_over_restarts_and_marks_agree_with_report() {
    for engine in suites("prometheus") {
        let Some(program) = program(&engine, "prometheus") else { return };
        let place = tempfile::tempdir().unwrap();
        let base = place.path().join("tree/web1/a");
        shop(&base, 1);
        let server = Server::start(&place.path().join("tree"), &[]);
        let prometheus =
            Engine::prometheus(&program, &place.path().join("prometheus"), &configuration(&server));
        let ask = |query: &str, at| prometheus.value(query, START + at);
        let orders = |span| report(&base, span, "mmv.shop.orders", &[]);

        let rate = "rate(mmv_shop_orders_total[10m])";
        assert_near(ask(rate, 900), orders((300, 900)), 1e-9);
        // Over the mark both see 3 a second: it is the rate before and after it.
        assert_near(ask(rate, 2_400), orders((1_800, 2_400)), 1e-9);
        // Over the restart both count all that each run did. We divide by the time in which there
        // was a run, 90 and 505 s, Prometheus by the window.
        let growth = f64::from(3 * 90 + 3 * 505);
        assert_near(ask("increase(mmv_shop_orders_total[10m])", 1_500), growth, growth * 1e-3);
        assert_near(ask(rate, 1_500), growth / 600.0, growth / 600.0 * 1e-3);
        assert_near(orders((900, 1_500)), growth / 595.0, 1e-9);

        // The buckets are the same. Within one we take the middle, Prometheus a straight line
        // from the bound of the one before.
        let quantile = "histogram_quantile(0.5, rate(mmv_shop_latency_seconds_bucket[10m]))";
        for span in [(300, 900), (900, 1_500), (1_800, 2_400)] {
            let ours = report(&base, span, "mmv.shop.latency", &["--quantile", "0.5"]);
            assert_near(ours, 5.5, 0.0);
            assert_near(ask(quantile, span.1), 0.005, 0.002);
        }
        // Which has all hits, of a window whose ends are samples.
        let hits = ask("increase(mmv_shop_latency_seconds_count[10m])", 900);
        assert_near(hits, 2.0 * 600.0, 1e-6);
        drop(prometheus);
    }
}

#[test]
#[ignore = "needs the engines that ci/engines fetches"]
fn a_restart_that_no_counter_falls_at_is_seen() {
    let Some(program) = program("prometheus@sid", "prometheus") else { return };
    let place = tempfile::tempdir().unwrap();
    let base = place.path().join("tree/web1/a");
    let builder = Builder::of_host("web1", &base).metric("mmv.shop.orders", "u64 counter count");
    with_events(builder)
        .row(0, [("mmv.shop.orders", 5)])
        .row(10, event("restarted", at(4)))
        .row(10, [("mmv.shop.orders", 40)])
        .row(20, [("mmv.shop.orders", 40)])
        .finish();
    let server = Server::start(&place.path().join("tree"), &[]);
    let prometheus =
        Engine::prometheus(&program, &place.path().join("prometheus"), &configuration(&server));
    // 5 at 0 s, 0 at 4 s, 40 at 10 s.
    let resets = prometheus.value("resets(mmv_shop_orders_total[1m])", START + 20);
    assert_near(resets, 1.0, 0.0);
    let increase = prometheus.value("increase(mmv_shop_orders_total[20s500ms])", START + 20);
    assert_near(increase, 40.0 * 20.5 / 20.0, 0.6);
}

#[test]
#[ignore = "needs the engines that ci/engines fetches"]
fn scrapes_give_the_newest_values_with_their_times() {
    let Some(program) = program("prometheus@sid", "prometheus") else { return };
    let place = tempfile::tempdir().unwrap();
    let now = Timestamp::now().seconds();
    let at = |seconds: i64| Timestamp::new(now + seconds, 0).unwrap();
    let builder = begin_shop(&place.path().join("tree/web1/a"), "web1", 2)
        .row_at(at(-20), shop_values(5, 2))
        .row_at(at(-10), shop_values(15, 2));
    let server = Server::start(&place.path().join("tree"), &[]);
    let scrape = block("prometheus.md", "yaml", 1);
    let scrape = scrape.replace("127.0.0.1:9465", &server.address.to_string());
    let scrape = format!("global: {{ scrape_interval: 1s }}\n{scrape}");
    let prometheus = Engine::prometheus(&program, &place.path().join("prometheus"), &scrape);
    let find = |query: &str, expected: f64| {
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            let found = prometheus.query(query, Timestamp::now().seconds());
            if let [(labels, value)] = found.as_slice()
                && (value - expected).abs() < 1e-9
            {
                return labels.clone();
            }
            assert!(Instant::now() < until, "{query}: {found:?}");
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    let labels = find("mmv_shop_orders_total", 45.0);
    assert_eq!((&labels["job"], &labels["exported_job"]), (&"mmv".into(), &"shop".into()));
    let time = |seconds: i64| (now + seconds) as f64;
    find("timestamp(mmv_shop_orders_total)", time(-10));
    find("mmv_shop_latency_seconds_bucket{le=\"+Inf\"}", 30.0);
    let builder = builder.row_at(at(-1), shop_values(24, 2));
    find("mmv_shop_orders_total", 72.0);
    find("timestamp(mmv_shop_orders_total)", time(-1));
    builder.finish();
}

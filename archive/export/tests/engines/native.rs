//! Native histograms in Prometheus and VictoriaMetrics: how many series and bytes they take, and
//! their quantiles.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pcp_archive::replay::Replay;
use pcp_archive::{Archive, Timestamp};
use test_archives::{Builder, at};

use super::engine::{Engine, program};
use super::push::{RECEIVER, WINDOW, ago};
use crate::archives::START;
use crate::push::sender::messages;
use crate::server::get;

const HISTOGRAMS: usize = 100;
const RECORDS: usize = 120;
/// Seconds between two records.
const INTERVAL: usize = 30;
/// Values of a histogram from one record to the next.
const VALUES: usize = 20;
/// Those of precision 3 from 2^16 to 2^22 nanoseconds, 0.07 to 4 ms.
const BUCKETS: usize = 48;
const QUANTILES: [f64; 4] = [0.333, 0.517, 0.903, 0.987];

/// Returns the least and the greatest value of a bucket, in nanoseconds.
fn bounds(bucket: usize) -> (u64, u64) {
    let start = |bucket: usize| (8 + bucket as u64 % 8) << (13 + bucket / 8);
    (start(bucket), start(bucket + 1) - 1)
}

/// Writes an archive of the histograms `mmv.shop.latency`, whose last record is at a time.
/// Low values are more frequent.
fn write_histograms(base: &Path, end: i64) {
    let paths: Vec<String> = (0..HISTOGRAMS).map(|path| format!("path=/p/{path}")).collect();
    let mut names = Vec::new();
    for path in &paths {
        for bucket in 0..BUCKETS {
            let (first, last) = bounds(bucket);
            names.push(format!("{path},bucket={first}..{last}"));
        }
    }
    let mut builder = Builder::of_host("web1.example.org", base)
        .metric("mmv.shop.latency.bucket", "u64 counter count")
        .metric("mmv.shop.latency.sum", "u64 counter nanosec")
        .instances("mmv.shop.latency.bucket", names.iter().map(String::as_str))
        .instances("mmv.shop.latency.sum", paths.iter().map(String::as_str))
        .labels("mmv.shop.latency.bucket", &[("histogram", "nanosec")]);
    let mut counts = vec![0_u64; HISTOGRAMS * BUCKETS];
    let mut sums = vec![0_u64; HISTOGRAMS];
    for record in 0..RECORDS {
        for (path, sum) in sums.iter_mut().enumerate() {
            for value in 0..VALUES {
                let number = record * VALUES + value;
                let uniform = (number as f64 * 0.618_034 + path as f64 * 0.1).fract();
                let bucket = (BUCKETS as f64 * uniform * uniform) as usize;
                counts[path * BUCKETS + bucket] += 1;
                *sum += bounds(bucket).0;
            }
        }
        let hits = counts.iter().enumerate().filter(|(_, count)| **count > 0);
        let mut cells: Vec<(String, u64)> = hits
            .map(|(bucket, count)| (format!("mmv.shop.latency.bucket[{}]", names[bucket]), *count))
            .collect();
        for (path, sum) in paths.iter().zip(&sums) {
            cells.push((format!("mmv.shop.latency.sum[{path}]"), *sum));
        }
        let before = (RECORDS - 1 - record) * INTERVAL;
        builder = builder.row(end - START - before as i64, cells);
    }
    builder.finish();
}

/// Forwards connections to an address, and counts the bytes that go there.
fn counting_proxy(receiver: SocketAddr) -> (SocketAddr, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let bytes = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&bytes);
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let server = TcpStream::connect(receiver).unwrap();
            let mut answers = server.try_clone().unwrap();
            let mut back = client.try_clone().unwrap();
            std::thread::spawn(move || std::io::copy(&mut answers, &mut back));
            let counted = Arc::clone(&counted);
            std::thread::spawn(move || forward(client, server, &counted));
        }
    });
    (address, bytes)
}

fn forward(mut client: TcpStream, mut server: TcpStream, counted: &AtomicU64) {
    let mut buffer = vec![0; 0x1_0000];
    while let Ok(length @ 1..) = client.read(&mut buffer) {
        counted.fetch_add(length as u64, Ordering::Relaxed);
        if server.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    let _ = server.shutdown(Shutdown::Both);
}

/// Returns the quantile of each histogram as `report` computes it, in nanoseconds: over the
/// growth that `rate(...[5m])` of Prometheus has at this time, whose window has ten records.
fn reported(base: &Path, quantile: f64, end: i64) -> BTreeMap<String, f64> {
    let archive = Archive::open(base).unwrap();
    let mut selection = Replay::open(&archive);
    selection.select("mmv.shop.latency");
    assert_eq!(selection.quantiles(&[quantile]), 1);
    let replay = selection.load().unwrap();
    let time = |seconds: i64| -> Timestamp { at(seconds - START) };
    let sample = replay.at_since(time(end), time(end - 9 * INTERVAL as i64)).unwrap();
    let mut found = BTreeMap::new();
    for (instance, value) in sample.values.first().unwrap() {
        let path = instance.unwrap().get();
        found.insert(format!("path=/p/{path}"), value.as_f64().unwrap());
    }
    found
}

fn run_push(url: &str, options: &[&str], place: &Path, archives: &Path) {
    let output = push_command(url, options, place, archives);
    assert!(output.status.success(), "{}", messages(&output));
}

fn push_command(url: &str, options: &[&str], place: &Path, archives: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mmv-export"))
        .args(["push", "--url", url, "--state"])
        .args([&place.join("state"), archives])
        .args(options)
        .output()
        .unwrap()
}

/// What a Prometheus has after a push of the histograms.
struct Pushed {
    prometheus: Engine,
    series: usize,
}

fn push(
    program: &Path,
    place: &Path,
    archives: &Path,
    protocol: &str,
    form: &str,
    end: i64,
) -> Pushed {
    let options = [
        RECEIVER,
        &[
            "--web.remote-write-receiver.accepted-protobuf-messages=prometheus.WriteRequest",
            "--web.remote-write-receiver.accepted-protobuf-messages=io.prometheus.write.v2.Request",
            "--enable-feature=native-histograms",
        ],
    ];
    let prometheus =
        Engine::prometheus_with(program, &place.join("prometheus"), WINDOW, &options.concat());
    let (address, bytes) = counting_proxy(prometheus.address);
    let url = format!("http://{address}/api/v1/write");
    run_push(&url, &["--protocol", protocol, "--histograms", form], place, archives);
    let series =
        prometheus.value("count({__name__=~\"mmv_shop_latency_seconds.*\"})", end) as usize;
    let bytes = bytes.load(Ordering::Relaxed);
    let size = format!("{HISTOGRAMS} histograms x {RECORDS}");
    eprintln!("{protocol} {form}: {series} series, {bytes} bytes of {size}");
    Pushed { prometheus, series }
}

#[test]
#[ignore = "needs the engines that ci/engines fetches"]
fn native_histograms_in_prometheus_have_the_quantiles_of_report() {
    let Some(program) = program("prometheus@sid", "prometheus") else { return };
    let place = tempfile::tempdir().unwrap();
    let archives = place.path().join("web1");
    let end = ago(60);
    write_histograms(&archives.join("a"), end);
    let push = |protocol: &str, form: &str| {
        let place = place.path().join(format!("{protocol}-{form}"));
        push(&program, &place, &archives, protocol, form, end)
    };
    let classic = push("2.0", "classic");
    assert_eq!(classic.series, HISTOGRAMS * (BUCKETS + 3));
    drop(classic);
    for (protocol, form) in [("2.0", "custom"), ("2.0", "exponential"), ("1.0", "exponential")] {
        let pushed = push(protocol, form);
        assert_eq!(pushed.series, HISTOGRAMS);
        let rate = "rate(mmv_shop_latency_seconds[5m])";
        for quantile in QUANTILES {
            let query = format!("histogram_quantile({quantile}, {rate})");
            let found = pushed.prometheus.query(&query, end);
            assert_eq!(found.len(), HISTOGRAMS, "{query}");
            let reported = reported(&archives.join("a"), quantile, end);
            for (labels, value) in found {
                let path = labels["instname"].as_str().unwrap();
                let expected = reported[path];
                let nanos = value * 1e9;
                let is_equal = if form == "custom" {
                    let bucket =
                        (0..BUCKETS).map(bounds).find(|(_, last)| expected <= *last as f64);
                    let (first, last) = bucket.unwrap();
                    // The bucket begins after the last value of the one below.
                    nanos >= first as f64 - 1.001 && nanos <= last as f64 + 0.001
                } else {
                    // The width of an exponential bucket.
                    (nanos / expected - 1.0).abs() <= 2_f64.powf(1.0 / 256.0) - 1.0
                };
                assert!(is_equal, "{form} {quantile} {path}: {nanos}, not {expected}");
            }
        }
        let all = pushed.prometheus.value("sum(histogram_count(mmv_shop_latency_seconds))", end);
        assert_eq!(all as usize, HISTOGRAMS * VALUES * RECORDS, "{form}");
    }
}

/// Debian's Prometheus has no receiver of OTLP.
#[test]
#[ignore = "needs the engines that ci/engines fetches"]
fn exponential_histograms_of_otlp_have_their_quantiles_in_victoria_metrics() {
    let Some(program) = program("victoria-metrics@sid", "victoria-metrics") else { return };
    let place = tempfile::tempdir().unwrap();
    let archives = place.path().join("web1");
    let end = ago(60);
    write_histograms(&archives.join("a"), end);
    let victoria = Engine::victoria_metrics(&program, &place.path().join("victoria"));
    let url = format!("http://{}/opentelemetry/v1/metrics", victoria.address);
    run_push(&url, &["--protocol", "otlp", "--histograms", "exponential"], place.path(), &archives);
    assert_eq!(get(victoria.address, "/internal/force_flush", &[]).status, 200);
    let all = victoria.value("sum(mmv_shop_latency_seconds_count)", end);
    assert_eq!(all as usize, HISTOGRAMS * VALUES * RECORDS);
    for quantile in QUANTILES {
        // Of the growth between the same two records as in `reported`.
        let query = format!(
            "histogram_quantile({quantile}, mmv_shop_latency_seconds_bucket - \
             (mmv_shop_latency_seconds_bucket offset 270s default 0))"
        );
        let found = victoria.query(&query, end);
        assert_eq!(found.len(), HISTOGRAMS, "{query}");
        let reported = reported(&archives.join("a"), quantile, end);
        for (labels, value) in found {
            let path = labels["instname"].as_str().unwrap();
            let expected = reported[path];
            // The six powers of two of the values have room at the scale 7; bounds of ranges have
            // four digits.
            let error = (value * 1e9 / expected - 1.0).abs();
            assert!(error <= 2_f64.powf(1.0 / 128.0) - 1.0 + 1e-3, "{quantile} {path}: {error}");
        }
    }
}

#[test]
#[ignore = "needs the engines that ci/engines fetches"]
fn prometheus_without_native_histograms_ends_the_push_at_once() {
    let Some(program) = program("prometheus@sid", "prometheus") else { return };
    let place = tempfile::tempdir().unwrap();
    let archives = place.path().join("web1");
    write_histograms(&archives.join("a"), ago(60));
    let prometheus =
        Engine::prometheus_with(&program, &place.path().join("prometheus"), WINDOW, RECEIVER);
    let url = format!("http://{}/api/v1/write", prometheus.address);
    let output = push_command(&url, &["--histograms", "exponential"], place.path(), &archives);
    assert_eq!(output.status.code(), Some(76), "{}", messages(&output));
    assert!(messages(&output).contains("native histograms are disabled"), "{}", messages(&output));
}

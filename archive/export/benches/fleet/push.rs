//! `mmv-export push` to a receiver that reads requests and stores nothing.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};

use pcp_archive::Pmid;
use test_archives::Builder;

use crate::server;

const METRICS: u32 = 1_000;
/// Samples a second of processor time, at least: of a back-fill, and of records that are sent
/// one by one, as when following.
const BACK_FILL: f64 = 3e6;
const LIVE: f64 = 1.5e6;
/// Memory at most, in MB.
const MEMORY: f64 = 64.0;

pub(crate) fn measure() -> bool {
    let place = tempfile::tempdir().expect("a directory");
    let address = receiver();
    let mut is_kept = true;
    for (what, records, metrics, least) in [
        ("push: back-fill, 10 samples of a series a request", 10_000, METRICS, BACK_FILL),
        ("push: one sample of a series a request", 500, 10 * METRICS, LIVE),
    ] {
        let base = place.path().join(records.to_string()).join("web1/a");
        made(&base, metrics, records);
        let samples = f64::from(metrics) * records as f64;
        for protocol in ["1.0", "2.0", "otlp"] {
            let state = place.path().join(format!("state-{records}-{protocol}"));
            let (seconds, memory) = push(address, protocol, &state, &base);
            let rate = samples / seconds;
            let is_fast = protocol != "1.0" || rate >= least;
            let is_small = memory <= MEMORY;
            let verdict = if is_fast && is_small { "" } else { "  MISSED" };
            println!(
                "{what:<52} {protocol:<4} {:>6.2} M samples/s (limit of 1.0: {:.1}), {memory:.0} MB{verdict}",
                rate / 1e6,
                least / 1e6
            );
            is_kept &= is_fast && is_small;
        }
    }
    is_kept
}

fn made(base: &Path, metrics: u32, records: i64) {
    let names: Vec<_> = (0..metrics).map(|number| format!("mmv.shop.m{number}")).collect();
    let mut builder = Builder::of_host("web1.example.org", base);
    for (number, name) in (0..).zip(&names) {
        let pmid = Pmid::new(70, 1 + number / 1_000, number % 1_000).expect("a PMID");
        builder = builder.metric_with(pmid, name, "u64 counter count");
    }
    for record in 0..records {
        let values = names.iter().zip((0..).map(|number| record * number));
        builder = builder.row(record * 10, values);
    }
    builder.finish();
}

/// Sends an archive. Processor seconds, and the most memory in MB.
fn push(address: SocketAddr, protocol: &str, state: &Path, base: &Path) -> (f64, f64) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_mmv-export"))
        .args(["push", "--protocol", protocol, "--url", &format!("http://{address}/")])
        .arg("--state")
        .args([state, base])
        .stdout(Stdio::null())
        .spawn()
        .expect("start mmv-export");
    let peak = server::peak_memory(child.id());
    let used = wait4::Wait4::wait4(&mut child).expect("its end");
    assert!(used.status.success(), "{:?}", used.status);
    let seconds = (used.rusage.utime + used.rusage.stime).as_secs_f64();
    (seconds, peak.join().expect("its memory") as f64 / f64::from(1 << 20))
}

fn receiver() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || while answer(&stream).is_some() {});
        }
    });
    address
}

fn answer(mut stream: &TcpStream) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut header = String::new();
    while !header.ends_with("\r\n\r\n") {
        if reader.read_line(&mut header).ok()? == 0 {
            return None;
        }
    }
    let lower = header.to_lowercase();
    let length: u64 = lower.split("content-length: ").nth(1)?.lines().next()?.parse().ok()?;
    std::io::copy(&mut reader.take(length), &mut std::io::sink()).ok()?;
    let written = "X-Prometheus-Remote-Write-Samples-Written: 10000";
    write!(stream, "HTTP/1.1 204 X\r\n{written}\r\n\r\n").ok()
}

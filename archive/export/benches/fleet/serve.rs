//! Remote reads and scrapes.

use std::path::Path;
use std::time::Instant;

use test_archives::Builder;

use crate::archives::START;
use crate::row;
use crate::server::{Server, get, request};

/// An hour of a counter with this number of instances, a record every `step` seconds.
fn hour(base: &Path, instances: u64, step: usize) {
    let names: Vec<_> = (0..instances).map(|id| format!("path=/{id},code=200")).collect();
    let series: Vec<_> = names.iter().map(|name| format!("mmv.shop.requests[{name}]")).collect();
    let row = |second: u64| {
        let value = move |id: u64| second * (id % 100) + id;
        (second, series.iter().zip((0..).map(value)))
    };
    Builder::of_host("web1", base)
        .metric("mmv.shop.requests", "u64 counter count")
        .instances("mmv.shop.requests", names.iter().map(String::as_str))
        .rows((0..3_600).step_by(step).map(row))
        .finish();
}

/// An hour of a counter with 1 000 instances, one of which is replaced every second.
fn changing_hour(base: &Path) {
    let name = |id: u64| format!("path=/{id},code=200");
    let mut archive =
        Builder::of_host("web1", base).metric("mmv.shop.requests", "u64 counter count");
    for second in 0..3_600 {
        let ids = second..second + 1_000;
        let instances: Vec<(i32, String)> = ids.clone().map(|id| (id as i32, name(id))).collect();
        let cells = ids.map(|id| (format!("mmv.shop.requests[{}]", name(id)), second * id));
        archive = archive
            .numbered_instances(
                "mmv.shop.requests",
                instances.iter().map(|(number, name)| (*number, name.as_str())),
            )
            .row(second, cells);
    }
    archive.finish();
}

fn measure_first_scrape() -> bool {
    let place = tempfile::tempdir().expect("a directory");
    changing_hour(&place.path().join("web1/a"));
    let files = std::fs::read_dir(place.path().join("web1")).expect("an archive");
    let bytes: u64 =
        files.map(|file| file.expect("a file").metadata().expect("a size").len()).sum();
    let start = Instant::now();
    let server = Server::start(place.path(), &[]);
    let answer = server.metrics("text/plain");
    let seconds = start.elapsed().as_secs_f64();
    assert!(answer.text().lines().count() > 1_000);
    let what = format!("first scrape, {} MB with 3600 changes (wall)", bytes / 1_000_000);
    row(&what, seconds, 1.0)
}

/// A remote read of all samples of `mmv_shop_requests_total`.
fn read_request(is_chunked: bool) -> Vec<u8> {
    let name = b"mmv_shop_requests_total";
    let matcher = [&[0x12, 8][..], b"__name__", &[0x1a, name.len() as u8], name].concat();
    let varint = |mut number: u64| {
        let mut bytes = Vec::new();
        while number >= 0x80 {
            bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        bytes.push(number as u8);
        bytes
    };
    let (start, end) = (START as u64 * 1_000, (START as u64 + 3_600) * 1_000);
    let query = [
        &[0x08][..],
        &varint(start),
        &[0x10],
        &varint(end),
        &[0x1a, matcher.len() as u8],
        &matcher,
    ];
    let query = query.concat();
    let mut message = [&[0x0a, query.len() as u8][..], &query].concat();
    if is_chunked {
        message.extend([0x12, 1, 1]);
    }
    // One literal of snappy, of more than 60 bytes.
    [&[message.len() as u8, 60 << 2, message.len() as u8 - 1][..], &message].concat()
}

pub(crate) fn measure() -> bool {
    let mut are_kept = measure_first_scrape();
    for (step, limit) in [(10, 0.5), (1, 0.5)] {
        let place = tempfile::tempdir().expect("a directory");
        hour(&place.path().join("web1/a"), 1_000, step);
        let server = Server::start(place.path(), &[]);
        assert_eq!(server.metrics("").status, 200);
        for (is_chunked, form) in [(false, "samples"), (true, "chunks")] {
            let body = read_request(is_chunked);
            let before = server.processor_seconds();
            let mut bytes = 0;
            for _ in 0..10 {
                let answer = request(server.address, "POST", "/api/v1/read", &[], &body);
                assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
                bytes = answer.body.len();
            }
            let seconds = (server.processor_seconds() - before) / 10.0;
            let what = format!("remote read, 1000 series x 1 h at {step} s, {form}");
            are_kept &= row(&what, seconds, limit);
            println!("{:<52} {bytes:>8} bytes", "");
        }
    }
    let place = tempfile::tempdir().expect("a directory");
    hour(&place.path().join("web1/a"), 100_000, 1_800);
    let server = Server::start(place.path(), &[]);
    for (accept, form) in [("text/plain", "text"), ("application/openmetrics-text", "OpenMetrics")]
    {
        let first = server.metrics(accept);
        assert!(first.text().lines().count() > 100_000);
        let before = server.processor_seconds();
        for _ in 0..20 {
            assert_eq!(get(server.address, "/metrics", &[("Accept", accept)]).status, 200);
        }
        let seconds = (server.processor_seconds() - before) / 20.0;
        are_kept &= row(&format!("scrape of 100000 series, {form}"), seconds, 0.1);
    }
    are_kept
}

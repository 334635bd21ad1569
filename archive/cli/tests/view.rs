//! `mmv-archive view` by HTTP, without a browser: what it answers, to whom, and what it survives.
#![expect(clippy::float_cmp, reason = "what is sent is what was logged")]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use pcp_archive::envelope::{Envelope, Grid, Options};
use pcp_archive::scan::Selection;
use pcp_archive::{Archive, Timestamp};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use serde_json::Value as Json;
use test_archives::{Builder, scratch};

use crate::incident;
use crate::pictures;
use crate::programs;
use crate::view_server::{Response, Server};

fn start(base: &Path) -> Server {
    Server::start(&[base.to_str().unwrap(), "-Z", "UTC"])
}

fn of(header: &Json, name: &str, side: usize) -> String {
    let metrics = header["header"]["metrics"].as_array().unwrap();
    let pmid = metrics
        .iter()
        .find_map(|one| (one["name"] == name).then(|| one["of"][side].as_u64()).flatten());
    format!("{side}:{}", pmid.unwrap_or_else(|| panic!("{name} in {header}")))
}

/// A series: its header, minimum, maximum, mean and flags of each column.
type Series = (Json, [Vec<f64>; 3], Vec<u8>);

fn series(response: &Response) -> Vec<Series> {
    let bytes = &response.body;
    assert!(bytes.starts_with(b"MMVCOLS1"), "{}", String::from_utf8_lossy(bytes));
    let length = u32::from_le_bytes(bytes[8..12].try_into().unwrap()) as usize;
    let header: Json = serde_json::from_slice(&bytes[12..12 + length]).unwrap();
    let mut at = 12 + length;
    assert_eq!(at % 8, 0);
    let all = header["series"].as_array().unwrap();
    let count = |one: &Json| one["count"].as_u64().unwrap() as usize;
    let mut found: Vec<Series> = Vec::new();
    for one in all {
        let mut take = || {
            let doubles = bytes[at..at + 8 * count(one)].chunks(8);
            at += 8 * count(one);
            doubles.map(|double| f64::from_le_bytes(double.try_into().unwrap())).collect()
        };
        found.push((one.clone(), [take(), take(), take()], Vec::new()));
    }
    for (one, (.., flags)) in all.iter().zip(&mut found) {
        *flags = bytes[at..at + count(one)].to_vec();
        at += count(one);
    }
    assert_eq!(at, bytes.len());
    found
}

#[test]
fn columns_are_those_of_the_library_to_the_last_bit() {
    let (_directory, base) = pictures::archive();
    let server = start(&base);
    let header = server.get("header").json();
    let archive = Archive::open(&base).unwrap();
    for (name, raw) in [("pictures.wave", 0), ("pictures.many", 0), ("pictures.many", 1)] {
        let of = of(&header, name, 0);
        let query = format!("columns?from=10&to=250.5&columns=77&raw={raw}&of={of}");
        let found = series(&server.get(&query));
        let start = archive.label().start;
        let at = |millis: u64| start.saturating_add(Duration::from_millis(millis));
        let mut selection = Selection::new(&archive);
        selection.select(name);
        let grid = Grid::new(at(10_000)..=at(250_500), 77);
        let options = Options { rates: raw == 0, ..Options::default() };
        let envelope = Envelope::read(&selection, grid, options).unwrap();
        assert_eq!(found.len(), envelope.series.len());
        for ((place, [low, high, mean], flags), series) in found.iter().zip(&envelope.series) {
            let first = place["first"].as_u64().unwrap() as u32;
            let mut known = 0;
            for (column, cell) in series.cells() {
                let i = (column - first) as usize;
                assert_eq!((low[i], high[i], mean[i]), (cell.minimum, cell.maximum, cell.mean()));
                assert_eq!(
                    flags[i],
                    1 | u8::from(cell.joined) << 1 | u8::from(cell.count > 0) << 2
                );
                known += 1;
            }
            assert_eq!(flags.iter().filter(|flags| **flags != 0).count(), known);
            assert_eq!(place["rate"], series.is_rate);
        }
    }
}

#[test]
fn only_the_page_itself_is_answered() {
    let (_directory, base) = pictures::archive();
    let server = start(&base);
    let (path, host) = (server.path(), server.host());
    let request = |line: &str, fields: &str| {
        server.send(&format!("{line} HTTP/1.1\r\n{fields}Connection: close\r\n\r\n"))
    };
    let own = format!("Host: {host}\r\n");
    let page = request(&format!("GET {path}"), &own);
    assert_eq!(page.status, 200, "{page:?}");
    let port = host.split(':').nth(1).unwrap();
    let local = format!("Host: localhost:{port}\r\n");
    assert_eq!(request(&format!("GET {path}"), &local).status, 200);

    // Names that are made to mean this address, and requests without one.
    for fields in [
        format!("Host: evil.example:{port}\r\n"),
        "Host: evil.example\r\n".to_owned(),
        "Host: 127.0.0.1\r\n".to_owned(),
        format!("Host: 127.0.0.1:{port}.evil.example\r\n"),
        format!("{own}Host: evil.example\r\n"),
        String::new(),
    ] {
        let response = request(&format!("GET {path}"), &fields);
        assert!([400, 403].contains(&response.status), "{fields}: {response:?}");
    }
    assert_eq!(request(&format!("GET http://evil.example{path}"), &own).status, 403);

    // Other tokens: one digit differs, a part, none, another place.
    let token = path.trim_matches('/');
    let other = if token.ends_with('0') { '1' } else { '0' };
    let changed = format!("/{}{other}/", &token[..token.len() - 1]);
    for path in [&*changed, &format!("/{}/", &token[..8]), "//", "/", "/header", "/favicon.ico"] {
        assert_eq!(request(&format!("GET {path}"), &own).status, 404, "{path}");
    }
    assert_eq!(token.len(), 32);
    assert_ne!(server.path(), start(&base).path(), "another token each time");

    for method in ["POST", "PUT", "DELETE", "HEAD", "OPTIONS", "TRACE", "ANY"] {
        let response = request(&format!("{method} {path}"), &own);
        assert_eq!(response.status, 405, "{method}");
        assert!(response.head.contains("\r\nallow: get\r\n"), "{response:?}");
    }
    let body = format!("{own}Content-Length: 3\r\n");
    assert_eq!(request(&format!("GET {path}"), &body).status, 405, "a body");

    // A page of another site can ask; it is not answered, and could not read the answer.
    let cross = format!("{own}Origin: http://evil.example\r\nSec-Fetch-Site: cross-site\r\n");
    assert_eq!(request(&format!("GET {path}header"), &cross).status, 403);
    assert_eq!(request(&format!("GET {path}"), &cross).status, 200, "a link leads here");
    for line in ["GET", "", "GET / HTTP/9.9", "\0\0\0"] {
        let response = server.send(&format!("{line}\r\n\r\n"));
        assert!([0, 400].contains(&response.status), "{line}: {response:?}");
    }
}

#[test]
fn responses_forbid_all_that_the_page_does_not_need() {
    let (_directory, base) = pictures::archive();
    let server = start(&base);
    for question in ["", "header", "now", "events?from=0&to=9", "nothing"] {
        let head = server.get(question).head;
        for field in [
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
            "cache-control: no-store",
            "cross-origin-resource-policy: same-origin",
            "content-security-policy: default-src 'none'",
            "frame-ancestors 'none'",
        ] {
            assert!(head.contains(field), "{question}: {field} in {head}");
        }
        assert!(!head.contains("access-control"), "{head}");
    }
    let (one, other) = (server.get(""), server.get(""));
    assert!(one.head.contains("script-src 'nonce-") && one.head.contains("connect-src 'self'"));
    assert_ne!(one.body, other.body, "another nonce each time");
}

#[test]
fn what_archives_have_is_never_part_of_the_html() {
    let (_directory, base) = pictures::archive();
    let server = start(&base);
    let page = server.get("").text();
    for text in ["pictures", "alert", "onerror", "example.com"] {
        assert!(!page.contains(text), "{text}");
    }
    assert_eq!(page.matches("</script>").count(), 2);
    let header = server.get("header");
    assert!(header.head.contains("content-type: application/json\r\n"));
    assert!(header.text().contains(&pictures::HOSTILE.replace('"', "\\\"")));
}

fn raise_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
}

fn threads(server: &Server) -> usize {
    std::fs::read_dir(format!("/proc/{}/task", server.id())).unwrap().count()
}

#[test]
fn half_open_connections_hold_no_threads() {
    let (_directory, base) = pictures::archive();
    let server = start(&base);
    raise_descriptors();
    assert_eq!(server.get("now").status, 200);
    let before = threads(&server);
    let half = [String::new(), "GET /".to_owned(), format!("GET {}", server.path())];
    let open: Vec<TcpStream> = (0..1000)
        .map(|n| {
            let mut stream = server.connect();
            // Those that had to give way already refuse to be written to.
            let _ = stream.write_all(half[n % 3].as_bytes());
            stream
        })
        .collect();
    let begin = Instant::now();
    for _ in 0..20 {
        assert_eq!(server.get("header").status, 200);
    }
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    assert!(threads(&server) <= before + 2, "{} threads", threads(&server));
    let descriptors = std::fs::read_dir(format!("/proc/{}/fd", server.id())).unwrap().count();
    assert!(descriptors < 200, "{descriptors} descriptors");
    drop(open);
    assert_eq!(server.get("").status, 200);
}

#[test]
fn a_header_that_does_not_end_ends_the_connection() {
    let (_directory, base) = pictures::archive();
    let server = start(&base);
    let mut slow = server.connect();
    slow.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n").unwrap();
    let mut idle = server.connect();
    let (path, host) = (server.path(), server.host());
    write!(idle, "GET {path}now HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
    let begin = Instant::now();
    let mut rest = Vec::new();
    for stream in [&mut slow, &mut idle] {
        stream.read_to_end(&mut rest).unwrap();
    }
    let elapsed = begin.elapsed();
    assert!((5..30).contains(&elapsed.as_secs()), "{elapsed:?}");
    assert!(rest.windows(8).any(|bytes| bytes == b"HTTP/1.1"));
}

#[test]
fn a_header_without_measure_is_refused() {
    let (_directory, base) = pictures::archive();
    let server = start(&base);
    let (path, host) = (server.path(), server.host());
    let long = format!("X: {}\r\n", "x".repeat(100_000));
    let many = "X: y\r\n".repeat(1000);
    for fields in [long, many] {
        let mut stream = server.connect();
        // The server may close it before all is written.
        let _ = write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n");
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");
    }
    assert_eq!(server.get("now").status, 200);
}

#[test]
fn a_question_that_makes_no_sense_is_refused() {
    let (_directory, base) = pictures::archive();
    let server = start(&base);
    for (question, status) in [
        ("columns", 400),
        ("columns?from=0&to=1&columns=100000&raw=0&of=0:1", 400),
        ("columns?from=5&to=1&columns=10&raw=0&of=0:1", 400),
        ("../header", 400),
        ("header/", 400),
        ("columns?from=0&to=1&columns=10&raw=0&of=9:1", 200),
        ("columns?from=-1e11&to=1e11&columns=8192&raw=0&of=0:1", 200),
        ("sample?at=1e11&forward=1&of=0:1", 200),
        ("heat?from=0&to=1&of=0:1", 200),
    ] {
        assert_eq!(server.get(question).status, status, "{question}");
    }
}

#[test]
fn archive_truncated_while_viewed_is_an_error() {
    let (_directory, base) = pictures::archive();
    let server = start(&base);
    let header = server.get("header").json();
    let of = of(&header, "pictures.wave", 0);
    let query = format!("columns?from=0&to=299&columns=100&raw=0&of={of}");
    let whole = server.get(&query);
    assert_eq!(whole.status, 200);
    let volume = base.with_extension("0");
    let bytes = std::fs::read(&volume).unwrap();
    std::fs::OpenOptions::new().write(true).open(&volume).unwrap().set_len(20_000).unwrap();
    let cut = server.get(&query);
    assert_eq!(cut.status, 500, "{cut:?}");
    assert!(cut.text().contains("pictures.0: offset "), "{cut:?}");
    // It is opened again as it is now, and then again.
    let end = |now: &Json| now["end"].as_f64().unwrap();
    let before = end(&header["now"]);
    let shorter = until(|| Some(server.get("now").json()).filter(|now| end(now) < before));
    assert_eq!(server.get(&query).status, 200, "{shorter}");
    std::fs::write(&volume, bytes).unwrap();
    until(|| Some(server.get("now").json()).filter(|now| end(now) == before));
    assert_eq!(server.get(&query).body, whole.body);
    // Without its metadata it cannot be opened: what was there stays.
    let metadata = base.with_extension("meta");
    std::fs::rename(&metadata, base.with_extension("away")).unwrap();
    let now = until(|| Some(server.get("now").json()).filter(|now| !now["problem"].is_null()));
    assert_eq!(end(&now), before);
    assert_eq!(server.get(&query).body, whole.body);
}

fn until<T>(mut found: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < end, "it does not come");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn an_archive_that_grows_is_followed() {
    let directory = scratch();
    let row = |name, second| (second, [(name, second)]);
    let builder = Builder::in_directory(directory.path(), "grows")
        .metric("grows.first", "u32 instant")
        .rows((0..10).map(|second| row("grows.first", second)));
    let base = directory.path().join("grows");
    let server = start(&base);
    let header = server.get("header").json();
    let begin = header["header"]["start"].as_f64().unwrap();
    let length = |now: &Json| (now["end"].as_f64().unwrap() - begin).round() as i64;
    assert_eq!(length(&header["now"]), 9);
    let builder = builder.rows((10..20).map(|second| row("grows.first", second)));
    let now = until(|| Some(server.get("now").json()).filter(|now| length(now) == 19));
    assert_eq!(now["generation"], 0);
    let builder = builder.metric("grows.second", "u32 instant").rows([row("grows.second", 20)]);
    let now = until(|| Some(server.get("now").json()).filter(|now| now["generation"] == 1));
    assert_eq!(length(&now), 20);
    let header = server.get("header").json();
    let of = of(&header, "grows.second", 0);
    let found = series(&server.get(&format!("columns?from=0&to=20&columns=20&raw=0&of={of}")));
    assert_eq!(found[0].1[1], [20.0]);
    builder.finish();
}

#[test]
fn archives_that_appear_in_a_directory_are_followed() {
    let directory = scratch();
    let write = |name: &str, from: i32| {
        let builder = Builder::in_directory(directory.path(), name);
        builder
            .metric("a.metric", "u32 instant")
            .rows((from..from + 10).map(|second| (second, [("a.metric", second)])))
            .finish();
    };
    write("one", 0);
    let server = start(directory.path());
    let header = server.get("header").json();
    write("two", 20);
    let end = header["header"]["start"].as_f64().unwrap() + 29.0;
    until(|| {
        Some(server.get("now").json())
            .filter(|now| (now["end"].as_f64().unwrap() - end).abs() < 1e-3)
    });
    let of = of(&header, "a.metric", 0);
    let found = series(&server.get(&format!("columns?from=0&to=30&columns=30&raw=0&of={of}")));
    assert_eq!(found[0].2.iter().filter(|flags| **flags & 1 == 1).count(), 20);
}

#[test]
fn samples_are_found_in_both_directions() {
    let (_directory, base) = pictures::archive();
    let server = start(&base);
    let header = server.get("header").json();
    let sample = |name: &str, at: f64, forward: bool| {
        let (of, forward) = (of(&header, name, 0), u8::from(forward));
        let found = server.get(&format!("sample?at={at}&forward={forward}&of={of}"));
        found.json().as_f64().map(f64::round)
    };
    assert_eq!(sample("pictures.wave", 10.5, true), Some(11.0));
    assert_eq!(sample("pictures.wave", 119.5, true), Some(180.0), "over the gap");
    assert_eq!(sample("pictures.wave", 179.5, false), Some(119.0));
    assert_eq!(sample("pictures.once", 0.0, true), Some(200.0));
    assert_eq!(sample("pictures.once", 299.0, false), Some(200.0));
    assert_eq!(sample("pictures.once", 201.0, true), None);
    assert_eq!(sample("pictures.once", 199.0, false), None);
}

#[test]
fn histograms_and_events_are_those_of_a_snapshot() {
    let (_directory, base) = programs::shop(true);
    let server = start(&base);
    let header = server.get("header").json();
    let histogram = &header["header"]["histograms"][0];
    assert_eq!(histogram["name"], "mmv.shop.latency");
    let heats = server.get(&format!("heat?from=0&to=100&of=0:{}", histogram["pmid"])).json();
    let counts = heats[0]["cells"].as_array().unwrap().iter().map(|cell| cell[2].as_f64().unwrap());
    assert_eq!(counts.sum::<f64>(), 36.0);
    let events = server.get("events?from=0&to=100").json();
    let kinds: Vec<_> = events.as_array().unwrap().iter().map(|one| one["kind"].clone()).collect();
    assert_eq!(kinds, ["started", "appeared", "vanished", "appeared"]);
    assert_eq!(server.get("events?from=50&to=70").json().as_array().unwrap().len(), 1);
}

#[test]
fn archives_side_by_side_may_overlap_and_are_moved_on_request() {
    let (_one, today) = pictures::archive();
    let (_other, shop) = programs::shop(true);
    let (a, b) = (format!("A={}", today.display()), format!("B={}", today.display()));
    let c = format!("C={}", shop.display());
    let server = Server::start(&[&a, &b, &c]);
    let header = server.get("header").json();
    let names: Vec<_> = header["header"]["sides"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].clone())
        .collect();
    assert_eq!(names, ["A", "B", "C"]);
    let [one, other] = [0, 1].map(|side| of(&header, "pictures.wave", side));
    let query = format!("columns?from=0&to=299&columns=100&raw=0&of={one},{other}");
    let found = series(&server.get(&query));
    assert_eq!(found.len(), 2);
    assert_eq!(found[0].1, found[1].1);
    assert_eq!((&found[0].0["side"], &found[1].0["side"]), (&0.into(), &1.into()));

    // 250 s later: half of it is over the first one, and with `--align start` all of it.
    let later = Builder::named("later")
        .metric("pictures.wave", "double instant")
        .rows((250..260).map(|second| (second, [("pictures.wave", second)])))
        .finish();
    let b = format!("B={}", later.display());
    let metric = "pictures.wave";
    for (options, from) in [(&[][..], 250), (&["--align", "start"][..], 0)] {
        let server = Server::start(&[&[&*a, &b, metric], options].concat());
        let header = server.get("header").json();
        // Another type of units makes it another metric, of the same name.
        let wave = header["header"]["metrics"].as_array().unwrap();
        assert_eq!(wave.len(), 2, "{header}");
        let of = format!("1:{}", wave[1]["of"][1]);
        let query = format!("columns?from=0&to=300&columns=300&raw=0&of={of}");
        let found = series(&server.get(&query));
        assert_eq!(found[0].0["first"], from);
        assert_eq!(found[0].1[0].len(), 10);
        let shift = header["header"]["sides"][1]["shift"].as_f64().unwrap();
        assert_eq!(shift.round() as i64, from - 250);
    }
}

#[test]
fn it_ends_at_a_signal() {
    let (_directory, base) = pictures::archive();
    for signal in [Signal::INT, Signal::TERM] {
        let server = start(&base);
        let _open = server.connect();
        assert_eq!(server.get("").status, 200);
        let pid = rustix::process::Pid::from_raw(server.id() as i32).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
        assert!(server.wait(), "{signal:?}");
    }
}

#[test]
fn the_window_of_the_command_line_is_in_the_address() {
    let (_directory, base) = pictures::archive();
    let server = Server::start(&[base.to_str().unwrap(), "--last", "1m"]);
    let (_, window) = server.address().split_once('#').unwrap();
    let end = Archive::open(&base).unwrap().end();
    let start = Timestamp::new(end.seconds() - 60, 0).unwrap().seconds();
    assert_eq!(window, format!("from={start}.000000&to={}.000000", end.seconds()));
}

#[test]
fn movements_are_those_of_the_metrics_that_changed() {
    let (_directory, base) = incident::jobs_among_others();
    let server = Server::start(&[base.to_str().unwrap(), "-Z", "UTC"]);
    let found = server.get("movements?from=0&to=239").json();
    let program = |name: &str| found["programs"][name].as_f64();
    assert!(program("mmv.jobs") > program("mmv.billing") && program("mmv.api").is_none());
    let found = found["metrics"].as_array().unwrap();
    let size = |name: &str, instance: Option<&str>| -> f64 {
        let mut own =
            found.iter().filter(|one| one["name"] == name && one["instance"].as_str() == instance);
        own.next().map_or(0.0, |one| one["size"].as_f64().unwrap())
    };
    // From 4096..6143 us to 65536..98303 us, from 0 to 40/s, from 1.5 to 400.
    let p99 = size("mmv.jobs.latency", Some("endpoint=/submit"));
    assert!((p99 - 15.0 / 17.0).abs() < 0.01, "{p99}");
    assert!(size("mmv.jobs.failures", None) > 0.99 && size("mmv.jobs.queue.depth", None) > 0.98);
    assert!(size("mmv.billing.requests", None) > 0.2);
    assert!(size("mmv.jobs.latency", Some("endpoint=/poll")).abs() < 1e-9);
    assert_eq!(found.iter().filter(|one| one["name"].as_str().unwrap().contains("api")).count(), 0);
    let none = server.get("movements?from=1&to=1").json();
    assert_eq!(none, serde_json::json!({ "programs": {}, "metrics": [] }));
}

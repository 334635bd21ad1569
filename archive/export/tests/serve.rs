//! Peers of `mmv-export serve` that lie, hang and ask for too much.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use test_archives::Builder;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::archives::shop;
use crate::server::{Server, get, request};

fn served(options: &[&str]) -> (TempDir, Server) {
    let place = tempfile::tempdir().unwrap();
    shop(&place.path().join("web1/a"), 3);
    let server = Server::start(place.path(), options);
    assert_eq!(server.metrics("").status, 200);
    (place, server)
}

/// Writes an archive with a million values of `mmv_shop_orders_total`, which hardly compress.
fn many_samples(base: &Path) {
    let names: Vec<_> = (0..1_000).map(|path| format!("path=/{path}")).collect();
    let series: Vec<_> = names.iter().map(|name| format!("mmv.shop.orders[{name}]")).collect();
    Builder::of_host("web1", base)
        .metric("mmv.shop.orders", "u64 counter count")
        .instances("mmv.shop.orders", names.iter().map(String::as_str))
        .rows((0..1_000).map(|second: u64| {
            let value = move |id| (second * 1_000 + id) * 0x09e3_779b_97f4;
            (second, series.iter().zip((0..1_000).map(value)))
        }))
        .finish();
}

/// Encodes a request for all of `mmv_shop_orders_total`, as `protoc` and snappy make it.
fn read_request() -> Vec<u8> {
    let matcher = [&[0x12, 8][..], b"__name__", &[0x1a, 21], b"mmv_shop_orders_total"].concat();
    let start_and_end =
        [&[0x08, 0][..], &[0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]].concat();
    let query = [&start_and_end[..], &[0x1a, matcher.len() as u8], &matcher].concat();
    let message = [&[0x0a, query.len() as u8][..], &query].concat();
    [&[message.len() as u8, (message.len() as u8 - 1) << 2][..], &message].concat()
}

#[test]
fn archives_of_a_host_that_overlap_are_named() {
    let place = tempfile::tempdir().unwrap();
    shop(&place.path().join("web1/a"), 3);
    shop(&place.path().join("web1/b"), 3);
    let mut child = Command::new(env!("CARGO_BIN_EXE_mmv-export"))
        .args(["serve", "--listen", "127.0.0.1:0"])
        .arg(place.path())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let (send, found) = mpsc::channel();
    std::thread::spawn(move || send.send(lines.find(|line| line.contains("begins before"))));
    let found = found.recv_timeout(Duration::from_secs(30));
    child.kill().unwrap();
    child.wait().unwrap();
    let line = found.expect("a warning within 30 s").expect("a warning");
    let [earlier, later] = ["a", "b"].map(|name| place.path().join("web1").join(name));
    let expected = format!("web1: {} begins before {} ends", later.display(), earlier.display());
    assert!(line.contains(&expected), "{line}");
}

#[test]
fn answers_have_selected_metrics_only() {
    let has_orders = |metrics: &[&str]| {
        let (_place, server) = served(metrics);
        let scrape = server.metrics("").body;
        let read = request(server.address, "POST", "/api/v1/read", &[], &read_request()).body;
        // The names in a short message are not compressed.
        [scrape, read].map(|body| body.windows(15).any(|part| part == b"mmv_shop_orders"))
    };
    assert_eq!(has_orders(&[]), [true, true]);
    assert_eq!(has_orders(&["mmv.shop.orders"]), [true, true]);
    assert_eq!(has_orders(&["mmv.other"]), [false, false]);
}

#[test]
fn paths_and_methods_that_are_not_there_have_their_statuses() {
    let (_place, server) = served(&[]);
    for (method, path, status) in [
        ("GET", "/", 404),
        ("GET", "/api/v1/write", 404),
        ("POST", "/metrics", 405),
        ("GET", "/api/v1/read", 405),
        ("POST", "/api/v1/read", 200),
        ("GET", "/metrics?x=y", 200),
    ] {
        let body = if method == "POST" { read_request() } else { Vec::new() };
        let answer = request(server.address, method, path, &[], &body);
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
    }
}

#[test]
fn names_that_were_made_to_mean_this_machine_are_refused() {
    let (_place, server) = served(&[]);
    let status = |host: &str| {
        let mut stream = TcpStream::connect(server.address).unwrap();
        let head = format!("GET /metrics HTTP/1.1\r\n{host}Connection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split(' ').nth(1).unwrap().parse::<u16>().unwrap()
    };
    assert_eq!(status("Host: localhost:9465\r\n"), 200);
    assert_eq!(status(""), 200, "programs of HTTP/1.0");
    assert_eq!(status("Host: rebound.example:9465\r\n"), 403);
    assert_eq!(status("Host: localhost\r\nHost: rebound.example\r\n"), 403);
}

#[test]
fn a_thousand_half_open_connections_change_nothing_for_others() {
    let (_place, server) = served(&[]);
    let alone = get(server.address, "/metrics", &[]);
    let mut silent = Vec::new();
    for place in 0..1_000 {
        let mut stream = TcpStream::connect(server.address).unwrap();
        match place % 3 {
            0 => {}
            1 => stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n").unwrap(),
            _ => stream
                .write_all(b"POST /api/v1/read HTTP/1.1\r\nContent-Length: 99\r\n\r\nx")
                .unwrap(),
        }
        silent.push(stream);
    }
    let begun = Instant::now();
    for _ in 0..20 {
        let among = get(server.address, "/metrics", &[]);
        assert_eq!((among.status, &among.body), (200, &alone.body));
        let read = request(server.address, "POST", "/api/v1/read", &[], &read_request());
        assert_eq!(read.status, 200);
    }
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    // And they do not stay: each is closed, or answered that it is too slow.
    for mut stream in silent {
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("the end of the connection");
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 408 "), "{answer:?}");
    }
}

struct EndsOnDrop<'f>(&'f AtomicBool);

impl Drop for EndsOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Connects all the time, hundreds at once, with half a request each.
fn flood(address: SocketAddr, ends: &AtomicBool) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let open = Arc::new(Semaphore::new(800));
        while !ends.load(Ordering::Relaxed) {
            let place = Arc::clone(&open).acquire_owned().await.unwrap();
            tokio::spawn(async move {
                let _place = place;
                let lasts = Duration::from_millis(50);
                let connected = timeout(lasts, tokio::net::TcpStream::connect(address)).await;
                if let Ok(Ok(stream)) = connected {
                    let _ = stream.try_write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n");
                    tokio::time::sleep(lasts).await;
                }
            });
        }
    });
}

#[test]
fn peers_that_connect_in_a_loop_starve_nobody() {
    let (_place, server) = served(&[]);
    let alone = get(server.address, "/metrics", &[]);
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _ends = EndsOnDrop(&ends);
        for _ in 0..2 {
            scope.spawn(|| flood(server.address, &ends));
        }
        let begun = Instant::now();
        let (mut slowest, mut files) = (Duration::ZERO, 0);
        while begun.elapsed() < Duration::from_secs(5) {
            let (asked, waited) = (Instant::now(), server.waited_for_processor());
            let among = get(server.address, "/metrics", &[]);
            assert_eq!((among.status, &among.body), (200, &alone.body));
            // Without what other programs made it wait.
            let waited = server.waited_for_processor().saturating_sub(waited);
            slowest = slowest.max(asked.elapsed().saturating_sub(waited));
            files = files.max(server.open_files());
        }
        assert!(slowest < Duration::from_secs(4), "{slowest:?}");
        assert!(files <= 228, "{files}");
    });
}

/// Sends a request whose answer is not taken, and soon fills the buffers of the socket.
fn untaken(address: SocketAddr) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let connected = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        socket.connect(address).await.unwrap().into_std()
    });
    let mut stream = connected.unwrap();
    stream.set_nonblocking(false).unwrap();
    let body = read_request();
    let length = body.len();
    let head = format!(
        "POST /api/v1/read HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all(&[head.as_bytes(), &body].concat()).unwrap();
    stream
}

#[test]
fn answers_that_are_not_taken_are_given_up_after_half_a_minute() {
    let place = tempfile::tempdir().unwrap();
    many_samples(&place.path().join("web1/a"));
    let server = Server::start(place.path(), &[]);
    assert_eq!(server.metrics("").status, 200);
    let read = || request(server.address, "POST", "/api/v1/read", &[], &read_request());
    let whole = read();
    assert!(whole.status == 200 && whole.body.len() > 3_500_000, "{}", whole.body.len());
    // As many as are read at a time: another one waits for the first that is given up.
    let begun = Instant::now();
    let mut held: Vec<_> = (0..4).map(|_| untaken(server.address)).collect();
    while read().status == 503 {
        assert!(begun.elapsed() < Duration::from_secs(90));
    }
    assert!(begun.elapsed() > Duration::from_secs(25), "{:?}", begun.elapsed());
    std::thread::sleep(Duration::from_secs(5));
    for stream in &mut held {
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let mut taken = Vec::new();
        let _ = stream.read_to_end(&mut taken);
        assert!(taken.len() < whole.body.len(), "{}", taken.len());
    }
    // Nobody reads for those who leave.
    let begun = Instant::now();
    assert_eq!(read().status, 200);
    let alone = begun.elapsed();
    (0..40).for_each(|_| drop(untaken(server.address)));
    assert_eq!(read().status, 200);
    assert!(begun.elapsed() < alone * 10, "{alone:?} {:?}", begun.elapsed());
}

#[test]
fn requests_that_are_too_large_are_refused() {
    let (_place, server) = served(&["--max-samples", "100"]);
    let refused = |body: &[u8]| request(server.address, "POST", "/api/v1/read", &[], body).status;
    // 352 samples.
    assert_eq!(refused(&read_request()), 413);
    assert_eq!(refused(&vec![0; 1 << 20]), 413);
    // What claims to have 4 GB when it is decompressed.
    assert_eq!(refused(&[0xff, 0xff, 0xff, 0xff, 0x0f, 0]), 400);
    assert_eq!(refused(b"no snappy"), 400);
    let long = "x".repeat(1 << 17);
    let answer = get(server.address, "/metrics", &[("X-Long", &long)]);
    assert_eq!(answer.status, 431);
    assert_eq!(server.metrics("").status, 200);
}

#[test]
fn damage_costs_only_what_is_damaged() {
    let place = tempfile::tempdir().unwrap();
    for host in ["web1", "web2"] {
        shop(&place.path().join(host).join("a"), 1);
    }
    std::fs::write(place.path().join("web1/a.meta"), [0xff; 4_000]).unwrap();
    let server = Server::start(place.path(), &[]);
    let text = server.metrics("");
    assert!(text.text().contains("\nmmv_shop_orders_total{"), "{}", text.text());
    let read = request(server.address, "POST", "/api/v1/read", &[], &read_request());
    assert_eq!(read.status, 200);
    assert!(read.body.len() > 1_000, "{}", read.body.len());
}

#[test]
fn a_unix_socket_is_served_and_one_that_was_left_is_replaced() {
    let place = tempfile::tempdir().unwrap();
    shop(&place.path().join("tree/web1/a"), 1);
    let socket = place.path().join("socket");
    for _ in 0..2 {
        let mut child = Command::new(env!("CARGO_BIN_EXE_mmv-export"))
            .args(["serve", "--socket"])
            .args([&socket, &place.path().join("tree")])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let until = Instant::now() + Duration::from_secs(30);
        let answer = loop {
            let mut answer = String::new();
            if let Ok(mut stream) = UnixStream::connect(&socket) {
                stream
                    .write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                    .unwrap();
                stream.read_to_string(&mut answer).unwrap();
            }
            if answer.starts_with("HTTP/1.1 200 ") || Instant::now() > until {
                break answer;
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        assert!(answer.contains("mmv_shop_orders_total"), "{answer}");
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let address = ["serve", "--listen", "0.0.0.0:0", "."];
    let output = Command::new(env!("CARGO_BIN_EXE_mmv-export")).args(address).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

//! A running `mmv-export serve`, and requests to it and to engines.
#![allow(dead_code, reason = "each test needs a part of this")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Server {
    pub(crate) fn start(archives: &Path, options: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_mmv-export"))
            .args(["serve", "--listen", "127.0.0.1:0"])
            .arg(archives)
            .args(options)
            .stderr(Stdio::piped())
            .spawn()
            .expect("start mmv-export");
        let mut stderr = BufReader::new(child.stderr.take().expect("its messages"));
        let mut line = String::new();
        stderr.read_line(&mut line).expect("a line");
        let address = line.trim().rsplit_once("http://").expect(&line).1.parse().expect(&line);
        std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::stderr()));
        Self { child, address }
    }

    /// Returns the answer to a scrape, as soon as there is one.
    pub(crate) fn metrics(&self, accept: &str) -> Answer {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let answer = get(self.address, "/metrics", &[("Accept", accept)]);
            if answer.status != 503 || Instant::now() > until {
                return answer;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub(crate) fn open_files(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).map_or(0, Iterator::count)
    }

    /// Returns how long its threads were ready to run and had no processor (the second number of
    /// `/proc/PID/task/*/schedstat`).
    pub(crate) fn waited_for_processor(&self) -> Duration {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id()));
        let all = tasks.into_iter().flatten().flatten();
        Duration::from_nanos(
            all.filter_map(|task| {
                let counts = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
                counts.split_ascii_whitespace().nth(1)?.parse::<u64>().ok()
            })
            .sum(),
        )
    }

    pub(crate) fn processor_seconds(&self) -> f64 {
        processor_seconds(self.child.id())
    }
}

pub(crate) fn processor_seconds(id: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).expect("its times");
    let fields: Vec<&str> = stat.rsplit(')').next().expect("fields").split(' ').collect();
    let ticks: f64 = fields[12].parse::<f64>().unwrap() + fields[13].parse::<f64>().unwrap();
    ticks / 100.0
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the memory of a process by a line of `/proc/PID/status`, in bytes; `None` after its
/// end.
pub(crate) fn memory(id: u32, line: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let value = status.lines().find_map(|one| one.strip_prefix(line))?;
    Some(value.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10)
}

/// Watches the most memory that a process has, in bytes, until its end. `wait4` would report at
/// least the memory of the process that started it.
pub(crate) fn peak_memory(id: u32) -> std::thread::JoinHandle<u64> {
    std::thread::spawn(move || {
        let mut peak = 0;
        while let Some(now) = memory(id, "VmHWM:") {
            peak = now;
            std::thread::sleep(Duration::from_millis(10));
        }
        peak
    })
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) header: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }
}

pub(crate) fn get(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Answer {
    request(address, "GET", path, headers, &[])
}

/// Sends a request, and reads the answer until the peer closes the connection.
pub(crate) fn request(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Answer {
    let mut stream = TcpStream::connect(address).expect("connect");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n");
    for (name, value) in headers {
        head += &[name, ": ", value, "\r\n"].concat();
    }
    head += &["Content-Length: ", &body.len().to_string(), "\r\n\r\n"].concat();
    stream.write_all(head.as_bytes()).expect("send a request");
    // A peer that refuses a body may close the connection while it is sent.
    let _ = stream.write_all(body);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    parse(&answer)
}

fn parse(answer: &[u8]) -> Answer {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a header");
    let header = String::from_utf8_lossy(&answer[..end]).to_lowercase();
    let status = header.split(' ').nth(1).and_then(|text| text.parse().ok()).expect("a status");
    let body = &answer[end + 4..];
    let is_chunked = header.contains("transfer-encoding: chunked");
    let body = if is_chunked { joined(body) } else { body.to_vec() };
    Answer { status, header, body }
}

fn joined(mut body: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    loop {
        let end = body.windows(2).position(|two| two == b"\r\n").expect("the size of a chunk");
        let size = std::str::from_utf8(&body[..end]).expect("a size");
        let size = usize::from_str_radix(size, 16).expect("a size");
        if size == 0 {
            return whole;
        }
        whole.extend_from_slice(&body[end + 2..][..size]);
        body = &body[end + 2 + size + 2..];
    }
}

pub(crate) fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("listen");
    listener.local_addr().expect("an address").port()
}

//! A running `mmv-archive view`.
#![allow(dead_code, reason = "each test needs a part of this")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

pub(crate) struct Server {
    child: Child,
    address: String,
}

#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Server {
    /// Starts it with arguments, and waits until it has printed its address.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::of(env!("CARGO_BIN_EXE_mmv-archive"), arguments)
    }

    pub(crate) fn of(program: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.arg("view").args(arguments).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut address = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut address).unwrap();
        assert!(address.starts_with("http://127.0.0.1:"), "{address}");
        Self { child, address: address.trim_end().to_owned() }
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns `127.0.0.1:PORT`.
    pub(crate) fn host(&self) -> &str {
        self.address.trim_start_matches("http://").split('/').next().unwrap()
    }

    pub(crate) fn path(&self) -> String {
        let path = self.address.trim_start_matches("http://").split('#').next().unwrap();
        path.trim_start_matches(self.host()).to_owned()
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.host()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }

    /// Sends the bytes of a request, which ask for the connection to be closed.
    pub(crate) fn send(&self, request: &str) -> Response {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).unwrap();
        Response::read(stream)
    }

    pub(crate) fn get(&self, question: &str) -> Response {
        let (path, host) = (self.path(), self.host());
        self.send(&format!(
            "GET {path}{question} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        ))
    }

    /// Waits for its end, after a signal; returns whether it was a success.
    pub(crate) fn wait(mut self) -> bool {
        self.child.wait().unwrap().success()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Response {
    pub(crate) fn read(mut stream: TcpStream) -> Self {
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        let end = all.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(all.len());
        let head = String::from_utf8_lossy(&all[..end]).to_ascii_lowercase();
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Self { status, head, body: all.get(end + 4..).unwrap_or_default().to_vec() }
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }
}

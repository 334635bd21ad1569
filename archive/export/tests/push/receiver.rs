//! A scripted receiver of remote write.
#![allow(dead_code, reason = "each test needs a part of this")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use prost::Message;

#[derive(Debug, Clone)]
pub(crate) enum Reaction {
    Store,
    /// Answers this status with a header and a text, and stores nothing.
    Answer(u16, &'static str, &'static str),
    /// Stores it, and closes the connection without an answer.
    StoreAndClose,
    Close,
    Hang,
    /// Answers this status, and text without an end.
    Endless(u16),
    /// Answers a header without an end.
    EndlessHeader,
}

/// A sample as it was received: labels, milliseconds, the bits of the value.
pub(crate) type Row = (Vec<(String, String)>, i64, u64);

#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// In lower case.
    pub(crate) header: String,
    pub(crate) body: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct WriteRequest {
    #[prost(message, repeated, tag = "1")]
    series: Vec<TimeSeries>,
}

#[derive(Clone, PartialEq, Message)]
struct TimeSeries {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<Label>,
    #[prost(message, repeated, tag = "2")]
    samples: Vec<Sample>,
}

#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Sample {
    #[prost(double, tag = "1")]
    value: f64,
    #[prost(int64, tag = "2")]
    milliseconds: i64,
}

impl Request {
    /// Decodes the samples of a request of 1.0.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let message = snap::raw::Decoder::new().decompress_vec(&self.body).expect("snappy");
        let request = WriteRequest::decode(&*message).expect("a request");
        let mut rows = Vec::new();
        for series in request.series {
            let labels: Vec<(String, String)> =
                series.labels.into_iter().map(|label| (label.name, label.value)).collect();
            assert!(labels.is_sorted(), "{labels:?}");
            let times: Vec<i64> = series.samples.iter().map(|one| one.milliseconds).collect();
            assert!(times.is_sorted_by(|one, other| one < other), "{labels:?}: {times:?}");
            rows.extend(
                series
                    .samples
                    .iter()
                    .map(|sample| (labels.clone(), sample.milliseconds, sample.value.to_bits())),
            );
        }
        rows
    }
}

type Script = Box<dyn FnMut(usize, &Request) -> Reaction + Send>;

#[derive(Default)]
struct Received {
    requests: Vec<Request>,
    stored: Vec<Row>,
}

#[derive(Clone)]
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    received: Arc<Mutex<Received>>,
}

impl Receiver {
    /// Asks a script about each request, with its number from 0 on.
    pub(crate) fn start(script: impl FnMut(usize, &Request) -> Reaction + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
        let address = listener.local_addr().expect("an address");
        let received = Arc::new(Mutex::new(Received::default()));
        let made = Self { address, received };
        let copy = made.clone();
        std::thread::spawn(move || {
            let script: Arc<Mutex<Script>> = Arc::new(Mutex::new(Box::new(script)));
            for stream in listener.incoming().flatten() {
                let (of_thread, script) = (copy.clone(), Arc::clone(&script));
                std::thread::spawn(move || of_thread.serve(&stream, &script));
            }
        });
        made
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/api/v1/write", self.address)
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.received.lock().expect("no panic").requests.clone()
    }

    pub(crate) fn stored(&self) -> Vec<Row> {
        self.received.lock().expect("no panic").stored.clone()
    }

    fn serve(&self, stream: &TcpStream, script: &Mutex<Script>) {
        let mut reader = BufReader::new(stream);
        while let Some(request) = read(&mut reader) {
            let reaction = {
                let mut received = self.received.lock().expect("no panic");
                let number = received.requests.len();
                received.requests.push(request.clone());
                let reaction = script.lock().expect("no panic")(number, &request);
                if matches!(reaction, Reaction::Store | Reaction::StoreAndClose) {
                    received.stored.extend(request.rows());
                }
                reaction
            };
            if !react(stream, &reaction) {
                let _ = stream.shutdown(std::net::Shutdown::Both);
                return;
            }
        }
    }
}

fn read(reader: &mut BufReader<&TcpStream>) -> Option<Request> {
    let mut header = String::new();
    while !header.ends_with("\r\n\r\n") {
        if reader.read_line(&mut header).ok()? == 0 {
            return None;
        }
    }
    let header = header.to_lowercase();
    let length = header.split("content-length: ").nth(1)?.lines().next()?.parse().ok()?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Request { header, body })
}

/// Sends the reaction; false if the connection ends.
fn react(mut stream: &TcpStream, reaction: &Reaction) -> bool {
    let mut write = |text: &str| stream.write_all(text.as_bytes()).is_ok();
    match reaction {
        Reaction::Store => write("HTTP/1.1 204 No Content\r\n\r\n"),
        Reaction::Answer(status, header, text) => {
            let length = text.len();
            let line = if header.is_empty() { String::new() } else { format!("{header}\r\n") };
            write(&format!("HTTP/1.1 {status} X\r\n{line}Content-Length: {length}\r\n\r\n{text}"))
        }
        Reaction::StoreAndClose | Reaction::Close => false,
        Reaction::Hang => {
            std::thread::sleep(Duration::from_secs(60));
            false
        }
        Reaction::Endless(status) => {
            let _ = write(&format!("HTTP/1.1 {status} X\r\nTransfer-Encoding: chunked\r\n\r\n"));
            let chunk = format!("4000\r\n{}\r\n", "x".repeat(0x4000));
            while write(&chunk) {}
            false
        }
        Reaction::EndlessHeader => {
            let _ = write("HTTP/1.1 200 X\r\n");
            while write("X-More: of this\r\n") {}
            false
        }
    }
}

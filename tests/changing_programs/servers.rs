//! The answers of our servers: `mmv-export serve` and `mmv-archive view`.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use prost::Message;
use serde_json::Value;

use super::readers::Reading;
use super::run::{Record, STEADY};
use crate::harness::binaries;

const LONGEST_READ: Duration = Duration::from_secs(180);

struct Server {
    child: Child,
    /// The host with its port, and the path of its pages.
    host: String,
    path: String,
}

impl Server {
    /// Starts a server, which prints its address in its first line: on standard error if it is
    /// the exporter's.
    fn start(mut command: Command, is_exporter: bool) -> Self {
        if is_exporter {
            command.stderr(Stdio::piped());
        } else {
            command.stdout(Stdio::piped());
        }
        let mut child = command.spawn().expect("start a server");
        let mut line = String::new();
        if let Some(stderr) = child.stderr.take() {
            let mut stderr = BufReader::new(stderr);
            stderr.read_line(&mut line).expect("a line");
            thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        } else {
            let stdout = child.stdout.as_mut().expect("its output");
            BufReader::new(stdout).read_line(&mut line).expect("a line");
        }
        let (_, address) = line.trim().rsplit_once("http://").expect("an address");
        let (host, path) = address.split_once('/').unwrap_or((address, ""));
        Self { host: host.to_owned(), path: format!("/{path}"), child }
    }

    /// Returns the status of an answer, and its body, which comes in one piece by HTTP/1.0.
    fn ask(&self, method: &str, page: &str, body: &[u8]) -> (String, Vec<u8>) {
        let mut stream = TcpStream::connect(&self.host).expect("connect");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a socket");
        let (host, path, length) = (&self.host, &self.path, body.len());
        let head = format!(
            "{method} {path}{page} HTTP/1.0\r\nHost: {host}\r\nConnection: close\r\n\
             Content-Length: {length}\r\n\r\n"
        );
        stream.write_all(&[head.as_bytes(), body].concat()).expect("send a request");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer");
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a header");
        let head = String::from_utf8_lossy(&answer[..end]).into_owned();
        let status = head.split(' ').nth(1).expect("a status").to_owned();
        (status, answer[end + 4..].to_vec())
    }

    /// Waits for the answer until the archives were read, which takes long where domains change
    /// often.
    fn wait_for_answer(&self, method: &str, page: &str, body: &[u8]) -> Vec<u8> {
        let deadline = Instant::now() + LONGEST_READ;
        loop {
            let (status, answer) = self.ask(method, page, body);
            if status == "200" {
                return answer;
            }
            assert!(Instant::now() < deadline, "{page}: {status}");
            thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn serve(archives: &Path) -> Server {
    let mut command = Command::new(binaries::directory().join("mmv-export"));
    command.args(["serve", "--listen", "127.0.0.1:0"]).arg(archives);
    Server::start(command, true)
}

/// Returns the page `/metrics` of archives, as soon as there is one.
pub(super) fn scrape(archives: &Path) -> String {
    let server = serve(archives);
    let page = server.wait_for_answer("GET", "metrics", &[]);
    String::from_utf8(page).expect("UTF-8")
}

struct Names(BTreeMap<String, String>);

impl Names {
    fn new(record: &Record) -> Self {
        let mut names = BTreeMap::from([(STEADY.replace('.', "_"), STEADY.to_owned())]);
        for ((metric, _), segments) in &record.log.series {
            let name = metric.replace('.', "_");
            let is_sum = matches!(metric.rsplit_once('.'), Some((_, "sum")));
            let is_total = segments[0].is_counter && !is_sum;
            let name =
                if is_total { format!("{}_total", name.trim_end_matches("_total")) } else { name };
            names.insert(name, metric.clone());
        }
        for (metric, _) in record.log.recorded.keys() {
            let name = metric.replace('.', "_");
            names.insert(format!("{name}_count"), format!("{metric}.all"));
            names.insert(format!("{name}_bucket"), format!("{metric}.le"));
        }
        Self(names)
    }

    fn key(&self, labels: &BTreeMap<String, String>) -> Option<(String, String)> {
        let metric = self.0.get(&labels["__name__"])?.clone();
        let instance = labels.get("instname").cloned().unwrap_or_default();
        let instance = match labels.get("le") {
            Some(bound) if instance.is_empty() => format!("le={bound}"),
            Some(bound) => format!("{instance},le={bound}"),
            None => instance,
        };
        Some((metric, instance))
    }
}

/// Parses the values of `/metrics`, which was asked for while programs ran.
pub(super) fn scraped(record: &Record) -> Reading {
    let mut reading = Reading::new("/metrics");
    let names = Names::new(record);
    for line in record.scrape.lines().filter(|line| !line.starts_with('#')) {
        let (series, rest) = line.rsplit_once("} ").expect("labels");
        let (value, time) = rest.split_once(' ').expect("a value and a time");
        let (name, labels) = series.split_once('{').expect("labels");
        let mut all = BTreeMap::from([("__name__".to_owned(), name.to_owned())]);
        for label in labels.trim_end_matches('"').split("\",") {
            let (label, value) = label.split_once("=\"").expect("a label");
            all.insert(label.to_owned(), value.to_owned());
        }
        let Some((metric, instance)) = names.key(&all) else { continue };
        let at = 1_000_000 * time.parse::<i64>().expect("milliseconds");
        reading.add(&metric, &instance, at, value.parse().expect("a number"));
    }
    reading
}

/// The part of `prompb/remote.proto` that an answer of remote read has.
#[derive(Clone, PartialEq, Message)]
struct ReadResponse {
    #[prost(message, repeated, tag = "1")]
    results: Vec<QueryResult>,
}

#[derive(Clone, PartialEq, Message)]
struct QueryResult {
    #[prost(message, repeated, tag = "1")]
    timeseries: Vec<TimeSeries>,
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
    timestamp: i64,
}

/// Encodes a request for all series whose names begin with `mmv_`, at any time.
fn read_request() -> Vec<u8> {
    let matcher = [&[0x08, 2, 0x12, 8][..], b"__name__", &[0x1a, 6], b"mmv_.*"].concat();
    let start_and_end =
        [&[0x08, 0][..], &[0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]].concat();
    let query = [&start_and_end[..], &[0x1a, matcher.len() as u8], &matcher].concat();
    let message = [&[0x0a, query.len() as u8][..], &query].concat();
    snap::raw::Encoder::new().compress_vec(&message).expect("compress a request")
}

pub(super) fn remote_read(record: &Record) -> Reading {
    let mut reading = Reading::new("remote read");
    let server = serve(&record.archives);
    let answer = server.wait_for_answer("POST", "api/v1/read", &read_request());
    let message = snap::raw::Decoder::new().decompress_vec(&answer).expect("snappy");
    let response = ReadResponse::decode(&message[..]).expect("an answer of remote read");
    let names = Names::new(record);
    for series in response.results.into_iter().flat_map(|result| result.timeseries) {
        let labels = series.labels.into_iter().map(|label| (label.name, label.value)).collect();
        let Some((metric, instance)) = names.key(&labels) else { continue };
        // The end of a series is a value that is not a number.
        for sample in series.samples.iter().filter(|sample| !sample.value.is_nan()) {
            reading.add(&metric, &instance, 1_000_000 * sample.timestamp, sample.value);
        }
    }
    // An instance that got labels is another series from then on.
    reading.samples.values_mut().for_each(|samples| samples.sort_by_key(|(at, _)| *at));
    reading
}

/// A column of a picture: its span of time, and the least and the greatest value in it.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) from: i64,
    pub(super) to: i64,
    pub(super) least: f64,
    pub(super) greatest: f64,
}

pub(super) fn view(record: &Record) -> BTreeMap<(String, String), Vec<Column>> {
    const COLUMNS: u32 = 200;
    let mut command = Command::new(binaries::mmv_archive());
    command.arg("view").arg(&record.archives).args(["mmv", "-Z", "UTC"]);
    let server = Server::start(command, false);
    let (_, header) = server.ask("GET", "header", &[]);
    let header: Value = serde_json::from_slice(&header).expect("JSON");
    let origin = header["header"]["start"].as_f64().expect("a time");
    let end = header["now"]["end"].as_f64().expect("a time") - origin;
    let mut metrics = BTreeMap::new();
    for metric in header["header"]["metrics"].as_array().expect("metrics") {
        let name = metric["name"].as_str().expect("a name").to_owned();
        metrics.insert(metric["of"][0].as_u64().expect("a PMID"), name);
    }
    let nanoseconds = |seconds: f64| ((origin + seconds) * 1e9) as i64;
    let mut found: BTreeMap<(String, String), Vec<Column>> = BTreeMap::new();
    for (pmid, metric) in metrics {
        let page = format!("columns?from=0&to={end}&columns={COLUMNS}&raw=1&of=0:{pmid}");
        let (status, body) = server.ask("GET", &page, &[]);
        assert_eq!(status, "200", "{page}");
        let length = u32::from_le_bytes(body[8..12].try_into().expect("four bytes")) as usize;
        let head: Value = serde_json::from_slice(&body[12..12 + length]).expect("JSON");
        let all = head["series"].as_array().expect("series");
        let counts: Vec<usize> =
            all.iter().map(|one| one["count"].as_u64().expect("a count") as usize).collect();
        let doubles = body[12 + length..].chunks_exact(8);
        let mut doubles = doubles.map(|bytes| f64::from_le_bytes(bytes.try_into().expect("8")));
        let flags_at = 12 + length + 3 * 8 * counts.iter().sum::<usize>();
        let mut flags = body[flags_at..].iter();
        for (series, count) in all.iter().zip(&counts) {
            let least: Vec<f64> = doubles.by_ref().take(*count).collect();
            let greatest: Vec<f64> = doubles.by_ref().take(*count).collect();
            doubles.by_ref().take(*count).for_each(drop);
            let first = series["first"].as_u64().expect("a column");
            let width = series["step"].as_f64().expect("a width");
            let instance = series["instance"].as_str().unwrap_or_default().to_owned();
            let columns = found.entry((metric.clone(), instance)).or_default();
            for (number, flags) in flags.by_ref().take(*count).enumerate() {
                const IS_OBSERVED: u8 = 4;
                if flags & IS_OBSERVED != 0 {
                    let from = width * (first + number as u64) as f64;
                    columns.push(Column {
                        from: nanoseconds(from),
                        to: nanoseconds(from + width),
                        least: least[number],
                        greatest: greatest[number],
                    });
                }
            }
        }
    }
    found
}

//! The programs in `examples/`: what `mmv-archive report` says they counted is what they did.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::Value;

use crate::harness::agent::Agent;
use crate::harness::binaries;
use crate::harness::mmv_archive::printed_of;
use crate::harness::scratch::Scratch;
use crate::harness::wait;

/// The last values of an archive by metric, and instance if there is one: `hello.sent`,
/// `hello.requests[path=/,status=200]`.
struct Numbers(BTreeMap<String, f64>);

impl Numbers {
    fn report(archive: &Path) -> Self {
        let printed = printed_of(archive, &["report", "mmv", "--raw", "--json"]);
        let mut numbers = BTreeMap::new();
        for line in printed.lines() {
            let line: Value = serde_json::from_str(line).expect("JSON");
            let metric = line["metric"].as_str().expect("a metric").trim_start_matches("mmv.");
            let name = match line["instance"].as_str() {
                Some(instance) => format!("{metric}[{instance}]"),
                None => metric.to_owned(),
            };
            numbers.extend(line["value"].as_f64().map(|value| (name, value)));
        }
        Self(numbers)
    }

    #[track_caller]
    fn assert(&self, name: &str, expected: f64) {
        assert_eq!(self.0.get(name), Some(&expected), "{name} in {:?}", self.0);
    }

    /// Compares the sum of all numbers whose names begin so: of the buckets of a histogram it is
    /// the number of its values.
    #[track_caller]
    fn assert_sum(&self, prefix: &str, expected: f64) {
        let found = self.0.iter().filter(|(name, _)| name.starts_with(prefix));
        let sum = found.fold(0.0, |sum, (_, number)| sum + number);
        assert_eq!(Some(sum), Some(expected), "{prefix} in {:?}", self.0);
    }
}

struct Program(Child);

impl Program {
    fn start(scratch: &Scratch, name: &str, arguments: &[&str]) -> (Self, String) {
        let mut command = Command::new(binaries::directory().join(name));
        command.args(arguments).env("PCP_TMP_DIR", scratch.tmp_dir());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut program = Self(command.spawn().expect("start the program"));
        let mut line = String::new();
        let output = program.0.stdout.as_mut().expect("a pipe");
        BufReader::new(output).read_line(&mut line).expect("a line");
        (program, line.trim_end().to_owned())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Requests a page, and returns the connection, still open, when all of the answer is there.
fn request(address: &str, path: &str, end: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("connect");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: hello\r\n\r\n").expect("send");
    let mut answer = String::new();
    wait::until_true("the answer", || {
        let mut bytes = [0; 1024];
        let len = stream.read(&mut bytes).expect("receive");
        answer.push_str(&String::from_utf8_lossy(&bytes[..len]));
        answer.ends_with(end)
    });
    stream
}

#[test]
fn server_counts_its_requests_by_route() {
    let scratch = Scratch::new();
    let (_server, line) = Program::start(&scratch, "hello-server", &[]);
    let address = line.strip_prefix("http://").expect("an address");
    request(address, "/", "hello\n");
    request(address, "/", "hello\n");
    request(address, "/nowhere", "no such page\n");
    request(address, "/elsewhere", "no such page\n");
    let _open = request(address, "/slow", "sorry\n");
    // A program that is busy announces a new label a while after it was counted.
    wait::until_true("the label of the last request", || {
        let mut inspect = Command::new(binaries::mmv_agent());
        let output = inspect.arg("inspect").arg(scratch.mmv_dir().join("hello")).output();
        let output = output.expect("start mmv-agent");
        String::from_utf8_lossy(&output.stdout).contains("path=/slow,status=200")
    });

    let numbers = Numbers::report(&Agent::harvest(&scratch));
    numbers.assert("hello.requests[path=/,status=200]", 2.0);
    numbers.assert("hello.requests[path=other,status=404]", 2.0);
    numbers.assert("hello.requests[path=/slow,status=200]", 1.0);
    numbers.assert("hello.sent", 44.0);
    numbers.assert("hello.connections", 1.0);
    numbers.assert_sum("hello.latency.bucket[path=/slow", 1.0);
    numbers.assert_sum("hello.latency.bucket[", 5.0);
    let sum = numbers.0["hello.latency.sum[path=/slow]"];
    assert!(sum >= 20_000.0, "{sum} microseconds for an answer that sleeps for 20 ms");
}

#[test]
fn job_queue_counts_jobs_of_all_threads() {
    let scratch = Scratch::new();
    let (_queue, line) = Program::start(&scratch, "job-queue", &["300"]);
    assert_eq!(line, "300 jobs");

    let numbers = Numbers::report(&Agent::harvest(&scratch));
    // Numbers that end in 9 fail; those that three divides are mails.
    numbers.assert("queue.jobs[kind=mail,outcome=done]", 90.0);
    numbers.assert("queue.jobs[kind=mail,outcome=failed]", 10.0);
    numbers.assert("queue.jobs[kind=resize,outcome=done]", 180.0);
    numbers.assert("queue.jobs[kind=resize,outcome=failed]", 20.0);
    numbers.assert("queue.depth", 0.0);
    numbers.assert_sum("queue.waited.bucket[", 300.0);
    numbers.assert_sum("queue.took.bucket[kind=mail", 100.0);
    numbers.assert_sum("queue.worker_jobs[", 300.0);
}

/// The tool waits for its last file, a FIFO, and ends at once when it has got that: what it
/// counted last is in the archive.
#[test]
fn numbers_of_a_tool_that_ended_are_recorded() {
    let scratch = Scratch::new();
    let [fifo, text, binary, missing, base] =
        ["fifo", "text", "binary", "missing", "recording"].map(|name| scratch.path().join(name));
    mkfifo(&fifo, Mode::S_IRWXU).expect("a FIFO");
    fs::write(&text, "three words here\n").expect("a file");
    fs::write(&binary, [0xff; 9]).expect("a file");
    let mut command = Command::new(binaries::mmv_agent());
    command.args(["record", "--interval", "20ms", "--output"]).arg(&base).arg("--");
    command.arg(binaries::directory().join("count-words")).args([&text, &binary, &missing, &fifo]);
    command.env_remove("PCP_TMP_DIR").stdout(Stdio::piped()).stderr(Stdio::piped());
    let recorder = command.spawn().expect("start mmv-agent");
    let metadata = base.with_extension("meta");
    let known = b"reason=missing";
    wait::until_true("the metrics of the tool", || {
        fs::read(&metadata).is_ok_and(|bytes| bytes.windows(known.len()).any(|name| name == known))
    });
    fs::write(&fifo, "three words here\n").expect("a file");
    let output = recorder.wait_with_output().expect("the end of mmv-agent");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(stdout.lines().filter(|line| line.starts_with("3 ")).count(), 2, "{stdout}");

    let numbers = Numbers::report(&base);
    numbers.assert("words.files", 2.0);
    numbers.assert("words.bytes", 34.0);
    numbers.assert("words.skipped[reason=binary]", 1.0);
    numbers.assert("words.skipped[reason=missing]", 1.0);
    numbers.assert_sum("words.reading.bucket[", 4.0);
}

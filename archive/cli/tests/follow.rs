//! `mmv-archive follow` while a writer appends records.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use test_archives::Builder;

/// A counter by shop, in an archive that grows.
struct Logger {
    /// Always `Some` between calls.
    builder: Option<Builder>,
    second: i32,
}

impl Logger {
    fn new(base: &Path, second: i32) -> Self {
        let builder = Builder::of_host("host", base).metric("acme.sold", "u64 counter count");
        Self { builder: Some(builder), second }
    }

    fn append(&mut self, append: impl FnOnce(Builder) -> Builder) {
        self.builder = self.builder.take().map(append);
    }

    /// Writes a record `seconds` after the last one, with all counters at `count`.
    fn write(&mut self, seconds: i32, shops: usize, count: u64) {
        self.second += seconds;
        let (second, shops) = (self.second, &["s0", "s1"][..shops]);
        let counts = shops.iter().map(|shop| (format!("acme.sold[{shop}]"), count));
        self.append(|builder| {
            builder.instances("acme.sold", shops.iter().copied()).row(second, counts)
        });
    }

    fn mark(&mut self, seconds: i32) {
        self.second += seconds;
        let second = self.second;
        self.append(|builder| builder.mark(second));
    }
}

struct Follow {
    child: Child,
    lines: Receiver<String>,
}

impl Follow {
    fn start(directory: &Path, arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mmv-archive"));
        command.env("XDG_STATE_HOME", directory);
        command.current_dir(directory).args(["follow", "--poll", "5ms"]).args(arguments);
        let mut child = command.env("TZ", "UTC").stdout(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (send, lines) = channel();
        thread::spawn(move || stdout.lines().try_for_each(|line| send.send(line.unwrap())));
        Self { child, lines }
    }

    #[track_caller]
    fn line(&self) -> String {
        self.lines.recv_timeout(Duration::from_secs(60)).unwrap().trim_end().to_owned()
    }

    #[track_caller]
    fn expect(&self, lines: &[&str]) {
        for expected in lines {
            assert_eq!(self.line(), *expected);
        }
    }
}

impl Drop for Follow {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_table_shows_rates_as_records_arrive_and_adds_new_instances() {
    let directory = tempfile::tempdir().unwrap();
    let mut logger = Logger::new(&directory.path().join("a"), 0);
    logger.write(0, 1, 100);
    let follow = Follow::start(directory.path(), &["a", "acme.sold", "-S", "0s"]);
    logger.write(10, 1, 105);
    follow.expect(&["acme.sold, 2023-11-14", "                 [s0]", "              count/s"]);
    follow.expect(&["------------  -------", "22:13:30.000    0.500"]);
    logger.mark(1);
    follow.expect(&["22:13:31.000  <mark>"]);
    logger.append(Builder::volume);
    logger.write(9, 2, 200);
    logger.write(10, 2, 300);
    follow.expect(&["", "acme.sold, 2023-11-14", "                 [s0]     [s1]"]);
}

#[test]
fn an_exact_table_has_whole_names_dates_and_numbers() {
    let directory = tempfile::tempdir().unwrap();
    let mut logger = Logger::new(&directory.path().join("a"), 0);
    logger.write(0, 1, 100);
    let follow = Follow::start(directory.path(), &["a", "acme.sold", "--exact"]);
    let head = ["                           acme.sold", "                                [s0]"];
    let rule = "-----------------------  -----------";
    follow.expect(&head);
    follow.expect(&["                         count / sec", rule]);
    follow.expect(&["2023-11-14 22:13:20.000            -"]);
    logger.write(10, 1, 105);
    follow.expect(&["2023-11-14 22:13:30.000        0.500"]);
}

#[test]
fn an_at_sign_stands_for_the_archives_of_the_agent() {
    let directory = tempfile::tempdir().unwrap();
    let archives = directory.path().join("mmv-agent/archives/example");
    std::fs::create_dir_all(&archives).unwrap();
    let mut logger = Logger::new(&archives.join("20231114.1"), 0);
    logger.write(0, 1, 100);
    let follow = Follow::start(directory.path(), &["@", "acme.sold", "--json"]);
    assert!(follow.line().ends_with("\"value\":100}"));
    logger.write(10, 1, 110);
    assert!(follow.line().ends_with("\"value\":110}"));
}

#[test]
fn json_lines_are_logged_values_and_go_on_in_the_next_archive() {
    let directory = tempfile::tempdir().unwrap();
    let mut first = Logger::new(&directory.path().join("20231114.1"), 0);
    first.write(0, 1, 100);
    first.write(10, 1, 110);
    let mut follow = Follow::start(directory.path(), &[".", "-S", "0s", "-s", "4", "--json"]);
    let line = |time: i64, name: &str, value: u64| {
        let second = 20 + time;
        let (minute, second) = (13 + second / 60, second % 60);
        let seconds = 1_700_000_000 + time;
        let id = name.trim_start_matches('s');
        format!(
            "{{\"schema\":1,\"time\":\"2023-11-14T22:{minute}:{second}.000000000Z\",\
             \"seconds\":{seconds}.0,\"metric\":\"acme.sold\",\"instance\":\"{name}\",\
             \"labels\":{{}},\"units\":\"count\",\"pmid\":\"70.1.1\",\
             \"instance_id\":{id},\"value\":{value}}}"
        )
    };
    follow.expect(&[&line(0, "s0", 100), &line(10, "s0", 110)]);
    first.write(10, 2, 120);
    follow.expect(&[&line(20, "s0", 120), &line(20, "s1", 120)]);
    first.builder.take().unwrap().finish();
    let mut second = Logger::new(&directory.path().join("20231114.2"), 30);
    second.write(0, 1, 7);
    follow.expect(&[&line(30, "s0", 7)]);
    assert!(follow.child.wait().unwrap().success(), "four records were asked for");
}

/// The label of one archive is damaged: that of the newest is passed by as that of an older one.
#[test]
fn damaged_archive_beside_others_is_named_and_passed_by() {
    for damaged in ["20231114.1", "20231114.3"] {
        let directory = tempfile::tempdir().unwrap();
        let mut loggers = Vec::new();
        for (name, second) in [("20231114.1", 0), ("20231114.2", 100), ("20231114.3", 200)] {
            let mut logger = Logger::new(&directory.path().join(name), second);
            logger.write(0, 1, 7 + second as u64);
            loggers.push(logger);
        }
        let metadata = directory.path().join(format!("{damaged}.meta"));
        let mut bytes = std::fs::read(&metadata).unwrap();
        bytes[4..8].fill(0xff);
        std::fs::write(&metadata, bytes).unwrap();
        let newest = if damaged == "20231114.3" { 1 } else { 2 };
        let follow = Follow::start(directory.path(), &[".", "--json"]);
        assert!(follow.line().ends_with(&format!("\"value\":{}}}", 7 + 100 * newest)), "{damaged}");
        loggers[newest].write(10, 1, 999);
        assert!(follow.line().ends_with("\"value\":999}"), "{damaged}");
        drop(follow);
        let mut command = Command::new(env!("CARGO_BIN_EXE_mmv-archive"));
        command.arg("follow").arg(directory.path()).args(["-s", "1"]);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(&format!("{damaged}.meta: offset 0: ")), "{said}");
        assert!(said.contains("this archive is skipped"), "{said}");
    }
}

#[test]
fn one_instance_since_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let mut logger = Logger::new(&directory.path().join("a"), 0);
    for count in 0..5 {
        logger.write(10, 2, count);
    }
    let arguments = ["a", "acme", "-i", "s1", "--no-rate", "-S", "-15s", "-s", "2"];
    let mut follow = Follow::start(directory.path(), &arguments);
    (0..4).for_each(|_| drop(follow.line()));
    follow.expect(&["22:14:00.000      3", "22:14:10.000      4"]);
    assert!(follow.child.wait().unwrap().success());
}

#[test]
fn quantiles_need_a_histogram() {
    let directory = tempfile::tempdir().unwrap();
    let mut logger = Logger::new(&directory.path().join("a"), 0);
    logger.write(0, 1, 100);
    let mut command = Command::new(env!("CARGO_BIN_EXE_mmv-archive"));
    command.current_dir(directory.path()).args([
        "follow",
        "a",
        "--quantile",
        "0.5",
        "-s",
        "1",
        "--no-rate",
    ]);
    let output = command.output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("none of the metrics in the archive is a histogram yet"), "{stderr}");
    assert!(String::from_utf8(output.stdout).unwrap().contains("acme.sold"));
}

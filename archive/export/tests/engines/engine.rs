//! The engines that `ci/engines` fetches.
#![allow(dead_code, reason = "tests and benchmarks need a part of this each")]

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::server::{free_port, get};

/// Finds the program of an engine and prints its version; `None`, with a message, where it is
/// not.
///
/// A test that needs an engine that this machine lacks passes; with `PCP=require` in the
/// environment it fails.
pub(crate) fn program(engine: &str, name: &str) -> Option<PathBuf> {
    let engines = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/engines");
    let program = engines.join(engine).join("root/usr/bin").join(name);
    if program.is_file() {
        let version = fs::read_to_string(engines.join(engine).join("version"));
        eprintln!("{engine}: {}", version.unwrap_or_default().trim());
        return Some(program.canonicalize().expect("its path"));
    }
    let message = format!("{engine} is not there; ci/engines {engine} fetches it");
    assert!(std::env::var_os("PCP").is_none_or(|mode| mode != "require"), "{message}");
    eprintln!("skipped: {message}");
    None
}

/// Returns a block of a page of `docs/engines`, of those in a language.
pub(crate) fn block(page: &str, language: &str, place: usize) -> String {
    let pages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/engines");
    let text = fs::read_to_string(pages.join(page)).expect("the page");
    let fence = format!("```{language}\n");
    let mut blocks = text.split(&fence).skip(1);
    blocks.nth(place).and_then(|rest| rest.split("```").next()).expect("a block").to_owned()
}

/// Returns the suites whose version of a package there is here; the first one has to be.
pub(crate) fn suites(package: &str) -> Vec<String> {
    let all = ["sid", "trixie", "bookworm"].map(|suite| format!("{package}@{suite}"));
    let engines = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/engines");
    let is_there = |name: &&String| engines.join(name).join("complete").exists();
    all.iter().filter(|name| *name == &all[0] || is_there(name)).cloned().collect()
}

pub(crate) struct Engine {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Engine {
    pub(crate) fn prometheus(program: &Path, place: &Path, configuration: &str) -> Self {
        Self::prometheus_with(program, place, configuration, &[])
    }

    pub(crate) fn prometheus_with(
        program: &Path,
        place: &Path,
        configuration: &str,
        options: &[&str],
    ) -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        Self::prometheus_at(program, place, configuration, options, address)
    }

    pub(crate) fn prometheus_at(
        program: &Path,
        place: &Path,
        configuration: &str,
        options: &[&str],
        address: SocketAddr,
    ) -> Self {
        fs::create_dir_all(place).expect("a directory");
        let file = place.join("prometheus.yml");
        fs::write(&file, configuration).expect("write the configuration");
        let mut command = Command::new(program);
        command
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", place.join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .args(options);
        Self::start(command, place, address, "/-/ready")
    }

    pub(crate) fn victoria_metrics(program: &Path, place: &Path) -> Self {
        Self::victoria_metrics_at(program, place, SocketAddr::from(([127, 0, 0, 1], free_port())))
    }

    pub(crate) fn victoria_metrics_at(program: &Path, place: &Path, address: SocketAddr) -> Self {
        let mut command = Command::new(program);
        command
            .arg(format!("-httpListenAddr={address}"))
            .arg(format!("-storageDataPath={}", place.join("data").display()))
            .args(["-retentionPeriod=100y", "-loggerLevel=ERROR"]);
        fs::create_dir_all(place).expect("a directory");
        Self::start(command, place, address, "/health")
    }

    fn start(mut command: Command, place: &Path, address: SocketAddr, ready: &str) -> Self {
        let log = File::create(place.join("log")).expect("a log");
        let copy = log.try_clone().expect("the log again");
        let child = command.stdin(Stdio::null()).stdout(copy).stderr(log).spawn();
        let engine = Self { child: child.expect("start an engine"), address };
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let is_up = std::net::TcpStream::connect(address).is_ok();
            if is_up && get(address, ready, &[]).status == 200 {
                return engine;
            }
            let log = || fs::read_to_string(place.join("log")).unwrap_or_default();
            assert!(Instant::now() < until, "the engine does not start: {}", log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends it when it has brought all to disk.
    pub(crate) fn stop(mut self) {
        let status = Command::new("kill").args(["-INT", &self.id().to_string()]).status();
        assert!(status.expect("run kill").success(), "the engine has ended");
        self.child.wait().expect("its end");
    }

    /// Returns the result of a PromQL query at a time, seconds since 1970: labels and values.
    pub(crate) fn query(&self, query: &str, at: i64) -> Vec<(Value, f64)> {
        let path = format!("/api/v1/query?time={at}&query={}", encoded(query));
        let answer = get(self.address, &path, &[]);
        let value: Value = serde_json::from_str(answer.text()).expect("JSON");
        assert_eq!(value["status"], "success", "{query}: {value}");
        assert!(value["warnings"].is_null(), "{query}: {value}");
        value["data"]["result"]
            .as_array()
            .expect("results")
            .iter()
            .map(|one| {
                let number = one["value"][1].as_str().expect("a value").parse().expect("a number");
                (one["metric"].clone(), number)
            })
            .collect()
    }

    #[track_caller]
    pub(crate) fn value(&self, query: &str, at: i64) -> f64 {
        let found = self.query(query, at);
        let [(_, value)] = found.as_slice() else { panic!("{query} at {at}: {found:?}") };
        *value
    }
}

pub(crate) fn encoded(text: &str) -> String {
    text.bytes()
        .map(|byte: u8| {
            if byte.is_ascii_alphanumeric() {
                char::from(byte).to_string()
            } else {
                format!("%{byte:02X}")
            }
        })
        .collect()
}

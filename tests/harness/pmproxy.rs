//! pmproxy with a key server of its own, which finds archives as they are written.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::oracle::Oracle;
use super::pmcd::free_port;
use super::scratch::Scratch;
use super::skip;
use super::wait;

/// The key servers that `ci/oracle` takes, one of them.
const KEY_SERVERS: [&str; 2] = ["redis-server", "valkey-server"];

/// Metrics that pmproxy must skip, as in `docs/operators.md`.
const EXCLUDED: &str = "proc.*,acct.*,mmv.agent.event*";

/// The longest answer that comes in one piece.
const ANSWER: usize = 1 << 20;

/// A running program; killed on drop.
#[derive(Debug)]
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().unwrap_or_else(|error| panic!("start {command:?}: {error}")))
    }

    /// Waits until it answers; false if it has ended instead.
    fn answers(&mut self, who: &str, is_ready: impl Fn() -> bool) -> bool {
        wait::until(&format!("an answer of {who}"), || {
            let has_ended = self.0.try_wait().expect("its status").is_some();
            (has_ended || is_ready()).then_some(!has_ended)
        })
    }

    fn end(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// A running pmproxy and its key server, on the loopback interface.
#[derive(Debug)]
pub(crate) struct Pmproxy<'t> {
    oracle: &'t Oracle,
    directory: &'t Path,
    archives: PathBuf,
    proxy: Running,
    port: u16,
    key_port: u16,
    _keys: Running,
}

impl<'t> Pmproxy<'t> {
    /// Starts both, with a directory as `$PCP_ARCHIVE_DIR`, and waits until pmproxy
    /// answers. `None`, with a message, without a key server.
    pub(crate) fn start(oracle: &'t Oracle, scratch: &'t Scratch, archives: &Path) -> Option<Self> {
        let programs = oracle.root().join("usr/bin");
        let Some(name) = KEY_SERVERS.iter().find(|name| programs.join(name).exists()) else {
            skip::skip("no key server is there; ci/oracle fetches one");
            return None;
        };
        let directory = scratch.path();
        // Another process may take a free port before its server does: try again then.
        let started = (0..5).find_map(|_| {
            let key_port = free_port();
            let mut keys = oracle.command(name);
            keys.args(["--bind", "127.0.0.1", "--port", &key_port.to_string()]);
            keys.args(["--save", "", "--appendonly", "no", "--dir"]).arg(directory);
            let mut keys = Running::start(&mut keys);
            let listens = keys
                .answers("the key server", || TcpStream::connect(("127.0.0.1", key_port)).is_ok());
            let (proxy, port) = listens.then(|| run(oracle, directory, archives, key_port))??;
            let archives = archives.to_owned();
            Some(Self { oracle, directory, archives, proxy, port, key_port, _keys: keys })
        });
        Some(started.expect("a key server and pmproxy start on some of five ports"))
    }

    /// Ends pmproxy and starts another on the same keys.
    pub(crate) fn restart(&mut self) {
        self.proxy.end();
        let again =
            (0..5).find_map(|_| run(self.oracle, self.directory, &self.archives, self.key_port));
        (self.proxy, self.port) = again.expect("pmproxy starts on one of five ports");
    }

    /// Asks for a page below `/series/`, as Grafana does.
    #[track_caller]
    pub(crate) fn ask(&self, page: &str, parameter: &str, value: &str) -> Value {
        let answer = ask(self.port, page, parameter, value);
        answer.unwrap_or_else(|| panic!("no answer to {page} of {value}"))
    }
}

/// Starts a pmproxy and waits until it answers; `None` if it has ended instead. Returns also its
/// port.
fn run(
    oracle: &Oracle,
    directory: &Path,
    archives: &Path,
    key_port: u16,
) -> Option<(Running, u16)> {
    let config = format!(
        "[pmproxy]\npcp.enabled = false\nhttp.enabled = true\nchunksize = {ANSWER}\n\
         [redis]\nservers = localhost:{key_port}\n\
         [discover]\nenabled = true\nexclude.metrics = {EXCLUDED}\n\
         [pmseries]\nenabled = true\n"
    );
    fs::write(directory.join("pmproxy.conf"), config).expect("write pmproxy.conf");
    let port = free_port();
    let mut command = oracle.command("pmproxy");
    command.args(["-f", "-A", "-i", "127.0.0.1", "-p", &port.to_string(), "-c"]);
    command.arg(directory.join("pmproxy.conf")).arg("-s").arg(directory.join("pmproxy.socket"));
    command.arg("-l").arg(directory.join("pmproxy.log"));
    command.env("PCP_ARCHIVE_DIR", archives).env("PCP_LOG_DIR", directory.join("log"));
    command.env("PCP_RUN_DIR", directory.join("run")).env("PCP_TMP_DIR", directory.join("tmp"));
    let mut proxy = Running::start(&mut command);
    proxy
        .answers("pmproxy", || {
            ask(port, "ping", "client", "test").is_some_and(|answer| answer["success"] == true)
        })
        .then_some((proxy, port))
}

/// Requests a page; `None` if the answer is no JSON.
fn ask(port: u16, page: &str, parameter: &str, value: &str) -> Option<Value> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    let mut request = format!("GET /series/{page}?{parameter}=");
    for byte in value.bytes() {
        write!(request, "%{byte:02X}").ok()?;
    }
    request += " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()
}

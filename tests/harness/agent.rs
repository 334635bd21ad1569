//! The agent as a process.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::binaries;
use super::scratch::Scratch;
use super::shim;
use super::wait;

const INTERVAL: &str = "50ms";

/// A running `mmv-agent run`; killed on drop.
#[derive(Debug)]
pub(crate) struct Agent {
    process: Child,
    log: PathBuf,
    archives: PathBuf,
}

impl Agent {
    /// Starts an agent on a scratch directory's MMV files, at the tests' usual interval.
    pub(crate) fn start(scratch: &Scratch) -> Self {
        Self::start_with(scratch, &["--interval", INTERVAL])
    }

    /// Starts an agent that ends by itself after some samples.
    pub(crate) fn start_for(scratch: &Scratch, samples: u32) -> Self {
        Self::start_with(scratch, &["--interval", INTERVAL, "--samples", &samples.to_string()])
    }

    pub(crate) fn start_with(scratch: &Scratch, options: &[&str]) -> Self {
        Self::spawn(Command::new(binaries::mmv_agent()), scratch, options)
    }

    /// Starts an agent that follows a configuration file, also in its events and own metrics.
    pub(crate) fn start_configured(scratch: &Scratch, config: &Path) -> Self {
        Self::spawn_configured(Command::new(binaries::mmv_agent()), scratch, config)
    }

    /// Starts an agent with a configuration file, for which [`limit_files`](Self::limit_files) is
    /// a full disk.
    pub(crate) fn start_configured_on_disk_to_fill(
        scratch: &Scratch,
        config: &Path,
    ) -> Option<Self> {
        let command = Self::with_disk_to_fill(Command::new(binaries::mmv_agent()))?;
        Some(Self::spawn_configured(command, scratch, config))
    }

    fn spawn_configured(command: Command, scratch: &Scratch, config: &Path) -> Self {
        let config = config.to_str().expect("a UTF-8 path");
        Self::spawn_unchanged(command, scratch, &["--config", config])
    }

    /// Starts an agent whose files may not grow beyond `bytes`.
    pub(crate) fn start_limited(scratch: &Scratch, bytes: u64, options: &[&str]) -> Self {
        let mut command = Command::new("prlimit");
        command.arg(format!("--fsize={bytes}:")).arg(binaries::mmv_agent());
        Self::spawn(command, scratch, options)
    }

    /// Starts an agent whose disk is full when a file has this many bytes;
    /// [`lift_limit`](Self::lift_limit) makes room. `None`, with a message, where that cannot be
    /// had.
    pub(crate) fn start_on_full_disk(
        scratch: &Scratch,
        bytes: u64,
        options: &[&str],
    ) -> Option<Self> {
        let mut command = Self::with_disk_to_fill(Command::new("prlimit"))?;
        command.arg(format!("--fsize={bytes}:")).arg(binaries::mmv_agent());
        Some(Self::spawn(command, scratch, options))
    }

    /// Preloads the shim that makes [`limit_files`](Self::limit_files) a full disk for the agent.
    fn with_disk_to_fill(mut command: Command) -> Option<Command> {
        command.env("LD_PRELOAD", shim::library()?).env("SHIM_FULL", "1");
        Some(command)
    }

    /// Keeps the files of a running agent from growing beyond `bytes`.
    pub(crate) fn limit_files(&self, bytes: u64) {
        self.set_limit(&bytes.to_string());
    }

    /// Lets the files of an agent grow again.
    pub(crate) fn lift_limit(&self) {
        self.set_limit("unlimited");
    }

    fn set_limit(&self, bytes: &str) {
        let pid = self.process.id().to_string();
        let limit = format!("--fsize={bytes}:");
        let status = Command::new("prlimit").args(["--pid", &pid, &limit]).status();
        assert!(status.expect("run prlimit").success());
    }

    /// Starts an agent as systemd does, with a socket for notifications and a watchdog of this
    /// many microseconds.
    pub(crate) fn start_notifying(
        scratch: &Scratch,
        options: &[&str],
        socket: &Path,
        watchdog: u64,
    ) -> Self {
        let mut command = Command::new("env");
        command.arg(format!("NOTIFY_SOCKET={}", socket.display()));
        command.arg(format!("WATCHDOG_USEC={watchdog}")).arg(binaries::mmv_agent());
        Self::spawn(command, scratch, options)
    }

    /// Starts an agent by a command that ends in the agent's path, which may be in an environment
    /// of its own.
    pub(crate) fn spawn(command: Command, scratch: &Scratch, options: &[&str]) -> Self {
        let mut options = options.to_vec();
        // Most tests know each metric of their archives.
        for option in ["--own-metrics", "--events"] {
            if !options.contains(&option) {
                options.extend([option, "false"]);
            }
        }
        Self::spawn_unchanged(command, scratch, &options)
    }

    fn spawn_unchanged(mut command: Command, scratch: &Scratch, options: &[&str]) -> Self {
        let log = scratch.path().join("agent.log");
        let archives = scratch.archives();
        command.arg("run").arg("--mmv-dir").arg(scratch.mmv_dir());
        command.arg("--archive-dir").arg(&archives).args(options);
        // An installed PCP and the caller's shell must not influence it.
        for name in ["PCP_CONF", "PCP_DIR", "PCP_TMP_DIR", "NOTIFY_SOCKET"] {
            command.env_remove(name);
        }
        let stderr = File::create(&log).expect("the agent's log");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
        let process = command.spawn().expect("start mmv-agent");
        Self { process, log, archives }
    }

    /// Runs one over the directory for a few samples, and returns its archive's base.
    pub(crate) fn harvest(scratch: &Scratch) -> PathBuf {
        let mut agent = Self::start_for(scratch, 4);
        agent.ended();
        agent.archive()
    }

    /// Returns the host's directory of a scratch directory that has archives.
    pub(crate) fn host_directory(scratch: &Scratch) -> PathBuf {
        let mut bases = Vec::new();
        find_bases(&scratch.archives(), &mut bases);
        bases.first().and_then(|base| base.parent()).expect("an archive").to_owned()
    }

    /// Waits for it to end by itself, which must be a success.
    #[track_caller]
    pub(crate) fn ended(&mut self) {
        let status = wait::until("the agent to end", || {
            self.process.try_wait().expect("the agent's status")
        });
        assert!(status.success(), "the agent: {status}\n{}", self.log());
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.process.id()).expect("a process number");
        kill(Pid::from_raw(id), signal).expect("signal the agent");
    }

    pub(crate) fn terminate(&mut self) -> ExitStatus {
        self.signal(Signal::SIGTERM);
        wait::until("the agent to end on SIGTERM", || {
            self.process.try_wait().expect("the agent's status")
        })
    }

    /// Waits until it has done something, which may take work of idle priority, and ends it by
    /// SIGTERM; or until it ends by itself.
    #[track_caller]
    pub(crate) fn terminate_after(&mut self, what: &str, is_done: impl Fn() -> bool) -> ExitStatus {
        let id = self.id();
        let by_itself = wait::for_idle_work(what, || match self.process.try_wait() {
            Ok(None) => (is_done() && handles(id, Signal::SIGTERM)).then_some(None),
            ended => Some(ended.expect("the agent's status")),
        });
        by_itself.unwrap_or_else(|| self.terminate())
    }

    /// Waits for its end, whatever the status.
    pub(crate) fn gone(&mut self) -> ExitStatus {
        self.process.wait().expect("the agent's status")
    }

    /// Returns a number of the last log line.
    #[track_caller]
    pub(crate) fn counted(&self, what: &str) -> u64 {
        let log = self.log();
        let stopped = log.lines().find(|line| line.contains("stopped records="));
        let words = stopped.unwrap_or_else(|| panic!("no last line:\n{log}")).split(' ');
        let number = words.filter_map(|word| word.split_once('=')).find(|(key, _)| *key == what);
        number.and_then(|(_, number)| number.parse().ok()).expect("a number")
    }

    #[track_caller]
    pub(crate) fn assert_alive(&mut self) {
        let status = self.process.try_wait().expect("the agent's status");
        assert!(status.is_none(), "the agent ended: {status:?}\n{}", self.log());
    }

    /// Returns the resident anonymous memory in KiB (`RssAnon` of proc(5)).
    pub(crate) fn memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id()));
        let status = status.expect("the agent's status");
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        line.expect("a line").trim().trim_end_matches(" kB").parse().expect("a number")
    }

    pub(crate) fn data_bytes(&self) -> u64 {
        let newest = self.archives().pop();
        newest.map_or(0, |base| {
            let volume = format!("{}.0", base.display());
            fs::metadata(volume).map_or(0, |file| file.len())
        })
    }

    pub(crate) fn volume_bytes(&self) -> u64 {
        let base = self.archives().pop();
        (0..)
            .map_while(|volume: u32| {
                let base = base.as_ref()?;
                fs::metadata(format!("{}.{volume}", base.display())).ok().map(|file| file.len())
            })
            .sum()
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits until `ready` accepts the archive as written so far.
    #[track_caller]
    pub(crate) fn wait_for(&self, what: &str, ready: impl Fn(&Path) -> bool) {
        wait::until_true(what, || self.archives().last().is_some_and(|base| ready(base)));
    }

    #[track_caller]
    pub(crate) fn archive(&self) -> PathBuf {
        let mut bases = self.archives();
        assert_eq!(bases.len(), 1, "{bases:?}; the log:\n{}", self.log());
        bases.remove(0)
    }

    pub(crate) fn archives(&self) -> Vec<PathBuf> {
        let mut bases = Vec::new();
        find_bases(&self.archives, &mut bases);
        bases.sort();
        bases
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Checks whether a process has a handler for a signal (proc(5): `SigCgt`).
fn handles(process: u32, signal: Signal) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|caught| u64::from_str_radix(caught.trim(), 16).ok());
    caught.is_some_and(|caught| caught & (1 << (signal as u64 - 1)) != 0)
}

/// Finds the archives in a directory and below, by their metadata files. Hidden directories are
/// those of archives that are being written.
pub(crate) fn find_bases(directory: &Path, bases: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        if path.is_dir() {
            find_bases(&path, bases);
        } else if path.extension().is_some_and(|suffix| suffix == "meta") {
            bases.push(path.with_extension(""));
        }
    }
}

//! The roads from a directory of MMV files to an archive.

use std::cell::RefCell;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::process::Process;
use crate::progress::{Follower, Progress, volume};

/// A way to get values from MMV files into an archive.
pub(crate) trait Pipeline {
    fn start(&self, directory: &Path, interval: Duration) -> Result<Running, String>;
}

/// PCP's: pmcd with pmdammv in it, and pmlogger.
pub(crate) struct Pcp;

pub(crate) struct Agent {
    /// The build that is measured.
    pub(crate) program: PathBuf,
}

/// The bare loop of [`limit`](crate::limit).
pub(crate) struct Limit;

pub(crate) struct Running {
    processes: RefCell<Vec<Process>>,
    base: PathBuf,
    follower: RefCell<Follower>,
    scratch: TempDir,
}

pub(crate) struct Written {
    pub(crate) base: PathBuf,
    _scratch: TempDir,
}

impl Pipeline for Agent {
    fn start(&self, directory: &Path, interval: Duration) -> Result<Running, String> {
        let scratch = scratch()?;
        let base = scratch.path().join("archive");
        let mut command = Command::new(&self.program);
        command.arg("run").arg("--mmv-dir").arg(directory).arg("--output").arg(&base);
        command.arg("--interval").arg(format!("{}ms", interval.as_millis()));
        // The others have the values of the files and no others.
        command.args(["--own-metrics", "false", "--events", "false"]);
        command.stdout(Stdio::null()).stderr(log(&scratch, "agent.log")?);
        let agent = Process::spawn(&mut command, "mmv-agent")?;
        Ok(Running::new(vec![agent], &base, scratch))
    }
}

impl Pipeline for Limit {
    fn start(&self, directory: &Path, interval: Duration) -> Result<Running, String> {
        let scratch = scratch()?;
        let base = scratch.path().join("archive");
        let exe = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = Command::new(exe);
        command.arg("limit").arg(directory).arg(volume(&base, 0));
        command.arg(interval.as_secs_f64().to_string());
        let limit = Process::spawn(command.stdout(Stdio::null()), "the bare loop")?;
        Ok(Running::new(vec![limit], &base, scratch))
    }
}

impl Pipeline for Pcp {
    fn start(&self, directory: &Path, interval: Duration) -> Result<Running, String> {
        let scratch = scratch()?;
        let at = |name: &str| scratch.path().join(name);
        for name in ["run", "log", "tmp"] {
            fs::create_dir(at(name)).map_err(|error| format!("{name}: {error}"))?;
        }
        std::os::unix::fs::symlink(directory, at("tmp/mmv")).map_err(|error| error.to_string())?;
        write(&at("pmns"), "root {\n    mmv 70:*:*\n}\n")?;
        let oracle = oracle()?;
        let pmda = oracle.join("root/var/lib/pcp/pmdas/mmv/pmda_mmv.so");
        write(&at("pmcd.conf"), &format!("mmv 70 dso mmv_init {}\n", pmda.display()))?;
        write(
            &at("pmlogger.conf"),
            &format!("log mandatory on every {} msec {{ mmv }}\n", interval.as_millis()),
        )?;
        let port = free_port()?;

        let mut pmcd = pcp_command(&oracle, "pmcd", scratch.path());
        pmcd.args(["-f", "-A", "-c", "pmcd.conf", "-n", "pmns", "-l", "pmcd.log"]);
        pmcd.args(["-p", &port.to_string(), "-s"]).arg(at("pmcd.socket"));
        let mut pmcd = Process::spawn(pmcd.stderr(log(&scratch, "pmcd.err")?), "pmcd")?;
        wait_for_port(port, &mut pmcd)?;

        let mut pmlogger = pcp_command(&oracle, "pmlogger", scratch.path());
        pmlogger.args(["-h", &format!("localhost:{port}"), "-c", "pmlogger.conf"]);
        pmlogger.args(["-l", "pmlogger.log", "archive"]);
        let pmlogger = Process::spawn(pmlogger.stderr(log(&scratch, "pmlogger.err")?), "pmlogger")?;
        let base = at("archive");
        Ok(Running::new(vec![pmcd, pmlogger], &base, scratch))
    }
}

impl Running {
    fn new(processes: Vec<Process>, base: &Path, scratch: TempDir) -> Self {
        let follower = RefCell::new(Follower::new(base));
        Self { processes: RefCell::new(processes), base: base.to_owned(), follower, scratch }
    }

    pub(crate) fn cpu(&self) -> Result<Duration, String> {
        self.processes.borrow().iter().map(Process::cpu).sum()
    }

    pub(crate) fn memory(&self) -> Result<u64, String> {
        self.processes.borrow().iter().map(Process::memory).sum()
    }

    /// Returns how many times their threads have waited and been woken up.
    pub(crate) fn wakeups(&self) -> Result<u64, String> {
        self.processes.borrow().iter().map(Process::wakeups).sum()
    }

    pub(crate) fn wait_for_records(
        &self,
        wanted: u64,
        values: u64,
        limit: Duration,
    ) -> Result<Progress, String> {
        let deadline = Instant::now() + limit;
        loop {
            let progress = self.follower.borrow_mut().look(values);
            if progress.count >= wanted {
                return Ok(progress);
            }
            if Instant::now() > deadline {
                return Err(format!(
                    "{}: {} of {wanted} records after {limit:?}",
                    self.base.display(),
                    progress.count
                ));
            }
            for process in self.processes.borrow_mut().iter_mut() {
                process.check()?;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn stop(self) -> Result<Written, String> {
        // The logger before the daemon that it talks to.
        self.processes.into_inner().into_iter().rev().try_for_each(Process::stop)?;
        Ok(Written { base: self.base, _scratch: self.scratch })
    }
}

pub(crate) fn scratch() -> Result<TempDir, String> {
    tempfile::tempdir().map_err(|error| format!("temporary directory: {error}"))
}

pub(crate) fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

pub(crate) fn log(scratch: &TempDir, name: &str) -> Result<fs::File, String> {
    fs::File::create(scratch.path().join(name)).map_err(|error| format!("{name}: {error}"))
}

/// Returns the path of our program beside this one, below `target`.
pub(crate) fn own_binary(name: &str) -> Result<PathBuf, String> {
    let exe = std::env::current_exe().map_err(|error| error.to_string())?;
    let binary = exe.ancestors().nth(2).unwrap_or(&exe).join(name);
    if binary.exists() {
        Ok(binary)
    } else {
        Err(format!("{} is missing: cargo build --profile dist -p {name}", binary.display()))
    }
}

fn oracle() -> Result<PathBuf, String> {
    let oracle = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/oracle");
    oracle.canonicalize().map_err(|error| format!("{}: {error}; run ci/oracle", oracle.display()))
}

/// Prepares a program of the oracle, run in the scratch directory by a shell that reads the
/// oracle's environment and then *becomes* the program.
fn pcp_command(oracle: &Path, program: &str, scratch: &Path) -> Command {
    let mut command = Command::new("bash");
    command.arg("-c").arg(". \"$1\"; shift; exec \"$@\"").arg("bash").arg(oracle.join("env"));
    command.arg(program).current_dir(scratch).stdout(Stdio::null());
    for (name, directory) in
        [("PCP_RUN_DIR", "run"), ("PCP_LOG_DIR", "log"), ("PCP_TMP_DIR", "tmp")]
    {
        command.env(name, scratch.join(directory));
    }
    command
}

fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    Ok(listener.local_addr().map_err(|error| error.to_string())?.port())
}

fn wait_for_port(port: u16, daemon: &mut Process) -> Result<(), String> {
    let deadline = Instant::now() + Duration::from_secs(20);
    while Instant::now() < deadline {
        daemon.check()?;
        if TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Err(format!("nothing listens on port {port}"))
}

//! The two roads from a directory of MMV files to an archive.

use std::cell::RefCell;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::process::Process;

/// A way to get values from MMV files into an archive.
pub(crate) trait Pipeline {
    /// Starts it on the MMV files in `directory`.
    fn start(&self, directory: &Path, interval: Duration) -> Result<Running, String>;
}

/// PCP's: pmcd with pmdammv in it, and pmlogger.
pub(crate) struct Pcp;

/// Ours.
pub(crate) struct Agent;

/// A pipeline at work.
pub(crate) struct Running {
    processes: RefCell<Vec<Process>>,
    volume: PathBuf,
    _scratch: TempDir,
}

/// How far an archive has grown.
pub(crate) struct Progress {
    /// Records that hold all the values.
    pub(crate) count: u64,
    /// Bytes of the data volume up to the last of them.
    pub(crate) bytes: u64,
}

impl Pipeline for Agent {
    fn start(&self, directory: &Path, interval: Duration) -> Result<Running, String> {
        let scratch = scratch()?;
        let base = scratch.path().join("archive");
        let mut command = Command::new(release_binary("mmv-agent")?);
        command.arg("run").arg("--mmv-dir").arg(directory).arg("--output").arg(&base);
        command.arg("--interval").arg(format!("{}ms", interval.as_millis()));
        command.stdout(Stdio::null()).stderr(log(&scratch, "agent.log")?);
        let agent = Process::spawn(&mut command, "mmv-agent")?;
        Ok(Running::new(vec![agent], &base, scratch))
    }
}

impl Pipeline for Pcp {
    fn start(&self, directory: &Path, interval: Duration) -> Result<Running, String> {
        let scratch = scratch()?;
        let at = |name: &str| scratch.path().join(name);
        for folder in ["run", "log", "tmp"] {
            fs::create_dir(at(folder)).map_err(|error| format!("{folder}: {error}"))?;
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
        let mut volume = base.as_os_str().to_owned();
        volume.push(".0");
        Self { processes: RefCell::new(processes), volume: volume.into(), _scratch: scratch }
    }

    /// CPU time of all processes since they were started.
    pub(crate) fn cpu(&self) -> Result<Duration, String> {
        self.processes.borrow().iter().map(Process::cpu).sum()
    }

    /// Waits until so many full records are in the archive.
    pub(crate) fn wait_for_records(
        &self,
        wanted: u64,
        values: u64,
        limit: Duration,
    ) -> Result<Progress, String> {
        let deadline = Instant::now() + limit;
        loop {
            let progress = progress(&self.volume, values);
            if progress.count >= wanted {
                return Ok(progress);
            }
            if Instant::now() > deadline {
                return Err(format!(
                    "{}: {} of {wanted} records after {limit:?}",
                    self.volume.display(),
                    progress.count
                ));
            }
            for process in self.processes.borrow_mut().iter_mut() {
                process.check()?;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn stop(self) -> Result<(), String> {
        // The logger before the daemon that it talks to.
        self.processes.into_inner().into_iter().rev().try_for_each(Process::stop)
    }
}

/// Counts the records of a volume that are long enough to hold all values: the
/// length word at the start of each record is all that is read.
fn progress(volume: &Path, values: u64) -> Progress {
    use std::os::unix::fs::FileExt;
    let mut progress = Progress { count: 0, bytes: 0 };
    let Ok(file) = fs::File::open(volume) else { return progress };
    let size = file.metadata().map_or(0, |metadata| metadata.len());
    let mut at = 0;
    let mut word = [0; 4];
    while file.read_exact_at(&mut word, at).is_ok() {
        let length = u64::from(u32::from_be_bytes(word));
        if length == 0 || at + length > size {
            break;
        }
        at += length;
        if length >= 8 * values {
            progress = Progress { count: progress.count + 1, bytes: at };
        }
    }
    progress
}

fn scratch() -> Result<TempDir, String> {
    tempfile::tempdir().map_err(|error| format!("temporary folder: {error}"))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

fn log(scratch: &TempDir, name: &str) -> Result<fs::File, String> {
    fs::File::create(scratch.path().join(name)).map_err(|error| format!("{name}: {error}"))
}

/// `target/release/NAME`, found from this program's own place below `target`.
fn release_binary(name: &str) -> Result<PathBuf, String> {
    let exe = std::env::current_exe().map_err(|error| error.to_string())?;
    let binary = exe.ancestors().nth(2).unwrap_or(&exe).join(name);
    if binary.exists() {
        Ok(binary)
    } else {
        Err(format!("{} is missing: cargo build --release -p {name}", binary.display()))
    }
}

fn oracle() -> Result<PathBuf, String> {
    let oracle = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/oracle");
    oracle.canonicalize().map_err(|error| format!("{}: {error}; run ci/oracle", oracle.display()))
}

/// A program of the oracle, run in the scratch folder by a shell that reads the
/// oracle's environment and then *becomes* the program.
fn pcp_command(oracle: &Path, program: &str, scratch: &Path) -> Command {
    let mut command = Command::new("bash");
    command.arg("-c").arg(". \"$1\"; shift; exec \"$@\"").arg("bash").arg(oracle.join("env"));
    command.arg(program).current_dir(scratch).stdout(Stdio::null());
    for (name, folder) in [("PCP_RUN_DIR", "run"), ("PCP_LOG_DIR", "log"), ("PCP_TMP_DIR", "tmp")] {
        command.env(name, scratch.join(folder));
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

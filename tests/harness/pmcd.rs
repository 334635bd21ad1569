//! pmcd with pmdammv, serving the MMV files of one scratch directory.

use std::fs;
use std::net::TcpListener;
use std::process::{Child, Stdio};

use super::oracle::Oracle;
use super::scratch::Scratch;
use super::wait;

/// A running pmcd; ended on drop.
#[derive(Debug)]
pub(crate) struct Pmcd {
    process: Child,
    port: u16,
}

impl Pmcd {
    /// Starts a pmcd on a free port of the loopback interface, and waits until it answers.
    pub(crate) fn start(oracle: &Oracle, scratch: &Scratch) -> Self {
        // Another process may take the free port before pmcd does: try again then.
        (0..5)
            .find_map(|_| Self::try_start(oracle, scratch))
            .expect("pmcd starts on one of five ports")
    }

    fn try_start(oracle: &Oracle, scratch: &Scratch) -> Option<Self> {
        let directory = scratch.path();
        let dso = oracle.root().join("var/lib/pcp/pmdas/mmv/pmda_mmv.so");
        let config = format!("mmv 70 dso mmv_init {}\n", dso.display());
        fs::write(directory.join("pmcd.conf"), config).expect("write pmcd.conf");
        fs::write(directory.join("pmns"), "root {\n    mmv 70:*:*\n}\n").expect("write pmns");
        let port = free_port();
        let mut command = oracle.command("pmcd");
        command.args(["-f", "-A", "-c"]).arg(directory.join("pmcd.conf"));
        command.arg("-n").arg(directory.join("pmns")).args(["-p", &port.to_string(), "-s"]);
        command.arg(directory.join("pmcd.socket")).arg("-l").arg(directory.join("pmcd.log"));
        // Programs of later versions log without it what agents complain about.
        command.args(["-D", "libpmda"]);
        command.env("PCP_RUN_DIR", directory.join("run"));
        command.env("PCP_LOG_DIR", directory.join("log"));
        command.env("PCP_TMP_DIR", scratch.tmp_dir());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn().expect("start pmcd");
        let mut pmcd = Self { process, port };
        pmcd.answers(oracle).then_some(pmcd)
    }

    /// Waits until it answers; false if it has ended instead.
    fn answers(&mut self, oracle: &Oracle) -> bool {
        wait::until("an answer of pmcd", || {
            if self.process.try_wait().expect("pmcd's status").is_some() {
                return Some(false);
            }
            let host = self.host();
            let output = oracle.output("pminfo", &["-h", &host, "-f", "mmv.control.files"]);
            (output.status.success() && output.stderr.is_empty()).then_some(true)
        })
    }

    pub(crate) fn log(scratch: &Scratch) -> String {
        let bytes = fs::read(scratch.path().join("pmcd.log")).expect("a log");
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Returns the argument of `-h` for PCP's programs.
    pub(crate) fn host(&self) -> String {
        format!("localhost:{}", self.port)
    }
}

impl Drop for Pmcd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns a port of the loopback interface that is free now.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    listener.local_addr().expect("its number").port()
}

//! PCP's logger, which writes the values of a pmcd into an archive.

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};

use super::oracle::Oracle;
use super::pmcd::Pmcd;
use super::scratch::Scratch;
use super::wait;

/// A running pmlogger; killed on drop.
#[derive(Debug)]
pub(crate) struct Pmlogger(Child);

impl Pmlogger {
    /// Starts a logger of all `mmv` metrics of a pmcd into an archive, ten times a second: the
    /// given number of samples, or until it is dropped.
    pub(crate) fn start(
        oracle: &Oracle,
        scratch: &Scratch,
        pmcd: &Pmcd,
        archive: &Path,
        samples: Option<u32>,
    ) -> Self {
        let config = scratch.path().join("pmlogger.conf");
        fs::write(&config, "log mandatory on 100 msec { mmv }\n").expect("write it");
        let mut command = oracle.command("pmlogger");
        command.args(["-V", "3", "-h", &pmcd.host(), "-c"]).arg(&config);
        if let Some(samples) = samples {
            command.args(["-s", &samples.to_string()]);
        }
        command.arg("-l").arg(scratch.path().join("pmlogger.log")).arg(archive);
        command.env("PCP_RUN_DIR", scratch.path().join("run"));
        command.env("PCP_TMP_DIR", scratch.tmp_dir());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().expect("start pmlogger"))
    }

    /// Waits for it to end by itself, which must be a success.
    #[track_caller]
    pub(crate) fn ended(mut self) {
        let status = wait::until("the end of pmlogger", || self.0.try_wait().expect("its status"));
        assert!(status.success(), "pmlogger: {status}");
    }
}

impl Drop for Pmlogger {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

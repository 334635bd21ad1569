//! `peers/updates.c`, on libpcp_mmv and on our library in its place.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::Command;

use crate::updates::text_of;

/// Paths of the program and the libraries that `ci/bench` has made.
#[derive(Debug)]
pub(crate) struct Programs {
    program: PathBuf,
    pcp: OsString,
    ours: OsString,
}

impl Programs {
    pub(crate) fn find() -> Result<Self, String> {
        let named = |name| {
            let found = std::env::var_os(name);
            found.ok_or_else(|| format!("{name} is not set: this is run by ci/bench"))
        };
        let pcp = named("BENCH_C_PCP")?;
        let mut ours = named("BENCH_C_OURS")?;
        ours.push(":");
        ours.push(&pcp);
        Ok(Self { program: named("BENCH_C_PROGRAM")?.into(), pcp, ours })
    }

    pub(crate) fn on_pcp(&self, what: &str, count: u64) -> Result<f64, String> {
        self.run(&self.pcp, what, count)
    }

    pub(crate) fn on_ours(&self, what: &str, count: u64) -> Result<f64, String> {
        self.run(&self.ours, what, count)
    }

    fn run(&self, libraries: &OsStr, what: &str, count: u64) -> Result<f64, String> {
        let mut command = Command::new(&self.program);
        command.args([what, &count.to_string()]).env("LD_LIBRARY_PATH", libraries);
        let output = command.output().map_err(text_of)?;
        let printed = String::from_utf8_lossy(&output.stdout);
        let complaints = String::from_utf8_lossy(&output.stderr);
        let time = printed.trim().parse();
        time.map_err(|_| format!("{command:?}: {}: {printed}{complaints}", output.status))
    }
}

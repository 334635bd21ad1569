//! The agent, again and again.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use nix::sys::signal::Signal;

use super::program::micros;
use crate::harness::agent::Agent;
use crate::harness::scratch::Scratch;

#[derive(Debug)]
pub(super) struct Run {
    /// Time when it was over, in microseconds since 1970.
    pub(super) ended: u64,
    /// Text that it wrote to standard error.
    pub(super) log: String,
    /// Lines of the log may be missing: the file had met the limit on sizes, too.
    pub(super) is_cut: bool,
}

impl Run {
    /// Returns the number of ticks that its log reports as missed; `None` if it was killed
    /// before, or could not write.
    pub(super) fn missed(&self) -> Option<u64> {
        if self.is_cut {
            return None;
        }
        if !self.log.contains("sampling is late") {
            return Some(0);
        }
        let stopped = self.log.lines().find(|line| line.contains("stopped records="))?;
        stopped.rsplit_once("missed=")?.1.parse().ok()
    }
}

/// More than the agent writes to its log while there is a limit.
const LINES: u64 = 20_000;

#[derive(Debug, Clone, Copy)]
pub(super) struct Usage {
    /// Memory of its own, in KiB (`RssAnon` of proc(5)).
    pub(super) memory: u64,
    pub(super) files: u64,
}

/// A running agent, and those that ran before it.
#[derive(Debug)]
pub(super) struct Runs {
    config: PathBuf,
    agent: Option<Agent>,
    /// Lines of its log may be missing.
    is_cut: bool,
    pub(super) over: Vec<Run>,
}

impl Runs {
    pub(super) fn new(scratch: &Scratch, interval: Duration) -> Self {
        let config = scratch.path().join("agent.toml");
        // With xz, since pmlogcheck of PCP 6.0.3 takes a volume of zstd for a missing one.
        let text = format!(
            "interval = \"{}ms\"\nsync = \"1s\"\n\
             [rotation]\nvolume-size = \"256KB\"\n\
             [retention]\nage = \"none\"\nsize = \"none\"\nfree = \"none\"\n\
             [compression]\nafter = \"1s\"\nmethod = \"xz\"\n",
            interval.as_millis()
        );
        fs::write(&config, text).expect("write the configuration");
        Self { config, agent: None, is_cut: false, over: Vec::new() }
    }

    pub(super) fn start(&mut self, scratch: &Scratch) {
        let config = self.config.to_str().expect("UTF-8");
        // With all that it logs.
        let options = ["--config", config, "--own-metrics", "true", "--events", "true"];
        self.agent = Some(Agent::start_with(scratch, &options));
    }

    pub(super) fn agent(&self) -> &Agent {
        self.agent.as_ref().expect("a running agent")
    }

    /// Keeps its files from growing beyond `bytes`, its log among them.
    pub(super) fn limit(&mut self, bytes: u64) {
        self.is_cut |= bytes < self.agent().log().len() as u64 + LINES;
        self.agent().limit_files(bytes);
    }

    pub(super) fn is_running(&self) -> bool {
        self.agent.is_some()
    }

    /// Ends it the hard way, or the proper one, which must succeed.
    pub(super) fn end(&mut self, is_hard: bool) {
        let Some(mut agent) = self.agent.take() else { return };
        agent.assert_alive();
        if is_hard {
            agent.signal(Signal::SIGKILL);
            agent.gone();
        } else {
            let status = agent.terminate();
            assert!(status.success(), "{status}\n{}", agent.log());
        }
        let is_cut = std::mem::take(&mut self.is_cut);
        self.over.push(Run { ended: micros(), log: agent.log(), is_cut });
    }

    pub(super) fn usage(&mut self) -> Usage {
        self.agent.as_mut().expect("a running agent").assert_alive();
        let files = fs::read_dir(format!("/proc/{}/fd", self.agent().id()));
        Usage { memory: self.agent().memory(), files: files.expect("its files").count() as u64 }
    }
}

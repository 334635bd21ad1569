//! Exit statuses and examples at the end of each help text.
//!
//! Manual pages are made of the same text. The numbers are those of `error`.

use std::fmt::{Display, Write as _};

use super::recording::{NOT_FOUND, NOT_RUN};
use crate::error::{
    EXIT_BUSY, EXIT_CONFIG, EXIT_DATA, EXIT_FINDINGS, EXIT_INTERNAL, EXIT_IO, EXIT_OK,
    EXIT_PERMISSION, EXIT_USAGE,
};

/// 128 plus the number of a signal.
const SIGNAL: &str = "128+N";

pub(super) struct HelpEpilogue {
    /// Exit statuses and their meanings, in ascending order.
    statuses: &'static [(&'static dyn Display, &'static str)],
    /// A heading, then purposes and commands.
    examples: &'static str,
}

impl HelpEpilogue {
    pub(super) fn text(&self) -> String {
        let mut keys = Vec::new();
        for (status, _) in self.statuses {
            keys.push(status.to_string());
        }
        let width = keys.iter().map(String::len).max().unwrap_or_default();
        let mut text = "Exit status:\n".to_owned();
        for ((_, meaning), key) in self.statuses.iter().zip(&keys) {
            // Writing to a String does not fail.
            let _ = writeln!(text, "  {key:>width$}  {meaning}");
        }
        text + "\n" + self.examples
    }
}

/// Commands to begin with, after all of the program's help.
pub(super) const EXAMPLES: &str = "\
Examples:
  Begin with a demonstration of five seconds, which needs no set-up:
    mmv-agent demo
  Then log what the programs of this user publish, until Ctrl-C:
    mmv-agent run
  Or log one program while it runs:
    mmv-agent record -- ./program

\"mmv-agent COMMAND --help\" has examples of each command.";

/// For the program: the statuses of all subcommands.
pub(super) const PROGRAM: HelpEpilogue = HelpEpilogue {
    statuses: &[
        (&EXIT_OK, "success"),
        (&EXIT_FINDINGS, "the agent cannot write, entries are skipped, or there are no samples"),
        (&EXIT_USAGE, "invalid command line"),
        (&EXIT_DATA, "the file is rejected, or the agent has another version"),
        (&EXIT_INTERNAL, "internal failure"),
        (&EXIT_IO, "a system call failed, or no agent answers"),
        (&EXIT_BUSY, "another agent writes there"),
        (&EXIT_PERMISSION, "no permission"),
        (&EXIT_CONFIG, "the configuration is invalid, or there is no flight recorder"),
        (&NOT_RUN, "\"record\" cannot run the command"),
        (&NOT_FOUND, "\"record\" does not find the command"),
        (&SIGNAL, "signal N ended the command of \"record\", or \"demo\""),
    ],
    examples: EXAMPLES,
};

pub(super) const RUN: HelpEpilogue = HelpEpilogue {
    statuses: &[
        (&EXIT_OK, "stopped on request"),
        (&EXIT_USAGE, "invalid command line"),
        (&EXIT_INTERNAL, "a thread failed"),
        (&EXIT_IO, "a system call failed"),
        (&EXIT_BUSY, "another agent writes to the directory for archives"),
        (&EXIT_PERMISSION, "no permission to write archives"),
        (&EXIT_CONFIG, "the configuration is invalid"),
    ],
    examples: "\
Examples:
  Log the metrics of this user's programs once a second, until Ctrl-C:
    mmv-agent run
  Log ten times a second for one minute, into an archive of its own:
    mmv-agent run --interval 100ms --duration 1m --output minute
  Log as the service does:
    mmv-agent run --config /etc/mmv-agent/agent.toml
  Log what a configuration of pmlogger selects:
    mmv-agent run --pmlogger-config pmlogger.conf",
};

pub(super) const CHECK_CONFIG: HelpEpilogue = HelpEpilogue {
    statuses: &[
        (&EXIT_OK, "valid"),
        (&EXIT_USAGE, "invalid command line"),
        (&EXIT_CONFIG, "invalid; the error has file, line, column and key"),
    ],
    examples: "\
Examples:
  Check an edited configuration, then let the service read it:
    mmv-agent check-config /etc/mmv-agent/agent.toml &&
        systemctl reload mmv-agent
  Which groups does a configuration of pmlogger define?
    mmv-agent check-config --pmlogger-config pmlogger.conf",
};

pub(super) const STATUS: HelpEpilogue = HelpEpilogue {
    statuses: &[
        (&EXIT_OK, "running"),
        (&EXIT_FINDINGS, "running, but archives cannot be written at present"),
        (&EXIT_USAGE, "invalid command line"),
        (&EXIT_IO, "no agent answers, or the output cannot be written"),
    ],
    examples: "\
Examples:
  Which programs are logged, and is anything lost?
    mmv-agent status
  Which files are not logged, and why?
    mmv-agent status --json | jq '.sources[] | select(.reason)'
  For how many days are data kept at this rate?
    mmv-agent status --json | jq .forecast.days
  Ask an agent that has its archives elsewhere:
    mmv-agent status --archive-dir /srv/archives",
};

pub(super) const CAPTURE: HelpEpilogue = HelpEpilogue {
    statuses: &[
        (&EXIT_OK, "written"),
        (&EXIT_FINDINGS, "no samples"),
        (&EXIT_USAGE, "invalid command line"),
        (&EXIT_IO, "an archive cannot be read or written"),
        (&EXIT_PERMISSION, "the user may not capture"),
        (&EXIT_CONFIG, "there is no flight recorder"),
    ],
    examples: "\
Examples:
  Keep the last five minutes after an incident:
    mmv-agent capture --last 5m --output incident
  Then draw what happened in them:
    mmv-archive plot incident mmv.shop.latency
  Keep all samples of an agent that has its archives elsewhere:
    mmv-agent capture --archive-dir /srv/archives --output all",
};

pub(super) const INSPECT: HelpEpilogue = HelpEpilogue {
    statuses: &[
        (&EXIT_OK, "valid"),
        (&EXIT_FINDINGS, "some entries are skipped"),
        (&EXIT_USAGE, "invalid command line"),
        (&EXIT_DATA, "the file is rejected"),
        (&EXIT_IO, "the file cannot be read, or the output cannot be written"),
        (&EXIT_PERMISSION, "no permission to read the file"),
    ],
    examples: "\
Examples:
  What does the program \"shop\" publish at present?
    mmv-agent inspect shop
  Why does the agent reject a file?
    mmv-agent inspect /var/lib/pcp/tmp/mmv/shop
  Print the metrics and values of a file as JSON:
    mmv-agent inspect shop --json | jq .",
};

pub(super) const RECORD: HelpEpilogue = HelpEpilogue {
    statuses: &[
        (&"N", "exit status of the command"),
        (&EXIT_USAGE, "invalid command line"),
        (&EXIT_INTERNAL, "the agent failed, or the archive cannot be read"),
        (&EXIT_IO, "a system call failed, or records could not be written"),
        (&NOT_RUN, "the command cannot be run"),
        (&NOT_FOUND, "the command does not exist"),
        (&SIGNAL, "signal N ended the command"),
    ],
    examples: "\
Examples:
  Run a benchmark, and print a summary of the metrics that it published:
    mmv-agent record -- ./bench --threads 4
  Sample once a second, into an archive with this name:
    mmv-agent record --interval 1s --output night -- ./server
  Then draw what it logged:
    mmv-archive plot night mmv.server.latency",
};

pub(super) const DEMO: HelpEpilogue = HelpEpilogue {
    statuses: &[
        (&EXIT_OK, "success"),
        (&EXIT_USAGE, "invalid command line"),
        (&EXIT_INTERNAL, "a part of the demonstration failed"),
        (&SIGNAL, "signal N ended it early"),
    ],
    examples: "\
Examples:
  See an instrumented program, the agent and a report:
    mmv-agent demo
  Then draw the latency from the archive that it leaves, here of the first run:
    mmv-archive plot /tmp/mmv-demo-*/shop.meta mmv.shop.latency",
};

pub(super) const COMPLETIONS: HelpEpilogue = HelpEpilogue {
    statuses: &[
        (&EXIT_OK, "success"),
        (&EXIT_USAGE, "invalid command line"),
        (&EXIT_IO, "the output cannot be written"),
    ],
    examples: "\
Examples:
  Install the script of bash for this user:
    mmv-agent completions bash \\
        >~/.local/share/bash-completion/completions/mmv-agent
  Complete in this fish only:
    mmv-agent completions fish | source",
};

//! `mmv-archive mcp`: archives for an assistant, by the Model Context Protocol on standard input
//! and output.
//!
//! A tool is a subcommand: it has the names of its options, runs it in this process and returns
//! what it prints. Nothing is written, and no argument of a tool names a file. Archives are
//! opened for each call, so that an answer is about now.
//!
//! | module | contents |
//! |---|---|
//! | `lines` | messages, each a line of limited length |
//! | `requests` | reads ahead, and leaves out what the client cancels |
//! | `protocol` | requests and responses of JSON-RPC; versions of the protocol |
//! | `tools` | what can be asked, with the types of arguments, and the command line of each |
//! | `programs` | the answer of the tool that is not a subcommand |
//! | `answers` | runs a tool, and marks what it prints as data |
//!
//! Requests are answered one after another: a command uses all processors. A client can cancel those
//! that wait, and the one that is being answered.

mod answers;
mod lines;
mod programs;
mod protocol;
mod requests;
mod tools;

use std::io::{self, BufReader, Write as _};
use std::path::PathBuf;

use clap::Args;
use serde_json::Value;

use crate::options::{ArchiveArgument, Parts};
use crate::text::shown;
use crate::{Failure, cancellation};
use requests::{Message, Requests};

/// The text that an assistant gets before its first question.
const INSTRUCTIONS: &str = include_str!("mcp/instructions.md");

/// The beginning of the long help.
pub(crate) const ABOUT: &str = "\
Answer an assistant's questions, by the Model Context Protocol on standard input and output

It only reads. Clients start it; in the configuration of most of them: \
{\"mcpServers\": {\"mmv\": {\"command\": \"mmv-archive\", \"args\": [\"mcp\", \"@\"]}}}";

/// The end of the help.
const EXAMPLES: &str = "\
Examples:
  Serve the archives of this machine's agent; clients start this:
    mmv-archive mcp @
  Serve several archives:
    mmv-archive mcp web1=/srv/web1 web2=/srv/web2";

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct McpCommand {
    /// Archive, as for the other commands: a base name, a directory, a pattern, a list with commas,
    /// or @ for the archives of this machine's agent. To serve several, name each of them:
    /// A=ARCHIVE B=ARCHIVE ...
    archive: PathBuf,

    /// More archives, as B=ARCHIVE
    #[arg(value_name = "NAME=ARCHIVE")]
    others: Vec<String>,
}

/// The archives that are served, by name; the name of a single one may be empty.
#[derive(Debug)]
struct Archives(Vec<(String, ArchiveArgument)>);

impl Archives {
    /// Returns the archive of a name, or the first one without.
    fn find(&self, name: Option<&str>) -> Option<&ArchiveArgument> {
        let found = self.0.iter().find(|(own, _)| name.is_none_or(|name| own == name));
        found.map(|(_, archive)| archive)
    }

    fn names(&self) -> Vec<&str> {
        self.0.iter().map(|(name, _)| name.as_str()).collect()
    }
}

impl McpCommand {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let archives = self.archives()?;
        let failed = |error| Failure::Input(format!("standard input: {error}"));
        let requests = Requests::read(BufReader::new(io::stdin())).map_err(failed)?;
        while let Some(message) = requests.next().map_err(failed)? {
            let response = match &message {
                Message::Text { line, is_cancelled, .. } => {
                    cancellation::with_flag(is_cancelled.clone(), || {
                        protocol::respond(&archives, line)
                    })
                }
                Message::TooLong => Some(protocol::too_long()),
            };
            if let Message::Text { id: Some(id), .. } = &message
                && requests.close(id)
            {
                continue;
            }
            if let Some(response) = response {
                send(&response)?;
            }
        }
        Ok(())
    }

    /// Opens each archive once, to fail at the start and not at the first question.
    fn archives(&self) -> Result<Archives, Failure> {
        let Parts { first, others, metrics } = Parts::new(&self.archive, &self.others)?;
        if let Some(text) = metrics.first() {
            let text = shown(text);
            let reason = format!("{text}: name each of several archives, as B={text}");
            return Err(Failure::Usage(reason));
        }
        let mut archives = vec![first];
        archives.extend(others);
        for (_, archive) in &archives {
            archive.open(&[])?;
        }
        Ok(Archives(archives))
    }
}

fn send(response: &Value) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{response}")?;
    stdout.flush()?;
    Ok(())
}

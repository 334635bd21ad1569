//! Options that several subcommands share.

use std::path::PathBuf;

use clap::Args;
use glob::Pattern;

use crate::Failure;
use crate::tree::{Host, hosts};

/// Options that select hosts.
#[derive(Debug, Clone, Args)]
pub(crate) struct HostOptions {
    /// Archives: a directory with a directory for each host, the directory of one host, or an
    /// archive by its base name or any of its files
    #[arg(value_name = "ARCHIVE", required = true)]
    archives: Vec<PathBuf>,

    /// Only hosts whose directory name matches this pattern, such as "web*"
    #[arg(long, value_name = "GLOB")]
    host: Option<Pattern>,
}

impl HostOptions {
    /// Returns the hosts that exist now.
    ///
    /// # Errors
    ///
    /// Those of [`hosts`]; [`Failure::NoData`] if no host has a name that the pattern matches.
    pub(crate) fn hosts(&self) -> Result<Vec<Host>, Failure> {
        let found = hosts(&self.archives, self.host.as_ref())?;
        if let (true, Some(pattern)) = (found.is_empty(), &self.host) {
            return Err(Failure::NoData(format!("no host's directory matches {pattern}")));
        }
        Ok(found)
    }
}

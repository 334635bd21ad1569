//! Options that several subcommands share.

use std::path::PathBuf;

use clap::Args;
use glob::Pattern;
use mmv_arguments::archives;

use crate::Failure;
use crate::selection::{MetricSelection, MetricText};
use crate::text::warn;
use crate::tree::{Host, hosts};

/// Options that select hosts, metrics and instances.
#[derive(Debug, Clone, Args)]
pub(crate) struct SourceOptions {
    /// Archives: a directory with a directory for each host, the directory of one host, an archive
    /// by its base name or any of its files, or a pattern such as "web-*" for all archives with
    /// matching names; separate several by commas; @ for the archives of this machine's agent,
    /// @recorder for those of its flight recorder
    archive: PathBuf,

    /// Metrics: names, branches of the name space, or patterns such as "disk.*.read", also with
    /// labels: "mmv.shop.requests{code=~'5..'}" [default: all]
    #[arg(value_name = "METRIC")]
    metrics: Vec<MetricText>,

    /// Only these instances, by name, number or a pattern such as "sd*"; may be repeated
    /// [default: all]
    #[arg(short = 'i', long = "instance", value_name = "NAME")]
    instances: Vec<String>,

    /// Only hosts whose directory name matches this pattern, such as "web*"
    #[arg(long, value_name = "GLOB")]
    host: Option<Pattern>,
}

impl SourceOptions {
    /// Returns the hosts that exist now.
    ///
    /// # Errors
    ///
    /// Those of [`hosts`]; [`Failure::NoData`] if no host has a name that the pattern matches.
    pub(crate) fn hosts(&self) -> Result<Vec<Host>, Failure> {
        let found = hosts(&archives::paths(&self.archive)?, self.host.as_ref())?;
        if let (true, Some(pattern)) = (found.is_empty(), &self.host) {
            return Err(Failure::NoData(format!("no host's directory matches {pattern}")));
        }
        Ok(found)
    }

    pub(crate) fn selection(&self) -> MetricSelection {
        MetricSelection::new(&self.metrics, &self.instances)
    }
}

/// Warns of texts that selected no metric, when all archives have been read.
pub(crate) fn warn_of_unknown(selection: &MetricSelection) {
    for name in selection.unknown() {
        warn(&format_args!("{name}: no metric of this name in the archives"));
    }
}

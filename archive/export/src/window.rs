//! The window of time of a command that exports archives of several hosts.
//!
//! It is the same for all hosts: `--last 1h` and times of a day refer to the newest record of any of
//! them.

use clap::Args;
use mmv_arguments::span::{SpanOptions, Window};
use mmv_arguments::zone;
use pcp_archive::follow::start_of;
use pcp_archive::{Archive, Timestamp};

use crate::Failure;
use crate::tree::Host;

/// Options for the window.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct WindowOptions {
    #[command(flatten)]
    span: SpanOptions,

    /// Read times in this time zone: a name such as Europe/Berlin or UTC, or a POSIX rule such as
    /// EST5EDT or AEST-10 [default: the local one]
    #[arg(short = 'Z', long = "timezone", value_name = "ZONE")]
    timezone: Option<String>,
}

impl WindowOptions {
    /// Returns the window in the archives of hosts; `None` without options.
    ///
    /// # Errors
    ///
    /// Those of [`SpanOptions::window`]; [`Failure::NoData`] without a readable archive.
    pub(crate) fn window(&self, hosts: &[Host]) -> Result<Option<Window>, Failure> {
        let zone = self.timezone.as_deref().map_or_else(|| Ok(zone::local()), zone::named)?;
        if !self.span.is_given() {
            return Ok(None);
        }
        let Some((first, last)) = times(hosts) else {
            return Err(Failure::NoData("no archive can be read".to_owned()));
        };
        Ok(Some(self.span.window(first, last, &zone)?))
    }
}

/// Returns the times of the first and the last record of any host. Archives that cannot be read are
/// reported when they are exported.
fn times(hosts: &[Host]) -> Option<(Timestamp, Timestamp)> {
    let mut times: Option<(Timestamp, Timestamp)> = None;
    for host in hosts {
        for base in host.archives.bases().unwrap_or_default() {
            let Ok(start) = start_of(&base) else { continue };
            let end = Archive::open_tolerant(&base).map_or(start, |archive| archive.end());
            times = Some(match times {
                None => (start, end),
                Some((first, last)) => (first.min(start), last.max(end)),
            });
        }
    }
    times
}

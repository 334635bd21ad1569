//! `mmv-archive extract`: part of an archive, or several archives, as a new one.

use clap::Args;
use pcp_archive::Source;
use pcp_archive::extract::Extract;

use crate::Failure;
use crate::left_out::check_whole_set;
use crate::options::{ArchiveArgument, OutputOptions, warn_of_unnameable};
use crate::selection::{select_metrics, warn_of_unnamed};
use crate::time::{WindowOptions, ZoneOptions};

/// The end of the help.
const EXAMPLES: &str = "\
Examples:
  Copy ten minutes of all metrics, to keep or to send:
    mmv-archive extract @ -S 18:00 -T 18:10 -o incident
  Keep the metrics of one program:
    mmv-archive extract @ mmv.shop -o shop
  Join the archives of two days:
    mmv-archive extract '/var/log/mmv-agent/web1/2026112[23]*' -o two-days
  Keep one instance of a metric:
    mmv-archive extract @ mmv.server.requests -i cart -o cart";

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct ExtractCommand {
    #[command(flatten)]
    archive: ArchiveArgument,

    /// Metrics to keep: names, branches of the name space, or patterns such as "disk.*.read", also
    /// with labels: "mmv.shop.requests{code=~'5..'}"; event metrics include their parameters
    /// [default: all]
    #[arg(value_name = "METRIC")]
    metrics: Vec<String>,

    /// Keep only these instances, by name, number or a pattern such as "sd*"; may be repeated
    #[arg(short = 'i', long = "instance", value_name = "NAME")]
    instances: Vec<String>,

    #[command(flatten)]
    output: OutputOptions,

    #[command(flatten)]
    window: WindowOptions,

    #[command(flatten)]
    zone: ZoneOptions,
}

impl ExtractCommand {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let archives = self.archive.open_for_copy(&self.metrics)?;
        let source = Source::from(&archives);
        let zone = self.zone.zone(source.label())?;
        let window = self.window.window(source.start(), source.end(), zone.time_zone())?;
        if self.metrics.is_empty() {
            warn_of_unnamed(source);
        }
        let extract = Extract::new(select_metrics(source, &self.metrics, &self.instances)?);
        let start = window.origin.max(window.start);
        let has_all_times = start <= source.start() && window.end >= source.end();
        // If the clock was set back the last record is not the latest.
        let extract = if has_all_times { extract } else { extract.window(start..=window.end) };
        let is_whole = warn_of_unnameable(&extract.unnameable()?);
        // All of an archive that is whole is copied without its records being read.
        let is_all = self.metrics.is_empty() && self.instances.is_empty();
        if is_all
            && is_whole
            && has_all_times
            && let Some((staging, summary)) = self.output.copy(&archives, None)?
        {
            self.output.commit(staging, &summary, &zone)?;
            return check_whole_set(&archives);
        }
        let staging = self.output.staging(&archives)?;
        let summary = self.output.write(&extract, &archives, &staging)?;
        self.output.commit(staging, &summary, &zone)?;
        check_whole_set(&archives)?;
        if is_whole { Ok(()) } else { Err(Failure::Lost) }
    }
}

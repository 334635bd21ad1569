//! `mmv-export parquet`: tables for engines that read files.

use std::path::PathBuf;

use clap::Args;
use hashbrown::HashSet;

use crate::Failure;
use crate::options::{SourceOptions, warn_of_unknown};
use crate::tables::{Exporter, Format, Options};
use crate::text::{print, warn};
use crate::tree::Host;
use crate::window::WindowOptions;

/// The end of the help.
const EXAMPLES: &str = "\
Examples:
  Write the archives of this machine's agent as tables:
    mmv-export parquet @ -o lake
  Then query them, here the newest rows of a table in DuckDB:
    duckdb -c \"FROM 'lake/shop/**/*.parquet' \\
        ORDER BY timestamp DESC LIMIT 5\"
  Write one program's metrics between two times of day:
    mmv-export parquet @ mmv.shop -o lake --since 18:00 --until 19:00
  Write the last hour as CSV, with a row for each value:
    mmv-export parquet @ -o hour --last 1h --narrow --csv";

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct ParquetCommand {
    #[command(flatten)]
    source: SourceOptions,

    /// Directory of the tables, created if it is missing
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,

    #[command(flatten)]
    window: WindowOptions,

    /// Write one table, `metrics`, with a row for each value, in place of a table for the metrics
    /// of each application and instance domain
    #[arg(long)]
    narrow: bool,

    /// Write CSV in place of Parquet
    #[arg(long)]
    csv: bool,

    /// Write JSON Lines in place of Parquet
    #[arg(long, conflicts_with = "csv")]
    jsonl: bool,
}

impl ParquetCommand {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let hosts = self.source.hosts()?;
        check_names(&hosts)?;
        let window = self.window.window(&hosts)?;
        let selection = self.source.selection();
        let mut exporter = Exporter::new(Options {
            directory: self.output.clone(),
            format: match (self.csv, self.jsonl) {
                (true, _) => Format::Csv,
                (_, true) => Format::JsonLines,
                _ => Format::Parquet,
            },
            is_narrow: self.narrow,
            selection: selection.clone(),
            start: window.map(|window| window.start),
            finish: window.map(|window| window.end),
        });
        let mut failed = 0;
        for host in &hosts {
            let is_whole = exporter.write_host(host, &mut |error| {
                warn(&format_args!("{}: {error}", host.name));
            })?;
            failed += usize::from(!is_whole);
        }
        warn_of_left_out(&exporter);
        warn_of_unknown(&selection);
        for (table, totals) in exporter.totals() {
            let crate::tables::Totals { files, rows, values, bytes } = totals;
            print(&format!(
                "{table}: {files} files, {rows} rows, {values} values, {bytes} bytes\n"
            ))?;
        }
        match failed {
            0 if exporter.totals().is_empty() => Err(Failure::NoData(
                "the archives have no numbers of these metrics in this window".into(),
            )),
            0 => Ok(()),
            hosts_failed => Err(Failure::Hosts { hosts: hosts_failed, all: hosts.len() }),
        }
    }
}

/// Returns an error if two hosts have the same name: they would replace each other's files.
fn check_names(hosts: &[Host]) -> Result<(), Failure> {
    let mut names = HashSet::new();
    match hosts.iter().find(|host| !names.insert(host.name.as_str())) {
        None => Ok(()),
        Some(host) => Err(Failure::SameName(host.name.clone())),
    }
}

fn warn_of_left_out(exporter: &Exporter) {
    let left_out = exporter.left_out();
    for (count, what) in [
        (left_out.strings, "strings are left out"),
        (left_out.events, "event arrays are left out"),
        (left_out.opaque, "opaque values are left out"),
        (left_out.unknown, "values without a name are left out"),
        (left_out.damaged, "values cannot be read and are left out"),
        (exporter.rounded(), "integers beyond 2^53 are rounded to doubles"),
    ] {
        if count > 0 {
            warn(&format_args!("{count} {what}"));
        }
    }
}

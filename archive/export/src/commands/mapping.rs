//! `mmv-export mapping`: the names of metrics in other engines.

use clap::Args;
use pcp_archive::follow::Follower;
use pcp_archive::{Metadata, Metric};
use serde::Serialize;

use crate::Failure;
use crate::mapping::{Mapping, MetricLabels, Role};
use crate::options::{SourceOptions, warn_of_unknown};
use crate::selection::MetricSelection;
use crate::text::{json_line, print, warn};
use crate::tree::Host;

/// The end of the help.
const EXAMPLES: &str = "\
Examples:
  What are the metrics called in Prometheus, and which are left out?
    mmv-export mapping @
  What are those of one program on some hosts called?
    mmv-export mapping /srv/archives mmv.shop --host 'web*'
  Which column of its table has each metric?
    mmv-export mapping @ --json | jq '{metric, column}'";

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct MappingCommand {
    #[command(flatten)]
    source: SourceOptions,

    /// Print JSON Lines, one object per metric
    #[arg(long)]
    json: bool,
}

/// The output for a metric.
#[derive(Debug, Serialize)]
struct Line<'a> {
    host: &'a str,
    metric: String,
    /// `counter`, `gauge`, `histogram`, or the reason why it is not exported.
    #[serde(rename = "type")]
    kind: &'a str,
    is_exported: bool,
    family: Option<&'a str>,
    sample: Option<String>,
    unit: Option<&'a str>,
    column: Option<String>,
    labels: Vec<(String, String)>,
}

impl MappingCommand {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let hosts = self.source.hosts()?;
        let selection = self.source.selection();
        let mut failed = 0;
        for host in &hosts {
            failed += usize::from(!self.print_host(host, &selection)?);
        }
        warn_of_unknown(&selection);
        if failed > 0 { Err(Failure::Hosts { hosts: failed, all: hosts.len() }) } else { Ok(()) }
    }

    /// Prints the metrics of the newest archive with the names that earlier archives leave them, and
    /// returns false if an archive cannot be read.
    fn print_host(&self, host: &Host, selection: &MetricSelection) -> Result<bool, Failure> {
        let mut mapping = Mapping::new();
        let mut is_whole = true;
        let mut newest = None;
        let bases = host.archives.bases().unwrap_or_else(|error| {
            warn(&format_args!("{}: {error}", host.name));
            is_whole = false;
            Vec::new()
        });
        for base in bases {
            match Follower::open(&base) {
                Ok(follower) => {
                    mapping.set_metadata(follower.metadata());
                    newest = Some(follower);
                }
                Err(error) => {
                    warn(&format_args!("{}: {error}", host.name));
                    is_whole = false;
                }
            }
        }
        let Some(newest) = newest else {
            if is_whole {
                warn(&format_args!("{}: no archives", host.name));
            }
            return Ok(is_whole);
        };
        let metadata = newest.metadata();
        let mut metrics: Vec<&Metric> = metadata.metrics().iter().collect();
        let selected = selection.in_archive(metadata);
        metrics.retain(|metric| selected.has(metric.desc.pmid));
        metrics.sort_by(|one, other| one.names.first().cmp(&other.names.first()));
        for metric in metrics {
            let line = line(host, metric, metadata, newest.label().hostname.as_str(), &mapping);
            print(&if self.json { json_line(&line)? } else { text(&line) })?;
        }
        Ok(is_whole)
    }
}

fn line<'a>(
    host: &'a Host,
    metric: &Metric,
    metadata: &Metadata,
    hostname: &str,
    mapping: &'a Mapping,
) -> Line<'a> {
    let role = mapping.role(metric.desc.pmid);
    let family = mapping.role_family(role);
    let kind = match role {
        Role::LeftOut(reason) => reason.as_str(),
        _ => family.map_or("", |family| family.kind.as_str()),
    };
    let sample = family.map(|family| match role {
        Role::Buckets(_) => format!("{}_bucket", family.name),
        Role::Sum(_) => format!("{}_sum", family.name),
        _ => family.sample_name(),
    });
    let at = pcp_archive::Timestamp::MAX;
    let labels = MetricLabels::new(metadata, &metric.desc, metric.desc.indom, hostname, at)
        .of_instance(None);
    let labels = labels.iter().map(|one| (one.name.to_string(), one.value.to_string()));
    Line {
        host: &host.name,
        metric: metric.display_name(),
        kind,
        is_exported: family.is_some(),
        family: family.map(|family| family.name.as_str()),
        sample,
        unit: family.map(|family| family.unit.as_str()).filter(|unit| !unit.is_empty()),
        column: family.map(|family| family.column(role)),
        labels: labels.collect(),
    }
}

fn text(line: &Line<'_>) -> String {
    let Line { host, metric, kind, .. } = line;
    match &line.sample {
        Some(sample) => format!("{host} {metric} -> {sample} ({kind})\n"),
        None => format!("{host} {metric} is left out: {kind}\n"),
    }
}

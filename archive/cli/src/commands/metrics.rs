//! `mmv-archive metrics`: the metadata of metrics.

mod tree;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::Write as _;

use clap::Args;
use hashbrown::{HashMap, HashSet};
use pcp_archive::raw::{LabelTarget, TextKind, TextTarget};
use pcp_archive::replay::SelectedMetric;
use pcp_archive::scan::histogram::HistogramLayout;
use pcp_archive::{Archive, InDom, InstanceId, Metadata, MetricDesc, Timestamp};
use pcp_types::printable;
use serde::Serialize;
use serde_json::{Map, Value as JsonValue};
pub(crate) use tree::MetricTree;

use crate::Failure;
use crate::options::ArchiveArgument;
use crate::options::archives::require_records;
use crate::options::histograms::names_bucket_counter;
use crate::order::histogram_name;
use crate::selection::{parse_selector, warn_of_unknown_metric};
use crate::text::descriptor::{descriptor, type_name, units};
use crate::text::{Output, shown};

const EXAMPLES: &str = "\
Examples:
  Which programs and metrics are there?
    mmv-archive metrics @
  Their names, one per line:
    mmv-archive metrics @ --names
  What does a metric mean: its type, unit, help text and instances?
    mmv-archive metrics @ mmv.shop.latency
  Which metrics of one program have the label code?
    mmv-archive metrics @ --names 'mmv.shop.*{code=~\".+\"}'";

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option on the command line")]
pub(crate) struct MetricsCommand {
    #[command(flatten)]
    archive: ArchiveArgument,

    /// Metrics to print: names, branches of the name space, or patterns such as "disk.*.read", also
    /// with labels: "mmv.shop.requests{code=~'5..'}" [default: a tree of all, with their number]
    #[arg(value_name = "METRIC")]
    metrics: Vec<String>,

    /// Print all metrics, not a tree of them
    #[arg(long)]
    all: bool,

    /// Print names only, one per line, those of several archives and of a histogram once
    #[arg(long, conflicts_with = "json")]
    names: bool,

    /// Print one JSON object per metric
    #[arg(long)]
    json: bool,

    /// Print the buckets of histograms; so does the name of their counter, as
    /// mmv.shop.latency.bucket
    #[arg(long, conflicts_with = "json")]
    buckets: bool,
}

/// The metadata of a metric at the end of the archive.
#[derive(Debug, Serialize)]
struct MetricEntry<'a> {
    metric: &'a str,
    /// `None` for a histogram, which consists of several metrics.
    pmid: Option<String>,
    #[serde(rename = "type")]
    value_type: &'static str,
    semantics: String,
    units: String,
    indom: Option<String>,
    oneline: Option<&'a str>,
    help: Option<&'a str>,
    labels: Map<String, JsonValue>,
    instances: Vec<InstanceEntry>,
}

/// One instance of a metric.
#[derive(Debug, Serialize)]
struct InstanceEntry {
    id: i32,
    name: String,
    #[serde(skip_serializing_if = "Map::is_empty")]
    labels: Map<String, JsonValue>,
}

impl MetricsCommand {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        if self.names {
            return self.print_names();
        }
        if self.metrics.is_empty() && !self.all && !self.json && !self.buckets {
            return self.print_tree();
        }
        self.archive.each(self.json, |archive, out| self.print_all(archive, out))
    }

    fn print_tree(&self) -> Result<(), Failure> {
        let tree = RefCell::new(MetricTree::default());
        let failed = self.archive.each_quietly(|archive| {
            require_records(archive)?;
            tree.borrow_mut().add(archive.metadata());
            Ok(())
        });
        let mut out = Output::new();
        tree.borrow().print(&mut out)?;
        out.finish()?;
        failed
    }

    /// Prints the names of all archives, each once, without headings.
    fn print_names(&self) -> Result<(), Failure> {
        let names = RefCell::new(BTreeSet::new());
        let failed = self.archive.each_quietly(|archive| {
            let all = [String::new()];
            for name in if self.metrics.is_empty() { &all[..] } else { &self.metrics } {
                let selector = parse_selector(name, archive.metadata())?;
                let found = selector.select(archive.metadata());
                let found = found.map(|(name, metric, _)| {
                    self.shown_name(archive.metadata(), name, &metric.desc)
                });
                let found: Vec<String> = found.collect();
                if found.is_empty() {
                    warn_of_unknown_metric(name, archive.metadata());
                }
                names.borrow_mut().extend(found);
            }
            Ok(())
        });
        let mut out = Output::new();
        for name in names.borrow().iter() {
            out.text.extend_from_slice(format!("{}\n", shown(name)).as_bytes());
            out.spill()?;
        }
        out.finish()?;
        failed?;
        if names.borrow().is_empty() {
            return Err(Failure::NoData("none of the metrics is in the archive".to_owned()));
        }
        Ok(())
    }

    /// Returns the name of a metric, or of the histogram that it is a part of.
    fn shown_name(&self, metadata: &Metadata, name: &str, desc: &MetricDesc) -> String {
        let metric = SelectedMetric { name: name.to_owned(), desc: *desc };
        if self.buckets || names_bucket_counter(&self.metrics, &metric) {
            return metric.name;
        }
        histogram_name(metadata, &metric).unwrap_or(name).to_owned()
    }

    fn print_all(&self, archive: &Archive, out: &mut Output) -> Result<(), Failure> {
        let all = [String::new()];
        let names = if self.metrics.is_empty() { &all[..] } else { &self.metrics };
        let mut missing = 0;
        for name in names {
            let mut found = false;
            let selector = parse_selector(name, archive.metadata())?;
            for (leaf, metric, instances) in selector.select(archive.metadata()) {
                found = true;
                self.print(out, archive, leaf, &metric.desc, instances.as_ref())?;
            }
            if !found {
                missing += 1;
                warn_of_unknown_metric(name, archive.metadata());
            }
        }
        if missing == names.len() {
            return Err(Failure::NoData("none of the metrics is in the archive".to_owned()));
        }
        Ok(())
    }

    fn print(
        &self,
        out: &mut Output,
        archive: &Archive,
        name: &str,
        desc: &MetricDesc,
        instances: Option<&HashSet<InstanceId>>,
    ) -> Result<(), Failure> {
        let named = SelectedMetric { name: name.to_owned(), desc: *desc };
        let has_metrics = self.buckets || names_bucket_counter(&self.metrics, &named);
        let layout = HistogramLayout::find(archive.metadata(), name, desc);
        if let Some(layout) = layout.filter(|_| self.buckets || !has_metrics) {
            let histogram = MetricEntry::of_histogram(archive, &layout, desc);
            if self.json {
                out.json_line(&histogram)?;
            } else {
                let buckets = instances.map_or_else(
                    || desc.indom.map_or(0, |indom| listed(archive, indom)),
                    HashSet::len,
                );
                histogram.push_histogram(&mut out.text, buckets)?;
            }
        }
        let is_part = histogram_name(archive.metadata(), &named).is_some();
        let is_named = self.metrics.iter().any(|text| text.split('{').next() == Some(name));
        if !self.json && !has_metrics && is_part && !is_named {
            return out.spill();
        }
        let mut entry = MetricEntry::new(archive, name, desc);
        if let Some(shown) = instances {
            entry.instances.retain(|instance| {
                InstanceId::new(instance.id).is_ok_and(|id| shown.contains(&id))
            });
        }
        if self.json {
            return out.json_line(&entry);
        }
        entry.push_text(&mut out.text, desc)?;
        out.spill()
    }
}

impl<'a> MetricEntry<'a> {
    fn new(archive: &'a Archive, name: &'a str, desc: &MetricDesc) -> Self {
        let metadata = archive.metadata();
        let target = TextTarget::Metric(desc.pmid);
        Self {
            metric: name,
            pmid: Some(desc.pmid.to_string()),
            value_type: type_name(desc.value_type),
            semantics: desc.semantics.to_string(),
            units: units(desc.units),
            indom: desc.indom.map(|indom| indom.to_string()),
            oneline: metadata.text(target, TextKind::OneLine).map(AsRef::as_ref),
            help: metadata.text(target, TextKind::Full).map(AsRef::as_ref),
            labels: metric_labels(metadata, desc, archive.end()),
            instances: desc.indom.map_or_else(Vec::new, |indom| instances(archive, indom)),
        }
    }

    /// Returns a histogram, with the texts and labels of the counter of its buckets.
    fn of_histogram(
        archive: &'a Archive,
        layout: &'a HistogramLayout,
        buckets: &MetricDesc,
    ) -> Self {
        let indom = layout.indom();
        Self {
            metric: layout.name(),
            pmid: None,
            value_type: "histogram",
            units: units(layout.units()),
            indom: indom.map(|indom| indom.to_string()),
            instances: indom.map_or_else(Vec::new, |indom| instances(archive, indom)),
            ..Self::new(archive, layout.name(), buckets)
        }
    }

    /// Appends the text of a histogram with this number of buckets.
    fn push_histogram(&self, out: &mut Vec<u8>, buckets: usize) -> std::io::Result<()> {
        write!(out, "{}  histogram", shown(self.metric))?;
        if let Some(oneline) = self.oneline {
            write!(out, "  [{}]", shown(oneline))?;
        }
        let units = if self.units.is_empty() { "none" } else { &self.units };
        writeln!(out, "\n    Units: {units}  Buckets: {buckets} (--buckets lists them)")?;
        self.push_details(out)
    }

    /// Appends the text of a metric.
    fn push_text(&self, out: &mut Vec<u8>, desc: &MetricDesc) -> std::io::Result<()> {
        write!(out, "{}  PMID: {}", shown(self.metric), desc.pmid)?;
        if let Some(oneline) = self.oneline {
            write!(out, "  [{}]", shown(oneline))?;
        }
        write!(out, "\n{}", descriptor(desc))?;
        self.push_details(out)
    }

    /// Appends labels, help text and instances.
    fn push_details(&self, out: &mut Vec<u8>) -> std::io::Result<()> {
        if !self.labels.is_empty() {
            writeln!(out, "    Labels: {}", text_of(&self.labels))?;
        }
        for line in self.help.unwrap_or("").lines() {
            writeln!(out, "    | {}", shown(&line.replace('\t', " ")))?;
        }
        for instance in &self.instances {
            write!(out, "    inst [{} or \"{}\"]", instance.id, shown(&instance.name))?;
            if !instance.labels.is_empty() {
                write!(out, " {}", text_of(&instance.labels))?;
            }
            out.push(b'\n');
        }
        out.push(b'\n');
        Ok(())
    }
}

/// Labels as a JSON object of printable characters.
fn text_of(labels: &Map<String, JsonValue>) -> String {
    printable::json(&serde_json::to_string(labels).unwrap_or_default()).into_owned()
}

/// Returns the labels of a metric: of the context, its domain, instance domain, cluster and item;
/// the more specific override the others.
fn metric_labels(
    metadata: &Metadata,
    desc: &MetricDesc,
    timestamp: Timestamp,
) -> Map<String, JsonValue> {
    let mut merged = Map::new();
    for target in LabelTarget::of_metric(desc) {
        for set in metadata.labels_at(target, timestamp).unwrap_or_default() {
            merged.extend(object(&set.json));
        }
    }
    merged
}

/// Returns the number of instances at the end of the archive.
fn listed(archive: &Archive, indom: InDom) -> usize {
    let listed = archive.metadata().indom_at(indom, archive.end());
    listed.map_or(0, |instances| instances.len())
}

/// Returns the instances at the end of the archive, with their own labels.
fn instances(archive: &Archive, indom: InDom) -> Vec<InstanceEntry> {
    let metadata = archive.metadata();
    let timestamp = archive.end();
    let sets = metadata.labels_at(LabelTarget::Instances(indom), timestamp).unwrap_or_default();
    let mut labels: HashMap<InstanceId, Map<String, JsonValue>> = HashMap::new();
    for set in sets {
        if let Some(instance) = set.instance {
            labels.entry(instance).or_default().extend(object(&set.json));
        }
    }
    let listed = metadata.indom_at(indom, timestamp).unwrap_or_default();
    listed
        .iter()
        .map(|instance| InstanceEntry {
            id: instance.id.get(),
            name: instance.name.to_string(),
            labels: labels.remove(&instance.id).unwrap_or_default(),
        })
        .collect()
}

/// Returns the members of a JSON object; none for other text.
fn object(json: &str) -> Map<String, JsonValue> {
    serde_json::from_str(json).unwrap_or_default()
}

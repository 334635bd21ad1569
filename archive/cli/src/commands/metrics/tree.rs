//! The metrics of archives as a tree: programs, and what each of them has.

use std::collections::BTreeMap;

use pcp_archive::raw::IndomHistory;
use pcp_archive::replay::SelectedMetric;
use pcp_archive::scan::histogram::HistogramLayout;
use pcp_archive::{InDom, Metadata, Semantics};

use crate::Failure;
use crate::order::{self, MetricRank, SeriesOrder, branch, is_unnamed_machinery};
use crate::text::{Output, shown};
use pcp_types::scaled::ColumnUnit;

/// The most lines below a branch: one screen.
const MAX_BELOW: usize = 20;

/// The metrics of some archives, by name; a histogram is one.
#[derive(Default)]
pub(crate) struct MetricTree {
    leaves: BTreeMap<String, Leaf>,
}

struct Leaf {
    rank: MetricRank,
    /// Kind, number of instances and unit.
    text: String,
    is_histogram: bool,
}

impl MetricTree {
    pub(crate) fn add(&mut self, metadata: &Metadata) {
        let mut ranks = SeriesOrder::new(metadata);
        for (name, metric) in metadata.subtree("") {
            let metric = SelectedMetric { name: name.to_owned(), desc: metric.desc };
            let (rank, _) = ranks.key(&metric, None, false);
            let layout = HistogramLayout::find(metadata, name, &metric.desc);
            let is_histogram = layout.is_some();
            let (name, kind, units, indom) = match &layout {
                Some(layout) => (layout.name(), "histogram", layout.units(), layout.indom()),
                // The sum of the values belongs to the histogram.
                None if order::histogram_name(metadata, &metric).is_some() => continue,
                None => (name, kind(&metric), metric.desc.units, metric.desc.indom),
            };
            let unit = ColumnUnit::choose(units, &[]);
            let instances = indom.map(|indom| instances_text(metadata, indom));
            let mut text = kind.to_owned();
            for part in instances.into_iter().chain(Some(unit.title().to_owned())) {
                if !part.is_empty() {
                    text.push_str(", ");
                    text.push_str(&part);
                }
            }
            self.leaves.insert(name.to_owned(), Leaf { rank, text, is_histogram });
        }
    }

    /// Prints each branch with its number of metrics, and what is below it; of the agent and pmcd
    /// the number alone.
    pub(super) fn print(&self, out: &mut Output) -> Result<(), Failure> {
        let leaves = self.sorted();
        for of_branch in leaves.chunk_by(|one, other| branch(one.0) == branch(other.0)) {
            let Some((first, _)) = of_branch.first() else { continue };
            push(out, &title(of_branch));
            if !is_unnamed_machinery(first, &[]) {
                print_below(branch(first), of_branch, out);
            }
            out.spill()?;
        }
        Ok(())
    }

    /// Returns each branch, with a line that has its number of metrics.
    pub(crate) fn branches(&self) -> Vec<(String, String)> {
        let leaves = self.sorted();
        let branches = leaves.chunk_by(|one, other| branch(one.0) == branch(other.0));
        let lines = branches.filter_map(|of_branch| {
            let (first, _) = of_branch.first()?;
            Some((branch(first).to_owned(), title(of_branch)))
        });
        lines.collect()
    }

    fn sorted(&self) -> Vec<(&String, &Leaf)> {
        let mut leaves: Vec<(&String, &Leaf)> = self.leaves.iter().collect();
        leaves.sort_by_key(|(_, leaf)| &leaf.rank);
        leaves
    }
}

/// Formats a branch and its number of metrics.
fn title(of_branch: &[(&String, &Leaf)]) -> String {
    let branch = of_branch.first().map_or("", |(first, _)| branch(first));
    let branch = if branch.is_empty() { "(no branch)" } else { branch };
    let metrics = counted(of_branch.len(), "metric");
    let histograms = match of_branch.iter().filter(|(_, leaf)| leaf.is_histogram).count() {
        0 => String::new(),
        count => format!(", {}", counted(count, "histogram")),
    };
    format!("{}: {metrics}{histograms}", shown(branch))
}

/// Prints a line for each name below a branch: of a metric what it is, of others how many there
/// are.
fn print_below(branch: &str, leaves: &[(&String, &Leaf)], out: &mut Output) {
    let mut below: Vec<(&str, Vec<&Leaf>)> = Vec::new();
    for (name, leaf) in leaves {
        let rest = name.strip_prefix(branch).unwrap_or(name);
        let rest = rest.strip_prefix('.').unwrap_or(rest);
        let part = rest.split('.').next().unwrap_or(rest);
        match below.iter_mut().find(|(known, _)| *known == part) {
            Some((_, leaves)) => leaves.push(leaf),
            None => below.push((part, vec![leaf])),
        }
    }
    let shown_below = below.get(..MAX_BELOW).unwrap_or(&below);
    let widest = shown_below.iter().map(|(part, _)| shown(part).chars().count()).max();
    let width = widest.unwrap_or(0);
    for (part, leaves) in shown_below {
        let text = match leaves.as_slice() {
            [leaf] => leaf.text.clone(),
            leaves => counted(leaves.len(), "metric"),
        };
        push(out, &format!("  {:<width$}  {text}", shown(part)));
    }
    if below.len() > MAX_BELOW {
        push(out, &format!("  and {} more", below.len() - MAX_BELOW));
    }
}

fn push(out: &mut Output, line: &str) {
    out.text.extend_from_slice(line.as_bytes());
    out.text.push(b'\n');
}

fn kind(metric: &SelectedMetric) -> &'static str {
    match metric.desc.semantics {
        _ if !metric.has_numbers() => "text or events",
        Semantics::Counter => "counter",
        Semantics::Instant => "gauge",
        Semantics::Discrete => "constant",
    }
}

/// Returns the number of instances that a domain ever had.
fn instances_text(metadata: &Metadata, indom: InDom) -> String {
    let history = metadata.identities(indom);
    counted(history.map(IndomHistory::union).unwrap_or_default().len(), "instance")
}

fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

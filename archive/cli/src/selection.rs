//! Selections of metrics and instances by the names on a command line, and
//! warnings about what an archive does not have.

use std::borrow::{Borrow, Cow};
use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use hashbrown::HashMap;
use pcp_archive::replay::expression::definitions;
use pcp_archive::replay::{self, Expression, Replay};
use pcp_archive::salvage::Loss;
use pcp_archive::scan::histogram::HistogramLayout;
use pcp_archive::scan::{
    MetricLabels, SelectedMetric, Selection, Selector, is_extreme, select_instances,
};
use pcp_archive::{ArchiveSet, InDom, InstanceId, Metadata, Source};
use pcp_types::names::selects;

use crate::Failure;
use crate::left_out::check_whole_set;
use crate::order;
use crate::text::{first_of, shown, shown_path, warn};
use crate::time::Zone;

/// The most names that are proposed for one that does not exist.
const MAX_SIMILAR: usize = 3;
/// Minimum similarity of proposed names: one letter in four may differ.
const MIN_LIKENESS: f64 = 0.75;
/// The most PMIDs that a warning lists.
const MAX_LISTED: usize = 10;

/// Selects metrics and instances by name, all metrics without a name; warns of
/// names that the archive does not have.
///
/// # Errors
///
/// [`Failure::NoData`] if no metric is selected.
pub(crate) fn select_metrics<'a>(
    source: Source<'a>,
    names: &[String],
    instances: &[String],
) -> Result<Selection<'a>, Failure> {
    let mut selection = Selection::new(source);
    if names.is_empty() {
        selection.select("");
    }
    for name in names {
        parse_selector(name, source.metadata())?;
        if selection.select(name) == 0 {
            warn_of_unknown_metric(name, source.metadata());
        }
    }
    if selection.metrics().is_empty() {
        return Err(Failure::NoData("none of the metrics is in the archive".to_owned()));
    }
    let unknown = warn_of_unknown_instances(instances, source.metadata(), selection.metrics());
    let have_instances = selection.metrics().iter().all(|metric| metric.desc.indom.is_some());
    if have_instances && !instances.is_empty() && unknown == instances.len() {
        return Err(Failure::NoData("none of the metrics has these instances".to_owned()));
    }
    for instance in instances {
        selection.select_instance(instance);
    }
    Ok(selection)
}

/// Parses the name of a metric on the command line.
///
/// # Errors
///
/// [`Failure::Usage`] for a text that is no selector, with where to write it if it is an expression.
pub(crate) fn parse_selector(text: &str, metadata: &Metadata) -> Result<Selector, Failure> {
    let is_name = metadata.metric_by_name(text).is_some();
    if !is_name && is_expression(text) {
        let quote = if text.contains('\'') { '"' } else { '\'' };
        let text = shown(text);
        return Err(Failure::Usage(format!(
            "{text} is an expression, not the name of a metric; report and plot take it as \
             -e {quote}{text}{quote}"
        )));
    }
    Ok(Selector::parse_in(text, metadata)?)
}

/// Returns whether a text is an expression, or meant as one, and no selector.
fn is_expression(text: &str) -> bool {
    // Labels and names of instances may have any character.
    let name = text.split(['{', '[']).next().unwrap_or(text);
    if name.contains('(') {
        return true;
    }
    let is_selector = match text.parse::<Selector>() {
        Ok(selector) => selector.has_matchers() || !name.contains([' ', '/', '+']),
        Err(_) => false,
    };
    !is_selector && text.parse::<Expression>().is_ok()
}

/// Warns of labels that no instance of the metrics has; false for a selector without labels,
/// or of metrics that do not exist.
fn warn_of_unknown_labels(text: &str, metadata: &Metadata) -> bool {
    let Ok(selector) = text.parse::<Selector>() else { return false };
    let Some((_, metric)) = metadata.select(selector.name()).next() else { return false };
    if !selector.has_matchers() {
        return false;
    }
    let labels = MetricLabels::new(metadata, &metric.desc);
    let known = selector.labels().map(|label| match labels.values(label).as_slice() {
        [] => format!("there is no label {label}, but {}", listed(&labels.names())),
        values => format!("{label} is {}", listed(values)),
    });
    let known: Vec<String> = known.collect();
    warn(&format_args!("{text}: no instance has these labels; {}", known.join("; ")));
    true
}

fn listed(texts: &[impl Borrow<str>]) -> String {
    if texts.is_empty() { "none at all".to_owned() } else { first_of(texts, MAX_LISTED) }
}

/// Warns of a name that selects no metric, and says which are like it.
pub(crate) fn warn_of_unknown_metric(name: &str, metadata: &Metadata) {
    if warn_of_unknown_labels(name, metadata) {
        return;
    }
    if let Some((metric, instance)) = split_instance(name)
        && metadata.metric_by_name(metric).is_some()
    {
        return warn(&format_args!("{name}: -i selects instances: {metric} -i '{instance}'"));
    }
    let names = metadata.metrics().iter().flat_map(|metric| &metric.names);
    let alike = similar(name, names.flat_map(|name| with_prefixes(name)));
    let question = match alike.as_slice() {
        [] => String::new(),
        alike => format!("; did you mean {}?", alike.join(" or ")),
    };
    warn(&format_args!("{name}: no metric of this name in the archive{question}"));
}

/// Parses the parts of `METRIC[INSTANCE]`, as columns are called.
fn split_instance(text: &str) -> Option<(&str, &str)> {
    text.strip_suffix(']')?.split_once('[')
}

/// Returns a name and those of the nodes above it, which select all metrics below them.
fn with_prefixes(name: &str) -> impl Iterator<Item = &str> {
    let above = name.match_indices('.').filter_map(|(dot, _)| name.get(..dot));
    above.chain([name])
}

/// Returns the names that are most like one that does not exist: as a whole, or with other parts in
/// front.
fn similar<'n>(wanted: &str, names: impl Iterator<Item = &'n str>) -> Vec<&'n str> {
    let parts = wanted.split('.').count();
    let alike = names.map(|name| {
        let all: Vec<&str> = name.split('.').collect();
        let last = all.len().checked_sub(parts).and_then(|start| all.get(start..));
        let last = last
            .map_or(0.0, |last| strsim::normalized_damerau_levenshtein(wanted, &last.join(".")));
        (strsim::normalized_damerau_levenshtein(wanted, name).max(last), name)
    });
    let mut all: Vec<(f64, &str)> =
        alike.filter(|(likeness, _)| *likeness >= MIN_LIKENESS).collect();
    all.sort_by(|(one, a), (other, b)| other.total_cmp(one).then(a.cmp(b)));
    all.dedup();
    all.into_iter().take(MAX_SIMILAR).map(|(_, name)| name).collect()
}

/// The instances of metrics that texts select: those of their domains, which are looked up once, and
/// the buckets of the histograms that the texts select.
pub(crate) struct ChosenInstances<'a, T> {
    texts: &'a [T],
    metadata: &'a Metadata,
    domains: HashMap<InDom, BTreeSet<InstanceId>>,
}

impl<'a, T: AsRef<str>> ChosenInstances<'a, T> {
    pub(crate) fn new(texts: &'a [T], metadata: &'a Metadata) -> Self {
        Self { texts, metadata, domains: HashMap::new() }
    }

    /// Returns the instances of a metric; none of a metric without instances.
    pub(crate) fn of_metric(&mut self, metric: &SelectedMetric) -> Cow<'_, BTreeSet<InstanceId>> {
        let Some(indom) = metric.desc.indom else { return Cow::default() };
        let metadata = self.metadata;
        let texts = self.texts;
        let domain = self.domains.entry(indom);
        let own = domain.or_insert_with(|| select_instances(texts, metadata.indom_history(indom)));
        match HistogramLayout::find(metadata, &metric.name, &metric.desc) {
            None => Cow::Borrowed(own),
            Some(layout) => {
                let mut chosen = own.clone();
                chosen.extend(layout.select_buckets(metadata, indom, texts));
                Cow::Owned(chosen)
            }
        }
    }
}

/// Warns of texts that select no instance of any of the metrics, and returns their number.
/// A number may be that of an instance without a name.
pub(crate) fn warn_of_unknown_instances<'m>(
    texts: &[String],
    metadata: &Metadata,
    metrics: impl IntoIterator<Item = &'m SelectedMetric>,
) -> usize {
    let metrics: Vec<&SelectedMetric> = metrics.into_iter().collect();
    let mut unknown = texts.to_vec();
    unknown.retain(|text| {
        let mut chosen = ChosenInstances::new(std::slice::from_ref(text), metadata);
        metrics.iter().all(|metric| chosen.of_metric(metric).is_empty())
    });
    for text in &unknown {
        warn(&format_args!("{text}: no instance of this name in the archive"));
    }
    unknown.len()
}

/// Selects metrics by name and derives others, all metrics without names and expressions; warns of
/// names that the archive does not have.
///
/// # Errors
///
/// [`Failure::NoData`] if no metric is selected, those of the definitions and expressions.
pub(crate) fn select_with_derived<'a>(
    mut selection: replay::ReplaySelection<'a>,
    names: &[String],
    expressions: &[String],
) -> Result<replay::ReplaySelection<'a>, Failure> {
    if names.is_empty() && expressions.is_empty() {
        selection.select("");
        // They are the extremes of their gauges.
        let metadata = selection.metadata();
        selection.retain(|metric| !is_extreme(metric, metadata));
    }
    let (files, expressions): (Vec<_>, Vec<_>) =
        expressions.iter().partition(|text| is_definition_file(text));
    for path in files {
        define(&mut selection, Path::new(path), names)?;
    }
    for text in expressions {
        let expression = text.parse::<Expression>()?;
        match selection.derive(&expression) {
            Err(error) if error.is_unknown_metric() => warn(&error),
            derived => derived?,
        }
    }
    if names.is_empty() {
        selection.select_defined("");
    }
    for name in names {
        // As in pmrep, a derived metric may be named as well.
        let is_derived = selection.derived().any(|metric| metric.name == *name);
        if !is_derived {
            parse_selector(name, selection.metadata())?;
        }
        let found = selection.select(name) + selection.select_defined(name);
        if found == 0 && !is_derived {
            warn_of_unknown_metric(name, selection.metadata());
        }
    }
    if selection.metrics().is_empty() && selection.derived().len() == 0 {
        return Err(Failure::NoData("none of the metrics is in the archive".to_owned()));
    }
    Ok(selection)
}

/// Returns whether any of the names is a branch or a pattern.
pub(crate) fn has_branch(names: &[String], metadata: &Metadata) -> bool {
    !names.iter().all(|name| is_whole_name(name, metadata))
}

/// Returns whether a text names one metric or histogram, with labels or without, not a branch.
fn is_whole_name(text: &str, metadata: &Metadata) -> bool {
    let name = text.split('{').next().unwrap_or(text);
    let is_metric = |name: &str| metadata.metric_by_name(name).is_some();
    is_metric(name) || is_metric(&format!("{name}.bucket"))
}

/// Removes the metrics of the agent and of pmcd that no name selects but that of a branch, a pattern
/// or none at all, unless there is nothing else.
pub(crate) fn leave_out_machinery(selection: &mut replay::ReplaySelection<'_>, names: &[String]) {
    let left_out = order::unnamed_machinery(selection.metrics(), names);
    selection.retain(|metric| !left_out.contains(&metric.desc.pmid));
    note_left_out(left_out.len());
}

/// Says that metrics of the agent and of pmcd are not shown.
pub(crate) fn note_left_out(count: usize) {
    if count > 0 {
        warn(&format_args!("{count} metrics of the agent and pmcd are left out; --all shows them"));
    }
}

/// Returns whether a text of `-e` is the path of a file of definitions. For pmrep it is one after
/// any dot, but `.5 * x` is an expression.
pub(crate) fn is_definition_file(text: &str) -> bool {
    text.starts_with('/') || text.starts_with("./") || text.starts_with("../")
}

/// Reads the definitions of a file, or of all files below a directory. A bad
/// definition is only warned about, and one that lacks a metric only if a name
/// selects it.
fn define(
    selection: &mut replay::ReplaySelection<'_>,
    path: &Path,
    names: &[String],
) -> Result<(), Failure> {
    let failure = |error| Failure::Input(format!("{}: {error}", shown_path(path)));
    if path.is_dir() {
        let entries = std::fs::read_dir(path).map_err(failure)?;
        let entries: io::Result<Vec<_>> = entries.map(|entry| Ok(entry?.path())).collect();
        let mut entries = entries.map_err(failure)?;
        entries.sort();
        return entries.iter().try_for_each(|entry| define(selection, entry, names));
    }
    for (line, definition) in definitions(&std::fs::read_to_string(path).map_err(failure)?) {
        let is_selected =
            |definition: &Expression| names.iter().any(|name| selects(name, definition.name()));
        let defined = match definition {
            Err(error) => Err(error),
            Ok(definition) => match selection.define(&definition) {
                Err(error) if error.is_unknown_metric() && !is_selected(&definition) => Ok(()),
                defined => defined,
            },
        };
        if let Err(error) = defined {
            warn(&format_args!("{}:{line}: {error}", shown_path(path)));
        }
    }
    Ok(())
}

/// Fails if parts of the archives are damaged. Called when all else is printed.
pub(crate) fn check_complete(replay: &Replay<'_>, archives: &ArchiveSet) -> Result<(), Failure> {
    check_whole_set(archives)?;
    if replay.lost().is_empty() { Ok(()) } else { Err(Failure::Lost) }
}

pub(crate) fn warn_of_losses(replay: &Replay<'_>, zone: &Zone) {
    if replay.backward_records() > 0 {
        let count = replay.backward_records();
        warn(&format_args!("{count} records that are earlier than one before them are ignored"));
    }
    replay.lost().iter().for_each(|lost| warn_of_loss(lost, zone));
}

/// Warns of a part of a file that has no usable records.
pub(crate) fn warn_of_loss(lost: &Loss, zone: &Zone) {
    let after = lost.after.map(|at| zone.date_time(at));
    let before = lost.before.map(|at| zone.date_time(at));
    let between = match (after, before) {
        (Some(after), Some(before)) => format!(" between {after} and {before}"),
        (Some(after), None) => format!(" after {after}"),
        (None, Some(before)) => format!(" before {before}"),
        (None, None) => String::new(),
    };
    let file = shown_path(&lost.file);
    let offset = lost.offset;
    let reason = &lost.reason;
    let lost = match lost.bytes {
        // The file cannot be opened or decompressed.
        0 => "all records".to_owned(),
        bytes => format!("{bytes} bytes"),
    };
    warn(&format_args!("{file}: offset {offset}: {reason}; {lost} are lost{between}"));
}

/// Warns of metrics that cannot be selected because they have no name of their
/// own.
pub(crate) fn warn_of_unnamed(source: Source<'_>) {
    let metrics = source.metadata().metrics().iter();
    let nameless = metrics.filter(|metric| metric.names.is_empty()).map(|metric| metric.desc.pmid);
    let nameless: Vec<String> = nameless.map(|pmid| pmid.to_string()).collect();
    if !nameless.is_empty() {
        let listed = listed(&nameless);
        warn(&format_args!("metrics without a name of their own are skipped: {listed}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_told_from_names_patterns_and_labels() {
        for text in ["p99(mmv.shop.latency)", "sum(rate(a.b{code=\"500\"}))", "a.b / c.d", "rate("]
        {
            assert!(is_expression(text), "{text}");
        }
        for text in ["a.b", "a.*", "a.b{path=~\"/(x|y) z\"}", "a.b{path=", "a-b.c", "", "a b.c"] {
            assert!(!is_expression(text), "{text}");
        }
    }

    #[test]
    fn similar_names_are_proposed_best_first() {
        let names =
            ["mmv.worker.requests", "mmv.worker.request_time", "mmv.worker.errors", "mem.free"];
        let alike = |wanted| similar(wanted, names.into_iter());
        assert_eq!(alike("mmv.worker.reqests"), ["mmv.worker.requests"]);
        assert_eq!(alike("worker.requests"), ["mmv.worker.requests"], "without its beginning");
        assert_eq!(alike("requests"), ["mmv.worker.requests"]);
        assert_eq!(alike("disk.dev.read"), [""; 0]);
        let nodes = with_prefixes("mmv.shop.requests.total");
        assert_eq!(similar("mmv.shop.reqests", nodes), ["mmv.shop.requests"]);
    }
}

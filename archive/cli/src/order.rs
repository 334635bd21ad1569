//! The order in which commands show metrics: what a person looks at first comes first.
//!
//! In: the name and descriptor of a metric, and whether its values change. Out: a key to sort by.
//!
//! | by | first to last |
//! |---|---|
//! | branch | MMV programs, other metrics, the agent, pmcd; programs that [moved](crate::movement) most first, others by name |
//! | movement | histograms and rates that [moved](crate::movement) far, then the others |
//! | kind | histograms, counters, other numbers, constants and values that are no numbers |
//! | error | names with "error" or "fail" and metrics labelled `code="5.."`, then the others |
//! | name | numbers in names by their value |
//!
//! Metrics of the agent and of pmcd describe the machinery. A table leaves them out unless they are
//! named, all are asked for, or there is nothing else.

use std::cmp::Ordering;

use hashbrown::{HashMap, HashSet};
use pcp_archive::raw::{LabelHistory, LabelSet, LabelTarget};
use pcp_archive::replay::SelectedMetric;
use pcp_archive::scan::Selector;
use pcp_archive::scan::histogram::HistogramLayout;
use pcp_archive::{InDom, InstanceId, Metadata, Pmid, Semantics, Timestamp};
use pcp_types::names::selects;

use crate::text::natural_order;

/// The branches of metrics about the machinery that logs.
const AGENT: &str = "mmv.agent";
const PMCD: &str = "pmcd";
/// The label with the status of a request, as an HTTP status code.
const CODE: &str = "code";
/// Words in the names of metrics that count what went wrong.
const ERROR_WORDS: [&str; 2] = ["error", "fail"];

/// The key that metrics are sorted by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MetricRank {
    origin: Origin,
    /// Position among the programs that moved; for the others, the number of those.
    program: usize,
    branch: NaturalName,
    is_usual: bool,
    kind: Kind,
    error: ErrorRank,
    name: NaturalName,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Origin {
    Program,
    Other,
    Agent,
    Pmcd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Histogram,
    Rate,
    Gauge,
    Constant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ErrorRank {
    Error,
    Other,
}

/// A name whose order is [`natural_order`].
#[derive(Debug, Clone, PartialEq, Eq)]
struct NaturalName(String);

impl PartialOrd for NaturalName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for NaturalName {
    fn cmp(&self, other: &Self) -> Ordering {
        natural_order(&self.0, &other.0)
    }
}

impl MetricRank {
    /// Returns the rank of a metric of an archive, or of one that is derived from a histogram. The
    /// numbers of one histogram (rate, quantiles) have the same rank: a stable sort keeps their
    /// order.
    fn new(metadata: &Metadata, metric: &SelectedMetric, first: &MovedSeries) -> Self {
        let histogram = histogram_name(metadata, metric);
        let name = histogram.unwrap_or(&metric.name);
        let kind = match metric.desc.semantics {
            _ if histogram.is_some() => Kind::Histogram,
            _ if metric.has_rates() => Kind::Rate,
            Semantics::Instant if metric.has_numbers() => Kind::Gauge,
            _ => Kind::Constant,
        };
        let own = branch(name);
        let program = first.programs.iter().position(|program| program == own);
        let is_error = has_error_name(name) || has_error_code(metadata, metric);
        Self {
            origin: Origin::new(name),
            program: program.unwrap_or(first.programs.len()),
            branch: NaturalName(own.to_owned()),
            is_usual: !first.metrics.contains(name),
            kind,
            error: if is_error { ErrorRank::Error } else { ErrorRank::Other },
            name: NaturalName(name.to_owned()),
        }
    }

    /// Ranks a metric whose values never change with constants.
    fn unchanging(mut self) -> Self {
        self.kind = Kind::Constant;
        self
    }
}

impl Origin {
    fn new(name: &str) -> Self {
        match branch(name) {
            AGENT => Self::Agent,
            PMCD => Self::Pmcd,
            branch if branch == "mmv" || branch.starts_with("mmv.") => Self::Program,
            _ => Self::Other,
        }
    }
}

/// Returns the branch of the name space that a metric is shown with: `mmv.shop` for a metric of
/// this program, and the first part of other names.
pub(crate) fn branch(name: &str) -> &str {
    let mut dots = name.match_indices('.').map(|(dot, _)| dot);
    let first = dots.next().unwrap_or(0);
    let end = if name.starts_with("mmv.") { dots.next().unwrap_or(first) } else { first };
    name.get(..end).unwrap_or_default()
}

/// Returns the metrics of the agent and of pmcd that were asked for as a part of a branch such as
/// `mmv`, of a pattern or of all metrics; none of them if there is nothing else.
pub(crate) fn unnamed_machinery(metrics: &[SelectedMetric], asked: &[String]) -> HashSet<Pmid> {
    let mut left_out = HashSet::new();
    let mut has_others = false;
    for metric in metrics {
        if is_unnamed_machinery(&metric.name, asked) {
            left_out.insert(metric.desc.pmid);
        } else {
            has_others = true;
        }
    }
    if has_others { left_out } else { HashSet::new() }
}

/// Returns whether a metric is one of the agent or of pmcd, and none of the names that were asked
/// for is of them in particular.
pub(crate) fn is_unnamed_machinery(name: &str, asked: &[String]) -> bool {
    if !matches!(Origin::new(name), Origin::Agent | Origin::Pmcd) {
        return false;
    }
    let selectors = asked.iter().filter_map(|text| text.parse::<Selector>().ok());
    let mut selecting = selectors.filter(|selector| selects(selector.name(), name));
    !selecting.any(|selector| ["agent", PMCD].iter().any(|word| selector.name().contains(word)))
}

/// Programs and metrics listed first because they moved.
#[derive(Debug, Clone, Default)]
pub(crate) struct MovedSeries {
    /// In descending order of their movement.
    pub(crate) programs: Vec<String>,
    /// Names of histograms and of counters.
    pub(crate) metrics: HashSet<String>,
}

/// The order of the series of an archive; computes what their keys need once.
pub(crate) struct SeriesOrder<'m> {
    metadata: &'m Metadata,
    first: MovedSeries,
    /// By the names of metrics.
    ranks: HashMap<String, MetricRank>,
    /// The instances that are labelled as errors.
    errors: HashMap<InDom, HashSet<InstanceId>>,
}

impl<'m> SeriesOrder<'m> {
    pub(crate) fn new(metadata: &'m Metadata) -> Self {
        Self {
            metadata,
            first: MovedSeries::default(),
            ranks: HashMap::new(),
            errors: HashMap::new(),
        }
    }

    pub(crate) const fn metadata(&self) -> &'m Metadata {
        self.metadata
    }

    /// Puts these programs before the others, and in each of them these metrics.
    pub(crate) fn with_first(self, first: MovedSeries) -> Self {
        Self { first, ..self }
    }

    /// Returns the key of an instance of a metric: instances that are labelled as errors come
    /// before the others, which a stable sort keeps in their order.
    pub(crate) fn key(
        &mut self,
        metric: &SelectedMetric,
        instance: Option<InstanceId>,
        is_unchanging: bool,
    ) -> (MetricRank, ErrorRank) {
        let metadata = self.metadata;
        let first = &self.first;
        let rank = self.ranks.entry_ref(&metric.name);
        let rank = rank.or_insert_with(|| MetricRank::new(metadata, metric, first)).clone();
        let rank = if is_unchanging { rank.unchanging() } else { rank };
        let Some((indom, instance)) = metric.desc.indom.zip(instance) else {
            return (rank, ErrorRank::Other);
        };
        let errors = self.errors.entry(indom);
        let errors = errors.or_insert_with(|| error_instances(metadata, indom));
        let is_error = errors.contains(&instance);
        (rank, if is_error { ErrorRank::Error } else { ErrorRank::Other })
    }
}

/// Returns the instances of a domain that were ever labelled as errors.
pub(crate) fn error_instances(metadata: &Metadata, indom: InDom) -> HashSet<InstanceId> {
    let domain = metadata.indom_history(indom);
    let labels = metadata.label_history(LabelTarget::Instances(indom));
    let mut errors = HashSet::new();
    for state in labels.into_iter().flat_map(LabelHistory::states) {
        let labelled = state.sets.iter().filter(|set| is_error_set(set));
        for number in labelled.filter_map(|set| set.instance) {
            errors.extend(match domain {
                Some(domain) => domain.identity_at(number, state.timestamp),
                None => Some(number),
            });
        }
    }
    errors
}

/// Returns the name of the histogram that a metric is a part of, or a number of; that of a histogram
/// whose counter of buckets has its name is that name.
pub(crate) fn histogram_name<'n>(
    metadata: &Metadata,
    metric: &'n SelectedMetric,
) -> Option<&'n str> {
    let name = metric.name.as_str();
    if has_buckets(metadata, name) {
        return Some(name);
    }
    if let Some((parent, _)) = name.rsplit_once('.')
        && has_buckets(metadata, parent)
    {
        return Some(parent);
    }
    HistogramLayout::find(metadata, name, &metric.desc).map(|_| name)
}

fn has_buckets(metadata: &Metadata, base: &str) -> bool {
    let counts = format!("{base}.bucket");
    let found = metadata.metric_by_name(&counts);
    found.is_some_and(|metric| HistogramLayout::find(metadata, &counts, &metric.desc).is_some())
}

/// Returns whether a metric counts what went wrong, by its name or labels.
pub(crate) fn is_error(metadata: &Metadata, metric: &SelectedMetric) -> bool {
    has_error_name(&metric.name) || has_error_code(metadata, metric)
}

fn has_error_name(name: &str) -> bool {
    let own = name.strip_prefix(branch(name)).unwrap_or(name).to_ascii_lowercase();
    ERROR_WORDS.iter().any(|word| own.contains(word))
}

fn has_error_code(metadata: &Metadata, metric: &SelectedMetric) -> bool {
    let sets = metadata.labels_at(LabelTarget::Item(metric.desc.pmid), Timestamp::MAX);
    sets.unwrap_or_default().iter().any(is_error_set)
}

/// Returns whether labels have a `code` from 500 to 599.
fn is_error_set(set: &LabelSet) -> bool {
    let mut codes = set.pairs().filter(|(name, ..)| *name == CODE);
    codes.any(|(_, value, _)| {
        let code = value.trim_matches('"');
        code.len() == 3 && code.starts_with('5')
    })
}

#[cfg(test)]
mod tests {
    use pcp_archive::Archive;
    use test_archives::Builder;

    use super::*;

    fn sorted(archive: &Archive) -> Vec<&str> {
        let metadata = archive.metadata();
        let names = metadata.subtree("");
        let metric = |(name, metric): (&str, &pcp_archive::Metric)| SelectedMetric {
            name: name.to_owned(),
            desc: metric.desc,
        };
        let metrics = names.map(|(name, found)| (name, metric((name, found))));
        let mut ranked: Vec<_> = metrics
            .map(|(name, metric)| {
                (MetricRank::new(metadata, &metric, &MovedSeries::default()), name)
            })
            .collect();
        ranked.sort();
        ranked.into_iter().map(|(_, name)| name).collect()
    }

    #[test]
    fn programs_come_first_and_in_them_rates_errors_and_gauges() {
        let archive = Builder::new()
            .metric("pmcd.pid", "u32 discrete")
            .metric("disk.read", "u64 counter count")
            .metric("mmv.agent.records", "u64 counter count")
            .metric("mmv.shop.queue", "u32 instant none")
            .metric("mmv.shop.requests", "u64 counter count")
            .metric("mmv.shop.upload_failures", "u64 counter count")
            .metric("mmv.shop.version", "string discrete")
            .metric("mmv.shop2.requests", "u64 counter count")
            .metric("mmv.shop10.requests", "u64 counter count")
            .row(0, [("mmv.shop.queue", 1)])
            .finish();
        let archive = Archive::open(archive.base()).unwrap();
        let expected = [
            "mmv.shop.upload_failures",
            "mmv.shop.requests",
            "mmv.shop.queue",
            "mmv.shop.version",
            "mmv.shop2.requests",
            "mmv.shop10.requests",
            "disk.read",
            "mmv.agent.records",
            "pmcd.pid",
        ];
        assert_eq!(sorted(&archive), expected);
    }

    #[test]
    fn programs_that_moved_come_before_the_others() {
        let names = [
            "mmv.api.errors",
            "mmv.jobs.errors",
            "mmv.jobs.queue",
            "mmv.agent.records",
            "mmv.zoo.visits",
        ];
        let mut builder = Builder::new();
        for name in names {
            builder = builder.metric(name, "u64 counter count");
        }
        let archive = builder.row(0, [("mmv.jobs.queue", 1)]).finish();
        let archive = Archive::open(archive.base()).unwrap();
        let programs = ["mmv.zoo", "mmv.jobs"].map(str::to_owned).to_vec();
        let metrics = HashSet::from(["mmv.jobs.queue".to_owned()]);
        let first = MovedSeries { programs, metrics };
        let mut order = SeriesOrder::new(archive.metadata()).with_first(first);
        let mut sorted = names;
        sorted.sort_by_cached_key(|name| {
            let desc = archive.metadata().metric_by_name(name).unwrap().desc;
            order.key(&SelectedMetric { name: (*name).to_owned(), desc }, None, false)
        });
        let expected = [
            "mmv.zoo.visits",
            "mmv.jobs.queue",
            "mmv.jobs.errors",
            "mmv.api.errors",
            "mmv.agent.records",
        ];
        assert_eq!(sorted, expected);
    }

    #[test]
    fn a_metric_that_never_changes_comes_after_those_that_do() {
        let archive = Builder::new()
            .metric("mmv.shop.a", "u32 instant none")
            .metric("mmv.shop.b", "u32 instant none")
            .row(0, [("mmv.shop.a", 1)])
            .finish();
        let archive = Archive::open(archive.base()).unwrap();
        let rank = |name: &str| {
            let desc = archive.metadata().metric_by_name(name).unwrap().desc;
            let metric = SelectedMetric { name: name.to_owned(), desc };
            MetricRank::new(archive.metadata(), &metric, &MovedSeries::default())
        };
        assert!(rank("mmv.shop.a") < rank("mmv.shop.b"));
        assert!(rank("mmv.shop.a").unchanging() > rank("mmv.shop.b"));
    }

    #[test]
    fn machinery_is_shown_where_it_is_named() {
        let left_out = |name: &str, asked: &[&str]| {
            let asked: Vec<String> = asked.iter().map(ToString::to_string).collect();
            is_unnamed_machinery(name, &asked)
        };
        assert!(left_out("mmv.agent.records", &[]));
        assert!(left_out("mmv.agent.records", &["mmv"]));
        assert!(left_out("mmv.agent.records", &["mmv", "pmcd"]));
        assert!(!left_out("mmv.agent.records", &["mmv.agent"]));
        assert!(!left_out("pmcd.pid", &["pmcd.*"]));
        assert!(!left_out("mmv.agents.records", &["mmv"]));
    }

    #[test]
    fn a_branch_is_a_program_or_the_first_part_of_a_name() {
        for (name, expected) in [
            ("mmv.shop.latency.p99", "mmv.shop"),
            ("mmv.orders", "mmv"),
            ("disk.dev.read", "disk"),
            ("load", ""),
        ] {
            assert_eq!(branch(name), expected);
        }
    }
}

//! The metadata of an archive: metrics, instance domains, labels, help text.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;

use hashbrown::HashMap;
use pcp_types::names;

use crate::{
    ByteText, InDom, IndomHistory, Instance, InstanceId, LabelHistory, LabelSet, LabelTarget,
    MetricDesc, Pmid, RecordError, TextKind, TextTarget, Timestamp,
};

/// Least likeness of a name that is suggested, from 0 to 1, as in the commands.
const MIN_LIKENESS: f64 = 0.75;

/// One metric of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metric {
    /// Type, units and meaning of its values.
    pub desc: MetricDesc,
    /// Its names in file order, mostly one. Empty if all of them belong to other metrics.
    pub names: Vec<ByteText>,
}

impl Metric {
    /// Returns the first name, or the PMID if it has none.
    pub fn display_name(&self) -> String {
        self.names.first().map_or_else(|| self.desc.pmid.to_string(), ToString::to_string)
    }
}

/// A label set that is not used, or not fully.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelDefect {
    /// Start of its record in the (expanded) `.meta` file.
    pub offset: u64,
    /// The object that the labels are attached to.
    pub target: LabelTarget,
    /// The instance, for [`LabelTarget::Instances`] only.
    pub instance: Option<InstanceId>,
    /// The error. Sets that are not UTF-8, or have an entry outside of their JSON, are left out;
    /// sets that are not JSON are kept.
    pub source: RecordError,
}

impl fmt::Display for LabelDefect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { target, instance, source, .. } = self;
        write!(f, "labels of {target}")?;
        if let Some(instance) = instance {
            write!(f, ", instance {instance}")?;
        }
        write!(f, ": {source}")
    }
}

/// All of an archive's `.meta` file in memory: descriptors, instance domains
/// over time with differences resolved, labels over time, help text.
#[derive(Debug, Clone, Default)]
pub struct Metadata {
    pub(super) metrics: Vec<Metric>,
    pub(super) by_pmid: HashMap<Pmid, usize>,
    pub(super) by_name: BTreeMap<ByteText, usize>,
    pub(super) indoms: BTreeMap<InDom, IndomHistory>,
    pub(super) labels: BTreeMap<LabelTarget, LabelHistory>,
    pub(super) texts: BTreeMap<(TextTarget, TextKind), ByteText>,
    pub(super) label_defects: Vec<LabelDefect>,
}

impl Metadata {
    /// Creates metadata of metrics alone.
    #[cfg(test)]
    pub(crate) fn of_metrics(descs: &[MetricDesc]) -> Self {
        let mut metadata = Self::default();
        for (at, desc) in descs.iter().enumerate() {
            metadata.by_pmid.insert(desc.pmid, at);
            metadata.metrics.push(Metric { desc: *desc, names: Vec::new() });
        }
        metadata
    }

    /// Returns all metrics in file order, each PMID once.
    pub fn metrics(&self) -> &[Metric] {
        &self.metrics
    }

    /// Returns the metric with a PMID.
    pub fn metric(&self, pmid: Pmid) -> Option<&Metric> {
        self.metrics.get(*self.by_pmid.get(&pmid)?)
    }

    /// Returns the metric with a name, in the text form of [`ByteText`]; of a name that two
    /// metrics claim, the first in the file.
    pub fn metric_by_name(&self, name: &str) -> Option<&Metric> {
        self.metrics.get(*self.by_name.get(name)?)
    }

    /// Returns the name of the metric that is most like `wanted`, which may end in labels; `None` if
    /// none is.
    pub(crate) fn nearest_name(&self, wanted: &str) -> Option<String> {
        let wanted = wanted.split('{').next().unwrap_or(wanted);
        let mut nearest = (MIN_LIKENESS, None);
        for name in self.by_name.keys() {
            let likeness = strsim::normalized_damerau_levenshtein(wanted, name);
            if likeness >= nearest.0 {
                nearest = (likeness, Some(name));
            }
        }
        nearest.1.map(|name| name.as_str().to_owned())
    }

    /// Returns names and metrics, sorted by name, of a metric and all below it: `kernel.all` gives
    /// `kernel.all.load` but not `kernel.allow`. The empty prefix gives everything.
    pub fn subtree<'m>(&'m self, prefix: &'m str) -> impl Iterator<Item = (&'m str, &'m Metric)> {
        let from = self.by_name.range::<str, _>((Bound::Included(prefix), Bound::Unbounded));
        let below = from.take_while(move |(name, _)| name.starts_with(prefix));
        below.filter_map(move |(name, &at)| {
            let rest = name.get(prefix.len()..)?;
            let inside = prefix.is_empty() || rest.is_empty() || rest.starts_with('.');
            inside.then_some((name.as_str(), self.metrics.get(at)?))
        })
    }

    /// Returns names and metrics, sorted by name, that a selector selects: a name, a branch of the
    /// name space, or a pattern with `*` and `?`.
    pub fn select<'m>(&'m self, selector: &'m str) -> impl Iterator<Item = (&'m str, &'m Metric)> {
        let below = self.subtree(if names::is_pattern(selector) { "" } else { selector });
        below.filter(move |(name, _)| names::selects(selector, name))
    }

    /// Returns instance domains and their histories, by identifier.
    pub fn indoms(&self) -> impl ExactSizeIterator<Item = (InDom, &IndomHistory)> {
        self.indoms.iter().map(|(indom, history)| (*indom, history))
    }

    /// Returns the history of an instance domain, with the numbers that records have; `None` if
    /// the archive never describes it (`PM_ERR_INDOM_LOG`).
    pub fn indom_history(&self, indom: InDom) -> Option<&IndomHistory> {
        self.indoms.get(&indom)
    }

    /// Returns the history of an instance domain with a number for each name, as scans, replays
    /// and summaries have it: see [`IndomHistory::by_identity`].
    pub fn identities(&self, indom: InDom) -> Option<&IndomHistory> {
        self.indom_history(indom).map(IndomHistory::by_identity)
    }

    /// Returns the instances of a domain at a time, sorted by number; `None` before the first
    /// record of the domain (`PM_ERR_INDOM_LOG`).
    pub fn indom_at(&self, indom: InDom, at: Timestamp) -> Option<Cow<'_, [Instance]>> {
        self.indoms.get(&indom)?.instances_at(at)
    }

    /// Returns label targets and their histories.
    pub fn labels(&self) -> impl ExactSizeIterator<Item = (LabelTarget, &LabelHistory)> {
        self.labels.iter().map(|(target, history)| (*target, history))
    }

    /// Returns the labels of a target over time; `None` if it never had any.
    pub fn label_history(&self, target: LabelTarget) -> Option<&LabelHistory> {
        self.labels.get(&target)
    }

    /// Returns the label sets of a target at a time: one, or for [`LabelTarget::Instances`] one
    /// for each instance. `None` before the first record of the target.
    pub fn labels_at(&self, target: LabelTarget, at: Timestamp) -> Option<&[LabelSet]> {
        self.labels.get(&target)?.sets_at(at)
    }

    /// Returns the label sets that are not used, or not fully, in file order; none in the
    /// metadata of several archives.
    pub fn label_defects(&self) -> &[LabelDefect] {
        &self.label_defects
    }

    /// Returns the help text of a metric or instance domain (`PM_ERR_TEXT` without).
    pub fn text(&self, target: TextTarget, kind: TextKind) -> Option<&ByteText> {
        self.texts.get(&(target, kind))
    }

    /// Returns all help texts.
    pub fn texts(&self) -> impl ExactSizeIterator<Item = (TextTarget, TextKind, &ByteText)> {
        self.texts.iter().map(|((target, kind), text)| (*target, *kind, text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcp_types::{Semantics, Units, ValueType};

    fn metadata(names: &[&str]) -> Metadata {
        let mut metadata = Metadata::default();
        for (n, name) in names.iter().enumerate() {
            let desc = MetricDesc {
                pmid: Pmid::new(70, 1, n as u32).unwrap(),
                value_type: ValueType::U32,
                indom: None,
                semantics: Semantics::Instant,
                units: Units::from_raw(0),
            };
            metadata.metrics.push(Metric { desc, names: vec![(*name).into()] });
            metadata.by_name.insert((*name).into(), n);
        }
        metadata
    }

    #[test]
    fn a_subtree_ends_at_a_dot() {
        let metadata = metadata(&["a.c", "a.b.d", "a.bc", "a.b", "ab"]);
        let names = |prefix| metadata.subtree(prefix).map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(names("a.b"), ["a.b", "a.b.d"]);
        assert_eq!(names("a"), ["a.b", "a.b.d", "a.bc", "a.c"]);
        assert_eq!(names("").len(), 5);
        assert_eq!(names("x"), [""; 0]);
    }
}

//! The rules, as they are written.

use pcp_types::names::is_label_name;

use super::replacement::Replacement;
use crate::error::rules::{RulePosition, RulesError};
use crate::{
    ByteText, InDom, InstanceId, Metadata, Pmid, Semantics, TextKind, Units, ValueType, Version,
    WriterLabel,
};

/// Rules for the change of an archive, from files of rules and from options.
///
/// ```
/// use pcp_archive::rewrite::Rules;
///
/// let mut rules = Rules::default();
/// rules.parse("rules.conf", "metric acme.products.count { name -> shop.sold }")?;
/// let error = rules.parse("other.conf", "metric acme { type -> U16 }").unwrap_err();
/// assert!(error.to_string().starts_with("other.conf:1:23: found \"U16\", expected"));
/// # Ok::<(), pcp_archive::rewrite::RulesError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Rules {
    pub(super) global: GlobalChange,
    pub(super) metrics: Vec<MetricRule>,
    pub(super) indoms: Vec<IndomRule>,
    pub(super) texts: Vec<TextRule>,
    pub(super) labels: Vec<LabelRule>,
}

/// A part of the rules, and where they have it: errors name the position.
#[derive(Debug, Clone)]
pub(super) struct Positioned<T, P = RulePosition> {
    pub(super) position: P,
    pub(super) value: T,
}

/// Changes of the label of the archive and of all times.
#[derive(Debug, Clone, Default)]
pub(super) struct GlobalChange {
    pub(super) hostname: Option<Positioned<ByteText>>,
    pub(super) timezone: Option<Positioned<ByteText>>,
    pub(super) zoneinfo: Option<Positioned<ByteText>>,
    /// The nanoseconds that are added to all times.
    pub(super) shift: Option<Positioned<i128>>,
}

/// A PMID in which cluster and item may be stars.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PmidPattern {
    pub(super) domain: u32,
    pub(super) cluster: Option<u32>,
    pub(super) item: Option<u32>,
}

impl PmidPattern {
    pub(super) fn matches(self, pmid: Pmid) -> bool {
        self.domain == pmid.domain()
            && self.cluster.is_none_or(|cluster| cluster == pmid.cluster())
            && self.item.is_none_or(|item| item == pmid.item())
    }

    /// Returns the PMID whose parts are those of the pattern and, for its stars, those of `old`.
    pub(super) fn apply(self, old: Pmid) -> Option<Pmid> {
        let cluster = self.cluster.unwrap_or(old.cluster());
        Pmid::new(self.domain, cluster, self.item.unwrap_or(old.item())).ok()
    }
}

/// An instance domain whose serial number may be a star.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct IndomPattern {
    pub(super) domain: u32,
    pub(super) serial: Option<u32>,
}

impl IndomPattern {
    pub(super) fn matches(self, indom: InDom) -> bool {
        self.domain == indom.domain() && self.serial.is_none_or(|serial| serial == indom.serial())
    }

    /// Returns the domain whose parts are those of the pattern and, for a star, that of `old`.
    pub(super) fn apply(self, old: InDom) -> Option<InDom> {
        InDom::new(self.domain, self.serial.unwrap_or(old.serial())).ok()
    }
}

/// The metrics that a rule is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum MetricSelector {
    Name(String),
    /// The metric of a name, and those below it.
    Branch(String),
    Pmids(PmidPattern),
}

impl MetricSelector {
    /// Returns whether a metric is one of those that the rule is for.
    pub(super) fn selects(&self, pmid: Pmid, metadata: &Metadata) -> bool {
        match self {
            Self::Pmids(pattern) => pattern.matches(pmid),
            Self::Name(name) | Self::Branch(name) => {
                metadata.metric_by_name(name).is_some_and(|metric| metric.desc.pmid == pmid)
            }
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct MetricRule {
    pub(super) metrics: MetricSelector,
    /// The archive must have a metric of the name.
    pub(super) is_required: bool,
    pub(super) clauses: Vec<Positioned<MetricClause>>,
}

#[derive(Debug, Clone)]
pub(super) enum MetricClause {
    Delete,
    Name {
        new: String,
        /// Another metric of the archive may have the name.
        may_be_taken: bool,
    },
    /// The part of a name that the rule selects becomes another.
    Branch(String),
    Pmid(PmidPattern),
    Type {
        only_if: Option<ValueType>,
        new: ValueType,
    },
    Indom {
        /// `None`: the metric has no instances.
        new: Option<IndomPattern>,
        output: Option<Output>,
    },
    Semantics(Semantics),
    Units {
        new: Units,
        /// The clause sets the physical unit, too.
        has_extra: bool,
        rescale: bool,
    },
    Value(Replacement),
}

/// The value that a metric has for all that it had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Output {
    First,
    Last,
    Min,
    Max,
    Sum,
    Average,
    Instance(InstanceId),
    Named(String),
}

#[derive(Debug, Clone)]
pub(super) struct IndomRule {
    pub(super) indoms: IndomPattern,
    pub(super) clauses: Vec<Positioned<IndomClause>>,
}

#[derive(Debug, Clone)]
pub(super) enum IndomClause {
    Indom {
        new: IndomPattern,
        /// The domain also stays as it is.
        is_duplicate: bool,
    },
    Number {
        old: InstanceId,
        /// `None`: the instance is deleted.
        new: Option<InstanceId>,
    },
    Name {
        old: String,
        new: Option<String>,
    },
    Replace(Replacement),
    Redact,
}

#[derive(Debug, Clone)]
pub(super) struct TextRule {
    pub(super) target: TextSelector,
    pub(super) kinds: Vec<TextKind>,
    /// Only texts that are this.
    pub(super) content: Option<String>,
    pub(super) clauses: Vec<Positioned<TextClause>>,
}

#[derive(Debug, Clone)]
pub(super) enum TextSelector {
    Metric(MetricSelector),
    Indom(IndomPattern),
}

#[derive(Debug, Clone)]
pub(super) enum TextClause {
    Delete,
    Text(String),
    Metric(PmidPattern),
    Indom(IndomPattern),
}

#[derive(Debug, Clone)]
pub(super) struct LabelRule {
    pub(super) target: LabelSelector,
    /// Of labels of instances, those of one.
    pub(super) instance: Option<InstanceSelector>,
    /// Only labels of this name.
    pub(super) name: Option<String>,
    /// Only labels of this value, as JSON.
    pub(super) value: Option<String>,
    pub(super) clauses: Vec<Positioned<LabelClause>>,
}

#[derive(Debug, Clone)]
pub(super) enum LabelSelector {
    Context,
    Domain(u32),
    /// Without an item.
    Cluster(PmidPattern),
    Item(MetricSelector),
    Indom(IndomPattern),
    Instances(IndomPattern),
}

#[derive(Debug, Clone)]
pub(super) enum InstanceSelector {
    Number(InstanceId),
    Name(String),
}

#[derive(Debug, Clone)]
pub(super) enum LabelClause {
    Delete,
    /// Name, and value as JSON.
    New(String, String),
    Name(String),
    Value(String),
    Domain(u32),
    Cluster(PmidPattern),
    Item(PmidPattern),
    Indom(IndomPattern),
    Instance(InstanceId),
}

impl Rules {
    /// Renames the metric called `old` to `new`, and moves those below `old` below `new`. Of
    /// several renamings the first that fits a name counts.
    pub fn rename(&mut self, old: &str, new: &str) {
        let metrics = MetricSelector::Branch(old.to_owned());
        let clause = MetricClause::Branch(new.to_owned());
        self.add_option("--rename", metrics, clause);
    }

    /// Gives the metric called `name` another PMID.
    pub fn renumber(&mut self, name: &str, pmid: Pmid) {
        let metrics = MetricSelector::Name(name.to_owned());
        let new = PmidPattern {
            domain: pmid.domain(),
            cluster: Some(pmid.cluster()),
            item: Some(pmid.item()),
        };
        self.add_option("--pmid", metrics, MetricClause::Pmid(new));
    }

    fn add_option(&mut self, option: &str, metrics: MetricSelector, clause: MetricClause) {
        let clause = Positioned { position: RulePosition::option(option), value: clause };
        self.metrics.push(MetricRule { metrics, is_required: true, clauses: vec![clause] });
    }

    /// Returns the label of an archive as it becomes.
    ///
    /// # Errors
    ///
    /// A zone by name in version 2, which has no room for one.
    pub(crate) fn relabel(
        &self,
        label: WriterLabel,
        version: Version,
    ) -> Result<WriterLabel, RulesError> {
        let mut changed = label;
        let GlobalChange { hostname, timezone, zoneinfo, .. } = &self.global;
        if let Some(hostname) = hostname {
            changed.hostname.clone_from(&hostname.value);
        }
        if let Some(timezone) = timezone {
            changed.timezone.clone_from(&timezone.value);
        }
        if let Some(zoneinfo) = zoneinfo {
            if version == Version::V2 {
                let message = "version 2 has no zoneinfo: remove the clause, or write version 3";
                return Err(RulesError::new(&zoneinfo.position, message));
            }
            changed.zoneinfo.clone_from(&zoneinfo.value);
        }
        Ok(changed)
    }

    /// Returns whether there is no rule.
    pub fn is_empty(&self) -> bool {
        let GlobalChange { hostname, timezone, zoneinfo, shift } = &self.global;
        let changes_label = hostname.is_some() || timezone.is_some() || zoneinfo.is_some();
        self.metrics.is_empty()
            && self.indoms.is_empty()
            && self.texts.is_empty()
            && self.labels.is_empty()
            && !changes_label
            && shift.is_none()
    }
}

/// Returns the name of a label if it can be one.
pub(super) fn label_name(name: &str) -> Option<String> {
    is_label_name(name).then(|| name.to_owned())
}

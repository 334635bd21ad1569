//! Which metadata and which values go over, and under which names.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use pcp_types::{InDom, InstanceId, Pmid, ValueType};

use crate::Metric;
use crate::copy::Change;
use crate::error::{Error, Result};
use crate::format::labelset::LabelTarget;
use crate::format::text::TextTarget;
use crate::scan::Selection;
use crate::writer::ArchiveWriter;

/// Instances of a domain that are wanted; `None`: all.
type Instances = Option<Arc<HashSet<InstanceId>>>;

/// A selection as it is asked for set by set.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// By the PMIDs of the source.
    metrics: HashMap<Pmid, Kept>,
    indoms: HashMap<InDom, Instances>,
    domains: HashSet<u32>,
    clusters: HashSet<(u32, u32)>,
    /// Sets keep their PMIDs and all of their values.
    keeps_sets: bool,
}

/// A metric that goes over.
#[derive(Debug)]
struct Kept {
    /// As the new archive knows it.
    metric: Metric,
    instances: Instances,
}

impl Plan {
    pub(super) fn new(
        selection: &Selection<'_>,
        renames: &[(String, String)],
        renumbered: &[(String, Pmid)],
    ) -> Result<Self> {
        let mut plan = Self { keeps_sets: renumbered.is_empty(), ..Self::default() };
        for selected in selection.metrics() {
            let pmid = selected.desc.pmid;
            let Some(metric) = selection.source().metadata().metric(pmid) else { continue };
            let instances = metric.desc.indom.and_then(|indom| {
                let instances = plan.indoms.entry(indom);
                instances.or_insert_with(|| selection.instances_of(indom).map(Arc::new)).clone()
            });
            plan.keeps_sets &= instances.is_none();
            plan.metrics.insert(pmid, Kept { metric: metric.clone(), instances });
        }
        plan.renumber(renumbered)?;
        plan.rename(renames)?;
        let kept = || plan.metrics.values().map(|kept| kept.metric.desc.pmid);
        plan.domains = kept().map(Pmid::domain).collect();
        plan.clusters = kept().map(|pmid| (pmid.domain(), pmid.cluster())).collect();
        Ok(plan)
    }

    /// Gives metrics other PMIDs; no two may have one.
    fn renumber(&mut self, renumbered: &[(String, Pmid)]) -> Result<()> {
        for (name, pmid) in renumbered {
            let mut all = self.metrics.values_mut().map(|kept| &mut kept.metric);
            let metric = all.find(|metric| metric.names.contains(name));
            let metric = metric.ok_or_else(|| Error::NoMetric { name: name.clone() })?;
            metric.desc.pmid = *pmid;
        }
        if renumbered.is_empty() {
            return Ok(());
        }
        let mut all: Vec<_> = self.metrics.iter().map(|(old, kept)| (*old, &kept.metric)).collect();
        // Those that keep theirs come first.
        all.sort_by_key(|(old, metric)| (metric.desc.pmid != *old, metric.display_name()));
        let mut owners: HashMap<Pmid, &Metric> = HashMap::new();
        for (_, metric) in all {
            let (name, pmid) = (metric.display_name(), metric.desc.pmid);
            if matches!(metric.desc.value_type, ValueType::Event | ValueType::HighresEvent) {
                return Err(Error::EventParameters { name });
            }
            if let Some(owner) = owners.insert(pmid, metric) {
                return Err(Error::PmidTaken { name, pmid, owner: owner.display_name() });
            }
        }
        Ok(())
    }

    fn rename(&mut self, renames: &[(String, String)]) -> Result<()> {
        let mut used = vec![false; renames.len()];
        for name in self.metrics.values_mut().flat_map(|kept| &mut kept.metric.names) {
            let mut fitting = renames.iter().zip(&mut used);
            let other = fitting.find_map(|((old, new), used)| {
                let rest = name.strip_prefix(old.as_str())?;
                let fits = rest.is_empty() || rest.starts_with('.');
                *used |= fits;
                fits.then(|| format!("{new}{rest}"))
            });
            if let Some(other) = other {
                *name = other;
            }
        }
        match renames.iter().zip(used).find(|(_, used)| !used) {
            Some(((old, _), _)) => Err(Error::NoMetric { name: old.clone() }),
            None => Ok(()),
        }
    }

    /// Whether a metric of the source is wanted.
    pub(super) fn has(&self, pmid: Pmid) -> bool {
        self.metrics.contains_key(&pmid)
    }

    /// Whether the sets of wanted metrics go over as they are.
    pub(super) const fn keeps_sets(&self) -> bool {
        self.keeps_sets
    }

    /// The new PMID of a metric of the source, and which of its instances are
    /// wanted if not all.
    pub(super) fn wanted(&self, pmid: Pmid) -> Option<(Pmid, Option<&HashSet<InstanceId>>)> {
        let kept = self.metrics.get(&pmid)?;
        Some((kept.metric.desc.pmid, kept.instances.as_deref()))
    }

    /// Tells the writer of a change, or of what of it is wanted; false if
    /// nothing is.
    pub(super) fn declare(&self, change: Change<'_>, writer: &mut ArchiveWriter) -> Result<bool> {
        match change {
            Change::Metric(metric) => {
                let Some(kept) = self.metrics.get(&metric.desc.pmid) else { return Ok(false) };
                Change::Metric(&kept.metric).declare(writer)?;
            }
            Change::Text(target, kind, text) => {
                let Some(target) = self.text_target(target) else { return Ok(false) };
                writer.declare_text(target, kind, text)?;
            }
            Change::Indom(indom, instances) => {
                let Some(wanted) = self.indoms.get(&indom) else { return Ok(false) };
                let wanted = only(&instances, wanted, |instance| Some(instance.id));
                writer.declare_indom(indom, &wanted)?;
            }
            Change::Labels(target, sets) => {
                let Some(target) = self.label_target(target) else { return Ok(false) };
                let all = match target {
                    LabelTarget::Instances(indom) => self.indoms.get(&indom),
                    _ => None,
                };
                let wanted = only(sets, all.unwrap_or(&None), |set| set.instance);
                writer.declare_labels(target, &wanted)?;
            }
        }
        Ok(true)
    }

    fn new_pmid(&self, pmid: Pmid) -> Option<Pmid> {
        self.metrics.get(&pmid).map(|kept| kept.metric.desc.pmid)
    }

    fn text_target(&self, target: TextTarget) -> Option<TextTarget> {
        match target {
            TextTarget::Metric(pmid) => self.new_pmid(pmid).map(TextTarget::Metric),
            TextTarget::InDom(indom) => self.indoms.contains_key(&indom).then_some(target),
        }
    }

    fn label_target(&self, target: LabelTarget) -> Option<LabelTarget> {
        let is_wanted = match target {
            LabelTarget::Item(pmid) => return self.new_pmid(pmid).map(LabelTarget::Item),
            LabelTarget::Context => true,
            LabelTarget::Domain(domain) => self.domains.contains(&domain),
            LabelTarget::Cluster { domain, cluster } => self.clusters.contains(&(domain, cluster)),
            LabelTarget::InDom(indom) | LabelTarget::Instances(indom) => {
                self.indoms.contains_key(&indom)
            }
        };
        is_wanted.then_some(target)
    }
}

/// Those whose instances are wanted.
fn only<T: Clone>(
    all: &[T],
    wanted: &Instances,
    instance: impl Fn(&T) -> Option<InstanceId>,
) -> Vec<T> {
    let is_wanted = |one: &&T| {
        let set = wanted.as_ref().zip(instance(one));
        set.is_none_or(|(wanted, id)| wanted.contains(&id))
    };
    all.iter().filter(is_wanted).cloned().collect()
}

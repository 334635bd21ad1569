//! Decides which metadata and values are extracted, and under which names.

use std::ops::Range;
use std::sync::Arc;

use hashbrown::hash_map::Entry;
use hashbrown::{HashMap, HashSet};

use super::label_inheritance::LabelInheritance;
use crate::format::desc::{check_len, check_name};
use crate::reader::Identities;
use crate::scan::Selection;
use crate::writer::NameRules;
use crate::writer::copy::Change;
use crate::{
    ArchiveWriter, ByteText, Error, InDom, InstanceId, LabelTarget, Metadata, Metric, MetricDesc,
    Pmid, Result, TextTarget, Timestamp,
};

/// Instances of a domain that are wanted; `None`: all.
type WantedInstances = Option<Arc<HashSet<InstanceId>>>;

/// A domain of which some instances are wanted, and in which numbers change their names.
#[derive(Debug)]
struct RenumberedInstances {
    identities: Arc<Identities>,
    /// The wanted identities, of the domain and of metrics.
    of_domain: WantedInstances,
    of_metrics: Vec<(Pmid, Arc<HashSet<InstanceId>>)>,
    /// The time in which they have the numbers that the mapping knows.
    unchanged: Range<Timestamp>,
}

/// The selection, looked up for each value set.
#[derive(Debug, Default)]
pub(in crate::writer) struct Mapping {
    metrics: HashMap<Pmid, ExtractedMetric>,
    indoms: HashMap<InDom, WantedInstances>,
    renumbered: HashMap<InDom, RenumberedInstances>,
    /// Metrics that are in events only, under their new names; `None` for those
    /// that the source does not describe or has no name for.
    parameters: HashMap<Pmid, Option<Metric>>,
    renames: Vec<(String, String)>,
    domains: LabelInheritance<u32>,
    clusters: LabelInheritance<(u32, u32)>,
    /// Sets keep their PMIDs and all of their values.
    keeps_sets: bool,
    /// Metrics of the source that no name fits, and the length of their first.
    unnameable: Vec<(Pmid, usize)>,
}

#[derive(Debug)]
struct ExtractedMetric {
    /// With its name and PMID in the new archive.
    metric: Metric,
    instances: WantedInstances,
}

impl Mapping {
    pub(in crate::writer) fn new(
        selection: &Selection<'_>,
        renames: &[(String, String)],
        renumbered: &[(String, Pmid)],
    ) -> Result<Self> {
        let mut mapping = Self { keeps_sets: renumbered.is_empty(), ..Self::default() };
        for (selected, instances) in selection.metrics().iter().zip(selection.instances_by_metric())
        {
            let pmid = selected.desc.pmid;
            let Some(metric) = selection.source().metadata().metric(pmid) else { continue };
            if let Some(indom) = metric.desc.indom {
                mapping.add_instances(indom, instances.as_ref());
            }
            mapping.keeps_sets &= instances.is_none();
            if let Some(((identities, indom), instances)) =
                selection.identities_of(selected).zip(metric.desc.indom).zip(instances.as_ref())
            {
                let domain =
                    mapping.renumbered.entry(indom).or_insert_with(|| RenumberedInstances {
                        identities: Arc::clone(identities),
                        of_domain: None,
                        of_metrics: Vec::new(),
                        unchanged: Timestamp::MAX..Timestamp::MAX,
                    });
                domain.of_metrics.push((pmid, Arc::clone(instances)));
            }
            mapping.metrics.insert(pmid, ExtractedMetric { metric: metric.clone(), instances });
        }
        for (indom, renumbered) in &mut mapping.renumbered {
            renumbered.of_domain = mapping.indoms.get(indom).cloned().flatten();
        }
        mapping.renumber(renumbered)?;
        mapping.rename(renames)?;
        mapping.drop_long_names();
        renames.clone_into(&mut mapping.renames);
        let moves = mapping.metrics.iter().map(|(old, kept)| {
            let new = kept.metric.desc.pmid;
            [*old, new].map(|pmid| (pmid.domain(), pmid.cluster()))
        });
        let moves: Vec<_> = moves.collect();
        mapping.domains = moves.iter().map(|[(old, _), (new, _)]| (*old, *new)).collect();
        mapping.clusters = moves.iter().map(|[old, new]| (*old, *new)).collect();
        Ok(mapping)
    }

    /// Adds to the instances of a domain those that one of its metrics needs.
    fn add_instances(&mut self, indom: InDom, more: Option<&Arc<HashSet<InstanceId>>>) {
        match self.indoms.entry(indom) {
            Entry::Vacant(new) => {
                new.insert(more.cloned());
            }
            Entry::Occupied(mut known) => match (known.get_mut(), more) {
                (Some(known), Some(more)) if !Arc::ptr_eq(known, more) => {
                    Arc::make_mut(known).extend(more.iter().copied());
                }
                (known @ Some(_), None) => *known = None,
                _ => {}
            },
        }
    }

    /// Looks up which numbers the wanted instances have at a time.
    pub(in crate::writer) fn move_to(&mut self, time: Timestamp) {
        for (indom, domain) in &mut self.renumbered {
            if domain.unchanged.contains(&time) {
                continue;
            }
            let identities = &domain.identities;
            domain.unchanged = identities.unchanged_around(time);
            let numbers = |wanted: &Arc<_>| Arc::new(identities.numbers_of(wanted, time));
            self.indoms.insert(*indom, domain.of_domain.as_ref().map(numbers));
            for (pmid, wanted) in &domain.of_metrics {
                if let Some(kept) = self.metrics.get_mut(pmid) {
                    kept.instances = Some(numbers(wanted));
                }
            }
        }
    }

    /// Gives metrics other PMIDs; no two may have one.
    fn renumber(&mut self, renumbered: &[(String, Pmid)]) -> Result<()> {
        for (name, pmid) in renumbered {
            let mut all = self.metrics.values_mut().map(|kept| &mut kept.metric);
            let metric = all.find(|metric| metric.names.iter().any(|one| one == name.as_str()));
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
            let name = metric.display_name();
            let pmid = metric.desc.pmid;
            if metric.desc.value_type.is_event() {
                return Err(Error::EventParameters { name });
            }
            if let Some(owner) = owners.insert(pmid, metric) {
                return Err(Error::PmidTaken { name, pmid, owner: owner.display_name() });
            }
        }
        Ok(())
    }

    fn rename(&mut self, renames: &[(String, String)]) -> Result<()> {
        renames.iter().try_for_each(|(_, new)| check_name(new))?;
        let mut used = vec![false; renames.len()];
        for name in self.metrics.values_mut().flat_map(|kept| &mut kept.metric.names) {
            if let Some((at, other)) = renamed(name, renames) {
                *name = other;
                used.get_mut(at).into_iter().for_each(|used| *used = true);
            }
        }
        match renames.iter().zip(used).find(|(_, used)| !used) {
            Some(((old, _), _)) => Err(Error::NoMetric { name: old.clone() }),
            None => Ok(()),
        }
    }

    /// Leaves out names for which readers have no room, and metrics without any other.
    fn drop_long_names(&mut self) {
        let unnameable = &mut self.unnameable;
        self.metrics.retain(|pmid, ExtractedMetric { metric, .. }| {
            let length = metric.names.first().map_or(0, |name| name.to_bytes().len());
            let had_names = !metric.names.is_empty();
            metric.names.retain(has_room);
            let is_lost = had_names && metric.names.is_empty();
            if is_lost {
                unnameable.push((*pmid, length));
            }
            !is_lost
        });
        unnameable.sort_unstable();
    }

    /// Returns the metrics of the source that are left out because no name fits.
    pub(in crate::writer) fn into_unnameable(self) -> Vec<(Pmid, usize)> {
        self.unnameable
    }

    /// Returns the rules for names: those that were renamed may not become leaf and branch, those
    /// of the source may be both there.
    pub(super) const fn name_rules(&self) -> NameRules {
        if self.renames.is_empty() { NameRules::OneOwner } else { NameRules::All }
    }

    /// Returns whether a metric of the source is wanted.
    pub(super) fn has(&self, pmid: Pmid) -> bool {
        self.metrics.contains_key(&pmid)
    }

    /// Returns whether the sets of wanted metrics are copied unchanged.
    pub(super) const fn keeps_sets(&self) -> bool {
        self.keeps_sets
    }

    /// Returns the new PMID of a metric of the source, and which of its instances are wanted if
    /// not all.
    pub(in crate::writer) fn wanted(
        &self,
        pmid: Pmid,
    ) -> Option<(Pmid, Option<&HashSet<InstanceId>>)> {
        let kept = self.metrics.get(&pmid)?;
        Some((kept.metric.desc.pmid, kept.instances.as_deref()))
    }

    /// Returns the descriptor of a metric of the source that is wanted and has events, and which
    /// of its instances are wanted if not all.
    pub(super) fn events(&self, pmid: Pmid) -> Option<(&MetricDesc, Option<&HashSet<InstanceId>>)> {
        let kept = self.metrics.get(&pmid)?;
        let desc = &kept.metric.desc;
        desc.value_type.is_event().then_some((desc, kept.instances.as_deref()))
    }

    /// Returns whether a metric of the source is wanted that has events.
    pub(super) fn has_events(&self) -> bool {
        self.metrics.values().any(|kept| kept.metric.desc.value_type.is_event())
    }

    /// Adds a metric that events name. Returns true if it was not known before and is described.
    pub(super) fn add_parameter(&mut self, pmid: Pmid, metadata: &Metadata) -> bool {
        if self.has(pmid) {
            return false;
        }
        let Entry::Vacant(new) = self.parameters.entry(pmid) else { return false };
        let metric = metadata.metric(pmid).filter(|metric| !metric.names.is_empty());
        let mut metric = metric.cloned();
        for name in metric.iter_mut().flat_map(|metric| &mut metric.names) {
            if let Some((_, other)) = renamed(name, &self.renames) {
                *name = other;
            }
        }
        if let Some(metric) = &mut metric {
            metric.names.retain(has_room);
        }
        let metric = metric.filter(|metric| !metric.names.is_empty());
        new.insert(metric).is_some()
    }

    /// Returns a parameter, with its name in the new archive.
    pub(super) fn parameter(&self, pmid: Pmid) -> Option<&Metric> {
        self.parameters.get(&pmid)?.as_ref()
    }

    /// Tells the writer of a change, or of what of it is wanted; false if
    /// nothing is.
    pub(in crate::writer) fn declare(
        &self,
        change: Change<'_>,
        writer: &mut ArchiveWriter,
    ) -> Result<bool> {
        match change {
            Change::Metric(metric) => {
                let Some(kept) = self.metrics.get(&metric.desc.pmid) else { return Ok(false) };
                writer.declare_copied(&kept.metric, self.name_rules())?;
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
                let targets = self.label_targets(target);
                let all = match target {
                    LabelTarget::Instances(indom) => self.indoms.get(&indom),
                    _ => None,
                };
                let wanted = only(sets, all.unwrap_or(&None), |set| set.instance);
                for target in &targets {
                    writer.declare_labels(*target, &wanted)?;
                }
                return Ok(!targets.is_empty());
            }
        }
        Ok(true)
    }

    fn new_pmid(&self, pmid: Pmid) -> Option<Pmid> {
        let kept = self.metrics.get(&pmid).map(|kept| &kept.metric);
        kept.or_else(|| self.parameter(pmid)).map(|metric| metric.desc.pmid)
    }

    fn text_target(&self, target: TextTarget) -> Option<TextTarget> {
        match target {
            TextTarget::Metric(pmid) => self.new_pmid(pmid).map(TextTarget::Metric),
            TextTarget::InDom(indom) => self.indoms.contains_key(&indom).then_some(target),
        }
    }

    /// Returns the targets of the labels in the new archive: none, or several clusters if the
    /// metrics of one were moved to several.
    fn label_targets(&self, target: LabelTarget) -> Vec<LabelTarget> {
        let one = |is_wanted: bool| is_wanted.then_some(target).into_iter().collect();
        match target {
            LabelTarget::Item(pmid) => {
                self.new_pmid(pmid).map(LabelTarget::Item).into_iter().collect()
            }
            LabelTarget::Context => one(true),
            LabelTarget::Domain(domain) => {
                self.domains.heirs(domain).iter().copied().map(LabelTarget::Domain).collect()
            }
            LabelTarget::Cluster { domain, cluster } => {
                let inherited = self.clusters.heirs((domain, cluster)).iter();
                inherited
                    .map(|&(domain, cluster)| LabelTarget::Cluster { domain, cluster })
                    .collect()
            }
            LabelTarget::InDom(indom) | LabelTarget::Instances(indom) => {
                one(self.indoms.contains_key(&indom))
            }
        }
    }
}

/// Returns whether PCP's readers have room for a name.
fn has_room(name: &ByteText) -> bool {
    check_len(&name.to_bytes()).is_ok()
}

/// Applies the first renaming that fits a name, and returns its number with the new name.
fn renamed(name: &str, renames: &[(String, String)]) -> Option<(usize, ByteText)> {
    renames.iter().enumerate().find_map(|(at, (old, new))| {
        let rest = name.strip_prefix(old.as_str())?;
        let fits = rest.is_empty() || rest.starts_with('.');
        fits.then(|| (at, ByteText::from_escaped(&format!("{new}{rest}"))))
    })
}

fn only<T: Clone>(
    all: &[T],
    wanted: &WantedInstances,
    instance: impl Fn(&T) -> Option<InstanceId>,
) -> Vec<T> {
    all.iter()
        .filter(|one| {
            let set = wanted.as_ref().zip(instance(one));
            set.is_none_or(|(wanted, id)| wanted.contains(&id))
        })
        .cloned()
        .collect()
}

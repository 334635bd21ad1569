//! Decides which metadata and values are extracted, and under which names.

use std::ops::Range;
use std::sync::Arc;

use hashbrown::hash_map::Entry;
use hashbrown::{HashMap, HashSet};

use super::label_inheritance::LabelInheritance;
use crate::format::desc::check_len;
use crate::reader::Identities;
use crate::scan::Selection;
use crate::writer::NameRules;
use crate::writer::copy::Change;
use crate::writer::rewrite::{LabelMoves, NewNumbers, Rewrite, Rules, ValueChange, renumbered};
use crate::{
    ArchiveWriter, ByteText, Error, InDom, Instance, InstanceId, LabelSet, LabelTarget, Metadata,
    Metric, MetricDesc, Pmid, Result, TextTarget, Timestamp,
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
    rewrite: Rewrite,
    /// New numbers of instances now, by the old domain.
    new_numbers: HashMap<InDom, NewNumbers>,
    /// Grows when new numbers change.
    numbers_version: u64,
    /// Instance domains of the new archive.
    new_indoms: HashSet<InDom>,
    /// Rules have added their labels to targets without any.
    labels_are_added: bool,
    domains: LabelInheritance<u32>,
    clusters: LabelInheritance<(u32, u32)>,
    /// Sets keep their PMIDs and all of their values.
    keeps_sets: bool,
    names: NameRules,
    /// Metrics of the source that no name fits, and the length of their first.
    unnameable: Vec<(Pmid, usize)>,
}

#[derive(Debug)]
struct ExtractedMetric {
    /// With its names, PMID and descriptor in the new archive.
    metric: Metric,
    instances: WantedInstances,
    /// `None`: the values are copied.
    values: Option<Arc<ValueChange>>,
    /// The old domain whose new numbers its instances have.
    instances_of: Option<InDom>,
}

/// A metric that is copied, and the changes of its values.
#[derive(Debug, Clone, Copy)]
pub(super) struct CopiedMetric<'m> {
    pub(super) pmid: Pmid,
    /// `None`: all.
    pub(super) instances: Option<&'m HashSet<InstanceId>>,
    pub(super) new_numbers: Option<&'m NewNumbers>,
    pub(super) values: Option<&'m ValueChange>,
}

impl Mapping {
    pub(in crate::writer) fn new(selection: &Selection<'_>, rules: &Rules) -> Result<Self> {
        let metadata = selection.source().metadata();
        let rewrite = Rewrite::new(rules, metadata)?;
        let mut mapping = Self { keeps_sets: true, rewrite, ..Self::default() };
        let mut renames = false;
        for (selected, instances) in selection.metrics().iter().zip(selection.instances_by_metric())
        {
            let pmid = selected.desc.pmid;
            let Some(old) = metadata.metric(pmid) else { continue };
            let change = mapping.rewrite.metric(pmid);
            if change.is_some_and(|change| change.is_deleted) {
                continue;
            }
            let metric = change.map_or(old, |change| &change.metric).clone();
            let values = change.and_then(|change| change.values.clone());
            let instances_of = change.and_then(|change| change.instances_of);
            renames |= metric.names != old.names;
            mapping.keeps_sets &= metric.desc.pmid == pmid
                && values.is_none()
                && instances_of.is_none()
                && instances.is_none();
            if let Some(indom) = metric.desc.indom {
                mapping.new_indoms.insert(indom);
                let source = mapping.rewrite.source_of(indom, metadata);
                let own = instances.as_ref().filter(|_| old.desc.indom == Some(source));
                mapping.add_instances(source, own);
            }
            if let Some(((identities, indom), instances)) =
                selection.identities_of(selected).zip(old.desc.indom).zip(instances.as_ref())
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
            let copied = ExtractedMetric { metric, instances, values, instances_of };
            mapping.metrics.insert(pmid, copied);
        }
        for (indom, renumbered) in &mut mapping.renumbered {
            renumbered.of_domain = mapping.indoms.get(indom).cloned().flatten();
        }
        mapping.check_pmids()?;
        mapping.names = if renames { NameRules::All } else { NameRules::OneOwner };
        mapping.drop_long_names();
        mapping.add_indoms();
        let moves = mapping.metrics.iter().map(|(old, kept)| {
            let new = kept.metric.desc.pmid;
            [*old, new].map(|pmid| (pmid.domain(), pmid.cluster()))
        });
        let moves: Vec<_> = moves.collect();
        mapping.domains = moves.iter().map(|[(old, _), (new, _)]| (*old, *new)).collect();
        mapping.clusters = moves.iter().map(|[old, new]| (*old, *new)).collect();
        Ok(mapping)
    }

    /// Notes the domains of the new archive, and the numbers that change at all times.
    fn add_indoms(&mut self) {
        for indom in self.indoms.keys() {
            let Some(change) = self.rewrite.indom(*indom) else { continue };
            self.new_indoms.insert(change.target);
            if change.is_duplicated {
                self.new_indoms.insert(*indom);
            }
            self.new_numbers.insert(*indom, change.numbers());
        }
        self.rewrite.labels.set_indoms(self.new_indoms.clone());
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

    /// Checks that no two metrics get one PMID.
    fn check_pmids(&self) -> Result<()> {
        if self.metrics.iter().all(|(old, kept)| kept.metric.desc.pmid == *old) {
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
        self.names
    }

    /// Returns a time of the source as it is in the new archive.
    pub(super) fn shifted(&self, time: Timestamp) -> Timestamp {
        self.rewrite.shifted(time)
    }

    /// Returns the time of the source that is this one in the new archive.
    pub(super) fn unshifted(&self, time: Timestamp) -> Timestamp {
        self.rewrite.unshifted(time)
    }

    /// Returns a number that changes when instances get other numbers than before.
    pub(super) const fn numbers_version(&self) -> u64 {
        self.numbers_version
    }

    /// Returns the changes of a metric of the source that is copied; `None` if it is not.
    pub(super) fn copied(&self, pmid: Pmid) -> Option<CopiedMetric<'_>> {
        let kept = self.metrics.get(&pmid)?;
        let new_numbers = kept.instances_of.and_then(|indom| self.new_numbers.get(&indom));
        Some(CopiedMetric {
            pmid: kept.metric.desc.pmid,
            instances: kept.instances.as_deref(),
            new_numbers: new_numbers.filter(|numbers| !numbers.is_empty()),
            values: kept.values.as_deref(),
        })
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
        let changed = self.rewrite.metric(pmid).map(|change| &change.metric);
        let metric = changed.or_else(|| metadata.metric(pmid));
        let mut metric = metric.filter(|metric| !metric.names.is_empty()).cloned();
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
        &mut self,
        change: Change<'_>,
        writer: &mut ArchiveWriter,
    ) -> Result<bool> {
        match change {
            Change::Metric(metric) => {
                let Some(kept) = self.metrics.get(&metric.desc.pmid) else { return Ok(false) };
                writer.declare_copied(&kept.metric, self.name_rules())?;
                Ok(true)
            }
            Change::Text(target, kind, text) => {
                let Some((new_target, text)) = self.rewrite.text(target, kind, text) else {
                    return Ok(false);
                };
                let is_wanted = self.has_owner(target, new_target);
                if is_wanted {
                    writer.declare_text(new_target, kind, text)?;
                }
                Ok(is_wanted)
            }
            Change::Indom(indom, instances) => {
                let Some(wanted) = self.indoms.get(&indom) else { return Ok(false) };
                let wanted = only(&instances, wanted, |instance| Some(instance.id));
                self.declare_indom(indom, &wanted, writer)?;
                Ok(true)
            }
            Change::Labels(target, sets) => self.declare_labels(target, sets, writer),
        }
    }

    /// Declares a state of a domain as it becomes.
    fn declare_indom(
        &mut self,
        indom: InDom,
        instances: &[Instance],
        writer: &mut ArchiveWriter,
    ) -> Result<()> {
        let Some(change) = self.rewrite.indom(indom) else {
            return writer.declare_indom(indom, instances);
        };
        if change.is_duplicated {
            writer.declare_indom(indom, instances)?;
        }
        let (changed, new_numbers) = change.apply(instances)?;
        let had_instances = !writer.declared_instances(change.target).is_empty();
        if !changed.is_empty() || instances.is_empty() || had_instances {
            writer.declare_indom(change.target, &changed)?;
        }
        if self.new_numbers.get(&indom) != Some(&new_numbers) {
            self.new_numbers.insert(indom, new_numbers);
            self.numbers_version += 1;
        }
        Ok(())
    }

    /// Declares the labels of a target as they become, where they go.
    fn declare_labels(
        &mut self,
        target: LabelTarget,
        sets: &[LabelSet],
        writer: &mut ArchiveWriter,
    ) -> Result<bool> {
        let targets = self.label_targets(target);
        let indom = match target {
            LabelTarget::Instances(indom) => Some(indom),
            _ => None,
        };
        let all = indom.and_then(|indom| self.indoms.get(&indom));
        let mut wanted = only(sets, all.unwrap_or(&None), |set| set.instance);
        let new_numbers = indom.and_then(|indom| self.new_numbers.get(&indom));
        if !self.rewrite.labels.is_empty() {
            let moves = LabelMoves { targets, new_numbers };
            let changed = self.rewrite.labels.change(target, &wanted, &moves)?;
            for (target, sets) in &changed {
                writer.declare_labels(*target, sets)?;
            }
            return Ok(!changed.is_empty());
        }
        wanted.retain_mut(|set| match renumbered(set.instance, new_numbers) {
            Ok(instance) => {
                set.instance = instance;
                true
            }
            Err(_) => false,
        });
        for target in &targets {
            writer.declare_labels(*target, &wanted)?;
        }
        Ok(!targets.is_empty())
    }

    /// Declares the labels that rules add to targets, once.
    pub(super) fn declare_added_labels(&mut self, writer: &mut ArchiveWriter) -> Result<()> {
        if std::mem::replace(&mut self.labels_are_added, true) {
            return Ok(());
        }
        for target in self.rewrite.labels.added_targets() {
            let targets = self.label_targets(target);
            let new_numbers = match target {
                LabelTarget::Instances(indom) => self.new_numbers.get(&indom),
                _ => None,
            };
            let moves = LabelMoves { targets, new_numbers };
            for (target, sets) in self.rewrite.labels.add(target, &moves)? {
                writer.declare_labels(target, &sets)?;
            }
        }
        Ok(())
    }

    /// Returns whether the new archive has the owner of a text, which may have had another one.
    fn has_owner(&self, old: TextTarget, new: TextTarget) -> bool {
        match (old, new) {
            (TextTarget::Metric(old), TextTarget::Metric(new)) => {
                self.new_pmid(old) == Some(new)
                    || (old != new
                        && self.metrics.values().any(|kept| kept.metric.desc.pmid == new))
            }
            (TextTarget::InDom(old), TextTarget::InDom(new)) => {
                self.indoms.contains_key(&old) || (old != new && self.new_indoms.contains(&new))
            }
            _ => false,
        }
    }

    fn new_pmid(&self, pmid: Pmid) -> Option<Pmid> {
        let kept = self.metrics.get(&pmid).map(|kept| &kept.metric);
        kept.or_else(|| self.parameter(pmid)).map(|metric| metric.desc.pmid)
    }

    fn new_indom(&self, indom: InDom) -> Option<InDom> {
        self.indoms.contains_key(&indom).then(|| self.rewrite.target_of(indom))
    }

    /// Returns the targets of the labels in the new archive: none, or several clusters if the
    /// metrics of one were moved to several.
    fn label_targets(&self, target: LabelTarget) -> Vec<LabelTarget> {
        match target {
            LabelTarget::Context => vec![LabelTarget::Context],
            LabelTarget::Item(pmid) => {
                self.new_pmid(pmid).map(LabelTarget::Item).into_iter().collect()
            }
            LabelTarget::Domain(domain) => {
                self.domains.heirs(domain).iter().copied().map(LabelTarget::Domain).collect()
            }
            LabelTarget::Cluster { domain, cluster } => {
                let inherited = self.clusters.heirs((domain, cluster)).iter();
                inherited
                    .map(|&(domain, cluster)| LabelTarget::Cluster { domain, cluster })
                    .collect()
            }
            LabelTarget::InDom(indom) => {
                let new = self.new_indom(indom).map(LabelTarget::InDom);
                new.into_iter().collect()
            }
            LabelTarget::Instances(indom) => {
                let new = self.new_indom(indom).map(LabelTarget::Instances);
                new.into_iter().collect()
            }
        }
    }
}

/// Returns whether PCP's readers have room for a name.
fn has_room(name: &ByteText) -> bool {
    check_len(&name.to_bytes()).is_ok()
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

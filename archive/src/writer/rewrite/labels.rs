//! Changes of labels by the rules.
//!
//! A rule can move one label of a set elsewhere, so the labels of a target can come from several
//! targets of the old archive, which change at different times. For each target of the new archive
//! the newest labels from each of its origins are kept, and all are one state of the target.

use std::collections::BTreeMap;

use hashbrown::{HashMap, HashSet};

use super::grammar::{
    InstanceSelector, LabelClause, LabelRule, LabelSelector, MetricSelector, Positioned,
};
use super::indoms::{NewNumbers, identifying};
use super::values::renumbered;
use crate::error::rules::{RulePosition, RulesError};
use crate::{InDom, InstanceId, LabelSet, LabelTarget, Metadata, Result};

/// A label: its value as JSON, and its flags.
type LabelValue = (String, u8);

/// The labels of a target by instance and name.
type TargetLabels = BTreeMap<Option<InstanceId>, BTreeMap<String, LabelValue>>;

/// The origin of labels of the new archive. Those of a later origin override the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum LabelOrigin {
    Other(LabelTarget),
    Same,
    Rules,
}

/// The changes of labels.
#[derive(Debug, Default)]
pub(in crate::writer) struct LabelChanges {
    rules: Vec<LabelRule>,
    /// The metrics of rules that name one.
    names: HashMap<String, LabelTarget>,
    /// Names of instances in domains that rules name, with all their numbers.
    instances: HashMap<(InDom, String), Vec<InstanceId>>,
    /// Instance domains of the new archive.
    indoms: HashSet<InDom>,
    /// Labels that rules add, by the old target.
    new: BTreeMap<LabelTarget, TargetLabels>,
    states: BTreeMap<LabelTarget, BTreeMap<LabelOrigin, TargetLabels>>,
}

/// The destination of labels of the old archive.
pub(in crate::writer) struct LabelMoves<'m> {
    /// The targets of the labels for which no rule gives one.
    pub(in crate::writer) targets: Vec<LabelTarget>,
    pub(in crate::writer) new_numbers: Option<&'m NewNumbers>,
}

impl LabelChanges {
    pub(super) fn new(rules: &[LabelRule], metadata: &Metadata) -> Self {
        let mut changes = Self { rules: rules.to_vec(), ..Self::default() };
        for rule in rules {
            changes.note_names(rule, metadata);
            for clause in &rule.clauses {
                let LabelClause::New(name, value) = &clause.value else { continue };
                for (target, instances) in new_targets(rule, metadata) {
                    let class = target.class().bit();
                    let state = changes.new.entry(target).or_default();
                    for instance in instances {
                        let labels = state.entry(instance).or_default();
                        labels.insert(name.clone(), (value.clone(), class));
                    }
                }
            }
        }
        changes
    }

    fn note_names(&mut self, rule: &LabelRule, metadata: &Metadata) {
        if let LabelSelector::Item(MetricSelector::Name(name)) = &rule.target
            && let Some(metric) = metadata.metric_by_name(name)
        {
            self.names.insert(name.clone(), LabelTarget::Item(metric.desc.pmid));
        }
        let (LabelSelector::Instances(pattern), Some(InstanceSelector::Name(name))) =
            (&rule.target, &rule.instance)
        else {
            return;
        };
        for (indom, history) in metadata.indoms().filter(|(indom, _)| pattern.matches(*indom)) {
            let named = history.ever_named();
            let named = named.filter(|one| identifying(&one.name) == identifying(name));
            let numbers = named.map(|instance| instance.id).collect();
            self.instances.insert((indom, name.clone()), numbers);
        }
    }

    /// Sets the instance domains that the new archive has.
    pub(in crate::writer) fn set_indoms(&mut self, indoms: HashSet<InDom>) {
        self.indoms = indoms;
    }

    /// Returns whether no rule changes or adds labels.
    pub(in crate::writer) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Returns the targets that rules add labels to.
    pub(in crate::writer) fn added_targets(&self) -> Vec<LabelTarget> {
        self.new.keys().copied().collect()
    }

    /// Changes the labels that a target has from some time on, and returns the states of all
    /// targets of the new archive that change.
    ///
    /// # Errors
    ///
    /// Two clauses that change one label, and sets beyond the limits of the format.
    pub(in crate::writer) fn change(
        &mut self,
        target: LabelTarget,
        sets: &[LabelSet],
        moves: &LabelMoves<'_>,
    ) -> Result<Vec<(LabelTarget, Vec<LabelSet>)>> {
        let mut by_target: BTreeMap<LabelTarget, TargetLabels> = BTreeMap::new();
        for set in sets {
            if set.labels.is_empty()
                && let Ok(instance) = renumbered(set.instance, moves.new_numbers)
            {
                for target in &moves.targets {
                    by_target.entry(*target).or_default().entry(instance).or_default();
                }
            }
            for (name, value, flags) in set.pairs() {
                let mut draft = LabelDraft::default();
                for rule in self.rules.iter().filter(|rule| self.selects(rule, target)) {
                    if self.selects_label(rule, target, set.instance, name, value) {
                        draft.apply(rule, target, name)?;
                    }
                }
                if draft.deleted.is_some() {
                    continue;
                }
                let instance = match draft.instance {
                    Some(new) => Ok(Some(new.value)),
                    None => renumbered(set.instance, moves.new_numbers),
                };
                let Ok(instance) = instance else { continue };
                let name = draft.name.map_or_else(|| name.to_owned(), |new| new.value);
                let value = draft.value.map_or_else(|| value.to_owned(), |new| new.value);
                let targets = match draft.target {
                    Some(new) => vec![self.existing(new.position, new.value)?],
                    None => moves.targets.clone(),
                };
                for target in targets {
                    let labels = by_target.entry(target).or_default().entry(instance).or_default();
                    labels.insert(name.clone(), (value.clone(), flags));
                }
            }
        }
        let mut changed = self.replace_states(target, by_target, moves);
        self.add_new(target, moves, &mut changed);
        changed.sort_unstable();
        changed.dedup();
        let states = changed.into_iter().map(|target| Ok((target, self.merged(target)?)));
        states.collect()
    }

    /// Adds the labels of rules to a target that has had none of its own so far.
    pub(in crate::writer) fn add(
        &mut self,
        target: LabelTarget,
        moves: &LabelMoves<'_>,
    ) -> Result<Vec<(LabelTarget, Vec<LabelSet>)>> {
        let mut changed = Vec::new();
        self.add_new(target, moves, &mut changed);
        changed.into_iter().map(|target| Ok((target, self.merged(target)?))).collect()
    }

    fn add_new(
        &mut self,
        target: LabelTarget,
        moves: &LabelMoves<'_>,
        changed: &mut Vec<LabelTarget>,
    ) {
        let Some(new) = self.new.get(&target) else { return };
        let mut state = TargetLabels::new();
        for (instance, labels) in new {
            if let Ok(instance) = renumbered(*instance, moves.new_numbers) {
                state.entry(instance).or_default().extend(labels.clone());
            }
        }
        for target in &moves.targets {
            let origins = self.states.entry(*target).or_default();
            origins.insert(LabelOrigin::Rules, state.clone());
            changed.push(*target);
        }
    }

    /// Puts the labels from one origin in place of those before, and returns the targets that had
    /// or have any.
    fn replace_states(
        &mut self,
        origin: LabelTarget,
        by_target: BTreeMap<LabelTarget, TargetLabels>,
        moves: &LabelMoves<'_>,
    ) -> Vec<LabelTarget> {
        let origin_for = |target: LabelTarget| {
            let is_own = moves.targets.contains(&target);
            if is_own { LabelOrigin::Same } else { LabelOrigin::Other(origin) }
        };
        let mut changed = Vec::new();
        for (target, origins) in &mut self.states {
            if !by_target.contains_key(target) && origins.remove(&origin_for(*target)).is_some() {
                changed.push(*target);
            }
        }
        for (target, state) in by_target {
            self.states.entry(target).or_default().insert(origin_for(target), state);
            changed.push(target);
        }
        changed
    }

    /// Checks that the new archive has a target that a clause gives labels.
    fn existing(&self, at: &RulePosition, target: LabelTarget) -> Result<LabelTarget, RulesError> {
        match target {
            LabelTarget::InDom(indom) | LabelTarget::Instances(indom)
                if !self.indoms.contains(&indom) =>
            {
                let message = format!(
                    "the new archive has no instance domain {indom} that labels could belong to: \
                     move that of the labels by an indom rule"
                );
                Err(RulesError::new(at, message))
            }
            _ => Ok(target),
        }
    }

    fn merged(&self, target: LabelTarget) -> Result<Vec<LabelSet>> {
        let mut merged = TargetLabels::new();
        for state in self.states.get(&target).into_iter().flat_map(BTreeMap::values) {
            for (instance, labels) in state {
                merged.entry(*instance).or_default().extend(labels.clone());
            }
        }
        let mut sets = Vec::with_capacity(merged.len());
        for (instance, labels) in merged {
            let entries =
                labels.iter().map(|(name, (value, flags))| (name.as_str(), value.as_str(), *flags));
            let set = LabelSet::from_entries(entries)?;
            sets.push(LabelSet { instance, ..set });
        }
        Ok(sets)
    }

    fn selects(&self, rule: &LabelRule, target: LabelTarget) -> bool {
        match (&rule.target, target) {
            (LabelSelector::Context, LabelTarget::Context) => true,
            (LabelSelector::Domain(own), LabelTarget::Domain(domain)) => *own == domain,
            (LabelSelector::Cluster(own), LabelTarget::Cluster { domain, cluster }) => {
                own.domain == domain && own.cluster.is_none_or(|own| own == cluster)
            }
            (LabelSelector::Item(metrics), LabelTarget::Item(pmid)) => match metrics {
                MetricSelector::Pmids(own) => own.matches(pmid),
                MetricSelector::Name(name) | MetricSelector::Branch(name) => {
                    self.names.get(name) == Some(&target)
                }
            },
            (LabelSelector::Indom(own), LabelTarget::InDom(indom))
            | (LabelSelector::Instances(own), LabelTarget::Instances(indom)) => own.matches(indom),
            _ => false,
        }
    }

    fn selects_label(
        &self,
        rule: &LabelRule,
        target: LabelTarget,
        instance: Option<InstanceId>,
        name: &str,
        value: &str,
    ) -> bool {
        let is_of_instance = match &rule.instance {
            None => true,
            Some(InstanceSelector::Number(number)) => instance == Some(*number),
            Some(InstanceSelector::Name(own)) => {
                let LabelTarget::Instances(indom) = target else { return false };
                let numbers = self.instances.get(&(indom, own.clone()));
                instance.is_some_and(|id| numbers.is_some_and(|numbers| numbers.contains(&id)))
            }
        };
        is_of_instance
            && rule.name.as_ref().is_none_or(|own| own == name)
            && rule.value.as_ref().is_none_or(|own| own == value)
    }
}

/// The clauses for one label.
#[derive(Default)]
struct LabelDraft<'r> {
    deleted: Option<&'r RulePosition>,
    changed: Option<&'r RulePosition>,
    name: Option<Positioned<String, &'r RulePosition>>,
    value: Option<Positioned<String, &'r RulePosition>>,
    instance: Option<Positioned<InstanceId, &'r RulePosition>>,
    target: Option<Positioned<LabelTarget, &'r RulePosition>>,
}

impl<'r> LabelDraft<'r> {
    fn apply(&mut self, rule: &'r LabelRule, target: LabelTarget, label: &str) -> Result<()> {
        for Positioned { position: at, value: clause } in &rule.clauses {
            let first = match clause {
                LabelClause::New(..) => continue,
                LabelClause::Delete => self.changed,
                LabelClause::Name(new) => set(&mut self.name, at, new.clone()),
                LabelClause::Value(new) => set(&mut self.value, at, new.clone()),
                LabelClause::Instance(new) => set(&mut self.instance, at, *new),
                LabelClause::Domain(_)
                | LabelClause::Cluster(_)
                | LabelClause::Item(_)
                | LabelClause::Indom(_) => match new_target(clause, target) {
                    Some(new) => set(&mut self.target, at, new),
                    None => None,
                },
            };
            if let Some(first) = first.or(self.deleted) {
                return Err(
                    RulesError::conflict(at, first, &format!("label {label} of {target}")).into()
                );
            }
            match clause {
                LabelClause::Delete => self.deleted = Some(at),
                _ => self.changed = Some(at),
            }
        }
        Ok(())
    }
}

/// Sets what one clause may set, and returns the place of another clause that has set it.
fn set<'r, T>(
    setting: &mut Option<Positioned<T, &'r RulePosition>>,
    at: &'r RulePosition,
    value: T,
) -> Option<&'r RulePosition> {
    let first = setting.as_ref().map(|first| first.position);
    *setting = Some(Positioned { position: at, value });
    first
}

fn new_target(clause: &LabelClause, old: LabelTarget) -> Option<LabelTarget> {
    match (clause, old) {
        (LabelClause::Domain(new), LabelTarget::Domain(_)) => Some(LabelTarget::Domain(*new)),
        (LabelClause::Cluster(new), LabelTarget::Cluster { cluster, .. }) => {
            let cluster = new.cluster.unwrap_or(cluster);
            Some(LabelTarget::Cluster { domain: new.domain, cluster })
        }
        (LabelClause::Item(new), LabelTarget::Item(pmid)) => new.apply(pmid).map(LabelTarget::Item),
        (LabelClause::Indom(new), LabelTarget::InDom(indom)) => {
            new.apply(indom).map(LabelTarget::InDom)
        }
        (LabelClause::Indom(new), LabelTarget::Instances(indom)) => {
            new.apply(indom).map(LabelTarget::Instances)
        }
        _ => None,
    }
}

/// Returns the targets that a rule adds labels to, with their instances.
fn new_targets(
    rule: &LabelRule,
    metadata: &Metadata,
) -> Vec<(LabelTarget, Vec<Option<InstanceId>>)> {
    let pmids = metadata.metrics().iter().map(|metric| metric.desc.pmid);
    let mut targets: Vec<LabelTarget> = match &rule.target {
        LabelSelector::Context => vec![LabelTarget::Context],
        LabelSelector::Domain(domain) => pmids
            .filter(|pmid| pmid.domain() == *domain)
            .map(|pmid| LabelTarget::Domain(pmid.domain()))
            .collect(),
        LabelSelector::Cluster(pattern) => pmids
            .filter(|pmid| pattern.matches(*pmid))
            .map(|pmid| LabelTarget::Cluster { domain: pmid.domain(), cluster: pmid.cluster() })
            .collect(),
        LabelSelector::Item(metrics) => {
            pmids.filter(|pmid| metrics.selects(*pmid, metadata)).map(LabelTarget::Item).collect()
        }
        LabelSelector::Indom(pattern) => {
            let indoms = metadata.indoms().filter(|(indom, _)| pattern.matches(*indom));
            indoms.map(|(indom, _)| LabelTarget::InDom(indom)).collect()
        }
        LabelSelector::Instances(pattern) => {
            let indoms = metadata.indoms().filter(|(indom, _)| pattern.matches(*indom));
            return indoms
                .map(|(indom, history)| {
                    let all = history.union().into_iter();
                    let meant = all.filter(|instance| match &rule.instance {
                        None => true,
                        Some(InstanceSelector::Number(number)) => instance.id == *number,
                        Some(InstanceSelector::Name(name)) => {
                            identifying(&instance.name) == identifying(name)
                        }
                    });
                    let meant = meant.map(|instance| Some(instance.id)).collect();
                    (LabelTarget::Instances(indom), meant)
                })
                .collect();
        }
    };
    targets.sort_unstable();
    targets.dedup();
    targets.into_iter().map(|target| (target, vec![None])).collect()
}

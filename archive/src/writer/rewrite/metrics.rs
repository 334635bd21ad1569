//! Changes of metrics by the rules.

use std::sync::Arc;

use hashbrown::HashMap;

use super::grammar::{IndomPattern, MetricClause, MetricRule, MetricSelector, Output, Positioned};
use super::indoms::{IndomChange, identifying};
use super::replacement::Replacement;
use super::values::{Pick, ScaleChange, ValueChange};
use crate::error::rules::{RulePosition, RulesError};
use crate::format::desc::check_name;
use crate::{ByteText, Error, InDom, InstanceId, Metadata, Metric, Pmid, Result, Units, ValueType};

/// The bits of a unit's word that the physical unit has.
const EXTRA_BITS: u32 = 0xff;

/// The change of one metric.
#[derive(Debug)]
pub(in crate::writer) struct MetricChange {
    pub(in crate::writer) is_deleted: bool,
    /// With its names, PMID and descriptor in the new archive.
    pub(in crate::writer) metric: Metric,
    /// `None`: the values are copied.
    pub(in crate::writer) values: Option<Arc<ValueChange>>,
    /// The old domain whose changes of instances the metric follows.
    pub(in crate::writer) instances_of: Option<InDom>,
}

/// Finds what changes in each metric.
pub(super) fn change_metrics(
    rules: &[MetricRule],
    indoms: &HashMap<InDom, IndomChange>,
    metadata: &Metadata,
) -> Result<HashMap<Pmid, MetricChange>> {
    let mut drafts: HashMap<Pmid, Draft<'_>> = HashMap::new();
    for rule in rules {
        let mut is_used = false;
        for metric in selected(&rule.metrics, metadata) {
            is_used = true;
            let draft = drafts.entry(metric.desc.pmid).or_insert_with(|| Draft::new(metric));
            for Positioned { position, value: clause } in &rule.clauses {
                draft.apply(position, clause, &rule.metrics, metadata)?;
            }
        }
        if rule.is_required && !is_used {
            let (MetricSelector::Name(name) | MetricSelector::Branch(name)) = &rule.metrics else {
                continue;
            };
            return Err(Error::NoMetric { name: name.clone() });
        }
    }
    for metric in metadata.metrics() {
        let Some(old) = metric.desc.indom else { continue };
        if indoms.contains_key(&old) {
            drafts.entry(metric.desc.pmid).or_insert_with(|| Draft::new(metric));
        }
    }
    let mut changes = HashMap::with_capacity(drafts.len());
    for (pmid, draft) in drafts {
        changes.insert(pmid, draft.finish(indoms, metadata)?);
    }
    Ok(changes)
}

/// Returns the metrics that a rule is for.
fn selected<'m>(selector: &'m MetricSelector, metadata: &'m Metadata) -> Vec<&'m Metric> {
    match selector {
        MetricSelector::Name(name) => metadata.metric_by_name(name).into_iter().collect(),
        MetricSelector::Branch(name) => {
            let mut all: Vec<_> = metadata.subtree(name).map(|(_, metric)| metric).collect();
            all.sort_by_key(|metric| metric.desc.pmid);
            all.dedup_by_key(|metric| metric.desc.pmid);
            all
        }
        MetricSelector::Pmids(_) => {
            let all = metadata.metrics().iter();
            all.filter(|metric| selector.selects(metric.desc.pmid, metadata)).collect()
        }
    }
}

/// The clauses for one metric, as far as they change it.
struct Draft<'r> {
    old: &'r Metric,
    new: Metric,
    deleted: Option<&'r RulePosition>,
    /// The first clause that changes something, and the first of each kind.
    changed: Option<&'r RulePosition>,
    pmid: Option<&'r RulePosition>,
    value_type: Option<&'r RulePosition>,
    indom: Option<&'r RulePosition>,
    semantics: Option<&'r RulePosition>,
    units: Option<&'r RulePosition>,
    /// By their places among the names.
    names: HashMap<usize, &'r RulePosition>,
    output: Option<&'r Output>,
    rescales: bool,
    replacements: Vec<Replacement>,
}

impl<'r> Draft<'r> {
    fn new(metric: &'r Metric) -> Self {
        Self {
            old: metric,
            new: metric.clone(),
            deleted: None,
            changed: None,
            pmid: None,
            value_type: None,
            indom: None,
            semantics: None,
            units: None,
            names: HashMap::new(),
            output: None,
            rescales: false,
            replacements: Vec::new(),
        }
    }

    fn error(&self, at: &RulePosition, problem: &str) -> RulesError {
        RulesError::new(at, format!("metric {}: {problem}", self.old.display_name()))
    }

    /// Notes that a clause changes the metric, and what of it.
    fn change(
        &mut self,
        at: &'r RulePosition,
        what: &str,
        of_kind: impl Fn(&mut Self) -> &mut Option<&'r RulePosition>,
    ) -> Result<(), RulesError> {
        if let Some(first) = *of_kind(self) {
            return Err(RulesError::conflict(
                at,
                first,
                &format!("{what} of {}", self.old.display_name()),
            ));
        }
        if let Some(first) = self.deleted {
            return Err(RulesError::conflict(
                at,
                first,
                &format!("metric {}", self.old.display_name()),
            ));
        }
        *of_kind(self) = Some(at);
        self.changed.get_or_insert(at);
        Ok(())
    }

    fn apply(
        &mut self,
        at: &'r RulePosition,
        clause: &'r MetricClause,
        selector: &MetricSelector,
        metadata: &Metadata,
    ) -> Result<()> {
        let old = &self.old.desc;
        match clause {
            MetricClause::Delete => {
                if let Some(first) = self.changed {
                    let what = format!("metric {}", self.old.display_name());
                    return Err(RulesError::conflict(at, first, &what).into());
                }
                self.deleted = Some(at);
            }
            MetricClause::Name { new, may_be_taken } => {
                self.rename(at, new, *may_be_taken, selector, metadata)?;
            }
            MetricClause::Branch(new) => self.move_branch(at, new, selector)?,
            MetricClause::Pmid(new) => {
                let new = new.apply(old.pmid);
                let new = new.ok_or_else(|| self.error(at, "no such PMID"))?;
                if new != old.pmid {
                    self.change(at, "PMID", |draft| &mut draft.pmid)?;
                    self.new.desc.pmid = new;
                }
            }
            MetricClause::Type { only_if, new } => {
                let is_meant = only_if.is_none_or(|only_if| only_if == old.value_type);
                if is_meant && *new != old.value_type {
                    self.change_type(at, *new)?;
                }
            }
            MetricClause::Indom { new, output } => {
                self.change_indom(at, *new, output.as_ref())?;
            }
            MetricClause::Semantics(new) => {
                if *new != old.semantics {
                    self.change(at, "semantics", |draft| &mut draft.semantics)?;
                    self.new.desc.semantics = *new;
                }
            }
            MetricClause::Units { new, has_extra, rescale } => {
                let extra = old.units.raw() & EXTRA_BITS;
                let new = if *has_extra { *new } else { Units::from_raw(new.raw() | extra) };
                if new != old.units {
                    self.rescales = *rescale && has_dimensions_of(old.units, new);
                    self.change(at, "units", |draft| &mut draft.units)?;
                    self.new.desc.units = new;
                }
            }
            MetricClause::Value(replacement) => {
                let is_text = old.value_type == ValueType::String;
                if !is_text && matches!(selector, MetricSelector::Name(_)) {
                    let problem = format!("values of type {} are not text", old.value_type);
                    return Err(self.error(at, &problem).into());
                }
                if is_text {
                    if let Some(first) = self.deleted {
                        let what = format!("metric {}", self.old.display_name());
                        return Err(RulesError::conflict(at, first, &what).into());
                    }
                    self.changed.get_or_insert(at);
                    self.replacements.push(replacement.clone());
                }
            }
        }
        Ok(())
    }

    fn rename(
        &mut self,
        at: &'r RulePosition,
        new: &str,
        may_be_taken: bool,
        selector: &MetricSelector,
        metadata: &Metadata,
    ) -> Result<(), RulesError> {
        let place = match selector {
            MetricSelector::Name(name) => {
                self.old.names.iter().position(|own| own == name.as_str())
            }
            _ => Some(0),
        };
        let Some((place, old)) = place.and_then(|at| Some((at, self.old.names.get(at)?))) else {
            return Err(self.error(at, "it has no name that could change"));
        };
        if old == new {
            return Ok(());
        }
        check_name(new).map_err(|error| RulesError::new(at, error.to_string()))?;
        if let Some(owner) = metadata.metric_by_name(new).filter(|_| !may_be_taken) {
            let owner = owner.desc.pmid;
            let problem = format!(
                "metric {owner} is called {new}: choose another name, or add dupok if that metric \
                 gets another"
            );
            return Err(self.error(at, &problem));
        }
        self.change_name(at, place, ByteText::from(new))
    }

    fn move_branch(
        &mut self,
        at: &'r RulePosition,
        new: &str,
        selector: &MetricSelector,
    ) -> Result<()> {
        check_name(new)?;
        let MetricSelector::Branch(branch) = selector else { return Ok(()) };
        for (place, name) in self.old.names.iter().enumerate() {
            let rest = name.strip_prefix(branch.as_str());
            let rest = rest.filter(|rest| rest.is_empty() || rest.starts_with('.'));
            if let Some(rest) = rest.filter(|_| !self.names.contains_key(&place)) {
                let moved = ByteText::from_escaped(&format!("{new}{rest}"));
                self.change_name(at, place, moved)?;
            }
        }
        Ok(())
    }

    fn change_name(
        &mut self,
        at: &'r RulePosition,
        place: usize,
        new: ByteText,
    ) -> Result<(), RulesError> {
        let first = self.names.insert(place, at).or(self.deleted);
        if let Some(first) = first {
            return Err(RulesError::conflict(
                at,
                first,
                &format!("name of {}", self.old.display_name()),
            ));
        }
        self.changed.get_or_insert(at);
        if let Some(name) = self.new.names.get_mut(place) {
            *name = new;
        }
        Ok(())
    }

    fn change_type(&mut self, at: &'r RulePosition, new: ValueType) -> Result<(), RulesError> {
        let old = self.old.desc.value_type;
        if !old.is_numeric() {
            let problem = format!("its type {old} is not numeric and cannot become {new}");
            return Err(self.error(at, &problem));
        }
        self.change(at, "type", |draft| &mut draft.value_type)?;
        self.new.desc.value_type = new;
        Ok(())
    }

    fn change_indom(
        &mut self,
        at: &'r RulePosition,
        new: Option<IndomPattern>,
        output: Option<&'r Output>,
    ) -> Result<(), RulesError> {
        let old = &self.old.desc;
        let new = match (new, old.indom) {
            (None, _) => None,
            (Some(IndomPattern { domain, serial: Some(serial) }), _) => {
                InDom::new(domain, serial).ok()
            }
            (Some(pattern), Some(old)) => pattern.apply(old),
            (Some(_), None) => {
                return Err(self.error(at, "it has no instance domain that a star could stand for"));
            }
        };
        if new == old.indom {
            return Ok(());
        }
        let needs_numbers =
            matches!(output, Some(Output::Min | Output::Max | Output::Sum | Output::Average));
        if needs_numbers && !old.value_type.is_numeric() {
            let problem =
                format!("min, max, sum and avg need numbers, not values of {}", old.value_type);
            return Err(self.error(at, &problem));
        }
        self.change(at, "instance domain", |draft| &mut draft.indom)?;
        self.new.desc.indom = new;
        self.output = output;
        Ok(())
    }

    fn finish(
        mut self,
        indoms: &HashMap<InDom, IndomChange>,
        metadata: &Metadata,
    ) -> Result<MetricChange> {
        self.follow_indom(indoms)?;
        self.check_indom(indoms, metadata)?;
        let values = self.value_change(metadata)?;
        let changes = |indom: &InDom| indoms.get(indom).is_some_and(IndomChange::changes_instances);
        let source = self.new.desc.indom.and_then(|new| {
            let sources = indoms.iter().filter(|(_, change)| change.target == new);
            sources.map(|(old, _)| *old).min()
        });
        let instances_of = self.old.desc.indom.filter(changes).or_else(|| source.filter(changes));
        Ok(MetricChange {
            is_deleted: self.deleted.is_some(),
            metric: self.new,
            values,
            instances_of,
        })
    }

    /// Moves the metric where its domain is moved to.
    fn follow_indom(&mut self, indoms: &HashMap<InDom, IndomChange>) -> Result<(), RulesError> {
        let Some(old) = self.old.desc.indom else { return Ok(()) };
        let Some((change, moved)) =
            indoms.get(&old).and_then(|change| Some((change, change.moved.as_ref()?)))
        else {
            return Ok(());
        };
        if change.target == old {
            return Ok(());
        }
        match self.indom {
            Some(_) if self.new.desc.indom == Some(change.target) => Ok(()),
            Some(at) => {
                let new = self.new.desc.indom;
                let new = new.map_or_else(|| "null".to_owned(), |new| new.to_string());
                let problem = format!(
                    "its instance domain becomes {new}, but {moved} makes it {}: remove one of \
                     the two clauses",
                    change.target
                );
                Err(self.error(at, &problem))
            }
            None => {
                self.new.desc.indom = Some(change.target);
                Ok(())
            }
        }
    }

    /// Checks that the new archive has the instance domain.
    fn check_indom(
        &self,
        indoms: &HashMap<InDom, IndomChange>,
        metadata: &Metadata,
    ) -> Result<(), RulesError> {
        let Some((at, new)) = self.indom.zip(self.new.desc.indom) else { return Ok(()) };
        let is_target = indoms.values().any(|change| change.target == new);
        let stays = metadata.indom_history(new).is_some()
            && indoms.get(&new).is_none_or(|change| change.target == new || change.is_duplicated);
        if is_target || stays {
            return Ok(());
        }
        let problem = format!(
            "the new archive has no instance domain {new}: make one by a rule such as \
             \"indom 70.1 {{ indom -> duplicate {new} }}\""
        );
        Err(self.error(at, &problem))
    }

    fn value_change(&self, metadata: &Metadata) -> Result<Option<Arc<ValueChange>>> {
        let old = self.old.desc;
        let new = self.new.desc;
        let scaling = match self.units.filter(|_| self.rescales) {
            None => None,
            Some(at) => {
                let scaling = ScaleChange::new(old.units, new.units);
                let problem = format!("no conversion from {} to {}", old.units, new.units);
                Some(scaling.ok_or_else(|| self.error(at, &problem))?)
            }
        };
        let gains_instances = old.indom.is_none() && new.indom.is_some();
        let pick = self.pick(metadata);
        let instance = gains_instances.then(|| self.output_instance(metadata)).flatten();
        let change = ValueChange {
            old,
            name: self.old.display_name(),
            at: self.value_type.or(self.units).cloned(),
            pick,
            instance,
            loses_instances: old.indom.is_some() && new.indom.is_none(),
            replacements: self.replacements.clone(),
            scaling,
            new_type: new.value_type,
        };
        Ok((!change.is_nothing()).then(|| Arc::new(change)))
    }

    /// Returns the value that is taken of those of the instances.
    fn pick(&self, metadata: &Metadata) -> Option<Pick> {
        let old = self.old.desc.indom?;
        let Some(output) = self.output else {
            return self.new.desc.indom.is_none().then_some(Pick::First);
        };
        Some(match output {
            Output::First => Pick::First,
            Output::Last => Pick::Last,
            Output::Min => Pick::Min,
            Output::Max => Pick::Max,
            Output::Sum => Pick::Sum,
            Output::Average => Pick::Average,
            Output::Instance(id) => Pick::Instance(Some(*id)),
            Output::Named(name) => Pick::Instance(number_of(name, old, metadata)),
        })
    }

    /// Returns the instance of the only value of a metric that had none: 0 if not chosen.
    fn output_instance(&self, metadata: &Metadata) -> Option<InstanceId> {
        let chosen = match self.output {
            Some(Output::Instance(id)) => Some(*id),
            Some(Output::Named(name)) => {
                self.new.desc.indom.and_then(|new| number_of(name, new, metadata))
            }
            _ => None,
        };
        chosen.or_else(|| InstanceId::new(0).ok())
    }
}

/// Returns the number of an instance that a domain ever had.
fn number_of(name: &str, indom: InDom, metadata: &Metadata) -> Option<InstanceId> {
    let all = metadata.indom_history(indom)?.union();
    let found = all.iter().find(|one| identifying(&one.name) == identifying(name));
    found.map(|instance| instance.id)
}

fn has_dimensions_of(old: Units, new: Units) -> bool {
    old.space_dimension() == new.space_dimension()
        && old.time_dimension() == new.time_dimension()
        && old.count_dimension() == new.count_dimension()
}

//! Changes of one archive by the rules.

use hashbrown::HashMap;

use super::grammar::{Positioned, Rules, TextClause, TextSelector};
use super::indoms::{IndomChange, change_indoms};
use super::labels::LabelChanges;
use super::metrics::{MetricChange, change_metrics};
use crate::error::rules::{RulePosition, RulesError};
use crate::{ByteText, InDom, Metadata, Pmid, Result, TextKind, TextTarget, Timestamp};

type TextKey = (TextTarget, TextKind);

/// The changes of one archive.
#[derive(Debug, Default)]
pub(in crate::writer) struct Rewrite {
    /// Nanoseconds that are added to all times.
    shift: i128,
    metrics: HashMap<Pmid, MetricChange>,
    indoms: HashMap<InDom, IndomChange>,
    /// Help texts that are deleted or changed.
    texts: HashMap<TextKey, Option<(TextTarget, ByteText)>>,
    pub(in crate::writer) labels: LabelChanges,
}

impl Rewrite {
    /// Finds what rules change.
    ///
    /// # Errors
    ///
    /// Clauses that contradict each other or the archive;
    /// [`Error::NoMetric`](crate::Error::NoMetric) for a metric that an option names.
    pub(in crate::writer) fn new(rules: &Rules, metadata: &Metadata) -> Result<Self> {
        let indoms = change_indoms(&rules.indoms, metadata)?;
        let metrics = change_metrics(&rules.metrics, &indoms, metadata)?;
        let mut rewrite = Self { metrics, indoms, ..Self::default() };
        rewrite.shift = rules.global.shift.as_ref().map_or(0, |shift| shift.value);
        rewrite.texts = rewrite.change_texts(rules, metadata)?;
        rewrite.labels = LabelChanges::new(&rules.labels, metadata);
        Ok(rewrite)
    }

    /// Returns a time of the archive as it becomes.
    pub(in crate::writer) fn shifted(&self, time: Timestamp) -> Timestamp {
        match self.shift {
            0 => time,
            shift => Timestamp::from_nanos(time.as_nanos().saturating_add(shift)),
        }
    }

    /// Returns the time of the archive that becomes this one.
    pub(in crate::writer) fn unshifted(&self, time: Timestamp) -> Timestamp {
        match self.shift {
            0 => time,
            shift => Timestamp::from_nanos(time.as_nanos().saturating_sub(shift)),
        }
    }

    /// Returns the change of a metric; `None` if nothing of it changes.
    pub(in crate::writer) fn metric(&self, pmid: Pmid) -> Option<&MetricChange> {
        self.metrics.get(&pmid)
    }

    /// Returns the change of an instance domain.
    pub(in crate::writer) fn indom(&self, indom: InDom) -> Option<&IndomChange> {
        self.indoms.get(&indom)
    }

    /// Returns the domain that has the instances of another domain of the new archive.
    pub(in crate::writer) fn source_of(&self, new: InDom, metadata: &Metadata) -> InDom {
        if metadata.indom_history(new).is_some() && self.target_of(new) == new {
            return new;
        }
        let sources = self.indoms.iter().filter(|(_, change)| change.target == new);
        sources.map(|(old, _)| *old).min().unwrap_or(new)
    }

    /// Returns what an instance domain becomes.
    pub(in crate::writer) fn target_of(&self, old: InDom) -> InDom {
        self.indoms.get(&old).map_or(old, |change| change.target)
    }

    /// Returns a help text and its owner as they become; `None` if it is deleted.
    pub(in crate::writer) fn text<'t>(
        &'t self,
        target: TextTarget,
        kind: TextKind,
        text: &'t ByteText,
    ) -> Option<(TextTarget, &'t ByteText)> {
        match self.texts.get(&(target, kind)) {
            None => Some((target, text)),
            Some(changed) => changed.as_ref().map(|(target, text)| (*target, text)),
        }
    }

    fn followed(&self, target: TextTarget) -> TextTarget {
        match target {
            TextTarget::Metric(pmid) => {
                let change = self.metrics.get(&pmid);
                TextTarget::Metric(change.map_or(pmid, |change| change.metric.desc.pmid))
            }
            TextTarget::InDom(indom) => TextTarget::InDom(self.target_of(indom)),
        }
    }

    fn change_texts(
        &self,
        rules: &Rules,
        metadata: &Metadata,
    ) -> Result<HashMap<TextKey, Option<(TextTarget, ByteText)>>> {
        let mut changes = HashMap::new();
        let mut owners: HashMap<TextKey, TextTarget> = HashMap::new();
        let mut moved_by: HashMap<TextTarget, RulePosition> = HashMap::new();
        for (target, kind, text) in metadata.texts() {
            let mut draft = TextDraft::default();
            for rule in &rules.texts {
                let is_of_content = rule
                    .content
                    .as_ref()
                    .is_none_or(|content| *text.to_bytes() == *content.as_bytes());
                if rule.kinds.contains(&kind)
                    && is_of_content
                    && selects(&rule.target, target, metadata)
                {
                    for Positioned { position, value: clause } in &rule.clauses {
                        draft.apply(position, clause, target)?;
                    }
                }
            }
            if draft.deleted.is_some() {
                changes.insert((target, kind), None);
                continue;
            }
            let new_target = draft.target.as_ref().map_or(self.followed(target), |new| new.value);
            if let Some(other) = owners.insert((new_target, kind), target) {
                let at = draft.target.as_ref().map(|new| &new.position).or(moved_by.get(&other));
                let message = format!(
                    "the help texts of {} and {} both become that of {}: delete one of them",
                    shown(other),
                    shown(target),
                    shown(new_target)
                );
                match at {
                    Some(at) => return Err(RulesError::new(at, message).into()),
                    // Metrics or domains that become one are an error of their own.
                    None => continue,
                }
            }
            if let Some(new) = &draft.target {
                moved_by.insert(target, new.position.clone());
            }
            let new_text = draft.text.map_or_else(|| text.clone(), |new| new.value);
            if new_target != target || new_text != *text {
                changes.insert((target, kind), Some((new_target, new_text)));
            }
        }
        Ok(changes)
    }
}

/// The clauses for one help text.
#[derive(Default)]
struct TextDraft {
    deleted: Option<RulePosition>,
    text: Option<Positioned<ByteText>>,
    target: Option<Positioned<TextTarget>>,
}

impl TextDraft {
    fn apply(
        &mut self,
        at: &RulePosition,
        clause: &TextClause,
        target: TextTarget,
    ) -> Result<(), RulesError> {
        let changed = self.text.as_ref().map(|first| &first.position);
        let moved = self.target.as_ref().map(|first| &first.position);
        let first = match clause {
            TextClause::Delete => changed.or(moved),
            TextClause::Text(_) => self.deleted.as_ref().or(changed),
            TextClause::Metric(_) | TextClause::Indom(_) => self.deleted.as_ref().or(moved),
        };
        if let Some(first) = first {
            return Err(RulesError::conflict(
                at,
                first,
                &format!("the help text of {}", shown(target)),
            ));
        }
        match clause {
            TextClause::Delete => self.deleted = Some(at.clone()),
            TextClause::Text(text) => {
                let value = ByteText::from(text.as_str());
                self.text = Some(Positioned { position: at.clone(), value });
            }
            TextClause::Metric(_) | TextClause::Indom(_) => {
                let new = new_text_target(clause, target);
                let new = new.ok_or_else(|| RulesError::new(at, "no such metric or domain"))?;
                self.target = Some(Positioned { position: at.clone(), value: new });
            }
        }
        Ok(())
    }
}

fn new_text_target(clause: &TextClause, target: TextTarget) -> Option<TextTarget> {
    match (clause, target) {
        (TextClause::Metric(new), TextTarget::Metric(old)) => {
            new.apply(old).map(TextTarget::Metric)
        }
        (TextClause::Indom(new), TextTarget::InDom(old)) => new.apply(old).map(TextTarget::InDom),
        _ => None,
    }
}

fn selects(selector: &TextSelector, target: TextTarget, metadata: &Metadata) -> bool {
    match (selector, target) {
        (TextSelector::Metric(metrics), TextTarget::Metric(pmid)) => {
            metrics.selects(pmid, metadata)
        }
        (TextSelector::Indom(indoms), TextTarget::InDom(indom)) => indoms.matches(indom),
        _ => false,
    }
}

fn shown(target: TextTarget) -> String {
    match target {
        TextTarget::Metric(pmid) => format!("metric {pmid}"),
        TextTarget::InDom(indom) => format!("instance domain {indom}"),
    }
}

//! Changes of instance domains by the rules.
//!
//! Instances are found by their number or their name in each state of a domain, so that a number
//! that has another name later is changed only while it has the name of the rule.

use hashbrown::HashMap;

use super::grammar::{IndomClause, IndomRule, Positioned};
use super::replacement::Replacement;
use crate::error::rules::{RulePosition, RulesError};
use crate::{ByteText, InDom, Instance, InstanceId, Metadata};

/// The new number of each instance that does not keep its number; `None` for deleted ones.
pub(in crate::writer) type NewNumbers = HashMap<InstanceId, Option<InstanceId>>;

/// The change of one instance domain.
#[derive(Debug)]
pub(in crate::writer) struct IndomChange {
    /// The domain that it becomes.
    pub(in crate::writer) target: InDom,
    /// It also stays as it is.
    pub(in crate::writer) is_duplicated: bool,
    /// The clause that moves it.
    pub(super) moved: Option<RulePosition>,
    old: InDom,
    numbers: HashMap<InstanceId, Positioned<Option<InstanceId>>>,
    /// By the part of the name before the first blank, which identifies an instance.
    names: HashMap<String, Positioned<Option<String>>>,
    all_names: Option<Positioned<AllNames>>,
}

/// A change of every name.
#[derive(Debug, Clone)]
enum AllNames {
    Replaced(Replacement),
    Redacted,
}

/// Finds what changes in each domain that a rule is for.
pub(super) fn change_indoms(
    rules: &[IndomRule],
    metadata: &Metadata,
) -> Result<HashMap<InDom, IndomChange>, RulesError> {
    let mut changes: HashMap<InDom, IndomChange> = HashMap::new();
    for rule in rules {
        for (indom, _) in metadata.indoms().filter(|(indom, _)| rule.indoms.matches(*indom)) {
            let change = changes.entry(indom).or_insert_with(|| IndomChange::new(indom));
            for Positioned { position, value: clause } in &rule.clauses {
                change.add(position, clause)?;
            }
        }
    }
    check_targets(&changes, metadata)?;
    Ok(changes)
}

/// Checks that no two domains become one.
fn check_targets(
    changes: &HashMap<InDom, IndomChange>,
    metadata: &Metadata,
) -> Result<(), RulesError> {
    let mut owners: HashMap<InDom, InDom> = HashMap::new();
    for (old, _) in metadata.indoms() {
        let change = changes.get(&old);
        let target = change.map_or(old, |change| change.target);
        let is_duplicated = change.is_some_and(|change| change.is_duplicated && target != old);
        for new in [Some(target), is_duplicated.then_some(old)].into_iter().flatten() {
            let Some(other) = owners.insert(new, old) else { continue };
            let moved = [other, old].into_iter().filter_map(|indom| changes.get(&indom));
            let Some(at) = moved.filter_map(|change| change.moved.as_ref()).next_back() else {
                continue;
            };
            let message = format!(
                "the instance domains {other} and {old} both become {new}: choose another number \
                 for one of them"
            );
            return Err(RulesError::new(at, message));
        }
    }
    Ok(())
}

impl IndomChange {
    fn new(old: InDom) -> Self {
        Self {
            target: old,
            is_duplicated: false,
            moved: None,
            old,
            numbers: HashMap::new(),
            names: HashMap::new(),
            all_names: None,
        }
    }

    fn add(&mut self, at: &RulePosition, clause: &IndomClause) -> Result<(), RulesError> {
        match clause {
            IndomClause::Indom { new, is_duplicate } => {
                let first = self.moved.as_ref().filter(|_| self.target != self.old);
                if let Some(first) = first {
                    return Err(RulesError::conflict(
                        at,
                        first,
                        &format!("instance domain {}", self.old),
                    ));
                }
                let target = new.apply(self.old);
                self.target = target.ok_or_else(|| RulesError::new(at, "no such domain"))?;
                self.is_duplicated = *is_duplicate;
                self.moved = Some(at.clone());
            }
            IndomClause::Number { old, new } => {
                if let Some(first) = self.numbers.get(old) {
                    let what = format!("instance {old} of domain {}", self.old);
                    return Err(RulesError::conflict(at, &first.position, &what));
                }
                self.numbers.insert(*old, Positioned { position: at.clone(), value: *new });
            }
            IndomClause::Name { old, new } => {
                let key = identifying(old).to_owned();
                let all = self.all_names.as_ref().map(|first| &first.position);
                let known = self.names.get(&key).map(|first| &first.position);
                if let Some(first) = known.or(all) {
                    let what = format!("instance \"{old}\" of domain {}", self.old);
                    return Err(RulesError::conflict(at, first, &what));
                }
                self.names.insert(key, Positioned { position: at.clone(), value: new.clone() });
            }
            IndomClause::Replace(replacement) => {
                self.change_all(at, AllNames::Replaced(replacement.clone()))?;
            }
            IndomClause::Redact => self.change_all(at, AllNames::Redacted)?,
        }
        Ok(())
    }

    fn change_all(&mut self, at: &RulePosition, change: AllNames) -> Result<(), RulesError> {
        let named = self.names.values().map(|first| &first.position).next();
        let all = self.all_names.as_ref().map(|first| &first.position);
        if let Some(first) = all.or(named) {
            return Err(RulesError::conflict(at, first, &format!("names of domain {}", self.old)));
        }
        self.all_names = Some(Positioned { position: at.clone(), value: change });
        Ok(())
    }

    /// Returns whether any instance can change.
    pub(in crate::writer) fn changes_instances(&self) -> bool {
        !self.numbers.is_empty() || !self.names.is_empty() || self.all_names.is_some()
    }

    /// Returns the numbers that change whatever their names are.
    pub(in crate::writer) fn numbers(&self) -> NewNumbers {
        self.numbers.iter().map(|(old, new)| (*old, new.value)).collect()
    }

    /// Returns the instances of a state as they become, and the numbers that change.
    ///
    /// # Errors
    ///
    /// Two instances that get one number or one name.
    pub(in crate::writer) fn apply(
        &self,
        instances: &[Instance],
    ) -> Result<(Vec<Instance>, NewNumbers), RulesError> {
        let mut changed = Vec::with_capacity(instances.len());
        let mut new_numbers = self.numbers();
        let mut owners = Owners::new(self.old);
        for instance in instances {
            let of_number = self.numbers.get(&instance.id);
            let of_name = self.names.get(identifying(&instance.name));
            let is_deleted = of_number.is_some_and(|new| new.value.is_none())
                || of_name.is_some_and(|new| new.value.is_none());
            if is_deleted {
                if let Some((second, first)) = of_name.zip(of_number) {
                    let what = format!("instance \"{}\" of domain {}", instance.name, self.old);
                    let error = RulesError::conflict(&second.position, &first.position, &what);
                    return Err(error);
                }
                new_numbers.insert(instance.id, None);
                continue;
            }
            let id = of_number.and_then(|new| new.value).unwrap_or(instance.id);
            let (named_at, name) = self.new_name(instance);
            let at = of_number.map(|new| &new.position).or(named_at);
            let new = Instance { id, name };
            owners.add(at, instance, &new)?;
            changed.push(new);
        }
        changed.sort_unstable();
        Ok((changed, new_numbers))
    }

    fn new_name(&self, instance: &Instance) -> (Option<&RulePosition>, ByteText) {
        if let Some(Positioned { position, value: Some(new) }) =
            self.names.get(identifying(&instance.name))
        {
            return (Some(position), ByteText::from(new.as_str()));
        }
        let Some(all_names) = &self.all_names else { return (None, instance.name.clone()) };
        let new = match &all_names.value {
            AllNames::Redacted => Some(format!("{} [redacted]", instance.id)),
            AllNames::Replaced(replacement) => replacement.apply(&instance.name),
        };
        match new {
            Some(new) => (Some(&all_names.position), ByteText::from_escaped(&new)),
            None => (None, instance.name.clone()),
        }
    }
}

/// The instances of one state that have their new numbers and names.
struct Owners<'i> {
    indom: InDom,
    numbers: HashMap<InstanceId, Owner<'i>>,
    names: HashMap<String, Owner<'i>>,
}

/// The instance that gets a number or a name, and the clause that gives it, if any.
#[derive(Clone, Copy)]
struct Owner<'i> {
    position: Option<&'i RulePosition>,
    instance: &'i Instance,
}

impl<'i> Owners<'i> {
    fn new(indom: InDom) -> Self {
        Self { indom, numbers: HashMap::new(), names: HashMap::new() }
    }

    fn add(
        &mut self,
        at: Option<&'i RulePosition>,
        old: &'i Instance,
        new: &Instance,
    ) -> Result<(), RulesError> {
        let name = identifying(&new.name).to_owned();
        let owner = Owner { position: at, instance: old };
        let of_number = self.numbers.insert(new.id, owner);
        let of_name = self.names.insert(name, owner);
        let (other, what) = match (of_number, of_name) {
            (Some(other), _) => (other, format!("number {}", new.id)),
            (None, Some(other)) => (other, format!("name \"{}\"", identifying(&new.name))),
            (None, None) => return Ok(()),
        };
        // What the archive has twice without a rule is copied.
        let Some(at) = at.or(other.position) else { return Ok(()) };
        let other = other.instance;
        let message = format!(
            "the instances {} \"{}\" and {} \"{}\" of domain {} both get the {what}: choose \
             another for one of them",
            other.id, other.name, old.id, old.name, self.indom
        );
        Err(RulesError::new(at, message))
    }
}

/// Returns the part of a name that identifies an instance: up to the first blank.
pub(super) fn identifying(name: &str) -> &str {
    name.split(' ').next().unwrap_or(name)
}

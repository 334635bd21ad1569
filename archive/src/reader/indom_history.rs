//! An instance domain over time.
//!
//! A domain of a hundred thousand instances that changes every second has
//! states without end, and nearly all of each is in the one before. Therefore
//! only what changes is kept, and the whole domain as often as that costs no
//! more: whenever as many changes have gathered as there are instances. A
//! history takes memory in proportion to its records, and any state is put
//! together in proportion to its size.
//!
//! Records are checked when an archive is opened. Names and states are built from them when they
//! are first asked for: most questions are about other domains.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::mem;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use hashbrown::{HashMap, HashSet};

use super::InstanceChange;
use super::identities::Identities;
use super::indom_step::IndomStep;
use crate::format::IndomRecordKind;
use crate::format::indom::{BorrowedIndomRecord, OwnedIndomRecord};
use crate::{ByteText, IndomCursor, Instance, InstanceId, Timestamp};

/// The instances of a domain from one time to the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndomState {
    /// The time from which they hold.
    pub timestamp: Timestamp,
    /// All instances, sorted by number. Empty after a difference that removed
    /// the last one.
    pub instances: Vec<Instance>,
}

/// All states of an instance domain, rising in time.
///
/// Differences are resolved against the state that precedes in time, as
/// `__pmLogUndeltaInDom` does: an instance that a difference names again keeps
/// its name, an unknown one that it removes does not matter, and a difference
/// with nothing before it counts as the whole domain. Full records without
/// instances are ignored, as in PCP. Of two records with one time the later in
/// the file holds.
#[derive(Debug, Clone, Default)]
pub struct IndomHistory {
    /// Its records in each archive, in the order of time.
    archives: Vec<Arc<ArchiveDomain>>,
    /// The steps of several archives, once they are asked for.
    joined: OnceLock<Vec<IndomStep>>,
    /// Once identities are asked for; `None` if they are the numbers.
    renumbered: OnceLock<Option<Arc<RenumberedDomain>>>,
}

/// A domain in the metadata of one archive.
#[derive(Debug)]
struct ArchiveDomain {
    /// In file order, until steps are asked for.
    records: Mutex<Vec<OwnedIndomRecord>>,
    steps: OnceLock<Vec<IndomStep>>,
}

/// A domain in which numbers change their names, with a number for each name.
#[derive(Debug)]
struct RenumberedDomain {
    identities: Arc<Identities>,
    history: IndomHistory,
}

impl IndomHistory {
    /// Returns all states in order, each built when the iterator reaches it; at least one in an
    /// archive's metadata.
    pub fn states(&self) -> impl ExactSizeIterator<Item = IndomState> {
        let mut cursor = self.cursor();
        self.steps().iter().enumerate().map(move |(at, step)| {
            cursor.apply(at + 1);
            IndomState { timestamp: step.timestamp, instances: cursor.instances().into_owned() }
        })
    }

    /// Returns a cursor before the first state.
    pub fn cursor(&self) -> IndomCursor<'_> {
        IndomCursor::new(self.steps())
    }

    /// Returns the instances at a time; `None` before the first state.
    pub fn instances_at(&self, time: Timestamp) -> Option<Cow<'_, [Instance]>> {
        let mut cursor = self.cursor();
        cursor.move_to(time).then(|| cursor.instances())
    }

    /// Returns every instance that was ever in the domain, sorted by number, with its newest name
    /// (`pmGetInDomArchive`).
    pub fn union(&self) -> Vec<Instance> {
        let mut newest: HashMap<InstanceId, &ByteText> = HashMap::new();
        for step in self.steps().iter().rev() {
            for instance in step.change.named() {
                newest.entry(instance.id).or_insert(&instance.name);
            }
        }
        let all = newest.into_iter();
        let mut all: Vec<_> = all.map(|(id, name)| Instance { id, name: name.clone() }).collect();
        all.sort_unstable_by_key(|instance| instance.id);
        all
    }

    /// Returns the newest name of an instance at a time or, if it is not in the domain then, at
    /// any time.
    pub fn name_at(&self, id: InstanceId, time: Timestamp) -> Option<&str> {
        let mut cursor = self.cursor();
        cursor.move_to(time);
        cursor.name(id).or_else(|| self.steps().iter().rev().find_map(|step| step.change.name(id)))
    }

    /// Returns the same instances with a number for each *name*, its identity: one that keeps it
    /// at all times, whatever numbers the records have for the name. It is what scans, replays
    /// and summaries call an instance. For most domains it is the number in the records.
    #[must_use]
    pub fn by_identity(&self) -> &Self {
        self.renumbered().map_or(self, |renumbered| &renumbered.history)
    }

    /// Returns whether each number has one name at all times, and each name one number, so that
    /// identities are the numbers.
    pub fn has_constant_numbers(&self) -> bool {
        self.identities().is_none()
    }

    /// Returns the [identity](Self::by_identity) that the number in a record has at the time of
    /// the record: that of its name then or, if it is not in the domain then, of the name that it
    /// had before. `None` for some numbers that are never in the domain.
    pub fn identity_at(&self, number: InstanceId, time: Timestamp) -> Option<InstanceId> {
        self.identities().map_or(Some(number), |identities| identities.identity(number, time))
    }

    /// Returns the number that an [identity](Self::by_identity) has in records at a time, or had
    /// before; `None` for one that the domain does not have.
    pub fn number_at(&self, identity: InstanceId, time: Timestamp) -> Option<InstanceId> {
        self.identities().map_or(Some(identity), |identities| identities.number_at(identity, time))
    }

    pub(crate) fn identities_of(&self, number: InstanceId) -> impl Iterator<Item = InstanceId> {
        let itself = self.has_constant_numbers().then_some(number);
        let ever = self.identities().into_iter().flat_map(move |all| all.ever(number));
        itself.into_iter().chain(ever)
    }

    /// Returns the identities of the numbers; `None` if they are the same.
    pub(crate) fn identities(&self) -> Option<&Arc<Identities>> {
        self.renumbered().map(|renumbered| &renumbered.identities)
    }

    fn renumbered(&self) -> Option<&RenumberedDomain> {
        let renumbered = self.renumbered.get_or_init(|| {
            let (identities, steps) = Identities::find(self.steps())?;
            let history = Self { joined: OnceLock::from(steps), ..Self::default() };
            Some(Arc::new(RenumberedDomain { identities: Arc::new(identities), history }))
        });
        renumbered.as_deref()
    }

    /// Iterates over every instance with every name it ever had, repeated where records repeat it.
    pub(crate) fn ever_named(&self) -> impl Iterator<Item = &Instance> {
        self.steps().iter().flat_map(|step| step.change.named())
    }

    /// Returns the number of states up to a time: the same number, the same instances.
    pub fn states_until(&self, time: Timestamp) -> usize {
        self.steps().partition_point(|step| step.timestamp <= time)
    }

    /// Returns the changes from state to state, rising in time.
    pub(crate) fn steps(&self) -> &[IndomStep] {
        match self.archives.as_slice() {
            [only] => only.steps(),
            several => self.joined.get_or_init(|| join(several)),
        }
    }

    /// Returns the history of a domain in one archive, from its records in file order.
    pub(super) fn from_records(records: Vec<OwnedIndomRecord>) -> Self {
        let domain = ArchiveDomain { records: Mutex::new(records), steps: OnceLock::new() };
        Self { archives: vec![Arc::new(domain)], ..Self::default() }
    }

    /// Appends the states of a later archive, except those that repeat the last
    /// one.
    pub(super) fn extend(&mut self, later: &Self) {
        self.archives.extend(later.archives.iter().cloned());
        self.joined = OnceLock::new();
        self.renumbered = OnceLock::new();
    }

    /// Returns whether states were asked for.
    #[cfg(test)]
    pub(crate) fn is_built(&self) -> bool {
        let built = self.archives.iter().any(|archive| archive.steps.get().is_some());
        built || self.joined.get().is_some()
    }
}

/// Joins the steps of archives in the order of time.
fn join(archives: &[Arc<ArchiveDomain>]) -> Vec<IndomStep> {
    let mut joined: Vec<IndomStep> = Vec::new();
    for archive in archives {
        let later = archive.steps();
        // The first step is a whole domain. Earlier steps at its time or after it are dropped:
        // that time belongs to the later archive.
        let Some(first) = later.first() else { continue };
        joined.truncate(joined.partition_point(|step| step.timestamp <= first.timestamp));
        let repeats = match &first.change {
            InstanceChange::Whole(instances) if !joined.is_empty() => {
                let mut last = IndomCursor::new(&joined);
                last.apply(joined.len());
                *last.instances() == **instances
            }
            _ => false,
        };
        joined.extend(later.iter().skip(usize::from(repeats)).cloned());
    }
    joined
}

/// Returns whether a record makes no state: a full one without instances is ignored.
pub(super) fn is_ignored(record: &BorrowedIndomRecord<'_>) -> bool {
    record.is_empty() && record.kind == IndomRecordKind::Full
}

impl ArchiveDomain {
    fn steps(&self) -> &[IndomStep] {
        self.steps.get_or_init(|| {
            let mut records =
                mem::take(&mut *self.records.lock().unwrap_or_else(PoisonError::into_inner));
            records.sort_by_key(|record| record.borrow().timestamp);
            let mut names = NameTable::default();
            let mut domain = Domain::default();
            let mut steps = Vec::with_capacity(records.len());
            for record in &records {
                let record = record.borrow();
                let entries = names.entries(&record);
                let change = match record.kind {
                    IndomRecordKind::Full => domain.replace(entries),
                    IndomRecordKind::Delta => domain.change(entries),
                };
                steps.push(IndomStep { timestamp: record.timestamp, change });
            }
            steps
        })
    }
}

/// Each name once, however many records repeat it.
#[derive(Default)]
struct NameTable(HashSet<ByteText>);

impl NameTable {
    /// Returns the instances of a record in file order; those that are gone have no name.
    fn entries(&mut self, record: &BorrowedIndomRecord<'_>) -> InstanceEntries {
        let mut names = Vec::new();
        for (start, name) in record.names() {
            names.push((start, self.intern(&ByteText::escape(name))));
        }
        let mut entries = Vec::new();
        for (id, start) in record.entries() {
            let name = start.and_then(|start| {
                let at = names.binary_search_by_key(&start, |(start, _)| *start).ok()?;
                names.get(at).map(|(_, name)| name.clone())
            });
            entries.push((id, name));
        }
        entries
    }

    fn intern(&mut self, name: &str) -> ByteText {
        self.0.get_or_insert_with(name, ByteText::wrap_escaped).clone()
    }
}

/// The newest state while the records are resolved.
#[derive(Default)]
struct Domain {
    instances: BTreeMap<InstanceId, ByteText>,
    /// Changes that are kept since the last whole state.
    changes: usize,
}

type InstanceEntries = Vec<(InstanceId, Option<ByteText>)>;

impl Domain {
    fn replace(&mut self, entries: InstanceEntries) -> InstanceChange {
        let named = sorted(entries).filter_map(|(id, name)| Some((id, name?)));
        self.instances = named.collect();
        self.whole()
    }

    fn change(&mut self, entries: InstanceEntries) -> InstanceChange {
        let mut added = Vec::new();
        let mut removed = Vec::new();
        for (id, name) in sorted(entries) {
            match name {
                None if self.instances.remove(&id).is_some() => removed.push(id),
                Some(name) if !self.instances.contains_key(&id) => {
                    self.instances.insert(id, name.clone());
                    added.push(Instance { id, name });
                }
                _ => {}
            }
        }
        // A difference that changes nothing has to be passed over too.
        self.changes += added.len() + removed.len() + 1;
        if self.changes > self.instances.len() {
            return self.whole();
        }
        InstanceChange::Difference { added: added.into(), removed: removed.into() }
    }

    fn whole(&mut self) -> InstanceChange {
        self.changes = 0;
        let all = self.instances.iter();
        InstanceChange::Whole(
            all.map(|(id, name)| Instance { id: *id, name: name.clone() }).collect(),
        )
    }
}

/// Sorts by number; of a number that occurs twice the first is kept.
fn sorted(mut entries: InstanceEntries) -> impl Iterator<Item = (InstanceId, Option<ByteText>)> {
    entries.sort_by_key(|(id, _)| *id);
    entries.dedup_by_key(|(id, _)| *id);
    entries.into_iter()
}

#[cfg(test)]
pub(crate) mod test_support;
#[cfg(test)]
mod tests;

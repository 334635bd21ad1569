//! Declared metadata: what the archive has already, and what waits to be
//! written.

use std::collections::BTreeMap;

use hashbrown::{HashMap, HashSet};
use pcp_types::{NameConflict, NameSpace};

use super::indom_change::IndomUpdate;
use super::{indom_change, undeclared};
use crate::format::{IndomRecordKind, desc, index, indom, labelset, text};
use crate::{
    ByteText, EncodeError, Error, InDom, Instance, InstanceId, LabelSet, LabelTarget, Metric,
    MetricDesc, Pmid, Result, TextKind, TextTarget, Timestamp, Version,
};

/// Something that changes over time: its last written and its current state.
#[derive(Debug)]
struct VersionedState<T> {
    written: Option<(Timestamp, T)>,
    now: T,
}

/// Declared metadata. Nothing in it is repeated on disk.
#[derive(Debug, Default)]
pub(super) struct DeclaredMetadata {
    version: Version,
    metrics: HashMap<Pmid, MetricDesc>,
    names: NameSpace,
    indoms: HashMap<InDom, VersionedState<Vec<Instance>>>,
    labels: HashMap<LabelTarget, VersionedState<Vec<LabelSet>>>,
    texts: HashMap<(TextTarget, TextKind), ByteText>,
    /// The metadata that waits, in the order of its declaration, with the account that pays for
    /// it.
    pending: Vec<(PendingMetadata, u32)>,
    /// The part of it that must not wait twice: all but descriptors.
    queued: HashSet<PendingMetadata>,
    /// The account that pays for what is declared.
    account: u32,
}

/// The metadata that was encoded before a record.
#[derive(Debug, Default)]
pub(super) struct EncodedMetadata {
    /// There are new metrics or instances.
    pub(super) changed: bool,
    /// The bytes by account, with the index entry that they may come with.
    pub(super) charges: BTreeMap<u32, u64>,
}

impl EncodedMetadata {
    fn charge(&mut self, account: u32, bytes: usize, version: Version) {
        if bytes > 0 {
            *self.charges.entry(account).or_insert(index::size(version) as u64) += bytes as u64;
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum PendingMetadata {
    Desc(Pmid, Vec<ByteText>),
    Indom(InDom),
    Labels(LabelTarget),
    Text(TextTarget, TextKind),
}

/// The rules of the name space for names that are copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum NameRules {
    /// A name is a leaf or a branch.
    All,
    /// A name may be both, as PCP's readers accept.
    #[default]
    OneOwner,
}

impl DeclaredMetadata {
    pub(super) fn new(version: Version) -> Self {
        Self { version, ..Self::default() }
    }

    /// Charges what is declared from now on to `account`.
    pub(super) fn charge_to(&mut self, account: u32) {
        self.account = account;
    }

    pub(super) fn desc(&self, pmid: Pmid) -> Result<&MetricDesc> {
        self.metrics.get(&pmid).ok_or_else(|| undeclared(pmid))
    }

    pub(super) fn has_indom(&self, indom: InDom) -> bool {
        self.indoms.contains_key(&indom)
    }

    pub(super) fn instances(&self, indom: InDom) -> &[Instance] {
        self.indoms.get(&indom).map_or(&[], |domain| &domain.now)
    }

    pub(super) fn declare_metric(&mut self, desc: &MetricDesc, names: &[&str]) -> Result<()> {
        names.iter().try_for_each(|name| desc::check_name(name))?;
        let names: Vec<ByteText> = names.iter().map(|name| ByteText::from(*name)).collect();
        self.add_metric(desc, &names, NameRules::All)
    }

    pub(super) fn declare_copied(
        &mut self,
        Metric { desc, names }: &Metric,
        rules: NameRules,
    ) -> Result<()> {
        names.iter().try_for_each(|name| desc::check_len(&name.to_bytes()))?;
        self.add_metric(desc, names, rules)
    }

    fn add_metric(
        &mut self,
        desc: &MetricDesc,
        names: &[ByteText],
        rules: NameRules,
    ) -> Result<()> {
        let pmid = desc.pmid;
        let known = self.metrics.get(&pmid);
        if let Some(difference) = known.and_then(|known| desc.difference(known)) {
            let difference = Box::new(difference);
            return Err(Error::MetricChanged { pmid, difference });
        }
        if known.is_none() && names.is_empty() {
            return Err(EncodeError::NoName { pmid }.into());
        }
        let new = self.take_names(pmid, names, rules)?;
        if !new.is_empty() {
            self.metrics.insert(pmid, *desc);
            self.pending.push((PendingMetadata::Desc(pmid, new), self.account));
        }
        Ok(())
    }

    /// Gives names to a metric, all of them or none; those that it did not have,
    /// each once.
    fn take_names(
        &mut self,
        pmid: Pmid,
        names: &[ByteText],
        rules: NameRules,
    ) -> Result<Vec<ByteText>> {
        let mut new: Vec<ByteText> = Vec::new();
        for name in names {
            let error = match self.names.take(name, pmid) {
                Ok(false) => continue,
                Err(NameConflict::Taken { holder: owner }) => {
                    Error::NameTaken { name: name.to_string(), owner, pmid }
                }
                Err(NameConflict::LeafAndBranch { other }) if rules == NameRules::All => {
                    Error::LeafAndBranch { name: name.to_string(), other }
                }
                Ok(true) | Err(NameConflict::LeafAndBranch { .. }) => {
                    new.push(name.clone());
                    continue;
                }
            };
            for name in &new {
                self.names.release(name);
            }
            return Err(error);
        }
        Ok(new)
    }

    pub(super) fn declare_indom(&mut self, indom: InDom, instances: &[Instance]) -> Result<()> {
        if self.indoms.get(&indom).is_some_and(|known| known.now == instances) {
            return Ok(());
        }
        let mut now = instances.to_vec();
        now.sort_unstable();
        for (one, next) in now.iter().zip(now.iter().skip(1)) {
            if one.id == next.id {
                return Err(EncodeError::RepeatedInstance { id: one.id.get() }.into());
            }
        }
        for instance in &now {
            EncodeError::check_nul("instance name", &instance.name.to_bytes())?;
        }
        match self.indoms.get_mut(&indom) {
            Some(known) => known.now = now,
            None => drop(self.indoms.insert(indom, VersionedState { written: None, now })),
        }
        self.wait(PendingMetadata::Indom(indom));
        Ok(())
    }

    pub(super) fn declare_labels(&mut self, target: LabelTarget, sets: &[LabelSet]) -> Result<()> {
        if self.labels.get(&target).is_some_and(|known| known.now == sets) {
            return Ok(());
        }
        labelset::check(target, sets)?;
        let now = sets.to_vec();
        match self.labels.get_mut(&target) {
            Some(known) => known.now = now,
            None => drop(self.labels.insert(target, VersionedState { written: None, now })),
        }
        self.wait(PendingMetadata::Labels(target));
        Ok(())
    }

    pub(super) fn declare_text(
        &mut self,
        target: TextTarget,
        kind: TextKind,
        text: ByteText,
    ) -> Result<()> {
        if self.texts.get(&(target, kind)) == Some(&text) {
            return Ok(());
        }
        EncodeError::check_nul("help text", &text.to_bytes())?;
        self.texts.insert((target, kind), text);
        self.wait(PendingMetadata::Text(target, kind));
        Ok(())
    }

    /// Puts something in the queue, once.
    fn wait(&mut self, item: PendingMetadata) {
        if self.queued.insert(item.clone()) {
            self.pending.push((item, self.account));
        }
    }

    /// Appends the records of all that waits, with the time of the data
    /// record that follows.
    pub(super) fn encode(
        &self,
        timestamp: Timestamp,
        out: &mut Vec<u8>,
    ) -> Result<EncodedMetadata, EncodeError> {
        let mut encoded = EncodedMetadata::default();
        for (item, account) in &self.pending {
            let before = out.len();
            match item {
                PendingMetadata::Desc(pmid, names) => {
                    encoded.changed |= self.encode_desc(*pmid, names, out)?;
                }
                PendingMetadata::Indom(indom) => {
                    encoded.changed |= self.encode_indom(*indom, timestamp, out)?;
                }
                PendingMetadata::Labels(target) => self.encode_labels(*target, timestamp, out)?,
                PendingMetadata::Text(target, kind) => {
                    if let Some(text) = self.texts.get(&(*target, *kind)) {
                        text::encode(*target, *kind, text, out)?;
                    }
                }
            }
            encoded.charge(*account, out.len() - before, self.version);
        }
        Ok(encoded)
    }

    fn encode_desc(
        &self,
        pmid: Pmid,
        names: &[ByteText],
        out: &mut Vec<u8>,
    ) -> Result<bool, EncodeError> {
        let Some(desc) = self.metrics.get(&pmid) else { return Ok(false) };
        desc::encode(desc, names, out)?;
        Ok(true)
    }

    fn encode_indom(
        &self,
        indom: InDom,
        timestamp: Timestamp,
        out: &mut Vec<u8>,
    ) -> Result<bool, EncodeError> {
        let Some(domain) = self.indoms.get(&indom) else { return Ok(false) };
        let change = match &domain.written {
            None if domain.now.is_empty() => IndomUpdate::Nothing,
            None => IndomUpdate::Full,
            // It keeps waiting: PCP's readers mix up two records of one domain
            // with one time if a difference is among them.
            Some((last, _)) if *last == timestamp => IndomUpdate::Nothing,
            // Version 2 has no empty domains: readers discard such a
            // record.
            Some((_, old)) if self.version == Version::V2 => {
                let same = domain.now.is_empty() || *old == domain.now;
                if same { IndomUpdate::Nothing } else { IndomUpdate::Full }
            }
            Some((_, old)) => indom_change::between(old, &domain.now),
        };
        let version = self.version;
        match change {
            IndomUpdate::Nothing => return Ok(false),
            IndomUpdate::Full => {
                let all: Vec<(InstanceId, Option<&ByteText>)> =
                    domain.now.iter().map(|one| (one.id, Some(&one.name))).collect();
                indom::encode(version, IndomRecordKind::Full, timestamp, indom, &all, out)?;
            }
            IndomUpdate::Delta(entries) => {
                indom::encode(version, IndomRecordKind::Delta, timestamp, indom, &entries, out)?;
            }
        }
        Ok(true)
    }

    fn encode_labels(
        &self,
        target: LabelTarget,
        timestamp: Timestamp,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        let Some(labels) = self.labels.get(&target) else { return Ok(()) };
        let same = match &labels.written {
            // They keep waiting: of two records with one time PCP's readers
            // take the first.
            Some((last, written)) => *last == timestamp || *written == labels.now,
            None => labels.now.is_empty(),
        };
        if same {
            Ok(())
        } else {
            labelset::encode(self.version, timestamp, target, &labels.now, out)
        }
    }

    /// Marks what waited as written with this time; a domain and labels that changed twice at
    /// this time wait for the next.
    pub(super) fn written(&mut self, timestamp: Timestamp) {
        let Self { pending, queued, indoms, labels, .. } = self;
        pending.retain(|(item, _)| match item {
            PendingMetadata::Indom(indom) => {
                indoms.get_mut(indom).is_some_and(|domain| domain.must_wait(timestamp))
            }
            PendingMetadata::Labels(target) => {
                labels.get_mut(target).is_some_and(|labels| labels.must_wait(timestamp))
            }
            PendingMetadata::Desc(..) | PendingMetadata::Text(..) => false,
        });
        queued.clear();
        queued.extend(pending.iter().map(|(item, _)| item.clone()));
    }
}

impl<T: Clone + PartialEq> VersionedState<T> {
    /// Notes what was written at `timestamp`: its current state or, if it has been
    /// written at that time before, nothing, and then it must wait.
    fn must_wait(&mut self, timestamp: Timestamp) -> bool {
        match &self.written {
            Some((last, _)) if *last == timestamp => return true,
            Some((_, written)) if *written == self.now => {}
            _ => self.written = Some((timestamp, self.now.clone())),
        }
        false
    }
}

//! Instance domains and their instances.

use hashbrown::{HashMap, HashSet};
use pcp_types::InstanceId;
use zerocopy::FromBytes;

use super::section::{CopiedEntry, Section};
use super::{Budget, Indom, Instance, Lookup, Parser, Problem, ReadError, Refusal, Source, lossy};
use crate::layout::{
    IndomEntry, InstanceV1, InstanceV2, MAX_INDOMS, SectionKind, Version, until_nul,
};

#[derive(Debug, Clone, Copy)]
pub(super) struct EntryOwner {
    pub(super) domain: u32,
    pub(super) id: InstanceId,
    /// Number of instances that had the entry before.
    pub(super) reuses: u32,
}

/// The domains, and the domain of each entry of the instances section.
pub(super) struct Indoms {
    pub(super) domains: Vec<Indom>,
    by_serial: HashMap<u32, usize>,
    /// By number of the copied entry.
    owners: Vec<Option<EntryOwner>>,
    /// Serial and number of the instances that exist and that labels are attached to.
    labelled: HashSet<(u32, i32)>,
    /// Numbers of instances that labels are attached to, but that were left out or are hidden
    /// because they were removed.
    left_out: HashSet<i32>,
}

impl Indoms {
    pub(super) fn find(&self, serial: u32) -> Option<usize> {
        self.by_serial.get(&serial).copied()
    }

    /// Looks up the instance of the entry at `offset`.
    pub(super) fn instance_at(&self, section: &Section, offset: u64) -> Lookup<EntryOwner> {
        Lookup::new(&section.find(offset), &self.owners)
    }

    pub(super) fn has_labelled(&self, serial: u32, id: InstanceId) -> bool {
        self.labelled.contains(&(serial, id.get()))
    }

    /// Returns whether an instance with this number, to which a label is attached, was left out or
    /// is hidden because it was removed.
    pub(super) fn left_out(&self, number: i32) -> bool {
        self.left_out.contains(&number)
    }
}

/// The instance numbers of a domain so far, to detect duplicates.
#[derive(Default)]
struct Members {
    last: Option<InstanceId>,
    /// All numbers, if they are not in ascending order.
    seen: Option<HashSet<InstanceId>>,
}

impl Members {
    /// Returns whether a number is known to be new: without `seen`, whether it is above the
    /// last one.
    fn is_new(&self, id: InstanceId) -> bool {
        match &self.seen {
            Some(seen) => !seen.contains(&id),
            None => self.last.is_none_or(|last| last < id),
        }
    }

    /// Adds a number, after `instances`. Returns false if it is there already.
    fn add<S: Source + ?Sized>(
        &mut self,
        id: InstanceId,
        instances: &[Instance],
        budget: &mut Budget<'_, S>,
    ) -> Result<bool, Refusal> {
        if self.seen.is_none() && !self.is_new(id) {
            budget.spend(instances.len() as u64 * MEMBER_BYTES)?;
            self.seen = Some(instances.iter().map(|instance| instance.id).collect());
        }
        if !self.is_new(id) {
            return Ok(false);
        }
        if let Some(seen) = &mut self.seen {
            budget.spend(MEMBER_BYTES)?;
            seen.insert(id);
        }
        self.last = Some(id);
        Ok(true)
    }
}

/// Approximate memory of a number in a set.
const MEMBER_BYTES: u64 = 10;

/// Approximate memory of a domain without its texts.
const DOMAIN_BYTES: u64 = 64;

/// An instance entry of any version.
struct RawInstance<'a> {
    id: i32,
    reuses: u32,
    name: NameField<'a>,
}

pub(super) enum NameField<'a> {
    /// In the entry: its 64 bytes with the NUL, and their offset in the file.
    Inline(&'a [u8], u64),
    /// In the string entry at this offset.
    At(u64),
}

impl NameField<'_> {
    /// Reads the name; fails if it is empty.
    pub(super) fn read<S: Source + ?Sized>(
        &self,
        parser: &mut Parser<'_, S>,
    ) -> Result<Vec<u8>, ReadError> {
        let name = match self {
            Self::Inline(bytes, offset) => until_nul(bytes)
                .ok_or(Problem::TextWithoutEnd { found: *offset, len: bytes.len() })?
                .to_vec(),
            Self::At(offset) => parser.text(*offset)?,
        };
        if name.is_empty() { Err(Problem::EmptyName.into()) } else { Ok(name) }
    }
}

/// Offset of the name in a version 1 entry.
const INLINE_NAME: usize = std::mem::offset_of!(InstanceV1, name);

/// Parses both sections. Entries of zeros are unused. `wanted` has the serial and number of the
/// instances that labels are attached to.
pub(super) fn parse<S: Source + ?Sized>(
    parser: &mut Parser<'_, S>,
    wanted: &HashSet<(u32, i32)>,
) -> Result<Indoms, Refusal> {
    let sections = parser.sections;
    let section = sections.get(SectionKind::Instances);
    let mut indoms = Indoms {
        domains: Vec::new(),
        by_serial: HashMap::new(),
        owners: parser.budget.filled(None, section.copies())?,
        labelled: HashSet::new(),
        left_out: HashSet::new(),
    };
    let mut members: Vec<Members> = Vec::new();
    let mut claimed = 0;
    for (entry, raw) in sections.get(SectionKind::Indoms).entries::<IndomEntry>() {
        let CopiedEntry { index, offset, .. } = entry;
        let range = check_domain(parser, &raw, &mut claimed);
        let Some(range) = parser.settle(SectionKind::Indoms, index, offset, range)? else {
            continue;
        };
        let domain = merge_domain(parser, &mut indoms, index, offset, &raw)?;
        while members.len() < indoms.domains.len() {
            parser.budget.push(&mut members, Members::default())?;
        }
        let (Some(known), Some(members)) =
            (indoms.domains.get_mut(domain), members.get_mut(domain))
        else {
            continue;
        };
        for entry in section.copies_in(range) {
            let found = read_instance(parser, entry, known, members, raw.serial);
            let found = parser.settle(SectionKind::Instances, entry.index, entry.offset, found)?;
            let Some((found, reuses)) = found else { continue };
            if let Some(slot) = indoms.owners.get_mut(entry.number) {
                *slot = Some(EntryOwner { domain: domain as u32, id: found.id, reuses });
            }
            if !wanted.is_empty() && wanted.contains(&(raw.serial, found.id.get())) {
                indoms.labelled.insert((raw.serial, found.id.get()));
            }
            parser.budget.push(&mut known.instances, found)?;
        }
    }
    if !wanted.is_empty() {
        let numbers: HashSet<i32> = wanted.iter().map(|(_, number)| *number).collect();
        let without = section.copies_in(0..section.copies());
        let without =
            without.filter(|entry| !matches!(indoms.owners.get(entry.number), Some(Some(_))));
        let left_out = without.filter_map(|entry| raw_instance(entry, parser.version()));
        let left_out = left_out.map(|raw| raw.id).filter(|number| numbers.contains(number));
        indoms.left_out = left_out.collect();
    }
    Ok(indoms)
}

fn raw_instance(entry: CopiedEntry<'_>, version: Version) -> Option<RawInstance<'_>> {
    if version == Version::V1 {
        let name = entry.bytes.get(INLINE_NAME..)?;
        let id = InstanceV1::read_from_bytes(entry.bytes).ok()?.id;
        return Some(RawInstance {
            id,
            reuses: 0,
            name: NameField::Inline(name, entry.offset + 16),
        });
    }
    let raw = InstanceV2::read_from_bytes(entry.bytes).ok()?;
    Some(RawInstance { id: raw.id, reuses: raw.reuses, name: NameField::At(raw.name) })
}

/// Checks a domain's entry and returns the numbers of the copies of its instances.
fn check_domain<S: Source + ?Sized>(
    parser: &Parser<'_, S>,
    entry: &IndomEntry,
    claimed: &mut u64,
) -> Result<std::ops::Range<usize>, ReadError> {
    let serial = entry.serial;
    let count = entry.count;
    let offset = entry.instances;
    let instance_bytes = SectionKind::Instances.entry_bytes(parser.version());
    let bytes = u64::from(count) * instance_bytes as u64;
    if count > 0 && !parser.budget.holds(offset, bytes) {
        let file_len = parser.budget.file_len;
        return Err(Refusal::IndomOutside { serial, offset, count, file_len }.into());
    }
    if serial > MAX_INDOMS {
        return Err(Problem::Serial { found: serial }.into());
    }
    if count == 0 {
        return Ok(0..0);
    }
    let section = parser.sections.get(SectionKind::Instances);
    let expected = section.count();
    let Some(range) = section.range_of(offset, count) else {
        return Err(Problem::NotInstances { found: offset, count }.into());
    };
    // If domains could share instances, a small file could take much memory.
    *claimed += u64::from(count);
    if *claimed > expected {
        return Err(Problem::InstancesClaimedTwice { found: *claimed, expected }.into());
    }
    Ok(range)
}

/// Finds the domain of the entry's serial, or adds it, and returns its index.
fn merge_domain<S: Source + ?Sized>(
    parser: &mut Parser<'_, S>,
    indoms: &mut Indoms,
    index: usize,
    offset: u64,
    entry: &IndomEntry,
) -> Result<usize, Refusal> {
    if let Some(known) = indoms.find(entry.serial) {
        return Ok(known);
    }
    let short_help = parser.help(SectionKind::Indoms, index, offset, entry.short_help)?;
    let long_help = parser.help(SectionKind::Indoms, index, offset, entry.long_help)?;
    let known = indoms.domains.len();
    parser.budget.spend(DOMAIN_BYTES)?;
    indoms.by_serial.insert(entry.serial, known);
    let domain = Indom { serial: entry.serial, short_help, long_help, instances: Vec::new() };
    parser.budget.push(&mut indoms.domains, domain)?;
    Ok(known)
}

/// Reads an instance, and the number of those that had its entry before.
fn read_instance<S: Source + ?Sized>(
    parser: &mut Parser<'_, S>,
    entry: CopiedEntry<'_>,
    domain: &Indom,
    members: &mut Members,
    serial: u32,
) -> Result<(Instance, u32), ReadError> {
    let Some(raw) = raw_instance(entry, parser.version()) else {
        return Err(Problem::EmptyName.into());
    };
    let id = InstanceId::new(raw.id).map_err(|_| Problem::NegativeInstance { found: raw.id })?;
    let name = lossy(raw.name.read(parser)?);
    if !members.add(id, &domain.instances, &mut parser.budget)? {
        return Err(Problem::InstanceTwice { found: id, serial }.into());
    }
    Ok((Instance { id, name }, raw.reuses))
}

//! Instance domains and their instances.

use hashbrown::{HashMap, HashSet};
use pcp_types::InstanceId;

use super::sections::Section;
use super::{Indom, Instance, Lookup, Parser, Problem, Refusal, Source, Trouble, lossy};
use crate::layout::{
    IndomEntry, InstanceV1, InstanceV2, MAX_INDOMS, SectionKind, Version, until_nul,
};

/// The domains, and which domain each entry of the instances section is in.
pub(super) struct Indoms {
    pub(super) domains: Vec<Indom>,
    by_serial: HashMap<u32, usize>,
    /// By index of the instances section: the domain's index and the number.
    owners: Vec<Option<(usize, InstanceId)>>,
    /// By the same index: the number that the entry states.
    numbers: Vec<i32>,
    instance_bytes: usize,
}

impl Indoms {
    /// The index of the domain with a serial.
    pub(super) fn find(&self, serial: u32) -> Option<usize> {
        self.by_serial.get(&serial).copied()
    }

    /// The domain and number of the instance entry at `offset`.
    pub(super) fn instance_at(
        &self,
        section: &Section,
        offset: u64,
    ) -> Lookup<(usize, InstanceId)> {
        let index = section.index_of(offset, self.instance_bytes);
        Lookup::new(index.and_then(|index| self.owners.get(index)))
    }

    /// Puts an instance, unless it was left out, into its domain.
    fn adopt(&mut self, domain: usize, at: usize, instance: Option<Instance>) {
        let owner = instance.as_ref().map(|instance| (domain, instance.id));
        if let Some(slot) = self.owners.get_mut(at) {
            *slot = owner;
        }
        if let Some(domain) = self.domains.get_mut(domain) {
            domain.instances.extend(instance);
        }
    }

    /// Whether a domain has an instance with this number.
    pub(super) fn has(&self, serial: u32, id: InstanceId) -> bool {
        let domain = self.find(serial).and_then(|index| self.domains.get(index));
        domain.is_some_and(|domain| domain.instances.iter().any(|instance| instance.id == id))
    }

    /// Whether an instance with this number was left out, or is hidden because it was
    /// removed.
    pub(super) fn left_out(&self, number: i32) -> bool {
        let mut entries = self.numbers.iter().zip(&self.owners);
        entries.any(|(found, owner)| *found == number && owner.is_none())
    }
}

/// An instance entry of any version.
struct RawInstance {
    offset: u64,
    id: i32,
    name: NameField,
}

/// Where a name is.
pub(super) enum NameField {
    /// In the entry, 64 bytes with its NUL, which start at this offset.
    Inline(Box<[u8]>, u64),
    /// In a string entry at this offset.
    At(u64),
}

impl NameField {
    /// The name's bytes, not empty.
    pub(super) fn read<S: Source + ?Sized>(
        &self,
        parser: &mut Parser<'_, S>,
    ) -> Result<Vec<u8>, Trouble> {
        let name = match self {
            Self::Inline(bytes, offset) => until_nul(bytes)
                .ok_or(Problem::TextWithoutEnd { found: *offset, len: bytes.len() })?
                .to_vec(),
            Self::At(offset) => parser.text(*offset)?,
        };
        if name.is_empty() { Err(Problem::EmptyName.into()) } else { Ok(name) }
    }
}

/// Reads both sections.
pub(super) fn parse<S: Source + ?Sized>(parser: &mut Parser<'_, S>) -> Result<Indoms, Refusal> {
    let sections = parser.sections;
    let raw = raw_instances(sections.get(SectionKind::Instances), parser.version());
    let mut indoms = Indoms {
        domains: Vec::new(),
        by_serial: HashMap::new(),
        owners: vec![None; raw.len()],
        numbers: raw.iter().map(|instance| instance.id).collect(),
        instance_bytes: SectionKind::Instances.entry_bytes(parser.version()),
    };
    let mut members: HashSet<(usize, InstanceId)> = HashSet::with_capacity(raw.len());
    let mut claimed = 0;
    for (index, offset, entry) in sections.get(SectionKind::Indoms).entries::<IndomEntry>() {
        let range = check_domain(parser, &entry, indoms.instance_bytes, &mut claimed);
        let Some(range) = parser.settle(SectionKind::Indoms, index, offset, range)? else {
            continue;
        };
        let domain = merge_domain(parser, &mut indoms, index, offset, &entry)?;
        for (at, instance) in range.clone().zip(raw.get(range).unwrap_or_default()) {
            let found = read_instance(parser, instance).and_then(|found| {
                let new = members.insert((domain, found.id));
                let twice = Problem::InstanceTwice { found: found.id, serial: entry.serial };
                if new { Ok(found) } else { Err(twice.into()) }
            });
            let found = parser.settle(SectionKind::Instances, at, instance.offset, found)?;
            indoms.adopt(domain, at, found);
        }
    }
    Ok(indoms)
}

fn raw_instances(section: &Section, version: Version) -> Vec<RawInstance> {
    if version == Version::V1 {
        let entries = section.entries::<InstanceV1>();
        let raw = |(_, offset, entry): (usize, u64, InstanceV1)| RawInstance {
            offset,
            id: entry.id,
            name: NameField::Inline(entry.name.into(), offset + 16),
        };
        entries.map(raw).collect()
    } else {
        let entries = section.entries::<InstanceV2>();
        let raw = |(_, offset, entry): (usize, u64, InstanceV2)| RawInstance {
            offset,
            id: entry.id,
            name: NameField::At(entry.name),
        };
        entries.map(raw).collect()
    }
}

/// The indexes of the domain's instances in their section.
fn check_domain<S: Source + ?Sized>(
    parser: &Parser<'_, S>,
    entry: &IndomEntry,
    instance_bytes: usize,
    claimed: &mut u64,
) -> Result<std::ops::Range<usize>, Trouble> {
    let (serial, count, offset) = (entry.serial, entry.count, entry.instances);
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
    let total = section.len(instance_bytes);
    let Some(range) = section.range_of(offset, instance_bytes, count as usize) else {
        return Err(Problem::NotInstances { found: offset, count }.into());
    };
    // If domains could share instances, a small file could take much memory.
    *claimed += u64::from(count);
    if *claimed > total as u64 {
        let expected = total as u64;
        return Err(Problem::InstancesClaimedTwice { found: *claimed, expected }.into());
    }
    Ok(range)
}

/// The domain of the entry's serial, new or already there; returns its index.
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
    indoms.by_serial.insert(entry.serial, known);
    indoms.domains.push(Indom {
        serial: entry.serial,
        short_help,
        long_help,
        instances: Vec::new(),
    });
    Ok(known)
}

fn read_instance<S: Source + ?Sized>(
    parser: &mut Parser<'_, S>,
    raw: &RawInstance,
) -> Result<Instance, Trouble> {
    let id = InstanceId::new(raw.id).map_err(|_| Problem::NegativeInstance { found: raw.id })?;
    Ok(Instance { id, name: lossy(raw.name.read(parser)?) })
}

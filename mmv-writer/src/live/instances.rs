//! The instances of one domain in one growing file, and their slots.
//!
//! A slot is an indom entry, an instance entry and a name. The slot of a removed
//! instance is used again after its quarantine, once no handle is left on its
//! values.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use mmv_format::layout::{IndomEntry, InstanceV2, SectionKind};
use smol_str::SmolStr;
use zerocopy::IntoBytes;

use super::file::LiveFile;
use super::quarantine::Quarantine;
use crate::Error;
use crate::mapping::Lease;
use crate::system::Instant;

/// The slots of a domain's instances.
#[derive(Debug)]
pub(super) struct InstanceTable {
    /// The domain's serial in this file.
    pub(super) serial: u32,
    slots: Vec<InstanceSlot>,
    names: HashMap<SmolStr, usize>,
    removed: Quarantine<usize>,
    /// Numbers of instances whose removal is not announced yet.
    unannounced: HashSet<i32>,
}

/// Indom entry, instance entry and name for one instance at a time.
#[derive(Debug)]
pub(super) struct InstanceSlot {
    indom_at: u64,
    pub(super) instance_at: u64,
    name_at: u64,
    id: i32,
    /// Number of instances that had the slot before the current or last one.
    reuses: u32,
    /// Offsets of the entries of its labels.
    labels: Vec<u64>,
    /// Held by the handles on the values of this slot.
    pub(super) lease: Arc<Lease>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct InstanceKey {
    pub(super) serial: u32,
    pub(super) slot: usize,
    pub(super) id: i32,
}

impl InstanceTable {
    pub(super) fn new(serial: u32) -> Self {
        Self {
            serial,
            slots: Vec::new(),
            names: HashMap::new(),
            removed: Quarantine::default(),
            unannounced: HashSet::new(),
        }
    }

    pub(super) fn find(&self, name: &str) -> Option<InstanceKey> {
        let slot = *self.names.get(name)?;
        Some(InstanceKey { serial: self.serial, slot, id: self.slots[slot].id })
    }

    pub(super) fn slot(&self, index: usize) -> &InstanceSlot {
        &self.slots[index]
    }

    /// Returns all slots, also those of removed instances.
    pub(super) fn slots(&self) -> &[InstanceSlot] {
        &self.slots
    }

    /// Returns the slots of the existing instances, in no order.
    pub(super) fn present(&self) -> impl Iterator<Item = usize> {
        self.names.values().copied()
    }

    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    /// Returns the names of the instances, in no order.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(SmolStr::as_str)
    }

    pub(super) fn add_label(&mut self, slot: usize, at: u64) {
        self.slots[slot].labels.push(at);
    }

    /// Creates an instance with this number if it does not exist. Returns the index of its
    /// slot.
    pub(super) fn create(
        &mut self,
        file: &mut LiveFile,
        name: &str,
        id: i32,
    ) -> Result<usize, Error> {
        if let Some(slot) = self.names.get(name) {
            return Ok(*slot);
        }
        // A reader that has read the former slot, and is not told of the removal yet, would find
        // the instance again in a used slot. A new slot is beyond the counts that it has read.
        if self.unannounced.contains(&id)
            && let Ok(index) = self.add_slot(file, name, id)
        {
            return Ok(index);
        }
        let free = self.removed.take(|index| !self.slots[*index].lease.is_held());
        let Some(index) = free else { return self.add_slot(file, name, id) };
        // A reader that knows only an earlier instance of the slot sees that this is another one.
        self.slots[index].reuses = self.slots[index].reuses.wrapping_add(1);
        self.show(file, index, name, id);
        Ok(index)
    }

    /// Adds an instance in a new slot; fails if there is no room.
    fn add_slot(&mut self, file: &mut LiveFile, name: &str, id: i32) -> Result<usize, Error> {
        file.ensure(SectionKind::Instances, 1, name)?;
        file.ensure(SectionKind::Indoms, 1, name)?;
        // Its name, and the text that the instance may get.
        file.ensure(SectionKind::Strings, 2, name)?;
        Ok(self.append(file, name, id))
    }

    /// Adds an instance in a new slot. There must be room.
    pub(super) fn append(&mut self, file: &mut LiveFile, name: &str, id: i32) -> usize {
        let slot = InstanceSlot {
            indom_at: file.take_indom_of_instance(),
            instance_at: file.take(SectionKind::Instances),
            name_at: file.take_string(""),
            id,
            reuses: 0,
            labels: Vec::new(),
            lease: Lease::new(file.segment()),
        };
        let entry = IndomEntry {
            serial: self.serial,
            count: 0,
            instances: slot.instance_at,
            short_help: 0,
            long_help: 0,
        };
        file.write(slot.indom_at, entry.as_bytes());
        self.slots.push(slot);
        let index = self.slots.len() - 1;
        self.show(file, index, name, id);
        index
    }

    /// Assigns a slot to an instance and shows it to readers.
    fn show(&mut self, file: &mut LiveFile, index: usize, name: &str, id: i32) {
        self.names.insert(name.into(), index);
        let slot = &mut self.slots[index];
        slot.id = id;
        file.write_string(slot.name_at, name);
        let entry =
            InstanceV2 { indom: slot.indom_at, reuses: slot.reuses, id, name: slot.name_at };
        file.write(slot.instance_at, entry.as_bytes());
        slot.set_count(file, self.serial, 1);
    }

    /// Hides the instance with a name. Returns the entries of its labels, for the caller to hide.
    pub(super) fn remove(&mut self, file: &mut LiveFile, name: &str) -> Vec<u64> {
        let Some(index) = self.names.remove(name) else { return Vec::new() };
        self.removed.add(index);
        let slot = &mut self.slots[index];
        self.unannounced.insert(slot.id);
        slot.set_count(file, self.serial, 0);
        std::mem::take(&mut slot.labels)
    }

    /// Records that all removals were announced to readers.
    pub(super) fn announced(&mut self, now: Instant) {
        self.removed.announced(now);
        self.unannounced.clear();
    }
}

impl InstanceSlot {
    /// Stores serial and count, which are one word.
    fn set_count(&self, file: &mut LiveFile, serial: u32, count: u32) {
        let entry = IndomEntry { serial, count, instances: 0, short_help: 0, long_help: 0 };
        let word = entry.as_bytes().first_chunk().map_or(0, |word| u64::from_ne_bytes(*word));
        file.store(self.indom_at, word);
    }
}

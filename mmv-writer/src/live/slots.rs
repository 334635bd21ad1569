//! The instances of one live domain in one file, and the places they are in.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use zerocopy::IntoBytes;

use super::file::LiveFile;
use super::rest::Resting;
use crate::Error;
use crate::layout::{IndomEntry, InstanceV2, SectionKind};
use crate::mapping::Lease;

/// The places of a domain's instances.
#[derive(Debug, Default)]
pub(super) struct Slots {
    all: Vec<Slot>,
    /// Of the instances that are there.
    names: HashMap<String, usize>,
    /// Places of removed instances.
    resting: Resting<usize>,
}

/// A place for an instance: an indom entry, an instance entry, a name.
#[derive(Debug)]
pub(super) struct Slot {
    indom_at: u64,
    pub(super) instance_at: u64,
    name_at: u64,
    /// The number of the instance that is there or was the last.
    pub(super) id: i32,
    /// The entries of its labels.
    pub(super) labels: Vec<u64>,
    /// Held by the handles on the values of this place.
    pub(super) lease: Arc<Lease>,
}

impl Slots {
    /// The place of the instance of a name, and its index.
    pub(super) fn by_name(&self, name: &str) -> Option<(usize, &Slot)> {
        let index = *self.names.get(name)?;
        Some((index, self.all.get(index)?))
    }

    /// A place by its index.
    pub(super) fn at(&self, index: usize) -> Option<&Slot> {
        self.all.get(index)
    }

    /// Notes the entry of a label of an instance.
    pub(super) fn add_label(&mut self, index: usize, at: u64) {
        if let Some(slot) = self.all.get_mut(index) {
            slot.labels.push(at);
        }
    }

    /// How many instances there are.
    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    /// Their names, in no order.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(String::as_str)
    }

    /// The index of the place of an instance, which gets this number and is created
    /// unless it is there.
    pub(super) fn get_or_create(
        &mut self,
        file: &mut LiveFile,
        serial: u32,
        name: &str,
        id: i32,
    ) -> Result<usize, Error> {
        if let Some(index) = self.names.get(name) {
            return Ok(*index);
        }
        let all = &self.all;
        let is_free = |index: &usize| all.get(*index).is_some_and(|slot| !slot.lease.is_held());
        let index = match self.resting.take(is_free) {
            Some(index) => index,
            None => self.append(file, serial, name)?,
        };
        if let Some(slot) = self.all.get_mut(index) {
            slot.id = id;
            slot.show(file, serial, name);
        }
        self.names.insert(name.to_owned(), index);
        Ok(index)
    }

    /// Hides the instance of a name; its labels are for the caller to hide.
    pub(super) fn remove(&mut self, file: &mut LiveFile, serial: u32, name: &str) -> Vec<u64> {
        let Some(index) = self.names.remove(name) else { return Vec::new() };
        self.resting.add(index);
        let Some(slot) = self.all.get_mut(index) else { return Vec::new() };
        slot.set_count(file, serial, 0);
        std::mem::take(&mut slot.labels)
    }

    /// Notes that readers were told of all removals.
    pub(super) fn announced(&mut self, now: Instant) {
        self.resting.announced(now);
    }

    /// A new place, empty.
    fn append(&mut self, file: &mut LiveFile, serial: u32, name: &str) -> Result<usize, Error> {
        file.ensure(SectionKind::Instances, 1, name)?;
        file.ensure(SectionKind::Indoms, 1, name)?;
        // Its own, and one for the text that the instance may get.
        file.ensure(SectionKind::Strings, 2, name)?;
        let slot = Slot {
            indom_at: file.take(SectionKind::Indoms),
            instance_at: file.take(SectionKind::Instances),
            name_at: file.take_string(""),
            id: 0,
            labels: Vec::new(),
            lease: Lease::new(file.segment()),
        };
        let (instances, short_help, long_help) = (slot.instance_at, 0, 0);
        let entry = IndomEntry { serial, count: 0, instances, short_help, long_help };
        file.write(slot.indom_at, entry.as_bytes());
        self.all.push(slot);
        Ok(self.all.len() - 1)
    }
}

impl Slot {
    /// Makes the place an instance's.
    fn show(&self, file: &mut LiveFile, serial: u32, name: &str) {
        file.write_string(self.name_at, name);
        let (indom, id, name) = (self.indom_at, self.id, self.name_at);
        file.write(self.instance_at, InstanceV2 { indom, padding: 0, id, name }.as_bytes());
        self.set_count(file, serial, 1);
    }

    /// Serial and count are one word.
    fn set_count(&self, file: &mut LiveFile, serial: u32, count: u32) {
        let entry = IndomEntry { serial, count, instances: 0, short_help: 0, long_help: 0 };
        let word = entry.as_bytes().first_chunk().map_or(0, |word| u64::from_ne_bytes(*word));
        file.store(self.indom_at, word);
    }
}

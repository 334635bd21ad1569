//! The instances of one live domain, and the places they are in.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use zerocopy::IntoBytes;

use super::file::LiveFile;
use crate::Error;
use crate::layout::{IndomEntry, InstanceV2, SectionKind};
use crate::mapping::Lease;

/// How long the removal of an instance must have been announced before its place
/// is used again: a reader that is slower than this between two of its own reads
/// could take the new name for the old instance.
pub(super) const REST: Duration = Duration::from_millis(100);

/// How many removed places are looked at for one that is free: handles may hold
/// any of them for long.
const LOOK_AT: usize = 8;

/// The places of a domain's instances.
#[derive(Debug, Default)]
pub(super) struct Slots {
    all: Vec<Slot>,
    /// Of the instances that are there.
    names: HashMap<String, usize>,
    /// Places of removed instances, the longest removed first.
    resting: VecDeque<Resting>,
    /// Numbers are never used again.
    next_id: i32,
}

/// A place for an instance: an indom entry, an instance entry, a name.
#[derive(Debug)]
pub(super) struct Slot {
    indom_at: u64,
    pub(super) instance_at: u64,
    name_at: u64,
    /// Held by the handles on the values of this place.
    pub(super) lease: Arc<Lease>,
}

/// A place whose instance was removed.
#[derive(Debug)]
struct Resting {
    slot: usize,
    /// When readers were told.
    since: Option<Instant>,
}

impl Slots {
    /// The instance of a name, and the index of its place.
    pub(super) fn by_name(&self, name: &str) -> Option<(usize, &Slot)> {
        let index = *self.names.get(name)?;
        Some((index, self.all.get(index)?))
    }

    /// A place by its index.
    pub(super) fn at(&self, index: usize) -> Option<&Slot> {
        self.all.get(index)
    }

    /// How many instances there are.
    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    /// Their names, in no order.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(String::as_str)
    }

    /// The place of an instance, which is created unless it is there.
    pub(super) fn get_or_create(
        &mut self,
        file: &mut LiveFile,
        serial: u32,
        name: &str,
    ) -> Result<usize, Error> {
        if let Some(index) = self.names.get(name) {
            return Ok(*index);
        }
        let id = self.next_id;
        let next_id = id.checked_add(1).ok_or_else(|| {
            let max = i32::MAX.cast_unsigned();
            Error::Full { what: "instance numbers", max, name: name.to_owned() }
        })?;
        let index = match self.rested() {
            Some(index) => index,
            None => self.append(file, serial, name)?,
        };
        self.next_id = next_id;
        if let Some(slot) = self.all.get(index) {
            slot.show(file, serial, id, name);
        }
        self.names.insert(name.to_owned(), index);
        Ok(index)
    }

    /// Hides the instance of a name.
    pub(super) fn remove(&mut self, file: &LiveFile, serial: u32, name: &str) {
        let Some(index) = self.names.remove(name) else { return };
        if let Some(slot) = self.all.get(index) {
            slot.set_count(file, serial, 0);
        }
        self.resting.push_back(Resting { slot: index, since: None });
    }

    /// Notes that readers were told of all removals.
    pub(super) fn announced(&mut self, now: Instant) {
        for resting in self.resting.iter_mut().rev() {
            if resting.since.is_some() {
                break;
            }
            resting.since = Some(now);
        }
    }

    /// A removed place that no handle holds and no reader can have in hand.
    fn rested(&mut self) -> Option<usize> {
        for _ in 0..LOOK_AT.min(self.resting.len()) {
            let ready = self.resting.front()?.since.is_some_and(|since| since.elapsed() >= REST);
            if !ready {
                return None; // Those behind it were removed later.
            }
            let resting = self.resting.pop_front()?;
            if self.all.get(resting.slot).is_some_and(|slot| !slot.lease.is_held()) {
                return Some(resting.slot);
            }
            let behind = self.resting.partition_point(|other| other.since.is_some());
            self.resting.insert(behind, resting);
        }
        None
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
    fn show(&self, file: &LiveFile, serial: u32, id: i32, name: &str) {
        file.write_string(self.name_at, name);
        let (indom, name) = (self.indom_at, self.name_at);
        file.write(self.instance_at, InstanceV2 { indom, padding: 0, id, name }.as_bytes());
        self.set_count(file, serial, 1);
    }

    /// Serial and count are one word.
    fn set_count(&self, file: &LiveFile, serial: u32, count: u32) {
        let entry = IndomEntry { serial, count, instances: 0, short_help: 0, long_help: 0 };
        let word = entry.as_bytes().first_chunk().map_or(0, |word| u64::from_ne_bytes(*word));
        file.store(self.indom_at, word);
    }
}

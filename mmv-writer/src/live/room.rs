//! Where the sections of a live file are, and how much fits into each.
//!
//! Pure numbers. All room is there from the start, so nothing ever moves; what
//! is not used yet is a hole in the file.

use crate::Error;
use crate::layout::{
    Header, MAX_INDOMS, MAX_LABELS, MAX_METRICS, MAX_SERIAL, SectionKind, TocEntry, Version,
};

/// Sections start at multiples of this, so that pieces of two sections never
/// share a page, and a value at an even index starts a cache line.
const ALIGNMENT: u64 = 4096;

/// The table of contents: what refers stands before what it refers to.
///
/// A reader that copies the sections in this order never finds a reference to
/// what it copied before that was written.
pub(super) const TOC_ORDER: [SectionKind; 6] = [
    SectionKind::Labels,
    SectionKind::Values,
    SectionKind::Metrics,
    SectionKind::Indoms,
    SectionKind::Instances,
    SectionKind::Strings,
];

/// How many of each thing a program wants to have room for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub(super) instances: u32,
    pub(super) values: u32,
    pub(super) texts: u32,
}

impl Default for Wanted {
    fn default() -> Self {
        Self { instances: 1 << 16, values: 1 << 18, texts: 1 << 16 }
    }
}

/// The places of all sections.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    /// By [`SectionKind`]: the first byte, and how many entries fit.
    places: [(u64, u32); 6],
    end: u64,
}

impl Room {
    /// Lays the sections out, one after the other.
    pub(super) fn new(name: &str, wanted: Wanted) -> Result<Self, Error> {
        let too_many = |what, found: u64, max: u64| Error::OutOfRange {
            what,
            name: name.to_owned(),
            found: found as i64,
            min: 0,
            max: max as i64,
        };
        let max_instances = MAX_INDOMS - MAX_SERIAL;
        if wanted.instances > max_instances {
            return Err(too_many(
                "room for instances",
                wanted.instances.into(),
                max_instances.into(),
            ));
        }
        let mut room = Self { places: [(0, 0); 6], end: 0 };
        let mut at = (Header::BYTES + TOC_ORDER.len() * TocEntry::BYTES) as u64;
        for kind in TOC_ORDER {
            at = at.next_multiple_of(ALIGNMENT);
            let capacity = capacity(kind, wanted);
            room.places[kind as usize] = (at, capacity);
            at += u64::from(capacity) * kind.entry_bytes(Version::V3) as u64;
        }
        room.end = at.next_multiple_of(ALIGNMENT);
        // Readers keep offsets of values in 32 bits.
        if room.end > u64::from(u32::MAX) {
            return Err(too_many("size", room.end, u32::MAX.into()));
        }
        Ok(room)
    }

    /// The file's size.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// How many entries fit into a section.
    pub(super) fn capacity(&self, kind: SectionKind) -> u32 {
        self.places[kind as usize].1
    }

    /// The offset of an entry.
    pub(super) fn at(&self, kind: SectionKind, index: u32) -> u64 {
        self.places[kind as usize].0 + u64::from(index) * kind.entry_bytes(Version::V3) as u64
    }
}

fn capacity(kind: SectionKind, wanted: Wanted) -> u32 {
    match kind {
        // One to state the domain and its help, then one for each instance.
        SectionKind::Indoms => MAX_SERIAL + wanted.instances,
        SectionKind::Instances => wanted.instances,
        SectionKind::Metrics => MAX_METRICS,
        SectionKind::Values => wanted.values,
        // Names of instances, name and help of metrics, help of domains, texts.
        SectionKind::Strings => {
            let described = 3 * MAX_METRICS + 2 * MAX_SERIAL;
            described.saturating_add(wanted.instances).saturating_add(wanted.texts)
        }
        SectionKind::Labels => MAX_LABELS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sections_do_not_touch_and_fit_the_file() {
        let room = Room::new("app", Wanted::default()).unwrap();
        let mut end = 136;
        for kind in TOC_ORDER {
            let start = room.at(kind, 0);
            assert!(start >= end && start.is_multiple_of(64), "{kind}");
            end = room.at(kind, room.capacity(kind));
        }
        assert!(end <= room.end());
    }

    #[test]
    fn room_that_readers_could_not_use_is_refused() {
        let wanted = Wanted { instances: MAX_INDOMS, ..Wanted::default() };
        assert!(matches!(Room::new("app", wanted), Err(Error::OutOfRange { .. })));
        let wanted = Wanted { texts: u32::MAX, ..Wanted::default() };
        assert!(matches!(Room::new("app", wanted), Err(Error::OutOfRange { .. })));
    }
}

//! Where the sections of a live file are, and how much fits into each.
//!
//! Pure numbers. A section has its full size from the start, so nothing ever moves;
//! what is not used yet is a hole in the file.

use crate::Error;
use mmv_format::layout::{
    Header, MAX_INDOMS, MAX_LABELS, MAX_METRICS, MAX_SERIAL, SectionKind, TocEntry, Version,
};

/// Sections start at multiples of this, so that pieces of two sections never
/// share a page, and a value at an even index starts a cache line.
const ALIGNMENT: u64 = 4096;

/// The table of contents: a section precedes those that it refers to.
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

/// How many entries of each kind a program asks for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Capacity {
    pub(super) instances: u32,
    pub(super) values: u32,
    pub(super) texts: u32,
}

impl Default for Capacity {
    fn default() -> Self {
        Self { instances: 1 << 16, values: 1 << 18, texts: 1 << 16 }
    }
}

/// The places of all sections.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sections {
    /// By [`SectionKind`]: the first byte, and how many entries fit.
    places: [(u64, u32); 6],
    end: u64,
}

impl Sections {
    /// Lays the sections out, one after the other.
    pub(super) fn new(name: &str, capacity: Capacity) -> Result<Self, Error> {
        let too_many = |what, found: u64, max: u64| Error::OutOfRange {
            what,
            name: name.to_owned(),
            found: found as i64,
            min: 0,
            max: max as i64,
        };
        let max_instances = MAX_INDOMS - MAX_SERIAL;
        if capacity.instances > max_instances {
            return Err(too_many(
                "number of instances",
                capacity.instances.into(),
                max_instances.into(),
            ));
        }
        let mut sections = Self { places: [(0, 0); 6], end: 0 };
        let mut at = (Header::BYTES + TOC_ORDER.len() * TocEntry::BYTES) as u64;
        for kind in TOC_ORDER {
            at = at.next_multiple_of(ALIGNMENT);
            let entries = entries(kind, capacity);
            sections.places[kind as usize] = (at, entries);
            at += u64::from(entries) * kind.entry_bytes(Version::V3) as u64;
        }
        sections.end = at.next_multiple_of(ALIGNMENT);
        // Readers keep offsets of values in 32 bits.
        if sections.end > u64::from(u32::MAX) {
            return Err(too_many("size", sections.end, u32::MAX.into()));
        }
        Ok(sections)
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

fn entries(kind: SectionKind, capacity: Capacity) -> u32 {
    match kind {
        // One for the domain and its help, then one for each instance.
        SectionKind::Indoms => MAX_SERIAL + capacity.instances,
        SectionKind::Instances => capacity.instances,
        SectionKind::Metrics => MAX_METRICS,
        SectionKind::Values => capacity.values,
        // Names of instances, name and help of metrics, help of domains, texts.
        SectionKind::Strings => {
            let described = 3 * MAX_METRICS + 2 * MAX_SERIAL;
            described.saturating_add(capacity.instances).saturating_add(capacity.texts)
        }
        SectionKind::Labels => MAX_LABELS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sections_do_not_touch_and_fit_the_file() {
        let sections = Sections::new("app", Capacity::default()).unwrap();
        let mut end = 136;
        for kind in TOC_ORDER {
            let start = sections.at(kind, 0);
            assert!(start >= end && start.is_multiple_of(64), "{kind}");
            end = sections.at(kind, sections.capacity(kind));
        }
        assert!(end <= sections.end());
    }

    #[test]
    fn sizes_that_readers_cannot_use_are_rejected() {
        let capacity = Capacity { instances: MAX_INDOMS, ..Capacity::default() };
        assert!(matches!(Sections::new("app", capacity), Err(Error::OutOfRange { .. })));
        let capacity = Capacity { texts: u32::MAX, ..Capacity::default() };
        assert!(matches!(Sections::new("app", capacity), Err(Error::OutOfRange { .. })));
    }
}

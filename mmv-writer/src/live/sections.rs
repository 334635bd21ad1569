//! Offsets and sizes of the parts of a growing file.
//!
//! In come the limits of a program and of the process; out go offsets and numbers of
//! entries. Invariant: a part never moves. Values are one array without gaps, as readers
//! require; the first texts, instances and indoms precede it, so that a small file ends
//! with the values. When these parts are full, the *later* parts are placed after the
//! room that is kept for values. `docs/decisions/001-growing-files.md` has the
//! reasons.

use crate::Error;
use crate::capacity::Capacity;
use mmv_format::layout::{
    Header, MAX_INDOMS, MAX_LABELS, MAX_METRICS, MAX_SERIAL, STRING_BYTES, SectionKind, TocEntry,
    Version,
};

/// Alignment of parts: no page holds pieces of two parts, and a value at an even index starts a
/// cache line.
const ALIGNMENT: u64 = 4096;

/// Indom entries of the first part that are reserved for domains: PCP's reader finds the help of
/// a domain only there.
const DOMAINS: u32 = 128;

/// Limit on the values, instances and indoms of a file with later parts but without families.
const WITHOUT_FAMILIES: u32 = 4096;

/// A part of a growing file: a section that its table of contents lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Labels,
    Values,
    Metrics,
    LaterIndoms,
    Indoms,
    LaterInstances,
    Instances,
    LaterStrings,
    Strings,
}

impl Part {
    /// The parts in the order of the table of contents: a part precedes those that it refers to.
    ///
    /// A reader that copies the parts in this order never finds a reference to an entry
    /// that it copied before the entry was written. PCP's reader finds help of domains in the
    /// last part with indoms.
    pub(super) const TOC_ORDER: [Self; 9] = [
        Self::Labels,
        Self::Values,
        Self::Metrics,
        Self::LaterIndoms,
        Self::Indoms,
        Self::LaterInstances,
        Self::Instances,
        Self::LaterStrings,
        Self::Strings,
    ];

    /// The parts that exist from the start, by offset.
    const FIRST: [Self; 6] =
        [Self::Strings, Self::Instances, Self::Indoms, Self::Labels, Self::Metrics, Self::Values];

    /// The parts that are placed when the first ones are full, by offset.
    pub(super) const LATER: [Self; 3] =
        [Self::LaterIndoms, Self::LaterInstances, Self::LaterStrings];

    pub(super) const fn kind(self) -> SectionKind {
        match self {
            Self::Labels => SectionKind::Labels,
            Self::Values => SectionKind::Values,
            Self::Metrics => SectionKind::Metrics,
            Self::LaterIndoms | Self::Indoms => SectionKind::Indoms,
            Self::LaterInstances | Self::Instances => SectionKind::Instances,
            Self::LaterStrings | Self::Strings => SectionKind::Strings,
        }
    }

    pub(super) const fn first(kind: SectionKind) -> Self {
        match kind {
            SectionKind::Labels => Self::Labels,
            SectionKind::Values => Self::Values,
            SectionKind::Metrics => Self::Metrics,
            SectionKind::Indoms => Self::Indoms,
            SectionKind::Instances => Self::Instances,
            SectionKind::Strings => Self::Strings,
        }
    }

    pub(super) const fn later(kind: SectionKind) -> Option<Self> {
        match kind {
            SectionKind::Indoms => Some(Self::LaterIndoms),
            SectionKind::Instances => Some(Self::LaterInstances),
            SectionKind::Strings => Some(Self::LaterStrings),
            _ => None,
        }
    }

    fn entry_bytes(self) -> u64 {
        self.kind().entry_bytes(Version::V3) as u64
    }
}

/// The offset of a part, and the number of entries that fit into it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Placement {
    offset: u64,
    entries: u32,
}

/// The offsets and sizes of all parts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sections {
    capacity: Capacity,
    /// By [`Part`].
    places: [Placement; 9],
    /// True if the later parts have their final offsets.
    placed: bool,
    /// True if the later parts follow less room for values than the program asked for.
    small: bool,
}

impl Sections {
    /// Computes the offsets and sizes of all parts; fails if readers would not accept the file.
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
        let sections = Self::for_capacity(capacity, MAX_METRICS, MAX_LABELS);
        // Readers keep offsets of values in 32 bits.
        if sections.end() > u64::from(u32::MAX) {
            return Err(too_many("size", sections.end(), u32::MAX.into()));
        }
        Ok(sections)
    }

    fn for_capacity(capacity: Capacity, metrics: u32, labels: u32) -> Self {
        let places = [Placement::default(); 9];
        let mut sections = Self { capacity, places, placed: false, small: false };
        let (strings, instances) = capacity.first;
        let mut at = (Header::BYTES + Part::TOC_ORDER.len() * TocEntry::BYTES) as u64;
        for part in Part::FIRST {
            let entries = match part {
                Part::Labels => labels,
                Part::Metrics => metrics,
                Part::Values => capacity.values,
                Part::Strings => strings.min(total_strings(capacity)),
                Part::Indoms => DOMAINS + instances.min(capacity.instances),
                _ => instances.min(capacity.instances),
            };
            at = sections.put(part, at, entries);
        }
        sections.put_later(capacity.instances);
        sections
    }

    /// Sets offset and size of a part, and returns its end.
    fn put(&mut self, part: Part, at: u64, entries: u32) -> u64 {
        let offset = at.next_multiple_of(ALIGNMENT);
        self.places[part as usize] = Placement { offset, entries };
        offset + u64::from(entries) * part.entry_bytes()
    }

    /// Sets offsets and sizes of the later parts, for at most this many instances.
    fn put_later(&mut self, instances: u32) {
        let instances = instances.min(self.capacity.instances - self.capacity(Part::Instances));
        // One for the domain and its help, then one for each instance.
        let indoms = MAX_SERIAL - DOMAINS + instances;
        let strings = total_strings(self.capacity) - self.capacity(Part::Strings);
        let mut at = self.offset(Part::Values, self.capacity(Part::Values));
        for (part, entries) in Part::LATER.into_iter().zip([indoms, instances, strings]) {
            at = self.put(part, at, entries);
        }
    }

    /// Returns the sections for files of at most this size, with room for as many entries of each
    /// kind as fit; `None` if that is too small for any file.
    pub(super) fn within(&self, limit: u64) -> Option<Self> {
        if self.end() <= limit {
            return Some(*self);
        }
        // A third for what precedes the later strings, of which an instance needs most.
        for shift in 0..8 {
            let Capacity { instances, values, texts, first } = self.capacity;
            let capacity =
                Capacity { instances: instances >> shift, values: values >> shift, texts, first };
            let mut sections = Self::for_capacity(capacity, MAX_METRICS, MAX_LABELS);
            if sections.offset(Part::LaterStrings, 0) <= limit / 3 {
                sections.truncate(Part::LaterStrings, limit);
                return Some(sections);
            }
        }
        // No room for later parts: the values are the last. Half of it for texts, of which
        // a metric needs up to three.
        let strings = u32::try_from(limit / 2 / STRING_BYTES as u64).unwrap_or(u32::MAX);
        let Capacity { instances, values, texts, .. } = self.capacity;
        let first = (strings, instances.min(strings / 4));
        let capacity = Capacity { instances: first.1, values, texts, first };
        let metrics = MAX_METRICS.min(strings / 2);
        let labels = MAX_LABELS.min(strings / 4);
        let mut sections = Self::for_capacity(capacity, metrics, labels);
        let fits = sections.offset(Part::Values, 0) + ALIGNMENT <= limit;
        sections.truncate(Part::Values, limit);
        sections.put_none();
        fits.then_some(sections)
    }

    /// Reduces a part so that it ends at `limit` at the latest.
    fn truncate(&mut self, part: Part, limit: u64) {
        let placement = &mut self.places[part as usize];
        let fit = limit.saturating_sub(placement.offset) / part.entry_bytes();
        placement.entries = placement.entries.min(u32::try_from(fit).unwrap_or(u32::MAX));
    }

    /// Gives the later parts no entries.
    fn put_none(&mut self) {
        let offset = self.offset(Part::Values, self.capacity(Part::Values));
        for part in Part::LATER {
            self.places[part as usize] = Placement { offset, entries: 0 };
        }
    }

    /// Gives the later parts their final places. Less room is kept for values if there
    /// are not families and `fits` holds for [`WITHOUT_FAMILIES`] entries.
    pub(super) fn place_later(&mut self, families: bool, fits: impl FnOnce(u32) -> bool) {
        self.placed = true;
        let strings = self.capacity(Part::LaterStrings);
        let is_small = self.capacity(Part::Values) <= WITHOUT_FAMILIES;
        if strings == 0 || families || is_small || !fits(WITHOUT_FAMILIES) {
            return;
        }
        self.small = true;
        self.places[Part::Values as usize].entries = WITHOUT_FAMILIES;
        self.put_later(WITHOUT_FAMILIES);
        // They begin earlier, and so end within the limit that they ended in.
        self.places[Part::LaterStrings as usize].entries = strings;
    }

    /// Returns whether the later parts have their final offsets.
    pub(super) fn are_placed(&self) -> bool {
        self.placed
    }

    /// Returns whether instances of families find the room that the program asked for.
    pub(super) fn has_room_for_families(&self) -> bool {
        !self.small
    }

    /// Returns the largest size that the file can have.
    pub(super) fn end(&self) -> u64 {
        let ends = Part::TOC_ORDER.map(|part| self.offset(part, self.capacity(part)));
        ends.into_iter().max().unwrap_or(0).next_multiple_of(ALIGNMENT)
    }

    /// Returns the number of entries that fit into a part.
    pub(super) fn capacity(&self, part: Part) -> u32 {
        self.places[part as usize].entries
    }

    /// Returns the number of entries of a first part that are used before the later one.
    pub(super) fn first_use(&self, kind: SectionKind) -> u32 {
        let capacity = self.capacity(Part::first(kind));
        match kind {
            SectionKind::Indoms if self.capacity(Part::LaterIndoms) > 0 => capacity - DOMAINS,
            _ => capacity,
        }
    }

    /// Returns the number of entries of a kind that fit.
    pub(super) fn total(&self, kind: SectionKind) -> u32 {
        let later = Part::later(kind).map_or(0, |part| self.capacity(part));
        self.capacity(Part::first(kind)) + later
    }

    pub(super) fn offset(&self, part: Part, index: u32) -> u64 {
        self.places[part as usize].offset + u64::from(index) * part.entry_bytes()
    }
}

/// Returns the number of strings: names of instances, name and help of metrics, help of domains,
/// texts.
fn total_strings(capacity: Capacity) -> u32 {
    let described = 3 * MAX_METRICS + 2 * MAX_SERIAL;
    described.saturating_add(capacity.instances).saturating_add(capacity.texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Sections {
        Sections::new("app", Capacity::default()).unwrap()
    }

    /// Returns start and end of all parts that have room, by offset.
    fn extents(sections: &Sections) -> Vec<(u64, u64)> {
        let parts = Part::TOC_ORDER.into_iter().filter(|part| sections.capacity(*part) > 0);
        let extents = parts
            .map(|part| (sections.offset(part, 0), sections.offset(part, sections.capacity(part))));
        let mut extents: Vec<_> = extents.collect();
        extents.sort_unstable();
        extents
    }

    #[track_caller]
    fn assert_apart(sections: &Sections) {
        let mut before = 184;
        for (start, end) in extents(sections) {
            assert!(start >= before && start.is_multiple_of(64), "{start} {before}");
            before = end;
        }
        assert!(before <= sections.end());
    }

    #[test]
    fn the_parts_do_not_touch_and_fit_the_file() {
        let mut sections = full();
        assert_apart(&sections);
        assert!(sections.offset(Part::Values, 0) < 220 << 10, "{sections:?}");
        sections.place_later(false, |_| true);
        assert_apart(&sections);
        assert!(sections.offset(Part::LaterStrings, 0) < 700 << 10, "{sections:?}");
        assert!(!sections.has_room_for_families());
    }

    #[test]
    fn room_for_families_and_for_what_needs_it_is_kept() {
        let asked = full();
        for (families, fits) in [(true, true), (false, false)] {
            let mut sections = full();
            sections.place_later(families, |_| fits);
            assert!(sections.has_room_for_families() && sections.are_placed());
            assert_eq!(sections.places, asked.places);
        }
        for kind in [SectionKind::Instances, SectionKind::Values] {
            let expected = if kind == SectionKind::Values { 1 << 18 } else { 1 << 16 };
            assert_eq!(asked.total(kind), expected);
        }
    }

    #[test]
    fn sizes_that_readers_cannot_use_are_rejected() {
        let capacity = Capacity { instances: MAX_INDOMS, ..Capacity::default() };
        assert!(matches!(Sections::new("app", capacity), Err(Error::OutOfRange { .. })));
        let capacity = Capacity { texts: u32::MAX, ..Capacity::default() };
        assert!(matches!(Sections::new("app", capacity), Err(Error::OutOfRange { .. })));
    }

    #[test]
    fn size_limits_are_kept_and_larger_ones_give_more_room() {
        let mut before = [0; 3];
        let mut smallest = None;
        for limit in (0..1 << 12).map(|step| step * (16 << 10)) {
            let Some(mut sections) = full().within(limit) else {
                assert_eq!(smallest, None, "{limit}");
                continue;
            };
            smallest.get_or_insert(limit);
            let last = extents(&sections).last().unwrap().1;
            assert!(last <= limit, "{limit}: {sections:?}");
            assert_apart(&sections);
            let kinds = [SectionKind::Metrics, SectionKind::Instances, SectionKind::Labels];
            let room = kinds.map(|kind| sections.total(kind));
            assert!(room.iter().zip(before).all(|(now, before)| *now >= before), "{limit}");
            before = room;
            sections.place_later(false, |_| true);
            assert!(extents(&sections).last().unwrap().1 <= limit, "{limit}");
        }
        assert!(smallest.is_some_and(|smallest| smallest <= 80 << 10), "{smallest:?}");
        assert_eq!(full().within(u64::MAX).unwrap().places, full().places);
    }
}

//! A live file: in come entries; out go stores to the mapping: entries are appended,
//! counts raised, generations changed. Invariant: a reader at any moment finds a complete
//! file, or one that its generations show to be changing. The order of the stores and
//! its reasons are in `docs/decisions/001-growing-files.md`.

use std::fs::File;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use zerocopy::IntoBytes;

use super::quarantine::{QUARANTINE, Quarantine};
use super::sections::{Part, Sections};
use crate::Error;
use crate::identity::FileIdentity;
use crate::mapping::{CellStrip, Segment};
use crate::published::{PublicationGuard, check_process};
use crate::registration::{Promise, ValueShape};
use crate::system::{Instant, process_id, wall_time};
use mmv_format::file::{allocate, extend, next_generation, size_limit};
use mmv_format::layout::{Flags, Header, STRING_BYTES, SectionKind, TocEntry, Version, nul_padded};

/// Limit on the bytes that are allocated at a time.
const PIECE: u64 = 64 << 10;

/// Number of bytes that are allocated at first.
const FIRST_PIECE: u64 = 4 << 10;

/// A growing file, with its mapping and its use of each part.
#[derive(Debug)]
pub(super) struct LiveFile {
    path: PathBuf,
    /// `None` if the values are in private memory.
    file: Option<Arc<File>>,
    process: u32,
    segment: Arc<Segment>,
    sections: Sections,
    /// Number of used entries, by [`Part`].
    used: [u32; 9],
    /// Entries that are kept for the later instances of some metrics.
    promised: Promise,
    /// Offset up to which disk space is allocated, by [`Part`].
    allocated: [u64; 9],
    len: u64,
    /// Time of the last extension after publication.
    extended: Option<Instant>,
    /// True if the file has metrics on domains whose instances come and go, or must be ready for
    /// them: a program that chose a cluster wants them there.
    keeps_room: bool,
    generation: u64,
    flags: Flags,
    /// True if something was written since the last announcement.
    changed: bool,
    removed_labels: Quarantine<u64>,
}

impl LiveFile {
    pub(super) fn create(
        identity: &FileIdentity,
        sections: Sections,
    ) -> Result<(Self, PublicationGuard), Error> {
        let (mut temporary, lock) = identity.temporary()?;
        let path = temporary.path().to_owned();
        let file = Arc::clone(temporary.file());
        // One that needs more than the limit fails below.
        let sections = sections.within(size_limit()).unwrap_or(sections);
        let values = sections.offset(Part::Values, sections.capacity(Part::Values));
        let len = (sections.offset(Part::Values, 0) + FIRST_PIECE).min(values);
        extend(&file, len).map_err(Error::io("set size", &path))?;
        allocate(&file, 0, FIRST_PIECE).map_err(Error::io("allocate", &path))?;
        // What is beyond the end of the file is address space, and not touched.
        let segment = Segment::map(&file, 0, sections.end() as usize);
        let segment = Arc::new(segment.map_err(Error::io("map", &path))?);
        segment.expect_no_reading();
        let generation = next_generation(&identity.path);
        let mut live = Self {
            path: identity.path.clone(),
            file: Some(file),
            process: process_id(),
            segment,
            sections,
            used: [0; 9],
            promised: Promise::default(),
            allocated: Part::TOC_ORDER.map(|part| sections.offset(part, 0)),
            len,
            extended: None,
            keeps_room: identity.cluster > 0,
            generation,
            flags: identity.flags,
            changed: false,
            removed_labels: Quarantine::default(),
        };
        let toc = Part::TOC_ORDER.map(|part| live.toc_entry(part));
        live.write(0, &identity.head(Version::V3, generation, &toc));
        live.store(Header::GENERATION2 as u64, generation);
        live.changed = false;
        let published = PublicationGuard::rename(&mut temporary, identity)?;
        Ok((live, PublicationGuard::new(published, lock, &identity.path, generation)))
    }

    /// Makes a file in private memory only.
    pub(super) fn private(
        identity: &FileIdentity,
        sections: Sections,
    ) -> Result<(Self, PublicationGuard), Error> {
        let path = identity.path.clone();
        let sections = sections.within(size_limit()).unwrap_or(sections);
        let segment =
            Segment::anonymous(sections.end() as usize).map_err(Error::io("map", &path))?;
        let published = PublicationGuard::unpublished(&path);
        let live = Self {
            path,
            file: None,
            process: process_id(),
            segment: Arc::new(segment),
            sections,
            used: [0; 9],
            promised: Promise::default(),
            allocated: [0; 9],
            len: sections.end(),
            extended: None,
            keeps_room: true,
            generation: 0,
            flags: identity.flags,
            changed: false,
            removed_labels: Quarantine::default(),
        };
        Ok((live, published))
    }

    /// Adds a flag to the header, before whatever is written after this.
    pub(super) fn add_flag(&mut self, flag: Flags) {
        if self.flags.contains(flag) {
            return;
        }
        self.flags = self.flags.with(flag);
        // The number of sections and the flags are one word.
        let halves = [Part::TOC_ORDER.len() as u32, self.flags.raw()];
        let word = halves.as_bytes().first_chunk().map_or(0, |word| u64::from_ne_bytes(*word));
        self.store(Header::TOC_COUNT as u64, word);
    }

    /// Returns the mapping of the whole file.
    pub(super) fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// Fails in a forked child: the file is its parent's.
    pub(super) fn check_process(&self) -> Result<(), Error> {
        check_process(self.process, &self.path)
    }

    pub(super) fn has_room(&self, kind: SectionKind, count: usize) -> bool {
        let count = count.saturating_sub(self.reusable(kind)) + self.promised.entries(kind);
        let free = self.sections.total(kind) - self.used(kind);
        u32::try_from(count).is_ok_and(|count| count <= free)
    }

    /// Returns the number of entries of a kind that an empty file has room for.
    pub(super) fn total(&self, kind: SectionKind) -> usize {
        self.sections.total(kind) as usize
    }

    /// Checks that this many more entries of a kind fit, for the registration of `name`.
    pub(super) fn check_room(
        &self,
        kind: SectionKind,
        count: usize,
        name: &str,
    ) -> Result<(), Error> {
        if count > 0 && !self.has_room(kind, count) {
            return Err(Error::full(plural(kind), self.sections.total(kind), name));
        }
        Ok(())
    }

    /// Keeps room from all other registrations.
    pub(super) fn promise(&mut self, promise: Promise) {
        self.promised = self.promised.plus(promise);
    }

    /// Makes room available that was promised.
    pub(super) fn release_promise(&mut self, promise: Promise) {
        self.promised = self.promised.without(promise);
    }

    /// Returns the number of removed entries that can be used again.
    fn reusable(&self, kind: SectionKind) -> usize {
        if kind == SectionKind::Labels { self.removed_labels.ready() } else { 0 }
    }

    pub(super) fn has_room_for_families(&self) -> bool {
        self.sections.has_room_for_families()
    }

    pub(super) fn add_family(&mut self) {
        self.keeps_room = true;
    }

    /// Ensures that these numbers of new entries fit and have disk space, for the registration of
    /// `name`.
    pub(super) fn ensure_all(
        &mut self,
        count: impl Fn(SectionKind) -> usize,
        name: &str,
    ) -> Result<(), Error> {
        let new = SectionKind::ALL.map(|kind| self.new_entries(kind, count(kind), name));
        let kinds = SectionKind::ALL.into_iter().zip(new);
        let new: Vec<_> =
            kinds.map(|(kind, new)| Ok((kind, new?))).collect::<Result<_, Error>>()?;
        let overflows = new.iter().any(|(kind, new)| *new > 0 && self.is_first_used(*kind, *new));
        if !self.sections.are_placed() && overflows {
            let wanted = new.iter().map(|(kind, new)| (*kind, 2 * (self.used(*kind) + new)));
            let wanted: Vec<_> = wanted.collect();
            self.place_later(|most| {
                let described = [SectionKind::Strings, SectionKind::Metrics, SectionKind::Labels];
                let mut counted = wanted.iter().filter(|(kind, _)| !described.contains(kind));
                counted.all(|(_, wanted)| *wanted <= most)
            })?;
        }
        new.into_iter().try_for_each(|(kind, new)| self.ensure_space(kind, new))
    }

    /// Ensures that entries of one kind fit and have disk space.
    pub(super) fn ensure(
        &mut self,
        kind: SectionKind,
        count: usize,
        name: &str,
    ) -> Result<(), Error> {
        self.ensure_all(|other| if other == kind { count } else { 0 }, name)
    }

    /// Returns the number of entries that must be new, not reused; fails if they do not fit.
    fn new_entries(&self, kind: SectionKind, count: usize, name: &str) -> Result<u32, Error> {
        self.check_room(kind, count, name)?;
        Ok(count.saturating_sub(self.reusable(kind)) as u32)
    }

    /// Returns whether the first part of a kind is too small for this many more entries, and there
    /// is a later part.
    fn is_first_used(&self, kind: SectionKind, new: u32) -> bool {
        let used = self.used[Part::first(kind) as usize];
        let has_later = Part::later(kind).is_some_and(|part| self.sections.capacity(part) > 0);
        has_later && used + new > self.sections.first_use(kind)
    }

    /// Places the later parts, after the room that is reserved for values.
    fn place_later(&mut self, fits: impl FnOnce(u32) -> bool) -> Result<(), Error> {
        let mut sections = self.sections;
        sections.place_later(self.keeps_room, fits);
        let strings = sections.offset(Part::LaterStrings, 0);
        let end = sections.offset(Part::LaterStrings, sections.capacity(Part::LaterStrings));
        self.lengthen((strings + PIECE).min(end))?;
        self.sections = sections;
        for part in Part::LATER {
            self.allocated[part as usize] = sections.offset(part, 0);
            let entry = self.toc_entry(part);
            self.store(toc_at(part) + TocEntry::OFFSET as u64, entry.offset);
        }
        Ok(())
    }

    /// Allocates disk space for this many more entries of a kind, which fit.
    fn ensure_space(&mut self, kind: SectionKind, new: u32) -> Result<(), Error> {
        if new == 0 {
            return Ok(());
        }
        let first = Part::first(kind);
        let in_first = new.min(self.sections.capacity(first) - self.used[first as usize]);
        self.ensure_part(first, in_first)?;
        match Part::later(kind).filter(|_| self.is_first_used(kind, new)) {
            Some(later) => {
                let in_later = new.min(self.sections.capacity(later) - self.used[later as usize]);
                self.ensure_part(later, in_later)
            }
            None => Ok(()),
        }
    }

    fn ensure_part(&mut self, part: Part, new: u32) -> Result<(), Error> {
        let wanted = self.sections.offset(part, self.used[part as usize] + new);
        let from = self.allocated[part as usize];
        if self.file.is_none() || wanted <= from {
            return Ok(());
        }
        let limit = self.sections.offset(part, self.sections.capacity(part));
        let piece = (from - self.sections.offset(part, 0)).clamp(FIRST_PIECE, PIECE);
        let to = wanted.next_multiple_of(piece).min(limit).max(wanted);
        if to > self.len {
            // Further ahead in a longer file: what is new can only be used after a while.
            let ahead = (to - self.sections.offset(part, 0)) / 4;
            self.lengthen((to + ahead).next_multiple_of(FIRST_PIECE).min(limit).max(to))?;
        }
        if let Some(file) = &self.file {
            allocate(file, from, to - from).map_err(Error::io("allocate", &self.path))?;
        }
        self.allocated[part as usize] = to;
        Ok(())
    }

    /// Extends the file if it is too short.
    fn lengthen(&mut self, len: u64) -> Result<(), Error> {
        let Some(file) = self.file.as_ref().filter(|_| len > self.len) else { return Ok(()) };
        extend(file, len).map_err(Error::io("set size", &self.path))?;
        self.len = len;
        self.extended = Some(Instant::now());
        Ok(())
    }

    /// Returns the time until changes may be announced: readers may still use the size that the
    /// file had before it was extended.
    pub(super) fn ready_in(&self) -> Duration {
        let extended = self.extended.filter(|_| self.changed);
        extended.map_or(Duration::ZERO, |since| QUARANTINE.saturating_sub(since.elapsed()))
    }

    /// Takes the next entry of a kind, after [`LiveFile::ensure`], and returns its offset.
    pub(super) fn take(&mut self, kind: SectionKind) -> u64 {
        self.take_before(kind, self.sections.capacity(Part::first(kind)))
    }

    /// Takes the next indom entry for an instance, as [`LiveFile::take`] does.
    pub(super) fn take_indom_of_instance(&mut self) -> u64 {
        self.take_before(SectionKind::Indoms, self.sections.first_use(SectionKind::Indoms))
    }

    /// Takes an entry of the first part if fewer than `first` of its entries are used or the later
    /// part has no room, else of the later part.
    fn take_before(&mut self, kind: SectionKind, first: u32) -> u64 {
        let is_first_used = self.used[Part::first(kind) as usize] >= first;
        let part = match Part::later(kind) {
            Some(later)
                if is_first_used
                    && self.sections.are_placed()
                    && self.used[later as usize] < self.sections.capacity(later) =>
            {
                later
            }
            _ => Part::first(kind),
        };
        let index = self.used[part as usize];
        self.used[part as usize] += 1;
        debug_assert!(index < self.sections.capacity(part), "{part:?}");
        self.sections.offset(part, index)
    }

    pub(super) fn used(&self, kind: SectionKind) -> u32 {
        let later = Part::later(kind).map_or(0, |part| self.used[part as usize]);
        self.used[Part::first(kind) as usize] + later
    }

    /// Returns the offset of the next value entry of this shape. The section starts at a cache
    /// line, which holds two entries.
    pub(super) fn next_value(&self, shape: ValueShape) -> u64 {
        let next = self.used(SectionKind::Values).next_multiple_of(shape.step() as u32);
        self.sections.offset(Part::Values, next)
    }

    /// Takes a value entry, and its cache line if it is isolated, and returns its offset.
    pub(super) fn take_value(&mut self, shape: ValueShape) -> u64 {
        let at = self.next_value(shape);
        while self.sections.offset(Part::Values, self.used(SectionKind::Values)) < at {
            self.take(SectionKind::Values);
        }
        for _ in 0..shape.step() {
            self.take(SectionKind::Values);
        }
        at
    }

    pub(super) fn error(&self, action: &'static str, kind: ErrorKind) -> Error {
        Error::io(action, &self.path)(kind.into())
    }

    /// Takes a string entry, writes the text and returns the offset.
    pub(super) fn take_string(&mut self, text: &str) -> u64 {
        let at = self.take(SectionKind::Strings);
        // After the text there are zeros: the entry is new.
        self.write(at, text.as_bytes());
        at
    }

    /// Writes a label, after [`LiveFile::ensure`], into an entry that may be used again or the next
    /// one, and returns its offset.
    pub(super) fn add_label(&mut self, bytes: &[u8]) -> u64 {
        let removed = self.removed_labels.take(|_| true);
        let at = removed.unwrap_or_else(|| self.take(SectionKind::Labels));
        // The target comes last: until then the entry is unused.
        if let Some((target, rest)) = bytes.split_first_chunk() {
            self.write(at + 8, rest);
            self.store(at, u64::from_ne_bytes(*target));
        }
        at
    }

    /// Removes a label. Its entry is used again after its quarantine.
    pub(super) fn hide_label(&mut self, at: u64) {
        self.store(at, 0);
        self.removed_labels.add(at);
    }

    /// Finds the entries of a part whose word at `field` satisfies `is_it`. The kind has only this
    /// part.
    pub(super) fn find(&self, part: Part, field: u64, is_it: impl Fn(u64) -> bool) -> Vec<u64> {
        let start = self.sections.offset(part, 0);
        let used = self.used[part as usize] as usize;
        let bytes = part.kind().entry_bytes(Version::V3);
        let words = self.segment.strip((start + field) as usize, bytes, used);
        let words = words.iter().flat_map(CellStrip::iter);
        let found = words.enumerate().filter(|(_, word)| is_it(word.load()));
        found.map(|(index, _)| start + (index * bytes) as u64).collect()
    }

    /// Writes a string entry; the caller has checked that the text fits.
    pub(super) fn write_string(&mut self, at: u64, text: &str) {
        let bytes: [u8; STRING_BYTES] = nul_padded(text.as_bytes()).unwrap_or([0; STRING_BYTES]);
        self.write(at, &bytes);
    }

    /// Writes an entry, or other whole words; the last word is padded with zeros.
    pub(super) fn write(&mut self, at: u64, bytes: &[u8]) {
        self.changed = true;
        let words = bytes.chunks(8).map(|chunk| {
            let mut word = [0; 8];
            word.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
            u64::from_ne_bytes(word)
        });
        let inside = self.segment.copy_in(at as usize, words);
        debug_assert!(inside, "{} bytes at {at}", bytes.len());
    }

    /// Stores a word in release order, after everything that was written before.
    pub(super) fn store(&mut self, at: u64, word: u64) {
        self.changed = true;
        let inside = self.segment.store_u64(at as usize, word, Ordering::Release);
        debug_assert!(inside, "a word at {at}");
    }

    /// Announces what was appended, if anything: counts, then a new generation. Must not be called
    /// before [`LiveFile::ready_in`] is over.
    ///
    /// Generation 2 is never 0 and differs from generation 1 for two
    /// instructions only: PCP's reader drops a file that it finds in that state, and
    /// gives the files after it other clusters.
    pub(super) fn announce(&mut self) {
        if !self.changed {
            return;
        }
        // What is referred to comes first.
        for part in Part::TOC_ORDER.into_iter().rev() {
            let entry = self.toc_entry(part);
            let bytes = entry.as_bytes();
            // Kind and count are one word.
            let word = bytes.first_chunk().map_or(0, |word| u64::from_ne_bytes(*word));
            self.store(toc_at(part), word);
        }
        self.generation = (wall_time().as_nanos() as u64).max(self.generation + 1);
        self.store(Header::GENERATION1 as u64, self.generation);
        self.store(Header::GENERATION2 as u64, self.generation);
        self.changed = false;
        self.removed_labels.announced(Instant::now());
    }

    fn toc_entry(&self, part: Part) -> TocEntry {
        let count = self.used[part as usize].cast_signed();
        let is_placed = self.sections.are_placed() || Part::first(part.kind()) == part;
        let offset = if is_placed { self.sections.offset(part, 0) } else { 0 };
        TocEntry { kind: part.kind().code(), count, offset }
    }
}

/// Returns the offset of the entry of a part in the table of contents.
fn toc_at(part: Part) -> u64 {
    (Header::BYTES + part as usize * TocEntry::BYTES) as u64
}

fn plural(kind: SectionKind) -> &'static str {
    match kind {
        SectionKind::Indoms => "indoms",
        SectionKind::Instances => "instances",
        SectionKind::Metrics => "metrics",
        SectionKind::Values => "values",
        SectionKind::Strings => "texts",
        SectionKind::Labels => "labels",
    }
}

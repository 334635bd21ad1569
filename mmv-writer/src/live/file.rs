//! A live file: entries are appended, counts raised, generations stored. See
//! `docs/decisions/005-growth.md` for the order and its reasons.

use std::fs::File;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use zerocopy::IntoBytes;

use super::quarantine::Quarantine;
use super::sections::{Sections, TOC_ORDER};
use crate::Error;
use crate::identity::FileIdentity;
use crate::mapping::Segment;
use crate::published::{Published, check_process};
use crate::registration::ValueShape;
use mmv_format::file::{allocate, next_generation};
use mmv_format::layout::{Header, STRING_BYTES, SectionKind, TocEntry, Version, nul_padded};

/// Bytes that are allocated at a time.
const PIECE: u64 = 64 << 10;

/// The order in which counts are raised: what is referred to comes first.
const RAISE_ORDER: [SectionKind; 6] = [
    SectionKind::Strings,
    SectionKind::Instances,
    SectionKind::Indoms,
    SectionKind::Metrics,
    SectionKind::Values,
    SectionKind::Labels,
];

/// A live file.
#[derive(Debug)]
pub(super) struct LiveFile {
    path: PathBuf,
    /// `None`: the values are in private memory.
    file: Option<Arc<File>>,
    /// The process that made it.
    process: u32,
    segment: Arc<Segment>,
    sections: Sections,
    /// By [`SectionKind`]: how many entries are taken.
    used: [u32; 6],
    /// By [`SectionKind`]: up to where disk space is allocated.
    allocated: [u64; 6],
    generation: u64,
    /// Whether something was written since the last announcement.
    changed: bool,
    /// Entries of labels that were removed.
    removed_labels: Quarantine<u64>,
}

impl LiveFile {
    /// Creates and publishes an empty file.
    pub(super) fn create(
        identity: &FileIdentity,
        sections: Sections,
    ) -> Result<(Self, Published), Error> {
        let temporary = identity.temporary()?;
        let path = temporary.path().to_owned();
        let file = Arc::clone(temporary.file());
        file.set_len(sections.end()).map_err(Error::io("set size", &path))?;
        let used = [0; 6];
        let allocated = SectionKind::ALL.map(|kind| sections.at(kind, 0));
        allocate(&file, 0, allocated.into_iter().min().unwrap_or(PIECE))
            .map_err(Error::io("allocate", &path))?;
        let segment = Segment::map(&file, 0, sections.end() as usize);
        let segment = Arc::new(segment.map_err(Error::io("map", &path))?);
        segment.expect_no_reading();
        let generation = next_generation(&identity.path);
        let mut live = Self {
            path: identity.path.clone(),
            file: Some(file),
            process: std::process::id(),
            segment,
            sections,
            used,
            allocated,
            generation,
            changed: false,
            removed_labels: Quarantine::default(),
        };
        let toc = TOC_ORDER.map(|kind| live.toc_entry(kind));
        live.write(0, &identity.head(Version::V3, generation, &toc));
        live.store(Header::GENERATION2 as u64, generation);
        live.changed = false;
        let published = Published::publish(temporary, &identity.path, generation)?;
        Ok((live, published))
    }

    /// The same in private memory, without a file.
    pub(super) fn private(
        identity: &FileIdentity,
        sections: Sections,
    ) -> Result<(Self, Published), Error> {
        let path = identity.path.clone();
        let segment =
            Segment::anonymous(sections.end() as usize).map_err(Error::io("map", &path))?;
        let published = Published::unpublished(&path);
        let live = Self {
            path,
            file: None,
            process: std::process::id(),
            segment: Arc::new(segment),
            sections,
            used: [0; 6],
            allocated: [0; 6],
            generation: 0,
            changed: false,
            removed_labels: Quarantine::default(),
        };
        Ok((live, published))
    }

    /// The mapping of the whole file.
    pub(super) fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// Fails in a forked child: the file is its parent's.
    pub(super) fn check_process(&self) -> Result<(), Error> {
        check_process(self.process, &self.path)
    }

    /// Whether this many more entries fit into a section.
    pub(super) fn has_room(&self, kind: SectionKind, count: usize) -> bool {
        let count = count.saturating_sub(self.reusable(kind));
        let free = self.sections.capacity(kind) - self.used(kind);
        u32::try_from(count).is_ok_and(|count| count <= free)
    }

    /// How many entries can be used again.
    fn reusable(&self, kind: SectionKind) -> usize {
        if kind == SectionKind::Labels { self.removed_labels.ready() } else { 0 }
    }

    /// Makes sure that this many more entries fit into a section and have disk
    /// space, for the registration of `name`.
    pub(super) fn ensure(
        &mut self,
        kind: SectionKind,
        count: usize,
        name: &str,
    ) -> Result<(), Error> {
        if count == 0 {
            return Ok(());
        }
        let max = self.sections.capacity(kind);
        if !self.has_room(kind, count) {
            return Err(Error::full(plural(kind), max, name));
        }
        let new = count.saturating_sub(self.reusable(kind)) as u32;
        let wanted = self.sections.at(kind, self.used(kind) + new);
        let from = self.allocated[kind as usize];
        if let Some(file) = self.file.as_ref().filter(|_| wanted > from) {
            let limit = self.sections.at(kind, max);
            let to = (wanted.next_multiple_of(PIECE)).min(limit).max(wanted);
            let allocated = allocate(file, from, to - from);
            allocated.map_err(Error::io("allocate", &self.path))?;
            self.allocated[kind as usize] = to;
        }
        Ok(())
    }

    /// Takes the next entry of a section, after [`LiveFile::ensure`]; its offset.
    pub(super) fn take(&mut self, kind: SectionKind) -> u64 {
        let index = self.used[kind as usize];
        self.used[kind as usize] += 1;
        self.sections.at(kind, index)
    }

    /// How many entries of a section are taken.
    pub(super) fn used(&self, kind: SectionKind) -> u32 {
        self.used[kind as usize]
    }

    /// The offset of the next value entry of this shape. The section starts at a cache
    /// line, which holds two entries.
    pub(super) fn next_value(&self, shape: ValueShape) -> u64 {
        let next = self.used(SectionKind::Values).next_multiple_of(shape.step() as u32);
        self.sections.at(SectionKind::Values, next)
    }

    /// Takes a value entry, and its cache line if it is isolated; its offset.
    pub(super) fn take_value(&mut self, shape: ValueShape) -> u64 {
        let at = self.next_value(shape);
        while self.sections.at(SectionKind::Values, self.used(SectionKind::Values)) < at {
            self.take(SectionKind::Values);
        }
        for _ in 0..shape.step() {
            self.take(SectionKind::Values);
        }
        at
    }

    /// An error of this file.
    pub(super) fn error(&self, action: &'static str, kind: ErrorKind) -> Error {
        Error::io(action, &self.path)(kind.into())
    }

    /// Takes a string entry and writes it; its offset.
    pub(super) fn take_string(&mut self, text: &str) -> u64 {
        let at = self.take(SectionKind::Strings);
        // After the text there are zeros: the entry is new.
        self.write(at, text.as_bytes());
        at
    }

    /// Writes a label, after [`LiveFile::ensure`], into an entry that may be used again
    /// or the next one; its offset.
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

    /// Writes a string entry, checked to fit.
    pub(super) fn write_string(&mut self, at: u64, text: &str) {
        let bytes: [u8; STRING_BYTES] = nul_padded(text.as_bytes()).unwrap_or([0; STRING_BYTES]);
        self.write(at, &bytes);
    }

    /// Writes an entry, or other whole words; the last one is filled with zeros.
    pub(super) fn write(&mut self, at: u64, bytes: &[u8]) {
        self.changed = true;
        let word = |chunk: &[u8]| {
            let mut word = [0; 8];
            word.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
            u64::from_ne_bytes(word)
        };
        let inside = self.segment.copy_in(at as usize, bytes.chunks(8).map(word));
        debug_assert!(inside, "{} bytes at {at}", bytes.len());
    }

    /// Stores a word after everything that was written before.
    pub(super) fn store(&mut self, at: u64, word: u64) {
        self.changed = true;
        let inside = self.segment.store_u64(at as usize, word, Ordering::Release);
        debug_assert!(inside, "a word at {at}");
    }

    /// Announces what was appended, if anything was: counts, then a new generation.
    ///
    /// Generation 2 is never 0 and differs from generation 1 for two
    /// instructions only: PCP's reader drops a file that it finds in that state, and
    /// gives the files after it other clusters.
    pub(super) fn announce(&mut self) {
        if !self.changed {
            return;
        }
        for kind in RAISE_ORDER {
            let position = TOC_ORDER.iter().position(|other| *other == kind).unwrap_or(0);
            let at = (Header::BYTES + position * TocEntry::BYTES) as u64;
            let entry = self.toc_entry(kind);
            let bytes = entry.as_bytes();
            // Kind and count are one word.
            self.store(at, bytes.first_chunk().map_or(0, |word| u64::from_ne_bytes(*word)));
        }
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.generation = (wall.as_nanos() as u64).max(self.generation + 1);
        self.store(Header::GENERATION1 as u64, self.generation);
        self.store(Header::GENERATION2 as u64, self.generation);
        self.changed = false;
        self.removed_labels.announced(Instant::now());
    }

    fn toc_entry(&self, kind: SectionKind) -> TocEntry {
        let count = self.used[kind as usize].cast_signed();
        TocEntry { kind: kind.code(), count, offset: self.sections.at(kind, 0) }
    }
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

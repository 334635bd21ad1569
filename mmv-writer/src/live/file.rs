//! The file of a live registry: entries appended, counts raised, generations
//! stored. See `docs/decisions/005-growth.md` for the order and its reasons.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use zerocopy::IntoBytes;

use super::rest::Resting;
use super::room::{Room, TOC_ORDER};
use crate::Error;
use crate::layout::{Header, STRING_BYTES, SectionKind, TocEntry, Version, nul_padded};
use crate::mapping::Segment;
use crate::publish::{Identity, Published, allocate, next_generation};

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
    /// `None`: nobody will see the values, which are in private memory.
    file: Option<Arc<File>>,
    /// The process that made it.
    process: u32,
    segment: Arc<Segment>,
    room: Room,
    /// By [`SectionKind`]: how many entries are taken.
    used: [u32; 6],
    /// By [`SectionKind`]: up to where disk space is allocated.
    allocated: [u64; 6],
    generation: u64,
    /// Whether something was written since readers were last told.
    changed: bool,
    /// Entries of labels that are gone.
    resting_labels: Resting<u64>,
}

impl LiveFile {
    /// Creates and publishes an empty file.
    pub(super) fn create(identity: &Identity, room: Room) -> Result<(Self, Published), Error> {
        let temporary = identity.temporary()?;
        let path = temporary.path().to_owned();
        let file = Arc::clone(temporary.file());
        file.set_len(room.end()).map_err(Error::io("set size", &path))?;
        let used = [0; 6];
        let allocated = SectionKind::ALL.map(|kind| room.at(kind, 0));
        allocate(&file, 0, allocated.into_iter().min().unwrap_or(PIECE))
            .map_err(Error::io("allocate", &path))?;
        let segment = Segment::map(&file, 0, room.end() as usize);
        let segment = Arc::new(segment.map_err(Error::io("map", &path))?);
        segment.expect_no_reading();
        let generation = next_generation(&identity.path);
        let mut live = Self {
            path: identity.path.clone(),
            file: Some(file),
            process: std::process::id(),
            segment,
            room,
            used,
            allocated,
            generation,
            changed: false,
            resting_labels: Resting::default(),
        };
        let toc = TOC_ORDER.map(|kind| live.toc_entry(kind));
        live.write(0, &identity.head(Version::V3, generation, &toc));
        live.store(Header::GENERATION2 as u64, generation);
        live.changed = false;
        let published = temporary.publish(&identity.path, generation)?;
        Ok((live, published))
    }

    /// The same without a file.
    pub(super) fn unseen(identity: &Identity, room: Room) -> Result<(Self, Published), Error> {
        let path = identity.path.clone();
        let segment = Segment::anonymous(room.end() as usize).map_err(Error::io("map", &path))?;
        let published = Published::unseen(&path);
        let live = Self {
            path,
            file: None,
            process: std::process::id(),
            segment: Arc::new(segment),
            room,
            used: [0; 6],
            allocated: [0; 6],
            generation: 0,
            changed: false,
            resting_labels: Resting::default(),
        };
        Ok((live, published))
    }

    /// The mapping of the whole file.
    pub(super) fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// Fails in a forked child: the file is its parent's.
    pub(super) fn check_process(&self) -> Result<(), Error> {
        let (created, found) = (self.process, std::process::id());
        if created == found {
            return Ok(());
        }
        Err(Error::Forked { path: self.path.clone(), created, found })
    }

    /// Whether so many entries more fit into a section.
    pub(super) fn has_room(&self, kind: SectionKind, count: usize) -> bool {
        let count = count.saturating_sub(self.rested(kind));
        let free = self.room.capacity(kind) - self.used(kind);
        u32::try_from(count).is_ok_and(|count| count <= free)
    }

    /// How many entries can be used again.
    fn rested(&self, kind: SectionKind) -> usize {
        if kind == SectionKind::Labels { self.resting_labels.rested() } else { 0 }
    }

    /// Makes sure that so many entries more fit into a section and have disk
    /// space. `name` is what needs them.
    pub(super) fn ensure(
        &mut self,
        kind: SectionKind,
        count: usize,
        name: &str,
    ) -> Result<(), Error> {
        if count == 0 {
            return Ok(());
        }
        let max = self.room.capacity(kind);
        if !self.has_room(kind, count) {
            return Err(Error::Full { what: plural(kind), max, name: name.to_owned() });
        }
        let new = count.saturating_sub(self.rested(kind)) as u32;
        let wanted = self.room.at(kind, self.used(kind) + new);
        let from = self.allocated[kind as usize];
        if let Some(file) = self.file.as_ref().filter(|_| wanted > from) {
            let limit = self.room.at(kind, max);
            let to = (wanted.next_multiple_of(PIECE)).min(limit).max(wanted);
            let allocated = allocate(file, from, to - from);
            allocated.map_err(Error::io("allocate", &self.path))?;
            self.allocated[kind as usize] = to;
        }
        Ok(())
    }

    /// Takes the next entry of a section, for which [`LiveFile::ensure`] made
    /// sure; its offset.
    pub(super) fn take(&mut self, kind: SectionKind) -> u64 {
        let index = self.used[kind as usize];
        self.used[kind as usize] += 1;
        self.room.at(kind, index)
    }

    /// How many entries of a section are taken.
    pub(super) fn used(&self, kind: SectionKind) -> u32 {
        self.used[kind as usize]
    }

    /// Takes a string entry and writes it; its offset.
    pub(super) fn take_string(&mut self, text: &str) -> u64 {
        let at = self.take(SectionKind::Strings);
        // Behind the text there are zeros: nobody has written there before.
        self.write(at, text.as_bytes());
        at
    }

    /// Writes a label into an entry that [`LiveFile::ensure`] made sure of: one that
    /// has rested or the next; its offset.
    pub(super) fn add_label(&mut self, bytes: &[u8]) -> u64 {
        let rested = self.resting_labels.take(|_| true);
        let at = rested.unwrap_or_else(|| self.take(SectionKind::Labels));
        // What the label describes comes last: until then it is nobody's.
        if let Some((target, rest)) = bytes.split_first_chunk() {
            self.write(at + 8, rest);
            self.store(at, u64::from_ne_bytes(*target));
        }
        at
    }

    /// Takes a label from what it describes. Its entry is used again once readers
    /// know.
    pub(super) fn hide_label(&mut self, at: u64) {
        self.store(at, 0);
        self.resting_labels.add(at);
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

    /// Stores a word behind all that was written before.
    pub(super) fn store(&mut self, at: u64, word: u64) {
        self.changed = true;
        let inside = self.segment.store_u64(at as usize, word, Ordering::Release);
        debug_assert!(inside, "a word at {at}");
    }

    /// Shows readers what was appended, if anything was: counts, then a new
    /// generation.
    ///
    /// Generation 2 is never 0 and differs from generation 1 for two
    /// instructions only: PCP's reader drops a file it finds so, and gives the
    /// files behind it other clusters.
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
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let now = now.unwrap_or_default().as_nanos() as u64;
        self.generation = now.max(self.generation + 1);
        self.store(Header::GENERATION1 as u64, self.generation);
        self.store(Header::GENERATION2 as u64, self.generation);
        self.changed = false;
        self.resting_labels.announced(Instant::now());
    }

    fn toc_entry(&self, kind: SectionKind) -> TocEntry {
        let count = self.used[kind as usize].cast_signed();
        TocEntry { kind: kind.code(), count, offset: self.room.at(kind, 0) }
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

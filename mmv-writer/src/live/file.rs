//! The file of a live registry: entries appended, counts raised, generations
//! stored. See `docs/decisions/005-growth.md` for the order and its reasons.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use zerocopy::IntoBytes;

use super::room::{Room, TOC_ORDER};
use crate::Error;
use crate::layout::{Header, STRING_BYTES, SectionKind, TocEntry, Version, nul_padded};
use crate::mapping::Segment;
use crate::publish::{Identity, Published, Temporary, allocate, next_generation};

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
}

impl LiveFile {
    /// Creates and publishes an empty file.
    pub(super) fn create(
        directory: &Path,
        name: &str,
        identity: &Identity,
        room: Room,
    ) -> Result<(Self, Published), Error> {
        let temporary = Temporary::create(directory, name)?;
        let path = temporary.path().to_owned();
        let file = Arc::clone(temporary.file());
        file.set_len(room.end()).map_err(Error::io("set size", &path))?;
        let used = [0; 6];
        let allocated = SectionKind::ALL.map(|kind| room.at(kind, 0));
        allocate(&file, 0, allocated.into_iter().min().unwrap_or(PIECE))
            .map_err(Error::io("allocate", &path))?;
        let segment = Segment::map(&file, 0, room.end() as usize);
        let segment = Arc::new(segment.map_err(Error::io("map", &path))?);
        let generation = next_generation(&identity.path);
        let path = identity.path.clone();
        let process = std::process::id();
        let file = Some(file);
        let live = Self { path, file, process, segment, room, used, allocated, generation };
        let toc = TOC_ORDER.map(|kind| live.toc_entry(kind));
        live.write(0, &identity.head(Version::V3, generation, &toc));
        live.store(Header::GENERATION2 as u64, generation);
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
        };
        Ok((live, published))
    }

    /// The mapping of the whole file.
    pub(super) fn segment(&self) -> &Arc<Segment> {
        &self.segment
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
        let found = std::process::id();
        if found != self.process {
            let path = self.path.clone();
            return Err(Error::Forked { path, created: self.process, found });
        }
        let max = self.room.capacity(kind);
        let used = self.used[kind as usize];
        let end = u32::try_from(count).ok().and_then(|count| used.checked_add(count));
        let Some(end) = end.filter(|end| *end <= max) else {
            return Err(Error::Full { what: plural(kind), max, name: name.to_owned() });
        };
        let wanted = self.room.at(kind, end);
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
        self.write_string(at, text);
        at
    }

    /// Writes a string entry, checked to fit.
    pub(super) fn write_string(&self, at: u64, text: &str) {
        let bytes: [u8; STRING_BYTES] = nul_padded(text.as_bytes()).unwrap_or([0; STRING_BYTES]);
        self.write(at, &bytes);
    }

    /// Writes an entry, or other whole words.
    pub(super) fn write(&self, at: u64, bytes: &[u8]) {
        let word = |chunk: &[u8]| chunk.try_into().map_or(0, u64::from_ne_bytes);
        let words: Vec<u64> = bytes.chunks(8).map(word).collect();
        let inside = self.segment.copy_in(at as usize, &words);
        debug_assert!(inside, "{} words at {at}", words.len());
    }

    /// Stores a word behind all that was written before.
    pub(super) fn store(&self, at: u64, word: u64) {
        let inside = self.segment.store_u64(at as usize, word, Ordering::Release);
        debug_assert!(inside, "a word at {at}");
    }

    /// Shows readers what was appended: counts, then a new generation.
    ///
    /// Generation 2 is never 0 and differs from generation 1 for two
    /// instructions only: PCP's reader drops a file it finds so, and gives the
    /// files behind it other clusters.
    pub(super) fn announce(&mut self) {
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

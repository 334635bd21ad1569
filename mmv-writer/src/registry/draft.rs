//! The file of a sealed registry until it is published.
//!
//! Values get their cells in chunks of 64 KiB, each allocated (`posix_fallocate`)
//! before it is mapped: a full disk fails here, and not as a SIGBUS when the
//! program counts. Publication writes everything else around the cells,
//! generation 2 last, and renames the file.
//!
//! The values come first, right after the room for six table entries, so that a
//! value's place is known when it is registered, whatever is registered after it:
//!
//! | at | what |
//! |---|---|
//! | 0 | header |
//! | 40 | table of contents, up to six entries |
//! | 136 | unused |
//! | 160 | values, 32 bytes each |
//! | after them | indoms, instances, metrics, strings, labels, without gaps |

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use mmv_format::content::{self, Content, Image, Value};
use mmv_format::file::{PublishedFile, TemporaryFile, allocate, next_generation};
use mmv_format::layout::{
    EXTRA_OFFSET, Flags, Header, INSTANCE_OFFSET, METRIC_OFFSET, NAME_BYTES, STRING_BYTES,
    TocEntry, ValueEntry, Version,
};

use crate::Error;
use crate::identity::FileIdentity;
use crate::mapping::{CellStrip, LockRegistration, Segment};
use crate::metric::{SharedText, ValueSlot};
use crate::published::{PublicationGuard, check_process, unless_lenient};
use crate::registration::{
    LabelRecord, MetricRecord, Need, RegisteredIndom, Store, ValueShape, version_for_name,
};
use crate::system::write_all_at;

/// Number of bytes that are allocated and mapped at a time. A multiple of the page size and of the
/// size of a value entry: no entry crosses from one chunk into the next.
const CHUNK: u64 = 64 << 10;

/// Offset of the values section: the first multiple of a value entry's size after the header and
/// six table entries.
const VALUES_AT: u64 = 160;

const _: () = assert!(Header::BYTES + 6 * TocEntry::BYTES <= VALUES_AT as usize);
const _: () = assert!(VALUES_AT.is_multiple_of(size_of::<ValueEntry>() as u64));

#[derive(Debug)]
pub(super) struct Draft {
    identity: FileIdentity,
    /// `None` if there is no file and the values are private.
    temporary: Option<(TemporaryFile, LockRegistration)>,
    /// True to continue without a file if the system refuses one.
    lenient: bool,
    /// Consecutive chunks from the start of the file.
    chunks: Vec<Arc<Segment>>,
    /// Values are in the order of their cells in the file. One that is not in use leaves a cache
    /// line to its neighbour. Labels are added when the file is written.
    content: Content<String>,
    /// The texts of string values, in the order of the values.
    texts: Vec<Arc<SharedText>>,
}

pub(super) struct DraftMetric {
    /// Index of the metric in the content.
    index: usize,
    shape: ValueShape,
}

impl Store for Draft {
    type Settings = ();
    type Metric = DraftMetric;

    fn create(identity: &mut FileIdentity, (): &(), lenient: bool) -> Result<Self, Error> {
        let temporary = unless_lenient(identity.temporary(), lenient)?;
        let mut draft = Self {
            identity: identity.clone(),
            temporary,
            lenient,
            chunks: Vec::new(),
            content: Content::default(),
            texts: Vec::new(),
        };
        draft.grow()?;
        Ok(draft)
    }

    fn check_process(&self) -> Result<(), Error> {
        self.temporary().map_or(Ok(()), |file| check_process(file.process(), file.path()))
    }

    fn has_room(&self, _: &Need) -> bool {
        true
    }

    fn reserve(&mut self, need: &Need, _: &str) -> Result<(), Error> {
        let end = value_at(self.content.values.len() + need.values);
        while (self.chunks.len() as u64) * CHUNK < end {
            self.grow()?;
        }
        Ok(())
    }

    fn allow_absent(&mut self) {
        self.identity.flags = self.identity.flags.with(Flags::SENTINEL);
    }

    /// Returns the cells of the next values. If they cross from one chunk into the next, they are
    /// mapped once more, in one piece.
    fn next_strip(&mut self, shape: ValueShape, values: usize) -> Result<CellStrip, Error> {
        let first = self.next_index(shape);
        let last = first + values.saturating_sub(1) * shape.step();
        let start = value_at(first);
        let stride = shape.step() * ValueEntry::BYTES;
        let invalid = || Error::io("place values", self.path())(io::ErrorKind::InvalidInput.into());
        if start / CHUNK == value_at(last) / CHUNK {
            let strip = self.locate(start).and_then(|(chunk, at)| chunk.strip(at, stride, values));
            return strip.ok_or_else(invalid);
        }
        let bytes = (value_at(last + 1) - start) as usize;
        let segment = match self.temporary() {
            Some(temporary) => Segment::map(temporary.file(), start, bytes),
            None => Segment::anonymous(bytes),
        };
        let segment = segment.map_err(Error::io("map", self.path()))?;
        Arc::new(segment).strip(0, stride, values).ok_or_else(invalid)
    }

    fn add_indom(&mut self, indom: &RegisteredIndom, serial: u32) {
        let record = &indom.record;
        let members = record.members.iter().map(|(id, name)| (id.get(), name.clone()));
        let instances = members.collect();
        let help = record.help.clone();
        self.content.indoms.push(content::IndomContent { serial, help, instances });
    }

    fn add_metric(&mut self, metric: MetricRecord, shape: ValueShape) -> DraftMetric {
        self.content.metrics.push(metric);
        DraftMetric { index: self.content.metrics.len() - 1, shape }
    }

    /// Does nothing: labels are written when the file is published.
    fn add_label(&mut self, _: &LabelRecord) {}

    fn add_value(&mut self, metric: &DraftMetric) -> ValueSlot {
        self.append_value(metric, None)
    }

    fn add_values(&mut self, metric: &DraftMetric, _: &RegisteredIndom) -> Vec<ValueSlot> {
        let serial = self.content.metrics[metric.index].indom;
        let instances = self.content.instances_of(serial).unwrap_or_default();
        instances.map(|instance| self.append_value(metric, Some(instance))).collect()
    }
}

impl Draft {
    fn path(&self) -> &Path {
        self.temporary().map_or(Path::new(""), TemporaryFile::path)
    }

    fn temporary(&self) -> Option<&TemporaryFile> {
        self.temporary.as_ref().map(|(file, _)| file)
    }

    fn next_index(&self, shape: ValueShape) -> usize {
        let next = self.content.values.len();
        let line = (shape.step() * ValueEntry::BYTES) as u64;
        if value_at(next).is_multiple_of(line) { next } else { next + 1 }
    }

    /// Adds a value, for which there is a chunk.
    fn append_value(&mut self, metric: &DraftMetric, instance: Option<usize>) -> ValueSlot {
        let DraftMetric { index, shape } = *metric;
        let at = self.next_index(shape);
        let text = shape.is_text.then(Arc::<SharedText>::default);
        self.texts.extend(text.clone());
        let values = &mut self.content.values;
        values.resize_with(at, || None);
        values.push(Some(Value { metric: index, instance, is_text: shape.is_text }));
        values.resize_with(at + shape.step(), || None);
        let slot = ValueSlot::new(text, |field| {
            let (chunk, at) = self.locate(value_at(at) + field)?;
            chunk.cell(at)
        });
        slot.reset(shape.optional);
        slot
    }

    /// Returns the chunk of an offset in the file, and the offset in the chunk.
    fn locate(&self, offset: u64) -> Option<(&Arc<Segment>, usize)> {
        let chunk = self.chunks.get((offset / CHUNK) as usize)?;
        Some((chunk, (offset % CHUNK) as usize))
    }

    /// Allocates and maps one more chunk.
    fn grow(&mut self) -> Result<(), Error> {
        let offset = self.chunks.len() as u64 * CHUNK;
        let chunk = self.temporary().map(|temporary| map_chunk(temporary, offset));
        let chunk = unless_lenient(chunk.transpose(), self.lenient)?.flatten();
        if chunk.is_none() {
            self.temporary = None;
        }
        let chunk = chunk.unwrap_or_else(|| Segment::private(CHUNK as usize / 8));
        self.chunks.push(Arc::new(chunk));
        Ok(())
    }

    /// Writes everything except the cells, which are there, and renames the file.
    pub(super) fn publish(
        mut self,
        pinned: Option<Version>,
        labels: &[LabelRecord],
    ) -> Result<PublicationGuard, Error> {
        let Some((mut temporary, lock)) = self.temporary.take() else {
            return Ok(PublicationGuard::unpublished(&self.identity.path));
        };
        self.content.labels = labels.iter().map(LabelRecord::entry).collect();
        let mut published = self.publish_file(&mut temporary, pinned);
        while let Err(error) = &published
            && self.leave_taken_name(error, pinned)
        {
            published = self.publish_file(&mut temporary, pinned);
        }
        let path = &self.identity.path;
        Ok(match unless_lenient(published, self.lenient)? {
            Some((file, generation)) => PublicationGuard::new(file, lock, path, generation),
            None => PublicationGuard::unpublished(path),
        })
    }

    /// Writes and renames the file, and returns it with its generation.
    fn publish_file(
        &self,
        temporary: &mut TemporaryFile,
        pinned: Option<Version>,
    ) -> Result<(PublishedFile, u64), Error> {
        let path = temporary.path().to_owned();
        check_process(temporary.process(), &path)?;
        let version = pinned.unwrap_or_else(|| self.lowest_version());
        let image = self.content.encode(version, Some(VALUES_AT));
        let file = temporary.file();
        self.write_around_cells(file, &image).map_err(Error::io("write", &path))?;
        self.place_texts(file, &image).map_err(Error::io("map", &path))?;
        let generation = next_generation(&self.identity.path);
        let head = self.identity.head(version, generation, &image.toc);
        write_all_at(file, &head, 0).map_err(Error::io("write", &path))?;
        // With release order: a reader that sees it sees everything else.
        self.store(Header::GENERATION2 as u64, generation, Ordering::Release)
            .map_err(Error::io("write", &path))?;
        Ok((PublicationGuard::rename(temporary, &self.identity)?, generation))
    }

    /// Changes to another name of the file if another user has taken this one, or had it when
    /// publication failed with `error`. The metrics keep their names. Returns false if the name is
    /// not taken, or metric names would be too long in the file.
    fn leave_taken_name(&mut self, error: &Error, pinned: Option<Version>) -> bool {
        let before = self.identity.prefix.len();
        if !self.identity.leave_taken_name(Some(error)) {
            return false;
        }
        // The names have the prefix that the identity had when they were registered.
        let added = self.identity.prefix.get(before..).unwrap_or_default();
        for metric in &mut self.content.metrics {
            metric.name.insert_str(0, added);
        }
        // What is set from now on must not be written to where texts were.
        self.texts.iter().for_each(|text| text.displace());
        let mut names = self.content.metrics.iter().map(|metric| &metric.name);
        let longest = if pinned == Some(Version::V1) { NAME_BYTES } else { STRING_BYTES };
        names.all(|name| name.len() < longest)
    }

    fn lowest_version(&self) -> Version {
        if !self.content.labels.is_empty() {
            return Version::V3;
        }
        let names = self.content.metrics.iter().map(|metric| &metric.name);
        let names = names.chain(self.content.instance_names());
        names.map(|name| version_for_name(name)).max().unwrap_or(Version::V1)
    }

    /// Sets the final size of the file, and writes the sections after the values and the links of
    /// the values.
    fn write_around_cells(&self, file: &File, image: &Image) -> io::Result<()> {
        let tail = [image.metadata.as_slice(), &image.texts].concat();
        let tail_at = value_at(image.values.len());
        let file_len = tail_at + tail.len() as u64;
        // The chunks end after the last value; nothing is in between, so nothing is
        // lost, and no cell is beyond the new end.
        file.set_len(file_len)?;
        allocate(file, 0, file_len)?;
        write_all_at(file, &tail, tail_at)?;
        for (index, value) in image.values.iter().enumerate() {
            let entry = value_at(index);
            // Only a text needs one. Others have it already: an interval may be running in it.
            if value.extra != 0 {
                self.store(entry + EXTRA_OFFSET, value.extra.cast_unsigned(), Ordering::Relaxed)?;
            }
            self.store(entry + METRIC_OFFSET, value.metric, Ordering::Relaxed)?;
            self.store(entry + INSTANCE_OFFSET, value.instance, Ordering::Relaxed)?;
        }
        Ok(())
    }

    /// Moves the texts of string values into the strings section.
    fn place_texts(&self, file: &Arc<File>, image: &Image) -> io::Result<()> {
        if self.texts.is_empty() {
            return Ok(());
        }
        let bytes = self.texts.len() * STRING_BYTES;
        let segment = Arc::new(Segment::map(file, image.value_texts, bytes)?);
        for (index, text) in self.texts.iter().enumerate() {
            if !text.place(&segment, index * STRING_BYTES) {
                return Err(io::ErrorKind::InvalidInput.into());
            }
        }
        Ok(())
    }

    fn store(&self, offset: u64, value: u64, order: Ordering) -> io::Result<()> {
        let stored = self.locate(offset).map(|(chunk, at)| chunk.store_u64(at, value, order));
        if stored == Some(true) { Ok(()) } else { Err(io::ErrorKind::InvalidInput.into()) }
    }
}

fn map_chunk(temporary: &TemporaryFile, offset: u64) -> Result<Segment, Error> {
    let path = temporary.path();
    allocate(temporary.file(), offset, CHUNK).map_err(Error::io("allocate", path))?;
    Segment::map(temporary.file(), offset, CHUNK as usize).map_err(Error::io("map", path))
}

/// Returns the offset of a value entry.
fn value_at(index: usize) -> u64 {
    VALUES_AT + (index * ValueEntry::BYTES) as u64
}

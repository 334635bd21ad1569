//! The producer's file: created under a temporary name, filled, published by
//! rename, withdrawn on drop.
//!
//! 1. A file `.NAME.PID-N.tmp` is created and locked (`flock`). Its name starts
//!    with a dot, so readers skip it. The lock tells a file that is being filled
//!    from one that a killed process left: the next start under the same name
//!    removes those whose lock is free.
//! 2. Values get their cells in chunks of 64 KiB, each allocated
//!    (`posix_fallocate`) before it is mapped: a full disk fails here, and not as
//!    a SIGBUS when the program counts.
//! 3. Publication writes the rest, generation 2 last, and renames.

mod temporary;

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Once};
use std::time::{SystemTime, UNIX_EPOCH};

use nix::errno::Errno;
use nix::fcntl::{Flock, posix_fallocate};
use nix::libc::O_NONBLOCK;
pub(crate) use temporary::Temporary;
use zerocopy::{FromBytes, IntoBytes};

use crate::Error;
use crate::layout::{
    EXTRA_OFFSET, Flags, Header, INSTANCE_OFFSET, MAGIC, METRIC_OFFSET, STRING_BYTES, TocEntry,
    Version,
};
use crate::mapping::{Cell, Row, Segment};
use crate::plan::{Link, Plan, VALUE_BYTES, value_at};
use crate::registry::model::Model;

/// Bytes that are allocated and mapped at a time. A multiple of the page size,
/// and of a value entry: no entry crosses from one chunk into the next.
const CHUNK: u64 = 64 << 10;

/// What a file is to be: where, and the header's fields.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    /// The file's name.
    pub(crate) name: String,
    /// Where it is, under that name.
    pub(crate) path: PathBuf,
    pub(crate) cluster: u32,
    pub(crate) flags: Flags,
    /// What metric names in it begin with.
    pub(crate) prefix: String,
}

impl Identity {
    /// Creates the temporary file, after removing stale ones.
    pub(crate) fn temporary(&self) -> Result<Temporary, Error> {
        Temporary::create(self.path.parent().unwrap_or(Path::new("")), &self.name)
    }

    /// The header, with generation 2 still 0, and the table of contents.
    pub(crate) fn head(&self, version: Version, generation: u64, toc: &[TocEntry]) -> Vec<u8> {
        let header = Header {
            magic: MAGIC,
            version: version.code(),
            generation1: generation,
            generation2: 0,
            toc_count: toc.len() as i32,
            flags: self.flags.raw(),
            pid: std::process::id().cast_signed(),
            cluster: self.cluster.cast_signed(),
        };
        let mut head = header.as_bytes().to_vec();
        head.extend(toc.as_bytes());
        head
    }
}

/// A file that is being filled.
#[derive(Debug)]
pub(crate) struct Draft {
    /// `None`: there is no file, nobody will see the values.
    temporary: Option<Temporary>,
    /// Whether to go on without a file when the system refuses one.
    lenient: bool,
    /// The file's first chunks, one after the other.
    chunks: Vec<Arc<Segment>>,
}

impl Draft {
    /// Creates the temporary file, after removing stale ones.
    pub(crate) fn create(identity: &Identity, lenient: bool) -> Result<Self, Error> {
        let temporary = identity.temporary().map(Some);
        let temporary = unless_refused(temporary, lenient)?.flatten();
        let mut draft = Self { temporary, lenient, chunks: Vec::new() };
        draft.grow()?;
        Ok(draft)
    }

    /// Fails in a forked child: what it creates would be published by nobody.
    pub(crate) fn check_process(&self) -> Result<(), Error> {
        self.temporary.as_ref().map_or(Ok(()), Temporary::check_process)
    }

    /// The cell and the `extra` of the value of an index, in a file that grows
    /// to hold it.
    pub(crate) fn cells(&mut self, index: usize) -> Result<(Cell, Cell), Error> {
        loop {
            if let Some((chunk, at)) = self.locate(value_at(index)) {
                let extra = chunk.cell(at + EXTRA_OFFSET as usize);
                let missing = || io::Error::from(io::ErrorKind::InvalidInput);
                let cells = chunk.cell(at).zip(extra).ok_or_else(missing);
                let path = self.temporary.as_ref().map_or(Path::new(""), Temporary::path);
                return cells.map_err(Error::io("place value", path));
            }
            self.grow()?;
        }
    }

    /// The cells of `count` values from an index on, each `step` indexes behind the
    /// one before, in a file that grows to hold them.
    ///
    /// Where they cross from one chunk into the next they are mapped once more, in
    /// one piece.
    pub(crate) fn row(&mut self, first: usize, step: usize, count: usize) -> Result<Row, Error> {
        let last = first + count.saturating_sub(1) * step;
        self.cells(last)?;
        let start = value_at(first);
        let stride = step * VALUE_BYTES as usize;
        let path = self.temporary.as_ref().map_or(Path::new(""), Temporary::path);
        let invalid = || Error::io("place values", path)(io::ErrorKind::InvalidInput.into());
        if start / CHUNK == value_at(last) / CHUNK {
            let row = self.locate(start).and_then(|(chunk, at)| chunk.row(at, stride, count));
            return row.ok_or_else(invalid);
        }
        let Some(temporary) = &self.temporary else { return Ok(Row::detached(count)) };
        let bytes = value_at(last + 1) - start;
        let segment = Segment::map(temporary.file(), start, bytes as usize);
        let segment = segment.map_err(Error::io("map", path))?;
        Arc::new(segment).row(0, stride, count).ok_or_else(invalid)
    }

    /// The chunk of an offset of the file, and the offset in it.
    fn locate(&self, offset: u64) -> Option<(&Arc<Segment>, usize)> {
        let chunk = self.chunks.get((offset / CHUNK) as usize)?;
        Some((chunk, (offset % CHUNK) as usize))
    }

    /// Allocates and maps one more chunk.
    fn grow(&mut self) -> Result<(), Error> {
        let offset = self.chunks.len() as u64 * CHUNK;
        let chunk = self.temporary.as_ref().map(|temporary| map_chunk(temporary, offset));
        let chunk = unless_refused(chunk.transpose(), self.lenient)?.flatten();
        if chunk.is_none() {
            self.temporary = None;
        }
        let chunk = chunk.unwrap_or_else(|| Segment::private(CHUNK as usize / 8));
        self.chunks.push(Arc::new(chunk));
        Ok(())
    }

    /// Writes everything but the cells, which are there, and renames.
    pub(crate) fn publish(
        mut self,
        identity: &Identity,
        version: Version,
        model: &Model,
    ) -> Result<Published, Error> {
        let lenient = self.lenient;
        let Some(temporary) = self.temporary.take() else {
            return Ok(Published::unseen(&identity.path));
        };
        let published = self.publish_file(temporary, identity, version, model);
        Ok(unless_refused(published, lenient)?.unwrap_or_else(|| Published::unseen(&identity.path)))
    }

    fn publish_file(
        &self,
        temporary: Temporary,
        identity: &Identity,
        version: Version,
        model: &Model,
    ) -> Result<Published, Error> {
        temporary.check_process()?;
        let plan = Plan::new(model, version);
        let path = temporary.path().to_owned();
        let file = temporary.file();
        write_tail(file, &plan).map_err(Error::io("write", &path))?;
        self.write_links(&plan.links).map_err(Error::io("write", &path))?;
        settle_texts(file, &plan, model).map_err(Error::io("map", &path))?;
        let generation = next_generation(&identity.path);
        let head = identity.head(version, generation, &plan.toc);
        file.write_all_at(&head, 0).map_err(Error::io("write", &path))?;
        // With release order: whoever sees it sees all the rest.
        self.store(Header::GENERATION2 as u64, generation, Ordering::Release)
            .map_err(Error::io("write", &path))?;
        temporary.publish(&identity.path, generation)
    }

    /// Completes the value entries, around their cells.
    fn write_links(&self, links: &[Link]) -> io::Result<()> {
        for (index, link) in links.iter().enumerate() {
            let entry = value_at(index);
            let fields = [
                (EXTRA_OFFSET, link.extra),
                (METRIC_OFFSET, Some(link.metric)),
                (INSTANCE_OFFSET, Some(link.instance)),
            ];
            for (field, value) in fields {
                if let Some(value) = value {
                    self.store(entry + field, value, Ordering::Relaxed)?;
                }
            }
        }
        Ok(())
    }

    fn store(&self, offset: u64, value: u64, order: Ordering) -> io::Result<()> {
        let stored = self.locate(offset).map(|(chunk, at)| chunk.store_u64(at, value, order));
        if stored == Some(true) { Ok(()) } else { Err(io::ErrorKind::InvalidInput.into()) }
    }
}

/// A chunk of the file, with disk space.
fn map_chunk(temporary: &Temporary, offset: u64) -> Result<Segment, Error> {
    let path = temporary.path();
    allocate(temporary.file(), offset, CHUNK).map_err(Error::io("allocate", path))?;
    Segment::map(temporary.file(), offset, CHUNK as usize).map_err(Error::io("map", path))
}

/// Gives the file its final size and writes what stands behind the values.
fn write_tail(file: &File, plan: &Plan) -> io::Result<()> {
    let file_len = plan.file_len();
    // The chunks reach further than the last value; nothing is there, so
    // nothing is lost, and no cell is beyond the new end.
    file.set_len(file_len)?;
    allocate(file, 0, file_len)?;
    file.write_all_at(&plan.tail, plan.tail_at)
}

/// Moves the texts of string values into the strings section.
fn settle_texts(file: &Arc<File>, plan: &Plan, model: &Model) -> io::Result<()> {
    if plan.texts == 0 {
        return Ok(());
    }
    let bytes = plan.texts * STRING_BYTES;
    let segment = Arc::new(Segment::map(file, plan.texts_at, bytes)?);
    let texts = model.values.iter().flatten().filter_map(|value| value.text.as_ref());
    for (index, text) in texts.enumerate() {
        if !text.settle(&segment, index * STRING_BYTES) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
    }
    Ok(())
}

/// `None` instead of an [`Error::Io`], for those who would rather not be seen
/// than not run. Says so, once in the life of the process.
pub(crate) fn unless_refused<T>(
    result: Result<T, Error>,
    lenient: bool,
) -> Result<Option<T>, Error> {
    static WARN: Once = Once::new();
    match result {
        Err(error @ Error::Io { .. }) if lenient => {
            // A closed standard error is no reason to fail either.
            WARN.call_once(|| drop(writeln!(io::stderr(), "metrics will not be seen: {error}")));
            Ok(None)
        }
        result => result.map(Some),
    }
}

/// A published file. Readers have it until this is dropped, which withdraws it:
/// the file is removed, unless another one has taken its name meanwhile.
///
/// Handles stay valid after that; nobody reads them any more. A forked child
/// withdraws nothing.
#[derive(Debug)]
#[must_use = "dropping this withdraws the file"]
pub struct Published {
    path: PathBuf,
    /// `None`: there is none.
    file: Option<Flock<File>>,
    generation: u64,
    /// The process that published it, and alone may withdraw it.
    process: u32,
    /// The files that the registry went on in.
    further: Vec<Published>,
}

impl Published {
    /// Keeps further files until this one is withdrawn.
    pub(crate) fn with(mut self, further: Vec<Self>) -> Self {
        self.further = further;
        self
    }

    /// The files that the registry went on in when the first was full: `app.2` and
    /// so on, in order. Mostly there are none.
    pub fn further(&self) -> &[Self] {
        &self.further
    }

    /// What stands for a file that could not be made.
    pub(crate) fn unseen(path: &Path) -> Self {
        let process = std::process::id();
        Self { path: path.to_owned(), file: None, generation: 0, process, further: Vec::new() }
    }

    /// Whether there is a file. There is always one unless the registry was made
    /// [lenient](crate::RegistryBuilder::lenient).
    pub fn is_seen(&self) -> bool {
        self.file.is_some()
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The generation in its header: the time of publication in nanoseconds
    /// since 1970, made to differ from that of the file before it.
    pub fn generation(&self) -> u64 {
        self.generation
    }
}

impl Drop for Published {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            return;
        }
        let Some(file) = &self.file else { return };
        let (Ok(ours), Ok(there)) = (file.metadata(), self.path.symlink_metadata()) else {
            return;
        };
        if (ours.dev(), ours.ino()) == (there.dev(), there.ino()) {
            // Nobody is left to tell; a reader sees that the process is gone.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Allocates disk space, so that writing to the mapping cannot fail.
pub(crate) fn allocate(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    loop {
        match posix_fallocate(file, offset.cast_signed(), bytes.cast_signed()) {
            Err(Errno::EINTR) => {}
            other => return Ok(other?),
        }
    }
}

/// A generation for the file that takes the place of the one at `path`.
///
/// A reader knows a new content by its generation. Nanoseconds are enough to
/// tell two publications apart; the comparison covers a clock that was set back.
pub(crate) fn next_generation(path: &Path) -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = since_epoch.as_nanos() as u64;
    match open(path).as_ref().and_then(header_of) {
        Some(header) if header.generation1 == now => now + 1,
        _ => now.max(1),
    }
}

/// Opens a file that may be anybody's: without waiting, should it be a FIFO.
pub(crate) fn open(path: &Path) -> Option<File> {
    OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(path).ok()
}

/// The header of a file, if it is long enough to have one.
pub(crate) fn header_of(file: &File) -> Option<Header> {
    let mut bytes = [0; Header::BYTES];
    file.read_exact_at(&mut bytes, 0).ok()?;
    Header::read_from_bytes(&bytes).ok()
}

#[cfg(test)]
mod tests;

//! Samples as the records of an archive.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pcp_archive::prepared::RecordBuffer;
use pcp_archive::staging::Staging;
use pcp_archive::{ArchiveWriter, EncodeError, Timestamp, Version, WriterLabel, WriterOptions};

use super::Captured;
use crate::flight_recorder::{Chunk, Damaged, Hello, Reader, Shape};
use crate::housekeeping::Server;
use crate::logging::{Recorder, RecorderBuilder, mark_timestamp, prologue};
use crate::metadata::{Declared, RecordShape, needs_new_archive};
use crate::source::Values;

/// How large a data volume becomes: some of PCP's programs take no more than 2 GiB.
const VOLUME: u64 = 1_000_000_000;

/// Why samples are no archive.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// A sample is none.
    #[error(transparent)]
    Damaged(#[from] Damaged),
    /// A sample would not fit into a record.
    #[error(transparent)]
    Record(#[from] EncodeError),
    /// The archive cannot be written.
    #[error(transparent)]
    Archive(#[from] pcp_archive::Error),
}

/// An archive that is being made of samples.
#[derive(Debug)]
pub(super) struct Replay {
    base: PathBuf,
    label: WriterLabel,
    server: Server,
    since: Timestamp,
    staging: Staging,
    /// The archive, once there is something to write.
    archive: Option<Archive>,
    left_out: u64,
}

/// The current archive.
#[derive(Debug)]
struct Archive {
    writer: ArchiveWriter,
    declared: Declared,
    samples: u64,
    values: u64,
    first: Timestamp,
}

/// The values of a chunk, sample by sample.
struct Player {
    record_shape: RecordShape,
    values: Vec<Values>,
    builder: RecorderBuilder,
    recorder: Option<(Recorder, RecordBuffer)>,
}

impl Replay {
    /// An archive that will be called `base`, where it is staged.
    pub(super) fn new(hello: &Hello, base: &Path, staging: Staging) -> Self {
        let Hello { pid, server_pid, server_seqnum, since, .. } = *hello;
        Self {
            base: base.to_owned(),
            label: WriterLabel {
                pid,
                hostname: hello.host.as_str().into(),
                timezone: hello.timezone.as_str().into(),
                zoneinfo: hello.zoneinfo.as_str().into(),
            },
            server: Server { pid: server_pid, seqnum: server_seqnum },
            since: Timestamp::from_nanos(i128::from(since)),
            staging,
            archive: None,
            left_out: 0,
        }
    }

    /// Adds the samples of a chunk that are wanted.
    ///
    /// # Errors
    ///
    /// Any [`Error`].
    pub(super) fn add(&mut self, chunk: &Chunk) -> Result<(), Error> {
        let mut player = Player::new(&chunk.shape)?;
        let mut reader = Reader::new(&chunk.bytes);
        let mut timestamp = chunk.first;
        let mut after_gap = chunk.after_gap;
        while !reader.is_at_end() {
            let passed = reader.varint()?;
            timestamp = Timestamp::from_nanos(timestamp.as_nanos() + i128::from(passed));
            player.next(&mut reader)?;
            if timestamp < self.since {
                continue;
            }
            if let Some((values, record)) = player.record(timestamp, &chunk.there)? {
                self.write(chunk, std::mem::take(&mut after_gap), record)?;
                if let Some(archive) = &mut self.archive {
                    archive.samples += 1;
                    archive.values += values as u64;
                }
            }
        }
        Ok(())
    }

    fn write(
        &mut self,
        chunk: &Chunk,
        after_gap: bool,
        record: &RecordBuffer,
    ) -> Result<(), Error> {
        let timestamp = record.timestamp();
        let known = self.archive.as_ref();
        if known.is_some_and(|known| known.declared.renames(&chunk.shape.catalog)) {
            self.begin_again()?;
        }
        match self.append(&chunk.shape, after_gap, timestamp) {
            Err(error) if needs_new_archive(&error) => {
                self.begin_again()?;
                self.append(&chunk.shape, after_gap, timestamp)?;
            }
            result => result?,
        }
        if let Some(archive) = &mut self.archive {
            archive.writer.write_prepared(record)?;
        }
        Ok(())
    }

    /// All that has to be before the record.
    fn append(
        &mut self,
        shape: &Arc<Shape>,
        after_gap: bool,
        timestamp: Timestamp,
    ) -> Result<(), pcp_archive::Error> {
        if self.archive.is_none() {
            let options = WriterOptions { volume_bytes: Some(VOLUME), ..WriterOptions::default() };
            let hidden = self.staging.hidden();
            let mut writer = ArchiveWriter::create(hidden, self.label.clone(), options)?;
            prologue::write(&mut writer, &self.base, &self.label, self.server, timestamp)?;
            let (declared, first) = (Declared::default(), timestamp);
            self.archive = Some(Archive { writer, declared, samples: 0, values: 0, first });
        }
        let Some(archive) = &mut self.archive else { return Ok(()) };
        let last = archive.writer.last_timestamp().filter(|_| after_gap);
        if let Some(mark) = last.and_then(|last| mark_timestamp(last, timestamp)) {
            archive.writer.write_mark(mark)?;
        }
        archive.declared.declare(&shape.catalog, &mut archive.writer)
    }

    /// A metric means one thing within an archive: what was before goes.
    fn begin_again(&mut self) -> Result<(), pcp_archive::Error> {
        let Some(archive) = self.archive.take() else { return Ok(()) };
        self.left_out += archive.samples;
        self.staging.clear()
    }

    /// Gives the archive its name. `None` if there is no sample.
    ///
    /// # Errors
    ///
    /// As the writer's and [`Staging::commit`]'s.
    pub(super) fn finish(self) -> Result<Option<Captured>, pcp_archive::Error> {
        let Some(mut archive) = self.archive else { return Ok(None) };
        archive.writer.sync()?;
        let summary = archive.writer.finish()?;
        self.staging.commit()?;
        let last = summary.span.map_or(archive.first, |(_, last)| last);
        Ok(Some(Captured {
            base: self.base,
            samples: archive.samples,
            values: archive.values,
            bytes: summary.bytes,
            span: (archive.first, last),
            left_out: self.left_out,
        }))
    }
}

impl Player {
    fn new(shape: &Shape) -> Result<Self, Damaged> {
        let (record_shape, values) = shape.unfold().ok_or(Damaged)?;
        let builder = RecorderBuilder::new(Version::V3);
        Ok(Self { record_shape, values, builder, recorder: None })
    }

    /// Goes on to the next sample.
    fn next(&mut self, reader: &mut Reader<'_>) -> Result<(), Damaged> {
        if reader.sample(&mut self.values)? {
            self.recorder = None;
        }
        Ok(())
    }

    /// The record of this sample, and how many values it has; `None` if there is
    /// nothing to record.
    fn record(
        &mut self,
        timestamp: Timestamp,
        there: &[bool],
    ) -> Result<Option<(usize, &RecordBuffer)>, Error> {
        let is_there = |number: usize| there.get(number).copied().unwrap_or(false);
        let values = self.values.iter().enumerate();
        let values = values.map(|(number, values)| is_there(number).then_some(values));
        let values: Vec<Option<&Values>> = values.collect();
        if self.recorder.is_none() {
            let Some(recorder) = self.builder.build(&self.record_shape, &values)? else {
                return Ok(None);
            };
            let buffer = recorder.new_buffer();
            self.recorder = Some((recorder, buffer));
        }
        let Some((recorder, buffer)) = &mut self.recorder else { return Ok(None) };
        let fits = recorder.record(timestamp, &values, buffer);
        debug_assert!(fits, "a string changed its length without being noticed");
        Ok(fits.then_some((recorder.values(), &*buffer)))
    }
}

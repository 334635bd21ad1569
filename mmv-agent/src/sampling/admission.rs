//! Which files may be harvested, and with which cluster.
//!
//! In comes the name of a file; out goes a source with its metadata in the terms of
//! PCP, or the reason why it is rejected.
//!
//! Invariant: all files together stay within the limits on files, descriptors and
//! values, and reading a file's metadata again costs a tenth of a processor at most.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use mmv_format::view::{self, Contents};

use super::active_source::ActiveSource;
use super::reporter::{Reporter, warn_left_out};
use crate::config::Limits;
use crate::discovery::{FileId, Producer, TokenBucket, descriptor_budget};
use crate::housekeeping::{FileProducer, Memory};
use crate::metadata::{Assignments, Claim, ClusterAllocator, Collision, items, translate};
use crate::source::{MAX_DESCRIPTORS, RejectReason, Source};

/// Bytes of one file's metadata that may be read at once, and per second after that:
/// about a tenth of a processor. It is meant for files whose metadata changes at each
/// tick, and lets a program grow by thousands of instances a second.
const READ_BURST: f64 = 256e6;
const READ_PER_SECOND: f64 = 32e6;

/// The cost of opening a file, whatever its size, in bytes read.
pub(super) const COST_OF_OPENING: f64 = 10e3;

/// About the cost of reading metadata, in bytes.
fn cost(contents: &Contents) -> f64 {
    let instances: usize = contents.indoms.iter().map(|indom| indom.instances.len()).sum();
    let bytes = contents.metrics.len() * 300
        + instances * 100
        + contents.values.len() * 40
        + contents.labels.len() * 500;
    COST_OF_OPENING + bytes as f64
}

/// The process that feeds a source, if its header names one.
fn producer(source: &Source) -> Option<Producer> {
    let process = source.process()?;
    let (pid, started) = (process.pid, process.started);
    Some(Producer { pid, generation: source.generation, started, ended: false })
}

/// How much of what is limited some sources use.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Usage {
    files: usize,
    descriptors: u64,
    values: usize,
}

impl Usage {
    /// Adds a source.
    pub(super) fn add(&mut self, source: &Source) {
        self.files += 1;
        self.descriptors += source.descriptors();
        self.values += source.plan().len();
    }
}

/// Decides which files are harvested.
#[derive(Debug)]
pub(super) struct Admission {
    directory: PathBuf,
    /// The agent's own file.
    own: Option<OsString>,
    /// The limits for files that are opened from now on.
    pub(super) limits: Limits,
    /// How many descriptors the sources may have together.
    descriptors: u64,
    /// Limits how often metadata is read, by the name of the file.
    reading: HashMap<OsString, TokenBucket>,
    clusters: ClusterAllocator,
    /// The process of each file that has one and was harvested: another process with
    /// its number does not revive the file.
    producers: HashMap<FileId, Producer>,
}

impl Admission {
    /// Admits files of a directory, of which one may be the agent's `own`, with the
    /// clusters and processes of an earlier run.
    pub(super) fn new(
        directory: PathBuf,
        own: Option<OsString>,
        limits: Limits,
        memory: Memory,
    ) -> Self {
        let Memory { clusters, used, numbers: items, harvested: _, fed } = memory;
        Self {
            directory,
            own,
            limits,
            descriptors: descriptor_budget::available(),
            reading: HashMap::new(),
            clusters: ClusterAllocator::of(Assignments { clusters, used, items }),
            producers: fed.iter().map(FileProducer::parts).collect(),
        }
    }

    /// Another number of descriptors.
    #[cfg(test)]
    pub(super) fn set_descriptors(&mut self, descriptors: u64) {
        self.descriptors = descriptors;
    }

    /// Another limit on reading a file's metadata.
    #[cfg(test)]
    pub(super) fn set_reading(&mut self, name: &str, bucket: TokenBucket) {
        self.reading.insert(name.into(), bucket);
    }

    /// Forgets files that are not listed any more.
    pub(super) fn retain(&mut self, listed: &HashSet<FileId>, now: Duration) {
        self.reading.retain(|_, bucket| !bucket.is_full(now));
        self.producers.retain(|id, _| listed.contains(id));
    }

    /// Opens a file, given the usage of all others.
    pub(super) fn open(
        &mut self,
        name: &OsStr,
        used: Usage,
        now: Duration,
    ) -> Result<(Source, Contents), RejectReason> {
        let (in_use, limit) = (used.descriptors, self.descriptors);
        if in_use + MAX_DESCRIPTORS > limit {
            return Err(RejectReason::NoDescriptor { used: in_use, limit });
        }
        let limit = self.limits.files;
        if used.files >= limit {
            return Err(RejectReason::Files { limit });
        }
        let path = self.directory.join(name);
        let (source, contents) =
            self.read(name, used, now, |limits| Source::open(&path, limits))?;
        let known = self.producers.get(&source.id);
        match producer(&source) {
            Some(now) if known.is_some_and(|known| known.is_other(now)) => {
                Err(RejectReason::NoProcess { pid: now.pid })
            }
            _ => {
                self.clusters.reserve(contents.header.cluster);
                Ok((source, contents))
            }
        }
    }

    /// Reads the metadata of a file that is open, given the usage of all others.
    pub(super) fn read_again(
        &mut self,
        name: &OsStr,
        source: &Source,
        used: Usage,
        now: Duration,
    ) -> Result<(Source, Contents), RejectReason> {
        let (source, contents) = self.read(name, used, now, |limits| source.again(limits))?;
        self.clusters.reserve(contents.header.cluster);
        Ok((source, contents))
    }

    /// Reads a file's metadata, unless that has cost too much already.
    fn read(
        &mut self,
        name: &OsStr,
        used: Usage,
        now: Duration,
        read: impl FnOnce(view::Limits) -> Result<(Source, Contents), RejectReason>,
    ) -> Result<(Source, Contents), RejectReason> {
        let limits = view::Limits { bytes: self.limits.metadata_bytes };
        let new = || TokenBucket::new(READ_BURST, READ_PER_SECOND);
        let bucket = self.reading.entry(name.to_owned()).or_insert_with(new);
        if !bucket.has_any(now) {
            return Err(RejectReason::MetadataChurn);
        }
        let (source, contents) = read(limits).inspect_err(|_| {
            // It is unknown how much was read; the pauses between tries grow as well.
            bucket.take(COST_OF_OPENING);
        })?;
        bucket.take(cost(&contents));
        let (values, limit) = (source.plan().len(), self.limits.values);
        if used.values.saturating_add(values) > limit {
            return Err(RejectReason::Values { values, limit });
        }
        Ok((source, contents))
    }

    /// Gives a source its cluster, and reports what of it is left out unless `known`,
    /// its former self, had the same left out.
    pub(super) fn admit(
        &mut self,
        name: &OsStr,
        source: Source,
        contents: &Contents,
        known: Option<&ActiveSource>,
        reporter: &mut Reporter,
    ) -> Result<ActiveSource, Collision> {
        let (items, misnamed) = items(name, contents);
        let claim = Claim {
            file: name.to_owned(),
            cluster: contents.header.cluster,
            owner: source.owner,
            items,
            own: self.own.as_deref() == Some(name),
        };
        let placement = self.clusters.place(&claim)?;
        if let Some(collision) = &placement.moved {
            reporter.moved(name, placement.cluster, collision);
        }
        let pid = source.process().map(|process| process.pid);
        reporter.events.admitted(name, pid, contents.values.len());
        self.producers.extend(producer(&source).map(|process| (source.id, process)));
        let translation = translate(contents, &claim.items, &placement);
        let left_out = contents.skipped.len() + contents.unlisted + misnamed.len();
        let known = known.map_or(0, |known| known.left_out);
        if left_out != known && reporter.may_log() {
            warn_left_out(name, contents.skipped.iter(), contents.unlisted);
            warn_left_out(name, misnamed.iter(), 0);
        }
        Ok(ActiveSource::new(name.to_owned(), source, translation, left_out))
    }

    /// A file is no longer harvested; its cluster stays remembered.
    pub(super) fn release(&mut self, name: &OsStr) {
        self.clusters.release(name);
    }

    /// The process of a file has ended, and its last values were read.
    pub(super) fn note_end(&mut self, id: FileId) {
        if let Some(producer) = self.producers.get_mut(&id) {
            producer.ended = true;
        }
    }

    /// The process of a file, if it was harvested until that ended.
    pub(super) fn ended_producer(&self, id: FileId) -> Option<Producer> {
        self.producers.get(&id).copied().filter(|producer| producer.ended)
    }

    /// What the next run needs, without the files under harvest; `now` in seconds since
    /// 1970. Files that were last harvested before `oldest` are forgotten.
    pub(super) fn remember(&mut self, now: i64, oldest: i64) -> Memory {
        let mut assignments = self.clusters.remember(now);
        if self.clusters.is_older(oldest) {
            self.clusters.forget(oldest);
            assignments = self.clusters.remember(now);
        }
        let Assignments { clusters, used, items: numbers } = assignments;
        let fed =
            self.producers.iter().map(|(id, process)| FileProducer::new(*id, *process)).collect();
        Memory { clusters, used, numbers, harvested: Vec::new(), fed }
    }
}

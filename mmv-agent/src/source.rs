//! One MMV file under harvest: its mapping and the values of the last pass.
//!
//! In comes the path of a file; out go its contents, checked once, and at each tick
//! its values, copied by the [`value_plan`] into [`values`].
//!
//! Invariant: nothing that is read from the mapping is used as offset, count or
//! length after the plan was made.

mod value_plan;
mod values;

pub(crate) use value_plan::{TEXT_BYTES, ValuePlan, low_half};
pub(crate) use values::Values;

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use mmv_format::layout;
use mmv_format::mapping::ReadMapping;
use mmv_format::view::{Contents, Cost, Flags, Limits, Refusal};

use crate::discovery::{FileId, FileState, Process, directory};

/// The most file descriptors that a [`Source`] keeps.
pub(crate) const MAX_DESCRIPTORS: u64 = 2;

/// Why a file is not harvested for now.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RejectReason {
    /// It cannot be opened.
    #[error("cannot be opened: {0}")]
    Open(io::Error),
    /// Its metadata is refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// It cannot be mapped.
    #[error("cannot be mapped: {0}")]
    Map(io::Error),
    /// Its size changed while it was read.
    #[error("its size changed from {expected} to {found} while it was read")]
    Resized {
        /// The size when its metadata was read.
        expected: u64,
        /// The size when it was mapped.
        found: u64,
    },
    /// Other files use all descriptors that the system allows.
    #[error("no file descriptor is left for it: other files have {used} of {limit}")]
    NoDescriptor {
        /// How many they have.
        used: u64,
        /// How many there are for harvested files.
        limit: u64,
    },
    /// The limit on files is reached.
    #[error("{limit} files are harvested already, which is the limit")]
    Files {
        /// The limit.
        limit: usize,
    },
    /// It would have too many values.
    #[error("with its {values} values there would be more than the limit of {limit}")]
    Values {
        /// How many it has.
        values: usize,
        /// The limit, for all files together.
        limit: usize,
    },
    /// Its values would take too much address space.
    #[error("{needed} bytes up to its last value would be mapped, and {limit} are left")]
    Mapped {
        /// Bytes from its start to its last value.
        needed: u64,
        /// How many more may be mapped.
        limit: u64,
    },
    /// The metadata of all files together would be too large.
    #[error("with its metadata there would be more than the {limit} bytes allowed for all files")]
    MetadataTotal {
        /// The limit.
        limit: u64,
    },
    /// The system has no memory for its values.
    #[error("no memory is left for its {values} values")]
    NoMemory {
        /// How many it has.
        values: usize,
    },
    /// The files of its user use too much.
    #[error("files of user {user} have their share of {unit}, {limit}")]
    Share {
        /// The user.
        user: u32,
        /// What there is too much of.
        unit: &'static str,
        /// How much there may be.
        limit: u64,
    },
    /// Reading the metadata of its user's files has cost too much.
    #[error("reading the metadata of files of user {user} costs too much")]
    Loading {
        /// The user.
        user: u32,
    },
    /// It was replaced by a file of another user.
    #[error("its owner changed while it was opened")]
    OwnerChanged,
    /// Its metadata was read too often.
    #[error("its metadata changes so often that reading it costs too much")]
    MetadataChurn,
    /// The process that feeds it has ended.
    #[error("its process {pid} is gone")]
    NoProcess {
        /// The process number in the header.
        pid: i32,
    },
}

impl RejectReason {
    /// The state of a file that is rejected for this reason.
    pub(crate) fn state(&self) -> FileState {
        match self {
            _ if self.is_transient() => FileState::Waiting,
            Self::NoDescriptor { .. }
            | Self::Files { .. }
            | Self::Values { .. }
            | Self::Mapped { .. }
            | Self::MetadataTotal { .. }
            | Self::NoMemory { .. }
            | Self::Share { .. }
            | Self::Loading { .. }
            | Self::NoProcess { .. } => FileState::Waiting,
            _ => FileState::Quarantined,
        }
    }

    /// Whether a file that is being written looks like this: nothing is wrong unless it
    /// lasts.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Refused(refusal) => refusal.is_not_ready() || refusal.is_just_created(),
            Self::Resized { .. } | Self::OwnerChanged => true,
            // Unlinked between the listing and now.
            Self::Open(error) => error.kind() == io::ErrorKind::NotFound,
            _ => false,
        }
    }
}

/// Why what was read in a pass may not be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    /// The mapping was cut away under the pass (SIGBUS).
    #[error("it was truncated while it was read")]
    Dead,
    /// The generations are no longer those of the metadata.
    #[error("its generation changed from {expected} to {generation1} and {generation2}")]
    Generation {
        /// The generation that was resolved.
        expected: u64,
        /// Generation 1 now.
        generation1: u64,
        /// Generation 2 now.
        generation2: u64,
    },
    /// The file is shorter than when its metadata was read.
    #[error("it was truncated from {expected} to {found} bytes")]
    Truncated {
        /// The size then.
        expected: u64,
        /// The size now.
        found: u64,
    },
    /// The name is gone, or names another file.
    #[error("it was unlinked")]
    Unlinked,
}

impl Fault {
    /// Whether the file has new metadata: it may be read again.
    pub(crate) fn is_growth(self) -> bool {
        matches!(self, Self::Generation { .. })
    }
}

/// On which terms a file is opened, and what reading it has cost.
pub(crate) struct Terms<'a> {
    /// The limits on its metadata.
    pub limits: Limits,
    /// Whether a file with these contents may have this many bytes mapped, when reading it
    /// took this many bytes of memory.
    pub allow: &'a dyn Fn(&Contents, u64, u64) -> Result<(), RejectReason>,
    /// What reading the metadata has cost, also if the file was rejected.
    pub cost: Cost,
}

/// How many bytes of a file have to be mapped: up to the last one of a value.
fn mapped_bytes(contents: &Contents) -> u64 {
    let ends = contents.values.iter().map(|value| {
        let text = value.string.map_or(0, |at| at + TEXT_BYTES as u64);
        text.max(value.cell + layout::METRIC_OFFSET + 8)
    });
    ends.max().unwrap_or(0).max(layout::Header::BYTES as u64)
}

/// A file that is mapped and resolved.
#[derive(Debug)]
pub(crate) struct Source {
    file: File,
    /// Which file it is.
    pub id: FileId,
    /// The user who owns the file.
    pub owner: u32,
    /// The generation of its metadata.
    pub generation: u64,
    /// Bytes of memory that its metadata took when it was read.
    pub metadata: u64,
    sentinel: bool,
    /// The size of the file when its metadata was read.
    file_len: u64,
    mapping: ReadMapping,
    plan: ValuePlan,
    witness: Option<Witness>,
    process: Option<Arc<Process>>,
}

/// A word that no producer changes and that is not 0, after all values that are no strings:
/// the offset of the metric in the last entry of the values section.
///
/// Wherever a file is truncated, the rest of that page reads as zeros, and beyond it there
/// is SIGBUS. So this word is lost with any value, also if the file has its length again.
#[derive(Debug, Clone, Copy)]
struct Witness {
    at: usize,
    word: u64,
}

impl Witness {
    fn of(contents: &Contents, mapping: &ReadMapping) -> Option<Self> {
        let last = contents.values.iter().map(|value| value.cell).max()?;
        let at = usize::try_from(last + layout::METRIC_OFFSET).ok()?;
        let word = mapping.load_u64(at).filter(|word| *word != 0)?;
        Some(Self { at, word })
    }

    fn is_there(self, mapping: &ReadMapping) -> bool {
        mapping.load_u64(self.at) == Some(self.word)
    }
}

impl Source {
    /// Opens, reads, maps and resolves the file at `path`.
    ///
    /// # Errors
    ///
    /// Any [`RejectReason`].
    pub(crate) fn open(
        path: &Path,
        terms: &mut Terms<'_>,
    ) -> Result<(Self, Contents), RejectReason> {
        let file = directory::open(path).map_err(RejectReason::Open)?;
        Self::resolve(file, None, terms)
    }

    /// The same file, to be read again after its metadata changed.
    ///
    /// # Errors
    ///
    /// Any [`RejectReason`].
    pub(crate) fn again(&self, terms: &mut Terms<'_>) -> Result<(Self, Contents), RejectReason> {
        let file = self.file.try_clone().map_err(RejectReason::Open)?;
        Self::resolve(file, self.process.clone(), terms)
    }

    fn resolve(
        file: File,
        known: Option<Arc<Process>>,
        terms: &mut Terms<'_>,
    ) -> Result<(Self, Contents), RejectReason> {
        let metadata = file.metadata().map_err(RejectReason::Open)?;
        let (contents, cost) = Contents::read_at_cost(&file, &terms.limits);
        terms.cost = cost;
        let contents = contents?;
        let (header, needed) = (contents.header, mapped_bytes(&contents));
        (terms.allow)(&contents, needed, cost.memory)?;
        // One that became longer is about to grow.
        let found = file.metadata().map_err(RejectReason::Open)?.len();
        let resized = RejectReason::Resized { expected: header.file_len, found };
        if header.file_len > found {
            return Err(resized);
        }
        let mapping = ReadMapping::map_first(&file, needed).map_err(RejectReason::Map)?;
        let plan = ValuePlan::resolve(&contents, mapping.len()).ok_or(resized)?;
        let witness = Witness::of(&contents, &mapping);
        let process = match header.pid {
            pid if pid != 0 && header.flags.contains(Flags::PROCESS) => {
                // One that grew and has ended since has last values.
                Some(match known.filter(|known| known.pid == pid) {
                    Some(known) => known,
                    None => Arc::new(Process::find(pid).ok_or(RejectReason::NoProcess { pid })?),
                })
            }
            _ => None,
        };
        let source = Self {
            id: FileId::of(&metadata),
            owner: metadata.uid(),
            generation: header.generation,
            metadata: cost.memory,
            sentinel: header.flags.contains(Flags::SENTINEL),
            file_len: header.file_len,
            file,
            mapping,
            plan,
            witness,
            process,
        };
        Ok((source, contents))
    }

    /// Bytes of address space that it takes.
    pub(crate) fn mapped(&self) -> u64 {
        self.mapping.len() as u64
    }

    /// How many file descriptors it keeps.
    pub(crate) fn descriptors(&self) -> u64 {
        if self.process.is_some() { MAX_DESCRIPTORS } else { 1 }
    }

    /// Where its values are.
    pub(crate) fn plan(&self) -> &ValuePlan {
        &self.plan
    }

    /// The process that feeds it, if its header names one.
    pub(crate) fn process(&self) -> Option<&Process> {
        self.process.as_deref()
    }

    /// The same if it runs.
    pub(crate) fn running_process(&self) -> Option<Arc<Process>> {
        self.process.clone().filter(|process| process.is_alive())
    }

    /// Whether its values may still change: the process that feeds it is alive.
    pub(crate) fn is_fed(&self) -> bool {
        self.process.as_deref().is_none_or(Process::is_alive)
    }

    /// One pass over its values; see [`Values::read`]. They may be used only
    /// if [`check`](Self::check) has no fault afterwards.
    pub(crate) fn read(&self, values: &mut Values, micros: i64) -> bool {
        values.read(&self.plan, &self.mapping, micros, self.sentinel)
    }

    /// Whether what was read before this call is what the file's producer
    /// wrote under the metadata that was resolved.
    ///
    /// # Errors
    ///
    /// The [`Fault`].
    pub(crate) fn check(&self) -> Result<(), Fault> {
        let generations = self.mapping.generations();
        let is_whole = self.witness.is_none_or(|witness| witness.is_there(&self.mapping));
        if self.mapping.is_dead() {
            return Err(Fault::Dead);
        }
        let Ok(stat) = nix::sys::stat::fstat(&self.file) else { return Err(Fault::Unlinked) };
        if stat.st_nlink == 0 {
            return Err(Fault::Unlinked);
        }
        // A longer file is about to grow: what is mapped stays valid.
        let (expected, found) = (self.file_len, stat.st_size.cast_unsigned());
        if found < expected {
            return Err(Fault::Truncated { expected, found });
        }
        self.check_generations(generations)?;
        if is_whole { Ok(()) } else { Err(Fault::Dead) }
    }

    /// The same without a system call, which would cost more than reading a few values. A
    /// file that was unlinked, or truncated after its values, is not noticed.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check).
    pub(crate) fn check_values(&self) -> Result<(), Fault> {
        // Nothing is after the last string that would be lost with it.
        let witness = self.witness.filter(|_| self.plan.texts().is_empty());
        let generations = self.mapping.generations();
        let is_whole = witness.is_some_and(|witness| witness.is_there(&self.mapping));
        if is_whole && !self.mapping.is_dead() {
            self.check_generations(generations)
        } else {
            self.check()
        }
    }

    fn check_generations(&self, (generation1, generation2): (u64, u64)) -> Result<(), Fault> {
        let expected = self.generation;
        if generation1 == expected && generation2 == expected {
            Ok(())
        } else {
            Err(Fault::Generation { expected, generation1, generation2 })
        }
    }
}

#[cfg(test)]
mod tests;

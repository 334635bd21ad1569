//! One MMV file under harvest: its mapping and the values of the last pass.
//!
//! Input: the path of a file. Output: its contents, checked once, and at each tick its values,
//! copied by the [`value_plan`] into [`values`].
//!
//! Invariants: after the plan was made, nothing read from the mapping is used as an offset, count
//! or length. A value in use belonged to the metric and instance of the plan when it was read,
//! even if the file has other metadata by then.

mod active_source;
mod allowance;
mod file_gaps;
mod timed_file;
mod value_plan;
mod values;

pub(crate) use active_source::{ActiveSource, PassResult, SourceFinding, Ticket, usual_time};
pub(crate) use allowance::Allowance;
pub(crate) use file_gaps::{FileGaps, Gap, GapCause, GapChange};
pub(crate) use value_plan::{TEXT_BYTES, ValuePlan, low_half};
use values::ReadOptions;
pub(crate) use values::Values;

use std::cell::Cell;
use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use mmv_format::growth::{CellOwners, GrowingToc};
use mmv_format::layout;
use mmv_format::mapping::{PART_ALIGNMENT, ReadMapping};
use mmv_format::view::{Contents, Cost, Flags, Limits, Refusal};

use crate::discovery::{
    FileId, FileState, Process, descriptor_budget, directory, may_be_elsewhere,
};
use timed_file::TimedFile;

/// Number of loads after which the comparison of a grown file can be stopped. Up to three of them
/// concern one value, which may lie on two pages.
const LOADS_OF_A_STRETCH: u32 = 32;

/// Limit on the file descriptors that a [`Source`] keeps.
pub(crate) const MAX_DESCRIPTORS: u64 = 2;

/// The reason why a file is not harvested for now.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RejectReason {
    #[error("cannot be opened: {0}")]
    Open(io::Error),
    /// Another file system is mounted on it; its server may never answer.
    #[error("another file system is mounted on it")]
    Mounted,
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("cannot be mapped: {0}")]
    Map(io::Error),
    #[error("its size changed from {expected} to {found} while it was read")]
    Resized {
        /// Size when its metadata was read.
        expected: u64,
        /// Size when it was mapped.
        found: u64,
    },
    #[error("no file descriptor is left: other files use {used} of {limit}")]
    NoDescriptor {
        /// Number of descriptors that other files keep.
        used: u64,
        /// Number of descriptors for harvested files.
        limit: u64,
    },
    #[error("the limit of {limit} files is reached (limits.files)")]
    Files { limit: usize },
    #[error("adding its {values} values would exceed the limit of {limit} (limits.values)")]
    Values {
        values: usize,
        /// Limit for all files together.
        limit: usize,
    },
    #[error(
        "mapping {needed} bytes up to its last value would exceed the {limit} bytes that are left (limits.mapped)"
    )]
    Mapped {
        /// Bytes from its start to its last value.
        needed: u64,
        /// Bytes that may still be mapped.
        limit: u64,
    },
    #[error(
        "adding its metadata would exceed the limit of {limit} bytes for all files (limits.metadata-total)"
    )]
    MetadataTotal { limit: u64 },
    #[error("there is not enough memory for its {values} values")]
    NoMemory { values: usize },
    #[error(
        "user {user} has reached its limit of {limit} {unit} (limits.share, or the table owner.{user})"
    )]
    Share {
        user: u32,
        /// Unit of the exhausted resource.
        unit: &'static str,
        limit: u64,
    },
    #[error(
        "reading the metadata of user {user}'s files takes too much time at present; it is read later"
    )]
    Loading { user: u32 },
    #[error("it is already harvested under the name \"{name}\"", name = .name.display())]
    Linked { name: OsString },
    /// The open file is not the one that was listed.
    #[error("another file has taken its name")]
    Replaced,
    #[error("its owner changed while it was opened")]
    OwnerChanged,
    #[error("its metadata changes too often to be read after each change; it is read again later")]
    MetadataChurn,
    /// The process that feeds it has ended.
    #[error("its process {pid} is gone")]
    NoProcess {
        /// The pid in the header.
        pid: i32,
    },
}

impl RejectReason {
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
            | Self::Linked { .. }
            | Self::NoProcess { .. } => FileState::Waiting,
            _ if self.is_shortage() => FileState::Waiting,
            _ => FileState::Quarantined,
        }
    }

    /// Returns true if the system lacks descriptors or memory.
    pub(crate) fn is_shortage(&self) -> bool {
        match self {
            Self::NoDescriptor { .. } | Self::NoMemory { .. } => true,
            Self::Open(error) | Self::Map(error) => descriptor_budget::is_shortage(error),
            _ => false,
        }
    }

    /// Returns true if the file changed while its metadata was read.
    pub(crate) fn is_growth(&self) -> bool {
        matches!(self, Self::Refused(Refusal::Changed { .. } | Refusal::Grew { .. }))
    }

    /// Returns true if a limit on the cost of reading metadata is reached.
    pub(crate) fn is_limit_on_cost(&self) -> bool {
        matches!(self, Self::Loading { .. } | Self::MetadataChurn)
    }

    /// Returns true if a limit on files, values, metadata, memory or address space is reached.
    pub(crate) fn is_lack_of_room(&self) -> bool {
        match self {
            Self::NoDescriptor { .. }
            | Self::Files { .. }
            | Self::Values { .. }
            | Self::Mapped { .. }
            | Self::MetadataTotal { .. }
            | Self::NoMemory { .. }
            | Self::Share { .. } => true,
            Self::Refused(refusal) => {
                matches!(refusal, Refusal::TooLarge { .. } | Refusal::NoMemory { .. })
            }
            _ => false,
        }
    }

    /// Returns true if a file that is being written looks like this. The reason is then reported
    /// only if it lasts.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Refused(refusal) => refusal.is_not_ready() || refusal.is_just_created(),
            Self::Resized { .. } | Self::Replaced | Self::OwnerChanged => true,
            // The file was unlinked after it was listed.
            Self::Open(error) => error.kind() == io::ErrorKind::NotFound,
            _ => false,
        }
    }
}

/// The reason why the values of a pass may not be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    /// The file was truncated during the pass (SIGBUS).
    #[error("it was truncated while it was read")]
    Dead,
    /// The generations are no longer those of the metadata.
    #[error("its generation changed from {expected} to {generation1} and {generation2}")]
    Generation {
        /// Generation of the known metadata.
        expected: u64,
        generation1: u64,
        generation2: u64,
    },
    /// The file is shorter than when its metadata was read.
    #[error("it was truncated from {expected} to {found} bytes")]
    Truncated {
        /// Size when its metadata was read.
        expected: u64,
        found: u64,
    },
}

impl Fault {
    /// Returns true if the file has new metadata and may be read again.
    pub(crate) fn is_new_metadata(self) -> bool {
        matches!(self, Self::Generation { .. })
    }
}

/// State of a file after a pass whose values may be used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PassReport {
    /// It has new metadata. The values are those of the metadata that was resolved.
    pub grown: bool,
    /// It has no name any more.
    pub unlinked: bool,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct PassOptions {
    /// Microseconds since 1970, for running timers.
    pub micros: i64,
    /// Also query size and links of the file, by a system call.
    pub stat: bool,
    /// Read the values of a growing file a second time if its generations change during the
    /// first pass. That is rare: a program changes them ten times in a second at most.
    pub retry: bool,
}

/// Limits on opening a file, and the cost of reading it.
pub(crate) struct OpenLimits<'a> {
    pub limits: Limits,
    /// Decides whether a file with these contents may be mapped; the other arguments are the bytes
    /// to be mapped, and the bytes of memory that reading it took.
    pub allow: &'a dyn Fn(&Contents, u64, u64) -> Result<(), RejectReason>,
    /// Finds the running process of a file by the number in its header.
    pub find_process: &'a dyn Fn(i32, &Metadata) -> Option<Process>,
    /// Read also a file whose process has ended.
    pub reads_ended: bool,
    /// Cost of reading the metadata, also if the file was rejected.
    pub cost: Cost,
}

/// Returns the number of bytes of a file that are mapped: up to the last value entry and text, and at least
/// the table of contents of a growing file.
fn mapped_bytes(contents: &Contents) -> u64 {
    let grows = contents.growing.is_some();
    let head = if grows { GrowingToc::END } else { layout::Header::BYTES };
    let ends = contents.values.iter().map(|value| {
        let text = value.string.map_or(0, |at| at + TEXT_BYTES as u64);
        text.max(value.cell + layout::ValueEntry::BYTES as u64)
    });
    ends.max().unwrap_or(0).max(head as u64)
}

/// Returns the extent of the instance entries of a growing file that lie beyond the `mapped` bytes.
/// They get a mapping of their own, as there may be megabytes of unused room in between.
fn instances_beyond(contents: &Contents, mapped: u64) -> Option<(u64, u64)> {
    contents.growing.as_ref()?;
    let entries = contents.values.iter().map(|value| value.instance_at);
    let beyond = entries.filter(|at| *at > 0 && CellOwners::end_of_instance(*at) > mapped);
    let first = beyond.clone().min()?;
    let end = beyond.max().map(CellOwners::end_of_instance)?;
    Some((first - first % PART_ALIGNMENT, end))
}

/// Data to validate the values of a growing file after it has grown.
#[derive(Debug)]
struct GrowthData {
    toc: GrowingToc,
    owners: CellOwners,
    /// Mapping of instance entries beyond the values, and its offset in the file.
    instances: Option<(usize, ReadMapping)>,
}

/// A file that is mapped and resolved.
#[derive(Debug)]
pub(crate) struct Source {
    file: File,
    /// Identity of the file.
    pub id: FileId,
    /// User charged for the file: its owner, or for root's file in another user's directory that
    /// user.
    pub owner: u32,
    pub generation: u64,
    /// Bytes of memory that its metadata took when it was read.
    pub metadata: u64,
    /// The requested cluster; 0 for any.
    pub cluster: u32,
    /// Metric names begin with the name of the file.
    pub prefixed: bool,
    sentinel: bool,
    /// The size of the file when its metadata was read.
    file_len: u64,
    mapping: ReadMapping,
    plan: ValuePlan,
    growing: Option<GrowthData>,
    /// The process had ended when the metadata was read: nothing is missing in it.
    is_complete: bool,
    canary: Option<TruncationCanary>,
    process: Option<Arc<Process>>,
}

/// A nonzero word behind all numeric values that no producer changes: the offset of the metric in
/// the last entry of the values section.
///
/// Wherever a file is truncated, the rest of that page reads as zeros, and access beyond it raises
/// SIGBUS. So this word is lost with any value, even if the file regains its length.
#[derive(Debug, Clone, Copy)]
struct TruncationCanary {
    at: usize,
    word: u64,
}

impl TruncationCanary {
    fn new(contents: &Contents, mapping: &ReadMapping) -> Option<Self> {
        let last = contents.values.iter().map(|value| value.cell).max()?;
        let at = usize::try_from(last + layout::METRIC_OFFSET).ok()?;
        let word = mapping.load_u64(at).filter(|word| *word != 0)?;
        Some(Self { at, word })
    }

    fn is_intact(self, mapping: &ReadMapping) -> bool {
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
        open_limits: &mut OpenLimits<'_>,
    ) -> Result<(Self, Contents), RejectReason> {
        let file = directory::open_file(path).map_err(|error| match error.kind() {
            io::ErrorKind::CrossesDevices => RejectReason::Mounted,
            _ => RejectReason::Open(error),
        })?;
        let (source, contents) = Self::resolve(file, None, open_limits)?;
        if source.may_lack_metadata() {
            return source.reopen(open_limits);
        }
        Ok((source, contents))
    }

    /// Reads the same file again after its metadata has changed, or its process has ended.
    ///
    /// # Errors
    ///
    /// Any [`RejectReason`].
    pub(crate) fn reopen(
        &self,
        open_limits: &mut OpenLimits<'_>,
    ) -> Result<(Self, Contents), RejectReason> {
        let file = self.file.try_clone().map_err(RejectReason::Open)?;
        open_limits.limits.writer_has_ended = !self.is_fed();
        let (source, contents) = Self::resolve(file, self.process.clone(), open_limits)?;
        Ok((Self { owner: self.owner, ..source }, contents))
    }

    fn resolve(
        file: File,
        known: Option<Arc<Process>>,
        open_limits: &mut OpenLimits<'_>,
    ) -> Result<(Self, Contents), RejectReason> {
        let metadata = file.metadata().map_err(RejectReason::Open)?;
        if !metadata.is_file() {
            return Err(Refusal::NotRegular.into());
        }
        let timed = TimedFile::new(&file);
        let (contents, cost) =
            Contents::read_from_at_cost(&timed, metadata.len(), &open_limits.limits);
        open_limits.cost = cost;
        let contents = contents.map_err(|refusal| {
            let found = file.metadata().map_or(0, |now| now.len());
            match refusal {
                // The file was extended between the calls that read its size and its sections.
                Refusal::SectionOutside { .. } | Refusal::IndomOutside { .. }
                    if found > metadata.len() =>
                {
                    RejectReason::Resized { expected: metadata.len(), found }
                }
                refusal => refusal.into(),
            }
        })?;
        let header = contents.header;
        let needed = mapped_bytes(&contents);
        let instances = instances_beyond(&contents, needed);
        let beyond = instances.map_or(0, |(from, end)| end - from);
        (open_limits.allow)(&contents, needed.saturating_add(beyond), cost.memory)?;
        // A file that became longer is about to grow.
        let found = file.metadata().map_err(RejectReason::Open)?.len();
        let resized = RejectReason::Resized { expected: header.file_len, found };
        if header.file_len > found {
            return Err(resized);
        }
        let mapping = ReadMapping::map_first(&file, needed).map_err(RejectReason::Map)?;
        let mut plan = ValuePlan::resolve(&contents, mapping.len()).ok_or(resized)?;
        let instances = match instances {
            None => None,
            Some((from, end)) => {
                let part = ReadMapping::map_part(&file, from, end - from);
                let part = part.map_err(RejectReason::Map)?;
                usize::try_from(from).ok().map(|from| (from, part))
            }
        };
        let growing = contents.growing.clone().zip(plan.owners.take());
        let growing = growing.map(|(toc, owners)| GrowthData { toc, owners, instances });
        let canary = TruncationCanary::new(&contents, &mapping);
        let process = match header.pid {
            pid if pid != 0 && header.flags.contains(Flags::PROCESS) => {
                // A file that has grown and whose process has ended since has last values.
                Some(match known.filter(|known| known.number == pid) {
                    Some(known) => known,
                    None => Arc::new(match (open_limits.find_process)(pid, &metadata) {
                        Some(process) => process,
                        None if open_limits.reads_ended && !may_be_elsewhere(pid) => {
                            Process::ended(pid)
                        }
                        None => return Err(RejectReason::NoProcess { pid }),
                    }),
                })
            }
            _ => None,
        };
        let source = Self {
            id: FileId::new(&metadata),
            owner: metadata.uid(),
            generation: header.generation,
            metadata: cost.memory,
            cluster: header.cluster,
            prefixed: !header.flags.contains(Flags::NO_PREFIX),
            sentinel: header.flags.contains(Flags::SENTINEL),
            file_len: header.file_len,
            file,
            mapping,
            plan,
            growing,
            is_complete: open_limits.limits.writer_has_ended,
            canary,
            process,
        };
        Ok((source, contents))
    }

    /// Returns the address space that the file takes, in bytes.
    pub(crate) fn mapped(&self) -> u64 {
        let growing = self.growing.as_ref();
        let instances = growing.and_then(|growing| growing.instances.as_ref());
        (self.mapping.len() + instances.map_or(0, |(_, part)| part.len())) as u64
    }

    /// Returns the number of file descriptors that the file takes.
    pub(crate) fn descriptors(&self) -> u64 {
        if self.process.is_some() { MAX_DESCRIPTORS } else { 1 }
    }

    pub(crate) fn plan(&self) -> &ValuePlan {
        &self.plan
    }

    /// Returns metric and instance of each value by their entries, in the order of the plan, if the
    /// file grows.
    pub(crate) fn owners(&self) -> Option<&CellOwners> {
        self.growing.as_ref().map(|growing| &growing.owners)
    }

    /// Returns the process that feeds the file, if its header names one.
    pub(crate) fn process(&self) -> Option<&Process> {
        self.process.as_deref()
    }

    /// Returns the process that feeds the file, if its header names one and it runs.
    pub(crate) fn running_process(&self) -> Option<Arc<Process>> {
        self.process.clone().filter(|process| process.is_alive())
    }

    /// Returns true if the values may still change, since the process that feeds the file is
    /// alive.
    pub(crate) fn is_fed(&self) -> bool {
        self.process.as_deref().is_none_or(Process::is_alive)
    }

    /// Returns true if its metadata may be appended to without moving its values.
    pub(crate) fn grows(&self) -> bool {
        self.growing.is_some()
    }

    /// Returns true if its process may have added metadata before its end that was not announced,
    /// and is not known.
    pub(crate) fn may_lack_metadata(&self) -> bool {
        self.grows() && !self.is_complete && !self.is_fed()
    }

    /// Returns true if it has announced new metadata since it was resolved.
    pub(crate) fn has_new_metadata(&self) -> bool {
        self.check_generations(self.mapping.generations()).is_err()
    }

    /// Reads all values. They may be used only if there is no [`Fault`] and the allowance was
    /// not exceeded. Also returns whether records need another shape, as [`Values::read`] does.
    pub(crate) fn harvest(
        &self,
        values: &mut Values,
        options: PassOptions,
        allowance: &Allowance,
    ) -> (bool, Result<PassReport, Fault>) {
        let read_options = ReadOptions { micros: options.micros, sentinel: self.sentinel };
        let Some(growing) = &self.growing else {
            let reshaped = values.read(&self.plan, &self.mapping, read_options, allowance);
            return (reshaped, self.check_unless_stopped(options.stat, allowance));
        };
        let mut reshaped = false;
        if !self.has_new_metadata() {
            reshaped = values.read(&self.plan, &self.mapping, read_options, allowance);
            let checked = self.check_unless_stopped(options.stat, allowance);
            // The canary is also lost when its instance is removed.
            if checked.is_ok() {
                return (reshaped, checked);
            }
        }
        let (again, checked) = self.harvest_grown(growing, values, options, allowance);
        (reshaped | again, checked)
    }

    /// Checks a pass as [`check`](Self::check) does, unless it was stopped and its values are not
    /// used anyway.
    fn check_unless_stopped(&self, stat: bool, allowance: &Allowance) -> Result<PassReport, Fault> {
        if allowance.was_exceeded() { Ok(PassReport::default()) } else { self.check(stat) }
    }

    /// Reads all values of a growing file by the metadata that was resolved, although the file
    /// has other metadata now.
    ///
    /// The pass counts only if the generations do not change meanwhile. The file has the same
    /// values at the same offsets as before, since it is only appended to. Values of removed
    /// metrics and instances are absent.
    fn harvest_grown(
        &self,
        growing: &GrowthData,
        values: &mut Values,
        options: PassOptions,
        allowance: &Allowance,
    ) -> (bool, Result<PassReport, Fault>) {
        let GrowthData { toc, owners, instances } = growing;
        let loads = Cell::new(0_u32);
        let load = |at: u64| {
            loads.set(loads.get().wrapping_add(1));
            if loads.get().is_multiple_of(LOADS_OF_A_STRETCH) && !allowance.is_left()
                || allowance.was_exceeded()
            {
                return None;
            }
            let at = usize::try_from(at).ok()?;
            self.mapping.load_u64(at).or_else(|| {
                let (from, part) = instances.as_ref()?;
                part.load_u64(at.checked_sub(*from)?)
            })
        };
        let mut reshaped = false;
        let mut generations = self.mapping.generations();
        for _ in 0..=u32::from(options.retry) {
            let mut head = [0; GrowingToc::END];
            if !self.mapping.copy_out(0, &mut head) {
                break;
            }
            // They may differ: the writer stores one after the other, everything else before
            // them, and never 0.
            let is_complete = generations.0 != 0 && generations.1 != 0;
            let Some(flags) = toc.flags_of_grown(&head).filter(|_| is_complete) else { break };
            let sentinel = self.sentinel || flags.contains(Flags::SENTINEL);
            let read_options = ReadOptions { micros: options.micros, sentinel };
            reshaped |= values.read_grown(
                &self.plan,
                &self.mapping,
                read_options,
                |other| owners.compare(load, other),
                allowance,
            );
            if allowance.was_exceeded() {
                return (reshaped, Ok(PassReport::default()));
            }
            let before = std::mem::replace(&mut generations, self.mapping.generations());
            if generations == before {
                return (reshaped, self.check_grown(growing, options.stat));
            }
        }
        (reshaped, Err(self.generation_fault(generations)))
    }

    /// Checks that a pass over a grown file has read the file. Entries that a truncation has
    /// cleared have no owner already.
    fn check_grown(&self, growing: &GrowthData, stat: bool) -> Result<PassReport, Fault> {
        let instances = growing.instances.as_ref();
        if self.mapping.is_dead() || instances.is_some_and(|(_, part)| part.is_dead()) {
            return Err(Fault::Dead);
        }
        // A truncation may clear texts and not the entries that refer to them.
        let stat = stat || !self.plan.texts().is_empty();
        Ok(PassReport { grown: true, unlinked: stat && self.is_unlinked()? })
    }

    /// Checks that the values read before this call are what the producer wrote under the
    /// metadata that was resolved.
    ///
    /// Without `stat`, a system call that costs more than reading a few values, it may be
    /// overlooked that the file was unlinked, or truncated after its values.
    ///
    /// # Errors
    ///
    /// The [`Fault`].
    pub(crate) fn check(&self, stat: bool) -> Result<PassReport, Fault> {
        let generations = self.mapping.generations();
        let is_whole = self.canary.map(|canary| canary.is_intact(&self.mapping));
        if self.mapping.is_dead() {
            return Err(Fault::Dead);
        }
        // Nothing is after the last string that would be lost with it.
        let is_sure = is_whole == Some(true) && self.plan.texts().is_empty();
        let unlinked = (stat || !is_sure) && self.is_unlinked()?;
        self.check_generations(generations)?;
        if is_whole == Some(false) {
            Err(Fault::Dead)
        } else {
            Ok(PassReport { grown: false, unlinked })
        }
    }

    /// Queries the links of the file, and checks its size.
    fn is_unlinked(&self) -> Result<bool, Fault> {
        let Ok(stat) = nix::sys::stat::fstat(&self.file) else { return Err(Fault::Dead) };
        // A longer file is about to grow: what is mapped stays valid.
        let expected = self.file_len;
        let found = stat.st_size.cast_unsigned();
        if found < expected {
            Err(Fault::Truncated { expected, found })
        } else {
            Ok(stat.st_nlink == 0)
        }
    }

    fn check_generations(&self, found: (u64, u64)) -> Result<(), Fault> {
        if found == (self.generation, self.generation) {
            Ok(())
        } else {
            Err(self.generation_fault(found))
        }
    }

    fn generation_fault(&self, found: (u64, u64)) -> Fault {
        let (generation1, generation2) = found;
        Fault::Generation { expected: self.generation, generation1, generation2 }
    }
}

#[cfg(test)]
pub(crate) mod tests;

//! Decides which files are harvested, and assigns their clusters.
//!
//! Input: the name of a file. Output: a source with its metadata in PCP's terms, or the reason for
//! rejecting it.
//!
//! Invariant: all files together stay within the limits on files, descriptors, values, metadata
//! and address space. Rereading one file's metadata takes at most a tenth of a processor.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mmv_format::view::{self, Contents, Flags, Refusal};
use nix::unistd::geteuid;
use rustix::process::{self, getrlimit};

use super::loaded_source::LoadedSource;
use super::reporter::{FLAWS_LOGGED, Reporter, warn_left_out};
use crate::config::{Limits, OwnersLimits, ReloadableSettings};
use crate::discovery::{ControlGroup, FileId, LockTable, Producer, descriptor_budget};
use crate::housekeeping::{FileProducer, LoaderState};
use crate::limits::{Amounts, Headroom, ROOT, Resource, ResourceQuotas, TokenBucket, Usage};
use crate::metadata::{
    Assignments, Claim, ClusterAllocator, Collision, indom_serials, items, translate,
};
use crate::source::{FileGaps, MAX_DESCRIPTORS, OpenLimits, RejectReason, Source, Ticket};

const OWN_FILE: &str = "agent";

/// Rate limit on reading the metadata of one file, in bytes: about a tenth of a processor. It is
/// meant for files whose metadata changes at each tick, and lets a program add thousands of
/// instances a second.
const READ_BURST: f64 = 256e6;
const READ_PER_SECOND: f64 = 32e6;

/// Rate limit on reading the metadata of all files of one user: a fifth of a processor, after a
/// burst at the start.
const LOAD_BURST: f64 = 1e9;
const LOAD_PER_SECOND: f64 = 64e6;

/// Charge for a second spent on reading, in bytes. It limits a user to a fifth of the loader's
/// time.
const BYTES_OF_A_SECOND: f64 = 5.0 * LOAD_PER_SECOND;

/// Reading time of a file that is free of charge.
const USUAL_TIME: Duration = Duration::from_millis(50);

/// Typical size of a program's metadata.
const USUAL_METADATA: u64 = 1 << 20;

/// Charge for opening a file of any size, in bytes.
pub(crate) const COST_OF_OPENING: f64 = 10e3;

/// Approximate memory of a value in value plan, catalog and records.
const BYTES_OF_VALUE: u64 = 400;

/// Returns true if the system can allocate this much memory.
fn has_memory(bytes: u64) -> bool {
    usize::try_from(bytes).is_ok_and(|bytes| Vec::<u8>::new().try_reserve_exact(bytes).is_ok())
}

/// Approximate number of copies of a file's metadata: as read, in PCP's terms, in the old and in
/// the new catalog, and as written.
const COPIES_OF_METADATA: u64 = 4;

/// Returns the address space that the process may still take, if that is limited.
fn address_space() -> u64 {
    let Some(limit) = getrlimit(process::Resource::As).current else { return u64::MAX };
    // In KiB, see proc(5).
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let used = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
    let used = used.and_then(|used| used.trim().trim_end_matches(" kB").parse::<u64>().ok());
    limit.saturating_sub(used.unwrap_or(0).saturating_mul(1024))
}

/// Lowers the limits where address space is short: mappings, values and metadata get a quarter of
/// it each.
fn lowered_to(limits: &Limits, address_space: u64) -> Limits {
    let quarter = address_space / 4;
    let values = usize::try_from(quarter / BYTES_OF_VALUE).unwrap_or(usize::MAX);
    Limits {
        mapped: limits.mapped.min(quarter),
        values: limits.values.min(values),
        metadata_total: limits.metadata_total.min(quarter / COPIES_OF_METADATA),
        ..*limits
    }
}

/// Memory that must remain free when a file is opened and when the catalog is built.
const RESERVE: u64 = 16 << 20;

/// Returns true if the system has enough memory for this many values and bytes of metadata.
pub(crate) fn has_memory_for(values: u64, metadata: u64) -> bool {
    let values = values.saturating_mul(BYTES_OF_VALUE);
    let metadata = metadata.saturating_mul(COPIES_OF_METADATA);
    has_memory(values.saturating_add(metadata).saturating_add(RESERVE))
}

/// Returns the process that a file's header names, if any.
fn producer(source: &Source) -> Option<Producer> {
    let process = source.process()?;
    let pid = process.number;
    let started = process.started;
    Some(Producer { pid, generation: source.generation, started, ended: false })
}

pub(crate) fn amounts(source: &Source) -> Amounts {
    let values = source.plan().len() as u64;
    Amounts::of_file(source.descriptors(), values, source.mapped(), source.metadata)
}

/// Returns the reject reason for a file that needs more of a resource than there is.
fn no_room(room: Headroom, resource: Resource, user: u32, needed: u64) -> RejectReason {
    let limit = room.limit;
    let narrow = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    match resource {
        resource if room.is_own => RejectReason::Share { user, unit: resource.unit(), limit },
        Resource::Files => RejectReason::Files { limit: narrow(limit) },
        Resource::Descriptors => {
            RejectReason::NoDescriptor { used: limit.saturating_sub(room.left), limit }
        }
        Resource::Values => RejectReason::Values { values: narrow(needed), limit: narrow(limit) },
        Resource::Mapped => RejectReason::Mapped { needed, limit: room.left },
        Resource::Metadata => RejectReason::MetadataTotal { limit },
    }
}

/// Returns the resource that all users together have used up, and the amount that the rejected
/// file needs.
pub(crate) fn is_used_up(reason: &RejectReason) -> Option<(Resource, u64)> {
    match *reason {
        RejectReason::Files { .. } => Some((Resource::Files, 1)),
        RejectReason::NoDescriptor { .. } => Some((Resource::Descriptors, MAX_DESCRIPTORS)),
        RejectReason::Values { values, .. } => Some((Resource::Values, values as u64)),
        RejectReason::Mapped { needed, .. } => Some((Resource::Mapped, needed)),
        // The amount is unknown; a typical one is assumed.
        RejectReason::MetadataTotal { .. } => Some((Resource::Metadata, USUAL_METADATA)),
        _ => None,
    }
}

#[derive(Debug)]
pub(crate) struct Admission {
    directory: PathBuf,
    own: Option<OsString>,
    /// User who runs the agent.
    agent: u32,
    /// Limits for files that are opened from now on.
    limits: Limits,
    /// Read also files whose processes have ended, once.
    pub(super) reads_ended: bool,
    locks: RefCell<LockTable>,
    /// Free address space when the first file was opened.
    address_space: Option<u64>,
    /// Limit on the descriptors of all sources.
    descriptors: u64,
    quotas: ResourceQuotas,
    /// Configured limits of single users.
    owners: OwnersLimits,
    /// Rate limits on reading metadata, by file name.
    reading: HashMap<OsString, TokenBucket>,
    /// Rate limits on reading metadata, by user.
    loading: HashMap<u32, TokenBucket>,
    clusters: ClusterAllocator,
    /// Producer of each file that has one and was harvested; a process that reuses its pid does
    /// not revive the file.
    producers: HashMap<FileId, Producer>,
}

impl Admission {
    /// Creates the admission for a directory with the clusters and producers of an earlier run;
    /// `own` names the agent's own file.
    pub(crate) fn new(
        directory: PathBuf,
        own: Option<OsString>,
        limits: Limits,
        memory: LoaderState,
    ) -> Self {
        let LoaderState { clusters, used, numbers: items, harvested: _, fed, owners, logged: _ } =
            memory;
        let mut admission = Self {
            directory,
            own,
            agent: geteuid().as_raw(),
            limits,
            reads_ended: false,
            locks: RefCell::default(),
            address_space: None,
            quotas: ResourceQuotas::default(),
            owners: OwnersLimits::default(),
            loading: HashMap::new(),
            descriptors: descriptor_budget::available(),
            reading: HashMap::new(),
            clusters: ClusterAllocator::restore(Assignments { clusters, used, items, owners }),
            producers: fed.iter().map(|fed| (fed.id, fed.process)).collect(),
        };
        admission.update_quotas();
        admission
    }

    #[cfg(test)]
    pub(crate) fn set_descriptors(&mut self, descriptors: u64) {
        self.descriptors = descriptors;
        self.update_quotas();
    }

    #[cfg(test)]
    pub(crate) fn set_reading(&mut self, name: &str, bucket: TokenBucket) {
        self.reading.insert(name.into(), bucket);
    }

    /// Applies settings. Limits take effect for files that are opened from now on.
    pub(crate) fn change(&mut self, settings: &ReloadableSettings) {
        self.limits = settings.limits;
        self.owners.clone_from(&settings.owners);
        self.update_quotas();
        self.clusters.set_keep(settings.release_names_after);
    }

    fn update_quotas(&mut self) {
        let limits =
            self.address_space.map_or(self.limits, |space| lowered_to(&self.limits, space));
        self.quotas = ResourceQuotas::new(&limits, &self.owners.by_user, self.descriptors);
    }

    /// Returns the user who is charged for a file. The agent's own file, and files of the user who
    /// runs it, are charged to root.
    pub(crate) fn user(&self, name: &OsStr, owner: u32) -> u32 {
        let own = self.is_own(name) || self.agent == owner;
        if own { ROOT } else { owner }
    }

    pub(crate) fn set_own_file(&mut self, name: Option<OsString>) {
        self.own = name;
    }

    pub(crate) fn is_own(&self, name: &OsStr) -> bool {
        self.own.as_deref() == Some(name)
    }

    /// Returns the user whose files give way to one of another user that needs this much.
    pub(crate) fn yielding_user(
        &self,
        usage: &Usage,
        to: u32,
        resource: Resource,
        needed: u64,
    ) -> Option<u32> {
        self.quotas.yielding_user(usage, to, resource, needed)
    }

    pub(crate) fn limit(&self, user: u32, resource: Resource) -> u64 {
        self.quotas.limit(user, resource)
    }

    pub(crate) fn clusters_of(&self, user: u32) -> usize {
        self.clusters.count(user)
    }

    /// Returns the files that lost their clusters since the last call and are not admitted any
    /// more.
    pub(crate) fn take_displaced(&mut self) -> Vec<OsString> {
        self.clusters.take_displaced()
    }

    pub(crate) fn begin(&mut self, now: Duration) {
        self.clusters.begin(now);
    }

    /// Forgets files that are not listed any more.
    pub(crate) fn retain(&mut self, listed: &HashSet<FileId>, now: Duration) {
        self.reading.retain(|_, bucket| !bucket.is_full(now));
        self.loading.retain(|_, bucket| !bucket.is_full(now));
        self.producers.retain(|id, _| listed.contains(id));
    }

    /// Opens a file of a user, if it is the one that was listed with this identity, given the usage
    /// of all others.
    pub(crate) fn open(
        &mut self,
        name: &OsStr,
        owner: u32,
        id: Option<FileId>,
        usage: &Usage,
        now: Duration,
    ) -> Result<(Source, Contents), RejectReason> {
        // Not earlier, since the threads take address space as well.
        if self.address_space.is_none() {
            self.address_space = Some(address_space());
            self.update_quotas();
        }
        let user = self.user(name, owner);
        for (resource, needed) in [(Resource::Descriptors, MAX_DESCRIPTORS), (Resource::Files, 1)] {
            let room = self.quotas.headroom(usage, user, resource);
            if room.left < needed {
                return Err(no_room(room, resource, user, needed));
            }
        }
        let path = self.directory.join(name);
        let (mut source, contents) =
            self.read(name, user, usage, now, |open_limits| Source::open(&path, open_limits))?;
        if Some(source.id) != id {
            // To be opened once its predecessor is known to be gone.
            return Err(RejectReason::Replaced);
        }
        if ![owner, ROOT].contains(&source.owner) {
            return Err(RejectReason::OwnerChanged);
        }
        // For root's files, another user may be charged.
        source.owner = owner;
        if let Some(known) = self.producers.get(&source.id)
            && let Some(now) = producer(&source)
        {
            let has_last_values = known.ended && !source.is_fed();
            if has_last_values || known.is_other(now) {
                return Err(RejectReason::NoProcess { pid: now.pid });
            }
        }
        self.clusters.reserve(contents.header.cluster);
        Ok((source, contents))
    }

    /// Reads the metadata of a file that is open, given the usage of all others.
    pub(crate) fn read_again(
        &mut self,
        name: &OsStr,
        source: &Source,
        usage: &Usage,
        now: Duration,
    ) -> Result<(Source, Contents), RejectReason> {
        let user = self.user(name, source.owner);
        let (source, contents) =
            self.read(name, user, usage, now, |open_limits| source.reopen(open_limits))?;
        self.clusters.reserve(contents.header.cluster);
        Ok((source, contents))
    }

    /// Reads a file's metadata, unless its rate limit is exhausted.
    fn read(
        &mut self,
        name: &OsStr,
        user: u32,
        usage: &Usage,
        now: Duration,
        read: impl FnOnce(&mut OpenLimits<'_>) -> Result<(Source, Contents), RejectReason>,
    ) -> Result<(Source, Contents), RejectReason> {
        let bucket = self
            .reading
            .entry(name.to_owned())
            .or_insert_with(|| TokenBucket::new(READ_BURST, READ_PER_SECOND));
        if !bucket.has_any(now) {
            return Err(RejectReason::MetadataChurn);
        }
        let of_user = self
            .loading
            .entry(user)
            .or_insert_with(|| TokenBucket::new(LOAD_BURST, LOAD_PER_SECOND));
        if !of_user.has_any(now) {
            return Err(RejectReason::Loading { user });
        }
        let metadata_bytes = self.limits.metadata_bytes;
        let quotas = &self.quotas;
        let metadata = quotas.headroom(usage, user, Resource::Metadata);
        let left = metadata.left;
        let allow = |contents: &Contents, needed: u64, memory: u64| {
            let values = contents.values.len();
            for (resource, needed) in
                [(Resource::Values, values as u64), (Resource::Mapped, needed)]
            {
                let room = quotas.headroom(usage, user, resource);
                if room.left < needed {
                    return Err(no_room(room, resource, user, needed));
                }
            }
            // All files count, since the catalog is built anew from all of them.
            let all = usage.total(Resource::Values).saturating_add(values as u64);
            let metadata = usage.total(Resource::Metadata).saturating_add(memory);
            if !has_memory_for(all, metadata) {
                return Err(RejectReason::NoMemory { values });
            }
            Ok(())
        };
        let limits = view::Limits { bytes: metadata_bytes.min(left), ..view::Limits::default() };
        let reads_ended = self.reads_ended;
        let cost = view::Cost::default();
        let locks = &self.locks;
        let find_process =
            |number: i32, file: &Metadata| locks.borrow_mut().find_process(number, file);
        let mut open_limits =
            OpenLimits { limits, allow: &allow, find_process: &find_process, reads_ended, cost };
        let began = Instant::now();
        let result = read(&mut open_limits);
        // A refused file is charged the same.
        let mut cost = COST_OF_OPENING + (open_limits.cost.read + open_limits.cost.memory) as f64;
        let took = began.elapsed();
        if took > USUAL_TIME {
            cost = cost.max(took.as_secs_f64() * BYTES_OF_A_SECOND);
        }
        bucket.take(cost);
        of_user.take(cost);
        result.map_err(|reason| match reason {
            RejectReason::Refused(Refusal::TooLarge { .. }) if left < metadata_bytes => {
                no_room(metadata, Resource::Metadata, user, left)
            }
            reason => reason,
        })
    }

    /// Assigns a cluster to a source, and reports what is left out of it, unless `known`, the
    /// source before it was reread, had the same left out.
    pub(crate) fn admit(
        &mut self,
        source: Source,
        ticket: Ticket,
        gaps: &Arc<FileGaps>,
        contents: &Contents,
        known: Option<&LoadedSource>,
        reporter: &mut Reporter,
    ) -> Result<LoadedSource, Collision> {
        let name = gaps.file.as_os_str();
        let own = self.own.as_deref() == Some(name);
        // The metrics keep their names whatever name was free for the agent's own file.
        let (items, misnamed) = items(if own { OWN_FILE.as_ref() } else { name }, contents);
        let claim = Claim {
            file: name.to_owned(),
            cluster: contents.header.cluster,
            owner: source.owner,
            items,
            indoms: indom_serials(contents),
            own,
        };
        let placement = self.clusters.place(&claim)?;
        if let Some(collision) = &placement.moved {
            reporter.moved(name, placement.cluster, collision);
        }
        for (indom, reason) in placement.foreign.iter().take(FLAWS_LOGGED) {
            reporter.foreign_indom(name, *indom, reason);
        }
        let pid = source.process().map(|process| process.pid);
        let prefixed = !contents.header.flags.contains(Flags::NO_PREFIX);
        reporter.events.set_cluster(name, placement.cluster, prefixed);
        self.producers.extend(producer(&source).map(|process| (source.id, process)));
        let mut translation = translate(contents, &claim.items, &placement);
        if let Some(process) = source.process() {
            for (name, value) in ControlGroup::of_process(process, source.owner).labels() {
                translation.add_label(name, value);
            }
        }
        let left_out = contents.skipped.len() + contents.unlisted + misnamed.len();
        let was_left_out = known.map_or(0, |known| known.left_out);
        let mut reason = None;
        if left_out != was_left_out {
            let first = contents.skipped.iter().map(ToString::to_string);
            let first = first.chain(misnamed.iter().map(ToString::to_string)).next();
            reason = first.map(|first| match left_out {
                1 => format!("an entry is left out: {first}"),
                count => format!("{count} entries are left out, the first: {first}"),
            });
            if reporter.may_log(name) {
                warn_left_out(name, contents.skipped.iter(), contents.unlisted);
                warn_left_out(name, misnamed.iter(), 0);
            }
        }
        let mut loaded = LoadedSource::new(source, translation, left_out, ticket, Arc::clone(gaps));
        loaded.departure = known.and_then(|known| known.departure);
        if loaded.departure.is_none() {
            reporter.events.admitted(name, pid, loaded.logged.values, reason);
        }
        Ok(loaded)
    }

    /// Ends the admission of a file, whose cluster stays remembered.
    pub(crate) fn release(&mut self, name: &OsStr) {
        self.clusters.release(name);
    }

    /// Notes that the process of a file has ended and that its last values were read.
    pub(crate) fn note_end(&mut self, id: FileId) {
        if let Some(producer) = self.producers.get_mut(&id) {
            producer.ended = true;
        }
    }

    /// Returns the process of a file that was harvested until the process ended.
    pub(crate) fn ended_producer(&self, id: FileId) -> Option<Producer> {
        self.producers.get(&id).copied().filter(|producer| producer.ended)
    }

    /// Returns the state for the next run without the files under harvest; `now` and `oldest` are
    /// in seconds since 1970. Files that were last harvested before `oldest` are forgotten.
    pub(crate) fn remember(&mut self, now: i64, oldest: i64) -> LoaderState {
        let mut assignments = self.clusters.remember(now);
        if self.clusters.is_older(oldest) {
            self.clusters.forget(oldest);
            assignments = self.clusters.remember(now);
        }
        let Assignments { clusters, used, items: numbers, owners } = assignments;
        let fed = self.producers.iter();
        let fed = fed.map(|(id, process)| FileProducer { id: *id, process: *process }).collect();
        LoaderState { clusters, used, numbers, fed, owners, ..LoaderState::default() }
    }
}

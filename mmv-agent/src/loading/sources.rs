//! All files under harvest.
//!
//! Input: changes of the directory, and findings of the sampler. Output: the metadata of all files
//! for the catalog, and the sources for the sampler.
//!
//! Invariant: a bad file never affects another. It waits in the file table for its next try.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mmv_format::view::Contents;
use nix::unistd::geteuid;
use pcp_types::Timestamp;

use super::admission::{Admission, amounts, has_memory_for, is_used_up};
use super::disk_shares::DiskShares;
use super::last_values::{LastValues, LastValuesRequest};
use super::loaded_source::{Departure, LoadedSource};
use super::reporter::Reporter;
use super::shortage::{Shortage, ShortageReport};
use super::update::PlannedSource;
use crate::config::{Limits, ReloadableSettings};
use crate::discovery::{
    Change, DeadFile, DirectoryLimits, FileId, FileState, Process, Removal, Restarts, Watcher,
};
use crate::housekeeping::{KnownFile, LoaderState};
use crate::limits::{NOBODY, Resource, Usage};
use crate::metadata::{CatalogSource, Collision};
use crate::source::{
    Fault, FileGaps, Gap, GapCause, GapChange, RejectReason, Source, SourceFinding, Ticket,
};
use crate::telemetry::{EventKind, OwnerStatus, OwnerUsage, SourceStatus};

/// Limit on the bytes read in a turn, and the bytes that opening a file counts for. After a turn,
/// the sampler gets what was read and the directory is checked again.
const BYTES_OF_A_TURN: u64 = 32 << 20;
const BYTES_OF_OPENING: u64 = 64 << 10;
const FILES_OF_A_TURN: usize = (BYTES_OF_A_TURN / BYTES_OF_OPENING) as usize;

/// The same limit while the directory is being listed: a slice and a turn alternate, and a listing
/// must not take long because another user has many files that are tried again and again.
const BYTES_BESIDE_A_LISTING: u64 = 4 << 20;

/// Number of vanished files whose owners are remembered, in addition to the number of present
/// files.
const SPARE_OWNERS: usize = 10_000;

/// Minimum pause before files are tried again, and the interval between checks of a directory that
/// is not watched.
const SHORTEST_PAUSE: Duration = Duration::from_millis(2);
const UNWATCHED: Duration = Duration::from_millis(100);

/// Reject reason of files that are being written.
const BEING_WRITTEN: &str = "being written";

/// Reject reason of files whose predecessors have last values that are about to be read.
const LAST_VALUES_UNREAD: &str = "the last values of the file before it are being read";

/// Number of tries after which a half-written file is reported.
const MAX_QUIET_TRIES: u32 = 9;

fn directory_limits(limits: &Limits) -> DirectoryLimits {
    DirectoryLimits::new(limits.files as u64, geteuid().as_raw())
}

/// Outcome for a source whose new metadata cannot be used.
enum RejectedUpdate {
    Reason(RejectReason),
    Collision(Collision),
}

/// Missing samples of a file.
#[derive(Debug)]
struct KnownGaps {
    counts: Arc<FileGaps>,
    /// Beginning of the current spell of missing samples.
    since: Option<Timestamp>,
}

/// The sources, in byte order of their names.
#[derive(Debug)]
pub(crate) struct Sources {
    watcher: Watcher,
    admission: Admission,
    active: Vec<LoadedSource>,
    /// Detects restarted programs.
    pub restarts: Restarts,
    /// Names of files that an earlier run harvested last.
    pub known_files: HashSet<OsString>,
    /// Files to be removed.
    pub removal: Removal,
    last_values: LastValues,
    /// Process of each closed file, if it was running then. It may still run when another
    /// process's file has the name.
    left: HashMap<OsString, Arc<Process>>,
    /// Missing samples by file name.
    gaps: HashMap<OsString, KnownGaps>,
    /// Files that are not harvested for lack of descriptors or memory.
    shortage: Shortage,
    /// Set if sources or their metadata have changed.
    changed: bool,
    /// Number of sources so far.
    numbered: u64,
    ticket: Ticket,
}

impl Sources {
    /// Creates the sources of the directory at `path` with what an earlier run remembered; `own`
    /// names the agent's own file. There are none until they are [discovered](Self::discover) and
    /// [admitted](Self::admit).
    pub(crate) fn new(
        path: PathBuf,
        own: Option<OsString>,
        limits: Limits,
        memory: LoaderState,
    ) -> Self {
        Self {
            watcher: Watcher::new(path.clone(), directory_limits(&limits)),
            admission: Admission::new(path, own, limits, memory),
            active: Vec::new(),
            restarts: Restarts::default(),
            known_files: HashSet::new(),
            removal: Removal::default(),
            last_values: LastValues::new(),
            left: HashMap::new(),
            gaps: HashMap::new(),
            shortage: Shortage::default(),
            changed: false,
            numbered: 0,
            ticket: 0,
        }
    }

    /// Applies settings. Limits take effect for files that are opened from now on.
    pub(crate) fn change(&mut self, settings: &ReloadableSettings) {
        self.watcher.set_limits(directory_limits(&settings.limits));
        self.admission.change(settings);
        self.restarts.enabled = settings.mark_on_restart;
        self.removal.set_after(settings.remove_dead_after);
    }

    /// Reads also files whose processes have ended, once.
    pub(crate) fn read_ended(&mut self) {
        self.admission.reads_ended = true;
    }

    pub(crate) fn directory(&self) -> &Path {
        self.watcher.path()
    }

    pub(crate) fn set_own_file(&mut self, name: Option<OsString>) {
        self.admission.set_own_file(name);
    }

    /// Returns the owner of the file of source number `source`.
    pub(crate) fn owner(&self, source: usize) -> u32 {
        self.active.get(source).map_or(0, |active| active.source.owner)
    }

    /// Returns the users who are charged for the sources, by source number: root for the agent's
    /// own file.
    pub(crate) fn users(&self) -> Vec<u32> {
        self.active
            .iter()
            .map(|active| self.admission.user(&active.name, active.source.owner))
            .collect()
    }

    /// Returns true if all files but the agent's own belong to this user.
    pub(crate) fn is_alone(&self, user: u32) -> bool {
        let mut others = self.active.iter().filter(|active| !self.admission.is_own(&active.name));
        others.all(|active| self.admission.user(&active.name, active.source.owner) == user)
    }

    /// Finds files that are gone. Their sources stay until their last values were read. Returns
    /// true if a listing of the directory has to be continued.
    pub(crate) fn discover(&mut self, now: Duration, reporter: &mut Reporter) -> bool {
        let changes = self.watcher.scan(now, self.restarts.names());
        for change in changes.files {
            match change {
                Change::Replaced(name) => {
                    self.depart(&name, Departure::Replaced, now, reporter);
                    reporter.events.replaced(&name);
                }
                Change::Vanished(name) => {
                    self.restarts.vanished(&name);
                    if !self.depart(&name, Departure::Vanished, now, reporter) {
                        reporter.events.vanished(&name);
                        self.left.remove(&name);
                    }
                }
            }
        }
        let mut known_owners = 0;
        for (name, owner) in changes.owners {
            known_owners = reporter.events.add_owner(name, owner);
        }
        let files = self.watcher.table.len();
        if changes.listed.is_some() || known_owners > 2 * files + SPARE_OWNERS {
            self.forget_files(reporter);
        }
        self.admission.begin(now);
        if let Some(listed) = &changes.listed {
            self.admission.retain(listed, now);
            self.removal.retain(listed);
        }
        for (name, kind) in changes.others {
            reporter.not_a_file(&name, kind);
        }
        self.watcher.is_listing()
    }

    /// Forgets files that are gone.
    fn forget_files(&mut self, reporter: &mut Reporter) {
        let table = &self.watcher.table;
        self.shortage.retain(|name| table.get(name).is_some());
        self.gaps.retain(|name, gaps| table.get(name).is_some() || gaps.counts.is_used());
        // A departed file is not in the table, and its departure is yet to be reported.
        let departed = self.active.iter().filter(|active| active.departure.is_some());
        let departed = departed.map(|active| (active.name.as_os_str(), active.source.owner));
        let files = self.watcher.table.iter().map(|(name, entry)| (name, entry.owner));
        reporter.events.set_owners(departed.chain(files));
    }

    /// Returns the beginning or end of a lack of descriptors or memory, if any.
    pub(crate) fn update_shortage(&mut self, now: Timestamp) -> Option<ShortageReport> {
        self.shortage.update(now, self.watcher.shortage())
    }

    /// Opens files that are due, one of each user in turn, and assigns their clusters, the
    /// explicit ones of the whole batch first. Returns true if files are left for the next turn.
    pub(crate) fn admit(&mut self, now: Duration, reporter: &mut Reporter) -> bool {
        let is_known =
            |name: &OsStr| self.restarts.is_known(name) || self.known_files.contains(name);
        let due = self.watcher.table.due(now, is_known, FILES_OF_A_TURN + 1);
        let mut opened = Vec::new();
        let mut usage = self.usage_without("".as_ref());
        // Other users may have made hard links to a file; these cost its owner nothing.
        let mut names = if due.is_empty() { HashMap::new() } else { self.harvested_names() };
        let is_listing = self.watcher.is_listing();
        let longest = if is_listing { BYTES_BESIDE_A_LISTING } else { BYTES_OF_A_TURN };
        let mut turn = 0;
        let mut more = false;
        for (name, bytes) in &due {
            let needed = bytes.saturating_add(BYTES_OF_OPENING);
            // The first file is read whatever its size.
            if turn > 0 && needed.saturating_add(turn) > longest {
                more = true;
                break;
            }
            let id = self.watcher.table.get(name).map(|entry| entry.id);
            if let Some(known) = id.and_then(|id| names.get(&id)).filter(|known| *known != name) {
                turn += BYTES_OF_OPENING;
                let reason = RejectReason::Linked { name: known.clone() };
                self.reject(name, &reason, false, now, reporter);
                continue;
            }
            turn = needed.saturating_add(turn);
            match self.open(name, &mut usage, now, reporter) {
                Ok((source, contents)) => {
                    names.insert(source.id, name.clone());
                    usage.add(self.admission.user(name, source.owner), &amounts(&source));
                    opened.push((name, source, contents));
                }
                Err(reason) => self.reject(name, &reason, false, now, reporter),
            }
        }
        opened.sort_by_key(|(name, ..)| *name);
        for (name, source, contents) in opened {
            if self.awaits_last_values(name, &source, now) {
                self.watcher.table.wait_shortly(name, LAST_VALUES_UNREAD, now);
                continue;
            }
            self.count_unread(name, &source);
            self.close_departed(|gone| gone.clashes(name, &source), reporter);
            let running = self.displaced(name, &source);
            if let Some(running) = running {
                reporter.events.displaced(name, running);
            }
            let ticket = self.next_ticket();
            let gaps = self.gaps_of(name);
            match self.admission.admit(source, ticket, &gaps, &contents, None, reporter) {
                Ok(active) => {
                    reporter.harvested(name, contents.header.version, active.logged);
                    self.put(active, now);
                    if let Some(running) = running {
                        reporter.displaced(name, running, contents.header.pid);
                    }
                }
                Err(collision) => self.reject_collision(name, &collision, now, reporter),
            }
        }
        self.close_displaced(now, reporter);
        more
    }

    /// Requests the last values of departed sources that a new file cannot be harvested beside.
    /// Returns true if some are about to be read.
    fn awaits_last_values(&mut self, name: &OsStr, source: &Source, now: Duration) -> bool {
        let mut awaits = false;
        for active in &mut self.active {
            if active.departure.is_some() && active.clashes(name, source) {
                awaits |= self.last_values.request(active, now);
            }
        }
        awaits
    }

    /// Counts the last values that are lost because a new file takes the place of their source.
    fn count_unread(&self, name: &OsStr, source: &Source) {
        for active in &self.active {
            if active.departure.is_some() && active.clashes(name, source) {
                active.gaps.add_lost();
            }
        }
    }

    /// Returns the requests for last values since the last call.
    pub(crate) fn take_last_values_requests(
        &mut self,
    ) -> impl Iterator<Item = LastValuesRequest> + use<> {
        self.last_values.take_requests()
    }

    /// Closes departed sources whose last values were read.
    pub(crate) fn close_read(&mut self, files: &BTreeSet<OsString>, reporter: &mut Reporter) {
        self.close_departed(|departed| files.contains(&departed.name), reporter);
    }

    /// Opens a file. When a resource is exhausted, files of the user with the most give way to one
    /// of a user with little.
    fn open(
        &mut self,
        name: &OsStr,
        usage: &mut Usage,
        now: Duration,
        reporter: &mut Reporter,
    ) -> Result<(Source, Contents), RejectReason> {
        let entry = self.watcher.table.get(name);
        let owner = entry.map_or(NOBODY, |entry| entry.owner);
        let id = entry.map(|entry| entry.id);
        loop {
            let result = self.admission.open(name, owner, id, usage, now);
            let lacks_room = result.as_ref().is_err_and(RejectReason::is_lack_of_room);
            if lacks_room && self.free_departed(usage, reporter) {
                continue;
            }
            let wanted = result.as_ref().err().and_then(is_used_up);
            let Some((resource, needed)) = wanted else { return result };
            let user = self.admission.user(name, owner);
            let from = self.admission.yielding_user(usage, user, resource, needed);
            let Some(from) = from else { return result };
            if !self.close_newest(from, resource, usage, now, reporter) {
                return result;
            }
        }
    }

    fn harvested_names(&self) -> HashMap<FileId, OsString> {
        let active = self.active.iter().filter(|active| active.departure.is_none());
        active.map(|active| (active.source.id, active.name.clone())).collect()
    }

    /// Closes the newest file of a user that uses a resource. Returns false if there is none.
    fn close_newest(
        &mut self,
        user: u32,
        resource: Resource,
        usage: &mut Usage,
        now: Duration,
        reporter: &mut Reporter,
    ) -> bool {
        let of_user = self.active.iter().filter(|active| {
            self.admission.user(&active.name, active.source.owner) == user
                && amounts(&active.source).get(resource) > 0
        });
        let Some(newest) = of_user.max_by_key(|active| active.number) else { return false };
        let name = newest.name.clone();
        let freed = amounts(&newest.source);
        usage.remove(user, &freed);
        let reason = format!(
            "closed to make room: user {user} has more than an equal share of all {}",
            resource.unit()
        );
        self.close(&name, &reason, reporter);
        self.watcher.table.wait(&name, FileState::Waiting, &reason, now);
        reporter.events.refused(&name, EventKind::Waiting, &reason);
        true
    }

    /// Closes the newest files of the users with the most metadata until a catalog of the
    /// remaining files fits into memory, which may have become scarce since they were opened.
    pub(crate) fn make_room(&mut self, now: Duration, reporter: &mut Reporter) {
        loop {
            let usage = self.usage_without("".as_ref());
            let values = usage.total(Resource::Values);
            let metadata = usage.total(Resource::Metadata);
            if has_memory_for(values, metadata) {
                return;
            }
            let most = usage.iter().max_by_key(|(_, amounts)| amounts.get(Resource::Metadata));
            let Some((user, _)) = most else { return };
            let newest = self.active.iter().filter(|active| {
                !self.admission.is_own(&active.name)
                    && self.admission.user(&active.name, active.source.owner) == user
            });
            let Some(newest) = newest.max_by_key(|active| active.number) else { return };
            let values = newest.source.plan().len();
            let name = newest.name.clone();
            let reason = RejectReason::NoMemory { values };
            self.close(&name, &reason.to_string(), reporter);
            self.watcher.table.wait(&name, reason.state(), &reason.to_string(), now);
            reporter.events.refused(&name, EventKind::Waiting, &reason);
        }
    }

    /// Closes sources that lost their clusters to other files. They are due again at once, or
    /// after a pause for lack of clusters.
    fn close_displaced(&mut self, now: Duration, reporter: &mut Reporter) {
        for name in self.admission.take_displaced() {
            let reason = "its cluster is needed for a file of another user";
            self.close(&name, reason, reporter);
            self.watcher.table.wait(&name, FileState::Waiting, reason, now);
        }
    }

    /// Handles a finding of the sampler: rereads the metadata of the source, or closes it.
    pub(crate) fn take_finding(
        &mut self,
        ticket: Ticket,
        finding: SourceFinding,
        now: Duration,
        reporter: &mut Reporter,
    ) {
        let found = self.active.iter().find(|active| active.ticket == ticket);
        // The source may be closed by now.
        let Some(name) = found.map(|active| active.name.clone()) else { return };
        let departed = self.is_departed(&name);
        match finding {
            SourceFinding::Fault(fault) if fault.is_new_metadata() => {
                self.reload(&name, departed, now, reporter);
            }
            SourceFinding::Grown { last } => self.reload(&name, last, now, reporter),
            _ if departed => {
                self.close_departed(|departed| departed.name == name, reporter);
            }
            SourceFinding::Fault(fault) => self.drop_faulty(&name, fault, now, reporter),
            SourceFinding::Ended => self.close_ended(&name, now, reporter),
            SourceFinding::Unlinked => self.close_unlinked(&name, now, reporter),
        }
    }

    /// Reads new metadata that could not be read before, and that of new files.
    pub(crate) fn read_due(&mut self, now: Duration, reporter: &mut Reporter) {
        let mut due = Vec::new();
        for active in &mut self.active {
            if active.retry.as_ref().is_some_and(|retry| retry.due <= now) {
                due.push(active.name.clone());
            } else if active.look.is_some_and(|look| look.due <= now) {
                active.schedule_check(now);
                if active.source.has_new_metadata() {
                    due.push(active.name.clone());
                }
            }
        }
        for name in due {
            self.reload(&name, false, now, reporter);
        }
    }

    /// Reports spells of missing samples.
    pub(crate) fn take_gaps(&mut self, gaps: Vec<Gap>, reporter: &mut Reporter) {
        for Gap { of, at, change } in gaps {
            // The file may be gone by now.
            let Some(known) = self.gaps.get_mut(&of.file) else { continue };
            match change {
                GapChange::Began(cause) => {
                    known.since = Some(at);
                    let reason = match cause {
                        GapCause::ChangingMetadata => "its metadata is being changed",
                        GapCause::Slow => "reading its values takes too long",
                    };
                    reporter.gap_began(&of.file, at, reason);
                }
                GapChange::Ended { missing } => {
                    reporter.gap_ended(&of.file, at, known.since.take(), missing);
                }
            }
        }
    }

    /// Returns all sources by number, with those that the sampler does not have yet.
    pub(crate) fn hand_over(&mut self) -> Vec<PlannedSource> {
        let mut planned = Vec::with_capacity(self.active.len());
        for active in &mut self.active {
            active.note_plan();
            planned.push(PlannedSource {
                ticket: active.ticket,
                owner: active.source.owner,
                new: active.active.take(),
            });
        }
        planned
    }

    /// Returns the time until the next work is due, unless the directory changes earlier.
    pub(crate) fn due_in(&self, now: Duration) -> Duration {
        let retries = self.active.iter().filter_map(|active| Some(active.retry.as_ref()?.due));
        let looks = self.active.iter().filter_map(|active| Some(active.look?.due));
        let due = retries.chain(looks).chain(self.watcher.table.next_due());
        let due = due.chain(self.watcher.due()).min();
        let retry = due.map_or(Duration::MAX, |due| due.saturating_sub(now)).max(SHORTEST_PAUSE);
        if self.watcher.watch().is_some() { retry } else { retry.min(UNWATCHED) }
    }

    /// Returns a descriptor that is readable when the directory has changed, if it is watched.
    pub(crate) fn watch(&self) -> Option<BorrowedFd<'_>> {
        self.watcher.watch()
    }

    fn next_ticket(&mut self) -> Ticket {
        self.ticket += 1;
        self.ticket
    }

    /// Returns true if sources have come, gone, or changed their metadata since the last call.
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Returns the sources for the catalog, by number.
    pub(crate) fn members(&self) -> Vec<CatalogSource<'_>> {
        let payers = self.users().into_iter();
        self.active.iter().zip(payers).map(|(active, payer)| active.member(payer)).collect()
    }

    /// Returns the state for the next run; `now` and `oldest` are in seconds since 1970. Files
    /// that were last harvested before `oldest` are forgotten. The agent's own file is left out,
    /// since the next run has another one.
    pub(crate) fn remember(&mut self, now: i64, oldest: i64, own: Option<&OsStr>) -> LoaderState {
        let memory = self.admission.remember(now, oldest);
        LoaderState { harvested: self.harvested(own), ..memory }
    }

    /// Returns the files under harvest without `own`.
    pub(crate) fn harvested(&self, own: Option<&OsStr>) -> Vec<KnownFile> {
        let others = self
            .active
            .iter()
            .filter(|active| Some(active.name.as_os_str()) != own && active.departure.is_none());
        others.map(|active| KnownFile::new(&active.name, active.source.id)).collect()
    }

    /// Returns the status of all files by name: those under harvest, and those that wait.
    pub(crate) fn status(&self, now: Duration) -> Vec<SourceStatus> {
        let files = self.watcher.table.iter().map(|(name, entry)| SourceStatus {
            file: name.display().to_string(),
            state: entry.state.name().to_owned(),
            since: now.saturating_sub(entry.since).as_secs_f64(),
            reason: entry.reason().map(str::to_owned),
            values: self.find(name).map_or(0, |at| self.active[at].logged.values),
            user: entry.owner,
            missing: self.gaps.get(name).map_or(0, |gaps| gaps.counts.missing()),
            left_out: self.not_loaded(name).into_iter().collect(),
        });
        files.collect()
    }

    /// Returns what the files of each user use.
    pub(crate) fn owners(&self, disk: &DiskShares) -> Vec<OwnerStatus> {
        let usage = self.usage_without("".as_ref());
        let mut owners: BTreeMap<u32, OwnerStatus> = BTreeMap::new();
        for (user, amounts) in usage.iter() {
            let used = |resource| OwnerUsage {
                used: amounts.get(resource),
                limit: self.admission.limit(user, resource),
            };
            let status = OwnerStatus {
                files: used(Resource::Files),
                values: used(Resource::Values),
                metadata: used(Resource::Metadata),
                mapped: used(Resource::Mapped),
                clusters: self.admission.clusters_of(user) as u64,
                disk: OwnerUsage { used: disk.bytes(user), limit: disk.limit(user) },
                cut: disk.is_suspended(user),
                ..OwnerStatus::default()
            };
            owners.insert(user, status);
        }
        let table = self.watcher.table.iter();
        for (name, entry) in table.filter(|(_, entry)| entry.state == FileState::Waiting) {
            let user = self.admission.user(name, entry.owner);
            owners.entry(user).or_default().wait(entry.reason().unwrap_or_default());
        }
        owners.into_iter().map(|(user, status)| OwnerStatus { user, ..status }).collect()
    }

    /// Returns the number of files in each state, in the order of [`FileState::ALL`].
    pub(crate) fn count(&self) -> [u64; FileState::ALL.len()] {
        let mut counts = [0; FileState::ALL.len()];
        for (_, entry) in self.watcher.table.iter() {
            counts[entry.state as usize] += 1;
        }
        counts
    }

    fn find(&self, name: &OsStr) -> Option<usize> {
        self.active.binary_search_by(|active| active.name.as_os_str().cmp(name)).ok()
    }

    /// Returns what all files but one use.
    fn usage_without(&self, name: &OsStr) -> Usage {
        let mut used = Usage::default();
        for active in self.active.iter().filter(|active| active.name != name) {
            used.add(
                self.admission.user(&active.name, active.source.owner),
                &amounts(&active.source),
            );
        }
        used
    }

    /// Inserts a source in name order.
    fn put(&mut self, mut active: LoadedSource, now: Duration) {
        self.numbered += 1;
        self.changed = true;
        self.shortage.remove(&active.name);
        let found = self.active.binary_search_by(|known| known.name.cmp(&active.name));
        if let Ok(at) = found {
            active.number = self.active[at].number;
            active.look = self.active[at].look;
        } else {
            active.number = self.numbered;
            active.schedule_check(now);
        }
        // Another file may have the name of a departed source.
        if active.departure.is_none() {
            self.restarts.harvested(&active.name, active.source.id);
            self.watcher.table.set_harvested(&active.name, now);
        }
        match found {
            Ok(at) => self.active[at] = active,
            Err(at) => self.active.insert(at, active),
        }
    }

    /// Returns the counts of missing samples of a file.
    fn gaps_of(&mut self, name: &OsStr) -> Arc<FileGaps> {
        let known = self.gaps.entry(name.to_owned()).or_insert_with(|| KnownGaps {
            counts: Arc::new(FileGaps::new(name.to_owned())),
            since: None,
        });
        Arc::clone(&known.counts)
    }

    /// Returns the reason why the newest metadata of a file is not harvested, if that has lasted.
    fn not_loaded(&self, name: &OsStr) -> Option<String> {
        let retry = self.active[self.find(name)?].retry.as_ref()?;
        (retry.tries >= MAX_QUIET_TRIES).then(|| format!("what it has added: {}", retry.reason))
    }

    /// Reads the new metadata of a source. If that fails, its known values are kept if possible.
    /// With `last`, nothing more will be written to the file.
    fn reload(&mut self, name: &OsStr, last: bool, now: Duration, reporter: &mut Reporter) {
        let Err(rejected) = self.read_again(name, now, reporter) else { return };
        if last && self.settle(name) {
            return;
        }
        if self.is_departed(name) {
            if last {
                self.close_departed(|departed| departed.name == name, reporter);
            }
            return;
        }
        match rejected {
            RejectedUpdate::Collision(collision) => {
                self.reject_collision(name, &collision, now, reporter);
            }
            RejectedUpdate::Reason(reason) => {
                if !self.keep(name, &reason, now, reporter) {
                    let removed = self.remove(name);
                    let was_kept = removed.is_some_and(|active| active.retry.is_some());
                    self.reject(name, &reason, was_kept, now, reporter);
                }
            }
        }
    }

    /// Reads the metadata of a source again, if there is one of this name.
    fn read_again(
        &mut self,
        name: &OsStr,
        now: Duration,
        reporter: &mut Reporter,
    ) -> Result<(), RejectedUpdate> {
        let ticket = self.next_ticket();
        let Some(at) = self.find(name) else { return Ok(()) };
        let used = self.usage_without(name);
        let known = &self.active[at];
        let read = self.admission.read_again(name, &known.source, &used, now);
        let (source, contents) = read.map_err(RejectedUpdate::Reason)?;
        let gaps = &known.gaps;
        let active = self.admission.admit(source, ticket, gaps, &contents, Some(known), reporter);
        let mut active = active.map_err(RejectedUpdate::Collision)?;
        active.count_recreations(known);
        reporter.grown(name, active.logged);
        self.put(active, now);
        Ok(())
    }

    /// Returns true if a source stays although its new metadata cannot be read for now, and
    /// schedules the next attempt. A file that is being written stays for a while. A growing file
    /// stays for good if it grows too fast, or beyond what there is room for.
    fn keep(
        &mut self,
        name: &OsStr,
        reason: &RejectReason,
        now: Duration,
        reporter: &mut Reporter,
    ) -> bool {
        let Some(at) = self.find(name) else { return false };
        let active = &mut self.active[at];
        let stays = active.source.grows()
            && (reason.is_growth() || reason.is_limit_on_cost() || reason.is_lack_of_room());
        let transient = reason.is_transient();
        if !stays && !transient {
            return false;
        }
        // Numbers in the reason change from try to try while a file is being written.
        let key = if transient { BEING_WRITTEN.to_owned() } else { reason.to_string() };
        let tries = active.retry(key, reason.is_lack_of_room(), now);
        if stays && tries == MAX_QUIET_TRIES {
            reporter.not_loaded(name, reason);
        }
        stays || tries < MAX_QUIET_TRIES
    }

    /// Notes that a source has lost its name. It stays until its last values were read. Returns
    /// false if there is no source of the name.
    fn depart(
        &mut self,
        name: &OsStr,
        departure: Departure,
        now: Duration,
        reporter: &mut Reporter,
    ) -> bool {
        let Some(at) = self.find(name) else { return false };
        let active = &mut self.active[at];
        active.departure = Some(departure);
        active.retry = None;
        active.look = None;
        let source = &active.source;
        if source.grows() && (source.has_new_metadata() || source.may_lack_metadata()) {
            // Its last values include those added last. If their metadata cannot be read, the
            // known values stay.
            drop(self.read_again(name, now, reporter));
        }
        true
    }

    fn is_departed(&self, name: &OsStr) -> bool {
        self.find(name).is_some_and(|at| self.active[at].departure.is_some())
    }

    /// Closes those of the departed sources that `chosen` accepts. Returns false if there are
    /// none.
    fn close_departed(
        &mut self,
        chosen: impl Fn(&LoadedSource) -> bool,
        reporter: &mut Reporter,
    ) -> bool {
        let mut departed = Vec::new();
        for active in &self.active {
            if let Some(departure) = active.departure
                && chosen(active)
            {
                departed.push((active.name.clone(), departure));
            }
        }
        for (name, departure) in &departed {
            match departure {
                Departure::Vanished => {
                    reporter.events.vanished(name);
                    self.close(name, "vanished", reporter);
                    self.left.remove(name);
                }
                Departure::Replaced => {
                    self.close(name, "replaced", reporter);
                    // Its successor waits for this.
                    self.watcher.table.retry_now(name);
                }
            }
        }
        !departed.is_empty()
    }

    /// Closes all departed sources to make room for others. Returns false if there are none.
    fn free_departed(&mut self, usage: &mut Usage, reporter: &mut Reporter) -> bool {
        for active in self.active.iter().filter(|active| active.departure.is_some()) {
            let user = self.admission.user(&active.name, active.source.owner);
            usage.remove(user, &amounts(&active.source));
        }
        self.close_departed(|_| true, reporter)
    }

    /// Requests a last read of a growing source by its known metadata, since the newest cannot be
    /// read. Returns false if that is not possible.
    fn settle(&mut self, name: &OsStr) -> bool {
        let ticket = self.next_ticket();
        let Some(at) = self.find(name) else { return false };
        let settles = self.active[at].settle(ticket);
        self.changed |= settles;
        settles
    }

    /// Closes a source whose last values were read after its file was unlinked. The directory was
    /// not listed since then.
    fn close_unlinked(&mut self, name: &OsStr, now: Duration, reporter: &mut Reporter) {
        const REASON: &str = "it was unlinked";
        self.close(name, REASON, reporter);
        self.watcher.table.wait(name, FileState::Waiting, REASON, now);
    }

    /// Drops a source whose values may not be used.
    fn drop_faulty(&mut self, name: &OsStr, fault: Fault, now: Duration, reporter: &mut Reporter) {
        self.remove(name);
        self.watcher.table.wait(name, FileState::Quarantined, &fault.to_string(), now);
        reporter.faulty(name, fault);
    }

    /// Closes a source whose last values were read.
    fn close_ended(&mut self, name: &OsStr, now: Duration, reporter: &mut Reporter) {
        let Some(active) = self.remove(name) else { return };
        let Some(process) = active.source.process() else { return };
        let reason = RejectReason::NoProcess { pid: process.pid };
        self.watcher.table.wait(name, reason.state(), &reason.to_string(), now);
        reporter.events.ended(name, process.pid);
        self.admission.note_end(active.source.id);
        reporter.closed(name, &reason);
    }

    fn close(&mut self, name: &OsStr, reason: &str, reporter: &mut Reporter) {
        if self.remove(name).is_some() {
            reporter.closed(name, &reason);
        }
    }

    fn remove(&mut self, name: &OsStr) -> Option<LoadedSource> {
        let at = self.find(name)?;
        self.admission.release(name);
        self.changed = true;
        let removed = self.active.remove(at);
        removed.gaps.forget_spell();
        if let Some(process) = removed.source.running_process() {
            self.left.insert(name.to_owned(), process);
        }
        Some(removed)
    }

    /// Returns the running process that had a file of this name, if another running process has
    /// one now.
    fn displaced(&mut self, name: &OsStr, source: &Source) -> Option<i32> {
        let before = self.left.remove(name)?;
        let now = source.process()?;
        (before.pid != now.pid && before.is_alive() && now.is_alive()).then_some(before.pid)
    }

    /// Notes that a file cannot be opened for now; `was_kept` if its metadata could not be read
    /// before.
    fn reject(
        &mut self,
        name: &OsStr,
        reason: &RejectReason,
        was_kept: bool,
        now: Duration,
        reporter: &mut Reporter,
    ) {
        if reason.is_shortage() {
            self.shortage.add(name, reason.to_string());
        } else {
            self.shortage.remove(name);
        }
        let transient = reason.is_transient() && !was_kept;
        // Numbers in the reason change from try to try while a file is being written.
        let key = if reason.is_transient() { BEING_WRITTEN.to_owned() } else { reason.to_string() };
        let table = &mut self.watcher.table;
        let tries = if transient {
            table.wait_shortly(name, &key, now)
        } else {
            table.wait(name, reason.state(), &key, now)
        };
        if let RejectReason::NoProcess { .. } = reason {
            self.request_removal(name, now);
        }
        if tries == if transient { MAX_QUIET_TRIES } else { 1 } {
            reporter.rejected(name, reason.state(), reason);
        }
    }

    /// Notes that no cluster is left for a file.
    fn reject_collision(
        &mut self,
        name: &OsStr,
        collision: &Collision,
        now: Duration,
        reporter: &mut Reporter,
    ) {
        self.remove(name);
        let state = match collision {
            Collision::Share { .. } | Collision::Exhausted => FileState::Waiting,
            _ => FileState::Quarantined,
        };
        if self.watcher.table.wait(name, state, &collision.to_string(), now) == 1 {
            reporter.rejected(name, state, collision);
        }
    }

    /// Requests the removal of a file whose process is gone, if it was harvested until then.
    fn request_removal(&mut self, name: &OsStr, now: Duration) {
        let Some(entry) = self.watcher.table.get(name) else { return };
        let id = entry.id;
        let gone = now.saturating_sub(entry.since);
        let Some(process) = self.admission.ended_producer(id) else { return };
        let directory = self.watcher.path().to_owned();
        let name = name.to_owned();
        self.removal.request(DeadFile { directory, name, id, process }, gone);
    }
}

#[cfg(test)]
mod tests;

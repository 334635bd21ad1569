//! All files under harvest: opened, watched, read, given up.
//!
//! One bad file never affects another: whatever is wrong with it ends in the
//! [`Roster`], where it waits for its next try. What changes is logged once.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use mmv_writer::view::{self, Contents};
use pcp_types::Timestamp;
use tracing::{error, info, warn};

use crate::allowance::Allowance;
use crate::catalog::Member;
use crate::config::Limits;
use crate::descriptors;
use crate::directory::{Directory, Listing};
use crate::events::Kind;
use crate::harvest::Values;
use crate::identity::{Claim, Collision, Identity};
use crate::journal::Journal;
use crate::liveness::Process;
use crate::own;
use crate::removal::{Dead, Removal, Stays};
use crate::restarts::Restarts;
use crate::roster::{Change, FileId, Plight, Roster};
use crate::source::{Fault, MOST_DESCRIPTORS, Source, Unfit};
use crate::state::{Fed, Feeder, Harvested, Memory};
use crate::status::SourceStatus;
use crate::translate::{Translation, items, translate};
use crate::voice::Voice;

/// How many tries a file may look half-written before that is worth a line.
const PATIENCE: u32 = 5;

/// Bytes of metadata of one file that may be read at once, and in a second later
/// on: about a tenth of a processor. It is meant for files whose metadata changes
/// at each tick, and lets a program grow by thousands of instances a second.
const READ_AT_ONCE: f64 = 256e6;
const READ_PER_SECOND: f64 = 32e6;

/// What files have of that which is limited.
#[derive(Debug, Clone, Copy, Default)]
struct Held {
    files: usize,
    descriptors: u64,
    values: usize,
}

impl Held {
    fn add(&mut self, source: &Source) {
        self.files += 1;
        self.descriptors += source.descriptors();
        self.values += source.plan().len();
    }
}

/// What opening a file costs beside its size, in bytes read.
const COST_OF_OPENING: f64 = 10e3;

/// What reading metadata costs, in bytes, about.
fn cost(contents: &Contents) -> f64 {
    let instances: usize = contents.indoms.iter().map(|indom| indom.instances.len()).sum();
    let bytes = contents.metrics.len() * 300
        + instances * 100
        + contents.values.len() * 40
        + contents.labels.len() * 500;
    COST_OF_OPENING + bytes as f64
}

/// The process that a source counts with, if any.
fn feeder(source: &Source) -> Option<Feeder> {
    let process = source.process()?;
    let (pid, started) = (process.pid(), process.started());
    Some(Feeder { pid, generation: source.generation(), started, ended: false })
}

/// One file with its metadata and the values of the last pass.
#[derive(Debug)]
struct Live {
    name: OsString,
    source: Source,
    translation: Translation,
    values: Values,
    /// The tick whose pass read its values last.
    read: Option<Duration>,
    /// Whether the checks after that pass had no fault.
    usable: bool,
    /// Whether the last pass read final values: its process has ended.
    over: bool,
    /// How many of its entries were left out.
    left_out: usize,
}

/// The sources, in byte order of their names.
#[derive(Debug)]
pub(crate) struct Sources {
    directory: Directory,
    unreadable: bool,
    /// How many file descriptors the sources may have together.
    room: u64,
    limits: Limits,
    /// What may be spent on reading a file's metadata again, by its name.
    reading: HashMap<OsString, Allowance>,
    voice: Voice,
    journal: Journal,
    restarts: Restarts,
    roster: Roster,
    identity: Identity,
    live: Vec<Live>,
    /// The process of each file that has one and was harvested: another process
    /// with its number does not bring the file back.
    fed: HashMap<FileId, Feeder>,
    /// What dead processes left, if that is to be removed.
    removal: Removal,
    /// What is in the directory besides files, and has been said.
    others: HashSet<OsString>,
    changed: bool,
}

impl Sources {
    /// The files of the directory at `path`, with the clusters that are
    /// remembered; none until [`refresh`](Self::refresh).
    pub(crate) fn new(path: PathBuf, limits: Limits, memory: &Memory) -> Self {
        Self {
            directory: Directory::new(path),
            unreadable: false,
            room: descriptors::room(),
            limits,
            reading: HashMap::new(),
            voice: Voice::new(),
            journal: Journal::new(),
            restarts: Restarts::default(),
            roster: Roster::default(),
            identity: Identity::of(memory),
            live: Vec::new(),
            fed: memory.fed.iter().map(Fed::parts).collect(),
            removal: Removal::default(),
            others: HashSet::new(),
            changed: false,
        }
    }

    /// Other limits for files that are opened from now on.
    pub(crate) fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// What happened to them, and to the agent.
    pub(crate) fn journal(&mut self) -> &mut Journal {
        &mut self.journal
    }

    /// Whether one more line about files may be written.
    pub(crate) fn may_speak(&mut self) -> bool {
        self.voice.may_speak()
    }

    /// The user who owns a source's file.
    pub(crate) fn owner(&self, source: usize) -> u32 {
        self.live.get(source).map_or(0, |live| live.source.owner())
    }

    /// Notices files that have come and gone, and tries those that are due.
    pub(crate) fn refresh(&mut self, now: Duration) {
        self.voice.set_now(now);
        self.drop_ended(now);
        match self.directory.look(now) {
            Ok(None) => {}
            Ok(Some(listing)) => {
                self.unreadable = false;
                self.reading.retain(|_, allowance| !allowance.is_full(now));
                self.take(&listing, now);
            }
            Err(error) => {
                if !self.unreadable {
                    let path = self.directory.path().display();
                    error!(directory = %path, %error, "the directory cannot be read");
                }
                self.unreadable = true;
            }
        }
        let due = self.roster.due(now);
        if !due.is_empty() {
            self.open(&due, now);
        }
    }

    fn take(&mut self, listing: &Listing, now: Duration) {
        for change in self.roster.compare(&listing.files, now) {
            match change {
                Change::Appeared(_) => {}
                Change::Replaced(name) => {
                    self.journal.replaced(&name);
                    self.close(&name, "replaced");
                }
                Change::Vanished(name) => {
                    self.journal.vanished(&name);
                    self.restarts.vanished(&name);
                    self.close(&name, "vanished");
                }
            }
        }
        let listed: HashSet<FileId> = listing.files.iter().map(|listed| listed.id).collect();
        self.fed.retain(|id, _| listed.contains(id));
        self.removal.keep(&listed);
        for (name, kind) in &listing.others {
            if !self.others.contains(name) && self.voice.may_speak() {
                warn!(file = %name.display(), reason = %kind, "not harvested");
            }
        }
        self.others = listing.others.iter().map(|(name, _)| name.clone()).collect();
    }

    /// Reads the values of the sources that are wanted, by their numbers, and
    /// that were not read at this tick; checks what was read. Sources that grew
    /// meanwhile are read again, those that fail are left out.
    ///
    /// Returns the sources of which records need another shape: other values are
    /// present, or strings have other lengths.
    pub(crate) fn harvest(
        &mut self,
        now: Duration,
        stamp: Timestamp,
        wanted: impl Fn(usize) -> bool,
    ) -> Vec<usize> {
        let micros = (stamp.as_nanos() / 1000) as i64;
        let mut reshaped = Vec::new();
        let mut failed = Vec::new();
        for (number, live) in self.live.iter_mut().enumerate() {
            if live.read == Some(now) || !wanted(number) {
                continue;
            }
            live.read = Some(now);
            // Asked first: what is read after the end of a process is final.
            live.over = !live.source.is_fed();
            if live.source.read(&mut live.values, micros) {
                reshaped.push(number);
            }
            let fault = live.source.check().err();
            live.usable = fault.is_none();
            failed.extend(fault.map(|fault| (live.name.clone(), fault)));
        }
        for (name, fault) in failed {
            match fault {
                Fault::Generation { .. } => self.grow(&name, now, micros),
                fault => self.give_up(&name, &fault, now),
            }
        }
        reshaped
    }

    /// Whether sources have come, gone, or changed their metadata since this
    /// was last asked.
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Files that are to be removed.
    pub(crate) fn removal(&mut self) -> &mut Removal {
        &mut self.removal
    }

    /// What became of a file that was to be removed.
    pub(crate) fn removed(&mut self, dead: &Dead, stays: Option<&Stays>) {
        let (file, pid) = (dead.name.display(), dead.process.pid);
        if stays.is_none() {
            self.journal.removed(&dead.name, pid);
        }
        if !self.voice.may_speak() {
            return;
        }
        match stays {
            None => info!(%file, pid, "removed, as its process has been gone for long"),
            Some(Stays::Refused(error)) => {
                warn!(%file, pid, %error, "cannot be removed, and stays");
            }
            Some(reason) => info!(%file, pid, %reason, "is not removed"),
        }
    }

    /// Programs that begin anew.
    pub(crate) fn restarts(&mut self) -> &mut Restarts {
        &mut self.restarts
    }

    /// What the next run has to know; `now` in seconds since 1970. Files that
    /// were last harvested before `oldest` are forgotten. `own` is the agent's own
    /// file, if any: that it will be another one then is no news.
    pub(crate) fn remember(&mut self, now: i64, oldest: i64, own: Option<&OsStr>) -> Memory {
        let mut memory = self.identity.remember(now);
        if self.identity.is_older(oldest) {
            self.identity.forget(oldest);
            memory = self.identity.remember(now);
        }
        memory.harvested = self.harvested(own);
        let fed = self.fed.iter().map(|(id, process)| Fed::new(*id, *process));
        memory.fed = fed.collect();
        memory
    }

    /// All files, by name: those under harvest, and those that wait.
    pub(crate) fn status(&self, now: Duration) -> Vec<SourceStatus> {
        let age = |since| now.saturating_sub(since).as_secs_f64();
        let live = self.live.iter().map(|live| SourceStatus {
            file: live.name.display().to_string(),
            state: own::STATES[0].to_owned(),
            since: age(self.roster.since(&live.name)),
            reason: None,
            values: live.source.plan().len(),
        });
        let waiting = self.roster.waiting().map(|kept| SourceStatus {
            file: kept.name.display().to_string(),
            state: kept.plight.name().to_owned(),
            since: age(kept.since),
            reason: Some(kept.reason.to_owned()),
            values: 0,
        });
        let mut all: Vec<_> = live.chain(waiting).collect();
        all.sort_by(|one, other| one.file.cmp(&other.file));
        all
    }

    /// How many files are in each state, in the order of [`own::STATES`].
    pub(crate) fn count(&self) -> [u64; 3] {
        let mut counts = [self.live.len() as u64, 0, 0];
        for kept in self.roster.waiting() {
            counts[if kept.plight == Plight::Waiting { 1 } else { 2 }] += 1;
        }
        counts
    }

    /// The files under harvest, but for one.
    pub(crate) fn harvested(&self, but: Option<&OsStr>) -> Vec<Harvested> {
        let others = self.live.iter().filter(|live| Some(live.name.as_os_str()) != but);
        others.map(|live| Harvested::new(&live.name, live.source.id())).collect()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.live.len()
    }

    /// The numbers of the sources whose last values were read in this pass.
    pub(crate) fn ended(&self) -> Vec<usize> {
        let over = self.live.iter().enumerate().filter(|(_, live)| live.over);
        over.map(|(number, _)| number).collect()
    }

    /// The values that were read at this tick, in byte order of the names;
    /// `None` for a source that was not read, or whose values may not be used.
    pub(crate) fn values(&self, now: Duration) -> Vec<Option<&Values>> {
        let usable = |live: &Live| live.usable && live.read == Some(now);
        self.live.iter().map(|live| usable(live).then_some(&live.values)).collect()
    }

    /// The sources for the catalog, in byte order of their names.
    pub(crate) fn members(&self) -> Vec<Member<'_>> {
        self.live
            .iter()
            .map(|live| Member {
                file: &live.name,
                translation: &live.translation,
                plan: live.source.plan(),
            })
            .collect()
    }

    /// Opens files and gives them their clusters: explicit ones of the whole
    /// batch first.
    fn open(&mut self, names: &[OsString], now: Duration) {
        let mut opened = Vec::new();
        let mut held = self.held_but("".as_ref());
        for name in names {
            match self.try_open(name, held, now) {
                Ok((source, contents)) => {
                    held.add(&source);
                    self.identity.reserve(contents.header.cluster);
                    opened.push((name, source, contents));
                }
                Err(unfit) => self.refuse(name, &unfit, now),
            }
        }
        for (name, source, contents) in opened {
            if self.admit(name, source, &contents, now) && self.voice.may_speak() {
                info!(
                    file = %name.display(),
                    version = contents.header.version,
                    metrics = contents.metrics.len(),
                    values = contents.values.len(),
                    "harvested"
                );
            }
        }
    }

    /// What all files but one have.
    fn held_but(&self, name: &OsStr) -> Held {
        let mut held = Held::default();
        for live in self.live.iter().filter(|live| live.name != name) {
            held.add(&live.source);
        }
        held
    }

    /// Opens a file while others hold so much.
    fn try_open(
        &mut self,
        name: &OsStr,
        held: Held,
        now: Duration,
    ) -> Result<(Source, Contents), Unfit> {
        let (used, room, most) = (held.descriptors, self.room, self.limits.files);
        if used + MOST_DESCRIPTORS > room {
            return Err(Unfit::NoDescriptor { used, room });
        }
        if held.files >= most {
            return Err(Unfit::Files { most });
        }
        let path = self.directory.path().join(name);
        let (source, contents) =
            self.read(name, held, now, |limits| Source::open(&path, limits))?;
        match feeder(&source) {
            Some(now) if self.fed.get(&source.id()).is_some_and(|known| known.is_other(now)) => {
                Err(Unfit::NoProcess { pid: now.pid })
            }
            _ => Ok((source, contents)),
        }
    }

    /// Reads a file's metadata, if it has not cost too much already.
    fn read(
        &mut self,
        name: &OsStr,
        held: Held,
        now: Duration,
        read: impl FnOnce(view::Limits) -> Result<(Source, Contents), Unfit>,
    ) -> Result<(Source, Contents), Unfit> {
        let limits = view::Limits { bytes: self.limits.metadata_bytes };
        let new = || Allowance::new(READ_AT_ONCE, READ_PER_SECOND);
        let allowance = self.reading.entry(name.to_owned()).or_insert_with(new);
        if !allowance.has_any(now) {
            return Err(Unfit::Restless);
        }
        match read(limits) {
            Ok((source, contents)) => {
                allowance.take(cost(&contents));
                let (values, most) = (source.plan().len(), self.limits.values);
                if held.values.saturating_add(values) > most {
                    return Err(Unfit::Values { values, most });
                }
                Ok((source, contents))
            }
            Err(unfit) => {
                // How much of it was read nobody knows; its pauses grow as well.
                allowance.take(COST_OF_OPENING);
                Err(unfit)
            }
        }
    }

    /// Takes an opened file among the sources, or in the place of its former
    /// self; `false` if no cluster is left for it.
    fn admit(&mut self, name: &OsStr, source: Source, contents: &Contents, now: Duration) -> bool {
        let (items, misnamed) = items(name, contents);
        let claim = Claim {
            file: name.to_owned(),
            cluster: contents.header.cluster,
            owner: source.owner(),
            items,
        };
        let placement = match self.identity.place(&claim) {
            Ok(placement) => placement,
            Err(collision) => {
                self.reject(name, &collision, now);
                return false;
            }
        };
        if let Some(collision) = placement.moved.as_ref().filter(|_| self.voice.may_speak()) {
            let cluster = placement.cluster;
            warn!(file = %name.display(), cluster, %collision, "moved to another cluster");
        }
        let pid = source.process().map(Process::pid);
        self.journal.admitted(name, pid, contents.values.len());
        self.restarts.harvested(name, source.id());
        let live = Live {
            name: name.to_owned(),
            translation: translate(contents, &claim.items, &placement),
            values: Values::new(source.plan()),
            source,
            read: None,
            usable: false,
            over: false,
            left_out: contents.skipped.len() + contents.unlisted + misnamed.len(),
        };
        let left_out_before = self.find(name).map_or(0, |known| known.left_out);
        if live.left_out != left_out_before && self.voice.may_speak() {
            report(name, contents.skipped.iter(), contents.unlisted);
            report(name, misnamed.iter(), 0);
        }
        self.put(live, now);
        true
    }

    fn find(&self, name: &OsStr) -> Option<&Live> {
        self.live.iter().find(|live| live.name == name)
    }

    /// Puts a source in its place among the others.
    fn put(&mut self, live: Live, now: Duration) {
        self.fed.extend(feeder(&live.source).map(|process| (live.source.id(), process)));
        self.roster.live(&live.name, now);
        self.changed = true;
        match self.live.binary_search_by(|known| known.name.cmp(&live.name)) {
            Ok(at) => self.live[at] = live,
            Err(at) => self.live.insert(at, live),
        }
    }

    /// A source has new metadata: it is resolved and read again, so that this
    /// tick has its values.
    fn grow(&mut self, name: &OsStr, now: Duration, micros: i64) {
        let Some(at) = self.live.iter().position(|live| live.name == name) else { return };
        let known = self.live[at].source.again();
        let held = self.held_but(name);
        match self.read(name, held, now, |limits| known?.resolve(limits)) {
            Ok((source, contents)) => {
                self.identity.reserve(contents.header.cluster);
                if !self.admit(name, source, &contents, now) {
                    return;
                }
                if self.voice.may_speak() {
                    info!(
                        file = %name.display(),
                        metrics = contents.metrics.len(),
                        values = contents.values.len(),
                        "its metadata changed"
                    );
                }
                if let Some(live) = self.live.iter_mut().find(|live| live.name == name) {
                    live.source.read(&mut live.values, micros);
                    live.usable = live.source.check().is_ok();
                    live.read = Some(now);
                }
            }
            Err(unfit) => {
                self.remove(name);
                self.refuse(name, &unfit, now);
            }
        }
    }

    fn give_up(&mut self, name: &OsStr, fault: &Fault, now: Duration) {
        self.remove(name);
        // What becomes of a name that is gone, or another file's, a listing says.
        let plight = match fault {
            Fault::Unlinked => Plight::Waiting,
            _ => Plight::Quarantined,
        };
        if plight == Plight::Quarantined {
            self.journal.refused(name, Kind::Quarantined, fault);
        }
        self.roster.wait(name, plight, &fault.to_string(), now);
        if !self.voice.may_speak() {
            return;
        }
        // What applications do when they end or restart is no warning.
        if *fault == Fault::Unlinked {
            info!(file = %name.display(), reason = %fault, "no longer harvested");
        } else {
            warn!(file = %name.display(), reason = %fault, "no longer harvested");
        }
    }

    /// Drops the sources whose last values were read in the last pass.
    fn drop_ended(&mut self, now: Duration) {
        let over: Vec<OsString> =
            self.live.iter().filter(|live| live.over).map(|live| live.name.clone()).collect();
        for name in over {
            let Some(live) = self.remove(&name) else { continue };
            let Some(process) = live.source.process() else { continue };
            let pid = process.pid();
            let unfit = Unfit::NoProcess { pid };
            self.roster.wait(&name, unfit.plight(), &unfit.to_string(), now);
            self.journal.ended(&name, pid);
            if let Some(feeder) = self.fed.get_mut(&live.source.id()) {
                feeder.ended = true;
            }
            if self.voice.may_speak() {
                info!(file = %name.display(), reason = %unfit, "no longer harvested");
            }
        }
    }

    fn close(&mut self, name: &OsStr, reason: &str) {
        if self.remove(name).is_some() && self.voice.may_speak() {
            info!(file = %name.display(), reason = %reason, "no longer harvested");
        }
    }

    fn remove(&mut self, name: &OsStr) -> Option<Live> {
        let at = self.live.iter().position(|live| live.name == name)?;
        self.identity.release(name);
        self.changed = true;
        Some(self.live.remove(at))
    }

    fn refuse(&mut self, name: &OsStr, unfit: &Unfit, now: Duration) {
        let passing = unfit.may_pass();
        // The numbers of a file that is being written change from try to try.
        let key = if passing { "being written".to_owned() } else { unfit.to_string() };
        let plight = unfit.plight();
        let tries = self.roster.wait(name, plight, &key, now);
        if let Unfit::NoProcess { .. } = unfit {
            self.note_dead(name, now);
        }
        if tries != if passing { PATIENCE } else { 1 } {
            return;
        }
        self.journal.refused(name, kind_of(plight), unfit);
        if self.voice.may_speak() {
            warn!(file = %name.display(), reason = %unfit, "not harvested");
        }
    }

    /// A file's process is gone: it may be time to remove it, if it was ours to see
    /// it end.
    fn note_dead(&mut self, name: &OsStr, now: Duration) {
        let Some(id) = self.roster.id(name) else { return };
        let Some(process) = self.fed.get(&id).filter(|process| process.ended) else { return };
        let (directory, name) = (self.directory.path().to_owned(), name.to_owned());
        let gone = now.saturating_sub(self.roster.since(&name));
        self.removal.note(Dead { directory, name, id, process: *process }, gone);
    }

    fn reject(&mut self, name: &OsStr, collision: &Collision, now: Duration) {
        self.remove(name);
        let plight = Plight::Quarantined;
        if self.roster.wait(name, plight, &collision.to_string(), now) != 1 {
            return;
        }
        self.journal.refused(name, kind_of(plight), collision);
        if self.voice.may_speak() {
            warn!(file = %name.display(), reason = %collision, "not harvested");
        }
    }
}

/// The event of a file that comes to be in a plight.
const fn kind_of(plight: Plight) -> Kind {
    match plight {
        Plight::Waiting => Kind::Waiting,
        Plight::Quarantined => Kind::Quarantined,
    }
}

/// How many of a file's flaws are told one by one.
const FLAWS_TOLD: usize = 5;

/// Says what of a file is left out; `unlisted` flaws are known by number only.
fn report<F: std::fmt::Display>(
    name: &OsStr,
    flaws: impl ExactSizeIterator<Item = F>,
    unlisted: usize,
) {
    let more = flaws.len().saturating_sub(FLAWS_TOLD) + unlisted;
    for flaw in flaws.take(FLAWS_TOLD) {
        warn!(file = %name.display(), reason = %flaw, "an entry is left out");
    }
    if more > 0 {
        warn!(file = %name.display(), more, "more entries are left out");
    }
}

#[cfg(test)]
mod tests {
    use mmv_writer::{Counter, Published, Registry};

    use super::*;

    fn publish(dir: &std::path::Path, name: &str, process: bool) -> Published {
        let registry = Registry::builder(name).directory(dir).process(process).build().unwrap();
        let _count: Counter<u64> = registry.counter("count").build().unwrap();
        registry.publish().unwrap()
    }

    fn names(sources: &Sources) -> Vec<&str> {
        sources.members().iter().map(|member| member.file.to_str().unwrap()).collect()
    }

    #[test]
    fn files_beyond_the_descriptors_wait_until_others_are_gone() {
        mmv_writer::mapping::guard::install().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let first = publish(dir.path(), "a", true);
        let _others =
            [("b", false), ("c", false)].map(|(name, fed)| publish(dir.path(), name, fed));
        let mut sources = Sources {
            room: 4,
            ..Sources::new(dir.path().to_owned(), Limits::default(), &Memory::default())
        };
        sources.refresh(Duration::ZERO);
        assert_eq!(names(&sources), ["a", "b"]);
        drop(first);
        sources.refresh(Duration::from_secs(60));
        assert_eq!(names(&sources), ["b", "c"]);
    }

    /// One file with one counter each, of these names.
    fn publish_all(dir: &std::path::Path, names: &[&str]) -> Vec<Published> {
        mmv_writer::mapping::guard::install().unwrap();
        names.iter().map(|name| publish(dir, name, false)).collect()
    }

    fn with_limits(dir: &std::path::Path, limits: Limits) -> Sources {
        Sources::new(dir.to_owned(), limits, &Memory::default())
    }

    #[test]
    fn files_beyond_the_limits_wait_until_others_are_gone() {
        let dir = tempfile::tempdir().unwrap();
        let mut files = publish_all(dir.path(), &["a", "b", "c"]);
        for limits in
            [Limits { files: 2, ..Limits::default() }, Limits { values: 2, ..Limits::default() }]
        {
            let mut sources = with_limits(dir.path(), limits);
            sources.refresh(Duration::ZERO);
            assert_eq!(names(&sources), ["a", "b"], "{limits:?}");
        }
        let mut sources = with_limits(dir.path(), Limits { files: 2, ..Limits::default() });
        sources.refresh(Duration::ZERO);
        drop(files.remove(0));
        sources.refresh(Duration::from_secs(60));
        assert_eq!(names(&sources), ["b", "c"]);
    }

    #[test]
    fn a_file_with_too_much_metadata_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let _files = publish_all(dir.path(), &["a"]);
        let limits = Limits { metadata_bytes: 100, ..Limits::default() };
        let mut sources = with_limits(dir.path(), limits);
        sources.refresh(Duration::ZERO);
        assert_eq!(names(&sources), [""; 0]);
    }

    #[test]
    fn a_file_whose_metadata_changes_at_each_tick_is_not_read_at_each_tick() {
        let dir = tempfile::tempdir().unwrap();
        let files = publish_all(dir.path(), &["a", "b"]);
        let mut sources = with_limits(dir.path(), Limits::default());
        sources.refresh(Duration::ZERO);
        // Three times what opening it costs, and a time in two hours.
        let allowance = Allowance::new(3.0 * COST_OF_OPENING, COST_OF_OPENING / 7200.0);
        sources.reading.insert("a".into(), allowance);
        let file = std::fs::OpenOptions::new().write(true).open(files[0].path()).unwrap();
        let mut harvested = 0;
        for tick in 1..3600u64 {
            for at in
                [mmv_writer::layout::Header::GENERATION1, mmv_writer::layout::Header::GENERATION2]
            {
                let generation = (files[0].generation() + tick).to_ne_bytes();
                std::os::unix::fs::FileExt::write_all_at(&file, &generation, at as u64).unwrap();
            }
            let now = Duration::from_secs(tick);
            sources.refresh(now);
            sources.harvest(now, Timestamp::EPOCH, |_| true);
            let [.., other] = sources.values(now)[..] else { panic!("no source") };
            assert!(other.is_some(), "the other file is not touched by it");
            harvested += usize::from(sources.len() == 2);
        }
        assert!((3..=5).contains(&harvested), "{harvested}");
    }
}

//! All files under harvest.
//!
//! In come changes of the directory and the moments of ticks; out go the values of all
//! files and their metadata for the catalog.
//!
//! Invariant: one bad file never affects another. Whatever is wrong with a file, it
//! waits in the file table for its next try.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::active_source::ActiveSource;
use super::admission::{Admission, Usage};
use super::reporter::Reporter;
use crate::config::{Limits, ReloadableSettings};
use crate::discovery::{Change, DeadFile, FileState, Process, Removal, Restarts, Watcher};
use crate::housekeeping::{Harvested, Memory};
use crate::metadata::{Collision, Member};
use crate::moment::Moment;
use crate::source::{Fault, RejectReason, Source, Values};
use crate::telemetry::SourceStatus;

/// How many tries a file may look half-written before that is reported.
const PATIENCE: u32 = 5;

/// The sources, in byte order of their names.
#[derive(Debug)]
pub(crate) struct Sources {
    watcher: Watcher,
    admission: Admission,
    active: Vec<ActiveSource>,
    /// The detection of restarted programs.
    pub restarts: Restarts,
    /// The files that are to be removed.
    pub removal: Removal,
    /// The process of each file that is harvested no more, if it was running then: it
    /// may still be when another one has a file of the name.
    left: HashMap<OsString, Arc<Process>>,
    /// Sources or their metadata have changed.
    changed: bool,
}

impl Sources {
    /// The files of the directory at `path`, of which one may be the agent's `own`, with
    /// what an earlier run remembered; none until they are
    /// [discovered](Self::discover) and [admitted](Self::admit).
    pub(crate) fn new(
        path: PathBuf,
        own: Option<OsString>,
        limits: Limits,
        memory: Memory,
    ) -> Self {
        Self {
            watcher: Watcher::new(path.clone()),
            admission: Admission::new(path, own, limits, memory),
            active: Vec::new(),
            restarts: Restarts::default(),
            removal: Removal::default(),
            left: HashMap::new(),
            changed: false,
        }
    }

    /// Applies other settings; the limits, to files that are opened from now on.
    pub(crate) fn change(&mut self, settings: &ReloadableSettings) {
        self.admission.limits = settings.limits;
        self.restarts.enabled = settings.mark_on_restart;
        self.removal.set_after(settings.remove_dead_after);
    }

    /// The user who owns the file of source number `source`.
    pub(crate) fn owner(&self, source: usize) -> u32 {
        self.active.get(source).map_or(0, |active| active.source.owner)
    }

    /// How many files are harvested.
    pub(crate) fn len(&self) -> usize {
        self.active.len()
    }

    /// Closes sources whose files are gone, or whose processes have ended.
    pub(crate) fn discover(&mut self, now: Duration, reporter: &mut Reporter) {
        self.close_ended(now, reporter);
        let Some(changes) = self.watcher.look(now) else { return };
        for change in changes.files {
            match change {
                Change::Replaced(name) => {
                    reporter.events.replaced(&name);
                    self.close(&name, "replaced", reporter);
                }
                Change::Vanished(name) => {
                    reporter.events.vanished(&name);
                    self.restarts.vanished(&name);
                    self.close(&name, "vanished", reporter);
                    self.left.remove(&name);
                }
            }
        }
        self.admission.retain(&changes.listed, now);
        self.removal.retain(&changes.listed);
        for (name, kind) in changes.others {
            reporter.not_a_file(&name, kind);
        }
    }

    /// Opens the files that are due, and gives them their clusters: explicit ones of
    /// the whole batch first.
    pub(crate) fn admit(&mut self, now: Duration, reporter: &mut Reporter) {
        let due = self.watcher.table.due(now);
        if due.is_empty() {
            return;
        }
        let mut opened = Vec::new();
        let mut used = self.usage_without("".as_ref());
        for name in &due {
            match self.admission.open(name, used, now) {
                Ok((source, contents)) => {
                    used.add(&source);
                    opened.push((name, source, contents));
                }
                Err(reason) => self.reject(name, &reason, now, reporter),
            }
        }
        for (name, source, contents) in opened {
            let running = self.displaced(name, &source);
            if let Some(running) = running {
                reporter.events.displaced(name, running);
            }
            match self.admission.admit(name, source, &contents, None, reporter) {
                Ok(active) => {
                    self.put(active, now);
                    reporter.harvested(name, &contents);
                    if let Some(running) = running {
                        reporter.displaced(name, running, contents.header.pid);
                    }
                }
                Err(collision) => self.reject_collision(name, &collision, now, reporter),
            }
        }
    }

    /// Harvests the sources that are wanted, by their numbers, and that were not
    /// harvested at this tick. Sources that have grown meanwhile are resolved again,
    /// those that fail are closed.
    ///
    /// Returns the sources whose records need another shape.
    pub(crate) fn harvest(
        &mut self,
        now: Moment,
        wanted: impl Fn(usize) -> bool,
        reporter: &mut Reporter,
    ) -> Vec<usize> {
        let mut reshaped = Vec::new();
        let mut failed = Vec::new();
        for (number, active) in self.active.iter_mut().enumerate() {
            if active.is_read(now) || !wanted(number) {
                continue;
            }
            let (other_shape, checked) = active.harvest(now);
            if other_shape {
                reshaped.push(number);
            }
            failed.extend(checked.err().map(|fault| (active.name.clone(), fault)));
        }
        for (name, fault) in failed {
            match fault {
                Fault::Generation { .. } => self.grow(&name, now, reporter),
                fault => self.drop_faulty(&name, fault, now.monotonic, reporter),
            }
        }
        reshaped
    }

    /// Whether sources have come, gone, or changed their metadata since the last call.
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// The numbers of the sources whose last values were read in the last pass.
    pub(crate) fn ended(&self) -> Vec<usize> {
        let ended = self.active.iter().enumerate().filter(|(_, active)| active.ended);
        ended.map(|(number, _)| number).collect()
    }

    /// The values that were read at this tick, by the number of the source; `None` for
    /// a source that was not read, or whose values may not be used.
    pub(crate) fn values(&self, now: Moment) -> Vec<Option<&Values>> {
        self.active.iter().map(|active| active.values(now)).collect()
    }

    /// The sources for the catalog, by number.
    pub(crate) fn members(&self) -> Vec<Member<'_>> {
        self.active.iter().map(ActiveSource::member).collect()
    }

    /// What the next run needs to know; `now` in seconds since 1970. Files that were
    /// last harvested before `oldest` are forgotten. The agent's own file is left out,
    /// since the next run has another one.
    pub(crate) fn remember(&mut self, now: i64, oldest: i64, own: Option<&OsStr>) -> Memory {
        let memory = self.admission.remember(now, oldest);
        Memory { harvested: self.harvested(own), ..memory }
    }

    /// The files under harvest without `own`.
    pub(crate) fn harvested(&self, own: Option<&OsStr>) -> Vec<Harvested> {
        let others = self.active.iter().filter(|active| Some(active.name.as_os_str()) != own);
        others.map(|active| Harvested::new(&active.name, active.source.id)).collect()
    }

    /// All files, by name: those under harvest, and those that wait.
    pub(crate) fn status(&self, now: Duration) -> Vec<SourceStatus> {
        let files = self.watcher.table.iter().map(|(name, entry)| SourceStatus {
            file: name.display().to_string(),
            state: entry.state.name().to_owned(),
            since: now.saturating_sub(entry.since).as_secs_f64(),
            reason: entry.reason().map(str::to_owned),
            values: self.find(name).map_or(0, |at| self.active[at].source.plan().len()),
        });
        files.collect()
    }

    /// How many files are in each state, in the order of [`FileState::ALL`].
    pub(crate) fn count(&self) -> [u64; FileState::ALL.len()] {
        let mut counts = [0; FileState::ALL.len()];
        for (_, entry) in self.watcher.table.iter() {
            counts[entry.state as usize] += 1;
        }
        counts
    }

    /// The position of a source.
    fn find(&self, name: &OsStr) -> Option<usize> {
        self.active.binary_search_by(|active| active.name.as_os_str().cmp(name)).ok()
    }

    /// How much of what is limited all files but one use.
    fn usage_without(&self, name: &OsStr) -> Usage {
        let mut used = Usage::default();
        for active in self.active.iter().filter(|active| active.name != name) {
            used.add(&active.source);
        }
        used
    }

    /// Puts a source in its place among the others.
    fn put(&mut self, active: ActiveSource, now: Duration) {
        self.restarts.harvested(&active.name, active.source.id);
        self.watcher.table.set_harvested(&active.name, now);
        self.changed = true;
        match self.active.binary_search_by(|known| known.name.cmp(&active.name)) {
            Ok(at) => self.active[at] = active,
            Err(at) => self.active.insert(at, active),
        }
    }

    /// Resolves a source that has new metadata, and harvests it again, so that this
    /// tick has its values.
    fn grow(&mut self, name: &OsStr, now: Moment, reporter: &mut Reporter) {
        let Some(at) = self.find(name) else { return };
        let used = self.usage_without(name);
        let known = &self.active[at];
        match self.admission.read_again(name, &known.source, used, now.monotonic) {
            Ok((source, contents)) => {
                match self.admission.admit(name, source, &contents, Some(known), reporter) {
                    Ok(mut active) => {
                        reporter.grown(name, &contents);
                        // A fault shows at the next tick.
                        let _ = active.harvest(now);
                        self.put(active, now.monotonic);
                    }
                    Err(collision) => {
                        self.reject_collision(name, &collision, now.monotonic, reporter);
                    }
                }
            }
            Err(reason) => {
                self.remove(name);
                self.reject(name, &reason, now.monotonic, reporter);
            }
        }
    }

    /// Drops a source whose values may not be used.
    fn drop_faulty(&mut self, name: &OsStr, fault: Fault, now: Duration, reporter: &mut Reporter) {
        self.remove(name);
        let unlinked = fault == Fault::Unlinked;
        let state = if unlinked { FileState::Waiting } else { FileState::Quarantined };
        self.watcher.table.wait(name, state, &fault.to_string(), now);
        reporter.faulty(name, fault);
    }

    /// Closes the sources whose last values were read in the last pass.
    fn close_ended(&mut self, now: Duration, reporter: &mut Reporter) {
        let ended = self.active.iter().filter(|active| active.ended);
        let ended: Vec<OsString> = ended.map(|active| active.name.clone()).collect();
        for name in ended {
            let Some(active) = self.remove(&name) else { continue };
            let Some(process) = active.source.process() else { continue };
            let reason = RejectReason::NoProcess { pid: process.pid };
            self.watcher.table.wait(&name, reason.state(), &reason.to_string(), now);
            reporter.events.ended(&name, process.pid);
            self.admission.note_end(active.source.id);
            reporter.closed(&name, &reason);
        }
    }

    fn close(&mut self, name: &OsStr, reason: &str, reporter: &mut Reporter) {
        if self.remove(name).is_some() {
            reporter.closed(name, &reason);
        }
    }

    fn remove(&mut self, name: &OsStr) -> Option<ActiveSource> {
        let at = self.find(name)?;
        self.admission.release(name);
        self.changed = true;
        let removed = self.active.remove(at);
        if let Some(process) = removed.source.running_process() {
            self.left.insert(name.to_owned(), process);
        }
        Some(removed)
    }

    /// The process that had a file of this name and runs, although another one that runs
    /// has one now.
    fn displaced(&mut self, name: &OsStr, source: &Source) -> Option<i32> {
        let before = self.left.remove(name)?;
        let now = source.process()?;
        (before.pid != now.pid && before.is_alive() && now.is_alive()).then_some(before.pid)
    }

    /// A file cannot be opened for now.
    fn reject(
        &mut self,
        name: &OsStr,
        reason: &RejectReason,
        now: Duration,
        reporter: &mut Reporter,
    ) {
        let transient = reason.is_transient();
        // The numbers of a file that is being written change from try to try.
        let key = if transient { "being written".to_owned() } else { reason.to_string() };
        let tries = self.watcher.table.wait(name, reason.state(), &key, now);
        if let RejectReason::NoProcess { .. } = reason {
            self.request_removal(name, now);
        }
        if tries == if transient { PATIENCE } else { 1 } {
            reporter.rejected(name, reason.state(), reason);
        }
    }

    /// No cluster is left for a file.
    fn reject_collision(
        &mut self,
        name: &OsStr,
        collision: &Collision,
        now: Duration,
        reporter: &mut Reporter,
    ) {
        self.remove(name);
        let state = FileState::Quarantined;
        if self.watcher.table.wait(name, state, &collision.to_string(), now) == 1 {
            reporter.rejected(name, state, collision);
        }
    }

    /// The process of a file is gone: the file may have to be removed, if it was
    /// harvested until the process ended.
    fn request_removal(&mut self, name: &OsStr, now: Duration) {
        let Some(entry) = self.watcher.table.get(name) else { return };
        let (id, gone) = (entry.id, now.saturating_sub(entry.since));
        let Some(process) = self.admission.ended_producer(id) else { return };
        let (directory, name) = (self.watcher.path().to_owned(), name.to_owned());
        self.removal.request(DeadFile { directory, name, id, process }, gone);
    }
}

#[cfg(test)]
mod tests {
    use mmv_writer::{Counter, Published, Registry};
    use pcp_types::Timestamp;

    use super::*;
    use crate::discovery::TokenBucket;
    use crate::sampling::admission::COST_OF_OPENING;

    fn publish(dir: &std::path::Path, name: &str, process: bool) -> Published {
        let registry = Registry::builder(name).directory(dir).process(process).build().unwrap();
        let _count: Counter<u64> = registry.counter("count").build().unwrap();
        registry.publish().unwrap()
    }

    fn refresh(sources: &mut Sources, now: Duration) {
        let mut reporter = Reporter::new(false);
        sources.discover(now, &mut reporter);
        sources.admit(now, &mut reporter);
    }

    fn names(sources: &Sources) -> Vec<&str> {
        sources.members().iter().map(|member| member.file.to_str().unwrap()).collect()
    }

    #[test]
    fn files_beyond_the_descriptors_wait_until_others_are_gone() {
        mmv_format::mapping::guard::install().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let first = publish(dir.path(), "a", true);
        let _others =
            [("b", false), ("c", false)].map(|(name, fed)| publish(dir.path(), name, fed));
        let mut sources = with_limits(dir.path(), Limits::default());
        sources.admission.set_descriptors(4);
        refresh(&mut sources, Duration::ZERO);
        assert_eq!(names(&sources), ["a", "b"]);
        drop(first);
        refresh(&mut sources, Duration::from_secs(60));
        assert_eq!(names(&sources), ["b", "c"]);
    }

    /// One file with one counter each, of these names.
    fn publish_all(dir: &std::path::Path, names: &[&str]) -> Vec<Published> {
        mmv_format::mapping::guard::install().unwrap();
        names.iter().map(|name| publish(dir, name, false)).collect()
    }

    fn with_limits(dir: &std::path::Path, limits: Limits) -> Sources {
        Sources::new(dir.to_owned(), None, limits, Memory::default())
    }

    #[test]
    fn files_beyond_the_limits_wait_until_others_are_gone() {
        let dir = tempfile::tempdir().unwrap();
        let mut files = publish_all(dir.path(), &["a", "b", "c"]);
        for limits in
            [Limits { files: 2, ..Limits::default() }, Limits { values: 2, ..Limits::default() }]
        {
            let mut sources = with_limits(dir.path(), limits);
            refresh(&mut sources, Duration::ZERO);
            assert_eq!(names(&sources), ["a", "b"], "{limits:?}");
        }
        let mut sources = with_limits(dir.path(), Limits { files: 2, ..Limits::default() });
        refresh(&mut sources, Duration::ZERO);
        drop(files.remove(0));
        refresh(&mut sources, Duration::from_secs(60));
        assert_eq!(names(&sources), ["b", "c"]);
    }

    #[test]
    fn a_file_with_too_much_metadata_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let _files = publish_all(dir.path(), &["a"]);
        let limits = Limits { metadata_bytes: 100, ..Limits::default() };
        let mut sources = with_limits(dir.path(), limits);
        refresh(&mut sources, Duration::ZERO);
        assert_eq!(names(&sources), [""; 0]);
    }

    #[test]
    fn a_file_whose_metadata_changes_at_each_tick_is_not_read_at_each_tick() {
        let dir = tempfile::tempdir().unwrap();
        let files = publish_all(dir.path(), &["a", "b"]);
        let mut sources = with_limits(dir.path(), Limits::default());
        refresh(&mut sources, Duration::ZERO);
        // Three times what opening it costs, and a time in two hours.
        let bucket = TokenBucket::new(3.0 * COST_OF_OPENING, COST_OF_OPENING / 7200.0);
        sources.admission.set_reading("a", bucket);
        let file = std::fs::OpenOptions::new().write(true).open(files[0].path()).unwrap();
        let mut harvested = 0;
        for tick in 1..3600u64 {
            for at in
                [mmv_format::layout::Header::GENERATION1, mmv_format::layout::Header::GENERATION2]
            {
                let generation = (files[0].generation() + tick).to_ne_bytes();
                std::os::unix::fs::FileExt::write_all_at(&file, &generation, at as u64).unwrap();
            }
            let now = Duration::from_secs(tick);
            refresh(&mut sources, now);
            let now = Moment { monotonic: now, wall: Timestamp::EPOCH };
            sources.harvest(now, |_| true, &mut Reporter::new(false));
            let [.., other] = sources.values(now)[..] else { panic!("no source") };
            assert!(other.is_some(), "the other file is not touched by it");
            harvested += usize::from(sources.len() == 2);
        }
        assert!((3..=5).contains(&harvested), "{harvested}");
    }
}

//! The files that are harvested, and those that wait and why.
//!
//! Input: directory listings and the outcomes of tries. Output: changes, and the files that are
//! due for another try. There is no I/O and no clock: `now` counts from the start of the agent.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

/// First pause before a refused file is tried again; each further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// First pause before a file that is being written is tried again.
const SHORT_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The identity of a file, whatever its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct FileId {
    pub device: u64,
    pub inode: u64,
    /// Time of creation since 1970 in seconds and nanoseconds, if the file system records it. It
    /// distinguishes files with a reused inode number.
    pub born: Option<(u64, u32)>,
}

impl FileId {
    pub(crate) fn new(metadata: &Metadata) -> Self {
        let since_epoch = |born: SystemTime| born.duration_since(SystemTime::UNIX_EPOCH).ok();
        let born = metadata.created().ok().and_then(since_epoch);
        let born = born.map(|born| (born.as_secs(), born.subsec_nanos()));
        Self { device: metadata.dev(), inode: metadata.ino(), born }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListedFile {
    pub name: OsString,
    pub id: FileId,
    pub owner: u32,
    /// Bytes on disk or in memory, without holes.
    pub bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    /// Another file has taken the name.
    Replaced(OsString),
    /// The name is gone.
    Vanished(OsString),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileState {
    Harvested,
    /// Nothing is wrong with it: it is being written, its process has ended, or a limit is
    /// reached.
    Waiting,
    Quarantined,
}

impl FileState {
    /// All states in the order of their discriminants.
    pub(crate) const ALL: [Self; 3] = [Self::Harvested, Self::Waiting, Self::Quarantined];

    /// Returns the name in the status and in the agent's own metrics.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Harvested => "harvested",
            Self::Waiting => "waiting",
            Self::Quarantined => "quarantined",
        }
    }
}

/// The schedule of tries for a file that is not harvested.
#[derive(Debug)]
struct RetryState {
    reason: String,
    /// Number of consecutive tries that failed for this reason.
    tries: u32,
    pause: Duration,
    due: Duration,
}

impl RetryState {
    /// Returns the state of a new file, which is due at once.
    fn first() -> Self {
        Self { reason: String::new(), tries: 0, pause: FIRST_PAUSE, due: Duration::ZERO }
    }
}

#[derive(Debug)]
pub(crate) struct FileEntry {
    pub id: FileId,
    pub owner: u32,
    pub state: FileState,
    /// Time at which it got into that state for that reason.
    pub since: Duration,
    /// Bytes when it was listed first.
    bytes: u64,
    retry: RetryState,
}

impl FileEntry {
    pub(crate) fn reason(&self) -> Option<&str> {
        (self.state != FileState::Harvested).then_some(&self.retry.reason)
    }
}

/// The files of the directory by name.
#[derive(Debug, Default)]
pub(crate) struct FileTable {
    entries: BTreeMap<OsString, FileEntry>,
    /// Numbers of files by user.
    counts: HashMap<u32, u64>,
}

impl FileTable {
    /// Updates the table from a listing in byte order, and returns the changes. New names are due
    /// at once.
    pub(crate) fn compare(&mut self, listing: &[ListedFile], now: Duration) -> Vec<Change> {
        let mut changes = Vec::new();
        self.entries.retain(|name, _| {
            let stays = listing.binary_search_by(|listed| listed.name.cmp(name)).is_ok();
            if !stays {
                changes.push(Change::Vanished(name.clone()));
            }
            stays
        });
        self.counts.clear();
        for entry in self.entries.values() {
            *self.counts.entry(entry.owner).or_default() += 1;
        }
        for listed in listing {
            changes.extend(self.update(listed, now));
        }
        changes
    }

    /// Updates one file. A new name, or a new file of that name, is due at once.
    pub(crate) fn update(&mut self, listed: &ListedFile, now: Duration) -> Option<Change> {
        let ListedFile { name, id, owner, bytes } = listed;
        let known = self.entries.get_mut(name);
        if known.as_ref().is_none_or(|known| known.owner != *owner) {
            *self.counts.entry(*owner).or_default() += 1;
            if let Some(known) = &known {
                subtract_one(&mut self.counts, known.owner);
            }
        }
        let is_known = known.is_some();
        if let Some(known) = known
            && known.id == *id
        {
            known.owner = *owner;
            return None;
        }
        let entry = FileEntry {
            id: *id,
            owner: *owner,
            state: FileState::Waiting,
            since: now,
            bytes: *bytes,
            retry: RetryState::first(),
        };
        self.entries.insert(name.clone(), entry);
        is_known.then(|| Change::Replaced(name.clone()))
    }

    /// Removes a name that has no file any more.
    pub(crate) fn remove(&mut self, name: &OsStr) -> Option<Change> {
        let entry = self.entries.remove(name)?;
        subtract_one(&mut self.counts, entry.owner);
        Some(Change::Vanished(name.to_owned()))
    }

    /// Returns the number of files of each user.
    pub(crate) fn counts(&self) -> &HashMap<u32, u64> {
        &self.counts
    }

    /// Notes that the file is harvested.
    pub(crate) fn set_harvested(&mut self, name: &OsStr, now: Duration) {
        if let Some(entry) = self.entries.get_mut(name)
            && entry.state != FileState::Harvested
        {
            entry.state = FileState::Harvested;
            entry.since = now;
            entry.retry = RetryState::first();
        }
    }

    /// Notes that the file is being written, as [`wait`](Self::wait) does, but with shorter pauses
    /// at first.
    pub(crate) fn wait_shortly(&mut self, name: &OsStr, reason: &str, now: Duration) -> u32 {
        let tries = self.wait(name, FileState::Waiting, reason, now);
        if tries == 1
            && let Some(entry) = self.entries.get_mut(name)
        {
            entry.retry.pause = SHORT_PAUSE;
            entry.retry.due = now + SHORT_PAUSE;
        }
        tries
    }

    /// Notes that the file cannot be harvested for now. It is due again after a pause that doubles
    /// with each try. Returns the number of consecutive tries that failed for this reason; 0 for a
    /// file that is not in the directory.
    pub(crate) fn wait(
        &mut self,
        name: &OsStr,
        state: FileState,
        reason: &str,
        now: Duration,
    ) -> u32 {
        let Some(entry) = self.entries.get_mut(name) else { return 0 };
        let retry = &mut entry.retry;
        if entry.state != FileState::Harvested && retry.reason == reason {
            retry.pause = (retry.pause * 2).min(LONGEST_PAUSE);
            retry.tries = retry.tries.saturating_add(1);
        } else {
            *retry = RetryState { reason: reason.to_owned(), tries: 1, ..RetryState::first() };
        }
        retry.due = now + retry.pause;
        entry.state = state;
        if retry.tries == 1 {
            entry.since = now;
        }
        retry.tries
    }

    /// Has a file that waits tried again at once.
    pub(crate) fn retry_now(&mut self, name: &OsStr) {
        if let Some(entry) = self.entries.get_mut(name)
            && entry.state == FileState::Waiting
        {
            entry.retry.due = Duration::ZERO;
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns a file of the last listing.
    pub(crate) fn get(&self, name: &OsStr) -> Option<&FileEntry> {
        self.entries.get(name)
    }

    /// Returns all files in byte order of their names.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&OsStr, &FileEntry)> {
        self.entries.iter().map(|(name, entry)| (name.as_os_str(), entry))
    }

    /// Returns at most `limit` files that are due, with their sizes in bytes: one of each user in
    /// turn, so that no user waits for the files of others. Among the files of a user, `known`
    /// names come first, then small files.
    pub(crate) fn due(
        &self,
        now: Duration,
        is_known: impl Fn(&OsStr) -> bool,
        limit: usize,
    ) -> Vec<(OsString, u64)> {
        let mut users: HashMap<u32, Vec<(bool, u64, &OsStr)>> = HashMap::new();
        for (name, entry) in self.waiting().filter(|(_, entry)| entry.retry.due <= now) {
            let is_new = !is_known(name);
            users.entry(entry.owner).or_default().push((is_new, entry.bytes, name));
        }
        let mut due = Vec::new();
        for (user, mut files) in users {
            files.sort_unstable();
            let files = files.into_iter().enumerate();
            due.extend(
                files.map(|(turn, (is_new, bytes, name))| (turn, is_new, bytes, user, name)),
            );
        }
        due.sort_unstable();
        due.into_iter().take(limit).map(|(_, _, bytes, _, name)| (name.to_owned(), bytes)).collect()
    }

    /// Returns the time at which the next file is due; `None` if all are harvested.
    pub(crate) fn next_due(&self) -> Option<Duration> {
        self.waiting().map(|(_, entry)| entry.retry.due).min()
    }

    fn waiting(&self) -> impl Iterator<Item = (&OsStr, &FileEntry)> {
        self.iter().filter(|(_, entry)| entry.state != FileState::Harvested)
    }
}

fn subtract_one(counts: &mut HashMap<u32, u64>, owner: u32) {
    if let Some(count) = counts.get_mut(&owner) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&owner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn due(table: &FileTable, now: Duration) -> Vec<OsString> {
        table.due(now, |_| false, usize::MAX).into_iter().map(|(name, _)| name).collect()
    }

    fn listed(entries: &[(&str, u64)]) -> Vec<ListedFile> {
        entries
            .iter()
            .map(|&(name, inode)| ListedFile {
                name: name.into(),
                id: FileId { device: 1, inode, born: None },
                owner: 1000,
                bytes: 4096,
            })
            .collect()
    }

    #[test]
    fn files_appear_are_replaced_and_vanish() {
        let mut table = FileTable::default();
        assert_eq!(table.compare(&listed(&[("a", 1), ("b", 2)]), Duration::ZERO), []);
        assert_eq!(due(&table, Duration::ZERO), ["a", "b"]);
        assert_eq!(table.compare(&listed(&[("a", 1), ("b", 2)]), Duration::ZERO), []);
        assert_eq!(
            table.compare(&listed(&[("b", 3)]), Duration::ZERO),
            [Change::Vanished("a".into()), Change::Replaced("b".into())]
        );
    }

    #[test]
    fn a_refused_file_is_due_after_pauses_that_double_up_to_a_limit() {
        let mut table = FileTable::default();
        table.compare(&listed(&[("a", 1)]), Duration::ZERO);
        let mut now = Duration::ZERO;
        let mut pauses = Vec::new();
        for _ in 0..11 {
            assert_eq!(due(&table, now), [OsString::from("a")]);
            table.wait(OsStr::new("a"), FileState::Quarantined, "bad", now);
            let start = now;
            while due(&table, now).is_empty() {
                now += FIRST_PAUSE;
            }
            pauses.push(now.saturating_sub(start).as_millis());
        }
        assert_eq!(pauses, [100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000]);
    }

    #[test]
    fn tries_are_counted_while_the_reason_stays_the_same() {
        let mut table = FileTable::default();
        table.compare(&listed(&[("a", 1)]), Duration::ZERO);
        let name = OsStr::new("a");
        assert_eq!(table.wait(name, FileState::Quarantined, "bad", SECOND), 1);
        assert_eq!(table.wait(name, FileState::Quarantined, "bad", SECOND), 2);
        assert_eq!(table.wait(name, FileState::Quarantined, "worse", SECOND), 1);
        table.set_harvested(name, SECOND);
        assert!(due(&table, 100 * SECOND).is_empty());
        assert_eq!(table.get(name).unwrap().since, SECOND);
        assert_eq!(table.wait(name, FileState::Quarantined, "worse", SECOND), 1);
        assert_eq!(table.wait(OsStr::new("b"), FileState::Quarantined, "bad", SECOND), 0);
    }

    #[test]
    fn a_file_is_in_a_state_since_the_reason_for_it_was_first_found() {
        let mut table = FileTable::default();
        table.compare(&listed(&[("a", 1)]), SECOND);
        let name = OsStr::new("a");
        for (second, reason, since) in [(2, "bad", 2), (3, "bad", 2), (4, "worse", 4)] {
            table.wait(name, FileState::Waiting, reason, SECOND * second);
            let entry = table.get(name).unwrap();
            assert_eq!((entry.state, entry.reason()), (FileState::Waiting, Some(reason)));
            assert_eq!(entry.since, SECOND * since);
        }
        table.set_harvested(name, SECOND * 5);
        table.set_harvested(name, SECOND * 6);
        let entry = table.get(name).unwrap();
        assert_eq!((entry.since, entry.reason()), (SECOND * 5, None));
    }

    #[test]
    fn a_file_that_is_being_written_is_tried_again_soon() {
        let mut table = FileTable::default();
        table.compare(&listed(&[("a", 1)]), Duration::ZERO);
        let name = OsStr::new("a");
        let mut now = Duration::ZERO;
        let mut pauses = Vec::new();
        for tries in 1..=6 {
            assert_eq!(table.wait_shortly(name, "being written", now), tries);
            pauses.push(table.next_due().unwrap().saturating_sub(now).as_millis());
            now = table.next_due().unwrap();
        }
        assert_eq!(pauses, [5, 10, 20, 40, 80, 160]);
    }

    #[test]
    fn small_files_are_tried_before_large_ones() {
        let mut table = FileTable::default();
        let mut listing = listed(&[("a", 1), ("b", 2), ("c", 3)]);
        listing[0].bytes = 100_000_000;
        table.compare(&listing, Duration::ZERO);
        assert_eq!(due(&table, Duration::ZERO), ["b", "c", "a"]);
        assert_eq!(table.next_due(), Some(Duration::ZERO));
        for name in ["a", "b", "c"] {
            table.set_harvested(OsStr::new(name), SECOND);
        }
        assert_eq!(table.next_due(), None);
    }

    #[test]
    fn users_take_turns_and_known_names_come_first() {
        let mut table = FileTable::default();
        let crowd: Vec<String> = (0..100).map(|number| format!("a{number:02}")).collect();
        let mut listing: Vec<_> =
            crowd.iter().zip(1..).map(|(name, inode)| (&**name, inode)).collect();
        listing.extend([("new", 200), ("returning", 201)]);
        let mut listing = listed(&listing);
        for file in &mut listing[..100] {
            file.owner = 2000;
            file.bytes = 0;
        }
        listing[101].bytes = 1 << 20;
        table.compare(&listing, Duration::ZERO);
        let due = table.due(Duration::ZERO, |name| name == "returning", 101);
        let first: Vec<_> = due.iter().take(4).map(|(name, _)| name.to_str().unwrap()).collect();
        assert_eq!(first, ["returning", "a00", "a01", "new"]);
        assert_eq!(due.len(), 101);
    }

    #[test]
    fn one_name_is_updated_as_by_a_listing() {
        let mut table = FileTable::default();
        let files = listed(&[("a", 1), ("b", 2), ("a", 3)]);
        for (file, change) in files.iter().zip([None, None, Some(Change::Replaced("a".into()))]) {
            assert_eq!(table.update(file, SECOND), change);
        }
        let mut other = files[0].clone();
        other.name = "c".into();
        other.owner = 1001;
        assert_eq!(table.update(&other, SECOND), None);
        assert_eq!(table.counts(), &HashMap::from([(1000, 2), (1001, 1)]));
        // The administrator gives it away.
        other.owner = 1000;
        assert_eq!(table.update(&other, SECOND), None);
        assert_eq!(table.remove("a".as_ref()), Some(Change::Vanished("a".into())));
        assert_eq!(table.remove("a".as_ref()), None);
        assert_eq!(table.counts(), &HashMap::from([(1000, 2)]));
    }

    #[test]
    fn a_replaced_file_is_due_at_once() {
        let mut table = FileTable::default();
        table.compare(&listed(&[("a", 1)]), Duration::ZERO);
        table.wait(OsStr::new("a"), FileState::Quarantined, "bad", 10 * SECOND);
        table.compare(&listed(&[("a", 2)]), Duration::ZERO);
        assert_eq!(due(&table, 10 * SECOND), [OsString::from("a")]);
    }

    #[test]
    fn a_file_that_reuses_an_inode_number_replaces_the_one_before() {
        let mut table = FileTable::default();
        let mut listing = listed(&[("a", 1)]);
        listing[0].id.born = Some((0, 0));
        table.compare(&listing, Duration::ZERO);
        table.wait(OsStr::new("a"), FileState::Quarantined, "bad", 10 * SECOND);
        assert_eq!(table.compare(&listing, Duration::ZERO), []);
        assert!(due(&table, 10 * SECOND).is_empty());
        listing[0].id.born = Some((1, 0));
        assert_eq!(table.compare(&listing, Duration::ZERO), [Change::Replaced("a".into())]);
        assert_eq!(due(&table, 10 * SECOND), [OsString::from("a")]);
    }

    #[test]
    fn writing_to_a_file_keeps_its_identity() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::write(&path, "one").unwrap();
        let id = FileId::new(&path.metadata().unwrap());
        std::fs::write(&path, "another").unwrap();
        assert_eq!(FileId::new(&path.metadata().unwrap()), id);
    }
}

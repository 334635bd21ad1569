//! Which files are harvested, and which wait and why.
//!
//! No I/O and no clock: directory listings and moments come in, work to do
//! comes out. Time is counted from the start of the agent.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime};

/// The first pause before a file that was refused is tried again; doubled at
/// each further try.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause between two tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Which file it is, whatever its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FileId {
    /// The device.
    pub device: u64,
    /// The inode number.
    pub inode: u64,
    /// When it was made, where the file system says so: a file that is not
    /// open leaves its inode number to the next one.
    pub born: Option<SystemTime>,
}

impl FileId {
    /// The file that has this metadata.
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino(), born: metadata.created().ok() }
    }
}

/// One entry of a directory listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listed {
    /// The name within the directory.
    pub name: OsString,
    /// The file it names.
    pub id: FileId,
}

/// What a listing asks to be done, in byte order of the names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    /// A file not seen before: open it.
    Appeared(OsString),
    /// Another file has taken the name: close the old one, open the new one.
    Replaced(OsString),
    /// The name is gone: close it.
    Vanished(OsString),
}

/// What a file is in that is not harvested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plight {
    /// Nothing is wrong with it: it is being written, its process is gone, or there
    /// is no room for it.
    Waiting,
    /// It is wrong.
    Quarantined,
}

impl Plight {
    /// How it is called.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Quarantined => "quarantined",
        }
    }
}

#[derive(Debug)]
enum State {
    Live,
    Waiting { plight: Plight, reason: String, tries: u32, pause: Duration, due: Duration },
}

#[derive(Debug)]
struct Entry {
    id: FileId,
    state: State,
    /// Since when it is in that state, for that reason.
    since: Duration,
}

/// A file that is not harvested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kept<'r> {
    /// Its name.
    pub name: &'r OsStr,
    /// What it is in.
    pub plight: Plight,
    /// Why.
    pub reason: &'r str,
    /// Since when, for that reason.
    pub since: Duration,
}

/// The files of the directory by name.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    entries: BTreeMap<OsString, Entry>,
}

impl Roster {
    /// Compares with a listing, which is in byte order. New names wait for
    /// the outcome of being opened, from `now` on.
    pub(crate) fn compare(&mut self, listing: &[Listed], now: Duration) -> Vec<Change> {
        let mut changes = Vec::new();
        let vanished: Vec<OsString> = self
            .entries
            .keys()
            .filter(|name| listing.binary_search_by(|listed| listed.name.cmp(name)).is_err())
            .cloned()
            .collect();
        for name in vanished {
            self.entries.remove(&name);
            changes.push(Change::Vanished(name));
        }
        for listed in listing {
            match self.entries.get(&listed.name) {
                Some(known) if known.id == listed.id => continue,
                Some(_) => changes.push(Change::Replaced(listed.name.clone())),
                None => changes.push(Change::Appeared(listed.name.clone())),
            }
            let state = State::Waiting {
                plight: Plight::Waiting,
                reason: String::new(),
                tries: 0,
                pause: FIRST_PAUSE,
                due: Duration::ZERO,
            };
            self.entries.insert(listed.name.clone(), Entry { id: listed.id, state, since: now });
        }
        changes
    }

    /// The file is harvested from now on, or still is.
    pub(crate) fn live(&mut self, name: &OsStr, now: Duration) {
        let entry = self.entries.get_mut(name);
        if let Some(entry) = entry.filter(|entry| !matches!(entry.state, State::Live)) {
            (entry.state, entry.since) = (State::Live, now);
        }
    }

    /// Which file a name was when it was last listed.
    pub(crate) fn id(&self, name: &OsStr) -> Option<FileId> {
        self.entries.get(name).map(|entry| entry.id)
    }

    /// Since when a file has been harvested or not.
    pub(crate) fn since(&self, name: &OsStr) -> Duration {
        self.entries.get(name).map_or(Duration::ZERO, |entry| entry.since)
    }

    /// The file cannot be harvested for now. It is due again after a pause
    /// that doubles from try to try. Returns how many tries in a row have ended
    /// for this reason; 0 for a file that is not in the directory.
    pub(crate) fn wait(&mut self, name: &OsStr, plight: Plight, why: &str, now: Duration) -> u32 {
        let Some(entry) = self.entries.get_mut(name) else { return 0 };
        let (pause, tries) = match &entry.state {
            State::Waiting { reason, tries, pause, .. } if reason == why => {
                ((*pause * 2).min(LONGEST_PAUSE), tries.saturating_add(1))
            }
            _ => (FIRST_PAUSE, 1),
        };
        if tries == 1 {
            entry.since = now;
        }
        let (reason, due) = (why.to_owned(), now + pause);
        entry.state = State::Waiting { plight, reason, tries, pause, due };
        tries
    }

    /// The files that are not harvested, in byte order of their names.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = Kept<'_>> {
        self.entries.iter().filter_map(|(name, entry)| match &entry.state {
            State::Waiting { plight, reason, .. } => {
                Some(Kept { name, plight: *plight, reason, since: entry.since })
            }
            State::Live => None,
        })
    }

    /// The waiting files whose pause is over.
    pub(crate) fn due(&self, now: Duration) -> Vec<OsString> {
        self.entries
            .iter()
            .filter(|(_, entry)| matches!(entry.state, State::Waiting { due, .. } if due <= now))
            .map(|(name, _)| name.clone())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn listed(entries: &[(&str, u64)]) -> Vec<Listed> {
        entries
            .iter()
            .map(|&(name, inode)| Listed {
                name: name.into(),
                id: FileId { device: 1, inode, born: None },
            })
            .collect()
    }

    #[test]
    fn files_appear_are_replaced_and_vanish() {
        let mut roster = Roster::default();
        assert_eq!(
            roster.compare(&listed(&[("a", 1), ("b", 2)]), Duration::ZERO),
            [Change::Appeared("a".into()), Change::Appeared("b".into())]
        );
        assert_eq!(roster.compare(&listed(&[("a", 1), ("b", 2)]), Duration::ZERO), []);
        assert_eq!(
            roster.compare(&listed(&[("b", 3)]), Duration::ZERO),
            [Change::Vanished("a".into()), Change::Replaced("b".into())]
        );
    }

    #[test]
    fn a_refused_file_is_due_after_pauses_that_double_up_to_a_limit() {
        let mut roster = Roster::default();
        roster.compare(&listed(&[("a", 1)]), Duration::ZERO);
        let mut now = Duration::ZERO;
        let mut pauses = Vec::new();
        for _ in 0..11 {
            assert_eq!(roster.due(now), [OsString::from("a")]);
            roster.wait(OsStr::new("a"), Plight::Quarantined, "bad", now);
            let start = now;
            while roster.due(now).is_empty() {
                now += FIRST_PAUSE;
            }
            pauses.push(now.saturating_sub(start).as_millis());
        }
        assert_eq!(pauses, [100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000]);
    }

    #[test]
    fn tries_are_counted_while_the_reason_stays_the_same() {
        let mut roster = Roster::default();
        roster.compare(&listed(&[("a", 1)]), Duration::ZERO);
        let name = OsStr::new("a");
        assert_eq!(roster.wait(name, Plight::Quarantined, "bad", SECOND), 1);
        assert_eq!(roster.wait(name, Plight::Quarantined, "bad", SECOND), 2);
        assert_eq!(roster.wait(name, Plight::Quarantined, "worse", SECOND), 1);
        roster.live(name, SECOND);
        assert!(roster.due(100 * SECOND).is_empty());
        assert_eq!(roster.since(name), SECOND);
        assert_eq!(roster.wait(name, Plight::Quarantined, "worse", SECOND), 1);
        assert_eq!(roster.wait(OsStr::new("b"), Plight::Quarantined, "bad", SECOND), 0);
    }

    #[test]
    fn a_file_is_in_a_state_since_the_reason_for_it_was_first_found() {
        let mut roster = Roster::default();
        roster.compare(&listed(&[("a", 1)]), SECOND);
        let name = OsStr::new("a");
        for (second, reason, since) in [(2, "bad", 2), (3, "bad", 2), (4, "worse", 4)] {
            roster.wait(name, Plight::Waiting, reason, SECOND * second);
            let kept: Vec<_> = roster.waiting().collect();
            let (plight, since) = (Plight::Waiting, SECOND * since);
            assert_eq!(kept, [Kept { name, plight, reason, since }]);
        }
        roster.live(name, SECOND * 5);
        roster.live(name, SECOND * 6);
        assert_eq!((roster.since(name), roster.waiting().count()), (SECOND * 5, 0));
    }

    #[test]
    fn a_replaced_file_is_due_at_once() {
        let mut roster = Roster::default();
        roster.compare(&listed(&[("a", 1)]), Duration::ZERO);
        roster.wait(OsStr::new("a"), Plight::Quarantined, "bad", 10 * SECOND);
        roster.compare(&listed(&[("a", 2)]), Duration::ZERO);
        assert_eq!(roster.due(10 * SECOND), [OsString::from("a")]);
    }

    #[test]
    fn a_waiting_file_that_left_its_inode_number_to_another_is_replaced() {
        let mut roster = Roster::default();
        let mut listing = listed(&[("a", 1)]);
        listing[0].id.born = Some(SystemTime::UNIX_EPOCH);
        roster.compare(&listing, Duration::ZERO);
        roster.wait(OsStr::new("a"), Plight::Quarantined, "bad", 10 * SECOND);
        assert_eq!(roster.compare(&listing, Duration::ZERO), []);
        assert!(roster.due(10 * SECOND).is_empty());
        listing[0].id.born = Some(SystemTime::UNIX_EPOCH + SECOND);
        assert_eq!(roster.compare(&listing, Duration::ZERO), [Change::Replaced("a".into())]);
        assert_eq!(roster.due(10 * SECOND), [OsString::from("a")]);
    }

    #[test]
    fn writing_to_a_file_does_not_make_it_another() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::write(&path, "one").unwrap();
        let id = FileId::of(&path.metadata().unwrap());
        std::fs::write(&path, "another").unwrap();
        assert_eq!(FileId::of(&path.metadata().unwrap()), id);
    }
}

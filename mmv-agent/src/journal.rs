//! What happened since the last sample: to files, and to the agent.
//!
//! Says of each file what has become of it, given what was said last, so that a
//! file which is refused at each try is one event. Whoever may make files could
//! make events as fast as the agent ticks: only so many are told, the others are
//! counted.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::time::Duration;

use pcp_types::Timestamp;

use crate::allowance::Allowance;
use crate::events::{Events, Happening, Kind};

/// How many events about files in a row.
const IN_A_ROW: f64 = 1_000.0;
/// And how many in a second later on: some 5 MB a day.
const PER_SECOND: f64 = 0.5;

/// What was said last of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    Harvested,
    /// It ended, or is refused.
    Left,
    /// Another file has its name now.
    Replaced,
}

/// The events of the ticks that no sample has taken yet.
#[derive(Debug)]
pub(crate) struct Journal {
    /// Events go into the archive; else they are counted only.
    logged: bool,
    allowance: Allowance,
    now: Duration,
    stamp: Timestamp,
    said: BTreeMap<OsString, Said>,
    events: Events,
    /// The allowance has paid for saying how many were not told.
    paid: bool,
    counts: [u64; Kind::ALL.len()],
}

impl Journal {
    /// One that counts events and does not keep them.
    pub(crate) fn new() -> Self {
        Self {
            logged: false,
            allowance: Allowance::new(IN_A_ROW, PER_SECOND),
            now: Duration::ZERO,
            stamp: Timestamp::EPOCH,
            said: BTreeMap::new(),
            events: Events::default(),
            paid: false,
            counts: [0; Kind::ALL.len()],
        }
    }

    /// Keeps events for the archive from now on.
    pub(crate) fn log(&mut self) {
        self.logged = true;
    }

    /// Whether events are kept for the archive.
    pub(crate) fn is_logged(&self) -> bool {
        self.logged
    }

    /// A tick begins: `now` after the start, with this time.
    pub(crate) fn begin(&mut self, now: Duration, stamp: Timestamp) {
        (self.now, self.stamp) = (now, stamp);
    }

    /// How many events of each kind there were.
    pub(crate) fn counts(&self) -> &[u64; Kind::ALL.len()] {
        &self.counts
    }

    /// The events for the next sample. They stay until one has taken them. A
    /// number of those that are not told is told seldom as well.
    pub(crate) fn due(&mut self) -> Events {
        if self.events.told.is_empty() && self.events.missed > 0 {
            self.paid = self.paid || self.allowance.spend(1.0, self.now);
            if !self.paid {
                return Events::default();
            }
        }
        self.events.clone()
    }

    /// A sample has taken them.
    pub(crate) fn clear(&mut self) {
        (self.events, self.paid) = (Events::default(), false);
    }

    /// Something happened to the agent; `fill` says what is known of it.
    pub(crate) fn note(&mut self, kind: Kind, fill: impl FnOnce(&mut Happening)) {
        self.count(kind);
        if self.logged {
            let mut happening = Happening::new(kind, self.stamp);
            fill(&mut happening);
            self.events.push(happening);
        }
    }

    /// A file is harvested from now on, or from now on with other metadata.
    pub(crate) fn admitted(&mut self, name: &OsStr, pid: Option<i32>, values: usize) {
        let before = self.said.insert(name.to_owned(), Said::Harvested);
        let kind = match before {
            None => Kind::Appeared,
            Some(Said::Harvested) => Kind::Grew,
            Some(Said::Left) => Kind::Recovered,
            Some(Said::Replaced) => Kind::Restarted,
        };
        self.of_file(kind, name, |happening| {
            happening.pid = pid;
            happening.values = Some(values as u64);
        });
    }

    /// The process that fed a file has ended.
    pub(crate) fn ended(&mut self, name: &OsStr, pid: i32) {
        self.said.insert(name.to_owned(), Said::Left);
        self.of_file(Kind::Ended, name, |happening| happening.pid = Some(pid));
    }

    /// A file whose process had ended was removed.
    pub(crate) fn removed(&mut self, name: &OsStr, pid: i32) {
        if self.said.get(name) == Some(&Said::Left) {
            self.said.remove(name);
        }
        self.of_file(Kind::Removed, name, |happening| happening.pid = Some(pid));
    }

    /// A file is not harvested, for a reason that was not said yet.
    pub(crate) fn refused(&mut self, name: &OsStr, kind: Kind, reason: &impl ToString) {
        self.said.insert(name.to_owned(), Said::Left);
        self.of_file(kind, name, |happening| happening.reason = Some(reason.to_string()));
    }

    /// Another file has taken the name of a file.
    pub(crate) fn replaced(&mut self, name: &OsStr) {
        if let Some(said) = self.said.get_mut(name) {
            *said = Said::Replaced;
        }
    }

    /// A file is gone.
    pub(crate) fn vanished(&mut self, name: &OsStr) {
        if self.said.remove(name).is_some() {
            self.of_file(Kind::Vanished, name, |_| ());
        }
    }

    fn of_file(&mut self, kind: Kind, name: &OsStr, fill: impl FnOnce(&mut Happening)) {
        self.count(kind);
        if !self.logged {
            return;
        }
        if !self.allowance.spend(1.0, self.now) {
            self.events.missed = self.events.missed.saturating_add(1);
            return;
        }
        let mut happening = Happening::new(kind, self.stamp);
        happening.file = Some(name.display().to_string());
        fill(&mut happening);
        self.events.push(happening);
    }

    fn count(&mut self, kind: Kind) {
        if let Some(count) = self.counts.get_mut(kind as usize) {
            *count += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn journal() -> Journal {
        let mut journal = Journal::new();
        journal.log();
        journal
    }

    /// What is told, and nothing of it any more.
    fn take(journal: &mut Journal) -> Vec<&'static str> {
        let events = journal.due();
        journal.clear();
        events.told.iter().map(|happening| happening.kind.name()).collect()
    }

    #[test]
    fn what_became_of_a_file_depends_on_what_was_said_of_it_before() {
        let (mut journal, name) = (journal(), OsStr::new("app"));
        journal.vanished(name);
        journal.replaced(name);
        assert_eq!(take(&mut journal), [""; 0], "nobody knew of it");
        journal.admitted(name, Some(7), 3);
        journal.admitted(name, Some(7), 4);
        journal.refused(name, Kind::Quarantined, &"it is bad");
        journal.admitted(name, Some(7), 3);
        journal.replaced(name);
        journal.admitted(name, Some(8), 3);
        journal.ended(name, 8);
        journal.vanished(name);
        journal.admitted(name, None, 3);
        journal.ended(name, 8);
        journal.removed(name, 8);
        journal.vanished(name);
        let expected = [
            "appeared",
            "grew",
            "quarantined",
            "recovered",
            "restarted",
            "ended",
            "vanished",
            "appeared",
            "ended",
            "removed",
        ];
        assert_eq!(take(&mut journal), expected);
        assert_eq!(journal.counts()[..2], [2, 1]);
    }

    #[test]
    fn events_stay_until_a_sample_has_taken_them() {
        let mut journal = journal();
        journal.note(Kind::Started, |_| ());
        assert_eq!(journal.due(), journal.due());
        assert_eq!(take(&mut journal), ["started"]);
        assert!(journal.due().is_empty());
    }

    #[test]
    fn whoever_makes_files_come_and_go_makes_few_events() {
        let mut journal = journal();
        let (mut told, mut missed, mut arrays) = (0, 0, 0);
        for second in 0..10_000 {
            journal.begin(SECOND * second, Timestamp::EPOCH);
            for name in ["a", "b"] {
                journal.admitted(OsStr::new(name), None, 1);
                journal.vanished(OsStr::new(name));
            }
            let events = journal.due();
            if !events.is_empty() {
                journal.clear();
                arrays += 1;
            }
            told += events.told.len();
            missed += events.missed as usize;
        }
        let unsaid = journal.events.missed as usize;
        assert_eq!(told + missed + unsaid, 40_000, "each is told or counted");
        assert!(told <= 6_000 && unsaid < 10, "{told} and {unsaid}");
        assert!(arrays <= 6_000, "{arrays}");
        assert_eq!(journal.counts().iter().sum::<u64>(), 40_000);
    }

    #[test]
    fn what_is_not_logged_is_counted_all_the_same() {
        let mut journal = Journal::new();
        journal.admitted(OsStr::new("app"), None, 1);
        journal.note(Kind::Gap, |_| ());
        assert!(journal.due().is_empty());
        assert_eq!(journal.counts().iter().sum::<u64>(), 2);
    }
}

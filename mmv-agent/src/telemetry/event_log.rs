//! Events since the last sample, about files and about the agent.
//!
//! Only changes of a file's state are events, so a file that is rejected at each try is one event.
//! Any process that can create files could cause events at each tick; so their rate is limited for
//! each user, and further events are counted.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::time::Duration;

use hashbrown::HashMap;
use pcp_types::Timestamp;

use super::{Event, EventKind, Events};
use crate::limits::{FairRate, NOBODY, TokenBucket};

/// Limit on consecutive events about files of one user.
const IN_A_ROW: f64 = 1_000.0;
/// Limit on events a second after that: some 5 MB a day.
const PER_SECOND: f64 = 0.5;

const RESOLUTION: Duration = Duration::from_micros(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PreviousState {
    Harvested,
    /// It ended, or is refused.
    Left,
    /// Another file has its name now.
    Replaced,
    /// Another file has its name now, although this process, which had the name, runs.
    Displaced(i32),
}

/// The metrics of a harvested file.
#[derive(Debug, Clone, Copy)]
struct FileMetrics {
    cluster: u32,
    /// True if their names begin with the file's name.
    prefixed: bool,
}

/// The events of the ticks that no sample has taken yet.
#[derive(Debug)]
pub(crate) struct EventLog {
    /// True if events go into the archive; otherwise they are counted only.
    pub logged: bool,
    rate: FairRate,
    /// Rate limit on logging the number of missed events.
    missed: TokenBucket,
    owners: HashMap<OsString, u32>,
    now: Duration,
    timestamp: Timestamp,
    /// Time of the previous tick.
    before: Timestamp,
    last: BTreeMap<OsString, PreviousState>,
    clusters: HashMap<OsString, FileMetrics>,
    events: Events,
    /// Set once a token was taken for the event with the number of missed ones.
    paid: bool,
    /// Number of events of each kind.
    pub counts: [u64; EventKind::NAMES.len()],
}

impl EventLog {
    /// Creates a log that counts events, and keeps them for the archive if they are `logged`.
    pub(crate) fn new(logged: bool) -> Self {
        Self {
            logged,
            rate: FairRate::new(IN_A_ROW, PER_SECOND),
            missed: TokenBucket::new(IN_A_ROW / 10.0, PER_SECOND / 10.0),
            owners: HashMap::new(),
            now: Duration::ZERO,
            timestamp: Timestamp::EPOCH,
            before: Timestamp::EPOCH,
            last: BTreeMap::new(),
            clusters: HashMap::new(),
            events: Events::default(),
            paid: false,
            counts: [0; EventKind::NAMES.len()],
        }
    }

    /// Begins a tick, `now` after the start, with this timestamp.
    pub(crate) fn begin(&mut self, now: Duration, timestamp: Timestamp) {
        self.before = if self.timestamp == Timestamp::EPOCH { timestamp } else { self.timestamp };
        self.now = now;
        self.timestamp = timestamp;
    }

    /// Notes that the values of the tick were read at a later moment, which is the sample's. What is
    /// noticed after it happened after those values.
    pub(crate) fn note_sample_time(&mut self, timestamp: Timestamp) {
        self.timestamp = timestamp;
    }

    /// Begins the time after the last tick. Further events happened after its sample, whose values
    /// do not show them.
    pub(crate) fn end(&mut self) {
        self.before = self.timestamp;
        self.timestamp = self.timestamp.saturating_add(RESOLUTION);
    }

    /// Sets the present files with their users. Events about other files were noted.
    pub(crate) fn set_owners<'a>(&mut self, files: impl Iterator<Item = (&'a OsStr, u32)>) {
        self.owners = files.map(|(name, owner)| (name.to_owned(), owner)).collect();
    }

    /// Adds a file with its user. Returns the number of known files.
    pub(crate) fn add_owner(&mut self, name: OsString, owner: u32) -> usize {
        self.owners.insert(name, owner);
        self.owners.len()
    }

    /// Returns the user of a file.
    pub(crate) fn owner(&self, name: &OsStr) -> u32 {
        self.owners.get(name).copied().unwrap_or(NOBODY)
    }

    /// Returns the events for the next sample. They stay until a sample has taken them. The event
    /// with the number of missed ones is rate-limited as well.
    pub(crate) fn due(&mut self) -> Events {
        if self.events.list.is_empty() && self.events.missed > 0 {
            self.paid = self.paid || self.missed.try_take(1.0, self.now);
            if !self.paid {
                return Events::default();
            }
        }
        self.events.clone()
    }

    /// Removes events that a sample has taken.
    pub(crate) fn clear(&mut self) {
        self.events = Events::default();
        self.paid = false;
    }

    /// Takes the events since the last call for another log, and the number of each kind.
    pub(crate) fn take(&mut self) -> (Events, [u64; EventKind::NAMES.len()]) {
        (std::mem::take(&mut self.events), std::mem::take(&mut self.counts))
    }

    /// Adds events of another log in order of time. An event from before the last sample is dated
    /// after it, since the values of that sample precede the event: for a program that has ended
    /// they are the last ones.
    pub(crate) fn add(&mut self, mut events: Events, counts: [u64; EventKind::NAMES.len()]) {
        let earliest = self.before.saturating_add(RESOLUTION).min(self.timestamp);
        for event in &mut events.list {
            event.timestamp = event.timestamp.clamp(earliest, self.timestamp);
        }
        self.events.add(&events);
        self.events.list.sort_by_key(|event| event.timestamp);
        for (count, added) in self.counts.iter_mut().zip(counts) {
            *count += added;
        }
    }

    /// Adds an event of the agent; `fill` sets its parameters.
    pub(crate) fn note(&mut self, kind: EventKind, fill: impl FnOnce(&mut Event)) {
        self.count(kind);
        if self.logged {
            let mut event = Event::new(kind, self.timestamp);
            fill(&mut event);
            self.events.push(event);
        }
    }

    /// Sets the cluster of a file's metrics. Events about the file state it if the names of its
    /// metrics are not `prefixed` by the file's name, since readers could not find them otherwise.
    pub(crate) fn set_cluster(&mut self, name: &OsStr, cluster: u32, prefixed: bool) {
        self.clusters.insert(name.to_owned(), FileMetrics { cluster, prefixed });
    }

    /// Returns the cluster for events about a file; `None` if other harvested files have metrics
    /// in it.
    fn cluster(&self, name: &OsStr) -> Option<u32> {
        let FileMetrics { cluster, prefixed } = *self.clusters.get(name)?;
        if prefixed {
            return None;
        }
        let is_shared = self.clusters.iter().any(|(other, metrics)| {
            let is_harvested = self.last.get(other) == Some(&PreviousState::Harvested);
            other != name && metrics.cluster == cluster && is_harvested
        });
        (!is_shared).then_some(cluster)
    }

    /// Adds an event for a file that is harvested from now on, or with other metadata. `left_out`
    /// describes the part that is not harvested.
    pub(crate) fn admitted(
        &mut self,
        name: &OsStr,
        pid: Option<i32>,
        values: usize,
        left_out: Option<String>,
    ) {
        let before = self.last.insert(name.to_owned(), PreviousState::Harvested);
        let kind = match before {
            None => EventKind::Appeared,
            Some(PreviousState::Harvested) => EventKind::Grew,
            Some(PreviousState::Left) => EventKind::Recovered,
            Some(PreviousState::Replaced | PreviousState::Displaced(_)) => EventKind::Restarted,
        };
        self.add_file_event(kind, name, |event| {
            event.pid = pid;
            event.reason = left_out;
            if let Some(PreviousState::Displaced(running)) = before {
                event.reason = Some(format!("replaces the file of process {running}, which runs"));
            }
            event.values = Some(values as u64);
        });
    }

    pub(crate) fn ended(&mut self, name: &OsStr, pid: i32) {
        self.last.insert(name.to_owned(), PreviousState::Left);
        self.add_file_event(EventKind::Ended, name, |event| event.pid = Some(pid));
    }

    /// Adds an event for the removal of a file whose process had ended.
    pub(crate) fn removed(&mut self, name: &OsStr, pid: i32) {
        if self.last.get(name) == Some(&PreviousState::Left) {
            self.last.remove(name);
        }
        self.add_file_event(EventKind::Removed, name, |event| event.pid = Some(pid));
        self.clusters.remove(name);
    }

    /// Adds an event for a file that is not harvested, for a reason that was not logged yet.
    pub(crate) fn refused(&mut self, name: &OsStr, kind: EventKind, reason: &impl ToString) {
        self.last.insert(name.to_owned(), PreviousState::Left);
        self.add_file_event(kind, name, |event| event.reason = Some(reason.to_string()));
    }

    /// Adds an event for samples of a file that are missing from `at` on. The file is still
    /// harvested. The event may be logged by a later record, so it states the time.
    pub(crate) fn gap_began(&mut self, name: &OsStr, at: Timestamp, reason: &str) {
        self.add_file_event(EventKind::Waiting, name, |event| {
            event.timestamp = at;
            event.since = Some(at);
            event.reason = Some(reason.to_owned());
        });
    }

    /// Adds an event for the end of missing samples at `at`.
    pub(crate) fn gap_ended(
        &mut self,
        name: &OsStr,
        at: Timestamp,
        since: Option<Timestamp>,
        missing: u64,
    ) {
        self.add_file_event(EventKind::Recovered, name, |event| {
            event.timestamp = at;
            event.records = Some(missing);
            event.since = since;
        });
    }

    /// Adds an event for something of a file that is left out, since another user has it.
    pub(crate) fn left_out(&mut self, name: &OsStr, reason: &impl ToString) {
        self.add_file_event(EventKind::LeftOut, name, |event| {
            event.reason = Some(reason.to_string());
        });
    }

    /// Adds an event for another file that has taken the name of a file.
    pub(crate) fn replaced(&mut self, name: &OsStr) {
        if let Some(last) = self.last.get_mut(name) {
            *last = PreviousState::Replaced;
        }
    }

    /// Adds an event for another file that has taken a name, although the process that had it
    /// runs.
    pub(crate) fn displaced(&mut self, name: &OsStr, running: i32) {
        if let Some(last) = self.last.get_mut(name) {
            *last = PreviousState::Displaced(running);
        }
    }

    /// Adds an event for a file that is gone.
    pub(crate) fn vanished(&mut self, name: &OsStr) {
        if self.last.remove(name).is_some() {
            self.add_file_event(EventKind::Vanished, name, |_| ());
        }
        self.clusters.remove(name);
    }

    fn add_file_event(&mut self, kind: EventKind, name: &OsStr, fill: impl FnOnce(&mut Event)) {
        self.count(kind);
        if !self.logged {
            return;
        }
        if !self.rate.try_take(self.owner(name), self.now) {
            self.events.missed = self.events.missed.saturating_add(1);
            return;
        }
        let mut event = Event::new(kind, self.timestamp);
        event.file = Some(name.display().to_string());
        event.cluster = self.cluster(name);
        fill(&mut event);
        self.events.push(event);
    }

    fn count(&mut self, kind: EventKind) {
        if let Some(count) = self.counts.get_mut(kind as usize) {
            *count += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn event_log() -> EventLog {
        EventLog::new(true)
    }

    #[test]
    fn merged_events_are_ordered_and_after_the_last_sample() {
        let at = |second| Timestamp::new(second, 999).unwrap();
        let mut files = event_log();
        let mut all = event_log();
        all.begin(SECOND, at(100));
        all.note(EventKind::Started, |_| ());
        files.begin(SECOND, at(99));
        files.admitted(OsStr::new("early"), None, 1, None);
        let (events, counts) = files.take();
        all.add(events, counts);
        all.begin(SECOND * 2, at(101));
        all.note(EventKind::Gap, |_| ());
        for (second, name) in [(50, "earlier"), (101, "now"), (200, "later")] {
            files.begin(SECOND, at(second));
            files.admitted(OsStr::new(name), None, 1, None);
        }
        let (events, counts) = files.take();
        all.add(events, counts);
        let due = all.due();
        let times = due.list.iter().map(|event| event.timestamp);
        let after = Timestamp::new(100, 1_999).unwrap();
        assert_eq!(times.collect::<Vec<_>>(), [at(100), at(100), after, at(101), at(101), at(101)]);
        let kinds: Vec<_> = due.list.iter().map(|event| event.kind).collect();
        assert_eq!(kinds[0], EventKind::Started);
        assert_eq!(kinds[3], EventKind::Gap);
        assert_eq!(all.counts.iter().sum::<u64>(), 6);
        assert!(files.take().0.list.is_empty());
    }

    #[test]
    fn what_the_last_sample_does_not_have_happened_after_it() {
        let at = |nanos| Timestamp::new(100, nanos).unwrap();
        let mut files = event_log();
        let mut all = event_log();
        all.begin(SECOND, at(0));
        files.begin(SECOND, at(0));
        files.admitted(OsStr::new("app"), None, 1, None);
        let (events, counts) = files.take();
        all.end();
        all.add(events, counts);
        all.note(EventKind::Stopped, |_| ());
        let times: Vec<_> = all.due().list.iter().map(|event| event.timestamp).collect();
        assert_eq!(times, [at(1_000), at(1_000)]);
    }

    #[test]
    fn what_a_sample_at_a_later_moment_does_not_have_happened_after_it() {
        let at = |nanos| Timestamp::new(100, nanos).unwrap();
        let mut files = event_log();
        let mut all = event_log();
        all.begin(SECOND, at(0));
        all.note_sample_time(at(500_000));
        all.clear();
        all.begin(2 * SECOND, at(900_000));
        files.begin(SECOND, at(200_000));
        files.admitted(OsStr::new("app"), None, 1, None);
        let (events, counts) = files.take();
        all.add(events, counts);
        assert_eq!(all.due().list[0].timestamp, at(501_000));
    }

    fn take(event_log: &mut EventLog) -> Vec<&'static str> {
        let events = event_log.due();
        event_log.clear();
        events.list.iter().map(|event| event.kind.name()).collect()
    }

    #[test]
    fn last_of_several_processes_ends_its_clusters_values() {
        let mut event_log = event_log();
        let names = [OsStr::new("app.7"), OsStr::new("app.8")];
        for name in names {
            event_log.set_cluster(name, 77, false);
            event_log.admitted(name, Some(7), 1, None);
        }
        take(&mut event_log);
        // The files stay, as those of processes that were killed.
        event_log.ended(names[0], 7);
        event_log.ended(names[1], 8);
        let clusters: Vec<_> = event_log.due().list.iter().map(|event| event.cluster).collect();
        assert_eq!(clusters, [None, Some(77)]);
    }

    #[test]
    fn missing_samples_have_the_time_of_the_first() {
        let at = |second| Timestamp::new(second, 0).unwrap();
        let mut all = event_log();
        let mut files = event_log();
        let name = OsStr::new("app");
        files.admitted(name, Some(7), 3, None);
        files.take();
        all.begin(SECOND, at(100));
        all.clear();
        all.begin(SECOND * 2, at(101));
        files.gap_began(name, at(99), "reading its values takes too long");
        let (events, counts) = files.take();
        all.add(events, counts);
        let due = all.due();
        let after = Timestamp::new(100, 1_000).unwrap();
        assert_eq!(due.list[0].timestamp, after, "no event is at a record before its own");
        assert_eq!(due.list[0].since, Some(at(99)));
    }

    #[test]
    fn the_event_of_a_file_depends_on_its_previous_event() {
        let mut event_log = event_log();
        let name = OsStr::new("app");
        event_log.vanished(name);
        event_log.replaced(name);
        assert_eq!(take(&mut event_log), [""; 0], "the file was unknown");
        event_log.admitted(name, Some(7), 3, None);
        event_log.admitted(name, Some(7), 4, None);
        event_log.refused(name, EventKind::Quarantined, &"it is bad");
        event_log.admitted(name, Some(7), 3, None);
        event_log.replaced(name);
        event_log.admitted(name, Some(8), 3, None);
        event_log.ended(name, 8);
        event_log.vanished(name);
        event_log.admitted(name, None, 3, None);
        event_log.ended(name, 8);
        event_log.removed(name, 8);
        event_log.vanished(name);
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
        assert_eq!(take(&mut event_log), expected);
        assert_eq!(event_log.counts[..2], [2, 1]);
    }

    #[test]
    fn event_of_a_displaced_file_names_the_running_process() {
        let mut event_log = event_log();
        let name = OsStr::new("app");
        event_log.admitted(name, Some(7), 3, None);
        event_log.replaced(name);
        event_log.displaced(name, 7);
        event_log.admitted(name, Some(8), 3, None);
        event_log.admitted(name, Some(8), 4, None);
        let reasons: Vec<_> =
            event_log.due().list.into_iter().map(|event| (event.kind, event.reason)).collect();
        let expected = "replaces the file of process 7, which runs".to_owned();
        let expected = [
            (EventKind::Appeared, None),
            (EventKind::Restarted, Some(expected)),
            (EventKind::Grew, None),
        ];
        assert_eq!(reasons, expected);
    }

    #[test]
    fn events_stay_until_a_sample_has_taken_them() {
        let mut event_log = event_log();
        event_log.note(EventKind::Started, |_| ());
        assert_eq!(event_log.due(), event_log.due());
        assert_eq!(take(&mut event_log), ["started"]);
        assert!(event_log.due().is_empty());
    }

    #[test]
    fn files_that_come_and_go_make_few_events() {
        let mut event_log = event_log();
        let mut logged = 0;
        let mut missed = 0;
        let mut arrays = 0;
        for second in 0..10_000 {
            event_log.begin(SECOND * second, Timestamp::EPOCH);
            for name in ["a", "b"] {
                event_log.admitted(OsStr::new(name), None, 1, None);
                event_log.vanished(OsStr::new(name));
            }
            let events = event_log.due();
            if !events.is_empty() {
                event_log.clear();
                arrays += 1;
            }
            logged += events.list.len();
            missed += events.missed as usize;
        }
        let unreported = event_log.events.missed as usize;
        assert_eq!(logged + missed + unreported, 40_000, "each is logged or counted");
        assert!(logged <= 6_000 && unreported < 10, "{logged} and {unreported}");
        assert!(arrays <= 6_600, "{arrays}");
        assert_eq!(event_log.counts.iter().sum::<u64>(), 40_000);
    }

    #[test]
    fn events_of_one_users_files_cost_no_other_user_any() {
        let mut event_log = event_log();
        let files = [("storm", 1), ("victim", 2)];
        event_log.set_owners(files.map(|(name, owner)| (OsStr::new(name), owner)).into_iter());
        let mut of_victim = 0;
        for second in 0..100 {
            event_log.begin(SECOND * second, Timestamp::EPOCH);
            for _ in 0..1_000 {
                event_log.admitted(OsStr::new("storm"), None, 1, None);
            }
            event_log.admitted(OsStr::new("victim"), None, 1, None);
            let events = event_log.due();
            let files = events.list.iter().map(|event| event.file.as_deref());
            of_victim += files.filter(|file| *file == Some("victim")).count();
            event_log.clear();
        }
        assert_eq!(of_victim, 100);
    }

    #[test]
    fn what_is_not_logged_is_counted_all_the_same() {
        let mut event_log = EventLog::new(false);
        event_log.admitted(OsStr::new("app"), None, 1, None);
        event_log.note(EventKind::Gap, |_| ());
        assert!(event_log.due().is_empty());
        assert_eq!(event_log.counts.iter().sum::<u64>(), 2);
    }
}

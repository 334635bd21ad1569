//! One file under harvest, as the loader sees it: its metadata.

use std::ffi::{OsStr, OsString};
use std::sync::Arc;
use std::time::Duration;

use hashbrown::{HashMap, HashSet};
use mmv_format::growth::CellOwners;
use pcp_types::{InDom, InstanceId, Pmid};

use crate::metadata::{CatalogSource, Recreations, Translation};
use crate::source::{ActiveSource, FileGaps, Source, Ticket};

/// First pause before metadata that could not be read is read again. Each further pause is twice
/// as long, up to one of the two limits.
const FIRST_PAUSE: Duration = Duration::from_millis(5);

/// Longest pause while a file is written, or while reading its metadata costs too much.
const LONG_PAUSE: Duration = Duration::from_secs(1);

/// Longest pause while there is no room for the values or metadata of a file.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// First pause between checks of a new file for new metadata. Each further pause is twice as long.
const FIRST_CHECK: Duration = Duration::from_millis(20);

/// Longest pause between these checks, which end after it.
const LAST_CHECK: Duration = Duration::from_secs(10);

/// A failed attempt to read new metadata of a file.
#[derive(Debug)]
pub(crate) struct MetadataRetry {
    pub(crate) due: Duration,
    pause: Duration,
    /// Number of attempts that failed for this reason.
    pub(crate) tries: u32,
    pub(crate) reason: String,
}

/// The next check of a new growing file for new metadata. A program registers most of its metrics
/// soon after its file has appeared, and the first tick should have their values.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MetadataCheck {
    pub(crate) due: Duration,
    pause: Duration,
}

/// The loss of a file's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Departure {
    /// There is no file of the name.
    Vanished,
    /// There is another file of the name.
    Replaced,
}

/// Numbers of logged metrics and values of a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoggedCounts {
    pub(crate) metrics: usize,
    pub(crate) values: usize,
}

/// A file under harvest with its metadata.
#[derive(Debug)]
pub(crate) struct LoadedSource {
    pub(crate) name: OsString,
    pub(crate) source: Arc<Source>,
    /// Number of its entries that were left out.
    pub(crate) left_out: usize,
    pub(crate) logged: LoggedCounts,
    /// Sequence number, ascending in order of arrival.
    pub(crate) number: u64,
    /// Identifies the source to the sampler.
    pub(crate) ticket: Ticket,
    /// The sampler's part, until the sampler has taken it.
    pub(crate) active: Option<Box<ActiveSource>>,
    pub(crate) gaps: Arc<FileGaps>,
    /// Set while new metadata could not be read. The known values are still read.
    pub(crate) retry: Option<MetadataRetry>,
    /// Set while the file is new.
    pub(crate) look: Option<MetadataCheck>,
    /// Set once the last values are read by metadata that is not the newest.
    settled: bool,
    /// Set once the file has lost its name. It stays until its last values were read.
    pub(crate) departure: Option<Departure>,
    /// Time at which the sampler was asked to read its last values at once.
    pub(super) last_values_requested: Option<Duration>,
    translation: Translation,
    recreations: Recreations,
    /// The entries that instances without a value had: they may be created again later.
    without_value: HashMap<(InDom, InstanceId), InstanceEntry>,
}

/// Offset of the entry of an instance, and its count of reuses.
type InstanceEntry = (u32, u32);

/// A value of an instance in a growing file.
struct OwnedValue {
    pmid: Pmid,
    indom: InDom,
    instance: InstanceId,
    entry: InstanceEntry,
}

impl LoadedSource {
    /// Creates a source that the sampler does not have yet.
    pub(crate) fn new(
        source: Source,
        translation: Translation,
        left_out: usize,
        ticket: Ticket,
        gaps: Arc<FileGaps>,
    ) -> Self {
        let name = gaps.file.clone();
        let source = Arc::new(source);
        let logged = LoggedCounts {
            metrics: translation.logged_metrics(),
            values: translation.logged_values(source.plan()),
        };
        let active = ActiveSource::new(ticket, Arc::clone(&source), Arc::clone(&gaps));
        Self {
            name,
            source,
            left_out,
            logged,
            number: 0,
            ticket,
            active: Some(Box::new(active)),
            gaps,
            retry: None,
            look: None,
            settled: false,
            departure: None,
            last_values_requested: None,
            translation,
            recreations: Recreations::new(),
            without_value: HashMap::new(),
        }
    }

    /// Counts the instances that were removed and created again since the `earlier` metadata of
    /// the file was read: their values have another instance entry, or one with another count of
    /// reuses. The `earlier` metadata may have been read while an instance was away.
    pub(crate) fn count_recreations(&mut self, earlier: &Self) {
        let mut without_value = earlier.without_value.clone();
        for OwnedValue { indom, instance, entry, .. } in earlier.owned_values() {
            without_value.insert((indom, instance), entry);
        }
        let known: HashMap<_, _> = earlier
            .owned_values()
            .map(|value| ((value.pmid, value.instance), value.entry))
            .collect();
        let mut counts = Recreations::new();
        let mut recreated = HashSet::new();
        for OwnedValue { pmid, indom, instance, entry } in self.owned_values() {
            let key = (indom, instance);
            counts.extend(earlier.recreations.get(&key).map(|count| (key, *count)));
            without_value.remove(&key);
            let known = known.get(&(pmid, instance)).or_else(|| earlier.without_value.get(&key));
            if known.is_some_and(|known| *known != entry) {
                recreated.insert(key);
            }
        }
        for key in recreated {
            *counts.entry(key).or_default() += 1;
        }
        let away = without_value.keys().filter_map(|key| earlier.recreations.get_key_value(key));
        counts.extend(away.map(|(key, count)| (*key, *count)));
        self.recreations = counts;
        self.without_value = without_value;
    }

    /// Notes that a plan has the source. Instances that are not listed in it are removed.
    pub(crate) fn note_plan(&mut self) {
        if self.without_value.is_empty() {
            return;
        }
        let indoms = self.translation.indoms.iter();
        let listed: HashSet<_> = indoms
            .flat_map(|indom| indom.instances.iter().map(|instance| (indom.indom, instance.id)))
            .collect();
        self.without_value.retain(|key, _| listed.contains(key));
    }

    /// Returns the values of instances, if the file grows.
    fn owned_values(&self) -> impl Iterator<Item = OwnedValue> {
        let entries = self.source.owners().into_iter().flat_map(CellOwners::instances);
        self.source.plan().keys.iter().zip(entries).filter_map(|(key, entry)| {
            let desc = &self.translation.metrics.get(key.metric)?.as_ref()?.desc;
            let (indom, instance) = desc.indom.zip(key.instance)?;
            Some(OwnedValue { pmid: desc.pmid, indom, instance, entry })
        })
    }

    /// Has the last values of a growing source read by the known metadata, once. Returns false
    /// if that is not possible.
    pub(crate) fn settle(&mut self, ticket: Ticket) -> bool {
        if !self.source.grows() || self.settled {
            return false;
        }
        let source = Arc::clone(&self.source);
        let gaps = Arc::clone(&self.gaps);
        self.ticket = ticket;
        self.active = Some(Box::new(ActiveSource::settled(ticket, source, gaps)));
        self.retry = None;
        self.settled = true;
        true
    }

    /// Schedules another attempt to read new metadata, after a longer pause if the `reason`
    /// `lasts`. Returns the number of attempts that failed for this reason.
    pub(crate) fn retry(&mut self, reason: String, lasts: bool, now: Duration) -> u32 {
        let before = self.retry.take();
        let longest = if lasts { LONGEST_PAUSE } else { LONG_PAUSE };
        let pause = before.as_ref().map_or(FIRST_PAUSE, |before| (before.pause * 2).min(longest));
        let tries =
            before.filter(|before| before.reason == reason).map_or(1, |before| before.tries + 1);
        self.retry = Some(MetadataRetry { due: now + pause, pause, tries, reason });
        tries
    }

    /// Schedules the next check of a new file.
    pub(crate) fn schedule_check(&mut self, now: Duration) {
        if !self.source.grows() {
            return;
        }
        let pause = self.look.map_or(FIRST_CHECK, |look| look.pause * 2);
        self.look = (pause <= LAST_CHECK).then_some(MetadataCheck { due: now + pause, pause });
    }

    /// Returns true if metrics or instances of another file could have the names or numbers of
    /// this file's.
    pub(crate) fn clashes(&self, name: &OsStr, with: &Source) -> bool {
        let own = &self.source;
        let same_cluster = own.cluster != 0 && own.cluster == with.cluster;
        self.name == name || same_cluster || !(own.prefixed || with.prefixed)
    }

    /// Returns the source for the catalog; `payer` is the user charged for it.
    pub(crate) fn member(&self, payer: u32) -> CatalogSource<'_> {
        let Self { name, source, translation, recreations, .. } = self;
        CatalogSource {
            file: name,
            owner: source.owner,
            payer,
            translation,
            plan: source.plan(),
            recreations,
        }
    }
}

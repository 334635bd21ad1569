//! Daily limit on the bytes that are logged for each user.
//!
//! Input: records of groups, and bytes of metadata and of changed values. Output: the users whose
//! values are not logged for the rest of the day. Retention by size deletes the oldest archives
//! with the values of all users, so a user who fills the disk would leave the others no history.
//! No user is suspended while no other user has files.
//!
//! Bytes of values are estimated; bytes of metadata are as written, including the index entries
//! that they cause. All are bytes on disk. When a volume is compressed, its users are credited
//! with what that saves.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::time::Duration;

use hashbrown::HashMap;
use pcp_types::{Pmid, ValueType};

use super::partition::{GroupId, GroupShapes};
use crate::config::ReloadableSettings;
use crate::housekeeping::LoggedToday;
use crate::limits::{NOBODY, ROOT};
use crate::metadata::{Catalog, RecordShape};
use crate::telemetry::{CompressedVolume, MetricUsage};

/// Approximate bytes of a metric in a record, without its values.
const METRIC_BYTES: u64 = 12;
/// Approximate bytes of a numeric value with its instance and frame.
const NUMBER_BYTES: u64 = 20;
/// Approximate bytes of a string value with its instance and frame.
const TEXT_BYTES: u64 = 148;

/// Number of metrics that the status names with the bytes that they need.
const MAX_LARGEST: usize = 5;

/// Limit on volumes that wait for compression; older ones give no credit.
const MAX_VOLUMES: usize = 1_000;

/// Part of the limit below which a suspended user is logged again.
const RESUME_PART: f64 = 0.5;

/// A volume that was charged for and is not compressed yet.
#[derive(Debug)]
struct PlainVolume {
    file: PathBuf,
    bytes: HashMap<u32, f64>,
}

/// Bytes logged today by user.
#[derive(Debug, Default)]
pub(crate) struct DiskShares {
    /// Day, counted from 1970.
    day: Option<i64>,
    users: HashMap<u32, Today>,
    /// Bytes of a record of each group, by user.
    records: BTreeMap<GroupId, Vec<(u32, u64)>>,
    /// The metrics with the most bytes a day, the largest first.
    largest: Vec<MetricUsage>,
    /// Limit for users without their own.
    limit: u64,
    limits: BTreeMap<u32, u64>,
    /// Volumes of today, the oldest first.
    volumes: VecDeque<PlainVolume>,
    /// Set when more than [`UNSAVED_PART`] of a limit was logged since the state was last saved.
    is_news: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct Today {
    bytes: f64,
    suspended: bool,
    /// Bytes when the state was last saved.
    saved: f64,
}

impl Today {
    /// Adds bytes. Returns true if the unsaved part is large enough to be saved.
    fn add(&mut self, bytes: f64, limit: u64) -> bool {
        self.bytes += bytes;
        self.bytes - self.saved > limit as f64 * UNSAVED_PART
    }
}

/// Part of a limit that may be forgotten when the agent is killed.
const UNSAVED_PART: f64 = 0.05;

impl DiskShares {
    /// Creates shares from the configured limits and what was logged earlier today. A user who was
    /// suspended is suspended again at the next record.
    pub(crate) fn new(settings: &ReloadableSettings, earlier: LoggedToday) -> Self {
        let mut users = HashMap::new();
        for (user, bytes) in earlier.bytes {
            let bytes = bytes as f64;
            users.insert(user, Today { bytes, suspended: false, saved: bytes });
        }
        let mut shares = Self { day: Some(earlier.day), users, ..Self::default() };
        shares.change(settings);
        shares
    }

    /// Returns the state for the next run.
    pub(crate) fn remember(&mut self) -> LoggedToday {
        self.is_news = false;
        let bytes = self.users.iter_mut().map(|(user, today)| {
            today.saved = today.bytes;
            (*user, today.bytes as u64)
        });
        LoggedToday { day: self.day.unwrap_or(0), bytes: bytes.collect() }
    }

    /// Returns true if the state should be saved.
    pub(crate) fn is_news(&self) -> bool {
        self.is_news
    }

    /// Applies settings. Users who are below their new limit are logged again.
    pub(crate) fn change(&mut self, settings: &ReloadableSettings) {
        let limits = &settings.limits;
        let share = settings
            .retention
            .size
            .map_or(u64::MAX, |size| (u128::from(size) * u128::from(limits.share) / 100) as u64);
        self.limit = limits.disk_a_day.unwrap_or(u64::MAX).min(share);
        self.limits = settings
            .owners
            .by_user
            .iter()
            .filter_map(|(user, own)| Some((*user, own.disk_a_day?)))
            .collect();
        for (user, today) in &mut self.users {
            let limit = self.limits.get(user).copied().unwrap_or(self.limit);
            today.suspended &= today.bytes > limit as f64;
        }
    }

    /// Returns the bytes that may be logged for a user in a day.
    pub(crate) fn limit(&self, user: u32) -> u64 {
        limit_of(user, &self.limits, self.limit)
    }

    /// Begins a tick. On a new day, returns true if a user was suspended until now.
    pub(crate) fn begin(&mut self, day: i64) -> bool {
        if self.day.replace(day) == Some(day) {
            return false;
        }
        let was_suspended = self.users.values().any(|today| today.suspended);
        self.users.clear();
        self.volumes.clear();
        was_suspended
    }

    /// Applies new records: the shapes of all groups, and the user of each source.
    pub(crate) fn set_records(&mut self, shares: &GroupShapes, users: &[u32]) {
        self.records.clear();
        for (id, share) in shares {
            let bytes = bytes_by_user(&share.every, users);
            self.records.insert(*id, bytes.into_iter().collect());
        }
    }

    /// Finds the metrics that need the most bytes; `intervals` are those of all groups.
    pub(crate) fn set_largest(
        &mut self,
        shares: &GroupShapes,
        intervals: &BTreeMap<GroupId, Duration>,
        catalog: &Catalog,
    ) {
        let mut metrics: HashMap<Pmid, (usize, f64)> = HashMap::new();
        for (id, share) in shares {
            let Some(interval) = intervals.get(id) else { continue };
            let records_a_day = 86_400.0 / interval.as_secs_f64();
            for set in share.every.iter() {
                let bytes = METRIC_BYTES + value_bytes(set.value_type) * set.places.len() as u64;
                let (values, all) = metrics.entry(set.pmid).or_default();
                *values += set.places.len();
                *all += bytes as f64 * records_a_day;
            }
        }
        let mut metrics: Vec<_> = metrics.into_iter().collect();
        metrics.sort_by(|(one, (_, a)), (other, (_, b))| b.total_cmp(a).then(one.cmp(other)));
        metrics.truncate(MAX_LARGEST);
        self.largest.clear();
        for (pmid, (values, bytes)) in metrics {
            let place = catalog.metrics.binary_search_by_key(&pmid, |(desc, _)| desc.pmid);
            let Some((_, name)) = place.ok().and_then(|place| catalog.metrics.get(place)) else {
                continue;
            };
            let metric = name.to_string();
            self.largest.push(MetricUsage { metric, values, bytes_a_day: bytes as u64 });
        }
    }

    pub(crate) fn largest(&self) -> &[MetricUsage] {
        &self.largest
    }

    /// Charges this volume from now on.
    pub(crate) fn begin_volume(&mut self, file: PathBuf) {
        if self.volumes.back().is_some_and(|last| last.file == file) {
            return;
        }
        if self.volumes.len() == MAX_VOLUMES {
            self.volumes.pop_front();
        }
        self.volumes.push_back(PlainVolume { file, bytes: HashMap::new() });
    }

    /// Credits the users of a volume with what its compression has saved. Returns true if a user
    /// is logged again.
    pub(crate) fn credit(&mut self, compressed: &CompressedVolume) -> bool {
        let CompressedVolume { file, before, after } = compressed;
        let place = self.volumes.iter().position(|volume| volume.file == *file);
        let Some(place) = place else { return false };
        let Some(volume) = self.volumes.remove(place) else { return false };
        let saved = 1.0 - (*after as f64 / (*before).max(1) as f64).min(1.0);
        let mut is_logged_again = false;
        for (user, bytes) in volume.bytes {
            let limit = self.limit(user) as f64;
            let today = self.users.entry(user).or_default();
            today.bytes = (today.bytes - bytes * saved).max(0.0);
            if today.suspended && today.bytes < limit * RESUME_PART {
                today.suspended = false;
                is_logged_again = true;
            }
        }
        is_logged_again
    }

    pub(crate) fn charge(&mut self, group: GroupId, records: u64) {
        let Self { users, records: sizes, limit, limits, volumes, is_news, .. } = self;
        for (user, bytes) in sizes.get(&group).into_iter().flatten() {
            let limit = limit_of(*user, limits, *limit);
            let bytes = (*bytes * records) as f64;
            *is_news |= users.entry(*user).or_default().add(bytes, limit);
            if let Some(volume) = volumes.back_mut() {
                *volume.bytes.entry(*user).or_default() += bytes;
            }
        }
    }

    /// Charges a user for metadata or changed values that were written.
    pub(crate) fn charge_bytes(&mut self, user: u32, bytes: u64) {
        let limit = self.limit(user);
        self.is_news |= self.users.entry(user).or_default().add(bytes as f64, limit);
    }

    /// Suspends the users who have exceeded their limits, and returns them; `is_alone` tells
    /// whether no other user has files.
    pub(crate) fn suspend(&mut self, is_alone: impl Fn(u32) -> bool) -> Vec<u32> {
        let over = self
            .users
            .iter()
            .filter(|(user, today)| !today.suspended && today.bytes > self.limit(**user) as f64);
        let over: Vec<u32> = over.map(|(user, _)| *user).filter(|user| !is_alone(*user)).collect();
        for user in &over {
            self.users.entry(*user).or_default().suspended = true;
        }
        over
    }

    /// Returns true if nothing more is logged for a user today.
    pub(crate) fn is_suspended(&self, user: u32) -> bool {
        self.users.get(&user).is_some_and(|today| today.suspended)
    }

    /// Returns the bytes that were logged for a user today.
    pub(crate) fn bytes(&self, user: u32) -> u64 {
        self.users.get(&user).map_or(0, |today| today.bytes as u64)
    }
}

fn limit_of(user: u32, limits: &BTreeMap<u32, u64>, others: u64) -> u64 {
    let default = if user == ROOT { u64::MAX } else { others };
    limits.get(&user).copied().unwrap_or(default)
}

/// Returns the approximate bytes of a value of this type.
const fn value_bytes(value_type: ValueType) -> u64 {
    match value_type {
        ValueType::String => TEXT_BYTES,
        _ => NUMBER_BYTES,
    }
}

fn bytes_by_user(shape: &RecordShape, users: &[u32]) -> BTreeMap<u32, u64> {
    let user = |source: usize| users.get(source).copied().unwrap_or(NOBODY);
    let mut bytes: BTreeMap<u32, u64> = BTreeMap::new();
    for set in shape.iter() {
        let value = value_bytes(set.value_type);
        if let Some(first) = set.owners.first() {
            *bytes.entry(user(*first)).or_default() += METRIC_BYTES;
        }
        for place in set.places {
            *bytes.entry(user(place.source)).or_default() += value;
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use pcp_types::Pmid;

    use super::*;
    use crate::config::{Limits, OwnerLimits, Retention};
    use crate::loading::partition::GroupShape;
    use crate::metadata::{ValueLocation, ValueSetShape};

    const GROUP: GroupId = GroupId::Default;

    fn settings() -> ReloadableSettings {
        ReloadableSettings {
            limits: Limits { disk_a_day: Some(1_000), ..Limits::default() },
            ..ReloadableSettings::default()
        }
    }

    /// Records with a metric of two values of each source, whose users are 1000 and up.
    fn laid_out(settings: &ReloadableSettings, sources: usize) -> DiskShares {
        continued(settings, sources, LoggedToday::default())
    }

    /// Creates them on the first day, after an earlier run.
    fn continued(
        settings: &ReloadableSettings,
        sources: usize,
        earlier: LoggedToday,
    ) -> DiskShares {
        let mut every = RecordShape::default();
        for source in 0..sources {
            every.push(ValueSetShape {
                pmid: Pmid::new(70, 1, source as u32).unwrap(),
                value_type: ValueType::U64,
                owners: &[source],
                places: &[1, 2].map(|value| ValueLocation { instance: None, source, value }),
            });
        }
        let share = GroupShape { every, ..GroupShape::default() };
        let mut disk = DiskShares::new(settings, earlier);
        disk.set_records(&GroupShapes::from([(GROUP, share)]), &[1_000, 1_001]);
        disk.begin(1);
        disk
    }

    #[test]
    fn the_largest_metrics_are_those_with_the_most_bytes_a_day() {
        let shape = |item, values| {
            let place = ValueLocation { instance: None, source: 0, value: 0 };
            let mut every = RecordShape::default();
            every.push(ValueSetShape {
                pmid: Pmid::new(70, 1, item).unwrap(),
                value_type: ValueType::U64,
                owners: &[0],
                places: &vec![place; values],
            });
            GroupShape { every, ..GroupShape::default() }
        };
        let rare = GroupId::Configured(0);
        let shares = GroupShapes::from([(rare, shape(1, 100)), (GROUP, shape(2, 3))]);
        let second = Duration::from_secs(1);
        let intervals = BTreeMap::from([(rare, 60 * second), (GROUP, second)]);
        let mut catalog = Catalog::default();
        for (item, name) in [(1, "many"), (2, "often")] {
            let desc = pcp_archive::MetricDesc {
                pmid: Pmid::new(70, 1, item).unwrap(),
                value_type: ValueType::U64,
                indom: None,
                semantics: pcp_types::Semantics::Counter,
                units: pcp_types::Units::NONE,
            };
            catalog.metrics.push((desc, name.into()));
        }
        let mut disk = DiskShares::default();
        disk.set_largest(&shares, &intervals, &catalog);
        let usage = |metric: &str, values, bytes_a_day| MetricUsage {
            metric: metric.to_owned(),
            values,
            bytes_a_day,
        };
        // 12 bytes of a metric and 20 of a value.
        let expected = [usage("often", 3, 72 * 86_400), usage("many", 100, 2_012 * 86_400 / 60)];
        assert_eq!(disk.largest(), expected);
    }

    #[test]
    fn who_logs_too_much_is_cut_until_the_day_ends() {
        let mut disk = laid_out(&settings(), 1);
        for _ in 0..19 {
            disk.charge(GROUP, 1);
        }
        assert_eq!((disk.bytes(1_000), disk.suspend(|_| false)), (988, vec![]));
        disk.charge(GROUP, 1);
        assert_eq!(disk.suspend(|_| true), [0_u32; 0], "no other user has a file");
        assert_eq!(disk.suspend(|_| false), [1_000]);
        assert_eq!(disk.suspend(|_| false), [0_u32; 0], "once");
        assert!(disk.is_suspended(1_000) && !disk.begin(1));
        assert!(disk.begin(2) && !disk.is_suspended(1_000) && !disk.begin(2));
    }

    #[test]
    fn a_restart_forgets_a_twentieth_of_a_limit_at_most() {
        let mut disk = laid_out(&settings(), 1);
        assert!(!disk.is_news());
        disk.charge(GROUP, 1);
        assert!(disk.is_news(), "52 bytes of 1000");
        (1..20).for_each(|_| disk.charge(GROUP, 1));
        let remembered = disk.remember();
        assert_eq!(remembered.bytes, BTreeMap::from([(1_000, 1_040)]));
        assert!(!disk.is_news());
        let mut disk = continued(&settings(), 1, remembered.clone());
        assert_eq!((disk.bytes(1_000), disk.is_news()), (1_040, false));
        assert_eq!(disk.suspend(|_| false), [1_000]);
        // On another day it is history.
        let disk = continued(&settings(), 1, LoggedToday { day: 0, ..remembered });
        assert_eq!(disk.bytes(1_000), 0);
    }

    #[test]
    fn what_compression_saves_is_given_back_when_it_was_saved() {
        let mut disk = laid_out(&settings(), 1);
        let volume =
            |file: &str, before, after| CompressedVolume { file: file.into(), before, after };
        // 52 bytes each.
        disk.begin_volume("a.0".into());
        disk.charge(GROUP, 10);
        disk.begin_volume("a.0".into());
        disk.charge(GROUP, 10);
        assert_eq!((disk.bytes(1_000), disk.suspend(|_| false)), (1_040, vec![1_000]));
        disk.begin_volume("a.1".into());
        disk.charge(GROUP, 5);
        assert!(!disk.credit(&volume("a.7", 100, 1)), "of an earlier run");
        assert!(!disk.credit(&volume("a.1", 100, 50)) && disk.is_suspended(1_000));
        assert_eq!(disk.bytes(1_000), 1_170);
        // Noise does not become smaller.
        assert!(!disk.credit(&volume("a.1", 100, 10)), "once");
        assert!(disk.credit(&volume("a.0", 2_000, 250)) && !disk.is_suspended(1_000));
        assert_eq!(disk.bytes(1_000), 260);
    }

    #[test]
    fn users_are_charged_separately_with_own_limits() {
        let mut settings = settings();
        let own = OwnerLimits { disk_a_day: Some(10_000), ..OwnerLimits::default() };
        settings.owners.by_user.insert(1_001, own);
        let mut disk = laid_out(&settings, 2);
        (0..30).for_each(|_| disk.charge(GROUP, 1));
        assert_eq!([1_000, 1_001, 7].map(|user| disk.bytes(user)), [1_560, 1_560, 0]);
        assert_eq!(disk.suspend(|_| false), [1_000]);
        settings.limits.disk_a_day = None;
        disk.change(&settings);
        assert!(!disk.is_suspended(1_000), "the limit is higher now");
    }

    #[test]
    fn nobody_may_log_more_than_a_share_of_what_is_kept_but_root() {
        let retention = Retention { size: Some(600), ..Retention::default() };
        let settings = ReloadableSettings { retention, ..settings() };
        let disk = DiskShares::new(&settings, LoggedToday::default());
        assert_eq!((disk.limit(1_000), disk.limit(ROOT)), (300, u64::MAX));
    }
}

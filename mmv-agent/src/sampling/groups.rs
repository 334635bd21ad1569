//! All groups.
//!
//! Input: the settings, the shape of all values, and the values of a tick. Output: the records of
//! the groups that are due.
//!
//! Invariant: each source is read by some group; otherwise its changes would go unnoticed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use pcp_archive::raw::prepared::RecordBuffer;

use super::group_state::GroupState;
use super::schedule::Timer;
use crate::config::Settings;
use crate::loading::last_values::LastValuesRequest;
use crate::loading::partition::{GroupId, GroupShapes, group_configs};
use crate::loading::update::RetiredObjects;
use crate::logging::{ChangedValues, LastKnownValues, QueueSender};
use crate::moment::Moment;
use crate::source::Values;
use crate::telemetry::GroupStatus;

/// The groups to be sampled at a tick.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DueGroups {
    pub groups: BTreeSet<GroupId>,
    /// True if the flight recorder is due.
    pub flight_recorder: bool,
    /// Set if only files with last values are sampled, by the groups and the flight recorder that
    /// need them.
    pub last_values: Option<LastValuesRequest>,
}

impl DueGroups {
    /// Returns what is due when last values are requested.
    pub(crate) fn of_last_values(request: LastValuesRequest) -> Self {
        Self { last_values: Some(request), ..Self::default() }
    }
}

/// The groups of the configuration, those of the agent's own metrics, and the default group.
#[derive(Debug)]
pub(crate) struct Groups {
    all: Vec<GroupState>,
    last_known: LastKnownValues,
}

/// Everything that the groups log at a tick.
#[derive(Debug, Default)]
pub(crate) struct LoggedTick {
    /// A record for each group that has values.
    pub records: Vec<RecordBuffer>,
    /// Number of values in the records.
    pub values: u64,
    /// Values that are logged on change.
    pub changes: ChangedValues,
}

impl Groups {
    /// Creates groups that are due at the first tick.
    pub(crate) fn new(settings: &Settings) -> Self {
        Self { all: Self::states(settings, Timer::new), last_known: LastKnownValues::default() }
    }

    fn states(settings: &Settings, timer: impl Fn(Duration) -> Timer) -> Vec<GroupState> {
        let mut states = Vec::new();
        for (id, config) in group_configs(settings) {
            let timer = timer(settings.reloadable.interval_of(&config));
            states.push(GroupState::new(id, config, timer, settings.fixed.archive_version));
        }
        states
    }

    /// Applies settings. Groups with other intervals are due at their next multiples.
    pub(crate) fn change(&mut self, settings: &Settings, since_midnight: Duration) {
        let changed = Self::states(settings, |interval| Timer::starting(interval, since_midnight));
        let known = self.all.iter().map(|group| &group.config);
        if known.eq(changed.iter().map(|group| &group.config)) {
            for (group, changed) in self.all.iter_mut().zip(changed) {
                if group.timer.interval() != changed.timer.interval() {
                    group.timer = changed.timer;
                }
            }
        } else {
            self.all = changed;
            self.rebuild_last_known();
        }
    }

    pub(crate) fn timers(&self) -> impl Iterator<Item = &Timer> {
        self.all.iter().map(|group| &group.timer)
    }

    pub(crate) fn timers_mut(&mut self) -> Vec<&mut Timer> {
        self.all.iter_mut().map(|group| &mut group.timer).collect()
    }

    pub(crate) fn due(&self) -> BTreeSet<GroupId> {
        let due = self.all.iter().filter(|group| group.timer.is_due());
        due.map(|group| group.id).collect()
    }

    pub(crate) fn ids(&self) -> BTreeSet<GroupId> {
        self.all.iter().map(|group| group.id).collect()
    }

    pub(crate) fn status(&self) -> Vec<GroupStatus> {
        self.all.iter().map(GroupState::status).collect()
    }

    /// Logs once for each group how many bytes a day of records needs.
    pub(crate) fn log_estimates(&mut self) {
        self.all.iter_mut().for_each(GroupState::log_estimate);
    }

    /// Returns the groups that need source number `source`.
    pub(crate) fn that_need(&self, source: usize) -> impl Iterator<Item = GroupId> {
        self.all.iter().filter(move |group| group.needs(source)).map(|group| group.id)
    }

    /// Applies other shares of the values of `sources`.
    pub(super) fn set_shares(
        &mut self,
        mut shares: GroupShapes,
        sources: usize,
        retired: &mut RetiredObjects,
    ) {
        let mut gone = false;
        for group in &mut self.all {
            let share = shares.remove(&group.id).unwrap_or_default();
            gone |= group.set_share(share, sources, retired);
        }
        let orphans = (0..sources).filter(|source| self.that_need(*source).next().is_none());
        let orphans: Vec<usize> = orphans.collect();
        let default = self.all.iter_mut().filter(|group| group.id == GroupId::Default);
        default.for_each(|group| orphans.iter().for_each(|source| group.adopt(*source)));
        if gone {
            self.rebuild_last_known();
        }
    }

    /// Notes that the records of these sources need another shape, since other values are present
    /// or strings have other lengths.
    pub(crate) fn reshape(&mut self, sources: &[usize]) {
        for group in &mut self.all {
            if sources.iter().any(|source| group.needs(*source)) {
                group.drop_recorder();
            }
        }
    }

    /// Adds the sources with values of the same metrics, which belong into the same records.
    pub(crate) fn add_joined(&self, sources: &mut BTreeSet<usize>) {
        self.all.iter().for_each(|group| group.add_joined(sources));
    }

    /// Returns what the due groups log of these values.
    pub(crate) fn log(
        &mut self,
        now: Moment,
        due: &DueGroups,
        values: &[Option<&Values>],
        queue: &mut QueueSender,
    ) -> LoggedTick {
        let Self { all, .. } = self;
        queue.collect(|template| all.iter().any(|group| group.template() == Some(template)));
        let mut logged = LoggedTick::default();
        let mut differs = false;
        let is_partial = due.last_values.is_some();
        for group in all.iter_mut().filter(|group| due.groups.contains(&group.id)) {
            differs |= group.on_change.observe(values, is_partial, &mut logged.changes);
            let record = if is_partial {
                group.record_some(now.wall, values, queue)
            } else {
                group.record(now.wall, values, queue)
            };
            if let Some((record, count)) = record {
                logged.records.push(record);
                logged.values += count as u64;
            }
        }
        if differs {
            self.rebuild_last_known();
        }
        logged
    }

    /// Returns the last-known values of everything that is logged once or on change.
    pub(crate) fn last_known(&self) -> LastKnownValues {
        Arc::clone(&self.last_known)
    }

    fn rebuild_last_known(&mut self) {
        let all = self.all.iter().flat_map(|group| group.on_change.last_known());
        self.last_known = Arc::new(all.cloned().collect());
    }
}

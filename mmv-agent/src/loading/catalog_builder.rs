//! Builds the catalog of all sources, and keeps it until a source changes.
//!
//! Input: the sources. Output: the catalog and the shape of all values. What is left out is logged
//! once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tracing::warn;

use super::reporter::Reporter;
use super::sources::Sources;
use crate::config::{ReloadableSettings, Settings};
use crate::host::Host;
use crate::metadata::{
    Catalog, Conflict, DescriptorChanges, KeyOwner, MergedCatalog, NameOwners, Owners, merge,
};
use crate::moment::Moment;
use crate::telemetry::{SourceStatus, events};

/// Minimum time for which metrics with too many descriptor changes are left out.
const LEFT_OUT: Duration = Duration::from_secs(60);

/// The catalog, and what was left out of it.
#[derive(Debug)]
pub(crate) struct CatalogBuilder {
    host: Host,
    catalog: Arc<Catalog>,
    /// Set when settings have changed since the catalog was built.
    outdated: bool,
    names: NameOwners,
    changes: DescriptorChanges,
    /// Day of the archive, counted from 1970.
    day: Option<i64>,
    /// Next attempt to log metrics that were left out because of their new descriptors.
    retry: Option<Duration>,
    /// Conflicts by file, as they were logged.
    conflicts: BTreeMap<String, Vec<String>>,
    unlisted: usize,
    /// True if events have 64-bit times.
    have_long_times: bool,
}

impl CatalogBuilder {
    /// Creates a builder with an empty catalog and the name owners of an earlier run. If events
    /// are logged, the catalog is outdated: they need their descriptors even without files.
    pub(crate) fn new(host: Host, settings: &Settings, names: BTreeMap<String, KeyOwner>) -> Self {
        let mut names = NameOwners::restore(names);
        let Settings { fixed, reloadable, .. } = settings;
        names.change(reloadable.pins.clone(), reloadable.release_names_after);
        Self {
            host,
            catalog: Arc::default(),
            outdated: fixed.events,
            names,
            changes: DescriptorChanges::default(),
            day: None,
            retry: None,
            conflicts: BTreeMap::new(),
            unlisted: 0,
            have_long_times: false,
        }
    }

    /// Applies settings: labels of the host, pinned names, groups.
    pub(crate) fn change(&mut self, settings: &ReloadableSettings) {
        self.host.labels.clone_from(&settings.labels);
        self.names.change(settings.pins.clone(), settings.release_names_after);
        self.outdated = true;
    }

    pub(crate) fn invalidate(&mut self) {
        self.outdated = true;
    }

    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.catalog)
    }

    /// Adds the name owners to the state for the next run.
    pub(crate) fn owners(&self, others: Owners) -> Owners {
        Owners { names: self.names.remember(), ..others }
    }

    /// Adds to the status of files what is left out of them.
    pub(crate) fn complete(&self, files: &mut [SourceStatus]) {
        for file in files {
            file.left_out.extend(self.conflicts.get(&file.file).into_iter().flatten().cloned());
        }
    }

    /// Begins a tick. Each day has an archive of its own.
    pub(crate) fn begin(&mut self, now: Moment) {
        self.names.set_now(now.monotonic);
        if self.day.replace(now.day()) != Some(now.day()) {
            self.changes.forget();
        }
        let have_long_times = events::have_long_times(now.wall);
        self.outdated |= self.have_long_times != have_long_times;
        self.have_long_times = have_long_times;
    }

    /// Returns true if the catalog must be built again though no source has changed.
    pub(crate) fn take_outdated(&mut self, now: Duration) -> bool {
        let retry = self.retry.take_if(|due| *due <= now).is_some();
        std::mem::take(&mut self.outdated) || retry
    }

    pub(crate) fn merge(
        &mut self,
        sources: &Sources,
        now: Duration,
        reporter: &mut Reporter,
    ) -> MergedCatalog {
        let id = self.catalog.id + 1;
        let members = sources.members();
        let mut merged = merge(id, &members, &self.host, events::names(), &mut self.names);
        let before = std::mem::take(&mut self.conflicts);
        for (file, conflict) in std::mem::take(&mut merged.conflicts) {
            let reason = conflict.to_string();
            let known = before.get(&file);
            if known.is_none_or(|known| !known.contains(&reason)) {
                // One event for each file.
                let foreign = matches!(conflict, Conflict::Owner(_));
                reporter.left_out(&file, &reason, foreign && !self.conflicts.contains_key(&file));
            }
            self.conflicts.entry(file).or_default().push(reason);
        }
        if merged.unlisted > self.unlisted && reporter.may_log("".as_ref()) {
            warn!(more = merged.unlisted, "more entries are left out");
        }
        self.unlisted = merged.unlisted;
        let out = self.changes.filter(&mut merged, |source| sources.owner(source), now);
        if let Some(first) = out.first() {
            if self.retry.is_none() {
                warn!(
                    %first, metrics = out.len(),
                    "left out: type, units or semantics change too often; each change begins an archive"
                );
            }
            self.retry = Some(now + LEFT_OUT);
        }
        merged
    }

    /// Installs a merged catalog, completed by the metrics of events if they are `logged`.
    pub(crate) fn set(&mut self, mut catalog: Catalog, logged: bool) -> Arc<Catalog> {
        if logged {
            events::declare(&mut catalog, self.have_long_times);
        }
        catalog.note_births(&self.catalog);
        self.catalog = Arc::new(catalog);
        self.catalog()
    }
}

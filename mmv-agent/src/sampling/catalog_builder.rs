//! Builds the catalog of all sources, and keeps it while they stay as they are.
//!
//! In come the sources; out go the catalog and the shape of all values. What has to be
//! left out is logged once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tracing::warn;

use super::reporter::Reporter;
use super::sources::Sources;
use crate::host::Host;
use crate::metadata::{Catalog, Conflict, DescriptorChanges, Merged, merge};
use crate::moment::Moment;
use crate::telemetry::events;

/// How long metrics whose descriptors change too often are left out at least.
const LEFT_OUT: Duration = Duration::from_secs(60);

/// The catalog and what was left out of it.
#[derive(Debug)]
pub(crate) struct CatalogBuilder {
    host: Host,
    catalog: Arc<Catalog>,
    /// The catalog is that of other settings.
    outdated: bool,
    changes: DescriptorChanges,
    /// The day of the archive, counted from 1970.
    day: Option<i64>,
    /// When metrics that were left out because of their new descriptors are looked at
    /// again.
    retry: Option<Duration>,
    /// The conflicts that were logged.
    conflicts: Vec<(String, Conflict)>,
    unlisted: usize,
}

impl CatalogBuilder {
    /// A builder with an empty catalog, which is `outdated` if events are logged: they
    /// need their descriptors even if there is no file.
    pub(crate) fn new(host: Host, outdated: bool) -> Self {
        Self {
            host,
            catalog: Arc::default(),
            outdated,
            changes: DescriptorChanges::default(),
            day: None,
            retry: None,
            conflicts: Vec::new(),
            unlisted: 0,
        }
    }

    /// Takes other labels of the host, or other groups.
    pub(crate) fn change(&mut self, labels: BTreeMap<String, String>) {
        self.host.labels = labels;
        self.outdated = true;
    }

    /// The catalog as it was last built.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.catalog)
    }

    /// Begins a tick: each day has an archive of its own.
    pub(crate) fn begin(&mut self, now: Moment) {
        if self.day.replace(now.day()) != Some(now.day()) {
            self.changes.forget();
        }
    }

    /// Whether the catalog has to be built again though no source has changed.
    pub(crate) fn take_outdated(&mut self, now: Duration) -> bool {
        let retry = self.retry.take_if(|due| *due <= now).is_some();
        std::mem::take(&mut self.outdated) || retry
    }

    /// Merges the metadata of all sources.
    pub(crate) fn merge(
        &mut self,
        sources: &Sources,
        now: Duration,
        reporter: &mut Reporter,
    ) -> Merged {
        let (id, members) = (self.catalog.id + 1, sources.members());
        let mut merged = merge(id, &members, &self.host, events::names());
        for (file, conflict) in &merged.conflicts {
            let is_new = !self.conflicts.iter().any(|(_, known)| known == conflict);
            if is_new && reporter.may_log() {
                warn!(%file, reason = %conflict, "left out");
            }
        }
        if merged.unlisted > self.unlisted && reporter.may_log() {
            warn!(more = merged.unlisted, "more entries are left out");
        }
        self.unlisted = merged.unlisted;
        self.conflicts = std::mem::take(&mut merged.conflicts);
        let out = self.changes.filter(&mut merged, |source| sources.owner(source), now);
        if let Some(first) = out.first() {
            if self.retry.is_none() {
                warn!(%first, metrics = out.len(), "left out: descriptors change too often");
            }
            self.retry = Some(now + LEFT_OUT);
        }
        merged
    }

    /// Takes a merged catalog, completed by the metrics of events if they are `logged`.
    pub(crate) fn set(&mut self, mut catalog: Catalog, logged: bool) -> Arc<Catalog> {
        if logged {
            events::declare(&mut catalog);
        }
        self.catalog = Arc::new(catalog);
        self.catalog()
    }
}

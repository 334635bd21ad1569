//! Ends the runs of programs according to the agent's events.
//!
//! The record with an event comes before those with the values of the same time, of which
//! there is one for each group of metrics. So a run ends at the first record after the event that
//! has the program's metrics, or at the first record with a later time.

use hashbrown::HashSet;
use pcp_archive::internal::programs::{Boundary, ProgramEvent, events_metric};
use pcp_archive::raw::Record;
use pcp_archive::{Pmid, Timestamp};

use super::catalog::{Catalog, Output};

/// Boundaries that later records have to pass.
#[derive(Debug, Default)]
pub(super) struct Runs(Vec<PendingEvents>);

#[derive(Debug)]
struct PendingEvents {
    boundary: Boundary,
    /// The metrics of the program that have not passed the boundary.
    metrics: Vec<Pmid>,
    /// The time of the record with the event.
    logged: Timestamp,
}

impl Runs {
    /// Ends runs at the boundaries that a record passes, and adds those of its events.
    pub(super) fn pass(&mut self, record: &Record<'_>, catalog: &mut Catalog, output: &mut Output) {
        let at = record.timestamp();
        if !self.0.is_empty() {
            let has: HashSet<Pmid> = record.value_sets().map(|set| set.pmid()).collect();
            for pending in self.0.iter_mut().filter(|pending| pending.boundary.at <= at) {
                let is_over = at > pending.logged;
                let metrics = std::mem::take(&mut pending.metrics);
                let (passed, rest): (Vec<Pmid>, Vec<Pmid>) =
                    metrics.into_iter().partition(|pmid| is_over || has.contains(pmid));
                catalog.end_run(&passed, pending.boundary, output);
                pending.metrics = rest;
            }
            self.0.retain(|pending| !pending.metrics.is_empty());
        }
        self.add(record, catalog);
    }

    fn add(&mut self, record: &Record<'_>, catalog: &Catalog) {
        for set in record.value_sets().filter(|set| set.pmid() == events_metric()) {
            let Some((_, desc)) = catalog.metric(set.pmid()) else { continue };
            for (_, value) in set.values(desc.value_type).filter_map(std::result::Result::ok) {
                for event in ProgramEvent::all(value) {
                    let Some(boundary) = event.boundary() else { continue };
                    let metrics = catalog.metrics_of(&event);
                    let logged = record.timestamp();
                    self.0.push(PendingEvents { boundary, metrics, logged });
                }
            }
        }
        self.0.sort_by_key(|pending| pending.boundary.at);
    }
}

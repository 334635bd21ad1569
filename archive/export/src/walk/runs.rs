//! Where the agent's events say that runs of programs end and begin.
//!
//! The record with an event comes before those with the values of the same time, of which
//! there is one for each group of metrics. So a run ends where the first record after the
//! event has the program's metrics, or else with the first later time.

use hashbrown::HashSet;
use pcp_archive::programs::{Boundary, ProgramEvent, events_metric};
use pcp_archive::{Pmid, Record, Timestamp};

use super::catalog::{Catalog, Output};

/// Boundaries that no record has passed.
#[derive(Debug, Default)]
pub(super) struct Runs(Vec<Pending>);

#[derive(Debug)]
struct Pending {
    boundary: Boundary,
    /// The metrics of the program that were not seen since.
    metrics: Vec<Pmid>,
    /// The time of the record with the event.
    logged: Timestamp,
}

impl Runs {
    /// Takes the events of a record, and ends the runs that its values are not of.
    pub(super) fn pass(&mut self, record: &Record<'_>, catalog: &mut Catalog, output: &mut Output) {
        let at = record.timestamp();
        if !self.0.is_empty() {
            let has: HashSet<Pmid> = record.value_sets().map(|set| set.pmid()).collect();
            for pending in self.0.iter_mut().filter(|pending| pending.boundary.at <= at) {
                let is_over = at > pending.logged;
                let is_passed = |pmid: &Pmid| is_over || has.contains(pmid);
                let passed: Vec<Pmid> = pending.metrics.iter().copied().filter(is_passed).collect();
                catalog.end_run(&passed, pending.boundary, output);
                pending.metrics.retain(|pmid| !is_passed(pmid));
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
                    let (metrics, logged) = (catalog.metrics_of(&event), record.timestamp());
                    self.0.push(Pending { boundary, metrics, logged });
                }
            }
        }
        self.0.sort_by_key(|pending| pending.boundary.at);
    }
}

//! Reports the ends and restarts of programs while they are followed.

use std::collections::BTreeMap;

use hashbrown::HashSet;
use pcp_archive::follow::{FollowedRecord, Follower};
use pcp_archive::internal::programs::{ProgramEvent, events_metric, for_each_event};
use pcp_archive::{Archive, Metadata, Pmid, Source, Timestamp, Value};

use super::view::Choice;
use crate::Failure;
use crate::text::{shown, warn};
use crate::time::Zone;

/// Events after which a program has no values until it starts again.
const END_EVENTS: [&str; 3] = ["ended", "vanished", "removed"];

/// The programs that have ended and not started again, by the names of their files.
#[derive(Debug, Default)]
pub(super) struct EndedPrograms {
    ended: HashSet<String>,
}

impl EndedPrograms {
    /// Finds the programs that had ended before a time, and warns of those that are named, or of all
    /// if all have ended.
    ///
    /// # Errors
    ///
    /// Those of the reader.
    pub(super) fn before(
        first: Timestamp,
        follower: &Follower,
        choice: &Choice<'_>,
        zone: &Zone,
    ) -> Result<Self, Failure> {
        let archive = match Archive::open(follower.base()) {
            Err(pcp_archive::Error::NoData { .. }) => return Ok(Self::default()),
            archive => archive?,
        };
        let metrics = shown_metrics(choice, archive.metadata());
        let mut ends: BTreeMap<String, Option<(Timestamp, bool)>> = BTreeMap::new();
        for_each_event(Source::from(&archive), archive.label().start..=first, |event| {
            let Some(file) = event.file else { return };
            // Events of the first record are reported when it is shown.
            let is_earlier = event.at < first;
            if !is_earlier || !metrics.iter().any(|(name, pmid)| event.concerns(name, *pmid)) {
                return;
            }
            if END_EVENTS.contains(&event.kind) {
                let is_alone = is_of_any(event, &metrics);
                // The file is removed after the process has ended.
                let end = ends.entry(file.to_owned()).or_default();
                end.get_or_insert((event.at, is_alone && !choice.names.is_empty()));
            } else if event.boundary().is_some() {
                ends.insert(file.to_owned(), None);
            }
        })?;
        let have_all_ended = ends.values().all(Option::is_some);
        let mut ended = HashSet::new();
        for (file, end) in ends {
            let Some((at, is_named)) = end else { continue };
            if is_named || have_all_ended {
                warn_of_end(&file, at, zone);
            }
            ended.insert(file);
        }
        Ok(Self { ended })
    }

    /// Reports the ends and starts in a record, of programs whose metrics are shown.
    pub(super) fn note(&mut self, followed: &FollowedRecord<'_>, choice: &Choice<'_>, zone: &Zone) {
        let metrics = shown_metrics(choice, followed.metadata);
        for event in events(followed) {
            let Some(file) = event.file.filter(|_| is_of_any(&event, &metrics)) else { continue };
            if END_EVENTS.contains(&event.kind) {
                if self.ended.insert(file.to_owned()) {
                    warn_of_end(file, event.at, zone);
                }
            } else if event.boundary().is_some() {
                let had_ended = self.ended.remove(file);
                if had_ended || event.kind == "restarted" {
                    let at = zone.date_time(event.at);
                    let pid = event.pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default();
                    warn(&format_args!("{} started again at {at}{pid}", shown(file)));
                }
            }
        }
    }
}

fn warn_of_end(file: &str, at: Timestamp, zone: &Zone) {
    let at = zone.date_time(at);
    warn(&format_args!("{} ended at {at}; waiting until it starts again", shown(file)));
}

fn shown_metrics<'m>(choice: &Choice<'_>, metadata: &'m Metadata) -> Vec<(&'m str, Pmid)> {
    let names = metadata.subtree("").filter(|(name, _)| choice.selects(name));
    names.map(|(name, metric)| (name, metric.desc.pmid)).collect()
}

fn is_of_any(event: &ProgramEvent<'_>, metrics: &[(&str, Pmid)]) -> bool {
    metrics.iter().any(|(name, pmid)| event.is_of(name, *pmid))
}

/// Returns whether a record has events.
pub(super) fn has_events(followed: &FollowedRecord<'_>) -> bool {
    followed.record.value_sets().any(|set| set.pmid() == events_metric() && !set.is_empty())
}

/// Returns the events in a record.
fn events<'f>(followed: &FollowedRecord<'f>) -> Vec<ProgramEvent<'f>> {
    let mut all = Vec::new();
    for set in followed.record.value_sets() {
        if set.pmid() != events_metric() {
            continue;
        }
        let Some(metric) = followed.metadata.metric(set.pmid()) else { continue };
        // A value of another type is an error where the metric is shown.
        let values = set.values(metric.desc.value_type).filter_map(Result::ok);
        all.extend(values.flat_map(|(_, value): (_, Value<'f>)| ProgramEvent::all(value)));
    }
    all
}

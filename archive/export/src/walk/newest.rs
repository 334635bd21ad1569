//! The records of an archive on which the newest values depend.
//!
//! A record has either all values of a metric at its time or none, so the newest record with a
//! metric has its newest values. Marks and the agent's events are needed as well, since they end
//! series.

use std::collections::VecDeque;

use hashbrown::HashMap;
use pcp_archive::follow::Follower;
use pcp_archive::internal::programs::events_metric;
use pcp_archive::{Pmid, Result};

/// The volume of a record, and its offset.
pub(super) type RecordPlace = (u32, u64);

/// Returns the records of an archive with the newest values of any metric, marks or events, in
/// order. The position of the follower does not change.
///
/// # Errors
///
/// Those of the follower.
pub(super) fn newest_records(follower: &mut Follower) -> Result<VecDeque<RecordPlace>> {
    let (volume, offset) = follower.place();
    let mut newest: HashMap<Pmid, RecordPlace> = HashMap::new();
    let mut chosen = Vec::new();
    let read = loop {
        let record = match follower.next() {
            Ok(Some(next)) => next.record,
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        };
        let place = (record.volume(), record.offset());
        let mut is_chosen = record.is_mark();
        for set in record.value_sets() {
            is_chosen |= set.pmid() == events_metric();
            newest.insert(set.pmid(), place);
        }
        if is_chosen {
            chosen.push(place);
        }
    };
    follower.move_to(volume, offset)?;
    read?;
    chosen.extend(newest.into_values());
    chosen.sort_unstable();
    chosen.dedup();
    Ok(chosen.into())
}

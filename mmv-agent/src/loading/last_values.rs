//! Last values that are read before their turn.
//!
//! A program that restarts within an interval gives the name of its file to another file, and both
//! cannot be harvested under one name. So the sampler is asked to read the old file at once, and
//! the new one waits for that. Each reading makes a record, so their rate is limited by user.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::time::Duration;

use super::loaded_source::LoadedSource;
use crate::limits::FairRate;

/// Limits on the records of one user: at once, and each second afterwards.
const BURST: f64 = 10.0;
const PER_SECOND: f64 = 1.0;

/// Longest time that a new file waits for the last values of the file before it.
const LONGEST_WAIT: Duration = Duration::from_millis(200);

/// A request to the sampler to read the last values of files at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LastValuesRequest {
    /// The owner of the files, who is charged for the record.
    pub(crate) user: u32,
    pub(crate) files: BTreeSet<OsString>,
}

/// The requests that are to be sent, within the rate limit.
#[derive(Debug)]
pub(super) struct LastValues {
    rate: FairRate,
    /// Files by user.
    requested: BTreeMap<u32, BTreeSet<OsString>>,
}

impl LastValues {
    pub(super) fn new() -> Self {
        Self { rate: FairRate::new(BURST, PER_SECOND), requested: BTreeMap::new() }
    }

    /// Requests the last values of a departed source, unless that was done before. Returns false
    /// if they are not to be expected.
    pub(super) fn request(&mut self, departed: &mut LoadedSource, now: Duration) -> bool {
        if let Some(requested) = departed.last_values_requested {
            return now < requested + LONGEST_WAIT;
        }
        let owner = departed.source.owner;
        if !self.requested.contains_key(&owner) && !self.rate.try_take(owner, now) {
            return false;
        }
        departed.last_values_requested = Some(now);
        self.requested.entry(owner).or_default().insert(departed.name.clone());
        true
    }

    /// Returns the requests since the last call.
    pub(super) fn take_requests(&mut self) -> impl Iterator<Item = LastValuesRequest> + use<> {
        let requested = std::mem::take(&mut self.requested).into_iter();
        requested.map(|(user, files)| LastValuesRequest { user, files })
    }
}

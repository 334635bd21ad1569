//! State that is handed from run to run.

use super::sources::Sources;
use crate::housekeeping::{KnownFile, LatestLoaderState, LoaderState, Task};
use crate::moment::Moment;
use crate::telemetry::SharedStatus;

#[derive(Debug)]
pub(crate) struct Continuity {
    /// Files that an earlier run harvested, until they are compared with those of this run.
    earlier: Option<Vec<KnownFile>>,
    /// Day, counted from 1970, on which the state was last saved; `None` if it has changed since.
    saved: Option<i64>,
    latest: LatestLoaderState,
}

impl Continuity {
    pub(crate) fn new(earlier: Vec<KnownFile>) -> Self {
        Self { earlier: Some(earlier), saved: None, latest: LatestLoaderState::default() }
    }

    /// Returns true if a file was replaced while no agent ran; `None` if that was reported.
    pub(crate) fn was_replaced(&mut self, sources: &Sources) -> Option<bool> {
        let earlier = self.earlier.take()?;
        let now = sources.harvested(None);
        Some(earlier.iter().any(|file| !now.contains(file)))
    }

    /// Notes that the state has changed.
    pub(crate) fn invalidate(&mut self) {
        self.saved = None;
    }

    /// Updates the saved state if it has changed, and once a day; `complete` adds what other parts
    /// remember. Returns the task to save it, unless one is pending.
    pub(crate) fn save(
        &mut self,
        now: Moment,
        sources: &mut Sources,
        complete: impl FnOnce(LoaderState) -> LoaderState,
        shared: &SharedStatus,
    ) -> Option<Task> {
        if self.saved.replace(now.day()) == Some(now.day()) {
            return None;
        }
        let own = shared.own();
        let memory = sources.remember(now.wall.seconds(), shared.oldest(), own.file.as_deref());
        self.latest.put(complete(memory)).then(|| Task::Remember(self.latest.clone()))
    }
}

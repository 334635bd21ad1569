//! What one group has between ticks: which of its values go where.
//!
//! Everything constant is prepared and kept until it changes: the recorder while
//! the sources and their metadata stay and the same values are present.

use mmv_archive::Version;
use mmv_archive::prepared::RecordBuffer;
use pcp_types::Timestamp;
use tracing::error;

use crate::config::LogMode;
use crate::groups::Share;
use crate::harvest::Values;
use crate::queue::Outlet;
use crate::record::{Layout, Recorder};
use crate::seldom::{Changes, Seldom};

/// One group.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    layout: Layout,
    recorder: Option<Recorder>,
    /// Values and bytes of the last record.
    size: (usize, usize),
    seldom: Seldom,
    /// Which sources have values of it.
    sources: Vec<bool>,
    /// Somebody has asked for the size of its first record.
    sized: bool,
    /// That of the archives that its records are for.
    version: Version,
}

impl Lane {
    /// A lane of nothing yet, for archives of a version.
    pub(crate) fn new(version: Version) -> Self {
        Self { version, ..Self::default() }
    }

    /// Other sources, or other metadata. True if something that was logged
    /// seldom is gone.
    pub(crate) fn lay_out(&mut self, share: Share, log: LogMode, sources: usize) -> bool {
        self.sources = vec![false; sources];
        for set in share.every.iter().chain(&share.seldom) {
            for owner in &set.owners {
                if let Some(owned) = self.sources.get_mut(*owner) {
                    *owned = true;
                }
            }
        }
        self.layout = share.every;
        self.recorder = None;
        self.seldom.lay_out(share.seldom, log == LogMode::Once)
    }

    /// Whether source number `source` has values of it.
    pub(crate) fn needs(&self, source: usize) -> bool {
        self.sources.get(source).copied().unwrap_or(false)
    }

    /// Also reads a source of which it has no values: somebody must, or nobody
    /// would see it change.
    pub(crate) fn adopt(&mut self, source: usize) {
        if let Some(owned) = self.sources.get_mut(source) {
            *owned = true;
        }
    }

    /// Other values are present than at the last record.
    pub(crate) fn reshape(&mut self) {
        self.recorder = None;
    }

    /// The number of its template, if it has one.
    pub(crate) fn template(&self) -> Option<u64> {
        self.recorder.as_ref().map(Recorder::template_id)
    }

    /// How many values its last record had, and how many bytes it was.
    pub(crate) fn size(&self) -> (usize, usize) {
        self.size
    }

    /// The same of its first record, once.
    pub(crate) fn first_size(&mut self) -> Option<(usize, usize)> {
        let first = !self.sized && self.size != (0, 0);
        self.sized |= first;
        first.then_some(self.size)
    }

    /// What is logged seldom.
    pub(crate) fn seldom(&self) -> &Seldom {
        &self.seldom
    }

    /// Notes what has changed of what is logged seldom; true if anything has.
    pub(crate) fn look(&mut self, values: &[Option<&Values>], changes: &mut Changes) -> bool {
        self.seldom.look(values, changes)
    }

    /// The record of these values, and how many they are; `None` if there are
    /// none.
    pub(crate) fn record(
        &mut self,
        stamp: Timestamp,
        values: &[Option<&Values>],
        outlet: &mut Outlet,
    ) -> Option<(RecordBuffer, usize)> {
        self.size = (0, 0);
        let kept = self.recorder.take();
        let kept = kept.filter(|kept| kept.is_for(values, |source| self.needs(source)));
        let recorder = match kept {
            Some(recorder) => recorder,
            None => match Recorder::new(&self.layout, values, self.version) {
                Ok(recorder) => recorder?,
                Err(error) => {
                    error!(%error, "this sample cannot be recorded");
                    return None;
                }
            },
        };
        let spare = outlet.spare(recorder.template_id());
        let mut record = spare.unwrap_or_else(|| recorder.new_buffer());
        let fits = recorder.record(stamp, values, &mut record);
        debug_assert!(fits, "a string changed its length without being noticed");
        let count = recorder.values();
        self.size = (count, recorder.bytes());
        self.recorder = Some(recorder);
        fits.then_some((record, count))
    }
}

//! Series: the values of one metric and instance over time.

use std::sync::Arc;

use pcp_archive::{InstanceId, Pmid};

use crate::mapping::{Label, Role};
use crate::shared_values::{SharedValues, fit};

/// A series while it lasts. Numbers are used again for later series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeriesId(pub(super) u32);

impl SeriesId {
    /// The number, for tables beside the catalog: the least that is free.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What is the same for all values of a series.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// The metric.
    pub pmid: Pmid,
    /// What the metric is in the mapping; never left out.
    pub role: Role,
    /// The number of the instance in records; `None` of a metric without instances.
    pub instance: Option<InstanceId>,
    /// The identity of the instance, which its name has at all times
    /// ([`IndomHistory::by_identity`](pcp_archive::IndomHistory::by_identity)).
    pub identity: Option<InstanceId>,
    /// The instance's name, if the archive has it.
    pub instance_name: Option<Arc<str>>,
    /// The labels that receivers see, sorted by name. Those of a bucket have the bucket's
    /// instance in them, not the histogram's.
    pub labels: Arc<[Label]>,
    /// When the program of the metric began to count from 0, nanoseconds since 1970 UTC, if
    /// the archive says so.
    pub start: Option<i64>,
    /// Distinguishes the series that have the same [`SeriesId`] one after the other.
    pub generation: u64,
}

/// The series there are, by number.
#[derive(Debug, Default)]
pub(super) struct SeriesTable {
    all: Vec<Option<Series>>,
    free: Vec<SeriesId>,
    /// Of the series that was added last.
    generation: u64,
    labels: SharedValues<[Label]>,
    names: SharedValues<str>,
}

impl SeriesTable {
    pub(super) fn add(&mut self, mut series: Series) -> SeriesId {
        self.generation += 1;
        series.generation = self.generation;
        series.labels = self.labels.share(series.labels);
        series.instance_name = series.instance_name.map(|name| self.names.share(name));
        let id = self.free.pop().unwrap_or_else(|| {
            self.all.push(None);
            // More than 2^32 of them do not fit into memory.
            SeriesId(u32::try_from(self.all.len() - 1).unwrap_or(u32::MAX))
        });
        if let Some(place) = self.all.get_mut(id.index()) {
            *place = Some(series);
        }
        id
    }

    pub(super) fn remove(&mut self, id: SeriesId) {
        if let Some(place) = self.all.get_mut(id.index())
            && place.take().is_some()
        {
            self.free.push(id);
        }
    }

    pub(super) fn get(&self, id: SeriesId) -> Option<&Series> {
        self.all.get(id.index())?.as_ref()
    }

    pub(super) fn get_mut(&mut self, id: SeriesId) -> Option<&mut Series> {
        self.all.get_mut(id.index())?.as_mut()
    }

    pub(super) fn clear(&mut self) {
        self.all.clear();
        self.free.clear();
    }

    /// Gives memory back that it does not need.
    pub(super) fn fit(&mut self) {
        fit(&mut self.all);
    }
}

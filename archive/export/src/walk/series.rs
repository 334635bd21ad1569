//! Series: the values of one metric and instance over time.

use std::sync::Arc;

use pcp_archive::{InstanceId, Pmid};
use slab::Slab;

use crate::mapping::{Label, Role};
use crate::shared_values::SharedValues;

/// The number of a series until its end. Numbers of ended series are reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeriesId(pub(super) u32);

impl SeriesId {
    /// Returns the number as an index for tables of the caller.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The properties that all values of a series share.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// The number of the metric.
    pub pmid: Pmid,
    /// The role of the metric in the mapping, which is not [`Role::LeftOut`].
    pub role: Role,
    /// The number of the instance in records; `None` of a metric without instances.
    pub instance: Option<InstanceId>,
    /// The identity of the instance, which its name has at all times
    /// ([`IndomHistory::by_identity`](pcp_archive::raw::IndomHistory::by_identity)).
    pub identity: Option<InstanceId>,
    /// The instance's name, if the archive has it.
    pub instance_name: Option<Arc<str>>,
    /// The labels that receivers see, sorted by name. Those of a bucket include the bucket's
    /// instance, not the histogram's.
    pub labels: Arc<[Label]>,
    /// The time at which the program began to count from 0, in nanoseconds since 1970 UTC, if
    /// known.
    pub start: Option<i64>,
    /// Distinguishes successive series with the same [`SeriesId`].
    pub generation: u64,
}

#[derive(Debug, Default)]
pub(super) struct SeriesTable {
    all: Slab<Series>,
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
        // More than 2^32 of them do not fit into memory.
        SeriesId(u32::try_from(self.all.insert(series)).unwrap_or(u32::MAX))
    }

    pub(super) fn remove(&mut self, id: SeriesId) {
        self.all.try_remove(id.index());
    }

    pub(super) fn get(&self, id: SeriesId) -> Option<&Series> {
        self.all.get(id.index())
    }

    pub(super) fn get_mut(&mut self, id: SeriesId) -> Option<&mut Series> {
        self.all.get_mut(id.index())
    }

    pub(super) fn clear(&mut self) {
        self.all.clear();
    }

    /// Releases spare memory.
    pub(super) fn shrink_to_fit(&mut self) {
        self.all.shrink_to_fit();
    }
}

//! The handles of a metric with instances.

use std::sync::Arc;

use pcp_types::InstanceId;

use super::Members;

/// One handle for each instance of a domain, in the domain's order.
#[derive(Debug, Clone)]
#[must_use]
pub struct Instances<H> {
    members: Arc<Members>,
    handles: Vec<H>,
}

impl<H> Instances<H> {
    /// Takes handles in the order of `members`.
    pub(crate) fn new(members: Arc<Members>, handles: Vec<H>) -> Self {
        Self { members, handles }
    }

    /// Returns the number of instances.
    pub fn len(&self) -> usize {
        self.handles.len()
    }

    /// Returns whether the domain is empty.
    pub fn is_empty(&self) -> bool {
        self.handles.is_empty()
    }

    /// Returns the handle at a position in the domain, from 0.
    pub fn get(&self, index: usize) -> Option<&H> {
        self.handles.get(index)
    }

    /// Returns the handle at a position, for owned handles.
    pub fn get_mut(&mut self, index: usize) -> Option<&mut H> {
        self.handles.get_mut(index)
    }

    /// Returns the handle of an instance by its name; `None` if the domain has no such instance.
    /// Uses a hash table, which the first look-up builds for all metrics on the domain. Keeping
    /// the handle is faster still.
    pub fn by_name(&self, name: &str) -> Option<&H> {
        self.get(self.members.position_of(name)?)
    }

    /// Returns the handle of an instance by its number, as fast as by name.
    pub fn by_id(&self, id: InstanceId) -> Option<&H> {
        self.get(self.members.position_of_id(id)?)
    }

    /// Returns all handles, in the domain's order.
    pub fn iter(&self) -> std::slice::Iter<'_, H> {
        self.handles.iter()
    }
}

impl<H> IntoIterator for Instances<H> {
    type Item = H;
    type IntoIter = std::vec::IntoIter<H>;

    fn into_iter(self) -> Self::IntoIter {
        self.handles.into_iter()
    }
}

impl<'a, H> IntoIterator for &'a Instances<H> {
    type Item = &'a H;
    type IntoIter = std::slice::Iter<'a, H>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

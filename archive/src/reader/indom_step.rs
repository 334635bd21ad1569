//! One change of an instance domain: the whole domain, or the difference from the
//! state before.

use crate::{Instance, InstanceId, Timestamp};

/// From one state to the next.
#[derive(Debug, Clone)]
pub(crate) struct IndomStep {
    pub(crate) timestamp: Timestamp,
    pub(crate) change: InstanceChange,
}

/// Instances and numbers are sorted, each number once.
#[derive(Debug, Clone)]
pub(crate) enum InstanceChange {
    /// All instances, whatever was before.
    Whole(Box<[Instance]>),
    /// The instances that are new, and the numbers that are gone.
    Difference { added: Box<[Instance]>, removed: Box<[InstanceId]> },
}

impl InstanceChange {
    /// Returns the instances that it names.
    pub(super) fn named(&self) -> &[Instance] {
        match self {
            Self::Whole(instances) => instances,
            Self::Difference { added, .. } => added,
        }
    }

    pub(super) fn name(&self, id: InstanceId) -> Option<&str> {
        find(self.named(), id).map(|instance| &*instance.name)
    }
}

pub(super) fn find(instances: &[Instance], id: InstanceId) -> Option<&Instance> {
    let at = instances.binary_search_by_key(&id, |instance| instance.id).ok()?;
    instances.get(at)
}

//! Instance domains: whether differences fit what they change.

use hashbrown::{HashMap, HashSet};

use super::Defect;
use crate::format::IndomRecordKind;
use crate::format::indom::BorrowedIndomRecord;
use crate::{InDom, InstanceId};

/// The instances of all domains after the records so far.
#[derive(Default)]
pub(super) struct Domains {
    known: HashMap<InDom, HashSet<InstanceId>>,
}

impl Domains {
    pub(super) fn check(&mut self, record: &BorrowedIndomRecord<'_>, add: &mut impl FnMut(Defect)) {
        let indom = record.indom;
        let mut seen = HashSet::new();
        for id in record.entries().map(|(id, _)| id) {
            if !seen.insert(id) {
                add(Defect::InstanceRepeated { indom, id });
            }
        }
        if record.kind == IndomRecordKind::Full {
            if seen.is_empty() {
                add(Defect::IndomEmpty { indom });
            } else {
                self.known.insert(indom, seen);
            }
            return;
        }
        if !self.known.contains_key(&indom) {
            add(Defect::DeltaFirst { indom });
            let added = record.entries().filter(|(_, name)| name.is_some());
            self.known.insert(indom, added.map(|(id, _)| id).collect());
            return;
        }
        let instances = self.known.entry(indom).or_default();
        for (id, name) in record.entries() {
            if name.is_some() && !instances.insert(id) {
                add(Defect::DeltaKnown { indom, id });
            } else if name.is_none() && !instances.remove(&id) {
                add(Defect::DeltaUnknown { indom, id });
            }
        }
    }
}

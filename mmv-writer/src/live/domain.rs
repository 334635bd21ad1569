//! A live domain, in as many of the registry's files as have a metric on it.

use std::collections::{BTreeSet, HashMap};

use pcp_types::InstanceId;

use super::part::Wants;
use super::slots::Slots;
use crate::layout::{LABEL_INDOM, LABEL_INSTANCES};
use crate::registry::catalog::label_record;
use crate::registry::model::{Help, LabelRecord};
use crate::{Error, Label};

/// A domain and its instances.
///
/// An instance is in each file that has a value of it, under the same number.
#[derive(Debug)]
pub(super) struct Domain {
    pub(super) name: String,
    /// Asked for, or that in the first of its files.
    pub(super) serial: u32,
    pub(super) help: Help,
    pub(super) labels: Vec<Label>,
    /// The instances that are in each file, always; of a domain whose instances come
    /// and go, none.
    pub(super) stated: Vec<String>,
    /// Of those that are there.
    pub(super) instance_labels: HashMap<String, Vec<Label>>,
    /// Numbers are never used again.
    next_id: i32,
    /// By file.
    shown: Vec<Option<Shown>>,
}

/// A domain in one file.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) serial: u32,
    pub(super) slots: Slots,
}

impl Domain {
    pub(super) fn new(
        name: String,
        serial: u32,
        help: Help,
        labels: Vec<Label>,
        stated: Vec<String>,
    ) -> Self {
        let (instance_labels, shown) = (HashMap::new(), Vec::new());
        Self { name, serial, help, labels, stated, instance_labels, next_id: 0, shown }
    }

    /// The domain in a file.
    pub(super) fn shown(&self, part: usize) -> Option<&Shown> {
        self.shown.get(part)?.as_ref()
    }

    pub(super) fn shown_mut(&mut self, part: usize) -> Option<&mut Shown> {
        self.shown.get_mut(part)?.as_mut()
    }

    /// The domain in all files that have it, by their indexes.
    pub(super) fn all_shown(&mut self) -> impl Iterator<Item = (usize, &mut Shown)> {
        let all = self.shown.iter_mut().enumerate();
        all.filter_map(|(part, shown)| Some((part, shown.as_mut()?)))
    }

    /// Notes that a file has the domain, under this serial.
    pub(super) fn show(&mut self, part: usize, serial: u32) {
        if self.shown.len() <= part {
            self.shown.resize_with(part + 1, || None);
        }
        if let Some(shown) = self.shown.get_mut(part) {
            *shown = Some(Shown { serial, slots: Slots::default() });
        }
    }

    /// What a file needs to have the domain.
    pub(super) fn wants(&self) -> Wants {
        Wants::of_indom(self.stated.len(), self.labels.len())
    }

    /// Its labels, in a file where it has this serial.
    pub(super) fn label_records(&self, serial: u32) -> Result<Vec<LabelRecord>, Error> {
        let record = |label: &Label| label_record(LABEL_INDOM, serial, None, label.clone());
        self.labels.iter().map(record).collect()
    }

    /// The labels of an instance, in a file where the domain has this serial.
    pub(super) fn instance_label_records(
        &self,
        serial: u32,
        name: &str,
        id: i32,
    ) -> Result<Vec<LabelRecord>, Error> {
        let labels = self.instance_labels.get(name).into_iter().flatten();
        labels.map(|label| instance_label(serial, id, label.clone())).collect()
    }

    /// The number of an instance: that which it has in another file, or a new one.
    pub(super) fn id_for(&self, name: &str) -> Result<i32, Error> {
        let shown = self.shown.iter().flatten();
        let mut ids = shown.filter_map(|shown| shown.slots.by_name(name));
        let known = ids.next().map(|(_, slot)| slot.id);
        // The last number is not given out: the next would be none.
        let new = Some(self.next_id).filter(|id| *id < i32::MAX);
        known.or(new).ok_or_else(|| {
            let max = i32::MAX.cast_unsigned();
            Error::Full { what: "instance numbers", max, name: name.to_owned() }
        })
    }

    /// Notes that a number is in use.
    pub(super) fn take_id(&mut self, id: i32) {
        self.next_id = self.next_id.max(id.saturating_add(1));
    }

    /// The names of its instances, sorted.
    pub(super) fn names(&self) -> BTreeSet<&str> {
        self.shown.iter().flatten().flat_map(|shown| shown.slots.names()).collect()
    }

    /// How many instances there are.
    pub(super) fn len(&self) -> usize {
        let mut shown = self.shown.iter().flatten();
        match (shown.next(), shown.next()) {
            (Some(only), None) => only.slots.len(),
            _ => self.names().len(),
        }
    }
}

/// The label of an instance.
pub(super) fn instance_label(serial: u32, id: i32, label: Label) -> Result<LabelRecord, Error> {
    label_record(LABEL_INSTANCES, serial, InstanceId::new(id).ok(), label)
}

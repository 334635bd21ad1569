//! The numbers and labels that are taken in one file, and the checks of registrations: the same
//! for a file that is written once and for one that grows.
//!
//! Checks and changes are separate steps: a failure in between leaves no trace.

use std::ops::RangeInclusive;

use mmv_format::layout::{
    LABEL_CLUSTER, LABEL_INSTANCES, LABEL_ITEM, MAX_ITEM, MAX_LABELS, MAX_METRICS, MAX_SERIAL,
    Version,
};

use super::check;
use super::instance_number::item_of;
use super::need::{Need, ValueShape};
use super::record::{Help, LabelRecord, MetricRecord, MetricSpec, SerialChoice, version_for_name};
use crate::identity::{Absent, FileIdentity};
use crate::{Error, Label};

#[derive(Debug)]
pub(crate) struct FileNumbers {
    cluster: u32,
    absent: Absent,
    prefix: String,
    pinned: Option<Version>,
    /// True if items follow from names: other processes have the same metrics, in any order.
    items_from_names: bool,
    items: NumberAllocator,
    serials: NumberAllocator,
    labels: Vec<LabelRecord>,
}

/// Allocates numbers of at most twelve bits, each once.
#[derive(Debug, Default)]
struct NumberAllocator {
    /// True for each number that is taken.
    taken: Vec<bool>,
    count: usize,
    /// All numbers from 1 up to this one, exclusive, are taken.
    next: u32,
}

pub(crate) struct CheckedMetric {
    /// The name without the file's prefix.
    pub(crate) name: String,
    pub(crate) record: MetricRecord,
    pub(crate) labels: Vec<LabelRecord>,
    pub(crate) shape: ValueShape,
}

impl FileNumbers {
    pub(super) fn new(identity: &FileIdentity, pinned: Option<Version>) -> Self {
        Self {
            cluster: identity.cluster,
            absent: identity.absent,
            prefix: identity.prefix.clone(),
            pinned,
            items_from_names: identity.per_process,
            items: NumberAllocator::default(),
            serials: NumberAllocator::default(),
            labels: Vec::new(),
        }
    }

    /// Returns whether nothing is registered in the file except labels of the whole file.
    pub(super) fn is_empty(&self) -> bool {
        self.items.count == 0 && self.serials.count == 0
    }

    /// Returns whether a need is within the limits of readers.
    pub(super) fn has_room(&self, need: &Need) -> bool {
        self.items.count + need.metrics <= MAX_METRICS as usize
            && self.serials.count + need.indoms <= MAX_SERIAL as usize
            && self.labels.len() + need.labels <= MAX_LABELS as usize
    }

    /// Returns whether labels of the whole file reach readers: they compare the cluster with the
    /// one that the file asks for.
    pub(super) fn can_have_file_labels(&self) -> bool {
        self.cluster != 0
    }

    /// Returns the pinned version and all labels, for the file.
    pub(super) fn into_parts(self) -> (Option<Version>, Vec<LabelRecord>) {
        (self.pinned, self.labels)
    }

    /// Checks a domain without its instances, and returns its serial.
    pub(super) fn check_indom(
        &self,
        name: &str,
        serial: SerialChoice,
        help: &Help,
    ) -> Result<u32, Error> {
        if self.cluster > MAX_SERIAL {
            let name = name.to_owned();
            return Err(Error::IndomInHighCluster { name, cluster: self.cluster });
        }
        check::help(help, name)?;
        self.choose_serial(name, serial)
    }

    pub(super) fn take_serial(&mut self, serial: u32) {
        self.serials.take(serial);
    }

    /// Chooses the serial of a domain that has one in another file: the same, if it is free.
    pub(super) fn choose_like(&self, name: &str, serial: u32) -> Result<u32, Error> {
        let is_taken = self.serials.contains(serial);
        let choice = if is_taken { SerialChoice::Lowest } else { SerialChoice::Stated(serial) };
        self.choose_serial(name, choice)
    }

    fn choose_serial(&self, name: &str, choice: SerialChoice) -> Result<u32, Error> {
        let full = || Error::full("indoms", MAX_SERIAL, name);
        match choice {
            SerialChoice::Lowest => self.serials.lowest(1..=MAX_SERIAL).ok_or_else(full),
            SerialChoice::Stated(serial) => {
                Error::check_range("serial", name, serial, 1, MAX_SERIAL)?;
                self.serials.check_free("serial", name, serial)
            }
            SerialChoice::From(first) => {
                let mut serials = (first..=MAX_SERIAL).chain(1..first);
                serials.find(|serial| !self.serials.contains(*serial)).ok_or_else(full)
            }
        }
    }

    pub(crate) fn check_instance_name(&self, indom: &str, name: &str) -> Result<(), Error> {
        check::instance_name(indom, name)?;
        self.check_version("instance name", name, version_for_name(name))
    }

    /// Checks a metric whose own part of the name is legal and free. Its labels are
    /// created, but not compared with others.
    pub(super) fn check_metric(
        &self,
        spec: MetricSpec,
        indom: Option<u32>,
    ) -> Result<CheckedMetric, Error> {
        let name = [self.prefix.as_str(), &spec.name].concat();
        check::name_length(&name)?;
        self.check_version("metric name", &name, version_for_name(&name))?;
        self.check_room_for_metrics(1, &spec.name)?;
        check::help(&spec.help, &spec.name)?;
        if spec.optional && self.absent == Absent::Never {
            return Err(Error::NeedsSentinel { name: spec.name });
        }
        let item = self.choose_item(&spec.name, spec.item)?;
        let shape = ValueShape::new(&spec);
        let labels =
            spec.labels.into_iter().map(|label| LabelRecord::new(LABEL_ITEM, item, None, label));
        let labels = labels.collect::<Result<_, _>>()?;
        let record = MetricRecord {
            name,
            item,
            type_code: spec.type_code,
            semantics: spec.semantics.code(),
            units: spec.units.raw(),
            indom: indom.unwrap_or(u32::MAX),
            help: spec.help,
        };
        Ok(CheckedMetric { name: spec.name, record, labels, shape })
    }

    pub(super) fn check_room_for_metrics(&self, count: usize, name: &str) -> Result<(), Error> {
        if self.items.count + count > MAX_METRICS as usize {
            return Err(Error::full("metrics", MAX_METRICS, name));
        }
        Ok(())
    }

    pub(super) fn take_item(&mut self, item: u32) {
        self.items.take(item);
    }

    fn choose_item(&self, name: &str, wanted: Option<u32>) -> Result<u32, Error> {
        let Some(item) = wanted else {
            let free = if self.items_from_names {
                let first = item_of(name);
                let mut items = (first..=MAX_ITEM).chain(1..first);
                items.find(|item| !self.items.contains(*item))
            } else {
                self.items.lowest(1..=MAX_ITEM)
            };
            let zero = Some(0).filter(|item| !self.items.contains(*item));
            return free.or(zero).ok_or_else(|| Error::full("metrics", MAX_METRICS, name));
        };
        Error::check_range("item", name, item, 0, MAX_ITEM)?;
        self.items.check_free("item", name, item)
    }

    pub(super) fn check_file_label(&self, label: Label) -> Result<LabelRecord, Error> {
        if self.cluster == 0 {
            return Err(Error::LabelNeedsCluster { name: label.name });
        }
        let record = LabelRecord::new(LABEL_CLUSTER, self.cluster, None, label)?;
        self.check_labels([&record])?;
        Ok(record)
    }

    pub(crate) fn drop_instance_labels(&mut self, serial: u32, id: i32) {
        self.labels.retain(|label| {
            label.class != LABEL_INSTANCES
                || label.identity != serial
                || label.instance.is_none_or(|instance| instance.get() != id)
        });
    }

    /// Forgets the labels of a metric that is removed. Its item stays taken.
    pub(crate) fn drop_metric_labels(&mut self, item: u32) {
        self.labels.retain(|label| (label.class, label.identity) != (LABEL_ITEM, item));
    }

    /// Takes labels that were checked.
    pub(crate) fn take_labels(&mut self, labels: Vec<LabelRecord>) {
        self.labels.extend(labels);
    }

    /// Checks that new labels fit, and differ from the old ones and from each other.
    pub(crate) fn check_labels<'l>(
        &self,
        new: impl IntoIterator<Item = &'l LabelRecord, IntoIter: Clone>,
    ) -> Result<(), Error> {
        let new = new.into_iter();
        for (index, label) in new.clone().enumerate() {
            self.check_version("label", &label.name, Version::V3)?;
            if self.labels.len() + index >= MAX_LABELS as usize {
                return Err(Error::full("labels", MAX_LABELS, &label.name));
            }
            let is_same = |other: &LabelRecord| other.is_same(label);
            if self.labels.iter().any(is_same) || new.clone().take(index).any(is_same) {
                return Err(Error::NameTaken { what: "label", name: label.name.clone() });
            }
        }
        Ok(())
    }

    fn check_version(&self, what: &'static str, name: &str, needed: Version) -> Result<(), Error> {
        match self.pinned {
            Some(pinned) if pinned < needed => {
                Err(Error::Version { what, name: name.to_owned(), needed, pinned })
            }
            _ => Ok(()),
        }
    }
}

impl NumberAllocator {
    fn contains(&self, number: u32) -> bool {
        self.taken.get(number as usize).copied().unwrap_or(false)
    }

    fn check_free(&self, what: &'static str, name: &str, number: u32) -> Result<u32, Error> {
        if self.contains(number) {
            let number = i64::from(number);
            return Err(Error::NumberTaken { what, number, name: name.to_owned() });
        }
        Ok(number)
    }

    /// Returns the lowest free number of a range that begins with 1.
    fn lowest(&self, range: RangeInclusive<u32>) -> Option<u32> {
        let from = self.next.max(*range.start());
        (from..=*range.end()).find(|number| !self.contains(*number))
    }

    /// Takes a number that is free.
    fn take(&mut self, number: u32) {
        let index = number as usize;
        if self.taken.len() <= index {
            self.taken.resize(index + 1, false);
        }
        self.taken[index] = true;
        self.count += 1;
        while self.contains(self.next.max(1)) {
            self.next = self.next.max(1) + 1;
        }
    }
}

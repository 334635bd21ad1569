//! Which numbers and labels of a file are taken, and the checks of what is to be
//! added: the same for a file that is written once and for one that grows.
//!
//! Checking and taking are two steps: what fails in between leaves no trace.

use std::ops::RangeInclusive;

use pcp_types::InstanceId;

use super::check;
use super::metric::MetricSpec;
use super::model::{Help, LabelRecord, MetricRecord, version_for_name};
use crate::layout::{
    Flags, LABEL_CLUSTER, LABEL_INSTANCES, LABEL_ITEM, MAX_ITEM, MAX_LABELS, MAX_METRICS,
    MAX_SERIAL, Version,
};
use crate::publish::Identity;
use crate::{Error, Label};

/// The numbers and labels of one file.
#[derive(Debug)]
pub(crate) struct Catalog {
    cluster: u32,
    sentinel: bool,
    /// What the names of its metrics begin with.
    prefix: String,
    pinned: Option<Version>,
    items: Numbers,
    serials: Numbers,
    labels: Vec<LabelRecord>,
}

/// Numbers, of at most twelve bits, that are given out once.
#[derive(Debug, Default)]
struct Numbers {
    /// By number.
    taken: Vec<bool>,
    count: usize,
    /// All numbers from 1 to before this one are taken.
    next: u32,
}

/// What a registration adds to a file.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Need {
    pub(crate) metrics: usize,
    pub(crate) indoms: usize,
    pub(crate) labels: usize,
}

/// A metric that may be registered.
pub(crate) struct Checked {
    pub(crate) record: MetricRecord,
    pub(crate) labels: Vec<LabelRecord>,
    pub(crate) optional: bool,
    pub(crate) isolated: bool,
}

impl Catalog {
    pub(crate) fn new(identity: &Identity, pinned: Option<Version>) -> Self {
        Self {
            cluster: identity.cluster,
            sentinel: identity.flags.contains(Flags::SENTINEL),
            prefix: identity.prefix.clone(),
            pinned,
            items: Numbers::default(),
            serials: Numbers::default(),
            labels: Vec::new(),
        }
    }

    /// Whether nothing is registered in the file but labels of the whole of it.
    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty() && self.serials.is_empty()
    }

    /// Whether the file has room, as readers count it.
    pub(crate) fn has_room(&self, need: Need) -> bool {
        self.items.len() + need.metrics <= MAX_METRICS as usize
            && self.serials.len() + need.indoms <= MAX_SERIAL as usize
            && self.labels.len() + need.labels <= MAX_LABELS as usize
    }

    /// Whether labels of the whole file reach readers: they compare the cluster
    /// with the one that the file asks for.
    pub(crate) fn can_have_file_labels(&self) -> bool {
        self.cluster != 0
    }

    /// The version that was asked for.
    pub(crate) fn pinned(&self) -> Option<Version> {
        self.pinned
    }

    /// All labels, for the file.
    pub(crate) fn into_labels(self) -> Vec<LabelRecord> {
        self.labels
    }

    /// Checks what a domain is besides its instances; returns its serial.
    pub(crate) fn check_indom(
        &self,
        name: &str,
        serial: Option<u32>,
        help: &Help,
    ) -> Result<u32, Error> {
        if self.cluster > MAX_SERIAL {
            let name = name.to_owned();
            return Err(Error::IndomInHighCluster { name, cluster: self.cluster });
        }
        check::help(name, help)?;
        self.choose_serial(name, serial)
    }

    /// Takes a domain's serial.
    pub(crate) fn take_indom(&mut self, serial: u32) {
        self.serials.take(serial);
    }

    /// The serial of a domain that has one in another file: the same, if it is
    /// free.
    pub(crate) fn choose_like(&self, name: &str, serial: u32) -> Result<u32, Error> {
        self.choose_serial(name, Some(serial).filter(|serial| !self.serials.contains(*serial)))
    }

    fn choose_serial(&self, name: &str, wanted: Option<u32>) -> Result<u32, Error> {
        let Some(serial) = wanted else {
            let what = "indoms";
            return self.serials.lowest(1..=MAX_SERIAL).ok_or(Error::Full {
                what,
                max: MAX_SERIAL,
                name: name.to_owned(),
            });
        };
        check::range("serial", name, serial, 1, MAX_SERIAL)?;
        if self.serials.contains(serial) {
            let number = i64::from(serial);
            return Err(Error::NumberTaken { what: "serial", number, name: name.to_owned() });
        }
        Ok(serial)
    }

    /// Checks the name of an instance.
    pub(crate) fn check_instance_name(&self, indom: &str, name: &str) -> Result<(), Error> {
        check::instance_name(indom, name)?;
        self.check_version("instance name", name, version_for_name(name))
    }

    /// Checks a metric, whose name was found free.
    pub(crate) fn check_metric(
        &self,
        spec: MetricSpec,
        indom: Option<u32>,
    ) -> Result<Checked, Error> {
        let mut name = self.prefix.clone();
        name.push_str(&spec.name);
        check::metric_name(&name)?;
        self.check_version("metric name", &name, version_for_name(&name))?;
        self.check_room_for_metrics(1, &spec.name)?;
        check::help(&spec.name, &spec.help)?;
        if spec.optional && !self.sentinel {
            return Err(Error::NeedsSentinel { name: spec.name });
        }
        let item = self.choose_item(&spec.name, spec.item)?;
        let label = |label| label_record(LABEL_ITEM, item, None, label);
        let labels = spec.labels.into_iter().map(label).collect::<Result<Vec<_>, _>>()?;
        self.check_labels(&labels)?;
        let record = MetricRecord {
            name,
            item,
            type_code: spec.type_code,
            semantics: spec.semantics,
            units: spec.units,
            indom,
            help: spec.help,
        };
        Ok(Checked { record, labels, optional: spec.optional, isolated: spec.isolated })
    }

    /// Checks that so many metrics more fit the file.
    pub(crate) fn check_room_for_metrics(&self, count: usize, name: &str) -> Result<(), Error> {
        if self.items.len() + count > MAX_METRICS as usize {
            let name = name.to_owned();
            return Err(Error::Full { what: "metrics", max: MAX_METRICS, name });
        }
        Ok(())
    }

    /// Takes a metric's item. Its labels are apart.
    pub(crate) fn take_metric(&mut self, metric: &MetricRecord) {
        self.items.take(metric.item);
    }

    fn choose_item(&self, name: &str, wanted: Option<u32>) -> Result<u32, Error> {
        let Some(item) = wanted else {
            let zero = Some(0).filter(|item| !self.items.contains(*item));
            let what = "metrics";
            return self.items.lowest(1..=MAX_ITEM).or(zero).ok_or(Error::Full {
                what,
                max: MAX_METRICS,
                name: name.to_owned(),
            });
        };
        check::range("item", name, item, 0, MAX_ITEM)?;
        if self.items.contains(item) {
            let number = i64::from(item);
            return Err(Error::NumberTaken { what: "item", number, name: name.to_owned() });
        }
        Ok(item)
    }

    /// Checks a label of the whole file.
    pub(crate) fn check_file_label(&self, label: Label) -> Result<LabelRecord, Error> {
        if self.cluster == 0 {
            return Err(Error::LabelNeedsCluster { name: label.name });
        }
        let record = label_record(LABEL_CLUSTER, self.cluster, None, label)?;
        self.check_labels(std::slice::from_ref(&record))?;
        Ok(record)
    }

    /// Forgets the labels of an instance that is gone.
    pub(crate) fn drop_instance_labels(&mut self, serial: u32, id: i32) {
        let is_its = |label: &LabelRecord| {
            label.class == LABEL_INSTANCES
                && label.identity == serial
                && label.instance.is_some_and(|instance| instance.get() == id)
        };
        self.labels.retain(|label| !is_its(label));
    }

    /// Takes labels that were checked.
    pub(crate) fn take_labels(&mut self, labels: Vec<LabelRecord>) {
        self.labels.extend(labels);
    }

    /// Whether new labels fit, and are not among the old ones or each other.
    pub(crate) fn check_labels(&self, new: &[LabelRecord]) -> Result<(), Error> {
        for (index, label) in new.iter().enumerate() {
            self.check_version("label", &label.name, Version::V3)?;
            if self.labels.len() + index >= MAX_LABELS as usize {
                let name = label.name.clone();
                return Err(Error::Full { what: "labels", max: MAX_LABELS, name });
            }
            let mut others = self.labels.iter().chain(new.iter().take(index));
            if others.any(|other| other.name == label.name && other.same_target(label)) {
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

impl Numbers {
    fn len(&self) -> usize {
        self.count
    }

    fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn contains(&self, number: u32) -> bool {
        self.taken.get(number as usize).copied().unwrap_or(false)
    }

    /// The lowest of a range from 1 on that is free.
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
        if let Some(taken) = self.taken.get_mut(index) {
            *taken = true;
        }
        self.count += 1;
        while self.contains(self.next.max(1)) {
            self.next = self.next.max(1) + 1;
        }
    }
}

/// A label and what it is attached to.
pub(crate) fn label_record(
    class: u32,
    identity: u32,
    instance: Option<InstanceId>,
    label: Label,
) -> Result<LabelRecord, Error> {
    check::label(&label)?;
    let json = label.text();
    let Label { name, optional, .. } = label;
    Ok(LabelRecord { class, optional, identity, instance, name, json })
}

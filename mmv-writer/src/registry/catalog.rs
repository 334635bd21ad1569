//! Which names and numbers of a file are taken, and the checks of what is to be
//! added: the same for a file that is written once and for one that grows.
//!
//! Checking and taking are two steps: what fails in between leaves no trace.

use std::collections::{BTreeSet, HashSet};

use pcp_types::InstanceId;

use super::check;
use super::metric::MetricSpec;
use super::model::{Help, LabelRecord, MetricRecord, version_for_name};
use crate::layout::{
    Flags, LABEL_CLUSTER, LABEL_INDOM, LABEL_ITEM, MAX_ITEM, MAX_LABELS, MAX_METRICS, MAX_SERIAL,
    Version,
};
use crate::publish::Identity;
use crate::{Error, Label};

/// The names and numbers of one file.
#[derive(Debug)]
pub(crate) struct Catalog {
    cluster: u32,
    sentinel: bool,
    pinned: Option<Version>,
    names: BTreeSet<String>,
    items: HashSet<u32>,
    serials: HashSet<u32>,
    labels: Vec<LabelRecord>,
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
            pinned,
            names: BTreeSet::new(),
            items: HashSet::new(),
            serials: HashSet::new(),
            labels: Vec::new(),
        }
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
        self.serials.insert(serial);
    }

    fn choose_serial(&self, name: &str, wanted: Option<u32>) -> Result<u32, Error> {
        let Some(serial) = wanted else {
            let free = (1..=MAX_SERIAL).find(|serial| !self.serials.contains(serial));
            let what = "indoms";
            return free.ok_or(Error::Full { what, max: MAX_SERIAL, name: name.to_owned() });
        };
        check::range("serial", name, serial, 1, MAX_SERIAL)?;
        if self.serials.contains(&serial) {
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

    /// Checks a metric.
    pub(crate) fn check_metric(
        &self,
        spec: MetricSpec,
        indom: Option<u32>,
    ) -> Result<Checked, Error> {
        self.check_name(&spec.name)?;
        check::help(&spec.name, &spec.help)?;
        if spec.optional && !self.sentinel {
            return Err(Error::NeedsSentinel { name: spec.name });
        }
        let item = self.choose_item(&spec.name, spec.item)?;
        let label = |label| label_record(LABEL_ITEM, item, None, label);
        let labels = spec.labels.into_iter().map(label).collect::<Result<Vec<_>, _>>()?;
        self.check_labels(&labels)?;
        let record = MetricRecord {
            name: spec.name,
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
        if self.names.len() + count > MAX_METRICS as usize {
            let name = name.to_owned();
            return Err(Error::Full { what: "metrics", max: MAX_METRICS, name });
        }
        Ok(())
    }

    /// Takes a metric's name and item. Its labels are apart.
    pub(crate) fn take_metric(&mut self, metric: &MetricRecord) {
        self.names.insert(metric.name.clone());
        self.items.insert(metric.item);
    }

    fn check_name(&self, name: &str) -> Result<(), Error> {
        check::metric_name(name)?;
        self.check_version("metric name", name, version_for_name(name))?;
        self.check_room_for_metrics(1, name)?;
        if self.names.contains(name) {
            return Err(Error::NameTaken { what: "metric name", name: name.to_owned() });
        }
        let branch = format!("{name}.");
        let below = self.names.range(branch.clone()..).next();
        if let Some(longer) = below.filter(|other| other.starts_with(&branch)) {
            return Err(Error::LeafAndBranch { leaf: name.to_owned(), longer: longer.clone() });
        }
        let dots = name.match_indices('.').filter_map(|(dot, _)| name.get(..dot));
        for leaf in dots {
            if self.names.contains(leaf) {
                return Err(Error::LeafAndBranch {
                    leaf: leaf.to_owned(),
                    longer: name.to_owned(),
                });
            }
        }
        Ok(())
    }

    fn choose_item(&self, name: &str, wanted: Option<u32>) -> Result<u32, Error> {
        let Some(item) = wanted else {
            let free = (1..=MAX_ITEM).chain([0]).find(|item| !self.items.contains(item));
            let what = "metrics";
            return free.ok_or(Error::Full { what, max: MAX_METRICS, name: name.to_owned() });
        };
        check::range("item", name, item, 0, MAX_ITEM)?;
        if self.items.contains(&item) {
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

    /// Checks labels of a domain.
    pub(crate) fn check_indom_labels(
        &self,
        serial: u32,
        labels: Vec<Label>,
    ) -> Result<Vec<LabelRecord>, Error> {
        let record = |label| label_record(LABEL_INDOM, serial, None, label);
        let records = labels.into_iter().map(record).collect::<Result<Vec<_>, _>>()?;
        self.check_labels(&records)?;
        Ok(records)
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

//! What a registry keeps behind its lock, and the checks of each registration.
//!
//! Every registration checks first and changes afterwards, so one that fails
//! leaves no trace.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use pcp_types::{InstanceId, ValueType};

use super::check;
use super::indom::{Indom, IndomBuilder, Members};
use super::metric::MetricSpec;
use super::model::{IndomRecord, LabelRecord, MetricRecord, Model, ValueRecord, version_for_name};
use crate::layout::{
    Flags, LABEL_CLUSTER, LABEL_INDOM, LABEL_INSTANCES, LABEL_ITEM, MAX_ITEM, MAX_LABELS,
    MAX_METRICS, MAX_SERIAL, NO_VALUE, Version,
};
use crate::metric::sealed::Seat;
use crate::plan::{VALUES_PER_LINE, line_start};
use crate::publish::{Draft, Identity};
use crate::{Error, Label};

/// The registered things and the file they will be in.
#[derive(Debug)]
pub(crate) struct State {
    pub(super) id: u64,
    pub(super) cluster: u32,
    pub(super) sentinel: bool,
    pub(super) pinned: Option<Version>,
    pub(super) model: Model,
    pub(super) draft: Draft,
    pub(super) names: BTreeSet<String>,
    pub(super) items: HashSet<u32>,
    pub(super) serials: HashSet<u32>,
}

impl State {
    pub(super) fn new(id: u64, identity: &Identity, pinned: Option<Version>, draft: Draft) -> Self {
        Self {
            id,
            cluster: identity.cluster,
            sentinel: identity.flags.contains(Flags::SENTINEL),
            pinned,
            model: Model::default(),
            draft,
            names: BTreeSet::new(),
            items: HashSet::new(),
            serials: HashSet::new(),
        }
    }

    /// Registers a domain.
    pub(super) fn add_indom(&mut self, builder: IndomBuilder<'_>) -> Result<Indom, Error> {
        let name = builder.name;
        if self.cluster > MAX_SERIAL {
            return Err(Error::IndomInHighCluster { name, cluster: self.cluster });
        }
        check::help(&name, &builder.help)?;
        let serial = self.choose_serial(&name, builder.serial)?;
        let members = self.check_members(&name, builder.instances)?;
        let labels =
            indom_labels(&name, serial, &members, builder.labels, builder.instance_labels)?;
        self.check_labels(&labels)?;
        let members = Arc::new(members);
        let index = self.model.indoms.len();
        self.serials.insert(serial);
        self.model.labels.extend(labels);
        let record = IndomRecord { serial, help: builder.help, members: Arc::clone(&members) };
        self.model.indoms.push(record);
        Ok(Indom { registry: self.id, index, name, serial, members })
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

    fn check_members(&self, indom: &str, given: Vec<(i32, String)>) -> Result<Members, Error> {
        let mut list: Vec<(InstanceId, String)> = Vec::with_capacity(given.len());
        let (mut ids, mut names) = (HashSet::new(), HashSet::new());
        for (number, name) in given {
            let id = InstanceId::new(number).map_err(|_| Error::OutOfRange {
                what: "instance",
                name: indom.to_owned(),
                found: i64::from(number),
                min: 0,
                max: i64::from(i32::MAX),
            })?;
            check::instance_name(indom, &name)?;
            self.check_version("instance name", &name, version_for_name(&name))?;
            if !ids.insert(id) {
                let number = i64::from(number);
                return Err(Error::NumberTaken { what: "instance", number, name });
            }
            if !names.insert(name.clone()) {
                return Err(Error::NameTaken { what: "instance name", name });
            }
            list.push((id, name));
        }
        Ok(Members::new(list))
    }

    /// Registers a metric with one value.
    pub(super) fn add_singular(&mut self, spec: MetricSpec) -> Result<Seat, Error> {
        let metric = self.check_metric(spec, None)?;
        let seat = self.seat(0, &metric)?;
        self.adopt(metric, None, std::slice::from_ref(&seat));
        Ok(seat)
    }

    /// Registers a metric with one value for each instance of a domain.
    pub(super) fn add_instances(
        &mut self,
        spec: MetricSpec,
        indom: &Indom,
    ) -> Result<Vec<Seat>, Error> {
        if indom.registry != self.id {
            return Err(Error::OtherRegistry { name: indom.name.clone() });
        }
        let metric = self.check_metric(spec, Some(indom.serial))?;
        let count = indom.members.list().len();
        let seats = (0..count).map(|index| self.seat(index, &metric));
        let seats = seats.collect::<Result<Vec<_>, _>>()?;
        self.adopt(metric, Some(indom.index), &seats);
        Ok(seats)
    }

    fn check_metric(&self, spec: MetricSpec, indom: Option<u32>) -> Result<Checked, Error> {
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

    /// The index of a new value, counted from the last one registered.
    fn place(&self, ahead: usize, isolated: bool) -> usize {
        let next = self.model.values.len();
        if isolated { line_start(next) + ahead * VALUES_PER_LINE } else { next + ahead }
    }

    /// A new value, counted from the last one registered; the last thing that
    /// can fail.
    fn seat(&mut self, ahead: usize, metric: &Checked) -> Result<Seat, Error> {
        let place = self.place(ahead, metric.isolated);
        let (cell, extra) = self.draft.cells(place)?;
        cell.store(if metric.optional { NO_VALUE } else { 0 });
        let is_text = metric.record.type_code == ValueType::String.code();
        Ok(Seat { cell, extra, text: is_text.then(Arc::default) })
    }

    fn adopt(&mut self, metric: Checked, indom: Option<usize>, seats: &[Seat]) {
        let end = self.place(seats.len(), metric.isolated);
        let places: Vec<_> =
            (0..seats.len()).map(|index| self.place(index, metric.isolated)).collect();
        self.names.insert(metric.record.name.clone());
        self.items.insert(metric.record.item);
        self.model.labels.extend(metric.labels);
        self.model.metrics.push(metric.record);
        let values = &mut self.model.values;
        for (index, (seat, place)) in seats.iter().zip(places).enumerate() {
            values.resize_with(place, || None);
            values.push(Some(ValueRecord {
                metric: self.model.metrics.len() - 1,
                instance: indom.map(|indom| (indom, index)),
                text: seat.text.clone(),
            }));
        }
        values.resize_with(end, || None);
    }

    fn check_name(&self, name: &str) -> Result<(), Error> {
        check::metric_name(name)?;
        self.check_version("metric name", name, version_for_name(name))?;
        if self.model.metrics.len() >= MAX_METRICS as usize {
            let name = name.to_owned();
            return Err(Error::Full { what: "metrics", max: MAX_METRICS, name });
        }
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

    /// Registers a label of the whole file.
    pub(super) fn add_label(&mut self, label: Label) -> Result<(), Error> {
        if self.cluster == 0 {
            return Err(Error::LabelNeedsCluster { name: label.name });
        }
        let record = label_record(LABEL_CLUSTER, self.cluster, None, label)?;
        self.check_labels(std::slice::from_ref(&record))?;
        self.model.labels.push(record);
        Ok(())
    }

    /// Whether new labels fit, and are not among the old ones or each other.
    fn check_labels(&self, new: &[LabelRecord]) -> Result<(), Error> {
        for (index, label) in new.iter().enumerate() {
            self.check_version("label", &label.name, Version::V3)?;
            if self.model.labels.len() + index >= MAX_LABELS as usize {
                let name = label.name.clone();
                return Err(Error::Full { what: "labels", max: MAX_LABELS, name });
            }
            let mut others = self.model.labels.iter().chain(new.iter().take(index));
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

/// A metric that may be registered.
struct Checked {
    record: MetricRecord,
    labels: Vec<LabelRecord>,
    optional: bool,
    isolated: bool,
}

fn label_record(
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

fn indom_labels(
    indom: &str,
    serial: u32,
    members: &Members,
    of_indom: Vec<Label>,
    of_instances: Vec<(i32, Label)>,
) -> Result<Vec<LabelRecord>, Error> {
    let mut records = Vec::new();
    for label in of_indom {
        records.push(label_record(LABEL_INDOM, serial, None, label)?);
    }
    for (id, label) in of_instances {
        let found = members.list().iter().find(|(member, _)| member.get() == id);
        let Some((instance, _)) = found else {
            let (label, indom) = (label.name, indom.to_owned());
            return Err(Error::NoInstance { label, indom, id });
        };
        records.push(label_record(LABEL_INSTANCES, serial, Some(*instance), label)?);
    }
    Ok(records)
}

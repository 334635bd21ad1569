//! What a registry keeps behind its lock, and the checks of each registration.
//!
//! Every registration checks first and changes afterwards, so one that fails
//! leaves no trace, but perhaps a further file that is empty and not published.

use std::collections::HashSet;
use std::sync::Arc;

use pcp_types::InstanceId;

use super::catalog::{Catalog, Need, label_record};
use super::indom::{Indom, IndomBuilder, Members};
use super::metric::MetricSpec;
use super::model::{Help, LabelRecord};
use super::names::Names;
use super::part::Part;
use super::series::{Series, remove_stale};
use crate::layout::{LABEL_INDOM, LABEL_INSTANCES, Version};
use crate::mapping::Row;
use crate::metric::sealed::Seat;
use crate::publish::Published;
use crate::{Error, Label};

/// The registered things and the files they will be in.
#[derive(Debug)]
pub(crate) struct State {
    id: u64,
    series: Series,
    pinned: Option<Version>,
    lenient: bool,
    names: Names,
    domains: Vec<Domain>,
    /// Labels of all metrics.
    labels: Vec<Label>,
    /// The files; what is registered goes into the last.
    parts: Vec<Part>,
}

/// A domain, for each file that has a metric on it.
#[derive(Debug)]
pub(super) struct Domain {
    name: String,
    /// Asked for, or that in the first of its files.
    serial: u32,
    pub(super) help: Help,
    labels: Vec<Label>,
    instance_labels: Vec<(InstanceId, Label)>,
    pub(super) members: Arc<Members>,
}

impl State {
    pub(super) fn new(
        id: u64,
        series: Series,
        first: Part,
        pinned: Option<Version>,
        lenient: bool,
    ) -> Self {
        let (names, domains, labels) = (Names::default(), Vec::new(), Vec::new());
        Self { id, series, pinned, lenient, names, domains, labels, parts: vec![first] }
    }

    /// The file that something goes into: the last, or a new one if it is full.
    fn part_for(&mut self, need: Need) -> Result<usize, Error> {
        let last = self.parts.len().saturating_sub(1);
        let Some(part) = self.parts.get(last) else { return Ok(last) };
        if part.catalog.is_empty() || part.catalog.has_room(need) {
            return Ok(last);
        }
        part.check_process()?;
        let Some(identity) = self.series.next()? else { return Ok(last) };
        let mut part = Part::new(identity, self.pinned, self.lenient)?;
        if part.catalog.can_have_file_labels() {
            for label in &self.labels {
                part.add_label(label.clone())?;
            }
        }
        self.parts.push(part);
        Ok(last + 1)
    }

    /// Registers a domain.
    pub(super) fn add_indom(&mut self, builder: IndomBuilder<'_>) -> Result<Indom, Error> {
        let IndomBuilder { name, serial, help, instances, labels, instance_labels, .. } = builder;
        let labels_count = labels.len() + instance_labels.len();
        let part = self.part_for(Need { metrics: 0, indoms: 1, labels: labels_count })?;
        let Some(part) = self.parts.get_mut(part) else { return Err(other_registry(name)) };
        let serial = part.catalog.check_indom(&name, serial, &help)?;
        let members = Arc::new(check_members(&part.catalog, &name, instances)?);
        let instance_labels = check_targets(&name, &members, instance_labels)?;
        let index = self.domains.len();
        let domain = Domain { name: name.clone(), serial, help, labels, instance_labels, members };
        let members = Arc::clone(&domain.members);
        let records = domain.label_records(serial)?;
        part.catalog.check_labels(&records)?;
        part.add_indom(index, &domain, serial, records);
        self.domains.push(domain);
        Ok(Indom { registry: self.id, index, name, serial, members })
    }

    /// Registers a metric with one value.
    pub(super) fn add_singular(&mut self, spec: MetricSpec) -> Result<Seat, Error> {
        self.names.check(&spec.name)?;
        let name = spec.name.clone();
        let need = Need { metrics: 1, indoms: 0, labels: spec.labels.len() };
        let part = self.part_for(need)?;
        let Some(part) = self.parts.get_mut(part) else { return Err(other_registry(name)) };
        let seat = part.add_singular(spec)?;
        self.names.take(name);
        Ok(seat)
    }

    /// Registers a metric with one value for each instance of a domain.
    pub(super) fn add_instances(
        &mut self,
        spec: MetricSpec,
        indom: &Indom,
    ) -> Result<Vec<Seat>, Error> {
        self.names.check(&spec.name)?;
        let name = spec.name.clone();
        let need = Need { metrics: 1, indoms: 0, labels: spec.labels.len() };
        let part = self.part_with(indom, need)?;
        let seats = part.add_instances(spec, indom)?;
        self.names.take(name);
        Ok(seats)
    }

    /// Registers the counts of a histogram's buckets, and the sum of its values.
    pub(super) fn add_histogram(
        &mut self,
        counts: MetricSpec,
        sum: MetricSpec,
        buckets: &Indom,
    ) -> Result<(Row, Seat), Error> {
        self.names.check(&counts.name)?;
        self.names.check(&sum.name)?;
        let names = [counts.name.clone(), sum.name.clone()];
        let need = Need { metrics: 2, indoms: 0, labels: counts.labels.len() };
        let part = self.part_with(buckets, need)?;
        let cells = part.add_histogram(counts, sum, buckets)?;
        for name in names {
            self.names.take(name);
        }
        Ok(cells)
    }

    /// The file that a metric on a domain goes into, with the domain in it.
    fn part_with(&mut self, indom: &Indom, mut need: Need) -> Result<&mut Part, Error> {
        let missing = || other_registry(indom.name.clone());
        let domain = Some(indom.index).filter(|_| indom.registry == self.id);
        let labels = domain.and_then(|index| self.domains.get(index)).ok_or_else(missing)?;
        let labels = labels.labels.len() + labels.instance_labels.len();
        if self.parts.last().is_some_and(|part| !part.has_indom(indom.index)) {
            (need.indoms, need.labels) = (1, need.labels + labels);
        }
        let part = self.part_for(need)?;
        let part = self.parts.get_mut(part).ok_or_else(missing)?;
        let domain = self.domains.get(indom.index).ok_or_else(missing)?;
        if !part.has_indom(indom.index) {
            let serial = part.catalog.choose_like(&domain.name, domain.serial)?;
            let records = domain.label_records(serial)?;
            part.catalog.check_labels(&records)?;
            part.add_indom(indom.index, domain, serial, records);
        }
        Ok(part)
    }

    /// Registers a label of all metrics: in the first file, which says what is wrong
    /// with it, and in all others where readers would find it.
    pub(super) fn add_label(&mut self, label: Label) -> Result<(), Error> {
        let takes =
            |(index, part): &(usize, &mut Part)| *index == 0 || part.catalog.can_have_file_labels();
        for (_, part) in self.parts.iter_mut().enumerate().filter(takes) {
            part.catalog.check_file_label(label.clone())?;
        }
        for (_, part) in self.parts.iter_mut().enumerate().filter(takes) {
            part.add_label(label.clone())?;
        }
        self.labels.push(label);
        Ok(())
    }

    /// Publishes the files: the first last, when all else is there.
    pub(super) fn publish(self) -> Result<Published, Error> {
        let mut parts = self.parts.into_iter();
        let first = parts.next();
        let further = parts.filter(|part| !part.catalog.is_empty()).map(Part::publish);
        let further = further.collect::<Result<Vec<_>, _>>()?;
        let first = first.map(Part::publish).transpose()?;
        let published = first.map(|first| first.with(further));
        let published = published.ok_or_else(|| other_registry(String::new()))?;
        remove_stale(published.path(), published.further());
        Ok(published)
    }
}

impl Domain {
    /// The labels of the domain and its instances, in a file where it has this
    /// serial.
    fn label_records(&self, serial: u32) -> Result<Vec<LabelRecord>, Error> {
        let of_indom = self.labels.iter().map(|label| (LABEL_INDOM, None, label));
        let of_instances = self.instance_labels.iter();
        let of_instances = of_instances.map(|(id, label)| (LABEL_INSTANCES, Some(*id), label));
        let all = of_indom.chain(of_instances);
        all.map(|(class, id, label)| label_record(class, serial, id, label.clone())).collect()
    }
}

fn check_members(
    catalog: &Catalog,
    indom: &str,
    given: Vec<(i32, String)>,
) -> Result<Members, Error> {
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
        catalog.check_instance_name(indom, &name)?;
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

/// Finds the instances that labels are for.
fn check_targets(
    indom: &str,
    members: &Members,
    labels: Vec<(i32, Label)>,
) -> Result<Vec<(InstanceId, Label)>, Error> {
    let target = |(id, label): (i32, Label)| {
        let found = members.list().iter().find(|(member, _)| member.get() == id);
        let missing = |label: Label| Error::NoInstance {
            label: label.name,
            indom: indom.to_owned(),
            instance: id.to_string(),
        };
        match found {
            Some((instance, _)) => Ok((*instance, label)),
            None => Err(missing(label)),
        }
    };
    labels.into_iter().map(target).collect()
}

fn other_registry(name: String) -> Error {
    Error::OtherRegistry { name }
}

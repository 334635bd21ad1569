//! What a registry keeps behind its lock, and the checks of each registration.
//!
//! Every registration checks first and changes afterwards, so one that fails
//! leaves no trace.

use std::collections::HashSet;
use std::sync::Arc;

use pcp_types::{InstanceId, ValueType};

use super::catalog::{Catalog, Checked, label_record};
use super::indom::{Indom, IndomBuilder, Members};
use super::metric::MetricSpec;
use super::model::{IndomRecord, LabelRecord, Model, ValueRecord};
use crate::layout::{LABEL_INDOM, LABEL_INSTANCES, NO_VALUE};
use crate::mapping::Row;
use crate::metric::sealed::Seat;
use crate::plan::{VALUES_PER_LINE, line_start};
use crate::publish::Draft;
use crate::{Error, Label};

/// The registered things and the file they will be in.
#[derive(Debug)]
pub(crate) struct State {
    pub(super) id: u64,
    pub(super) catalog: Catalog,
    pub(super) model: Model,
    pub(super) draft: Draft,
}

impl State {
    pub(super) fn new(id: u64, catalog: Catalog, draft: Draft) -> Self {
        Self { id, catalog, model: Model::default(), draft }
    }

    /// Registers a domain.
    pub(super) fn add_indom(&mut self, builder: IndomBuilder<'_>) -> Result<Indom, Error> {
        let name = builder.name;
        let serial = self.catalog.check_indom(&name, builder.serial, &builder.help)?;
        let members = self.check_members(&name, builder.instances)?;
        let labels =
            indom_labels(&name, serial, &members, builder.labels, builder.instance_labels)?;
        self.catalog.check_labels(&labels)?;
        let members = Arc::new(members);
        let index = self.model.indoms.len();
        self.catalog.take_indom(serial);
        self.catalog.take_labels(labels);
        let record = IndomRecord { serial, help: builder.help, members: Arc::clone(&members) };
        self.model.indoms.push(record);
        Ok(Indom { registry: self.id, index, name, serial, members })
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
            self.catalog.check_instance_name(indom, &name)?;
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
        let metric = self.catalog.check_metric(spec, None)?;
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
        let metric = self.catalog.check_metric(spec, Some(indom.serial))?;
        let count = indom.members.list().len();
        let seats = (0..count).map(|index| self.seat(index, &metric));
        let seats = seats.collect::<Result<Vec<_>, _>>()?;
        self.adopt(metric, Some(indom.index), &seats);
        Ok(seats)
    }

    /// Registers the counts of a histogram's buckets, and the sum of its values.
    pub(super) fn add_histogram(
        &mut self,
        counts: MetricSpec,
        sum: MetricSpec,
        buckets: &Indom,
    ) -> Result<(Row, Seat), Error> {
        // Before the first is registered, so that both are or none.
        self.catalog.check_metric(sum.clone(), None)?;
        self.catalog.check_room_for_metrics(2, &sum.name)?;
        let (first, step) = (self.place(0, counts.isolated), step(counts.isolated));
        let row = self.draft.row(first, step, buckets.members.list().len())?;
        self.add_instances(counts, buckets)?;
        Ok((row, self.add_singular(sum)?))
    }

    /// The index of a new value, counted from the last one registered.
    fn place(&self, ahead: usize, isolated: bool) -> usize {
        let next = self.model.values.len();
        let first = if isolated { line_start(next) } else { next };
        first + ahead * step(isolated)
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
        self.catalog.take_metric(&metric.record);
        self.catalog.take_labels(metric.labels);
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

    /// Registers a label of the whole file.
    pub(super) fn add_label(&mut self, label: Label) -> Result<(), Error> {
        let record = self.catalog.check_file_label(label)?;
        self.catalog.take_labels(vec![record]);
        Ok(())
    }
}

/// How many entries it is from one value of a metric to the next.
fn step(isolated: bool) -> usize {
    if isolated { VALUES_PER_LINE } else { 1 }
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

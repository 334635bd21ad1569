//! One file of a registry, before it is published.

use std::collections::HashMap;
use std::sync::Arc;

use pcp_types::ValueType;

use super::catalog::{Catalog, Checked};
use super::indom::Indom;
use super::metric::MetricSpec;
use super::model::{IndomRecord, LabelRecord, Model, ValueRecord};
use super::state::Domain;
use crate::layout::{NO_VALUE, Version};
use crate::mapping::Row;
use crate::metric::sealed::Seat;
use crate::plan::{VALUES_PER_LINE, line_start};
use crate::publish::{Draft, Identity, Published};
use crate::{Error, Label};

/// A file, and what is registered in it.
#[derive(Debug)]
pub(super) struct Part {
    identity: Identity,
    pub(super) catalog: Catalog,
    model: Model,
    draft: Draft,
    /// Index in the model, and serial, by index of the registry's domain.
    indoms: HashMap<usize, (usize, u32)>,
}

impl Part {
    pub(super) fn new(
        identity: Identity,
        pinned: Option<Version>,
        lenient: bool,
    ) -> Result<Self, Error> {
        let draft = Draft::create(&identity, lenient)?;
        let (catalog, model) = (Catalog::new(&identity, pinned), Model::default());
        Ok(Self { identity, catalog, model, draft, indoms: HashMap::new() })
    }

    /// Fails in a forked child.
    pub(super) fn check_process(&self) -> Result<(), Error> {
        self.draft.check_process()
    }

    /// Whether a domain of the registry is in this file.
    pub(super) fn has_indom(&self, index: usize) -> bool {
        self.indoms.contains_key(&index)
    }

    /// Adds a domain of the registry, with labels that were checked.
    pub(super) fn add_indom(
        &mut self,
        index: usize,
        domain: &Domain,
        serial: u32,
        labels: Vec<LabelRecord>,
    ) {
        self.catalog.take_indom(serial);
        self.catalog.take_labels(labels);
        self.indoms.insert(index, (self.model.indoms.len(), serial));
        let (help, members) = (domain.help.clone(), Arc::clone(&domain.members));
        self.model.indoms.push(IndomRecord { serial, help, members });
    }

    /// Adds a metric with one value.
    pub(super) fn add_singular(&mut self, spec: MetricSpec) -> Result<Seat, Error> {
        let metric = self.catalog.check_metric(spec, None)?;
        let seat = self.seat(0, &metric)?;
        self.adopt(metric, None, std::slice::from_ref(&seat));
        Ok(seat)
    }

    /// Adds a metric with one value for each instance of a domain.
    pub(super) fn add_instances(
        &mut self,
        spec: MetricSpec,
        indom: &Indom,
    ) -> Result<Vec<Seat>, Error> {
        let place = self.indoms.get(&indom.index).copied();
        let Some((index, serial)) = place else {
            return Err(Error::OtherRegistry { name: indom.name.clone() });
        };
        let metric = self.catalog.check_metric(spec, Some(serial))?;
        let count = indom.members.list().len();
        let seats = (0..count).map(|index| self.seat(index, &metric));
        let seats = seats.collect::<Result<Vec<_>, _>>()?;
        self.adopt(metric, Some(index), &seats);
        Ok(seats)
    }

    /// Adds the counts of a histogram's buckets, and the sum of its values.
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

    /// Adds a label of the whole file.
    pub(super) fn add_label(&mut self, label: Label) -> Result<(), Error> {
        let record = self.catalog.check_file_label(label)?;
        self.catalog.take_labels(vec![record]);
        Ok(())
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
        let first = self.place(0, metric.isolated);
        let step = step(metric.isolated);
        self.catalog.take_metric(&metric.record);
        self.catalog.take_labels(metric.labels);
        self.model.metrics.push(metric.record);
        let values = &mut self.model.values;
        for (index, seat) in seats.iter().enumerate() {
            values.resize_with(first + index * step, || None);
            values.push(Some(ValueRecord {
                metric: self.model.metrics.len() - 1,
                instance: indom.map(|indom| (indom, index)),
                text: seat.text.clone(),
            }));
        }
        values.resize_with(first + seats.len() * step, || None);
    }

    /// Completes the file and gives it its name.
    pub(super) fn publish(self) -> Result<Published, Error> {
        let Self { identity, catalog, mut model, draft, .. } = self;
        let pinned = catalog.pinned();
        model.labels = catalog.into_labels();
        let version = pinned.unwrap_or_else(|| model.lowest_version());
        draft.publish(&identity, version, &model)
    }
}

/// How many entries it is from one value of a metric to the next.
fn step(isolated: bool) -> usize {
    if isolated { VALUES_PER_LINE } else { 1 }
}

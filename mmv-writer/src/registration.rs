//! The registrations of a registry: its names, domains and metrics, and the file of each.
//!
//! In come the descriptions of metrics, domains and labels; out go entries in the
//! [`Store`] of each file, in which sealed and live registries differ. A registration
//! goes into the last file, or into a new one if the last is full. A domain is in each
//! file that has a metric on it.
//!
//! Invariant: a registration changes nothing before it is checked and has room, so one
//! that fails leaves no trace, except perhaps an empty overflow file.

pub(crate) mod check;
mod instance_number;
mod need;
mod numbers;
mod record;

use std::collections::{HashMap, HashSet};
use std::fmt::Debug;
use std::iter::once;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mmv_format::layout::Version;
use pcp_types::{InstanceId, InstanceNumbers, NameConflict, NameSpace};

use crate::identity::FileIdentity;
use crate::mapping::CellStrip;
use crate::metric::{Members, ValueSlot};
use crate::overflow::{Clusters, OverflowFiles};
use crate::{Error, Label};
pub(crate) use instance_number::{numbers_used_up, serial_of};
pub(crate) use need::{Need, Promise, ValueShape};
use numbers::{CheckedMetric, FileNumbers};
pub(crate) use record::version_for_name;
pub(crate) use record::{Help, IndomRecord, LabelRecord, MetricRecord};
pub(crate) use record::{IndomSpec, MetricSpec, SerialChoice};

/// A file that registrations are written to. After [`Store::reserve`] what was
/// reserved cannot fail.
pub(crate) trait Store: Debug + Sized {
    /// Settings that all files of a registry share.
    type Settings: Debug;
    /// A metric's location in the file.
    type Metric;

    /// Creates the file; a lenient one is in private memory if that fails. The identity changes to
    /// another name if another user takes the name of the file meanwhile.
    fn create(
        identity: &mut FileIdentity,
        settings: &Self::Settings,
        lenient: bool,
    ) -> Result<Self, Error>;

    /// Fails in a forked child: the file is its parent's.
    fn check_process(&self) -> Result<(), Error>;

    /// Returns whether the need fits, apart from the limits of readers.
    fn has_room(&self, need: &Need) -> bool;

    /// Reserves room and disk space for the registration of `name`.
    fn reserve(&mut self, need: &Need, name: &str) -> Result<(), Error>;

    /// Allows values to be absent: the file gets the sentinel flag, before any metric that is added
    /// after this.
    fn allow_absent(&mut self);

    /// Returns the cells of the next values, of which there is at least one.
    fn next_strip(&mut self, shape: ValueShape, values: usize) -> Result<CellStrip, Error>;

    /// Adds a domain with its fixed instances.
    fn add_indom(&mut self, indom: &RegisteredIndom, serial: u32);

    /// Adds a metric without values.
    fn add_metric(&mut self, metric: MetricRecord, shape: ValueShape) -> Self::Metric;

    /// Adds a label that was checked.
    fn add_label(&mut self, label: &LabelRecord);

    fn add_value(&mut self, metric: &Self::Metric) -> ValueSlot;

    /// Adds the values of a metric for all fixed instances of its domain.
    fn add_values(&mut self, metric: &Self::Metric, indom: &RegisteredIndom) -> Vec<ValueSlot>;
}

/// A registered domain, as the handles on it hold it.
#[derive(Debug, Clone)]
pub(crate) struct RegisteredIndom {
    registry: u64,
    /// Index of the domain in the registry.
    pub(crate) index: usize,
    pub(crate) record: Arc<IndomRecord>,
}

/// The registrations of a registry, and the files that they are in.
#[derive(Debug)]
pub(crate) struct Registrations<S: Store> {
    /// Distinguishes the registries of this process.
    id: u64,
    overflow: OverflowFiles,
    pinned: Option<Version>,
    lenient: bool,
    settings: S::Settings,
    /// Metric names, without the prefix that the first file's name gives.
    names: NameSpace<MetricId>,
    /// Number of domains.
    indoms: usize,
    /// Labels of all metrics, for new overflow files.
    labels: Vec<Label>,
    first: RegisteredFile<S>,
    others: Vec<RegisteredFile<S>>,
}

#[derive(Debug)]
pub(crate) struct RegisteredFile<S> {
    pub(crate) numbers: FileNumbers,
    /// Serials of the domains in the file, by their indexes in the registry.
    indoms: HashMap<usize, u32>,
    pub(crate) store: S,
}

/// Index of a file in its registry; 0 is the first one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileId(usize);

/// A metric's file, and its item there, which no other metric of the file ever has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MetricId {
    pub(crate) file: FileId,
    pub(crate) item: u32,
}

/// Placeholder for the metric when a name is only checked.
const NO_METRIC: MetricId = MetricId { file: FileId(usize::MAX), item: u32::MAX };

/// A metric that was checked, and for which there is room.
pub(crate) struct PreparedMetric {
    pub(crate) file: FileId,
    /// The domain, with its serial and labels, if the file does not have it yet.
    indom: Option<(RegisteredIndom, u32, Vec<LabelRecord>)>,
    metric: CheckedMetric,
}

impl<S: Store> Registrations<S> {
    pub(crate) fn new(
        mut first: FileIdentity,
        clusters: Clusters,
        settings: S::Settings,
        pinned: Option<Version>,
        lenient: bool,
    ) -> Result<Self, Error> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let store = S::create(&mut first, &settings, lenient)?;
        Ok(Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            pinned,
            lenient,
            settings,
            names: NameSpace::default(),
            indoms: 0,
            labels: Vec::new(),
            first: RegisteredFile::new(&first, store, pinned),
            overflow: OverflowFiles::new(first, clusters),
            others: Vec::new(),
        })
    }

    /// Returns all files, the first one first.
    pub(crate) fn files(&self) -> impl DoubleEndedIterator<Item = &RegisteredFile<S>> {
        once(&self.first).chain(&self.others)
    }

    /// Returns all files, as [`Registrations::files`] does.
    pub(crate) fn files_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut RegisteredFile<S>> {
        once(&mut self.first).chain(&mut self.others)
    }

    pub(crate) fn file_mut(&mut self, file: FileId) -> &mut RegisteredFile<S> {
        match file.0.checked_sub(1) {
            None => &mut self.first,
            Some(other) => &mut self.others[other],
        }
    }

    /// Returns the first file, and those of the others that are not empty.
    pub(crate) fn into_files(self) -> (RegisteredFile<S>, impl Iterator<Item = RegisteredFile<S>>) {
        (self.first, self.others.into_iter().filter(|file| !file.numbers.is_empty()))
    }

    /// Returns the file for a registration (the last, or a new one if that is full), and what the
    /// registration needs there, with the domain `on` if it is not there yet.
    fn file_for(
        &mut self,
        need: Need,
        on: Option<&RegisteredIndom>,
    ) -> Result<(FileId, Need), Error> {
        let total = |file: &RegisteredFile<S>| match on {
            Some(indom) if !file.indoms.contains_key(&indom.index) => {
                need.plus(indom.record.need())
            }
            _ => need,
        };
        let last = self.others.last().unwrap_or(&self.first);
        let id = FileId(self.others.len());
        let wanted = total(last);
        let has_room = last.numbers.has_room(&wanted) && last.store.has_room(&wanted);
        if last.numbers.is_empty() || has_room {
            return Ok((id, wanted));
        }
        last.store.check_process()?;
        let Some(mut identity) = self.overflow.next()? else { return Ok((id, wanted)) };
        let store = S::create(&mut identity, &self.settings, self.lenient)?;
        let mut file = RegisteredFile::new(&identity, store, self.pinned);
        if file.numbers.can_have_file_labels() {
            for label in &self.labels {
                let label = file.check_file_label(label.clone())?;
                file.add_labels(vec![label]);
            }
        }
        let wanted = total(&file);
        self.others.push(file);
        Ok((FileId(self.others.len()), wanted))
    }

    /// Adds a label of all metrics: to the first file, whose checks report an error, and to all
    /// others where it would reach readers.
    pub(crate) fn add_label(&mut self, label: Label) -> Result<(), Error> {
        let mut records = vec![Some(self.first.check_file_label(label.clone())?)];
        for file in &mut self.others {
            let takes = file.numbers.can_have_file_labels();
            records.push(takes.then(|| file.check_file_label(label.clone())).transpose()?);
        }
        for (file, record) in self.files_mut().zip(records) {
            file.add_labels(record.into_iter().collect());
        }
        self.labels.push(label);
        Ok(())
    }

    /// Registers a domain with its fixed instances.
    pub(crate) fn add_indom(&mut self, spec: IndomSpec) -> Result<RegisteredIndom, Error> {
        let IndomSpec { name, serial, help, instances, labels, instance_labels } = spec;
        let need = Need::of_indom(instances.len(), labels.len() + instance_labels.len());
        let (file, need) = self.file_for(need, None)?;
        let here = self.file_mut(file);
        let serial = here.numbers.check_indom(&name, serial, &help)?;
        let members = check_members(&here.numbers, &name, instances)?;
        let instance_labels = check_targets(&name, &members, instance_labels)?;
        let record = IndomRecord { name, serial, help, labels, instance_labels, members };
        let labels = record.label_records(serial)?;
        here.numbers.check_labels(&labels)?;
        here.store.reserve(&need, &record.name)?;
        let indom =
            RegisteredIndom { registry: self.id, index: self.indoms, record: Arc::new(record) };
        self.indoms += 1;
        self.file_mut(file).add_indom(&indom, serial, labels);
        Ok(indom)
    }

    /// Makes a domain without instances that is in no file yet: it comes with the first metric that
    /// is registered on it. Its serial is `serial`, or the next free one.
    pub(crate) fn new_indom(
        &mut self,
        name: String,
        serial: u32,
    ) -> Result<RegisteredIndom, Error> {
        let file = self.others.last().unwrap_or(&self.first);
        let help = Help::default();
        let serial = match file.numbers.check_indom(&name, SerialChoice::From(serial), &help) {
            // The metric begins another file.
            Err(Error::Full { .. }) => serial,
            serial => serial?,
        };
        let record = IndomRecord {
            name,
            serial,
            help,
            labels: Vec::new(),
            instance_labels: Vec::new(),
            members: Arc::new(std::iter::empty().collect()),
        };
        let indom =
            RegisteredIndom { registry: self.id, index: self.indoms, record: Arc::new(record) };
        self.indoms += 1;
        Ok(indom)
    }

    pub(crate) fn add_singular(&mut self, spec: MetricSpec) -> Result<ValueSlot, Error> {
        let prepared = self.prepare(spec, None, 1, Need::default())?;
        let (store, metric) = self.commit(prepared);
        Ok(store.add_value(&metric))
    }

    pub(crate) fn add_fixed(
        &mut self,
        spec: MetricSpec,
        indom: &RegisteredIndom,
    ) -> Result<Vec<ValueSlot>, Error> {
        let values = indom.record.members.len();
        let prepared = self.prepare(spec, Some(indom), values, Need::default())?;
        let (store, metric) = self.commit(prepared);
        Ok(store.add_values(&metric, indom))
    }

    /// Adds a metric as [`add_fixed`](Self::add_fixed) does. Returns its values also as a strip.
    pub(crate) fn add_strip(
        &mut self,
        spec: MetricSpec,
        indom: &RegisteredIndom,
    ) -> Result<(CellStrip, Vec<ValueSlot>), Error> {
        let values = indom.record.members.len();
        let prepared = self.prepare(spec, Some(indom), values, Need::default())?;
        self.commit_strip(prepared, indom)
    }

    /// Adds the counts of a histogram's buckets, and the sum of its values.
    pub(crate) fn add_histogram(
        &mut self,
        counts: MetricSpec,
        sum: MetricSpec,
        buckets: &RegisteredIndom,
    ) -> Result<(CellStrip, ValueSlot), Error> {
        self.check_name(&sum.name)?;
        let values = buckets.record.members.len();
        let prepared = self.prepare(counts, Some(buckets), values, Need::of_metric(&sum, 1))?;
        let here = self.file_mut(prepared.file);
        // Before the first is registered, so that both are registered or none.
        here.numbers.check_room_for_metrics(2, &sum.name)?;
        here.numbers.check_metric(sum.clone(), None)?;
        let (strip, _) = self.commit_strip(prepared, buckets)?;
        Ok((strip, self.add_singular(sum)?))
    }

    /// Checks a metric with this many values, on a domain or singular, and reserves
    /// room for it and for `also`.
    pub(crate) fn prepare(
        &mut self,
        spec: MetricSpec,
        on: Option<&RegisteredIndom>,
        values: usize,
        also: Need,
    ) -> Result<PreparedMetric, Error> {
        if let Some(indom) = on.filter(|indom| indom.registry != self.id) {
            return Err(Error::OtherRegistry { name: indom.record.name.clone() });
        }
        self.check_name(&spec.name)?;
        let need = Need::of_metric(&spec, values).plus(also);
        let (file, need) = self.file_for(need, on)?;
        let here = self.file_mut(file);
        let (serial, indom) = here.serial_of(on)?;
        let metric = here.numbers.check_metric(spec, serial)?;
        let of_indom = indom.iter().flat_map(|(_, _, labels)| labels);
        here.numbers.check_labels(of_indom.chain(&metric.labels))?;
        here.store.reserve(&need, &metric.name)?;
        Ok(PreparedMetric { file, indom, metric })
    }

    /// Adds a metric that was prepared, without values.
    pub(crate) fn commit(&mut self, prepared: PreparedMetric) -> (&mut S, S::Metric) {
        let PreparedMetric { file, indom, metric } = prepared;
        let CheckedMetric { name, record, labels, shape } = metric;
        let taken = self.names.take(&name, MetricId { file, item: record.item });
        debug_assert_eq!(taken, Ok(true), "{name} was checked");
        let here = self.file_mut(file);
        if let Some((indom, serial, labels)) = indom {
            here.add_indom(&indom, serial, labels);
        }
        here.numbers.take_item(record.item);
        if shape.optional {
            here.store.allow_absent();
        }
        let metric = here.store.add_metric(record, shape);
        here.add_labels(labels);
        (&mut here.store, metric)
    }

    /// Adds a metric that was prepared, with a value for each instance of a domain.
    fn commit_strip(
        &mut self,
        prepared: PreparedMetric,
        indom: &RegisteredIndom,
    ) -> Result<(CellStrip, Vec<ValueSlot>), Error> {
        let values = indom.record.members.len();
        let store = &mut self.file_mut(prepared.file).store;
        let strip = store.next_strip(prepared.metric.shape, values)?;
        let (store, metric) = self.commit(prepared);
        Ok((strip, store.add_values(&metric, indom)))
    }

    /// Releases the name of a metric that is to be removed. Returns the metric, if there is one.
    pub(crate) fn release_name(&mut self, name: &str) -> Option<MetricId> {
        let metric = self.names.holder(name)?;
        self.names.release(name);
        Some(metric)
    }

    /// Checks that a metric may have this name: it is legal and free, and neither a branch of
    /// another name nor below one that is a metric.
    fn check_name(&self, name: &str) -> Result<(), Error> {
        check::metric_name(name)?;
        let checked = self.names.check(name, NO_METRIC);
        if checked == Ok(true) {
            return Ok(());
        }
        let name = name.to_owned();
        Err(match checked {
            Err(NameConflict::LeafAndBranch { other }) if other.len() < name.len() => {
                Error::LeafAndBranch { leaf: other, longer: name }
            }
            Err(NameConflict::LeafAndBranch { other }) => {
                Error::LeafAndBranch { leaf: name, longer: other }
            }
            Ok(_) | Err(NameConflict::Taken { .. }) => {
                Error::NameTaken { what: "metric name", name }
            }
        })
    }
}

impl<S> RegisteredFile<S> {
    fn new(identity: &FileIdentity, store: S, pinned: Option<Version>) -> Self {
        let numbers = FileNumbers::new(identity, pinned);
        Self { numbers, indoms: HashMap::new(), store }
    }
}

impl<S: Store> RegisteredFile<S> {
    /// Returns the serial that a domain has in the file or will have, and what is to be added if it
    /// is not there.
    #[expect(clippy::type_complexity, reason = "taken apart at once")]
    fn serial_of(
        &self,
        on: Option<&RegisteredIndom>,
    ) -> Result<(Option<u32>, Option<(RegisteredIndom, u32, Vec<LabelRecord>)>), Error> {
        let Some(indom) = on else { return Ok((None, None)) };
        if let Some(serial) = self.indoms.get(&indom.index) {
            return Ok((Some(*serial), None));
        }
        let record = &indom.record;
        let serial = self.numbers.choose_like(&record.name, record.serial)?;
        let labels = record.label_records(serial)?;
        Ok((Some(serial), Some((indom.clone(), serial, labels))))
    }

    fn check_file_label(&mut self, label: Label) -> Result<LabelRecord, Error> {
        let record = self.numbers.check_file_label(label)?;
        self.store.reserve(&Need { labels: 1, ..Need::default() }, &record.name)?;
        Ok(record)
    }

    fn add_indom(&mut self, indom: &RegisteredIndom, serial: u32, labels: Vec<LabelRecord>) {
        self.numbers.take_serial(serial);
        self.indoms.insert(indom.index, serial);
        self.store.add_indom(indom, serial);
        self.add_labels(labels);
    }

    fn add_labels(&mut self, labels: Vec<LabelRecord>) {
        for label in &labels {
            self.store.add_label(label);
        }
        self.numbers.take_labels(labels);
    }

    /// Returns the pinned version and the labels of the file, and its store.
    pub(crate) fn into_parts(self) -> (Option<Version>, Vec<LabelRecord>, S) {
        let (pinned, labels) = self.numbers.into_parts();
        (pinned, labels, self.store)
    }
}

/// Checks the instances of a domain, and gives a number to each that has none.
fn check_members(
    numbers: &FileNumbers,
    indom: &str,
    given: Vec<(Option<i32>, String)>,
) -> Result<Arc<Members>, Error> {
    let mut taken = InstanceNumbers::default();
    let mut names = HashSet::new();
    let mut unnumbered: Vec<&str> = Vec::new();
    for (number, name) in &given {
        numbers.check_instance_name(indom, name)?;
        if !names.insert(name) {
            return Err(Error::NameTaken { what: "instance name", name: name.clone() });
        }
        let Some(number) = *number else {
            unnumbered.push(name);
            continue;
        };
        check_instance_number(indom, number)?;
        if !taken.take(number) {
            return Err(Error::NumberTaken {
                what: "instance",
                number: number.into(),
                name: name.clone(),
            });
        }
    }
    let mut chosen = taken.choose_all(&unnumbered).into_iter();
    let mut members = Vec::with_capacity(given.len());
    for (number, name) in given {
        let number = number.or_else(|| chosen.next());
        let id = number.and_then(|number| InstanceId::new(number).ok());
        members.push((id.ok_or_else(|| numbers_used_up(&name))?, name));
    }
    Ok(Arc::new(members.into_iter().collect()))
}

fn check_instance_number(indom: &str, number: i32) -> Result<(), Error> {
    if number >= 0 {
        return Ok(());
    }
    Err(Error::OutOfRange {
        what: "instance",
        name: indom.to_owned(),
        found: i64::from(number),
        min: 0,
        max: i64::from(i32::MAX),
    })
}

fn check_targets(
    indom: &str,
    members: &Members,
    labels: Vec<(String, Label)>,
) -> Result<Vec<(InstanceId, Label)>, Error> {
    let mut targets = Vec::with_capacity(labels.len());
    for (instance, label) in labels {
        let position = members.position_of(&instance);
        let Some((id, _)) = position.and_then(|position| members.get(position)) else {
            return Err(Error::NoInstance { label: label.name, indom: indom.to_owned(), instance });
        };
        targets.push((*id, label));
    }
    Ok(targets)
}

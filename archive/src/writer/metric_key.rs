//! Metrics by key: the short way to write an archive.
//!
//! A metric is added once, by name, and its key sets values of its type. The writer chooses
//! the numbers of PCP: metrics and instance domains of the domain that PCP reserves for
//! archives of other sources (245, `PMI_DOMAIN` in its table `stdpmid`), those of instances from
//! their names, so that each archive of a source has the same ones.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

use pcp_types::{InstanceNumbers, json};

use super::ArchiveWriter;
use crate::{
    Error, InDom, Instance, InstanceId, LabelClass, LabelSet, LabelTarget, MetricDesc, OwnedValue,
    Pmid, Result, Semantics, TextKind, TextTarget, Timestamp, Units, ValueSet, ValueType,
};

/// The domain number of metrics that no agent of PCP has (`PMI_DOMAIN`).
const IMPORT_DOMAIN: u32 = 245;
/// Items of a cluster: the field has ten bits.
const ITEMS: usize = 1024;

/// Distinguishes the keys of writers.
static NEXT_WRITER: AtomicU64 = AtomicU64::new(0);

/// A type that the values of a metric can have: an integer of 32 or 64 bits, `f32`, `f64`, or
/// `str`, which is set by reference.
pub trait MetricValue: sealed::StoredValue {}

mod sealed {
    use super::{OwnedValue, ValueType};

    pub trait StoredValue {
        /// What the methods of [`RecordValues`](super::RecordValues) take: a number, a `&str`.
        type Set<'v>;

        const TYPE: ValueType;
        fn to_value(set: Self::Set<'_>) -> OwnedValue;
    }

    macro_rules! stored {
        ($($rust:ty: $variant:ident),*) => {$(
            impl super::MetricValue for $rust {}
            impl StoredValue for $rust {
                type Set<'v> = $rust;
                const TYPE: ValueType = ValueType::$variant;
                fn to_value(set: $rust) -> OwnedValue {
                    OwnedValue::$variant(set)
                }
            }
        )*};
    }
    stored!(i32: I32, u32: U32, i64: I64, u64: U64, f32: Float, f64: Double);

    impl super::MetricValue for str {}
    impl StoredValue for str {
        type Set<'v> = &'v str;
        const TYPE: ValueType = ValueType::String;
        fn to_value(set: &str) -> OwnedValue {
            OwnedValue::String(set.into())
        }
    }
}

/// A metric of an [`ArchiveWriter`], for [`ArchiveWriter::record`].
pub struct MetricKey<T: ?Sized> {
    writer: u64,
    index: usize,
    value: PhantomData<fn(&T)>,
}

impl<T: ?Sized> Clone for MetricKey<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for MetricKey<T> {}

impl<T: ?Sized> fmt::Debug for MetricKey<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetricKey").field("index", &self.index).finish_non_exhaustive()
    }
}

#[derive(Debug)]
pub(super) struct KeyedMetrics {
    writer: u64,
    metrics: Vec<KeyedMetric>,
    domains: HashMap<InDom, Members>,
}

#[derive(Debug)]
struct KeyedMetric {
    name: String,
    indom: Option<InDom>,
    /// The values of the record that is being written.
    values: ValueSet,
}

/// Instances of a domain. A name keeps its number, also while it is absent.
#[derive(Debug, Default)]
struct Members {
    numbers: HashMap<String, InstanceId>,
    taken: InstanceNumbers,
    present: BTreeSet<InstanceId>,
}

impl Default for KeyedMetrics {
    fn default() -> Self {
        Self {
            writer: NEXT_WRITER.fetch_add(1, Ordering::Relaxed),
            metrics: Vec::new(),
            domains: HashMap::new(),
        }
    }
}

/// A metric that is described and then [added](Self::add).
#[derive(Debug)]
#[must_use = "a metric is in the archive after add()"]
pub struct MetricBuilder<'w, T: ?Sized> {
    writer: &'w mut ArchiveWriter,
    name: String,
    semantics: Semantics,
    units: Units,
    indom: Option<InDom>,
    help: Option<String>,
    labels: Vec<(String, String)>,
    value: PhantomData<fn(&T)>,
}

impl<T: MetricValue + ?Sized> MetricBuilder<'_, T> {
    /// Sets the unit of the values; without it they are plain numbers.
    pub fn units(mut self, units: Units) -> Self {
        self.units = units;
        self
    }

    /// Gives the metric a value for each instance of a domain, which
    /// [`ArchiveWriter::instances`] returned.
    pub fn instances(mut self, indom: InDom) -> Self {
        self.indom = Some(indom);
        self
    }

    /// Sets the help text, one line.
    pub fn help(mut self, text: impl Into<String>) -> Self {
        self.help = Some(text.into());
        self
    }

    /// Adds a label with a text as its value.
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.push((name.into(), value.into()));
        self
    }

    /// Adds the metric to the archive.
    ///
    /// # Errors
    ///
    /// [`Error::NameTaken`], [`Error::LeafAndBranch`] and [`Error::Encode`] for a name that the
    /// archive has already or cannot have, and for labels and texts that it cannot have;
    /// [`Error::UnknownInDom`] for instances of another writer.
    pub fn add(self) -> Result<MetricKey<T>> {
        let keyed = &self.writer.keyed;
        if let Some(indom) = self.indom
            && !keyed.domains.contains_key(&indom)
        {
            return Err(Error::UnknownInDom { indom });
        }
        let pmid = self.writer.unused_pmid()?;
        let pairs: Vec<(&str, String)> =
            self.labels.iter().map(|(name, value)| (name.as_str(), json::quoted(value))).collect();
        let pairs = pairs.iter().map(|(name, value)| (*name, value.as_str(), false));
        let labels = LabelSet::from_pairs(LabelClass::Item, pairs)?;

        let desc = MetricDesc {
            pmid,
            value_type: T::TYPE,
            indom: self.indom,
            semantics: self.semantics,
            units: self.units,
        };
        self.writer.declare_metric(&desc, &[&self.name])?;
        if let Some(help) = self.help {
            self.writer.declare_text(TextTarget::Metric(pmid), TextKind::OneLine, help)?;
        }
        if !self.labels.is_empty() {
            self.writer.declare_labels(LabelTarget::Item(pmid), &[labels])?;
        }
        let values = ValueSet { pmid, values: Ok(Vec::new()) };
        let keyed = &mut self.writer.keyed;
        keyed.metrics.push(KeyedMetric { name: self.name, indom: self.indom, values });
        Ok(MetricKey { writer: keyed.writer, index: keyed.metrics.len() - 1, value: PhantomData })
    }
}

/// Values of one record, while [`ArchiveWriter::record`] collects them.
///
/// A metric that is not set has no value in the record; of a value that is set twice the last
/// one holds. What is wrong with a value is the error of `record`.
#[derive(Debug)]
pub struct RecordValues<'w> {
    keyed: &'w mut KeyedMetrics,
    error: Option<Error>,
}

impl RecordValues<'_> {
    /// Sets the value of a metric without instances: a number of its type, a `&str` of a text.
    pub fn set<T: MetricValue + ?Sized>(&mut self, metric: MetricKey<T>, value: T::Set<'_>) {
        self.put(metric, None, value);
    }

    /// Sets the value of an instance.
    pub fn set_instance<T: MetricValue + ?Sized>(
        &mut self,
        metric: MetricKey<T>,
        instance: impl AsRef<str>,
        value: T::Set<'_>,
    ) {
        self.put(metric, Some(instance.as_ref()), value);
    }

    fn put<T: MetricValue + ?Sized>(
        &mut self,
        metric: MetricKey<T>,
        instance: Option<&str>,
        value: T::Set<'_>,
    ) {
        if self.error.is_none() {
            self.error = self.keyed.put(metric, instance, value).err();
        }
    }
}

impl KeyedMetrics {
    fn put<T: MetricValue + ?Sized>(
        &mut self,
        key: MetricKey<T>,
        instance: Option<&str>,
        value: T::Set<'_>,
    ) -> Result<()> {
        let own = key.writer == self.writer;
        let Some(metric) = self.metrics.get_mut(key.index).filter(|_| own) else {
            return Err(Error::ForeignKey);
        };
        let name = || metric.name.clone();
        let id = match (metric.indom, instance) {
            (None, None) => None,
            (Some(indom), Some(instance)) => {
                let id = self.domains.get(&indom).and_then(|members| members.find(instance));
                if id.is_none() {
                    let instance = instance.to_owned();
                    return Err(Error::UnknownInstance { metric: name(), instance });
                }
                id
            }
            (Some(_), None) => return Err(Error::InstanceNeeded { metric: name() }),
            (None, Some(_)) => return Err(Error::NoInstances { metric: name() }),
        };
        let value = T::to_value(value);
        if let Ok(values) = &mut metric.values.values {
            values.push((id, value));
        }
        Ok(())
    }

    /// Removes the values of the last record.
    fn clear(&mut self) {
        for metric in &mut self.metrics {
            if let Ok(values) = &mut metric.values.values {
                values.clear();
            }
        }
    }
}

impl Members {
    fn find(&self, name: &str) -> Option<InstanceId> {
        self.numbers.get(name).copied().filter(|id| self.present.contains(id))
    }

    /// Makes these the instances that the domain has, and returns them by number.
    fn replace(&mut self, names: impl IntoIterator<Item = String>) -> Result<Vec<Instance>> {
        let names: BTreeSet<String> = names.into_iter().collect();
        let new: Vec<&str> = names
            .iter()
            .map(String::as_str)
            .filter(|name| !self.numbers.contains_key(*name))
            .collect();
        let numbers = self.taken.choose_all(&new);
        if numbers.len() < new.len() {
            return Err(Error::OutOfNumbers { what: "instances of one domain" });
        }
        for (name, number) in new.into_iter().zip(numbers) {
            let id = InstanceId::new(number)
                .map_err(|_| Error::OutOfNumbers { what: "instances of one domain" })?;
            self.numbers.insert(name.to_owned(), id);
        }
        let mut instances = Vec::with_capacity(names.len());
        for name in names {
            if let Some(id) = self.numbers.get(&name) {
                instances.push(Instance { id: *id, name: name.into() });
            }
        }
        self.present = instances.iter().map(|instance| instance.id).collect();
        Ok(instances)
    }
}

/// Metrics by key.
impl ArchiveWriter {
    /// Describes a counter: a number that only grows while its source runs. Readers show its rate.
    pub fn counter<T: MetricValue + Copy>(
        &mut self,
        name: impl Into<String>,
    ) -> MetricBuilder<'_, T> {
        self.metric(name.into(), Semantics::Counter)
    }

    /// Describes a gauge: a number that goes up and down.
    pub fn gauge<T: MetricValue + Copy>(
        &mut self,
        name: impl Into<String>,
    ) -> MetricBuilder<'_, T> {
        self.metric(name.into(), Semantics::Instant)
    }

    /// Describes a text, which holds until it changes.
    pub fn text(&mut self, name: impl Into<String>) -> MetricBuilder<'_, str> {
        self.metric(name.into(), Semantics::Discrete)
    }

    fn metric<T: ?Sized>(&mut self, name: String, semantics: Semantics) -> MetricBuilder<'_, T> {
        MetricBuilder {
            writer: self,
            name,
            semantics,
            units: Units::NONE,
            indom: None,
            help: None,
            labels: Vec::new(),
            value: PhantomData,
        }
    }

    /// Creates an instance domain: the names of the things that metrics have a value of each.
    /// Several metrics may share one.
    ///
    /// # Errors
    ///
    /// As [`set_instances`](Self::set_instances).
    pub fn instances<N: AsRef<str>>(
        &mut self,
        names: impl IntoIterator<Item = N>,
    ) -> Result<InDom> {
        let indom = self.unused_indom()?;
        self.keyed.domains.insert(indom, Members::default());
        self.set_instances(indom, names)?;
        Ok(indom)
    }

    /// Changes the names that an instance domain has, from the next record on. A name that comes
    /// back continues its values.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownInDom`] unless [`instances`](Self::instances) returned the domain;
    /// [`Error::Encode`] for a name with a NUL.
    pub fn set_instances<N: AsRef<str>>(
        &mut self,
        indom: InDom,
        names: impl IntoIterator<Item = N>,
    ) -> Result<()> {
        let Some(members) = self.keyed.domains.get_mut(&indom) else {
            return Err(Error::UnknownInDom { indom });
        };
        let instances = members.replace(names.into_iter().map(|name| name.as_ref().to_owned()))?;
        self.declare_indom(indom, &instances)
    }

    /// Writes a record with the values that `set` sets.
    ///
    /// ```
    /// use pcp_archive::{ArchiveWriter, Timestamp};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let directory = tempfile::tempdir()?;
    /// # let base = directory.path().join("archives/shop");
    /// let mut writer = ArchiveWriter::create(&base)?;
    /// let products = writer.instances(["anvils", "rockets"])?;
    /// let sold = writer.counter::<u64>("shop.sold").instances(products).add()?;
    /// let state = writer.text("shop.state").add()?;
    /// writer.record(Timestamp::now(), |r| {
    ///     r.set_instance(sold, "anvils", 3);
    ///     r.set_instance(sold, "rockets", 1);
    ///     r.set(state, "open");
    /// })?;
    /// writer.finish()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::UnknownInstance`], [`Error::InstanceNeeded`], [`Error::NoInstances`] and
    /// [`Error::ForeignKey`] for the first value that does not fit its metric;
    /// [`Error::TimeBackwards`], [`Error::EmptyRecord`], [`Error::Encode`] and [`Error::Io`] as
    /// [`write_result`](Self::write_result). Then no value is in the archive.
    pub fn record(
        &mut self,
        timestamp: Timestamp,
        set: impl FnOnce(&mut RecordValues<'_>),
    ) -> Result<()> {
        self.keyed.clear();
        let mut values = RecordValues { keyed: &mut self.keyed, error: None };
        set(&mut values);
        if let Some(error) = values.error {
            return Err(error);
        }
        self.builder.clear();
        for metric in &mut self.keyed.metrics {
            let Ok(values) = &mut metric.values.values else { continue };
            if values.is_empty() {
                continue;
            }
            values.sort_by_key(|(id, _)| *id);
            values.dedup_by(|later, earlier| {
                let is_same = later.0 == earlier.0;
                if is_same {
                    std::mem::swap(later, earlier);
                }
                is_same
            });
            let desc = self.declared.desc(metric.values.pmid)?;
            self.builder.put_set(&metric.values, desc.value_type)?;
        }
        self.write_built(timestamp)
    }

    fn unused_pmid(&self) -> Result<Pmid> {
        for number in self.keyed.metrics.len().. {
            let cluster = (number / ITEMS) as u32;
            let item = (number % ITEMS) as u32;
            let pmid = Pmid::new(IMPORT_DOMAIN, cluster, item)
                .map_err(|_| Error::OutOfNumbers { what: "metrics" })?;
            if self.declared.desc(pmid).is_err() {
                return Ok(pmid);
            }
        }
        Err(Error::OutOfNumbers { what: "metrics" })
    }

    /// Returns a number that no declared instance domain has.
    fn unused_indom(&self) -> Result<InDom> {
        for serial in self.keyed.domains.len().. {
            let indom = InDom::new(IMPORT_DOMAIN, serial as u32)
                .map_err(|_| Error::OutOfNumbers { what: "instance domains" })?;
            if !self.keyed.domains.contains_key(&indom) && !self.declared.has_indom(indom) {
                return Ok(indom);
            }
        }
        Err(Error::OutOfNumbers { what: "instance domains" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Archive;
    use crate::test_support::label;
    use crate::writer::WriterOptions;

    fn time(seconds: i64) -> Timestamp {
        Timestamp::new(1_700_000_000 + seconds, 0).unwrap()
    }

    /// The FNV-1a hashes of the names, folded to 31 bits.
    const ANVILS: i32 = 683_406_931;
    const ROCKETS: i32 = 2_067_020_755;
    const MAGNETS: i32 = 673_433_124;

    #[test]
    fn numbers_of_instances_follow_from_their_names_alone() {
        let directory = tempfile::tempdir().unwrap();
        let mut found = Vec::new();
        for (number, names) in [["anvils", "rockets"], ["rockets", "anvils"]].iter().enumerate() {
            let base = directory.path().join(number.to_string());
            let mut writer = ArchiveWriter::create(base).unwrap();
            let products = writer.instances(["magnets"]).unwrap();
            writer.set_instances(products, names.iter().copied()).unwrap();
            let members = &writer.keyed.domains[&products];
            found.push(["anvils", "rockets"].map(|name| members.find(name).unwrap().get()));
            assert_eq!(members.find("magnets"), None);
        }
        assert_eq!(found, [[ANVILS, ROCKETS]; 2]);
    }

    /// An archive with a counter of two products and a text.
    struct Shop {
        writer: ArchiveWriter,
        products: InDom,
        sold: MetricKey<u64>,
        state: MetricKey<str>,
    }

    fn shop(directory: &tempfile::TempDir) -> Shop {
        let mut writer = ArchiveWriter::create(directory.path().join("new/shop")).unwrap();
        let products = writer.instances(["anvils", "rockets"].iter()).unwrap();
        let sold = writer
            .counter::<u64>("shop.sold")
            .instances(products)
            .units(Units::count())
            .help("pieces sold")
            .label("team", "a \"quoted\" one")
            .add()
            .unwrap();
        let state = writer.text("shop.state").add().unwrap();
        Shop { writer, products, sold, state }
    }

    #[test]
    fn record_stores_values_of_each_type_and_instance() {
        let directory = tempfile::tempdir().unwrap();
        let Shop { mut writer, products, sold, state } = shop(&directory);
        let load = writer.gauge::<f64>("shop.load").add().unwrap();
        writer
            .record(time(0), |r| {
                r.set_instance(sold, "rockets", 1);
                r.set(load, 0.5);
                r.set_instance(sold, "anvils", 3);
                r.set(load, 1.5);
            })
            .unwrap();
        writer.set_instances(products, ["magnets", "rockets"]).unwrap();
        writer
            .record(time(1), |r| {
                r.set_instance(sold, "magnets", 7);
                r.set(state, "open");
            })
            .unwrap();
        let base = writer.finish().unwrap().base;

        let archive = Archive::open(&base).unwrap();
        let mut found = Vec::new();
        let mut records = archive.records().unwrap();
        while let Some(record) = records.next().unwrap() {
            for set in record.to_owned(archive.metadata()).unwrap().value_sets {
                let metric = archive.metadata().metric(set.pmid).unwrap();
                for (id, value) in set.values.unwrap() {
                    found.push((metric.display_name().clone(), id.map(InstanceId::get), value));
                }
            }
        }
        let expected = [
            ("shop.sold", Some(ANVILS), OwnedValue::U64(3)),
            ("shop.sold", Some(ROCKETS), OwnedValue::U64(1)),
            ("shop.load", None, OwnedValue::Double(1.5)),
            ("shop.sold", Some(MAGNETS), OwnedValue::U64(7)),
            ("shop.state", None, OwnedValue::String(b"open".to_vec())),
        ];
        assert_eq!(found, expected.map(|(name, id, value)| (name.to_owned(), id, value)));
        let history = archive.metadata().indom_history(products).unwrap();
        let names =
            [ROCKETS, MAGNETS].map(|id| history.name_at(InstanceId::new(id).unwrap(), time(1)));
        assert_eq!(names, [Some("rockets"), Some("magnets")]);
        assert!(crate::check::check(&base).unwrap().findings().is_empty());
    }

    #[test]
    fn wrong_values_are_named_and_nothing_is_written() {
        let directory = tempfile::tempdir().unwrap();
        let Shop { mut writer, sold, state, .. } = shop(&directory);
        let foreign = shop(&tempfile::tempdir().unwrap()).state;
        writer.record(time(5), |r| r.set(state, "open")).unwrap();

        let unknown = writer.record(time(6), |r| {
            r.set(state, "open");
            r.set_instance(sold, "bolts", 1);
            r.set(sold, 1);
        });
        let needed = writer.record(time(6), |r| r.set(sold, 1));
        let without = writer.record(time(6), |r| r.set_instance(state, "anvils", "open"));
        let foreign = writer.record(time(6), |r| r.set(foreign, "open"));
        let empty = writer.record(time(6), |_| ());
        let earlier = writer.record(time(4), |r| r.set(state, "open"));
        for (outcome, expected) in [
            (unknown, "metric shop.sold has no instance \"bolts\": name it in set_instances first"),
            (
                needed,
                "metric shop.sold has a value for each instance: use set_instance in place of set",
            ),
            (
                without,
                "metric shop.state has no instances: use set in place of set_instance, or add it with instances()",
            ),
            (
                foreign,
                "the key of a metric belongs to another writer: use the one that add() returned for this archive",
            ),
            (
                empty,
                "the record of 2023-11-14T22:13:26Z has no value sets; a mark is written by write_mark",
            ),
            (
                earlier,
                "record of 2023-11-14T22:13:24Z after one of 2023-11-14T22:13:25Z: times must not decrease, and must differ before and after a mark",
            ),
        ] {
            assert_eq!(outcome.unwrap_err().to_string(), expected);
        }
        assert_eq!(writer.records(), 1);
    }

    #[test]
    fn metric_that_cannot_be_added_leaves_the_writer_usable() {
        let directory = tempfile::tempdir().unwrap();
        let Shop { mut writer, state, .. } = shop(&directory);
        assert!(matches!(writer.text("shop.state").add(), Err(Error::NameTaken { .. })));
        assert!(matches!(writer.text("shop").add(), Err(Error::LeafAndBranch { .. })));
        assert!(matches!(writer.gauge::<u32>("shop load").add(), Err(Error::Encode { .. })));
        let label = writer.gauge::<u32>("shop.load").label("a b", "c").add();
        assert!(matches!(label, Err(Error::Encode { .. })));
        let indom = InDom::new(1, 1).unwrap();
        let unknown = writer.gauge::<u32>("shop.load").instances(indom).add();
        assert!(matches!(unknown, Err(Error::UnknownInDom { .. })));
        assert!(matches!(writer.set_instances(indom, ["a"]), Err(Error::UnknownInDom { .. })));

        let load = writer.gauge::<u32>("shop.load").add().unwrap();
        let record = writer.record(time(0), |r| {
            r.set(state, "open");
            r.set(load, 1);
        });
        record.unwrap();
    }

    #[test]
    fn keys_take_no_number_of_a_declared_metric() {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().join("a");
        let mut writer =
            ArchiveWriter::create_with(&base, label(), WriterOptions::default()).unwrap();
        let desc = MetricDesc {
            pmid: Pmid::new(IMPORT_DOMAIN, 0, 0).unwrap(),
            value_type: ValueType::U32,
            indom: None,
            semantics: Semantics::Instant,
            units: Units::NONE,
        };
        writer.declare_metric(&desc, &["declared"]).unwrap();
        let mut numbers = Vec::new();
        for n in 0..ITEMS {
            let key = writer.gauge::<u32>(format!("keyed.m{n}")).add().unwrap();
            numbers.push(writer.keyed.metrics[key.index].values.pmid);
        }
        assert_eq!(numbers[0], Pmid::new(IMPORT_DOMAIN, 0, 1).unwrap());
        assert_eq!(numbers[ITEMS - 1], Pmid::new(IMPORT_DOMAIN, 1, 0).unwrap());
    }
}

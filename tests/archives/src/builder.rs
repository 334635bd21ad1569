//! Writes an archive, call by call.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use pcp_archive::raw::{
    ErrorCode, FetchResult, LabelClass, LabelSet, LabelTarget, TextKind, TextTarget, ValueSet,
};
use pcp_archive::{
    ArchiveWriter, InDom, Instance, InstanceId, MetricDesc, OwnedValue, Pmid, Semantics, Timestamp,
    Units, ValueType, WriterLabel, WriterOptions,
};
use tempfile::TempDir;

use crate::{Cell, Seconds, TestArchive, at};

/// Writes an archive. Everything is declared from the next row on, as with a real writer.
///
/// All methods panic on what cannot be written: a test has the wrong data then.
#[derive(Debug)]
pub struct Builder {
    writer: ArchiveWriter,
    directory: Option<TempDir>,
    metrics: BTreeMap<String, MetricDesc>,
    /// Metrics that the writer does not know yet: they may still get instances.
    undeclared: Vec<String>,
    /// Declarations that follow the metrics, in the order of the calls.
    declarations: Vec<Declaration>,
    instances: BTreeMap<InDom, BTreeMap<String, InstanceId>>,
}

/// Metadata that the writer does not know yet.
#[derive(Debug)]
enum Declaration {
    Instances(InDom, Vec<Instance>),
    Text(TextTarget, String),
    Labels(LabelTarget, Vec<LabelSet>),
}

impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}

impl Builder {
    /// Begins an archive `a` in a directory of its own.
    #[must_use]
    pub fn new() -> Self {
        Self::named("a")
    }

    /// Begins an archive with this base name in a directory of its own.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self::with(name, WriterOptions::default())
    }

    /// Begins an archive `a` in a directory of its own, with an index entry after `index_bytes`
    /// bytes.
    #[must_use]
    pub fn indexed(index_bytes: u64) -> Self {
        Self::with("a", WriterOptions { index_bytes, ..WriterOptions::default() })
    }

    /// Begins an archive with this base name and these options in a directory of its own.
    #[must_use]
    pub fn with(name: &str, options: WriterOptions) -> Self {
        let directory = crate::scratch();
        let builder = Self::create(&directory.path().join(name), label("host"), options);
        Self { directory: Some(directory), ..builder }
    }

    /// Begins an archive in a directory that exists.
    #[must_use]
    pub fn in_directory(directory: &Path, name: &str) -> Self {
        Self::create(&directory.join(name), label("host"), WriterOptions::default())
    }

    /// Begins an archive of a host at a path, whose directory is made.
    #[must_use]
    pub fn of_host(hostname: &str, base: &Path) -> Self {
        std::fs::create_dir_all(base.parent().expect("a directory")).expect("make it");
        Self::create(base, label(hostname), WriterOptions::default())
    }

    /// Begins an archive at a path in a directory that exists.
    #[must_use]
    pub fn create(base: &Path, label: WriterLabel, options: WriterOptions) -> Self {
        Self {
            writer: ArchiveWriter::create_with(base, label, options).expect("begin an archive"),
            directory: None,
            metrics: BTreeMap::new(),
            undeclared: Vec::new(),
            declarations: Vec::new(),
            instances: BTreeMap::new(),
        }
    }

    /// Declares a metric by its type, semantics and units, as in `u64 counter count` or
    /// `double instant millisec`. PMIDs are 70.1.1, 70.1.2 and so on.
    #[must_use]
    pub fn metric(self, name: &str, description: &str) -> Self {
        let item = self.metrics.len() as u32 + 1;
        self.metric_with(Pmid::new(70, 1, item).expect("a PMID"), name, description)
    }

    /// Declares a metric with this PMID.
    #[must_use]
    pub fn metric_with(self, pmid: Pmid, name: &str, description: &str) -> Self {
        let mut words = description.splitn(3, ' ');
        let [value_type, semantics, units] = [(); 3].map(|()| words.next().unwrap_or(""));
        let value_type = match value_type {
            "i32" => ValueType::I32,
            "u32" => ValueType::U32,
            "i64" => ValueType::I64,
            "u64" => ValueType::U64,
            "float" => ValueType::Float,
            "double" => ValueType::Double,
            "string" => ValueType::String,
            "aggregate" => ValueType::Aggregate,
            "event" => ValueType::Event,
            "highres-event" => ValueType::HighresEvent,
            other => panic!("no type {other:?}; a description is `u64 counter count`"),
        };
        let semantics = match semantics {
            "counter" => Semantics::Counter,
            "instant" => Semantics::Instant,
            "discrete" => Semantics::Discrete,
            other => panic!("no semantics {other:?}; a description is `u64 counter count`"),
        };
        let units = match units {
            "" | "none" => Units::NONE,
            units => units.parse().expect("units"),
        };
        self.described(name, MetricDesc { pmid, value_type, indom: None, semantics, units })
    }

    /// Declares a metric.
    #[must_use]
    pub fn described(mut self, name: &str, desc: MetricDesc) -> Self {
        self.metrics.insert(name.to_owned(), desc);
        self.undeclared.push(name.to_owned());
        self
    }

    /// Gives the instance domain of a metric this number. Metrics with one number share their
    /// instances.
    #[must_use]
    pub fn in_domain(mut self, metric: &str, serial: u32) -> Self {
        let mut desc = self.desc(metric);
        assert!(self.undeclared.iter().any(|name| name == metric), "{metric} has a row");
        desc.indom = Some(InDom::new(desc.pmid.domain(), serial).expect("a domain"));
        self.metrics.insert(metric.to_owned(), desc);
        self
    }

    /// Gives a metric instances, numbered from 0, in place of those that it has.
    #[must_use]
    pub fn instances<'n>(self, metric: &str, names: impl IntoIterator<Item = &'n str>) -> Self {
        self.numbered_instances(metric, (0..).zip(names))
    }

    /// Gives a metric instances with these numbers, in place of those that it has. Its domain has
    /// the number of its PMID, if [`in_domain`](Self::in_domain) has given it none.
    #[must_use]
    pub fn numbered_instances<'n>(
        mut self,
        metric: &str,
        instances: impl IntoIterator<Item = (i32, &'n str)>,
    ) -> Self {
        let desc = self.desc(metric);
        if desc.indom.is_none() {
            self = self.in_domain(metric, desc.pmid.raw() & 0x3f_ffff);
        }
        let indom = self.desc(metric).indom.expect("its domain");
        let instances: Vec<_> = instances
            .into_iter()
            .map(|(number, name)| Instance {
                id: InstanceId::new(number).expect("a number"),
                name: name.into(),
            })
            .collect();
        let ids = instances.iter().map(|one| (one.name.to_string(), one.id));
        self.instances.insert(indom, ids.collect());
        self.declarations.push(Declaration::Instances(indom, instances));
        self
    }

    /// Gives a metric a short help text.
    #[must_use]
    pub fn help(mut self, metric: &str, text: &str) -> Self {
        let target = TextTarget::Metric(self.desc(metric).pmid);
        self.declarations.push(Declaration::Text(target, text.to_owned()));
        self
    }

    /// Gives the archive labels; values are text.
    #[must_use]
    pub fn context_labels(mut self, labels: &[(&str, &str)]) -> Self {
        let set = label_set(LabelClass::Context, labels);
        self.declarations.push(Declaration::Labels(LabelTarget::Context, vec![set]));
        self
    }

    /// Gives a metric labels; values are text.
    #[must_use]
    pub fn labels(mut self, metric: &str, labels: &[(&str, &str)]) -> Self {
        let target = LabelTarget::Item(self.desc(metric).pmid);
        let set = label_set(LabelClass::Item, labels);
        self.declarations.push(Declaration::Labels(target, vec![set]));
        self
    }

    /// Gives the instance domain of a metric labels; values are numbers.
    #[must_use]
    pub fn domain_labels(mut self, metric: &str, labels: &[(&str, i64)]) -> Self {
        let target = LabelTarget::InDom(self.desc(metric).indom.expect("instances"));
        let numbers: Vec<_> =
            labels.iter().map(|(name, value)| (*name, value.to_string())).collect();
        let pairs = numbers.iter().map(|(name, value)| (*name, value.as_str(), false));
        let set = LabelSet::from_pairs(LabelClass::InDom, pairs).expect("labels");
        self.declarations.push(Declaration::Labels(target, vec![set]));
        self
    }

    /// Gives instances of a metric labels, each by its name; values are text.
    #[must_use]
    pub fn instance_labels(mut self, metric: &str, labels: &[(&str, &[(&str, &str)])]) -> Self {
        let desc = self.desc(metric);
        let sets: Vec<_> = labels
            .iter()
            .map(|(instance, labels)| {
                label_set(LabelClass::Instances, labels)
                    .for_instance(self.instance(&desc, instance))
            })
            .collect();
        let target = LabelTarget::Instances(desc.indom.expect("instances"));
        self.declarations.push(Declaration::Labels(target, sets));
        self
    }

    /// Writes a record some seconds after the start. Values are named `metric` or
    /// `metric[instance]`, with the name of an instance, or the number of one that has no name;
    /// those of one metric become one set, in the order given.
    #[must_use]
    pub fn row<N: AsRef<str>, C: Into<Cell>>(
        self,
        seconds: impl Seconds,
        cells: impl IntoIterator<Item = (N, C)>,
    ) -> Self {
        self.row_at(at(seconds), cells)
    }

    /// Writes a record with this time; see [`row`](Self::row).
    #[must_use]
    pub fn row_at<N: AsRef<str>, C: Into<Cell>>(
        mut self,
        timestamp: Timestamp,
        cells: impl IntoIterator<Item = (N, C)>,
    ) -> Self {
        self.declare();
        let mut value_sets: Vec<ValueSet> = Vec::new();
        let mut positions = HashMap::new();
        for (name, cell) in cells {
            let (metric, instance) = match name.as_ref().split_once('[') {
                Some((metric, rest)) => (metric, rest.strip_suffix(']')),
                None => (name.as_ref(), None),
            };
            let desc = self.desc(metric);
            let id = instance.map(|instance| self.instance(&desc, instance));
            put(&mut value_sets, &mut positions, &desc, id, cell.into());
        }
        self.writer.write_result(&FetchResult { timestamp, value_sets }).expect("write a record");
        self
    }

    /// Writes records; see [`row`](Self::row).
    #[must_use]
    pub fn rows<S: Seconds, N: AsRef<str>, C: Into<Cell>>(
        self,
        rows: impl IntoIterator<Item = (S, impl IntoIterator<Item = (N, C)>)>,
    ) -> Self {
        rows.into_iter().fold(self, |builder, (seconds, cells)| builder.row(seconds, cells))
    }

    /// Writes a mark some seconds after the start.
    #[must_use]
    pub fn mark(self, seconds: impl Seconds) -> Self {
        self.mark_at(at(seconds))
    }

    /// Writes a mark with this time.
    #[must_use]
    pub fn mark_at(mut self, timestamp: Timestamp) -> Self {
        self.declare();
        self.writer.write_mark(timestamp).expect("write a mark");
        self
    }

    /// Lets the next record begin another volume.
    #[must_use]
    pub fn volume(mut self) -> Self {
        self.writer.switch_volume();
        self
    }

    /// Finishes the archive.
    pub fn finish(self) -> TestArchive {
        let summary = self.writer.finish().expect("finish an archive");
        TestArchive { base: summary.base, directory: self.directory }
    }

    /// Calls `write` for everything that the builder has no method for.
    #[must_use]
    pub fn with_writer(mut self, write: impl FnOnce(&mut ArchiveWriter)) -> Self {
        self.declare();
        write(&mut self.writer);
        self
    }

    /// Declares what the writer does not know yet.
    fn declare(&mut self) {
        for name in std::mem::take(&mut self.undeclared) {
            let desc = self.metrics[&name];
            self.writer.declare_metric(&desc, &[&name]).expect("declare a metric");
        }
        for declaration in std::mem::take(&mut self.declarations) {
            let declared = match declaration {
                Declaration::Instances(indom, instances) => {
                    self.writer.declare_indom(indom, &instances)
                }
                Declaration::Text(target, text) => {
                    self.writer.declare_text(target, TextKind::OneLine, &text)
                }
                Declaration::Labels(target, sets) => self.writer.declare_labels(target, &sets),
            };
            declared.expect("declare metadata");
        }
    }

    fn desc(&self, metric: &str) -> MetricDesc {
        *self.metrics.get(metric).unwrap_or_else(|| panic!("no metric {metric} is declared"))
    }

    fn instance(&self, desc: &MetricDesc, name: &str) -> InstanceId {
        let instances = desc.indom.and_then(|indom| self.instances.get(&indom));
        if let Some(id) = instances.and_then(|ids| ids.get(name)) {
            return *id;
        }
        let number = name.parse().ok().and_then(|number| InstanceId::new(number).ok());
        number.unwrap_or_else(|| panic!("no instance {name} of {} is declared", desc.pmid))
    }
}

/// Returns the label of archives of a host.
#[must_use]
pub fn label(hostname: &str) -> WriterLabel {
    WriterLabel { pid: 1, hostname: hostname.into(), timezone: "UTC".into(), zoneinfo: "".into() }
}

/// Adds a value to the set of its metric, which is at its position in `positions`.
fn put(
    sets: &mut Vec<ValueSet>,
    positions: &mut HashMap<Pmid, usize>,
    desc: &MetricDesc,
    instance: Option<InstanceId>,
    cell: Cell,
) {
    if let Cell::Error(code) = cell {
        let code = ErrorCode::new(code).expect("a negative code");
        positions.insert(desc.pmid, sets.len());
        sets.push(ValueSet { pmid: desc.pmid, values: Err(code) });
        return;
    }
    let value: Option<OwnedValue> = cell.of_type(desc.value_type);
    let value = value.map(|value| (instance, value));
    let position = *positions.entry(desc.pmid).or_insert_with(|| {
        sets.push(ValueSet { pmid: desc.pmid, values: Ok(Vec::new()) });
        sets.len() - 1
    });
    let Ok(values) = &mut sets[position].values else {
        panic!("{} has an error code and values", desc.pmid)
    };
    values.extend(value);
}

fn label_set(class: LabelClass, labels: &[(&str, &str)]) -> LabelSet {
    let quoted: Vec<_> =
        labels.iter().map(|(name, value)| (*name, format!("\"{value}\""))).collect();
    let pairs = quoted.iter().map(|(name, value)| (*name, value.as_str(), false));
    LabelSet::from_pairs(class, pairs).expect("labels")
}

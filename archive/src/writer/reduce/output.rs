//! The reduced values that wait until all of their time are known, and the records that they
//! become.

use hashbrown::HashSet;

use super::grid::IntervalGrid;
use crate::format::desc;
use crate::reader::column::number;
use crate::scan::extremes::Side;
use crate::scan::{SelectedMetric, Selection, is_extreme};
use crate::writer::NameRules;
use crate::writer::copy::{Change, Changes};
use crate::writer::extract::mapping::Mapping;
use crate::writer::extract::parameters;
use crate::writer::rewrite::Rules;
use crate::{
    ArchiveWriter, ByteText, InDom, InstanceId, LabelTarget, Metric, Pmid, Result, Source,
    TextKind, TextTarget, Timestamp, Value, ValueType,
};

/// A value of a column, with its own bytes.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum StagedValue {
    /// The word of a number.
    Number(u64),
    /// The bytes of any other.
    Bytes(Box<[u8]>),
    /// There is a record at this time, with no values that are known of here.
    Row,
    Mark,
}

/// A value that waits. Ordered as in the archive.
#[derive(Debug)]
struct PendingValue {
    /// Number of marks before it.
    run: u32,
    at: Timestamp,
    /// The place of the metric in the selection; that of a mark is behind all others.
    metric: u32,
    slot: OutputSlot,
    instance: Option<InstanceId>,
    value: StagedValue,
}

/// The metric of a value: the one that was selected, or one of those with its extremes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum OutputSlot {
    Value,
    Minimum,
    Maximum,
}

impl From<Side> for OutputSlot {
    fn from(side: Side) -> Self {
        match side {
            Side::Minimum => Self::Minimum,
            Side::Maximum => Self::Maximum,
        }
    }
}

impl PendingValue {
    const NO_METRIC: u32 = u32::MAX;

    fn order(&self) -> (u32, Timestamp, u32, OutputSlot, Option<InstanceId>) {
        (self.run, self.at, self.metric, self.slot, self.instance)
    }
}

/// A metric as it is written.
#[derive(Debug)]
struct OutputMetric {
    pmid: Pmid,
    new_pmid: Option<Pmid>,
    value_type: ValueType,
    /// The metrics of its minimum and its maximum.
    extremes: [Option<Metric>; 2],
    has_extremes: bool,
}

/// The records of the new archive.
#[derive(Debug)]
pub(super) struct Output<'p, 'a> {
    source: Source<'a>,
    mapping: Mapping,
    metrics: Vec<OutputMetric>,
    /// The domains of gauges, and those of their extremes.
    extreme_indoms: HashSet<(InDom, InDom)>,
    /// Start of the window.
    start: Timestamp,
    /// Metadata that was not written yet; from the first record on.
    changes: Option<Changes<'a>>,
    staged: Vec<PendingValue>,
    writer: &'p mut ArchiveWriter,
}

/// The place of a metric in the selection, and which of its numbers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target {
    pub(super) metric: usize,
    pub(super) slot: OutputSlot,
}

/// The output for the values of one instance.
#[derive(Debug)]
pub(super) struct InstanceOutput<'o> {
    staged: &'o mut Vec<PendingValue>,
    grid: &'o IntervalGrid,
    /// Start of the source.
    start: Timestamp,
    run: u32,
    metric: u32,
    slot: OutputSlot,
    instance: Option<InstanceId>,
}

impl InstanceOutput<'_> {
    pub(super) const fn grid(&self) -> &IntervalGrid {
        self.grid
    }

    /// Returns the start of the source, from which replay counts seconds.
    pub(super) const fn start(&self) -> Timestamp {
        self.start
    }

    /// Adds a number; of several at one time the last holds.
    pub(super) fn put(&mut self, at: Timestamp, word: u64) {
        self.put_value(at, StagedValue::Number(word));
    }

    pub(super) fn put_value(&mut self, at: Timestamp, value: StagedValue) {
        let Self { run, metric, slot, instance, .. } = *self;
        self.staged.push(PendingValue { run, at, metric, slot, instance, value });
    }

    /// Adds an extreme of the values.
    pub(super) fn put_extreme(&mut self, slot: OutputSlot, at: Timestamp, word: u64) {
        let Self { run, metric, instance, .. } = *self;
        let value = StagedValue::Number(word);
        self.staged.push(PendingValue { run, at, metric, slot, instance, value });
    }
}

impl<'p, 'a> Output<'p, 'a> {
    pub(super) fn new(
        selection: &Selection<'a>,
        start: Timestamp,
        writer: &'p mut ArchiveWriter,
    ) -> Result<Self> {
        let mapping = Mapping::new(selection, &Rules::default())?;
        let metrics = selection.metrics().iter().map(|metric| {
            let pmid = metric.desc.pmid;
            let new_pmid = mapping.wanted(pmid).map(|(pmid, _)| pmid);
            let extremes = Side::BOTH.map(|side| extreme(side, metric, selection));
            let value_type = metric.desc.value_type;
            OutputMetric { pmid, new_pmid, value_type, extremes, has_extremes: false }
        });
        let metrics: Vec<OutputMetric> = metrics.collect();
        let extremes = selection.metrics().iter().zip(&metrics).flat_map(|(gauge, metric)| {
            let extremes = metric.extremes.iter().flatten();
            extremes.filter_map(|extreme| gauge.desc.indom.zip(extreme.desc.indom))
        });
        let extreme_indoms = extremes.collect();
        let source = selection.source();
        let changes = None;
        let staged = Vec::new();
        Ok(Self { source, mapping, metrics, extreme_indoms, start, changes, staged, writer })
    }

    /// Returns where the values of an instance go that follow `run` marks.
    pub(super) fn of_instance<'o>(
        &'o mut self,
        grid: &'o IntervalGrid,
        run: u32,
        target: Target,
        instance: Option<InstanceId>,
    ) -> InstanceOutput<'o> {
        let start = self.source.start();
        let Target { metric, slot } = target;
        let metric = metric as u32;
        InstanceOutput { staged: &mut self.staged, grid, start, run, metric, slot, instance }
    }

    /// Adds a mark after `run` others.
    pub(super) fn put_mark(&mut self, run: u32, at: Timestamp) {
        let metric = PendingValue::NO_METRIC;
        let slot = OutputSlot::Value;
        let value = StagedValue::Mark;
        self.staged.push(PendingValue { run, at, metric, slot, instance: None, value });
    }

    /// Keeps a time of the source at which a metric may have no values.
    pub(super) fn put_row(&mut self, run: u32, at: Timestamp, metric: usize) {
        let metric = metric as u32;
        let slot = OutputSlot::Value;
        let value = StagedValue::Row;
        self.staged.push(PendingValue { run, at, metric, slot, instance: None, value });
    }

    /// Writes all that is before a time.
    pub(super) fn flush(&mut self, before: Timestamp) -> Result<()> {
        let mut staged = std::mem::take(&mut self.staged);
        staged.sort_by_key(PendingValue::order);
        let ready = staged.iter().take_while(|staged| staged.at < before).count();
        self.write_records(staged.get(..ready).unwrap_or_default())?;
        staged.drain(..ready);
        self.staged = staged;
        Ok(())
    }

    /// Writes all.
    pub(super) fn finish(&mut self) -> Result<()> {
        let mut staged = std::mem::take(&mut self.staged);
        staged.sort_by_key(PendingValue::order);
        self.write_records(&staged)
    }

    fn write_records(&mut self, staged: &[PendingValue]) -> Result<()> {
        for record in staged.chunk_by(|one, other| one.run == other.run && one.at == other.at) {
            // Marks are the last of their time.
            let values = record.partition_point(|staged| staged.value != StagedValue::Mark);
            let (values, marks) = record.split_at(values);
            if let Some(first) = values.first() {
                self.write_values(first.at, values)?;
            }
            if let Some(mark) = marks.first() {
                self.write_mark(mark.at)?;
            }
        }
        Ok(())
    }

    fn write_mark(&mut self, timestamp: Timestamp) -> Result<()> {
        let Some(timestamp) = self.writer.time_of_mark(timestamp) else { return Ok(()) };
        self.declare_until(timestamp)?;
        self.writer.write_mark(timestamp)
    }

    /// Writes a record of values in their order.
    fn write_values(&mut self, at: Timestamp, staged: &[PendingValue]) -> Result<()> {
        let earliest = self.writer.earliest_next(false);
        let timestamp = at.max(earliest.unwrap_or(at));
        self.declare_until(timestamp)?;
        self.declare_parameters(staged, timestamp)?;
        self.declare_extremes(staged, timestamp)?;
        self.writer.builder.clear();
        let same = |one: &PendingValue, other: &PendingValue| {
            (one.metric, one.slot) == (other.metric, other.slot)
        };
        for set in staged.chunk_by(same) {
            self.put_set(at, set)?;
        }
        if self.writer.builder.is_empty() { Ok(()) } else { self.writer.write_built(timestamp) }
    }

    /// Adds the values of one metric to the record.
    fn put_set(&mut self, at: Timestamp, staged: &[PendingValue]) -> Result<()> {
        let Some(first) = staged.first() else { return Ok(()) };
        let Some(metric) = self.metrics.get(first.metric as usize) else { return Ok(()) };
        let Some(new_pmid) = metric.pmid_of(first.slot) else { return Ok(()) };
        let builder = &mut self.writer.builder;
        if staged.iter().all(|staged| staged.value == StagedValue::Row) {
            builder.put_empty_set(new_pmid, None);
            return Ok(());
        }
        builder.begin_set(new_pmid, metric.value_type);
        let indom = self.source.metadata().metric(metric.pmid).and_then(|metric| metric.desc.indom);
        let history = indom.and_then(|indom| self.source.metadata().indom_history(indom));
        for same in staged.chunk_by(|one, other| one.instance == other.instance) {
            let Some(last) = held_value(same, metric.value_type) else { continue };
            let number = match (last.instance, history) {
                (Some(identity), Some(history)) => {
                    // Another name may have the number now.
                    let number = history.number_at(identity, at);
                    let number =
                        number.filter(|number| history.identity_at(*number, at) == Some(identity));
                    let Some(number) = number else { continue };
                    Some(number)
                }
                (instance, _) => instance,
            };
            let Some(value) = last.value.value(metric.value_type) else { continue };
            builder.put_value(number, metric.value_type, value)?;
        }
        Ok(())
    }

    /// Declares those with the extremes of metrics that have values.
    fn declare_extremes(&mut self, staged: &[PendingValue], timestamp: Timestamp) -> Result<()> {
        let metadata = self.source.metadata();
        for staged in staged.iter().filter(|staged| staged.slot != OutputSlot::Value) {
            let Some(metric) = self.metrics.get_mut(staged.metric as usize) else { continue };
            if std::mem::replace(&mut metric.has_extremes, true) {
                continue;
            }
            let labels = metadata.labels_at(LabelTarget::Item(metric.pmid), timestamp);
            for extreme in metric.extremes.iter().flatten() {
                self.writer.declare_copied(extreme, NameRules::OneOwner)?;
                let pmid = extreme.desc.pmid;
                for kind in [TextKind::OneLine, TextKind::Full] {
                    if let Some(text) = metadata.text(TextTarget::Metric(metric.pmid), kind) {
                        self.writer.declare_text(TextTarget::Metric(pmid), kind, text)?;
                    }
                }
                if let Some(sets) = labels {
                    self.writer.declare_labels(LabelTarget::Item(pmid), sets)?;
                }
            }
        }
        Ok(())
    }

    /// Declares the metrics that events name.
    fn declare_parameters(&mut self, staged: &[PendingValue], timestamp: Timestamp) -> Result<()> {
        let mut found = HashSet::new();
        for staged in staged {
            let Some(metric) = self.metrics.get(staged.metric as usize) else { continue };
            if metric.value_type.is_event()
                && let Some(value) = staged.value.value(metric.value_type)
            {
                parameters::collect(value, &mut found);
            }
        }
        let metadata = self.source.metadata();
        parameters::declare_all(found, timestamp, &mut self.mapping, metadata, self.writer)
    }

    /// Declares the metadata up to the time of the next record.
    fn declare_until(&mut self, timestamp: Timestamp) -> Result<()> {
        let changes = self.changes.get_or_insert_with(|| {
            let is_whole = self.start <= self.source.start();
            let start = if is_whole { self.source.start().min(timestamp) } else { timestamp };
            Changes::new(self.source.metadata(), start)
        });
        while let Some((from, change)) = changes.next_until(timestamp) {
            self.mapping.move_to(from);
            copy_for_extremes(&change, &self.extreme_indoms, self.writer)?;
            if self.mapping.declare(change, self.writer)? {
                self.writer.date_metadata(from)?;
            }
        }
        Ok(())
    }
}

impl OutputMetric {
    /// Returns the PMID of its values, or of its extremes.
    fn pmid_of(&self, slot: OutputSlot) -> Option<Pmid> {
        let new = self.new_pmid?;
        let extreme = match slot {
            OutputSlot::Value => return Some(new),
            OutputSlot::Minimum => self.extremes.first(),
            OutputSlot::Maximum => self.extremes.last(),
        };
        extreme?.as_ref().map(|extreme| extreme.desc.pmid)
    }
}

/// Declares a change of a gauge's domain for the domains of its extremes.
fn copy_for_extremes(
    change: &Change<'_>,
    indoms: &HashSet<(InDom, InDom)>,
    writer: &mut ArchiveWriter,
) -> Result<()> {
    let changed = match change {
        Change::Indom(indom, _)
        | Change::Labels(LabelTarget::InDom(indom) | LabelTarget::Instances(indom), _) => *indom,
        _ => return Ok(()),
    };
    for (_, copy) in indoms.iter().filter(|(indom, _)| *indom == changed) {
        match change {
            Change::Indom(_, instances) => writer.declare_indom(*copy, instances)?,
            Change::Labels(LabelTarget::InDom(_), sets) => {
                writer.declare_labels(LabelTarget::InDom(*copy), sets)?;
            }
            Change::Labels(_, sets) => {
                writer.declare_labels(LabelTarget::Instances(*copy), sets)?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns the metric with an extreme of another; `None` if its name is too long, or another metric
/// of the source has its name or PMID.
fn extreme(side: Side, gauge: &SelectedMetric, selection: &Selection<'_>) -> Option<Metric> {
    let desc = side.desc(gauge)?;
    let metadata = selection.source().metadata();
    if is_extreme(gauge, metadata) {
        return None;
    }
    let name = side.name(&gauge.name);
    let known = metadata.metric(desc.pmid);
    let named = metadata.metric_by_name(&name);
    let is_free = known.is_none() && named.is_none();
    let is_there = named.is_some_and(|metric| metric.desc == desc);
    let name = ByteText::from_escaped(&name);
    let has_room = desc::check_len(&name.to_bytes()).is_ok();
    ((is_free || is_there) && has_room).then(|| Metric { desc, names: vec![name] })
}

/// Returns the value that holds of several of one instance and time: the least or greatest of
/// extremes, else the last.
fn held_value(same: &[PendingValue], value_type: ValueType) -> Option<&PendingValue> {
    let number = |staged: &&PendingValue| {
        staged.value.value(value_type).and_then(|value| value.as_f64()).unwrap_or(f64::NAN)
    };
    match same.first()?.slot {
        OutputSlot::Value => same.iter().rfind(|staged| staged.value != StagedValue::Row),
        OutputSlot::Minimum => {
            same.iter().min_by(|one, other| number(one).total_cmp(&number(other)))
        }
        OutputSlot::Maximum => {
            same.iter().max_by(|one, other| number(one).total_cmp(&number(other)))
        }
    }
}

impl StagedValue {
    /// Returns the value of a metric of this type; `None` where there is none.
    fn value(&self, value_type: ValueType) -> Option<Value<'_>> {
        match (self, value_type) {
            (Self::Number(word), _) => number(value_type, *word),
            (Self::Bytes(bytes), ValueType::String) => Some(Value::String(bytes)),
            (Self::Bytes(bytes), ValueType::Aggregate | ValueType::AggregateStatic) => {
                Some(Value::Aggregate(bytes))
            }
            (Self::Bytes(bytes), ValueType::Event) => Some(Value::Event(bytes)),
            (Self::Bytes(bytes), ValueType::HighresEvent) => Some(Value::HighresEvent(bytes)),
            _ => None,
        }
    }
}

impl From<Value<'_>> for StagedValue {
    fn from(value: Value<'_>) -> Self {
        match value {
            Value::I32(v) => Self::Number(u64::from(v.cast_unsigned())),
            Value::U32(v) => Self::Number(u64::from(v)),
            Value::I64(v) => Self::Number(v.cast_unsigned()),
            Value::U64(v) => Self::Number(v),
            Value::Float(v) => Self::Number(u64::from(v.to_bits())),
            Value::Double(v) => Self::Number(v.to_bits()),
            Value::String(bytes)
            | Value::Aggregate(bytes)
            | Value::Event(bytes)
            | Value::HighresEvent(bytes) => Self::Bytes(bytes.into()),
        }
    }
}

//! The archives that are measured on, made by our own writer.

use std::path::Path;
use std::time::Duration;

use pcp_archive::raw::prepared::TemplateBuilder;
use pcp_archive::raw::{FetchResult, ValueSet};
use pcp_archive::{
    ArchiveWriter, InDom, Instance, InstanceId, MetricDesc, OwnedValue, Pmid, Semantics, Timestamp,
    Units, ValueType, WriterLabel, WriterOptions,
};

use crate::random::mix;

pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Bytes of a metric's value in a record: value set and block.
pub(crate) const VALUE: u64 = 32;

/// Start of all archives, in seconds since 1970.
const START: i64 = 1_700_000_000;

/// An archive of 64-bit metrics, counters and gauges in turn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) metrics: u32,
    /// Instances of each metric; 0 for singular ones. Only prepared records can have them.
    pub(crate) instances: u32,
    pub(crate) records: u64,
    /// Marks among the records, evenly spread.
    pub(crate) marks: u64,
}

/// About 160 MB.
impl Default for Shape {
    fn default() -> Self {
        Self { metrics: 1000, instances: 0, records: 5000, marks: 0 }
    }
}

/// Returns the value of a metric in a record, as the bits of its type. `peers/write.c` has the
/// same in C.
///
/// Counters rise by 65 536 a record give or take as much; gauges are anything
/// from -2^23 to 2^23. Both are noise: no codec makes less than 2 bytes of a counter's value and
/// 3 bytes of a gauge's.
pub(crate) fn value(metric: u32, record: u64) -> u64 {
    let mixed = mix(u64::from(metric) << 32 | record);
    if Shape::is_counter(metric) {
        u64::from(metric) * 1_000_003 + record * 65_536 + (mixed >> 48)
    } else {
        (mixed >> 40).wrapping_sub(1 << 23)
    }
}

impl Shape {
    pub(crate) fn is_counter(metric: u32) -> bool {
        metric.is_multiple_of(2)
    }

    pub(crate) fn name(metric: u32) -> String {
        let branch = ["a", "b", "c"][metric as usize % 3];
        format!("bench.{branch}.n{metric}")
    }

    pub(crate) fn desc(metric: u32) -> Result<MetricDesc> {
        let (value_type, semantics) = if Self::is_counter(metric) {
            (ValueType::U64, Semantics::Counter)
        } else {
            (ValueType::I64, Semantics::Instant)
        };
        // An item number has 10 bits.
        let pmid = Pmid::new(70, 1 + metric / 1000, metric % 1000)?;
        Ok(MetricDesc { pmid, value_type, indom: None, semantics, units: Units::count() })
    }

    pub(crate) fn writer(&self, base: &Path) -> Result<(ArchiveWriter, Vec<MetricDesc>)> {
        let label = WriterLabel {
            pid: 1,
            hostname: "bench".into(),
            timezone: "UTC".into(),
            zoneinfo: "".into(),
        };
        let mut writer = ArchiveWriter::create_with(base, label, WriterOptions::default())?;
        let mut descs: Vec<_> = (0..self.metrics).map(Self::desc).collect::<Result<_>>()?;
        let indom = if self.instances > 0 { Some(InDom::new(70, 1)?) } else { None };
        for desc in &mut descs {
            desc.indom = indom;
        }
        for (metric, desc) in (0..).zip(&descs) {
            writer.declare_metric(desc, &[&Self::name(metric)])?;
        }
        Ok((writer, descs))
    }

    /// Declares the instances, and returns what each value of a metric is of.
    fn instances(&self, writer: &mut ArchiveWriter) -> Result<Vec<Option<InstanceId>>> {
        if self.instances == 0 {
            return Ok(vec![None]);
        }
        let all: Vec<Instance> = (0..self.instances)
            .map(|id| {
                let name = format!("instance-{id}").into();
                Ok(Instance { id: InstanceId::new(i32::try_from(id)?)?, name })
            })
            .collect::<Result<_>>()?;
        writer.declare_indom(InDom::new(70, 1)?, &all)?;
        Ok(all.iter().map(|instance| Some(instance.id)).collect())
    }

    pub(crate) fn values(&self) -> u64 {
        u64::from(self.metrics) * u64::from(self.instances.max(1)) * self.records
    }

    pub(crate) fn timestamp(record: u64) -> Result<Timestamp> {
        Ok(Timestamp::new(START + record as i64, 0)?)
    }

    /// Writes the archive by the call that takes any values. The result is put
    /// together once and then changed, as a program with steady metrics does.
    pub(crate) fn write(&self, base: &Path) -> Result<()> {
        let (mut writer, descs) = self.writer(base)?;
        let none = || Ok(vec![(None, OwnedValue::U64(0))]);
        let sets = descs.iter().map(|desc| ValueSet { pmid: desc.pmid, values: none() });
        let mut result = FetchResult { timestamp: Timestamp::EPOCH, value_sets: sets.collect() };
        for record in 0..self.records {
            result.timestamp = Self::timestamp(record)?;
            for (metric, set) in (0..).zip(&mut result.value_sets) {
                let bits = value(metric, record);
                let Ok([(_, stored)]) = set.values.as_deref_mut() else { continue };
                *stored = if Self::is_counter(metric) {
                    OwnedValue::U64(bits)
                } else {
                    OwnedValue::I64(bits.cast_signed())
                };
            }
            writer.write_result(&result)?;
            self.mark_after(record, &mut writer)?;
        }
        writer.finish()?;
        Ok(())
    }

    pub(crate) fn write_prepared(&self, base: &Path) -> Result<()> {
        self.write_prepared_values(base, value)
    }

    /// Writes an archive of other values by prepared records: `value` returns the bits of a metric's
    /// value in a record.
    pub(crate) fn write_prepared_values(
        &self,
        base: &Path,
        mut value: impl FnMut(u32, u64) -> u64,
    ) -> Result<()> {
        let (mut writer, descs) = self.writer(base)?;
        let instances = self.instances(&mut writer)?;
        let mut builder = TemplateBuilder::new();
        let mut places = Vec::with_capacity(descs.len());
        for desc in &descs {
            builder.begin_set(desc.pmid, desc.value_type);
            for instance in &instances {
                places.push(builder.value(*instance, 0)?);
            }
        }
        let template = builder.finish()?;
        let slots: Vec<_> = places.into_iter().map(|place| template.slot(place)).collect();
        let mut buffer = template.new_buffer();
        for record in 0..self.records {
            buffer.set_timestamp(Self::timestamp(record)?);
            for (number, slot) in (0..).zip(&slots) {
                // Instances are counters of one metric, and gauges of the next.
                let like = match number / instances.len() {
                    _ if self.instances == 0 => number,
                    metric => number * 2 + metric % 2,
                };
                buffer.put_u64(*slot, value(like as u32, record));
            }
            writer.write_prepared(&buffer)?;
            self.mark_after(record, &mut writer)?;
        }
        writer.finish()?;
        Ok(())
    }

    fn mark_after(&self, record: u64, writer: &mut ArchiveWriter) -> Result<()> {
        let gone = |records| records * self.marks / self.records.max(1);
        if gone(record) == gone(record + 1) {
            return Ok(());
        }
        writer.write_mark(Self::timestamp(record)?.saturating_add(Duration::from_millis(1)))?;
        Ok(())
    }
}

/// Writes an archive of one counter, of whose `all` instances `present` are there
/// at a time: with each record, one a second, half of them give place to new ones.
pub(crate) fn write_fleeting(base: &Path, present: usize, all: usize) -> Result<()> {
    let indom = InDom::new(70, 1)?;
    let desc = MetricDesc { indom: Some(indom), ..Shape::desc(0)? };
    let none = Shape { metrics: 0, instances: 0, records: 0, marks: 0 };
    let (mut writer, _) = none.writer(base)?;
    writer.declare_metric(&desc, &["bench.fleeting"])?;
    let new = present / 2;
    for record in 0..=all.saturating_sub(present) / new {
        let ids = record * new..record * new + present;
        let instances: Vec<Instance> = ids
            .map(|id| {
                let name = format!("session-{id:06}").into();
                Ok(Instance { id: InstanceId::new(i32::try_from(id)?)?, name })
            })
            .collect::<Result<_>>()?;
        let values = instances.iter().map(|one| {
            let count =
                value(0, (record * present) as u64 + u64::from(one.id.get().unsigned_abs()));
            (Some(one.id), OwnedValue::U64(count))
        });
        let values = Ok(values.collect());
        writer.declare_indom(indom, &instances)?;
        let value_sets = vec![ValueSet { pmid: desc.pmid, values }];
        writer.write_result(&FetchResult {
            timestamp: Shape::timestamp(record as u64)?,
            value_sets,
        })?;
    }
    writer.finish()?;
    Ok(())
}

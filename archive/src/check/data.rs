//! The data volumes: every record against the metadata, and the index against
//! the records.

use std::path::Path;

use hashbrown::HashMap;
use pcp_types::{InDom, InstanceId, Pmid, Semantics, Timestamp};

use super::index::Entry;
use super::{Checker, Defect, Report};
use crate::error::Result;
use crate::format::archive_label::Role;
use crate::format::desc::MetricDesc;
use crate::format::event_array::EventArray;
use crate::format::result::{Record, ValueSetView};
use crate::reader::Metadata;
use crate::salvage::{Piece, Scanner};
use crate::value::Value;

impl Checker {
    /// Checks all data volumes; returns the time of the last good record.
    pub(super) fn check_data(
        &mut self,
        metadata: &Metadata,
        index: &[Entry],
    ) -> Result<Option<Timestamp>> {
        let volumes = self.files.volumes.clone();
        let index_path = self.files.index.clone().unwrap_or_default();
        let last = volumes.keys().next_back().copied();
        let mut values = Values { metadata, metrics: HashMap::new() };
        let mut clock = Clock { start: self.label.start, last: None };
        for (number, path) in volumes {
            let Some(file) = self.open(&path, Role::Data(number))? else { continue };
            let mut scanner = Scanner::of_data(file, self.label.version);
            let mut promises = Promises::new(index, number, self.label.version.label_size());
            let mut is_empty = true;
            while let Some(piece) = scanner.next()? {
                is_empty = false;
                let report = &mut self.report;
                let (offset, len) = match piece {
                    Piece::Record { offset, len } => (offset, len),
                    Piece::Damage(damage) => {
                        promises.skip_to(damage.offset + damage.len);
                        let bytes = damage.len;
                        report.add_damage(&path, damage, |source| match last {
                            Some(last) if last == number => Defect::TornTail { source },
                            _ => Defect::Frame { source, lost: bytes },
                        });
                        continue;
                    }
                };
                let bytes = scanner.bytes(offset, len);
                match Record::parse(self.label.version, bytes, number, offset) {
                    Ok(record) => {
                        promises.check(&record, report, &index_path);
                        clock.check(&record, report, &path);
                        values.check(&record, report, &path);
                    }
                    Err(source) => {
                        promises.skip_to(offset + len as u64);
                        report.add(&path, offset, Defect::Data { source });
                    }
                }
            }
            if is_empty {
                self.report.add(&path, self.label.version.label_size(), Defect::NoRecords);
            }
        }
        Ok(clock.last)
    }
}

/// The order of times.
struct Clock {
    start: Timestamp,
    last: Option<Timestamp>,
}

impl Clock {
    fn check(&mut self, record: &Record<'_>, report: &mut Report, path: &Path) {
        let (found, start) = (record.timestamp(), self.start);
        if found < start {
            report.add(path, record.offset(), Defect::DataBeforeStart { found, start });
        }
        if let Some(before) = self.last.replace(found).filter(|before| found < *before) {
            report.add(path, record.offset(), Defect::DataBackwards { found, before });
        }
    }
}

/// What the index says about one volume, by offset.
struct Promises<'i> {
    entries: Vec<&'i Entry>,
    next: usize,
    /// Where the first record starts.
    first: u64,
    /// The latest time of the records so far.
    latest: Option<Timestamp>,
}

impl<'i> Promises<'i> {
    fn new(index: &'i [Entry], volume: u32, first: u64) -> Self {
        let mut entries: Vec<_> =
            index.iter().filter(|entry| entry.entry.volume == volume).collect();
        entries.sort_by_key(|entry| entry.entry.data_offset);
        Self { entries, next: 0, first, latest: None }
    }

    /// Entries into damaged bytes are not judged.
    fn skip_to(&mut self, offset: u64) {
        while self.entries.get(self.next).is_some_and(|entry| entry.entry.data_offset < offset) {
            self.next += 1;
        }
    }

    /// All entries up to this record: they point to the start of a record,
    /// and no later one is before it.
    fn check(&mut self, record: &Record<'_>, report: &mut Report, index: &Path) {
        while let Some(Entry { offset, entry }) = self.entries.get(self.next) {
            let (found, volume) = (entry.data_offset, entry.volume);
            if found > record.offset() {
                break;
            }
            // Offsets within the label were reported with the index.
            if found < record.offset() && found >= self.first {
                report.add(index, *offset, Defect::IndexBoundary { found, volume });
            }
            if let Some(later) = self.latest.filter(|latest| *latest > entry.stamp) {
                let defect = Defect::IndexLaterBefore { found: entry.stamp, later, volume };
                report.add(index, *offset, defect);
            }
            self.next += 1;
        }
        self.latest = self.latest.max(Some(record.timestamp()));
    }
}

/// What is known of each metric's values.
struct Values<'m> {
    metadata: &'m Metadata,
    metrics: HashMap<Pmid, MetricState>,
}

struct MetricState {
    desc: Option<MetricDesc>,
    /// The format of its values so far.
    format: Option<u32>,
    /// The last values of a counter.
    counters: HashMap<Option<InstanceId>, f64>,
}

impl Values<'_> {
    fn check(&mut self, record: &Record<'_>, report: &mut Report, path: &Path) {
        report.records += 1;
        if record.is_mark() {
            report.marks += 1;
            self.metrics.values_mut().for_each(|metric| metric.counters.clear());
        }
        for set in record.value_sets() {
            report.values += set.len() as u64;
            let metadata = self.metadata;
            let state = self.metrics.entry(set.pmid()).or_insert_with(|| MetricState {
                desc: metadata.metric(set.pmid()).map(|metric| metric.desc),
                format: None,
                counters: HashMap::new(),
            });
            let mut add = |defect| report.add(path, record.offset(), defect);
            let Some(desc) = state.desc else {
                add(Defect::DataMetric { pmid: set.pmid() });
                continue;
            };
            state.check_shape(&set, &desc, &mut add);
            state.check_values(&set, &desc, &mut add);
            if let Some(indom) = desc.indom {
                check_instances(metadata, &set, indom, record.timestamp(), &mut add);
            }
        }
    }
}

impl MetricState {
    fn check_shape(
        &mut self,
        set: &ValueSetView<'_>,
        desc: &MetricDesc,
        add: &mut impl FnMut(Defect),
    ) {
        let Some(found) = set.format() else { return };
        let pmid = desc.pmid;
        let before = *self.format.get_or_insert(found);
        if before != found {
            add(Defect::DataFormat { pmid, found, before });
        }
        if desc.indom.is_none() && set.len() > 1 {
            add(Defect::DataSingular { pmid, count: set.len() });
        }
    }

    fn check_values(
        &mut self,
        set: &ValueSetView<'_>,
        desc: &MetricDesc,
        add: &mut impl FnMut(Defect),
    ) {
        let is_counter = desc.semantics == Semantics::Counter;
        for value in set.values(desc.value_type) {
            match value {
                Ok((_, value)) if desc.value_type.is_event() => {
                    if let Err(source) = EventArray::unpack(value) {
                        add(Defect::DataEvents { pmid: desc.pmid, source });
                    }
                }
                Ok((instance, value)) if is_counter => {
                    self.check_counter(desc, instance, value, add);
                }
                Ok(_) => {}
                Err(source) => {
                    add(Defect::DataValue { source });
                    break;
                }
            }
        }
    }

    fn check_counter(
        &mut self,
        desc: &MetricDesc,
        instance: Option<InstanceId>,
        value: Value<'_>,
        add: &mut impl FnMut(Defect),
    ) {
        let Some(found) = value.as_f64() else { return };
        let before = self.counters.insert(instance, found);
        if let Some(before) = before.filter(|before| found < *before) {
            add(Defect::CounterDecrease { pmid: desc.pmid, found, before });
        }
    }
}

fn check_instances(
    metadata: &Metadata,
    set: &ValueSetView<'_>,
    indom: InDom,
    stamp: Timestamp,
    add: &mut impl FnMut(Defect),
) {
    let instances = metadata.indom_at(indom, stamp).unwrap_or_default();
    for id in set.instances().flatten() {
        if instances.binary_search_by_key(&id, |instance| instance.id).is_err() {
            add(Defect::DataInstance { pmid: set.pmid(), indom, id, stamp });
        }
    }
}

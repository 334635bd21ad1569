//! The data volumes: every record against the metadata, and the index against
//! the records.

use std::path::Path;

use hashbrown::HashMap;

use super::index::LocatedEntry;
use super::pattern::Pattern;
use super::{Checker, Defect, Report};
use crate::files::{ScannedRecord, Scanner};
use crate::format::{EventArray, Role};
use crate::progress::Progress;
use crate::reader::fast::{RecordShapes, SequenceMap};
use crate::{
    InDom, IndomCursor, InstanceId, Metadata, MetricDesc, Pmid, Record, RecordError, Result,
    Semantics, Timestamp, ValueSetView, Version,
};

impl Checker {
    /// Checks all data volumes; returns the time of the last good record.
    pub(super) fn check_data(
        &mut self,
        metadata: &Metadata,
        index: &[LocatedEntry],
        mut progress: Progress<'_>,
    ) -> Result<Option<Timestamp>> {
        let volumes = self.files.volumes.clone();
        let index_path = self.files.index.clone().unwrap_or_default();
        let last = volumes.keys().next_back().copied();
        let version = self.label.version;
        let metrics = SequenceMap::default();
        let cursors = HashMap::new();
        let mut values = ValueChecker { version, metadata, metrics, cursors };
        let mut shapes = RecordShapes::default();
        let mut pattern = Pattern::default();
        let mut clock = TimeOrder { start: self.label.start, last: None };
        for (number, path) in volumes {
            let Some(file) = self.open(&path, Role::Data(number))? else { continue };
            let mut scanner = Scanner::of_data(file, self.label.version);
            let mut entries = EntryCheck::new(index, number, self.label.version.label_size());
            let mut is_empty = true;
            while let Some(piece) = scanner.next()? {
                is_empty = false;
                let report = &mut self.report;
                let (offset, len) = match piece {
                    ScannedRecord::Record { offset, len } => (offset, len),
                    ScannedRecord::Damage(damage) => {
                        entries.skip_to(damage.offset + damage.len);
                        let bytes = damage.len;
                        report.add_damage(&path, damage, |source| match last {
                            Some(last) if last == number => Defect::TornTail { source },
                            _ => Defect::Frame { source, lost: bytes },
                        });
                        continue;
                    }
                };
                let bytes = scanner.bytes(offset, len);
                match shapes.parse(version, bytes, number, offset) {
                    Ok(record) => {
                        progress.advance_to(&record);
                        entries.check(&record, report, &index_path);
                        clock.check(&record, report, &path);
                        if pattern.is_repeated_by(&record) {
                            report.records += 1;
                            report.values += pattern.values();
                        } else {
                            values.check_and_learn(&record, &mut pattern, report, &path);
                        }
                    }
                    Err(source) => {
                        entries.skip_to(offset + len as u64);
                        report.add(&path, offset, Defect::Data { source });
                    }
                }
            }
            if is_empty {
                self.report.add(&path, self.label.version.label_size(), Defect::NoRecords);
            }
        }
        progress.end_pass();
        Ok(clock.last)
    }
}

struct TimeOrder {
    start: Timestamp,
    last: Option<Timestamp>,
}

impl TimeOrder {
    fn check(&mut self, record: &Record<'_>, report: &mut Report, path: &Path) {
        let found = record.timestamp();
        let start = self.start;
        if found < start {
            report.add(path, record.offset(), Defect::DataBeforeStart { found, start });
        }
        if let Some(before) = self.last.replace(found).filter(|before| found < *before) {
            report.add(path, record.offset(), Defect::DataBackwards { found, before });
        }
    }
}

/// The index entries of one volume, by offset.
struct EntryCheck<'i> {
    entries: Vec<&'i LocatedEntry>,
    next: usize,
    /// Offset of the first record.
    first: u64,
    latest: Option<Timestamp>,
}

impl<'i> EntryCheck<'i> {
    fn new(index: &'i [LocatedEntry], volume: u32, first: u64) -> Self {
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

    /// Checks all entries up to this record: each points to the start of a record, and their times
    /// do not go back.
    fn check(&mut self, record: &Record<'_>, report: &mut Report, index: &Path) {
        while let Some(LocatedEntry { offset, entry }) = self.entries.get(self.next) {
            let found = entry.data_offset;
            let volume = entry.volume;
            if found > record.offset() {
                break;
            }
            // Offsets within the label were reported with the index.
            if found < record.offset() && found >= self.first {
                report.add(index, *offset, Defect::IndexBoundary { found, volume });
            }
            if let Some(later) = self.latest.filter(|latest| *latest > entry.timestamp) {
                let defect = Defect::IndexLaterBefore { found: entry.timestamp, later, volume };
                report.add(index, *offset, defect);
            }
            self.next += 1;
        }
        self.latest = self.latest.max(Some(record.timestamp()));
    }
}

/// The pass over the values of each metric.
struct ValueChecker<'m> {
    version: Version,
    metadata: &'m Metadata,
    metrics: SequenceMap<Pmid, MetricState>,
    cursors: HashMap<InDom, IndomCursor<'m>>,
}

#[derive(Default)]
struct MetricState {
    desc: Option<MetricDesc>,
    /// The format of its values so far.
    format: Option<u32>,
    counters: SequenceMap<Option<InstanceId>, f64>,
}

impl<'m> ValueChecker<'m> {
    /// Checks a record that does not repeat the pattern, and makes it the next pattern if it has no
    /// defect.
    fn check_and_learn(
        &mut self,
        record: &Record<'_>,
        pattern: &mut Pattern<'m>,
        report: &mut Report,
        path: &Path,
    ) {
        if let Some(last) = pattern.take_ahead(self.version) {
            self.remember(&last);
        }
        let before = report.total();
        self.check(record, report, path);
        if report.total() == before {
            pattern.learn(record, self.metadata);
        } else {
            pattern.forget();
        }
    }

    fn remember(&mut self, record: &Record<'_>) {
        for set in record.value_sets() {
            let Some(state) = self.metrics.get_or_insert_with(set.pmid(), MetricState::default)
            else {
                continue;
            };
            if let Some(desc) = &state.desc {
                check_values(&set, desc, &mut state.counters, &mut |_| {});
            }
        }
    }

    fn check(&mut self, record: &Record<'_>, report: &mut Report, path: &Path) {
        report.records += 1;
        if record.is_mark() {
            report.marks += 1;
            self.metrics.values_mut().for_each(|metric| metric.counters.clear());
        }
        let metadata = self.metadata;
        for set in record.value_sets() {
            report.values += set.len() as u64;
            let state = self.metrics.get_or_insert_with(set.pmid(), || MetricState {
                desc: metadata.metric(set.pmid()).map(|metric| metric.desc),
                ..MetricState::default()
            });
            let Some(state) = state else { continue };
            let mut add = |defect| report.add(path, record.offset(), defect);
            let Some(desc) = &state.desc else {
                add(Defect::DataMetric { pmid: set.pmid() });
                continue;
            };
            check_shape(&set, desc, &mut state.format, &mut add);
            check_values(&set, desc, &mut state.counters, &mut add);
            if let Some(indom) = desc.indom {
                let history = metadata.indom_history(indom);
                let cursor = history
                    .map(|history| self.cursors.entry(indom).or_insert_with(|| history.cursor()));
                check_instances(cursor, &set, indom, record.timestamp(), &mut add);
            }
        }
    }
}

fn check_shape(
    set: &ValueSetView<'_>,
    desc: &MetricDesc,
    before: &mut Option<u32>,
    add: &mut impl FnMut(Defect),
) {
    let Some(found) = set.format() else { return };
    let pmid = desc.pmid;
    let before = *before.get_or_insert(found);
    if before != found {
        add(Defect::DataFormat { pmid, found, before });
    }
    if desc.indom.is_none() && set.len() > 1 {
        add(Defect::DataSingular { pmid, count: set.len() });
    }
}

/// Checks that each value fits the type, and that no counter goes down.
#[inline]
fn check_values(
    set: &ValueSetView<'_>,
    desc: &MetricDesc,
    counters: &mut SequenceMap<Option<InstanceId>, f64>,
    add: &mut impl FnMut(Defect),
) {
    let is_counter = desc.semantics == Semantics::Counter;
    for value in set.values(desc.value_type) {
        let (instance, value) = match value {
            Ok(pair) => pair,
            Err(source @ RecordError::ValueType { .. }) => return add(Defect::DataType { source }),
            Err(source) => return add(Defect::DataValue { source }),
        };
        if desc.value_type.is_event() {
            if let Err(source) = EventArray::unpack(value) {
                add(Defect::DataEvents { pmid: desc.pmid, source });
            }
            continue;
        }
        let Some(found) = value.as_f64().filter(|_| is_counter) else { continue };
        let Some(last) = counters.get_or_insert_with(instance, || found) else { continue };
        let before = std::mem::replace(last, found);
        if found < before {
            add(Defect::CounterDecrease { pmid: desc.pmid, found, before });
        }
    }
}

fn check_instances(
    mut cursor: Option<&mut IndomCursor<'_>>,
    set: &ValueSetView<'_>,
    indom: InDom,
    timestamp: Timestamp,
    add: &mut impl FnMut(Defect),
) {
    if let Some(cursor) = &mut cursor {
        cursor.move_to(timestamp);
    }
    for (place, id) in set.instances().flatten().enumerate() {
        if cursor.as_ref().is_none_or(|cursor| cursor.name_near(id, place).is_none()) {
            add(Defect::DataInstance { pmid: set.pmid(), indom, id, timestamp });
        }
    }
}

//! Converts the steps of a host to rows of its tables.
//!
//! In: steps in order. Out: rows. The table, the column and the slot of a series, which is the row
//! of its instance in each step, are looked up once when the series begins. All files of an archive
//! are completed when it ends, those of a day when the next one begins.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use hashbrown::HashMap;
use pcp_archive::scan::histogram::HistogramLayout;
use pcp_archive::{InstanceId, ValueType};

use super::batch::{CellType, RowKey, Shape};
use super::naming::{ColumnNames, TableKey, TableNames, folder};
use super::table::{FileTarget, SlotKey, Table};
use super::{Exporter, Totals, WriteError};
use crate::mapping::{FamilyId, HISTOGRAM_LABEL, Kind, Label, Role};
use crate::shared_values::put;
use crate::walk::{Catalog, Change, Number, Series, SeriesId, Step, StepKind};

/// Limit on the bytes of rows in memory, for all tables.
pub(super) const MAX_BUFFERED: usize = 16 << 20;
/// Limit on the rows of a row group.
const MAX_ROWS: usize = 1 << 17;
/// Limit on files that are open at the same time.
const MAX_OPEN: usize = 64;
const DAY: i64 = 86_400_000_000_000;
/// The labels of a counter of buckets that describe the buckets.
const BUCKET_LABELS: [&str; 3] = [HISTOGRAM_LABEL, "bucket_max", "bucket_precision"];
/// The labels that have columns in every table.
const COLUMNS: [&str; 3] = ["hostname", "instid", "instname"];
/// The table and the column of all values.
const NARROW: (&str, &str) = ("metrics", "value");

/// A day, counted from 1970-01-01 UTC; shown as `YYYY-MM-DD`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Day(pub(super) i64);

impl Day {
    fn from_nanos(nanos: i64) -> Self {
        Self(nanos.div_euclid(DAY))
    }

    /// Returns its first nanosecond.
    const fn begin(self) -> i64 {
        self.0.saturating_mul(DAY)
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let begins = jiff::Timestamp::from_second(self.0 * 86_400).map_err(|_| fmt::Error)?;
        write!(f, "{}", begins.to_zoned(jiff::tz::TimeZone::UTC).date())
    }
}

/// The cells of a series.
#[derive(Debug, Clone, Copy)]
struct SeriesPlace {
    table: u32,
    slot: u32,
    column: u32,
    is_live: bool,
}

/// A counter that began to count from 0.
#[derive(Debug, Clone, Copy)]
struct Zero {
    place: SeriesPlace,
    at: i64,
}

/// The tables of one host.
#[derive(Debug)]
pub(super) struct HostTables<'e> {
    exporter: &'e mut Exporter,
    host: String,
    names: TableNames,
    tables: Vec<Table>,
    by_key: HashMap<TableKey, u32>,
    places: Vec<Option<SeriesPlace>>,
    /// The instances of histograms that have sums, with their labels.
    histograms: HashMap<(FamilyId, Option<InstanceId>), SeriesId>,
    /// Counters that began to count from 0 in this step.
    zeros: Vec<Zero>,
    /// Slots whose labels may have changed: table and key.
    dirty: Vec<(u32, SlotKey)>,
    archive: String,
    day: Day,
    /// The numbers of the next files, by table and day.
    parts: HashMap<(String, Day), u32>,
    step: u64,
    buffered: usize,
    /// Whether a table has enough rows for a row group.
    is_full: bool,
}

impl<'e> HostTables<'e> {
    pub(super) fn new(exporter: &'e mut Exporter, host: &str) -> Self {
        Self {
            exporter,
            host: folder(host),
            names: TableNames::default(),
            tables: Vec::new(),
            by_key: HashMap::new(),
            places: Vec::new(),
            histograms: HashMap::new(),
            zeros: Vec::new(),
            dirty: Vec::new(),
            archive: String::new(),
            day: Day(0),
            parts: HashMap::new(),
            step: 0,
            buffered: 0,
            is_full: false,
        }
    }

    /// Adds the values of a step, unless it is before `first`.
    pub(super) fn take(&mut self, step: &Step<'_>, first: i64) -> Result<(), WriteError> {
        self.step += 1;
        if self.archive != step.position.archive {
            self.end_archive()?;
            self.archive.clone_from(&step.position.archive);
        }
        if step.kind == StepKind::EndOfArchive {
            return self.end_archive();
        }
        self.zeros.clear();
        self.learn_histograms(step);
        for change in step.changes {
            match *change {
                Change::Began { series, from_zero } => self.begin(series, from_zero, step.catalog),
                Change::Ended { series, .. } => self.end(series),
            }
        }
        self.settle(step.catalog);
        if step.timestamp < first || step.observations.is_empty() {
            return Ok(());
        }
        let day = Day::from_nanos(step.timestamp);
        if day != self.day {
            self.end_day()?;
            self.day = day;
        }
        self.write_zeros(first.max(day.begin()), step.timestamp);
        for observation in step.observations {
            let place = self.places.get(observation.series.index()).copied().flatten();
            let Some(SeriesPlace { table, slot, column, .. }) = place else { continue };
            let Some(table) = self.tables.get_mut(table as usize) else { continue };
            let Some((row, is_new)) = table.row(slot, self.step, step.timestamp) else { continue };
            if is_new {
                self.buffered += table.row_bytes();
                self.is_full |= row >= MAX_ROWS;
            }
            if let Some(column) = table.columns.get_mut(column as usize) {
                column.set(row, observation.value);
            }
        }
        if self.exporter.options.is_narrow {
            for observation in step.observations {
                self.exporter.rounded += u64::from(observation.value.is_beyond_doubles());
            }
        }
        if std::mem::take(&mut self.is_full) {
            for at in 0..self.tables.len() {
                if self.tables.get(at).is_some_and(|table| table.rows() >= MAX_ROWS) {
                    self.write_and_limit(at)?;
                }
            }
        }
        while self.buffered > MAX_BUFFERED {
            let tables = self.tables.iter().enumerate();
            let largest = tables.max_by_key(|(_, table)| table.bytes());
            let Some((largest, _)) = largest else { break };
            self.write_and_limit(largest)?;
        }
        Ok(())
    }

    /// Writes all rows in memory and completes all files.
    pub(super) fn finish(mut self) -> Result<(), WriteError> {
        self.end_archive()
    }

    /// Follows the instances of histograms, before their buckets are looked at.
    fn learn_histograms(&mut self, step: &Step<'_>) {
        for change in step.changes {
            let (Change::Began { series: id, .. } | Change::Ended { series: id, .. }) = *change;
            let Some(series) = step.catalog.series(id) else { continue };
            let Role::Sum(family) = series.role else { continue };
            let key = (family, series.identity);
            match change {
                Change::Began { .. } => {
                    self.histograms.insert(key, id);
                }
                Change::Ended { .. } if self.histograms.get(&key) == Some(&id) => {
                    self.histograms.remove(&key);
                }
                Change::Ended { .. } => {}
            }
        }
    }

    /// Adds rows for the times at which counters began to count from 0, if they are not before
    /// `first`.
    fn write_zeros(&mut self, first: i64, before: i64) {
        for Zero { place, at } in self.zeros.drain(..) {
            let at = at.min(before.saturating_sub(1));
            let Some(table) = self.tables.get_mut(place.table as usize) else { continue };
            if at < first {
                continue;
            }
            let Some((row, is_new)) = table.zero_row(place.slot, self.step, at) else { continue };
            if is_new {
                self.buffered += table.row_bytes();
            }
            if let Some(column) = table.columns.get_mut(place.column as usize) {
                column.set(row, Number::U64(0));
            }
        }
    }

    /// Looks up the cells of a new series.
    fn begin(&mut self, id: SeriesId, from_zero: Option<i64>, catalog: &Catalog) {
        let Some(series) = catalog.series(id) else { return };
        let Some(place) = self.place(id, series, catalog) else { return };
        put(&mut self.places, id.index(), Some(place));
        let is_counter = catalog
            .mapping()
            .role_family(series.role)
            .is_some_and(|family| family.kind != Kind::Gauge);
        let table = self.tables.get_mut(place.table as usize);
        if let Some(slot) = table.and_then(|table| table.slots.get_mut(place.slot as usize)) {
            slot.began = self.step;
            match from_zero {
                _ if !is_counter => {}
                Some(at) => self.zeros.push(Zero { place, at }),
                None => slot.began_unknown = self.step,
            }
            slot.members.push(id);
            if !std::mem::replace(&mut slot.is_dirty, true) {
                self.dirty.push((place.table, slot.made_for));
            }
        }
    }

    fn slot_key(&self, id: SeriesId, series: &Series) -> SlotKey {
        match series.instance {
            _ if self.exporter.options.is_narrow => SlotKey::Series(id),
            Some(instance) => SlotKey::Instance(instance),
            None => SlotKey::Single,
        }
    }

    fn place(&mut self, id: SeriesId, series: &Series, catalog: &Catalog) -> Option<SeriesPlace> {
        let (metric, desc) = catalog.metric(series.pmid)?;
        let family = catalog.mapping().role_family(series.role)?;
        let table = self.table(metric, series, catalog)?;
        let slot_key = self.slot_key(id, series);
        let found = self.tables.get_mut(table as usize)?;
        let slot = found.slot(slot_key);
        let column = if self.exporter.options.is_narrow {
            0
        } else {
            let cell_type = match desc.value_type {
                ValueType::I32 | ValueType::I64 => CellType::I64,
                ValueType::U32 | ValueType::U64 => CellType::U64,
                _ => CellType::F64,
            };
            let names = names_of(&mut self.exporter.names, found);
            let short = family.column(series.role);
            let name = match series.role {
                Role::Buckets(_) => short,
                role => names.metric_column(&short, &family.whole_column(role), cell_type),
            };
            found.column(name, cell_type, || about(metric, series, catalog))
        };
        Some(SeriesPlace { table, slot, column, is_live: true })
    }

    /// Returns the index of the table of a metric, creating it.
    fn table(&mut self, metric: &str, series: &Series, catalog: &Catalog) -> Option<u32> {
        let is_narrow = self.exporter.options.is_narrow;
        let indom = catalog.metric(series.pmid)?.1.indom;
        let key = if is_narrow {
            TableKey { application: String::new(), indom: None, histogram: None }
        } else {
            let histogram = histogram_name(series.role, catalog);
            TableKey { histogram: histogram.map(str::to_owned), ..TableKey::new(metric, indom) }
        };
        if let Some(known) = self.by_key.get(&key) {
            return Some(*known);
        }
        let table = if is_narrow {
            let shape = Shape { has_name: true, has_instances: true, has_bounds: false };
            let mut table = Table::new(NARROW.0.to_owned(), shape);
            table.column(NARROW.1.to_owned(), CellType::F64, || "{}".into());
            table
        } else {
            let same = catalog.metrics().filter(|(name, desc)| {
                desc.indom == indom && TableKey::new(name, indom).application == key.application
            });
            let name = self.names.take(&key, same.map(|(name, _)| name));
            let layout = catalog.mapping().role_layout(series.role);
            let has_instances = match layout {
                Some(layout) => layout.indom().is_some(),
                None => indom.is_some(),
            };
            let has_bounds = layout.is_some();
            Table::new(name, Shape { has_name: false, has_instances, has_bounds })
        };
        let at = u32::try_from(self.tables.len()).ok()?;
        self.tables.push(table);
        self.by_key.insert(key, at);
        Some(at)
    }

    /// Ends a series.
    fn end(&mut self, id: SeriesId) {
        let Some(Some(place)) = self.places.get_mut(id.index()) else { return };
        place.is_live = false;
        let place = *place;
        let Some(table) = self.tables.get_mut(place.table as usize) else { return };
        let Some(slot) = table.slots.get_mut(place.slot as usize) else { return };
        if !std::mem::replace(&mut slot.is_dirty, true) {
            self.dirty.push((place.table, slot.made_for));
        }
    }

    /// Updates the keys of slots to what their series have in common, and removes slots without
    /// series.
    fn settle(&mut self, catalog: &Catalog) {
        for (at, key) in self.dirty.drain(..) {
            let Some(table) = self.tables.get_mut(at as usize) else { continue };
            let Some(slot_at) = table.by_key.get(&key).copied() else { continue };
            let Some(slot) = table.slots.get_mut(slot_at as usize) else { continue };
            let places = &self.places;
            slot.members.sort_unstable();
            slot.members.dedup();
            slot.members.retain(|id| {
                let place = places.get(id.index()).copied().flatten();
                place.is_some_and(|it| it.is_live && (it.table, it.slot) == (at, slot_at))
            });
            slot.is_dirty = false;
            let members = slot.members.iter().filter_map(|id| catalog.series(*id));
            match row_key(members, catalog, &self.histograms, table.shape) {
                Some(key) => slot.set_key(key),
                None => table.remove(key),
            }
        }
    }

    /// Writes the rows of a table, and completes the file of another one if too many are open.
    fn write_and_limit(&mut self, at: usize) -> Result<(), WriteError> {
        self.write(at)?;
        let is_open =
            |other: &usize| *other != at && self.tables.get(*other).is_some_and(Table::is_open);
        let others = 0..self.tables.len();
        if others.clone().filter(is_open).count() >= MAX_OPEN
            && let Some(other) = others.clone().find(is_open)
        {
            self.close(other)?;
        }
        self.buffered = self.tables.iter().map(Table::bytes).sum();
        Ok(())
    }

    /// Writes the rows of a table that are in memory.
    fn write(&mut self, at: usize) -> Result<(), WriteError> {
        let Some(table) = self.tables.get_mut(at) else { return Ok(()) };
        let options = &self.exporter.options;
        let directory = directory_of(&options.directory, &table.name, &self.host, self.day);
        let mut place = FileTarget {
            format: options.format,
            directory,
            stem: &format!("part-{}", folder(&self.archive)),
            part: self.parts.entry((table.name.clone(), self.day)).or_default(),
            about: &[("pcp.archive", self.archive.clone()), ("pcp.host", self.host.clone())],
        };
        let names = names_of(&mut self.exporter.names, table);
        let closed = table.write(names, &mut place)?;
        let name = table.name.clone();
        self.exporter.add(&name, closed);
        Ok(())
    }

    fn close(&mut self, at: usize) -> Result<(), WriteError> {
        let Some(table) = self.tables.get_mut(at) else { return Ok(()) };
        let closed = table.close()?;
        let name = table.name.clone();
        self.exporter.add(&name, closed);
        Ok(())
    }

    /// Completes the files of a day.
    fn end_day(&mut self) -> Result<(), WriteError> {
        for at in 0..self.tables.len() {
            self.write(at)?;
            self.close(at)?;
        }
        self.buffered = 0;
        Ok(())
    }

    /// Completes the files of an archive. Further files that an earlier run made of the same archive
    /// in these folders are removed.
    fn end_archive(&mut self) -> Result<(), WriteError> {
        self.end_day()?;
        let options = &self.exporter.options;
        let stem = format!("part-{}", folder(&self.archive));
        for ((table, day), parts) in self.parts.drain() {
            let directory = directory_of(&options.directory, &table, &self.host, day);
            super::file::remove_from(&directory, &stem, parts, options.format.extension())?;
        }
        self.tables.clear();
        self.by_key.clear();
        self.places.clear();
        self.histograms.clear();
        self.dirty.clear();
        Ok(())
    }
}

fn directory_of(tables: &std::path::Path, table: &str, host: &str, day: Day) -> PathBuf {
    tables.join(table).join(format!("host={host}")).join(format!("date={day}"))
}

/// Returns the names of the columns of a table.
fn names_of<'n>(names: &'n mut HashMap<String, ColumnNames>, table: &Table) -> &'n mut ColumnNames {
    names.entry_ref(&table.name).or_insert_with(|| ColumnNames::new(table.shape))
}

/// Returns the name of the histogram whose buckets a metric with this role counts.
fn histogram_name(role: Role, catalog: &Catalog) -> Option<&str> {
    catalog.mapping().role_layout(role).map(HistogramLayout::name)
}

/// Describes the metric of a column as JSON.
fn about(metric: &str, series: &Series, catalog: &Catalog) -> Arc<str> {
    let help = catalog.mapping().role_family(series.role);
    let desc = catalog.metric(series.pmid).map(|(_, desc)| *desc);
    let labels = catalog.metric_labels(series.pmid).iter();
    let labels = labels.filter(|label| !COLUMNS.contains(&&*label.name));
    let labels: serde_json::Map<String, serde_json::Value> =
        labels.map(|label| (label.name.to_string(), (*label.value).into())).collect();
    let about = serde_json::json!({
        "metric": metric,
        "pmid": series.pmid.to_string(),
        "type": desc.map(|desc| desc.value_type.to_string()),
        "semantics": desc.map(|desc| desc.semantics.to_string()),
        "units": desc.map(|desc| desc.units.to_string()),
        "indom": desc.and_then(|desc| desc.indom).map(|indom| indom.to_string()),
        "labels": labels,
        "help": help.map(|family| family.help.as_str()),
    });
    about.to_string().into()
}

/// Returns the key of the row of some series: their instance, and the labels that all of them share;
/// for a bucket its bounds, and the instance and labels of its histogram. `None` without series.
fn row_key<'s>(
    mut members: impl Iterator<Item = &'s Series>,
    catalog: &Catalog,
    histograms: &HashMap<(FamilyId, Option<InstanceId>), SeriesId>,
    shape: Shape,
) -> Option<RowKey> {
    let first = members.next()?;
    let mut owner = Some(first);
    let mut bounds = None;
    if let (Role::Buckets(family), true) = (first.role, shape.has_bounds) {
        let layout = catalog.mapping().layout(family);
        let bucket = layout.zip(first.identity).and_then(|(layout, id)| layout.bucket(id));
        bounds = bucket.map(|bucket| (bucket.first, bucket.last));
        let histogram = histograms.get(&(family, bucket.and_then(|bucket| bucket.histogram)));
        owner = histogram.and_then(|id| catalog.series(*id));
    }
    let labelled = owner.unwrap_or(first);
    let mut labels = labelled.labels.to_vec();
    for other in members.filter(|other| !Arc::ptr_eq(&other.labels, &first.labels)) {
        labels.retain(|label| other.labels.binary_search(label).is_ok());
    }
    let hostname = labelled.labels.iter().find(|label| &*label.name == "hostname");
    let hostname = hostname.map_or_else(|| catalog.hostname().into(), |label| label.value.clone());
    labels.retain(|label| !COLUMNS.contains(&&*label.name));
    if bounds.is_some() {
        add_labels_of_buckets(&mut labels, catalog.metric_labels(first.pmid));
    }
    let name = catalog.metric(first.pmid).map(|(name, _)| name.into());
    Some(RowKey {
        hostname,
        name: name.filter(|_| shape.has_name),
        instance: owner.and_then(|owner| owner.instance).map(InstanceId::get),
        instance_name: owner.and_then(|owner| owner.instance_name.clone()),
        labels: labels.into(),
        bounds,
    })
}

/// Adds the labels that all buckets have, except for those that say what buckets they are.
fn add_labels_of_buckets(labels: &mut Vec<Label>, of_buckets: &[Label]) {
    for label in of_buckets {
        let is_wanted = !COLUMNS.contains(&&*label.name) && !BUCKET_LABELS.contains(&&*label.name);
        let place = labels.binary_search_by(|own| own.name.cmp(&label.name));
        if let (true, Err(place)) = (is_wanted, place) {
            labels.insert(place, label.clone());
        }
    }
}

impl Exporter {
    fn add(&mut self, table: &str, more: Totals) {
        if more.files == 0 {
            return;
        }
        let totals = self.totals.entry(table.to_owned()).or_default();
        totals.files += more.files;
        totals.rows += more.rows;
        totals.values += more.values;
        totals.bytes += more.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_dates() {
        for (nanos, date) in [
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (1_700_000_000_000_000_000, "2023-11-14"),
            (951_782_400_000_000_000, "2000-02-29"),
            (i64::MAX, "2262-04-11"),
            (i64::MIN, "1677-09-21"),
        ] {
            assert_eq!(Day::from_nanos(nanos).to_string(), date);
        }
    }
}

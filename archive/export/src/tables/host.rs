//! Converts the steps of a host to rows of its tables.
//!
//! In: steps in order. Out: rows. The table, the column and the slot of a series, which is the row
//! of its instance in each step, are looked up once when the series begins. All files of an archive
//! are completed when it ends, those of a day when the next one begins.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use hashbrown::HashMap;
use pcp_archive::ValueType;

use super::batch::{CellType, RowKey, Shape};
use super::naming::{TableKey, TableNames, folder};
use super::table::{FileTarget, SlotKey, Table};
use super::{Exporter, Totals, WriteError};
use crate::mapping::{Label, Role};
use crate::shared_values::put;
use crate::walk::{Catalog, Change, Series, SeriesId, Step, StepKind};

/// Limit on the bytes of rows in memory, for all tables.
pub(super) const MAX_BUFFERED: usize = 16 << 20;
/// Limit on the rows of a row group.
const MAX_ROWS: usize = 1 << 17;
/// Limit on files that are open at the same time.
const MAX_OPEN: usize = 64;
const DAY: i64 = 86_400_000_000_000;
/// The labels that have columns of their own.
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

/// The tables of one host.
#[derive(Debug)]
pub(super) struct HostTables<'e> {
    exporter: &'e mut Exporter,
    host: String,
    names: TableNames,
    tables: Vec<Table>,
    by_key: HashMap<TableKey, u32>,
    places: Vec<Option<SeriesPlace>>,
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
        for change in step.changes {
            match *change {
                Change::Began { series, .. } => self.begin(series, step.catalog),
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

    /// Looks up the cells of a new series.
    fn begin(&mut self, id: SeriesId, catalog: &Catalog) {
        let Some(place) = catalog.series(id).and_then(|series| self.place(id, series, catalog))
        else {
            return;
        };
        put(&mut self.places, id.index(), Some(place));
        let table = self.tables.get_mut(place.table as usize);
        if let Some(slot) = table.and_then(|table| table.slots.get_mut(place.slot as usize)) {
            slot.began = self.step;
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
            let name = column_name(catalog, series)?;
            let name = found.column_names.take(&name, metric, series.pmid);
            let name = self.exporter.typed_name(&found.name, name, cell_type);
            let found = self.tables.get_mut(table as usize)?;
            found.column(name, cell_type, || about(metric, series, catalog))
        };
        Some(SeriesPlace { table, slot, column, is_live: true })
    }

    /// Returns the index of the table of a metric, creating it.
    fn table(&mut self, metric: &str, series: &Series, catalog: &Catalog) -> Option<u32> {
        let is_narrow = self.exporter.options.is_narrow;
        let indom = catalog.metric(series.pmid)?.1.indom;
        let key = if is_narrow {
            TableKey { application: String::new(), indom: None }
        } else {
            TableKey::new(metric, indom)
        };
        if let Some(known) = self.by_key.get(&key) {
            return Some(*known);
        }
        let table = if is_narrow {
            let shape = Shape { has_name: true, has_instances: true };
            let mut table = Table::new(NARROW.0.to_owned(), shape);
            table.column(NARROW.1.to_owned(), CellType::F64, || "{}".into());
            table
        } else {
            let same = catalog.metrics().filter(|(name, desc)| {
                desc.indom == indom && TableKey::new(name, indom).application == key.application
            });
            let name = self.names.take(&key, same.map(|(name, _)| name));
            Table::new(name, Shape { has_name: false, has_instances: indom.is_some() })
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
            match row_key(members, catalog, table.shape) {
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
        let closed = table.write(&mut place)?;
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
        self.dirty.clear();
        Ok(())
    }
}

fn directory_of(tables: &std::path::Path, table: &str, host: &str, day: Day) -> PathBuf {
    tables.join(table).join(format!("host={host}")).join(format!("date={day}"))
}

/// Returns the name of a metric's column.
fn column_name(catalog: &Catalog, series: &Series) -> Option<String> {
    let column = &catalog.mapping().role_family(series.role)?.column;
    Some(match series.role {
        Role::Buckets(_) => format!("{column}_bucket"),
        Role::Sum(_) => format!("{column}_sum"),
        _ => column.clone(),
    })
}

/// Describes the metric of a column as JSON.
fn about(metric: &str, series: &Series, catalog: &Catalog) -> Arc<str> {
    let help = catalog.mapping().role_family(series.role);
    let desc = catalog.metric(series.pmid).map(|(_, desc)| *desc);
    let about = serde_json::json!({
        "metric": metric,
        "pmid": series.pmid.to_string(),
        "type": desc.map(|desc| desc.value_type.to_string()),
        "semantics": desc.map(|desc| desc.semantics.to_string()),
        "units": desc.map(|desc| desc.units.to_string()),
        "indom": desc.and_then(|desc| desc.indom).map(|indom| indom.to_string()),
        "help": help.map(|family| family.help.as_str()),
    });
    about.to_string().into()
}

/// Returns the key of the row of some series: their instance, and the labels that all of them share.
/// `None` without series.
fn row_key<'s>(
    mut members: impl Iterator<Item = &'s Series>,
    catalog: &Catalog,
    shape: Shape,
) -> Option<RowKey> {
    let first = members.next()?;
    let mut labels: Vec<&Label> = first.labels.iter().collect();
    for other in members.filter(|other| !Arc::ptr_eq(&other.labels, &first.labels)) {
        labels.retain(|label| other.labels.binary_search(label).is_ok());
    }
    let hostname = first.labels.iter().find(|label| &*label.name == "hostname");
    let hostname = hostname.map_or_else(|| catalog.hostname().into(), |label| label.value.clone());
    let own = labels.iter().filter(|label| !COLUMNS.contains(&&*label.name));
    let own: serde_json::Map<String, serde_json::Value> =
        own.map(|label| (label.name.to_string(), (*label.value).into())).collect();
    let name = catalog.metric(first.pmid).map(|(name, _)| name.into());
    Some(RowKey {
        hostname,
        name: name.filter(|_| shape.has_name),
        instance: first.instance.map(pcp_archive::InstanceId::get),
        instance_name: first.instance_name.clone(),
        labels: (!own.is_empty()).then(|| serde_json::Value::from(own).to_string().into()),
    })
}

impl Exporter {
    /// Returns the name of a column, with its type appended if the name is used with another type.
    fn typed_name(&mut self, table: &str, name: String, cell_type: CellType) -> String {
        let key = (table.to_owned(), name);
        let known = *self.types.entry(key.clone()).or_insert(cell_type);
        let (_, name) = key;
        if known == cell_type { name } else { format!("{name}_{}", cell_type.as_str()) }
    }

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

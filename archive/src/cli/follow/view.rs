//! Records as lines, as they come.

use hashbrown::{HashMap, HashSet};
use pcp_types::{InstanceId, Pmid, Timestamp};

use crate::cli::columns::{Column, Scale, WantedUnits};
use crate::cli::failure::Failure;
use crate::cli::output::Output;
use crate::cli::report::jsonl::{Line, Mark};
use crate::cli::report::table::{MISSING, Row, Table, cell_text, head, time_text};
use crate::cli::value::Json;
use crate::cli::zone::Zone;
use crate::follow::Followed;
use crate::replay::{SelectedMetric, rate_between};
use crate::scan::{glob, instances};
use crate::{Metadata, OwnedValue, Value};

/// Places of the second in the table.
const PLACES: usize = 3;

/// What is shown, and how.
pub(super) struct Choice<'o> {
    /// Names, names of subtrees, patterns; all if empty.
    pub(super) metrics: &'o [String],
    /// The names or numbers of instances; all if empty.
    pub(super) instances: &'o [String],
    /// Counters are shown as rates.
    pub(super) rates: bool,
    pub(super) units: Vec<WantedUnits>,
    pub(super) precision: Option<usize>,
    pub(super) width: usize,
    pub(super) json: bool,
}

impl Choice<'_> {
    /// The names that mean no metric of an archive.
    pub(super) fn unknown(&self, metadata: &Metadata) -> impl Iterator<Item = &String> {
        let is_known =
            |wanted: &str| metadata.subtree("").any(|(name, _)| glob::means(wanted, name));
        self.metrics.iter().filter(move |wanted| !is_known(wanted))
    }

    /// The metric with a PMID, under the first of its names that is chosen.
    fn shown(&self, pmid: Pmid, metadata: &Metadata) -> Option<Shown> {
        let metric = metadata.metric(pmid)?;
        let all = self.metrics.is_empty();
        let is_chosen = |name: &&String| all || self.metrics.iter().any(|m| glob::means(m, name));
        let name = metric.names.iter().find(is_chosen)?.clone();
        let metric = SelectedMetric { name, desc: metric.desc };
        let scale = Scale::new(&metric, self.rates, &self.units);
        Some(Shown { metric, scale, chosen: None, columns: HashMap::new() })
    }
}

/// A metric that is shown.
struct Shown {
    metric: SelectedMetric,
    scale: Scale,
    /// The instances that are chosen, as of so many states of their domain.
    chosen: Option<(usize, HashSet<InstanceId>)>,
    /// The places of the columns of its instances; `None` for those that are
    /// not shown.
    columns: HashMap<Option<InstanceId>, Option<usize>>,
}

impl Shown {
    /// The place of an instance's column, which is made when it first has a
    /// value; `None` if it is not shown.
    fn place(
        &mut self,
        instance: Option<InstanceId>,
        choice: &Choice<'_>,
        metadata: &Metadata,
        columns: &mut Vec<Live>,
    ) -> Option<usize> {
        if let Some(known) = self.columns.get(&instance) {
            return *known;
        }
        let place = self.is_chosen(choice.instances, instance, metadata).then(|| {
            let column = self.column(instance, metadata);
            columns.push(Live { column, pmid: self.metric.desc.pmid, before: None });
            columns.len() - 1
        });
        self.columns.insert(instance, place);
        place
    }

    fn column(&self, instance: Option<InstanceId>, metadata: &Metadata) -> Column {
        let history = self.metric.desc.indom.and_then(|indom| metadata.indom_history(indom));
        let name = history.zip(instance).and_then(|(h, id)| h.name_at(id, Timestamp::MAX));
        Column {
            metric: 0,
            instance,
            name: self.metric.name.clone(),
            instance_name: name.map(Into::into),
            scale: self.scale.clone(),
        }
    }

    /// Whether an instance is among those that the texts mean.
    fn is_chosen(
        &mut self,
        texts: &[String],
        instance: Option<InstanceId>,
        metadata: &Metadata,
    ) -> bool {
        let Some(id) = instance.filter(|_| !texts.is_empty()) else { return true };
        let history = self.metric.desc.indom.and_then(|indom| metadata.indom_history(indom));
        let states = history.map_or(0, |history| history.states().len());
        if self.chosen.as_ref().is_none_or(|(known, _)| *known != states) {
            self.chosen = Some((states, instances::meant(texts, history)));
        }
        self.chosen.as_ref().is_some_and(|(_, chosen)| chosen.contains(&id))
    }
}

/// A column, and the last value of a counter that is shown as its rate.
struct Live {
    column: Column,
    pmid: Pmid,
    before: Option<(Timestamp, OwnedValue)>,
}

impl Live {
    /// The rate since the last value.
    fn rate(&mut self, metric: &SelectedMetric, at: Timestamp, value: Value<'_>) -> Option<f64> {
        let (since, before) = self.before.replace((at, value.to_owned()))?;
        rate_between(metric, (since, before.as_value()), (at, value))
    }
}

/// A value and the place of its column; of a rate the first is not known.
type Cell = (usize, Option<OwnedValue>);

/// What was shown so far, as far as it decides what comes next.
pub(super) struct View<'o> {
    choice: &'o Choice<'o>,
    zone: Zone,
    /// Of the archive that is followed; `None` for metrics that are not shown.
    metrics: HashMap<Pmid, Option<Shown>>,
    columns: Vec<Live>,
    /// `None` before its first line.
    table: Option<Table>,
}

impl<'o> View<'o> {
    pub(super) fn new(choice: &'o Choice<'o>, zone: Zone) -> Self {
        Self { choice, zone, metrics: HashMap::new(), columns: Vec::new(), table: None }
    }

    /// What comes is of another archive and continues nothing.
    pub(super) fn begin_archive(&mut self) {
        self.metrics.clear();
        self.columns.clear();
    }

    /// Shows what a record has of the chosen metrics; false if that is nothing.
    pub(super) fn show(
        &mut self,
        followed: &Followed<'_>,
        out: &mut Output,
    ) -> Result<bool, Failure> {
        let at = followed.record.timestamp();
        if followed.record.is_mark() {
            self.show_mark(at, out)?;
            return Ok(false);
        }
        let known = self.columns.len();
        let cells = self.cells(followed)?;
        if cells.is_empty() {
            return Ok(false);
        }
        if self.choice.json {
            self.write_lines(at, &cells, followed.metadata, out)?;
        } else {
            if self.columns.len() > known {
                self.begin_table(out);
            }
            self.write_row(at, &cells, out)?;
        }
        Ok(true)
    }

    /// The values of the chosen metrics; columns are made as they are needed.
    fn cells(&mut self, followed: &Followed<'_>) -> Result<Vec<Cell>, Failure> {
        let (choice, columns) = (self.choice, &mut self.columns);
        let at = followed.record.timestamp();
        let mut cells = Vec::new();
        for set in followed.record.value_sets() {
            let shown = self.metrics.entry(set.pmid());
            let shown = shown.or_insert_with(|| choice.shown(set.pmid(), followed.metadata));
            let Some(shown) = shown else { continue };
            for value in set.values(shown.metric.desc.value_type) {
                let (instance, value) = value.map_err(|source| followed.damaged(source))?;
                let place = shown.place(instance, choice, followed.metadata, columns);
                let Some(place) = place else { continue };
                let Some(live) = columns.get_mut(place) else { continue };
                let value = if choice.rates && shown.metric.has_rates() {
                    live.rate(&shown.metric, at, value).map(Value::Double)
                } else {
                    Some(value)
                };
                cells.push((place, value.map(|value| live.column.scale.apply(value).to_owned())));
            }
        }
        Ok(cells)
    }

    /// A mark, if there is anything that it ends.
    fn show_mark(&mut self, at: Timestamp, out: &mut Output) -> Result<(), Failure> {
        if self.columns.is_empty() {
            return Ok(());
        }
        self.columns.iter_mut().for_each(|live| live.before = None);
        if self.choice.json {
            return out.json_line(&Mark { time: (at.seconds(), at.nanoseconds()), mark: true });
        }
        let row = Row { time: time_text(&self.zone, at, PLACES), cells: Vec::new() };
        self.table.as_mut().map_or(Ok(()), |table| table.write_block(out, &[row]))
    }

    fn begin_table(&mut self, out: &mut Output) {
        if self.table.is_some() {
            out.text.push(b'\n');
        }
        let heads = self.columns.iter().map(|live| head(&live.column)).collect();
        self.table = Some(Table::new(heads, self.choice.width));
    }

    fn write_row(
        &mut self,
        at: Timestamp,
        cells: &[Cell],
        out: &mut Output,
    ) -> Result<(), Failure> {
        let mut texts = vec![MISSING.to_owned(); self.columns.len()];
        for (place, value) in cells {
            let (Some(live), Some(text)) = (self.columns.get(*place), texts.get_mut(*place)) else {
                continue;
            };
            let value = value.as_ref().map(OwnedValue::as_value);
            *text = cell_text(value, &live.column, self.choice.precision);
        }
        let row = Row { time: time_text(&self.zone, at, PLACES), cells: texts };
        self.table.as_mut().map_or(Ok(()), |table| table.write_block(out, &[row]))
    }

    fn write_lines(
        &self,
        at: Timestamp,
        cells: &[Cell],
        metadata: &Metadata,
        out: &mut Output,
    ) -> Result<(), Failure> {
        for (place, value) in cells {
            let (Some(live), Some(value)) = (self.columns.get(*place), value) else { continue };
            let column = &live.column;
            out.json_line(&Line {
                time: (at.seconds(), at.nanoseconds()),
                metric: &column.name,
                pmid: live.pmid.to_string(),
                instance: column.instance.map(InstanceId::get),
                name: column.instance_name.as_deref(),
                value: Json::new(value.as_value(), metadata),
                units: Some(column.scale.units.as_str()).filter(|_| column.scale.is_computed),
            })?;
        }
        Ok(())
    }
}

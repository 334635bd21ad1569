//! Prints records as rows of a table or as JSON Lines.

mod histogram;

use std::collections::BTreeSet;

use hashbrown::{HashMap, HashSet};
use pcp_archive::follow::FollowedRecord;
use pcp_archive::raw::{LabelTarget, RecordError};
use pcp_archive::replay::{Gaps, HistogramValue, SelectedMetric, SuccessiveRates};
use pcp_archive::scan::{MetricLabels, Selector};
use pcp_archive::{ByteText, InstanceId, Metadata, OwnedValue, Pmid, Timestamp, Value};
use pcp_types::names;

use crate::Failure;
use crate::columns::{Column, Labels, Scale, WantedUnits, number_in_records};
use crate::formats::jsonl::{Line, MarkLine};
use crate::formats::table::{Row, Table, TableCell, table_cell, time_text};
use crate::order::{self, MovedSeries, SeriesOrder};
use crate::screen::left_out as left_out_names;
use crate::screen::{NamedColumn, put_first_numbers_first, put_p99_next_to_rate};
use crate::selection::{ChosenInstances, has_branch};
use crate::text::{Json, Output, no_room_for, warn};
use crate::time::Zone;
use histogram::Histogram;

/// Places of the second in the table.
const PLACES: usize = 3;

/// The options of the output.
#[expect(clippy::struct_excessive_bools, reason = "each is an option on the command line")]
pub(super) struct Choice<'o> {
    /// Selectors of metrics; all if empty.
    pub(super) metrics: Vec<Selector>,
    /// Texts of the selectors.
    pub(super) names: &'o [String],
    /// Metrics of the agent and pmcd are shown only if they are named.
    pub(super) hides_machinery: bool,
    pub(super) instances: &'o [String],
    /// Counters are converted to rates.
    pub(super) rates: bool,
    pub(super) units: Vec<WantedUnits>,
    pub(super) precision: Option<usize>,
    /// Numbers are rounded, in units that suit them.
    pub(super) scaled: bool,
    pub(super) width: usize,
    pub(super) json: bool,
    /// The treatment of time in which a program was not running.
    pub(super) gaps: Gaps,
    /// What comes first.
    pub(super) first_series: MovedSeries,
    /// What is shown of histograms; nothing if their buckets are.
    pub(super) histogram_values: Vec<HistogramValue>,
}

impl Choice<'_> {
    /// Returns the selectors that select no metric of an archive.
    pub(super) fn unknown(&self, metadata: &Metadata) -> impl Iterator<Item = &str> {
        let wanted = self.metrics.iter().map(Selector::name);
        wanted.filter(move |name| metadata.select(name).next().is_none())
    }

    /// Returns whether a metric is shown.
    pub(super) fn selects(&self, name: &str) -> bool {
        let is_chosen = self.metrics.iter().any(|one| names::selects(one.name(), name));
        (is_chosen || self.metrics.is_empty()) && !self.leaves_out(name)
    }

    pub(super) fn has_histogram(&self, metadata: &Metadata) -> bool {
        let pmids = metadata.metrics().iter().map(|metric| metric.desc.pmid);
        pmids.into_iter().any(|pmid| Histogram::with_part(self, pmid, metadata).is_some())
    }

    /// Returns whether an instance has the labels of a selector that matches the name of its
    /// metric.
    fn has_labels(
        &self,
        metric: &SelectedMetric,
        instance: Option<InstanceId>,
        metadata: &Metadata,
    ) -> bool {
        let mut named =
            self.metrics.iter().filter(|m| names::selects(m.name(), &metric.name)).peekable();
        named.peek().is_none()
            || named.any(|m| m.selects_instance(metadata, &metric.desc, instance))
    }

    /// Returns whether a metric belongs to the agent or pmcd and was not asked for by name.
    fn leaves_out(&self, name: &str) -> bool {
        self.hides_machinery && order::is_unnamed_machinery(name, self.names)
    }

    /// Returns the metric with a PMID, by the first of its names that is selected.
    fn shown(&self, pmid: Pmid, metadata: &Metadata) -> Option<ShownMetric> {
        let metric = metadata.metric(pmid)?;
        let all = self.metrics.is_empty();
        let is_chosen =
            |name: &&ByteText| all || self.metrics.iter().any(|m| names::selects(m.name(), name));
        let name = metric.names.iter().find(is_chosen)?.to_string();
        if self.leaves_out(&name) {
            return None;
        }
        let metric = SelectedMetric { name, desc: metric.desc };
        let mut scale = Scale::new(&metric, self.rates, &self.units);
        if self.scaled {
            scale = scale.scaled(&metric);
        }
        Some(ShownMetric::new(metric, scale))
    }
}

/// A selected metric with its columns.
struct ShownMetric {
    metric: SelectedMetric,
    scale: Scale,
    /// The number of states of the domain, and the selected instances of them.
    chosen: Option<(usize, BTreeSet<InstanceId>)>,
    /// The number of states of the labels of the domain, and the labels.
    labels: Option<(usize, MetricLabels)>,
    /// The column index of each instance; `None` for those that are not selected.
    columns: HashMap<Option<InstanceId>, Option<usize>>,
}

impl ShownMetric {
    fn new(metric: SelectedMetric, scale: Scale) -> Self {
        Self { metric, scale, chosen: None, labels: None, columns: HashMap::new() }
    }

    /// Returns the column index of an instance; `None` if it is not selected. The column is added
    /// at the first value.
    fn column_index(
        &mut self,
        instance: Option<InstanceId>,
        choice: &Choice<'_>,
        metadata: &Metadata,
        columns: &mut Vec<Live>,
    ) -> Option<usize> {
        if let Some(known) = self.columns.get(&instance) {
            return *known;
        }
        let is_labelled = choice.has_labels(&self.metric, instance, metadata);
        let is_chosen = is_labelled && self.is_chosen(choice.instances, instance, metadata);
        let place = is_chosen.then(|| {
            let column = self.column(instance, choice, metadata);
            columns.push(Live { column, metric: self.metric.clone() });
            columns.len() - 1
        });
        self.columns.insert(instance, place);
        place
    }

    fn column(
        &mut self,
        instance: Option<InstanceId>,
        choice: &Choice<'_>,
        metadata: &Metadata,
    ) -> Column {
        let history = self.metric.desc.indom.and_then(|indom| metadata.identities(indom));
        let name = history.zip(instance).and_then(|(h, id)| h.name_at(id, Timestamp::MAX));
        let labels = if choice.json { self.labels(instance, metadata) } else { Labels::new() };
        Column {
            metric: 0,
            instance,
            number: number_in_records(metadata, self.metric.desc.indom, instance),
            name: self.metric.name.clone(),
            instance_name: name.map(Into::into),
            labels,
            scale: self.scale.clone(),
        }
    }

    /// Returns the labels of an instance, which are read again when some were added.
    fn labels(&mut self, instance: Option<InstanceId>, metadata: &Metadata) -> Labels {
        let (Some(indom), Some(instance)) = (self.metric.desc.indom, instance) else {
            return Labels::new();
        };
        let history = metadata.label_history(LabelTarget::Instances(indom));
        let states = history.map_or(0, |history| history.states().len());
        if self.labels.as_ref().is_none_or(|(known, _)| *known != states) {
            self.labels = Some((states, MetricLabels::of_domain(metadata, indom)));
        }
        let labels = self.labels.as_ref().and_then(|(_, labels)| labels.of_instance(instance));
        labels.cloned().unwrap_or_default()
    }

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
            let mut chosen = ChosenInstances::new(texts, metadata);
            self.chosen = Some((states, chosen.of_metric(&self.metric).into_owned()));
        }
        self.chosen.as_ref().is_some_and(|(_, chosen)| chosen.contains(&id))
    }
}

struct Live {
    column: Column,
    metric: SelectedMetric,
}

/// A column and its place among those of the archive.
struct PlacedColumn<'v> {
    place: usize,
    live: &'v Live,
}

impl AsRef<Column> for PlacedColumn<'_> {
    fn as_ref(&self) -> &Column {
        &self.live.column
    }
}

/// A column index and its value; the first value of a rate is unknown.
type Cell = (usize, Option<OwnedValue>);

/// The columns and the table so far.
pub(super) struct View<'o> {
    choice: &'o Choice<'o>,
    zone: Zone,
    /// Of the current archive; `None` for metrics that are not selected.
    metrics: HashMap<Pmid, Option<ShownMetric>>,
    columns: Vec<Live>,
    /// Metrics of which values were left out because of their type.
    conflicts: HashSet<Pmid>,
    /// The histograms that are shown as themselves.
    histograms: Vec<Histogram>,
    rates: SuccessiveRates,
    /// `None` before the first row.
    table: Option<Table>,
    /// The places of the columns in the order in which the table has them, and the names of their
    /// metrics.
    order: Vec<usize>,
    names: Vec<String>,
    /// True if a branch was asked for and the table shows only the columns that fit.
    is_selective: bool,
    /// The metrics last reported as left out for lack of room.
    noted: Vec<String>,
    /// True once a record without rates has been skipped.
    has_waited: bool,
    /// The date of the last row.
    date: String,
}

impl<'o> View<'o> {
    pub(super) fn new(choice: &'o Choice<'o>, zone: Zone) -> Self {
        Self {
            choice,
            zone,
            metrics: HashMap::new(),
            columns: Vec::new(),
            conflicts: HashSet::new(),
            histograms: Vec::new(),
            rates: SuccessiveRates::new(choice.gaps),
            table: None,
            order: Vec::new(),
            names: Vec::new(),
            is_selective: false,
            noted: Vec::new(),
            has_waited: false,
            date: String::new(),
        }
    }

    /// Starts another archive, whose values do not continue those before.
    pub(super) fn begin_archive(&mut self) {
        self.metrics.clear();
        self.columns.clear();
        self.conflicts.clear();
        self.histograms.clear();
        self.rates = SuccessiveRates::new(self.choice.gaps);
    }

    /// Prints the values of the selected metrics; false if the record has none.
    pub(super) fn show(
        &mut self,
        followed: &FollowedRecord<'_>,
        out: &mut Output,
    ) -> Result<bool, Failure> {
        let timestamp = followed.record.timestamp();
        self.rates.begin_record(followed);
        for histogram in &mut self.histograms {
            histogram.interrupt(&self.rates);
        }
        if followed.record.is_mark() {
            self.show_mark(timestamp, out)?;
            return Ok(false);
        }
        let known = self.columns.len();
        let cells = self.cells(followed)?;
        if cells.is_empty() {
            return Ok(false);
        }
        if self.choice.json {
            self.write_lines(timestamp, &cells, followed.metadata, out)?;
        } else {
            let date = self.zone.strftime(timestamp, "%F");
            let is_new_day = self.choice.scaled && date != self.date;
            self.date = date;
            if self.columns.len() > known || is_new_day {
                self.begin_table(followed.metadata, out);
            }
            self.write_row(timestamp, &cells, out)?;
        }
        Ok(true)
    }

    /// Returns the values of the selected metrics. Adds columns of new instances.
    fn cells(&mut self, followed: &FollowedRecord<'_>) -> Result<Vec<Cell>, Failure> {
        let choice = self.choice;
        let timestamp = followed.record.timestamp();
        let mut cells = Vec::new();
        for set in followed.record.value_sets() {
            let histogram = self.histogram_of(set.pmid(), followed.metadata);
            let shown = self.metrics.entry(set.pmid());
            let shown = shown.or_insert_with(|| choice.shown(set.pmid(), followed.metadata));
            let part = followed.metadata.metric(set.pmid()).filter(|_| histogram.is_some());
            let value_type = match (&*shown, part) {
                (_, Some(part)) => part.desc.value_type,
                (Some(shown), None) => shown.metric.desc.value_type,
                (None, None) => continue,
            };
            let indom = followed.metadata.metric(set.pmid()).and_then(|metric| metric.desc.indom);
            let domain = indom.and_then(|indom| followed.metadata.indom_history(indom));
            let mut values = Vec::new();
            for value in set.values(value_type) {
                let (number, value) = match value {
                    Ok(pair) => pair,
                    Err(error @ RecordError::ValueType { pmid, .. }) => {
                        if self.conflicts.insert(pmid) {
                            let error = followed.damaged(error);
                            warn(&format_args!("{error}; such values are left out"));
                        }
                        continue;
                    }
                    Err(error) => return Err(followed.damaged(error).into()),
                };
                let instance = match domain.zip(number) {
                    Some((domain, number)) => match domain.identity_at(number, timestamp) {
                        Some(identity) => Some(identity),
                        None => continue,
                    },
                    None => number,
                };
                values.push((instance, value));
            }
            if let Some(histogram) = histogram.and_then(|place| self.histograms.get_mut(place)) {
                for (instance, value) in values {
                    histogram.numbers.add(set.pmid(), instance, value);
                }
                continue;
            }
            let Some(shown) = shown.as_mut() else { continue };
            let rates = if choice.rates && shown.metric.has_rates() {
                Some(self.rates.rates(&shown.metric, &values, followed))
            } else {
                None
            };
            for (position, (instance, value)) in values.into_iter().enumerate() {
                let place =
                    shown.column_index(instance, choice, followed.metadata, &mut self.columns);
                let Some(place) = place else { continue };
                let Some(live) = self.columns.get(place) else { continue };
                let value = match &rates {
                    Some(rates) => rates.get(position).copied().flatten().map(Value::Double),
                    None => Some(value),
                };
                cells.push((place, value.map(|value| live.column.scale.apply(value).to_owned())));
            }
        }
        for histogram in &mut self.histograms {
            cells.extend(histogram.cells(timestamp, choice, followed.metadata, &mut self.columns));
        }
        Ok(cells)
    }

    /// Returns the index of the histogram, shown as itself, that a metric is a part of.
    fn histogram_of(&mut self, pmid: Pmid, metadata: &Metadata) -> Option<usize> {
        let known = self
            .histograms
            .iter()
            .position(|histogram| histogram.numbers.parts().any(|part| part == pmid));
        // A metric that was seen before is not part of another histogram.
        if known.is_some()
            || self.choice.histogram_values.is_empty()
            || self.metrics.contains_key(&pmid)
        {
            return known;
        }
        let new = Histogram::with_part(self.choice, pmid, metadata)?;
        self.histograms.push(new);
        Some(self.histograms.len() - 1)
    }

    fn row(&self, at: Timestamp, cells: Vec<TableCell>) -> Row {
        let time = time_text(&self.zone, at, PLACES, !self.choice.scaled);
        Row { at, time, cells, event: None }
    }

    /// Prints a mark after at least one value.
    fn show_mark(&mut self, timestamp: Timestamp, out: &mut Output) -> Result<(), Failure> {
        if self.columns.is_empty() {
            return Ok(());
        }
        if self.choice.json {
            return out.json_line(&MarkLine::new(timestamp));
        }
        let row = self.row(timestamp, Vec::new());
        self.table.as_mut().map_or(Ok(()), |table| table.write_block(out, &[row]))
    }

    fn begin_table(&mut self, metadata: &Metadata, out: &mut Output) {
        if self.table.is_some() {
            out.text.push(b'\n');
        }
        let mut placed: Vec<NamedColumn<PlacedColumn<'_>>> = Vec::new();
        for (place, live) in self.columns.iter().enumerate() {
            let name = order::histogram_name(metadata, &live.metric).unwrap_or(&live.column.name);
            placed.push((name.to_owned(), PlacedColumn { place, live }));
        }
        if self.choice.gaps == Gaps::Keep {
            let first = self.choice.first_series.clone();
            let mut order = SeriesOrder::new(metadata).with_first(first);
            placed.sort_by_cached_key(|(_, PlacedColumn { live, .. })| {
                order.key(&live.metric, live.column.instance, false)
            });
        }
        let asked = self.choice.names;
        let is_selective = self.choice.scaled && (asked.is_empty() || has_branch(asked, metadata));
        if is_selective {
            put_p99_next_to_rate(&mut placed);
            put_first_numbers_first(&mut placed);
        }
        let columns: Vec<&Column> = placed.iter().map(|(_, column)| column.as_ref()).collect();
        let title = self.choice.scaled.then_some(self.date.as_str());
        let table = Table::new(&columns, title, self.choice.width);
        self.table = Some(if is_selective { table.with_one_panel() } else { table });
        self.is_selective = is_selective;
        self.order = placed.iter().map(|(_, column)| column.place).collect();
        self.names = placed.into_iter().map(|(name, _)| name).collect();
    }

    /// Reports the metrics for which the table has no room, if they have changed.
    fn note_left_out(&mut self) {
        let left_out = self.table.as_ref().map_or(&[][..], Table::left_out);
        let left_out = left_out_names(&self.names, left_out);
        if !left_out.is_empty() && left_out != self.noted {
            warn(&no_room_for(&left_out));
            self.noted = left_out;
        }
    }

    fn write_row(
        &mut self,
        timestamp: Timestamp,
        cells: &[Cell],
        out: &mut Output,
    ) -> Result<(), Failure> {
        let mut texts = vec![TableCell::Missing; self.columns.len()];
        for (place, value) in cells {
            let (Some(live), Some(text)) = (self.columns.get(*place), texts.get_mut(*place)) else {
                continue;
            };
            let value = value.as_ref().map(OwnedValue::as_value);
            *text = table_cell(value, &live.column, self.choice.precision);
        }
        let ordered = self.order.iter().filter_map(|place| texts.get(*place)).cloned();
        let ordered: Vec<TableCell> = ordered.collect();
        // The first rates and quantiles are known at the next record, and then also their units.
        let is_begun = self.table.as_ref().is_some_and(Table::is_begun);
        let is_missing = |cell: &TableCell| *cell == TableCell::Missing;
        let lacks_first = self.is_selective && ordered.first().is_some_and(is_missing);
        let is_too_early = lacks_first && !self.has_waited || ordered.iter().all(is_missing);
        if self.choice.scaled && !is_begun && is_too_early {
            self.has_waited = true;
            return Ok(());
        }
        let row = self.row(timestamp, ordered);
        let Some(table) = &mut self.table else { return Ok(()) };
        if !self.is_selective && table.is_list(&row) {
            table.write_list(out, &row);
            out.text.push(b'\n');
            return Ok(());
        }
        table.write_block(out, &[row])?;
        if self.is_selective {
            out.flush()?;
            self.note_left_out();
        }
        Ok(())
    }

    fn write_lines(
        &self,
        timestamp: Timestamp,
        cells: &[Cell],
        metadata: &Metadata,
        out: &mut Output,
    ) -> Result<(), Failure> {
        for (place, value) in cells {
            let (Some(live), Some(value)) = (self.columns.get(*place), value) else { continue };
            let value = Json::new(value.as_value(), metadata);
            out.json_line(&Line::new(
                timestamp,
                &live.column,
                live.metric.desc.pmid.to_string(),
                value,
            ))?;
        }
        Ok(())
    }
}

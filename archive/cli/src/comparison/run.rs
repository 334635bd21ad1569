//! Reads a run into columns.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use pcp_archive::envelope::{Envelope, Grid, Options};
use pcp_archive::internal::programs::{ProgramEvent, for_each_event};
use pcp_archive::salvage::Loss;
use pcp_archive::scan::histogram::HistogramLayout;
use pcp_archive::scan::{SelectedMetric, Selection};
use pcp_archive::{InDom, InstanceId, Metadata, Pmid, Source, Timestamp, Units};

use super::estimate::{ColumnSums, MAX_GROUPS};
use super::falls::{Fall, read_falls};
use super::histogram::{BucketColumns, HistogramColumns};
use crate::groups::max_series;
use crate::{Failure, columns};

/// Limit on the cells read at once, of 64 bytes each, and the minimum number of columns.
const MAX_CELLS: usize = 1 << 17;
const MIN_COLUMNS: u32 = 60;
/// Relative error of sums of seconds.
const ROUNDING: f64 = 1e-6;
/// The reason of the periods whose records are damaged.
const DAMAGED: &str = "damaged";

/// A metric and the name of its instance.
pub(crate) type SeriesName = (String, Option<Arc<str>>);

#[derive(Debug, Clone, Copy)]
pub(crate) struct RunOptions {
    pub(crate) columns: u32,
    /// Time to leave out after the beginning of the run and after each start of a program.
    pub(crate) warm_up: Duration,
    /// Leave out the columns in which a program ended or started, and those between.
    pub(crate) without_absences: bool,
    /// Note where counters fall in an archive without the events of an agent, as restarts.
    pub(crate) with_falls: bool,
    /// Read past damage, which is [lost](ObservedRun::lost).
    pub(crate) past_damage: bool,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            columns: MAX_GROUPS as u32,
            warm_up: Duration::ZERO,
            without_absences: false,
            with_falls: false,
            past_damage: false,
        }
    }
}

/// A period left out of the comparison, or the time of a restart.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ExcludedPeriod {
    /// `None` if it applies to all programs.
    pub(crate) program: Option<String>,
    pub(crate) begin: Timestamp,
    pub(crate) end: Timestamp,
    pub(crate) reason: &'static str,
}

#[derive(Debug, Default)]
pub(crate) struct ObservedRun {
    pub(crate) series: BTreeMap<SeriesName, SeriesColumns>,
    pub(crate) histograms: BTreeMap<SeriesName, RunHistogram>,
    /// In the order of time.
    pub(crate) excluded: Vec<ExcludedPeriod>,
    /// The places in the selection of counters whose rates are not known all the time: all that may
    /// have fallen.
    pub(crate) interrupted: BTreeSet<usize>,
    /// The damaged parts of the archives.
    pub(crate) lost: Vec<Loss>,
}

/// The values or rates of one instance.
#[derive(Debug, Clone)]
pub(crate) struct SeriesColumns {
    pub(crate) is_rate: bool,
    pub(crate) units: Units,
    pub(crate) parts: Vec<ColumnSums>,
}

/// A histogram, with the units of its values.
#[derive(Debug, Clone)]
pub(crate) struct RunHistogram {
    pub(crate) units: Units,
    pub(crate) columns: HistogramColumns,
}

impl ObservedRun {
    /// Reads the numeric metrics of a selection in a window.
    ///
    /// # Errors
    ///
    /// Those of [`Envelope::read`], including damage unless it is to be read past: missing values
    /// would look like a difference.
    pub(crate) fn read(
        selection: &Selection<'_>,
        window: RangeInclusive<Timestamp>,
        options: RunOptions,
    ) -> Result<Self, Failure> {
        let grid = Grid::new(window, options.columns);
        let mut cuts = Cuts::new(selection.metrics().len());
        cuts.add_start(&grid, options);
        for_each_event(selection.source(), grid.window(), |event| {
            cuts.add_event(event, selection.metrics(), &grid, options);
        })?;
        let mut read = ReadColumns::read(selection, &grid, options.past_damage)?;
        let interrupted = read.interrupted(&grid);
        if options.with_falls {
            for fall in read_falls(selection, &interrupted, &grid, options.past_damage)? {
                cuts.add_fall(&fall, &grid, options);
            }
        }
        let lost = std::mem::take(&mut read.lost);
        cuts.add_damage(&lost, &grid);
        cuts.add_gaps(selection.source(), &read.marks, &grid, options)?;
        let excluded = cuts.finish(&grid, options);
        let run = Self::of_columns(selection, read, &cuts.columns);
        Ok(Self { excluded, interrupted, lost, ..run })
    }

    /// Reads the numeric metrics of a selection in a window past damage, without looking for what is
    /// excluded, which would read all records again.
    ///
    /// # Errors
    ///
    /// Those of [`Envelope::read_past_damage`].
    pub(crate) fn read_values(
        selection: &Selection<'_>,
        window: RangeInclusive<Timestamp>,
        columns: u32,
    ) -> Result<Self, Failure> {
        let mut read = ReadColumns::read(selection, &Grid::new(window, columns), true)?;
        let lost = std::mem::take(&mut read.lost);
        Ok(Self { lost, ..Self::of_columns(selection, read, &[]) })
    }

    /// Assigns series to metrics, without the columns that are cut out of each metric.
    fn of_columns(
        selection: &Selection<'_>,
        read: ReadColumns,
        cuts: &[Vec<RangeInclusive<u32>>],
    ) -> Self {
        let mut run = Self::default();
        let mut reader = SeriesReader::new(selection);
        for ((metric, instance), (is_rate, mut parts)) in read.series {
            for cut in cuts.get(metric).into_iter().flatten() {
                for column in cut.clone() {
                    if let Some(part) = parts.get_mut(column as usize) {
                        *part = ColumnSums::default();
                    }
                }
            }
            reader.add(&mut run, (metric, instance), is_rate, parts);
        }
        run.histograms.values_mut().for_each(|histogram| histogram.columns.sort());
        run
    }

    /// Returns whether any instance of a counter was logged.
    pub(crate) fn has_counter(&self, metric: &str) -> bool {
        self.instances(metric).next().is_some_and(|columns| columns.is_rate)
    }

    /// Iterates over the series of a metric.
    pub(super) fn instances(&self, metric: &str) -> impl Iterator<Item = &SeriesColumns> {
        let series = self.series.range((metric.to_owned(), None)..);
        series.take_while(move |((name, _), _)| name == metric).map(|(_, columns)| columns)
    }
}

/// Returns the names that the series of a selection have in a run.
pub(crate) fn series_names(selection: &Selection<'_>) -> BTreeSet<SeriesName> {
    let mut reader = SeriesReader::new(selection);
    let mut names = BTreeSet::new();
    for (place, metric) in selection.metrics().iter().enumerate() {
        if let Some(instances) = selection.labelled_instances(metric.desc.pmid) {
            for instance in instances {
                names.extend(reader.name(place, Some(*instance)));
            }
        } else {
            names.extend(reader.name(place, None));
        }
    }
    names
}

/// The place of a metric in the selection, and an instance.
type SeriesPlace = (usize, Option<InstanceId>);

/// The contents of an archive in each column of a grid.
#[derive(Debug, Default, PartialEq)]
struct ReadColumns {
    /// Whether values are rates, and the sums of all columns.
    series: BTreeMap<SeriesPlace, (bool, Vec<ColumnSums>)>,
    marks: Vec<Timestamp>,
    lost: Vec<Loss>,
}

impl ReadColumns {
    /// Reads a grid in slices, one after the other: a slice takes several times the memory of its
    /// sums.
    fn read(selection: &Selection<'_>, grid: &Grid, past_damage: bool) -> Result<Self, Failure> {
        let cells = max_series(selection).saturating_mul(grid.columns() as usize);
        let most = (grid.columns() / MIN_COLUMNS).max(1) as usize;
        let slices = cells.div_ceil(MAX_CELLS).clamp(1, most);
        Self::read_slices(selection, grid, slices as u32, past_damage)
    }

    fn read_slices(
        selection: &Selection<'_>,
        grid: &Grid,
        slices: u32,
        past_damage: bool,
    ) -> Result<Self, Failure> {
        let mut read = Self::default();
        for slice in 0..slices {
            let first = slice * grid.columns() / slices;
            let end = (slice + 1) * grid.columns() / slices;
            let Some(part) = grid.part(first..end) else {
                return Self::read_whole(selection, grid, past_damage);
            };
            let envelope = if past_damage {
                let (envelope, lost) =
                    Envelope::read_past_damage(selection, part, Options::default())?;
                if !lost.is_empty() {
                    // Damage between two slices would be found in both.
                    return Self::read_whole(selection, grid, past_damage);
                }
                envelope
            } else {
                Envelope::read(selection, part, Options::default())?
            };
            read.add(envelope, first, grid.columns());
        }
        Ok(read)
    }

    fn read_whole(
        selection: &Selection<'_>,
        grid: &Grid,
        past_damage: bool,
    ) -> Result<Self, Failure> {
        let mut read = Self::default();
        let envelope = if past_damage {
            let (envelope, lost) =
                Envelope::read_past_damage(selection, grid.clone(), Options::default())?;
            read.lost = lost;
            envelope
        } else {
            Envelope::read(selection, grid.clone(), Options::default())?
        };
        read.add(envelope, 0, grid.columns());
        Ok(read)
    }

    /// Returns the metrics with rates that are not known for the whole of a column.
    fn interrupted(&self, grid: &Grid) -> BTreeSet<usize> {
        let window = grid.window();
        let seconds = window.end().seconds_since(*window.start()) / f64::from(grid.columns());
        let is_partial = |part: &ColumnSums| part.denominator < seconds * (1.0 - ROUNDING);
        let mut places = BTreeSet::new();
        for ((place, _), (is_rate, parts)) in &self.series {
            if *is_rate && parts.iter().any(is_partial) {
                places.insert(*place);
            }
        }
        places
    }

    /// Adds an envelope whose first column is this one of all.
    fn add(&mut self, envelope: Envelope, first: u32, columns: u32) {
        self.marks.extend(envelope.marks);
        // A series is dropped when it was added: both forms of all would be twice the memory.
        for series in envelope.series {
            let (_, parts) = self
                .series
                .entry((series.metric, series.instance))
                .or_insert_with(|| (series.is_rate, vec![ColumnSums::default(); columns as usize]));
            for (column, cell) in series.cells() {
                if let Some(part) = parts.get_mut((first + column) as usize) {
                    let denominator = cell.weight();
                    let numerator = cell.mean() * denominator;
                    *part = ColumnSums { numerator, denominator, observations: cell.count };
                }
            }
        }
    }
}

/// Assigns series to plain metrics and histograms.
struct SeriesReader<'s, 'a> {
    selection: &'s Selection<'a>,
    /// By the place of the counter of buckets in the selection.
    layouts: HashMap<usize, HistogramLayout>,
    /// The counter of buckets that a sum belongs to.
    buckets_of_sums: HashMap<Pmid, usize>,
    names: HashMap<InDom, HashMap<InstanceId, Arc<str>>>,
}

impl<'s, 'a> SeriesReader<'s, 'a> {
    fn new(selection: &'s Selection<'a>) -> Self {
        let metadata = selection.source().metadata();
        let mut layouts = HashMap::new();
        let mut buckets_of_sums = HashMap::new();
        for (place, metric) in selection.metrics().iter().enumerate() {
            if let Some(layout) = HistogramLayout::find(metadata, &metric.name, &metric.desc) {
                if let Some(sum) = layout.sum() {
                    buckets_of_sums.insert(sum, place);
                }
                layouts.insert(place, layout);
            }
        }
        Self { selection, layouts, buckets_of_sums, names: HashMap::new() }
    }

    fn add(
        &mut self,
        run: &mut ObservedRun,
        (place, instance): SeriesPlace,
        is_rate: bool,
        parts: Vec<ColumnSums>,
    ) {
        let Some(metric) = self.selection.metrics().get(place) else { return };
        if let Some(&buckets) = self.buckets_of_sums.get(&metric.desc.pmid) {
            if let Some(histogram) = self.histogram(run, buckets, instance) {
                histogram.observe(&parts);
                // The rate of a time has no unit, so its growth is in seconds.
                let conversion = Units::seconds().conversion_to(metric.desc.units);
                let factor = conversion.map_or(1.0, |conversion| conversion.apply(1.0));
                histogram.sums = parts.iter().map(|part| part.numerator * factor).collect();
            }
            return;
        }
        if let Some(layout) = self.layouts.get(&place) {
            let bucket = instance.and_then(|instance| layout.bucket(instance));
            if let Some(bucket) = bucket
                && let Some(histogram) = self.histogram(run, place, bucket.histogram)
            {
                histogram.observe(&parts);
                histogram.buckets.push(BucketColumns {
                    first: bucket.first,
                    last: bucket.last,
                    counts: parts.iter().map(|part| part.numerator).collect(),
                });
            }
            return;
        }
        let units = if is_rate { metric.rate_units() } else { metric.desc.units };
        let instance = self.instance_name(metric.desc.indom, instance);
        let columns = SeriesColumns { is_rate, units, parts };
        run.series.insert((metric.name.clone(), instance), columns);
    }

    /// Returns the histogram whose counter of buckets is at a place of the selection.
    fn histogram<'r>(
        &mut self,
        run: &'r mut ObservedRun,
        buckets: usize,
        instance: Option<InstanceId>,
    ) -> Option<&'r mut HistogramColumns> {
        let units = self.layouts.get(&buckets)?.units();
        let histogram = run.histograms.entry(self.histogram_name(buckets, instance)?);
        let empty = || RunHistogram { units, columns: HistogramColumns::default() };
        Some(&mut histogram.or_insert_with(empty).columns)
    }

    /// Returns the name of the series or histogram that an instance of a metric belongs to.
    fn name(&mut self, metric: usize, instance: Option<InstanceId>) -> Option<SeriesName> {
        let selected = self.selection.metrics().get(metric)?;
        if let Some(&buckets) = self.buckets_of_sums.get(&selected.desc.pmid) {
            return self.histogram_name(buckets, instance);
        }
        if let Some(layout) = self.layouts.get(&metric) {
            let bucket = layout.bucket(instance?)?;
            return self.histogram_name(metric, bucket.histogram);
        }
        Some((selected.name.clone(), self.instance_name(selected.desc.indom, instance)))
    }

    fn histogram_name(
        &mut self,
        buckets: usize,
        instance: Option<InstanceId>,
    ) -> Option<SeriesName> {
        let layout = self.layouts.get(&buckets)?;
        let name = layout.name().to_owned();
        let indom = layout.indom();
        Some((name, self.instance_name(indom, instance)))
    }

    fn instance_name(
        &mut self,
        indom: Option<InDom>,
        instance: Option<InstanceId>,
    ) -> Option<Arc<str>> {
        let indom = indom?;
        let metadata: &Metadata = self.selection.source().metadata();
        let names =
            self.names.entry(indom).or_insert_with(|| columns::instance_names(metadata, indom));
        columns::instance_title(instance, names.get(&instance?))
    }
}

/// Returns the columns from one time to another; times outside of the grid are at its ends.
fn columns_of(grid: &Grid, begin: Timestamp, end: Timestamp) -> RangeInclusive<u32> {
    let last = grid.columns() - 1;
    grid.column_of(begin).unwrap_or(0)..=grid.column_of(end).unwrap_or(last)
}

/// Returns the time of the first record that is not a mark, from a time on.
fn first_record(source: Source<'_>, from: Timestamp) -> pcp_archive::Result<Option<Timestamp>> {
    let mut records = source.records_from(from)?;
    while let Some(record) = records.next()? {
        if !record.is_mark() && record.timestamp() >= from {
            return Ok(Some(record.timestamp()));
        }
    }
    Ok(None)
}

/// The parts of a run that are cut out.
struct Cuts {
    /// The columns, by the place of the metric in the selection.
    columns: Vec<Vec<RangeInclusive<u32>>>,
    excluded: Vec<ExcludedPeriod>,
    /// The programs that are not running.
    away: BTreeMap<String, Away>,
}

/// A program that ended.
struct Away {
    since: Timestamp,
    /// The places of its metrics in the selection.
    metrics: Vec<usize>,
}

impl Cuts {
    fn new(metrics: usize) -> Self {
        Self { columns: vec![Vec::new(); metrics], excluded: Vec::new(), away: BTreeMap::new() }
    }

    fn add_start(&mut self, grid: &Grid, options: RunOptions) {
        if options.warm_up > Duration::ZERO {
            let begin = *grid.window().start();
            let columns = self.exclude(None, begin, grid, options.warm_up);
            self.columns.iter_mut().for_each(|cuts| cuts.push(columns.clone()));
        }
    }

    fn add_event(
        &mut self,
        event: &ProgramEvent<'_>,
        metrics: &[SelectedMetric],
        grid: &Grid,
        options: RunOptions,
    ) {
        let Some(program) = event.file else { return };
        let boundary = event.boundary();
        if boundary.is_none() && !self.away.contains_key(program) {
            return;
        }
        let concerned: Vec<usize> = (0..)
            .zip(metrics)
            .filter(|(_, metric)| event.concerns(&metric.name, metric.desc.pmid))
            .map(|(place, _)| place)
            .collect();
        if concerned.is_empty() {
            return;
        }
        let is_back = matches!(event.kind, "appeared" | "restarted" | "recovered");
        if !is_back {
            let away = Away { since: event.at, metrics: concerned };
            self.away.entry(program.to_owned()).or_insert(away);
            return;
        }
        let begin = self.away.remove(program).map(|away| away.since);
        if let Some(begin) = begin.filter(|_| options.without_absences) {
            self.cut(&concerned, &columns_of(grid, begin, event.at));
        }
        self.excluded.push(ExcludedPeriod {
            program: Some(program.to_owned()),
            begin: begin.unwrap_or(event.at),
            end: event.at,
            reason: match event.kind {
                "recovered" => "not logged",
                _ if begin.is_some() => "not running",
                "restarted" => "restarted",
                _ => "started",
            },
        });
        if boundary.is_some_and(|boundary| boundary.from_zero) && options.warm_up > Duration::ZERO {
            let columns = self.exclude(Some(program), event.at, grid, options.warm_up);
            self.cut(&concerned, &columns);
        }
    }

    fn add_fall(&mut self, fall: &Fall, grid: &Grid, options: RunOptions) {
        self.excluded.push(ExcludedPeriod {
            program: Some(fall.program.clone()),
            begin: fall.at,
            end: fall.at,
            reason: "counters fell",
        });
        if options.warm_up > Duration::ZERO {
            let columns = self.exclude(Some(&fall.program), fall.at, grid, options.warm_up);
            self.cut(&fall.metrics, &columns);
        }
    }

    /// Cuts columns out of metrics.
    fn cut(&mut self, metrics: &[usize], columns: &RangeInclusive<u32>) {
        for place in metrics {
            if let Some(cuts) = self.columns.get_mut(*place) {
                cuts.push(columns.clone());
            }
        }
    }

    /// Records a warm-up and returns its columns.
    fn exclude(
        &mut self,
        program: Option<&str>,
        begin: Timestamp,
        grid: &Grid,
        warm_up: Duration,
    ) -> RangeInclusive<u32> {
        let window = grid.window();
        let end = begin.saturating_add(warm_up).min(*window.end());
        let program = program.map(str::to_owned);
        self.excluded.push(ExcludedPeriod { program, begin, end, reason: "warm-up" });
        columns_of(grid, begin, end)
    }

    /// Notes the times of which records are damaged.
    fn add_damage(&mut self, lost: &[Loss], grid: &Grid) {
        let (start, end) = grid.window().into_inner();
        for loss in lost {
            self.excluded.push(ExcludedPeriod {
                program: None,
                begin: loss.after.unwrap_or(start).max(start),
                end: loss.before.unwrap_or(end).min(end),
                reason: DAMAGED,
            });
        }
    }

    /// Notes the gaps in the archive, each from a mark to the next record.
    fn add_gaps(
        &mut self,
        source: Source<'_>,
        marks: &[Timestamp],
        grid: &Grid,
        options: RunOptions,
    ) -> Result<(), Failure> {
        let window_end = *grid.window().end();
        for mark in marks {
            let is_damage = self.excluded.iter().any(|excluded| {
                excluded.reason == DAMAGED && (excluded.begin..=excluded.end).contains(mark)
            });
            if is_damage {
                continue;
            }
            let next = match first_record(source, *mark) {
                // What follows the mark is damaged, and is noted as such.
                Err(error) if options.past_damage && error.is_damage() => continue,
                found => found?,
            };
            let end = next.map_or(window_end, |next| next.min(window_end));
            let reason = "gap in the archive";
            self.excluded.push(ExcludedPeriod { program: None, begin: *mark, end, reason });
        }
        Ok(())
    }

    /// Returns what was cut out, in the order of time.
    fn finish(&mut self, grid: &Grid, options: RunOptions) -> Vec<ExcludedPeriod> {
        let mut excluded = std::mem::take(&mut self.excluded);
        let end = *grid.window().end();
        for (program, Away { since, metrics }) in std::mem::take(&mut self.away) {
            if options.without_absences {
                self.cut(&metrics, &columns_of(grid, since, end));
            }
            let program = Some(program);
            excluded.push(ExcludedPeriod { program, begin: since, end, reason: "not running" });
        }
        excluded.sort_by_key(|cut| cut.begin);
        excluded
    }
}

#[cfg(test)]
mod tests {
    use pcp_archive::raw::event::{EventArrayBuilder, EventFlags};
    use pcp_archive::{Archive, OwnedValue, Value};
    use test_archives::{Builder, Cell, at};

    use super::*;

    /// The cluster of the metrics of `web`, whose names do not begin with its name.
    const CLUSTER: u32 = 5;

    fn event(second: u64, kind: &str) -> OwnedValue {
        let parameter = |item| Pmid::new(70, 0, item).unwrap();
        let mut array = EventArrayBuilder::new();
        array.record(at(second), EventFlags::POINT).unwrap();
        array.parameter(parameter(1002), Value::String(kind.as_bytes())).unwrap();
        array.parameter(parameter(1003), Value::String(b"web")).unwrap();
        array.parameter(parameter(1009), Value::U32(CLUSTER)).unwrap();
        array.finish()
    }

    #[test]
    fn counters_that_fell_are_interrupted_and_no_others() {
        for fall in 1..=60_u32 {
            let rows = (0..=60_u32).map(|second| {
                let since = if second < fall { 0 } else { fall };
                (
                    second,
                    [
                        ("fallen", 3 * (second - since) + if since == 0 { 5 } else { 1 }),
                        ("steady", 3 * second),
                    ],
                )
            });
            let archive = Builder::new()
                .metric("fallen", "u32 counter count")
                .metric("steady", "u32 counter count")
                .rows(rows)
                .finish();
            let archive = Archive::open(archive.base()).unwrap();
            let mut selection = Selection::new(&archive);
            selection.select("");
            for columns in [7, 60, 128] {
                let options = RunOptions { columns, ..RunOptions::default() };
                let run = ObservedRun::read(&selection, at(0)..=at(60), options).unwrap();
                let names = run.interrupted.iter().map(|place| &*selection.metrics()[*place].name);
                assert_eq!(names.collect::<Vec<_>>(), ["fallen"], "{fall} s, {columns} columns");
            }
        }
    }

    #[test]
    fn slices_have_the_same_columns_as_the_whole() {
        let rows = (0..200).map(|second: u32| {
            let mut cells = vec![("load", Cell::from(second * second % 17))];
            // In none of the slices, in few, and across their borders.
            if second % 7 != 3 && !(90..130).contains(&second) {
                let since = if second < 61 { 0 } else { 61 };
                cells.push(("sold[a]", (11 * (second - since)).into()));
            }
            if second > 120 && second.is_multiple_of(31) {
                cells.push(("sold[b]", (5 * second).into()));
            }
            (f64::from(second) + 0.37, cells)
        });
        let archive = Builder::new()
            .metric("load", "u32 instant")
            .metric("sold", "u32 counter count")
            .instances("sold", ["a", "b"])
            .rows(rows)
            .finish();
        let archive = Archive::open(archive.base()).unwrap();
        let mut selection = Selection::new(&archive);
        selection.select("");
        let grid = Grid::new(at(0)..=at(199.5), 77);
        let whole = ReadColumns::read_whole(&selection, &grid, true).unwrap();
        assert_eq!(whole.series.len(), 3);
        for slices in [1, 2, 5, 77] {
            let read = ReadColumns::read_slices(&selection, &grid, slices, true).unwrap();
            assert_eq!(read.marks, whole.marks);
            assert!(read.series.keys().eq(whole.series.keys()));
            let found = read.series.values().flat_map(|(_, parts)| parts);
            let expected = whole.series.values().flat_map(|(_, parts)| parts);
            for (found, expected) in found.zip(expected) {
                let is_near = (found.numerator - expected.numerator).abs() < 1e-6
                    && (found.denominator - expected.denominator).abs() < 1e-6;
                let is_same = is_near && found.observations == expected.observations;
                assert!(is_same, "{slices} slices: {found:?}, {expected:?}");
            }
        }
    }

    #[test]
    fn absences_are_cut_out_of_metrics_without_a_program_name() {
        let rows = (0..100).map(|second| {
            let mut cells = vec![("mmv.other.total", Cell::from(5 * second))];
            let since = if second < 40 { 0 } else { 50 };
            if !(40..50).contains(&second) {
                cells.push(("mmv.jobs.total", Cell::from(7 * (second - since))));
            }
            if second == 40 {
                cells.push(("mmv.agent.events", event(second, "ended").into()));
            }
            if second == 50 {
                cells.push(("mmv.agent.events", event(second, "restarted").into()));
            }
            (second, cells)
        });
        let archive = Builder::new()
            .metric_with(Pmid::new(70, 0, 1001).unwrap(), "mmv.agent.events", "event instant")
            .metric_with(Pmid::new(70, 0, 1002).unwrap(), "mmv.agent.event.type", "string discrete")
            .metric_with(Pmid::new(70, 0, 1003).unwrap(), "mmv.agent.event.file", "string discrete")
            .metric_with(Pmid::new(70, 0, 1009).unwrap(), "mmv.agent.event.cluster", "u32 discrete")
            .metric_with(Pmid::new(70, CLUSTER, 1).unwrap(), "mmv.jobs.total", "u64 counter count")
            .metric("mmv.other.total", "u64 counter count")
            .rows(rows)
            .finish();
        let archive = Archive::open(archive.base()).unwrap();
        let mut selection = Selection::new(&archive);
        selection.select("mmv.jobs");
        selection.select("mmv.other");
        let options = RunOptions { columns: 99, without_absences: true, ..RunOptions::default() };
        let run = ObservedRun::read(&selection, at(0)..=at(99), options).unwrap();
        let unknown = |metric: &str| {
            let parts = &run.series.get(&(metric.to_owned(), None)).unwrap().parts;
            (0..).zip(parts).filter(|(_, part)| part.denominator == 0.0).map(|(column, _)| column)
        };
        assert_eq!(unknown("mmv.jobs.total").collect::<Vec<i32>>(), (39..=50).collect::<Vec<_>>());
        assert_eq!(unknown("mmv.other.total").count(), 0);
    }
}

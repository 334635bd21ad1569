//! The table of a summary for people.
//!
//! A metric with instances has a line of its own and one below it for each; the numbers of a metric
//! have one unit, which is named once. Where lines are sorted by a column, each has the whole name
//! and the unit.

use mmv_chart::Grid;
use pcp_types::names::{common_branch, common_labels, label_values};
use pcp_types::scaled::scaled;
use std::sync::Arc;

use pcp_archive::Units;
use pcp_archive::summary::{Extreme, Statistics};

use super::{Line, MISSING, quantile_title, same_rank};
use crate::Failure;
use crate::order::branch;
use crate::text::{Output, shown};
use crate::time::{Window, Zone};
use pcp_types::scaled::ColumnUnit;

/// The unit of rates of plain counts.
const COUNT_RATE: &str = "count/s";

pub(super) struct SummaryTable<'o> {
    /// The quantiles of histograms.
    pub(super) ranks: &'o [f64],
    /// The times of minimum and maximum are columns.
    pub(super) has_times: bool,
    pub(super) has_total: bool,
    /// Lines are in the order of a column, not of metrics.
    pub(super) is_sorted: bool,
    pub(super) window: Window,
    pub(super) zone: &'o Zone,
}

/// The columns that some line has a number for.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each is a column")]
struct ShownColumns {
    /// Rates of counters and histograms.
    rates: bool,
    /// Means of other metrics.
    means: bool,
    /// The values that histograms counted.
    counts: bool,
    /// The samples of metrics, where no histogram has a count.
    samples: bool,
    extremes: bool,
}

impl ShownColumns {
    fn new(lines: &[Line<'_>]) -> Self {
        Self {
            rates: lines.iter().any(Line::is_rate),
            means: lines.iter().any(|line| !line.is_rate()),
            counts: lines.iter().any(|line| line.histogram.is_some()),
            samples: lines.iter().all(|line| line.histogram.is_none()),
            extremes: lines.iter().any(|line| line.statistics.is_some()),
        }
    }
}

/// The units of the numbers of a metric.
struct LineUnits {
    /// Of averages, minimum and maximum.
    own: ColumnUnit,
    /// Of the quantiles of a histogram.
    quantiles: Option<ColumnUnit>,
}

impl LineUnits {
    fn choose(lines: &[Line<'_>]) -> Self {
        let metric = lines.first().map(|line| line.metric);
        let units = metric.map_or(Units::NONE, |metric| metric.units);
        let mut own = Vec::new();
        let mut quantiles = Vec::new();
        let mut quantile_units = None;
        let mut quantiles_converted_to = None;
        for line in lines {
            if let Some(statistics) = line.statistics {
                let extremes = [statistics.minimum.value, statistics.maximum.value];
                own.extend([statistics.time_average].into_iter().chain(extremes));
            }
            if let Some(counted) = &line.histogram {
                own.push(counted.rate);
                quantiles.extend(counted.quantiles.iter().flatten());
                quantile_units = Some(counted.units);
                quantiles_converted_to = counted.converted_to.as_deref();
            }
        }
        let converted_to = lines.first().and_then(|line| line.converted_to.as_deref());
        let choose = |units, converted_to: Option<&str>, numbers: &[f64]| match converted_to {
            Some(text) => ColumnUnit::fixed(text, numbers),
            None => ColumnUnit::choose(units, numbers),
        };
        Self {
            own: choose(units, converted_to, &own),
            quantiles: quantile_units
                .map(|units| choose(units, quantiles_converted_to, &quantiles)),
        }
    }

    /// Returns the units as text; those of rates of time say so.
    fn title(&self, line: &Line<'_>) -> String {
        let own = match self.own.title() {
            "" => line.units(),
            title => title.to_owned(),
        };
        let quantiles = self.quantiles.as_ref().map_or("", ColumnUnit::title);
        let gap = if own.is_empty() || quantiles.is_empty() { "" } else { ", " };
        // A histogram counts nothing but values.
        let own = if own == COUNT_RATE && line.histogram.is_some() { "/s".to_owned() } else { own };
        // Numbers of parts of a count are plain.
        let own = if line.metric.units.count_scale() == 0 { own } else { String::new() };
        format!("{own}{gap}{quantiles}")
    }
}

impl SummaryTable<'_> {
    pub(super) fn write(&self, out: &mut Output, lines: &[Line<'_>]) -> Result<(), Failure> {
        let shown = ShownColumns::new(lines);
        let ranks = self.ranks.iter().filter(|rank| !same_rank(**rank, 1.0));
        let ranks: Vec<f64> = ranks.copied().collect();
        let heads = self.heads(&ranks, shown);
        let mut grid = Grid::new(heads.len());
        for head in &heads {
            grid.cell(|text| text.push_str(head));
        }
        let name = |line: &Line<'_>| line.metric.metric.name.clone();
        let names: Vec<String> = lines.iter().map(name).collect();
        let Some((first, others)) = names.split_first() else { return Ok(()) };
        let is_one_branch = names.iter().all(|name| branch(name) == branch(first));
        let common = if is_one_branch || self.is_sorted {
            common_branch(first, others.iter().map(String::as_str))
        } else {
            ""
        };
        let cells = Cells { table: self, grid: &mut grid, ranks: &ranks, shown };
        cells.push_lines(lines, common, is_one_branch);
        let title = self.title(common);
        out.text.extend_from_slice(format!("{title}\n").as_bytes());
        out.rows(&grid)
    }

    /// Returns what all names have in common, and the window.
    fn title(&self, common: &str) -> String {
        let Window { start, end, .. } = self.window;
        let start = self.zone.strftime(start, "%F %T");
        let end = self.zone.strftime(end, if self.is_one_day() { "%T" } else { "%F %T" });
        let gap = if common.is_empty() { "" } else { ", " };
        format!("{}{gap}{start} to {end}", shown(common))
    }

    fn is_one_day(&self) -> bool {
        let day = |at| self.zone.strftime(at, "%F");
        day(self.window.start) == day(self.window.end)
    }

    fn has_maximum(&self, has_statistics: bool) -> bool {
        has_statistics || self.ranks.iter().any(|rank| same_rank(*rank, 1.0))
    }

    fn heads(&self, ranks: &[f64], shown: ShownColumns) -> Vec<String> {
        let has_statistics = shown.extremes;
        let mut heads = vec![String::new()];
        if shown.rates {
            heads.push("Rate".to_owned());
        }
        if shown.means {
            heads.push("Mean".to_owned());
        }
        if has_statistics {
            heads.push("Min".to_owned());
        }
        if has_statistics && self.has_times {
            heads.push("At".to_owned());
        }
        heads.extend(ranks.iter().map(|rank| quantile_title(*rank)));
        if self.has_maximum(has_statistics) {
            heads.push("Max".to_owned());
        }
        if has_statistics && self.has_times {
            heads.push("At".to_owned());
        }
        if self.has_total && has_statistics {
            heads.push("Total".to_owned());
        }
        if shown.counts {
            heads.push("Count".to_owned());
        }
        if shown.samples {
            heads.push("Samples".to_owned());
        }
        heads.push("Unit".to_owned());
        heads
    }
}

struct Cells<'g, 'o> {
    table: &'g SummaryTable<'o>,
    grid: &'g mut Grid,
    /// The quantiles but the maximum.
    ranks: &'g [f64],
    shown: ShownColumns,
}

impl Cells<'_, '_> {
    fn push_lines(mut self, lines: &[Line<'_>], common: &str, is_one_branch: bool) {
        if self.table.is_sorted {
            for line in lines {
                let units = LineUnits::choose(std::slice::from_ref(line));
                let name = match line.instance_title() {
                    Some(title) => format!("{}[{title}]", rest(line, common)),
                    None => rest(line, common).to_owned(),
                };
                let title = units.title(line);
                self.push_line(line, &name, &units, &title);
            }
            return;
        }
        let of_branches = lines.chunk_by(|one, other| {
            branch(&one.metric.metric.name) == branch(&other.metric.metric.name)
        });
        for (place, of_branch) in of_branches.enumerate() {
            let Some(first) = of_branch.first() else { continue };
            let mut common = common;
            if !is_one_branch {
                common = branch(&first.metric.metric.name);
                if place > 0 {
                    self.push_heading("", "");
                }
                self.push_heading(common, "");
            }
            let is_same = |one: &Line<'_>, other: &Line<'_>| {
                one.metric.metric.name == other.metric.metric.name
            };
            for of_metric in of_branch.chunk_by(is_same) {
                self.push_metric(of_metric, common);
            }
        }
    }

    fn push_metric(&mut self, lines: &[Line<'_>], common: &str) {
        let Some(first) = lines.first() else { return };
        let units = LineUnits::choose(lines);
        let title = units.title(first);
        let name = rest(first, common);
        let titles: Vec<Arc<str>> = lines.iter().filter_map(Line::instance_title).collect();
        if titles.is_empty() {
            for line in lines {
                self.push_line(line, name, &units, &title);
            }
            return;
        }
        let labels = common_labels(titles.iter().map(|title| &**title));
        match &labels {
            Some(labels) => self.push_heading(&format!("{name} by {labels}"), &title),
            None => self.push_heading(name, &title),
        }
        for (line, title) in lines.iter().zip(&titles) {
            let values = label_values(title).filter(|_| labels.is_some());
            let own = values.as_deref().unwrap_or(title);
            self.push_line(line, &format!("  {own}"), &units, "");
        }
    }

    fn push_heading(&mut self, name: &str, units: &str) {
        self.grid.cell(|text| text.push_str(&shown(name)));
        let heads = self.table.heads(self.ranks, self.shown).len();
        for _ in 2..heads {
            self.grid.cell(|_| {});
        }
        self.grid.cell(|text| text.push_str(&shown(units)));
    }

    fn push_line(&mut self, line: &Line<'_>, name: &str, units: &LineUnits, title: &str) {
        let statistics = line.statistics;
        let counted = line.histogram.as_ref();
        let mark = if line.is_short(self.table.window) { "*" } else { "" };
        self.grid.format(format_args!("{mark}{}", shown(name)));
        let average = statistics.map(|one| one.time_average).or(counted.map(|one| one.rate));
        if self.shown.rates {
            self.push_number(average.filter(|_| line.is_rate()), Some(&units.own));
        }
        if self.shown.means {
            self.push_number(average.filter(|_| !line.is_rate()), Some(&units.own));
        }
        let quantile = |rank: f64| {
            let place = self.table.ranks.iter().position(|one| same_rank(*one, rank))?;
            counted?.quantiles.get(place).copied().flatten()
        };
        if self.shown.extremes {
            self.push_number(statistics.map(|one| one.minimum.value), Some(&units.own));
            self.push_time(statistics, |one| one.minimum);
        }
        for rank in self.ranks {
            self.push_number(quantile(*rank), units.quantiles.as_ref());
        }
        match (statistics, &units.quantiles) {
            _ if !self.table.has_maximum(self.shown.extremes) => {}
            (Some(one), _) => self.push_number(Some(one.maximum.value), Some(&units.own)),
            (None, of_quantiles) => self.push_number(quantile(1.0), of_quantiles.as_ref()),
        }
        if self.shown.extremes {
            self.push_time(statistics, |one| one.maximum);
        }
        if self.table.has_total && self.shown.extremes {
            let own = line.metric.metric.desc.units;
            match statistics {
                Some(one) => self.grid.cell(|text| text.push_str(&scaled(one.sum, own))),
                None => self.grid.format(format_args!("{MISSING}")),
            }
        }
        if self.shown.counts {
            match counted {
                Some(counted) => self.grid.format(format_args!("{:.0}", counted.count)),
                None => self.grid.format(format_args!("{MISSING}")),
            }
        }
        if self.shown.samples {
            self.grid.format(format_args!("{}", statistics.map_or(0, |one| one.count)));
        }
        self.grid.cell(|text| text.push_str(&shown(title)));
    }

    fn push_number(&mut self, number: Option<f64>, unit: Option<&ColumnUnit>) {
        match number.zip(unit) {
            Some((number, unit)) => self.grid.cell(|text| text.push_str(&unit.format(number))),
            None => self.grid.format(format_args!("{MISSING}")),
        }
    }

    fn push_time(&mut self, statistics: Option<&Statistics>, extreme: fn(&Statistics) -> Extreme) {
        if !self.table.has_times {
            return;
        }
        let zone = self.table.zone;
        let format = if self.table.is_one_day() { "%T" } else { "%F %T" };
        match statistics {
            Some(one) => {
                self.grid.cell(|text| text.push_str(&zone.strftime(extreme(one).at, format)));
            }
            None => self.grid.format(format_args!("{MISSING}")),
        }
    }
}

/// Returns the name of the metric of a line without what all names have in common.
fn rest<'l>(line: &'l Line<'_>, common: &str) -> &'l str {
    let name = line.metric.metric.name.as_str();
    let rest = name.strip_prefix(common).unwrap_or(name);
    rest.strip_prefix('.').unwrap_or(rest)
}

//! The table of a summary with exact numbers.
//!
//! A line for each instance has its whole name, numbers with a fixed number of digits, and units.

use mmv_chart::Grid;
use pcp_archive::summary::Extreme;

use super::quantiles::CountedValues;
use super::{Line, MISSING, quantile_title};
use crate::Failure;
use crate::text::{Output, shown};
use crate::time::{Window, Zone};

pub(super) struct ExactTable<'o> {
    /// The quantiles of histograms.
    pub(super) ranks: &'o [f64],
    /// The times of minimum and maximum are columns.
    pub(super) has_times: bool,
    pub(super) has_total: bool,
    /// Digits after the decimal point.
    pub(super) places: usize,
    pub(super) window: Window,
    pub(super) zone: &'o Zone,
}

/// The kinds of lines in a table, which have different columns.
#[derive(Debug, Clone, Copy)]
struct LineKinds {
    /// Metrics other than histograms, with statistics of their samples.
    metrics: bool,
    /// Histograms, with the number of values that they counted.
    histograms: bool,
}

impl ExactTable<'_> {
    pub(super) fn write(&self, out: &mut Output, lines: &[Line<'_>]) -> Result<(), Failure> {
        let kinds = LineKinds {
            metrics: lines.iter().any(|line| line.histogram.is_none()),
            histograms: lines.iter().any(|line| line.histogram.is_some()),
        };
        let heads = self.heads(kinds);
        let mut grid = Grid::new(heads.len());
        for head in heads {
            grid.cell(|text| text.push_str(&head));
        }
        for line in lines {
            self.push_line(&mut grid, line, kinds);
        }
        out.rows(&grid)
    }

    fn heads(&self, kinds: LineKinds) -> Vec<String> {
        let mut heads = vec!["Metric", "Time average"];
        if kinds.metrics {
            heads.extend(["Stochastic", "Minimum"]);
            heads.extend(self.has_times.then_some("At"));
            heads.push("Maximum");
            heads.extend(self.has_times.then_some("At"));
            heads.extend(self.has_total.then_some("Total"));
            heads.push("Samples");
        }
        heads.extend(kinds.histograms.then_some("Count"));
        let mut heads: Vec<String> = heads.into_iter().map(str::to_owned).collect();
        heads.extend(self.ranks.iter().map(|rank| quantile_title(*rank)));
        heads.push("Units".to_owned());
        heads
    }

    fn push_line(&self, grid: &mut Grid, line: &Line<'_>, kinds: LineKinds) {
        let statistics = line.statistics;
        let counted = line.histogram.as_ref();
        grid.cell(|text| {
            text.push_str(if line.is_short(self.window) { "*" } else { "" });
            text.push_str(&shown(&line.metric.metric.name));
            if let Some(title) = line.instance_title() {
                text.push_str(&shown(&format!("[{title}]")));
            }
        });
        let average = counted.map(|one| one.rate).or(statistics.map(|one| one.time_average));
        self.push_number(grid, average);
        if kinds.metrics {
            self.push_number(grid, statistics.map(|one| one.stochastic_average));
            self.push_extreme(grid, statistics.map(|one| one.minimum));
            self.push_extreme(grid, statistics.map(|one| one.maximum));
            if self.has_total {
                self.push_number(grid, statistics.map(|one| one.sum));
            }
            match counted {
                Some(_) => grid.format(format_args!("{MISSING}")),
                None => grid.format(format_args!("{}", statistics.map_or(0, |one| one.count))),
            }
        }
        if kinds.histograms {
            match counted {
                Some(counted) => grid.format(format_args!("{:.0}", counted.count)),
                None => grid.format(format_args!("{MISSING}")),
            }
        }
        for place in 0..self.ranks.len() {
            let quantile = counted.and_then(|one| one.quantiles.get(place).copied().flatten());
            self.push_number(grid, quantile);
        }
        grid.cell(|text| {
            text.push_str(&line.units());
            let quantiles = counted.map(CountedValues::units_text);
            if let Some(units) = quantiles.filter(|units| !units.is_empty()) {
                text.push_str(", ");
                text.push_str(&units);
            }
        });
    }

    fn push_number(&self, grid: &mut Grid, number: Option<f64>) {
        let places = self.places;
        match number {
            Some(number) => grid.format(format_args!("{number:.places$}")),
            None => grid.format(format_args!("{MISSING}")),
        }
    }

    fn push_extreme(&self, grid: &mut Grid, extreme: Option<Extreme>) {
        self.push_number(grid, extreme.map(|extreme| extreme.value));
        if !self.has_times {
            return;
        }
        match extreme {
            Some(extreme) => {
                grid.cell(|text| text.push_str(&self.zone.strftime(extreme.at, "%F %T%.3f")));
            }
            None => grid.format(format_args!("{MISSING}")),
        }
    }
}

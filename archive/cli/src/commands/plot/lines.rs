//! Makes the lines of a plot from columns and the rows of a table.

use hashbrown::HashMap;
use mmv_chart::{Line, ranked, sum_of_others, top_by_mean};
use pcp_types::Units;
use pcp_types::scaled::axis_unit;

use super::many::SumOfOthers;
use super::{Reading, Row};
use crate::columns::Column;
use crate::image::Panel;

/// The number of names that fit in all legends of an image.
const LEGEND_LINES: usize = 18;

/// Ratio of a sum to the largest line above which the sum has its own panel.
const MAX_SUM_RATIO: f64 = 3.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineCount {
    /// This number of each metric, and the sum of its others.
    EachMetric(usize),
    /// About this number of each unit, sums included, but at least one of each metric.
    UnitTotal(usize),
    /// All lines that fit into the legends of an image.
    FitLegend,
}

impl LineCount {
    /// Returns the limit on the lines drawn of a metric. It is one more than the given number, since
    /// the sum of a single other line would be that line.
    pub(super) fn max_lines(self) -> usize {
        match self {
            Self::EachMetric(most) | Self::UnitTotal(most) => most.saturating_add(1),
            Self::FitLegend => LEGEND_LINES,
        }
    }
}

/// The distribution of lines among panels.
pub(super) struct Layout<'o, 'a> {
    pub(super) count: LineCount,
    /// Each line has a chart of its own, in the terminal: a panel is a metric, or one instance of a
    /// histogram. Otherwise it is a unit, or a histogram.
    pub(super) is_separate: bool,
    pub(super) keeps_units: bool,
    /// Returns the name of the histogram of which a metric is a quantile.
    pub(super) histogram: &'o dyn Fn(usize) -> Option<&'a str>,
    /// Returns whether a column counts errors: these are drawn before others with larger means,
    /// unless the number of lines of each metric is given.
    pub(super) is_error: &'o dyn Fn(&Column) -> bool,
}

/// A column, and its place in a row.
#[derive(Debug, Clone, Copy)]
struct PlacedColumn<'c> {
    place: usize,
    column: &'c Column,
}

/// The columns of a panel.
type Group<'c> = Vec<PlacedColumn<'c>>;

/// Returns the panels, in the order of the columns. Panels without numbers are left out. Each metric
/// has its largest lines and the sum of its others: different metrics are never added, and none is
/// left out for having small values. Rows may have sums of further columns.
pub(super) fn panels(
    columns: &[Column],
    sums: &[SumOfOthers],
    rows: &[Row],
    layout: &Layout<'_, '_>,
) -> Vec<Panel> {
    let groups = grouped(columns, layout);
    let drawn = |count: LineCount| -> Vec<Panel> {
        let mut panels = Vec::new();
        for (histogram, group) in &groups {
            if let Some(name) = histogram {
                panels.extend(quantile_panel(name, group, rows, count, layout));
                continue;
            }
            let mut lines = largest_lines(group, sums, rows, count, layout.is_error);
            let unit = scale_lines(&mut lines, group, layout.keeps_units);
            let unit = heading(&unit, group, groups.len());
            panels.extend(separate_sums(Panel { unit, lines, ..with_names(group) }));
        }
        panels.retain(|panel| !panel.lines.is_empty());
        panels.into_iter().map(without_repeated_label).collect()
    };
    if layout.count != LineCount::FitLegend {
        return drawn(layout.count);
    }
    let panels = drawn(fitting(groups.len()));
    // A separate panel for sums leaves less room for names.
    if panels.len() > groups.len() { drawn(fitting(panels.len())) } else { panels }
}

/// Returns the columns of each panel, and the histogram of which they are quantiles.
fn grouped<'c, 'a>(
    columns: &'c [Column],
    layout: &Layout<'_, 'a>,
) -> Vec<(Option<&'a str>, Group<'c>)> {
    let mut groups: Vec<(Option<&'a str>, Group<'c>)> = Vec::new();
    let mut places = HashMap::new();
    for (place, column) in columns.iter().enumerate() {
        let histogram = (layout.histogram)(column.metric);
        let metric = Some(column.metric).filter(|_| layout.is_separate && histogram.is_none());
        let instance = column.instance_name.as_deref();
        let instance = instance.filter(|_| layout.is_separate && histogram.is_some());
        let key = (column.scale.units.as_str(), histogram, metric, instance);
        let group = *places.entry(key).or_insert(groups.len());
        if group == groups.len() {
            groups.push((histogram, Vec::new()));
        }
        if let Some((_, columns)) = groups.get_mut(group) {
            columns.push(PlacedColumn { place, column });
        }
    }
    groups
}

fn with_names(group: &Group<'_>) -> Panel {
    let mut metrics: Vec<String> = group.iter().map(|one| one.column.name.clone()).collect();
    metrics.dedup();
    Panel { metrics, ..Panel::default() }
}

/// Returns the panel of a histogram: all quantiles of one without instances, or else the last one of
/// each instance. A sum of quantiles means nothing.
fn quantile_panel(
    histogram: &str,
    group: &Group<'_>,
    rows: &[Row],
    count: LineCount,
    layout: &Layout<'_, '_>,
) -> Option<Panel> {
    let instance = group.first()?.column.instance_name.as_deref();
    let is_histogram = group.iter().all(|one| one.column.instance_name.as_deref() == instance);
    let mut title = histogram.to_owned();
    if is_histogram {
        if let Some(instance) = instance {
            title = format!("{histogram} [{instance}]");
        }
        let mut lines = Vec::new();
        for PlacedColumn { place, column } in group {
            let quantile = column.name.get(histogram.len() + 1..).unwrap_or_default();
            lines.push(line(*place, rows, quantile.to_owned()));
        }
        lines.reverse();
        let mut lines = ranked(lines);
        let unit = scale_lines(&mut lines, group, layout.keeps_units);
        return Some(Panel {
            unit: named(&title, &unit),
            lines,
            is_histogram,
            ..with_names(group)
        });
    }
    let highest = group.iter().map(|one| one.column.metric).max()?;
    let group: Group<'_> =
        group.iter().filter(|one| one.column.metric == highest).copied().collect();
    if let Some(quantile) = group.first()?.column.name.get(histogram.len() + 1..) {
        title = format!("{histogram} {quantile}");
    }
    let mut lines = ranked(lines(&group, rows, 0));
    let most = match count {
        LineCount::EachMetric(most) => most,
        LineCount::UnitTotal(most) => most.max(3),
        LineCount::FitLegend => LEGEND_LINES,
    };
    lines.truncate(most);
    // One line has no legend.
    if let [only] = lines.as_slice() {
        title = format!("{title} [{}]", only.label);
    }
    let unit = scale_lines(&mut lines, &group, layout.keeps_units);
    Some(Panel { unit: named(&title, &unit), lines, ..with_names(&group) })
}

fn scale_lines(lines: &mut [Line], group: &Group<'_>, keeps_units: bool) -> String {
    let Some(first) = group.first() else { return String::new() };
    let own = first.column.scale.units.clone();
    let largest = lines.iter().map(largest_value).fold(0.0, f64::max);
    let units: Option<Units> = own.parse().ok().filter(|_| !keeps_units);
    let Some((size, unit)) = units.and_then(|units| axis_unit(largest, units)) else { return own };
    for line in lines {
        for value in line.points.iter_mut().filter_map(|(_, value)| value.as_mut()) {
            *value /= size;
        }
        for (least, greatest) in line.spreads.iter_mut().flatten() {
            *least /= size;
            *greatest /= size;
        }
    }
    unit
}

fn fitting(panels: usize) -> LineCount {
    LineCount::UnitTotal((LEGEND_LINES / panels.max(1)).clamp(4, 13))
}

/// Returns the largest lines of each metric of a group, after those of errors, and the sum of its
/// others, the metric with the largest line first.
fn largest_lines(
    group: &[PlacedColumn<'_>],
    sums: &[SumOfOthers],
    rows: &[Row],
    count: LineCount,
    is_error: &dyn Fn(&Column) -> bool,
) -> Vec<Line> {
    let shared = shared_prefix(group);
    let mut metrics: Vec<(&Column, Vec<Line>)> = Vec::new();
    let mut errors: HashMap<usize, Vec<Line>> = HashMap::new();
    for (PlacedColumn { column, .. }, line) in group.iter().zip(lines(group, rows, shared)) {
        if line.mean().is_none() {
            continue;
        }
        let place = metrics.iter().position(|(other, _)| other.metric == column.metric);
        let place = place.unwrap_or_else(|| {
            metrics.push((column, Vec::new()));
            metrics.len() - 1
        });
        if !matches!(count, LineCount::EachMetric(_)) && is_error(column) {
            errors.entry(column.metric).or_default().push(line);
        } else if let Some((_, lines)) = metrics.get_mut(place) {
            lines.push(line);
        }
    }
    let top = match count {
        LineCount::EachMetric(top) => top,
        LineCount::UnitTotal(most) => {
            let sizes = metrics.iter().map(|(column, lines)| {
                let others = sums.iter().find(|sum| sum.metric == column.metric);
                let of_errors = errors.get(&column.metric).map_or(0, Vec::len);
                lines.len() + of_errors + others.map_or(0, |sum| sum.count)
            });
            let sizes: Vec<usize> = sizes.collect();
            lines_per_metric(&sizes, most)
        }
        LineCount::FitLegend => usize::MAX - 1,
    };
    let has_several = !is_one_metric(group);
    let mut largest: Vec<Vec<Line>> = Vec::new();
    for (column, mut lines) in metrics {
        let mut of_errors = ranked(errors.remove(&column.metric).unwrap_or_default());
        lines.extend(of_errors.split_off(top.min(of_errors.len())));
        let top = top - of_errors.len();
        let of_others = match sums.iter().find(|sum| sum.metric == column.metric) {
            Some(sum) => top_with_sum(lines, top, sum, rows),
            None => top_by_mean(lines, top),
        };
        let mut lines = of_errors;
        lines.extend(of_others);
        if let Some(sum) = lines.last_mut().filter(|line| line.is_sum && has_several) {
            let name = column.name.get(shared..).unwrap_or(&column.name);
            sum.label = format!("{name} [{}]", sum.label);
        }
        largest.push(lines);
    }
    largest.sort_by(|one, other| {
        let [one, other] =
            [one, other].map(|lines| lines.first().and_then(Line::mean).unwrap_or(f64::MIN));
        other.total_cmp(&one)
    });
    largest.concat()
}

/// Returns the largest lines of a metric and the sum of its others, of which some are summed
/// already.
fn top_with_sum(lines: Vec<Line>, top: usize, sum: &SumOfOthers, rows: &[Row]) -> Vec<Line> {
    let mut lines = ranked(lines);
    let mut others = lines.split_off(top.min(lines.len()));
    let count = others.len() + sum.count;
    others.push(Line {
        label: String::new(),
        points: points(rows, sum.place),
        spreads: Vec::new(),
        is_sum: true,
    });
    lines.extend(sum_of_others(&others, count));
    lines
}

fn reading_at(numbers: &[Option<Reading>], place: usize) -> Option<Reading> {
    numbers.get(place).copied().flatten()
}

fn points(rows: &[Row], place: usize) -> Vec<(f64, Option<f64>)> {
    let mut points = Vec::new();
    for (seconds, numbers) in rows {
        points.push((*seconds, reading_at(numbers, place).map(|reading| reading.value)));
    }
    points
}

/// Returns the number of lines of each metric besides the sum of its others, so that metrics with
/// these numbers of lines have at most `most` together; at least 1.
fn lines_per_metric(sizes: &[usize], most: usize) -> usize {
    let fits = (2..most).take_while(|top| {
        let total: usize = sizes.iter().map(|size| (top + 1).min(*size)).sum();
        total <= most
    });
    fits.last().unwrap_or(1)
}

fn largest_value(line: &Line) -> f64 {
    line.points.iter().filter_map(|(_, value)| value.map(f64::abs)).fold(0.0, f64::max)
}

/// Puts sums that are so large that the other lines would be flat into a panel of their own.
fn separate_sums(mut panel: Panel) -> Vec<Panel> {
    let lines = panel.lines.iter().filter(|line| !line.is_sum);
    let limit = MAX_SUM_RATIO * lines.map(largest_value).fold(0.0, f64::max);
    let lines: Vec<Line> =
        panel.lines.extract_if(.., |line| line.is_sum && largest_value(line) > limit).collect();
    if panel.lines.is_empty() {
        panel.lines = lines;
        return vec![panel];
    }
    if lines.is_empty() {
        return vec![panel];
    }
    let metrics = panel.metrics.clone();
    let sums = Panel { unit: panel.unit.clone(), lines, metrics, ..Panel::default() };
    vec![panel, sums]
}

/// Removes the label of a single line if the heading contains it.
fn without_repeated_label(mut panel: Panel) -> Panel {
    if let ([line], Some((name, _))) = (panel.lines.as_mut_slice(), panel.unit.split_once(": "))
        && name.ends_with(&line.label)
    {
        line.label.clear();
    }
    panel
}

/// Returns the unit, after the name of the metric if that is the only one in this panel but not in
/// the plot.
fn heading(unit: &str, group: &[PlacedColumn<'_>], panels: usize) -> String {
    match group.first() {
        Some(first) if panels > 1 && is_one_metric(group) => named(&first.column.name, unit),
        _ => unit.to_owned(),
    }
}

fn named(name: &str, unit: &str) -> String {
    if unit.is_empty() { name.to_owned() } else { format!("{name}: {unit}") }
}

/// Returns the lines of columns whose names share their first bytes.
fn lines(group: &[PlacedColumn<'_>], rows: &[Row], shared: usize) -> Vec<Line> {
    let is_one_metric = is_one_metric(group);
    let mut lines = Vec::new();
    for PlacedColumn { place, column } in group {
        lines.push(line(*place, rows, label(column, is_one_metric, shared)));
    }
    lines
}

fn line(place: usize, rows: &[Row], label: String) -> Line {
    Line {
        label,
        points: points(rows, place),
        spreads: rows.iter().map(|(_, numbers)| reading_at(numbers, place)?.spread).collect(),
        is_sum: false,
    }
}

fn is_one_metric(group: &[PlacedColumn<'_>]) -> bool {
    let mut metrics = group.iter().map(|one| one.column.metric);
    let first = metrics.next();
    metrics.all(|metric| Some(metric) == first)
}

/// Returns the instance if there is only one metric, else the part of the metric's name that is not
/// shared, and the instance.
fn label(column: &Column, is_one_metric: bool, shared: usize) -> String {
    let name = column.name.get(shared..).unwrap_or(&column.name);
    match &column.instance_name {
        Some(instance) if is_one_metric => instance.to_string(),
        Some(instance) => format!("{name} [{instance}]"),
        None => name.to_owned(),
    }
}

/// Returns the length of the leading parts that all names share, with their dots and without the
/// last part.
fn shared_prefix(columns: &[PlacedColumn<'_>]) -> usize {
    let Some(PlacedColumn { column: first, .. }) = columns.first() else { return 0 };
    let ends = first.name.match_indices('.').map(|(dot, _)| dot + 1);
    let shared = ends.take_while(|end| {
        let prefix = first.name.get(..*end).unwrap_or_default();
        columns.iter().all(|one| one.column.name.starts_with(prefix))
    });
    shared.last().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(metric: usize, name: &str, instance: Option<&str>) -> Column {
        Column {
            metric,
            instance: None,
            number: None,
            name: name.to_owned(),
            instance_name: instance.map(Into::into),
            labels: crate::columns::Labels::new(),
            scale: crate::columns::Scale::default(),
        }
    }

    fn line(label: &str, value: f64, is_sum: bool) -> Line {
        Line {
            label: label.to_owned(),
            points: vec![(0.0, Some(value)), (1.0, None)],
            is_sum,
            ..Line::default()
        }
    }

    #[test]
    fn a_sum_that_would_press_the_lines_flat_has_its_own_panel() {
        let panels = |sum| {
            let lines = vec![line("a", -10.0, false), line("2 others, summed", sum, true)];
            let panels =
                separate_sums(Panel { unit: "byte".to_owned(), lines, ..Panel::default() });
            panels.iter().map(|panel| panel.lines.len()).collect::<Vec<_>>()
        };
        assert_eq!((panels(30.0), panels(31.0)), (vec![2], vec![1, 1]));
        let sum =
            Panel { unit: String::new(), lines: vec![line("all", 1.0, true)], ..Panel::default() };
        assert_eq!(separate_sums(sum.clone()), [sum]);
    }

    fn layout(count: LineCount) -> Layout<'static, 'static> {
        let is_error = &|column: &Column| column.instance_name.as_deref() == Some("code=500");
        let histogram = &|_| None;
        Layout { count, is_separate: false, keeps_units: false, histogram, is_error }
    }

    fn row(values: &[f64]) -> [Row; 1] {
        [(0.0, values.iter().map(|value| Some(Reading { value: *value, spread: None })).collect())]
    }

    #[test]
    fn no_metric_is_left_out_or_added_to_another() {
        let mut columns = vec![column(0, "q.stock", None), column(1, "q.threads", None)];
        columns.extend((0..9).map(|n| column(2, "q.jobs", Some(["a", "b", "c"][n % 3]))));
        columns.extend(["x", "y"].map(|name| column(3, "q.errors", Some(name))));
        let values = [5000.0, 8.0, 20.0, 19.0, 18.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 0.1, 0.2];
        let rows = row(&values);
        let labels = |count| -> Vec<String> {
            let panels = panels(&columns, &[], &rows, &layout(count));
            let lines = panels.into_iter().flat_map(|panel| panel.lines);
            lines.map(|line| line.label).collect()
        };
        let few = ["stock", "jobs [a]", "jobs [8 others, summed]", "threads", "errors [y]"];
        assert_eq!(labels(LineCount::UnitTotal(5)), [&few[..], &["errors [x]"]].concat());
        let most = ["stock", "jobs [a]", "jobs [b]", "jobs [7 others, summed]", "threads"];
        let errors = ["errors [y]", "errors [x]"];
        assert_eq!(labels(LineCount::EachMetric(2)), [&most[..], &errors].concat());
        assert_eq!(labels(LineCount::FitLegend).len(), 13);
    }

    #[test]
    fn errors_come_before_larger_lines_and_are_not_summed() {
        let names = ["code=200", "code=201", "code=202", "code=500", "code=203", "code=204"];
        let columns: Vec<Column> =
            names.iter().map(|name| column(0, "q.requests", Some(name))).collect();
        let rows = row(&[90.0, 80.0, 70.0, 1.0, 60.0, 50.0]);
        let labels = |count| -> Vec<String> {
            let panels = panels(&columns, &[], &rows, &layout(count));
            let lines = panels.into_iter().flat_map(|panel| panel.lines);
            lines.map(|line| line.label).collect()
        };
        let few = labels(LineCount::UnitTotal(3));
        assert_eq!(few, ["code=500", "code=200", "4 others, summed"]);
        let largest = labels(LineCount::EachMetric(2));
        assert_eq!(largest, ["code=200", "code=201", "4 others, summed"]);
    }

    #[test]
    fn large_sums_of_several_metrics_share_a_panel() {
        let names: Vec<String> = (0..30).map(|n| n.to_string()).collect();
        let of = |metric: usize, name: &'static str| {
            names.iter().map(move |instance| column(metric, name, Some(instance)))
        };
        let columns: Vec<Column> = of(0, "q.jobs").chain(of(1, "q.errors")).collect();
        let panels = panels(&columns, &[], &row(&[1.0; 60]), &layout(LineCount::EachMetric(2)));
        let lines: Vec<Vec<&str>> = panels
            .iter()
            .map(|panel| panel.lines.iter().map(|line| line.label.as_str()).collect())
            .collect();
        assert_eq!(lines[0].len(), 4);
        assert_eq!(lines[1], ["jobs [28 others, summed]", "errors [28 others, summed]"]);
    }

    /// Comparing each line with all others would take minutes.
    #[test]
    fn lines_of_many_instances_take_linear_time() {
        let columns = vec![column(0, "q.jobs", Some("a")); 200_000];
        let begun = std::time::Instant::now();
        let rows = row(&vec![1.0; columns.len()]);
        let panels = panels(&columns, &[], &rows, &layout(LineCount::EachMetric(2)));
        assert_eq!(panels.iter().map(|panel| panel.lines.len()).sum::<usize>(), 3);
        assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
    }

    #[test]
    fn number_of_lines_of_a_metric_follows_from_its_numbers() {
        assert_eq!(lines_per_metric(&[50], 5), 4);
        assert_eq!(lines_per_metric(&[50, 1, 1], 7), 4);
        assert_eq!(lines_per_metric(&[50, 50], 6), 2);
        assert_eq!(lines_per_metric(&[1; 40], 5), 1);
        assert_eq!(lines_per_metric(&[50; 9], 5), 1);
    }

    #[test]
    fn what_the_heading_names_is_not_named_again() {
        let label = |unit: &str, lines: Vec<Line>| {
            without_repeated_label(Panel { unit: unit.to_owned(), lines, ..Panel::default() }).lines
                [0]
            .label
            .clone()
        };
        let used = || line("used", 1.0, false);
        assert_eq!(label("mem.used: byte", vec![used()]), "");
        assert_eq!(label("byte", vec![used()]), "used");
        assert_eq!(label("mem.used: byte", vec![used(), used()]), "used");
    }

    #[test]
    fn labels_leave_out_what_all_lines_share() {
        let labels = |columns: &[Column]| -> Vec<String> {
            let columns = columns.iter().enumerate();
            let columns: Group<'_> =
                columns.map(|(place, column)| PlacedColumn { place, column }).collect();
            let shared = shared_prefix(&columns);
            let one = is_one_metric(&columns);
            columns.iter().map(|placed| label(placed.column, one, shared)).collect()
        };
        let one =
            [column(0, "disk.dev.read", Some("sda")), column(0, "disk.dev.read", Some("sdb"))];
        assert_eq!(labels(&one), ["sda", "sdb"]);
        let two = [column(0, "disk.dev.read", Some("sda")), column(1, "disk.all.read", None)];
        assert_eq!(labels(&two), ["dev.read [sda]", "all.read"]);
        assert_eq!(labels(&[column(0, "level", None)]), ["level"]);
        assert_eq!(labels(&[column(0, "a.b", None), column(1, "c.b", None)]), ["a.b", "c.b"]);
    }
}

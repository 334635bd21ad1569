//! Makes the lines of a plot from columns and the rows of a table.

use mmv_chart::{Line, ranked, top_by_mean};

use super::{Reading, Row};
use crate::columns::Column;
use crate::image::Panel;

/// The number of names that fit in all legends of an image.
const LEGEND_LINES: usize = 18;

/// A sum larger than the largest line times this has a panel of its own.
const MAX_SUM_RATIO: f64 = 3.0;

/// A panel for each unit and each histogram, in the order of the columns, with its `top` largest lines
/// and the sum of the others. Units without numbers have no panel. Without `top`
/// there are as many lines as the legends have room for.
pub(super) fn panels<'a>(
    columns: &[Column],
    rows: &[Row],
    top: Option<usize>,
    histogram: &dyn Fn(usize) -> Option<&'a str>,
) -> Vec<Panel> {
    type Key<'k> = (&'k str, Option<&'k str>);
    let mut groups: Vec<(Key<'_>, Vec<(usize, &Column)>)> = Vec::new();
    for (place, column) in columns.iter().enumerate() {
        let key = (column.scale.units.as_str(), histogram(column.metric));
        match groups.iter_mut().find(|(other, _)| *other == key) {
            Some((_, group)) => group.push((place, column)),
            None => groups.push((key, vec![(place, column)])),
        }
    }
    let drawn = |top: usize| -> Vec<Panel> {
        let panels = groups.iter().flat_map(|((unit, histogram), group)| {
            let Some(histogram) = histogram else {
                let unit = heading(unit, group, groups.len());
                let lines = top_by_mean(lines(group, rows, shared_prefix(group)), top);
                return separate_sum(Panel { unit, lines, is_histogram: false, heat: Vec::new() });
            };
            // A sum of quantiles means nothing.
            let mut lines = lines(group, rows, histogram.len() + 1);
            lines.reverse();
            let mut lines = ranked(lines);
            lines.truncate(top.max(3));
            let is_histogram = group.iter().all(|(_, column)| column.instance.is_none());
            vec![Panel { unit: named(histogram, unit), lines, is_histogram, heat: Vec::new() }]
        });
        panels.filter(|panel| !panel.lines.is_empty()).map(without_repeated_label).collect()
    };
    if let Some(top) = top {
        return drawn(top);
    }
    let panels = drawn(fitting(groups.len()));
    // A separate panel for a sum leaves less room for names.
    if panels.len() > groups.len() { drawn(fitting(panels.len())) } else { panels }
}

/// The number of lines that the legend of a panel has room for, next to the sum.
fn fitting(panels: usize) -> usize {
    (LEGEND_LINES / panels.max(1)).clamp(4, 13) - 1
}

/// Puts a sum into a panel of its own if it is so large that the other lines would
/// be flat.
fn separate_sum(mut panel: Panel) -> Vec<Panel> {
    let largest = |lines: &[Line]| {
        let points = lines.iter().flat_map(|line| &line.points);
        points.filter_map(|(_, value)| value.map(f64::abs)).fold(0.0, f64::max)
    };
    let Some((sum, lines)) = panel.lines.split_last().filter(|(sum, _)| sum.is_sum) else {
        return vec![panel];
    };
    if lines.is_empty() || largest(std::slice::from_ref(sum)) <= MAX_SUM_RATIO * largest(lines) {
        return vec![panel];
    }
    let lines = panel.lines.pop().into_iter().collect();
    let sum = Panel { unit: panel.unit.clone(), lines, is_histogram: false, heat: Vec::new() };
    vec![panel, sum]
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

/// The unit, after the name of the metric if that is the only one in this panel but
/// not in the plot.
fn heading(unit: &str, group: &[(usize, &Column)], panels: usize) -> String {
    match group.first() {
        Some((_, first)) if panels > 1 && is_one_metric(group) => named(&first.name, unit),
        _ => unit.to_owned(),
    }
}

/// A name and the unit, if there is one.
fn named(name: &str, unit: &str) -> String {
    if unit.is_empty() { name.to_owned() } else { format!("{name}: {unit}") }
}

/// The lines of columns whose names share their first bytes.
fn lines(group: &[(usize, &Column)], rows: &[Row], shared: usize) -> Vec<Line> {
    let at = |numbers: &[Option<Reading>], place| numbers.get(place).copied().flatten();
    let line = |(place, column): &(usize, &Column)| Line {
        label: label(column, is_one_metric(group), shared),
        points: rows
            .iter()
            .map(|(seconds, numbers)| (*seconds, at(numbers, *place).map(|reading| reading.value)))
            .collect(),
        spreads: rows.iter().map(|(_, numbers)| at(numbers, *place)?.spread).collect(),
        is_sum: false,
    };
    group.iter().map(line).collect()
}

fn is_one_metric(group: &[(usize, &Column)]) -> bool {
    let mut metrics = group.iter().map(|(_, column)| column.metric);
    let first = metrics.next();
    metrics.all(|metric| Some(metric) == first)
}

/// The instance if there is only one metric, else the part of the metric's name that
/// is not shared, and the instance.
fn label(column: &Column, is_one_metric: bool, shared: usize) -> String {
    let name = column.name.get(shared..).unwrap_or(&column.name);
    match &column.instance_name {
        Some(instance) if is_one_metric => instance.to_string(),
        Some(instance) => format!("{name} [{instance}]"),
        None => name.to_owned(),
    }
}

/// The length of the leading parts that all names share, with their dots and
/// without the last part.
fn shared_prefix(columns: &[(usize, &Column)]) -> usize {
    let Some((_, first)) = columns.first() else { return 0 };
    let ends = first.name.match_indices('.').map(|(dot, _)| dot + 1);
    let is_shared = |end: &usize| {
        let prefix = first.name.get(..*end).unwrap_or_default();
        columns.iter().all(|(_, column)| column.name.starts_with(prefix))
    };
    ends.take_while(is_shared).last().unwrap_or(0)
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
            let panels = separate_sum(Panel {
                unit: "byte".to_owned(),
                lines,
                is_histogram: false,
                heat: Vec::new(),
            });
            panels.iter().map(|panel| panel.lines.len()).collect::<Vec<_>>()
        };
        assert_eq!((panels(30.0), panels(31.0)), (vec![2], vec![1, 1]));
        let sum = Panel {
            unit: String::new(),
            lines: vec![line("all", 1.0, true)],
            is_histogram: false,
            heat: Vec::new(),
        };
        assert_eq!(separate_sum(sum.clone()), [sum]);
    }

    #[test]
    fn what_the_heading_names_is_not_named_again() {
        let label = |unit: &str, lines: Vec<Line>| {
            without_repeated_label(Panel {
                unit: unit.to_owned(),
                lines,
                is_histogram: false,
                heat: Vec::new(),
            })
            .lines[0]
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
            let columns: Vec<(usize, &Column)> = columns.iter().enumerate().collect();
            let (shared, one) = (shared_prefix(&columns), is_one_metric(&columns));
            columns.iter().map(|(_, column)| label(column, one, shared)).collect()
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

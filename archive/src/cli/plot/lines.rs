//! From columns and samples to the lines of a plot.

use super::Clock;
use crate::chart::{Line, top_by_mean};
use crate::cli::columns::{Column, cell};
use crate::picture::Panel;
use crate::replay::Sample;

/// So many names fit below each other, all panels of a picture together.
const ROOM: usize = 18;

/// A sum may be so many times as large as the largest line beside it.
const MOST_OF_SUM: f64 = 3.0;

/// A panel for each unit, in the order in which the units come; of each the
/// `top` largest lines and the sum of the others. Units without any number
/// have no panel. Without `top` as many lines as the names of all have room.
pub(super) fn panels(
    columns: &[Column],
    samples: &[Sample<'_>],
    clock: &Clock,
    top: Option<usize>,
) -> Vec<Panel> {
    let mut groups: Vec<(&str, Vec<&Column>)> = Vec::new();
    for column in columns {
        let unit = column.scale.units.as_str();
        match groups.iter_mut().find(|(other, _)| *other == unit) {
            Some((_, group)) => group.push(column),
            None => groups.push((unit, vec![column])),
        }
    }
    let drawn = |top: usize| -> Vec<Panel> {
        let panels = groups.iter().flat_map(|(unit, group)| {
            let unit = heading(unit, group, groups.len());
            apart(Panel { unit, lines: top_by_mean(lines(group, samples, clock), top) })
        });
        panels.filter(|panel| !panel.lines.is_empty()).map(name_once).collect()
    };
    if let Some(top) = top {
        return drawn(top);
    }
    let panels = drawn(fitting(groups.len()));
    // A sum apart takes room from the names of all.
    if panels.len() > groups.len() { drawn(fitting(panels.len())) } else { panels }
}

/// How many lines of a panel have room for their names, one for their sum left.
fn fitting(panels: usize) -> usize {
    (ROOM / panels.max(1)).clamp(4, 13) - 1
}

/// Puts the sum of many lines into a panel of its own if it is so large that the
/// lines would lie flat on the axis below it.
fn apart(mut panel: Panel) -> Vec<Panel> {
    let largest = |lines: &[Line]| {
        let points = lines.iter().flat_map(|line| &line.points);
        points.filter_map(|(_, value)| value.map(f64::abs)).fold(0.0, f64::max)
    };
    let Some((sum, lines)) = panel.lines.split_last().filter(|(sum, _)| sum.is_sum) else {
        return vec![panel];
    };
    if lines.is_empty() || largest(std::slice::from_ref(sum)) <= MOST_OF_SUM * largest(lines) {
        return vec![panel];
    }
    let sum = Panel { unit: panel.unit.clone(), lines: panel.lines.pop().into_iter().collect() };
    vec![panel, sum]
}

/// Takes the name from a line that the heading names.
fn name_once(mut panel: Panel) -> Panel {
    if let ([line], Some((name, _))) = (panel.lines.as_mut_slice(), panel.unit.split_once(": "))
        && name.ends_with(&line.label)
    {
        line.label.clear();
    }
    panel
}

/// The unit, with the name of the metric in front if it is the only one of this
/// panel but not of the plot.
fn heading(unit: &str, group: &[&Column], panels: usize) -> String {
    match group.first() {
        Some(first) if panels > 1 && is_one_metric(group) => match unit {
            "" => first.name.clone(),
            unit => format!("{}: {unit}", first.name),
        },
        _ => unit.to_owned(),
    }
}

fn lines(group: &[&Column], samples: &[Sample<'_>], clock: &Clock) -> Vec<Line> {
    let shared = shared_prefix(group);
    let line = |column: &&Column| Line {
        label: label(column, is_one_metric(group), shared),
        points: samples
            .iter()
            .map(|sample| {
                let value = cell(sample, column).and_then(|value| value.as_f64());
                (clock.seconds(sample.timestamp), value)
            })
            .collect(),
        is_sum: false,
    };
    group.iter().map(line).collect()
}

fn is_one_metric(group: &[&Column]) -> bool {
    group.windows(2).all(|pair| pair.first().map(|c| c.metric) == pair.last().map(|c| c.metric))
}

/// The instance alone where there is but one metric; else the part of the
/// metric's name that is not the same for all, and the instance.
fn label(column: &Column, is_one_metric: bool, shared: usize) -> String {
    let name = column.name.get(shared..).unwrap_or(&column.name);
    match &column.instance_name {
        Some(instance) if is_one_metric => instance.to_string(),
        Some(instance) => format!("{name} [{instance}]"),
        None => name.to_owned(),
    }
}

/// The length of the leading parts, dots included, that all names share. The
/// last part of a name is never among them.
fn shared_prefix(columns: &[&Column]) -> usize {
    let Some(first) = columns.first() else { return 0 };
    let ends = first.name.match_indices('.').map(|(dot, _)| dot + 1);
    let is_shared = |end: &usize| {
        let prefix = first.name.get(..*end).unwrap_or_default();
        columns.iter().all(|column| column.name.starts_with(prefix))
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
            name: name.to_owned(),
            instance_name: instance.map(Into::into),
            scale: crate::cli::columns::Scale::default(),
        }
    }

    fn line(label: &str, value: f64, is_sum: bool) -> Line {
        Line { label: label.to_owned(), points: vec![(0.0, Some(value)), (1.0, None)], is_sum }
    }

    #[test]
    fn a_sum_that_would_press_the_lines_flat_has_its_own_panel() {
        let panels = |sum| {
            let lines = vec![line("a", -10.0, false), line("2 others, summed", sum, true)];
            let panels = apart(Panel { unit: "byte".to_owned(), lines });
            panels.iter().map(|panel| panel.lines.len()).collect::<Vec<_>>()
        };
        assert_eq!((panels(30.0), panels(31.0)), (vec![2], vec![1, 1]));
        let sum = Panel { unit: String::new(), lines: vec![line("all", 1.0, true)] };
        assert_eq!(apart(sum.clone()), [sum]);
    }

    #[test]
    fn what_the_heading_names_is_not_named_again() {
        let label = |unit: &str, lines: Vec<Line>| {
            name_once(Panel { unit: unit.to_owned(), lines }).lines[0].label.clone()
        };
        let used = || line("used", 1.0, false);
        assert_eq!(label("mem.used: byte", vec![used()]), "");
        assert_eq!(label("byte", vec![used()]), "used");
        assert_eq!(label("mem.used: byte", vec![used(), used()]), "used");
    }

    #[test]
    fn labels_leave_out_what_all_lines_share() {
        let labels = |columns: &[Column]| -> Vec<String> {
            let columns: Vec<&Column> = columns.iter().collect();
            let (shared, one) = (shared_prefix(&columns), is_one_metric(&columns));
            columns.iter().map(|column| label(column, one, shared)).collect()
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
